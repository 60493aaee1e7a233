"""Requests and responses of feeds as typed values, and the follower of a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

from rankcast_client.errors import FieldError, outcome
from rankcast_client.lists import apply_changes
from rankcast_client.models import Ready
from rankcast_client.zones import Location

Weighting: TypeAlias = Literal["tfidf", "given"]
Buffer: TypeAlias = Literal["cost", "kscore", "fixed", "kmax"]
Keywords: TypeAlias = Sequence[str] | Mapping[str, float]
"""A list, in which a word that is there twice counts twice, or weights by word."""


class NewPost(TypedDict):
    """One post, with `keywords` or `text`. A missing id is generated."""

    id: NotRequired[str]
    keywords: NotRequired[Keywords]
    text: NotRequired[str]
    location: Location
    payload: NotRequired[Any]


class NewFeedSubscription(TypedDict):
    """One subscription to register, with `keywords` or `text`. A missing id is generated."""

    id: NotRequired[str]
    keywords: NotRequired[Keywords]
    text: NotRequired[str]
    location: Location
    k: NotRequired[int]
    alpha: NotRequired[float]
    ttl: NotRequired[float]


@dataclass(frozen=True, slots=True)
class FeedPost:
    """A post: in a list, where it has a `score` and its rank is its place, or alone, without one."""

    id: str
    location: Location
    keywords: Keywords
    payload: Any = None
    score: float | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FeedPost:
        place = data["location"]
        return cls(data["id"], (place[0], place[1]), words_of(data), data.get("payload"), data.get("score"))

    @classmethod
    def all_of(cls, data: Sequence[Mapping[str, Any]]) -> tuple[FeedPost, ...]:
        """A list as the service sends it, best first."""
        return tuple(cls.from_json(one) for one in data)


def words_of(data: Mapping[str, Any]) -> Keywords:
    """The keywords of a post or a subscription in JSON."""
    found = data["keywords"]
    return dict(found) if isinstance(found, Mapping) else tuple(found)


@dataclass(frozen=True, slots=True)
class PostReached:
    """In how many lists a post was right after it came. `index` is its place among those that were sent."""

    index: int
    id: str
    reached: int


@dataclass(frozen=True, slots=True)
class Posted:
    """What became of posts. `seq` is that of the last one, `errors` are those skipped with `on_error="skip"`,
    the first 1,000 of `error_count`.

    A `replayed` answer is that of an earlier attempt which had been applied; of very many posts it has no results.
    """

    seq: int
    results: tuple[PostReached, ...]
    errors: tuple[FieldError, ...] = ()
    replayed: bool = False
    error_count: int = 0

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Posted:
        made = enumerate(data.get("results") or ())
        results = tuple(PostReached(one.get("index", at), one["id"], one["reached"]) for at, one in made)
        return cls(data["seq"], results, FieldError.all_in(data), *outcome(data))


@dataclass(frozen=True, slots=True)
class FeedSubscription:
    """A standing question: the best `k` posts of the window that share a keyword. `list` is its answer at `seq`, if
    asked for."""

    id: str
    keywords: Keywords
    location: Location
    k: int
    alpha: float
    ttl: float | None = None
    seq: int | None = None
    list: tuple[FeedPost, ...] | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any], seq: int | None = None) -> FeedSubscription:
        place, shown = data["location"], data.get("list")
        answer = None if shown is None else FeedPost.all_of(shown)
        config = (place[0], place[1]), data["k"], data["alpha"], data.get("ttl")
        return cls(data["id"], words_of(data), *config, data.get("seq", seq), answer)


@dataclass(frozen=True, slots=True)
class FeedSubscriptions:
    """What became of a registration: the subscriptions that were made, in the order asked for.

    `errors` are those skipped with `on_error="skip"`, the first 1,000 of `error_count`. A `replayed` answer
    has no lists.
    """

    seq: int
    subscriptions: tuple[FeedSubscription, ...]
    errors: tuple[FieldError, ...] = ()
    replayed: bool = False
    error_count: int = 0

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> FeedSubscriptions:
        seq = data["seq"]
        made = tuple(FeedSubscription.from_json(one, seq) for one in data.get("subscriptions") or ())
        return cls(seq, made, FieldError.all_in(data), *outcome(data))


@dataclass(frozen=True, slots=True)
class FeedInfo:
    """A feed's configuration and sizes. Its window counts posts (`window`) or `seconds`; the other one is None.
    `stop_words` is None where they are the service's own."""

    name: str
    window: int | None
    seconds: float | None
    bounds: tuple[float, ...]
    weighting: Weighting
    buffer: Buffer
    stop_words: tuple[str, ...] | None = None
    posts: int = 0
    subscriptions: int = 0
    seq: int | None = None

    @classmethod
    def from_json(cls, name: str, data: Mapping[str, Any]) -> FeedInfo:
        window, stop = data["window"], data.get("stop_words")
        timed = isinstance(window, Mapping)
        return cls(
            data.get("name", name),
            None if timed else window,
            window["seconds"] if timed else None,
            tuple(data["bounds"]),
            data["weighting"],
            data["buffer"],
            None if stop is None else tuple(stop),
            data.get("posts", 0),
            data.get("subscriptions", 0),
            data.get("seq"),
        )


@dataclass(frozen=True, slots=True)
class ChangedPost:
    """One post that entered a list (`old_rank` None), left it (`new_rank` None) or got a new score. `entry` is there
    with a new rank."""

    id: str
    old_rank: int | None
    new_rank: int | None
    entry: FeedPost | None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ChangedPost:
        new_rank = data.get("new_rank")
        entry = None if new_rank is None else FeedPost.from_json(data)
        return cls(data["id"], data.get("old_rank"), new_rank, entry)


@dataclass(frozen=True, slots=True)
class FeedSnapshot:
    """The list with which a stream begins, best first."""

    seq: int
    entries: tuple[FeedPost, ...]


@dataclass(frozen=True, slots=True)
class FeedReset:
    """The whole list again, after a gap that could not be filled or a change of the subscription."""

    seq: int
    entries: tuple[FeedPost, ...]


@dataclass(frozen=True, slots=True)
class FeedChange:
    """What entered, left or got a new score. Posts that only shift are not named."""

    seq: int
    changes: tuple[ChangedPost, ...]


FeedEvent: TypeAlias = FeedSnapshot | FeedReset | FeedChange | Ready


class FeedFollower:
    """The list of a feed's subscription; a `rankcast_client.followers.Follower`."""

    def __init__(self, ready: bool = False) -> None:
        self.ready = ready
        self.options: dict[str, Any] = {"ready": True}
        self.current = False
        self.posts: tuple[FeedPost, ...] = ()
        self.seq: int | None = None
        self.cursor: str | None = None
        self.begun = False

    def take(self, event: str, data: Mapping[str, Any]) -> FeedEvent | None:
        """Apply one message. None for an unknown one, and for what comes before the first list."""
        if event in ("snapshot", "reset"):
            self.posts, self.seq, self.begun = FeedPost.all_of(data["list"]), data["seq"], True
            return (FeedSnapshot if event == "snapshot" else FeedReset)(data["seq"], self.posts)
        if not self.begun:
            return None
        if event == "ready":
            self.current = True
            return Ready(data["seq"]) if self.ready else None
        if event == "change":
            changes = tuple(ChangedPost.from_json(one) for one in data["changes"])
            self.posts, self.seq = tuple(apply_changes(self.posts, changes)), data["seq"]
            return FeedChange(data["seq"], changes)
        return None
