"""JSON answers, as a shell sees them. The client of these tests looks at the end of every answer that it gets, too."""

from __future__ import annotations

import json

import pytest

from app.api.responses import JsonResponse, json_response
from tests.support.app_client import AppClient

BOARD = {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [1]}


def test_json_ends_in_a_newline_that_is_counted() -> None:
    for response in (JsonResponse({"é": 1}), json_response('{"é":1}'), json_response('{"é":1}'.encode(), 201)):
        assert response.body == '{"é":1}\n'.encode()
        assert response.headers["content-length"] == "9"
        assert response.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/healthz", 200),
        ("GET", "/readyz", 200),
        ("GET", "/openapi.json", 200),
        ("GET", "/v1/boards", 200),
        ("GET", "/v1/admin/keys", 200),
        ("GET", "/v1/admin/jobs", 200),
        ("GET", "/v1/boards/missing", 404),
        ("GET", "/missing", 404),
        ("DELETE", "/healthz", 405),
        ("PUT", "/v1/boards/b", 400),
    ],
)
def test_answers_and_problems_are_lines(client: AppClient, method: str, path: str, status: int) -> None:
    answer = client.request(method, path, headers={"Content-Type": "application/json"})
    assert answer.status_code == status
    assert answer.content.count(b"\n") == 1 and answer.content.endswith(b"}\n")
    assert int(answer.headers["content-length"]) == len(answer.content)


def test_an_answer_in_pieces_ends_in_a_newline(client: AppClient, monkeypatch: pytest.MonkeyPatch) -> None:
    client.put("/v1/boards/b", json=BOARD)
    wanted = {"subscriptions": [{"id": f"s{i}", "k": 1} for i in range(100)]}
    whole = client.post("/v1/boards/b/subscriptions", json=wanted)
    monkeypatch.setattr("app.api.chunked_response.WHOLE", 10)
    client.post("/v1/boards/b/subscriptions/delete", json={"ids": [one["id"] for one in wanted["subscriptions"]]})
    pieces = client.post("/v1/boards/b/subscriptions", json=wanted)
    assert "content-length" in whole.headers and "content-length" not in pieces.headers
    assert whole.content.endswith(b"]}\n") and pieces.content.endswith(b"]}\n")
    assert {**whole.json(), "seq": 0} == {**pieces.json(), "seq": 0}


def test_a_repeated_answer_is_the_same_to_the_byte(client: AppClient) -> None:
    first, second, third = (
        client.put("/v1/boards/b", json=BOARD, headers={"Idempotency-Key": "only"}).content for _ in range(3)
    )
    assert second == third
    assert second == json.dumps({**json.loads(first), "replayed": True}, separators=(",", ":")).encode() + b"\n"
