"""Plans for commands on many subscriptions, executed in slices of some of them."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Protocol, TypeVar

from indexes.core.background import BackgroundTask
from indexes.core.cost import Cost
from indexes.core.ids import Mergeable
from indexes.core.pending_subscriptions import PendingSubscriptions, Undo
from indexes.core.plan import LONG, Numbered, Plan

AT_ONCE = 512
"""Most changes of one slice."""


class Edited(Numbered, Protocol):
    """An engine with subscriptions, as far as an edit is concerned."""

    @property
    def pending(self) -> PendingSubscriptions[Any]: ...


S = TypeVar("S", bound=Edited)


class SlicedPlan(Plan[S]):
    """A command on `count` subscriptions, each of which takes one seq.

    `execute` makes as many of the changes as fit in its budget (`_change`), and `publish` makes them visible (`_show`).
    Where there are too many recent ids, they are merged into the sorted ids first, in a background thread; reads
    continue meanwhile. `owner` and `undo` are those of the pending state.
    """

    at_once: ClassVar[int] = AT_ONCE

    def __init__(self, engine: S, command: Any, count: int, owner: int, undo: Undo[Any]) -> None:
        super().__init__(engine, command, count)
        self._owner = owner
        self._undo = undo
        self._merging: BackgroundTask[Any] | None = None
        self._merged: Any = None
        self._executed = 0
        self._published = 0
        self.done = count == 0

    @property
    @abstractmethod
    def _cost(self) -> Cost:
        """The estimated cost of one of the changes."""

    @property
    @abstractmethod
    def _ids(self) -> Mergeable[Any]:
        """The ids of the engine's subscriptions."""

    @property
    def _left(self) -> int:
        return self.count - self._executed

    @property
    def _ids_are_crowded(self) -> bool:
        return self._merged is None and self._ids.crowded

    @property
    def work(self) -> float:
        if self._merging is not None or self._ids_are_crowded:
            return LONG
        return self._cost.seconds * (self.count - self._executed)

    def _has_room(self, budget: float) -> bool:
        """Whether ids can be added. If not, they are merged in the background; waits for at most `budget` seconds."""
        if self._merging is None:
            if not self._ids_are_crowded:
                return True
            self._merging = BackgroundTask(self._ids.merged)
        if not self._merging.done(budget):
            return False
        self._merged, self._merging = self._merging.result, None
        return True

    def execute(self, budget: float) -> None:
        left = self.count - self._executed
        if not left or not self._has_room(budget):
            return
        cost = self._cost
        lo, end = self._executed, self._executed + (1 if left == 1 else cost.fit(budget, min(self.at_once, left)))
        if cost.fixed:
            self._change(lo, end)
        elif left == 1 and not cost.by_thread:
            began = time.perf_counter()
            self._change(lo, end)
            cost.learn_passed(time.perf_counter() - began)
        else:
            # Time in which other threads run would make changes seem long, and long ones are not applied on the loop.
            began = time.thread_time()
            self._change(lo, end)
            cost.learn(time.thread_time() - began, end - lo)
        self._executed = end

    @abstractmethod
    def _change(self, lo: int, hi: int) -> None:
        """Make changes `lo` to `hi` - 1 in tables and indexes."""

    def publish(self) -> Any:
        engine, lo, hi = self.engine, self._published, self._executed
        if lo == hi:
            return None
        if self._merged is not None:
            self._ids.swap(self._merged)
            self._merged = None
        engine.seq = self.first_seq + hi - 1
        notifications = self._show(lo, hi)
        self._published = hi
        if hi == self.count:
            self._finish()
        return None if self.silent else notifications

    @abstractmethod
    def _show(self, lo: int, hi: int) -> Any:
        """Make changes `lo` to `hi` - 1 visible; returns the notifications of live subscriptions, None for none."""

    def _finish(self) -> None:
        self.done = True
        self.engine.pending.settle(self._owner, self._undo)

    def cancel(self) -> None:
        self.engine.pending.roll_back(self._owner, self._undo)
        super().cancel()


class EditPlan(SlicedPlan[S]):
    """A command that adds, changes or deletes subscriptions."""

    @abstractmethod
    def lifetimes(self) -> Iterator[tuple[str, float | None]]:
        """Ids with the seconds that they may stay unused from now on, None for unlimited or deleted. New subscriptions
        without a limit are left out."""
