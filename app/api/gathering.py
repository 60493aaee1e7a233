"""Questions of many requests that ask the same, answered together: one search for all of their places.

What comes in one turn of the event loop goes together, and so does all that comes while those before are answered. Who
asks alone does not wait for others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)
PlaceT = TypeVar("PlaceT")
AnswerT = TypeVar("AnswerT")

MOST = 64
"""Places that are asked about together: the first of them is answered when all are."""


class Gathering(Generic[KeyT, PlaceT, AnswerT]):
    """Asks `answer` about the places at which somebody wants to know `key`; it answers at one seq, in their order."""

    def __init__(
        self, answer: Callable[[KeyT, Sequence[PlaceT]], Awaitable[tuple[int, Sequence[AnswerT]]]], most: int = MOST
    ) -> None:
        self._answer = answer
        self._most = most
        self._waiting: dict[KeyT, list[tuple[PlaceT, asyncio.Future[tuple[int, AnswerT]]]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    async def ask(self, key: KeyT, place: PlaceT) -> tuple[int, AnswerT]:
        """The seq and the answer at a place. Raises what answering raises, as do all that were asked with it."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[tuple[int, AnswerT]] = loop.create_future()
        waiting = self._waiting.get(key)
        if waiting is not None:
            waiting.append((place, future))
        else:
            self._waiting[key] = [(place, future)]
            # A task of its own: those who wait with the first go on waiting when that one is cancelled.
            task = loop.create_task(self._run(key))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await future

    async def _run(self, key: KeyT) -> None:
        """Answer as long as somebody waits."""
        while waiting := self._waiting[key]:
            some, self._waiting[key] = waiting[: self._most], waiting[self._most :]
            some = [(place, future) for place, future in some if not future.done()]
            if not some:
                continue
            try:
                seq, answers = await self._answer(key, [place for place, _ in some])
            except Exception as error:
                for _, future in some:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), answer in zip(some, answers, strict=True):
                if not future.done():
                    future.set_result((seq, answer))
        del self._waiting[key]
