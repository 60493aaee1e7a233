"""What the routes of all resources share: the running service, and how a write is read, answered once and refused."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from app.api.bodies import BULK, Kind, kind_of, read, validated
from app.api.elements import ElementError, Place, Read, Reader
from app.api.models import NoQuery, ids_validator
from app.api.paging import PageQuery, cursor, query
from app.api.responses import JsonResponse, json_response
from app.api.routing import claim
from app.api.values import NAME_REASON, is_name
from app.idempotency import Replay, Ticket
from app.kinds import Job
from app.problems import FieldError, Problem, fault_error, from_refused, invalid, not_found
from app.resources import Resources
from app.service import Service
from app.settings import Settings
from app.storage.catalog import CreateJob
from app.writer import Skeleton
from indexes.commands import Fault, Refused

T = TypeVar("T")
J = TypeVar("J", bound=Job)
Q = TypeVar("Q", bound=BaseModel)
ReadT = TypeVar("ReadT", bound=Read[Any])
EngineT = TypeVar("EngineT")
ConfigT = TypeVar("ConfigT")

INLINE = 512 << 10
"""Bytes of body up to which it is taken apart on the event loop."""


class Done(NamedTuple):
    """A write that was applied: its answer, and what is kept of it for a retry."""

    response: Response
    kept: dict[str, Any]


class Context(ABC, Generic[EngineT, ConfigT]):
    """Shared by the routes of one kind of resource; usable once `start` was called. `noun` is what a resource is called
    in paths and messages."""

    noun: ClassVar[str]

    def __init__(self) -> None:
        self._service: Service | None = None

    def start(self, service: Service) -> None:
        """Give the routes the service that was started."""
        self._service = service

    @property
    def service(self) -> Service:
        """The service. No request gets here before there is one: the guard answers 503 until then."""
        assert self._service is not None
        return self._service

    @property
    def settings(self) -> Settings:
        return self.service.settings

    @property
    @abstractmethod
    def resources(self) -> Resources[EngineT, ConfigT]:
        """The resources of this kind."""

    @abstractmethod
    def config_of(self, engine: EngineT) -> ConfigT:
        """The configuration of an engine that the next command will meet."""

    @abstractmethod
    def shown(self, name: str, config: ConfigT, engine: EngineT | None) -> dict[str, Any]:
        """A resource as it is listed; one that is just being made, None, is empty."""

    def promised(self, name: str, config: ConfigT, engine: EngineT | None) -> dict[str, Any]:
        """As `shown`, as far as it is known before a change has its turn."""
        return self.shown(name, config, engine)

    @abstractmethod
    def seen(self, engine: EngineT) -> tuple[int, ConfigT]:
        """The seq and the configuration at which reads see an engine."""

    def shown_now(self, name: str, engine: EngineT) -> dict[str, Any]:
        """A resource as GET shows it."""
        seq, config = self.seen(engine)
        return {"seq": seq, **self.shown(name, config, engine)}

    def _listed(self, name: str, engine: EngineT) -> dict[str, Any]:
        return self.shown(name, self.seen(engine)[1], engine)

    def name(self, request: Request) -> str:
        """The resource's name in the path."""
        found: str = request.path_params[self.noun]
        return found

    def engine(self, request: Request) -> EngineT:
        """The resource in the path as reads see it. Raises the problem 404."""
        name = self.name(request)
        engine = self.resources.get(name)
        if engine is None:
            raise not_found(self.noun, f"there is no {self.noun} {name[:128]!r}")
        return engine

    def config(self, request: Request) -> ConfigT:
        """The configuration that the next command meets, by which the body is read. Raises `Refused` (missing)."""
        engine = self.resources.latest(self.name(request))
        request.state.reader = engine
        return self.config_of(engine)

    def reader(self, request: Request) -> EngineT:
        """The engine by whose configuration the body was read: see `config`."""
        found: EngineT = request.state.reader
        return found

    def submit(
        self,
        request: Request,
        command: Any,
        *,
        keep: int = 0,
        ticket: Ticket | None = None,
        skeleton: Callable[[Any], Skeleton] | None = None,
        then: Callable[[Any], None] | None = None,
        accepted: Callable[[Any], None] | None = None,
    ) -> Awaitable[Any]:
        """Check, log and apply a command that was read by `config`. Raises `Refused` (different) where the resource was
        made anew since."""
        return self.resources.submit(
            self.name(request),
            command,
            keep=keep,
            ticket=ticket,
            skeleton=skeleton,
            then=then,
            accepted=accepted,
            reader=self.reader(request),
        )

    def ask(self, request: Request, make: Callable[[EngineT], J]) -> Awaitable[J]:
        """Put a question that was read by `config`, in its turn. Raises as `submit`."""
        return self.resources.ask(self.name(request), make, self.reader(request))

    def between(self, request: Request, fn: Callable[[], T]) -> Awaitable[T]:
        """Run `fn` on the loop at a moment when nothing of the resource in the path is being painted."""
        return self.resources.between(self.name(request), fn)

    def touch(self, request: Request, id: str) -> None:
        """A request named a subscription: its time to live begins anew."""
        self.service.expiry.touch(self.resources.prefix + self.name(request), id)

    async def parsed(self, request: Request, raw: bytes | bytearray, parse: Callable[[ConfigT], T]) -> T:
        """`parse` for the resource's attributes; a long body is taken apart in a thread, beside other requests."""
        config = self.config(request)
        return parse(config) if len(raw) <= INLINE else await asyncio.to_thread(parse, config)

    async def once(
        self,
        request: Request,
        raw: bytes | bytearray,
        run: Callable[[Ticket | None], Awaitable[Done]],
        replay: Callable[[dict[str, Any]], dict[str, Any]] = lambda answer: answer,
    ) -> Response:
        """Run a write, or answer as the first time when its Idempotency-Key came before: with what `replay` makes of
        the answer that was kept."""
        ticket = await claim(self.service.answers, request, raw)
        if ticket is None:
            return (await run(None)).response
        if isinstance(ticket, Replay):
            return JsonResponse(replay(ticket.answer), ticket.status)
        try:
            done = await run(ticket)
        except Exception:
            ticket.abandon()
            raise
        ticket.complete(done.response.status_code, done.kept)
        return done.response

    async def replayed(
        self,
        request: Request,
        raw: bytes | bytearray,
        replay: Callable[[dict[str, Any]], dict[str, Any]] = lambda answer: answer,
    ) -> Response | None:
        """The answer to a write whose Idempotency-Key came before, as `once` gives it; None where it did not."""
        ticket = await claim(self.service.answers, request, raw)
        if isinstance(ticket, Replay):
            return JsonResponse(replay(ticket.answer), ticket.status)
        if ticket is not None:
            ticket.abandon()
        return None

    async def bulk(
        self,
        request: Request,
        unasked: Q,
        reader: Callable[[ConfigT], Reader[Q, ReadT]],
        write: Callable[[Request, ReadT, Ticket | None], Awaitable[Done]],
        replay: Callable[[dict[str, Any]], dict[str, Any]] = lambda answer: answer,
    ) -> Response:
        """Read the elements of a body and do what `write` does with them; `unasked` as in `bulk_query`, `replay` as in
        `once`."""
        kind, asked = bulk_query(request, unasked)
        raw = await read(request)

        async def run(ticket: Ticket | None) -> Done:
            found = await self.parsed(request, raw, lambda config: reader(config).read(kind, raw, asked))
            try:
                return await write(request, found, ticket)
            except Refused as refused:
                raise element_refusal(refused, found.place, found.place_of) from None

        return await self.once(request, raw, run, replay)

    async def listing(self, request: Request) -> Response:
        """A page of the resources in order of name."""
        page = query(request, PageQuery)
        after = page.after
        names = [name for name in self.resources.names() if after is None or name > after]
        items = []
        for name in names[: page.limit]:
            engine = self.resources.get(name)
            if engine is not None:
                items.append(await self.resources.between(name, partial(self._listed, name, engine)))
        more = cursor(names[page.limit - 1]) if len(names) > page.limit else None
        return JsonResponse({"items": items, "next": more})

    async def put(
        self, request: Request, parse: Callable[[bytes | bytearray], ConfigT | Awaitable[ConfigT]]
    ) -> Response:
        """Make the resource in the path, or change it to the configuration that `parse` makes of the body."""
        name = self.name(request)
        raw = await json_alone(request)

        async def run(ticket: Ticket | None) -> Done:
            if not is_name(name):
                raise invalid(self.noun, NAME_REASON)
            parsed = parse(raw)
            config = await parsed if isinstance(parsed, Awaitable) else parsed
            await self.service.kernels.need(*self.resources.kind.kernels(config))

            def skeleton(job: Any) -> Skeleton:
                made = isinstance(job, CreateJob)
                answer = self.promised(name, config, None if made else self.resources.latest(name))
                return Skeleton(201 if made else 200, {"seq": job.last_seq, **answer})

            answer: dict[str, Any] = {}

            def show(_: Any) -> None:
                engine = self.resources.get(name)
                assert engine is not None, "it was just made, or was there"
                answer.update(self.shown_now(name, engine))

            job = await self.resources.put(name, config, ticket, skeleton, show)
            return Done(JsonResponse(answer, 201 if isinstance(job, CreateJob) else 200), answer)

        return await self.once(request, raw, run)

    async def get(self, request: Request) -> Response:
        """The resource in the path."""
        query(request, NoQuery)
        name, engine = self.name(request), self.engine(request)
        return JsonResponse(await self.resources.between(name, lambda: self.shown_now(name, engine)))

    async def drop(self, request: Request) -> Response:
        """Delete the resource in the path."""
        query(request, NoQuery)

        async def run(ticket: Ticket | None) -> Done:
            def skeleton(job: Any) -> Skeleton:
                return Skeleton(200, {"seq": job.last_seq})

            job = await self.resources.drop(self.name(request), ticket, skeleton)
            answer = {"seq": job.last_seq}
            return Done(JsonResponse(answer), answer)

        return await self.once(request, b"", run)

    async def delete_many(self, request: Request, command: Callable[[list[str]], Any]) -> Response:
        """Delete the subscriptions whose ids the body lists."""
        raw = await json_alone(request)
        ids = validated(raw, ids_validator(self.settings.max_elements))["ids"]
        return await self.delete(request, raw, command(ids), counted=True)

    async def delete(self, request: Request, raw: bytes | bytearray, command: Any, counted: bool) -> Response:
        """Delete subscriptions, as `command` says; `counted` says how many there were."""

        async def run(ticket: Ticket | None) -> Done:
            def answer(plan: Any) -> dict[str, Any]:
                return {"seq": plan.last_seq, **({"deleted": plan.count} if counted else {})}

            plan = await self.resources.submit(
                self.name(request), command, ticket=ticket, skeleton=lambda plan: Skeleton(200, answer(plan))
            )
            return Done(JsonResponse(answer(plan)), answer(plan))

        return await self.once(request, raw, run)


def page_response(
    seq: int, found: Sequence[T], limit: int, write: Callable[[T], str], key: Callable[[T], str]
) -> Response:
    """A page of at most `limit` of what was found, which is one more where another page comes after it."""
    items = found[:limit]
    more = json.dumps(cursor(key(items[-1]))) if len(found) > limit else "null"
    return json_response(f'{{"seq":{seq},"items":[{",".join(map(write, items))}],"next":{more}}}')


async def json_alone(request: Request) -> bytes | bytearray:
    """The body of a request that has JSON and no query."""
    query(request, NoQuery)
    kind_of(request)
    return await read(request)


def bulk_query(request: Request, unasked: Q) -> tuple[Kind, Q]:
    """What a body of many elements is, and the query that goes with NDJSON and Arrow. With JSON, whose fields say that,
    it is `unasked`, the query that is empty."""
    kind = kind_of(request, BULK)
    if kind is Kind.JSON:
        query(request, NoQuery)
        return kind, unasked
    return kind, query(request, type(unasked))


def begun(found: Read[Any], seq: int, faults: Iterable[Fault] = ()) -> dict[str, Any]:
    """How the answer to many elements begins: with its seq, and with `skip` what was passed over, `faults` of them
    because the command met them."""
    answer: dict[str, Any] = {"seq": seq}
    if found.skip:
        answer["errors"] = skipped(found.errors, faults, found.place, found.place_of)
    return answer


def element_refusal(refused: Refused, place: Place, place_of: Callable[[int], int]) -> Problem:
    """A refused command of many elements; `place_of` says where in the body a faulty one was."""

    def named(fault: Fault) -> FieldError:
        if fault.index is None:
            return fault_error(fault)
        return place.error(ElementError(place_of(fault.index), fault.field, fault.reason))

    return from_refused(refused, named)


def skipped(
    errors: list[ElementError], faults: Iterable[Fault], place: Place, place_of: Callable[[int], int]
) -> list[dict[str, Any]]:
    """What `on_error=skip` says of the elements that were passed over, in order."""
    found = errors + [ElementError(place_of(fault.index or 0), fault.field, fault.reason) for fault in faults]
    found.sort(key=lambda error: error.index)
    return [{"index": error.index, **place.error(error)._asdict()} for error in found]


def id_in_path(request: Request) -> str:
    """The id in the path."""
    found: str = request.path_params["id"]
    return found


def check_id(request: Request) -> None:
    """Refuse, with the problem 422, an id in the path that nothing can have."""
    if not is_name(id_in_path(request)):
        raise invalid("id", NAME_REASON)
