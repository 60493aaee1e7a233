"""What a relay is made of: its configuration, what travels over its links, and what its commands come to.

Ids are of two sorts. Those of *clients* are known here alone; they travel as ``<service>:<relay>:<id>``. Those that
*travelled* came over a link in a message, are whole already, and travel on as they are. The two never clash: inside,
the key of a travelled id begins with `TRAVELLED`, which no id has. Answers show ids, never keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute as pc

UPSTREAM = ""
"""The one neighbour of a relay without links; no link has this name."""

TRAVELLED = "~"
"""How the key of an id begins that came over a link in a message. It sorts behind all that ids are made of."""

MOST_ID = 400
"""Characters of an id that travelled."""

REVERSED = "lo must be at most hi"
"""What is wrong with a side of a box."""

Values = Mapping[str, Any]


def shown(key: str) -> str:
    """The id of a key."""
    return key.removeprefix(TRAVELLED)


def shown_column(keys: pa.LargeStringArray) -> pa.LargeStringArray:
    """As `shown` for each in turn, several times faster."""
    bare = pc.utf8_slice_codeunits(keys, len(TRAVELLED))
    return pc.if_else(pc.starts_with(keys, TRAVELLED), bare, keys)


@dataclass(frozen=True, slots=True)
class Link:
    """The way to a relay of another service: where it is, how it is called, how it calls us, and the key to be sent
    with requests, which is never shown."""

    url: str
    relay: str
    link: str
    key: str | None = field(default=None, repr=False)

    def same_peer(self, other: Link) -> bool:
        """Whether both lead to the same relay; the key may differ."""
        return (self.url, self.relay, self.link) == (other.url, other.relay, other.link)

    def same_place(self, url: str) -> bool:
        """Whether a URL leads to the same server, which may be told the key."""
        try:
            mine, other = urlsplit(self.url), urlsplit(url)
        except ValueError:
            return False
        return (mine.scheme, mine.netloc.lower()) == (other.scheme, other.netloc.lower())


@dataclass(frozen=True, slots=True)
class RelayConfig:
    """What a relay routes by: named numeric attributes, its relation graph and its covering index. `k` is of G only.

    All of it stands for good but the `links`, by name, which `commands.ChangeLinks` changes.
    """

    attributes: tuple[str, ...]
    graph: Literal["G", "G*", "poset"] = "G"
    k: int = 1
    index: Literal["kd", "zorder", "linear"] = "kd"
    links: Mapping[str, Link] = field(default_factory=dict)


Op = Literal["reset", "subscribe", "unsubscribe", "notify"]


class Message(NamedTuple):
    """What one relay tells another, numbered without gaps within an epoch.

    `reset`: forget what came before over this link. The next `follow` messages are subscriptions, all that stand; only
    when the last of them is there does what has not been said again go, so that nothing is missed meanwhile. It is the
    first message of an epoch. `follow` 0 drops everything at once.

    `subscribe`: `id` and `box`, both ends of every attribute in order; an id that is there already gets this box.
    `unsubscribe`: `id`; an unknown one is passed over.

    `notify`: `values` of every attribute in order, and `payload`, compact JSON text. `mark` stays with it from epoch to
    epoch: the one that it was first queued in, and which notification of that it is, counted from 0. Who has had it, or
    a later one of that epoch, ignores it; None is never ignored.

    `own` says of an outgoing `id` that a client here made it: it goes out as ``<service>:<relay>:<id>``, any other as
    it is. In a message that came in it means nothing.
    """

    n: int
    op: Op
    id: str = ""
    box: tuple[tuple[float, float], ...] = ()
    follow: int = 0
    values: tuple[float, ...] = ()
    payload: bytes | None = None
    mark: tuple[str, int] | None = None
    own: bool = False


class Subscribed(NamedTuple):
    """By neighbour: whether to forward a new subscription, and what covers it there, oldest first. It is forwarded
    exactly where nothing does."""

    id: str
    forward: dict[str, bool]
    covered_by: dict[str, list[str]]

    def fields(self) -> dict[str, Any]:
        """As an answer has them: by link, or plain without links."""
        return {"forward": _plain(self.forward), "covered_by": _plain(self.covered_by)}


class Unsubscribed(NamedTuple):
    """By neighbour: whether to forward that a subscription has ended, and what to subscribe before that, oldest
    first."""

    id: str
    forward_unsubscribe: dict[str, bool]
    forward_subscribe: dict[str, list[str]]

    def fields(self) -> dict[str, Any]:
        """As an answer has them: by link, or plain without links."""
        return {
            "forward_unsubscribe": _plain(self.forward_unsubscribe),
            "forward_subscribe": _plain(self.forward_subscribe),
        }


class Delivery(NamedTuple):
    """Who is to get a notification: the local subscriptions that it meets, oldest first, and links by name. Where not
    all of them are named, it is `truncated`."""

    subscriptions: list[str]
    links: list[str]
    truncated: bool = False

    def fields(self) -> dict[str, Any]:
        """As an answer has them."""
        fields: dict[str, Any] = {"subscriptions": self.subscriptions, "links": self.links}
        return {**fields, "truncated": True} if self.truncated else fields


class Anew(NamedTuple):
    """What a neighbour that was told of one set of subscriptions has to be told so that it knows another: first what to
    subscribe, then what to unsubscribe, each oldest first."""

    subscribe: list[str]
    unsubscribe: list[str]


class Changed(NamedTuple):
    """As `Anew`, by column."""

    subscribe: pa.LargeStringArray
    unsubscribe: pa.LargeStringArray


class SubscriptionView(NamedTuple):
    """A subscription as it stands: `box` by attribute, both ends, where one is not unbounded; the link that it came
    over, None for a local one; `ttl` in seconds or None. Lists go on behind a `key`."""

    key: str
    id: str
    box: dict[str, tuple[float, float]]
    link: str | None
    ttl: float | None


class LinkView(NamedTuple):
    """A link as it stands. `queue` messages wait to be acknowledged, of which the first has the number `first`;
    `next` is the number that the next message to be queued gets. `epoch` is ours, None before the first `Restart`.

    A `stale` queue is not to be sent from: it has begun without an epoch, or grown past its limit, and goes on with a
    `Restart`. `peer_epoch` is the neighbour's, None where it has never sent a reset, and `expected` the number that it
    is to send next. `forwarded` of the subscriptions that the neighbour may have to hear of it is to be told of;
    `resyncing` subscriptions of a reset are still to come from it.
    """

    name: str
    link: Link
    epoch: str | None
    stale: bool
    queue: int
    first: int
    next: int
    peer_epoch: str | None
    expected: int
    resyncing: int
    forwarded: int
    covering_ratio: float


class Notified(NamedTuple):
    """What a live subscription hears of a notification that it meets; `payload` is compact JSON text."""

    seq: int
    id: str
    values: dict[str, float]
    payload: bytes | None


class Slice(NamedTuple):
    """What live subscriptions must hear of, up to `last_seq`: notifications, in order, and (seq, id) of those that were
    deleted."""

    last_seq: int
    told: list[Notified]
    gone: list[tuple[int, str]]


def _plain(told: dict[str, Any]) -> Any:
    return told.get(UPSTREAM, told)
