"""Filters on the payload's indexed fields over HTTP."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from app.cli.load import stream_of
from indexes.boards import filters
from tests.support.app_client import AppClient
from tests.support.service_fixtures import Start

BOARD = "/v1/boards/delays"
CONFIG = {
    "range_attributes": ["distance"],
    "rank": {"attribute": "delay", "order": "desc"},
    "ks": [2, 3],
    "indexed": ["to", "carrier"],
}
FLIGHTS = {
    "a": (100, 30, {"to": "IAH", "carrier": "UA"}),
    "b": (200, 50, {"to": "ORD", "carrier": "UA"}),
    "c": (300, 40, {"to": "IAH", "carrier": "DL"}),
    "d": (400, 20, {"to": 7}),
    "e": (500, 10, None),
}


def upsert(id: str, distance: float, delay: float, payload: Any) -> dict[str, Any]:
    return {"op": "upsert", "id": id, "values": {"distance": distance, "delay": delay}, "payload": payload}


@pytest.fixture
def board(client: AppClient) -> AppClient:
    assert client.put(BOARD, json=CONFIG).status_code == 201
    events = [upsert(id, *flight) for id, flight in FLIGHTS.items()]
    assert client.post(f"{BOARD}/events", json={"events": events}).json()["seq"] == 5
    return client


def ids(answer: Any) -> list[str]:
    return [entry["id"] for entry in answer["list"]]


def fields(response: Any) -> list[str]:
    assert response.status_code == 422, response.text
    return [error["field"] for error in response.json()["errors"]]


def test_a_board_says_its_fields_and_takes_back_what_it_says(client: AppClient) -> None:
    made = client.put(BOARD, json=CONFIG)
    assert (made.status_code, made.json()["indexed"], made.json()["index"]) == (201, ["to", "carrier"], "kd-tree")
    assert client.put(BOARD, json=made.json()).json() == client.get(BOARD).json() == made.json()
    other = client.put(BOARD, json={**CONFIG, "indexed": ["to"]})
    assert (other.status_code, other.json()["errors"][0]["field"]) == (409, "indexed")
    assert client.put("/v1/boards/plain", json={**CONFIG, "indexed": []}).json()["indexed"] == []


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"indexed": ["to", "to"]}, "indexed[1]"),
        ({"indexed": ["a", "b", "c", "d"]}, "indexed"),
        ({"indexed": ["to", "größe"]}, "indexed[1]"),
        ({"indexed": "to"}, "indexed"),
        ({"algorithm": "dense"}, "algorithm"),
        ({"epsilon": 0.5}, "epsilon"),
        ({"sketch": 64}, "sketch"),
        ({"index": "range-tree"}, "index"),
    ],
)
def test_what_a_board_with_fields_cannot_be(client: AppClient, change: Any, field: str) -> None:
    assert fields(client.put(BOARD, json={**CONFIG, **change})) == [field]


def test_no_other_painting_can_be_asked_for_later(board: AppClient) -> None:
    assert fields(board.patch(BOARD, json={"algorithm": "dense", "epsilon": 1, "sketch": 2})) == [
        "algorithm",
        "epsilon",
        "sketch",
    ]


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ("where.to=IAH", ["c", "a"]),
        ('where.to="IAH"', ["c", "a"]),
        ("where.to=IAH&where.carrier=UA", ["a"]),
        ("where.carrier=UA&l=150", ["b"]),
        ("where.to=7", ["d"]),
        ("where.to=7.0", ["d"]),
        ('where.to="7"', []),
        ("where.to=null", []),
        ("where.to=", []),
        ("where.to=IAH&k=1&offset=1", ["a"]),
        ("", ["b", "c", "a"]),
    ],
)
def test_the_best_that_pass_a_filter(board: AppClient, asked: str, wanted: list[str]) -> None:
    assert ids(board.get(f"{BOARD}/top?{asked}").json()) == wanted


def test_questions_that_cannot_be_asked(board: AppClient) -> None:
    assert fields(board.get(f"{BOARD}/top?where.gate=7")) == ["where.gate"]
    assert fields(board.get(f"{BOARD}/top?where.to=[7]")) == ["where.to"]
    assert fields(board.get(f"{BOARD}/top?where.to=1e999")) == ["where.to"]
    assert fields(board.get(f"{BOARD}/top?where.to=7&where.to=8")) == ["where.to"]
    board.put("/v1/boards/plain", json={**CONFIG, "indexed": []})
    assert fields(board.get("/v1/boards/plain/top?where.to=7")) == ["where.to"]


def test_a_subscription_says_its_filter_until_it_is_taken_away(board: AppClient) -> None:
    one = f"{BOARD}/subscriptions/mine"
    made = board.put(one, json={"range": {"distance": [None, 250]}, "k": 2, "where": {"to": "IAH", "carrier": "UA"}})
    assert (made.status_code, ids(made.json())) == (201, ["a"])
    assert made.json()["where"] == {"to": "IAH", "carrier": "UA"}
    assert list(made.json()["list"][0]["values"]) == ["distance", "delay"]
    assert board.get(one).json()["where"] == {"to": "IAH", "carrier": "UA"}
    kept = board.patch(one, json={"range": {"distance": [None, None]}}).json()
    assert (kept["where"], ids(kept)) == ({"to": "IAH", "carrier": "UA"}, ["a"])
    other = board.patch(one, json={"where": {"to": "IAH"}}).json()
    assert (other["where"], ids(other)) == ({"to": "IAH"}, ["c", "a"])
    number = board.patch(one, json={"where": {"to": 7.0}}).json()
    assert (number["where"], ids(number)) == ({"to": 7}, ["d"])
    nothing = board.patch(one, json={"where": {}}).json()
    assert "where" not in nothing and ids(nothing) == ["b", "c"]
    assert "where" not in board.get(one).json()


@pytest.mark.parametrize("kind", ["json", "ndjson", "arrow"])
def test_subscriptions_in_every_form_of_body(board: AppClient, kind: str) -> None:
    wants = [
        {"id": "s1", "k": 2, "where": {"to": "IAH"}},
        {"id": "s2", "k": 2},
        {"id": "s3", "k": 2, "where": {"to": None, "carrier": "UA"}},
        {"id": "s4", "k": 2, "where": {"carrier": "UA"}, "range": {"distance": [150, 250]}},
    ]
    many = f"{BOARD}/subscriptions"
    if kind == "json":
        made = board.post(many, json={"subscriptions": wants, "lists": True})
    elif kind == "ndjson":
        body = "\n".join(map(json.dumps, wants))
        made = board.post(many + "?lists=true", content=body, headers={"content-type": "application/x-ndjson"})
    else:
        table = pa.table(
            {
                "id": ["s1", "s2", "s3", "s4"],
                "k": [2] * 4,
                "distance_min": [None, None, None, 150.0],
                "distance_max": [None, None, None, 250.0],
                "where.to": ['"IAH"', None, "null", None],
                "where.carrier": [None, None, ' "UA"', '"UA"'],
            }
        )
        headers = {"content-type": "application/vnd.apache.arrow.stream"}
        made = board.post(many + "?lists=true", content=stream_of(table.to_batches()[0]), headers=headers)
    assert made.status_code == 201, made.text
    found = made.json()["subscriptions"]
    assert [item.get("where") for item in found] == [want.get("where") for want in wants]
    assert [ids(item) for item in found] == [["c", "a"], ["b", "c"], [], ["b"]]
    listed = board.get(many).json()["items"]
    assert [item.get("where") for item in listed] == [want.get("where") for want in wants]


def test_bad_filters_name_their_field(board: AppClient) -> None:
    many, one = f"{BOARD}/subscriptions", f"{BOARD}/subscriptions/mine"
    assert fields(board.put(one, json={"k": 2, "where": {"to": ["IAH"]}})) == ["where.to"]
    assert fields(board.put(one, json={"k": 2, "where": {"gate": 1}})) == ["where.gate"]
    endless = b'{"subscriptions": [{"k": 2, "where": {"to": "IAH"}}, {"k": 2, "where": {"to": -1e999}}]}'
    json_type = {"content-type": "application/json"}
    assert fields(board.post(many, content=endless, headers=json_type)) == ["subscriptions[1].where.to"]
    assert fields(board.put(one, content=b'{"k": 2, "where": {"to": 1e999}}', headers=json_type)) == ["where.to"]
    assert fields(board.put(one, json={"k": 2, "where": {"to": "x" * 1100}})) == ["where.to"]
    assert fields(board.put(one, json={"k": 2, "where": None})) == ["where"]
    assert fields(board.put(one, json={"k": 2, "disc": {"center": [1, 1], "radius": 1}})) == ["disc"]
    wants = [{"k": 2, "where": {"to": "IAH"}}, {"k": 2, "where": {"carrier": {}}}]
    assert fields(board.post(many, json={"subscriptions": wants})) == ["subscriptions[1].where.carrier"]
    made = board.post(many, json={"subscriptions": wants, "on_error": "skip"}).json()
    assert [item["where"] for item in made["subscriptions"]] == [{"to": "IAH"}]
    assert [error["field"] for error in made["errors"]] == ["subscriptions[1].where.carrier"]
    table = pa.table({"k": [2, 2, 2, 2], "where.to": [None, "IAH", "[1]", "1e999"]})
    headers = {"content-type": "application/vnd.apache.arrow.stream"}
    refused = board.post(many, content=stream_of(table.to_batches()[0]), headers=headers)
    assert fields(refused) == [f"subscriptions[{i}].where.to" for i in (1, 2, 3)]
    unknown = pa.table({"k": [2], "where.gate": ["1"]})
    assert fields(board.post(many, content=stream_of(unknown.to_batches()[0]), headers=headers)) == ["where.gate"]


def test_shapes_are_refused_beside_fields(client: AppClient) -> None:
    client.put("/v1/boards/flats", json={**CONFIG, "range_attributes": ["x", "y"]})
    one = "/v1/boards/flats/subscriptions/mine"
    refused = client.put(one, json={"k": 2, "disc": {"center": [1, 1], "radius": 1}})
    assert fields(refused) == ["disc"]
    assert refused.json()["errors"][0]["reason"] == "a board with indexed fields takes ranges only"
    half = {"half_plane": {"a": [1, 1], "b": 1}, "k": 2}
    many = client.post("/v1/boards/flats/subscriptions", json={"subscriptions": [{"k": 2}, half]})
    assert fields(many) == ["subscriptions[1].half_plane"]


def test_tiles_say_whom_they_reach(board: AppClient) -> None:
    board.put(f"{BOARD}/subscriptions/iah", json={"k": 2, "where": {"to": "IAH"}})
    answer = board.post(f"{BOARD}/events", json={"events": [upsert("z", 100, 99, {"to": "IAH"})]}).json()
    (tile,) = answer["tiles"]
    assert tile["where"] == {"to": {"any": False, "values": ["IAH"]}, "carrier": {"any": True, "values": []}}
    assert {"l_outer", "l_inner", "r_inner", "r_outer"} <= tile.keys() and "box" not in tile
    assert tile["object"]["values"] == {"distance": 100, "delay": 99}
    board.put(f"{BOARD}/subscriptions/all", json={"k": 2})
    moved = board.patch(f"{BOARD}/objects/z", json={"payload": {"to": "ORD"}}).json()["tiles"]
    gone = [tile for tile in moved if tile["object"]["gone"]]
    assert {value for tile in gone for value in tile["where"]["to"]["values"]} == {"IAH"}
    assert all(
        tile["where"]["to"]["values"] == []
        for tile in moved
        if not tile["object"]["gone"] and tile["object"]["id"] == "z"
    )
    assert ids(board.get(f"{BOARD}/subscriptions/iah").json()) == ["c", "a"]


def test_tiles_with_several_range_attributes(client: AppClient) -> None:
    client.put("/v1/boards/flats", json={**CONFIG, "range_attributes": ["x", "y"]})
    client.put("/v1/boards/flats/subscriptions/mine", json={"k": 2, "where": {"to": "IAH"}, "range": {"x": [0, 5]}})
    event = {"op": "upsert", "id": "a", "values": {"x": 1, "y": 2, "delay": 3}, "payload": {"to": "IAH"}}
    (tile,) = client.post("/v1/boards/flats/events", json={"events": [event]}).json()["tiles"]
    assert list(tile["box"]) == ["x", "y"] and tile["where"]["to"] == {"any": False, "values": ["IAH"]}
    assert tile["object"]["values"] == {"x": 1, "y": 2, "delay": 3}


def test_payloads_in_ndjson_and_arrow_are_filtered_by(board: AppClient) -> None:
    line = json.dumps(upsert("n", 1, 98, {"to": "SFO"}))
    board.post(f"{BOARD}/events", content=line, headers={"content-type": "application/x-ndjson"})
    columns = {"op": ["upsert"], "id": ["m"], "distance": [2.0], "delay": [97.0], "payload": ['{"to": "SFO"}']}
    headers = {"content-type": "application/vnd.apache.arrow.stream"}
    board.post(f"{BOARD}/events", content=stream_of(pa.table(columns).to_batches()[0]), headers=headers)
    assert ids(board.get(f"{BOARD}/top?where.to=SFO").json()) == ["n", "m"]


def test_two_values_with_one_code_are_refused(board: AppClient, monkeypatch: pytest.MonkeyPatch) -> None:
    code = filters.code_of
    monkeypatch.setattr(filters, "code_of", lambda text: code('"IAH"' if text == '"HOU"' else text))
    assert fields(board.put(f"{BOARD}/objects/z", json={"values": {}, "payload": {"to": "HOU"}})) == ["payload.to"]
    event = upsert("z", 1, 1, {"carrier": "HOU"})
    assert fields(board.post(f"{BOARD}/events", json={"events": [event]})) == ["events[0].payload.carrier"]
    assert fields(board.put(f"{BOARD}/subscriptions/s", json={"k": 2, "where": {"to": "HOU"}})) == ["where.to"]
    many = board.post(f"{BOARD}/subscriptions", json={"subscriptions": [{"k": 2, "where": {"to": "HOU"}}]})
    assert fields(many) == ["subscriptions[0].where.to"]
    assert ids(board.get(f"{BOARD}/top?where.to=HOU").json()) == []


def test_an_explanation_tells_whom_tiles_reach(board: AppClient) -> None:
    asked = [
        {"id": "iah", "k": 2, "where": {"to": "IAH"}},
        {"id": "all", "k": 2},
        {"id": "far", "k": 2, "range": {"distance": [200, None]}},
    ]
    board.post(f"{BOARD}/subscriptions", json={"subscriptions": asked})
    before = board.get(BOARD).json()
    event = upsert("b", 200, 50, {"to": "IAH", "carrier": "UA"})
    said = board.post(f"{BOARD}/explain", json={"event": event, "algorithm": "sparse", "epsilon": None}).json()
    assert board.get(BOARD).json() == before
    assert (said["seq"], said["kind"], said["affected"]) == (before["seq"], "move", 3)
    assert said["near"] == {"before": None, "after": None}
    assert said["before"]["payload"] == {"to": "ORD", "carrier": "UA"} and said["after"]["payload"] == event["payload"]
    two, three = said["classes"]
    assert (two["k"], three["k"], three["tile_count"], three["before"]) == (2, 3, 0, [])
    assert "shape" not in two and two["calls"].keys() == {"fetches", "nodes", "counts", "searches", "checks"}
    assert {one["where"]["to"]["any"] for one in two["before"]} == {True}
    done = board.post(f"{BOARD}/events", json={"events": [event]}).json()
    gone = [tile for tile in two["tiles"] if tile["object"]["gone"]]
    exposed = [
        {**sides, "object": {**one["object"], "gone": False}} for one in two["exposed"] for sides in one["tiles"]
    ]
    last = [tile for tile in two["tiles"] if not tile["object"]["gone"]]
    told = [{"k": 2, **tile} for tile in (*gone, *exposed, *last)]
    assert told == [{name: tile[name] for name in tile if name != "event"} for tile in done["tiles"]]
    assert {"any": False, "values": ["IAH"]} in [tile["where"]["to"] for tile in last] or any(
        tile["where"]["to"] == {"any": True, "values": ["IAH"]} for tile in last
    )


def test_a_subscription_with_a_filter_says_what_it_costs(board: AppClient) -> None:
    board.put(
        f"{BOARD}/subscriptions/mine", json={"k": 2, "where": {"carrier": "UA"}, "range": {"distance": [150, None]}}
    )
    found = board.get(f"{BOARD}/subscriptions/mine/explain").json()
    assert (found["objects_in_range"], found["list_length"], found["kth"]) == (1, 1, None)
    assert found["share"] == 1 / 5
    board.put(f"{BOARD}/subscriptions/next", json={"k": 1, "offset": 1, "where": {"carrier": "UA"}})
    window = board.get(f"{BOARD}/subscriptions/next/explain").json()
    assert (window["objects_in_range"], window["list_length"], window["kth"], window["offset"]) == (2, 1, 30, 1)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"event": upsert("z", 1, 1, None), "algorithm": "dense"}, "algorithm"),
        ({"event": upsert("z", 1, 1, None), "epsilon": 0.5}, "epsilon"),
        ({"event": {"op": "update", "id": "nobody"}}, "event.id"),
        ({"event": {"op": "upsert", "id": "z", "values": {"delay": 1}}}, "event.values.distance"),
        ({"event": upsert("z", 1, "1", None)}, "event.values.delay"),  # type: ignore[arg-type]
        ({"event": upsert("z", 1, 1, None), "k": 2}, "k"),
    ],
)
def test_what_cannot_be_explained_is_refused_by_its_field(board: AppClient, body: Any, field: str) -> None:
    assert fields(board.post(f"{BOARD}/explain", json=body)) == [field]


def test_an_explanation_is_refused_where_two_values_have_one_code(
    board: AppClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = filters.code_of
    monkeypatch.setattr(filters, "code_of", lambda text: code('"IAH"' if text == '"HOU"' else text))
    refused = board.post(f"{BOARD}/explain", json={"event": upsert("z", 1, 1, {"carrier": "HOU"})})
    assert fields(refused) == ["event.payload.carrier"]


def test_a_retry_gets_the_same_answer(board: AppClient) -> None:
    headers = {"Idempotency-Key": "once"}
    body = {"k": 2, "where": {"to": "IAH"}}
    first = board.put(f"{BOARD}/subscriptions/mine", json=body, headers=headers)
    again = board.put(f"{BOARD}/subscriptions/mine", json=body, headers=headers)
    assert again.json()["replayed"] and again.json()["where"] == first.json()["where"] == {"to": "IAH"}


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_service_comes_back_with_all_of_it(start: Start, snapshot: bool) -> None:
    running = start()
    running.client.put(BOARD, json=CONFIG)
    running.send("delays", "events", {"events": [upsert(id, *flight) for id, flight in FLIGHTS.items()]}, 200)
    asked = [{"id": "mine", "k": 2, "where": {"to": "IAH"}}, {"id": "s2", "k": 2, "where": {"to": 7}, "ttl": 3600}]
    running.send("delays", "subscriptions", {"subscriptions": asked}, 201)
    if snapshot:
        running.done("snapshots")
    running.client.patch(f"{BOARD}/objects/b", json={"payload": {"to": "IAH"}})
    running.client.put(f"{BOARD}/subscriptions/s3", json={"k": 3, "where": {"carrier": "UA"}})
    running.client.patch(f"{BOARD}/subscriptions/s3", json={"where": {"to": "IAH"}})
    running.client.delete(f"{BOARD}/objects/a")
    paths = ("", "/objects", "/subscriptions", "/subscriptions/mine", "/subscriptions/s2", "/top?where.to=IAH")
    before = [running.client.get(BOARD + path).json() for path in paths]
    assert [entry["id"] for entry in before[-1]["list"]] == ["b", "c"]
    running.client.__exit__()
    again = start()
    assert [again.client.get(BOARD + path).json() for path in paths] == before
    assert again.done("verify")["compared"] == 3
    again.board("delays").check()
