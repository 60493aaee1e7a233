"""The commands of a feed: all that can change its state, and all that its log holds.

A command holds all its data, so that applying the same commands in the same order gives the same state. Times are
integers in the unit of the window's span; the service uses milliseconds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import pyarrow as pa

from indexes.core.arrays import Floats
from indexes.core.elements import Deletion, Elements
from indexes.feeds.config import Keywords, Point, Shown, Subscriptions, SubscriptionState


@dataclass(slots=True)
class Post(Elements):
    """Publish posts, in order, at the time `at`, or at that of the last post or tick if that is later.

    `points` is (n, 2); `payload` maps an index to compact JSON text. A post without keywords is in no list. An id is
    taken while its post is in the window, and free again once an earlier post of the same command expires that one.
    With `skip` posts that do not apply are left out and reported; otherwise one of them refuses the whole command.
    Those that came `apart`, in requests of their own, have all their faults reported. The log keeps neither.
    """

    ids: list[str]
    keywords: Keywords
    points: Floats
    at: int = 0
    payload: dict[int, bytes] = field(default_factory=dict)
    skip: bool = False
    apart: bool = False


@dataclass(slots=True)
class Tick:
    """Advance the time to `at`: posts that are as old as the window expire. One seq; nothing is logged if none does."""

    at: int

    def __len__(self) -> int:
        return 1


class Withdraw(Deletion):
    """Withdraw posts of the window. Unknown ids are ignored unless `must_exist`."""


@dataclass(slots=True)
class AddSubscriptions(Elements):
    """Add subscriptions. `ttl` maps an index to seconds.

    With `skip` those that do not apply are left out and reported; otherwise one of them refuses the whole command.
    """

    ids: pa.StringArray
    subscriptions: Subscriptions
    ttl: dict[int, float] = field(default_factory=dict)
    skip: bool = False

    def state_at(self, i: int) -> SubscriptionState:
        """The state of the subscription at this place."""
        return SubscriptionState(self.subscriptions.query(i), self.ttl.get(i))


@dataclass(slots=True)
class SetSubscription:
    """Add a subscription, or replace it. `ttl` in seconds, None for no time limit."""

    id: str
    keywords: Shown
    location: Point
    k: int = 10
    alpha: float = 0.5
    ttl: float | None = None


@dataclass(slots=True)
class ChangeSubscription:
    """Change the given fields of a subscription. A `ttl` of 0 removes the time limit, None keeps it. Logged as the
    resulting `SetSubscription`."""

    id: str
    keywords: Shown | None = None
    location: Point | None = None
    k: int | None = None
    alpha: float | None = None
    ttl: float | None = None


class DeleteSubscriptions(Deletion):
    """Delete subscriptions. Unknown ids are ignored unless `must_exist`."""


Command: TypeAlias = (
    Post | Tick | Withdraw | AddSubscriptions | SetSubscription | ChangeSubscription | DeleteSubscriptions
)
