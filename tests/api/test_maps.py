"""Maps over the application: every route, what it answers, and what each refusal names."""

import asyncio
import json
import math
import shutil
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pyarrow as pa
import pytest
from starlette.requests import Request

from app.api import subscriptions
from app.api.maps.context import MapContext
from app.api.maps.parsing import questions as parsing
from app.api.maps.routes import moves as map_moves
from app.api.maps.routes import questions as route
from app.main import create_app
from app.rendering.maps import MapJson
from app.settings import Settings
from indexes.maps.engine import MapEngine
from indexes.maps.results import Answer, QueryView
from tests.oracles.map_service import MapModel
from tests.oracles.service import covers
from tests.support.app_client import AppClient
from tests.support.service_fixtures import MakeClient

FOOD = "/v1/maps/food"
CONFIG: dict[str, Any] = {
    "attributes": {"price": "low", "rating": {"order": "high", "range": [0, 5]}},
    "bounds": [0, 0, 100, 100],
    "metric": "euclidean",
}
R1: dict[str, Any] = {
    "id": "r1",
    "location": [12.5, 40.5],
    "values": {"price": 12, "rating": 4.5},
    "payload": {"name": "Ada's"},
}
R2: dict[str, Any] = {"id": "r2", "location": [20, 30], "values": {"price": 8, "rating": 3}}
R3: dict[str, Any] = {"id": "r3", "location": [60, 60], "values": {"price": 30, "rating": 2}}
SUM: dict[str, Any] = {"kind": "weighted_sum", "weights": {"price": 0.25, "rating": 0.25, "distance": 0.5}}
TOP: dict[str, Any] = {"kind": "top", "location": [10, 10], "k": 2, "m": 2, "score": SUM}
SKY: dict[str, Any] = {"kind": "skyline", "location": [10, 10]}
NDJSON, ARROW = "application/x-ndjson", "application/vnd.apache.arrow.stream"


def fields(answer: httpx.Response) -> list[str]:
    return [error["field"] for error in answer.json()["errors"]]


def stream_of(columns: dict[str, Any], rows: int | None = None) -> bytes:
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    return bytes(sink.getvalue())


def lines_of(items: list[Any]) -> bytes:
    return "\n".join(json.dumps(item) for item in items).encode()


def ids(entries: list[dict[str, Any]]) -> list[str]:
    return [entry["id"] for entry in entries]


@pytest.fixture
def food(client: AppClient) -> AppClient:
    """A service with a map of three objects; its seq is 3."""
    assert client.put(FOOD, json=CONFIG).status_code == 201
    assert client.post(f"{FOOD}/objects", json={"objects": [R1, R2, R3]}).json() == {"seq": 3, "applied": 3}
    return client


@pytest.fixture
def standing(food: AppClient) -> AppClient:
    """The same with a standing top-k, `t`, and a skyline, `s`; its seq is 5."""
    assert food.put(f"{FOOD}/queries/t", json=TOP).status_code == 201
    assert food.put(f"{FOOD}/queries/s", json=SKY).status_code == 201
    return food


def model(*objects: dict[str, Any]) -> MapModel:
    found = MapModel(CONFIG)
    found.put(*objects)
    return found


# --- maps -------------------------------------------------------------------------------------------------------------


def test_a_map_is_made_shown_listed_and_put_again(client: AppClient) -> None:
    shown = {"seq": 0, "name": "food", **CONFIG, "objects": 0, "queries": 0}
    made = client.put(FOOD, json={key: CONFIG[key] for key in ("attributes", "bounds")})
    assert (made.status_code, made.json()) == (201, shown)
    assert type(made.json()["bounds"][2]) is int
    assert client.get(FOOD).json() == shown
    again = client.put(FOOD, json=shown)
    assert (again.status_code, again.json()) == (200, shown)
    assert client.put("/v1/maps/plain", json={"attributes": {}, "bounds": [-1, -1, 1, 1]}).status_code == 201
    listed = client.get("/v1/maps").json()
    assert ids([{"id": item["name"]} for item in listed["items"]]) == ["food", "plain"]
    assert "seq" not in listed["items"][0]
    assert ids([{"id": item["name"]} for item in client.get("/v1/maps?limit=1").json()["items"]]) == ["food"]


def test_an_attribute_is_spelled_short_or_whole(client: AppClient) -> None:
    whole = {"price": {"order": "low", "range": None}, "rating": {"order": "high", "range": [0, 5]}}
    made = client.put(FOOD, json={**CONFIG, "attributes": whole})
    assert made.json()["attributes"] == CONFIG["attributes"]
    assert client.put(FOOD, json=CONFIG).status_code == 200


def test_another_configuration_is_refused(food: AppClient) -> None:
    for change, field in (
        ({"attributes": {"rating": {"order": "high", "range": [0, 5]}, "price": "low"}}, "attributes"),
        ({"attributes": {**CONFIG["attributes"], "price": "high"}}, "attributes"),
        ({"bounds": [0, 0, 100, 101]}, "bounds"),
        ({"metric": "manhattan"}, "metric"),
    ):
        refused = food.put(FOOD, json={**CONFIG, **change})
        assert (refused.status_code, refused.json()["type"], fields(refused)) == (409, "/problems/different", [field])
    assert food.get(FOOD).json()["seq"] == 3


@pytest.mark.parametrize("name", ["", "none", "..", "x y", "a/b", "\x00"])
def test_a_move_on_a_map_that_is_not_there_is_refused(food: AppClient, name: str) -> None:
    with food.websocket_connect("/v1/stream", headers={"Host": "127.0.0.1"}) as socket:
        socket.send_json({"op": "move", "resource": f"maps/{name}", "id": "q1", "location": [1, 1]})
        answer = socket.receive_json()
    assert (answer["event"], answer["resource"], answer["id"]) == ("error", f"maps/{name}", "q1")
    assert answer["problem"]["status"] == 404
    assert answer["problem"]["errors"] == [{"field": "map", "reason": f"there is no map {name!r}"}]


def test_the_attributes_that_stand_are_told_for_readers(food: AppClient) -> None:
    assert food.put("/v1/maps/bare", json={**CONFIG, "attributes": {}}).status_code == 201
    for attributes, told in (
        ({}, "the map stands with price (low), rating (high, from 0.0 to 5.0)"),
        (CONFIG["attributes"], "the map stands with no attributes"),
    ):
        refused = food.put("/v1/maps/bare" if attributes else FOOD, json={**CONFIG, "attributes": attributes})
        assert refused.json()["errors"] == [{"field": "attributes", "reason": told}]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"attributes": {"created": "low"}}, "attributes.created"),
        ({"attributes": {"distance": "low"}}, "attributes.distance"),
        ({"attributes": {f"a{i}": "low" for i in range(17)}}, "attributes"),
        ({"attributes": {"price": "best"}}, "attributes.price.order"),
        ({"attributes": {"price": {"range": [0, 1]}}}, "attributes.price.order"),
        ({"attributes": {"price": {"order": "low", "range": [1, 1]}}}, "attributes.price.range"),
        ({"attributes": {"price": {"order": "low", "range": [0, True]}}}, "attributes.price.range[1]"),
        ({"attributes": {"price": {"order": "low", "range": [0]}}}, "attributes.price.range"),
        ({"attributes": {"price": {"order": "low", "unit": "EUR"}}}, "attributes.price.unit"),
        ({"attributes": ["price"]}, "attributes"),
        ({"bounds": [0, 0, 1]}, "bounds"),
        ({"bounds": [0, 0, 0, 1]}, "bounds[2]"),
        ({"bounds": [0, 2, 1, 1]}, "bounds[3]"),
        ({"bounds": [0, 0, 1e301, 1]}, "bounds[2]"),
        ({"bounds": [-181, 0, 1, 1], "metric": "great-circle"}, "bounds[0]"),
        ({"metric": "taxi"}, "metric"),
        ({"more": 1}, "more"),
    ],
)
def test_a_bad_configuration_is_named(client: AppClient, change: dict[str, Any], field: str) -> None:
    refused = client.put(FOOD, json={**CONFIG, **change})
    assert (refused.status_code, fields(refused)) == (422, [field])
    assert client.get(FOOD).status_code == 404


def test_what_is_needed_is_named(client: AppClient) -> None:
    assert fields(client.put(FOOD, json={})) == ["attributes", "bounds"]


def test_a_map_made_again_goes_on_with_its_seq(food: AppClient) -> None:
    assert food.delete(FOOD).json() == {"seq": 4}
    for answer in (
        food.get(FOOD),
        food.delete(FOOD),
        food.post(f"{FOOD}/skyline", json={"location": [1, 1]}),
        food.get(f"{FOOD}/objects/r1"),
        food.get(f"{FOOD}/queries"),
        food.post(f"{FOOD}/queries/moves", json={"moves": []}),
    ):
        assert (answer.status_code, fields(answer)) == (404, ["map"])
    made = food.put(FOOD, json={**CONFIG, "metric": "manhattan"})
    assert (made.status_code, made.json()["seq"], made.json()["objects"]) == (201, 5, 0)


# --- objects ----------------------------------------------------------------------------------------------------------


def test_objects_are_answered_whole_and_taken_back_by_put(food: AppClient) -> None:
    shown = food.get(f"{FOOD}/objects/r1").json()
    assert shown == {"seq": 3, **R1, "created": 0}
    again = food.put(f"{FOOD}/objects/r1", json=shown)
    assert (again.status_code, again.json()) == (200, {**shown, "seq": 4})
    made = food.put(f"{FOOD}/objects/r9", json={"location": [-0.0, 2**53], "values": {"price": -0.0, "rating": 5}})
    wanted = {"seq": 5, "id": "r9", "location": [0, 2**53], "values": {"price": 0, "rating": 5}, "created": 3}
    assert (made.status_code, made.json()) == (201, {**wanted, "payload": None})
    assert covers(made.json(), wanted), "whole numbers are integers"
    listed = food.get(f"{FOOD}/objects?limit=2").json()
    assert (listed["seq"], ids(listed["items"])) == (5, ["r1", "r2"])
    rest = food.get(f"{FOOD}/objects?limit=2&cursor={listed['next']}").json()
    assert (ids(rest["items"]), rest["next"]) == (["r3", "r9"], None)
    assert rest["items"][0] == {**R3, "created": 2, "payload": None}


def test_an_upsert_merges_and_keeps_the_number(food: AppClient) -> None:
    one = f"{FOOD}/objects/r1"
    assert food.put(one, json={"values": {"price": 9}}).json() == {
        "seq": 4,
        **R1,
        "values": {"price": 9, "rating": 4.5},
        "created": 0,
    }
    assert food.patch(one, json={"location": [1, 2]}).json()["location"] == [1, 2]
    assert food.patch(one, json={"payload": None}).json()["payload"] is None
    assert food.patch(one, json={}).json()["seq"] == 7, "an object put again takes a seq"
    many = [{"id": "r1", "values": {"rating": 1}}, {"id": "r4", **{k: R2[k] for k in ("location", "values")}}]
    assert food.post(f"{FOOD}/objects", json={"objects": [*many, many[0]]}).json() == {"seq": 10, "applied": 3}
    assert food.delete(one).json() == {"seq": 11}
    assert food.put(one, json=R1).json()["created"] == 4, "one deleted and put again is new"
    assert food.get(FOOD).json()["objects"] == 4


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"location": [1]}, "location"),
        ({"location": [1, 2, 3]}, "location"),
        ({"location": [1, "2"]}, "location[1]"),
        ({"location": [1e301, 2]}, "location[0]"),
        ({"location": None}, "location"),
        ({"values": {"price": True}}, "values.price"),
        ({"values": {"price": None}}, "values.price"),
        ({"values": {"rating": 5.5}}, "values.rating"),
        ({"values": {"speed": 1}}, "values.speed"),
        ({"payload": "x" * 5000}, "payload"),
        ({"more": 1}, "more"),
    ],
)
def test_a_bad_object_is_named_and_nothing_changed(food: AppClient, change: dict[str, Any], field: str) -> None:
    before = food.get(f"{FOOD}/objects").json()
    one = f"{FOOD}/objects/r1"
    for answer in (food.patch(one, json=change), food.put(one, json=change)):
        assert (answer.status_code, fields(answer)) == (422, [field])
    many = {"objects": [R2, {"id": "r1", **change}]}
    refused = food.post(f"{FOOD}/objects", json=many)
    assert (refused.status_code, fields(refused)) == (422, [f"objects[1].{field}"])
    body = lines_of(many["objects"])
    lines = food.post(f"{FOOD}/objects", content=body, headers={"content-type": NDJSON})
    assert (lines.status_code, fields(lines)) == (422, [f"objects[1].{field}"])
    assert food.get(f"{FOOD}/objects").json() == before


def test_a_new_object_gives_all(food: AppClient) -> None:
    for body, wrong in (
        ({}, ["location", "values.price", "values.rating"]),
        ({"location": [1, 2], "values": {"price": 1}}, ["values.rating"]),
        ({"values": {"price": 1, "rating": 1}}, ["location"]),
    ):
        refused = food.put(f"{FOOD}/objects/new", json=body)
        assert (refused.status_code, sorted(fields(refused))) == (422, wrong)
        many = food.post(f"{FOOD}/objects", json={"objects": [R2, {"id": "new", **body}]})
        assert (many.status_code, sorted(fields(many))) == (422, [f"objects[1].{field}" for field in wrong])
    assert food.get(FOOD).json()["seq"] == 3
    assert food.patch(f"{FOOD}/objects/new", json=R2 | {"id": "new"}).status_code == 422
    unknown = food.patch(f"{FOOD}/objects/new", json={"values": {"price": 1}})
    assert (unknown.status_code, fields(unknown)) == (404, ["id"])
    other = food.put(f"{FOOD}/objects/new", json=R2)
    assert (other.status_code, fields(other)) == (422, ["id"])
    assert fields(food.put(f"{FOOD}/objects/a b", json=R2 | {"id": "a"})) == ["id"]


def test_what_is_wrong_is_skipped_if_asked(food: AppClient) -> None:
    objects = [{"id": "n1"}, {**R2, "id": "n2"}, {**R2, "id": "n 3"}, {"id": "n2", "values": {"price": 1}}, 5]
    answer = food.post(f"{FOOD}/objects", json={"objects": objects, "on_error": "skip"}).json()
    assert (answer["seq"], answer["applied"]) == (5, 2)
    assert sorted({error["index"] for error in answer["errors"]}) == [0, 2, 4]
    assert food.get(f"{FOOD}/objects/n2").json()["created"] == 3, "what is skipped uses up no number"


def test_the_three_kinds_of_body_say_the_same(client: AppClient) -> None:
    objects = [R1, R2, {"id": "r1", "values": {"price": 2}}, {"id": "r2", "location": [1, 2], "payload": [1]}]
    columns = {
        "id": ["r1", "r2", "r1", "r2"],
        "x": [12.5, 20, None, 1],
        "y": [40.5, 30, None, 2],
        "price": [12.0, 8, 2, None],
        "rating": [4.5, 3, None, None],
        "payload": ['{"name": "Ada\'s"}', None, None, "[1]"],
    }
    bodies = [
        (json.dumps({"objects": objects}).encode(), "application/json"),
        (lines_of(objects), NDJSON),
        (stream_of(columns), ARROW),
        (stream_of(columns, 1), ARROW),
    ]
    wanted = [
        {**R1, "values": {"price": 2, "rating": 4.5}, "created": 0},
        {**R2, "location": [1, 2], "created": 1, "payload": [1]},
    ]
    for number, (body, kind) in enumerate(bodies):
        path = f"/v1/maps/m{number}"
        client.put(path, json=CONFIG)
        made = client.post(f"{path}/objects", content=body, headers={"content-type": kind})
        assert (made.status_code, made.json()) == (200, {"seq": 4, "applied": 4})
        assert client.get(f"{path}/objects").json()["items"] == wanted


def test_arrow_names_bad_cells(food: AppClient) -> None:
    body = stream_of(
        {
            "id": ["b 1", None, "b3", "b4", "b5"],
            "x": [1, 1, math.nan, 1, 1],
            "y": [2, 2, 2, None, 2],
            "price": [1, 1, 1, 1, 1e301],
            "rating": [1, 1, 1, 1, 1],
            "payload": [None, None, None, None, "{"],
        }
    )
    answer = food.post(f"{FOOD}/objects?on_error=skip", content=body, headers={"content-type": ARROW}).json()
    assert answer["applied"] == 0
    named = {error["field"] for error in answer["errors"]}
    wanted = {"[0].id", "[1].id", "[2].location[0]", "[3].location[1]", "[4].values.price", "[4].payload"}
    assert {f"objects{field}" for field in wanted} <= named
    for columns, field in (
        ({"x": [1], "y": [1]}, "id"),
        ({"id": ["x"], "speed": [1]}, "speed"),
        ({"id": ["x"], "price": ["dear"]}, "price"),
    ):
        refused = food.post(f"{FOOD}/objects", content=stream_of(columns), headers={"content-type": ARROW})
        assert (refused.status_code, fields(refused)) == (422, [field])


def test_an_attribute_called_as_a_coordinate_is_not_for_arrow(client: AppClient) -> None:
    client.put(FOOD, json={**CONFIG, "attributes": {"x": "low"}})
    one = {"id": "a", "location": [1, 2], "values": {"x": 3}}
    assert client.post(f"{FOOD}/objects", json={"objects": [one]}).json()["applied"] == 1
    body = stream_of({"id": ["b"], "x": [1.0], "y": [2.0]})
    refused = client.post(f"{FOOD}/objects", content=body, headers={"content-type": ARROW})
    assert (refused.status_code, fields(refused)) == (422, ["x"])


def test_objects_are_deleted_one_by_one_and_many(food: AppClient) -> None:
    assert food.delete(f"{FOOD}/objects/r1").json() == {"seq": 4}
    for answer in (food.delete(f"{FOOD}/objects/r1"), food.get(f"{FOOD}/objects/r1")):
        assert (answer.status_code, fields(answer)) == (404, ["id"])
    gone = food.post(f"{FOOD}/objects/delete", json={"ids": ["r3", "never", "r3"]})
    assert (gone.status_code, gone.json()) == (200, {"seq": 5, "deleted": 1})
    assert ids(food.get(f"{FOOD}/objects").json()["items"]) == ["r2"]


# --- questions --------------------------------------------------------------------------------------------------------


def test_the_best_come_in_order_with_all_candidates(food: AppClient) -> None:
    body = {"location": [10, 10], "k": 2, "m": 2, "score": SUM}
    answer = food.post(f"{FOOD}/top", json=body).json()
    assert answer["seq"] == 3
    assert ids(answer["list"]) == ["r2", "r1"]
    first = answer["list"][0]
    assert list(first) == ["rank", "id", "location", "values", "created", "distance", "score"]
    assert covers(
        first, {"rank": 1, "id": "r2", "location": [20, 30], "values": {"price": 8, "rating": 3}, "created": 1}
    )
    assert answer["list"][1]["payload"] == R1["payload"]
    assert ids(answer["candidates"]) == ["r2", "r1", "r3"]
    assert answer["zone"] == {"center": [10, 10], "radius": None}, "with all objects there is nothing else"
    model(R1, R2, R3).judge({"kind": "top", **body}, answer, (10, 10), Random(1))


SCORES: list[dict[str, Any]] = [
    SUM,
    {"kind": "weighted_sum", "weights": {"distance": 1}, "scale": 2},
    {"kind": "weighted_sum", "weights": {"price": 1}},
    {"kind": "weighted_product", "weights": {"distance": 0.5, "rating": 1}, "shift": 0.5},
    {"kind": "weighted_distance", "weights": {"rating": 1}},
    {"kind": "waspas", "weights": {"distance": 0.01, "rating": 1}, "lambda": 0.25},
    {"kind": "expression", "expression": "distance * 2 + price ** 0.5"},
    {"kind": "expression", "expression": "distance + log(price - 9)", "scale": 7},
]


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "great-circle"])
def test_every_kind_of_score_and_metric_is_answered_as_written(client: AppClient, metric: str) -> None:
    draw = Random(metric)
    config = {**CONFIG, "metric": metric, "bounds": [0, 0, 60, 60]}
    client.put(FOOD, json=config)
    grid = [float(v) for v in range(0, 60, 4)]
    things = [
        {
            "id": f"o{i}",
            "location": [draw.choice(grid), draw.choice(grid)],
            "values": {"price": draw.randrange(20), "rating": draw.randrange(6)},
        }
        for i in range(40)
    ]
    world = MapModel(config)
    world.put(*things)
    assert client.post(f"{FOOD}/objects", json={"objects": things}).json()["seq"] == 40
    places = [(draw.uniform(0, 60), draw.uniform(0, 60)), (12.0, 16.0), (70.0, -3.0)]
    for score in SCORES:
        question = {"k": draw.choice([1, 4]), "m": draw.choice([1, 3]), "ordered": draw.random() < 0.5, "score": score}
        together = client.post(f"{FOOD}/top", json={**question, "locations": places}).json()
        assert list(together) == ["seq", "results"]
        for place, result in zip(places, together["results"], strict=True):
            world.judge({"kind": "top", **question}, result, place, draw)
            alone = client.post(f"{FOOD}/top", json={**question, "location": place}).json()
            assert alone == {"seq": 40, **result}
    together = client.post(f"{FOOD}/skyline", json={"locations": places}).json()["results"]
    for place, result in zip(places, together, strict=True):
        world.judge({"kind": "skyline"}, result, place, draw)
        assert client.post(f"{FOOD}/skyline", json={"location": place}).json() == {"seq": 40, **result}


def test_an_empty_map_answers(client: AppClient) -> None:
    client.put(FOOD, json=CONFIG)
    top = client.post(f"{FOOD}/top", json={"location": [1, 2], "k": 3, "score": SUM}).json()
    assert top == {"seq": 0, "list": [], "candidates": [], "zone": {"center": [1, 2], "radius": None}}
    assert client.post(f"{FOOD}/skyline", json={"location": [1, 2]}).json()["skyline"] == []
    assert client.post(f"{FOOD}/skyline", json={"locations": []}).json() == {"seq": 0, "results": []}


def test_what_has_no_score_comes_last_with_null(food: AppClient) -> None:
    score = {"kind": "expression", "expression": "distance + log(price - 9)"}
    answer = food.post(f"{FOOD}/top", json={"location": [10, 10], "k": 3, "score": score}).json()
    assert (ids(answer["list"])[-1], answer["list"][-1]["score"]) == ("r2", None)


BAD_SCORES: list[tuple[dict[str, Any], list[str]]] = [
    ({"kind": "sum"}, ["score.kind"]),
    ({"kind": "weighted_sum"}, ["score.weights"]),
    ({"kind": "weighted_sum", "weights": {"speed": 1}}, ["score.weights.speed"]),
    ({"kind": "weighted_sum", "weights": {"price": -1}}, ["score.weights.price"]),
    ({"kind": "weighted_sum", "weights": {"price": "1"}}, ["score.weights.price"]),
    ({"kind": "weighted_sum", "weights": {"price": 1}, "scale": 0}, ["score.scale"]),
    ({"kind": "weighted_sum", "weights": {"price": 1}, "shift": 1}, ["score.shift"]),
    ({"kind": "weighted_product", "weights": {"rating": 1}, "shift": -1}, ["score.shift"]),
    ({"kind": "weighted_product", "weights": {"rating": 1}, "lambda": 0.5}, ["score.lambda"]),
    ({"kind": "weighted_product", "weights": {"price": 1}}, ["score.weights.price"]),
    ({"kind": "weighted_distance", "weights": {"rating": 1, "distance": 1}}, ["score.weights.distance"]),
    ({"kind": "waspas", "weights": {"rating": 1}, "lambda": 1.5}, ["score.lambda"]),
    ({"kind": "expression"}, ["score.expression"]),
    ({"kind": "expression", "expression": "distance", "weights": {"price": 1}}, ["score.weights"]),
    ({"kind": "expression", "expression": "distance +"}, ["score.expression"]),
    ({"kind": "expression", "expression": "0 - distance"}, ["score.expression"]),
    ({"kind": "expression", "expression": "speed"}, ["score.expression"]),
    ({"kind": "expression", "expression": 5}, ["score.expression"]),
    ({"kind": "expression", "expression": "distance", "more": 1}, ["score.more"]),
]


@pytest.mark.parametrize(("score", "wrong"), BAD_SCORES)
def test_a_bad_score_is_named_wherever_it_comes(standing: AppClient, score: dict[str, Any], wrong: list[str]) -> None:
    before = standing.get(f"{FOOD}/queries").json()
    body = {**TOP, "score": score}
    asked = {key: value for key, value in body.items() if key != "kind"}
    for answer, prefix in (
        (standing.post(f"{FOOD}/top", json=asked), ""),
        (standing.put(f"{FOOD}/queries/new", json=body), ""),
        (standing.patch(f"{FOOD}/queries/t", json={"score": score}), ""),
        (standing.post(f"{FOOD}/queries", json={"queries": [TOP, body]}), "queries[1]."),
    ):
        assert (answer.status_code, fields(answer)) == (422, [prefix + field for field in wrong])
    skipped = standing.post(f"{FOOD}/queries", json={"queries": [body], "on_error": "skip"}).json()
    assert [error["field"] for error in skipped["errors"]] == [f"queries[0].{field}" for field in wrong]
    assert standing.get(f"{FOOD}/queries").json() == before


def test_weights_that_are_all_0_are_refused(food: AppClient) -> None:
    for weights in ({}, {"price": 0, "distance": 0}):
        score = {"kind": "weighted_sum", "weights": weights}
        refused = food.post(f"{FOOD}/top", json={"location": [1, 1], "k": 1, "score": score})
        assert (refused.status_code, fields(refused)) == (422, ["score.weights"])


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"k": 0}, "k"),
        ({"k": 1001}, "k"),
        ({"k": 1.5}, "k"),
        ({"k": None}, "k"),
        ({"m": 0}, "m"),
        ({"m": 1001}, "m"),
        ({"ordered": 1}, "ordered"),
        ({"location": [1]}, "location"),
        ({"location": None}, "location"),
        ({"locations": [[1, 2]]}, "location"),
        ({"score": None}, "score"),
        ({"more": 1}, "more"),
    ],
)
def test_a_bad_question_is_named(food: AppClient, change: dict[str, Any], field: str) -> None:
    refused = food.post(f"{FOOD}/top", json={"location": [1, 1], "k": 1, "score": SUM, **change})
    assert (refused.status_code, fields(refused)) == (422, [field])


def test_what_a_question_needs_is_named(food: AppClient) -> None:
    assert fields(food.post(f"{FOOD}/top", json={})) == ["k", "score"]
    assert fields(food.post(f"{FOOD}/top", json={"k": 1, "score": SUM})) == ["location"]
    assert fields(food.post(f"{FOOD}/skyline", json={})) == ["location"]
    assert fields(food.post(f"{FOOD}/skyline", json={"locations": [[1, 2], [3, "4"]]})) == ["locations[1][1]"]
    assert fields(food.post(f"{FOOD}/skyline", json={"location": [1, 2], "k": 1})) == ["k"]


def test_places_off_the_sphere_are_refused(client: AppClient) -> None:
    client.put(FOOD, json={**CONFIG, "metric": "great-circle", "bounds": [-180, -90, 180, 90]})
    assert fields(client.put(f"{FOOD}/objects/a", json={**R1, "id": "a", "location": [181, 0]})) == ["location[0]"]
    asked = {"k": 1, "score": SUM}
    assert fields(client.post(f"{FOOD}/top", json={**asked, "location": [0, 91]})) == ["location[1]"]
    several = client.post(f"{FOOD}/top", json={**asked, "locations": [[0, 0], [-181, -91]]})
    assert fields(several) == ["locations[1][0]", "locations[1][1]"]
    assert fields(client.put(f"{FOOD}/queries/q", json={**TOP, "location": [0, 91]})) == ["location[1]"]
    client.put(f"{FOOD}/queries/q", json=TOP)
    assert fields(client.patch(f"{FOOD}/queries/q", json={"location": [200, 0]})) == ["location[0]"]
    moves = client.post(f"{FOOD}/queries/moves", json={"moves": [{"id": "q", "location": [0, -91]}]})
    assert fields(moves) == ["moves[0].location[1]"]


def test_long_answers_come_in_their_turn_and_in_pieces(food: AppClient, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [[i % 37, i % 11] for i in range(120)]
    body = {"locations": places, "k": 2, "m": 2, "score": SUM}
    wanted = food.post(f"{FOOD}/top", json=body).json()
    monkeypatch.setattr(route, "AT_ONCE", 0.0)
    monkeypatch.setattr(route, "INLINE", 10)
    assert food.post(f"{FOOD}/top", json=body).json() == wanted
    assert food.post(f"{FOOD}/skyline", json={"location": [1, 1]}).json()["seq"] == 3


def test_questions_that_come_at_once_are_answered_as_if_alone(food: AppClient) -> None:
    top = {"k": 2, "m": 2, "score": SUM}
    bodies = [{**(top if i % 2 else {}), "location": [i % 37, i % 11]} for i in range(60)]
    paths = [f"{FOOD}/{'top' if i % 2 else 'skyline'}" for i in range(60)]
    alone = [food.post(path, json=body).json() for path, body in zip(paths, bodies, strict=True)]

    async def at_once() -> list[httpx.Response]:
        transport = httpx.ASGITransport(food.app, client=("testclient", 50000))
        async with httpx.AsyncClient(transport=transport, base_url=food.base_url) as client:
            asked = (client.post(path, json=body) for path, body in zip(paths, bodies, strict=True))
            return await asyncio.gather(*asked)

    assert food.portal is not None
    assert [answer.json() for answer in food.portal.call(at_once)] == alone


def test_an_answer_that_has_no_room_is_refused(food: AppClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "MOST_OBJECTS", 5)
    body = {"locations": [[1, 1]] * 3, "k": 2, "score": SUM}
    assert food.post(f"{FOOD}/top", json=body).status_code == 413
    assert food.post(f"{FOOD}/top", json={**body, "k": 1}).status_code == 200


def test_more_locations_than_elements_are_too_many(make_client: MakeClient) -> None:
    client = make_client(max_elements=2)
    client.put(FOOD, json=CONFIG)
    refused = client.post(f"{FOOD}/skyline", json={"locations": [[1, 1]] * 3})
    assert (refused.status_code, fields(refused)) == (413, ["locations"])


# --- standing queries -------------------------------------------------------------------------------------------------


def test_a_query_is_made_shown_taken_back_and_listed(food: AppClient) -> None:
    asked = {key: value for key, value in TOP.items() if key not in ("kind", "location")}
    now = food.post(f"{FOOD}/top", json={**asked, "location": [10, 10]}).json()
    made = food.put(f"{FOOD}/queries/t", json={**TOP, "ttl": 60})
    shown = {"seq": 4, "id": "t", **TOP, "ordered": False, "ttl": 60}
    result = {key: now[key] for key in ("list", "candidates", "zone")}
    assert (made.status_code, made.json()) == (201, {**shown, **result})
    assert food.get(f"{FOOD}/queries/t").json() == made.json()
    again = food.put(f"{FOOD}/queries/t", json=made.json())
    assert (again.status_code, again.json()) == (200, made.json())
    sky = food.put(f"{FOOD}/queries/s", json=SKY).json()
    assert sky == {"id": "s", **SKY, **food.post(f"{FOOD}/skyline", json={"location": [10, 10]}).json(), "seq": 5}
    listed = food.get(f"{FOOD}/queries").json()
    assert listed == {"seq": 5, "items": [{"id": "s", **SKY}, {k: shown[k] for k in shown if k != "seq"}], "next": None}
    page = food.get(f"{FOOD}/queries?limit=1").json()
    assert ids(food.get(f"{FOOD}/queries?limit=1&cursor={page['next']}").json()["items"]) == ["t"]
    changed = food.put(f"{FOOD}/queries/t", json=SKY)
    assert (changed.status_code, changed.json()["seq"], changed.json()["kind"]) == (200, 6, "skyline")
    assert food.get(FOOD).json()["queries"] == 2


@pytest.mark.parametrize("score", SCORES)
def test_a_score_is_shown_so_that_it_can_be_asked_again(food: AppClient, score: dict[str, Any]) -> None:
    made = food.put(f"{FOOD}/queries/t", json={**TOP, "score": score}).json()
    shown = made["score"]
    assert {key: shown[key] for key in score} == score
    assert food.put(f"{FOOD}/queries/t", json={**TOP, "score": shown}).json() == made


@pytest.mark.parametrize(
    ("body", "wrong"),
    [
        ({"location": [1, 1]}, ["kind"]),
        ({"kind": "skyline"}, ["location"]),
        ({"kind": "nearest", "location": [1, 1]}, ["kind"]),
        ({"kind": "top", "location": [1, 1]}, ["k", "score"]),
        ({**SKY, "k": 1, "ordered": True}, ["k", "ordered"]),
        ({**TOP, "k": 1001}, ["k"]),
        ({**TOP, "ttl": 0}, ["ttl"]),
        ({**TOP, "more": 1}, ["more"]),
    ],
)
def test_a_bad_query_is_named_and_nothing_changed(food: AppClient, body: dict[str, Any], wrong: list[str]) -> None:
    refused = food.put(f"{FOOD}/queries/new", json=body)
    assert (refused.status_code, fields(refused)) == (422, wrong)
    many = food.post(f"{FOOD}/queries", json={"queries": [TOP, body]})
    assert (many.status_code, fields(many)) == (422, [f"queries[1].{field}" for field in wrong])
    lines = food.post(f"{FOOD}/queries", content=lines_of([TOP, body]), headers={"content-type": NDJSON})
    assert fields(lines) == [f"queries[1].{field}" for field in wrong]
    assert fields(food.put(f"{FOOD}/queries/new", json={**TOP, "id": "other"})) == ["id"]
    assert food.get(FOOD).json()["seq"] == 3
    assert food.get(FOOD).json()["queries"] == 0


def test_many_queries_are_made_at_once(food: AppClient, monkeypatch: pytest.MonkeyPatch) -> None:
    queries = [{"id": "a", **TOP}, {"id": "b", **SKY, "ttl": 60}, {**TOP, "location": [50, 50]}]
    made = food.post(f"{FOOD}/queries", json={"queries": queries})
    assert (made.status_code, made.json()["seq"]) == (201, 6)
    found = made.json()["queries"]
    assert ids(found)[:2] == ["a", "b"]
    for one in found:
        assert {"seq": 6, **one} == food.get(f"{FOOD}/queries/{one['id']}").json()
    plain = food.post(f"{FOOD}/queries", json={"queries": [{**TOP, "id": "c"}], "lists": False}).json()["queries"]
    assert plain == [{"id": "c", **TOP, "ordered": False}]
    monkeypatch.setattr(subscriptions, "LISTS", 1)
    two = [{**SKY, "id": "d"}, {**SKY, "id": "e"}]
    unsaid = food.post(f"{FOOD}/queries", json={"queries": two}).json()["queries"]
    assert unsaid == two
    asked = food.post(
        f"{FOOD}/queries?lists=true", content=lines_of([{**SKY, "id": "f"}]), headers={"content-type": NDJSON}
    )
    assert "skyline" in asked.json()["queries"][0]


def test_a_taken_id_refuses_all_and_is_skipped_if_asked(standing: AppClient) -> None:
    queries = [{**SKY, "id": "n1"}, {**SKY, "id": "t"}, {**SKY, "id": "n1"}, {**SKY, "id": "n2"}]
    refused = standing.post(f"{FOOD}/queries", json={"queries": queries})
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/id-taken")
    assert fields(refused) == ["queries[1].id", "queries[2].id"]
    answer = standing.post(f"{FOOD}/queries", json={"queries": queries, "on_error": "skip"}).json()
    assert answer["seq"] == 7
    assert [(one["index"], one["id"]) for one in answer["queries"]] == [(0, "n1"), (3, "n2")]
    assert [error["index"] for error in answer["errors"]] == [1, 2]


def test_queries_come_as_arrow_too(food: AppClient) -> None:
    columns = {
        "id": ["a", "b", "c"],
        "kind": ["top", "skyline", "top"],
        "x": [10.0, 10.0, 5.0],
        "y": [10.0, 10.0, 5.0],
        "k": [2, None, 1],
        "m": [2, None, None],
        "score": [json.dumps(SUM), None, json.dumps(SUM)],
        "ttl": [None, 60.0, None],
    }
    made = food.post(f"{FOOD}/queries", content=stream_of(columns), headers={"content-type": ARROW})
    assert (made.status_code, made.json()["seq"]) == (201, 6)
    assert [
        covers(got, want)
        for got, want in zip(made.json()["queries"], ({"id": "a", **TOP}, {**SKY, "ttl": 60}), strict=False)
    ] == [
        True,
        True,
    ]
    bad = {**columns, "id": ["d", "e", "f"], "k": [0, 5, 1], "score": ["{", None, '{"kind": "weighted_sum"}']}
    refused = food.post(f"{FOOD}/queries", content=stream_of(bad), headers={"content-type": ARROW})
    assert (refused.status_code, fields(refused)) == (
        422,
        ["queries[0].score", "queries[1].k", "queries[2].score.weights"],
    )


def test_a_move_says_whether_it_was_inside(standing: AppClient) -> None:
    one = f"{FOOD}/queries/t"
    assert standing.put(one, json={**TOP, "k": 1, "m": 1}).json()["seq"] == 6
    zone = standing.get(one).json()["zone"]
    assert zone["center"] == [10, 10]
    assert zone["radius"] > 0
    near = [10 + zone["radius"] / 2, 10]
    assert standing.patch(one, json={"location": near}).json() == {"seq": 7, "inside": True}
    held = standing.get(one).json()
    assert (held["location"], held["zone"]) == (near, zone), "the zone is the one that is held"
    moved = standing.patch(one, json={"location": [90, 90]}).json()
    asked = {key: value for key, value in TOP.items() if key != "kind"}
    now = standing.post(f"{FOOD}/top", json={**asked, "k": 1, "m": 1, "location": [90, 90]}).json()
    assert moved == {"seq": 8, "inside": False, **{key: now[key] for key in ("list", "candidates", "zone")}}
    far = standing.patch(f"{FOOD}/queries/s", json={"location": [99, 1]}).json()
    assert (far["seq"], "skyline" in far or far == {"seq": 9, "inside": True}) == (9, True)


def test_what_a_query_asks_can_be_changed(standing: AppClient) -> None:
    one = f"{FOOD}/queries/t"
    assert covers(
        standing.patch(one, json={"k": 1}).json(), {"seq": 6, "id": "t", "k": 1, "m": 2, "location": [10, 10]}
    )
    assert standing.patch(one, json={"m": 1, "ordered": True, "ttl": 60}).json()["ordered"] is True
    product = {"kind": "weighted_distance", "weights": {"rating": 1}}
    both = standing.patch(one, json={"score": product, "location": [50, 50]}).json()
    assert covers(both, {"seq": 8, "inside": False, "score": product, "location": [50, 50], "ttl": 60})
    model(R1, R2, R3).judge(both, both, (50, 50), Random(2))
    assert "ttl" not in standing.patch(one, json={"ttl": None}).json()
    before = standing.get(one).json()
    assert standing.patch(one, json={}).json() == before, "what changes nothing takes no seq"
    same = standing.patch(one, json={"k": 1, "location": [50, 50]}).json()
    assert same == {**before, "seq": 10, "inside": True}, "it comes to a move"
    changes: list[dict[str, Any]] = [{"k": 2}, {"m": 2}, {"ordered": True}, {"score": SUM}]
    for change in changes:
        refused = standing.patch(f"{FOOD}/queries/s", json=change)
        assert (refused.status_code, fields(refused)) == (422, list(change))
    for change, field in (({"kind": "skyline"}, "kind"), ({"location": None}, "location"), ({"k": 0}, "k")):
        refused = standing.patch(one, json=change)
        assert (refused.status_code, fields(refused)) == (422, [field])
    assert standing.get(one).json() == {**before, "seq": 10}


def test_of_very_many_moves_a_retry_gets_the_seq_alone(standing: AppClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.api.maps.routes.moves.MOST_KEPT", 2)
    for n, kept in ((2, True), (3, False)):
        moves = [{"id": "t", "location": [at, 10]} for at in range(n)]
        ask = {"json": {"moves": moves, "on_error": "skip"}, "headers": {"idempotency-key": str(n)}}
        first, again = (standing.post(f"{FOOD}/queries/moves", **ask).json() for _ in range(2))  # type: ignore[arg-type]
        assert [one["index"] for one in first["results"]] == list(range(n))
        assert (again["seq"], again["replayed"], "results" in again) == (first["seq"], True, kept)
        assert not kept or [one["index"] for one in again["results"]] == list(range(n))


def test_many_moves_are_answered_in_order(standing: AppClient) -> None:
    moves = [{"id": "t", "location": [10, 10]}, {"id": "s", "location": [60, 60]}, {"id": "t", "location": [99, 99]}]
    answer = standing.post(f"{FOOD}/queries/moves", json={"moves": moves}).json()
    assert answer["seq"] == 8
    assert [one["id"] for one in answer["results"]] == ["t", "s", "t"]
    assert answer["results"][0] == {"id": "t", "inside": True}
    world = model(R1, R2, R3)
    for move, result in zip(moves, answer["results"], strict=True):
        if not result["inside"]:
            world.judge(TOP if move["id"] == "t" else SKY, result, tuple(move["location"]), Random(3))  # type: ignore[arg-type]
    columns = {"id": ["t", "s"], "x": [1.0, 2.0], "y": [1.0, 2.0]}
    arrow = standing.post(f"{FOOD}/queries/moves", content=stream_of(columns), headers={"content-type": ARROW}).json()
    assert (arrow["seq"], ids(arrow["results"])) == (10, ["t", "s"])
    assert standing.get(f"{FOOD}/queries/s").json()["location"] == [2, 2]


def test_large_answers_are_written_a_few_at_a_time(standing: AppClient, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    results, query = MapJson.results, MapEngine.query

    def written(self: MapJson, answers: Sequence[Answer]) -> list[str]:
        sizes.append(sum(len(answer.rows.ids) for answer in answers))
        return results(self, answers)

    queries = [{**TOP, "id": f"n{i}", "k": 2, "m": 1} for i in range(4)]
    monkeypatch.setattr(subscriptions, "ROOM", 4)
    looks: list[list[str]] = []

    def looked(self: MapEngine, key: str, answer: bool = False) -> QueryView | None:
        looks[-1].append(key)
        return query(self, key, answer)

    def between(self: MapContext, request: Request, fn: Callable[[], Any]) -> Awaitable[Any]:
        looks.append([])
        return shared(self, request, fn)

    shared = MapContext.between
    with monkeypatch.context() as patched:
        patched.setattr(MapEngine, "query", looked)
        patched.setattr(MapContext, "between", between)
        made = standing.post(f"{FOOD}/queries", json={"queries": queries}).json()["queries"]
    assert looks == [["n0", "n1"], ["n2", "n3"]]
    assert [len(one["list"]) for one in made] == [2] * 4
    monkeypatch.setattr(map_moves, "ROOM", 4)
    monkeypatch.setattr(MapJson, "results", written)
    moves = [{"id": f"n{i}", "location": [90, 90 + j]} for j in (0, 9) for i in range(4)]
    answer = standing.post(f"{FOOD}/queries/moves", json={"moves": moves}).json()
    assert ids(answer["results"]) == [move["id"] for move in moves]
    assert [one["inside"] for one in answer["results"][:4]] == [False] * 4
    assert max(sizes) <= 4 and sum(sizes) == 2 * sum(not one["inside"] for one in answer["results"])


def test_moves_whose_answers_have_no_room_are_refused(standing: AppClient, monkeypatch: pytest.MonkeyPatch) -> None:
    moves = [{"id": "t", "location": [50, 50]}] * 4
    before = standing.get(f"{FOOD}/queries/t").json()
    monkeypatch.setattr(parsing, "MOST_OBJECTS", 11)
    assert standing.post(f"{FOOD}/queries/moves", json={"moves": moves}).status_code == 413
    assert standing.get(f"{FOOD}/queries/t").json() == before
    assert standing.post(f"{FOOD}/queries/moves", json={"moves": moves[:3]}).status_code == 200


def test_bad_moves_are_named(standing: AppClient) -> None:
    before = standing.get(f"{FOOD}/queries").json()
    for move, field in (
        ({"id": "none", "location": [1, 1]}, "id"),
        ({"id": "t"}, "location"),
        ({"id": "t", "location": [1, None]}, "location[1]"),
        ({"id": "t", "location": [1, 1], "k": 1}, "k"),
    ):
        refused = standing.post(f"{FOOD}/queries/moves", json={"moves": [{"id": "t", "location": [5, 5]}, move]})
        assert (refused.status_code, fields(refused)) == (422, [f"moves[1].{field}"])
    assert standing.get(f"{FOOD}/queries").json() == before
    moves = [{"id": "none", "location": [1, 1]}, {"id": "t", "location": [1]}, {"id": "t", "location": [5, 5]}]
    answer = standing.post(f"{FOOD}/queries/moves", json={"moves": moves, "on_error": "skip"}).json()
    assert answer["seq"] == 6
    assert [one["index"] for one in answer["results"]] == [2]
    assert [(error["index"], error["field"]) for error in answer["errors"]] == [
        (0, "moves[0].id"),
        (1, "moves[1].location"),
    ]
    columns = {"id": ["t", "t", None], "x": [1.0, None, 1.0], "y": [1.0, 1.0, math.inf]}
    body = stream_of(columns)
    refused = standing.post(f"{FOOD}/queries/moves", content=body, headers={"content-type": ARROW})
    assert set(fields(refused)) == {"moves[1].location[0]", "moves[2].id", "moves[2].location[1]"}


def test_queries_are_deleted_one_by_one_and_many(standing: AppClient) -> None:
    assert standing.delete(f"{FOOD}/queries/t").json() == {"seq": 6}
    for answer in (
        standing.delete(f"{FOOD}/queries/t"),
        standing.get(f"{FOOD}/queries/t"),
        standing.patch(f"{FOOD}/queries/t", json={"location": [1, 1]}),
        standing.get(f"{FOOD}/queries/t/stream"),
    ):
        assert (answer.status_code, fields(answer)) == (404, ["id"])
    gone = standing.post(f"{FOOD}/queries/delete", json={"ids": ["s", "never", "s"]})
    assert gone.json() == {"seq": 7, "deleted": 1}


# --- writes under a key -----------------------------------------------------------------------------------------------


def test_a_retry_gets_the_first_answer_without_lists(food: AppClient) -> None:
    queries = {"queries": [{"id": "a", **TOP}, {"id": "b", **SKY}]}
    moves = {"moves": [{"id": "a", "location": [90, 90]}, {"id": "a", "location": [90, 90]}]}
    left_out = {"list", "candidates", "skyline"}
    for number, (method, path, body) in enumerate(
        [
            ("POST", "/objects", {"objects": [R1, {"id": "x"}], "on_error": "skip"}),
            ("PUT", "/objects/r4", {**R2, "id": "r4"}),
            ("PATCH", "/objects/r4", {"values": {"price": 1}}),
            ("PUT", "/queries/t", TOP),
            ("PATCH", "/queries/t", {"k": 1}),
            ("PATCH", "/queries/t", {"location": [90, 90]}),
            ("PATCH", "/queries/t", {"location": [90, 90], "k": 1}),
            ("PUT", "/queries/s", SKY),
            ("POST", "/queries", queries),
            ("POST", "/queries/moves", moves),
            ("POST", "/queries/delete", {"ids": ["a"]}),
            ("POST", "/objects/delete", {"ids": ["r4"]}),
            ("DELETE", "/objects/r3", None),
            ("DELETE", "/queries/s", None),
        ]
    ):
        key = {"Idempotency-Key": f"k{number}"}
        ask: dict[str, Any] = {"headers": key} if body is None else {"headers": key, "json": body}
        first = food.request(method, FOOD + path, **ask)
        assert first.status_code in (200, 201), first.text
        again = food.request(method, FOOD + path, **ask)
        assert again.status_code == first.status_code
        wanted = {name: value for name, value in first.json().items() if name not in left_out}
        got = again.json()
        assert got.pop("replayed") is True
        if path == "/queries":
            wanted["queries"] = [
                {k: v for k, v in q.items() if k not in left_out | {"zone"}} for q in wanted["queries"]
            ]
        if path == "/queries/moves":
            wanted["results"] = [{"id": one["id"], "inside": one["inside"]} for one in wanted["results"]]
        assert got == wanted, path
    other = food.post(f"{FOOD}/objects", json={"objects": []}, headers={"Idempotency-Key": "k0"})
    assert (other.status_code, fields(other)) == (422, ["Idempotency-Key"])


@pytest.mark.parametrize("id", ["r1", "new"])
def test_how_an_object_was_put_is_said_again_after_a_crash(make_client: MakeClient, tmp_path: Path, id: str) -> None:
    """What applying tells is written beside a later row; here there is none before the end."""
    client = make_client()
    client.put(FOOD, json=CONFIG)
    client.post(f"{FOOD}/objects", json={"objects": [R1]})
    key, body = {"Idempotency-Key": "once"}, {**R2, "payload": {"a": 1}}
    del body["id"]
    first = client.put(f"{FOOD}/objects/{id}", json=body, headers=key)
    shutil.copytree(tmp_path / "data", tmp_path / "copy", ignore=shutil.ignore_patterns("*lock*", "LOCK"))
    again = make_client(data=tmp_path / "copy")
    second = again.put(f"{FOOD}/objects/{id}", json=body, headers=key)
    assert second.status_code == first.status_code
    assert second.json() == {**first.json(), "replayed": True}


# --- around -----------------------------------------------------------------------------------------------------------


def test_what_may_be_left_out_but_not_be_null_is_so_in_the_document_too() -> None:
    schemas = create_app(Settings()).openapi()["components"]["schemas"]
    for model, field in (
        ("MapTopBody", "location"),
        ("MapTopBody", "locations"),
        ("StandingQueryPatch", "k"),
        ("StandingQueryBody", "score"),
        ("NewMapObject", "location"),
        ("ScoreBody", "weights"),
    ):
        schema = schemas[model]["properties"][field]
        assert "anyOf" not in schema, (model, field)
        assert field not in schemas[model].get("required", [])


def test_what_was_done_is_counted(standing: AppClient) -> None:
    standing.post(f"{FOOD}/skyline", json={"locations": [[1, 1], [2, 2]]})
    standing.post(f"{FOOD}/queries/moves", json={"moves": [{"id": "t", "location": [1, 1]}]})
    text = standing.get("/metrics").text
    assert 'rankcast_map_answers_total{kind="skyline",resource="maps/food"} 2.0' in text
    assert 'rankcast_changes_total{command="PutObjects",resource="maps/food"} 3.0' in text
    assert 'rankcast_changes_total{command="MoveQueries",resource="maps/food"} 1.0' in text


def test_maps_and_boards_of_one_name_are_two(food: AppClient) -> None:
    board = {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [1]}
    assert food.put("/v1/boards/food", json=board).json()["seq"] == 0
    assert food.delete("/v1/boards/food").status_code == 200
    assert food.get(FOOD).json()["objects"] == 3


def test_scopes_of_maps(make_client: MakeClient) -> None:
    client = make_client()
    client.put(FOOD, json=CONFIG)
    admin = client.post("/v1/admin/keys", json={"name": "a", "scopes": ["admin"]}).json()["key"]
    keys = {}
    for scope in ("maps:read", "maps:subscribe", "maps:publish", "maps:write", "boards:write"):
        asked = {"name": "n", "scopes": [scope]}
        made = client.post("/v1/admin/keys", json=asked, headers={"Authorization": f"Bearer {admin}"})
        keys[scope] = {"Authorization": f"Bearer {made.json()['key']}"}
    for method, path, body, scope in (
        ("PUT", "/objects/r1", R1, "maps:publish"),
        ("POST", "/top", {"location": [1, 1], "k": 1, "score": SUM}, "maps:read"),
        ("POST", "/skyline", {"location": [1, 1]}, "maps:read"),
        ("PUT", "/queries/q", SKY, "maps:subscribe"),
        ("POST", "/queries/moves", {"moves": []}, "maps:subscribe"),
        ("GET", "/queries/q", None, "maps:read"),
        ("GET", "/objects", None, "maps:read"),
        ("DELETE", "/objects/r1", None, "maps:publish"),
    ):
        for given, headers in keys.items():
            answer = client.request(method, FOOD + path, json=body, headers=headers)
            allowed = given in (scope, "maps:write") or (given == "maps:subscribe" and scope == "maps:read")
            # The second key that may delete an object finds none.
            done = (200, 201, 404) if method == "DELETE" else (200, 201)
            assert answer.status_code in (done if allowed else (403,)), (path, given, answer.text)
