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
from starlette.routing import WebSocketRoute

from app.api import admin, document, health, jobs, problems, replicas, tickets, webhooks
from app.api.application import Application
from app.api.boards import routes as boards
from app.api.boards import together as board_writes
from app.api.boards.context import BoardContext
from app.api.boards.routes.subscriptions import BoardSubscriptionRoutes
from app.api.boards.together_subscriptions import new_subscriptions
from app.api.changes import Changes
from app.api.document import ABOUT, complete_document
from app.api.failures import FAILURES, refusal_of
from app.api.fast_router import Direct, Routes
from app.api.feeds import routes as feeds
from app.api.feeds import together as feed_writes
from app.api.feeds.context import FeedContext
from app.api.feeds.routes.subscriptions import FeedSubscriptionRoutes
from app.api.guard import Guard
from app.api.maps import routes as maps
from app.api.maps import together as map_writes
from app.api.maps.context import MapContext
from app.api.maps.routes.moves import carry
from app.api.maps.routes.queries import QueryRoutes
from app.api.maps.together_moves import client_moves
from app.api.matchers import routes as matchers
from app.api.matchers.context import MatcherContext
from app.api.matchers.routes.subscriptions import MatcherSubscriptionRoutes
from app.api.matchers.together import single_matches
from app.api.matchers.together_subscriptions import matcher_changes
from app.api.passing import Passing, PassOn
from app.api.relays import routes as relays
from app.api.relays.context import RelayContext
from app.api.relays.routes.subscriptions import RelaySubscriptionRoutes
from app.api.relays.together import subscription_edits
from app.api.relays.together_notifications import single_notifications
from app.api.site import console
from app.api.site import routes as site
from app.api.socket_requests import SocketRequests
from app.api.streams import SOCKETS, Sockets
from app.api.together.deletions import deletions
from app.api.together.lane import Lane
from app.api.together.subscription_changes import subscription_changes
from app.api.wired import Wired
from app.errors import DatabaseFailed, LogTaken, LogUnavailable
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
from app.storage.gate import FULL, free, wait_for_room
from app.storage.role import Role, give_up, read_role
from app.storage.shared_log import OtherHistory
from app.streaming.websocket import StreamSocket
from app.version import version
from app.write_path.read_ahead import ReadAhead
from app.write_path.writer import PATIENCE

ROUTERS = (
    health.router,
    admin.router,
    tickets.router,
    webhooks.router,
    jobs.router,
    replicas.router,
    replicas.protocol,
    boards.router,
    matchers.router,
    relays.router,
    maps.router,
    feeds.router,
    document.router,
    site.router,
    console.router,
)


def create_app(
    settings: Settings | None = None,
    stores: Stores | None = None,
    listen_first: bool = False,
    ahead: ReadAhead | None = None,
) -> FastAPI:
    """The whole service. `stores` may be opened before, so that what is wrong with them is said before it starts, and
    `ahead` be reading what is in them.

    With `listen_first` it is served while the log is still being replayed: the health routes answer, all others 503.
    """
    settings = settings or Settings()
    log = logs.get("service")
    lifecycle = Lifecycle(follows=bool(settings.follow))
    metrics = Metrics()
    metrics.ready.set_function(lambda: lifecycle.ready and lifecycle.refused() is None)
    keyring = Keyring(tokens=Tokens.of(settings))

    lane = Lane(settings, keyring, metrics, lambda: lifecycle.ready and lifecycle.takes_small_writes())

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        opened: Stores | None = None
        service: Service | None = None
        fetching: asyncio.Task[None] | None = None
        telemetry = exporting.begin(metrics)

        def build(found: Stores, role: Role | None) -> Service:
            """Connect everything to the stores that were opened."""
            made = Service(settings, found, metrics, keyring, role, ahead)
            passing = Passing(made.node, settings, metrics)
            requests = SocketRequests(
                app, Routes(ROUTERS), settings, metrics, lane, lambda: lifecycle.ready, passing.pass_socket_request
            )
            app.state.wired = wired = wire(made, found, keyring, requests)
            app.state.passing = passing
            lane.answers, lane.writer = made.answers, made.writer
            lane.add(board_writes.object_changes(wired.boards))
            lane.add(map_writes.object_changes(wired.maps))
            lane.add(feed_writes.single_posts(wired.feeds))
            lane.add(new_subscriptions(wired.boards, BoardSubscriptionRoutes()))
            lane.add(matcher_changes(wired.matchers))
            lane.add(deletions(wired.boards, BoardSubscriptionRoutes))
            lane.add(deletions(wired.matchers, MatcherSubscriptionRoutes))
            lane.add(deletions(wired.maps, QueryRoutes))
            lane.add(deletions(wired.feeds, FeedSubscriptionRoutes))
            lane.add(single_matches(wired.matchers))
            lane.add(client_moves(wired.maps, QueryRoutes()))
            lane.add(subscription_edits(wired.relays, RelaySubscriptionRoutes()))
            lane.add(single_notifications(wired.relays))
            for context, routes in (
                (wired.boards, BoardSubscriptionRoutes()),
                (wired.relays, RelaySubscriptionRoutes()),
                (wired.maps, QueryRoutes()),
                (wired.feeds, FeedSubscriptionRoutes()),
            ):
                lane.add(subscription_changes(context, routes))
            lifecycle.kernels = made.kernels
            lifecycle.refused = lambda: found.log.refused
            lifecycle.about_node, lifecycle.unready = made.node.about, made.node.unready
            lifecycle.takes_small_writes = made.node.takes_small_writes
            made.node.restart = lifecycle.end_to_restart
            made.on_lost = lifecycle.fail
            lifecycle.stopping.append(made.kernels.stop)  # requests that wait for kernels would hold up the end
            return made

        def admit(found: Stores) -> None:
            nonlocal fetching
            keyring.load(found.keys.all())
            fetching = None if keyring.tokens is None else asyncio.create_task(keyring.tokens.keep_fresh())
            check_door(settings, keyring)

        async def start() -> None:
            had_role = await asyncio.to_thread(lambda: read_role(settings.data).role is not None)
            try:
                await begin()
            except Interrupted:
                raise
            except Exception as error:
                # Whatever failed, a full disk explains it, and a node of a group that is down helps nobody. The first
                # start fails at once: it is watched.
                if not had_role or free(settings.data) >= FULL:
                    raise
                log.warning("waiting for room on the disk", data=str(settings.data), error=str(error))
                if await asyncio.to_thread(wait_for_room, settings.data, lambda: lifecycle.ending):
                    lifecycle.end_to_restart("there is room on the disk again")
                raise Interrupted from error

        async def restart(why: Exception, rejoin: bool = False) -> Interrupted:
            """Restart the process, which then takes the leader's snapshot if it is to `rejoin`; raise what this
            returns.
            """
            if rejoin:
                await asyncio.to_thread(give_up, settings.data, str(why))
            lifecycle.end_to_restart(str(why))
            return Interrupted()

        async def begin() -> None:
            nonlocal opened, service
            if opened is None or service is None:
                # What is opened depends on the other nodes, which may not be there yet.
                from app.replication.joining import Cancelled, open_in_group

                try:
                    found, role = await asyncio.to_thread(open_in_group, settings, lambda: lifecycle.ending)
                except Cancelled:
                    raise Interrupted from None
                except OtherHistory as error:
                    raise await restart(error, rejoin=True) from error
                opened = found
                if lifecycle.ending:
                    raise Interrupted
                service = build(found, role)
                admit(found)
            try:
                await service.start()
            except LogUnavailable as error:
                if settings.shares_log and isinstance(error, (DatabaseFailed, LogTaken)):
                    # The next start waits for the database, or finds another node that leads.
                    raise await restart(error) from error
                if service.node.leads or not await asyncio.to_thread(opened.log.reachable):
                    raise
                # What it holds is the leader's as well.
                raise await restart(error, rejoin=True) from error
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
            in_group = bool(settings.follow or settings.peers) or read_role(settings.data).role is not None
            if stores is not None or not listen_first or not in_group:
                opened = stores
                if opened is None:
                    opened = await asyncio.to_thread(
                        open_stores, settings.data, settings.database, accept_log_end=settings.accept_log_end
                    )
                service = build(opened, None)
                admit(opened)
            starting = asyncio.create_task(start())
            if listen_first:
                starting.add_done_callback(started)
            else:
                await starting
            yield
            lifecycle.stop()
            if service is not None:
                service.interrupt()
            await asyncio.wait([starting])
            if starting.exception() is None and service is not None:
                await service.close(lifecycle.left(PATIENCE))
        finally:
            lifecycle.stop()
            if fetching is not None:
                fetching.cancel()
            if opened is not None:
                opened.close()
            log.info("stopped")
            if telemetry is not None:
                await telemetry.end()

    app = Application(
        title="Rankcast",
        version=version(),
        **ABOUT,
        lifespan=lifespan,
        redirect_slashes=False,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        telemetry={"tracing": False, "metrics": False, "logs": False},
    )
    ways = PassOn(Direct(app.behind, ROUTERS, sockets=[SOCKETS]), ROUTERS)
    app.front = Guard(ways, settings=settings, keyring=keyring, metrics=metrics, ready=lambda: lifecycle.ready)
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
