from __future__ import annotations

import asyncio
import json
from asyncio.subprocess import Process
from pathlib import Path
from typing import Any, cast

from app.demo.process import Readiness, Service


def test_a_service_that_starts_says_how_far_its_kernels_are_until_it_is_ready(tmp_path: Path) -> None:
    """Before it is ready, /readyz may refuse with the share or without, and something else may answer in its place.

    Once boards can be used nothing else is waited for.
    """
    answers: list[tuple[int, Any]] = [
        (503, {"type": "/problems/not-ready", "status": 503, "warm": 0.4}),
        (502, "<html>"),
        (503, {"type": "/problems/not-ready", "status": 503}),
        (200, {"ready": False, "warm": 0.9}),
        (
            503,
            {"warm": 0.3, "resources": {"boards": 0.5, "maps": 0}, "compiling": "indexes.boards.kernels.paint.paint"},
        ),
        (503, {"warm": 0.4, "resources": {"boards": 1.0, "maps": 0}, "compiling": "indexes.maps.top.keep"}),
    ]
    said: list[Readiness] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"GET /readyz ")
        status, body = answers.pop(0)
        text = body if isinstance(body, str) else json.dumps(body)
        head = f"HTTP/1.1 {status} X\r\nContent-Length: {len(text)}\r\nConnection: close\r\n\r\n"
        writer.write((head + text).encode())
        await writer.drain()
        writer.close()

    async def wait() -> None:
        async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            await Service(cast(Process, None), port, tmp_path / "log").ready(said.append)

    asyncio.run(wait())
    assert [now.warm for now in said] == [0.4, None, None, 0.9, 0.3]
    assert [now.boards for now in said] == [None, None, None, None, 0.5]
    assert said[-1].compiling == "indexes.boards.kernels.paint.paint"
    assert answers == []
