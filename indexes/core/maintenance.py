"""Plans that maintain an engine: copy its state for a snapshot, and put freshly packed indexes in place.

As plans they are executed in the order of the resource's commands: all accepted before them have been applied, none
accepted after them has, and reads continue. Neither changes any response; neither is logged.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from typing import Generic, TypeVar

from indexes.core.plan import LONG, BackgroundPlan, E, Plan

C = TypeVar("C")


class CapturePlan(BackgroundPlan[E, C], Generic[E, C]):
    """Copies the state of an engine to `captured`, at some nanoseconds a byte.

    With `indexes` the copy includes the indexes, for verification. With `journal` the engine records changes from then
    on, for a `FoldPlan`.
    """

    def __init__(self, engine: E, journal: bool = False, indexes: bool = False) -> None:
        super().__init__(engine, None, 0)
        self._with_journal = journal
        self._with_indexes = indexes
        self.captured: C | None = None

    def apply(self, result: C) -> None:
        self.captured = result
        if self._with_journal:
            self.begin_journal()

    def begin_journal(self) -> None:
        """Let the engine record what changes. Engines that are folded in one go need no journal."""

    def show(self) -> None:
        """Nothing has changed."""


class FoldPlan(Plan[E]):
    """Brings freshly packed indexes up to date with what changed since the capture, and puts them in place.

    One plan folds in a limited number of changes. The one that leaves none has `swapped` the indexes; until then
    further plans have to follow. It is `abandoned` if the journal has ended, since the indexes were rebuilt meanwhile.
    `seconds` is the time spent in `execute`. `replaced` are the indexes that were in use before.
    """

    def __init__(self, engine: E) -> None:
        super().__init__(engine, None, 0)
        self.swapped = False
        self.abandoned = False
        self.seconds = 0.0
        self.replaced: tuple[object, ...] = ()

    @property
    def work(self) -> float:
        return LONG

    def execute(self, budget: float) -> None:
        began = time.perf_counter()
        self._fold(budget)
        self.seconds += time.perf_counter() - began

    @abstractmethod
    def _fold(self, budget: float) -> None:
        """Fold changes in, and set `swapped` or `abandoned`."""

    def publish(self) -> None:
        if self.swapped:
            self._swap()
        self.done = True

    def _swap(self) -> None:
        """Put the indexes in place."""

    def release(self) -> None:
        """Free the replaced indexes, which takes milliseconds if they are large: in any thread, and after the plan, for
        which commands wait."""
        self.replaced = ()
