"""What the paper compares its skyline's zones with, beside BBS: the basic algorithm, No-Pseudo and No-Pruning."""

from __future__ import annotations

import numpy as np

from bench.maps.workload import Float64
from indexes.lean import inner_kernel, lean_kernel
from indexes.maps.polygon import clip
from indexes.maps.single_pass import sweep

ROOM = 512
"""Vertices of a cell."""


@lean_kernel
def unpruned_pass(v, w, x, y, box, zoned):  # type: ignore[no-untyped-def]
    """No-Pruning: pseudo-impact regions in one pass, but everything is opened and tried."""
    sweep(v, w, x, y, box, zoned, False)


def cells(points: Float64, statics: Float64, which: np.ndarray, x: float, y: float) -> int:
    """The impact regions of these objects, each against all that affect it, as the basic algorithm (Algorithm 1, for
    all objects) and No-Pseudo (for those that the pruning leaves) work them out; returns their vertices in all."""
    scratch, labels = np.empty((5, ROOM)), np.empty((2, ROOM), np.int64)
    columns = np.ascontiguousarray(points.T) - np.array([[x], [y]])
    return int(_cells(columns, np.ascontiguousarray(statics.T), which.astype(np.int64), scratch, labels, x, y))


@lean_kernel
def _cells(points, statics, which, scratch, labels, x, y):  # type: ignore[no-untyped-def]
    found = 0
    for k in range(which.size):
        found += _cell(points, statics, which[k], scratch, labels, x, y)
    return found


@inner_kernel
def _cell(points, statics, o, scratch, labels, x, y):  # type: ignore[no-untyped-def]
    px, py, n = scratch[0], scratch[1], 4
    for i in range(4):
        px[i] = (1.0 if i == 1 or i == 2 else 0.0) - x
        py[i] = (1.0 if i > 1 else 0.0) - y
    far = points[0, o] ** 2 + points[1, o] ** 2
    for s in range(points.shape[1]):
        affects = s != o
        for j in range(statics.shape[0]):
            affects &= statics[j, s] <= statics[j, o]
        if affects and n > 0:
            ax, ay = points[0, s] - points[0, o], points[1, s] - points[1, o]
            c = 0.5 * (points[0, s] ** 2 + points[1, s] ** 2 - far)
            n = clip(
                px, py, labels[0], n, ax, ay, c, s, scratch[2], scratch[3], scratch[4], labels[1], 1e-14
            )  # fmt: skip
    return n
