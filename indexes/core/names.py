"""Ids in both directions: id to row for changes, row to id for results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from indexes.compiled.jit import allocating_kernel
from indexes.core.arrays import Bytes, Ints, Rows
from indexes.core.ids import BULK, IdMap, Packed, common, find_packed, first_repeat, pack
from indexes.core.texts import Texts


class Merged(NamedTuple):
    """A base of ids, and the place in it of each row (-1: none)."""

    base: Packed
    at: Rows


_NOTHING = np.frombuffer(b"\0", np.uint8)

FEW = 256
"""Rows up to which they are looked up among the recent ones without columns."""


class Names:
    """Ids with their rows. Memory: the bytes of an id and 16 more in the base, about 250 more for a recent one."""

    def __init__(self) -> None:
        self.ids = IdMap()
        self._at: Rows = np.empty(0, np.int32)
        self._recent: dict[int, str] = {}

    def __len__(self) -> int:
        return len(self.ids)

    def find(self, key: str) -> int:
        """The row of an id, or -1."""
        return self.ids.find(key)

    def find_all(self, keys: Sequence[str]) -> Rows:
        """The row of each id, or -1."""
        return self.ids.find_all(keys)

    def name(self, row: int) -> str:
        """The id of a row, which must have one. O(1)."""
        recent = self._recent.get(row)
        if recent is not None:
            return recent
        base, at = self.ids.base, int(self._at[row])
        return base.text[base.offset[at] : base.offset[at + 1]].tobytes().decode()

    def texts(self, rows: Rows) -> Texts:
        """The ids of rows, which must have one and may repeat. O(bytes), without a Python object for those in the
        base."""
        base, recent = self.ids.base, _NOTHING
        if self._recent:
            recent = np.frombuffer("".join([f"{name}\0" for name in self._recent_of(rows)]).encode(), np.uint8)
        return Texts(*_texts_of(rows, self._at, base.offset, base.text, recent))

    def _recent_of(self, rows: Rows) -> list[str]:
        """The ids of those rows that are not in the base."""
        named = self._recent
        if len(rows) <= FEW:
            return [named[row] for row in rows.tolist() if row in named]
        there = rows < len(self._at)
        there[there] = self._at[rows[there]] >= 0
        return [named[row] for row in rows[~there].tolist()]

    def many(self, rows: Rows) -> pa.LargeStringArray:
        """The same as an Arrow array."""
        return self.texts(rows).array()

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
        for key, row in zip(keys.to_pylist(), rows.tolist(), strict=True):
            self.note_one(key, row)

    def note_one(self, key: str, row: int) -> None:
        """As `note`, for one id."""
        self.ids.insert(key, row)
        self._recent[row] = key

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
        self._recent, self._at = {}, fresh.at

    def delete(self, key: str, row: int) -> None:
        """Remove an id, which must be in the table with this row. The row may be given to another."""
        self.ids.delete(key)
        self._recent.pop(row, None)
        if row < len(self._at):
            self._at[row] = -1

    def after(self, key: str | None) -> Iterator[tuple[str, int]]:
        """The ids behind `key` (None: all) in order, with their rows."""
        return self.ids.after(key)


@allocating_kernel
def _texts_of(rows: Rows, at: Rows, offset: Ints, text: Bytes, recent: Bytes) -> tuple[Bytes, Ints]:
    """The texts of the ids of rows: of one that has a place `at` in the base that one's, of the others one after the
    other of the `recent`, each of which ends in 0."""
    ends = np.zeros(rows.size + 1, np.int64)
    begin = np.empty(rows.size, np.int64)
    size = 0
    next = 0
    for i in range(rows.size):
        place = at[rows[i]] if rows[i] < at.size else -1
        if place >= 0:
            begin[i] = offset[place]
            size += offset[place + 1] - begin[i]
        else:
            begin[i] = -1 - next
            while recent[next] != 0:
                next += 1
                size += 1
            next += 1
        ends[i + 1] = size
    out = np.empty(size, np.uint8)
    for i in range(rows.size):
        first = ends[i]
        source = begin[i]
        if source >= 0:
            for z in range(ends[i + 1] - first):
                out[first + z] = text[source + z]
        else:
            for z in range(ends[i + 1] - first):
                out[first + z] = recent[z - 1 - source]
    return out, ends


def _places(base: Packed) -> Rows:
    at = np.full(int(base.row.max(initial=-1)) + 1, -1, np.int32)
    there = np.flatnonzero(base.row >= 0)
    at[base.row[there]] = there
    return at
