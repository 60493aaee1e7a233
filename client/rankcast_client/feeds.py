"""Handles of one feed: `AsyncFeed` and, for scripts, `Feed`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from rankcast_client import feed_calls as calls
from rankcast_client.calls import segment
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
from rankcast_client.watch import Stream
from rankcast_client.zones import Location

if TYPE_CHECKING:
    from rankcast_client.client import AsyncRankcast
    from rankcast_client.sync import Rankcast


class FeedWatch(Stream[FeedEvent]):
    """`async for change in feed.watch(id)`: the list of one subscription as it changes.

    Yields a `FeedSnapshot`, then a `FeedChange` for everything that changes the list, and a `FeedReset` after a gap.
    `list` is the whole list at that moment. With `ready` it yields a `Ready` too, each time that a connection has
    brought the list up to date. Ends when the subscription or its feed is deleted; `gone` is true then. Raises and goes
    on over lost connections as `Watch` does.
    """

    def __init__(self, feed: AsyncFeed, id: str, heartbeat: float = 15.0, *, ready: bool = False) -> None:
        self.id = id
        self._follower = FeedFollower(ready)
        path = calls.feed_path(feed.name, "subscriptions", segment(id), "stream")
        super().__init__(feed.client, path, self._follower, heartbeat)

    @property
    def list(self) -> tuple[FeedPost, ...]:
        """The present list, best first."""
        return self._follower.posts

    @property
    def seq(self) -> int | None:
        """The feed's seq at which the list last changed, None before the snapshot."""
        return self._follower.seq


class AsyncFeed:
    """One feed: its configuration, posts and subscriptions. Get it from `AsyncRankcast.feed`."""

    def __init__(self, client: AsyncRankcast, name: str) -> None:
        segment(name)
        self.client = client
        self.name = name

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
        """Makes the feed; a 409 if it is there and differs. `bounds` is `[x0, y0, x1, y1]`.

        Its window is the newest `window` posts, or those of the last so many `seconds`: one of the two. Words weigh by
        how rare they are ("tfidf") or as they are "given"; `stop_words` are what texts are read without.
        """
        call = calls.put_feed(self.name, bounds, window, seconds, weighting, buffer, stop_words)
        return await self.client.send(call)

    async def info(self) -> FeedInfo:
        """The configuration, and how many posts and subscriptions there are."""
        return await self.client.send(calls.feed_info(self.name))

    async def delete(self) -> int:
        """Deletes the feed with all that is in it and ends its streams. Returns the seq."""
        return await self.client.send(calls.delete_feed(self.name))

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
        """Posts one, with `keywords` or a `text`. Returns its id, made up if none is given, and how many lists it
        reached."""
        given = {"id": id, "location": location, "keywords": keywords, "text": text, "payload": payload}
        one: Any = {name: value for name, value in given.items() if value is not None}
        return (await self.post_many([one], idempotency_key=idempotency_key)).results[0]

    async def post_many(
        self, posts: Iterable[NewPost], *, on_error: OnError = "refuse", idempotency_key: str | None = None
    ) -> Posted:
        """Posts many in order as one request, all or nothing; with `on_error="skip"` all that are good.

        More than 1,000 go as NDJSON, which may be large (1 GiB unless the service says otherwise).
        """
        return await self.client.send(calls.post(self.name, posts, on_error), idempotency_key)

    async def post_arrow(
        self, stream: bytes, *, on_error: OnError = "refuse", idempotency_key: str | None = None
    ) -> Posted:
        """Posts the rows of an Arrow IPC stream with the columns `id, x, y, text` or `keywords` (lists) with `weights`
        (lists), and `payload` (JSON text)."""
        return await self.client.send(calls.post_arrow(self.name, stream, on_error), idempotency_key)

    async def get_post(self, id: str) -> FeedPost:
        """A post of the window."""
        return await self.client.send(calls.get_post(self.name, id))

    def posts(self) -> AsyncIterator[FeedPost]:
        """All posts of the window, in order of id, fetched page by page."""
        return self.client._all(lambda limit, cursor: calls.posts(self.name, limit, cursor))

    async def withdraw(self, id: str) -> int:
        """Takes a post out of the window: whoever had it in a list gets the next best. Returns the seq."""
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
        """Registers one standing question and returns it with its list. An id left out is made up.

        It wants the `k` best posts (10 unless said) that share one of its `keywords`, or of the words of its `text`;
        `alpha`, from 0 to 1 (0.5 unless said), is how much nearness counts. With a `ttl` it is deleted when for so many
        seconds no stream of it was open and no request named it.
        """
        given = {
            "id": id,
            "location": location,
            "keywords": keywords,
            "text": text,
            "k": k,
            "alpha": alpha,
            "ttl": ttl,
        }
        want: Any = {name: value for name, value in given.items() if value is not None}
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
        """Registers many as one request, all or nothing. `lists` asks for their lists (default: up to 1,000)."""
        return await self.client.send(calls.register(self.name, wants, lists, on_error), idempotency_key)

    async def register_arrow(
        self, stream: bytes, *, on_error: OnError = "refuse", idempotency_key: str | None = None
    ) -> FeedSubscriptions:
        """Registers the rows of an Arrow IPC stream: the columns of posts but `payload`, and `k, alpha, ttl`. Lists are
        not answered."""
        return await self.client.send(calls.register_arrow(self.name, stream, on_error), idempotency_key)

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
        """Makes the subscription or changes it to this: what a client says again whenever it starts."""
        given = UNSET if ttl is None else ttl
        call = calls.write_subscription("PUT", self.name, id, keywords, text, location, k, alpha, given)
        return await self.client.send(call)

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
        """Changes what is given; its streams miss nothing. Keywords are given whole."""
        call = calls.write_subscription("PATCH", self.name, id, keywords, text, location, k, alpha, ttl)
        return await self.client.send(call)

    async def subscription(self, id: str) -> FeedSubscription:
        """The subscription with its list now."""
        return await self.client.send(calls.get_subscription(self.name, id))

    async def delete_subscription(self, id: str) -> int:
        """Deletes it and ends its streams. Returns the seq."""
        return await self.client.send(calls.delete_subscription(self.name, id))

    async def delete_subscriptions(self, ids: Iterable[str]) -> int:
        """Deletes many; unknown ids are passed over. Returns how many there were."""
        return await self.client.send(calls.delete_subscriptions(self.name, ids))

    def subscriptions(self) -> AsyncIterator[FeedSubscription]:
        """All subscriptions, in order of id and without lists, fetched page by page."""
        return self.client._all(lambda limit, cursor: calls.subscriptions(self.name, limit, cursor))

    def watch(self, id: str, *, heartbeat: float = 15.0, ready: bool = False) -> FeedWatch:
        """Follows the list of a subscription, see `FeedWatch`. `heartbeat` is the service's setting in seconds: a
        connection that is silent for three of them is given up and made again."""
        watch = FeedWatch(self, id, heartbeat, ready=ready)
        self.client._watches.add(watch)
        return watch


class Feed:
    """One feed. Each method means what it means on `AsyncFeed`; following lists is the asynchronous client's."""

    def __init__(self, client: Rankcast, name: str) -> None:
        segment(name)
        self.client = client
        self.name = name

    def put(
        self,
        bounds: Sequence[float],
        *,
        window: int | None = None,
        seconds: float | None = None,
        weighting: Weighting | None = None,
        buffer: Buffer | None = None,
        stop_words: Iterable[str] | None = None,
    ) -> FeedInfo:
        """Makes the feed; a 409 if it is there and differs. `bounds` is `[x0, y0, x1, y1]`.

        Its window is the newest `window` posts, or those of the last so many `seconds`: one of the two. Words weigh by
        how rare they are ("tfidf") or as they are "given"; `stop_words` are what texts are read without.
        """
        call = calls.put_feed(self.name, bounds, window, seconds, weighting, buffer, stop_words)
        return self.client.send(call)

    def info(self) -> FeedInfo:
        """The configuration, and how many posts and subscriptions there are."""
        return self.client.send(calls.feed_info(self.name))

    def delete(self) -> int:
        """Deletes the feed with all that is in it and ends its streams. Returns the seq."""
        return self.client.send(calls.delete_feed(self.name))

    # Posts

    def post(
        self,
        location: Location,
        keywords: Keywords | None = None,
        *,
        text: str | None = None,
        id: str | None = None,
        payload: Any = None,
        idempotency_key: str | None = None,
    ) -> PostReached:
        """Posts one, with `keywords` or a `text`. Returns its id, made up if none is given, and how many lists it
        reached."""
        given = {"id": id, "location": location, "keywords": keywords, "text": text, "payload": payload}
        one: Any = {name: value for name, value in given.items() if value is not None}
        return self.post_many([one], idempotency_key=idempotency_key).results[0]

    def post_many(
        self, posts: Iterable[NewPost], *, on_error: OnError = "refuse", idempotency_key: str | None = None
    ) -> Posted:
        """Posts many in order as one request, all or nothing; with `on_error="skip"` all that are good.

        More than 1,000 go as NDJSON, which may be large (1 GiB unless the service says otherwise).
        """
        return self.client.send(calls.post(self.name, posts, on_error), idempotency_key)

    def post_arrow(self, stream: bytes, *, on_error: OnError = "refuse", idempotency_key: str | None = None) -> Posted:
        """Posts the rows of an Arrow IPC stream with the columns `id, x, y, text` or `keywords` (lists) with `weights`
        (lists), and `payload` (JSON text)."""
        return self.client.send(calls.post_arrow(self.name, stream, on_error), idempotency_key)

    def get_post(self, id: str) -> FeedPost:
        """A post of the window."""
        return self.client.send(calls.get_post(self.name, id))

    def posts(self) -> Iterator[FeedPost]:
        """All posts of the window, in order of id, fetched page by page."""
        return self.client._all(lambda limit, cursor: calls.posts(self.name, limit, cursor))

    def withdraw(self, id: str) -> int:
        """Takes a post out of the window: whoever had it in a list gets the next best. Returns the seq."""
        return self.client.send(calls.withdraw(self.name, id))

    # Subscriptions

    def register(
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
        """Registers one standing question and returns it with its list. An id left out is made up.

        It wants the `k` best posts (10 unless said) that share one of its `keywords`, or of the words of its `text`;
        `alpha`, from 0 to 1 (0.5 unless said), is how much nearness counts. With a `ttl` it is deleted when for so many
        seconds no stream of it was open and no request named it.
        """
        given = {
            "id": id,
            "location": location,
            "keywords": keywords,
            "text": text,
            "k": k,
            "alpha": alpha,
            "ttl": ttl,
        }
        want: Any = {name: value for name, value in given.items() if value is not None}
        made = self.register_many([want], lists=True, idempotency_key=idempotency_key)
        return made.subscriptions[0]

    def register_many(
        self,
        wants: Iterable[NewFeedSubscription],
        *,
        lists: bool | None = None,
        on_error: OnError = "refuse",
        idempotency_key: str | None = None,
    ) -> FeedSubscriptions:
        """Registers many as one request, all or nothing. `lists` asks for their lists (default: up to 1,000)."""
        return self.client.send(calls.register(self.name, wants, lists, on_error), idempotency_key)

    def register_arrow(
        self, stream: bytes, *, on_error: OnError = "refuse", idempotency_key: str | None = None
    ) -> FeedSubscriptions:
        """Registers the rows of an Arrow IPC stream: the columns of posts but `payload`, and `k, alpha, ttl`. Lists are
        not answered."""
        return self.client.send(calls.register_arrow(self.name, stream, on_error), idempotency_key)

    def put_subscription(
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
        """Makes the subscription or changes it to this: what a client says again whenever it starts."""
        given = UNSET if ttl is None else ttl
        call = calls.write_subscription("PUT", self.name, id, keywords, text, location, k, alpha, given)
        return self.client.send(call)

    def patch_subscription(
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
        """Changes what is given; its streams miss nothing. Keywords are given whole."""
        call = calls.write_subscription("PATCH", self.name, id, keywords, text, location, k, alpha, ttl)
        return self.client.send(call)

    def subscription(self, id: str) -> FeedSubscription:
        """The subscription with its list now."""
        return self.client.send(calls.get_subscription(self.name, id))

    def delete_subscription(self, id: str) -> int:
        """Deletes it and ends its streams. Returns the seq."""
        return self.client.send(calls.delete_subscription(self.name, id))

    def delete_subscriptions(self, ids: Iterable[str]) -> int:
        """Deletes many; unknown ids are passed over. Returns how many there were."""
        return self.client.send(calls.delete_subscriptions(self.name, ids))

    def subscriptions(self) -> Iterator[FeedSubscription]:
        """All subscriptions, in order of id and without lists, fetched page by page."""
        return self.client._all(lambda limit, cursor: calls.subscriptions(self.name, limit, cursor))
