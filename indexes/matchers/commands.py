"""The commands of a matcher: all that can change its state, and the only contents of its log.

A command carries its data whole, so that applying the same commands in the same order gives the same state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa

from indexes.core.arrays import Floats
from indexes.core.elements import Deletion, Elements
from indexes.matchers.config import Row, Subscriptions

Interval: TypeAlias = tuple[float, float]
"""Both ends, closed; an infinite one is unbounded."""


class SubscriptionState(NamedTuple):
    """A subscription, as columns of one row, and its time limit in seconds or None."""

    subscription: Subscriptions
    ttl: float | None


@dataclass(slots=True)
class _Listed(Elements):
    """Subscriptions by column. `ttl` maps an index to seconds; the others have no time limit."""

    ids: Any
    subscriptions: Subscriptions
    ttl: dict[int, float] = field(default_factory=dict)

    def state_at(self, i: int) -> SubscriptionState:
        """The state of the subscription at this place."""
        return SubscriptionState(self.subscriptions.take(slice(i, i + 1)), self.ttl.get(i))


@dataclass(slots=True)
class AddSubscriptions(_Listed):
    """New subscriptions.

    With `skip` invalid ones are left out and reported; without it one of them refuses the whole command.
    """

    ids: pa.StringArray
    skip: bool = False


@dataclass(slots=True)
class SetSubscriptions(_Listed):
    """Make subscriptions or replace them, in order, each with a seq of its own. Existing ones keep their age; an id may
    occur several times. It is how changes are logged; those that change nothing are not in it."""

    ids: list[str]

    @property
    def changes(self) -> list[Change]:
        """The same one by one."""
        pairs = zip(self.ids, self.subscriptions.rows, strict=True)
        return [SetSubscription(key, row, self.ttl.get(i)) for i, (key, row) in enumerate(pairs)]


@dataclass(slots=True)
class SetSubscription:
    """Make a subscription, or replace it; an existing one keeps its age. It is logged as `SetSubscriptions` of one.

    `ttl` in seconds, None for no time limit.
    """

    id: str
    row: Row
    ttl: float | None = None


@dataclass(slots=True)
class ChangeSubscription:
    """Change the given parts of a subscription.

    An interval or a weight of None removes the dimension, its weight with it. A `ttl` of 0 removes the time limit, None
    keeps it. It is logged as the resulting `SetSubscriptions` of one.
    """

    id: str
    intervals: Mapping[str, Interval | None] = field(default_factory=dict)
    weights: Mapping[str, float | None] = field(default_factory=dict)
    score: float | None = None
    ttl: float | None = None


Change: TypeAlias = SetSubscription | ChangeSubscription


@dataclass(slots=True)
class ChangeSubscriptions:
    """Several changes in order, each for itself: those that do not apply are left out and reported. It is logged as the
    resulting `SetSubscriptions`."""

    changes: list[Change]


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


Command = AddSubscriptions | SetSubscriptions | Change | ChangeSubscriptions | DeleteSubscriptions | Match
