"""This node among its replicas: whether it leads or follows, in which term, and how that changes.

A *term* is the time of one leader. The first one has term 0; who takes over writes a row that notes the next term, so
that each row of the log belongs to the term of the last such row. A node never follows a lower term than it knows, and
a leader that learns of a higher one steps down.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from app.errors import LogUnavailable, NotFollowed, NotPromoted, NotReady
from app.replication.follower import LeaderLink
from app.replication.followers import Followers
from app.replication.link import Lag, Link
from app.replication.nodes import Nodes, Status, Unreachable, leader_of
from app.replication.shared_link import SharedLink
from app.runtime import clock, logs
from app.runtime.metrics import Metrics
from app.security.keyring import Keyring
from app.settings import Settings
from app.storage import Stores
from app.storage.lease import TERM, LeaseHeld, LeaseState
from app.storage.role import LEADER, REPLICA, Role, give_up, write_role
from app.storage.rows import LogRow
from app.streaming.hub import Hub
from app.write_path.applying import not_replicated
from app.write_path.catalog import Catalog
from app.write_path.following import Diverged, Following
from app.write_path.idempotency import AT_START, Answers
from app.write_path.writer import Writer

LOOK_EVERY = 1.0
"""Seconds between two times that a leader asks the other nodes for a higher term."""

HAND_OVER = 5.0
"""Seconds that a leader which hands over has for it, and the new one to catch up."""

REOPEN = 10.0
"""Seconds after which a leader that handed over takes writes again, if nobody has taken over."""

FOLLOWS = "this node is a replica: writes are the leader's"

log = logs.get("replication")


class Node:
    """One node of a group. Lives on the event loop.

    `term` is that of the last row of the log, the role's the highest that is known. `on_lead` is awaited when a replica
    has become the leader; `restart` ends this process's service and restarts it.
    """

    def __init__(
        self,
        settings: Settings,
        stores: Stores,
        writer: Writer,
        catalog: Catalog,
        answers: Answers,
        hub: Hub,
        metrics: Metrics,
        keyring: Keyring,
        role: Role,
        term: int,
        rebuild: Callable[[str], Any],
    ) -> None:
        self.role = role
        self.on_lead: Callable[[], Awaitable[None]] = _nothing
        self.restart: Callable[[str], None] = lambda why: None
        self.fenced: str | None = None
        key = None if settings.key is None else settings.key.get_secret_value()
        self.nodes = Nodes((*settings.follow, *settings.peers), key)
        self.followers = Followers(stores, metrics, lambda: self.term, settings.sync_replicas, settings.sync_seconds)
        self.following = Following(writer, catalog, stores.log, answers, rebuild)
        parts = (stores, self.following, keyring, self.nodes, settings.service or "", lambda: self.role, self._give_up)
        self._shared = stores.shared
        self.link: Link = LeaderLink(*parts)
        if stores.shared is not None:
            self.link = link = SharedLink(stores.shared, settings.lease_seconds, *parts)
            link.on_vacant = self._vacant
        self.term = term
        self._settings = settings
        self._stores = stores
        self._writer = writer
        self._catalog = catalog
        self._answers = answers
        self._hub = hub
        self._one_at_a_time = asyncio.Lock()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._reopening: asyncio.TimerHandle | None = None
        self._leaving = False
        self.following.on_note = self._noted
        writer.applier.on_failed = self.following.note_failed
        if not self.leads:
            writer.closed, writer.applier.copies = FOLLOWS, True
        metrics.gauge("rankcast_role", "The role of this node.", "role", lambda: {self.role_name: 1.0})
        metrics.gauge("rankcast_lag_rows", "Rows that this node is behind its leader.", "role", self._lag_rows)
        metrics.gauge("rankcast_lag_seconds", "Seconds that this node is behind its leader.", "role", self._lag_seconds)
        metrics.gauge("rankcast_term", "The term of this node's log.", "role", lambda: {self.role_name: self.term})

    # --- what it is ---------------------------------------------------------------------------------------------------

    @property
    def leads(self) -> bool:
        """Whether this node is the leader."""
        return self.role.role != REPLICA

    @property
    def role_name(self) -> str:
        """``leader`` or ``replica``."""
        return LEADER if self.leads else REPLICA

    def takes_small_writes(self) -> bool:
        """Whether writes may be carried out here at the end of a turn, with no wait for replicas."""
        return self.leads and self._writer.closed is None and self._writer.committer.synced is None

    @property
    def lsn(self) -> int:
        """The last row that reads show."""
        return self._stores.log.last_lsn if self.leads else self.link.applied

    @property
    def lag(self) -> Lag:
        """How far this node is behind its leader."""
        return Lag(0, 0.0) if self.leads else self.link.lag()

    def unready(self) -> str | None:
        """Why this node is not to be used, by its role; None where it is."""
        if self.leads:
            return self.fenced
        if self.link.heard is None:
            return "the leader has not been heard of yet"
        lag = self.lag
        if lag.seconds > self._settings.max_lag:
            return f"it is {lag.seconds:.1f} s behind the leader, {self._settings.max_lag:g} s are allowed"
        return None

    def about(self) -> dict[str, Any]:
        """What `/readyz` says of this node."""
        rows, seconds = self.lag
        return {
            "role": self.role_name,
            "lsn": self.lsn,
            "durable": self._stores.log.last_lsn,
            "lag": {"rows": rows, "seconds": round(seconds, 3)},
            "term": self.term if self.leads else max(self.term, self.role.term),
            "epoch": self._stores.directory.epoch,
            "node": self.role.node,
        }

    def _lag_rows(self) -> dict[str, float]:
        return {self.role_name: float(self.lag.rows)}

    def _lag_seconds(self) -> dict[str, float]:
        return {self.role_name: self.lag.seconds}

    # --- life cycle ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Lead or follow, after the log was replayed."""
        self.followers.start()
        if self.leads:
            self._lead()
        else:
            self.link.start()

    async def open_term(self) -> None:
        """Note the term of a lease that was taken by an earlier process of this node, which did not come to that."""
        term = self._shared.lease.term if self._shared is not None and self.leads else None
        if term is not None and term > self.term:
            await self._writer.note(TERM, term)
            self._enter(term)
            self.role = self.role._replace(term=term)

    def _lead(self) -> None:
        self._stores.log.on_append = self.followers.tap.add
        self.followers.start()
        if self._settings.sync_replicas:
            self._writer.committer.synced = self.followers.synced
            self._answers.confirmed = self._confirmed
        if self.nodes.urls:
            self._spawn(self._look())
        if self._shared is not None:
            loop = asyncio.get_running_loop()

            def lost() -> None:
                loop.call_soon_threadsafe(self.lose, "another node has the lease")

            self._shared.keeper.on_lost = lost
            self._spawn(self._beat())

    async def _beat(self) -> None:
        """Say that the event loop runs, without which the lease is not prolonged."""
        assert self._shared is not None
        while self.leads:
            self._shared.keeper.beat()
            await asyncio.sleep(self._settings.lease_seconds / 10)

    async def stop(self) -> None:
        """Neither lead nor follow any more; what waits for replicas is not answered."""
        self._leaving = True
        self.followers.end()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.link.stop()
        await self.nodes.close()

    async def _confirmed(self) -> None:
        """Wait until replicas have what is in the log. Raises `NotReplicated`."""
        if not await self.followers.synced(self._stores.log.last_lsn):
            raise not_replicated()

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look(self) -> None:
        """Step down once another node leads with a higher term."""
        while self.leads:
            found = await self._others()
            leader = leader_of(found, self._stores.directory.epoch)
            if leader is not None and leader.rank > (self.term, self.role.node):
                await self.hear(leader.term, leader.node)
                return
            await asyncio.sleep(LOOK_EVERY)

    async def _others(self) -> list[Status]:
        return [one for one in await self.nodes.statuses() if one.node != self.role.node]

    # --- terms --------------------------------------------------------------------------------------------------------

    async def hear(self, term: int, node: str) -> None:
        """Learn that a node leads in a term. A leader of a lower one steps down; a replica looks for that one."""
        if self._leaving or (term, node) <= (self.term if self.leads else self.role.term, self.role.node):
            return
        if self.leads:
            await self._step_down(term, node)
        elif term > self.role.term:
            await self._store(self.role._replace(term=term))
            self.link.look_again()

    async def _step_down(self, term: int, node: str) -> None:
        self._leaving = True
        self.fenced = self._writer.closed = f"node {node} leads in term {term}, and this one in {self.term} only"
        log.warning("stepping down", term=self.term, higher=term, node=node, lsn=self._stores.log.last_lsn)
        self.followers.end()
        await self._store(self.role._replace(role=REPLICA, term=term))
        if self.nodes.urls:
            self.restart(self.fenced)
        else:
            log.error("this node follows nobody: name the others in RANKCAST_PEERS, and start it again")

    def lose(self, why: str) -> bool:
        """The log is another node's: find out at a new start what to be. Returns whether that is so, as it is where
        nodes share the log.
        """
        if self._shared is None:
            return False
        if not self._leaving:
            self._leaving = True
            self.fenced = self._writer.closed = why
            log.warning("stepping down", term=self.term, why=why, lsn=self._stores.log.last_lsn)
            self.followers.end()
            self.restart(why)
        return True

    async def _store(self, role: Role) -> None:
        self.role = self.role._replace(term=role.term) if self.leads else role
        await asyncio.to_thread(write_role, self._stores.directory.path, role)

    async def _give_up(self, why: str) -> None:
        if self._leaving:
            return
        self._leaving = True
        await asyncio.to_thread(give_up, self._stores.directory.path, why)
        self.restart(why)

    def _noted(self, row: LogRow) -> None:
        """A row of the leader's log notes something: a new term begins."""
        if row.resource == TERM:
            self._enter(row.first_seq)
            if row.first_seq > self.role.term:
                self._spawn(self._store(self.role._replace(term=row.first_seq)))

    def _enter(self, term: int) -> None:
        """Streams go on in a new term: positions of the one before are good up to where that ended."""
        seqs = {resource: entry.last_seq for resource, entry in self._catalog.entries.items()}
        self.term = term
        self._hub.enter(self._stores.history(term), seqs)
        log.info("a term begins", term=term, lsn=self._stores.log.last_lsn)

    # --- promotion ----------------------------------------------------------------------------------------------------

    async def promote(self, force: bool) -> dict[str, Any]:
        """Make this node the leader. Raises `NotPromoted` where that would lose rows, unless with `force`, and
        `LogUnavailable`.
        """
        async with self._one_at_a_time:
            if not self.leads:
                await self._promote(force)
        return {"role": self.role_name, "term": self.term, "lsn": self._stores.log.last_lsn}

    async def _promote(self, force: bool) -> None:
        began = time.monotonic()
        epoch = self._stores.directory.epoch
        found = [one for one in await self._others() if one.epoch == epoch]
        more = [one for one in found if one.role == REPLICA and one.lsn > self._stores.log.last_lsn]
        if more and not force and self._shared is None:
            best = max(more, key=lambda one: one.lsn)
            raise NotPromoted(
                f"{best.url} has the log up to row {best.lsn}, this node up to {self._stores.log.last_lsn}: promote "
                "that one, or give up these rows with force"
            )
        term = max(self.term, self.role.term, *(one.term for one in found), 0) + 1
        leader = leader_of(found, epoch)
        if leader is not None:
            await self._take_over(leader, term, force)
        await self._begin_term(term, found, began, handed_over=leader is not None)

    def _vacant(self, lease: LeaseState) -> None:
        """Nobody leads the log that nodes share."""
        if self._settings.failover_seconds and not self._one_at_a_time.locked() and not self._leaving:
            self._spawn(self._lead_by_itself(lease))

    async def _lead_by_itself(self, lease: LeaseState) -> None:
        """Take a lease that nobody has, and lead."""
        async with self._one_at_a_time:
            if self.leads or self._leaving:
                return
            log.warning("nobody leads: this node takes the lease", node=lease.node, term=lease.term)
            try:
                await self._begin_term(lease.term + 1, None, time.monotonic(), handed_over=False)
            except LeaseHeld as held:
                log.info("another node was quicker", why=str(held))
            except LogUnavailable as error:
                log.error("this node cannot lead", error=str(error))
            except Diverged as error:
                await self._give_up(str(error))
            except Exception as error:
                log.exception("this node cannot lead", error=str(error))

    async def _begin_term(self, term: int, others: list[Status] | None, began: float, handed_over: bool) -> None:
        """Lead in a new term, and tell the other nodes; without them, whoever has let the lease expire is not asked."""
        handed = time.monotonic()
        await self.link.stop()
        try:
            if self._shared is not None:
                term = await self._take_lease(term, force=others is not None)
            taken = time.monotonic()
            self._writer.applier.copies = False
            await self._writer.note(TERM, term)
            await asyncio.to_thread(write_role, self._stores.directory.path, self.role._replace(role=LEADER, term=term))
        except BaseException:
            self._writer.applier.copies = True
            if self._shared is not None:
                await asyncio.to_thread(self._shared.give_back)
            if not self._leaving:
                self.link.start()
            raise
        if self._shared is not None:
            since = clock.now() - self._answers.seconds
            self._answers.reload(await asyncio.to_thread(self._shared.answers, since, AT_START))
        self._enter(term)
        self.role = self.role._replace(role=LEADER, term=term)
        if others is not None:
            await asyncio.gather(*[self._tell(one, term) for one in others])
        self._lead()
        self._writer.closed = None
        await self.on_lead()
        log.warning(
            "this node leads",
            term=term,
            lsn=self._stores.log.last_lsn,
            handed_over=handed_over,
            seconds=round(time.monotonic() - began, 3),
            taking_over=round(handed - began, 3),
            catching_up=round(taken - handed, 3),
        )

    async def _take_lease(self, term: int, force: bool) -> int:
        """Take the lease, and then all that the log has; return its term."""
        assert self._shared is not None and isinstance(self.link, SharedLink)
        end = await asyncio.to_thread(self._shared.take, term, force)
        await self.link.catch_up(end)
        self._shared.lead()
        return self._shared.lease.term or term

    async def _take_over(self, leader: Status, term: int, force: bool) -> None:
        """Let a leader that can be reached end its writes, and take all that it has."""
        until = time.monotonic() + HAND_OVER
        body = {"term": term, "node": self.role.node}
        try:
            answer = await self.nodes.post(leader.url, "/v1/admin/replicas/handover", body, HAND_OVER)
            lsn = int(answer["lsn"])
            if self._shared is not None:
                # All that it had is in the log that both have, and is read once the lease is taken.
                return
            if self.link.leader is not None and await self.link.reach(lsn, until - time.monotonic()):
                return
            why = f"this node has the log up to row {self.link.applied}, and the leader up to {lsn}"
        except (Unreachable, KeyError, TypeError, ValueError) as error:
            why = str(error)
        if not force:
            raise NotPromoted(f"the leader {leader.url} can be reached and does not hand over: {why}")
        log.warning("a leader is replaced that did not hand over", url=leader.url, why=why)

    async def _tell(self, other: Status, term: int) -> None:
        try:
            await self.nodes.post(other.url, "/v1/admin/replicas/term", {"term": term, "node": self.role.node})
        except Unreachable as error:
            log.warning("a node does not know of the new term yet", url=other.url, error=str(error))

    async def hand_over(self, term: int, node: str) -> int:
        """End writes so that another node can lead in a higher term; returns the last row. Raises `NotFollowed` where
        there is nothing to hand over.
        """
        if not self.leads or term <= self.term:
            raise NotFollowed(f"this node is a {self.role_name} in term {self.term}")
        if self._writer.closed is None:
            self._writer.closed = "the leader hands over to another node"
            log.warning("handing over", term=term, node=node)
        if self._reopening is not None:
            self._reopening.cancel()
        self._reopening = asyncio.get_running_loop().call_later(REOPEN, self._reopen)
        try:
            async with asyncio.timeout(HAND_OVER):
                await self._writer.drained()
        except TimeoutError:
            raise NotReady("commands are still being applied", retry_after=1) from None
        return self._stores.log.last_lsn

    def _reopen(self) -> None:
        """Nobody has taken over."""
        self._reopening = None
        if self.leads and not self._leaving:
            self._writer.closed = None
            log.warning("nobody has taken over: this node goes on leading", term=self.term)


async def _nothing() -> None:
    """Nothing else begins."""
