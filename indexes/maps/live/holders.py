"""An index of the standing queries that hold an object in their answers: from slots to queries.

A query holds a list of slots. Each of these is a cell in two chains, that of its slot and that of its query, so a list
is added or removed in O(1) a cell, and memory is allocated only when no cell is free.
"""

from __future__ import annotations

from copy import deepcopy
from typing import NamedTuple

import numpy as np

from indexes.compiled.jit import kernel
from indexes.core.arrays import Ints, Ints32, int64

NONE = -1

FREE, USED = 0, 1
"""Places in `size`: the first free cell, from which the others are chained by `own`, and how many are in use."""


ROOM = 32
"""Slots a query for which there is room at first when lists are read."""


class Cells(NamedTuple):
    """The chains."""

    of_slot: Ints32  # by slot: its first cell, or NONE
    of_query: Ints32  # by query: likewise
    slot: Ints32  # by cell, as all that follow
    query: Ints32
    after: Ints32  # the next cell of its slot, or NONE
    before: Ints32  # the one before
    own: Ints32  # the next cell of its query
    size: Ints


class Pairs(NamedTuple):
    """Room for pairs of a change, by number, and a query that it may touch."""

    change: Ints
    query: Ints

    @classmethod
    def of(cls, room: int) -> Pairs:
        """Room for this many pairs."""
        return cls(*np.empty((2, room), np.int64))


class Holders:
    """Lists of slots by query, found by slot."""

    def __init__(self) -> None:
        none = np.empty(0, np.int32)
        self.cells = Cells(none, none, none, none, none, none, none, np.array([NONE, 0]))

    def __len__(self) -> int:
        return int(self.cells.size[USED])

    def hold(self, queries: Ints, ends: Ints, slots: Ints) -> None:
        """Set the lists of slots of queries; that of query i is in `slots` after that of i - 1, up to ends[i]. O(1)
        a slot."""
        self.release(queries)
        self._reserve(int(queries.max(initial=-1)) + 1, int(slots.max(initial=-1)) + 1, len(slots))
        _hold(self.cells, queries, ends, slots)

    def release(self, queries: Ints) -> None:
        """Empty the lists of queries. O(1) a slot."""
        _release(self.cells, queries[queries < len(self.cells.of_query)])

    def held(self, query: int) -> Ints:
        """The slots that a query holds, ascending."""
        return np.sort(self.lists(np.array([query]))[0])

    def lists(self, queries: Ints) -> tuple[Ints, Ints]:
        """The lists of queries, one after the other, each as it was set, and where that of each ends. O(1) a slot."""
        ends, slots = np.empty(len(queries), np.int64), np.empty(ROOM * len(queries), np.int64)
        n = int(_listed(self.cells, queries, ends, slots))
        if n > len(slots):
            slots = np.empty(n, np.int64)
            _listed(self.cells, queries, ends, slots)
        return slots[:n], ends

    def copy(self) -> Holders:
        """A copy that stays as it is."""
        other = Holders()
        other.cells = deepcopy(self.cells)
        return other

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
        """Raise AssertionError unless both kinds of chains have the same cells, and the others are free. O(cells +
        slots + queries)."""
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


def _longer(column: Ints32, needed: int) -> Ints32:
    longer = np.full(max(needed, len(column) * 3 // 2, 64), NONE, np.int32)
    longer[: len(column)] = column
    return longer


@kernel
def _hold(cells: Cells, queries: Ints, ends: Ints, slots: Ints) -> None:
    begin = int64(0)
    for i in range(queries.size):
        q = queries[i]
        # Each cell is put before the others of its query, so that their order is that of the list in the end.
        for at in range(ends[i] - 1, begin - 1, -1):
            t = slots[at]
            cell = int64(cells.size[FREE])
            cells.size[FREE] = cells.own[cell]
            cells.slot[cell], cells.query[cell] = t, q
            cells.own[cell] = cells.of_query[q]
            cells.of_query[q] = cell
            first = int64(cells.of_slot[t])
            cells.after[cell], cells.before[cell] = first, NONE
            if first != NONE:
                cells.before[first] = cell
            cells.of_slot[t] = cell
        begin = ends[i]
    cells.size[USED] += begin


@kernel
def _listed(cells: Cells, queries: Ints, ends: Ints, slots: Ints) -> int:
    """Write the lists of queries as far as there is room, and where each ends; returns how many slots there are."""
    n = 0
    for i in range(queries.size):
        cell = int64(cells.of_query[queries[i]]) if queries[i] < cells.of_query.size else int64(NONE)
        while cell != NONE:
            if n < slots.size:
                slots[n] = cells.slot[cell]
            n += 1
            cell = int64(cells.own[cell])
        ends[i] = n
    return n


@kernel
def _release(cells: Cells, queries: Ints) -> None:
    for i in range(queries.size):
        q = queries[i]
        cell = int64(cells.of_query[q])
        while cell != NONE:
            behind, ahead = int64(cells.after[cell]), int64(cells.before[cell])
            if ahead == NONE:
                cells.of_slot[cells.slot[cell]] = behind
            else:
                cells.after[ahead] = behind
            if behind != NONE:
                cells.before[behind] = ahead
            following = int64(cells.own[cell])
            cells.own[cell] = cells.size[FREE]
            cells.size[FREE] = cell
            cells.size[USED] -= 1
            cell = following
        cells.of_query[q] = NONE


@kernel
def holders_of(cells: Cells, slots: Ints, begin: int, pairs: Pairs) -> tuple[int, int]:
    """Write (i, query) for every query that holds slots[i], i from `begin` on. Returns the first i that there was no
    room for, and how many pairs there are."""
    change, query = pairs.change, pairs.query
    i, n = begin, 0
    going = True
    while going and i < slots.size:
        kept = n
        if slots[i] < cells.of_slot.size:
            cell = int64(cells.of_slot[slots[i]])
            while cell != NONE and going:
                if n == change.size:
                    going = False
                else:
                    change[n], query[n] = i, cells.query[cell]
                    n += 1
                    cell = int64(cells.after[cell])
        if going:
            i += 1
        else:
            n = kept
    return i, n
