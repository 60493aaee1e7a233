from typing import Any

import pytest

from app.main import create_app
from tests.support.app_client import AppClient


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return create_app().openapi()


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(path, method, one) for path, item in document["paths"].items() for method, one in item.items()]


def test_every_operation_is_described_and_can_be_refused(document: dict[str, Any]) -> None:
    ids = [one["operationId"] for _, _, one in operations(document)]
    assert len(ids) == len(set(ids))
    for path, method, one in operations(document):
        assert one["description"], path
        assert {"4XX", "503"} <= one["responses"].keys(), path
        assert any(status in one["responses"] for status in ("200", "201", "202")), (path, method)


def test_every_write_takes_an_idempotency_key(document: dict[str, Any]) -> None:
    for path, method, one in operations(document):
        names = {parameter["name"] for parameter in one.get("parameters", [])}
        # A question with a body is no write, and what comes over a link is numbered: it is taken once by itself.
        # A ticket changes nothing that is kept, and a node that leads already is promoted to what it is.
        asks = path.endswith(("/explain", "/probe", "/{map}/top", "/{map}/skyline", "/tickets", "/admin/promote"))
        numbered = path.endswith("/links/{link}/messages")
        writes = method != "get" and not asks and not numbered
        assert ("Idempotency-Key" in names) == writes, (path, method)


def test_all_but_health_ask_for_a_key(document: dict[str, Any]) -> None:
    for path, _, one in operations(document):
        assert ("security" in one) == (path not in ("/healthz", "/readyz")), path


def test_every_reference_is_there(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if "$ref" in node:
                assert node["$ref"].removeprefix("#/components/schemas/") in schemas
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(document)


@pytest.mark.parametrize("key", ["", "a b", "x" * 256])
def test_a_malformed_idempotency_key_is_refused(client: AppClient, key: str) -> None:
    body = {"name": "n", "scopes": ["admin"]}
    answer = client.post("/v1/admin/keys", json=body, headers={"idempotency-key": key})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "Idempotency-Key"
    assert client.get("/v1/admin/keys").json()["items"] == []


def test_a_bad_method_says_all_that_are_offered(client: AppClient) -> None:
    answer = client.post("/v1/boards/a")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "DELETE, GET, PATCH, PUT"


def test_the_document_is_served_and_made_once(client: AppClient, document: dict[str, Any]) -> None:
    first, again = client.get("/openapi.json"), client.get("/openapi.json")
    assert first.status_code == 200 and first.json() == document == again.json()
    assert "/openapi.json" not in document["paths"]


def test_a_get_route_takes_no_head(client: AppClient) -> None:
    answer = client.head("/v1/boards")
    assert answer.status_code == 405 and "HEAD" not in answer.headers["allow"]


@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_plain_request_to_the_path_of_websockets_is_answered_426(client: AppClient, method: str) -> None:
    answer = client.request(method, "/v1/stream")
    assert answer.status_code == 426
    # RFC 9110, 7.8: the one is not sent without the other.
    assert answer.headers["upgrade"] == "websocket" and answer.headers["connection"] == "Upgrade"
    assert answer.json()["type"] == "/problems/no-websocket"
