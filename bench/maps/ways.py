"""Ways to follow top-k along walks: a search wherever the k best change, or a zone wherever one leaves the last; and
what a client does in between."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bench.maps.workload import World
from indexes.compiled.jit import kernel
from indexes.core.arrays import Floats, Ints
from indexes.maps.kernels.floats import float_kernel
from indexes.maps.kernels.metrics import distance
from indexes.maps.kernels.scores import Scoring, score_of, static_parts
from indexes.maps.kernels.top_k import Tops, tops
from indexes.maps.kernels.top_scratch import NODES, TopScratch, scratch_for
from indexes.maps.kernels.top_zone import TopZones, zones
from indexes.maps.object_index import PlaceIndex
from indexes.maps.zones.top import TopSearch, TopZone


def rows_for(n: int, wide: int) -> TopZones:
    """Room for n answers of so many objects."""
    return TopZones(
        np.zeros((n, wide), np.int64),
        np.zeros((n, wide)),
        np.zeros((n, wide)),
        np.zeros(n, np.int64),
        np.zeros(n, np.int64),
        np.zeros(n),
    )


def searching(
    index: PlaceIndex, s: Scoring, there: Floats, k: int, room: TopScratch, rows: TopZones
) -> Callable[[], None]:
    """Searches for the k best at each of these places."""
    found = Tops(rows.slots, rows.scores, rows.far, rows.number)
    return lambda: tops(index.view, s, there, k, room, found)


def zoning(
    index: PlaceIndex, s: Scoring, there: Floats, k: int, m: int, room: TopScratch, rows: TopZones
) -> Callable[[], None]:
    """Searches for an m-relaxed zone at each of these places."""
    return lambda: zones(index.view, s, there, k, m, False, room, rows)


def opened_by(room: TopScratch, run: Callable[[], None], number: int) -> float:
    """How many nodes a search opens."""
    room.counted[:] = 0
    run()
    return float(room.counted[NODES]) / number


def changes_of(world: World, index: PlaceIndex, s: Scoring, k: int) -> Floats:
    """Where on the walks the set of the k best is another one than a second before, their beginnings included."""
    room = scratch_for(index.view, k, 1)
    there = []
    for walk in world.walks:
        rows = rows_for(len(walk), k)
        searching(index, s, np.ascontiguousarray(walk), k, room, rows)()
        best = np.sort(rows.slots, axis=1)
        other = (best[1:] != best[:-1]).any(axis=1)
        there.append(walk[np.concatenate([[True], other])])
    return np.concatenate(there)


def asked_by(world: World, index: PlaceIndex, s: Scoring, k: int, m: int) -> Floats:
    """Where zones are asked for: at the beginnings of the walks, and where they leave one."""
    walks = np.ascontiguousarray(world.walks)
    room, asked = scratch_for(index.view, k, m), []
    going, at = np.arange(len(walks)), np.zeros(len(walks), np.int64)
    while len(going):
        there = walks[going, at[going]]
        rows = rows_for(len(there), k + m - 1)
        zoning(index, s, there, k, m, room, rows)()
        asked.append(there)
        for walk, x, y, radius in zip(going.tolist(), *there.T.tolist(), rows.radius.tolist(), strict=True):
            at[walk] = _next_outside(walks[walk], at[walk] + 1, x, y, radius)
        going = going[at[going] < walks.shape[1]]
    return np.concatenate(asked)


@kernel
def _next_outside(walk: Floats, t: int, x: float, y: float, radius: float) -> int:
    while t < walk.shape[0] and (walk[t, 0] - x) ** 2 + (walk[t, 1] - y) ** 2 < radius * radius:
        t += 1
    return t


class Stay(NamedTuple):
    """A zone, and where a walk was while in it."""

    zone: TopZone
    there: Floats  # (steps, 2)


def stays(world: World, index: PlaceIndex, s: Scoring, k: int, m: int, most: int) -> list[Stay]:
    """At most so many zones of the walks, and the steps in each."""
    search = TopSearch(index)
    found: list[Stay] = []
    for walk in world.walks[: max(1, most // 4)]:
        t = 0
        while t < len(walk) and len(found) < most:
            zone = search.zone((float(walk[t, 0]), float(walk[t, 1])), k, m, s)
            end = int(_next_outside(walk, t + 1, *zone.place, zone.radius))
            found.append(Stay(zone, np.ascontiguousarray(walk[t:end])))
            t = end
    return found


def follow(stay: Stay, k: int, candidates: int, ranked: Ints) -> Callable[[], int]:
    """What a client does at each step of a stay: see whether it is in the zone, and rank that many candidates, of which
    the k best are written to `ranked` by number. Returns at how many steps it was within."""
    zone, n = stay.zone, min(candidates, len(stay.zone.slots))
    columns = np.ascontiguousarray(zone.statics[:n].T).reshape(-1)
    places = np.ascontiguousarray(zone.places[:n].T)
    scratch = np.empty((3, n + 1))
    place = np.array(zone.place)
    return lambda: _follow(zone.scoring, stay.there, place, zone.radius, places, columns, k, scratch, ranked)


@float_kernel  # nine arguments: a zone as arrays, and where its client goes
def _follow(
    s: Scoring,
    there: Floats,
    place: Floats,
    radius: float,
    places: Floats,
    columns: Floats,
    k: int,
    scratch: Floats,
    ranked: Ints,
) -> int:
    n = places.shape[1]
    total, product, score = scratch[0], scratch[1], scratch[2]
    for i in range(n):
        total[i], product[i] = static_parts(s, columns, n, i)
    within = 0
    for t in range(there.shape[0]):
        x, y = there[t, 0], there[t, 1]
        if t == 0 or distance(s.metric, place[0], place[1], x, y) < radius:
            within += 1
            for i in range(n):
                far = distance(s.metric, x, y, places[0, i], places[1, i])
                mine = score_of(s, far, total[i], product[i], columns, n, i)
                at = min(i, k)
                while at > 0 and score[at - 1] > mine:
                    if at < k:
                        score[at], ranked[at] = score[at - 1], ranked[at - 1]
                    at -= 1
                if at < k:
                    score[at], ranked[at] = mine, i
    return within
