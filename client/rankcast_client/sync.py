"""The synchronous client, for scripts: publish, register, ask. Following lists is the asynchronous client's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx

from rankcast_client import calls, feed_calls, map_calls, matcher_calls, relay_calls
from rankcast_client.calls import Call, End, Page
from rankcast_client.explained import Explanation, SubscriptionCost
from rankcast_client.feed_models import FeedInfo
from rankcast_client.feeds import Feed
from rankcast_client.jobs import Jobs
from rankcast_client.map_models import MapInfo
from rankcast_client.maps import Map
from rankcast_client.matchers import Matcher
from rankcast_client.matches import MatcherInfo
from rankcast_client.models import (
    UNSET,
    Algorithm,
    AnyRange,
    BoardInfo,
    Entry,
    Event,
    Messages,
    Mode,
    OnError,
    Order,
    Published,
    Registered,
    Subscription,
    Unset,
    Want,
    Where,
)
from rankcast_client.relay_models import RelayInfo
from rankcast_client.relays import Relay
from rankcast_client.transport import Retry, auth_headers, send

T = TypeVar("T")

PAGE = 1_000


class Rankcast:
    """A connection to a Rankcast service. Retries and errors as with `AsyncRankcast`; use it in a `with`."""

    def __init__(
        self,
        base_url: str = "http://127.0.0.1:8000",
        key: str | None = None,
        *,
        retry: Retry | None = None,
        timeout: float = 60.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.base_url = base_url.rstrip("/")
        self.retry = retry or Retry()
        self.http = httpx.Client(
            base_url=self.base_url,
            headers=auth_headers(key),
            timeout=httpx.Timeout(timeout, connect=min(timeout, 10.0)),
            transport=transport,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes all connections."""
        self.http.close()

    def send(self, call: Call[T], idempotency_key: str | None = None) -> T:
        """Sends one call, again where that is needed, and returns what its answer says."""
        return send(self.http, call, self.retry, idempotency_key)

    def relay(self, name: str) -> Relay:
        """A handle of the relay with this name, whether it exists or not. Sends nothing."""
        return Relay(self, name)

    def matcher(self, name: str) -> Matcher:
        """A handle of the matcher with this name, whether it exists or not. Sends nothing."""
        return Matcher(self, name)

    def map(self, name: str) -> Map:
        """A handle of the map with this name, whether it exists or not. Sends nothing."""
        return Map(self, name)

    def feed(self, name: str) -> Feed:
        """A handle of the feed with this name, whether it exists or not. Sends nothing."""
        return Feed(self, name)

    def board(self, name: str) -> Board:
        """A handle of the board with this name, whether it exists or not. Sends nothing."""
        return Board(self, name)

    def boards(self) -> Iterator[BoardInfo]:
        """All boards, in order of name."""
        return self._all(calls.boards)

    def matchers(self) -> Iterator[MatcherInfo]:
        """All matchers, in order of name."""
        return self._all(matcher_calls.matchers)

    def relays(self) -> Iterator[RelayInfo]:
        """All relays, in order of name."""
        return self._all(relay_calls.relays)

    def maps(self) -> Iterator[MapInfo]:
        """All maps, in order of name."""
        return self._all(map_calls.maps)

    def feeds(self) -> Iterator[FeedInfo]:
        """All feeds, in order of name."""
        return self._all(feed_calls.feeds)

    @property
    def jobs(self) -> Jobs:
        """Snapshots, rebuilds and verifications of the service."""
        return Jobs(self)

    def _all(self, get: Callable[[int, str | None], Call[Page[T]]]) -> Iterator[T]:
        cursor: str | None = None
        while True:
            page = self.send(get(PAGE, cursor))
            yield from page.items
            cursor = page.next
            if cursor is None:
                return


class Board:
    """One board. Each method means what it means on `AsyncBoard`."""

    def __init__(self, client: Rankcast, name: str) -> None:
        calls.segment(name)
        self.client = client
        self.name = name

    def put(
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
        """Makes the board, or changes what `patch` may change."""
        call = calls.put_board(self.name, range_attributes, rank, order, ks, algorithm, epsilon, sketch, indexed)
        return self.client.send(call)

    def info(self) -> BoardInfo:
        """The configuration, and sizes in `more`."""
        return self.client.send(calls.board_info(self.name))

    def delete(self) -> int:
        """Deletes the board with all that is on it and ends its streams. Returns the seq."""
        return self.client.send(calls.delete_board(self.name))

    def publish(self, event: Event, *, messages: Messages = "count", idempotency_key: str | None = None) -> Published:
        """Applies one event."""
        return self.publish_many([event], messages=messages, idempotency_key=idempotency_key)

    def publish_many(
        self,
        events: Iterable[Event],
        *,
        mode: Mode = "each",
        messages: Messages = "count",
        on_error: OnError = "refuse",
        idempotency_key: str | None = None,
    ) -> Published:
        """Applies events in order as one request, all or nothing."""
        return self.client.send(calls.publish(self.name, list(events), mode, messages, on_error), idempotency_key)

    def publish_arrow(
        self,
        stream: bytes,
        *,
        mode: Mode = "each",
        messages: Messages = "none",
        on_error: OnError = "refuse",
        idempotency_key: str | None = None,
    ) -> Published:
        """Applies the events of an Arrow IPC stream with the columns `op, id, <attribute>..., payload` (JSON text)."""
        return self.client.send(calls.publish_arrow(self.name, stream, mode, messages, on_error), idempotency_key)

    def upsert(self, id: str, values: Mapping[str, float], payload: Any = UNSET) -> Published:
        """The object has these values from now on, whether it was there or not."""
        return self.client.send(calls.write_object("PUT", self.name, id, values, payload))

    def update(self, id: str, values: Mapping[str, float] | None = None, payload: Any = UNSET) -> Published:
        """Changes some values of an object that is there."""
        return self.client.send(calls.write_object("PATCH", self.name, id, values, payload))

    def delete_object(self, id: str) -> Published:
        """Takes the object away."""
        return self.client.send(calls.delete_object(self.name, id))

    def object(self, id: str) -> Entry:
        """The object as it is now."""
        return self.client.send(calls.get_object(self.name, id))

    def top(
        self,
        l: End = None,  # noqa: E741
        r: End = None,
        k: int | None = None,
        *,
        offset: int = 0,
        where: Where | None = None,
    ) -> tuple[Entry, ...]:
        """The k best objects between l and r, both included, behind the first `offset`."""
        return self.client.send(calls.top(self.name, l, r, k, offset, where))

    def explain(
        self, event: Event, *, algorithm: Algorithm | None = None, epsilon: float | Unset | None = UNSET
    ) -> Explanation:
        """What an event would do now. Nothing is changed."""
        return self.client.send(calls.explain(self.name, event, algorithm, epsilon))

    def register(
        self,
        range: AnyRange | None = None,
        *,
        k: int,
        offset: int = 0,
        where: Where | None = None,
        id: str | None = None,
        ttl: float | None = None,
    ) -> Subscription:
        """Registers one standing question and returns it with its list."""
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
        return self.register_many([want], lists=True).subscriptions[0]

    def register_many(
        self,
        wants: Iterable[Want],
        *,
        lists: bool | None = None,
        on_error: OnError = "refuse",
        idempotency_key: str | None = None,
    ) -> Registered:
        """Registers many as one request, all or nothing."""
        wants = list(wants)
        pairs = any(isinstance(want.get("range"), (tuple, list)) for want in wants)
        attributes = self.info().range_attributes if pairs else ()
        return self.client.send(calls.register(self.name, wants, attributes, lists, on_error), idempotency_key)

    def subscription(self, id: str) -> Subscription:
        """The subscription with its list now."""
        return self.client.send(calls.get_subscription(self.name, id))

    def delete_subscription(self, id: str) -> int:
        """Deletes it and ends its streams. Returns the seq."""
        return self.client.send(calls.delete_subscription(self.name, id))

    def explain_subscription(self, id: str) -> SubscriptionCost:
        """What the subscription costs, and how much it hears."""
        return self.client.send(calls.explain_subscription(self.name, id))

    def subscriptions(self) -> Iterator[Subscription]:
        """All subscriptions, in order of id and without lists, fetched page by page."""
        return self.client._all(lambda limit, cursor: calls.subscriptions(self.name, limit, cursor))
