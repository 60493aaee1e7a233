"""The reference: points one after the other in no order, and a scan of them that leaves a point at its first coordinate
that is too small. O(n) a search, O(1) a change.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.lean import inner_kernel
from indexes.relays.points import Float64, Int32, Points, covers
from indexes.relays.search import COMPARISONS, QUERIES, CoverIndex, implement


class Rows(NamedTuple):
    """The arrays of the scan."""

    exact: Float64  # (room, D)
    held: Int32  # the slot of each
    at: Int32  # by slot: its place, or -1
    size: NDArray[np.int64]  # one number: how many


@inner_kernel
def _insert(o, points, t):  # type: ignore[no-untyped-def]
    n = o.size[0]
    for j in range(o.exact.shape[1]):
        o.exact[n, j] = points.exact[t, j]
    o.held[n] = t
    o.at[t] = n
    o.size[0] = n + 1


@inner_kernel
def _delete(o, points, t):  # type: ignore[no-untyped-def]
    i = o.at[t]
    last = o.size[0] - 1
    for j in range(o.exact.shape[1]):
        o.exact[i, j] = o.exact[last, j]
    o.held[i] = o.held[last]
    o.at[o.held[i]] = i
    o.at[t] = -1
    o.size[0] = last


@inner_kernel
def _cover(o, points, t, k, out, first, seen, u):  # type: ignore[no-untyped-def]
    exact, q = o.exact, points.exact
    n, D = o.size[0], exact.shape[1]
    found = 0
    i = 0
    while i < n and found < k:
        j = 0
        while j < D and exact[i, j] >= q[t, j]:
            j += 1
        if j == D and covers(points, o.held[i], t):
            out[first + found] = o.held[i]
            found += 1
        i += 1
    seen[u, COMPARISONS] += i
    seen[u, QUERIES] += 1
    return found


implement(Rows, cover=_cover, insert=_insert, delete=_delete)


class LinearIndex(CoverIndex):
    """The scan as an index."""

    arrays: Rows

    def __init__(self, coordinates: int) -> None:
        none = np.empty(0, np.int32)
        self.arrays = Rows(np.empty((0, coordinates)), none, none, np.zeros(1, np.int64))

    def __len__(self) -> int:
        return int(self.arrays.size[0])

    def reserve(self, inserts: int, slots: int) -> None:
        o, n = self.arrays, len(self)
        if slots > len(o.at):
            at = np.full(max(slots, len(o.at) * 3 // 2), -1, np.int32)
            at[: len(o.at)] = o.at
            o = o._replace(at=at)
        if n + inserts > len(o.held):
            room = max(n + inserts, len(o.held) * 3 // 2)
            exact, held = np.empty((room, o.exact.shape[1])), np.empty(room, np.int32)
            exact[:n], held[:n] = o.exact[:n], o.held[:n]
            o = o._replace(exact=exact, held=held)
        self.arrays = o

    def trimmed(self) -> Rows:
        n = len(self)
        return self.arrays._replace(exact=self.arrays.exact[:n], held=self.arrays.held[:n])

    def slots(self) -> Int32:
        return self.arrays.held[: len(self)].copy()

    def check(self, points: Points) -> None:
        o, held = self.arrays, self.slots()
        assert (o.exact[: len(held)] == points.exact[held]).all()
        assert (o.at[held] == np.arange(len(held))).all() and (o.at >= 0).sum() == len(held)
