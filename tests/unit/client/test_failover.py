"""Clients of several nodes: requests, streams and sockets go on at another, and writes go to the leader."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import AsyncExitStack
from typing import Any

import httpx
import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.http11 import Request, Response

from rankcast_client import AsyncRankcast, Gone, ProblemError, Rankcast, Retry, Unreachable, pipeline, upsert, ws
from tests.support.patience import PATIENCE
from tests.unit.client.service import QUICK, answer, block, changed, listed, problem, stream

A, B = "http://a.test", "http://b.test"
EVENT = upsert("o", {"distance": 1, "delay": 2})
DONE = {"seq": 1, "applied": 1, "tile_count": 0}
SUBSCRIPTION = "/v1/boards/delays/subscriptions/mine"
STREAM = f"{SUBSCRIPTION}/stream"
FIRST = block("snapshot", {"seq": 4, "list": listed(("a", 50))}, 4)
SECOND = block("change", {"seq": 6, "changes": [changed("c", None, 1, 60)]}, 6)
GONE = block("gone", {"seq": 9}, 9)

Reply = httpx.Response | Exception | Callable[[httpx.Request], httpx.Response]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    again = Retry(attempts=0, first=0.001, most=0.01)
    monkeypatch.setattr("rankcast_client._base.RECONNECT", again)
    monkeypatch.setattr("rankcast_client._sync._base.RECONNECT", again)
    monkeypatch.setattr(ws, "RECONNECT", again)
    monkeypatch.setattr(pipeline, "RECONNECT", again)


class Group(httpx.AsyncBaseTransport, httpx.BaseTransport):
    """Two nodes, each with its role (None: it cannot be reached) and what it answers, the last again and again."""

    def __init__(self, a: str | None = "leader", b: str | None = "replica") -> None:
        self.roles = {"a.test": a, "b.test": b}
        self.replies: dict[str, list[Reply]] = {"a.test": [], "b.test": []}
        self.asked: list[tuple[str, str]] = []
        """Host and path of each request but those to ``/readyz``."""
        self.keys: list[str | None] = []
        self.cursors: list[str | None] = []
        self.about = 0

    def says(self, host: str, *replies: Reply) -> Group:
        self.replies[host] = list(replies)
        return self

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        host, path = request.url.host, request.url.path
        role = self.roles[host]
        if path == "/readyz":
            self.about += 1
            if role is None:
                raise httpx.ConnectError("refused")
            return answer({"ready": role == "leader", "role": role, "term": 0}, 200 if role == "leader" else 503)
        self.asked.append((host[0], path))
        self.keys.append(request.headers.get("Idempotency-Key"))
        self.cursors.append(request.headers.get("Last-Event-ID"))
        if role is None:
            raise httpx.ConnectError("refused")
        replies = self.replies[host]
        reply = replies.pop(0) if len(replies) > 1 else replies[0]
        if isinstance(reply, Exception):
            raise reply
        return reply if isinstance(reply, httpx.Response) else reply(request)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await request.aread()
        return self.handle_request(request)

    def client(self, retry: Retry = QUICK) -> AsyncRankcast:
        return AsyncRankcast([A, B], retry=retry, transport=self)

    @property
    def hosts(self) -> str:
        return "".join(host for host, _ in self.asked)


def publish(group: Group, times: int = 1) -> None:
    async def run() -> None:
        async with group.client() as client:
            for _ in range(times):
                await client.board("delays").publish(EVENT)

    asyncio.run(run())


def read(group: Group, times: int = 1) -> None:
    async def run() -> None:
        async with group.client() as client:
            for _ in range(times):
                await client.board("delays").top()

    asyncio.run(run())


TOP = answer({"seq": 1, "list": []})


def test_reads_go_to_the_first_and_nobody_is_asked_who_leads() -> None:
    group = Group("replica", "leader").says("a.test", TOP)
    read(group, 3)
    assert group.hosts == "aaa"
    assert group.about == 0


@pytest.mark.parametrize("failure", [httpx.ConnectError(""), httpx.ReadError(""), problem(503, "not-ready")])
def test_a_read_goes_on_at_the_next_without_a_pause(failure: Reply, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Retry, "pause", lambda *_: pytest.fail("there was one to try"))
    group = Group().says("a.test", failure).says("b.test", TOP)
    read(group)
    assert group.hosts == "ab"


def test_who_could_not_be_reached_is_last_for_a_moment() -> None:
    group = Group(None).says("b.test", TOP)
    read(group, 3)
    assert group.hosts == "abbb"


def test_when_all_fail_there_are_as_many_rounds_as_attempts() -> None:
    group = Group(None, None)
    with pytest.raises(Unreachable, match=r"http://a\.test, http://b\.test does not answer"):
        read(group)
    assert group.hosts == "ab" * QUICK.attempts


def test_a_refusal_is_final_wherever_it_comes_from() -> None:
    group = Group().says("a.test", problem(422, "invalid"))
    with pytest.raises(ProblemError):
        read(group)
    assert group.hosts == "a"


def test_writes_go_to_the_leader_and_reads_after_them_too() -> None:
    group = Group("replica", "leader").says("b.test", answer(DONE))
    publish(group, 3)
    assert group.hosts == "bbb"
    assert group.about == 2, "each is asked once"

    async def run() -> None:
        async with group.client() as client:
            await client.board("delays").publish(EVENT)
            group.says("b.test", TOP)
            await client.board("delays").top()

    asyncio.run(run())
    assert group.hosts == "bbbbb"


def test_a_write_goes_to_whichever_where_nobody_says_that_it_leads() -> None:
    group = Group("replica", "replica").says("a.test", answer(DONE))
    publish(group)
    assert group.hosts == "a"


def test_a_write_whose_leader_goes_away_is_sent_to_the_next_under_one_key() -> None:
    group = Group()

    def die(_: httpx.Request) -> httpx.Response:
        group.roles = {"a.test": None, "b.test": "leader"}
        raise httpx.ReadError("reset")

    group.says("a.test", die).says("b.test", problem(409, "in-progress"), answer(DONE | {"replayed": True}))
    publish(group)
    assert group.hosts == "abb"
    assert len(set(group.keys)) == 1
    assert None not in group.keys


def test_a_write_that_is_refused_for_now_waits_until_a_node_takes_it() -> None:
    group = Group(None, "replica")

    def promoted(_: httpx.Request) -> httpx.Response:
        group.roles["b.test"] = "leader"
        return problem(503, "not-ready")

    group.says("b.test", promoted, answer(DONE))
    publish(group)
    assert group.hosts[0] == group.hosts[-1] == "b"


def test_promotion_names_one_node() -> None:
    group = Group()

    async def run() -> None:
        async with group.client() as client:
            with pytest.raises(ValueError, match="name the node"):
                await client.promote()
            async with client.socket() as socket:
                with pytest.raises(ValueError, match="name the node"):
                    await socket.request("POST", "/v1/admin/promote")

    asyncio.run(run())
    assert group.asked == []


def test_jobs_are_asked_of_the_leader() -> None:
    group = Group("replica", "leader").says("b.test", problem(404, "not-found"))

    async def run() -> None:
        async with group.client() as client:
            with pytest.raises(ProblemError):
                await client.jobs.get("j")
            with pytest.raises(ProblemError):
                await anext(aiter(client.jobs.follow("j")))

    asyncio.run(run())
    assert group.hosts == "bb"


def test_any_node_that_is_ready_is_enough() -> None:
    async def ready(group: Group) -> bool:
        async with group.client() as client:
            return await client.ready()

    assert asyncio.run(ready(Group(None, "leader")))
    assert not asyncio.run(ready(Group(None, "replica")))


# Streams


def follow(group: Group, form: Any = "changes") -> list[list[str]]:
    async def run() -> list[list[str]]:
        lists = []
        async with group.client() as client, client.board("delays").watch("mine", form=form) as mine:
            async for _ in mine:
                lists.append([entry.id for entry in mine.list])
            assert mine.gone
        return lists

    return asyncio.run(run())


@pytest.mark.parametrize("end", ["breaks", "silent", "ends"])
def test_a_stream_goes_on_at_the_next_from_its_cursor(end: str) -> None:
    group = Group().says("a.test", stream(FIRST, end=end)).says("b.test", stream(SECOND, GONE))
    assert follow(group) == [["a"], ["c", "a"]]
    assert group.hosts == "ab"
    assert group.cursors == [None, "e:4"]


def test_a_stream_begins_where_it_can() -> None:
    group = Group(None).says("b.test", problem(503, "not-ready"), stream(FIRST, GONE))
    assert follow(group) == [["a"]]
    assert group.hosts == "abb", "who refuses for now is not away, who cannot be reached is"


def test_a_replica_that_has_not_heard_of_a_subscription_does_not_end_its_stream() -> None:
    group = Group().says("a.test", stream(FIRST, end="breaks"), stream(SECOND, GONE))
    group.says("b.test", problem(404, "not-found"))
    assert follow(group) == [["a"], ["c", "a"]]
    assert group.hosts.startswith("ab")
    assert group.hosts.endswith("a")


def test_a_leader_that_has_not_heard_of_a_subscription_ends_its_stream() -> None:
    group = Group("replica", "leader").says("a.test", stream(FIRST, end="breaks"))
    group.says("b.test", problem(404, "not-found"))
    assert follow(group) == [["a"]]
    assert group.hosts == "ab"


def test_what_nobody_has_is_refused_at_the_start() -> None:
    group = Group("replica", "replica").says("a.test", problem(404, "not-found"))
    group.says("b.test", problem(404, "not-found"))
    with pytest.raises(ProblemError) as refused:
        follow(group)
    assert refused.value.status == 404


def test_what_tiles_need_is_asked_where_they_come_from() -> None:
    tiles = block("snapshot", {"seq": 4, "tiles": [], "list": []}, 4)
    about = {"id": "mine", "seq": 1, "range": {"distance": [0, 9]}, "k": 3, "want": {"distance": [0, 9]}}
    asked: list[str] = []

    def die(request: httpx.Request) -> httpx.Response:
        asked.append(request.url.path)
        raise httpx.ReadError("reset")

    def say(request: httpx.Request) -> httpx.Response:
        return stream(tiles) if request.url.path == STREAM else die(request)

    group = Group().says("a.test", say).says("b.test", stream(GONE))
    assert follow(group, "tiles") == []
    assert set(asked) == {SUBSCRIPTION}, about
    assert set(group.hosts[:-1]) == {"a"}
    assert group.hosts[-1] == "b"


# The blocking client


def test_the_blocking_client_goes_on_too() -> None:
    group = Group()

    def die(_: httpx.Request) -> httpx.Response:
        group.roles = {"a.test": None, "b.test": "leader"}
        raise httpx.ReadError("reset")

    group.says("a.test", die).says("b.test", answer(DONE))
    with Rankcast(f"{A},{B}", retry=QUICK, transport=group) as client:
        client.board("delays").publish(EVENT)
        group.says("b.test", answer({"seq": 1, "list": []}))
        client.board("delays").top()
    assert group.hosts == "abb"


# Sockets


class Peer:
    """A node with a WebSocket: it answers ``/readyz``, subscribes and requests."""

    def __init__(self, role: str, *, shows: str = "", known: bool = True, dies: bool = False) -> None:
        self.role, self.shows, self.known, self.dies = role, shows, known, dies
        self.heard: list[dict[str, Any]] = []
        self.url = ""

    def respond(self, connection: ServerConnection, request: Request) -> Response | None:
        if request.path != "/readyz":
            return None
        response = connection.respond(200, json.dumps({"role": self.role, "term": 0}))
        return response

    async def talk(self, connection: ServerConnection) -> None:
        async for text in connection:
            said = json.loads(text)
            self.heard.append(said)
            if said["op"] == "subscribe":
                head = {"resource": said["resource"], "id": said["id"]}
                if not self.known:
                    unknown = {"type": "/problems/not-found", "title": "Unknown", "status": 404}
                    await connection.send(json.dumps({"event": "error", **head, "problem": unknown}))
                    continue
                data = {"seq": 4, "list": listed((self.shows, 1)), "cursor": "e:4"}
                event = "reset" if "after" in said else "snapshot"
                await connection.send(json.dumps({"event": event, **head, **data}))
            elif said["op"] == "ping":
                await connection.send(json.dumps({"event": "pong"}))
            elif self.dies:
                connection.transport.abort()
            else:
                body = {"seq": 1, "from": self.role}
                await connection.send(
                    json.dumps({"event": "response", "ref": said["ref"], "status": 200, "body": body})
                )
            if self.dies and said["op"] == "subscribe":
                connection.transport.abort()


def with_peers(test: Callable[[AsyncRankcast], Any], *peers: Peer) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            for peer in peers:
                server = await stack.enter_async_context(serve(peer.talk, "127.0.0.1", 0, process_request=peer.respond))
                peer.url = f"http://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}"
            client = AsyncRankcast([peer.url for peer in peers], retry=QUICK)
            async with client, asyncio.timeout(PATIENCE):
                await test(client)

    asyncio.run(main())


def test_a_socket_goes_on_at_the_next_and_resumes() -> None:
    first, second = Peer("leader", shows="a", dies=True), Peer("replica", shows="b")

    async def test(client: AsyncRankcast) -> None:
        async with client.socket() as socket:
            await socket.subscribe("delays", "mine")
            lists = []
            async for message in socket:
                lists.append([entry.id for entry in message.list])
                if lists[-1] == ["b"]:
                    break
            assert lists == [["a"], ["b"]]

    with_peers(test, first, second)
    assert next(one for one in second.heard if one["op"] == "subscribe")["after"] == "e:4"


def test_a_socket_leaves_a_replica_that_has_not_heard_of_what_it_follows() -> None:
    first, second = Peer("leader", shows="a", dies=True), Peer("replica", known=False)

    async def test(client: AsyncRankcast) -> None:
        async with client.socket() as socket:
            await socket.subscribe("delays", "mine")
            assert [entry.id for entry in (await anext(socket)).list] == ["a"]
            first.dies, first.shows = False, "c"
            message = await anext(socket)
            assert not isinstance(message.event, Gone)
            assert [entry.id for entry in message.list] == ["c"]

    with_peers(test, first, second)
    assert any(one["op"] == "subscribe" for one in second.heard)


def test_requests_of_a_socket_go_to_the_leader_and_on_when_it_goes_away() -> None:
    first, second = Peer("replica"), Peer("leader", dies=True)

    async def test(client: AsyncRankcast) -> None:
        async with client.socket() as socket:
            body = {"values": {"distance": 1, "delay": 1}}
            answered = await socket.request("PUT", "/v1/boards/delays/objects/o", body)
            assert answered["from"] == "replica", "it passes writes on"

    with_peers(test, first, second)
    keys = {one["headers"]["Idempotency-Key"] for peer in (first, second) for one in peer.heard}
    assert len(second.heard) == len(first.heard) == len(keys) == 1
