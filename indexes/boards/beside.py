"""The other changes of a batch, as far as they meet the fall that is painted: who hears of what it exposes.

A fall is painted while everything that rose in the batch has risen, and the fallen west of it have fallen. From then on
objects only get worse, so a range gains an object that the batch left alone at one fall, and is told then, unless it
had the object before the batch, when others had not yet passed it upwards. Let (l, r) gain it now: it holds k - 1
better ones then, k before this fall, and before the batch as many more as fallen ones had passed it downwards in the
range already, and as many fewer as risen ones have passed it upwards.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.boards.net import Net, crossing, is_changed, passes, passing, put_in, take_out, turn_back
from indexes.boards.stairs import news_strips
from indexes.lean import pasted_kernel, vector_kernel

INF = np.inf

NONE, CLEAR, SOME, ALL = range(4)
"""Whom of those who gain an object a fall tells of it: no one, since it changed itself and is told as such; those whose
range holds nothing that passed it upwards, which is quickly seen; those who had it not before the batch; or all."""


FEW = 32
"""So many risen and so many fallen objects beside a fall are kept at hand for all that it exposes."""


class Beside(NamedTuple):
    """The fall at hand is item `at[0]` of the fallen. Others may have passed what it exposes: `at[1]` places in `risen`
    of what rose, `at[2]` in `fallen` of what has fallen already, near ones first on each side, -1 where there are too
    many and they must be searched for. `near` is the x of the nearest risen one that passed the object at hand, west
    and east. The lists are scratch."""

    net: Net
    at: NDArray[np.int64]
    risen: NDArray[np.int64]
    fallen: NDArray[np.int64]
    near: NDArray[np.float64]
    west: NDArray[np.float64]
    east: NDArray[np.float64]


class Scratch(NamedTuple):
    """Room for what is beside one fall after the other."""

    at: NDArray[np.int64]
    risen: NDArray[np.int64]
    fallen: NDArray[np.int64]
    near: NDArray[np.float64]
    west: NDArray[np.float64]
    east: NDArray[np.float64]


def make_scratch(kmax: int) -> Scratch:
    """For the lists of classes of up to `kmax`."""
    few = np.empty(FEW, np.int64), np.empty(FEW, np.int64)
    return Scratch(np.zeros(3, np.int64), *few, np.empty(2), np.empty(kmax + 2), np.empty(kmax + 2))


@pasted_kernel
def meet_fall(beside, item, l, r):  # type: ignore[no-untyped-def]
    """Go over to a fall whose lists end at `l` and `r`."""
    g, risen, at = beside.net.fallen, beside.net.risen, beside.at
    lower, upper = g.y0[item], g.y1[item]
    n = _collect(risen, g.other[item] - 1, False, upper, lower, l, beside.risen, np.int64(0))
    n = _collect(risen, g.other[item], True, upper, lower, r, beside.risen, n)
    m = _collect(g, item - 1, False, upper, lower, l, beside.fallen, np.int64(0))
    at[0], at[1], at[2] = item, n if n <= FEW else -1, m if m <= FEW else -1


@pasted_kernel
def _collect(g, p, east, upper, lower, x_end, found, n):  # type: ignore[no-untyped-def]
    """Add the places of the items that cross, from p on, to the n that were found; returns how many there are now, or
    FEW + 1."""
    step = 1 if east else -1
    p = crossing(g, p, east, upper, lower, x_end)
    while p >= 0 and n <= FEW:
        if n < FEW:
            found[n] = p
        n += 1
        p = crossing(g, p + step, east, upper, lower, x_end)
    return n


@pasted_kernel
def news_of(beside, w, k, row, y, c):  # type: ignore[no-untyped-def]
    """Who hears of the object of this row and rank, which is about to enter the lists."""
    net = beside.net
    news = NONE
    if not is_changed(net, row):
        news = ALL
        if beside.at[1] != 0:
            _find_near(beside, y, c, w.west[k], w.east[k])
            if beside.near[0] > -INF or beside.near[1] < INF:
                # Where nothing has fallen past it yet, one that rose past it is enough.
                news = SOME if _any_fallen(beside, y, c, w.west[k]) else CLEAR
    return news


@pasted_kernel
def _any_fallen(beside, y, c, l):  # type: ignore[no-untyped-def]
    """Has an object with x >= l fallen past (y, c)?"""
    g = beside.net.fallen
    there = False
    for j in range(beside.at[2]):
        p = beside.fallen[j]
        there |= g.x[p] >= l and passes(g, p, y, c)
    if beside.at[2] < 0:
        there = passing(g, beside.at[0] - 1, False, y, c, l) >= 0
    return there


@pasted_kernel
def _find_near(beside, y, c, l, r):  # type: ignore[no-untyped-def]
    """Write the x of the nearest risen objects with l <= x <= r that passed (y, c), infinite for none, to `near`."""
    g = beside.net.risen
    behind = beside.net.fallen.other[beside.at[0]]
    west, east = -INF, INF
    for j in range(beside.at[1]):
        p = beside.risen[j]
        x = g.x[p]
        if l <= x <= r and passes(g, p, y, c):
            if p < behind:
                west = max(west, x)
            else:
                east = min(east, x)
    if beside.at[1] < 0:
        p = passing(g, behind - 1, False, y, c, l)
        west = g.x[p] if p >= 0 else -INF
        p = passing(g, behind, True, y, c, r)
        east = g.x[p] if p >= 0 else INF
    beside.near[0], beside.near[1] = west, east


@pasted_kernel
def told_of(beside, w, k, xh, y, c, n, news):  # type: ignore[no-untyped-def]
    """Cut the n strips of those who gain the object at `xh` to those who are told of it; returns how many are left."""
    if news == NONE:
        n = 0
    elif news == CLEAR:
        n = _between(w, n, beside.near[0], beside.near[1])
    elif news == SOME:
        n = _counted(beside, w, k, xh, y, c)
    return n


@pasted_kernel
def _between(w, n, west, east):  # type: ignore[no-untyped-def]
    """Cut strips to west < l and r < east."""
    left = 0
    for t in range(n):
        lo, hi, bottom, top = max(w.strip[t, 0], west), w.strip[t, 1], w.strip[t, 2], min(w.strip[t, 3], east)
        w.strip[left, 0], w.strip[left, 1], w.strip[left, 2], w.strip[left, 3] = lo, hi, bottom, top
        left += (lo < hi) & (bottom < top)
    return left


@pasted_kernel
def _counted(beside, w, k, xh, y, c):  # type: ignore[no-untyped-def]
    net, at = beside.net, beside.at[0]
    for z in range(k + 1):
        beside.west[z] = w.west[z]
        beside.east[z] = w.east[z]
    if _few(beside):
        _turn_back(beside, y, c, k)
    else:
        turn_back(net, net.fallen.other[at], at, at, y, c, k, beside.west, beside.east)
    return news_strips(w, beside.west, beside.east, k, xh)


@pasted_kernel
def _few(beside):  # type: ignore[no-untyped-def]
    """Is all that may have passed at hand?"""
    return beside.at[1] >= 0 and beside.at[2] >= 0


@pasted_kernel
def _turn_back(beside, y, c, k):  # type: ignore[no-untyped-def]
    """As `net.turn_back`, with what is at hand."""
    risen, fallen, west, east = beside.net.risen, beside.net.fallen, beside.west, beside.east
    l, r = west[k], east[k]
    for j in range(beside.at[1]):
        p = beside.risen[j]
        if l <= risen.x[p] <= r and passes(risen, p, y, c):
            take_out(west, east, k, risen.x[p])
    for j in range(beside.at[2]):
        p = beside.fallen[j]
        if fallen.x[p] >= max(l, west[k]) and passes(fallen, p, y, c):
            put_in(west, k, fallen.x[p], False)


@pasted_kernel
def drop_untold(beside, w, k, y, c, h, n, news):  # type: ignore[no-untyped-def]
    """Of the short list, let those who gain the object and are not told of it count as gone before."""
    if news == CLEAR:
        _hold(h, n, k, beside.near[0], beside.near[1])
    elif news == SOME:
        _count(beside, w, k, y, c, h, n)


@vector_kernel
def _hold(h, n, k, west, east):  # type: ignore[no-untyped-def]
    for i in range(n):
        h.better[i] += (h.better[i] == k) & ((h.l[i] <= west) | (h.r[i] >= east))


@pasted_kernel
def _count(beside, w, k, y, c, h, n):  # type: ignore[no-untyped-def]
    net, at = beside.net, beside.at[0]
    h.passed[:n] = 0
    l, r = w.west[k], w.east[k]
    if _few(beside):
        for j in range(beside.at[1]):
            p = beside.risen[j]
            if l <= net.risen.x[p] <= r and passes(net.risen, p, y, c):
                _pass(h, n, net.risen.x[p], 1)
        for j in range(beside.at[2]):
            p = beside.fallen[j]
            if net.fallen.x[p] >= l and passes(net.fallen, p, y, c):
                _pass(h, n, net.fallen.x[p], -1)
    else:
        _count_all(net, at, y, c, l, r, h, n)
    _leave(h, n, k)


@pasted_kernel
def _count_all(net, at, y, c, l, r, h, n):  # type: ignore[no-untyped-def]
    behind = net.fallen.other[at]
    p = passing(net.risen, behind - 1, False, y, c, l)
    while p >= 0:
        _pass(h, n, net.risen.x[p], 1)
        p = passing(net.risen, p - 1, False, y, c, l)
    p = passing(net.risen, behind, True, y, c, r)
    while p >= 0:
        _pass(h, n, net.risen.x[p], 1)
        p = passing(net.risen, p + 1, True, y, c, r)
    # Behind `at` nothing has fallen yet, but for ties in x.
    p = passing(net.fallen, at - 1, False, y, c, l)
    while p >= 0:
        _pass(h, n, net.fallen.x[p], -1)
        p = passing(net.fallen, p - 1, False, y, c, l)


@vector_kernel
def _pass(h, n, x, by):  # type: ignore[no-untyped-def]
    for i in range(n):
        h.passed[i] += by * ((h.l[i] <= x) & (h.r[i] >= x))


@vector_kernel
def _leave(h, n, k):  # type: ignore[no-untyped-def]
    for i in range(n):
        h.better[i] += (h.better[i] == k) & (h.passed[i] > 0)
