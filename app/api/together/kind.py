"""What requests of one kind are, and how those of one resource are carried out together."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, NamedTuple, Protocol

from app.security.callers import Caller
from app.security.scopes import Need
from app.write_path.idempotency import Ticket


class Answer(NamedTuple):
    """The status and the JSON text of an answer, and what is kept of it for a retry."""

    status: int
    body: bytes
    kept: dict[str, Any]


Place = tuple[bytes, bytes, bytes]
"""The method of requests of a kind, their type of resource, and the part of the path behind its name."""


class Elsewhere(Exception):
    """A request takes the usual way."""


class ShortRequest(Protocol):
    """A small write that is complete, as `app.server.short` reads it off a connection.

    `id` is that in its path, `query` what follows the path, `key` its Idempotency-Key, empty without one, `began` when
    its head was read, by `time.perf_counter`.
    """

    kind: Kind
    method: str
    name: str
    id: str
    query: bytes
    host: bytes
    authorization: bytes
    key: bytes
    body: bytes
    began: float

    @property
    def path(self) -> str:
        """The path, which has no escapes."""

    def answer(self, status: int, body: bytes, headers: Sequence[tuple[bytes, bytes]] | None = None) -> None:
        """Send the answer, unless the client is gone. It is JSON where no other headers are given."""

    def take_usual_way(self) -> None:
        """Let the routes carry it out."""

    def at_end_of_turn(self, fn: Callable[[], None]) -> None:
        """Call a function once everything that has come on connections is read."""

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task that the server waits for when it ends."""


class Kind(Protocol):
    """Requests that can be carried out together. `route` is their path in metrics."""

    route: str

    def need(self, name: str) -> Need:
        """The right that a request about this resource takes."""

    def read(self, request: ShortRequest, caller: Caller) -> Any:
        """What a request says. Raises whatever makes it take the usual way."""

    def apply(self, name: str, items: Sequence[Any], tickets: Sequence[Ticket | None]) -> Awaitable[Any]:
        """Carry out the requests about one resource, in order, and return the job. Responses to those with a ticket are
        stored with it. Raises where nothing was changed."""

    def answers(self, job: Any, items: Sequence[Any]) -> Awaitable[list[Answer | None]]:
        """The answers to the requests; None for each that does not apply, and has changed nothing."""
