"""What makes every kernel of the maps ready: each is called once, on a tiny map."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from indexes.maps import top_warm
from indexes.maps.attributes import Attribute
from indexes.maps.changes import CircleKeeper, Keeper
from indexes.maps.live import Changes, LiveQueries, SkylineAsk, TopAsk
from indexes.maps.places import PlaceIndex
from indexes.maps.scores import scoring
from indexes.maps.shapes import component
from indexes.maps.shown import measure_distances
from indexes.maps.sky_circle import CircleSearcher
from indexes.maps.zones import Searcher


def warm() -> None:
    """Every path of a map."""
    exercise(2)


def exercise(d: int) -> None:
    """Run every path once, with so many attributes; which arrays kernels are given does not depend on it."""
    rng = np.random.default_rng(0)
    points, statics = rng.random((300, 2)), rng.random((300, d))
    index = PlaceIndex.build(points, statics)
    index.put(np.arange(290, 310), rng.random((20, 2)), rng.random((20, d)))
    index.delete([5, 295])
    searcher, keeper = Searcher(d), Keeper(d)
    searcher.skyline(index, 0.5, 0.5)
    zone = searcher.zone(index, 0.5, 0.5, np.array([0.0, 0.0, 1.0, 1.0]))
    zone.holds(0.5, 0.5)
    component(zone._replace(cut_end=zone.cut_end[:0]))
    for slot in range(400, 420):
        x, y = rng.random(2).tolist()
        keeper.put(zone, slot, x, y, rng.random(d))
    keeper.delete(zone, 400)
    circles = CircleSearcher(d, "manhattan")
    circles.skyline(index, 0.5, 0.5)
    round_zone = circles.zone(index, 0.5, 0.5)
    round_zone.holds(0.6, 0.5)
    measure_distances(0, np.zeros((1, 2)), np.zeros(1, np.int64), np.zeros((2, 1)), np.empty(1))
    CircleKeeper().put(round_zone, 400, 0.6, 0.6, np.full(d, 2.0))
    top_warm.exercise(index)
    exercise_live(index)
    index.folded().put([1], rng.random((1, 2)), rng.random((1, d)))


def exercise_live(index: PlaceIndex) -> None:
    """Let queries of both kinds stand while an object comes and goes."""
    d = index.d
    live = LiveQueries(index.folded(), [], np.array([0.0, 0.0, 1.0, 1.0]))
    attribute = Attribute("a", False, (0.0, 1.0))
    ask = TopAsk(2, 2, scoring("weighted_sum", [attribute], {"distance": 1.0}))
    live.put([0, 1], [ask, SkylineAsk()], [(0.5, 0.5), (0.5, 0.5)])
    slot = np.array([len(index.view.at)])
    there = np.array([True])
    came = Changes(slot, there, np.full((1, 2), 0.5), np.zeros((1, d)), slot)
    live.apply(came)
    live.apply(came._replace(points=np.full((1, 2), 0.6), statics=np.ones((1, d))))
    live.apply(came._replace(there=~there))
    live.move(0, (0.9, 0.9))
    live.drop(0)
    live.drop(1)


GROUPS: dict[str, Callable[[], None]] = {"main": warm}
"""Kernels that become ready together, by name; what each takes to become so."""
