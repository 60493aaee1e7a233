"""Refill: all buffers are filled by one pass over the window, in place of an evaluation for each subscription.

This is for an epoch's begin; a buffer that an expiry leaves with fewer than k posts is filled by `buffers.evaluate`.
When weights change, a buffer still holds k posts or more of the window, so the worst score that one of them has now is
a valid theta: at least as many posts reach it. All subscriptions are indexed by these thetas, and the posts of the
window are published again, in order. A buffer then holds the k-skyband of the posts above its bound, as if they had
just arrived ([Spatial-keyword] Theorem 6.1). The cost is that of the postings read and the entries made, not of the
postings of all words of each subscription.
"""

from __future__ import annotations

import math

from indexes.compiled.jit import internal, kernel
from indexes.core.arrays import Ints, int64
from indexes.feeds.kernels.buffers import insert, prefetch_buffer, score_of
from indexes.feeds.kernels.scratch import Scratch
from indexes.feeds.kernels.subscriptions import ALPHA, ENTRY, POSTS, ROW, TERM, THETA, Subscribers, X, Y
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
    for t in range(table.note[row + TERM], table.note[row + TERM] + table.words[slot]):
        word = int(table.term[2 * t])
        for at in range(begin, begin + window.terms[place]):
            if window.word[at & mask] == word:
                text += table.term[2 * t + 1] * window.weight[at & mask]
    x, y, alpha = table.row[row + X], table.row[row + Y], table.row[row + ALPHA]
    return score_of(x, y, alpha, window.x[place], window.y[place], diagonal, text)


@internal
def take_again(table: Subscribers, limits: Limits, scratch: Scratch, hits: int, post: int) -> None:
    """Insert a post of the window, newer than all inserted so far, into the buffers of its recipients, and write their
    former thetas to `hit_score`."""
    for i in range(hits):
        if i + AHEAD < hits:
            prefetch_buffer(table, int64(scratch.hit[i + AHEAD]))
        slot, score = int(scratch.hit[i]), scratch.hit_score[i]
        scratch.hit_score[i] = table.row[slot * ROW + THETA]
        insert(table, limits, slot, score, post)
