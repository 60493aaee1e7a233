"""Plans that add, change and delete subscriptions of a board."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from indexes.boards.commands import AddSubscriptions, DeleteSubscriptions, SetSubscription, SubscriptionState
from indexes.boards.regions import Regions
from indexes.boards.results import ListChange, Slice, SubscriptionEdit
from indexes.boards.store import BoardStore
from indexes.boards.subscriptions import AcceptedAddition, Reservation
from indexes.core import edit_plan
from indexes.core.arrays import Rows
from indexes.core.cost import Cost
from indexes.core.front_coding import CodedIdMap

ADD_COST = Cost(3e-6, fixed=True)
"""What adding one of many subscriptions takes."""

EDIT_COST = Cost(4e-6, fixed=True)
"""What changing or deleting one of many subscriptions takes."""


class EditPlan(edit_plan.EditPlan[BoardStore]):
    """Subscriptions that are added, changed or deleted."""

    at_once = 1 << 30

    def __init__(self, engine: BoardStore, command: Any, count: int, reservation: Reservation) -> None:
        super().__init__(engine, command, count, reservation.owner, reservation.undo)
        self._reservation = reservation

    @property
    def _ids(self) -> CodedIdMap:
        return self.engine.subscribers.ids

    @property
    def _cost(self) -> Cost:
        return EDIT_COST

    def _finish(self) -> None:
        super()._finish()
        self.engine.subscribers.settle(self._reservation)

    def cancel(self) -> None:
        self.engine.subscribers.roll_back(self._reservation)
        super().cancel()


class AddPlan(EditPlan):
    """New subscriptions, all in one slice."""

    command: AddSubscriptions

    def __init__(self, engine: BoardStore, accepted: AcceptedAddition) -> None:
        super().__init__(engine, accepted.command, len(accepted.command), accepted.reservation)
        self.faults, self.positions = accepted.faults, accepted.positions
        self._added = accepted.coded
        self._packed = accepted.packed
        self._sids: Rows = np.empty(0, np.int32)

    def lifetimes(self) -> Iterator[tuple[str, float | None]]:
        return ((self.command.ids[i].as_py(), seconds) for i, seconds in self.command.ttl.items())

    @property
    def _cost(self) -> Cost:
        return ADD_COST

    @property
    def _ids_are_crowded(self) -> bool:
        # Recent ids are merged together with packed ones.
        return self._packed is None and super()._ids_are_crowded

    def execute(self, budget: float) -> None:
        if self._left and self._has_room(budget):
            self._change(0, self.count)
            self._executed = self.count

    def _change(self, lo: int, hi: int) -> None:
        subscribers, painter, added = self.engine.subscribers, self.engine.painter, self._added
        self._sids = sids = subscribers.pool.take_many(self.count)
        depth = added.depth
        for k in np.unique(depth).tolist():
            mine = np.flatnonzero(depth == k)
            painter.insert(k, sids[mine], added.regions.take(mine))
        if self._packed is not None:
            self._merged = subscribers.ids.merged(self._packed._replace(row=sids[self._packed.row]))
        subscribers.prepare(sids, added)

    def _show(self, lo: int, hi: int) -> None:
        self.engine.subscribers.add(self._sids, self._added, packed=self._packed is not None)


class SetPlan(EditPlan):
    """One subscription added (`made`) or changed; `state` is the one it will have."""

    command: SetSubscription

    def __init__(
        self,
        engine: BoardStore,
        command: SetSubscription,
        state: SubscriptionState,
        reservation: Reservation,
        made: bool,
    ) -> None:
        super().__init__(engine, command, 1, reservation)
        self.made = made
        self._state = state
        self._sid = -1

    def lifetimes(self) -> Iterator[tuple[str, float | None]]:
        yield self.command.id, self._state.ttl

    def _change(self, lo: int, hi: int) -> None:
        subscribers, painter = self.engine.subscribers, self.engine.painter
        if self.made:
            self._sid = subscribers.pool.take()
        else:
            self._sid = subscribers.ids.find(self.command.id)
            before = subscribers.state_of(self._sid)
            painter.delete(before.k, *self._column(before))
        painter.insert(self._state.k, *self._column(self._state))

    def _column(self, state: SubscriptionState) -> tuple[Rows, Regions]:
        return np.array([self._sid], np.int32), Regions.of([state.region], self.engine.subscribers.regions.d)

    def _show(self, lo: int, hi: int) -> Slice | None:
        engine, sid, state = self.engine, self._sid, self._state
        edits: tuple[SubscriptionEdit, ...] = ()
        if self.made:
            engine.subscribers.ids.insert(self.command.id, sid)
        elif engine.config.cut is not None:
            before = engine.subscribers.regions.at(sid).ends[0]
            edits = (SubscriptionEdit(engine.seq, self.command.id, before, state.region.ends[0]),)
        engine.subscribers.put(sid, state)
        live = engine.live_of.get(sid)
        if live is None:
            return Slice(engine.seq, [], [], [], [], edits=edits) if edits else None
        shifted = (live,) if engine.offset_of(live) != state.offset else ()
        change = ListChange(engine.seq, live, engine.move_live(live, state))
        return Slice(engine.seq, [change], [], [(engine.seq, live)], [], shifted, edits=edits)


class DeletePlan(EditPlan):
    """Subscriptions deleted, some at a time."""

    command: DeleteSubscriptions

    def __init__(self, engine: BoardStore, command: DeleteSubscriptions, reservation: Reservation) -> None:
        super().__init__(engine, command, len(command), reservation)
        self._sids: Rows = np.empty(0, np.int32)

    def lifetimes(self) -> Iterator[tuple[str, float | None]]:
        return ((key, None) for key in self.command.ids)

    def _change(self, lo: int, hi: int) -> None:
        subscribers, painter = self.engine.subscribers, self.engine.painter
        keys = self.command.ids[lo:hi]
        self._sids = sids = np.fromiter(map(subscribers.ids.find, keys), np.int32, len(keys))
        k = subscribers.k[sids]
        for one in np.unique(k).tolist():
            mine = sids[k == one]
            painter.delete(one, mine, subscribers.regions.take(mine))

    def _show(self, lo: int, hi: int) -> Slice | None:
        engine = self.engine
        gone = []
        for i, sid in enumerate(self._sids.tolist(), lo) if engine.live_of else ():
            live = engine.live_of.get(sid)
            if live is not None:
                engine.unwatch(live)
                gone.append((self.first_seq + i, live))
        edits = self._edits(lo, hi) if engine.config.cut is not None else ()
        engine.subscribers.delete(self.command.ids[lo:hi], self._sids)
        return Slice(engine.seq, [], [], [], gone, edits=edits) if gone or edits else None

    def _edits(self, lo: int, hi: int) -> tuple[SubscriptionEdit, ...]:
        regions = self.engine.subscribers.regions
        places = zip(regions.l[self._sids].tolist(), regions.r[self._sids].tolist(), strict=True)
        keys = enumerate(self.command.ids[lo:hi], self.first_seq + lo)
        return tuple(SubscriptionEdit(seq, key, at, None) for (seq, key), at in zip(keys, places, strict=True))
