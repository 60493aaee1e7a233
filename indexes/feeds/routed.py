"""How a partition of a feed takes posts in: in rounds, at whose ends lists are exact.

All posts enter the window, but only those that were routed here are looked at, or those whom they reach were found
elsewhere. In a round theta never falls: whoever is short of posts is evaluated at its end, so that what routed the
posts of the round, by the theta of each subscription at its begin, has kept nothing back that matters (design 7).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.feeds.cells import Cells
from indexes.feeds.ordered import OrderedIndex, find_ordered, move
from indexes.feeds.step import DONE, ENTER, FIND, TELL, begin_post, end_post, room_for_hits, slide, take_in
from indexes.feeds.subscribers import ROW, THETA, Subscribers, Table
from indexes.feeds.window import NEXT
from indexes.feeds.work import AT, PHASE
from indexes.lean import lean_kernel

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]


class Hits(NamedTuple):
    """Whom posts reach with the theta of some time, in order of posts."""

    end: Int64  # by post: where its hits end
    slot: Int64
    score: Float64


class RoutedIndex(OrderedIndex):
    """Threshold-ordered postings that are read for the posts that were routed here."""

    routed: NDArray[np.uint8] = np.empty(0, np.uint8)
    """By post of the piece that comes."""

    def post(self, *what: Any) -> int:
        """Posts come: see `post_routed`."""
        return int(post_routed(self.arrays, self.cells, self.routed, *what))


class GivenIndex:
    """No index: whom posts reach is given. A `Method`."""

    finds = False
    hits = Hits(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    """Of the piece that comes."""

    def build(self, table: Table, order: Int64, tree: Cells | None = None) -> None:
        """There is nothing to lay out."""

    def add(self, table: Table, slots: Int64) -> None:
        """Whoever finds subscriptions is told otherwise."""

    def remove(self, table: Table, slots: Int64) -> None:
        """As `add`."""

    def move(self, s: Subscribers, slots: Int64, old: Float64) -> None:
        """As `add`."""

    def with_words(self, words: int) -> None:
        """No words are kept."""

    def room(self, table: Table) -> tuple[int, int, int]:
        """Nothing is read."""
        return 0, 0, 0

    def post(self, *what: Any) -> int:
        """Posts come: see `post_given`."""
        return int(post_given(*self.hits, *what))

    def find(self, *what: Any) -> int:
        """Nobody is found here."""
        return 0

    def refill(self, *what: Any) -> None:
        """As `find`."""

    def check(self, table: Table) -> None:
        """There is nothing to be wrong."""


@lean_kernel
def post_routed(o, c, routed, v, s, limits, owners, f, z, batch, window, diagonal, most):  # type: ignore[no-untyped-def]
    """As `ordered.post_ordered`, for the posts that were routed here; the others only enter the window. Nobody is
    evaluated."""
    status = DONE
    while status == DONE and z.size[AT] < batch.end.size:
        if z.size[PHASE] == ENTER:
            begin_post(v, z, batch)
        if z.size[PHASE] == FIND:
            hits = 0
            if routed[z.size[AT]]:
                hits = find_ordered(o, c, v, s, z, v.size[NEXT] - 1, diagonal)
            status = room_for_hits(owners, z, hits)
            if status == DONE:
                take_in(v, s, limits, owners, z, hits)
                for i in range(hits):
                    slot = np.int64(z.hit[i])
                    if z.hit_score[i] != s.row[slot * ROW + THETA]:
                        move(o, s, slot, z.hit_score[i])
                slide(v, s, owners, z, window)
                z.size[PHASE] = TELL
        if z.size[PHASE] == TELL:
            status = end_post(v, s, z, batch)
    return status


@lean_kernel
def post_given(end, slots, scores, v, s, limits, owners, f, z, batch, window, diagonal, most):  # type: ignore[no-untyped-def]
    """As `post_routed`, where whom each post reaches is given, by a theta that has only risen since."""
    status = DONE
    while status == DONE and z.size[AT] < batch.end.size:
        if z.size[PHASE] == ENTER:
            begin_post(v, z, batch)
        if z.size[PHASE] == FIND:
            at, hits = z.size[AT], 0
            for i in range(end[at - 1] if at else 0, end[at]):
                if scores[i] >= s.row[slots[i] * ROW + THETA]:
                    z.hit[hits], z.hit_score[hits] = slots[i], scores[i]
                    hits += 1
            status = room_for_hits(owners, z, hits)
            if status == DONE:
                take_in(v, s, limits, owners, z, hits)
                slide(v, s, owners, z, window)
                z.size[PHASE] = TELL
        if z.size[PHASE] == TELL:
            status = end_post(v, s, z, batch)
    return status
