"""Regions of the space of a board's range attributes, one by one and by column.

A region is a shape and its sides, numbers in the order that the shape says:

    box          l_1, r_1, ..., l_d, r_d      l_i <= x_i <= r_i; an end is infinite where unbounded
    disc         c_1, c_2, radius             at most that far from the centre; the radius is 0 or more
    half_plane   a_1, a_2, b                  a . x <= b; not both of a are 0
    simplex      the three corners            inside or on the triangle

In columns a shape is its place in `SHAPES`. The shapes after the first are for boards with two range attributes. On a
board with one, every region is a range.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan, nan
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from indexes.boards.space.kernels.shapes import BOX, SHAPES, offered, width
from indexes.core import aligned
from indexes.core.arrays import Bytes, Floats
from indexes.core.room import Room

REVERSED = "the lower end lies above the upper end"
NEGATIVE = "must be 0 or more"
NO_NORMAL = "must not be 0 in both"


def widest(d: int) -> int:
    """The most sides that a region may have in `d` dimensions."""
    return max(width(shape, d) for shape in offered(d))


class Region(NamedTuple):
    """One region. In a change of a subscription, a side that is NaN stays as it was."""

    shape: str
    sides: tuple[float, ...]

    @property
    def ends(self) -> list[tuple[float, float]]:
        """The ends of a box, by attribute."""
        return list(zip(self.sides[::2], self.sides[1::2], strict=True))

    @property
    def fault(self) -> tuple[str, str] | None:
        """The field at fault and the reason, None if this is a valid region."""
        if self.shape == "box" and any(l > r for l, r in self.ends):
            return "range", REVERSED
        if self.shape == "disc" and self.sides[2] < 0:
            return "disc.radius", NEGATIVE
        if self.shape == "half_plane" and self.sides[:2] == (0.0, 0.0):
            return "half_plane.a", NO_NORMAL
        return None

    @property
    def partial(self) -> bool:
        """Whether some side is to stay as it was."""
        return any(map(isnan, self.sides))


def between(l: float | None, r: float | None) -> Region:
    """The range from l to r of the one range attribute; None: as it was, unbounded where there was none.

    >>> between(500.0, float("inf"))
    Region(shape='box', sides=(500.0, inf))
    """
    return Region("box", (nan if l is None else l, nan if r is None else r))


def everywhere(d: int) -> Region:
    """All of the space."""
    return Region("box", (-np.inf, np.inf) * d)


def merged(change: Region, before: Region) -> Region:
    """A region with the sides that it leaves out taken from the one before; of a box they are unbounded where that was
    none. Raises ValueError when another shape lacks sides."""
    if not change.partial:
        return change
    if change.shape != before.shape:
        if change.shape != "box":
            raise ValueError(f"the subscription has no {change.shape} so far: give it whole")
        before = everywhere(len(change.sides) // 2)
    pairs = zip(change.sides, before.sides, strict=True)
    return Region(change.shape, tuple(old if isnan(new) else new for new, old in pairs))


@dataclass(frozen=True, slots=True)
class Regions:
    """Regions of `d` dimensions by column. Row i of `sides` holds side i of each; a shape with fewer sides leaves the
    last ones 0.

    On a board with one range attribute the two rows are the columns l and r, and all shapes are boxes, which columns
    that are `roomy` say without memory for each.
    """

    d: int
    shape: Bytes
    sides: Floats

    @classmethod
    def empty(cls, d: int, size: int = 0) -> Regions:
        """Columns of `size` boxes with sides 0."""
        return cls(d, np.zeros(size, np.uint8), np.zeros((widest(d), size)))

    @classmethod
    def roomy(cls, d: int, size: int) -> Regions:
        """As `empty`, for large columns with room that takes memory once it is used."""
        shape = np.broadcast_to(np.uint8(BOX), size) if d == 1 else aligned.apart(size, np.uint8)
        return cls(d, shape, aligned.apart((widest(d), size)))

    @classmethod
    def of(cls, regions: list[Region], d: int) -> Regions:
        """These regions, by column."""
        out = cls.empty(d, len(regions))
        for i, region in enumerate(regions):
            out.put(i, region)
        return out

    def __len__(self) -> int:
        return len(self.shape)

    @property
    def l(self) -> Floats:  # noqa: E743
        """The lower ends, on a board with one range attribute."""
        return self.sides[0]

    @property
    def r(self) -> Floats:
        """The upper ends, on a board with one range attribute."""
        return self.sides[1]

    def at(self, i: int) -> Region:
        """One of them."""
        shape = SHAPES[self.shape[i]]
        return Region(shape, tuple(self.sides[: width(shape, self.d), i].tolist()))

    def put(self, i: int, region: Region) -> None:
        """Replace one of them."""
        if self.d > 1:
            self.shape[i] = SHAPES.index(region.shape)
        n = len(region.sides)
        self.sides[:n, i] = region.sides
        self.sides[n:, i] = 0.0

    def take(self, at: npt.NDArray[np.integer] | slice) -> Regions:
        """Copies of some of them."""
        if isinstance(at, slice):
            return Regions(self.d, self.shape[at].copy(), self.sides[:, at].copy())
        # `take` would first make memory of all shapes of one that has none.
        return Regions(self.d, self.shape[at], self.sides.take(at, axis=1))

    def first(self, n: int, room: Room) -> Regions:
        """Copies of the first `n`, in this room."""
        return Regions(self.d, room.copy(self.shape[:n]), room.copy(self.sides[:, :n]))

    def place(self, at: npt.NDArray[np.integer], regions: Regions) -> None:
        """Replace those at these places."""
        if self.d > 1:
            self.shape[at] = regions.shape
        for mine, theirs in zip(self.sides, regions.sides, strict=True):
            mine[at] = theirs

    def take_over(self, other: Regions, at: npt.NDArray[np.integer] | slice) -> None:
        """Replace those at these places by those of others at the same places."""
        if self.d > 1:
            self.shape[at] = other.shape[at]
        for mine, theirs in zip(self.sides, other.sides, strict=True):
            mine[at] = theirs[at]

    def faults(self) -> list[tuple[int, str, str]]:
        """The place, field and reason of each that is no valid region. O(m)."""
        found: list[tuple[int, str, str]] = []
        box = self.shape == BOX
        for l, r in zip(self.sides[: 2 * self.d : 2], self.sides[1 : 2 * self.d : 2], strict=True):
            bad = np.flatnonzero((l > r) & box)
            found += [(int(i), "range", REVERSED) for i in bad]
        if self.d == 2:
            shape, (a_1, a_2, radius) = self.shape, self.sides[:3]
            bad = np.flatnonzero((shape == SHAPES.index("disc")) & (radius < 0))
            found += [(int(i), "disc.radius", NEGATIVE) for i in bad]
            bad = np.flatnonzero((shape == SHAPES.index("half_plane")) & (a_1 == 0) & (a_2 == 0))
            found += [(int(i), "half_plane.a", NO_NORMAL) for i in bad]
        return found


def ranges(l: npt.ArrayLike, r: npt.ArrayLike) -> Regions:
    """Ranges of the one range attribute, by column. O(m)."""
    sides = np.array((l, r), np.float64)
    return Regions(1, np.zeros(sides.shape[1], np.uint8), sides)


def joined(pieces: list[Regions]) -> Regions:
    """Columns one after another; at least one."""
    if len(pieces) == 1:
        return pieces[0]
    shape, sides = (
        np.concatenate(columns, axis=-1) for columns in zip(*((p.shape, p.sides) for p in pieces), strict=True)
    )
    return Regions(pieces[0].d, shape, sides)
