"""Copies of subscriptions in partitions by word, which find the recipients of posts: each pair in one partition only.

Words have a total order, rarer ones first, in which all partitions agree. A pair of a post and a subscription is found
in the partition of the first word that they share, which both sides can compute. With l the length of the
subscription's weights from that word on, and t that of the post's, the score is at most

    alpha near + (1 - alpha) t l,

and a posting with a bound below theta is skipped. Copies have no buffers; theta is the one published last.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from indexes.compiled.jit import kernel
from indexes.core.arrays import Bytes, Floats, Ints, Ints32, int64, run_lengths, run_places
from indexes.feeds.kernels.buffers import score_of
from indexes.feeds.kernels.nearness import SLACK
from indexes.feeds.kernels.weights import weigh
from indexes.feeds.words import Documents

READ, SCORED, FOUND, DONE = range(4)
"""Places in `Hits.counted`: postings read, scores computed, hits; and the number of posts that are done."""


class Copies(NamedTuple):
    """The arrays."""

    number: Ints  # by copy, ascending, as all up to `begin`
    x: Floats
    y: Floats
    alpha: Floats
    theta: Floats
    begin: Ints  # of its terms, which are in code-point order; one more than copies
    word: Ints32  # by term
    raw: Floats  # its weight as given
    weight: Floats  # scaled to unit length
    length: Floats  # of the weights from it on in order of rarity
    own: Bytes  # whether its posting is in this partition
    first: Ints  # by word: its first posting; one more than words
    posting: Ints32  # by posting: the copy, and the term
    term: Ints32


class Weighed(NamedTuple):
    """Posts with their unit weights."""

    x: Floats
    y: Floats
    end: Ints  # of its terms
    word: Ints32
    weight: Floats


class Reached(NamedTuple):
    """The recipients of posts, in order of posts: the post, the number of the subscription, and the score."""

    post: Ints
    number: Ints
    score: Floats
    counted: Ints  # by READ, SCORED, FOUND


class Words(NamedTuple):
    """Scratch for a post."""

    vector: Floats  # by word: its weight
    word: Ints  # its words in order of rarity, and the lengths of the weights from each on
    length: Floats


class Hits(NamedTuple):
    """Room for recipients: the post, the copy, and the score."""

    post: Ints
    copy: Ints
    score: Floats
    counted: Ints


def no_copies() -> Copies:
    """No copies, of no words."""
    f64, i64, i32, u8 = np.empty(0), np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.uint8)
    zero = np.zeros(1, np.int64)
    return Copies(i64, f64, f64, f64, f64, zero, i32, f64, f64, f64, u8, zero, i32, i32)


def with_copies(
    copies: Copies, numbers: Ints, documents: Documents, own: Bytes, points: Floats, alpha: Floats, theta: Floats
) -> Copies:
    """Copies with these added, in place of those of the same numbers. Weights and postings are invalid until `lay_out`.
    O(all copies)."""
    copies = without_copies(copies, numbers)
    number = np.append(copies.number, numbers)
    order = np.argsort(number, kind="stable")
    words = np.append(np.diff(copies.begin), run_lengths(documents.end))
    begin = np.append(copies.begin[:-1], copies.begin[-1] + documents.end - words[len(copies.number) :])
    at = run_places(begin[order], words[order])
    none = np.zeros(len(documents.word))
    x, y = np.asarray(points, np.float64).reshape(-1, 2).T + 0.0
    return copies._replace(
        number=number[order],
        x=np.append(copies.x, x)[order],
        y=np.append(copies.y, y)[order],
        alpha=np.append(copies.alpha, alpha)[order],
        theta=np.append(copies.theta, theta)[order],
        begin=np.append(0, np.cumsum(words[order])),
        word=np.append(copies.word, documents.word)[at],
        raw=np.append(copies.raw, documents.weight)[at],
        weight=np.append(copies.weight, none)[at],
        length=np.append(copies.length, none)[at],
        own=np.append(copies.own, own)[at],
    )


def without_copies(copies: Copies, numbers: Ints) -> Copies:
    """Copies without those of these numbers, if there are any. Postings are invalid until `lay_out`. O(all copies)."""
    kept = np.flatnonzero(~np.isin(copies.number, numbers))
    if len(kept) == len(copies.number):
        return copies
    words = np.diff(copies.begin)[kept]
    at = run_places(copies.begin[kept], words)
    by_copy = {name: getattr(copies, name)[kept] for name in ("number", "x", "y", "alpha", "theta")}
    by_term = {name: getattr(copies, name)[at] for name in ("word", "raw", "weight", "length", "own")}
    return copies._replace(begin=np.append(0, np.cumsum(words)), **by_copy, **by_term)


def with_thetas(copies: Copies, numbers: Ints, theta: Floats) -> None:
    """Set theta of those that have a copy. O(n log copies)."""
    at = np.searchsorted(copies.number, numbers)
    there = at < len(copies.number)
    there[there] = copies.number[at[there]] == numbers[there]
    copies.theta[at[there]] = theta[there]


def lay_out(copies: Copies, idf: Floats, order: Ints) -> Copies:
    """Copies with weights by this idf, and postings for words in this order, both by word. O(terms log terms)."""
    weigh_copies(copies, idf, order)
    copy = np.repeat(np.arange(len(copies.number)), np.diff(copies.begin))
    terms = np.flatnonzero(copies.own)
    terms = terms[np.argsort(copies.word[terms], kind="stable")]
    first = np.searchsorted(copies.word[terms], np.arange(len(idf) + 1))
    return copies._replace(first=first, posting=copy[terms].astype(np.int32), term=terms.astype(np.int32))


def reached_by(copies: Copies, posts: Weighed, order: Ints, diagonal: float) -> Reached:
    """The recipients of posts, of the pairs that are found here. O(postings of their words here)."""
    found: list[tuple[Ints, Ints, Floats]] = []
    counted, room = np.zeros(4, np.int64), 4_096 + 2 * len(copies.number)
    vector = np.zeros(max(len(order), len(copies.first)))
    longest = int(run_lengths(posts.end).max(initial=1))
    words = Words(vector, np.empty(longest, np.int64), np.empty(longest))
    hits = Hits(np.empty(room, np.int64), np.empty(room, np.int64), np.empty(room), counted)
    while counted[DONE] < len(posts.end):
        n = find_copies(copies, posts, order, diagonal, words, hits)
        found.append((hits.post[:n].copy(), copies.number[hits.copy[:n]], hits.score[:n].copy()))
    none = [(hits.post[:0], hits.copy[:0], hits.score[:0])]
    posts_, numbers, scores = zip(*(found or none), strict=True)
    return Reached(np.concatenate(posts_), np.concatenate(numbers), np.concatenate(scores), counted[:DONE])


@kernel
def weigh_copies(copies: Copies, idf: Floats, order: Ints) -> None:
    """Compute unit weights by this idf, and lengths for words in this order, both by word. O(words^2) each."""
    begin, word, weight = copies.begin, copies.word, copies.weight
    for i in range(begin.size - 1):
        weigh(word, copies.raw, idf, begin[i], begin[i + 1], -1, weight, 1)
        for j in range(begin[i], begin[i + 1]):
            total = 0.0
            for t in range(begin[i], begin[i + 1]):
                if order[word[t]] >= order[word[j]]:
                    total += weight[t] * weight[t]
            copies.length[j] = math.sqrt(total)


@kernel
def find_copies(copies: Copies, posts: Weighed, order: Ints, diagonal: float, words: Words, hits: Hits) -> int:
    """Write the recipients of the posts from number counted[DONE] on, until there is no room for all of another post.
    Returns how many were written."""
    vector, counted, found, going = words.vector, hits.counted, 0, True
    while going and counted[DONE] < posts.end.size:
        i = counted[DONE]
        begin, n, x, y = int64(posts.end[i - 1] if i else 0), 0, posts.x[i], posts.y[i]
        for t in range(begin, posts.end[i]):
            word, j = int64(posts.word[t]), n
            vector[word] = posts.weight[t]
            while j > 0 and order[words.word[j - 1]] > order[word]:
                words.word[j] = words.word[j - 1]
                j -= 1
            words.word[j] = word
            n += 1
        total = 0.0
        for j in range(n - 1, -1, -1):
            total += vector[words.word[j]] * vector[words.word[j]]
            words.length[j] = math.sqrt(total)
        for j in range(n):
            word, rest = words.word[j], words.length[j]
            low = copies.first[word] if word + 1 < copies.first.size else 0
            high = copies.first[word + 1] if word + 1 < copies.first.size else 0
            for p in range(low, high):
                copy, term = int64(copies.posting[p]), int64(copies.term[p])
                counted[READ] += 1
                alpha, theta = copies.alpha[copy], copies.theta[copy]
                most_text = rest * copies.length[term]
                first = score_of(copies.x[copy], copies.y[copy], alpha, x, y, diagonal, most_text) >= theta - SLACK
                if first:
                    for other in range(copies.begin[copy], copies.begin[copy + 1]):
                        if vector[copies.word[other]] > 0.0 and order[copies.word[other]] < order[word]:
                            first = False
                if first:
                    counted[SCORED] += 1
                    text = 0.0
                    for other in range(copies.begin[copy], copies.begin[copy + 1]):
                        text += copies.weight[other] * vector[copies.word[other]]
                    score = score_of(copies.x[copy], copies.y[copy], alpha, x, y, diagonal, text)
                    if score >= theta:
                        hits.post[found], hits.copy[found], hits.score[found] = i, copy, score
                        found += 1
        for t in range(begin, posts.end[i]):
            vector[posts.word[t]] = 0.0
        counted[DONE] += 1
        going = found + copies.number.size <= hits.post.size
    counted[FOUND] += found
    return found
