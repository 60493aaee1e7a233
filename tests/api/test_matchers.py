import asyncio
import json
import math
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from app.api.matchers.context import MatcherContext
from app.api.matchers.routes import match
from app.errors import LogUnavailable
from app.main import create_app
from app.settings import Settings
from app.write_path.committing import Committer
from indexes.matchers.commands import SetSubscription
from indexes.matchers.config import MatcherConfig
from tests.support.app_client import AppClient
from tests.support.service_fixtures import URL, MakeClient

ADS = "/v1/matchers/ads"
JOBS = "/v1/matchers/jobs"
RELAXED = {"dimensions": ["age", "credit"], "mode": "relaxed"}
EXACT = {"dimensions": ["pay", "days"], "mode": "exact"}
A1 = {"id": "a1", "intervals": {"age": [20, 35], "credit": [400, 500]}, "weights": {"age": 0.7, "credit": 0.3}}
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


def won(answer: httpx.Response) -> list[list[tuple[str, float]]]:
    assert answer.status_code == 200, answer.text
    return [[(one["id"], one["score"]) for one in result["winners"]] for result in answer.json()["results"]]


@pytest.fixture
def ads(client: AppClient) -> AppClient:
    """A service with a relaxed matcher of three subscriptions; its seq is 3."""
    assert client.put(ADS, json=RELAXED).status_code == 201
    a2 = {"id": "a2", "intervals": {"age": [None, 30]}, "weights": {"age": 1.5}}
    a3 = {"id": "a3", "intervals": {"age": [None, None], "credit": [450, None]}, "weights": {"age": 0.2, "credit": 0.5}}
    assert client.post(f"{ADS}/subscriptions", json={"subscriptions": [A1, a2, a3]}).json()["seq"] == 3
    return client


@pytest.fixture
def jobs(client: AppClient) -> AppClient:
    """A service with an exact matcher of two subscriptions; its seq is 2."""
    assert client.put(JOBS, json=EXACT).status_code == 201
    found = [{"id": "j1", "intervals": {"pay": [50, None]}, "score": 2}, {"id": "j2", "score": 2.5}]
    assert client.post(f"{JOBS}/subscriptions", json={"subscriptions": found}).json()["seq"] == 2
    return client


# --- matchers ---------------------------------------------------------------------------------------------------------


def test_a_matcher_is_made_shown_listed_and_put_again(client: AppClient) -> None:
    shown = {"seq": 0, "name": "ads", **RELAXED, "combine": "sum", "index": "auto", "subscriptions": 0}
    made = client.put(ADS, json=RELAXED)
    assert (made.status_code, made.json()) == (201, shown)
    assert client.get(ADS).json() == shown
    again = client.put(ADS, json=shown)
    assert (again.status_code, again.json()) == (200, shown)
    exact = client.put(JOBS, json=EXACT).json()
    assert exact["combine"] is None
    assert client.put(JOBS, json=exact).status_code == 200
    listed = client.get("/v1/matchers").json()
    assert [item["name"] for item in listed["items"]] == ["ads", "jobs"]
    assert "seq" not in listed["items"][0]


def test_another_configuration_is_refused(ads: AppClient) -> None:
    for change, field in (
        ({"dimensions": ["credit", "age"]}, "dimensions"),
        ({"mode": "exact"}, "mode"),
        ({"combine": "max"}, "combine"),
        ({"index": "ir"}, "index"),
    ):
        refused = ads.put(ADS, json={**RELAXED, **change})
        assert (refused.status_code, refused.json()["type"]) == (409, "/problems/different")
        assert field in fields(refused)
    assert ads.get(ADS).json()["seq"] == 3


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"dimensions": []}, "dimensions"),
        ({"dimensions": [f"d{i}" for i in range(17)]}, "dimensions"),
        ({"dimensions": ["age", "age"]}, "dimensions[1]"),
        ({"dimensions": ["age", "payload"]}, "dimensions[1]"),
        ({"dimensions": ["a b"]}, "dimensions[0]"),
        ({"mode": "fuzzy"}, "mode"),
        ({"mode": None}, "mode"),
        ({"combine": "min"}, "combine"),
        ({"combine": "sum", "mode": "exact"}, "combine"),
        ({"index": "b-tree"}, "index"),
        ({"more": 1}, "more"),
    ],
)
def test_a_bad_configuration_is_named(client: AppClient, change: dict[str, Any], field: str) -> None:
    refused = client.put(ADS, json={**RELAXED, **change})
    assert (refused.status_code, fields(refused)) == (422, [field])
    assert client.get(ADS).status_code == 404


def test_a_matcher_made_again_goes_on_with_its_seq(ads: AppClient) -> None:
    assert ads.delete(ADS).json() == {"seq": 4}
    for answer in (ads.get(ADS), ads.delete(ADS), ads.post(f"{ADS}/match", json={"events": []})):
        assert (answer.status_code, fields(answer)) == (404, ["matcher"])
    made = ads.put(ADS, json=EXACT)
    assert (made.status_code, made.json()["seq"], made.json()["subscriptions"]) == (201, 5, 0)


def test_boards_and_matchers_of_one_name_are_two(ads: AppClient) -> None:
    board = {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [1]}
    assert ads.put("/v1/boards/ads", json=board).json()["seq"] == 0
    assert ads.delete("/v1/boards/ads").status_code == 200
    assert ads.get(ADS).json()["subscriptions"] == 3


# --- subscriptions ----------------------------------------------------------------------------------------------------


def test_subscriptions_are_answered_whole_and_taken_back_by_put(ads: AppClient) -> None:
    shown = ads.get(f"{ADS}/subscriptions/a1").json()
    assert shown == {"seq": 3, **A1}
    again = ads.put(f"{ADS}/subscriptions/a1", json=shown)
    assert (again.status_code, again.json()) == (200, shown)
    made = ads.put(f"{ADS}/subscriptions/a9", json={**A1, "id": "a9", "ttl": 60})
    assert (made.status_code, made.json()) == (201, {"seq": 4, **A1, "id": "a9", "ttl": 60})
    changed = ads.put(f"{ADS}/subscriptions/a9", json={"intervals": {}})
    assert (changed.status_code, changed.json()) == (200, {"seq": 5, "id": "a9", "intervals": {}, "weights": {}})


def test_exact_subscriptions_have_a_score(jobs: AppClient) -> None:
    assert jobs.get(f"{JOBS}/subscriptions/j1").json() == {
        "seq": 2,
        "id": "j1",
        "intervals": {"pay": [50, None]},
        "score": 2,
    }
    assert jobs.patch(f"{JOBS}/subscriptions/j2", json={"score": 3.5, "intervals": {"days": [1, 5]}}).json() == {
        "seq": 3,
        "id": "j2",
        "intervals": {"days": [1, 5]},
        "score": 3.5,
    }
    taken_out = jobs.patch(f"{JOBS}/subscriptions/j2", json={"intervals": {"days": None}}).json()
    assert (taken_out["seq"], taken_out["intervals"]) == (4, {})


def test_a_patch_merges_by_dimension(ads: AppClient) -> None:
    one = f"{ADS}/subscriptions/a1"
    assert ads.patch(one, json={"weights": {"age": 0.9}}).json() == {
        "seq": 4,
        **A1,
        "weights": {"age": 0.9, "credit": 0.3},
    }
    assert ads.patch(one, json={"intervals": {"credit": [None, 7]}}).json()["intervals"] == {
        "age": [20, 35],
        "credit": [None, 7],
    }
    without = ads.patch(one, json={"intervals": {"age": None}, "ttl": 60}).json()
    assert (without["intervals"], without["weights"], without["ttl"]) == ({"credit": [None, 7]}, {"credit": 0.3}, 60)
    back = ads.patch(
        one, json={"intervals": {"age": [1, 2]}, "weights": {"age": 0, "credit": None}, "ttl": None}
    ).json()
    assert back == {"seq": 7, "id": "a1", "intervals": {"age": [1, 2]}, "weights": {"age": 0}}
    assert ads.patch(one, json={}).json()["seq"] == 7, "what changes nothing takes no seq"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"intervals": {"age": [5, 1]}}, "intervals.age"),
        ({"intervals": {"age": [5, True]}}, "intervals.age[1]"),
        ({"intervals": {"age": [5]}}, "intervals.age"),
        ({"intervals": {"speed": [5, 6]}}, "intervals.speed"),
        ({"intervals": {"age": [5, 1e301]}}, "intervals.age[1]"),
        ({"weights": {"age": -1}}, "weights.age"),
        ({"weights": {"age": "1"}}, "weights.age"),
        ({"weights": {"speed": 1}}, "weights.speed"),
        ({"score": 1}, "score"),
        ({"ttl": 0}, "ttl"),
        ({"more": 1}, "more"),
    ],
)
def test_a_bad_field_is_named_and_nothing_changed(ads: AppClient, change: dict[str, Any], field: str) -> None:
    one = f"{ADS}/subscriptions/a1"
    before = ads.get(one).json()
    refused = ads.patch(one, json=change)
    assert (refused.status_code, fields(refused)) == (422, [field])
    assert ads.get(one).json() == before
    whole = {key: {**A1.get(key, {}), **value} if isinstance(value, dict) else value for key, value in change.items()}  # type: ignore[dict-item]
    body = {**A1, **whole}
    for answer, prefix in (
        (ads.put(one, json=body), ""),
        (ads.put(f"{ADS}/subscriptions/new", json={**body, "id": "new"}), ""),
        (ads.post(f"{ADS}/subscriptions", json={"subscriptions": [{**A1, "id": "x"}, {**body, "id": "y"}]}), "many"),
    ):
        assert answer.status_code == 422
        assert f"subscriptions[1].{field}" in fields(answer) if prefix else field in fields(answer)
    assert ads.get(ADS).json() == {
        "seq": 3,
        "name": "ads",
        **RELAXED,
        "combine": "sum",
        "index": "auto",
        "subscriptions": 3,
    }


def test_weights_go_with_intervals(ads: AppClient) -> None:
    for body, wrong in (
        ({"intervals": {"age": [1, 2]}}, ["weights.age"]),
        ({"weights": {"age": 1}}, ["weights.age"]),
        ({"intervals": {"age": [1, 2]}, "weights": {"credit": 1}}, ["weights.age", "weights.credit"]),
    ):
        assert fields(ads.put(f"{ADS}/subscriptions/b", json=body)) == wrong
        refused = ads.post(f"{ADS}/subscriptions", json={"subscriptions": [body]})
        assert (refused.status_code, fields(refused)) == (422, [f"subscriptions[0].{field}" for field in wrong])
    assert fields(ads.patch(f"{ADS}/subscriptions/a2", json={"weights": {"credit": 1}})) == ["weights.credit"]
    assert fields(ads.patch(f"{ADS}/subscriptions/a2", json={"intervals": {"credit": [1, 2]}})) == ["weights.credit"]


def test_an_exact_subscription_needs_its_score(jobs: AppClient) -> None:
    refused = jobs.post(f"{JOBS}/subscriptions", json={"subscriptions": [{"id": "x"}, {"score": 1, "weights": {}}]})
    assert fields(refused) == ["subscriptions[0].score", "subscriptions[1].weights"]
    assert fields(jobs.patch(f"{JOBS}/subscriptions/j1", json={"score": None})) == ["score"]
    body = stream_of({"id": ["x", "y"], "score": [1.0, None]})
    refused = jobs.post(f"{JOBS}/subscriptions", content=body, headers={"content-type": ARROW})
    assert (refused.status_code, fields(refused)) == (422, ["subscriptions[1].score"])


def test_what_may_be_left_out_but_not_be_null_is_so_in_the_document_too(jobs: AppClient) -> None:
    schemas = create_app(Settings()).openapi()["components"]["schemas"]
    for path, method, body, field, model in (
        (f"{JOBS}/match", "POST", {"events": []}, "k", "MatchBody"),
        (f"{JOBS}/subscriptions/j1", "PATCH", {}, "score", "MatcherSubscriptionPatch"),
        (f"{JOBS}/subscriptions/j1", "PUT", {"score": 2}, "score", "MatcherSubscriptionBody"),
    ):
        assert jobs.request(method, path, json=body).status_code == 200
        refused = jobs.request(method, path, json={**body, field: None})
        assert (refused.status_code, fields(refused)) == (422, [field])
        schema = schemas[model]["properties"][field]
        assert "anyOf" not in schema and schema["type"] in ("integer", "number"), schema
        assert field not in schemas[model].get("required", [])


def test_a_total_that_is_not_finite_is_refused(client: AppClient) -> None:
    client.put(ADS, json={**RELAXED, "combine": "product"})
    heavy = {"intervals": {"age": [1, 2], "credit": [1, 2]}, "weights": {"age": 1e300, "credit": 1e300}}
    refused = client.post(f"{ADS}/subscriptions", json={"subscriptions": [A1, heavy]})
    assert (refused.status_code, fields(refused)) == (422, ["subscriptions[1].weights"])
    assert fields(client.put(f"{ADS}/subscriptions/heavy", json=heavy)) == ["weights"]


def test_what_is_passed_over_takes_no_id(client: AppClient) -> None:
    client.put(ADS, json={**RELAXED, "combine": "product"})
    box = {"age": [1, 2], "credit": [1, 2]}
    heavy = {"id": "a", "intervals": box, "weights": {"age": 1e300, "credit": 1e300}}
    light = {"id": "a", "intervals": box, "weights": {"age": 1, "credit": 1}}
    answer = client.post(f"{ADS}/subscriptions", json={"subscriptions": [heavy, light, light], "on_error": "skip"})
    assert [one["index"] for one in answer.json()["subscriptions"]] == [1]
    assert [(one["index"], one["field"]) for one in answer.json()["errors"]] == [
        (0, "subscriptions[0].weights"),
        (2, "subscriptions[2].id"),
    ]


@pytest.mark.parametrize("body", ["[]", "3", "null", '"x"'])
def test_a_body_that_is_no_object_is_named(ads: AppClient, body: str) -> None:
    for method, where in (("PUT", ADS), ("POST", f"{ADS}/match"), ("POST", f"{ADS}/subscriptions")):
        refused = ads.request(method, where, content=body, headers={"content-type": "application/json"})
        assert (refused.status_code, fields(refused)) == (422, ["body"]), where
        assert refused.json()["detail"] == "body: must be an object"


def test_another_configuration_is_told_as_json_has_it(ads: AppClient) -> None:
    refused = ads.put(ADS, json={**RELAXED, "dimensions": ["age"]})
    assert refused.json()["errors"] == [{"field": "dimensions", "reason": "the matcher stands with ['age', 'credit']"}]


def test_a_taken_id_refuses_all_and_is_skipped_if_asked(ads: AppClient) -> None:
    found = [{**A1, "id": "b1"}, A1, {**A1, "id": "b1"}, {**A1, "id": "b 1"}, {**A1, "id": "b2"}]
    refused = ads.post(f"{ADS}/subscriptions", json={"subscriptions": [*found[:3], found[4]]})
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/id-taken")
    assert fields(refused) == ["subscriptions[1].id", "subscriptions[2].id"]
    answer = ads.post(f"{ADS}/subscriptions", json={"subscriptions": found, "on_error": "skip"})
    assert answer.status_code == 201
    body = answer.json()
    assert body["seq"] == 5
    assert [(one["index"], one["id"]) for one in body["subscriptions"]] == [(0, "b1"), (4, "b2")]
    assert [(error["index"], error["field"]) for error in body["errors"]] == [
        (1, "subscriptions[1].id"),
        (2, "subscriptions[2].id"),
        (3, "subscriptions[3].id"),
    ]


def test_the_three_kinds_of_body_say_the_same(client: AppClient) -> None:
    items = [
        A1,
        {"id": "a2", "intervals": {"credit": [None, 9.5]}, "weights": {"credit": 0}, "ttl": 60},
        {"id": "a3", "intervals": {}, "weights": {}},
    ]
    columns = {
        "id": ["a1", "a2", "a3"],
        "age_min": [20, None, None],
        "age_max": [35, None, None],
        "age_weight": [0.7, None, None],
        "credit_min": [400, None, None],
        "credit_max": [500, 9.5, None],
        "credit_weight": [0.3, 0.0, None],
        "ttl": [None, 60, None],
    }
    bodies = [
        (json.dumps({"subscriptions": items}).encode(), "application/json"),
        (lines_of(items), NDJSON),
        (stream_of(columns), ARROW),
        (stream_of(columns, 2), ARROW),
    ]
    for number, (body, kind) in enumerate(bodies):
        path = f"/v1/matchers/m{number}"
        client.put(path, json=RELAXED)
        made = client.post(f"{path}/subscriptions", content=body, headers={"content-type": kind})
        assert (made.status_code, made.json()) == (201, {"seq": 3, "subscriptions": items})
        assert client.get(f"{path}/subscriptions").json() == {"seq": 3, "items": items, "next": None}


def test_arrow_names_bad_cells(ads: AppClient) -> None:
    body = stream_of(
        {
            "id": ["b 1", "b2", "b3", "b4", "b5"],
            "age_min": [1, math.nan, 9, 1, 1],
            "age_max": [2, 2, 1, 1e301, 2],
            "age_weight": [1, 1, 1, 1, -1],
            "ttl": [1, 1, 1, 0, 1],
        }
    )
    answer = ads.post(f"{ADS}/subscriptions?on_error=skip", content=body, headers={"content-type": ARROW})
    assert [error["field"].partition("].")[::2] for error in answer.json()["errors"]] == [
        ("subscriptions[0", "id"),
        ("subscriptions[1", "intervals.age[0]"),
        ("subscriptions[2", "intervals.age"),
        ("subscriptions[3", "intervals.age[1]"),
        ("subscriptions[3", "ttl"),
        ("subscriptions[4", "weights.age"),
    ]
    for columns, field in (
        ({"id": ["x"], "age_min": [1]}, "age_weight"),
        ({"id": ["x"], "speed_min": [1]}, "speed_min"),
        ({"id": ["x"], "score": [1]}, "score"),
    ):
        refused = ads.post(f"{ADS}/subscriptions", content=stream_of(columns), headers={"content-type": ARROW})
        assert (refused.status_code, fields(refused)) == (422, [field])


def test_ids_left_out_are_made_up(ads: AppClient) -> None:
    body = {"subscriptions": [{**A1, "id": None}, {key: A1[key] for key in ("intervals", "weights")}]}
    ids = [one["id"] for one in ads.post(f"{ADS}/subscriptions", json=body).json()["subscriptions"]]
    assert len({*ids, "a1"}) == 3
    assert all(ads.get(f"{ADS}/subscriptions/{id}").status_code == 200 for id in ids)


def test_subscriptions_are_listed_in_pages_and_deleted(ads: AppClient) -> None:
    page = ads.get(f"{ADS}/subscriptions?limit=2").json()
    assert [item["id"] for item in page["items"]] == ["a1", "a2"]
    rest = ads.get(f"{ADS}/subscriptions?limit=2&cursor={page['next']}").json()
    assert ([item["id"] for item in rest["items"]], rest["next"]) == (["a3"], None)
    assert ads.delete(f"{ADS}/subscriptions/a1").json() == {"seq": 4}
    assert ads.delete(f"{ADS}/subscriptions/a1").status_code == 404
    assert ads.get(f"{ADS}/subscriptions/a1").status_code == 404
    assert ads.patch(f"{ADS}/subscriptions/a1", json={"ttl": 5}).status_code == 404
    gone = ads.post(f"{ADS}/subscriptions/delete", json={"ids": ["a3", "never", "a3", "a2"]})
    assert gone.json() == {"seq": 6, "deleted": 2}


def test_many_subscriptions_are_answered_by_column(client: AppClient) -> None:
    """Beyond what is written on the loop, in pieces."""
    client.put(JOBS, json=EXACT)
    n = 60_000
    columns = {"id": [f"s{i}" for i in range(n)], "pay_min": list(range(n)), "score": [i / 7 for i in range(n)]}
    made = client.post(f"{JOBS}/subscriptions", content=stream_of(columns), headers={"content-type": ARROW}).json()
    assert made["seq"] == n
    assert made["subscriptions"] == [{"id": f"s{i}", "intervals": {"pay": [i, None]}, "score": i / 7} for i in range(n)]


# --- match ------------------------------------------------------------------------------------------------------------


def test_winners_come_best_first(ads: AppClient) -> None:
    event = {"values": {"age": 28, "credit": 441}}
    answer = ads.post(f"{ADS}/match", json={"events": [event, {"values": {"age": 99}}, {"values": {}}], "k": 20})
    assert answer.json()["seq"] == 3
    assert won(answer) == [[("a2", 1.5), ("a1", 1), ("a3", 0.2)], [("a3", 0.2)], [("a3", 0.2)]]
    assert won(ads.post(f"{ADS}/match", json={"events": [event], "k": 1})) == [[("a2", 1.5)]]
    assert won(ads.post(f"{ADS}/match", json={"events": []})) == []


def test_numbers_are_shown_as_everywhere(jobs: AppClient) -> None:
    for score in (3, 0.1, 1e22, -0.0, 5e-324, 1e300, -1e300, 2**53, 123456789.123, 1 / 3):
        jobs.patch(f"{JOBS}/subscriptions/j2", json={"score": score})
        text = jobs.post(f"{JOBS}/match", json={"events": [{"values": {}}], "k": 1}).text
        assert json.loads(text)["results"][0]["winners"][0]["score"] == score
        shown = json.loads(text)["results"][0]["winners"][0]["score"]
        assert type(shown) is type(jobs.get(f"{JOBS}/subscriptions/j2").json()["score"])


def test_an_event_may_be_ranges(ads: AppClient) -> None:
    events = [{"values": {"age": [30, 40]}}, {"values": {"age": [None, 19], "credit": [500, None]}}]
    assert won(ads.post(f"{ADS}/match", json={"events": events})) == [
        [("a2", 1.5), ("a1", 0.7), ("a3", 0.2)],
        [("a2", 1.5), ("a3", 0.7), ("a1", 0.3)],
    ]


def test_explain_says_what_matched(ads: AppClient, jobs: AppClient) -> None:
    (result,) = ads.post(
        f"{ADS}/match", json={"events": [{"values": {"age": 28, "credit": 441}}], "explain": True}
    ).json()["results"]
    assert [one["matched"] for one in result["winners"]] == [{"age": 1.5}, {"age": 0.7, "credit": 0.3}, {"age": 0.2}]
    assert result["looked_at"] > 0
    (result,) = jobs.post(f"{JOBS}/match", json={"events": [{"values": {"pay": 60}}], "explain": True}).json()[
        "results"
    ]
    assert [one["matched"] for one in result["winners"]] == [{"pay": None, "days": None}] * 2


@pytest.mark.parametrize(
    ("value", "field"),
    [
        ({"age": "28"}, "values.age"),
        ({"age": True}, "values.age"),
        ({"age": {}}, "values.age"),
        ({"age": 1e301}, "values.age"),
        ({"age": 10**400}, "values.age"),
        ({"age": [5, 1]}, "values.age"),
        ({"age": [1]}, "values.age"),
        ({"age": [1, 2, 3]}, "values.age"),
        ({"age": [1, "2"]}, "values.age[1]"),
        ({"age": [-1e301, 2]}, "values.age[0]"),
        ({"speed": 1}, "values.speed"),
        (None, "values"),
    ],
)
def test_a_bad_event_is_named_or_skipped(ads: AppClient, value: Any, field: str) -> None:
    good = {"values": {"age": 28}}
    events = [good, {"values": value}, {"values": {"age": [1, 2]}, "payload": 1}]
    refused = ads.post(f"{ADS}/match", json={"events": events, "notify": True})
    assert (refused.status_code, fields(refused)) == (422, [f"events[1].{field}"])
    answers = [
        ads.post(f"{ADS}/match", json={"events": events, "notify": notify, "on_error": "skip"}).json()
        for notify in (False, True)
    ]
    lines = ads.post(f"{ADS}/match?on_error=skip", content=lines_of(events), headers={"content-type": NDJSON}).json()
    assert [answer["seq"] for answer in answers] == [3, 5], "what is skipped takes no seq"
    for answer in (*answers, lines):
        assert [result["index"] for result in answer["results"]] == [0, 2]
        assert [(error["index"], error["field"]) for error in answer["errors"]] == [(1, f"events[1].{field}")]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"k": 0}, "k"),
        ({"k": 1001}, "k"),
        ({"k": 2.0}, "k"),
        ({"explain": 1}, "explain"),
        ({"notify": "yes"}, "notify"),
        ({"on_error": "stop"}, "on_error"),
        ({"more": 1}, "more"),
        ({"events": None}, "events"),
        ({"events": [{"values": {}, "id": "x"}]}, "events[0].id"),
        ({"events": [{}]}, "events[0].values"),
        ({"events": [{"values": {}, "payload": "x" * 5000}]}, "events[0].payload"),
    ],
)
def test_a_bad_question_is_named(ads: AppClient, body: dict[str, Any], field: str) -> None:
    refused = ads.post(f"{ADS}/match", json={"events": [], **body})
    assert (refused.status_code, fields(refused)) == (422, [field])


def test_events_come_as_lines_and_as_columns_too(ads: AppClient) -> None:
    events = [{"values": {"age": 28, "credit": 441}}, {"values": {"age": [30, 40]}}, {"values": {"credit": [None, 1]}}]
    whole = won(ads.post(f"{ADS}/match", json={"events": events, "k": 2}))
    lines = ads.post(f"{ADS}/match?k=2", content=lines_of(events), headers={"content-type": NDJSON})
    columns = {
        "age": [28, None, None],
        "age_min": [None, 30, None],
        "age_max": [None, 40, None],
        "credit": [441, None, None],
        "credit_max": [None, None, 1],
        "payload": ['{"a":1}', None, None],
    }
    table = ads.post(f"{ADS}/match?k=2&notify=true", content=stream_of(columns), headers={"content-type": ARROW})
    assert won(lines) == won(table) == whole
    assert table.json()["seq"] == 6
    assert fields(ads.post(f"{ADS}/match?k=1001", content=b"", headers={"content-type": NDJSON})) == ["k"]
    bad = stream_of({"age": [1, None], "age_min": [1, 9], "age_max": [1, 3], "payload": ["{", None]})
    refused = ads.post(f"{ADS}/match", content=bad, headers={"content-type": ARROW})
    assert fields(refused) == ["events[0].values.age", "events[0].payload", "events[1].values.age"]


def test_a_notified_match_takes_a_seq_for_each_event(ads: AppClient) -> None:
    events = [{"values": {"age": 28}}, {"values": {"age": 29}, "payload": {"page": "/"}}]
    assert ads.post(f"{ADS}/match", json={"events": events, "notify": True}).json()["seq"] == 5
    assert ads.post(f"{ADS}/match", json={"events": events}).json()["seq"] == 5
    assert ads.post(f"{ADS}/match", json={"events": [], "notify": True}).json() == {"seq": 5, "results": []}
    assert ads.get(ADS).json()["seq"] == 5


def test_long_answers_are_whole(ads: AppClient) -> None:
    """More events and winners than there are in a slice, or are written on the loop."""
    events = [{"values": {"age": i % 50}} for i in range(9_000)]
    expected = [
        [("a2", 1.5)] * (i % 50 <= 30) + [("a1", 0.7)] * (20 <= i % 50 <= 35) + [("a3", 0.2)] for i in range(9_000)
    ]
    assert won(ads.post(f"{ADS}/match", json={"events": events})) == expected
    assert won(ads.post(f"{ADS}/match", content=lines_of(events), headers={"content-type": NDJSON})) == expected
    assert won(ads.post(f"{ADS}/match", json={"events": events, "notify": True})) == expected


def test_a_long_question_is_answered_although_the_log_cannot_be_written(
    ads: AppClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, failing = Committer._commit, [True, True]

    def fail(self: Committer, group: Any) -> None:
        if failing and failing.pop():
            raise LogUnavailable("no room")
        commit(self, group)

    monkeypatch.setattr("app.api.matchers.routes.match.AT_ONCE", -1.0)
    monkeypatch.setattr(Committer, "_commit", fail)
    assert won(ads.post(f"{ADS}/match", json={"events": [{"values": {"age": 99}}]})) == [[("a3", 0.2)]]
    assert not failing
    monkeypatch.setattr(Committer, "_commit", lambda self, group: fail_always())
    refused = ads.post(f"{ADS}/match", json={"events": [{"values": {"age": 99}}]})
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "1")


def fail_always() -> None:
    raise LogUnavailable("no room")


def test_an_answer_beyond_all_bounds_is_refused(ads: AppClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.api.matchers.routes.match.MOST_WINNERS", 5)
    events = [{"values": {"age": 1}}] * 2
    for notify in (False, True):
        assert ads.post(f"{ADS}/match", json={"events": events, "k": 2, "notify": notify}).status_code == 200
        assert ads.post(f"{ADS}/match", json={"events": events, "notify": notify}).status_code == 413
    assert ads.get(ADS).json()["seq"] == 5


def test_others_go_first_between_the_pieces_of_a_long_answer(ads: AppClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of which each is written, and sent, without a wait."""
    turns, seen = 0, []
    pieces = match._pieces

    async def watched(*given: Any) -> AsyncIterator[bytes]:
        async def other() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        running = asyncio.create_task(other())
        async for piece in pieces(*given):
            seen.append(turns)
            yield piece
        running.cancel()

    monkeypatch.setattr(match, "_pieces", watched)
    monkeypatch.setattr("indexes.matchers.plans.match.WINNERS", 40)
    monkeypatch.setattr(match, "WINNERS", 40)
    events = [{"values": {"age": i % 50}} for i in range(20)]
    answer = ads.post(f"{ADS}/match", json={"events": events, "explain": True})
    assert len(won(answer)) == 20
    assert len(seen) >= 10
    assert sorted(set(seen)) == seen, "some pieces were written in one turn"


def test_many_winners_are_not_worked_out_at_once(ads: AppClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """However fast an event has been: the latest ones may have had few winners."""
    monkeypatch.setattr(match, "AT_ONCE", 1e9)
    monkeypatch.setattr(match, "WINNERS", 5)
    asked = []
    ask = MatcherContext.ask

    def noted(self: MatcherContext, *given: Any) -> Any:
        asked.append(1)
        return ask(self, *given)

    monkeypatch.setattr(MatcherContext, "ask", noted)
    for events, k in ((5, 1), (2, 20)):
        ads.post(f"{ADS}/match", json={"events": [{"values": {"age": 1}}] * events, "k": k})
    assert len(asked) == 1


def test_room_is_that_of_the_matcher_that_was_asked(client: AppClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was recreated meanwhile, and has more in it, is another one."""
    assert client.put(ADS, json=RELAXED).status_code == 201
    context, events = MatcherContext, [{"values": {"age": 1}}] * 2
    monkeypatch.setattr(match, "MOST_WINNERS", 1)
    once = context.once

    async def meanwhile(self: MatcherContext, request: Any, *given: Any) -> Any:
        await self.resources.drop("ads")
        await self.resources.put("ads", MatcherConfig(("age",), "exact"))
        await self.resources.submit("ads", SetSubscription("s1", [0.0, 1.0, 1.0], None))
        return await once(self, request, *given)

    monkeypatch.setattr(context, "once", meanwhile)
    refused = client.post(f"{ADS}/match", json={"events": events, "notify": True})
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/different")


# --- keys and lifetimes -----------------------------------------------------------------------------------------------


def test_a_retry_gets_the_first_winners(ads: AppClient) -> None:
    events: list[Any] = [{"values": {"age": 28}}, {"values": {"age": "x"}}, {"values": {"credit": 450}}]
    body = {"events": events, "notify": True, "on_error": "skip", "k": 1}
    first = ads.post(f"{ADS}/match", json=body, headers={"Idempotency-Key": "k"}).json()
    ads.delete(f"{ADS}/subscriptions/a2")
    again = ads.post(f"{ADS}/match", json=body, headers={"Idempotency-Key": "k"}).json()
    assert again == {**first, "replayed": True}
    assert [result["index"] for result in again["results"]] == [0, 2]
    other = ads.post(f"{ADS}/match", json={**body, "k": 2}, headers={"Idempotency-Key": "k"})
    assert (other.status_code, other.json()["type"]) == (422, "/problems/key-reused")


def test_a_retry_is_answered_when_the_matcher_has_gone_or_is_another(ads: AppClient) -> None:
    body = {"events": [{"values": {"age": 28, "credit": 450}}], "notify": True}

    def again(key: str) -> Any:
        return ads.post(f"{ADS}/match", json=body, headers={"Idempotency-Key": key})

    first = again("k").json()
    ads.delete(ADS)
    assert again("k").json() == {**first, "replayed": True}
    assert again("another").status_code == 404
    ads.put(ADS, json={"dimensions": ["height"], "mode": "exact"})
    assert again("k").json() == {**first, "replayed": True}
    assert fields(again("another")) == ["events[0].values.age", "events[0].values.credit"]
    other = ads.post(f"{ADS}/match", json={**body, "k": 3}, headers={"Idempotency-Key": "k"})
    assert (other.status_code, other.json()["type"]) == (422, "/problems/key-reused")


def test_what_is_kept_for_a_retry_is_bounded(ads: AppClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.api.matchers.routes.match.MOST_KEPT", 3)
    seq = ads.get(ADS).json()["seq"]
    body: dict[str, Any] = {"events": [{"values": {"age": 28}}] * 4, "k": 1, "notify": True}
    refused = ads.post(f"{ADS}/match", json=body, headers={"Idempotency-Key": "k"})
    assert (refused.status_code, refused.json()["type"]) == (413, "/problems/too-large")
    assert "send fewer events" in refused.json()["detail"]
    assert ads.get(ADS).json()["seq"] == seq
    assert ads.post(f"{ADS}/match", json=body).json()["seq"] == seq + 4
    fewer = ads.post(f"{ADS}/match", json={**body, "events": body["events"][1:]}, headers={"Idempotency-Key": "k"})
    assert fewer.json()["seq"] == seq + 7


def test_answers_are_kept_over_a_crash_between_log_and_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was logged and not applied is worked out again, winners and all."""
    body = {"events": [{"values": {"age": 28}}, {"values": {"age": "x"}}, {"values": {}}], "notify": True}
    skip = {**body, "on_error": "skip", "explain": True}

    def run(use: Any) -> None:
        with AppClient(create_app(Settings(data=tmp_path)), base_url=URL, raise_server_exceptions=False) as client:
            use(client)

    def before(client: AppClient) -> None:
        client.put(ADS, json=RELAXED)
        client.post(f"{ADS}/subscriptions", json={"subscriptions": [A1]}, headers={"Idempotency-Key": "s"})
        with monkeypatch.context() as patch:
            patch.setattr(
                "app.write_path.applying.Applier.apply", lambda self, group: [p.future.cancel() for p in group]
            )
            client.post(f"{ADS}/match", json=skip, headers={"Idempotency-Key": "m"})

    def after(client: AppClient) -> None:
        again = client.post(f"{ADS}/match", json=skip, headers={"Idempotency-Key": "m"}).json()
        assert again["replayed"]
        assert again["seq"] == 3
        assert [(result["index"], result["winners"]) for result in again["results"]] == [
            (0, [{"id": "a1", "score": 0.7, "matched": {"age": 0.7}}]),
            (2, []),
        ]
        made = client.post(f"{ADS}/subscriptions", json={"subscriptions": [A1]}, headers={"Idempotency-Key": "s"})
        assert made.json() == {"seq": 1, "subscriptions": [A1], "replayed": True}
        assert client.get(ADS).json()["seq"] == 3

    run(before)
    run(after)


def test_scopes_are_those_of_matchers(make_client: MakeClient) -> None:
    client = make_client()

    def key(*scopes: str) -> dict[str, str]:
        answer = client.post("/v1/admin/keys", json={"name": "n", "scopes": scopes}, headers=admin)
        return {"Authorization": f"Bearer {answer.json()['key']}"}

    admin: dict[str, str] = {}
    admin = key("admin")
    reader, writer, other = key("matchers:read"), key("matchers:write"), key("boards:read", "boards:write")
    assert client.put(ADS, json=RELAXED, headers=reader).status_code == 403
    assert client.put(ADS, json=RELAXED, headers=writer).status_code == 201
    assert [client.get(ADS, headers=one).status_code for one in (reader, writer, other, {})] == [200, 200, 403, 401]
    statuses = [
        [client.post(f"{ADS}/match", json={"events": [], "notify": notify}, headers=one).status_code]
        for notify in (False, True)
        for one in (reader, writer, other, {})
    ]
    assert [status for (status,) in statuses] == [200, 200, 403, 401, 403, 200, 403, 401]


def test_limits_hold(make_client: MakeClient) -> None:
    client = make_client(max_elements=2, max_k=5)
    client.put(ADS, json=RELAXED)
    many: list[Any] = [{"values": {}}] * 3
    refused = client.post(f"{ADS}/match", json={"events": many})
    assert (refused.status_code, fields(refused)) == (413, ["events"])
    assert client.post(f"{ADS}/match", content=lines_of(many), headers={"content-type": NDJSON}).status_code == 200
    assert fields(client.post(f"{ADS}/match", json={"events": [], "k": 6})) == ["k"]
    assert client.post(f"{ADS}/subscriptions", json={"subscriptions": [A1] * 3}).status_code == 413
    for raw, kind, status in (
        (b"{", "application/json", 400),
        (b'{"events":[{"values":{"age":NaN}}]}', "application/json", 400),
        (b"x", NDJSON, 400),
        (b"x", ARROW, 400),
        (b"x", "text/plain", 415),
    ):
        assert client.post(f"{ADS}/match", content=raw, headers={"content-type": kind}).status_code == status
