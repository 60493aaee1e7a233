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


@pytest.mark.parametrize("n", [2, 15, 16, 300, rows.PART + 1, 1 << 16])
@pytest.mark.parametrize("longest", [1, 31, 32, 128])
def test_ids_as_they_were_cut_out_are_logged_as_a_list_of_them_is(n: int, longest: int) -> None:
    command = events(n)
    ids = [f"{i}"[-longest:] for i in range(n - 1)] + ["a" * longest]
    text = np.frombuffer(b"".join([f"{id},0;".encode() for id in ids]), np.uint8)
    pieces = pieces_of([",", ";"])
    out = room(len(text) - 1, pieces, 2)
    count, size, packed, unread = cut_elements(text, 0, len(text) - 1, pieces, 0, IN_ID, POWERS, out)
    assert (count, unread) == (n, 0)
    cut = SpacedIds(out.ids[:size], n, out.packed[:packed])
    assert list(cut) == ids
    logged = [list(codec.encode(replace(command, ids=some), n)) for some in (ids, cut, SpacedIds(cut.texts, n))]
    assert logged[0] == logged[1] == logged[2]


@pytest.mark.parametrize("n", [0, 1, 15, 16, (1 << 16) - 1, 1 << 16])
def test_what_is_packed_before_is_as_msgpack_packs_it(n: int) -> None:
    fields = {"ids": ["a"] * n, "other": {1: b"2"}}
    cut = SpacedIds(np.frombuffer(b"a " * n, np.uint8), n, np.frombuffer(b"\xa1a" * n, np.uint8))
    assert rows.packed({**fields, "ids": rows.listed(cut)}) == msgpack.packb(fields)
