"""What one pass of the kernels leaves behind: tiles, and changes of live lists, by event of the pass."""

from __future__ import annotations

from bisect import bisect_left
from operator import itemgetter

import numpy as np

from indexes.boards.live_lists import Records
from indexes.boards.painter import Painter
from indexes.boards.results import Place, Reach, TileRows, places
from indexes.boards.space.painter import SpacePainter
from indexes.boards.store import BoardStore
from indexes.core.arrays import Counts, Floats
from indexes.core.arrays import Ints as Indexes

MAX = float(np.finfo(np.float64).max)

COPIED = 1 << 17
"""Tiles of a pass up to which all of them are copied from the buffers at once. One event of a dense board may have
millions, of which an answer has a hundred thousand at most: of these only what is asked for is copied."""

_NO_EVENTS: Indexes = np.empty(0, np.int64)

Record = tuple[int, int, int, int, int, Place, float, Place, float]


class KernelPass:
    """The results of one pass of the kernels by event of the pass: kept tiles, changes of live lists, and the tiles for
    live subscriptions to tiles. All but the changes are copied from the buffers of the painter.

    `events` are those of the kept tiles, ascending, `rows` the rows of their objects.
    """

    def __init__(self, store: BoardStore) -> None:
        painter = store.painter
        live = painter.live.arrays
        n_records, n_tile_records = int(live.records.n[0]), int(live.tile_records.n[0])
        self._store = store
        self._columns: TileRows | None = None
        many = int(painter.tiles.n[0])
        if not many:
            self.events: Indexes = _NO_EVENTS
            self.rows: Counts = painter.tiles.row[:0]
        elif many > COPIED or isinstance(painter, SpacePainter):
            self.events = painter.kept_events().astype(np.int64)
            self.rows = painter.tiles.row[:many].copy()
        else:
            self._columns, self.rows = self._read_back(painter, slice(many))
            self.events = self._columns.event
        self._records = taken(live.records, slice(n_records)) if n_records else None
        self._tile_records: list[TileRecord] = []
        if n_tile_records:
            self._tile_records = list(zip(*(a[:n_tile_records].tolist() for a in live.tile_records[:3]), strict=True))

    def tiles_between(self, lo: int, hi: int) -> tuple[int, int]:
        """The first of the kept tiles of events lo..hi - 1, and the one after the last."""
        events = self.events
        if not len(events) or (lo <= events[0] and events[-1] < hi):
            return 0, len(events)
        first, last = events.searchsorted((lo, hi)).tolist()
        return first, last

    def counts_between(self, lo: int, hi: int) -> list[int]:
        """How many tiles each of events lo..hi - 1 has."""
        if hi == lo + 1:
            first, last = self.tiles_between(lo, hi)
            return [last - first]
        counts: list[int] = np.bincount(self.events, minlength=hi)[lo:hi].tolist()
        return counts

    def records_between(self, lo: int, hi: int) -> list[Record]:
        """The changes of live lists by events lo..hi - 1; until the next pass."""
        records = self.columns_between(lo, hi)
        if records is None:
            return []
        numbers = (column.tolist() for column in records[:5])
        values = (places(column) for column in (records.x, records.y, records.old_x, records.old_y))
        return list(zip(*numbers, *values, strict=True))

    def columns_between(self, lo: int, hi: int) -> Records | None:
        """The changes of live lists by events lo..hi - 1, by column, None where the whole pass has none; until the next
        pass.
        """
        records = self._records
        if records is None:
            return None
        first, last = np.searchsorted(records.event, (lo, hi)).tolist()
        if last - first == len(records.event):
            return records
        return taken(records, slice(first, last))

    def tile_records_between(self, lo: int, hi: int) -> list[TileRecord]:
        """The tiles of events lo..hi - 1 for live subscriptions to tiles: (event, live slot, tile)."""
        return _between(self._tile_records, lo, hi)

    def tile_rows(self, first: int, last: int, start: int, payload: list[bytes | None]) -> TileRows:
        """Kept tiles first..last - 1 by column, of a command whose events begin at `start`; where there are more than
        `COPIED` until the next pass."""
        many, at = len(self.events), slice(first, last)
        if many > COPIED:
            rows = self._columns_of(at)
        else:
            whole = self._columns = self._columns or self._columns_of(slice(many))
            # Without copies: most passes are of one command.
            rows = whole if last - first == many else whole.taken(at)
        ids = self._store.catalogue.ids
        id = list(map(ids.__getitem__, self.rows[at].tolist()))
        event = rows.event - start if start else rows.event
        return TileRows(
            event, rows.numbers, rows.k, id, rows.created, rows.gone, payload, rows.d, rows.shape, rows.where
        )

    def _columns_of(self, at: slice) -> TileRows:
        """Some kept tiles, without ids: a row may be given to another object within a pass."""
        painter = self._store.painter
        return self._of_space(painter, at) if isinstance(painter, SpacePainter) else self._read_back(painter, at)[0]

    def _read_back(self, painter: Painter, at: slice) -> tuple[TileRows, Counts]:
        """Some kept tiles of a board with one range attribute, and the rows of their objects."""
        n = at.stop - (at.start or 0)
        numbers, columns, gone = np.empty((n, 6)), np.empty((4, n), np.int64), np.empty(n, np.bool_)
        painter.read_back(at.start or 0, self._store.catalogue.sign, numbers, columns, gone)
        event, k, created, rows = columns
        return TileRows(event, numbers, k, [], created, gone, []), rows

    def _of_space(self, painter: SpacePainter, at: slice) -> TileRows:
        tiles, filters = painter.tiles, self._store.filters
        side, x, where = tiles.side[at], tiles.x[at], None
        if filters.fields:
            where = self._where(side, x)
            side, x = side[:, : 4 * filters.ranged], x[:, : filters.ranged]
        n, wide = side.shape
        numbers = np.empty((n, wide + filters.ranged + 1))
        sides = numbers[:, :wide]
        sides[:] = side
        numbers[:, wide:-1] = x.reshape(n, -1)
        np.multiply(tiles.y[at], self._store.catalogue.sign, out=numbers[:, -1])
        sides[np.abs(sides) >= MAX] = np.inf
        cls = tiles.cls[at]
        k, created, gone = painter.ks[cls], tiles.c[at].copy(), tiles.gone[at].astype(np.bool_)
        rows = TileRows(self.events[at], numbers, k, [], created, gone, [], where=where)
        if filters.ranged == 1:
            return rows
        shapes = painter.subscriptions.shapes
        return rows._replace(d=filters.ranged, shape=[shapes[q] for q in cls.tolist()])

    def _where(self, side: Floats, x: Floats) -> list[tuple[Reach, ...]]:
        """The filters of the subscriptions that kept tiles reach."""
        filters = self._store.filters
        hidden = side[:, 4 * filters.ranged : 4 * filters.dimensions]
        return list(map(filters.reached, hidden.tolist(), x[:, filters.ranged :].tolist()))


TileRecord = tuple[int, int, int]


def taken(records: Records, at: slice | Indexes) -> Records:
    """Some of the records, or all in another order."""
    return Records(
        records.event[at],
        records.live[at],
        records.row[at],
        records.old_rank[at],
        records.new_rank[at],
        records.x[at],
        records.y[at],
        records.old_x[at],
        records.old_y[at],
        records.n,
    )


def _between(records: list[TileRecord], lo: int, hi: int) -> list[TileRecord]:
    """The records of events lo..hi - 1; they are in order of their events."""
    if not records:
        return records
    return records[bisect_left(records, lo, key=itemgetter(0)) : bisect_left(records, hi, key=itemgetter(0))]
