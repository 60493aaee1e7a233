"""Unicast, the paper's baseline (V), made exact: every affected subscription is found and told on its own.

The server looks at each subscription in the square of the larger region. The paper asks one `min_y` for the object that
enters, which is right only where the changed object was ranked k-th; here `min_y` is called until the list is full.
`count_wrong` says how often the one call names another object.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.boards.workload import new_y
from indexes.boards.forest import report
from indexes.boards.objects import min_y, next_east, next_west, set_y
from indexes.boards.region import nearest, take_prefix
from indexes.lean import lean_kernel


class Told(NamedTuple):
    """Who is told of an event: their sids, their ranges, and the slot of the object that
    enters the list (-1: none)."""

    sid: NDArray[np.int32]
    l: NDArray[np.float64]
    r: NDArray[np.float64]
    entering: NDArray[np.int64]


def make_told(m: int) -> Told:
    """Room for all m subscriptions."""
    return Told(np.empty(m, np.int32), np.empty(m), np.empty(m), np.empty(m, np.int64))


@lean_kernel
def unicast_events(o, f, k, w, events, n, model, walk, told):  # type: ignore[no-untyped-def]
    """Unicast on all events; returns (subscriptions told, calls of `min_y`). With `walk` those calls are answered by a
    walk from the changed object in place of the index's own `min_y`."""
    total = 0
    calls = 0
    for e in range(events.shape[0]):
        s = np.int64(o.pos[int(events[e, 0] * n)])
        y = new_y(o.y[s], events[e, 1], events[e, 2], model)
        if y != o.y[s]:
            heard, asked = unicast(o, f, k, s, y, w, walk, told)
            total += heard
            calls += asked
        set_y(o, s, y)
    return total, calls


@lean_kernel
def unicast(o, f, k, s, y, w, walk, told):  # type: ignore[no-untyped-def]
    """Fill `told` for slot `s` taking `y`, which the object index does not know yet; (how many, calls of `min_y`)."""
    old, c = o.y[s], o.c[s]
    a, b = nearest(o, s, min(old, y), k, w)
    take_prefix(w, k)
    found = gather(f, w.west[k], o.x[s], w.east[k], told)
    n = 0
    calls = 0
    for i in range(found):
        l, r = told.l[i], told.r[i]
        ahead = 0
        while ahead < a and w.west[ahead + 1] >= l:
            ahead += 1
        z = 0
        while z < b and w.east[z + 1] <= r:
            z += 1
        ahead += z
        if ahead < k:
            h = -1
            last, last_c = old, c
            looking = y > old
            while looking:
                if walk:
                    h = min_y_around(o, s, l, r, last, last_c, y, c)
                else:
                    h = min_y(o, l, r, last, last_c)
                    if h >= 0 and (o.y[h] > y or (o.y[h] == y and o.c[h] > c)):
                        h = -1
                calls += 1
                ahead += 1
                looking = h >= 0 and ahead < k
                if looking:
                    last, last_c = o.y[h], o.c[h]
            told.sid[n], told.l[n], told.r[n] = told.sid[i], l, r
            told.entering[n] = h
            n += 1
    return n, calls


@lean_kernel
def count_wrong(o, f, k, w, events, n, model, told):  # type: ignore[no-untyped-def]
    """Over all events that make an object worse: how many affected subscriptions there are, and for how many of them
    the one `min_y` of the paper names another object than the one that enters (none being one too)."""
    affected = 0
    wrong = 0
    for e in range(events.shape[0]):
        s = np.int64(o.pos[int(events[e, 0] * n)])
        y = new_y(o.y[s], events[e, 1], events[e, 2], model)
        if y > o.y[s]:
            heard, _ = unicast(o, f, k, s, y, w, True, told)
            affected += heard
            for i in range(heard):
                h = min_y(o, told.l[i], told.r[i], o.y[s], o.c[s])
                if h >= 0 and (o.y[h] > y or (o.y[h] == y and o.c[h] > o.c[s])):
                    h = -1
                wrong += h != told.entering[i]
        set_y(o, s, y)
    return affected, wrong


@lean_kernel
def gather(f, l_outer, x, r_outer, told):  # type: ignore[no-untyped-def]
    """Write the subscriptions with l_outer < l <= x <= r < r_outer to `told`; returns how many."""
    n = report(f, 0, l_outer, x, x, r_outer, told.sid)
    for i in range(n):
        p = f.pos[told.sid[i]]
        told.l[i], told.r[i] = f.l[p], f.r[p]
    return n


@lean_kernel
def min_y_around(o, s, l, r, y, c, y_end, c_end):  # type: ignore[no-untyped-def]
    """The slot with the least (y, created) after (y, c) and before (y_end, c_end) whose x is in [l, r], a range that
    holds slot `s`; -1 if there is none.

    Walks outward from `s` on either side with the best so far as threshold: O(log n) for each new best and for each
    object that is better than (y, c).
    """
    best = -1
    for east in range(2):
        j = s
        while j >= 0:
            j = next_east(o, j, y_end, c_end) if east else next_west(o, j, y_end, c_end)
            if j >= 0 and (o.x[j] > r if east else o.x[j] < l):
                j = -1
            if j >= 0 and (o.y[j] > y or (o.y[j] == y and o.c[j] > c)):
                best = j
                y_end, c_end = o.y[j], o.c[j]
    return best
