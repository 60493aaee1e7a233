"""Requests over one WebSocket: bounded, in order, and sent again under the same keys when the connection is lost."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable
from typing import Any

import msgpack
import pytest
from websockets.asyncio.server import ServerConnection, serve

from rankcast_client import AsyncRankcast, ProblemError, Rankcast, Unreachable, pipeline, upsert
from rankcast_client.map_calls import MAPS
from rankcast_client.transport import Retry
from tests.support.patience import PATIENCE
from tests.unit.client.service import QUICK, address

BUSY = {"type": "/problems/busy", "status": 503, "title": "busy", "detail": "later", "errors": []}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "RECONNECT", Retry(attempts=0, first=0.001, most=0.01))


class Peer:
    """A service that hears requests and answers what `answer` makes of each; None closes the connection."""

    def __init__(self, answer: Callable[[dict[str, Any]], Any]) -> None:
        self.answer = answer
        self.heard: list[dict[str, Any]] = []
        self.connections = 0

    async def talk(self, connection: ServerConnection) -> None:
        self.connections += 1
        async for frame in connection:
            said = json.loads(frame) if isinstance(frame, str) else msgpack.unpackb(frame)
            if said["op"] == "ping":
                await connection.send('{"event":"pong"}')
                continue
            self.heard.append(said)
            found = self.answer(said)
            if found is None or isinstance(found, int):
                await connection.close(found or 1011)
                return
            reply = {"event": "response", "ref": said["ref"], "status": 200, **found}
            await connection.send(json.dumps(reply) if isinstance(frame, str) else msgpack.packb(reply))

    def run(self, test: Callable[[AsyncRankcast], Awaitable[None]]) -> None:
        async def main() -> None:
            async with (
                asyncio.timeout(PATIENCE),
                serve(self.talk, "127.0.0.1", 0) as server,
                AsyncRankcast(address(server), "secret", retry=QUICK) as client,
            ):
                await test(client)

        asyncio.run(main())


def echo(said: dict[str, Any]) -> dict[str, Any]:
    return {"body": {"path": said["path"], "body": said.get("body")}}


@pytest.mark.parametrize("packed", [False, True])
def test_requests_are_sent_in_order_and_answered_by_name(packed: bool) -> None:
    peer = Peer(echo)

    async def test(client: AsyncRankcast) -> None:
        async with client.socket(packed=packed, window=8) as socket:
            found = await asyncio.gather(*(socket.request("PUT", f"/v1/x/{i}", {"i": i}) for i in range(100)))
            assert [one["body"]["i"] for one in found] == list(range(100))
            await socket.request("GET", "/v1/x", headers={"X-Request-Id": "r"})

    peer.run(test)
    assert [said["body"]["i"] for said in peer.heard[:-1]] == list(range(100))
    assert len({said["headers"]["Idempotency-Key"] for said in peer.heard[:-1]}) == 100
    assert peer.heard[-1]["headers"] == {"X-Request-Id": "r"} and "body" not in peer.heard[-1]
    assert peer.connections == 1


def test_what_is_not_answered_is_sent_again_under_its_key_and_in_order() -> None:
    times: dict[int, int] = {}

    def answer(said: dict[str, Any]) -> Any:
        times[said["ref"]] = times.get(said["ref"], 0) + 1
        return None if said["body"]["i"] % 7 == 3 and times[said["ref"]] == 1 else echo(said)

    peer = Peer(answer)

    async def test(client: AsyncRankcast) -> None:
        async with client.socket(window=16) as socket:
            found = await asyncio.gather(*(socket.request("POST", f"/v1/{i}", {"i": i}) for i in range(40)))
            assert [one["body"]["i"] for one in found] == list(range(40))
            assert socket._pipeline.reconnects == peer.connections - 1

    peer.run(test)
    assert peer.connections > 3
    keys: dict[int, set[str]] = {}
    for said in peer.heard:
        keys.setdefault(said["body"]["i"], set()).add(said["headers"]["Idempotency-Key"])
    assert all(len(found) == 1 for found in keys.values()) and len(keys) == 40
    assert max(times.values()) > 1
    first = list(dict.fromkeys(said["body"]["i"] for said in peer.heard))
    assert first == sorted(first), "no write overtakes another"


def test_a_window_bounds_what_is_under_way() -> None:
    held: list[tuple[ServerConnection, int]] = []

    async def talk(connection: ServerConnection) -> None:
        async for frame in connection:
            held.append((connection, json.loads(frame)["ref"]))

    async def main() -> None:
        async with (
            asyncio.timeout(PATIENCE),
            serve(talk, "127.0.0.1", 0) as server,
            AsyncRankcast(address(server)) as client,
            client.socket(window=3) as socket,
        ):
            asks = [asyncio.create_task(socket.request("GET", "/v1/x")) for _ in range(10)]
            answered = 0
            while answered < 10:
                while len(held) < answered + min(3, 10 - answered):
                    await asyncio.sleep(0)
                await asyncio.sleep(0.01)
                assert len(held) <= answered + 3
                connection, ref = held[answered]
                await connection.send(json.dumps({"event": "response", "ref": ref, "status": 200, "body": ref}))
                answered += 1
            assert await asyncio.gather(*asks) == [ref for _, ref in held]

    asyncio.run(main())
    with pytest.raises(ValueError, match="window"):
        AsyncRankcast().socket(window=257)


def test_refusals_are_raised_and_what_is_busy_is_asked_again() -> None:
    asked = 0

    def answer(said: dict[str, Any]) -> Any:
        nonlocal asked
        asked += 1
        if said["path"] == "/v1/busy":
            return {"status": 503, "body": BUSY, "headers": {"Retry-After": "0"}} if asked < 3 else echo(said)
        return {"status": 404, "body": {**BUSY, "type": "/problems/not-found", "status": 404}}

    peer = Peer(answer)

    async def test(client: AsyncRankcast) -> None:
        async with client.socket() as socket:
            assert (await socket.request("PUT", "/v1/busy"))["path"] == "/v1/busy"
            with pytest.raises(ProblemError) as refused:
                await socket.request("PUT", "/v1/none")
            assert refused.value.slug == "not-found"

    peer.run(test)
    assert len({said["headers"]["Idempotency-Key"] for said in peer.heard[:3]}) == 1


def test_a_frame_that_is_too_large_is_refused_alone() -> None:
    peer = Peer(lambda said: 1009 if len(json.dumps(said)) > 5_000 else echo(said))

    async def test(client: AsyncRankcast) -> None:
        async with client.socket() as socket:
            asks = [socket.request("PUT", "/v1/x", "a" * (9_000 if i == 2 else 5)) for i in range(5)]
            found = await asyncio.gather(*asks, return_exceptions=True)
        problem = found.pop(2)
        assert isinstance(problem, ProblemError) and problem.status == 413
        assert all(isinstance(one, dict) for one in found)

    peer.run(test)


def test_a_closed_socket_asks_nothing_more() -> None:
    peer = Peer(echo)

    async def test(client: AsyncRankcast) -> None:
        socket = client.socket()
        await socket.request("GET", "/v1/x")
        await socket.aclose()
        with pytest.raises(Unreachable):
            await socket.request("GET", "/v1/x")

    peer.run(test)


def test_calls_of_handles_go_over_a_socket_as_json() -> None:
    def answer(said: dict[str, Any]) -> Any:
        (many,) = (one for one in said["body"].values() if isinstance(one, list))
        return {"body": {"seq": 1, "applied": len(many)}}

    peer = Peer(answer)

    async def test(client: AsyncRankcast) -> None:
        async with client.socket() as socket:
            events = [upsert(f"o{i}", {"x": i, "y": 0}) for i in range(1_500)]
            few = await socket.publish("delays", events[:2], idempotency_key="mine")
            many = await socket.publish("delays", events, on_error="skip", messages="none")
            assert (few.applied, many.applied) == (2, 1_500)
            with pytest.raises(ValueError, match="not for a socket"):
                await socket.send(MAPS.publish_arrow("m", "objects", b"", dict, "refuse"))

    peer.run(test)
    few, many = peer.heard
    assert few["headers"] == {"Idempotency-Key": "mine"} and few["body"]["messages"] == "count"
    assert many["path"].startswith("/v1/boards/delays/events?") and "on_error=skip" in many["path"]
    assert many["body"] == {"events": [dict(upsert(f"o{i}", {"x": i, "y": 0})) for i in range(1_500)]}


def test_the_blocking_client_has_requests_too() -> None:
    peer = Peer(echo)

    async def test(client: AsyncRankcast) -> None:
        def ask() -> None:
            with Rankcast(client.base_url, retry=QUICK) as blocking, blocking.socket(window=4) as socket:
                begun = [socket.begin("PUT", f"/v1/{i}", i) for i in range(50)]
                assert [one.result(PATIENCE)["body"] for one in begun] == list(range(50))
                assert socket.request("GET", "/v1/x")["path"] == "/v1/x"
                socket.close()

        await asyncio.to_thread(ask)

    peer.run(test)
    assert [said["body"] for said in peer.heard[:50]] == list(range(50))


@pytest.mark.parametrize("packed", [False, True])
def test_what_is_no_json_is_refused_before_it_is_sent(packed: bool) -> None:
    """The service cannot tell to which request a frame belongs that it cannot read."""
    peer = Peer(echo)

    async def test(client: AsyncRankcast) -> None:
        async with client.socket(packed=packed) as socket:
            for body in (math.nan, -math.inf, {"payload": "\ud800"}, {"\udfff": 1}):
                with pytest.raises(ValueError, match=r"."):
                    await socket.request("PUT", "/v1/boards/b", body)
            with pytest.raises(ValueError, match="surrogates"):
                await socket.request("GET", "/v1/boards/\ud800")
            with pytest.raises(ValueError, match="surrogates"):
                await socket.request("GET", "/v1/boards", headers={"X-Request-Id": "\ud800"})
            assert await socket.request("GET", "/v1/boards/b") == {"path": "/v1/boards/b", "body": None}

    peer.run(test)
    assert len(peer.heard) == 1


@pytest.mark.parametrize("packed", [False, True])
def test_integers_of_any_size_are_sent(packed: bool) -> None:
    peer = Peer(lambda said: {"body": {"n": said["body"]["n"] == 2**70}})

    async def test(client: AsyncRankcast) -> None:
        async with client.socket(packed=packed) as socket:
            assert await socket.request("POST", "/v1/x", {"n": 2**70}) == {"n": True}

    peer.run(test)
