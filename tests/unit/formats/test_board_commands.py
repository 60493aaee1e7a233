"""The log's codec: every command comes back as it went in, also in parts."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa
import pytest

from formats import board_commands as codec
from formats import commands as rows
from formats.commands import Damaged
from indexes.boards.commands import AddSubscriptions, Configure, DeleteSubscriptions, Events, SetSubscription
from indexes.boards.config import BoardConfig
from indexes.boards.regions import Regions, between, ranges
from indexes.compiled.decimals import POWERS
from indexes.compiled.text import pieces_of
from indexes.core.commands import Create, Drop
from indexes.core.cutting import IN_ID, cut_elements, room
from indexes.core.spaced_ids import SpacedIds

CONFIG = BoardConfig(("distance",), "delay", "desc", (5, 10), "dense", "kd-tree")


def events(n: int) -> Events:
    rng = np.random.default_rng(n)
    x, y = rng.random(n), rng.random(n)
    x[::3], y[1::3] = np.nan, np.nan
    return Events(rng.integers(0, 3, n).astype(np.uint8), [f"o{i}" for i in range(n)], x, y, {0: b"1", n - 1: None})


def subscribe(n: int) -> AddSubscriptions:
    l = np.arange(n, dtype=float)
    l[0] = -np.inf
    r = l + 1
    r[-1] = np.inf
    return AddSubscriptions(
        pa.array([f"s{i}" for i in range(n)]), ranges(l, r), np.full(n, 5, np.int32), {0: 1.5, n - 1: 2.0}
    )


def subscribe_behind(n: int) -> AddSubscriptions:
    command = subscribe(n)
    command.offset = np.arange(n, dtype=np.int32) % 3
    return command


def same(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    for name in (field.name for field in fields(a)):
        value, other = getattr(a, name), getattr(b, name)
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(value, other)
            assert value.dtype == other.dtype
        elif isinstance(value, Regions):
            same(value, other)
        elif isinstance(value, pa.Array):
            assert value.equals(other)
        elif name == "config":
            assert a.config == b.config
        else:
            assert value == other


@pytest.mark.parametrize(
    "command",
    [
        events(7),
        subscribe(7),
        subscribe_behind(7),
        SetSubscription("s", between(-np.inf, 5.0), 10, 0.0),
        SetSubscription("s", between(-np.inf, 5.0), 10, 0.0, offset=20),
        DeleteSubscriptions(["a", "b"]),
        Configure((1, 2), None),
        Configure(None, "sparse"),
        Create(CONFIG),
        Drop(),
    ],
    ids=lambda command: type(command).__name__,
)
def test_a_command_comes_back(command: Any) -> None:
    parts = list(codec.encode(command, 3))
    assert [(part.size, part.name.endswith(rows.MORE)) for part in parts] == [(3, False)]
    same(command, codec.decode([(part.name, part.payload) for part in parts]))


@pytest.mark.parametrize("make", [events, subscribe, subscribe_behind])
def test_a_long_command_is_cut_and_joined(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("formats.commands.PART", 10)
    command = make(35)
    parts = list(codec.encode(command, 35))
    assert [part.size for part in parts] == [10, 10, 10, 5]
    assert [part.name.endswith(rows.MORE) for part in parts] == [True, True, True, False]
    same(command, codec.decode([(part.name, part.payload) for part in parts]))


def test_rows_written_before_there_were_offsets_are_read() -> None:
    row = {"id": "s", "l": 0.0, "r": 1.0, "k": 5, "ttl": 0.0}
    same(SetSubscription("s", between(0.0, 1.0), 5, 0.0), codec.decode([("set-subscription", msgpack.packb(row))]))
    command = subscribe(3)
    old: dict[str, Any] = {"l": command.regions.l.tobytes(), "r": command.regions.r.tobytes(), "k": command.k.tobytes()}
    old |= {"ids": command.ids.to_pylist(), "ttl": command.ttl}
    same(command, codec.decode([("subscribe", msgpack.packb(old))]))


@pytest.mark.parametrize(
    ("name", "payload"), [("events", b"\xc1"), ("events", b"\x80"), ("nonsense", b"\x80"), ("events.arrow", b"x")]
)
def test_damage_is_reported(name: str, payload: bytes) -> None:
    with pytest.raises(Damaged):
        codec.decode([(name, payload)])


@pytest.mark.parametrize("n", [2, 300, rows.PART + 1])
@pytest.mark.parametrize("longest", [1, 31, 128])
def test_ids_as_they_were_cut_out_come_back(n: int, longest: int) -> None:
    command = events(n)
    ids = [f"{i}"[-longest:] for i in range(n - 1)] + ["a" * longest]
    text = np.frombuffer(b"".join([f"{id},0;".encode() for id in ids]), np.uint8)
    pieces = pieces_of([",", ";"])
    out = room(len(text) - 1, pieces, 1)
    count, size, unread = cut_elements(text, 0, len(text) - 1, pieces, 0, IN_ID, POWERS, out)
    assert (count, unread) == (n, 0)
    cut = SpacedIds(out.ids[:size], n)
    assert list(cut) == ids
    for some in (ids, cut):
        parts = list(codec.encode(replace(command, ids=some), n))
        same(replace(command, ids=ids), codec.decode([(part.name, part.payload) for part in parts]))


NONE = np.full(4, np.nan)
SOME = np.array([np.nan, 1.0, np.nan, 2.0])
SAME, DIFFERENT = np.full(4, 1, np.uint8), np.array([0, 1, 1, 2], np.uint8)


@pytest.mark.parametrize("op", [SAME, DIFFERENT], ids=["same", "different"])
@pytest.mark.parametrize("y", [NONE, SOME], ids=["no y", "y"])
@pytest.mark.parametrize("x", [NONE, SOME, np.column_stack([NONE, NONE]), np.column_stack([SOME, NONE])])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_columns_that_say_nothing_come_back(n: int, x: Any, y: Any, op: Any) -> None:
    command = Events(op[:n], ["a", "b", "c", "d"][:n], x[:n], y[:n], batch=n == 2)
    (part,) = codec.encode(command, n)
    same(command, codec.decode([(part.name, part.payload)]))


def test_a_column_that_no_event_gives_is_left_out() -> None:
    op, ids, n = np.full(1000, 1, np.uint8), SpacedIds(np.frombuffer(b"o123 " * 1000, np.uint8), 1000), 1000
    (part,) = codec.encode(Events(op, ids, np.full(n, np.nan), np.arange(float(n))), n)
    assert len(part.payload) < n * (8 + 5) + 100


def test_rows_with_whole_columns_and_lists_of_ids_are_read() -> None:
    command = Events(np.full(4, 1, np.uint8), ["a", "b", "c", "d"], NONE, SOME, {1: b"2"})
    columns = {"op": command.op.tobytes(), "x": NONE.tobytes(), "y": SOME.tobytes()}
    same(command, codec.decode([("events", msgpack.packb({**columns, "ids": command.ids, "payload": {1: b"2"}}))]))
    same(
        codec.decode(
            [("events", msgpack.packb({"op": b"\1", "y": SOME.tobytes(), "ids": b"a b c d ", "payload": {1: b"2"}}))]
        ),
        command,
    )


@pytest.mark.parametrize("ids", [b"a b c d", b"a b  c ", b" a b c ", b"a b c d e ", b"a b c \xe9 ", ["a", "b"]])
def test_ids_that_are_damaged_are_reported(ids: Any) -> None:
    row = {"op": b"\1", "y": SOME.tobytes(), "ids": ids, "payload": {}}
    with pytest.raises(Damaged):
        codec.decode([("events", msgpack.packb(row))])
