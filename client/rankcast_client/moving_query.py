"""Moving clients with a standing query, whose answer the service replaces when objects change."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar, cast

from rankcast_client._base import AsyncFollowed, Stream
from rankcast_client.errors import RankcastError
from rankcast_client.map_models import MapAnswer, MapInfo, Moved, Query, Question, ResultEvent, ResultFollower
from rankcast_client.reach import Counted, Reach
from rankcast_client.zones import Location

if TYPE_CHECKING:
    # Needs an extra, and comes from whoever has one.
    from rankcast_client.ws import Socket

A = TypeVar("A", bound=MapAnswer)

TRIES = 3
"""How often a query's place is sent before another client is taken to move it too."""

TTL = 60.0
"""Seconds after which a temporary query that could not be deleted expires."""


class MapQueries(AsyncFollowed, Protocol):
    """What a standing query needs of a map."""

    async def info(self) -> MapInfo: ...
    async def put_query(
        self, id: str, question: Question, location: Location, *, ttl: float | None = None
    ) -> Query: ...
    async def query(self, id: str) -> Query: ...
    async def move(self, id: str, location: Location) -> Moved: ...
    async def delete_query(self, id: str) -> int: ...


class _QueryFollower(ResultFollower):
    """The answer of the query, and whether its stream has ended. Each message wakes waiting tasks."""

    def __init__(self) -> None:
        super().__init__()
        self.ended = False
        self._changed = asyncio.Event()

    def take(self, event: str, data: Mapping[str, Any]) -> ResultEvent | None:
        found = super().take(event, data)
        if event in ("gone", "error"):
            self.end()
        self._changed.set()
        return found

    def end(self) -> None:
        """The stream has ended: wake waiting tasks."""
        self.ended, self.current = True, False
        self._changed.set()

    async def until(self, done: Callable[[], bool]) -> None:
        """Return when `done()`, or when the stream has ended."""
        while not (done() or self.ended):
            self._changed.clear()
            await self._changed.wait()


class MovingQuery(Counted, AsyncIterator[A]):
    """A moving client with a standing query, which the service keeps up to date. `AsyncMap.moving_query` makes it.

        async with food.moving_query(Top(5, score, m=5)) as near:
            best = await near.move((12.0, 40.1))
            async for best in near: ...

    The service holds the answer and its zone. It must know where the client is only when that leaves the zone: inside,
    `move` answers from what is held here. When objects change the answer or the zone, the service sends the new
    ones, wherever in the zone the client is; iterating yields the answer where the client is each time that happens.

    While the stream is `live`, each answer is right, up to equal scores, for the objects as they were at a moment since
    the last message came: it lags behind the service by the latency of a message. While it is not, as after a
    connection was lost, every `move` sends a request. A connection counts as lost after three silent heartbeats, so
    that nothing is answered from older state.

    With a `socket` the query is followed there, and moves are sent there too; someone must iterate that socket.
    Without, it has a connection of its own. No other client may move the query. One that was made without an `id`
    is deleted in the end.
    """

    def __init__(
        self,
        map: MapQueries,
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
        self._follower = _QueryFollower()
        self._reach: Reach | None = None
        self._pump: asyncio.Task[None] | None = None
        self._requesting = asyncio.Lock()
        self._returned: MapAnswer | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Stop following the query, and delete it if it was temporary."""
        begun = self._reach is not None
        if self._pump is not None:
            self._pump.cancel()
            with suppress(asyncio.CancelledError, RankcastError):
                await self._pump
        elif self._socket is not None and begun:
            await self._socket.unsubscribe(self._resource, self.id)
        self._follower.end()
        if begun and not self._kept:
            with suppress(RankcastError):
                await self._map.delete_query(self.id)

    @property
    def live(self) -> bool:
        """Whether an open connection has caught up."""
        return self._follower.current

    async def move(self, location: Location) -> A:
        """The answer at a place.

        Raises as all requests do, where one is needed and is refused or the service cannot be reached; a query that was
        deleted is a 404.
        """
        self.moves += 1
        self.location = location
        before = self.asked
        found = await self._now(location)
        self.saved += self.asked == before
        return found

    async def __anext__(self) -> A:
        if self._reach is None:
            raise RuntimeError("the client has not moved anywhere yet")
        await self._follower.until(lambda: self._follower.answer is not self._returned)
        if self._follower.ended and self._follower.answer is self._returned:
            self._raise_failure()
            raise StopAsyncIteration
        assert self.location is not None, "it has moved"
        return await self._now(self.location)

    async def _now(self, location: Location) -> A:
        found = self._here(location)
        if found is None:
            async with self._requesting:
                # The request before may have brought what is valid here too.
                found = self._here(location)
                if found is None:
                    self.asked += 1
                    found = await self._ask(location)
        self._returned = self._follower.answer
        return cast(A, found)

    def _here(self, location: Location) -> MapAnswer | None:
        """What is held, where it can be relied on."""
        answer = self._follower.answer
        if self._reach is None or answer is None or not self._follower.current:
            return None
        return self._reach.at(answer, location)

    async def _ask(self, location: Location) -> MapAnswer:
        if self._reach is None:
            return await self._begin(location)
        self._raise_failure()
        for _ in range(TRIES):
            if not await self._send(location):
                # Within the zone that the service holds: in its margin, or in a zone whose message has not come yet.
                await self._fetch()
            answer = self._follower.answer
            found = None if answer is None else self._reach.at(answer, location)
            if found is not None:
                return found
        raise RankcastError(f"the query {self.id!r} is moved by someone else too")

    async def _begin(self, location: Location) -> MapAnswer:
        """Make the query and wait until its stream is open."""
        reach = Reach(self.question, await self._map.info())
        made = await self._map.put_query(self.id, self.question, location, ttl=self._ttl)
        self._reach = reach
        self._keep(made.answer, None)
        if self._socket is None:
            self._pump = asyncio.create_task(self._run())
        else:
            await self._socket._follow(self._resource, self.id, self._follower)
        await self._follower.until(lambda: self._follower.current)
        self._raise_failure()
        answer = self._follower.answer
        found = None if answer is None else reach.at(answer, location)
        return await self._ask(location) if found is None else found

    async def _run(self) -> None:
        """Read the stream, over lost connections."""
        try:
            async with Stream[ResultEvent](self._map, self.id, self._follower, self._heartbeat) as events:
                async for _ in events:
                    pass
        finally:
            self._follower.end()

    async def _send(self, location: Location) -> bool:
        """Send where the client is; whether the answer that came back is held now."""
        held = self._follower.answer
        if self._socket is None:
            moved = await self._map.move(self.id, location)
            self._keep(moved.answer, held)
            return moved.answer is not None
        resets = self._follower.resets
        seq, inside = await self._socket._move(self._resource, self.id, location)
        if inside:
            return False

        def came() -> bool:
            answer = self._follower.answer
            return self._follower.resets > resets or (answer is not None and answer.seq >= seq)

        await self._follower.until(came)
        return came()

    async def _fetch(self) -> None:
        held = self._follower.answer
        self._keep((await self._map.query(self.id)).answer, held)

    def _keep(self, answer: MapAnswer | None, before: MapAnswer | None) -> None:
        """Hold the answer to a request, unless a newer one came since the request was sent, when `before` was held.

        A service that was restored counts from an earlier seq, so a smaller seq alone says nothing.
        """
        held = self._follower.answer
        if answer is not None and (held is None or held is before or answer.seq >= held.seq):
            self._follower.answer = answer

    def _raise_failure(self) -> None:
        """Raise the error that ended the stream, if there was one; a deleted query is none."""
        if self._pump is not None and self._pump.done() and not self._pump.cancelled():
            self._pump.result()

    @property
    def _resource(self) -> str:
        return f"maps/{self._map.name}"
