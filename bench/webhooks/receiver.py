"""A receiver in a process of its own: ``python -m bench.webhooks.receiver take|hang --port N``.

It answers GET, and each POST by 204, or with `hang` never.
"""

from __future__ import annotations

import argparse
import asyncio

from bench.process import HOST, end_with_parent


async def serve(port: int, hang: bool) -> None:
    """Answer until the end."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.lower().split(b"\r\n")
                length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
                await reader.readexactly(length)
                if head.startswith(b"GET"):
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
                elif hang:
                    await asyncio.Event().wait()
                else:
                    writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async with await asyncio.start_server(answer, HOST, port) as server:
        await server.serve_forever()


if __name__ == "__main__":
    end_with_parent()
    parser = argparse.ArgumentParser()
    parser.add_argument("mode", choices=("take", "hang"))
    parser.add_argument("--port", type=int, required=True)
    given = parser.parse_args()
    asyncio.run(serve(given.port, given.mode == "hang"))
