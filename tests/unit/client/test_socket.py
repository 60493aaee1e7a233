"""Many lists on one WebSocket, resumed one by one after the connection was lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from rankcast_client import (
    AsyncRankcast,
    Change,
    Gone,
    Missed,
    ProblemError,
    Ready,
    Reset,
    Snapshot,
    Unreachable,
    Win,
    ws,
)
from rankcast_client.transport import Retry
from rankcast_client.ws import Message, Refused, Socket
from tests.support.patience import PATIENCE
from tests.unit.client.service import QUICK, address, changed, listed

Talk = Callable[[ServerConnection], Awaitable[None]]
DELAYS, ADS = "boards/delays", "matchers/ads"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ws, "RECONNECT", Retry(attempts=0, first=0.001, most=0.01))


class Peer:
    """A WebSocket server that holds one conversation of the script per connection."""

    def __init__(self, *script: Talk) -> None:
        self.script = list(script)
        self.heard: list[dict[str, Any]] = []
        self.keys: list[str | None] = []

    async def talk(self, connection: ServerConnection) -> None:
        assert connection.request is not None
        self.keys.append(connection.request.headers.get("Authorization"))
        await self.script.pop(0)(connection)

    async def hear(self, connection: ServerConnection) -> dict[str, Any]:
        said = json.loads(await connection.recv())
        self.heard.append(said)
        return dict(said)

    def run(self, test: Callable[[AsyncRankcast], Awaitable[None]]) -> None:
        async def main() -> None:
            async with (
                asyncio.timeout(PATIENCE),
                serve(self.talk, "127.0.0.1", 0) as server,
                AsyncRankcast(address(server), "secret", retry=QUICK) as client,
            ):
                await test(client)

        asyncio.run(main())


async def say(connection: ServerConnection, event: str, id: str | None = "mine", **data: Any) -> None:
    about = {} if id is None else {"resource": DELAYS, "id": id}
    await connection.send(json.dumps(about | {"event": event} | data))


async def first(connection: ServerConnection, id: str = "mine") -> None:
    await say(connection, "snapshot", id, seq=4, cursor="e:4", list=listed(("a", 50), ("b", 40)))


async def entered(connection: ServerConnection, id: str = "mine") -> None:
    changes = [changed("c", None, 1, 60), changed("b", 2, None)]
    await say(connection, "change", id, seq=6, cursor="e:6", changes=changes)


def ids(message: Message) -> list[str]:
    return [entry.id for entry in message.list]


def test_each_subscription_resumes_at_its_own_position() -> None:
    async def once(connection: ServerConnection) -> None:
        for id in ("mine", "yours", "late"):
            assert (await peer.hear(connection))["id"] == id
        await first(connection)
        await first(connection, "yours")
        await entered(connection)
        await connection.close()

    async def again(connection: ServerConnection) -> None:
        for _ in range(3):
            await peer.hear(connection)
        await entered(connection, "yours")
        await say(connection, "reset", "mine", seq=8, cursor="e:8", list=listed(("z", 1)))
        await say(connection, "gone", "yours", seq=9, cursor="e:9")
        await say(connection, "error", "late", problem={"type": "/problems/not-found", "status": 404, "title": "No"})
        await connection.wait_closed()

    peer = Peer(once, again)

    async def test(client: AsyncRankcast) -> None:
        async with client.socket() as socket:
            for id in ("mine", "yours", "late"):
                await socket.subscribe("delays", id)
            messages = [await anext(socket) for _ in range(7)]
            assert [(m.id, type(m.event)) for m in messages] == [
                ("mine", Snapshot),
                ("yours", Snapshot),
                ("mine", Change),
                ("yours", Change),
                ("mine", Reset),
                ("yours", Gone),
                ("late", Refused),
            ]
            assert [ids(m) for m in messages[:5]] == [["a", "b"], ["a", "b"], ["c", "a"], ["c", "a"], ["z"]]
            assert [entry.id for entry in socket.list("delays", "mine")] == ["z"]
            assert socket.reconnects == 1

    peer.run(test)
    assert [said.get("after") for said in peer.heard] == [None, None, None, "e:6", "e:4", None]
    assert peer.keys == ["Bearer secret"] * 2


def test_a_heartbeat_moves_the_positions_of_lists_that_have_begun() -> None:
    async def once(connection: ServerConnection) -> None:
        await peer.hear(connection)
        await first(connection)
        await peer.hear(connection)
        await say(connection, "heartbeat", None, cursors={DELAYS: "e:17"})
        await connection.close()

    async def again(connection: ServerConnection) -> None:
        await peer.hear(connection)
        await peer.hear(connection)
        await first(connection, "other")
        await connection.wait_closed()

    peer = Peer(once, again)

    async def test(client: AsyncRankcast) -> None:
        async with client.socket() as socket:
            await socket.subscribe("delays", "mine")
            await anext(socket)
            await socket.subscribe("delays", "other")
            assert (await anext(socket)).id == "other"

    peer.run(test)
    assert [said.get("after") for said in peer.heard] == [None, None, "e:17", None]


def test_a_heartbeat_does_not_skip_what_a_resumed_list_still_lacks() -> None:
    async def once(connection: ServerConnection) -> None:
        await peer.hear(connection)
        await first(connection)
        await connection.close()

    async def resuming(connection: ServerConnection) -> None:
        await peer.hear(connection)
        assert (await peer.hear(connection))["op"] == "ping"
        await say(connection, "heartbeat", None, cursors={DELAYS: "e:17"})
        await connection.close()

    async def resumed(connection: ServerConnection) -> None:
        await peer.hear(connection)
        await peer.hear(connection)
        await say(connection, "pong", None)
        await say(connection, "heartbeat", None, cursors={DELAYS: "e:18"})
        await connection.close()

    async def at_last(connection: ServerConnection) -> None:
        await peer.hear(connection)
        await entered(connection)
        await connection.wait_closed()

    peer = Peer(once, resuming, resumed, at_last)

    async def test(client: AsyncRankcast) -> None:
        async with client.socket() as socket:
            await socket.subscribe("delays", "mine")
            assert isinstance((await anext(socket)).event, Snapshot)
            assert isinstance((await anext(socket)).event, Change)

    peer.run(test)
    positions = [said.get("after") for said in peer.heard if said["op"] == "subscribe"]
    assert positions == [None, "e:4", "e:4", "e:18"]


def test_a_silent_peer_is_asked_and_then_given_up() -> None:
    async def silent(connection: ServerConnection) -> None:
        await peer.hear(connection)
        await first(connection)
        while (await peer.hear(connection))["op"] == "ping":
            pass

    async def again(connection: ServerConnection) -> None:
        await peer.hear(connection)
        await entered(connection)
        await connection.wait_closed()

    peer = Peer(silent, again)

    async def test(client: AsyncRankcast) -> None:
        async with client.socket(heartbeat=0.05) as socket:
            await socket.subscribe("delays", "mine")
            assert isinstance((await anext(socket)).event, Snapshot)
            assert isinstance((await anext(socket)).event, Change)

    peer.run(test)
    assert [said["op"] for said in peer.heard] == ["subscribe", "ping", "ping", "subscribe"]


def test_what_is_no_longer_followed_is_not_told() -> None:
    async def once(connection: ServerConnection) -> None:
        await peer.hear(connection)
        await first(connection)
        assert (await peer.hear(connection))["op"] == "unsubscribe"
        await entered(connection)
        await say(connection, "gone", seq=7, cursor="e:7")
        await say(connection, "unsubscribed")
        assert (await peer.hear(connection))["op"] == "subscribe"
        await entered(connection)
        await say(connection, "snapshot", seq=9, cursor="e:9", list=[])
        await connection.wait_closed()

    peer = Peer(once)

    async def test(client: AsyncRankcast) -> None:
        async with client.socket() as socket:
            await socket.subscribe("delays", "mine")
            await anext(socket)
            await socket.unsubscribe("delays", "mine")
            await socket.subscribe("delays", "mine")
            message = await anext(socket)
            assert isinstance(message.event, Snapshot)
            assert message.list == ()

    peer.run(test)


def test_giving_up_a_wait_loses_nothing() -> None:
    given_up = asyncio.Event()

    async def once(connection: ServerConnection) -> None:
        await peer.hear(connection)
        await given_up.wait()
        await first(connection)
        await entered(connection)
        await connection.wait_closed()

    peer = Peer(once)

    async def test(client: AsyncRankcast) -> None:
        async with client.socket() as socket:
            await socket.subscribe("delays", "mine")
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(anext(socket), 0.02)
            given_up.set()
            assert ids(await anext(socket)) == ["a", "b"]
            assert ids(await anext(socket)) == ["c", "a"]
        assert socket.reconnects == 0

    peer.run(test)


def test_closing_ends_the_iteration_of_another_task() -> None:
    async def once(connection: ServerConnection) -> None:
        await peer.hear(connection)
        await connection.wait_closed()

    peer = Peer(once)

    async def test(client: AsyncRankcast) -> None:
        socket = client.socket()
        await socket.subscribe("delays", "mine")

        async def read() -> list[Message]:
            return [message async for message in socket]

        reader = asyncio.create_task(read())
        await asyncio.sleep(0.02)
        await socket.aclose()
        assert await reader == []

    peer.run(test)


async def won(connection: ServerConnection, seq: int) -> None:
    about: dict[str, Any] = {"values": {"age": [1, None]}, "payload": None, "rank": 1, "score": 0.5}
    await say(connection, "win", seq=seq, cursor=f"e:{seq}", resource=ADS, **about)


def test_wins_are_followed_beside_lists_and_resumed_where_they_were() -> None:
    async def once(connection: ServerConnection) -> None:
        for _ in range(3):
            await peer.hear(connection)
        await say(connection, "ready", seq=4, cursor="e:4", resource=ADS)
        await first(connection)
        await won(connection, 5)
        await connection.close()

    async def again(connection: ServerConnection) -> None:
        for _ in range(4):
            await peer.hear(connection)
        await won(connection, 7)
        await say(connection, "ready", seq=8, cursor="e:8", resource=ADS)
        await say(connection, "pong", None)
        await say(connection, "heartbeat", None, cursors={ADS: "e:17"})
        await say(connection, "error", "late", resource=ADS, problem={"status": 404, "title": "No"})
        await connection.close()

    async def at_last(connection: ServerConnection) -> None:
        for _ in range(3):
            await peer.hear(connection)
        await say(connection, "reset", seq=20, cursor="e:20", resource=ADS)
        assert (await peer.hear(connection))["op"] == "unsubscribe"
        await won(connection, 21)
        await say(connection, "unsubscribed", resource=ADS)
        await entered(connection)
        await connection.wait_closed()

    peer = Peer(once, again, at_last)

    async def test(client: AsyncRankcast) -> None:
        async with client.socket() as socket:
            await socket.subscribe("matchers/ads", "mine", ready=True)
            await socket.subscribe("delays", "mine")
            await socket.subscribe("matchers/ads", "late")
            assert not socket.current("matchers/ads", "mine")
            seen = [(m.board, m.event if m.board != "delays" else ids(m)) async for m in upto(socket, 6)]
            win = {seq: Win(seq, {"age": (1, None)}, None, 1, 0.5) for seq in (5, 7)}
            assert seen[:5] == [
                ("matchers/ads", Ready(4)),
                ("delays", ["a", "b"]),
                ("matchers/ads", win[5]),
                ("matchers/ads", win[7]),
                ("matchers/ads", Ready(8)),
            ]
            assert isinstance(seen[5][1], Refused)
            assert (await anext(socket)).event == Missed(20)
            assert socket.list("matchers/ads", "mine") == ()
            await socket.unsubscribe("matchers/ads", "mine")
            assert ids(await anext(socket)) == ["c", "a"]

    peer.run(test)
    said = [(one["resource"], one["id"], one.get("after")) for one in peer.heard if one["op"] == "subscribe"]
    late = (ADS, "late", None)
    assert said[:3] == [(ADS, "mine", None), (DELAYS, "mine", None), late]
    assert said[3:6] == [(ADS, "mine", "e:5"), (DELAYS, "mine", "e:4"), late]
    assert said[6:] == [(ADS, "mine", "e:17"), (DELAYS, "mine", "e:4")]
    assert all(one["form"] == "changes" and one["ready"] for one in peer.heard if one["op"] == "subscribe")


def test_what_cannot_be_followed_is_refused_before_anything_is_sent() -> None:
    async def main() -> None:
        socket = Socket(AsyncRankcast("http://127.0.0.1:9"))
        for board, options in (
            ("things/edge", {}),
            ("feeds/edge", {"old": True}),
            ("maps/edge", {"form": "tiles"}),
            ("relays/edge", {"form": "tiles"}),
            ("matchers/a/b", {}),
            ("matchers/", {}),
            ("", {}),
            ("matchers/ads", {"form": "tiles"}),
            ("matchers/ads", {"old": True}),
            ("matchers/ads", {"squash": 1.0}),
        ):
            with pytest.raises(ValueError, match=r"is no name|neither|boards only"):
                await socket.subscribe(board, "mine", **options)

    asyncio.run(main())


def test_a_refused_connection_raises() -> None:
    async def refuse(connection: ServerConnection, request: Request) -> Response:
        return connection.respond(401, "no key")

    async def main() -> None:
        async with serve(lambda connection: connection.wait_closed(), "127.0.0.1", 0, process_request=refuse) as server:
            url = address(server)
            async with AsyncRankcast(url, retry=QUICK) as client:
                with pytest.raises(ProblemError, match="401"):
                    await Socket(client).subscribe("delays", "mine")
        async with AsyncRankcast(url, retry=QUICK) as client:
            with pytest.raises(Unreachable):
                await Socket(client).subscribe("delays", "mine")

    asyncio.run(main())


def test_a_list_is_current_from_ready_to_the_end_of_the_connection() -> None:
    async def once(connection: ServerConnection) -> None:
        said = [await peer.hear(connection) for _ in range(2)]
        assert [(one["ready"], one.get("squash"), one.get("old")) for one in said] == [
            (True, None, None),
            (True, 0.5, True),
        ]
        await first(connection)
        await say(connection, "ready", seq=5, cursor="e:5")
        await first(connection, "yours")
        await say(connection, "ready", "yours", seq=5, cursor="e:5")
        await connection.close()

    async def again(connection: ServerConnection) -> None:
        said = [await peer.hear(connection) for _ in range(2)]
        assert [one["after"] for one in said] == ["e:5", "e:5"]
        await entered(connection, "yours")
        await connection.wait_closed()

    peer = Peer(once, again)

    async def test(client: AsyncRankcast) -> None:
        async with client.socket() as socket:
            await socket.subscribe("delays", "mine")
            await socket.subscribe("delays", "yours", ready=True, old=True, squash=0.5)
            assert not socket.current("delays", "mine")
            seen = [(m.id, type(m.event), socket.current("delays", m.id)) async for m in upto(socket, 4)]
            assert seen == [
                ("mine", Snapshot, False),
                ("yours", Snapshot, False),
                ("yours", Ready, True),
                ("yours", Change, False),
            ]
            assert not socket.current("delays", "mine")

    peer.run(test)


async def upto(socket: Socket, count: int) -> AsyncIterator[Message]:
    for _ in range(count):
        yield await anext(socket)


FOOD = "maps/food"
CIRCLE = {"list": [], "candidates": [], "zone": {"center": [1, 2], "radius": 1}}


async def tell(connection: ServerConnection, event: str, **data: Any) -> None:
    await connection.send(json.dumps({"resource": FOOD, "id": "q1", "event": event} | data))


def test_moves_are_answered_in_order_and_said_again_after_a_loss() -> None:
    async def once(connection: ServerConnection) -> None:
        for _ in range(3):
            await peer.hear(connection)
        await tell(connection, "snapshot", seq=4, cursor="e:4", location=[1, 2], **CIRCLE)
        await tell(connection, "moved", seq=5, inside=True)
        await connection.close()

    async def again(connection: ServerConnection) -> None:
        assert (await peer.hear(connection))["after"] == "e:4"
        said = [await peer.hear(connection), await peer.hear(connection)]
        assert {"op": "move", "resource": FOOD, "id": "q1", "location": [8, 9]} in said
        await tell(connection, "result", seq=6, cursor="e:6", location=[8, 9], **CIRCLE)
        await tell(connection, "moved", seq=6, inside=False)
        problem = {"type": "/problems/not-found", "status": 404, "title": "No"}
        assert (await peer.hear(connection))["location"] == [3, 3]
        await tell(connection, "error", op="move", problem=problem)
        await tell(connection, "gone", seq=7)
        await connection.wait_closed()

    peer = Peer(once, again)

    async def test(client: AsyncRankcast) -> None:
        async with client.socket() as socket:
            messages: list[Message] = []

            async def drain() -> None:
                async for message in socket:
                    messages.append(message)
                    if isinstance(message.event, Gone):
                        return

            await socket.subscribe(FOOD, "q1")
            first = asyncio.ensure_future(socket.move(FOOD, "q1", (1, 2)))
            second = asyncio.ensure_future(socket.move(FOOD, "q1", (8, 9)))
            reading = asyncio.ensure_future(drain())
            assert await first is True
            assert await second is False
            with pytest.raises(ProblemError, match="404"):
                await socket.move(FOOD, "q1", (3, 3))
            await reading
            assert [(m.board, m.id, m.event.seq) for m in messages] == [
                (FOOD, "q1", 4),
                (FOOD, "q1", 6),
                (FOOD, "q1", 7),
            ]
            with pytest.raises(ValueError, match="is no map"):
                await socket.move("delays", "q1", (1, 1))

    peer.run(test)


def test_lists_of_feeds_are_kept_and_resumed() -> None:
    def post(id: str, score: float) -> dict[str, Any]:
        return {"id": id, "score": score, "location": [1, 2], "keywords": ["x"]}

    async def feed(connection: ServerConnection, event: str, seq: int, **data: Any) -> None:
        about = {"resource": "feeds/city", "id": "u1", "event": event, "seq": seq, "cursor": f"e:{seq}"}
        await connection.send(json.dumps(about | data))

    async def once(connection: ServerConnection) -> None:
        await peer.hear(connection)
        await feed(connection, "snapshot", 4, list=[{"rank": 1, **post("a", 0.5)}])
        await feed(connection, "change", 5, changes=[{"old_rank": None, "new_rank": 1, **post("b", 0.75)}])
        await connection.close()

    async def again(connection: ServerConnection) -> None:
        await peer.hear(connection)
        await feed(connection, "change", 6, changes=[{"id": "a", "old_rank": 2, "new_rank": None}])
        await feed(connection, "gone", 7)
        await connection.wait_closed()

    peer = Peer(once, again)

    async def test(client: AsyncRankcast) -> None:
        async with client.socket() as socket:
            await socket.subscribe("feeds/city", "u1")
            lists = []
            for _ in range(3):
                message = await anext(socket)
                assert (message.board, message.list, message.posts) == (
                    "feeds/city",
                    (),
                    socket.posts("feeds/city", "u1"),
                )
                lists.append([(one.id, one.score) for one in message.posts])
            assert lists == [[("a", 0.5)], [("b", 0.75), ("a", 0.5)], [("b", 0.75)]]
            assert (await anext(socket)).event == Gone(7)

    peer.run(test)
    said = [(one["resource"], one["id"], one.get("after")) for one in peer.heard if one["op"] == "subscribe"]
    assert said == [("feeds/city", "u1", None), ("feeds/city", "u1", "e:5")]
