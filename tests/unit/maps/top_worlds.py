"""Small worlds for tests of top-k: places and values on grids, where scores tie and objects coincide, and off them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from indexes.maps.attributes import Attribute
from indexes.maps.kernels.scores import Scoring
from indexes.maps.object_index import PlaceIndex
from indexes.maps.scoring import KINDS, expression_scoring, scoring
from tests.oracles import top_k as oracle

ATTRIBUTES = (Attribute("price", False, (0.0, 4.0)), Attribute("rating", True, (0.0, 5.0)))

EXPRESSIONS = (
    "distance",
    "distance * 2 + price ** 0.5",
    "price",
    "(1 + distance) * (1 + price) - rating",
    "distance / (6 - rating)",
    "max(distance, price) + 0.1 * sqrt(distance)",
    "distance ** 2 / (price - 2) ** 2",
    "log(1 + distance) + log(price - 1)",
    "exp(distance / 100) - 1 / (1 + distance)",
)

METRICS = ("euclidean", "manhattan", "great-circle")


@dataclass
class World:
    """Objects by slot: place and values; `created` counts."""

    metric: str
    objects: dict[int, tuple[tuple[float, float], tuple[float, float]]] = field(default_factory=dict)
    created: dict[int, int] = field(default_factory=dict)

    def index(self, fanout: int = 2) -> PlaceIndex:
        slots = sorted(self.objects)
        places = np.array([self.objects[s][0] for s in slots], float).reshape(-1, 2)
        return PlaceIndex.build(
            places, self.statics(slots), np.array(slots, np.int32), [self.created[s] for s in slots], fanout
        )

    def statics(self, slots: list[int]) -> np.ndarray:
        values = np.array([self.objects[s][1] for s in slots], float).reshape(-1, 2)
        return values * [1.0, -1.0]


@dataclass
class Score:
    """A score as users say it: a kind with weights, or an expression."""

    kind: str
    weights: dict[str, float]
    text: str = ""
    scale: float = 1.0
    shift: float = 0.01
    blend: float = 0.5

    def scoring(self, metric: str) -> Scoring:
        if self.text:
            return expression_scoring(self.text, ATTRIBUTES, metric, self.scale)
        return scoring(self.kind, ATTRIBUTES, self.weights, metric, self.scale, self.shift, self.blend)

    def of(self, world: World, at: tuple[float, float], slot: int) -> float:
        place, values = world.objects[slot]
        far = oracle.distance(world.metric, at, place)
        named = {"price": values[0], "rating": values[1]}
        if self.text:
            return oracle.expression(self.text, far, named, self.scale)
        return oracle.score(self.kind, ATTRIBUTES, self.weights, far, named, self.scale, self.shift, self.blend)


def scores_of(score: Score, world: World, at: tuple[float, float]) -> dict[int, float]:
    """The scores of all objects by slot."""
    return {slot: score.of(world, at, slot) for slot in world.objects}


def best(score: Score, world: World, at: tuple[float, float], k: int) -> tuple[list[int], list[float]]:
    """The slots of the k best, and their scores, by brute force."""
    slots = sorted(world.objects)
    scores = [score.of(world, at, slot) for slot in slots]
    order = oracle.top(scores, [world.created[slot] for slot in slots], k)
    return [slots[i] for i in order], [scores[i] for i in order]


grid = st.integers(-3, 3).map(float)
odd = st.floats(-4, 4, allow_nan=False, width=32)
places = st.one_of(st.tuples(grid, grid), st.tuples(odd, odd))
values = st.one_of(
    st.tuples(st.integers(0, 4).map(float), st.integers(0, 5).map(float)),
    st.tuples(st.floats(0, 4, width=32), st.floats(0, 5, width=32)),
)
weights = st.sampled_from([0.0, 0.25, 0.5, 1.0, 2.0, 0.1])


@st.composite
def scores(draw: st.DrawFn, kinds: tuple[Any, ...] = (*KINDS, "expression")) -> Score:
    kind = draw(st.sampled_from(kinds))
    scale = draw(st.sampled_from([1.0, 1.0, 0.5, 3.0]))
    if kind == "expression":
        return Score("", {}, draw(st.sampled_from(EXPRESSIONS)), scale)
    chosen = {"price": draw(weights), "rating": draw(weights)}
    if kind != "weighted_distance":
        chosen["distance"] = draw(weights)
    if not any(chosen.values()):
        chosen["price"] = 1.0
    return Score(
        kind, chosen, "", scale, draw(st.sampled_from([0.01, 0.0, 1.0])), draw(st.sampled_from([0.5, 0.0, 1.0]))
    )


@st.composite
def worlds(draw: st.DrawFn, metrics: tuple[str, str, str] = METRICS, most: int = 30) -> World:
    metric = draw(st.sampled_from(metrics))
    objects = draw(st.lists(st.tuples(places, values), max_size=most))
    if draw(st.booleans()):
        objects = objects + objects[: len(objects) // 2]
    order = draw(st.permutations(range(len(objects))))
    return World(metric, dict(enumerate(objects)), dict(enumerate(order)))
