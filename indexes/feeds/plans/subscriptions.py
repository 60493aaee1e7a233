"""Plans that change the subscriptions of a feed. See `indexes.core.plan`.

Each new or replaced subscription is evaluated; very many new ones are indexed together at the end, in the background.
"""

from __future__ import annotations

import time
from collections.abc import Generator

import numpy as np

from indexes.core import edit_plan, subscription_plans
from indexes.core.cost import Cost
from indexes.core.names import Names
from indexes.core.pending_subscriptions import Undo
from indexes.core.plan import LONG
from indexes.feeds.commands import AddSubscriptions, DeleteSubscriptions, SetSubscription
from indexes.feeds.config import Subscriptions, SubscriptionState
from indexes.feeds.live_lists import Views
from indexes.feeds.results import Slice
from indexes.feeds.store import FeedStore

MANY = 4_096
"""New subscriptions that are indexed together, if they are at least half as many as there are."""


class EditPlan(edit_plan.EditPlan[FeedStore]):
    """Adds, replaces or deletes subscriptions."""

    @property
    def _cost(self) -> Cost:
        return self.engine.subscribe_cost

    @property
    def _ids(self) -> Names:
        return self.engine.names


class AddPlan(EditPlan, subscription_plans.AddPlan[FeedStore]):
    """New subscriptions."""

    command: AddSubscriptions

    _slots = np.empty(0, np.int64)
    _together: bool | None = None
    _laying_out: Generator[None, None, None] | None = None

    @property
    def work(self) -> float:
        return LONG if self._laying_out is not None else super().work

    def execute(self, budget: float) -> None:
        if self._together is None:
            self._together = MANY <= self.count >= self.engine.subscription_count / 2
            if self._together:
                self.engine.expect(self.command.subscriptions)
        if self._laying_out is None:
            super().execute(budget)
            if self._together and self._executed == self.count > 0:
                self._laying_out = self.engine.index.lay_out_steps()
            return
        until = time.perf_counter() + budget
        for _ in self._laying_out:
            if time.perf_counter() > until:
                return
        self._together, self._laying_out = False, None

    def publish(self) -> Slice | None:
        part: Slice | None = super().publish()
        if not self.done and self._published == self.count and not self._together:
            super()._finish()
        return part

    def _finish(self) -> None:
        """Subscriptions that are indexed together are done only once they are."""
        if not self._together:
            super()._finish()

    def _change(self, lo: int, hi: int) -> None:
        self._slots = self.engine.enter(self.command.subscriptions.part(lo, hi), lay_out=not self._together)

    def _show(self, lo: int, hi: int) -> None:
        for key, slot in zip(self._keys(lo, hi), self._slots.tolist(), strict=True):
            self.engine.names.note_one(key, slot)
        self._set_limits(lo, hi)


class SetPlan(EditPlan, subscription_plans.SetPlan[FeedStore]):
    """One subscription added or replaced; `same`: only its time limit changes."""

    command: SetSubscription

    def __init__(
        self,
        engine: FeedStore,
        command: SetSubscription,
        owner: int,
        undo: Undo[SubscriptionState],
        made: bool,
        same: bool,
    ) -> None:
        super().__init__(engine, command, owner, undo, made)
        self._same = same
        self._slot = -1

    def _change(self, lo: int, hi: int) -> None:
        engine = self.engine
        if not self.made:
            self._slot = engine.names.find(self.command.id)
        if self._same:
            return
        query = Subscriptions.of([engine.query_of(self.command)])
        if self.made:
            [self._slot] = engine.enter(query).tolist()
        else:
            engine.change(self._slot, query)

    def _show(self, lo: int, hi: int) -> Slice | None:
        engine = self.engine
        if self.made:
            engine.names.note_one(self.command.id, self._slot)
        self._set_limit()
        if self._same or not engine.live:
            return None
        return Slice(engine.seq, engine.live.change(self._slot, engine.seq, Views(engine.posts_kept)), [])


class DeletePlan(EditPlan, subscription_plans.DeletePlan[FeedStore]):
    """Deleted subscriptions."""

    command: DeleteSubscriptions

    _slots: tuple[int, ...] = ()

    @property
    def _cost(self) -> Cost:
        return self.engine.drop_cost

    def _change(self, lo: int, hi: int) -> None:
        self._slots = tuple(self.engine.names.find(key) for key in self.command.ids[lo:hi])
        self.engine.leave(np.array(self._slots, np.int64))

    def _show(self, lo: int, hi: int) -> Slice | None:
        engine = self.engine
        for key, slot in zip(self.command.ids[lo:hi], self._slots, strict=True):
            engine.names.delete(key, slot)
            engine.live.drop(slot)
        gone = self._forget(lo, hi)
        return Slice(engine.seq, [], gone) if gone else None
