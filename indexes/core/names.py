"""Ids in both directions: id to row for changes, row to id for results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from threading import Lock
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from indexes.core.arrays import Rows
from indexes.core.ids import BULK, IdMap, Packed, common, find_packed, first_repeat, pack
from indexes.core.texts import LaterTexts, Placed, Texts, gathered, placed

MOST_LATER = 1_024
"""Texts of recent ids that are there again or deleted, up to which all are kept."""

MOST_NAMED = 4_096
"""Ids of the base that `name` remembers, at most."""


class Merged(NamedTuple):
    """A base of ids, and the place in it of each row (-1: none)."""

    base: Packed
    at: Rows


class Names:
    """Ids with their rows. Memory: the bytes of an id and 16 more in the base, about 250 more for a recent one."""

    def __init__(self) -> None:
        self.ids = IdMap()
        self._at: Rows = np.empty(0, np.int32)
        self._recent: dict[int, str] = {}
        self._named: dict[int, str] = {}
        """Ids of the base that `name` has found, by row: it is mostly asked for the same ones."""
        self._unplaced: dict[int, str] = {}
        """Recent ids that `texts` has not met yet."""
        self._base = _texts(self.ids.base)
        self._later = LaterTexts()
        self._placing = Lock()

    def __len__(self) -> int:
        return len(self.ids)

    def find(self, key: str) -> int:
        """The row of an id, or -1."""
        return self.ids.find(key)

    def find_all(self, keys: Sequence[str]) -> Rows:
        """The row of each id, or -1."""
        return self.ids.find_all(keys)

    def any_of(self, keys: Sequence[str]) -> bool:
        """Whether any of these ids, at least one, is in the table."""
        return self.ids.any_of(keys)

    def name(self, row: int) -> str:
        """The id of a row, which must have one. O(1)."""
        # Read before the base: should `swap` replace both meanwhile, the former dict is added to.
        named = self._named
        known = self._recent.get(row) or named.get(row)
        if known is not None:
            return known
        base, at = self.ids.base, int(self._at[row])
        if len(named) >= MOST_NAMED:
            named.clear()
        found = named[row] = base.text[base.offset[at] : base.offset[at + 1]].tobytes().decode()
        return found

    def texts(self, rows: Rows) -> Texts:
        """The ids of rows, which must have one and may repeat. O(bytes), without a Python object for any but recent
        ones that came since the last call. In any thread while no id changes."""
        return gathered(self.placed(rows))

    def placed(self, rows: Rows) -> Placed:
        """The same, of which no text is copied: they stay as they are, whatever becomes of the ids. O(rows)."""
        with self._placing:
            if self._unplaced:
                self._place_recent()
            at, later = self._at, self._later.taken()
        return placed(self._base, later, at, rows)

    def many(self, rows: Rows) -> pa.LargeStringArray:
        """The same as an Arrow array."""
        return self.texts(rows).array()

    def _place_recent(self) -> None:
        """Write the texts of recent ids behind those of the base, so that their rows have places as well."""
        if len(self._later) > 2 * len(self._recent) + MOST_LATER:
            self._later, self._unplaced = LaterTexts(), dict(self._recent)
        n = len(self._unplaced)
        rows, last = np.fromiter(self._unplaced, np.int32, n), max(self._unplaced)
        if last >= len(self._at):
            self._at = np.concatenate([self._at, np.full(2 * (last + 1) - len(self._at), -1, np.int32)])
        first = len(self.ids.base.row) + len(self._later)
        self._later.add(list(self._unplaced.values()))
        self._at[rows] = np.arange(first, first + n, dtype=np.int32)
        self._unplaced = {}

    def taken(self, keys: pa.StringArray) -> list[str]:
        """Those of the keys that are in the table or occur twice, or some of them."""
        if len(keys) < BULK:
            counts = Counter(keys.to_pylist())
            return [key for key, times in counts.items() if times > 1 or self.ids.find(key) >= 0]
        packed = pack(keys, np.arange(len(keys), dtype=np.int32))
        repeat = first_repeat(packed)
        recent = [key for key in self.ids.recent if find_packed(packed, key) >= 0]
        return ([repeat] if repeat is not None else []) + common(self.ids.base, packed) + recent

    def insert(self, keys: pa.StringArray, rows: Rows) -> None:
        """Add ids, each once, which must not be in the table."""
        if len(keys) >= BULK:
            self.swap(self.merged(pack(keys, rows)))
            return
        self.note(keys, rows)
        if self.ids.crowded:
            self.swap(self.merged())

    def note(self, keys: pa.StringArray, rows: Rows) -> None:
        """As `insert`, but the caller merges recent ids: see `crowded`."""
        self.note_all(keys.to_pylist(), rows.tolist())

    def note_one(self, key: str, row: int) -> None:
        """As `note`, for one id."""
        self.ids.insert(key, row)
        self._recent[row] = self._unplaced[row] = key

    def note_all(self, keys: Sequence[str], rows: Sequence[int]) -> None:
        """As `note`, for lists."""
        self.ids.insert_all(keys, rows)
        named = dict(zip(rows, keys, strict=True))
        self._recent.update(named)
        self._unplaced.update(named)

    @property
    def crowded(self) -> bool:
        """Whether there are so many recent ids that they should be `merged` into the base."""
        return self.ids.crowded

    def merged(self, more: Packed | None = None) -> Merged:
        """A new base of all ids and those of `more`, for `swap`. O(n), in any thread; changes nothing."""
        base = self.ids.merged(more)
        return Merged(base, _places(base))

    def load(self, base: Packed) -> None:
        """Take over a base, where there are no ids. O(n)."""
        self.swap(Merged(base, _places(base)))

    def swap(self, fresh: Merged) -> None:
        """Use what `merged` made; no id is recent afterwards. O(1)."""
        self.ids.swap(fresh.base)
        self._base = _texts(fresh.base)
        self._recent, self._unplaced, self._later, self._at = {}, {}, LaterTexts(), fresh.at
        self._named = {}

    def delete(self, key: str, row: int) -> None:
        """Remove an id, which must be in the table with this row. The row may be given to another."""
        self.ids.delete(key)
        self._recent.pop(row, None)
        self._unplaced.pop(row, None)
        self._named.pop(row, None)
        if row < len(self._at):
            self._at[row] = -1

    def after(self, key: str | None) -> Iterator[tuple[str, int]]:
        """The ids behind `key` (None: all) in order, with their rows."""
        return self.ids.after(key)


def _texts(base: Packed) -> Texts:
    return Texts(base.text, base.offset).read_only


def _places(base: Packed) -> Rows:
    at = np.full(int(base.row.max(initial=-1)) + 1, -1, np.int32)
    there = np.flatnonzero(base.row >= 0)
    at[base.row[there]] = there
    return at
