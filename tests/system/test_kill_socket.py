"""The service is killed while many requests of one socket are under way: the client goes on, and nothing is lost or
applied twice.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import httpx
import pytest
import websockets

from rankcast_client import AsyncRankcast, Retry
from tests.support.live import StartService
from tests.support.patience import PATIENCE

COUNT, WINDOW, KILLS = 3_000, 128, 3


class Load(NamedTuple):
    """Small writes to a resource of this `config`: the i-th one is `write(i)`. When all are applied, `state` is what
    `field` of each item behind `shown` says, by id.
    """

    resource: str
    config: dict[str, Any]
    write: Callable[[int], tuple[str, str, dict[str, Any]]]
    shown: str
    state: dict[str, Any]
    field: str = "values"


LAST = {f"o{i % 500}": i for i in range(COUNT)}


def placed(i: int) -> dict[str, Any]:
    """A standing query."""
    return {"kind": "skyline", "location": [i, 1]}


LOADS = {
    "boards": Load(
        "boards/b",
        {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [3]},
        lambda i: ("PUT", f"objects/o{i % 500}?messages=none", {"values": {"x": i % 100, "y": i}}),
        "objects",
        {id: {"x": i % 100, "y": i} for id, i in LAST.items()},
    ),
    "maps": Load(
        "maps/m",
        {"attributes": {"price": "low"}, "bounds": [0, 0, 100, 100]},
        lambda i: ("PUT", f"objects/o{i % 500}", {"location": [i % 100, 1], "values": {"price": i}}),
        "objects",
        {id: {"price": i} for id, i in LAST.items()},
    ),
    "matchers": Load(
        "matchers/m",
        {"dimensions": ["age"], "mode": "relaxed"},
        lambda i: (
            "PUT",
            f"subscriptions/o{i % 500}",
            {"intervals": {"age": [i % 100, 200]}, "weights": {"age": i + 1}},
        ),
        "subscriptions",
        {id: {"age": i + 1} for id, i in LAST.items()},
        "weights",
    ),
    "wins": Load(
        "matchers/m",
        {"dimensions": ["age"], "mode": "relaxed"},
        lambda i: ("POST", "match", {"events": [{"values": {"age": i}}], "k": 2, "notify": True}),
        "subscriptions",
        {},
    ),
    "relays": Load(
        "relays/r",
        {"attributes": ["price"]},
        lambda i: ("PUT", f"subscriptions/o{i}", {"box": {"price": [i % 100, 200 + i]}}),
        "subscriptions",
        {f"o{i}": {"price": [i % 100, 200 + i]} for i in range(COUNT)},
        "box",
    ),
    "moves": Load(
        "maps/m",
        {"attributes": {"price": "low"}, "bounds": [0, 0, COUNT, COUNT]},
        lambda i: (
            "PUT" if i < 500 else "PATCH",
            f"queries/o{i % 500}",
            placed(i) if i < 500 else {"location": [i, 1]},
        ),
        "queries",
        {id: [i, 1] for id, i in LAST.items()},
        "location",
    ),
    "feeds": Load(
        "feeds/f",
        {"window": 20_000, "bounds": [0, 0, 100, 100]},
        lambda i: ("POST", "posts", {"posts": [{"id": f"p{i}", "keywords": ["a"], "location": [i % 100, 1]}]}),
        "posts",
        {f"p{i}": None for i in range(COUNT)},
    ),
}


@pytest.mark.parametrize(
    ("kind", "packed"),
    [
        ("boards", False),
        ("boards", True),
        ("matchers", False),
        ("wins", True),
        ("relays", False),
        ("maps", False),
        ("moves", True),
        ("feeds", True),
    ],
)
def test_what_a_socket_answered_is_there_once(start_service: StartService, kind: str, packed: bool) -> None:
    draw = Random(7)
    service = start_service()
    resource, config, asked, shown, state, field = LOADS[kind]

    async def run() -> None:
        nonlocal service
        answered: dict[int, int] = {}
        client = AsyncRankcast(service.url, retry=Retry(attempts=1_000, first=0.05, most=0.2))
        async with client, client.socket(window=WINDOW, packed=packed) as socket:
            await socket.request("PUT", f"/v1/{resource}", config)

            async def write(i: int) -> None:
                method, path, body = asked(i)
                found = await socket.request(method, f"/v1/{resource}/{path}", body)
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
                there = await socket.request("GET", f"/v1/{resource}")
                assert there["seq"] >= last, "what was answered is there"
            await load
            assert answered == {i: i + 1 for i in range(COUNT)}, "each is applied once, in order"
            assert socket._pipeline.reconnects >= KILLS
            found: dict[str, Any] = {}
            cursor = ""
            while True:
                page = await socket.request("GET", f"/v1/{resource}/{shown}?limit=1000{cursor}")
                found |= {item["id"]: item.get(field) for item in page["items"]}
                if page["next"] is None:
                    break
                cursor = f"&cursor={page['next']}"
            assert found == state

    asyncio.run(run())
    assert service.stop() == 0


def a_post(i: int) -> tuple[str, str, dict[str, Any]]:
    """The i-th post of a burst."""
    return "POST", "posts", {"posts": [{"id": f"o{i}", "keywords": ["a"], "location": [i % 100, 1]}]}


BURSTS = {
    "posts": Load("feeds/f", {"window": 20_000, "bounds": [0, 0, 100, 100]}, a_post, "posts", {}),
    "objects": Load(
        "boards/b",
        {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [3]},
        lambda i: ("PUT", f"objects/o{i}", {"values": {"x": i % 100, "y": i}}),
        "objects",
        {},
    ),
    "subscriptions": Load(
        "relays/r",
        {"attributes": ["price"]},
        lambda i: ("PUT", f"subscriptions/o{i}", {"box": {"price": [i, i + 9]}}),
        "subscriptions",
        {},
    ),
}
"""Small writes that come as bursts, since they have no key. The ids tell what is left of them, so `state` is empty."""


@pytest.mark.parametrize("load", BURSTS)
def test_bursts_are_there_up_to_a_request_that_was_sent(start_service: StartService, load: str) -> None:
    """Those that were answered are there, as are none behind the first one that is not."""
    resource, config, write, shown, _, _ = BURSTS[load]
    service = start_service()
    assert httpx.put(f"{service.url}/v1/{resource}", json=config).status_code == 201

    async def run() -> tuple[int, dict[int, int]]:
        """How many were sent, and the seq of each that was answered: answers come in any order."""
        url = service.url.replace("http", "ws", 1) + "/v1/stream"
        sent, seqs = 0, dict[int, int]()
        # Nobody answers when it is closed.
        connecting = websockets.connect(url, max_size=None, proxy=None, close_timeout=0.1)
        async with asyncio.timeout(PATIENCE), connecting as connection:
            while len(seqs) < COUNT // 2:
                for ref in range(sent, min(COUNT, len(seqs) + WINDOW)):
                    method, path, body = write(ref)
                    frame = {"op": "request", "ref": ref, "method": method, "path": f"/v1/{resource}/{path}"}
                    await connection.send(json.dumps(frame | {"body": body}))
                    sent = ref + 1
                for _ in range(min(sent - len(seqs), WINDOW // 2)):
                    answer = json.loads(await connection.recv())
                    assert answer["status"] == 201 and answer["ref"] not in seqs
                    seqs[answer["ref"]] = answer["body"]["seq"]
            service.stop(signal.SIGKILL)
        return sent, seqs

    sent, seqs = asyncio.run(run())
    assert seqs == {ref: ref + 1 for ref in seqs}, "each is applied once, in order"
    service = start_service(service.data)
    found = ids_of(f"{service.url}/v1/{resource}", shown)
    assert max(seqs) < len(found) <= sent
    assert found == {f"o{n}" for n in range(len(found))}
    assert httpx.get(f"{service.url}/v1/{resource}").json()["seq"] == len(found)
    assert service.stop() == 0


def ids_of(url: str, collection: str) -> set[str]:
    """The ids of a collection."""
    found, more = set[str](), ""
    while True:
        page = httpx.get(f"{url}/{collection}?limit=1000{more}").json()
        found |= {item["id"] for item in page["items"]}
        if page["next"] is None:
            return found
        more = f"&cursor={page['next']}"
