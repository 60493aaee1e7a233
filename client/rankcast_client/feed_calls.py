"""Every request to a feed as a value: what to send and how to read the answer. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rankcast_client.calls import Call, Page, json_call, listed, page, segment, seq_of
from rankcast_client.feed_models import (
    Buffer,
    FeedInfo,
    FeedPost,
    FeedSubscription,
    FeedSubscriptions,
    Keywords,
    NewFeedSubscription,
    NewPost,
    Posted,
    Weighting,
)
from rankcast_client.models import OnError, Unset
from rankcast_client.zones import Location

ARROW = "application/vnd.apache.arrow.stream"


def feed_path(feed: str, *parts: str) -> str:
    """`/v1/feeds/{feed}/...`; raises ValueError for what cannot be a name."""
    return "/".join(["/v1/feeds", segment(feed), *parts])


def put_feed(
    feed: str,
    bounds: Sequence[float],
    window: int | None,
    seconds: float | None,
    weighting: Weighting | None,
    buffer: Buffer | None,
    stop_words: Iterable[str] | None,
) -> Call[FeedInfo]:
    if (window is None) == (seconds is None):
        raise ValueError("a window is a number of posts, or so many seconds: give one of the two")
    body: dict[str, Any] = {"window": {"seconds": seconds} if window is None else window, "bounds": list(bounds)}
    if weighting is not None:
        body["weighting"] = weighting
    if buffer is not None:
        body["buffer"] = buffer
    if stop_words is not None:
        body["stop_words"] = list(stop_words)
    return json_call("PUT", feed_path(feed), lambda data: FeedInfo.from_json(feed, data), body)


def feed_info(feed: str) -> Call[FeedInfo]:
    return Call("GET", feed_path(feed), lambda data: FeedInfo.from_json(feed, data))


def delete_feed(feed: str) -> Call[int]:
    return Call("DELETE", feed_path(feed), seq_of)


def feeds(limit: int, cursor: str | None) -> Call[Page[FeedInfo]]:
    return page("/v1/feeds", lambda data: FeedInfo.from_json(str(data.get("name", "")), data), limit, cursor)


# Posts


def post(feed: str, posts: Iterable[NewPost], on_error: OnError) -> Call[Posted]:
    elements = [wire(one) for one in posts]
    return Call("POST", feed_path(feed, "posts"), Posted.from_json, **listed("posts", elements, {"on_error": on_error}))


def post_arrow(feed: str, stream: bytes, on_error: OnError) -> Call[Posted]:
    return Call("POST", feed_path(feed, "posts"), Posted.from_json, {"on_error": on_error}, stream, ARROW)


def get_post(feed: str, id: str) -> Call[FeedPost]:
    return Call("GET", feed_path(feed, "posts", segment(id)), FeedPost.from_json)


def withdraw(feed: str, id: str) -> Call[int]:
    return Call("DELETE", feed_path(feed, "posts", segment(id)), seq_of)


def posts(feed: str, limit: int, cursor: str | None) -> Call[Page[FeedPost]]:
    return page(feed_path(feed, "posts"), FeedPost.from_json, limit, cursor)


# Subscriptions


def register(
    feed: str, wants: Iterable[NewFeedSubscription], lists: bool | None, on_error: OnError
) -> Call[FeedSubscriptions]:
    elements = [wire(one) for one in wants]
    rest: dict[str, Any] = {"on_error": on_error} | ({} if lists is None else {"lists": lists})
    path = feed_path(feed, "subscriptions")
    return Call("POST", path, FeedSubscriptions.from_json, **listed("subscriptions", elements, rest))


def register_arrow(feed: str, stream: bytes, on_error: OnError) -> Call[FeedSubscriptions]:
    path, params = feed_path(feed, "subscriptions"), {"on_error": on_error, "lists": "false"}
    return Call("POST", path, FeedSubscriptions.from_json, params, stream, ARROW)


def write_subscription(
    method: str,
    feed: str,
    id: str,
    keywords: Keywords | None,
    text: str | None,
    location: Location | None,
    k: int | None,
    alpha: float | None,
    ttl: float | Unset | None,
) -> Call[FeedSubscription]:
    given = {"keywords": keywords, "text": text, "location": location, "k": k, "alpha": alpha}
    body = wire({name: value for name, value in given.items() if value is not None})
    if not isinstance(ttl, Unset):
        body["ttl"] = ttl
    return json_call(method, feed_path(feed, "subscriptions", segment(id)), FeedSubscription.from_json, body)


def get_subscription(feed: str, id: str) -> Call[FeedSubscription]:
    return Call("GET", feed_path(feed, "subscriptions", segment(id)), FeedSubscription.from_json)


def delete_subscription(feed: str, id: str) -> Call[int]:
    return Call("DELETE", feed_path(feed, "subscriptions", segment(id)), seq_of)


def delete_subscriptions(feed: str, ids: Iterable[str]) -> Call[int]:
    path = feed_path(feed, "subscriptions", "delete")
    return json_call("POST", path, lambda data: int(data["deleted"]), {"ids": list(ids)})


def subscriptions(feed: str, limit: int, cursor: str | None) -> Call[Page[FeedSubscription]]:
    return page(feed_path(feed, "subscriptions"), FeedSubscription.from_json, limit, cursor)


def wire(given: Mapping[str, Any]) -> dict[str, Any]:
    """A post or a subscription for the wire. A string as `keywords` would be read as its letters: ValueError."""
    said = dict(given)
    words = said.get("keywords")
    if isinstance(words, str):
        raise ValueError("keywords are a list, or weights by word: give what is to be read as text")
    if words is not None:
        said["keywords"] = dict(words) if isinstance(words, Mapping) else list(words)
    if "location" in said:
        said["location"] = list(said["location"])
    return said
