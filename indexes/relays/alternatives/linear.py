"""The reference: points one after the other in no order, and a scan of them that leaves a point at its first coordinate
that is too small. O(n) a search, O(1) a change.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.compiled.jit import internal
from indexes.core.arrays import Floats, Ints, Ints32
from indexes.relays.kernels.covering_index import COMPARISONS, QUERIES, CoverIndex, implement
from indexes.relays.kernels.points import Points, covers


class Rows(NamedTuple):
    """The arrays of the scan."""

    exact: Floats  # (room, D)
    held: Ints32  # the slot of each
    at: Ints32  # by slot: its place, or -1
    size: Ints  # one number: how many


@internal
def _insert(scan: Rows, points: Points, slot: int) -> None:
    n = scan.size[0]
    for j in range(scan.exact.shape[1]):
        scan.exact[n, j] = points.exact[slot, j]
    scan.held[n] = slot
    scan.at[slot] = n
    scan.size[0] = n + 1


@internal
def _delete(scan: Rows, points: Points, slot: int) -> None:
    i = scan.at[slot]
    last = scan.size[0] - 1
    for j in range(scan.exact.shape[1]):
        scan.exact[i, j] = scan.exact[last, j]
    scan.held[i] = scan.held[last]
    scan.at[scan.held[i]] = i
    scan.at[slot] = -1
    scan.size[0] = last


@internal
def _cover(scan: Rows, points: Points, slot: int, k: int, out: Ints32, first: int, seen: Ints, seen_row: int) -> int:
    exact, q = scan.exact, points.exact
    n, D = scan.size[0], exact.shape[1]
    found = 0
    i = 0
    while i < n and found < k:
        j = 0
        while j < D and exact[i, j] >= q[slot, j]:
            j += 1
        if j == D and covers(points, scan.held[i], slot):
            out[first + found] = scan.held[i]
            found += 1
        i += 1
    seen[seen_row, COMPARISONS] += i
    seen[seen_row, QUERIES] += 1
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

    def slots(self) -> Ints32:
        return self.arrays.held[: len(self)].copy()

    def check(self, points: Points) -> None:
        o, held = self.arrays, self.slots()
        assert (o.exact[: len(held)] == points.exact[held]).all()
        assert (o.at[held] == np.arange(len(held))).all() and (o.at >= 0).sum() == len(held)
