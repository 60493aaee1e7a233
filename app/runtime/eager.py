"""Eager coroutines: run by their caller until they have to wait for the event loop, and by a task only from there on.

Like asyncio's eager tasks, except that none is made for a coroutine that never has to wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator
from contextvars import copy_context
from types import coroutine
from typing import Any

_NOT_BEGUN = object()
"""What a coroutine that has not begun awaits."""


class EagerCoroutine:
    """A coroutine that `advance` runs in its caller, and `finish` in a task from where it has to wait.

    It has a context of its own, as a task has, and no current task before `finish` runs in one.
    """

    __slots__ = ("_awaited", "_run", "_work")

    def __init__(self, work: Coroutine[Any, Any, None]) -> None:
        self._work = work
        self._run = copy_context().run
        self._awaited: Any = _NOT_BEGUN

    def advance(self) -> bool:
        """Run it until it awaits a future that is not done; whether it has ended."""
        awaited, run, send = self._awaited, self._run, self._work.send
        try:
            while awaited is _NOT_BEGUN or (awaited is not None and awaited.done()):
                awaited = run(send, None)
        except StopIteration:
            return True
        except Exception as error:
            # As asyncio does for a task whose exception is never retrieved.
            about = {"message": "what was run straight through failed", "exception": error}
            asyncio.get_running_loop().call_exception_handler(about)
            return True
        self._awaited = awaited
        return False

    async def finish(self) -> None:
        """Run it to its end; to be the coroutine of a task."""
        await self._finish()

    @coroutine
    def _finish(self) -> Generator[Any, Any, None]:
        # The awaited future may be done by the time the task begins.
        if self.advance():
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
