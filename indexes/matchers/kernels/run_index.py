"""Packed scored R-trees over one or more dimensions that change: what lays out, fills and merges the runs of `runs.py`.

A change is `remove`, then a new row of the table, then `add`. Deltas are merged as they fill: small ones at once, large
ones so too, unless the caller sees to it before (`crowded`, `relieved`). Folding everything into a
new base is a step of its own: `build` a second index from a copy of the table, in any thread, and bring it up to date
with the rows that changed meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from indexes.compiled.masks import BLOCK, SHIFT
from indexes.core import aligned
from indexes.core.arrays import INF, Floats, Ints32
from indexes.matchers.kernels.arrangement import score_optimal
from indexes.matchers.kernels.order import rank_order
from indexes.matchers.kernels.runs import (
    IN_TAIL,
    LEVELS,
    RANKED,
    Ranked,
    Runs,
    add_to_tail,
    empty_runs,
    fill_run,
    merge_ranked,
    put_run,
    remove_from_runs,
)

TAIL = 1024
"""Intervals in a tail."""

DELTAS = 0.4, 0.064, 0.008
LARGE_DELTA = DELTAS[0]
"""The deltas hold these shares of the base. Past the largest one, everything is rebuilt. The others, which are filled
more often, are in order of score: such runs are merged in one pass, in a thirtieth of the time of the arrangement, and
a query ends at the first block below its bound."""

GROWTH = 8
"""At least the deltas hold two, one, and a quarter times so many tails."""

AT_ONCE, RANKED_AT_ONCE = 1 << 13, 1 << 16
"""Intervals that are merged in two or three milliseconds; the latter where all are in order of score."""


class _Spare(threading.local):
    """Memory that a thread merges in."""

    def __init__(self) -> None:
        self._kept = [_ranked(0), _ranked(0)]

    def of(self, which: int, n: int) -> Ranked:
        """The one or the other, with room for so many."""
        if len(self._kept[which].row) < n:
            self._kept[which] = _ranked(n)
        return self._kept[which]


def _ranked(n: int) -> Ranked:
    return Ranked(np.empty(n), np.empty(n), np.empty(n), np.empty(n, np.int32))


class RunIndex:
    """One packed scored R-tree for each of d dimensions, over the rows of a table (see `table.py`), and their changes.

    In relaxed mode each dimension ranks by its own weight, in exact mode all by the score. `optimal` packs in the
    arrangement of the SOPT-R-tree, otherwise it is the scored R-tree. The table is the caller's and is given to every
    call; `arrays` is what kernels take and may be another one after a change.
    """

    def __init__(self, d: int, relaxed: bool, optimal: bool = True, held: Sequence[int] | None = None) -> None:
        self.d = d
        self.relaxed = relaxed
        self.held = list(range(d)) if held is None else list(held)
        self.optimal = optimal
        self._caps: list[int] = []
        self._bases = [0] * d
        self.arrays = _pool(self._bases, self._caps, 0, 0)

    @classmethod
    def build(
        cls, rec: Floats, rows: Ints32, d: int, relaxed: bool, optimal: bool = True, held: Sequence[int] | None = None
    ) -> RunIndex:
        """The index of these rows, in all dimensions or those that are to be `held`. O(d n log n)."""
        index = cls(d, relaxed, optimal, held)
        parts = [rows[:0] for _ in range(d)]
        for j in index.held:
            parts[j] = rows[rec[rows, 2 * j] <= rec[rows, 2 * j + 1]]
        index._lay_out(rec, parts, False)
        return index

    @classmethod
    def join(cls, parts: Sequence[RunIndex | None], relaxed: bool) -> RunIndex:
        """What `build` makes of several dimensions, out of what it made of each alone, over the same rows; None is a
        dimension that is not to be held. O(d n)."""
        held = [j for j, part in enumerate(parts) if part is not None]
        index = cls(len(parts), relaxed, all(part.optimal for part in parts if part is not None), held)
        index._bases = [0 if part is None else part._bases[0] for part in parts]
        index.arrays = ix = _pool(index._bases, [], 0, 0)
        for j, part in enumerate(parts):
            if part is not None:
                for level in range(LEVELS):
                    _move_level(part.arrays, 0, ix, j, level)
                ix.top[j], ix.live[j] = part.arrays.top[0], part.arrays.live[0]
        return index

    def scored(self, j: int) -> int:
        """The column of the table that ranks dimension j."""
        return 2 * self.d + (j if self.relaxed else 0)

    def __len__(self) -> int:
        """Intervals in all dimensions."""
        return int(self.arrays.live.sum() + self.arrays.tail_used.sum())

    @property
    def nbytes(self) -> int:
        """Bytes in use; room kept for changes counts only as far as it is filled."""
        ix = self.arrays
        leaves, inner = int(ix.used[:, 0].sum()), int(ix.used[:, 1:].sum())
        tails = int(ix.tail_used.sum())
        scores = leaves if self._caps else 0
        return 20 * leaves + 8 * scores + 24 * inner + 28 * tails + ix.place.nbytes

    @property
    def churn(self) -> float:
        """The share of what a query may meet that is holes or lies in deltas: what there is to gain by a new base."""
        ix = self.arrays
        base = ix.live.reshape(self.d, -1)[:, 0]
        slots = ix.used[:, 0].reshape(self.d, -1)
        live = len(self)
        return float((slots.sum() + ix.tail_used.sum() - base.sum()) / max(1, live))

    def rows_of(self, j: int) -> Ints32:
        """The rows that are in dimension j."""
        return np.concatenate(self._held(j, 0))

    def remove(self, rec: Floats, rows: Ints32) -> None:
        """Take rows out of every dimension, before the table changes. Absent rows are ignored."""
        self.make_room(rec)
        for j in self.held:
            remove_from_runs(self.arrays, rec, j, self.scored(j), rows)

    def add(self, rec: Floats, rows: Ints32) -> None:
        """Put in rows that are not there, in the dimensions in which they take part. Amortised O(log^2 n) each."""
        self.make_room(rec)
        for j in self.held:
            if len(rows) == 1:
                mine = rows if rec[rows[0], 2 * j] <= rec[rows[0], 2 * j + 1] else rows[:0]
            else:
                mine = rows[rec[rows, 2 * j] <= rec[rows, 2 * j + 1]]
                mine = mine[rank_order(rec[mine, self.scored(j)], mine)]
            at = 0
            while True:
                at = add_to_tail(self.arrays, rec, j, self.scored(j), mine, at)
                if at == len(mine):
                    break
                self._merge(rec, j)

    def crowded(self, more: int) -> bool:
        """Whether adding so many rows may begin a merge of more than `AT_ONCE`, or move as many to where there is room
        for changes. O(d)."""
        if not self._caps:
            return max(self._bases, default=0) > AT_ONCE
        crowded = False
        for j in self.held:
            crowded = crowded or (self._overflows(j, more) and self._long_merge(j) > 0)
        return crowded

    def relieved(self, rec: Floats, more: int) -> list[Callable[[], None]]:
        """The merges that adding so many rows may begin, each as the step that ends it, of O(n), when all else is done;
        before the first change, the room for changes, as a step of O(1). In any thread, while nothing changes before
        the steps and others read. O(d n log n)."""
        if not self._caps:
            return [partial(self._take, *self._opened(rec))]
        full = [j for j in self.held if self._overflows(j, more)]
        return [self._merged(rec, j, v) for j in full if (v := self._long_merge(j)) > 0]

    def _overflows(self, j: int, more: int) -> bool:
        """Whether so many rows do not fit behind those that are in the tail of dimension j."""
        used: int = self.arrays.tail_used.item(j)
        return used > 0 and used + more > TAIL

    def _long_merge(self, j: int) -> int:
        """The delta of dimension j that a full tail would be merged into, if that is a long merge; else 0."""
        runs = 1 + len(self._caps)
        have = TAIL
        for v in range(runs - 1, 0, -1):
            have += int(self.arrays.live[j * runs + v])
            if have <= self._caps[v - 1]:
                return v if have > (RANKED_AT_ONCE if self._is_ranked(v) else AT_ONCE) else 0
        return 0

    def _is_ranked(self, v: int) -> bool:
        """Whether run v of a dimension, and so what is newer, is in order of score."""
        return v >= RANKED or (v > 0 and not self.optimal)

    def _ranked(self, j: int, v: int) -> Ranked:
        """What the runs from v on of dimension j and its tail hold, in order of score. O(n); holds until the next time
        in this thread."""
        ix = self.arrays
        runs = 1 + len(self._caps)
        first = j * (ix.tail_row.size // self.d)
        tail = slice(first, first + ix.tail_used[j])
        merged = Ranked(ix.tail_lo, ix.tail_hi, ix.tail_score, ix.tail_row).part(tail)
        for which, run in enumerate(range((j + 1) * runs - 1, j * runs + v - 1, -1)):
            mine = slice(ix.first[run, 0], ix.first[run, 0] + ix.used[run, 0])
            older = Ranked(ix.lo, ix.hi, ix.score, ix.row).part(mine)
            out = _spare.of(which % 2, len(merged.row) + len(older.row))
            merged = out.part(slice(0, int(merge_ranked(older, merged, out))))
        return merged

    def _merged(self, rec: Floats, j: int, v: int) -> Callable[[], None]:
        runs = 1 + len(self._caps)
        if self._is_ranked(v):
            ranked = self._ranked(j, v).copied()

            def put() -> None:
                self._empty(j, v)
                put_run(self.arrays, rec, j, j * runs + v, self.scored(j), ranked)

            return put
        rows = np.concatenate(self._held(j, v))
        fresh = _pool([len(rows) if i == j else 0 for i in range(self.d)], [], 0, 0)
        fill_run(fresh, rec, j, j, self.scored(j), self._arranged(rec, j, rows))
        score = rec[fresh.row, self.scored(j)]

        def step() -> None:
            self._empty(j, v)
            _move_run(fresh, j, self.arrays, j, j * runs + v, score)

        return step

    def _held(self, j: int, begin: int) -> list[Ints32]:
        """The rows of the runs from `begin` on of dimension j, and of its tail."""
        ix = self.arrays
        runs = 1 + len(self._caps)
        tail = j * (ix.tail_row.size // self.d)
        parts = [ix.tail_row[tail : tail + ix.tail_used[j]]]
        for v in range(j * runs + begin, (j + 1) * runs):
            mine = slice(ix.first[v, 0], ix.first[v, 0] + ix.used[v, 0])
            parts.append(ix.row[mine][ix.lo[mine] <= ix.hi[mine]])
        return parts

    def _empty(self, j: int, begin: int) -> None:
        """Forget what the runs from `begin` on of dimension j and its tail hold."""
        ix = self.arrays
        runs = 1 + len(self._caps)
        mine = slice(j * runs + begin, (j + 1) * runs)
        ix.used[mine], ix.top[mine], ix.live[mine], ix.tail_used[j] = 0, 0, 0, 0

    def make_room(self, rec: Floats) -> None:
        """Make room for changes at the first one, and for all rows of the table."""
        if not self._caps:
            self._take(*self._opened(rec))
        ix = self.arrays
        if ix.place.shape[1] < len(rec):
            place = aligned.apart((self.d, len(rec)), np.int32)
            place[:, : ix.place.shape[1]] = ix.place
            self.arrays = ix._replace(place=place)

    def _opened(self, rec: Floats) -> tuple[list[int], Runs]:
        """What deltas hold at most, and the arrays with room for them. O(d n)."""
        most = max(self._bases, default=0)
        least = TAIL * GROWTH
        caps = [
            max(size, int(most * share)) for size, share in zip((2 * least, least, -(-least // 4)), DELTAS, strict=True)
        ]
        old, ix = self.arrays, _pool(self._bases, caps, TAIL, len(rec))
        for j in range(self.d):
            leaves = slice(old.first[j, 0], old.first[j, 0] + old.used[j, 0])
            _move_run(old, j, ix, j, j * (1 + len(caps)), rec[old.row[leaves], self.scored(j)])
        return caps, ix

    def _take(self, caps: list[int], arrays: Runs) -> None:
        self._caps, self.arrays = caps, arrays

    def _merge(self, rec: Floats, j: int) -> None:
        """Empty the tail of dimension j into the smallest delta that takes it and all that is newer than that one."""
        ix = self.arrays
        runs = 1 + len(self._caps)
        have = int(ix.tail_used[j])
        for v in range(runs - 1, 0, -1):
            have += int(ix.live[j * runs + v])
            if have <= self._caps[v - 1] and self._is_ranked(v):
                ranked = self._ranked(j, v)
                self._empty(j, v)
                put_run(ix, rec, j, j * runs + v, self.scored(j), ranked)
                return
            if have <= self._caps[v - 1]:
                rows = np.empty(have, np.int32)
                empty_runs(ix, j, v, rows)
                self._fill(rec, j, j * runs + v, rows)
                return
        parts = []
        for i in range(self.d):
            rows = np.empty(int(ix.live[i * runs : (i + 1) * runs].sum() + ix.tail_used[i]), np.int32)
            empty_runs(ix, i, 0, rows)
            parts.append(rows)
        self._lay_out(rec, parts, True)

    def _lay_out(self, rec: Floats, parts: Sequence[Ints32], changing: bool) -> None:
        """A new base in every dimension, of these rows."""
        self._bases = [len(rows) for rows in parts]
        self._caps = []
        self.arrays = _pool(self._bases, [], 0, 0)
        for j, rows in enumerate(parts):
            self._fill(rec, j, j, rows)
        if changing:
            self.make_room(rec)

    def _fill(self, rec: Floats, j: int, v: int, rows: Ints32) -> None:
        fill_run(self.arrays, rec, j, v, self.scored(j), self._arranged(rec, j, rows))

    def _arranged(self, rec: Floats, j: int, rows: Ints32) -> Ints32:
        """These rows in the order of the leaves of the base or of the largest delta of dimension j."""
        ranked = rows[rank_order(rec[rows, self.scored(j)], rows)]
        if self.optimal:
            ranked = ranked[score_optimal(rec[ranked, 2 * j], rec[ranked, 2 * j + 1])]
        return ranked

    def check(self, rec: Floats, rows: Ints32) -> None:
        """Raise AssertionError unless exactly these rows are there, with right extents, bounds and places. O(d n)."""
        ix = self.arrays
        runs = 1 + len(self._caps)
        leaves = ix.row.size
        for j in self.held:
            held = []
            for v in range(j * runs, (j + 1) * runs):
                mine = slice(ix.first[v, 0], ix.first[v, 0] + ix.used[v, 0])
                there = ix.lo[mine] <= ix.hi[mine]
                assert there.sum() == ix.live[v], (v, ix.live[v])
                found = ix.row[mine][there]
                assert (rec[found, 2 * j] == ix.lo[mine][there]).all()
                assert (rec[found, 2 * j + 1] == ix.hi[mine][there]).all()
                assert not self._caps or (rec[found, self.scored(j)] == ix.score[mine][there]).all()
                if ix.place.shape[1]:
                    assert (ix.place[j, found] == np.arange(mine.start, mine.stop)[there] + 1).all()
                held.append(found)
                keys = [(-rec[row, self.scored(j)], row) for row in found] if self._is_ranked(v - j * runs) else []
                assert keys == sorted(keys), v
                for level in range(1, int(ix.top[v]) + 1):
                    below, above = int(ix.first[v, level - 1]), int(ix.first[v, level])
                    n = int(ix.used[v, level - 1])
                    assert ix.used[v, level] == -(-n // BLOCK)
                    cuts = np.arange(below, below + n, BLOCK)
                    size = int(ix.used[v, level])
                    least = np.minimum.reduceat(ix.lo[below : below + n], cuts - below)
                    most = np.maximum.reduceat(ix.hi[below : below + n], cuts - below)
                    assert (ix.lo[above : above + size] == least).all(), (v, level)
                    assert (ix.hi[above : above + size] == most).all(), (v, level)
                    if level == 1:
                        bounds = np.where(there, rec[ix.row[mine], self.scored(j)], -INF)
                    else:
                        bounds = ix.best[below - leaves : below - leaves + n]
                    best = np.maximum.reduceat(bounds, cuts - below)
                    assert (ix.best[above - leaves : above - leaves + size] >= best).all(), (v, level)
            tail = j * (ix.tail_row.size // self.d)
            newest = ix.tail_row[tail : tail + ix.tail_used[j]]
            keys = [(-rec[row, self.scored(j)], row) for row in newest]
            assert keys == sorted(keys), keys
            if len(newest):
                assert (ix.place[j, newest] == IN_TAIL).all()
            held.append(newest)
            wanted = rows[rec[rows, 2 * j] <= rec[rows, 2 * j + 1]]
            assert np.array_equal(np.sort(np.concatenate(held)), np.sort(wanted)), j


_spare = _Spare()


def _pool(bases: Sequence[int], caps: Sequence[int], tail: int, rows: int) -> Runs:
    """Arrays for one base and a delta of each of the `caps` in every dimension."""
    d = len(bases)
    sizes = [size for base in bases for size in (base, *caps)]
    first = np.zeros((len(sizes), LEVELS), np.int64)
    runs = 1 + len(caps)
    at = 0
    for v in sorted(range(len(sizes)), key=lambda v: (v % runs > 0, v)):
        first[v, 0] = at
        at += sizes[v]
    leaves = at
    for v, size in enumerate(sizes):
        level = 0
        while size > BLOCK:
            size = (size + BLOCK - 1) >> SHIFT
            level += 1
            first[v, level] = at
            at += size
    room = tail + BLOCK
    lo, hi = aligned.apart(at + BLOCK), aligned.apart(at + BLOCK)
    # What lies behind the last slot is compared with a block, and written to images.
    lo[at:], hi[at:] = INF, -INF
    return Runs(
        lo=lo,
        hi=hi,
        row=aligned.apart(leaves, np.int32),
        score=aligned.apart(leaves if caps else 0),
        best=aligned.empty(at - leaves),
        first=first,
        used=np.zeros_like(first),
        top=np.zeros(len(sizes), np.int64),
        live=np.zeros(len(sizes), np.int64),
        place=aligned.apart((d, rows), np.int32),
        tail_lo=aligned.full(d * room + BLOCK, INF),
        tail_hi=aligned.full(d * room + BLOCK, -INF),
        tail_score=aligned.full(d * room, -INF),
        tail_row=np.full(d * room, -1, np.int32),
        tail_used=np.zeros(d, np.int64),
    )


def _move_run(old: Runs, v: int, ix: Runs, j: int, w: int, score: Floats) -> None:
    """Take run v of another pool over as run w, which belongs to dimension j; `score` are those of its leaves."""
    for level in range(LEVELS):
        _move_level(old, v, ix, w, level)
    ix.top[w], ix.live[w] = old.top[v], old.live[v]
    leaves = slice(ix.first[w, 0], ix.first[w, 0] + ix.used[w, 0])
    ix.place[j, ix.row[leaves]] = np.arange(leaves.start + 1, leaves.stop + 1)
    ix.score[leaves] = score


def _move_level(old: Runs, v: int, new: Runs, w: int, level: int) -> None:
    n = int(old.used[v, level])
    a, b = int(old.first[v, level]), int(new.first[w, level])
    new.used[w, level] = n
    new.lo[b : b + n], new.hi[b : b + n] = old.lo[a : a + n], old.hi[a : a + n]
    if level == 0:
        new.row[b : b + n] = old.row[a : a + n]
    else:
        a, b = a - old.row.size, b - new.row.size
        new.best[b : b + n] = old.best[a : a + n]
