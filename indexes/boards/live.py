"""The lists of live subscriptions, kept up to date from tiles alone by the subscriber protocol (paper, II-A).

Layout: one arena of object rows; list `v` is `rows[start[v]:start[v] + length[v]]`, best first, with room for `k[v]`. A
twin arena keeps each list as it was before the event at hand, so that an event of two halves (a move in x) is reported
net. Values are not stored: when a list is touched, the object index already holds the state after the event.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from indexes.boards.subscriptions import Forest, SubscriptionIndex, report
from indexes.boards.tiles import Tiles
from indexes.jit import inline_kernel
from indexes.lean import inner_kernel

from numba.extending import overload  # isort: skip

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]


class Lists(NamedTuple):
    """Live lists, by live slot. `before` and `before_length` hold a touched list as it was before the event.

    A list is kept from the best object on; who listens is told of the ranks after `offset`.
    """

    start: Int64
    length: Int32
    k: Int32
    offset: Int32
    rows: Int32
    before: Int32
    before_length: Int32
    head: Int32
    touched: Int32


class Deliveries(NamedTuple):
    """Which tile reaches which live slot, for one event; `next` chains the deliveries of one slot. `n` is the count."""

    live: Int32
    tile: Int32
    next: Int32
    n: Int64


class Records(NamedTuple):
    """What changed in live lists: the object at `row` stood at `old_rank` with `old_x` and `old_y`, and stands at
    `new_rank` with `x` and `y`. Outside of the list, on either side, the rank is 0 and so are the values."""

    event: Int32
    live: Int32
    row: Int32
    old_rank: Int32
    new_rank: Int32
    x: Float64
    y: Float64
    old_x: Float64
    old_y: Float64
    n: Int64


class TileRecords(NamedTuple):
    """Which kept tile reaches which live slot that listens to tiles."""

    event: Int32
    live: Int32
    tile: Int32
    n: Int64


class Live(NamedTuple):
    """All that delivery inside a kernel needs. `wants` is 1 for slots that listen to tiles.

    `strays` is 1 for the rows of objects that a batch has moved in x; empty where nothing is told as one.
    """

    lists: Lists
    deliveries: Deliveries
    records: Records
    tile_records: TileRecords
    wants: npt.NDArray[np.uint8]
    strays: npt.NDArray[np.uint8]


class LiveSlots:
    """Owns the live slots: their lists, and the buffers that a kernel fills. `place` is the shape of one object's x."""

    def __init__(self, place: tuple[int, ...] = ()) -> None:
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

    def rows(self, live: int) -> Int32:
        """A copy of the list's object rows, best first."""
        lists = self.arrays.lists
        start = lists.start[live]
        return lists.rows[start : start + lists.length[live]].copy()

    def set_rows(self, live: int, rows: Int32) -> None:
        """Replace a list."""
        lists = self.arrays.lists
        start = lists.start[live]
        lists.rows[start : start + len(rows)] = rows
        lists.length[live] = len(rows)

    def want_tiles(self, live: int, on: bool) -> None:
        """Whether deliveries to this slot are reported tile by tile too."""
        self.tile_readers += int(on) - int(self.arrays.wants[live])
        self.arrays.wants[live] = on

    def grow_buffers(self) -> None:
        """Double what a kernel found too small."""
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

    def _open(self, k: int, rows: Int32, offset: int) -> int:
        """A slot for a list of up to k, beginning with `rows` and told behind `offset`."""
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
        return live

    def _close(self, live: int) -> None:
        self.want_tiles(live, False)
        lists = self.arrays.lists
        self._holes.setdefault(int(lists.k[live]), []).append(int(lists.start[live]))
        lists.length[live] = 0
        self._free.append(live)
        self.count -= 1

    def _carry(self, live: int, k: int, rows: Int32, offset: int) -> None:
        """Give the list another length, contents and offset."""
        lists = self.arrays.lists
        if k != lists.k[live]:
            self._holes.setdefault(int(lists.k[live]), []).append(int(lists.start[live]))
            start = self._place(k)
            lists = self.arrays.lists
            lists.start[live] = start
            lists.k[live] = k
        lists.offset[live] = offset
        self.set_rows(live, rows)


class LiveLists(LiveSlots):
    """The live slots of a board with one range attribute, and the index of their ranges."""

    def __init__(self, ks: tuple[int, ...]) -> None:
        super().__init__()
        self.index = SubscriptionIndex(ks)

    def add(self, q: int, k: int, l: float, r: float, rows: Int32, offset: int = 0) -> int:
        """Keep a list from now on, beginning with `rows`; returns its live slot. Amortised O(k + log m)."""
        live = self._open(k, rows, offset)
        self.index.insert_many(q, np.array([live], np.int32), np.array([l]), np.array([r]))
        return live

    def remove(self, q: int, live: int) -> None:
        """Forget a list. O(log m)."""
        self.index.delete_many(q, np.array([live], np.int32))
        self._close(live)

    def move(self, live: int, q_old: int, q_new: int, k: int, l: float, r: float, rows: Int32, offset: int = 0) -> None:
        """Carry a list over to another range, class, length or offset under the same slot. O(k + log m)."""
        self.index.delete_many(q_old, np.array([live], np.int32))
        self._carry(live, k, rows, offset)
        self.index.insert_many(q_new, np.array([live], np.int32), np.array([l]), np.array([r]))


B = TypeVar("B", Lists, Deliveries, Records, TileRecords)


def _empty(kind: type[B]) -> B:
    """Columns without room; `n`, where there is one, is the count."""
    dtypes = {"start": np.int64, "n": np.int64} | dict.fromkeys(("x", "y", "old_x", "old_y"), np.float64)
    columns: dict[str, Any] = {name: np.zeros(int(name == "n"), dtypes.get(name, np.int32)) for name in kind._fields}
    return kind(**columns)


def _grown_buffer(buffer: B) -> B:
    return buffer._replace(**{name: _grown(getattr(buffer, name)) for name in buffer._fields if name != "n"})


def _grown(a: npt.NDArray[Any], size: int | None = None) -> npt.NDArray[Any]:
    out = np.zeros((size if size is not None else max(4096, 2 * len(a)), *a.shape[1:]), a.dtype)
    out[: len(a)] = a
    return out


@inner_kernel
def find_receivers(f: Forest, live: Live, tiles: Tiles, first):  # type: ignore[no-untyped-def]
    """Collect who is reached by the tiles from `first` on. 1, or 0 when a buffer is too small for this event."""
    d = live.deliveries
    n = 0
    fits = 1
    for t in range(first, tiles.n[0]):
        if fits == 1:
            got = report(
                f, tiles.cls[t], tiles.side[t, 0], tiles.side[t, 1], tiles.side[t, 2], tiles.side[t, 3], d.live[n:]
            )
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


@inner_kernel
def deliver(o: Any, live: Live, tiles: Tiles, event, changed, old_x, old_y):  # type: ignore[no-untyped-def]
    """Apply the collected deliveries in tile order and record the net change of every list. O(k) a delivery.

    The object index must hold the state after the event; before it the object at row `changed` had `old_x`, `old_y`.
    Of a batch, which changes many (-1), old values are for the caller to fill in.
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
                _catch_up(o, lists, v, live.strays)
        d.next[p] = lists.head[v]
        lists.head[v] = p
        t = d.tile[p]
        _apply_tile(o, lists, v, tiles.row[t], tiles.gone[t])
        if live.wants[v]:
            r = live.tile_records
            m = r.n[0]
            r.event[m] = event
            r.live[m] = v
            r.tile[m] = t
            r.n[0] = m + 1
    for q in range(n_touched):
        v = lists.touched[q]
        _record(o, live, tiles, v, event, changed, old_x, old_y)
        lists.head[v] = -1


@inner_kernel
def _catch_up(o, lists, v, strays):  # type: ignore[no-untyped-def]
    """Bring a list to the values after a batch, before its tiles are applied: what is gone leaves it, what moved in x
    too, since it is held at the old place and is told of the new one; the rest goes in order of the new ranks. With the
    objects that tiles tell, the best of these are the list after the batch. O(k) and the number of swapped pairs."""
    s = lists.start[v]
    n = 0
    for i in range(s, s + lists.length[v]):
        row = lists.rows[i]
        slot = o.pos[row]
        if slot >= 0 and strays[row] == 0:
            y, c = o.y[slot], o.c[slot]
            j = s + n
            while j > s and _worse(o, lists.rows[j - 1], y, c):
                lists.rows[j] = lists.rows[j - 1]
                j -= 1
            lists.rows[j] = row
            n += 1
    lists.length[v] = n


@inner_kernel
def _apply_tile(o, lists, v, row, gone):  # type: ignore[no-untyped-def]
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
        slot = o.pos[row]
        y = o.y[slot]
        c = o.c[slot]
        j = s + n
        while j > s and _worse(o, rows[j - 1], y, c):
            j -= 1
        if j < s + lists.k[v]:
            if n < lists.k[v]:
                n += 1
            for p in range(s + n - 1, j, -1):
                rows[p] = rows[p - 1]
            rows[j] = row
    lists.length[v] = n


@inner_kernel
def _worse(o, row, y, c):  # type: ignore[no-untyped-def]
    """Whether the object at `row` ranks behind (y, c). One that has left the index ranks behind everything."""
    slot = o.pos[row]
    return slot < 0 or o.y[slot] > y or (o.y[slot] == y and o.c[slot] > c)


@inner_kernel
def _touched_row(d, tiles, p, row):  # type: ignore[no-untyped-def]
    while p >= 0 and tiles.row[d.tile[p]] != row:
        p = d.next[p]
    return p >= 0


@inner_kernel
def _rank_of(rows, start, n, row):  # type: ignore[no-untyped-def]
    j = 0
    while j < n and rows[start + j] != row:
        j += 1
    return j + 1 if j < n else 0


def _put_place(to: Any, m: int, x: Any, s: int) -> None:
    """Copy the place of an object: a number, or a row of numbers."""
    to[m] = x[s]


def _put_old_place(to: Any, m: int, x: Any) -> None:
    """As `_put_place`, from a number, or from the first row of numbers."""
    to[m] = x if to.ndim == 1 else x[0]


def _put_no_place(to: Any, m: int) -> None:
    """Write zeros."""
    to[m] = 0.0


_INLINE: Any = {"nogil": True, "_nrt": False, "forceinline": True}


@overload(_put_place, jit_options=_INLINE, strict=False)
def _compiled_put_place(to: Any, m: int, x: Any, s: int) -> Any:
    def number(to: Any, m: int, x: Any, s: int) -> None:
        to[m] = x[s]

    def numbers(to: Any, m: int, x: Any, s: int) -> None:
        for j in range(to.shape[1]):
            to[m, j] = x[s, j]

    return number if to.ndim == 1 else numbers


@overload(_put_old_place, jit_options=_INLINE, strict=False)
def _compiled_put_old_place(to: Any, m: int, x: Any) -> Any:
    def number(to: Any, m: int, x: Any) -> None:
        to[m] = x

    def numbers(to: Any, m: int, x: Any) -> None:
        for j in range(to.shape[1]):
            to[m, j] = x[0, j]

    return number if to.ndim == 1 else numbers


@overload(_put_no_place, jit_options=_INLINE, strict=False)
def _compiled_put_no_place(to: Any, m: int) -> Any:
    def number(to: Any, m: int) -> None:
        to[m] = 0.0

    def numbers(to: Any, m: int) -> None:
        for j in range(to.shape[1]):
            to[m, j] = 0.0

    return number if to.ndim == 1 else numbers


@inline_kernel
def _shown(rank, offset):  # type: ignore[no-untyped-def]
    """A rank as who listens is told of it."""
    return rank if rank > offset else 0


@inner_kernel
def _put(o, records, event, v, row, old_rank, new_rank, changed, old_x, old_y):  # type: ignore[no-untyped-def]
    m = records.n[0]
    slot = o.pos[row]
    records.event[m] = event
    records.live[m] = v
    records.row[m] = row
    records.old_rank[m] = old_rank
    records.new_rank[m] = new_rank
    if new_rank > 0:
        _put_place(records.x, m, o.x, slot)
        records.y[m] = o.y[slot]
    else:
        _put_no_place(records.x, m)
        records.y[m] = 0.0
    if old_rank > 0 and row == changed:
        _put_old_place(records.old_x, m, old_x)
        records.old_y[m] = old_y
    elif old_rank > 0 and slot >= 0:
        _put_place(records.old_x, m, o.x, slot)
        records.old_y[m] = o.y[slot]
    else:
        _put_no_place(records.old_x, m)
        records.old_y[m] = 0.0
    records.n[0] = m + 1


@inner_kernel
def _record(o, live, tiles, v, event, changed, old_x, old_y):  # type: ignore[no-untyped-def]
    """The net change of what list v shows: objects that tiles spoke of, and others pushed over either end.

    An object that was exposed elsewhere and is told here all the same (epsilon) is no news where it was known.
    """
    d = live.deliveries
    lists = live.lists
    records = live.records
    s = lists.start[v]
    end = s + lists.length[v]
    offset = lists.offset[v]
    head = lists.head[v]
    # Objects that no tile spoke of keep their order, so those that are left are found by going along both lists.
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
                _put(o, records, event, v, row, old_rank, new_rank, changed, old_x, old_y)
    p = head
    while p >= 0:
        row = tiles.row[d.tile[p]]
        if not _touched_row(d, tiles, d.next[p], row):
            old_rank = _shown(_rank_of(lists.before, s, lists.before_length[v], row), offset)
            new_rank = _shown(_rank_of(lists.rows, s, lists.length[v], row), offset)
            news = tiles.own[d.tile[p]] and (old_rank > 0 or new_rank > 0)
            if news or (old_rank > 0) != (new_rank > 0):
                _put(o, records, event, v, row, old_rank, new_rank, changed, old_x, old_y)
        p = d.next[p]
