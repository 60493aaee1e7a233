"""The application: everything is built and connected here.

A request passes the guard (`app.api.guard`), reaches a route of `app.api`, and becomes a command. Whatever is opened
from the data directory is opened in the lifespan, so that an application can be made, and its document
written, without one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.routing import WebSocketRoute

from app.api import admin, document, health, jobs, problems, tickets, webhooks
from app.api.boards import routes as boards
from app.api.boards import together as board_writes
from app.api.boards.context import BoardContext
from app.api.changes import Changes
from app.api.document import ABOUT, complete_document
from app.api.failures import FAILURES, refusal_of
from app.api.fast_router import Direct, Routes
from app.api.feeds import routes as feeds
from app.api.feeds import together as feed_writes
from app.api.feeds.context import FeedContext
from app.api.guard import Guard
from app.api.maps import routes as maps
from app.api.maps import together as map_writes
from app.api.maps.context import MapContext
from app.api.maps.routes.moves import carry
from app.api.matchers import routes as matchers
from app.api.matchers.context import MatcherContext
from app.api.relays import routes as relays
from app.api.relays.context import RelayContext
from app.api.site import console
from app.api.site import routes as site
from app.api.socket_requests import SocketRequests
from app.api.streams import SOCKETS, Sockets
from app.api.together.lane import Lane
from app.api.wired import Wired
from app.runtime import exporting, logs
from app.runtime.lifecycle import Lifecycle
from app.runtime.metrics import Metrics
from app.runtime.preload import preload
from app.security.door import check_door
from app.security.keyring import Keyring
from app.security.tickets import Tickets
from app.security.tokens import Tokens
from app.service import Interrupted, Service
from app.settings import Settings
from app.storage import Stores, open_stores
from app.streaming.websocket import StreamSocket
from app.version import version
from app.write_path.writer import PATIENCE

ROUTERS = (
    health.router,
    admin.router,
    tickets.router,
    webhooks.router,
    jobs.router,
    boards.router,
    matchers.router,
    relays.router,
    maps.router,
    feeds.router,
    document.router,
    site.router,
    console.router,
)


def create_app(settings: Settings | None = None, stores: Stores | None = None, listen_first: bool = False) -> FastAPI:
    """The whole service. `stores` may be opened before, so that what is wrong with them is said before it starts.

    With `listen_first` it is served while the log is still being replayed: the health routes answer, all others 503.
    """
    settings = settings or Settings()
    log = logs.get("service")
    lifecycle = Lifecycle()
    metrics = Metrics()
    metrics.ready.set_function(lambda: lifecycle.ready and lifecycle.refused() is None)
    keyring = Keyring(tokens=Tokens.of(settings))

    lane = Lane(settings, keyring, metrics, lambda: lifecycle.ready)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        opened = (
            stores
            if stores is not None
            else await asyncio.to_thread(
                open_stores, settings.data, settings.database, accept_log_end=settings.accept_log_end
            )
        )
        service = Service(settings, opened, metrics, keyring)
        fetching: asyncio.Task[None] | None = None
        telemetry = exporting.begin(metrics)
        requests = SocketRequests(app, Routes(ROUTERS), settings, metrics, lane, lambda: lifecycle.ready)
        app.state.wired = wired = wire(service, opened, keyring, requests)
        lane.answers = service.answers
        lane.add(board_writes.object_changes(wired.boards))
        lane.add(map_writes.object_changes(wired.maps))
        lane.add(feed_writes.single_posts(wired.feeds))
        lifecycle.kernels = service.kernels
        lifecycle.refused = lambda: opened.log.refused
        service.on_lost = lifecycle.fail
        lifecycle.stopping.append(service.kernels.stop)  # requests that wait for kernels would hold up the end

        async def start() -> None:
            await service.start()
            lifecycle.stopping.append(service.hub.stop)
            lifecycle.draining = service.hub.close_all
            lifecycle.failing = service.writer.failed
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
            fetching = None if keyring.tokens is None else asyncio.create_task(keyring.tokens.keep_fresh())
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
                await service.close(lifecycle.left(PATIENCE))
        finally:
            lifecycle.stop()
            if fetching is not None:
                fetching.cancel()
            opened.close()
            log.info("stopped")
            if telemetry is not None:
                await telemetry.end()

    app = FastAPI(
        title="Rankcast",
        version=version(),
        **ABOUT,
        lifespan=lifespan,
        redirect_slashes=False,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False},
        middleware=[
            Middleware(Guard, settings=settings, keyring=keyring, metrics=metrics, ready=lambda: lifecycle.ready),
            Middleware(Direct, routers=ROUTERS, sockets=[SOCKETS]),
        ],
    )
    app.state.lifecycle, app.state.metrics, app.state.keyring, app.state.lane = lifecycle, metrics, keyring, lane
    problems.install(app, FAILURES)
    app.router.routes.append(WebSocketRoute(SOCKETS, Sockets(), name="stream"))
    for router in ROUTERS:
        app.include_router(router)
    complete_document(app)
    return app


def wire(service: Service, stores: Stores, keyring: Keyring, requests: SocketRequests) -> Wired:
    """What the endpoints work with."""
    maps, issued = MapContext(service), Tickets()
    return Wired(
        service,
        BoardContext(service),
        MatcherContext(service),
        RelayContext(service),
        maps,
        FeedContext(service),
        Changes("keys", stores, service.answers, service.writer.note),
        Changes("webhooks", stores, service.answers, service.writer.note),
        issued,
        StreamSocket(service.hub, keyring, issued, partial(carry, maps), requests, refusal_of),
    )
