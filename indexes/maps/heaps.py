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
def push_object(ages, key, entry, n, k, e):  # type: ignore[no-untyped-def]
    """As `push`, for objects."""
    i = n
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
def drop_object(ages, key, entry, n):  # type: ignore[no-untyped-def]
    """As `drop_first`, for objects."""
    last = n - 1
    k, e = key[last], entry[last]
    i = 0
    down = True
    while down:
        c = 2 * i + 1
        down = False
        if c < last:
            if c + 1 < last and (
                key[c + 1] < key[c] or (key[c + 1] == key[c] and older(ages, entry[c + 1], entry[c]))
            ):
                c += 1
            if key[c] < k or (key[c] == k and older(ages, entry[c], e)):
                key[i] = key[c]
                entry[i] = entry[c]
                i = c
                down = True
    key[i] = k
    entry[i] = e
