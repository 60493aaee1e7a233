"""Whose answers an object is in: from slots to the standing queries that hold them.

A query holds a list of slots. Each of these is a cell in two chains, that of its slot and that of its query, so a list
comes or goes in O(1) a cell whatever else is held, and nothing is allocated but when there is no free cell.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.lean import lean_kernel

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

NONE = -1

FREE, USED = 0, 1
"""Places in `size`: the first free cell, from which the others are chained by `own`, and how many are in use."""


class Cells(NamedTuple):
    """The chains."""

    of_slot: Int32  # by slot: its first cell, or NONE
    of_query: Int32  # by query: likewise
    slot: Int32  # by cell, as all that follow
    query: Int32
    after: Int32  # the next cell of its slot, or NONE
    before: Int32  # the one before
    own: Int32  # the next cell of its query
    size: Int64


class Holders:
    """Lists of slots by query, found by slot."""

    def __init__(self) -> None:
        none = np.empty(0, np.int32)
        self.cells = Cells(none, none, none, none, none, none, none, np.array([NONE, 0]))

    def __len__(self) -> int:
        return int(self.cells.size[USED])

    def hold(self, queries: Int64, ends: Int64, slots: Int64) -> None:
        """Each of the queries holds a list of slots in place of what it held; that of query i stands in `slots` behind
        that of i - 1, up to ends[i]. O(1) a slot."""
        self.release(queries)
        self._reserve(int(queries.max(initial=-1)) + 1, int(slots.max(initial=-1)) + 1, len(slots))
        _hold(self.cells, queries, ends, slots)

    def release(self, queries: Int64) -> None:
        """The queries hold nothing any more. O(1) a slot."""
        _release(self.cells, queries[queries < len(self.cells.of_query)])

    def held(self, query: int) -> Int64:
        """The slots that a query holds, in order."""
        found, c = [], self.cells
        cell = int(c.of_query[query]) if query < len(c.of_query) else NONE
        while cell != NONE:
            found.append(int(c.slot[cell]))
            cell = int(c.own[cell])
        return np.sort(np.array(found, np.int64))

    def _reserve(self, queries: int, slots: int, more: int) -> None:
        c = self.cells
        if slots > len(c.of_slot):
            c = c._replace(of_slot=_longer(c.of_slot, slots))
        if queries > len(c.of_query):
            c = c._replace(of_query=_longer(c.of_query, queries))
        room, needed = len(c.slot), int(c.size[USED]) + more
        if needed > room:
            c = c._replace(
                slot=_longer(c.slot, needed),
                query=_longer(c.query, needed),
                after=_longer(c.after, needed),
                before=_longer(c.before, needed),
                own=_longer(c.own, needed),
            )
            c.own[room:-1] = np.arange(room + 1, len(c.own))
            c.own[-1] = c.size[FREE]
            c.size[FREE] = room
        self.cells = c

    def check(self) -> None:
        """Both kinds of chains hold the same cells, and the others are free. O(cells + slots + queries)."""
        c = self.cells
        by_slot, by_query, free = set(), set(), set()
        for s, first in enumerate(c.of_slot.tolist()):
            last, cell = NONE, first
            while cell != NONE:
                assert c.slot[cell] == s and c.before[cell] == last and cell not in by_slot
                by_slot.add(cell)
                last, cell = cell, int(c.after[cell])
        for q, cell in enumerate(c.of_query.tolist()):
            while cell != NONE:
                assert c.query[cell] == q and cell not in by_query
                by_query.add(cell)
                cell = int(c.own[cell])
        cell = int(c.size[FREE])
        while cell != NONE:
            free.add(cell)
            cell = int(c.own[cell])
        assert by_slot == by_query and len(by_slot) == c.size[USED]
        assert not by_slot & free and len(by_slot) + len(free) == len(c.slot)


def _longer(column: Int32, needed: int) -> Int32:
    longer = np.full(max(needed, len(column) * 3 // 2, 64), NONE, np.int32)
    longer[: len(column)] = column
    return longer


@lean_kernel
def _hold(c, queries, ends, slots):  # type: ignore[no-untyped-def]
    at = np.int64(0)
    for i in range(queries.size):
        q = queries[i]
        while at < ends[i]:
            t = slots[at]
            cell = np.int64(c.size[FREE])
            c.size[FREE] = c.own[cell]
            c.slot[cell], c.query[cell] = t, q
            c.own[cell] = c.of_query[q]
            c.of_query[q] = cell
            first = np.int64(c.of_slot[t])
            c.after[cell], c.before[cell] = first, NONE
            if first != NONE:
                c.before[first] = cell
            c.of_slot[t] = cell
            at += 1
    c.size[USED] += at


@lean_kernel
def _release(c, queries):  # type: ignore[no-untyped-def]
    for i in range(queries.size):
        q = queries[i]
        cell = np.int64(c.of_query[q])
        while cell != NONE:
            behind, ahead = np.int64(c.after[cell]), np.int64(c.before[cell])
            if ahead == NONE:
                c.of_slot[c.slot[cell]] = behind
            else:
                c.after[ahead] = behind
            if behind != NONE:
                c.before[behind] = ahead
            following = np.int64(c.own[cell])
            c.own[cell] = c.size[FREE]
            c.size[FREE] = cell
            c.size[USED] -= 1
            cell = following
        c.of_query[q] = NONE


@lean_kernel
def holders_of(c, slots, begin, change, query, n):  # type: ignore[no-untyped-def]
    """Write (i, query) for every query that holds slots[i], i from `begin` on, behind n others. Returns how far it came
    before the room was full, and how many pairs there are."""
    i = begin
    going = True
    while going and i < slots.size:
        kept = n
        if slots[i] < c.of_slot.size:
            cell = np.int64(c.of_slot[slots[i]])
            while cell != NONE and going:
                if n == change.size:
                    going = False
                else:
                    change[n], query[n] = i, c.query[cell]
                    n += 1
                    cell = np.int64(c.after[cell])
        if going:
            i += 1
        else:
            n = kept
    return i, n
