"""Accepted commands on their way: each is painted by the kernels and then settled where it can be seen.

`paint` touches the kernel side of the board and may run in any one thread; `settle` touches what reads see and runs
between two paints. A long command alternates between them, and the state between is exact at its own seq.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from indexes.boards.catalogue import Accepted
from indexes.boards.commands import BoardConfig, Command, Configure, Create, Drop, Fault, FloatArray
from indexes.boards.step import Changes
from indexes.boards.subscribers import Change, Edit, Int32
from indexes.boards.views import ListChange, ListEntry, LiveTiles, ObjectView, Slice, TileRows, TileView
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
        self.command: Command | Create | Drop = command
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

    @abstractmethod
    def paint(self, budget: float) -> None:
        """Do kernel work for about `budget` seconds."""

    @abstractmethod
    def settle(self) -> Slice | None:
        """Make visible what was painted; returns what live subscriptions must hear of, if anything."""

    @abstractmethod
    def cancel(self) -> None:
        """Take the command back: it could not be logged. Newest plans first."""


Record = tuple[int, int, int, int, int, float, float]


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
            self._records = list(zip(*(a[:n_records].tolist() for a in live.records[:7]), strict=True))
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
        )

    def _all_columns(self) -> TileRows:
        """All kept tiles at once, without the ids: a row may pass to another object within a pass."""
        n = len(self.events)
        painter, tiles = self._board.painter, self._board.painter.tiles
        numbers = np.empty((n, 6))
        numbers[:, :4] = tiles.side[:n]
        numbers[:, :4][np.abs(numbers[:, :4]) >= MAX] = np.inf
        numbers[:, 4] = tiles.x[:n]
        numbers[:, 5] = tiles.y[:n]
        numbers[:, 5] *= self._board.catalogue.sign
        k, created, gone = painter.ks[tiles.cls[:n]], tiles.c[:n], tiles.gone[:n].astype(bool)
        return TileRows([], numbers, k.tolist(), [], created.tolist(), gone.tolist(), [])


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
        self.done = self.count == 0

    @property
    def tiles(self) -> list[tuple[int, TileView]]:
        """The tiles that were kept, each with the place of its event in the command."""
        return [view for rows in self.kept for view in rows.views()]

    @property
    def started(self) -> bool:
        """Whether some of it was painted."""
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
        """Give and take payloads up to an event, so that what is shown next has those of its moment."""
        payload, rows = self._accepted.command.payload, self._accepted.changes.row
        while self._next_payload < len(self._payloads) and self._payloads[self._next_payload] <= through:
            at = self._payloads[self._next_payload]
            text = payload[at]
            if text is None:
                self.board.catalogue.payloads.pop(int(rows[at]), None)
            else:
                self.board.catalogue.payloads[int(rows[at])] = text
            self._next_payload += 1

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
            views: dict[int, TileView] = {}
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
        by_live: dict[int, list[tuple[int, int, int, float, float]]] = {}
        for _, live, *entry in records:
            by_live.setdefault(live, []).append(tuple(entry))  # type: ignore[arg-type]
        shared: dict[tuple[tuple[int, int, int, float, float], ...], tuple[ListEntry, ...]] = {}
        out = []
        for live, entries in by_live.items():
            entries.sort(key=lambda entry: (entry[2], entry[1]))
            key = tuple(entry if entry[2] else (*entry[:3], 0.0, 0.0) for entry in entries)
            if key not in shared:
                shared[key] = tuple(self._entry(*entry) for entry in key)
            out.append(ListChange(seq, live, shared[key]))
        return out

    def _entry(self, row: int, old_rank: int, new_rank: int, x: float, y: float) -> ListEntry:
        catalogue = self.board.catalogue
        shown = catalogue.show(row, x, y, catalogue.created[row]) if new_rank else None
        return ListEntry(catalogue.ids[row], old_rank or None, new_rank or None, shown)

    def _live_tiles(self, seq: int, records: list[tuple[int, int, int]], views: dict[int, TileView]) -> list[LiveTiles]:
        by_live: dict[int, list[TileView]] = {}
        for _, live, t in records:
            if t not in views:
                views[t] = self._tile(t)
            by_live.setdefault(live, []).append(views[t])
        return [LiveTiles(seq, live, tuple(tiles)) for live, tiles in by_live.items()]

    def _tile(self, t: int) -> TileView:
        painter, tiles = self.board.painter, self.board.painter.tiles
        l_outer, l_inner, r_inner, r_outer = (None if abs(side) >= MAX else side for side in tiles.side[t].tolist())
        shown = self.board.catalogue.show(int(tiles.row[t]), float(tiles.x[t]), float(tiles.y[t]), int(tiles.c[t]))
        k = int(painter.ks[tiles.cls[t]])
        return TileView(k, l_outer, l_inner, r_inner, r_outer, shown, bool(tiles.gone[t]))

    def cancel(self) -> None:
        self.board.catalogue.take_back(self._accepted)
        self.board.next_seq = self.first_seq


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
            for k in np.unique(edit.fresh.k):
                mine = edit.fresh.k == k
                self._insert(int(k), edit.sids[mine], edit.fresh.l[mine], edit.fresh.r[mine])
            if edit.packed is not None:
                self._base = subscribers.ids.merged(edit.packed)
            elif subscribers.ids.wants_merge():
                self._base = subscribers.ids.merged()
        self._painted = min(self._painted + max(1, int(budget / SECONDS_A_CHANGE)), len(edit.changes))
        part = edit.changes[self._settled : self._painted]
        gone: dict[int, list[int]] = {}
        for change in part:
            if change.before is not None:
                gone.setdefault(change.before.k, []).append(change.before.sid)
        for k, sids in gone.items():
            painter.subscriptions.delete_many(painter.class_of(k), np.array(sids, np.int32))
        for change in part:
            if change.after is not None:
                ends = np.array([change.after.l]), np.array([change.after.r])
                self._insert(change.after.k, np.array([change.after.sid], np.int32), *ends)

    def _insert(self, k: int, sids: Int32, l: FloatArray, r: FloatArray) -> None:
        painter = self.board.painter
        painter.subscriptions.insert_many(
            painter.class_of(k), np.ascontiguousarray(sids), np.clip(l, -MAX, MAX), np.clip(r, -MAX, MAX)
        )

    def settle(self) -> Slice | None:
        board, lo, hi = self.board, self._settled, self._painted
        self._settled = hi
        self.done = hi == len(self.edit.changes)
        board.subscribers.settle(self.edit, self._base, lo, hi)
        board.seq = self.last_seq if self.done else self.first_seq + hi - 1
        heard = Slice(board.seq, [], [], [], [])
        for i, change in enumerate(self.edit.changes[lo:hi], lo):
            if change.before is not None and change.before.sid in board.live_of:
                self._tell(heard, self.first_seq + i, board.live_of[change.before.sid], change)
        return heard if heard.moved or heard.gone else None

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
    """Another set of list lengths, or another algorithm."""

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
        self.board.painter.configure(self._config.ks, self._config.algorithm == "dense")

    def settle(self) -> Slice | None:
        self.board.config = self._config
        self.board.seq = self.last_seq
        self.done = True
        return None

    def cancel(self) -> None:
        self.board.latest_config = self._before
        self.board.next_seq = self.first_seq


def net_entries(before: list[ObjectView], after: list[ObjectView]) -> tuple[ListEntry, ...]:
    """The net change between two lists of one moment: who left, then who entered. Objects that shift are not named."""
    old = {entry.id: rank for rank, entry in enumerate(before, 1)}
    new = {entry.id for entry in after}
    left = [ListEntry(entry.id, rank, None, None) for rank, entry in enumerate(before, 1) if entry.id not in new]
    entered = [ListEntry(entry.id, None, rank, entry) for rank, entry in enumerate(after, 1) if entry.id not in old]
    return (*left, *entered)
