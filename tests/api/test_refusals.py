"""What refusals say: the field as the client wrote it, one reason for each, the same whatever was asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from app.api.boards.models import BoardBody
from app.api.feeds.models import FeedBody
from app.api.maps.models import MapBody
from app.api.matchers.models import MatcherBody
from app.api.relays.models import RelayBody
from app.resource_names import RESOURCES
from tests.support.app_client import AppClient
from tests.support.service_fixtures import MakeClient

BOUNDS = [0, 0, 1, 1]
NEITHER = 'must be a number of posts or {"seconds": s}'


def errors(client: AppClient, method: str, path: str, body: Any) -> list[tuple[str, str]]:
    answer = client.request(method, path, json=body)
    assert answer.status_code == 422, answer.text
    return [(error["field"], error["reason"]) for error in answer.json()["errors"]]


@pytest.mark.parametrize(
    ("window", "field", "reason"),
    [
        (20_000_000, "window", "must be at most 10000000"),
        (1.5, "window", "must be an integer"),
        ({"seconds": -1}, "window.seconds", "must be at least 0.001"),
        ({"seconds": "a"}, "window.seconds", "must be a number"),
        ({}, "window.seconds", "is required"),
        ("x", "window", NEITHER),
        (True, "window", NEITHER),
        (None, "window", NEITHER),
        ([1], "window", NEITHER),
    ],
)
def test_a_bad_window_is_one_error_of_the_field(client: AppClient, window: Any, field: str, reason: str) -> None:
    body = {"window": window, "bounds": BOUNDS}
    assert errors(client, "PUT", "/v1/feeds/f", body) == [(field, reason)]


@pytest.mark.parametrize("model", [BoardBody, MatcherBody, RelayBody, MapBody, FeedBody])
def test_no_configuration_has_a_union_whose_branches_all_complain(model: type[BaseModel]) -> None:
    model.model_rebuild()
    assert not list(_unions(model.__pydantic_core_schema__))


def _unions(schema: Any) -> Iterator[Any]:
    if isinstance(schema, dict):
        if schema.get("type") == "union":
            yield schema
        for name, value in schema.items():
            if name not in ("metadata", "json_schema_input_schema"):
                yield from _unions(value)
    elif isinstance(schema, list | tuple):
        for value in schema:
            yield from _unions(value)


def test_a_bad_key_of_an_object_is_the_field(client: AppClient) -> None:
    (attribute,) = errors(client, "PUT", "/v1/maps/m", {"attributes": {"a b": "low"}, "bounds": BOUNDS})
    assert attribute == ("attributes.a b", "must be a letter or _ and up to 63 letters, digits or _")
    (link,) = errors(client, "PUT", "/v1/relays/r", {"attributes": ["a"], "links": {"a b": {}}})
    assert link == ("links.a b", "must be made of A-Z a-z 0-9 . _ : - and not be . or ..")
    assert errors(client, "PUT", "/v1/relays/r", {"attributes": ["a"], "[key]": 1}) == [
        ("[key]", "is not a known field")
    ]


def test_a_scope_that_is_none_is_refused_in_plain_words(client: AppClient) -> None:
    (scope,) = errors(client, "POST", "/v1/admin/keys", {"name": "a", "scopes": ["nope"]})
    assert scope[0] == "scopes[0]" and scope[1].startswith("must be admin or <resources>")


def test_one_element_is_singular(client: AppClient) -> None:
    body = {"name": "a", "scopes": []}
    assert errors(client, "POST", "/v1/admin/keys", body) == [("scopes", "must have at least 1 element")]


@pytest.mark.parametrize("resources", RESOURCES)
def test_every_method_says_the_same_of_what_is_not_there(client: AppClient, resources: str) -> None:
    noun = resources.removesuffix("s")
    path = f"/v1/{resources}/nope"
    elements = "queries" if noun == "map" else "subscriptions"
    asked = [("GET", path), ("DELETE", path), ("GET", f"{path}/{elements}"), ("DELETE", f"{path}/{elements}/a")]
    for method, where in asked:
        problem = client.request(method, where).json()
        assert problem["detail"] == f"there is no {noun} 'nope'", (method, where)
        assert [error["field"] for error in problem["errors"]] == [noun]


def test_a_list_that_is_far_too_long_is_refused_before_it_is_parsed(
    make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def parsed(*_: Any) -> None:
        raise AssertionError("it is parsed")

    client = make_client(max_elements=1_000)
    client.put("/v1/boards/b", json={"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [1]})
    monkeypatch.setattr("app.api.bulk.read_list", parsed)
    headers = {"content-type": "application/json"}
    for path in ("events", "subscriptions"):
        body = b'{"%b": [%b]}' % (path.encode(), b",".join([b"{}"] * 200_000))
        answer = client.post(f"/v1/boards/b/{path}", content=body, headers=headers)
        assert (answer.status_code, answer.json()["type"]) == (413, "/problems/too-large")
    fields = b"{%b}" % b",".join(b'"k%d": 1' % n for n in range(60_000))
    for method, path in (("POST", "/v1/boards/b/events"), ("PUT", "/v1/boards/c")):
        answer = client.request(method, path, content=fields, headers=headers)
        assert answer.status_code == 422
        assert answer.json()["errors"] == [{"field": "body", "reason": "must have at most 1000 fields"}]


def test_lines_with_very_many_values_are_no_list_that_is_too_long(make_client: MakeClient) -> None:
    client = make_client(max_elements=10)
    client.put("/v1/boards/b", json={"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [1]})
    line = b'{"op": "upsert", "id": "a", "values": {"x": 1, "y": 2}, "payload": [1, 2, 3]}\n'
    headers = {"content-type": "application/x-ndjson"}
    answer = client.post("/v1/boards/b/events?messages=none", content=line * 8_000, headers=headers)
    assert (answer.status_code, answer.json()["applied"]) == (200, 8_000)
