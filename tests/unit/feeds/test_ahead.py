"""Posts that are executed before those ahead of them are published come to the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexes.core import ids
from indexes.core.cost import Cost
from indexes.feeds.commands import Post, SetSubscription, Tick
from indexes.feeds.config import FeedConfig, Keywords
from indexes.feeds.engine import FeedEngine

BOUNDS = (0.0, 0.0, 4.0, 3.0)
CONFIGS = [
    FeedConfig(BOUNDS, posts=3),
    FeedConfig(BOUNDS, posts=40, buffer="kscore"),
    FeedConfig(BOUNDS, posts=200, tfidf=False),
    FeedConfig(BOUNDS, span=4),
]

rows = st.tuples(
    st.integers(0, 60),
    st.one_of(st.lists(st.sampled_from("abcde"), max_size=3), st.dictionaries(st.sampled_from("abc"), st.just(0.5))),
    st.tuples(st.integers(0, 4), st.integers(0, 3)),
)
groups = st.lists(st.lists(rows, min_size=1, max_size=30), min_size=2, max_size=12)


def posts(some: list[tuple[int, Any, tuple[int, int]]], at: int) -> Post:
    keywords = Keywords.of([words for _, words, _ in some])
    points = np.array([place for _, _, place in some], np.float64).reshape(len(some), 2)
    return Post([f"p{id}" for id, _, _ in some], keywords, points, at, skip=True, apart=True)


def subscribed(config: FeedConfig) -> FeedEngine:
    engine = FeedEngine(config)
    for n, word in enumerate("abcdeab"):
        engine.apply(SetSubscription(f"s{n}", [word, "c"], (n % 4, n % 3), 1 + n % 3, 0.5))
    return engine


def state(engine: FeedEngine) -> Any:
    engine.check()
    lists = [[(one.post.number, one.score) for one in engine.list_of(f"s{n}")] for n in range(7)]
    return engine.seq, engine.posts(None, 1_000), lists


@given(st.sampled_from(CONFIGS), groups, st.sampled_from([1, 2, 64]))
def test_posts_executed_ahead_come_to_the_same(config: FeedConfig, some: list[list[Any]], fit: int) -> None:
    """Whether a slice has one post, two, or all."""
    one_by_one, ahead = subscribed(config), subscribed(config)
    ahead.post_cost = Cost(1.0 / fit, fixed=True)
    reached = []
    for at, group in enumerate(some):
        plan, _ = one_by_one.apply(posts(group, at))
        reached.append(plan.reached)
    plans = [ahead.prepare(posts(group, at)) for at, group in enumerate(some)]
    begun = set[int]()
    for at, plan in enumerate(plans):
        while not plan.done:
            if at not in begun:
                plan.execute(1.0)
            begun.discard(at)
            if at + 1 < len(plans) and at + 1 not in begun and plan.lets_begin(plans[at + 1]):
                plans[at + 1].execute(1.0)
                begun.add(at + 1)
            plan.publish()
    assert [plan.reached for plan in plans] == reached
    assert state(ahead) == state(one_by_one)


@pytest.mark.parametrize(
    "why",
    ["", "a live list", "unfinished", "another command", "a lone post", "a lone last post", "an epoch", "crowded ids"],
)
def test_posts_let_others_begin_where_nobody_is_notified(monkeypatch: pytest.MonkeyPatch, why: str) -> None:
    engine = subscribed(FeedConfig(BOUNDS, posts=8 if why == "an epoch" else 1_000, tfidf=why == "an epoch"))
    engine.apply(posts([(100, ["a"], (1, 1))], 0))
    if why == "a live list":
        engine.watch("s0")
    if why == "crowded ids":
        monkeypatch.setattr(ids, "MERGE_AT", 10)
        monkeypatch.setattr(engine.posts_kept.ids, "_stay", 10)
    count = 1 if why == "a lone post" else 3
    plan = engine.prepare(posts([(id, ["a"], (1, 1)) for id in range(count)], 1))
    behind = engine.prepare(posts([(id, ["a"], (1, 1)) for id in range(50, 60)], 2))
    if why == "another command":
        behind = engine.prepare(Tick(5))
    if why == "a lone last post":
        engine.post_cost = Cost(0.5, fixed=True)
        plan.execute(1.0)
        assert not plan.lets_begin(behind)
        plan.publish()
    if why != "unfinished":
        plan.execute(1.0)
    assert plan.lets_begin(behind) == (not why)
