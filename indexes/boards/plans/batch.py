"""Plans for batches: changes of objects that are published as one."""

from __future__ import annotations

import numpy as np

from indexes.boards.batch import Batch
from indexes.boards.live_lists import Records
from indexes.boards.objects import Accepted
from indexes.boards.painter import Painter
from indexes.boards.plans.events import EventsPlan
from indexes.boards.plans.kernel_pass import KernelPass, Record
from indexes.boards.results import ListChange, ListEntry, ObjectView, Slice, net_entries
from indexes.boards.space.painter import SpacePainter
from indexes.boards.store import BoardStore


class BatchPlan(EventsPlan):
    """Changes of objects that are published as one, with the last seq. It is executed in slices, but reads and live
    lists go from the state before it to that after it in one step."""

    def __init__(self, engine: BoardStore, accepted: Accepted, keep_at_most: int) -> None:
        super().__init__(engine, accepted, keep_at_most)
        self._rows = engine.catalogue.high
        self._touched = engine.catalogue.touched(accepted)
        self._batch: Batch | None = None

    @property
    def alone(self) -> bool:
        return True

    def execute(self, budget: float) -> None:
        if self.silent:
            super().execute(budget)
            return
        painter = self.engine.painter
        assert isinstance(painter, Painter)
        if self._batch is None:
            accepted = self._accepted
            self._batch = Batch(painter, accepted.changes, accepted.births, self._rows, self._touched)
        self._batch.paint(budget, self._room > 0 or self._zoned)
        if self._batch.done:
            self._executed = self.count
            self.tile_count = self._batch.made
            painter.assign_event(self.count - 1)

    def publish(self) -> Slice | None:
        if self._executed < self.count:
            return None
        catalogue = self.engine.catalogue
        if not self.silent:
            self._fill_in_old_values()
        if self._batch is not None and self._batch.view is not None:
            catalogue.view = self._batch.view
        elif self._batch is not None:
            self._batch.advance(catalogue.with_room(self._accepted.births))
        else:
            catalogue.advance(self._accepted.changes, self._accepted.births, 0, self.count)
        return self.publish_pass(None if self.silent else KernelPass(self.engine), 0, self.count)

    def _fill_in_old_values(self) -> None:
        """Take the old values of changed objects from the reading index, which is still as before the batch."""
        records, o = self.engine.painter.live.arrays.records, self.engine.catalogue.view.arrays
        had = np.flatnonzero(records.old_rank[: int(records.n[0])])
        slots = o.pos[records.row[had]]
        records.old_x[had], records.old_y[had] = o.x[slots], o.y[slots]

    def _published_with(self, at: int) -> int:
        return 0

    def _by_column(self, columns: Records) -> bool:
        """Not where an object was deleted and inserted again: it has two rows then."""
        rows = np.unique(columns.row).tolist()
        return len({self.engine.catalogue.ids[row] for row in rows}) == len(rows)

    def _changes(self, seq: int, records: list[Record]) -> list[ListChange]:
        """An object that was deleted and inserted again is two objects to the kernels, but one to subscribers."""
        return [change._replace(entries=_by_id(change.entries)) for change in super()._changes(seq, records)]


class SpaceBatchPlan(BatchPlan):
    """A batch on a board with several range attributes. Its events are painted one by one and published as one, with
    the tiles of all of them; live lists that a tile reaches are computed at the end and compared with those before."""

    def __init__(self, engine: BoardStore, accepted: Accepted, keep_at_most: int) -> None:
        super().__init__(engine, accepted, keep_at_most)
        self._next = 0
        self._keep = False
        self._reached: list[int] = []
        self._before: dict[int, list[ObjectView]] = {}

    def execute(self, budget: float) -> None:
        if self.silent:
            super().execute(budget)
            return
        painter, changes = self.engine.painter, self._accepted.changes
        assert isinstance(painter, SpacePainter)
        painter.objects.reserve(self._accepted.births + 1, self.engine.catalogue.high)
        if self._next == 0:
            painter.clear()
            self._keep = self._room > 0 or painter.live.count > 0
        self._next, made = painter.paint_more(changes, self._next, self.count, budget, self._keep)
        self.tile_count += made
        if self._next == self.count:
            self._executed = self.count
            # A stream may have been opened while nothing was kept.
            self._reached = painter.deliver_all(self.count - 1) if self._keep else list(self.engine.live_of.values())
            self.engine.recompute(self._reached)

    def publish(self) -> Slice | None:
        if self._executed == self.count and not self.silent:
            self._before = {live: self.engine.visible_list(live) for live in self._reached}
        notifications = super().publish()
        if self._before and not self._keep:
            moved = [(self.last_seq, live) for live in self._reached]
            return Slice(self.last_seq, self._changes(self.last_seq, []), [], moved, [])
        return notifications

    def _by_column(self, columns: Records) -> bool:
        """Never: changes are found by comparing lists."""
        return False

    def _changes(self, seq: int, records: list[Record]) -> list[ListChange]:
        changed = []
        for live, before in self._before.items():
            offset = self.engine.offset_of(live)
            entries = net_entries(before, self.engine.list_of(live, offset), offset, offset)
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
