"""Moving clients, which know the zone of their answer and send a request only when they leave it."""

from __future__ import annotations

from typing import Generic, Protocol, TypeVar, cast

from rankcast_client.map_models import MapAnswer, MapInfo, Question
from rankcast_client.reach import Counted, Reach
from rankcast_client.zones import Location

A = TypeVar("A", bound=MapAnswer)


class AsyncMapAnswers(Protocol):
    """What a moving client needs of a map."""

    async def info(self) -> MapInfo: ...
    async def ask(self, question: Question, location: Location) -> MapAnswer: ...


class AsyncMoving(Counted, Generic[A]):
    """A moving client that sends a request where it leaves the zone of its answer. `AsyncMap.moving` makes it.

    Each answer is right for the objects as they were at its `seq`. Changes of objects are not noticed until the next
    request: when the client leaves the zone, or by `refresh`.
    """

    def __init__(self, map: AsyncMapAnswers, question: Question) -> None:
        self.question = question
        self.answer: A | None = None
        self.location: Location | None = None
        self._map = map
        self._reach: Reach | None = None

    async def move(self, location: Location) -> A:
        """The answer at a place."""
        self.moves += 1
        self.location = location
        if self.answer is not None and self._reach is not None:
            found = self._reach.at(self.answer, location)
            if found is not None:
                self.saved += 1
                return cast(A, found)
        return await self._ask(location)

    async def refresh(self) -> A | None:
        """The answer of the service where the client is; None before it moved anywhere."""
        return None if self.location is None else await self._ask(self.location)

    async def _ask(self, location: Location) -> A:
        if self._reach is None:
            self._reach = Reach(self.question, await self._map.info())
        self.asked += 1
        self.answer = cast(A, await self._map.ask(self.question, location))
        return self.answer
