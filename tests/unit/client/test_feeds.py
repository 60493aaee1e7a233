"""Feeds through the client: what is sent, what answers come to, and live lists over lost connections."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from rankcast_client import (
    ChangedPost,
    FeedChange,
    FeedInfo,
    FeedPost,
    FeedReset,
    FeedSnapshot,
    FeedSubscription,
    PostReached,
    ProblemError,
    Rankcast,
    Ready,
)
from rankcast_client.calls import JSON_ELEMENTS
from tests.unit.client.service import QUICK, Service, answer, block, problem, stream

INFO = {
    "seq": 0,
    "name": "city",
    "window": 100,
    "bounds": [0, 0, 10, 10],
    "weighting": "given",
    "buffer": "cost",
    "stop_words": None,
    "posts": 3,
    "subscriptions": 2,
}
P1 = {"id": "p1", "location": [1, 2], "keywords": ["ramen", "ramen"], "payload": {"n": 1}}
U1 = {"id": "u1", "keywords": {"ramen": 2.0}, "location": [3, 4], "k": 2, "alpha": 0.25}
POSTED = {"seq": 5, "results": [{"id": "p1", "reached": 12}]}


def shown(id: str, score: float, rank: int | None = None) -> dict[str, Any]:
    entry = {"id": id, "score": score, "location": [1, 2], "keywords": ["ramen"]}
    return entry if rank is None else {"rank": rank, **entry}


def entry(id: str, score: float) -> FeedPost:
    return FeedPost(id, (1, 2), ("ramen",), None, score)


def test_a_feed_is_put_and_shown() -> None:
    async def story() -> None:
        timed = {**INFO, "window": {"seconds": 60}, "stop_words": ["the"]}
        service = Service(answer(INFO, 201), answer(timed), answer({"items": [INFO], "next": None}), answer({"seq": 1}))
        async with service.client() as client:
            city = client.feed("city")
            made = await city.put([0, 0, 10, 10], window=100, weighting="given")
            assert made == FeedInfo("city", 100, None, (0, 0, 10, 10), "given", "cost", None, 3, 2, 0)
            found = await city.put((0, 0, 10, 10), seconds=60, buffer="kmax", stop_words=["the"])
            assert (found.window, found.seconds, found.stop_words) == (None, 60, ("the",))
            assert [info.name async for info in client.feeds()] == ["city"]
            assert await city.delete() == 1
            for given in ({}, {"window": 1, "seconds": 1.0}):
                with pytest.raises(ValueError, match="give one of the two"):
                    await city.put([0, 0, 1, 1], **given)  # type: ignore[arg-type]
        assert [json.loads(request.content) for request in service.requests[:2]] == [
            {"window": 100, "bounds": [0, 0, 10, 10], "weighting": "given"},
            {"window": {"seconds": 60}, "bounds": [0, 0, 10, 10], "buffer": "kmax", "stop_words": ["the"]},
        ]
        assert [request.url.path for request in service.requests] == ["/v1/feeds/city"] * 2 + [
            "/v1/feeds",
            "/v1/feeds/city",
        ]

    asyncio.run(story())


def test_posts_say_what_was_given_and_nothing_else() -> None:
    async def story() -> None:
        skipped = {
            "seq": 7,
            "results": [{"index": 1, "id": "b", "reached": 0}],
            "errors": [{"index": 0, "field": "posts[0].id", "reason": "is taken"}],
            "replayed": True,
        }
        service = Service(answer(POSTED, 201), answer(skipped, 201), answer({"seq": 7, **P1}), answer({"seq": 8}))
        async with service.client() as client:
            city = client.feed("city")
            made = await city.post((1, 2), ("ramen", "ramen"), id="p1", payload={"n": 1}, idempotency_key="mine")
            assert made == PostReached(0, "p1", 12)
            found = await city.post_many(
                [{"text": "the ramen", "location": (1, 2)}, {"keywords": {"a": 2}, "location": (0, 0)}], on_error="skip"
            )
            assert (found.results, found.replayed) == ((PostReached(1, "b", 0),), True)
            assert [(error.index, error.field) for error in found.errors] == [(0, "posts[0].id")]
            assert await city.get_post("p1") == FeedPost("p1", (1, 2), ("ramen", "ramen"), {"n": 1})
            assert await city.withdraw("p1") == 8
        assert [json.loads(request.content) for request in service.requests[:2]] == [
            {"on_error": "refuse", "posts": [P1]},
            {
                "on_error": "skip",
                "posts": [{"text": "the ramen", "location": [1, 2]}, {"keywords": {"a": 2}, "location": [0, 0]}],
            },
        ]
        assert service.requests[0].headers["idempotency-key"] == "mine"
        assert [(request.method, request.url.path) for request in service.requests[2:]] == [
            ("GET", "/v1/feeds/city/posts/p1"),
            ("DELETE", "/v1/feeds/city/posts/p1"),
        ]

    asyncio.run(story())


def test_many_posts_go_as_lines() -> None:
    async def story() -> None:
        service = Service(answer(POSTED, 201))
        async with service.client() as client:
            some: Any = [{"keywords": [str(i)], "location": (i, 0)} for i in range(JSON_ELEMENTS + 1)]
            await client.feed("city").post_many(some, on_error="skip")
        (request,) = service.requests
        assert request.headers["content-type"] == "application/x-ndjson"
        assert dict(request.url.params) == {"on_error": "skip"}
        last = json.loads(request.content.splitlines()[-1])
        assert last == {"keywords": [str(JSON_ELEMENTS)], "location": [JSON_ELEMENTS, 0]}

    asyncio.run(story())


def test_letters_are_not_taken_for_keywords() -> None:
    with Rankcast("http://rankcast.test", transport=httpx.MockTransport(lambda _: httpx.Response(500))) as client:
        with pytest.raises(ValueError, match="give what is to be read as text"):
            client.feed("city").post((0, 0), "ramen")
        for name in ("", "a/b", ".."):
            with pytest.raises(ValueError, match="is no name"):
                client.feed(name)


def test_a_refusal_names_the_field() -> None:
    async def story() -> None:
        service = Service(problem(409, "taken", ("posts[0].id", "is taken")))
        async with service.client() as client:
            with pytest.raises(ProblemError) as refused:
                await client.feed("city").post((0, 0), ["a"], id="p1")
        assert (refused.value.status, refused.value.slug) == (409, "taken")
        assert [(error.index, error.field) for error in refused.value.errors] == [(0, "posts[0].id")]

    asyncio.run(story())


def test_both_clients_say_the_same() -> None:
    said: list[tuple[str, str, bytes, bytes]] = []

    def heard(request: httpx.Request) -> httpx.Response:
        said.append((request.method, request.url.path, request.url.query, request.read()))
        path = request.url.path
        data: Any = INFO if path.endswith("/city") else {"seq": 1, **U1, "list": [shown("p1", 1.0, 1)]}
        if path.endswith("/posts"):
            data = POSTED if request.method == "POST" else {"items": [P1], "next": None}
        elif "/posts/" in path:
            data = {"seq": 1, **P1}
        elif path.endswith("/subscriptions"):
            data = {"seq": 1, "subscriptions": [U1], "items": [U1], "next": None}
        elif path.endswith("/delete"):
            data = {"seq": 1, "deleted": 2}
        return httpx.Response(200, json=data)

    wanted = FeedSubscription("u1", {"ramen": 2.0}, (3, 4), 2, 0.25, None, 1, (entry("p1", 1.0),))
    with Rankcast("http://rankcast.test", transport=httpx.MockTransport(heard), retry=QUICK) as client:
        city = client.feed("city")
        city.put([0, 0, 1, 1], window=1)
        city.info()
        city.post((1, 2), text="ramen", id="p1")
        city.post_arrow(b"posts", on_error="skip")
        city.get_post("p1")
        assert [one.id for one in city.posts()] == ["p1"]
        city.withdraw("p1")
        assert city.register((3, 4), {"ramen": 2}, k=2, alpha=0.25, ttl=9).id == "u1"
        city.register_arrow(b"wants")
        city.put_subscription("u1", (3, 4), ["ramen"], k=2)
        city.patch_subscription("u1", alpha=0.0, ttl=None)
        assert city.subscription("u1") == wanted
        assert [one.list for one in city.subscriptions()] == [None]
        assert city.delete_subscriptions(["u1", "u2"]) == 2
        city.delete_subscription("u1")
        city.delete()
    first, said = said, []

    async def story() -> None:
        async with Service(*[heard] * 16).client() as client:
            city = client.feed("city")
            await city.put([0, 0, 1, 1], window=1)
            await city.info()
            await city.post((1, 2), text="ramen", id="p1")
            await city.post_arrow(b"posts", on_error="skip")
            await city.get_post("p1")
            assert [one.id async for one in city.posts()] == ["p1"]
            await city.withdraw("p1")
            assert (await city.register((3, 4), {"ramen": 2}, k=2, alpha=0.25, ttl=9)).id == "u1"
            await city.register_arrow(b"wants")
            await city.put_subscription("u1", (3, 4), ["ramen"], k=2)
            await city.patch_subscription("u1", alpha=0.0, ttl=None)
            assert await city.subscription("u1") == wanted
            assert [one.list async for one in city.subscriptions()] == [None]
            assert await city.delete_subscriptions(["u1", "u2"]) == 2
            await city.delete_subscription("u1")
            await city.delete()

    asyncio.run(story())
    assert said == first
    bodies = [json.loads(body) for method, path, _, body in first if method in ("PUT", "PATCH") and "/sub" in path]
    assert bodies == [{"keywords": ["ramen"], "location": [3, 4], "k": 2}, {"alpha": 0.0, "ttl": None}]
    want = {"location": [3, 4], "keywords": {"ramen": 2}, "k": 2, "alpha": 0.25, "ttl": 9}
    assert json.loads(first[7][3]) == {"on_error": "refuse", "lists": True, "subscriptions": [want]}


# --- live lists -------------------------------------------------------------------------------------------------------


def listed(seq: int, *members: tuple[str, float], event: str = "snapshot") -> bytes:
    found = [shown(id, score, rank) for rank, (id, score) in enumerate(members, 1)]
    return block(event, {"seq": seq, "list": found}, seq)


def changed(seq: int, *changes: dict[str, Any]) -> bytes:
    return block("change", {"seq": seq, "changes": list(changes)}, seq)


def enters(id: str, score: float, new: int, old: int | None = None) -> dict[str, Any]:
    return {"old_rank": old, "new_rank": new, **shown(id, score)}


def leaves(id: str, old: int) -> dict[str, Any]:
    return {"id": id, "old_rank": old, "new_rank": None}


def test_a_live_list_goes_on_over_a_lost_connection() -> None:
    async def story() -> None:
        service = Service(
            stream(listed(1, ("a", 0.9), ("b", 0.5)), block("ready", {"seq": 1}, 1), end="breaks"),
            problem(503, "not-ready"),
            stream(changed(2, enters("c", 0.7, 2), leaves("b", 2)), b"id: e:4\n\n", end="silent"),
            stream(listed(9, ("d", 0.1), event="reset"), block("gone", {"seq": 10}, 10)),
        )
        async with service.client() as client:
            watch, found, lists = client.feed("city").watch("u1", ready=True), [], []
            async for event in watch:
                found.append(event)
                lists.append([one.id for one in watch.list])
        entered, left = ChangedPost("c", None, 2, entry("c", 0.7)), ChangedPost("b", 2, None, None)
        assert found == [
            FeedSnapshot(1, (entry("a", 0.9), entry("b", 0.5))),
            Ready(1),
            FeedChange(2, (entered, left)),
            FeedReset(9, (entry("d", 0.1),)),
        ]
        assert lists == [["a", "b"], ["a", "b"], ["a", "c"], ["d"]]
        assert (watch.gone, watch.seq, watch.reconnects) == (True, 9, 3)
        assert {request.url.path for request in service.requests} == {"/v1/feeds/city/subscriptions/u1/stream"}
        assert [request.headers.get("last-event-id") for request in service.requests] == [None, "e:1", "e:1", "e:4"]

    asyncio.run(story())


def test_new_scores_reorder_a_list() -> None:
    async def story() -> None:
        service = Service(
            stream(
                block("change", {"seq": 0, "changes": []}, 0),
                listed(1, ("a", 0.9), ("b", 0.5), ("c", 0.4)),
                changed(64, enters("c", 0.8, 1, 3), enters("a", 0.6, 2, 1)),
                block("what", {}, 64),
                block("gone", {"seq": 65}, 65),
            )
        )
        async with service.client() as client, client.feed("city").watch("u1") as watch:
            assert isinstance(await anext(watch), FeedSnapshot)
            change = await anext(watch)
            assert isinstance(change, FeedChange)
            assert [(one.id, one.score) for one in watch.list] == [("c", 0.8), ("a", 0.6), ("b", 0.5)]
            assert [event async for event in watch] == []

    asyncio.run(story())


def test_a_change_that_does_not_fit_is_said() -> None:
    async def story() -> None:
        service = Service(stream(listed(1, ("a", 0.9)), changed(2, enters("c", 0.1, 5))))
        async with service.client() as client, client.feed("city").watch("u1") as watch:
            await anext(watch)
            with pytest.raises(ValueError, match="c is to be at rank 5"):
                await anext(watch)

    asyncio.run(story())
