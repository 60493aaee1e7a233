from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter
from starlette.requests import Request

from app.api import bodies
from app.api.bodies import BodyFormat
from app.api.problems import Problem

ANY = TypeAdapter(Any)


def typed(content_type: str | None, **more: str) -> Request:
    headers = [(b"content-type", content_type.encode())] if content_type is not None else []
    headers += [(name.replace("_", "-").encode(), value.encode()) for name, value in more.items()]
    return Request({"type": "http", "headers": headers})


def stream(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, **options) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


@pytest.mark.parametrize(
    ("content_type", "kind"),
    [
        ("application/json", BodyFormat.JSON),
        ("Application/JSON; charset=UTF-8", BodyFormat.JSON),
        ("application/x-ndjson", BodyFormat.NDJSON),
        ("application/vnd.apache.arrow.stream", BodyFormat.ARROW),
    ],
)
def test_the_content_type_says_what_a_body_is(content_type: str, kind: BodyFormat) -> None:
    assert bodies.format_of(typed(content_type), bodies.BULK) is kind


@pytest.mark.parametrize(
    "content_type", [None, "", "text/plain", "application/jsonx", "application/json; charset=utf-16"]
)
def test_other_content_types_are_refused(content_type: str | None) -> None:
    with pytest.raises(Problem) as refused:
        bodies.format_of(typed(content_type), bodies.BULK)
    assert refused.value.status_code == 415


def test_bulk_is_refused_where_it_is_not_offered_and_compressed_bodies_are() -> None:
    with pytest.raises(Problem):
        bodies.format_of(typed("application/x-ndjson"))
    with pytest.raises(Problem):
        bodies.format_of(typed("application/json", content_encoding="gzip"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[1,]",
        "{'a': 1}",
        "NaN",
        '{"a": Infinity}',
        "[-Infinity]",
        '"\\ud800"',
        "\ufeff{}",
        "[" * 100_000,
        '{"a":' * 100_000,
        "01",
        "nul",
        '{"a": 1} x',
    ],
)
def test_what_is_not_json_is_400(text: str) -> None:
    with pytest.raises(Problem) as refused:
        bodies.validated(text.encode(), ANY)
    assert refused.value.status_code == 400


def test_bytes_that_are_no_text_are_400() -> None:
    with pytest.raises(Problem) as refused:
        bodies.validated(b'{"a": "\xff"}', ANY)
    assert refused.value.status_code == 400


def test_nan_inside_a_string_is_a_string() -> None:
    assert bodies.validated(b'{"a": "NaN and Infinity"}', ANY) == {"a": "NaN and Infinity"}


def test_lines_are_numbered_and_blank_ones_passed_over() -> None:
    assert list(bodies.lines(b'{"a":1}\r\n\n  \n{"b":2}')) == [(1, b'{"a":1}'), (4, b'{"b":2}')]


def test_an_arrow_stream_is_read() -> None:
    table = pa.table({"id": ["a", "b"], "x": [1.0, None]})
    for compression in (None, "lz4", "zstd"):
        raw = stream(table, options=pa.ipc.IpcWriteOptions(compression=compression))
        assert bodies.arrow_table(raw).equals(table)


def test_an_arrow_file_is_no_arrow_stream() -> None:
    table = pa.table({"id": ["a"]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(Problem) as refused:
        bodies.arrow_table(bytes(sink.getvalue()))
    assert refused.value.status_code == 400


@given(st.data())
def test_a_damaged_arrow_stream_is_read_or_refused(data: st.DataObject) -> None:
    table = pa.table({"id": ["aa", "b", None], "x": np.arange(3.0), "p": ['{"a":1}', None, "2"]})
    raw = bytearray(stream(table))
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    raw = raw[: data.draw(st.integers(0, len(raw)))]
    with suppress(Problem):
        bodies.arrow_table(raw).to_pylist()
