"""One pass over a stretch of changes: paint each, apply it to the object index, and move the live lists on.

A change is painted while the object index still holds the state before it. An insertion is a better y from +inf, a
deletion a worse y to +inf, and a move in x is one of each (paper, II).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from indexes.boards.live import deliver, find_receivers
from indexes.boards.objects import delete, insert, set_y
from indexes.boards.paint import paint, paint_region
from indexes.jit import kernel

SET, DELETE = 0, 1
DONE, FULL_TILES, FULL_LIVE = 0, 1, 2


class Changes(NamedTuple):
    """Columns of equal length. `x` and `y` are NaN where a change keeps what is there; `touched` marks a new payload;
    `created` counts for rows that are new."""

    kind: npt.NDArray[np.uint8]
    row: npt.NDArray[np.int32]
    x: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]
    created: npt.NDArray[np.int64]
    touched: npt.NDArray[np.uint8]


class Painted(NamedTuple):
    """What a pass leaves behind: `event[t]` is the change that made kept tile t, `progress` is (next change, tiles made)."""

    event: npt.NDArray[np.int32]
    progress: npt.NDArray[np.int64]


@kernel
def _paint_change(o, f, ks, dense, w, tiles, kind, row, x, y, c, touched):  # type: ignore[no-untyped-def]
    """Paint one change. Returns 1, or 0 when the tiles do not fit; then nothing has changed.

    An insertion leaves its object in the index at y = +inf, a move leaves it at its new x; `_finish` completes both and
    `_undo` takes both back.
    """
    s = np.int64(o.pos[row])
    ok = 1
    if kind == DELETE:
        ok = paint(o, f, ks, dense, s, np.inf, w, tiles)
    elif s < 0:
        insert(o, row, x, np.inf, c)
        ok = paint(o, f, ks, dense, np.int64(o.pos[row]), y, w, tiles)
        if ok == 0:
            delete(o, row)
    elif not np.isnan(x) and x != o.x[s]:
        old_x = o.x[s]
        old_y = o.y[s]
        old_c = o.c[s]
        new_y = old_y if np.isnan(y) else y
        first = tiles.n[0]
        ok = paint(o, f, ks, dense, s, np.inf, w, tiles)
        if ok == 1:
            delete(o, row)
            insert(o, row, x, np.inf, old_c)
            ok = paint(o, f, ks, dense, np.int64(o.pos[row]), new_y, w, tiles)
            if ok == 0:
                delete(o, row)
                insert(o, row, old_x, old_y, old_c)
                tiles.n[0] = first
    elif not np.isnan(y) and y != o.y[s]:
        ok = paint(o, f, ks, dense, s, y, w, tiles)
    elif touched:
        ok = paint_region(o, f, ks, dense, s, w, tiles)
    return ok


@kernel
def _undo(o, kind, row, was_slot, old_x, old_y, old_c):  # type: ignore[no-untyped-def]
    """Take back what `_paint_change` did to the index."""
    if kind != DELETE:
        if was_slot < 0:
            delete(o, row)
        elif o.x[o.pos[row]] != old_x:
            delete(o, row)
            insert(o, row, old_x, old_y, old_c)


@kernel
def _finish(o, kind, row, y):  # type: ignore[no-untyped-def]
    if kind == DELETE:
        delete(o, row)
    elif not np.isnan(y) and y != o.y[o.pos[row]]:
        set_y(o, np.int64(o.pos[row]), y)


@kernel
def run(o, f, ks, dense, w, tiles, live, painted, changes, hi, keep, listen):  # type: ignore[no-untyped-def]
    """Paint and apply changes from `painted.progress[0]` up to `hi`.

    With `keep` tiles gather in `tiles`, else each change's overwrite the last one's. With `listen` live lists move on.
    Returns DONE, or FULL_TILES / FULL_LIVE when a buffer has to grow before the change at progress[0] can be applied;
    that change has then left no trace. Cost follows the tiles made and the live lists reached.
    """
    why = DONE
    e = painted.progress[0]
    while e < hi and why == DONE:
        if not keep:
            tiles.n[0] = 0
        kind = changes.kind[e]
        row = changes.row[e]
        x = changes.x[e]
        y = changes.y[e]
        first = tiles.n[0]
        was_slot = o.pos[row]
        old_x = 0.0
        old_y = 0.0
        old_c = np.int64(0)
        if was_slot >= 0:
            old_x = o.x[was_slot]
            old_y = o.y[was_slot]
            old_c = o.c[was_slot]
            if kind != DELETE and np.isnan(y):
                y = old_y
        if _paint_change(o, f, ks, dense, w, tiles, kind, row, x, y, changes.created[e], changes.touched[e]) == 0:
            why = FULL_TILES
        else:
            heard = listen and tiles.n[0] > first
            if heard and find_receivers(live[1], live[0], tiles, first) == 0:
                _undo(o, kind, row, was_slot, old_x, old_y, old_c)
                tiles.n[0] = first
                why = FULL_LIVE
            else:
                _finish(o, kind, row, y)
                if heard:
                    deliver(o, live[0], tiles, e)
                made = tiles.n[0] - first
                painted.progress[1] += made
                if keep:
                    for t in range(first, tiles.n[0]):
                        painted.event[t] = e
                e += 1
    painted.progress[0] = e
    return why


@kernel
def advance(o, changes, lo, hi):  # type: ignore[no-untyped-def]
    """Apply changes lo..hi to an object index and tell no one: for replay, and for the copy that serves reads."""
    for e in range(lo, hi):
        row = changes.row[e]
        x = changes.x[e]
        y = changes.y[e]
        s = np.int64(o.pos[row])
        if changes.kind[e] == DELETE:
            delete(o, row)
        elif s < 0:
            insert(o, row, x, y, changes.created[e])
        elif not np.isnan(x) and x != o.x[s]:
            old_y = o.y[s]
            old_c = o.c[s]
            delete(o, row)
            insert(o, row, x, old_y if np.isnan(y) else y, old_c)
        elif not np.isnan(y):
            set_y(o, s, y)
