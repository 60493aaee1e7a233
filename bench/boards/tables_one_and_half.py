"""What Tables VII and VIII of the paper count: searches for the next object and for the subscriptions of a box, an
event, with 1.5-dimensional subscriptions (Appendix D).

Data sets: #1 has uniform ends of x1, #2 and #3 ranges of x1 that hold about 1,000 and 100 objects; x2 <= t with t
uniform. Events go up or down by a fair coin, then uniformly on that side, averages run over both, as in Tables I to IV.
Counted are all searches for a least x2 (the slabs) and a least y (the exposed objects), and one snap for each box of
the updated and of the exposed objects.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bench.baselines.one_and_half import BOXES, MIN, SNAP, Sweep, make_sweep, paint
from bench.boards.workload import COIN, new_y
from indexes.boards.kernels.tiles import Tiles
from indexes.boards.space.kernels.arrays import SpaceArrays
from indexes.boards.space.kernels.objects import SpaceObjects, set_y
from indexes.boards.space.kernels.tiles import make_space_tiles
from indexes.boards.space.subscription_index import Regions, SpaceSubscriptions
from indexes.compiled.jit import kernel
from indexes.core.arrays import Floats, int64

KS = (1, 2, 5, 10, 15)

TABLE_VII: dict[int | None, tuple[float, ...]] = {
    None: (6.35, 11.31, 26.13, 50.48, 74.40),
    1: (5.68, 9.88, 23.07, 45.85, 68.826),
    2: (5.40, 8.97, 19.45, 36.97, 54.67),
    3: (5.51, 9.36, 21.12, 41.13, 61.07),
}
"""Searches for the next object by data set and k; None is Paint-Dense."""

TABLE_VIII: dict[int, tuple[float, ...]] = {
    1: (4.55, 13.86, 88.43, 473.43, 1361.90),
    2: (4.08, 10.92, 51.44, 213.40, 561.45),
    3: (4.29, 12.28, 70.69, 360.45, 1022.86),
}
"""Snaps of Paint-Sparse by data set and k."""


class Size(NamedTuple):
    """How much is run."""

    n: int = 10_000
    m: int = 400_000
    events: int = 10_000
    ks: tuple[int, ...] = KS


QUICK = Size(events=1_000, ks=(1, 5, 10))


class Counts(NamedTuple):
    """Averages an event."""

    searches: float
    snaps: float
    boxes: float
    tiles: float
    most: int
    """The most tiles of one event."""


def make_subscriptions(data_set: int, size: Size, x1: Floats, seed: int = 7) -> Floats:
    """Rows (l, r, -inf, t). The ranges of sets 2 and 3 are as wide as hold 1,000 and 100 of uniform objects."""
    rng = np.random.default_rng(seed)
    t = rng.random(size.m)
    if data_set == 1:
        ends = np.sort(rng.random((size.m, 2)), 1)
    else:
        left = rng.random(size.m)
        order = np.sort(x1)
        first, held = np.searchsorted(order, left), 1_000 if data_set == 2 else 100
        last = first + held - 1
        ends = np.column_stack([left, np.where(last < len(order), order[np.minimum(last, len(order) - 1)], 1.0)])
    return np.column_stack([ends, np.full(size.m, -np.inf), t])


@kernel  # ten arguments: called once a run, with the scratch of `paint`
def paint_events(
    objects: SpaceArrays,
    forest: Regions,
    k: int,
    dense: bool,
    late: int,
    events: Floats,
    place: Floats,
    sweep: Sweep,
    out: Floats,
    tiles: Tiles,
) -> tuple[int, int]:
    """Paint and apply all events; returns the number of tiles, or -1 when one event's did not fit, and the most of one
    event."""
    made = 0
    most = int64(0)
    fits = True
    for e in range(events.shape[0]):
        row = int64(events[e, 0] * len(objects.pos))
        slot = int64(objects.pos[row])
        old, c = objects.y[slot], objects.c[slot]
        y = new_y(old, events[e, 1], events[e, 2], COIN)
        tiles.n[0] = 0
        place[0, 0], place[0, 1] = objects.x[slot, 0], objects.x[slot, 1]
        fits &= paint(objects, forest, 0, k, dense, late, place, 0, row, old, y, c, sweep, out, tiles) == 1
        set_y(objects, slot, y)
        made += tiles.n[0]
        most = max(most, tiles.n[0])
    return made if fits else -1, most


def measure(size: Size, k: int, data_set: int | None, index: SpaceSubscriptions, late: int, seed: int = 1) -> Counts:
    """Run the events through Paint-Sparse over a data set, or (None) through Paint-Dense; `late` as in `paint`."""
    rng = np.random.default_rng(seed)
    x, y = rng.random((size.n, 2)), rng.random(size.n)
    objects = SpaceObjects.build(x, y, np.arange(size.n), np.arange(size.n))
    sweep, tiles = make_sweep(k), make_space_tiles(2, 1 << 18)
    events = rng.random((size.events, 3))
    made, most = paint_events(
        objects.arrays, index.arrays, k, data_set is None, late, events, np.empty((1, 2)), sweep, np.empty(8), tiles
    )
    assert made >= 0, "an event has more tiles than there is room for"
    stats = sweep.stats / size.events
    return Counts(float(stats[MIN]), float(stats[SNAP]), float(stats[BOXES]), made / size.events, int(most))


def subscriptions(data_set: int | None, size: Size) -> SpaceSubscriptions:
    """The index of a data set; empty for None."""
    index = SpaceSubscriptions(2, ((1, "box"),))
    if data_set is not None:
        x1 = np.random.default_rng(1).random((size.n, 2))[:, 0]
        index.insert_many(0, np.arange(size.m), make_subscriptions(data_set, size, x1))
    return index
