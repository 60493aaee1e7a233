"""Requests: what is sent, how refusals are told, and that a retry never applies twice."""

from __future__ import annotations

import asyncio
import json
import math

import httpx
import pytest

from rankcast_client import (
    UNSET,
    Disc,
    HalfPlane,
    ProblemError,
    Rankcast,
    Simplex,
    Unreachable,
    delete,
    update,
    upsert,
)
from rankcast_client.calls import JSON_ELEMENTS
from rankcast_client.errors import FieldError
from rankcast_client.transport import Retry
from tests.unit.client.service import QUICK, Service, answer, listed, problem

APPLIED = {"seq": 7, "applied": 1, "tile_count": 2}


def test_events_say_what_was_given_and_nothing_else() -> None:
    assert upsert("a", {"x": 1}) == {"op": "upsert", "id": "a", "values": {"x": 1}}
    assert upsert("a", {"x": 1}, None) == {"op": "upsert", "id": "a", "values": {"x": 1}, "payload": None}
    assert update("a", payload=None) == {"op": "update", "id": "a", "payload": None}
    assert delete("a") == {"op": "delete", "id": "a"}
    assert repr(UNSET) == "UNSET"


def test_a_write_that_met_503_and_a_lost_answer_is_sent_again_under_one_key() -> None:
    service = Service(problem(503, "busy"), httpx.ReadError("reset"), answer(APPLIED | {"replayed": True}))

    async def run() -> None:
        async with service.client() as client:
            published = await client.board("delays").publish(upsert("a", {"distance": 1, "delay": 2}))
        assert published.seq == 7
        assert published.replayed

    asyncio.run(run())
    keys = {request.headers["Idempotency-Key"] for request in service.requests}
    assert len(service.requests) == 3
    assert len(keys) == 1
    assert len({request.content for request in service.requests}) == 1


def test_different_writes_have_different_keys_and_reads_none() -> None:
    service = Service(answer(APPLIED), answer(APPLIED), answer({"seq": 1, "list": []}))

    async def run() -> None:
        async with service.client() as client:
            board = client.board("delays")
            await board.update("a", {"delay": 1})
            await board.update("a", {"delay": 1})
            await board.top()

    asyncio.run(run())
    first, second, read = (request.headers.get("Idempotency-Key") for request in service.requests)
    assert first
    assert second
    assert first != second
    assert read is None


def test_an_attempt_that_is_still_running_after_its_connection_was_lost_is_waited_for() -> None:
    service = Service(httpx.ReadTimeout(""), problem(409, "in-progress"), answer(APPLIED))
    asyncio.run(service.client().board("b").publish(delete("a")))
    assert len(service.requests) == 3

    refused = Service(problem(409, "id-taken"))
    with pytest.raises(ProblemError, match="409"):
        asyncio.run(refused.client().board("b").register(k=5, id="a"))


def test_refusals_are_not_retried_and_name_field_and_reason() -> None:
    service = Service(problem(422, "invalid", ("events[3].values.delay", "must be finite")))
    with pytest.raises(ProblemError) as caught:
        asyncio.run(service.client().board("b").publish_many([delete("a")]))
    assert len(service.requests) == 1
    assert caught.value.status == 422
    assert caught.value.type == "/problems/invalid"
    assert caught.value.errors == (FieldError("events[3].values.delay", "must be finite", 3),)
    assert "events[3].values.delay: must be finite" in str(caught.value)


def test_a_refusal_that_is_not_json_is_a_problem_too() -> None:
    service = Service(httpx.Response(418, text="<html>teapot</html>"))
    with pytest.raises(ProblemError) as caught:
        asyncio.run(service.client().board("b").info())
    assert caught.value.type == "about:blank"
    assert caught.value.status == 418
    assert "teapot" in str(caught.value)


def test_after_all_attempts_the_last_reason_is_told_with_the_key_to_try_again() -> None:
    service = Service(*[httpx.ConnectError("refused")] * 4)
    with pytest.raises(Unreachable, match="refused") as caught:
        asyncio.run(service.client().board("b").publish(delete("a"), idempotency_key="mine"))
    assert caught.value.idempotency_key == "mine"
    assert {request.headers["Idempotency-Key"] for request in service.requests} == {"mine"}

    busy = Service(*[problem(503, "busy")] * 4)
    with pytest.raises(ProblemError, match="503"):
        asyncio.run(busy.client().board("b").info())


def test_pauses_double_up_to_the_most_are_jittered_and_heed_retry_after() -> None:
    retry = Retry(first=0.1, most=1.0)
    assert all(0.05 <= retry.pause(1) <= 0.1 for _ in range(50))
    assert all(0.1 <= retry.pause(2) <= 0.2 for _ in range(50))
    assert all(0.5 <= retry.pause(40) <= 1.0 for _ in range(50))
    assert retry.pause(1, retry_after=3) == 3
    assert retry.pause(1, retry_after=1e6) == 30


def test_many_events_go_as_lines_with_the_other_fields_as_parameters() -> None:
    service = Service(answer(APPLIED), answer(APPLIED))
    events = [upsert(f"a{i}", {"distance": i, "delay": -i}) for i in range(JSON_ELEMENTS + 1)]

    async def run() -> None:
        async with service.client() as client:
            await client.board("b").publish_many(events[:-1], messages="none")
            await client.board("b").publish_many(events, messages="none", on_error="skip", mode="batch")

    asyncio.run(run())
    few, many = service.requests
    assert few.headers["content-type"] == "application/json"
    assert json.loads(few.content)["messages"] == "none"
    assert many.headers["content-type"] == "application/x-ndjson"
    assert dict(many.url.params) == {"mode": "batch", "messages": "none", "on_error": "skip"}
    assert [json.loads(line) for line in many.content.splitlines()] == events


def test_ranges_are_given_as_a_pair_or_by_attribute_and_open_ends_are_null() -> None:
    config = {
        "seq": 1,
        "range_attributes": ["distance"],
        "rank": {"attribute": "delay", "order": "desc"},
        "ks": [5],
        "algorithm": "sparse",
        "epsilon": None,
    }
    made = {"seq": 4, "subscriptions": [{"id": "m", "range": {"distance": [500, None]}, "k": 5, "list": listed()}]}
    service = Service(answer(config), answer(made, 201), answer(made, 201))

    async def run() -> None:
        async with service.client() as client:
            board = client.board("delays")
            mine = await board.register((500, math.inf), k=5, ttl=60)
            assert mine.range == {"distance": (500, None)}
            assert mine.list == ()
            assert mine.seq == 4
            await board.register({"distance": (None, 3)}, k=5)

    asyncio.run(run())
    sent = [json.loads(request.content)["subscriptions"] for request in service.requests[1:]]
    assert sent == [
        [{"k": 5, "range": {"distance": [500, None]}, "ttl": 60}],
        [{"k": 5, "range": {"distance": [None, 3]}}],
    ]


def test_lists_are_fetched_page_by_page() -> None:
    pages = [
        {"items": [{"id": "a", "values": {"x": 1, "y": 2}, "created": 0}], "next": "c1"},
        {"items": [{"id": "b", "values": {"x": 1, "y": 2}, "created": 1, "payload": [1]}], "next": None},
    ]
    service = Service(*map(answer, pages))

    async def run() -> None:
        async with service.client() as client:
            found = [entry async for entry in client.board("b").objects()]
        assert [(entry.id, entry.payload) for entry in found] == [("a", None), ("b", [1])]

    asyncio.run(run())
    assert [request.url.params.get("cursor") for request in service.requests] == [None, "c1"]


def test_top_asks_with_the_ends_that_are_bounded() -> None:
    service = Service(*[answer({"seq": 1, "list": listed(("a", 9), ("b", 8))})] * 3)

    async def run() -> None:
        async with service.client() as client:
            best = await client.board("b").top(-500.5, math.inf, 2)
            assert [entry.id for entry in best] == ["a", "b"]
            await client.board("b").top({"x": 1, "y": None}, {"y": 1e30})
            await client.board("b").top(k=5, offset=10)

    asyncio.run(run())
    assert dict(service.requests[0].url.params) == {"l": "-500.5", "k": "2"}
    assert dict(service.requests[1].url.params) == {"l.x": "1", "r.y": "1e+30"}
    assert dict(service.requests[2].url.params) == {"k": "5", "offset": "10"}


def test_an_offset_is_asked_for_where_there_is_one() -> None:
    shown = {"id": "s", "range": {}, "k": 5}
    made = answer({"seq": 1, "subscriptions": [{**shown, "offset": 10, "list": []}]})
    one = answer({"seq": 2, **shown, "offset": 10, "list": []})
    service = Service(made, made, one, one, one, answer({"seq": 2, **shown, "list": []}))

    async def run() -> None:
        async with service.client() as client:
            board = client.board("b")
            assert (await board.register(k=5, offset=10)).offset == 10
            await board.register_many([{"k": 5, "offset": 10}])
            assert (await board.put_subscription("s", {}, k=5, offset=10)).offset == 10
            await board.patch_subscription("s", offset=0)
            await board.patch_subscription("s", k=5)
            assert (await board.put_subscription("s", {}, k=5)).offset == 0

    asyncio.run(run())
    sent = [body["subscriptions"][0] if "subscriptions" in body else body for body in service.bodies]
    assert [body.get("offset") for body in sent] == [10, 10, 10, 0, None, None]


def test_the_key_goes_with_every_request() -> None:
    service = Service(answer({"seq": 1, "list": []}))
    asyncio.run(service.client("secret").board("b").top())
    assert service.requests[0].headers["Authorization"] == "Bearer secret"


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a b", "ä", "x" * 129])
def test_what_cannot_be_a_name_never_becomes_a_path(name: str) -> None:
    client = Service().client()
    with pytest.raises(ValueError, match="no name"):
        client.board(name)
    with pytest.raises(ValueError, match="no name"):
        asyncio.run(client.board("b").object(name))


def test_numbers_that_json_lacks_are_refused_before_they_are_sent() -> None:
    service = Service()
    with pytest.raises(ValueError, match="JSON"):
        asyncio.run(service.client().board("b").upsert("a", {"x": math.nan}))
    assert not service.requests


def test_the_synchronous_client_retries_under_one_key_as_well() -> None:
    seen: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        if len(seen) == 1:
            raise httpx.ConnectError("refused")
        return problem(503, "busy") if len(seen) == 2 else answer(APPLIED)

    with Rankcast("http://rankcast.test", retry=QUICK, transport=httpx.MockTransport(handle)) as client:
        assert client.board("delays").publish(upsert("a", {"distance": 1, "delay": 2})).applied == 1
    assert len(seen) == 3
    assert len({request.headers["Idempotency-Key"] for request in seen}) == 1


SIDES = {"l_outer": None, "l_inner": 4, "r_inner": 4, "r_outer": 9.5}
EXPLAINED = {
    "seq": 7,
    "kind": "move",
    "before": listed(("a", 3))[0],
    "after": listed(("a", 5))[0],
    "near": {"before": {"west": [2], "east": []}, "after": {"west": [], "east": [8, 9]}},
    "classes": [
        {
            "k": 2,
            "before": [SIDES],
            "after": [],
            "tiles": [
                {"k": 2, **SIDES, "object": {**listed(("a", 3))[0], "gone": True}},
                {"k": 2, **SIDES, "object": {**listed(("a", 5))[0], "gone": False}},
            ],
            "exposed": [{"object": listed(("b", 1))[0], "tiles": [SIDES, SIDES], "reached": 3}],
            "tile_count": 4,
            "reached": 4,
            "calls": {"first_k": 2, "min_y": 1, "snaps": 4, "merges": 0, "refreshes": 0},
        }
    ],
    "tile_count": 4,
    "affected": 4,
}


def test_an_explanation_is_asked_for_without_a_key_and_tells_its_tiles_in_order() -> None:
    service = Service(problem(503, "busy"), answer(EXPLAINED), answer(EXPLAINED | {"before": None, "truncated": True}))

    async def run() -> None:
        async with service.client() as client:
            board = client.board("delays")
            said = await board.explain(update("a", {"delay": 5}))
            cut = await board.explain(delete("a"), algorithm="dense", epsilon=None)
        assert [(tile.object.id, tile.gone, tile.k) for tile in said.tiles] == [
            ("a", True, 2),
            ("b", False, 2),
            ("b", False, 2),
            ("a", False, 2),
        ]
        assert said.tiles[1].reaches((4, 9)) and not said.tiles[1].reaches((4, 9.5))
        assert (said.kind, said.affected, said.truncated, cut.truncated) == ("move", 4, False, True)
        assert said.near_before is not None and said.near_before.west == (2,)
        assert cut.before is None and cut.near_before is None and cut.near_after is not None
        assert said.classes[0].exposed[0].reached == 3 and said.classes[0].calls["first_k"] == 2

    asyncio.run(run())
    assert service.bodies[1:] == [
        {"event": {"op": "update", "id": "a", "values": {"delay": 5}}},
        {"event": {"op": "delete", "id": "a"}, "algorithm": "dense", "epsilon": None},
    ]
    assert {request.url.path for request in service.requests} == {"/v1/boards/delays/explain"}
    assert not any("Idempotency-Key" in request.headers for request in service.requests)


def test_what_a_subscription_costs_is_read_whole() -> None:
    cost = {
        "seq": 9, "id": "mine", "k": 5, "objects_in_range": 8, "list_length": 5, "kth": None, "share": 0.25,
        "live": True, "streams": 2, "kept": 1, "changes": 3, "bytes": 900, "later": "more",
    }  # fmt: skip
    service = Service(answer(cost))

    async def run() -> None:
        async with service.client() as client:
            found = await client.board("delays").explain_subscription("mine")
        assert {name: getattr(found, name) for name in cost if name != "later"} == {
            name: value for name, value in cost.items() if name != "later"
        }

    asyncio.run(run())
    assert service.requests[0].url.path == "/v1/boards/delays/subscriptions/mine/explain"


def test_a_shape_stands_where_a_range_does() -> None:
    disc = {"id": "d", "disc": {"center": [1, 2], "radius": 3}, "k": 5, "list": listed()}
    half = {"id": "h", "half_plane": {"a": [1, 0], "b": 3}, "k": 5, "seq": 5, "list": listed()}
    three = {"id": "t", "simplex": {"points": [[0, 0], [1, 0], [0, 1]]}, "k": 5, "seq": 6, "list": listed()}
    service = Service(answer({"seq": 4, "subscriptions": [disc]}, 201), answer(half, 201), answer(three))

    async def run() -> None:
        async with service.client() as client:
            board = client.board("flats")
            made = await board.register(Disc((1, 2), 3), k=5)
            assert (made.shape, made.region, made.range) == (Disc((1, 2), 3), Disc((1, 2), 3), {})
            assert (await board.put_subscription("h", HalfPlane((1, 0), 3), k=5)).region == HalfPlane((1, 0), 3)
            patched = await board.patch_subscription("t", Disc(radius=4))
            assert patched.shape == Simplex(((0, 0), (1, 0), (0, 1)))

    asyncio.run(run())
    assert [json.loads(request.content) for request in service.requests] == [
        {"subscriptions": [{"k": 5, "disc": {"center": [1, 2], "radius": 3}}], "on_error": "refuse", "lists": True},
        {"half_plane": {"a": [1, 0], "b": 3}, "k": 5},
        {"disc": {"radius": 4}},
    ]


def test_a_board_is_configured_with_what_is_given_alone() -> None:
    config = {"seq": 1, "range_attributes": ["x"], "rank": {"attribute": "y", "order": "asc"}, "ks": [5]}
    shown = {**config, "algorithm": "sparse", "epsilon": 0.5, "sketch": 64}
    service = Service(answer(shown, 201), answer(shown), answer(shown))

    async def run() -> None:
        async with service.client() as client:
            board = client.board("b")
            made = await board.put(["x"], "y", ks=[5], epsilon=0.5, sketch=64)
            assert made.epsilon == 0.5
            await board.patch(sketch=None)
            await board.patch(epsilon=None, algorithm="dense")

    asyncio.run(run())
    rank = {"attribute": "y", "order": "asc"}
    assert service.bodies == [
        {"range_attributes": ["x"], "rank": rank, "ks": [5], "epsilon": 0.5, "sketch": 64},
        {"sketch": None},
        {"epsilon": None, "algorithm": "dense"},
    ]
