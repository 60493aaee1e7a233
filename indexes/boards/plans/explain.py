"""What an event would do, without doing it: influence regions, tiles, recipients, and the index calls it takes.

The change is painted by the kernels that paint events, on the same indexes, and rolled back before anything else reads
them; so the tiles are those that the event would send, one for one. Each class of subscriptions is painted by itself,
which gives the same tiles and shows what each class costs. `LineExplainPlan` is for boards with one range attribute;
those with more and those with indexed fields are in `indexes.boards.space.explain`.

Source: [Range top-k] II-B and III.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from indexes.boards.kernels.changes import DELETE, Changes
from indexes.boards.kernels.forest import Forest, report
from indexes.boards.kernels.object_index import MAX, ObjectArrays
from indexes.boards.kernels.region import nearest, region_strips, take_prefix
from indexes.boards.kernels.scratch import MERGE, MIN_Y, REFRESH, SNAP, PaintContext, Scratch, make_scratch
from indexes.boards.kernels.step import given_y, paint_change, undo
from indexes.boards.kernels.tiles import Tiles, make_tiles, sign
from indexes.boards.objects import Accepted
from indexes.boards.painter import Painter
from indexes.boards.results import AnyTile, ObjectView, Reach, RegionTile, Slice, TileView, place_of
from indexes.boards.space.kernels.shapes import width
from indexes.boards.store import BoardStore
from indexes.compiled.jit import internal, kernel
from indexes.core.arrays import Bytes, Floats, Ints, Rows, int64
from indexes.core.plan import Plan

Kind = Literal["better", "worse", "insertion", "deletion", "move", "payload", "nothing"]

SECONDS_A_SUBSCRIPTION = 5e-9
"""What counting the recipients takes for each subscription of the board, at most."""


class Calls(NamedTuple):
    """The index calls of painting one class as in [Range top-k] III: `first_k` for each half of the change, `min_y`
    (for a worse y one more than the objects it exposes), `snaps` one for each strip of the dense tiling, `merges` boxes
    searched to join two tiles, `refreshes` snaps to compute l* and r* again."""

    first_k: int
    min_y: int
    snaps: int
    merges: int
    refreshes: int


class SpaceCalls(NamedTuple):
    """The index calls of painting one class with several range attributes: `fetches` of the objects near the changed
    one, visited `nodes` of the tree of subscriptions, subscriptions whose better objects were counted in the tree of
    objects (`counts`) or whose next object was searched for there (`searches`), and boxes of subscription space that
    were searched for others before they were merged into one tile (`checks`)."""

    fetches: int
    nodes: int
    counts: int
    searches: int
    checks: int


@dataclass(frozen=True, slots=True)
class Boxes:
    """Boxes of subscription space by column: rows of sides, infinite where unbounded, in the order that tiles of their
    shape have them; with indexed fields also `where`, the filters of the subscriptions that each reaches."""

    sides: Floats
    where: list[tuple[Reach, ...]] | None = None

    def __len__(self) -> int:
        return len(self.sides)

    def take(self, at: Ints) -> Boxes:
        """Some of them."""
        return Boxes(self.sides[at], None if self.where is None else [self.where[t] for t in at.tolist()])


class Exposed(NamedTuple):
    """An object that enters lists in place of the changed one, with its `tiles`, which reach so many subscriptions."""

    object: ObjectView
    tiles: Boxes
    reached: int


class Nearest(NamedTuple):
    """The x of the nearest objects that rank before one, to its west and to its east, nearest first (those at its own x
    on either side). For a class of k the first k of both lists bound its influence region."""

    west: list[float]
    east: list[float]


class ClassEffect(NamedTuple):
    """What an event does to the subscriptions of one k, and with several range attributes of one `shape`.

    `before` and `after` cover the subscriptions whose lists have the object. With one range attribute and no indexed
    fields they are its influence region, strips of all ranges from west to east; else they are boxes, none of them
    empty, such that each of these subscriptions is in exactly one of them, and no other is in any. `tiles` are the
    object's own, `exposed` are in (y, created) order. `tile_count` and `reached` (distinct subscriptions on the tiles)
    include tiles that were left out.
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
    is absent; on boards with one range attribute and no indexed fields with the objects near it, up to the largest k.
    The lists of `affected` subscriptions would change, in membership, values or payload."""

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
    """The result of the kernels for class q. Each of the `tiles` reaches `counts` subscriptions; `before` and `after`
    are the object's regions."""

    q: int
    before: Tiles
    after: Tiles
    tiles: Tiles
    counts: Ints
    reached: int
    affected: int
    calls: Calls | SpaceCalls


class ExplainPlan(Plan[BoardStore]):
    """Paints one event without applying it, in its turn among the commands of the board; `explanation` when it is done.

    `accepted` is the result of the check, rolled back since. Keeps `keep_at_most` tiles at most. Costs a few times what
    the event would, for each class, and O(subscriptions affected). If it raises, `failure` is the error, and nothing
    has changed.
    """

    def __init__(self, engine: BoardStore, accepted: Accepted, keep_at_most: int) -> None:
        super().__init__(engine, None, 0)
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
        painter = self.engine.painter
        painting = 4.0 * painter.seconds_per_event * int((painter.ks > 0).sum())
        return painting + SECONDS_A_SUBSCRIPTION * len(painter.subscriptions)

    def execute(self, budget: float) -> None:
        # A plan that raises stops its board. This one changes nothing, so the error concerns its request alone.
        try:
            self._classify()
            self._paint()
        except Exception as error:
            self.failure = error

    @abstractmethod
    def _paint(self) -> None:
        """Paint class by class and append the results. The index of objects is left as it was."""

    @abstractmethod
    def _reach(self, q: int, tiles: Tiles, sids: Rows, seen: Bytes, counts: Ints) -> int:
        """Call `reach` for class q."""

    def _recipients(self, q: int, before: Tiles, after: Tiles, tiles: Tiles, calls: Calls | SpaceCalls) -> ClassFound:
        """The result for class q, with the recipients of the tiles, and of the object before or after."""
        subscriptions, high = self.engine.painter.subscriptions, self.engine.subscribers.high
        sids, counts = np.empty(subscriptions.class_count(q), np.int32), np.zeros(len(tiles.row), np.int64)
        reached = self._reach(q, tiles, sids, np.zeros(high, np.uint8), counts)
        affected = 0
        if self._kind != "nothing":
            seen, spare = np.zeros(high, np.uint8), np.zeros(max(len(before.row), len(after.row)), np.int64)
            affected = sum(self._reach(q, region, sids, seen, spare) for region in (before, after))
        return ClassFound(q, before, after, tiles, counts, reached, affected, calls)

    def _nearest(self) -> tuple[Nearest | None, Nearest | None]:
        """The objects near the changed one before and after."""
        return None, None

    def _classify(self) -> None:
        """Determine the kind of change, and the object's values before and after as kernels see them."""
        o, changes = self.engine.painter.objects.arrays, self._accepted.changes
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

    def publish(self) -> Slice | None:
        self.done = True
        if self.failure is None:
            self.explanation = self._explanation()
        return None

    def _explanation(self) -> Explanation:
        engine, command = self.engine, self._accepted.command
        payload = None
        if self._kind != "insertion":
            payload = engine.catalogue.payloads.get(int(self._accepted.changes.row[0]))
        before = None if self._kind == "insertion" else self._object(*self._old, payload)
        after = None if self._kind == "deletion" else self._object(*self._new, command.payload.get(0, payload))
        # The tiles of both halves of a move have the payload after the event.
        shown_payload = (after or before or self._object(*self._new, None)).payload
        classes = [self._effect(found, shown_payload) for found in self._found]
        tile_count = sum(one.tile_count for one in classes)
        shown = sum(len(one.tiles) + sum(len(other.tiles) for other in one.exposed) for one in classes)
        near_before, near_after = self._nearest()
        return Explanation(
            engine.seq,
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

    def _object(self, x: Floats, y: float, payload: bytes | None) -> ObjectView:
        """The object at a place as kernels see it."""
        place = self.engine.filters.shown(tuple(x.tolist()) if len(x) > 1 else float(x[0]))
        return ObjectView(self._accepted.command.ids[0], place, y * self.engine.catalogue.sign, self._created, payload)

    def _effect(self, found: ClassFound, payload: bytes | None) -> ClassEffect:
        """The result for a class in the user's terms: the object's own tiles first, as far as there is room."""
        tiles, k = found.tiles, int(self.engine.painter.ks[found.q])
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
                view = self.engine.catalogue.show(
                    int(tiles.row[t]), place_of(tiles.x, t), float(tiles.y[t]), int(tiles.c[t])
                )
                exposed.append(Exposed(view, boxes.take(here), int(found.counts[one].sum())))
                self._room -= len(here)
        before, after = (self._boxes(found.q, region) for region in (found.before, found.after))
        count, shape = len(tiles.row), self._shape(found.q)
        return ClassEffect(k, before, after, own, exposed, count, found.reached, found.calls, shape)

    def _shape(self, q: int) -> str:
        """The shape of the regions of class q."""
        return "box"

    def _boxes(self, q: int, tiles: Tiles) -> Boxes:
        """The sides of tiles of class q in the user's terms: infinite where kernels have the largest number."""
        filters = self.engine.filters
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
        if self.engine.filters.ranged > 1:
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
    """For boards with one range attribute. `dense` and `runs` are the way to paint, None for the board's own."""

    def __init__(
        self,
        engine: BoardStore,
        accepted: Accepted,
        keep_at_most: int,
        dense: bool | None = None,
        runs: int | None = None,
    ) -> None:
        super().__init__(engine, accepted, keep_at_most)
        self._dense = dense
        self._runs = runs
        self._near = np.empty((2, 2, 0))

    @property
    def _painter(self) -> Painter:
        painter = self.engine.painter
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
            self._foresee(scratch, alone, dense, runs, make_scratch(kmax, level=painter.work.level))
            if painter.ks[q] == kmax:
                self._near = scratch.near.copy()
            self._found.append(self._measured(scratch, q, alone, dense, runs))

    def _foresee(self, s: _Scratch, ks: Ints, dense: bool, runs: int, work: Scratch) -> None:
        """Paint the classes of `ks` into the scratch."""
        painter = self._painter
        objects, changes = painter.objects.arrays, self._accepted.changes
        context = PaintContext(painter.subscriptions.arrays, ks, dense, runs, work, s.tiles)
        while not foresee(objects, context, s.before, s.after, s.near, changes):
            s.tiles = make_tiles(2 * len(s.tiles.row))
            context = context._replace(tiles=s.tiles)
            work.stats[:] = 0

    def _measured(self, s: _Scratch, q: int, alone: Ints, dense: bool, runs: int) -> ClassFound:
        """The result for class q: the recipients of its tiles, and the calls that they take."""
        tiles, before, after = taken(s.tiles), taken(s.before), taken(s.after)
        # [Range top-k] searches for every strip. Where few subscriptions are concerned the kernels go through these
        # instead, without calls, and may group the same strips in other tiles.
        book = make_scratch(len(s.near[0, 0]), 0, self._painter.work.level)
        self._foresee(s, alone, dense, runs, book)
        halves = (
            {"move": 2, "nothing": 0}.get(self._kind, 1) if dense or self._painter.subscriptions.class_count(q) else 0
        )
        calls = Calls(halves, *(int(book.stats[of]) for of in (MIN_Y, SNAP, MERGE, REFRESH)))
        return self._recipients(q, before, after, tiles, calls)

    def _reach(self, q: int, tiles: Tiles, sids: Rows, seen: Bytes, counts: Ints) -> int:
        return int(reach(self._painter.subscriptions.arrays, q, tiles, sids, seen, counts))

    def _nearest(self) -> tuple[Nearest, Nearest]:
        return _nearest(*self._near[0]), _nearest(*self._near[1])


def taken(tiles: Tiles) -> Tiles:
    """A copy of the part of a buffer that is in use."""
    n = int(tiles.n[0])
    return Tiles._make([*(column[:n].copy() for column in tiles[:-1]), np.array([n])])


def _nearest(west: Floats, east: Floats) -> Nearest:
    return Nearest(west[np.isfinite(west)].tolist(), east[np.isfinite(east)].tolist())


@kernel
def foresee(
    objects: ObjectArrays, context: PaintContext, before: Tiles, after: Tiles, near: Floats, changes: Changes
) -> int:
    """Write the tiles of the first of `changes` to `context`, and to `before` and `after` the strips of the object's
    influence region, for the classes with a k; the index is left as it was.

    near[0] and near[1] get the west and the east list before and after, infinite past their ends. Returns 1, or 0 when
    `tiles` is too small; `before` and `after` must have room for k strips of each class.
    """
    ks, scratch, tiles = context.ks, context.scratch, context.tiles
    row = changes.row[0]
    slot = int64(objects.pos[row])
    old_x, old_y, old_c = (objects.x[slot], objects.y[slot], objects.c[slot]) if slot >= 0 else (0.0, 0.0, int64(-1))
    y = given_y(objects, row, changes.y[0])
    tiles.n[0] = before.n[0] = after.n[0] = 0
    if slot >= 0:
        _put_region(objects, ks, slot, old_y, scratch, before, near[0])
    ok = paint_change(objects, context, changes, 0, y)
    if ok == 1:
        if changes.kind[0] != DELETE:
            _put_region(objects, ks, int64(objects.pos[row]), y, scratch, after, near[1])
        undo(objects, changes.kind[0], row, slot, old_x, old_y, old_c)
    return ok


@internal
def _put_region(
    objects: ObjectArrays, ks: Ints, slot: int, y: float, scratch: Scratch, out: Tiles, near: Floats
) -> None:
    """Append the strips of the region of a slot at `y` for each class, and write its lists. O(k log n)."""
    kmax = int64(0)
    for q in range(len(ks)):
        kmax = max(kmax, ks[q])
    a, b = nearest(objects, slot, y, kmax, scratch)
    for z in range(kmax):
        near[0, z], near[1, z] = scratch.all_west[z + 1], scratch.all_east[z + 1]
    for q in range(len(ks)):
        k = ks[q]
        if k > 0:
            take_prefix(scratch, k)
            n = region_strips(scratch, k, min(a, k), min(b, k), 0)
            start = out.n[0]
            for t in range(n):
                for side in range(4):
                    out.side[start + t, side] = scratch.strip[t, side]
            out.n[0] = start + n
            sign(out, start, q, objects.row[slot], objects.x[slot], y, False, objects.c[slot], True)


@kernel
def reach(forest: Forest, q: int, tiles: Tiles, sids: Rows, seen: Bytes, counts: Ints) -> int:
    """Count the subscriptions of class q on each tile in `counts`, mark them in `seen`, and return how many were not
    marked before. `sids` has room for the class. O(sqrt m) for each tile and O(1) for each subscription on it."""
    fresh = 0
    for t in range(tiles.n[0]):
        n = report(forest, q, tiles.side[t, 0], tiles.side[t, 1], tiles.side[t, 2], tiles.side[t, 3], sids)
        counts[t] = n
        for i in range(n):
            if seen[sids[i]] == 0:
                seen[sids[i]] = 1
                fresh += 1
    return fresh
