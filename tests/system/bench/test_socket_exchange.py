"""The client of the socket's benchmark: it answers pings, and says why a service closed its socket."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bench.process import Failed
from bench.socket_exchange import Pipelined, frame
from tests.support.patience import PATIENCE

ACCEPTED = b"HTTP/1.1 101 Switching Protocols\r\n\r\n"
ANSWER = b'{"event":"response","ref":0,"status":200,"body":{}}'


class Written:
    """A transport that keeps what is written to it."""

    def __init__(self) -> None:
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)


def sent(kind: int, payload: bytes) -> bytes:
    """A frame of a server."""
    size = len(payload)
    head = bytes((size,)) if size < 126 else b"\x7e" + size.to_bytes(2, "big") if size < 1 << 16 else None
    return bytes((kind,)) + (head or b"\x7f" + size.to_bytes(8, "big")) + payload


def test_pings_are_answered_and_a_close_is_named() -> None:
    async def run() -> tuple[Pipelined, Written]:
        client, transport = Pipelined([frame(b"a"), frame(b"b")], 1), Written()
        given: Any = transport
        client.connection_made(given)
        stream = ACCEPTED + sent(0x81, ANSWER) + sent(0x89, b"1234") + sent(0x88, b"\x03\xf3keepalive ping timeout")
        # However it is cut, a piece of a frame waits for the rest.
        for at in range(len(stream)):
            client.data_received(stream[at : at + 1])
        client.connection_lost(None)
        with pytest.raises(Failed, match="with 1011 keepalive ping timeout, 1 requests unanswered"):
            await client._done
        return client, transport

    client, transport = asyncio.run(run())
    assert transport.written[1:] == [frame(b"a"), frame(b"b"), frame(b"1234", 0x8A)]
    assert len(client.seconds) == 1 and not client.unexpected


@pytest.mark.parametrize("size", [125, 126, 65_535, 65_536, 200_000])
def test_answers_have_any_size(size: int) -> None:
    async def run() -> Pipelined:
        client, transport = Pipelined([frame(b"a")] * 3, 1), Written()
        given: Any = transport
        client.connection_made(given)
        stream = ACCEPTED + b"".join(sent(0x81, ANSWER.ljust(size)) for _ in range(3))
        piece = 1 if size < 1_000 else 7_001
        for at in range(0, len(stream), piece):
            client.data_received(stream[at : at + piece])
        async with asyncio.timeout(PATIENCE):
            await client._done
        return client

    client = asyncio.run(run())
    assert len(client.seconds) == 3 and not client.unexpected and client.bytes >= 3 * size


def test_a_round_without_frames_is_refused_and_not_waited_for() -> None:
    async def run() -> None:
        await Pipelined([], 1).run(0)

    with pytest.raises(Failed, match="no frames"):
        asyncio.run(run())
