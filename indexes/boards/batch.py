"""Paint-Batch: tiles for those who only need the state at the end of many changes (IV-A of the paper, set right).

Of each object counts what it was before the batch (O0) and what it is after it (O1). R0 is its region at its old y in
O0, R1 that at its new y in O1, and R01 that at its old y in O1: those there who had it still keep the stale copy. Sent
are, in this order,

1. the objects that fell, by descending new (y, created), on (R0 and R01) or R1;
2. the objects that the batch left alone, on R1 minus R0 where there is such a place: the exposed ones;
3. the objects that rose, on R1.

What came has no R0 and is sent in step 3, what went has no R1 and is sent in step 1; an object moved in x, or deleted
and inserted again, is both. No other messages in this order are fewer for any subscriber. The paper's own steps send
objects that leave again, and leave lists that lack one.

What changed is known before anything is painted (`net.py`), and lists of one moment become those of the other by what
passed the object near by: neither a second index of old points nor a walk in another index is needed. A batch that is
small beside its board is painted change by change, each of which costs what it would cost by itself (`apart.py`), in
order of x, near objects and near subscriptions one after the other. For one that changes much of its board all objects
are gone through once, in order of rank (`peel.py`). The messages are put in order at the end.

Source: Yu, Agarwal and Yang, "Processing and notifying range top-k subscriptions", IV-A.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from indexes.boards.apart import LATE, MADE, NEXT, paint_apart
from indexes.boards.beside import Beside
from indexes.boards.changes import Changes
from indexes.boards.live import deliver, find_receivers
from indexes.boards.net import ITEMS, MISSING, Group, Net
from indexes.boards.objects import ObjectIndex
from indexes.boards.peel import PAINTED, SPENT, Peel, change, make_peel, paint_peeled
from indexes.boards.step import DONE, FULL_LIVE, FULL_TILES
from indexes.boards.tiles import Tiles
from indexes.lean import lean_kernel

if TYPE_CHECKING:
    from indexes.boards.painter import Painter
    from indexes.boards.parts import AnyObjects

INF = np.inf

ADVANCE = 2e-6
"""Seconds that moving an object index on by one change is taken to cost."""

CROWDED, FURTHER = 0.0019, 1.28
"""A batch is painted all at once where more than CROWDED * n ** FURTHER of n objects fell: 2.5% of ten thousand, 9% of
a million. Past the caches, to go through all objects costs more for each of them."""

COPIED = 0.1
"""Changes for each object from which on the reading index is better copied than moved on."""


class Batch:
    """One batch on its way: `paint` until it is `done`. The painter's own object index is ahead of what reads see from
    the first call on; its tiles, and the live lists with them, are complete after the last.

    `births` of the changes may create objects, `rows` were ever handed out, and `touched` are those whose payload is
    another one after the batch.
    """

    def __init__(self, painter: Painter, changes: Changes, births: int, rows: int, touched: list[int]) -> None:
        self.done = False
        self.made = 0
        self.view: ObjectIndex | None = None
        self._painter = painter
        self._changes = changes
        self._births, self._rows = births, rows
        self._touched = np.array(touched, np.int64)
        self._changed = 0
        self._net: Net | None = None
        self._progress = np.zeros(3, np.int64)
        self._seconds_per_step = painter.seconds_per_event / PAINTED

    def paint(self, budget: float, keep: bool) -> None:
        """Work for about `budget` seconds. With `keep` the tiles stay in the painter's buffer."""
        until = time.perf_counter() + budget
        net = self._net
        if net is None:
            net = self._net = self._taken_together()
        if self._peel is not None and not self._make(net, budget):
            return
        keep = keep or self._painter.live.count > 0
        going = True
        while going:
            self._pass(net, until - time.perf_counter(), keep)
            going = not self.done and time.perf_counter() < until

    def advance(self, view: AnyObjects) -> None:
        """Make the changes in another index, with room for what comes, once it is done: in order of x, where one needs
        what is near what the last one needed. O(m log n)."""
        if self._net is not None:
            change(view.arrays, self._net, 0, _items(self._net))

    def _taken_together(self) -> Net:
        """What became of each object; and the way to paint it."""
        painter, changes = self._painter, self._changes
        painter.clear()
        painter.objects.reserve(self._births, self._rows)
        net = painter.room.net_of(painter.objects.arrays, changes, self._touched, self._rows)
        gone = int(net.fallen.size[MISSING])
        if gone > 0:
            # What moved in x is there twice for a while, and what is gone comes back for a walk: both in spare rows.
            painter.objects.reserve(self._births + gone + 1, self._rows + len(changes.row) + 1)
        self._peel: Peel | None = None
        self._beside: Beside | None = None
        if net.fallen.size[ITEMS] > CROWDED * len(painter.objects) ** FURTHER:
            self._peel = make_peel(painter.objects, net)
        else:
            self._beside = Beside(net, *painter.scratch)
            self._late = np.empty(_items(net), np.int64)
        return net

    def _make(self, net: Net, budget: float) -> bool:
        """Make more of all changes before anything is painted; whether all are made."""
        lo, n = self._changed, _items(net)
        hi = min(n, lo + max(1, int(budget / ADVANCE)))
        if lo < hi:
            change(self._painter.objects.arrays, net, lo, hi)
            self._changed = hi
        return hi == n

    def _pass(self, net: Net, budget: float, keep: bool) -> None:
        painter, progress, peel = self._painter, self._progress, self._peel
        o, f, tiles = painter.objects.arrays, painter.subscriptions.arrays, painter.tiles
        state = (o, f, painter.ks, painter.dense, painter.work, tiles, painter.moments)
        began, before = time.perf_counter(), progress.copy()
        if peel is None:
            stop = int(before[NEXT]) + max(1, int(budget / painter.seconds_per_event))
            why = paint_apart(*state, self._beside, self._late, progress, stop, keep)
            done, end = int(progress[NEXT] - before[NEXT]), _items(net) + int(progress[LATE])
            painter.seconds_per_event += _drift(painter.seconds_per_event, began, done)
        else:
            why = paint_peeled(*state, net, peel, progress, max(1, int(budget / self._seconds_per_step)), keep)
            done, end = int(progress[SPENT] - before[SPENT]), len(peel.step)
            self._seconds_per_step += _drift(self._seconds_per_step, began, done)
        if why == FULL_TILES:
            painter.grow_tiles()
        elif progress[NEXT] == end:
            self._finish(net, keep)

    def _finish(self, net: Net, keep: bool) -> None:
        painter = self._painter
        if keep:
            put_in_order(painter.tiles, net)
        if painter.live.count:
            self._tell(net)
        if len(self._changes.row) > COPIED * len(painter.objects):
            self.view = painter.objects.frozen()
        self.made = int(self._progress[MADE])
        self.done = True

    def _tell(self, net: Net) -> None:
        """Move the live lists on. What moved in x is held at its old place, where its new value counts for nothing."""
        painter = self._painter
        o, strays = painter.objects.arrays, np.zeros(len(painter.objects.arrays.pos), np.uint8)
        moved = np.flatnonzero(net.fallen.spare[: net.fallen.size[ITEMS]] >= 0)
        strays[net.fallen.row[moved]] = 1
        why = FULL_LIVE
        while why == FULL_LIVE:
            why = tell(o, painter.live.index.arrays, painter.live.arrays._replace(strays=strays), painter.tiles)
            if why == FULL_LIVE:
                painter.live.grow_buffers()


def _drift(seconds: float, began: float, done: int) -> float:
    """How far to move on what one is taken to cost, after so many since `began`."""
    return 0.2 * ((time.perf_counter() - began) / done - seconds) if done else 0.0


def _items(net: Net) -> int:
    return int(net.fallen.size[ITEMS] + net.risen.size[ITEMS])


def put_in_order(tiles: Tiles, net: Net) -> None:
    """Bring kept tiles into the order of the messages."""
    n = int(tiles.n[0])
    fallen = net.fallen
    fell = fallen.size[ITEMS]
    last_first = np.lexsort((-fallen.c[:fell], -fallen.y1[:fell]))
    order = np.empty(n, np.int64)
    sort_tiles(tiles, fallen, last_first, net.risen, order)
    for name in Tiles._fields:
        if name != "n":
            column: NDArray[np.generic] = getattr(tiles, name)
            column[:n] = column[:n][order]


@lean_kernel
def sort_tiles(tiles, fallen: Group, last_first, risen: Group, order):  # type: ignore[no-untyped-def]
    """Write the order of the kept tiles: of what fell, in the order given, of what is exposed, of what rose."""
    n = 0
    for i in last_first:
        for t in range(fallen.first[i], fallen.end[i]):
            if tiles.own[t]:
                order[n] = t
                n += 1
    for t in range(len(order)):
        if not tiles.own[t]:
            order[n] = t
            n += 1
    for i in range(risen.size[ITEMS]):
        for t in range(risen.first[i], risen.end[i]):
            order[n] = t
            n += 1


@lean_kernel
def tell(o, listeners, live, tiles):  # type: ignore[no-untyped-def]
    """Move the live lists on by all tiles at once. FULL_LIVE: a buffer has to grow first."""
    why = DONE
    if tiles.n[0] > 0:
        if find_receivers(listeners, live, tiles, 0) == 0:
            why = FULL_LIVE
        else:
            deliver(o, live, tiles, 0, -1, 0.0, 0.0)
    return why
