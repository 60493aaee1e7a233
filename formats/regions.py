"""Places of objects and regions of subscriptions as named columns, in the log and in snapshots.

On a board with one range attribute they are `x`, `l` and `r`. With more they are `x1` and on, and `side1` and on as
`indexes.boards.regions` orders them; with two, where a region need not be a box, also `shape`, its shape's number.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indexes.boards.regions import Regions, widest

Column = npt.NDArray[np.float64] | npt.NDArray[np.uint8]


def place_names(d: int) -> list[str]:
    """The columns of objects' places with `d` range attributes."""
    return ["x"] if d == 1 else [f"x{i}" for i in range(1, d + 1)]


def place_columns(x: npt.NDArray[np.float64]) -> list[npt.NDArray[np.float64]]:
    """Places as columns, in the order of `place_names`."""
    return [x] if x.ndim == 1 else list(x.T)


def joined_places(columns: list[npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
    """The places in columns: (n,) for one range attribute, else (n, d)."""
    return columns[0] if len(columns) == 1 else np.column_stack(columns)


def side_names(d: int) -> list[str]:
    """The columns of sides with `d` range attributes."""
    return ["l", "r"] if d == 1 else [f"side{i}" for i in range(1, widest(d) + 1)]


def region_fields(d: int) -> list[pa.Field]:
    """The columns with `d` range attributes."""
    shape = [pa.field("shape", pa.uint8(), nullable=False)] if d == 2 else []
    return shape + [pa.field(name, pa.float64(), nullable=False) for name in side_names(d)]


def columns_of(regions: Regions) -> dict[str, Column]:
    """Regions as columns, in the order of `region_fields`."""
    shape: dict[str, Column] = {"shape": regions.shape} if regions.d == 2 else {}
    return shape | dict(zip(side_names(regions.d), regions.sides, strict=True))


def regions_of(columns: Mapping[str, Column]) -> Regions:
    """The regions in columns, among which there may be others. Raises KeyError where one is missing."""
    d = dimensions(columns)
    if d == 0:
        raise KeyError("l")
    sides = np.array([columns[name] for name in side_names(d)], np.float64)
    shape = columns["shape"].astype(np.uint8) if d == 2 else np.zeros(sides.shape[1], np.uint8)
    return Regions(d, shape, sides)


def dimensions(names: Mapping[str, Column]) -> int:
    """How many range attributes the columns are for."""
    if "l" in names:
        return 1
    return 2 if "shape" in names else sum(name.startswith("side") for name in names) // 2
