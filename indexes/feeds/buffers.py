"""Buffers: the partial k-skyband of the posts in the window that a subscription shares a word with.

A buffer has the posts that are no worse than a bound, of score theta, and that fewer than k others dominate: newer ones
that score no less. It is sorted by score, newer posts first. Of N posts down to the bound the buffer has k or more just
if N is, and then its first k are the best of all (design 5, Theorem 6.1): so a subscription is evaluated anew when
fewer are left, unless it is `complete`: when it was evaluated, all that it shared a word with came in.

The bound is a post, not only its score: a buffer that is full keeps its best entries, the best of the others is the
bound from then on, and posts with the same score that come later are better than it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes import aligned
from indexes.feeds.subscribers import ALPHA, ENTRY, POSTS, ROW, TERM, THETA, WORDS, X, Y
from indexes.feeds.theta import BUCKETS
from indexes.feeds.window import CHUNK, FIRST, NONE
from indexes.lean import inner_kernel, lean_kernel, pasted_kernel

Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

BINS = 1024
"""Bins of scores, by which the best are found."""

TURN, EVALUATED, READ = range(3)
"""Places in `Found.size`: the number of the last evaluation, and counted up: evaluations, and postings read."""


class Found(NamedTuple):
    """Room for one evaluation."""

    sum: Float64  # by place of a post: what words give so far
    turn: Int64  # and for which evaluation
    post: Int64  # those found, and their scores
    score: Float64
    best: Float64  # those that may be among the best
    best_post: Int64
    newest: Int64  # the newest k of them so far
    bins: Int32
    size: Int64


def room_to_evaluate(posts: int, k: int) -> Found:
    """Room for a window of so many places and k at most. O(posts + k)."""
    return Found(
        aligned.empty(posts),
        aligned.zeros(posts, np.int64),
        aligned.empty(posts, np.int64),
        aligned.empty(posts),
        aligned.empty(posts),
        aligned.empty(posts, np.int64),
        np.empty(k, np.int64),
        np.empty(BINS, np.int32),
        np.zeros(3, np.int64),
    )


@pasted_kernel
def score_of(x, y, alpha, x_, y_, diagonal, text):  # type: ignore[no-untyped-def]
    """alpha max(0, 1 - distance / diagonal) + (1 - alpha) text."""
    dx, dy = x - x_, y - y_
    near = 1.0 - math.sqrt(dx * dx + dy * dy) / diagonal
    near = near if near > 0.0 else 0.0
    return alpha * near + (1.0 - alpha) * text


@pasted_kernel
def insert(s, limits, slot, score, post):  # type: ignore[no-untyped-def]
    """The newest post comes with a score of theta or more. Returns its place among the entries, or NONE if the buffer
    was full and it is not among those kept; theta is raised then. O(entries)."""
    row = slot * ROW
    base, n, kind = s.note[row + ENTRY], np.int64(s.held[slot]), s.kind[slot]
    place = np.int64(0)
    while place < n and s.score[base + place] > score:
        place += 1
    limit = np.int64(limits.dominated[kind])
    if limit > 0:
        keep = place
        for i in range(place, n):
            tag = s.tag[base + i] + 1
            if (tag & (POSTS - 1)) < limit:
                s.score[base + keep], s.tag[base + keep] = s.score[base + i], tag
                keep += 1
        n = keep
    if n == limits.room[kind]:
        n = np.int64(limits.kept[kind])
        s.row[row + THETA] = s.score[base + n]
        s.complete[slot] = 0
    if place <= n:
        for i in range(n, place, -1):
            s.score[base + i], s.tag[base + i] = s.score[base + i - 1], s.tag[base + i - 1]
        s.score[base + place], s.tag[base + place] = score, post * POSTS
        n += 1
    else:
        place = np.int64(NONE)
    s.held[slot] = n
    return place


@pasted_kernel
def remove(s, slot, post):  # type: ignore[no-untyped-def]
    """A post goes that dominates none, as the oldest does. Returns its place among the entries, or NONE. O(entries)."""
    base, n = s.note[slot * ROW + ENTRY], np.int64(s.held[slot])
    place = n - 1
    while place >= 0 and s.tag[base + place] // POSTS != post:
        place -= 1
    if place >= 0:
        for i in range(place, n - 1):
            s.score[base + i], s.tag[base + i] = s.score[base + i + 1], s.tag[base + i + 1]
        s.held[slot] = n - 1
    return place


@inner_kernel
def evaluate(v, s, limits, f, slot, diagonal):  # type: ignore[no-untyped-def]
    """Fill a buffer from the window, and choose theta. O(postings of its words + m log m) for the m best."""
    n, read = _gather(v, s, f, slot)
    row, kind, k = slot * ROW, np.int64(s.kind[slot]), np.int64(s.k[slot])
    f.size[EVALUATED] += 1
    f.size[READ] += read
    bucket = 0
    while bucket < BUCKETS - 1 and (read >> (bucket + 1)) > 0:
        bucket += 1
    rank = np.int64(limits.rank[kind * BUCKETS + bucket])
    m = _best(v, s, f, slot, n, rank, diagonal)
    s.complete[slot] = 1 if n <= rank else 0
    s.row[row + THETA] = 0.0 if n <= rank else f.best[m - 1]
    base, limit = s.note[row + ENTRY], np.int64(limits.dominated[kind])
    held = seen = np.int64(0)
    for i in range(m):
        post, newer = f.best_post[i], 0
        if limit > 0:
            while newer < seen and f.newest[newer] > post:
                newer += 1
            if newer < k:
                seen = seen + 1 if seen < k else k
                for j in range(seen - 1, newer, -1):
                    f.newest[j] = f.newest[j - 1]
                f.newest[newer] = post
        if limit == 0 or newer < limit:
            s.score[base + held], s.tag[base + held] = f.best[i], post * POSTS + newer
            held += 1
    s.held[slot] = held


@lean_kernel
def evaluate_one(v, s, limits, f, slot, diagonal):  # type: ignore[no-untyped-def]
    """As `evaluate`, for who is no kernel."""
    evaluate(v, s, limits, f, slot, diagonal)


@inner_kernel
def _gather(v, s, f, slot):  # type: ignore[no-untyped-def]
    """Find the posts of the window that share a word. Returns how many, and how many postings were read."""
    f.size[TURN] += 1
    turn, first, mask, n, read = f.size[TURN], v.size[FIRST], v.x.size - 1, 0, 0
    begin = s.note[slot * ROW + TERM]
    for t in range(begin, begin + s.note[slot * ROW + WORDS]):
        word, weight = np.int64(s.term[2 * t]), s.term[2 * t + 1]
        chunk = np.int64(v.oldest[word])
        while chunk != NONE:
            for at in range(chunk * CHUNK, chunk * CHUNK + v.used[chunk]):
                post, other = v.chunk_post[at], v.chunk_weight[at]
                if post >= first and other >= 0.0:
                    place = post & mask
                    read += 1
                    if f.turn[place] == turn:
                        f.sum[place] += weight * other
                    else:
                        f.turn[place] = turn
                        f.sum[place] = weight * other
                        f.post[n] = post
                        n += 1
            chunk = np.int64(v.after[chunk])
    return n, read


@inner_kernel
def _best(v, s, f, slot, n, rank, diagonal):  # type: ignore[no-untyped-def]
    """Score the n posts found, and sort the best, at most `rank`, into f.best and f.best_post. Returns how many."""
    row, mask = slot * ROW, v.x.size - 1
    x, y, alpha = s.row[row + X], s.row[row + Y], s.row[row + ALPHA]
    for i in range(n):
        place = f.post[i] & mask
        f.score[i] = score_of(x, y, alpha, v.x[place], v.y[place], diagonal, f.sum[place])
    least = 0
    if n > rank:
        for b in range(BINS):
            f.bins[b] = 0
        for i in range(n):
            f.bins[min(BINS - 1, np.int64(f.score[i] * BINS))] += 1
        least = BINS - 1
        above = np.int64(f.bins[least])
        while above < rank:
            least -= 1
            above += f.bins[least]
    m = 0
    for i in range(n):
        # What is beyond the last bin, by rounding, is in it.
        if np.int64(f.score[i] * BINS) >= least:
            f.best[m], f.best_post[m] = f.score[i], f.post[i]
            m += 1
    _sort(f.best, f.best_post, m)
    return min(m, rank)


@inner_kernel
def _sort(score, post, n):  # type: ignore[no-untyped-def]
    """By score from the greatest, then newer posts first: a heap whose root is the last of the order."""
    for root in range(n // 2 - 1, -1, -1):
        _sift(score, post, root, n)
    for end in range(n - 1, 0, -1):
        score[0], score[end] = score[end], score[0]
        post[0], post[end] = post[end], post[0]
        _sift(score, post, 0, end)


@inner_kernel
def _sift(score, post, root, end):  # type: ignore[no-untyped-def]
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


@lean_kernel
def lists_of(s: Any, slots: Any, posts: Any, scores: Any) -> None:
    """Write the lists of these subscriptions, k or fewer entries each, one behind the other. O(entries)."""
    at = 0
    for i in range(slots.size):
        slot = slots[i]
        base = s.note[slot * ROW + ENTRY]
        for j in range(base, base + min(s.held[slot], s.k[slot])):
            posts[at], scores[at] = s.tag[j] // POSTS, s.score[j]
            at += 1
