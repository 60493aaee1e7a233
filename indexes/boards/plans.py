"""Accepted commands on their way: each is painted by the kernels and then settled where it can be seen.

`paint` touches the kernel side of the board and may run in any one thread; `settle` touches what reads see and runs
between two paints. A long command alternates between them, and the state between is exact at its own seq.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from indexes.boards.batch import Batch
from indexes.boards.catalogue import Accepted
from indexes.boards.changes import Changes
from indexes.boards.commands import BoardConfig, Command, Configure
from indexes.boards.painter import Painter
from indexes.boards.regions import Regions
from indexes.boards.space.painter import SpacePainter
from indexes.boards.space.shapes import width
from indexes.boards.subscribers import Change, Edit, Float64, Int32, Standing
from indexes.boards.views import (
    AnyTile,
    ListChange,
    ListEntry,
    LiveTiles,
    ObjectView,
    Place,
    Reach,
    RegionTile,
    Slice,
    TileRows,
    TileView,
    place_of,
    places,
)
from indexes.commands import Fault
from indexes.ids import Packed

if TYPE_CHECKING:
    from indexes.boards.board import Board

MAX = float(np.finfo(np.float64).max)

SECONDS_A_CHANGE = 4e-6
"""What changing or deleting one of many subscriptions costs, painted and settled."""


class Plan(ABC):
    """One accepted command.

    `command` is what the log keeps; `count` single changes take the seqs first_seq..last_seq (none: nothing is logged).
    `faults` are the elements that were skipped, `positions` the original places of the others. `silent` plans (replay)
    tell no one and make no tiles.
    """

    def __init__(self, board: Board, command: Command, count: int, faults: list[Fault]) -> None:
        self.board = board
        self.command = command
        self.count = count
        self.first_seq = board.next_seq
        self.last_seq = board.next_seq + count - 1
        self.faults = faults
        self.positions: list[int] | None = None
        self.done = False
        self.silent = False
        self.tile_count = 0
        board.next_seq += count

    @property
    def work(self) -> float:
        """Seconds that painting is estimated to take."""
        return 0.0

    @property
    def alone(self) -> bool:
        """Whether it cannot be painted in one pass with others."""
        return True

    def told(self) -> dict[str, Any]:
        """What only applying tells of an answer."""
        return {"tile_count": self.tile_count}

    @abstractmethod
    def paint(self, budget: float) -> None:
        """Do kernel work for about `budget` seconds."""

    @abstractmethod
    def settle(self) -> Slice | None:
        """Make visible what was painted; returns what live subscriptions must hear of, if anything."""

    @abstractmethod
    def cancel(self) -> None:
        """Take the command back: it could not be logged. Newest plans first."""


Entry = tuple[int, int, int, Place, float, Place, float]
Record = tuple[int, int, int, int, int, Place, float, Place, float]


class Pass:
    """What a pass of the kernels left behind, by event of the pass: kept tiles, changed live lists, and the tiles that
    live readers of tiles get."""

    def __init__(self, board: Board) -> None:
        painter = board.painter
        live = painter.live.arrays
        n_records, n_tile_records = int(live.records.n[0]), int(live.tile_records.n[0])
        self._board = board
        self.events: list[int] = painter.kept_events().tolist()
        self.rows: list[int] = painter.tiles.row[: len(self.events)].tolist()
        self._records: list[Record] = []
        self._tile_records: list[tuple[int, int, int]] = []
        self._columns: TileRows | None = None
        if n_records:
            self._records = list(zip(*(places(a[:n_records]) for a in live.records[:9]), strict=True))  # type: ignore[arg-type]
        if n_tile_records:
            self._tile_records = list(zip(*(a[:n_tile_records].tolist() for a in live.tile_records[:3]), strict=True))

    def tiles_between(self, lo: int, hi: int) -> tuple[int, int]:
        """The first of the kept tiles of events lo..hi - 1, and the one after the last."""
        return bisect_left(self.events, lo), bisect_left(self.events, hi)

    def records_between(self, lo: int, hi: int) -> list[Record]:
        """What changed in live lists by these events."""
        return _between(self._records, lo, hi)

    def tile_records_between(self, lo: int, hi: int) -> list[tuple[int, int, int]]:
        """Which tiles of these events live readers of tiles get."""
        return _between(self._tile_records, lo, hi)

    def tile_rows(self, first: int, last: int, start: int, payload: list[bytes | None]) -> TileRows:
        """Kept tiles by column, of a command whose events begin at `start`."""
        if self._columns is None:
            self._columns = self._all_columns()
        all_of_them, ids = self._columns, self._board.catalogue.ids
        return TileRows(
            [e - start for e in self.events[first:last]],
            all_of_them.numbers[first:last],
            all_of_them.k[first:last],
            [ids[row] for row in self.rows[first:last]],
            all_of_them.created[first:last],
            all_of_them.gone[first:last],
            payload,
            all_of_them.d,
            None if all_of_them.shape is None else all_of_them.shape[first:last],
            None if all_of_them.where is None else all_of_them.where[first:last],
        )

    def _all_columns(self) -> TileRows:
        """All kept tiles at once, without the ids: a row may pass to another object within a pass."""
        n = len(self.events)
        painter, tiles, filters = self._board.painter, self._board.painter.tiles, self._board.filters
        side, x, where = tiles.side[:n], tiles.x[:n], None
        if filters.fields:
            where = self._where(side, x)
            side, x = side[:, : 4 * filters.ranged], x[:, : filters.ranged]
        numbers = np.column_stack([side, x, tiles.y[:n]])
        sides = numbers[:, : side.shape[1]]
        sides[np.abs(sides) >= MAX] = np.inf
        numbers[:, -1] *= self._board.catalogue.sign
        k, created, gone = painter.ks[tiles.cls[:n]], tiles.c[:n], tiles.gone[:n].astype(bool)
        rows = TileRows([], numbers, k.tolist(), [], created.tolist(), gone.tolist(), [], where=where)
        if isinstance(painter, SpacePainter) and filters.ranged > 1:
            shapes = painter.subscriptions.shapes
            return rows._replace(d=filters.ranged, shape=[shapes[q] for q in tiles.cls[:n].tolist()])
        return rows

    def _where(self, side: Float64, x: Float64) -> list[tuple[Reach, ...]]:
        """Whom kept tiles reach by their filters."""
        filters = self._board.filters
        hidden = side[:, 4 * filters.ranged : 4 * filters.dimensions]
        return list(map(filters.reached, hidden.tolist(), x[:, filters.ranged :].tolist()))


R = TypeVar("R", bound=tuple[int, ...] | Record)


def _between(records: list[R], lo: int, hi: int) -> list[R]:
    """The records of events lo..hi - 1; they are in order of their events."""
    if not records:
        return records
    return records[bisect_left(records, lo, key=itemgetter(0)) : bisect_left(records, hi, key=itemgetter(0))]


class EventsPlan(Plan):
    """Changes of objects. The first `keep_at_most` tiles gather in `kept`."""

    def __init__(self, board: Board, accepted: Accepted, keep_at_most: int) -> None:
        super().__init__(board, accepted.command, len(accepted.command), accepted.faults)
        self.positions = accepted.positions
        self.kept: list[TileRows] = []
        self._accepted = accepted
        self._room = keep_at_most
        self._painted = 0
        self._settled = 0
        self._payloads = sorted(accepted.command.payload)
        self._next_payload = 0
        self._replaced: dict[int, bytes | None] = {}
        self.done = self.count == 0

    @property
    def tiles(self) -> list[tuple[int, AnyTile]]:
        """The tiles that were kept, each with the place of its event in the command."""
        return [view for rows in self.kept for view in rows.views()]

    @property
    def alone(self) -> bool:
        """Whether it cannot be painted in one pass with others, as some of it was."""
        return self._painted > 0

    @property
    def changes(self) -> Changes:
        """The events by column."""
        return self._accepted.changes

    @property
    def births(self) -> int:
        """How many objects these events create."""
        return self._accepted.births

    @property
    def created(self) -> dict[int, int]:
        """Creation numbers by position, of the objects that these events create."""
        numbers = self._accepted.changes.created
        return {step.at: int(numbers[step.at]) for step in self._accepted.steps if step.born}

    @property
    def work(self) -> float:
        return (self.count - self._painted) * self.board.painter.seconds_per_event

    def paint(self, budget: float) -> None:
        painter, changes = self.board.painter, self._accepted.changes
        painter.objects.reserve(self._accepted.births + 1, self.board.catalogue.high)
        if self.silent:
            painter.advance(changes, self._painted, self.count)
            self._painted = self.count
            return
        self._painted, made = painter.run(changes, self._painted, self.count, budget, self._room > 0)
        self.tile_count += made

    def settle(self) -> Slice | None:
        catalogue, accepted = self.board.catalogue, self._accepted
        catalogue.advance(accepted.changes, accepted.births, self._settled, self._painted)
        return self.show(None if self.silent else Pass(self.board), 0, self._painted)

    def show(self, found: Pass | None, start: int, hi: int) -> Slice | None:
        """Make the events before `hi` visible; they are in the pass from event `start` on. None: nobody is told."""
        board, catalogue, accepted = self.board, self.board.catalogue, self._accepted
        catalogue.name_rows(accepted)
        out = None
        if found is None:
            self._write_payloads(hi - 1)
        else:
            out = self._messages(found, start, hi)
        catalogue.show_steps(accepted, hi)
        self._settled = hi
        board.seq = self.first_seq + hi - 1
        self.done = hi == self.count
        if self.done:
            catalogue.forget(accepted)
        return out

    def _write_payloads(self, through: int) -> None:
        """Give and take payloads up to an event, so that what is shown next has those of its moment.

        What the event itself replaced, and those told as one with it, is kept by the row of its object.
        """
        payload, rows = self._accepted.command.payload, self._accepted.changes.row
        self._replaced.clear()
        while self._next_payload < len(self._payloads) and self._payloads[self._next_payload] <= through:
            at = self._payloads[self._next_payload]
            text, row = payload[at], int(rows[at])
            if at >= self._told_with(through):
                self._replaced.setdefault(row, self.board.catalogue.payloads.get(row))
            if text is None:
                self.board.catalogue.payloads.pop(row, None)
            else:
                self.board.catalogue.payloads[row] = text
            self._next_payload += 1

    def _told_with(self, at: int) -> int:
        """The first of the events that are told as one with the event `at`."""
        return at

    def _messages(self, found: Pass, start: int, hi: int) -> Slice | None:
        lo = start + self._settled
        first, last = found.tiles_between(lo, start + hi)
        last = min(last, first + self._room)
        rows = found.rows[first:last]
        records = found.records_between(lo, start + hi)
        tile_records = found.tile_records_between(lo, start + hi)
        payloads = self.board.catalogue.payloads
        texts: list[bytes | None] = []
        heard = Slice(self.first_seq + hi - 1, [], [], [], [])
        if records or tile_records or (rows and self._next_payload < len(self._payloads)):
            at_record = at_tile_record = 0
            views: dict[int, AnyTile] = {}
            events = found.events[first:last]
            for e in sorted({*events, *(r[0] for r in records), *(r[0] for r in tile_records)}):
                seq = self.first_seq + e - start
                self._write_payloads(e - start)
                views.clear()
                while len(texts) < len(rows) and events[len(texts)] == e:
                    texts.append(payloads.get(rows[len(texts)]))
                begin = at_record
                while at_record < len(records) and records[at_record][0] == e:
                    at_record += 1
                heard.changes.extend(self._changes(seq, records[begin:at_record]))
                begin = at_tile_record
                while at_tile_record < len(tile_records) and tile_records[at_tile_record][0] == e:
                    at_tile_record += 1
                heard.tiles.extend(self._live_tiles(seq, tile_records[begin:at_tile_record], views))
        else:
            texts = [payloads.get(row) for row in rows]
        if rows:
            self.kept.append(found.tile_rows(first, last, start, texts))
            self._room -= len(rows)
        self._write_payloads(hi - 1)
        return heard if heard.changes or heard.tiles else None

    def _changes(self, seq: int, records: list[Record]) -> list[ListChange]:
        by_live: dict[int, list[Entry]] = {}
        for _, live, *entry in records:
            by_live.setdefault(live, []).append(tuple(entry))  # type: ignore[arg-type]
        shared: dict[tuple[Entry, ...], tuple[ListEntry, ...]] = {}
        out = []
        for live, entries in by_live.items():
            entries.sort(key=lambda entry: (entry[2], entry[1]))
            key = tuple(entries)
            if key not in shared:
                shared[key] = tuple(self._entry(*entry) for entry in key)
            out.append(ListChange(seq, live, shared[key]))
        return out

    def _entry(
        self, row: int, old_rank: int, new_rank: int, x: Place, y: float, old_x: Place, old_y: float
    ) -> ListEntry:
        catalogue = self.board.catalogue
        created = catalogue.created[row]
        now = catalogue.show(row, x, y, created) if new_rank else None
        old = catalogue.show(row, old_x, old_y, created) if old_rank else None
        if old is not None and row in self._replaced:
            old = old._replace(payload=self._replaced[row])
        return ListEntry(catalogue.ids[row], old_rank or None, new_rank or None, now, old)

    def _live_tiles(self, seq: int, records: list[tuple[int, int, int]], views: dict[int, AnyTile]) -> list[LiveTiles]:
        by_live: dict[int, list[AnyTile]] = {}
        for _, live, t in records:
            if t not in views:
                views[t] = self._tile(t)
            by_live.setdefault(live, []).append(views[t])
        return [LiveTiles(seq, live, tuple(tiles)) for live, tiles in by_live.items()]

    def _tile(self, t: int) -> AnyTile:
        painter, tiles = self.board.painter, self.board.painter.tiles
        x, y = place_of(tiles.x, t), float(tiles.y[t])
        shown = self.board.catalogue.show(int(tiles.row[t]), x, y, int(tiles.c[t]))
        k, gone = int(painter.ks[tiles.cls[t]]), bool(tiles.gone[t])
        sides = [None if abs(side) >= MAX else side for side in tiles.side[t].tolist()]
        filters, where = self.board.filters, tuple[Reach, ...]()
        if filters.fields:
            hidden = tiles.side[t, 4 * filters.ranged :].tolist()
            where = filters.reached(hidden, tiles.x[t, filters.ranged :].tolist())
            sides = sides[: 4 * filters.ranged]
        if isinstance(painter, SpacePainter) and filters.ranged > 1:
            shape = painter.subscriptions.shapes[int(tiles.cls[t])]
            return RegionTile(k, shape, tuple(sides[: 2 * width(shape, filters.ranged)]), shown, gone, where)
        l_outer, l_inner, r_inner, r_outer = sides[:4]
        return TileView(k, l_outer, l_inner, r_inner, r_outer, shown, gone, where)

    def cancel(self) -> None:
        self.board.catalogue.take_back(self._accepted)
        self.board.next_seq = self.first_seq


class BatchPlan(EventsPlan):
    """Changes of objects that are told as one, with the last seq. It is cut while it is painted, but what reads and
    live lists show goes over from before it to after it in one step."""

    def __init__(self, board: Board, accepted: Accepted, keep_at_most: int) -> None:
        super().__init__(board, accepted, keep_at_most)
        self._rows = board.catalogue.high
        self._touched = board.catalogue.touched(accepted)
        self._batch: Batch | None = None

    @property
    def alone(self) -> bool:
        return True

    def paint(self, budget: float) -> None:
        if self.silent:
            super().paint(budget)
            return
        painter = self.board.painter
        assert isinstance(painter, Painter)
        if self._batch is None:
            accepted = self._accepted
            self._batch = Batch(painter, accepted.changes, accepted.births, self._rows, self._touched)
        self._batch.paint(budget, self._room > 0)
        if self._batch.done:
            self._painted = self.count
            self.tile_count = self._batch.made
            painter.say_event(self.count - 1)

    def settle(self) -> Slice | None:
        if self._painted < self.count:
            return None
        catalogue = self.board.catalogue
        if not self.silent:
            self._fill_in_old_values()
        if self._batch is not None and self._batch.view is not None:
            catalogue.view = self._batch.view
        elif self._batch is not None:
            self._batch.advance(catalogue.with_room(self._accepted.births))
        else:
            catalogue.advance(self._accepted.changes, self._accepted.births, 0, self.count)
        return self.show(None if self.silent else Pass(self.board), 0, self.count)

    def _fill_in_old_values(self) -> None:
        """What reads see is still what was there before the batch."""
        records, o = self.board.painter.live.arrays.records, self.board.catalogue.view.arrays
        had = np.flatnonzero(records.old_rank[: int(records.n[0])])
        slots = o.pos[records.row[had]]
        records.old_x[had], records.old_y[had] = o.x[slots], o.y[slots]

    def _told_with(self, at: int) -> int:
        return 0

    def _changes(self, seq: int, records: list[Record]) -> list[ListChange]:
        """An object that was deleted and inserted again is two in the kernels, and one to those who know its id."""
        return [change._replace(entries=_by_id(change.entries)) for change in super()._changes(seq, records)]


class SpaceBatchPlan(BatchPlan):
    """A batch on a board with several range attributes: its events are painted one by one, and told as one with the
    tiles of all of them. Lists that some tile reaches are made anew at the end, and tell what is another then."""

    def __init__(self, board: Board, accepted: Accepted, keep_at_most: int) -> None:
        super().__init__(board, accepted, keep_at_most)
        self._run = 0
        self._keep = False
        self._reached: list[int] = []
        self._before: dict[int, list[ObjectView]] = {}

    def paint(self, budget: float) -> None:
        if self.silent:
            super().paint(budget)
            return
        painter, changes = self.board.painter, self._accepted.changes
        assert isinstance(painter, SpacePainter)
        painter.objects.reserve(self._accepted.births + 1, self.board.catalogue.high)
        if self._run == 0:
            painter.clear()
            self._keep = self._room > 0 or painter.live.count > 0
        self._run, made = painter.paint_more(changes, self._run, self.count, budget, self._keep)
        self.tile_count += made
        if self._run == self.count:
            self._painted = self.count
            # Whoever came to listen while nothing was kept may be concerned too.
            self._reached = painter.tell(self.count - 1) if self._keep else list(self.board.live_of.values())
            self.board.renew(self._reached)

    def settle(self) -> Slice | None:
        if self._painted == self.count and not self.silent:
            self._before = {live: self.board.watched_list(live) for live in self._reached}
        heard = super().settle()
        if self._before and not self._keep:
            moved = [(self.last_seq, live) for live in self._reached]
            return Slice(self.last_seq, self._changes(self.last_seq, []), [], moved, [])
        return heard

    def _changes(self, seq: int, records: list[Record]) -> list[ListChange]:
        changed = []
        for live, before in self._before.items():
            offset = self.board.offset_of(live)
            entries = net_entries(before, self.board.list_of(live, offset), offset, offset)
            if entries:
                changed.append(ListChange(seq, live, entries))
        return changed

    def _fill_in_old_values(self) -> None:
        """Nothing to fill in: changes are found by comparing lists."""


def _by_id(entries: tuple[ListEntry, ...]) -> tuple[ListEntry, ...]:
    if len({entry.id for entry in entries}) == len(entries):
        return entries
    one: dict[str, ListEntry] = {}
    for entry in entries:
        other = one.get(entry.id, entry)
        new = entry if entry.new_rank else other
        one[entry.id] = new._replace(old_rank=entry.old_rank or other.old_rank, old=entry.old or other.old)
    return tuple(sorted(one.values(), key=lambda entry: entry.new_rank or 0))


class EventsGroup:
    """Short commands of one board that follow one another, painted in one pass: calling the kernels costs more than
    a single event does."""

    def __init__(self, plans: Sequence[EventsPlan]) -> None:
        self._plans = plans
        self._board = plans[0].board
        columns = zip(*(plan.changes for plan in plans), strict=True)
        self._changes = Changes(*(np.concatenate(parts) for parts in columns))
        self._births = sum(plan.births for plan in plans)
        self._painted = 0
        self._settled = 0

    @property
    def done(self) -> bool:
        return self._settled == len(self._changes.row)

    def paint(self, budget: float) -> None:
        """As `Plan.paint`."""
        painter, changes = self._board.painter, self._changes
        painter.objects.reserve(self._births + 1, self._board.catalogue.high)
        self._painted, _ = painter.run(changes, self._painted, len(changes.row), budget, keep=True)

    def settle(self) -> Slice | None:
        """As `Plan.settle`, for what was painted of all commands."""
        self._board.catalogue.advance(self._changes, self._births, self._settled, self._painted)
        found = Pass(self._board)
        heard = Slice(0, [], [], [], [])
        start = 0
        for plan in self._plans:
            end = start + plan.count
            if start < self._painted and end > self._settled:
                lo, hi = max(start, self._settled), min(end, self._painted)
                first, last = found.tiles_between(lo, hi)
                plan.tile_count += last - first
                part = plan.show(found, start, hi - start)
                if part is not None:
                    heard.changes.extend(part.changes)
                    heard.tiles.extend(part.tiles)
            start = end
        self._settled = self._painted
        return heard._replace(last_seq=self._board.seq) if heard.changes or heard.tiles else None


class EditPlan(Plan):
    """Subscriptions made, changed or deleted. New ones in bulk are one step, changes are cut into slices."""

    def __init__(self, board: Board, command: Command, edit: Edit) -> None:
        count = len(edit.changes) + (len(edit.fresh) if edit.fresh is not None else 0)
        super().__init__(board, command, count, edit.faults)
        self.positions = edit.positions
        self.edit = edit
        self._base: Packed | None = None
        self._painted = 0
        self._settled = 0
        self.done = count == 0

    @property
    def work(self) -> float:
        """About 3 us a subscription."""
        return 3e-6 * (self.count - self._settled)

    def paint(self, budget: float) -> None:
        edit, painter, subscribers = self.edit, self.board.painter, self.board.subscribers
        if edit.fresh is not None:
            depth = edit.fresh.depth
            for k in np.unique(depth):
                mine = np.flatnonzero(depth == k)
                painter.insert(int(k), edit.sids[mine], edit.fresh.regions.take(mine))
            if edit.packed is not None:
                self._base = subscribers.ids.merged(edit.packed)
            elif subscribers.ids.wants_merge():
                self._base = subscribers.ids.merged()
        self._painted = min(self._painted + max(1, int(budget / SECONDS_A_CHANGE)), len(edit.changes))
        part = edit.changes[self._settled : self._painted]
        gone: dict[int, list[Standing]] = {}
        for change in part:
            if change.before is not None:
                gone.setdefault(change.before.k, []).append(change.before)
        for k, before in gone.items():
            painter.delete(k, *self._columns(before))
        for change in part:
            if change.after is not None:
                painter.insert(change.after.k, *self._columns([change.after]))

    def _columns(self, standings: list[Standing]) -> tuple[Int32, Regions]:
        regions = Regions.of([standing.region for standing in standings], self.board.subscribers.regions.d)
        return np.array([standing.sid for standing in standings], np.int32), regions

    def settle(self) -> Slice | None:
        board, lo, hi = self.board, self._settled, self._painted
        self._settled = hi
        self.done = hi == len(self.edit.changes)
        board.subscribers.settle(self.edit, self._base, lo, hi)
        board.seq = self.last_seq if self.done else self.first_seq + hi - 1
        heard, shifted = Slice(board.seq, [], [], [], []), []
        for i, change in enumerate(self.edit.changes[lo:hi], lo):
            if change.before is not None and change.before.sid in board.live_of:
                live = board.live_of[change.before.sid]
                self._tell(heard, self.first_seq + i, live, change)
                if change.after is not None and change.after.offset != change.before.offset:
                    shifted.append(live)
        return heard._replace(shifted=tuple(shifted)) if heard.moved or heard.gone else None

    def _tell(self, heard: Slice, seq: int, live: int, change: Change) -> None:
        if change.after is None:
            self.board.unwatch(live)
            heard.gone.append((seq, live))
            return
        entries = self.board.move_live(live, change.after)
        heard.moved.append((seq, live))
        heard.changes.append(ListChange(seq, live, entries))

    def cancel(self) -> None:
        self.board.subscribers.take_back(self.edit)
        self.board.next_seq = self.first_seq


class ConfigurePlan(Plan):
    """Another set of list lengths, another algorithm or another epsilon."""

    def __init__(self, board: Board, command: Configure, config: BoardConfig) -> None:
        super().__init__(board, command, int(config != board.latest_config), [])
        self._config = config
        self._before = board.latest_config
        self._work = 3e-8 * board.subscription_count if config.ks != board.latest_config.ks else 0.0
        self.done = self.count == 0
        board.latest_config = config

    @property
    def work(self) -> float:
        """Another class moves all subscriptions to new arrays."""
        return self._work

    def paint(self, budget: float) -> None:
        self.board.painter.configure(self._config)

    def settle(self) -> Slice | None:
        self.board.config = self._config
        self.board.seq = self.last_seq
        self.done = True
        return None

    def cancel(self) -> None:
        self.board.latest_config = self._before
        self.board.next_seq = self.first_seq


def net_entries(
    before: list[ObjectView], after: list[ObjectView], old_offset: int = 0, new_offset: int = 0
) -> tuple[ListEntry, ...]:
    """The net change between two lists: who left, then who entered or is another now. Objects that only shift are not
    named.

    The lists begin after so many ranks of theirs.
    """
    was = {entry.id: (rank, entry) for rank, entry in enumerate(before, old_offset + 1)}
    now = {entry.id for entry in after}
    found = [ListEntry(id, rank, None, None, old) for id, (rank, old) in was.items() if id not in now]
    for rank, entry in enumerate(after, new_offset + 1):
        old_rank, old = was.get(entry.id, (None, None))
        if old != entry:
            found.append(ListEntry(entry.id, old_rank, rank, entry, old))
    return tuple(found)
