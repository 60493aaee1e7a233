"""Heaps of entries by a key: a binary heap in two columns, of which the first entry has the least key.

Nodes of equal keys are in any order. Objects are in order of creation; `Ages` is what tells it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.maps.floats import float_part


class Ages(NamedTuple):
    """Order of creation: the slots of objects, of the base and then of the delta, and when a slot was created."""

    slot: NDArray[np.int32]
    delta_slot: NDArray[np.int32]
    created: NDArray[np.int64]


@float_part
def push(key, entry, n, k, e):  # type: ignore[no-untyped-def]
    """Put entry e under key k into a heap of n, for which there is room. O(log n)."""
    i = n
    up = i > 0
    while up:
        above = (i - 1) >> 1
        if k < key[above]:
            key[i] = key[above]
            entry[i] = entry[above]
            i = above
            up = i > 0
        else:
            up = False
    key[i] = k
    entry[i] = e


@float_part
def drop_first(key, entry, n):  # type: ignore[no-untyped-def]
    """Take the first entry out of a heap of n > 0. O(log n)."""
    last = n - 1
    k, e = key[last], entry[last]
    i = 0
    down = True
    while down:
        c = 2 * i + 1
        down = False
        if c < last:
            if c + 1 < last and key[c + 1] < key[c]:
                c += 1
            if key[c] < k:
                key[i] = key[c]
                entry[i] = entry[c]
                i = c
                down = True
    key[i] = k
    entry[i] = e


@float_part
def older(ages, a, b):  # type: ignore[no-untyped-def]
    """Whether object a was created before object b."""
    n = ages.slot.size
    s = ages.slot[a] if a < n else ages.delta_slot[a - n]
    t = ages.slot[b] if b < n else ages.delta_slot[b - n]
    return ages.created[s] < ages.created[t]


@float_part
def _rise(ages, key, entry, i):  # type: ignore[no-untyped-def]
    """Bring up the object at place i, above which all are in order."""
    k, e = key[i], entry[i]
    up = i > 0
    while up:
        above = (i - 1) >> 1
        other = key[above]
        if k < other or (k == other and older(ages, e, entry[above])):
            key[i] = other
            entry[i] = entry[above]
            i = above
            up = i > 0
        else:
            up = False
    key[i] = k
    entry[i] = e


@float_part
def _sink(ages, key, entry, n, i):  # type: ignore[no-untyped-def]
    """Bring down the object at place i of n, below which all are in order."""
    k, e = key[i], entry[i]
    down = True
    while down:
        c = 2 * i + 1
        down = False
        if c < n:
            if c + 1 < n and (key[c + 1] < key[c] or (key[c + 1] == key[c] and older(ages, entry[c + 1], entry[c]))):
                c += 1
            if key[c] < k or (key[c] == k and older(ages, entry[c], e)):
                key[i] = key[c]
                entry[i] = entry[c]
                i = c
                down = True
    key[i] = k
    entry[i] = e


@float_part
def arrange_objects(ages, key, entry, arranged, n):  # type: ignore[no-untyped-def]
    """Make a heap of n objects, of which the first `arranged` are one. O(n), or O(log n) for each that is new."""
    if n > 2 * arranged:
        for i in range(n // 2 - 1, -1, -1):
            _sink(ages, key, entry, n, i)
    else:
        for i in range(arranged, n):
            _rise(ages, key, entry, i)


@float_part
def bring_first(ages, key, entry, n, upper):  # type: ignore[no-untyped-def]
    """Of n objects in no order, drop those with keys above `upper` and bring the first of the others to the front;
    returns how many are left. O(n), and much less than a heap takes where few are asked for."""
    left = first = 0
    for i in range(n):
        k, e = key[i], entry[i]
        if k <= upper:
            key[left] = k
            entry[left] = e
            if k < key[first] or (k == key[first] and left > first and older(ages, e, entry[first])):
                first = left
            left += 1
    if left > 0:
        key[0], key[first] = key[first], key[0]
        entry[0], entry[first] = entry[first], entry[0]
    return left


@float_part
def drop_object(ages, key, entry, n):  # type: ignore[no-untyped-def]
    """As `drop_first`, for objects."""
    key[0], entry[0] = key[n - 1], entry[n - 1]
    _sink(ages, key, entry, n - 1, 0)
