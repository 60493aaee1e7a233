"""Boards with several range attributes over HTTP."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from app.cli.load import stream_of
from tests.support.app_client import AppClient
from tests.support.service_fixtures import Start

BOARD = "/v1/boards/flats"
CONFIG = {"range_attributes": ["x", "y"], "rank": {"attribute": "rent", "order": "asc"}, "ks": [2, 3]}
HOMES = {"a": (1, 1, 700), "b": (2, 1, 500), "c": (2, 2, 600), "d": (5, 5, 400), "e": (0, 4, 450)}
TRIANGLE = [[0, 0], [3, 0], [0, 3]]


def upsert(id: str, x: float, y: float, rent: float) -> dict[str, Any]:
    return {"op": "upsert", "id": id, "values": {"x": x, "y": y, "rent": rent}}


@pytest.fixture
def board(client: AppClient) -> AppClient:
    assert client.put(BOARD, json=CONFIG).status_code == 201
    events = [upsert(id, *values) for id, values in HOMES.items()]
    assert client.post(f"{BOARD}/events", json={"events": events}).json()["seq"] == 5
    return client


def arrow(table: pa.Table) -> bytes:
    return stream_of(table.to_batches()[0])


def ids(answer: Any) -> list[str]:
    return [entry["id"] for entry in answer["list"]]


def test_a_board_says_its_attributes_and_takes_back_what_it_says(client: AppClient) -> None:
    made = client.put(BOARD, json=CONFIG)
    more: dict[str, Any] = {
        "algorithm": "sparse",
        "epsilon": None,
        "sketch": None,
        "indexed": [],
        "zones": None,
        "index": "kd-tree",
        "objects": 0,
        "subscriptions": 0,
    }
    shown = {"seq": 0, "name": "flats", **CONFIG, **more}
    assert (made.status_code, made.json()) == (201, shown)
    assert client.get(BOARD).json() == shown
    again = client.put(BOARD, json=shown)
    assert (again.status_code, again.json()) == (200, shown)
    other = client.put(BOARD, json={**CONFIG, "range_attributes": ["y", "x"]})
    assert (other.status_code, other.json()["errors"][0]["field"]) == (409, "range_attributes")


@pytest.mark.parametrize(
    ("change", "field"),
    [({"algorithm": "dense"}, "algorithm"), ({"epsilon": 0.5}, "epsilon"), ({"sketch": 64}, "sketch")],
)
def test_what_is_for_one_attribute_cannot_be_asked_for_later(board: AppClient, change: Any, field: str) -> None:
    refused = board.patch(BOARD, json=change)
    assert (refused.status_code, [e["field"] for e in refused.json()["errors"]]) == (422, [field])
    assert board.patch(BOARD, json={"ks": [2, 3, 4], "algorithm": "sparse", "epsilon": None}).json()["ks"] == [2, 3, 4]


@pytest.mark.parametrize(
    ("region", "wanted"),
    [
        ({}, ["d", "e", "b"]),
        ({"range": {"x": [None, 2]}}, ["e", "b", "c"]),
        ({"range": {"x": [1, 2], "y": [1, 1]}}, ["b", "a"]),
        ({"range": {"y": [4, None], "x": [None, None]}}, ["d", "e"]),
        ({"disc": {"center": [1, 1], "radius": 1}}, ["b", "a"]),
        ({"disc": {"center": [2, 2], "radius": 0}}, ["c"]),
        ({"half_plane": {"a": [1, 1], "b": 4}}, ["e", "b", "c"]),
        ({"half_plane": {"a": [-1, 0], "b": -5}}, ["d"]),
        ({"simplex": {"points": TRIANGLE}}, ["b", "a"]),
        ({"simplex": {"points": [[2, 2], [2, 2], [2, 2]]}}, ["c"]),
    ],
)
def test_a_subscription_has_a_range_or_a_shape_and_comes_back_as_it_was_said(
    board: AppClient, region: Any, wanted: list[str]
) -> None:
    made = board.put(f"{BOARD}/subscriptions/mine", json={**region, "k": 3})
    assert made.status_code == 201, made.text
    assert ids(made.json()) == wanted
    shown = board.get(f"{BOARD}/subscriptions/mine").json()
    assert shown == made.json()
    box = {"range": {"x": [None, None], "y": [None, None]} | region.get("range", {})}
    assert {name: shown[name] for name in shown if name not in ("id", "seq", "k", "list")} == (
        region if region and "range" not in region else box
    )
    assert board.get(f"{BOARD}/subscriptions").json()["items"] == [
        {name: shown[name] for name in shown if name not in ("seq", "list")}
    ]
    again = board.put(f"{BOARD}/subscriptions/mine", json=shown)
    assert (again.status_code, again.json()) == (200, shown)


@pytest.mark.parametrize(
    ("region", "field"),
    [
        ({"range": {"z": [1, 2]}}, "range.z"),
        ({"range": {"y": [2, 1]}}, "range.y"),
        ({"range": {"y": [2]}}, "range.y"),
        ({"disc": {"center": [1, 1]}}, "disc.radius"),
        ({"disc": {"center": [1, 1], "radius": -1}}, "disc.radius"),
        ({"disc": {"center": [1], "radius": 1}}, "disc.center"),
        ({"disc": {"center": [1, None], "radius": 1}}, "disc.center[1]"),
        ({"disc": None}, "disc"),
        ({"half_plane": {"a": [0, 0], "b": 1}}, "half_plane.a"),
        ({"half_plane": {"a": [0, 1]}}, "half_plane.b"),
        ({"simplex": {"points": TRIANGLE[:2]}}, "simplex.points"),
        ({"simplex": {"points": [*TRIANGLE[:2], [1, True]]}}, "simplex.points[2][1]"),
        ({"disc": {"center": [1, 1], "radius": 1}, "range": {}}, "disc"),
        ({"half_plane": {"a": [0, 1], "b": 1}, "simplex": {"points": TRIANGLE}}, "simplex"),
    ],
)
def test_a_bad_region_is_refused_by_its_field(board: AppClient, region: Any, field: str) -> None:
    one = board.put(f"{BOARD}/subscriptions/mine", json={**region, "k": 3})
    assert (one.status_code, [e["field"] for e in one.json()["errors"]]) == (422, [field])
    good = {"id": "good", "k": 2}
    many = {"subscriptions": [good, {"id": "bad", "k": 2, **region}]}
    refused = board.post(f"{BOARD}/subscriptions", json=many)
    assert [e["field"] for e in refused.json()["errors"]] == [f"subscriptions[1].{field}"]
    skipped = board.post(f"{BOARD}/subscriptions", json={**many, "on_error": "skip"}).json()
    assert [one["id"] for one in skipped["subscriptions"]] == ["good"]
    assert [(e["index"], e["field"]) for e in skipped["errors"]] == [(1, f"subscriptions[1].{field}")]


def test_shapes_are_for_two_attributes(client: AppClient) -> None:
    for names in (["x"], ["x", "y", "z"]):
        at = f"/v1/boards/b{len(names)}"
        client.put(at, json={**CONFIG, "range_attributes": names})
        refused = client.put(f"{at}/subscriptions/s", json={"k": 2, "disc": {"center": [1, 1], "radius": 1}})
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "disc")


def test_a_patch_keeps_what_it_leaves_out(board: AppClient) -> None:
    at = f"{BOARD}/subscriptions/mine"

    def patched(**change: Any) -> Any:
        answer = board.patch(at, json=change)
        assert answer.status_code == 200, answer.text
        assert answer.json() == board.get(at).json()
        return answer.json()

    board.put(at, json={"range": {"x": [1, 2]}, "k": 2})
    assert patched(range={"y": [None, 1]})["range"] == {"x": [1, 2], "y": [None, 1]}
    assert patched(range={"x": [None, 9]})["range"] == {"x": [None, 9], "y": [None, 1]}
    before = patched(range={})["seq"]
    assert patched(disc={"center": [1, 1], "radius": 1})["disc"] == {"center": [1, 1], "radius": 1}
    assert patched(disc={"radius": 2})["disc"] == {"center": [1, 1], "radius": 2}
    assert patched(disc={"center": [2, 2]})["disc"] == {"center": [2, 2], "radius": 2}
    assert patched(k=3)["disc"] == {"center": [2, 2], "radius": 2}
    assert patched(half_plane={"a": [1, 0], "b": 1})["half_plane"] == {"a": [1, 0], "b": 1}
    assert patched(half_plane={"b": 4})["half_plane"] == {"a": [1, 0], "b": 4}
    assert patched(simplex={"points": TRIANGLE})["simplex"] == {"points": TRIANGLE}
    assert patched(range={"y": [0, 1]})["range"] == {"x": [None, None], "y": [0, 1]}
    assert patched(range={"y": [0, 1]})["seq"] == before + 8
    lacking = board.patch(at, json={"disc": {"radius": 2}})
    assert (lacking.status_code, lacking.json()["errors"][0]["field"]) == (422, "disc")
    lacking = board.patch(at, json={"half_plane": {"a": [0, 0]}})
    assert (lacking.status_code, lacking.json()["errors"][0]["field"]) == (422, "half_plane.a")


def test_tiles_name_the_sides_of_their_shape(board: AppClient) -> None:
    asked = [
        {"id": "box", "range": {"x": [1, None]}},
        {"id": "disc", "disc": {"center": [2, 1], "radius": 1}},
        {"id": "half", "half_plane": {"a": [1, 2], "b": 7}},
        {"id": "triangle", "simplex": {"points": TRIANGLE}},
    ]
    board.post(f"{BOARD}/subscriptions", json={"subscriptions": [{**one, "k": 2} for one in asked]})
    answer = board.put(f"{BOARD}/objects/b", json={"values": {"rent": 300}, "payload": {"n": 1}}).json()
    assert answer["tile_count"] == len(answer["tiles"]) == 4
    names = ("box", "disc", "half_plane", "simplex")
    by_shape = {next(name for name in names if name in tile): tile for tile in answer["tiles"]}
    for tile in answer["tiles"]:
        assert (tile["event"], tile["k"]) == (0, 2)
        assert tile["object"] == {
            "id": "b", "values": {"x": 2, "y": 1, "rent": 300}, "created": 1, "payload": {"n": 1}, "gone": False,
        }  # fmt: skip
    sides = by_shape["box"]["box"]
    assert list(sides) == ["x", "y"]
    assert all(len(four) == 4 for four in sides.values())
    (west, east), (south, north) = by_shape["disc"]["disc"]["center"]
    low, high = by_shape["disc"]["disc"]["radius"]
    assert west <= 2 <= east and south <= 1 <= north and low <= 1 <= high
    half = by_shape["half_plane"]["half_plane"]
    assert [len(pair) for pair in (*half["a"], half["b"])] == [2] * 3
    assert [[len(pair) for pair in point] for point in by_shape["simplex"]["simplex"]["points"]] == [[2, 2]] * 3


def test_an_explanation_is_by_shape_and_what_then_happens(board: AppClient) -> None:
    asked = [
        {"id": "box", "range": {"x": [1, None]}},
        {"id": "disc", "disc": {"center": [2, 1], "radius": 1}},
        {"id": "half", "half_plane": {"a": [1, 2], "b": 7}},
        {"id": "triangle", "simplex": {"points": TRIANGLE}},
    ]
    board.post(f"{BOARD}/subscriptions", json={"subscriptions": [{**one, "k": 2} for one in asked]})
    before = board.get(BOARD).json()
    event = {"op": "update", "id": "b", "values": {"rent": 900}}
    answer = board.post(f"{BOARD}/explain", json={"event": event})
    said = answer.json()
    assert ", " not in answer.text and ": " not in answer.text
    assert board.get(BOARD).json() == before
    assert (said["kind"], said["affected"], said["before"]["values"]["rent"]) == ("worse", 4, 500)
    names = ["box", "disc", "half_plane", "simplex"]
    assert [(one["k"], one["shape"]) for one in said["classes"]] == [*((2, name) for name in names), (3, "box")]
    for one in said["classes"][:4]:
        assert (one["reached"], len(one["before"])) == (1, 1)
        assert all(list(area) == [one["shape"]] for area in (*one["before"], *one["after"]))
        assert one["calls"]["fetches"] > 0 and one["calls"]["nodes"] > 0
    disc = said["classes"][1]
    (held,) = disc["before"]
    assert held["disc"]["center"] == [[2, 2], [1, 1]] and held["disc"]["radius"] == [1, 1]
    assert [one["object"]["id"] for one in disc["exposed"]] == ["a"] and disc["after"] == []
    done = board.post(f"{BOARD}/events", json={"events": [event]}).json()
    told = []
    for one in said["classes"]:
        told += one["tiles"]
        for other in one["exposed"]:
            told += [{"k": one["k"], **area, "object": {**other["object"], "gone": False}} for area in other["tiles"]]
    assert told == [{name: tile[name] for name in tile if name != "event"} for tile in done["tiles"]]
    assert said["tile_count"] == done["tile_count"] == len(told)


def test_a_region_says_what_it_costs(board: AppClient) -> None:
    at = f"{BOARD}/subscriptions/mine"
    for region, inside, kth in (
        ({"range": {"x": [1, 2], "y": [1, 1]}}, 2, 700),
        ({"disc": {"center": [2, 2], "radius": 1}}, 2, 600),
        ({"half_plane": {"a": [1, 1], "b": 4}}, 4, 500),
        ({"simplex": {"points": TRIANGLE}}, 2, 700),
        ({"disc": {"center": [9, 9], "radius": 1}}, 0, None),
    ):
        board.put(at, json={**region, "k": 2})
        found = board.get(f"{at}/explain").json()
        assert (found["objects_in_range"], found["kth"]) == (inside, kth), region
        assert found["share"] == (inside / 5 * (1 - (1 - min(2, inside) / inside) ** 2) if inside else 0)
        assert found["bytes"] > 100 and not found["live"]
    assert board.get(f"{BOARD}/subscriptions/nobody/explain").status_code == 404


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"algorithm": "dense"}, "algorithm"),
        ({"epsilon": 1}, "epsilon"),
        ({"event": {"op": "upsert", "id": "z", "values": {"x": 1, "rent": 1}}}, "event.values.y"),
        ({"event": {"op": "delete", "id": "z"}}, "event.id"),
        ({"event": {"op": "update", "id": "b", "values": {"z": 1}}}, "event.values.z"),
    ],
)
def test_what_cannot_be_explained_is_refused_by_its_field(board: AppClient, body: Any, field: str) -> None:
    refused = board.post(f"{BOARD}/explain", json={"event": upsert("b", 1, 1, 1), **body})
    assert (refused.status_code, [e["field"] for e in refused.json()["errors"]]) == (422, [field])


def test_a_batch_tells_the_state_at_its_end(board: AppClient) -> None:
    board.put(f"{BOARD}/subscriptions/mine", json={"disc": {"center": [1, 1], "radius": 2}, "k": 2})
    events = [upsert("a", 1, 1, 100), {"op": "delete", "id": "b"}, {"op": "update", "id": "a", "values": {"rent": 90}}]
    answer = board.post(f"{BOARD}/events", json={"events": events, "mode": "batch"}).json()
    assert (answer["seq"], answer["applied"]) == (9, 3)
    assert {tile["event"] for tile in answer["tiles"]} == {None} and answer["tile_count"] == len(answer["tiles"])
    assert ids(board.get(f"{BOARD}/subscriptions/mine").json()) == ["a", "c"]


def test_the_best_of_a_box_is_asked_for_by_attribute(board: AppClient) -> None:
    assert ids(board.get(f"{BOARD}/top").json()) == ["d", "e", "b"]
    assert ids(board.get(f"{BOARD}/top?l.x=1&r.x=2&r.y=1&k=9").json()) == ["b", "a"]
    for query, field in (
        ("l=1", "l"), ("l.x=2&r.x=1", "l.x"), ("l.y=nan", "l.y"), ("l.x=1&l.x=2", "l.x"), ("l.z=1", "l.z"),
    ):  # fmt: skip
        refused = board.get(f"{BOARD}/top?{query}")
        assert (refused.status_code, [e["field"] for e in refused.json()["errors"]]) == (422, [field])


def test_events_come_as_json_lines_and_arrow_alike(client: AppClient) -> None:
    rows = [upsert("a", 1, 2, 3), upsert("b", 4, 5, 6), {"op": "update", "id": "a", "values": {"y": 7}}]
    columns = {
        "op": ["upsert", "upsert", "update"], "id": ["a", "b", "a"], "x": [1, 4, None], "y": [2, 5, 7],
        "rent": [3, 6, None],
    }  # fmt: skip
    lines = "\n".join(map(json.dumps, rows))
    bodies: list[dict[str, Any]] = [
        {"json": {"events": rows}},
        {"content": lines, "headers": {"content-type": "application/x-ndjson"}},
        {
            "content": arrow(pa.table(columns)),
            "headers": {"content-type": "application/vnd.apache.arrow.stream"},
        },
    ]
    for i, body in enumerate(bodies):
        at = f"/v1/boards/b{i}"
        client.put(at, json=CONFIG)
        answer = client.post(f"{at}/events", **body)
        assert answer.json()["applied"] == 3, answer.text
        assert client.get(f"{at}/objects").json()["items"] == [
            {"id": "a", "values": {"x": 1, "y": 7, "rent": 3}, "created": 0, "payload": None},
            {"id": "b", "values": {"x": 4, "y": 5, "rent": 6}, "created": 1, "payload": None},
        ]
    lacking = client.post("/v1/boards/b0/events", json={"events": [{"op": "upsert", "id": "c", "values": {"x": 1}}]})
    assert [e["field"] for e in lacking.json()["errors"]] == ["events[0].values.y", "events[0].values.rent"]


def test_subscriptions_come_as_lines_and_arrow(board: AppClient) -> None:
    lines = [
        {"id": "l1", "k": 2, "range": {"x": [1, 2]}},
        {"id": "l2", "k": 3, "disc": {"center": [1, 1], "radius": 1.5}},
    ]
    answer = board.post(
        f"{BOARD}/subscriptions?lists=true",
        content="\n".join(map(json.dumps, lines)),
        headers={"content-type": "application/x-ndjson"},
    )
    assert answer.status_code == 201, answer.text
    assert [ids(one) for one in answer.json()["subscriptions"]] == [["b", "c"], ["b", "c", "a"]]
    table = pa.table({"id": ["t1", "t2"], "k": [2, 3], "x_min": [1.0, None], "x_max": [None, 2.0], "y_max": [1, None]})
    kind = {"content-type": "application/vnd.apache.arrow.stream"}
    answer = board.post(f"{BOARD}/subscriptions?lists=false", content=arrow(table), headers=kind)
    assert answer.json()["subscriptions"] == [
        {"id": "t1", "range": {"x": [1, None], "y": [None, 1]}, "k": 2},
        {"id": "t2", "range": {"x": [None, 2], "y": [None, None]}, "k": 3},
    ]
    bad = pa.table({"k": [2], "x_min": [3.0], "x_max": [2.0], "y_min": [float("nan")]})
    refused = board.post(f"{BOARD}/subscriptions", content=arrow(bad), headers=kind)
    fields = [e["field"] for e in refused.json()["errors"]]
    assert fields == ["subscriptions[0].range.x", "subscriptions[0].range.y[0]"]


def test_a_write_is_answered_once(board: AppClient) -> None:
    key = {"Idempotency-Key": "one"}
    body = {"id": "mine", "disc": {"center": [1, 1], "radius": 1}, "k": 2}
    first = board.post(f"{BOARD}/subscriptions", json={"subscriptions": [body]}, headers=key).json()
    again = board.post(f"{BOARD}/subscriptions", json={"subscriptions": [body]}, headers=key).json()
    assert again == {"seq": first["seq"], "subscriptions": [body], "replayed": True}


def test_jobs_take_boards_with_several_attributes(start: Start) -> None:
    """Snapshots and verification as with one attribute; a rebuild passes them over, since nothing is packed."""
    running = start()
    running.make("a")
    running.client.put(BOARD, json=CONFIG)
    running.send("flats", "events", {"events": [upsert(id, *values) for id, values in HOMES.items()]}, 200)
    asked = [{"k": 2, "range": {"x": [1, 2]}}, {"k": 3, "simplex": {"points": TRIANGLE}}]
    running.send("flats", "subscriptions", {"subscriptions": asked}, 201)
    assert running.done("verify", resources=["boards/flats"]) == {
        "compared": 2, "differences": [], "difference_count": 0,
    }  # fmt: skip
    detail = running.done("rebuilds", engine="local")
    assert (detail["passed_over"], detail["rows"]) == (["boards/flats"], 70)
    subscriptions = running.board("flats").painter.subscriptions
    subscriptions.delete_many(subscriptions.class_of(2, "box"), [0])
    found = running.failed("verify", resources=["boards/flats"])
    assert [one["kind"] for one in found["differences"]] == ["subscription"]


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_service_comes_back_with_all_of_it(start: Start, snapshot: bool) -> None:
    running = start()
    running.client.put(BOARD, json=CONFIG)
    events = [upsert(id, *values) for id, values in HOMES.items()]
    running.send("flats", "events", {"events": events[:3]}, 200)
    asked = [
        {"id": "r", "k": 2, "range": {"x": [1, 2]}, "ttl": 3600},
        {"id": "s", "k": 3, "simplex": {"points": TRIANGLE}},
        {"id": "d", "k": 3, "disc": {"center": [1, 1], "radius": 2.5}},
    ]
    running.send("flats", "subscriptions", {"subscriptions": asked}, 201)
    if snapshot:
        running.done("snapshots")
    running.send("flats", "events", {"events": events[3:]}, 200)
    running.client.patch(f"{BOARD}/subscriptions/d", json={"disc": {"radius": 9}})
    running.client.delete(f"{BOARD}/objects/a")
    paths = ("", "/objects", "/subscriptions", "/subscriptions/r", "/subscriptions/s", "/subscriptions/d", "/top?k=9")
    before = [running.client.get(BOARD + path).json() for path in paths]
    running.client.__exit__()
    again = start()
    assert [again.client.get(BOARD + path).json() for path in paths] == before
    assert again.done("verify")["compared"] == 3
    made = again.client.put(f"{BOARD}/objects/f", json={"values": {"x": 1, "y": 1, "rent": 1}})
    assert made.json()["tiles"][0]["object"]["created"] == 5
