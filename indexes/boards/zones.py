"""Zones of subscription space: a k-d cut of the plane of (l, r) into parts with about as many subscriptions each.

A zone is half-open, [lo, hi) on both axes; one without an upper end takes in the unbounded subscriptions there. The
zones of a cut are disjoint and cover the plane, so that a subscription lies in one of them, and a tile touches those
that its rectangle meets ([Range top-k] III-A: brokers own zones of S).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from indexes.core.arrays import INF, Bools, Floats, Ints

MOST_ZONES = 4096


class Zone(NamedTuple):
    """One zone: l in [l_lo, l_hi) and r in [r_lo, r_hi). An upper end of infinity is inclusive."""

    l_lo: float
    l_hi: float
    r_lo: float
    r_hi: float


EVERYWHERE = Zone(-INF, INF, -INF, INF)


class Cut(NamedTuple):
    """The zones of a board from the seq `seq` on, by their place. Of two cuts of a board, also of one that was deleted
    in between, the later one has the greater `version`."""

    version: int
    seq: int
    zones: tuple[Zone, ...]


def cut_zones(l: Floats, r: Floats, n: int, weight: Floats | None = None) -> tuple[Zone, ...]:
    """Cut the plane into n zones with about the same number of these points each, or of their `weight`.

    Where points coincide there are fewer zones. The axis that is cut is the one whose halves are closer to their share,
    across l and across r in turn where both are equal. O(m log n) for m points.
    """
    found: list[Zone] = []
    _cut(EVERYWHERE, np.arange(len(l)), (l, r), weight, n, 0, found)
    return tuple(found)


def _cut(
    zone: Zone, rows: Ints, sides: tuple[Floats, Floats], weight: Floats | None, n: int, depth: int, found: list[Zone]
) -> None:
    if n == 1 or not len(rows):
        found.append(zone)
        return
    share = (n // 2) / n
    best: tuple[float, int, float, Bools] | None = None
    for axis in (depth % 2, 1 - depth % 2):
        at = _split_at(sides[axis][rows], None if weight is None else weight[rows], share)
        if at is None:
            continue
        low = sides[axis][rows] < at
        part = np.count_nonzero(low) / len(rows) if weight is None else weight[rows][low].sum() / weight[rows].sum()
        error = abs(part - share)
        if best is None or error < best[0] - 0.01:
            best = error, axis, at, low
    if best is None:
        found.append(zone)
        return
    _, axis, at, low = best
    if axis == 0:
        lower, upper = zone._replace(l_hi=at), zone._replace(l_lo=at)
    else:
        lower, upper = zone._replace(r_hi=at), zone._replace(r_lo=at)
    _cut(lower, rows[low], sides, weight, n // 2, depth + 1, found)
    _cut(upper, rows[~low], sides, weight, n - n // 2, depth + 1, found)


def _split_at(values: Floats, weight: Floats | None, share: float) -> float | None:
    """The finite value below which about that share of the points lies, and some do; None where all are equal."""
    distinct, counts = np.unique(values, return_counts=True)
    if len(distinct) < 2:
        return None
    if weight is not None:
        counts = np.bincount(np.searchsorted(distinct, values), weight)
    below = np.cumsum(counts)[:-1] / max(counts.sum(), np.finfo(float).tiny)
    at = float(distinct[1:][np.abs(below - share).argmin()])
    if at == INF:
        at = 0.0 if distinct[-2] == -INF else float(np.nextafter(distinct[-2], INF))
    return at


def zone_of(zones: Iterable[Zone], l: float, r: float) -> int:
    """The place of the zone of a subscription."""
    return next(i for i, zone in enumerate(zones) if _inside(l, zone.l_lo, zone.l_hi) and _inside(r, *zone[2:]))


def _inside(value: float, lo: float, hi: float) -> bool:
    return lo <= value and (value < hi or hi == INF)


def counts_of(zones: tuple[Zone, ...], l: Floats, r: Floats) -> list[int]:
    """How many of these points each zone has. O(m n)."""
    found = []
    for l_lo, l_hi, r_lo, r_hi in zones:
        inside = (l >= l_lo) & (r >= r_lo)
        if l_hi < INF:
            inside &= l < l_hi
        if r_hi < INF:
            inside &= r < r_hi
        found.append(int(np.count_nonzero(inside)))
    return found


def imbalance(counts: list[int], n: int) -> float:
    """How many times its share of n zones the largest has; 0 without subscriptions."""
    total = sum(counts)
    return max(counts) * n / total if total else 0.0


def touched(zones: Floats, sides: Floats) -> Bools:
    """For pairs of zones and tiles by row, whether the tile meets the zone.

    A zone has the columns of `Zone`, a tile its four sides, infinite where unbounded.
    """
    l_outer, l_inner, r_inner, r_outer = sides.T
    l_lo, l_hi, r_lo, r_hi = zones.T
    below = (r_inner < r_hi) | (r_hi == INF)
    found: Bools = (l_lo <= l_inner) & (l_outer < l_hi) & below & ((r_lo < r_outer) | (r_outer == INF))
    return found


def fields_of_zones(zones: tuple[Zone, ...]) -> list[list[float | None]]:
    """Zones as a manifest and the log have them: null for an infinite end."""
    return [[None if abs(side) == INF else side for side in zone] for zone in zones]


def zones_of_fields(fields: Iterable[Iterable[float | None]]) -> tuple[Zone, ...]:
    """The inverse of `fields_of_zones`."""
    return tuple(
        Zone(*(end if side is None else side for side, end in zip(zone, EVERYWHERE, strict=True))) for zone in fields
    )
