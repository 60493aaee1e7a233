"""Skylines off Euclid: what a circle costs beside the skyline alone, and how large it is."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import NamedTuple

import numpy as np

from bench.maps.places import Land
from bench.maps.workload import WIDTH
from bench.race import Contender, race
from bench.report import Report, count, ratio, spread
from indexes.maps.places import PlaceIndex
from indexes.maps.sky_circle import CircleSearcher
from indexes.maps.zones import Searcher

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
    polygons = Searcher(size.d)
    rows = [
        _row(
            size,
            "euclidean, a polygon",
            there,
            lambda x, y: polygons.skyline(square, x, y),
            lambda x, y: polygons.zone(square, x, y, BOUNDS),
            lambda: polygons.cost.nodes,
        )
    ]
    for metric in ("euclidean", "manhattan", ON_EARTH):
        searcher = CircleSearcher(size.d, metric)
        index = earth if metric == ON_EARTH else square
        places = land.on_earth(there) if metric == ON_EARTH else there
        row = _row(
            size,
            f"{metric}, a circle",
            places,
            lambda x, y, searcher=searcher, index=index: searcher.skyline(index, x, y),
            lambda x, y, searcher=searcher, index=index: searcher.zone(index, x, y),
            lambda searcher=searcher: searcher.nodes,
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
    ways = [Contender(name, lambda run=run: [run(x, y) for x, y in places], len(places)) for run in (skyline, zone)]
    alone, zoned = race(ways, size.rounds)
    opened = [(zone(x, y), nodes())[1] for x, y in places]
    return (
        name,
        f"{median(alone):.0f} {spread(alone, lambda v: f'{v:.0f}')}",
        f"{median(zoned):.0f} {spread(zoned, lambda v: f'{v:.0f}')}",
        ratio(median(zoned) / median(alone)),
        count(float(np.mean(opened))),
    )
