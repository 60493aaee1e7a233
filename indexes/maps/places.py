"""The objects of a map as an index: a packed base, a tombstone for each of its objects that has gone, and a delta.

The delta holds what came or changed since the base was packed, in blocks of up to `BLOCK` objects under bounds of their
own: to a search it is so many more leaves. An object enters the block whose rectangle has to grow least, and a full
block is split at the median of its longer side, as in an R-tree of one level: so blocks stay small, and a search opens
few of them, whatever order objects come in. One that moves out of its block's rectangle enters anew, and an object of
the base that changes gets a tombstone and enters the delta.

Source of the rule: Guttman, R-trees: a dynamic index structure for spatial searching, 1984.

To a kernel the index is one `View`. It names nodes by numbers from 0, those of the base first and then the blocks of
the delta, and objects by their places in the base, and behind these their places in the delta.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from indexes import aligned
from indexes.lanes import LANES
from indexes.lean import inner_kernel, lean_kernel
from indexes.maps.rtree import Float64, Int32, Tree, check, pack, refuse

Int64 = NDArray[np.int64]

BLOCK = 64
"""Objects in a block of the delta."""

ABSENT = -1

LEAVES, DELTA, TOMBSTONES, BLOCKS = range(4)
"""Places in `size`: the first leaf of the base, objects in the delta, tombstones, and the blocks of the delta, none of
which is empty."""


class View(NamedTuple):
    """The arrays of the index; attribute j of object i of the base is statics[j * x.size + i], and so with all."""

    x: Float64  # by object of the base, as the next four
    y: Float64
    statics: Float64
    slot: Int32
    dead: NDArray[np.uint8]  # 1: a tombstone
    x0: Float64  # by node of the base, as the next six
    y0: Float64
    x1: Float64
    y1: Float64
    lower: Float64
    upper: Float64
    first: Int32
    end: Int32
    delta_x: Float64  # by object of the delta, as the next three
    delta_y: Float64
    delta_statics: Float64
    delta_slot: Int32
    block_end: (
        Int32  # by block of the delta, as the next six: behind its last object; its first is BLOCK times its number
    )
    block_x0: Float64
    block_y0: Float64
    block_x1: Float64
    block_y1: Float64
    block_lower: Float64
    block_upper: Float64
    at: Int32  # by slot: an object of the base, or ABSENT, or -2 - i for object i of the delta
    created: Int64  # by slot
    size: Int64


class PlaceIndex:
    """Objects by slot, with a place and d static values each, of which smaller ones are better; see the module's text.

    `view` is what kernels take, and may be another one after a change.
    """

    def __init__(self, tree: Tree, created: Int64, slots: int) -> None:
        """Over a packed tree, with the order of creation of its slots, which are below `slots`."""
        n, d = len(tree.slot), len(tree.statics)
        self.d = d
        at = np.full(slots, ABSENT, np.int32)
        at[tree.slot] = np.arange(n, dtype=np.int32)
        blocks = np.empty(0)
        self.view = View(
            x=tree.x,
            y=tree.y,
            statics=tree.statics.reshape(-1),
            slot=tree.slot,
            dead=np.zeros(n + LANES, np.uint8),
            x0=tree.x0,
            y0=tree.y0,
            x1=tree.x1,
            y1=tree.y1,
            lower=tree.lower.reshape(-1),
            upper=tree.upper.reshape(-1),
            first=tree.first,
            end=tree.end,
            delta_x=blocks,
            delta_y=blocks,
            delta_statics=blocks,
            delta_slot=np.empty(0, np.int32),
            block_end=np.empty(0, np.int32),
            block_x0=blocks,
            block_y0=blocks,
            block_x1=blocks,
            block_y1=blocks,
            block_lower=blocks,
            block_upper=blocks,
            at=at,
            created=created,
            size=np.array([int(tree.leaves[0]), 0, 0, 0]),
        )
        self.tree = tree
        self._reserve_blocks(1)

    @classmethod
    def build(
        cls,
        points: ArrayLike,
        statics: ArrayLike,
        slots: ArrayLike | None = None,
        created: ArrayLike | None = None,
        fanout: int | None = None,
        along: int | None = None,
    ) -> PlaceIndex:
        """The index of these objects, all in its base; see `rtree.pack`. Without `created` slots count by age."""
        tree = pack(points, statics, slots, fanout, along)
        room = int(tree.slot.max(initial=-1)) + 1
        order = np.arange(room, dtype=np.int64)
        if created is not None:
            order[np.arange(room) if slots is None else np.asarray(slots)] = created
        return cls(tree, order, room)

    def __len__(self) -> int:
        return len(self.tree.slot) - int(self.view.size[TOMBSTONES]) + int(self.view.size[DELTA])

    @property
    def delta(self) -> int:
        """How many objects are in the delta."""
        return int(self.view.size[DELTA])

    @property
    def worn(self) -> float:
        """What the delta and the tombstones are to what is alive: what there is to gain by a new base."""
        return (self.delta + int(self.view.size[TOMBSTONES])) / max(1, len(self))

    def __contains__(self, slot: int) -> bool:
        return 0 <= slot < len(self.view.at) and self.view.at[slot] != ABSENT

    def holds(self, slots: Int64) -> NDArray[np.bool_]:
        """Which of some slots, of 0 and up, are there."""
        at = self.view.at
        found = slots < len(at)
        found[found] = at[slots[found]] != ABSENT
        return found

    def put(self, slots: ArrayLike, points: ArrayLike, statics: ArrayLike, created: ArrayLike | None = None) -> None:
        """Insert objects, or change those that are there; `created` is by default the number of the slot, and that of
        an object that is there stays as it is. O(BLOCK d + blocks of the delta) each.

        Raises:
            ValueError: a place is not finite, a static value is NaN or -inf, or the shapes do not fit; nothing has
                changed.
        """
        numbers = np.atleast_1d(np.asarray(slots, np.int32))
        n = len(numbers)
        places = np.asarray(points, np.float64).reshape(n, 2) + 0.0
        values = np.asarray(statics, np.float64).reshape(n, self.d) + 0.0
        refuse(places, values)
        order = numbers.astype(np.int64) if created is None else np.asarray(created, np.int64).reshape(n)
        self._reserve_slots(int(numbers.max(initial=-1)) + 1)
        # Each block may be full, and split once; from then on a split takes half a block of insertions.
        self._reserve_blocks(min(n, int(self.view.size[BLOCKS]) + n // (BLOCK // 2)) + 1)
        _put(self.view, numbers, places, np.ascontiguousarray(values), order)

    def delete(self, slots: ArrayLike) -> None:
        """Take objects out. Slots that are not there are passed over. O(BLOCK d) each."""
        numbers = np.atleast_1d(np.asarray(slots, np.int32))
        _delete(self.view, numbers[(numbers >= 0) & (numbers < len(self.view.at))])

    def slots(self) -> Int32:
        """The slots that are there, in order."""
        return np.flatnonzero(self.view.at != ABSENT).astype(np.int32)

    def rows(self, slots: ArrayLike) -> tuple[Float64, Float64]:
        """The places (n, 2) and static values (n, d) of slots that are there."""
        some = np.ascontiguousarray(slots, np.int64)
        points, statics = np.empty((len(some), 2)), np.empty((len(some), self.d))
        _read(self.view, some, points, statics)
        return points, statics

    def folded(self, fanout: int | None = None, along: int | None = None) -> PlaceIndex:
        """The same objects, all in a new base. O(d n log n); reads only. The result does not depend on what came to the
        base when."""
        slots = self.slots()
        return PlaceIndex.build(*self.rows(slots), slots, self.view.created[slots], fanout, along)

    def copy(self) -> PlaceIndex:
        """The same objects, to be read only, whatever changes here. O(d n)."""
        other = object.__new__(PlaceIndex)
        other.d, other.tree = self.d, self.tree
        base = set(self.tree._fields) - {"leaves", "slot"}
        shared = {name: getattr(self.view, name) for name in ("slot", *base)}
        other.view = View(**shared, **{n: c.copy() for n, c in self.view._asdict().items() if n not in shared})
        return other

    def _reserve_slots(self, slots: int) -> None:
        v = self.view
        if slots > len(v.at):
            room = max(slots, len(v.at) * 5 // 4)
            at, created = np.full(room, ABSENT, np.int32), np.zeros(room, np.int64)
            at[: len(v.at)], created[: len(v.at)] = v.at, v.created
            self.view = v._replace(at=at, created=created)

    def _reserve_blocks(self, blocks: int) -> None:
        """Make room for so many blocks more."""
        v = self.view
        if int(v.size[BLOCKS]) + blocks > len(v.block_end):
            if self.delta * 8 < int(v.size[BLOCKS]) * BLOCK:
                self._close_ranks()
            if int(v.size[BLOCKS]) + blocks > len(v.block_end):
                self._grow(max(int(v.size[BLOCKS]) + blocks, len(v.block_end) * 3 // 2))

    def _close_ranks(self) -> None:
        """Let the objects of the delta enter anew: most of its blocks are nearly empty."""
        v = self.view
        recent = np.flatnonzero(v.at < ABSENT).astype(np.int32)
        points, statics = self.rows(recent)
        created = v.created[recent]
        _delete(v, recent)
        _put(v, recent, points, statics, created)

    def _grow(self, blocks: int) -> None:
        v, held, used = self.view, len(self.view.delta_x), len(self.view.block_end)
        columns = aligned.full((2 + self.d, blocks * BLOCK), np.inf)
        columns[:2, :held] = v.delta_x, v.delta_y
        columns[2:, :held] = v.delta_statics.reshape(self.d, held)
        line = -(-(blocks + LANES) // 8) * 8
        lowest, highest = aligned.full((2 + self.d, line), np.inf), aligned.full((2 + self.d, line), -np.inf)
        slot = np.full(blocks * BLOCK, ABSENT, np.int32)
        slot[:held] = v.delta_slot
        end = np.arange(blocks, dtype=np.int32) * BLOCK
        end[:used] = v.block_end
        self.view = v._replace(
            delta_x=columns[0],
            delta_y=columns[1],
            delta_statics=columns[2:].reshape(-1),
            delta_slot=slot,
            block_end=end,
            block_x0=lowest[0],
            block_y0=lowest[1],
            block_x1=highest[0],
            block_y1=highest[1],
            block_lower=lowest[2:].reshape(-1),
            block_upper=highest[2:].reshape(-1),
        )
        _bound_all(self.view)

    def check(self) -> None:
        """Every slot is where `at` says and nowhere else, and bounds are tight. O(n d)."""
        v, n = self.view, len(self.tree.slot)
        check(self.tree)
        based = np.flatnonzero(v.at >= 0)
        assert (v.slot[v.at[based]] == based).all()
        assert (np.sort(v.at[based]) == np.flatnonzero(v.dead[:n] == 0)).all()
        assert v.size[TOMBSTONES] == v.dead.sum() and not v.dead[n:].any()
        recent = np.flatnonzero(v.at < ABSENT)
        assert (v.delta_slot[-2 - v.at[recent]] == recent).all()
        columns = np.vstack([v.delta_x, v.delta_y, v.delta_statics.reshape(self.d, len(v.delta_x))])
        full = [np.arange(b * BLOCK, end) for b, end in enumerate(v.block_end.tolist())]
        assert (np.sort(-2 - v.at[recent]) == np.concatenate(full)).all() and len(recent) == self.delta
        used = int(v.size[BLOCKS])
        assert all(len(places) for places in full[:used]) and not any(len(places) for places in full[used:])
        assert np.isinf(np.delete(columns, np.concatenate(full), axis=1)).all()
        lowest = np.vstack([v.block_x0, v.block_y0, v.block_lower.reshape(self.d, len(v.block_x0))])
        highest = np.vstack([v.block_x1, v.block_y1, v.block_upper.reshape(self.d, len(v.block_x0))])
        for b, places in enumerate(full):
            own = columns[:, places]
            assert (lowest[:, b] == own.min(axis=1, initial=np.inf)).all()
            assert (highest[:, b] == own.max(axis=1, initial=-np.inf)).all()


@lean_kernel
def _put(v, slots, points, statics, created):  # type: ignore[no-untyped-def]
    for r in range(slots.size):
        t = np.int64(slots[r])
        x, y = points[r, 0], points[r, 1]
        if v.at[t] >= 0:
            v.dead[v.at[t]] = 1
            v.size[TOMBSTONES] += 1
            v.at[t] = ABSENT
        elif v.at[t] == ABSENT:
            v.created[t] = created[r]
        else:
            b = (-2 - v.at[t]) // BLOCK
            if not (v.block_x0[b] <= x <= v.block_x1[b] and v.block_y0[b] <= y <= v.block_y1[b]):
                _close(v, np.int64(-2 - v.at[t]))
                v.at[t] = ABSENT
        if v.at[t] == ABSENT:
            b = _block_for(v, x, y)
            if v.block_end[b] == (b + 1) * BLOCK:
                b = _split(v, b, x, y)
            i = np.int64(v.block_end[b])
            v.block_end[b] += 1
            v.size[DELTA] += 1
            v.delta_slot[i] = t
            v.at[t] = -2 - i
        i = np.int64(-2 - v.at[t])
        v.delta_x[i] = x
        v.delta_y[i] = y
        for j in range(statics.shape[1]):
            v.delta_statics[j * v.delta_x.size + i] = statics[r, j]
        _bound(v, i // BLOCK)


@inner_kernel
def _block_for(v, x, y):  # type: ignore[no-untyped-def]
    """The block whose rectangle has to grow least to take a place in, of several the smallest."""
    best: Any = np.int64(-1)
    growth = extent = np.inf
    for b in range(v.size[BLOCKS]):
        x0, y0, x1, y1 = v.block_x0[b], v.block_y0[b], v.block_x1[b], v.block_y1[b]
        grown = max(x0 - x, 0.0) + max(x - x1, 0.0) + max(y0 - y, 0.0) + max(y - y1, 0.0)
        if grown <= growth:
            size = (x1 - x0) + (y1 - y0)
            if grown < growth or size < extent:
                best, growth, extent = b, grown, size
    return best if best >= 0 else _new_block(v)


@inner_kernel
def _new_block(v):  # type: ignore[no-untyped-def]
    v.size[BLOCKS] += 1
    return v.size[BLOCKS] - 1


@inner_kernel
def _split(v, b, x, y):  # type: ignore[no-untyped-def]
    """Move the upper half of a full block, along its longer side, to another one; returns which of the two is for the
    object at (x, y)."""
    other = _new_block(v)
    first, middle, end = b * BLOCK, b * BLOCK + BLOCK // 2, (b + 1) * BLOCK
    wide = v.block_x1[b] - v.block_x0[b] >= v.block_y1[b] - v.block_y0[b]
    _halve(v, v.delta_x if wide else v.delta_y, first, middle, end)
    for i in range(middle, end):
        _move(v, i, other * BLOCK + i - middle)
    v.block_end[b], v.block_end[other] = middle, other * BLOCK + end - middle
    _bound(v, b)
    _bound(v, other)
    edge, at = (v.block_x0[other], x) if wide else (v.block_y0[other], y)
    return other if at >= edge else b


@inner_kernel
def _halve(v, along, first, middle, end):  # type: ignore[no-untyped-def]
    """Put the objects between `first` and `end` in such an order that none before `middle` is greater than one behind
    it (quickselect)."""
    lo, hi = first, end - 1
    while lo < hi:
        pivot = along[(lo + hi) // 2]
        i, j = lo, hi
        while i <= j:
            while along[i] < pivot:
                i += 1
            while along[j] > pivot:
                j -= 1
            if i <= j:
                _swap(v, i, j)
                i += 1
                j -= 1
        if middle <= j:
            hi = j
        elif middle >= i:
            lo = i
        else:
            lo = hi


@inner_kernel
def _swap(v, i, j):  # type: ignore[no-untyped-def]
    stride = v.delta_x.size
    v.delta_x[i], v.delta_x[j] = v.delta_x[j], v.delta_x[i]
    v.delta_y[i], v.delta_y[j] = v.delta_y[j], v.delta_y[i]
    v.delta_slot[i], v.delta_slot[j] = v.delta_slot[j], v.delta_slot[i]
    for a in range(0, v.delta_statics.size, stride):
        v.delta_statics[a + i], v.delta_statics[a + j] = v.delta_statics[a + j], v.delta_statics[a + i]
    v.at[v.delta_slot[i]], v.at[v.delta_slot[j]] = -2 - i, -2 - j


@inner_kernel
def _move(v, i, j):  # type: ignore[no-untyped-def]
    """Move the object at place i to place j, and leave a hole."""
    stride = v.delta_x.size
    v.delta_x[j], v.delta_y[j], v.delta_slot[j] = v.delta_x[i], v.delta_y[i], v.delta_slot[i]
    v.delta_x[i] = v.delta_y[i] = np.inf
    v.delta_slot[i] = ABSENT
    for a in range(0, v.delta_statics.size, stride):
        v.delta_statics[a + j] = v.delta_statics[a + i]
        v.delta_statics[a + i] = np.inf
    v.at[v.delta_slot[j]] = -2 - j


@lean_kernel
def _read(v, slots, points, statics):  # type: ignore[no-untyped-def]
    for r in range(slots.size):
        i = np.int64(v.at[slots[r]])
        if i >= 0:
            points[r, 0], points[r, 1] = v.x[i], v.y[i]
            for j in range(statics.shape[1]):
                statics[r, j] = v.statics[j * v.x.size + i]
        else:
            i = -2 - i
            points[r, 0], points[r, 1] = v.delta_x[i], v.delta_y[i]
            for j in range(statics.shape[1]):
                statics[r, j] = v.delta_statics[j * v.delta_x.size + i]


@lean_kernel
def _delete(v, slots):  # type: ignore[no-untyped-def]
    for r in range(slots.size):
        t = np.int64(slots[r])
        if v.at[t] >= 0:
            v.dead[v.at[t]] = 1
            v.size[TOMBSTONES] += 1
        elif v.at[t] < ABSENT:
            _close(v, np.int64(-2 - v.at[t]))
        v.at[t] = ABSENT


@inner_kernel
def _close(v, i):  # type: ignore[no-untyped-def]
    """Take the object at place i of the delta out; the last of its block moves there. The last block moves to where one
    has become empty."""
    b = i // BLOCK
    last = np.int64(v.block_end[b]) - 1
    if i < last:
        _swap(v, i, last)
    v.delta_x[last] = v.delta_y[last] = np.inf
    v.delta_slot[last] = ABSENT
    for a in range(0, v.delta_statics.size, v.delta_x.size):
        v.delta_statics[a + last] = np.inf
    v.block_end[b] = last
    v.size[DELTA] -= 1
    if last == b * BLOCK:
        v.size[BLOCKS] -= 1
        moved = v.size[BLOCKS]
        if b < moved:
            for i in range(moved * BLOCK, v.block_end[moved]):
                _move(v, i, i + (b - moved) * BLOCK)
            v.block_end[b] = v.block_end[moved] + (b - moved) * BLOCK
            v.block_end[moved] = moved * BLOCK
            _bound(v, moved)
    _bound(v, b)


@lean_kernel
def _bound_all(v):  # type: ignore[no-untyped-def]
    for b in range(v.block_end.size):
        _bound(v, b)


@inner_kernel
def _bound(v, b):  # type: ignore[no-untyped-def]
    """Make the bounds of block b tight."""
    first, end = b * BLOCK, np.int64(v.block_end[b])
    _bound_column(v.delta_x, first, end, v.block_x0, v.block_x1, b)
    _bound_column(v.delta_y, first, end, v.block_y0, v.block_y1, b)
    stride, line = v.delta_x.size, v.block_x0.size
    for j in range(v.delta_statics.size // stride):
        _bound_column(v.delta_statics, j * stride + first, j * stride + end, v.block_lower, v.block_upper, j * line + b)


@inner_kernel
def _bound_column(column, first, end, lowest, highest, b):  # type: ignore[no-untyped-def]
    least, most = np.inf, -np.inf
    for i in range(first, end):
        least = min(least, column[i])
        most = max(most, column[i])
    lowest[b] = least
    highest[b] = most
