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
Peer = TypeVar("Peer")
Answer = Callable[[Any], Any]
"""What a peer answers to one question."""


class Missing(Exception):
    """A peer is not there; says what it needs."""


def set_up(
    report: Report, peers: Mapping[str, Callable[[Data, ExitStack], Peer]], data: Data, stack: ExitStack
) -> tuple[dict[str, Peer], list[str]]:
    """Those that are there, by name, and of the others what they need. A maker raises Missing when it is not there."""
    ready: dict[str, Peer] = {}
    missing = []
    for name, make in peers.items():
        report.progress(name)
        try:
            ready[name] = make(data, stack)
        except Missing as reason:
            missing.append(f"{name}: {reason}.")
    return ready, missing


def race_peers(
    report: Report,
    ours: Contender,
    answers: Mapping[str, Answer],
    questions: Sequence[tuple[Any, Any]],
    rounds: int,
    by_thread: frozenset[str],
    read: Callable[[Any], Any] = lambda found: found,
    each: str = "event",
) -> dict[str, float]:
    """Race ours with peers, all asked the same `questions`, given with their answers; adds a table of microseconds for
    each `each`, the median of the rounds, and returns it by name.

    Answers are compared as `read` makes them comparable. Peers are timed by the wall, a round trip included; ours
    and those in `by_thread` by their thread.

    Raises:
        Failed: a peer answers something else.
    """
    contenders = [ours]
    for name, answer in answers.items():
        for one, wanted in questions:
            found = read(answer(one))
            if found != wanted:
                raise Failed(f"{name} answers {found} for {one}, not {wanted}")
        ask = partial(_ask, answer, [one for one, _ in questions])
        contenders.append(Contender(name, ask, len(questions), by_the_wall=name not in by_thread))
    times = {one.name: median(mine) for one, mine in zip(contenders, race(contenders, rounds), strict=True)}
    report.table(
        ("", f"us/{each}", "ours is faster by"),
        [(name, count(mine), ratio(mine / times[ours.name])) for name, mine in times.items()],
    )
    return times


def pass_over(report: Report, missing: Sequence[str]) -> None:
    """Say what is not there."""
    if missing:
        report.text("Not there, and passed over.", *missing)


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
