"""Refills of all buffers by one pass over the window, against brute force."""

from __future__ import annotations

from itertools import chain
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.feeds.config import FeedConfig
from indexes.feeds.kernels.buffers import EVALUATED
from indexes.feeds.report import Report
from indexes.feeds.theta import BUFFERS
from tests.unit.feeds.worlds import BOUNDS, INDEXES, World

seeds = st.integers(0, 2**32 - 1)


def play(world: World, rounds: int) -> int:
    """Posts come and are withdrawn over some epochs, before each of which weights are far from what they become.

    Returns how many epochs began.
    """
    began = 0
    for _ in range(rounds):
        last = world.oracle.last
        world.post(int(world.rng.integers(5, 20)))
        began += world.oracle.last > last
        world.compare_buffers()
        if world.rng.random() < 0.5:
            world.withdraw()
            world.change()
    return began


@pytest.mark.parametrize("index", INDEXES)
@settings(max_examples=2)
@given(seed=seeds, buffer=st.sampled_from(BUFFERS), window=st.sampled_from([64, 100]))
def test_after_an_epoch_buffers_are_the_skyband_of_the_window(index: str, seed: int, buffer: str, window: int) -> None:
    world = World(seed, FeedConfig(BOUNDS, posts=window, buffer=buffer), index=INDEXES[index]())
    world.subscribe(15)
    assert play(world, 16) > 0


@settings(max_examples=2)
@given(seed=seeds, span=st.integers(3, 6))
def test_epochs_of_ticks_fill_buffers_too(seed: int, span: int) -> None:
    world = World(seed, FeedConfig(BOUNDS, span=span))
    world.subscribe(15)
    for _ in range(8):
        play(world, 2)
        world.tick(world.now + 1)
        world.compare_buffers()


def test_nobody_is_evaluated_when_an_epoch_begins() -> None:
    world = World(3, FeedConfig(BOUNDS, posts=100))
    world.post(120)
    world.subscribe(30)
    world.post(43)
    s = world.feed.table.arrays
    slots = world.feed.table.slots()
    assert (s.held[slots] >= s.k[slots]).any() and (s.held[slots] < s.k[slots]).any()
    before = int(world.feed.evaluation.size[EVALUATED])
    lists = world.before
    world.post(1)
    assert int(world.feed.evaluation.size[EVALUATED]) == before and world.before != lists


@pytest.mark.parametrize("many", [2, 20_000])
def test_lists_that_are_read_while_an_epoch_begins_are_those_after_it(many: int) -> None:
    world = World(4, FeedConfig(BOUNDS, posts=64))
    world.subscribe(12)
    world.post(63)
    bag, place = world.bag(7), world.place()
    reached = world.oracle.post(bag, place, 0)
    feed = world.feed
    pieces, report = 0, Report()
    with (
        patch("indexes.feeds.epochs.BOUNDED", 1),
        patch("indexes.feeds.epochs.REFILLED", 1),
        patch("indexes.feeds.base.MANY", many),
    ):
        found = feed.post_batch(feed.documents([bag]), np.array([place]), 0, report)
        assert feed.due
        # The last look is at what there is when it has begun.
        for _ in chain(feed.epoch_steps(found, report), [None]):
            pieces += 1
            for slot in world.oracle.asks:
                posts, scores = feed.list(slot)
                assert list(zip(posts.tolist(), scores.tolist(), strict=True)) == world.oracle.list(slot)
    assert found.tolist() == [reached] and pieces > 64
    world.compare()
    world.compare_buffers()
