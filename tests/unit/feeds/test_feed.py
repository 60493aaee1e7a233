"""A feed against brute force: after every step all lists are exact, whichever index and buffer it has."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from indexes.core.steps import run_all
from indexes.feeds.config import FeedConfig
from indexes.feeds.feed import FeedIndex
from indexes.feeds.kernels.subscriptions import ROW, THETA
from indexes.feeds.kernels.window import WORDS_OF_ONE
from indexes.feeds.theta import BUFFERS
from indexes.feeds.words import Documents
from tests.unit.feeds.worlds import BOUNDS, INDEXES, World, post_alone

seeds = st.integers(0, 2**32 - 1)


def play(world: World, steps: int) -> None:
    """What happens, by chance."""
    world.subscribe(12)
    for _ in range(steps):
        happens = world.rng.random()
        if happens < 0.6:
            world.post(int(world.rng.integers(1, 6)))
        elif happens < 0.7 and world.feed.config.span is not None:
            world.tick(world.now + int(world.rng.integers(0, 4)))
        elif happens < 0.8:
            world.withdraw()
        elif happens < 0.9:
            world.change()
        else:
            world.remove()
            world.subscribe(int(world.rng.integers(0, 4)))


@pytest.mark.parametrize("index", INDEXES)
@settings(max_examples=3)
@given(seed=seeds, buffer=st.sampled_from(BUFFERS), posts=st.sampled_from([1, 7, 30, 70]))
def test_lists_are_exact_by_each_index(index: str, seed: int, buffer: str, posts: int) -> None:
    play(World(seed, FeedConfig(BOUNDS, posts=posts, buffer=buffer), index=INDEXES[index]()), 25)


@pytest.mark.parametrize("buffer", BUFFERS)
@settings(max_examples=3)
@given(seed=seeds, tfidf=st.booleans())
def test_lists_are_exact_whatever_is_buffered(buffer: str, seed: int, tfidf: bool) -> None:
    play(World(seed, FeedConfig(BOUNDS, posts=25, tfidf=tfidf, buffer=buffer)), 25)


@settings(max_examples=5)
@given(seed=seeds, span=st.integers(1, 12), tfidf=st.booleans())
def test_windows_of_time_move_with_ticks(seed: int, span: int, tfidf: bool) -> None:
    play(World(seed, FeedConfig(BOUNDS, span=span, tfidf=tfidf)), 30)


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_place_alone_and_words_alone(alpha: float) -> None:
    play(World(5, FeedConfig(BOUNDS, posts=40), (alpha,)), 25)


@pytest.mark.parametrize("config", [FeedConfig(BOUNDS, posts=64), FeedConfig(BOUNDS, span=3)])
def test_epochs_begin_when_they_have_to(config: FeedConfig) -> None:
    world = World(1, config)
    world.subscribe(10)
    for i in range(20):
        world.post(7)
        if config.span:
            world.tick(i // 2)
    assert world.oracle.last > 64


def test_equal_posts_are_ordered_by_age() -> None:
    feed = FeedIndex(FeedConfig(BOUNDS, posts=50, tfidf=False))
    [slot] = feed.subscribe(feed.documents([{"a": 1.0}]), np.ones((1, 2)), np.array([3]), np.array([0.5])).tolist()
    feed.post(feed.documents([{"a": 2.0}] * 120), np.ones((120, 2)))
    posts, scores = feed.list(slot)
    assert posts.tolist() == [119, 118, 117] and len(set(scores.tolist())) == 1


def test_full_buffers_keep_what_counts() -> None:
    """Ever worse posts: all are in the skyband, so buffers overflow."""
    world = World(2, FeedConfig(BOUNDS, posts=200, tfidf=False), (1.0,))
    feed = world.feed
    [slot] = feed.subscribe(feed.documents([{"a": 1.0}]), np.zeros((1, 2)), np.array([2]), np.array([1.0])).tolist()
    room = int(feed.buffering.room(np.array([2]))[0])
    n = 3 * room
    places = np.stack([np.linspace(0, 3, n), np.zeros(n)], axis=1)
    feed.post(feed.documents([{"a": 1.0}] * n), places)
    assert feed.list(slot)[0].tolist() == [0, 1] and feed.table.arrays.held[slot] <= room
    assert feed.table.arrays.row[slot * ROW + THETA] > 0 and not feed.table.arrays.complete[slot]
    feed.withdraw(list(range(n - 5)))
    assert feed.list(slot)[0].tolist() == [n - 5, n - 4]


@settings(max_examples=4)
@given(seed=seeds, buffer=st.sampled_from(["cost", "kscore", "fixed"]))
def test_buffers_are_the_skyband_above_their_bound(seed: int, buffer: str) -> None:
    """Theorem 6.1: what is in a buffer, and that it has k entries just if k posts are above its bound."""
    world = World(seed, FeedConfig(BOUNDS, posts=60, buffer=buffer))
    world.subscribe(12)
    for _ in range(12):
        world.post(9)
        world.compare_buffers()


def test_what_a_skipped_group_would_have_added_is_not_lost() -> None:
    """At b the group is skipped by [Spatial-keyword] Theorem 5.3, yet s is relevant by a and b together."""
    theta = 0.35
    for name, make in INDEXES.items():
        feed = FeedIndex(FeedConfig(BOUNDS, posts=1000, tfidf=False), make())
        rest = (1 - 2 * 0.3**2) ** 0.5
        s = {"a": 0.8, "b": 0.6}
        # Rarity is c, a, b: as many posts as make it so, none of which is better than theta but one.
        feed.post(feed.documents([{"b": 1.0, "z": 20.0}] * 40 + [{"a": 1.0, "z": 20.0}] * 24), np.ones((64, 2)))
        feed.post(feed.documents([{"a": theta, "y": (1 - theta**2 / 0.64) ** 0.5}]), np.ones((1, 2)))
        [slot] = feed.subscribe(feed.documents([s]), np.ones((1, 2)), np.array([1]), np.array([0.0])).tolist()
        m = feed.post(feed.documents([{"a": 0.3, "b": 0.3, "c": rest}]), np.ones((1, 2)))
        assert feed.list(slot)[0].tolist() == [65] and m.reached.tolist() == [1], name
        assert abs(float(feed.list(slot)[1][0]) - 0.42) < 1e-12


def test_what_is_refused_changes_nothing() -> None:
    feed = FeedIndex(FeedConfig(BOUNDS, posts=5))
    a = feed.documents([{"a": 1.0}])
    for documents, k, alpha in (
        (a, 0, 0.5),
        (a, 4096, 0.5),
        (a, 1, 1.5),
        (a, 1, float("nan")),
        (Documents(np.zeros(1, np.int64), a.word[:0], a.weight[:0]), 1, 0.5),
    ):
        with pytest.raises(ValueError):
            feed.subscribe(documents, np.ones((1, 2)), np.array([k]), np.array([alpha]))
    with pytest.raises(KeyError):
        feed.withdraw([0])
    with pytest.raises(KeyError):
        feed.remove(np.array([0]))
    assert len(feed) == 0
    for config in (
        FeedConfig((0, 0, 0, 0), posts=5),
        FeedConfig(BOUNDS),
        FeedConfig(BOUNDS, posts=5, span=5),
        FeedConfig(BOUNDS, posts=0),
        FeedConfig(BOUNDS, posts=5, buffer="none"),
    ):
        with pytest.raises(ValueError):
            FeedIndex(config)


def test_empty_posts_only_move_the_window() -> None:
    feed = FeedIndex(FeedConfig(BOUNDS, posts=3, tfidf=False))
    [slot] = feed.subscribe(feed.documents([{"a": 1.0}]), np.ones((1, 2)), np.array([2]), np.array([0.5])).tolist()
    feed.follow(slot)
    posted = feed.post(feed.documents([{"a": 1.0}, {}, {}, {}]), np.ones((4, 2)))
    assert posted.reached.tolist() == [1, 0, 0, 0] and posted.changed.step.tolist() == [0, 3]
    assert len(feed.list(slot)[0]) == 0


def test_posts_reach_a_bulk_that_was_laid_out_at_its_end() -> None:
    world = World(3, FeedConfig(BOUNDS, posts=25))
    world.post(30)
    for _ in range(3):
        asks = [world.ask() for _ in range(20)]
        documents, places, k, alpha = world.given(asks)
        slots = run_all(world.feed.subscribe_steps(documents, places, k, alpha, lay_out=False))
        world.oracle.asks.update(zip(slots.tolist(), asks, strict=True))
    run_all(world.feed.lay_out_steps())
    world.compare()
    for _ in range(30):
        world.post(2)


def test_a_post_that_was_withdrawn_does_not_expire() -> None:
    feed = FeedIndex(FeedConfig(BOUNDS, span=3))
    feed.post(feed.documents([{"a": 1.0}]), np.ones((1, 2)), 1)
    feed.withdraw([0])
    feed.expire(9)
    assert feed.first == 1 and not feed.epoch.expired
    feed.post(feed.documents([{"a": 1.0}]), np.ones((1, 2)), 10)
    feed.expire(13)
    assert feed.first == 2 and feed.epoch.expired


def test_numbers_of_forgotten_words_are_used_again() -> None:
    feed = FeedIndex(FeedConfig(BOUNDS, posts=10))
    [slot] = feed.subscribe(feed.documents([{"a": 1.0}]), np.ones((1, 2)), np.array([2]), np.array([0.5])).tolist()
    for i in range(60):
        feed.post(feed.documents([{"a": 1.0, f"x{i}": 1.0}]), np.ones((1, 2)))
        feed.forget_words()
    # Those of the window, and of the one in which the epoch began.
    assert len(feed.words) <= 22 and "a" in feed.words and "x20" not in feed.words
    assert feed.list(slot)[0].tolist() == [59, 58]


@pytest.mark.parametrize("words", [0, 1, WORDS_OF_ONE, WORDS_OF_ONE + 1, 3 * WORDS_OF_ONE])
def test_a_post_of_any_length_alone_is_one_of_many(words: int) -> None:
    bags = [{f"w{i:03}": 1.0 + i % 7 for i in range(first, words + first)} for first in (0, 0, 2)]
    place, feeds = np.ones((1, 2)), [FeedIndex(FeedConfig(BOUNDS, posts=2)) for _ in range(2)]
    for feed in feeds:
        feed.subscribe(feed.documents([{"w001": 1.0, "w002": 2.0}]), place, np.array([2]), np.array([0.5]))
    alone, many = feeds
    for i, bag in enumerate(bags):
        # In any order, as the keywords of a post may come.
        shown = bag if i else dict(reversed(bag.items()))
        reached = post_alone(alone, shown, (1.0, 1.0)).reached.tolist()
        assert reached == many.post(many.documents([bag]), place).reached.tolist()
    for feed in feeds:
        feed.check()
    (posts, scores), (same, equal) = alone.list(0), many.list(0)
    assert posts.tolist() == same.tolist() and scores.tolist() == equal.tolist()


class FeedMachine(RuleBasedStateMachine):
    """Whatever happens in whatever order."""

    @initialize(seed=seeds, posts=st.sampled_from([3, 20, 64]), buffer=st.sampled_from(BUFFERS))
    def begin(self, seed: int, posts: int, buffer: str) -> None:
        self.world = World(seed, FeedConfig(BOUNDS, posts=posts, buffer=buffer))

    @rule(n=st.integers(1, 70))
    def post(self, n: int) -> None:
        self.world.post(n)

    @rule(times=st.integers(1, 8))
    def post_one_by_one(self, times: int) -> None:
        for _ in range(times):
            self.world.post(1)

    @rule(n=st.integers(1, 8))
    def subscribe(self, n: int) -> None:
        self.world.subscribe(n)

    @rule()
    def forget_words(self) -> None:
        self.world.feed.forget_words()
        self.world.compare()

    @precondition(lambda self: self.world.oracle.asks)
    @rule()
    def change(self) -> None:
        self.world.change()

    @rule()
    def remove(self) -> None:
        self.world.remove()

    @rule()
    def withdraw(self) -> None:
        self.world.withdraw()

    @invariant()
    def window_is_right(self) -> None:
        if hasattr(self, "world"):
            assert all(self.world.feed.holds(post.number) for post in self.world.oracle.window)


TestFeedMachine = FeedMachine.TestCase
TestFeedMachine.settings = settings(max_examples=5, stateful_step_count=12)
