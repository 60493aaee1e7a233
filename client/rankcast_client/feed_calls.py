"""Every request to a feed as a value: what to send and how to read the answer. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rankcast_client.calls import Call, Page, ResourceCalls, page, segment, seq_of
from rankcast_client.feed_models import (
    FeedInfo,
    FeedPost,
    FeedSubscription,
)

FEEDS = ResourceCalls("feeds", FeedInfo.from_json, FeedSubscription.from_json)


def get_post(feed: str, id: str) -> Call[FeedPost]:
    return Call("GET", FEEDS.path(feed, "posts", segment(id)), FeedPost.from_json)


def withdraw(feed: str, id: str) -> Call[int]:
    return Call("DELETE", FEEDS.path(feed, "posts", segment(id)), seq_of)


def posts(feed: str, limit: int, cursor: str | None) -> Call[Page[FeedPost]]:
    return page(FEEDS.path(feed, "posts"), FeedPost.from_json, limit, cursor)


def wire(fields: Mapping[str, Any]) -> dict[str, Any]:
    """A post or a subscription for the wire. A string as `keywords` would be read as its letters: ValueError."""
    body = dict(fields)
    words = body.get("keywords")
    if isinstance(words, str):
        raise ValueError("keywords are a list, or weights by word: give what is to be read as text")
    if words is not None:
        body["keywords"] = dict(words) if isinstance(words, Mapping) else list(words)
    if "location" in body:
        body["location"] = list(body["location"])
    return body
