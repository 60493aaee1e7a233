"""Handles of one matcher: `AsyncMatcher` and, for scripts, `Matcher`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rankcast_client import matcher_calls as calls
from rankcast_client.calls import segment
from rankcast_client.matches import (
    Combine,
    EventValue,
    Interest,
    Interests,
    Matched,
    MatcherIndex,
    MatcherInfo,
    MatchEvent,
    MatchMode,
    NewInterest,
    WinEvent,
    Winner,
    follow_wins,
)
from rankcast_client.models import UNSET, OnError, Pair, Unset
from rankcast_client.watch import Stream

if TYPE_CHECKING:
    from rankcast_client.client import AsyncRankcast
    from rankcast_client.sync import Rankcast


class Wins(Stream[WinEvent]):
    """`async for win in matcher.wins(id)`: the events that a subscription won, as matches with `notify` tell of them.

    Yields a `Win` for each, and `Missed` where some may not have been told: after a connection that was lost for more
    than the service keeps, or a reader that was too slow. With `ready` also `Ready`, each time that a connection has
    told all that there was. Ends when the subscription or its matcher is deleted; `gone` is true then. Raises and goes
    on over lost connections as `Watch` does.
    """

    def __init__(self, matcher: AsyncMatcher, id: str, heartbeat: float = 15.0, *, ready: bool = False) -> None:
        self.id = id
        path = calls.matcher_path(matcher.name, "subscriptions", segment(id), "stream")
        super().__init__(matcher.client, path, follow_wins(ready), heartbeat)


class AsyncMatcher:
    """One matcher: its configuration, subscriptions and matches. Get it from `AsyncRankcast.matcher`."""

    def __init__(self, client: AsyncRankcast, name: str) -> None:
        segment(name)
        self.client = client
        self.name = name

    async def put(
        self,
        dimensions: Sequence[str],
        mode: MatchMode,
        *,
        combine: Combine | None = None,
        index: MatcherIndex | None = None,
    ) -> MatcherInfo:
        """Makes the matcher; a 409 if it is there and differs.

        In mode "exact" a subscription matches when all of its intervals do, and has one score. In mode "relaxed" it
        matches when one of them does, and has a weight for each; `combine` says how those that match make a score.
        """
        return await self.client.send(calls.put_matcher(self.name, dimensions, mode, combine, index))

    async def info(self) -> MatcherInfo:
        """The configuration, and how many subscriptions there are."""
        return await self.client.send(calls.matcher_info(self.name))

    async def delete(self) -> int:
        """Deletes the matcher with all that is in it and ends its streams. Returns the seq."""
        return await self.client.send(calls.delete_matcher(self.name))

    async def register_many(
        self, interests: Iterable[NewInterest], *, on_error: OnError = "refuse", idempotency_key: str | None = None
    ) -> Interests:
        """Registers many subscriptions as one request, all or nothing; with `on_error="skip"` all that are good."""
        return await self.client.send(calls.register(self.name, interests, on_error), idempotency_key)

    async def register_arrow(
        self, stream: bytes, *, on_error: OnError = "refuse", idempotency_key: str | None = None
    ) -> Interests:
        """Registers the rows of an Arrow IPC stream with the columns `id, score, <dimension>_min, <dimension>_max,
        <dimension>_weight`."""
        return await self.client.send(calls.register_arrow(self.name, stream, on_error), idempotency_key)

    async def put_subscription(
        self,
        id: str,
        intervals: Mapping[str, Pair],
        *,
        weights: Mapping[str, float] | None = None,
        score: float | None = None,
        ttl: float | None = None,
    ) -> Interest:
        """Makes the subscription or changes it to this: what a client says again whenever it starts."""
        given = UNSET if ttl is None else ttl
        return await self.client.send(calls.write_interest("PUT", self.name, id, intervals, weights, score, given))

    async def patch_subscription(
        self,
        id: str,
        *,
        intervals: Mapping[str, Pair | None] | None = None,
        weights: Mapping[str, float | None] | None = None,
        score: float | None = None,
        ttl: float | Unset | None = UNSET,
    ) -> Interest:
        """Changes what is given, by dimension; None takes a dimension out with its weight."""
        return await self.client.send(calls.write_interest("PATCH", self.name, id, intervals, weights, score, ttl))

    async def subscription(self, id: str) -> Interest:
        """The subscription as it is now."""
        return await self.client.send(calls.get_interest(self.name, id))

    async def delete_subscription(self, id: str) -> int:
        """Deletes it and ends its streams. Returns the seq."""
        return await self.client.send(calls.delete_interest(self.name, id))

    async def delete_subscriptions(self, ids: Iterable[str]) -> int:
        """Deletes many; unknown ids are passed over. Returns how many there were."""
        return await self.client.send(calls.delete_interests(self.name, ids))

    def subscriptions(self) -> AsyncIterator[Interest]:
        """All subscriptions, in order of id, fetched page by page."""
        return self.client._all(lambda limit, cursor: calls.interests(self.name, limit, cursor))

    async def match(
        self, values: Mapping[str, EventValue], *, k: int | None = None, notify: bool = False
    ) -> tuple[Winner, ...]:
        """The k best subscriptions for one event (20 unless said). With `notify` their open streams are told."""
        return (await self.match_many([{"values": values}], k=k, notify=notify)).results[0].winners

    async def match_many(
        self,
        events: Iterable[MatchEvent],
        *,
        k: int | None = None,
        explain: bool = False,
        notify: bool = False,
        on_error: OnError = "refuse",
        idempotency_key: str | None = None,
    ) -> Matched:
        """The k best subscriptions for each event. `explain` says which dimensions matched, `notify` logs the events
        and tells the winners' open streams; it takes at most 50,000 winners, events times k."""
        call = calls.match(self.name, list(events), k, explain, notify, on_error)
        return await self.client.send(call, idempotency_key)

    def wins(self, id: str, *, heartbeat: float = 15.0, ready: bool = False) -> Wins:
        """Follows what a subscription wins, see `Wins`. `heartbeat` is the service's setting in seconds: a connection
        that is silent for three of them is given up and made again."""
        stream = Wins(self, id, heartbeat, ready=ready)
        self.client._watches.add(stream)
        return stream


class Matcher:
    """One matcher. Each method means what it means on `AsyncMatcher`; following wins is the asynchronous client's."""

    def __init__(self, client: Rankcast, name: str) -> None:
        segment(name)
        self.client = client
        self.name = name

    def put(
        self,
        dimensions: Sequence[str],
        mode: MatchMode,
        *,
        combine: Combine | None = None,
        index: MatcherIndex | None = None,
    ) -> MatcherInfo:
        """Makes the matcher; a 409 if it is there and differs."""
        return self.client.send(calls.put_matcher(self.name, dimensions, mode, combine, index))

    def info(self) -> MatcherInfo:
        """The configuration, and how many subscriptions there are."""
        return self.client.send(calls.matcher_info(self.name))

    def delete(self) -> int:
        """Deletes the matcher with all that is in it."""
        return self.client.send(calls.delete_matcher(self.name))

    def register_many(
        self, interests: Iterable[NewInterest], *, on_error: OnError = "refuse", idempotency_key: str | None = None
    ) -> Interests:
        """Registers many subscriptions as one request, all or nothing."""
        return self.client.send(calls.register(self.name, interests, on_error), idempotency_key)

    def register_arrow(
        self, stream: bytes, *, on_error: OnError = "refuse", idempotency_key: str | None = None
    ) -> Interests:
        """Registers the rows of an Arrow IPC stream."""
        return self.client.send(calls.register_arrow(self.name, stream, on_error), idempotency_key)

    def put_subscription(
        self,
        id: str,
        intervals: Mapping[str, Pair],
        *,
        weights: Mapping[str, float] | None = None,
        score: float | None = None,
        ttl: float | None = None,
    ) -> Interest:
        """Makes the subscription or changes it to this."""
        given = UNSET if ttl is None else ttl
        return self.client.send(calls.write_interest("PUT", self.name, id, intervals, weights, score, given))

    def patch_subscription(
        self,
        id: str,
        *,
        intervals: Mapping[str, Pair | None] | None = None,
        weights: Mapping[str, float | None] | None = None,
        score: float | None = None,
        ttl: float | Unset | None = UNSET,
    ) -> Interest:
        """Changes what is given, by dimension."""
        return self.client.send(calls.write_interest("PATCH", self.name, id, intervals, weights, score, ttl))

    def subscription(self, id: str) -> Interest:
        """The subscription as it is now."""
        return self.client.send(calls.get_interest(self.name, id))

    def delete_subscription(self, id: str) -> int:
        """Deletes it and ends its streams."""
        return self.client.send(calls.delete_interest(self.name, id))

    def subscriptions(self) -> Iterator[Interest]:
        """All subscriptions, in order of id, fetched page by page."""
        return self.client._all(lambda limit, cursor: calls.interests(self.name, limit, cursor))

    def match(
        self, values: Mapping[str, EventValue], *, k: int | None = None, notify: bool = False
    ) -> tuple[Winner, ...]:
        """The k best subscriptions for one event."""
        return self.match_many([{"values": values}], k=k, notify=notify).results[0].winners

    def match_many(
        self,
        events: Iterable[MatchEvent],
        *,
        k: int | None = None,
        explain: bool = False,
        notify: bool = False,
        on_error: OnError = "refuse",
        idempotency_key: str | None = None,
    ) -> Matched:
        """The k best subscriptions for each event."""
        call = calls.match(self.name, list(events), k, explain, notify, on_error)
        return self.client.send(call, idempotency_key)
