"""External ids to row numbers, for millions of ids without a Python object for each.

Layout: a *base* of all ids that came in bulk, as one string of bytes with offsets, sorted by bytes (for ASCII: by code
point), each with its row number; and a dict of the *recent* ones. A look-up in the base is a binary search, and its
order is the order in which ids are listed. A deleted id of the base keeps its place with row -1 until the next merge.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from heapq import merge
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indexes.compiled.jit import allocating_kernel, expanded, kernel
from indexes.core.arrays import Bytes, Ints, Rows

BULK = 4_096
"""From so many new ids on, they are sorted and merged into the base, and not inserted one by one."""

MERGE_AT = 8_192
"""The dict is merged into the base when it holds more than this, and more than an eighth of the base."""

MOST_ABSENT = 1_024
"""Ids that are known not to be in the base, at most."""


class Packed(NamedTuple):
    """Sorted ids: the i-th is `text[offset[i]:offset[i + 1]]`, its row number `row[i]` (-1: deleted)."""

    text: Bytes
    offset: Ints
    row: Rows

    @classmethod
    def empty(cls) -> Packed:
        """No ids."""
        return cls(np.empty(0, np.uint8), np.zeros(1, np.int64), np.empty(0, np.int32))

    def place(self, key: str) -> int:
        """The place of an id, or -1. About 2 us."""
        return int(_search(self.text, self.offset, np.frombuffer(key.encode(), np.uint8)))

    def after(self, key: str | None) -> Iterator[tuple[str, int]]:
        """The ids behind `key` (None: all) in order, with their rows."""
        start = 0
        if key is not None:
            start = int(_upper_bound(self.text, self.offset, np.frombuffer(key.encode(), np.uint8)))
        for i in range(start, len(self.row)):
            if self.row[i] >= 0:
                yield _text_at(self, i), int(self.row[i])

    def packed(self) -> Packed:
        """This."""
        return self

    def common(self, others: Packed) -> list[str]:
        """See `common`."""
        return common(self, others)


def pack(ids: pa.StringArray, rows: Rows) -> Packed:
    """Sort ids with their rows. O(n log n), and the GIL is released for most of it."""
    if len(ids) > 1 and not _is_sorted(*_buffers(ids)):
        order = pc.sort_indices(ids)
        ids = ids.take(order)
        rows = rows[order.to_numpy()]
    text, offset = _buffers(ids)
    return Packed(text, offset, rows)


def _buffers(ids: pa.StringArray) -> tuple[Bytes, Ints]:
    """The bytes of an Arrow string array and its offsets, rebased to 0; copies the offsets only."""
    wide = ids.cast(pa.large_string())
    offset = np.frombuffer(wide.buffers()[1], np.int64)[wide.offset : wide.offset + len(wide) + 1]
    data = wide.buffers()[2]
    text = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return text[offset[0] : offset[-1]], offset - offset[0]


def find_packed(packed: Packed, key: str) -> int:
    """The row of an id, or -1. About 2 us."""
    at = packed.place(key)
    return int(packed.row[at]) if at >= 0 else -1


def first_repeat(packed: Packed) -> str | None:
    """An id that occurs in `packed` twice, or None. O(n)."""
    at = _repeat_at(packed.text, packed.offset)
    return _text_at(packed, at) if at >= 0 else None


def is_sorted(packed: Packed) -> bool:
    """Whether the ids are in order, each once."""
    return bool(_is_sorted(packed.text, packed.offset)) and _repeat_at(packed.text, packed.offset) < 0


def common(a: Packed, b: Packed) -> list[str]:
    """The ids in both, up to 100 of them, without deleted ones. O(len(a) + len(b))."""
    out = np.empty(100, np.int64)
    found = _common(a.text, a.offset, a.row, b.text, b.offset, b.row, out)
    return [_text_at(a, int(i)) for i in out[:found]]


def _text_at(packed: Packed, i: int) -> str:
    return packed.text[packed.offset[i] : packed.offset[i + 1]].tobytes().decode()


def merge_packed(a: Packed, b: Packed) -> Packed:
    """The union of both, without deleted ids. O(len(a) + len(b)), and the GIL is released."""
    n = int(np.count_nonzero(a.row >= 0)) + int(np.count_nonzero(b.row >= 0))
    text = np.empty(a.text.size + b.text.size, np.uint8)
    out = Packed(text, np.empty(n + 1, np.int64), np.empty(n, np.int32))
    size = _merge(a, b, out)
    return Packed(text[:size].copy() if size < text.size else text, out.offset, out.row)


M = TypeVar("M")


class Mergeable(Protocol[M]):
    """A table of ids whose recent ones are merged into its base from time to time: an `IdMap`, or `names.Names`."""

    @property
    def crowded(self) -> bool: ...

    def merged(self, more: Packed | None = None) -> M: ...

    def swap(self, base: M, /) -> None: ...


class Base(Protocol):
    """Sorted ids that came in bulk, with their rows: `Packed`, or `front_coding.Coded`."""

    @property
    def row(self) -> Rows: ...
    def place(self, key: str, /) -> int: ...
    def after(self, key: str | None, /) -> Iterator[tuple[str, int]]: ...
    def packed(self) -> Packed: ...
    def common(self, others: Packed, /) -> list[str]: ...


B = TypeVar("B", bound=Base)


class AnyIdMap(ABC, Generic[B]):
    """A map from id to row number that lists its ids in order: `base` are those that came in bulk, `recent` the others.

    `find` costs one dict look-up and, for ids of the base, one binary search of about 2 us.
    """

    def __init__(self, none: B, stay: int = 0) -> None:
        """`none` is a base without ids; `stay` ids are never too many to be recent."""
        self.base = none
        self._stay = stay
        self.recent: dict[str, int] = {}
        self._absent: set[str] = set()
        """Ids that are known not to be in the base, which gets new ones only by `swap`: a new id is looked for more
        than once before it is inserted."""
        self._base_size = 0
        self._sorted_recent: list[str] | None = []

    def __len__(self) -> int:
        return len(self.recent) + self._base_size

    def find(self, key: str) -> int:
        """The row of an id, or -1."""
        row = self.recent.get(key)
        if row is not None:
            return row
        # Read before the base: should `swap` replace both meanwhile, the former set is added to.
        absent = self._absent
        if key in absent or not self._base_size:
            return -1
        base = self.base
        at = base.place(key)
        if at >= 0:
            return int(base.row[at])
        if len(absent) >= MOST_ABSENT:
            absent.clear()
        absent.add(key)
        return -1

    def find_all(self, keys: Sequence[str]) -> Rows:
        """The row of each id, or -1."""
        return np.fromiter(map(self.find, keys), np.int32, len(keys))

    def insert(self, key: str, row: int) -> None:
        """Add an id, which must not be in the map. O(1)."""
        self.recent[key] = row
        self._sorted_recent = None

    def insert_all(self, keys: Sequence[str], rows: Sequence[int]) -> None:
        """As `insert`, for each."""
        self.recent.update(zip(keys, rows, strict=True))
        self._sorted_recent = None

    def delete_all(self, keys: Sequence[str]) -> None:
        """Remove ids, which must be in the map, each once. O(n), and a search for each of the base."""
        for key in keys:
            self.delete(key)

    def delete(self, key: str) -> None:
        """Remove an id, which must be in the map. O(1), and a search for one of the base."""
        if self.recent.pop(key, None) is not None:
            self._sorted_recent = None
            return
        self.base.row[self.base.place(key)] = -1
        self._base_size -= 1

    def after(self, key: str | None) -> Iterator[tuple[str, int]]:
        """The ids behind `key` (None: all) in order, with their rows."""
        if self._sorted_recent is None:
            self._sorted_recent = sorted(self.recent)
        recent = self._sorted_recent
        start = bisect_right(recent, key) if key is not None else 0
        return merge(((recent[i], self.recent[recent[i]]) for i in range(start, len(recent))), self.base.after(key))

    def recent_among(self, packed: Packed) -> bool:
        """Whether any recent id is one of these. O(recent log n)."""
        return any(find_packed(packed, key) >= 0 for key in self.recent)

    @property
    def crowded(self) -> bool:
        """Whether there are so many recent ids that they should be merged into the base."""
        return self.crowded_with(0)

    def crowded_with(self, more: int) -> bool:
        """Whether there would be, with so many more."""
        n = len(self.recent) + more
        return n > MERGE_AT and n > self._stay and n > self._base_size // 8

    @abstractmethod
    def base_of(self, ids: Packed) -> B:
        """These ids as a base of such a map."""

    def merged(self, more: Packed | None = None) -> B:
        """A new base of all ids and those of `more`, for `swap`. O(n), in any thread; changes nothing."""
        fresh = self.base.packed()
        if self.recent or len(fresh.row) > self._base_size:
            rows = np.fromiter(self.recent.values(), np.int32, len(self.recent))
            fresh = merge_packed(fresh, pack(pa.array(list(self.recent), pa.string()), rows))
        if more is not None:
            fresh = merge_packed(fresh, more)
        return self.base_of(fresh)

    def swap(self, base: B) -> None:
        """Use a base made by `merged`; no id is recent afterwards. O(1)."""
        self.base = base
        self._absent = set()
        self._base_size = len(base.row)
        self.recent = {}
        self._sorted_recent = []

    def check(self) -> None:
        """Raise AssertionError unless the base is sorted, its size is right, and it is disjoint from the dict."""
        packed = self.base.packed()
        assert _is_sorted(packed.text, packed.offset), "the base is not sorted"
        assert _repeat_at(packed.text, packed.offset) < 0, "the base holds an id twice"
        assert int(np.count_nonzero(packed.row >= 0)) == self._base_size, "the base is counted wrongly"
        for key in self.recent:
            at = self.base.place(key)
            assert at < 0 or self.base.row[at] < 0, f"{key} is in the base and in the dict"


class IdMap(AnyIdMap[Packed]):
    """A map whose base has all texts one after the other. Memory: the bytes of an id and 12 more in the base, about 150
    more in the dict."""

    def __init__(self, stay: int = 0) -> None:
        super().__init__(Packed.empty(), stay)

    def base_of(self, ids: Packed) -> Packed:
        return ids

    def find_all(self, keys: Sequence[str]) -> Rows:
        """The row of each id, or -1: those of the base are searched for by one call."""
        if len(keys) == 1:
            return np.array([self.find(keys[0])], np.int32)
        rows = self._base_rows(keys)
        if rows is None:
            return super().find_all(keys)
        recent = self.recent
        for i, key in enumerate(keys) if recent else ():
            rows[i] = recent.get(key, rows[i])
        return rows

    def any_of(self, keys: Sequence[str]) -> bool:
        """Whether any of these ids, at least one, is in the map."""
        if not self.recent.keys().isdisjoint(keys):
            return True
        if not self._base_size or self._absent.issuperset(keys):
            return False
        if len(keys) == 1:
            return self.find(keys[0]) >= 0
        rows = self._base_rows(keys)
        return any(self.find(key) >= 0 for key in keys) if rows is None else bool(rows.max() >= 0)

    def delete_all(self, keys: Sequence[str]) -> None:
        """Remove ids, which must be in the map, each once: those of the base are searched for by one call."""
        if len(keys) == 1:
            self.delete(keys[0])
            return
        recent = self.recent
        old = [key for key in keys if recent.pop(key, None) is None]
        if len(old) < len(keys):
            self._sorted_recent = None
        if old and self._base_rows(old, delete=True) is None:
            super().delete_all(old)
        else:
            self._base_size -= len(old)

    def _base_rows(self, keys: Sequence[str], delete: bool = False) -> Rows | None:
        """The row of each id in the base, or -1; with `delete` they are deleted there. None, and nothing has changed,
        where an id contains a NUL, which no client's does."""
        text = "\0".join(keys).encode()
        if text.count(0) != len(keys) - 1:
            return None
        base, rows = self.base, np.empty(len(keys), np.int32)
        _find_all(base.text, base.offset, base.row, np.frombuffer(text, np.uint8), rows, delete)
        return rows


@expanded
def _compare(a: Bytes, a0: int, a1: int, b: Bytes, b0: int, b1: int) -> Any:
    """Negative, zero or positive as bytes a[a0:a1] sort before, with or after b[b0:b1]."""
    n = min(a1 - a0, b1 - b0)
    i = 0
    while i < n and a[a0 + i] == b[b0 + i]:
        i += 1
    if i < n:
        order: Any = np.int64(a[a0 + i]) - np.int64(b[b0 + i])
    else:
        order = (a1 - a0) - (b1 - b0)
    return order


@expanded
def _place_behind(text: Bytes, offset: Ints, keys: Bytes, begin: int, end: int) -> Any:
    """The place behind the last text that does not sort after keys[begin:end]."""
    lo = 0
    hi = offset.size - 1
    while lo < hi:
        mid = (lo + hi) >> 1
        if _compare(text, offset[mid], offset[mid + 1], keys, begin, end) <= 0:
            lo = mid + 1
        else:
            hi = mid
    return lo


@allocating_kernel
def _upper_bound(text: Bytes, offset: Ints, key: Bytes) -> int:
    place: int = _place_behind(text, offset, key, 0, key.size)
    return place


@allocating_kernel
def _search(text: Bytes, offset: Ints, key: Bytes) -> int:
    at = _upper_bound(text, offset, key) - 1
    if at >= 0 and _compare(text, offset[at], offset[at + 1], key, 0, key.size) != 0:
        at = -1
    return at


@kernel
def _find_all(text: Bytes, offset: Ints, row: Rows, keys: Bytes, out: Rows, delete: bool) -> None:
    """The row of each of the keys, between which there is a 0, or -1; with `delete` they are marked as deleted."""
    begin = 0
    for i in range(out.size):
        end = begin
        while end < keys.size and keys[end] != 0:
            end += 1
        at = _place_behind(text, offset, keys, begin, end) - 1
        found = at >= 0 and _compare(text, offset[at], offset[at + 1], keys, begin, end) == 0
        out[i] = row[at] if found else -1
        if found and delete:
            row[at] = -1
        begin = end + 1


@allocating_kernel
def _is_sorted(text: Bytes, offset: Ints) -> bool:
    good = True
    for i in range(offset.size - 2):
        if _compare(text, offset[i], offset[i + 1], text, offset[i + 1], offset[i + 2]) > 0:
            good = False
            break
    return good


@allocating_kernel
def _repeat_at(text: Bytes, offset: Ints) -> int:
    at = -1
    for i in range(offset.size - 2):
        if _compare(text, offset[i], offset[i + 1], text, offset[i + 1], offset[i + 2]) == 0:
            at = i
            break
    return at


@allocating_kernel
def _common(ta: Bytes, oa: Ints, ra: Rows, tb: Bytes, ob: Ints, rb: Rows, out: Ints) -> int:
    found = 0
    i = 0
    j = 0
    while i < ra.size and j < rb.size and found < out.size:
        order = _compare(ta, oa[i], oa[i + 1], tb, ob[j], ob[j + 1])
        if order == 0:
            if ra[i] >= 0 and rb[j] >= 0:
                out[found] = i
                found += 1
            i += 1
            j += 1
        elif order < 0:
            i += 1
        else:
            j += 1
    return found


@allocating_kernel
def _merge(a: Packed, b: Packed, out: Packed) -> int:
    ta, oa, ra = a
    tb, ob, rb = b
    text, offset, row = out
    i = 0
    j = 0
    n = 0
    size = 0
    offset[0] = 0
    while i < ra.size or j < rb.size:
        from_a = j == rb.size or (i < ra.size and _compare(ta, oa[i], oa[i + 1], tb, ob[j], ob[j + 1]) <= 0)
        if from_a:
            if ra[i] >= 0:
                for p in range(oa[i], oa[i + 1]):
                    text[size] = ta[p]
                    size += 1
                row[n] = ra[i]
                n += 1
                offset[n] = size
            i += 1
        else:
            if rb[j] >= 0:
                for p in range(ob[j], ob[j + 1]):
                    text[size] = tb[p]
                    size += 1
                row[n] = rb[j]
                n += 1
                offset[n] = size
            j += 1
    return size
