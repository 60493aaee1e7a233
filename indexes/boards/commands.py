"""The commands of a board: what changes its state, and what the log holds.

A command carries all of its data, so that the same commands in the same order give the same state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from indexes.boards.regions import Region, Regions
from indexes.boards.zones import Zone
from indexes.core.arrays import Bytes, Floats, Rows
from indexes.core.spaced_ids import SpacedIds

UPSERT, UPDATE, DELETE = 0, 1, 2

Filter: TypeAlias = tuple[str | None, ...]
"""The value that a subscription requires in each of the board's indexed fields, as `filters.text_of` writes it, None
for any. An empty one filters nothing."""


@dataclass(slots=True)
class Events:
    """Changes of objects, in order. Columns of equal length n.

    `op` is UPSERT, UPDATE or DELETE; `x` and `y` are NaN where the event does not give them; `y` has the user's sign.
    With d > 1 range attributes `x` is (n, d). `payload` maps an event's index to compact JSON text, or to None for no
    payload. With `skip` the events that do not apply are left out and reported; without it one of them refuses the
    command. Subscribers get a `batch` as one change, from the state before it to that after it (Paint-Batch). `counted`
    has the tiles of each event counted apart, which the log does not keep.
    """

    op: Bytes
    ids: list[str] | SpacedIds
    x: Floats
    y: Floats
    payload: dict[int, bytes | None] = field(default_factory=dict)
    skip: bool = False
    batch: bool = False
    counted: bool = False

    def __len__(self) -> int:
        return len(self.ids)


class SubscriptionState(NamedTuple):
    """A subscription to the ranks offset + 1 to k, k being its class. The region is as kernels see it, with the filter;
    `ttl` is in seconds, None for no limit."""

    region: Region
    k: int
    ttl: float | None
    offset: int = 0


@dataclass(slots=True)
class AddSubscriptions:
    """New subscriptions. `ttl` maps an index to seconds.

    Each is to the ranks offset + 1 to offset + k; without a column `offset` that is 0 for all. `where` has a column for
    each indexed field, with values as in a `Filter`, or no columns where none filters.
    """

    ids: pa.StringArray
    regions: Regions
    k: Rows
    ttl: dict[int, float] = field(default_factory=dict)
    skip: bool = False
    offset: Rows | None = None
    where: tuple[pa.StringArray, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def depth(self) -> Rows:
        """The depth of each list in the ranking: offset + k."""
        return self.k if self.offset is None else self.k + self.offset

    def take(self, rows: list[int]) -> AddSubscriptions:
        """Some of them."""
        places = {old: new for new, old in enumerate(rows)}
        ttl = {places[i]: seconds for i, seconds in self.ttl.items() if i in places}
        return AddSubscriptions(
            self.ids.take(pa.array(rows, pa.int64())),
            self.regions.take(np.array(rows, np.int64)),
            self.k[rows],
            ttl,
            self.skip,
            None if self.offset is None else self.offset[rows],
            tuple(column.take(pa.array(rows, pa.int64())) for column in self.where),
        )

    def state_at(self, i: int) -> SubscriptionState:
        """The state of the i-th subscription once it is added, where regions are as kernels see them."""
        offset = 0 if self.offset is None else int(self.offset[i])
        return SubscriptionState(self.regions.at(i), offset + int(self.k[i]), self.ttl.get(i), offset)


@dataclass(slots=True)
class SetSubscription:
    """Add a subscription or change it to this.

    A field that is None and a side that is NaN stay as they were (PATCH). A new subscription needs `k`; sides that are
    left out are unbounded, its offset is 0 and it filters nothing. With `must_exist` an unknown id is refused. `ttl` 0
    removes the time limit.
    """

    id: str
    region: Region | None = None
    k: int | None = None
    ttl: float | None = None
    must_exist: bool = False
    offset: int | None = None
    where: Filter | None = None


@dataclass(slots=True)
class DeleteSubscriptions:
    """Delete subscriptions. Unknown ids are skipped, or refused with `must_exist`."""

    ids: list[str]
    must_exist: bool = False

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(slots=True)
class Configure:
    """Change the list lengths on offer, the painting algorithm, its `runs`, its `sketch` or the number of its `zones`
    (0: none); or cut it into these zones. None leaves a field as it is."""

    ks: tuple[int, ...] | None = None
    algorithm: Literal["sparse", "dense"] | None = None
    runs: int | None = None
    sketch: int | None = None
    zones: int | None = None
    cut: tuple[Zone, ...] | None = None


Command = Events | AddSubscriptions | SetSubscription | DeleteSubscriptions | Configure
