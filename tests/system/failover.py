"""Readers and a writer of a group of two nodes that go on while the leader changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from rankcast_client import AsyncRankcast, Retry, upsert
from tests.support.patience import PATIENCE
from tests.system.group import Group

PATIENT = Retry(attempts=10_000, first=0.05, most=0.2)
EVENTS = 400


async def read_and_write(group: Group, change: Callable[[Group], None]) -> None:
    """Write over HTTP and a socket, follow over both while the leader changes, and compare with what is asked."""
    urls = [group.url(0), group.url(1)]
    writer = AsyncRankcast(urls, retry=PATIENT)
    # Readers know nothing of who leads.
    reader = AsyncRankcast(",".join(urls), retry=PATIENT)
    async with writer, reader, asyncio.timeout(PATIENCE), asyncio.TaskGroup() as tasks:
        board = writer.board("py")
        await board.put(["x"], "y", order="desc", ks=[5])
        await board.put_subscription("mine", k=5)
        streams = [reader.board("py").watch("mine", form=form, heartbeat=1) for form in ("changes", "tiles")]
        socket = reader.socket(heartbeat=1)
        await socket.subscribe("py", "mine")

        async def follow(stream: Any) -> None:
            async for _ in stream:
                pass

        following = [tasks.create_task(follow(one)) for one in (*streams, socket)]
        async with writer.socket(heartbeat=1) as requests:
            for n in range(EVENTS):
                if n == EVENTS // 2:
                    changing = tasks.create_task(asyncio.to_thread(change, group))
                if n == EVENTS - 1:
                    # The last write comes when the writer knows who leads, or asks first.
                    await changing
                    while not (writer.nodes.leader == urls[1] or writer.nodes.wants_leader):
                        await asyncio.sleep(0.01)
                values = {"x": n % 10, "y": n * 37 % 101}
                if n % 2:
                    await board.publish(upsert(f"o{n % 30}", values))
                else:
                    path = f"/v1/boards/py/objects/o{n % 30}"
                    await requests.request("PUT", path, {"values": values})
        assert writer.nodes.leader == group.url(1)
        asked = (await board.subscription("mine")).list
        assert asked is not None
        assert [entry.values["y"] for entry in asked] == sorted(latest().values(), reverse=True)[:5]
        while not all(found == tuple(asked) for found in (*(one.list for one in streams), socket.list("py", "mine"))):
            await asyncio.sleep(0.01)
        assert len([one async for one in board.objects()]) == 30
        for one in following:
            one.cancel()
        await socket.aclose()


def latest() -> dict[str, int]:
    """The value that ranks of each object in the end."""
    return {f"o{n % 30}": n * 37 % 101 for n in range(EVENTS)}
