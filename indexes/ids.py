"""External ids to row numbers, for millions of ids without a Python object each.

Layout: a *base* of all ids that came in bulk, as one string of bytes with offsets, sorted by bytes (for ASCII: by code
point), with the row number beside each; and a dict of what came since. Looking up in the base is a binary search, and
its order is the order in which ids are listed. A deleted id of the base keeps its place with row -1 until the next
merge.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from heapq import merge
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from indexes.jit import inline_kernel, kernel

MERGE_AT = 65_536
"""The dict is folded into the base when it holds more than this, and more than an eighth of the base."""


class Packed(NamedTuple):
    """Sorted ids: `text[offset[i]:offset[i + 1]]` is the i-th, `row[i]` its row number (-1: deleted)."""

    text: npt.NDArray[np.uint8]
    offset: npt.NDArray[np.int64]
    row: npt.NDArray[np.int32]


def pack(ids: pa.StringArray, rows: npt.NDArray[np.int32]) -> Packed:
    """Sort ids with their rows. O(n log n), and the GIL is released for most of it."""
    if len(ids) > 1 and not _is_sorted(*_buffers(ids)):
        order = pc.sort_indices(ids)
        ids = ids.take(order)
        rows = rows[order.to_numpy()]
    text, offset = _buffers(ids)
    return Packed(text, offset, rows)


def _buffers(ids: pa.StringArray) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """The bytes of an Arrow string array and its offsets, rebased to 0; copies the offsets only."""
    wide = ids.cast(pa.large_string())
    offset = np.frombuffer(wide.buffers()[1], np.int64)[wide.offset : wide.offset + len(wide) + 1]
    data = wide.buffers()[2]
    text = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return text[offset[0] : offset[-1]], offset - offset[0]


def find_packed(packed: Packed, key: str) -> int:
    """The row of an id, or -1. About 2 us."""
    at = int(_search(packed.text, packed.offset, np.frombuffer(key.encode(), np.uint8)))
    return int(packed.row[at]) if at >= 0 else -1


def first_repeat(packed: Packed) -> str | None:
    """An id that stands in `packed` twice, or None."""
    at = _repeat_at(packed.text, packed.offset)
    return _text_at(packed, at) if at >= 0 else None


def is_sorted(packed: Packed) -> bool:
    """Whether the ids are in order, each once."""
    return bool(_is_sorted(packed.text, packed.offset)) and _repeat_at(packed.text, packed.offset) < 0


def common(a: Packed, b: Packed) -> list[str]:
    """The ids that both hold, up to 100 of them; deleted ones do not count. O(len(a) + len(b))."""
    out = np.empty(100, np.int64)
    found = _common(a.text, a.offset, a.row, b.text, b.offset, b.row, out)
    return [_text_at(a, int(i)) for i in out[:found]]


def _text_at(packed: Packed, i: int) -> str:
    return packed.text[packed.offset[i] : packed.offset[i + 1]].tobytes().decode()


def merge_packed(a: Packed, b: Packed) -> Packed:
    """Both in one, without the deleted ids. O(len(a) + len(b)), GIL released."""
    n = int(np.count_nonzero(a.row >= 0)) + int(np.count_nonzero(b.row >= 0))
    text = np.empty(a.text.size + b.text.size, np.uint8)
    out = Packed(text, np.empty(n + 1, np.int64), np.empty(n, np.int32))
    size = _merge(a, b, out)
    return Packed(text[:size].copy() if size < text.size else text, out.offset, out.row)


class IdMap:
    """A map from id to row number, with its ids in order.

    `find` costs one dict look-up and, for ids of the base, one binary search of about 2 us. Memory: the bytes of an id
    and 12 more in the base, about 150 more in the dict.
    """

    def __init__(self) -> None:
        self.base = Packed(np.empty(0, np.uint8), np.zeros(1, np.int64), np.empty(0, np.int32))
        self.recent: dict[str, int] = {}
        self._base_size = 0
        self._sorted_recent: list[str] | None = []

    def __len__(self) -> int:
        return len(self.recent) + self._base_size

    def find(self, key: str) -> int:
        """The row of an id, or -1."""
        row = self.recent.get(key)
        if row is not None:
            return row
        return find_packed(self.base, key) if self._base_size else -1

    def _find_base(self, key: str) -> int:
        return int(_search(self.base.text, self.base.offset, np.frombuffer(key.encode(), np.uint8)))

    def insert(self, key: str, row: int) -> None:
        """Add an id that is not there."""
        self.recent[key] = row
        self._sorted_recent = None

    def delete(self, key: str) -> None:
        """Take out an id that is there."""
        if self.recent.pop(key, None) is not None:
            self._sorted_recent = None
            return
        self.base.row[self._find_base(key)] = -1
        self._base_size -= 1

    def after(self, key: str | None) -> Iterator[tuple[str, int]]:
        """Ids with their rows in order, those behind `key`."""
        if self._sorted_recent is None:
            self._sorted_recent = sorted(self.recent)
        recent = self._sorted_recent
        start = bisect_right(recent, key) if key is not None else 0
        return merge(((recent[i], self.recent[recent[i]]) for i in range(start, len(recent))), self._base_after(key))

    def _base_after(self, key: str | None) -> Iterator[tuple[str, int]]:
        start = 0
        if key is not None:
            start = int(_upper_bound(self.base.text, self.base.offset, np.frombuffer(key.encode(), np.uint8)))
        for i in range(start, len(self.base.row)):
            if self.base.row[i] >= 0:
                yield _text_at(self.base, i), int(self.base.row[i])

    def wants_merge(self) -> bool:
        """Whether the dict has grown past its share."""
        return len(self.recent) > max(MERGE_AT, self._base_size // 8)

    def merged(self, more: Packed | None = None) -> Packed:
        """A new base of all ids and those of `more`. Changes nothing: the caller swaps it in with `swap`."""
        fresh = self.base
        if self.recent:
            rows = np.fromiter(self.recent.values(), np.int32, len(self.recent))
            fresh = merge_packed(fresh, pack(pa.array(list(self.recent), pa.string()), rows))
        if more is not None:
            fresh = merge_packed(fresh, more)
        return fresh

    def swap(self, base: Packed) -> None:
        """Take a base made by `merged`; the dict is empty afterwards."""
        self.base = base
        self._base_size = len(base.row)
        self.recent = {}
        self._sorted_recent = []

    def check(self) -> None:
        """Raise AssertionError unless the base is sorted, counted rightly and disjoint from the dict."""
        assert _is_sorted(self.base.text, self.base.offset), "the base is not sorted"
        assert _repeat_at(self.base.text, self.base.offset) < 0, "the base holds an id twice"
        assert int(np.count_nonzero(self.base.row >= 0)) == self._base_size, "the base is counted wrongly"
        for key in self.recent:
            at = self._find_base(key)
            assert at < 0 or self.base.row[at] < 0, f"{key} is in the base and in the dict"


@inline_kernel
def _compare(a, a0, a1, b, b0, b1):  # type: ignore[no-untyped-def]
    """Negative, zero or positive as bytes a[a0:a1] sort before, with or after b[b0:b1]."""
    n = min(a1 - a0, b1 - b0)
    i = 0
    while i < n and a[a0 + i] == b[b0 + i]:
        i += 1
    if i < n:
        order = np.int64(a[a0 + i]) - np.int64(b[b0 + i])
    else:
        order = (a1 - a0) - (b1 - b0)
    return order


@kernel
def _upper_bound(text, offset, key):  # type: ignore[no-untyped-def]
    lo = 0
    hi = offset.size - 1
    while lo < hi:
        mid = (lo + hi) >> 1
        if _compare(text, offset[mid], offset[mid + 1], key, 0, key.size) <= 0:
            lo = mid + 1
        else:
            hi = mid
    return lo


@kernel
def _search(text, offset, key):  # type: ignore[no-untyped-def]
    at = _upper_bound(text, offset, key) - 1
    if at >= 0 and _compare(text, offset[at], offset[at + 1], key, 0, key.size) != 0:
        at = -1
    return at


@kernel
def _is_sorted(text, offset):  # type: ignore[no-untyped-def]
    good = True
    for i in range(offset.size - 2):
        if _compare(text, offset[i], offset[i + 1], text, offset[i + 1], offset[i + 2]) > 0:
            good = False
            break
    return good


@kernel
def _repeat_at(text, offset):  # type: ignore[no-untyped-def]
    at = -1
    for i in range(offset.size - 2):
        if _compare(text, offset[i], offset[i + 1], text, offset[i + 1], offset[i + 2]) == 0:
            at = i
            break
    return at


@kernel
def _common(ta, oa, ra, tb, ob, rb, out):  # type: ignore[no-untyped-def]
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


@kernel
def _merge(a, b, out):  # type: ignore[no-untyped-def]
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
