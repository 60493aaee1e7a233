"""Texts by place, in arrays: those of a base, and behind them some that came later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from indexes.compiled.jit import inlined, kernel
from indexes.compiled.text import put_over
from indexes.core.arrays import Bytes, Ints, Rows, int64, uint64


class Texts(NamedTuple):
    """The text at a place below the number of them is ``text[offset[at] : offset[at + 1]]``."""

    text: Bytes
    offset: Ints

    @classmethod
    def of(cls, texts: Sequence[str]) -> Texts:
        """These texts."""
        encoded = [text.encode() for text in texts]
        return cls(np.frombuffer(b"".join(encoded), np.uint8), np.cumsum([0, *map(len, encoded)]))

    @property
    def read_only(self) -> Texts:
        """The same with a text that cannot be written. Kernels are compiled for one or the other, here for this."""
        text = self.text.view()
        text.flags.writeable = False
        return Texts(text, self.offset)

    def array(self) -> pa.LargeStringArray:
        """The same as an Arrow array, over the same bytes. O(1)."""
        parts = pa.py_buffer(self.offset), pa.py_buffer(self.text)
        return pa.LargeStringArray.from_buffers(len(self.offset) - 1, *parts)


class LaterTexts:
    """Texts that are added at the end, in arrays that have room for more. What was taken of them stays as it is."""

    def __init__(self) -> None:
        self._text: Bytes = np.empty(0, np.uint8)
        self._offset: Ints = np.zeros(1, np.int64)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, texts: Sequence[str]) -> None:
        """Add texts. O(texts), amortised."""
        encoded = [text.encode() for text in texts]
        begin, count = int(self._offset[self._count]), self._count + len(encoded)
        ends = begin + np.cumsum(np.fromiter(map(len, encoded), np.int64, len(encoded)))
        end = int(ends[-1]) if len(ends) else begin
        self._text, self._offset = (
            _with_room(self._text, begin, end),
            _with_room(self._offset, self._count + 1, count + 1),
        )
        self._text[begin:end] = np.frombuffer(b"".join(encoded), np.uint8)
        self._offset[self._count + 1 : count + 1] = ends
        self._count = count

    def taken(self) -> Texts:
        """Those that are here. O(1)."""
        return Texts(self._text, self._offset[: self._count + 1]).read_only


class Placed(NamedTuple):
    """Texts by their places among those of the `base` and, behind these, those that came `later`. They have `size`
    bytes."""

    base: Texts
    later: Texts
    at: Rows
    size: int

    def part(self, begin: int, end: int) -> Placed:
        """The texts from one of them to another. O(end - begin)."""
        at = self.at[begin:end]
        return Placed(self.base, self.later, at, int(_measure(self.base.offset, self.later.offset, at)))


def placed(base: Texts, later: Texts, place: Rows, rows: Rows) -> Placed:
    """The texts of rows, of each of which the place is known. O(rows)."""
    at = np.empty(len(rows), np.int32)
    return Placed(base, later, at, int(_find_places(base.offset, later.offset, place, rows, at)))


def gathered(found: Placed) -> Texts:
    """Texts one behind the other. O(bytes), without a Python object for any."""
    offset, text = np.empty(len(found.at) + 1, np.int64), np.empty(found.size, np.uint8)
    _copy(found.base.text, found.base.offset, found.later.text, found.later.offset, found.at, offset, text)
    return Texts(text, offset)


def _with_room(array: np.ndarray, used: int, wanted: int) -> np.ndarray:
    """An array with at least the `wanted` length, which begins with what is `used` of this one."""
    if wanted <= len(array):
        return array
    longer = np.empty(max(1_024, 2 * wanted), array.dtype)
    longer[:used] = array[:used]
    return longer


@kernel
def _find_places(base: Ints, later: Ints, place: Rows, rows: Rows, out: Rows) -> int:
    """Look the places of rows up. Returns how many bytes their texts have."""
    n, size = len(base) - 1, int64(0)
    for i in range(len(rows)):
        at = int64(place[uint64(rows[uint64(i)])])
        out[uint64(i)] = at
        size += _length_at(base, later, n, at)
    return size


@kernel
def _measure(base: Ints, later: Ints, at: Rows) -> int:
    """How many bytes the texts at these places have."""
    n, size = len(base) - 1, int64(0)
    for i in range(len(at)):
        size += _length_at(base, later, n, int64(at[uint64(i)]))
    return size


@inlined
def _length_at(base: Ints, later: Ints, n: int, at: int) -> int:
    """How long the text at a place is, where the base has `n`."""
    if at < n:
        return base[uint64(at + 1)] - base[uint64(at)]
    return later[uint64(at - n + 1)] - later[uint64(at - n)]


@kernel
def _copy(base_text: Bytes, base: Ints, later_text: Bytes, later: Ints, at: Rows, out_offset: Ints, out: Bytes) -> None:
    """Write the texts one behind the other, and where each begins and the last one ends."""
    n, to = len(base) - 1, int64(0)
    out_offset[0] = 0
    for i in range(len(at)):
        to = put_text(out, to, base_text, base, later_text, later, n, int64(at[uint64(i)]))
        out_offset[uint64(i + 1)] = to


@inlined
def put_text(out: Bytes, to: int, base_text: Bytes, base: Ints, later_text: Bytes, later: Ints, n: int, at: int) -> int:
    """Write the text at a place, where the base has `n`; returns the place behind it. See `put_over`."""
    if at < n:
        begin = base[uint64(at)]
        return put_over(out, to, base_text, begin, base[uint64(at + 1)] - begin)
    begin = later[uint64(at - n)]
    return put_over(out, to, later_text, begin, later[uint64(at - n + 1)] - begin)
