"""Two parts of a feed, served in two threads or one after the other, are one whole, bit for bit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.core import helper_threads
from indexes.core.steps import run_all
from indexes.feeds.config import FeedConfig
from indexes.feeds.feed import FeedIndex
from indexes.feeds.kernels.subscriptions import ENTRY, ROW, THETA
from indexes.feeds.subscription_index import OrderedIndex
from indexes.feeds.warm import exercise, warm
from tests.support.compiling import compiled
from tests.support.values import UNCOMPILED
from tests.unit.feeds.worlds import BOUNDS, World

NEVER = 1 << 60

seeds = st.integers(0, 2**32 - 1)


@contextmanager
def parts(many: int, both: int) -> Iterator[None]:
    """Feeds have two parts from `many` subscriptions on, and two threads from `both` posts times subscriptions on."""
    with (
        patch("indexes.feeds.base.MANY", many),
        patch("indexes.feeds.base.DIVIDED", many),
        patch("indexes.feeds.publishing.BOTH", both),
    ):
        helper_threads.provide(1)
        try:
            yield
        finally:
            helper_threads.provide(0)


def subscribe(world: World, n: int) -> None:
    """Subscribe, and lay the index out, by which many subscriptions are divided."""
    world.subscribe(n)
    run_all(world.feed.lay_out_steps())


def play(world: World, rounds: int) -> None:
    """Everything that happens to a feed, in turn."""
    steps: list[Callable[[], None]] = [world.change, world.remove, world.withdraw, lambda: world.subscribe(9)]
    for _ in range(rounds):
        world.post(int(world.rng.integers(1, 25)))
        steps[int(world.rng.integers(len(steps)))]()
        if world.feed.config.span:
            world.tick(world.now + int(world.rng.integers(0, 3)))
    run_all(world.feed.lay_out_steps())
    world.post(5)


def buffers(world: World) -> list[tuple[int, float, bytes, bytes]]:
    """By slot: theta, and the scores and tags of the buffer."""
    s, found = world.feed.table.arrays, []
    for slot in world.feed.table.slots().tolist():
        begin = int(s.note[slot * ROW + ENTRY])
        run = slice(begin, begin + int(s.held[slot]))
        found.append((slot, float(s.row[slot * ROW + THETA]), s.score[run].tobytes(), s.tag[run].tobytes()))
    return found


@settings(max_examples=2)
@given(seed=seeds, span=st.booleans(), tfidf=st.booleans())
def test_one_part_and_two_in_one_thread_or_two_are_the_same(seed: int, span: bool, tfidf: bool) -> None:
    found = []
    for many, both in ((NEVER, NEVER), (1, NEVER), (1, 0)):
        config = FeedConfig(BOUNDS, span=6, tfidf=tfidf) if span else FeedConfig(BOUNDS, posts=60, tfidf=tfidf)
        with parts(many, both):
            world = World(seed, config, index=OrderedIndex(4))
            world.post(30)
            subscribe(world, 60)
            play(world, 5)
        assert len(world.feed.parts) == (2 if many == 1 else 1)
        found.append(buffers(world))
    assert found[0] == found[1] == found[2]


def test_a_batch_is_served_in_two_threads() -> None:
    names: set[str] = set()

    class Noting(OrderedIndex):
        def post(self, *args: object) -> int:
            names.add(threading.current_thread().name)
            return super().post(*args)  # type: ignore[arg-type]

    with parts(1, 100):
        world = World(5, FeedConfig(BOUNDS, posts=60), index=Noting(4))
        subscribe(world, 60)
        world.post(1)
        assert names == {threading.current_thread().name}
        world.post(40)
    assert names == {threading.current_thread().name, "helper"}


def test_a_subscription_that_moves_to_the_other_part_is_served_there() -> None:
    with parts(1, 0):
        world = World(6, FeedConfig(BOUNDS, posts=60, tfidf=False), index=OrderedIndex(4))
        world.post(60)
        subscribe(world, 60)
        first, second = world.feed.parts
        table = world.feed.table.arrays
        for _ in range(3):
            before = set(first.of(table, world.feed.table.slots()).tolist())
            for _ in range(10):
                world.change()
            after = set(first.of(table, world.feed.table.slots()).tolist())
            assert before - after and after - before
            world.post(20)
        assert set(second.of(table, world.feed.table.slots()).tolist()) == set(range(60)) - after


@pytest.mark.parametrize("span", [False, True])
def test_posts_of_a_batch_may_expire_within_it(span: bool) -> None:
    with parts(1, 0):
        world = World(
            7, FeedConfig(BOUNDS, posts=None if span else 10, span=3 if span else None), index=OrderedIndex(4)
        )
        subscribe(world, 60)
        for _ in range(2):
            world.post(30)
            if span:
                world.tick(world.now + 2)
    assert np.all(world.feed.table.arrays.noted == 0)


@pytest.mark.skipif(UNCOMPILED, reason="nothing is compiled")
@pytest.mark.parametrize("span", [False, True])
def test_two_parts_need_no_kernels_of_their_own(span: bool) -> None:
    warm()
    config = FeedConfig((0.0, 0.0, 2.0, 1.0), span=1) if span else FeedConfig((0.0, 0.0, 2.0, 1.0), posts=64)
    feed = FeedIndex(config)
    with parts(1, 0), compiled() as kernels:
        exercise(feed)
    assert len(feed.parts) == 2 and not kernels
