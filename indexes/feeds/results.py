"""Results of the engine of a feed: posts, subscriptions with their lists, and changes of live ones."""

from __future__ import annotations

from typing import NamedTuple

from indexes.feeds.config import Point, Shown


class PostView(NamedTuple):
    """A post; `number` counts all posts of the feed from 0, `seq` is that of its publication and `at` the time.
    `payload` is compact JSON text."""

    number: int
    seq: int
    id: str
    keywords: Shown
    location: Point
    at: int
    payload: bytes | None


class Entry(NamedTuple):
    """A post in a list, whose place is its rank. Within a slice, or a list, entries of one post share a `PostView`."""

    post: PostView
    score: float


class SubscriptionView(NamedTuple):
    """A subscription; its list, best first, is None unless it was requested."""

    id: str
    keywords: Shown
    location: Point
    k: int
    alpha: float
    ttl: float | None
    list: list[Entry] | None


class Change(NamedTuple):
    """A post that entered a list (no old rank), left it (no new rank and no entry), or changed its score. Ranks begin
    with 1."""

    id: str
    old_rank: int | None
    new_rank: int | None
    entry: Entry | None


class ListChange(NamedTuple):
    """The changes of the list of a live subscription at a seq: posts that left in order of old rank, then the others by
    new rank. Posts that only shifted are left out."""

    seq: int
    id: str
    changes: list[Change]


class Slice(NamedTuple):
    """Changes for live subscriptions up to `last_seq`, in order of seq: changed lists, at most one for each seq and
    subscription, and (seq, id) of deleted subscriptions."""

    last_seq: int
    changes: list[ListChange]
    gone: list[tuple[int, str]]
