"""What the log has made durable last, in memory, for those who follow it: they need not read it from the database."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from app.storage.rows import CopiedRow, StoredAnswer, StoredRow, copied

MOST_BYTES = 16 << 20
"""Bytes of rows and responses that are kept."""

OVERHEAD = 200
"""Bytes of memory of a row or a response besides its content."""


class Entry(NamedTuple):
    """What one transaction wrote."""

    rows: Sequence[CopiedRow]
    answers: Sequence[StoredAnswer]
    nbytes: int


class Tap:
    """The last transactions of a log by number. `add` may be called in any thread, all else on the event loop.

    They are kept from the first `follow` on: before it there is nobody to read them.
    """

    def __init__(self, most_bytes: int = MOST_BYTES) -> None:
        self._most = most_bytes
        self._entries: deque[Entry] = deque()
        self._first = 0
        self._nbytes = 0
        self._kept = False
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: set[asyncio.Event] = set()

    def start(self) -> None:
        """Wake those who wait on this event loop from now on."""
        self._loop = asyncio.get_running_loop()

    def add(self, rows: Sequence[StoredRow], answers: Sequence[StoredAnswer]) -> None:
        """Keep what was made durable."""
        with self._lock:
            if self._kept:
                self._keep(rows, answers)
            else:
                self._first += 1
        if self._loop is not None and self._waiting:
            self._loop.call_soon_threadsafe(self._wake)

    def _keep(self, rows: Sequence[StoredRow], answers: Sequence[StoredAnswer]) -> None:
        copies = [copied(row) for row in rows]
        nbytes = OVERHEAD * (len(rows) + len(answers))
        nbytes += sum([len(one.row.payload) for one in copies]) + sum([len(one.answer) for one in answers])
        self._entries.append(Entry(copies, answers, nbytes))
        self._nbytes += nbytes
        while self._nbytes > self._most and self._entries:
            self._nbytes -= self._entries.popleft().nbytes
            self._first += 1

    def follow(self) -> int:
        """The number of the next transaction, from which on they are kept."""
        with self._lock:
            self._kept = True
            return self._first + len(self._entries)

    @property
    def end(self) -> int:
        """The number of the next transaction."""
        with self._lock:
            return self._first + len(self._entries)

    def since(self, number: int, most_bytes: int) -> list[Entry] | None:
        """The transactions from one on, about so many bytes of them; None where they are not kept any more."""
        with self._lock:
            if number < self._first:
                return None
            found: list[Entry] = []
            total = 0
            for i in range(number - self._first, len(self._entries)):
                found.append(self._entries[i])
                total += self._entries[i].nbytes
                if total > most_bytes:
                    break
            return found

    async def wait(self, number: int, seconds: float) -> None:
        """Return once there is a transaction of this number, or after so many seconds."""
        event = asyncio.Event()
        self._waiting.add(event)
        try:
            if self.end <= number:
                async with asyncio.timeout(seconds):
                    await event.wait()
        except TimeoutError:
            pass
        finally:
            self._waiting.discard(event)

    def _wake(self) -> None:
        for event in self._waiting:
            event.set()
