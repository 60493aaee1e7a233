"""Buffers filled anew by one pass over the window, in place of an evaluation for each subscription.

When weights move, what a buffer holds is still k posts or more of the window, so the worst score that one of them has
now is a right theta: at least as many posts score that much. With these thetas all subscriptions are laid out, and the
posts of the window come once more, in order, to whom they reach. What a buffer holds then is the k-skyband of all that
is above its bound, as if these posts had just been posted (design 5, Theorem 6.1). It costs the postings read and the
entries made, not the postings of all words of each subscription.
"""

from __future__ import annotations

import math

from indexes.feeds.buffers import insert, score_of
from indexes.feeds.subscribers import ALPHA, ENTRY, POSTS, ROW, TERM, THETA, WORDS, X, Y
from indexes.feeds.theta import BUCKETS
from indexes.lanes import prefetch_block
from indexes.lean import inner_kernel, lean_kernel

AHEAD = 8
"""Subscriptions whose buffers are asked for ahead."""


@lean_kernel
def bound_all(v, s, limits, slots, first, end, diagonal):  # type: ignore[no-untyped-def]
    """Give subscriptions the theta that the posts of their buffers warrant with the weights as they are now, and empty
    these buffers. Who shares words with few posts gets 0, and will hold them all. O(entries, by their words)."""
    for i in range(first, end):
        slot = slots[i]
        row, n = slot * ROW, s.held[slot]
        begin, most = s.note[row + TERM], 0
        for t in range(begin, begin + s.note[row + WORDS]):
            most += v.df[int(s.term[2 * t])]
        bucket = 0
        while bucket < BUCKETS - 1 and (most >> (bucket + 1)) > 0:
            bucket += 1
        all_fit = most <= limits.rank[s.kind[slot] * BUCKETS + bucket]
        theta = 0.0
        if n >= s.k[slot] and not all_fit:
            theta = math.inf
            for j in range(s.note[row + ENTRY], s.note[row + ENTRY] + n):
                theta = min(theta, _score_now(v, s, slot, s.tag[j] // POSTS, diagonal))
        s.row[row + THETA] = theta
        s.complete[slot] = 1 if theta == 0.0 else 0
        s.held[slot] = 0


@inner_kernel
def _score_now(v, s, slot, post, diagonal):  # type: ignore[no-untyped-def]
    """The score of a post of the window. Terms are added as where it is evaluated, or reached: the bits are the same.
    O(words of both)."""
    place, mask, row = post & (v.x.size - 1), v.word.size - 1, slot * ROW
    begin, text = v.term[place], 0.0
    for t in range(s.note[row + TERM], s.note[row + TERM] + s.note[row + WORDS]):
        word = int(s.term[2 * t])
        for at in range(begin, begin + v.terms[place]):
            if v.word[at & mask] == word:
                text += s.term[2 * t + 1] * v.weight[at & mask]
    return score_of(s.row[row + X], s.row[row + Y], s.row[row + ALPHA], v.x[place], v.y[place], diagonal, text)


@inner_kernel
def take_again(s, limits, z, hits, post):  # type: ignore[no-untyped-def]
    """A post of the window, behind all that came in so far, comes into the buffers of those that it reaches. Writes to
    z.hit_score what theta each had."""
    for i in range(hits):
        if i + AHEAD < hits:
            ahead = s.note[int(z.hit[i + AHEAD]) * ROW + ENTRY]
            for line in range(2):
                prefetch_block(s.score, ahead + 8 * line)
                prefetch_block(s.tag, ahead + 8 * line)
        slot, score = int(z.hit[i]), z.hit_score[i]
        z.hit_score[i] = s.row[slot * ROW + THETA]
        insert(s, limits, slot, score, post)
