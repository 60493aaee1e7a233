"""Whoever routes posts holds none back that matters.

Every pair with a score of theta or more meets, and the more is held back the better.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from indexes.feeds.kernels import copies as cp
from indexes.feeds.words import Documents
from spark_jobs.feeds.routers import MECHANISMS, make_router

DIAGONAL = 5.0
WORDS = 30


def documents(rng: np.random.Generator, n: int, most: int) -> Documents:
    """Bags whose words weigh very different amounts."""
    rows = [np.sort(rng.choice(WORDS, int(rng.integers(1, most + 1)), replace=False)) for _ in range(n)]
    word = np.concatenate(rows).astype(np.int32)
    return Documents(np.cumsum([len(row) for row in rows]), word, rng.choice([1.0, 0.3, 0.05], len(word)))


def world(seed: int, n: int, m: int) -> tuple[cp.Copies, cp.Weighed, Any]:
    """Subscriptions, posts, and the order of words. Theta is the score of a post that shares a word, for a tenth 0."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(WORDS).astype(np.int64)
    idf, own = rng.uniform(0.5, 4.0, WORDS), None
    asks, alpha = documents(rng, n, 4), rng.choice([0.0, 0.05, 0.5, 0.95, 1.0], n)
    own = np.ones(len(asks.word), np.uint8)
    c = cp.with_copies(cp.no_copies(), np.arange(n), asks, own, rng.random((n, 2)) * [4, 3], alpha, np.zeros(n))
    cp.weigh_copies(c, idf, order)
    posts = documents(rng, m, 7)
    places = rng.random((m, 2)) * [4, 3]
    p = cp.with_copies(
        cp.no_copies(), np.arange(m), posts, np.ones(len(posts.word), np.uint8), places, np.zeros(m), np.zeros(m)
    )
    cp.weigh_copies(p, idf, order)
    weighed = cp.Weighed(p.x, p.y, posts.end, posts.word, p.weight)
    for s in range(n):
        scores = [score for i in range(m) if (score := score_of(c, s, weighed, i)) is not None]
        c.theta[s] = rng.choice(scores) if scores and rng.random() < 0.9 else 0.0
    return c, weighed, order


def words_of(end: Any, word: Any, weight: Any, i: int) -> dict[int, float]:
    begin = int(end[i - 1]) if i else 0
    return dict(zip(word[begin : end[i]].tolist(), weight[begin : end[i]].tolist(), strict=True))


def score_of(c: cp.Copies, s: int, posts: cp.Weighed, i: int) -> float | None:
    """By definition; None where no word is shared."""
    mine, theirs = words_of(c.begin[1:], c.word, c.weight, s), words_of(posts.end, posts.word, posts.weight, i)
    shared = mine.keys() & theirs.keys()
    if not shared:
        return None
    near = max(0.0, 1.0 - math.hypot(c.x[s] - posts.x[i], c.y[s] - posts.y[i]) / DIAGONAL)
    return float(c.alpha[s] * near + (1.0 - c.alpha[s]) * sum(mine[word] * theirs[word] for word in shared))


@pytest.mark.parametrize("partitions", [3, 50])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_every_pair_that_matters_meets_once(mechanism: str, partitions: int) -> None:
    needless = matters = 0
    for seed in range(3):
        c, posts, order = world(seed, 50, 60)
        router = make_router(mechanism, partitions, DIAGONAL)
        df = np.bincount(posts.word, minlength=WORDS).astype(np.int32)
        router.lay_out(c, order, df)
        owner = router.owners(c.number, np.column_stack([c.x, c.y]))
        routed = router.route(posts, c, owner, order)
        there, at = router.wanted(c) if router.apart else (None, None)
        for s in range(50):
            mine = words_of(c.begin[1:], c.word, c.weight, s)
            for i in range(60):
                score = score_of(c, s, posts, i)
                where = int(owner[s])
                if there is not None and at is not None and score is not None:
                    shared = mine.keys() & words_of(posts.end, posts.word, posts.weight, i).keys()
                    first = min(shared, key=lambda word: order[word])
                    where = int(at[c.begin[s] + list(mine).index(first)])
                    if score >= c.theta[s]:
                        assert there[s, where], (seed, s, i)
                if score is not None and score >= c.theta[s]:
                    matters += 1
                    assert routed[i, where], (seed, s, i, score, c.theta[s])
                else:
                    needless += int(routed[i, where])
    assert matters > 500
    if mechanism in ("location", "prefix") and partitions == 50:
        # Not all pairs that do not matter are looked at.
        assert needless < 3 * 50 * 60 - matters


def test_partitions_by_place_hold_as_much_each() -> None:
    c, _, order = world(7, 50, 20)
    for partitions in (1, 2, 5, 8):
        router = make_router("location", partitions, DIAGONAL)
        router.lay_out(c, order, np.zeros(WORDS, np.int32))
        count = np.bincount(router.owners(c.number, np.column_stack([c.x, c.y])), minlength=partitions)
        assert len(count) == partitions and count.min() >= 50 // partitions // 2


def test_words_that_weigh_much_are_cut_into_shards() -> None:
    rng = np.random.default_rng(1)
    n = 400
    word = np.where(rng.random(n) < 0.6, 0, rng.integers(1, WORDS, n)).astype(np.int32)
    one_each = Documents(np.arange(1, n + 1), word, np.ones(n))
    own = np.ones(n, np.uint8)
    c = cp.with_copies(cp.no_copies(), np.arange(n), one_each, own, np.zeros((n, 2)), np.ones(n), np.zeros(n))
    order = np.arange(WORDS)
    busiest = {}
    for split in (True, False):
        router = make_router("keyword", 4, DIAGONAL, split)
        router.lay_out(c, order, np.ones(WORDS, np.int32))
        there, _ = router.wanted(c)
        assert (there.sum(axis=1) == 1).all()
        busiest[split] = int(there.sum(axis=0).max())
    assert busiest[True] < 0.35 * n < 0.55 * n < busiest[False]


def test_mechanisms_that_are_not_there_are_refused() -> None:
    with pytest.raises(ValueError, match="no mechanism is called 'random'"):
        make_router("random", 2, DIAGONAL)
