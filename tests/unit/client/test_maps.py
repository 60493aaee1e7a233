"""Maps through the client: what is sent, what answers come to, and streams of results."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest

from rankcast_client import (
    Circle,
    MapAttribute,
    MapInfo,
    Missed,
    Moved,
    Place,
    Put,
    Query,
    Rankcast,
    Ready,
    Result,
    Skyline,
    SkylineAnswer,
    Top,
    TopAnswer,
)
from rankcast_client.calls import JSON_ELEMENTS
from rankcast_client.map_models import ResultFollower
from tests.unit.client.service import QUICK, Service, answer, block, stream

INFO = {
    "seq": 0,
    "name": "food",
    "attributes": {"price": "low", "rating": {"order": "high", "range": [0, 5]}},
    "bounds": [0, 0, 100, 100],
    "metric": "euclidean",
    "objects": 3,
    "queries": 1,
}
THING = {"id": "r1", "location": [12.5, 40], "values": {"price": 12, "rating": 4.5}, "created": 0}
NEAR = {**THING, "distance": 2.5, "score": 7.5}
BEST = {"list": [{"rank": 1, **NEAR}], "candidates": [NEAR], "zone": {"center": [10, 40], "radius": 3}}
SQUARE = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]]}
SKY = {"skyline": [{**THING, "distance": 2.5}], "zone": SQUARE}
SCORE: Any = {"kind": "weighted_sum", "weights": {"distance": 1, "price": 0.5}}
TOP = Top(1, SCORE, m=2)
QUERY = {"id": "q1", "kind": "top", "location": [10, 40], "k": 1, "m": 2, "ordered": False, "score": SCORE, "ttl": 60}

PLACE = Place("r1", (12.5, 40), {"price": 12, "rating": 4.5}, 0)
BEST_ONE = Place("r1", (12.5, 40), {"price": 12, "rating": 4.5}, 0, None, 2.5, 7.5)
TOP_ANSWER = TopAnswer(7, (10, 40), (BEST_ONE,), (BEST_ONE,), Circle((10, 40), 3))


def test_a_map_is_put_and_shown() -> None:
    async def story() -> None:
        service = Service(answer(INFO, 201), answer(INFO), answer({"items": [INFO], "next": None}), answer({"seq": 1}))
        async with service.client() as client:
            food = client.map("food")
            made = await food.put({"price": "low", "rating": MapAttribute("high", (0, 5))}, (0, 0, 100, 100))
            attributes = {"price": MapAttribute(), "rating": MapAttribute("high", (0, 5))}
            assert made == MapInfo("food", attributes, (0, 0, 100, 100), "euclidean", 3, 1, 0)
            assert await food.info() == made
            assert [info.name async for info in client.maps()] == ["food"]
            assert await food.delete() == 1
        said = {name: INFO[name] for name in ("attributes", "bounds", "metric")}
        assert json.loads(service.requests[0].content) == said
        assert [one.url.path for one in service.requests] == ["/v1/maps/food"] * 2 + ["/v1/maps", "/v1/maps/food"]

    asyncio.run(story())


def test_objects_say_what_was_given_and_nothing_else() -> None:
    async def story() -> None:
        shown = {"seq": 3, **THING}
        script = [answer({"seq": 2, "applied": 1}, 201), answer(shown, 201), answer(shown), answer(shown)]
        script += [answer({"seq": 4}), answer({"seq": 5, "deleted": 1}), answer({"items": [THING], "next": None})]
        service = Service(*script)
        async with service.client() as client:
            food = client.map("food")
            assert await food.put_objects([{"id": "r1", "location": (12.5, 40), "values": {"price": 12}}]) == Put(2, 1)
            assert await food.put_object("r1", (12.5, 40), {"price": 12}, {"name": "Ramen"}) == PLACE
            await food.patch_object("r1", values={"price": 9})
            await food.patch_object("r1", location=(1, 2), payload=None)
            assert await food.delete_object("r1") == 4
            assert await food.delete_objects(["r1", "b"]) == 1
            assert [one async for one in food.objects()] == [PLACE]
        assert [json.loads(one.content) for one in service.requests if one.content] == [
            {"on_error": "refuse", "objects": [{"id": "r1", "location": [12.5, 40], "values": {"price": 12}}]},
            {"location": [12.5, 40], "values": {"price": 12}, "payload": {"name": "Ramen"}},
            {"values": {"price": 9}},
            {"location": [1, 2], "payload": None},
            {"ids": ["r1", "b"]},
        ]
        assert [(one.method, one.url.path) for one in service.requests[1:6]] == [
            ("PUT", "/v1/maps/food/objects/r1"),
            ("PATCH", "/v1/maps/food/objects/r1"),
            ("PATCH", "/v1/maps/food/objects/r1"),
            ("DELETE", "/v1/maps/food/objects/r1"),
            ("POST", "/v1/maps/food/objects/delete"),
        ]

    asyncio.run(story())


def test_many_objects_go_as_lines_and_columns_as_arrow() -> None:
    async def story() -> None:
        service = Service(answer({"seq": 1, "applied": 1}), answer({"seq": 2, "applied": 1}))
        async with service.client() as client:
            food = client.map("food")
            await food.put_objects([{"id": str(n), "location": (n, 0)} for n in range(JSON_ELEMENTS + 1)])
            await food.put_arrow(b"columns", on_error="skip")
        lines, columns = service.requests
        assert lines.headers["content-type"] == "application/x-ndjson"
        assert json.loads(lines.content.splitlines()[-1]) == {"id": str(JSON_ELEMENTS), "location": [JSON_ELEMENTS, 0]}
        assert columns.headers["content-type"] == "application/vnd.apache.arrow.stream"
        assert (columns.content, dict(columns.url.params)) == (b"columns", {"on_error": "skip"})

    asyncio.run(story())


def test_questions_carry_no_key_and_answers_know_their_place() -> None:
    async def story() -> None:
        script = [answer({"seq": 7, **BEST}), answer({"seq": 7, "results": [BEST, BEST]})]
        script += [answer({"seq": 8, **SKY}), answer({"seq": 8, "results": [{"skyline": [], "zone": None}]})]
        service = Service(*script)
        async with service.client() as client:
            food = client.map("food")
            assert await food.top((10, 40), 1, SCORE, m=2) == TOP_ANSWER
            both = await food.top_many([(10, 40), (11, 40)], 1, SCORE, ordered=True)
            assert [one.location for one in both] == [(10, 40), (11, 40)]
            sky = await food.skyline((10, 40))
            assert (sky.location, sky.zone, [one.id for one in sky.objects]) == ((10, 40), SQUARE, ["r1"])
            assert await food.skyline_many([(1, 1)]) == (SkylineAnswer(8, (1, 1), (), None),)
        assert service.bodies == [
            {"location": [10, 40], "k": 1, "score": SCORE, "m": 2},
            {"locations": [[10, 40], [11, 40]], "k": 1, "score": SCORE, "ordered": True},
            {"location": [10, 40]},
            {"locations": [[1, 1]]},
        ]
        assert not any("idempotency-key" in request.headers for request in service.requests)

    asyncio.run(story())


def test_standing_queries_are_made_changed_and_moved() -> None:
    async def story() -> None:
        shown = {"seq": 7, **QUERY, **BEST}
        script = [answer({"seq": 7, "queries": [{**QUERY, **BEST}]}, 201), answer(shown, 201), answer(shown)]
        script += [answer({"seq": 8, "inside": True}), answer({"seq": 7, "inside": False, **BEST})]
        script += [answer({"seq": 9, "results": [{"id": "q1", "inside": True}, {"id": "q1", "inside": False, **BEST}]})]
        script += [answer({"seq": 9, "inside": False, "zone": BEST["zone"], "replayed": True})]
        script += [answer({"items": [QUERY], "next": None}), answer({"seq": 9}), answer({"seq": 9, "deleted": 2})]
        service = Service(*script)
        async with service.client() as client:
            food = client.map("food")
            found = await food.add_queries([{"id": "q1", "question": TOP, "location": (10, 40), "ttl": 60}], lists=True)
            whole = Query("q1", TOP, (10, 40), 60, 7, TOP_ANSWER)
            assert found.queries == (whole,)
            assert await food.put_query("q1", Skyline(), (10, 40), ttl=60) == whole
            assert await food.patch_query("q1", k=2, ttl=None) == whole
            assert await food.move("q1", (10, 40)) == Moved("q1", 8, True)
            assert await food.move("q1", (10, 40)) == Moved("q1", 7, False, TOP_ANSWER)
            many = await food.move_many([("q1", (10, 40)), ("q1", (11, 40))])
            assert [one.inside for one in many.results] == [True, False]
            assert many.results[1].answer is not None and many.results[1].answer.location == (11, 40)
            assert await food.move("q1", (10, 40)) == Moved("q1", 9, False), "a replayed answer has no lists"
            assert [one async for one in food.queries()] == [Query("q1", TOP, (10, 40), 60)]
            assert await food.delete_query("q1") == 9
            assert await food.delete_queries(["q1", "q2"]) == 2
        assert [json.loads(one.content) for one in service.requests if one.content] == [
            {
                "queries": [
                    {"kind": "top", "location": [10, 40], "k": 1, "score": SCORE, "m": 2, "id": "q1", "ttl": 60}
                ],
                "on_error": "refuse",
                "lists": True,
            },
            {"kind": "skyline", "location": [10, 40], "ttl": 60},
            {"k": 2, "ttl": None},
            {"location": [10, 40]},
            {"location": [10, 40]},
            {
                "moves": [{"id": "q1", "location": [10, 40]}, {"id": "q1", "location": [11, 40]}],
                "on_error": "refuse",
            },
            {"location": [10, 40]},
            {"ids": ["q1", "q2"]},
        ]

    asyncio.run(story())


def test_results_go_on_over_lost_connections() -> None:
    async def story() -> None:
        first = stream(
            block("snapshot", {"seq": 7, "location": [10, 40], **BEST}, 7), block("ready", {"seq": 7}, 7), end="breaks"
        )
        second = stream(
            block("result", {"seq": 9, "location": [10, 40], **BEST}, 9),
            block("odd", {"seq": 9}, 9),
            block("gone", {"seq": 10}, 10),
        )
        service = Service(first, second)
        async with service.client() as client:
            results = client.map("food").results("q1", ready=True)
            told = [event async for event in results]
            assert told[:2] == [Result(7, TOP_ANSWER), Ready(7)] and not any(isinstance(one, Missed) for one in told)
            assert results.answer is not None and results.answer.seq == 9 and results.gone
        assert [one.url.path for one in service.requests] == ["/v1/maps/food/queries/q1/stream"] * 2
        assert service.requests[1].headers["last-event-id"] == "e:7"

    asyncio.run(story())


def test_an_older_answer_replaces_a_newer_one_only_in_a_reset() -> None:
    follower = ResultFollower()
    assert follower.take("ready", {"seq": 1}) is None and not follower.current, "nothing has begun"
    for event, seq, held in (("snapshot", 7, 7), ("result", 9, 9), ("result", 8, 9), ("reset", 3, 3), ("result", 4, 4)):
        assert isinstance(follower.take(event, {"seq": seq, "location": [10, 40], **SKY}), Result)
        assert follower.answer is not None and follower.answer.seq == held
    assert follower.resets == 1
    assert follower.take("ready", {"seq": 4}) is None and follower.current
    assert follower.take("other", {}) is None


def test_both_clients_say_the_same() -> None:
    said: list[tuple[str, str, bytes]] = []

    def heard(request: httpx.Request) -> httpx.Response:
        said.append((request.method, request.url.path, request.read()))
        path, data = request.url.path, {"seq": 1, "deleted": 1, "items": [], "next": None}
        last = path.rsplit("/", 1)[-1]
        if last == "food":
            data |= INFO
        elif last in ("top", "skyline"):
            one = BEST if last == "top" else SKY
            many = json.loads(request.content).get("locations")
            data |= one if many is None else {"results": [one for _ in many]}
        elif last == "r1":
            data |= THING
        elif last == "q1":
            data |= {**QUERY, "inside": True}
        elif last == "moves":
            data |= {"results": []}
        return httpx.Response(200, json=data)

    with Rankcast("http://rankcast.test", transport=httpx.MockTransport(heard), retry=QUICK) as client:
        food = client.map("food")
        food.put({"price": "low"}, (0, 0, 1, 1), metric="manhattan")
        food.info()
        food.put_objects([{"id": "r1"}])
        food.put_arrow(b"x")
        food.put_object("r1", (1, 2))
        food.patch_object("r1", values={"price": 1})
        food.object("r1")
        food.delete_object("r1")
        food.delete_objects(["r1"])
        list(food.objects())
        food.top((1, 2), 1, SCORE)
        food.top_many([(1, 2)], 1, SCORE)
        food.skyline((1, 2))
        food.skyline_many([(1, 2)])
        food.ask(Skyline(), (1, 2))
        food.ask(TOP, (1, 2))
        food.add_queries([{"question": Skyline(), "location": (1, 2)}])
        food.put_query("q1", TOP, (1, 2))
        food.patch_query("q1", m=3)
        food.query("q1")
        food.move("q1", (1, 2))
        food.move_many([])
        list(food.queries())
        food.delete_query("q1")
        food.delete_queries(["q1"])
        food.delete()
    first, said = said, []

    async def story() -> None:
        async with Service(*[heard] * 30).client() as client:
            food = client.map("food")
            await food.put({"price": "low"}, (0, 0, 1, 1), metric="manhattan")
            await food.info()
            await food.put_objects([{"id": "r1"}])
            await food.put_arrow(b"x")
            await food.put_object("r1", (1, 2))
            await food.patch_object("r1", values={"price": 1})
            await food.object("r1")
            await food.delete_object("r1")
            await food.delete_objects(["r1"])
            assert [one async for one in food.objects()] == []
            await food.top((1, 2), 1, SCORE)
            await food.top_many([(1, 2)], 1, SCORE)
            await food.skyline((1, 2))
            await food.skyline_many([(1, 2)])
            await food.ask(Skyline(), (1, 2))
            await food.ask(TOP, (1, 2))
            await food.add_queries([{"question": Skyline(), "location": (1, 2)}])
            await food.put_query("q1", TOP, (1, 2))
            await food.patch_query("q1", m=3)
            await food.query("q1")
            await food.move("q1", (1, 2))
            await food.move_many([])
            assert [one async for one in food.queries()] == []
            await food.delete_query("q1")
            await food.delete_queries(["q1"])
            await food.delete()

    asyncio.run(story())
    assert said == first


@pytest.mark.parametrize("name", ["", "a/b", ".."])
def test_a_name_that_is_none_is_refused_before_anything_is_sent(name: str) -> None:
    with Rankcast("http://127.0.0.1:9") as client, pytest.raises(ValueError, match="is no name"):
        client.map(name)
