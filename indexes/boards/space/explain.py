"""What an event would do on a board with several range attributes or with indexed fields; see `indexes.boards.explain`.

There an object's influence region has no short form: it may have k^(2d-1) corners. So where the object is among the k
best is told by the subscriptions that there are: as tiles that tell of it in its present state would be.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from indexes.boards.explain import ClassFound, ExplainPlan, SpaceCalls, taken
from indexes.boards.space.objects import set_y
from indexes.boards.space.paint import paint
from indexes.boards.space.painter import SpacePainter
from indexes.boards.space.step import paint_change, put_place
from indexes.boards.space.subscriptions import report
from indexes.boards.space.tiles import closed_box, make_space_tiles
from indexes.boards.space.work import CHECKS, COUNTS, FETCHES, NODES, SEARCHES, SpaceWork, make_space_work
from indexes.boards.tiles import Tiles
from indexes.lean import lean_kernel

INF = np.inf

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]
_State: TypeAlias = tuple[Any, Any, Int64]


ROOM = 4096
"""Tiles of a class that there is room for at first."""


class SpaceExplainPlan(ExplainPlan):
    """With several range attributes as kernels see them. There is one way to paint.

    A class is a list length and a shape; of shapes that are no ranges only those are looked at that someone has.
    """

    _tiles: Tiles
    _work: SpaceWork

    @property
    def _painter(self) -> SpacePainter:
        painter = self.board.painter
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
        self._work = make_space_work(painter.d, int(painter.ks.max()), tiles)

    def _paint_class(self, q: int) -> ClassFound:
        """Paint class q alone, and see who is on its tiles."""
        painter = self._painter
        ks = np.zeros_like(painter.ks)
        ks[q] = painter.ks[q]
        state = painter.objects.arrays, painter.subscriptions.arrays, ks
        while not self._foreseen(state):
            self._make_room(2 * len(self._tiles.row))
        tiles, calls = taken(self._tiles), self._calls()
        before = self._region(state, *self._old, there=self._kind != "insertion")
        after = self._region(state, *self._new, there=self._kind != "deletion")

        forest = painter.subscriptions.arrays
        sids, counts = np.empty(painter.subscriptions.class_count(q), np.int32), np.zeros(len(tiles.row), np.int64)
        low, high = np.empty(tiles.side.shape[1] // 2), np.empty(tiles.side.shape[1] // 2)
        reached = int(reach(forest, q, tiles, low, high, sids, np.zeros(len(forest.q), np.uint8), counts))
        affected = 0
        if self._kind != "nothing":
            seen, spare = np.zeros(len(forest.q), np.uint8), np.zeros(max(len(before.row), len(after.row)), np.int64)
            affected = sum(int(reach(forest, q, one, low, high, sids, seen, spare)) for one in (before, after))
        return ClassFound(q, before, after, tiles, counts, reached, affected, calls)

    def _foreseen(self, state: _State) -> bool:
        """Paint the change into the buffer, from where the painter stands: what it fetches depends on what it fetched
        last."""
        mine, theirs = self._work, self._painter.work
        mine.stats[:] = 0
        for near, last in ((mine.ahead, theirs.ahead), (mine.behind, theirs.behind)):
            near.reach[:] = last.reach
        return bool(foresee(*state, mine, self._tiles, self._accepted.changes))

    def _calls(self) -> SpaceCalls:
        return SpaceCalls(*(int(self._work.stats[of]) for of in (FETCHES, NODES, COUNTS, SEARCHES, CHECKS)))

    def _region(self, state: _State, x: Float64, y: float, there: bool) -> Tiles:
        """Where an object at x with this y is among the best; nothing where it is not `there`."""
        self._tiles.n[0] = 0
        place, row = np.array(x, np.float64, ndmin=2), int(self._accepted.changes.row[0])
        while there and not region(*state, self._work, place, row, y, self._created, self._tiles):
            self._make_room(2 * len(self._tiles.row))
        return taken(self._tiles)


@lean_kernel
def foresee(o, f, ks, w, tiles, changes):  # type: ignore[no-untyped-def]
    """Write the tiles of the first of `changes` to `tiles` and apply nothing. Returns 1, or 0 when there is no room."""
    slot = np.int64(o.pos[changes.row[0]])
    moves = put_place(o, slot, changes, 0, o.place)
    y = o.y[slot] if slot >= 0 and np.isnan(changes.y[0]) else changes.y[0]
    tiles.n[0] = 0
    return paint_change(o, f, ks, w, tiles, changes, 0, slot, y, moves)


@lean_kernel
def region(o, f, ks, w, x, row, y, c, tiles):  # type: ignore[no-untyped-def]
    """Write where the object of `row` is among the k best if it lies at x[0] with this y, as tiles about it. Returns 1,
    or 0 when there is no room. The index of objects is left as it was."""
    slot = int(o.pos[row])
    old_y = o.y[slot] if slot >= 0 else INF
    if slot >= 0:
        set_y(o, slot, INF)
    tiles.n[0] = 0
    ok = paint(o, f, ks, x, 0, row, y, y, c, w, tiles)
    if slot >= 0:
        set_y(o, slot, old_y)
    return ok


@lean_kernel
def reach(f, q, tiles, low, high, sids, seen, counts):  # type: ignore[no-untyped-def]
    """Count the subscriptions of class q on each tile in `counts`, mark them in `seen`, and return how many were not
    marked before. `sids` has room for the class; `low` and `high` are scratch. O(1) for each subscription on a tile and
    a search for each tile."""
    fresh = 0
    for t in range(tiles.n[0]):
        closed_box(f.shape[q], tiles.x.shape[1], tiles.side, t, low, high, 0)
        n = report(f, q, low, high, 0, sids, 0)
        counts[t] = n
        for i in range(n):
            if seen[sids[i]] == 0:
                seen[sids[i]] = 1
                fresh += 1
    return fresh
