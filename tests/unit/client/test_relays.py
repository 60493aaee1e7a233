"""Relays through the client: what is sent, what answers come to, and streams of notifications over lost connections."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

import httpx
import pytest

from rankcast_client import (
    Arrived,
    Ended,
    Missed,
    ProblemError,
    Rankcast,
    Ready,
    Rejected,
    Routed,
    subscribe,
    unsubscribe,
)
from tests.unit.client.service import QUICK, Service, answer, block, problem, stream

LINK = {"url": "http://north", "relay": "market", "link": "south"}
INFO: dict[str, Any] = {
    "seq": 0,
    "name": "market",
    "attributes": ["price", "volume"],
    "graph": {"kind": "G", "k": 1},
    "index": "kd",
    "service": "here",
    "subscriptions": 2,
    "forwarded": {"north": 1},
    "covering_ratio": {"north": 0.5},
    "statistics": {"searches": 3},
    "links": {"north": {**LINK, "state": "up", "queue": 0, "next": 7, "peer": "north:market"}},
}
S1 = {"id": "s1", "box": {"price": [0, None]}, "link": None}
DECIDED = {"forward": True, "covered_by": []}


def ndjson(*lines: Any) -> httpx.Response:
    content = b"".join(json.dumps(line).encode() + b"\n" for line in lines)
    return httpx.Response(200, content=content, headers={"content-type": "application/x-ndjson"})


def test_a_relay_is_put_linked_and_shown() -> None:
    async def story() -> None:
        replies = answer(INFO, 201), answer(INFO), answer(INFO), answer({"items": [INFO], "next": None})
        service = Service(*replies, answer({"seq": 1}))
        async with service.client() as client:
            market = client.relay("market")
            made = await market.put(["price", "volume"], k=1, index="kd")
            assert (made.attributes, made.graph, made.k) == (("price", "volume"), "G", 1)
            assert (made.links["north"].state, made.links["north"].next, made.service) == ("up", 7, "here")
            changes: Any = {"north": {**LINK, "key": "k"}, "south": None}
            assert await market.link(changes) == made
            assert await market.info() == made
            assert [info.name async for info in client.relays()] == ["market"]
            assert await market.delete() == 1
        said = {"attributes": ["price", "volume"], "graph": {"kind": "G", "k": 1}, "index": "kd"}
        assert json.loads(service.requests[0].content) == said
        assert json.loads(service.requests[1].content) == {"links": {"north": {**LINK, "key": "k"}, "south": None}}

    asyncio.run(story())


def test_subscriptions_say_what_was_given_and_nothing_else() -> None:
    async def story() -> None:
        whole = {"seq": 4, **S1, **DECIDED, "forward_unsubscribe": True, "forward_subscribe": ["s2"]}
        service = Service(
            answer({"seq": 2, "results": [{"id": "s1", **DECIDED}]}, 201),
            answer(whole),
            answer(whole),
            answer({"seq": 4, **S1}),
            answer({"seq": 5, "forward_unsubscribe": {"n": True}, "forward_subscribe": {"n": ["s2"]}}),
            answer({"seq": 6, "deleted": 1, "results": [{"id": "s2", **_ended(True)}]}),
        )
        async with service.client() as client:
            market = client.relay("market")
            boxes = await market.subscribe_many([{"id": "s1", "box": {"price": (0, math.inf)}}])
            assert boxes.results == (Routed("s1", True, ()),)
            put = await market.put_subscription("s1", {"price": (0, None)}, ttl=5)
            assert put.routed == Routed("s1", True, (), 4) and put.ended == Ended(True, ("s2",), 4, "s1")
            await market.patch_subscription("s1", box={"price": None, "volume": (1, 2)}, ttl=None)
            assert (await market.subscription("s1")).routed is None
            assert await market.delete_subscription("s1") == Ended({"n": True}, {"n": ("s2",)}, 5)
            assert await market.delete_subscriptions(["s2"]) == (Ended(True, (), None, "s2"),)
        bodies = [json.loads(request.content) for request in service.requests if request.content]
        assert bodies == [
            {"on_error": "refuse", "subscriptions": [{"id": "s1", "box": {"price": [0, None]}}]},
            {"box": {"price": [0, None]}, "ttl": 5},
            {"box": {"price": None, "volume": [1, 2]}, "ttl": None},
            {"ids": ["s2"]},
        ]

    asyncio.run(story())


def _ended(forward: bool) -> dict[str, Any]:
    return {"forward_unsubscribe": forward, "forward_subscribe": []}


def test_a_conversation_goes_in_pieces_each_with_a_key_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rankcast_client.relays.PIECE", 2)

    async def story() -> None:
        service = Service(
            httpx.ReadError("lost"),
            ndjson({"id": "a", "seq": 1, **DECIDED}, {"id": "a", "seq": 2, **_ended(True)}),
            ndjson({"index": 0, "errors": [{"field": "commands[0].id", "reason": "is taken"}]}),
        )
        async with service.client() as client:
            said = [subscribe("a", {"price": (0, 1)}), unsubscribe("a"), subscribe("b")]
            told = [one async for one in client.relay("market").commands(said, on_error="skip")]
        assert told[:2] == [Routed("a", True, (), 1), Ended(True, (), 2, "a")]
        assert isinstance(told[2], Rejected) and told[2].errors[0].field == "commands[0].id"
        first, again, last = service.requests
        assert first.content == again.content
        assert [json.loads(line) for line in first.content.splitlines()] == said[:2]
        keys = [request.headers["Idempotency-Key"] for request in service.requests]
        assert keys[0] == keys[1] != keys[2]
        assert last.url.params["on_error"] == "skip"

    asyncio.run(story())


def test_a_conversation_that_ends_with_a_problem_raises_it() -> None:
    refusal = {"type": "/problems/id-taken", "title": "T", "status": 409, "detail": "D", "errors": []}
    http = httpx.MockTransport(lambda _: ndjson({"id": "a", "seq": 1, **DECIDED}, {"problem": refusal}))
    with Rankcast("http://rankcast.test", retry=QUICK, transport=http) as client, pytest.raises(ProblemError) as raised:
        list(client.relay("market").commands([subscribe("a"), subscribe("a")]))
    assert (raised.value.status, raised.value.slug) == (409, "id-taken")


def test_notifications_say_who_gets_them() -> None:
    told = {"seq": 5, "results": [{"subscriptions": ["s1"], "links": ["north"]}]}
    sent: list[Any] = []

    def reply(request: httpx.Request) -> httpx.Response:
        sent.append(json.loads(request.content))
        return answer(told)

    with Rankcast("http://rankcast.test", retry=QUICK, transport=httpx.MockTransport(reply)) as client:
        found = client.relay("market").notify({"price": 1, "volume": 2}, payload={"a": 1})
    assert (found.subscriptions, found.links) == (("s1",), ("north",))
    event = {"values": {"price": 1, "volume": 2}, "payload": {"a": 1}}
    assert sent == [{"on_error": "refuse", "notifications": [event]}]


def test_a_stream_goes_on_where_it_was() -> None:
    async def story() -> None:
        event = {"seq": 4, "values": {"price": 1}, "payload": None}
        service = Service(
            stream(block("ready", {"seq": 3}, 3), block("notification", event, 4), end="breaks"),
            stream(block("reset", {"seq": 9}, 9), block("ready", {"seq": 9}, 9), block("gone", {"seq": 10}, 10)),
        )
        async with service.client() as client:
            watch = client.relay("market").watch("s1", ready=True)
            told = [one async for one in watch]
        assert told == [Ready(3), Arrived(4, {"price": 1}, None), Missed(9), Ready(9)]
        assert watch.gone
        assert service.requests[1].headers["Last-Event-ID"] == "e:4"

    asyncio.run(story())


def test_what_is_refused_raises() -> None:
    async def story() -> None:
        async with Service(problem(409, "cycle")).client() as client:
            with pytest.raises(ProblemError) as raised:
                await client.relay("market").link({"north": LINK})  # type: ignore[dict-item]
            assert raised.value.slug == "cycle"

    asyncio.run(story())
