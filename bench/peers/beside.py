"""One question put to ours and to what one would use instead: the same data, the same answers, turn by turn.

Peers are set up here as a user would who has no more than their manual. What is not there is passed over with the
reason.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from statistics import median
from typing import Any, TypeVar

from bench.process import Failed
from bench.race import Contender, race
from bench.report import Report, count, ratio

POSTGRES = os.environ.get("RANKCAST_PEER_POSTGRES", "postgresql://root@127.0.0.1:5432/test")

Data = TypeVar("Data")
Answer = Callable[[Any], Any]
"""What a peer answers to one question."""


class Missing(Exception):
    """A peer is not there; says what it needs."""


def beside(
    report: Report,
    ours: Contender,
    peers: Mapping[str, Callable[[Data, ExitStack], Answer]],
    data: Data,
    asked: Sequence[Any],
    right: Sequence[Any],
    rounds: int,
    intro: str,
    by_thread: frozenset[str] = frozenset(),
) -> dict[str, float]:
    """Race ours with all peers that are there; returns microseconds a question by name, the median of the rounds.

    A peer is set up by `peers`, which raises Missing when it is not there, and asked `asked`, to which `right` are the
    answers. It is timed by the wall, a round trip included; those in `by_thread`, as ours, by their thread. `intro`
    stands before the table.

    Raises:
        Failed: a peer answers something else.
    """
    contenders, skipped = [ours], []
    with ExitStack() as stack:
        for name, make in peers.items():
            report.progress(name)
            try:
                answer = make(data, stack)
            except Missing as missing:
                skipped.append(f"{name}: {missing}.")
                continue
            for one, wanted in zip(asked, right, strict=True):
                found = answer(one)
                if found != wanted:
                    raise Failed(f"{name} answers {found} for {one}, not {wanted}")
            ask = partial(_ask, answer, asked)
            contenders.append(Contender(name, ask, len(asked), by_the_wall=name not in by_thread))
        times = {one.name: median(mine) for one, mine in zip(contenders, race(contenders, rounds), strict=True)}
    report.text(intro)
    report.table(
        ("", "us/event", "ours is faster by"),
        [(name, count(mine), ratio(mine / times[ours.name])) for name, mine in times.items()],
    )
    if skipped:
        report.text("Not there, and passed over.", *skipped)
    return times


def _ask(answer: Answer, asked: Sequence[Any]) -> None:
    for one in asked:
        answer(one)


def package(name: str) -> Any:
    """A package of the extra `peers`. Raises Missing."""
    import importlib

    try:
        return importlib.import_module(name)
    except ImportError:
        raise Missing(f"needs the package {name}, of the extra `peers`") from None


def duckdb_session(stack: ExitStack, table: str, columns: Any) -> Any:
    """A DuckDB of one thread with an Arrow table, closed by the stack. Raises Missing."""
    session = stack.enter_context(package("duckdb").connect())
    session.execute("set threads = 1")
    session.register("columns", columns)
    session.execute(f"create table {table} as select * from columns")
    return session


def postgres_session(stack: ExitStack, schema: str) -> Any:
    """A session of PostgreSQL with a schema of its own, which the stack drops. Raises Missing."""
    try:
        import psycopg
    except ImportError:
        raise Missing("needs the package psycopg, of the extra `postgres`") from None
    try:
        session = stack.enter_context(psycopg.connect(POSTGRES, autocommit=True, connect_timeout=5))
    except psycopg.OperationalError as error:
        raise Missing(f"no server at RANKCAST_PEER_POSTGRES or its usual local port ({str(error).strip()})") from None
    session.execute(f"drop schema if exists {schema} cascade; create schema {schema}")
    stack.callback(session.execute, f"drop schema if exists {schema} cascade")
    session.execute(f"set search_path to {schema}, public")
    return session
