"""Administration: snapshots, rebuilds and verifications as jobs, and how far they are."""

import asyncio
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter
from pydantic import BaseModel, Field, TypeAdapter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from app.api.bodies import Reads, format_of, read, validated
from app.api.idempotency import claim
from app.api.models import Page, Replayed
from app.api.pages import PageQuery, Query, cursor, query
from app.api.problems import invalid, many, not_found
from app.api.responses import JsonResponse
from app.api.routing import REFUSALS, DirectRoute, accepts, caller_of, keyring_of, needs, shown_as
from app.api.values import Strict
from app.api.wired import wired
from app.errors import FieldError
from app.security.callers import Caller
from app.security.keyring import Keyring
from app.security.scopes import ADMIN
from app.storage.answers import keep_answer
from app.streaming.buffer import GONE, message
from app.streaming.connection import Connection, Reader
from app.streaming.hub import Hub
from app.streaming.sse import START, EventStream
from app.write_path.idempotency import Replay
from app.write_path.jobs import Engine, Job, Kind, Run, State, number_of

B = TypeVar("B", bound=BaseModel)

JOB_EVENTS = shown_as(
    EventStream.media_type,
    "Server-sent events, described in asyncapi.yaml.",
    'id: j2:3\nevent: progress\ndata: {"job": "j2", "kind": "verify", "state": "running", "progress": 0.5}\n\n',
)

router = APIRouter(
    prefix="/v1/admin", tags=["admin"], route_class=DirectRoute, responses=REFUSALS, dependencies=needs(ADMIN)
)


class SnapshotBody(Strict):
    """A snapshot has no options."""


_Resources = Annotated[
    list[str] | None,
    Field(min_length=1, description="Resources, such as `boards/delays`; absent: all."),
]


class RebuildBody(Strict):
    """What to rebuild, and where."""

    resources: _Resources = None
    engine: Annotated[Engine, Field(description="In this process, or on Spark.")] = "local"


class VerifyBody(Strict):
    """What to verify, and where."""

    resources: _Resources = None
    engine: Annotated[Engine, Field(description="In this process, or on Spark.")] = "local"


class StartedJobResponse(Strict):
    """A job that was queued."""

    job: Annotated[str, Field(description="Id of the job.")]
    replayed: Replayed = False


class JobResponse(Strict):
    """A job. `detail` has the `step` while it runs, then the result or the `error`. Before its first step it may wait
    for kernels that are being compiled: `kernels` is the share of them that is."""

    job: Annotated[str, Field(description="Id of the job.")]
    kind: Annotated[Kind, Field(description="What the job does.")]
    state: Annotated[State, Field(description="Where it is in its life.")]
    progress: Annotated[float, Field(ge=0, le=1, description="Share that is done.")]
    detail: Annotated[dict[str, Any], Field(description="`step` while it runs, then the result or `error`.")]
    started: Annotated[str | None, Field(description="When it started, in RFC 3339; null while queued.")]
    ended: Annotated[str | None, Field(description="When it ended, in RFC 3339; null before.")]


class JobPage(Page):
    """A page of jobs."""

    items: Annotated[list[JobResponse], Field(description="The page, in order of job number.")]


_SNAPSHOT: TypeAdapter[SnapshotBody | None] = TypeAdapter(SnapshotBody | None)
_REBUILD: TypeAdapter[RebuildBody | None] = TypeAdapter(RebuildBody | None)
_VERIFY: TypeAdapter[VerifyBody | None] = TypeAdapter(VerifyBody | None)


@router.post(
    "/snapshots", status_code=202, response_model=StartedJobResponse, openapi_extra=accepts(SnapshotBody | None)
)
async def start_snapshot(request: Request) -> Response:
    """Write a snapshot of all resources, from which the service starts faster and after which the log can be
    pruned."""

    def run(_: SnapshotBody) -> Run:
        return wired(request).service.maintenance.snapshot

    return await _start(request, "snapshot", _SNAPSHOT, SnapshotBody, run)


@router.post("/rebuilds", status_code=202, response_model=StartedJobResponse, openapi_extra=accepts(RebuildBody | None))
async def start_rebuild(request: Request) -> Response:
    """Rebuild indexes from a fresh snapshot and put them in place of the present ones.

    Afterwards relays forward as little as possible. `rederived` in the job's `detail` has the change by relay: what
    to `subscribe` and then to `unsubscribe` upstream, the first ids and their number, with the `seq`; by link in
    `links` where a relay has links, which are notified already.
    """

    def run(body: RebuildBody) -> Run:
        resources = _known(request, body.resources)
        service = wired(request).service
        leads = service.node.leads
        return partial(service.maintenance.rebuild, resources=resources, engine=body.engine, rederive=leads)

    return await _start(request, "rebuild", _REBUILD, RebuildBody, run)


@router.post("/verify", status_code=202, response_model=StartedJobResponse, openapi_extra=accepts(VerifyBody | None))
async def start_verify(request: Request) -> Response:
    """Compare every list and index with a scan of the objects; any difference makes the job fail."""

    def run(body: VerifyBody) -> Run:
        resources = _known(request, body.resources)
        return partial(wired(request).service.maintenance.verify, resources=resources, engine=body.engine)

    return await _start(request, "verify", _VERIFY, VerifyBody, run)


@router.get("/jobs", response_model=JobPage, openapi_extra=accepts(query=PageQuery))
async def list_jobs(request: Request) -> Response:
    """List the jobs that have not ended and the last hundred that have, in order of number."""
    page = query(request, PageQuery)
    after = 0
    if page.after is not None:
        number = number_of(page.after)
        if number is None:
            raise invalid("cursor", "is not a cursor of this list")
        after = number
    jobs = [job for job in wired(request).service.jobs if job.number > after]
    shown = jobs[: page.limit]
    more = cursor(shown[-1].id) if len(jobs) > page.limit else None
    return JsonResponse({"items": [job.shown() for job in shown], "next": more})


@router.get("/jobs/{id}", response_model=JobResponse)
async def get_job(request: Request) -> Response:
    """Get the progress or result of a job. Jobs end with the service and are forgotten."""
    query(request, Query)
    return JsonResponse(_job(request).shown())


@router.delete("/jobs/{id}", response_model=JobResponse)
async def cancel_job(request: Request) -> Response:
    """Cancel a job: one that waits ends now, one that runs at its next step, and is `cancelled` then.

    The response is the job as it is; one that has ended stays as it was. Nothing half-written stays, and what is
    served stays as it is, except for the indexes that a rebuild has put in place already.
    """
    query(request, Query)
    job = _job(request)
    wired(request).service.jobs.cancel(job)
    return JsonResponse(job.shown())


@router.get("/jobs/{id}/stream", response_class=EventStream, responses=JOB_EVENTS)
async def stream_job(request: Request) -> Response:
    """Follow a job by server-sent events.

    `progress` has the job as GET shows it: as it is, then a few times a second while it changes, and at its end.
    `gone` ends the stream after that. Any stream begins with the job as it is, so there is nothing to resume. A
    block with an id alone is a heartbeat.
    """
    query(request, Query)
    return JobStream(wired(request).service.hub, keyring_of(request), caller_of(request), _job(request))


def _job(request: Request) -> Job:
    id = request.path_params["id"]
    job = wired(request).service.jobs.get(id)
    if job is None:
        raise not_found("id", f"there is no job {id[:128]!r}")
    return job


def _hint(name: str, resources: list[str]) -> str:
    """What a reason adds for a name without its type: the full names of the resources that have it, if any."""
    meant = [one for one in resources if one.partition("/")[2] == name]
    return f"; name it {' or '.join(meant)}" if meant else ""


def _known(request: Request, resources: list[str] | None) -> list[str] | None:
    """The resources once each. Raises the problem 422 where one is not there."""
    if resources is None:
        return None
    catalog = wired(request).service.catalog
    bad = [
        FieldError(f"resources[{n}]", f"there is no {name[:140]!r}{_hint(name, catalog.names())}")
        for n, name in enumerate(resources)
        if catalog.engine(name) is None
    ]
    if bad:
        raise many(bad)
    return list(dict.fromkeys(resources))


async def _start(
    request: Request,
    kind: Kind,
    adapter: Reads[B | None],
    default: Callable[[], B],
    run_of: Callable[[B], Run],
) -> Response:
    """Check a request and queue its job; under an Idempotency-Key that came before, name the first one's job.

    The answer is stored before the job is queued: should the service end in between, the key names a job that was
    never run and is not known.
    """
    query(request, Query)
    if "content-type" in request.headers:
        format_of(request)
    raw = await read(request)
    if raw:
        format_of(request)
    service = wired(request).service
    ticket = await claim(service.answers, request, raw)
    if isinstance(ticket, Replay):
        return JsonResponse(ticket.answer, ticket.status)
    try:
        run = run_of((validated(raw, adapter) if raw else None) or default())
        job = service.jobs.reserve(kind)
        answer = {"job": job.id}
        try:
            if ticket:
                kept = ticket.store(service.stores.log.last_lsn, 202, answer, time.time())
                await asyncio.to_thread(keep_answer, service.stores.log.ownership, kept)
        except BaseException:
            service.jobs.withdraw(job)
            raise
        service.jobs.start(job, run)
    except BaseException:
        if ticket:
            ticket.abandon()
        raise
    if ticket:
        ticket.complete(202, answer)
    return JsonResponse(answer, 202)


class JobStream(Response):
    """The response to a request for a job's stream, which `caller` made."""

    media_type = EventStream.media_type

    def __init__(self, hub: Hub, keyring: Keyring, caller: Caller, job: Job) -> None:
        super().__init__()
        self._hub = hub
        self._keyring = keyring
        self._caller = caller
        self._job = job

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._keyring.check(self._caller)
        stream = _Stream(self._hub, receive, send, self._job)
        self._hub.connections.add(stream)
        self._hub.connections.bind(stream, self._caller)
        unwatch = self._job.watch(stream.show)
        try:
            stream.show()
            await send(START)
            await stream.run()
        finally:
            unwatch()
            self._hub.connections.remove(stream)


class _Stream(Connection):
    """A connection that shows one job. Only the newest state waits for a slow reader."""

    transport = "sse"

    def __init__(self, hub: Hub, receive: Receive, send: Send, job: Job) -> None:
        super().__init__(hub, hub.limits.stream_queue)
        self._receive = receive
        self._send = send
        self._job = job
        self._reader = Reader(self)

    def readers(self) -> Iterable[Reader]:
        return ()

    def show(self) -> None:
        """Queue the job as it is now, and if it has ended, the end."""
        if self.ending is not None:
            return
        job = self._job
        self.queue.clear()
        data = JSONResponse(job.shown()).body
        self.queue.append((self._reader, message(job.id, job.version, "progress", bytes(data).decode())))
        if job.over:
            self.queue.append((self._reader, message(job.id, job.version, GONE, f'{{"job":"{job.id}"}}')))
            self.end(1000)
        self.wake()

    async def listen(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass

    async def send_queue(self) -> None:
        blocks = b"".join(item.block for _, item in self.queue)
        self.queue.clear()
        await self._write(blocks)

    async def send_heartbeat(self) -> None:
        await self._write(f"id: {self._job.id}:{self._job.version}\n\n".encode())

    async def send_end(self, code: int) -> None:
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    def on_finish(self, reader: Reader) -> None:
        self.end(1000)

    async def _write(self, blocks: bytes) -> None:
        await self._send({"type": "http.response.body", "body": blocks, "more_body": True})
