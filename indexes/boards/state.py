"""A board at rest, by column: what a snapshot holds, and all that a board is made of again."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indexes.boards.board import Board
from indexes.boards.commands import BoardConfig
from indexes.boards.packing import PackedBoard, pack_forest, pack_objects, to_forest
from indexes.boards.painter import INDEXES
from indexes.boards.upkeep import Captured
from indexes.ids import Packed, merge_packed, pack

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]


class ObjectColumns(NamedTuple):
    """The objects in order of row; `y` has the user's sign, `payload` is compact JSON text or None."""

    row: Int32
    id: list[str]
    x: Float64
    y: Float64
    created: Int64
    payload: list[bytes | None]


class SubscriptionColumns(NamedTuple):
    """The subscriptions in order of id: `ids.row` are their sids. Ends are infinite where unbounded; `ttl` in seconds,
    NaN for none."""

    ids: Packed
    l: Float64
    r: Float64
    k: Int32
    ttl: Float64


class BoardState(NamedTuple):
    """A board at `seq`. `object_rows` and `subscription_rows` count the rows ever handed out, `free_*` are those that
    were given back, in their order."""

    config: BoardConfig
    seq: int
    next_created: int
    object_rows: int
    subscription_rows: int
    free_objects: Int32
    free_subscriptions: Int32
    objects: ObjectColumns
    subscriptions: SubscriptionColumns


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
    return BoardState(
        c.config,
        c.seq,
        c.next_created,
        c.object_rows,
        c.subscription_rows,
        np.array(c.free_objects, np.int32),
        np.array(c.free_subscriptions, np.int32),
        objects,
        SubscriptionColumns(ids, c.l[ids.row], c.r[ids.row], c.k[ids.row], ttl),
    )


def pack_board(state: BoardState) -> PackedBoard:
    """Both indexes of a board laid out afresh. O(n log n + m log m)."""
    sign = -1.0 if state.config.order == "desc" else 1.0
    o, s = state.objects, state.subscriptions
    forest = pack_forest(state.config.ks, s.k, s.ids.row, s.l, s.r)
    return PackedBoard(forest, pack_objects(o.x, o.y * sign, o.created, o.row))


def board_of(state: BoardState, packed: PackedBoard) -> Board:
    """The board in that state over these indexes, which become part of it. O(n log n + m)."""
    board = Board(state.config, state.seq)
    index = INDEXES[state.config.index]
    board.catalogue.load(
        index.of_slots(*packed.objects),
        state.objects.id,
        state.objects.row,
        state.objects.created,
        state.objects.payload,
        state.object_rows,
        state.free_objects.tolist(),
        state.next_created,
    )
    s = state.subscriptions
    board.subscribers.load(s.ids, s.l, s.r, s.k, s.ttl, state.subscription_rows, state.free_subscriptions.tolist())
    board.painter.objects = index.of_slots(*packed.objects)
    board.painter.subscriptions.adopt(packed.forest.ks, to_forest(packed.forest, state.subscription_rows))
    return board
