"""The engine behind the writer, with limits so low that all is cut, packed, folded and merged.

Commands accepted ahead of their turn, taken back, restarts and rebuilds, beside a history of what should stand, all by
brute force.
"""

from __future__ import annotations

import math
from collections import deque
from contextlib import ExitStack
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from indexes.core.commands import Refused
from indexes.maps.commands import (
    AddQueries,
    ChangeQuery,
    DeleteObjects,
    DeleteQueries,
    MoveQueries,
    PutObjects,
    SetQuery,
)
from indexes.maps.config import MapConfig, Metric, Score, Skyline, Top
from indexes.maps.engine import MapEngine
from indexes.maps.results import CircleOf
from indexes.maps.state import engine_of, index_of, state_of
from indexes.maps.verification import verify
from tests.oracles import maps as skylines
from tests.oracles import top_k
from tests.support.slices import execute_slice, in_step
from tests.support.values import pair, present
from tests.unit.maps import top_worlds
from tests.unit.maps.helpers import CLOSE, moved
from tests.unit.maps.top_worlds import ATTRIBUTES, METRICS

IDS = [f"o{n}" for n in range(9)]
QUERIES = [f"q{n}" for n in range(6)]
BOUNDS = (-4.0, -4.0, 4.0, 4.0)
SMALL = {
    "indexes.maps.plans.objects.ObjectPlan.at_once": 2,
    "indexes.maps.plans.objects.PACKED_FROM": 6,
    "indexes.maps.plans.objects.FEW": 1,
    "indexes.maps.plans.objects.FOLD_FROM": 4,
    "indexes.maps.pending_objects.BULK": 5,
    "indexes.maps.acceptance.BULK": 5,
    "indexes.core.subscription_engine.BULK": 3,
    "indexes.maps.engine.STRIDE": 16,
    "indexes.core.pending_subscriptions.STRIDE": 16,
    "indexes.maps.plans.queries.QueryPlan.at_once": 2,
    "indexes.maps.queries.AT_ONCE": 2,
    "indexes.maps.plans.maintenance.FOLD": 2,
    "indexes.maps.plans.questions.SURELY_SHORT": 3,
    "indexes.core.ids.MERGE_AT": 3,
}


class Object(NamedTuple):
    """An object as the history has it."""

    place: tuple[float, float]
    values: tuple[float, float]
    created: int
    payload: bytes | None


class Query(NamedTuple):
    """A standing query as the history has it."""

    question: object
    place: tuple[float, float]
    ttl: float | None


class Moment(NamedTuple):
    """What stands at a seq."""

    objects: dict
    queries: dict
    born: int


def asked_of(score: top_worlds.Score, k: int, m: int, ordered: bool) -> Top:
    """A score of the worlds as a question."""
    order = ("price", "rating", "distance")
    weights = tuple((name, score.weights[name]) for name in order if name in score.weights)
    kind = "expression" if score.text else score.kind
    return Top(k, Score(kind, weights, score.scale, score.shift, score.blend, score.text or None), m, ordered)


def oracle_of(question: Any) -> Any:
    """The score of a question as the worlds have it."""
    s = question.score
    return top_worlds.Score(
        "" if s.expression else s.kind, dict(s.weights), s.expression or "", s.scale, s.shift, s.blend
    )


ids, keys = st.sampled_from(IDS), st.sampled_from(QUERIES)
ttls = st.sampled_from([None, None, 5.0])
tops = st.builds(asked_of, top_worlds.scores(), st.integers(1, 4), st.integers(1, 3), st.booleans())
questions = st.one_of(tops, tops, st.just(Skyline()))
spots = top_worlds.places
payloads = st.sampled_from(["keep", "keep", None, b"1", b"2"])
given_values = st.tuples(
    st.one_of(st.just(math.nan), st.integers(0, 4).map(float), st.just(9.0)),
    st.one_of(st.just(math.nan), st.integers(0, 5).map(float), st.just(-1.0)),
)
whole_rows = st.tuples(ids, spots, top_worlds.values, payloads)
loose_rows = st.tuples(
    ids, st.one_of(spots, st.just((math.nan, math.nan)), st.just((1e301, 0.0))), given_values, payloads
)


def put_of(rows: list[Any], **more: Any) -> PutObjects:
    payload = {i: row[3] for i, row in enumerate(rows) if row[3] != "keep"}
    points = np.array([row[1] for row in rows], float).reshape(-1, 2)
    values = np.array([row[2] for row in rows], float).reshape(-1, 2)
    return PutObjects(pa.array([row[0] for row in rows], pa.string()), points, values, payload, **more)


class Story(RuleBasedStateMachine):
    """`history[seq]` is what stands there; its last entry is what the next command meets."""

    @initialize(metric=st.sampled_from(METRICS))
    def open(self, metric: Metric) -> None:
        self.patches = ExitStack()
        for name, value in SMALL.items():
            self.patches.enter_context(patch(name, value))
        self.patches.enter_context(in_step())
        self.config = MapConfig(ATTRIBUTES, BOUNDS, metric)
        self.engine = MapEngine(self.config)
        self.history = [Moment({}, {}, 0)]
        self.queue: deque[Any] = deque()
        self.begun = None
        self.asked: dict[Any, Any] = {}
        self.folding: Any = None
        self.seen: dict[Any, Any] = {}

    def teardown(self) -> None:
        if hasattr(self, "patches"):
            self.patches.close()

    @property
    def latest(self) -> Moment:
        return self.history[-1]

    def accept(self, command: Any, refused: list[tuple[str, str, int]], moments: list[Moment]) -> Any:
        """Prepare a command; it is refused for these (kind, field, index), or leads through these moments."""
        before = self.engine.next_seq
        if refused and not getattr(command, "skip", False):
            with pytest.raises(Refused) as told:
                self.engine.prepare(command)
            assert sorted((f.kind, f.field, f.index or 0) for f in told.value.faults) == sorted(refused)
            assert self.engine.next_seq == before
            return None
        plan = self.engine.prepare(command)
        assert plan.count == len(moments) and plan.first_seq == before
        assert sorted((f.kind, f.field, f.index or 0) for f in plan.faults) == sorted(refused)
        self.history += moments
        assert self.engine.next_seq == len(self.history)
        if plan.count:
            self.queue.append(plan)
        return plan

    @rule(rows=st.lists(whole_rows, min_size=1, max_size=9))
    def load(self, rows: Any) -> None:
        self.put(rows, False, False)

    @rule(rows=st.lists(loose_rows, min_size=1, max_size=9), skip=st.booleans(), must_exist=st.booleans())
    def put(self, rows: list[Any], skip: bool, must_exist: bool) -> None:
        now, refused, moments, good = self.latest, [], [], []
        for i, (key, place, values, payload) in enumerate(rows):
            faults = [("invalid", "location[0]", i)] if abs(place[0]) > 1e300 else []
            for name, value, most in zip(("price", "rating"), values, (4.0, 5.0), strict=True):
                faults += [("invalid", f"values.{name}", i)] if not (math.isnan(value) or 0.0 <= value <= most) else []
            was = now.objects.get(key)
            if not faults and was is None:
                if must_exist:
                    faults.append(("missing", "id", i))
                else:
                    faults += [("invalid", "location", i)] if math.isnan(place[0]) else []
                    lacking = [name for name, v in zip(("price", "rating"), values, strict=True) if math.isnan(v)]
                    faults += [("invalid", f"values.{name}", i) for name in lacking]
            if faults:
                refused += faults
                continue
            good.append(i)
            age = now.born if was is None else was.created
            before = was or Object(place, values, age, None)
            object = Object(
                before.place if math.isnan(place[0]) else place,
                tuple(b if math.isnan(v) else v for b, v in zip(before.values, values, strict=True)),
                age,
                before.payload if payload == "keep" else payload,
            )
            now = Moment({**now.objects, key: object}, now.queries, now.born + (was is None))
            moments.append(now)
        born = now.born - self.latest.born
        plan = self.accept(put_of(rows, skip=skip, must_exist=must_exist), refused, moments)
        if plan is not None:
            assert plan.created == born and plan.applied == len(good)
            assert plan.positions == (good if refused else None)

    @rule(some=st.lists(ids, max_size=6), must_exist=st.booleans())
    def delete(self, some: list[str], must_exist: bool) -> None:
        there = [key for key in dict.fromkeys(some) if key in self.latest.objects]
        refused = must_exist and set(some) - set(there)
        now, moments = self.latest, []
        for key in [] if refused else there:
            now = now._replace(objects={k: v for k, v in now.objects.items() if k != key})
            moments.append(now)
        self.accept(DeleteObjects(some, must_exist), [("missing", "id", 0)] if refused else [], moments)

    @rule(rows=st.lists(st.tuples(keys, questions, spots, ttls), min_size=1, max_size=6), skip=st.booleans())
    def add(self, rows: list[Any], skip: bool) -> None:
        now, refused, moments = self.latest, [], []
        for i, (key, *rest) in enumerate(rows):
            if key in self.latest.queries or key in [row[0] for row in rows[:i]]:
                refused.append(("taken", "id", i))
                continue
            now = now._replace(queries={**now.queries, key: Query(*rest)})
            moments.append(now)
        keyed, asked, places, limits = zip(*rows, strict=True)
        ttl = {i: limit for i, limit in enumerate(limits) if limit is not None}
        self.accept(AddQueries(pa.array(keyed), list(asked), np.array(places), ttl, skip), refused, moments)

    @rule(key=keys, question=questions, place=spots, ttl=ttls)
    def set(self, key: Any, question: Any, place: Any, ttl: Any) -> None:
        after = Query(question, place, ttl)
        before = self.latest.queries.get(key)
        moments = [] if before == after else [self.latest._replace(queries={**self.latest.queries, key: after})]
        plan = self.accept(SetQuery(key, question, place, ttl), [], moments)
        assert not moments or plan.made == (before is None)

    @rule(
        key=keys,
        place=st.one_of(st.none(), spots),
        top=st.one_of(st.none(), tops),
        k=st.one_of(st.none(), st.just(2)),
        ttl=ttls,
    )
    def change(self, key: Any, place: Any, top: Any, k: Any, ttl: Any) -> None:
        before = self.latest.queries.get(key)
        command = ChangeQuery(key, place, k, score=None if top is None else top.score, ttl=ttl)
        if before is None:
            self.accept(command, [("missing", "id", 0)], [])
            return
        question = before.question
        if isinstance(question, Skyline):
            refused = [("invalid", name, 0) for name in ("k", "score") if getattr(command, name) is not None]
            if refused:
                self.accept(command, refused, [])
                return
        else:
            question = Top(k or question.k, command.score or question.score, question.m, question.ordered)
        after = Query(question, place or before.place, before.ttl if ttl is None else ttl)
        moves = place is not None and after._replace(place=before.place) == before
        moments = (
            [self.latest._replace(queries={**self.latest.queries, key: after})] if moves or after != before else []
        )
        self.accept(command, [], moments)

    @rule(rows=st.lists(st.tuples(keys, spots), min_size=1, max_size=6), skip=st.booleans())
    def move(self, rows: list[tuple[str, tuple[float, float]]], skip: bool) -> None:
        now, refused, moments = self.latest, [], []
        for i, (key, place) in enumerate(rows):
            if key not in now.queries:
                refused.append(("unknown", "id", i))
                continue
            now = now._replace(queries={**now.queries, key: now.queries[key]._replace(place=place)})
            moments.append(now)
        self.accept(MoveQueries([row[0] for row in rows], np.array([row[1] for row in rows]), skip), refused, moments)

    @rule(some=st.lists(keys, max_size=4), must_exist=st.booleans())
    def forget(self, some: list[str], must_exist: bool) -> None:
        there = [key for key in dict.fromkeys(some) if key in self.latest.queries]
        refused = must_exist and set(some) - set(there)
        now, moments = self.latest, []
        for key in [] if refused else there:
            now = now._replace(queries={k: v for k, v in now.queries.items() if k != key})
            moments.append(now)
        self.accept(DeleteQueries(some, must_exist), [("missing", "id", 0)] if refused else [], moments)

    @rule(question=questions, places=st.lists(spots, min_size=1, max_size=3))
    def ask(self, question: Skyline | Top, places: list[tuple[float, float]]) -> None:
        plan = self.engine.ask(question, places)
        self.queue.append(plan)
        self.asked[id(plan)] = len(self.history) - 1

    @rule(more=st.integers(1, 12))
    def go_on(self, more: Any) -> None:
        """Apply what comes next, some slices of it."""
        for _ in range(more):
            if not self.queue:
                return
            plan = self.begun = self.queue[0]
            execute_slice(plan)
            self.tell(plan.publish())
            if plan.done:
                self.queue.popleft()
                self.begun = None
                self.check_plan(plan)

    def tell(self, heard: Any) -> None:
        """Whoever watches a query that holds something else has been told."""
        told = []
        if heard is not None:
            assert heard.last_seq == self.engine.seq
            told = [key for _, key in heard.results]
            assert len(set(told)) == len(told) and all(seq <= heard.last_seq for seq, _ in heard.results)
            for _, key in heard.gone:
                assert self.seen.pop(key) and key not in self.history[self.engine.seq].queries
        for key in self.seen:
            now = shape(self.engine.query(key, True).answer)
            assert now == self.seen[key] or key in told
            self.seen[key] = now
        assert set(self.seen) == self.engine.watched

    def check_plan(self, plan: Any) -> None:
        if id(plan) in self.asked:
            seq = self.asked.pop(id(plan))
            assert plan.last_seq == seq
            for answer, place in zip(plan.answers, plan._locations, strict=True):
                check_answer(self.config, self.history[seq].objects, answer, Query(plan.question, place, None))
        for one in getattr(plan, "moved", []):
            assert one.inside == (one.answer is None)

    @rule()
    def fail(self) -> None:
        """The log cannot be written: what has not begun is taken back."""
        while self.queue and self.queue[-1] is not self.begun:
            plan = self.queue.pop()
            plan.cancel()
            del self.history[plan.first_seq :]
            self.asked.pop(id(plan), None)
            if self.folding is plan:
                self.folding = None
        assert self.engine.next_seq == len(self.history)

    @rule(rows=st.lists(whole_rows, min_size=6, max_size=9), steps=st.integers(1, 4))
    def give_up_checking(self, rows: Any, steps: Any) -> None:
        adding = AddQueries(pa.array(QUERIES), [Skyline()] * len(QUERIES), np.zeros((len(QUERIES), 2)), skip=True)
        for checking in (put_of(rows), DeleteObjects(IDS), adding, DeleteQueries(QUERIES)):
            check, sent = self.engine.prepare_steps(checking), None
            try:
                for _ in range(steps):
                    work = check.send(sent)
                    sent = work() if work is not None else None
            except StopIteration as end:
                end.value.cancel()
            check.close()
        assert self.engine.next_seq == len(self.history)

    @rule()
    def rebuild(self) -> None:
        """The next step of one: copy, lay out aside, fold in."""
        if self.folding is None:
            self.folding = self.engine.capture(journal=True, indexes=True)
            self.queue.append(self.folding)
        elif self.folding not in self.queue:
            plan = self.folding
            if getattr(plan, "captured", None) is not None:
                for checked in verify(plan.captured):
                    assert not checked.differences, checked.differences
                self.fresh = index_of(state_of(plan.captured))
            elif plan.swapped or plan.abandoned:
                self.folding = None
                return
            self.folding = self.engine.fold(self.fresh)
            self.queue.append(self.folding)

    @precondition(lambda self: not self.queue)
    @rule()
    def restart(self) -> None:
        """From a copy of the state; what is held is searched for anew."""
        capture = self.engine.capture()
        capture.execute(10.0)
        capture.publish()
        self.engine = engine_of(state_of(present(capture.captured)))
        self.folding, self.seen = None, {}
        if len(self.history) % 2:
            assert self.engine.wake() == bool(self.latest.queries)

    @precondition(lambda self: self.engine.query_count)
    @rule(data=st.data())
    def watch(self, data: Any) -> None:
        names = [view.id for view in self.engine.queries(None, 100)]
        key = data.draw(st.sampled_from(names))
        self.engine.wake()
        self.engine.watch(key)
        self.seen[key] = shape(self.engine.query(key, True).answer)

    @invariant()
    def stands_as_the_history_says(self) -> None:
        if not hasattr(self, "engine"):
            return
        objects, queries, _ = self.history[self.engine.seq]
        views = self.engine.objects(None, 100)
        assert [view.id for view in views] == sorted(objects)
        for view in views:
            assert view == self.engine.object(view.id) == (view.id, *object_fields(objects[view.id]))
        shown = self.engine.queries(None, 100)
        assert [view.id for view in shown] == sorted(queries)
        for query in shown:
            assert tuple(query)[1:4] == queries[query.id]
            found = present(self.engine.query(query.id, True))
            assert found == query._replace(answer=found.answer)
            check_answer(self.config, objects, found.answer, queries[query.id])
        assert self.engine.watched <= queries.keys()
        if not self.queue:
            self.engine.check()
            assert self.engine.seq == len(self.history) - 1


def object_fields(object: Any) -> Any:
    return object.place, list(object.values), object.created, object.payload


def shape(answer: Any) -> Any:
    """What of an answer its client must hear when it is another one."""
    rows = answer.rows
    members = sorted(zip(rows.ids, rows.x, rows.y, zip(*rows.values, strict=True), rows.payload, strict=True), key=str)
    zone = (answer.center, answer.radius) if isinstance(answer.question, Top) else answer.zone
    return members, zone


def check_answer(config: Any, objects: Any, answer: Any, query: Any) -> None:
    """An answer against the definition: its rows are objects as they stand, and the best at its place."""
    rows, place = answer.rows, query.place
    assert (answer.question, answer.place) == (query.question, place)
    columns = (rows.ids, rows.x, rows.y, zip(*rows.values, strict=True), rows.created, rows.payload, rows.distance)
    for key, x, y, values, created, payload, far in zip(*columns, strict=True):
        assert objects[key] == ((x, y), values, created, payload)
        assert far == top_k.distance(config.metric, place, (x, y))
    by_age = sorted(objects, key=lambda key: objects[key].created)
    if isinstance(query.question, Top):
        check_top(config, objects, by_age, answer, query)
        return
    points = np.array([objects[key].place for key in by_age], float).reshape(-1, 2) + 0.0
    statics = np.array([objects[key].values for key in by_age], float).reshape(-1, 2) * [1.0, -1.0]
    wanted = skylines.skyline(points, statics, *pair(place), config.metric)
    assert sorted(rows.ids) == sorted(by_age[i] for i in wanted)
    assert rows.distance == sorted(rows.distance)
    if config.metric == "euclidean":
        assert answer.zone is None or answer.zone["type"] == "Polygon"
    else:
        assert answer.zone is None or isinstance(answer.zone, CircleOf)


def check_top(config: Any, objects: Any, by_age: Any, answer: Any, query: Any) -> None:
    question, place = query.question, query.place
    world = top_worlds.World(
        config.metric,
        {n: (objects[key].place, objects[key].values) for n, key in enumerate(by_age)},
        {n: n for n in range(len(by_age))},
    )
    score, number = oracle_of(question), {key: n for n, key in enumerate(by_age)}
    assert answer.members == min(question.k, len(objects))
    # Elsewhere than where it was searched for, equal scores may be in another order than exact numbers would have.
    exact = answer.center == place
    spots = [place]
    if answer.radius is None or answer.radius > 0.0:
        far = min(answer.radius or 50.0, 1e6 if config.metric == "great-circle" else 50.0)
        spots += [moved(config.metric, answer.center, 0.99 * far, angle) for angle in (0.3, 3.9)]
    for at in spots:
        wanted, scores = top_worlds.best(score, world, at, question.k)
        there = {number[key]: score.of(world, at, number[key]) for key in answer.rows.ids}
        ranked = sorted(there, key=lambda n: (there[n], n))
        if at == place:
            assert [number[key] for key in answer.rows.ids] == ranked
            finite = [there[n] if math.isfinite(there[n]) else None for n in ranked]
            assert answer.score == finite
            if exact:
                assert ranked[: question.k] == wanted
        mine = [there[n] for n in ranked[: question.k]]
        assert len(mine) == len(scores)
        assert all(a == b or abs(a - b) <= CLOSE * max(1.0, abs(a)) for a, b in zip(mine, scores, strict=True))


TestStory = Story.TestCase
TestStory.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
