"""The subscriptions of a board with several range attributes, by class: a class is a list length and a shape.

Layout. The regions of a class are points of its parameter space, in a tree of `points.Points` that holds each distinct
region once, under the sid of one of its subscribers; the others are chained to that one by `after` and `before`. So all
points of a tree differ, and a rectangle of parameter space that holds one of them says who is meant by value alone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from indexes.boards.space.points import (
    ALL,
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
    crossing,
    empty_points,
    fill,
    first_lanes,
    next_block,
    points_of,
    put,
    resized,
    room,
    take,
    within,
)
from indexes.boards.space.shapes import MAX, SHAPES, as_params, width
from indexes.boards.space.tiles import closed_box, sides
from indexes.lanes import LANES, low_bit
from indexes.lean import inner_kernel, lean_kernel

LARGE = 50_000
"""Distinct regions of a class from which on laying it out takes long enough to be noticed."""

NOBODY = -1


class Regions(NamedTuple):
    """The arrays of all classes. `q` is the class of a sid, -1 where it is absent; `total` counts the subscriptions of
    a class, equal ones each, `shape` is what its regions are."""

    tree: Points
    shape: NDArray[np.int64]
    total: NDArray[np.int64]
    q: NDArray[np.int32]
    after: NDArray[np.int32]
    before: NDArray[np.int32]


@inner_kernel
def _chain(f, lead, sid):  # type: ignore[no-untyped-def]
    """Put a sid behind the one that stands in the tree for the same region."""
    f.before[sid], f.after[sid] = lead, f.after[lead]
    if f.after[lead] >= 0:
        f.before[f.after[lead]] = sid
    f.after[lead] = sid


@lean_kernel
def insert_many(f: Regions, q: int, sids: NDArray[np.int32], params: NDArray[np.float64], p: int) -> None:
    """Add subscriptions, parameters row by row in one flat array; there is room for all. O(log^2 m) each."""
    for i in range(len(sids)):
        sid = sids[i]
        found, slot = count_within(f.tree, q, params, params, i * p, 1)
        f.q[sid] = q
        f.total[q] += 1
        f.after[sid] = f.before[sid] = -1
        if found:
            _chain(f, f.tree.id[slot], sid)
        else:
            put(f.tree, q, sid, params, i * p)


@lean_kernel
def delete_many(f: Regions, q: int, sids: NDArray[np.int32]) -> None:
    """Remove subscriptions that are in class q. O(log m) each."""
    for i in range(len(sids)):
        sid = sids[i]
        f.q[sid] = -1
        f.total[q] -= 1
        before, after = f.before[sid], f.after[sid]
        if after >= 0:
            f.before[after] = before
        if before >= 0:
            f.after[before] = after
        elif after >= 0:
            slot = f.tree.pos[sid]
            f.tree.id[slot] = after
            f.tree.pos[after] = slot
            f.tree.pos[sid] = -1
        else:
            take(f.tree, q, sid)


@lean_kernel
def distinct(
    sids: NDArray[np.int32],
    params: NDArray[np.float64],
    hashes: NDArray[np.int64],
    f: Regions,
    table: NDArray[np.int64],
    chosen: NDArray[np.int64],
) -> int:
    """Chain equal rows of parameters to the first of them; the rows of the first ones go to `chosen`, their number is
    returned. `table`, of a power of two and full of -1, is where they are looked up. O(m)."""
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
            _chain(f, sids[same], sids[i])
        else:
            table[at] = i
            chosen[n] = i
            n += 1
    return n


@lean_kernel
def report(
    f: Regions, q: int, low: NDArray[np.float64], high: NDArray[np.float64], b: int, out: NDArray[np.int32], n: int
) -> int:
    """Write the sids of class q whose parameters lie in the closed box low[b:]..high[b:] to out[n:], equal regions
    together. Returns how many, or -1 if `out` is too small (what is written is then void)."""
    t = f.tree
    first, base, depth = t.head[q, SLOT], t.head[q, NODE], t.head[q, DEPTH]
    cap, value, bound, p = t.head[q, CAP], t.head[q, VALUE], t.head[q, BOUND], t.head[q, WIDTH]
    leaves = 1 << depth
    total = n
    block, lanes = 0, first_lanes(depth)
    while block >= 0 and total <= len(out):
        mask = crossing(t, bound + block * p, p, low, high, b) & lanes
        down = 0
        while mask and not down:
            node = block + low_bit(mask)
            mask &= mask - 1
            if node < leaves:
                down = node
            else:
                start = (node - leaves) * cap
                end = start + t.cnt[base + node]
                for s in range(start, end, LANES):
                    found = within(t, value + s * p, p, low, high, b) & (ALL >> max(s + LANES - end, 0))
                    while found:
                        sid = t.id[first + s + low_bit(found)]
                        found &= found - 1
                        while sid >= 0:
                            if total < len(out):
                                out[total] = sid
                            total += 1
                            sid = f.after[sid]
        block, lanes = next_block(block, down, depth)
    return total - n if total <= len(out) else -1


class SpaceSubscriptions:
    """The subscriptions of one board over d range attributes. Sids are small integers, unique over all classes.

    `arrays` is what kernels take; it is replaced when the index grows, so read it again after every call. `ks` and
    `shapes` describe the classes, `edits` counts the changes in place since the index was made.
    """

    def __init__(self, d: int, classes: tuple[tuple[int, str], ...] = ()) -> None:
        self.d = d
        self.ks = np.empty(0, np.int64)
        self.shapes: list[str] = []
        self.edits = 0
        empty = np.empty(0, np.int32)
        self.arrays = Regions(
            empty_points([], [], 0), np.empty(0, np.int64), np.empty(0, np.int64), empty, empty, empty
        )  # fmt: skip
        for k, shape in classes:
            self.add_class(k, shape)

    def __len__(self) -> int:
        return int(self.arrays.total.sum())

    @property
    def nbytes(self) -> int:
        return sum(a.nbytes for a in (*self.arrays.tree, *self.arrays[1:]))

    def class_count(self, q: int) -> int:
        """The number of subscriptions in class q, equal ones each."""
        return int(self.arrays.total[q])

    def class_of(self, k: int, shape: str) -> int:
        """The number of a class; KeyError if it was never opened."""
        for q in range(len(self.shapes)):
            if self.ks[q] == k and self.shapes[q] == shape:
                return q
        raise KeyError((k, shape))

    def add_class(self, k: int, shape: str = "box") -> int:
        """Open an empty class; returns its number q."""
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
        if sid.min() < 0 or _repeats(sid):
            raise ValueError("sids must be distinct and not negative")
        if (self.arrays.q[sid[sid < len(self.arrays.q)]] >= 0).any():
            raise ValueError("a sid is present already")
        self._reserve_sids(int(sid.max()) + 1)
        if 8 * len(sid) < self.class_count(q):
            self.edits += len(sid)
            self._reserve(q, len(sid))
            insert_many(self.arrays, q, sid, rows.ravel(), rows.shape[1])
        else:
            self._lay_out(q, sid, rows)

    def delete_many(self, q: int, sids: ArrayLike) -> None:
        """Remove subscriptions from class q, in place, O(log m) each. Raises KeyError for a sid not in class q."""
        sid = np.ascontiguousarray(sids, np.int32)
        if _repeats(sid):
            raise KeyError("a sid is named twice")
        for one in sid[~self._in_class(q, sid)]:
            raise KeyError(int(one))
        self.edits += len(sid)
        delete_many(self.arrays, q, sid)

    def discard(self, sids: NDArray[np.int32]) -> None:
        """Remove those of these subscriptions that are there."""
        for q in range(len(self.shapes)):
            self.delete_many(q, sids[self._in_class(q, sids)])

    def get(self, sid: int) -> tuple[int, NDArray[np.float64]]:
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

    def contents(self, q: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
        """Copies of the sids of class q, ascending, and their parameters (m, p), ends of boxes infinite where
        unbounded. O(m log m)."""
        sids, params = self._all(q)
        order = np.argsort(sids)
        return sids[order], self._outside(q, params[order])

    def report(self, q: int, tile: ArrayLike) -> NDArray[np.int32]:
        """The sids of class q that a tile with these sides reaches, equal regions together. O(answer + a search)."""
        side = np.array(tile, np.float64, ndmin=2)
        p = width(self.shapes[q], self.d)
        if side.shape[1] < sides(self.shapes[q], self.d):
            raise ValueError(f"a tile of a {self.shapes[q]} has {sides(self.shapes[q], self.d)} sides")
        low, high = np.empty(p), np.empty(p)
        if self.shapes[q] == "box":
            side[:, 1::4], side[:, 2::4] = np.maximum(side[:, 1::4], -MAX), np.minimum(side[:, 2::4], MAX)
        closed_box(SHAPES.index(self.shapes[q]), self.d, side, 0, low, high, 0)
        out = np.empty(64, np.int32)
        while True:
            n = report(self.arrays, q, low, high, 0, out, 0)
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
        return Regions(
            copied(f.tree), f.shape.copy(), f.total.copy(), f.q.copy(), f.after.copy(), f.before.copy()
        )  # fmt: skip

    @property
    def fullest(self) -> float:
        """The share of its room that the fullest of the large classes uses; past 1 it has to be laid out in larger
        arrays."""
        t = self.arrays.tree
        used = [(int(t.cnt[t.head[q, NODE] + 1]), room(t, q)) for q in range(len(self.shapes))]
        return max((n / most for n, most in used if n >= LARGE), default=0.0)

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

    def _in_class(self, q: int, sid: NDArray[np.int32]) -> NDArray[np.bool_]:
        known = (sid >= 0) & (sid < len(self.arrays.q))
        return np.asarray(known & (np.append(self.arrays.q, np.int32(-1))[np.where(known, sid, -1)] == q))

    def _slots(self, q: int, slots: NDArray[np.int64]) -> NDArray[np.float64]:
        t = self.arrays.tree
        local, p = slots - t.head[q, SLOT], int(t.head[q, WIDTH])
        begin = int(t.head[q, VALUE])
        values = t.v[begin : begin + (int(t.head[q, CAP]) << int(t.head[q, DEPTH])) * p].reshape(-1, p, LANES)
        return values[local // LANES, :, local % LANES].reshape(-1, p)

    def _outside(self, q: int, params: NDArray[np.float64]) -> NDArray[np.float64]:
        return (
            np.where(np.abs(params) == MAX, np.copysign(np.inf, params), params) if self.shapes[q] == "box" else params
        )

    def _all(self, q: int) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
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

            def grown(column: NDArray[np.int32]) -> NDArray[np.int32]:
                return np.concatenate([column, np.full(size - len(column), -1, np.int32)])

            self.arrays = f._replace(
                tree=f.tree._replace(pos=grown(f.tree.pos)),
                q=grown(f.q),
                after=grown(f.after),
                before=grown(f.before),
            )

    def _reserve(self, q: int, inserts: int) -> None:
        t = self.arrays.tree
        count = int(t.cnt[t.head[q, NODE] + 1])
        if count + inserts > room(t, q):
            self.arrays = self.arrays._replace(
                tree=resized(t, {q: max(count + inserts, count * 3 // 2)}, self._widths())
            )

    def _lay_out(self, q: int, sids: NDArray[np.int32], params: NDArray[np.float64]) -> None:
        """Lay class q out anew with these subscriptions added."""
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
    """The same arrays with no point in class q, to be laid out anew."""
    first, size = int(t.head[q, SLOT]), int(t.head[q, CAP]) << int(t.head[q, DEPTH])
    ids = t.id.copy()
    ids[first : first + size] = NOBODY
    return t._replace(id=ids)


def _hashes(params: NDArray[np.float64]) -> NDArray[np.int64]:
    """A hash of each row; equal rows have equal ones."""
    mixed = np.full(len(params), 0xCBF29CE484222325, np.uint64)
    for column in params.T.copy().view(np.uint64):
        mixed = (mixed ^ column) * np.uint64(0x9E3779B97F4A7C15)
        mixed ^= mixed >> np.uint64(29)
    return (mixed >> np.uint64(1)).astype(np.int64)


def _repeats(sid: NDArray[np.int32]) -> bool:
    ordered = np.sort(sid)
    return bool((ordered[1:] == ordered[:-1]).any())
