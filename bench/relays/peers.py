"""Covering and event matching compared with what one would use instead: numpy, an R-tree library, DuckDB, PostgreSQL.

All hold the same boxes, with ends that are whole numbers, which the ranges of one of them ask for.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from bench.peers.question import (
    Answer,
    Missing,
    duckdb_session,
    package,
    pass_over,
    postgres_session,
    race_peers,
    set_up,
)
from bench.race import Contender
from bench.relays.workload import MOST, as_table, columns_of, holding, make_boxes
from bench.report import Report
from indexes.core.arrays import Floats
from indexes.relays.kernels.kd_tree import KdIndex
from indexes.relays.kernels.slabs import SlabIndex

SCHEMAS = "rankcast_relays_cube", "rankcast_relays_ranges"
"""Of the two that PostgreSQL is."""


class Size(NamedTuple):
    """How much is run: boxes of so many attributes, questions to ours, and to each peer."""

    n: int = 100_000
    attributes: int = 4
    questions: int = 1_000
    few: int = 50
    rounds: int = 3


QUICK = Size(n=2_000, questions=100, few=10, rounds=2)


class Boxes(NamedTuple):
    """Boxes [lo, hi], of shape (n, d)."""

    lo: Floats
    hi: Floats


class Peer(NamedTuple):
    """Whether any box contains this one (lo, hi), and which boxes hold this point, in any order."""

    covered: Answer
    met: Answer


def show(report: Report, size: Size) -> None:
    """Race all that are there. Raises Failed when one answers something else than ours."""
    n, d = size.n, size.attributes
    lo, hi = make_boxes(n + size.questions, d)
    data = Boxes(lo[:n], hi[:n])
    points = as_table(lo, hi)
    index = KdIndex(2 * d)
    index.insert(points, np.arange(n, dtype=np.int32))
    slabs = SlabIndex(d)
    slabs.load(points, np.arange(n, dtype=np.int32))
    values = np.random.default_rng(1).integers(0, MOST, (size.questions, d), endpoint=True).astype(np.float64)
    asked = list(zip(lo[n : n + size.few], hi[n : n + size.few], strict=True))
    slots = range(n, n + size.questions)

    def cover() -> list[bool]:
        return [len(index.cover(points, slot, 1)) > 0 for slot in slots]

    def match() -> list[list[int]]:
        found, upto = slabs.containing(points, values)
        return [sorted(part.tolist()) for part in np.split(found, upto[:-1])]

    report.text(
        f"{n:,} boxes in {d} attributes, one question after the other, the median of {size.rounds} rounds. Ours, numpy "
        "and rtree are timed by their thread, the databases by the wall, a round trip included; DuckDB has one thread. "
        "rtree is asked for the boxes that hold the lower corner, of which numpy takes those that hold the upper. "
        "PostgreSQL has a GiST index on a column of `cube`, or one on a column of ranges for each attribute."
    )
    with ExitStack() as stack:
        ready, missing = set_up(report, PEERS, data, stack)
        by_thread = frozenset({"numpy", "rtree"})
        right = cover()[: size.few]
        report.heading("Covering", 3)
        report.text(f"Does anything cover a new box? Of {size.few}, {sum(right)} are covered.")
        ours = Contender("k-d tree", cover, size.questions)
        answers = {name: peer.covered for name, peer in ready.items()}
        race_peers(report, ours, answers, list(zip(asked, right, strict=True)), size.rounds, by_thread, bool, "box")
        met = match()[: size.few]
        report.heading("Event matching", 3)
        report.text(f"Which boxes does an event meet? {np.mean([len(one) for one in met]):,.0f} of them, on average.")
        ours = Contender("slabs", lambda: slabs.containing(points, values), size.questions)
        answers = {name: peer.met for name, peer in ready.items()}
        race_peers(report, ours, answers, list(zip(values, met, strict=False)), size.rounds, by_thread, sorted)
    pass_over(report, missing)


def _numpy(data: Boxes, stack: ExitStack) -> Peer:
    columns = columns_of(data.lo, data.hi)
    return Peer(lambda box: len(holding(columns, *box)) > 0, lambda point: holding(columns, point, point).tolist())


def _rtree(data: Boxes, stack: ExitStack) -> Peer:
    library = package("rtree").index
    n, d = data.lo.shape
    properties = library.Property()
    properties.dimension = d
    index = library.Index((np.arange(n), data.lo, data.hi), properties=properties)

    def met(point: Floats) -> Any:
        return index.intersection_v(point[None], point[None])[0]

    def covered(box: tuple[Floats, Floats]) -> bool:
        return bool((data.hi[met(box[0])] >= box[1]).all(axis=1).any())

    return Peer(covered, lambda point: met(point).tolist())


def _sides(box: tuple[Floats, Floats]) -> list[float]:
    """lo and hi of each attribute in turn."""
    return np.stack(box, axis=1).ravel().tolist()


def _duckdb(data: Boxes, stack: ExitStack) -> Peer:
    d = data.lo.shape[1]
    columns: dict[str, Any] = {"id": np.arange(len(data.lo))}
    for j in range(d):
        columns[f"lo{j}"], columns[f"hi{j}"] = data.lo[:, j].copy(), data.hi[:, j].copy()
    session = duckdb_session(stack, "boxes", pa.table(columns))
    where = " and ".join(f"lo{j} <= ? and hi{j} >= ?" for j in range(d))
    some, all_ = f"select exists (select 1 from boxes where {where})", f"select id from boxes where {where}"
    return Peer(
        lambda box: session.execute(some, _sides(box)).fetchone()[0],
        lambda point: [row[0] for row in session.execute(all_, _sides((point, point))).fetchall()],
    )


def _postgres(session: Any, data: Boxes, columns: str, row: Callable[[Floats, Floats], str], where: str) -> Peer:
    """Boxes in these columns, indexed together: how `row` writes them, and `where` a row contains a box."""
    session.execute(f"create table boxes (id int primary key, {columns})")
    with session.cursor() as cursor, cursor.copy("copy boxes from stdin") as copy:
        for i, (lo, hi) in enumerate(zip(data.lo, data.hi, strict=True)):
            copy.write(f"{i}\t{row(lo, hi)}\n")
    names = ", ".join(column.split()[0] for column in columns.split(", "))
    session.execute(f"create index on boxes using gist ({names})")
    session.execute("analyze boxes")
    some, all_ = f"select exists (select 1 from boxes where {where})", f"select id from boxes where {where}"

    def values(lo: Floats, hi: Floats) -> dict[str, Any]:
        ends = {f"{end}{j}": int(x) for end, side in (("lo", lo), ("hi", hi)) for j, x in enumerate(side)}
        return {"lo": lo.tolist(), "hi": hi.tolist(), **ends}

    return Peer(
        lambda box: session.execute(some, values(*box)).fetchone()[0],
        lambda point: [found[0] for found in session.execute(all_, values(point, point)).fetchall()],
    )


def _cube(data: Boxes, stack: ExitStack) -> Peer:
    session = postgres_session(stack, SCHEMAS[0])
    import psycopg

    try:
        session.execute(f"create extension if not exists cube schema {SCHEMAS[0]}")
    except psycopg.Error as error:
        raise Missing(f"the server has no extension cube for us ({str(error).strip()})") from None

    def row(lo: Floats, hi: Floats) -> str:
        return f"({','.join(map(repr, lo.tolist()))}),({','.join(map(repr, hi.tolist()))})"

    return _postgres(session, data, "box cube", row, "box @> cube(%(lo)s::float8[], %(hi)s::float8[])")


def _ranges(data: Boxes, stack: ExitStack) -> Peer:
    spans = range(data.lo.shape[1])

    def row(lo: Floats, hi: Floats) -> str:
        return "\t".join(f"[{int(a)},{int(b)}]" for a, b in zip(lo, hi, strict=True))

    columns = ", ".join(f"s{j} int8range" for j in spans)
    where = " and ".join(f"s{j} @> int8range(%(lo{j})s, %(hi{j})s, '[]')" for j in spans)
    return _postgres(postgres_session(stack, SCHEMAS[1]), data, columns, row, where)


PEERS: dict[str, Callable[[Boxes, ExitStack], Peer]] = {
    "numpy": _numpy,
    "rtree": _rtree,
    "DuckDB": _duckdb,
    "PostgreSQL, cube": _cube,
    "PostgreSQL, ranges": _ranges,
}
"""How each peer is set up; raises Missing when it is not there."""
