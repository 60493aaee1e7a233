"""One pass over consecutive changes: paint each, apply it to the object index, and update the live lists.

A change is painted while the object index still holds the state before it. An insertion is a promotion from +inf, a
deletion a demotion to +inf, and a move in x is a deletion and an insertion ([Range top-k] II).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from indexes.boards.kernels.changes import DELETE, Changes
from indexes.boards.kernels.forest import Forest
from indexes.boards.kernels.object_index import (
    MAX,
    ObjectArrays,
    delete,
    insert,
    look_ahead,
    look_ahead_applied,
    set_y,
)
from indexes.boards.kernels.paint import paint
from indexes.boards.kernels.scratch import PaintContext
from indexes.boards.live_lists import Former, Live, deliver, find_receivers
from indexes.compiled.atomic import fetch_add
from indexes.compiled.jit import expanded, inlined, internal, kernel
from indexes.compiled.kept import unpacked
from indexes.core.arrays import INF, Bools, Floats, Ints, Ints32, int64, uint64

DONE, FULL_TILES, FULL_LIVE = 0, 1, 2


PART = 4
"""Changes that a painter takes at a time, of those that several paint."""


class Share(NamedTuple):
    """What one of the painters of the same changes does in a pass: `event[t]` is the number of the change of kept tile
    t; `progress` is (next change, tiles made, end of the part in hand); `untaken[0]` is the first change that none of
    them has taken. A painter for itself has all changes in hand."""

    event: Ints32
    progress: Ints
    untaken: Ints


@internal
def paint_change(objects: ObjectArrays, context: PaintContext, changes: Changes, change: int, y: float) -> int:
    """Paint change number `change`, which gives its object `y`. Returns 1, or 0 with nothing changed when the tiles do
    not fit.

    An insertion leaves its object in the index at y = +inf, a move leaves it at its new x; `_apply` completes both and
    `undo` reverts both.
    """
    row = changes.row[change]
    x = changes.x[change]
    slot = int64(objects.pos[row])
    ok = 1
    if changes.kind[change] == DELETE:
        ok = paint(objects, context, slot, np.inf)
    elif slot < 0:
        insert(objects, row, x, np.inf, changes.created[change])
        ok = paint(objects, context, int64(objects.pos[row]), y)
        if ok == 0:
            delete(objects, row)
    elif not np.isnan(x) and x != objects.x[slot]:
        old_x, old_y, old_c = objects.x[slot], objects.y[slot], objects.c[slot]
        first = context.tiles.n[0]
        ok = paint(objects, context, slot, np.inf)
        if ok == 1:
            delete(objects, row)
            insert(objects, row, x, np.inf, old_c)
            ok = paint(objects, context, int64(objects.pos[row]), y)
            if ok == 0:
                delete(objects, row)
                insert(objects, row, old_x, old_y, old_c)
                context.tiles.n[0] = first
    elif y != objects.y[slot] or changes.touched[change]:
        ok = paint(objects, context, slot, y)
    return ok


@internal
def undo(objects: ObjectArrays, kind: int, row: int, was_slot: int, old_x: float, old_y: float, old_c: int) -> None:
    """Revert what `paint_change` did to the index."""
    if kind != DELETE:
        if was_slot < 0:
            delete(objects, row)
        elif objects.x[objects.pos[row]] != old_x:
            delete(objects, row)
            insert(objects, row, old_x, old_y, old_c)


@internal
def _apply(objects: ObjectArrays, kind: int, row: int, y: float) -> None:
    """Complete a change that was painted."""
    if kind == DELETE:
        delete(objects, row)
    elif y != objects.y[objects.pos[row]]:
        set_y(objects, int(objects.pos[row]), y)


# Nine arguments: the parts of a board, the changes, and how far and how to go.
@internal
def run(
    objects: ObjectArrays,
    context: PaintContext,
    live: Live,
    listeners: Forest,
    share: Share,
    changes: Changes,
    end: int,
    deliver_lists: bool,
    keep: bool,
) -> int:
    """Apply changes from `share.progress[0]` on, below `end`, paint those of the share, and with `deliver_lists` update
    the live lists.

    With `keep` tiles are collected in the context's, else each change's overwrite the last one's, and are only counted
    where no list takes them either. Returns DONE, or FULL_TILES or FULL_LIVE when a buffer has to grow before the
    change at progress[0] can be applied; that change has then left no trace. `listeners` is the forest of live slots.
    The cost beyond painting is that of the live lists reached.
    """
    tiles, old, progress = context.tiles, context.scratch.old, share.progress
    status = DONE
    context.scratch.counting[0] = not keep and not deliver_lists
    change = _part(objects, share, changes, progress[0], end)
    while change < end and status == DONE:
        if not keep:
            tiles.n[0] = 0
        first = tiles.n[0]
        look_ahead(objects, changes.row, changes.y, change, end)
        row = changes.row[change]
        slot = objects.pos[row]
        old[0], old_y, old_c = 0.0, 0.0, int64(-1)
        if slot >= 0:
            old[0], old_y, old_c = objects.x[slot], objects.y[slot], objects.c[slot]
        y = given_y(objects, row, changes.y[change])
        if paint_change(objects, context, changes, change, y) == 0:
            status = FULL_TILES
        elif deliver_lists and tiles.n[0] > first and find_receivers(listeners, live, tiles, first) == 0:
            undo(objects, changes.kind[change], row, slot, old[0], old_y, old_c)
            tiles.n[0] = first
            status = FULL_LIVE
        else:
            _apply(objects, changes.kind[change], row, y)
            if deliver_lists and tiles.n[0] > first:
                deliver(objects, live, tiles, change, Former(int64(row), old, old_y))
            progress[1] += tiles.n[0] - first
            if keep:
                for t in range(first, tiles.n[0]):
                    share.event[t] = change
            change = _part(objects, share, changes, change + 1, end)
    context.scratch.counting[0] = 0
    progress[0] = min(change, progress[2])
    return status


# Seven arguments: as `run`, the parts of a board in one.
@kernel
def run_kept(
    kept: Any, progress: Ints, untaken: Ints, changes: Changes, end: int, deliver_lists: bool, keep_tiles: bool
) -> int:
    """As `run`, with the parts of a board that are kept."""
    objects, context, live, listeners, event = unpacked(kept)
    share = Share(event, progress, untaken)
    return run(objects, context, live, listeners, share, changes, end, deliver_lists, keep_tiles)


@kernel
def read_back(kept: Any, first: int, sign: float, numbers: Floats, columns: Ints, gone: Bools) -> None:
    """Copy as many kept tiles as there are rows of `numbers`, from tile `first` on.

    A row of `numbers` becomes the sides, infinite where unbounded, x and `sign` times y. `columns` are the change, the
    k, `created` and the object's row.
    """
    _, context, _, _, event = unpacked(kept)
    tiles = context.tiles
    for at in range(len(numbers)):
        t = uint64(first + at)
        for side in range(4):
            end = tiles.side[t, side]
            numbers[at, side] = end if abs(end) < MAX else INF
        numbers[at, 4] = tiles.x[t]
        numbers[at, 5] = sign * tiles.y[t]
        columns[0, at] = event[t]
        columns[1, at] = context.ks[tiles.cls[t]]
        columns[2, at] = tiles.c[t]
        columns[3, at] = tiles.row[t]
        gone[at] = tiles.gone[t] != 0


@inlined
def _part(objects: ObjectArrays, share: Share, changes: Changes, change: int, end: int) -> int:
    """The next change to paint from `change` on, `end` for none: where the part in hand is done another one is taken,
    and the changes before it, which others paint, are applied. Those behind the last part in hand are not: how far all
    of them get is known only when they have ended."""
    if change == share.progress[2] and change < end:
        first = fetch_add(share.untaken, PART)
        if first < end:
            share.progress[2] = min(first + PART, end)
            advance(objects, changes, change, first)
            change = first
        else:
            change = end
    return change


@kernel
def deliver_kept(
    objects: ObjectArrays,
    context: PaintContext,
    live: Live,
    listeners: Forest,
    share: Share,
    changes: Changes,
    end: int,
) -> int:
    """Apply changes from `share.progress[0]` up to `end` to another index of objects, and their kept tiles, which are
    in order from progress[1] on, to the live lists.

    Returns DONE, or FULL_LIVE when a buffer has to grow before the change at progress[0], which has then left no trace.
    """
    tiles, old, progress = context.tiles, context.scratch.old, share.progress
    n = tiles.n[0]
    change, first = progress[0], progress[1]
    status = DONE
    while change < end and status == DONE:
        last = first
        while last < n and share.event[last] == change:
            last += 1
        tiles.n[0] = last
        if last > first and find_receivers(listeners, live, tiles, first) == 0:
            status = FULL_LIVE
        else:
            row = changes.row[change]
            slot = objects.pos[row]
            old[0], old_y = 0.0, 0.0
            if slot >= 0:
                old[0], old_y = objects.x[slot], objects.y[slot]
            advance(objects, changes, change, change + 1)
            if last > first:
                deliver(objects, live, tiles, change, Former(int64(row), old, old_y))
            change += 1
            first = last
    tiles.n[0] = n
    progress[0], progress[1] = change, first
    return status


@expanded
def given_y(objects: ObjectArrays, row: int, y: float) -> float:
    """The y that an object will have: the given one, or its present one if that is NaN."""
    slot = objects.pos[row]
    return objects.y[slot] if slot >= 0 and np.isnan(y) else y


@kernel
def advance(objects: ObjectArrays, changes: Changes, start: int, end: int) -> None:
    """Apply changes start..end - 1 without painting: for replay, and for the copy that serves reads."""
    for change in range(start, end):
        look_ahead_applied(objects, changes.row, change, end)
        row = changes.row[change]
        x = changes.x[change]
        y = changes.y[change]
        slot = int64(objects.pos[row])
        if changes.kind[change] == DELETE:
            delete(objects, row)
        elif slot < 0:
            insert(objects, row, x, y, changes.created[change])
        elif not np.isnan(x) and x != objects.x[slot]:
            old_y = objects.y[slot]
            old_c = objects.c[slot]
            delete(objects, row)
            insert(objects, row, x, old_y if np.isnan(y) else y, old_c)
        elif not np.isnan(y):
            set_y(objects, int(objects.pos[row]), y)
