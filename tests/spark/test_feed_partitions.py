"""Lists of a feed in partitions are those by brute force at the ends of batches, bit for bit, by each mechanism."""

from __future__ import annotations

import pytest

from indexes.feeds.config import FeedConfig
from spark_jobs.feeds.front import Counts
from spark_jobs.feeds.routers import MECHANISMS
from tests.spark.feeds import Local, World

BOUNDS = (0.0, 0.0, 4.0, 3.0)

CONFIGS = {
    "posts": FeedConfig(BOUNDS, posts=100),
    "given": FeedConfig(BOUNDS, posts=70, tfidf=False, buffer="kscore"),
    "span": FeedConfig(BOUNDS, span=25),
}


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
def test_lists_at_the_ends_of_batches_are_exact(config: FeedConfig, mechanism: str, partitions: int) -> None:
    world, local = World(partitions, config), Local(config, mechanism, partitions)
    known: dict[str, tuple[list[str], list[float]]] = {}
    told = local.batch([world.posts(10), world.subscribe(40)])
    for number in range(12):
        known.update({row.subscription: (row.posts, row.scores) for row in told})
        expected = world.lists()
        assert {id: known[id] for id in expected} == expected, (number, local.front.counts)
        if number < 11:
            told = local.batch(world.batch(), renew=number % 3 == 1)
    counts = local.front.counts
    assert counts.posts == world.oracle.came and sum(counts.subscriptions) == len(world.oracle.asks)
    assert sum(counts.read) > 0
    if partitions > 1 and mechanism == "hashing":
        assert counts.routed == partitions * counts.posts


def followed(seed: int, mechanism: str, alphas: tuple[float, ...], weigh: bool) -> Counts:
    """What was sent in a world whose routers can hold much back; its lists are compared after every batch."""
    config = FeedConfig(BOUNDS, posts=120, tfidf=weigh, buffer="kscore")
    world, local = World(seed, config, alphas), Local(config, mechanism, 4)
    known: dict[str, tuple[list[str], list[float]]] = {}
    told = local.batch([world.posts(120), world.subscribe(60)])
    for number in range(12):
        known.update({row.subscription: (row.posts, row.scores) for row in told})
        assert known == world.lists(), number
        told = local.batch([world.posts(25)])
    return local.front.counts


@pytest.mark.parametrize("seed", [1, 2])
def test_a_place_that_is_far_from_all_is_not_looked_at(seed: int) -> None:
    counts = followed(seed, "location", (0.9, 1.0), True)
    assert 0 < counts.routed < 0.6 * 4 * counts.posts


@pytest.mark.parametrize("seed", [1, 2])
def test_a_word_with_which_no_post_matters_routes_none(seed: int) -> None:
    keyword, prefix = (followed(seed, mechanism, (0.0, 0.05, 0.3), False) for mechanism in ("keyword", "prefix"))
    assert 0 < prefix.routed < 0.97 * keyword.routed and prefix.copies < 0.97 * keyword.copies
    assert prefix.hits == keyword.hits
