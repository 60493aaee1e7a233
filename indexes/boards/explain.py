"""What an event would do and why, without doing it: influence regions, tiles, who hears, and the calls it takes.

The change is painted by the kernels that events are painted with, on the same indexes, and taken back before anything
else looks at them; so the tiles are those that the event would send, one for one. Each class of subscriptions is
painted on its own, which gives the same tiles and tells what each class costs. Here are the boards with one range
attribute; those with more and those with indexed fields are in `indexes.boards.space.explain`.

Source: Yu, Agarwal and Yang, "Processing and notifying range top-k subscriptions", II-B and III.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from indexes.boards.catalogue import Accepted
from indexes.boards.changes import DELETE
from indexes.boards.forest import report
from indexes.boards.objects import MAX
from indexes.boards.painter import Painter
from indexes.boards.region import nearest, region_strips, take_prefix
from indexes.boards.space.shapes import width
from indexes.boards.step import given_y, paint_change, undo
from indexes.boards.tiles import Tiles, make_tiles, sign
from indexes.boards.upkeep import Upkeep
from indexes.boards.views import AnyTile, ObjectView, Reach, RegionTile, Slice, TileView, place_of
from indexes.boards.work import MERGE, MIN_Y, REFRESH, SNAP, Work, make_work
from indexes.lean import inner_kernel, lean_kernel

if TYPE_CHECKING:
    from indexes.boards.board import Board

Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]

Kind = Literal["better", "worse", "insertion", "deletion", "move", "payload", "nothing"]

SECONDS_A_SUBSCRIPTION = 5e-9
"""What counting those that hear costs for each subscription of the board, at most."""


class Calls(NamedTuple):
    """What painting one class by the paper's algorithms asks of the indexes: `first_k` for each half of the change,
    `min_y` (a worse y costs one more than it exposes), `snaps` one for each strip of the dense tiling, `merges` boxes
    searched to join two tiles, `refreshes` snaps to renew l* and r*."""

    first_k: int
    min_y: int
    snaps: int
    merges: int
    refreshes: int


class SpaceCalls(NamedTuple):
    """What painting one class asks of the indexes with several range attributes: `fetches` of the objects near the
    changed one, `nodes` of the tree of subscriptions looked at, subscriptions whose better objects were counted in the
    tree of objects (`counts`) or whose next object was searched for there (`searches`), and boxes of subscription space
    searched for others before they were made one tile (`checks`)."""

    fetches: int
    nodes: int
    counts: int
    searches: int
    checks: int


@dataclass(frozen=True, slots=True)
class Boxes:
    """Boxes of subscription space by column: rows of sides, infinite where unbounded, in the order that tiles of their
    shape have them; with indexed fields also `where`, whom each reaches by what they want there."""

    sides: Float64
    where: list[tuple[Reach, ...]] | None = None

    def __len__(self) -> int:
        return len(self.sides)

    def take(self, at: Int64) -> Boxes:
        """Some of them."""
        return Boxes(self.sides[at], None if self.where is None else [self.where[t] for t in at.tolist()])


class Exposed(NamedTuple):
    """An object that takes the place of the changed one somewhere, and the `tiles` that say so. `reached` subscriptions
    are on them."""

    object: ObjectView
    tiles: Boxes
    reached: int


class Nearest(NamedTuple):
    """The x of the nearest objects that rank before one, on its west and on its east, nearest first (those at its own x
    may be on either side): the two lists that bound its influence region, for a class of k their first k."""

    west: list[float]
    east: list[float]


class ClassEffect(NamedTuple):
    """What an event does to the subscriptions of one k, and with several range attributes of one `shape`.

    `before` and `after` are where the object is among the k best. With one range attribute and no indexed fields they
    are its influence region, strips of all ranges from west to east; else boxes, in each of which is some subscription,
    and every subscription of the class whose list has the object is in exactly one of them, and no other is. `tiles`
    are the object's own, `exposed` are in (y, created) order. `tile_count` and `reached` (distinct subscriptions on the
    tiles) are whole also where tiles were left out.
    """

    k: int
    before: Boxes
    after: Boxes
    tiles: list[AnyTile]
    exposed: list[Exposed]
    tile_count: int
    reached: int
    calls: Calls | SpaceCalls
    shape: str = "box"


class Explanation(NamedTuple):
    """What an event would do at `seq`. `before` and `after` are the object as it is and as it would be, None where it
    is absent, with what is `near` it then, up to the largest k, on boards with one range attribute and no indexed
    fields; `affected` subscriptions would see their lists change, in membership, values or payload."""

    seq: int
    kind: Kind
    before: ObjectView | None
    after: ObjectView | None
    near_before: Nearest | None
    near_after: Nearest | None
    classes: list[ClassEffect]
    affected: int
    tile_count: int
    truncated: bool


class ClassFound(NamedTuple):
    """Class q as the kernels left it. There are `counts` subscriptions on each of the `tiles`; `before` and `after` are
    the object's regions."""

    q: int
    before: Tiles
    after: Tiles
    tiles: Tiles
    counts: Int64
    reached: int
    affected: int
    calls: Calls | SpaceCalls


class ExplainPlan(Upkeep):
    """Paints one event that is not going to happen; has its turn among the board's commands.

    `accepted` is what the check made of it, taken back since. Keeps `keep_at_most` tiles at most. Costs what the event
    would, a few times for each class, and O(subscriptions affected). A `failure` is what kept it from answering; it has
    changed nothing then.
    """

    def __init__(self, board: Board, accepted: Accepted, keep_at_most: int) -> None:
        super().__init__(board)
        self.explanation: Explanation | None = None
        self.failure: Exception | None = None
        self._accepted = accepted
        self._room = keep_at_most
        self._kind: Kind = "nothing"
        self._old = self._new = (np.empty(0), 0.0)
        self._created = -1
        self._found: list[ClassFound] = []

    @property
    def work(self) -> float:
        painter = self.board.painter
        painting = 4.0 * painter.seconds_per_event * int((painter.ks > 0).sum())
        return painting + SECONDS_A_SUBSCRIPTION * len(painter.subscriptions)

    def paint(self, budget: float) -> None:
        # A plan that raises stops its board; this one changes nothing, so only who asked need hear of it.
        try:
            self._classify()
            self._paint()
        except Exception as error:
            self.failure = error

    @abstractmethod
    def _paint(self) -> None:
        """Paint class by class and append what was found. The index of objects is left as it was."""

    def _nearest(self) -> tuple[Nearest | None, Nearest | None]:
        """What is near the object before and after."""
        return None, None

    def _classify(self) -> None:
        """What kind of change it is, and the object's values before and after, with the engine's sign. Places are those
        that kernels see."""
        o, changes = self.board.painter.objects.arrays, self._accepted.changes
        x, y = np.atleast_1d(changes.x[0]), float(changes.y[0])
        row = int(changes.row[0])
        slot = int(o.pos[row]) if row < len(o.pos) else -1
        if slot < 0:
            self._kind, self._new, self._created = "insertion", (x, y), int(changes.created[0])
            return
        self._old = old_x, old_y = np.array(o.x[slot], ndmin=1), float(o.y[slot])
        self._created = int(o.c[slot])
        self._new = new_x, new_y = np.where(np.isnan(x), old_x, x), (old_y if np.isnan(y) else y)
        if changes.kind[0] == DELETE:
            self._kind = "deletion"
        elif (new_x != old_x).any():
            self._kind = "move"
        elif new_y != old_y:
            self._kind = "better" if new_y < old_y else "worse"
        elif changes.touched[0]:
            self._kind = "payload"

    def settle(self) -> Slice | None:
        self.done = True
        if self.failure is None:
            self.explanation = self._explanation()
        return None

    def _explanation(self) -> Explanation:
        board, command = self.board, self._accepted.command
        payload = None
        if self._kind != "insertion":
            payload = board.catalogue.payloads.get(int(self._accepted.changes.row[0]))
        before = None if self._kind == "insertion" else self._object(*self._old, payload)
        after = None if self._kind == "deletion" else self._object(*self._new, command.payload.get(0, payload))
        # Both halves of a move speak of the object as the event leaves it behind.
        spoken = (after or before or self._object(*self._new, None)).payload
        classes = [self._effect(found, spoken) for found in self._found]
        tile_count = sum(one.tile_count for one in classes)
        shown = sum(len(one.tiles) + sum(len(other.tiles) for other in one.exposed) for one in classes)
        near_before, near_after = self._nearest()
        return Explanation(
            board.seq,
            self._kind,
            before,
            after,
            None if before is None else near_before,
            None if after is None else near_after,
            classes,
            sum(found.affected for found in self._found),
            tile_count,
            shown < tile_count,
        )

    def _object(self, x: Float64, y: float, payload: bytes | None) -> ObjectView:
        """The object at a place as kernels see it."""
        place = self.board.filters.shown(tuple(x.tolist()) if len(x) > 1 else float(x[0]))
        return ObjectView(self._accepted.command.ids[0], place, y * self.board.catalogue.sign, self._created, payload)

    def _effect(self, found: ClassFound, payload: bytes | None) -> ClassEffect:
        """A class in the user's terms: the object's own tiles first, as far as there is room."""
        tiles, k = found.tiles, int(self.board.painter.ks[found.q])
        mine = tiles.own == 1
        boxes = self._boxes(found.q, tiles)
        own = []
        for t in np.flatnonzero(mine)[: self._room].tolist():
            item = self._object(np.atleast_1d(tiles.x[t]), float(tiles.y[t]), payload)
            own.append(self._tile(found.q, k, boxes, t, item, bool(tiles.gone[t])))
        self._room -= len(own)
        exposed = []
        others = np.flatnonzero(~mine)
        for one in np.split(others, np.flatnonzero(np.diff(tiles.row[others])) + 1):
            here = one[: self._room]
            if len(here):
                t = int(here[0])
                view = self.board.catalogue.show(
                    int(tiles.row[t]), place_of(tiles.x, t), float(tiles.y[t]), int(tiles.c[t])
                )
                exposed.append(Exposed(view, boxes.take(here), int(found.counts[one].sum())))
                self._room -= len(here)
        before, after = (self._boxes(found.q, region) for region in (found.before, found.after))
        count, shape = len(tiles.row), self._shape(found.q)
        return ClassEffect(k, before, after, own, exposed, count, found.reached, found.calls, shape)

    def _shape(self, q: int) -> str:
        """What the regions of class q are."""
        return "box"

    def _boxes(self, q: int, tiles: Tiles) -> Boxes:
        """The sides of tiles of class q as users know them: infinite where the engine has the largest number."""
        filters = self.board.filters
        sides = tiles.side[:, : 2 * width(self._shape(q), filters.ranged)]
        sides = np.where(np.abs(sides) >= MAX, np.copysign(np.inf, sides), sides)
        if not filters.fields:
            return Boxes(sides)
        hidden = tiles.side[:, 4 * filters.ranged : 4 * filters.dimensions]
        return Boxes(sides, list(map(filters.reached, hidden.tolist(), tiles.x[:, filters.ranged :].tolist())))

    def _tile(self, q: int, k: int, boxes: Boxes, t: int, item: ObjectView, gone: bool) -> AnyTile:
        """A tile about the object itself, as the event would send it."""
        sides = [None if np.isinf(side) else side for side in boxes.sides[t].tolist()]
        where = () if boxes.where is None else boxes.where[t]
        if self.board.filters.ranged > 1:
            return RegionTile(k, self._shape(q), tuple(sides), item, gone, where)
        l_outer, l_inner, r_inner, r_outer = sides
        return TileView(k, l_outer, l_inner, r_inner, r_outer, item, gone, where)


class _Scratch:
    """Buffers that one class after the other is painted into."""

    def __init__(self, kmax: int) -> None:
        self.tiles = make_tiles(4096)
        self.before = make_tiles(kmax + 1)
        self.after = make_tiles(kmax + 1)
        self.near = np.empty((2, 2, kmax))


class LineExplainPlan(ExplainPlan):
    """With one range attribute. `dense`, `runs` are the painting, the board's own where None."""

    def __init__(
        self, board: Board, accepted: Accepted, keep_at_most: int, dense: bool | None = None, runs: int | None = None
    ) -> None:
        super().__init__(board, accepted, keep_at_most)
        self._dense = dense
        self._runs = runs
        self._near = np.empty((2, 2, 0))

    @property
    def _painter(self) -> Painter:
        painter = self.board.painter
        assert isinstance(painter, Painter), "boards with one range attribute only"
        return painter

    def _paint(self) -> None:
        painter = self._painter
        painter.objects.reserve(2, int(self._accepted.changes.row[0]) + 1)
        kmax = int(painter.ks.max())
        dense = painter.dense if self._dense is None else self._dense
        runs = painter.runs if self._runs is None else self._runs
        scratch = _Scratch(kmax)
        for q in np.flatnonzero(painter.ks).tolist():
            alone = np.zeros_like(painter.ks)
            alone[q] = painter.ks[q]
            self._foresee(scratch, alone, dense, runs, make_work(kmax, level=painter.work.level))
            if painter.ks[q] == kmax:
                self._near = scratch.near.copy()
            self._found.append(self._measured(scratch, q, alone, dense, runs))

    def _foresee(self, s: _Scratch, ks: Int64, dense: bool, runs: int, work: Work) -> None:
        """Paint the classes of `ks` into the scratch."""
        painter = self._painter
        state = (painter.objects.arrays, painter.subscriptions.arrays, ks, dense, runs, work)
        while not foresee(*state, s.tiles, s.before, s.after, s.near, self._accepted.changes):
            s.tiles = make_tiles(2 * len(s.tiles.row))
            work.stats[:] = 0

    def _measured(self, s: _Scratch, q: int, alone: Int64, dense: bool, runs: int) -> ClassFound:
        """What was painted of class q: who is on it, and the calls that it takes."""
        subscriptions, level = self._painter.subscriptions, self._painter.work.level
        forest, size = subscriptions.arrays, subscriptions.class_count(q)
        tiles, before, after = taken(s.tiles), taken(s.before), taken(s.after)
        sids, counts = np.empty(size, np.int32), np.zeros(len(tiles.row), np.int64)
        reached = int(reach(forest, q, tiles, sids, np.zeros(len(forest.pos), np.uint8), counts))
        affected = 0
        if self._kind != "nothing":
            seen, spare = np.zeros(len(forest.pos), np.uint8), np.zeros(max(len(before.row), len(after.row)), np.int64)
            affected = sum(int(reach(forest, q, region, sids, seen, spare)) for region in (before, after))
        # The paper searches for every strip. Where few subscriptions are concerned painting takes them in hand, which
        # needs no calls and may group the same strips in other tiles.
        book = make_work(len(s.near[0, 0]), 0, level)
        self._foresee(s, alone, dense, runs, book)
        halves = {"move": 2, "nothing": 0}.get(self._kind, 1) if dense or size else 0
        calls = Calls(halves, *(int(book.stats[of]) for of in (MIN_Y, SNAP, MERGE, REFRESH)))
        return ClassFound(q, before, after, tiles, counts, reached, affected, calls)

    def _nearest(self) -> tuple[Nearest, Nearest]:
        return _nearest(*self._near[0]), _nearest(*self._near[1])


def taken(tiles: Tiles) -> Tiles:
    """A copy of the part of a buffer that is in use."""
    n = int(tiles.n[0])
    return Tiles._make([*(column[:n].copy() for column in tiles[:-1]), np.array([n])])


def _nearest(west: Float64, east: Float64) -> Nearest:
    return Nearest(west[np.isfinite(west)].tolist(), east[np.isfinite(east)].tolist())


@lean_kernel
def foresee(o, f, ks, dense, runs, w, tiles, before, after, near, changes):  # type: ignore[no-untyped-def]
    """Write the tiles of the first of `changes` to `tiles`, and to `before` and `after` the strips of the object's
    influence region, for the classes with a k in `ks`; the index is left as it was.

    near[0] and near[1] get the west and the east list before and after, infinite past their ends. Returns 1, or 0 when
    `tiles` is too small; `before` and `after` must have room for k strips of each class.
    """
    row = changes.row[0]
    slot = np.int64(o.pos[row])
    old_x, old_y, old_c = (o.x[slot], o.y[slot], o.c[slot]) if slot >= 0 else (0.0, 0.0, np.int64(-1))
    y = given_y(o, row, changes.y[0])
    tiles.n[0] = before.n[0] = after.n[0] = 0
    if slot >= 0:
        _put_region(o, ks, slot, old_y, w, before, near[0])
    ok = paint_change(o, f, ks, dense, runs, w, tiles, changes, 0, y)
    if ok == 1:
        if changes.kind[0] != DELETE:
            _put_region(o, ks, np.int64(o.pos[row]), y, w, after, near[1])
        undo(o, changes.kind[0], row, slot, old_x, old_y, old_c)
    return ok


@inner_kernel
def _put_region(o, ks, s, y, w, out, near):  # type: ignore[no-untyped-def]
    """Append the strips of the region of slot `s` at `y` for each class, and write its lists. O(k log n)."""
    kmax = np.int64(0)
    for q in range(len(ks)):
        kmax = max(kmax, ks[q])
    a, b = nearest(o, s, y, kmax, w)
    for z in range(kmax):
        near[0, z], near[1, z] = w.all_west[z + 1], w.all_east[z + 1]
    for q in range(len(ks)):
        k = ks[q]
        if k > 0:
            take_prefix(w, k)
            n = region_strips(w, k, min(a, k), min(b, k), 0)
            start = out.n[0]
            for t in range(n):
                for side in range(4):
                    out.side[start + t, side] = w.strip[t, side]
            out.n[0] = start + n
            sign(out, start, q, o.row[s], o.x[s], y, False, o.c[s], True)


@lean_kernel
def reach(f, q, tiles, sids, seen, counts):  # type: ignore[no-untyped-def]
    """Count the subscriptions of class q on each tile in `counts`, mark them in `seen`, and return how many were not
    marked before. `sids` has room for the class. O(sqrt m) for each tile and O(1) for each subscription on it."""
    fresh = 0
    for t in range(tiles.n[0]):
        n = report(f, q, tiles.side[t, 0], tiles.side[t, 1], tiles.side[t, 2], tiles.side[t, 3], sids)
        counts[t] = n
        for i in range(n):
            if seen[sids[i]] == 0:
                seen[sids[i]] = 1
                fresh += 1
    return fresh
