"""The client's ranking against the service's kernels, bit for bit, and against brute force."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.maps.expression import BadExpression, compiled
from indexes.maps.scoring import KINDS
from indexes.maps.zones.top import scores_at
from rankcast_client import MapAttribute, MapInfo, Place
from rankcast_client.expressions import DEEPEST, LONGEST, Expression
from rankcast_client.ranking import Ranking
from tests.unit.maps.top_worlds import ATTRIBUTES, EXPRESSIONS, Score, World, best, places, scores, worlds

NAMES = tuple(attribute.name for attribute in ATTRIBUTES)


def info_of(world: World) -> MapInfo:
    attributes = {one.name: MapAttribute("high" if one.high else "low", one.range) for one in ATTRIBUTES}
    return MapInfo("food", attributes, (-4, -4, 4, 4), world.metric)  # type: ignore[arg-type]


def wire(score: Score) -> Any:
    """A score as users say it."""
    if score.text:
        return {"kind": "expression", "expression": score.text, "scale": score.scale}
    said = {"kind": score.kind, "weights": score.weights, "scale": score.scale, "shift": score.shift}
    return {**said, "lambda": score.blend}


def listed(world: World) -> list[Place]:
    """The objects as answers have them: whole numbers as integers."""

    def number(value: float) -> float:
        return int(value) if value.is_integer() else value

    return [
        Place(
            str(slot),
            (number(at[0]), number(at[1])),
            dict(zip(NAMES, map(number, values), strict=True)),
            world.created[slot],
        )
        for slot, (at, values) in world.objects.items()
    ]


@pytest.mark.parametrize("kind", [*KINDS, "expression"])
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_scores_are_those_of_the_kernels_bit_for_bit(kind: str, data: st.DataObject) -> None:
    world, score = data.draw(worlds(most=8)), data.draw(scores((kind,)))
    x, y = data.draw(places)
    ranking = Ranking(wire(score), info_of(world))
    slots = sorted(world.objects)
    at = np.array([world.objects[s][0] for s in slots], float).reshape(-1, 2)
    theirs = scores_at(score.scoring(world.metric), x, y, at, world.statics(slots))
    mine = {one.id: one.score for one in ranking.ranked(listed(world), x, y)}
    for slot, wanted in zip(slots, theirs.tolist(), strict=True):
        assert mine[str(slot)] == (wanted if math.isfinite(wanted) else None)


@settings(max_examples=150, deadline=None)
@given(st.data(), worlds(), scores(), st.integers(1, 6))
def test_the_best_are_those_of_brute_force_ties_and_all(
    data: st.DataObject, world: World, score: Score, k: int
) -> None:
    at = data.draw(places)
    wanted, theirs = best(score, world, at, k)
    found = Ranking(wire(score), info_of(world)).best(listed(world), k, *at)
    assert [int(one.id) for one in found] == wanted
    assert [math.inf if one.score is None else one.score for one in found] == theirs


def test_numbers_too_large_or_undefined_rank_last_and_have_no_score() -> None:
    info = MapInfo("m", {"a": MapAttribute("low", (0, 1))}, (0, 0, 1, 1))
    near, far = Place("near", (0, 0), {"a": 0}, 1), Place("far", (1e200, 0), {"a": 1}, 0)
    product = Ranking({"kind": "weighted_product", "weights": {"distance": 3, "a": 1}}, info)
    assert [(one.id, one.score) for one in product.ranked([far, near], 1, 0)] == [("near", 0.01), ("far", None)]
    distance = Ranking({"kind": "weighted_distance", "weights": {"a": 1}, "shift": 0}, info)
    assert [one.score for one in distance.ranked([far, near], 1, 0)] == [1.0, None]


@pytest.mark.parametrize(
    "text",
    [
        *EXPRESSIONS,
        "-2 ** 2",
        "2 ** 3 ** 2",
        "(-8) ** (1 / 3)",
        "0 ** -1",
        "1 / 0",
        "min(3, 1, 2) - max(1, price, rating)",
        "- - +distance",
        "1e308 * 1e308",
        "(-10) ** 309",
        "exp(800) + exp(-800)",
        ".5e1 + 5. - sqrt(-1)",
        "log(0)",
    ],
)
def test_expressions_come_to_what_the_kernels_say(text: str) -> None:
    score = Score("", {}, text)
    world = World("euclidean", {0: ((3.0, 4.0), (1.5, 2.0)), 1: ((0.0, 0.0), (4.0, 5.0))}, {0: 0, 1: 1})
    theirs = scores_at(score.scoring("euclidean"), 0, 0, np.array([[3.0, 4.0], [0.0, 0.0]]), world.statics([0, 1]))
    mine = [Expression(text, NAMES)(far, values) for far, values in VALUES]
    assert mine == [one if math.isfinite(one) else None for one in theirs.tolist()]


VALUES = ((5.0, {"price": 1.5, "rating": 2.0}), (0.0, {"price": 4.0, "rating": 5.0}))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "a number or a name is missing at the end"),
        ("1 +", "a number or a name is missing at the end"),
        ("1 2", "an operator is missing before '2'"),
        ("price $ 2", r"'\$' is no number, name or operator"),
        ("speed", "'speed' is no attribute"),
        ("sin(1)", "'sin' is no function"),
        ("__import__('os')", "is no number, name or operator"),
        ("(1", r"'\)' is missing at the end"),
        ("min(1)", "',' is missing before"),
        ("1e400", "1e400 is too large"),
        ("(" * (DEEPEST + 1) + "1" + ")" * (DEEPEST + 1), "deeper"),
        ("1" * (LONGEST + 1), "characters"),
    ],
)
def test_what_is_no_expression_is_refused_by_both(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        Expression(text, NAMES)
    with pytest.raises(BadExpression):
        compiled(text, ATTRIBUTES)


def test_a_score_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(ValueError, match="'best' is no kind of score"):
        Ranking({"kind": "best"}, MapInfo("m", {}, (0, 0, 1, 1)))  # type: ignore[typeddict-item]
