"""Plans for changes of objects that are published one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np

from indexes.boards.changed_lists import ChangedLists, Records, in_order, joined
from indexes.boards.kernels.changes import Changes
from indexes.boards.live_lists import Records as KernelRecords
from indexes.boards.objects import Accepted
from indexes.boards.plans.kernel_pass import KernelPass, Record, taken
from indexes.boards.results import (
    AnyTile,
    ListChange,
    ListEntry,
    LiveTiles,
    ObjectView,
    Painted,
    Place,
    Slice,
    TileRows,
)
from indexes.boards.store import BoardStore
from indexes.core.plan import Plan

Entry = tuple[int, int, int, Place, float, Place, float]

_NEW_RANK_THEN_OLD = itemgetter(2, 1)

MANY = 16
"""Records of changed lists from which on they are passed on by column: to begin with columns costs more."""

_made = tuple.__new__
"""Makes a named tuple from its fields in half the time: three for each change of a list."""


class EventsPlan(Plan[BoardStore]):
    """Changes of objects, each published with its own seq. The first `keep_at_most` tiles are kept by column in `kept`;
    `tile_count` counts all of them, `counts` those of each event of a `counted` plan."""

    def __init__(self, engine: BoardStore, accepted: Accepted, keep_at_most: int) -> None:
        super().__init__(engine, accepted.command, len(accepted.command))
        self.faults, self.positions = accepted.faults, accepted.positions
        self.tile_count = 0
        self.counted = accepted.command.counted
        self.counts: list[int] = []
        self.kept: list[TileRows] = []
        self._accepted = accepted
        self._room = keep_at_most
        self._executed = 0
        self._published = 0
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
        """Whether it cannot be executed in one pass with others, as some of it has been."""
        return self._executed > 0

    @property
    def _zoned(self) -> bool:
        """Whether all tiles are published, by zone."""
        return self.engine.config.cut is not None

    @property
    def _keeps(self) -> bool:
        """Whether tiles are kept, for the answer or for zones."""
        return self._room > 0 or self.counted or self._zoned

    @property
    def _notifies(self) -> bool:
        """Whether publishing reads the tiles and records that executing leaves in the painter's buffers."""
        live = self.engine.painter.live
        return not self.silent and (self._keeps or live.count > 0 or live.tile_readers > 0)

    def lets_begin(self, following: Any) -> bool:
        return isinstance(following, EventsPlan) and self._executed == self.count and not self._notifies

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
        """Creation numbers of the objects that these events create, by position."""
        numbers = self._accepted.changes.created
        return {step.at: int(numbers[step.at]) for step in self._accepted.steps if step.born}

    @property
    def work(self) -> float:
        return (self.count - self._executed) * self.engine.painter.usual_seconds

    def response_fields(self) -> dict[str, Any]:
        return {"tile_count": self.tile_count}

    def fields_of(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        applied = int(answer.get("applied", self.count))
        if applied == self.count or not self.counts:
            return self.response_fields()
        end = int(answer["seq"]) - self.first_seq + 1
        return {"tile_count": sum(self.counts[end - applied : end])}

    def execute(self, budget: float) -> None:
        painter, changes = self.engine.painter, self._accepted.changes
        painter.reserve(self._accepted.births + 1, self.engine.catalogue.high)
        if self.silent:
            painter.advance(changes, self._executed, self.count)
            self._executed = self.count
            return
        self._executed, made = painter.run(changes, self._executed, self.count, budget, self._keeps)
        self.tile_count += made

    def publish(self) -> Slice | None:
        catalogue, accepted = self.engine.catalogue, self._accepted
        catalogue.advance(accepted.changes, accepted.births, self._published, self._executed)
        return self.publish_pass(KernelPass(self.engine) if self._notifies else None, 0, self._executed)

    def publish_pass(self, found: KernelPass | None, start: int, hi: int) -> Slice | None:
        """Make the events before `hi` visible. They begin at event `start` of the pass. Without one (replay, or nobody
        to notify) there are no notifications."""
        catalogue, accepted = self.engine.catalogue, self._accepted
        if accepted.steps:
            catalogue.name_rows(accepted)
        out = None
        if found is not None:
            out = self._notifications(found, start, hi)
        elif self._payloads:
            self._write_payloads(hi - 1)
        if accepted.steps:
            catalogue.show_steps(accepted, hi)
        self._published = hi
        self.engine.seq = self.first_seq + hi - 1
        self.done = hi == self.count
        if self.done:
            catalogue.settle(accepted)
        return out

    def _write_payloads(self, through: int) -> None:
        """Change payloads up to an event, so that notifications about it have the payloads of its seq.

        The payloads that the event, or those published with it, have replaced are kept by the row of their object.
        """
        payload, rows = self._accepted.command.payload, self._accepted.changes.row
        self._replaced.clear()
        while self._next_payload < len(self._payloads) and self._payloads[self._next_payload] <= through:
            at = self._payloads[self._next_payload]
            text, row = payload[at], int(rows[at])
            if at >= self._published_with(through):
                self._replaced.setdefault(row, self.engine.catalogue.payloads.get(row))
            if text is None:
                self.engine.catalogue.payloads.pop(row, None)
            else:
                self.engine.catalogue.payloads[row] = text
            self._next_payload += 1

    def _published_with(self, at: int) -> int:
        """The first of the events that are published as one with the event `at`."""
        return at

    def _notifications(self, found: KernelPass, start: int, hi: int) -> Slice | None:
        """The notifications of the events before `hi` that are not published yet; keeps their tiles, too."""
        lo = start + self._published
        first, last = found.tiles_between(lo, start + hi)
        if self.counted:
            self.counts += found.counts_between(lo, start + hi)
        kept = min(last, first + self._room)
        if not self._zoned:
            last = kept
        rows: list[int] = found.rows[first:last].tolist()
        columns = found.columns_between(lo, start + hi)
        tile_records = found.tile_records_between(lo, start + hi)
        payloads = self.engine.catalogue.payloads
        texts: list[bytes | None] = []
        changes: Sequence[ListChange] = []
        tiles: list[LiveTiles] = []
        changed = columns if columns is not None and len(columns.event) else None
        if tile_records or ((rows or changed) and self._next_payload < len(self._payloads)):
            records, changes = found.records_between(lo, start + hi), []
            at_record = at_tile_record = 0
            views: dict[int, AnyTile] = {}
            events = found.events[first:last].tolist()
            for e in sorted({*events, *(r[0] for r in records), *(r[0] for r in tile_records)}):
                seq = self.first_seq + e - start
                self._write_payloads(e - start)
                views.clear()
                while len(texts) < len(rows) and events[len(texts)] == e:
                    texts.append(payloads.get(rows[len(texts)]))
                begin = at_record
                while at_record < len(records) and records[at_record][0] == e:
                    at_record += 1
                changes.extend(self._changes(seq, records[begin:at_record]))
                begin = at_tile_record
                while at_tile_record < len(tile_records) and tile_records[at_tile_record][0] == e:
                    at_tile_record += 1
                tiles.extend(self._live_tiles(found, seq, tile_records[begin:at_tile_record], views))
        else:
            # No payload changes, so that what is the same for all events is done once.
            self._replaced.clear()
            texts = list(map(payloads.get, rows)) if payloads else [None] * len(rows)
            if changed:
                changes = self._all_changes(found, changed, (lo, start + hi), self.first_seq - start)
        if kept > first:
            self.kept.append(found.tile_rows(first, kept, start, texts if kept == last else texts[: kept - first]))
            self._room -= kept - first
        painted: tuple[Painted, ...] = ()
        if rows and self._zoned:
            painted = (Painted(self.first_seq, found.tile_rows(first, last, start, texts)),)
        if self._payloads:
            self._write_payloads(hi - 1)
        if not (changes or tiles or painted):
            return None
        return Slice(self.first_seq + hi - 1, changes, tiles, [], [], painted=painted)

    def _all_changes(
        self, found: KernelPass, columns: KernelRecords, between: tuple[int, int], first_seq: int
    ) -> Sequence[ListChange]:
        """The changes of live lists, by column, by the events `between`, none of which changes a payload; event 0 has
        `first_seq`."""
        if len(columns.event) >= MANY and columns.x.ndim == 1 and self._by_column(columns):
            return self._changed_lists(columns, first_seq)
        changes = []
        for e, some in groupby(found.records_between(*between), itemgetter(0)):
            changes += self._changes(first_seq + e, list(some))
        return changes

    def _by_column(self, columns: KernelRecords) -> bool:
        """Whether records are what subscribers see as they are."""
        return True

    def _changed_lists(self, columns: KernelRecords, first_seq: int) -> ChangedLists:
        catalogue = self.engine.catalogue
        order, ends, distinct = in_order(columns.event, columns.live, columns.old_rank, columns.new_rank)
        if order is not None:
            columns = taken(columns, order)
        rows, payloads = columns.row.tolist(), catalogue.payloads
        records = Records(
            columns.event + np.int64(first_seq),
            columns.live.copy(),
            list(map(catalogue.ids.__getitem__, rows)),
            columns.old_rank.copy(),
            columns.new_rank.copy(),
            np.fromiter(map(catalogue.created.__getitem__, rows), np.int64, len(rows)),
            list(map(payloads.get, rows)) if payloads else None,
            columns.x.copy(),
            columns.y * catalogue.sign,
            columns.old_x.copy(),
            columns.old_y * catalogue.sign,
        )
        return ChangedLists(records, ends, distinct)

    def _changes(self, seq: int, records: list[Record]) -> list[ListChange]:
        """The changes of live lists at one seq. Equal changes share their entries."""
        if len(records) == 1:
            record = records[0]
            return [_made(ListChange, (seq, record[1], (self._entry(*record[2:]),)))]
        by_live: dict[int, list[Entry]] = {}
        for record in records:
            entries = by_live.get(record[1])
            if entries is None:
                by_live[record[1]] = [record[2:]]
            else:
                entries.append(record[2:])
        shared: dict[tuple[Entry, ...], tuple[ListEntry, ...]] = {}
        changes = []
        for live, entries in by_live.items():
            if len(entries) > 1:
                entries.sort(key=_NEW_RANK_THEN_OLD)
            key = tuple(entries)
            found = shared.get(key)
            if found is None:
                found = shared[key] = tuple([self._entry(*entry) for entry in key])
            changes.append(_made(ListChange, (seq, live, found)))
        return changes

    def _entry(
        self, row: int, old_rank: int, new_rank: int, x: Place, y: float, old_x: Place, old_y: float
    ) -> ListEntry:
        catalogue, shown = self.engine.catalogue, self.engine.filters.shown
        id, created, payload = catalogue.ids[row], catalogue.created[row], catalogue.payloads.get(row)
        now = old = None
        if new_rank:
            now = _made(ObjectView, (id, shown(x), y * catalogue.sign, created, payload))
        if old_rank:
            if row in self._replaced:
                payload = self._replaced[row]
            old = _made(ObjectView, (id, shown(old_x), old_y * catalogue.sign, created, payload))
        return _made(ListEntry, (id, old_rank or None, new_rank or None, now, old))

    def _live_tiles(
        self, found: KernelPass, seq: int, records: list[tuple[int, int, int]], views: dict[int, AnyTile]
    ) -> list[LiveTiles]:
        """The tiles of one seq for live subscriptions to tiles. Equal tiles share their view."""
        by_live: dict[int, list[AnyTile]] = {}
        for _, live, t in records:
            if t not in views:
                payload = self.engine.catalogue.payloads.get(int(found.rows[t]))
                ((_, views[t]),) = found.tile_rows(t, t + 1, 0, [payload]).views()
            by_live.setdefault(live, []).append(views[t])
        return [LiveTiles(seq, live, tuple(tiles)) for live, tiles in by_live.items()]

    def cancel(self) -> None:
        self.engine.catalogue.roll_back(self._accepted)
        super().cancel()


class EventsGroup:
    """Consecutive short commands of one board, executed in one pass: calling the kernels costs more than a single event
    does."""

    def __init__(self, plans: Sequence[EventsPlan]) -> None:
        self._plans = plans
        self._store = plans[0].engine
        columns = zip(*(plan.changes for plan in plans), strict=True)
        self._changes = Changes(*(np.concatenate(parts) for parts in columns))
        self._births = sum(plan.births for plan in plans)
        self._executed = 0
        self._published = 0

    @property
    def done(self) -> bool:
        return self._published == len(self._changes.row)

    def execute(self, budget: float) -> None:
        """As `Plan.execute`."""
        painter, changes = self._store.painter, self._changes
        painter.reserve(self._births + 1, self._store.catalogue.high)
        self._executed, _ = painter.run(changes, self._executed, len(changes.row), budget, keep=True)

    def publish(self) -> Slice | None:
        """As `Plan.publish`, for what was executed of all commands."""
        self._store.catalogue.advance(self._changes, self._births, self._published, self._executed)
        found = KernelPass(self._store)
        changes: list[Sequence[ListChange]] = []
        tiles: list[LiveTiles] = []
        painted: list[Painted] = []
        start = 0
        for plan in self._plans:
            end = start + plan.count
            if start < self._executed and end > self._published:
                lo, hi = max(start, self._published), min(end, self._executed)
                first, last = found.tiles_between(lo, hi)
                plan.tile_count += last - first
                part = plan.publish_pass(found, start, hi - start)
                if part is not None:
                    changes.append(part.changes)
                    tiles.extend(part.tiles)
                    painted += part.painted
            start = end
        self._published = self._executed
        if not (any(changes) or tiles or painted):
            return None
        return Slice(self._store.seq, joined(changes), tiles, [], [], painted=tuple(painted))
