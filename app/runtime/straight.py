"""Coroutines that are run straight through where nothing in them waits, without a task and its turns of the loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator
from contextvars import copy_context
from functools import partial
from types import coroutine
from typing import Any


class Straight:
    """A coroutine that is run by whoever calls `go_on`, and by a task from where it has to wait for the event loop.

    It has a context of its own, as a task does, and no current task before `rest` is one.
    """

    __slots__ = ("_awaited", "_context", "_work")

    def __init__(self, work: Coroutine[Any, Any, None]) -> None:
        self._work = work
        self._context = copy_context()
        self._awaited: Any = None

    def begin(self) -> bool:
        """Run it up to where it waits; whether it has ended."""
        return self._step(partial(self._work.send, None)) or self.go_on()

    def go_on(self) -> bool:
        """Run it on where what it waited for is there; whether it has ended."""
        while self._awaited is not None and self._awaited.done():
            if self._step(partial(self._work.send, None)):
                return True
        return False

    async def rest(self) -> None:
        """What is left of it, for a task."""
        await self._rest()

    @coroutine
    def _rest(self) -> Generator[Any, Any, None]:
        # What it waits for may have come before the task began.
        ended = self.go_on()
        while not ended:
            try:
                yield self._awaited
            except BaseException as error:
                ended = self._step(partial(self._work.throw, error))
            else:
                ended = self._step(partial(self._work.send, None))

    def _step(self, resume: Callable[[], Any]) -> bool:
        """Run it up to where it waits again; whether it has ended."""
        try:
            self._awaited = self._context.run(resume)
        except StopIteration:
            return True
        return False
