"""What the served index is compared with: the paper's index, documents at a time, an inverted file, and a scan.

All four read the same postings, in blocks by word and cell. The postings are laid out anew when subscriptions come or
go: these indexes are there for comparison, and for trust.

- **groups** (Section 5.2 of the paper, design 4): a block is cut into quantiles of alpha; a group is skipped by Theorem
  5.3, left early by Theorem 5.4, cells are pruned by Lemma 6 and postings one by one by the bounds of design 2. Whoever
  passes is scored at once, from the whole post: a skipped group does not mean that its part of a sum is not wanted.
- **ciq** (Chen et al.): cell by cell the postings of all words are merged in order of subscriptions, and each text part
  that comes to what theta asks for in this cell is scored.
- **inverted**: word by word sums are gathered, nothing is pruned.
- **brute**: everything is scored.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.feeds.buffers import score_of
from indexes.feeds.cells import Cells, build_cells, nearest
from indexes.feeds.refill import take_again
from indexes.feeds.step import (
    DONE,
    ENTER,
    EVALUATE,
    FIND,
    TELL,
    begin_post,
    end_post,
    evaluate_short,
    room_for_hits,
    slide,
    take_in,
)
from indexes.feeds.subscribers import ALPHA, ROW, STAMP, TERM, THETA, WORDS, Subscribers, Table, X, Y
from indexes.feeds.window import NEXT
from indexes.feeds.work import AT, BLOCKS, HITS, NEXT_SHORT, OPENED, PHASE, SCORED, TURN, VISITED
from indexes.lean import inner_kernel, lean_kernel, pasted_kernel

Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

GROUPS, CIQ, INVERTED, BRUTE = range(4)
"""Ways to read the postings."""

PARTS = 8
"""Groups of a block at most; none has fewer than `PART` postings but the last."""

PART = 8

RULES = ("cell", "group", "early", "single")
"""What the paper's index may leave out: Lemma 6, Theorems 5.3 and 5.4, and the bounds of single postings."""

_GRID = np.array([1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5])
"""Lengths of a post's weights for which cells keep what they ask for (Lemma 6)."""

SLACK = 1e-9

LEAST = 1e-12
"""What 1 - alpha is taken to be at least where it divides."""

ASKED, SLOPE, WEIGHT, SUM, LENGTH, MOST, INSIDE, FIELDS = range(8)
"""Fields of `Postings.record`: theta / (1 - alpha), alpha / (1 - alpha), the weight; sum, length and greatest of the
weights from there on in order of rarity; and how far the place is from the border of its cell, over the diagonal."""


class Postings(NamedTuple):
    """The arrays."""

    order: Int64  # by word
    at: Int32  # by word: its first block, and behind the last word the end
    cell: Int32  # by block
    group: Int32  # by block: its first group, and likewise
    begin: Int32  # by group: its first posting, and likewise
    slot: Int32  # by posting; in a group by what is asked, in a block of CIQ ascending
    term: Int32  # which of the table's terms it is of
    part: Int32  # its group
    record: Float64  # FIELDS each
    slope: Float64  # by posting: the greatest of its group from there on, likewise the next two
    most: Float64
    length: Float64
    where: Int32  # by term: its posting
    member: Int32  # slots by cell, ascending
    asked: Float64  # by cell and length in the grid: the least similarity that anyone asks for
    rules: Int64
    of: Int64  # by word of a post: the next posting to be merged, and the end
    end: Int64


class ComparedIndex:
    """The postings of a table of subscriptions, read in one of the ways."""

    finds = True

    def __init__(self, way: int, rules: tuple[str, ...] = RULES, capacity: int = 1_000) -> None:
        self._way, self._capacity = way, capacity
        self._rules = np.array([rule in rules for rule in RULES], np.int64)
        self.cells, _ = build_cells(np.empty((0, 2)), capacity)

    def build(self, table: Table, order: Int64, tree: Cells | None = None) -> None:
        """Lay all out, for words in this order, in cells of its own. O(n log n) for n postings."""
        s, slots = table.arrays, table.slots()
        row, note = s.row.reshape(-1, ROW)[slots], s.note.reshape(-1, ROW)[slots]
        self.cells, cell = build_cells(row[:, [X, Y]], self._capacity)
        s.cell[slots] = cell
        words = note[:, WORDS]
        term = np.repeat(note[:, TERM] - np.cumsum(words) + words, words) + np.arange(int(words.sum()))
        owner = np.repeat(np.arange(len(slots)), words)
        word, n, cells = s.term[2 * term].astype(np.int64), len(term), len(self.cells.box) // 4
        rest = np.maximum(LEAST, 1 - row[:, ALPHA])[owner]
        asked, slope = row[owner, THETA] / rest, row[owner, ALPHA] / rest
        by = np.lexsort((slots[owner], row[owner, ALPHA], cell[owner], word))
        block = np.cumsum(np.append(False, np.diff(word[by] * cells + cell[owner[by]]) != 0)[:n])
        first = np.flatnonzero(np.append(True, np.diff(block) != 0)[:n])
        size = np.diff(np.append(first, n))
        parts = np.clip(size // PART, 1, PARTS) if self._way == GROUPS else np.ones(len(size), np.int64)
        part = (np.arange(n) - first[block]) * parts[block] // size[block] + (row[owner[by], ALPHA] == 1) * PARTS
        part = part if self._way == GROUPS else np.zeros(n, np.int64)
        inner = asked[by] if self._way == GROUPS else slots[owner[by]]
        by = by[np.lexsort((inner, part, block))]
        part = np.sort(block * 2 * PARTS + part, kind="stable")
        group = np.cumsum(np.append(False, np.diff(part) != 0)[:n])
        group_first = np.flatnonzero(np.append(True, np.diff(group) != 0)[:n])
        record, box = np.zeros((n, FIELDS)), self.cells.box.reshape(-1, 4)[cell[owner[by]]]
        x, y = row[owner[by], X], row[owner[by], Y]
        inside = np.minimum(np.minimum(x - box[:, 0], box[:, 2] - x), np.minimum(y - box[:, 1], box[:, 3] - y))
        record[:, ASKED], record[:, SLOPE], record[:, INSIDE] = asked[by], slope[by], inside
        where = np.zeros(len(s.term) // 2, np.int32)
        where[term[by]] = np.arange(n)
        block_word = word[by][first] if n else np.empty(0, np.int64)
        self.arrays = Postings(
            np.array(order, np.int64),
            np.searchsorted(block_word, np.arange(len(order) + 1)).astype(np.int32),
            cell[owner[by]][first].astype(np.int32) if n else np.empty(0, np.int32),
            np.append(group[first], len(group_first)).astype(np.int32) if n else np.zeros(1, np.int32),
            np.append(group_first, n).astype(np.int32),
            slots[owner[by]].astype(np.int32),
            term[by].astype(np.int32),
            group.astype(np.int32),
            record.reshape(-1),
            np.zeros(n),
            np.zeros(n),
            np.zeros(n),
            where,
            slots[np.lexsort((slots, cell))].astype(np.int32),
            np.full(cells * len(_GRID), math.inf),
            self._rules,
            np.zeros(0, np.int64),
            np.zeros(0, np.int64),
        )
        _fill(self.arrays, s, slots)

    def add(self, table: Table, slots: Int64) -> None:
        """Subscriptions with a theta are found from now on. O(n log n)."""
        self.build(table, self.arrays.order)

    def remove(self, table: Table, slots: Int64) -> None:
        """Subscriptions are not found any more. O(n log n)."""
        s = table.arrays
        s.there[slots] = 0
        self.build(table, self.arrays.order)
        s.there[slots] = 1

    def move(self, s: Subscribers, slots: Int64, old: Float64) -> None:
        """These have had another theta until now."""
        move_all(self.arrays, s, self._way, slots, old)

    def with_words(self, words: int) -> None:
        """Words below this may come; new ones are the rarest."""
        a, had = self.arrays, len(self.arrays.order)
        if words > had:
            self.arrays = a._replace(
                order=np.append(a.order, np.arange(had, words)),
                at=np.append(a.at, np.full(words - had, a.at[-1], np.int32)),
            )

    def room(self, table: Table) -> tuple[int, int, int]:
        """How many cells there are, and how many blocks and postings a post may have to read."""
        return len(self.cells.box) // 4, len(self.arrays.cell), max(table.terms, table.end)

    def post(self, v: Any, s: Any, limits: Any, owners: Any, found: Any, z: Any, *what: Any) -> int:
        """Posts come: see `post_compared`."""
        self._merge(len(z.word))
        return int(post_compared(self.arrays, self.cells, self._way, v, s, limits, owners, found, z, *what))

    def find(self, v: Any, s: Any, z: Any, *what: Any) -> int:
        """Whom posts may matter to is found, and nothing changes: see `find_many`."""
        self._merge(len(z.word))
        return int(find_many(self.arrays, self.cells, self._way, v, s, z, *what))

    def refill(self, v: Any, s: Any, limits: Any, z: Any, *what: Any) -> None:
        """Posts of the window come into buffers once more: see `refill_compared`."""
        self._merge(len(z.word))
        refill_compared(self.arrays, self.cells, self._way, v, s, limits, z, *what)

    def _merge(self, words: int) -> None:
        if len(self.arrays.of) < words:
            self.arrays = self.arrays._replace(of=np.zeros(words, np.int64), end=np.zeros(words, np.int64))

    def check(self, table: Table) -> None:
        """Postings are where terms say, groups are sorted, and what they keep is what is in them. O(n)."""
        a, s = self.arrays, table.arrays
        assert len(a.slot) == table.terms
        record = a.record.reshape(-1, FIELDS)
        for g in range(len(a.begin) - 1):
            run = slice(a.begin[g], a.begin[g + 1])
            assert (a.where[a.term[run]] == np.arange(a.begin[g], a.begin[g + 1])).all() and (a.part[run] == g).all()
            rest = np.maximum(LEAST, 1 - s.row.reshape(-1, ROW)[a.slot[run], ALPHA])
            assert (record[run, ASKED] == s.row.reshape(-1, ROW)[a.slot[run], THETA] / rest).all()
            key = record[run, ASKED] if self._way == GROUPS else a.slot[run]
            assert (np.diff(key) >= 0).all()
            for kept, name in ((a.slope, SLOPE), (a.most, MOST), (a.length, LENGTH)):
                assert (kept[run] == np.maximum.accumulate(record[run, name][::-1])[::-1]).all()


@lean_kernel
def _fill(g, s, slots):  # type: ignore[no-untyped-def]
    """Work out what postings, groups and cells keep."""
    for i in range(slots.size):
        row = slots[i] * ROW
        begin = s.note[row + TERM]
        end = begin + s.note[row + WORDS]
        for t in range(begin, end):
            own, total, square, most = g.order[np.int64(s.term[2 * t])], 0.0, 0.0, 0.0
            for u in range(begin, end):
                if g.order[np.int64(s.term[2 * u])] >= own:
                    weight = s.term[2 * u + 1]
                    total += weight
                    square += weight * weight
                    most = max(most, weight)
            at = g.where[t] * FIELDS
            g.record[at + WEIGHT], g.record[at + SUM] = s.term[2 * t + 1], total
            g.record[at + LENGTH], g.record[at + MOST] = math.sqrt(square), most
        _lower_cell(g, s, slots[i])
    for group in range(g.begin.size - 1):
        _keep(g, group)


@inner_kernel
def _keep(g, group):  # type: ignore[no-untyped-def]
    """The greatest of each kind from every posting of a group on."""
    slope, most, length = 0.0, 0.0, 0.0
    for p in range(g.begin[group + 1] - 1, g.begin[group] - 1, -1):
        at = p * FIELDS
        slope, most, length = (
            max(slope, g.record[at + SLOPE]),
            max(most, g.record[at + MOST]),
            max(length, g.record[at + LENGTH]),
        )
        g.slope[p], g.most[p], g.length[p] = slope, most, length


@inner_kernel
def _lower_cell(g, s, slot):  # type: ignore[no-untyped-def]
    """A cell asks for no more than a subscription in it does. That it asks for more waits until all is laid out."""
    row = slot * ROW
    alpha, theta = s.row[row + ALPHA], s.row[row + THETA]
    for t in range(_GRID.size):
        wanted = theta - SLACK - (1.0 - alpha) * _GRID[t]
        if wanted <= 0.0:
            asked = 0.0
        elif wanted >= 2.0 * alpha:
            asked = 2.0
        else:
            asked = wanted / alpha
        at = s.cell[slot] * _GRID.size + t
        g.asked[at] = min(g.asked[at], asked)


@inner_kernel
def move(g, s, way, slot):  # type: ignore[no-untyped-def]
    """The theta of a subscription is another one. O(words * group)."""
    row = slot * ROW
    asked = s.row[row + THETA] / max(LEAST, 1.0 - s.row[row + ALPHA])
    begin = s.note[row + TERM]
    for t in range(begin, begin + s.note[row + WORDS]):
        p = np.int64(g.where[t])
        group = g.part[p]
        g.record[p * FIELDS + ASKED] = asked
        if way == GROUPS:
            while p > g.begin[group] and g.record[(p - 1) * FIELDS + ASKED] > asked:
                _swap(g, p - 1)
                p -= 1
            while p + 1 < g.begin[group + 1] and g.record[(p + 1) * FIELDS + ASKED] < asked:
                _swap(g, p)
                p += 1
            _keep(g, group)
    _lower_cell(g, s, slot)


@inner_kernel
def _swap(g, p):  # type: ignore[no-untyped-def]
    """A posting and the next change places."""
    for field in range(FIELDS):
        a, b = p * FIELDS + field, (p + 1) * FIELDS + field
        g.record[a], g.record[b] = g.record[b], g.record[a]
    g.slot[p], g.slot[p + 1] = g.slot[p + 1], g.slot[p]
    g.term[p], g.term[p + 1] = g.term[p + 1], g.term[p]
    g.where[g.term[p]], g.where[g.term[p + 1]] = p, p + 1


@lean_kernel
def move_all(g, s, way, slots, old):  # type: ignore[no-untyped-def]
    """As `move`, for many."""
    for i in range(slots.size):
        if s.row[slots[i] * ROW + THETA] != old[i]:
            move(g, s, way, slots[i])


@lean_kernel
def post_compared(g, c, way, v, s, limits, owners, f, z, batch, window, diagonal, most):  # type: ignore[no-untyped-def]
    """As `ordered.post_ordered`."""
    status = DONE
    while status == DONE and z.size[AT] < batch.end.size:
        if z.size[PHASE] == ENTER:
            begin_post(v, z, batch)
        if z.size[PHASE] == FIND:
            hits = _find(g, c, way, v, s, z, v.size[NEXT] - 1, diagonal)
            status = room_for_hits(owners, z, hits)
            if status == DONE:
                take_in(v, s, limits, owners, z, hits)
                for i in range(hits):
                    if z.hit_score[i] != s.row[np.int64(z.hit[i]) * ROW + THETA]:
                        move(g, s, way, np.int64(z.hit[i]))
                slide(v, s, owners, z, window)
        if z.size[PHASE] == EVALUATE:
            first = z.size[NEXT_SHORT]
            status = evaluate_short(v, s, limits, owners, f, z, diagonal, most)
            for i in range(first, z.size[NEXT_SHORT]):
                move(g, s, way, np.int64(z.short[i]))
        if z.size[PHASE] == TELL:
            status = end_post(v, s, z, batch)
    return status


@lean_kernel
def find_many(g, c, way, v, s, z, first, end, diagonal):  # type: ignore[no-untyped-def]
    """As `ordered.find_many`."""
    found = 0
    for post in range(first, end):
        z.size[TURN] += 1
        z.turn[0] = z.size[TURN]
        found += _find(g, c, way, v, s, z, post, diagonal)
    return found


@lean_kernel
def refill_compared(g, c, way, v, s, limits, z, first, end, diagonal):  # type: ignore[no-untyped-def]
    """As `ordered.refill_ordered`."""
    for post in range(first, end):
        if v.gone[post & (v.x.size - 1)] == 0:
            z.size[TURN] += 1
            z.turn[0] = z.size[TURN]
            hits = _find(g, c, way, v, s, z, post, diagonal)
            take_again(s, limits, z, hits, post)
            for i in range(hits):
                slot = int(z.hit[i])
                if z.hit_score[i] != s.row[slot * ROW + THETA]:
                    move(g, s, way, slot)


@inner_kernel
def _find(g, c, way, v, s, z, post, diagonal):  # type: ignore[no-untyped-def]
    """As `ordered.find_ordered`, in one of the ways."""
    place, terms = post & (v.x.size - 1), v.word.size - 1
    x, y, begin, n = v.x[place], v.y[place], v.term[place], np.int64(v.terms[place])
    for i in range(begin, begin + n):
        z.vector[v.word[i & terms]] = v.weight[i & terms]
    for i in range(n):
        word, j = np.int64(v.word[(begin + i) & terms]), i
        while j > 0 and g.order[z.word[j - 1]] > g.order[word]:
            z.word[j], z.length[j] = z.word[j - 1], z.length[j - 1]
            j -= 1
        z.word[j], z.length[j] = word, v.weight[(begin + i) & terms]
    if way == GROUPS:
        found = _by_groups(g, c, s, z, n, x, y, diagonal)
    elif way == CIQ:
        found = _by_documents(g, c, s, z, n, x, y, diagonal)
    elif way == INVERTED:
        found = _by_words(g, s, z, n, x, y, diagonal)
    else:
        found = _by_all(g, s, z, n, x, y, diagonal)
    for i in range(begin, begin + n):
        z.vector[v.word[i & terms]] = 0.0
    z.counted[HITS] += found
    return found


@inner_kernel
def _take(s, z, slot, x, y, diagonal, found):  # type: ignore[no-untyped-def]
    """Score a subscription that shares a word with the post, from all its words; returns how many are reached now."""
    row = slot * ROW
    first, text = s.note[row + TERM], 0.0
    for t in range(first, first + s.note[row + WORDS]):
        text += s.term[2 * t + 1] * z.vector[np.int64(s.term[2 * t])]
    score = score_of(s.row[row + X], s.row[row + Y], s.row[row + ALPHA], x, y, diagonal, text)
    z.counted[SCORED] += 1
    if score >= s.row[row + THETA]:
        z.hit[found], z.hit_score[found] = slot, score
        found += 1
    return found


@inner_kernel
def _by_groups(g, c, s, z, n, x, y, diagonal):  # type: ignore[no-untyped-def]
    length = 0.0
    for j in range(n):
        length += z.length[j] * z.length[j]
    grid, length = 0, math.sqrt(length) + SLACK
    while grid + 1 < _GRID.size and _GRID[grid + 1] >= length:
        grid += 1
    found, total, square = 0, 0.0, 0.0
    for j in range(n - 1, -1, -1):
        weight = z.length[j]
        total += weight
        square += weight * weight
        norm, most = math.sqrt(square), weight
        for later in range(j + 1, n):
            most = max(most, z.length[later])
        word = z.word[j]
        for b in range(g.at[word], g.at[word + 1]):
            z.counted[BLOCKS] += 1
            near = nearest(c, np.int64(g.cell[b]), x, y, diagonal)
            if g.rules[0] == 0 or near >= g.asked[g.cell[b] * _GRID.size + grid]:
                z.counted[OPENED] += 1
                for group in range(g.group[b], g.group[b + 1]):
                    found = _by_group(g, s, z, group, near, total, norm, most, x, y, diagonal, found)
    return found


@inner_kernel
def _too_little(g, p, near, total, norm):  # type: ignore[no-untyped-def]
    """Theorems 5.3 and 5.4: no posting from p on in its group is of a first common word and a score of theta."""
    asked = g.record[p * FIELDS + ASKED] - g.slope[p] * near
    return min(total * g.most[p], norm * g.length[p]) < asked - SLACK * (1.0 + g.slope[p])


@pasted_kernel
def _by_group(g, s, z, group, near, total, norm, most, x, y, diagonal, found):  # type: ignore[no-untyped-def]
    low, end = np.int64(g.begin[group]), np.int64(g.begin[group + 1])
    begin = low
    if g.rules[1] and _too_little(g, low, near, total, norm):
        end = low
    elif g.rules[2] and end - low > 4:
        while low < end:
            middle = (low + end) >> 1
            if _too_little(g, middle, near, total, norm):
                end = middle
            else:
                low = middle + 1
    for p in range(begin, end):
        at, slot = p * FIELDS, np.int64(g.slot[p])
        row = slot * ROW
        z.counted[VISITED] += 1
        # Within its cell the way to a post outside is at least to the border, and from there to the post.
        reach = max(0.0, near - g.record[at + INSIDE] / diagonal) if near < 1.0 else 1.0
        most_text = min(most * g.record[at + SUM], norm * g.record[at + LENGTH], total * g.record[at + MOST], 1.0)
        alpha = s.row[row + ALPHA]
        worth = g.rules[3] == 0 or (1.0 - alpha) * most_text + alpha * reach >= s.row[row + THETA] - SLACK
        if worth and s.note[row + STAMP] != z.turn[0]:
            s.note[row + STAMP] = z.turn[0]
            found = _take(s, z, slot, x, y, diagonal, found)
    return found


@inner_kernel
def _by_documents(g, c, s, z, n, x, y, diagonal):  # type: ignore[no-untyped-def]
    found = 0
    for j in range(n):
        g.of[j] = g.at[z.word[j]]
    for cell in range(c.box.size // 4):
        near = nearest(c, cell, x, y, diagonal)
        lists = 0
        for j in range(n):
            # g.of is the next block of the word until its cell comes; then its postings are merged.
            b = g.of[j]
            if b < g.at[z.word[j] + 1] and g.cell[b] == cell:
                z.block[lists], z.bound[lists] = g.begin[g.group[b]], g.begin[g.group[b + 1]]
                g.end[lists] = z.word[j]
                lists += 1
                g.of[j] += 1
        z.counted[OPENED] += lists
        found = _merge(g, s, z, lists, near, x, y, diagonal, found)
    return found


@inner_kernel
def _merge(g, s, z, lists, near, x, y, diagonal, found):  # type: ignore[no-untyped-def]
    """Go through postings in order of subscriptions, and score those whose text part may be enough."""
    left = lists
    while left > 0:
        slot, left = np.int64(1) << 40, 0
        for j in range(lists):
            if z.block[j] < z.bound[j]:
                slot = min(slot, np.int64(g.slot[z.block[j]]))
                left += 1
        if left > 0:
            text, row = 0.0, slot * ROW
            for j in range(lists):
                if z.block[j] < z.bound[j] and g.slot[z.block[j]] == slot:
                    text += g.record[z.block[j] * FIELDS + WEIGHT] * z.vector[g.end[j]]
                    z.block[j] += 1
                    z.counted[VISITED] += 1
            alpha = s.row[row + ALPHA]
            if (1.0 - alpha) * text + alpha * near >= s.row[row + THETA] - SLACK:
                found = _take(s, z, slot, x, y, diagonal, found)
    return found


@inner_kernel
def _by_words(g, s, z, n, x, y, diagonal):  # type: ignore[no-untyped-def]
    seen = 0
    for j in range(n):
        word, weight = z.word[j], z.length[j]
        for p in range(g.begin[g.group[g.at[word]]], g.begin[g.group[g.at[word + 1]]]):
            slot = np.int64(g.slot[p])
            z.counted[VISITED] += 1
            if s.note[slot * ROW + STAMP] != z.turn[0]:
                s.note[slot * ROW + STAMP] = z.turn[0]
                z.sum[slot] = 0.0
                z.seen[seen] = slot
                seen += 1
            z.sum[slot] += weight * g.record[p * FIELDS + WEIGHT]
    found = 0
    for i in range(seen):
        slot = np.int64(z.seen[i])
        row = slot * ROW
        score = score_of(s.row[row + X], s.row[row + Y], s.row[row + ALPHA], x, y, diagonal, z.sum[slot])
        z.counted[SCORED] += 1
        # The sum was gathered in order of rarity: whoever may reach theta is scored as everybody is.
        if score >= s.row[row + THETA] - SLACK:
            found = _take(s, z, slot, x, y, diagonal, found)
    return found


@inner_kernel
def _by_all(g, s, z, n, x, y, diagonal):  # type: ignore[no-untyped-def]
    found = 0
    for i in range(g.member.size):
        slot = np.int64(g.member[i])
        row = slot * ROW
        first, shared = s.note[row + TERM], False
        for t in range(first, first + s.note[row + WORDS]):
            shared |= z.vector[np.int64(s.term[2 * t])] > 0.0
        if shared:
            found = _take(s, z, slot, x, y, diagonal, found)
    return found
