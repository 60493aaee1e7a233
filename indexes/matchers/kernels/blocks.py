"""Boxes in blocks: the layout that answers events of several dimensions, exact and relaxed, and how it changes.

Layout. Boxes are in order of the highest score that they can have (relaxed: all dimensions match), cut into *chunks* of
64, 64, 128, ... up to 4,096. Within a chunk they are sorted by place, as in an STR R-tree, and every 16 make a
*block*. Columns are by dimension: slot s of dimension j is number j * slots + s, block g owns slots 16 g to 16 g + 15.
Of a block are known its extent and the highest weights (exact: score) in it; of a chunk, the highest score that is
possible. An event goes through chunks until the k-th best beats what a chunk can have, compares 64 extents at once, and
the 16 boxes of each block that is left at once. The first chunks are short because most events end there.

    part 0       the base
    part 1, ...  deltas, smaller ones later, laid out as the base is
    tail         the newest boxes, blocks without extents

Changes are those of `runs.py`: the tail takes what is new, a full one is merged with deltas into a larger one, and a
box that goes leaves a hole, with the extent of its block made exact again.

[Ranked matching] 6 asks for "scored multi-dimensional indices"; this is one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from indexes.compiled.jit import inlined, internal, kernel
from indexes.compiled.masks import BLOCK, first_lane, first_lanes, overlapping, without_first
from indexes.compiled.simd import LANES, lanes_from, lanes_max, lanes_upto, low_bit
from indexes.core import aligned
from indexes.core.arrays import INF, Bytes, Floats, Ints, Ints32, int64
from indexes.matchers.kernels.answers import ENTRIES, HOLES, LEAVES, Answers, keep
from indexes.matchers.kernels.combine import MAX, PRODUCT, SUM, highest
from indexes.matchers.kernels.order import ascending, rank_order
from indexes.matchers.kernels.table import GONE
from indexes.matchers.kernels.weights import bound_lanes, multiply_lanes, raise_lanes, sum_lanes

ALL = (1 << LANES) - 1

SMALLEST, LARGEST = 64, 4096
"""Boxes in the first chunk and in a late one."""

TAIL, GROWTH = 1024, 8
SMALL_DELTA, LARGE_DELTA = 0.016, 0.4
"""Boxes in the tail, and what the deltas hold, as in `run_index.py`."""

FIRST_GROUPS, GROUPS = 4, 256
"""Groups of 64 blocks of which a relaxed query finds the bounds at first, and those of which it keeps them at most."""

SWEEPS = 4
"""Steps from the best bound down, in which blocks are opened."""

AT_ONCE = 1 << 14
"""Boxes that are merged in some milliseconds."""

SLOT, USED, CHUNK, CHUNKS = range(4)
"""Columns of `parts`: the first slot, slots used, the first chunk, chunks used."""


class Blocks(NamedTuple):
    """The arrays; see the module's docstring. `weight` has d columns in relaxed mode, one in exact mode. `low`, `high`
    and `most` are of blocks; `begin`, `end` (blocks) and `bound` of chunks. `place[row]` is a slot or GONE. The last of
    `parts` is the tail."""

    lo: Floats
    hi: Floats
    weight: Floats
    row: Ints32
    low: Floats
    high: Floats
    most: Floats
    begin: Ints
    end: Ints
    bound: Floats
    parts: Ints
    place: Ints32


class Scratch(NamedTuple):
    """What a query keeps: sums of 64 blocks and of 16 boxes, the scores of the answer so far, and bounds of blocks."""

    total: Floats
    box: Floats
    top: Floats
    score: Floats
    bound: Floats


def new_scratch(k: int) -> Scratch:
    return Scratch(np.zeros(BLOCK), np.zeros(LANES), np.zeros(BLOCK), np.empty(k), np.zeros(GROUPS * BLOCK))


@kernel
def top_exact(index: Blocks, dimensions: int, events: Floats, way: Bytes, scratch: Scratch, answers: Answers) -> None:
    """The k best boxes that contain each event in every dimension.

    Event t is d pairs a, b in events[t]; those with way[t] > 0 are skipped.
    """
    out, total, count, seen = answers.rows, answers.scores, answers.found, answers.seen
    k = out.shape[1]
    slots = index.row.size
    blocks = slots // LANES
    scores = scratch.score
    for t in range(events.shape[0]):
        n = 0
        kth = -INF
        entries = 0
        opened = 0
        holes = 0
        for p in range(0 if way[t] else index.parts.shape[0]):
            chunk = index.parts[p, CHUNK]
            last = chunk + index.parts[p, CHUNKS]
            while chunk < last and index.bound[chunk] >= kth:
                for group in range(index.begin[chunk], index.end[chunk], BLOCK):
                    mask = first_lanes(index.end[chunk] - group)
                    j = 0
                    while mask != 0 and j < dimensions:
                        a, b = events[t, 2 * j], events[t, 2 * j + 1]
                        mask &= overlapping(index.low, index.high, j * blocks + group, a, b)
                        j += 1
                    while mask != 0:
                        g = group + first_lane(mask)
                        mask = without_first(mask)
                        if index.most[g] >= kth:
                            at = g * LANES
                            hits = ALL
                            j = 0
                            while hits != 0 and j < dimensions:
                                s = j * slots + at
                                hits &= lanes_upto(index.lo, s, events[t, 2 * j + 1])
                                hits &= lanes_from(index.hi, s, events[t, 2 * j])
                                j += 1
                            entries += LANES
                            opened += 1
                            holes += hits == 0
                            while hits != 0:
                                s = at + low_bit(hits)
                                hits &= hits - 1
                                score = index.weight[s]
                                row = index.row[s]
                                if n < k or score > kth or (score == kth and row < out[t, k - 1]):
                                    n = keep(out, t, scores, n, k, score, row)
                                    if n == k:
                                        kth = scores[k - 1]
                chunk += 1
        for i in range(n):
            total[t, i] = scores[i]
        count[t] = count[t] if way[t] else n
        seen[t, ENTRIES] += entries
        seen[t, LEAVES] += opened
        seen[t, HOLES] += holes


@inlined  # one call for blocks and one for boxes: bundled, their columns would be copied
def _weigh(
    how: int,
    bounding: bool,
    lo: Floats,
    hi: Floats,
    weight: Floats,
    stride: int,
    at: int,
    n: int,
    dimensions: int,
    events: Floats,
    event: int,
    total: Floats,
    top: Floats,
) -> None:
    """total[i] = the combined weights of the dimensions in which the event meets slot at + i, i < n; -1 for none.

    `bounding`: the highest score that a box below slot at + i can have. `top` is for the largest weight.
    """
    if how == SUM:
        for i in range(0, n, LANES):
            sum_lanes(lo, hi, weight, stride, at + i, events, event, dimensions, total, i)
    else:
        for i in range(n):
            total[i] = 1.0
            top[i] = -1.0
        for j in range(dimensions):
            a, b = events[event, 2 * j], events[event, 2 * j + 1]
            for i in range(0, n, LANES):
                s = j * stride + at + i
                if how == MAX:
                    raise_lanes(lo, hi, weight, s, a, b, total, top, i)
                elif bounding:
                    bound_lanes(lo, hi, weight, s, a, b, total, top, i)
                else:
                    multiply_lanes(lo, hi, weight, s, a, b, total, top, i)
        if how == MAX or bounding:
            for i in range(n):
                total[i] = total[i] if how == PRODUCT and top[i] >= 1.0 else top[i]
        else:
            for i in range(n):
                total[i] = total[i] if top[i] >= 0.0 else -1.0


@kernel
def top_relaxed(
    index: Blocks, dimensions: int, how: int, events: Floats, way: Bytes, scratch: Scratch, answers: Answers
) -> None:
    """The k boxes of the highest combined weights over the dimensions in which each event meets them, at least one.
    `how` is SUM, MAX or PRODUCT; events with way[t] > 0 are skipped.

    Bounds of blocks are found for ever more chunks, and a block is opened once its bound is no lower than that of the
    chunks that are left: mostly one that the event may meet in all dimensions. So the k-th score is high when it comes
    to the others.
    """
    out, total, count, seen = answers.rows, answers.scores, answers.found, answers.seen
    k = out.shape[1]
    slots = index.row.size
    blocks = slots // LANES
    scores = scratch.score
    sums = scratch.total
    boxes = scratch.box
    bounds = scratch.bound
    for t in range(events.shape[0]):
        n = 0
        kth = 0.0
        entries = 0
        opened = 0
        holes = 0
        for p in range(0 if way[t] else index.parts.shape[0]):
            chunk = index.parts[p, CHUNK]
            last = chunk + index.parts[p, CHUNKS]
            first = index.begin[chunk]
            end = index.end[last - 1] if chunk < last else first
            known = 0
            done = False
            while not done:
                if chunk < last and index.bound[chunk] >= kth:
                    room = (FIRST_GROUPS + known // (4 * BLOCK)) * BLOCK
                    upto = min(end - first, known + room, bounds.size)
                    while known < upto:
                        _weigh(
                            how,
                            True,
                            index.low,
                            index.high,
                            index.most,
                            blocks,
                            first + known,
                            BLOCK,
                            dimensions,
                            events,
                            t,
                            sums,
                            scratch.top,
                        )
                        for i in range(BLOCK):
                            bounds[known + i] = sums[i] if known + i < upto else -1.0
                        known += BLOCK
                    while chunk < last and index.end[chunk] <= first + upto:
                        chunk += 1
                rest = index.bound[chunk] if chunk < last else -1.0
                settled = rest < kth or known == bounds.size
                rest = kth if settled else rest
                best = rest
                for at in range(0, known, LANES):
                    best = max(best, lanes_max(bounds, at, ALL))
                best = best if best < INF else rest
                # From the best bounds on, so that the others may be below the k-th score when it is their turn.
                sweep = SWEEPS if best > rest else 1
                while sweep > 0:
                    sweep -= 1
                    least = max(kth, rest + (best - rest) * sweep / SWEEPS)
                    for at in range(0, known, LANES):
                        mask = lanes_from(bounds, at, max(kth, least))
                        while mask != 0:
                            lane = low_bit(mask)
                            mask &= mask - 1
                            bounds[at + lane] = -1.0
                            slot = (first + at + lane) * LANES
                            _weigh(
                                how,
                                False,
                                index.lo,
                                index.hi,
                                index.weight,
                                slots,
                                slot,
                                LANES,
                                dimensions,
                                events,
                                t,
                                boxes,
                                scratch.top,
                            )
                            hits = lanes_from(boxes, 0, kth)
                            entries += LANES
                            opened += 1
                            holes += hits == 0
                            raised = kth
                            while hits != 0:
                                i = low_bit(hits)
                                hits &= hits - 1
                                row = index.row[slot + i]
                                score = boxes[i]
                                if n < k or score > kth or (score == kth and row < out[t, k - 1]):
                                    n = keep(out, t, scores, n, k, score, row)
                                    if n == k:
                                        kth = scores[k - 1]
                            if kth > raised:
                                mask &= lanes_from(bounds, at, kth)
                    sweep = sweep if least > kth else 0
                if settled:
                    first += known
                    known = 0
                done = settled and not (chunk < last and index.bound[chunk] >= kth)
        for i in range(n):
            total[t, i] = scores[i]
        count[t] = count[t] if way[t] else n
        seen[t, ENTRIES] += entries
        seen[t, LEAVES] += opened
        seen[t, HOLES] += holes


# Changing boxes.


@kernel
def remove_boxes(index: Blocks, dimensions: int, rows: Ints32) -> int:
    """Make holes of rows; absent ones are ignored. Returns how many were there. O(d) each."""
    removed = 0
    slots = index.row.size
    tail = index.parts.shape[0] - 1
    for i in range(rows.size):
        slot = int64(index.place[rows[i]])
        index.place[rows[i]] = GONE
        if slot >= 0:
            removed += 1
            if slot >= index.parts[tail, SLOT]:
                index.parts[tail, USED] -= 1
                last = index.parts[tail, SLOT] + index.parts[tail, USED]
                if last != slot:
                    _copy_box(index, dimensions, last, slot)
                    _bound_block(index, dimensions, slot // LANES)
                slot = last
            for j in range(dimensions):
                index.lo[j * slots + slot] = INF
                index.hi[j * slots + slot] = -INF
            _bound_block(index, dimensions, slot // LANES)
            if slot >= index.parts[tail, SLOT]:
                _bound_tail(index)
    return removed


@internal
def _copy_box(index: Blocks, dimensions: int, slot: int, to: int) -> None:
    slots = index.row.size
    for j in range(dimensions):
        index.lo[j * slots + to], index.hi[j * slots + to] = index.lo[j * slots + slot], index.hi[j * slots + slot]
    for j in range(index.weight.size // slots):
        index.weight[j * slots + to] = index.weight[j * slots + slot]
    index.row[to] = index.row[slot]
    index.place[index.row[to]] = to


@internal
def _bound_block(index: Blocks, dimensions: int, block: int) -> None:
    """Set the extent and the highest weights of a block."""
    slots = index.row.size
    blocks = slots // LANES
    for j in range(dimensions):
        lo, hi = INF, -INF
        most = 0.0
        for s in range(j * slots + block * LANES, j * slots + (block + 1) * LANES):
            lo = min(lo, index.lo[s])
            hi = max(hi, index.hi[s])
        index.low[j * blocks + block], index.high[j * blocks + block] = lo, hi
    for j in range(index.weight.size // slots):
        most = -INF
        for s in range(j * slots + block * LANES, j * slots + (block + 1) * LANES):
            if index.lo[s % slots] <= index.hi[s % slots] or index.weight.size > slots:
                most = max(most, index.weight[s])
        index.most[j * blocks + block] = most


@internal
def _bound_tail(index: Blocks) -> None:
    """The tail is one chunk, of which everything may be expected."""
    tail = index.parts.shape[0] - 1
    chunk = index.parts[tail, CHUNK]
    index.parts[tail, CHUNKS] = index.parts[tail, USED] > 0
    index.begin[chunk] = index.parts[tail, SLOT] // LANES
    index.end[chunk] = (index.parts[tail, SLOT] + index.parts[tail, USED] + LANES - 1) // LANES
    index.bound[chunk] = INF


@kernel
def add_boxes(index: Blocks, table: Floats, dimensions: int, rows: Ints32, begin: int, room: int) -> int:
    """Put rows[begin:] into the tail, as `table` has them, until it holds `room`. Returns the first that did not go in,
    or how many there are. O(d) each."""
    slots = index.row.size
    tail = index.parts.shape[0] - 1
    i = begin
    while i < rows.size and index.parts[tail, USED] < room:
        row = rows[i]
        slot = index.parts[tail, SLOT] + index.parts[tail, USED]
        for j in range(dimensions):
            index.lo[j * slots + slot] = table[row, 2 * j]
            index.hi[j * slots + slot] = table[row, 2 * j + 1]
        for j in range(index.weight.size // slots):
            index.weight[j * slots + slot] = table[row, 2 * dimensions + j]
        index.row[slot] = row
        index.place[row] = slot
        index.parts[tail, USED] += 1
        _bound_block(index, dimensions, slot // LANES)
        i += 1
    _bound_tail(index)
    return i


class BlockIndex:
    """The boxes of a table (see `table.py`) in blocks, and their changes.

    The table is the caller's and is given to every call; `arrays` is what kernels take and may be another one after a
    change. `how` combines the weights; None is exact mode.
    """

    def __init__(self, d: int, how: int | None) -> None:
        self.d = d
        self.how = how
        self._caps: list[int] = []
        self.arrays = self._empty(0, [], 0, 0)

    @classmethod
    def build(cls, rec: Floats, rows: Ints32, d: int, how: int | None) -> BlockIndex:
        """The index of these rows. O(d n log n)."""
        index = cls(d, how)
        index._lay_out(rec, rows, False)
        return index

    def __len__(self) -> int:
        return int((self.arrays.place >= 0).sum())

    @property
    def nbytes(self) -> int:
        """Bytes in use; room kept for changes counts only as far as it is filled."""
        ix = self.arrays
        columns = 2 * self.d + (1 if self.how is None else self.d)
        used = int(ix.parts[:, USED].sum())
        return used * (8 * columns + 4) + used // LANES * 8 * columns + ix.place.nbytes

    @property
    def churn(self) -> float:
        """The share of what a query may meet that is holes or lies in deltas."""
        ix = self.arrays
        live = len(self)
        base = int((ix.place[ix.place >= 0] < ix.parts[0, USED]).sum())
        return float((ix.parts[:, USED].sum() - base) / max(1, live))

    def remove(self, rec: Floats, rows: Ints32) -> None:
        """Take rows out, before the table changes. Absent rows are ignored."""
        self._open(rec)
        remove_boxes(self.arrays, self.d, rows)

    def add(self, rec: Floats, rows: Ints32) -> None:
        """Put in rows that are not there. Amortised O(log^2 n) each."""
        self._open(rec)
        at = 0
        while True:
            at = add_boxes(self.arrays, rec, self.d, rows, at, TAIL)
            if at == len(rows):
                break
            self._merge(rec)

    def crowded(self, more: int) -> bool:
        """Whether adding so many rows may begin a merge of more than `AT_ONCE`. O(1), or where the tail is nearly full
        O(what the smaller delta holds)."""
        return self._long_merge(more) > 0

    def relieved(self, rec: Floats, more: int) -> list[Callable[[], None]]:
        """The merge that adding so many rows may begin, as the step that ends it, of O(d n), when all else is done. In
        any thread, while nothing changes before the step and others read. O(d n log n)."""
        p = self._long_merge(more)
        rows = self.rows_of(p)
        if not 0 < len(rows) <= (self._caps[p - 1] if p else 0):
            return []
        fresh = BlockIndex.build(rec, rows, self.d, self.how).arrays

        def step() -> None:
            self._clear(p)
            self._move_part(fresh, p)

        return [step]

    def _long_merge(self, more: int) -> int:
        """The delta that the tail would be merged into before so many rows are in, if that may be a long merge; 0 if
        not, or if there is no merge. It may turn out to be too small."""
        tail = int(self.arrays.parts[-1, USED])
        if not self._caps or not tail or tail + more <= TAIL:
            return 0
        p = len(self._caps)
        if int(self.arrays.parts[p, USED]) + TAIL > self._caps[-1] and len(self.rows_of(p)) + more > self._caps[-1]:
            p -= 1
        return p if int(self.arrays.parts[p:, USED].sum()) > AT_ONCE else 0

    def _clear(self, begin: int) -> None:
        """Forget what the parts from `begin` on hold."""
        self.arrays.parts[begin:, USED] = 0
        self.arrays.parts[begin:, CHUNKS] = 0
        self._clear_tail()

    def _move_part(self, old: Blocks, p: int) -> None:
        """Take the base of other arrays over as part p."""
        ix, n, chunks = self.arrays, int(old.parts[0, USED]), int(old.parts[0, CHUNKS])
        slot, chunk = int(ix.parts[p, SLOT]), int(ix.parts[p, CHUNK])
        weights = 1 if self.how is None else self.d
        for column, before, columns, lanes in (
            (ix.lo, old.lo, self.d, 1),
            (ix.hi, old.hi, self.d, 1),
            (ix.weight, old.weight, weights, 1),
            (ix.low, old.low, self.d, LANES),
            (ix.high, old.high, self.d, LANES),
            (ix.most, old.most, weights, LANES),
        ):
            was, now, first, used = old.row.size // lanes, ix.row.size // lanes, slot // lanes, n // lanes
            for j in range(columns):
                column[j * now + first : j * now + first + used] = before[j * was : j * was + used]
        ix.row[slot : slot + n] = old.row[:n]
        rows = old.row[: np.count_nonzero(old.row[:n] >= 0)]
        ix.place[rows] = np.arange(slot, slot + len(rows), dtype=np.int32)
        ix.begin[chunk : chunk + chunks] = old.begin[:chunks] + slot // LANES
        ix.end[chunk : chunk + chunks] = old.end[:chunks] + slot // LANES
        ix.bound[chunk : chunk + chunks] = old.bound[:chunks]
        ix.parts[p, USED], ix.parts[p, CHUNKS] = n, chunks

    def _empty(self, base: int, caps: Sequence[int], tail: int, rows: int) -> Blocks:
        sizes = [_whole(size) for size in (base, *caps)]
        parts = np.zeros((len(sizes) + 1, 4), np.int64)
        slot = chunk = 0
        for p, size in enumerate(sizes):
            parts[p, SLOT], parts[p, CHUNK] = slot, chunk
            slot += size
            chunk += len(_chunks(size))
        parts[-1, SLOT], parts[-1, CHUNK] = slot, chunk
        slots = slot + _whole(tail)
        blocks = slots // LANES
        weights = 1 if self.how is None else self.d
        d = self.d
        ix = Blocks(
            lo=aligned.empty(d * slots + LANES),
            hi=aligned.empty(d * slots + LANES),
            weight=aligned.empty(weights * slots),
            row=aligned.empty(slots, np.int32),
            low=aligned.empty(d * blocks + BLOCK),
            high=aligned.empty(d * blocks + BLOCK),
            most=aligned.empty(weights * blocks + BLOCK),
            begin=np.zeros(chunk + 1, np.int64),
            end=np.zeros(chunk + 1, np.int64),
            bound=np.full(chunk + 1, -INF),
            parts=parts,
            place=np.full(rows, GONE, np.int32),
        )
        for j in range(d):
            ix.lo[j * slots + slot : (j + 1) * slots] = INF
            ix.hi[j * slots + slot : (j + 1) * slots] = -INF
        # What lies behind the last block is compared with others, and written to images.
        ix.lo[d * slots :], ix.low[d * blocks :] = INF, INF
        ix.hi[d * slots :], ix.high[d * blocks :], ix.most[weights * blocks :] = -INF, -INF, -INF
        for j in range(weights):
            ix.weight[j * slots + slot : (j + 1) * slots] = 0.0
        return ix

    def _open(self, rec: Floats) -> None:
        """Make room for changes at the first one, and for all rows of the table."""
        if not self._caps:
            old = self.arrays
            base = int(old.parts[0, USED])
            small = max(TAIL * GROWTH, int(base * SMALL_DELTA))
            self._caps = [max(2 * small, int(base * LARGE_DELTA)), small]
            ix = self._empty(base, self._caps, TAIL, len(rec))
            self.arrays = ix
            self._move_part(old, 0)
        if len(self.arrays.place) < len(rec):
            place = np.full(len(rec), GONE, np.int32)
            place[: len(self.arrays.place)] = self.arrays.place
            self.arrays = self.arrays._replace(place=place)

    def rows_of(self, begin: int = 0) -> Ints32:
        """The rows of the parts from `begin` on, the tail included."""
        ix = self.arrays
        found = []
        for p in range(begin, len(ix.parts)):
            rows = ix.row[ix.parts[p, SLOT] : ix.parts[p, SLOT] + ix.parts[p, USED]]
            slots = np.arange(ix.parts[p, SLOT], ix.parts[p, SLOT] + ix.parts[p, USED])
            found.append(rows[(rows >= 0) & (ix.place[rows] == slots)])
        return np.concatenate(found)

    def _merge(self, rec: Floats) -> None:
        """Empty the tail into the smallest delta that takes it and all that is newer than that one."""
        for p in range(len(self._caps), 0, -1):
            rows = self.rows_of(p)
            if len(rows) <= self._caps[p - 1]:
                self._clear(p)
                self._fill(rec, p, rows)
                return
        self._lay_out(rec, self.rows_of(), True)

    def _clear_tail(self) -> None:
        """Make holes of all boxes of the tail: a block is compared whole, however many of its slots are used."""
        ix, first = self.arrays, int(self.arrays.parts[-1, SLOT])
        ix.row[first:] = GONE
        for j in range(self.d):
            ix.lo[j * ix.row.size + first : (j + 1) * ix.row.size] = INF
            ix.hi[j * ix.row.size + first : (j + 1) * ix.row.size] = -INF

    def _lay_out(self, rec: Floats, rows: Ints32, changing: bool) -> None:
        """A new base of these rows."""
        self._caps = []
        self.arrays = self._empty(len(rows), [], 0, len(rec))
        self._fill(rec, 0, rows)
        if changing:
            self._open(rec)

    def _fill(self, rec: Floats, p: int, rows: Ints32) -> None:
        """Lay rows out as part p. O(d n log n)."""
        ix, d, n = self.arrays, self.d, len(rows)
        score = rec[rows, 2 * d] if self.how is None else highest(rec[rows, 2 * d :], self.how)
        order = rank_order(score, rows)
        rows, score = rows[order], score[order]
        cuts = _chunks(n)
        perm = _by_place(rec[rows, : 2 * d], cuts)
        rows = rows[perm]
        first, slots = int(ix.parts[p, SLOT]), ix.row.size
        whole = _whole(n)
        box = slice(first, first + n)
        group, blocks = slice(first // LANES, (first + whole) // LANES), slots // LANES
        ix.row[box] = rows
        ix.row[first + n : first + whole] = GONE
        ix.place[rows] = np.arange(first, first + n, dtype=np.int32)
        for column, of_block, source, empty, reduce in (
            (ix.lo, ix.low, rec[rows, 0 : 2 * d : 2], INF, np.minimum),
            (ix.hi, ix.high, rec[rows, 1 : 2 * d : 2], -INF, np.maximum),
            (ix.weight, ix.most, rec[rows, 2 * d :], -INF, np.maximum),
        ):
            for j in range(source.shape[1]):
                mine = np.full(whole, empty)
                mine[:n] = source[:, j]
                column[j * slots + first : j * slots + first + whole] = mine
                each = reduce.reduce(mine.reshape(-1, LANES), axis=1)
                of_block[j * blocks + group.start : j * blocks + group.stop] = each
        chunks = slice(int(ix.parts[p, CHUNK]), int(ix.parts[p, CHUNK]) + len(cuts))
        starts = np.array(cuts, np.int64)
        ix.begin[chunks] = (first + starts) // LANES
        ix.end[chunks] = np.append((first + starts[1:]) // LANES, (first + whole) // LANES)[: len(cuts)]
        ix.bound[chunks] = score[starts] if n else []
        ix.parts[p, USED] = whole
        ix.parts[p, CHUNKS] = len(cuts)

    def check(self, rec: Floats, rows: Ints32) -> None:
        """Raise AssertionError unless exactly these rows are there, with right extents, bounds and places."""
        ix, d = self.arrays, self.d
        slots, blocks = ix.row.size, ix.row.size // LANES
        assert np.array_equal(np.sort(self.rows_of()), np.sort(rows)), (self.rows_of(), rows)
        assert len(self) == len(rows)
        there = ix.place[rows]
        for p in range(len(ix.parts)):
            first, used = ix.parts[p, SLOT], ix.parts[p, USED] if p + 1 < len(ix.parts) else slots - ix.parts[p, SLOT]
            empty = np.setdiff1d(np.arange(first, first + used), there)
            assert (ix.lo[empty] == INF).all() and (ix.hi[empty] == -INF).all(), p
        for j in range(d):
            assert (ix.lo[j * slots + there] == rec[rows, 2 * j]).all()
            assert (ix.hi[j * slots + there] == rec[rows, 2 * j + 1]).all()
        group = there // LANES
        score = rec[rows, 2 * d] if self.how is None else highest(rec[rows, 2 * d :], self.how)
        for j in range(ix.weight.size // max(1, slots)):
            assert (ix.weight[j * slots + there] == rec[rows, 2 * d + j]).all()
            assert (ix.most[j * blocks + group] >= rec[rows, 2 * d + j]).all()
        for j in range(d):
            assert (ix.low[j * blocks + group] <= rec[rows, 2 * j]).all()
            assert (ix.high[j * blocks + group] >= rec[rows, 2 * j + 1]).all()
        of_chunk = np.full(blocks, -INF)
        for p in range(len(ix.parts)):
            for chunk in range(ix.parts[p, CHUNK], ix.parts[p, CHUNK] + ix.parts[p, CHUNKS]):
                of_chunk[ix.begin[chunk] : ix.end[chunk]] = ix.bound[chunk]
        assert (of_chunk[group] >= score).all()


def _whole(n: int) -> int:
    return -(-n // LANES) * LANES


def _chunks(n: int) -> list[int]:
    """Where the chunks of n boxes begin."""
    cuts: list[int] = []
    at, size = 0, SMALLEST
    while at < n:
        cuts.append(at)
        at += size
        size = min(LARGEST, at)
    return cuts


def _by_place(boxes: Floats, cuts: Sequence[int]) -> Ints:
    """The order that sorts the boxes of each chunk by place, one dimension after the other: rows lo_1, hi_1, ...

    Chunks of the same size are sorted together.
    """
    n, d = len(boxes), boxes.shape[1] // 2
    keys = np.empty((d, n))
    spread = np.empty(d)
    for j in range(d):
        lo, hi = boxes[:, 2 * j], boxes[:, 2 * j + 1]
        ends = boxes[:, 2 * j : 2 * j + 2]
        finite = ends[np.isfinite(ends)]
        least, most = (finite.min(), finite.max()) if len(finite) else (0.0, 0.0)
        left, right = np.clip(lo, least, most), np.clip(hi, least, most)
        keys[j] = np.where(lo <= hi, left / 2 + right / 2, INF)
        lengths = np.where(lo <= hi, right / 2 - left / 2, 0.0)
        spread[j] = lengths.mean() / max(most / 2 - least / 2, 1e-300) if n else 0.0
    selective = np.argsort(spread, kind="stable").tolist()
    order = np.arange(n)
    ends_at = [*cuts[1:], n]
    at = 0
    while at < len(cuts):
        size = ends_at[at] - cuts[at]
        last = at
        while last + 1 < len(cuts) and ends_at[last + 1] - cuts[last + 1] == size:
            last += 1
        mine = slice(cuts[at], ends_at[last])
        order[mine] = _tiled(keys[:, mine], selective, last + 1 - at, size) + cuts[at]
        at = last + 1
    return order


def _tiled(keys: Floats, selective: list[int], chunks: int, size: int) -> Ints:
    """Sort each of the chunks into tiles: halved so often in each dimension, as many times in all as makes blocks.
    Equal keys stay in the order that they have."""
    d = len(keys)
    halvings = max(0, (-(-size // LANES) - 1).bit_length())
    whole = LANES << halvings
    order = np.full((chunks, whole), -1)
    order[:, :size] = np.arange(chunks * size).reshape(chunks, size)
    tiles = 1
    for turn, j in enumerate(selective):
        times = halvings // d + (turn < halvings % d)
        if times:
            order = order.reshape(chunks * tiles, -1)
            key = np.where(order >= 0, keys[j][order], INF)
            order = np.take_along_axis(order, ascending(key), axis=1)
            tiles <<= times
    flat = order.reshape(-1)
    return flat[flat >= 0]
