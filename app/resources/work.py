"""What the writer needs of accepted commands and other work on a resource of any type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable


class Work(Protocol):
    """Something to be applied, in slices: `execute` in any one thread, `publish` on the loop, until it is done.

    Calls after that do nothing.
    """

    @property
    def done(self) -> bool: ...
    def execute(self, budget: float) -> None:
        """Do kernel work for about `budget` seconds."""

    def publish(self) -> Any:
        """Make visible what was computed; return the argument for `on_slice` of the resource type, None for nothing."""


class Job(Work, Protocol):
    """What the writer needs of an accepted command; `indexes.boards.plans.commands.Plan` is one.

    `count` single changes take the seqs `first_seq` to `last_seq` (none: nothing is logged). A `silent` job has
    no recipients, and its response fields may be wrong. One that is not `alone` may be applied in one pass with
    others of its resource (`ResourceType.together`).
    """

    command: Any
    count: int
    first_seq: int
    last_seq: int
    silent: bool
    counted: bool

    @property
    def work(self) -> float:
        """Seconds that executing is estimated to take."""

    @property
    def alone(self) -> bool: ...
    def lets_begin(self, following: Any) -> bool:
        """Whether the job behind it may be executed before what was executed of this one is published: see
        `indexes.core.plan.Plan`.
        """

    def response_fields(self) -> dict[str, Any]:
        """The fields of the response that only applying gives."""

    def fields_of(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        """The same for one response of several, which a `counted` job knows: see `indexes.core.plan.Plan`."""

    def cancel(self) -> None:
        """Roll back: it could not be logged. Newest jobs first."""


@runtime_checkable
class Droppable(Protocol):
    """A job that only answers, so that it need not be done where nobody waits for it any more."""

    def drop(self) -> None:
        """Be done as soon as possible."""


class Capture(Job, Protocol):
    """A job that copies the state of a resource."""

    captured: Any
