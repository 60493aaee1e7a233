"""The subscriptions of a board with several range attributes, by class: a class is a list length and a shape.

Layout. The regions of a class are points of its parameter space, in a tree of `points.Points` that holds each distinct
region once, under the sid of one of its subscribers; the others are chained to that one by `after` and `before`. So all
points of a tree differ, and a rectangle of parameter space around one of them has no other in it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from indexes.boards.space.kernels.arrays import RegionTrees
from indexes.boards.space.kernels.points import (
    BOUND,
    CAP,
    DEPTH,
    NODE,
    SLOT,
    VALUE,
    WIDTH,
    Points,
    check_points,
    copied,
    count_within,
    empty_points,
    fill,
    first_lanes,
    meeting,
    next_block,
    points_of,
    put,
    resized,
    room,
    take,
)
from indexes.boards.space.kernels.shapes import MAX, SHAPES, as_params, width
from indexes.boards.space.kernels.tiles import closed_box, sides
from indexes.boards.subscription_index import ClassIndex, check_new
from indexes.compiled.jit import internal, kernel
from indexes.compiled.simd import ALL, LANES, low_bit
from indexes.core.arrays import Bools, Floats, Ints, Rows

NOBODY = -1


class Regions(NamedTuple):
    """The arrays of all classes. `q` is the class of a sid, -1 where it is absent; `total` counts the subscriptions of
    a class, `shape` is that of its regions, by its place in `SHAPES`."""

    tree: Points
    shape: Ints
    total: Ints
    q: Rows
    after: Rows
    before: Rows


@internal
def _chain(regions: Regions, lead: int, sid: int) -> None:
    """Chain a sid to the one in the tree that has the same region."""
    regions.before[sid], regions.after[sid] = lead, regions.after[lead]
    if regions.after[lead] >= 0:
        regions.before[regions.after[lead]] = sid
    regions.after[lead] = sid


@kernel
def insert_many(regions: Regions, q: int, sids: Rows, params: Floats, p: int) -> None:
    """Add subscriptions, parameters row by row in one flat array; there is room for all. O(log^2 m) each."""
    for i in range(len(sids)):
        sid = sids[i]
        found, slot = count_within(regions.tree, q, params, params, i * p, 1)
        regions.q[sid] = q
        regions.total[q] += 1
        regions.after[sid] = regions.before[sid] = -1
        if found:
            _chain(regions, regions.tree.id[slot], sid)
        else:
            put(regions.tree, q, sid, params, i * p)


@kernel
def delete_many(regions: Regions, q: int, sids: Rows) -> None:
    """Remove subscriptions that are in class q. O(log m) each."""
    for i in range(len(sids)):
        sid = sids[i]
        regions.q[sid] = -1
        regions.total[q] -= 1
        before, after = regions.before[sid], regions.after[sid]
        if after >= 0:
            regions.before[after] = before
        if before >= 0:
            regions.after[before] = after
        elif after >= 0:
            slot = regions.tree.pos[sid]
            regions.tree.id[slot] = after
            regions.tree.pos[after] = slot
            regions.tree.pos[sid] = -1
        else:
            take(regions.tree, q, sid)


@kernel
def distinct(sids: Rows, params: Floats, hashes: Ints, regions: Regions, table: Ints, chosen: Ints) -> int:
    """Chain equal rows of parameters to the first of them; write the rows of the first ones to `chosen` and return
    their number. `table` is a hash table for scratch: its size is a power of two, its entries -1. O(m)."""
    n = 0
    for i in range(len(sids)):
        at = hashes[i] & (len(table) - 1)
        same = -1
        while table[at] >= 0 and same < 0:
            equal = True
            for j in range(params.shape[1]):
                equal &= params[table[at], j] == params[i, j]
            if equal:
                same = table[at]
            else:
                at = (at + 1) & (len(table) - 1)
        if same >= 0:
            _chain(regions, sids[same], sids[i])
        else:
            table[at] = i
            chosen[n] = i
            n += 1
    return n


@kernel
def report(regions: RegionTrees, q: int, low: Floats, high: Floats, out: Rows, n: int) -> int:
    """Write the sids of class q whose parameters lie in the closed box low..high to out[n:], equal regions
    together. Returns how many, or -1 if `out` is too small (what is written is then void)."""
    tree = regions.tree
    first, base, depth = tree.head[q, SLOT], tree.head[q, NODE], tree.head[q, DEPTH]
    cap, value, bound, p = tree.head[q, CAP], tree.head[q, VALUE], tree.head[q, BOUND], tree.head[q, WIDTH]
    leaves = 1 << depth
    total = n
    block, lanes = 0, first_lanes(depth)
    while block >= 0 and total <= len(out):
        mask = meeting(tree.lo, tree.hi, bound + block * p, p, low, high, 0) & lanes
        down = 0
        while mask and not down:
            node = block + low_bit(mask)
            mask &= mask - 1
            if node < leaves:
                down = node
            else:
                start = (node - leaves) * cap
                end = start + tree.cnt[base + node]
                for s in range(start, end, LANES):
                    found = meeting(tree.v, tree.v, value + s * p, p, low, high, 0) & (ALL >> max(s + LANES - end, 0))
                    while found:
                        sid = tree.id[first + s + low_bit(found)]
                        found &= found - 1
                        while sid >= 0:
                            if total < len(out):
                                out[total] = sid
                            total += 1
                            sid = regions.after[sid]
        block, lanes = next_block(block, down, depth)
    return total - n if total <= len(out) else -1


class SpaceSubscriptions(ClassIndex):
    """The subscriptions of a board over d range attributes, by class; class q is for regions of shapes[q].

    `arrays` is what kernels take; it is replaced when the index grows, so read it again after every call.
    """

    def __init__(self, d: int, classes: tuple[tuple[int, str], ...] = ()) -> None:
        self.d = d
        self.ks = np.empty(0, np.int64)
        self.shapes: list[str] = []
        empty = np.empty(0, np.int32)
        self.arrays = Regions(
            empty_points([], [], 0), np.empty(0, np.int64), np.empty(0, np.int64), empty, empty, empty
        )  # fmt: skip
        for k, shape in classes:
            self.add_class(k, shape)

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in (*self.arrays.tree, *self.arrays[1:]))

    def class_count(self, q: int) -> int:
        return int(self.arrays.total[q])

    def class_of(self, k: int, shape: str) -> int:
        """The number of a class. Raises KeyError."""
        for q in range(len(self.shapes)):
            if self.ks[q] == k and self.shapes[q] == shape:
                return q
        raise KeyError((k, shape))

    def add_class(self, k: int, shape: str = "box") -> int:
        """Add an empty class; returns its number q."""
        width(shape, self.d)
        self.ks = np.append(self.ks, np.int64(k))
        self.shapes.append(shape)
        a = self.arrays
        self.arrays = a._replace(
            tree=resized(a.tree, {}, self._widths()),
            shape=np.append(a.shape, SHAPES.index(shape)),
            total=np.append(a.total, np.int64(0)),
        )
        return len(self.shapes) - 1

    def insert_many(self, q: int, sids: ArrayLike, params: ArrayLike) -> None:
        """Add subscriptions to class q, whose parameters are rows (m, p); ends of boxes may be infinite. One by one,
        O(log^2 m) each, or in bulk, O(m log m), when they are at least an eighth of what is there.

        Raises ValueError when lengths differ, a sid is negative or present, or a parameter is NaN.
        """
        sid = np.ascontiguousarray(sids, np.int32)
        if len(sid) == 0:
            return
        rows = as_params(self.shapes[q], self.d, params)
        if len(sid) != len(rows):
            raise ValueError(f"{len(sid)} sids and {len(rows)} rows of parameters")
        check_new(sid, self.arrays.q)
        self._reserve_sids(int(sid.max()) + 1)
        if 8 * len(sid) < self.class_count(q):
            self.edits += len(sid)
            self._reserve(q, len(sid))
            insert_many(self.arrays, q, sid, rows.ravel(), rows.shape[1])
        else:
            self._lay_out(q, sid, rows)

    def get(self, sid: int) -> tuple[int, Floats]:
        """The class of a subscription and its parameters (p,), ends of boxes infinite where unbounded. Raises KeyError.

        O(number of equal ones).
        """
        f = self.arrays
        if not (0 <= sid < len(f.q) and f.q[sid] >= 0):
            raise KeyError(sid)
        q, lead = int(f.q[sid]), sid
        while f.before[lead] >= 0:
            lead = int(f.before[lead])
        return q, self._outside(q, self._slots(q, np.array([f.tree.pos[lead]])))[0]

    def contents(self, q: int) -> tuple[Rows, Floats]:
        """Copies of the sids of class q, ascending, and their parameters (m, p), ends of boxes infinite where
        unbounded. O(m log m)."""
        sids, params = self._all(q)
        order = np.argsort(sids)
        return sids[order], self._outside(q, params[order])

    def report(self, q: int, tile: ArrayLike) -> Rows:
        """The sids of class q that a tile with these sides reaches, equal regions together. O(answer + a search)."""
        side = np.array(tile, np.float64, ndmin=2)
        p = width(self.shapes[q], self.d)
        if side.shape[1] < sides(self.shapes[q], self.d):
            raise ValueError(f"a tile of a {self.shapes[q]} has {sides(self.shapes[q], self.d)} sides")
        low, high = np.empty(p), np.empty(p)
        if self.shapes[q] == "box":
            side[:, 1::4], side[:, 2::4] = np.maximum(side[:, 1::4], -MAX), np.minimum(side[:, 2::4], MAX)
        closed_box(SHAPES.index(self.shapes[q]), self.d, side, 0, low, high)
        out = np.empty(64, np.int32)
        while True:
            n = report(self.arrays, q, low, high, out, 0)
            if n >= 0:
                return out[:n].copy()
            out = np.empty(4 * len(out), np.int32)

    def copy(self) -> SpaceSubscriptions:
        """Another index with the same subscriptions. O(m)."""
        other = SpaceSubscriptions(self.d)
        other.ks, other.shapes, other.edits = self.ks.copy(), self.shapes.copy(), self.edits
        other.arrays = self.frozen()
        return other

    def frozen(self) -> Regions:
        """A copy of the arrays, to be read only."""
        f = self.arrays
        return Regions._make([copied(f.tree), *(column.copy() for column in f[1:])])

    def check(self) -> None:
        """Verify every invariant of the layout; AssertionError names the class and the node. O(m)."""
        f = self.arrays
        for q in range(len(self.shapes)):
            check_points(f.tree, q)
            assert f.shape[q] == SHAPES.index(self.shapes[q]), q
            sids, params = self._all(q)
            assert len(sids) == f.total[q] and (f.q[sids] == q).all(), (q, len(sids), f.total[q])
            leads = f.tree.pos[sids] >= 0
            assert (f.before[sids[leads]] == -1).all(), q
            assert len(np.unique(params[leads], axis=0)) == leads.sum(), (q, "equal regions in the tree")
            for sid in sids[~leads].tolist():
                assert f.after[f.before[sid]] == sid, (q, sid)
        assert len(self) == int((f.q >= 0).sum()), (len(self), int((f.q >= 0).sum()))

    def _widths(self) -> list[tuple[int, int]]:
        return [(width(shape, self.d), width(shape, self.d)) for shape in self.shapes]

    def _load(self, q: int) -> tuple[int, int]:
        tree = self.arrays.tree
        return int(tree.cnt[tree.head[q, NODE] + 1]), room(tree, q)

    def _delete(self, q: int, sid: Rows) -> None:
        delete_many(self.arrays, q, sid)

    def _in_class(self, q: int, sid: Rows) -> Bools:
        known = (sid >= 0) & (sid < len(self.arrays.q))
        return np.asarray(known & (np.append(self.arrays.q, np.int32(-1))[np.where(known, sid, -1)] == q))

    def _slots(self, q: int, slots: Ints) -> Floats:
        t = self.arrays.tree
        local, p = slots - t.head[q, SLOT], int(t.head[q, WIDTH])
        begin = int(t.head[q, VALUE])
        values = t.v[begin : begin + (int(t.head[q, CAP]) << int(t.head[q, DEPTH])) * p].reshape(-1, p, LANES)
        return values[local // LANES, :, local % LANES].reshape(-1, p)

    def _outside(self, q: int, params: Floats) -> Floats:
        return (
            np.where(np.abs(params) == MAX, np.copysign(np.inf, params), params) if self.shapes[q] == "box" else params
        )

    def _all(self, q: int) -> tuple[Rows, Floats]:
        """All sids of class q, those of the tree first, and their parameters."""
        f = self.arrays
        sids, params = points_of(f.tree, q)
        all_sids, all_params = [sids], [params]
        while len(sids):
            more = f.after[sids] >= 0
            sids, params = f.after[sids[more]], params[more]
            all_sids.append(sids)
            all_params.append(params)
        return np.concatenate(all_sids), np.concatenate(all_params)

    def _reserve_sids(self, sids: int) -> None:
        f = self.arrays
        if sids > len(f.q):
            size = max(sids, len(f.q) * 3 // 2)

            def grown(column: Rows) -> Rows:
                return np.concatenate([column, np.full(size - len(column), -1, np.int32)])

            tree = f.tree._replace(pos=grown(f.tree.pos))
            self.arrays = f._replace(tree=tree, q=grown(f.q), after=grown(f.after), before=grown(f.before))

    def _reserve(self, q: int, inserts: int) -> None:
        count, most = self._load(q)
        if count + inserts > most:
            tree = resized(self.arrays.tree, {q: max(count + inserts, count * 3 // 2)}, self._widths())
            self.arrays = self.arrays._replace(tree=tree)

    def _lay_out(self, q: int, sids: Rows, params: Floats) -> None:
        """Pack class q again with these subscriptions added."""
        old_sids, old_params = self._all(q)
        sids, params = np.concatenate([old_sids, sids]), np.concatenate([old_params, params])
        f = self.arrays
        f.q[sids], f.after[sids], f.before[sids], f.tree.pos[sids] = q, -1, -1, -1
        f.total[q] = len(sids)
        chosen = np.empty(len(sids), np.int64)
        table = np.full(1 << int(2 * len(sids)).bit_length(), -1, np.int64)
        n = distinct(sids, params, _hashes(params), f, table, chosen)
        tree = f.tree._replace(cnt=f.tree.cnt.copy())
        tree = resized(_without(tree, q), {q: n}, self._widths())
        fill(tree, q, sids[chosen[:n]], params[chosen[:n]])
        self.arrays = f._replace(tree=tree)


def _without(t: Points, q: int) -> Points:
    """The same arrays without the points of class q."""
    first, size = int(t.head[q, SLOT]), int(t.head[q, CAP]) << int(t.head[q, DEPTH])
    ids = t.id.copy()
    ids[first : first + size] = NOBODY
    return t._replace(id=ids)


def _hashes(params: Floats) -> Ints:
    """A hash of each row; equal rows have equal ones."""
    mixed = np.full(len(params), 0xCBF29CE484222325, np.uint64)
    for column in params.T.copy().view(np.uint64):
        mixed = (mixed ^ column) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return (mixed >> np.uint64(1)).astype(np.int64)
