"""A map at rest, by column: what a snapshot holds, and all that a map is made of again.

Zones are not part of it: they follow from the objects and where clients are.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indexes.ids import Packed, merge_packed, pack
from indexes.maps.engine import MapEngine
from indexes.maps.model import MapConfig, Point, Question
from indexes.maps.objects import Objects
from indexes.maps.places import PlaceIndex
from indexes.maps.rtree import Tree
from indexes.maps.rtree import pack as pack_tree
from indexes.maps.upkeep import Captured

Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


class MapState(NamedTuple):
    """A map at `seq`: its objects by age, smaller values being better, and standing queries in any order. Sorted `ids`
    have the places of their objects as rows, `query_ids` those of their queries. `payloads` are by place; `ttl`, in
    seconds, is NaN for none. `slots` says in which slots the objects were of the map that this was copied from, where
    that is known."""

    config: MapConfig
    seq: int
    next_created: int
    ids: Packed
    points: Float64
    statics: Float64
    created: Int64
    payloads: dict[int, bytes]
    query_ids: Packed
    questions: list[Question]
    at: list[Point]
    ttl: Float64
    slots: Int32 | None = None


def state_of(captured: Captured) -> MapState:
    """Put what was captured in order, in any thread. O(n log n)."""
    c = captured
    age = np.argsort(c.created)
    slots = c.slots[age]
    place = np.full(int(slots.max(initial=-1)) + 1, -1, np.int32)
    place[slots] = np.arange(len(slots), dtype=np.int32)
    ids = _all(c.ids, c.recent)
    query_ids = _all(c.query_ids, c.query_recent)
    rows = query_ids.row.tolist()
    query_ids = query_ids._replace(row=np.arange(len(rows), dtype=np.int32))
    ttl = np.full(len(rows), np.nan)
    if c.ttl:
        for i, key in enumerate(_texts(query_ids).to_pylist()):
            ttl[i] = c.ttl.get(key, np.nan)
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
        ttl,
        slots,
    )


def _all(base: Packed, recent: dict[str, int]) -> Packed:
    rows = np.fromiter(recent.values(), np.int32, len(recent))
    return merge_packed(base, pack(pa.array(list(recent), pa.string()), rows))


def _texts(ids: Packed) -> pa.LargeStringArray:
    offset, text = np.ascontiguousarray(ids.offset), np.ascontiguousarray(ids.text)
    return pa.LargeStringArray.from_buffers(len(ids.row), pa.py_buffer(offset), pa.py_buffer(text))


def tree_of(state: MapState) -> Tree:
    """The objects of a state, packed, with their places as slots. O(d n log n)."""
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
    """The engine in that state, over its packed tree, which becomes part of it. Its queries hold nothing yet: see
    `MapEngine.wake`. O(d n), without a tree O(d n log n)."""
    index = index_of(state._replace(slots=None), tree)
    objects = Objects(state.config, index, state.next_created)
    objects.names.load(state.ids._replace(row=state.ids.row.copy()))
    objects.payloads = dict(state.payloads)
    objects.pool.restore(len(state.created), [])
    engine = MapEngine(state.config, state.seq, objects)
    standing = engine.standing
    engine.fall_asleep()
    standing.names.load(state.query_ids._replace(row=state.query_ids.row.copy()))
    standing.pool.restore(len(state.questions), [])
    standing.question = {row: engine.interned(question) for row, question in enumerate(state.questions)}
    standing.at = dict(enumerate(state.at))
    for i in np.flatnonzero(~np.isnan(state.ttl)).tolist():
        engine.ttl[standing.names.name(int(state.query_ids.row[i]))] = float(state.ttl[i])
    return engine
