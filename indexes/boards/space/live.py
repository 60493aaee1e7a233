"""The lists of live subscriptions on a board with several range attributes; see `indexes.boards.live`.

Who is reached by a tile is looked up in a `SpaceSubscriptions` of live slots.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from indexes.boards.live import LiveSlots
from indexes.boards.space.subscriptions import SpaceSubscriptions, report
from indexes.boards.space.tiles import closed_box
from indexes.lean import inner_kernel


class SpaceLiveLists(LiveSlots):
    """The live slots of a board over d range attributes, and the index of their regions."""

    def __init__(self, d: int, classes: tuple[tuple[int, str], ...] = ()) -> None:
        super().__init__((d,))
        self.index = SpaceSubscriptions(d, classes)

    def add(self, q: int, k: int, params: ArrayLike, rows: NDArray[np.int32], offset: int = 0) -> int:
        """Keep a list from now on, beginning with `rows`; returns its live slot. Amortised O(k + log^2 m)."""
        live = self._open(k, rows, offset)
        self.index.insert_many(q, np.array([live], np.int32), np.array(params, np.float64, ndmin=2))
        return live

    def remove(self, q: int, live: int) -> None:
        """Forget a list. O(log m)."""
        self.index.delete_many(q, np.array([live], np.int32))
        self._close(live)

    def move(
        self, live: int, q_old: int, q_new: int, k: int, params: ArrayLike, rows: NDArray[np.int32], offset: int = 0
    ) -> None:
        """Carry a list over to another region, class, length or offset under the same slot. O(k + log^2 m)."""
        self.index.delete_many(q_old, np.array([live], np.int32))
        self._carry(live, k, rows, offset)
        self.index.insert_many(q_new, np.array([live], np.int32), np.array(params, np.float64, ndmin=2))


@inner_kernel
def find_receivers(f, live, tiles, first, w):  # type: ignore[no-untyped-def]
    """Collect who is reached by the tiles from `first` on. 1, or 0 when a buffer is too small for this event."""
    d = live.deliveries
    n = 0
    fits = 1
    for t in range(first, tiles.n[0]):
        if fits == 1:
            q = tiles.cls[t]
            closed_box(f.shape[q], tiles.x.shape[1], tiles.side, t, w.low, w.high, 0)
            got = report(f, q, w.low, w.high, 0, d.live, n)
            if got < 0:
                fits = 0
            else:
                for p in range(n, n + got):
                    d.tile[p] = t
                n += got
    if live.records.n[0] + 2 * n > live.records.event.size or live.tile_records.n[0] + n > live.tile_records.event.size:
        fits = 0
    d.n[0] = n
    return fits
