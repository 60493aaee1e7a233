"""Skylines by other metrics than the Euclidean: the cost of a circle on top of the skyline, and its size."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from statistics import median
from typing import NamedTuple

import numpy as np

from bench.maps.places import Land
from bench.maps.workload import WIDTH
from bench.race import Contender, race
from bench.report import Report, count, middle, ratio
from indexes.maps.object_index import PlaceIndex
from indexes.maps.zones.circle import CircleSearch
from indexes.maps.zones.skyline import SkylineSearch

BOUNDS = np.array([0.0, 0.0, 1.0, 1.0])

ON_EARTH = "great-circle"


class Size(NamedTuple):
    """Objects and their values, places asked at, and rounds."""

    n: int = 100_000
    d: int = 2
    places: int = 300
    rounds: int = 5


QUICK = Size(3_000, 2, 20, 1)


def show(report: Report, size: Size, land: Land) -> None:
    """Add a table, by metric."""
    report.text(
        f"{size.n:,} places with {size.d} values, asked at {size.places} places on roads. By the great circle they are "
        "where they are on Earth; by the other metrics in the square of 5,000 km. Microseconds of thread time, the "
        f"median of {size.rounds} rounds in alternation; the first row has polygons, for comparison."
    )
    world = land.world(size.n, size.d, cars=size.places)
    square, there = PlaceIndex.build(world.points, world.statics), world.walks[:, 0]
    earth = PlaceIndex.build(land.degrees[: size.n], world.statics)
    polygons = SkylineSearch(size.d)
    rows = [
        _row(
            size,
            "euclidean, a polygon",
            there,
            partial(polygons.skyline, square),
            lambda x, y: polygons.zone(square, x, y, BOUNDS),
            lambda: polygons.cost.nodes,
        )
    ]
    for metric in ("euclidean", "manhattan", ON_EARTH):
        searcher = CircleSearch(size.d, metric)
        index = earth if metric == ON_EARTH else square
        places = land.on_earth(there) if metric == ON_EARTH else there
        row = _row(
            size,
            f"{metric}, a circle",
            places,
            partial(searcher.skyline, index),
            partial(searcher.zone, index),
            partial(getattr, searcher, "nodes"),
        )
        radii = [searcher.zone(index, x, y).radius * (1.0 if metric == ON_EARTH else WIDTH) for x, y in places.tolist()]
        rows.append((*row, count(median(radii)), count(float(np.mean(radii))), str(sum(r == 0.0 for r in radii))))
    head = ("zone", "us a skyline", "us a zone", "x", "nodes", "metres, median radius", "mean", "of radius 0")
    report.table(head, [(*row, *[""] * (len(head) - len(row))) for row in rows])


def _row(
    size: Size,
    name: str,
    there: np.ndarray,
    skyline: Callable[[float, float], object],
    zone: Callable[[float, float], object],
    nodes: Callable[[], int],
) -> tuple[str, ...]:
    places = there.tolist()

    def at_all(run: Callable[[float, float], object]) -> Callable[[], list[object]]:
        return lambda: [run(x, y) for x, y in places]

    ways = [Contender(name, at_all(run), len(places)) for run in (skyline, zone)]
    alone, zoned = race(ways, size.rounds)
    opened = [(zone(x, y), nodes())[1] for x, y in places]
    return (
        name,
        middle(alone, 0),
        middle(zoned, 0),
        ratio(median(zoned) / median(alone)),
        count(float(np.mean(opened))),
    )
