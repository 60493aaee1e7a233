"""Connections without a server: a test does itself what the task of one would do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from app.streaming.buffer import Channel
from app.streaming.connection import Connection, Reader


class ManualConnection(Connection):
    """A connection with so many readers, each of a channel of its own."""

    transport = "test"

    def __init__(self, hub: Any, limit: int, most: int, readers: int = 0) -> None:
        super().__init__(hub, limit, most)
        self.all = [Reader(self) for _ in range(readers)]
        for reader in self.all:
            reader.channel = Channel("boards/b", "any", "changes", 0, 1)

    def readers(self) -> Iterable[Reader]:
        return self.all

    async def listen(self) -> None: ...
    async def send_queue(self) -> None: ...
    async def send_heartbeat(self) -> None: ...
    async def send_end(self, code: int) -> None: ...
    def on_finish(self, reader: Reader) -> None: ...
