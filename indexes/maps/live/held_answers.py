"""The answers of standing queries with their zones.

A skyline is kept as it was found. Of a top-k only what does not follow from its objects: where it was searched for, the
radius, how many members it has, and in `holders` the slots of its candidates. Places, values, scores and distances are
read and computed when an answer is asked for: kept, they are three times as many bytes as all else, and each of their
arrays is a Python object.

A search may be postponed: the query has no answer then until somebody wants it, and no object is held by it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from typing import NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from indexes.core.arrays import Bools, Floats, Ints, Ints32, run_lengths
from indexes.maps.config import Point
from indexes.maps.kernels.metrics import distance
from indexes.maps.live.holders import Holders
from indexes.maps.object_index import PlaceIndex
from indexes.maps.searches import AnswerZone, Query, TopQuery
from indexes.maps.zones.circle import CircleZone
from indexes.maps.zones.skyline import Zone
from indexes.maps.zones.top import TopZone, measured, own_scoring


class TopColumns(NamedTuple):
    """What is kept of top-k queries, by query: where each was searched for, how far its zone reaches, and how many
    members it has."""

    place: Floats  # (q, 2)
    radius: Floats
    members: Ints32


class Candidates(NamedTuple):
    """Slots of the candidates of some top-k queries, the members of each first, and where those of each end."""

    slots: Ints
    ends: Ints

    def firsts(self, counts: Ints) -> Bools:
        """Which of the slots are among the first so many of their query."""
        sizes = run_lengths(self.ends)
        rank = np.arange(len(self.slots)) - np.repeat(self.ends - sizes, sizes)
        found: Bools = rank < np.repeat(counts, sizes)
        return found


class HeldAnswers(Mapping[int, AnswerZone]):
    """Answers by query. `queries` belongs to the caller; `index` has the objects that are held as they are now."""

    def __init__(self, queries: dict[int, Query], index: PlaceIndex) -> None:
        self.index = index
        self.skylines: dict[int, Zone | CircleZone] = {}
        self.holders = Holders()
        self.postponed: set[int] = set()
        """The queries whose answers are not held."""
        self.tops = TopColumns(np.empty((0, 2)), np.empty(0), np.empty(0, np.int32))
        self._queries = queries
        # While somebody has an answer, whoever asks gets the same, until it changes.
        self._made: WeakValueDictionary[int, TopZone] = WeakValueDictionary()
        self._found: list[AnswerZone] = []

    def __len__(self) -> int:
        return len(self._queries)

    def __iter__(self) -> Iterator[int]:
        return iter(self._queries)

    def __getitem__(self, query: int) -> AnswerZone:
        """The answer of a query with its zone, whose search is not postponed. O(candidates)."""
        asked = self._queries[query]
        if not isinstance(asked, TopQuery):
            return self.skylines[query]
        made = self._made.get(query)
        if made is None:
            made = self._made[query] = self._top(query, asked)
        return made

    def _top(self, query: int, asked: TopQuery) -> TopZone:
        slots = self.candidates(np.array([query])).slots
        place = self.place(query)
        points, statics = self.index.rows(slots)
        # A copy may be read in another thread.
        scoring = own_scoring(asked.scoring)
        scores, far = measured(scoring, np.array([place]), np.zeros(len(slots), np.int64), points, statics)
        return TopZone(
            place=place,
            k=asked.k,
            m=asked.m,
            ordered=asked.ordered,
            scoring=asked.scoring,
            slots=slots,
            members=int(self.tops.members[query]),
            scores=scores,
            distances=far,
            places=points,
            statics=statics,
            created=self.index.view.created[slots],
            radius=float(self.tops.radius[query]),
        )

    def asked(self, query: int) -> Query:
        """What a query asks."""
        return self._queries[query]

    def place(self, query: int) -> Point:
        """Where the top-k of a query was searched for."""
        x, y = self.tops.place[query].tolist()
        return x, y

    def holds(self, query: int, at: Point) -> bool:
        """Whether the answer of a query is valid at a place: its own, or one strictly within the zone."""
        asked = self._queries[query]
        if isinstance(asked, TopQuery):
            place = self.place(query)
            return place == at or bool(distance(asked.scoring.metric, *place, *at) < self.tops.radius[query])
        zone = self.skylines[query]
        return (float(zone.place[0]), float(zone.place[1])) == at or zone.holds(*at)

    def candidates(self, queries: Ints) -> Candidates:
        """The slots of top-k queries. O(candidates)."""
        return Candidates(*self.holders.lists(queries))

    def keep(self, found: Mapping[int, AnswerZone]) -> None:
        """Insert or replace answers as searches have found them."""
        self.postponed.difference_update(found)
        tops = {q: zone for q, zone in found.items() if isinstance(zone, TopZone)}
        for q, zone in found.items():
            if not isinstance(zone, TopZone):
                self.skylines[q] = zone
        if tops:
            queries, zones = np.array(list(tops)), tops.values()
            self._reserve(int(queries.max()) + 1)
            self.tops.place[queries] = [zone.place for zone in zones]
            self.tops.members[queries] = [zone.members for zone in zones]
            self.shrink(queries, np.array([zone.radius for zone in zones]))
        slots = [zone.slots if isinstance(zone, TopZone) else zone.skyline for zone in found.values()]
        if slots:
            ends = np.cumsum([len(some) for some in slots])
            self.holders.hold(np.array(list(found)), ends, np.concatenate(slots).astype(np.int64, copy=False))
        # The last ones are often asked for next.
        self._found = list(found.values())
        self._made.update(tops)

    def shrink(self, queries: Ints, radius: Floats) -> None:
        """Change how far the zones of top-k queries reach."""
        self.tops.radius[queries] = radius
        self.renew(queries)

    def renew(self, queries: Ints) -> None:
        """Objects that top-k queries hold have changed, or which these are: make their answers again."""
        for q in queries.tolist():
            self._made.pop(q, None)

    def postpone(self, queries: Sequence[int]) -> None:
        """Hold the answers of queries no longer, until they are kept again. O(their candidates, or members)."""
        self._let_go(queries)
        self.postponed.update(queries)

    def drop(self, query: int) -> None:
        """Delete an answer. O(its candidates, or members)."""
        self._let_go([query])
        self.postponed.discard(query)

    def _let_go(self, queries: Sequence[int]) -> None:
        for q in queries:
            self.skylines.pop(q, None)
            self._made.pop(q, None)
        self.holders.release(np.array(queries))

    def copy(self, index: PlaceIndex) -> HeldAnswers:
        """A copy that stays as it is, over a copy of the index."""
        other = HeldAnswers(self._queries.copy(), index)
        other.skylines = self.skylines.copy()
        other.holders = self.holders.copy()
        other.postponed = self.postponed.copy()
        other.tops = deepcopy(self.tops)
        return other

    def _reserve(self, queries: int) -> None:
        have = len(self.tops.radius)
        if queries > have:
            room = max(queries, have * 9 // 8)
            longer = TopColumns(np.empty((room, 2)), np.empty(room), np.empty(room, np.int32))
            longer.place[:have], longer.radius[:have], longer.members[:have] = self.tops
            self.tops = longer
