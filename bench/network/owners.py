"""Appendix C: the objects spread over the owners of zones along the diagonal, each with an equal share.

An owner knows its own objects and its two neighbours. `first_k` asks the owner of the object, and hands on what is
missing to the next one on that side (Algorithm 1); `min_y` asks every owner whose zone meets the range (Algorithm 2).
The length of a traversal is the number of owners asked beside the first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.lean import lean_kernel

INF = np.inf


class Owners(NamedTuple):
    """Objects in order of x; owner s has those from first[s] up to first[s + 1]."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    first: NDArray[np.int64]


def share_out(x: NDArray[np.float64], y: NDArray[np.float64], owners: int) -> Owners:
    """Objects in order of x, dealt out so that no owner has two more than another."""
    return Owners(x, y, np.arange(owners + 1) * len(x) // owners)


@lean_kernel
def owner_of(d, i):  # type: ignore[no-untyped-def]
    """The owner of object i."""
    return np.searchsorted(d.first, i, side="right") - 1


@lean_kernel
def first_k(d, i, y, k, east):  # type: ignore[no-untyped-def]
    """Algorithm 1: how many of the first k objects below `y` there are on one side of object i, the x of the last one
    (x_i without any), and the length of the traversal. O(objects passed)."""
    s = owner_of(d, i)
    found, length = 0, 0
    last = d.x[i]
    j = i + 1 if east else i - 1
    asking = True
    while asking:
        end = d.first[s + 1] if east else d.first[s] - 1
        while j != end and found < k:
            if d.y[j] < y:
                found += 1
                last = d.x[j]
            j += 1 if east else -1
        s += 1 if east else -1
        asking = found < k and 0 <= s < len(d.first) - 1
        length += asking
    return found, last, length


@lean_kernel
def min_y(d, i, l, r, y):  # type: ignore[no-untyped-def]
    """Algorithm 2: the object with the least y beyond `y` strictly between l and r, a range that holds object i (-1 if
    there is none), and the length of the traversal. O(objects of the owners asked)."""
    s = owner_of(d, i)
    low, high = s, s
    while low > 0 and l < d.x[d.first[low]]:
        low -= 1
    while high < len(d.first) - 2 and r > d.x[d.first[high + 1] - 1]:
        high += 1
    best = -1
    least = INF
    for j in range(d.first[low], d.first[high + 1]):
        if l < d.x[j] < r and y < d.y[j] < least:
            best, least = j, d.y[j]
    return best, high - low


@lean_kernel
def traverse(d, objects, y, k, lengths):  # type: ignore[no-untyped-def]
    """Add up the lengths, for each of the objects at its y, of both `first_k` and of the `min_y` between what they
    found: the query for the next exposed object."""
    for e in range(len(objects)):
        i = objects[e]
        a, west, length = first_k(d, i, y[e], k, False)
        lengths[0] += length
        b, east, length = first_k(d, i, y[e], k, True)
        lengths[1] += length
        _, length = min_y(d, i, west if a == k else -INF, east if b == k else INF, y[e])
        lengths[2] += length
