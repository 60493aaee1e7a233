"""Scratch of the kernels that paint boards with several range attributes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.boards.space.kernels.points import WIDEST
from indexes.compiled.simd import LANES
from indexes.core.arrays import Floats, Ints, Ints32

LEVELS = 64
"""More than any tree has."""

BINS = 32
"""Rings by which near objects are ordered."""

NEAR, WANTED = range(2)
"""Entries of `Near.size`: how many objects it holds, -1 before they are fetched, and how many are wanted at least."""

WANTED_AHEAD = (64, 64, 128, 128, 256)
WANTED_BEHIND = (64, 64, 64, 64, 128)
"""Near objects that are fetched at least, by number of range attributes: of those that rank before the object at hand,
and of those behind it."""

FIRST_LOOK = 256
"""At most about so many near objects are counted for an inner node."""


FETCHES, NODES, COUNTS, SEARCHES, CHECKS = range(5)
"""Counters in `SpaceScratch.stats`: fetches of near objects, nodes of the tree of subscriptions visited, subscriptions
whose better objects were counted in the tree of objects, those whose next object was searched there, and boxes searched
for other subscriptions before they became one tile."""


class Near(NamedTuple):
    """All objects of a box around the one at hand that rank within two limits: their columns `v` in blocks of 16, and
    their slots.

    `box` is that box (l_1, r_1, ...), infinite where no object lies farther out. `reach` is its half width relative to
    the frame of the objects; the next search begins with it. `spare`, `part` and `bin` are scratch of sorting.
    """

    v: Floats
    slot: Ints32
    spare: Ints32
    part: Ints32
    bin: Ints32
    size: Ints
    reach: Floats
    box: Floats


class Drafts(NamedTuple):
    """Tiles before they are written: closed boxes `low` and `high` of parameters, WIDEST numbers each; `slot` is the
    exposed object, -1 for the object at hand, -2 for a draft that was merged into another one. `n[0]` counts them.

    `node` is the last leaf or inner node on each level whose subscriptions are all in one draft, and `draft` that
    draft; row 0 is for the object at hand, row 1 for exposed ones.
    """

    low: Floats
    high: Floats
    slot: Ints32
    order: Ints32
    n: Ints
    node: Ints
    draft: Ints


class SpaceScratch(NamedTuple):
    """Scratch for lists of up to `kmax`; see `make_space_scratch`. `box` and `low`, `high` are one region each.

    For each point of a leaf, `before` counts the objects of its region that rank before the one at hand, and `gain` is
    the slot of the object that it gains. `ahead` are near objects that rank before the one at hand, the nearest first,
    `behind` those between its old and its new rank, the best first. `stats` counts without reset. `old`
    (1, d) is the place of an object before its change.
    """

    best: Ints32
    box: Floats
    low: Floats
    high: Floats
    before: Ints
    gain: Ints32
    ahead: Near
    behind: Near
    drafts: Drafts
    stats: Ints
    old: Floats


def make_space_scratch(d: int, kmax: int, tiles: int) -> SpaceScratch:
    """Scratch for classes of up to `kmax` over d attributes, and for so many tiles a change."""
    drafts = Drafts(
        np.empty(tiles * WIDEST),
        np.empty(tiles * WIDEST),
        np.empty(tiles, np.int32),
        np.empty(tiles, np.int32),
        np.zeros(1, np.int64),
        np.zeros((2, LEVELS), np.int64),
        np.zeros((2, LEVELS), np.int64),
    )
    return SpaceScratch(
        np.empty(kmax + 1, np.int32), np.empty(WIDEST), np.empty(WIDEST), np.empty(WIDEST), np.empty(LANES, np.int64),
        np.empty(LANES, np.int32), _make_near(d, kmax, WANTED_AHEAD[d]), _make_near(d, kmax, WANTED_BEHIND[d]), drafts,
        np.zeros(CHECKS + 1, np.int64), np.empty((1, d)),
    )  # fmt: skip


def _make_near(d: int, kmax: int, wanted: int) -> Near:
    """Room for near objects of which `wanted` are fetched at least."""
    most = 4 * max(wanted, -(-4 * kmax // LANES) * LANES)
    return Near(
        np.zeros(most * d),
        np.zeros(most, np.int32),
        np.zeros(most, np.int32),
        np.zeros(most, np.int32),
        np.zeros(BINS + 1, np.int32),
        np.array([-1, wanted]),
        np.full(1, 0.1),
        np.empty(2 * d),
    )
