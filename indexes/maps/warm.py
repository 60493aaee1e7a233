"""Compiles or loads every kernel of maps: each is called once, on a tiny map."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from indexes.core import cutting
from indexes.core.plan import applied
from indexes.maps.attributes import Attribute
from indexes.maps.commands import AddQueries, DeleteObjects, PutObjects
from indexes.maps.config import MapConfig, Score, Skyline, Top
from indexes.maps.engine import MapEngine
from indexes.maps.kernels.limits import are_known
from indexes.maps.kernels.metrics import METRICS, measure_distances
from indexes.maps.live.queries import Changes, LiveQueries
from indexes.maps.live.skyline_changes import CircleUpdater, SkylineUpdater
from indexes.maps.object_index import PlaceIndex
from indexes.maps.packing import pack_index, unpack_index
from indexes.maps.scoring import expression_scoring, scoring
from indexes.maps.searches import SkylineQuery, TopQuery
from indexes.maps.state import engine_of, index_of, state_of, tree_of
from indexes.maps.verification import verify
from indexes.maps.zones.circle import CircleSearch
from indexes.maps.zones.geojson import component
from indexes.maps.zones.skyline import SkylineSearch
from indexes.maps.zones.top import TopSearch

EXPRESSION = "min(distance, 9) * 2 / 3 - -1 + max(a, 1) ** 0.5 + sqrt(a) + log(a + 1) + exp(0 - a)"
"""All steps of programs, and all functions that check an expression."""


def warm() -> None:
    """Make all kernels ready."""
    cutting.exercise()
    exercise(2)
    exercise_maintenance(MapEngine(MapConfig((Attribute("a", False, (0.0, 1.0)),), (0.0, 0.0, 1.0, 1.0))))


def exercise(d: int) -> None:
    """Run every path once, with d attributes. The types of arguments do not depend on d, scores or metrics."""
    rng = np.random.default_rng(0)
    points, statics = rng.random((300, 2)), rng.random((300, d))
    index = PlaceIndex.build(points, statics)
    index.put(np.arange(290, 310), rng.random((20, 2)), rng.random((20, d)))
    index.delete([5, 295])
    slots, given = np.array([6, 296], np.int32), (rng.random((2, 2)), rng.random((2, d)))
    index.change(slots, np.ones(d), *given)
    are_known(slots, *given, np.zeros(2 + d), np.ones(2 + d))
    searcher, keeper = SkylineSearch(d), SkylineUpdater(d)
    searcher.skyline(index, 0.5, 0.5)
    zone = searcher.zone(index, 0.5, 0.5, np.array([0.0, 0.0, 1.0, 1.0]))
    searcher.many(index, np.full((1, 2), 0.5), np.array([0.0, 0.0, 1.0, 1.0]))
    zone.holds(0.5, 0.5)
    component(zone._replace(cut_end=zone.cut_end[:0]))
    for slot in range(400, 420):
        x, y = rng.random(2).tolist()
        keeper.put(zone, slot, x, y, rng.random(d))
    keeper.delete(zone, 400)
    circles = CircleSearch(d, "manhattan")
    circles.skyline(index, 0.5, 0.5)
    round_zone = circles.zone(index, 0.5, 0.5)
    round_zone.holds(0.6, 0.5)
    measure_distances(0, np.zeros((1, 2)), np.zeros(1, np.int64), np.zeros((2, 1)), np.empty(1))
    CircleUpdater().put(round_zone, 400, 0.6, 0.6, np.full(d, 2.0))
    exercise_top(index)
    exercise_live(index)
    index.folded().put([1], rng.random((1, 2)), rng.random((1, d)))


def exercise_top(index: PlaceIndex) -> None:
    """Run every path of a top-k once: search, zone and updates."""
    d = index.d
    attributes = [
        Attribute("abcdefghijklmnopqrstuvwxyz"[j % 26] + "_" * (j // 26), False, (0.0, 1.0)) for j in range(d)
    ]
    search = TopSearch(index)
    for metric in METRICS:
        for s in (
            scoring("weighted_sum", attributes, {"distance": 1.0}, metric),
            expression_scoring(EXPRESSION if d else "distance", attributes, metric),
        ):
            search.top([(0.5, 0.5)], 3, s)
            zone = search.zone((0.5, 0.5), 3, 2, s, ordered=True)
            zone.inside(0.5, 0.5)
            zone.ranked(0.5, 0.5)


def exercise_live(index: PlaceIndex) -> None:
    """Hold standing queries of both types while an object is inserted, changed and deleted."""
    d = index.d
    live = LiveQueries(index.folded(), [], np.array([0.0, 0.0, 1.0, 1.0]))
    attribute = Attribute("a", False, (0.0, 1.0))
    top = TopQuery(2, 2, scoring("weighted_sum", [attribute], {"distance": 1.0}))
    live.put([0, 1], [top, SkylineQuery()], [(0.5, 0.5), (0.5, 0.5)])
    slot = np.array([len(index.view.at)])
    there = np.array([True])
    came = Changes(slot, there, np.full((1, 2), 0.5), np.zeros((1, d)), slot)
    live.apply(came)
    live.apply(came._replace(points=np.full((1, 2), 0.6), statics=np.ones((1, d))))
    live.change(slot.astype(np.int32), np.ones(d), np.full((1, 2), 0.7), np.ones((1, d)))
    live.apply(came._replace(there=~there))
    live.move(0, (0.9, 0.9))
    live.drop(0)
    live.drop(1)


def exercise_maintenance(engine: MapEngine) -> None:
    """Run once what snapshots, rebuilds, verification and a start do with an engine, which is empty."""
    rng, ids = np.random.default_rng(0), [f"o{i}" for i in range(20)]
    put = PutObjects(pa.array(ids), rng.random((20, 2)), rng.random((20, len(engine.config.attributes))))
    engine.apply(put)
    nearest = Top(2, Score("weighted_sum", (("distance", 1.0),)), 2)
    engine.apply(AddQueries(pa.array(["q1", "q0"]), [nearest, Skyline()], rng.random((2, 2))))
    captured = applied(engine.capture(journal=True, indexes=True))[0].captured
    assert captured is not None
    for checked in verify(captured):
        assert not checked.differences, checked.differences
    state = state_of(captured)
    engine.apply(DeleteObjects(["o1"]))
    applied(engine.fold(index_of(state, unpack_index(pack_index(tree_of(state))))))
    again = engine_of(state)
    again.wake()
    again.apply(put)
    again.apply(DeleteObjects(["o1"]))


GROUPS: dict[str, Callable[[], None]] = {"main": warm}
"""Functions that make a group of kernels ready, by the name of the group."""
