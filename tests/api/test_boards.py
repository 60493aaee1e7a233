import json
from typing import Any

import httpx
import pyarrow as pa
import pytest

from tests.support.app_client import AppClient
from tests.support.service_fixtures import MakeClient

CONFIG = {"range_attributes": ["distance"], "rank": {"attribute": "delay", "order": "desc"}, "ks": [2, 5]}
BOARD = "/v1/boards/delays"


def upsert(id: str, distance: float, delay: float, **more: Any) -> dict[str, Any]:
    return {"op": "upsert", "id": id, "values": {"distance": distance, "delay": delay}, **more}


def fields(answer: httpx.Response) -> list[str]:
    return [error["field"] for error in answer.json()["errors"]]


@pytest.fixture
def board(client: AppClient) -> AppClient:
    """A service with a board of three objects; its seq is 3."""
    assert client.put(BOARD, json=CONFIG).status_code == 201
    events = [upsert("a", 100, 10), upsert("b", 200, 30, payload={"to": "IAH"}), upsert("c", 300, 20)]
    assert client.post(f"{BOARD}/events", json={"events": events}).json()["seq"] == 3
    return client


# --- boards -----------------------------------------------------------------------------------------------------------


def test_a_board_is_made_shown_and_put_again(client: AppClient) -> None:
    made = client.put(BOARD, json=CONFIG)
    assert made.status_code == 201
    shown = {
        "seq": 0,
        "name": "delays",
        **CONFIG,
        "algorithm": "sparse",
        "epsilon": None,
        "sketch": None,
        "indexed": [],
        "index": "range-tree",
        "zones": None,
        "objects": 0,
        "subscriptions": 0,
    }
    assert made.json() == shown
    assert client.get(BOARD).json() == shown
    again = client.put(BOARD, json=shown)
    assert (again.status_code, again.json()) == (200, shown)


def test_a_put_changes_what_a_patch_may_and_refuses_the_rest(board: AppClient) -> None:
    changed = board.put(BOARD, json={**CONFIG, "ks": [7, 2], "algorithm": "dense"})
    assert changed.status_code == 200
    assert (changed.json()["seq"], changed.json()["ks"], changed.json()["algorithm"]) == (4, [2, 7], "dense")
    refused = board.put(BOARD, json={**CONFIG, "rank": {"attribute": "delay"}})
    assert refused.status_code == 409
    assert refused.json()["type"] == "/problems/different"


def test_a_k_in_use_stays(board: AppClient) -> None:
    board.put(f"{BOARD}/subscriptions/mine", json={"k": 5})
    refused = board.patch(BOARD, json={"ks": [2]})
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/in-use")
    assert board.patch(BOARD, json={"ks": [5]}).json()["ks"] == [5]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"range_attributes": ["a", "b", "c", "d", "e"]}, "range_attributes"),
        ({"range_attributes": ["a", "b", "a"]}, "range_attributes[2]"),
        ({"range_attributes": ["a", "b"], "algorithm": "dense"}, "algorithm"),
        ({"range_attributes": ["a", "b"], "epsilon": 0.5}, "epsilon"),
        ({"range_attributes": ["a", "b"], "index": "range-tree"}, "index"),
        ({"range_attributes": ["delay"]}, "rank.attribute"),
        ({"range_attributes": ["op"]}, "range_attributes[0]"),
        ({"rank": {"attribute": "created"}}, "rank.attribute"),
        ({"ks": [1, 1]}, "ks[1]"),
        ({"ks": [2000]}, "ks[0]"),
        ({"ks": list(range(1, 18))}, "ks"),
        ({"epsilon": 0.3}, "epsilon"),
    ],
)
def test_a_board_that_cannot_be_is_refused(client: AppClient, change: dict[str, Any], field: str) -> None:
    answer = client.put(BOARD, json={**CONFIG, **change})
    assert answer.status_code == 422
    assert fields(answer) == [field]
    assert client.get(BOARD).status_code == 404


def test_boards_come_in_pages(client: AppClient) -> None:
    for name in ("b", "a", "c"):
        client.put(f"/v1/boards/{name}", json=CONFIG)
    page = client.get("/v1/boards?limit=2").json()
    assert [item["name"] for item in page["items"]] == ["a", "b"]
    assert "seq" not in page["items"][0]
    rest = client.get(f"/v1/boards?limit=2&cursor={page['next']}").json()
    assert ([item["name"] for item in rest["items"]], rest["next"]) == (["c"], None)


def test_a_board_made_again_goes_on_counting(board: AppClient) -> None:
    assert board.delete(BOARD).json() == {"seq": 4}
    assert board.get(BOARD).status_code == 404
    assert board.delete(BOARD).status_code == 404
    assert board.put(BOARD, json=CONFIG).json()["seq"] == 5


def test_the_best_of_a_range_is_answered(board: AppClient) -> None:
    answer = board.get(f"{BOARD}/top?l=150&k=1").json()
    entry = {"rank": 1, "id": "b", "values": {"distance": 200, "delay": 30}, "created": 1, "payload": {"to": "IAH"}}
    assert answer == {"seq": 3, "list": [entry]}
    assert [one["id"] for one in board.get(f"{BOARD}/top?r.distance=200").json()["list"]] == ["b", "a"]
    assert board.get(f"{BOARD}/top?l=500").json()["list"] == []


@pytest.mark.parametrize(
    ("query", "field"),
    [("l=5&r=4", "l"), ("l=nan", "l"), ("r=1e301", "r"), ("k=0", "k"), ("k=1001", "k"), ("x=1", "x"), ("l=1&l=2", "l")],
)
def test_a_bad_question_is_refused(board: AppClient, query: str, field: str) -> None:
    answer = board.get(f"{BOARD}/top?{query}")
    assert answer.status_code == 422
    assert fields(answer) == [field]


# --- objects ----------------------------------------------------------------------------------------------------------


def test_events_are_applied_and_answered_with_tiles(board: AppClient) -> None:
    board.put(f"{BOARD}/subscriptions/mine", json={"range": {"distance": [150, 250]}, "k": 2})
    answer = board.post(f"{BOARD}/events", json={"events": [{"op": "update", "id": "b", "values": {"delay": 40}}]})
    told = answer.json()
    assert (told["seq"], told["applied"], told["tile_count"]) == (5, 1, 1)
    tile = told["tiles"][0]
    assert (tile["event"], tile["k"]) == (0, 2)
    values = {"distance": 200, "delay": 40}
    shown = {"id": "b", "values": values, "created": 1, "payload": {"to": "IAH"}, "gone": False}
    assert tile["object"] == shown
    assert tile["l_inner"] >= 150 and tile["r_inner"] <= 250


def test_messages_say_how_much_is_told(board: AppClient) -> None:
    event = {"events": [upsert("d", 1, 1)]}
    assert board.post(f"{BOARD}/events", json={**event, "messages": "none"}).json() == {"seq": 4, "applied": 1}
    counted = board.post(f"{BOARD}/events", json={**event, "messages": "count"}).json()
    assert counted == {"seq": 5, "applied": 1, "tile_count": 0}
    line = json.dumps(event["events"][0]).encode()
    headers = {"content-type": "application/x-ndjson"}
    assert board.post(f"{BOARD}/events?messages=none", content=line, headers=headers).json()["seq"] == 6


def test_one_bad_event_refuses_all(board: AppClient) -> None:
    before = board.get(f"{BOARD}/objects").json()
    events = [upsert("d", 1, 1), {"op": "update", "id": "nobody"}, upsert("e", 1, 1)]
    answer = board.post(f"{BOARD}/events", json={"events": events})
    assert answer.status_code == 422
    assert fields(answer) == ["events[1].id"]
    assert board.get(f"{BOARD}/objects").json() == before


def test_skipped_events_are_told_by_their_place(board: AppClient) -> None:
    bad = {"op": "update", "id": "b", "values": {"delay": "x"}}
    events = [bad, upsert("d", 1, 1), {"op": "delete", "id": "nobody"}, {"op": "update", "id": "d"}]
    told = board.post(f"{BOARD}/events", json={"events": events, "on_error": "skip", "messages": "none"}).json()
    assert (told["seq"], told["applied"]) == (5, 2)
    assert [(error["index"], error["field"]) for error in told["errors"]] == [
        (0, "events[0].values.delay"),
        (2, "events[2].id"),
    ]


def test_an_object_lives_by_itself(board: AppClient) -> None:
    one = f"{BOARD}/objects/d"
    made = board.put(one, json={"values": {"distance": 1, "delay": 2}})
    assert (made.status_code, made.json()["seq"]) == (201, 4)
    assert board.put(one, json={"values": {"delay": 3}, "payload": [1]}).status_code == 200
    shown = {"seq": 5, "id": "d", "values": {"distance": 1, "delay": 3}, "created": 3, "payload": [1]}
    assert board.get(one).json() == shown
    assert board.put(one, json=shown).status_code == 200
    assert board.patch(one, json={"payload": None}).json()["seq"] == 7
    assert board.get(one).json()["payload"] is None
    assert board.delete(one).json()["seq"] == 8
    assert board.get(one).status_code == board.delete(one).status_code == board.patch(one, json={}).status_code == 404


def test_objects_are_listed_as_get_shows_them(board: AppClient) -> None:
    listed = board.get(f"{BOARD}/objects").json()
    assert [item["payload"] for item in listed["items"]] == [None, {"to": "IAH"}, None]
    for item in listed["items"]:
        assert {"seq": listed["seq"], **item} == board.get(f"{BOARD}/objects/{item['id']}").json()


def test_a_new_object_needs_all_values(board: AppClient) -> None:
    answer = board.put(f"{BOARD}/objects/d", json={"values": {"distance": 1}})
    assert answer.status_code == 422
    assert fields(answer) == ["values.delay"]


def test_numbers_come_back_as_they_went_in(board: AppClient) -> None:
    board.put(f"{BOARD}/objects/d", json={"values": {"distance": -0.0, "delay": 2**53}})
    assert '"values":{"distance":0,"delay":9007199254740992}' in board.get(f"{BOARD}/objects/d").text


# --- subscriptions ----------------------------------------------------------------------------------------------------


def test_subscriptions_are_made_with_their_lists(board: AppClient) -> None:
    wanted: list[dict[str, Any]] = [{"id": "mine", "range": {"distance": [150, None]}, "k": 2, "ttl": 60}, {"k": 5}]
    answer = board.post(f"{BOARD}/subscriptions", json={"subscriptions": wanted})
    assert answer.status_code == 201
    told = answer.json()
    assert told["seq"] == 5
    mine, other = told["subscriptions"]
    assert {key: mine[key] for key in wanted[0]} == wanted[0]
    assert [entry["id"] for entry in mine["list"]] == ["b", "c"]
    assert [entry["id"] for entry in other["list"]] == ["b", "c", "a"]
    assert board.get(f"{BOARD}/subscriptions/{other['id']}").json() == {"seq": 5, **other}
    bare = board.post(f"{BOARD}/subscriptions", json={"subscriptions": [{"k": 2}], "lists": False}).json()
    assert "list" not in bare["subscriptions"][0]


def test_a_subscription_is_put_patched_and_deleted(board: AppClient) -> None:
    one = f"{BOARD}/subscriptions/mine"
    made = board.put(one, json={"range": {"distance": [0, 250]}, "k": 2})
    assert (made.status_code, made.json()["seq"]) == (201, 4)
    assert board.put(one, json=made.json()).json() == made.json()
    moved = board.patch(one, json={"range": {"distance": [250, 300]}}).json()
    assert (moved["seq"], moved["k"], [entry["id"] for entry in moved["list"]]) == (5, 2, ["c"])
    assert board.patch(one, json={"ttl": 9}).json()["ttl"] == 9
    assert "ttl" not in board.patch(one, json={"ttl": None}).json()
    assert board.put(one, json={"k": 5}).json()["range"] == {"distance": [None, None]}
    assert board.delete(one).json() == {"seq": 9}
    assert board.get(one).status_code == board.delete(one).status_code == 404
    assert board.patch(one, json={"k": 2}).status_code == 404


def test_taken_ids_and_unknown_ks_are_refused(board: AppClient) -> None:
    board.put(f"{BOARD}/subscriptions/mine", json={"k": 2})
    path = f"{BOARD}/subscriptions"
    taken = board.post(path, json={"subscriptions": [{"k": 2}, {"id": "mine", "k": 2}]})
    assert (taken.status_code, fields(taken)) == (409, ["subscriptions[1].id"])
    both = board.post(path, json={"subscriptions": [{"id": "mine", "k": 2}, {"k": 3}]})
    assert both.status_code == 422
    assert "subscriptions[1].k" in fields(both)
    one = board.put(f"{path}/mine", json={"k": 3})
    assert (one.status_code, fields(one)) == (422, ["k"])


def test_skipped_subscriptions_are_told_by_their_place(board: AppClient) -> None:
    wanted = [{"k": 3}, {"id": "x", "k": 2}, {"k": "2"}, {"id": "x", "k": 2}, {"id": "y", "k": 5}]
    told = board.post(f"{BOARD}/subscriptions", json={"subscriptions": wanted, "on_error": "skip"}).json()
    assert [(one["index"], one["id"]) for one in told["subscriptions"]] == [(1, "x"), (4, "y")]
    assert [(error["index"], error["field"].partition(".")[2]) for error in told["errors"]] == [
        (0, "k"),
        (2, "k"),
        (3, "id"),
    ]


def test_nothing_to_skip_is_told_as_such(board: AppClient) -> None:
    told = board.post(f"{BOARD}/subscriptions", json={"subscriptions": [], "on_error": "skip"}).json()
    assert told == {"seq": 3, "errors": [], "error_count": 0, "subscriptions": []}


def test_a_long_answer_names_every_subscription(board: AppClient) -> None:
    n = 3000
    lows = [None if i % 7 == 0 else i / 4 for i in range(n)]
    table = pa.table(
        {
            "id": [f"s{i}" for i in range(n)],
            "k": pa.array([2, 5] * (n // 2)),
            "distance_min": lows,
            "distance_max": pa.array([1e15 + i if i % 2 else None for i in range(n)], pa.float64()),
            "ttl": pa.array([60.5 if i == 8 else None for i in range(n)], pa.float64()),
        }
    )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    headers = {"content-type": "application/vnd.apache.arrow.stream"}
    told = board.post(f"{BOARD}/subscriptions", content=bytes(sink.getvalue()), headers=headers).json()
    assert told["seq"] == 3 + n
    found = told["subscriptions"]
    assert [one["id"] for one in found] == table["id"].to_pylist()
    assert found[9] == {"id": "s9", "range": {"distance": [2.25, 10**15 + 9]}, "k": 5}
    assert found[8] == {"id": "s8", "range": {"distance": [2, None]}, "k": 2, "ttl": 60.5}
    one = board.get(f"{BOARD}/subscriptions/s8").json()
    assert one["range"] == found[8]["range"]


def test_many_subscriptions_are_deleted_at_once(board: AppClient) -> None:
    board.post(f"{BOARD}/subscriptions", json={"subscriptions": [{"id": i, "k": 2} for i in "pqr"]})
    answer = board.post(f"{BOARD}/subscriptions/delete", json={"ids": ["p", "nobody", "r", "p"]})
    assert answer.json() == {"seq": 8, "deleted": 2}
    left = board.get(f"{BOARD}/subscriptions").json()
    assert left == {"seq": 8, "items": [{"id": "q", "range": {"distance": [None, None]}, "k": 2}], "next": None}


# --- every write ------------------------------------------------------------------------------------------------------


def test_a_retry_gets_the_first_answer(make_client: MakeClient) -> None:
    client = make_client()
    client.put(BOARD, json=CONFIG)
    headers = {"idempotency-key": "once"}
    body = {"events": [upsert("a", 1, 1)]}
    assert client.post(f"{BOARD}/events", json=body, headers=headers).json()["seq"] == 1
    again = client.post(f"{BOARD}/events", json=body, headers=headers)
    assert again.json() == {"seq": 1, "applied": 1, "tile_count": 0, "replayed": True}
    other = client.post(f"{BOARD}/events", json={"events": []}, headers=headers)
    assert other.json()["type"] == "/problems/key-reused"
    assert client.get(BOARD).json()["seq"] == 1


def test_a_refusal_frees_the_key(board: AppClient) -> None:
    headers = {"idempotency-key": "once"}
    one = f"{BOARD}/subscriptions/mine"
    assert board.put(one, json={"k": 3}, headers=headers).status_code == 422
    assert board.put(one, json={"k": 2}, headers=headers).status_code == 201
    replayed = board.put(one, json={"k": 2}, headers=headers)
    assert replayed.status_code == 201
    assert replayed.json() == {
        "seq": 4,
        "id": "mine",
        "range": {"distance": [None, None]},
        "k": 2,
        "replayed": True,
    }


def test_scopes_are_asked_for(board: AppClient) -> None:
    keys = "/v1/admin/keys"
    admin = board.post(keys, json={"name": "a", "scopes": ["admin"]}).json()["key"]
    auth = {"authorization": f"Bearer {admin}"}
    reader = board.post(keys, json={"name": "r", "scopes": ["boards:read"]}, headers=auth).json()["key"]
    see = {"authorization": f"Bearer {reader}"}
    assert board.get(BOARD).status_code == 401
    assert board.get(BOARD, headers=see).status_code == 200
    assert board.delete(BOARD, headers=see).status_code == 403
    assert board.put("/v1/boards/a b", content=b"{", headers=see).status_code == 403


# --- batches ----------------------------------------------------------------------------------------------------------


def test_a_batch_is_told_as_one(board: AppClient) -> None:
    board.put(f"{BOARD}/subscriptions/all", json={"k": 2})
    events = [upsert("a", 100, 99), upsert("a", 100, 5), {"op": "delete", "id": "b"}, upsert("d", 50, 7)]
    told = board.post(f"{BOARD}/events", json={"events": events, "mode": "batch"}).json()
    assert (told["seq"], told["applied"], told["tile_count"]) == (8, 4, 2)
    assert [(tile["event"], tile["object"]["id"], tile["object"]["gone"]) for tile in told["tiles"]] == [
        (None, "b", True),
        (None, "d", False),
    ]
    shown = board.get(f"{BOARD}/subscriptions/all").json()
    assert [entry["id"] for entry in shown["list"]] == ["c", "d"] and shown["seq"] == 8


def test_a_refused_batch_changes_nothing(board: AppClient) -> None:
    events = [upsert("a", 100, 99), {"op": "delete", "id": "nobody"}]
    answer = board.post(f"{BOARD}/events", json={"events": events, "mode": "batch"})
    assert answer.status_code == 422 and fields(answer) == ["events[1].id"]
    assert board.get(BOARD).json()["seq"] == 3
    skipped = board.post(f"{BOARD}/events", json={"events": events, "mode": "batch", "on_error": "skip"}).json()
    assert skipped["applied"] == 1 and [error["index"] for error in skipped["errors"]] == [1]


def test_a_batch_said_again_answers_as_before(board: AppClient) -> None:
    board.put(f"{BOARD}/subscriptions/all", json={"k": 2})
    body, headers = {"events": [upsert("a", 100, 99)], "mode": "batch"}, {"Idempotency-Key": "one"}
    first = board.post(f"{BOARD}/events", json=body, headers=headers).json()
    again = board.post(f"{BOARD}/events", json=body, headers=headers).json()
    assert again == {"seq": first["seq"], "applied": 1, "tile_count": first["tile_count"], "replayed": True}


def test_epsilon_is_one_over_a_whole_number(client: AppClient) -> None:
    made = client.put(BOARD, json={**CONFIG, "epsilon": 1 / 3})
    assert made.status_code == 201 and made.json()["epsilon"] == 1 / 3
    assert client.put(BOARD, json={**CONFIG, "epsilon": 1 / 3}).json()["seq"] == 0
    assert client.patch(BOARD, json={"ks": [2, 5]}).json()["epsilon"] == 1 / 3
    assert client.patch(BOARD, json={"epsilon": 0.5}).json()["epsilon"] == 0.5
    for wrong in (0, 0.3, 2, -1, "1", 1e-9):
        assert fields(client.patch(BOARD, json={"epsilon": wrong})) == ["epsilon"]
    assert client.patch(BOARD, json={"epsilon": None}).json()["epsilon"] is None
