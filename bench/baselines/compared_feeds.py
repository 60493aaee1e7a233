"""Indexes that the served one is compared with: the paper's, documents at a time, an inverted file, and a scan.

All four read the same postings, in blocks by word and cell, which are rebuilt when subscriptions are added or removed.

- **groups** ([Spatial-keyword] 5.2): a block is cut into quantiles of alpha. Theorem 5.3 skips groups, Theorem 5.4 ends
  the reading of one early, Lemma 6 prunes cells, and bounds of the text part prune single postings. A subscription
  that passes is scored at once, from all words: a skipped group may hold a part of its sum.
- **ciq** (Chen et al.): cell by cell the postings of all words are merged in order of subscriptions, and a subscription
  whose text part suffices for theta in the cell is scored.
- **inverted**: sums are accumulated word by word, and nothing is pruned.
- **brute**: every subscription that shares a word is scored.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from indexes.compiled.jit import inlined, internal, kernel
from indexes.core.arrays import INF, Floats, Ints, Ints32, int64
from indexes.feeds.kernels.buffers import score_of
from indexes.feeds.kernels.cells import Cells, build_cells, nearest
from indexes.feeds.kernels.recipients import words_by_rarity
from indexes.feeds.kernels.refill import take_again
from indexes.feeds.kernels.scratch import AT, BLOCKS, HITS, NEXT_SHORT, OPENED, PHASE, SCORED, VISITED, Reads, Scratch
from indexes.feeds.kernels.step import (
    DONE,
    ENTER,
    EVALUATE,
    FIND,
    REPORT,
    StepState,
    begin_post,
    begin_search,
    end_post,
    evaluate_short,
    room_for_hits,
    slide,
    take_in,
)
from indexes.feeds.kernels.subscriptions import ALPHA, ROW, TERM, THETA, Subscribers, Table, X, Y, terms_of
from indexes.feeds.kernels.window import NEXT, Batch
from indexes.feeds.subscription_index import SubscriptionIndex

GROUPS, CIQ, INVERTED, BRUTE = range(4)
"""Strategies: how the postings are read."""

PARTS = 8
"""Groups of a block at most; none but the last has fewer than `PART` postings."""

PART = 8

RULES = ("cell", "group", "early", "single")
"""The pruning rules of the paper's index: Lemma 6, Theorems 5.3 and 5.4, and the bounds of single postings."""

_GRID = np.array([1.0, 0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5])
"""Lengths of a post's weights for which cells keep the similarity they need (Lemma 6)."""

SLACK = 1e-9

LEAST = 1e-12
"""The least value of 1 - alpha as a divisor."""

NEEDED, SLOPE, WEIGHT, SUM, LENGTH, MOST, INSIDE, FIELDS = range(8)
"""Fields of `Postings.record`: theta / (1 - alpha), alpha / (1 - alpha), the weight; sum, length and greatest of the
weights from it on in order of rarity; and the distance of the place from the border of its cell."""


class Postings(NamedTuple):
    """The arrays."""

    order: Ints  # by word
    at: Ints32  # by word: its first block, and after the last word the end
    cell: Ints32  # by block
    group: Ints32  # by block: its first group, and likewise
    begin: Ints32  # by group: its first posting, and likewise
    slot: Ints32  # by posting; in a group by NEEDED, in a block of CIQ ascending
    term: Ints32  # its term in the table
    part: Ints32  # its group
    record: Floats  # FIELDS each
    slope: Floats  # by posting: the greatest of its group from it on, likewise the next two
    most: Floats
    length: Floats
    where: Ints32  # by term: its posting
    member: Ints32  # slots by cell, ascending
    needed: Floats  # by cell and length in the grid: the least similarity with which a subscription can be reached
    rules: Ints
    next_block: Ints  # by word of a post: the next block to be merged
    merged: Ints  # by list that is merged: its word
    stamp: Ints  # by slot: the step that scored it last


class Post(NamedTuple):
    """A post whose words are in `Scratch.word`."""

    words: int
    x: float
    y: float
    diagonal: float


class Rest(NamedTuple):
    """Sum, length and greatest of the weights of a post from some word on in order of rarity."""

    total: float
    norm: float
    most: float


class ComparedIndex(SubscriptionIndex):
    """The postings of a table of subscriptions, read by one of the strategies: a `SubscriptionIndex`."""

    def __init__(self, strategy: int, rules: tuple[str, ...] = RULES, capacity: int = 1_000) -> None:
        self._strategy, self._capacity = strategy, capacity
        self._rules = np.array([rule in rules for rule in RULES], np.int64)
        self.cells, _ = build_cells(np.empty((0, 2)), capacity)

    def build(self, table: Table, order: Ints, tree: Cells | None = None) -> None:
        """Index all subscriptions, for words in this order, in cells of its own. O(n log n) for n postings."""
        s, slots = table.arrays, table.slots()
        row = s.row.reshape(-1, ROW)[slots]
        self.cells, cell = build_cells(row[:, [X, Y]], self._capacity)
        s.cell[slots] = cell
        term, words = terms_of(row)
        owner = np.repeat(np.arange(len(slots)), words)
        word, n, cells = s.term[2 * term].astype(np.int64), len(term), len(self.cells.box) // 4
        rest = np.maximum(LEAST, 1 - row[:, ALPHA])[owner]
        needed, slope = row[owner, THETA] / rest, row[owner, ALPHA] / rest
        by = np.lexsort((slots[owner], row[owner, ALPHA], cell[owner], word))
        block = np.cumsum(np.append(False, np.diff(word[by] * cells + cell[owner[by]]) != 0)[:n])
        first = np.flatnonzero(np.append(True, np.diff(block) != 0)[:n])
        size = np.diff(np.append(first, n))
        parts = np.clip(size // PART, 1, PARTS) if self._strategy == GROUPS else np.ones(len(size), np.int64)
        part = (np.arange(n) - first[block]) * parts[block] // size[block] + (row[owner[by], ALPHA] == 1) * PARTS
        part = part if self._strategy == GROUPS else np.zeros(n, np.int64)
        inner = needed[by] if self._strategy == GROUPS else slots[owner[by]]
        by = by[np.lexsort((inner, part, block))]
        part = np.sort(block * 2 * PARTS + part, kind="stable")
        group = np.cumsum(np.append(False, np.diff(part) != 0)[:n])
        group_first = np.flatnonzero(np.append(True, np.diff(group) != 0)[:n])
        record, box = np.zeros((n, FIELDS)), self.cells.box.reshape(-1, 4)[cell[owner[by]]]
        x, y = row[owner[by], X], row[owner[by], Y]
        inside = np.minimum(np.minimum(x - box[:, 0], box[:, 2] - x), np.minimum(y - box[:, 1], box[:, 3] - y))
        record[:, NEEDED], record[:, SLOPE], record[:, INSIDE] = needed[by], slope[by], inside
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
            np.full(cells * len(_GRID), INF),
            self._rules,
            np.zeros(0, np.int64),
            np.zeros(0, np.int64),
            np.zeros(table.end, np.int64),
        )
        _fill(self.arrays, s, slots)

    def add(self, table: Table, slots: Ints) -> bool:
        """Add subscriptions that have a theta. O(n log n)."""
        self.build(table, self.arrays.order)
        return True

    def remove(self, table: Table, slots: Ints) -> None:
        """Remove subscriptions. O(n log n)."""
        s = table.arrays
        s.there[slots] = 0
        self.build(table, self.arrays.order)
        s.there[slots] = 1

    def move(self, subscribers: Subscribers, slots: Ints, old: Floats) -> None:
        """Move subscriptions whose thetas were `old`."""
        move_all(self.arrays, subscribers, self._strategy, slots, old)

    def with_words(self, words: int) -> None:
        """Make room for words below this; new ones are the rarest."""
        a, had = self.arrays, len(self.arrays.order)
        if words > had:
            self.arrays = a._replace(
                order=np.append(a.order, np.arange(had, words)),
                at=np.append(a.at, np.full(words - had, a.at[-1], np.int32)),
            )

    def reads(self, table: Table) -> Reads:
        """What finding the recipients of a post may read, at most."""
        return Reads(len(self.cells.box) // 4, len(self.arrays.cell), max(table.terms, table.end), table.end)

    def post(self, state: StepState, batch: Batch, window_posts: int, most_entries: int) -> int:
        """Publish the posts of a batch."""
        arrays = self._with_room(state.scratch)
        return post_compared(arrays, self.cells, self._strategy, state, batch, window_posts, most_entries)

    def find(self, state: StepState, first: int, end: int) -> int:
        """Find the recipients of posts of the window, and change nothing."""
        return find_many(self._with_room(state.scratch), self.cells, self._strategy, state, first, end)

    def refill(self, state: StepState, bounds: Floats, first: int, end: int) -> None:
        """Insert posts of the window, from the newest on, into buffers."""
        refill_compared(self._with_room(state.scratch), self.cells, self._strategy, state, bounds, first, end)

    def _with_room(self, scratch: Scratch) -> Postings:
        words = len(scratch.word)
        if len(self.arrays.merged) < words:
            none = np.zeros(words, np.int64)
            self.arrays = self.arrays._replace(next_block=none, merged=none.copy())
        return self.arrays

    def check(self, table: Table) -> None:
        """Raise AssertionError unless terms know their postings, and groups are sorted and know their maxima. O(n)."""
        a, s = self.arrays, table.arrays
        assert len(a.slot) == table.terms
        record = a.record.reshape(-1, FIELDS)
        for g in range(len(a.begin) - 1):
            run = slice(a.begin[g], a.begin[g + 1])
            assert (a.where[a.term[run]] == np.arange(a.begin[g], a.begin[g + 1])).all() and (a.part[run] == g).all()
            rest = np.maximum(LEAST, 1 - s.row.reshape(-1, ROW)[a.slot[run], ALPHA])
            assert (record[run, NEEDED] == s.row.reshape(-1, ROW)[a.slot[run], THETA] / rest).all()
            key = record[run, NEEDED] if self._strategy == GROUPS else a.slot[run]
            assert (np.diff(key) >= 0).all()
            for kept, name in ((a.slope, SLOPE), (a.most, MOST), (a.length, LENGTH)):
                assert (kept[run] == np.maximum.accumulate(record[run, name][::-1])[::-1]).all()


@kernel
def _fill(postings: Postings, table: Subscribers, slots: Ints) -> None:
    """Compute what postings, groups and cells keep."""
    for i in range(slots.size):
        slot = slots[i]
        row = slot * ROW
        begin = table.note[row + TERM]
        end = begin + table.words[slot]
        for t in range(begin, end):
            own, total, square, most = postings.order[int64(table.term[2 * t])], 0.0, 0.0, 0.0
            for u in range(begin, end):
                if postings.order[int64(table.term[2 * u])] >= own:
                    weight = table.term[2 * u + 1]
                    total += weight
                    square += weight * weight
                    most = max(most, weight)
            at = postings.where[t] * FIELDS
            postings.record[at + WEIGHT], postings.record[at + SUM] = table.term[2 * t + 1], total
            postings.record[at + LENGTH], postings.record[at + MOST] = math.sqrt(square), most
        _lower_cell(postings, table, slots[i])
    for group in range(postings.begin.size - 1):
        _keep_maxima(postings, group)


@internal
def _keep_maxima(postings: Postings, group: int) -> None:
    """Compute the maxima from every posting of a group on."""
    slope, most, length = 0.0, 0.0, 0.0
    for p in range(postings.begin[group + 1] - 1, postings.begin[group] - 1, -1):
        at = p * FIELDS
        slope, most, length = (
            max(slope, postings.record[at + SLOPE]),
            max(most, postings.record[at + MOST]),
            max(length, postings.record[at + LENGTH]),
        )
        postings.slope[p], postings.most[p], postings.length[p] = slope, most, length


@internal
def _lower_cell(postings: Postings, table: Subscribers, slot: int) -> None:
    """Lower what a cell needs to what a subscription in it needs. It rises only when all are indexed again."""
    row = slot * ROW
    alpha, theta = table.row[row + ALPHA], table.row[row + THETA]
    for t in range(_GRID.size):
        wanted = theta - SLACK - (1.0 - alpha) * _GRID[t]
        if wanted <= 0.0:
            needed = 0.0
        elif wanted >= 2.0 * alpha:
            needed = 2.0
        else:
            needed = wanted / alpha
        at = table.cell[slot] * _GRID.size + t
        postings.needed[at] = min(postings.needed[at], needed)


@internal
def move(postings: Postings, table: Subscribers, strategy: int, slot: int) -> None:
    """Move the postings of a subscription whose theta changed. O(words * group)."""
    row = slot * ROW
    needed = table.row[row + THETA] / max(LEAST, 1.0 - table.row[row + ALPHA])
    begin = table.note[row + TERM]
    for t in range(begin, begin + table.words[slot]):
        p = int64(postings.where[t])
        group = postings.part[p]
        postings.record[p * FIELDS + NEEDED] = needed
        if strategy == GROUPS:
            while p > postings.begin[group] and postings.record[(p - 1) * FIELDS + NEEDED] > needed:
                _swap(postings, p - 1)
                p -= 1
            while p + 1 < postings.begin[group + 1] and postings.record[(p + 1) * FIELDS + NEEDED] < needed:
                _swap(postings, p)
                p += 1
            _keep_maxima(postings, group)
    _lower_cell(postings, table, slot)


@internal
def _swap(postings: Postings, p: int) -> None:
    """Swap a posting with the next."""
    for field in range(FIELDS):
        a, b = p * FIELDS + field, (p + 1) * FIELDS + field
        postings.record[a], postings.record[b] = postings.record[b], postings.record[a]
    postings.slot[p], postings.slot[p + 1] = postings.slot[p + 1], postings.slot[p]
    postings.term[p], postings.term[p + 1] = postings.term[p + 1], postings.term[p]
    postings.where[postings.term[p]], postings.where[postings.term[p + 1]] = p, p + 1


@kernel
def move_all(postings: Postings, table: Subscribers, strategy: int, slots: Ints, old: Floats) -> None:
    """`move` for many subscriptions."""
    for i in range(slots.size):
        if table.row[slots[i] * ROW + THETA] != old[i]:
            move(postings, table, strategy, slots[i])


@kernel
def post_compared(
    postings: Postings,
    cells: Cells,
    strategy: int,
    state: StepState,
    batch: Batch,
    window_posts: int,
    most_entries: int,
) -> int:
    """As `indexes.feeds.kernels.recipients.post_ordered`."""
    window, table, owners, scratch = state.window, state.table, state.owners, state.scratch
    status = DONE
    while status == DONE and scratch.size[AT] < batch.end.size:
        if scratch.size[PHASE] == ENTER:
            begin_post(window, table, scratch, batch)
        if scratch.size[PHASE] == FIND:
            hits = _find(postings, cells, strategy, state, window.size[NEXT] - 1)
            status = room_for_hits(owners, scratch, hits)
            if status == DONE:
                raised = take_in(window, table, state.limits, owners, scratch, hits)
                _move_hits(postings, table, strategy, scratch, raised)
                slide(window, table, owners, scratch, window_posts)
        if scratch.size[PHASE] == EVALUATE:
            first = scratch.size[NEXT_SHORT]
            status = evaluate_short(state, most_entries)
            for i in range(first, scratch.size[NEXT_SHORT]):
                move(postings, table, strategy, int64(scratch.short[i]))
        if scratch.size[PHASE] == REPORT:
            status = end_post(table, scratch, batch)
    return status


@internal
def _move_hits(postings: Postings, table: Subscribers, strategy: int, scratch: Scratch, hits: int) -> None:
    """`move` for the recipients of a post whose thetas changed."""
    for i in range(hits):
        slot = int64(scratch.hit[i])
        if scratch.hit_score[i] != table.row[slot * ROW + THETA]:
            move(postings, table, strategy, slot)


@kernel
def find_many(postings: Postings, cells: Cells, strategy: int, state: StepState, first: int, end: int) -> int:
    """As `indexes.feeds.kernels.recipients.find_many`."""
    found = 0
    for post in range(first, end):
        begin_search(state.scratch)
        found += _find(postings, cells, strategy, state, post)
    return found


@kernel
def refill_compared(
    postings: Postings, cells: Cells, strategy: int, state: StepState, bounds: Floats, first: int, end: int
) -> None:
    """As `indexes.feeds.kernels.recipients.refill_ordered`."""
    window, table, scratch = state.window, state.table, state.scratch
    for post in range(end - 1, first - 1, -1):
        if window.gone[post & (window.x.size - 1)] == 0:
            begin_search(scratch)
            hits = _find(postings, cells, strategy, state, post)
            take_again(table, state.limits, scratch, bounds, hits, post)


@internal
def _find(postings: Postings, cells: Cells, strategy: int, state: StepState, number: int) -> int:
    """As `indexes.feeds.kernels.recipients.find_ordered`, by one of the strategies."""
    window, table, scratch = state.window, state.table, state.scratch
    place, terms = number & (window.x.size - 1), window.word.size - 1
    begin, n = window.term[place], int64(window.terms[place])
    for i in range(begin, begin + n):
        scratch.vector[window.word[i & terms] + 1] = window.weight[i & terms]
    words = words_by_rarity(postings.order, window, scratch, place)
    post = Post(words, window.x[place], window.y[place], state.diagonal)
    if strategy == GROUPS:
        found = _by_groups(postings, cells, table, scratch, post)
    elif strategy == CIQ:
        found = _by_documents(postings, cells, table, scratch, post)
    elif strategy == INVERTED:
        found = _by_words(postings, table, scratch, post)
    else:
        found = _by_all(postings, table, scratch, post)
    for i in range(begin, begin + n):
        scratch.vector[window.word[i & terms] + 1] = 0.0
    scratch.counted[HITS] += found
    return found


@internal
def _take(table: Subscribers, scratch: Scratch, slot: int, post: Post, found: int) -> int:
    """Score a subscription that shares a word with the post, from all its words, and add it to the hits if it is
    reached. Returns their number."""
    row = slot * ROW
    first, text = table.note[row + TERM], 0.0
    for t in range(first, first + table.words[slot]):
        text += table.term[2 * t + 1] * scratch.vector[int64(table.term[2 * t]) + 1]
    x, y, alpha = table.row[row + X], table.row[row + Y], table.row[row + ALPHA]
    score = score_of(x, y, alpha, post.x, post.y, post.diagonal, text)
    scratch.counted[SCORED] += 1
    if score >= table.row[row + THETA]:
        scratch.hit[found], scratch.hit_score[found] = slot, score
        found += 1
    return found


@internal
def _by_groups(postings: Postings, cells: Cells, table: Subscribers, scratch: Scratch, post: Post) -> int:
    length = 0.0
    for j in range(post.words):
        length += scratch.weight[j] * scratch.weight[j]
    grid, length = 0, math.sqrt(length) + SLACK
    while grid + 1 < _GRID.size and _GRID[grid + 1] >= length:
        grid += 1
    found, total, square, most = 0, 0.0, 0.0, 0.0
    for j in range(post.words - 1, -1, -1):
        weight, word = scratch.weight[j], scratch.word[j]
        total += weight
        square += weight * weight
        most = max(most, weight)
        rest = Rest(total, math.sqrt(square), most)
        for b in range(postings.at[word], postings.at[word + 1]):
            cell = int64(postings.cell[b])
            near = nearest(cells, cell, post.x, post.y, post.diagonal)
            scratch.counted[BLOCKS] += 1
            if postings.rules[0] == 0 or near >= postings.needed[cell * _GRID.size + grid]:
                scratch.counted[OPENED] += 1
                for group in range(postings.group[b], postings.group[b + 1]):
                    found = _by_group(postings, table, scratch, post, group, near, rest, found)
    return found


@internal
def _too_little(postings: Postings, p: int, near: float, rest: Rest) -> bool:
    """Theorems 5.3 and 5.4: no posting from p on in its group is of the first common word and reaches theta."""
    needed = postings.record[p * FIELDS + NEEDED] - postings.slope[p] * near
    most_text = min(rest.total * postings.most[p], rest.norm * postings.length[p])
    return most_text < needed - SLACK * (1.0 + postings.slope[p])


@inlined
def _by_group(
    postings: Postings,
    table: Subscribers,
    scratch: Scratch,
    post: Post,
    group: int,
    near: float,
    rest: Rest,
    found: int,
) -> int:
    low, end = int64(postings.begin[group]), int64(postings.begin[group + 1])
    begin = low
    if postings.rules[1] and _too_little(postings, low, near, rest):
        end = low
    elif postings.rules[2] and end - low > 4:
        while low < end:
            middle = (low + end) >> 1
            if _too_little(postings, middle, near, rest):
                end = middle
            else:
                low = middle + 1
    for p in range(begin, end):
        at, slot = p * FIELDS, int64(postings.slot[p])
        row, record = slot * ROW, postings.record
        scratch.counted[VISITED] += 1
        # The segment to a post outside of the cell crosses its border: its length is at least the sum of both parts.
        reach = max(0.0, near - record[at + INSIDE] / post.diagonal) if near < 1.0 else 1.0
        by_sum, by_most = rest.most * record[at + SUM], rest.total * record[at + MOST]
        most_text = min(by_sum, rest.norm * record[at + LENGTH], by_most, 1.0)
        alpha = table.row[row + ALPHA]
        worth = postings.rules[3] == 0 or (1.0 - alpha) * most_text + alpha * reach >= table.row[row + THETA] - SLACK
        if worth and postings.stamp[slot] != scratch.turn[0]:
            postings.stamp[slot] = scratch.turn[0]
            found = _take(table, scratch, slot, post, found)
    return found


@internal
def _by_documents(postings: Postings, cells: Cells, table: Subscribers, scratch: Scratch, post: Post) -> int:
    found = 0
    for j in range(post.words):
        postings.next_block[j] = postings.at[scratch.word[j]]
    for cell in range(cells.box.size // 4):
        near = nearest(cells, cell, post.x, post.y, post.diagonal)
        lists = 0
        for j in range(post.words):
            b = postings.next_block[j]
            if b < postings.at[scratch.word[j] + 1] and postings.cell[b] == cell:
                scratch.block[lists] = postings.begin[postings.group[b]]
                scratch.bound[lists] = postings.begin[postings.group[b + 1]]
                postings.merged[lists] = scratch.word[j]
                lists += 1
                postings.next_block[j] += 1
        scratch.counted[OPENED] += lists
        found = _merge(postings, table, scratch, lists, near, post, found)
    return found


@internal
def _merge(
    postings: Postings, table: Subscribers, scratch: Scratch, lists: int, near: float, post: Post, found: int
) -> int:
    """Merge postings in order of subscriptions, and score those whose text part may suffice."""
    left = lists
    while left > 0:
        slot, left = int64(1) << 40, 0
        for j in range(lists):
            if scratch.block[j] < scratch.bound[j]:
                slot = min(slot, int64(postings.slot[scratch.block[j]]))
                left += 1
        if left > 0:
            text, row = 0.0, slot * ROW
            for j in range(lists):
                if scratch.block[j] < scratch.bound[j] and postings.slot[scratch.block[j]] == slot:
                    text += postings.record[scratch.block[j] * FIELDS + WEIGHT] * scratch.vector[postings.merged[j] + 1]
                    scratch.block[j] += 1
                    scratch.counted[VISITED] += 1
            alpha = table.row[row + ALPHA]
            if (1.0 - alpha) * text + alpha * near >= table.row[row + THETA] - SLACK:
                found = _take(table, scratch, slot, post, found)
    return found


@internal
def _by_words(postings: Postings, table: Subscribers, scratch: Scratch, post: Post) -> int:
    seen = 0
    for j in range(post.words):
        word, weight = scratch.word[j], scratch.weight[j]
        first, end = postings.group[postings.at[word]], postings.group[postings.at[word + 1]]
        for p in range(postings.begin[first], postings.begin[end]):
            slot = int64(postings.slot[p])
            scratch.counted[VISITED] += 1
            if postings.stamp[slot] != scratch.turn[0]:
                postings.stamp[slot] = scratch.turn[0]
                scratch.sum[slot] = 0.0
                scratch.seen[seen] = slot
                seen += 1
            scratch.sum[slot] += weight * postings.record[p * FIELDS + WEIGHT]
    found = 0
    for i in range(seen):
        slot = int64(scratch.seen[i])
        row, text = slot * ROW, scratch.sum[slot]
        x, y, alpha = table.row[row + X], table.row[row + Y], table.row[row + ALPHA]
        scratch.counted[SCORED] += 1
        # Sums were accumulated in order of rarity: one that may reach theta is scored in the order of all indexes.
        if score_of(x, y, alpha, post.x, post.y, post.diagonal, text) >= table.row[row + THETA] - SLACK:
            found = _take(table, scratch, slot, post, found)
    return found


@internal
def _by_all(postings: Postings, table: Subscribers, scratch: Scratch, post: Post) -> int:
    found = 0
    for i in range(postings.member.size):
        slot = int64(postings.member[i])
        row = slot * ROW
        first, shared = table.note[row + TERM], False
        for t in range(first, first + table.words[slot]):
            shared |= scratch.vector[int64(table.term[2 * t]) + 1] > 0.0
        if shared:
            found = _take(table, scratch, slot, post, found)
    return found


COMPARED: dict[str, Callable[[], SubscriptionIndex]] = {
    "groups": lambda: ComparedIndex(GROUPS),
    "ciq": lambda: ComparedIndex(CIQ),
    "inverted": lambda: ComparedIndex(INVERTED),
    "brute": lambda: ComparedIndex(BRUTE),
}
"""What makes each index, by name."""
