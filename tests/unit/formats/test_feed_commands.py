"""The log's codec of feeds: every command comes back as it went in, bit for bit, also in parts."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import Any

import msgpack
import numpy as np
import pyarrow as pa
import pytest

from formats import commands as rows
from formats import feed_commands as codec
from indexes.core.commands import Create, Drop
from indexes.feeds.commands import AddSubscriptions, DeleteSubscriptions, Post, SetSubscription, Tick, Withdraw
from indexes.feeds.config import FeedConfig, Keywords, Shown, Subscriptions

CONFIGS = [
    FeedConfig((-180.0, -90.0, 180.0, 90.0), posts=20_000),
    FeedConfig((0.0, 0.0, 0.1, 1e300), span=3_600_000, tfidf=False, buffer="kmax", stop_words=("ramen", "ß")),
    FeedConfig((0.0, 0.0, 1.0, 1.0), posts=1, stop_words=()),
]

SHOWN: list[Shown] = [
    ["ramen", "coupon", "ramen"],
    {"b": 1e300, "a": 5e-324, "𝄞": 1 / 3},
    ["ß", "\uffff"],
    {"z": 2.0},
    [],
]


def numbers(n: int) -> Any:
    rng = np.random.default_rng(n)
    found = rng.normal(size=(n, 2)) * 10.0 ** rng.integers(-300, 300, (n, 2))
    found[1::3] = -0.0
    return found


def shown(n: int, some: list[Shown] = SHOWN) -> Keywords:
    return Keywords.of([some[i % len(some)] for i in range(n)])


def posting(n: int, some: list[Shown] = SHOWN) -> Post:
    ids = [f"p{i}" for i in range(n)]
    payload = {0: b'{"a":1}', n - 1: b"[]"} if n else {}
    return Post(ids, shown(n, some), numbers(n), 1_700_000_000_123, payload)


def adding(n: int, some: list[Shown] = SHOWN[:4]) -> AddSubscriptions:
    alpha = np.random.default_rng(n).random(n)
    many = Subscriptions(shown(n, some), numbers(n), np.arange(1, n + 1), alpha)
    return AddSubscriptions(pa.array([f"s{i}" for i in range(n)]), many, {0: 1.5, n - 1: 2.0})


def same(a: Any, b: Any) -> None:
    assert type(a) is type(b)
    if isinstance(a, Keywords):
        # Words may be a list or an array.
        same((a.end, a.words(), a.weight), (b.end, b.words(), b.weight))
    elif isinstance(a, tuple):
        for one, other in zip(a, b, strict=True):
            same(one, other)
    elif is_dataclass(a):
        for name in (field.name for field in fields(a)):
            same(getattr(a, name), getattr(b, name))
    elif isinstance(a, np.ndarray):
        assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())
    elif isinstance(a, pa.Array):
        assert a.type == b.type and a.equals(b)
    else:
        assert a == b


@pytest.mark.parametrize(
    "command",
    [
        posting(7),
        posting(3, SHOWN[:1]),
        posting(2, [[]]),
        posting(0),
        Tick(-5),
        Withdraw(["a", "b"]),
        adding(7),
        *(SetSubscription("s", one, (1.5, -0.0), 3, 0.1, ttl) for one, ttl in zip(SHOWN[:2], [None, 2.5], strict=True)),
        DeleteSubscriptions(["a"]),
        *(Create(config) for config in CONFIGS),
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
    [
        posting(11),
        posting(11, SHOWN[:1]),
        posting(11, [[]]),
        Withdraw([f"p{i}" for i in range(11)]),
        adding(11),
        adding(11, SHOWN[3:4]),
        DeleteSubscriptions([f"s{i}" for i in range(11)]),
    ],
    ids=lambda command: type(command).__name__,
)
def test_a_long_command_comes_back_from_its_parts(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "PART", 4)
    parts = list(codec.encode(command, 11))
    assert [(part.size, part.name.endswith(rows.MORE)) for part in parts] == [(4, True), (4, True), (3, False)]
    same(command, codec.decode([(part.name, part.payload) for part in parts]))


def test_some_of_a_command_are_those_at_their_places() -> None:
    some = posting(9).take([8, 1, 4])
    assert some.ids == ["p8", "p1", "p4"] and some.payload == {0: b"[]"}
    assert some.keywords.shown() == [SHOWN[3], SHOWN[1], SHOWN[4]]
    parts = [one for lo, hi in ((0, 2), (2, 2), (2, 9)) for one in shown(9).part(lo, hi).shown()]
    assert parts == [SHOWN[i % 5] for i in range(9)]


@pytest.mark.parametrize("name", ["post", "tick", "add", "set", "post.arrow", "add.arrow", "create"])
def test_a_damaged_row_is_told(name: str) -> None:
    with pytest.raises(rows.Damaged, match=f"a {name} command"):
        codec.decode([(name, b"\x81\xa1a\x01")])


@pytest.mark.parametrize(
    "wrong",
    [
        {"sizes": [1]},
        {"sizes": [4, -1]},
        {"words": ["a", "b", 3]},
        {"words": ["a", "b", None]},
        {"weights": b"\0" * 8},
        {"ids": ["p0", None]},
        {"ids": ["p0"]},
    ],
    ids=str,
)
def test_a_short_row_with_other_numbers_of_words_is_told(wrong: dict[str, Any]) -> None:
    (part,) = codec.encode(posting(2, [{"a": 1.0, "b": 2.0}, {"c": 3.0}]), 2)
    fields = rows.fields_of(part.payload)
    assert fields["sizes"] == [2, 1] and len(fields["weights"]) == 24
    with pytest.raises(rows.Damaged, match="a post command"):
        codec.decode([("post", msgpack.packb({**fields, **wrong}))])


def test_weights_that_are_not_one_for_each_word_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "PART", 1)
    table = codec._post_table(posting(2, SHOWN[1:2]))
    wrong = table.set_column(
        table.column_names.index("weights"), "weights", pa.array([[1.0]] * 2, pa.large_list(pa.float64()))
    )
    parts = [(part.name, part.payload) for part in rows.cut(codec.POST, wrong)]
    with pytest.raises(rows.Damaged, match="other numbers of weights"):
        codec.decode(parts)


@pytest.mark.parametrize("name", ["fly", "fly.arrow"])
def test_a_command_of_another_version_is_told(name: str) -> None:
    (part,) = rows.cut("fly.arrow", pa.table({"id": ["a"]}))
    with pytest.raises(rows.Damaged, match="'fly"):
        codec.decode([(name, part.payload if name.endswith("arrow") else b"\x80")])
