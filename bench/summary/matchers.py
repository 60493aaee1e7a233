"""Matchers in the summary: exact matching in one dimension, its changes, and relaxed matching."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from bench import prototypes
from bench.matchers import kernels
from bench.matchers.workload import K, make_world
from bench.race import race
from bench.report import ratio
from bench.summary.before import Target, beside
from bench.summary.rows import NO_PROTOTYPE, Row, against, micros


class Size(NamedTuple):
    """Subscriptions, events of one dimension, those of several and of the scan; rounds; the checkout of the commit
    before."""

    n: int = 1_000_000
    points: int = 20_000
    few: int = 200
    rounds: int = 5
    before: Path | None = None


QUICK = Size(points=10_000, few=100, rounds=3)

CHURN = 0.1
PAUSE_MS = 5.0
TOP = Target(0.15, 0.22, "0.15 us")
CHANGES = Target(600_000, 397_037, "600,000/s", rate=True)
RELAXED = {2: Target(15.0, 27.4, "15 us"), 4: Target(150.0, 244.4, "150 us")}
"""By dimensions."""

WALK_LIMIT = "finding the cell of a point, one block of its 64 best intervals, and naming k of them"
CHURN_LIMIT = "the same, for changes go to the lists of cells; the runs where a list has too few"
CHANGE_LIMIT = "taking rows out, the lists of cells, merging and arranging runs, about a quarter each"
RELAXED_LIMIT = "bytes moved: bounds of blocks, until that of the rest is below the k-th score"


def one_dimension(size: Size) -> Iterator[Row]:
    """The best of one point, before and after a tenth of the scores have changed, and the changes."""
    theirs = prototypes.load_matchers(None)
    world = make_world(size.n, 1, points=size.points)
    columns = world.lo[:, 0].copy(), world.hi[:, 0].copy(), world.weight[:, 0].copy()
    small = kernels.Rescored(make_world(kernels.COMPILING, 1, points=10), theirs)
    small.change(np.arange(kernels.COMPILING, dtype=np.int32), np.ones(kernels.COMPILING))
    rescored = kernels.Rescored(world, theirs)
    fresh = rescored.contenders()
    truth = rescored.answers()
    scan = kernels.scan(columns, world.points[: size.few, 0], truth)
    times = [median(one) for one in race([*fresh, scan], size.rounds)]
    static, scanned = times[0], times[-1]
    rng = np.random.default_rng(1)
    rows = rng.permutation(size.n).astype(np.int32)[: int(CHURN * size.n)]
    sizes = {"points": size.points, "changed": len(rows), "compiling": kernels.COMPILING}
    before = beside(size.before, "intervals", n=size.n, **sizes)
    top, changing = before.get("top"), before.get("changes")
    shown = f"{size.n:,} intervals, k = {K}"
    its = {"mask walk": times[1]} if theirs else {}
    yield Row(
        f"top-{K} of {size.n:,} intervals",
        f"{shown}, {size.points:,} points",
        TOP.said(),
        micros(static),
        TOP.met(static, top),
        prototype=against(static, its) or NO_PROTOTYPE,
        peer=against(static, {"numpy in order of score": scanned}),
        limit=WALK_LIMIT,
        before=top.micros() if top else "",
    )
    spent, their_spent = rescored.change(rows, rng.uniform(0.5, 2.0, size.n))
    changed = [median(one) for one in race(rescored.contenders(), size.rounds)]
    rescored.compare()
    yield Row(
        "the same with a tenth changed",
        f"{shown}, {len(rows):,} new scores",
        "1.4 times the time of none changed",
        f"{ratio(changed[0] / static)} times, {micros(changed[0])}",
        changed[0] <= 1.4 * static,
        prototype=against(changed[0], {"mask walk": changed[1]}) if theirs else NO_PROTOTYPE,
        limit=CHURN_LIMIT,
    )
    rate, pause = len(rows) / spent, 1e3 * rescored.longest
    yield Row(
        "changes of scores",
        f"{shown}, {len(rows):,} in batches of {kernels.BATCH:,}",
        f"{CHANGES.said()}; pauses under {PAUSE_MS:g} ms",
        f"{rate:,.0f}/s, the longest pause {pause:.1f} ms",
        CHANGES.met(rate, changing) and pause < PAUSE_MS,
        prototype=f"{len(rows) / their_spent:,.0f}/s" if their_spent else NO_PROTOTYPE,
        limit=CHANGE_LIMIT,
        before=changing._replace(before=changing.before / 1e6).rate() if changing else "",
    )


def relaxed(size: Size) -> Iterator[Row]:
    """Relaxed matching, beside the paper's Threshold Algorithm over SOPT-R-trees."""
    theirs = prototypes.load_matchers(None)
    before = beside(size.before, "relaxed", n=size.n, few=size.few, dimensions=list(RELAXED))
    for d, target in RELAXED.items():
        world = make_world(size.n, d, points=size.few)
        sized = kernels.Size(size.n, size.points, size.few, size.rounds)
        contenders = list(kernels.ways(world, "relaxed", d, sized, ("auto", "sopt-r")))
        its = list(kernels.rivals(theirs.ranked, world, "relaxed", sized)) if theirs else []
        times = [median(one) for one in race([*contenders, *its[:1]], size.rounds)]
        yield Row(
            f"relaxed match, d = {d}",
            f"{size.n:,} subscriptions, k = {K}, {size.few} events",
            target.said(),
            micros(times[0]),
            target.met(times[0], before.get(str(d))),
            paper="Threshold Algorithm, " + against(times[0], {"SOPT-R-trees": times[1]}),
            prototype=against(times[0], {"blocks": times[2]}) if its else NO_PROTOTYPE,
            limit=RELAXED_LIMIT,
            before=before[str(d)].micros() if before else "",
        )
