"""The thread for slow commits, and for checkpoints of SQLite's write-ahead log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from app.errors import LogUnavailable
from app.runtime import logs
from app.storage.log import Log

T = TypeVar("T")

CHECKPOINT = 4 << 20
"""Bytes of SQLite's write-ahead log above which a checkpoint is made."""

log = logs.get("writer")


class CommitThread:
    """One thread that does one piece of work after another. Lives on the event loop.

    While it is `busy`, a commit on the event loop would block the loop on the disk or on a lock, so commits are made in
    the thread.
    """

    def __init__(self, log_store: Log) -> None:
        self._log = log_store
        self._thread = ThreadPoolExecutor(1, "commit")
        self._checkpointing = self._closed = False
        # Each is counted by one thread alone.
        self._begun = 0
        self._ended = 0

    @property
    def busy(self) -> bool:
        """Whether work waits or runs, or a checkpoint is made."""
        return self._begun != self._ended or self._checkpointing

    async def run(self, work: Callable[..., T], *args: object) -> T:
        """Run `work` after all work before it, even if the caller is cancelled."""

        def counted() -> T:
            try:
                return work(*args)
            finally:
                self._ended += 1

        future = asyncio.get_running_loop().run_in_executor(self._thread, counted)
        self._begun += 1
        return await asyncio.shield(future)

    @property
    def due(self) -> bool:
        """Whether the write-ahead log has grown enough for a `checkpoint`, and none is going on. Not after `shutdown`:
        metrics are read once more then.
        """
        return self._log.write_ahead > CHECKPOINT and not (self._checkpointing or self._closed)

    def checkpoint(self) -> Coroutine[Any, Any, None]:
        """Move the write-ahead log into the database; there is one checkpoint at a time, from this call on.

        SQLite would do that in a commit, for a tenth of a second. Most is moved in a thread of its own with commits in
        between, and what these have added in a second pass without: only when nothing is left is the file written from
        its start again.
        """
        self._checkpointing = True
        return self._checkpoint()

    async def _checkpoint(self) -> None:
        try:
            await asyncio.to_thread(self._log.checkpoint)
            await self.run(self._log.checkpoint)
        except LogUnavailable as error:
            log.warning("the write-ahead log stays as long as it is", error=str(error))
        finally:
            self._checkpointing = False

    def shutdown(self, wait: bool = True) -> None:
        """End the thread, once its work is done."""
        self._closed = True
        self._thread.shutdown(wait)
