"""The order of the writes that one connection pipelines to a resource.

A write lets the next one begin as soon as the writer has accepted it, which fixes its place among the commands of its
resource, and not when it is answered: so the next one is checked while the first waits for its commit, and shares it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from contextvars import ContextVar

_current: ContextVar[OrderedWrite | None] = ContextVar("rankcast_ordered_write", default=None)


class OrderedWrite:
    """A write, or a group of some, that begins when all writes before it are `released`."""

    __slots__ = ("_before", "_released", "_waiting")

    def __init__(self) -> None:
        self._before: list[OrderedWrite] = []
        self._released = False
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def released(self) -> bool:
        """Whether those behind it may begin."""
        return self._released

    @property
    def may_begin(self) -> bool:
        """Whether `begin` would not suspend."""
        return not self._before or all(one._released for one in self._before)

    def follow(self, before: OrderedWrite) -> None:
        """Let it begin behind another one, which has begun or was ordered before it."""
        self._before.append(before)

    async def begin(self) -> None:
        """Wait for the writes before it, and be the write of the current task. Does not suspend if it `may_begin`."""
        before, self._before = self._before, []
        for one in before:
            if not one._released:
                waiting = asyncio.get_running_loop().create_future()
                one._waiting.append(waiting)
                await waiting
        _current.set(self)

    def release(self) -> None:
        """Let those behind it begin. Idempotent."""
        self._released = True
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.done():
                one.set_result(None)


class WriteOrder:
    """The last write of one connection to each resource, until it is released."""

    def __init__(self) -> None:
        self._last: dict[Hashable, OrderedWrite] = {}

    def append(self, place: Hashable) -> OrderedWrite:
        """The next write to the resource `place`; `remove` has to be called for it."""
        write = OrderedWrite()
        self.join(place, write)
        return write

    def join(self, place: Hashable, write: OrderedWrite) -> None:
        """As `append`, for a write that has not begun and may be in the order of other connections, too."""
        before = self._last.get(place)
        if before is not None:
            write.follow(before)
        self._last[place] = write

    def blocks(self, place: Hashable) -> bool:
        """Whether the next write to a resource would have to wait."""
        last = self._last.get(place)
        return last is not None and not last.released

    def remove(self, place: Hashable, write: OrderedWrite) -> None:
        """Release a write, and forget it."""
        write.release()
        if self._last.get(place) is write:
            del self._last[place]


def detach() -> None:
    """Let the current task write without releasing its write."""
    _current.set(None)


def release() -> None:
    """Release the write of the current task, which the writer has accepted. O(1); nothing without one."""
    write = _current.get()
    if write is not None:
        write.release()
