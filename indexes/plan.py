"""Accepted commands on their way, as engines of subscriptions have them: each is painted by kernels and then settled
where it can be seen.

`paint` changes tables and indexes and may run in any one thread; `settle` names what has changed. The state between two
slices is exact at its own seq, and it is only there that anything is read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Generic, Protocol, TypeVar

from indexes.beside import Beside
from indexes.commands import Fault

SLICE = 0.005
"""Seconds of a slice where nothing else has a turn."""

LONG = 1.0
"""Seconds that work beside is said to take: more than is done at once, whatever it is."""


class Numbered(Protocol):
    """An engine, as far as seqs go."""

    seq: int
    next_seq: int


class Sliced(Protocol):
    """A plan of an engine, as far as slices go."""

    done: bool

    def paint(self, budget: float) -> None: ...

    def settle(self) -> Any: ...


E = TypeVar("E", bound=Numbered)
F = TypeVar("F")
P = TypeVar("P", bound=Sliced)


class Plan(ABC, Generic[E]):
    """One accepted command.

    `command` is what the log keeps; `count` single changes take the seqs first_seq..last_seq (none: nothing is logged).
    `faults` are the elements that were skipped, `positions` the original places of the others. `silent` plans (replay)
    tell no one.
    """

    alone = True

    def __init__(self, engine: E, command: Any, count: int) -> None:
        self.engine = engine
        self.command = command
        self.count = count
        self.first_seq = engine.next_seq
        self.last_seq = engine.next_seq + count - 1
        self.faults: list[Fault] = []
        self.positions: list[int] | None = None
        self.silent = False
        self.done = False
        engine.next_seq += count

    @property
    def work(self) -> float:
        """Seconds that painting is estimated to take."""
        return 0.0

    def told(self) -> dict[str, Any]:
        """What only applying tells of an answer."""
        return {}

    @abstractmethod
    def paint(self, budget: float) -> None:
        """Do kernel work for about `budget` seconds."""

    @abstractmethod
    def settle(self) -> Any:
        """Make visible what was painted; returns what live subscriptions must hear of, if anything."""

    def cancel(self) -> None:
        """Take the command back: it could not be logged. Newest plans first."""
        self.engine.next_seq = self.first_seq


class SamePlan(Plan[E]):
    """A command that changes nothing: nothing is logged."""

    def __init__(self, engine: E, command: Any = None) -> None:
        super().__init__(engine, command, 0)
        self.done = True

    def paint(self, budget: float) -> None:
        """Nothing to do."""

    def settle(self) -> None:
        """Nothing to see."""


class AsidePlan(Plan[E], Generic[E, F]):
    """A command whose long part only reads: `look` is done beside where it takes long, while slices without work let
    reads go in between, and no change of the resource has its turn. `take` then makes the change."""

    def __init__(self, engine: E, command: Any, count: int) -> None:
        super().__init__(engine, command, count)
        self._beside: Beside[F] | None = None
        self._ready = False

    @property
    @abstractmethod
    def seconds(self) -> float:
        """What looking is estimated to take."""

    @abstractmethod
    def look(self) -> F:
        """Find out what is needed, in any thread."""

    @abstractmethod
    def take(self, found: F) -> None:
        """Make the change, as far as `paint` does."""

    @abstractmethod
    def show(self) -> Any:
        """Make the change visible: see `settle`."""

    @property
    def work(self) -> float:
        return LONG if self._beside is not None else self.seconds

    def paint(self, budget: float) -> None:
        if self._ready:
            return
        if self._beside is None and self.seconds < budget:
            self.take(self.look())
        else:
            self._beside = self._beside or Beside(self.look)
            if not self._beside.done(budget):
                return
            self.take(self._beside.found)
        self._ready = True

    def settle(self) -> Any:
        if not self._ready or self.done:
            return None
        self.done = True
        if self.count:
            self.engine.seq = self.last_seq
        return self.show()


def applied(plan: P) -> tuple[P, list[Any]]:
    """Paint and settle a plan, in slices; returns it, and what live subscriptions must hear of."""
    heard = []
    while not plan.done:
        plan.paint(SLICE)
        part = plan.settle()
        if part is not None:
            heard.append(part)
    return plan, heard
