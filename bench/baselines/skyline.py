"""What [Moving queries] compares its skyline zones with, besides BBS: the basic algorithm, No-Pseudo, No-Pruning."""

from __future__ import annotations

import numpy as np

from bench.baselines.single_pass import sweep
from indexes.compiled.jit import internal, kernel
from indexes.core.arrays import Floats, Ints
from indexes.maps.kernels.object_index import View
from indexes.maps.kernels.polygon import Polygon, Spare, clip
from indexes.maps.kernels.skyline_scratch import SkylineScratch

ROOM = 512
"""Vertices of a cell."""


@kernel
def unpruned_pass(view: View, scratch: SkylineScratch, x: float, y: float, box: Floats, zoned: bool) -> None:
    """No-Pruning: pseudo-impact regions in one pass, but everything is opened and tried."""
    sweep(view, scratch, x, y, box, zoned, False)


def cells(points: Floats, statics: Floats, which: np.ndarray, x: float, y: float) -> int:
    """The impact regions of these objects, each against all that affect it, as the basic algorithm (Algorithm 1, for
    all objects) and No-Pseudo (for those that the pruning leaves) compute them; returns their vertices in all."""
    columns = np.ascontiguousarray(points.T) - np.array([[x], [y]])
    bounds = np.array([0.0, 0.0, 1.0, 1.0]) - np.array([x, y, x, y])
    polygon = Polygon(np.empty(ROOM), np.empty(ROOM), np.empty(ROOM, np.int64))
    spare = Spare(np.empty(ROOM), np.empty(ROOM), np.empty(ROOM, np.int64), np.empty(ROOM))
    return int(_cells(columns, np.ascontiguousarray(statics.T), which.astype(np.int64), bounds, polygon, spare))


@kernel
def _cells(points: Floats, statics: Floats, which: Ints, bounds: Floats, polygon: Polygon, spare: Spare) -> int:
    found = 0
    for k in range(which.size):
        found += _cell(points, statics, which[k], bounds, polygon, spare)
    return found


@internal
def _cell(points: Floats, statics: Floats, o: int, bounds: Floats, polygon: Polygon, spare: Spare) -> int:
    n = 4
    for i in range(4):
        polygon.x[i] = bounds[2] if i == 1 or i == 2 else bounds[0]
        polygon.y[i] = bounds[3] if i > 1 else bounds[1]
    far = points[0, o] ** 2 + points[1, o] ** 2
    for s in range(points.shape[1]):
        affects = s != o
        for j in range(statics.shape[0]):
            affects &= statics[j, s] <= statics[j, o]
        if affects and n > 0:
            ax, ay = points[0, s] - points[0, o], points[1, s] - points[1, o]
            c = 0.5 * (points[0, s] ** 2 + points[1, s] ** 2 - far)
            n = clip(polygon, n, ax, ay, c, s, spare, 1e-14)
    return n
