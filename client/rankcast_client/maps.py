"""One map: requests, and the stream of a subscription."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, overload

from rankcast_client import map_calls as calls
from rankcast_client._base import AsyncHandle, Stream
from rankcast_client.calls import given
from rankcast_client.map_calls import MAPS
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
from rankcast_client.moving import AsyncMoving
from rankcast_client.moving_query import MovingQuery
from rankcast_client.zones import Bounds, Location, Metric

if TYPE_CHECKING:
    # Needs an extra, and comes from whoever has one.
    from rankcast_client.ws import Socket


class Results(Stream[ResultEvent]):
    """`async for result in food.results(id)`: the answers of a standing query as objects change and its client moves.

    Yields a `Result` with which it begins, and one whenever another answer or zone is due. With `ready` also `Ready`,
    each time that a connection has caught up. Ends when the query or its map is deleted; `gone` is true
    then. Raises and goes on over lost connections as `Watch` does.
    """

    def __init__(self, map: AsyncMap, id: str, heartbeat: float = 15.0, *, ready: bool = False) -> None:
        self._follower = ResultFollower(ready)
        super().__init__(map, id, self._follower, heartbeat)

    @property
    def answer(self) -> MapAnswer | None:
        """The present answer, None before the first."""
        return self._follower.answer


class AsyncMap(AsyncHandle[MapInfo, Query]):
    """One map: its configuration, objects, questions and standing queries. Get it from `AsyncRankcast.map`."""

    _calls = MAPS

    async def put(
        self, attributes: Mapping[str, Better | MapAttribute], bounds: Bounds, *, metric: Metric = "euclidean"
    ) -> MapInfo:
        """Make the map; a 409 if it is there and differs.

        Each attribute is "low" or "high", whichever is better, or a `MapAttribute` that has a range too, outside which
        objects are refused. Scores run over attributes in this order. `bounds` are (x0, y0, x1, y1), which no zone of a
        skyline reaches past.
        """
        wire = {name: one.wire if isinstance(one, MapAttribute) else one for name, one in attributes.items()}
        body = {"attributes": wire, "bounds": list(bounds), "metric": metric}
        return await self.client.send(MAPS.configure("PUT", self.name, body))

    # Objects

    async def put_objects(
        self, objects: Iterable[NewPlace], *, on_error: OnError = "refuse", idempotency_key: str | None = None
    ) -> Put:
        """Insert or change objects, in order, as one request, all or nothing; with `on_error="skip"` all that are good.

        More than 1,000 go as NDJSON.
        """
        call = MAPS.publish(self.name, "objects", list(objects), Put.from_json, on_error=on_error)
        return await self.client.send(call, idempotency_key)

    async def put_arrow(
        self, stream: bytes, *, on_error: OnError = "refuse", idempotency_key: str | None = None
    ) -> Put:
        """Put the rows of an Arrow IPC stream with the columns `id, x, y, <attribute>..., payload` (JSON text)."""
        call = MAPS.publish_arrow(self.name, "objects", stream, Put.from_json, on_error)
        return await self.client.send(call, idempotency_key)

    async def put_object(
        self,
        id: str,
        location: Location | None = None,
        values: Mapping[str, float] | None = None,
        payload: Any = UNSET,
    ) -> Place:
        """Insert the object or change what is given. A new one needs its location and all values."""
        return await self.client.send(calls.write_object("PUT", self.name, id, location, values, payload))

    async def patch_object(
        self,
        id: str,
        *,
        location: Location | None = None,
        values: Mapping[str, float] | None = None,
        payload: Any = UNSET,
    ) -> Place:
        """Change what is given of an existing object. `payload=None` removes its payload."""
        return await self.client.send(calls.write_object("PATCH", self.name, id, location, values, payload))

    async def object(self, id: str) -> Place:
        """The object as it is now."""
        return await self.client.send(calls.get_object(self.name, id))

    async def delete_object(self, id: str) -> int:
        """Delete the object. Return the seq."""
        return await self.client.send(calls.delete_object(self.name, id))

    async def delete_objects(self, ids: Iterable[str]) -> int:
        """Delete many; unknown ids are passed over. Return how many there were."""
        return await self.client.send(MAPS.delete_many(self.name, "objects", ids))

    def objects(self) -> AsyncIterator[Place]:
        """All objects, in order of id, fetched page by page."""
        return self.client.listing(lambda limit, cursor: calls.objects(self.name, limit, cursor))

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
        """A moving client, which sends a request only where it leaves the zone of its answer, see `AsyncMoving`."""
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
        """Make many standing queries as one request, all or nothing. `lists` asks for their answers (default: up to
        1,000)."""
        return await self.client.send(calls.add_queries(self.name, queries, lists, on_error), idempotency_key)

    async def put_query(self, id: str, question: Question, location: Location, *, ttl: float | None = None) -> Query:
        """Make the standing query or change it to this: what a client may send each time it starts."""
        return await self.client.send(
            MAPS.write_subscription("PUT", self.name, id, calls.standing(question, location), ttl)
        )

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
        """Change what is given of a standing query; its streams miss nothing. A `ttl` of None removes the time
        limit. `move` changes its location."""
        body = given(k=k, m=m, ordered=ordered, score=score)
        return await self.client.send(MAPS.write_subscription("PATCH", self.name, id, body, ttl))

    async def query(self, id: str) -> Query:
        """The standing query with its answer now, at the last location of its client."""
        return await self.client.send(MAPS.get_subscription(self.name, id))

    async def delete_query(self, id: str) -> int:
        """Delete it and end its streams. Return the seq."""
        return await self.client.send(MAPS.delete_subscription(self.name, id))

    async def delete_queries(self, ids: Iterable[str]) -> int:
        """Delete many; unknown ids are passed over. Return how many there were."""
        return await self.client.send(MAPS.delete_many(self.name, "queries", ids))

    def queries(self) -> AsyncIterator[Query]:
        """All standing queries, in order of id and without answers, fetched page by page."""
        return self.client.listing(lambda limit, cursor: MAPS.all_subscriptions(self.name, limit, cursor))

    async def move(self, id: str, location: Location) -> Moved:
        """Move the client of a standing query. Outside the zone that the service holds there is a new answer."""
        return await self.client.send(calls.move(self.name, id, location))

    async def move_many(
        self, moves: Iterable[tuple[str, Location]], *, on_error: OnError = "refuse", idempotency_key: str | None = None
    ) -> Moves:
        """Move many, in order, as one request."""
        return await self.client.send(calls.moves(self.name, list(moves), on_error), idempotency_key)

    def results(self, id: str, *, heartbeat: float = 15.0, ready: bool = False) -> Results:
        """Follow the answers of a standing query, see `Results`. `heartbeat` is the service's setting in seconds: a
        connection that is silent for three of them is given up and made again."""
        return Results(self, id, heartbeat, ready=ready)

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
        """A moving client with a standing query, whose answer follows the objects, see `MovingQuery`."""
        return MovingQuery(self, question, id, ttl=ttl, socket=socket, heartbeat=heartbeat)
