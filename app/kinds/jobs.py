"""What the writer needs of accepted commands and other work on a resource, whatever its kind."""

from __future__ import annotations

from typing import Any, Protocol


class Work(Protocol):
    """Something to be applied, in slices: `paint` in any one thread, `settle` on the loop, until it is done. What is
    done may be asked once more; nothing happens then."""

    @property
    def done(self) -> bool: ...
    def paint(self, budget: float) -> None:
        """Do kernel work for about `budget` seconds."""

    def settle(self) -> Any:
        """Make visible what was painted; returns what the kind's `on_slice` is to be told, None for nothing."""


class Job(Work, Protocol):
    """What the writer needs of an accepted command; `indexes.boards.plans.Plan` is one.

    `count` single changes take the seqs `first_seq` to `last_seq` (none: nothing is logged). A `silent` job tells no
    one, and what only applying tells need not be right then. One that is not `alone` may be applied in one pass with
    others of its resource (`Kind.together`).
    """

    command: Any
    count: int
    first_seq: int
    last_seq: int
    silent: bool

    @property
    def work(self) -> float:
        """Seconds that painting is estimated to take."""

    @property
    def alone(self) -> bool: ...
    def told(self) -> dict[str, Any]:
        """The fields of an answer that only applying tells."""

    def cancel(self) -> None:
        """Take it back: it could not be logged. Newest jobs first."""


class Capture(Job, Protocol):
    """A job that copies the state of a resource."""

    captured: Any
