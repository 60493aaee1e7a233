"""Requests and responses of matchers as typed values. Unbounded ends are None."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

from rankcast_client.errors import FieldError, outcome
from rankcast_client.followers import EventFollower
from rankcast_client.models import Missed, Pair, Ready

MatchMode: TypeAlias = Literal["relaxed", "exact"]
Combine: TypeAlias = Literal["sum", "max", "product"]
MatcherIndex: TypeAlias = Literal["auto", "sopt-r", "ir", "segment", "interval", "scored-r"]
EventValue: TypeAlias = float | Pair | None
"""A number, a range that matches what it overlaps, or None: the event lacks the dimension."""


class NewInterest(TypedDict):
    """One subscription to register: `weights` for the same dimensions as `intervals` (relaxed), or a `score` (exact).

    A missing id is generated.
    """

    id: NotRequired[str]
    intervals: NotRequired[Mapping[str, Pair]]
    weights: NotRequired[Mapping[str, float]]
    score: NotRequired[float]
    ttl: NotRequired[float]


class MatchEvent(TypedDict):
    """One event: values by dimension, and a payload for its recipients."""

    values: Mapping[str, EventValue]
    payload: NotRequired[Any]


@dataclass(frozen=True, slots=True)
class MatcherInfo:
    """A matcher's configuration, and how many subscriptions it has. `combine` is None in exact mode."""

    name: str
    dimensions: tuple[str, ...]
    mode: MatchMode
    combine: Combine | None
    index: str
    subscriptions: int
    seq: int | None = None

    @classmethod
    def from_json(cls, name: str, data: Mapping[str, Any]) -> MatcherInfo:
        return cls(
            data.get("name", name),
            tuple(data["dimensions"]),
            data["mode"],
            data.get("combine"),
            data.get("index", "auto"),
            data.get("subscriptions", 0),
            data.get("seq"),
        )


@dataclass(frozen=True, slots=True)
class Interest:
    """A subscription of a matcher: `weights` in relaxed mode, `score` in exact mode, the other is None."""

    id: str
    intervals: Mapping[str, Pair]
    weights: Mapping[str, float] | None = None
    score: float | None = None
    ttl: float | None = None
    seq: int | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any], seq: int | None = None) -> Interest:
        intervals = {name: (low, high) for name, (low, high) in data["intervals"].items()}
        rest = data.get("weights"), data.get("score"), data.get("ttl")
        return cls(data["id"], intervals, *rest, data.get("seq", seq))


@dataclass(frozen=True, slots=True)
class Interests:
    """What became of a registration: the subscriptions that were made, in the order asked for.

    `errors` are those skipped with `on_error="skip"`, the first 1,000 of `error_count`.
    """

    seq: int
    subscriptions: tuple[Interest, ...]
    errors: tuple[FieldError, ...] = ()
    replayed: bool = False
    error_count: int = 0

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Interests:
        seq = data["seq"]
        made = tuple(Interest.from_json(one, seq) for one in data.get("subscriptions") or ())
        return cls(seq, made, FieldError.all_in(data), *outcome(data))


@dataclass(frozen=True, slots=True)
class Winner:
    """A subscription that an event won. `matched`, if asked for, is what each dimension that matches added (None in
    exact mode)."""

    id: str
    score: float
    matched: Mapping[str, float | None] | None = None


@dataclass(frozen=True, slots=True)
class MatchResult:
    """The winners of one event, best first. `index` is the event's place in the request, `looked_at`, if asked for, the
    number of index entries that were read."""

    index: int
    winners: tuple[Winner, ...]
    looked_at: int | None = None


@dataclass(frozen=True, slots=True)
class Matched:
    """The winners of the events of a request, in order; `errors` are events skipped with `on_error="skip"`,
    the first 1,000 of `error_count`."""

    seq: int
    results: tuple[MatchResult, ...]
    errors: tuple[FieldError, ...] = ()
    replayed: bool = False
    error_count: int = 0

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Matched:
        results = tuple(
            MatchResult(
                result.get("index", at),
                tuple(Winner(won["id"], won["score"], won.get("matched")) for won in result["winners"]),
                result.get("looked_at"),
            )
            for at, result in enumerate(data["results"])
        )
        return cls(data["seq"], results, FieldError.all_in(data), *outcome(data))


@dataclass(frozen=True, slots=True)
class Win:
    """An event that the subscription won: its rank among the winners, from 1, and its score."""

    seq: int
    values: Mapping[str, EventValue]
    payload: Any
    rank: int
    score: float

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Win:
        values = {name: tuple(value) if isinstance(value, list) else value for name, value in data["values"].items()}
        return cls(data["seq"], values, data.get("payload"), data["rank"], data["score"])


WinEvent: TypeAlias = Win | Missed | Ready


def follow_wins(ready: bool = False) -> EventFollower[Win]:
    """The follower of a stream of wins."""
    return EventFollower("win", Win.from_json, ready)
