"""Few objects that are there are changed by a way of their own: with the outcome of the usual one, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.core.commands import Refused
from indexes.core.cost import Cost
from indexes.core.plan import applied
from indexes.maps import acceptance
from indexes.maps.attributes import Attribute
from indexes.maps.commands import AddQueries, DeleteObjects, PutObjects
from indexes.maps.config import MapConfig, Question, Score, Skyline, Top
from indexes.maps.engine import MapEngine
from indexes.maps.live import queries
from indexes.maps.plans.objects import ChangePlan

CONFIG = MapConfig((Attribute("price"), Attribute("rating", True, (0.0, 5.0))), (0.0, 0.0, 9.0, 9.0))
NAN = float("nan")
QUERIES = 6
TOP = Top(3, Score("weighted_sum", (("price", 1.0), ("distance", 0.5))), 2)


def put(rows: list[tuple[str, list[float]]], **more: Any) -> PutObjects:
    """Objects as (id, [x, y, price, rating])."""
    numbers = np.array([row for _, row in rows], np.float64).reshape(-1, 4)
    return PutObjects([key for key, _ in rows], numbers[:, :2].copy(), numbers[:, 2:].copy(), **more)


def filled() -> MapEngine:
    """Objects o0 to o39, and queries of which q0 and q1 are followed."""
    rng = np.random.default_rng(3)
    engine = MapEngine(CONFIG)
    # So that slices do not depend on how long they take.
    engine.change_cost = Cost(1e-6, fixed=True)
    engine.apply(put([(f"o{i}", [*rng.random(2) * 9, *rng.random(2) * 5]) for i in range(40)]))
    asked: list[Question] = [TOP, Skyline()] * (QUERIES // 2)
    engine.apply(AddQueries(pa.array([f"q{i}" for i in range(QUERIES)]), asked, rng.random((QUERIES, 2)) * 9))
    engine.watch("q0")
    engine.watch("q1")
    return engine


def story(commands: list[Any]) -> list[Any]:
    """What a map says while commands are carried out, two at a time, and what it is afterwards."""
    engine, said = filled(), list[Any]()
    for i in range(0, len(commands), 2):
        plans = []
        for command in commands[i : i + 2]:
            try:
                plans.append(engine.prepare(command))
            except Refused as refused:
                said.append(refused.faults)
        for plan in plans:
            _, notes = applied(plan)
            said.append((plan.first_seq, plan.count, plan.faults, plan.positions, notes))
            if isinstance(plan.command, PutObjects):
                said.append((plan.views(), plan.makers.tolist(), plan.response_fields()))
        said.append([engine.query(f"q{n}", answer=True) for n in (0, 1)])
        engine.check()
    return [*said, engine.objects(None, 100), [engine.query(f"q{n}", answer=True) for n in range(QUERIES)]]


numbers = st.one_of(st.just(NAN), st.integers(0, 6).map(float), st.just(-0.0), st.floats(0, 9))
rows = st.tuples(st.integers(0, 44).map(lambda i: f"o{i}"), st.lists(numbers, min_size=4, max_size=4))
puts = st.builds(lambda some, skip: (some, {"skip": skip}), st.lists(rows, min_size=1, max_size=6), st.booleans())
deletions = st.lists(st.integers(0, 44).map(lambda i: f"o{i}"), min_size=1, max_size=2)


@given(st.lists(st.one_of(puts, puts, puts, deletions), min_size=1, max_size=8))
@settings(max_examples=150, deadline=None)
def test_the_outcome_is_that_of_the_usual_way(script: list[Any]) -> None:
    def commands() -> list[Any]:
        return [DeleteObjects(one) if isinstance(one, list) else put(one[0], **one[1]) for one in script]

    said = story(commands())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(queries, "PAIRS", 0)
        in_little_room = story(commands())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(acceptance, "FEW", 0)
        usually = story(commands())
    assert said == in_little_room == usually


@pytest.mark.parametrize(
    ("command", "short"),
    [
        (put([("o1", [1, 2, 3, 4]), ("o2", [NAN, NAN, 1, NAN])]), True),
        (put([("o1", [NAN] * 4)], must_exist=True), True),
        (PutObjects(pa.array(["o1"]), np.ones((1, 2)), np.ones((1, 2))), True),
        (put([("o1", [1, 2, 3, 4]), ("o1", [1, 2, 3, 4])]), False),
        (put([("o1", [1, 2, 3, 4]), ("new", [1, 2, 3, 4])]), False),
        (put([("o1", [1, 2, 3, 4])], payload={0: None}), False),
        (put([("o1", [1, 2, 3, 5.5]), ("o2", [1, 2, 3, 4])], skip=True), False),
        (put([("o1", [1, NAN, 3, 4]), ("o2", [1, 2, 3, 4])], skip=True), False),
        (put([("o1", [1, 1e301, 3, 4]), ("o2", [1, 2, 3, 4])], skip=True), False),
        (put([(f"o{i}", [1, 2, 3, 4]) for i in range(40)]), True),
    ],
)
def test_which_commands_are_short(command: PutObjects, short: bool) -> None:
    engine = filled()
    plan = engine.prepare(command)
    assert isinstance(plan, ChangePlan) is short
    applied(plan)
    engine.check()


def test_an_object_that_is_about_to_go_takes_the_usual_way() -> None:
    engine = filled()
    gone = engine.prepare(DeleteObjects(["o1"]))
    assert isinstance(engine.prepare(put([("o2", [1, 2, 3, 4])])), ChangePlan)
    again = engine.prepare(put([("o1", [1, 2, 3, 4])]))
    assert not isinstance(again, ChangePlan) and again.created == 1
    assert not isinstance(engine.prepare(put([("o1", [5, 6, 3, 4])])), ChangePlan)
    assert gone.count == 1


def test_one_that_goes_behind_it_is_changed_before() -> None:
    engine = filled()
    plans = [engine.prepare(put([("o1", [1, 2, 3, 4])])), engine.prepare(DeleteObjects(["o1"]))]
    applied(plans[0])
    assert engine.object("o1").location == (1.0, 2.0)
    applied(plans[1])
    assert engine.object("o1") is None
    engine.check()


def test_one_that_cannot_be_logged_changes_nothing() -> None:
    engine = filled()
    before = engine.object("o1"), engine.next_seq
    engine.prepare(put([("o1", [1, 2, 3, 4])])).cancel()
    assert (engine.object("o1"), engine.next_seq) == before
    engine.check()


def test_a_long_one_shows_all_of_its_objects() -> None:
    engine = filled()
    rows = [(f"o{i}", [i / 9, i / 9, NAN, 1.0]) for i in range(40)]
    plan = engine.prepare(put(rows))
    engine.change_cost.seconds = 1.0
    applied(plan)
    assert plan.views() == [engine.object(key) for key, _ in rows]
