"""Copies of subscriptions, of each some words: whom posts reach, each pair found by one partition alone.

Words have a total order, rarer ones first, in which all partitions agree. A pair of a post and a subscription is found
where the first word that they share has its postings, and nowhere else: both sides know which it is. The words of a
subscription from there on, and those of the post, are no longer than l and t; so the score is at most

    alpha near + (1 - alpha) t l,

and a posting whose bound is below theta is passed over. Copies carry no buffers: theta is as it was last told.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.feeds.buffers import score_of
from indexes.feeds.ordered import SLACK
from indexes.feeds.weights import weigh
from indexes.feeds.words import Documents
from indexes.lean import lean_kernel

Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
UInt8 = NDArray[np.uint8]

READ, SCORED, FOUND, DONE = range(4)
"""Places in what a search counts: postings read, scores worked out, and hits; and how many posts are done."""


class Copies(NamedTuple):
    """The arrays."""

    number: Int64  # by copy, ascending, as all up to `begin`
    x: Float64
    y: Float64
    alpha: Float64
    theta: Float64
    begin: Int64  # of its terms, which are in code-point order; one more than there are copies
    word: Int32  # by term
    raw: Float64  # its weight as given
    weight: Float64  # and of unit length
    length: Float64  # of the weights from here on in order of rarity
    own: UInt8  # whether its postings are here
    first: Int64  # by word: its postings; one more than there are words
    posting: Int32  # by posting: the copy, and the term
    term: Int32


class Weighed(NamedTuple):
    """Posts to be looked at."""

    x: Float64
    y: Float64
    end: Int64  # of its terms
    word: Int32
    weight: Float64  # of unit length


class Reached(NamedTuple):
    """Whom posts reach: which post, the number of the subscription, and the score. In order of posts."""

    post: Int64
    number: Int64
    score: Float64
    counted: Int64  # postings read, scores worked out, hits


def no_copies() -> Copies:
    """None, for no words."""
    f64, i64, i32, u8 = np.empty(0), np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.uint8)
    zero = np.zeros(1, np.int64)
    return Copies(i64, f64, f64, f64, f64, zero, i32, f64, f64, f64, u8, zero, i32, i32)


def with_copies(
    c: Copies, numbers: Int64, documents: Documents, own: UInt8, points: Float64, alpha: Float64, theta: Float64
) -> Copies:
    """With these copies, which take the place of those of the same numbers; no weights and postings are right until
    `lay_out`. O(everything)."""
    c = without_copies(c, numbers)
    number = np.append(c.number, numbers)
    order = np.argsort(number, kind="stable")
    words = np.append(np.diff(c.begin), np.diff(documents.end, prepend=0))
    at = _runs(np.append(c.begin[:-1], c.begin[-1] + documents.end - words[len(c.number) :])[order], words[order])
    none = np.zeros(len(documents.word))
    x, y = np.asarray(points, np.float64).reshape(-1, 2).T + 0.0
    return c._replace(
        number=number[order],
        x=np.append(c.x, x)[order],
        y=np.append(c.y, y)[order],
        alpha=np.append(c.alpha, alpha)[order],
        theta=np.append(c.theta, theta)[order],
        begin=np.append(0, np.cumsum(words[order])),
        word=np.append(c.word, documents.word)[at],
        raw=np.append(c.raw, documents.weight)[at],
        weight=np.append(c.weight, none)[at],
        length=np.append(c.length, none)[at],
        own=np.append(c.own, own)[at],
    )


def without_copies(c: Copies, numbers: Int64) -> Copies:
    """Without those of these numbers that are there; postings are not right until `lay_out`. O(everything)."""
    kept = np.flatnonzero(~np.isin(c.number, numbers))
    if len(kept) == len(c.number):
        return c
    words = np.diff(c.begin)[kept]
    at = _runs(c.begin[kept], words)
    by_copy = {name: getattr(c, name)[kept] for name in ("number", "x", "y", "alpha", "theta")}
    by_term = {name: getattr(c, name)[at] for name in ("word", "raw", "weight", "length", "own")}
    return c._replace(begin=np.append(0, np.cumsum(words)), **by_copy, **by_term)


def with_thetas(c: Copies, numbers: Int64, theta: Float64) -> None:
    """These, where they are here, have another theta from now on. O(n log copies)."""
    at = np.searchsorted(c.number, numbers)
    there = at < len(c.number)
    there[there] = c.number[at[there]] == numbers[there]
    c.theta[at[there]] = theta[there]


def weigh_copies(c: Copies, idf: Float64, order: Int64) -> None:
    """Weights by this idf, and lengths for words in this order, both by word. O(terms)."""
    weigh_all(c.begin, c.word, c.raw, idf, order, c.weight, c.length)


def lay_out(c: Copies, idf: Float64, order: Int64) -> Copies:
    """Weights by this idf, and postings for words in this order, both by word. O(terms log terms)."""
    weigh_copies(c, idf, order)
    copy = np.repeat(np.arange(len(c.number)), np.diff(c.begin))
    terms = np.flatnonzero(c.own)
    terms = terms[np.argsort(c.word[terms], kind="stable")]
    first = np.searchsorted(c.word[terms], np.arange(len(idf) + 1))
    return c._replace(first=first, posting=copy[terms].astype(np.int32), term=terms.astype(np.int32))


def reached_by(c: Copies, posts: Weighed, order: Int64, diagonal: float) -> Reached:
    """Whom posts reach, of the pairs that are found here. O(postings of their words here)."""
    found: list[tuple[Int64, Int64, Float64]] = []
    counted, room = np.zeros(4, np.int64), 4_096 + 2 * len(c.number)
    vector = np.zeros(max(len(order), len(c.first)))
    longest = int(np.diff(posts.end, prepend=0).max(initial=1))
    words, lengths = np.empty(longest, np.int64), np.empty(longest)
    post, copy, score = np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room)
    while counted[DONE] < len(posts.end):
        n = find_copies(c, posts, order, diagonal, vector, words, lengths, post, copy, score, counted)
        found.append((post[:n].copy(), c.number[copy[:n]], score[:n].copy()))
    posts_, numbers, scores = zip(*found, strict=True) if found else ((post[:0],), (post[:0],), (score[:0],))
    return Reached(np.concatenate(posts_), np.concatenate(numbers), np.concatenate(scores), counted[:DONE])


def _runs(begin: Int64, count: Int64) -> Int64:
    """The places of runs, one behind the other."""
    end = np.cumsum(count)
    places: Int64 = np.repeat(begin - end + count, count) + np.arange(int(end[-1]) if len(end) else 0)
    return places


@lean_kernel
def weigh_all(begin, word, raw, idf, order, weight, length):  # type: ignore[no-untyped-def]
    """Write the unit weights of documents, and for each term the length of those from there on. O(words^2) each."""
    for i in range(begin.size - 1):
        weigh(word, raw, idf, begin[i], begin[i + 1], -1, weight, 0, 1)
        for j in range(begin[i], begin[i + 1]):
            total = 0.0
            for t in range(begin[i], begin[i + 1]):
                if order[word[t]] >= order[word[j]]:
                    total += weight[t] * weight[t]
            length[j] = math.sqrt(total)


@lean_kernel
def find_copies(c, m, order, diagonal, vector, words, lengths, post, copy, score, counted):  # type: ignore[no-untyped-def]
    """Write whom posts from number counted[DONE] on reach, until there is not room for a whole post more. Returns how
    many were written."""
    found, going = 0, True
    while going and counted[DONE] < m.end.size:
        i = counted[DONE]
        begin, n, x, y = np.int64(m.end[i - 1] if i else 0), 0, m.x[i], m.y[i]
        for t in range(begin, m.end[i]):
            word, j = np.int64(m.word[t]), n
            vector[word] = m.weight[t]
            while j > 0 and order[words[j - 1]] > order[word]:
                words[j] = words[j - 1]
                j -= 1
            words[j] = word
            n += 1
        total = 0.0
        for j in range(n - 1, -1, -1):
            total += vector[words[j]] * vector[words[j]]
            lengths[j] = math.sqrt(total)
        for j in range(n):
            word, t = words[j], lengths[j]
            low = c.first[word] if word + 1 < c.first.size else 0
            high = c.first[word + 1] if word + 1 < c.first.size else 0
            for p in range(low, high):
                r, term = np.int64(c.posting[p]), np.int64(c.term[p])
                counted[READ] += 1
                dx, dy = c.x[r] - x, c.y[r] - y
                near = 1.0 - math.sqrt(dx * dx + dy * dy) / diagonal
                near = near if near > 0.0 else 0.0
                alpha, theta = c.alpha[r], c.theta[r]
                first = alpha * near + (1.0 - alpha) * t * c.length[term] >= theta - SLACK
                if first:
                    for other in range(c.begin[r], c.begin[r + 1]):
                        if vector[c.word[other]] > 0.0 and order[c.word[other]] < order[word]:
                            first = False
                if first:
                    counted[SCORED] += 1
                    text = 0.0
                    for other in range(c.begin[r], c.begin[r + 1]):
                        text += c.weight[other] * vector[c.word[other]]
                    value = score_of(c.x[r], c.y[r], alpha, x, y, diagonal, text)
                    if value >= theta:
                        post[found], copy[found], score[found] = i, r, value
                        found += 1
        for t in range(begin, m.end[i]):
            vector[m.word[t]] = 0.0
        counted[DONE] += 1
        going = found + c.number.size <= post.size
    counted[FOUND] += found
    return found
