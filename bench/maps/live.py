"""Standing queries among objects that change: what one core sustains, and how many queries a change touches and breaks.

A random object is moved by about 100 m. Changes come in batches, as a service applies what waits together; all that is
done for them is timed: the index of places, the queries that are touched, the searches for those that are broken.
"""

from __future__ import annotations

import gc
import time
from typing import NamedTuple

import numpy as np

from bench.maps.top import ATTRIBUTES, EVEN
from bench.maps.workload import WIDTH, World, make_world
from bench.report import Report, count
from indexes.maps.live.queries import Changes, LiveQueries
from indexes.maps.object_index import PlaceIndex
from indexes.maps.scoring import scoring
from indexes.maps.searches import Query, SkylineQuery, TopQuery
from indexes.maps.warm import warm

BOUNDS = np.array([0.0, 0.0, 1.0, 1.0])

MOVED = 100.0
"""Metres."""

DEGREES = 45.0
"""What 5,000 km are on a great circle, nearly."""

WANTED = 1_000
"""Changes a second among standing top-k."""


class Size(NamedTuple):
    """Objects, standing top-k and skylines, k and m, changes, and how many a batch."""

    n: int = 1_000_000
    tops: int = 100_000
    skylines: int = 1_000
    k: int = 10
    m: int = 10
    changes: int = 20_000
    skyline_changes: int = 4_000
    batch: int = 100


QUICK = Size(5_000, 500, 50, 5, 5, 400, 100, 50)


class Bench:
    """The runs, written to a report."""

    def __init__(self, report: Report, size: Size) -> None:
        self._report = report
        self._size = size

    def show(self) -> None:
        """Run everything."""
        size = self._size
        self._report.text(
            f"{size.n:,} objects with 2 values, clustered, k = {size.k}, m = {size.m}; clients near objects of a "
            f"square of 5,000 km. A random object moves by about {MOVED:.0f} m; {size.batch} changes a batch. "
            '"Touched" may be affected and are examined, "changed" hold another zone, "broken" were searched for again.'
        )
        warm()
        world = make_world(size.n, 2, True, "uniform", max(size.tops, size.skylines), 1)
        even = scoring("weighted_sum", ATTRIBUTES, EVEN)
        rng = np.random.default_rng(6)
        own = [
            scoring("weighted_sum", ATTRIBUTES, dict(zip(EVEN, weights, strict=True)))
            for weights in rng.uniform(0.5, 1.5, (size.tops, 3)).tolist()
        ]
        rows = []
        rates = {}
        for name, queries, changes in (
            ("top-k, one score", [TopQuery(size.k, size.m, even)] * size.tops, size.changes),
            ("top-k, each its own weights", [TopQuery(size.k, size.m, s) for s in own], size.changes),
            ("skylines", [SkylineQuery()] * size.skylines, size.skyline_changes),
        ):
            self._report.progress(name)
            rates[name], row = sustain(world, list(queries), changes, size.batch)
            rows.append((name, f"{len(queries):,}", *row))
        for metric in ("manhattan", "great-circle"):
            name = f"skylines, {metric}"
            self._report.progress(name)
            queries = [SkylineQuery()] * size.skylines
            _, row = sustain(world, list(queries), size.skyline_changes, size.batch, metric)
            rows.append((name, f"{len(queries):,}", *row))
        head = (
            "queries",
            "number",
            "changes/s",
            "us a change",
            "longest batch, ms",
            "touched",
            "changed",
            "broken",
            "us to insert",
        )
        self._report.table(head, rows)
        rate = rates["top-k, one score"]
        self._report.verdict(
            f"{size.tops:,} standing top-k under at least {WANTED:,} changed objects a second",
            f"{count(rate)} changes/s",
            rate >= WANTED,
        )


def sustain(
    world: World, queries: list[Query], changes: int, batch: int, metric: str = "euclidean"
) -> tuple[float, tuple[str, ...]]:
    """Standing queries while objects change: the changes a second, and the columns of the table. By the great circle
    the square is DEGREES wide, as many as are 5,000 km."""
    rng = np.random.default_rng(7)
    side = DEGREES if metric == "great-circle" else 1.0
    points, clients = world.points * side, world.walks[: len(queries), 0] * side
    live = LiveQueries(PlaceIndex.build(points, world.statics), ATTRIBUTES, BOUNDS, metric)
    begin = time.thread_time()
    live.put(range(len(queries)), queries, [(x, y) for x, y in clients.tolist()])
    live.tops.fold()
    live.skylines.fold()
    inserted = time.thread_time() - begin
    gc.collect()
    gc.freeze()  # as the service does
    spent, touched, changed, broken = [], 0, 0, 0
    for _ in range(changes // batch):
        slots = rng.choice(len(points), batch, replace=False)
        points[slots] += rng.normal(0, MOVED / WIDTH * side, (batch, 2))
        come = Changes(slots, np.ones(batch, bool), points[slots], world.statics[slots], slots)
        begin = time.thread_time()
        result = live.apply(come)
        spent.append(time.thread_time() - begin)
        touched += result.touched
        changed += len(result.changed)
        broken += sum(one.searched for one in result.changed)
    rate = changes / sum(spent)
    each = [f"{number / changes:.2f}" for number in (touched, changed, broken)]
    row = f"{rate:,.0f}", f"{1e6 / rate:.0f}", f"{1e3 * max(spent):.0f}", *each, f"{1e6 * inserted / len(queries):.0f}"
    return rate, row
