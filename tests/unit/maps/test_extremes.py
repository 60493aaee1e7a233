"""Standing queries of a map against what is asked of it, over the largest and the smallest numbers that it takes.

Objects come, move and go in between; the oracles are plain definitions in Python's own arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.maps.attributes import Attribute
from indexes.maps.commands import DeleteObjects, MoveQueries, PutObjects, SetQuery
from indexes.maps.config import MapConfig, Score, Skyline, Top
from indexes.maps.engine import MapEngine
from tests.oracles import maps as skyline_oracle
from tests.oracles import top_k as oracle

TINY = 5e-324

NUMBERS = [0.0, -0.0, TINY, -TINY, 1e-300, 1e-160, 1.0, -1.0, 1e150, 1e160, 1e300, -1e300]

ATTRIBUTES = (Attribute("price"), Attribute("rating", True, (0.0, 5.0)), Attribute("thin", False, (0.0, TINY)))

RATINGS = [0.0, TINY, 1e-300, 2.5, 5.0]

EXPRESSIONS = (
    "distance * 1e300",
    "distance * distance * distance",
    "distance + price",
    "price - 1 / (distance + 5e-324)",
    "distance / (rating + 1e-300)",
    "exp(distance) + log(price)",
    "(distance + 1) ** 0.5 * 1e-300",
    "thin * 1e300 + min(distance, 1e300)",
)

number = st.sampled_from(NUMBERS)
place = st.tuples(number, number)
values = st.tuples(number, st.sampled_from(RATINGS), st.sampled_from([0.0, TINY]))
weight = st.sampled_from([0.0, TINY, 1e-300, 0.5, 1.0, 1e300])


@st.composite
def tops(draw: st.DrawFn) -> Top:
    k, m, ordered = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.booleans())
    scale = draw(st.sampled_from([1.0, TINY, 1e300]))
    kind = draw(st.sampled_from(["weighted_sum", "weighted_product", "weighted_distance", "waspas", "expression"]))
    if kind == "expression":
        return Top(k, Score(kind, scale=scale, expression=draw(st.sampled_from(EXPRESSIONS))), m, ordered)
    names = ("price", "rating", "thin", "distance") if kind == "weighted_sum" else ("rating", "thin", "distance")
    weights = {name: draw(weight) for name in names if kind != "weighted_distance" or name != "distance"}
    if not any(weights.values()):
        weights["rating"] = 1.0
    shift = draw(st.sampled_from([0.0, TINY, 0.01, 1.0, 1e300]))
    blend = draw(st.sampled_from([0.0, TINY, 0.5, 1.0]))
    return Top(k, Score(kind, tuple(weights.items()), scale, shift, blend), m, ordered)


questions = st.one_of(tops(), tops(), st.just(Skyline()))

steps = st.one_of(
    st.tuples(st.just("put"), st.integers(0, 7), place, values),
    st.tuples(st.just("put"), st.integers(0, 7), place, values),
    st.tuples(st.just("delete"), st.integers(0, 7)),
    st.tuples(st.just("move"), st.integers(0, 1), place),
)


def ranked(answer: Any) -> tuple[Any, Any]:
    return answer.rows.ids[: answer.members], answer.score[: answer.members]


def finite(x: float) -> float:
    return max(-oracle.MOST, min(oracle.MOST, x))


def power(x: float, e: float) -> Any:
    try:
        return x**e
    except OverflowError:
        return math.inf


def weighted(score: Any, weights: Mapping[str, float], D: float, named: Mapping[str, float]) -> float:
    """A score with weights by its definition; NaN where it has no value."""
    wd = weights.get("distance", 0.0)
    plain = lead = 0.0
    product = 1.0
    for name, high, limits in ATTRIBUTES:
        w = weights.get(name, 0.0)
        if w == 0.0:
            continue
        if score.kind == "weighted_sum":
            plain += finite(w * (-named[name] if high else named[name]))
            continue
        assert limits is not None, "a weight outside of sums is of one with a range"
        v = (named[name] - limits[0]) / (limits[1] - limits[0])
        v = 1.0 - v if high else v
        plain += w * v
        lead += w * (1.0 - v)
        product = finite(product * finite(power(v + score.shift, w)))
    if score.kind == "weighted_distance":
        return D / (score.shift + lead) if score.shift + lead > 0.0 else math.inf
    plain = finite(plain)
    if wd > 0.0:
        plain += wd * D
        # An object whose product is 0 has a score of 0 at every distance.
        product *= power(D, wd) if product > 0.0 else 1.0
    if score.kind == "weighted_sum":
        return plain
    if score.kind == "weighted_product":
        return product
    blend = score.blend
    return plain if blend == 1.0 else product if blend == 0.0 else blend * plain + (1.0 - blend) * product


class World:
    """A map with its objects and the questions of its standing queries, kept a second time in dictionaries."""

    def __init__(self, metric: Any, bounds: Any = (-1e300, -1e300, 1e300, 1e300)) -> None:
        self.engine = MapEngine(MapConfig(ATTRIBUTES, bounds, metric))
        self.engine.wake()
        self.metric = metric
        self.objects: dict[str, Any] = {}
        self.queries: dict[str, Any] = {}
        self.created = 0

    def run(self, command: Any) -> Any:
        plan = self.engine.prepare(command)
        while not plan.done:
            plan.execute(1.0)
            plan.publish()
        return plan

    def ask(self, name: str, question: Any, at: Any) -> None:
        self.run(SetQuery(name, question, at))
        self.queries[name] = question, at

    def step(self, what: str, number: int, *rest: Any) -> None:
        if what == "put":
            (x, y), some = rest
            key = f"o{number}"
            self.run(PutObjects(pa.array([key]), np.array([[x, y]]), np.array([some])))
            created = self.objects[key][2] if key in self.objects else self.created
            self.created = max(self.created, created + 1)
            self.objects[key] = (x + 0.0, y + 0.0), tuple(v + 0.0 for v in some), created
        elif what == "delete":
            self.run(DeleteObjects([f"o{number}"]))
            self.objects.pop(f"o{number}", None)
        elif f"q{number}" in self.queries:
            name, (at,) = f"q{number}", rest
            self.run(MoveQueries([name], np.array([at])))
            self.queries[name] = self.queries[name][0], at

    def best(self, question: Any, at: Any) -> tuple[list[str], list[float | None]]:
        """The ids of the k best and their scores; None for none."""
        keys = list(self.objects)
        scores = [self.score(question.score, at, *self.objects[key][:2]) for key in keys]
        order = oracle.top(scores, [self.objects[key][2] for key in keys], question.k)
        return [keys[i] for i in order], [scores[i] if scores[i] < math.inf else None for i in order]

    def score(self, score: Any, at: Any, where: Any, some: Any) -> float:
        far = oracle.distance(self.metric, at, where)
        named = dict(zip(("price", "rating", "thin"), some, strict=True))
        if score.kind == "expression":
            return oracle.expression(score.expression, finite(far / score.scale), named)
        found = weighted(score, dict(score.weights), far / score.scale, named)
        return math.inf if math.isnan(found) else found

    def skyline(self, at: Any) -> set[str]:
        keys = list(self.objects)
        if not keys:
            return set()
        points = np.array([self.objects[key][0] for key in keys])
        statics = np.array([self.objects[key][1] for key in keys]) * [1.0, -1.0, 1.0]
        with np.errstate(over="ignore"):
            return {keys[i] for i in skyline_oracle.skyline(points, statics, at[0], at[1], self.metric)}

    def check(self) -> None:
        for name, (question, at) in self.queries.items():
            held = self.engine.query(name, answer=True).answer
            asked = self.engine.answer(question, [at])[0]
            if isinstance(question, Skyline):
                assert set(held.rows.ids) == set(asked.rows.ids) == self.skyline(at)
            else:
                wanted = self.best(question, at)
                assert held.radius is None or held.radius >= 0.0
                assert ranked(asked) == wanted
                # Within a zone the candidates give a right answer up to equal scores.
                assert ranked(held) == wanted or (held.center != at and ranked(held)[1] == wanted[1])


def test_an_object_that_is_too_far_for_a_number_enters_a_standing_query_by_its_other_values() -> None:
    world = World("euclidean")
    world.ask("q0", Top(1, Score("weighted_product", (("rating", 1.0), ("distance", 0.0)), shift=1.0)), (-1.0, 1.0))
    world.step("put", 0, (1e300, TINY), (0.0, 2.5, 0.0))
    world.check()


def test_objects_at_the_ends_of_the_plane_do_not_fail_a_standing_expression() -> None:
    world = World("euclidean")
    world.ask("q0", Top(2, Score("expression", expression="distance * 1e300")), (TINY, 1e300))
    for i, at in enumerate([(1e300, 1e300), (-1e300, 1e300), (1e300, -1e300), (-1e300, -1e300), (0.0, 0.0)]):
        world.step("put", i, at, ((-1.0) ** i * 1e300, float(i), 0.0))
        world.check()
    world.engine.check()


def test_a_weight_of_distance_that_counts_for_nothing_leaves_a_radius() -> None:
    world = World("euclidean")
    world.step("put", 0, (3.3, 1.0), (0.0, 2.5, 0.0))
    world.step("put", 1, (7.0, 7.0), (0.0, TINY, 0.0))
    world.ask("q0", Top(1, Score("weighted_product", (("rating", 1.0), ("distance", TINY)))), (1.0, 2.0))
    world.check()


@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
@settings(max_examples=60, deadline=None)
@given(
    asked=st.lists(st.tuples(questions, place), min_size=1, max_size=2),
    changes=st.lists(steps, min_size=1, max_size=12),
)
def test_standing_queries_hold_what_is_asked(metric: str, asked: list[Any], changes: list[Any]) -> None:
    world = World(metric)
    for i, (question, at) in enumerate(asked):
        world.ask(f"q{i}", question, at)
    for change in changes:
        world.step(*change)
        world.check()
    world.engine.check()


FAR = [0.0, 1.0, 5.0, 7.0, 10.0, 1e-9, 1.0 + 1e-9, 1e6, 1e6 + 1e-3, 1e10, 1e10 + 1.0, 2.0**53, 2.0**53 - 5.0, 2.0**64]

afar = st.tuples(st.sampled_from(FAR), st.sampled_from(FAR))


@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
@settings(max_examples=150, deadline=None)
@given(
    objects=st.lists(st.tuples(afar, st.integers(-3, 3).map(float)), min_size=1, max_size=6),
    asked=st.lists(st.tuples(st.one_of(st.just(Skyline()), tops()), afar), min_size=1, max_size=2),
    moves=st.lists(st.tuples(st.integers(0, 1), afar), min_size=1, max_size=8),
)
def test_clients_move_far_beyond_the_bounds(metric: str, objects: Any, asked: Any, moves: Any) -> None:
    world = World(metric, (0.0, 0.0, 10.0, 10.0))
    for i, (where, price) in enumerate(objects):
        world.step("put", i, where, (price, 2.5, 0.0))
    for i, (question, at) in enumerate(asked):
        world.ask(f"q{i}", question, at)
    for i, at in moves:
        world.step("move", i, at)
        world.check()
