"""Writers of boards in the test's process, with a log that can be broken."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from app.errors import LogUnavailable
from app.resources.base import ResourceTypes
from app.resources.boards import BoardType
from app.runtime.metrics import Metrics
from app.storage.log import Log
from app.write_path.catalog import Catalog
from app.write_path.idempotency import Answers
from app.write_path.writer import Writer


class BrokenLog(Log):
    """A log that cannot be written while `broken`."""

    broken = False

    def append(self, *args: Any, **more: Any) -> int:
        if self.broken:
            raise LogUnavailable("the disk is full")
        return super().append(*args, **more)


def make(path: Path, max_queue: int = 10_000) -> Writer:
    return Writer(
        BrokenLog.open(f"sqlite:///{path / 'log.db'}"),
        Catalog(ResourceTypes(BoardType())),
        Answers(),
        Metrics(),
        max_queue,
    )


def run(path: Path, story: Callable[[Writer], Awaitable[None]], **more: Any) -> None:
    """Carry out a story with a writer on the log in a folder, and close both."""

    async def whole() -> None:
        writer = make(path, **more)
        writer.recover()
        await story(writer)
        await writer.close()
        writer._log.close()

    asyncio.run(whole())
