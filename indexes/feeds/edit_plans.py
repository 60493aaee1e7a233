"""Accepted changes of a feed's subscriptions on their way: see `indexes.plan`. Each that asks something new is an
evaluation; very many are laid out together at the end, beside, while reads go on."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from indexes.beside import Beside
from indexes.cost import Cost
from indexes.feeds.commands import AddSubscriptions, DeleteSubscriptions, SetSubscription
from indexes.feeds.live import Views
from indexes.feeds.model import Standing, Subscriptions
from indexes.feeds.views import Slice
from indexes.names import Merged
from indexes.plan import LONG
from indexes.plan import Plan as AnyPlan
from indexes.promised import Undo

if TYPE_CHECKING:
    from indexes.feeds.engine import FeedEngine

AT_ONCE = 512
"""Subscriptions in one chunk, at most."""

MANY = 4_096
"""So many new ones are laid out together, where they are at least half as many as are there."""


class EditPlan(AnyPlan["FeedEngine"]):
    """Subscriptions that are made, changed or deleted."""

    def __init__(self, engine: FeedEngine, command: Any, count: int, owner: int, undo: Undo[Standing]) -> None:
        super().__init__(engine, command, count)
        self._owner = owner
        self._undo = undo
        self._merging: Beside[Merged] | None = None
        self._merged: Merged | None = None
        self._painted = 0
        self._settled = 0
        self.done = count == 0

    @abstractmethod
    def lifetimes(self) -> Iterator[tuple[str, float | None]]:
        """Ids with the seconds that they may stay unused from now on, None for ever or gone. New ones without a limit
        are left out."""

    @property
    @abstractmethod
    def _cost(self) -> Cost:
        """What one of them takes."""

    @property
    def work(self) -> float:
        if self._merging is not None or self._names_are_crowded:
            return LONG
        return self._cost.seconds * (self.count - self._painted)

    @property
    def _names_are_crowded(self) -> bool:
        return self._merged is None and self.engine.names.crowded

    def _has_room(self, budget: float) -> bool:
        if self._merging is None:
            if not self._names_are_crowded:
                return True
            self._merging = Beside(self.engine.names.merged)
        if not self._merging.done(budget):
            return False
        self._merged, self._merging = self._merging.found, None
        return True

    def paint(self, budget: float) -> None:
        if self._painted == self.count or not self._has_room(budget):
            return
        end = self._painted + self._cost.fit(budget, min(AT_ONCE, self.count - self._painted))
        began = time.perf_counter()
        self._change(self._painted, end)
        self._cost.learn(time.perf_counter() - began, end - self._painted)
        self._painted = end

    @abstractmethod
    def _change(self, lo: int, hi: int) -> None:
        """Do these."""

    def settle(self) -> Slice | None:
        engine, lo, hi = self.engine, self._settled, self._painted
        if lo == hi:
            return None
        if self._merged is not None:
            engine.names.swap(self._merged)
            self._merged = None
        engine.seq = self.first_seq + hi - 1
        heard = self._show(lo, hi)
        self._settled = hi
        if hi == self.count:
            self._finish()
        return None if self.silent else heard

    def _finish(self) -> None:
        self.done = True
        self.engine.pending.settle(self._owner, self._undo)

    @abstractmethod
    def _show(self, lo: int, hi: int) -> Slice | None:
        """Let what was painted of these be found; returns what live subscriptions hear."""

    def cancel(self) -> None:
        self.engine.pending.take_back(self._owner, self._undo)
        super().cancel()


class AddPlan(EditPlan):
    """New subscriptions."""

    command: AddSubscriptions

    def __init__(self, engine: FeedEngine, command: AddSubscriptions, owner: int, undo: Undo[Standing]) -> None:
        super().__init__(engine, command, len(command), owner, undo)
        self._slots = np.empty(0, np.int64)
        self._together: bool | None = None
        self._laying_out: Generator[None, None, None] | None = None

    def lifetimes(self) -> Iterator[tuple[str, float | None]]:
        return ((self.command.ids[i].as_py(), seconds) for i, seconds in self.command.ttl.items())

    @property
    def work(self) -> float:
        return LONG if self._laying_out is not None else super().work

    @property
    def _cost(self) -> Cost:
        return self.engine.subscribe_cost

    def paint(self, budget: float) -> None:
        if self._together is None:
            self._together = MANY <= self.count >= self.engine.subscription_count / 2
        if self._laying_out is None:
            super().paint(budget)
            if self._together and self._painted == self.count > 0:
                self._laying_out = self.engine.index.lay_out_steps()
            return
        until = time.perf_counter() + budget
        for _ in self._laying_out:
            if time.perf_counter() > until:
                return
        self._together, self._laying_out = False, None

    def settle(self) -> Slice | None:
        heard = super().settle()
        if not self.done and self._settled == self.count and not self._together:
            super()._finish()
        return heard

    def _finish(self) -> None:
        """Those that are laid out together are found by posts only then."""
        if not self._together:
            super()._finish()

    def _change(self, lo: int, hi: int) -> None:
        self._slots = self.engine.enter(self.command.subscriptions.part(lo, hi), lay_out=not self._together)

    def _show(self, lo: int, hi: int) -> Slice | None:
        engine, command = self.engine, self.command
        keys = command.ids.slice(lo, hi - lo).to_pylist()
        for i, (key, slot) in enumerate(zip(keys, self._slots.tolist(), strict=True), lo):
            engine.names.note_one(key, slot)
            if i in command.ttl:
                engine.ttl[key] = command.ttl[i]
        return None


class SetPlan(EditPlan):
    """One subscription made or changed. `made`: it is new."""

    command: SetSubscription

    def __init__(
        self, engine: FeedEngine, command: SetSubscription, owner: int, undo: Undo[Standing], made: bool, same: bool
    ) -> None:
        super().__init__(engine, command, 1, owner, undo)
        self.made = made
        self._same = same
        self._slot = -1

    def lifetimes(self) -> Iterator[tuple[str, float | None]]:
        yield self.command.id, self.command.ttl

    @property
    def _cost(self) -> Cost:
        return self.engine.subscribe_cost

    def _change(self, lo: int, hi: int) -> None:
        engine = self.engine
        if not self.made:
            self._slot = engine.names.find(self.command.id)
        if self._same:
            return
        asked = Subscriptions.of([engine.asked_of(self.command)])
        if self.made:
            [self._slot] = engine.enter(asked).tolist()
        else:
            engine.change(self._slot, asked)

    def _show(self, lo: int, hi: int) -> Slice | None:
        engine, command = self.engine, self.command
        if self.made:
            engine.names.note_one(command.id, self._slot)
        if command.ttl is None:
            engine.ttl.pop(command.id, None)
        else:
            engine.ttl[command.id] = command.ttl
        if self._same or not engine.live:
            return None
        return Slice(engine.seq, engine.live.look(self._slot, engine.seq, Views(engine.posts_kept)), [])


class DeletePlan(EditPlan):
    """Subscriptions deleted."""

    command: DeleteSubscriptions

    def __init__(self, engine: FeedEngine, command: DeleteSubscriptions, owner: int, undo: Undo[Standing]) -> None:
        super().__init__(engine, command, len(command), owner, undo)
        self._slots: list[int] = []

    def lifetimes(self) -> Iterator[tuple[str, float | None]]:
        return ((key, None) for key in self.command.ids)

    @property
    def _cost(self) -> Cost:
        return self.engine.drop_cost

    def _change(self, lo: int, hi: int) -> None:
        self._slots = [self.engine.names.find(key) for key in self.command.ids[lo:hi]]
        self.engine.leave(np.array(self._slots, np.int64))

    def _show(self, lo: int, hi: int) -> Slice | None:
        engine = self.engine
        gone = []
        for i, slot in enumerate(self._slots, lo):
            key = self.command.ids[i]
            engine.names.delete(key, slot)
            engine.ttl.pop(key, None)
            if engine.live.gone(slot) is not None:
                gone.append((self.first_seq + i, key))
        return Slice(engine.seq, [], gone) if gone else None
