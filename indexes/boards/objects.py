"""The objects of a board by id: the applied ones, what accepted commands will make of them, and an index for reads.

The index is a copy of the one that painting changes. It serves reads while another thread paints, and is advanced when
changes are published, so that reads always have the exact state at the published seq.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import NamedTuple, TypeVar

import numpy as np

from indexes.boards.commands import DELETE, UPDATE, Events
from indexes.boards.config import BoardConfig
from indexes.boards.filters import ABSENT, CodeChanges, Coded, Codes, FilterIndex
from indexes.boards.kernels.changes import Changes
from indexes.boards.parts import AnyObjects, advance_of, new_objects
from indexes.boards.regions import Region
from indexes.boards.results import ObjectView, Place, place_of
from indexes.core.arrays import Floats, Ints, Rows
from indexes.core.commands import Fault, Refused
from indexes.core.known_ids import KnownIds
from indexes.core.pending import STRIDE, PendingValues, RowPool, UndoValues
from indexes.core.spaced_ids import SpacedIds

GONE = -1

NO_CODES = CodeChanges()
"""Of a command on a board without indexed fields. Two counters take longer to make than the rest of `Accepted`."""

FEW = 4_096
"""Events of a command that is checked at once where it only sets values."""

_SET, _OLD, _UNTOUCHED = np.zeros(FEW, np.uint8), np.full(FEW, -1, np.int64), np.zeros(FEW, np.uint8)
"""Columns of events that set values of objects that are there, which nobody writes."""


class Step(NamedTuple):
    """The event at `at` creates (`born`) or deletes the object `id`."""

    at: int
    id: str
    row: int
    born: bool


@dataclass(slots=True)
class Accepted:
    """Checked events, with their rows and what it takes to apply them or to roll them back. The first `next_step` of
    the `steps` are published; `named` once the new rows have their ids."""

    owner: int
    command: Events
    changes: Changes
    faults: list[Fault]
    positions: list[int] | None
    steps: list[Step]
    high_before: int
    created_before: int
    payloads_before: list[tuple[int, bytes | None]]
    undo: UndoValues[int] = field(default_factory=list)
    codes: CodeChanges = field(default_factory=lambda: NO_CODES)
    codes_before: list[tuple[int, Codes | None]] = field(default_factory=list)
    named: bool = False
    next_step: int = 0

    @property
    def births(self) -> int:
        """How many objects these events create."""
        return sum(step.born for step in self.steps) if self.steps else 0


class Reserved(NamedTuple):
    """The next creation number, the number of rows ever handed out, and the rows that are free again, the next one
    last."""

    next_created: int
    high: int
    free: list[int]


class Catalogue:
    """Objects by id.

    `rows` has the applied objects; `ids`, `created` and `payloads` are by row. `view` is the index for reads.
    """

    def __init__(self, config: BoardConfig, filters: FilterIndex) -> None:
        self.config = config
        self._filters = filters
        self._codes: dict[int, Codes] = {}
        self.sign = -1.0 if config.order == "desc" else 1.0
        self.view: AnyObjects = new_objects(config)
        self._advance = advance_of(config)
        self.rows: dict[str, int] = {}
        self.ids: list[str] = []
        self.created: list[int] = []
        self.payloads: dict[int, bytes] = {}
        self._latest_payloads: dict[int, bytes] = {}
        self._known = KnownIds()
        self._pool = RowPool()
        self._created = 0
        self._pending: PendingValues[int] = PendingValues()

    def reserved(self) -> Reserved:
        """What has been handed out to accepted commands."""
        return Reserved(self._created, self._pool.high, self._pool.free())

    def load(
        self,
        view: AnyObjects,
        ids: list[str],
        rows: Rows,
        created: Ints,
        payloads: list[bytes | None],
        codes: dict[int, Codes],
        reserved: Reserved,
    ) -> None:
        """Take over all objects of a board that has none; `view` is their index, the columns are in any order.

        `codes` has the objects with values in indexed fields.
        """
        self.view = view
        self.ids, self.created = [""] * reserved.high, [-1] * reserved.high
        for key, row, number, payload in zip(ids, rows.tolist(), created.tolist(), payloads, strict=True):
            self.ids[row], self.created[row] = key, number
            if payload is not None:
                self.payloads[row] = payload
        self.rows = dict(zip(ids, rows.tolist(), strict=True))
        self._latest_payloads = self.payloads.copy()
        self._codes = codes
        self._pool.restore(reserved.high, reserved.free)
        self._created = reserved.next_created

    def accept(self, owner: int, command: Events) -> Generator[None, None, Accepted]:
        """Check events against the state that they will meet, in pieces.

        Raises:
            Refused: an event does not apply and the command does not skip; nothing has changed.
        """
        n = len(command)
        coded = yield from self._filters.read(command.payload)
        found = None if self._pending or (command.op == DELETE).any() or coded.faults else self._rows_of(command)
        if found is not None:
            yield
            return self._all_known(owner, command, found, coded)
        high_before, created_before = self._pool.high, self._created
        undo: UndoValues[int] = []
        faults: list[Fault] = []
        steps: list[Step] = []
        rows = np.empty(n, np.int32)
        created = np.full(n, -1, np.int64)
        keep: list[int] = []
        lacks_x = _lacking(command.x)
        lacks_y = np.isnan(command.y).tolist()
        ops = command.op.tolist()
        settled, pending = self.rows, self._pending.entries
        try:
            for i, key in enumerate(command.ids):
                entry = pending.get(key)
                row = settled.get(key, GONE) if entry is None else entry[1]
                op = ops[i]
                if i in coded.faults:
                    faults.append(coded.faults[i])
                    continue
                if row == GONE:
                    if op in (UPDATE, DELETE):
                        faults.append(Fault("id", f"there is no object {key!r}", "unknown", i))
                        continue
                    if lacks_x[i] or lacks_y[i]:
                        faults.extend(self._missing(command, i))
                        continue
                    row = self._pool.take()
                    created[len(keep)] = self._created
                    self._created += 1
                    steps.append(Step(len(keep), key, row, True))
                    self._pending.put(owner, key, row, undo)
                elif op == DELETE:
                    steps.append(Step(len(keep), key, row, False))
                    self._pending.put(owner, key, GONE, undo)
                rows[len(keep)] = row
                keep.append(i)
                if i % STRIDE == STRIDE - 1:
                    yield
        except GeneratorExit:
            self._unwind(steps, [], undo, high_before, created_before)
            raise
        self._pool.give([step.row for step in steps if not step.born])
        if faults:
            command = _pick(command, keep)
            coded.codes = _moved(coded.codes, keep)
        positions = keep if faults else None
        changes, before = self._changes(command, rows[: len(keep)], created[: len(keep)], steps)
        accepted = Accepted(
            owner, command, changes, faults, positions, steps, high_before, created_before, before, undo
        )
        self._code(accepted, coded)
        if faults and not command.skip:
            self.roll_back(accepted)
            raise Refused(faults)
        return accepted

    def accept_known(self, owner: int, command: Events) -> Accepted | None:
        """As `accept`, for what most commands are: some events without payloads, which set values of objects that are
        there and that no command under way makes or deletes. None for any other command; nothing has changed then."""
        n = len(command.ids)
        if not 0 < n <= FEW or self._pending or command.payload or self._filters.fields:
            return None
        row = None if DELETE in command.op.tobytes() else self._rows_of(command)
        if row is None:
            return None
        x, y = command.x if command.x.flags.carray else _writable(command.x), command.y * self.sign
        changes = Changes(_SET[:n], row, x, y, _OLD[:n], _UNTOUCHED[:n])
        return Accepted(owner, command, changes, [], None, [], self._pool.high, self._created, [])

    def _rows_of(self, command: Events) -> Rows | None:
        """The rows of the objects of events; None where one of them is not there."""
        # By its type, since to ask whether a list is an instance of an abstract class takes a while.
        if type(command.ids) is SpacedIds:
            known = self._known.find(command.ids.texts, command.ids, self.rows)
            if known is not None:
                return known
        found = list(map(self.rows.get, command.ids))
        return None if None in found else np.array(found, np.int32)

    def _all_known(self, owner: int, command: Events, rows: Rows, coded: Coded) -> Accepted:
        changes, before = self._changes(command, rows, np.full(len(rows), -1, np.int64), [])
        accepted = Accepted(owner, command, changes, [], None, [], self._pool.high, self._created, before)
        self._code(accepted, coded)
        return accepted

    def foresee(self, owner: int, command: Events) -> Accepted:
        """The result of `accept` for a command now, rolled back at once. Raises Refused as `accept` does."""
        steps = self.accept(owner, command)
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                accepted: Accepted = stop.value
                self.roll_back(accepted)
                return accepted

    def _missing(self, command: Events, i: int) -> Iterator[Fault]:
        values = [*command.x.reshape(len(command), -1)[i], command.y[i]]
        for name, value in zip((*self.config.range_attributes, self.config.rank_attribute), values, strict=True):
            if np.isnan(value):
                yield Fault(f"values.{name}", "a new object needs a value", "invalid", i)

    def _changes(
        self, command: Events, rows: Rows, created: Ints, steps: list[Step]
    ) -> tuple[Changes, list[tuple[int, bytes | None]]]:
        """The columns for the kernels; also brings pending payloads up to date, and returns what rolls that back."""
        touched = np.zeros(len(command), np.uint8)
        latest = self._latest_payloads
        undo: list[tuple[int, bytes | None]] = []
        for at in sorted(command.payload):
            row, text = int(rows[at]), command.payload[at]
            before = latest.get(row)
            if text != before:
                touched[at] = 1
                undo.append((row, before))
                _put(latest, row, text)
        for step in steps:
            if not step.born and step.row in latest:
                undo.append((step.row, latest.pop(step.row)))
        kind = (command.op == DELETE).astype(np.uint8)
        return Changes(kind, rows, _writable(command.x), command.y * self.sign, created, touched), undo

    def _code(self, accepted: Accepted, coded: Coded) -> None:
        """Add to the changes the codes of the values that their payloads have in the indexed fields."""
        if not self._filters.fields:
            return
        held = accepted.codes = CodeChanges()
        before = accepted.codes_before
        born = [step.at for step in accepted.steps if step.born]
        x = self._filters.widened(accepted.changes.x, born, coded.codes)
        accepted.changes = accepted.changes._replace(x=x)
        # A row that is freed here is handed out to later commands only, so that deletions may come last.
        gone = [(step.row, None) for step in accepted.steps if not step.born]
        given = [(int(accepted.changes.row[at]), coded.codes[at]) for at in sorted(coded.codes)]
        for row, codes in (*given, *gone):
            old = self._codes.get(row)
            before.append((row, old))
            _put(self._codes, row, codes)
            held.gained.update(_in_use(codes))
            held.lost.update(_in_use(old))
        self._filters.hold(held.gained, coded.texts)

    def roll_back(self, accepted: Accepted) -> None:
        """Undo the newest `accept`: its command could not be logged."""
        for row, codes in reversed(accepted.codes_before):
            _put(self._codes, row, codes)
        self._filters.release(accepted.codes.gained)
        for row, text in reversed(accepted.payloads_before):
            _put(self._latest_payloads, row, text)
        given = [step.row for step in accepted.steps if not step.born]
        self._unwind(accepted.steps, given, accepted.undo, accepted.high_before, accepted.created_before)

    def _unwind(
        self, steps: list[Step], given: list[int], undo: UndoValues[int], high_before: int, created_before: int
    ) -> None:
        self._pending.roll_back(undo)
        self._pool.roll_back(high_before, [step.row for step in steps if step.born], given)
        self._created = created_before

    @property
    def high(self) -> int:
        """The number of rows ever handed out."""
        return self._pool.high

    def name_rows(self, accepted: Accepted) -> None:
        """Write the ids of new rows: all at once, before the first of the events is published."""
        if accepted.steps and not accepted.named:
            accepted.named = True
            more = self._pool.high - len(self.ids)
            self.ids.extend([""] * more)
            self.created.extend([-1] * more)
            for step in accepted.steps:
                if step.born:
                    self.ids[step.row] = step.id
                    self.created[step.row] = int(accepted.changes.created[step.at])

    def advance(self, changes: Changes, births: int, lo: int, hi: int) -> None:
        """Apply events lo..hi - 1 to the index for reads; all of the events create at most `births` objects."""
        self._advance(self.with_room(births).arrays, changes, lo, hi)

    def with_room(self, births: int) -> AnyObjects:
        """The index for reads, with room for so many new objects."""
        self.view.reserve(births + 1, self._pool.high)
        return self.view

    def show_steps(self, accepted: Accepted, hi: int) -> None:
        """Publish the creations and deletions before event `hi` to look-ups by id."""
        steps = accepted.steps
        while accepted.next_step < len(steps) and steps[accepted.next_step].at < hi:
            step = steps[accepted.next_step]
            accepted.next_step += 1
            if step.born:
                self.rows[step.id] = step.row
            else:
                del self.rows[step.id]
                self._known.forget()
                self.payloads.pop(step.row, None)

    def touched(self, accepted: Accepted) -> list[int]:
        """Rows whose payload differs before and after the newest accepted events."""
        first: dict[int, bytes | None] = {}
        for row, text in accepted.payloads_before:
            first.setdefault(row, text)
        return [row for row, text in first.items() if self._latest_payloads.get(row) != text]

    def settle(self, accepted: Accepted) -> None:
        """All events have been applied: drop their pending state."""
        self._pending.settle(accepted.owner, accepted.undo)
        if accepted.codes.lost:
            self._filters.release(accepted.codes.lost)

    def object_at(self, row: int) -> ObjectView:
        """The applied object of a row, which must have one."""
        o = self.view.arrays
        slot = o.pos[row]
        return self.show(row, place_of(o.x, slot), float(o.y[slot]), int(o.c[slot]))

    def show(self, row: int, x: Place, y: float, created: int) -> ObjectView:
        """The view of an object with these values as kernels have them."""
        shown = self._filters.shown(x)
        return ObjectView(self.ids[row], shown, y * self.sign, created, self.payloads.get(row))

    def get(self, key: str) -> ObjectView | None:
        """The applied object of an id, or None."""
        row = self.rows.get(key)
        return None if row is None else self.object_at(row)

    def after(self, key: str | None, limit: int) -> list[ObjectView]:
        """Up to `limit` objects in order of id, behind `key`. O(n)."""
        ids = self.rows if key is None else (other for other in self.rows if other > key)
        return [self.object_at(self.rows[i]) for i in nsmallest(limit, ids)]

    def top_rows(self, region: Region, k: int) -> Rows:
        """The rows of the k best objects of a region as kernels see it, best first."""
        slots = self.view.best(region, k)
        return self.view.arrays.row[slots].astype(np.int32)


def _writable(x: Floats) -> Floats:
    """Columns of an Arrow body may be read-only, for which kernels would have to be compiled separately."""
    return np.require(x, np.float64, ("C", "W"))


def _lacking(x: Floats) -> list[bool]:
    """Whether each event leaves out some of the place of its object."""
    missing = np.isnan(x).tolist()
    return missing if x.ndim == 1 else list(map(any, missing))


T = TypeVar("T")


def _put(by_row: dict[int, T], row: int, value: T | None) -> None:
    if value is None:
        by_row.pop(row, None)
    else:
        by_row[row] = value


def _in_use(codes: Codes | None) -> list[float]:
    return [] if codes is None else [code for code in codes if code != ABSENT]


def _moved(by_event: dict[int, T], keep: list[int]) -> dict[int, T]:
    """The values of the events that are kept, by their new places."""
    where = {old: new for new, old in enumerate(keep)}
    return {where[i]: value for i, value in by_event.items() if i in where}


def _pick(command: Events, keep: list[int]) -> Events:
    payload = _moved(command.payload, keep)
    ids = [command.ids[i] for i in keep]
    op, x, y = command.op[keep], command.x[keep], command.y[keep]
    return Events(op, ids, x, y, payload, command.skip, command.batch, command.counted)
