"""A gateway's questions to the service: over connections that may be closed at any time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from app.errors import NotReady
from app.gateway.asking import Asker
from tests.support.patience import PATIENCE

Reply = Callable[[int, bytes], tuple[bytes, bool]]
"""By the number of a request and its text: the answer, and whether the connection ends behind it."""


async def serving(reply: Reply, case: Callable[[Asker], Awaitable[None]]) -> int:
    """Run a case against a server; how many requests came."""
    came = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal came
        try:
            while True:
                request = await reader.readuntil(b"\r\n\r\n")
                answer, ends = reply(came, request)
                came += 1
                writer.write(answer)
                await writer.drain()
                if ends:
                    return
        except asyncio.IncompleteReadError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    asker = Asker(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", PATIENCE)
    try:
        await asyncio.wait_for(case(asker), PATIENCE)
    finally:
        await asker.close()
        server.close()
    return came


def answer(body: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\nX-One: 1\r\n\r\n%b" % (len(body), body)


def test_a_connection_that_was_closed_while_idle_is_made_again() -> None:
    async def case(asker: Asker) -> None:
        for n in range(5):
            found = await asker.get("/v1/a b", {"limit": "1"}, [("authorization", "Bearer x")], PATIENCE)
            assert (found.status_code, found.content, found.headers["x-one"]) == (200, b"%d" % n, "1")
            await asyncio.sleep(0)

    def reply(n: int, request: bytes) -> tuple[bytes, bool]:
        assert request.startswith(b"GET /v1/a%20b?limit=1 HTTP/1.1\r\nauthorization: Bearer x\r\nhost: 127.0.0.1:")
        return answer(b"%d" % n), n % 2 == 0

    assert asyncio.run(serving(reply, case)) == 5


def test_an_answer_that_is_cut_says_that_the_service_is_away() -> None:
    async def case(asker: Asker) -> None:
        for _ in range(2):
            with pytest.raises(NotReady):
                await asker.get("/v1/x", {}, [], PATIENCE)

    asyncio.run(serving(lambda n, request: (answer(b"whole")[:-2], True), case))


def test_what_does_not_come_in_time_is_given_up() -> None:
    async def case(asker: Asker) -> None:
        with pytest.raises(NotReady):
            await asker.get("/v1/x", {}, [], 0.05)

    asyncio.run(serving(lambda n, request: (b"", False), case))


def test_a_line_in_a_path_or_header_is_none_of_the_request() -> None:
    async def case(asker: Asker) -> None:
        await asker.get("/v1/x\r\nevil: 1\r\n\r\n?a#b", {}, [], PATIENCE)
        assert not asker.takes([("authorization", "Bearer a\r\nevil: 1")])
        assert asker.takes([("authorization", "Bearer a")])

    def reply(n: int, request: bytes) -> tuple[bytes, bool]:
        assert request.startswith(b"GET /v1/x%0D%0Aevil:%201%0D%0A%0D%0A%3Fa%23b HTTP/1.1\r\n")
        return answer(b""), False

    assert asyncio.run(serving(reply, case)) == 1


def test_only_plain_http_is_asked() -> None:
    assert not Asker("https://service", 1.0).takes([])
    assert not Asker("http://name:secret@service", 1.0).takes([])
