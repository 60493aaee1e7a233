"""Plans that put and delete objects (see `indexes.core.plan`).

Objects change in chunks of some milliseconds, each with all its effects on standing queries. Many at once, where they
are a large part of the map, are packed together with all others in a background thread; so is an index whose delta has
grown too large. Reads continue meanwhile.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa

from indexes.core.arrays import Floats, Ints, Ints32
from indexes.core.background import BackgroundTask
from indexes.core.cost import Cost
from indexes.core.edit_plan import SlicedPlan
from indexes.core.names import Merged, Names
from indexes.core.plan import LONG, Plan
from indexes.maps.commands import DeleteObjects, PutObjects
from indexes.maps.live.queries import Changes
from indexes.maps.object_index import PlaceIndex
from indexes.maps.objects import Put
from indexes.maps.pending_objects import Undo, packed_ids
from indexes.maps.results import ObjectView, Slice
from indexes.maps.store import MapStore

PACKED_FROM = 20_000
"""So many objects in one command are packed with all others, where they are at least `PACKED_SHARE` of these."""

PACKED_SHARE = 0.25

FEW = 64
"""So many standing queries are searched for again when an index is packed with new objects; with more it is not."""

FOLD_FROM = 8_192
"""Objects in the delta and tombstones from which on an index is folded, where they are more than `MOST_CHURN` of all.
"""

MOST_CHURN = 0.5

_NONE = np.empty(0, np.int64)


class Ready(NamedTuple):
    """What a background task has made; None for what was not needed."""

    places: PlaceIndex | None
    merged: Merged | None
    put: Put | None


class ObjectPlan(SlicedPlan[MapStore]):
    """Puts or deletes objects."""

    at_once: ClassVar[int] = 4_096

    _task: BackgroundTask[Ready] | None = None
    _changed: tuple[int, ...] = ()

    def __init__(self, engine: MapStore, command: Any, count: int, owner: int, undo: Undo) -> None:
        super().__init__(engine, command, count, owner, [])
        self._present = undo

    @property
    def _cost(self) -> Cost:
        return self.engine.change_cost

    @property
    def _ids(self) -> Names:
        return self.engine.table.names

    @property
    def work(self) -> float:
        return LONG if self._task is not None or self._lacks_room else self._cost.seconds * self._left

    @property
    def _lacks_room(self) -> bool:
        return self._needs_fold or self._ids_are_crowded

    @property
    def _needs_fold(self) -> bool:
        objects = self.engine.table
        churn = objects.index.churn
        return churn > MOST_CHURN and churn * len(objects) > FOLD_FROM

    def _make_room(self) -> Ready:
        objects = self.engine.table
        index = objects.index.folded() if self._needs_fold else None
        return Ready(index, objects.names.merged() if self._ids_are_crowded else None, None)

    def _has_room(self, budget: float) -> bool:
        """Whether changes can be made. If not, makes room in a background task and waits for `budget` seconds."""
        if self._task is None:
            if not self._lacks_room:
                return True
            self._task = BackgroundTask(self._make_room)
        if not self._task.done(budget):
            return False
        ready, self._task = self._task.result, None
        self._merged = ready.merged or self._merged
        if ready.put is not None:
            assert ready.places is not None
            self._take_up(ready.places, ready.put)
        elif ready.places is not None:
            self.engine.take_index(ready.places)
        return self._left > 0

    def _take_up(self, index: PlaceIndex, put: Put) -> None:
        """Use an index that was packed with all that is left."""
        raise NotImplementedError

    def _change(self, lo: int, hi: int) -> None:
        if self.silent:
            self.engine.suspend()
        self._changed = tuple(self.engine.change_objects(self._changes(lo, hi)))

    @abstractmethod
    def _changes(self, lo: int, hi: int) -> Changes:
        """The changes that these elements make."""

    def _show(self, lo: int, hi: int) -> Slice | None:
        self._name(lo, hi)
        changed, self._changed = self._changed, ()
        return self.engine.notifications([(self.engine.seq, row) for row in changed]) if changed else None

    @abstractmethod
    def _name(self, lo: int, hi: int) -> None:
        """Make the ids of these elements visible."""

    def _finish(self) -> None:
        self.done = True
        self.engine.pending_objects.settle(self._owner, self._present)

    def cancel(self) -> None:
        self.engine.pending_objects.roll_back(self._owner, self._present)
        Plan.cancel(self)


class PutPlan(ObjectPlan):
    """Puts objects. `makers` are the places in what was sent of those that make an object, `created` of them;
    `applied` elements apply."""

    command: PutObjects

    def __init__(self, engine: MapStore, command: PutObjects, owner: int, undo: Undo, makers: Ints) -> None:
        super().__init__(engine, command, len(command), owner, undo)
        self.makers = makers
        self.created = len(makers)
        self.applied = self.count
        self._payload_indices = sorted(command.payload)
        self._put: Put | None = None
        self._packed = False
        self._slots: list[int] = []

    @property
    def _packs(self) -> bool:
        """Whether all that is left is packed with all other objects."""
        engine, left = self.engine, self._left
        if self._executed or left < PACKED_FROM or left < PACKED_SHARE * len(engine.table):
            return False
        return engine.standing.live is None or len(engine.standing) <= FEW or self.silent

    @property
    def _lacks_room(self) -> bool:
        return self._packs or super()._lacks_room

    def _make_room(self) -> Ready:
        if not self._packs:
            return super()._make_room()
        objects, command = self.engine.table, self.command
        put = objects.look(command.array, command.points, command.values)
        fresh = np.flatnonzero(put.fresh)
        new = packed_ids(put.keys.take(pa.array(fresh)))
        return Ready(objects.packed(put), objects.names.merged(new._replace(row=put.slots[fresh][new.row])), put)

    def _take_up(self, index: PlaceIndex, put: Put) -> None:
        engine = self.engine
        if self.silent:
            engine.suspend()
        self._put, self._executed, self._packed = put, self.count, True
        self._changed = tuple(engine.replace_objects(index))

    def _changes(self, lo: int, hi: int) -> Changes:
        objects, command = self.engine.table, self.command
        put = objects.look(command.array.slice(lo, hi - lo), command.points[lo:hi], command.values[lo:hi])
        touched = np.zeros(len(put.slots), bool)
        for i in self._payloads(lo, hi):
            at = put.inverse[i - lo]
            touched[at] |= objects.payloads.get(int(put.slots[at])) != command.payload[i]
        self._put = put
        return put.changes(touched)

    def _payloads(self, lo: int, hi: int) -> list[int]:
        if not self._payload_indices:
            return []
        first, end = np.searchsorted(self._payload_indices, [lo, hi]).tolist()
        return self._payload_indices[first:end]

    def _name(self, lo: int, hi: int) -> None:
        objects, put = self.engine.table, self._put
        assert put is not None
        objects.show(put, self._packed)
        self._put = None
        self._slots += put.slots[put.inverse].tolist()
        for i in self._payloads(lo, hi):
            objects.set_payload(int(put.slots[put.inverse[i - lo]]), self.command.payload[i])

    def views(self) -> list[ObjectView]:
        """The objects as they are once all are put, before another command: one for each element."""
        return self.engine.table.views(list(zip(self.command.keys, self._slots, strict=True)))

    def response_fields(self) -> dict[str, Any]:
        """Of a single object: its state after the change."""
        return self._state_of(self.command.keys[0]) if self.count == 1 else {}

    def fields_of(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        # An answer about one object of several has its id, which no other one of them has.
        return self._state_of(answer["id"]) if "id" in answer else self.response_fields()

    def _state_of(self, id: str) -> dict[str, Any]:
        view = self.engine.object(id)
        if view is None:
            return {}
        payload = None if view.payload is None else json.loads(view.payload)
        values = dict(zip(self.engine.config.names, view.values, strict=True))
        return {"location": list(view.location), "values": values, "payload": payload, "created": view.created}


class ChangePlan(PutPlan):
    """Changes numbers of a few existing objects, each once. They still have these `slots` when it is executed: a
    deletion that is accepted later is executed later."""

    def __init__(self, engine: MapStore, command: PutObjects, owner: int, slots: Ints32) -> None:
        super().__init__(engine, command, owner, [], _NONE)
        self._known = slots
        self._after: list[tuple[Floats, Floats]] = []

    @property
    def _lacks_room(self) -> bool:
        # It makes no ids.
        return self._needs_fold

    def _change(self, lo: int, hi: int) -> None:
        engine, command = self.engine, self.command
        if self.silent:
            engine.suspend()
        slots, points, statics = self._known, command.points, command.values
        if hi - lo < self.count:
            slots, points, statics = slots[lo:hi], points[lo:hi], statics[lo:hi]
        rows, points, statics = engine.set_objects(slots, points, statics)
        self._changed = tuple(rows)
        self._after.append((points, statics))

    def _name(self, lo: int, hi: int) -> None:
        """The objects have their ids."""

    def _finish(self) -> None:
        # Nothing of it is pending.
        self.done = True

    def views(self) -> list[ObjectView]:
        parts = self._after
        points, statics = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
        return self.engine.table.views_of(self.command.keys, self._known, points, statics)


class DeleteObjectsPlan(ObjectPlan):
    """Deletes objects."""

    command: DeleteObjects

    def __init__(self, engine: MapStore, command: DeleteObjects, owner: int, undo: Undo) -> None:
        super().__init__(engine, command, len(command), owner, undo)
        self._slots: list[int] = []

    def _changes(self, lo: int, hi: int) -> Changes:
        objects = self.engine.table
        self._slots = [objects.names.find(key) for key in self.command.ids[lo:hi]]
        n, d = hi - lo, len(objects.signs)
        gone = np.array(self._slots, np.int64)
        nothing = np.full((n, 2), np.nan), np.full((n, d), np.nan)
        return Changes(gone, np.zeros(n, bool), *nothing, np.zeros(n, np.int64))

    def _name(self, lo: int, hi: int) -> None:
        objects = self.engine.table
        for key, slot in zip(self.command.ids[lo:hi], self._slots, strict=True):
            objects.forget(key, slot)
