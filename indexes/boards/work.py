"""Scratch of the painting kernels: the lists, strips and hits of the event at hand, and counters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.lanes import LANES

MIN_Y, SNAP, MERGE, REFRESH, EXPOSED = range(5)
"""Counters in `Work.stats`, as the paper counts: `min_y` calls (a worse y costs one more than it exposes), snaps (one
for each strip of updated and exposed objects), boxes searched to merge two tiles, snaps to renew l* and r*, objects
exposed."""

HITS = 2048
"""Exposed objects looked at together; more are found in further rounds."""

ROOM = 2048
"""Subscriptions that the short list holds."""


class Shortlist(NamedTuple):
    """Subscriptions by column: the ends, how many objects of the west list their range holds, and of both lists. Row z
    of `box` is the bounding box (lmin, lmax, rmin, rmax) of those with z of the west that gain the object at hand.
    `passed` is scratch of a batch: by how many more objects that passed this one upwards than downwards."""

    l: NDArray[np.float64]
    r: NDArray[np.float64]
    west: NDArray[np.int64]
    better: NDArray[np.int64]
    box: NDArray[np.float64]
    passed: NDArray[np.int64]


def make_shortlist(kmax: int, room: int) -> Shortlist:
    """Room for that many subscriptions, in lists of up to `kmax`."""
    size = room + 2 * LANES
    return Shortlist(
        np.zeros(size),
        np.zeros(size),
        np.zeros(size, np.int64),
        np.zeros(size, np.int64),
        np.empty((3 * kmax + 6, 4)),
        np.zeros(size, np.int64),
    )


class Work(NamedTuple):
    """Scratch of the painting kernels for lists of up to `kmax`; `make_work` makes one. `stats` counts up for ever;
    `level` is how deep the trees of subscriptions are looked into, -1 for all the way (`sketch.py`).
    """

    all_west: NDArray[np.float64]
    all_east: NDArray[np.float64]
    west: NDArray[np.float64]
    east: NDArray[np.float64]
    strip: NDArray[np.float64]
    best_y: NDArray[np.float64]
    best_c: NDArray[np.int64]
    hit: NDArray[np.int64]
    spare: NDArray[np.int64]
    short: Shortlist
    stats: NDArray[np.int64]
    level: int


def make_work(kmax: int, room: int = ROOM, level: int = -1) -> Work:
    """Scratch for classes of up to `kmax`; Paint-Sparse goes by snaps where more than `room` subscriptions are
    concerned."""
    return Work(
        np.empty(kmax + 2),
        np.empty(kmax + 2),
        np.empty(kmax + 2),
        np.empty(kmax + 2),
        np.empty((3 * kmax + 6, 4)),
        np.empty(kmax + 1),
        np.empty(kmax + 1, np.int64),
        np.empty(HITS, np.int64),
        np.empty(max(HITS, kmax), np.int64),
        make_shortlist(kmax, room),
        np.zeros(8, np.int64),
        level,
    )
