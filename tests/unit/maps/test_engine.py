"""The engine behind the writer.

Commands accepted ahead of their turn, applied in slices, told, and taken back, beside a history of what should stand at
each seq. Answers are held against brute force at every slice.
"""

from __future__ import annotations

import math
from collections import deque
from contextlib import ExitStack
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
import shapely
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from indexes.core.commands import Refused
from indexes.maps.attributes import Attribute
from indexes.maps.commands import (
    AddQueries,
    ChangeQuery,
    DeleteObjects,
    DeleteQueries,
    MoveQueries,
    PutObjects,
    SetQuery,
)
from indexes.maps.config import MapConfig, Metric, QueryState, Score, Skyline, Top
from indexes.maps.engine import MapEngine
from indexes.maps.questions import faults_of
from indexes.maps.results import CircleOf, TopAnswer
from tests.oracles import maps as sky_oracle
from tests.oracles import top_k
from tests.support.slices import execute_slice, in_step
from tests.support.values import present

RANGES = (("price", False, (0.0, 4.0)), ("rating", True, (0.0, 5.0)))
NAMES = [name for name, _, _ in RANGES]
ATTRIBUTES = tuple(Attribute(*one) for one in RANGES)
BOUNDS = (-4.0, -4.0, 4.0, 4.0)

WEIGHTS = (("price", 0.5), ("rating", 0.25), ("distance", 0.5))
SCORES = [
    Score("weighted_sum", WEIGHTS),
    Score("weighted_sum", (("distance", 1.0),)),
    Score("weighted_product", WEIGHTS),
    Score("weighted_distance", (("price", 1.0),)),
    Score("waspas", WEIGHTS, blend=0.25),
    Score("expression", expression="distance * 2 + price"),
]

OBJECTS = [f"o{i}" for i in range(9)]
QUERIES = [f"q{i}" for i in range(5)]

coordinates = st.one_of(st.integers(-3, 3).map(float), st.floats(-4, 4))
places = st.tuples(coordinates, coordinates)
values = st.tuples(st.integers(0, 4).map(float), st.integers(0, 5).map(float))
tops = st.builds(Top, st.integers(1, 12), st.sampled_from(SCORES), st.integers(1, 4), st.booleans())
questions = st.one_of(tops, st.just(Skyline()))
payloads = st.sampled_from([(), (None,), (b'{"a":1}',), (b"7",)])
rows = st.tuples(
    st.sampled_from(OBJECTS), st.one_of(places, st.none()), values, st.sampled_from([0, 1, 2, 3]), payloads
)
ttls = st.sampled_from([None, 5.0])


class Object(NamedTuple):
    place: tuple[float, float]
    values: tuple[float, ...]
    created: int
    payload: bytes | None


class Stand(NamedTuple):
    """What stands at a seq: objects and queries by id, and how many objects have ever been made."""

    objects: dict
    queries: dict
    born: int


def scores_at(metric: Metric, score: Score, objects: dict[Any, Any], at: tuple[float, float]) -> dict[Any, Any]:
    """By id, infinite where there is none."""
    found = {}
    for key, one in objects.items():
        far = top_k.distance(metric, at, one.place)
        named = dict(zip(NAMES, one.values, strict=True))
        if score.kind == "expression":
            found[key] = top_k.expression(present(score.expression), far, named, score.scale)
        else:
            found[key] = top_k.score(
                score.kind, RANGES, dict(score.weights), far, named, score.scale, score.shift, score.blend
            )
    return found


def near(a: Any, b: Any) -> Any:
    return a == b or math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9)


def check_top(config: MapConfig, answer: TopAnswer, objects: dict[Any, Any], rng: Any, held: bool) -> None:
    """An answer against brute force, and its candidates at places within its zone."""
    question = answer.question
    theirs = scores_at(config.metric, question.score, objects, answer.place)
    order = sorted(objects, key=lambda key: (theirs[key], objects[key].created))
    n = min(question.k, len(order))
    assert answer.members == n
    # As objects come and go, an answer that is held gains and loses candidates.
    assert (
        n <= len(answer.rows.ids) <= 2 * (question.k + question.m)
        if held
        else len(answer.rows.ids) == min(question.k + question.m - 1, len(order))
    )
    listed = answer.rows.ids[:n]
    assert len(set(answer.rows.ids)) == len(answer.rows.ids)
    assert all(near(theirs[mine], theirs[best]) for mine, best in zip(listed, order, strict=False))
    if not held and question.score.kind != "expression":
        exact = [theirs[key] for key in order]
        if all(b - a > 1e-9 for a, b in pairwise(exact)):
            assert listed == order[:n]
    for i, key in enumerate(answer.rows.ids):
        one = objects[key]
        assert (answer.rows.x[i], answer.rows.y[i]) == one.place
        assert tuple(column[i] for column in answer.rows.values) == one.values
        assert (answer.rows.created[i], answer.rows.payload[i]) == (one.created, one.payload)
        assert near(answer.rows.distance[i], top_k.distance(config.metric, answer.place, one.place))
        assert near(math.inf if answer.score[i] is None else answer.score[i], theirs[key])
    reach = 8.0 if answer.radius is None else answer.radius
    degrees = reach if config.metric != "great-circle" else min(reach / 111_000.0, 4.0)
    for _ in range(2):
        angle, far = rng.uniform(0, 2 * math.pi), degrees * math.sqrt(rng.uniform(0, 1))
        x, y = answer.center[0] + far * math.cos(angle), answer.center[1] + far * math.sin(angle)
        if answer.radius is not None and not top_k.distance(config.metric, answer.center, (x, y)) < answer.radius:
            continue
        there = scores_at(config.metric, question.score, objects, (x, y))
        best = sorted(there.values())[:n]
        mine = sorted(there[key] for key in answer.rows.ids)[:n]
        assert all(map(near, mine, best))


def check_skyline(config: MapConfig, answer: Any, objects: dict[Any, Any], rng: Any) -> None:
    keys = list(objects)
    points = np.array([objects[key].place for key in keys]).reshape(-1, 2)
    statics = np.array([[one.values[0], -one.values[1]] for one in objects.values()]).reshape(-1, 2)

    def wanted(x: float, y: float) -> set[Any]:
        return {keys[i] for i in sky_oracle.skyline(points, statics, x, y, config.metric)}

    assert set(answer.rows.ids) == wanted(*answer.place) and len(set(answer.rows.ids)) == len(answer.rows.ids)
    assert answer.rows.distance == sorted(answer.rows.distance)
    if isinstance(answer.zone, CircleOf):
        assert config.metric != "euclidean"
        center, reach = answer.zone.center, 4.0 if answer.zone.radius is None else answer.zone.radius
        degrees = reach if config.metric != "great-circle" else min(reach / 111_000.0, 4.0)
        for _ in range(2):
            x, y = center[0] + rng.uniform(-degrees, degrees), center[1] + rng.uniform(-degrees, degrees)
            if top_k.distance(config.metric, center, (x, y)) < reach:
                assert set(answer.rows.ids) == wanted(x, y)
    elif answer.zone is not None:
        zone = shapely.geometry.shape(answer.zone)
        assert zone.is_valid
        x0, y0, x1, y1 = zone.bounds
        for _ in range(3):
            x, y = rng.uniform(x0, x1), rng.uniform(y0, y1)
            point = shapely.Point(x, y)
            if zone.contains(point) and zone.boundary.distance(point) > 1e-7:
                assert set(answer.rows.ids) == wanted(x, y)


def columns(some: Any) -> Any:
    """Rows as a command has them; bit 1 of `given` says the price, bit 2 the rating."""
    n = len(some)
    points, numbers, payload = np.full((n, 2), np.nan), np.full((n, 2), np.nan), {}
    for i, (_, place, both, given, told) in enumerate(some):
        if place is not None:
            points[i] = place
        numbers[i] = [value if given >> j & 1 else np.nan for j, value in enumerate(both)]
        if told:
            payload[i] = told[0]
    return PutObjects(pa.array([row[0] for row in some], pa.string()), points, numbers, payload)


class Story(RuleBasedStateMachine):
    """`history[seq]` is what stands there; its last entry is what the next command meets."""

    @initialize(
        metric=st.sampled_from(["euclidean", "euclidean", "manhattan", "great-circle"]), seed=st.integers(0, 99)
    )
    def open(self, metric: Metric, seed: int) -> None:
        self.patches = ExitStack()
        self.patches.enter_context(in_step())
        self.config = MapConfig(ATTRIBUTES, BOUNDS, metric)
        self.engine = MapEngine(self.config)
        self.history = [Stand({}, {}, 0)]
        self.queue: deque[Any] = deque()
        self.begun = None
        self.asked: dict[Any, Any] = {}
        self.known: dict[Any, Any] = {}
        self.rng = np.random.default_rng(seed)

    def teardown(self) -> None:
        if hasattr(self, "patches"):
            self.patches.close()

    @property
    def latest(self) -> Stand:
        return self.history[-1]

    def accept(self, command: Any, refused: list[int], states: list[Stand]) -> Any:
        """Prepare a command: it is refused for the elements at these places, or leads to these states."""
        before = self.engine.next_seq
        if refused and not getattr(command, "skip", False):
            with pytest.raises(Refused) as told:
                self.engine.prepare(command)
            assert {fault.index for fault in told.value.faults} == set(refused)
            assert self.engine.next_seq == before
            return None
        plan = self.engine.prepare(command)
        assert plan.count == len(states) and plan.first_seq == before
        assert {fault.index for fault in plan.faults} == set(refused)
        self.history += states
        if plan.count:
            self.queue.append(plan)
        return plan

    @rule(some=st.lists(rows, min_size=1, max_size=7), skip=st.booleans(), plain=st.booleans())
    def put(self, some: Any, skip: Any, plain: Any) -> None:
        if plain:
            some = [(key, place, both, given, ()) for key, place, both, given, _ in some]
        command = columns(some)
        if plain:
            command.ids = command.keys
        command.skip = skip
        refused, states, now = [], [], self.latest
        for i, (key, place, both, given, told) in enumerate(some):
            before = now.objects.get(key)
            if before is None and (place is None or given != 3):
                refused.append(i)
                continue
            old = before or Object((0.0, 0.0), (0.0, 0.0), now.born, None)
            after = Object(
                place or old.place,
                tuple(
                    new if given >> j & 1 else was for j, (new, was) in enumerate(zip(both, old.values, strict=True))
                ),
                old.created,
                told[0] if told else old.payload,
            )
            now = Stand({**now.objects, key: after}, now.queries, now.born + (before is None))
            states.append(now)
        self.accept(command, refused, states)

    @rule(key=st.sampled_from(OBJECTS), wrong=st.sampled_from(["nan", "price", "rating", "far", "missing"]))
    def put_wrongly(self, key: str, wrong: str) -> None:
        command = PutObjects(pa.array([key]), np.zeros((1, 2)), np.ones((1, 2)))
        if wrong == "nan":
            command.points[0, 1] = np.inf
        elif wrong == "price":
            command.values[0, 0] = 4.5
        elif wrong == "rating":
            command.values[0, 1] = -0.5
        elif wrong == "far":
            if self.config.metric != "great-circle":
                return
            command.points[0, 1] = 90.5
        else:
            if key in self.latest.objects:
                return
            command.must_exist = True
        before = self.engine.next_seq
        with pytest.raises(Refused):
            self.engine.prepare(command)
        assert self.engine.next_seq == before

    @rule(keys=st.lists(st.sampled_from(OBJECTS), max_size=4), must_exist=st.booleans())
    def delete(self, keys: list[str], must_exist: bool) -> None:
        there = [key for key in dict.fromkeys(keys) if key in self.latest.objects]
        if must_exist and set(keys) - set(there):
            with pytest.raises(Refused):
                self.engine.prepare(DeleteObjects(keys, True))
            return
        states, now = [], self.latest
        for gone in there:
            now = now._replace(objects={key: one for key, one in now.objects.items() if key != gone})
            states.append(now)
        self.accept(DeleteObjects(keys, must_exist), [], states)

    @rule(
        some=st.lists(st.tuples(st.sampled_from(QUERIES), questions, places, ttls), min_size=1, max_size=4),
        skip=st.booleans(),
    )
    def add(self, some: list[Any], skip: bool) -> None:
        keys = [key for key, *_ in some]
        bad = [i for i, key in enumerate(keys) if key in self.latest.queries or key in keys[:i]]
        ttl = {i: one[3] for i, one in enumerate(some) if one[3] is not None}
        command = AddQueries(
            pa.array(keys), [one[1] for one in some], np.array([one[2] for one in some]).reshape(-1, 2), ttl, skip
        )
        states, now = [], self.latest
        for i, (key, question, place, seconds) in enumerate(some):
            if i not in bad:
                now = now._replace(queries={**now.queries, key: QueryState(question, place, seconds)})
                states.append(now)
        self.accept(command, bad, states if skip or not bad else [])

    def set_to(self, command: SetQuery | ChangeQuery, key: str, after: QueryState) -> Any:
        before = self.latest.queries.get(key)
        changed = self.latest._replace(queries={**self.latest.queries, key: after})
        return self.accept(command, [], [changed] if before != after else [])

    @rule(key=st.sampled_from(QUERIES), question=questions, place=places, ttl=ttls)
    def set(self, key: str, question: Top | Skyline, place: tuple[float, float], ttl: float | None) -> None:
        before = self.latest.queries.get(key)
        plan = self.set_to(SetQuery(key, question, place, ttl), key, QueryState(question, place, ttl))
        if plan.count:
            assert plan.made == (before is None)

    @rule(
        key=st.sampled_from(QUERIES),
        k=st.one_of(st.none(), st.integers(1, 12)),
        score=st.one_of(st.none(), st.sampled_from(SCORES)),
        place=st.one_of(st.none(), places),
    )
    def change(self, key: Any, k: Any, score: Any, place: Any) -> None:
        command = ChangeQuery(key, place, k=k, score=score)
        before = self.latest.queries.get(key)
        top = before is not None and isinstance(before.question, Top)
        if before is None or (not top and (k or score)):
            with pytest.raises(Refused):
                self.engine.prepare(command)
            return
        question = before.question
        if top:
            question = Top(k or question.k, score or question.score, question.m, question.ordered)
        after = QueryState(question, place or before.location, before.ttl)
        if place and question == before.question:
            # A move, to wherever it may be.
            changed = self.latest._replace(queries={**self.latest.queries, key: after})
            self.accept(command, [], [changed])
        else:
            self.set_to(command, key, after)

    @rule(some=st.lists(st.tuples(st.sampled_from(QUERIES), places), min_size=1, max_size=5), skip=st.booleans())
    def move(self, some: list[tuple[str, tuple[float, float]]], skip: bool) -> None:
        bad = [i for i, (key, _) in enumerate(some) if key not in self.latest.queries]
        states, now = [], self.latest
        for key, place in some:
            if key in now.queries:
                now = now._replace(queries={**now.queries, key: now.queries[key]._replace(location=place)})
                states.append(now)
        command = MoveQueries([key for key, _ in some], np.array([place for _, place in some]), skip)
        self.accept(command, bad, states if skip or not bad else [])

    @rule(keys=st.lists(st.sampled_from(QUERIES), max_size=3), must_exist=st.booleans())
    def forget(self, keys: list[str], must_exist: bool) -> None:
        there = [key for key in dict.fromkeys(keys) if key in self.latest.queries]
        if must_exist and set(keys) - set(there):
            with pytest.raises(Refused):
                self.engine.prepare(DeleteQueries(keys, True))
            return
        states, now = [], self.latest
        for gone in there:
            now = now._replace(queries={key: one for key, one in now.queries.items() if key != gone})
            states.append(now)
        self.accept(DeleteQueries(keys, must_exist), [], states)

    @rule(question=questions, some=st.lists(places, min_size=1, max_size=3))
    def ask(self, question: Skyline, some: list[tuple[float, float]]) -> None:
        plan = self.engine.ask(question, np.array(some))
        self.asked[id(plan)] = plan, question, some, len(self.history) - 1
        self.queue.append(plan)

    @rule(more=st.integers(1, 12))
    def go_on(self, more: int) -> None:
        """Apply what comes next, some slices of it."""
        for _ in range(more):
            if not self.queue:
                return
            plan = self.begun = self.queue[0]
            execute_slice(plan)
            self.hear(plan.publish())
            if plan.done:
                self.queue.popleft()
                self.begun = None
                self.finish(plan)

    def hear(self, heard: None) -> None:
        """Whoever watches and holds another answer or zone was told, and nobody else of a query that is gone."""
        told: set[Any] = set()
        if heard is not None:
            assert heard.last_seq == self.engine.seq
            told = {key for _, key in heard.results}
            assert len(told) == len(heard.results)
            assert all(seq <= heard.last_seq for seq, _ in heard.results)
            for _, key in heard.gone:
                assert key in self.known
                del self.known[key]
        assert told <= self.known.keys()
        for key, before in self.known.items():
            view = self.engine.query(key, True)
            assert view is not None, "its end was not told"
            now = held_of(view.answer)
            assert now == before or key in told, "another answer was not told"
            self.known[key] = now

    def finish(self, plan: Any) -> None:
        if id(plan) in self.asked:
            _, question, some, seq = self.asked.pop(id(plan))
            assert plan.last_seq == seq and len(plan.answers) == len(some)
            for place, answer in zip(some, plan.answers, strict=True):
                assert answer.place == place and answer.question == question
                self.check(answer, self.history[seq].objects, False)
        if isinstance(plan.command, MoveQueries):
            assert [one.id for one in plan.moved] == plan.command.ids
            assert all((one.answer is None) == one.inside for one in plan.moved)

    def check(self, answer: Any, objects: dict[Any, Any], held: bool) -> None:
        if isinstance(answer, TopAnswer):
            check_top(self.config, answer, objects, self.rng, held)
        else:
            check_skyline(self.config, answer, objects, self.rng)

    @rule()
    def fail(self) -> None:
        """The log cannot be written: what has not begun is taken back."""
        while self.queue and self.queue[-1] is not self.begun:
            plan = self.queue.pop()
            plan.cancel()
            del self.history[plan.first_seq :]
            self.asked.pop(id(plan), None)
        assert self.engine.next_seq == len(self.history)

    @rule(key=st.sampled_from(QUERIES), on=st.booleans())
    def watch(self, key: str, on: bool) -> None:
        if key not in self.history[self.engine.seq].queries:
            with pytest.raises(KeyError):
                self.engine.watch(key)
        elif on:
            self.engine.watch(key)
            self.known[key] = held_of(self.engine.query(key, True).answer)
        else:
            self.engine.unwatch(key)
            self.known.pop(key, None)

    @invariant()
    def stands_as_the_history_says(self) -> None:
        if not hasattr(self, "engine"):
            return
        engine, stands = self.engine, self.history[self.engine.seq]
        assert (engine.object_count, engine.query_count) == (len(stands.objects), len(stands.queries))
        views = engine.objects(None, 100)
        assert [view.id for view in views] == sorted(stands.objects)
        for view in views:
            assert view == engine.object(view.id)
            assert Object(view.location, tuple(view.values), view.created, view.payload) == stands.objects[view.id]
        shown = engine.queries(None, 100)
        assert [view.id for view in shown] == sorted(stands.queries)
        for query in shown:
            wanted = stands.queries[query.id]
            assert QueryState(query.question, query.location, query.ttl) == wanted and query.answer is None
            answer = engine.query(query.id, True).answer
            assert answer.place == query.location and answer.question == query.question
            self.check(answer, stands.objects, True)
        assert engine.watched == self.known.keys()
        if not self.queue:
            engine.check()
            assert engine.seq == len(self.history) - 1


def held_of(answer: Any) -> Any:
    """What a client keeps of an answer, wherever it is."""
    objects = sorted(zip(answer.rows.ids, answer.rows.x, answer.rows.y, *answer.rows.values, strict=True))
    return (objects, (answer.center, answer.radius) if isinstance(answer, TopAnswer) else answer.zone)


TestStory = Story.TestCase
TestStory.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


@pytest.mark.parametrize(
    ("score", "field"),
    [
        (Score("fastest"), "score.kind"),
        (Score("weighted_sum", (("colour", 1.0),)), "score.weights.colour"),
        (Score("weighted_sum", (("price", 0.0),)), "score.weights"),
        (Score("weighted_sum"), "score.weights"),
        (Score("weighted_sum", (("price", -1.0), ("distance", 1.0))), "score.weights.price"),
        (Score("weighted_distance", (("price", 1.0), ("distance", 1.0))), "score.weights.distance"),
        (Score("weighted_product", (("size", 1.0),)), "score.weights.size"),
        (Score("weighted_sum", WEIGHTS, scale=0.0), "score.scale"),
        (Score("waspas", WEIGHTS, blend=1.5), "score.lambda"),
        (Score("waspas", WEIGHTS, shift=-1.0), "score.shift"),
        (Score("expression", expression="1 / distance"), "score.expression"),
        (Score("expression", expression="price +"), "score.expression"),
    ],
)
def test_what_is_wrong_with_a_score_is_told_by_its_field(score: Score, field: str) -> None:
    config = MapConfig((*ATTRIBUTES, Attribute("size")), BOUNDS)
    assert field in [name for name, _ in faults_of(config, Top(3, score))]
    engine = MapEngine(config)
    with pytest.raises(Refused) as refused:
        engine.prepare(SetQuery("q", Top(3, score), (0.0, 0.0)))
    assert field in [fault.field for fault in refused.value.faults]
    assert engine.next_seq == 1 and engine.query("q", False) is None


def test_a_command_without_elements_leaves_what_is_under_way_promised() -> None:
    engine = MapEngine(MapConfig(ATTRIBUTES, BOUNDS))
    new = PutObjects(pa.array(["a"]), np.zeros((1, 2)), np.ones((1, 2)))
    engine.prepare(new)
    assert engine.prepare(DeleteObjects(["nobody"])).done
    engine.prepare(DeleteObjects(["a"])).cancel()
    again: Any = engine.prepare(new)
    assert again.created == 0
