"""Subscriptions to a window of ranks, over HTTP: behind the first `offset` objects, and only those."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from app.main import create_app
from app.settings import Settings
from tests.support.app_client import AppClient
from tests.support.service_fixtures import URL

CONFIG = {"range_attributes": ["distance"], "rank": {"attribute": "delay", "order": "desc"}, "ks": [2, 5]}
BOARD = "/v1/boards/delays"
MANY = f"{BOARD}/subscriptions"
MINE = f"{MANY}/mine"


@pytest.fixture
def board(client: AppClient) -> AppClient:
    """A board of seven objects, o0 the best; its seq is 7."""
    assert client.put(BOARD, json=CONFIG).status_code == 201
    events = [{"op": "upsert", "id": f"o{i}", "values": {"distance": 100 * i, "delay": 70 - 10 * i}} for i in range(7)]
    assert client.post(f"{BOARD}/events", json={"events": events}).json()["seq"] == 7
    return client


def ranks(shown: dict[str, Any]) -> list[tuple[int, str]]:
    return [(entry["rank"], entry["id"]) for entry in shown["list"]]


def errors(answer: Any) -> list[tuple[str, str]]:
    assert answer.status_code == 422, answer.text
    return [(error["field"], error["reason"]) for error in answer.json()["errors"]]


def test_a_subscription_shows_the_ranks_behind_its_offset(board: AppClient) -> None:
    made = board.put(MINE, json={"k": 2, "offset": 3})
    assert made.status_code == 201
    shown = made.json()
    assert (shown["seq"], shown["k"], shown["offset"], ranks(shown)) == (8, 2, 3, [(4, "o3"), (5, "o4")])
    assert board.get(MINE).json() == shown
    assert board.put(MINE, json=shown).json() == shown
    listed = board.get(MANY).json()["items"]
    assert listed == [{"id": "mine", "range": {"distance": [None, None]}, "k": 2, "offset": 3}]


def test_an_offset_of_nothing_is_not_shown_and_a_put_without_one_takes_it_away(board: AppClient) -> None:
    assert "offset" not in board.put(MINE, json={"k": 5, "offset": 0}).json()
    assert board.put(MINE, json={"k": 5}).json()["seq"] == 8
    board.put(MINE, json={"k": 1, "offset": 4})
    shown = board.put(MINE, json={"k": 5}).json()
    assert (shown.get("offset"), len(shown["list"]), shown["list"][0]["rank"]) == (None, 5, 1)


def test_a_patch_changes_either_number_and_leaves_the_other(board: AppClient) -> None:
    board.put(MINE, json={"k": 1, "offset": 1})
    shown = board.patch(MINE, json={"offset": 4}).json()
    assert (shown["seq"], shown["k"], ranks(shown)) == (9, 1, [(5, "o4")])
    assert board.patch(MINE, json={"offset": 4}).json()["seq"] == 9
    assert errors(board.patch(MINE, json={"k": 2})) == [("k", "offset + k is 6, and this board offers k = 2, 5")]
    assert errors(board.patch(MINE, json={"offset": 2})) == [
        ("offset", "offset + k is 3, and this board offers k = 2, 5")
    ]
    shown = board.patch(MINE, json={"offset": 0, "k": 5, "range": {"distance": [400, None]}}).json()
    assert ranks(shown) == [(1, "o4"), (2, "o5"), (3, "o6")]


def test_many_are_made_in_every_kind_of_body(board: AppClient) -> None:
    wanted: list[dict[str, Any]] = [
        {"id": "a", "k": 2, "offset": 3},
        {"id": "b", "k": 5},
        {"id": "c", "k": 1, "offset": 1},
    ]
    made = board.post(MANY, json={"subscriptions": wanted}).json()
    assert [ranks(one) for one in made["subscriptions"]] == [
        [(4, "o3"), (5, "o4")],
        [(rank, f"o{rank - 1}") for rank in range(1, 6)],
        [(2, "o1")],
    ]
    assert [one.get("offset") for one in made["subscriptions"]] == [3, None, 1]
    lines = "\n".join(json.dumps({**one, "id": one["id"] * 2}) for one in wanted)
    options: dict[str, Any] = {"headers": {"content-type": "application/x-ndjson"}, "params": {"lists": "false"}}
    made = board.post(MANY, content=lines, **options).json()
    assert [(one["id"], one["k"], one.get("offset")) for one in made["subscriptions"]] == [
        ("aa", 2, 3),
        ("bb", 5, None),
        ("cc", 1, 1),
    ]
    table = pa.table({"id": ["x", "y"], "k": [2, 5], "offset": [3, None]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    body = bytes(sink.getvalue())
    made = board.post(MANY, content=body, headers={"content-type": "application/vnd.apache.arrow.stream"}).json()
    assert [len(one["list"]) for one in made["subscriptions"]] == [2, 5]


def test_an_offset_that_reaches_past_what_is_offered_is_named(board: AppClient) -> None:
    wanted = [{"k": 5, "offset": 5}, {"k": 4}, {"k": 5, "offset": -1}]
    assert [field for field, _ in errors(board.post(MANY, json={"subscriptions": wanted}))] == [
        "subscriptions[2].offset"
    ]
    assert errors(board.post(MANY, json={"subscriptions": wanted[:2]})) == [
        ("subscriptions[0].offset", "offset + k is 10, and this board offers k = 2, 5"),
        ("subscriptions[1].k", "this board offers k = 2, 5"),
    ]
    assert board.get(BOARD).json()["seq"] == 7


def test_a_class_that_an_offset_needs_stays(board: AppClient) -> None:
    board.put(MINE, json={"k": 1, "offset": 4})
    assert board.patch(BOARD, json={"ks": [1, 2]}).status_code == 409
    assert board.patch(BOARD, json={"ks": [5]}).status_code == 200


def test_the_best_of_a_range_may_begin_behind_an_offset(board: AppClient) -> None:
    answer = board.get(f"{BOARD}/top?offset=3&k=2&l=100").json()
    assert ranks(answer) == [(4, "o4"), (5, "o5")]
    assert ranks(board.get(f"{BOARD}/top?offset=7").json()) == []
    assert board.get(f"{BOARD}/top?offset=0").json() == board.get(f"{BOARD}/top").json()
    for text in ("-1", "1.0", "x", "", "01", "9999999999"):
        assert [field for field, _ in errors(board.get(f"{BOARD}/top?offset={text}"))] == ["offset"]
    assert errors(board.get(f"{BOARD}/top?k=1000&offset=1")) == [("offset", "offset + k must be at most 1000")]


def test_offsets_outlive_the_service(tmp_path: Path) -> None:
    settings = Settings(data=tmp_path / "data")
    with AppClient(create_app(settings), base_url=URL) as first:
        first.put(BOARD, json=CONFIG)
        first.put(MINE, json={"k": 1, "offset": 1})
        first.post(MANY, json={"subscriptions": [{"id": "many", "k": 3, "offset": 2}]})
        before = first.get(MANY).json()
    assert [(one["k"], one["offset"]) for one in before["items"]] == [(3, 2), (1, 1)]
    with AppClient(create_app(settings), base_url=URL) as second:
        assert second.get(MANY).json() == before
