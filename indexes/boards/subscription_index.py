"""The subscriptions of a board by k-class: grows, fills and checks a `Forest`.

The structure, its invariants and its kernels are in `kernels/forest.py`. This module decides when a class is changed in
place, and when it is packed again, which takes new arrays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from indexes.boards.kernels.forest import (
    CAP,
    DEPTH,
    MAX,
    NODE,
    SLOT,
    Forest,
    count,
    delete,
    delete_many,
    exists,
    insert,
    insert_many,
    lay,
    limit,
    report,
    snap,
)
from indexes.compiled.simd import LANES
from indexes.core import aligned
from indexes.core.arrays import INF, Bools, Floats, Ints, Rows

__all__ = ["MAX", "Forest", "SubscriptionIndex", "count", "delete", "exists", "insert", "report", "snap"]

MEAN_LEAF = 24
"""A tree is as deep as keeps the mean number of points in a leaf at or below this."""

LARGE = 50_000
"""Points of a class from which on packing it takes noticeably long."""

BULK_FILL = 0.7
"""Share of the slots in use after packing a class, at most."""

LINE = aligned.LINE_BYTES // 8
"""Numbers in a line of memory. A leaf has whole lines, so that a search reads no line of its neighbours."""


def _repeats(sid: Rows) -> bool:
    ordered = np.sort(sid)
    return bool((ordered[1:] == ordered[:-1]).any())


class ClassIndex(ABC):
    """The subscriptions of one board by class, with one range attribute or several. Sids are small integers that the
    caller chooses, unique over all classes.

    `ks` are the list lengths of the classes; `edits` counts the changes in place since the index was made.
    """

    ks: Ints
    edits = 0

    def __len__(self) -> int:
        return sum(self.class_count(q) for q in range(len(self.ks)))

    @abstractmethod
    def class_count(self, q: int) -> int:
        """The number of subscriptions in class q."""

    @abstractmethod
    def _load(self, q: int) -> tuple[int, int]:
        """The number of points of class q, and how many it has room for."""

    @abstractmethod
    def _in_class(self, q: int, sid: Rows) -> Bools:
        """Which of these sids are in class q."""

    @abstractmethod
    def _delete(self, q: int, sid: Rows) -> None:
        """Remove sids that are in class q."""

    def delete_many(self, q: int, sids: ArrayLike) -> None:
        """Remove subscriptions from class q, in place, O(log m) each. Raises KeyError for a sid not in class q."""
        sid = np.ascontiguousarray(sids, np.int32)
        if _repeats(sid):
            raise KeyError("a sid is named twice")
        for one in sid[~self._in_class(q, sid)]:
            raise KeyError(int(one))
        self.edits += len(sid)
        self._delete(q, sid)

    def discard(self, sids: Rows) -> None:
        """Remove those of these subscriptions that are in the index."""
        for q in range(len(self.ks)):
            self.delete_many(q, sids[self._in_class(q, sids)])

    @property
    def fullest(self) -> float:
        """The share of its room that the fullest of the large classes uses; above 1 it has to be packed again."""
        loads = map(self._load, range(len(self.ks)))
        return max((n / room for n, room in loads if n >= LARGE), default=0.0)


def check_new(sid: Rows, present: Rows) -> None:
    """Raise ValueError unless all sids are new: `present` has a number of at least 0 for each that is there."""
    if sid.min() < 0 or _repeats(sid):
        raise ValueError("sids must be distinct and not negative")
    if (present[sid[sid < len(present)]] >= 0).any():
        raise ValueError("a sid is present already")


class SubscriptionIndex(ClassIndex):
    """The subscriptions of a board with one range attribute, by k-class.

    `arrays` is what kernels take; it is replaced when the index grows, so read it again after every call.
    """

    def __init__(self, ks: Sequence[int] = ()) -> None:
        self.arrays = empty_forest(0, 0, 0, 0)
        self.ks = np.empty(0, np.int64)
        for k in ks:
            self.add_class(k)

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.arrays)

    def class_count(self, q: int) -> int:
        return int(self.arrays.cnt[self.arrays.head[q, NODE] + 1])

    def add_class(self, k: int) -> int:
        """Add an empty class for subscriptions of `k`; returns its number q."""
        self.ks = np.append(self.ks, np.int64(k))
        self._lay_out({len(self.ks) - 1: 0})
        return len(self.ks) - 1

    def adopt(self, ks: ArrayLike, arrays: Forest) -> None:
        """Use these arrays, whose classes are those of `ks` in this order."""
        self.ks = np.array(ks, np.int64)
        self.arrays = arrays
        self.edits = 0

    def arrange(self, ks: Ints) -> None:
        """Number the classes in the order of `ks`, where 0 is an empty class. Missing classes are added; classes not in
        `ks` must be empty. O(1), or O(m) when a class is added."""
        if np.array_equal(ks, self.ks):
            return
        had = {int(k): q for q, k in enumerate(self.ks) if k}
        numbers = [had[k] if k in had else self.add_class(k) for k in ks.tolist()]
        self.ks = ks.copy()
        self.arrays = self.arrays._replace(head=self.arrays.head[numbers])

    def frozen(self) -> Forest:
        """A copy of the arrays, to be read only."""
        return Forest._make(column.copy() for column in self.arrays)

    def reserve(self, q: int, inserts: int, sids: int) -> None:
        """Make room for `inserts` insertions into class q by kernels, with sids below `sids`.

        Amortised O(log m) an insertion: a class that grows is packed again with room for at least half as many more.
        """
        if sids > len(self.arrays.pos):
            grown = np.full(max(sids, len(self.arrays.pos) * 3 // 2), -1, np.int32)
            grown[: len(self.arrays.pos)] = self.arrays.pos
            self.arrays = self.arrays._replace(pos=grown)
        count = self.class_count(q)
        if count + inserts > _room(self.arrays, q):
            self._lay_out({q: max(count + inserts, count * 3 // 2)})

    def insert_many(self, q: int, sids: ArrayLike, l: ArrayLike, r: ArrayLike) -> None:
        """Add subscriptions to class q; ends may be infinite. One by one, O(log m) each, or in bulk, O(m log m), when
        they are at least an eighth of what is there.

        Raises ValueError when lengths differ, a sid is negative or present, or l or r is NaN.
        """
        sid = np.ascontiguousarray(sids, np.int32)
        left, right = _ends(l), _ends(r)
        if not len(sid) == len(left) == len(right):
            raise ValueError(f"{len(sid)} sids, {len(left)} left ends and {len(right)} right ends")
        if len(sid) == 0:
            return
        check_new(sid, self.arrays.pos)
        count = self.class_count(q)
        if 8 * len(sid) < count:
            self.edits += len(sid)
            self.reserve(q, len(sid), int(sid.max()) + 1)
            insert_many(self.arrays, q, sid, left, right)
        else:
            self.reserve(q, 0, int(sid.max()) + 1)
            self._lay_out({q: count + len(sid)}, (sid, left, right))

    def get(self, sid: int) -> tuple[float, float]:
        """The ends (l, r) of a subscription, infinite where unbounded. Raises KeyError."""
        slot = int(self.arrays.pos[sid]) if 0 <= sid < len(self.arrays.pos) else -1
        if slot < 0:
            raise KeyError(sid)
        l, r = float(self.arrays.l[slot]), float(self.arrays.r[slot])
        return (-INF if l == -MAX else l), (INF if r == MAX else r)

    def holds(self, q: int, sid: Rows, l: Floats, r: Floats) -> Bools:
        """Which of these subscriptions are in class q with these ends, which are finite."""
        f, inside = self.arrays, self._in_class(q, sid)
        slot = f.pos[sid[inside]]
        inside[inside] = (f.l[slot] == l[inside]) & (f.r[slot] == r[inside])
        return inside

    def report(self, q: int, l_outer: float, l_inner: float, r_inner: float, r_outer: float) -> Rows:
        """The sids of class q that a tile reaches, in the index's order. O(sqrt m + answer)."""
        l_inner, r_inner = max(l_inner, -MAX), min(r_inner, MAX)
        size = count(self.arrays, q, l_outer, l_inner, r_inner, r_outer)
        out = np.empty(size, np.int32)
        report(self.arrays, q, l_outer, l_inner, r_inner, r_outer, out)
        return out

    def check(self) -> None:
        """Verify every invariant of the layout; AssertionError names the class and the node. O(m)."""
        f = self.arrays
        for q in range(len(self.ks)):
            _check_class(f, q)
        assert len(self) == int((f.pos >= 0).sum()) == int((f.sid >= 0).sum()), (len(self), int((f.pos >= 0).sum()))

    def _load(self, q: int) -> tuple[int, int]:
        return self.class_count(q), _room(self.arrays, q)

    def _delete(self, q: int, sid: Rows) -> None:
        delete_many(self.arrays, q, sid)

    def _in_class(self, q: int, sid: Rows) -> Bools:
        f = self.arrays
        known = (sid >= 0) & (sid < len(f.pos))
        slot = np.where(known, f.pos[np.where(known, sid, 0)] if len(f.pos) else -1, -1)
        first = f.head[q, SLOT]
        return (slot >= first) & (slot < first + (f.head[q, CAP] << f.head[q, DEPTH]))

    def _lay_out(self, sizes: dict[int, int], more: tuple[Rows, Floats, Floats] | None = None) -> None:
        """Move all classes to new arrays. Those in `sizes` are packed with such room; `more` joins one of them."""
        old = self.arrays
        classes = len(self.ks)
        head = np.zeros((classes, 4), np.int64)
        slots = nodes = 0
        for q in range(classes):
            if q in sizes:
                depth, cap = shape(sizes[q])
            else:
                depth, cap = int(old.head[q, DEPTH]), int(old.head[q, CAP])
            head[q] = slots, nodes, depth, cap
            slots += cap << depth
            nodes += 2 << depth
        f = empty_forest(slots, nodes, classes, 0)._replace(head=head, pos=old.pos)
        for q in range(classes):
            if q not in sizes:
                _copy_class(old, f, q)
                continue
            at = int(head[q, SLOT])
            if q < len(old.head):
                used = slice(old.head[q, SLOT], old.head[q, SLOT] + (old.head[q, CAP] << old.head[q, DEPTH]))
                there = used.start + np.flatnonzero(old.sid[used] >= 0)
                to = slice(at, at + len(there))
                f.sid[to], f.l[to], f.r[to] = old.sid[there], old.l[there], old.r[there]
                at += len(there)
            if more is not None:
                to = slice(at, at + len(more[0]))
                f.sid[to], f.l[to], f.r[to] = more
                at += len(more[0])
            lay(f, q, 1, at - int(head[q, SLOT]), 0, 0)
        self.arrays = f


def _ends(values: ArrayLike) -> Floats:
    ends = np.array(values, np.float64, ndmin=1)
    if np.isnan(ends).any():
        raise ValueError("an end of a range is NaN")
    return np.clip(ends, -MAX, MAX)


def shape(size: int) -> tuple[int, int]:
    """Depth and leaf capacity of a tree that is laid out for `size` points."""
    depth = 0
    while size > MEAN_LEAF << depth:
        depth += 1
    slots = int(np.ceil(size / (1 << depth) / BULK_FILL))
    return depth, max(LINE, -(-slots // LINE) * LINE)


def empty_forest(slots: int, nodes: int, classes: int, sids: int) -> Forest:
    """Arrays of that size without subscriptions; `head` is zero."""
    return Forest(
        aligned.zeros(slots + LANES),
        aligned.zeros(slots + LANES),
        np.full(slots, -1, np.int32),
        aligned.full(nodes + LANES, INF),
        aligned.full(nodes + LANES, -INF),
        aligned.full(nodes + LANES, INF),
        aligned.full(nodes + LANES, -INF),
        np.zeros(nodes, np.float64),
        np.zeros(nodes, np.uint8),
        aligned.zeros(nodes, np.int32),
        np.zeros((classes, 4), np.int64),
        np.full(sids, -1, np.int32),
    )


def _copy_class(old: Forest, new: Forest, q: int) -> None:
    depth, cap = int(old.head[q, DEPTH]), int(old.head[q, CAP])
    a, b = int(old.head[q, SLOT]), int(new.head[q, SLOT])
    for name in ("l", "r", "sid"):
        getattr(new, name)[b : b + (cap << depth)] = getattr(old, name)[a : a + (cap << depth)]
    used = b + np.flatnonzero(new.sid[b : b + (cap << depth)] >= 0)
    new.pos[new.sid[used]] = used
    a, b = int(old.head[q, NODE]), int(new.head[q, NODE])
    for name in ("west", "east", "south", "north", "cut", "axis", "cnt"):
        getattr(new, name)[b : b + (2 << depth)] = getattr(old, name)[a : a + (2 << depth)]


def _room(f: Forest, q: int) -> int:
    return int(limit(f.head[q, DEPTH], f.head[q, DEPTH], f.head[q, CAP]))


def _check_class(f: Forest, q: int) -> None:
    first, base, depth, cap = (int(v) for v in f.head[q])
    leaves = 1 << depth
    sides = (f.west, f.east, f.south, f.north)
    for node in range((2 << depth) - 1, 0, -1):
        if node >= leaves:
            start = first + (node - leaves) * cap
            n = int(f.cnt[base + node])
            assert 0 <= n <= cap, (q, node, n)
            assert (f.sid[start + n : start + cap] == -1).all(), (q, node)
            assert (f.pos[f.sid[start : start + n]] == np.arange(start, start + n)).all(), (q, node)
            l, r = f.l[start : start + n], f.r[start : start + n]
            want = [l.min(), l.max(), r.min(), r.max()] if n else [INF, -INF, INF, -INF]
        else:
            pair = np.column_stack([side[base + 2 * node : base + 2 * node + 2] for side in sides])
            assert f.cnt[base + node] == f.cnt[base + 2 * node] + f.cnt[base + 2 * node + 1], (q, node)
            want = [pair[:, 0].min(), pair[:, 1].max(), pair[:, 2].min(), pair[:, 3].max()]
            low = 2 * int(f.axis[base + node])
            assert pair[0, low + 1] <= f.cut[base + node] <= pair[1, low], (q, node, pair, f.cut[base + node])
        box = [side[base + node] for side in sides]
        assert box == want, (q, node, box, want)
