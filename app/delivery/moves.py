"""The moves of one WebSocket: where the clients of standing queries are, applied in the order in which they were said.

One task carries them. What is said while it waits for the writer gathers and goes as one command, so that a socket that
speaks for many clients is not bound to one move a commit. How many may gather is bounded.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from app import logs
from app.problems import Problem

log = logs.get("delivery")

MOST_WAITING = 256
"""Moves that may wait: past that the socket is not read."""


class Moved(NamedTuple):
    """A client's move has the seq `seq`, and was `inside` the zone that it had."""

    seq: int
    inside: bool


Carry: TypeAlias = Callable[[str, list[str], list[Any]], Awaitable[Sequence[Moved | Problem]]]
"""Moves some clients of a map, which is named in full, to locations as they came; answers for each what came of it.
Raises `Problem` where that is the same for all."""


class Moves:
    """Carries moves and answers each, in order."""

    def __init__(
        self,
        carry: Carry,
        answer: Callable[[dict[str, Any]], None],
        refuse: Callable[[dict[str, Any], Problem], None],
    ) -> None:
        self._carry = carry
        self._answer = answer
        self._refuse = refuse
        self._waiting: deque[dict[str, Any]] = deque()
        self._room = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def add(self, operation: dict[str, Any]) -> None:
        """Take up a move: an operation with `resource`, `id` and `location`. Waits where too many wait already."""
        while len(self._waiting) >= MOST_WAITING:
            self._room.clear()
            await self._room.wait()
        self._waiting.append(operation)
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    def stop(self) -> None:
        """Forget what waits; what is on its way is applied."""
        self._waiting.clear()

    async def _run(self) -> None:
        try:
            while self._waiting:
                some = [self._waiting.popleft()]
                while self._waiting and self._waiting[0]["resource"] == some[0]["resource"]:
                    some.append(self._waiting.popleft())
                self._room.set()
                await self._apply(some)
        finally:
            self._task = None

    async def _apply(self, some: list[dict[str, Any]]) -> None:
        """Apply the moves of one map and answer them."""
        resource = some[0]["resource"]
        try:
            found = await self._carry(resource, [one["id"] for one in some], [one["location"] for one in some])
        except Problem as problem:
            found = [problem] * len(some)
        except Exception:
            # Those that wait behind it, and whoever waits for room, are not to wait for ever.
            log.exception("moves failed", resource=resource)
            found = [Problem("internal", "the moves could not be carried out")] * len(some)
        for operation, outcome in zip(some, found, strict=True):
            if isinstance(outcome, Problem):
                self._refuse(operation, outcome)
            else:
                self._answer({"resource": resource, "id": operation["id"], "event": "moved", **outcome._asdict()})
