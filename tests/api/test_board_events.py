import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.boards.models import BoardEventsQuery, validators
from app.api.boards.parsing.events import EventReader, ReadEvents
from app.api.bodies import BodyFormat
from app.api.problems import Problem
from indexes.boards.commands import UPSERT

READER = EventReader(("distance",), "delay", validators(("distance",), "delay", 1000, 100), 200)

numbers = st.floats(-1e300, 1e300).map(lambda v: v + 0.0)
values = st.fixed_dictionaries({}, optional={"distance": numbers, "delay": numbers})
payloads = (
    st.none()
    | st.integers(-5, 5)
    | st.text(max_size=5)
    | st.dictionaries(st.text(max_size=3), st.booleans(), max_size=3)
)
ids = st.text("abcXYZ019._:-", min_size=3, max_size=8)
changes = st.fixed_dictionaries(
    {"op": st.sampled_from(["upsert", "update"]), "id": ids}, optional={"values": values, "payload": payloads}
)
deletions = st.fixed_dictionaries({"op": st.just("delete"), "id": ids})
events = st.lists(changes | deletions, max_size=20)


def as_json(items: list[Any], **more: Any) -> ReadEvents:
    return READER.read(BodyFormat.JSON, json.dumps({"events": items, **more}).encode(), BoardEventsQuery())


def as_lines(items: list[Any], **more: Any) -> ReadEvents:
    raw = "\n".join(json.dumps(item) for item in items).encode()
    return READER.read(BodyFormat.NDJSON, raw, BoardEventsQuery(**more))


def table_of(items: list[dict[str, Any]]) -> pa.Table:
    return pa.table(
        {
            "op": pa.array([item["op"] for item in items], pa.string()).dictionary_encode(),
            "id": pa.array([item["id"] for item in items], pa.large_string()),
            "distance": pa.array([item.get("values", {}).get("distance") for item in items], pa.float64()),
            "delay": pa.array([item.get("values", {}).get("delay") for item in items], pa.float64()),
            "payload": pa.array(
                [json.dumps(item["payload"]) if "payload" in item else None for item in items], pa.string()
            ),
        }
    )


def as_arrow(table: pa.Table, rows: int | None = None, **more: Any) -> ReadEvents:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    return READER.read(BodyFormat.ARROW, bytes(sink.getvalue()), BoardEventsQuery(**more))


def columns(read: ReadEvents) -> tuple[Any, ...]:
    command = read.command
    numbers = [None if math.isnan(v) else v for v in (*command.x.tolist(), *command.y.tolist())]
    return command.op.tolist(), command.ids, numbers, command.payload


@given(events)
def test_the_three_kinds_of_body_say_the_same(items: list[dict[str, Any]]) -> None:
    whole = columns(as_json(items))
    assert columns(as_lines(items)) == whole
    assert columns(as_arrow(table_of(items))) == whole
    assert columns(as_arrow(table_of(items), rows=3)) == whole


def test_what_is_not_given_is_absent() -> None:
    command = as_json([{"op": "update", "id": "a", "values": {"delay": 3}}, {"op": "delete", "id": "b"}]).command
    assert np.isnan(command.x).all()
    assert command.y[0] == 3.0
    assert np.isnan(command.y[1])
    assert command.payload == {}


def test_a_payload_is_compact_and_null_takes_it_away() -> None:
    items = [{"op": "update", "id": "a", "payload": {"to": "IAH"}}, {"op": "update", "id": "b", "payload": None}]
    assert as_json(items).command.payload == {0: b'{"to":"IAH"}', 1: None}


BAD = [
    ({"op": "update", "id": "a", "values": {"delay": "x"}}, "values.delay"),
    ({"op": "delete", "id": "a", "values": {"delay": 1}}, "values"),
    ({"op": "delete", "id": "a", "payload": 1}, "payload"),
    ({"op": "update", "id": "a", "payload": "x" * 210}, "payload"),
    ({"op": "update", "id": "a b"}, "id"),
    ({"op": "fly", "id": "a"}, "op"),
]


@pytest.mark.parametrize(("bad", "field"), BAD)
def test_a_bad_event_is_named_in_lists_and_lines(bad: dict[str, Any], field: str) -> None:
    good = {"op": "update", "id": "a"}
    for read in (as_json, as_lines):
        with pytest.raises(Problem) as refused:
            read([good, good, bad])
        assert refused.value.status_code == 422
        assert [error.field for error in refused.value.errors] == [f"events[2].{field}"]


@pytest.mark.parametrize(("bad", "field"), BAD)
def test_bad_events_are_skipped_when_told(bad: dict[str, Any], field: str) -> None:
    items = [bad, {"op": "update", "id": "a", "payload": 7}, bad, {"op": "delete", "id": "b"}]
    for read in (as_json, as_lines):
        found = read(items, on_error="skip")
        assert found.command.skip
        assert found.command.ids == ["a", "b"]
        assert found.command.payload == {0: b"7"}
        assert [found.place_of(i) for i in range(2)] == [1, 3]
        assert [(error.index, error.field) for error in found.errors] == [(0, field), (2, field)]


def test_arrow_names_bad_cells() -> None:
    table = pa.table(
        {
            "op": ["upsert", "fly", None, "update", "delete", "update"],
            "id": ["a", "b", "c", None, "d", "e e"],
            "delay": [math.nan, math.inf, 1e301, 1.0, 2.0, None],
            "payload": ["{", None, '"x"', "NaN", "1", "null"],
        }
    )
    found = as_arrow(table, on_error="skip")
    assert sorted((error.index, error.field) for error in found.errors) == [
        (0, "payload"),
        (0, "values.delay"),
        (1, "op"),
        (1, "values.delay"),
        (2, "op"),
        (2, "values.delay"),
        (3, "id"),
        (3, "payload"),
        (4, "payload"),
        (4, "values"),
        (5, "id"),
    ]
    assert len(found.command) == 0


@pytest.mark.parametrize(
    ("table", "fields"),
    [
        (pa.table({"op": ["update"]}), ["id"]),
        (pa.table({"op": ["update"], "id": ["a"], "speed": [1.0]}), ["speed"]),
        (pa.table({"op": ["update"], "id": [1]}), ["id"]),
        (pa.table({"op": ["update"], "id": ["a"], "delay": ["1"]}), ["delay"]),
        (pa.table({"op": ["update"], "id": ["a"], "delay": [True]}), ["delay"]),
        (pa.Table.from_arrays([pa.array(["update"])] * 2 + [pa.array(["a"])], ["op", "op", "id"]), ["op"]),
    ],
)
def test_arrow_columns_are_checked(table: pa.Table, fields: list[str]) -> None:
    with pytest.raises(Problem) as refused:
        as_arrow(table, on_error="skip")
    assert refused.value.status_code == 422
    assert [error.field for error in refused.value.errors] == fields


def test_integers_are_numbers_in_arrow() -> None:
    table = pa.table({"op": ["update"] * 2, "id": ["a", "b"], "delay": pa.array([3, None], pa.int16())})
    command = as_arrow(table).command
    assert command.y[0] == 3.0
    assert np.isnan(command.y[1])


@pytest.mark.parametrize("mode", ["each", "batch"])
def test_the_mode_is_read_from_every_kind_of_body(mode: str) -> None:
    items: list[dict[str, Any]] = [{"op": "upsert", "id": "a", "values": {"distance": 1, "delay": 2}}]
    found = [as_json(items, mode=mode), as_lines(items, mode=mode), as_arrow(table_of(items), mode=mode)]
    assert [one.command.batch for one in found] == [mode == "batch"] * 3
    with pytest.raises(Problem):
        as_json(items, mode="both")


def test_one_object_is_one_event() -> None:
    command = READER.one(UPSERT, "a", {"values": {"delay": 2.0}, "payload": [1]})
    assert (command.ids, command.y.tolist(), command.payload) == (["a"], [2.0], {0: b"[1]"})
    with pytest.raises(Problem):
        READER.one(UPSERT, "a", {"id": "b"})
