"""One pass over consecutive changes on a board with several range attributes; see `indexes.boards.kernels.step`.

`Changes` are those of one attribute, but `x` is (n, d): a coordinate that is NaN keeps its value.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.boards.kernels.changes import DELETE, Changes
from indexes.boards.kernels.step import DONE, FULL_LIVE, FULL_TILES
from indexes.boards.kernels.tiles import Tiles
from indexes.boards.live_lists import Former, Live, deliver
from indexes.boards.space.kernels.arrays import RegionTrees, SpaceArrays, SpaceContext
from indexes.boards.space.kernels.objects import delete, insert, move, set_y
from indexes.boards.space.kernels.paint import paint
from indexes.boards.space.kernels.scratch import SpaceScratch
from indexes.boards.space.kernels.tiles import closed_box
from indexes.boards.space.subscription_index import report
from indexes.compiled.jit import expanded, internal, kernel
from indexes.core.arrays import INF, Floats, Ints, Ints32, int64


class Painted(NamedTuple):
    """The output of a pass: `event[t]` is the number of the change of kept tile t, `progress` begins with (next change,
    tiles made)."""

    event: Ints32
    progress: Ints


@expanded
def put_place(objects: SpaceArrays, slot: int, changes: Changes, change: int, place: Floats) -> bool:
    """Write the place that the object will have to place[0]; returns whether it moves."""
    moves = False
    for j in range(objects.x.shape[1]):
        given = changes.x[change, j]
        if slot >= 0 and (np.isnan(given) or changes.kind[change] == DELETE):
            given = objects.x[slot, j]
        moves |= slot >= 0 and given != objects.x[slot, j]
        place[0, j] = given
    return moves


@expanded
def paint_change(
    objects: SpaceArrays, context: SpaceContext, changes: Changes, change: int, slot: int, y: float, moves: bool
) -> int:
    """Paint a change whose object goes to objects.place[0]. Returns 1, or 0 when the tiles do not fit; the index is
    unchanged either way. A move is a deletion and an insertion; the second does not see the object at its old place."""
    tiles = context.tiles
    first = tiles.n[0]
    old_y, c = (objects.y[slot], objects.c[slot]) if slot >= 0 else (INF, changes.created[change])
    for j in range(objects.x.shape[1]):
        objects.place[1, j] = objects.x[slot, j] if slot >= 0 else objects.place[0, j]
    ok = 1
    for half in range(2):
        if ok == 1 and (half == 0 or moves):
            at = 1 if half == 0 and slot >= 0 else 0
            was = old_y if half == 0 else INF
            now = INF if half == 0 and (moves or changes.kind[change] == DELETE) else y
            if half == 1:
                set_y(objects, slot, INF)
            if was != now or changes.touched[change]:
                ok = paint(objects, context, objects.place, at, changes.row[change], was, now, c)
    if moves:
        set_y(objects, slot, old_y)
    if ok == 0:
        tiles.n[0] = first
    return ok


@expanded
def _apply(
    objects: SpaceArrays, changes: Changes, change: int, place: Floats, slot: int, y: float, moves: bool
) -> None:
    """Apply a change that was painted."""
    if changes.kind[change] == DELETE:
        delete(objects, changes.row[change])
    elif slot < 0:
        insert(objects, changes.row[change], place, 0, y, changes.created[change])
    elif moves:
        move(objects, slot, place, 0, y)
    elif y != objects.y[slot]:
        set_y(objects, slot, y)


@internal
def find_receivers(listeners: RegionTrees, live: Live, tiles: Tiles, first: int, scratch: SpaceScratch) -> int:
    """Collect the deliveries of the tiles from `first` on. Returns 1, or 0 when a buffer is too small for the event."""
    found = live.deliveries
    n = 0
    fits = 1
    for t in range(first, tiles.n[0]):
        if fits == 1:
            q = tiles.cls[t]
            closed_box(listeners.shape[q], tiles.x.shape[1], tiles.side, t, scratch.low, scratch.high)
            got = report(listeners, q, scratch.low, scratch.high, found.live, n)
            if got < 0:
                fits = 0
            else:
                for p in range(n, n + got):
                    found.tile[p] = t
                n += got
    if live.records.n[0] + 2 * n > live.records.event.size or live.tile_records.n[0] + n > live.tile_records.event.size:
        fits = 0
    found.n[0] = n
    return fits


# Nine arguments: the parts of a board, the changes, and how far and how to go.
@kernel
def run(
    objects: SpaceArrays,
    context: SpaceContext,
    live: Live,
    listeners: RegionTrees,
    painted: Painted,
    changes: Changes,
    end: int,
    deliver_lists: bool,
    keep: bool,
) -> int:
    """Paint and apply changes from `painted.progress[0]` up to `end`, and with `deliver_lists` update the live lists.

    With `keep` tiles are collected in the context's, else each change's overwrite the last one's. Returns DONE, or
    FULL_TILES or FULL_LIVE when a buffer has to grow before the change at progress[0] can be applied; that change has
    then left no trace. `listeners` are the regions of live slots.
    """
    scratch, tiles, progress = context.scratch, context.tiles, painted.progress
    old = scratch.old
    status = DONE
    change = progress[0]
    while change < end and status == DONE:
        if not keep:
            tiles.n[0] = 0
        first = tiles.n[0]
        slot = int64(objects.pos[changes.row[change]])
        moves = put_place(objects, slot, changes, change, objects.place)
        y = objects.y[slot] if slot >= 0 and np.isnan(changes.y[change]) else changes.y[change]
        if paint_change(objects, context, changes, change, slot, y, moves) == 0:
            status = FULL_TILES
        elif deliver_lists and tiles.n[0] > first and find_receivers(listeners, live, tiles, first, scratch) == 0:
            tiles.n[0] = first
            status = FULL_LIVE
        else:
            old_y = objects.y[slot] if slot >= 0 else 0.0
            for j in range(old.shape[1]):
                old[0, j] = objects.x[slot, j] if slot >= 0 else 0.0
            _apply(objects, changes, change, objects.place, slot, y, moves)
            if deliver_lists and tiles.n[0] > first:
                deliver(objects, live, tiles, change, Former(int64(changes.row[change]), old, old_y))
            progress[1] += tiles.n[0] - first
            if keep:
                for t in range(first, tiles.n[0]):
                    painted.event[t] = change
            change += 1
    progress[0] = change
    return status


@kernel
def receivers(listeners: RegionTrees, live: Live, tiles: Tiles, scratch: SpaceScratch) -> int:
    """Collect the live slots reached by all tiles in the buffer. 1, or 0 when a buffer of `live` is too small."""
    return find_receivers(listeners, live, tiles, 0, scratch)


@kernel
def advance(objects: SpaceArrays, changes: Changes, start: int, end: int) -> None:
    """Apply changes start..end - 1 without painting: for replay, and for the copy that serves reads."""
    for change in range(start, end):
        slot = int64(objects.pos[changes.row[change]])
        moves = put_place(objects, slot, changes, change, objects.place)
        y = objects.y[slot] if slot >= 0 and np.isnan(changes.y[change]) else changes.y[change]
        _apply(objects, changes, change, objects.place, slot, y, moves)
