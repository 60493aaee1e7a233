"""Scored interval trees and IR-trees, which change in place.

An interval tree over chosen separators, the same for both: an interval belongs to the highest node whose separator it
contains, or, when it contains none, to the gap between two of them. So a node or a gap has a *list* of intervals in
order of score, and a point meets only lists on one path of the tree and one gap. The scored interval tree goes through
a list from the best on; the IR-tree keeps an R-tree over each list, in which a node that the point lies in always leads
to an interval that it meets, because all intervals of a list share the separator (paper, Lemma 3.1).

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
query opens all lists on its path at once, since most come to be asked and the look-ups do not wait for each other.

Source: Machanavajjhala et al., "Scalable ranked publish/subscribe", 2.2.2 and 3.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from indexes import aligned
from indexes.jit import inline_kernel
from indexes.lanes import LANES, lanes_from, lanes_upto, low_bit
from indexes.lean import inner_kernel, lean_kernel, pasted_kernel
from indexes.matchers.cursors import CURSORS, LIST_CURSOR, Cursors, best_cursor, drop_cursor, put_cursor
from indexes.matchers.order import rank_order
from indexes.matchers.runs import ENTRIES, GONE, HOLES, LEAVES, keep
from indexes.matchers.steps import Step

Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

INF = np.inf
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

    sep: Float64
    head: Int64
    root: Int32
    lo: Float64
    hi: Float64
    score: Float64
    item: Int32
    node: Int32
    place: Int32
    pool: Int64


@inner_kernel
def list_of(ix, j, lo, hi):  # type: ignore[no-untyped-def]
    """The list that an interval belongs to. O(log m)."""
    base = ix.head[j, SEP]
    m = ix.head[j, NODES]
    a = np.int64(1)
    b = m + 1
    while a < b:
        c = (a + b) >> 1
        if ix.sep[base + c] < lo:
            a = c + 1
        else:
            b = c
    first = a  # the first separator >= lo
    b = m + 1
    while a < b:
        c = (a + b) >> 1
        if ix.sep[base + c] <= hi:
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
    return ix.head[j, LIST] + found


@pasted_kernel
def meeting(ix, block, lane, a, b, ends):  # type: ignore[no-untyped-def]
    """The mask of the slots of a block, from `lane` on, that an event meets, where these `ends` are to be compared."""
    at = block << 4
    mask = ALL >> (LANES - ix.node[block, FILLED]) & (ALL << lane)
    if ends & LEFT:
        mask &= lanes_upto(ix.lo, at, b)
    if ends & RIGHT:
        mask &= lanes_from(ix.hi, at, a)
    return mask


@pasted_kernel
def next_in_list(ix, block, lane, a, b, ends, seen, t):  # type: ignore[no-untyped-def]
    """The first slot behind lane - 1 of a block, in the order of its list, that the event meets, or -1."""
    found = np.int64(-1)
    mask = 0
    if lane < LANES:
        mask = meeting(ix, block, lane, a, b, ends)
    entries = ix.node[block, FILLED] - lane
    going = True
    while going:
        if mask != 0 and ix.node[block, LEVEL] == 0:
            found = (block << 4) + low_bit(mask)
            going = False
        else:
            lane = np.int64(0)
            if mask != 0:
                block = np.int64(ix.item[(block << 4) + low_bit(mask)])
            elif ix.node[block, UP] >= 0:
                lane = np.int64(ix.node[block, SLOT]) + 1
                block = np.int64(ix.node[block, UP])
            else:
                block = np.int64(ix.node[block, NEXT]) if ix.node[block, LEVEL] == 0 else np.int64(-1)
            going = block >= 0
            mask = 0
            if going and lane < ix.node[block, FILLED]:
                mask = meeting(ix, block, lane, a, b, ends)
                entries += ix.node[block, FILLED] - lane
                if ix.node[block, LEVEL] == 0:
                    seen[t, LEAVES] += 1
                    seen[t, HOLES] += mask == 0
    seen[t, ENTRIES] += entries
    return found


@pasted_kernel
def open_lists(ix, j, a, b, cu, seen, t):  # type: ignore[no-untyped-def]
    """Cursors at the best that the event meets of each list of dimension j; `used` counts them. O(log n) lists."""
    begin = j * CURSORS
    n = np.int64(0)
    first = ix.head[j, LIST]
    m = ix.head[j, NODES]
    base = ix.head[j, SEP]
    if a > b:  # only what is unbounded on both sides, and that lies in one list
        put_cursor(cu, begin, LIST_CURSOR, list_of(ix, j, -INF, INF), LEFT | RIGHT, 0.0, 0)
        n = np.int64(1)
    else:
        node = ix.head[j, ROOT]
        step = node >> 1
        last = np.int64(0)
        while node > 0:
            right = False
            stop = step == 0
            if node <= m:
                separator = ix.sep[base + node]
                right = a > separator
                put_cursor(cu, begin + n, LIST_CURSOR, first + node, RIGHT if right else LEFT, 0.0, 0)
                n += 1
                if right:
                    last = node
                elif a == separator:  # whatever holds it holds this separator or one further up
                    last = np.int64(-1)
                    stop = True
            node = np.int64(0) if stop else node + step if right else node - step
            step >>= 1
        if last >= 0:
            put_cursor(cu, begin + n, LIST_CURSOR, first + m + 1 + last, LEFT | RIGHT, 0.0, 0)
            n += 1
    used = np.int64(0)
    for z in range(begin, begin + n):
        block = np.int64(ix.root[cu.at[z]])
        if block >= 0:
            place = next_in_list(ix, block, np.int64(0), a, b, cu.aux[z], seen, t)
            if place >= 0:
                put_cursor(cu, begin + used, LIST_CURSOR, place, cu.aux[z], ix.score[place], ix.item[place])
                used += 1
    cu.used[j] = used


@pasted_kernel
def seek_list(ix, j, a, b, cu, z, seen, t):  # type: ignore[no-untyped-def]
    """Move cursor z on to the next interval of its list that the event meets, or close it."""
    at = cu.at[z]
    place = next_in_list(ix, at >> 4, (at & (LANES - 1)) + 1, a, b, cu.aux[z], seen, t)
    if place >= 0:
        cu.at[z] = place
        cu.row[z] = ix.item[place]
        cu.score[z] = ix.score[place]
    else:
        drop_cursor(cu, j, z)


@inner_kernel
def _offer_list(ix, rec, scored, number, a, b, out, t, scores, n, k, seen):  # type: ignore[no-untyped-def]
    """Put what the event meets of a list among the n best so far; returns how many there are now."""
    place = np.int64(ix.root[number])
    if place >= 0:
        place = next_in_list(ix, place, np.int64(0), a, b, LEFT | RIGHT, seen, t)
    while place >= 0:
        row = ix.item[place]
        score = rec[row, scored]
        if n == k and (score < scores[k - 1] or (score == scores[k - 1] and row > out[t, k - 1])):
            place = np.int64(-1)
        else:
            n = keep(out, t, scores, n, k, score, row)
            place = next_in_list(ix, place >> 4, (place & (LANES - 1)) + 1, a, b, LEFT | RIGHT, seen, t)
    return n


@inner_kernel
def _overlap(ix, rec, j, scored, a, b, k, scores, out, t, seen):  # type: ignore[no-untyped-def]
    """The k best that a range meets: on the two paths to its ends, and in all nodes and gaps between."""
    n = 0
    first, m, base = ix.head[j, LIST], ix.head[j, NODES], ix.head[j, SEP]
    upto_a = np.int64(0)
    below_b = np.int64(0)
    for side in range(2):
        end = b if side else a
        node = ix.head[j, ROOT]
        step = node >> 1
        while node > 0:
            right = False
            if node <= m:
                s = ix.sep[base + node]
                right = s < b if side else s <= a
                if right and side:
                    below_b = node
                elif right:
                    upto_a = node
                if (s > end) if side else (s < end):
                    n = _offer_list(ix, rec, scored, first + node, a, b, out, t, scores, n, k, seen)
            node = np.int64(0) if step == 0 else node + step if right else node - step
            step >>= 1
    begin = upto_a if upto_a > 0 and ix.sep[base + upto_a] == a else upto_a + 1
    end_node = below_b + 1 if below_b < m and ix.sep[base + below_b + 1] == b else below_b
    for node in range(begin, end_node + 1):
        n = _offer_list(ix, rec, scored, first + node, a, b, out, t, scores, n, k, seen)
    for gap in range(upto_a, below_b + 1):
        n = _offer_list(ix, rec, scored, first + m + 1 + gap, a, b, out, t, scores, n, k, seen)
    return n


@lean_kernel
def top_of_lists(
    ix: Lists,
    rec: Float64,
    j: int,
    scored: int,
    events: Float64,
    at: int,
    k: int,
    cu: Cursors,
    scores: Float64,
    out: Int32,
    count: Int64,
    seen: Int64,
) -> None:
    """The k best rows of dimension j that each event meets, as `runs.top_of_runs`.

    O((k + log n) log n) for a point with an R-tree a list (Theorem 3.1), linear in what it does not meet without.
    """
    for t in range(events.shape[0]):
        a = events[t, at]
        b = events[t, at + 1]
        n = 0
        if a < b:
            n = _overlap(ix, rec, j, scored, a, b, k, scores, out, t, seen)
        else:
            open_lists(ix, j, a, b, cu, seen, t)
            begin = j * CURSORS
            while n < k and cu.used[j] > 0:
                z = best_cursor(cu, begin, begin + cu.used[j])
                out[t, n] = cu.row[z]
                n += 1
                if n < k:
                    seek_list(ix, j, a, b, cu, z, seen, t)
        count[t] = n


# Changing lists.


@inline_kernel
def _better(rec, scored, row, other):  # type: ignore[no-untyped-def]
    return rec[row, scored] > rec[other, scored] or (rec[row, scored] == rec[other, scored] and row < other)


@inner_kernel
def _new_block(ix, level):  # type: ignore[no-untyped-def]
    block = ix.pool[FREE]
    if block >= 0:
        ix.pool[FREE] = ix.node[block, NEXT]
    else:
        block = ix.pool[USED]
        ix.pool[USED] += 1
    ix.node[block, LEVEL] = level
    ix.node[block, FILLED] = 0
    ix.node[block, NEXT], ix.node[block, BEFORE] = NONE, NONE
    ix.node[block, UP], ix.node[block, SLOT] = NONE, 0
    return block


@inner_kernel
def _move(ix, j, block, lane, to, place):  # type: ignore[no-untyped-def]
    """Copy a slot to another place, and tell what hangs on it where it is now."""
    p = (block << 4) + lane
    q = (to << 4) + place
    ix.lo[q], ix.hi[q], ix.score[q], ix.item[q] = ix.lo[p], ix.hi[p], ix.score[p], ix.item[p]
    if ix.node[block, LEVEL] == 0:
        ix.place[j, ix.item[q]] = to
    else:
        ix.node[ix.item[q], UP], ix.node[ix.item[q], SLOT] = to, place


@inner_kernel
def _cover(ix, block):  # type: ignore[no-untyped-def]
    """Set the extent of a block where it hangs; whether it was another one."""
    at = (np.int64(ix.node[block, UP]) << 4) + ix.node[block, SLOT]
    p = block << 4
    lo, hi = INF, -INF
    for i in range(p, p + ix.node[block, FILLED]):
        lo = min(lo, ix.lo[i])
        hi = max(hi, ix.hi[i])
    changed = ix.lo[at] != lo or ix.hi[at] != hi
    ix.lo[at], ix.hi[at] = lo, hi
    return changed


@inner_kernel
def _hang(ix, j, parent, lane, block):  # type: ignore[no-untyped-def]
    """Hang a block into an inner one that is not full."""
    for z in range(ix.node[parent, FILLED], lane, -1):
        _move(ix, j, parent, z - 1, parent, z)
    ix.node[parent, FILLED] += 1
    ix.item[(parent << 4) + lane] = block
    ix.node[block, UP], ix.node[block, SLOT] = parent, lane
    _cover(ix, block)


@inner_kernel
def _halve(ix, j, block):  # type: ignore[no-untyped-def]
    """Move the worse half of a full block to a new one behind it, which is returned; where it hangs is up to the
    caller."""
    new = _new_block(ix, ix.node[block, LEVEL])
    half = LANES // 2
    for z in range(half, LANES):
        _move(ix, j, block, z, new, z - half)
    ix.node[block, FILLED] = half
    ix.node[new, FILLED] = LANES - half
    if ix.node[block, LEVEL] == 0:
        ix.node[new, KEY] = ix.item[new << 4]
        ix.node[new, NEXT], ix.node[new, BEFORE] = ix.node[block, NEXT], block
        if ix.node[block, NEXT] >= 0:
            ix.node[ix.node[block, NEXT], BEFORE] = new
        ix.node[block, NEXT] = new
    else:
        ix.node[new, KEY] = ix.node[ix.item[new << 4], KEY]
    return new


@inner_kernel
def _insert(ix, rec, j, scored, indexed, row):  # type: ignore[no-untyped-def]
    lo = rec[row, 2 * j]
    hi = rec[row, 2 * j + 1]
    number = list_of(ix, j, lo, hi)
    block = np.int64(ix.root[number])
    if block < 0:
        block = _new_block(ix, 0)
        ix.root[number] = block
        ix.node[block, KEY] = row
    if indexed:
        if ix.node[block, FILLED] == LANES:
            top = _new_block(ix, ix.node[block, LEVEL] + 1)
            ix.node[top, KEY] = ix.node[block, KEY]
            ix.root[number] = top
            _hang(ix, j, top, 0, block)
            _hang(ix, j, top, 1, _halve(ix, j, block))
            _cover(ix, block)
            block = top
        while ix.node[block, LEVEL] > 0:
            lane = ix.node[block, FILLED] - 1
            while lane > 0 and _better(rec, scored, row, ix.node[ix.item[(block << 4) + lane], KEY]):
                lane -= 1
            child = np.int64(ix.item[(block << 4) + lane])
            if ix.node[child, FILLED] == LANES:
                new = _halve(ix, j, child)
                _hang(ix, j, block, lane + 1, new)
                _cover(ix, child)
                if not _better(rec, scored, row, ix.node[new, KEY]):
                    child = new
            block = child
    else:
        while ix.node[block, NEXT] >= 0 and not _better(rec, scored, row, ix.node[ix.node[block, NEXT], KEY]):
            block = np.int64(ix.node[block, NEXT])
        if ix.node[block, FILLED] == LANES:
            new = _halve(ix, j, block)
            if not _better(rec, scored, row, ix.node[new, KEY]):
                block = new
    lane = np.int64(ix.node[block, FILLED])
    while lane > 0 and _better(rec, scored, row, ix.item[(block << 4) + lane - 1]):
        lane -= 1
    for z in range(ix.node[block, FILLED], lane, -1):
        _move(ix, j, block, z - 1, block, z)
    ix.node[block, FILLED] += 1
    at = (block << 4) + lane
    ix.lo[at], ix.hi[at], ix.score[at], ix.item[at] = lo, hi, rec[row, scored], row
    ix.place[j, row] = block
    _settle(ix, block, lane == 0)


@inner_kernel
def _settle(ix, block, first):  # type: ignore[no-untyped-def]
    """Set the keys (when the first of a block is another one) and the extents above a block that has changed."""
    key = ix.item[block << 4] if ix.node[block, LEVEL] == 0 else ix.node[ix.item[block << 4], KEY]
    changed = True
    while block >= 0:
        if first:
            ix.node[block, KEY] = key
        if ix.node[block, UP] >= 0:
            changed = changed and _cover(ix, block)
            first = first and ix.node[block, SLOT] == 0
        block = np.int64(ix.node[block, UP]) if changed or first else np.int64(-1)


@inner_kernel
def _delete(ix, rec, j, row):  # type: ignore[no-untyped-def]
    block = np.int64(ix.place[j, row])
    ix.place[j, row] = GONE
    lane = np.int64(0)
    while ix.item[(block << 4) + lane] != row:
        lane += 1
    number = list_of(ix, j, rec[row, 2 * j], rec[row, 2 * j + 1])
    going = True
    while going:
        for z in range(lane + 1, ix.node[block, FILLED]):
            _move(ix, j, block, z, block, z - 1)
        ix.node[block, FILLED] -= 1
        going = ix.node[block, FILLED] == 0
        if going:
            if ix.node[block, LEVEL] == 0:
                if ix.node[block, NEXT] >= 0:
                    ix.node[ix.node[block, NEXT], BEFORE] = ix.node[block, BEFORE]
                if ix.node[block, BEFORE] >= 0:
                    ix.node[ix.node[block, BEFORE], NEXT] = ix.node[block, NEXT]
            parent = np.int64(ix.node[block, UP])
            if ix.root[number] == block:
                ix.root[number] = ix.node[block, NEXT] if ix.node[block, LEVEL] == 0 else NONE
            lane = np.int64(ix.node[block, SLOT])
            ix.node[block, NEXT] = ix.pool[FREE]
            ix.pool[FREE] = block
            block = parent
            going = bool(block >= 0)
    if block >= 0:
        _settle(ix, block, lane == 0)


@lean_kernel
def insert_into_lists(ix: Lists, rec: Float64, j: int, scored: int, indexed: int, rows: Int32, begin: int) -> int:
    """Insert rows[begin:] into dimension j, as `rec` has them, while blocks last; those that take no part in the
    dimension are passed over. Returns the first that did not go in, or how many there are. O(log n) each with an
    R-tree a list, else linear in the list."""
    i = begin
    while i < rows.size and ix.pool[USED] + 2 * LANES <= ix.node.shape[0]:
        if rec[rows[i], 2 * j] <= rec[rows[i], 2 * j + 1]:
            _insert(ix, rec, j, scored, indexed, rows[i])
        i += 1
    return i


@lean_kernel
def delete_from_lists(ix: Lists, rec: Float64, j: int, rows: Int32) -> None:
    """Delete rows from dimension j; `rec` must still have them. Rows that are not there are passed over. O(log n)."""
    for i in range(rows.size):
        if ix.place[j, rows[i]] != GONE:
            _delete(ix, rec, j, rows[i])


@lean_kernel
def number_lists(ix: Lists, rec: Float64, j: int, rows: Int32, numbers: Int32) -> None:
    """Write the number of the list that each row belongs to."""
    for i in range(rows.size):
        numbers[i] = list_of(ix, j, rec[rows[i], 2 * j], rec[rows[i], 2 * j + 1])


@lean_kernel
def _fill_lists(ix: Lists, rec: Float64, j: int, scored: int, indexed: int, rows: Int32, numbers: Int32) -> None:
    """Write rows, in order of list and rank, to full blocks, and pack R-trees over them."""
    i = 0
    while i < rows.size:
        number = numbers[i]
        begin = ix.pool[USED]
        last = -1
        while i < rows.size and numbers[i] == number:
            block = _new_block(ix, 0)
            ix.node[block, KEY] = rows[i]
            ix.node[block, BEFORE] = last
            if last >= 0:
                ix.node[last, NEXT] = block
            last = block
            n = 0
            while n < LANES and i < rows.size and numbers[i] == number:
                at = (block << 4) + n
                ix.lo[at], ix.hi[at] = rec[rows[i], 2 * j], rec[rows[i], 2 * j + 1]
                ix.score[at], ix.item[at] = rec[rows[i], scored], rows[i]
                ix.place[j, rows[i]] = block
                n += 1
                i += 1
            ix.node[block, FILLED] = n
        end = ix.pool[USED]
        ix.root[number] = begin
        while indexed and end - begin > 1:
            for below in range(begin, end):
                if (below - begin) % LANES == 0:
                    block = _new_block(ix, ix.node[begin, LEVEL] + 1)
                    ix.node[block, KEY] = ix.node[below, KEY]
                _hang(ix, j, block, ix.node[block, FILLED], below)
            begin, end = end, ix.pool[USED]
            ix.root[number] = begin


class ListIndex:
    """One scored interval tree (or, with `indexed`, one IR-tree) for each of d dimensions, over the rows of a table.

    Separators are chosen when it is built; everything else changes in place. `arrays` is what kernels take and may be
    another one after a change.
    """

    def __init__(self, d: int, relaxed: bool, indexed: bool = True, separators: list[Float64] | None = None) -> None:
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
        cls, rec: Float64, rows: Int32, d: int, relaxed: bool, indexed: bool = True, spacing: int = PER_SEPARATOR
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
        """Intervals and extents held: the paper's measure of space."""
        return int(self.arrays.node[self._in_use(), FILLED].sum())

    @property
    def nbytes(self) -> int:
        """Bytes in use, free slots of blocks included."""
        ix = self.arrays
        blocks = int(self._in_use().sum())
        return blocks * (LANES * 28 + 8 * 4) + ix.sep.nbytes + ix.root.nbytes + ix.place.nbytes

    def _in_use(self) -> npt.NDArray[np.bool_]:
        ix = self.arrays
        used = np.arange(len(ix.node)) < ix.pool[USED]
        free = int(ix.pool[FREE])
        while free >= 0:
            used[free] = False
            free = int(ix.node[free, NEXT])
        return used

    def remove(self, rec: Float64, rows: Int32) -> None:
        """Take rows out of every dimension, before the table changes. Rows that are not there are passed over."""
        self._grow(0, len(rec))
        for j in range(self.d):
            delete_from_lists(self.arrays, rec, j, rows)

    def add(self, rec: Float64, rows: Int32) -> None:
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

    def relieved(self, rec: Float64, more: int) -> list[Step]:
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

    def check(self, rec: Float64, rows: Int32) -> None:
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
