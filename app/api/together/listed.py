"""Requests with a list of one element as their body: a group is carried out as one list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import replace
from typing import Any, Generic, NamedTuple, TypeVar, cast

from pydantic_core import SchemaValidator

from app.api.bulk import Place, Read
from app.api.context import Context, element_refusal
from app.api.element_errors import ElementErrors
from app.api.problems import Problem
from app.api.together.kind import Answer, Elsewhere, Outcome, ShortBurst, ShortRequest, receipts
from app.api.together.latest import Latest
from app.security.callers import Caller
from app.security.scopes import Need
from app.streaming.bursts import Burst
from app.write_path.idempotency import Ticket
from app.write_path.writer import Skeleton
from indexes.core.commands import Fault, Refused

EngineT = TypeVar("EngineT")
ConfigT = TypeVar("ConfigT")

_SKIPPED = Problem("internal")


class Listed(NamedTuple):
    """A request with its element, read by the configuration of `engine`; or a burst of `requests`, with a command."""

    engine: Any
    element: Any
    requests: int = 1


class Applied(NamedTuple):
    """The plan of a group of `requests` requests: `read` has the elements that could be parsed, `positions` are the
    places in the group of those that apply."""

    plan: Any
    read: Read[Any]
    positions: Sequence[int]
    requests: int


class Form(NamedTuple, Generic[ConfigT]):
    """How the elements of a resource type are read and answered.

    `name` is the name of the list in the body, which `validator` checks. `command` makes one command of elements, and
    of the commands of bursts. Answers have this `status`, and the bodies that `texts` gives for a plan; `kept(plan, i)`
    is what is stored of the answer about its i-th element before the plan is executed. `cut` makes a command of the
    longest valid prefix of a burst; None where that is short.
    """

    name: str
    status: int
    validator: Callable[[ConfigT], SchemaValidator]
    command: Callable[[ConfigT, list[Any]], Read[Any]]
    texts: Callable[[Any], Iterable[str]]
    kept: Callable[[Any, int], dict[str, Any]]
    cut: Callable[[ConfigT, Burst], Sized | None] = lambda config, burst: None


class OneOfMany(Generic[EngineT, ConfigT]):
    """A `Kind` of requests with one element each, for any resource type that has lists of them."""

    def __init__(self, context: Context[EngineT, ConfigT], form: Form[ConfigT]) -> None:
        self._context = context
        self._form = form
        self._validator = Latest(form.validator)
        self._place = Place(form.name)

    def need(self, name: str) -> Need:
        return Need(f"{self._context.noun}s", "publish", name)

    def read(self, request: ShortRequest, caller: Caller) -> Listed:
        """The element of a request. Any exception sends it to the slow path."""
        if request.query:
            raise Elsewhere
        engine = self._context.resources.latest(request.name)
        config = self._context.config_of(engine)
        if request.count > 1:
            return self._burst(engine, config, cast(ShortBurst, request))
        body: dict[str, Any] = request.checked_body(self._validator.of(config))
        (element,) = body.pop(self._form.name)
        if body.pop("on_error", "refuse") != "refuse" or body:
            raise Elsewhere
        return Listed(engine, element)

    def _burst(self, engine: EngineT, config: ConfigT, burst: ShortBurst) -> Listed:
        """The valid prefix of a burst. Any exception makes its requests be read one by one."""
        command = self._form.cut(config, burst.requests)
        if command is None:
            raise Elsewhere
        burst.keep(len(command))
        return Listed(engine, command, burst.count)

    def subject(self, item: Listed) -> str | None:
        """Any number of requests may be about one element."""
        return None

    async def apply(self, name: str, items: Sequence[Listed], tickets: Sequence[Ticket | None]) -> Applied:
        """Apply the elements as one command. Raises as `Writer.submit`."""
        engine, elements, count = items[0].engine, [], 0
        for _, element, some in items:
            elements.append(element)
            count += some
        read = self._form.command(self._context.config_of(engine), elements)

        def positions(plan: Any) -> Sequence[int]:
            those: Sequence[int] = range(plan.count) if plan.positions is None else plan.positions
            return those if read.indexes is None else [read.indexes[at] for at in those]

        def requests(plan: Any) -> Iterator[tuple[Ticket, Skeleton]]:
            def skeleton(event: int, at: int) -> Skeleton:
                return Skeleton(self._form.status, self._form.kept(plan, event))

            return receipts(tickets, positions(plan), skeleton)

        plan = await self._context.resources.submit(
            name, read.command, reader=engine, requests=requests if any(tickets) else None
        )
        return Applied(plan, read, positions(plan), count)

    async def outcomes(self, job: Applied, items: Sequence[Listed]) -> list[Outcome]:
        """An answer, with a seq of its own, or a problem for each request."""
        plan, read, form = job.plan, job.read, self._form
        found: list[Outcome] = [_SKIPPED] * job.requests
        for at, text in zip(job.positions, form.texts(plan), strict=True):
            found[at] = Answer(form.status, f"{text}\n".encode(), None)
        if plan.faults or read.errors:
            self._refuse(job, found)
        return found

    def _refuse(self, job: Applied, found: list[Outcome]) -> None:
        """Put a problem in place of the outcome of each element that does not apply."""
        plan, read = job.plan, job.read
        faults: dict[int, list[Fault]] = {}
        for fault in plan.faults:
            faults.setdefault(read.place_of(fault.index or 0), []).append(replace(fault, index=0))
        for at, those in faults.items():
            found[at] = element_refusal(Refused(those), self._place, lambda position: 0)
        errors: dict[int, ElementErrors] = {}
        for error in read.errors:
            errors.setdefault(error.index, ElementErrors()).append(replace(error, index=0))
        for at, wrong in errors.items():
            found[at] = self._place.refusal(wrong)
