"""Plans that add, change and delete subscriptions of a matcher; see `indexes.core.plan`. An index that has to be
rebuilt is rebuilt in a background thread, while slices without work let reads continue."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar, NamedTuple

import numpy as np

from indexes.core import edit_plan, subscription_plans
from indexes.core.background import BackgroundTask
from indexes.core.cost import Cost
from indexes.core.ids import pack
from indexes.core.names import Merged, Names
from indexes.core.pending_subscriptions import Undo
from indexes.core.plan import LONG
from indexes.matchers.commands import AddSubscriptions, DeleteSubscriptions, SetSubscriptions, SubscriptionState
from indexes.matchers.matcher import LaidOut, Places
from indexes.matchers.results import Slice, SubscriptionSet
from indexes.matchers.store import MatcherStore

CHANGE = Cost(1e-5, fixed=True)
"""Estimate of what one of many changes takes, executed and published."""

SETTING = Cost(3.5e-6, fixed=True)
"""The same for subscriptions that are set, which are found by their ids and changed by column."""

AT_A_TIME = 512
"""Changes for which the indexes must have room without a long step: as many as a slice has."""

NOBODY = np.empty(0, np.int32)


class Room(NamedTuple):
    """Indexes and names with room for changes, None where there was room, and short steps that make more of it."""

    laid_out: LaidOut | None
    merged: Merged | None
    steps: list[Callable[[], None]]


class EditPlan(edit_plan.EditPlan[MatcherStore]):
    """Subscriptions made, changed or deleted."""

    at_once: ClassVar[int] = 1 << 30

    _task: BackgroundTask[Room] | None = None
    _steps: list[Callable[[], None]] = []  # noqa: RUF012 -- never changed in place
    _rows = NOBODY

    @property
    def _cost(self) -> Cost:
        return CHANGE

    @property
    def _ids(self) -> Names:
        return self.engine.matcher.names

    @property
    def work(self) -> float:
        waits = self._task is not None or self._steps or self._lacks_room
        return LONG if waits else CHANGE.seconds * self._left

    @property
    def _lacks_room(self) -> bool:
        """Whether the table, the indexes or the names cannot take what is left as they are."""
        matcher, left = self.engine.matcher, self._left
        return matcher.crowded(left) or self._ids_are_crowded or matcher.tight(min(left, AT_A_TIME))

    def _make_room(self) -> Room:
        """Rebuild or merge what has no room, in any thread while nothing changes."""
        matcher, left = self.engine.matcher, self._left
        laid_out = matcher.lay_out() if matcher.crowded(left) else None
        steps = matcher.relieved(min(left, AT_A_TIME)) if laid_out is None else []
        return Room(laid_out, matcher.names.merged() if self._ids_are_crowded else None, steps)

    def _has_room(self, budget: float) -> bool:
        """Whether changes can be made now. If not, room is made in the background, waiting for at most `budget`
        seconds; what is ready is then put in place step by step."""
        if self._steps:
            self.engine.matcher.take(self._steps.pop())
            return False
        if self._task is None:
            if not self._lacks_room:
                return True
            self._task = BackgroundTask(self._make_room)
        if not self._task.done(budget):
            return False
        laid_out, merged, self._steps = self._task.result
        self._merged, self._task = merged or self._merged, None
        if laid_out is not None:
            self._take_up(laid_out)
        return not self._steps and self._left > 0

    def _take_up(self, laid_out: LaidOut) -> None:
        self.engine.matcher.take_up(laid_out)


class AddPlan(EditPlan, subscription_plans.AddPlan[MatcherStore]):
    """New subscriptions: some at a time or, when they are more than the indexes take, all at once with rebuilt
    indexes."""

    command: AddSubscriptions

    def _make_room(self) -> Room:
        matcher, command = self.engine.matcher, self.command
        if not matcher.crowded(self._left):
            return super()._make_room()
        laid_out = matcher.lay_out(command.subscriptions)
        packed = self.packed or pack(command.ids, np.arange(self.count, dtype=np.int32))
        return Room(laid_out, matcher.names.merged(packed._replace(row=laid_out.rows[packed.row])), [])

    def _take_up(self, laid_out: LaidOut) -> None:
        super()._take_up(laid_out)
        self._executed = self.count

    def _change(self, lo: int, hi: int) -> None:
        self._rows = self.engine.matcher.hold(self.command.subscriptions.take(slice(lo, hi)))

    def _show(self, lo: int, hi: int) -> None:
        # Those that were laid out with all others are in the merged names.
        first = hi - len(self._rows)
        self.engine.matcher.names.note(self.command.ids.slice(first, hi - first), self._rows)
        self._set_limits(lo, hi)


class SetPlan(EditPlan):
    """Subscriptions made or replaced, some at a time. `outcomes`: what becomes of each change that was asked for, None
    where it does not apply."""

    command: SetSubscriptions

    def __init__(
        self,
        engine: MatcherStore,
        command: SetSubscriptions,
        owner: int,
        undo: Undo[SubscriptionState],
        places: Places,
        outcomes: list[SubscriptionSet | None],
    ) -> None:
        super().__init__(engine, command, len(command), owner, undo)
        self.outcomes = outcomes
        self._places = places
        self._keys = command.ids
        self._new: list[str] = []

    @property
    def _cost(self) -> Cost:
        return SETTING

    def lifetimes(self) -> Iterator[tuple[str, float | None]]:
        return zip(self._keys, map(self.command.ttl.get, range(self.count)), strict=True)

    def _change(self, lo: int, hi: int) -> None:
        matcher, subscriptions, keys = self.engine.matcher, self.command.subscriptions, self._keys
        if hi - lo < self.count:
            subscriptions, keys = subscriptions.take(slice(lo, hi)), keys[lo:hi]
        if len(keys) > 1:
            # Of several changes of one the last remains, and it is as old as the first.
            last = {key: i for i, key in enumerate(keys)}
            if len(last) < len(keys):
                subscriptions, keys = subscriptions.take(list(last.values())), list(last)
        places = matcher.rows_of(keys, self._places)
        rows = np.array(places, np.int32)
        self._new, self._rows = [], NOBODY
        if min(places) >= 0:
            matcher.rewrite(rows, subscriptions)
            return
        new = [i for i, row in enumerate(places) if row < 0]
        self._new = [keys[i] for i in new]
        if len(new) < len(keys):
            old = np.flatnonzero(rows >= 0)
            matcher.rewrite(rows[old], subscriptions.take(old))
            subscriptions = subscriptions.take(new)
        self._rows = matcher.hold(subscriptions)

    def _show(self, lo: int, hi: int) -> None:
        engine, ttl = self.engine, self.command.ttl
        for key, row in zip(self._new, self._rows.tolist(), strict=True):
            engine.matcher.names.note_one(key, row)
        for i in range(lo, hi) if ttl or engine.ttl else ():
            engine.limit(self._keys[i], ttl.get(i))


class DeletePlan(EditPlan, subscription_plans.DeletePlan[MatcherStore]):
    """Subscriptions deleted, some at a time."""

    command: DeleteSubscriptions

    @property
    def _lacks_room(self) -> bool:
        return False

    def _change(self, lo: int, hi: int) -> None:
        matcher, keys = self.engine.matcher, self.command.ids[lo:hi]
        self._rows = matcher.names.find_all(keys)
        matcher.withdraw(self._rows)

    def _show(self, lo: int, hi: int) -> Slice | None:
        engine = self.engine
        for key, row in zip(self.command.ids[lo:hi], self._rows.tolist(), strict=True):
            engine.matcher.names.delete(key, row)
        gone = self._forget(lo, hi)
        return Slice(engine.seq, [], gone) if gone else None
