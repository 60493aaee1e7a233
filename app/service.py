"""The running service: the writer with what hangs on it, from an opened data directory to the last answered write."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from app import interpreter, logs, ticks
from app.delivery.feeds import FeedSource
from app.delivery.hub import Hub
from app.delivery.lists import BoardSource
from app.delivery.notifications import RelaySource
from app.delivery.results import MapSource
from app.delivery.wins import MatcherSource
from app.expiry import Expiry
from app.idempotency import Answers
from app.jobs import Jobs, Numbers
from app.kernels import Kernels
from app.kinds import Kind, Kinds
from app.kinds.boards import BoardKind
from app.kinds.feeds import FeedKind
from app.kinds.maps import MapKind
from app.kinds.matchers import MatcherKind
from app.kinds.relays import RelayKind
from app.maintenance import Maintenance
from app.metrics import Metrics
from app.overlay.overlay import Overlay
from app.problems import Problem
from app.recovery import recover
from app.resources import Resources
from app.schedule import Schedule
from app.security import Keyring
from app.settings import Settings
from app.storage import Stores
from app.storage.catalog import Catalog
from app.storage.log import LogUnavailable
from app.storage.snapshots import Snapshots
from app.ticks import Ticks
from app.writer import Writer
from formats.folder import Folder
from indexes.boards.board import Board
from indexes.boards.commands import BoardConfig, Unsubscribe
from indexes.boards.subscribers import Edit
from indexes.feeds.commands import DeleteSubscriptions as DeleteFeedSubscriptions
from indexes.feeds.engine import FeedEngine
from indexes.feeds.model import FeedConfig
from indexes.maps.commands import DeleteQueries
from indexes.maps.engine import MapEngine
from indexes.maps.model import MapConfig
from indexes.matchers.commands import DeleteSubscriptions
from indexes.matchers.engine import MatcherEngine
from indexes.matchers.model import MatcherConfig
from indexes.matchers.plans import EditPlan
from indexes.relays import commands as relay_commands
from indexes.relays.engine import RelayEngine
from indexes.relays.model import RelayConfig

ANSWERS_EXPIRE_EVERY = 600.0

MEND_EVERY = 1.0
"""Seconds between two looks whether a commit has failed."""

LOOK_EVERY = 5.0
"""Seconds between two looks for resources that are worth a rebuild."""

LOOK_AT_LEAST_EVERY = 3600.0
"""The longest that is waited for the next look after rebuilds that failed, in seconds."""

WORTH_REBUILDING = 50_000
"""Subscriptions below which an index that changes in place is as good as a fresh one."""

log = logs.get("service")


class Interrupted(Exception):
    """The service was to end before it had started."""


class Service:
    """What the routes need: `boards`, `matchers`, `relays`, `maps` and `feeds` for changes and reads, `overlay` for the
    links of relays, `hub` for streams, `expiry` for lifetimes, and `jobs` for the long work that `maintenance` does.
    Behind them all are the one `writer` and the `catalog` of all kinds; `ticks` is the clock of feeds. Hub and expiry
    know resources by their whole names, as ``boards/delays``."""

    def __init__(self, settings: Settings, stores: Stores, metrics: Metrics, keyring: Keyring) -> None:
        self.settings = settings
        self.metrics = metrics
        self.stores = stores
        boards, matchers, relays, maps, feeds = BoardKind(), MatcherKind(), RelayKind(), MapKind(), FeedKind()
        kinds = Kinds(boards, matchers, relays, maps, feeds)
        self._deletions: dict[Kind, Callable[[list[str]], Any]] = {
            boards: Unsubscribe,
            matchers: DeleteSubscriptions,
            relays: relay_commands.DeleteSubscriptions,
            maps: DeleteQueries,
            feeds: DeleteFeedSubscriptions,
        }
        self.catalog = Catalog(kinds)
        self.answers = Answers(settings.idempotency_hours, stores.log.answer, remote=stores.log.database.remote)
        self.writer = Writer(stores.log, self.catalog, self.answers, metrics, settings.max_queue)
        self.boards: Resources[Board, BoardConfig] = Resources(boards, self.catalog, self.writer)
        self.matchers: Resources[MatcherEngine, MatcherConfig] = Resources(matchers, self.catalog, self.writer)
        self.relays: Resources[RelayEngine, RelayConfig] = Resources(relays, self.catalog, self.writer)
        self.maps: Resources[MapEngine, MapConfig] = Resources(maps, self.catalog, self.writer)
        self.feeds: Resources[FeedEngine, FeedConfig] = Resources(feeds, self.catalog, self.writer)
        sources = (
            BoardSource(self.boards.get, self.boards.between),
            MatcherSource(self.matchers.get, self.matchers.between),
            RelaySource(self.relays.get, self.relays.between),
            MapSource(self.maps.get, self.maps.between),
            FeedSource(self.feeds.get, self.feeds.between),
        )
        epoch = stores.directory.epoch
        self.overlay = Overlay(self.relays, settings.service, epoch, settings.heartbeat_seconds, metrics)
        self.hub = Hub(epoch, settings, sources, metrics)
        self.expiry = Expiry(self.hub.is_read, self._expire)
        self.ticks = Ticks(self.feeds, ticks.now)
        self.kernels = Kernels(settings.warm_first)
        self.jobs = Jobs(metrics, Numbers(stores.directory.path / "JOBS"), ready=self.kernels.need_all)
        root = Folder.at(settings.storage or stores.directory.path)
        self.snapshots = Snapshots(root, epoch, kinds)
        self.maintenance = Maintenance(settings, stores, self.catalog, self.writer, self.snapshots, metrics)
        self.schedule: Schedule | None = None
        for each in kinds:
            each.on_slice = partial(self._heard, each.prefix)
            each.on_drop = partial(self._dropped, each.prefix)
        boards.on_edit = partial(self._saw, boards.prefix)
        matchers.on_edit = partial(self._saw, matchers.prefix)
        relays.on_edit = partial(self._saw, relays.prefix)
        maps.on_edit = partial(self._saw, maps.prefix)
        feeds.on_edit = partial(self._saw, feeds.prefix)
        relays.on_done = partial(self._routed, relays.on_done)
        self.hub.on_open = self.expiry.touch
        keyring.on_removed.append(self.hub.end_key)
        self._chores: list[asyncio.Task[None]] = []
        self._interrupted = False

    async def start(self) -> None:
        """Replay the log and begin. Nothing is served before this is done; kernels that no resource needs yet may still
        be compiled then."""
        await asyncio.to_thread(self.kernels.start)
        self.maintenance.snapshot_lsn = await asyncio.to_thread(
            recover, self.snapshots, self.catalog, self.writer, self._say_progress
        )
        try:
            await self.kernels.need(*self._kernels_in_use(), seconds=None)
        except Problem:
            raise Interrupted from None
        for name in self.boards.names():
            board = self.boards.get(name)
            if board is not None:
                self.expiry.saw(self.boards.prefix + name, board.subscribers.lifetimes())
        for resources in (self.matchers, self.relays, self.maps, self.feeds):
            for name in resources.names():
                engine = resources.get(name)
                if engine is not None:
                    self.expiry.saw(resources.prefix + name, engine.ttl.items())
        interpreter.settle()
        self.hub.start()
        self.schedule = Schedule(self.settings, self.jobs, self.maintenance, lambda: self.maintenance.grown)
        self.schedule.start()
        await self.overlay.start()
        chores = self.expiry.run(), self.ticks.run(), self._expire_answers(), self._renew_worn(), self._mend()
        self._chores = [asyncio.create_task(chore) for chore in chores]

    def interrupt(self) -> None:
        """Give up starting, if that is not done yet: `start` raises `Interrupted`."""
        self._interrupted = True
        self.kernels.stop()

    def _kernels_in_use(self) -> set[str]:
        """The groups of kernels that the resources need which are there."""
        groups: set[str] = set()
        for resource in self.catalog.names():
            kind, _ = self.catalog.kinds.split(resource)
            engine: Any = self.catalog.engine(resource)
            groups.update(kind.kernels(engine.config))
        return groups

    def _say_progress(self, done: int, total: int) -> None:
        if self._interrupted:
            raise Interrupted
        log.info("replaying the log", row=done, of=total)

    async def close(self) -> None:
        """Finish what was accepted; a job that has not ended fails."""
        self.kernels.stop()
        if self.schedule is not None:
            self.schedule.stop()
        await self.overlay.close()
        await self.jobs.close()
        await self.hub.close_all()
        for task in self._chores:
            task.cancel()
        await asyncio.gather(*self._chores, return_exceptions=True)
        await self.writer.close()

    def _heard(self, prefix: str, name: str, engine: Any, part: Any) -> None:
        self.hub.deliver(prefix + name, part)

    def _saw(self, prefix: str, name: str, edit: Edit | EditPlan) -> None:
        self.expiry.saw(prefix + name, edit.lifetimes())

    def _routed(self, told: Callable[[str, Any], None], name: str, job: Any) -> None:
        told(name, job)
        self.overlay.changed(name)

    def _dropped(self, prefix: str, name: str, seq: int) -> None:
        self.hub.resource_gone(prefix + name, seq)
        self.expiry.drop(prefix + name)
        if prefix == self.relays.prefix:
            self.overlay.dropped(name)

    async def _expire(self, resource: str, keys: list[str]) -> None:
        kind, _ = self.catalog.kinds.split(resource)
        await self.writer.submit(resource, self._deletions[kind](keys))
        log.info("subscriptions expired", resource=resource, count=len(keys))

    async def _expire_answers(self) -> None:
        while True:
            await asyncio.sleep(ANSWERS_EXPIRE_EVERY)
            try:
                await self.writer.forget_answers()
            except LogUnavailable as error:
                log.warning("old answers stay for now", error=str(error))

    async def _mend(self) -> None:
        """Take back what a commit that failed may have left, before the service could die and find it in the log."""
        while True:
            await asyncio.sleep(MEND_EVERY)
            try:
                await self.writer.mend()
            except LogUnavailable as error:
                log.warning("the log cannot be mended yet", error=str(error))

    async def _renew_worn(self) -> None:
        """Rebuild resources whose subscriptions have changed much since their index was laid out. What relays forward
        stays: who forwards for them has not asked for it, and would not hear of a change. After a failure, which is in
        the log, the next look comes ever later."""
        pause = LOOK_EVERY
        while self.settings.rebuild_share:
            await asyncio.sleep(pause)
            worn = self.maintenance.worn(self.settings.rebuild_share, WORTH_REBUILDING)
            if worn and not self.jobs.open():
                log.info("indexes are worn", resources=worn)
                rebuild = partial(self.maintenance.rebuild, resources=worn, engine="local", rederive=False)
                job = self.jobs.submit("rebuild", rebuild)
                await job.wait()
                pause = LOOK_EVERY if job.state == "succeeded" else min(2 * pause, LOOK_AT_LEAST_EVERY)
