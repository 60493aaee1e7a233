"""asyncapi.yaml names what streams and sockets really send and take."""

from __future__ import annotations

from typing import Any

import pytest

from app.api.messages import OPERATIONS, REPLIES, STREAMS
from app.main import create_app
from app.streaming import buffer, operations
from tools.asyncapi import document
from tools.documents import ROOT


@pytest.fixture(scope="module")
def written() -> dict[str, Any]:
    return document()


def test_every_example_is_valid() -> None:
    for event in (*(event for stream in STREAMS for event in stream.events), *REPLIES):
        event.data.model_validate(event.example)
    for model, example in OPERATIONS.values():
        model.model_validate(example)


def test_operations_are_those_of_the_socket() -> None:
    assert OPERATIONS.keys() == operations.NEEDED.keys()
    for op, (model, _) in OPERATIONS.items():
        needed = {name for name, about in model.model_fields.items() if about.is_required()}
        assert needed == {"op", *operations.NEEDED[op]}
        assert model.model_fields.keys() == {"op", *operations.NEEDED[op], *operations._OPTIONAL.get(op, ())}


def test_every_stream_of_the_api_is_there() -> None:
    paths = {path for path in create_app().openapi()["paths"] if path.endswith("/stream")}
    assert {stream.path for stream in STREAMS} == paths


def test_events_of_the_service_are_there() -> None:
    names = {event.name for stream in STREAMS for event in stream.events}
    service = {buffer.CHANGE, buffer.GONE, buffer.READY, buffer.WIN, buffer.NOTIFICATION, buffer.RESULT}
    assert service | {"snapshot", "reset", "tiles", "progress"} == names


def test_operations_and_replies_of_the_socket_are_explained() -> None:
    pages = "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("streams.md", "maps.md"))
    for op in OPERATIONS:
        assert f'"op": "{op}"' in pages, op
    for event in REPLIES:
        assert f'"event": "{event.name}"' in pages, event.name


def test_every_reference_is_there(written: dict[str, Any]) -> None:
    def walk(node: Any) -> None:
        if isinstance(node, dict):
            if "$ref" in node:
                found: Any = written
                for part in node["$ref"].removeprefix("#/").split("/"):
                    found = found[part]
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(written)
