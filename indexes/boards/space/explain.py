"""What an event would do on a board with several range attributes or with indexed fields.

See `indexes.boards.plans.explain` for one range attribute.

There an object's influence region has no short form: it may have k^(2d-1) corners. So it is given for the present
subscriptions alone: as the tiles that would tell them of the object in its present state.
"""

from __future__ import annotations

import numpy as np

from indexes.boards.kernels.changes import Changes
from indexes.boards.kernels.tiles import Tiles
from indexes.boards.plans.explain import ClassFound, ExplainPlan, SpaceCalls, taken
from indexes.boards.space.kernels.arrays import SpaceArrays, SpaceContext
from indexes.boards.space.kernels.objects import set_y
from indexes.boards.space.kernels.paint import paint
from indexes.boards.space.kernels.scratch import (
    CHECKS,
    COUNTS,
    FETCHES,
    NODES,
    SEARCHES,
    SpaceScratch,
    make_space_scratch,
)
from indexes.boards.space.kernels.step import paint_change, put_place
from indexes.boards.space.kernels.tiles import closed_box, make_space_tiles
from indexes.boards.space.painter import SpacePainter
from indexes.boards.space.subscription_index import Regions, report
from indexes.compiled.jit import kernel
from indexes.core.arrays import INF, Bytes, Floats, Ints, Rows, int64

ROOM = 4096
"""Initial room for the tiles of a class."""


class SpaceExplainPlan(ExplainPlan):
    """For boards with several range attributes as kernels see them. There is one way to paint.

    A class is a list length and a shape. Classes of shapes other than ranges are left out where they are empty.
    """

    _tiles: Tiles
    _work: SpaceScratch

    @property
    def _painter(self) -> SpacePainter:
        painter = self.engine.painter
        assert isinstance(painter, SpacePainter), "boards with several range attributes only"
        return painter

    def _shape(self, q: int) -> str:
        return self._painter.subscriptions.shapes[q]

    def _paint(self) -> None:
        painter = self._painter
        painter.objects.reserve(0, int(self._accepted.changes.row[0]) + 1)
        self._make_room(ROOM)
        for q in np.flatnonzero(painter.ks).tolist():
            if self._shape(q) == "box" or painter.subscriptions.class_count(q):
                self._found.append(self._paint_class(q))

    def _make_room(self, tiles: int) -> None:
        painter = self._painter
        self._tiles = make_space_tiles(painter.d, tiles)
        self._work = make_space_scratch(painter.d, int(painter.ks.max()), tiles)

    def _paint_class(self, q: int) -> ClassFound:
        """Paint class q alone, and find the recipients of its tiles."""
        painter = self._painter
        ks = np.zeros_like(painter.ks)
        ks[q] = painter.ks[q]
        while not self._foreseen(ks):
            self._make_room(2 * len(self._tiles.row))
        tiles, calls = taken(self._tiles), self._calls()
        before = self._region(ks, *self._old, there=self._kind != "insertion")
        after = self._region(ks, *self._new, there=self._kind != "deletion")
        return self._recipients(q, before, after, tiles, calls)

    def _reach(self, q: int, tiles: Tiles, sids: Rows, seen: Bytes, counts: Ints) -> int:
        low, high = np.empty(tiles.side.shape[1] // 2), np.empty(tiles.side.shape[1] // 2)
        return int(reach(self._painter.subscriptions.arrays, q, tiles, low, high, sids, seen, counts))

    def _foreseen(self, ks: Ints) -> bool:
        """Paint the change into the buffer, with the reach of the painter: what it fetches depends on what it fetched
        last."""
        mine, theirs = self._work, self._painter.work
        mine.stats[:] = 0
        for near, last in ((mine.ahead, theirs.ahead), (mine.behind, theirs.behind)):
            near.reach[:] = last.reach
        return bool(foresee(self._painter.objects.arrays, self._context(ks), self._accepted.changes))

    def _context(self, ks: Ints) -> SpaceContext:
        return SpaceContext(self._painter.subscriptions.arrays, ks, self._work, self._tiles)

    def _calls(self) -> SpaceCalls:
        return SpaceCalls(*(int(self._work.stats[of]) for of in (FETCHES, NODES, COUNTS, SEARCHES, CHECKS)))

    def _region(self, ks: Ints, x: Floats, y: float, there: bool) -> Tiles:
        """Where an object at x with this y is among the k best; no tiles if it is not `there`."""
        self._tiles.n[0] = 0
        place, row = np.array(x, np.float64, ndmin=2), int(self._accepted.changes.row[0])
        objects = self._painter.objects.arrays
        while there and not region(objects, self._context(ks), place, row, y, self._created):
            self._make_room(2 * len(self._tiles.row))
        return taken(self._tiles)


@kernel
def foresee(objects: SpaceArrays, context: SpaceContext, changes: Changes) -> int:
    """Write the tiles of the first of `changes` to `context`, without applying it. Returns 1, or 0 when there is no
    room."""
    slot = int64(objects.pos[changes.row[0]])
    moves = put_place(objects, slot, changes, 0, objects.place)
    y = objects.y[slot] if slot >= 0 and np.isnan(changes.y[0]) else changes.y[0]
    context.tiles.n[0] = 0
    return paint_change(objects, context, changes, 0, slot, y, moves)


@kernel
def region(objects: SpaceArrays, context: SpaceContext, x: Floats, row: int, y: float, c: int) -> int:
    """Write where the object of `row` is among the k best if it lies at x[0] with this y, as tiles about it. Returns 1,
    or 0 when there is no room. The index of objects is left as it was."""
    slot = int(objects.pos[row])
    old_y = objects.y[slot] if slot >= 0 else INF
    if slot >= 0:
        set_y(objects, slot, INF)
    context.tiles.n[0] = 0
    ok = paint(objects, context, x, 0, row, y, y, c)
    if slot >= 0:
        set_y(objects, slot, old_y)
    return ok


@kernel
def reach(
    regions: Regions, q: int, tiles: Tiles, low: Floats, high: Floats, sids: Rows, seen: Bytes, counts: Ints
) -> int:
    """Count the subscriptions of class q on each tile in `counts`, mark them in `seen`, and return how many were not
    marked before. `sids` has room for the class; `low` and `high` are scratch. O(1) for each subscription on a tile and
    a search for each tile."""
    fresh = 0
    for t in range(tiles.n[0]):
        closed_box(regions.shape[q], tiles.x.shape[1], tiles.side, t, low, high)
        n = report(regions, q, low, high, sids, 0)
        counts[t] = n
        for i in range(n):
            if seen[sids[i]] == 0:
                seen[sids[i]] = 1
                fresh += 1
    return fresh
