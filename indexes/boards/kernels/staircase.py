"""Unions, intersections and differences of the influence regions of one object, strip by strip.

A region is a staircase with its apex at the object, given by two lists (`region`). The lists of a region that is
compared with another one need only be known as far as that one extends.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.boards.kernels.scratch import Scratch
from indexes.compiled.jit import inlined, internal
from indexes.core.arrays import INF, Floats


class Moments(NamedTuple):
    """The lists of one object before and after a batch (O0 and O1): its own x first, then the nearest better objects,
    padded with infinities. `old` are those at its old y in O0, `kept` at its old y in O1, `new` at its new y in O1."""

    old_west: Floats
    old_east: Floats
    kept_west: Floats
    kept_east: Floats
    new_west: Floats
    new_east: Floats


def make_moments(kmax: int) -> Moments:
    """Room for the lists of classes of up to `kmax`."""
    return Moments(*(np.empty(kmax + 2) for _ in Moments._fields))


@inlined
def demotion_strips(scratch: Scratch, moments: Moments, k: int, deleted: bool) -> int:
    """Write the strips of (R0 and R01) or R1 to `strip`, west to east; returns their number. O(k).

    R0, R01 and R1 are the regions of the `old`, `kept` and `new` lists. R1 is empty with `deleted`.
    """
    x = moments.kept_west[0]
    hi = x
    i = j = e = 1
    n = 0
    while hi > -INF:
        while i <= k and moments.old_west[i] >= hi:
            i += 1
        while j <= k and moments.kept_west[j] >= hi:
            j += 1
        while e <= k and not deleted and moments.new_west[e] >= hi:
            e += 1
        lo = max(moments.old_west[i] if i <= k else -INF, moments.kept_west[j] if j <= k else -INF)
        top = min(moments.old_east[k - i + 1] if i <= k else -INF, moments.kept_east[k - j + 1] if j <= k else -INF)
        if not deleted and e <= k:
            lo = max(lo, moments.new_west[e])
            top = max(top, moments.new_east[k - e + 1])
        if top > x:
            n = _prepend(scratch, n, lo, hi, x, top)
        hi = lo
    reverse_strips(scratch, n)
    return n


@internal
def new_gain_strips(scratch: Scratch, old_west: Floats, old_east: Floats, k: int, x_h: float) -> int:
    """Of the strips that an object at `x_h` gains by entering a list (`gain_strips`), write the parts that it did not
    have before the batch, by its old lists; west to east. Returns how many strips. O(k)."""
    x = scratch.west[0]
    hi, r_least = min(x_h, x), max(x_h, x)
    i = e = 1
    n = 0
    while hi > -INF and e <= k:
        while e <= k and scratch.west[e] >= hi:
            e += 1
        while i <= k and old_west[i] >= hi:
            i += 1
        if e <= k:
            lo = max(scratch.west[e], old_west[i] if i <= k else -INF)
            bottom = max(r_least, scratch.east[k - e], old_east[k - i] if i <= k else x)
            if bottom < scratch.east[k - e + 1]:
                n = _prepend(scratch, n, lo, hi, bottom, scratch.east[k - e + 1])
            hi = lo
    reverse_strips(scratch, n)
    return n


@inlined
def _prepend(scratch: Scratch, n: int, l_outer: float, l_inner: float, r_inner: float, r_outer: float) -> int:
    """Add a strip west of the last one, or extend that one if they share r_inner and r_outer; returns the number of
    strips."""
    p = n - 1
    if n > 0 and scratch.strip[p, 0] == l_inner and scratch.strip[p, 2] == r_inner and scratch.strip[p, 3] == r_outer:
        scratch.strip[p, 0] = l_outer
    else:
        scratch.strip[n, 0], scratch.strip[n, 1] = l_outer, l_inner
        scratch.strip[n, 2], scratch.strip[n, 3] = r_inner, r_outer
        n += 1
    return n


@inlined
def reverse_strips(scratch: Scratch, n: int) -> None:
    """Reverse the order of the n strips."""
    for p in range(n // 2):
        for side in range(4):
            west = scratch.strip[n - 1 - p, side]
            scratch.strip[n - 1 - p, side] = scratch.strip[p, side]
            scratch.strip[p, side] = west
