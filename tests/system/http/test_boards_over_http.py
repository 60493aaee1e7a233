"""Boards over real HTTP against the brute-force model, and the corners of the wire that histories rarely meet."""

from __future__ import annotations

import json
import os
import threading
from typing import Any

import httpx
import pyarrow as pa
import pytest

from tests.oracles.service import BoardModel, Question, TileReader, apply_changes, covers, plain
from tests.support.live import LiveService
from tests.support.patience import PATIENCE
from tests.system.http.following import SseFollower
from tests.system.http.history import Player
from tests.system.http.talk import ARROW, NDJSON, Json, Talk, arrow, event_table, fresh, ndjson, problem

CONFIG: Json = {"range_attributes": ["distance"], "rank": {"attribute": "delay", "order": "desc"}, "ks": [2, 5]}
SEEDS = range(int(os.environ.get("RANKCAST_TEST_HISTORIES", "2")))
STEPS = 120


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("index", ["range-tree", "kd-tree"])
@pytest.mark.parametrize("algorithm", ["sparse", "dense"])
def test_a_history_is_exact_after_every_step(talk: Talk, algorithm: str, index: str, seed: int) -> None:
    player = Player(talk, seed, ["asc", "desc"][seed % 2], algorithm, index)
    try:
        for _ in range(STEPS):
            player.step()
    except AssertionError:
        print("\n".join(talk.calls))
        raise


def made(talk: Talk, *events: Json, **more: object) -> str:
    """A board with these objects; returns its path."""
    path = f"/v1/boards/{fresh()}"
    talk.good("PUT", path, {**CONFIG, **more})
    if events:
        talk.good("POST", f"{path}/events", {"events": list(events), "messages": "none"})
    return path


def upsert(key: str, x: float, y: float, **more: object) -> Json:
    return {"op": "upsert", "id": key, "values": {"distance": x, "delay": y}, **more}


# --- boards -----------------------------------------------------------------------------------------------------------


def test_defaults_of_a_board(talk: Talk) -> None:
    path = f"/v1/boards/{fresh()}"
    answer = talk.ask("PUT", path, {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [3]})
    assert answer.status_code == 201
    wanted = {"range_attributes": ["x"], "rank": {"attribute": "y", "order": "asc"}, "ks": [3], "algorithm": "sparse"}
    assert covers(answer.json(), {"seq": 0, "epsilon": None, **wanted})


def test_a_k_in_use_stays(talk: Talk) -> None:
    path = made(talk)
    talk.good("PUT", f"{path}/subscriptions/mine", {"k": 5})
    before = talk.state(path.rpartition("/")[2])
    problem(talk.ask("PATCH", path, {"ks": [2]}), 409)
    problem(talk.ask("PUT", path, {**CONFIG, "ks": [2]}), 409)
    assert talk.state(path.rpartition("/")[2]) == before
    assert talk.good("PATCH", path, {"ks": [5]})["ks"] == [5]
    talk.good("DELETE", f"{path}/subscriptions/mine")
    assert talk.good("PATCH", path, {"ks": [2]})["ks"] == [2]


def test_a_board_that_is_made_again_goes_on_counting(talk: Talk) -> None:
    path = made(talk, upsert("a", 1, 1), upsert("b", 1, 1))
    assert talk.good("DELETE", path)["seq"] == 3
    problem(talk.ask("DELETE", path), 404)
    answer = talk.ask("PUT", path, {**CONFIG, "rank": {"attribute": "delay"}})
    assert answer.status_code == 201 and answer.json()["seq"] == 4
    assert talk.good("GET", f"{path}/objects")["items"] == []
    assert talk.good("POST", f"{path}/events", {"events": [upsert("b", 1, 1)]})["seq"] == 5
    assert talk.good("GET", f"{path}/objects/b")["created"] == 0


def test_what_changes_nothing_takes_no_seq(talk: Talk) -> None:
    path = made(talk)
    for body in ({"ks": [5, 2]}, {"algorithm": "sparse"}, {"epsilon": None}, {}):
        assert talk.good("PATCH", path, body)["seq"] == 0
    assert talk.good("PUT", path, {**CONFIG, "algorithm": "sparse", "epsilon": None})["seq"] == 0
    mine = f"{path}/subscriptions/mine"
    assert talk.ask("PUT", mine, {"k": 5, "range": {"distance": [1, None]}, "ttl": 99}).status_code == 201
    same: list[dict[str, Any]] = [{"k": 5}, {"range": {"distance": [1, None]}}, {"range": {}}, {"ttl": 99}, {}]
    for body in same:
        assert talk.good("PATCH", mine, body)["seq"] == 1
    assert talk.good("PUT", mine, {"k": 5, "range": {"distance": [1.0, None]}, "ttl": 99})["seq"] == 1
    assert talk.good("PUT", mine, {"k": 5, "range": {"distance": [1, None]}})["seq"] == 2
    assert "ttl" not in talk.good("GET", mine) or talk.good("GET", mine)["ttl"] is None
    assert talk.good("POST", f"{path}/subscriptions/delete", {"ids": ["nobody"]}) == {"seq": 2, "deleted": 0}
    assert talk.good("POST", f"{path}/events", {"events": []})["seq"] == 2


def test_the_list_of_boards_comes_in_pages(talk: Talk) -> None:
    names = sorted(fresh(prefix) for prefix in ("zz", "Z", "a-", "a.", "_", "1:"))
    for name in names:
        talk.good("PUT", f"/v1/boards/{name}", CONFIG)
    for limit in (1, 5, 1000):
        items = talk.pages("/v1/boards", limit)
        found = [item["name"] if "name" in item else item["id"] for item in items]
        assert found == sorted(found) and set(names) <= set(found)
        assert all("seq" not in item for item in items)
    default = talk.good("GET", "/v1/boards")
    assert len(default["items"]) <= 100


def test_pages_go_on_where_they_were_while_the_list_changes(talk: Talk) -> None:
    path = made(talk, *(upsert(f"o{n:02}", n, n) for n in range(20)))
    first = talk.good("GET", f"{path}/objects", params={"limit": 7})
    assert [item["id"] for item in first["items"]] == [f"o{n:02}" for n in range(7)]
    talk.good("DELETE", f"{path}/objects/o06")
    talk.good("DELETE", f"{path}/objects/o08")
    talk.good("PUT", f"{path}/objects/o07a", {"values": {"distance": 1, "delay": 1}})
    rest = talk.good("GET", f"{path}/objects", params={"limit": 7, "cursor": first["next"]})
    assert [item["id"] for item in rest["items"]] == ["o07", "o07a", *(f"o{n:02}" for n in range(9, 14))]


# --- numbers, ids, payloads -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("-0", "0"),
        ("-0.0", "0"),
        ("5.0", "5"),
        ("5e0", "5"),
        ("9007199254740992", "9007199254740992"),
        ("9007199254740993", "9007199254740992"),
        ("1e300", "1e+300"),
        ("-1e300", "-1e+300"),
        ("0.1", "0.1"),
        ("1e-320", "1e-320"),
        ("123456789.125", "123456789.125"),
    ],
)
def test_numbers_come_back(talk: Talk, written: str, shown: str) -> None:
    path = made(talk)
    body = f'{{"values": {{"distance": {written}, "delay": {written}}}}}'.encode()
    answer = talk.ask("PUT", f"{path}/objects/a", body)
    assert answer.status_code == 201, answer.text
    for raw in (talk.ask("GET", f"{path}/objects/a").text, talk.ask("GET", f"{path}/top").text):
        values = raw[raw.index('"values"') :].replace(" ", "")
        value = float(shown)
        assert json.loads(raw[raw.index("{") :]) and values.startswith('"values":{"distance":')
        text = values.removeprefix('"values":{"distance":').split(",")[0]
        assert float(text) == value and not text.startswith("-0")
        assert ("." in text or "e" in text) == ("." in shown or "e" in shown), text
    mine = talk.ask(
        "PUT", f"{path}/subscriptions/mine", f'{{"k": 2, "range": {{"distance": [{written}, {written}]}}}}'.encode()
    )
    assert [entry["id"] for entry in mine.json()["list"]] == ["a"]


@pytest.mark.parametrize("key", ["a", "...", ".a", "-", ":", "_", "a" * 128, "A.b_c:d-9"])
def test_ids_that_are_allowed(talk: Talk, key: str) -> None:
    path = made(talk)
    assert talk.ask("PUT", f"{path}/objects/{key}", {"values": {"distance": 1, "delay": 1}}).status_code == 201
    assert talk.ask("PUT", f"{path}/subscriptions/{key}", {"k": 2}).status_code == 201
    assert talk.good("GET", f"{path}/objects/{key}")["id"] == key
    assert talk.good("GET", f"{path}/subscriptions/{key}")["list"][0]["id"] == key
    assert talk.ask("PUT", f"/v1/boards/{key}", CONFIG).status_code in (200, 201)


def test_an_id_left_out_is_made_up(talk: Talk) -> None:
    path = made(talk)
    told = talk.good("POST", f"{path}/subscriptions", {"subscriptions": [{"k": 2}, {"id": "mine", "k": 2}, {"k": 5}]})
    ids = [one["id"] for one in told["subscriptions"]]
    assert ids[1] == "mine" and len(set(ids)) == 3
    assert talk.good("GET", f"{path}/subscriptions/{ids[0]}")["k"] == 2
    assert talk.good("GET", f"{path}/subscriptions/{ids[2]}")["k"] == 5
    table = pa.table({"k": pa.array([2, 5], pa.int32())})
    answer = talk.ask("POST", f"{path}/subscriptions", arrow(table), headers={"Content-Type": ARROW})
    assert answer.status_code == 201, answer.text
    assert talk.good("GET", path)["subscriptions"] == 5


def test_payloads_come_everywhere_and_are_replaced_whole(talk: Talk) -> None:
    payload = {
        "to": "IAH",
        "umlaut": "ä\u2028\U0001f600",
        "list": [1, 2.5, None, {"a": {}}],
        "big": 12345678901234567890,
    }
    path = made(talk, upsert("a", 1, 1, payload=payload))
    talk.good("PUT", f"{path}/subscriptions/mine", {"k": 2})
    assert talk.good("GET", f"{path}/objects/a")["payload"] == payload
    assert talk.good("GET", f"{path}/subscriptions/mine")["list"][0]["payload"] == payload
    assert talk.good("GET", f"{path}/top")["list"][0]["payload"] == payload
    told = talk.good("PATCH", f"{path}/objects/a", {"values": {"delay": 2}})
    assert told["tiles"][0]["object"]["payload"] == payload
    told = talk.good("PATCH", f"{path}/objects/a", {"payload": {"only": 1}})
    assert told["tile_count"] == 1 and told["tiles"][0]["object"]["payload"] == {"only": 1}
    assert told["tiles"][0]["object"]["values"] == {"distance": 1, "delay": 2}
    assert talk.good("PATCH", f"{path}/objects/a", {"payload": {"only": 1}})["tile_count"] == 0
    told = talk.good("PATCH", f"{path}/objects/a", {"payload": None})
    assert told["tile_count"] == 1
    assert plain(talk.good("GET", f"{path}/objects/a"))["payload"] is None
    assert talk.good("PATCH", f"{path}/objects/a", {"payload": None})["tile_count"] == 0


def test_a_payload_of_one_that_nobody_sees_is_told_to_nobody(talk: Talk) -> None:
    path = made(talk, *(upsert(f"o{n}", n, n) for n in range(4)))
    talk.good("PUT", f"{path}/subscriptions/mine", {"k": 2})
    assert talk.good("PATCH", f"{path}/objects/o0", {"payload": 1})["tile_count"] == 0
    assert talk.good("PATCH", f"{path}/objects/o3", {"payload": 1})["tile_count"] == 1


# --- events and tiles -------------------------------------------------------------------------------------------------


def test_ties_go_to_the_older_object_and_a_new_one_is_new(talk: Talk) -> None:
    path = made(talk, upsert("b", 1, 7), upsert("a", 2, 7), upsert("c", 3, 7))
    order = lambda: [(e["id"], e["created"]) for e in talk.good("GET", f"{path}/top", params={"k": 9})["list"]]  # noqa: E731
    assert order() == [("b", 0), ("a", 1), ("c", 2)]
    talk.good("POST", f"{path}/events", {"events": [{"op": "delete", "id": "b"}, upsert("b", 1, 7)]})
    assert order() == [("a", 1), ("c", 2), ("b", 3)]
    talk.good("PATCH", f"{path}/objects/a", {"values": {"distance": 9}})
    assert order() == [("a", 1), ("c", 2), ("b", 3)]


def test_skipped_events_use_up_no_numbers(talk: Talk) -> None:
    path = made(talk)
    bad = [
        {"op": "upsert", "id": "n", "values": {"distance": 1}},
        {"op": "delete", "id": "none"},
        {"op": "update", "id": "n"},
    ]
    wrong = {"op": "upsert", "id": "w", "values": {"distance": True, "delay": 1}}
    body = {"events": [bad[0], upsert("a", 1, 1), bad[1], wrong, upsert("b", 1, 1), bad[2]], "on_error": "skip"}
    told = talk.good("POST", f"{path}/events", body)
    assert told["seq"] == 2 and told["applied"] == 2
    fields = sorted(error["field"] for error in told["errors"])
    assert fields == ["events[0].values.delay", "events[2].id", "events[3].values.distance", "events[5].id"]
    assert [item["created"] for item in talk.good("GET", f"{path}/objects")["items"]] == [0, 1]


def test_every_skipped_element_is_listed(talk: Talk) -> None:
    path = made(talk)
    events = [{"op": "delete", "id": f"n{n}"} for n in range(250)]
    told = talk.good("POST", f"{path}/events", {"events": [*events, upsert("a", 1, 1)], "on_error": "skip"})
    assert [error["field"] for error in told["errors"]] == [f"events[{n}].id" for n in range(250)]
    assert told["seq"] == 1
    found = problem(talk.ask("POST", f"{path}/events", {"events": events}), 422)
    assert len(found["errors"]) == 100


def test_subscriptions_far_beyond_the_world(talk: Talk) -> None:
    path = made(talk, ks=[1000, 1])
    talk.good("PUT", f"{path}/subscriptions/all", {"k": 1000})
    talk.good("POST", f"{path}/events", {"events": [upsert(f"o{n}", n % 7, n % 5) for n in range(60)]})
    found = talk.good("GET", f"{path}/subscriptions/all")["list"]
    assert [entry["rank"] for entry in found] == list(range(1, 61))
    assert found == talk.good("GET", f"{path}/top", params={"k": 1000})["list"]


def test_the_largest_k_and_most_of_them(talk: Talk) -> None:
    path = made(talk, ks=[*range(1, 16), 1000])
    assert talk.good("GET", path)["ks"] == [*range(1, 16), 1000]
    problem(talk.ask("PATCH", path, {"ks": list(range(1, 18))}), 422, "ks", exact=False)
    problem(talk.ask("PATCH", path, {"ks": [1001]}), 422, exact=False)
    assert talk.good("GET", f"{path}/top", params={"k": 1000})["list"] == []
    problem(talk.ask("GET", f"{path}/top", params={"k": 1001}), 422, "k")


def test_dense_serves_subscribers_that_the_server_does_not_know(talk: Talk) -> None:
    path = made(talk, algorithm="dense", ks=[2])
    model = BoardModel("distance", "delay", "desc", [2])
    questions = {f"{l}:{r}": Question(l, r, 2) for l in (float("-inf"), 0, 1.5, 2) for r in (2, 2.5, 4, float("inf"))}
    readers = {key: TileReader(model, question, []) for key, question in questions.items()}
    events = [upsert(f"o{n % 5}", (n * 7) % 5, (n * 3) % 4) for n in range(40)]
    events += [{"op": "delete", "id": f"o{n}"} for n in range(5)]
    for event in events:
        tiles = talk.good("POST", f"{path}/events", {"events": [event]})["tiles"]
        model.events([event])
        for key, reader in readers.items():
            reader.take(tiles)
            question = questions[key]
            assert covers(reader.entries, model.best(question.l, question.r, 2)), (event, key)


def test_sparse_tells_nobody_when_nobody_asks(talk: Talk) -> None:
    path = made(talk)
    told = talk.good("POST", f"{path}/events", {"events": [upsert("a", 1, 1)]})
    assert told == {"seq": 1, "applied": 1, "tile_count": 0, "tiles": []}


def test_messages_say_how_much_is_told(talk: Talk) -> None:
    path = made(talk)
    talk.good("PUT", f"{path}/subscriptions/mine", {"k": 2})
    full = talk.good("POST", f"{path}/events", {"events": [upsert("a", 1, 1)], "messages": "full"})
    count = talk.good("POST", f"{path}/events", {"events": [upsert("b", 1, 2)], "messages": "count"})
    none = talk.good("POST", f"{path}/events", {"events": [upsert("c", 1, 3)], "messages": "none"})
    assert full["tile_count"] == 1 and len(full["tiles"]) == 1
    assert count["tile_count"] == 1 and "tiles" not in count
    assert "tiles" not in none and none["seq"] == 4


def test_a_long_answer_is_cut_and_says_so(talk: Talk) -> None:
    path = made(talk, algorithm="dense", ks=[1])
    rising = [upsert(f"o{n}", 0, n) for n in range(500)]
    talk.good("POST", f"{path}/events", {"events": rising, "messages": "none"})
    events = [{"op": "update", "id": f"o{n % 500}", "values": {"delay": 1000 + n}} for n in range(60_000)]
    moves = [{"op": "update", "id": "o1", "values": {"distance": n % 2, "delay": 10**6 + n}} for n in range(30_000)]
    told = talk.good("POST", f"{path}/events", {"events": events + moves})
    assert told["applied"] == 90_000 and told["seq"] == 90_500
    assert told["truncated"] is True and told["tile_count"] > 100_000 and len(told["tiles"]) == 100_000


# --- bulk -------------------------------------------------------------------------------------------------------------


def test_bulk_bodies_are_large_and_whole(talk: Talk) -> None:
    path = made(talk)
    n = 150_000
    table = event_table([upsert(f"o{i}", i % 1000, i % 97) for i in range(n)], ["distance", "delay"], pa.large_string)
    headers = {"Content-Type": ARROW}
    params = {"messages": "count"}
    told = talk.good("POST", f"{path}/events", arrow(table, 40_000), headers=headers, params=params)
    assert told["seq"] == n and told["applied"] == n
    lines = ndjson({"op": "update", "id": f"o{i}", "values": {"delay": i}} for i in range(0, n, 2))
    told = talk.good("POST", f"{path}/events", lines, headers={"Content-Type": NDJSON}, params=params)
    assert told["seq"] == n + n // 2
    best = talk.good("GET", f"{path}/top", params={"k": 3})["list"]
    assert [entry["id"] for entry in best] == [f"o{n - 2}", f"o{n - 4}", f"o{n - 6}"]
    bad = [*table.slice(0, n - 1).to_pylist(), {"op": "delete", "id": "nobody"}]
    spoiled = pa.Table.from_pylist(bad, schema=table.schema)
    before = talk.good("GET", path)
    problem(talk.ask("POST", f"{path}/events", arrow(spoiled, 40_000), headers=headers), 422, f"events[{n - 1}].id")
    assert talk.good("GET", path) == before
    assert [e["id"] for e in talk.good("GET", f"{path}/top", params={"k": 3})["list"]] == [e["id"] for e in best]


def test_many_subscriptions_as_one_arrow_stream(talk: Talk) -> None:
    path = made(talk, upsert("a", 500, 1), upsert("b", 600, 2))
    n = 120_000
    l = [float(i % 1000) for i in range(n)]
    columns = {
        "id": pa.array([f"s{i}" for i in range(n)]),
        "k": pa.array([2 if i % 2 else 5 for i in range(n)], pa.int64()),
        "distance_min": pa.array([None if i % 10 == 0 else v for i, v in enumerate(l)], pa.float64()),
        "distance_max": pa.array([v + 50 for v in l], pa.float64()),
    }
    answer = talk.ask("POST", f"{path}/subscriptions", arrow(pa.table(columns)), headers={"Content-Type": ARROW})
    assert answer.status_code == 201 and answer.json()["seq"] == 2 + n
    assert all("list" not in one for one in answer.json().get("subscriptions", []))
    assert talk.good("GET", path)["subscriptions"] == n
    shown = talk.good("GET", f"{path}/subscriptions/s551")
    assert shown["range"] == {"distance": [551, 601]} and shown["k"] == 2
    assert [entry["id"] for entry in shown["list"]] == ["b"]
    assert talk.good("GET", f"{path}/subscriptions/s550")["range"] == {"distance": [None, 600]}
    told = talk.good("POST", f"{path}/events", {"events": [upsert("c", 575, 3)]})
    assert told["tile_count"] >= 1
    again = talk.ask(
        "POST", f"{path}/subscriptions", arrow(pa.table(columns).slice(5, 5)), headers={"Content-Type": ARROW}
    )
    problem(again, 409, *(f"subscriptions[{i}].id" for i in range(5)))


def test_blank_lines_and_a_missing_last_newline_are_fine_in_ndjson(talk: Talk) -> None:
    path = made(talk)
    one, two = (json.dumps(upsert(key, 1, 1)).encode() for key in "ab")
    told = talk.good("POST", f"{path}/events", b"\n" + one + b"\r\n\n" + two, headers={"Content-Type": NDJSON})
    assert told["applied"] == 2


# --- idempotency ------------------------------------------------------------------------------------------------------


def test_a_repeated_request_is_applied_once(talk: Talk) -> None:
    path = made(talk)
    talk.good("PUT", f"{path}/subscriptions/mine", {"k": 2})
    headers = {"Idempotency-Key": "monday-1"}
    body = {"events": [upsert("a", 1, 1)]}
    first = talk.good("POST", f"{path}/events", body, headers=headers)
    assert first["tile_count"] == 1
    again = talk.good("POST", f"{path}/events", body, headers=headers)
    assert again == {"seq": 2, "applied": 1, "tile_count": 1, "replayed": True}
    problem(talk.ask("POST", f"{path}/events", {"events": [upsert("a", 1, 2)]}, headers=headers), 422)
    problem(talk.ask("POST", f"{path}/events?messages=none", body, headers=headers), 422)
    assert talk.good("GET", path)["seq"] == 2
    refused = {"Idempotency-Key": "monday-2"}
    problem(talk.ask("PATCH", f"{path}/objects/none", {"values": {"delay": 1}}, headers=refused), 404)
    talk.good("PUT", f"{path}/objects/none", {"values": {"distance": 1, "delay": 1}}, headers=refused)
    repeated = talk.ask("PUT", f"{path}/objects/none", {"values": {"distance": 1, "delay": 1}}, headers=refused)
    assert repeated.status_code == 201 and repeated.json()["replayed"] is True


def test_lists_are_not_kept_for_a_replay(talk: Talk) -> None:
    path = made(talk, upsert("a", 1, 1))
    body = {"subscriptions": [{"k": 2}, {"id": "mine", "k": 5}]}
    headers = {"Idempotency-Key": fresh()}
    first = talk.good("POST", f"{path}/subscriptions", body, headers=headers)
    answer = talk.ask("POST", f"{path}/subscriptions", body, headers=headers)
    assert answer.status_code == 201
    again = answer.json()
    assert again["replayed"] is True and again["seq"] == first["seq"]
    assert [one["id"] for one in again["subscriptions"]] == [one["id"] for one in first["subscriptions"]]
    assert all("list" not in one for one in again["subscriptions"])


def test_every_write_takes_an_idempotency_key(talk: Talk) -> None:
    path = f"/v1/boards/{fresh()}"
    calls = [
        ("PUT", path, CONFIG),
        ("PATCH", path, {"ks": [2, 5, 7]}),
        ("PUT", f"{path}/objects/a", {"values": {"distance": 1, "delay": 1}}),
        ("PATCH", f"{path}/objects/a", {"values": {"delay": 2}}),
        ("POST", f"{path}/subscriptions", {"subscriptions": [{"id": "s", "k": 2}]}),
        ("PUT", f"{path}/subscriptions/t", {"k": 2}),
        ("PATCH", f"{path}/subscriptions/t", {"k": 5}),
        ("DELETE", f"{path}/subscriptions/t", None),
        ("POST", f"{path}/subscriptions/delete", {"ids": ["s"]}),
        ("DELETE", f"{path}/objects/a", None),
        ("DELETE", path, None),
    ]
    for seq, (method, where, body) in enumerate(calls):
        headers = {"Idempotency-Key": fresh("every")}
        first = talk.ask(method, where, body, headers=headers)
        again = talk.ask(method, where, body, headers=headers)
        assert first.status_code == again.status_code in (200, 201), first.text
        assert first.json()["seq"] == again.json()["seq"] == seq
        assert again.json()["replayed"] is True


def test_the_same_request_many_times_at_once_is_applied_once(talk: Talk, shared: LiveService) -> None:
    path = made(talk)
    body = ndjson(upsert(f"o{n % 500}", n % 7, n) for n in range(40_000))
    headers = {"Content-Type": NDJSON, "Idempotency-Key": fresh("at-once")}
    answers: list[httpx.Response] = []

    def send() -> None:
        with httpx.Client(base_url=shared.url, timeout=PATIENCE) as client:
            answers.append(client.post(f"{path}/events?messages=none", content=body, headers=headers))

    threads = [threading.Thread(target=send) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    first = [answer for answer in answers if answer.status_code == 200 and "replayed" not in answer.json()]
    assert len(first) == 1 and first[0].json()["seq"] == 40_000
    for answer in answers:
        if answer.status_code == 409:
            problem(answer, 409)
        else:
            assert answer.status_code == 200 and answer.json()["seq"] == 40_000
    assert talk.good("GET", path)["seq"] == 40_000


# --- long writes ------------------------------------------------------------------------------------------------------


def test_reads_and_streams_beside_a_long_write_are_exact(talk: Talk, shared: LiveService) -> None:
    """The i-th event gives object i mod 500 the value i, so the list after any seq is known without a model."""
    n = 150_000
    columns = {
        "op": pa.array(["upsert"] * n),
        "id": pa.array([f"o{i % 500}" for i in range(n)]),
        "distance": pa.array([float(i % 3) for i in range(n)]),
        "delay": pa.array([float(i) for i in range(n)]),
    }
    body = arrow(pa.table(columns), 50_000)
    # Now and then the write is over before a slow machine lets a read in.
    assert any(reads_came_beside(talk, shared, body, n) for _ in range(10)), "no read came in between"


def reads_came_beside(talk: Talk, shared: LiveService, body: bytes, n: int) -> bool:
    """Checks what is read while these events are written to a board of their own; whether any of it was half way."""
    path = made(talk)
    talk.good("PUT", f"{path}/subscriptions/mine", {"k": 5})
    reader = SseFollower(shared.url, f"{path}/subscriptions/mine/stream")
    reader.first()
    told: list[httpx.Response] = []

    def write() -> None:
        with httpx.Client(base_url=shared.url, timeout=PATIENCE) as client:
            headers = {"Content-Type": ARROW}
            told.append(client.post(f"{path}/events?messages=none", content=body, headers=headers))

    def right(seq: int, found: list[Json]) -> bool:
        last = seq - 2
        wanted = [i for i in range(last, last - 5, -1) if i >= 0]
        return [(entry["id"], entry["values"]["delay"]) for entry in found] == [(f"o{i % 500}", i) for i in wanted]

    writer = threading.Thread(target=write)
    writer.start()
    seen = set()
    while writer.is_alive():
        for where in ("top", "subscriptions/mine"):
            answer = talk.good("GET", f"{path}/{where}")
            assert right(answer["seq"], answer["list"]), answer
            seen.add(answer["seq"])
    assert told[0].status_code == 200 and told[0].json()["seq"] == n + 1
    reader.wait(lambda: reader.said[-1].seq == n + 1)
    entries: list[Json] = []
    for said in reader.said:
        changed = said.event == "change"
        entries = apply_changes(entries, said.data["changes"]) if changed else said.data["list"]
        assert right(said.seq, entries), said
    reader.leave()
    return any(1 < seq < n + 1 for seq in seen)


@pytest.mark.parametrize("key", ["", "a b", "ä".encode().decode("latin-1"), "x" * 256])
def test_a_key_that_is_no_key_is_refused(talk: Talk, key: str) -> None:
    path = made(talk)
    raw = {b"Idempotency-Key": key.encode("latin-1")}
    answer = talk.http.put(f"{path}/objects/a", json={"values": {"distance": 1, "delay": 1}}, headers=raw)
    problem(answer, 422, "Idempotency-Key")
    problem(talk.ask("GET", f"{path}/objects/a"), 404)


# --- everywhere -------------------------------------------------------------------------------------------------------


def test_methods_and_paths_that_are_not_there(talk: Talk) -> None:
    path = made(talk)
    for method, where in [
        ("POST", path),
        ("PUT", f"{path}/events"),
        ("DELETE", f"{path}/top"),
        ("PATCH", "/v1/boards"),
    ]:
        answer = talk.ask(method, where, {})
        problem(answer, 405)
        assert answer.headers["allow"]
    for where in ("/v1", "/v2/boards", f"{path}/", f"{path}/nothing", "/v1/boards/"):
        assert talk.ask("GET", where).status_code in (404, 405)


def test_health_and_metrics_are_open(talk: Talk, shared: LiveService) -> None:
    assert talk.ask("GET", "/healthz").status_code == 200
    assert talk.ask("GET", "/readyz").status_code == 200
    metrics = talk.ask("GET", "/metrics")
    assert metrics.status_code == 200 and metrics.headers["content-type"].startswith("text/plain")
    assert httpx.get(f"{shared.url}/healthz", timeout=PATIENCE).status_code == 200
