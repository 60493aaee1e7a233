import json
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.boards.models import validators
from app.api.boards.parsing.subscriptions import ReadSubscriptions, SubscriptionReader
from app.api.bodies import BodyFormat
from app.api.models import ListsQuery
from app.api.problems import Problem
from app.api.values import is_name
from indexes.boards.commands import SetSubscription
from indexes.boards.regions import between
from tests.support.values import in_order

READER = SubscriptionReader(("distance",), validators(("distance",), "delay", 1000, 100), 100)

ends = st.none() | st.floats(-1e300, 1e300)
pairs = st.tuples(ends, ends).filter(in_order).map(list)
ids = st.text("abcXYZ019._:-", min_size=3, max_size=8)
wanted = st.fixed_dictionaries(
    {"id": ids, "k": st.integers(1, 100)},
    optional={
        "range": st.fixed_dictionaries({}, optional={"distance": pairs}),
        "offset": st.integers(0, 100),
        "ttl": st.floats(0.1, 1e6),
    },
)


def as_json(items: list[Any], **more: Any) -> ReadSubscriptions:
    return READER.read(BodyFormat.JSON, json.dumps({"subscriptions": items, **more}).encode(), ListsQuery())


def as_lines(items: list[Any], **more: Any) -> ReadSubscriptions:
    raw = "\n".join(json.dumps(item) for item in items).encode()
    return READER.read(BodyFormat.NDJSON, raw, ListsQuery(**more))


def as_arrow(table: pa.Table, rows: int | None = None, **more: Any) -> ReadSubscriptions:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    return READER.read(BodyFormat.ARROW, bytes(sink.getvalue()), ListsQuery(**more))


def table_of(items: list[dict[str, Any]]) -> pa.Table:
    pairs = [item.get("range", {}).get("distance", [None, None]) for item in items]
    return pa.table(
        {
            "id": pa.array([item["id"] for item in items], pa.string()),
            "k": pa.array([item["k"] for item in items], pa.int16()),
            "distance_min": pa.array([pair[0] for pair in pairs], pa.float64()),
            "distance_max": pa.array([pair[1] for pair in pairs], pa.float64()),
            "ttl": pa.array([item.get("ttl") for item in items], pa.float64()),
            "offset": pa.array([item.get("offset") for item in items], pa.uint8()),
        }
    )


def columns(read: ReadSubscriptions) -> tuple[Any, ...]:
    command = read.command
    offset = None if command.offset is None else command.offset.tolist()
    return command.ids.to_pylist(), *command.regions.sides.tolist(), command.k.tolist(), command.ttl, offset


@given(st.lists(wanted, max_size=12))
def test_the_three_kinds_of_body_say_the_same(items: list[dict[str, Any]]) -> None:
    whole = columns(as_json(items))
    assert whole[-1] in (None, [item.get("offset", 0) for item in items])
    assert columns(as_lines(items)) == whole
    assert columns(as_arrow(table_of(items))) == whole
    assert columns(as_arrow(table_of(items), rows=2)) == whole


def test_open_ends_are_infinite() -> None:
    command = as_json([{"k": 1}, {"k": 1, "range": {}}, {"k": 1, "range": {"distance": [None, 5]}}]).command
    assert command.regions.l.tolist() == [-math.inf] * 3
    assert command.regions.r.tolist() == [math.inf, math.inf, 5.0]


def test_ids_left_out_are_made_up() -> None:
    first = as_json([{"k": 1}, {"id": "mine", "k": 1}, {"id": None, "k": 1}]).command.ids.to_pylist()
    second = as_arrow(pa.table({"k": [1, 2]})).command.ids.to_pylist()
    assert first[1] == "mine"
    assert len({*first, *second}) == 5
    assert all(is_name(name) for name in (*first, *second))


BAD = [
    ({"id": "a", "k": 1, "range": {"distance": [5, 1]}}, "range.distance"),
    ({"id": "a", "k": 1, "range": {"distance": [5, True]}}, "range.distance[1]"),
    ({"id": "a", "k": 1, "range": {"speed": [5, 6]}}, "range.speed"),
    ({"id": "a", "k": 101}, "k"),
    ({"id": "a"}, "k"),
    ({"id": "a b", "k": 1}, "id"),
    ({"id": "a", "k": 1, "ttl": 0}, "ttl"),
    ({"id": "a", "k": 1, "offset": -1}, "offset"),
    ({"id": "a", "k": 1, "offset": 101}, "offset"),
    ({"id": "a", "k": 1, "offset": 1.0}, "offset"),
    ({"id": "a", "k": 1, "offset": None}, "offset"),
]


@pytest.mark.parametrize(("bad", "field"), BAD)
def test_a_bad_subscription_is_named_or_skipped(bad: dict[str, Any], field: str) -> None:
    good = {"id": "good", "k": 7, "ttl": 9.5, "offset": 4}
    for read in (as_json, as_lines):
        with pytest.raises(Problem) as refused:
            read([good, bad])
        assert [error.field for error in refused.value.errors] == [f"subscriptions[1].{field}"]
        found = read([bad, good], on_error="skip")
        assert columns(found) == (["good"], [-math.inf], [math.inf], [7], {0: 9.5}, [4])
        assert found.place_of(0) == 1
        assert [(error.index, error.field) for error in found.errors] == [(0, field)]


def test_arrow_names_bad_cells() -> None:
    table = pa.table(
        {
            "id": ["a b", "b", "c", "d", "e", "f"],
            "k": [1, 0, None, 1, 1, 101],
            "distance_min": [0, math.nan, 0, 9, 0, 0],
            "distance_max": [1, 1, 1e301, 1, 1, 1],
            "ttl": [1.0, 1.0, 1.0, 1.0, -1.0, 1.0],
            "offset": [-1, 0, 1, None, 101, 100],
        }
    )
    found = as_arrow(table, on_error="skip")
    assert sorted((error.index, error.field) for error in found.errors) == [
        (0, "id"),
        (0, "offset"),
        (1, "k"),
        (1, "range.distance[0]"),
        (2, "k"),
        (2, "range.distance[1]"),
        (3, "range.distance"),
        (4, "offset"),
        (4, "ttl"),
        (5, "k"),
    ]


def test_a_put_says_all_and_a_patch_some() -> None:
    whole = READER.whole("a", {"k": 3, "range": {"distance": [None, 2.0]}})
    assert whole == SetSubscription("a", between(-math.inf, 2.0), 3, 0.0, offset=0, where=())
    part = READER.part("a", {"ttl": None})
    assert part == SetSubscription("a", None, None, 0.0, must_exist=True)
    assert READER.part("a", {}).ttl is None
    assert (whole.offset, part.offset, READER.part("a", {"offset": 0}).offset) == (0, None, 0)
    with pytest.raises(Problem):
        READER.whole("a", {"id": "b", "k": 1})
