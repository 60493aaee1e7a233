"""Matchers through the client: what is sent, what answers come to, and streams of wins over lost connections."""

from __future__ import annotations

import asyncio
import json
import math
from typing import Any

import httpx
import pytest

from rankcast_client import Interest, Missed, NewInterest, ProblemError, Rankcast, Ready, Win, Winner
from rankcast_client.calls import JSON_ELEMENTS
from tests.unit.client.service import QUICK, Service, answer, block, problem, stream

INFO = {
    "seq": 0,
    "name": "ads",
    "dimensions": ["age", "credit"],
    "mode": "relaxed",
    "combine": "sum",
    "index": "auto",
    "subscriptions": 0,
}
A1 = {"id": "a1", "intervals": {"age": [20, None]}, "weights": {"age": 0.7}}
WON = {"seq": 5, "results": [{"winners": [{"id": "a1", "score": 1}]}, {"winners": []}]}


def test_a_matcher_is_put_and_shown() -> None:
    async def story() -> None:
        service = Service(answer(INFO, 201), answer(INFO), answer({"items": [INFO], "next": None}), answer({"seq": 1}))
        async with service.client() as client:
            ads = client.matcher("ads")
            made = await ads.put(["age", "credit"], "relaxed", combine="sum", index="ir")
            assert (made.dimensions, made.mode, made.combine, made.seq) == (("age", "credit"), "relaxed", "sum", 0)
            assert await ads.info() == made
            assert [info.name async for info in client.matchers()] == ["ads"]
            assert await ads.delete() == 1
        said = {"dimensions": ["age", "credit"], "mode": "relaxed", "combine": "sum", "index": "ir"}
        assert json.loads(service.requests[0].content) == said
        paths = [request.url.path for request in service.requests]
        assert paths == ["/v1/matchers/ads", "/v1/matchers/ads", "/v1/matchers", "/v1/matchers/ads"]

    asyncio.run(story())


def test_subscriptions_say_what_was_given_and_nothing_else() -> None:
    async def story() -> None:
        shown = {"seq": 3, **A1}
        service = Service(
            answer({"seq": 2, "subscriptions": [A1]}, 201),
            answer(shown, 201),
            answer(shown),
            answer(shown),
            answer({"seq": 4, "deleted": 1}),
        )
        async with service.client() as client:
            ads = client.matcher("ads")
            interest: NewInterest = {"id": "a1", "intervals": {"age": (20, math.inf)}, "weights": {"age": 0.7}}
            found = await ads.register_many([interest])
            assert found.subscriptions == (Interest("a1", {"age": (20, None)}, {"age": 0.7}, seq=2),)
            assert (await ads.put_subscription("a1", {"age": (20, None)}, weights={"age": 0.7})).seq == 3
            await ads.patch_subscription("a1", intervals={"age": (1, 2), "credit": None}, weights={"age": 2}, ttl=None)
            await ads.patch_subscription("a1", score=3)
            assert await ads.delete_subscriptions(["a1", "b"]) == 1
        assert service.bodies == [
            {"subscriptions": [A1], "on_error": "refuse"},
            {"intervals": {"age": [20, None]}, "weights": {"age": 0.7}},
            {"intervals": {"age": [1, 2], "credit": None}, "weights": {"age": 2}, "ttl": None},
            {"score": 3},
            {"ids": ["a1", "b"]},
        ]

    asyncio.run(story())


def test_a_match_is_a_question_unless_it_notifies() -> None:
    async def story() -> None:
        service = Service(answer(WON), answer(WON), answer({**WON, "replayed": True}))
        async with service.client() as client:
            ads = client.matcher("ads")
            assert await ads.match({"age": 28, "credit": (None, math.inf)}) == (Winner("a1", 1),)
            events = [{"values": {"age": 28}, "payload": {"page": "/"}}, {"values": {"age": None}}]
            found = await ads.match_many(events, k=3, explain=True, on_error="skip")  # type: ignore[arg-type]
            assert [(one.index, one.winners) for one in found.results] == [(0, (Winner("a1", 1),)), (1, ())]
            assert (await ads.match_many(events, notify=True)).replayed  # type: ignore[arg-type]
        assert ["idempotency-key" in request.headers for request in service.requests] == [False, False, True]
        assert service.bodies[0]["events"] == [{"values": {"age": 28, "credit": [None, None]}}]
        assert service.bodies[1] == {"events": events, "k": 3, "explain": True, "notify": False, "on_error": "skip"}

    asyncio.run(story())


def test_many_events_go_as_lines() -> None:
    async def story() -> None:
        service = Service(answer(WON))
        async with service.client() as client:
            await client.matcher("ads").match_many([{"values": {"age": i}} for i in range(JSON_ELEMENTS + 1)], k=1)
        (request,) = service.requests
        assert request.headers["content-type"] == "application/x-ndjson"
        assert dict(request.url.params) == {"k": "1", "explain": "false", "notify": "false", "on_error": "refuse"}
        assert json.loads(request.content.splitlines()[-1]) == {"values": {"age": JSON_ELEMENTS}}

    asyncio.run(story())


def test_what_was_explained_and_skipped_is_told() -> None:
    said = {
        "seq": 1,
        "errors": [{"index": 0, "field": "events[0].values.age", "reason": "must be a number"}],
        "results": [{"index": 1, "winners": [{"id": "a", "score": 2, "matched": {"age": None}}], "looked_at": 7}],
    }
    transport = httpx.MockTransport(lambda _: httpx.Response(200, json=said))
    with Rankcast("http://rankcast.test", transport=transport) as client:
        found = client.matcher("ads").match_many([{"values": {}}, {"values": {}}], explain=True, on_error="skip")
    (result,) = found.results
    assert (result.index, result.looked_at, result.winners) == (1, 7, (Winner("a", 2, {"age": None}),))
    assert [error.field for error in found.errors] == ["events[0].values.age"]


def test_both_clients_say_the_same() -> None:
    said: list[tuple[str, str, bytes]] = []

    def heard(request: httpx.Request) -> httpx.Response:
        said.append((request.method, request.url.path, request.read()))
        path = request.url.path
        data: Any = INFO if path.endswith("/ads") else WON if path.endswith("/match") else {"seq": 1, **A1}
        if path.endswith("/subscriptions"):
            data = {"seq": 1, "subscriptions": [A1], "items": [A1], "next": None}
        return httpx.Response(200, json=data)

    with Rankcast("http://rankcast.test", transport=httpx.MockTransport(heard), retry=QUICK) as client:
        ads = client.matcher("ads")
        ads.put(["age"], "exact")
        ads.info()
        ads.register_many([{"score": 1.5}])
        ads.put_subscription("a1", {"age": (1, 2)}, score=1)
        ads.patch_subscription("a1", score=2)
        ads.subscription("a1")
        assert [one.id for one in ads.subscriptions()] == ["a1"]
        ads.match({"age": 1}, k=2)
        ads.delete_subscription("a1")
        ads.delete()
    first, said = said, []

    async def story() -> None:
        async with Service(*[heard] * 10).client() as client:
            ads = client.matcher("ads")
            await ads.put(["age"], "exact")
            await ads.info()
            await ads.register_many([{"score": 1.5}])
            await ads.put_subscription("a1", {"age": (1, 2)}, score=1)
            await ads.patch_subscription("a1", score=2)
            await ads.subscription("a1")
            assert [one.id async for one in ads.subscriptions()] == ["a1"]
            await ads.match({"age": 1}, k=2)
            await ads.delete_subscription("a1")
            await ads.delete()

    asyncio.run(story())
    assert said == first


def test_names_are_checked_before_anything_is_sent() -> None:
    with Rankcast("http://rankcast.test", transport=httpx.MockTransport(lambda _: httpx.Response(500))) as client:
        for name in ("", "a/b", ".."):
            with pytest.raises(ValueError, match="is no name"):
                client.matcher(name)


# --- wins -------------------------------------------------------------------------------------------------------------


def win(seq: int) -> bytes:
    about = {"values": {"age": [1, None], "pay": 2}, "payload": {"n": seq}, "rank": 1, "score": 0.5}
    return block("win", {"seq": seq, **about}, seq)


def mark(event: str, seq: int) -> bytes:
    return block(event, {"seq": seq}, seq)


def told(seq: int) -> Win:
    return Win(seq, {"age": (1, None), "pay": 2}, {"n": seq}, 1, 0.5)


def test_wins_go_on_over_a_lost_connection() -> None:
    async def story() -> None:
        service = Service(
            stream(mark("ready", 1), win(2), end="breaks"),
            problem(503, "not-ready"),
            stream(b"id: e:4\n\n", win(5), mark("ready", 5), end="silent"),
            stream(mark("reset", 9), mark("ready", 9), win(10), mark("gone", 11)),
        )
        async with service.client() as client:
            wins = client.matcher("ads").wins("mine", ready=True)
            found = [event async for event in wins]
        assert found == [Ready(1), told(2), told(5), Ready(5), Missed(9), Ready(9), told(10)]
        assert (wins.gone, wins.reconnects) == (True, 3)
        paths = {request.url.path for request in service.requests}
        assert paths == {"/v1/matchers/ads/subscriptions/mine/stream"}
        assert [request.headers.get("last-event-id") for request in service.requests] == [None, "e:2", "e:2", "e:5"]
        assert {request.url.params["ready"] for request in service.requests} == {"true"}

    asyncio.run(story())


def test_without_ready_only_news_is_told() -> None:
    async def story() -> None:
        service = Service(stream(mark("ready", 1), block("what", {}, 1), win(2), mark("gone", 3)))
        async with service.client() as client, client.matcher("ads").wins("mine") as wins:
            assert not wins.current
            assert await anext(wins) == told(2)
            assert (wins.current, wins.cursor) == (True, "e:2")
            assert [event async for event in wins] == []

    asyncio.run(story())


def test_a_subscription_that_is_not_there_is_refused_at_first_and_gone_later() -> None:
    async def story() -> None:
        missing = problem(404, "not-found", ("id", "there is no subscription 'mine'"))
        async with Service(missing).client() as client:
            with pytest.raises(ProblemError):
                await anext(client.matcher("ads").wins("mine"))
        async with Service(stream(mark("ready", 1), win(2)), missing).client() as client:
            wins = client.matcher("ads").wins("mine")
            assert [event async for event in wins] == [told(2)]
            assert wins.gone

    asyncio.run(story())
