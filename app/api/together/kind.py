"""What requests of one kind are, and how those of one resource are carried out together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from pydantic_core import SchemaValidator

from app.api.problems import Problem
from app.runtime.tracing import RequestTrace, Sampling
from app.runtime.write_order import WriteOrder
from app.security.callers import Caller
from app.security.scopes import Need
from app.streaming.bursts import Burst
from app.write_path.idempotency import Ticket
from app.write_path.writer import Skeleton

ItemT = TypeVar("ItemT", bound="Item")

MOST = 256
"""Requests of a group, where a verb says nothing else."""


class Answer(NamedTuple):
    """The status and the JSON text of an answer, and what is kept of it for a retry; None for all of it."""

    status: int
    body: bytes
    kept: dict[str, Any] | None


Outcome: TypeAlias = Answer | Problem
"""What became of a request: a problem says why it changed nothing."""

Place: TypeAlias = tuple[bytes, bytes, bytes, int] | tuple[str, str, str, int]
"""The method of requests, their type of resource, the part of the path behind its name, and how many parts there are
between slashes: in bytes as HTTP has them, or as text."""


class Elsewhere(Exception):
    """A request has to take the slow path."""


class Item(Protocol):
    """What a request says. `engine` is that by whose configuration it was read."""

    @property
    def engine(self) -> Any: ...


class Sent(Protocol):
    """A small write that is complete, or several that came as a burst, as they were read off a connection.

    `id` is that in its path, empty where there is none, `query` what follows the path, `key` its Idempotency-Key, empty
    without one, `began` when its head was read, by `time.perf_counter`. `caller` is who sent it where the connection
    has settled that, and `turns` are those of a connection whose writes to a resource keep their order; both None over
    HTTP. `sampling` is what the sampler of traces said of it, None before that is asked, `trace` its span. `count` is
    how many requests it is: more than one are a `ShortBurst`.
    """

    verb: Verb
    name: str
    id: str
    query: str
    host: bytes
    authorization: bytes
    key: str
    began: float
    caller: Caller | None
    write_order: WriteOrder | None
    sampling: Sampling | None
    trace: RequestTrace | None
    count: int

    def fail(self, problem: Problem) -> None:
        """Answer what may have been carried out."""

    async def take_slow_path(self) -> None:
        """Have the routes carry it out. Returns when the next request of its connection may begin."""

    def at_end_of_turn(self, fn: Callable[[], None]) -> None:
        """Call a function once everything that has come on connections is read."""

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task that the server waits for when it ends."""


class ShortRequest(Sent, Protocol):
    """A small write."""

    def headers(self) -> Iterable[tuple[bytes, bytes]]:
        """The headers as they came, at least those by which it is traced."""

    def checked_body(self, validator: SchemaValidator) -> Any:
        """The body, checked. Any exception sends the request to the slow path."""

    def digest(self) -> bytes:
        """What makes it the same request as another one under its key."""

    def answer(self, status: int, body: bytes) -> None:
        """Send an answer, which is JSON, unless the client is gone."""

    def refuse(self, problem: Problem) -> None:
        """Answer that it changed nothing, and why."""


class ShortBurst(Sent, Protocol):
    """Small writes that came as a burst: what is done with it is done with each. They have no keys."""

    requests: Burst

    def keep(self, count: int) -> None:
        """Be the first `count` of them alone; the others are carried out by themselves."""

    def answer_each(self, outcomes: Sequence[Outcome]) -> None:
        """Answer them, each by its outcome."""


class CheckedOnce(ABC):
    """A short request whose body is checked once, however many kinds read it by one validator. They leave it as it is
    where they do not take the request. `_checked` is None at first."""

    __slots__ = ("_checked",)

    count = 1
    _checked: tuple[SchemaValidator, Any] | None

    def checked_body(self, validator: SchemaValidator) -> Any:
        """See `ShortRequest`."""
        checked = self._checked
        if checked is None or checked[0] is not validator:
            checked = self._checked = validator, self.check_body(validator)
        return checked[1]

    @abstractmethod
    def check_body(self, validator: SchemaValidator) -> Any:
        """The body, checked. Any exception sends the request to the slow path."""


class Kind(Protocol[ItemT]):
    """Requests that can be carried out together."""

    def need(self, name: str) -> Need:
        """The right that a request about this resource takes."""

    def read(self, request: ShortRequest, caller: Caller) -> ItemT:
        """What a request says. Any exception sends it to the slow path."""

    def subject(self, item: ItemT) -> str | None:
        """What at most one request of a group is about; None where that does not matter."""

    def apply(self, name: str, items: Sequence[ItemT], tickets: Sequence[Ticket | None]) -> Awaitable[Any]:
        """Carry out the requests about one resource, read by one engine, in order, and return the job. Responses to
        those with a ticket are stored with it. Raises where nothing was changed."""

    def outcomes(self, job: Any, items: Sequence[ItemT]) -> Awaitable[list[Outcome]]:
        """The answers to the requests; a problem for each that does not apply, and has changed nothing."""


class Verb:
    """Requests that have one `method` and path. `route` is the latter in metrics, ``/v1/boards/{board}/...``,
    `resources` the type of resource in it. They have a body but where they delete.

    A request is of the first of its `kinds` that takes it. `op` is what a kind of its own calls it; `replayed` makes
    of what was kept of an answer the one that a retry gets. A group has at most `most` of them. With `bursts` its one
    kind reads these, too.
    """

    __slots__ = ("bursts", "has_body", "kinds", "method", "most", "op", "replayed", "resources", "route")

    def __init__(
        self,
        kind: Kind[Any],
        method: str,
        route: str,
        op: Any = None,
        replayed: Callable[[dict[str, Any]], dict[str, Any]] = lambda kept: kept,
        most: int = MOST,
        bursts: bool = False,
    ) -> None:
        self.bursts = bursts
        self.kinds: tuple[Kind[Any], ...] = (kind,)
        self.method, self.route, self.op, self.replayed, self.most = method, route, op, replayed, most
        self.resources = route.split("/", 3)[2]
        self.has_body = method != "DELETE"


def receipts(
    tickets: Sequence[Ticket | None], positions: Sequence[int], skeleton: Callable[[int, int], Skeleton]
) -> Iterator[tuple[Ticket, Skeleton]]:
    """The tickets of the requests that apply, which have these positions in their group, each with the response to be
    stored: `skeleton` gives it by the request's place among those that apply, and its position.

    The keys of the others are free as soon as the order of commands is fixed, as a request behind them expects.
    """
    applies = set()
    for event, at in enumerate(positions):
        ticket = tickets[at]
        applies.add(at)
        if ticket is not None:
            yield ticket, skeleton(event, at)
    for at, ticket in enumerate(tickets):
        if ticket is not None and at not in applies:
            ticket.abandon()
