"""A replica's link to a leader that sends its log: the stream of rows over HTTP."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from app.replication.aside import common_row, keep_aside
from app.replication.frames import BadFrame, Frame, Frames
from app.replication.link import SILENCE, Link, Replaced
from app.replication.nodes import Status, Unreachable
from app.runtime import clock, logs

log = logs.get("replication")


class LeaderLink(Link):
    """Takes the rows that the leader sends, into a log of this node's own."""

    async def _follow(self) -> None:
        leader = await self._find()
        if leader is None:
            log.warning("no leader is found", urls=self._nodes.urls, term=self._role().term)
            return
        try:
            await self._follow_leader(leader)
        except BadFrame as error:
            raise Unreachable(str(error)) from error

    async def _follow_leader(self, leader: Status) -> None:
        """Take the leader's log for as long as it sends."""
        import httpx

        role, after = self._role(), self._following.begin()
        asked: dict[str, str | int] = {
            "after": after,
            "checksum": self._stores.log.last_checksum.hex(),
            "node": role.node,
            "name": self._name,
            "term": role.term,
        }
        frames = Frames()
        timeout = httpx.Timeout(SILENCE)
        try:
            async with self._nodes.client.stream(
                "GET", f"{leader.url}/v1/admin/log", params=asked, timeout=timeout
            ) as answer:
                if answer.status_code != 200:
                    await self._refused(leader, answer, after)
                log.info("following", url=leader.url, node=leader.node, term=leader.term, after=after)
                reporting = asyncio.create_task(self._report(leader))
                try:
                    async for piece in answer.aiter_raw():
                        for frame in frames.read(piece):
                            await self._take(frame, leader)
                finally:
                    reporting.cancel()
        except httpx.HTTPError as error:
            raise Unreachable(f"{leader.url}: {str(error) or type(error).__name__}") from error
        raise Unreachable(f"{leader.url} has ended its log")

    async def _refused(self, leader: Status, answer: Any, after: int) -> None:
        """Raise what a refusal to be followed means."""
        await answer.aread()
        try:
            problem = answer.json()
            kind, detail = str(problem.get("type")), str(problem.get("detail"))[:300]
        except (ValueError, AttributeError):
            kind, detail = "", ""
        if kind != "/problems/not-followed":
            raise Unreachable(f"{leader.url} answers {answer.status_code}: {detail}")
        store, data = self._stores.log, self._stores.directory.path

        async def there(lsn: int) -> bytes | None:
            found = await self._nodes.client.get(f"{leader.url}/v1/admin/log/{lsn}")
            return bytes.fromhex(found.json()["checksum"]) if found.status_code == 200 else None

        if "pruned" not in detail:
            common = await common_row(store, there)
            await asyncio.to_thread(keep_aside, store, data, common)
        raise Replaced(f"{leader.url} cannot be followed from row {after}: {detail}")

    async def _take(self, frame: Frame, leader: Status) -> None:
        if frame.term < self._role().term:
            raise Unreachable(f"{leader.url} leads in term {frame.term} only")
        self.heard = time.monotonic()
        self._leader_ahead = frame.now - clock.now()
        self._know(frame.lsn)
        if frame.keys is not None:
            await asyncio.to_thread(self._stores.keys.replace, frame.keys)
            self._keyring.replace(frame.keys)
        if frame.webhooks is not None:
            await asyncio.to_thread(self._stores.webhooks.replace, frame.webhooks)
        if frame.rows or frame.answers:
            await self._following.take(frame.rows, frame.answers)
        self._check_failed()
