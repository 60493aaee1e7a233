"""One feed: requests, and the stream of a subscription."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

from rankcast_client import feed_calls as calls
from rankcast_client._base import AsyncSubscriptions, Stream
from rankcast_client.calls import given
from rankcast_client.feed_calls import FEEDS, wire
from rankcast_client.feed_models import (
    Buffer,
    FeedEvent,
    FeedFollower,
    FeedInfo,
    FeedPost,
    FeedSubscription,
    FeedSubscriptions,
    Keywords,
    NewFeedSubscription,
    NewPost,
    Posted,
    PostReached,
    Weighting,
)
from rankcast_client.models import UNSET, OnError, Unset
from rankcast_client.zones import Location


class FeedWatch(Stream[FeedEvent]):
    """`async for change in feed.watch(id)`: the list of one subscription as it changes.

    Yields a `FeedSnapshot`, then a `FeedChange` for everything that changes the list, and a `FeedReset` after a gap.
    `list` is the whole list at that moment. With `ready` it yields a `Ready` too, each time that a connection has
    caught up. Ends when the subscription or its feed is deleted; `gone` is true then. Raises and goes
    on over lost connections as `Watch` does.
    """

    def __init__(self, feed: AsyncFeed, id: str, heartbeat: float = 15.0, *, ready: bool = False) -> None:
        self._follower = FeedFollower(ready)
        super().__init__(feed, id, self._follower, heartbeat)

    @property
    def list(self) -> tuple[FeedPost, ...]:
        """The present list, best first."""
        return self._follower.posts

    @property
    def seq(self) -> int | None:
        """The feed's seq at which the list last changed, None before the snapshot."""
        return self._follower.seq


class AsyncFeed(AsyncSubscriptions[FeedInfo, FeedSubscription]):
    """One feed: its configuration, posts and subscriptions. Get it from `AsyncRankcast.feed`."""

    _calls = FEEDS

    async def put(
        self,
        bounds: Sequence[float],
        *,
        window: int | None = None,
        seconds: float | None = None,
        weighting: Weighting | None = None,
        buffer: Buffer | None = None,
        stop_words: Iterable[str] | None = None,
    ) -> FeedInfo:
        """Make the feed; a 409 if it is there and differs. `bounds` is `[x0, y0, x1, y1]`.

        Its window is the newest `window` posts, or those of the last so many `seconds`: one of the two. Words weigh by
        how rare they are ("tfidf") or as they are "given"; `stop_words` are what texts are read without.
        """
        if (window is None) == (seconds is None):
            raise ValueError("a window is a number of posts, or so many seconds: give one of the two")
        words = None if stop_words is None else list(stop_words)
        body = {
            "window": {"seconds": seconds} if window is None else window,
            "bounds": list(bounds),
            **given(weighting=weighting, buffer=buffer, stop_words=words),
        }
        return await self.client.send(FEEDS.configure("PUT", self.name, body))

    # Posts

    async def post(
        self,
        location: Location,
        keywords: Keywords | None = None,
        *,
        text: str | None = None,
        id: str | None = None,
        payload: Any = None,
        idempotency_key: str | None = None,
    ) -> PostReached:
        """Post one, with `keywords` or a `text`. Return its id, generated if none is given, and how many lists it
        reached."""
        one: Any = given(id=id, location=location, keywords=keywords, text=text, payload=payload)
        posted = await self.post_many([one], idempotency_key=idempotency_key)
        return posted.results[0]

    async def post_many(
        self, posts: Iterable[NewPost], *, on_error: OnError = "refuse", idempotency_key: str | None = None
    ) -> Posted:
        """Post many in order as one request, all or nothing; with `on_error="skip"` all that are good.

        More than 1,000 go as NDJSON, which may be large (1 GiB unless the service says otherwise).
        """
        call = FEEDS.publish(self.name, "posts", [wire(one) for one in posts], Posted.from_json, on_error=on_error)
        return await self.client.send(call, idempotency_key)

    async def post_arrow(
        self, stream: bytes, *, on_error: OnError = "refuse", idempotency_key: str | None = None
    ) -> Posted:
        """Post the rows of an Arrow IPC stream with the columns `id, x, y, text` or `keywords` (lists) with `weights`
        (lists), and `payload` (JSON text)."""
        call = FEEDS.publish_arrow(self.name, "posts", stream, Posted.from_json, on_error)
        return await self.client.send(call, idempotency_key)

    async def get_post(self, id: str) -> FeedPost:
        """A post of the window."""
        return await self.client.send(calls.get_post(self.name, id))

    def posts(self) -> AsyncIterator[FeedPost]:
        """All posts of the window, in order of id, fetched page by page."""
        return self.client.listing(lambda limit, cursor: calls.posts(self.name, limit, cursor))

    async def withdraw(self, id: str) -> int:
        """Withdraw a post from the window: lists that had it get the next best. Return the seq."""
        return await self.client.send(calls.withdraw(self.name, id))

    # Subscriptions

    async def register(
        self,
        location: Location,
        keywords: Keywords | None = None,
        *,
        text: str | None = None,
        k: int | None = None,
        alpha: float | None = None,
        id: str | None = None,
        ttl: float | None = None,
        idempotency_key: str | None = None,
    ) -> FeedSubscription:
        """Register one subscription and return it with its list. Without an `id` one is generated.

        It wants the `k` best posts (10 by default) that share one of its `keywords`, or of the words of its `text`;
        `alpha`, from 0 to 1 (0.5 by default), is how much nearness counts. With a `ttl` it is deleted when for so many
        seconds no stream of it was open and no request named it.
        """
        want: Any = given(id=id, location=location, keywords=keywords, text=text, k=k, alpha=alpha, ttl=ttl)
        made = await self.register_many([want], lists=True, idempotency_key=idempotency_key)
        return made.subscriptions[0]

    async def register_many(
        self,
        wants: Iterable[NewFeedSubscription],
        *,
        lists: bool | None = None,
        on_error: OnError = "refuse",
        idempotency_key: str | None = None,
    ) -> FeedSubscriptions:
        """Register many as one request, all or nothing. `lists` asks for their lists (default: up to 1,000)."""
        elements = [wire(want) for want in wants]
        read = FeedSubscriptions.from_json
        call = FEEDS.publish(self.name, "subscriptions", elements, read, on_error=on_error, lists=lists)
        return await self.client.send(call, idempotency_key)

    async def register_arrow(
        self, stream: bytes, *, on_error: OnError = "refuse", idempotency_key: str | None = None
    ) -> FeedSubscriptions:
        """Register the rows of an Arrow IPC stream: the columns of posts but `payload`, and `k, alpha, ttl`. Returns no
        lists."""
        read = FeedSubscriptions.from_json
        call = FEEDS.publish_arrow(self.name, "subscriptions", stream, read, on_error, lists="false")
        return await self.client.send(call, idempotency_key)

    async def put_subscription(
        self,
        id: str,
        location: Location,
        keywords: Keywords | None = None,
        *,
        text: str | None = None,
        k: int | None = None,
        alpha: float | None = None,
        ttl: float | None = None,
    ) -> FeedSubscription:
        """Make the subscription or change it to this: what a client may send each time it starts."""
        body = wire(given(location=location, keywords=keywords, text=text, k=k, alpha=alpha))
        return await self.client.send(FEEDS.write_subscription("PUT", self.name, id, body, ttl))

    async def patch_subscription(
        self,
        id: str,
        *,
        location: Location | None = None,
        keywords: Keywords | None = None,
        text: str | None = None,
        k: int | None = None,
        alpha: float | None = None,
        ttl: float | Unset | None = UNSET,
    ) -> FeedSubscription:
        """Change what is given; its streams miss nothing. Keywords are given whole."""
        body = wire(given(location=location, keywords=keywords, text=text, k=k, alpha=alpha))
        return await self.client.send(FEEDS.write_subscription("PATCH", self.name, id, body, ttl))

    def watch(self, id: str, *, heartbeat: float = 15.0, ready: bool = False) -> FeedWatch:
        """Follow the list of a subscription, see `FeedWatch`. `heartbeat` is the service's setting in seconds: a
        connection that is silent for three of them is given up and made again."""
        return FeedWatch(self, id, heartbeat, ready=ready)
