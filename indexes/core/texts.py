"""Texts by place, in arrays: those of a base, and behind them some that came later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from indexes.compiled.jit import kernel
from indexes.compiled.text import put
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
        return Texts(self._text, self._offset[: self._count + 1])


def gathered(base: Texts, later: Texts, at: Rows) -> Texts:
    """The texts at some places, where `later` are behind those of the `base`. O(bytes), without a Python object for
    any."""
    offset = np.empty(len(at) + 1, np.int64)
    text = np.empty(_measure(base.offset, later.offset, at, offset), np.uint8)
    _copy(base.text, base.offset, later.text, later.offset, at, offset, text)
    return Texts(text, offset)


def _with_room(array: np.ndarray, used: int, wanted: int) -> np.ndarray:
    """An array with at least the `wanted` length, which begins with what is `used` of this one."""
    if wanted <= len(array):
        return array
    longer = np.empty(max(1_024, 2 * wanted), array.dtype)
    longer[:used] = array[:used]
    return longer


@kernel
def _measure(base: Ints, later: Ints, at: Rows, out: Ints) -> int:
    """Fill in where each of the texts begins, and where the last one ends, which is returned."""
    n, size = len(base) - 1, int64(0)
    out[0] = 0
    for i in range(len(at)):
        place = int64(at[i])
        if place < n:
            size += base[uint64(place + 1)] - base[uint64(place)]
        else:
            size += later[uint64(place - n + 1)] - later[uint64(place - n)]
        out[uint64(i + 1)] = size
    return size


@kernel
def _copy(base_text: Bytes, base: Ints, later_text: Bytes, later: Ints, at: Rows, out_offset: Ints, out: Bytes) -> None:
    """Write the texts to where they belong."""
    n = len(base) - 1
    for i in range(len(at)):
        place, to = int64(at[i]), out_offset[uint64(i)]
        length = out_offset[uint64(i + 1)] - to
        if place < n:
            put(out, to, base_text, base[uint64(place)], length)
        else:
            put(out, to, later_text, later[uint64(place - n)], length)
