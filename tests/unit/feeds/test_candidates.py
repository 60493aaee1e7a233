"""What candidates are spared is safe: places rounded to 32 bits lose no recipient, and two halves are one whole."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest

from indexes.feeds.config import FeedConfig
from indexes.feeds.feed import FeedIndex
from indexes.feeds.kernels.postings import KEYS_END, LEVELS, SINGLE
from indexes.feeds.kernels.scratch import SEEN, VISITED
from indexes.feeds.subscription_index import OrderedIndex, SubscriptionIndex
from tests.unit.feeds.worlds import INDEXES

WORDS = "abcdefgh"


def played(index: SubscriptionIndex, offset: float, extent: float, tfidf: bool = False) -> tuple[FeedIndex, np.ndarray]:
    """A feed with 400 subscriptions around a point, which has seen 600 posts, and the subscriptions' slots."""
    rng = np.random.default_rng(5)

    def bags(n: int, most: int) -> list[dict[str, float]]:
        chosen = (sorted(set(rng.choice(list(WORDS), int(rng.integers(1, most + 1))).tolist())) for _ in range(n))
        return [{word: float(rng.random() + 0.1) for word in words} for words in chosen]

    def places(n: int) -> np.ndarray:
        return offset + extent * rng.uniform(-0.3, 1.3, (n, 2))

    feed = FeedIndex(FeedConfig((offset, offset, offset + extent, offset + extent), 200, tfidf=tfidf), index)
    feed.post(feed.documents(bags(200, 5)), places(200))
    alpha = rng.choice([0.0, 0.2, 0.5, 0.9, 1.0], 400)
    slots = feed.subscribe(feed.documents(bags(400, 3)), places(400), rng.integers(1, 6, 400), alpha)
    feed.post(feed.documents(bags(400, 5)), places(400))
    feed.check()
    return feed, slots


@pytest.mark.parametrize(
    ("offset", "extent"),
    [(0.0, 1.0), (1e6, 1.0), (-1e9, 1e-3), (1e12, 0.01), (1e30, 1e20), (0, 1e-42), (0, 6e99), (0, 8e99), (0, 8e-101)],
)
def test_places_far_from_the_origin_lose_no_recipient(offset: float, extent: float) -> None:
    mine, slots = played(OrderedIndex(50), offset, extent)
    other, _ = played(INDEXES["brute"](), offset, extent)
    for slot in slots.tolist():
        for found, wanted in zip(mine.list(slot), other.list(slot), strict=True):
            assert np.array_equal(found, wanted)


def test_more_postings_than_are_scored_together_lose_no_recipient() -> None:
    rng, n = np.random.default_rng(3), 2 * SEEN + 300
    homes, alpha, places = rng.random((n, 2)), rng.random(n), rng.random((60, 2))
    asked = [{"a": 1.0} if i % 3 else {"a": 1.0, "b": 2.0} for i in range(n)]
    posted = [{"a": 1.0} if i % 2 else {"a": 2.0, "b": 1.0, f"c{i}": float(i % 5 + 1)} for i in range(60)]
    lists, visited = [], []
    for index in (OrderedIndex(), INDEXES["brute"]()):
        feed = FeedIndex(FeedConfig((0, 0, 1, 1), 30, tfidf=False), index)
        slots = feed.subscribe(feed.documents(asked), homes, np.full(n, 2), alpha)
        for first in range(0, 60, 20):
            feed.post(feed.documents(posted[first : first + 20]), places[first : first + 20])
        feed.check()
        lists.append([tuple(column.tolist() for column in feed.list(slot)) for slot in slots.tolist()])
        visited.append(int(feed.counted[VISITED]))
    # The first posts reach all.
    assert lists[0] == lists[1] and visited[0] > 2 * n


@pytest.mark.parametrize("divided", [1, 50_000])
def test_two_halves_of_a_refill_fill_the_buffers_as_one(divided: int) -> None:
    whole, slots = played(OrderedIndex(50), 0.0, 1.0, tfidf=True)
    with patch("indexes.feeds.base.MANY", 1), patch("indexes.feeds.base.DIVIDED", divided):
        halves, _ = played(OrderedIndex(50), 0.0, 1.0, tfidf=True)
    assert len(halves.parts) == (2 if divided == 1 else 1)
    halves.check()
    assert whole.epoch.last == halves.epoch.last > 400
    a, b = whole.table.arrays, halves.table.arrays
    assert np.array_equal(a.note, b.note) and np.array_equal(a.complete, b.complete)
    for slot in slots.tolist():
        for found, wanted in zip(halves.list(slot), whole.list(slot), strict=True):
            assert np.array_equal(found, wanted)


def test_a_single_posting_of_a_word_has_one_key_until_another_comes() -> None:
    index = OrderedIndex(50)
    feed = FeedIndex(FeedConfig((0, 0, 1, 1), 10, tfidf=False), index)

    def subscribed() -> tuple[np.ndarray, int]:
        before = int(index.arrays.size[KEYS_END])
        bags = feed.documents([{"alone": 1.0}])
        slots = feed.subscribe(bags, np.array([[0.5, 0.5]]), np.array([1]), np.array([0.5]))
        feed.check()
        return slots, int(index.arrays.size[KEYS_END]) - before

    first, keys = subscribed()
    assert keys == SINGLE
    feed.post(feed.documents([{"alone": 1.0}]), np.array([[0.2, 0.5]]))
    feed.check()
    second, keys = subscribed()
    assert keys == 2 * len(LEVELS)
    posted = feed.post(feed.documents([{"alone": 1.0}]), np.array([[0.5, 0.5]]))
    feed.check()
    assert posted.reached.tolist() == [2]
    feed.remove(first)
    feed.remove(second)
    feed.check()
    assert feed.post(feed.documents([{"alone": 1.0}]), np.array([[0.5, 0.5]])).reached.tolist() == [0]
