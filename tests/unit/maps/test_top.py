"""Top-k and their zones against brute force: every score and metric, ties, duplicates, few objects, and changes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.maps.kernels.score_table import ScoreTable
from indexes.maps.live import top_changes as top_batch
from indexes.maps.live.top_changes import ChangeColumns
from indexes.maps.scoring import KINDS, scoring
from indexes.maps.zones.top import TopSearch
from tests.oracles import top_k as oracle
from tests.support.values import pair
from tests.unit.maps.helpers import check_inside, moved
from tests.unit.maps.top_updater import TopEffect, TopUpdater, ZoneUpdater
from tests.unit.maps.top_worlds import (
    ATTRIBUTES,
    METRICS,
    Score,
    World,
    best,
    places,
    scores,
    scores_of,
    values,
    worlds,
)


def samples(data: st.DataObject, zone: Any, metric: str, n: int) -> Iterator[Any]:
    """Places strictly within a zone."""
    most = zone.radius
    if math.isinf(most):
        most = 2e7 if metric == "great-circle" else 100.0
    for _ in range(n):
        far = most * data.draw(st.one_of(st.sampled_from([0.999999, 0.5]), st.floats(0, 0.999999)))
        x = moved(metric, zone.place, far, data.draw(st.floats(0, 6.3)))
        if zone.inside(*x):
            yield x


@settings(max_examples=400, deadline=None)
@given(st.data(), worlds(), scores(), st.integers(1, 6))
def test_the_list_is_that_of_brute_force_ties_and_all(data: st.DataObject, world: World, score: Score, k: int) -> None:
    q, changing = data.draw(places), data.draw(st.booleans())
    index = world.index()
    if world.objects and changing:
        change(data, world, index)
    slots, scored, far, number = TopSearch(index).top([q], k, score.scoring(world.metric))
    wanted, theirs = best(score, world, q, k)
    assert slots[0, : number[0]].tolist() == wanted
    assert scored[0, : number[0]].tolist() == theirs
    assert far[0, : number[0]].tolist() == [oracle.distance(world.metric, q, world.objects[s][0]) for s in wanted]


def change(data: st.DataObject, world: World, index: Any) -> None:
    """Some insertions, changes and deletions."""
    for _ in range(data.draw(st.integers(1, 8))):
        slot = data.draw(st.integers(0, len(world.objects) + 3))
        if slot in world.objects and data.draw(st.booleans()):
            del world.objects[slot]
            index.delete([slot])
        else:
            world.objects[slot] = data.draw(places), data.draw(values)
            fresh = slot not in index
            if fresh:
                world.created[slot] = max(world.created.values(), default=0) + 1
            index.put([slot], [world.objects[slot][0]], world.statics([slot]), [world.created[slot]])


@pytest.mark.parametrize("kind", [*KINDS, "expression"])
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_within_a_zone_the_best_candidates_are_a_right_top_k(kind: str, data: st.DataObject) -> None:
    world, score = data.draw(worlds()), data.draw(scores((kind,)))
    k, m, ordered = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5)), data.draw(st.booleans())
    q = data.draw(places)
    zone = TopSearch(world.index()).zone(q, k, m, score.scoring(world.metric), ordered)
    wanted, _ = best(score, world, q, k)
    assert zone.slots[: zone.members].tolist() == wanted
    assert len(set(zone.slots.tolist())) == len(zone.slots) == min(len(world.objects), k + m - 1)
    if len(world.objects) < k + m and not ordered:
        assert math.isinf(zone.radius)
    for x in samples(data, zone, world.metric, 6):
        check_inside(zone, score, world, x)


@settings(max_examples=100, deadline=None)
@given(st.data(), worlds(), scores(), st.integers(1, 4), st.integers(1, 4))
def test_a_zone_depends_on_the_objects_alone_not_on_how_they_are_stored(
    data: st.DataObject, world: World, score: Score, k: int, m: int
) -> None:
    index = world.index()
    change(data, world, index) if world.objects else None
    q = data.draw(places)
    one = TopSearch(index).zone(q, k, m, score.scoring(world.metric))
    for other in (index.folded(2), index.folded(7)):
        again = TopSearch(other).zone(q, k, m, score.scoring(world.metric))
        assert again.slots.tolist() == one.slots.tolist() and again.radius == one.radius


@pytest.mark.parametrize("kind", ["weighted_sum", "weighted_product", "weighted_distance"])
def test_closed_circles_cannot_be_larger(kind: str) -> None:
    rng = np.random.default_rng(3)
    weights = {"price": 0.3, "rating": 0.2} | ({} if kind == "weighted_distance" else {"distance": 0.5})
    score = Score(kind, weights)
    metrics = ("euclidean", "manhattan") if kind == "weighted_sum" else ("euclidean",)
    tried = 0
    for metric in metrics:
        for _ in range(40):
            objects = {i: (tuple(rng.random(2) * 8 - 4), (4 * rng.random(), 5 * rng.random())) for i in range(12)}
            world = World(metric, objects, {i: i for i in objects})
            q = tuple(rng.random(2) * 8 - 4)
            zone = TopSearch(world.index()).zone(q, 3, 1, score.scoring(metric))
            if 0 < zone.radius < math.inf:
                tried += 1
                ring = [moved(metric, q, zone.radius * 1.02, a) for a in np.linspace(0, 2 * math.pi, 721)]
                assert any(sorted(best(score, world, x, 3)[0]) != sorted(zone.slots.tolist()) for x in ring)
    assert tried > 30 * len(metrics)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("kind", ["weighted_product", "waspas", "expression"])
def test_circles_without_a_closed_form_are_of_some_size(kind: str, metric: str) -> None:
    """At least half of what sampling finds, on average."""
    rng = np.random.default_rng(4)
    text = "distance * 0.5 + price ** 0.5" if kind == "expression" else ""
    weights = {"price": 0.3, "rating": 0.2, "distance": 0.5}
    unit = 1e5 if metric == "great-circle" else 1.0
    score = Score(kind, {} if text else weights, text, scale=unit)
    parts = []
    for _ in range(12):
        objects = {i: (tuple(rng.random(2) * 8 - 4), (4 * rng.random(), 5 * rng.random())) for i in range(12)}
        world = World(metric, objects, {i: i for i in objects})
        q = tuple(rng.random(2) * 8 - 4)
        zone = TopSearch(world.index()).zone(q, 3, 1, score.scoring(metric))
        assert zone.radius > 0.0
        near, members = zone.radius, sorted(zone.slots.tolist())
        while near < 40 * unit and all(
            sorted(best(score, world, moved(metric, q, near, a), 3)[0]) == members for a in np.linspace(0, 6.2, 40)
        ):
            near *= 1.05
        parts.append(zone.radius / near)
    assert np.mean(parts) > 0.5, parts


def tied(n: Any, place: Any = (0.0, 0.0)) -> Any:
    return World("euclidean", dict.fromkeys(range(n), (place, (1.0, 1.0))), {i: n - i for i in range(n)})


SUM = Score("weighted_sum", {"distance": 0.5, "price": 0.5})


def test_duplicates_never_shrink_a_zone() -> None:
    world = tied(6)
    world.objects[9], world.created[9] = ((4.0, 0.0), (1.0, 1.0)), 9
    zone = TopSearch(world.index()).zone((1.0, 0.0), 2, 1, SUM.scoring("euclidean"))
    assert zone.slots.tolist() == [5, 4] and zone.radius == pytest.approx(1.0)


def test_a_tie_leaves_this_place_alone_and_one_more_candidate_absorbs_it() -> None:
    world = World("euclidean", {0: ((-1.0, 0.0), (1.0, 0.0)), 1: ((1.0, 0.0), (1.0, 0.0))}, {0: 0, 1: 1})
    world.objects[2], world.created[2] = ((9.0, 0.0), (4.0, 0.0)), 2
    search = TopSearch(world.index())
    assert search.zone((0.0, 0.0), 1, 1, SUM.scoring("euclidean")).radius == 0.0
    zone = search.zone((0.0, 0.0), 1, 2, SUM.scoring("euclidean"))
    assert zone.radius > 1.0 and zone.slots.tolist() == [0, 1]


def test_without_a_weight_of_distance_a_zone_is_everywhere() -> None:
    world = World("euclidean", {i: ((float(i), 0.0), (i % 3 + 0.5, 2.0)) for i in range(20)}, {i: i for i in range(20)})
    for score in (
        Score("weighted_sum", {"price": 1.0}),
        Score("weighted_product", {"price": 1.0}),
        Score("waspas", {"price": 1.0}),
        Score("", {}, "price * 2"),
    ):
        zone = TopSearch(world.index()).zone((3.0, 3.0), 4, 1, score.scoring("euclidean"))
        assert math.isinf(zone.radius) and zone.slots.tolist() == [0, 3, 6, 9]


def test_what_has_no_score_ranks_last_and_a_zone_of_such_is_everywhere() -> None:
    world = World(
        "euclidean", {i: ((float(i), 0.0), (float(i % 2), 0.0)) for i in range(10)}, {i: i for i in range(10)}
    )
    score = Score("", {}, "distance + log(price)")
    zone = TopSearch(world.index()).zone((0.0, 0.0), 6, 2, score.scoring("euclidean"))
    assert zone.slots.tolist() == [1, 3, 5, 7, 9, 0, 2] and math.isinf(zone.radius)
    assert zone.scores.tolist()[:6] == [1.0, 3.0, 5.0, 7.0, 9.0, math.inf]


def test_no_objects_and_no_bounds() -> None:
    search = TopSearch(World("euclidean").index())
    zone = search.zone((0.0, 0.0), 3, 2, SUM.scoring("euclidean"))
    assert zone.members == 0 and math.isinf(zone.radius) and zone.inside(1e9, 1e9)
    far = World("euclidean", {i: ((float(i), 0.0), (1.0, 0.0)) for i in range(9)}, {i: i for i in range(9)})
    zone = TopSearch(far.index()).zone((1e7, -1e7), 2, 2, SUM.scoring("euclidean"))
    assert zone.slots.tolist() == [8, 7, 6] and zone.radius > 0.0


def test_many_objects_of_equal_score_are_taken_by_age() -> None:
    world = tied(3_000)
    zone = TopSearch(world.index(16)).zone((1.0, 1.0), 5, 3, SUM.scoring("euclidean"))
    assert zone.slots.tolist() == list(range(2_999, 2_992, -1)) and math.isinf(zone.radius)


def test_what_cannot_be_asked_is_refused() -> None:
    search = TopSearch(tied(3).index())
    for k, m, place in ((0, 1, (0.0, 0.0)), (1, 0, (0.0, 0.0)), (1, 1, (math.nan, 0.0))):
        with pytest.raises(ValueError):
            search.zone(place, k, m, SUM.scoring("euclidean"))
    for wrong in (
        {"kind": "sum"},
        {"metric": "chebyshev"},
        {"weights": {"distance": -1.0}},
        {"weights": {"distance": math.nan}},
        {"weights": {"distance": 0.0}},
        {"weights": {"size": 1.0}},
        {"scale": 0.0},
        {"shift": -1.0},
        {"blend": 2.0},
        {"kind": "weighted_distance", "weights": {"distance": 1.0}},
    ):
        asked = {"kind": "weighted_sum", "weights": {"distance": 1.0}} | wrong
        with pytest.raises(ValueError):
            scoring(attributes=ATTRIBUTES, **asked)
    bare = [ATTRIBUTES[0]._replace(range=None)]
    with pytest.raises(ValueError, match="has no range"):
        scoring("waspas", bare, {"price": 1.0})
    assert scoring("weighted_sum", bare, {"price": 1.0}).kind == 0


EFFECTS = {
    TopEffect.KEPT: {top_batch.KEPT},
    TopEffect.CANDIDATES: {top_batch.SAME, top_batch.OTHER},
    TopEffect.SHRUNK: {top_batch.SHRUNK},
    TopEffect.BROKEN: {top_batch.BROKEN},
}


def check_batch(batch: Any, zones: Any, changes: Any, world: Any, ats: Any, wanted: Any) -> None:
    """Changes of one slot each come to the same for many zones together as for each alone."""
    slots = np.array([slot for slot, _ in changes])
    there = [slot for slot, now in changes if now]
    statics = np.full((len(slots), 2), np.nan)
    statics[[bool(now) for _, now in changes]] = world.statics(there) + 0.0
    one_each = ChangeColumns(
        slots,
        np.array([now is not None for _, now in changes]),
        np.array([now[0] if now else (np.nan, np.nan) for _, now in changes]),
        statics,
        np.array([world.created[slot] if now else 0 for slot, now in changes]),
    )
    table = ScoreTable()
    numbers = np.array([table.take(zone.scoring) for zone in zones])
    effects, after = batch.update(zones, one_each, table.arrays, numbers, np.array(ats, float))
    for zone, effect, mine, (right, theirs) in zip(zones, effects, after, wanted, strict=True):
        assert effect in EFFECTS[right]
        assert (mine is zone) is (effect in (top_batch.KEPT, top_batch.BROKEN))
        assert effect != top_batch.SAME or set(mine.slots) == set(zone.slots)
        for field in fields(zone):
            one, other = getattr(mine, field.name), getattr(theirs, field.name)
            assert np.array_equal(one, other) if isinstance(one, np.ndarray) else one == other or one is other


@settings(max_examples=60, deadline=None)
@given(st.data(), worlds(), st.lists(scores(), min_size=1, max_size=3), st.integers(1, 12))
def test_many_zones_are_held_against_a_change_each_as_one_after_the_other(
    data: Any, world: Any, asked: Any, n: Any
) -> None:
    search = TopSearch(world.index())
    keepers: dict[Any, Any] = {}
    zones: list[Any] = []
    ats: list[Any] = []
    changes: list[Any] = []
    wanted: list[Any] = []
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    before = dict(world.objects)
    for slot in range(len(before) + 3):
        if slot in before and rng.random() < 0.3:
            del world.objects[slot]
        elif slot not in before or rng.random() < 0.7:
            world.objects[slot] = data.draw(places), data.draw(values)
            world.created.setdefault(slot, 100 + slot)
    for _ in range(n):
        score = asked[rng.integers(len(asked))].scoring(world.metric)
        k, at = int(rng.integers(1, 5)), data.draw(places)
        zone = search.zone(at, k, int(rng.integers(1, 4)), score)
        slot = int(rng.integers(0, len(before) + 3))
        now = world.objects.get(slot)
        keeper = keepers.setdefault(k, TopUpdater(2))
        zones.append(zone)
        ats.append(at)
        changes.append((slot, now))
        if now is None:
            wanted.append(keeper.delete(zone, slot))
        else:
            wanted.append(keeper.put(zone, slot, *now[0], world.statics([slot])[0], world.created[slot], at))
    check_batch(ZoneUpdater(2), zones, changes, world, ats, wanted)


@settings(max_examples=60, deadline=None)
@given(st.data(), worlds(), scores(), st.integers(1, 4), st.integers(1, 4), st.booleans())
def test_walks_with_objects_that_change_under_way(
    data: Any, world: Any, score: Any, k: Any, m: Any, ordered: Any
) -> None:
    """A standing query: its zone is kept, or made anew, as the rules say; what the client ranks is always right."""
    index, s = world.index(), score.scoring(world.metric)
    most = data.draw(st.sampled_from([2.0, 0.0]))
    search, keeper, beside = TopSearch(index), TopUpdater(2, most), ZoneUpdater(2, most)
    at = data.draw(places)
    zone = search.zone(at, k, m, s, ordered)
    for _ in range(8):
        slot = data.draw(st.integers(0, len(world.objects) + 2))
        there = slot in world.objects
        if there and data.draw(st.booleans()):
            del world.objects[slot]
            index.delete([slot])
            effect, after = keeper.delete(zone, slot)
        else:
            place, given = data.draw(places), data.draw(values)
            world.objects[slot] = place, given
            if not there:
                world.created[slot] = max(world.created.values(), default=0) + 1
            index.put([slot], [place], world.statics([slot]), [world.created[slot]])
            effect, after = keeper.put(zone, slot, *pair(place), world.statics([slot])[0], world.created[slot], at)
        check_batch(beside, [zone], [(slot, world.objects.get(slot))], world, [at], [(effect, after)])
        assert (after is zone) is (effect in (TopEffect.KEPT, TopEffect.BROKEN))
        assert effect is not TopEffect.SHRUNK or (after.radius < zone.radius and after.inside(*at))
        zone = search.zone(at, k, m, s, ordered) if effect is TopEffect.BROKEN else after
        if zone.inside(*at):
            check_inside(zone, score, world, at)
        for x in samples(data, zone, world.metric, 2):
            check_inside(zone, score, world, x)
        at = moved(world.metric, at, data.draw(st.floats(0, 1)), data.draw(st.floats(0, 6.3)))
        if not zone.inside(*at):
            zone = search.zone(at, k, m, s, ordered)


def test_what_a_change_leaves_of_a_zone() -> None:
    world = World("euclidean", {i: ((float(i), 0.0), (1.0, 0.0)) for i in range(8)}, {i: i for i in range(8)})
    zone = TopSearch(world.index()).zone((0.0, 0.0), 2, 2, SUM.scoring("euclidean"))
    assert zone.slots.tolist() == [0, 1, 2] and zone.radius == pytest.approx(1.5)
    wide, narrow = TopUpdater(2), TopUpdater(2, 0.0)

    def put(keeper: Any, x: Any, price: Any, slot: Any = 9, at: Any = None) -> Any:
        return keeper.put(zone, slot, x, 0.0, np.array([price, 0.0]), 9, at)

    assert put(wide, 3.5, 1.0).effect is TopEffect.KEPT
    assert put(wide, 0.5, 1.0).effect is TopEffect.BROKEN
    assert put(wide, 1.0, 1.0).effect is TopEffect.CANDIDATES
    assert put(wide, 1.5, 1.0).effect is TopEffect.CANDIDATES and put(wide, 1.5, 1.0).zone.slots.tolist() == [
        0,
        1,
        2,
        9,
    ]
    shrunk = put(narrow, 1.5, 1.0)
    assert shrunk.effect is TopEffect.SHRUNK and shrunk.zone.radius == pytest.approx(0.75)
    assert put(narrow, 1.5, 1.0, at=(0.9, 0.0)).effect is TopEffect.BROKEN
    assert put(wide, 5.0, 1.0, slot=1).effect is TopEffect.BROKEN
    told = put(wide, 5.0, 1.0, slot=2)
    assert told.effect is TopEffect.CANDIDATES and told.zone.slots.tolist() == [0, 1]
    assert wide.delete(zone, 1).effect is TopEffect.BROKEN
    assert wide.delete(zone, 2).effect is TopEffect.CANDIDATES and wide.delete(zone, 2).zone.slots.tolist() == [0, 1]
    assert wide.delete(zone, 7).effect is TopEffect.KEPT


@pytest.mark.parametrize("kind", [*KINDS, "expression"])
@pytest.mark.parametrize("metric", METRICS)
def test_numbers_that_nearly_cancel_leave_a_zone_safe(kind: Any, metric: Any) -> None:
    """Places far from 0 and close together, or all on one line behind each other, and prices that nearly tie.

    What is told apart is little more than what rounding takes.
    """
    rng = np.random.default_rng(7)
    sphere = metric == "great-circle"
    for spread in (1e-3, 1e-7, 1e-9):
        base = np.array((179.9, 89.0)) if sphere else np.array((4e7, -9e6))
        for line in (False, True):
            steps = rng.integers(-30, 30, (12, 2)) * spread
            if line:
                steps[:, 1] = 0.0
            price = 2.0 + rng.integers(-3, 3, 12) * spread
            objects = {i: (tuple((base + steps[i]).tolist()), (float(price[i]), 2.5)) for i in range(12)}
            world = World(metric, objects, {i: i for i in objects})
            text = "distance + price ** 2" if kind == "expression" else ""
            score = Score(kind, {} if text else {"price": 1.0} | ({} if "tance" in kind else {"distance": 1.0}), text)
            for m in (1, 3):
                zone = TopSearch(world.index()).zone(tuple((base + spread).tolist()), 3, m, score.scoring(metric))
                wanted, _ = best(score, world, zone.place, 3)
                assert zone.slots[:3].tolist() == wanted
                far = min(zone.radius, 1e7 if sphere else 1.0)
                for angle in rng.uniform(0, 6.3, 20):
                    x = moved(metric, zone.place, 0.999999 * far, angle)
                    if zone.inside(*x):
                        there = scores_of(score, world, x)
                        mine = zone.ranked(*x)[1]
                        for a, b in zip(mine.tolist(), sorted(there.values())[:3], strict=True):
                            assert a - b <= 4e-15 * max(1.0, abs(a)) * (1e3 if sphere else 1.0)
