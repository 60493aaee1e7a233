"""The paper's default workload (V) and the loops that drive it through our kernels.

Objects lie uniformly in the unit square, ranges uniformly over all 0 <= l <= r < 1. An event takes a random object and
moves its y up or down by a fair coin, uniformly on that side, so that y drifts away from uniform over some 50,000
events. The new y depends on the old one alone: the same random numbers are the same events for every algorithm.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from indexes.boards.kernels.forest import Forest
from indexes.boards.kernels.object_index import AHEAD, ObjectArrays, expect, set_y
from indexes.boards.kernels.paint import paint
from indexes.boards.kernels.range_tree import RangeTree, RangeTreeIndex
from indexes.boards.kernels.scratch import ROOM, PaintContext, Scratch, make_scratch
from indexes.boards.kernels.tiles import Tiles, make_tiles
from indexes.boards.subscription_index import SubscriptionIndex
from indexes.compiled.jit import kernel
from indexes.compiled.simd import prefetch_block
from indexes.core.arrays import Floats, int64

INF = np.inf

UNIFORM, COIN = 0, 1
"""How an event chooses the new y: uniformly, or by a fair coin and then uniformly on that side (the paper's counts)."""


class World(NamedTuple):
    """Objects in order of x, and the random numbers of the events, three each."""

    x: Floats
    y: Floats
    events: Floats

    def job(self, board: str, seed: int = 5) -> dict[str, Any]:
        """What the load generator makes the events on a board of these objects from, to be sent as JSON."""
        return {"board": board, "seed": seed, "x": self.x.tolist(), "y": self.y.tolist()}


def make_world(n: int, events: int, seed: int = 1) -> World:
    """n objects and so many events."""
    rng = np.random.default_rng(seed)
    x = np.sort(rng.random(n))
    return World(x, rng.random(n), rng.random((events, 3)))


def make_ranges(m: int, seed: int = 7) -> tuple[Floats, Floats]:
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


def indexed(l: Floats, r: Floats) -> Forest:
    """Our subscription index with these ranges, numbered in their order, in one class."""
    index = SubscriptionIndex([1])
    index.insert_many(0, np.arange(len(l)), l, r)
    return index.arrays


def scratch(k: int, room: int = ROOM) -> tuple[Scratch, Tiles]:
    """Work, with a short list of so much room (-1: nothing is fetched, all is searched), and tiles that no event of the
    workload outgrows."""
    return make_scratch(k, room), make_tiles(1 << 17)


@kernel
def new_y(y: float, u: float, side: float, model: int) -> float:
    """The y that an event gives an object that has `y`."""
    if model == UNIFORM:
        chosen = u
    elif side < 0.5:
        chosen = y * u
    else:
        chosen = y + (1.0 - y) * u
    return chosen


@kernel
def paint_events(objects: ObjectArrays, context: PaintContext, events: Floats, n: int, model: int) -> int:
    """Paint and apply all events; returns the number of tiles, or -1 when one event's did not fit. It looks ahead as
    `indexes.boards.kernels.step.run` does."""
    made = 0
    fits = True
    for e in range(events.shape[0]):
        if e + 2 * AHEAD < events.shape[0]:
            prefetch_block(objects.pos, int(events[e + 2 * AHEAD, 0] * n))
            expect(objects, int(events[e + AHEAD, 0] * n))
        slot = int64(objects.pos[int(events[e, 0] * n)])
        y = new_y(objects.y[slot], events[e, 1], events[e, 2], model)
        context.tiles.n[0] = 0
        fits &= paint(objects, context, slot, y) == 1
        set_y(objects, slot, y)
        made += context.tiles.n[0]
    return made if fits else -1
