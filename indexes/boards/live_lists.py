"""The lists of live subscriptions, kept up to date from tiles alone, as subscribers do it ([Range top-k] II-A).

Layout: one arena of object rows; list `v` is `rows[start[v]:start[v] + length[v]]`, best first, with room for `k[v]`. A
second arena keeps each list as it was before the current event, so that an event of two halves (a move in x) is
reported as one change. Values are not stored: when a list is changed, the object index holds the state after the event.
"""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from indexes.boards.kernels.object_index import ObjectArrays
from indexes.boards.kernels.tiles import Tiles
from indexes.boards.space.subscription_index import SpaceSubscriptions
from indexes.boards.subscription_index import Forest, SubscriptionIndex, report
from indexes.compiled.jit import expanded, internal
from indexes.core.arrays import Bytes, Floats, Ints, Rows

from numba.extending import overload  # isort: skip


class Lists(NamedTuple):
    """Live lists, by live slot. `before` and `before_length` hold a touched list as it was before the event.

    A list is kept from the best object on; its subscription is notified of the ranks after `offset`.
    """

    start: Ints
    length: Rows
    k: Rows
    offset: Rows
    rows: Rows
    before: Rows
    before_length: Rows
    head: Rows
    touched: Rows


class Deliveries(NamedTuple):
    """Which tile reaches which live slot, for one event; `next` chains the deliveries of one slot. `n` is the count."""

    live: Rows
    tile: Rows
    next: Rows
    n: Ints


class Records(NamedTuple):
    """Changes of live lists: the object at `row` had `old_rank`, `old_x` and `old_y`, and has `new_rank`, `x` and `y`.
    Outside of the list the rank is 0, and so are the values."""

    event: Rows
    live: Rows
    row: Rows
    old_rank: Rows
    new_rank: Rows
    x: Floats
    y: Floats
    old_x: Floats
    old_y: Floats
    n: Ints


class TileRecords(NamedTuple):
    """Which kept tile reaches which live slot that wants tiles."""

    event: Rows
    live: Rows
    tile: Rows
    n: Ints


class Live(NamedTuple):
    """The arrays of delivery inside a kernel. `wants` is 1 for slots that want tiles.

    `strays` is 1 for the rows of objects that a batch has moved in x; empty but for batches.
    """

    lists: Lists
    deliveries: Deliveries
    records: Records
    tile_records: TileRecords
    wants: Bytes
    strays: Bytes


class Former(NamedTuple):
    """The object of an event as it was before it, its x as the only row of a column; row -1 for none."""

    row: int
    x: Floats
    y: float


I = TypeVar("I", SubscriptionIndex, SpaceSubscriptions)


class LiveLists(Generic[I]):
    """The live slots of a board: their lists, the `index` of their regions, and the buffers that kernels fill.

    `place` is the shape of one object's x. `sides` of a region are arguments of the index's `insert_many`.
    """

    def __init__(self, index: I, place: tuple[int, ...] = ()) -> None:
        self.index: I = index
        self._free: list[int] = []
        self._room = 0
        self._arena_used = 0
        self._holes: dict[int, list[int]] = {}
        self.count = 0
        self.tile_readers = 0
        records = _empty(Records)
        self.arrays = Live(
            _empty(Lists),
            _empty(Deliveries),
            records._replace(x=np.zeros((0, *place)), old_x=np.zeros((0, *place))),
            _empty(TileRecords),
            np.zeros(0, np.uint8),
            np.zeros(0, np.uint8),
        )

    def add(self, q: int, k: int, sides: tuple[ArrayLike, ...], rows: Rows, offset: int = 0) -> int:
        """Keep a list of up to k up to date that begins as `rows`, notified behind `offset`; returns its live slot.
        Amortised O(k) and an insertion into the index."""
        live = self._free.pop() if self._free else self.count
        self._reserve(live + 1)
        start = self._place(k)
        lists = self.arrays.lists
        lists.start[live] = start
        lists.k[live] = k
        lists.offset[live] = offset
        lists.head[live] = -1
        self.arrays.wants[live] = 0
        self.set_rows(live, rows)
        self.count += 1
        self.index.insert_many(q, [live], *sides)
        return live

    def remove(self, q: int, live: int) -> None:
        """Stop keeping a list. O(1) and a deletion from the index."""
        self.index.delete_many(q, [live])
        self.want_tiles(live, False)
        lists = self.arrays.lists
        self._holes.setdefault(int(lists.k[live]), []).append(int(lists.start[live]))
        lists.length[live] = 0
        self._free.append(live)
        self.count -= 1

    def move(
        self, live: int, q_old: int, q_new: int, k: int, sides: tuple[ArrayLike, ...], rows: Rows, offset: int = 0
    ) -> None:
        """Give a list another region, class, length or offset under the same slot. O(k) and a change of the index."""
        self.index.delete_many(q_old, [live])
        lists = self.arrays.lists
        if k != lists.k[live]:
            self._holes.setdefault(int(lists.k[live]), []).append(int(lists.start[live]))
            start = self._place(k)
            lists = self.arrays.lists
            lists.start[live] = start
            lists.k[live] = k
        lists.offset[live] = offset
        self.set_rows(live, rows)
        self.index.insert_many(q_new, [live], *sides)

    def rows(self, live: int) -> Rows:
        """A copy of the list's object rows, best first."""
        lists = self.arrays.lists
        start = lists.start[live]
        return lists.rows[start : start + lists.length[live]].copy()

    def set_rows(self, live: int, rows: Rows) -> None:
        """Replace a list."""
        lists = self.arrays.lists
        start = lists.start[live]
        lists.rows[start : start + len(rows)] = rows
        lists.length[live] = len(rows)

    def want_tiles(self, live: int, on: bool) -> None:
        """Whether deliveries to this slot are recorded tile by tile, too."""
        self.tile_readers += int(on) - int(self.arrays.wants[live])
        self.arrays.wants[live] = on

    def grow_buffers(self) -> None:
        """Double the buffers, one of which a kernel has found too small."""
        self.arrays = self.arrays._replace(
            deliveries=_grown_buffer(self.arrays.deliveries),
            records=_grown_buffer(self.arrays.records),
            tile_records=_grown_buffer(self.arrays.tile_records),
        )

    def _place(self, k: int) -> int:
        holes = self._holes.get(k)
        if holes:
            return holes.pop()
        start = self._arena_used
        self._arena_used += k
        lists = self.arrays.lists
        if self._arena_used > lists.rows.size:
            size = max(2 * lists.rows.size, self._arena_used, 1024)
            self.arrays = self.arrays._replace(
                lists=lists._replace(rows=_grown(lists.rows, size), before=_grown(lists.before, size))
            )
        return start

    def _reserve(self, slots: int) -> None:
        if slots <= self._room:
            return
        self._room = max(64, 2 * slots)
        lists = self.arrays.lists
        fields = {
            name: _grown(getattr(lists, name), self._room)
            for name in ("start", "length", "k", "offset", "before_length", "head", "touched")
        }
        self.arrays = self.arrays._replace(lists=lists._replace(**fields), wants=_grown(self.arrays.wants, self._room))
        if self.arrays.records.event.size == 0:
            self.grow_buffers()


B = TypeVar("B", Lists, Deliveries, Records, TileRecords)


def _empty(kind: type[B]) -> B:
    """Columns of length 0; `n`, where there is one, is the count."""
    dtypes = {"start": np.int64, "n": np.int64} | dict.fromkeys(("x", "y", "old_x", "old_y"), np.float64)
    columns: dict[str, Any] = {name: np.zeros(int(name == "n"), dtypes.get(name, np.int32)) for name in kind._fields}
    return kind(**columns)


def _grown_buffer(buffer: B) -> B:
    return buffer._replace(**{name: _grown(getattr(buffer, name)) for name in buffer._fields if name != "n"})


def _grown(a: NDArray[Any], size: int | None = None) -> NDArray[Any]:
    out = np.zeros((size if size is not None else max(4096, 2 * len(a)), *a.shape[1:]), a.dtype)
    out[: len(a)] = a
    return out


@internal
def find_receivers(listeners: Forest, live: Live, tiles: Tiles, first: int) -> int:
    """Collect the deliveries of the tiles from `first` on. Returns 1, or 0 when a buffer is too small for this event.

    O(sqrt m) for each tile and O(1) for each delivery.
    """
    d, side = live.deliveries, tiles.side
    n = 0
    fits = 1
    for t in range(first, tiles.n[0]):
        if fits == 1:
            k_class, room = tiles.cls[t], d.live[n:]
            got = report(listeners, k_class, side[t, 0], side[t, 1], side[t, 2], side[t, 3], room)
            if got < 0:
                fits = 0
            else:
                for p in range(n, n + got):
                    d.tile[p] = t
                n += got
    if live.records.n[0] + 2 * n > live.records.event.size or live.tile_records.n[0] + n > live.tile_records.event.size:
        fits = 0
    d.n[0] = n
    return fits


@internal
def deliver(objects: ObjectArrays, live: Live, tiles: Tiles, event: int, former: Former) -> None:
    """Apply the collected deliveries in tile order and record the net change of every list. O(k) a delivery.

    The object index must hold the state after the event, which changed the object that was `former`. For a batch, which
    changes many, the caller fills in old values.
    """
    d = live.deliveries
    lists = live.lists
    n_touched = 0
    for p in range(d.n[0]):
        v = d.live[p]
        if lists.head[v] < 0:
            s = lists.start[v]
            for j in range(s, s + lists.length[v]):
                lists.before[j] = lists.rows[j]
            lists.before_length[v] = lists.length[v]
            lists.touched[n_touched] = v
            n_touched += 1
            if len(live.strays) > 0:
                _catch_up(objects, lists, v, live.strays)
        d.next[p] = lists.head[v]
        lists.head[v] = p
        t = d.tile[p]
        _apply_tile(objects, lists, v, tiles.row[t], tiles.gone[t])
        if live.wants[v]:
            r = live.tile_records
            m = r.n[0]
            r.event[m] = event
            r.live[m] = v
            r.tile[m] = t
            r.n[0] = m + 1
    for q in range(n_touched):
        v = lists.touched[q]
        _record(objects, live, tiles, v, event, former)
        lists.head[v] = -1


@internal
def _catch_up(objects: ObjectArrays, lists: Lists, v: int, strays: Bytes) -> None:
    """Bring a list to the values after a batch, before its tiles are applied: deleted objects leave it, and so do those
    moved in x, whose new place has tiles of its own; the others are put in order of their new ranks. The best of these
    and of the objects of the tiles are the list after the batch. O(k + number of inversions)."""
    s = lists.start[v]
    n = 0
    for i in range(s, s + lists.length[v]):
        row = lists.rows[i]
        slot = objects.pos[row]
        if slot >= 0 and strays[row] == 0:
            y, c = objects.y[slot], objects.c[slot]
            j = s + n
            while j > s and _worse(objects, lists.rows[j - 1], y, c):
                lists.rows[j] = lists.rows[j - 1]
                j -= 1
            lists.rows[j] = row
            n += 1
    lists.length[v] = n


@internal
def _apply_tile(objects: ObjectArrays, lists: Lists, v: int, row: int, gone: bool) -> None:
    """Apply a tile about the object at `row` to list v. O(k)."""
    rows = lists.rows
    s = lists.start[v]
    n = lists.length[v]
    at = s
    while at < s + n and rows[at] != row:
        at += 1
    if at < s + n:
        for j in range(at, s + n - 1):
            rows[j] = rows[j + 1]
        n -= 1
    if not gone:
        slot = objects.pos[row]
        y = objects.y[slot]
        c = objects.c[slot]
        j = s + n
        while j > s and _worse(objects, rows[j - 1], y, c):
            j -= 1
        if j < s + lists.k[v]:
            if n < lists.k[v]:
                n += 1
            for p in range(s + n - 1, j, -1):
                rows[p] = rows[p - 1]
            rows[j] = row
    lists.length[v] = n


@internal
def _worse(objects: ObjectArrays, row: int, y: float, c: int) -> Any:
    """Whether the object at `row` ranks behind (y, c). A deleted object ranks behind all others."""
    slot = objects.pos[row]
    return slot < 0 or objects.y[slot] > y or (objects.y[slot] == y and objects.c[slot] > c)


@internal
def _touched_row(d: Deliveries, tiles: Tiles, p: int, row: int) -> bool:
    """Whether a delivery in the chain from `p` on is about the object at `row`."""
    while p >= 0 and tiles.row[d.tile[p]] != row:
        p = d.next[p]
    return p >= 0


@internal
def _rank_of(rows: Rows, start: int, n: int, row: int) -> int:
    """The rank of a row in the list rows[start:start + n], or 0."""
    j = 0
    while j < n and rows[start + j] != row:
        j += 1
    return j + 1 if j < n else 0


def _put_place(to: Any, m: int, x: Any, s: int) -> None:
    """Copy the place of an object: a number, or a row of numbers."""
    to[m] = x[s]


def _put_no_place(to: Any, m: int) -> None:
    """Write zeros."""
    to[m] = 0.0


_INLINE: Any = {"nogil": True, "_nrt": False, "forceinline": True}


@overload(_put_place, jit_options=_INLINE, strict=False)
def _compiled_put_place(to: Any, m: int, x: Any, s: int) -> Any:
    def numbers(to: Any, m: int, x: Any, s: int) -> None:
        for j in range(to.shape[1]):
            to[m, j] = x[s, j]

    return _put_place if to.ndim == 1 else numbers


@overload(_put_no_place, jit_options=_INLINE, strict=False)
def _compiled_put_no_place(to: Any, m: int) -> Any:
    def numbers(to: Any, m: int) -> None:
        for j in range(to.shape[1]):
            to[m, j] = 0.0

    return _put_no_place if to.ndim == 1 else numbers


@expanded
def _shown(rank: int, offset: int) -> int:
    """A rank as its subscription is notified of it: 0 within the offset."""
    return rank if rank > offset else 0


@internal
def _put(
    objects: ObjectArrays, records: Records, event: int, v: int, row: int, old_rank: int, new_rank: int, former: Former
) -> None:
    """Append a record."""
    m = records.n[0]
    slot = objects.pos[row]
    records.event[m] = event
    records.live[m] = v
    records.row[m] = row
    records.old_rank[m] = old_rank
    records.new_rank[m] = new_rank
    if new_rank > 0:
        _put_place(records.x, m, objects.x, slot)
        records.y[m] = objects.y[slot]
    else:
        _put_no_place(records.x, m)
        records.y[m] = 0.0
    if old_rank > 0 and row == former.row:
        _put_place(records.old_x, m, former.x, 0)
        records.old_y[m] = former.y
    elif old_rank > 0 and slot >= 0:
        _put_place(records.old_x, m, objects.x, slot)
        records.old_y[m] = objects.y[slot]
    else:
        _put_no_place(records.old_x, m)
        records.old_y[m] = 0.0
    records.n[0] = m + 1


@internal
def _record(objects: ObjectArrays, live: Live, tiles: Tiles, v: int, event: int, former: Former) -> None:
    """Record the net change of the ranks that list v shows: objects with tiles, and others pushed over either end.

    With epsilon a tile may reach a list that has its exposed object already, which is no change. O(k + deliveries^2).
    """
    d = live.deliveries
    lists = live.lists
    records = live.records
    s = lists.start[v]
    end = s + lists.length[v]
    offset = lists.offset[v]
    head = lists.head[v]
    # Objects without tiles keep their order, so those that are left are found by a merge of both lists.
    at = s
    for j in range(lists.before_length[v]):
        row = lists.before[s + j]
        if not _touched_row(d, tiles, head, row):
            while at < end and _touched_row(d, tiles, head, lists.rows[at]):
                at += 1
            old_rank = _shown(j + 1, offset)
            new_rank = 0
            if at < end and lists.rows[at] == row:
                new_rank = _shown(at - s + 1, offset)
                at += 1
            if (old_rank > 0) != (new_rank > 0):
                _put(objects, records, event, v, row, old_rank, new_rank, former)
    p = head
    while p >= 0:
        row = tiles.row[d.tile[p]]
        if not _touched_row(d, tiles, d.next[p], row):
            old_rank = _shown(_rank_of(lists.before, s, lists.before_length[v], row), offset)
            new_rank = _shown(_rank_of(lists.rows, s, lists.length[v], row), offset)
            changes_list = tiles.own[d.tile[p]] and (old_rank > 0 or new_rank > 0)
            if changes_list or (old_rank > 0) != (new_rank > 0):
                _put(objects, records, event, v, row, old_rank, new_rank, former)
        p = d.next[p]
