"""Standing queries among objects that change, against brute force.

Every held answer is right, and whom it concerns was told; the index finds every query that a scan of all finds.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.maps.kernels.metrics import METRICS, distance
from indexes.maps.kernels.scores import least_and_most, static_parts
from indexes.maps.live import queries as live_module
from indexes.maps.live import top_reach
from indexes.maps.live.holders import Holders, Pairs, holders_of
from indexes.maps.live.queries import BatchResult, Changes, LiveQueries
from indexes.maps.live.skyline_changes import CircleUpdater, Effect, SkylineUpdater
from indexes.maps.live.top_reach import TopReach
from indexes.maps.object_index import PlaceIndex
from indexes.maps.scoring import scoring
from indexes.maps.searches import Searches, SkylineQuery, TopQuery
from tests.oracles.maps import skyline
from tests.support.values import pair
from tests.unit.maps.helpers import check_inside, moved
from tests.unit.maps.top_worlds import ATTRIBUTES, EXPRESSIONS, Score, World, best, scores, worlds
from tests.unit.maps.worlds import BOUNDS, on_the_sphere
from tests.unit.maps.worlds import World as PlainWorld
from tests.unit.maps.worlds import worlds as skyline_worlds

SUM = Score("weighted_sum", {"distance": 0.5, "price": 0.5})


def batch(rows: dict[Any, Any]) -> Changes:
    """Changes from {slot: (place, static values, created) or None}."""
    d = max((len(row[1]) for row in rows.values() if row), default=1)
    d = next((len(row[1]) for row in rows.values() if row), d)
    none = ((math.nan, math.nan), (math.nan,) * d, 0)
    columns = [row or none for row in rows.values()]
    return Changes(
        np.array(list(rows), np.int64),
        np.array([row is not None for row in rows.values()], bool),
        np.array([row[0] for row in columns], float).reshape(-1, 2),
        np.array([row[1] for row in columns], float).reshape(len(rows), -1),
        np.array([row[2] for row in columns], np.int64),
    )


def some_place(rng: Any) -> tuple[float, float]:
    return tuple((rng.integers(-3, 4, 2).astype(float) if rng.random() < 0.6 else rng.uniform(-4, 4, 2)).tolist())


def some_values(rng: Any) -> tuple[float, float]:
    if rng.random() < 0.6:
        return float(rng.integers(0, 5)), float(rng.integers(0, 6))
    return rng.uniform(0, 4), rng.uniform(0, 5)


def change_world(rng: Any, world: World) -> Changes:
    """A batch of objects that come, change, move a little, or go."""
    rows: dict[Any, Any] = {}
    for slot in rng.choice(len(world.objects) + 4, int(rng.integers(1, 4)), replace=False).tolist():
        if slot in world.objects and rng.random() < 0.35:
            del world.objects[slot]
            rows[slot] = None
            continue
        place, values = some_place(rng), some_values(rng)
        if slot in world.objects:
            was = world.objects[slot]
            place = place if rng.random() < 0.5 else (was[0][0] + 0.01 * rng.normal(), was[0][1])
            values = values if rng.random() < 0.5 else was[1]
        else:
            world.created[slot] = max(world.created.values(), default=0) + 1
        world.objects[slot] = place, values
        rows[slot] = place, (values[0], -values[1]), world.created[slot]
    changes = batch(rows)
    return changes._replace(statics=np.resize(changes.statics, (len(rows), 2))) if not any(rows.values()) else changes


def check_top(rng: Any, zone: Any, score: Score, world: World, at: tuple[float, float]) -> None:
    wanted, theirs = best(score, world, zone.place, zone.k)
    assert zone.slots[: zone.members].tolist() == wanted
    assert zone.scores[: zone.members].tolist() == theirs
    assert at == zone.place or zone.inside(*at)
    reach = zone.radius if math.isfinite(zone.radius) else 2e7 if world.metric == "great-circle" else 100.0
    for far in (0.999999 * reach, rng.random() * reach):
        x = moved(world.metric, zone.place, far, rng.uniform(0, 6.3))
        if zone.inside(*x):
            check_inside(zone, score, world, x)


@settings(max_examples=60, deadline=None)
@given(world=worlds(most=16), asked=st.lists(scores(), min_size=1, max_size=4), seed=st.integers(0, 2**32))
def test_standing_top_k_are_right_after_every_change_and_who_is_concerned_is_told(
    world: World, asked: list[Score], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    ranged = [a if rng.random() < 0.5 else a._replace(range=None) for a in ATTRIBUTES]
    live = LiveQueries(world.index(), ranged, np.array([-4.0, -4.0, 4.0, 4.0]), world.metric)
    held, clients = {}, {}

    def ask(query: int) -> TopQuery:
        held[query] = asked[int(rng.integers(len(asked)))]
        clients[query] = some_place(rng)
        k, m = rng.integers(1, 5, 2).tolist()
        return TopQuery(k, m, held[query].scoring(world.metric), bool(rng.random() < 0.3))

    def follows(query: int) -> bool:
        return query % 2 == 0

    searches = Searches(2, np.array([-4.0, -4.0, 4.0, 4.0]), world.metric)
    first = list(range(int(rng.integers(1, 6))))
    live.put(first, [ask(q) for q in first], [clients[q] for q in first])
    all_followed = bool(rng.random() < 0.5)
    for _ in range(5):
        before = {q: live[q] for q in held if q not in live.held.postponed}
        answers = {q: best(held[q], world, pair(z.place), z.k) for q, z in before.items()}
        changes = change_world(rng, world)
        told = {one.query: one for one in live.apply(changes, None if all_followed else follows).changed}
        postponed = frozenset(live.held.postponed)
        assert not any(all_followed or follows(q) or q in told for q in postponed)
        for q, zone in before.items():
            if q in told:
                assert live[q] is told[q].zone is not zone
            elif q not in postponed:
                assert live[q] is zone and best(held[q], world, pair(zone.place), zone.k) == answers[q]
        for q, score in held.items():
            if q not in postponed or rng.random() < 0.3:
                check_top(rng, live[q], score, world, clients[q])
                assert q not in live.held.postponed
        choice = rng.random()
        q = int(rng.integers(0, 8))
        if choice < 0.4 and held:
            q = list(held)[q % len(held)]
            at = moved(world.metric, clients[q], rng.random(), rng.uniform(0, 6.3))
            there = q not in live.held.postponed
            was = live[q] if there else searches.zones(live.index, live.held.asked(q), [clients[q]])[0]
            clients[q] = at
            inside = was.inside(*at) or at == was.place
            assert live.move(q, at) == inside == (live[q].place == was.place)
            assert (live[q] is was) == (there and inside)
        elif choice < 0.6 and q in held:
            live.drop(q)
            del held[q], clients[q]
            assert q not in live
        elif choice < 0.9:
            live.put([q], [ask(q)], [clients[q]])
        if rng.random() < 0.3:
            live.tops.fold()
            live.index = live.index.folded(3)
        assert len(live) == len(held) and len(held) - len(live.held.postponed) <= len(live.tops) <= len(held)
    live.hold(held)
    assert len(live) == len(live.tops) and not live.held.postponed
    for q, score in held.items():
        check_top(rng, live[q], score, world, clients[q])
    live.holders.check()
    live.tops.index.check()
    assert {q: sorted(live[q].slots.tolist()) for q in held} == {q: live.holders.held(q).tolist() for q in held}
    assert len(live.tops.scores) <= len(held)


@pytest.mark.parametrize("metric", list(METRICS))
@settings(max_examples=30, deadline=None)
@given(world=skyline_worlds, seed=st.integers(0, 2**32))
def test_standing_skylines_are_right_after_every_change_and_who_is_concerned_is_told(
    metric: str, world: PlainWorld, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    sphere = metric == "great-circle"
    world = on_the_sphere(world, seed) if sphere else world
    points, statics = dict(enumerate(world.points[:40] + 0.0)), dict(enumerate(world.statics[:40]))
    index = PlaceIndex.build(world.points[:40], world.statics[:40], fanout=world.fanout)
    live = LiveQueries(index, [], BOUNDS, metric)
    clients = {q: tuple(at) for q, at in enumerate(world.asked.tolist())}
    live.put(list(clients), [SkylineQuery()] * len(clients), list(clients.values()))
    followed = len(clients) if rng.random() < 0.5 else len(clients) // 2
    for _ in range(5):
        rows: dict[Any, Any] = {}
        for slot in rng.choice(len(world.points[:40]) + 3, int(rng.integers(1, 4)), replace=False).tolist():
            if slot in points and rng.random() < 0.35:
                del points[slot], statics[slot]
                rows[slot] = None
                continue
            points[slot] = rng.random(2) if rng.random() < 0.5 else rng.integers(0, 5, 2) / 4
            if sphere:
                points[slot] = on_the_sphere(
                    world._replace(points=points[slot][None], asked=points[slot][None]), seed
                ).points[0]
            statics[slot] = rng.integers(0, 5, world.d) / 4 if rng.random() < 0.7 else rng.random(world.d)
            rows[slot] = points[slot], tuple(statics[slot]), 100 + slot
        changes = batch(rows)
        if not changes.there.any():
            changes = changes._replace(statics=np.zeros((len(rows), world.d)))
        before = {q: live[q] for q in clients if q not in live.held.postponed}
        told = {one.query for one in live.apply(changes, lambda q: q < followed).changed}
        assert all(q >= followed for q in live.held.postponed) and not told & live.held.postponed
        unwanted = {q for q in live.held.postponed if rng.random() < 0.5}
        slots = sorted(points)
        there = np.array([points[s] for s in slots]).reshape(-1, 2)
        values = np.array([statics[s] for s in slots]).reshape(-1, world.d)
        for q, at in clients.items():
            if q in unwanted:
                continue
            unchanged = q in before and q not in told and q not in live.held.postponed
            zone = live[q]
            assert (zone is before.get(q)) == unchanged
            truth = {slots[i] for i in skyline(there, values, *pair(zone.place), metric)}
            assert truth == set(zone.skyline.tolist())
            assert tuple(zone.place) == at or zone.holds(*at)
            if metric == "euclidean":
                tried = rng.uniform(zone.box[:2], zone.box[2:], (6, 2)).tolist()
            else:
                reach = min(zone.radius, 2e7 if sphere else 5.0) * rng.random(4)
                tried = [moved(metric, at, far, rng.uniform(0, 6.3)) for far in reach for at in (tuple(zone.place),)]
            for x, y in tried:
                assert not zone.holds(x, y) or {slots[i] for i in skyline(there, values, x, y, metric)} == truth
        q = int(rng.integers(len(clients)))
        lon, lat = (np.array(clients[q]) + rng.normal(0, 0.05, 2)).tolist()
        clients[q] = (lon, min(90.0, max(-90.0, lat))) if sphere else (lon, lat)
        live.move(q, clients[q])
        if rng.random() < 0.3:
            live.skylines.fold()
        if rng.random() < 0.3:
            live.put([q], [SkylineQuery()], [clients[q]])
    live.hold(clients)
    live.holders.check()
    live.skylines.index.check()
    live.drop(0)
    assert len(live.skylines) == len(live) == len(clients) - 1


def test_no_change_searches_for_what_nobody_follows_until_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A member that moves breaks the zones of all who hold it; further changes do not concern them."""
    objects = {i: ((float(i), 0.0), (1.0, 0.0)) for i in range(6)}
    live = LiveQueries(
        World("euclidean", objects, {i: i for i in range(6)}).index(), ATTRIBUTES, np.array([0.0, 0.0, 9.0, 9.0])
    )
    live.put([0, 1, 2], [TopQuery(2, 2, SUM.scoring("euclidean")), SkylineQuery(), SkylineQuery()], [(0.1, 0.0)] * 3)
    searched: list[int] = []
    search = live._search

    def noted(queries: list[int]) -> None:
        searched.extend(queries)
        search(queries)

    monkeypatch.setattr(live, "_search", noted)

    def move(x: float) -> BatchResult:
        return live.apply(batch({0: ((x, 0.5), (1.0, 0.0), 0)}), lambda query: query == 2)

    first = move(0.0)
    assert searched == [2] and [one.query for one in first.changed] == [2] and live.held.postponed == {0, 1}
    assert live.holders.held(0).size == 0 and len(live.skylines) == 1
    again = move(0.25)
    assert again.touched == 1 and live.held.postponed == {0, 1}
    assert pair(live[0].places[0]) == (0.25, 0.5) and 0 in live[1].skyline
    assert live.held.postponed == set() and searched[-2:] == [0, 1]
    assert {one.query for one in live.apply(batch({0: ((0.5, 0.5), (1.0, 0.0), 0)})).changed} == {0, 1, 2}


def crowd(metric: str, n: int, kinds: tuple[Any, ...], seed: int) -> tuple[TopReach, Any]:
    """Top-k bounds of many queries, by scores of all kinds, made up: reach tests do not ask where they come from."""
    rng = np.random.default_rng(seed)
    ranged = np.array([0.0, -5.0]), np.array([4.0, 0.0])
    reach = TopReach(METRICS[metric], *ranged)
    weights = ({"price": 0.3, "rating": 0.2, "distance": 0.5}, {"price": 1.0, "distance": 1.0}, {"distance": 1.0})
    table = []
    for kind in kinds:
        if kind == "expression":
            table += [Score("", {}, text).scoring(metric) for text in EXPRESSIONS]
        elif kind == "weighted_distance":
            table.append(scoring(kind, ATTRIBUTES, {"price": 0.3, "rating": 0.2}, metric))
        else:
            table += [scoring(kind, ATTRIBUTES, dict(w), metric, 0.7) for w in weights]
    numbers = np.array([reach.scores.take(table[i]) for i in rng.integers(0, len(table), n)])
    points = rng.uniform(-4, 4, (n, 2))
    radius = np.where(rng.random(n) < 0.05, np.inf, rng.random(n) * (1e4 if metric == "great-circle" else 0.2))
    far = rng.random(3 * n) * (1e5 if metric == "great-circle" else 1.0)
    statics = np.column_stack([rng.random(3 * n), -4 - rng.random(3 * n)])
    ends = 3 * np.arange(1, n + 1)
    half = n // 2
    reach.put(np.arange(half), points[:half], numbers[:half], radius[:half], ends[:half], far, statics)
    reach.fold()
    rest = slice(3 * half, None)
    reach.put(
        np.arange(half, n),
        points[half:],
        numbers[half:],
        radius[half:],
        ends[half:] - 3 * half,
        far[rest],
        statics[rest],
    )
    reach.remove(np.arange(0, n, 7))
    return reach, rng


def hits(index: Any, points: np.ndarray, statics: np.ndarray, room: int) -> set[tuple[int, int]]:
    """All pairs, asked for with so much room."""
    pairs = Pairs.of(room)
    found, at = set(), 0
    while at < len(points):
        at, n = index.touched(points, statics, at, pairs)
        found |= set(zip(pairs.change[:n].tolist(), pairs.query[:n].tolist(), strict=True))
    return found


@pytest.mark.parametrize("metric", list(METRICS))
@pytest.mark.parametrize(
    "kinds", [("weighted_sum",), ("weighted_product", "weighted_distance", "waspas", "expression")]
)
def test_the_index_finds_whom_a_scan_finds(metric: str, kinds: tuple[Any, ...]) -> None:
    reach, rng = crowd(metric, 260, kinds, 3)
    points = rng.uniform(-4.5, 4.5, (60, 2))
    statics = np.column_stack([rng.uniform(0, 4, 60), -rng.uniform(0, 5, 60)])
    found = hits(reach, points, statics, 300)
    b, t = reach.bounds, reach.scores
    scanned = set()
    for i in range(60):
        for q in reach.index.slots().tolist():
            s = t[int(b.score[q])]
            far = distance(s.metric, b.x[q], b.y[q], *points[i])
            rest = max(0.0, far - (b.radius[q] if s.wd > 0 else 0.0))
            total, product = static_parts(s, np.ascontiguousarray(statics[i]), 1, 0)
            least, _ = least_and_most(s, rest, rest, total, product, np.ascontiguousarray(statics[i]), 1, 0)
            if least <= b.most[q]:
                scanned.add((i, q))
    assert scanned <= found
    assert len(found - scanned) <= 0.02 * len(scanned) + 2
    assert hits(reach, points, statics, len(reach)) == found


@pytest.mark.parametrize("metric", list(METRICS))
@pytest.mark.parametrize("d", [0, 1, 2, 3])
def test_no_skyline_zone_changes_that_the_index_passes_over(metric: str, d: int) -> None:
    rng = np.random.default_rng(d)
    points, statics = rng.random((60, 2)), rng.random((60, d))
    live = LiveQueries(PlaceIndex.build(points, statics), [], BOUNDS, metric)
    clients = rng.random((120, 2)).tolist()
    live.put(range(80), [SkylineQuery()] * 80, clients[:80])
    live.skylines.fold()
    live.put(range(80, 120), [SkylineQuery()] * 40, clients[80:])
    for q in range(0, 120, 9):
        live.drop(q)
    points, statics = rng.random((150, 2)) * 1.2 - 0.1, rng.random((150, d))
    found = hits(live.skylines, points, statics, 130)
    keeper: Any = SkylineUpdater(d) if metric == "euclidean" else CircleUpdater()
    stayed = 0
    for i, (x, y) in enumerate(points.tolist()):
        for q in live.skylines.index.slots().tolist():
            if (i, q) not in found:
                stayed += 1
                assert keeper.put(live[q], 60 + i, x, y, statics[i]).effect is Effect.KEPT
    assert min(stayed, len(found)) > 400
    assert hits(live.skylines, points, statics, len(live)) == found


def test_a_batch_with_an_object_better_than_any_reaches_queries_that_were_out_of_reach() -> None:
    world = World("euclidean", {i: ((float(i), 0.0), (3.0, 0.0)) for i in range(5)}, {i: i for i in range(5)})
    live = LiveQueries(
        world.index(), [a._replace(range=None) for a in ATTRIBUTES], np.array([0.0, 0.0, 9.0, 9.0]), "euclidean"
    )
    live.put([0], [TopQuery(2, 1, SUM.scoring("euclidean"))], [(0.0, 0.0)])
    change = batch({7: ((500.0, 0.0), (-1000.0, 0.0), 9)})
    settled = live.apply(change)
    assert [one.query for one in settled.changed] == [0] and live[0].slots.tolist() == [7, 0]
    assert live.tops.lower[0] < -1000.0


@pytest.mark.parametrize("blend", [None, 0.0, 0.1])
def test_what_is_assumed_beyond_the_ranges_of_a_score_makes_no_object_seem_worse(blend: float | None) -> None:
    unranged = [attribute._replace(range=None) for attribute in ATTRIBUTES]
    kind = "weighted_product" if blend is None else "waspas"
    score = scoring(kind, ATTRIBUTES, {"rating": 2.0, "distance": 0.25}, "euclidean", blend=blend or 0.0)
    points, statics = [(2.0, 0.0), (0.0, 0.0), (-1.0, -3.0)], [(0.6, -4.1), (1.1, -2.4), (3.4, -3.0)]
    live = LiveQueries(PlaceIndex.build(points, statics), unranged, np.array([-4.0, -4.0, 4.0, 4.0]))
    live.put([0], [TopQuery(1, 2, score)], [(-1.4, -1.2)])
    live.apply(batch({3: ((3.7, 1.8), (1.0, -5.0), 3), 4: ((40.0, 0.0), (4.0, 0.0), 4)}))
    live.apply(batch({3: None}))
    assert live.tops.lower[1] < -5.0 and live[0].slots[0] == 0 and live[0].radius < 2.0
    told = live.apply(batch({5: ((2.0, 0.0), (3.2, -4.8), 5)})).changed
    assert [one.query for one in told] == [0] and live[0].slots[0] == 5


def test_a_value_that_goes_on_falling_makes_boxes_anew_a_logarithm_of_times() -> None:
    reach, _ = crowd("euclidean", 50, ("weighted_sum",), 1)
    bases = set()
    for i in range(200):
        reach.allow(np.array([[-float(i), 0.0]]))
        bases.add(id(reach.index.tree))
        assert reach.lower[0] <= -i
    assert reach.lower[0] > -600 and len(bases) < 40


def test_boxes_stay_where_they_are_while_answers_change_a_little_and_bases_are_made_when_they_are_worn() -> None:
    reach, rng = crowd("euclidean", 200, ("weighted_sum",), 5)
    reach.fold()
    queries = reach.index.slots().astype(np.int64)
    points = reach.index.rows(queries)[0]
    b = reach.bounds
    ends = np.arange(1, len(queries) + 1)
    near = np.full(len(queries), 0.5), np.column_stack([np.full(len(queries), 0.5), np.full(len(queries), -4.5)])
    reach.remove(queries)
    reach.put(queries, points, b.score[queries], np.full(len(queries), 0.1), ends, *near)
    reach.fold()
    reach.put(queries, points, b.score[queries], np.full(len(queries), 0.099), ends, *near)
    assert reach.index.delta == 0
    reach.put(queries, points + 0.1, b.score[queries], np.full(len(queries), 0.1), ends, *near)
    assert reach.index.delta == len(queries)
    many = np.arange(3 * top_reach.SMALL)
    reach.put(
        many,
        rng.random((len(many), 2)),
        np.zeros(len(many), int),
        np.full(len(many), 0.1),
        np.arange(1, len(many) + 1),
        np.full(len(many), 0.5),
        np.tile([0.5, -4.5], (len(many), 1)),
    )
    assert reach.index.delta == 0 and len(reach) == len(many)


def test_who_holds_a_slot_is_found_whatever_came_and_went() -> None:
    rng = np.random.default_rng(2)
    holders = Holders()
    lists: dict[int, Any] = {}
    for _ in range(200):
        q = int(rng.integers(0, 20))
        if q in lists and rng.random() < 0.3:
            holders.release(np.array([q]))
            del lists[q]
        else:
            lists[q] = set(rng.choice(30, int(rng.integers(0, 8)), replace=False).tolist())
            some = np.array(sorted(lists[q]), np.int64)
            holders.hold(np.array([q]), np.array([len(some)]), some)
    holders.check()
    pairs = Pairs.of(25)
    slots, at, found = np.arange(35), 0, set()
    while at < len(slots):
        at, n = holders_of(holders.cells, slots, at, pairs)
        found |= set(zip(pairs.change[:n].tolist(), pairs.query[:n].tolist(), strict=True))
    assert found == {(slot, q) for q, own in lists.items() for slot in own}
    assert len(holders) == len(found)


@pytest.mark.parametrize("metric", METRICS)
def test_two_threads_find_what_one_does(metric: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(9)
    points, statics = rng.random((200, 2)), rng.random((200, 2)) * [4.0, -5.0]
    kinds = [SUM, Score("", {}, EXPRESSIONS[0]), Score("", {}, EXPRESSIONS[1])]
    asks = [TopQuery(3, 2, score.scoring(metric)) for score in kinds] + [SkylineQuery()]
    clients = rng.random((400, 2)).tolist()
    changes = Changes(np.arange(20), np.arange(20) % 5 > 0, rng.random((20, 2)), statics[:20], np.arange(20))
    both = []
    for shared in (8, 1000):
        monkeypatch.setattr(live_module, "SHARED", shared)
        live = LiveQueries(PlaceIndex.build(points, statics), ATTRIBUTES, BOUNDS, metric)
        live.put(range(400), [asks[i % 4] for i in range(400)], clients)
        both.append((live, live.apply(changes)))
    (one, mine), (other, theirs) = both
    assert [(each.query, each.searched) for each in mine.changed] == [
        (each.query, each.searched) for each in theirs.changed
    ]
    assert sum(each.searched for each in mine.changed) > 8
    for q in range(400):
        for mine, theirs in zip(fields_of(one[q]), fields_of(other[q]), strict=True):
            assert np.array_equal(mine, theirs)


def fields_of(zone: Any) -> list[Any]:
    """The parts of a zone that can be compared, which is all but its score."""
    names = zone._fields if hasattr(zone, "_fields") else [field.name for field in dataclasses.fields(zone)]
    return [getattr(zone, name) for name in names if name != "scoring"]


def test_queries_stand_on_a_map_without_attributes() -> None:
    rng = np.random.default_rng(4)
    live = LiveQueries(PlaceIndex.build(rng.random((30, 2)), np.empty((30, 0))), [], BOUNDS)
    near = TopQuery(3, 2, scoring("weighted_sum", [], {"distance": 1.0}))
    live.put([0, 1], [near, SkylineQuery()], [(0.5, 0.5), (0.2, 0.2)])
    changes = Changes(np.array([30]), np.array([True]), np.array([[0.5, 0.5]]), np.empty((1, 0)), np.array([30]))
    assert 0 in [one.query for one in live.apply(changes).changed] and live[0].slots[0] == 30
    live.index = live.index.folded()
    live.index.check()
    changes = changes._replace(points=np.array([[0.2, 0.2]]))
    assert {one.query for one in live.apply(changes).changed} == {0, 1} and live[1].skyline.tolist() == [30]


def test_what_cannot_stand_is_refused_and_changes_nothing() -> None:
    world = World("manhattan", {0: ((0.0, 0.0), (1.0, 1.0))}, {0: 0})
    live = LiveQueries(world.index(), ATTRIBUTES, BOUNDS, "manhattan")
    good = SUM.scoring("manhattan")
    for ask, at in (
        (TopQuery(0, 1, good), (0.0, 0.0)),
        (TopQuery(1, 0, good), (0.0, 0.0)),
        (TopQuery(1, 1, SUM.scoring("euclidean")), (0.0, 0.0)),
        (SkylineQuery(), (0.0, math.nan)),
        (TopQuery(1, 1, good), (math.inf, 0.0)),
    ):
        with pytest.raises(ValueError):
            live.put([0], [ask], [at])
        assert len(live) == 0 and not len(live.tops.scores)
    live.put([0], [TopQuery(1, 1, good)], [(0.0, 0.0)])
    with pytest.raises(ValueError):
        live.move(0, (math.nan, 0.0))
    with pytest.raises(ValueError):
        live.apply(batch({3: ((math.nan, 0.0), (1.0, 1.0), 4)}))
    assert 3 not in live.index
