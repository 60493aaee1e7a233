"""Mappings: what they make of messages, and how they name what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.connectors.errors import ConnectorError
from app.connectors.mapping.pointers import BadPointer, Missing, find, parse
from app.connectors.mapping.reading import MOST_EVENTS, Reader
from app.connectors.mapping.spec import parse_spec, read_spec
from app.connectors.messages import Message

BOARD = {
    "events": "/records",
    "id": "/flight/number",
    "op": "/kind",
    "ops": {"cancelled": "delete"},
    "values": {"distance": "/miles", "delay": "/late/minutes"},
    "payload": {"to": "/to"},
}

JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)),
    max_leaves=12,
)


def events(reader: Reader, value: Any) -> tuple[list[Any], list[tuple[int | None, list[tuple[str, str]]]]]:
    """The events of a message, and what is wrong with the others by place."""
    read = reader.read(Message("1", value if isinstance(value, bytes) else json.dumps(value).encode()))
    wrong = [(one.index, [(reason.field, reason.reason) for reason in one.reasons]) for one in read.refused]
    return list(map(json.loads, read.events)), wrong


def flight(**other: Any) -> dict[str, Any]:
    return {
        "flight": {"number": "UA1545"},
        "kind": "upsert",
        "miles": 1400,
        "late": {"minutes": 11},
        "to": "IAH",
    } | other


def test_a_message_becomes_events() -> None:
    reader = Reader(parse_spec(BOARD, "boards"))
    records = [flight(), flight(kind="cancelled"), flight(miles="12.5", late=None, flight={"number": 7}, to=None)]
    assert events(reader, {"records": records}) == (
        [
            {"op": "upsert", "id": "UA1545", "values": {"distance": 1400, "delay": 11}, "payload": {"to": "IAH"}},
            {"op": "delete", "id": "UA1545"},
            {"op": "upsert", "id": "7", "values": {"distance": 12.5}, "payload": {}},
        ],
        [],
    )


def test_what_is_wrong_is_named() -> None:
    reader = Reader(parse_spec(BOARD, "boards"))
    bad = [
        flight(late={"minutes": "soon"}, flight={"number": 1.5}),
        7,
        flight(kind="lost", miles=True),
        {"miles": [1, [2]]},
    ]
    assert events(reader, {"records": bad}) == (
        [],
        [
            (
                0,
                [
                    ("id", "/flight/number is the number 1.5, not text or an integer"),
                    ("values.delay", '/late/minutes is the text "soon", not a number'),
                ],
            ),
            (1, [("", "is the number 7, not an object")]),
            (
                2,
                [
                    ("op", '/kind is the text "lost", none of upsert, update, delete, cancelled'),
                    ("values.distance", "/miles is true, not a number"),
                ],
            ),
            (
                3,
                [("id", "nothing is at /flight/number"), ("values.distance", "/miles is a list, not a number")],
            ),
        ],
    )
    assert events(reader, {"rows": []}) == ([], [(None, [("events", "nothing is at /records")])])
    assert events(reader, {"records": {}}) == ([], [(None, [("events", "/records is an object, not a list")])])


@pytest.mark.parametrize(
    ("type", "spec", "message", "event"),
    [
        (
            "feeds",
            {"id": "/n", "text": "/say", "location": ["/lon", "/lat"], "payload": ""},
            {"n": "p", "say": "ramen", "lon": "13.4", "lat": 52},
            {
                "id": "p",
                "text": "ramen",
                "payload": {"n": "p", "say": "ramen", "lon": "13.4", "lat": 52},
                "location": [13.4, 52],
            },
        ),
        (
            "maps",
            {"id": "/n", "location": "/at", "values": {"price": "/eur"}},
            {"n": 3, "at": [1, 2.5], "eur": 12},
            {"id": "3", "values": {"price": 12}, "location": [1, 2.5]},
        ),
        ("matchers", {"values": {"age": "/a"}}, {"a": [20, 30]}, {"values": {"age": [20, 30]}}),
        (
            "relays",
            {"values": {"price": "/p"}, "from": "/via", "payload": {"lot": "/l"}},
            {"p": 1, "via": "north", "l": [0]},
            {"values": {"price": 1}, "from": "north", "payload": {"lot": [0]}},
        ),
    ],
)
def test_each_resource_has_its_parts(type: str, spec: dict[str, Any], message: Any, event: Any) -> None:
    assert events(Reader(parse_spec(spec, type)), message) == ([event], [])


@pytest.mark.parametrize(
    ("type", "spec", "told"),
    [
        ("boards", {}, "id: missing"),
        ("boards", {"id": 7}, "id: must be a JSON pointer"),
        ("boards", {"id": "number"}, "id: 'number' is no JSON pointer"),
        ("boards", {"id": "/a~2"}, "a ~ stands before 0 or 1"),
        ("boards", {"id": "/a", "rank": "/b"}, "rank: no part of what boards take"),
        ("boards", {"id": "/a", "values": "/b"}, "values: must be a table"),
        ("boards", {"id": "/a", "values": {"x y": "/b"}}, "values.x y: no name of an attribute"),
        ("boards", {"id": "/a", "values": {"x": "b"}}, "values.x: 'b' is no JSON pointer"),
        ("boards", {"id": "/a", "ops": {"x": "delete"}}, "ops: there is no op"),
        ("boards", {"id": "/a", "op": "/o", "ops": {"x": "drop"}}, "ops.x: 'drop' is none of"),
        ("feeds", {"id": "/a"}, "keywords, text: give one"),
        ("maps", {"id": "/a", "location": ["/x"]}, "location: must be"),
        ("maps", {"id": "/a", "redis": {"fields": "*"}}, "redis: must be"),
        ("relays", {"values": {}, "id": "/a"}, "id: no part of what relays take"),
    ],
)
def test_a_bad_mapping_is_refused_by_the_entry(type: str, spec: dict[str, Any], told: str) -> None:
    with pytest.raises(ConnectorError, match=told):
        parse_spec(spec, type)


def test_a_mapping_is_read_from_toml_and_json(tmp_path: Path) -> None:
    toml, plain = tmp_path / "map.toml", tmp_path / "map.json"
    toml.write_text('id = "/flight/number"\n[values]\ndistance = "/miles"\n')
    plain.write_text(json.dumps({"id": "/flight/number", "values": {"distance": "/miles"}}))
    assert read_spec(toml, "boards") == read_spec(plain, "boards")
    for text, told in (
        ("id = ", "is no TOML"),
        ("x" * 70_000, "at most"),
        ('id = "a"', "map.toml: id: 'a' is no JSON"),
    ):
        toml.write_text(text)
        with pytest.raises(ConnectorError, match=told):
            read_spec(toml, "boards")
    with pytest.raises(ConnectorError, match="No such file"):
        read_spec(tmp_path / "none", "boards")


def test_events_need_no_mapping_and_cannot_reach_out_of_their_place() -> None:
    reader = Reader(most_bytes=1_000_000)
    event = {"op": "delete", "id": "a"}
    assert events(reader, event) == ([event], [])
    assert events(reader, [event, 3, event]) == ([event, event], [(1, [("", "is the number 3, not an object")])])
    for data in (
        b'{"a": 1}, {"b": 2}',
        b'{}], "mode": "batch", "x": [{}',
        b"\xff",
        b'{"a": NaN}',
        b"[" * 100_000,
        b"",
        b"3",
    ):
        found, wrong = events(reader, data)
        assert found == [] and wrong[0][0] is None
    assert events(reader, '{"a": 1}'.encode("utf-16"))[0] == []
    assert events(reader, b'[{"values": {"x": 1e999}}]') == ([], [(0, [("", "has a number that is too large")])])
    (letter,) = reader.read(Message("1", json.dumps([{}] * (MOST_EVENTS + 1)).encode())).refused
    assert letter.reasons[0].reason == "has 1001 events, more than 1000"


def test_a_large_message_is_refused_before_it_is_parsed() -> None:
    reader = Reader(most_bytes=10)
    assert events(reader, {"a": "b" * 10})[1] == [(None, [("", "has 19 bytes, more than the 10 of --max-message")])]


@given(JSON, st.sampled_from(["boards", "feeds", "maps", "matchers", "relays"]))
def test_whatever_a_message_holds_it_is_read_or_refused(value: Any, type: str) -> None:
    specs: dict[str, dict[str, Any]] = {
        "boards": {"id": "/0", "values": {"x": "/1/0", "y": ""}, "payload": "/2"},
        "feeds": {"id": "/0", "keywords": "", "location": ["/1", "/2"]},
        "maps": {"id": "/0", "location": "/1", "values": {"x": "/a"}},
        "matchers": {"values": {"x": "/0"}},
        "relays": {"values": {"x": "/0"}, "from": "/1", "payload": {"a": ""}},
    }
    data = json.dumps(value).encode()
    for reader in (
        Reader(),
        Reader(parse_spec(specs[type], type)),
        Reader(parse_spec({**specs[type], "events": "/0"}, type)),
    ):
        read = reader.read(Message("1", data))
        for text in read.events:
            assert isinstance(json.loads(text, parse_constant=pytest.fail), dict)
        for letter in read.refused:
            assert letter.reasons and len(letter.record("nats://x/y", 100_000)) <= 100_000


@given(st.lists(st.text(max_size=6), max_size=4), JSON)
def test_a_pointer_leads_to_what_was_put_there(keys: list[str], value: Any) -> None:
    text = "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in keys)
    inside = value
    for key in reversed(keys):
        inside = {key: inside}
    assert parse(text) == tuple(keys)
    assert find(parse(text), inside) is value


def test_pointers_into_lists() -> None:
    assert find(parse("/a/1"), {"a": [0, 5]}) == 5
    for text in ("/a/2", "/a/-", "/a/01", "/a/-1", "/a/1/0", "/b"):
        with pytest.raises(Missing):
            find(parse(text), {"a": [0, 5]})
    for text in ("a", "/~", "/" + "a" * 2000):
        with pytest.raises(BadPointer):
            parse(text)
