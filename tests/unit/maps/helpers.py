"""What the tests of zones share."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable
from typing import Any, cast

import numpy as np

from tests.oracles import top_k as oracle
from tests.unit.maps.top_worlds import (
    scores_of,
)

CLOSE = 1e-9
"""What equal scores may differ by: far less than anything in these worlds, far more than rounding."""


def moved(metric: str, q: tuple[float, float], far: float, angle: float) -> tuple[float, float]:
    """A place `far` from q; on the sphere, in that direction."""
    if metric != "great-circle":
        stretch = 1.0 if metric == "euclidean" else 1.0 / (abs(math.cos(angle)) + abs(math.sin(angle)))
        return q[0] + far * stretch * math.cos(angle), q[1] + far * stretch * math.sin(angle)
    up = math.radians(q[1])
    turn = far / oracle.RADIUS
    lat = math.asin(math.sin(up) * math.cos(turn) + math.cos(up) * math.sin(turn) * math.cos(angle))
    along = math.atan2(math.sin(angle) * math.sin(turn) * math.cos(up), math.cos(turn) - math.sin(up) * math.sin(lat))
    return q[0] + math.degrees(along), math.degrees(lat)


def check_inside(zone: Any, score: Any, world: Any, x: tuple[float, float]) -> None:
    """The k best of the candidates are a right top-k at x, up to equal scores."""
    there = scores_of(score, world, x)
    wanted = sorted(there.values())[: zone.k]
    ranked, mine = zone.ranked(*x)
    assert [there[int(zone.slots[i])] for i in ranked] == mine.tolist()
    assert len(mine) == len(wanted)
    for a, b in zip(mine.tolist(), wanted, strict=True):
        assert a == b or abs(a - b) <= CLOSE * max(1.0, abs(a)), (x, mine, wanted)
    if zone.ordered:
        order = [there[int(slot)] for slot in zone.slots[: zone.members]]
        assert all(a <= b + CLOSE * max(1.0, abs(b)) or a == b for a, b in itertools.pairwise(order)), order


def arrays_of(columns: Iterable[object]) -> list[np.ndarray]:
    """The arrays of a structure that is made of arrays alone."""
    found = list(columns)
    assert all(isinstance(one, np.ndarray) for one in found)
    return cast("list[np.ndarray]", found)
