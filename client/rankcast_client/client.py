"""The asynchronous client: `AsyncRankcast`, and `AsyncBoard`, its handle of one board."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar
from weakref import WeakSet

import httpx

from rankcast_client import calls, feed_calls, map_calls, matcher_calls, relay_calls
from rankcast_client.calls import Call, End, Page
from rankcast_client.explained import Explanation, SubscriptionCost
from rankcast_client.feed_models import FeedInfo
from rankcast_client.feeds import AsyncFeed
from rankcast_client.jobs import AsyncJobs
from rankcast_client.map_models import MapInfo
from rankcast_client.maps import AsyncMap
from rankcast_client.matchers import AsyncMatcher
from rankcast_client.matches import MatcherInfo
from rankcast_client.models import (
    UNSET,
    Algorithm,
    AnyRange,
    BoardInfo,
    Entry,
    Event,
    Form,
    Messages,
    Mode,
    OnError,
    Order,
    Published,
    Ranges,
    Registered,
    Subscription,
    Unset,
    Want,
    Where,
)
from rankcast_client.relay_models import RelayInfo
from rankcast_client.relays import AsyncRelay
from rankcast_client.shapes import Shape
from rankcast_client.transport import Retry, auth_headers, send_async
from rankcast_client.watch import Stream, Watch

if TYPE_CHECKING:
    from rankcast_client.ws import Socket

T = TypeVar("T")

PAGE = 1_000


class AsyncRankcast:
    """A connection to a Rankcast service.

    `key` is an API key, if the service asks for one. Requests that meet a 503 or a broken connection are sent again as
    `retry` says; writes carry an Idempotency-Key, so that none is ever applied twice. `timeout` is that of one attempt,
    in seconds. Use it in an `async with`, or call `aclose()` in the end. Any number of tasks may share it.

    Every method raises ProblemError when the service refuses, and Unreachable when it does not answer.
    """

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8000",
        key: str | None = None,
        *,
        retry: Retry | None = None,
        timeout: float = 60.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self.key = key
        self.retry = retry or Retry()
        self.http, self.streams = (
            httpx.AsyncClient(
                base_url=self.base_url,
                headers=auth_headers(key),
                timeout=httpx.Timeout(timeout, connect=min(timeout, 10.0), pool=None),
                limits=httpx.Limits(max_connections=most, max_keepalive_connections=32),
                transport=transport,
            )
            # For every request a pool looks at each of its connections, so streams have a pool of their own.
            for most in (100, None)
        )
        self._watches: WeakSet[Stream[Any]] = WeakSet()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Closes all connections, also those of a `watch` that was left before its end."""
        for watch in tuple(self._watches):
            # One in which a task still waits cannot be closed from here.
            with suppress(RuntimeError):
                await watch.aclose()
        await self.http.aclose()
        await self.streams.aclose()

    async def send(self, call: Call[T], idempotency_key: str | None = None) -> T:
        """Sends one call, again where that is needed, and returns what its answer says."""
        return await send_async(self.http, call, self.retry, idempotency_key)

    def relay(self, name: str) -> AsyncRelay:
        """A handle of the relay with this name, whether it exists or not. Sends nothing."""
        return AsyncRelay(self, name)

    def matcher(self, name: str) -> AsyncMatcher:
        """A handle of the matcher with this name, whether it exists or not. Sends nothing."""
        return AsyncMatcher(self, name)

    def map(self, name: str) -> AsyncMap:
        """A handle of the map with this name, whether it exists or not. Sends nothing."""
        return AsyncMap(self, name)

    def feed(self, name: str) -> AsyncFeed:
        """A handle of the feed with this name, whether it exists or not. Sends nothing."""
        return AsyncFeed(self, name)

    def feeds(self) -> AsyncIterator[FeedInfo]:
        """All feeds, in order of name."""
        return self._all(feed_calls.feeds)

    def maps(self) -> AsyncIterator[MapInfo]:
        """All maps, in order of name."""
        return self._all(map_calls.maps)

    def relays(self) -> AsyncIterator[RelayInfo]:
        """All relays, in order of name."""
        return self._all(relay_calls.relays)

    def matchers(self) -> AsyncIterator[MatcherInfo]:
        """All matchers, in order of name."""
        return self._all(matcher_calls.matchers)

    def board(self, name: str) -> AsyncBoard:
        """A handle of the board with this name, whether it exists or not. Sends nothing."""
        return AsyncBoard(self, name)

    @property
    def jobs(self) -> AsyncJobs:
        """Snapshots, rebuilds and verifications of the service."""
        return AsyncJobs(self)

    def boards(self) -> AsyncIterator[BoardInfo]:
        """All boards, in order of name."""
        return self._all(calls.boards)

    def socket(self, *, heartbeat: float = 15.0) -> Socket:
        """Many subscriptions, of all resources, on one WebSocket.

        Needs the extra: `pip install rankcast-client[ws]`.
        """
        from rankcast_client.ws import Socket

        return Socket(self, heartbeat=heartbeat)

    async def ready(self) -> bool:
        """Whether the service can be used now. Does not retry and does not raise."""
        try:
            return (await self.http.get("/readyz", timeout=5.0)).status_code == 200
        except httpx.TransportError:
            return False

    async def _all(self, get: Callable[[int, str | None], Call[Page[T]]]) -> AsyncIterator[T]:
        cursor: str | None = None
        while True:
            page = await self.send(get(PAGE, cursor))
            for item in page.items:
                yield item
            cursor = page.next
            if cursor is None:
                return


class AsyncBoard:
    """One board: its configuration, objects and subscriptions. Get it from `AsyncRankcast.board`."""

    def __init__(self, client: AsyncRankcast, name: str) -> None:
        calls.segment(name)
        self.client = client
        self.name = name
        self._attributes: tuple[str, ...] | None = None

    # The board itself

    async def put(
        self,
        range_attributes: Sequence[str],
        rank: str,
        *,
        order: Order = "asc",
        ks: Iterable[int],
        algorithm: Algorithm | None = None,
        epsilon: float | None = None,
        sketch: int | None = None,
        indexed: Sequence[str] = (),
    ) -> BoardInfo:
        """Makes the board, or changes what `patch` may change; a 409 if it is there and differs otherwise.

        `rank` names the attribute that ranks, `order` says whether small ("asc") or large ("desc") values are better,
        `ks` are the list lengths that subscriptions may ask for, `indexed` the members of payloads that they may
        filter by.
        """
        call = calls.put_board(self.name, range_attributes, rank, order, ks, algorithm, epsilon, sketch, indexed)
        return await self.client.send(call)

    async def patch(
        self,
        *,
        ks: Iterable[int] | None = None,
        algorithm: Algorithm | None = None,
        epsilon: float | Unset | None = UNSET,
        sketch: int | Unset | None = UNSET,
    ) -> BoardInfo:
        """Changes what is given; None takes epsilon or the sketch away. A k that subscriptions use cannot go (409)."""
        return await self.client.send(calls.patch_board(self.name, ks, algorithm, epsilon, sketch))

    async def info(self) -> BoardInfo:
        """The configuration, and sizes in `more`."""
        info = await self.client.send(calls.board_info(self.name))
        self._attributes = info.range_attributes
        return info

    async def delete(self) -> int:
        """Deletes the board with all that is on it and ends its streams. Returns the seq."""
        return await self.client.send(calls.delete_board(self.name))

    # Objects

    async def publish(
        self,
        event: Event,
        *,
        messages: Messages = "count",
        idempotency_key: str | None = None,
    ) -> Published:
        """Applies one event, made by `upsert`, `update` or `delete`. `messages="full"` returns the tiles, too."""
        call = calls.publish(self.name, [event], "each", messages, "refuse")
        return await self.client.send(call, idempotency_key)

    async def publish_many(
        self,
        events: Iterable[Event],
        *,
        mode: Mode = "each",
        messages: Messages = "count",
        on_error: OnError = "refuse",
        idempotency_key: str | None = None,
    ) -> Published:
        """Applies events in order as one request, all or nothing; with `on_error="skip"` all that are good.

        More than 1,000 go as NDJSON, which may be large (1 GiB unless the service says otherwise).
        """
        call = calls.publish(self.name, list(events), mode, messages, on_error)
        return await self.client.send(call, idempotency_key)

    async def publish_arrow(
        self,
        stream: bytes,
        *,
        mode: Mode = "each",
        messages: Messages = "none",
        on_error: OnError = "refuse",
        idempotency_key: str | None = None,
    ) -> Published:
        """Applies the events of an Arrow IPC stream with the columns `op, id, <attribute>..., payload` (JSON text)."""
        call = calls.publish_arrow(self.name, stream, mode, messages, on_error)
        return await self.client.send(call, idempotency_key)

    async def upsert(self, id: str, values: Mapping[str, float], payload: Any = UNSET) -> Published:
        """The object has these values from now on, whether it was there or not."""
        return await self.client.send(calls.write_object("PUT", self.name, id, values, payload))

    async def update(self, id: str, values: Mapping[str, float] | None = None, payload: Any = UNSET) -> Published:
        """Changes some values of an object that is there. `payload=None` takes its payload away."""
        return await self.client.send(calls.write_object("PATCH", self.name, id, values, payload))

    async def delete_object(self, id: str) -> Published:
        """Takes the object away."""
        return await self.client.send(calls.delete_object(self.name, id))

    async def object(self, id: str) -> Entry:
        """The object as it is now."""
        return await self.client.send(calls.get_object(self.name, id))

    def objects(self) -> AsyncIterator[Entry]:
        """All objects, in order of id, fetched page by page."""
        return self.client._all(lambda limit, cursor: calls.objects(self.name, limit, cursor))

    async def top(
        self,
        l: End = None,  # noqa: E741
        r: End = None,
        k: int | None = None,
        *,
        offset: int = 0,
        where: Where | None = None,
    ) -> tuple[Entry, ...]:
        """The k best objects between l and r, both included, behind the first `offset`; unbounded where None.

        With several range attributes both are mappings by attribute. k is the largest of the board's unless given.
        `where` says what the payload must have in indexed fields.
        """
        return await self.client.send(calls.top(self.name, l, r, k, offset, where))

    async def explain(
        self, event: Event, *, algorithm: Algorithm | None = None, epsilon: float | Unset | None = UNSET
    ) -> Explanation:
        """What an event, made by `upsert`, `update` or `delete`, would do now: who hears of what, and why. Nothing is
        changed. `algorithm` and `epsilon` ask what it would do on a board painted so.
        """
        return await self.client.send(calls.explain(self.name, event, algorithm, epsilon))

    # Subscriptions

    async def register(
        self,
        range: AnyRange | None = None,
        *,
        k: int,
        offset: int = 0,
        where: Where | None = None,
        id: str | None = None,
        ttl: float | None = None,
        idempotency_key: str | None = None,
    ) -> Subscription:
        """Registers one standing question and returns it with its list. An id left out is made up.

        Its list has the ranks offset + 1 to offset + k, which must be one of the board's `ks`. With two range
        attributes, `range` may be a `Disc`, a `HalfPlane` or a `Simplex`. With a `ttl` it is deleted when for so many
        seconds no stream of it was open and no request named it. `where` says what the payload must have in indexed
        fields.
        """
        want: Want = {"k": k}
        if range is not None:
            want["range"] = range
        if offset:
            want["offset"] = offset
        if where:
            want["where"] = where
        if id is not None:
            want["id"] = id
        if ttl is not None:
            want["ttl"] = ttl
        made = await self.register_many([want], lists=True, idempotency_key=idempotency_key)
        return made.subscriptions[0]

    async def register_many(
        self,
        wants: Iterable[Want],
        *,
        lists: bool | None = None,
        on_error: OnError = "refuse",
        idempotency_key: str | None = None,
    ) -> Registered:
        """Registers many as one request, all or nothing. `lists` asks for their lists (default: up to 1,000)."""
        wants = list(wants)
        pairs = any(isinstance(want.get("range"), (tuple, list)) for want in wants)
        attributes = await self._range_attributes() if pairs else ()
        call = calls.register(self.name, wants, attributes, lists, on_error)
        return await self.client.send(call, idempotency_key)

    async def subscription(self, id: str) -> Subscription:
        """The subscription with its list now."""
        return await self.client.send(calls.get_subscription(self.name, id))

    async def explain_subscription(self, id: str) -> SubscriptionCost:
        """What the subscription costs, and how much it hears."""
        return await self.client.send(calls.explain_subscription(self.name, id))

    async def put_subscription(
        self,
        id: str,
        range: AnyRange | None = None,
        *,
        k: int,
        offset: int = 0,
        where: Where | None = None,
        ttl: float | None = None,
    ) -> Subscription:
        """Makes the subscription or changes it to this: what a client says again whenever it starts."""
        given = UNSET if ttl is None else ttl
        ranges = await self._ranges(range)
        call = calls.write_subscription("PUT", self.name, id, ranges, k, given, offset or None, where)
        return await self.client.send(call)

    async def patch_subscription(
        self,
        id: str,
        range: AnyRange | None = None,
        *,
        k: int | None = None,
        offset: int | None = None,
        where: Where | None = None,
        ttl: float | Unset | None = UNSET,
    ) -> Subscription:
        """Moves the range or changes the filter, k or the offset; its streams miss nothing. What is left out stays,
        attributes too; but a filter is given whole, and `{}` takes it away."""
        ranges = None if range is None else await self._ranges(range)
        return await self.client.send(calls.write_subscription("PATCH", self.name, id, ranges, k, ttl, offset, where))

    async def delete_subscription(self, id: str) -> int:
        """Deletes it and ends its streams. Returns the seq."""
        return await self.client.send(calls.delete_subscription(self.name, id))

    async def delete_subscriptions(self, ids: Iterable[str]) -> int:
        """Deletes many; unknown ids are passed over. Returns how many there were."""
        return await self.client.send(calls.delete_subscriptions(self.name, ids))

    def subscriptions(self) -> AsyncIterator[Subscription]:
        """All subscriptions, in order of id and without lists, fetched page by page."""
        return self.client._all(lambda limit, cursor: calls.subscriptions(self.name, limit, cursor))

    def watch(
        self,
        id: str,
        *,
        form: Form = "changes",
        heartbeat: float = 15.0,
        ready: bool = False,
        old: bool = False,
        squash: float | None = None,
    ) -> Watch:
        """Follows the list of a subscription, see `Watch`.

        `form="tiles"` keeps the list here, by the paper's subscriber protocol. `heartbeat` is the service's setting in
        seconds: a connection that is silent for three of them is given up and made again. With `ready` there is a
        `Ready` among the events each time that a connection has brought the list up to date. With `old` the changes say
        what values an object had before. With `squash` there is at most one change in so many seconds.
        """
        watch = Watch(self, id, form, heartbeat, ready=ready, old=old, squash=squash)
        self.client._watches.add(watch)
        return watch

    async def _range_attributes(self) -> tuple[str, ...]:
        return self._attributes or (await self.info()).range_attributes

    async def _ranges(self, range: AnyRange | None) -> Ranges | Shape:
        if range is None or isinstance(range, (Mapping, Shape)):
            return range or {}
        return calls.ranges_of(range, await self._range_attributes())
