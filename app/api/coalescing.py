"""Coalescing of equal questions of concurrent requests: one search for all of their locations.

What comes in one turn of the event loop goes together, and so does all that comes while those before are answered. Who
asks alone does not wait for others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from typing import Any, Generic, TypeVar

KeyT = TypeVar("KeyT", bound=Hashable)
PlaceT = TypeVar("PlaceT")
AnswerT = TypeVar("AnswerT")

MOST = 64
"""Locations that are queried together; all are answered at once."""


class Gathering(Generic[KeyT, PlaceT, AnswerT]):
    """Calls `answer` for the locations that wait under `key`; it returns one seq and their results, in order."""

    def __init__(
        self, answer: Callable[[KeyT, Sequence[PlaceT]], Awaitable[tuple[int, Sequence[AnswerT]]]], most: int = MOST
    ) -> None:
        self._answer = answer
        self._most = most
        self._waiting: dict[KeyT, list[tuple[PlaceT, asyncio.Future[tuple[int, AnswerT]]]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._running: set[asyncio.Future[tuple[int, Sequence[AnswerT]]]] = set()

    async def ask(self, key: KeyT, place: PlaceT) -> tuple[int, AnswerT]:
        """The seq and the result at a location. Raises what `answer` raises, as do all that were coalesced with it."""
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
        """Run as long as requests wait."""
        while waiting := self._waiting[key]:
            some, self._waiting[key] = waiting[: self._most], waiting[self._most :]
            some = [(place, future) for place, future in some if not future.done()]
            if not some:
                continue
            work = asyncio.ensure_future(self._answer(key, [place for place, _ in some]))  # noqa: RUF006 (it is kept below)
            self._running.add(work)
            work.add_done_callback(self._running.discard)
            futures = [future for _, future in some]

            def left(_: object, work: asyncio.Future[Any] = work, futures: list[Any] = futures) -> None:
                # Nobody waits any more.
                if all(future.cancelled() for future in futures):
                    work.cancel()

            for future in futures:
                future.add_done_callback(left)
            try:
                seq, answers = await work
            except asyncio.CancelledError:
                if all(future.cancelled() for future in futures):
                    continue
                raise
            except Exception as error:
                for _, future in some:
                    if not future.done():
                        future.set_exception(error)
                continue
            for (_, future), answer in zip(some, answers, strict=True):
                if not future.done():
                    future.set_result((seq, answer))
        del self._waiting[key]
