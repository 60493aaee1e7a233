"""The life of a plan, which is an accepted command in execution.

    plan = engine.prepare(command)      check the command and reserve what it needs
    while not plan.done:
        plan.execute(0.005)             compute for about 5 ms, in any one thread
        plan.publish()                  make the result visible, on the event loop

*Prepare.* A command is checked against the state that it will meet: what is applied, together with the pending state of
the commands accepted before it. The plan reserves the seqs `first_seq` to `last_seq`, one for each single change, and
the outcome of the command becomes pending state. The command is then written to the log.

*Execute and publish.* The plans of an engine run one after another, in the order in which they were accepted. `execute`
changes tables and indexes; `publish` makes visible what was executed since the last time and returns the notifications
of live subscriptions. One pair of calls is a slice. After it the engine's `seq` has advanced, and its state is exact at
that seq; reads take place between two slices only. With the last slice the plan is `done`, and its pending state is
settled. If a plan `lets_begin` the next one, that may be executed before the last slice is published.

*Cancel.* A plan whose command cannot be logged has not begun. `cancel` gives back its seqs and its pending state; plans
are cancelled newest first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from indexes.core.background import BackgroundTask
from indexes.core.commands import Fault

SLICE = 0.005
"""Seconds of a slice in `applied`."""

LONG = 1.0
"""The estimate, in seconds, for work of unknown length: more than is executed on the event loop."""


class Numbered(Protocol):
    """The seqs of an engine: of the last change that is visible, and of the next that is accepted."""

    seq: int
    next_seq: int


class Sliced(Protocol):
    """A plan as `applied` runs it."""

    done: bool

    def execute(self, budget: float) -> None: ...

    def publish(self) -> Any: ...


E = TypeVar("E", bound=Numbered)
R = TypeVar("R")
P = TypeVar("P", bound=Sliced)


class Plan(ABC, Generic[E]):
    """One accepted command.

    `command` is logged; its `count` single changes take the seqs `first_seq` to `last_seq`. A plan without changes is
    not logged. `faults` are about the elements that were skipped, `positions` the original places of the others, None
    if none was skipped. A `silent` plan (replay of the log) makes no notifications. A `counted` one keeps what
    `fields_of` needs for each of several requests.
    """

    def __init__(self, engine: E, command: Any, count: int) -> None:
        self.engine = engine
        self.command = command
        self.count = count
        self.first_seq = engine.next_seq
        self.last_seq = engine.next_seq + count - 1
        self.faults: list[Fault] = []
        self.positions: list[int] | None = None
        self.silent = False
        self.counted = False
        self.done = False
        engine.next_seq += count

    @property
    def work(self) -> float:
        """Estimate of the remaining seconds of `execute`."""
        return 0.0

    @property
    def alone(self) -> bool:
        """Whether it cannot be combined with other plans into one pass."""
        return True

    def lets_begin(self, following: Any) -> bool:
        """Whether the next plan may be executed before this one is published: all of this one has been executed, and
        its `publish` reads nothing that the other's `execute` changes."""
        return False

    def response_fields(self) -> dict[str, Any]:
        """The fields of a response that are known only once the plan is done."""
        return {}

    def fields_of(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """As `response_fields`, for the `answer` to one of the plan's requests, which has the `seq` of its last change
        and how many were `applied`."""
        return self.response_fields()

    def results_of(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """`fields_of` for a plan with one result per element. An answer about some of the elements, which end at its
        `seq`, already has a list of as many `results`; one about all elements may have none."""
        results, count = self.response_fields()["results"], len(answer.get("results", ()))
        end = int(answer["seq"]) - self.first_seq + 1
        return {"results": results[end - count : end] if 0 < count < self.count else results}

    @abstractmethod
    def execute(self, budget: float) -> None:
        """Compute for about `budget` seconds."""

    @abstractmethod
    def publish(self) -> Any:
        """Make visible what was executed; returns the notifications of live subscriptions, None for none."""

    def cancel(self) -> None:
        """Undo the acceptance of a command that could not be logged. Newest plans first."""
        self.engine.next_seq = self.first_seq


class SamePlan(Plan[E]):
    """A command that changes nothing and is not logged."""

    def __init__(self, engine: E, command: Any = None) -> None:
        super().__init__(engine, command, 0)
        self.done = True

    def execute(self, budget: float) -> None:
        """Nothing to do."""

    def publish(self) -> None:
        """Nothing to show."""


class BackgroundPlan(Plan[E], Generic[E, R]):
    """A command in two parts: `read`, which may be long and only reads, and `apply`, which makes the change.

    A `read` that takes longer than a slice runs in a thread of its own. Reads of the engine continue meanwhile, between
    empty slices; other plans of the engine wait. With `in_background` False it is executed in one slice.
    """

    in_background: ClassVar[bool] = True

    def __init__(self, engine: E, command: Any, count: int) -> None:
        super().__init__(engine, command, count)
        self._task: BackgroundTask[R] | None = None
        self._applied = False

    @property
    @abstractmethod
    def seconds(self) -> float:
        """Estimate of the seconds that `read` takes."""

    @abstractmethod
    def read(self) -> R:
        """Compute what the change needs, in any thread."""

    @abstractmethod
    def apply(self, result: R) -> None:
        """Make the change, as part of `execute`."""

    @abstractmethod
    def show(self) -> Any:
        """Make the change visible, as part of `publish`."""

    @property
    def work(self) -> float:
        return LONG if self._task is not None else self.seconds

    def execute(self, budget: float) -> None:
        if self._applied:
            return
        if not self.in_background or (self._task is None and self.seconds < budget):
            self.apply(self.read())
        else:
            self._task = self._task or BackgroundTask(self.read)
            if not self._task.done(budget):
                return
            self.apply(self._task.result)
        self._applied = True

    def publish(self) -> Any:
        if not self._applied or self.done:
            return None
        self.done = True
        if self.count:
            self.engine.seq = self.last_seq
        return self.show()


def applied(plan: P) -> tuple[P, list[Any]]:
    """Execute and publish a plan, slice by slice; returns it with its notifications."""
    notifications = []
    while not plan.done:
        plan.execute(SLICE)
        part = plan.publish()
        if part is not None:
            notifications.append(part)
    return plan, notifications
