"""Appendix C: the objects spread over the owners of zones along the diagonal, each with an equal share.

An owner knows its own objects and its two neighbours. `first_k` asks the owner of the object, and hands on what is
missing to the next one on that side (Algorithm 1); `min_y` asks every owner whose zone meets the range (Algorithm 2).
The length of a traversal is the number of owners asked after the first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.compiled.jit import kernel
from indexes.core.arrays import INF, Floats, Ints


class Owners(NamedTuple):
    """Objects in order of x; owner s has those from first[s] up to first[s + 1]."""

    x: Floats
    y: Floats
    first: Ints


def share_out(x: Floats, y: Floats, owners: int) -> Owners:
    """Objects in order of x, dealt out so that no owner has two more than another."""
    return Owners(x, y, np.arange(owners + 1) * len(x) // owners)


@kernel
def owner_of(owners: Owners, i: int) -> int:
    """The owner of object i."""
    return int(np.searchsorted(owners.first, i, side="right")) - 1


@kernel
def first_k(owners: Owners, i: int, y: float, k: int, east: bool) -> tuple[int, float, int]:
    """Algorithm 1: how many of the first k objects below `y` there are on one side of object i, the x of the last one
    (x_i without any), and the length of the traversal. O(objects passed)."""
    s = owner_of(owners, i)
    found, length = 0, 0
    last = owners.x[i]
    j = i + 1 if east else i - 1
    asking = True
    while asking:
        end = owners.first[s + 1] if east else owners.first[s] - 1
        while j != end and found < k:
            if owners.y[j] < y:
                found += 1
                last = owners.x[j]
            j += 1 if east else -1
        s += 1 if east else -1
        asking = found < k and 0 <= s < len(owners.first) - 1
        length += asking
    return found, last, length


@kernel
def min_y(owners: Owners, i: int, l: float, r: float, y: float) -> tuple[int, int]:
    """Algorithm 2: the object with the least y beyond `y` strictly between l and r, a range that holds object i (-1 if
    there is none), and the length of the traversal. O(objects of the owners asked)."""
    s = owner_of(owners, i)
    low, high = s, s
    while low > 0 and l < owners.x[owners.first[low]]:
        low -= 1
    while high < len(owners.first) - 2 and r > owners.x[owners.first[high + 1] - 1]:
        high += 1
    best = -1
    least = INF
    for j in range(owners.first[low], owners.first[high + 1]):
        if l < owners.x[j] < r and y < owners.y[j] < least:
            best, least = j, owners.y[j]
    return best, high - low


@kernel
def traverse(owners: Owners, objects: Ints, y: Floats, k: int, lengths: Ints) -> None:
    """Add up the lengths, for each of the objects at its y, of both `first_k` and of the `min_y` between what they
    found: the query for the next exposed object."""
    for e in range(len(objects)):
        i = objects[e]
        a, west, length = first_k(owners, i, y[e], k, False)
        lengths[0] += length
        b, east, length = first_k(owners, i, y[e], k, True)
        lengths[1] += length
        _, length = min_y(owners, i, west if a == k else -INF, east if b == k else INF, y[e])
        lengths[2] += length
