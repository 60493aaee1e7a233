"""Readers of the checked resources by the Python client, that come and go, over SSE; what they have is compared."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from rankcast_client import AsyncRankcast, RankcastError
from tests.support.patience import wait_until
from tests.system.http.talk import Json, Talk

KINDS = {"boards": "watch", "feeds": "watch", "maps": "results", "matchers": "wins", "relays": "watch"}


@dataclass
class Reader:
    """A stream that is read: `events` counts what came. `lists` is whether there is a list to compare."""

    kind: str
    name: str
    id: str
    watch: Any
    number: int
    events: int = 0
    ended: bool = False
    failed: str | None = None

    @property
    def path(self) -> str:
        part = "queries" if self.kind == "maps" else "subscriptions"
        return f"/v1/{self.kind}/{self.name}/{part}/{self.id}"

    def ids(self) -> list[str] | None:
        """The ids of the list that it has, best first; None where nothing has come yet, or there is none."""
        if self.kind == "maps":
            answer = self.watch.answer
            if answer is None:
                return None
            return [one.id for one in answer.objects]
        return [one.id for one in self.watch.list] if self.kind in ("boards", "feeds") else None

    def has(self, wanted: list[str]) -> bool:
        """Whether it has this list. What a map holds is right in any order: it may be of an earlier location."""
        mine = self.ids()
        return mine == wanted or (self.kind == "maps" and mine is not None and sorted(mine) == sorted(wanted))

    def wanted(self, talk: Talk) -> list[str] | None:
        """The same of the service; None where the subscription is gone."""
        answer = talk.ask("GET", self.path)
        if answer.status_code == 404:
            return None
        shown: Json = answer.json()
        return [one["id"] for one in shown.get("skyline", shown.get("list", []))]


@dataclass
class Readers:
    """Up to `most` readers at a time on an event loop of their own; `come_and_go` changes some of them."""

    url: str
    seed: int
    most: int = 40
    readers: list[Reader] = field(default_factory=list)
    received: int = 0
    failures: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._draw = Random(self.seed)
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        self._client = self._call(self._open())
        self._begun = 0
        self._tasks: dict[int, asyncio.Task[None]] = {}

    def come_and_go(self, found: list[tuple[str, str, str]]) -> None:
        """End some readers, and begin others of these subscriptions (kind, name, id)."""
        draw = self._draw
        for reader in [one for one in self.readers if one.ended or draw.random() < 0.3]:
            self._end(reader)
        while len(self.readers) < self.most and found:
            self._call(self._begin(*draw.choice(found)))

    def check(self, talk: Talk) -> list[str]:
        """Compare every list while nobody writes; what differs is named."""
        wrong = []
        for reader in self.readers:
            if reader.failed or reader.ended or reader.ids() is None:
                continue
            wanted = reader.wanted(talk)
            if wanted is None:
                continue
            try:
                wait_until(partial(reader.has, wanted), 60.0)
            except AssertionError:
                wrong.append(f"a reader of {reader.path} has {reader.ids()}, not {wanted}")
        self.failures += [f"{one.path}: {one.failed}" for one in self.readers if one.failed]
        return wrong

    def close(self) -> None:
        for reader in list(self.readers):
            self._end(reader)
        self._call(self._client.aclose())
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _call(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(60.0)

    async def _open(self) -> AsyncRankcast:
        return AsyncRankcast(self.url)

    async def _begin(self, kind: str, name: str, id: str) -> None:
        handle = getattr(self._client, kind[:-1])(name)
        reader = Reader(kind, name, id, getattr(handle, KINDS[kind])(id), self._begun)
        self._begun += 1
        self.readers.append(reader)
        self._tasks[reader.number] = asyncio.create_task(self._follow(reader))

    async def _follow(self, reader: Reader) -> None:
        try:
            async for _ in reader.watch:
                reader.events += 1
                self.received += 1
            reader.ended = True
        except RankcastError as error:
            reader.ended = True
            if getattr(error, "status", None) != 404:
                reader.failed = repr(error)
        except Exception as error:
            reader.failed = repr(error)

    def _end(self, reader: Reader) -> None:
        self.readers.remove(reader)
        self._call(self._cancel(self._tasks.pop(reader.number)))

    async def _cancel(self, task: asyncio.Task[None]) -> None:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
