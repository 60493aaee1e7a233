"""Addresses, destinations, places and the state of a publisher."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from app.connectors.addresses import parse_address
from app.connectors.destinations import parse_destination, relative
from app.connectors.errors import ConnectorError
from app.connectors.sources.base import Options, Place, parse_place
from app.connectors.sources.nats import _numbers, _token
from app.connectors.sources.opening import source_of
from app.connectors.state_file import StateFile
from app.connectors.targets.opening import target_of


@pytest.mark.parametrize(
    ("text", "shown", "hosts", "url"),
    [
        ("nats://localhost/EVENTS", "nats://localhost/EVENTS", ["localhost:4222"], "nats://localhost:4222"),
        ("redis://u:p%2F@h:1/s?db=2", "redis://h:1/s", ["h:1"], "redis://u:p%2F@h:1"),
        ("kafka://a:9,b/t", "kafka://a:9,b/t", ["a:9", "b:9092"], "kafka://a:9"),
        ("mqtt://h/sensors/+/x/%23", "mqtt://h/sensors/+/x/#", ["h:1883"], "mqtt://h:1883"),
        ("amqp://h/q?vhost=v", "amqp://h/q", ["h:5672"], "amqp://h:5672"),
        ("nats://[::1]/S", "nats://[::1]/S", ["[::1]:4222"], "nats://[::1]:4222"),
    ],
)
def test_addresses(text: str, shown: str, hosts: list[str], url: str) -> None:
    address = parse_address(text)
    assert (str(address), address.hosts, address.url) == (shown, hosts, url)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "http://h/s",
        "nats://h",
        "nats:///s",
        "nats://secret@/s",
        "nats://h/a b",
        "mqtt://h/#",
        "nats://h/s?db=1",
        "nats://h/" + "x" * 300,
        "nats://[h/s",
    ],
)
def test_what_is_no_address_is_refused_without_its_credentials(text: str) -> None:
    with pytest.raises(ConnectorError) as refused:
        parse_address(text)
    assert "secret" not in str(refused.value)


def test_destinations() -> None:
    board = parse_destination("boards/delays")
    assert board.path == "/v1/boards/delays/events"
    assert json.loads(board.body(['{"a":1}', "{}"])) == {
        "messages": "none",
        "on_error": "skip",
        "events": [{"a": 1}, {}],
    }
    matcher = parse_destination("matchers/m", 500)
    assert json.loads(matcher.body([])) == {"notify": True, "on_error": "skip", "k": 500, "events": []}
    assert (matcher.most(1_000), board.most(1_000)) == (100, 1_000)
    assert matcher.applied({"results": [1, 2]}, 3) == 2 and board.applied({"applied": 0}, 3) == 0
    for text in ("delays", "boards/", "boards/a/b", "shops/a", "boards/..", "boards/a b"):
        with pytest.raises(ConnectorError, match="none of boards/NAME"):
            parse_destination(text)
    assert [relative(one) for one in ("events[3].values.y", "posts[0]", "events[0].id")] == ["values.y", "", "id"]


def test_places_are_read_or_refused() -> None:
    place = Place("1", "9", False, "made")
    kept = parse_place(place.dump(), "key")
    assert kept == Place("1", "9", False, "made", kept.at)
    for raw in (b"", b"7", b"{}", b'{"first": 1, "last": 2, "done": true, "source": "", "at": 0}'):
        with pytest.raises(ConnectorError, match="key holds no position"):
            parse_place(raw, "key")


def test_names_in_subjects_and_numbers_in_replies() -> None:
    assert _token("a.b:c-1_") == "a=2Eb=3Ac-1_"
    assert _numbers("$JS.ACK.S.c.1.17.5.1700000000000000000.0") == (17, 5)
    assert _numbers("$JS.ACK.hub.Hx.S.c.1.17.5.1700000000000000000.0.tok") == (17, 5)


def test_a_state_file_is_whole_and_says_what_is_doubtful(tmp_path: Path) -> None:
    path = tmp_path / "state"
    state = StateFile(path, "boards/b to kafka://h/t")
    state.begin(["a", "b"])
    state.done({"a": "e:1"})
    again = StateFile(path, "boards/b to kafka://h/t")
    assert (dict(again.cursors), again.doubtful) == ({"a": "e:1"}, frozenset({"b"}))
    again.done({"b": "e:2"})
    assert not StateFile(path, "boards/b to kafka://h/t").doubtful
    with pytest.raises(ConnectorError, match="is the state of"):
        StateFile(path, "boards/c to kafka://h/t")
    for text in ("", "{", "[]", '{"publish": "x", "cursors": 3}', "{}"):
        path.write_text(text)
        with pytest.raises(ConnectorError):
            StateFile(path, "x")
    with pytest.raises(ConnectorError, match="cannot be kept"):
        StateFile(tmp_path / "none" / "state", "x")


@pytest.mark.parametrize(
    ("address", "module"),
    [
        ("nats://h/s", "nats"),
        ("redis://h/s", "redis.asyncio"),
        ("kafka://h/t", "aiokafka"),
        ("amqp://h/q", "faststream.rabbit"),
        ("mqtt://h/t", "faststream.mqtt"),
    ],
)
def test_a_client_that_is_missing_is_named_with_its_extra(
    address: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConnectorError, match=r"needs an extra: pip install 'rankcast\[connect\]'"):
        source_of(parse_address(address), Options("n"))
    with pytest.raises(ConnectorError, match=r"needs an extra: pip install 'rankcast\[connect\]'"):
        target_of(parse_address(address), "boards/b", None)
