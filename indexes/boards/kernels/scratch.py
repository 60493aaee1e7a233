"""Scratch of the painting kernels: the lists, strips and hits of one change, and counters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.boards.kernels.forest import Forest
from indexes.boards.kernels.tiles import Tiles
from indexes.compiled.simd import LANES
from indexes.core.arrays import Floats, Ints

MIN_Y, SNAP, MERGE, REFRESH, EXPOSED = range(5)
"""Counters in `Scratch.stats`, as [Range top-k] counts: `min_y` calls (a worse y costs one more than it exposes), snaps
(one for each strip of updated and exposed objects), boxes searched to merge two tiles, snaps to renew l* and r*, and
exposed objects."""

HITS = 2048
"""Exposed objects found in one round; more are found in further rounds."""

ROOM = 2048
"""Capacity of the shortlist in subscriptions."""


class Shortlist(NamedTuple):
    """The subscriptions near one change, by column: their ends `l` and `r`, how many objects of the west list their
    range holds (`west`), and how many of both lists (`better`).

    Row z of `box` is the bounding box of those with z objects of the west list that gain the object at hand: the
    maxima of -l, l, -r and r. `passed` is scratch of a batch: by how many more objects crossed this rank upwards than
    downwards. The first `gone[0]` of `gone_l` and `gone_r` are the ends of subscriptions near the change that hold too
    many better objects to be in the region; those that have left it since the last `shrink` are still among the others.
    """

    l: Floats
    r: Floats
    west: Ints
    better: Ints
    box: Floats
    passed: Ints
    gone_l: Floats
    gone_r: Floats
    gone: Ints


def make_shortlist(kmax: int, room: int) -> Shortlist:
    """A shortlist for that many subscriptions, and lists of up to `kmax`."""
    size = room + 2 * LANES
    return Shortlist(
        np.zeros(size),
        np.zeros(size),
        np.zeros(size, np.int64),
        np.zeros(size, np.int64),
        np.empty((3 * kmax + 6, 4)),
        np.zeros(size, np.int64),
        np.zeros(size),
        np.zeros(size),
        np.zeros(1, np.int64),
    )


class Scratch(NamedTuple):
    """Scratch of the painting kernels for lists of up to `kmax`; see `make_scratch`.

    `all_west` and `all_east` are the lists of the largest class, `west` and `east` those of the class at hand; row t of
    `strip` is a strip (l_outer, l_inner, r_inner, r_outer); `best_y` and `best_c` hold the k best ranks seen; `hit` the
    exposed objects, and `key` the y of 16 of them; `stats` counts without reset; `level` is how deep the trees of
    subscriptions are searched, -1 for down to the leaves (`sketch`); `old` is the x of an object before its change;
    `counting[0]` is 1 while it is only counted how many tiles there are: their columns are then undefined.
    """

    all_west: Floats
    all_east: Floats
    west: Floats
    east: Floats
    strip: Floats
    best_y: Floats
    best_c: Ints
    hit: Ints
    spare: Ints
    key: Floats
    short: Shortlist
    stats: Ints
    level: int
    old: Floats
    counting: Ints


def make_scratch(kmax: int, room: int = ROOM, level: int = -1) -> Scratch:
    """Scratch for classes of up to `kmax`. Paint-Sparse searches the forest where more than `room` subscriptions are
    near."""
    return Scratch(
        np.empty(kmax + 2),
        np.empty(kmax + 2),
        np.empty(kmax + 2),
        np.empty(kmax + 2),
        np.empty((3 * kmax + 6, 4)),
        np.empty(kmax + 1),
        np.empty(kmax + 1, np.int64),
        np.empty(HITS, np.int64),
        np.empty(max(HITS, kmax), np.int64),
        np.empty(LANES),
        make_shortlist(kmax, room),
        np.zeros(8, np.int64),
        level,
        np.empty(1),
        np.zeros(1, np.int64),
    )


class PaintContext(NamedTuple):
    """What painting reads and writes apart from the object index: the subscriptions, the algorithm, scratch and output.

    Class q of `forest` has k = ks[q]; a class with k = 0 is skipped. `dense` paints for every possible subscription,
    otherwise only those in `forest` are recipients. `runs` = j > 0 paints with epsilon = 1/j: at most j tiles an object
    and class, which may reach ranges where it ranks behind k, up to (1 + 1/j) k ([Range top-k] IV-B); 0 is exact.
    """

    forest: Forest
    ks: Ints
    dense: bool
    runs: int
    scratch: Scratch
    tiles: Tiles
