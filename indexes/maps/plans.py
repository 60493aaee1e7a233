"""Accepted changes of a map's objects on their way: see `indexes.plan`.

Objects come and change in chunks of some milliseconds, each with all that standing queries hear of it. Many at once, on
a map where they are no small part of all, are packed beside with all others; so is an index whose delta has grown too
large. Reads go on meanwhile.
"""

from __future__ import annotations

import json
import time
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from indexes.beside import Beside
from indexes.maps.commands import DeleteObjects, PutObjects
from indexes.maps.live import Changes
from indexes.maps.objects import Put
from indexes.maps.places import PlaceIndex
from indexes.maps.presence import Undo, packed_ids
from indexes.maps.views import Slice
from indexes.names import Merged
from indexes.plan import LONG
from indexes.plan import Plan as AnyPlan

if TYPE_CHECKING:
    from indexes.maps.engine import MapEngine

Plan: TypeAlias = AnyPlan["MapEngine"]

AT_ONCE = 4_096
"""Changes of objects in one chunk, at most."""

PACKED_FROM = 20_000
"""So many objects at once are packed with all others, where they are at least `PACKED_SHARE` of these."""

PACKED_SHARE = 0.25

FEW = 64
"""Standing queries that are all searched for again when an index is packed with new objects."""

FOLD_FROM = 8_192
"""Objects in the delta and tombstones from which on a base is packed anew, where they are more than `WORN` of all."""

WORN = 0.5


class Ready(NamedTuple):
    """What was laid out beside, None where it was not asked for."""

    places: PlaceIndex | None
    merged: Merged | None
    put: Put | None


class ObjectPlan(AnyPlan["MapEngine"]):
    """Objects that come, change or go."""

    def __init__(self, engine: MapEngine, command: Any, count: int, owner: int, undo: Undo) -> None:
        super().__init__(engine, command, count)
        self._owner = owner
        self._undo = undo
        self._beside: Beside[Ready] | None = None
        self._merged: Merged | None = None
        self._told: list[int] = []
        self._painted = 0
        self._settled = 0
        # One without elements promised nothing; to settle it would settle those before it, which are under way.
        self.done = count == 0

    @property
    def _left(self) -> int:
        return self.count - self._painted

    @property
    def work(self) -> float:
        return LONG if self._beside is not None or self._lacks_room else self.engine.change_cost.seconds * self._left

    @property
    def _lacks_room(self) -> bool:
        return self._is_worn or self._names_are_crowded

    @property
    def _is_worn(self) -> bool:
        objects = self.engine.table
        worn = objects.index.worn
        return worn > WORN and worn * len(objects) > FOLD_FROM

    @property
    def _names_are_crowded(self) -> bool:
        return self._merged is None and self.engine.table.names.crowded

    def _make_room(self) -> Ready:
        objects = self.engine.table
        index = objects.index.folded() if self._is_worn else None
        return Ready(index, objects.names.merged() if self._names_are_crowded else None, None)

    def _has_room(self, budget: float) -> bool:
        """Whether painting can begin or go on. If not, it is seen to, beside, and waited for so long."""
        if self._beside is None:
            if not self._lacks_room:
                return True
            self._beside = Beside(self._make_room)
        if not self._beside.done(budget):
            return False
        ready, self._beside = self._beside.found, None
        self._merged = ready.merged or self._merged
        if ready.put is not None:
            assert ready.places is not None
            self._take_up(ready.places, ready.put)
        elif ready.places is not None:
            self.engine.take_index(ready.places)
        return True

    def _take_up(self, index: PlaceIndex, put: Put) -> None:
        """All that is left is in an index that was packed beside."""
        raise NotImplementedError

    def paint(self, budget: float) -> None:
        if not self._has_room(budget) or not self._left:
            return
        engine = self.engine
        if self.silent:
            engine.fall_asleep()
        end = min(self.count, self._painted + min(AT_ONCE, engine.change_cost.fit(budget)))
        began = time.perf_counter()
        changes = self._change(self._painted, end)
        self._told = engine.change(changes)
        engine.change_cost.learn(time.perf_counter() - began, end - self._painted)
        self._painted = end

    @abstractmethod
    def _change(self, lo: int, hi: int) -> Changes:
        """What these elements come to."""

    def settle(self) -> Slice | None:
        engine, lo, hi = self.engine, self._settled, self._painted
        if lo == hi:
            return None
        self._show(lo, hi)
        self._settled = hi
        engine.seq = self.first_seq + hi - 1
        if hi == self.count:
            self.done = True
            engine.presence.settle(self._owner, self._undo)
        told, self._told = self._told, []
        return None if self.silent else engine.heard([(engine.seq, row) for row in told])

    def _swap_names(self) -> None:
        if self._merged is not None:
            self.engine.table.names.swap(self._merged)
            self._merged = None

    @abstractmethod
    def _show(self, lo: int, hi: int) -> None:
        """Let what was painted of these elements be found."""

    def cancel(self) -> None:
        self.engine.presence.take_back(self._owner, self._undo)
        super().cancel()


class PutPlan(ObjectPlan):
    """Objects that come or change. `created` of them will be new; `applied` elements do apply."""

    command: PutObjects

    def __init__(self, engine: MapEngine, command: PutObjects, owner: int, undo: Undo, created: int) -> None:
        super().__init__(engine, command, len(command), owner, undo)
        self.created = created
        self.applied = len(command)
        self._told_of = sorted(command.payload)
        self._put: Put | None = None
        self._packed = False

    @property
    def _packs(self) -> bool:
        """Whether all that is left is packed with all others."""
        engine, left = self.engine, self._left
        few = engine.standing.live is None or len(engine.standing) <= FEW or self.silent
        return few and self._painted == 0 and left >= PACKED_FROM and left >= PACKED_SHARE * len(engine.table)

    @property
    def _lacks_room(self) -> bool:
        return self._packs or super()._lacks_room

    def _make_room(self) -> Ready:
        if not self._packs:
            return super()._make_room()
        objects, command = self.engine.table, self.command
        put = objects.look(command.ids, command.points, command.values)
        fresh = np.flatnonzero(put.fresh)
        new = packed_ids(put.keys.take(pa.array(fresh)))
        return Ready(objects.packed(put), objects.names.merged(new._replace(row=put.slots[fresh][new.row])), put)

    def _take_up(self, index: PlaceIndex, put: Put) -> None:
        engine = self.engine
        if self.silent:
            engine.fall_asleep()
        self._put, self._painted, self._packed = put, self.count, True
        self._told = engine.take_other(index)

    def _change(self, lo: int, hi: int) -> Changes:
        objects, command = self.engine.table, self.command
        put = objects.look(command.ids.slice(lo, hi - lo), command.points[lo:hi], command.values[lo:hi])
        touched = np.zeros(len(put.slots), bool)
        for i in self._payloads(lo, hi):
            at = put.inverse[i - lo]
            touched[at] |= objects.payloads.get(int(put.slots[at])) != command.payload[i]
        self._put = put
        return put.changes(touched)

    def _payloads(self, lo: int, hi: int) -> list[int]:
        first, end = np.searchsorted(self._told_of, [lo, hi]).tolist()
        return self._told_of[first:end]

    def _show(self, lo: int, hi: int) -> None:
        objects, put = self.engine.table, self._put
        assert put is not None
        self._swap_names()
        objects.show(put, self._packed)
        self._put = None
        for i in self._payloads(lo, hi):
            objects.set_payload(int(put.slots[put.inverse[i - lo]]), self.command.payload[i])

    def told(self) -> dict[str, Any]:
        """Of a single object: how it is now."""
        view = self.engine.object(self.command.ids[0].as_py()) if self.count == 1 else None
        if view is None:
            return {}
        payload = None if view.payload is None else json.loads(view.payload)
        values = dict(zip(self.engine.config.names, view.values, strict=True))
        return {"location": list(view.location), "values": values, "payload": payload, "created": view.created}


class DeleteObjectsPlan(ObjectPlan):
    """Objects that go."""

    command: DeleteObjects

    def __init__(self, engine: MapEngine, command: DeleteObjects, owner: int, undo: Undo) -> None:
        super().__init__(engine, command, len(command), owner, undo)
        self._slots: list[int] = []

    def _change(self, lo: int, hi: int) -> Changes:
        objects = self.engine.table
        self._slots = [objects.names.find(key) for key in self.command.ids[lo:hi]]
        n, d = hi - lo, len(objects.signs)
        gone = np.array(self._slots, np.int64)
        nothing = np.full((n, 2), np.nan), np.full((n, d), np.nan)
        return Changes(gone, np.zeros(n, bool), *nothing, np.zeros(n, np.int64))

    def _show(self, lo: int, hi: int) -> None:
        objects = self.engine.table
        self._swap_names()
        for key, slot in zip(self.command.ids[lo:hi], self._slots, strict=True):
            objects.forget(key, slot)
