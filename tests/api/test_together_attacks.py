"""Bad input beside good: whatever comes within one turn, each request is answered as by itself, and none hangs."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from app.api.together.lane import Lane
from tests.support.asker import BOARD, socket_of
from tests.support.one_turn import Asked, Door, Line, in_one_turn, one_by_one, request
from tests.support.running import Running
from tests.support.service_fixtures import Start

OBJECT, SUBSCRIPTION = "/v1/boards/b/objects/", "/v1/boards/b/subscriptions/"
THING, POSTS = "/v1/maps/m/objects/", "/v1/feeds/f/posts"

GOOD = b'{"values":{"x":1,"y":2}}'

MAKING: list[tuple[str, str, Any]] = [
    ("PUT", "/v1/boards/b", BOARD | {"ks": [1, 3]}),
    ("PUT", "/v1/boards/b/objects/o", {"values": {"x": 1, "y": 1}}),
    ("PUT", "/v1/boards/b/objects/p", {"values": {"x": 2, "y": 2}}),
    ("PUT", "/v1/boards/b/subscriptions/there", {"range": {"x": [0, 9]}, "k": 3}),
    ("PUT", "/v1/maps/m", {"attributes": {"price": "low"}, "bounds": [0, 0, 100, 100]}),
    ("PUT", "/v1/maps/m/objects/o", {"location": [1, 2], "values": {"price": 1}}),
    ("PUT", "/v1/feeds/f", {"window": 50, "bounds": [-100, -100, 100, 100]}),
]
SHOWN = (
    "/v1/boards/b/objects",
    "/v1/boards/b/subscriptions",
    "/v1/maps/m/objects",
    "/v1/feeds/f/posts",
)


def compare(start: Start, folder: Path, monkeypatch: pytest.MonkeyPatch, windows: Sequence[Sequence[Asked]]) -> None:
    """Windows get the same answers in one turn each, and one by one from a service that does nothing together."""
    found, shown, rows = [], [], []
    for name in ("together", "usual"):
        running: Running = start(data=folder / name)
        for method, path, body in MAKING:
            assert running.client.request(method, path, json=body).status_code < 300, path
        if name == "usual":
            monkeypatch.setattr(Lane, "take", lambda self, short: False)
        door, way = Door(running), in_one_turn if name == "together" else one_by_one
        before = running.service.writer.last_lsn
        found.append([running.call(way, door, window) for window in windows])
        rows.append(running.service.writer.last_lsn - before)
        shown.append([running.client.get(path).json()["items"] for path in SHOWN])
    for window, got, wanted in zip(windows, *found, strict=True):
        for asked, one, other in zip(window, got, wanted, strict=True):
            assert one == other, asked.data[:300]
            assert one and not any(answer.startswith(b"HTTP/1.1 5") for answer in one), (asked.data[:300], one)
    assert shown[0] == shown[1]
    assert rows[0] < rows[1]


DEEP = b"[" * 300 + b"]" * 300
NUMBERS = (
    b"NaN",
    b"-Infinity",
    b"1e400",
    b"-1e400",
    b"1e301",
    b"9" * 400,
    b"9007199254740993",
    b"-0",
    b"0x1",
    b"01",
    b"1.",
    b"true",
    b"null",
    b'"1"',
    b"[1]",
    b"{}",
)
TEXTS = (
    b'"\xff"',
    b'"\\ud800"',
    b'"\\u0000"',
    b'"\xed\xa0\x80"',
    b'"' + b"x" * 5_000 + b'"',
    DEEP,
    b'{"a":1,"a":2}',
    b'"\x01"',
)
WHOLE = (
    b"",
    b"   ",
    b"null",
    b"[]",
    b'"x"',
    b"{",
    b"{}",
    b"\xef\xbb\xbf{}",
    b'{"values":{"x":1,"y":2}} x',
    b"\x00",
    DEEP,
    b'{"values":{"x":1,"x":2,"y":3}}',
    b'{"values":{"x":1,"y":2},"values":{"x":3,"y":4}}',
    b'{"values":{"x":1,"y":2,"z":3}}',
    b'{"values":{"x":1,"y":2},"more":1}',
    b'{"values":[1,2]}',
    b'{"values":{"x":1,"y":2},"id":"another"}',
    b'{"values":{"x":1,"y":2},"id":1}',
    b'{"values":{"x":1,"y":2},"__class__":1}',
)
IDS = (
    "a%2Fb",
    "a%2fb",
    "a/b",
    "..",
    ".",
    "...",
    "%2e%2e",
    "a%00",
    "%00",
    "x" * 128,
    "x" * 129,
    "x" * 9_000,
    "a%20b",
    "a%",
    "a%zz",
    "%C3%A9",
    "%FF",
    "a:b",
    "a+b",
    "o#p",
    "o;p",
    "",
    "O",
    "o?messages=none&messages=full",
    "o?messages=some",
    "o?",
    "o??",
    "o?more",
    "o?messages=%6eone",
)


def beside_good(*bad: bytes) -> list[Asked]:
    """Bad requests between good ones about another object, which leave it as it is."""
    good = request("PUT", f"{OBJECT}p?messages=none", b'{"values":{"y":2}}')
    return [Asked(one) for one in (good, *bad, good)]


def hostile() -> list[list[Asked]]:
    """Windows of what is refused for itself, or is out of the ordinary, in every kind of request."""
    found = []
    for number in NUMBERS:
        found.append(beside_good(request("PUT", f"{OBJECT}o", b'{"values":{"x":%b,"y":1}}' % number)))
        found.append(beside_good(request("PATCH", f"{OBJECT}o", b'{"values":{"y":%b}}' % number)))
        event = b'{"events":[{"op":"upsert","id":"o","values":{"x":%b,"y":1}}]}' % number
        found.append(beside_good(request("POST", "/v1/boards/b/events", event)))
        found.append(
            beside_good(request("PUT", f"{SUBSCRIPTION}n{len(found)}", b'{"range":{"x":[0,%b]},"k":3}' % number))
        )
        found.append(beside_good(request("PUT", f"{SUBSCRIPTION}n{len(found)}", b'{"k":%b}' % number)))
        found.append(beside_good(request("PUT", f"{SUBSCRIPTION}n{len(found)}", b'{"k":1,"ttl":%b}' % number)))
        found.append(beside_good(request("PUT", f"{SUBSCRIPTION}n{len(found)}", b'{"k":1,"offset":%b}' % number)))
        found.append(beside_good(request("PUT", f"{THING}o", b'{"location":[1,%b],"values":{"price":1}}' % number)))
        found.append(beside_good(request("PATCH", f"{THING}o", b'{"values":{"price":%b}}' % number)))
        post = b'{"posts":[{"id":"p%d","keywords":{"a":%b},"location":[1,2]}]}' % (len(found), number)
        found.append(beside_good(request("POST", POSTS, post)))
    for text in TEXTS:
        found.append(beside_good(request("PUT", f"{OBJECT}o", b'{"values":{"x":1,"y":1},"payload":%b}' % text)))
        found.append(beside_good(request("PUT", f"{OBJECT}o", b'{"values":{"x":1,"y":1},"id":%b}' % text)))
        event = b'{"events":[{"op":"upsert","id":%b,"values":{"x":1,"y":1}}]}' % text
        found.append(beside_good(request("POST", "/v1/boards/b/events", event)))
        found.append(
            beside_good(request("PUT", f"{THING}o", b'{"location":[1,2],"values":{"price":1},"payload":%b}' % text))
        )
        post = b'{"posts":[{"id":"t%d","keywords":[%b],"location":[1,2]}]}' % (len(found), text)
        found.append(beside_good(request("POST", POSTS, post)))
    for body in WHOLE:
        for method, path in (
            ("PUT", f"{OBJECT}o"),
            ("PATCH", f"{OBJECT}o"),
            ("POST", "/v1/boards/b/events"),
            ("PUT", f"{SUBSCRIPTION}w"),
            ("PUT", f"{THING}o"),
            ("PATCH", f"{THING}o"),
            ("POST", "/v1/maps/m/objects"),
            ("POST", POSTS),
        ):
            found.append(beside_good(request(method, path, body)))
        found.append(beside_good(request("DELETE", f"{OBJECT}none", body)))
    for id in IDS:
        for path in (OBJECT, SUBSCRIPTION, THING):
            body = {OBJECT: GOOD, SUBSCRIPTION: b'{"k":1}', THING: b'{"location":[1,2],"values":{"price":1}}'}[path]
            found.append(beside_good(request("PUT", path + id, body)))
            if id not in ("o", "o?", "o#p", "o??"):
                found.append(beside_good(request("DELETE", path + id)))
    for path in (
        "/v1/boards/none/objects/o",
        "/v1/boards/%62/objects/o",
        "/v1/boards//objects/o",
        "//v1/boards/b/objects/o",
        "/v1/boards/b/objects/o/",
        "/v1/boards/b/objects",
        "/V1/boards/b/objects/o",
        "/v1/boards/../objects/o",
    ):
        found.append(beside_good(request("PUT", path, GOOD)))
    key = b"idempotency-key: "
    for lines in (
        [key],
        [key + b"a b"],
        [key + b"x" * 300],
        [key + b"\xc3\xa9"],
        [key + b"a", key + b"b"],
        [b"content-type: text/plain"],
        [b"content-type: application/json; charset=latin-1"],
        [b"content-type: application/json", b"content-type: text/plain"],
        [b"content-encoding: gzip"],
        [b"origin: http://evil.example"],
        [b"host: evil.example"],
        [b"authorization: Bearer x"],
        [b"connection: close"],
        [b"connection: upgrade", b"upgrade: nothing"],
        [b"content-length: 99999999"],
        [b"content-length: 99999999999999999999"],
        [b"content-length: -1"],
        [b"content-length: +5"],
        [b"content-length: 24", b"content-length: 25"],
        [b"transfer-encoding: chunked", b"content-length: 24"],
        [b"x-y: " + b"z" * 60_000],
        [b"x-request-id: " + b"i" * 500],
        [b"traceparent: 00-zz"],
        [b"bad header"],
        [b": empty"],
    ):
        found.append(beside_good(request("PUT", f"{OBJECT}o", GOOD, *lines)))
    found.append(beside_good(request("PUT", f"{OBJECT}o", GOOD, host=b"evil.example")))
    found.append(beside_good(request("PUT", f"{OBJECT}o", GOOD).replace(b"host: 127.0.0.1\r\n", b"")))
    found.append(beside_good(request("PUT", f"{OBJECT}o", GOOD).replace(b"HTTP/1.1", b"HTTP/1.0")))
    found.append(beside_good(request("PUT", f"{OBJECT}o", GOOD).replace(b"HTTP/1.1", b"HTTP/9.9")))
    found.append(beside_good(request("PUT", OBJECT.encode() + b"\xff", GOOD)))
    found.append(beside_good(request("PUT", OBJECT.encode() + b"a\x00b", GOOD)))
    chunks = b"".join(b"1\r\n%c\r\n" % letter for letter in GOOD) + b"0\r\n\r\n"
    for some in (chunks, chunks.replace(b"0\r\n\r\n", b"0\r\nmore: 1\r\n\r\n"), b"zz\r\n", b"FFFFFFFFFFFFFFFFF\r\n"):
        found.append(beside_good(request("PUT", f"{OBJECT}o", b"", b"transfer-encoding: chunked") + some))
    large = b'{"values":{"x":1,"y":2},"payload":"%b"}'
    for size in (4_000, 16_300, 20_000, 17 << 20):
        found.append(beside_good(request("PUT", f"{OBJECT}o", large % (b"x" * size))))
    return found


def with_keys(windows: list[list[Asked]]) -> list[list[Asked]]:
    """The same, each request of them under a key of its own."""
    found, end = [], b" HTTP/1.1\r\n"
    for n, window in enumerate(windows):
        keys = [b"idempotency-key: %d-%d\r\n" % (n, at) for at in range(len(window))]
        found.append([Asked(one.data.replace(end, end + key, 1)) for one, key in zip(window, keys, strict=True)])
    return found


@pytest.mark.parametrize("keys", [False, True])
def test_bad_requests_beside_good_ones_are_answered_as_by_themselves(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: bool
) -> None:
    # What takes the slow path may be carried out before what came ahead of it on another connection.
    answers = Line.answers
    monkeypatch.setattr(Line, "answers", lambda self: [re.sub(rb'"seq":\d+', b'"seq":0', one) for one in answers(self)])
    compare(start, tmp_path, monkeypatch, with_keys(hostile()) if keys else hostile())


def test_what_one_object_is_asked_for_in_one_turn_is_done_in_order(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def about(path: str, whole: bytes, part: bytes) -> list[Asked]:
        put, patch, delete = (
            request(method, path, body) for method, body in (("PUT", whole), ("PATCH", part), ("DELETE", None))
        )
        return [Asked(one) for one in (put, delete, put, patch, put, delete, delete)]

    board = about(f"{OBJECT}new", GOOD, b'{"values":{"y":5}}')
    windows = [board, board[:3], board[3:], board * 3]
    subscription = about(f"{SUBSCRIPTION}new", b'{"range":{"x":[0,5]},"k":3}', b'{"k":1}')
    windows += [[asked] for asked in subscription]
    compare(start, tmp_path, monkeypatch, windows)


def test_pipelined_requests_are_answered_as_by_themselves(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    good = [request("PUT", f"{OBJECT}o?messages=count", b'{"values":{"x":1,"y":%d}}' % y) for y in range(3)]
    bad = request("PUT", f"{OBJECT}o", b'{"values":{"x":NaN,"y":1}}')
    windows = [
        [Asked(b"".join(good), 3)],
        [Asked(good[0] + bad + good[1], 3)],
        [Asked(bad + good[0], 2), Asked(request("DELETE", f"{OBJECT}none"))],
        [Asked(good[0] + b"PUT nothing\r\n\r\n" + good[1], 2)],
        [Asked(good[0] + b"\x00\x01\x02", 2)],
        [Asked(request("PUT", f"{OBJECT}o", GOOD, b"connection: close") + good[0], 2)],
    ]
    windows.append([Asked(request("PUT", f"{OBJECT}x{n}?messages=none", GOOD)) for n in range(5)])
    compare(start, tmp_path, monkeypatch, windows)


def test_a_key_twice_in_one_turn_is_carried_out_once(start: Start) -> None:
    running: Running = start()
    for method, path, body in MAKING:
        running.client.request(method, path, json=body)
    door, key = Door(running), b"idempotency-key: one"
    same, other = request("PUT", f"{OBJECT}o", GOOD, key), request("PUT", f"{OBJECT}p", GOOD, key)
    before = running.client.get("/v1/boards/b").json()["seq"]
    (first,), (second,), (third,) = running.call(in_one_turn, door, [Asked(same), Asked(same), Asked(other)])
    assert first.startswith(b"HTTP/1.1 200")
    assert second.startswith((b"HTTP/1.1 409", b"HTTP/1.1 200")) and third.startswith(b"HTTP/1.1 422")
    assert b'"replayed":true' in second or second.startswith(b"HTTP/1.1 409")
    (again,) = running.call(in_one_turn, door, [Asked(same)])[0]
    assert again.startswith(b"HTTP/1.1 200") and b'"replayed":true' in again
    assert running.client.get("/v1/boards/b").json()["seq"] == before + 1


@pytest.mark.parametrize("kept", [1, 40, -10, -1, None])
def test_who_goes_away_in_mid_request_holds_up_nobody(start: Start, kept: int | None) -> None:
    """`kept` are the bytes that come of it; None: all."""
    running: Running = start()
    for method, path, body in MAKING:
        running.client.request(method, path, json=body)
    door, whole = Door(running), request("PUT", f"{OBJECT}o", GOOD)

    async def leave() -> list[bytes]:
        goes, stays = door.open(), door.open()
        goes.protocol.data_received(whole[:kept])
        stays.protocol.data_received(request("PUT", f"{OBJECT}p", GOOD))
        goes.closed = True
        goes.protocol.connection_lost(ConnectionResetError())
        found = await stays.receive(1)
        assert not goes.sent
        return found

    assert running.call(leave)[0].startswith(b"HTTP/1.1 200")
    assert running.client.get("/v1/boards/b").json()["seq"] == 3 + 1 + (kept is None)
    assert not running.client.app.state.lane._groups  # type: ignore[attr-defined]


def test_bad_frames_beside_good_ones_are_answered_as_by_themselves(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def frame(ref: int, method: str, path: str, body: bytes | None) -> str:
        said = "" if body is None else f',"body":{body.decode()}'
        return f'{{"op":"request","ref":{ref},"method":"{method}","path":{json.dumps(path)}{said}}}'

    asked: list[tuple[str, str, bytes | None]] = []
    for number in NUMBERS:
        asked.append(("PUT", f"{OBJECT}o", b'{"values":{"x":%b,"y":1}}' % number))
        asked.append(("PUT", f"{SUBSCRIPTION}n{len(asked)}", b'{"range":{"x":[0,%b]},"k":3}' % number))
        asked.append(("PUT", f"{THING}o", b'{"location":[1,2],"values":{"price":%b}}' % number))
        asked.append(
            ("POST", POSTS, b'{"posts":[{"id":"p%d","keywords":["a"],"location":[1,%b]}]}' % (len(asked), number))
        )
    for body in (one for one in WHOLE if one.strip() and one.isascii() and one[:1] != b"\x00"):
        asked += [("PUT", f"{OBJECT}o", body), ("POST", POSTS, body), ("PATCH", f"{THING}o", body)]
    asked += [("PUT", path + id, GOOD) for id in IDS for path in (OBJECT, SUBSCRIPTION)]
    asked += [("DELETE", OBJECT + id, None) for id in IDS if not id.startswith("o")]
    asked += [("PUT", f"{OBJECT}a\x00b", GOOD), ("PUT", f"{OBJECT}é", GOOD), ("PUT", "/v1/boards/none/objects/o", GOOD)]
    found, shown = [], []
    for name in ("together", "usual"):
        running: Running = start(data=tmp_path / name)
        for method, path, body in MAKING:
            assert running.client.request(method, path, json=body).status_code < 300
        if name == "usual":
            monkeypatch.setattr(Lane, "take", lambda self, short: False)
        answers = []
        with socket_of(running.client) as asker:
            for one in asked:
                window = [("PUT", f"{OBJECT}p?messages=none", GOOD), one, ("PUT", f"{OBJECT}p?messages=none", GOOD)]
                texts = [frame(ref, *each) for ref, each in enumerate(window)]
                asker.socket.send_all_texts(texts)
                got = [asker.socket.receive_text() for _ in texts]
                # A frame that is no JSON has no ref, and its answer goes ahead of those that wait.
                answers.append(sorted(re.sub(r"request [0-9a-f-]+ ", "", text) for text in got))
        found.append(answers)
        shown.append([running.client.get(path).json()["items"] for path in SHOWN])
    for one, got, wanted in zip(asked, *found, strict=True):
        assert got == wanted, one
        assert not any('"status":5' in text for text in got), (one, got)
    assert shown[0] == shown[1]


def test_an_idle_connection_is_closed_in_its_time(start: Start) -> None:
    """A request and its answer start the time again, with no timer of their own."""
    running: Running = start()
    door = Door(running)

    async def talk() -> tuple[bool, bool, bool]:
        line = door.open()
        protocol, idle = line.protocol, door.config.timeout_keep_alive
        assert protocol._idle is None
        protocol.data_received(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        await line.receive(1)
        timer = protocol._idle
        protocol.data_received(b"GET /healthz HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        protocol._look_idle()
        under_way = line.closed
        await line.receive(2)
        assert timer is not protocol._idle is not None
        protocol._look_idle()
        recent = line.closed
        protocol._idle_since -= idle
        protocol._look_idle()
        protocol.connection_lost(None)
        assert protocol._idle is None
        return under_way, recent, line.closed

    assert running.call(talk) == (False, False, True)
