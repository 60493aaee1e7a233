"""What a stream has sent so far, kept by whoever follows it: one follower for each kind of stream. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from rankcast_client.lists import TopKList, apply_changes
from rankcast_client.models import (
    BoardInfo,
    Change,
    ChangedEntry,
    Entry,
    Form,
    Missed,
    Ready,
    Reset,
    Snapshot,
    StreamEvent,
    Subscription,
    Tile,
    Tiles,
    entries,
)

T = TypeVar("T")
E_co = TypeVar("E_co", covariant=True)


class Follower(Protocol[E_co]):
    """`cursor` is the position (`epoch:seq`) up to which the subscription is known, None before it has `begun`.

    `current` says that the service has sent all that there was when the connection was opened; with `ready` that is an
    event of its own. `options` are the query parameters of the stream.
    """

    begun: bool
    current: bool
    cursor: str | None
    options: dict[str, Any]

    def take(self, event: str, data: Mapping[str, Any], /) -> E_co | None:
        """Apply one message; None where it makes no event."""


class ListFollower:
    """The list of a board's subscription. The first of the `entries` has the rank offset + 1."""

    def __init__(
        self, form: Form = "changes", *, ready: bool = False, old: bool = False, squash: float | None = None
    ) -> None:
        self.form = form
        self.ready = ready
        self.options: dict[str, Any] = {"ready": True}
        if form == "tiles":
            self.options["form"] = form
        if old:
            self.options["old"] = True
        if squash is not None:
            self.options["squash"] = squash
        self.current = False
        self.entries: tuple[Entry, ...] = ()
        self.offset = 0
        self.seq: int | None = None
        self.cursor: str | None = None
        self.begun = False
        self._best: TopKList | None = None

    def needs_subscription(self, event: str) -> bool:
        """Whether `learn` must be called before this message: where tiles are followed and a list comes whole."""
        return self.form == "tiles" and event in ("snapshot", "reset")

    def learn(self, subscription: Subscription, info: BoardInfo) -> None:
        """Take what tiles need: how deep the list reaches and how it is ordered.

        Fetched once the stream is open: when the subscription is changed from then on, a `reset` follows and it is
        fetched again.
        """
        self.offset = subscription.offset
        depth, where = self.offset + subscription.k, subscription.where
        self._best = TopKList.of(subscription.region, depth, info.order, rank=info.rank, where=where)

    def take(self, event: str, data: Mapping[str, Any]) -> StreamEvent | None:
        """Apply one message. None for an unknown one, and for what comes before the first list."""
        if event in ("snapshot", "reset"):
            self.entries = entries(data["list"])
            if self._best is not None:
                self._best.reset(self.entries)
                self.entries = self._best.entries[self.offset :]
            else:
                self.offset = data.get("offset", 0)
            self.begun = True
            self.seq = data["seq"]
            return (Snapshot if event == "snapshot" else Reset)(data["seq"], self.entries, self.offset)
        if not self.begun:
            return None
        if event == "ready":
            self.current = True
            return Ready(data["seq"]) if self.ready else None
        if event == "change":
            changes = tuple(ChangedEntry.from_json(change) for change in data["changes"])
            self.entries = tuple(apply_changes(self.entries, changes, self.offset))
            self.seq = data["seq"]
            return Change(data["seq"], changes)
        if event == "tiles" and self._best is not None:
            tiles = tuple(Tile.from_json(tile) for tile in data["tiles"])
            for tile in tiles:
                self._best.apply(tile)
            self.entries = self._best.entries[self.offset :]
            self.seq = data["seq"]
            return Tiles(data["seq"], tiles)
        return None


@dataclass
class EventFollower(Generic[T]):
    """A stream of single events, which has no list: what a matcher's subscription wins, or a relay's notifications.

    `read` makes a value of the data of an `event`.
    """

    event: str
    read: Callable[[Mapping[str, Any]], T]
    ready: bool = False
    options: dict[str, Any] = field(default_factory=lambda: {"ready": True})
    current: bool = False
    seq: int | None = None
    cursor: str | None = None
    begun: bool = False

    def take(self, event: str, data: Mapping[str, Any]) -> T | Missed | Ready | None:
        """Apply one message. None for an unknown one, and for a `Ready` that was not requested."""
        if event not in ("ready", "reset", self.event):
            return None
        self.begun, self.seq = True, data["seq"]
        if event == self.event:
            return self.read(data)
        if event == "reset":
            return Missed(data["seq"])
        self.current = True
        return Ready(data["seq"]) if self.ready else None
