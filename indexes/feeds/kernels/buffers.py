"""Buffers: the partial k-skyband of the posts in the window that share a word with a subscription.

A buffer holds the posts that are no worse than a bound, of score theta, and that are dominated by fewer than k others,
newer ones that score no less. It is sorted by score, newer posts first. It has k entries or more if and only if k posts
of the window are no worse than the bound, and then its first k are the best of all ([Spatial-keyword] Theorem 6.1). So
a subscription is evaluated again when fewer are left, unless it is `complete`: its last evaluation put all posts that
share a word with it into the buffer.

The bound is a post, not only its score: a full buffer keeps its best entries, the best of the others becomes the bound,
and later posts of the same score are better than it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from indexes.compiled.jit import inlined, internal, kernel
from indexes.compiled.simd import prefetch_block, prefetch_line
from indexes.core import aligned
from indexes.core.arrays import Floats, Ints, int64
from indexes.feeds.kernels.entries import insert_lanes, remove_lanes
from indexes.feeds.kernels.subscriptions import (
    ALPHA,
    ENTRY,
    LARGEST,
    OLDEST,
    POSTS,
    ROW,
    TERM,
    THETA,
    Subscribers,
    X,
    Y,
    buffer_of,
    held_by,
)
from indexes.feeds.kernels.window import CHUNK, FIRST, NEXT, NONE, Window
from indexes.feeds.theta import BUCKETS, LINE, Limits

LATEST = 1 << 62
"""A number greater than that of any post."""

BISECTIONS = 12
"""Times that the scores are halved at most, by which the best posts are selected."""

CHUNKS_AHEAD = 3
"""Chunks of a word that are prefetched."""

EVALUATED, READ = range(2)
"""Places in `Evaluation.size`: counters of evaluations and of postings read."""


class Evaluation(NamedTuple):
    """Scratch of an evaluation."""

    sum: Floats  # by place of a post: the text part of its score so far, 0 between evaluations
    post: Ints  # the posts that share a word, and their scores
    score: Floats
    best: Floats  # those that may be among the best
    best_post: Ints
    newest: Ints  # the newest k of them so far
    size: Ints


def new_evaluation(posts: int, k: int) -> Evaluation:
    """Scratch for a window of so many places and lists of at most k. O(posts + k)."""
    return Evaluation(
        aligned.zeros(posts),
        aligned.empty(posts + 1, np.int64),
        aligned.empty(posts),
        aligned.empty(posts),
        aligned.empty(posts, np.int64),
        np.empty(k, np.int64),
        np.zeros(2, np.int64),
    )


@inlined
def score_of(x: float, y: float, alpha: float, post_x: float, post_y: float, diagonal: float, text: float) -> float:
    """alpha max(0, 1 - distance / diagonal) + (1 - alpha) text."""
    dx, dy = x - post_x, y - post_y
    near = 1.0 - math.sqrt(dx * dx + dy * dy) / diagonal
    near = near if near > 0.0 else 0.0
    return alpha * near + (1.0 - alpha) * text


@inlined
def insert(table: Subscribers, limits: Limits, slot: int, score: float, post: int) -> int:
    """Insert the newest post, with a score of theta or more. Returns its place among the entries, or NONE if the buffer
    was full and the post is not among those kept; a full buffer raises theta. O(entries)."""
    row = slot * ROW
    base, n, kind = buffer_of(table, slot), held_by(table, slot), int64(table.kind[slot])
    place, room, limit = int64(0), int64(limits.room[kind]), int64(limits.dominated[kind])
    more, most = (1, limit) if limit > 0 else (0, int64(POSTS))
    end = base + n
    dropped, first = int64(0), end
    for i in range(base, base + (n + LINE - 1 & -LINE)):
        above, inside = table.score[i] > score, i < end
        drops = inside & (not above) & ((table.tag[i] & (POSTS - 1)) + more >= most)
        place += 1 if inside & above else 0
        dropped += 1 if drops else 0
        first = min(first, i if drops else end)
    if (n == room) & (dropped == 0):
        n = int64(limits.kept[kind])
        first = base + n
        table.row[row + THETA] = table.score[first]
        table.complete[slot] = 0
    if place > n:
        place = int64(NONE)
    elif dropped > 1:
        n = _insert_and_drop(table, base, n, place, score, post * POSTS, most)
    else:
        at = base + place
        for block in range((base + n - dropped) & -LINE, (at & -LINE) - 1, -LINE):
            insert_lanes(table.score, table.tag, block, at - block, first - block, score, post * POSTS, more)
        n += 1 - dropped
    table.held[slot] = n
    if (n == 1) & (place != NONE):
        table.note[row + OLDEST] = post
    return place


@internal
def _insert_and_drop(table: Subscribers, base: int, n: int, place: int, score: float, tag: int, most: int) -> int:
    """Insert an entry at a place of a buffer of n, and drop those that as many dominate then. Returns how many there
    are. O(n)."""
    # What is to be written next: the new one, then each entry below it that is not dropped.
    at = base + place
    for i in range(base + place, base + n):
        own_score, own_tag = table.score[i], table.tag[i] + 1
        table.score[at], table.tag[at] = score, tag
        stays = (own_tag & (POSTS - 1)) < most
        score, tag = (own_score, own_tag) if stays else (score, tag)
        at += 1 if stays else 0
    table.score[at], table.tag[at] = score, tag
    return at + 1 - base


@inlined
def remove(table: Subscribers, slot: int, post: int) -> int:
    """Remove a post that dominates no other, such as the oldest. Returns its place among the entries, or NONE.
    O(entries), or O(1) for one that is older than all."""
    row, place = slot * ROW, int64(NONE)
    if table.note[row + OLDEST] <= post:
        base, n, oldest = buffer_of(table, slot), held_by(table, slot), int64(LATEST)
        least, at, end = post * POSTS, n, base + n
        for i in range(base, base + (n + LINE - 1 & -LINE)):
            tag, inside = table.tag[i], i < end
            own = inside & (tag >= least) & (tag < least + POSTS)
            at += i - end if own else 0
            oldest = min(oldest, LATEST if own | (i >= end) else tag)
        table.note[row + OLDEST] = oldest // POSTS
        if at < n:
            place = at
            for line in range((base + at) & -LINE, end, LINE):
                following = line + LINE if line + LINE < end else line
                remove_lanes(table.score, table.tag, line, base + at - line, following)
            table.held[slot] = n - 1
    return place


@internal
def prefetch_buffer(table: Subscribers, slot: int) -> None:
    """Prefetch the lines of a buffer that are in use, of the first three of each column."""
    base, held = buffer_of(table, slot), held_by(table, slot)
    prefetch_line(table.score, base)
    prefetch_line(table.tag, base)
    prefetch_line(table.score, base + min(held, 8))
    prefetch_line(table.tag, base + min(held, 8))
    prefetch_line(table.score, base + min(held, 16))
    prefetch_line(table.tag, base + min(held, 16))


@internal
def in_list(table: Subscribers, slot: int, post: int) -> int:
    """1 if a post is in the list of a subscription, else 0. O(k)."""
    base, found = table.note[slot * ROW + ENTRY], 0
    for j in range(base, base + min(table.held[slot], table.k[slot])):
        found += 1 if table.tag[j] // POSTS == post else 0
    return found


@kernel
def evaluate(
    window: Window, table: Subscribers, limits: Limits, evaluation: Evaluation, slot: int, diagonal: float
) -> None:
    """Fill a buffer from the window, and choose theta. O(postings of its words + m log m) for the m best."""
    n, read = _collect(window, table, evaluation, slot)
    row, kind, k = slot * ROW, int64(table.kind[slot]), int64(table.k[slot])
    evaluation.size[EVALUATED] += 1
    evaluation.size[READ] += read
    bucket = 0
    while bucket < BUCKETS - 1 and (read >> (bucket + 1)) > 0:
        bucket += 1
    rank = int64(limits.rank[kind * BUCKETS + bucket])
    m = _best(window, table, evaluation, slot, n, rank, diagonal)
    table.complete[slot] = 1 if n <= rank else 0
    table.row[row + THETA] = 0.0 if n <= rank else evaluation.best[m - 1]
    base, limit = table.note[row + ENTRY], int64(limits.dominated[kind])
    held, seen, oldest = int64(0), int64(0), int64(LATEST)
    for i in range(m):
        post, newer = evaluation.best_post[i], 0
        if limit > 0:
            while newer < seen and evaluation.newest[newer] > post:
                newer += 1
            if newer < k:
                seen = seen + 1 if seen < k else k
                for j in range(seen - 1, newer, -1):
                    evaluation.newest[j] = evaluation.newest[j - 1]
                evaluation.newest[newer] = post
        if limit == 0 or newer < limit:
            table.score[base + held], table.tag[base + held] = evaluation.best[i], post * POSTS + newer
            oldest = min(oldest, post)
            held += 1
    table.held[slot] = held
    table.note[row + OLDEST] = oldest


@internal
def _collect(window: Window, table: Subscribers, evaluation: Evaluation, slot: int) -> tuple[int, int]:
    """Find the posts of the window that share a word. Returns their number, and that of the postings read."""
    first, end, mask, n, read = window.size[FIRST], window.size[NEXT], (window.x.size - 1) & LARGEST, 0, 0
    begin = table.note[slot * ROW + TERM]
    for t in range(begin, begin + table.words[slot]):
        word, weight = int64(table.term[2 * t]), table.term[2 * t + 1]
        chunk = int64(window.oldest[word])
        ahead = chunk
        for _ in range(CHUNKS_AHEAD):
            ahead = _prefetch_chunk(window, ahead)
        while chunk != NONE:
            ahead = _prefetch_chunk(window, ahead)
            begin = (chunk * CHUNK) & LARGEST
            for at in range(begin, begin + window.used[chunk]):
                post, other = window.chunk_post[at], window.chunk_weight[at]
                # Products of weights are above 0: the sum of a post that was found is, too.
                place, there = post & mask, (first <= post) & (post < end) & (other >= 0.0)
                before = evaluation.sum[place]
                evaluation.sum[place] = before + (weight * other if there else 0.0)
                evaluation.post[n & LARGEST] = post
                n += 1 if (before == 0.0) & there else 0
                read += 1 if there else 0
            chunk = int64(window.after[chunk])
    return n, read


@inlined
def _prefetch_chunk(window: Window, chunk: int) -> int:
    """Prefetch a chunk, unless it is `NONE`, and return the next one of its word, or `NONE`."""
    following = chunk
    if chunk != NONE:
        prefetch_line(window.used, chunk)
        prefetch_block(window.chunk_post, chunk * CHUNK)
        prefetch_block(window.chunk_weight, chunk * CHUNK)
        following = int64(window.after[chunk])
    return following


@internal
def _best(
    window: Window, table: Subscribers, evaluation: Evaluation, slot: int, n: int, rank: int, diagonal: float
) -> int:
    """Score the n posts found, and sort the best, at most `rank`, into `best` and `best_post`. Returns their number."""
    row, mask = slot * ROW, (window.x.size - 1) & LARGEST
    x, y, alpha = table.row[row + X], table.row[row + Y], table.row[row + ALPHA]
    for i in range(n):
        place = evaluation.post[i] & mask
        dx, dy = x - window.x[place], y - window.y[place]
        evaluation.score[i], evaluation.best[i] = dx * dx + dy * dy, evaluation.sum[place]
        evaluation.sum[place] = 0.0
    for i in range(n):
        # As `score_of`, several at once, for which a division must not raise.
        near = 1.0 - np.divide(math.sqrt(evaluation.score[i]), diagonal)
        near = near if near > 0.0 else 0.0
        evaluation.score[i] = alpha * near + (1.0 - alpha) * evaluation.best[i]
    least = _least_of_best(evaluation.score, n, rank) if n > rank else 0.0
    m = 0
    for i in range(n):
        evaluation.best[m & LARGEST], evaluation.best_post[m & LARGEST] = evaluation.score[i], evaluation.post[i]
        m += 1 if evaluation.score[i] >= least else 0
    _sort(evaluation.best, evaluation.best_post, m)
    return min(m, rank)


@internal
def _least_of_best(score: Floats, n: int, rank: int) -> float:
    """A score that at least `rank` of n reach, more than that, and seldom many more."""
    low, high = 0.0, 2.0
    for _ in range(BISECTIONS):
        middle, above = 0.5 * (low + high), 0
        for i in range(n):
            above += 1 if score[i] >= middle else 0
        low, high = (middle, high) if above >= rank else (low, middle)
        if rank <= above <= rank + rank // 2:
            break
    return low


@internal
def _sort(score: Floats, post: Ints, n: int) -> None:
    """Sort by score from the greatest, then newer posts first: a heap whose root is the last in order."""
    for root in range(n // 2 - 1, -1, -1):
        _sift(score, post, root, n)
    for end in range(n - 1, 0, -1):
        score[0], score[end] = score[end], score[0]
        post[0], post[end] = post[end], post[0]
        _sift(score, post, 0, end)


@internal
def _sift(score: Floats, post: Ints, root: int, end: int) -> None:
    value, number, hole, sinking = score[root], post[root], root, True
    while sinking:
        child = 2 * hole + 1
        if child + 1 < end and (
            score[child + 1] < score[child] or (score[child + 1] == score[child] and post[child + 1] < post[child])
        ):
            child += 1
        if child < end and (score[child] < value or (score[child] == value and post[child] < number)):
            score[hole], post[hole] = score[child], post[child]
            hole = child
        else:
            sinking = False
    score[hole], post[hole] = value, number


@kernel
def lists_of(table: Subscribers, slots: Ints, posts: Ints, scores: Floats) -> None:
    """Write the lists of subscriptions, at most k entries each, one after the other. O(entries)."""
    at = 0
    for i in range(slots.size):
        slot = slots[i]
        base = table.note[slot * ROW + ENTRY]
        for j in range(base, base + min(table.held[slot], table.k[slot])):
            posts[at], scores[at] = table.tag[j] // POSTS, table.score[j]
            at += 1
