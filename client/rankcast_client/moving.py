"""Moving clients: they rank what they hold within the zone of their answer, and ask only when they leave it.

`Moving` and `AsyncMoving` ask one question after the other. `MovingQuery` has a standing query, whose answer the
service replaces when objects change. What each promises is said there.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, cast

from rankcast_client.errors import RankcastError
from rankcast_client.map_models import (
    MapAnswer,
    MapInfo,
    Place,
    Question,
    ResultEvent,
    ResultFollower,
    SkylineAnswer,
    Top,
)
from rankcast_client.ranking import Ranking
from rankcast_client.zones import MEASURES, NOWHERE, Location, zone_of

if TYPE_CHECKING:
    from rankcast_client.maps import AsyncMap, Map
    from rankcast_client.ws import Socket

A = TypeVar("A", bound=MapAnswer)

TRIES = 3
"""Times that a query's place is said before it is taken to be someone else's too."""

TTL = 60.0
"""Seconds after which a query that was made for the time, and could not be deleted, goes by itself."""


class Reach:
    """What an answer comes to at other places of its zone. No I/O."""

    def __init__(self, question: Question, info: MapInfo) -> None:
        self._question = question
        self._info = info
        self._ranking = Ranking(question.score, info) if isinstance(question, Top) else None
        self._measure = MEASURES[info.metric]
        self._answer: MapAnswer | None = None
        self._zone = NOWHERE

    def at(self, answer: MapAnswer, location: Location) -> MapAnswer | None:
        """The answer at a place; None where it may be another one, so that the service must be asked.

        O(edges of the zone), and O(c log c) for the c objects that it has.
        """
        if location == answer.location:
            return answer
        if answer is not self._answer:
            self._answer, self._zone = answer, zone_of(answer.zone, self._info.metric, self._info.bounds)
        if not self._zone.holds(*location):
            return None
        if isinstance(answer, SkylineAnswer):
            found = sorted((self._from(one, location) for one in answer.skyline), key=_nearness)
            return replace(answer, location=location, skyline=tuple(found))
        assert isinstance(self._question, Top) and self._ranking is not None, "a top-k answers a `Top`"
        ranked = self._ranking.ranked(answer.candidates, *location)
        return replace(answer, location=location, list=ranked[: self._question.k], candidates=ranked)

    def _from(self, one: Place, location: Location) -> Place:
        x, y = location
        return replace(one, distance=self._measure(float(x), float(y), float(one.location[0]), float(one.location[1])))


def _nearness(one: Place) -> tuple[float, int]:
    return one.distance or 0.0, one.created


class _Counted:
    """How often a client moved, how often the service had to be asked, and how many moves needed no request."""

    moves = 0
    asked = 0
    saved = 0


class Moving(_Counted, Generic[A]):
    """A moving client that asks where it leaves the zone of its answer. `Map.moving` makes it.

    Each answer is right for the objects as they were at its `seq`. That objects change is not noticed until the next
    one is asked for: by leaving the zone, or by `refresh`.
    """

    def __init__(self, map: Map, question: Question) -> None:
        self.question = question
        self.answer: A | None = None
        self.location: Location | None = None
        self._map = map
        self._reach: Reach | None = None

    def move(self, location: Location) -> A:
        """The answer at a place."""
        self.moves += 1
        self.location = location
        if self.answer is not None and self._reach is not None:
            found = self._reach.at(self.answer, location)
            if found is not None:
                self.saved += 1
                return cast(A, found)
        return self._ask(location)

    def refresh(self) -> A | None:
        """Asks again where the client is; None before it moved anywhere."""
        return None if self.location is None else self._ask(self.location)

    def _ask(self, location: Location) -> A:
        if self._reach is None:
            self._reach = Reach(self.question, self._map.info())
        self.asked += 1
        self.answer = cast(A, self._map.ask(self.question, location))
        return self.answer


class AsyncMoving(_Counted, Generic[A]):
    """A moving client that asks where it leaves the zone of its answer; all as with `Moving`. `AsyncMap.moving` makes
    it."""

    def __init__(self, map: AsyncMap, question: Question) -> None:
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
        """Asks again where the client is; None before it moved anywhere."""
        return None if self.location is None else await self._ask(self.location)

    async def _ask(self, location: Location) -> A:
        if self._reach is None:
            self._reach = Reach(self.question, await self._map.info())
        self.asked += 1
        self.answer = cast(A, await self._map.ask(self.question, location))
        return self.answer


class _Heard(ResultFollower):
    """What the stream has said, and whether it has ended. Whoever waits for news is woken."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = False
        self._news = asyncio.Event()

    def take(self, event: str, data: Mapping[str, Any]) -> ResultEvent | None:
        found = super().take(event, data)
        if event in ("gone", "error"):
            self.end()
        self._news.set()
        return found

    def end(self) -> None:
        """There will be no more."""
        self.ended, self.current = True, False
        self._news.set()

    async def until(self, done: Callable[[], bool]) -> None:
        """Returns when this is so, or when the stream has ended."""
        while not (done() or self.ended):
            self._news.clear()
            await self._news.wait()


class MovingQuery(_Counted, AsyncIterator[A]):
    """A moving client with a standing query, which the service keeps up to date. `AsyncMap.moving_query` makes it.

        async with food.moving_query(Top(5, score, m=5)) as near:
            best = await near.move((12.0, 40.1))
            async for best in near: ...

    The service holds the answer and its zone. It must know where the client is only when that leaves the zone: inside,
    `move` answers from what is held here. When objects change the answer or the zone, the service sends what holds
    instead, wherever in the zone the client is; iterating yields the answer where the client is each time that happens.

    While the stream is `live`, each answer is right, up to equal scores, for the objects as they were at a moment since
    the last message came: it lags behind the service by as long as a message is on its way. While it is not, as after a
    connection was lost, every `move` asks. A connection that has died unheard counts as lost after three silent
    heartbeats, so that nothing is answered from what is older.

    With a `socket` the query is followed there, and moves are said there too; someone must iterate that socket.
    Without, it has a connection of its own. The query must be moved by nobody else. One that was made without an `id`
    is deleted in the end.
    """

    def __init__(
        self,
        map: AsyncMap,
        question: Question,
        id: str | None = None,
        *,
        ttl: float | None = None,
        socket: Socket | None = None,
        heartbeat: float = 15.0,
    ) -> None:
        self.question = question
        self.id = uuid.uuid4().hex if id is None else id
        self.location: Location | None = None
        self._kept = id is not None
        self._ttl = TTL if id is None and ttl is None else ttl
        self._map = map
        self._socket = socket
        self._heartbeat = heartbeat
        self._heard = _Heard()
        self._reach: Reach | None = None
        self._pump: asyncio.Task[None] | None = None
        self._asking = asyncio.Lock()
        self._told: MapAnswer | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Follows the query no longer, and deletes it if it was made for the time."""
        begun = self._reach is not None
        if self._pump is not None:
            self._pump.cancel()
            with suppress(asyncio.CancelledError, RankcastError):
                await self._pump
        elif self._socket is not None and begun:
            await self._socket.unsubscribe(self._resource, self.id)
        self._heard.end()
        if begun and not self._kept:
            with suppress(RankcastError):
                await self._map.delete_query(self.id)

    @property
    def live(self) -> bool:
        """Whether the service says on an open connection what changes."""
        return self._heard.current

    async def move(self, location: Location) -> A:
        """The answer at a place. Raises as all requests do, when the service is asked and refuses or cannot be
        reached; a query that was deleted is a 404."""
        self.moves += 1
        self.location = location
        asked = self.asked
        found = await self._now(location)
        self.saved += self.asked == asked
        return found

    async def __anext__(self) -> A:
        if self._reach is None:
            raise RuntimeError("the client has not moved anywhere yet")
        await self._heard.until(lambda: self._heard.answer is not self._told)
        if self._heard.ended and self._heard.answer is self._told:
            self._raise_failure()
            raise StopAsyncIteration
        assert self.location is not None, "it has moved"
        return await self._now(self.location)

    async def _now(self, location: Location) -> A:
        found = self._here(location)
        if found is None:
            async with self._asking:
                # Whoever asked before may have brought what holds here too.
                found = self._here(location)
                if found is None:
                    self.asked += 1
                    found = await self._ask(location)
        self._told = self._heard.answer
        return cast(A, found)

    def _here(self, location: Location) -> MapAnswer | None:
        """What is held, where it can be relied on."""
        answer = self._heard.answer
        if self._reach is None or answer is None or not self._heard.current:
            return None
        return self._reach.at(answer, location)

    async def _ask(self, location: Location) -> MapAnswer:
        if self._reach is None:
            return await self._begin(location)
        self._raise_failure()
        for _ in range(TRIES):
            if not await self._say(location):
                # Within the zone that the service holds: a place in the margin, or one of a zone that is on its way.
                await self._fetch()
            answer = self._heard.answer
            found = None if answer is None else self._reach.at(answer, location)
            if found is not None:
                return found
        raise RankcastError(f"the query {self.id!r} is moved by someone else too")

    async def _begin(self, location: Location) -> MapAnswer:
        """Makes the query and waits until its stream is open."""
        reach = Reach(self.question, await self._map.info())
        made = await self._map.put_query(self.id, self.question, location, ttl=self._ttl)
        self._reach = reach
        self._note(made.answer, None)
        if self._socket is None:
            self._pump = asyncio.create_task(self._run())
        else:
            await self._socket._follow(self._resource, self.id, self._heard)
        await self._heard.until(lambda: self._heard.current)
        self._raise_failure()
        answer = self._heard.answer
        found = None if answer is None else reach.at(answer, location)
        return await self._ask(location) if found is None else found

    async def _run(self) -> None:
        """Hears what the service says, over lost connections."""
        try:
            async with self._map._followed(self.id, self._heard, self._heartbeat) as events:
                async for _ in events:
                    pass
        finally:
            self._heard.end()

    async def _say(self, location: Location) -> bool:
        """Says where the client is; whether what was sent back is held now."""
        held = self._heard.answer
        if self._socket is None:
            moved = await self._map.move(self.id, location)
            self._note(moved.answer, held)
            return moved.answer is not None
        resets = self._heard.resets
        seq, inside = await self._socket._move(self._resource, self.id, location)
        if inside:
            return False

        def came() -> bool:
            answer = self._heard.answer
            return self._heard.resets > resets or (answer is not None and answer.seq >= seq)

        await self._heard.until(came)
        return came()

    async def _fetch(self) -> None:
        held = self._heard.answer
        self._note((await self._map.query(self.id)).answer, held)

    def _note(self, answer: MapAnswer | None, before: MapAnswer | None) -> None:
        """Holds the answer to a request, unless something newer was heard since the request was sent, when `before` was
        held. A service that was restored counts anew, so a smaller seq alone says nothing."""
        held = self._heard.answer
        if answer is not None and (held is None or held is before or answer.seq >= held.seq):
            self._heard.answer = answer

    def _raise_failure(self) -> None:
        """Raises what ended the stream, if that was not that the query is gone."""
        if self._pump is not None and self._pump.done() and not self._pump.cancelled():
            self._pump.result()

    @property
    def _resource(self) -> str:
        return f"maps/{self._map.name}"
