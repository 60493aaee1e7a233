"""Requests and responses of relays as typed values. Unbounded ends are None.

What is to be forwarded is plain where a relay has no links, and by link where it has some.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

from rankcast_client.calls import wire_ranges
from rankcast_client.errors import FieldError, outcome
from rankcast_client.followers import EventFollower
from rankcast_client.models import Missed, Pair, Ready

GraphKind: TypeAlias = Literal["G", "G*", "poset"]
RelayIndex: TypeAlias = Literal["kd", "zorder", "linear"]
LinkState: TypeAlias = Literal["up", "down", "syncing"]
Ids: TypeAlias = tuple[str, ...]


class NewBox(TypedDict):
    """One subscription: `box` by attribute, unbounded where one is left out. A missing id is generated."""

    id: NotRequired[str]
    box: NotRequired[Mapping[str, Pair]]
    link: NotRequired[str | None]
    ttl: NotRequired[float]


class Notification(TypedDict):
    """A point with a value for every attribute, and a payload for its recipients. It does not go back over
    the link `from`."""

    values: Mapping[str, float]
    payload: NotRequired[Any]


class LinkChange(TypedDict, total=False):
    """A link, or what changes in one."""

    url: str
    relay: str
    link: str
    key: str | None


Command: TypeAlias = Mapping[str, Any]
"""A line of a conversation: see `subscribe` and `unsubscribe`."""


def subscribe(
    id: str, box: Mapping[str, Pair] | None = None, *, link: str | None = None, ttl: float | None = None
) -> Command:
    """The command that makes a subscription."""
    command: dict[str, Any] = {"op": "subscribe", "id": id, "box": wire_ranges(box or {})}
    if link is not None:
        command["link"] = link
    if ttl is not None:
        command["ttl"] = ttl
    return command


def unsubscribe(id: str) -> Command:
    """The command that ends a subscription."""
    return {"op": "unsubscribe", "id": id}


@dataclass(frozen=True, slots=True)
class LinkInfo:
    """The state of a link: `queue` messages wait for the other side, and the next one has the number `next`. `peer` is
    who answers there, `reason` why it is down. Where that is a message that the other side does not take, `refused` is
    its number, and what of it is refused, if that is known."""

    url: str
    relay: str
    link: str
    state: LinkState
    queue: int
    next: int
    peer: str | None = None
    reason: str | None = None
    refused: tuple[int, str | None] | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> LinkInfo:
        where, refused = (data["url"], data["relay"], data["link"]), data.get("refused")
        return cls(
            *where,
            data["state"],
            data["queue"],
            data["next"],
            data.get("peer"),
            data.get("reason"),
            None if refused is None else (refused["message"], refused.get("field")),
        )


@dataclass(frozen=True, slots=True)
class RelayInfo:
    """A relay's configuration and sizes. `forwarded` counts what is forwarded, `covering_ratio` is the share of what is
    not; with links, by link. `service` is what the service is called in an overlay."""

    name: str
    attributes: tuple[str, ...]
    graph: GraphKind
    k: int | None
    index: RelayIndex
    service: str
    subscriptions: int
    forwarded: int | Mapping[str, int]
    covering_ratio: float | Mapping[str, float]
    statistics: Mapping[str, Any]
    links: Mapping[str, LinkInfo]
    seq: int | None = None

    @classmethod
    def from_json(cls, name: str, data: Mapping[str, Any]) -> RelayInfo:
        return cls(
            data.get("name", name),
            tuple(data["attributes"]),
            data["graph"]["kind"],
            data["graph"].get("k"),
            data["index"],
            data["service"],
            data["subscriptions"],
            data["forwarded"],
            data["covering_ratio"],
            data.get("statistics", {}),
            {link: LinkInfo.from_json(one) for link, one in data.get("links", {}).items()},
            data.get("seq"),
        )


@dataclass(frozen=True, slots=True)
class Routed:
    """What to do upstream about a new subscription: forward it, or not, because others cover it."""

    id: str
    forward: bool | Mapping[str, bool]
    covered_by: Ids | Mapping[str, Ids]
    seq: int | None = None
    index: int | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Routed:
        return cls(data["id"], data["forward"], _ids(data["covered_by"]), data.get("seq"), data.get("index"))


@dataclass(frozen=True, slots=True)
class Ended:
    """What to do upstream about a subscription that has ended: first subscribe `forward_subscribe`."""

    forward_unsubscribe: bool | Mapping[str, bool]
    forward_subscribe: Ids | Mapping[str, Ids]
    seq: int | None = None
    id: str | None = None
    index: int | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Ended:
        forward = data["forward_unsubscribe"], _ids(data["forward_subscribe"])
        return cls(*forward, data.get("seq"), data.get("id"), data.get("index"))


@dataclass(frozen=True, slots=True)
class Rejected:
    """A command that was passed over, with `on_error="skip"`."""

    index: int
    errors: tuple[FieldError, ...]


Answer: TypeAlias = Routed | Ended | Rejected
"""What comes back for a command."""


def answer_of(data: Mapping[str, Any]) -> Answer:
    """A line of a conversation's answer."""
    if "errors" in data:
        return Rejected(data["index"], FieldError.all_in(data))
    return Routed.from_json(data) if "forward" in data else Ended.from_json(data)


@dataclass(frozen=True, slots=True)
class Boxes:
    """What to do upstream about new subscriptions, in the order asked for; `errors` are those skipped, the first 1,000
    of `error_count`."""

    seq: int
    results: tuple[Routed, ...]
    errors: tuple[FieldError, ...] = ()
    replayed: bool = False
    error_count: int = 0

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Boxes:
        results = tuple(Routed.from_json(one) for one in data.get("results") or ())
        return cls(data["seq"], results, FieldError.all_in(data), *outcome(data))


@dataclass(frozen=True, slots=True)
class Box:
    """A subscription: its box, both ends of every attribute, and the link that it came over. After it was made or
    changed with what to do about it upstream."""

    id: str
    box: Mapping[str, Pair]
    link: str | None
    ttl: float | None = None
    seq: int | None = None
    routed: Routed | None = None
    ended: Ended | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Box:
        box = {name: (low, high) for name, (low, high) in data["box"].items()}
        routed = Routed.from_json(data) if data.get("forward") is not None else None
        ended = Ended.from_json(data) if data.get("forward_unsubscribe") is not None else None
        return cls(data["id"], box, data["link"], data.get("ttl"), data.get("seq"), routed, ended)


@dataclass(frozen=True, slots=True)
class Delivery:
    """The recipients of a notification: local subscriptions, oldest first, and links. `index` is its place in the
    request; `truncated` says that not all of them are named."""

    index: int
    subscriptions: Ids
    links: Ids
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class Notified:
    """The recipients of each notification of a request, in order; `errors` are those skipped, the first 1,000
    of `error_count`."""

    seq: int
    results: tuple[Delivery, ...]
    errors: tuple[FieldError, ...] = ()
    replayed: bool = False
    error_count: int = 0

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Notified:
        results = tuple(
            Delivery(
                one.get("index", at),
                tuple(one["subscriptions"]),
                tuple(one["links"]),
                bool(one.get("truncated", False)),
            )
            for at, one in enumerate(data["results"])
        )
        return cls(data["seq"], results, FieldError.all_in(data), *outcome(data))


@dataclass(frozen=True, slots=True)
class Arrived:
    """A notification that the subscription meets."""

    seq: int
    values: Mapping[str, float]
    payload: Any

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Arrived:
        return cls(data["seq"], data["values"], data.get("payload"))


NotificationEvent: TypeAlias = Arrived | Missed | Ready


def follow_notifications(ready: bool = False) -> EventFollower[Arrived]:
    """The follower of a stream of notifications."""
    return EventFollower("notification", Arrived.from_json, ready)


def _ids(forward: Any) -> Ids | Mapping[str, Ids]:
    return {link: tuple(ids) for link, ids in forward.items()} if isinstance(forward, Mapping) else tuple(forward)
