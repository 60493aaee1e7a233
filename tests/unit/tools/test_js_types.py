"""Schemas of openapi.yaml as types of TypeScript."""

from __future__ import annotations

from typing import Any

import pytest

from tools.js_types import TARGET, comment, declaration, operations, type_of

NUMBER = {"type": "number"}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"$ref": "#/components/schemas/Rank"}, "Rank"),
        ({"enum": ["asc", "desc"]}, '"asc" | "desc"'),
        ({"const": "disc"}, '"disc"'),
        ({"anyOf": [NUMBER, {"type": "integer"}, {"type": "null"}]}, "number | null"),
        ({"allOf": [{"$ref": "#/a/A"}, {"anyOf": [NUMBER, {"type": "null"}]}]}, "A & (number | null)"),
        ({"type": ["string", "null"]}, "string | null"),
        ({"type": "array", "items": NUMBER}, "number[]"),
        ({"type": "array", "items": {"anyOf": [NUMBER, {"type": "null"}]}}, "(number | null)[]"),
        ({"type": "array", "items": NUMBER, "minItems": 2, "maxItems": 2}, "[number, number]"),
        ({"type": "array", "prefixItems": [NUMBER, {"type": "string"}]}, "[number, string]"),
        ({"type": "object", "additionalProperties": NUMBER}, "{ [name: string]: number }"),
        ({"type": "object", "patternProperties": {"^a$": NUMBER}, "additionalProperties": False},
         "{ [name: string]: number }"),
        ({"type": "object"}, "{ [name: string]: Json }"),
        ({}, "Json"),
        (True, "Json"),
    ],
)  # fmt: skip
def test_a_schema_is_a_type(schema: Any, expected: str) -> None:
    assert type_of(schema) == expected


def test_properties_are_optional_unless_required_and_quoted_where_they_are_no_names() -> None:
    schema = {
        "type": "object",
        "properties": {"a": NUMBER, "b-c": {**NUMBER, "description": "Its */ b."}},
        "required": ["a"],
    }
    made = declaration("One", schema)
    assert made == 'export type One = {\n  a: number;\n  /** Its * / b. */\n  "b-c"?: number;\n};\n'


def test_long_descriptions_are_wrapped() -> None:
    lines = comment({"description": "word " * 60}, "  ").splitlines()
    assert lines[0] == "  /**" and lines[-1] == "   */" and max(map(len, lines)) <= 120


def test_operations_have_their_bodies_and_responses() -> None:
    shown = {"content": {"application/json": {"schema": {"$ref": "#/s/Board"}}}}
    put = {"operationId": "boards_put", "requestBody": shown, "responses": {"200": shown, "201": shown, "422": {}}}
    stream = {"operationId": "stream", "responses": {"200": {"content": {"text/event-stream": {}}}}}
    made = operations({"/v1/boards/{board}": {"put": put, "get": stream, "parameters": []}})
    assert "  boards_put: { body: Board; response: Board };" in made
    assert "  stream: { response: unknown };" in made


def test_the_file_names_no_type_that_is_not_there() -> None:
    text = TARGET.read_text(encoding="utf-8")
    assert "export type BoardEvent = {" in text and "undefined" not in text
