"""Administration: snapshots, rebuilds and verifications as jobs, and how far they are."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Annotated, Any, Protocol, TypeVar

from pydantic import BaseModel, Field, TypeAdapter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from app.api.bodies import Reads, kind_of, read, validated
from app.api.paging import PageQuery, Query, cursor, query
from app.api.responses import JsonResponse
from app.api.routing import Routes, claim
from app.api.values import Strict
from app.delivery.feed import GONE, message
from app.delivery.hub import Hub
from app.delivery.readers import Outbox, Reader
from app.delivery.sse import START, EventStream
from app.idempotency import Answers, Replay
from app.jobs import Engine, Job, Jobs, Kind, Maintenance, Run, State, number_of
from app.problems import FieldError, Problem, invalid, many, not_found
from app.security import ADMIN, ANONYMOUS, Keyring
from app.storage import Stores
from app.storage.answers import keep_answer
from app.storage.catalog import Catalog

B = TypeVar("B", bound=BaseModel)


class SnapshotBody(Strict):
    """A snapshot has nothing to choose."""


_Resources = Annotated[
    list[str] | None,
    Field(min_length=1, description="Which, such as `boards/delays`; all that are there, if left out."),
]


class RebuildBody(Strict):
    """What is to be rebuilt, and on what."""

    resources: _Resources = None
    engine: Annotated[Engine, Field(description="In this process, or on Spark.")] = "local"


class VerifyBody(Strict):
    """What is to be verified, and on what."""

    resources: _Resources = None
    engine: Annotated[Engine, Field(description="In this process, or on Spark.")] = "local"


class StartedJob(Strict):
    """The job that does it."""

    job: str
    replayed: bool = False


class ShownJob(Strict):
    """A job. `detail` has the `step` while it runs, then what came of it, or the `error`."""

    job: str
    kind: Kind
    state: State
    progress: Annotated[float, Field(ge=0, le=1)]
    detail: dict[str, Any]
    started: str | None
    ended: str | None


class ShownJobs(Strict):
    """A page of jobs."""

    items: list[ShownJob]
    next: str | None


_SNAPSHOT: TypeAdapter[SnapshotBody | None] = TypeAdapter(SnapshotBody | None)
_REBUILD: TypeAdapter[RebuildBody | None] = TypeAdapter(RebuildBody | None)
_VERIFY: TypeAdapter[VerifyBody | None] = TypeAdapter(VerifyBody | None)


class Running(Protocol):
    """What the routes need of the service."""

    stores: Stores
    answers: Answers
    catalog: Catalog
    hub: Hub
    jobs: Jobs

    @property
    def maintenance(self) -> Maintenance: ...


class JobRoutes:
    """``/v1/admin/snapshots``, ``rebuilds``, ``verify`` and ``jobs``."""

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring
        self._service: Running | None = None

    def start(self, service: Running) -> None:
        """Give the routes the service that was started."""
        self._service = service

    def add_routes(self, routes: Routes) -> None:
        """Serve the jobs."""

        def start(path: str, endpoint: Any, body: Any) -> None:
            routes.add("POST", path, endpoint, needs=ADMIN, tag="admin", answers={202: StartedJob}, body=body | None)

        start("/v1/admin/snapshots", self.start_snapshot, SnapshotBody)
        start("/v1/admin/rebuilds", self.start_rebuild, RebuildBody)
        start("/v1/admin/verify", self.start_verify, VerifyBody)
        all_, one = "/v1/admin/jobs", "/v1/admin/jobs/{id}"
        routes.add("GET", all_, self.list_jobs, needs=ADMIN, tag="admin", answers={200: ShownJobs}, query=PageQuery)
        routes.add("GET", one, self.get_job, needs=ADMIN, tag="admin", answers={200: ShownJob})
        routes.add(
            "GET",
            one + "/stream",
            self.stream_job,
            needs=ADMIN,
            tag="admin",
            answers={200: None},
            content=EventStream.media_type,
        )

    @property
    def service(self) -> Running:
        """The service. No request gets here before there is one: the guard answers 503 until then."""
        assert self._service is not None
        return self._service

    async def start_snapshot(self, request: Request) -> Response:
        """Write a snapshot of everything, from which the service starts faster and the log can be cut."""

        def run(_: SnapshotBody) -> Run:
            return self.service.maintenance.snapshot

        return await self._start(request, "snapshot", _SNAPSHOT, SnapshotBody, run)

    async def start_rebuild(self, request: Request) -> Response:
        """Lay indexes out anew from a fresh snapshot and put them in place of the present ones.

        Relays forward the least that they can from then on. `rederived` in the job's `detail` says by relay what that
        changed: what to `subscribe` and then to `unsubscribe` upstream, the first ids and how many there are, with the
        `seq`; by link in `links` where a relay has links, which are told already.
        """

        def run(body: RebuildBody) -> Run:
            resources = self._known(body.resources)
            return partial(self.service.maintenance.rebuild, resources=resources, engine=body.engine)

        return await self._start(request, "rebuild", _REBUILD, RebuildBody, run)

    async def start_verify(self, request: Request) -> Response:
        """Compare every list and index with a scan of the objects; any difference makes the job fail."""

        def run(body: VerifyBody) -> Run:
            resources = self._known(body.resources)
            return partial(self.service.maintenance.verify, resources=resources, engine=body.engine)

        return await self._start(request, "verify", _VERIFY, VerifyBody, run)

    async def list_jobs(self, request: Request) -> Response:
        """The jobs that have not ended and the last hundred that have, in order of number."""
        page = query(request, PageQuery)
        after = 0
        if page.after is not None:
            number = number_of(page.after)
            if number is None:
                raise invalid("cursor", "is not a cursor of this list")
            after = number
        jobs = [job for job in self.service.jobs if job.number > after]
        shown = jobs[: page.limit]
        more = cursor(shown[-1].id) if len(jobs) > page.limit else None
        return JsonResponse({"items": [job.shown() for job in shown], "next": more})

    async def get_job(self, request: Request) -> Response:
        """How far a job is, or what came of it. Jobs end with the service, and are not known after its restart."""
        query(request, Query)
        return JsonResponse(self._job(request).shown())

    async def stream_job(self, request: Request) -> Response:
        """Follow a job by server-sent events.

        `progress` has the job as GET shows it: as it is, then a few times a second while it changes, and at its end.
        `gone` ends the stream after that. Any stream begins with the job as it is, so there is nothing to resume. A
        block with an id alone is a heartbeat.
        """
        query(request, Query)
        key_id = request.scope.get("key_id", ANONYMOUS)
        return JobStream(self.service.hub, self._keyring, key_id, self._job(request))

    def _job(self, request: Request) -> Job:
        id = request.path_params["id"]
        job = self.service.jobs.get(id)
        if job is None:
            raise not_found("id", f"there is no job {id[:128]!r}")
        return job

    def _known(self, resources: list[str] | None) -> list[str] | None:
        """The resources once each. Raises the problem 422 where one is not there."""
        if resources is None:
            return None
        engine = self.service.catalog.engine
        bad = [
            FieldError(f"resources[{n}]", f"there is no {name[:140]!r}")
            for n, name in enumerate(resources)
            if engine(name) is None
        ]
        if bad:
            raise many(bad)
        return list(dict.fromkeys(resources))

    async def _start(
        self,
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
        raw = await read(request)
        if raw:
            kind_of(request)
        service = self.service
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
    """The answer to a request for a job's stream. `key_id` is who asked."""

    media_type = EventStream.media_type

    def __init__(self, hub: Hub, keyring: Keyring, key_id: str, job: Job) -> None:
        super().__init__()
        self._hub = hub
        self._keyring = keyring
        self._key_id = key_id
        self._job = job

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if not self._keyring.allows(self._key_id, ADMIN):
            raise Problem("unauthorized", "the key was deleted")
        stream = _Stream(self._hub, receive, send, self._job)
        stream.keys.add(self._key_id)
        self._hub.join(stream)
        unwatch = self._job.watch(stream.show)
        try:
            stream.show()
            await send(START)
            await stream.run()
        finally:
            unwatch()
            self._hub.part(stream)


class _Stream(Outbox):
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
        self.stir()

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
