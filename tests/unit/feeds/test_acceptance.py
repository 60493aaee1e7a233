"""Posts of which it is plain that all apply are accepted as those are that are looked at one by one."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexes.core.commands import Refused
from indexes.core.pending_subscriptions import run_steps
from indexes.feeds.commands import Post, Withdraw
from indexes.feeds.config import FeedConfig, Keywords
from indexes.feeds.engine import FeedEngine

coordinates = st.sampled_from([0.0, -0.0, 0.5, -1e200, 1e300, -1.1e300, math.inf, math.nan])
sound = st.sampled_from([["a"], [], {"b": 2.0}])
posts = st.tuples(st.sampled_from("pqrst"), sound | st.just([""]), st.tuples(coordinates, coordinates))
plain = st.tuples(st.sampled_from("pqrst"), sound, st.tuples(st.sampled_from([0.5, -0.0]), st.just(1.0)))
commands = st.lists(
    st.tuples(st.lists(plain, min_size=1, max_size=3) | st.lists(posts, max_size=4), st.booleans(), st.booleans()),
    max_size=6,
)


def command_of(some: list[Any], at: int, skip: bool, apart: bool) -> Post:
    ids, shown, points = [one[0] for one in some], [one[1] for one in some], [one[2] for one in some]
    where = np.array(points, np.float64).reshape(-1, 2)
    return Post(ids, Keywords.of(shown), where, at, {0: b"1"} if some else {}, skip, apart and skip)


def outcome(accept: Any, command: Post) -> tuple[Any, Any]:
    """The plan, and what there is to see of it or of a refusal."""
    try:
        plan = accept(command)
    except Refused as error:
        return None, error.faults
    c = plan.command
    numbers = c.points.tolist(), np.signbit(c.points).tolist(), c.keywords.shown(), c.at
    seen = c.ids, *numbers, c.payload, plan.first_seq, plan.count, plan.faults, plan.positions
    return plan, seen


@given(some=commands, window=st.sampled_from([{"posts": 3}, {"span": 4}]), apply=st.lists(st.booleans(), min_size=6))
def test_posts_are_accepted_together_as_one_by_one(
    some: list[tuple[list[Any], bool, bool]], window: dict[str, Any], apply: list[bool]
) -> None:
    whole, apart = (FeedEngine(FeedConfig((0.0, 0.0, 1.0, 1.0), tfidf=False, **window)) for _ in range(2))
    waiting: list[tuple[Any, Any]] = []
    for at, (those, skip, each) in enumerate(some):
        command = command_of(those, at, skip, each)
        plan, seen = outcome(whole.prepare, command)
        other, wanted = outcome(lambda command: run_steps(apart.prepare_steps(command)), command)
        assert seen == wanted
        assert [whole.pending_posts.find(id) for id in "pqrst"] == [apart.pending_posts.find(id) for id in "pqrst"]
        if plan is not None:
            waiting.append((plan, other))
        if apply[at]:
            for pair in waiting:
                for one in pair:
                    while not one.done:
                        one.execute(1.0)
                        one.publish()
                assert pair[0].reached == pair[1].reached
            waiting = []
    for pair in reversed(waiting):
        for one in pair:
            one.cancel()
    for engine in (whole, apart):
        engine.check()


@pytest.mark.parametrize("many", [1, 600])
def test_a_place_at_minus_zero_is_at_zero(many: int) -> None:
    engine = FeedEngine(FeedConfig((0.0, 0.0, 1.0, 1.0), posts=1_000))
    engine.apply(Post([f"p{i}" for i in range(many)], Keywords.of([["a"]] * many), np.full((many, 2), -0.0)))
    post = engine.post("p0")
    assert post is not None
    assert [math.copysign(1.0, x) for x in post.location] == [1.0, 1.0]


def test_recent_ids_are_found_and_free_again_when_their_posts_have_left() -> None:
    engine = FeedEngine(FeedConfig((0.0, 0.0, 1.0, 1.0), posts=2, tfidf=False))
    for at in range(3):
        engine.apply(Post([f"p{at}"], Keywords.of([["a"]]), np.zeros((1, 2))))
    assert engine.post("p0") is None and engine.post("p1") is not None
    with pytest.raises(Refused, match="taken"):
        engine.prepare(Post(["p2"], Keywords.of([["a"]]), np.zeros((1, 2))))
    engine.apply(Withdraw(["p2"]))
    engine.apply(Post(["p0", "p2"], Keywords.of([["a"], ["b"]]), np.zeros((2, 2))))
    assert [post.id for post in engine.posts(None, 9)] == ["p0", "p2"]
    engine.check()
