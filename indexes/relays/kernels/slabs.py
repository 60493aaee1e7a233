"""Which boxes hold a point: codes in columns, for notifications.

The range of every attribute is cut into slabs, at ends of boxes, and these into parts; a number's *code* of 16 bits is
its slab and its part. Of two numbers the greater has no lesser code. Ends are encoded as open ones, the numbers next to
them outside. A tree of points would be walked nearly whole for wide boxes (`docs/design.md`).

A box has a *position*. Sixty-four positions are a block, which has a column of bytes for each end: the *steps* of its
codes, from the least to the greatest code of the block. A box does not hold a point whose step is outside the steps of
its ends in some attribute, surely holds one whose steps lie strictly between them in all, and only where two steps are
equal the numbers are looked at. Where boxes share ends no step is in two slabs, so a point on an end that many of them
share is not in doubt, if the end is where a slab begins.

The greatest slab of each column of a block is in a column for sixty-four blocks, a *group*, and that of a group in a
column for sixty-four groups. All are compared 64 at once, and only what may hold the point is read. When slabs are cut,
boxes that are alike get positions near each other: they are halved as in a k-d tree, each time by the end where points
meet the fewest halves.

Several points are searched together, group by group, so that what one of them has brought into the cache the others
find there: first the masks of the boxes that hold them, then, once it is known how many there are, their slots.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from indexes.compiled.jit import inlined, internal, kernel
from indexes.compiled.kept import Keeper, Words, declare, unpacked
from indexes.compiled.masks import first_lane, first_lanes, without_first
from indexes.compiled.simd import LANES, bit_count, prefetch_line
from indexes.core.aligned import zeros
from indexes.core.arrays import Bytes, Floats, Int8s, Ints, Ints32, int64
from indexes.relays.kernels.comparisons import (
    BIAS,
    BLOCK,
    CODES,
    PACKS,
    block_holds,
    block_pack,
    code_steps,
)
from indexes.relays.kernels.points import Points, empty_points, longer

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

SETTLED = 1 << 15
"""From so many boxes on, slabs are no longer cut again. Until then they are cut whenever boxes have doubled: at most
some tens of milliseconds. Later boxes have positions behind the others until the next rebuild, and are put in order
group by group, as groups fill up."""

SAMPLE = 4096
"""Slabs are cut by so many boxes at most, and the end by which boxes are halved is chosen by half as many."""

LANE = 6
"""Bits of the number of a lane, and of a point."""

TOGETHER = 1 << LANE
"""So many points are searched together at most."""

SEVERAL = 16
"""From so many points on nearly all blocks are read by one of them, and prefetched in order."""

KEPT = 1 << 18
"""Masks for which a thread keeps memory from search to search, at most. A page that is touched for the first time takes
as long as to find some hundred recipients."""

AHEAD = 16
"""So far ahead blocks whose slots are read, and boxes whose numbers are, are prefetched."""

HELD = BLOCK // LANES
"""Lines of slots of a block; a column of steps is one line."""

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
    low: Codes  # flat, `_width_of` a block, by end: the code of step 1, at least the first of slab 1
    scale: Codes  # flat, `_width_of` a block, by end: steps by 2^16 codes, at least `WHOLE`
    best: Int8s  # flat, by group, end and block: the greatest slab of the block, or one that was; less 128
    top: Int8s  # flat, by sixty-four groups, end and group: the same of the group
    held: Ints32  # by position: the slot, or -1 where it is free
    at: Ints32  # by slot: the position, or -1
    free: Ints32  # positions that are free again
    size: Ints


@internal
def _width_of(index: Slabs) -> int:
    """How long a row of codes is."""
    return (2 * index.last.size + CODES - 1) // CODES * CODES


@internal
def _code_of(index: Slabs, attribute: int, x: float) -> int:
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
def _end_code(index: Slabs, points: Points, slot: int, end: int) -> int:
    """The code of an end of a slot's box, taken as open."""
    j = end // 2
    if end % 2 == 0:
        return MOST - _code_of(index, j, np.nextafter(-points.exact[slot, end], -np.inf))
    return _code_of(index, j, np.nextafter(points.exact[slot, end], np.inf))


@internal
def _put(index: Slabs, position: int, end: int, code: int) -> None:
    """Write one code of a position, whose block has a step for it."""
    ends, block = 2 * index.last.size, position // BLOCK
    at = block * _width_of(index) + end
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
    at = block * _width_of(index) + end
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
        code = _end_code(index, points, slot, end)
        at = block * _width_of(index) + end
        inside = 0 < _step_of(code, index.low[at], index.scale[at]) < LAST
        if inside or index.scale[at] == WHOLE or code < PARTS or code >= LAST * PARTS:
            _put(index, position, end, code)
        else:
            _spread_whole(index, block, end)
            for p in range(block * BLOCK, min((block + 1) * BLOCK, index.size[USED])):
                if index.held[p] >= 0:
                    _put(index, p, end, _end_code(index, points, int64(index.held[p]), end))


@kernel
def _encode_boxes(index: Slabs, points: Points, slots: Ints32, slab: Bytes) -> None:
    """Write the slabs of the ends of boxes: rows of shape (n, width)."""
    for i in range(slots.size):
        for end in range(2 * index.last.size):
            slab[i, end] = _end_code(index, points, int64(slots[i]), end) // PARTS


@internal
def _encode_points(index: Slabs, values: Floats, code: Codes, slab: Int8s) -> None:
    """Write the least codes of the ends of boxes that may hold points, and their slabs, less 128: rows of shape
    (n, width)."""
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            of = _code_of(index, j, values[i, j])
            code[i, 2 * j], code[i, 2 * j + 1] = MOST - of, of
            slab[i, 2 * j], slab[i, 2 * j + 1] = (MOST - of) // PARTS - BIAS, of // PARTS - BIAS


@internal
def _slab_in(rows: Ints, row: int, end: int) -> int:
    """One slab of a row of which eight are a number."""
    return rows[row, end // 8] >> end % 8 * 8 & LAST


@internal
def _halving_end(rows: Ints, begin: int, upto: int, half: int, ends: int, count: Ints) -> int:
    """The end by which rows[begin:upto] are halved so that points meet the fewest of them: those below the middle of an
    end reach less far. By a sample; a point is as likely in each slab."""
    n = upto - begin
    step = max(1, n * 2 // SAMPLE)
    best, least = 0, np.inf
    count[:] = 0
    sampled = 0
    for i in range(begin, upto, step):
        sampled += 1
        for end in range(ends):
            count[end, _slab_in(rows, i, end)] += 1
    for end in range(ends):
        most = middle = other = LAST
        while count[end, most] == 0:
            most -= 1
        while count[end ^ 1, other] == 0:
            other -= 1
        left = sampled - sampled * half // n
        while left > count[end, middle]:
            left -= count[end, middle]
            middle -= 1
        whole = max(most + other - LAST, 0) + 0.5
        part = max(middle + other - LAST, 0) + 0.5
        met = (half * part + (n - half) * whole) / whole
        if met < least:
            best, least = end, met
    return best


@kernel
def _halve(rows: Ints, slots: Ints32, ends: int, space: Ints, spare: Ints32, count: Ints, stack: Ints) -> None:
    """Put boxes in order: halves, of halves, down to blocks. Rows of eight slabs a number and slots move together;
    where slabs are equal they stay as they were. O(n log n)."""
    stack[0, 0], stack[0, 1] = 0, slots.size
    top = 1
    while top > 0:
        top -= 1
        begin, upto = stack[top]
        n = upto - begin
        if n > BLOCK:
            unit = GROUP if n >= 2 * GROUP else BLOCK
            half = (n // 2 + unit - 1) // unit * unit
            end = _halving_end(rows, begin, upto, half, ends, count)
            of = count[end]
            of[:] = 0
            for i in range(begin, upto):
                of[_slab_in(rows, i, end)] += 1
            middle = 0
            equal = half  # so many that are equal to the middle go to the first half
            while equal > of[middle]:
                equal -= of[middle]
                middle += 1
            a, b = begin, begin + half
            for i in range(begin, upto):
                slab = _slab_in(rows, i, end)
                first = slab < middle or (slab == middle and equal > 0)
                equal -= int(slab == middle and equal > 0)
                to = a if first else b
                for word in range(rows.shape[1]):
                    space[to, word] = rows[i, word]
                spare[to] = slots[i]
                a += int(first)
                b += int(not first)
            for i in range(begin, upto):
                for word in range(rows.shape[1]):
                    rows[i, word] = space[i, word]
                slots[i] = spare[i]
            stack[top, 0], stack[top, 1] = begin, begin + half
            stack[top + 1, 0], stack[top + 1, 1] = begin + half, upto
            top += 2


@kernel
def _lay_out(index: Slabs, points: Points, slots: Ints32, first: int, code: Ints) -> None:
    """Give slots the positions from the first one of a block on, in order. `code` has room for those of a block."""
    for begin in range(0, slots.size, BLOCK):
        n, block = min(BLOCK, slots.size - begin), (first + begin) // BLOCK
        _clear(index, block)
        for end in range(2 * index.last.size):
            least, most, starts = MOST, 0, 0
            for i in range(n):
                code[i] = _end_code(index, points, int64(slots[begin + i]), end)
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
def _insert(index: Slabs, points: Points, slots: Ints32) -> None:
    put_slots(index, points, slots)


@kernel
def _delete(index: Slabs, slots: Ints32) -> None:
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
def _again(index: Slabs, points: Points, slots: Ints32) -> None:
    """Rewrite the steps of slots at their positions."""
    for i in range(slots.size):
        _place(index, points, int64(slots[i]), int64(index.at[slots[i]]))


class Search(NamedTuple):
    """What a search of several points works with, with room for `TOGETHER` of them. A round is a power of two of
    groups, whose positions, times the points, are those of `TOGETHER` groups at most. Each makes a run of blocks for
    each point, with the masks of the boxes that hold it."""

    code: Codes  # (points, width)
    slab: Int8s  # (points, width)
    step: Int8s  # (width): of one point in a block
    share: Ints  # (points + 1): where the blocks of a round that are prefetched with a point begin
    end: Ints  # (rounds, points): where runs end
    block: Ints32
    mask: Ints
    unsure: Ints  # what is to be looked at: the place in the runs, the lane and the point, six bits each of these two
    found: Ints  # by point: how many boxes hold it; and behind them all together
    met: Ints  # (clusters, points): the groups that may hold boxes that do


class KeptSlabs(NamedTuple):
    """The arrays of an index and the numbers of its boxes, as `indexes.compiled.kept` has them."""

    words: Words


class KeptSearch(NamedTuple):
    """A `Search`, in the same way."""

    words: Words


@kernel
def _search(kept: KeptSlabs, space: KeptSearch, values: Floats, wide: int, rounds: int, turn: int) -> int:
    """Find the blocks of the rounds from that one on. Returns the first round that there may be no room for, or the
    number of rounds."""
    index, exact = unpacked(kept)
    (search,) = unpacked(space)
    slab, unsure, block_of, mask, share = search.slab, search.unsure, search.block, search.mask, search.share
    n, row, width = values.shape[0], slab.shape[1], _width_of(index)
    code = search.code.reshape(search.code.size)
    ends = 2 * index.last.size
    if turn == 0:
        _encode_points(index, values, search.code, slab)
        search.found[:] = 0
        for e in range(n + 1):
            share[e] = e * wide * BLOCK // n
    for cluster in range((index.best.size // (ends * BLOCK) + BLOCK - 1) // BLOCK):
        for e in range(n):
            search.met[cluster, e], _ = block_holds(index.top, cluster * ends * BLOCK, slab, e * row, ends)
    i = search.end[turn - 1, n - 1] if turn > 0 else 0
    asked = 0
    while turn < rounds and i + wide * n * BLOCK < mask.size:
        for e in range(n):
            if n >= SEVERAL:
                # What the next round reads is on its way while this one is computed.
                following = (turn + 1) * wide * BLOCK
                for block in range(following + share[e], following + share[e + 1]):
                    _prefetch_steps(index, block)
            found = 0
            met = search.met[turn * wide // BLOCK, e] & first_lanes(wide) << turn * wide % BLOCK
            while met != 0:
                group = turn * wide // BLOCK * BLOCK + first_lane(met)
                met = without_first(met)
                blocks, _ = block_holds(index.best, group * ends * BLOCK, slab, e * row, ends)
                rest = blocks if n < SEVERAL else 0
                while rest != 0:
                    _prefetch_steps(index, group * BLOCK + first_lane(rest))
                    rest = without_first(rest)
                while blocks != 0:
                    block = group * BLOCK + first_lane(blocks)
                    for c in range(0, width, CODES):
                        code_steps(code, e * row + c, index.low, index.scale, block * width + c, search.step, c)
                    touch, sure = block_holds(index.step, block * ends * BLOCK, search.step, 0, ends)
                    doubt = touch & ~sure
                    block_of[i], mask[i] = block, sure
                    found += bit_count(sure)
                    while doubt != 0:
                        unsure[asked] = (i << LANE | first_lane(doubt)) << LANE | e
                        asked += 1
                        doubt = without_first(doubt)
                    i += int(touch != 0)
                    blocks = without_first(blocks)
            search.found[e] += found
            search.end[turn, e] = i
        if asked + TOGETHER * GROUP > unsure.size:
            _settle(index, exact, search, values, asked)
            asked = 0
        turn += 1
    _settle(index, exact, search, values, asked)
    search.found[TOGETHER] = search.found[:n].sum()
    return turn


@inlined
def _prefetch_steps(index: Slabs, block: int) -> None:
    ends, width = 2 * index.last.size, _width_of(index)
    for line in range(ends):
        prefetch_line(index.step, (block * ends + line) * BLOCK)
    prefetch_line(index.low, block * width)
    prefetch_line(index.scale, block * width)


@inlined
def _prefetch_held(held: Ints32, block: int) -> None:
    for line in range(HELD):
        prefetch_line(held, (block * HELD + line) * LANES)


@internal
def _settle(index: Slabs, exact: Floats, search: Search, values: Floats, asked: int) -> None:
    """Look at the numbers of the first `asked` boxes that are in doubt."""
    held = index.held
    for u in range(-2 * AHEAD, asked):
        # Of the boxes to come, first the slots and then the numbers are brought into the cache.
        if u + 2 * AHEAD < asked:
            prefetch_line(held, _position(search, u + 2 * AHEAD))
        if 0 <= u + AHEAD < asked:
            prefetch_line(exact, int64(held[_position(search, u + AHEAD)]) * exact.shape[1])
        if u >= 0:
            p = _position(search, u)
            t, e = int64(held[p]), search.unsure[u] & (1 << LANE) - 1
            # A point may be below all steps of a block, as positions are that have not been given or are free.
            holds = (p < index.size[USED]) & (t >= 0)
            for j in range(values.shape[1]):
                holds &= (-exact[t, 2 * j] <= values[e, j]) & (values[e, j] <= exact[t, 2 * j + 1])
            search.mask[search.unsure[u] >> 2 * LANE] |= int64(holds) << (search.unsure[u] >> LANE & BLOCK - 1)
            search.found[e] += holds


@inlined
def _position(search: Search, u: int) -> int:
    """The position of a box in doubt."""
    unsure = search.unsure[u]
    return int64(search.block[unsure >> 2 * LANE]) * BLOCK + (unsure >> LANE & BLOCK - 1)


@kernel
def _name(kept: KeptSlabs, space: KeptSearch, wide: int, rounds: int, out: Ints32, upto: Ints) -> None:
    """Write the slots that were found, of one point after the other; ``upto[e]`` is where those of point e end."""
    index, _ = unpacked(kept)
    (search,) = unpacked(space)
    held = index.held
    n, share = upto.size, search.share
    at = search.found  # from here on: where the next one of a point is written
    total = 0
    for e in range(n):
        total += search.found[e]
        upto[e] = total
        at[e] = total - search.found[e]
    i = 0
    for turn in range(rounds):
        for e in range(n):
            if n >= SEVERAL:
                following = (turn + 1) * wide * BLOCK
                for block in range(following + share[e], following + share[e + 1]):
                    _prefetch_held(held, block)
            found = at[e]
            while i < search.end[turn, e]:
                if n < SEVERAL and i + AHEAD < search.end[rounds - 1, n - 1]:
                    _prefetch_held(held, int64(search.block[i + AHEAD]))
                begin, mask = int64(search.block[i]) * BLOCK, search.mask[i]
                if PACKS and found + BLOCK <= upto[e]:
                    block_pack(held, begin, mask, out, found)
                    found += bit_count(mask)
                    mask = 0
                while mask != 0:
                    out[found] = held[begin + first_lane(mask)]
                    found += 1
                    mask = without_first(mask)
                i += 1
            at[e] = found


class _Space(threading.local):
    """Memory that a thread searches with, and writes what it finds to, before it is put in order."""

    def __init__(self) -> None:
        self.search = _empty_search(0, 0)
        self._keeper = Keeper(KeptSearch)

    def sized(self, width: int, groups: int) -> tuple[Search, KeptSearch]:
        """Memory for a search in an index with so many codes a point, and so many groups."""
        search = self.search
        if width > search.slab.shape[1] or groups > len(search.end):
            more = _empty_search(max(width, search.slab.shape[1]), max(groups, len(search.end)))
            search = self.search = more._replace(block=search.block, mask=search.mask, unsure=search.unsure)
        return search, self._keeper.kept((search,))

    def extended(self, search: Search) -> tuple[Search, KeptSearch]:
        """The same with twice the room for masks; later searches get it too where there are at most `KEPT`."""
        more = search._replace(block=_twice(search.block), mask=_twice(search.mask))
        if len(more.mask) <= KEPT:
            self.search = more
        return more, self._keeper.kept((more,))


def _empty_search(width: int, groups: int) -> Search:
    """What a search works with at the beginning. O(groups)."""
    return Search(
        code=np.zeros((TOGETHER, width), np.uint16),
        slab=np.zeros((TOGETHER, width), np.int8),
        step=np.empty(width, np.int8),
        share=np.empty(TOGETHER + 1, np.int64),
        end=np.empty((groups, TOGETHER), np.int64),
        block=np.empty(2 * TOGETHER * BLOCK, np.int32),
        mask=np.empty(2 * TOGETHER * BLOCK, np.int64),
        unsure=np.empty((TOGETHER + 1) * GROUP, np.int64),
        found=np.empty(TOGETHER + 1, np.int64),
        met=np.empty((_whole(groups, BLOCK) // BLOCK, TOGETHER), np.int64),
    )


class SlabIndex:
    """Slots of a table of `points.py` by the values that their boxes hold. Kernels work on `arrays`."""

    arrays: Slabs

    def __init__(self, attributes: int) -> None:
        none = np.empty(0, np.int32)
        self.arrays = Slabs(
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
        self._keeper = Keeper(KeptSlabs)

    def __len__(self) -> int:
        return int(self.arrays.size[BOXES])

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, room kept for more included."""
        return sum(int(column.nbytes) for column in self.arrays)

    @property
    def _ends(self) -> int:
        return 2 * len(self.arrays.last)

    @property
    def _width(self) -> int:
        """How long a row of codes is."""
        return _whole(self._ends, CODES)

    def reserve(self, inserts: int, slots: int) -> None:
        """Make room for that many insertions, of slots below `slots`; may replace `arrays`."""
        o = self.arrays
        if slots > len(o.at):
            at = np.full(max(slots, len(o.at) * 3 // 2), -1, np.int32)
            at[: len(o.at)] = o.at
            self.arrays = o = o._replace(at=at)
        _, _, used, free = o.size.tolist()
        positions = used + max(0, inserts - free)
        if positions > len(o.held):
            room = _whole(max(positions, len(o.held) * 3 // 2), BLOCK)
            best = longer(o.best, _whole(room, GROUP) // BLOCK * self._ends)
            top = longer(o.top, _whole(room, CLUSTER) // GROUP * self._ends)
            best[len(o.best) :], top[len(o.top) :] = -BIAS, -BIAS
            self.arrays = o._replace(
                step=longer(o.step, room * self._ends),
                low=longer(o.low, room // BLOCK * self._width),
                scale=longer(o.scale, room // BLOCK * self._width),
                best=best,
                top=top,
                held=longer(o.held, room),
                free=longer(o.free, room),
            )

    def insert(self, points: Points, slots: Ints32) -> None:
        """Add slots that are not there. O(attributes) each, twice where a group fills up; O(n log n) where boxes have
        doubled."""
        if self.outgrown_by(len(slots)):
            self._cut(points, np.concatenate([self.slots(), slots]))
        else:
            self.reserve(len(slots), int(slots.max(initial=-1)) + 1)
            before = self.used
            _insert(self.arrays, points, slots)
            self.settle(points, before)

    def outgrown_by(self, more: int) -> bool:
        """Whether slabs have to be cut again for so many more boxes, and these cannot just be added by `put_slots`."""
        boxes, cut_at = self.arrays.size[:USED].tolist()
        return bool(cut_at < SETTLED and boxes + more > 2 * cut_at)

    @property
    def used(self) -> int:
        """How many positions have been given."""
        return int(self.arrays.size[USED])

    def settle(self, points: Points, before: int) -> None:
        """Put the groups in order that have become full since so many positions had been given `before`."""
        begin, upto = before // GROUP * GROUP, self.used // GROUP * GROUP
        if upto > begin:
            self._arrange(points, begin, upto)

    def _arrange(self, points: Points, begin: int, upto: int) -> None:
        """Put what has the positions of whole groups in order, where none is free: none is while more are given."""
        o = self.arrays
        best = slice(begin // BLOCK * self._ends, upto // BLOCK * self._ends)
        o.best[best] = -BIAS
        self._lay_out(points, self._ordered(points, o.held[begin:upto]), begin)

    def load(self, points: Points, slots: Ints32) -> None:
        """Add all slots at once where there are none. O(n log n)."""
        self._cut(points, slots)

    def delete(self, points: Points, slots: Ints32) -> None:
        """Take out slots that are there. O(attributes) each."""
        _delete(self.arrays, slots)

    def _cut(self, points: Points, slots: Ints32) -> None:
        """Cut slabs by these slots, and have them, in order, and no others."""
        before = self.arrays
        some = points.exact[slots[:: -(-len(slots) // SAMPLE) or 1]]
        none = SlabIndex(len(before.last)).arrays
        # Finite numbers are neither in the first slab nor in the last: what is unbounded is never in doubt there.
        inner = min(LAST - 2, len(slots) // 16)
        for j in range(len(none.last)):
            with np.errstate(over="ignore"):
                ends = np.concatenate([-some[:, 2 * j], np.nextafter(some[:, 2 * j + 1], np.inf)])
            ends = np.sort(ends[np.isfinite(ends)])
            chosen = ends[np.arange(1, inner + 1) * len(ends) // (inner + 1)] if len(ends) else ends
            cuts = np.unique([-np.finfo(np.float64).max, *(chosen + 0.0), np.inf])
            none.last[j], none.cut[j, : len(cuts)] = len(cuts), cuts
            if len(ends):
                bounds = np.array([ends[0], ends[0], *cuts[1:-1], ends[-1]])
                none.least[j, : len(bounds)] = bounds
                with np.errstate(divide="ignore", over="ignore"):
                    by_unit = PARTS / np.diff(bounds)
                none.parts[j, : len(by_unit)] = np.where(np.isfinite(by_unit), by_unit, 0)
        self.arrays = none
        self.arrays.size[CUT_AT] = max(1, len(slots))
        self.reserve(len(slots), max(len(before.at), int(slots.max(initial=-1)) + 1))
        self._lay_out(points, self._ordered(points, slots), 0)
        self.arrays.size[BOXES] = self.arrays.size[USED] = len(slots)

    def _lay_out(self, points: Points, slots: Ints32, first: int) -> None:
        _lay_out(self.arrays, points, slots, first, np.empty(BLOCK, np.int64))

    def _ordered(self, points: Points, slots: Ints32) -> Ints32:
        """The slots in an order in which those next to each other are alike."""
        n, ordered = len(slots), slots.copy()
        rows = np.zeros((n, self._width // 8), np.int64)
        slab = rows.view(np.uint8).reshape(n, self._width)
        _encode_boxes(self.arrays, points, slots, slab)
        count, stack = np.empty((self._ends, LAST + 1), np.int64), np.empty((64, 2), np.int64)
        _halve(rows, ordered, self._ends, np.empty_like(rows), np.empty_like(slots), count, stack)
        return ordered

    def containing(self, points: Points, values: Floats) -> tuple[Ints32, Ints]:
        """For each of the points of shape (n, attributes), the slots whose boxes hold it, all of them in no particular
        order, and where each's end. O(positions / 4096) comparisons of groups, those of the blocks that they leave, and
        what is found."""
        many = [self._containing(points, values[i : i + TOGETHER]) for i in range(0, len(values), TOGETHER)]
        if len(many) == 1:
            return many[0]
        found = [slots for slots, _ in many]
        before = np.cumsum([0, *map(len, found)])
        upto = [ends + begin for (_, ends), begin in zip(many, before[:-1], strict=True)]
        none = np.empty(0, np.int64)
        return np.concatenate([none.astype(np.int32), *found]), np.concatenate([none, *upto])

    def _containing(self, points: Points, values: Floats) -> tuple[Ints32, Ints]:
        """As `containing`, for at least one point and at most `TOGETHER` of them."""
        o, exact, n = self.arrays, points.exact, len(values)
        groups = len(o.best) // (self._ends * BLOCK)
        wide = 1 << max(0, (TOGETHER // n).bit_length() - 2)  # groups of a round
        rounds = -(-groups // wide)
        index, (space, search) = self._keeper.kept((o, exact)), _space.sized(self._width, groups)
        values = np.ascontiguousarray(values)
        turn = int(_search(index, search, values, wide, rounds, 0))
        while turn < rounds:
            space, search = _space.extended(space)
            turn = int(_search(index, search, values, wide, rounds, turn))
        out, upto = np.empty(int(space.found[TOGETHER]), np.int32), np.empty(n, np.int64)
        _name(index, search, wide, rounds, out, upto)
        return out, upto

    def trimmed(self) -> Slabs:
        """The arrays without the room that is kept for more, to be written down. Once they are `arrays` again, there is
        no room before `reserve`."""
        o = self.arrays
        room = _whole(int(o.size[USED]), BLOCK)
        return o._replace(
            step=o.step[: room * self._ends],
            low=o.low[: room // BLOCK * self._width],
            scale=o.scale[: room // BLOCK * self._width],
            best=o.best[: _whole(room, GROUP) // BLOCK * self._ends],
            top=o.top[: _whole(room, CLUSTER) // GROUP * self._ends],
            held=o.held[:room],
            free=o.free[:room],
        )

    def slots(self) -> Ints32:
        """What is in it, in order."""
        return np.flatnonzero(self.arrays.at >= 0).astype(np.int32)

    def check(self, points: Points) -> None:
        """Raise AssertionError if an invariant is broken. O(n log slabs)."""
        o, slots = self.arrays, self.slots()
        places, free = o.at[slots], o.free[: o.size[FREE]]
        assert len(slots) == len(self) and (o.held[places] == slots).all()
        assert sorted([*places.tolist(), *free.tolist()]) == list(range(o.size[USED]))
        again = SlabIndex(len(o.last))
        again.arrays = o._replace(
            step=np.full_like(o.step, -BIAS),
            low=o.low.copy(),
            scale=o.scale.copy(),
            best=np.full_like(o.best, -BIAS),
            top=np.full_like(o.top, -BIAS),
        )
        _again(again.arrays, points, slots)
        given = -(-int(o.size[USED]) // BLOCK) * self._ends * BLOCK
        assert (again.arrays.step[:given] == o.step[:given]).all() and (o.held[free] == -1).all()
        assert (again.arrays.low == o.low).all() and (again.arrays.scale == o.scale).all()
        assert (again.arrays.best <= o.best).all() and (again.arrays.top <= o.top).all()
        assert ((o.cut[:, 1:] > o.cut[:, :-1]) | np.isinf(o.cut[:, 1:])).all()
        assert (np.isfinite(o.cut).sum(axis=1) <= o.last).all()


def _twice(column: NDArray[Any]) -> NDArray[Any]:
    """The column with twice the room."""
    longer_ = np.empty(2 * len(column), column.dtype)
    longer_[: len(column)] = column
    return longer_


def _whole(n: int, unit: int) -> int:
    """The least multiple of the unit that is at least n."""
    return -(-n // unit) * unit


_space = _Space()

declare(KeptSlabs, lambda: (SlabIndex(1).arrays, empty_points(0, 2).exact))
declare(KeptSearch, lambda: (_empty_search(0, 0),))
