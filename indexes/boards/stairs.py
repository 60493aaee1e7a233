"""Strips between staircases: unions, intersections and differences of the regions of one object, strip by strip.

A region is a staircase with its apex at the object, given by two lists (`region.py`). The lists of a region that is
compared with another one need only be known as far as that one reaches.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.lean import inner_kernel, pasted_kernel

INF = np.inf


class Moments(NamedTuple):
    """The lists of one object, its own x first, then the nearest first, padded with infinities: `old` are those at its
    old y in O0, `kept` at its old y in O1, `new` at its new y in O1.
    """

    old_west: NDArray[np.float64]
    old_east: NDArray[np.float64]
    kept_west: NDArray[np.float64]
    kept_east: NDArray[np.float64]
    new_west: NDArray[np.float64]
    new_east: NDArray[np.float64]


def make_moments(kmax: int) -> Moments:
    """Room for the lists of classes of up to `kmax`."""
    return Moments(*(np.empty(kmax + 2) for _ in Moments._fields))


@pasted_kernel
def told_strips(w, m, k, gone):  # type: ignore[no-untyped-def]
    """Write (R0 and R01) or R1 to `strip`, west to east; returns the number of strips."""
    x = m.kept_west[0]
    hi = x
    i = j = e = 1
    n = 0
    while hi > -INF:
        while i <= k and m.old_west[i] >= hi:
            i += 1
        while j <= k and m.kept_west[j] >= hi:
            j += 1
        while e <= k and not gone and m.new_west[e] >= hi:
            e += 1
        lo = max(m.old_west[i] if i <= k else -INF, m.kept_west[j] if j <= k else -INF)
        top = min(m.old_east[k - i + 1] if i <= k else -INF, m.kept_east[k - j + 1] if j <= k else -INF)
        if not gone and e <= k:
            lo = max(lo, m.new_west[e])
            top = max(top, m.new_east[k - e + 1])
        if top > x:
            n = _prepend(w, n, lo, hi, x, top)
        hi = lo
    turn(w, n)
    return n


@inner_kernel
def news_strips(w, old_west, old_east, k, xh):  # type: ignore[no-untyped-def]
    """Of the strips that an object at `xh` gains by entering a list (`gain_strips`), write what it had not before, by
    the lists of then around the same object; west to east. Returns how many strips."""
    x = w.west[0]
    hi, r_least = min(xh, x), max(xh, x)
    i = e = 1
    n = 0
    while hi > -INF and e <= k:
        while e <= k and w.west[e] >= hi:
            e += 1
        while i <= k and old_west[i] >= hi:
            i += 1
        if e <= k:
            lo = max(w.west[e], old_west[i] if i <= k else -INF)
            bottom = max(r_least, w.east[k - e], old_east[k - i] if i <= k else x)
            if bottom < w.east[k - e + 1]:
                n = _prepend(w, n, lo, hi, bottom, w.east[k - e + 1])
            hi = lo
    turn(w, n)
    return n


@pasted_kernel
def _prepend(w, n, l_outer, l_inner, r_inner, r_outer):  # type: ignore[no-untyped-def]
    """Write the strip west of the last one, or let that one reach further; returns the number of strips."""
    p = n - 1
    if n > 0 and w.strip[p, 0] == l_inner and w.strip[p, 2] == r_inner and w.strip[p, 3] == r_outer:
        w.strip[p, 0] = l_outer
    else:
        w.strip[n, 0], w.strip[n, 1], w.strip[n, 2], w.strip[n, 3] = l_outer, l_inner, r_inner, r_outer
        n += 1
    return n


@pasted_kernel
def turn(w, n):  # type: ignore[no-untyped-def]
    """Turn the order of the strips round."""
    for p in range(n // 2):
        for side in range(4):
            west = w.strip[n - 1 - p, side]
            w.strip[n - 1 - p, side] = w.strip[p, side]
            w.strip[p, side] = west
