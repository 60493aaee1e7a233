"""The cheap clients of the load generators read what the servers write, however it is cut."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from bench.exchange import Exchange, converse, milliseconds, request
from bench.process import HOST, Failed
from bench.wire import PING, PONG, SocketCapture, SseCapture


class Transport:
    """Remembers what was written."""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data


def feed(protocol: Any, data: bytes, step: int) -> Any:
    protocol.connection_made(Transport())
    for start in range(0, len(data), step):
        protocol.data_received(data[start : start + step])
    return protocol


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_answers_are_cut_by_their_length(step: int) -> None:
    found: list[tuple[int, bytes]] = []
    text = (
        b'HTTP/1.1 200 OK\r\ncontent-length: 9\r\nx-request-id: 1\r\n\r\n{"seq":1}'
        b"HTTP/1.1 422 Unprocessable\r\ncontent-length: 2\r\n\r\n{}"
    )
    feed(Exchange(lambda _, status, body: found.append((status, body))), text, step)
    assert found == [(200, b'{"seq":1}'), (422, b"{}")]


def test_a_request_says_how_long_its_body_is() -> None:
    assert request("PUT", "/x", b"{}").endswith(b"content-length: 2\r\n\r\n{}")
    assert request("GET", "/x").endswith(b"\r\n\r\n")


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_events_are_read_out_of_chunks(step: int) -> None:
    block = b'id: e:1\nevent: snapshot\ndata: {"a": 1}\n\nid: e:2\n\n'
    more = b'id: e:3\nevent: change\ndata: {"b": 2}\n\n'
    text = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    for part in (block[:20], block[20:], more):
        text += f"{len(part):x}\r\n".encode() + part + b"\r\n"
    capture = feed(SseCapture(b"GET", lambda _: None), text, step)
    found = [(event, data, id) for _, event, data, id in capture.messages()]
    assert found == [
        ("snapshot", b'{"a": 1}', b"e:1"),
        ("", b"", b"e:2"),
        ("change", b'{"b": 2}', b"e:3"),
    ]


def frame(text: bytes) -> bytes:
    size = len(text)
    if size < 126:
        return bytes((0x81, size)) + text
    return b"\x81" + (b"\x7e" + size.to_bytes(2, "big") if size < 65536 else b"\x7f" + size.to_bytes(8, "big")) + text


@pytest.mark.parametrize("step", [1, 7, 100_000])
def test_frames_of_every_length_are_read_and_pings_answered(step: int) -> None:
    texts = [b"a" * size for size in (0, 125, 126, 70_000)]
    frames = b"".join(frame(text) for text in texts)
    text = b"HTTP/1.1 101 Switching Protocols\r\n\r\n" + bytes((0x80 | PING, 2)) + b"hi" + frames + b"\x88\x02\x03\xe8"
    capture = feed(SocketCapture(b"GET", lambda _: None), text, step)
    assert [piece for _, piece in capture.pieces] == texts
    assert capture.closed == 1000
    assert capture.transport.written == b"GET" + bytes((0x80 | PONG, 0x82)) + b"\0\0\0\0hi"


def test_percentiles_are_in_milliseconds() -> None:
    found = milliseconds([n / 1000 for n in range(1, 101)])
    assert (found["p50"], found["p99"], found["max"]) == pytest.approx((51, 100, 100))
    assert milliseconds([]) == {}


def test_a_lost_connection_is_an_error_not_a_wait() -> None:
    from bench.exchange import Closed

    async def run() -> None:
        async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
        async with server:
            await Closed([request("GET", "/")]).run(server.sockets[0].getsockname()[1], 1)

    with pytest.raises(ConnectionError):
        asyncio.run(run())


@contextmanager
def server(taken: int, answer: list[bytes]) -> Iterator[tuple[int, list[bytes]]]:
    """A server of one connection, which takes so many bytes at least, answers piece by piece and closes.

    Its port, and what it has taken in the end.
    """
    got: list[bytes] = []

    def serve() -> None:
        connection, _ = listener.accept()
        with connection:
            while sum(map(len, got)) < taken:
                got.append(connection.recv(1 << 16))
            for piece in answer:
                connection.sendall(piece)

    with socket.create_server((HOST, 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1], got
        thread.join()


HEAD = b"POST /there HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\ncontent-type: text/plain\r\n"


@pytest.mark.parametrize("cut", [1, 5, 100])
@pytest.mark.parametrize(
    ("chunked", "sent"),
    [
        (False, HEAD + b"content-length: 5\r\n\r\nabcde"),
        (True, HEAD + b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"),
    ],
)
def test_a_conversation_sends_pieces_and_joins_the_answer(chunked: bool, sent: bytes, cut: int) -> None:
    body = b"a\r\nline\n" * 3
    told = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    told += b"%x\r\n%b\r\n4\r\nlast\r\n0\r\n\r\n" % (len(body), body)
    with server(len(sent), [told[i : i + cut] for i in range(0, len(told), cut)]) as (port, got):
        _, status, answer = converse(port, "/there", [b"abc", b"de"], "text/plain", chunked)
    assert (status, answer) == (200, body + b"last")
    assert b"".join(got) == sent


def test_a_refusal_of_a_known_length_is_read() -> None:
    with server(1, [b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}"]) as (port, _):
        assert converse(port, "/there", [], "text/plain")[1:] == (404, b"{}")


def test_a_connection_that_ends_without_an_answer_is_said() -> None:
    with server(1, []) as (port, _), pytest.raises(Failed, match="POST /there is not answered"):
        converse(port, "/there", [b"x" * (1 << 16)] * 200, "text/plain", True)
