"""The moves of one WebSocket: locations of the clients of standing queries, applied in order.

One task submits them. Moves that arrive while it waits for the writer become one command, so that a socket with many
clients is not limited to one move a commit. Their number is bounded.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

from app.errors import Internal, ServiceError
from app.runtime import logs
from app.streaming.operations import Operation

log = logs.get("delivery")

MOST_WAITING = 256
"""Most moves in the queue; while it is full, the socket is not read."""


class Moved(NamedTuple):
    """A client's move has the seq `seq`, and was `inside` the zone that it had."""

    seq: int
    inside: bool


Carry: TypeAlias = Callable[[str, list[str], list[Any]], Awaitable[Sequence[Moved | Exception]]]
"""Move clients of a map, by its full name, to unchecked locations; returns an outcome for each. Raises the error where
it is the same for all."""


class Moves:
    """Submit moves and answer each, in order."""

    def __init__(
        self,
        carry: Carry,
        answer: Callable[[Operation, dict[str, Any]], None],
        refuse: Callable[[Operation, Exception], None],
    ) -> None:
        self._carry = carry
        self._answer = answer
        self._refuse = refuse
        self._waiting: deque[Operation] = deque()
        self._room = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def add(self, operation: Operation) -> None:
        """Queue a move: an operation with `resource`, `id` and `location`. Waits while too many are queued."""
        while len(self._waiting) >= MOST_WAITING:
            self._room.clear()
            await self._room.wait()
        self._waiting.append(operation)
        if self._task is None:
            self._task = asyncio.create_task(self._run())

    def stop(self) -> None:
        """Forget queued moves; submitted ones are applied."""
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

    async def _apply(self, some: list[Operation]) -> None:
        """Apply the moves of one map and answer them."""
        resource = some[0]["resource"]
        try:
            found = await self._carry(resource, [one["id"] for one in some], [one["location"] for one in some])
        except ServiceError as problem:
            found = [problem] * len(some)
        except Exception:
            # Later moves, and callers of `add`, must not wait for ever.
            log.exception("moves failed", resource=resource)
            found = [Internal("the moves could not be carried out")] * len(some)
        for operation, outcome in zip(some, found, strict=True):
            if isinstance(outcome, Exception):
                self._refuse(operation, outcome)
            else:
                done = {"resource": resource, "id": operation["id"], "event": "moved", **outcome._asdict()}
                self._answer(operation, done)
