"""Rows of the log whose Arrow no service wrote: refused as damaged, and not read beyond their buffers."""

from __future__ import annotations

from typing import Any

import msgpack
import numpy as np
import pyarrow as pa
import pytest

from formats import board_commands, feed_commands, map_commands, matcher_commands, relay_commands
from formats.commands import Damaged, matrix
from tests.support.crafted_arrow import CRAFTED, stream

IDS = pa.array(["a", "b", "c"])
NUMBERS = pa.array([1.0, 2.0, 3.0])
PAIRS = matrix(np.ones((3, 2)))
BYTES = pa.nulls(3, pa.binary())
SOME = pa.array([b"1", None, b"2"], pa.binary())
WORDS = pa.array([["x"], ["y"], ["z"]])
WHOLE = pa.array([1, 2, 3], pa.int64())

ROWS: dict[str, tuple[Any, dict[str, pa.Array]]] = {
    "events.arrow": (
        board_commands,
        {
            "op": pa.array([0, 0, 0], pa.uint8()),
            "id": IDS,
            "x": NUMBERS,
            "y": NUMBERS,
            "given": pa.array([True, False, True]),
            "payload": SOME,
        },
    ),
    "subscribe.arrow": (board_commands, {"id": IDS, "l": NUMBERS, "r": NUMBERS, "k": WHOLE, "ttl": NUMBERS}),
    "put.arrow": (
        map_commands,
        {"id": IDS, "location": PAIRS, "told": pa.array([True, False, True]), "payload": SOME, "value0": NUMBERS},
    ),
    "add.arrow": (matcher_commands, {"id": IDS, "ttl": NUMBERS, "lo": PAIRS, "hi": PAIRS, "scores": PAIRS}),
    "match.arrow": (matcher_commands, {"event": PAIRS, "payload": SOME}),
    "edit.arrow": (
        relay_commands,
        {"op": pa.array([0, 0, 0], pa.uint8()), "id": IDS, "lo": PAIRS, "hi": PAIRS, "link": IDS, "ttl": NUMBERS},
    ),
    "notify.arrow": (relay_commands, {"values": PAIRS, "payload": SOME, "link": IDS}),
    "withdraw.arrow": (feed_commands, {"id": IDS}),
}


def row(name: str, columns: dict[str, pa.Array]) -> bytes:
    about = {"k": "1", "explain": "0"} if name == "match.arrow" else None
    return stream(pa.table(columns).replace_schema_metadata(about))


@pytest.mark.parametrize("name", ROWS)
def test_rows_of_crafted_columns_are_damaged(name: str) -> None:
    codec, columns = ROWS[name]
    assert codec.decode([(name, row(name, columns))])
    for what, (column, old, new) in CRAFTED.items():
        for field in columns:
            raw = row(name, {**columns, field: column})
            assert old in raw, what
            with pytest.raises(Damaged):
                codec.decode([(name, raw.replace(old, new))])


@pytest.mark.parametrize("name", ["subscribe.arrow", "put.arrow", "add.arrow", "edit.arrow"])
@pytest.mark.parametrize("kind", [pa.large_string(), pa.binary(), pa.string_view(), pa.null()])
def test_ids_of_another_type_are_damaged(name: str, kind: pa.DataType) -> None:
    codec, columns = ROWS[name]
    ids = pa.nulls(3) if kind == pa.null() else IDS.cast(kind)
    with pytest.raises(Damaged):
        codec.decode([(name, row(name, {**columns, "id": ids}))])


def test_a_decimal_that_python_cannot_hold_is_damaged() -> None:
    column = pa.array([1, None, 3]).cast(pa.decimal128(30, 2))
    codec, columns = ROWS["add.arrow"]
    raw = row("add.arrow", {**columns, "ttl": column})
    found = 0
    for at in range(len(raw) - 4):
        try:
            codec.decode([("add.arrow", raw[:at] + b"\xff\xff\xff\x7f" + raw[at + 4 :])])
        except Damaged:
            found += 1
    assert found


@pytest.mark.parametrize("field", ["op", "ids", "x", "y"])
def test_events_whose_columns_differ_in_length_are_damaged(field: str) -> None:
    number = np.ones(2).tobytes()
    fields = {"op": b"\0\0", "ids": ["a", "b"], "x": number, "y": number, "payload": {}}
    longer = {"op": b"\0" * 3, "ids": ["a", "b", "c"], "x": np.ones(3).tobytes(), "y": np.ones(4).tobytes()}
    assert board_commands.decode([("events", msgpack.packb(fields))])
    with pytest.raises(Damaged):
        board_commands.decode([("events", msgpack.packb({**fields, field: longer[field]}))])
