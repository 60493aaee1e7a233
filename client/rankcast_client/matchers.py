"""One matcher: requests, and the stream of a subscription."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rankcast_client import matcher_calls as calls
from rankcast_client._base import AsyncSubscriptions, Stream
from rankcast_client.calls import given
from rankcast_client.matcher_calls import MATCHERS
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


class Wins(Stream[WinEvent]):
    """`async for win in matcher.wins(id)`: the events that a subscription won, as matches with `notify` publish them.

    Yields a `Win` for each, and `Missed` where some may be missing: after a connection that was lost for more
    than the service keeps, or a reader that was too slow. With `ready` also `Ready`, each time that a connection has
    caught up. Ends when the subscription or its matcher is deleted; `gone` is true then. Raises and goes
    on over lost connections as `Watch` does.
    """


class AsyncMatcher(AsyncSubscriptions[MatcherInfo, Interest]):
    """One matcher: its configuration, subscriptions and matches. Get it from `AsyncRankcast.matcher`."""

    _calls = MATCHERS

    async def put(
        self,
        dimensions: Sequence[str],
        mode: MatchMode,
        *,
        combine: Combine | None = None,
        index: MatcherIndex | None = None,
    ) -> MatcherInfo:
        """Make the matcher; a 409 if it is there and differs.

        In mode "exact" a subscription matches when all of its intervals do, and has one score. In mode "relaxed" it
        matches when one of them does, and has a weight for each; `combine` says how those that match make a score.
        """
        body = {"dimensions": list(dimensions), "mode": mode, **given(combine=combine, index=index)}
        return await self.client.send(MATCHERS.configure("PUT", self.name, body))

    async def register_many(
        self, interests: Iterable[NewInterest], *, on_error: OnError = "refuse", idempotency_key: str | None = None
    ) -> Interests:
        """Register many subscriptions as one request, all or nothing; with `on_error="skip"` all that are good."""
        return await self.client.send(calls.register(self.name, interests, on_error), idempotency_key)

    async def register_arrow(
        self, stream: bytes, *, on_error: OnError = "refuse", idempotency_key: str | None = None
    ) -> Interests:
        """Register the rows of an Arrow IPC stream with the columns `id, score, <dimension>_min, <dimension>_max,
        <dimension>_weight`."""
        call = MATCHERS.publish_arrow(self.name, "subscriptions", stream, Interests.from_json, on_error)
        return await self.client.send(call, idempotency_key)

    async def put_subscription(
        self,
        id: str,
        intervals: Mapping[str, Pair],
        *,
        weights: Mapping[str, float] | None = None,
        score: float | None = None,
        ttl: float | None = None,
    ) -> Interest:
        """Make the subscription or change it to this: what a client may send each time it starts."""
        fields = calls.interest_fields(intervals, weights, score)
        return await self.client.send(MATCHERS.write_subscription("PUT", self.name, id, fields, ttl))

    async def patch_subscription(
        self,
        id: str,
        *,
        intervals: Mapping[str, Pair | None] | None = None,
        weights: Mapping[str, float | None] | None = None,
        score: float | None = None,
        ttl: float | Unset | None = UNSET,
    ) -> Interest:
        """Change what is given, by dimension; None takes a dimension out with its weight."""
        fields = calls.interest_fields(intervals, weights, score)
        return await self.client.send(MATCHERS.write_subscription("PATCH", self.name, id, fields, ttl))

    async def match(
        self, values: Mapping[str, EventValue], *, k: int | None = None, notify: bool = False
    ) -> tuple[Winner, ...]:
        """The k best subscriptions for one event (20 by default). With `notify` it is sent to their open streams."""
        matched = await self.match_many([{"values": values}], k=k, notify=notify)
        return matched.results[0].winners

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
        and sends them to the winners' open streams, at most 50,000 winners, events times k."""
        call = calls.match(self.name, list(events), k, explain, notify, on_error)
        return await self.client.send(call, idempotency_key)

    def wins(self, id: str, *, heartbeat: float = 15.0, ready: bool = False) -> Wins:
        """Follow what a subscription wins, see `Wins`. `heartbeat` is the service's setting in seconds: a connection
        that is silent for three of them is given up and made again."""
        return Wins(self, id, follow_wins(ready), heartbeat)
