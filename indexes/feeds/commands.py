"""The commands of a feed: all that can change its state, and the only things that its log holds.

A command carries its data whole, so that applying the same commands in the same order gives the same state. Times are
whole milliseconds, or whatever unit the span of the window is in.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from indexes.feeds.model import Keywords, Point, Shown, Standing, Subscriptions

Float64 = NDArray[np.float64]


@dataclass(slots=True)
class Post:
    """Posts come, in order, at the time `at`; one before that of the last post or tick counts as that one.

    `points` is (n, 2); `payload` maps an index to compact JSON text. A post may be without keywords: it is in nobody's
    list. An id is taken while its post is in the window; where an earlier post of the same command pushes that one out,
    it is free again. With `skip` those that do not apply are left out and reported; without it one of them refuses the
    whole command.
    """

    ids: pa.StringArray
    keywords: Keywords
    points: Float64
    at: int = 0
    payload: dict[int, bytes] = field(default_factory=dict)
    skip: bool = False

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: list[int]) -> Post:
        """Those at these places, in this order."""
        place = {old: new for new, old in enumerate(rows)}
        payload = {place[i]: text for i, text in self.payload.items() if i in place}
        ids = self.ids.take(pa.array(rows, pa.int64()))
        return Post(ids, self.keywords.take(rows), self.points[rows], self.at, payload, self.skip)


@dataclass(slots=True)
class Tick:
    """It is `at`: posts that are as old as the window go. One seq; where none goes, nothing is logged."""

    at: int

    def __len__(self) -> int:
        return 1


@dataclass(slots=True)
class Withdraw:
    """Posts of the window go. Unknown ids are passed over unless `must_exist`."""

    ids: list[str]
    must_exist: bool = False

    def __len__(self) -> int:
        return len(self.ids)


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
        return Standing(self.subscriptions.asked(i), self.ttl.get(i))


@dataclass(slots=True)
class SetSubscription:
    """Make a subscription, or change it to this. `ttl` in seconds, None for no time limit."""

    id: str
    keywords: Shown
    location: Point
    k: int = 10
    alpha: float = 0.5
    ttl: float | None = None


@dataclass(slots=True)
class ChangeSubscription:
    """Change what is named of a subscription and leave the rest. A `ttl` of 0 takes the time limit away, None leaves
    it. It is logged as the `SetSubscription` that it comes to."""

    id: str
    keywords: Shown | None = None
    location: Point | None = None
    k: int | None = None
    alpha: float | None = None
    ttl: float | None = None


@dataclass(slots=True)
class DeleteSubscriptions:
    """Delete subscriptions. Unknown ids are passed over unless `must_exist`."""

    ids: list[str]
    must_exist: bool = False

    def __len__(self) -> int:
        return len(self.ids)


Command: TypeAlias = (
    Post | Tick | Withdraw | AddSubscriptions | SetSubscription | ChangeSubscription | DeleteSubscriptions
)
