"""Where everything is wired: read this first.

A request passes the guard (`app.guard`), reaches a route of `app.api`, and becomes a command. Whatever is opened from
the data directory is opened in the lifespan, so that an application can be made, and its document written, without one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.middleware import Middleware

from app import logs, problems
from app.api import admin, boards, feeds, health, jobs, maps, matchers, relays, streams
from app.api.direct import Direct
from app.api.document import add_document
from app.api.failures import FAILURES
from app.api.routing import Routes
from app.guard import Guard
from app.kernels import Kernels
from app.metrics import Metrics
from app.preload import preload
from app.security import Keyring, check_door
from app.service import Interrupted, Service
from app.settings import Settings
from app.storage import Stores, open_stores
from app.version import version


class Lifecycle:
    """Whether requests are served. `stopping` is called once, before open connections are waited for; `failed` when the
    service that listens already could not be started."""

    def __init__(self) -> None:
        self.ready = False
        self.kernels: Kernels | None = None
        self.error: BaseException | None = None
        self.failed: Callable[[], None] = lambda: None
        self.stopping: list[Callable[[], None]] = []
        self.draining: Callable[[], Awaitable[None]] | None = None

    async def drain(self) -> None:
        """Wait until the streams have ended, so that the server does not cut them."""
        if self.draining is not None:
            await self.draining()

    def stop(self) -> None:
        """Serve nothing more and end what would not end by itself."""
        self.ready = False
        hooks, self.stopping = self.stopping, []
        for hook in hooks:
            hook()


def create_app(settings: Settings | None = None, stores: Stores | None = None, listen_first: bool = False) -> FastAPI:
    """The whole service. `stores` may be opened before, so that what is wrong with them is said before it starts.

    With `listen_first` it is served while the log is still being replayed: the health routes answer, all others 503.
    """
    settings = settings or Settings()
    log = logs.get("service")
    lifecycle = Lifecycle()
    metrics = Metrics()
    keyring = Keyring()
    key_routes = admin.KeyRoutes(keyring)
    board_routes = boards.BoardRoutes()
    matcher_routes = matchers.MatcherRoutes(keyring)
    relay_routes = relays.RelayRoutes()
    map_routes = maps.MapRoutes()
    feed_routes = feeds.FeedRoutes()
    stream_routes = streams.StreamRoutes(keyring, map_routes.moves.carry)
    job_routes = jobs.JobRoutes(keyring)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        opened = (
            stores if stores is not None else await asyncio.to_thread(open_stores, settings.data, settings.database)
        )
        service = Service(settings, opened, metrics, keyring)
        lifecycle.kernels = service.kernels
        lifecycle.stopping.append(service.kernels.stop)  # requests that wait for kernels would hold up the end

        async def start() -> None:
            await service.start()
            key_routes.start(opened, service.answers, service.writer.note)
            board_routes.start(service)
            matcher_routes.start(service)
            relay_routes.start(service)
            map_routes.start(service)
            feed_routes.start(service)
            stream_routes.start(service.hub)
            job_routes.start(service)
            lifecycle.stopping.append(service.hub.stop)
            lifecycle.draining = service.hub.close_all
            lifecycle.ready = True
            log.info("ready", data=str(opened.directory.path), epoch=opened.directory.epoch, lsn=opened.log.last_lsn)
            asyncio.get_running_loop().run_in_executor(None, preload)

        def started(task: asyncio.Task[None]) -> None:
            lifecycle.error = None if task.cancelled() else task.exception()
            if lifecycle.error is not None and not isinstance(lifecycle.error, Interrupted):
                log.critical("the service cannot start", exc_info=lifecycle.error)
                lifecycle.failed()

        try:
            keyring.load(opened.keys.all())
            check_door(settings, keyring)
            starting = asyncio.create_task(start())
            if listen_first:
                starting.add_done_callback(started)
            else:
                await starting
            yield
            lifecycle.stop()
            service.interrupt()
            await asyncio.wait([starting])
            if starting.exception() is None:
                await service.close()
        finally:
            lifecycle.stop()
            opened.close()
            log.info("stopped")

    app = FastAPI(
        title="Rankcast",
        version=version(),
        description="A publish/subscribe service in which every subscription is a ranked standing query.",
        lifespan=lifespan,
        redirect_slashes=False,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False},
        middleware=[
            Middleware(Guard, settings=settings, keyring=keyring, metrics=metrics, ready=lambda: lifecycle.ready),
            Middleware(Direct),
        ],
    )
    app.state.lifecycle = lifecycle
    problems.install(app, FAILURES)

    routes = Routes(app, keyring)
    health.add_routes(routes, metrics, lambda: lifecycle.ready, lambda: lifecycle.kernels)
    key_routes.add_routes(routes)
    board_routes.add_routes(routes)
    matcher_routes.add_routes(routes)
    relay_routes.add_routes(routes)
    map_routes.add_routes(routes)
    feed_routes.add_routes(routes)
    stream_routes.add_routes(routes, app)
    job_routes.add_routes(routes)

    add_document(app)
    return app
