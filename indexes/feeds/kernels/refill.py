"""Refill: all buffers are filled by one pass over the window, in place of an evaluation for each subscription.

This is for an epoch's begin; a buffer that an expiry leaves with fewer than k posts is filled by `buffers.evaluate`.
When weights change, a buffer still holds k posts or more of the window, so the worst score that one of them has now is
a valid theta: at least as many posts reach it. All subscriptions are indexed by these thetas, and the posts of the
window are inserted from the newest to the oldest. A buffer then holds the k-skyband of the posts above its bound, as if
they had arrived in order ([Spatial-keyword] Theorem 6.1). The cost is that of the postings read and the entries made,
not of the postings of all words of each subscription.

From the newest on, what is inserted stays: of the posts that dominate another, all that matter are in the buffer
before it. So a post that k entries score at least as high as is dropped, and theta is raised to the k-th score on the
way. What theta is in the end lies in a column of its own; the index keeps the bounds, which are lower, until then.
"""

from __future__ import annotations

import math

from indexes.compiled.floats import above
from indexes.compiled.jit import internal, kernel
from indexes.core.arrays import Floats, Ints, int64
from indexes.feeds.kernels.buffers import prefetch_buffer, score_of
from indexes.feeds.kernels.scratch import Scratch
from indexes.feeds.kernels.subscriptions import ALPHA, ENTRY, OLDEST, POSTS, ROW, TERM, THETA, Subscribers, X, Y
from indexes.feeds.kernels.window import Window
from indexes.feeds.theta import BUCKETS, Limits

AHEAD = 8
"""Subscriptions whose buffers are prefetched."""


@kernel
def bound_all(
    window: Window, table: Subscribers, limits: Limits, slots: Ints, first: int, end: int, diagonal: float
) -> None:
    """Set theta of subscriptions `first` to `end` - 1 of these to the worst score of their buffers by the present
    weights, and empty the buffers. It is 0 for one that shares words with so few posts that all fit.
    O(words of the entries)."""
    for i in range(first, end):
        slot = slots[i]
        row, n = slot * ROW, table.held[slot]
        begin, most = table.note[row + TERM], 0
        for t in range(begin, begin + table.words[slot]):
            most += window.df[int(table.term[2 * t])]
        bucket = 0
        while bucket < BUCKETS - 1 and (most >> (bucket + 1)) > 0:
            bucket += 1
        all_fit = most <= limits.rank[table.kind[slot] * BUCKETS + bucket]
        theta = 0.0
        if n >= table.k[slot] and not all_fit:
            theta = math.inf
            for j in range(table.note[row + ENTRY], table.note[row + ENTRY] + n):
                theta = min(theta, _score_now(window, table, slot, table.tag[j] // POSTS, diagonal))
        table.row[row + THETA] = theta
        table.complete[slot] = 1 if theta == 0.0 else 0
        table.held[slot] = 0


@internal
def _score_now(window: Window, table: Subscribers, slot: int, post: int, diagonal: float) -> float:
    """The score of a post of the window, summed in the order of evaluations and of arrivals, to the same bits.
    O(words of both)."""
    place, mask, row = post & (window.x.size - 1), window.word.size - 1, slot * ROW
    begin, text = window.term[place], 0.0
    end = begin + window.terms[place]
    for t in range(table.note[row + TERM], table.note[row + TERM] + table.words[slot]):
        word = int(table.term[2 * t])
        at = begin
        while at < end and window.word[at & mask] != word:
            at += 1
        if at < end:
            text += table.term[2 * t + 1] * window.weight[at & mask]
    x, y, alpha = table.row[row + X], table.row[row + Y], table.row[row + ALPHA]
    return score_of(x, y, alpha, window.x[place], window.y[place], diagonal, text)


@internal
def take_again(table: Subscribers, limits: Limits, scratch: Scratch, bounds: Floats, hits: int, post: int) -> None:
    """Insert a post of the window, older than all inserted so far, into the buffers of its recipients. `bounds` are
    their thetas in the end, by slot."""
    for i in range(hits):
        if i + AHEAD < hits:
            prefetch_buffer(table, int64(scratch.hit[i + AHEAD]))
        _insert_older(table, limits, bounds, int64(scratch.hit[i]), scratch.hit_score[i], post)


@internal
def _insert_older(table: Subscribers, limits: Limits, bounds: Floats, slot: int, score: float, post: int) -> None:
    """Insert a post that is older than all of a buffer, unless too many dominate it. O(entries).

    The best that a full buffer drops becomes the bound. It is newer than what comes, and better than another of its
    score: from now on theta is above it."""
    row, kind = slot * ROW, int64(table.kind[slot])
    base, n, limit = table.note[row + ENTRY], int64(table.held[slot]), int64(limits.dominated[kind])
    place, room = int64(0), int64(limits.room[kind])
    while place < n and table.score[base + place] >= score:
        place += 1
    if limit == 0 or place < limit:
        if n == room:
            dropped = score
            if place < n:
                n = int64(limits.kept[kind])
                dropped = table.score[base + n]
            bounds[slot] = dropped
            table.row[row + THETA] = max(table.row[row + THETA], above(dropped))
            table.complete[slot] = 0
        if place <= n and place < room:
            for i in range(n, place, -1):
                table.score[base + i], table.tag[base + i] = table.score[base + i - 1], table.tag[base + i - 1]
            table.score[base + place], table.tag[base + place] = score, post * POSTS + (place if limit > 0 else 0)
            n += 1
            table.note[row + OLDEST] = post
        table.held[slot] = n
        if n >= limit > 0:
            table.row[row + THETA] = max(table.row[row + THETA], table.score[base + limit - 1])
