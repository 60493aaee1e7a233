"""The search of several points in a slab index (`slabs.py`), group by group, so that what one of them has brought into
the cache the others find there: first the masks of the boxes that hold them, then, once it is known how many there are,
their slots.
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.compiled.jit import inlined, internal, kernel
from indexes.compiled.kept import Keeper, Words, declare, unpacked
from indexes.compiled.masks import first_lane, first_lanes, without_first
from indexes.compiled.simd import LANES, bit_count, prefetch_line
from indexes.core.arrays import Floats, Int8s, Ints, Ints32, int64
from indexes.relays.kernels.comparisons import BIAS, BLOCK, CODES, PACKS, block_holds, block_pack, code_steps
from indexes.relays.kernels.points import empty_points
from indexes.relays.kernels.slab_codes import (
    GROUP,
    MOST,
    PARTS,
    USED,
    Codes,
    Slabs,
    code_of,
    empty_slabs,
    whole,
    width_of,
)

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


@internal
def _encode_points(index: Slabs, values: Floats, code: Codes, slab: Int8s) -> None:
    """Write the least codes of the ends of boxes that may hold points, and their slabs, less 128: rows of shape
    (n, width)."""
    for i in range(values.shape[0]):
        for j in range(values.shape[1]):
            of = code_of(index, j, values[i, j])
            code[i, 2 * j], code[i, 2 * j + 1] = MOST - of, of
            slab[i, 2 * j], slab[i, 2 * j + 1] = (MOST - of) // PARTS - BIAS, of // PARTS - BIAS


@kernel
def _find(kept: KeptSlabs, space: KeptSearch, values: Floats, wide: int, rounds: int, turn: int) -> int:
    """Find the blocks of the rounds from that one on. Returns the first round that there may be no room for, or the
    number of rounds."""
    index, exact = unpacked(kept)
    (search,) = unpacked(space)
    slab, unsure, block_of, mask, share = search.slab, search.unsure, search.block, search.mask, search.share
    n, row, width = values.shape[0], slab.shape[1], width_of(index)
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
    ends, width = 2 * index.last.size, width_of(index)
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
        met=np.empty((whole(groups, BLOCK) // BLOCK, TOGETHER), np.int64),
    )


def _twice(column: NDArray[Any]) -> NDArray[Any]:
    """The column with twice the room."""
    longer_ = np.empty(2 * len(column), column.dtype)
    longer_[: len(column)] = column
    return longer_


def search(index: KeptSlabs, width: int, groups: int, values: Floats) -> tuple[Ints32, Ints]:
    """For each of at least one point and at most `TOGETHER`, of shape (n, attributes), the slots whose boxes hold it,
    and where each's end, in an index with so many codes a point and so many groups."""
    n, values = len(values), np.ascontiguousarray(values)
    wide = 1 << max(0, (TOGETHER // n).bit_length() - 2)  # groups of a round
    rounds = -(-groups // wide)
    room, kept = _space.sized(width, groups)
    turn = int(_find(index, kept, values, wide, rounds, 0))
    while turn < rounds:
        room, kept = _space.extended(room)
        turn = int(_find(index, kept, values, wide, rounds, turn))
    out, upto = np.empty(int(room.found[TOGETHER]), np.int32), np.empty(n, np.int64)
    _name(index, kept, wide, rounds, out, upto)
    return out, upto


_space = _Space()

declare(KeptSlabs, lambda: (empty_slabs(1), empty_points(0, 2).exact))
declare(KeptSearch, lambda: (_empty_search(0, 0),))
