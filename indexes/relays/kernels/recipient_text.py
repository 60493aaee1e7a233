"""Ids of recipients as JSON text, without a string for each."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from indexes.compiled.jit import kernel
from indexes.compiled.text import COMMA, put
from indexes.core.arrays import Bytes, Ints, Ints32, int64, uint64

QUOTE = 34


def quoted(ids: pa.LargeStringArray, who: Ints32, ends: Ints) -> tuple[Bytes, Ints]:
    """The ids at the places `who`, in quotes and separated by commas, between one of the `ends` and the next; where the
    text of each such list ends. Ids have no characters that JSON escapes. O(bytes)."""
    _, offsets, data = ids.buffers()
    offset = np.frombuffer(offsets, np.int64)[ids.offset : ids.offset + len(ids) + 1]
    text = np.empty(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    upto = np.empty(len(ends) - 1, np.int64)
    out = np.empty(_measure(offset, who, ends), np.uint8)
    _write(out, upto, text, offset, who, ends)
    return out, upto


@kernel
def _measure(offset: Ints, who: Ints32, ends: Ints) -> int:
    """At least as many bytes as `_write` writes."""
    begin, end = ends[0], ends[len(ends) - 1]
    size = 3 * (end - begin)
    for i in range(begin, end):
        at = int64(who[uint64(i)])
        size += offset[uint64(at + 1)] - offset[uint64(at)]
    return size


@kernel
def _write(out: Bytes, upto: Ints, text: Bytes, offset: Ints, who: Ints32, ends: Ints) -> None:
    """Write the lists, one behind the other."""
    to = int64(0)
    for e in range(len(ends) - 1):
        first = ends[e]
        for i in range(first, ends[e + 1]):
            if i > first:
                out[uint64(to)] = COMMA
                to += 1
            out[uint64(to)] = QUOTE
            at = int64(who[uint64(i)])
            begin = offset[uint64(at)]
            to = put(out, to + 1, text, begin, offset[uint64(at + 1)] - begin)
            out[uint64(to)] = QUOTE
            to += 1
        upto[e] = to
