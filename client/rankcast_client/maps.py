"""Handles of one map: `AsyncMap` and, for scripts, `Map`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, overload

from rankcast_client import map_calls as calls
from rankcast_client.calls import segment
from rankcast_client.map_models import (
    Better,
    MapAnswer,
    MapAttribute,
    MapInfo,
    Moved,
    Moves,
    NewPlace,
    NewQuery,
    Place,
    Put,
    Queries,
    Query,
    Question,
    ResultEvent,
    ResultFollower,
    Score,
    Skyline,
    SkylineAnswer,
    Top,
    TopAnswer,
)
from rankcast_client.models import UNSET, OnError, Unset
from rankcast_client.moving import AsyncMoving, Moving, MovingQuery
from rankcast_client.watch import Stream
from rankcast_client.zones import Bounds, Location, Metric

if TYPE_CHECKING:
    from rankcast_client.client import AsyncRankcast
    from rankcast_client.sync import Rankcast
    from rankcast_client.ws import Socket


class Results(Stream[ResultEvent]):
    """`async for result in food.results(id)`: the answers of a standing query as objects change and its client moves.

    Yields a `Result` with which it begins, and one whenever another answer or zone is due. With `ready` also `Ready`,
    each time that a connection has told all that there was. Ends when the query or its map is deleted; `gone` is true
    then. Raises and goes on over lost connections as `Watch` does.
    """

    def __init__(self, map: AsyncMap, id: str, heartbeat: float, follower: ResultFollower) -> None:
        self.id = id
        self._follower = follower
        path = calls.map_path(map.name, "queries", segment(id), "stream")
        super().__init__(map.client, path, follower, heartbeat)

    @property
    def answer(self) -> MapAnswer | None:
        """The present answer, None before the first."""
        return self._follower.answer


class AsyncMap:
    """One map: its configuration, objects, questions and standing queries. Get it from `AsyncRankcast.map`."""

    def __init__(self, client: AsyncRankcast, name: str) -> None:
        segment(name)
        self.client = client
        self.name = name

    async def put(
        self, attributes: Mapping[str, Better | MapAttribute], bounds: Bounds, *, metric: Metric = "euclidean"
    ) -> MapInfo:
        """Makes the map; a 409 if it is there and differs.

        Each attribute is "low" or "high", whichever is better, or a `MapAttribute` that has a range too, outside which
        objects are refused. Scores run over attributes in this order. `bounds` are (x0, y0, x1, y1), which no zone of a
        skyline reaches past.
        """
        return await self.client.send(calls.put_map(self.name, attributes, bounds, metric))

    async def info(self) -> MapInfo:
        """The configuration, and how much is in it."""
        return await self.client.send(calls.map_info(self.name))

    async def delete(self) -> int:
        """Deletes the map with all that is in it and ends its streams. Returns the seq."""
        return await self.client.send(calls.delete_map(self.name))

    # Objects

    async def put_objects(
        self, objects: Iterable[NewPlace], *, on_error: OnError = "refuse", idempotency_key: str | None = None
    ) -> Put:
        """Objects come or change, in order, as one request, all or nothing; with `on_error="skip"` all that are good.

        More than 1,000 go as NDJSON.
        """
        return await self.client.send(calls.put_objects(self.name, list(objects), on_error), idempotency_key)

    async def put_arrow(
        self, stream: bytes, *, on_error: OnError = "refuse", idempotency_key: str | None = None
    ) -> Put:
        """Puts the rows of an Arrow IPC stream with the columns `id, x, y, <attribute>..., payload` (JSON text)."""
        return await self.client.send(calls.put_arrow(self.name, stream, on_error), idempotency_key)

    async def put_object(
        self,
        id: str,
        location: Location | None = None,
        values: Mapping[str, float] | None = None,
        payload: Any = UNSET,
    ) -> Place:
        """The object is there and has this from now on. A new one needs its location and all values."""
        return await self.client.send(calls.write_object("PUT", self.name, id, location, values, payload))

    async def patch_object(
        self,
        id: str,
        *,
        location: Location | None = None,
        values: Mapping[str, float] | None = None,
        payload: Any = UNSET,
    ) -> Place:
        """Changes what is given of an object that is there. `payload=None` takes its payload away."""
        return await self.client.send(calls.write_object("PATCH", self.name, id, location, values, payload))

    async def object(self, id: str) -> Place:
        """The object as it is now."""
        return await self.client.send(calls.get_object(self.name, id))

    async def delete_object(self, id: str) -> int:
        """Takes the object away. Returns the seq."""
        return await self.client.send(calls.delete_object(self.name, id))

    async def delete_objects(self, ids: Iterable[str]) -> int:
        """Takes many away; unknown ids are passed over. Returns how many there were."""
        return await self.client.send(calls.delete_objects(self.name, ids))

    def objects(self) -> AsyncIterator[Place]:
        """All objects, in order of id, fetched page by page."""
        return self.client._all(lambda limit, cursor: calls.objects(self.name, limit, cursor))

    # Questions

    async def top(self, location: Location, k: int, score: Score, *, m: int = 1, ordered: bool = False) -> TopAnswer:
        """The k best at a place, and where that holds. With m - 1 more candidates the zone is wider; `ordered`: the
        order holds in the zone too."""
        return await self.client.send(calls.top(self.name, Top(k, score, m, ordered), location))

    async def top_many(
        self, locations: Iterable[Location], k: int, score: Score, *, m: int = 1, ordered: bool = False
    ) -> tuple[TopAnswer, ...]:
        """As `top` at many places, as one request."""
        return await self.client.send(calls.tops(self.name, Top(k, score, m, ordered), list(locations)))

    async def skyline(self, location: Location) -> SkylineAnswer:
        """What nothing dominates at a place, and where that holds."""
        return await self.client.send(calls.skyline(self.name, location))

    async def skyline_many(self, locations: Iterable[Location]) -> tuple[SkylineAnswer, ...]:
        """As `skyline` at many places, as one request."""
        return await self.client.send(calls.skylines(self.name, list(locations)))

    async def ask(self, question: Question, location: Location) -> MapAnswer:
        """The answer to a `Top` or a `Skyline` at a place."""
        if isinstance(question, Top):
            return await self.client.send(calls.top(self.name, question, location))
        return await self.skyline(location)

    @overload
    def moving(self, question: Top) -> AsyncMoving[TopAnswer]: ...
    @overload
    def moving(self, question: Skyline) -> AsyncMoving[SkylineAnswer]: ...
    def moving(self, question: Question) -> AsyncMoving[Any]:
        """A moving client, which asks only where it leaves the zone of its answer, see `AsyncMoving`."""
        return AsyncMoving(self, question)

    # Standing queries

    async def add_queries(
        self,
        queries: Iterable[NewQuery],
        *,
        lists: bool | None = None,
        on_error: OnError = "refuse",
        idempotency_key: str | None = None,
    ) -> Queries:
        """Makes many standing queries as one request, all or nothing. `lists` asks for their answers (default: up to
        1,000)."""
        return await self.client.send(calls.add_queries(self.name, queries, lists, on_error), idempotency_key)

    async def put_query(self, id: str, question: Question, location: Location, *, ttl: float | None = None) -> Query:
        """Makes the standing query or changes it to this: what a client says again whenever it starts."""
        return await self.client.send(calls.put_query(self.name, id, question, location, ttl))

    async def patch_query(
        self,
        id: str,
        *,
        k: int | None = None,
        m: int | None = None,
        ordered: bool | None = None,
        score: Score | None = None,
        ttl: float | Unset | None = UNSET,
    ) -> Query:
        """Changes what is given of a standing query; its streams miss nothing. A `ttl` of None takes the time limit
        away. Where its client is `move` says."""
        call = calls.patch_query(self.name, id, ttl, k=k, m=m, ordered=ordered, score=score)
        return await self.client.send(call)

    async def query(self, id: str) -> Query:
        """The standing query with its answer now, where the service last heard that its client is."""
        return await self.client.send(calls.get_query(self.name, id))

    async def delete_query(self, id: str) -> int:
        """Deletes it and ends its streams. Returns the seq."""
        return await self.client.send(calls.delete_query(self.name, id))

    async def delete_queries(self, ids: Iterable[str]) -> int:
        """Deletes many; unknown ids are passed over. Returns how many there were."""
        return await self.client.send(calls.delete_queries(self.name, ids))

    def queries(self) -> AsyncIterator[Query]:
        """All standing queries, in order of id and without answers, fetched page by page."""
        return self.client._all(lambda limit, cursor: calls.queries(self.name, limit, cursor))

    async def move(self, id: str, location: Location) -> Moved:
        """The client of a standing query is at another place: within the zone that the service holds, or with a new
        answer."""
        return await self.client.send(calls.move(self.name, id, location))

    async def move_many(
        self, moves: Iterable[tuple[str, Location]], *, on_error: OnError = "refuse", idempotency_key: str | None = None
    ) -> Moves:
        """As `move` for many, in order, as one request."""
        return await self.client.send(calls.moves(self.name, list(moves), on_error), idempotency_key)

    def results(self, id: str, *, heartbeat: float = 15.0, ready: bool = False) -> Results:
        """Follows the answers of a standing query, see `Results`. `heartbeat` is the service's setting in seconds: a
        connection that is silent for three of them is given up and made again."""
        return self._followed(id, ResultFollower(ready), heartbeat)

    def _followed(self, id: str, follower: ResultFollower, heartbeat: float) -> Results:
        stream = Results(self, id, heartbeat, follower)
        self.client._watches.add(stream)
        return stream

    @overload
    def moving_query(
        self,
        question: Top,
        id: str | None = None,
        *,
        ttl: float | None = None,
        socket: Socket | None = None,
        heartbeat: float = 15.0,
    ) -> MovingQuery[TopAnswer]: ...
    @overload
    def moving_query(
        self,
        question: Skyline,
        id: str | None = None,
        *,
        ttl: float | None = None,
        socket: Socket | None = None,
        heartbeat: float = 15.0,
    ) -> MovingQuery[SkylineAnswer]: ...
    def moving_query(
        self,
        question: Question,
        id: str | None = None,
        *,
        ttl: float | None = None,
        socket: Socket | None = None,
        heartbeat: float = 15.0,
    ) -> MovingQuery[Any]:
        """A moving client with a standing query, which hears when objects change its answer, see `MovingQuery`."""
        return MovingQuery(self, question, id, ttl=ttl, socket=socket, heartbeat=heartbeat)


class Map:
    """One map. Each method means what it means on `AsyncMap`; following answers is the asynchronous client's."""

    def __init__(self, client: Rankcast, name: str) -> None:
        segment(name)
        self.client = client
        self.name = name

    def put(
        self, attributes: Mapping[str, Better | MapAttribute], bounds: Bounds, *, metric: Metric = "euclidean"
    ) -> MapInfo:
        """Makes the map; a 409 if it is there and differs."""
        return self.client.send(calls.put_map(self.name, attributes, bounds, metric))

    def info(self) -> MapInfo:
        """The configuration, and how much is in it."""
        return self.client.send(calls.map_info(self.name))

    def delete(self) -> int:
        """Deletes the map with all that is in it."""
        return self.client.send(calls.delete_map(self.name))

    def put_objects(
        self, objects: Iterable[NewPlace], *, on_error: OnError = "refuse", idempotency_key: str | None = None
    ) -> Put:
        """Objects come or change, in order, as one request, all or nothing."""
        return self.client.send(calls.put_objects(self.name, list(objects), on_error), idempotency_key)

    def put_arrow(self, stream: bytes, *, on_error: OnError = "refuse", idempotency_key: str | None = None) -> Put:
        """Puts the rows of an Arrow IPC stream with the columns `id, x, y, <attribute>..., payload` (JSON text)."""
        return self.client.send(calls.put_arrow(self.name, stream, on_error), idempotency_key)

    def put_object(
        self,
        id: str,
        location: Location | None = None,
        values: Mapping[str, float] | None = None,
        payload: Any = UNSET,
    ) -> Place:
        """The object is there and has this from now on."""
        return self.client.send(calls.write_object("PUT", self.name, id, location, values, payload))

    def patch_object(
        self,
        id: str,
        *,
        location: Location | None = None,
        values: Mapping[str, float] | None = None,
        payload: Any = UNSET,
    ) -> Place:
        """Changes what is given of an object that is there."""
        return self.client.send(calls.write_object("PATCH", self.name, id, location, values, payload))

    def object(self, id: str) -> Place:
        """The object as it is now."""
        return self.client.send(calls.get_object(self.name, id))

    def delete_object(self, id: str) -> int:
        """Takes the object away. Returns the seq."""
        return self.client.send(calls.delete_object(self.name, id))

    def delete_objects(self, ids: Iterable[str]) -> int:
        """Takes many away; unknown ids are passed over. Returns how many there were."""
        return self.client.send(calls.delete_objects(self.name, ids))

    def objects(self) -> Iterator[Place]:
        """All objects, in order of id, fetched page by page."""
        return self.client._all(lambda limit, cursor: calls.objects(self.name, limit, cursor))

    def top(self, location: Location, k: int, score: Score, *, m: int = 1, ordered: bool = False) -> TopAnswer:
        """The k best at a place, and where that holds."""
        return self.client.send(calls.top(self.name, Top(k, score, m, ordered), location))

    def top_many(
        self, locations: Iterable[Location], k: int, score: Score, *, m: int = 1, ordered: bool = False
    ) -> tuple[TopAnswer, ...]:
        """As `top` at many places, as one request."""
        return self.client.send(calls.tops(self.name, Top(k, score, m, ordered), list(locations)))

    def skyline(self, location: Location) -> SkylineAnswer:
        """What nothing dominates at a place, and where that holds."""
        return self.client.send(calls.skyline(self.name, location))

    def skyline_many(self, locations: Iterable[Location]) -> tuple[SkylineAnswer, ...]:
        """As `skyline` at many places, as one request."""
        return self.client.send(calls.skylines(self.name, list(locations)))

    def ask(self, question: Question, location: Location) -> MapAnswer:
        """The answer to a `Top` or a `Skyline` at a place."""
        if isinstance(question, Top):
            return self.client.send(calls.top(self.name, question, location))
        return self.skyline(location)

    @overload
    def moving(self, question: Top) -> Moving[TopAnswer]: ...
    @overload
    def moving(self, question: Skyline) -> Moving[SkylineAnswer]: ...
    def moving(self, question: Question) -> Moving[Any]:
        """A moving client, which asks only where it leaves the zone of its answer, see `Moving`."""
        return Moving(self, question)

    def add_queries(
        self,
        queries: Iterable[NewQuery],
        *,
        lists: bool | None = None,
        on_error: OnError = "refuse",
        idempotency_key: str | None = None,
    ) -> Queries:
        """Makes many standing queries as one request, all or nothing."""
        return self.client.send(calls.add_queries(self.name, queries, lists, on_error), idempotency_key)

    def put_query(self, id: str, question: Question, location: Location, *, ttl: float | None = None) -> Query:
        """Makes the standing query or changes it to this."""
        return self.client.send(calls.put_query(self.name, id, question, location, ttl))

    def patch_query(
        self,
        id: str,
        *,
        k: int | None = None,
        m: int | None = None,
        ordered: bool | None = None,
        score: Score | None = None,
        ttl: float | Unset | None = UNSET,
    ) -> Query:
        """Changes what is given of a standing query."""
        return self.client.send(calls.patch_query(self.name, id, ttl, k=k, m=m, ordered=ordered, score=score))

    def query(self, id: str) -> Query:
        """The standing query with its answer now."""
        return self.client.send(calls.get_query(self.name, id))

    def delete_query(self, id: str) -> int:
        """Deletes it and ends its streams. Returns the seq."""
        return self.client.send(calls.delete_query(self.name, id))

    def delete_queries(self, ids: Iterable[str]) -> int:
        """Deletes many; unknown ids are passed over. Returns how many there were."""
        return self.client.send(calls.delete_queries(self.name, ids))

    def queries(self) -> Iterator[Query]:
        """All standing queries, in order of id and without answers, fetched page by page."""
        return self.client._all(lambda limit, cursor: calls.queries(self.name, limit, cursor))

    def move(self, id: str, location: Location) -> Moved:
        """The client of a standing query is at another place."""
        return self.client.send(calls.move(self.name, id, location))

    def move_many(
        self, moves: Iterable[tuple[str, Location]], *, on_error: OnError = "refuse", idempotency_key: str | None = None
    ) -> Moves:
        """As `move` for many, in order, as one request."""
        return self.client.send(calls.moves(self.name, list(moves), on_error), idempotency_key)
