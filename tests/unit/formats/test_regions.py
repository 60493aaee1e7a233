"""Places and regions as columns, and rows of logs written before there were several attributes."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa
import pytest

from formats import board_commands as codec
from formats.commands import Damaged
from formats.regions import columns_of, dimensions, joined_places, place_columns, place_names, region_fields, regions_of
from indexes.boards.commands import AddSubscriptions, Command, Events, SetSubscription
from indexes.boards.regions import Region, Regions, between, everywhere, ranges

INF = np.inf
SHAPES = [
    Region("box", (-INF, 2.0, 1.0, INF)),
    Region("disc", (1.0, 2.0, 3.0)),
    Region("half_plane", (1.0, -2.0, 3.0)),
    Region("simplex", (0.0, 0.0, 1.0, 0.0, 0.0, 1.0)),
]


def some(d: int) -> Regions:
    if d == 2:
        return Regions.of(SHAPES, 2)
    return Regions.of([everywhere(d), Region("box", tuple(map(float, range(2 * d))))], d)


def same(a: Regions, b: Regions) -> None:
    assert a.d == b.d
    np.testing.assert_array_equal(a.shape, b.shape)
    np.testing.assert_array_equal(a.sides, b.sides)


@pytest.mark.parametrize("d", [1, 2, 3, 4])
def test_columns_say_how_many_attributes_there_are(d: int) -> None:
    columns = columns_of(some(d))
    assert list(columns) == [field.name for field in region_fields(d)]
    assert dimensions(columns) == d
    same(regions_of({**columns, "k": np.zeros(1)}), some(d))


@pytest.mark.parametrize("d", [1, 3])
def test_places_come_back(d: int) -> None:
    x = np.arange(6.0) if d == 1 else np.arange(18.0).reshape(6, 3)
    assert len(place_columns(x)) == len(place_names(d)) == d
    np.testing.assert_array_equal(joined_places(place_columns(x)), x)


@pytest.mark.parametrize("d", [2, 3, 4])
@pytest.mark.parametrize("part", [2, 50])
def test_commands_of_several_attributes_come_back(d: int, part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("formats.commands.PART", part)
    x = np.arange(5.0 * d).reshape(5, d)
    x[1, 0] = np.nan
    events = Events(np.zeros(5, np.uint8), list("abcde"), x, np.arange(5.0), {1: b"1", 3: None}, batch=True)
    regions = some(d)
    ids = pa.array([f"s{i}" for i in range(len(regions))])
    subscribe = AddSubscriptions(ids, regions, np.arange(1, 1 + len(regions), dtype=np.int32), {1: 2.5})
    edits = (SetSubscription("s", regions.at(i), 3, 0.0) for i in range(len(regions)))
    commands: list[Command] = [events, subscribe, *edits]
    for command in commands:
        parts = list(codec.encode(command, 5))
        found = codec.decode([(one.name, one.payload) for one in parts])
        assert type(found) is type(command)
        for name in (field.name for field in fields(command)):
            mine, theirs = getattr(command, name), getattr(found, name)
            if isinstance(mine, Regions):
                same(mine, theirs)
            elif isinstance(mine, np.ndarray):
                np.testing.assert_array_equal(mine, theirs)
            elif isinstance(mine, pa.Array):
                assert mine.equals(theirs)
            else:
                assert mine == theirs, name


def test_one_attribute_is_logged_as_ever() -> None:
    """Rows of an older service are read, and those of this one read the same there."""
    k = np.array([2, 3], np.int32)
    two = AddSubscriptions(pa.array(["a", "b"]), ranges([-INF, 1.0], [2.0, INF]), k)
    [row] = codec.encode(two, 2)
    fields_: dict[str, Any] = {
        "l": np.array([-INF, 1.0]).tobytes(), "r": np.array([2.0, INF]).tobytes(), "k": k.tobytes(),
        "ids": ["a", "b"], "ttl": {},
    }  # fmt: skip
    assert (row.name, msgpack.unpackb(row.payload)) == ("subscribe", fields_)
    [row] = codec.encode(SetSubscription("a", between(1.0, INF), 2, 0.0, offset=0), 1)
    assert msgpack.unpackb(row.payload) == {"id": "a", "l": 1.0, "r": INF, "k": 2, "ttl": 0.0, "offset": 0}
    events = Events(np.zeros(2, np.uint8), ["a", "b"], np.array([1.0, np.nan]), np.array([3.0, 4.0]))
    [row] = codec.encode(events, 2)
    assert set(msgpack.unpackb(row.payload)) == {"op", "x", "y", "ids", "payload"}
    assert codec.decode([(row.name, row.payload)]).x.shape == (2,)


def test_a_row_that_lacks_a_column_is_damaged() -> None:
    for columns in ({"shape": b"\0"}, {"l": np.zeros(1).tobytes()}, {}):
        payload = msgpack.packb({"k": np.ones(1, "<i4").tobytes(), "ids": ["a"], "ttl": {}, **columns})
        with pytest.raises(Damaged):
            codec.decode([("subscribe", payload)])
