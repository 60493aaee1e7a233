"""A road network and cars on it, in place of Brinkhoff's generator on that of North America.

Roads join places that are Gabriel neighbours: no third place is in the circle of which the road is a diameter. That is
a subset of Delaunay's edges, holds the shortest tree, and looks like roads between towns. A car drives the shortest way
to a place within `TRIP`, then to another, at a pace of its own.
"""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np
import shapely

from bench.maps.workload import WIDTH
from indexes.core.arrays import Floats

TRIP = 0.02
"""A destination is at most this far east or west, and north or south: 100 km."""


class Roads(NamedTuple):
    """Crossings, and for each the crossings next to it: next[first[i]:first[i + 1]]."""

    points: Floats  # (m, 2)
    first: np.ndarray  # (m + 1,)
    next: np.ndarray


def roads_between(points: Floats) -> Roads:
    """The Gabriel graph of these points, those at one place counted once. O(m log m)."""
    keys = np.unique(points[:, 0] + 1j * points[:, 1])
    there = np.column_stack([keys.real, keys.imag])
    triangles = shapely.get_parts(shapely.delaunay_triangles(shapely.MultiPoint(there)))
    corners = shapely.get_coordinates(triangles).reshape(-1, 4, 2)[:, :3]
    number = np.searchsorted(keys, corners[..., 0] + 1j * corners[..., 1])
    edges, blocked = [], []
    for i in range(3):
        a, b, c = (number[:, (i + j) % 3] for j in range(3))
        edge = np.minimum(a, b) * len(keys) + np.maximum(a, b)
        edges.append(edge)
        blocked.append(edge[((there[a] - there[c]) * (there[b] - there[c])).sum(axis=1) < 0.0])
    a, b = np.divmod(np.setdiff1d(np.concatenate(edges), np.concatenate(blocked)), len(keys))
    ends, other = np.concatenate([a, b]), np.concatenate([b, a])
    order = np.argsort(ends, kind="stable")
    return Roads(there, np.searchsorted(ends[order], np.arange(len(keys) + 1)), other[order])


def drive(roads: Roads, rng: np.random.Generator, cars: int, steps: int, speed: float) -> Floats:
    """Where cars are, (cars, steps, 2), once a second, at `speed` km/h on average; each begins at some crossing."""
    there = np.empty((cars, steps, 2))
    for i in range(cars):
        pace = speed / 3.6 / WIDTH * max(0.3, rng.normal(1, 0.2))
        way = [int(rng.integers(len(roads.points)))]
        length = 0.0
        while length <= pace * steps:
            leg = route(roads, way[-1], _destination(roads, rng, way[-1]))
            length += float(np.hypot(*np.diff(roads.points[[way[-1], *leg]], axis=0).T).sum())
            way += leg
        line = roads.points[way]
        along = np.concatenate([[0.0], np.hypot(*np.diff(line, axis=0).T).cumsum()])
        for j in range(2):
            there[i, :, j] = np.interp(pace * np.arange(steps), along, line[:, j])
    return there


def _destination(roads: Roads, rng: np.random.Generator, here: int) -> int:
    near = np.flatnonzero((np.abs(roads.points - roads.points[here]) <= TRIP).all(axis=1))
    near = near[near != here]
    neighbours = roads.next[roads.first[here] : roads.first[here + 1]]
    return int(rng.choice(near if len(near) else neighbours))


def route(roads: Roads, start: int, goal: int) -> list[int]:
    """The crossings of the shortest way, but for the start: A*, by the straight line to the goal."""
    points, first, after = roads

    def far(i: int, j: int) -> float:
        return float(np.hypot(points[i, 0] - points[j, 0], points[i, 1] - points[j, 1]))

    length, before = {start: 0.0}, {start: start}
    queue = [(far(start, goal), start)]
    done: set[int] = set()
    while queue:
        here = heapq.heappop(queue)[1]
        if here == goal:
            break
        if here in done:
            continue
        done.add(here)
        for there in after[first[here] : first[here + 1]].tolist():
            so_far = length[here] + far(here, there)
            if so_far < length.get(there, np.inf):
                length[there], before[there] = so_far, here
                heapq.heappush(queue, (so_far + far(there, goal), there))
    way = [goal]
    while way[-1] != start:
        way.append(before[way[-1]])
    return way[-2::-1]
