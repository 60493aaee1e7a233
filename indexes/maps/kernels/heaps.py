"""Binary heaps of entries by key, in two columns; the first entry has the least key.

Nodes with equal keys are in any order; objects with equal keys are in order of creation, see `Ages`.
"""

from __future__ import annotations

from typing import NamedTuple

from indexes.core.arrays import Floats, Ints, Ints32
from indexes.maps.kernels.floats import float_internal


class Ages(NamedTuple):
    """The order of creation: the slots of objects, of the base and then of the delta, and by slot the creation
    number."""

    slot: Ints32
    delta_slot: Ints32
    created: Ints


@float_internal
def push(key: Floats, entry: Ints, n: int, k: float, e: int) -> None:
    """Insert entry e with key k into a heap of n entries, which has room. O(log n)."""
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


@float_internal
def drop_first(key: Floats, entry: Ints, n: int) -> None:
    """Remove the first entry from a heap of n > 0 entries. O(log n)."""
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


@float_internal
def older(ages: Ages, a: int, b: int) -> bool:
    """Whether object a was created before object b."""
    n = ages.slot.size
    s = ages.slot[a] if a < n else ages.delta_slot[a - n]
    t = ages.slot[b] if b < n else ages.delta_slot[b - n]
    return ages.created[s] < ages.created[t]


@float_internal
def _rise(ages: Ages, key: Floats, entry: Ints, i: int) -> None:
    """Move up the object at place i, above which all are in order."""
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


@float_internal
def _sink(ages: Ages, key: Floats, entry: Ints, n: int, i: int) -> None:
    """Move down the object at place i of n, below which all are in order."""
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


@float_internal
def arrange_objects(ages: Ages, key: Floats, entry: Ints, arranged: int, n: int) -> None:
    """Make a heap of n objects, of which the first `arranged` are one. O(n), or O(log n) for each new one."""
    if n > 2 * arranged:
        for i in range(n // 2 - 1, -1, -1):
            _sink(ages, key, entry, n, i)
    else:
        for i in range(arranged, n):
            _rise(ages, key, entry, i)


@float_internal
def bring_first(ages: Ages, key: Floats, entry: Ints, n: int, upper: float) -> int:
    """Of n objects in no order, drop those with keys above `upper` and move the first of the others to the front;
    returns how many are left. O(n), and much less than a heap takes where only a few are needed."""
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


@float_internal
def drop_object(ages: Ages, key: Floats, entry: Ints, n: int) -> None:
    """As `drop_first`, for objects."""
    key[0], entry[0] = key[n - 1], entry[n - 1]
    _sink(ages, key, entry, n - 1, 0)
