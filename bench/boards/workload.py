"""The paper's default workload (V) and the loops that drive it through our kernels.

Objects lie uniformly in the unit square, ranges uniformly over all 0 <= l <= r < 1. An event takes a random object and
moves its y up or down by a fair coin, uniformly on that side, so that y drifts away from uniform over some 50,000
events. The new y depends on the old one alone: the same random numbers are the same events for every algorithm.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.boards.forest import Forest, count
from indexes.boards.objects import AHEAD, expect, set_y
from indexes.boards.paint import Work, make_work, paint
from indexes.boards.range_tree import RangeTree, RangeTreeIndex
from indexes.boards.region import nearest
from indexes.boards.subscriptions import SubscriptionIndex
from indexes.boards.tiles import Tiles, make_tiles
from indexes.boards.work import ROOM
from indexes.lanes import prefetch_block
from indexes.lean import lean_kernel

INF = np.inf

UNIFORM, COIN = 0, 1
"""How an event chooses the new y: uniformly, or by a fair coin and then uniformly on that side (the paper's counts)."""

TILES, RECEIVED, SQUARE, RAISES = range(4)
"""Columns of the totals of `count_events`."""


class World(NamedTuple):
    """Objects in order of x, and the random numbers of the events, three each."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    events: NDArray[np.float64]


def make_world(n: int, events: int, seed: int = 1) -> World:
    """n objects and so many events."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.random(n))
    return World(x, rng.random(n), rng.random((events, 3)))


def make_ranges(m: int, seed: int = 7) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The ends (l, r) of m uniform subscriptions."""
    ends = np.sort(np.random.default_rng(seed).random((m, 2)), 1)
    return ends[:, 0].copy(), ends[:, 1].copy()


def object_index(world: World) -> RangeTree:
    """Our object index in the world's first state; object i has row i and `created` i."""
    n = len(world.x)
    return RangeTreeIndex.build(world.x, world.y, np.arange(n), np.arange(n)).arrays


def subscription_index(m: int, seed: int = 7) -> Forest:
    """Our subscription index with m uniform subscriptions in one class; their k is said to the painter."""
    return indexed(*make_ranges(m, seed))


def indexed(l: NDArray[np.float64], r: NDArray[np.float64]) -> Forest:
    """Our subscription index with these ranges, numbered in their order, in one class."""
    index = SubscriptionIndex([1])
    index.insert_many(0, np.arange(len(l)), l, r)
    return index.arrays


def scratch(k: int, room: int = ROOM) -> tuple[Work, Tiles]:
    """Work, with a short list of so much room (-1: nothing is fetched, all is searched), and tiles that no event of the
    workload outgrows."""
    return make_work(k, room), make_tiles(1 << 17)


@lean_kernel
def new_y(y: float, u: float, side: float, model: int) -> float:
    """The y that an event gives an object that has `y`."""
    if model == UNIFORM:
        chosen = u
    elif side < 0.5:
        chosen = y * u
    else:
        chosen = y + (1.0 - y) * u
    return chosen


@lean_kernel
def paint_events(o, f, ks, dense, w, tiles, events, n, model):  # type: ignore[no-untyped-def]
    """Paint and apply all events; returns the number of tiles, or -1 when one event's did not fit. It looks ahead as
    `indexes.boards.step.run` does."""
    made = 0
    fits = True
    for e in range(events.shape[0]):
        if e + 2 * AHEAD < events.shape[0]:
            prefetch_block(o.pos, int(events[e + 2 * AHEAD, 0] * n))
            expect(o, int(events[e + AHEAD, 0] * n))
        s = np.int64(o.pos[int(events[e, 0] * n)])
        y = new_y(o.y[s], events[e, 1], events[e, 2], model)
        tiles.n[0] = 0
        fits &= paint(o, f, ks, dense, np.int64(0), s, y, w, tiles) == 1
        set_y(o, s, y)
        made += tiles.n[0]
    return made if fits else -1


@lean_kernel
def count_events(o, f, ks, w, tiles, events, n, model, totals):  # type: ignore[no-untyped-def]
    """Paint-Sparse on all events, and what the paper counts beside it, added to `totals`.

    RECEIVED is affected subscriptions: those on the tiles of the updated object. SQUARE is what Unicast looks at: the
    subscriptions that contain the object and fewer than k nearer better ones of each side, at the better of its two y.
    """
    for e in range(events.shape[0]):
        s = np.int64(o.pos[int(events[e, 0] * n)])
        y = new_y(o.y[s], events[e, 1], events[e, 2], model)
        old = o.y[s]
        tiles.n[0] = 0
        paint(o, f, ks, False, np.int64(0), s, y, w, tiles)
        for t in range(tiles.n[0]):
            if tiles.row[t] == o.row[s]:
                side = tiles.side
                totals[RECEIVED] += count(f, 0, side[t, 0], side[t, 1], side[t, 2], side[t, 3])
        nearest(o, s, min(old, y), ks[0], w)
        totals[SQUARE] += count(f, 0, w.all_west[ks[0]], o.x[s], o.x[s], w.all_east[ks[0]])
        totals[TILES] += tiles.n[0]
        totals[RAISES] += y < old
        set_y(o, s, y)
