"""What the routes of all resources share: the running service, and how requests are read, executed and refused."""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from heapq import nsmallest
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from app.api.bodies import BULK, INLINE, BodyFormat, format_of, read, validated
from app.api.bulk import Place, Read, Reader
from app.api.callers import caller_of
from app.api.chunked_response import PLACES
from app.api.element_errors import MOST_SKIPPED, ElementError, ElementErrors
from app.api.extent import check_extent
from app.api.idempotency import claim
from app.api.models import NoQuery, ids_validator
from app.api.pages import PageQuery, cursor, query
from app.api.problems import Problem, fault_error, from_refused, invalid, not_found
from app.api.responses import JsonResponse, json_response
from app.api.values import NAME_REASON, is_name
from app.errors import FieldError
from app.resources.base import Job
from app.service import Service
from app.settings import Settings
from app.write_path.catalog import CreateJob
from app.write_path.idempotency import Replay, Ticket
from app.write_path.resources import Resources
from app.write_path.writer import Skeleton
from indexes.core.commands import Fault, Refused

T = TypeVar("T")
J = TypeVar("J", bound=Job)
Q = TypeVar("Q", bound=BaseModel)
ReadT = TypeVar("ReadT", bound=Read[Any])
EngineT = TypeVar("EngineT")
ConfigT = TypeVar("ConfigT")


class Done(NamedTuple):
    """An applied write: its response, and what is kept of it for a retry."""

    response: Response
    kept: dict[str, Any]


class Context(ABC, Generic[EngineT, ConfigT]):
    """The service as the routes of one resource type use it. `noun` is what a resource is called in paths and
    messages."""

    noun: ClassVar[str]

    def __init__(self, service: Service) -> None:
        self.service = service

    @property
    def settings(self) -> Settings:
        return self.service.settings

    @property
    @abstractmethod
    def resources(self) -> Resources[EngineT, ConfigT]:
        """The resources of this type."""

    @abstractmethod
    def config_of(self, engine: EngineT) -> ConfigT:
        """The configuration of an engine that the next command will meet."""

    @abstractmethod
    def shown(self, name: str, config: ConfigT, engine: EngineT | None) -> dict[str, Any]:
        """A resource as it is listed; `engine` is None for one that is being created."""

    def pending(self, name: str, config: ConfigT, engine: EngineT | None) -> dict[str, Any]:
        """As `shown`, as far as it is known before a change is applied."""
        return self.shown(name, config, engine)

    @abstractmethod
    def seen(self, engine: EngineT) -> tuple[int, ConfigT]:
        """The seq and the configuration at which reads see an engine."""

    def shown_now(self, name: str, engine: EngineT) -> dict[str, Any]:
        """A resource as GET shows it."""
        seq, config = self.seen(engine)
        return {"seq": seq, **self.shown(name, config, engine)}

    def visible(self, request: Request, shown: dict[str, Any]) -> dict[str, Any]:
        """What the caller sees of a resource as it is shown."""
        return shown

    def _listed(self, request: Request, name: str, engine: EngineT) -> dict[str, Any]:
        return self.visible(request, self.shown(name, self.seen(engine)[1], engine))

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
        created again since."""
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
        """Queue a question that was read by `config`. Raises as `submit`."""
        return self.resources.ask(self.name(request), make, self.reader(request))

    def between(self, request: Request, fn: Callable[[], T]) -> Awaitable[T]:
        """Run `fn` on the event loop between two slices of the resource in the path."""
        return self.resources.between(self.name(request), fn)

    async def look(self, request: Request, fn: Callable[[], T]) -> T:
        """Read the resource in the path by `fn`, between two slices."""
        return await self.between(request, fn)

    async def item(
        self,
        request: Request,
        noun: str,
        find: Callable[[EngineT, str], T | None],
        writer: Callable[[EngineT], Callable[[T, str], str]],
        touch: bool = False,
    ) -> Response:
        """What `find` finds for the id in the path, at the seq of the resource. Raises the problem 404."""
        query(request, NoQuery)
        engine, id = self.engine(request), id_in_path(request)
        seq, found = await self.look(request, lambda: (self.seen(engine)[0], find(engine, id)))
        if found is None:
            raise not_found("id", f"there is no {noun} {id[:128]!r}")
        if touch:
            self.touch(request, id)
        return json_response(writer(engine)(found, f'"seq":{seq},'))

    async def page(
        self,
        request: Request,
        find: Callable[[EngineT, str | None, int], Sequence[T]],
        writer: Callable[[EngineT], Callable[[T], str]],
        key: Callable[[T], str],
        prefix: str = "",
    ) -> Response:
        """A page of what `find` finds after an id, at most so many, in order of `key`, which begins with `prefix`."""
        asked = query(request, PageQuery)
        engine, after = self.engine(request), asked.after
        if prefix:
            after = max(after or "", before_all(prefix))
        seq, found = await self.look(request, lambda: (self.seen(engine)[0], find(engine, after, asked.limit + 1)))
        if prefix:
            found = [item for item in found if key(item).startswith(prefix)]
        return page_response(seq, found, asked.limit, writer(engine), key)

    def touch(self, request: Request, id: str) -> None:
        """Restart the time to live of a subscription that a request names."""
        self.service.expiry.touch(self.resources.prefix + self.name(request), id)

    async def parsed(self, request: Request, raw: bytes | bytearray, parse: Callable[[ConfigT], T]) -> T:
        """`parse` for the resource's attributes; a long body is parsed in a thread."""
        config = self.config(request)
        if len(raw) <= INLINE:
            return parse(config)
        if format_of(request, BULK) is BodyFormat.JSON:
            # The parser would keep the event loop waiting, also from its thread.
            await asyncio.to_thread(check_extent, raw, self.settings.max_elements)
        return await asyncio.to_thread(parse, config)

    async def once(
        self,
        request: Request,
        raw: bytes | bytearray,
        run: Callable[[Ticket | None], Awaitable[Done]],
        replay: Callable[[dict[str, Any]], dict[str, Any]] = lambda answer: answer,
    ) -> Response:
        """Run a write; for an Idempotency-Key that came before, respond with what `replay` makes of the kept
        response."""
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
        """The response to a write whose Idempotency-Key came before, as in `once`; None for a new one."""
        ticket = await claim(self.service.answers, request, raw)
        if isinstance(ticket, Replay):
            return JsonResponse(replay(ticket.answer), ticket.status)
        if ticket is not None:
            ticket.abandon()
        return None

    async def bulk(
        self,
        request: Request,
        default: Q,
        reader: Callable[[ConfigT], Reader[Q, ReadT]],
        write: Callable[[Request, ReadT, Ticket | None], Awaitable[Done]],
        replay: Callable[[dict[str, Any]], dict[str, Any]] = lambda answer: answer,
    ) -> Response:
        """Read the elements of a body and run `write` with them; `default` as in `bulk_query`, `replay` as in
        `once`."""
        kind, asked = bulk_query(request, default)
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
        seen = caller_of(request).grants.names(f"{self.noun}s", "read")
        names = [
            name
            for name in self.resources.names()
            if (after is None or name > after) and (seen is None or name in seen)
        ]
        items = []
        for name in names[: page.limit]:
            engine = self.resources.get(name)
            if engine is not None:
                items.append(await self.resources.between(name, partial(self._listed, request, name, engine)))
        more = cursor(names[page.limit - 1]) if len(names) > page.limit else None
        return JsonResponse({"items": items, "next": more})

    async def put(
        self, request: Request, parse: Callable[[bytes | bytearray], ConfigT | Awaitable[ConfigT]]
    ) -> Response:
        """Create the resource in the path, or change it to the configuration that `parse` reads from the body."""
        name = self.name(request)
        raw = await json_body(request)

        async def run(ticket: Ticket | None) -> Done:
            if not is_name(name):
                raise invalid(self.noun, NAME_REASON)
            parsed = parse(raw)
            config = await parsed if isinstance(parsed, Awaitable) else parsed
            await self.service.kernels.need(*self.resources.resource_type.kernels(config))

            def skeleton(job: Any) -> Skeleton:
                made = isinstance(job, CreateJob)
                answer = self.pending(name, config, None if made else self.resources.latest(name))
                return Skeleton(201 if made else 200, {"seq": job.last_seq, **answer})

            answer: dict[str, Any] = {}

            def show(_: Any) -> None:
                engine = self.resources.get(name)
                assert engine is not None, "it was just made, or was there"
                answer.update(self.visible(request, self.shown_now(name, engine)))

            job = await self.resources.put(name, config, ticket, skeleton, show)
            return Done(JsonResponse(answer, 201 if isinstance(job, CreateJob) else 200), answer)

        return await self.once(request, raw, run)

    async def get(self, request: Request) -> Response:
        """Get the resource in the path."""
        query(request, NoQuery)
        name, engine = self.name(request), self.engine(request)
        shown = await self.resources.between(name, lambda: self.shown_now(name, engine))
        return JsonResponse(self.visible(request, shown))

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
        """Delete the elements whose ids the body lists."""
        raw = await json_body(request)
        ids = validated(raw, ids_validator(self.settings.max_elements))["ids"]
        return await self.delete(request, raw, command(ids), counted=True)

    async def delete(self, request: Request, raw: bytes | bytearray, command: Any, counted: bool) -> Response:
        """Delete elements by `command`; with `counted` the response has their number."""

        async def run(ticket: Ticket | None) -> Done:
            def answer(plan: Any) -> dict[str, Any]:
                return {"seq": plan.last_seq, **({"deleted": plan.count} if counted else {})}

            plan = await self.resources.submit(
                self.name(request), command, ticket=ticket, skeleton=lambda plan: Skeleton(200, answer(plan))
            )
            return Done(JsonResponse(answer(plan)), answer(plan))

        return await self.once(request, raw, run)


def before_all(prefix: str) -> str:
    """A text that comes right before all ids that begin with a prefix.

    >>> "u41~" < before_all("u42.") < "u42." < "u42.a"
    True
    """
    return prefix[:-1] + chr(ord(prefix[-1]) - 1) + "\x7f"


def page_response(
    seq: int, found: Sequence[T], limit: int, write: Callable[[T], str], key: Callable[[T], str]
) -> Response:
    """A page of at most `limit` of the items found; one more was found if another page follows."""
    items = found[:limit]
    more = json.dumps(cursor(key(items[-1]))) if len(found) > limit else "null"
    return json_response(f'{{"seq":{seq},"items":[{",".join(map(write, items))}],"next":{more}}}')


async def json_body(request: Request) -> bytes | bytearray:
    """The body of a request that has JSON and no query."""
    query(request, NoQuery)
    format_of(request)
    return await read(request)


def bulk_query(request: Request, default: Q) -> tuple[BodyFormat, Q]:
    """What a body of many elements is, and the query with it; `default` is one that is empty."""
    kind = format_of(request, BULK)
    return kind, query(request, type(default)) if request.scope["query_string"] else default


def begun(found: Read[Any], seq: int, faults: Sequence[Fault] = ()) -> dict[str, Any]:
    """The first fields of a bulk response: its seq, and with `skip` the elements skipped, `faults` of them when the
    command was checked."""
    answer: dict[str, Any] = {"seq": seq}
    if found.skip:
        answer["errors"] = skipped(found.errors, faults, found.place, found.place_of)
        answer["error_count"] = len(found.errors) + len(faults)
    return answer


def begun_kept(
    found: Read[Any], seq: int, count: int, faults: Sequence[Fault] = (), positions: Sequence[int] | None = None
) -> dict[str, Any]:
    """The same of a response that is kept with its `count` results, of the elements at these positions of the command
    (None: all); see `numbered`. Their places are kept only where the listed errors do not give them."""
    answer = begun(found, seq, faults)
    if found.skip and answer["error_count"] > len(answer["errors"]):
        answer[PLACES] = [found.place_of(at if positions is None else positions[at]) for at in range(count)]
    return answer


def element_refusal(refused: Refused, place: Place, place_of: Callable[[int], int]) -> Problem:
    """A refused command of many elements; `place_of` says where in the body a faulty one was."""

    def named(fault: Fault) -> FieldError:
        if fault.index is None:
            return fault_error(fault)
        return place.error(ElementError(place_of(fault.index), fault.field, fault.reason))

    return from_refused(refused, named)


def skipped(
    errors: ElementErrors,
    faults: Sequence[Fault],
    place: Place,
    place_of: Callable[[int], int],
    most: int | None = MOST_SKIPPED,
) -> list[dict[str, Any]]:
    """The errors of the elements skipped by `on_error=skip`, in order: the first `most`."""
    if most is not None and len(faults) > most:
        faults = nsmallest(most, faults, key=lambda fault: fault.index or 0)
    found = [*errors, *(ElementError(place_of(fault.index or 0), fault.field, fault.reason) for fault in faults)]
    found.sort(key=lambda error: error.index)
    return [{"index": error.index, **place.error(error)._asdict()} for error in found[:most]]


def id_in_path(request: Request) -> str:
    """The id in the path."""
    found: str = request.path_params["id"]
    return found


def check_id(request: Request) -> None:
    """Refuse, with the problem 422, an id in the path that nothing can have."""
    if not is_name(id_in_path(request)):
        raise invalid("id", NAME_REASON)
