"""Which boxes hold a point: codes in columns, for notifications.

The range of every attribute is cut into slabs, at ends of boxes, and these into parts; a number's *code* of 16 bits is
its slab and its part. Of two numbers the greater has no lesser code. So a box does not hold a point whose code lies
outside the codes of its ends in some attribute, surely holds one whose codes lie strictly between them in all, and only
where two codes are equal the numbers are looked at. Ends are encoded as open ones, the numbers next to them outside:
then a point on an end that many boxes share is not in doubt, if the end is where a slab begins. A tree of points would
be walked nearly whole for wide boxes (`docs/design.md`).

A box has a *position*. Sixty-four positions are a block, which has a column of slabs for each end; what is greatest in
each column is a column of its own for sixty-four blocks, a *group*. Blocks and groups are compared 64 at once, and only
blocks that may hold the point are read; whole codes only where slabs leave a doubt. When slabs are cut, boxes that are
alike get positions near each other: they are halved as in a k-d tree, each time by the end where points meet the fewest
halves.

Several points are searched together, group by group, so that what one of them has brought into the cache the others
find there.
"""

from __future__ import annotations

import threading
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from indexes.compiled.jit import internal, kernel
from indexes.compiled.masks import first_lane, without_first
from indexes.compiled.simd import LANES, bit_count, prefetch_block, prefetch_line
from indexes.core.aligned import zeros
from indexes.core.arrays import Bytes, Floats, Ints, Ints32, int64
from indexes.relays.kernels.comparisons import (
    BLOCK,
    CODES,
    PACKS,
    block_holds,
    block_pack,
    codes_exceed,
    codes_reach,
    copy_run,
)
from indexes.relays.kernels.points import Points, longer

Codes: TypeAlias = NDArray[np.uint16]

LAST = 255
"""The number of the last slab at most."""

PARTS = 256
"""Parts of a slab."""

MOST = (LAST + 1) * PARTS - 1
"""The greatest code."""

GROUP = BLOCK * BLOCK
"""Positions of a group."""

SETTLED = 1 << 15
"""From so many boxes on, slabs are no longer cut again. Until then they are cut whenever boxes have doubled: at most
some tens of milliseconds. Later boxes have positions behind the others until the next rebuild, and are put in order
group by group, as groups fill up."""

SAMPLE = 4096
"""Slabs are cut by so many boxes at most, and the end by which boxes are halved is chosen by half as many."""

TOGETHER = 64
"""So many points are searched together at most."""

SEVERAL = 8
"""From so many points on nearly all blocks are read by one of them, and prefetched in order."""

KEPT = 1 << 20
"""Slots and positions for which a thread keeps memory from search to search, at most. A page that is touched for the
first time takes as long as to find some hundred recipients."""

AHEAD = 16
"""Rows of codes that are prefetched ahead."""

HELD = BLOCK // LANES
"""Lines of slots of a block; a column of slabs is one line."""

BOXES, CUT_AT, USED, FREE = range(4)
"""What `Slabs.size` says: how many boxes there are, how many there were when slabs were cut, how many positions have
been given, and how many of these are free again."""


class Slabs(NamedTuple):
    """The arrays of the index. An attribute has two ends: `MOST` less the code of the lower one, and the code of the
    upper one. So a box whose ends are all at least those of a point may hold it. A free position is 0 in all of them,
    which holds nothing."""

    cut: Floats  # (attributes, LAST): where slabs begin, but the first; infinite behind the last
    least: Floats  # (attributes, LAST + 1): where the first part of a slab begins
    parts: Floats  # (attributes, LAST + 1): parts by unit
    last: Ints  # (attributes): the number of the last slab
    slab: Bytes  # flat, by block, end and position: the slab of the code
    best: Bytes  # flat, by group, end and block: the greatest slab of the block, or one that was
    code: Codes  # flat, by position and end; filled up with 1
    held: Ints32  # by position: the slot
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
def _encode(index: Slabs, points: Points, slot: int, code: Codes, at: int, width: int) -> None:
    """Write the codes of the ends of a slot's box, taken as open."""
    for j in range(index.last.size):
        lo, hi = -points.exact[slot, 2 * j], points.exact[slot, 2 * j + 1]
        code[at + 2 * j] = MOST - _code_of(index, j, np.nextafter(lo, -np.inf))
        code[at + 2 * j + 1] = _code_of(index, j, np.nextafter(hi, np.inf))
    for end in range(2 * index.last.size, width):
        code[at + end] = 1


@internal
def _place(index: Slabs, points: Points, slot: int, position: int) -> None:
    """Put a slot at a position. O(attributes)."""
    block, lane = position // BLOCK, position % BLOCK
    ends, width = 2 * index.last.size, _width_of(index)
    index.at[slot] = position
    index.held[position] = slot
    _encode(index, points, slot, index.code, position * width, width)
    for end in range(ends):
        slab = index.code[position * width + end] // PARTS
        index.slab[(block * ends + end) * BLOCK + lane] = slab
        best = (block // BLOCK * ends + end) * BLOCK + block % BLOCK
        if slab > index.best[best]:
            index.best[best] = slab


@kernel
def _encode_boxes(index: Slabs, points: Points, slots: Ints32, row: Codes, slab: Bytes) -> None:
    """Write the slabs of the ends of boxes: rows of shape (n, width)."""
    for i in range(slots.size):
        _encode(index, points, int64(slots[i]), row, 0, row.size)
        for end in range(2 * index.last.size):
            slab[i, end] = row[end] // PARTS


@kernel
def _encode_points(index: Slabs, values: Floats, code: Codes, slab: Bytes) -> None:
    """Write the least codes of the ends of boxes that may hold points, and their slabs: rows of shape (n, width)."""
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            of = _code_of(index, j, values[i, j])
            code[i, 2 * j], code[i, 2 * j + 1] = MOST - of, of
            slab[i, 2 * j], slab[i, 2 * j + 1] = (MOST - of) // PARTS, of // PARTS


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
def _lay_out(index: Slabs, points: Points, slots: Ints32, first: int) -> None:
    """Give slots the positions from a first one on, in order."""
    for i in range(slots.size):
        _place(index, points, int64(slots[i]), first + i)


@kernel
def _insert(index: Slabs, points: Points, slots: Ints32) -> None:
    for i in range(slots.size):
        if index.size[FREE] > 0:
            index.size[FREE] -= 1
            p = int64(index.free[index.size[FREE]])
        else:
            p = index.size[USED]
            index.size[USED] += 1
        _place(index, points, int64(slots[i]), p)
    index.size[BOXES] += slots.size


@kernel
def _delete(index: Slabs, slots: Ints32) -> None:
    ends, width = 2 * index.last.size, _width_of(index)
    for i in range(slots.size):
        t = int64(slots[i])
        p = int64(index.at[t])
        index.code[p * width : (p + 1) * width] = 0
        for end in range(ends):
            index.slab[(p // BLOCK * ends + end) * BLOCK + p % BLOCK] = 0
        index.at[t] = -1
        index.free[index.size[FREE]] = p
        index.size[FREE] += 1
    index.size[BOXES] -= slots.size


@kernel
def _again(index: Slabs, points: Points, slots: Ints32) -> None:
    """Rewrite the codes of slots at their positions."""
    for i in range(slots.size):
        _place(index, points, int64(slots[i]), int64(index.at[slots[i]]))


class Search(NamedTuple):
    """What a search of several points works with. A step is so many groups that the positions of a step, times the
    points, are those of `TOGETHER` groups at most; each makes a run of slots for each point that surely hold it, and
    another one of those that were looked at and do."""

    values: Floats
    code: Codes  # (points, width), filled up with 0
    slab: Bytes  # (points, width)
    end: Ints  # (steps, 2, points): where runs end
    unsure: Ints32  # positions that are to be looked at, point by point
    asked: Ints  # by point: where they end


@kernel
def _search(index: Slabs, exact: Floats, search: Search, raw: Ints32, step: int) -> int:
    """Write the slots found in the steps from that one on. Returns the first step that `raw` may have no room for, or
    the number of steps."""
    values, slab, unsure = search.values, search.slab, search.unsure
    n, width = slab.shape
    code = search.code.reshape(n * width)
    ends = 2 * index.last.size
    groups = index.best.size // (ends * BLOCK)
    wide = TOGETHER // n
    found = search.end[step - 1, 1, n - 1] if step > 0 else 0
    while step < search.end.shape[0] and found + wide * n * GROUP + BLOCK <= raw.size:
        asked = 0
        for e in range(n):
            if n >= SEVERAL:
                # What the next step reads is on its way while this one is computed.
                share = ((step + 1) * n + e) * wide * BLOCK
                for block in range(share // n, (share + wide * BLOCK) // n):
                    for line in range(ends):
                        prefetch_line(index.slab, (block * ends + line) * BLOCK)
                    for line in range(HELD):
                        prefetch_line(index.held, (block * HELD + line) * LANES)
            for group in range(step * wide, min(groups, (step + 1) * wide)):
                blocks, _ = block_holds(index.best, group * ends * BLOCK, slab, e * width, ends)
                while blocks != 0:
                    block = group * BLOCK + first_lane(blocks)
                    touch, sure = block_holds(index.slab, block * ends * BLOCK, slab, e * width, ends)
                    doubt = touch & ~sure
                    if PACKS:
                        block_pack(index.held, block * BLOCK, sure, raw, found)
                        found += bit_count(sure)
                        sure = 0
                    while sure != 0:
                        raw[found] = index.held[block * BLOCK + first_lane(sure)]
                        found += 1
                        sure = without_first(sure)
                    while doubt != 0:
                        unsure[asked] = block * BLOCK + first_lane(doubt)
                        asked += 1
                        doubt = without_first(doubt)
                    blocks = without_first(blocks)
            search.end[step, 0, e] = found
            search.asked[e] = asked
        u = 0
        for e in range(n):
            while u < search.asked[e]:
                if u + AHEAD < asked:
                    prefetch_block(index.code, int64(unsure[u + AHEAD]) * width)
                p = int64(unsure[u])
                t = int64(index.held[p])
                holds = over = True
                for c in range(0, width, CODES):
                    holds &= codes_reach(index.code, p * width + c, code, e * width + c)
                    over &= codes_exceed(index.code, p * width + c, code, e * width + c)
                if holds != over:
                    for j in range(values.shape[1]):
                        holds &= -exact[t, 2 * j] <= values[e, j] and values[e, j] <= exact[t, 2 * j + 1]
                raw[found] = t
                found += holds
                u += 1
            search.end[step, 1, e] = found
        step += 1
    return step


@kernel
def _join(end: Ints, raw: Ints32, out: Ints32, upto: Ints) -> None:
    """Put the runs of each point one after the other; ``upto[e]`` is where those of point e end."""
    steps, kinds, n = end.shape
    flat = end.reshape(end.size)
    at = 0
    for e in range(n):
        for run in range(steps * kinds):
            i = run * n + e
            begin = flat[i - 1] if i > 0 else 0
            copy_run(raw, begin, out, at, flat[i] - begin)
            at += flat[i] - begin
        upto[e] = at


class _Space(threading.local):
    """Memory that a thread writes what it finds to, before it is put in order."""

    def __init__(self) -> None:
        self.raw: Ints32 = np.empty(2 * TOGETHER * GROUP, np.int32)
        self.unsure: Ints32 = np.empty(TOGETHER * GROUP, np.int32)
        self.usual = 0  # how many slots a point of the last search had


_space = _Space()


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
            slab=zeros(0, np.uint8),
            best=zeros(0, np.uint8),
            code=zeros(0, np.uint16),
            held=none,
            at=none,
            free=none,
            size=np.array([0, 1, 0, 0]),
        )

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
        positions = int(o.size[USED]) + max(0, inserts - int(o.size[FREE]))
        if positions > len(o.held):
            room = _whole(max(positions, len(o.held) * 3 // 2), BLOCK)
            self.arrays = o._replace(
                slab=longer(o.slab, room * self._ends),
                code=longer(o.code, room * self._width),
                best=longer(o.best, _whole(room, GROUP) // BLOCK * self._ends),
                held=longer(o.held, room),
                free=longer(o.free, room),
            )

    def insert(self, points: Points, slots: Ints32) -> None:
        """Add slots that are not there. O(attributes) each, twice where a group fills up; O(n log n) where boxes have
        doubled."""
        o, n = self.arrays, len(self) + len(slots)
        if o.size[CUT_AT] < SETTLED and n > 2 * o.size[CUT_AT]:
            self._cut(points, np.concatenate([self.slots(), slots]))
        else:
            self.reserve(len(slots), int(slots.max(initial=-1)) + 1)
            before = int(o.size[USED]) // GROUP * GROUP
            _insert(self.arrays, points, slots)
            full = int(o.size[USED]) // GROUP * GROUP
            if full > before:
                self._arrange(points, before, full)

    def _arrange(self, points: Points, begin: int, upto: int) -> None:
        """Put what has the positions of whole groups in order, where none is free: none is while more are given."""
        o = self.arrays
        best = slice(begin // BLOCK * self._ends, upto // BLOCK * self._ends)
        o.best[best] = 0
        _lay_out(o, points, self._ordered(points, o.held[begin:upto]), begin)

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
        _lay_out(self.arrays, points, self._ordered(points, slots), 0)
        self.arrays.size[BOXES] = self.arrays.size[USED] = len(slots)

    def _ordered(self, points: Points, slots: Ints32) -> Ints32:
        """The slots in an order in which those next to each other are alike."""
        n, ordered = len(slots), slots.copy()
        rows = np.zeros((n, self._width // 8), np.int64)
        slab = rows.view(np.uint8).reshape(n, self._width)
        _encode_boxes(self.arrays, points, slots, np.empty(self._ends, np.uint16), slab)
        count, stack = np.empty((self._ends, LAST + 1), np.int64), np.empty((64, 2), np.int64)
        _halve(rows, ordered, self._ends, np.empty_like(rows), np.empty_like(slots), count, stack)
        return ordered

    def containing(self, points: Points, values: Floats) -> tuple[Ints32, Ints]:
        """For each of the points of shape (n, attributes), the slots whose boxes hold it, all of them in no particular
        order, and where each's end. O(positions / 4096) comparisons of groups, those of the blocks that they leave, and
        what is found."""
        together = max(1, min(TOGETHER, KEPT // (2 * _space.usual + 1)))
        many = [self._containing(points, values[i : i + together]) for i in range(0, len(values), together)]
        if len(many) == 1:
            return many[0]
        found = [slots for slots, _ in many]
        before = np.cumsum([0, *map(len, found)])
        upto = [ends + begin for (_, ends), begin in zip(many, before[:-1], strict=True)]
        none = np.empty(0, np.int64)
        return np.concatenate([none.astype(np.int32), *found]), np.concatenate([none, *upto])

    def _containing(self, points: Points, values: Floats) -> tuple[Ints32, Ints]:
        """As `containing`, for at least one point and at most `TOGETHER` of them."""
        o, n = self.arrays, len(values)
        groups = len(o.best) // (self._ends * BLOCK)
        steps = -(-groups // (TOGETHER // n))
        search = Search(
            np.ascontiguousarray(values),
            np.zeros((n, self._width), np.uint16),
            np.zeros((n, self._width), np.uint8),
            np.zeros((steps, 2, n), np.int64),
            _space.unsure,
            np.empty(n, np.int64),
        )
        _encode_points(o, search.values, search.code, search.slab)
        raw = _space.raw
        step = int(_search(o, points.exact, search, raw, 0))
        while step < steps:
            done = int(search.end[step - 1, 1, -1])
            more = np.empty(2 * len(raw), np.int32)
            more[:done] = raw[:done]
            raw = more
            step = int(_search(o, points.exact, search, raw, step))
        if len(raw) <= KEPT:
            _space.raw = raw
        out, upto = np.empty(int(search.end[-1, 1, -1]) if steps else 0, np.int32), np.zeros(n, np.int64)
        _join(search.end, raw, out, upto)
        _space.usual = len(out) // n
        return out, upto

    def trimmed(self) -> Slabs:
        """The arrays without the room that is kept for more, to be written down. Once they are `arrays` again, there is
        no room before `reserve`."""
        o = self.arrays
        room = _whole(int(o.size[USED]), BLOCK)
        return o._replace(
            slab=o.slab[: room * self._ends],
            code=o.code[: room * self._width],
            best=o.best[: _whole(room, GROUP) // BLOCK * self._ends],
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
        again.arrays = o._replace(slab=np.zeros_like(o.slab), best=np.zeros_like(o.best), code=np.zeros_like(o.code))
        _again(again.arrays, points, slots)
        assert (again.arrays.code == o.code).all() and (again.arrays.slab == o.slab).all()
        assert (again.arrays.best <= o.best).all()
        assert ((o.cut[:, 1:] > o.cut[:, :-1]) | np.isinf(o.cut[:, 1:])).all()
        assert (np.isfinite(o.cut).sum(axis=1) <= o.last).all()


def _whole(n: int, unit: int) -> int:
    """The least multiple of the unit that is at least n."""
    return -(-n // unit) * unit
