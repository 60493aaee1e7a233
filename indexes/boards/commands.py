"""The commands of a board: all that can change its state, and the only things that its log holds.

A command carries its data whole, so that applying the same commands in the same order gives the same state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indexes.boards.regions import Region, Regions

UPSERT, UPDATE, DELETE = 0, 1, 2

FloatArray = npt.NDArray[np.float64]

Filter: TypeAlias = tuple[str | None, ...]
"""What a subscription wants in each of the board's indexed fields: a value as `filters.text_of` writes it, or None for
any. An empty one filters nothing."""


@dataclass(frozen=True, slots=True)
class BoardConfig:
    """What a board ranks, and how it paints.

    `ks` are the list lengths on offer, ascending; `index` is the object index: "range-tree" or "kd-tree". `runs` = j
    paints with epsilon = 1/j, at most j tiles an object; 0 is exact. A `sketch` of B is the number of rectangles by
    which Paint-Sparse knows the subscriptions of a class; None: by themselves. With several range attributes there is
    one way to paint and one index: `algorithm` is "sparse", `runs` 0, `sketch` None and `index` "kd-tree". So it is
    with `indexed` fields of the payload, by which subscriptions filter.
    """

    range_attributes: tuple[str, ...]
    rank_attribute: str
    order: Literal["asc", "desc"] = "asc"
    ks: tuple[int, ...] = (10,)
    algorithm: Literal["sparse", "dense"] = "sparse"
    index: Literal["range-tree", "kd-tree"] = "range-tree"
    runs: int = 0
    sketch: int | None = None
    indexed: tuple[str, ...] = ()

    @property
    def dimensions(self) -> int:
        """The number of range attributes that kernels see: the indexed fields count, too."""
        return len(self.range_attributes) + len(self.indexed)


@dataclass(slots=True)
class Events:
    """Changes of objects, in order. Columns of equal length n.

    `op` is UPSERT, UPDATE or DELETE; `x` and `y` are NaN where the event does not give them; `y` has the user's sign.
    With d > 1 range attributes `x` is (n, d).
    `payload` maps an event's index to compact JSON text, or to None where the payload is taken away. With `skip` the
    events that do not apply are left out and reported; without it one of them refuses the whole command. A `batch` is
    told as one: only the state after the last event counts (Paint-Batch).
    """

    op: npt.NDArray[np.uint8]
    ids: list[str]
    x: FloatArray
    y: FloatArray
    payload: dict[int, bytes | None] = field(default_factory=dict)
    skip: bool = False
    batch: bool = False

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(slots=True)
class Subscribe:
    """New subscriptions. `ttl` maps an index to seconds.

    Each wants the ranks offset + 1 to offset + k; without a column `offset` that is 0 for all. `where` has a column for
    each indexed field, with values as in a `Filter`, or none at all where nobody filters.
    """

    ids: pa.StringArray
    regions: Regions
    k: npt.NDArray[np.int32]
    ttl: dict[int, float] = field(default_factory=dict)
    skip: bool = False
    offset: npt.NDArray[np.int32] | None = None
    where: tuple[pa.StringArray, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def depth(self) -> npt.NDArray[np.int32]:
        """How deep each list reaches into the ranking: offset + k."""
        return self.k if self.offset is None else self.k + self.offset


@dataclass(slots=True)
class SetSubscription:
    """Make a subscription or change it to this.

    A field that is None and a side that is NaN stay as they were (PATCH); a new subscription needs `k`, what it does
    not say of its region is unbounded, its offset is 0 and it filters nothing. With `must_exist` an unknown id is
    refused. `ttl` 0 takes the time limit away.
    """

    id: str
    region: Region | None = None
    k: int | None = None
    ttl: float | None = None
    must_exist: bool = False
    offset: int | None = None
    where: Filter | None = None


@dataclass(slots=True)
class Unsubscribe:
    """Delete subscriptions. Unknown ids are passed over unless `must_exist`."""

    ids: list[str]
    must_exist: bool = False

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(slots=True)
class Configure:
    """Change the list lengths on offer, the painting algorithm or its `runs`; None leaves one as it is.

    A `sketch` of 0 takes the sketch away.
    """

    ks: tuple[int, ...] | None = None
    algorithm: Literal["sparse", "dense"] | None = None
    runs: int | None = None
    sketch: int | None = None


Command = Events | Subscribe | SetSubscription | Unsubscribe | Configure
