"""The state of a map by column: what a snapshot contains, and what a map is restored from.

Zones are not part of it: they follow from the objects and the places of clients.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.core.arrays import Floats, Ints, Ints32
from indexes.core.captured_ids import lifetimes_by_id, lifetimes_of
from indexes.core.ids import Packed
from indexes.maps.config import MapConfig, Point, Question
from indexes.maps.engine import MapEngine
from indexes.maps.kernels.rtree import Tree
from indexes.maps.kernels.rtree import pack as pack_tree
from indexes.maps.object_index import PlaceIndex
from indexes.maps.objects import Objects
from indexes.maps.plans.maintenance import Captured


class MapState(NamedTuple):
    """The state of a map at `seq`: its objects by age, smaller values being better, and standing queries in any
    order. Sorted `ids` have the places of their objects in these columns as rows, `query_ids` those of their
    queries. `payloads` are by place; `ttl`, in seconds, is NaN for none. `slots` are the slots of the objects in the
    map that this was copied from, where known."""

    config: MapConfig
    seq: int
    next_created: int
    ids: Packed
    points: Floats
    statics: Floats
    created: Ints
    payloads: dict[int, bytes]
    query_ids: Packed
    questions: list[Question]
    at: list[Point]
    ttl: Floats
    slots: Ints32 | None = None


def state_of(captured: Captured) -> MapState:
    """The state that was captured, put in order; in any thread. O(n log n)."""
    c = captured
    age = np.argsort(c.created)
    slots = c.slots[age]
    place = np.full(int(slots.max(initial=-1)) + 1, -1, np.int32)
    place[slots] = np.arange(len(slots), dtype=np.int32)
    ids, query_ids = c.ids.merged(), c.query_ids.merged()
    rows = query_ids.row.tolist()
    query_ids = query_ids._replace(row=np.arange(len(rows), dtype=np.int32))
    return MapState(
        c.config,
        c.seq,
        c.next_created,
        ids._replace(row=place[ids.row]),
        c.points[age],
        c.statics[age],
        c.created[age],
        {int(place[slot]): text for slot, text in c.payloads.items()},
        query_ids,
        [c.questions[row] for row in rows],
        [c.at[row] for row in rows],
        lifetimes_of(query_ids, c.ttl),
        slots,
    )


def tree_of(state: MapState) -> Tree:
    """The packed tree of the objects, with their places in the columns as slots. O(d n log n)."""
    return pack_tree(state.points, state.statics)


def index_of(state: MapState, tree: Tree | None = None) -> PlaceIndex:
    """The index of a state for the map that it was copied from, over its packed tree, which becomes part of it."""
    tree = tree if tree is not None else tree_of(state)
    slots = state.slots
    if slots is None:
        return PlaceIndex(tree, state.created.copy(), len(state.created))
    created = np.zeros(int(slots.max(initial=-1)) + 1, np.int64)
    created[slots] = state.created
    return PlaceIndex(tree._replace(slot=slots[tree.slot]), created, len(created))


def engine_of(state: MapState, tree: Tree | None = None) -> MapEngine:
    """An engine in this state, over its packed tree, which becomes part of it. Its queries are suspended: see
    `MapEngine.wake`. O(d n), without a tree O(d n log n)."""
    index = index_of(state._replace(slots=None), tree)
    objects = Objects(state.config, index, state.next_created)
    objects.names.load(state.ids._replace(row=state.ids.row.copy()))
    objects.payloads = dict(state.payloads)
    objects.pool.restore(len(state.created), [])
    engine = MapEngine(state.config, state.seq, objects)
    standing = engine.standing
    engine.suspend()
    standing.names.load(state.query_ids._replace(row=state.query_ids.row.copy()))
    standing.pool.restore(len(state.questions), [])
    standing.question = {row: engine.interned(question) for row, question in enumerate(state.questions)}
    standing.at = dict(enumerate(state.at))
    engine.ttl = lifetimes_by_id(state.query_ids, state.ttl)
    return engine
