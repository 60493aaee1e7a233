"""A connector and several nodes of a service: what one does not answer goes on at another, under the same key."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from websockets.asyncio.server import ServerConnection, serve

from app.connectors.errors import ConnectorError
from app.connectors.following import Following
from app.connectors.service import Service

LEADER = {"role": "leader", "term": 3}
REPLICA = {"role": "replica", "term": 3}


class Group:
    """Nodes a and b; `says` is what each answers to writes in turn, 0 for none, the last one for ever."""

    def __init__(self, roles: dict[str, Any], says: dict[str, list[int]]) -> None:
        self.roles, self.says = roles, says
        self.writes: list[tuple[str, str | None]] = []

    def __call__(self, request: httpx.Request) -> httpx.Response:
        host = request.url.host
        if request.url.path == "/readyz":
            return httpx.Response(200 if self.roles[host] == LEADER else 503, json=self.roles[host])
        self.writes.append((host, request.headers.get("idempotency-key")))
        status = self.says[host].pop(0) if len(self.says[host]) > 1 else self.says[host][0]
        if status == 0:
            raise httpx.ConnectError("no one there")
        return httpx.Response(status, json={"seq": 7, "title": "Later"}, headers={"retry-after": "0"})


def posted(group: Group, monkeypatch: pytest.MonkeyPatch, times: int = 1) -> list[str | None]:
    """Send so many requests; returns what was said of the service's absence."""
    pauses: list[int] = []

    def paused(failures: int, asked: float) -> float:
        pauses.append(failures)
        return 0.0

    monkeypatch.setattr("app.connectors.service.pause", paused)
    told: list[str | None] = []

    async def run() -> None:
        service = Service("http://a, http://b/", "rk_1", told.append)
        service._http = httpx.AsyncClient(transport=httpx.MockTransport(group))
        for number in range(times):
            assert await service.post("/v1/boards/x/events", b"{}", f"key-{number}") == {"seq": 7, "title": "Later"}
        await service.close()

    asyncio.run(asyncio.wait_for(run(), 60))
    return told


@pytest.mark.parametrize("status", [0, 503, 429])
def test_a_write_goes_on_at_another_node_under_its_key(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group({"a": LEADER, "b": REPLICA}, {"a": [status], "b": [200]})
    assert posted(group, monkeypatch) == []
    assert group.writes == [("a", "key-0"), ("b", "key-0")]


def test_the_node_that_leads_is_asked_first(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group({"a": REPLICA, "b": LEADER}, {"a": [200], "b": [200]})
    assert posted(group, monkeypatch, 3) == []
    assert [host for host, _ in group.writes] == ["b"] * 3


def test_the_service_is_away_only_when_no_node_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group({"a": REPLICA, "b": REPLICA}, {"a": [0], "b": [0, 0, 200]})
    told = posted(group, monkeypatch)
    assert told[-1] is None and len(told) == 2 and {key for _, key in group.writes} == {"key-0"}
    assert [host for host, _ in group.writes].count("b") == 3


@pytest.mark.parametrize("url", ["http://a,,http://b", ",".join(f"http://n{i}" for i in range(17))])
def test_urls_that_name_no_nodes_are_refused(url: str) -> None:
    for make in (lambda: Service(url, None, print), lambda: Following(url, None, "boards/b", {}, {}, print)):
        with pytest.raises(ConnectorError, match="from 1 to 16 URLs"):
            make()


def test_a_stream_goes_on_at_another_node_after_its_cursor() -> None:
    asked: list[tuple[str, str | None]] = []
    told: list[str | None] = []

    def node(name: str, events: list[dict[str, Any]]) -> Callable[[ServerConnection], Any]:
        async def talk(socket: ServerConnection) -> None:
            wanted = json.loads(await socket.recv())
            asked.append((name, wanted.get("after")))
            for event in events:
                await socket.send(json.dumps({"id": "s", **event}))

        return talk

    async def run() -> list[str]:
        first = node("first", [{"event": "snapshot", "cursor": "e:4"}])
        second = node("second", [{"event": "change", "cursor": "e:5"}, {"event": "gone"}])
        async with serve(first, "127.0.0.1", 0) as a, serve(second, "127.0.0.1", 0) as b:
            ports = [next(iter(one.sockets)).getsockname()[1] for one in (a, b)]
            url = ",".join(f"http://127.0.0.1:{port}" for port in ports)
            following = Following(url, None, "boards/b", {"s": None}, {}, told.append)
            await following.run()
            assert following.reconnects == 1
            return [event.event for event in following.taken(9)]

    assert asyncio.run(asyncio.wait_for(run(), 60)) == ["snapshot", "change", "gone"]
    assert asked == [("first", None), ("second", "e:4")] and told == []
