"""Coroutines that are run straight through where nothing in them waits, without a task and its turns of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from contextvars import copy_context
from types import coroutine
from typing import Any

_NOT_BEGUN = object()
"""What a coroutine that has not begun waits for."""


class Straight:
    """A coroutine that is run by whoever calls `go_on`, and by a task from where it has to wait for the event loop.

    It has a context of its own, as a task does, and no current task before `rest` is one.
    """

    __slots__ = ("_awaited", "_run", "_work")

    def __init__(self, work: Coroutine[Any, Any, None]) -> None:
        self._work = work
        self._run = copy_context().run
        self._awaited: Any = _NOT_BEGUN

    def go_on(self) -> bool:
        """Run it as long as what it waits for is there; whether it has ended."""
        awaited, run, send = self._awaited, self._run, self._work.send
        try:
            while awaited is _NOT_BEGUN or (awaited is not None and awaited.done()):
                awaited = run(send, None)
        except StopIteration:
            return True
        except Exception as error:
            # As for a task whose result nobody asks for.
            about = {"message": "what was run straight through failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(about)
            return True
        self._awaited = awaited
        return False

    async def rest(self) -> None:
        """Run it to its end, in a task."""
        await self._rest()

    @coroutine
    def _rest(self) -> Generator[Any, Any, None]:
        # What it waits for may have come before the task began.
        if self.go_on():
            return
        awaited = self._awaited
        try:
            while True:
                try:
                    yield awaited
                except BaseException as error:
                    awaited = self._run(self._work.throw, error)
                else:
                    awaited = self._run(self._work.send, None)
        except StopIteration:
            return
