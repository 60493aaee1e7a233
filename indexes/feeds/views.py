"""What the engine of a feed shows: posts, subscriptions with their lists, and what live ones hear."""

from __future__ import annotations

from typing import NamedTuple

from indexes.feeds.model import Point, Shown


class PostView(NamedTuple):
    """A post as it is shown; `number` counts all posts of the feed from 0, `seq` is when it came and `at` the time.
    `payload` is compact JSON text."""

    number: int
    seq: int
    id: str
    keywords: Shown
    location: Point
    at: int
    payload: bytes | None


class Entry(NamedTuple):
    """A post in a list; its rank is its place there. Within one slice, and within one list, entries of the same post
    have the same `PostView`."""

    post: PostView
    score: float


class SubscriptionView(NamedTuple):
    """A subscription as it is shown, with its list, best first, where that was asked for."""

    id: str
    keywords: Shown
    location: Point
    k: int
    alpha: float
    ttl: float | None
    list: list[Entry] | None


class Change(NamedTuple):
    """A post that entered a list (no old rank), left it (no new rank, and no entry), or has another score. Ranks count
    from 1."""

    id: str
    old_rank: int | None
    new_rank: int | None
    entry: Entry | None


class ListChange(NamedTuple):
    """What became of the list of a live subscription at a seq: what left in order of old rank, then the others by new
    rank. What only shifted is not there."""

    seq: int
    id: str
    changes: list[Change]


class Slice(NamedTuple):
    """What live subscriptions must hear of, up to `last_seq`, in order of seq: changed lists, one for each seq and
    subscription, and (seq, id) of those that were deleted."""

    last_seq: int
    changes: list[ListChange]
    gone: list[tuple[int, str]]
