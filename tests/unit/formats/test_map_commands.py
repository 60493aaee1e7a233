"""The log's codec of maps: every command comes back as it went in, bit for bit, also in parts."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from formats import commands as rows
from formats import map_commands as codec
from indexes.core.commands import Create, Drop
from indexes.maps.attributes import Attribute
from indexes.maps.commands import AddQueries, DeleteObjects, DeleteQueries, MoveQueries, PutObjects, SetQuery
from indexes.maps.config import MapConfig, Question, Score, Skyline, Top

CONFIG = MapConfig((Attribute("price"), Attribute("rating", True, (0.0, 5.0))), (0.0, 0.0, 100.0, 50.0), "manhattan")
BARE = MapConfig((), (-180.0, -90.0, 180.0, 90.0), "great-circle")

QUESTIONS: list[Question] = [
    Skyline(),
    Top(10, Score("weighted_sum", (("price", 0.1), ("distance", 1 / 3)))),
    Top(3, Score("waspas", (("rating", 2.0),), 1e-7, 0.5, 0.25), 5, True),
    Top(1, Score("expression", scale=3.0, expression="distance * 2 + price ** 0.5")),
]


def numbers(n: int, d: int) -> Any:
    rng = np.random.default_rng(n)
    found = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-300, 300, (n, d))
    found[::3] = np.nan
    found[1::3] = -0.0
    return found


def putting(n: int, d: int = 2) -> PutObjects:
    ids = pa.array([f"o{i % 5}" for i in range(n)])
    return PutObjects(ids, numbers(n, 2), numbers(n, d), {0: b'{"a":1}', n // 2: None, n - 1: b"[]"})


def adding(n: int) -> AddQueries:
    questions = [QUESTIONS[i % len(QUESTIONS)] for i in range(n)]
    return AddQueries(pa.array([f"q{i}" for i in range(n)]), questions, numbers(n, 2), {0: 1.5, n - 1: 2.0})


def bits(column: Any) -> Any:
    return column.view(np.int64).tolist(), column.shape


def same(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    for name in (field.name for field in fields(a)):
        value, other = getattr(a, name), getattr(b, name)
        if isinstance(value, np.ndarray):
            assert bits(value) == bits(other)
            assert other.flags.writeable and other.flags.c_contiguous, "kernels are compiled for such arrays"
        elif isinstance(value, pa.Array):
            assert value.equals(other)
        else:
            assert value == other


@pytest.mark.parametrize(
    "command",
    [
        putting(7),
        putting(4, 0),
        PutObjects(pa.array([], pa.string()), np.empty((0, 2)), np.empty((0, 0))),
        DeleteObjects(["a", "b"]),
        adding(7),
        *(
            SetQuery("q", question, (1.5, -0.0), ttl)
            for question, ttl in zip(QUESTIONS, [None, 2.5, None, 1.0], strict=True)
        ),
        MoveQueries(["a", "b", "a"], np.array([[1.0, 2.0], [0.1, 3e300], [-0.0, 5e-324]])),
        DeleteQueries(["a", "b"]),
        Create(CONFIG),
        Create(BARE),
        Drop(),
    ],
    ids=lambda command: type(command).__name__,
)
def test_a_command_comes_back(command: Any) -> None:
    parts = list(codec.encode(command, 3))
    assert [(part.size, part.name.endswith(rows.MORE)) for part in parts] == [(3, False)]
    same(command, codec.decode([(part.name, part.payload) for part in parts]))


def test_ids_in_a_list_are_logged_as_those_of_a_column() -> None:
    column = putting(5)
    listed = replace(column, ids=column.keys)
    assert list(codec.encode(listed, 5)) == list(codec.encode(column, 5)) and listed.array.equals(column.ids)


@pytest.mark.parametrize(
    "command",
    [
        putting(11),
        putting(11, 0),
        putting(11, 12),
        DeleteObjects([f"o{i}" for i in range(11)]),
        adding(11),
        MoveQueries([f"q{i}" for i in range(11)], numbers(11, 2)),
        DeleteQueries([f"q{i}" for i in range(11)]),
    ],
    ids=lambda command: type(command).__name__,
)
def test_a_long_command_comes_back_from_its_parts(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "PART", 4)
    parts = list(codec.encode(command, 11))
    assert [(part.size, part.name.endswith(rows.MORE)) for part in parts] == [(4, True), (4, True), (3, False)]
    same(command, codec.decode([(part.name, part.payload) for part in parts]))


@pytest.mark.parametrize("name", ["put", "add-queries", "put.arrow", "set-query", "move", "create"])
def test_a_damaged_row_is_told(name: str) -> None:
    with pytest.raises(rows.Damaged, match=f"a {name} command"):
        codec.decode([(name, b"\x81\xa1a\x01")])


def test_a_query_of_another_version_is_told() -> None:
    row = rows.small("set-query", 1, {"id": "q", "question": {"kind": "nearest"}, "location": [0, 0], "ttl": None})
    with pytest.raises(rows.Damaged, match="'nearest'"):
        codec.decode([(row.name, row.payload)])


def test_a_command_of_another_version_is_told() -> None:
    with pytest.raises(rows.Damaged, match="'fly'"):
        codec.decode([("fly", b"\x80")])
