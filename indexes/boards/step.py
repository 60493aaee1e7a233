"""One pass over a stretch of changes: paint each, apply it to the object index, and move the live lists on.

A change is painted while the object index still holds the state before it. An insertion is a better y from +inf, a
deletion a worse y to +inf, and a move in x is one of each (paper, II).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from indexes.boards.changes import DELETE
from indexes.boards.live import deliver, find_receivers
from indexes.boards.objects import delete, insert, look_ahead, set_y
from indexes.boards.paint import paint
from indexes.jit import inline_kernel
from indexes.lean import inner_kernel, lean_kernel

DONE, FULL_TILES, FULL_LIVE = 0, 1, 2


class Painted(NamedTuple):
    """What a pass leaves behind: `event[t]` is the change of kept tile t, `progress` (next change, tiles made)."""

    event: npt.NDArray[np.int32]
    progress: npt.NDArray[np.int64]


@inner_kernel
def paint_change(o, f, ks, dense, runs, w, tiles, changes, e, y):  # type: ignore[no-untyped-def]
    """Paint change e, which gives its object `y`. Returns 1, or 0 when the tiles do not fit; then nothing has changed.

    An insertion leaves its object in the index at y = +inf, a move leaves it at its new x; `_finish` completes both and
    `undo` takes both back.
    """
    row = changes.row[e]
    x = changes.x[e]
    s = np.int64(o.pos[row])
    ok = 1
    if changes.kind[e] == DELETE:
        ok = paint(o, f, ks, dense, runs, s, np.inf, w, tiles)
    elif s < 0:
        insert(o, row, x, np.inf, changes.created[e])
        ok = paint(o, f, ks, dense, runs, np.int64(o.pos[row]), y, w, tiles)
        if ok == 0:
            delete(o, row)
    elif not np.isnan(x) and x != o.x[s]:
        old_x, old_y, old_c = o.x[s], o.y[s], o.c[s]
        first = tiles.n[0]
        ok = paint(o, f, ks, dense, runs, s, np.inf, w, tiles)
        if ok == 1:
            delete(o, row)
            insert(o, row, x, np.inf, old_c)
            ok = paint(o, f, ks, dense, runs, np.int64(o.pos[row]), y, w, tiles)
            if ok == 0:
                delete(o, row)
                insert(o, row, old_x, old_y, old_c)
                tiles.n[0] = first
    elif y != o.y[s] or changes.touched[e]:
        ok = paint(o, f, ks, dense, runs, s, y, w, tiles)
    return ok


@inner_kernel
def undo(o, kind, row, was_slot, old_x, old_y, old_c):  # type: ignore[no-untyped-def]
    """Take back what `paint_change` did to the index."""
    if kind != DELETE:
        if was_slot < 0:
            delete(o, row)
        elif o.x[o.pos[row]] != old_x:
            delete(o, row)
            insert(o, row, old_x, old_y, old_c)


@inner_kernel
def _finish(o, kind, row, y):  # type: ignore[no-untyped-def]
    if kind == DELETE:
        delete(o, row)
    elif y != o.y[o.pos[row]]:
        set_y(o, int(o.pos[row]), y)


@inline_kernel
def _count(painted, tiles, first, e, keep):  # type: ignore[no-untyped-def]
    painted.progress[1] += tiles.n[0] - first
    if keep:
        for t in range(first, tiles.n[0]):
            painted.event[t] = e


@lean_kernel
def run(o, f, ks, dense, runs, w, tiles, painted, changes, hi, keep):  # type: ignore[no-untyped-def]
    """Paint and apply changes from `painted.progress[0]` up to `hi`.

    With `keep` tiles gather in `tiles`, else each change's overwrite the last one's. Returns DONE, or FULL_TILES when
    the buffer has to grow before the change at progress[0] can be applied; that change has then left no trace.
    """
    why = DONE
    e = painted.progress[0]
    while e < hi and why == DONE:
        if not keep:
            tiles.n[0] = 0
        first = tiles.n[0]
        look_ahead(o, changes.row, e, hi)
        row = changes.row[e]
        y = given_y(o, row, changes.y[e])
        if paint_change(o, f, ks, dense, runs, w, tiles, changes, e, y) == 0:
            why = FULL_TILES
        else:
            _finish(o, changes.kind[e], row, y)
            _count(painted, tiles, first, e, keep)
            e += 1
    painted.progress[0] = e
    return why


@lean_kernel
def run_heard(o, f, ks, dense, runs, w, tiles, live, listeners, painted, changes, hi, keep):  # type: ignore[no-untyped-def]
    """As `run`, and move the live lists on. `listeners` is the forest of live slots.

    FULL_LIVE says that a buffer of `live` has to grow. The cost beyond `run` follows the live lists reached.
    """
    why = DONE
    e = painted.progress[0]
    while e < hi and why == DONE:
        if not keep:
            tiles.n[0] = 0
        first = tiles.n[0]
        look_ahead(o, changes.row, e, hi)
        row = changes.row[e]
        slot = o.pos[row]
        old_x, old_y, old_c = (o.x[slot], o.y[slot], o.c[slot]) if slot >= 0 else (0.0, 0.0, np.int64(-1))
        y = given_y(o, row, changes.y[e])
        if paint_change(o, f, ks, dense, runs, w, tiles, changes, e, y) == 0:
            why = FULL_TILES
        elif tiles.n[0] > first and find_receivers(listeners, live, tiles, first) == 0:
            undo(o, changes.kind[e], row, slot, old_x, old_y, old_c)
            tiles.n[0] = first
            why = FULL_LIVE
        else:
            _finish(o, changes.kind[e], row, y)
            if tiles.n[0] > first:
                deliver(o, live, tiles, e, row, old_x, old_y)
            _count(painted, tiles, first, e, keep)
            e += 1
    painted.progress[0] = e
    return why


@inline_kernel
def given_y(o, row, y):  # type: ignore[no-untyped-def]
    """The y that an object will have: the one given, or the one it has."""
    slot = o.pos[row]
    return o.y[slot] if slot >= 0 and np.isnan(y) else y


@lean_kernel
def advance(o, changes, lo, hi):  # type: ignore[no-untyped-def]
    """Apply changes lo..hi to an object index and tell no one: for replay, and for the copy that serves reads."""
    for e in range(lo, hi):
        look_ahead(o, changes.row, e, hi)
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
            set_y(o, int(o.pos[row]), y)
