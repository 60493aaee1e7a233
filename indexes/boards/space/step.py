"""One pass over a stretch of changes on a board with several range attributes; see `indexes.boards.step`.

`Changes` are those of one attribute, but `x` is (n, d): a coordinate that is NaN stays as it is.
"""

from __future__ import annotations

import numpy as np

from indexes.boards.changes import DELETE
from indexes.boards.live import deliver
from indexes.boards.space.live import find_receivers
from indexes.boards.space.objects import delete, insert, move, set_y
from indexes.boards.space.paint import paint
from indexes.boards.step import DONE, FULL_LIVE, FULL_TILES
from indexes.jit import inline_kernel
from indexes.lean import lean_kernel

INF = np.inf


@inline_kernel
def put_place(o, slot, changes, e, place):  # type: ignore[no-untyped-def]
    """Write where the object will be to place[0]; does it move?"""
    moves = False
    for j in range(o.x.shape[1]):
        given = changes.x[e, j]
        if slot >= 0 and (np.isnan(given) or changes.kind[e] == DELETE):
            given = o.x[slot, j]
        moves |= slot >= 0 and given != o.x[slot, j]
        place[0, j] = given
    return moves


@inline_kernel
def paint_change(o, f, ks, w, tiles, changes, e, slot, y, moves):  # type: ignore[no-untyped-def]
    """Paint change e, whose object goes to o.place[0]. Returns 1, or 0 when the tiles do not fit; nothing has changed
    either way. A move is two halves, the second of which does not see the object where it was."""
    first = tiles.n[0]
    old_y, c = (o.y[slot], o.c[slot]) if slot >= 0 else (INF, changes.created[e])
    for j in range(o.x.shape[1]):
        o.place[1, j] = o.x[slot, j] if slot >= 0 else o.place[0, j]
    ok = 1
    for half in range(2):
        if ok == 1 and (half == 0 or moves):
            at = 1 if half == 0 and slot >= 0 else 0
            was = old_y if half == 0 else INF
            now = INF if half == 0 and (moves or changes.kind[e] == DELETE) else y
            if half == 1:
                set_y(o, slot, INF)
            if was != now or changes.touched[e]:
                ok = paint(o, f, ks, o.place, at, changes.row[e], was, now, c, w, tiles)
    if moves:
        set_y(o, slot, old_y)
    if ok == 0:
        tiles.n[0] = first
    return ok


@inline_kernel
def _apply(o, changes, e, place, slot, y, moves):  # type: ignore[no-untyped-def]
    if changes.kind[e] == DELETE:
        delete(o, changes.row[e])
    elif slot < 0:
        insert(o, changes.row[e], place, 0, y, changes.created[e])
    elif moves:
        move(o, slot, place, 0, y)
    elif y != o.y[slot]:
        set_y(o, slot, y)


@lean_kernel
def run(o, f, ks, w, tiles, event, progress, live, listeners, old, heard, changes, hi, keep):  # type: ignore[no-untyped-def]
    """Paint and apply changes from progress[0] up to `hi`, and, where any are `heard`, move the live lists on.

    With `keep` tiles gather in `tiles`, tile t of change event[t]; else each change's overwrite the last one's.
    Returns DONE, or FULL_TILES or FULL_LIVE when a buffer has to grow before the change at progress[0] can be applied;
    that change has then left no trace. `listeners` are the live slots' regions; `old` is room for one place.
    """
    why = DONE
    e = progress[0]
    while e < hi and why == DONE:
        if not keep:
            tiles.n[0] = 0
        first = tiles.n[0]
        slot = np.int64(o.pos[changes.row[e]])
        moves = put_place(o, slot, changes, e, o.place)
        y = o.y[slot] if slot >= 0 and np.isnan(changes.y[e]) else changes.y[e]
        if paint_change(o, f, ks, w, tiles, changes, e, slot, y, moves) == 0:
            why = FULL_TILES
        elif heard and tiles.n[0] > first and find_receivers(listeners, live, tiles, first, w) == 0:
            tiles.n[0] = first
            why = FULL_LIVE
        else:
            old_y = o.y[slot] if slot >= 0 else 0.0
            for j in range(old.shape[1]):
                old[0, j] = o.x[slot, j] if slot >= 0 else 0.0
            _apply(o, changes, e, o.place, slot, y, moves)
            if heard and tiles.n[0] > first:
                deliver(o, live, tiles, e, changes.row[e], old, old_y)
            progress[1] += tiles.n[0] - first
            if keep:
                for t in range(first, tiles.n[0]):
                    event[t] = e
            e += 1
    progress[0] = e
    return why


@lean_kernel
def receivers(listeners, live, tiles, w):  # type: ignore[no-untyped-def]
    """Collect who is reached by all tiles in the buffer. 1, or 0 when a buffer of `live` is too small."""
    return find_receivers(listeners, live, tiles, 0, w)


@lean_kernel
def advance(o, changes, lo, hi):  # type: ignore[no-untyped-def]
    """Apply changes lo..hi to an index of objects and tell no one: for replay, and for the copy that serves reads."""
    for e in range(lo, hi):
        slot = np.int64(o.pos[changes.row[e]])
        moves = put_place(o, slot, changes, e, o.place)
        y = o.y[slot] if slot >= 0 and np.isnan(changes.y[e]) else changes.y[e]
        _apply(o, changes, e, o.place, slot, y, moves)
