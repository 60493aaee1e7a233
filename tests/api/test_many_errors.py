"""Bodies in which very much is wrong: what is listed, what is counted, and what it takes."""

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.boards.models import BoardEventsQuery, validators
from app.api.boards.parsing.events import EventReader
from app.api.bodies import BodyFormat
from app.api.element_errors import ElementError, ElementErrors
from tests.support.app_client import AppClient

NDJSON = {"content-type": "application/x-ndjson"}
LISTED = 1_000
POINT = {"location": [1, 1]}

WRITES: list[Any] = [
    ("boards/b", {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [2]}, "events", {"op": "update"}),
    ("boards/b", {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [2]}, "subscriptions", {"k": 2}),
    ("maps/m", {"attributes": {}, "bounds": [0, 0, 9, 9]}, "objects", POINT),
    ("maps/m", {"attributes": {}, "bounds": [0, 0, 9, 9]}, "queries", {"kind": "skyline", **POINT}),
    ("feeds/f", {"window": 9, "bounds": [0, 0, 9, 9]}, "posts", {"text": "tea", **POINT}),
    ("feeds/f", {"window": 9, "bounds": [0, 0, 9, 9]}, "subscriptions", {"text": "tea", **POINT}),
    ("matchers/m", {"dimensions": ["x"], "mode": "exact"}, "subscriptions", {"score": 1}),
    ("matchers/m", {"dimensions": ["x"], "mode": "exact"}, "match?notify=true", {"values": {"x": 1}}),
    ("relays/r", {"attributes": ["x"]}, "subscriptions", {}),
    ("relays/r", {"attributes": ["x"]}, "notifications", {"values": {"x": 1}}),
]


@pytest.mark.parametrize(("resource", "config", "elements", "good"), WRITES)
def test_at_most_a_thousand_errors_are_listed_and_all_are_counted(
    client: AppClient, resource: str, config: Any, elements: str, good: dict[str, Any]
) -> None:
    assert client.put(f"/v1/{resource}", json=config).status_code == 201
    if elements == "events":
        put = {"op": "upsert", "id": "g", "values": {"x": 1, "y": 1}}
        assert client.post(f"/v1/{resource}/events", json={"events": [put]}).status_code == 200
    if elements in ("events", "objects"):
        good = {**good, "id": "g"}
    n = 2_500
    lines = [json.dumps({"no": 1})] * n
    places = [5, 1_700, n - 1]
    for at in places:
        lines[at] = json.dumps(good)
    mark = "&" if "?" in elements else "?"
    url, raw = f"/v1/{resource}/{elements}{mark}on_error=skip", "\n".join(lines)
    headers = {**NDJSON, "idempotency-key": "one"}
    first, again = (client.post(url, content=raw, headers=headers) for _ in range(2))
    assert first.is_success, first.text[:300]
    answer = first.json()
    assert len(answer["errors"]) == LISTED
    each = sum(error["index"] == 0 for error in answer["errors"])
    assert answer["error_count"] == (n - len(places)) * each
    wrong = [at for at in range(n) if at not in places for _ in range(each)]
    assert [error["index"] for error in answer["errors"]] == wrong[:LISTED]
    name = next((name for name in ("results", "subscriptions", "queries") if name in answer), None)
    if name is not None:
        assert [one["index"] for one in answer[name]] == places
        assert [one["index"] for one in again.json()[name]] == places
    kept = {key: again.json()[key] for key in ("seq", "errors", "error_count")}
    assert kept == {key: answer[key] for key in ("seq", "errors", "error_count")}
    assert set(again.json()) - {"replayed"} <= set(answer)


def test_bad_elements_that_are_only_counted_take_little_memory() -> None:
    reader = EventReader(("x",), "y", validators(("x",), "y", 1_000, 100), 200)
    n = 100_000
    raw = b"{}\n" * n
    tracemalloc.start()
    try:
        found = reader.read(BodyFormat.NDJSON, raw, BoardEventsQuery(on_error="skip"))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(found.errors) >= n
    assert peak < 30 * len(raw)


def test_a_list_in_json_stops_at_what_is_listed(client: AppClient) -> None:
    assert client.put("/v1/relays/r", json={"attributes": ["x"]}).status_code == 201
    body: dict[str, Any] = {"notifications": [{}] * 5_000}
    refused = client.post("/v1/relays/r/notifications", json=body)
    assert refused.status_code == 422 and len(refused.json()["errors"]) == 100
    assert refused.json()["errors"][99]["field"] == "notifications[99].values"
    assert "(101 errors" in refused.json()["detail"]
    skipped = client.post("/v1/relays/r/notifications", json={**body, "on_error": "skip"}).json()
    assert (len(skipped["errors"]), skipped["error_count"], skipped["results"]) == (LISTED, 5_000, [])


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 3)), max_size=80),
    st.none() | st.integers(1, 20),
    st.booleans(),
)
def test_the_first_errors_by_index_are_kept(found: list[tuple[int, int]], most: int | None, ask: bool) -> None:
    collector = ElementErrors(most=most)
    every: list[tuple[int, int]] = []
    for at, (index, count) in enumerate(found):
        every += [(index, at)] * count
        if ask and not collector.wants(index):
            collector.count_in(index, count)
        else:
            collector += [ElementError(index, str(at), "")] * count
    every.sort()
    assert [(error.index, int(error.field)) for error in collector] == every[:most]
    assert len(collector) == len(every)
    wrong = {index for index, _ in found}
    assert collector.valid(50) == [index for index in range(50) if index not in wrong]
    assert all((index in collector) == (index in wrong) for index in range(70))
