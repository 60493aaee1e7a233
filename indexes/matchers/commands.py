"""The commands of a matcher: all that can change its state, and the only contents of its log.

A command carries its data whole, so that applying the same commands in the same order gives the same state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from indexes.core.arrays import Floats
from indexes.core.elements import Deletion, Elements
from indexes.matchers.config import Subscriptions

Interval: TypeAlias = tuple[float, float]
"""Both ends, closed; an infinite one is unbounded."""


class SubscriptionState(NamedTuple):
    """A subscription, as columns of one row, and its time limit in seconds or None."""

    subscription: Subscriptions
    ttl: float | None

    def same(self, other: SubscriptionState) -> bool:
        """Whether both are the same subscription, by value."""
        pairs = zip(self.subscription, other.subscription, strict=True)
        return self.ttl == other.ttl and all(np.array_equal(a, b) for a, b in pairs)


@dataclass(slots=True)
class AddSubscriptions(Elements):
    """New subscriptions. `ttl` maps an index to seconds.

    With `skip` invalid ones are left out and reported; without it one of them refuses the whole command.
    """

    ids: pa.StringArray
    subscriptions: Subscriptions
    ttl: dict[int, float] = field(default_factory=dict)
    skip: bool = False

    def state_at(self, i: int) -> SubscriptionState:
        """The state of the subscription at this place."""
        return SubscriptionState(self.subscriptions.take([i]), self.ttl.get(i))


@dataclass(slots=True)
class SetSubscription:
    """Make a subscription, or replace it; an existing one keeps its age.

    `subscription` is columns of one row. `ttl` in seconds, None for no time limit.
    """

    id: str
    subscription: Subscriptions
    ttl: float | None = None


@dataclass(slots=True)
class ChangeSubscription:
    """Change the given parts of a subscription.

    An interval or a weight of None removes the dimension, its weight with it. A `ttl` of 0 removes the time limit, None
    keeps it. It is logged as the resulting `SetSubscription`.
    """

    id: str
    intervals: Mapping[str, Interval | None] = field(default_factory=dict)
    weights: Mapping[str, float | None] = field(default_factory=dict)
    score: float | None = None
    ttl: float | None = None


class DeleteSubscriptions(Deletion):
    """Delete subscriptions. Unknown ids are ignored unless `must_exist`."""


@dataclass(slots=True)
class Match:
    """Events to be matched with their `k` best subscriptions, as columns: see `kernels.table`. As a prepared command
    it notifies live winners.

    `payload` maps an event's index to compact JSON text. `explain`: the result says of each winner which dimensions
    matched.
    """

    events: Floats
    k: int = 20
    explain: bool = False
    payload: dict[int, bytes] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.events)


Command = AddSubscriptions | SetSubscription | ChangeSubscription | DeleteSubscriptions | Match
