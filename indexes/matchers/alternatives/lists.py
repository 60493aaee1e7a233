"""Scored interval trees and IR-trees, which change in place.

An interval tree over chosen separators, the same for both: an interval belongs to the highest node whose separator it
contains, or, when it contains none, to the gap between two of them. So a node or a gap has a *list* of intervals in
order of score, and a point meets only lists on one path of the tree and one gap. The scored interval tree goes through
a list from the best on; the IR-tree keeps an R-tree over each list, in which a node that the point lies in always leads
to an interval that it meets, because all intervals of a list share the separator (Lemma 3.1).

Layout. Separators of dimension j are sep[head[j, SEP] + 1 ...], ascending; node v of the tree is the v-th of them, and
the tree over 1..m is in order: its root is a power of two, a child is half a step away. Lists of a dimension are those
of nodes 1..m, then those of gaps 0..m (numbers m + 1 + gap). All lists share a pool of blocks of 16 slots: block B owns
slots 16 B to 16 B + 15, of which the first FILLED are used (words in capitals are columns of `node`, in row B). In a
leaf block `item` is a row and `score` its score. Leaves of a list are chained by NEXT and BEFORE. With an R-tree (IR),
LEVEL is a block's height above the leaves, `item` of an inner block is the block below, lo and hi are that one's
extent, and UP, SLOT say where a block hangs; a full block is halved on the way down to a new interval, as in a B-tree,
an empty one is freed. KEY is the first row below a block. `place[j, row]` is the leaf block of a row. root[list] is the
topmost block of a list, or its first leaf when there is no R-tree.

Of the list of a separator only one end is compared: all its intervals reach from there to the separator at least. A
query opens all lists on its path at once, since most are needed and the look-ups do not wait for each other.

Source: [Ranked matching] 2.2.2 and 3.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from indexes.compiled.jit import expanded, inlined, internal, kernel
from indexes.compiled.simd import LANES, lanes_from, lanes_upto, low_bit
from indexes.core import aligned
from indexes.core.arrays import INF, Bools, Floats, Ints, Ints32, int64
from indexes.matchers.kernels.answers import ENTRIES, HOLES, LEAVES, Answers, keep
from indexes.matchers.kernels.order import rank_order
from indexes.matchers.kernels.positions import (
    LIST_POSITION,
    MOST_POSITIONS,
    Positions,
    best_position,
    drop_position,
    put_position,
)
from indexes.matchers.kernels.table import GONE

ALL = (1 << LANES) - 1
NONE = -1

SEP, NODES, ROOT, LIST = range(4)
"""Columns of `head`: where the separators begin, how many there are, the root of the tree, the first list."""

FILLED, KEY, LEVEL, NEXT, BEFORE, UP, SLOT = range(7)
"""Columns of `node`, which has a row for each block: what is looked at together lies together."""

USED, FREE = range(2)
"""What `pool` holds: blocks ever used, the first block of the free list."""

LEFT, RIGHT = 1, 2
"""The ends that have to be compared in a list, as bits."""

PER_SEPARATOR = 512
"""End points between two separators."""


class Lists(NamedTuple):
    """The pool; see the module's docstring."""

    sep: Floats
    head: Ints
    root: Ints32
    lo: Floats
    hi: Floats
    score: Floats
    item: Ints32
    node: Ints32
    place: Ints32
    pool: Ints


@internal
def list_of(pool: Lists, dimension: int, lo: float, hi: float) -> int:
    """The list that an interval belongs to. O(log m)."""
    base = pool.head[dimension, SEP]
    m = pool.head[dimension, NODES]
    a = int64(1)
    b = m + 1
    while a < b:
        c = (a + b) >> 1
        if pool.sep[base + c] < lo:
            a = c + 1
        else:
            b = c
    first = a  # the first separator >= lo
    b = m + 1
    while a < b:
        c = (a + b) >> 1
        if pool.sep[base + c] <= hi:
            a = c + 1
        else:
            b = c
    last = a - 1  # the last separator <= hi
    if first > last:
        found = m + 1 + last
    else:
        d = (first - 1) ^ last  # the node between first and last with the most trailing zeros
        bits = 0
        while d > 1:
            d >>= 1
            bits += 1
        found = (last >> bits) << bits
    return pool.head[dimension, LIST] + found


@inlined
def meeting(pool: Lists, block: int, lane: int, low: float, high: float, ends: int) -> int:
    """The mask of the slots of a block, from `lane` on, that an event meets, where these `ends` are to be compared."""
    at = block << 4
    mask = ALL >> (LANES - pool.node[block, FILLED]) & (ALL << lane)
    if ends & LEFT:
        mask &= lanes_upto(pool.lo, at, high)
    if ends & RIGHT:
        mask &= lanes_from(pool.hi, at, low)
    return mask


@inlined
def next_in_list(pool: Lists, block: int, lane: int, low: float, high: float, ends: int, seen: Ints, event: int) -> int:
    """The first slot behind lane - 1 of a block, in the order of its list, that the event meets, or -1."""
    found = int64(-1)
    mask = 0
    if lane < LANES:
        mask = meeting(pool, block, lane, low, high, ends)
    entries = pool.node[block, FILLED] - lane
    going = True
    while going:
        if mask != 0 and pool.node[block, LEVEL] == 0:
            found = (block << 4) + low_bit(mask)
            going = False
        else:
            lane = int64(0)
            if mask != 0:
                block = int64(pool.item[(block << 4) + low_bit(mask)])
            elif pool.node[block, UP] >= 0:
                lane = int64(pool.node[block, SLOT]) + 1
                block = int64(pool.node[block, UP])
            else:
                block = int64(pool.node[block, NEXT]) if pool.node[block, LEVEL] == 0 else int64(-1)
            going = block >= 0
            mask = 0
            if going and lane < pool.node[block, FILLED]:
                mask = meeting(pool, block, lane, low, high, ends)
                entries += pool.node[block, FILLED] - lane
                if pool.node[block, LEVEL] == 0:
                    seen[event, LEAVES] += 1
                    seen[event, HOLES] += mask == 0
    seen[event, ENTRIES] += entries
    return found


@inlined
def open_lists(
    pool: Lists, dimension: int, low: float, high: float, positions: Positions, seen: Ints, event: int
) -> None:
    """Positions at the best interval that the event meets in each list of a dimension. O(log n) lists."""
    begin = dimension * MOST_POSITIONS
    n = int64(0)
    first = pool.head[dimension, LIST]
    m = pool.head[dimension, NODES]
    base = pool.head[dimension, SEP]
    if low > high:  # only what is unbounded on both sides, and that lies in one list
        put_position(positions, begin, LIST_POSITION, list_of(pool, dimension, -INF, INF), LEFT | RIGHT, 0.0, 0)
        n = int64(1)
    else:
        node = pool.head[dimension, ROOT]
        step = node >> 1
        last = int64(0)
        while node > 0:
            right = False
            stop = step == 0
            if node <= m:
                separator = pool.sep[base + node]
                right = low > separator
                put_position(positions, begin + n, LIST_POSITION, first + node, RIGHT if right else LEFT, 0.0, 0)
                n += 1
                if right:
                    last = node
                elif low == separator:  # whatever holds it holds this separator or one further up
                    last = int64(-1)
                    stop = True
            node = int64(0) if stop else node + step if right else node - step
            step >>= 1
        if last >= 0:
            put_position(positions, begin + n, LIST_POSITION, first + m + 1 + last, LEFT | RIGHT, 0.0, 0)
            n += 1
    used = int64(0)
    for here in range(begin, begin + n):
        block = int64(pool.root[positions.at[here]])
        if block >= 0:
            place = next_in_list(pool, block, int64(0), low, high, positions.aux[here], seen, event)
            if place >= 0:
                put_position(
                    positions,
                    begin + used,
                    LIST_POSITION,
                    place,
                    positions.aux[here],
                    pool.score[place],
                    pool.item[place],
                )
                used += 1
    positions.used[dimension] = used


@inlined
def seek_list(
    pool: Lists, dimension: int, low: float, high: float, positions: Positions, here: int, seen: Ints, event: int
) -> None:
    """Move a position on to the next interval of its list that the event meets, or drop it."""
    at = positions.at[here]
    place = next_in_list(pool, at >> 4, (at & (LANES - 1)) + 1, low, high, positions.aux[here], seen, event)
    if place >= 0:
        positions.at[here] = place
        positions.row[here] = pool.item[place]
        positions.score[here] = pool.score[place]
    else:
        drop_position(positions, dimension, here)


# The next two take more than eight arguments: the state of a search changes from call to call.


@internal
def _offer_list(
    pool: Lists,
    table: Floats,
    scored: int,
    number: int,
    low: float,
    high: float,
    scores: Floats,
    n: int,
    answers: Answers,
    event: int,
) -> int:
    """Put what the event meets of a list among the n best so far; returns how many there are now."""
    out, seen, k = answers.rows, answers.seen, answers.rows.shape[1]
    place = int64(pool.root[number])
    if place >= 0:
        place = next_in_list(pool, place, int64(0), low, high, LEFT | RIGHT, seen, event)
    while place >= 0:
        row = pool.item[place]
        score = table[row, scored]
        if n == k and (score < scores[k - 1] or (score == scores[k - 1] and row > out[event, k - 1])):
            place = int64(-1)
        else:
            n = keep(out, event, scores, n, k, score, row)
            place = next_in_list(pool, place >> 4, (place & (LANES - 1)) + 1, low, high, LEFT | RIGHT, seen, event)
    return n


@internal
def _overlap(
    pool: Lists,
    table: Floats,
    dimension: int,
    scored: int,
    low: float,
    high: float,
    scores: Floats,
    answers: Answers,
    event: int,
) -> int:
    """The k best that a range meets: on the two paths to its ends, and in all nodes and gaps between."""
    n = 0
    first, m, base = pool.head[dimension, LIST], pool.head[dimension, NODES], pool.head[dimension, SEP]
    upto_a = int64(0)
    below_b = int64(0)
    for side in range(2):
        end = high if side else low
        node = pool.head[dimension, ROOT]
        step = node >> 1
        while node > 0:
            right = False
            if node <= m:
                s = pool.sep[base + node]
                right = s < high if side else s <= low
                if right and side:
                    below_b = node
                elif right:
                    upto_a = node
                if (s > end) if side else (s < end):
                    n = _offer_list(pool, table, scored, first + node, low, high, scores, n, answers, event)
            node = int64(0) if step == 0 else node + step if right else node - step
            step >>= 1
    begin = upto_a if upto_a > 0 and pool.sep[base + upto_a] == low else upto_a + 1
    end_node = below_b + 1 if below_b < m and pool.sep[base + below_b + 1] == high else below_b
    for node in range(begin, end_node + 1):
        n = _offer_list(pool, table, scored, first + node, low, high, scores, n, answers, event)
    for gap in range(upto_a, below_b + 1):
        n = _offer_list(pool, table, scored, first + m + 1 + gap, low, high, scores, n, answers, event)
    return n


@kernel
def top_of_lists(
    pool: Lists,
    table: Floats,
    dimension: int,
    scored: int,
    events: Floats,
    positions: Positions,
    scores: Floats,
    answers: Answers,
) -> None:
    """The k best rows of a dimension that each event meets, as `runs.top_of_runs`.

    O((k + log n) log n) for a point with an R-tree a list (Theorem 3.1), linear in what it does not meet without.
    """
    out, count, seen, k = answers.rows, answers.found, answers.seen, answers.rows.shape[1]
    for t in range(events.shape[0]):
        low = events[t, 0]
        high = events[t, 1]
        n = 0
        if low < high:
            n = _overlap(pool, table, dimension, scored, low, high, scores, answers, t)
        else:
            open_lists(pool, dimension, low, high, positions, seen, t)
            begin = dimension * MOST_POSITIONS
            while n < k and positions.used[dimension] > 0:
                here = best_position(positions, begin, begin + positions.used[dimension])
                out[t, n] = positions.row[here]
                n += 1
                if n < k:
                    seek_list(pool, dimension, low, high, positions, here, seen, t)
        count[t] = n


# Changing lists.


@expanded
def _better(table: Floats, scored: int, row: int, other: int) -> bool:
    return table[row, scored] > table[other, scored] or (table[row, scored] == table[other, scored] and row < other)


@internal
def _new_block(pool: Lists, level: int) -> int:
    block = pool.pool[FREE]
    if block >= 0:
        pool.pool[FREE] = pool.node[block, NEXT]
    else:
        block = pool.pool[USED]
        pool.pool[USED] += 1
    pool.node[block, LEVEL] = level
    pool.node[block, FILLED] = 0
    pool.node[block, NEXT], pool.node[block, BEFORE] = NONE, NONE
    pool.node[block, UP], pool.node[block, SLOT] = NONE, 0
    return block


@internal
def _move(pool: Lists, dimension: int, block: int, lane: int, to: int, place: int) -> None:
    """Copy a slot to another place, and tell what hangs on it where it is now."""
    p = (block << 4) + lane
    q = (to << 4) + place
    pool.lo[q], pool.hi[q], pool.score[q], pool.item[q] = pool.lo[p], pool.hi[p], pool.score[p], pool.item[p]
    if pool.node[block, LEVEL] == 0:
        pool.place[dimension, pool.item[q]] = to
    else:
        pool.node[pool.item[q], UP], pool.node[pool.item[q], SLOT] = to, place


@internal
def _cover(pool: Lists, block: int) -> bool:
    """Set the extent of a block where it hangs; whether it was another one."""
    at = (int64(pool.node[block, UP]) << 4) + pool.node[block, SLOT]
    p = block << 4
    lo, hi = INF, -INF
    for i in range(p, p + pool.node[block, FILLED]):
        lo = min(lo, pool.lo[i])
        hi = max(hi, pool.hi[i])
    changed = pool.lo[at] != lo or pool.hi[at] != hi
    pool.lo[at], pool.hi[at] = lo, hi
    return changed


@internal
def _hang(pool: Lists, dimension: int, parent: int, lane: int, block: int) -> None:
    """Hang a block into an inner one that is not full."""
    for z in range(pool.node[parent, FILLED], lane, -1):
        _move(pool, dimension, parent, z - 1, parent, z)
    pool.node[parent, FILLED] += 1
    pool.item[(parent << 4) + lane] = block
    pool.node[block, UP], pool.node[block, SLOT] = parent, lane
    _cover(pool, block)


@internal
def _halve(pool: Lists, dimension: int, block: int) -> int:
    """Move the worse half of a full block to a new one behind it, which is returned; where it hangs is up to the
    caller."""
    new = _new_block(pool, pool.node[block, LEVEL])
    half = LANES // 2
    for z in range(half, LANES):
        _move(pool, dimension, block, z, new, z - half)
    pool.node[block, FILLED] = half
    pool.node[new, FILLED] = LANES - half
    if pool.node[block, LEVEL] == 0:
        pool.node[new, KEY] = pool.item[new << 4]
        pool.node[new, NEXT], pool.node[new, BEFORE] = pool.node[block, NEXT], block
        if pool.node[block, NEXT] >= 0:
            pool.node[pool.node[block, NEXT], BEFORE] = new
        pool.node[block, NEXT] = new
    else:
        pool.node[new, KEY] = pool.node[pool.item[new << 4], KEY]
    return new


@internal
def _insert(pool: Lists, table: Floats, dimension: int, scored: int, indexed: int, row: int) -> None:
    lo = table[row, 2 * dimension]
    hi = table[row, 2 * dimension + 1]
    number = list_of(pool, dimension, lo, hi)
    block = int64(pool.root[number])
    if block < 0:
        block = _new_block(pool, 0)
        pool.root[number] = block
        pool.node[block, KEY] = row
    if indexed:
        if pool.node[block, FILLED] == LANES:
            top = _new_block(pool, pool.node[block, LEVEL] + 1)
            pool.node[top, KEY] = pool.node[block, KEY]
            pool.root[number] = top
            _hang(pool, dimension, top, 0, block)
            _hang(pool, dimension, top, 1, _halve(pool, dimension, block))
            _cover(pool, block)
            block = top
        while pool.node[block, LEVEL] > 0:
            lane = pool.node[block, FILLED] - 1
            while lane > 0 and _better(table, scored, row, pool.node[pool.item[(block << 4) + lane], KEY]):
                lane -= 1
            child = int64(pool.item[(block << 4) + lane])
            if pool.node[child, FILLED] == LANES:
                new = _halve(pool, dimension, child)
                _hang(pool, dimension, block, lane + 1, new)
                _cover(pool, child)
                if not _better(table, scored, row, pool.node[new, KEY]):
                    child = new
            block = child
    else:
        while pool.node[block, NEXT] >= 0 and not _better(table, scored, row, pool.node[pool.node[block, NEXT], KEY]):
            block = int64(pool.node[block, NEXT])
        if pool.node[block, FILLED] == LANES:
            new = _halve(pool, dimension, block)
            if not _better(table, scored, row, pool.node[new, KEY]):
                block = new
    lane = int64(pool.node[block, FILLED])
    while lane > 0 and _better(table, scored, row, pool.item[(block << 4) + lane - 1]):
        lane -= 1
    for z in range(pool.node[block, FILLED], lane, -1):
        _move(pool, dimension, block, z - 1, block, z)
    pool.node[block, FILLED] += 1
    at = (block << 4) + lane
    pool.lo[at], pool.hi[at], pool.score[at], pool.item[at] = lo, hi, table[row, scored], row
    pool.place[dimension, row] = block
    _settle(pool, block, lane == 0)


@internal
def _settle(pool: Lists, block: int, first: bool) -> None:
    """Set the keys (when the first of a block is another one) and the extents above a block that has changed."""
    key = pool.item[block << 4] if pool.node[block, LEVEL] == 0 else pool.node[pool.item[block << 4], KEY]
    changed = True
    while block >= 0:
        if first:
            pool.node[block, KEY] = key
        if pool.node[block, UP] >= 0:
            changed = changed and _cover(pool, block)
            first = first and pool.node[block, SLOT] == 0
        block = int64(pool.node[block, UP]) if changed or first else int64(-1)


@internal
def _delete(pool: Lists, table: Floats, dimension: int, row: int) -> None:
    block = int64(pool.place[dimension, row])
    pool.place[dimension, row] = GONE
    lane = int64(0)
    while pool.item[(block << 4) + lane] != row:
        lane += 1
    number = list_of(pool, dimension, table[row, 2 * dimension], table[row, 2 * dimension + 1])
    going = True
    while going:
        for z in range(lane + 1, pool.node[block, FILLED]):
            _move(pool, dimension, block, z, block, z - 1)
        pool.node[block, FILLED] -= 1
        going = pool.node[block, FILLED] == 0
        if going:
            if pool.node[block, LEVEL] == 0:
                if pool.node[block, NEXT] >= 0:
                    pool.node[pool.node[block, NEXT], BEFORE] = pool.node[block, BEFORE]
                if pool.node[block, BEFORE] >= 0:
                    pool.node[pool.node[block, BEFORE], NEXT] = pool.node[block, NEXT]
            parent = int64(pool.node[block, UP])
            if pool.root[number] == block:
                pool.root[number] = pool.node[block, NEXT] if pool.node[block, LEVEL] == 0 else NONE
            lane = int64(pool.node[block, SLOT])
            pool.node[block, NEXT] = pool.pool[FREE]
            pool.pool[FREE] = block
            block = parent
            going = bool(block >= 0)
    if block >= 0:
        _settle(pool, block, lane == 0)


@kernel
def insert_into_lists(
    pool: Lists, table: Floats, dimension: int, scored: int, indexed: int, rows: Ints32, begin: int
) -> int:
    """Insert rows[begin:] into a dimension, as `table` has them, while blocks last; those that take no part in the
    dimension are passed over. Returns the first that did not go in, or how many there are. O(log n) each with an
    R-tree a list, else linear in the list."""
    i = begin
    while i < rows.size and pool.pool[USED] + 2 * LANES <= pool.node.shape[0]:
        if table[rows[i], 2 * dimension] <= table[rows[i], 2 * dimension + 1]:
            _insert(pool, table, dimension, scored, indexed, rows[i])
        i += 1
    return i


@kernel
def delete_from_lists(pool: Lists, table: Floats, dimension: int, rows: Ints32) -> None:
    """Delete rows from a dimension; `table` must still have them. Absent rows are ignored. O(log n)."""
    for i in range(rows.size):
        if pool.place[dimension, rows[i]] != GONE:
            _delete(pool, table, dimension, rows[i])


@kernel
def number_lists(pool: Lists, table: Floats, dimension: int, rows: Ints32, numbers: Ints32) -> None:
    """Write the number of the list that each row belongs to."""
    for i in range(rows.size):
        numbers[i] = list_of(pool, dimension, table[rows[i], 2 * dimension], table[rows[i], 2 * dimension + 1])


@kernel
def _fill_lists(
    pool: Lists, table: Floats, dimension: int, scored: int, indexed: int, rows: Ints32, numbers: Ints32
) -> None:
    """Write rows, in order of list and rank, to full blocks, and pack R-trees over them."""
    i = 0
    while i < rows.size:
        number = numbers[i]
        begin = pool.pool[USED]
        last = -1
        while i < rows.size and numbers[i] == number:
            block = _new_block(pool, 0)
            pool.node[block, KEY] = rows[i]
            pool.node[block, BEFORE] = last
            if last >= 0:
                pool.node[last, NEXT] = block
            last = block
            n = 0
            while n < LANES and i < rows.size and numbers[i] == number:
                at = (block << 4) + n
                pool.lo[at], pool.hi[at] = table[rows[i], 2 * dimension], table[rows[i], 2 * dimension + 1]
                pool.score[at], pool.item[at] = table[rows[i], scored], rows[i]
                pool.place[dimension, rows[i]] = block
                n += 1
                i += 1
            pool.node[block, FILLED] = n
        end = pool.pool[USED]
        pool.root[number] = begin
        while indexed and end - begin > 1:
            for below in range(begin, end):
                if (below - begin) % LANES == 0:
                    block = _new_block(pool, pool.node[begin, LEVEL] + 1)
                    pool.node[block, KEY] = pool.node[below, KEY]
                _hang(pool, dimension, block, pool.node[block, FILLED], below)
            begin, end = end, pool.pool[USED]
            pool.root[number] = begin


class ListIndex:
    """One scored interval tree (or, with `indexed`, one IR-tree) for each of d dimensions, over the rows of a table.

    Separators are chosen when it is built; everything else changes in place. `arrays` is what kernels take and may be
    another one after a change.
    """

    def __init__(self, d: int, relaxed: bool, indexed: bool = True, separators: list[Floats] | None = None) -> None:
        self.d = d
        self.relaxed = relaxed
        self.indexed = indexed
        parts = separators or [np.empty(0) for _ in range(d)]
        head = np.zeros((d, 4), np.int64)
        at = lists = 0
        for j, part in enumerate(parts):
            m = len(part)
            head[j] = at, m, 1 << (m.bit_length() - 1) if m else 0, lists
            at += m + 2
            lists += 2 * m + 2
        sep = np.concatenate([np.concatenate([[-INF], part, [INF]]) for part in parts])
        root, pool = np.full(lists, NONE, np.int32), np.array([0, NONE])
        self.arrays = Lists(sep=sep, head=head, root=root, pool=pool, **_blocks(0, d, None))

    @classmethod
    def build(
        cls, rec: Floats, rows: Ints32, d: int, relaxed: bool, indexed: bool = True, spacing: int = PER_SEPARATOR
    ) -> ListIndex:
        """The index of these rows; a separator for so many end points. O(d n log n)."""
        parts = [rows[rec[rows, 2 * j] <= rec[rows, 2 * j + 1]] for j in range(d)]
        separators = []
        for j, part in enumerate(parts):
            ends = np.concatenate([rec[part, 2 * j], rec[part, 2 * j + 1]])
            ends = np.sort(ends[np.isfinite(ends)])
            separators.append(np.unique(ends[spacing // 2 :: spacing]))
        index = cls(d, relaxed, indexed, separators)
        index._reserve(sum(map(len, parts)), len(rec))
        for j, part in enumerate(parts):
            ranked = part[rank_order(rec[part, index.scored(j)], part)]
            numbers = np.empty(len(part), np.int32)
            number_lists(index.arrays, rec, j, ranked, numbers)
            order = np.argsort(numbers, kind="stable")
            numbers, ranked = numbers[order], ranked[order]
            sizes = np.unique(numbers, return_counts=True)[1]
            needed = 0
            while len(sizes):
                sizes = -(-sizes // LANES)
                needed += int(sizes.sum())
                sizes = sizes[sizes > 1] if indexed else sizes[:0]
            index._grow(int(index.arrays.pool[USED]) + needed + 2 * LANES, len(rec))
            _fill_lists(index.arrays, rec, j, index.scored(j), indexed, ranked, numbers)
        return index

    @classmethod
    def join(cls, parts: Sequence[ListIndex], relaxed: bool) -> ListIndex:
        """What `build` makes of several dimensions, out of what it made of each alone, over the same rows. O(d n)."""
        index = cls(len(parts), relaxed, parts[0].indexed, [part.arrays.sep[1:-1] for part in parts])
        held = sum(int(np.count_nonzero(part.arrays.place != GONE)) for part in parts)
        index._reserve(held, parts[0].arrays.place.shape[1])
        for j, part in enumerate(parts):
            index._take_in(j, part.arrays)
        return index

    def _take_in(self, j: int, part: Lists) -> None:
        """Put the lists of one dimension, which stand alone, behind those that are here already, as dimension j."""
        used, begin = int(part.pool[USED]), int(self.arrays.pool[USED])
        self._grow(begin + used + 2 * LANES, 0)
        ix = self.arrays
        slots = slice(begin * LANES, (begin + used) * LANES)
        for name in ("lo", "hi", "score", "item"):
            getattr(ix, name)[slots] = getattr(part, name)[: used * LANES]
        node, item = ix.node[begin : begin + used], ix.item[slots].reshape(used, LANES)
        node[:] = part.node[:used]
        for column in (NEXT, BEFORE, UP):
            node[node[:, column] >= 0, column] += begin
        inner = node[:, LEVEL, None] > 0
        item[inner & (np.arange(LANES) < node[:, FILLED, None])] += begin
        lists = int(ix.head[j, LIST])
        ix.root[lists : lists + len(part.root)] = np.where(part.root >= 0, part.root + begin, NONE)
        ix.place[j] = np.where(part.place[0] >= 0, part.place[0] + begin, GONE)
        ix.pool[USED] += used

    def scored(self, j: int) -> int:
        """The column of the table that ranks dimension j."""
        return 2 * self.d + (j if self.relaxed else 0)

    @property
    def entries(self) -> int:
        """Intervals and extents held: the measure of space of [Ranked matching]."""
        return int(self.arrays.node[self._in_use(), FILLED].sum())

    @property
    def nbytes(self) -> int:
        """Bytes in use, free slots of blocks included."""
        ix = self.arrays
        blocks = int(self._in_use().sum())
        return blocks * (LANES * 28 + 8 * 4) + ix.sep.nbytes + ix.root.nbytes + ix.place.nbytes

    def _in_use(self) -> Bools:
        ix = self.arrays
        used = np.arange(len(ix.node)) < ix.pool[USED]
        free = int(ix.pool[FREE])
        while free >= 0:
            used[free] = False
            free = int(ix.node[free, NEXT])
        return used

    def remove(self, rec: Floats, rows: Ints32) -> None:
        """Take rows out of every dimension, before the table changes. Absent rows are ignored."""
        self._grow(0, len(rec))
        for j in range(self.d):
            delete_from_lists(self.arrays, rec, j, rows)

    def add(self, rec: Floats, rows: Ints32) -> None:
        """Put in rows that are not there, in the dimensions in which they take part."""
        for j in range(self.d):
            at = 0
            while True:
                self._grow(int(self.arrays.pool[USED]) + 2 * LANES, len(rec))
                at = insert_into_lists(self.arrays, rec, j, self.scored(j), self.indexed, rows, at)
                if at == len(rows):
                    break

    def crowded(self, more: int) -> bool:
        """Whether adding so many rows may take more blocks than there are. O(1)."""
        return self._blocks_for(more) > len(self.arrays.node)

    def relieved(self, rec: Floats, more: int) -> list[Callable[[], None]]:
        """Room for so many rows, as the step that puts it in place, O(1). In any thread, while nothing changes before
        the step and others read. O(d n)."""
        grown = self._grown(self._blocks_for(more))

        def step() -> None:
            self.arrays = grown

        return [step]

    def _blocks_for(self, more: int) -> int:
        """Blocks that there are to be for so many more rows: seldom more than one each."""
        return int(self.arrays.pool[USED]) + self.d * more + 2 * LANES

    def _reserve(self, intervals: int, rows: int) -> None:
        """Make room for so many intervals, about, and for all rows of the table."""
        self._grow(intervals // LANES + len(self.arrays.root) + 64, rows)

    def _grow(self, blocks: int, rows: int) -> None:
        self.arrays = ix = self._grown(blocks)
        if ix.place.shape[1] < rows:
            place = np.full((self.d, rows), GONE, np.int32)
            place[:, : ix.place.shape[1]] = ix.place
            self.arrays = ix._replace(place=place)

    def _grown(self, blocks: int) -> Lists:
        """The arrays with room for so many blocks."""
        ix, have = self.arrays, len(self.arrays.node)
        return ix._replace(**_blocks(max(blocks, have * 3 // 2), self.d, ix)) if blocks > have else ix

    def check(self, rec: Floats, rows: Ints32) -> None:
        """Raise AssertionError unless exactly these rows are there, in order, with right keys, extents and places."""
        ix = self.arrays
        seen_blocks = 0
        for j in range(self.d):
            held = []
            for number in range(ix.head[j, LIST], ix.head[j, LIST] + 2 * ix.head[j, NODES] + 2):
                block = int(ix.root[number])
                if block < 0:
                    continue
                while ix.node[block, LEVEL] > 0:
                    block = int(ix.item[block << 4])
                assert ix.node[block, BEFORE] == NONE
                mine: list[int] = []
                before = NONE
                while block >= 0:
                    seen_blocks += 1
                    n = int(ix.node[block, FILLED])
                    slots = slice(block << 4, (block << 4) + n)
                    items = ix.item[slots]
                    assert n > 0 and ix.node[block, BEFORE] == before and ix.node[block, KEY] == items[0], block
                    assert (ix.place[j, items] == block).all(), block
                    assert (ix.lo[slots] == rec[items, 2 * j]).all() and (ix.hi[slots] == rec[items, 2 * j + 1]).all()
                    assert (ix.score[slots] == rec[items, self.scored(j)]).all(), block
                    mine += items.tolist()
                    before, block = block, int(ix.node[block, NEXT])
                keys = [(-rec[row, self.scored(j)], row) for row in mine]
                assert keys == sorted(keys), (number, keys)
                numbers = np.empty(len(mine), np.int32)
                number_lists(ix, rec, j, np.array(mine, np.int32), numbers)
                assert (numbers == number).all(), number
                if self.indexed:
                    found, inner = self._check_tree(int(ix.root[number]))
                    seen_blocks += inner
                    assert found == mine, (number, found, mine)
                held += mine
            wanted = rows[rec[rows, 2 * j] <= rec[rows, 2 * j + 1]]
            assert sorted(held) == sorted(wanted.tolist()), j
        assert seen_blocks == int(self._in_use().sum())

    def _check_tree(self, block: int) -> tuple[list[int], int]:
        """The rows below a block in order, and how many inner blocks there are."""
        ix = self.arrays
        slots = range(block << 4, (block << 4) + int(ix.node[block, FILLED]))
        if ix.node[block, LEVEL] == 0:
            return ix.item[slots.start : slots.stop].tolist(), 0
        rows: list[int] = []
        inner = 1
        for lane, p in enumerate(slots):
            child = int(ix.item[p])
            assert (
                ix.node[child, UP] == block
                and ix.node[child, SLOT] == lane
                and ix.node[child, LEVEL] == ix.node[block, LEVEL] - 1
            )
            below = slice(child << 4, (child << 4) + int(ix.node[child, FILLED]))
            assert ix.lo[p] == ix.lo[below].min() and ix.hi[p] == ix.hi[below].max(), (block, lane)
            found, more = self._check_tree(child)
            assert ix.node[child, KEY] == found[0], (child, found[0])
            rows += found
            inner += more
        assert ix.node[block, KEY] == rows[0]
        return rows, inner


def _blocks(n: int, d: int, old: Lists | None) -> dict[str, npt.NDArray]:
    """The columns `lo` to `place` for n blocks, with what is in the old ones."""
    columns: dict[str, npt.NDArray] = {
        "lo": aligned.full(n * LANES + LANES, INF),
        "hi": aligned.full(n * LANES + LANES, -INF),
        "score": aligned.full(n * LANES, -INF),
        "item": aligned.full(n * LANES, NONE, np.int32),
    }
    columns["node"] = aligned.zeros((n, 8), np.int32)
    if old is not None:
        for name, column in columns.items():
            was = getattr(old, name)
            column[: len(was)] = was
    columns["place"] = np.full((d, 0), GONE, np.int32) if old is None else old.place
    return columns
