"""The subscriptions of a matcher as rows of numbers: what indexes are made of and what kernels look up at random.

Layout: row r of `rec` is [lo_1, hi_1, ..., lo_d, hi_d, score] in exact mode and [lo_1, hi_1, ..., lo_d, hi_d, weight_1,
..., weight_d] in relaxed mode, so that one subscription is one or two cache lines. A dimension that takes no part is
the interval [inf, -inf], which nothing meets; so are all of a row that is gone. Rows are handed out in order of
creation and never twice: of equal scores the smaller row goes first.

An event is, for each dimension, two numbers a <= b: it meets [lo, hi] when lo <= b and hi >= a. They are finite; a
dimension that the event lacks is a = inf, b = -inf, which meets exactly what is unbounded on both sides.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from indexes.compiled.jit import kernel
from indexes.core.arrays import INF, Floats

MAX = float(np.finfo(np.float64).max)
GONE = -1
"""The slot of a row that an index does not hold."""

MISSING = (INF, -INF)
"""The event's a and b in a dimension that it lacks."""


def record(lo: Floats, hi: Floats, scores: Floats) -> Floats:
    """The rows of intervals `lo`, `hi` of shape (n, d) and `scores` of shape (n, 1) or (n, d)."""
    n, d = lo.shape
    rec = np.empty((n, 2 * d + scores.shape[1]))
    rec[:, 0 : 2 * d : 2] = lo
    rec[:, 1 : 2 * d : 2] = hi
    rec[:, 2 * d :] = scores
    return rec


@kernel
def are_valid(events: Floats) -> bool:
    """Whether all of these are events: see the module's docstring."""
    valid = True
    for t in range(events.shape[0]):
        for j in range(0, events.shape[1], 2):
            a, b = events[t, j], events[t, j + 1]
            there = a <= b and a > -INF and b < INF
            valid = valid and (there or (a == INF and b == -INF))
    return valid


@kernel
def are_sound(rows: Floats, d: int, least: float, most: float) -> bool:
    """Whether these rows surely are subscriptions: intervals hold a number, and scores are in a range. Others may be,
    too."""
    sound = True
    for t in range(rows.shape[0]):
        for j in range(d):
            lo, hi = rows[t, 2 * j], rows[t, 2 * j + 1]
            sound = sound and lo <= hi and lo < INF and hi > -INF
        for j in range(2 * d, rows.shape[1]):
            sound = sound and rows[t, j] >= least and rows[t, j] <= most
    return sound


def points(values: npt.ArrayLike) -> Floats:
    """The events at these values, as a, b pairs of shape (n, 2); NaN is a dimension that the event lacks."""
    q = np.atleast_1d(np.asarray(values, np.float64))
    lacking = np.isnan(q)
    q = np.clip(q, -MAX, MAX)
    return np.column_stack([np.where(lacking, INF, q), np.where(lacking, -INF, q)])


def ranges(ends: Sequence[tuple[float, float]]) -> Floats:
    """The events that are these ranges [lo, hi], as a, b pairs of shape (n, 2). Infinite ends are cut to finite ones:
    every interval reaches so far."""
    return np.clip(np.asarray(ends, np.float64).reshape(-1, 2), -MAX, MAX)
