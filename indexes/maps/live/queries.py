"""Standing queries of one map, whose answers and zones stay right while objects are inserted, changed and deleted.

After a batch of changes only the queries are examined that it may touch: those that hold a changed object, as a member
or a candidate (`holders.py`), and those that it may come to matter to (`top_reach.py`, `skyline_reach.py`). The rules
for one zone say what a change does to it (`TopBatchUpdater`, `SkylineUpdater`, `CircleUpdater`): nothing, another zone
with the same answer, or a new search. Any other zone stays valid as it is.

So an answer that is held is one that a search might return now, at the place where it was searched for; it is right
strictly within its zone as well; and the last known place of the client is in the zone, or is that place.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from indexes.core.arrays import Bools, Floats, Ints
from indexes.core.background import BackgroundTask
from indexes.maps.attributes import Attribute
from indexes.maps.config import Point
from indexes.maps.kernels.metrics import METRICS
from indexes.maps.live.holders import Holders, Pairs, holders_of
from indexes.maps.live.skyline_changes import CircleUpdater, Effect, SkylineUpdater, Update
from indexes.maps.live.skyline_reach import SkylineReach
from indexes.maps.live.top_changes import BROKEN, OTHER, SHRUNK, ChangeColumns, TopBatchUpdater
from indexes.maps.live.top_reach import TopReach
from indexes.maps.object_index import PlaceIndex
from indexes.maps.searches import AnswerZone, Query, Searches, TopQuery
from indexes.maps.zones.circle import CircleZone
from indexes.maps.zones.top import TopZone

SHARED = 128
"""Queries from which on two threads share the searches: fewer are done before the second has started."""

PATIENCE = 60.0
"""Seconds to wait at a time for the second thread."""

PAIRS = 1024
"""Room for touched queries in addition to one for each query."""


class Changes(NamedTuple):
    """A batch of changes: what is in each of these slots now, each slot once."""

    slots: Ints  # (n,)
    there: Bools  # (n,) False: the object has gone, and what is said of it counts for nothing
    points: Floats  # (n, 2)
    statics: Floats  # (n, d) smaller being better
    created: Ints  # (n,)


class ZoneChange(NamedTuple):
    """A query that holds another zone after a batch, and whether it was searched for again."""

    query: int
    zone: AnswerZone
    searched: bool


class BatchResult(NamedTuple):
    """The queries with another zone after a batch, in order, and how many were examined."""

    changed: list[ZoneChange]
    touched: int


class LiveQueries:
    """The standing queries of one map, by number; from one thread at a time. A second one helps with many searches.

    `index` is what is searched; it may be replaced by one with the same objects at any time, as after a fold.
    """

    def __init__(
        self, index: PlaceIndex, attributes: Sequence[Attribute], bounds: Floats, metric: str = "euclidean"
    ) -> None:
        """Over the objects of an index, with these attributes in the order of its static values. `bounds` are the
        map's (x0, y0, x1, y1)."""
        self.index = index
        self.bounds = np.asarray(bounds, np.float64)
        self.metric = METRICS[metric]
        lower, upper = np.full((2, index.d), np.inf) * [[1.0], [-1.0]]
        for j, attribute in enumerate(attributes):
            if attribute.range is not None:
                low, high = attribute.range
                lower[j], upper[j] = (-high, -low) if attribute.high else (low, high)
        self.tops = TopReach(self.metric, lower, upper)
        self.tops.allow(index.rows(index.slots())[1])
        self.skylines = SkylineReach(index.d, self.metric)
        self.holders = Holders()
        self._queries: dict[int, Query] = {}
        self._zones: dict[int, AnswerZone] = {}
        self._at: dict[int, Point] = {}
        self._score: dict[int, int] = {}
        self._searches, self._shared = (Searches(index.d, self.bounds, metric) for _ in range(2))
        self._skyline_updater, self._circle_updater = SkylineUpdater(index.d), CircleUpdater()
        self._top_batch = TopBatchUpdater(index.d)
        self._pairs = Pairs.of(PAIRS)

    def __len__(self) -> int:
        return len(self._queries)

    def __contains__(self, query: int) -> bool:
        return query in self._queries

    def __getitem__(self, query: int) -> AnswerZone:
        """The answer of a query with its zone."""
        return self._zones[query]

    def put(self, rows: Sequence[int], queries: Sequence[Query], points: Sequence[Point]) -> None:
        """Insert or replace queries, with their clients at these places. A search each.

        Raises:
            ValueError: a place is not finite, k or m is below 1, or a score is by another metric than the map's;
                nothing has changed.
        """
        for query in queries:
            if isinstance(query, TopQuery) and (query.k < 1 or query.m < 1 or query.scoring.metric != self.metric):
                raise ValueError(f"k {query.k} or m {query.m} is below 1, or the metric is another")
        if not np.isfinite(np.array(points, np.float64)).all():
            raise ValueError("a place is not finite")
        for row in rows:
            if row in self._queries:
                self.drop(row)
        for row, query, point in zip(rows, queries, points, strict=True):
            self._queries[row] = query
            self._at[row] = float(point[0]), float(point[1])
            if isinstance(query, TopQuery):
                self._score[row] = self.tops.scores.take(query.scoring)
        self._search(list(dict.fromkeys(rows)))

    def drop(self, query: int) -> None:
        """Delete a query. O(its candidates, or members)."""
        definition = self._queries.pop(query)
        del self._at[query], self._zones[query]
        self.holders.release(np.array([query]))
        if isinstance(definition, TopQuery):
            self.tops.remove(np.array([query]))
            self.tops.scores.let_go(self._score.pop(query))
        else:
            self.skylines.remove(query)

    def move(self, query: int, point: Point) -> bool:
        """Move the client of a query; whether the place is in its zone. If not, it is searched for again.

        Raises:
            ValueError: the place is not finite; nothing has changed.
        """
        if not np.isfinite(point).all():
            raise ValueError("a place is not finite")
        self._at[query] = at = float(point[0]), float(point[1])
        if self._holds(self._zones[query], at):
            return True
        self._search([query])
        return False

    def apply(self, changes: Changes) -> BatchResult:
        """Change the objects of the index and update the queries.

        O(log q + t) a change for t touched of q queries, and a search for each whose zone is broken. O(q d log q) when
        an object is better than any before, or a delta has grown: too seldom to count in the long run.

        Raises:
            ValueError: see `PlaceIndex.put`; nothing has changed.
        """
        there = changes.there
        self.index.put(
            changes.slots[there], changes.points[there], changes.statics[there], created=changes.created[there]
        )
        self.index.delete(changes.slots[~there])
        points, statics = changes.points + 0.0, changes.statics + 0.0
        self.tops.allow(statics[changes.there])
        change, query = self._touched(changes, points, statics)
        begins = np.flatnonzero(np.diff(query, prepend=-1))
        each = np.split(change, begins[1:]) if len(begins) else []
        touched = dict(zip(query[begins].tolist(), each, strict=True))
        before = {q: self._zones[q] for q in touched}
        broken, entered = self._update_tops(touched, changes, points, statics)
        for q, which in touched.items():
            if not isinstance(before[q], TopZone):
                zone = self._updated(q, changes, points, statics, which.tolist())
                if zone is None:
                    broken.add(q)
                elif zone is not before[q]:
                    self._zones[q] = zone
                    entered.add(q)
        self._enter(sorted(entered - broken))
        self._search(sorted(broken))
        changed = [ZoneChange(q, self._zones[q], q in broken) for q in touched if self._zones[q] is not before[q]]
        return BatchResult(changed, len(touched))

    def _touched(self, changes: Changes, points: Floats, statics: Floats) -> tuple[Ints, Ints]:
        """The pairs of changes and the queries that each may touch, in order of query, then change."""
        found = [np.empty(0, np.int64)]
        wide = len(changes.slots)
        here = np.flatnonzero(changes.there)
        places, values = np.ascontiguousarray(points[here]), np.ascontiguousarray(statics[here])
        slots = np.ascontiguousarray(changes.slots, np.int64)
        if len(self._pairs.change) < len(self) + PAIRS:
            self._pairs = Pairs.of(3 * len(self) // 2 + PAIRS)
        change, query = self._pairs
        at = 0
        while at < len(slots):
            at, n = holders_of(self.holders.cells, slots, at, self._pairs)
            found.append(query[:n] * wide + change[:n])
        for index in (self.tops, self.skylines):
            at = 0
            while len(index) and at < len(here):
                at, n = index.touched(places, values, at, self._pairs)
                found.append(query[:n] * wide + here[change[:n]])
        pairs = np.unique(np.concatenate(found))
        return pairs % max(1, wide), pairs // max(1, wide)

    def _update_tops(
        self, touched: dict[int, Ints], changes: Changes, points: Floats, statics: Floats
    ) -> tuple[set[int], set[int]]:
        """Apply changes to the top-k queries among those that they touch, in rounds: one change to each of many at
        once. Returns the queries whose zones are broken, and those that hold other objects or reach less far."""
        broken: set[int] = set()
        entered: set[int] = set()
        queries = [q for q in touched if isinstance(self._zones[q], TopZone)]
        turn = 0
        while queries:
            which = np.array([touched[q][turn] for q in queries])
            turn += 1
            slots = changes.slots[which].astype(np.int64)
            created = self.index.view.created[slots]
            one_each = ChangeColumns(slots, changes.there[which], points[which], statics[which], created)
            zones = cast("list[TopZone]", [self._zones[q] for q in queries])
            scores = np.array([self._score[q] for q in queries])
            ats = np.array([self._at[q] for q in queries])
            effects, after = self._top_batch.update(zones, one_each, self.tops.scores.arrays, scores, ats)
            self._zones.update(zip(queries, after, strict=True))
            broken.update(q for q, effect in zip(queries, effects, strict=True) if effect == BROKEN)
            entered.update(q for q, effect in zip(queries, effects, strict=True) if effect in (OTHER, SHRUNK))
            queries = [q for q in queries if q not in broken and turn < len(touched[q])]
        return broken, entered

    def _updated(
        self, query: int, changes: Changes, points: Floats, statics: Floats, which: list[int]
    ) -> AnswerZone | None:
        """The zone of a skyline after some of the changes; None: it is broken."""
        zone = self._zones[query]
        for i in which:
            slot, place = int(changes.slots[i]), (float(points[i, 0]), float(points[i, 1]))
            updater: Any = self._circle_updater if isinstance(zone, CircleZone) else self._skyline_updater
            there = changes.there[i]
            update: Update = updater.put(zone, slot, *place, statics[i]) if there else updater.delete(zone, slot)
            if update.effect is Effect.BROKEN:
                return None
            zone = update.zone
        return zone if self._holds(zone, self._at[query]) else None

    def _holds(self, zone: AnswerZone, at: Point) -> bool:
        """Whether a zone is valid at a place: its own, or one strictly within."""
        if (float(zone.place[0]), float(zone.place[1])) == at:
            return True
        return zone.inside(*at) if isinstance(zone, TopZone) else zone.holds(*at)

    def _search(self, queries: list[int]) -> None:
        """Search for the answers of queries where their clients are: half of many in a second thread."""
        half = len(queries) // 2 if len(queries) >= SHARED else len(queries)
        ours, theirs = queries[:half], queries[half:]
        background = BackgroundTask(partial(self._found, theirs, self._shared)) if theirs else None
        self._zones.update(self._found(ours, self._searches))
        if background is not None:
            while not background.done(PATIENCE):
                pass
            self._zones.update(background.result)
        self._enter(queries)

    def _found(self, queries: list[int], searches: Searches) -> dict[int, AnswerZone]:
        """The answers of queries where their clients are. Reads only."""
        alike: dict[tuple[int, int, int, bool] | None, list[int]] = {}
        for q in queries:
            query = self._queries[q]
            key = None
            if isinstance(query, TopQuery):
                key = self._score[q], query.k, query.m, query.ordered
            alike.setdefault(key, []).append(q)
        found: dict[int, AnswerZone] = {}
        for some in alike.values():
            zones = searches.zones(self.index, self._queries[some[0]], [self._at[q] for q in some])
            found.update(zip(some, zones, strict=True))
        return found

    def _enter(self, queries: list[int]) -> None:
        """Index zones of queries by what they reach and which objects they hold."""
        if not queries:
            return
        zones = [self._zones[q] for q in queries]
        slots = [zone.slots if isinstance(zone, TopZone) else zone.skyline for zone in zones]
        ends = np.cumsum([len(some) for some in slots])
        self.holders.hold(np.array(queries), ends, np.concatenate(slots).astype(np.int64, copy=False))
        tops = []
        for q, zone in zip(queries, zones, strict=True):
            if isinstance(zone, TopZone):
                tops.append((q, zone))
            else:
                self.skylines.put(q, zone)
        if tops:
            # An answer that is short has no members here: any object may enter it.
            counts = [zone.members if zone.members == zone.k else 0 for _, zone in tops]
            self.tops.put(
                np.array([q for q, _ in tops]),
                np.array([zone.place for _, zone in tops]),
                np.array([self._score[q] for q, _ in tops]),
                np.array([zone.radius for _, zone in tops]),
                np.cumsum(counts),
                np.concatenate([zone.distances[:n] for n, (_, zone) in zip(counts, tops, strict=True)]),
                np.concatenate([zone.statics[:n] for n, (_, zone) in zip(counts, tops, strict=True)]),
            )
