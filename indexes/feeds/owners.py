"""Whose buffer a post came into, to find them again when it goes.

Those that it reached on arrival lie together in a ring, in order of posts; whoever took it in later, when evaluated,
is chained behind. An entry may be stale: who dropped the post, or was removed since, is simply not found to hold it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes import aligned
from indexes.feeds.subscribers import ENTRY, POSTS, ROW
from indexes.feeds.window import FIRST, NEXT, NONE
from indexes.lean import inner_kernel, lean_kernel

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

RING_FIRST, RING_NEXT, FREE, FREE_CELLS = range(4)
"""Places in `Owners.size`: the first entry of the ring that is in use and the one after the last; the first free cell,
and how many there are."""


class Owners(NamedTuple):
    """The arrays; the ring's length is a power of two."""

    ring: Int32  # slots
    begin: Int64  # by place of a post: where its own begin in the ring, and how many there are
    number: Int32
    late: Int32  # its first cell
    cell: Int32  # by cell: slot, and the next cell
    after: Int32
    size: Int64


def empty_owners() -> Owners:
    """For a window without places."""
    none = np.empty(0, np.int32)
    return Owners(np.empty(1, np.int32), np.empty(0, np.int64), none, none, none, none, np.array([0, 0, NONE, 0]))


def with_places(o: Owners, old: Int64, places: int) -> Owners:
    """For a window of so many places, a power of two; `old` are the numbers of its posts."""
    begin, count, late = np.zeros(places, np.int64), np.zeros(places, np.int32), np.full(places, NONE, np.int32)
    if len(old):
        now, before = old & (places - 1), old & (len(o.begin) - 1)
        begin[now], count[now], late[now] = o.begin[before], o.number[before], o.late[before]
    return o._replace(begin=begin, number=count, late=late)


def with_ring(o: Owners, more: int) -> Owners:
    """With room for so many more entries in the ring. O(1) amortized."""
    first, end = int(o.size[RING_FIRST]), int(o.size[RING_NEXT])
    if end - first + more <= len(o.ring):
        return o
    ring = aligned.empty(max(1024, 1 << (end - first + more - 1).bit_length()), np.int32)
    old = np.arange(first, end)
    ring[old & (len(ring) - 1)] = o.ring[old & (len(o.ring) - 1)]
    return o._replace(ring=ring)


def with_cells(o: Owners, more: int) -> Owners:
    """With so many free cells. O(1) amortized."""
    if o.size[FREE_CELLS] >= more:
        return o
    had = len(o.cell)
    room = max(had + more, 3 * had // 2, 1024)
    cell, after = np.empty(room, np.int32), np.empty(room, np.int32)
    cell[:had], after[:had] = o.cell, o.after
    after[had:-1] = np.arange(had + 1, room)
    after[-1] = o.size[FREE]
    o.size[FREE] = had
    o.size[FREE_CELLS] += room - had
    return o._replace(cell=cell, after=after)


@inner_kernel
def own_late(s, o, mask, slot):  # type: ignore[no-untyped-def]
    """A subscription that was evaluated owns all that is in its buffer. O(entries)."""
    base = s.note[slot * ROW + ENTRY]
    for i in range(base, base + s.held[slot]):
        place, cell = (s.tag[i] // POSTS) & mask, o.size[FREE]
        o.size[FREE] = o.after[cell]
        o.cell[cell], o.after[cell] = slot, o.late[place]
        o.late[place] = cell
    o.size[FREE_CELLS] -= s.held[slot]


@lean_kernel
def own_many(s, o, mask, slots):  # type: ignore[no-untyped-def]
    """As `own_late`, for many; there are as many free cells as they have entries."""
    for i in range(slots.size):
        own_late(s, o, mask, slots[i])


@lean_kernel
def own_all(v, s, o, slots):  # type: ignore[no-untyped-def]
    """What these subscriptions have in their buffers is all that is owned. The ring has room. O(entries + window)."""
    mask = v.x.size - 1
    for cell in range(o.cell.size):
        o.after[cell] = cell + 1
    if o.cell.size:
        o.after[o.cell.size - 1] = NONE
    o.size[FREE], o.size[FREE_CELLS] = 0 if o.cell.size else NONE, o.cell.size
    o.number[:] = 0
    o.late[:] = NONE
    for i in range(slots.size):
        base = s.note[slots[i] * ROW + ENTRY]
        for j in range(base, base + s.held[slots[i]]):
            o.number[(s.tag[j] // POSTS) & mask] += 1
    at = 0
    for post in range(v.size[FIRST], v.size[NEXT]):
        o.begin[post & mask] = at
        at += o.number[post & mask]
        o.number[post & mask] = 0
    o.size[RING_FIRST], o.size[RING_NEXT] = 0, at
    for i in range(slots.size):
        base = s.note[slots[i] * ROW + ENTRY]
        for j in range(base, base + s.held[slots[i]]):
            place = (s.tag[j] // POSTS) & mask
            o.ring[o.begin[place] + o.number[place]] = slots[i]
            o.number[place] += 1


@inner_kernel
def release(o, place):  # type: ignore[no-untyped-def]
    """Nobody owns the oldest post any more. O(chained owners)."""
    cell = np.int64(o.late[place])
    while cell != NONE:
        following = np.int64(o.after[cell])
        o.after[cell] = o.size[FREE]
        o.size[FREE] = cell
        o.size[FREE_CELLS] += 1
        cell = following
    o.size[RING_FIRST] += o.number[place]
    o.number[place], o.late[place] = 0, NONE


@lean_kernel
def lists_with(s, o, mask, post):  # type: ignore[no-untyped-def]
    """How many lists a post is in, where `own_all` has just been called. O(its owners)."""
    n = 0
    for at in range(o.begin[post & mask], o.begin[post & mask] + o.number[post & mask]):
        slot = np.int64(o.ring[at])
        base = s.note[slot * ROW + ENTRY]
        for i in range(base, base + min(s.held[slot], s.k[slot])):
            n += 1 if s.tag[i] // POSTS == post else 0
    return n
