"""The running service: every part of it, made and connected, from an opened data directory to shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from functools import partial
from typing import Any

from app.errors import DatabaseLost, LogUnavailable, ServiceError
from app.links.peer import Peers
from app.links.tree import LinkTree
from app.replication.node import Node
from app.resources.base import ResourceType, ResourceTypes
from app.resources.boards import BoardType
from app.resources.feeds import FeedType
from app.resources.maps import MapType
from app.resources.matchers import MatcherType
from app.resources.relays import RelayType
from app.runtime import clock, interpreter, logs
from app.runtime.egress import Egress
from app.runtime.kernels import Kernels
from app.runtime.metrics import Metrics
from app.runtime.priority import processors
from app.security.keyring import Keyring
from app.security.sealing import seal_links
from app.settings import Settings
from app.storage import Stores
from app.storage.lease import TERM
from app.storage.role import Role
from app.storage.root import StorageAway, StorageRoot
from app.storage.snapshots import Snapshots
from app.streaming.boards import BoardSource
from app.streaming.feeds import FeedSource
from app.streaming.hub import Hub
from app.streaming.maps import MapSource
from app.streaming.matchers import MatcherSource
from app.streaming.relays import RelaySource
from app.webhooks.webhooks import Webhooks
from app.write_path import ticks
from app.write_path.catalog import Catalog
from app.write_path.idempotency import Answers
from app.write_path.jobs import Jobs, Numbers
from app.write_path.lifetimes import Expiry
from app.write_path.maintenance import Maintenance
from app.write_path.read_ahead import ReadAhead
from app.write_path.recovery import rebuilt, recover
from app.write_path.replay import Followers
from app.write_path.resources import Resources
from app.write_path.schedule import Schedule
from app.write_path.ticks import Ticks
from app.write_path.writer import PATIENCE, Writer
from app.zones.balance import Balance
from app.zones.publisher import Publisher
from formats.folder import Folder
from indexes.boards.commands import Configure
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.boards.zones import Zone
from indexes.core import helper_threads
from indexes.core.edit_plan import EditPlan
from indexes.core.plan import Plan
from indexes.feeds.config import FeedConfig
from indexes.feeds.engine import FeedEngine
from indexes.maps.config import MapConfig
from indexes.maps.engine import MapEngine
from indexes.matchers.config import MatcherConfig
from indexes.matchers.engine import MatcherEngine
from indexes.relays.config import RelayConfig
from indexes.relays.engine import RelayEngine

ANSWERS_EXPIRE_EVERY = 600.0

BATCH_THREADS = 2
"""Threads that share the work of a large batch where nothing else is set and there are as many processors."""

MEND_EVERY = 1.0
"""Seconds between two looks after the log: at its place and disk, for failed commits, and to flush where it ends."""

COMPLETE_AT = 1 << 20
"""Bytes of responses to complete that do not wait in memory for the next write."""

CHECK_CHURN_EVERY = 5.0
"""Seconds between two checks for resources that need a rebuild."""

CHECK_CHURN_AT_LEAST_EVERY = 3600.0
"""Most seconds until the next check after rebuilds that failed."""

WORTH_REBUILDING = 50_000
"""Subscriptions below which a changed index is as good as a fresh one."""

log = logs.get("service")


class Interrupted(Exception):
    """The service was stopped before it had started."""


class Service:
    """All parts of the service.

    `boards`, `matchers`, `relays`, `maps` and `feeds` for changes and reads, `links` for those of relays, `hub` for
    streams, `webhooks` for those that are sent to a URL, `zones` for those on NATS, which `balance` cuts, `expiry` for
    the lifetimes of subscriptions, `ticks` for the windows of feeds, `jobs` for the long work of `maintenance`, which
    `schedule` begins by the clock, `kernels` for what is compiled. Behind them are the one `writer` and the `catalog`;
    `snapshots` go to the storage `root`. Hub and expiry use full names of resources, as ``boards/delays``.
    """

    def __init__(
        self,
        settings: Settings,
        stores: Stores,
        metrics: Metrics,
        keyring: Keyring,
        role: Role | None = None,
        ahead: ReadAhead | None = None,
    ) -> None:
        seal_links(settings)
        self.settings = settings
        self.metrics = metrics
        self.stores = stores
        boards, matchers, relays, maps, feeds = BoardType(), MatcherType(), RelayType(), MapType(), FeedType()
        resource_types = ResourceTypes(boards, matchers, relays, maps, feeds)
        self.catalog = Catalog(resource_types)
        self.answers = Answers(settings.idempotency_hours, stores.log.answer, remote=stores.log.database.remote)
        self.writer = Writer(stores.log, self.catalog, self.answers, metrics, settings.max_queue)
        metrics.writer_queue.set_function(lambda: self.writer.queued)
        self.boards: Resources[BoardEngine, BoardConfig] = Resources(boards, self.catalog, self.writer)
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
        role = role or Role(None, 0, epoch)
        # The row that noted the present term may have been pruned.
        term = stores.log.last_note(TERM) or (role.term if stores.log.pruned_through else 0)
        role = role._replace(term=max(role.term, term))
        history = stores.history(term)
        peers = Peers(hosts=settings.link_hosts, egress=Egress(settings.link_networks))
        self.links = LinkTree(self.relays, settings.service, history, settings.heartbeat_seconds, metrics, peers)
        self.hub = Hub(history, settings, sources, metrics)
        self.webhooks = Webhooks(self.hub, stores.webhooks, settings, metrics, self._last_seq)
        self.expiry = Expiry(self.hub.is_read, self._expire)
        self.ticks = Ticks(self.feeds, ticks.now)
        self.kernels = Kernels(settings.warm_first)
        numbers = Numbers(stores.directory.path / "JOBS")
        self.jobs = Jobs(metrics, numbers, ready=self._wait_for_job_kernels, compiled=self._job_kernels_share)
        root = Folder.at(settings.storage or stores.directory.path)
        self.snapshots = Snapshots(root, epoch, resource_types)
        self._ahead = ahead
        self.root = StorageRoot(root, settings.storage or root.path, stores.marks)
        self.maintenance = Maintenance(settings, stores, self.catalog, self.writer, self.snapshots, metrics, self.root)
        self.maintenance.on_cut = self._flush
        self.schedule: Schedule | None = None
        for each in resource_types:
            each.on_slice = partial(self._deliver, each.prefix)
            each.on_drop = partial(self._dropped, each.prefix)
            each.on_rebuilt = partial(self._rebuilt, each.prefix)
            each.on_edit = partial(self._note_lifetimes, each.prefix)
        rebuild = partial(rebuilt, self.snapshots, resource_types, stores.log)
        self.writer.repair.rebuild = rebuild
        self.node = Node(
            settings, stores, self.writer, self.catalog, self.answers, self.hub, metrics, keyring, role, term, rebuild
        )
        self.node.on_lead = self._lead
        self.node.link.touched = self._touched_here
        self.zones = Publisher(
            history, stores.zones, settings, metrics, self._board, self._cut_again, leads=self.node.leads
        )
        self.balance = Balance(settings.zone_drift, self.boards.names, self._board, self.cut_zones)
        self.writer.follower = Followers(self.webhooks, self.zones)
        relays.on_done = partial(self._routed, relays.on_done)
        self.hub.on_open = self.expiry.touch
        keyring.on_removed += [self.hub.connections.end_key, self.zones.key_gone]
        self.on_lost: Callable[[DatabaseLost], None] = lambda lost: None
        self._background: list[asyncio.Task[None]] = []
        self._interrupted = False

    async def start(self) -> None:
        """Replay the log and start the background tasks.

        Nothing is served before; kernels that no resource needs yet may still be compiled afterwards.
        """
        await asyncio.to_thread(self.kernels.start)
        helper_threads.provide((self.settings.batch_threads or min(BATCH_THREADS, processors())) - 1)
        if self.node.leads:
            await asyncio.to_thread(self.webhooks.load)
            await asyncio.to_thread(self.zones.load)
        ahead, self._ahead = self._ahead, None
        self.maintenance.snapshot_lsn = await asyncio.to_thread(
            recover, self.snapshots, self.catalog, self.writer, self._log_progress, self.root, ahead
        )
        await asyncio.to_thread(self._claim_storage)
        try:
            await self.kernels.need(*self._kernels_in_use(), seconds=None)
        except ServiceError:
            raise Interrupted from None
        for name in self.feeds.names():
            feed = self.feeds.get(name)
            if feed is not None:
                clock.clock.not_before(feed.now / 1000)
        self._note_all_lifetimes()
        interpreter.settle()
        self.hub.start()
        leads = lambda: self.node.leads  # noqa: E731
        self.schedule = Schedule(self.settings, self.jobs, self.maintenance, self._grown, self._rows_to_replay, leads)
        self.schedule.start()
        self._run(self._expire_answers(), self._rebuild_churned(), self.schedule.by_rows(), self._mend_log())
        await self.node.open_term()
        self.node.start()
        if self.node.leads:
            await self._begin_to_lead()

    async def _begin_to_lead(self) -> None:
        """Start what only a leader does: all that writes by itself, or speaks to others."""
        self.webhooks.start()
        self.zones.start(self.boards.names())
        await self.links.start()
        self._run(self.expiry.run(), self.ticks.run())
        if self.zones.enabled:
            self._run(self.balance.run())

    async def _lead(self) -> None:
        """This replica is the leader from now on. Lifetimes restart."""
        history = self.stores.history(self.node.term)
        self.links.enter(history)
        self.zones.enter(history)
        await asyncio.to_thread(self.webhooks.load)
        await asyncio.to_thread(self.zones.load)
        self._note_all_lifetimes()
        await self._begin_to_lead()

    def _run(self, *tasks: Coroutine[Any, Any, None]) -> None:
        self._background += [asyncio.create_task(task) for task in tasks]

    def _note_all_lifetimes(self) -> None:
        for resources in (self.boards, self.matchers, self.relays, self.maps, self.feeds):
            for name in resources.names():
                engine = resources.get(name)
                if engine is not None:
                    self.expiry.note_lifetimes(resources.prefix + name, resources.resource_type.lifetimes(engine))

    def _touched_here(self, most: int) -> list[tuple[str, str]]:
        """The subscriptions with a time to live that requests here named, or streams here follow, since the last time:
        the leader restarts their time.
        """
        return self.expiry.take_touched(self.hub.read_now(), most)

    def interrupt(self) -> None:
        """Stop starting: `start` raises `Interrupted` if it has not returned yet."""
        self._interrupted = True
        self.kernels.stop()

    # Groups are named in order: those that build on a main path are compiled behind it.

    def _kernels_in_use(self) -> list[str]:
        """The groups of kernels that serve the existing resources."""
        return list(dict.fromkeys(name for one, config in self._configs() for name in one.kernels(config)))

    def _job_kernels(self) -> list[str]:
        """The groups of kernels that jobs about the existing resources need."""
        return list(dict.fromkeys(name for one, config in self._configs() for name in one.job_kernels(config)))

    def _configs(self) -> Iterator[tuple[ResourceType, Any]]:
        """The type and the configuration of each existing resource."""
        for resource in self.catalog.names():
            resource_type, _ = self.catalog.resource_types.split(resource)
            engine: Any = self.catalog.engine(resource)
            yield resource_type, engine.config

    async def _wait_for_job_kernels(self) -> None:
        """Return once jobs call no kernel that is still to be compiled, also for resources that are made meanwhile."""
        ready: list[str] = []
        while (needed := self._job_kernels()) != ready:
            await self.kernels.need(*needed, seconds=None)
            ready = needed

    def _job_kernels_share(self) -> float:
        """The share of what `_wait_for_job_kernels` waits for that is compiled."""
        return self.kernels.share_of(self._job_kernels())

    def _grown(self) -> bool:
        return self.maintenance.grown

    def _rows_to_replay(self) -> int:
        return self.writer.last_lsn - self.maintenance.snapshot_lsn

    def _claim_storage(self) -> None:
        """Mark the storage root; what is wrong with it fails jobs and not the start."""
        try:
            self.root.claim()
        except (StorageAway, LogUnavailable, OSError) as error:
            log.warning("the storage root is not marked", why=str(error))

    def _log_progress(self, done: int, total: int) -> None:
        if self._interrupted:
            raise Interrupted
        log.info("replaying the log", row=done, of=total)

    async def close(self, patience: float = PATIENCE) -> None:
        """Apply what was accepted and stop; running jobs fail. After half of `patience` seconds what is logged but not
        applied is left to the next start.
        """
        self.kernels.stop()
        if self.schedule is not None:
            self.schedule.stop()
        if self.node.leads:
            await self.webhooks.stop()
        await self.links.close()
        await self.node.stop()
        await self.jobs.close(min(PATIENCE, patience / 4))
        await self.hub.close_all()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self.writer.close(min(PATIENCE, patience / 2))
        await self.zones.stop()
        if self.node.leads:
            await self.webhooks.close()

    def _last_seq(self, resource: str) -> int:
        return self.catalog.entry(resource).last_seq

    def _deliver(self, prefix: str, name: str, engine: Any, part: Any) -> None:
        self.hub.deliver(prefix + name, part)
        self.zones.deliver(prefix + name, part)

    def _board(self, name: str) -> BoardEngine | None:
        found: BoardEngine | None = self.catalog.engine(self.boards.prefix + name)
        return found

    async def _flush(self) -> None:
        """Store what would not be made again from a snapshot that is about to be written."""
        await self.webhooks.flush()
        await self.zones.flush()

    async def cut_zones(self, name: str, zones: tuple[Zone, ...]) -> None:
        """Give a board these zones, under a new version. Raises as `Writer.submit`."""
        await self.boards.submit(name, Configure(cut=zones))

    async def _cut_again(self, resource: str) -> None:
        """Let the zones of a board go on as they are under a new version."""
        name = resource.removeprefix(self.boards.prefix)
        cut = self.boards.latest(name).latest_config.cut
        if cut is not None:
            await self.cut_zones(name, cut.zones)

    def _note_lifetimes(self, prefix: str, name: str, edit: EditPlan[Any]) -> None:
        self.expiry.note_lifetimes(prefix + name, edit.lifetimes())

    def _routed(self, on_done: Callable[[str, Any], None], name: str, job: Any) -> None:
        on_done(name, job)
        self.links.changed(name, job.engine if isinstance(job, Plan) else None)

    def _dropped(self, prefix: str, name: str, seq: int) -> None:
        self.hub.resource_gone(prefix + name, seq)
        self.zones.dropped(prefix + name, seq)
        self.expiry.drop(prefix + name)
        if prefix == self.relays.prefix:
            self.links.dropped(name)

    def _rebuilt(self, prefix: str, name: str) -> None:
        self.hub.resource_rebuilt(prefix + name)
        self.zones.rebuilt(prefix + name)
        if prefix == self.relays.prefix:
            self.links.changed(name)

    async def _expire(self, resource: str, keys: list[str]) -> None:
        resource_type, _ = self.catalog.resource_types.split(resource)
        await self.writer.submit(resource, resource_type.deletion(keys))
        log.info("subscriptions expired", resource=resource, count=len(keys))

    async def _expire_answers(self) -> None:
        while True:
            await asyncio.sleep(ANSWERS_EXPIRE_EVERY)
            try:
                await self.writer.committer.forget_answers()
            except LogUnavailable as error:
                log.warning("old answers stay for now", error=str(error))

    async def _mend_log(self) -> None:
        """Look whether the log can be written, delete rows that a failed commit may have left, before a crash could
        make them part of the log, flush to disk where it ends, and write what completes stored responses where that is
        long and no other write comes. Once the database is lost the service ends.
        """
        while True:
            await asyncio.sleep(MEND_EVERY)
            await asyncio.to_thread(self.stores.gate.look)
            lost = await asyncio.to_thread(self.stores.log.ownership.look)
            if lost is not None and self.node.lose(lost):
                return
            if lost is not None:
                self.on_lost(DatabaseLost(lost))
                return
            try:
                await self.writer.committer.mend()
                if self.answers.bytes_to_complete > COMPLETE_AT:
                    await self.writer.committer.complete_answers()
            except LogUnavailable as error:
                log.warning("the log cannot be mended yet", error=str(error))
            try:
                await asyncio.to_thread(self.stores.log.sync_end)
            except OSError as error:
                log.warning("the end of the log is not flushed", error=str(error))

    async def _rebuild_churned(self) -> None:
        """Rebuild resources with much churn since their indexes were packed.

        What relays forward stays as it is, since their neighbours would not learn of a change. After a failure, which
        is logged, the next check comes later each time.
        """
        pause = CHECK_CHURN_EVERY
        while self.settings.rebuild_share:
            await asyncio.sleep(pause)
            churned = self.maintenance.churned(self.settings.rebuild_share, WORTH_REBUILDING)
            if churned and not self.jobs.open():
                log.info("rebuilding after churn", resources=churned)
                rebuild = partial(self.maintenance.rebuild, resources=churned, engine="local", rederive=False)
                job = self.jobs.submit("rebuild", rebuild)
                await job.wait()
                pause = CHECK_CHURN_EVERY if job.state == "succeeded" else min(2 * pause, CHECK_CHURN_AT_LEAST_EVERY)
