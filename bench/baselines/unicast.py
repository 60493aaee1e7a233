"""Unicast, the baseline of [Range top-k] V, made exact: every affected subscription is found and notified on its own.

The server looks at each subscription in the square of the larger region. [Range top-k] calls `min_y` once for the
object that enters, which is right only where the changed object was ranked k-th; here `min_y` is called until the list
is full. `count_wrong` counts how often the one call finds another object.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bench.boards.workload import new_y
from indexes.boards.kernels.forest import Forest, report
from indexes.boards.kernels.object_index import min_y, next_east, next_west, set_y
from indexes.boards.kernels.region import nearest, take_prefix
from indexes.compiled.jit import kernel
from indexes.core.arrays import Floats, Ints, Ints32, int64


class Recipients(NamedTuple):
    """The recipients of an event: their sids and ranges, and the slot of the object that enters the list (-1: none)."""

    sid: Ints32
    l: Floats
    r: Floats
    entering: Ints


def make_recipients(m: int) -> Recipients:
    """Room for all m subscriptions."""
    return Recipients(np.empty(m, np.int32), np.empty(m), np.empty(m), np.empty(m, np.int64))


@kernel  # nine arguments: called once a run
def unicast_events(
    objects: Any,
    forest: Forest,
    k: int,
    scratch: Any,
    events: Floats,
    n: int,
    model: int,
    walk: bool,
    affected: Recipients,
) -> tuple[int, int]:
    """Unicast on all events; returns (subscriptions notified, calls of `min_y`). With `walk` a walk from the changed
    object answers those calls in place of the index's own `min_y`."""
    total = 0
    calls = 0
    for e in range(events.shape[0]):
        slot = int64(objects.pos[int(events[e, 0] * n)])
        y = new_y(objects.y[slot], events[e, 1], events[e, 2], model)
        if y != objects.y[slot]:
            notified, asked = unicast(objects, forest, k, slot, y, scratch, walk, affected)
            total += notified
            calls += asked
        set_y(objects, slot, y)
    return total, calls


@kernel
def unicast(
    objects: Any, forest: Forest, k: int, slot: int, y: float, scratch: Any, walk: bool, affected: Recipients
) -> tuple[int, int]:
    """Fill `affected` for a slot that takes `y`, which the object index does not have yet. Returns how many, and how
    often `min_y` was called."""
    old, c = objects.y[slot], objects.c[slot]
    a, b = nearest(objects, slot, min(old, y), k, scratch)
    take_prefix(scratch, k)
    found = collect(forest, scratch.west[k], objects.x[slot], scratch.east[k], affected)
    n = 0
    calls = 0
    for i in range(found):
        l, r = affected.l[i], affected.r[i]
        ahead = 0
        while ahead < a and scratch.west[ahead + 1] >= l:
            ahead += 1
        z = 0
        while z < b and scratch.east[z + 1] <= r:
            z += 1
        ahead += z
        if ahead < k:
            h = -1
            last, last_c = old, c
            looking = y > old
            while looking:
                if walk:
                    h = min_y_around(objects, slot, l, r, last, last_c, y, c)
                else:
                    h = min_y(objects, l, r, last, last_c)
                    if h >= 0 and (objects.y[h] > y or (objects.y[h] == y and objects.c[h] > c)):
                        h = -1
                calls += 1
                ahead += 1
                looking = h >= 0 and ahead < k
                if looking:
                    last, last_c = objects.y[h], objects.c[h]
            affected.sid[n], affected.l[n], affected.r[n] = affected.sid[i], l, r
            affected.entering[n] = h
            n += 1
    return n, calls


@kernel
def count_wrong(
    objects: Any, forest: Forest, k: int, scratch: Any, events: Floats, n: int, model: int, affected: Recipients
) -> tuple[int, int]:
    """Over all events that make an object worse: how many affected subscriptions there are, and for how many of them
    the one `min_y` of [Range top-k] finds another object than the one that enters (none being one too)."""
    n_affected = 0
    wrong = 0
    for e in range(events.shape[0]):
        slot = int64(objects.pos[int(events[e, 0] * n)])
        y = new_y(objects.y[slot], events[e, 1], events[e, 2], model)
        if y > objects.y[slot]:
            notified, _ = unicast(objects, forest, k, slot, y, scratch, True, affected)
            n_affected += notified
            for i in range(notified):
                h = min_y(objects, affected.l[i], affected.r[i], objects.y[slot], objects.c[slot])
                if h >= 0 and (objects.y[h] > y or (objects.y[h] == y and objects.c[h] > objects.c[slot])):
                    h = -1
                wrong += h != affected.entering[i]
        set_y(objects, slot, y)
    return n_affected, wrong


@kernel
def collect(forest: Forest, l_outer: float, x: float, r_outer: float, affected: Recipients) -> int:
    """Write the subscriptions with l_outer < l <= x <= r < r_outer to `affected`; returns how many."""
    n = report(forest, 0, l_outer, x, x, r_outer, affected.sid)
    for i in range(n):
        p = forest.pos[affected.sid[i]]
        affected.l[i], affected.r[i] = forest.l[p], forest.r[p]
    return n


@kernel
def min_y_around(objects: Any, slot: int, l: float, r: float, y: float, c: int, y_end: float, c_end: int) -> int:
    """The slot with the least (y, created) after (y, c) and before (y_end, c_end) whose x is in [l, r], a range that
    holds slot `slot`; -1 if there is none.

    Walks outward from `slot` on either side with the best so far as threshold: O(log n) for each new best and for each
    object that is better than (y, c).
    """
    best = -1
    for east in range(2):
        j = slot
        while j >= 0:
            j = next_east(objects, j, y_end, c_end) if east else next_west(objects, j, y_end, c_end)
            if j >= 0 and (objects.x[j] > r if east else objects.x[j] < l):
                j = -1
            if j >= 0 and (objects.y[j] > y or (objects.y[j] == y and objects.c[j] > c)):
                best = j
                y_end, c_end = objects.y[j], objects.c[j]
    return best
