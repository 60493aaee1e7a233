"""The commands of a board: all that can change its state, and the only things that its log holds.

A command carries its data whole, so that applying the same commands in the same order gives the same state.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

UPSERT, UPDATE, DELETE = 0, 1, 2

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class BoardConfig:
    """What a board ranks, and how it paints.

    `ks` are the list lengths on offer, ascending; `index` is the object index: "range-tree" or "kd-tree".
    """

    range_attributes: tuple[str, ...]
    rank_attribute: str
    order: Literal["asc", "desc"] = "asc"
    ks: tuple[int, ...] = (10,)
    algorithm: Literal["sparse", "dense"] = "sparse"
    index: Literal["range-tree", "kd-tree"] = "range-tree"


@dataclass(slots=True)
class Events:
    """Changes of objects, in order. Columns of equal length n.

    `op` is UPSERT, UPDATE or DELETE; `x` and `y` are NaN where the event does not give them; `y` has the user's sign.
    `payload` maps an event's index to compact JSON text, or to None where the payload is taken away. With `skip` the
    events that do not apply are left out and reported; without it one of them refuses the whole command.
    """

    op: npt.NDArray[np.uint8]
    ids: list[str]
    x: FloatArray
    y: FloatArray
    payload: dict[int, bytes | None] = field(default_factory=dict)
    skip: bool = False

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(slots=True)
class Subscribe:
    """New subscriptions. `l` and `r` are infinite where unbounded; `ttl` maps an index to seconds."""

    ids: pa.StringArray
    l: FloatArray
    r: FloatArray
    k: npt.NDArray[np.int32]
    ttl: dict[int, float] = field(default_factory=dict)
    skip: bool = False

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(slots=True)
class SetSubscription:
    """Make a subscription or change it to this.

    A field that is None stays as it was (PATCH); a new subscription needs `k`, and its open ends are infinite. With
    `must_exist` an unknown id is refused. `ttl` 0 takes the time limit away.
    """

    id: str
    l: float | None = None
    r: float | None = None
    k: int | None = None
    ttl: float | None = None
    must_exist: bool = False


@dataclass(slots=True)
class Unsubscribe:
    """Delete subscriptions. Unknown ids are passed over unless `must_exist`."""

    ids: list[str]
    must_exist: bool = False

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(slots=True)
class Configure:
    """Change the list lengths on offer or the painting algorithm; None leaves one as it is."""

    ks: tuple[int, ...] | None = None
    algorithm: Literal["sparse", "dense"] | None = None


@dataclass(slots=True)
class Create:
    """Make the board."""

    config: BoardConfig


@dataclass(slots=True)
class Drop:
    """Delete the board with all that is in it."""


Command = Events | Subscribe | SetSubscription | Unsubscribe | Configure


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a command, or its element at `index`, does not apply.

    `field` is relative to the element ("values.delay", "id", "k"). `kind` says which refusal it is: "invalid" and
    "unknown" are unprocessable, "taken" and "in_use" conflict with the present state, "different" is a board with
    another configuration, "missing" a path that leads nowhere.
    """

    field: str
    reason: str
    kind: Literal["invalid", "unknown", "taken", "in_use", "missing", "different"] = "invalid"
    index: int | None = None


class Refused(Exception):
    """A command that does not apply. Nothing has changed."""

    def __init__(self, faults: list[Fault]) -> None:
        super().__init__("; ".join(f"{f.field}: {f.reason}" for f in faults[:3]))
        self.faults = faults
