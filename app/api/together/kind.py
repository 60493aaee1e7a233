"""The kinds of short requests: how one is read, how a group of them is carried out, and how each is answered."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Coroutine, Iterable, Iterator, Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

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
"""Most requests of a group, unless their verb has a limit of its own."""


class Answer(NamedTuple):
    """The status and JSON text of an answer, and what of it is kept for a retry; None for all of it."""

    status: int
    body: bytes
    kept: dict[str, Any] | None


Outcome: TypeAlias = Answer | Problem
"""The outcome of a request; a problem says why it changed nothing."""

Place: TypeAlias = tuple[bytes, bytes, bytes, int] | tuple[str, str, str, int]
"""Where a verb is looked up: method, resource type, the part of the path after the resource's name, and the number of
parts of the path. In bytes for HTTP, as text for sockets."""


class Elsewhere(Exception):
    """A request has to take the slow path."""


class Item(Protocol):
    """A request as its kind has read it, by the configuration of `engine`."""

    @property
    def engine(self) -> Any: ...


class Several(NamedTuple, Generic[ItemT]):
    """What is read of a burst whose requests have an item each, by the configuration of `engine`: the items, and their
    `subjects`, of which none is there twice."""

    engine: Any
    items: Sequence[ItemT]
    subjects: Collection[str] = ()


class Sent(Protocol):
    """A complete short request, or a burst of `count` of them, as it was read off a connection.

    `name` is the resource's, `id` the id in the path or "", `query` the query string, `key` the Idempotency-Key or "",
    and `began` the `time.perf_counter` at which its head was read. A socket knows the `caller` and the `write_order` of
    its writes; over HTTP both are None. `sampling` is the decision of the sampler of traces, None until it is asked,
    and `trace` the request's span.
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
        """Answer with a problem, although the request may have been carried out."""

    async def take_slow_path(self) -> None:
        """Have the routes carry it out. Returns when the next request of its connection may begin."""

    def at_end_of_turn(self, fn: Callable[[], None]) -> None:
        """Call a function at the end of this turn of the event loop, when all connections have been read."""

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task that the server waits for when it ends."""


class ShortRequest(Sent, Protocol):
    """A short request."""

    def headers(self) -> Iterable[tuple[bytes, bytes]]:
        """The headers as received, at least those that carry a trace."""

    def checked_body(self, validator: SchemaValidator) -> Any:
        """The body, checked. Any exception sends the request to the slow path."""

    def digest(self) -> bytes:
        """A digest by which a retry under the same key is recognised."""

    def answer(self, status: int, body: bytes) -> None:
        """Send a JSON answer, unless the client has gone."""

    def refuse(self, problem: Problem) -> None:
        """Answer with a problem: the request has changed nothing."""


class ShortBurst(Sent, Protocol):
    """A burst of short requests without keys, which are read, carried out and failed as one."""

    requests: Burst

    def keep(self, count: int) -> None:
        """Keep the first `count` requests only; the others are carried out one by one."""

    def answer_each(self, outcomes: Sequence[Outcome]) -> None:
        """Answer them, each by its outcome."""


class CheckedOnce(ABC):
    """A short request that checks its body once for all kinds that read it by the same validator. A kind that does not
    take the request must not modify the body. `_checked` is None at first."""

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
    """A kind of requests, of which those to one resource can form a group."""

    def need(self, name: str) -> Need:
        """The right that a request to this resource needs."""

    def read(self, request: ShortRequest, caller: Caller) -> ItemT | Several[ItemT]:
        """Read a request. Any exception sends it to the next kind of its verb, or to the slow path."""

    def subject(self, item: ItemT) -> str | None:
        """What only one request of a group may be about, such as an id; None where any number may be."""

    def apply(self, name: str, items: Sequence[ItemT], tickets: Sequence[Ticket | None]) -> Awaitable[Any]:
        """Carry out a group, all of it read by one engine, in order; return its job once it is durable and applied.
        Responses to requests with a ticket are stored with it. Raises only if nothing was changed."""

    def outcomes(self, job: Any, items: Sequence[ItemT]) -> Awaitable[list[Outcome]]:
        """The outcome of each request of a group, in order."""


class Verb:
    """A method and a path that take the fast path.

    `route` is the path as in metrics, ``/v1/boards/{board}/...``, `resources` the resource type in it. Requests have a
    body unless the method is DELETE. The first of the `kinds` that can read a request takes it; `op` tells a kind with
    several verbs which one it is. `replayed` turns what was kept of an answer into the answer to a retry. A group has
    at most `most` requests. With `bursts` one of the kinds reads bursts as well, for which the others raise.
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
    """The tickets of the requests of a group that apply, each with the response to be stored.

    `positions` are the places in the group of the requests that apply; `skeleton` makes a response from the index into
    `positions`, and the place. Keys of the other requests are released here, when the order of commands is fixed: a
    later request under the same key finds it free.
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
