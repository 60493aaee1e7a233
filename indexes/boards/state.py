"""A board at rest, by column: what a snapshot holds, and all that a board is made of again."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indexes.boards.board import Board
from indexes.boards.commands import BoardConfig
from indexes.boards.packing import PackedBoard, pack_forest, pack_objects, to_forest
from indexes.boards.painter import INDEXES, Painter
from indexes.boards.parts import AnyObjects
from indexes.boards.regions import Regions
from indexes.boards.space.objects import SpaceObjects
from indexes.boards.upkeep import Captured
from indexes.ids import Packed, merge_packed, pack

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]


class ObjectColumns(NamedTuple):
    """The objects in order of row; `y` has the user's sign, `payload` is compact JSON text or None. With d > 1 range
    attributes `x` is (n, d)."""

    row: Int32
    id: list[str]
    x: Float64
    y: Float64
    created: Int64
    payload: list[bytes | None]


class SubscriptionColumns(NamedTuple):
    """The subscriptions in order of id: `ids.row` are their sids. `ttl` in seconds, NaN for none. `k` is the class,
    which is how deep a list reaches; what it shows begins after `offset` ranks."""

    ids: Packed
    regions: Regions
    k: Int32
    ttl: Float64
    offset: Int32


class BoardState(NamedTuple):
    """A board at `seq`. `object_rows` and `subscription_rows` count the rows ever handed out, `free_*` are those that
    were given back, in their order. `texts` are those of the codes in places and regions, ascending, see
    `indexes.boards.filters`."""

    config: BoardConfig
    seq: int
    next_created: int
    object_rows: int
    subscription_rows: int
    free_objects: Int32
    free_subscriptions: Int32
    objects: ObjectColumns
    subscriptions: SubscriptionColumns
    texts: Mapping[float, str] = MappingProxyType({})


def state_of(captured: Captured) -> BoardState:
    """Put what was captured in order, in any thread. O(n log n + m)."""
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
    ids = merge_packed(c.ids, pack(pa.array(list(c.recent), pa.string()), np.fromiter(c.recent.values(), np.int32)))
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
        SubscriptionColumns(ids, regions, c.k[ids.row], ttl, c.offset[ids.row]),
        texts,
    )


def pack_board(state: BoardState) -> PackedBoard:
    """Both indexes of a board with one range attribute laid out afresh. O(n log n + m log m)."""
    sign = -1.0 if state.config.order == "desc" else 1.0
    o, s = state.objects, state.subscriptions
    forest = pack_forest(state.config.ks, s.k, s.ids.row, s.regions.l, s.regions.r)
    return PackedBoard(forest, pack_objects(o.x, o.y * sign, o.created, o.row))


def board_of(state: BoardState, packed: PackedBoard | None = None) -> Board:
    """The board in that state, over these indexes, which become part of it. O(n log n + m).

    Without them they are laid out afresh, O(n log n + m log m); so are always those of several range attributes.
    """
    board = Board(state.config, state.seq)
    s, painter = state.subscriptions, board.painter
    view: AnyObjects
    if isinstance(painter, Painter):
        packed = packed or pack_board(state)
        index = INDEXES[state.config.index]
        view, painter.objects = index.of_slots(*packed.objects), index.of_slots(*packed.objects)
        painter.subscriptions.adopt(packed.forest.ks, to_forest(packed.forest, state.subscription_rows))
    else:
        o = state.objects
        view = SpaceObjects.build(o.x, o.y * board.catalogue.sign, o.created, o.row)
        painter.objects = view.frozen()
        for k in np.unique(s.k).tolist():
            mine = np.flatnonzero(s.k == k)
            painter.insert(k, s.ids.row[mine], s.regions.take(mine))
    board.catalogue.load(
        view,
        state.objects.id,
        state.objects.row,
        state.objects.created,
        state.objects.payload,
        board.filters.codes_of(state.objects.row, state.objects.x),
        state.object_rows,
        state.free_objects.tolist(),
        state.next_created,
    )
    board.filters.load(state.texts, state.objects.x, s.regions)
    free = state.free_subscriptions.tolist()
    board.subscribers.load(s.ids, s.regions, s.k, s.ttl, s.offset, state.subscription_rows, free)
    return board
