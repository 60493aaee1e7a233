"""Scratch of the kernels that paint boards with several range attributes."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.boards.space.points import WIDEST
from indexes.lanes import LANES

LEVELS = 64
"""More than any tree has."""

BINS = 32
"""Rings in which near objects are put in order."""

NEAR, WANTED = range(2)
"""Entries of `Near.size`: how many objects it holds, -1 before they are fetched, and how many are wanted at least."""

WANTED_AHEAD = (64, 64, 128, 128, 256)
WANTED_BEHIND = (64, 64, 64, 64, 128)
"""So many near objects at least are fetched with d range attributes: of those that rank before the one at hand, and of
those behind it."""

FIRST_LOOK = 256
"""About so many near objects at most decide about an inner node."""


FETCHES, NODES, COUNTS, SEARCHES, CHECKS = range(5)
"""Counters in `SpaceWork.stats`: times that near objects were fetched, nodes of the tree of subscriptions looked at,
subscriptions whose better objects were counted in the tree of objects, those whose next object was searched for there,
and boxes searched for other subscriptions before they were made one tile."""


class Near(NamedTuple):
    """All objects of a box around the one at hand that rank within two limits: their columns in blocks of 16, and their
    slots.

    `box` is that box (l_1, r_1, ...), infinite where no object lies farther out. `reach` is its half width as a share
    of the frame of the objects; the next search begins with it. `spare`, `part` and `bin` are for putting them in
    order.
    """

    v: NDArray[np.float64]
    slot: NDArray[np.int32]
    spare: NDArray[np.int32]
    part: NDArray[np.int32]
    bin: NDArray[np.int32]
    size: NDArray[np.int64]
    reach: NDArray[np.float64]
    box: NDArray[np.float64]


class Drafts(NamedTuple):
    """Tiles before they are written: closed boxes of parameters, WIDEST numbers each; `slot` is the exposed object, -1
    for the object at hand, -2 for a draft that was merged into another one. `n[0]` counts them.

    The last leaf or inner node on each level whose subscriptions are all in one draft is `node`, with its `draft`; row
    0 is for the object at hand, row 1 for exposed ones.
    """

    low: NDArray[np.float64]
    high: NDArray[np.float64]
    slot: NDArray[np.int32]
    order: NDArray[np.int32]
    n: NDArray[np.int64]
    node: NDArray[np.int64]
    draft: NDArray[np.int64]


class SpaceWork(NamedTuple):
    """Scratch for lists of up to `kmax`; `make_space_work` makes one. `box` and `low`, `high` are one region each.

    Of each point of a leaf, `before` counts the objects of its region that rank before the one at hand, and `gain` is
    the object that it gains. `ahead` has near objects that rank before the one at hand, the nearest first, `behind`
    those between its old and its new rank, the best first. `stats` counts up for ever.
    """

    best: NDArray[np.int32]
    box: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    before: NDArray[np.int64]
    gain: NDArray[np.int32]
    ahead: Near
    behind: Near
    drafts: Drafts
    stats: NDArray[np.int64]


def make_space_work(d: int, kmax: int, tiles: int) -> SpaceWork:
    """Scratch for classes of up to `kmax` over d attributes, and for so many tiles an event."""
    drafts = Drafts(
        np.empty(tiles * WIDEST),
        np.empty(tiles * WIDEST),
        np.empty(tiles, np.int32),
        np.empty(tiles, np.int32),
        np.zeros(1, np.int64),
        np.zeros((2, LEVELS), np.int64),
        np.zeros((2, LEVELS), np.int64),
    )
    return SpaceWork(
        np.empty(kmax + 1, np.int32), np.empty(WIDEST), np.empty(WIDEST), np.empty(WIDEST), np.empty(LANES, np.int64),
        np.empty(LANES, np.int32), _make_near(d, kmax, WANTED_AHEAD[d]), _make_near(d, kmax, WANTED_BEHIND[d]), drafts,
        np.zeros(CHECKS + 1, np.int64),
    )  # fmt: skip


def _make_near(d: int, kmax: int, wanted: int) -> Near:
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
