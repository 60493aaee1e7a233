"""Owners of a post: the subscriptions whose buffers it entered, from which it has to be removed when it expires.

The subscriptions that it reached on arrival lie together in a ring, in order of posts; those that were evaluated later
are chained to it. An entry may be stale: a subscription that has dropped the post, or was removed, does not hold it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.compiled.jit import internal, kernel
from indexes.core import aligned
from indexes.core.arrays import Ints, Ints32, int64
from indexes.feeds.kernels.subscriptions import ENTRY, POSTS, ROW, Subscribers
from indexes.feeds.kernels.window import FIRST, NEXT, NONE, Window

RING_FIRST, RING_NEXT, FREE, FREE_CELLS = range(4)
"""Places in `Owners.size`: the first entry of the ring that is in use and the one after the last; the first free cell,
and how many there are."""


AHEAD = 16
"""Entries for each of which the ring has room for one more when owners are laid out: it grows when it is full."""


class Owners(NamedTuple):
    """The arrays; the ring's length is a power of two."""

    ring: Ints32  # slots
    begin: Ints  # by place of a post: where its owners begin in the ring, and their number
    number: Ints32
    late: Ints32  # its first cell, of a chain
    cell: Ints32  # by cell: slot, and the next cell
    after: Ints32
    size: Ints


def empty_owners() -> Owners:
    """Owners for a window without places."""
    none = np.empty(0, np.int32)
    return Owners(np.empty(1, np.int32), np.empty(0, np.int64), none, none, none, none, np.array([0, 0, NONE, 0]))


def with_places(owners: Owners, old: Ints, places: int) -> Owners:
    """Owners for a window of so many places, a power of two; `old` are the numbers of its posts."""
    begin, count, late = np.zeros(places, np.int64), np.zeros(places, np.int32), np.full(places, NONE, np.int32)
    if len(old):
        now, before = old & (places - 1), old & (len(owners.begin) - 1)
        begin[now], count[now], late[now] = owners.begin[before], owners.number[before], owners.late[before]
    return owners._replace(begin=begin, number=count, late=late)


def with_ring(owners: Owners, more: int) -> Owners:
    """Owners with room for so many more entries in the ring. O(1) amortized, in a few copies of memory."""
    first, end = int(owners.size[RING_FIRST]), int(owners.size[RING_NEXT])
    if end - first + more <= len(owners.ring):
        return owners
    ring = aligned.empty(max(1024, 1 << (end - first + more - 1).bit_length()), np.int32)
    at, old = first, owners.ring
    while at < end:
        source, place = at & (len(old) - 1), at & (len(ring) - 1)
        run = min(end - at, len(old) - source, len(ring) - place)
        ring[place : place + run] = old[source : source + run]
        at += run
    return owners._replace(ring=ring)


def emptied(owners: Owners, entries: int) -> Owners:
    """Owners of no posts, without cells, whose ring has room for so many entries and for some to come. O(places)."""
    owners.size[:] = 0, 0, NONE, 0
    owners.number[:] = 0
    owners.late[:] = NONE
    none = np.empty(0, np.int32)
    return with_ring(owners._replace(cell=none, after=none), entries + entries // AHEAD)


def with_cells(owners: Owners, more: int) -> Owners:
    """Owners with so many free cells. O(1) amortized."""
    if owners.size[FREE_CELLS] >= more:
        return owners
    had = len(owners.cell)
    room = max(had + more, 3 * had // 2, 1024)
    cell, after = np.empty(room, np.int32), np.empty(room, np.int32)
    cell[:had], after[:had] = owners.cell, owners.after
    after[had:-1] = np.arange(had + 1, room)
    after[-1] = owners.size[FREE]
    owners.size[FREE] = had
    owners.size[FREE_CELLS] += room - had
    return owners._replace(cell=cell, after=after)


@internal
def own_late(table: Subscribers, owners: Owners, mask: int, slot: int) -> None:
    """Note a subscription that was evaluated as an owner of all posts in its buffer. O(entries)."""
    base = table.note[slot * ROW + ENTRY]
    for i in range(base, base + table.held[slot]):
        place, cell = (table.tag[i] // POSTS) & mask, owners.size[FREE]
        owners.size[FREE] = owners.after[cell]
        owners.cell[cell], owners.after[cell] = slot, owners.late[place]
        owners.late[place] = cell
    owners.size[FREE_CELLS] -= table.held[slot]


@kernel
def own_many(table: Subscribers, owners: Owners, mask: int, slots: Ints) -> None:
    """`own_late` for many subscriptions; there are as many free cells as they have entries."""
    for i in range(slots.size):
        own_late(table, owners, mask, slots[i])


@kernel
def own_all(window: Window, table: Subscribers, owners: Owners, slots: Ints) -> None:
    """Put all posts of the buffers of these subscriptions, all there are, into the ring of `emptied` owners.
    O(entries + window)."""
    mask = window.x.size - 1
    for i in range(slots.size):
        base = table.note[slots[i] * ROW + ENTRY]
        for j in range(base, base + table.held[slots[i]]):
            owners.number[(table.tag[j] // POSTS) & mask] += 1
    at = 0
    for post in range(window.size[FIRST], window.size[NEXT]):
        owners.begin[post & mask] = at
        at += owners.number[post & mask]
        owners.number[post & mask] = 0
    owners.size[RING_FIRST], owners.size[RING_NEXT] = 0, at
    for i in range(slots.size):
        base = table.note[slots[i] * ROW + ENTRY]
        for j in range(base, base + table.held[slots[i]]):
            place = (table.tag[j] // POSTS) & mask
            owners.ring[owners.begin[place] + owners.number[place]] = slots[i]
            owners.number[place] += 1


@internal
def release(owners: Owners, place: int) -> None:
    """Forget the owners of the oldest post. O(chained owners)."""
    cell = int64(owners.late[place])
    while cell != NONE:
        following = int64(owners.after[cell])
        owners.after[cell] = owners.size[FREE]
        owners.size[FREE] = cell
        owners.size[FREE_CELLS] += 1
        cell = following
    owners.size[RING_FIRST] += owners.number[place]
    owners.number[place], owners.late[place] = 0, NONE


@kernel
def lists_with(table: Subscribers, owners: Owners, mask: int, post: int) -> int:
    """The number of lists that hold a post, right after `own_all`. O(its owners)."""
    n = 0
    for at in range(owners.begin[post & mask], owners.begin[post & mask] + owners.number[post & mask]):
        slot = int64(owners.ring[at])
        base = table.note[slot * ROW + ENTRY]
        for i in range(base, base + min(table.held[slot], table.k[slot])):
            n += 1 if table.tag[i] // POSTS == post else 0
    return n
