"""Boards with several range attributes: painting and the re-evaluation of every list that may change.

The baseline knows nothing of tiles. It keeps subscriptions and objects by column, finds the regions that hold the
changed object by a vectorised scan, and evaluates each of their lists again by another one, over all objects, against
the k-th best so far. Both take the same events in alternating rounds, each from the first state of the world; times are
those of the thread.
"""

from __future__ import annotations

import time
from statistics import median
from typing import NamedTuple

import numpy as np

from bench.race import Contender, Raced, raced
from bench.report import Report, count, ratio, spread
from indexes.boards.config import BoardConfig
from indexes.boards.kernels.changes import SET, Changes
from indexes.boards.space.kernels.objects import SpaceObjects
from indexes.boards.space.kernels.shapes import BOX, SHAPES, holds
from indexes.boards.space.painter import SpacePainter
from indexes.compiled.floats import below
from indexes.compiled.jit import kernel
from indexes.compiled.simd import LANES, lanes_from, lanes_upto, low_bit
from indexes.core.arrays import Floats, Ints, Ints32

K = 10

AT_LEAST = 20.0
"""So many times the events of the baseline are wanted of boxes."""

CASES = ((2, "box"), (3, "box"), (4, "box"), (2, "disc"), (2, "half_plane"), (2, "simplex"))


class Size(NamedTuple):
    """How much is run: events of one round, for painting and for the baseline."""

    n: int = 10_000
    m: int = 100_000
    events: int = 5_000
    baseline: int = 100
    rounds: int = 5


QUICK = Size(events=1_000, baseline=20, rounds=3)


class World(NamedTuple):
    """Objects uniform in the unit cube, subscriptions of one shape, and events of the paper's workload."""

    x: Floats
    y: Floats
    params: Floats
    row: Ints32
    new_y: Floats


def make_world(d: int, shape: str, size: Size, seed: int = 1) -> World:
    """A random object goes up or down by a fair coin, then uniformly on that side."""
    rng = np.random.default_rng(seed)
    x, y = rng.random((size.n, d)), rng.random(size.n)
    params = make_regions(rng, d, shape, size.m)
    row = rng.integers(0, size.n, size.events).astype(np.int32)
    u, up, now = rng.random(size.events), rng.random(size.events) < 0.5, y.copy()
    new_y = np.empty(size.events)
    for e in range(size.events):
        old = now[row[e]]
        new_y[e] = now[row[e]] = old * u[e] if up[e] else old + (1.0 - old) * u[e]
    return World(x, y, params, row, new_y)


def make_regions(rng: np.random.Generator, d: int, shape: str, m: int) -> Floats:
    """Boxes between uniform ends; discs of radius up to 0.3 and triangles about uniform centres; half planes whose
    border crosses the unit square at a uniform place in a uniform direction."""
    if shape == "box":
        return np.sort(rng.random((m, d, 2)), 2).reshape(m, 2 * d)
    centre = rng.random((m, 2))
    if shape == "disc":
        return np.column_stack([centre, 0.3 * rng.random(m)])
    if shape == "half_plane":
        turn = rng.random(m) * 2 * np.pi
        a = np.column_stack([np.cos(turn), np.sin(turn)])
        return np.column_stack([a, (a * centre).sum(1)])
    return (centre[:, None, :] + 0.6 * (rng.random((m, 3, 2)) - 0.5)).reshape(m, 6)


def make_painter(d: int, shape: str, world: World) -> SpacePainter:
    """A painter in the world's first state."""
    painter = SpacePainter(BoardConfig(tuple(f"x{j}" for j in range(d)), "y", "asc", (K,)))
    n = len(world.y)
    painter.objects = SpaceObjects.build(world.x, world.y, np.arange(n), np.arange(n))
    painter.subscriptions.insert_many(painter.class_of(K, shape), np.arange(len(world.params)), world.params)
    return painter


def changes_of(world: World) -> Changes:
    """The world's events as the painter takes them."""
    events, d = len(world.row), world.x.shape[1]
    return Changes(
        np.full(events, SET, np.uint8),
        world.row,
        np.full((events, d), np.nan),
        world.new_y,
        np.zeros(events, np.int64),
        np.zeros(events, np.uint8),
    )


def columns(rows: Floats) -> Floats:
    """One column after the other, each with room for a block behind its last number."""
    padded = np.full((rows.shape[1], len(rows) + LANES), np.inf)
    padded[:, : len(rows)] = rows.T
    return padded.ravel()


# The two kernels take their arrays one by one: in a NamedTuple they would cost reference counts in every call.
@kernel
def evaluate(
    shape: int,
    d: int,
    x: Floats,
    y: Floats,
    n: int,
    params: Floats,
    m: int,
    i: int,
    place: Floats,
    k: int,
    best_y: Floats,
    best: Ints,
) -> int:
    """The k best objects of region i by a scan; returns how many there are."""
    found = 0
    T = np.inf
    for p in range(0, n, LANES):
        mask = lanes_upto(y, p, T) & (0xFFFF >> max(p + LANES - n, 0))
        if shape == BOX:
            for j in range(d):
                low, high = params[2 * j * (m + LANES) + i], params[(2 * j + 1) * (m + LANES) + i]
                mask &= lanes_upto(x, j * (n + LANES) + p, high) & lanes_from(x, j * (n + LANES) + p, low)
        while mask:
            s = p + low_bit(mask)
            mask &= mask - 1
            if shape == BOX or holds(shape, d, params, i, m + LANES, place, s):
                j = found - (found == k)
                while j > 0 and best_y[j - 1] > y[s]:
                    best_y[j], best[j] = best_y[j - 1], best[j - 1]
                    j -= 1
                if y[s] < T or found < k:
                    best_y[j], best[j] = y[s], s
                    found = min(found + 1, k)
                if found == k:
                    T = below(best_y[k - 1])
    return found


@kernel
def reevaluate(
    shape: int,
    d: int,
    x: Floats,
    y: Floats,
    place: Floats,
    params: Floats,
    m: int,
    row: Ints32,
    new_y: Floats,
    k: int,
    best_y: Floats,
    best: Ints,
) -> int:
    """Apply the events and evaluate every list whose region holds the object; returns how many lists that were."""
    n = len(place)
    lists = 0
    for e in range(len(row)):
        y[row[e]] = new_y[e]
        for p in range(0, m, LANES):
            mask = 0xFFFF >> max(p + LANES - m, 0)
            if shape == BOX:
                for j in range(d):
                    v = place[row[e], j]
                    mask &= lanes_upto(params, 2 * j * (m + LANES) + p, v)
                    mask &= lanes_from(params, (2 * j + 1) * (m + LANES) + p, v)
            while mask:
                i = p + low_bit(mask)
                mask &= mask - 1
                if shape == BOX or holds(shape, d, params, i, m + LANES, place, row[e]):
                    evaluate(shape, d, x, y, n, params, m, i, place, k, best_y, best)
                    lists += 1
    return lists


def race(d: int, shape: str, world: World, size: Size) -> tuple[Raced, Raced]:
    """Painting, which makes tiles, and the baseline, which evaluates lists."""
    changes = changes_of(world)
    regions, place = columns(world.params), world.x
    code, few = SHAPES.index(shape), slice(0, size.baseline)
    best_y, best = np.empty(K), np.empty(K, np.int64)

    def paint(painter: SpacePainter) -> int:
        return painter.run(changes, 0, size.events, 1e9, False)[1]

    def scan(state: tuple[Floats, Floats]) -> int:
        x, y = state
        row, new_y = world.row[few], world.new_y[few]
        return reevaluate(code, d, x, y, place, regions, len(world.params), row, new_y, K, best_y, best)

    ours = Contender("", paint, size.events, start=lambda: make_painter(d, shape, world))
    theirs = Contender("", scan, size.baseline, start=lambda: (columns(place), columns(world.y[:, None])))
    painted, scanned = raced([ours, theirs], size.rounds)
    return painted, scanned


def show(report: Report, size: Size) -> None:
    """Race all shapes, and judge boxes."""
    report.text(
        f"One thread, k = {K}, {size.m:,} subscriptions and {size.n:,} objects, uniform; events by a fair coin, "
        f"{size.events:,} a round for painting and the first {size.baseline:,} of them for the baseline, {size.rounds} "
        "rounds in alternation, microseconds of thread time an event: the median, and the least and greatest. The "
        "baseline evaluates the list of every subscription whose region holds the changed object, by a vectorised scan."
    )
    rows, judged = [], []
    for d, shape in CASES:
        ours, theirs = race(d, shape, make_world(d, shape, size), size)
        laid = build_seconds(d, shape, size)
        factors = [b / a for a, b in zip(ours.micros, theirs.micros, strict=True)]
        rows.append(
            (
                f"{shape}, d = {d}",
                f"{median(ours.micros):.1f} {spread(ours.micros)}",
                f"{1e6 / median(ours.micros):,.0f}",
                f"{laid:.3f}",
                count(ours.made / size.events),
                f"{median(theirs.micros):,.0f} {spread(theirs.micros)}",
                count(theirs.made / size.baseline),
                ratio(median(factors)),
                " ".join(ratio(value) for value in factors),
            )
        )
        if shape == "box":
            judged.append((d, median(factors)))
    head = (
        "regions",
        "us/event",
        "events/s",
        "laid out in, s",
        "tiles/event",
        "baseline, us",
        "lists/event",
        "faster by",
        "in each round",
    )
    report.table(head, rows, text=("in each round",))
    for d, factor in judged:
        report.verdict(
            f"Boxes with d = {d} at least {AT_LEAST:.0f} times as fast as re-evaluation",
            f"{ratio(factor)} times as fast",
            factor >= AT_LEAST,
        )


def build_seconds(d: int, shape: str, size: Size) -> float:
    """Thread time of laying all subscriptions out from columns, after one that may compile."""
    params = make_regions(np.random.default_rng(1), d, shape, size.m)
    seconds = []
    for _ in range(1 + size.rounds):
        painter = SpacePainter(BoardConfig(tuple(f"x{j}" for j in range(d)), "y", "asc", (K,)))
        began = time.thread_time()
        painter.subscriptions.insert_many(painter.class_of(K, shape), np.arange(size.m), params)
        seconds.append(time.thread_time() - began)
    return median(seconds[1:])
