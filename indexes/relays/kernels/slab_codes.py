"""The codes of a slab index (`slabs.py`): where they are kept, and how those of a box are written.

The range of every attribute is cut into slabs, and these into parts; a number's code of 16 bits is its slab and its
part. A block of sixty-four positions has a column of bytes for each end: the steps of its codes.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from indexes.compiled.jit import internal, kernel
from indexes.core.aligned import zeros
from indexes.core.arrays import Bytes, Floats, Int8s, Ints, Ints32, int64
from indexes.relays.kernels.comparisons import BIAS, BLOCK, CODES
from indexes.relays.kernels.points import Points

Codes: TypeAlias = NDArray[np.uint16]

LAST = 255
"""The number of the last slab at most."""

PARTS = 256
"""Parts of a slab."""

MOST = (LAST + 1) * PARTS - 1
"""The greatest code."""

GROUP = BLOCK * BLOCK
"""Positions of a group."""

CLUSTER = GROUP * BLOCK
"""Positions of sixty-four groups."""

SHARED = 3
"""So many ends of a block begin slabs where boxes share ends; of ends at random one in `PARTS` does."""

WHOLE = PARTS
"""The `scale` of a block whose steps are the slabs."""

BOXES, CUT_AT, USED, FREE = range(4)
"""What `Slabs.size` says: how many boxes there are, how many there were when slabs were cut, how many positions have
been given, and how many of these are free again."""


class Slabs(NamedTuple):
    """The arrays of the index. An attribute has two ends: `MOST` less the code of the lower one, and the code of the
    upper one. So a box whose ends are all at least those of a point may hold it. A free position has step 0 at all of
    them, which is less than that of any code from `low` on."""

    cut: Floats  # (attributes, LAST): where slabs begin, but the first; infinite behind the last
    least: Floats  # (attributes, LAST + 1): where the first part of a slab begins
    parts: Floats  # (attributes, LAST + 1): parts by unit
    last: Ints  # (attributes): the number of the last slab
    step: Int8s  # flat, by block, end and position: the step of the code (`code_steps`), less 128
    low: Codes  # flat, `width_of` a block, by end: the code of step 1, at least the first of slab 1
    scale: Codes  # flat, `width_of` a block, by end: steps by 2^16 codes, at least `WHOLE`
    best: Int8s  # flat, by group, end and block: the greatest slab of the block, or one that was; less 128
    top: Int8s  # flat, by sixty-four groups, end and group: the same of the group
    held: Ints32  # by position: the slot, or -1 where it is free
    at: Ints32  # by slot: the position, or -1
    free: Ints32  # positions that are free again
    size: Ints


def empty_slabs(attributes: int) -> Slabs:
    """An index without boxes, and without room for any."""
    none = np.empty(0, np.int32)
    return Slabs(
        cut=np.full((attributes, LAST), np.inf),
        least=np.zeros((attributes, LAST + 1)),
        parts=np.zeros((attributes, LAST + 1)),
        last=np.zeros(attributes, np.int64),
        step=zeros(0, np.int8),
        low=zeros(0, np.uint16),
        scale=zeros(0, np.uint16),
        best=zeros(0, np.int8),
        top=zeros(0, np.int8),
        held=none,
        at=none,
        free=none,
        size=np.array([0, 1, 0, 0]),
    )


@internal
def width_of(index: Slabs) -> int:
    """How long a row of codes is."""
    return (2 * index.last.size + CODES - 1) // CODES * CODES


@internal
def code_of(index: Slabs, attribute: int, x: float) -> int:
    """The code of x in an attribute."""
    g = 0
    step = (LAST + 1) // 2
    while step > 0:
        g += step if index.cut[attribute, g + step - 1] <= x else 0
        step //= 2
    g = min(g, index.last[attribute])
    part = (x - index.least[attribute, g]) * index.parts[attribute, g]
    # Where a slab has no length, and an end none, this is no number, and the first part will do.
    return g * PARTS + (min(int(min(part, PARTS)), PARTS - 1) if part > 0 else 0)


@internal
def end_code(index: Slabs, points: Points, slot: int, end: int) -> int:
    """The code of an end of a slot's box, taken as open."""
    j = end // 2
    if end % 2 == 0:
        return MOST - code_of(index, j, np.nextafter(-points.exact[slot, end], -np.inf))
    return code_of(index, j, np.nextafter(points.exact[slot, end], np.inf))


@internal
def _put(index: Slabs, position: int, end: int, code: int) -> None:
    """Write one code of a position, whose block has a step for it."""
    ends, block = 2 * index.last.size, position // BLOCK
    at = block * width_of(index) + end
    step = _step_of(code, index.low[at], index.scale[at])
    index.step[(block * ends + end) * BLOCK + position % BLOCK] = step - BIAS
    best = (block // BLOCK * ends + end) * BLOCK + block % BLOCK
    index.best[best] = max(index.best[best], code // PARTS - BIAS)
    top = (position // CLUSTER * ends + end) * BLOCK + position // GROUP % BLOCK
    index.top[top] = max(index.top[top], code // PARTS - BIAS)


@internal
def _step_of(code: int, low: int, scale: int) -> int:
    """The step of one code, as `code_steps`."""
    return min(LAST, 1 + ((code - low) * scale >> 16)) if code >= low else 0


@internal
def _spread(index: Slabs, block: int, end: int, least: int, most: int, starts: int) -> None:
    """Spread the steps of an end of a block over codes: 1 to 254 over finite numbers, and 255 for what is unbounded.
    Where several ends are starts of slabs, as those are that many boxes share, no step is in two slabs: it is a power
    of two of codes, and begins at a multiple of it."""
    least, most = max(least, PARTS), min(most, LAST * PARTS - 1)
    at = block * width_of(index) + end
    if starts < SHARED:
        index.low[at] = least
        index.scale[at] = min(((LAST - 1) * 65536 - 1) // max(1, most - least), 65535)
    else:
        bits = 1
        while most - (least >> bits << bits) >> bits > LAST - 2:
            bits += 1
        index.low[at] = least >> bits << bits if 1 << bits < PARTS else PARTS
        index.scale[at] = 1 << 16 - bits


@internal
def _spread_whole(index: Slabs, block: int, end: int) -> None:
    """Let the steps of an end of a block be the slabs."""
    _spread(index, block, end, 0, MOST, SHARED)


@internal
def _clear(index: Slabs, block: int) -> None:
    """Let no position of a block be taken."""
    of = 2 * index.last.size * BLOCK
    index.step[block * of : (block + 1) * of] = -BIAS


@internal
def _place(index: Slabs, points: Points, slot: int, position: int) -> None:
    """Put a slot at a position. O(attributes), but for the first time that a code is outside those of its block: then
    O(64) for that end."""
    block = position // BLOCK
    index.at[slot] = position
    index.held[position] = slot
    for end in range(2 * index.last.size):
        code = end_code(index, points, slot, end)
        at = block * width_of(index) + end
        inside = 0 < _step_of(code, index.low[at], index.scale[at]) < LAST
        if inside or index.scale[at] == WHOLE or code < PARTS or code >= LAST * PARTS:
            _put(index, position, end, code)
        else:
            _spread_whole(index, block, end)
            for p in range(block * BLOCK, min((block + 1) * BLOCK, index.size[USED])):
                if index.held[p] >= 0:
                    _put(index, p, end, end_code(index, points, int64(index.held[p]), end))


@kernel
def encode_boxes(index: Slabs, points: Points, slots: Ints32, slab: Bytes) -> None:
    """Write the slabs of the ends of boxes: rows of shape (n, width)."""
    for i in range(slots.size):
        for end in range(2 * index.last.size):
            slab[i, end] = end_code(index, points, int64(slots[i]), end) // PARTS


@kernel
def lay_out(index: Slabs, points: Points, slots: Ints32, first: int, code: Ints) -> None:
    """Give slots the positions from the first one of a block on, in order. `code` has room for those of a block."""
    for begin in range(0, slots.size, BLOCK):
        n, block = min(BLOCK, slots.size - begin), (first + begin) // BLOCK
        _clear(index, block)
        for end in range(2 * index.last.size):
            least, most, starts = MOST, 0, 0
            for i in range(n):
                code[i] = end_code(index, points, int64(slots[begin + i]), end)
                least, most = min(least, code[i]), max(most, code[i])
                starts += code[i] % PARTS == 0
            _spread(index, block, end, least, most, starts)
            for i in range(n):
                _put(index, first + begin + i, end, code[i])
        for i in range(begin, begin + n):
            index.at[slots[i]] = first + i
            index.held[first + i] = slots[i]


@internal
def put_slots(index: Slabs, points: Points, slots: Ints32) -> None:
    """Add slots that are not there, for which there is room."""
    for i in range(slots.size):
        if index.size[FREE] > 0:
            index.size[FREE] -= 1
            p = int64(index.free[index.size[FREE]])
        else:
            p = index.size[USED]
            index.size[USED] += 1
            if p % BLOCK == 0:
                _clear(index, p // BLOCK)
                for end in range(2 * index.last.size):
                    _spread_whole(index, p // BLOCK, end)
        _place(index, points, int64(slots[i]), p)
    index.size[BOXES] += slots.size


@kernel
def insert(index: Slabs, points: Points, slots: Ints32) -> None:
    put_slots(index, points, slots)


@kernel
def delete(index: Slabs, slots: Ints32) -> None:
    ends = 2 * index.last.size
    for i in range(slots.size):
        t = int64(slots[i])
        p = int64(index.at[t])
        for end in range(ends):
            index.step[(p // BLOCK * ends + end) * BLOCK + p % BLOCK] = -BIAS
        index.at[t], index.held[p] = -1, -1
        index.free[index.size[FREE]] = p
        index.size[FREE] += 1
    index.size[BOXES] -= slots.size


@kernel
def rewrite(index: Slabs, points: Points, slots: Ints32) -> None:
    """Rewrite the steps of slots at their positions."""
    for i in range(slots.size):
        _place(index, points, int64(slots[i]), int64(index.at[slots[i]]))


def whole(n: int, unit: int) -> int:
    """The least multiple of the unit that is at least n."""
    return -(-n // unit) * unit
