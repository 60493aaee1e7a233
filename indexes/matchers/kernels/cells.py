"""The best intervals by cell: what answers most points in one dimension, in front of the runs of `runs.py`.

The line is cut into *cells*, at ends of the best intervals. A cell has a list of intervals that meet it, in order of
rank, up to 64 of them: all that rank no lower than its *floor*. So the first k of a list that hold a point of the cell
are the answer, and where there are fewer, the runs are asked. With n / 256 cells an interval is in a quarter of a
list on average, however long it is, for long ones with low scores are below the floors of the cells that they meet.

A list is a block: the codes of 64 ends, one byte each, and of 64 others. Code 255 - c of a lower end and code c of an
upper one say in which part of the cell it lies; of two numbers in a cell the greater has no lesser code. So a point's
code settles at once which intervals surely hold it and which surely do not; where two codes are equal the ends
themselves are looked at, in the table. Upper ends are encoded as open ones, the numbers next to them: then a point on
an end that many intervals share is not in doubt, if a cell begins there.

A change goes to the lists where it ranks above the floor, which are found sixty-four cells at once. A full list that
takes an interval gives up its last, and its floor rises. One that has become short is filled again from the runs.
Changes of intervals that are in very many lists would be dear: the index then lets go of all cells until the next base.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.compiled.jit import allocating_kernel, internal, kernel
from indexes.compiled.masks import BLOCK, SHIFT, block_around, first_lane, first_lanes, lanes_behind, without_first
from indexes.compiled.simd import LANES, bit_count, lanes_from, lanes_least, lanes_upto, low_bit, prefetch_line
from indexes.core import aligned
from indexes.core.arrays import INF, Bytes, Floats, Ints, Ints32, int64
from indexes.matchers.kernels.answers import ENTRIES, LEAVES, Answers, new_answers
from indexes.matchers.kernels.bitset import delete, empty_set, following, insert
from indexes.matchers.kernels.order import rank_order
from indexes.matchers.kernels.run_index import RunIndex
from indexes.matchers.kernels.runs import new_walk, top_of_runs
from indexes.matchers.kernels.table import ranges

SPREAD = 256
"""Intervals for each cell."""

FEWEST = 1 << 12
"""Intervals from which on there are cells."""

BEST = 8
"""Cells begin at ends of the best intervals, one in so many of all."""

SHORT = BLOCK // 2
"""A list that is shorter is filled again, if there is more for it."""

DEAR = 64
"""So many lists an interval, on average over a change, are too many to be changed."""

AHEAD = 8
"""Changes whose rows of the table are prefetched."""

OUTSIDE = 255
"""The code of an end at the cell's end, or beyond it."""

FULL = 254.0
"""The greatest code inside a cell."""

SCORED = 2
"""The column of the score in the table of one dimension."""


class Cells(NamedTuple):
    """The arrays; see the module's docstring. Cell c begins at bound[c], the first at -inf, and owns the slots 64 c to
    64 c + 63 of `row` and `score`, and 128 c to 128 c + 127 of `code`, the lower ends first. A free slot has code 0
    twice, which holds no point, and score -inf. `floor[c]` and `floor_row[c]` are the rank down to which a list is
    whole; `least` the lowest floor of 64 cells, or one that was. `start[b]` counts the cells that begin before bucket b
    of the line, which are as many as the cells and of equal length: `scale` is where they begin and buckets by unit;
    `parts` are by unit of a cell. `lows` counts the cells in `low`, whose lists have become short."""

    bound: Floats
    start: Ints32
    scale: Floats
    parts: Floats
    code: Bytes
    row: Ints32
    score: Floats
    used: Ints
    floor: Floats
    floor_row: Ints32
    least: Floats
    low: Ints
    lows: Ints


@internal
def _bucket_of(cells: Cells, x: float) -> int:
    """The bucket of a number. Of two numbers the greater has no lesser one."""
    by_unit = cells.scale[1]
    step = (x - cells.scale[0]) * by_unit if by_unit > 0.0 else 0.0
    most = float(cells.start.size - 2)
    return int(min(max(step, 0.0), most))


@internal
def _cell_of(cells: Cells, x: float) -> int:
    """The cell that holds a number: the last that begins no later. O(1) where ends are spread evenly, O(log n) at
    worst."""
    bucket = _bucket_of(cells, x)
    low = int64(cells.start[bucket])
    high = int64(cells.start[bucket + 1])
    while high - low > LANES:
        middle = (low + high) >> 1
        if cells.bound[middle] <= x:
            low = middle + 1
        else:
            high = middle
    return low - 1 + bit_count(lanes_upto(cells.bound, low, x) & ((1 << (high - low)) - 1))


@internal
def _part_of(cells: Cells, cell: int, x: float) -> int:
    """The code of a number in a cell, from 1 to 254."""
    by_unit = cells.parts[cell]
    step = (x - cells.bound[cell]) * by_unit if by_unit > 0.0 else 0.0
    return 1 + int(min(max(step, 0.0), FULL - 1))


@internal
def _write(cells: Cells, cell: int, lane: int, lo: float, hi: float, score: float, row: int) -> None:
    """Put an interval into a slot."""
    lower = 0 if lo <= cells.bound[cell] else _part_of(cells, cell, lo)
    end = np.nextafter(hi, INF)
    upper = OUTSIDE if end >= cells.bound[cell + 1] else _part_of(cells, cell, end)
    cells.code[cell * 2 * BLOCK + lane] = OUTSIDE - lower
    cells.code[cell * 2 * BLOCK + BLOCK + lane] = upper
    cells.score[cell * BLOCK + lane] = score
    cells.row[cell * BLOCK + lane] = row


@kernel
def top_of_cells(cells: Cells, table: Floats, events: Floats, answers: Answers) -> int:
    """The k best rows that each event meets, of events that are points and for which the lists say so; of the others
    none are found. Returns how many these are. Scores are not written. One block a point."""
    left = 0
    out, count, seen, k = answers.rows, answers.found, answers.seen, answers.rows.shape[1]
    some = cells.used.size > 0 and k <= BLOCK
    for t in range(events.shape[0]):
        x = events[t, 0]
        found = 0
        if some and x == events[t, 1]:
            cell = _cell_of(cells, x)
            hits, sure = block_around(cells.code, cell * 2 * BLOCK, _part_of(cells, cell, x))
            doubt = hits & ~sure
            while doubt != 0:
                lane = first_lane(doubt)
                row = cells.row[cell * BLOCK + lane]
                if not (table[row, 0] <= x and table[row, 1] >= x):
                    hits &= ~(1 << lane)
                doubt = without_first(doubt)
            n = min(bit_count(hits), k)
            if n == k or cells.floor[cell] == -INF:
                found = n
                for i in range(n):
                    out[t, i] = cells.row[cell * BLOCK + first_lane(hits)]
                    hits = without_first(hits)
            seen[t, ENTRIES] += BLOCK
            seen[t, LEAVES] += 1
        count[t] = found
        if found == 0:
            left += 1
    return left


# Laying out.


@kernel
def _fill_buckets(cells: Cells) -> None:
    """Count the cells that begin before each bucket."""
    n = cells.used.size
    c = 0
    for bucket in range(cells.start.size):
        while c < n and _bucket_of(cells, cells.bound[c]) < bucket:
            c += 1
        cells.start[bucket] = c


@allocating_kernel
def _fill(cells: Cells, table: Floats, scored: int, rows: Ints32) -> None:
    """Make the lists, of rows from best to worst. O(n + cells)."""
    n = cells.used.size
    open_, at = empty_set(max(n, 1))  # cells whose lists are not full
    for c in range(n):
        insert(open_, at, c)
    left = n
    i = 0
    while i < rows.size and left > 0:
        row = rows[i]
        lo, hi, score = table[row, 0], table[row, 1], table[row, scored]
        last = _cell_of(cells, hi)
        c = following(open_, at, _cell_of(cells, lo), n)
        while c >= 0 and c <= last:
            lane = cells.used[c]
            _write(cells, c, lane, lo, hi, score, row)
            cells.used[c] = lane + 1
            if lane + 1 == BLOCK:
                delete(open_, at, c)
                left -= 1
                cells.floor[c] = score
                cells.floor_row[c] = row
            c = following(open_, at, c + 1, n) if c + 1 < n else -1
        i += 1


@kernel
def _refill(cells: Cells, table: Floats, scored: int, low: Ints, answers: Answers) -> None:
    """Make the lists of these cells again, of the best that each meets."""
    for i in range(low.size):
        c, n = low[i], answers.found[i]
        _clear(cells, c, 0)
        for lane in range(n):
            row = answers.rows[i, lane]
            _write(cells, c, lane, table[row, 0], table[row, 1], table[row, scored], row)
        cells.used[c] = n
        cells.floor[c] = cells.score[c * BLOCK + n - 1] if n == BLOCK else -INF
        cells.floor_row[c] = cells.row[c * BLOCK + n - 1] if n == BLOCK else 0
        _lower(cells, c)
    cells.lows[0] = 0


@internal
def _clear(cells: Cells, cell: int, lane: int) -> None:
    """Free the slots of a cell from that lane on."""
    for z in range(lane, BLOCK):
        cells.score[cell * BLOCK + z] = -INF
        cells.code[cell * 2 * BLOCK + z] = 0
        cells.code[cell * 2 * BLOCK + BLOCK + z] = 0


@internal
def _lower(cells: Cells, cell: int) -> None:
    """See to it that the lowest floor of 64 cells is no higher than that of this one."""
    group = cell >> SHIFT
    cells.least[group] = min(cells.least[group], cells.floor[cell])


# Changes.


@internal
def _next_cells(cells: Cells, at: int, last: int, score: float) -> tuple[int, int]:
    """The first block of 64 cells, from the one of cell `at` on, with cells up to `last` whose floors are no higher
    than a score, and their mask; 0 where there are none."""
    group = at >> SHIFT
    block = at
    mask = 0
    while mask == 0 and group <= last >> SHIFT:
        groups = lanes_upto(cells.least, group, score)
        group += low_bit(groups) if groups != 0 else LANES
        block = group << SHIFT
        if groups != 0 and block <= last:
            for z in range(0, BLOCK, LANES):
                mask |= lanes_upto(cells.floor, block + z, score) << z
            mask &= first_lanes(last + 1 - block)
            if block < at:
                mask &= lanes_behind(at - block)
            group += 1
    return block, mask


@internal
def _lane_of(cells: Cells, cell: int, score: float, row: int) -> int:
    """How many intervals of a list rank before (score, row)."""
    first = cell * BLOCK
    used = cells.used[cell]
    lane = 0
    for z in range(0, BLOCK, LANES):
        lane += bit_count(lanes_from(cells.score, first + z, score))
    # Now it is behind those of the same score.
    while lane > 0 and cells.score[first + lane - 1] == score and cells.row[first + lane - 1] >= row:
        lane -= 1
    return min(lane, used)


@kernel
def take_out_of_cells(cells: Cells, table: Floats, scored: int, rows: Ints32, most: int) -> int:
    """Take rows out of the lists that they are in; `table` must still have them. Returns how many lists were looked at,
    of which more than so many are too many: it gives up."""
    touched = 0
    i = 0
    while i < rows.size and touched <= most:
        if i + AHEAD < rows.size:
            prefetch_line(table, int64(rows[i + AHEAD]) * table.shape[1])
        row = rows[i]
        lo, hi, score = table[row, 0], table[row, 1], table[row, scored]
        if lo <= hi:
            last = _cell_of(cells, hi)
            at = _cell_of(cells, lo)
            while at <= last:
                block, mask = _next_cells(cells, at, last, score)
                while mask != 0:
                    cell = block + first_lane(mask)
                    mask = without_first(mask)
                    touched += 1
                    _take_out(cells, cell, _lane_of(cells, cell, score, row), row)
                at = block + BLOCK
        i += 1
    return touched


@internal
def _take_out(cells: Cells, cell: int, lane: int, row: int) -> None:
    """Take a row out of a lane, if it is there."""
    used = cells.used[cell]
    first = cell * BLOCK
    if lane < used and cells.row[first + lane] == row:
        for z in range(first + lane, first + used - 1):
            cells.row[z] = cells.row[z + 1]
            cells.score[z] = cells.score[z + 1]
        for z in range(first + lane, first + used - 1):
            cells.code[z + first] = cells.code[z + first + 1]
            cells.code[z + first + BLOCK] = cells.code[z + first + BLOCK + 1]
        used -= 1
        cells.score[first + used] = -INF
        cells.code[2 * first + used] = 0
        cells.code[2 * first + BLOCK + used] = 0
        cells.used[cell] = used
        if used == SHORT - 1 and cells.floor[cell] > -INF:
            cells.low[cells.lows[0]] = cell
            cells.lows[0] += 1


@kernel
def put_into_cells(cells: Cells, table: Floats, scored: int, rows: Ints32, most: int) -> int:
    """Put rows, as `table` has them, into the lists of the cells in which they rank no lower than the floor. Returns as
    `take_out_of_cells`."""
    touched = 0
    i = 0
    while i < rows.size and touched <= most:
        if i + AHEAD < rows.size:
            prefetch_line(table, int64(rows[i + AHEAD]) * table.shape[1])
        row = rows[i]
        lo, hi, score = table[row, 0], table[row, 1], table[row, scored]
        if lo <= hi:
            last = _cell_of(cells, hi)
            at = _cell_of(cells, lo)
            while at <= last:
                block, mask = _next_cells(cells, at, last, score)
                while mask != 0:
                    cell = block + first_lane(mask)
                    mask = without_first(mask)
                    touched += 1
                    # The row of the floor itself may have been taken out, and come back with the same score.
                    if score > cells.floor[cell] or row <= cells.floor_row[cell]:
                        _put_in(cells, cell, _lane_of(cells, cell, score, row), lo, hi, score, row)
                at = block + BLOCK
        i += 1
    return touched


@internal
def _put_in(cells: Cells, cell: int, lane: int, lo: float, hi: float, score: float, row: int) -> None:
    """Put an interval into a lane; of a full list the last one goes, be it this one, and the floor rises."""
    used = cells.used[cell]
    first = cell * BLOCK
    top = min(used, BLOCK - 1)
    for z in range(first + top, first + lane, -1):
        cells.row[z] = cells.row[z - 1]
        cells.score[z] = cells.score[z - 1]
    for z in range(first + top, first + lane, -1):
        cells.code[z + first] = cells.code[z + first - 1]
        cells.code[z + first + BLOCK] = cells.code[z + first + BLOCK - 1]
    if lane < BLOCK:
        _write(cells, cell, lane, lo, hi, score, row)
    cells.used[cell] = top + 1
    if used == BLOCK:
        was = cells.floor[cell]
        cells.floor[cell] = cells.score[first + BLOCK - 1]
        cells.floor_row[cell] = cells.row[first + BLOCK - 1]
        group = cell >> SHIFT
        if was == cells.least[group]:
            least = INF
            for z in range(0, BLOCK, LANES):
                least = min(least, lanes_least(cells.floor, group * BLOCK + z))
            cells.least[group] = least


def most_lists(rows: int) -> int:
    """How many lists a change of so many rows may be in."""
    return DEAR * (rows + BLOCK)


class CellIndex:
    """The best intervals of a table of one dimension by cell, and their changes. Kernels work on `arrays`.

    The table is the caller's and is given to every call. After changes `refill` is to be called.
    """

    arrays: Cells

    def __init__(self) -> None:
        self.arrays = _empty(np.empty(0))

    @classmethod
    def build(cls, rec: Floats, rows: Ints32) -> CellIndex:
        """The index of these rows. O(n log n)."""
        index = cls()
        mine = rows[rec[rows, 0] <= rec[rows, 1]]
        if len(mine) >= FEWEST:
            ranked = mine[rank_order(rec[mine, SCORED], mine)]
            index.arrays = _empty(_bounds(rec[ranked[: len(ranked) // BEST]], len(mine) // SPREAD))
            _fill_buckets(index.arrays)
            _fill(index.arrays, rec, SCORED, ranked)
            _set_least(index.arrays)
        return index

    def __len__(self) -> int:
        """How many cells there are."""
        return len(self.arrays.used)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays."""
        return sum(int(column.nbytes) for column in self.arrays)

    def remove(self, rec: Floats, rows: Ints32) -> None:
        """Take rows out, before the table changes. Absent ones are ignored."""
        if len(self) and len(rows):
            most = most_lists(len(rows))
            self._limit(take_out_of_cells(self.arrays, rec, SCORED, rows, most) <= most)

    def add(self, rec: Floats, rows: Ints32) -> None:
        """Put in rows that are not there."""
        if len(self) and len(rows):
            most = most_lists(len(rows))
            self._limit(put_into_cells(self.arrays, rec, SCORED, rows, most) <= most)

    def refill(self, rec: Floats, runs: RunIndex) -> None:
        """Make short lists longer, from runs that hold the same intervals."""
        if len(self) and self.arrays.lows[0]:
            low = self.arrays.low[: self.arrays.lows[0]]
            bound = self.arrays.bound
            ends = np.column_stack([bound[low], np.nextafter(bound[low + 1], -INF)])
            answers = new_answers(len(low), BLOCK)
            top_of_runs(runs.arrays, rec, 0, SCORED, ranges(ends), new_walk(BLOCK), answers)  # type: ignore[arg-type]
            _refill(self.arrays, rec, SCORED, low.copy(), answers)

    def _limit(self, done: bool) -> None:
        """Do without cells when changes were in too many lists."""
        if not done:
            self.let_go()

    def let_go(self) -> None:
        """Have no cells until the index is built again."""
        self.arrays = _empty(np.empty(0))

    def check(self, rec: Floats, rows: Ints32) -> None:
        """Raise AssertionError unless every list is whole and right, of these rows. O(n cells)."""
        o = self.arrays
        mine = rows[rec[rows, 0] <= rec[rows, 1]]
        ranked = mine[rank_order(rec[mine, SCORED], mine)]
        for c in range(len(self)):
            used = int(o.used[c])
            there = o.row[c * BLOCK : c * BLOCK + used]
            meets = (rec[ranked, 0] < o.bound[c + 1]) & (rec[ranked, 1] >= o.bound[c])
            met = ranked[meets]
            assert np.array_equal(there, met[:used]), c
            assert (o.score[c * BLOCK : c * BLOCK + used] == rec[there, SCORED]).all()
            assert (o.score[c * BLOCK + used : (c + 1) * BLOCK] == -INF).all()
            assert not o.code.reshape(-1, 2, BLOCK)[c, :, used:].any()
            floor = rec[met, SCORED]
            above = (floor > o.floor[c]) | ((floor == o.floor[c]) & (met <= o.floor_row[c]))
            assert used == np.count_nonzero(above), c
            assert o.least[c // BLOCK] <= o.floor[c]


def _bounds(best: Floats, cells: int) -> Floats:
    """Where so many cells at most begin, but for the first: at ends of these intervals, as evenly as there are."""
    ends = np.concatenate([best[:, 0], np.nextafter(best[:, 1], INF)])
    ends = np.sort(ends[np.isfinite(ends)])
    if not len(ends):
        return ends
    return np.unique(ends[np.linspace(0, len(ends) - 1, max(2, cells - 1)).astype(np.int64)] + 0.0)


def _empty(bounds: Floats) -> Cells:
    """Cells that begin there, and one before, with empty lists; none where nothing begins."""
    n = len(bounds) + 1 if len(bounds) else 0
    whole = -(-n // BLOCK)
    bound = np.concatenate([[-INF], bounds, np.full(1 + LANES, INF)])
    parts = np.zeros(n)
    scale = np.zeros(2)
    if n:
        with np.errstate(all="ignore"):
            inside = (FULL - 1) / np.diff(bounds)
            by_unit = n / (bounds[-1] - bounds[0])
        parts[1 : n - 1] = np.where(np.isfinite(inside), inside, 0.0)
        scale[:] = bounds[0], by_unit if np.isfinite(by_unit) else 0.0
    return Cells(
        bound=bound,
        start=np.zeros(n + 1, np.int32),
        scale=scale,
        parts=parts,
        code=aligned.zeros(n * 2 * BLOCK, np.uint8),
        row=aligned.zeros(n * BLOCK, np.int32),
        score=aligned.full(n * BLOCK, -INF),
        used=np.zeros(n, np.int64),
        floor=np.concatenate([np.full(n, -INF), np.full(whole * BLOCK - n, INF)]),
        floor_row=np.zeros(n, np.int32),
        least=np.concatenate([np.full(whole, -INF), np.full(LANES, INF)]),
        low=np.zeros(n, np.int64),
        lows=np.zeros(1, np.int64),
    )


def _set_least(cells: Cells) -> None:
    cells.least[:-LANES] = cells.floor.reshape(-1, BLOCK).min(axis=1)
