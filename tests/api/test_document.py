"""The OpenAPI document is complete: ids, descriptions and valid examples everywhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from app.api.document import TAGS
from app.api.examples import EXAMPLES
from app.api.problems import PROBLEMS
from app.main import create_app
from app.security.scopes import LINK_SCOPE, SCOPES
from tools.documents import ROOT
from tools.http_page import render

ID = re.compile(
    r"(healthz|readyz|metrics)|(admin|tickets|webhooks|boards|matchers|relays|maps|feeds)(_[a-z]+)*"
    r"_(create|publish|upsert|run|receive|apply|list|get|put|patch|delete|delete_many"
    r"|top|skyline|match|explain|stream|start|probe|verify|test|enable)"
)


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return create_app().openapi()


def operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield f"{method} {path}", operation


def models() -> dict[str, type[BaseModel]]:
    found: dict[str, type[BaseModel]] = {}
    waiting: list[type[BaseModel]] = [BaseModel]
    while waiting:
        for model in waiting.pop().__subclasses__():
            waiting.append(model)
            if model.__module__.startswith("app.api."):
                found[model.__name__] = model
    return found


def test_ids_follow_one_pattern(document: dict[str, Any]) -> None:
    ids = [operation["operationId"] for _, operation in operations(document)]
    assert not [one for one in ids if not ID.fullmatch(one)]
    assert {"boards_subscriptions_create", "matchers_match", "maps_queries_stream"} <= set(ids)


def test_every_operation_parameter_and_response_is_described(document: dict[str, Any]) -> None:
    for where, operation in operations(document):
        assert operation["summary"] and operation["description"], where
        for parameter in operation.get("parameters", []):
            assert parameter.get("description") or parameter["schema"].get("description"), (where, parameter["name"])
        for status, response in operation["responses"].items():
            assert response["description"] not in ("", "Done.", "Successful Response"), (where, status)


def test_every_body_has_an_example(document: dict[str, Any]) -> None:
    for where, operation in operations(document):
        for kind, content in operation.get("requestBody", {}).get("content", {}).items():
            assert "example" in content or kind == "application/vnd.apache.arrow.stream", (where, kind)


def test_every_operation_has_an_example(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    for where, operation in operations(document):
        for status, response in operation["responses"].items():
            for kind, content in response["content"].items():
                model = content["schema"].get("$ref", "").rpartition("/")[2]
                assert "example" in content or schemas[model]["examples"], (where, status, kind)


def test_every_model_and_property_is_described_and_has_an_example(document: dict[str, Any]) -> None:
    for name, schema in document["components"]["schemas"].items():
        assert "__" not in name
        assert schema["description"] and schema["examples"], name
        lacking = [field for field, about in schema.get("properties", {}).items() if not about.get("description")]
        assert not lacking, name


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_an_example_is_valid_and_has_no_unknown_fields(name: str) -> None:
    if name == "Problem":
        return
    model, example = models()[name], EXAMPLES[name]
    model.model_validate(example)
    aliases = {about.alias or field for field, about in model.model_fields.items()}
    assert example.keys() <= aliases


def test_tags_licence_servers_and_scopes_are_described(document: dict[str, Any]) -> None:
    assert document["info"]["license"]["identifier"] == "Apache-2.0" and document["servers"]
    assert {tag["name"] for tag in document["tags"]} == TAGS.keys()
    assert {tag for _, operation in operations(document) for tag in operation["tags"]} == TAGS.keys()
    scheme = document["components"]["securitySchemes"]["key"]["description"]
    assert all(f"`{scope}`" in scheme for scope in SCOPES)
    for where, operation in operations(document):
        needed = [scope for one in operation.get("security", []) for scope in one.get("key", [])]
        assert set(needed) <= {*SCOPES, LINK_SCOPE}, where


def test_every_problem_type_is_listed(document: dict[str, Any]) -> None:
    types = document["components"]["schemas"]["Problem"]["properties"]["type"]["enum"]
    assert types == [f"/problems/{slug}" for slug in PROBLEMS]


def test_every_request_is_on_the_page_of_requests(document: dict[str, Any]) -> None:
    page = (ROOT / "docs" / "http.md").read_text(encoding="utf-8")
    assert page == render(document), "`make openapi` writes it"
    for where, _ in operations(document):
        method, path = where.split(" ")
        assert f"| `{method.upper()} {path}` |" in page, where
