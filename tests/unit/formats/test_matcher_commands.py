"""The log's codec of matchers: every command comes back as it went in, bit for bit, also in parts."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa
import pytest

from formats import commands as rows
from formats import matcher_commands as codec
from indexes.core.commands import Create, Drop
from indexes.matchers.commands import AddSubscriptions, DeleteSubscriptions, Match, SetSubscriptions
from indexes.matchers.config import MatcherConfig, Subscriptions

CONFIG = MatcherConfig(("age", "credit"), "relaxed", "product", "ir")
EXACT = MatcherConfig(("age",), "exact")


def subscriptions(n: int, scores: int) -> Subscriptions:
    rng = np.random.default_rng(n)
    lo = rng.random((n, 2)) * 10.0 ** rng.integers(-300, 300, (n, 2))
    hi = lo.copy()
    lo[::3, 0], hi[1::3, 1], lo[::2, 1] = -np.inf, np.inf, -0.0
    return Subscriptions(lo, hi, rng.random((n, scores)))


def adding(n: int, scores: int = 2, ttl: bool = True) -> AddSubscriptions:
    limits = {0: 1.5, n - 1: 2.0} if ttl else {}
    return AddSubscriptions(pa.array([f"s{i}" for i in range(n)]), subscriptions(n, scores), limits)


def setting(n: int) -> SetSubscriptions:
    return SetSubscriptions([f"s{i // 2}" for i in range(n)], subscriptions(n, 2), {0: 1.5, n // 2: 3.0})


def matching(n: int) -> Match:
    events = np.random.default_rng(n).random((n, 4))
    events[0, :2] = np.inf, -np.inf
    return Match(events, 7, n % 2 == 0, {0: b'{"a":1}', n - 1: b"[]"})


def bits(column: Any) -> Any:
    return column.view(np.int64).tolist(), column.shape


def same(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    for name in (field.name for field in fields(a)):
        value, other = getattr(a, name), getattr(b, name)
        if isinstance(value, Subscriptions):
            assert [bits(column) for column in value] == [bits(column) for column in other]
        elif isinstance(value, np.ndarray):
            assert bits(value) == bits(other)
            assert other.flags.writeable, "kernels are compiled for arrays that may be written to"
        elif isinstance(value, pa.Array):
            assert value.equals(other)
        else:
            assert value == other


@pytest.mark.parametrize(
    "command",
    [
        adding(7),
        adding(7, 1, False),
        setting(7),
        setting(1),
        DeleteSubscriptions(["a", "b"]),
        matching(7),
        matching(2),
        Create(CONFIG),
        Create(EXACT),
        Drop(),
    ],
    ids=lambda command: type(command).__name__,
)
def test_a_command_comes_back(command: Any) -> None:
    parts = list(codec.encode(command, 3))
    assert [(part.size, part.name.endswith(rows.MORE)) for part in parts] == [(3, False)]
    same(command, codec.decode([(part.name, part.payload) for part in parts]))


@pytest.mark.parametrize(
    "command",
    [adding(11), adding(11, 1, False), setting(11), DeleteSubscriptions([f"s{i}" for i in range(11)]), matching(11)],
)
def test_a_long_command_comes_back_from_its_parts(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "PART", 4)
    parts = list(codec.encode(command, 11))
    assert [(part.size, part.name.endswith(rows.MORE)) for part in parts] == [(4, True), (4, True), (3, False)]
    same(command, codec.decode([(part.name, part.payload) for part in parts]))


@pytest.mark.parametrize("ttl", [None, 2.5])
def test_a_row_of_one_subscription_that_was_set_is_read(ttl: float | None) -> None:
    """As versions wrote it that had a command for each."""
    one = subscriptions(1, 2)
    columns = {name: column.tobytes() for name, column in zip(codec.COLUMNS, one, strict=True)}
    row = msgpack.packb({"id": "s", "ttl": ttl, **columns})
    same(SetSubscriptions(["s"], one, {} if ttl is None else {0: ttl}), codec.decode([("set", row)]))


@pytest.mark.parametrize("name", ["add", "match", "add.arrow", "set", "set-many", "create"])
def test_a_damaged_row_is_told(name: str) -> None:
    with pytest.raises(rows.Damaged, match=f"a {name} command"):
        codec.decode([(name, b"\x81\xa1a\x01")])


def test_a_command_of_another_version_is_told() -> None:
    with pytest.raises(rows.Damaged, match="'fly'"):
        codec.decode([("fly", b"\x80")])
