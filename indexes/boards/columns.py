"""Columns of the subscriptions of a board by row, and how they grow: large ones a piece at a time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from indexes.boards.regions import Regions
from indexes.core import aligned
from indexes.core.arrays import Counts, Rows

LARGE = 1 << 16
"""Rows from which on columns grow a piece at a time, while there is room left."""

FULL = 0.9
"""The share of the rows in use from which on they do."""

PIECE = 1 << 14
"""Rows that are copied at once: less than a millisecond, also into memory that nobody has touched."""


class Columns:
    """`regions` as kernels see them, `k` and `offset` of so many rows; pages never written to take no memory.

    `k` has a byte for each row until a class is too great for it."""

    def __init__(self, d: int, size: int, kind: npt.DTypeLike = np.uint8) -> None:
        self.regions = Regions.roomy(d, size)
        self.k: Counts = aligned.apart(size, kind)
        self.offset: Rows = aligned.apart(size, np.int32)

    def __len__(self) -> int:
        return len(self.k)

    def widen(self) -> None:
        """Make `k` as wide as any class needs. O(m)."""
        wide = aligned.apart(len(self.k), np.int32)
        wide[:] = self.k
        self.k = wide

    def take_over(self, other: Columns, rows: slice | npt.NDArray[np.integer]) -> None:
        """Copy these rows of others. Offsets are written only where one is not 0, or was."""
        self.regions.take_over(other.regions, rows)
        self.k[rows] = other.k[rows]
        offset = other.offset[rows]
        if offset.any() or self.offset[rows].any():
            self.offset[rows] = offset


class GrowingColumns:
    """The columns in use, and larger ones that are filled from them while the last rows are handed out.

    To copy 2,000,000 rows at once takes 100 ms where memory is dear that nobody has touched. So larger columns follow
    each change (`follow`), which copies the next piece as well, and take over when all is copied.
    """

    def __init__(self, d: int) -> None:
        self.now = Columns(d, 0)
        self._next: Columns | None = None
        self._copied = 0

    def reserve(self, rows: int) -> None:
        """Have so many rows, and room for more, which takes no memory. O(m) where there are fewer: `follow` prevents
        that unless many are added at once."""
        if rows <= len(self.now):
            return
        if self._next is None or rows > len(self._next):
            self._begin(max(1024, rows * 5 // 4))
        self._copy(len(self.now))

    def follow(self, changed: Rows, high: int) -> None:
        """These rows have changed, of `high` that were ever handed out. O(changed), and a piece while they grow."""
        if self._next is not None:
            self._next.take_over(self.now, changed[changed < self._copied])
            self._copy(PIECE)
        elif len(self.now) >= LARGE and high > FULL * len(self.now):
            self._begin(len(self.now) * 5 // 4)

    def fit(self, k: int) -> None:
        """Have room for this class in the column `k`. O(m) once."""
        if k > np.iinfo(self.now.k.dtype).max:
            self.now.widen()
            if self._next is not None:
                self._next.widen()

    @property
    def growing(self) -> bool:
        """Whether larger columns are being filled."""
        return self._next is not None

    def _begin(self, size: int) -> None:
        self._next, self._copied = Columns(self.now.regions.d, size, self.now.k.dtype), 0

    def _copy(self, rows: int) -> None:
        assert self._next is not None
        end = min(self._copied + rows, len(self.now))
        self._next.take_over(self.now, slice(self._copied, end))
        self._copied = end
        if end == len(self.now):
            self.now, self._next = self._next, None
