"""Boards with zones at a gateway: where their subscriptions are, and how lists begin, move and begin again.

A list comes from the service at a seq. From there on the messages of its zone keep it right. Whatever a zone cannot
tell (a hole, a changed subscription, too much in one message) is answered by another list from the service.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

from app.errors import NotReady, ServiceError
from app.gateway.broker import Broker
from app.gateway.lists import INF, Ranking, Tile
from app.gateway.live import LiveZoned, LiveZonedBoard
from app.gateway.upstream import Credentials, Passed, Upstream
from app.gateway.zone import Said, Zone
from app.runtime import logs
from app.runtime.broker import epoch_of
from indexes.boards.lists import ObjectView

BEGIN_SECONDS = 5.0
"""How long a stream waits for its zone to begin, before it begins with a list all the same."""

TRIES, BETWEEN_TRIES = 20, 0.05
"""How often it is looked whether NATS has what a cursor says, and the seconds between two looks."""

RETRY, LONGEST_RETRY = 0.1, 2.0
"""Seconds between two attempts to get a list."""

ALIVE = 4
"""How often in its lifetime a subscription is named that is read."""

TOGETHER = 32
"""Lists that are asked for at the same time."""

log = logs.get("gateway")


class GatewayBoard:
    """One board. `hub` has its streams; `lives` are the subscriptions whose lists are kept."""

    def __init__(self, name: str, epoch: str, ranking: Ranking, hub: Any, upstream: Upstream, broker: Broker) -> None:
        self.name = name
        self.resource = f"boards/{name}"
        self.epoch = epoch
        self.ranking = ranking
        self.seq = 0
        self.lives: dict[str, LiveZoned] = {}
        self._hub = hub
        self._upstream = upstream
        self._broker = broker
        self._zones: dict[tuple[int, int], Zone] = {}
        self._tasks: dict[LiveZoned, asyncio.Task[None]] = {}
        self._work: set[asyncio.Task[None]] = set()
        self._together = asyncio.Semaphore(TOGETHER)
        self._late_versions: set[int] = set()
        self._settled = float("-inf")
        self._named: dict[str, float] = {}
        self._mortal: dict[LiveZoned, None] = {}
        """Those that have a lifetime."""
        self.path = f"/v1/{self.resource}"

    # --- lists ------------------------------------------------------------------------------------------------------

    async def prepare(self, id: str, start: dict[str, Any], who: Credentials, after: int | None) -> None:
        """Have the list of a subscription, of which the service said how its streams start. A cursor `after` that the
        gateway has not reached is waited for, and else made up for by a list. Raises `NotReady` and what the service
        answers.
        """
        self.seq = max(self.seq, start["seq"])
        self._named[id] = time.monotonic()
        live = self.lives.get(id)
        if live is None:
            live = self.lives[id] = LiveZoned(id)
            self._take_over(live, start)
            self._join_soon(live, start)
        live.credentials = who
        with suppress(TimeoutError):
            async with asyncio.timeout(BEGIN_SECONDS):
                await self._joined(live)
        if after is None or live.zone is None:
            return
        for _ in range(TRIES):
            self._settle(live, start)
            if live.zone is None or (not live.stale and live.zone.at >= max(after, live.since)):
                return
            await asyncio.sleep(BETWEEN_TRIES)
            start = await self._start(id, who)
        if live.position < after <= start["seq"] and not live.stale:
            self._begin_anew(live, start)

    def drop(self, live: LiveZoned) -> None:
        """A subscription is not followed any more."""
        self._mortal.pop(live, None)
        if self.lives.get(live.id) is live:
            del self.lives[live.id]
            self._named.pop(live.id, None)
        task = self._tasks.pop(live, None)
        if task is not None and task is not asyncio.current_task():
            task.cancel()
        self._leave(live)

    def reached_since(self, live: LiveZoned, after: int) -> list[tuple[int, list[Tile]]] | None:
        """The tiles that reached a subscription after a seq, by seq; None where that is not known, or too long ago."""
        zone = live.zone
        if zone is None or live.stale or after > live.position or zone.at < live.since:
            return None
        left_at = zone.left_at(after)
        if left_at is None or time.time() - left_at > self._hub.limits.resume_seconds:
            return None
        found = zone.since(after)
        if found is None or any(said.breaks(live) for said in found):
            return None
        reached = ((said.seq, said.reached(live)) for said in found if said.seq <= live.position)
        return [(seq, tiles) for seq, tiles in reached if tiles]

    async def _start(self, id: str, who: Credentials) -> dict[str, Any]:
        found = await self._upstream.ask(f"{self.path}/subscriptions/{id}/start", who)
        self._check_epoch(found["epoch"])
        return found

    async def _ask_zones(self, lives: list[LiveZoned]) -> dict[str, Any]:
        found = await self._upstream.ask(f"{self.path}/zones", self._any_who(lives))
        self._check_epoch(epoch_of(found["subject"]))
        return found

    def _check_epoch(self, epoch: str) -> None:
        """Raise `NotReady` where the service has another history by now, as under a new leader: all streams end."""
        if epoch != self.epoch:
            self._hub.use_epoch(epoch)
            raise NotReady("the service has another history", retry_after=1)

    def _take_over(self, live: LiveZoned, start: dict[str, Any]) -> None:
        """Begin a list as the service says it, at its seq."""
        live.l = -INF if start["l"] is None else float(start["l"])
        live.r = INF if start["r"] is None else float(start["r"])
        live.k, live.offset, live.ttl = start["k"], start["offset"], start["ttl"]
        if live.ttl is not None:
            self._mortal[live] = None
        else:
            self._mortal.pop(live, None)
        live.kept.k = live.k
        live.kept.reset(map(self.ranking.object, start["list"]), self.ranking)
        live.since = start["seq"]

    def _settle(self, live: LiveZoned, start: dict[str, Any]) -> None:
        zone, said = live.zone, start["zone"]
        if zone is not None and said is not None and (zone.version, zone.number) == (said["version"], said["zone"]):
            zone.settle(said["published"], said["last"])

    def _begin_anew(self, live: LiveZoned, start: dict[str, Any]) -> None:
        """Let readers go on with a list that the service has just said."""
        self._leave(live)
        self._take_over(live, start)
        live.stale = True
        self._show(live)
        self._join_soon(live, start)

    def _show(self, live: LiveZoned, before: list[ObjectView] | None = None) -> None:
        """Send the whole list to readers; where they have the list `before`, what has changed, but for tiles."""
        board = self._board()
        if board is not None and live.id in board.by_id:
            board.restart(live, before)

    def _board(self) -> LiveZonedBoard | None:
        found = self._hub.live_resource(self.resource)
        assert found is None or isinstance(found, LiveZonedBoard)
        return found

    # --- zones ------------------------------------------------------------------------------------------------------

    def _join_soon(self, live: LiveZoned, start: dict[str, Any] | None) -> None:
        """Let a list go on with its zone; without a `start` it begins again from the service."""
        live.stale = True
        before = self._tasks.get(live)
        if before is not None and before is not asyncio.current_task():
            before.cancel()
        task = self._tasks[live] = asyncio.create_task(self._join(live, start))
        task.add_done_callback(lambda done: self._ended(live, done))

    def _ended(self, live: LiveZoned, task: asyncio.Task[None]) -> None:
        if self._tasks.get(live) is task:
            del self._tasks[live]
        if not task.cancelled() and task.exception() is not None:
            log.error("a list cannot be kept", board=self.name, id=live.id, exc_info=task.exception())

    async def _joined(self, live: LiveZoned) -> None:
        while live.stale and (task := self._tasks.get(live)) is not None:
            await asyncio.wait([task])

    async def _join(self, live: LiveZoned, start: dict[str, Any] | None) -> None:
        """Get a list where it is to begin again, and follow its zone from there on."""
        pause = RETRY
        while self.lives.get(live.id) is live:
            if start is None:
                try:
                    async with self._together:
                        start = await self._start(live.id, self._who(live))
                except ServiceError as error:
                    if isinstance(error, Passed) and error.status_code in (401, 403, 404):
                        self._end(live, gone=error.status_code == 404)
                        return
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, LONGEST_RETRY)
                    continue
                if start["seq"] < live.since:
                    start = None
                    await asyncio.sleep(RETRY)
                    continue
                self._leave(live)
                self._renew(live, start)
            said = start["zone"]
            if said is None:
                self._end(live, gone=False)
                return
            zone = self._zone(said["version"], said["zone"], said["base"])
            live.zone = zone
            await zone.ready.wait()
            if zone.over:
                start = None
                await asyncio.sleep(RETRY)
            elif self._follow(live, zone):
                return
            else:
                start = None

    def _renew(self, live: LiveZoned, start: dict[str, Any]) -> None:
        """Take a new list over, and show it to readers: as a change where only the subscription itself was changed."""
        before, question = live.kept.items, (live.l, live.r, live.k, live.offset)
        edited, live.edited = live.edited, -1
        since = live.since
        self._take_over(live, start)
        if edited == since and question == (live.l, live.r, live.k, live.offset):
            # The list of then is still the one that its zone goes on from.
            live.kept.reset(before, self.ranking)
            live.since = since
            self._show(live, before)
        elif edited == live.since and live.offset == question[3]:
            self._show(live, before)
        else:
            self._show(live)

    def _follow(self, live: LiveZoned, zone: Zone) -> bool:
        """Take what a zone has said since the list, and what it says from now on; whether the list is right then."""
        found = zone.since(live.since) if zone.at > live.since else []
        if found is None:
            return False
        named = [said for said in found if said.breaks(live) or said.reached(live)]
        if any(said.breaks(live) for said in named):
            if len(named) == 1:
                live.edited = named[0].changed.get(live.id, -1)
            return False
        board = self._board()
        for said in named:
            tiles = said.reached(live)
            if tiles and board is not None and live.id in board.by_id:
                board.take(live, said.seq, tiles, {})
            elif tiles:
                live.kept.apply_all(tiles, live.offset)
        live.stale = False
        zone.readers.add(live)
        if board is not None:
            board.settle()
        return True

    def _zone(self, version: int, number: int, base: int) -> Zone:
        zone = self._zones.get((version, number))
        if zone is None:
            zone = self._zones[version, number] = Zone(self, self._broker, version, number, base)
        return zone

    def _leave(self, live: LiveZoned) -> None:
        """Take a list out of its zone, which is followed no longer where it was the last."""
        zone, live.zone = live.zone, None
        live.stale = True
        if zone is None:
            return
        live.since = max(live.since, zone.at if live in zone.readers else live.since)
        if live in zone.readers:
            zone.readers.remove(live)
        if not any(one.zone is zone for one in self.lives.values()):
            zone.close()
            self._zones.pop((zone.version, zone.number), None)

    def _who(self, live: LiveZoned) -> Credentials:
        return self._upstream.own if self._upstream.has_key or live.credentials is None else live.credentials

    def _end(self, live: LiveZoned, gone: bool) -> None:
        """End the streams of a subscription: it is deleted, or the gateway cannot follow it any more."""
        board = self._board()
        if board is None or live.id not in board.by_id:
            self.drop(live)
        elif gone:
            self._hub.end(board, live, live.since + 1)
        else:
            self._hub.send_away(live)

    # --- what zones say ---------------------------------------------------------------------------------------------

    def said(self, zone: Zone, said: Said) -> None:
        """Apply a message to the lists that it reaches."""
        self.seq = max(self.seq, said.seq)
        board = self._board()
        if said.reset:
            self._again(live for live in zone.readers if live.since < said.seq)
            return
        for id, seq in said.gone.items():
            live = self.lives.get(id)
            if live is not None and live.since < seq:
                self._gone(live, seq)
        for id, seq in said.changed.items():
            live = self.lives.get(id)
            if live is not None and live.since < seq and live in zone.readers:
                live.edited = seq
                self._again([live], seq)
        reached: dict[LiveZoned, list[Tile]] = {}
        for tile in said.tiles:
            for live in zone.readers.reached(tile):
                if live.since < said.seq:
                    reached.setdefault(live, []).append(tile)
        made: dict[Any, Any] = {}
        for live, tiles in reached.items():
            if board is not None and live.id in board.by_id:
                board.take(live, said.seq, tiles, made)
            else:
                live.kept.apply_all(tiles, live.offset)
        if board is not None:
            board.settle()

    def missed(self, zone: Zone, through: int) -> None:
        """Messages of a zone up to a seq are missing."""
        self._again(live for live in zone.readers if live.since < through)

    def moved(self, zone: Zone, seq: int, version: int | None, reset: bool) -> None:
        """The zones of the board are others from a seq on."""
        self._zones.pop((zone.version, zone.number), None)
        lives = [live for live in self.lives.values() if live.zone is zone]
        for live in lives:
            right = live in zone.readers and not reset
            if live in zone.readers:
                zone.readers.remove(live)
            live.zone = None
            live.stale = True
            if right:
                live.since = max(live.since, seq)
        zone.close()
        if version is None:
            for live in lives:
                self._end(live, gone=False)
        elif reset:
            self._again(lives)
        else:
            self._spawn(self._move(lives, version))

    def board_gone(self, seq: int) -> None:
        """The board was deleted."""
        self._hub.board_gone(self, seq)

    def close(self) -> None:
        """Follow nothing any more."""
        for task in [*self._tasks.values(), *self._work]:
            task.cancel()
        for zone in self._zones.values():
            zone.close()
        self._zones.clear()
        self.lives.clear()
        self._mortal.clear()

    async def _move(self, lives: list[LiveZoned], version: int) -> None:
        """Let lists that are right where a version begins go on in its zones."""
        pause = RETRY
        while True:
            try:
                found = await self._ask_zones(lives)
                if found["version"] >= version:
                    break
            except ServiceError as error:
                if isinstance(error, Passed) and error.status_code < 500:
                    self._again(live for live in lives if self.lives.get(live.id) is live)
                    return
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_RETRY)
        mine = [live for live in lives if self.lives.get(live.id) is live and live.zone is None]
        if found["version"] != version:
            self._again(mine)
            return
        for live in mine:
            zone = next(one for one in found["zones"] if _inside(live.l, one["l"]) and _inside(live.r, one["r"]))
            base = int(found["base"])
            self._join_soon(live, {"zone": {"version": version, "zone": zone["id"], "base": base}})

    def _again(self, lives: Any, least: int = -1) -> None:
        """Let lists begin again from the service, at a seq of at least `least`."""
        for live in list(lives):
            self._leave(live)
            live.since = max(live.since, least)
            self._join_soon(live, None)

    def _gone(self, live: LiveZoned, seq: int) -> None:
        board = self._board()
        if board is not None and live.id in board.by_id:
            self._hub.end(board, live, seq)
        else:
            self.drop(live)

    def _any_who(self, lives: list[LiveZoned]) -> Credentials:
        return self._who(lives[0]) if lives else self._upstream.own

    def _spawn(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def settle(self, seconds: float) -> None:
        """Let quiet zones be where NATS is, if they were not looked at for so many seconds."""
        now = time.monotonic()
        if now - self._settled < seconds:
            return
        self._settled = now
        quiet = {live.zone: live for live in self.lives.values() if live.zone is not None and not live.stale}

        async def look(live: LiveZoned) -> None:
            with suppress(ServiceError):
                self._settle(live, await self._start(live.id, self._who(live)))

        await asyncio.gather(*(look(live) for live in quiet.values()))

    # --- housekeeping -----------------------------------------------------------------------------------------------

    async def keep_alive(self) -> None:
        """Name subscriptions with a lifetime, which the service would delete: it does not see their readers."""
        now = time.monotonic()
        for live in list(self._mortal):
            due = live.ttl is not None and now - self._named.get(live.id, 0.0) > live.ttl / ALIVE
            if due and self._hub.is_read(self.resource, live.id):
                self._named[live.id] = now
                with suppress(ServiceError):
                    await self._start(live.id, self._who(live))

    async def look(self) -> None:
        """Notice zones that are others, or of another history, although nobody said so."""
        lives = list(self.lives.values())
        if not lives:
            return
        found = await self._ask_zones(lives)
        late = {zone.version for zone in self._zones.values() if zone.version < found["version"]}
        for version in late & self._late_versions:
            self._again(live for live in lives if live.zone is not None and live.zone.version == version)
        self._late_versions = late


def _inside(value: float, ends: list[float | None]) -> bool:
    lo, hi = ends
    return (lo is None or lo <= value) and (hi is None or value < hi)
