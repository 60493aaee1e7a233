"""Which boxes hold a point: bits by slab, for notifications.

The range of every attribute is cut into slabs, at ends of boxes. For each slab one row of bits says which boxes `TOUCH`
it, and another which have an `EDGE` in it, so that only some of its points lie in them. A point lies in one slab of
each attribute; the boxes that touch all of these and have an edge in none hold it, and those with an edge somewhere are
looked at: a code of 16 bits for each end says nearly always on which side of the point it is. A tree of points would be
walked nearly whole for wide boxes (`docs/design.md`).

A box has a *position*, which is its bit in all rows. When slabs are cut, boxes that are alike get positions near each
other: they are put in order of their ends, the highest bits of all ends first (a Z-order). So of every line of 512
positions one mask an attribute, the slabs that any of its boxes touches, rules most lines out.

Rows are cut into chunks of positions, and a chunk has the rows of all its slabs together.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from indexes.compiled.jit import inlined, internal, kernel
from indexes.compiled.masks import first_lane, first_lanes, without_first
from indexes.compiled.simd import prefetch_block
from indexes.core.aligned import zeros
from indexes.core.arrays import Floats, Ints, Ints32, int64
from indexes.relays.kernels.comparisons import CODES, LINE, codes_exceed, codes_reach, line_and, line_or
from indexes.relays.kernels.points import Points, longer

Codes: TypeAlias = NDArray[np.uint16]

SLABS = 64
"""Slabs of an attribute at most: as many as a mask has bits."""

WIDE = 256
"""Words of 64 positions in a row of a chunk; fewer where there is one chunk."""

SETTLED = 1 << 15
"""From so many boxes on, slabs are no longer cut again. Until then they are cut whenever boxes have doubled: at most
some tens of milliseconds. Later boxes have positions behind the others until the next rebuild."""

SAMPLE = 4096
"""Slabs are cut by so many boxes at most."""

PARTS = 1 << 10
"""Parts of a slab that codes tell apart."""

MOST = SLABS * PARTS - 1
"""The greatest code."""

LEVELS = 3
"""Bits of a slab's number by which boxes are put in order."""

ORDERED = 4
"""Attributes by which boxes are put in order, at most."""

AHEAD = 4
"""Lines of positions that are prefetched ahead."""

TOUCH, EDGE = 0, 1

BOXES, CUT_AT, WORDS, USED, FREE = range(5)
"""What `Slabs.size` says: how many boxes there are, how many there were when slabs were cut, words of a row in a chunk,
how many positions have been given, and how many of these are free again."""


class Slabs(NamedTuple):
    """The arrays of the index. The row of chunk c, attribute j, kind (`TOUCH` or `EDGE`) and slab g begins at
    (((c * attributes + j) * 2 + kind) * SLABS + g) * (words + LINE), where a line is left free so that the rows of a
    box lie in different sets of the cache."""

    cut: Floats  # (attributes, SLABS - 1): where slabs begin, but the first; infinite behind the last
    least: Floats  # (attributes, SLABS): where the first part of a slab begins
    parts: Floats  # (attributes, SLABS): parts by unit
    last: Ints  # (attributes): the number of the last slab
    bits: Ints  # flat
    near: Ints  # by line of positions and attribute: the slabs that a box of the line touches, or did
    code: Codes  # flat, by position and attribute: how far from `MOST` lo is, and hi; filled up with 1
    held: Ints32  # by position: the slot
    at: Ints32  # by slot: the position, or -1
    free: Ints32  # positions that are free again
    size: Ints


@internal
def _slab_of(index: Slabs, attribute: int, x: float) -> int:
    """The slab of an attribute that x lies in."""
    g = 0
    for i in range(SLABS - 1):
        g += index.cut[attribute, i] <= x
    return min(g, index.last[attribute])


@internal
def _code_of(index: Slabs, attribute: int, x: float) -> int:
    """The code of x in an attribute: of two values, the greater has no lesser code."""
    g = _slab_of(index, attribute, x)
    part = (x - index.least[attribute, g]) * index.parts[attribute, g]
    # Where a slab has no length, and an end none, this is no number, and the first part will do.
    return g * PARTS + (min(int(min(part, PARTS)), PARTS - 1) if part > 0 else 0)


@internal
def _encode(index: Slabs, attribute: int, lo: float, hi: float, code: Codes, at: int) -> None:
    """Write the codes of an interval of an attribute."""
    code[at] = MOST - _code_of(index, attribute, lo)
    code[at + 1] = _code_of(index, attribute, hi)


@inlined
def _row(index: Slabs, chunk: int, attribute: int, kind: int, slab: int) -> int:
    """Where a row of bits begins."""
    return (((chunk * index.last.size + attribute) * 2 + kind) * SLABS + slab) * (index.size[WORDS] + LINE)


@internal
def _mark(index: Slabs, points: Points, slot: int, position: int, there: bool) -> None:
    """Set the bits of a slot at its position, or clear them. O(slabs that its box touches)."""
    words = index.size[WORDS]
    word, lane = position // 64, position % 64
    bit = first_lanes(lane + 1) & ~first_lanes(lane)
    chunk, w = word // words, word % words
    for j in range(index.last.size):
        lo, hi = -points.exact[slot, 2 * j], points.exact[slot, 2 * j + 1]
        a, b = _slab_of(index, j, lo), _slab_of(index, j, hi)
        at = _row(index, chunk, j, TOUCH, a) + w
        for _ in range(a, b + 1):
            index.bits[at] = index.bits[at] | bit if there else index.bits[at] & ~bit
            at += words + LINE
        begin = index.cut[j, a - 1] if a > 0 else -np.inf
        for g, inside in ((a, lo > begin), (b, hi < np.inf)):
            if inside:
                at = _row(index, chunk, j, EDGE, g) + w
                index.bits[at] = index.bits[at] | bit if there else index.bits[at] & ~bit
        if there:
            index.near[word // LINE * index.last.size + j] |= first_lanes(b + 1) & ~first_lanes(a)


@internal
def _place(index: Slabs, points: Points, slot: int, position: int) -> None:
    """Put a slot at a position."""
    width = index.code.size // index.held.size
    index.at[slot] = position
    index.held[position] = slot
    for j in range(index.last.size):
        lo, hi = -points.exact[slot, 2 * j], points.exact[slot, 2 * j + 1]
        _encode(index, j, lo, hi, index.code, position * width + 2 * j)
    for i in range(2 * index.last.size, width):
        index.code[position * width + i] = 1
    _mark(index, points, slot, position, True)


@kernel
def _lay_out(index: Slabs, points: Points, slots: Ints32) -> None:
    """Give positions in order where none are given."""
    for p in range(slots.size):
        _place(index, points, int64(slots[p]), p)
    index.size[BOXES] = index.size[USED] = slots.size


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
def _delete(index: Slabs, points: Points, slots: Ints32) -> None:
    for i in range(slots.size):
        t = int64(slots[i])
        p = int64(index.at[t])
        _mark(index, points, t, p, False)
        index.at[t] = -1
        index.free[index.size[FREE]] = p
        index.size[FREE] += 1
    index.size[BOXES] -= slots.size


@kernel
def _again(index: Slabs, points: Points, slots: Ints32) -> None:
    """Rewrite the bits and codes of slots at their positions."""
    for i in range(slots.size):
        _place(index, points, int64(slots[i]), int64(index.at[slots[i]]))


@internal
def _exactly(exact: Floats, slot: int, values: Floats, event: int) -> bool:
    """Whether the box of a slot holds a point."""
    j = 0
    while (
        j < values.shape[1] and -exact[slot, 2 * j] <= values[event, j] and values[event, j] <= exact[slot, 2 * j + 1]
    ):
        j += 1
    return j == values.shape[1]


class Search(NamedTuple):
    """What a search works with: the codes of the point, filled up with 0, by attribute its slab, the lines that are
    left, the boxes of a line that touch all slabs, those that have an edge in one, and positions to be looked at."""

    code: Codes
    slab: Ints
    line: Ints32
    touch: Ints
    edge: Ints
    unsure: Ints32


@inlined
def _place_of(index: Slabs, line: int, attribute: int, slab: int) -> int:
    """Where a line of positions has its boxes that touch a slab of an attribute."""
    words = index.size[WORDS]
    return _row(index, line * LINE // words, attribute, TOUCH, slab) + line * LINE % words


@kernel
def _holding(
    index: Slabs, points: Points, values: Floats, search: Search, out: Ints32, upto: Ints, found: int, event: int
) -> int:
    """For each of the points values[event:], append the slots whose boxes hold it to out[found:]; ``upto[e]`` is where
    those of point e end. Returns the first point that `out` may have no room for, or the number of points."""
    d, width = index.last.size, search.code.size
    edges = SLABS * (index.size[WORDS] + LINE)
    while event < len(values) and found + index.size[BOXES] <= out.size:
        for j in range(d):
            search.slab[j] = _slab_of(index, j, values[event, j])
            _encode(index, j, values[event, j], values[event, j], search.code, 2 * j)
        lines = 0
        for at in range((index.size[USED] + 64 * LINE - 1) // (64 * LINE)):
            near = int64(1)
            for j in range(d):
                near &= index.near[at * d + j] >> search.slab[j]
            search.line[lines] = at
            lines += int(near)
        # Memory that the processor cannot predict is prefetched some steps ahead.
        unsure = 0
        for i in range(lines):
            if i + AHEAD < lines:
                for j in range(d):
                    ahead = _place_of(index, int64(search.line[i + AHEAD]), j, search.slab[j])
                    prefetch_block(index.bits, ahead)
                    prefetch_block(index.bits, ahead + edges)
            line = int64(search.line[i])
            for lane in range(LINE):
                search.touch[lane] = -1
                search.edge[lane] = 0
            some = True
            for j in range(d):
                at = _place_of(index, line, j, search.slab[j])
                some = line_and(search.touch, index.bits, at)
                line_or(search.edge, index.bits, at + edges)
            if some:
                asked = unsure
                for word in range(LINE):
                    first = (line * LINE + word) * 64
                    touch, edge = search.touch[word], search.edge[word]
                    while touch != 0:
                        lane = first_lane(touch)
                        # Both are written, and one of them counts: a branch would be guessed wrongly.
                        doubt = edge >> lane & 1
                        out[found] = index.held[first + lane]
                        search.unsure[unsure] = first + lane
                        found += 1 - doubt
                        unsure += doubt
                        touch = without_first(touch)
                for u in range(asked, unsure):
                    prefetch_block(index.code, int64(search.unsure[u]) * width)
        for u in range(unsure):
            p = int64(search.unsure[u])
            t = int64(index.held[p])
            held = over = True
            for c in range(0, width, CODES):
                held &= codes_reach(index.code, p * width + c, search.code, c)
                over &= codes_exceed(index.code, p * width + c, search.code, c)
            if held != over:
                held = _exactly(points.exact, t, values, event)
            out[found] = t
            found += held
        upto[event] = found
        event += 1
    return event


class SlabIndex:
    """Slots of a table of `points.py` by the values that their boxes hold. Kernels work on `arrays`."""

    arrays: Slabs

    def __init__(self, attributes: int) -> None:
        none = np.empty(0, np.int32)
        self.arrays = Slabs(
            cut=np.full((attributes, SLABS - 1), np.inf),
            least=np.zeros((attributes, SLABS)),
            parts=np.zeros((attributes, SLABS)),
            last=np.zeros(attributes, np.int64),
            bits=zeros(0, np.int64),
            near=np.zeros(0, np.int64),
            code=zeros(0, np.uint16),
            held=none,
            at=none,
            free=none,
            size=np.array([0, 1, LINE, 0, 0]),
        )

    def __len__(self) -> int:
        return int(self.arrays.size[BOXES])

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, room kept for more included."""
        return sum(int(column.nbytes) for column in self.arrays)

    def reserve(self, inserts: int, slots: int) -> None:
        """Make room for that many insertions, of slots below `slots`; may replace `arrays`."""
        o = self.arrays
        if slots > len(o.at):
            at = np.full(max(slots, len(o.at) * 3 // 2), -1, np.int32)
            at[: len(o.at)] = o.at
            self.arrays = o = o._replace(at=at)
        positions = int(o.size[USED]) + max(0, inserts - int(o.size[FREE]))
        if positions > len(o.held):
            self._grow(max(positions, len(o.held) * 3 // 2))

    def _grow(self, positions: int) -> None:
        """Make room for so many positions."""
        o, rows = self.arrays, self._rows()
        chunks, kinds, words = rows.shape
        needed = -(-positions // 64)
        wide = min(WIDE, LINE << max(0, -(-needed // LINE) - 1).bit_length())
        chunk = kinds * (wide + LINE)
        room = -(-needed // wide) * wide * 64
        size = o.size.copy()
        size[WORDS] = wide
        bits = zeros(room // 64 // wide * chunk, np.int64)
        self.arrays = o._replace(
            bits=bits,
            near=longer(o.near, room // 64 // LINE * len(o.last)),
            code=longer(o.code, room * self._width),
            held=longer(o.held, room),
            free=longer(o.free, room),
            size=size,
        )
        self._rows()[:chunks, :, :words] = rows

    def insert(self, points: Points, slots: Ints32) -> None:
        """Add slots that are not there. O(attributes) words each; where boxes have doubled, O(n log n)."""
        o, n = self.arrays, len(self) + len(slots)
        if o.size[CUT_AT] < SETTLED and n > 2 * o.size[CUT_AT]:
            self._cut(points, np.concatenate([self.slots(), slots]))
        else:
            self.reserve(len(slots), int(slots.max(initial=-1)) + 1)
            _insert(self.arrays, points, slots)

    def load(self, points: Points, slots: Ints32) -> None:
        """Add all slots at once where there are none. O(n log n)."""
        self._cut(points, slots)

    def delete(self, points: Points, slots: Ints32) -> None:
        """Take out slots that are there, whose boxes are still in the table. O(attributes) words each."""
        _delete(self.arrays, points, slots)

    def _cut(self, points: Points, slots: Ints32) -> None:
        """Cut slabs by these slots, and have them, in order, and no others."""
        before = self.arrays
        some = points.exact[slots[:: -(-len(slots) // SAMPLE) or 1]]
        none = SlabIndex(len(before.last)).arrays
        cut, last, least, parts = none.cut, none.last, none.least, none.parts
        slabs = min(SLABS, 1 + len(slots) // 16)
        for j in range(len(last)):
            ends = np.concatenate([-some[:, 2 * j], some[:, 2 * j + 1]])
            ends = np.sort(ends[np.isfinite(ends)])
            if len(ends):
                cuts = np.unique(ends[np.arange(1, slabs) * len(ends) // slabs]) + 0.0
                last[j], cut[j, : len(cuts)] = len(cuts), cuts
                bounds = np.array([ends[0], *cuts, ends[-1]])
                least[j, : len(cuts) + 1] = bounds[:-1]
                with np.errstate(divide="ignore", over="ignore"):
                    by_unit = PARTS / np.diff(bounds)
                parts[j, : len(cuts) + 1] = np.where(np.isfinite(by_unit), by_unit, 0)
        self.arrays = none
        self.arrays.size[CUT_AT] = max(1, len(slots))
        self.reserve(len(slots), max(len(before.at), int(slots.max(initial=-1)) + 1))
        _lay_out(self.arrays, points, self._ordered(points, slots))

    def _ordered(self, points: Points, slots: Ints32) -> Ints32:
        """The slots in Z-order of their ends; those that are equal there as they were."""
        o = self.arrays
        key = np.zeros(len(slots), np.int64)
        attributes = range(min(ORDERED, len(o.last)))
        ends = [points.exact[slots, 2 * j + side] * (2 * side - 1) for j in attributes for side in (0, 1)]
        for i, end in enumerate(ends):
            last = int(o.last[i // 2])
            ends[i] = (np.searchsorted(o.cut[i // 2, :last], end, "right") << LEVELS) // (last + 1)
        for level in reversed(range(LEVELS)):
            for level_of in ends:
                key = key << 1 | level_of >> level & 1
        n = len(slots)
        ordered: Ints32 = slots[np.sort(key * n + np.arange(n)) % n] if n else slots
        return ordered

    def containing(self, points: Points, values: Floats) -> tuple[Ints32, Ints]:
        """For each of the points of shape (n, attributes), the slots whose boxes hold it, all of them in no particular
        order, and where each's end. O(positions / 512) masks, the lines that they leave, and what is found."""
        o, n = self.arrays, len(self)
        upto = np.zeros(len(values), np.int64)
        # Memory that is never touched is never there.
        unsure = np.empty(n + 1, np.int32)
        lines = np.empty(len(o.held) // (64 * LINE) + 1, np.int32)
        touch, edge = zeros((2, LINE), np.int64)
        search = Search(np.zeros(self._width, np.uint16), np.empty_like(o.last), lines, touch, edge, unsure)
        out = np.empty(2 * n + 256, np.int32)
        done = e = 0
        while e < len(values):
            e = int(_holding(o, points, values, search, out, upto, done, e))
            done = int(upto[e - 1]) if e else 0
            if e < len(values):
                more = np.empty(2 * len(out), np.int32)
                more[:done] = out[:done]
                out = more
        return out[:done], upto

    def trimmed(self) -> Slabs:
        """The arrays without the room that is kept for more, to be written down. Once they are `arrays` again, there is
        no room before `reserve`."""
        o, (_, kinds, words) = self.arrays, self._rows().shape
        chunks = -(-int(o.size[USED]) // (64 * words))
        room = chunks * words * 64
        return o._replace(
            bits=o.bits[: chunks * kinds * (words + LINE)],
            near=o.near[: room // 64 // LINE * len(o.last)],
            code=o.code[: room * self._width],
            held=o.held[:room],
            free=o.free[:room],
        )

    def slots(self) -> Ints32:
        """What is in it, in order."""
        return np.flatnonzero(self.arrays.at >= 0).astype(np.int32)

    def check(self, points: Points) -> None:
        """Raise AssertionError if an invariant is broken. O(n slabs)."""
        o, slots = self.arrays, self.slots()
        places, free = o.at[slots], o.free[: o.size[FREE]]
        assert len(slots) == len(self) and (o.held[places] == slots).all()
        assert sorted([*places.tolist(), *free.tolist()]) == list(range(o.size[USED]))
        again = SlabIndex(len(o.last))
        again.arrays = o._replace(bits=np.zeros_like(o.bits), near=np.zeros_like(o.near), code=o.code.copy())
        _again(again.arrays, points, slots)
        assert (again.arrays.bits == o.bits).all()
        assert (again.arrays.near & ~o.near == 0).all()
        assert (again.arrays.code == o.code).all()
        assert ((o.cut[:, 1:] > o.cut[:, :-1]) | np.isinf(o.cut[:, 1:])).all()
        assert (np.isfinite(o.cut).sum(axis=1) == o.last).all()

    @property
    def _width(self) -> int:
        """How long a row of codes is."""
        return -(-2 * len(self.arrays.last) // CODES) * CODES

    def _rows(self) -> Ints:
        """The bits by chunk, row and word."""
        o = self.arrays
        words = int(o.size[WORDS])
        rows = o.bits.reshape(-1, len(o.last) * 2 * SLABS, words + LINE)[:, :, :words]
        return rows
