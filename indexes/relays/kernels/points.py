"""Boxes as points: [l1, r1] x ... x [ld, rd] is (-l1, r1, ..., -ld, rd), and a box contains another exactly when its
point is at least the other's in every coordinate ([Covering], Fact 1).

A table keeps points by *slot*, a small number that is used again when its subscription has gone. ``exact`` is what
decides. ``coarse`` holds the same coordinates rounded to float32: rounding keeps the order, so what is not at least
something in ``coarse`` is not so in ``exact`` either, and what is greater in ``coarse`` is greater in ``exact``.
Indexes search in ``coarse``, sixteen coordinates at a time, and look into ``exact`` where it can matter.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from indexes.compiled.jit import internal, kernel
from indexes.core import aligned
from indexes.core.arrays import Floats, Ints, Ints32, int64
from indexes.relays.kernels.comparisons import ROW, row_reaches

Float32s: TypeAlias = NDArray[np.float32]
T = TypeVar("T")

NO_SLOTS: Ints32 = np.empty(0, np.int32)


class Points(NamedTuple):
    """The arrays of a table of points of D coordinates, whose rows in `coarse` are filled up with zeros to `width`."""

    exact: Floats  # (slots, D)
    coarse: Float32s  # flat: row s begins at s * width
    age: Ints  # by slot; the older, the smaller


def width_of(coordinates: int) -> int:
    """How long a row of coarse coordinates is."""
    return -(-coordinates // ROW) * ROW


def empty_points(slots: int, coordinates: int) -> Points:
    """A table of so many slots."""
    coarse = aligned.zeros(slots * width_of(coordinates), np.float32)
    return Points(aligned.zeros((slots, coordinates)), coarse, np.zeros(slots, np.int64))


def grown(points: Points, slots: int) -> Points:
    """The table with room for at least so many slots, half as many again as before or more. O(slots)."""
    have, coordinates = points.exact.shape
    if slots <= have:
        return points
    bigger = empty_points(max(slots, have + have // 2, 64), coordinates)
    bigger.exact[:have] = points.exact
    bigger.coarse[: len(points.coarse)] = points.coarse
    bigger.age[:have] = points.age
    return bigger


def longer(column: NDArray[Any], length: int) -> NDArray[Any]:
    """The column with room for more. What is nobody's yet is 0, so that the same index is the same to the last bit."""
    found = aligned.zeros(max(length, len(column)), column.dtype)
    found[: len(column)] = column
    return found


def copied(thing: T, arrays: Iterable[NDArray[Any]]) -> T:
    """A deep copy of something that holds these arrays, which begin at lines of the cache in the copy too."""
    memo: dict[int, Any] = {}
    for array in arrays:
        memo[id(array)] = found = aligned.empty(array.shape, array.dtype)
        found[...] = array
    return deepcopy(thing, memo)


def as_points(lo: Floats, hi: Floats) -> Floats:
    """Boxes of shape (n, d) as points of shape (n, 2d); 0 has no sign."""
    if len(lo) == 1:
        # A call of the kernel takes longer, the more so where it was not called lately.
        return np.array([[x for a, b in zip(lo[0].tolist(), hi[0].tolist(), strict=True) for x in (0.0 - a, b + 0.0)]])
    out = np.empty((len(lo), 2 * lo.shape[1]))
    _join(np.ascontiguousarray(lo, np.float64), np.ascontiguousarray(hi, np.float64), out)
    return out


@kernel
def _join(lo: Floats, hi: Floats, out: Floats) -> None:
    for i in range(lo.shape[0]):
        for j in range(lo.shape[1]):
            out[i, 2 * j] = 0.0 - lo[i, j]
            out[i, 2 * j + 1] = hi[i, j] + 0.0


def as_boxes(exact: Floats) -> tuple[Floats, Floats]:
    """Points as boxes (lo, hi)."""
    return 0.0 - exact[:, 0::2], exact[:, 1::2].copy()


@internal
def write_points(points: Points, slots: Ints32, rows: Floats, born: int) -> None:
    """Put points (see `as_points`) into slots, the first with the age `born`, each following one with the next."""
    D = rows.shape[1]
    width = -(-D // ROW) * ROW
    for i in range(slots.size):
        s = int64(slots[i])
        for j in range(D):
            points.exact[s, j] = rows[i, j]
            points.coarse[s * width + j] = np.float32(rows[i, j])
        points.age[s] = born + i


@kernel
def write(points: Points, slots: Ints32, rows: Floats, born: int) -> None:
    """See `write_points`."""
    write_points(points, slots, rows, born)


def coverers_first(points: Points, slots: Ints32) -> Ints32:
    """The slots in an order in which every one comes after all that cover it: by the points, greatest first, then by
    age. Sums of coordinates would tie where sides are unbounded."""
    return slots[np.lexsort((points.age[slots], *(-points.exact[slots].T[::-1])))]


@kernel
def are_sides(lo: Floats, hi: Floats) -> bool:
    """Whether all sides are intervals, none of them at infinity."""
    good = True
    for i in range(lo.shape[0]):
        for j in range(lo.shape[1]):
            a, b = lo[i, j], hi[i, j]
            good &= a <= b and a < np.inf and b > -np.inf
    return good


@internal
def covers(points: Points, slot: int, other: int) -> bool:
    """Whether the box of a slot covers that of another: it contains it and, where they are equal, is the older one."""
    exact = points.exact
    contains = True
    equal = True
    for j in range(exact.shape[1]):
        a, b = exact[slot, j], exact[other, j]
        contains &= a >= b
        equal &= a == b
    return contains and not (equal and points.age[slot] >= points.age[other])


@internal
def goes_before(points: Points, slot: int, other: int) -> bool:
    """Whether a slot comes before another in the order of `coverers_first`."""
    exact = points.exact
    j = 0
    while j < exact.shape[1] and exact[slot, j] == exact[other, j]:
        j += 1
    if j < exact.shape[1]:
        return bool(exact[slot, j] > exact[other, j])
    return bool(points.age[slot] < points.age[other])


@internal
def reaches(a: Float32s, base: int, b: Float32s, other: int, width: int) -> bool:
    """Whether a[base + j] >= b[other + j] for all j < width, a multiple of 16."""
    met = True
    j = 0
    while met and j < width:
        met = row_reaches(a, base + j, b, other + j)
        j += ROW
    return met
