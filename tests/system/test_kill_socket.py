"""The service is killed while many requests of one socket are under way: the client goes on, and nothing is lost or
applied twice.
"""

from __future__ import annotations

import asyncio
import signal
from random import Random

import pytest

from rankcast_client import AsyncRankcast, Retry
from tests.support.live import StartService

COUNT, WINDOW, KILLS = 3_000, 128, 3
CONFIG = {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [3]}


@pytest.mark.parametrize("packed", [False, True])
def test_what_a_socket_answered_is_there_once(start_service: StartService, packed: bool) -> None:
    draw = Random(7)
    service = start_service()

    async def run() -> None:
        nonlocal service
        answered: dict[int, int] = {}
        client = AsyncRankcast(service.url, retry=Retry(attempts=1_000, first=0.05, most=0.2))
        async with client, client.socket(window=WINDOW, packed=packed) as socket:
            await socket.request("PUT", "/v1/boards/b", CONFIG)

            async def write(i: int) -> None:
                body = {"values": {"x": i % 100, "y": i}}
                found = await socket.request("PUT", f"/v1/boards/b/objects/o{i % 500}?messages=none", body)
                answered[i] = found["seq"]

            load = asyncio.gather(*(write(i) for i in range(COUNT)))
            for kill in range(KILLS):
                while len(answered) < (kill + 1) * COUNT // (KILLS + 1) + draw.randrange(100):
                    await asyncio.sleep(0.001)
                service.stop(signal.SIGKILL)
                last = max(answered.values())
                service = await asyncio.to_thread(start_service, service.data)
                client.base_url = service.url
                client.http.base_url = service.url
                assert ((await client.board("b").info()).seq or 0) >= last, "what was answered is there"
            await load
            assert answered == {i: i + 1 for i in range(COUNT)}, "each is applied once, in order"
            assert socket._pipeline.reconnects >= KILLS
            objects = {entry.id: entry.values["y"] async for entry in client.board("b").objects()}
            assert objects == {f"o{i % 500}": i for i in range(COUNT)}

    asyncio.run(run())
    assert service.stop() == 0
