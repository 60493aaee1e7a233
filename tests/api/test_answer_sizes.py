"""Answers of many lists or tiles have a bound in bytes, whatever it takes to ask for them."""

from __future__ import annotations

from typing import Any

import pytest

from app.api.boards.routes import objects
from tests.support.app_client import AppClient
from tests.support.service_fixtures import MakeClient

BOARD = {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [1, 2, 3], "algorithm": "dense"}
PAYLOAD = "p" * 4_000


def tiled(client: AppClient, config: dict[str, Any] = BOARD) -> dict[str, Any]:
    """The answer to events with many tiles, each with 4 kB of payload."""
    client.put("/v1/boards/b", json=config)
    values = dict.fromkeys(config["range_attributes"], 0)
    events = [
        {"op": "upsert", "id": f"o{n}", "values": {**values, "x": n % 7, "y": n * 5 % 11}, "payload": PAYLOAD}
        for n in range(20)
    ]
    answer = client.post("/v1/boards/b/events", json={"events": events})
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


@pytest.mark.parametrize("inline", [0, 1_000])
def test_tiles_are_cut_where_an_answer_is_full(
    make_client: MakeClient, monkeypatch: pytest.MonkeyPatch, inline: int
) -> None:
    monkeypatch.setattr(objects, "INLINE", inline)
    client = make_client(max_answer=20_000)
    found = tiled(client)
    assert found["truncated"] is True
    assert len(found["tiles"]) == 4 < found["tile_count"]
    assert client.get("/v1/boards/b").json()["seq"] == 20


@pytest.mark.parametrize("attributes", [["x"], ["x", "z"]])
def test_tiles_that_are_written_in_pieces_are_the_same(
    make_client: MakeClient, monkeypatch: pytest.MonkeyPatch, attributes: list[str]
) -> None:
    config = {**BOARD, "range_attributes": attributes, "algorithm": "sparse"}
    subscriptions = [{"id": f"s{n}", "k": 1 + n % 3, "range": {"x": [n, n + 3]}} for n in range(5)]
    client, found = make_client(), []
    for inline in (1_000, 3):
        monkeypatch.setattr(objects, "INLINE", inline)
        client.put("/v1/boards/b", json=config)
        assert client.post("/v1/boards/b/subscriptions", json={"subscriptions": subscriptions}).status_code == 201
        found.append(tiled(client, config))
        client.delete("/v1/boards/b")
    whole, again = found
    assert len(whole["tiles"]) == whole["tile_count"] > 10
    assert again["tiles"] == whole["tiles"]
    assert again.keys() == whole.keys()


def test_an_explanation_beyond_the_bound_is_refused(make_client: MakeClient) -> None:
    client = make_client(max_answer=20_000)
    tiled(client)
    refused = client.post("/v1/boards/b/explain", json={"event": {"op": "update", "id": "o0", "values": {"y": 99}}})
    assert refused.status_code == 413
    assert client.get("/v1/boards/b").json()["seq"] == 20


def test_answers_of_maps_beyond_the_bound_are_refused(make_client: MakeClient) -> None:
    client = make_client(max_answer=100_000)
    client.put("/v1/maps/m", json={"attributes": {}, "bounds": [0, 0, 9, 9]})
    items = [{"id": f"o{n}", "location": [n, n], "values": {}, "payload": PAYLOAD} for n in range(5)]
    assert client.post("/v1/maps/m/objects", json={"objects": items}).status_code == 200
    score = {"kind": "weighted_sum", "weights": {"distance": 1}}
    for name, more, most in (("top", {"k": 5, "score": score}, 2), ("skyline", {}, 20)):
        answers = [
            client.post(f"/v1/maps/m/{name}", json={"locations": [[1, 1]] * count, **more}) for count in (most, 100)
        ]
        assert [answer.status_code for answer in answers] == [200, 413], name
        assert len(answers[0].content) <= 100_000


def test_matches_beyond_the_bound_are_refused(make_client: MakeClient) -> None:
    client = make_client(max_answer=2_000)
    client.put("/v1/matchers/m", json={"dimensions": ["age"], "mode": "relaxed"})
    subscriptions = [{"id": f"a{n}", "intervals": {"age": [0, 9]}, "weights": {"age": 1}} for n in range(20)]
    assert client.post("/v1/matchers/m/subscriptions", json={"subscriptions": subscriptions}).status_code == 201
    events = [{"values": {"age": 1}}]
    for count, explain, status in ((4, False, 200), (5, False, 413), (4, True, 413), (3, True, 200)):
        body = {"events": events * count, "k": 20, "explain": explain}
        assert client.post("/v1/matchers/m/match", json=body).status_code == status
