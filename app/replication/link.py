"""A node's link to its leader: what it knows of it, how far it is behind, and what it says of itself in return."""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import NamedTuple

from app.errors import LogUnavailable
from app.replication.nodes import Nodes, Status, Unreachable, leader_of
from app.replication.tap import Tap
from app.runtime import clock, logs
from app.security.keyring import Keyring
from app.storage import Stores
from app.storage.role import Role
from app.write_path.following import Diverged, Following

AGAIN, AGAIN_AT_LEAST = 0.1, 1.0
"""Seconds until a leader that was lost is looked for again: more each time, up to a limit."""

SILENCE = 5.0
"""Seconds without a sign of life after which the leader is taken for gone, and looked for again."""

BEAT = 1.0
"""Seconds between two times that a replica says how far it is, while that does not change."""

MOST_TOUCHED = 10_000
"""Subscriptions with a time to live that are named in one report; the rest wait for the next."""

log = logs.get("replication")


class Lag(NamedTuple):
    """How far a replica is behind: rows that the leader has and this one has not applied, and the seconds."""

    rows: int
    seconds: float


class Replaced(Exception):
    """What is here cannot be followed up on: a new snapshot is needed."""


class Link(ABC):
    """Follows the leader, whoever that is, in one task, and takes rows from where they are. Lives on the event loop.

    `role()` is this node's. `give_up(why)` is called once when this directory cannot go on: a new snapshot is needed.
    `touched()` gives the subscriptions whose time to live restarts.
    """

    def __init__(
        self,
        stores: Stores,
        following: Following,
        keyring: Keyring,
        nodes: Nodes,
        name: str,
        role: Callable[[], Role],
        give_up: Callable[[str], Awaitable[None]],
    ) -> None:
        self.leader: Status | None = None
        self.heard: float | None = None
        self.tap = Tap()
        self.touched: Callable[[int], list[tuple[str, str]]] = lambda most: []
        self._stores = stores
        self._following = following
        self._keyring = keyring
        self._nodes = nodes
        self._name = name
        self._role = role
        self._give_up = give_up
        self._leader_lsn = 0
        self._leader_ahead = 0.0
        self._known: deque[tuple[int, float]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._waiting: set[asyncio.Event] = set()
        self._kept_keys = False

    # --- life cycle ---------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to follow."""
        self._stores.log.on_append = self.tap.add
        self.tap.start()
        self._following.on_applied = self._applied
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Follow no more, and apply what was taken."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None
        await self._following.settle()

    def look_again(self) -> None:
        """Leave the present leader, since another one has a higher term."""
        if self._task is not None and self.leader is not None:
            log.info("the leader is left for one with a higher term", url=self.leader.url)
            self._task.cancel()
            self._task = asyncio.create_task(self._run())

    # --- how far it is ------------------------------------------------------------------------------------------------

    @property
    def applied(self) -> int:
        """The last row that is applied."""
        return self._following.applied

    def lag(self) -> Lag:
        """How far this replica is behind what it knows of its leader. O(1)."""
        now = time.monotonic()
        if self.heard is None:
            return Lag(0, now)
        rows = max(0, self._leader_lsn - self.applied)
        ages = [now - self.heard]
        while self._known and self._known[0][0] <= self.applied:
            self._known.popleft()
        if rows and self._known:
            ages.append(now - self._known[0][1])
        oldest = self._following.oldest
        if rows and oldest is not None:
            ages.append(clock.now() + self._leader_ahead - oldest)
        return Lag(rows, max(0.0, *ages))

    async def reach(self, lsn: int, seconds: float) -> bool:
        """Wait until a row is applied; return whether it came to that in time."""
        event = asyncio.Event()
        self._waiting.add(event)
        try:
            async with asyncio.timeout(seconds):
                while self.applied < lsn:
                    event.clear()
                    await event.wait()
        except TimeoutError:
            return self.applied >= lsn
        finally:
            self._waiting.discard(event)
        return True

    def _applied(self) -> None:
        for event in self._waiting:
            event.set()

    # --- following ----------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        pause = AGAIN
        while True:
            began = time.monotonic()
            try:
                await self._following.settle()
                await self._follow()
            except Replaced as error:
                await self._give_up(str(error))
                return
            except Diverged as error:
                log.critical("this replica differs from its leader", error=str(error))
                await self._give_up(str(error))
                return
            except (Unreachable, LogUnavailable) as error:
                log.warning("the leader is not followed for now", error=str(error))
            except Exception as error:
                log.exception("following the leader failed", error=str(error))
            if time.monotonic() - began > SILENCE:
                pause = AGAIN
            await asyncio.sleep(pause)
            pause = min(2 * pause, AGAIN_AT_LEAST)

    @abstractmethod
    async def _follow(self) -> None:
        """Take rows for as long as they come. Raises `Replaced`, `Diverged`, `Unreachable` and `LogUnavailable`."""

    async def _find(self) -> Status | None:
        role = self._role()
        found = [one for one in await self._nodes.statuses() if one.node != role.node]
        leader = leader_of(found, self._stores.directory.epoch, role.term)
        others = {one.epoch for one in found} - {self._stores.directory.epoch}
        if leader is None and others:
            log.error("other nodes have another history", epochs=sorted(others), ours=self._stores.directory.epoch)
        self.leader = leader
        return leader

    def _know(self, lsn: int) -> None:
        """The leader is known to have rows up to one."""
        if lsn > self._leader_lsn and len(self._known) < MOST_TOUCHED:
            self._known.append((lsn, time.monotonic()))
        self._leader_lsn = lsn

    def _check_failed(self) -> None:
        """Raise `Diverged` where a resource has failed here and not at the leader."""
        failed = self._following.overdue()
        if failed is not None:
            raise Diverged(f"{failed} has failed here and not at the leader")

    async def _report(self, leader: Status) -> None:
        """Say how far this replica is, whenever more is on disk, and every second."""
        number = self.tap.end
        while True:
            role = self._role()
            body = {
                "node": role.node,
                "name": self._name,
                "term": role.term,
                "durable": self._stores.log.last_lsn,
                "applied": self.applied,
                "touched": self.touched(MOST_TOUCHED),
            }
            number = self.tap.end if body["durable"] == self._stores.log.last_lsn else number
            with suppress(Unreachable):
                await self._nodes.post(leader.url, "/v1/admin/log/progress", body)
            await self.tap.wait(number, BEAT)
            number = self.tap.end
