"""Headers that were read before are not parsed again, and nothing else differs: not what is taken, nor what is not."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from uvicorn.server import ServerState

from app.api.together.kind import Verb
from app.server.fast_path import ServiceProtocol, _known_head
from app.server.listening import config_for
from app.server.short import Short, short_request
from app.settings import Settings
from tests.support.one_turn import Line

LARGEST = 40
PLACES = {
    (b"PUT", b"objects", 6): Verb(None, "PUT", "/v1/boards/{board}/objects/{id}"),  # type: ignore[arg-type]
    (b"DELETE", b"objects", 6): Verb(None, "DELETE", "/v1/boards/{board}/objects/{id}"),  # type: ignore[arg-type]
    (b"POST", b"events", 5): Verb(None, "POST", "/v1/boards/{board}/events"),  # type: ignore[arg-type]
}
HOST, JSON = b"host: 127.0.0.1\r\n", b"content-type: application/json\r\n"
SHORT = "short"


class Taker:
    """A lane that notes what it takes, which is all but objects with the id ``u``."""

    largest = LARGEST

    def __init__(self, seen: list[tuple[Any, ...]]) -> None:
        self._seen = seen

    def verb(self, method: bytes, parts: list[bytes]) -> Verb | None:
        return PLACES.get((method, parts[4], len(parts)))

    def take(self, short: Short) -> bool:
        if short.id == "u":
            return False
        self._seen.append((
            SHORT, short.verb.method, short.name, short.id, short.query, short.host, short.authorization, short.key,
            bytes(short.body), short.digest(),
        ))  # fmt: skip
        short.answer(200, b'{"seq":1}\n')
        return True


class App:
    """Notes what it is asked, and answers 204. Its state has the lane."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []
        self.state = self
        self.lane = Taker(self.seen)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            more = message.get("more_body", False)
        what = scope["method"], scope["path"], scope["raw_path"], scope["query_string"], scope["headers"], body
        self.seen.append(what)
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body", "body": b""})


async def served(pieces: Sequence[bytes], rush: bool = False) -> tuple[list[tuple[Any, ...]], bytes, tuple[Any, ...]]:
    """What a connection to which these pieces come hands on, its answers, and how it is left. With `rush` all come
    before anything is answered that takes the slow path.
    """
    app = App()
    config = config_for(app, Settings(data=Path("unused")), [], ServiceProtocol, date=False)
    config.load()
    line = Line()
    line.protocol = protocol = ServiceProtocol(config=config, server_state=ServerState(), app_state={})
    protocol.app = app
    protocol.connection_made(line)  # type: ignore[arg-type]
    protocol._lane = app.lane  # type: ignore[assignment]
    for piece in pieces:
        if not line.closed:
            protocol.data_received(piece)
        for _ in range(0 if rush else 8):
            await asyncio.sleep(0)
    for _ in range(8 * len(pieces)):
        await asyncio.sleep(0)
    answers = re.sub(rb"x-request-id: .*?\r\n", b"", line.sent)
    left = protocol._gathered, protocol._in_head, protocol._patience is None, protocol._idle_since is None
    protocol.connection_lost(None)
    return app.seen, answers, (line.closed, *left)


def put(id: bytes = b"o", body: bytes = b'{"a":1}', headers: bytes = HOST + JSON, length: bytes = b"") -> bytes:
    size = length or b"%d" % len(body)
    return b"PUT /v1/boards/b/objects/%b HTTP/1.1\r\n%bcontent-length: %b\r\n\r\n%b" % (id, headers, size, body)


METHODS = st.sampled_from([b"PUT", b"PUT", b"PUT", b"DELETE", b"POST", b"GET", b"put", b"PUTT", b""])
TARGETS = st.sampled_from([
    b"/v1/boards/b/objects/o", b"/v1/boards/b/objects/o", b"/v1/boards/b/objects/o?messages=none",
    b"/v1/boards/b/objects/u", b"/v1/boards/b/events", b"/v1/boards/b/objects/%41", b"/v1/boards/b/objects/o#x",
    b"/v1/boards/b/objects/\xc3\xa9", b"/v1/boards/b/objects/a b", b"/v1/boards/b/objects/" + b"o" * 1_100,
    b"/v1/boards/b/objects/\x01", b"/v1/boards/b/objects/\x7f", b"/v1/boards/b/objects/o\to",
    b"/v1/boards/b/objects/\r", b"/v1/boards/b/objects/p", b"/v1/boards/b/objects/p?messages=none",
    b"/v1/boards/b/objects/p?", b"/v1/boards/b/objects/p?a=/b?c", b"/v1/boards/b/objects/p?a#b",
    b"/v1/boards/b/objects/p/q", b"/v1/boards/b/objects/",
    b"/v1/boards/b/objects/%", b"/v1/boards/b/objects/!\"$&'()*+,-.:;<=>@[]^_`{|}~", b"/v1/boards/c/objects/p",
    b"/v2/boards/b/objects/o", b"//v1/boards/b/objects", b"*", b"http://127.0.0.1/v1/boards/b/objects/o", b"",
])  # fmt: skip
HEADERS = st.sampled_from([
    HOST + JSON, HOST + JSON, HOST + JSON, JSON + HOST, HOST, HOST + JSON + b"authorization: Bearer rk_x\r\n",
    HOST + JSON + b"idempotency-key: k\r\n", HOST + JSON + b"origin: http://x\r\n", HOST + JSON + b"x: y\r\n",
    HOST + JSON + b"connection: keep-alive\r\n", HOST + JSON + b"connection: close\r\n",
    HOST + JSON + b"transfer-encoding: chunked\r\n", HOST + JSON + b"traceparent: 00-1\r\n", HOST * 2 + JSON,
    HOST + JSON + b"accept: */*\r\n content-length: 3\r\n", HOST + JSON + b"content-length: 7\r\n", b"",
])  # fmt: skip
BODIES = st.sampled_from([b'{"a":1}', b'{"a":1}', b'{"a":12}', b"", b"0", b"a" * LARGEST, b"a" * (LARGEST + 1), put()])
LENGTHS = st.sampled_from([b""] * 8 + [b"07", b"0", b"6", b"8", b"999999", b"+7", b"7 ", b" 7", b"x", b"1_0"])
NAMES = st.sampled_from([b"content-length: "] * 6 + [b"Content-Length: ", b"content-length:", b"content-length:\t"])


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    method, target, headers, body = draw(METHODS), draw(TARGETS), draw(HEADERS), draw(BODIES)
    version = draw(st.sampled_from([b"HTTP/1.1"] * 8 + [b"HTTP/1.0", b"HTTP/2.0", b"HTTP/1.1 "]))
    stated = draw(NAMES) + (draw(LENGTHS) or b"%d" % len(body)) + b"\r\n" if draw(st.integers(0, 7)) else b""
    behind = draw(st.sampled_from([b""] * 4 + [b"user-agent: t\r\n", b"accept: */*\r\n"]))
    before = draw(st.sampled_from([b""] * 8 + [b"\r\n", b" "]))
    return b"%b%b %b %b\r\n%b%b%b\r\n%b" % (before, method, target, version, headers, stated, behind, body)


@st.composite
def conversations(draw: st.DrawFn) -> list[bytes]:
    """Messages, most of which come by themselves, some in two pieces and some together."""
    pieces: list[bytes] = [put()] if draw(st.booleans()) else []
    for message in draw(st.lists(st.one_of(st.just(put()), messages()), min_size=1, max_size=6)):
        way = draw(st.integers(0, 6))
        if way == 0 and pieces:
            pieces[-1] += message
        elif way == 1:
            at = draw(st.integers(0, len(message)))
            pieces += [message[:at], message[at:]]
        elif way == 2 and pieces:
            at = draw(st.integers(0, len(message)))
            pieces[-1] += message[:at]
            pieces.append(message[at:])
        else:
            pieces.append(message)
    return [piece for piece in pieces if piece]


@given(conversations(), st.booleans())
@example([put(), put(b"p", b'{"a":12}'), put(b"u", b'{"a":3}'), put()], False)
# The beginning of a request that has come with the one before: what follows is still part of it.
@example([put(), b"GET /x HTTP/1.1\r\nhost: h\r\n\r\nGET /y HTTP/1.1\r\nhost: h\r\nx: ", put()], False)
@example([put(), b"\r\n", put(), put()], False)
@example([put(), b"GET /x HTTP/1.1\r\nhost: h\r\n\r\n", put(), put()], True)
@example([put().replace(b"\r\n\r\n", b"\r\n%b: aaa\r\n\r\n" % name) for name in (b"accept", b"origin")], False)
@example([put(), put()[put().index(b" HTTP/1.1") :], put()], False)
@example([put(), put(b"\x01"), put()], False)
@example([put(), put(b"o\r"), put()], False)
@example([put(), put(body=b"a" * (LARGEST + 1)), put()], False)
# Behind the second one only ids differ, some of which are none.
@example([put(), *[put(id) for id in (b"p", b"q", b"r?messages=none", b"s?", b"t?a=/b?c", b"p/q", b"p")]], False)
@example(
    [put(), put(), *[put(id) for id in (b"", b"?", b"%41", b"p#q", b"p?q#r", b"a b", b"\xc3\xa9", b"u", b"p")]], False
)
@example([put(), put() + put(), put()], False)
@example([put(), put().replace(b"PUT", b"DELETE"), put().replace(b"PUT", b"put")], False)
@example([put(body=body).replace(b"PUT", b"DELETE") for body in (b"", b'{"a":1}')], False)
@example([put(), put().replace(b"\r\n\r\n", b"\r\nx: y\r\n\r\n"), put()], False)
def test_headers_that_are_known_change_nothing(pieces: list[bytes], rush: bool) -> None:
    found = asyncio.run(served(pieces, rush))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServiceProtocol, "_take_as_before", lambda *_: False)
        assert found == asyncio.run(served(pieces, rush))


def parsed(pieces: Sequence[bytes]) -> list[bytes]:
    """The pieces that the parser has seen."""
    seen: list[bytes] = []
    parse = ServiceProtocol._parse

    def noted(self: ServiceProtocol, data: bytes) -> None:
        seen.append(data)
        parse(self, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ServiceProtocol, "_parse", noted)
        asyncio.run(served(pieces))
    return seen


def test_the_parser_sees_headers_once() -> None:
    first, second, third = put(), put(b"p", b'{"a":1234}'), put(b"u")
    assert parsed([first, second, third]) == [first]


def test_a_path_is_taken_apart_anew_only_where_more_than_the_id_differs() -> None:
    asked: list[bytes] = []

    def noted(protocol: ServiceProtocol, *rest: Any) -> Short | None:
        asked.append(protocol.url)
        return short_request(protocol, *rest)

    pieces = [put(id) for id in (b"a", b"b", b"c", b"d?messages=none", b"%41", b"e", b"f")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("app.server.fast_path.short_request", noted)
        asyncio.run(served(pieces))
    # The first is read by the parser, and what takes the slow path is forgotten.
    ids = [url.rpartition(b"/")[2] for url in asked]
    assert ids == [b"a", b"b", b"%41", b"%41", b"e"]


def test_the_parser_sees_other_headers_each_time() -> None:
    keyed = [put(headers=HOST + JSON + b"idempotency-key: %d\r\n" % i) for i in range(3)]
    other = put(headers=JSON + HOST)
    assert parsed([put(), *keyed, other, other, put()]) == [put(), *keyed, other, put()]


def test_a_head_is_known_only_by_a_whole_line() -> None:
    short: Any = SimpleNamespace(more_body=False, body=b'{"a":1}', head=())
    known = _known_head(put(), short)
    assert known is not None and known[0].startswith(b" HTTP/1.1\r\n")
    assert _known_head(put().replace(b"\r\n", b"\n", 1), short) is None
