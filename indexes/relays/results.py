"""Outcomes of commands, and what the engine of a relay shows: decisions, deliveries, views and notifications."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa

from indexes.relays.config import UPSTREAM, Link


class Subscribed(NamedTuple):
    """By neighbour: whether to forward a new subscription, and what covers it there, oldest first. It is forwarded
    exactly where nothing does."""

    id: str
    forward: dict[str, bool]
    covered_by: dict[str, list[str]]

    def fields(self) -> dict[str, Any]:
        """Fields of a response: by link, or plain without links."""
        return {"forward": _plain(self.forward), "covered_by": _plain(self.covered_by)}


class Unsubscribed(NamedTuple):
    """By neighbour: whether to forward the end of a subscription, and what to subscribe before that, oldest first."""

    id: str
    forward_unsubscribe: dict[str, bool]
    forward_subscribe: dict[str, list[str]]

    def fields(self) -> dict[str, Any]:
        """Fields of a response: by link, or plain without links."""
        return {
            "forward_unsubscribe": _plain(self.forward_unsubscribe),
            "forward_subscribe": _plain(self.forward_subscribe),
        }


class Delivery(NamedTuple):
    """The recipients of a notification: the local subscriptions that it meets, oldest first, and links by name. It is
    `truncated` where not all of them are named."""

    subscriptions: list[str]
    links: list[str]
    truncated: bool = False

    def fields(self) -> dict[str, Any]:
        """Fields of a response."""
        fields: dict[str, Any] = {"subscriptions": self.subscriptions, "links": self.links}
        return {**fields, "truncated": True} if self.truncated else fields


class Rederived(NamedTuple):
    """The difference between what has been forwarded to a neighbour and the least set that covers all: what to
    subscribe first, then what to unsubscribe, each oldest first."""

    subscribe: list[str]
    unsubscribe: list[str]


class RederivedColumns(NamedTuple):
    """As `Rederived`, by column."""

    subscribe: pa.LargeStringArray
    unsubscribe: pa.LargeStringArray


class SubscriptionView(NamedTuple):
    """A subscription: `box` by attribute, both ends, without unbounded ones; the link that it came over, None for a
    local one; `ttl` in seconds or None. Pages continue after a `key`."""

    key: str
    id: str
    box: dict[str, tuple[float, float]]
    link: str | None
    ttl: float | None


class LinkView(NamedTuple):
    """A link and its state. `queue` messages wait to be acknowledged, the first of which has the number `first`; `next`
    is the number of the next message to be queued. `epoch` is ours, None before the first `Restart`.

    Nothing is sent from a `stale` queue: it has no epoch yet, or has grown past its limit, and goes on with a
    `Restart`. `peer_epoch` is the neighbour's, None where it has never sent a reset, and `expected` the number that it
    is to send next. `forwarded` of the subscriptions that concern the neighbour are forwarded to it; `resyncing`
    messages of a reset are still to come from it.
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
    """A notification for a live subscription that it meets; `payload` is compact JSON text."""

    seq: int
    id: str
    values: dict[str, float]
    payload: bytes | None


class Slice(NamedTuple):
    """Notifications of live subscriptions up to `last_seq`, in order, and (seq, id) of those that were deleted."""

    last_seq: int
    notified: list[Notified]
    gone: list[tuple[int, str]]


def _plain(by_neighbour: dict[str, Any]) -> Any:
    return by_neighbour.get(UPSTREAM, by_neighbour)
