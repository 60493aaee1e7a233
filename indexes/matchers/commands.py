"""The commands of a matcher: all that can change its state, and the only things that its log holds.

A command carries its data whole, so that applying the same commands in the same order gives the same state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indexes.matchers.model import Subscriptions
from indexes.matchers.pending import Standing

Interval: TypeAlias = tuple[float, float]
"""Both ends, closed; an infinite one is unbounded."""


@dataclass(slots=True)
class AddSubscriptions:
    """New subscriptions. `ttl` maps an index to seconds.

    With `skip` those that do not apply are left out and reported; without it one of them refuses the whole command.
    """

    ids: pa.StringArray
    subscriptions: Subscriptions
    ttl: dict[int, float] = field(default_factory=dict)
    skip: bool = False

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: list[int]) -> AddSubscriptions:
        """Those at these places, in this order."""
        place = {old: new for new, old in enumerate(rows)}
        ttl = {place[i]: seconds for i, seconds in self.ttl.items() if i in place}
        ids = self.ids.take(pa.array(rows, pa.int64()))
        return AddSubscriptions(ids, self.subscriptions.take(rows), ttl, self.skip)

    def standing(self, i: int) -> Standing:
        """What the one at this place will be."""
        return Standing(self.subscriptions.take([i]), self.ttl.get(i))


@dataclass(slots=True)
class SetSubscription:
    """Make a subscription, or change it to this; what is there keeps its age.

    `subscription` is columns of one row. `ttl` in seconds, None for no time limit.
    """

    id: str
    subscription: Subscriptions
    ttl: float | None = None


@dataclass(slots=True)
class ChangeSubscription:
    """Change what is named of a subscription and leave the rest.

    An interval or a weight of None takes the dimension out, its weight with it. A `ttl` of 0 takes the time limit away,
    None leaves it. It is logged as the `SetSubscription` that it comes to.
    """

    id: str
    intervals: Mapping[str, Interval | None] = field(default_factory=dict)
    weights: Mapping[str, float | None] = field(default_factory=dict)
    score: float | None = None
    ttl: float | None = None


@dataclass(slots=True)
class DeleteSubscriptions:
    """Delete subscriptions. Unknown ids are passed over unless `must_exist`."""

    ids: list[str]
    must_exist: bool = False

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(slots=True)
class Match:
    """Events whose `k` best subscriptions are asked for, as columns: see `forms.events_of`. Prepared as a command, it
    tells the winners.

    `payload` maps an event's index to compact JSON text. `explain` says of each winner which dimensions matched.
    """

    events: npt.NDArray[np.float64]
    k: int = 20
    explain: bool = False
    payload: dict[int, bytes] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.events)


Command = AddSubscriptions | SetSubscription | ChangeSubscription | DeleteSubscriptions | Match
