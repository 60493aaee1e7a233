"""Paths through a map against brute force at every place."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.maps.object_index import PlaceIndex
from indexes.maps.paths import Follower, SkylineWalk, TopWalk
from tests.oracles import maps as oracle
from tests.unit.maps.helpers import CLOSE
from tests.unit.maps.sky_worlds import worlds_of
from tests.unit.maps.top_worlds import METRICS, Score, places, scores, scores_of, worlds
from tests.unit.maps.worlds import BOUNDS
from tests.unit.maps.worlds import worlds as skyline_worlds


def path(rng: Any, corners: list[tuple[float, float]] | np.ndarray, steps: int, jitter: float = 0.0) -> np.ndarray:
    """Places on the way from each corner to the next."""
    pieces = [np.linspace(a, b, steps, endpoint=False) for a, b in itertools.pairwise(corners)]
    return np.concatenate([*pieces, [corners[-1]]]) + rng.normal(size=(steps * len(pieces) + 1, 2)) * jitter


def followed(walk: TopWalk | SkylineWalk, pieces: list[np.ndarray]) -> tuple[list[list[int]], list[Any]]:
    """The answer in force at every place of a path, by slots, and the changes, for a path in pieces."""
    follower = Follower(walk)
    held: list[Any] = []
    changes: list[Any] = []
    before = 0
    follower.begin()
    for piece in pieces:
        x, y = (np.ascontiguousarray(column) for column in piece.T)
        found = list(follower.along(x, y))
        for at in range(len(x)):
            here = [change for change in found if change.at == at]
            held.append(here[0].members.slots.tolist() if here else held[-1])
        changes += [change._replace(at=before + change.at) for change in found]
        before += len(x)
    return held, changes


@settings(max_examples=150, deadline=None)
@given(st.data(), worlds(), scores(), st.integers(1, 4), st.integers(1, 6), st.booleans(), st.integers(0, 2**32))
def test_a_top_k_is_right_at_every_place_up_to_equal_scores(
    data: st.DataObject, world: Any, score: Score, k: int, m: int, ordered: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    corners = data.draw(st.lists(places, min_size=2, max_size=4))
    way = path(rng, corners, data.draw(st.integers(1, 9)), data.draw(st.sampled_from([0.0, 0.01])))
    cut = data.draw(st.integers(0, len(way)))
    walk = TopWalk(world.index(), k, m, score.scoring(world.metric), ordered)
    held, changes = followed(walk, [way[:cut], way[cut:]])
    for place, slots in zip(way.tolist(), held, strict=True):
        there = scores_of(score, world, place)
        mine, wanted = [there[slot] for slot in slots], sorted(there.values())[:k]
        for a, b in zip(mine if ordered else sorted(mine), wanted, strict=True):
            assert a == b or abs(a - b) <= CLOSE * max(1.0, abs(a)), (place, mine, wanted)
    assert [change.kind == "first" for change in changes] == [change.at == 0 for change in changes]
    for change in changes:
        there = scores_of(score, world, way[change.at].tolist())
        assert [there[slot] for slot in change.members.slots.tolist()] == change.members.scores.tolist()
    for a, b in itertools.pairwise(changes):
        same = set(a.members.slots.tolist()) == set(b.members.slots.tolist())
        assert same == (b.kind == "order") and (ordered or not same)
        assert a.members.slots.tolist() != b.members.slots.tolist()
    assert walk.searches <= len(way)


@pytest.mark.parametrize("metric", METRICS)
@settings(max_examples=60, deadline=None)
@given(data=st.data(), seed=st.integers(0, 2**32))
def test_a_skyline_is_right_at_every_place(metric: str, data: st.DataObject, seed: int) -> None:
    rng = np.random.default_rng(seed)
    world = data.draw(skyline_worlds if metric == "euclidean" else worlds_of(metric))
    index = PlaceIndex.build(world.points, world.statics, fanout=world.fanout)
    way = path(rng, world.asked, data.draw(st.integers(1, 9)), data.draw(st.sampled_from([0.0, 0.001])))
    if metric == "great-circle":
        way = np.clip(way, [-180.0, -90.0], [180.0, 90.0])
    cut = data.draw(st.integers(0, len(way)))
    held, changes = followed(SkylineWalk(index, BOUNDS, metric), [way[:cut], way[cut:]])
    for (x, y), slots in zip(way.tolist(), held, strict=True):
        assert set(slots) == oracle.skyline(world.points, world.statics, x, y, metric)
    assert [change.kind for change in changes] == ["first"] + ["members"] * (len(changes) - 1)
    for change in changes:
        far = oracle.distances(metric, world.points, *way[change.at])[change.members.slots]
        assert np.allclose(change.members.distances, far, rtol=1e-15) and (np.diff(far) >= 0).all()
    for a, b in itertools.pairwise(changes):
        assert set(a.members.slots.tolist()) != set(b.members.slots.tolist())


@pytest.mark.parametrize("metric", METRICS)
def test_most_steps_cost_no_search(metric: str) -> None:
    rng = np.random.default_rng(5)
    index = PlaceIndex.build(rng.random((2_000, 2)), rng.random((2_000, 2)))
    way = path(rng, rng.random((4, 2)), 400)
    score = Score("weighted_sum", {"distance": 1e-5 if metric == "great-circle" else 0.5, "price": 0.5})
    few, many = (TopWalk(index, 5, m, score.scoring(metric)) for m in (20, 5))
    assert followed(few, [way])[0] == followed(many, [way])[0]
    assert 0 < few.searches < many.searches < len(way) // 4
    skylines = SkylineWalk(index, BOUNDS, metric)
    changes = followed(skylines, [way])[1]
    assert len(changes) <= skylines.searches < len(way)


def test_another_path_begins_with_its_first_answer() -> None:
    index = PlaceIndex.build([[0.0, 0.0], [9.0, 0.0]], [[1.0], [1.0]])
    scoring = Score("weighted_sum", {"distance": 1.0}).scoring("euclidean")
    for walk in (TopWalk(index, 2, 1, scoring), SkylineWalk(index, np.array([0.0, 0.0, 9.0, 9.0]))):
        follower = Follower(walk)
        for _ in range(2):
            follower.begin()
            assert [change.kind for change in follower.along(np.array([1.0, 2.0]), np.zeros(2))] == ["first"]
    with pytest.raises(ValueError, match="below 1"):
        TopWalk(index, 1, 0, scoring)
