"""The ids of subscriptions, both ways: id to row for changes, row to id for winners."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from indexes.ids import IdMap, Packed, common, find_packed, first_repeat, pack

Int32 = npt.NDArray[np.int32]

BULK = 4_096
"""From so many on, new ids go into the packed base and not into the dict."""


class Merged(NamedTuple):
    """A base of ids, and the place in it of each row, -1 for none."""

    base: Packed
    at: Int32


class Names:
    """Ids with their rows. Memory: the bytes of an id and 16 more in the base, about 250 more for a recent one."""

    def __init__(self) -> None:
        self.ids = IdMap()
        self._at: Int32 = np.empty(0, np.int32)
        self._recent: dict[int, str] = {}
        self._texts = _texts(self.ids.base)

    def __len__(self) -> int:
        return len(self.ids)

    def find(self, key: str) -> int:
        """The row of an id, or -1."""
        return self.ids.find(key)

    def name(self, row: int) -> str:
        """The id of a row that is there. O(1)."""
        recent = self._recent.get(row)
        if recent is not None:
            return recent
        base, at = self.ids.base, int(self._at[row])
        return base.text[base.offset[at] : base.offset[at + 1]].tobytes().decode()

    def many(self, rows: Int32) -> pa.LargeStringArray:
        """The ids of rows that are there, of some rows repeatedly. O(n), without a Python object for those in the
        base."""
        at = np.full(len(rows), -1, np.int64)
        inside = rows < len(self._at)
        at[inside] = self._at[rows[inside]]
        recent = at < 0
        if not recent.any():
            return self._texts.take(pa.array(at))
        names = [self._recent[row] for row in rows[recent].tolist()]
        base = self._texts.take(pa.array(at, mask=recent))
        return pc.replace_with_mask(base, pa.array(recent), pa.array(names, pa.large_string()))

    def taken(self, keys: pa.StringArray) -> list[str]:
        """Which of these are there already, or stand among them twice; not all of them need be named."""
        if len(keys) < BULK:
            counts = Counter(keys.to_pylist())
            return [key for key, times in counts.items() if times > 1 or self.ids.find(key) >= 0]
        packed = pack(keys, np.arange(len(keys), dtype=np.int32))
        repeat = first_repeat(packed)
        recent = [key for key in self.ids.recent if find_packed(packed, key) >= 0]
        return ([repeat] if repeat is not None else []) + common(self.ids.base, packed) + recent

    def insert(self, keys: pa.StringArray, rows: Int32) -> None:
        """Add ids that are not there, each once."""
        if len(keys) >= BULK:
            self.swap(self.merged(pack(keys, rows)))
            return
        self.note(keys, rows)
        if self.ids.wants_merge():
            self.swap(self.merged())

    def note(self, keys: pa.StringArray, rows: Int32) -> None:
        """As `insert`, and leave it to the caller to merge what has gathered: see `crowded`."""
        for key, row in zip(keys.to_pylist(), rows.tolist(), strict=True):
            self.note_one(key, row)

    def note_one(self, key: str, row: int) -> None:
        """As `note`, for one id."""
        self.ids.insert(key, row)
        self._recent[row] = key

    def recent_among(self, packed: Packed) -> bool:
        """Whether any recent id is one of these."""
        return any(find_packed(packed, key) >= 0 for key in self.ids.recent)

    @property
    def crowded(self) -> bool:
        """Whether recent ids are to be `merged` into the base."""
        return self.ids.wants_merge()

    def merged(self, more: Packed | None = None) -> Merged:
        """A base of all ids and those of `more`. O(n), in any thread; `swap` puts it in place."""
        base = self.ids.merged(more)
        return Merged(base, _places(base))

    def load(self, base: Packed) -> None:
        """Take over all ids, where there are none. O(n)."""
        self.swap(Merged(base, _places(base)))

    def swap(self, fresh: Merged) -> None:
        """Take what `merged` made. O(1)."""
        self.ids.swap(fresh.base)
        self._recent, self._at = {}, fresh.at
        self._texts = _texts(fresh.base)

    def delete(self, key: str, row: int) -> None:
        """Take out an id that is there. Its row may be given to another."""
        self.ids.delete(key)
        self._recent.pop(row, None)
        if row < len(self._at):
            self._at[row] = -1

    def after(self, key: str | None) -> Iterator[tuple[str, int]]:
        """Ids with their rows in order, those behind `key`."""
        return self.ids.after(key)


def _texts(base: Packed) -> pa.LargeStringArray:
    """The ids of a base as an Arrow array over its bytes."""
    parts = pa.py_buffer(base.offset), pa.py_buffer(base.text)
    return pa.LargeStringArray.from_buffers(len(base.row), *parts)


def _places(base: Packed) -> Int32:
    at = np.full(int(base.row.max(initial=-1)) + 1, -1, np.int32)
    there = np.flatnonzero(base.row >= 0)
    at[base.row[there]] = there
    return at
