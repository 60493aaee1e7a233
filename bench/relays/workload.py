"""The workload of [Covering] V: random boxes, and commands that subscribe and unsubscribe them.

A box has two uniform ends in [0, 2^31 - 1] in every attribute, its "randomly chosen segment". A command
unsubscribes with probability p, one of those that are there, chosen at random; else it subscribes a new one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from indexes.compiled.jit import allocating_kernel
from indexes.core.arrays import Bytes, Floats, Ints, Ints32
from indexes.relays.kernels.forward import SUBSCRIBE, UNSUBSCRIBE
from indexes.relays.kernels.points import Points, as_points, empty_points, write

MOST = 2**31 - 1


Boxes = Callable[[int, int, int], tuple[Floats, Floats]]
"""Makes n boxes of d attributes from a seed: their lower and upper ends, of shape (n, d)."""


def as_table(lo: Floats, hi: Floats) -> Points:
    """Boxes as a table of points, in order of age."""
    n, d = lo.shape
    points = empty_points(n, 2 * d)
    write(points, np.arange(n, dtype=np.int32), as_points(lo, hi), 0)
    return points


def columns_of(lo: Floats, hi: Floats) -> list[tuple[Floats, Floats]]:
    """The ends in each attribute, as whole columns."""
    return [(lo[:, j].copy(), hi[:, j].copy()) for j in range(lo.shape[1])]


def holding(columns: Sequence[tuple[Floats, Floats]], lo: Floats, hi: Floats) -> Ints:
    """The boxes that contain the box [lo, hi], one condition after the other over whole columns."""
    met = np.ones(len(columns[0][0]), np.bool_)
    for (low, high), a, b in zip(columns, lo, hi, strict=True):
        met &= low <= a
        met &= high >= b
    return np.flatnonzero(met)


class Commands(NamedTuple):
    """Commands by number of the subscription, in order of creation, and the boxes of these, of shape (n, d)."""

    op: Bytes
    slot: Ints32
    lo: Floats
    hi: Floats

    def table(self) -> Points:
        """The subscriptions as a table of points."""
        return as_table(self.lo, self.hi)


@allocating_kernel
def _choose(chance: Floats, pick: Floats, p: float) -> tuple[Bytes, Ints32, int]:
    n = chance.size
    op, slot, there = np.empty(n, np.uint8), np.empty(n, np.int32), np.empty(n, np.int32)
    live = 0
    born = 0
    for i in range(n):
        if live > 0 and chance[i] < p:
            j = min(live - 1, int(pick[i] * live))
            op[i] = UNSUBSCRIBE
            slot[i] = there[j]
            live -= 1
            there[j] = there[live]
        else:
            op[i] = SUBSCRIBE
            slot[i] = born
            there[live] = born
            live += 1
            born += 1
    return op, slot, born


def make_boxes(n: int, d: int, seed: int = 3) -> tuple[Floats, Floats]:
    """Random boxes of d attributes."""
    ends = np.sort(np.random.default_rng(seed).integers(0, MOST + 1, (n, d, 2)), axis=2).astype(np.float64)
    return ends[:, :, 0], ends[:, :, 1]


def make_placed_boxes(n: int, d: int, seed: int = 3) -> tuple[Floats, Floats]:
    """Another reading of a random segment: a uniform length, then a uniform place among those where it fits."""
    rng = np.random.default_rng(seed)
    length = np.floor(rng.random((n, d)) * (MOST + 1))
    lo = np.floor(rng.random((n, d)) * (MOST + 1 - length))
    return lo, lo + length


def make_commands(n: int, d: int, p: float, seed: int = 3, boxes: Boxes = make_boxes) -> Commands:
    """n commands on boxes of d attributes; [Covering] counts 2d dimensions."""
    rng = np.random.default_rng(seed)
    op, slot, born = _choose(rng.random(n), rng.random(n), p)
    return Commands(op, slot, *boxes(born, d, seed))
