"""One dimension compared with what one would use instead: an interval library and a sort, DuckDB, PostgreSQL.

All answer the same question over ends on a grid of integers, which one of them asks for.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from bench.matchers.scored import SoptRTree
from bench.matchers.workload import K, make_world
from bench.peers.question import Answer, duckdb_session, package, pass_over, postgres_session, race_peers, set_up
from bench.race import Contender
from bench.report import Report
from indexes.core.arrays import Floats, Ints
from indexes.matchers.kernels.table import points

SCHEMA = "rankcast_matchers"

GRID = 1 << 29
"""Cells of a unit of length."""

TIMES_NCLS = 5_000


class Size(NamedTuple):
    """How much is run: intervals, events of ours, and of each peer."""

    n: int = 1_000_000
    events: int = 20_000
    few: int = 50
    rounds: int = 3


QUICK = Size(n=20_000, events=2_000, few=20, rounds=2)


class Intervals(NamedTuple):
    """Intervals [lo, hi] on the grid and their scores; interval i is the i-th created."""

    lo: Ints
    hi: Ints
    score: Floats


def show(report: Report, size: Size) -> None:
    """Race all that are there: an answer is the k best that an event meets. Raises Failed when one answers something
    else than ours."""
    world = make_world(size.n, 1, points=size.events)
    lo, hi, q = (np.floor(column[:, 0] * GRID).astype(np.int64) for column in (world.lo, world.hi, world.points))
    data = Intervals(lo, hi, world.weight[:, 0].copy())
    index = SoptRTree(data.lo, data.hi, data.score)
    events = points(q)
    ours = Contender("SOPT-R-tree", lambda: index.top_many(events, K), size.events)
    report.text(
        f"{size.n:,} intervals of the paper's workload, k = {K}, one event after the other, the median of "
        f"{size.rounds} rounds. Ours and ncls are timed by their thread, the databases by the wall, a round trip "
        "included; DuckDB has one thread. PostgreSQL has a GiST index on ranges and one on the score, and chooses."
    )
    right = index.top_many(events[: size.few], K)[0].tolist()
    with ExitStack() as stack:
        ready, missing = set_up(report, PEERS, data, stack)
        questions = list(zip(q[: size.few].tolist(), right, strict=True))
        times = race_peers(report, ours, ready, questions, size.rounds, frozenset({"ncls"}))
    pass_over(report, missing)
    if "ncls" in times:
        report.verdict(
            f"the SOPT-R-tree at least {TIMES_NCLS:,} times as fast as ncls and a sort",
            f"{times['ncls'] / times[ours.name]:,.0f} times",
            times["ncls"] >= TIMES_NCLS * times[ours.name],
        )


def _ncls(data: Intervals, stack: ExitStack) -> Answer:
    index = package("ncls").NCLS(data.lo, data.hi + 1, np.arange(len(data.lo)))
    nobody = np.zeros(1, np.int64)

    def answer(q: int) -> list[int]:
        _, found = index.all_overlaps_both(np.array([q]), np.array([q + 1]), nobody)
        score = data.score[found]
        if len(found) > K:  # those at least as good as the k-th are enough to sort
            least = -np.partition(-score, K - 1)[K - 1]
            found, score = found[score >= least], score[score >= least]
        return found[np.lexsort((found, -score))][:K].tolist()

    return answer


QUERY = "select id from intervals where {} order by score desc, id limit " + str(K)


def _duckdb(data: Intervals, stack: ExitStack) -> Answer:
    columns = pa.table({"id": np.arange(len(data.lo)), "lo": data.lo, "hi": data.hi, "score": data.score})
    session = duckdb_session(stack, "intervals", columns)
    query = QUERY.format("lo <= ? and hi >= ?")
    return lambda q: [row[0] for row in session.execute(query, [q, q]).fetchall()]


def _postgres(data: Intervals, stack: ExitStack) -> Answer:
    session = postgres_session(stack, SCHEMA)
    session.execute("create table intervals (id int primary key, span int8range not null, score float8 not null)")
    columns: list[Any] = [column.tolist() for column in (data.lo, data.hi, data.score)]
    with session.cursor() as cursor, cursor.copy("copy intervals from stdin") as copy:
        for i, (lo, hi, score) in enumerate(zip(*columns, strict=True)):
            copy.write(f"{i}\t[{lo},{hi}]\t{score!r}\n")
    session.execute("create index on intervals using gist (span); create index on intervals (score desc, id)")
    session.execute("analyze intervals")
    query = QUERY.format("span @> %s::bigint")
    return lambda q: [row[0] for row in session.execute(query, [q]).fetchall()]


PEERS: dict[str, Callable[[Intervals, ExitStack], Answer]] = {"ncls": _ncls, "DuckDB": _duckdb, "PostgreSQL": _postgres}
"""How each peer is set up; raises Missing when it is not there."""
