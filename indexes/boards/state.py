"""The state of a board by column: what a snapshot holds, and a board is restored from."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.boards.objects import Reserved
from indexes.boards.packing import PackedBoard, pack_forest, pack_objects, to_forest
from indexes.boards.painter import INDEXES, Painter
from indexes.boards.parts import AnyObjects
from indexes.boards.plans.maintenance import Captured
from indexes.boards.regions import Regions
from indexes.boards.space.kernels.objects import SpaceObjects
from indexes.core.arrays import Floats, Ints, Rows
from indexes.core.ids import Packed, merge_packed, pack


class ObjectColumns(NamedTuple):
    """The objects in order of row; `y` has the user's sign, `payload` is compact JSON text or None. With d > 1 range
    attributes `x` is (n, d)."""

    row: Rows
    id: list[str]
    x: Floats
    y: Floats
    created: Ints
    payload: list[bytes | None]


class SubscriptionColumns(NamedTuple):
    """The subscriptions in order of id: `ids.row` are their rows. `ttl` is in seconds, NaN for none. `k` is the class,
    which is the depth of the list; it shows the ranks after `offset`."""

    ids: Packed
    regions: Regions
    k: Rows
    ttl: Floats
    offset: Rows


class BoardState(NamedTuple):
    """A board at `seq`. `object_rows` and `subscription_rows` count the rows ever handed out, `free_*` are those that
    are free again, in the order of their use. `texts` are those of the codes in places and regions, ascending (see
    `indexes.boards.filters`)."""

    config: BoardConfig
    seq: int
    next_created: int
    object_rows: int
    subscription_rows: int
    free_objects: Rows
    free_subscriptions: Rows
    objects: ObjectColumns
    subscriptions: SubscriptionColumns
    texts: Mapping[float, str] = MappingProxyType({})


def state_of(captured: Captured) -> BoardState:
    """The state that was captured, in any thread. O(n log n + m)."""
    c = captured
    order = np.argsort(c.row)
    rows = c.row[order]
    objects = ObjectColumns(
        rows,
        [c.object_ids[row] for row in rows.tolist()],
        c.x[order],
        c.y[order] * c.sign,
        c.c[order],
        [c.payloads.get(row) for row in rows.tolist()],
    )
    recent = pack(pa.array(list(c.recent), pa.string()), np.fromiter(c.recent.values(), np.int32))
    ids = merge_packed(c.ids.packed(), recent)
    ttl = np.full(len(ids.row), np.nan)
    if c.ttl:
        ttl = np.array([c.ttl.get(sid, np.nan) for sid in ids.row.tolist()])
    regions, texts = c.regions.take(ids.row), {}
    if c.config.indexed:
        ranged = len(c.config.range_attributes)
        used = np.union1d(c.x[:, ranged:], regions.sides[2 * ranged : 2 * c.config.dimensions])
        texts = {code: c.texts[code] for code in used.tolist() if code in c.texts}
    return BoardState(
        c.config,
        c.seq,
        c.next_created,
        c.object_rows,
        c.subscription_rows,
        np.array(c.free_objects, np.int32),
        np.array(c.free_subscriptions, np.int32),
        objects,
        SubscriptionColumns(ids, regions, c.depths(ids.row), ttl, c.offset[ids.row]),
        texts,
    )


def pack_board(state: BoardState) -> PackedBoard:
    """Pack both indexes of a board with one range attribute. O(n log n + m log m)."""
    sign = -1.0 if state.config.order == "desc" else 1.0
    o, s = state.objects, state.subscriptions
    forest = pack_forest(state.config.ks, s.k, s.ids.row, s.regions.l, s.regions.r)
    return PackedBoard(forest, pack_objects(o.x, o.y * sign, o.created, o.row))


def board_of(state: BoardState, packed: PackedBoard | None = None) -> BoardEngine:
    """The board in a state, with these indexes, which become part of it. O(n log n + m).

    Without them they are packed first, in O(n log n + m log m); so are always those of several range attributes.
    """
    board = BoardEngine(state.config, state.seq)
    o, s, painter = state.objects, state.subscriptions, board.painter
    view: AnyObjects
    if isinstance(painter, Painter):
        packed = packed or pack_board(state)
        index = INDEXES[state.config.index]
        view, painter.objects = index.of_slots(*packed.objects), index.of_slots(*packed.objects)
        painter.subscriptions.adopt(packed.forest.ks, to_forest(packed.forest, state.subscription_rows))
    else:
        view = SpaceObjects.build(o.x, o.y * board.catalogue.sign, o.created, o.row)
        painter.objects = view.frozen()
        for k in np.unique(s.k).tolist():
            mine = np.flatnonzero(s.k == k)
            painter.insert(k, s.ids.row[mine], s.regions.take(mine))
    reserved = Reserved(state.next_created, state.object_rows, state.free_objects.tolist())
    codes = board.filters.codes_of(o.row, o.x)
    board.catalogue.load(view, o.id, o.row, o.created, o.payload, codes, reserved)
    board.filters.load(state.texts, o.x, s.regions)
    free = state.free_subscriptions.tolist()
    board.subscribers.load(s.ids, s.regions, s.k, s.ttl, s.offset, state.subscription_rows, free)
    return board
