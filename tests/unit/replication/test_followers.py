"""The leader's side: what a follower is sent from log and memory, who may follow, and who is in step."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from app.errors import NotFollowed
from app.replication.aside import common_row, keep_aside
from app.replication.followers import Followers
from app.replication.frames import Frame, Frames
from app.runtime.metrics import Metrics
from app.storage import Stores, open_stores
from app.storage.chain import START
from app.storage.rows import CopiedRow, LogEntry, StoredAnswer


def entry(n: int) -> LogEntry:
    return LogEntry("boards/b", n, n, "events", b"%d" % n)


def answer(key: str, lsn: int) -> StoredAnswer:
    return StoredAnswer("me", key, b"hash", lsn, 200, b"{}", True, 1.0)


def run(path: Path, story: Callable[[Stores, Followers], Awaitable[None]]) -> None:
    async def whole() -> None:
        stores = open_stores(path / "data")
        followers = Followers(stores, Metrics(), lambda: 0, 1, 0.2)
        followers.start()
        try:
            await story(stores, followers)
        finally:
            stores.close()

    asyncio.run(whole())


class Reading:
    """The rows and responses that a follower gets, each once and in order."""

    def __init__(self, followers: Followers, after: int) -> None:
        self.rows: list[CopiedRow] = []
        self.answers: dict[str, StoredAnswer] = {}
        self.first: Frame | None = None
        self._stream = followers.stream(followers.add("n1", "one", "127.0.0.1", after), after)
        self._frames = Frames()

    async def until(self, lsn: int) -> None:
        while not self.rows or self.rows[-1].row.lsn < lsn:
            for frame in self._frames.read(await anext(self._stream)):
                self.first = self.first or frame
                self.rows += frame.rows
                self.answers |= {one.key: one for one in frame.answers}

    async def end(self) -> None:
        await self._stream.aclose()  # type: ignore[attr-defined]


def test_rows_come_once_and_in_order_from_log_and_memory(tmp_path: Path) -> None:
    async def story(stores: Stores, followers: Followers) -> None:
        log = stores.log
        log.append([entry(n) for n in range(2_500)], [answer("early", 2_000)])
        reading = Reading(followers, 1_000)
        await reading.until(2_500)
        assert reading.first is not None and reading.first.keys == [] and reading.first.webhooks == []
        for n in range(2_500, 2_600):
            log.append([entry(n)], [answer(f"k{n}", n + 1)])
        await reading.until(2_600)
        log.append([], [answer("alone", 2_600)])
        log.append([entry(2_600)])
        await reading.until(2_601)
        assert reading.rows == list(log.copies(1_000, 2_601))
        assert {"early", "alone", "k2550"} <= reading.answers.keys()
        followers.tap._most = 1
        for n in range(2_601, 2_700):
            log.append([entry(n)], [answer(f"k{n}", n + 1)])
        await reading.until(2_700)
        assert reading.rows == list(log.copies(1_000, 2_700)), "memory was too small: they are read from the log"
        assert f"k{2_650}" in reading.answers
        assert followers.all()[0].connections == 1
        await reading.end()
        assert followers.all()[0].connections == 0

    run(tmp_path, story)


def test_a_change_of_keys_goes_whole_before_its_row(tmp_path: Path) -> None:
    from app.security.keyring import new_key

    async def story(stores: Stores, followers: Followers) -> None:
        reading = Reading(followers, 0)
        stores.log.append([entry(0)])
        await reading.until(1)
        _, key = new_key("ops", ["admin"])
        stores.keys.add(key)
        stores.log.note("keys")
        found = None
        while found is None:
            for frame in reading._frames.read(await anext(reading._stream)):
                found = frame if frame.rows else found
        assert found.keys == [key] and [one.row.resource for one in found.rows] == ["keys"]
        await reading.end()

    run(tmp_path, story)


def test_who_stands_elsewhere_may_not_follow(tmp_path: Path) -> None:
    async def story(stores: Stores, followers: Followers) -> None:
        log = stores.log
        log.append([entry(n) for n in range(5)])
        followers.check(0, START)
        followers.check(5, log.last_checksum)
        with pytest.raises(NotFollowed, match="another history"):
            followers.check(4, log.last_checksum)
        with pytest.raises(NotFollowed, match="another history"):
            followers.check(6, log.last_checksum)
        third = log.checksum_at(3)
        assert third
        log.prune(3)
        followers.check(3, third)
        with pytest.raises(NotFollowed, match="pruned"):
            followers.check(2, b"x")

    run(tmp_path, story)


def test_a_write_is_in_step_once_enough_replicas_have_it(tmp_path: Path) -> None:
    async def story(stores: Stores, followers: Followers) -> None:
        stores.log.append([entry(0), entry(1)])
        followers.add("n1", "", "", 0)
        assert not await followers.synced(2)
        waiting = asyncio.create_task(followers.synced(2))
        await asyncio.sleep(0)
        followers.note("unknown", 2, 2)
        followers.note("n1", 99, 1)
        assert await waiting
        assert followers.all()[0].durable == 2, "nobody has more than there is"
        followers.end()
        assert not await followers.synced(2)

    run(tmp_path, story)


def test_rows_that_another_history_lacks_are_kept_aside(tmp_path: Path) -> None:
    async def story(stores: Stores, followers: Followers) -> None:
        log = stores.log
        log.append([entry(n) for n in range(100)])
        asked = []

        async def there(lsn: int) -> bytes | None:
            asked.append(lsn)
            if lsn > 80:
                return None
            return log.checksum_at(lsn) if lsn <= 63 else b"another"

        assert await common_row(log, there) == 63
        assert len(asked) < 9
        path = keep_aside(log, stores.directory.path, 63)
        assert path is not None and len(path.read_text().splitlines()) == 37
        assert keep_aside(log, stores.directory.path, 100) is None

    run(tmp_path, story)
