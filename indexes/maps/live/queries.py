"""Standing queries of one map, whose answers and zones stay right while objects are inserted, changed and deleted.

After a batch of changes only the queries are examined that it may touch: those that hold a changed object, as a member
or a candidate (`holders.py`), and those that it may come to matter to (`top_reach.py`, `skyline_reach.py`). The rules
for one zone say what a change does to it (`TopBatchUpdater`, `SkylineUpdater`, `CircleUpdater`): nothing, another zone
with the same answer, or a new search. Any other zone stays valid as it is.

So an answer that is held is one that a search might return now, at the place where it was searched for; it is right
strictly within its zone as well; and the last known place of the client is in the zone, or is that place.

Of queries that nobody follows the new search may be postponed until somebody wants the answer. No change touches such
a query: its answer is searched for among the objects that there are then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from indexes.compiled.kept import Keeper
from indexes.core.arrays import Bools, Floats, Ints, Ints32, run_lengths
from indexes.core.background import BackgroundTask
from indexes.maps.attributes import Attribute
from indexes.maps.config import Point
from indexes.maps.kernels.metrics import METRICS, measure_distances
from indexes.maps.live.held_answers import HeldAnswers
from indexes.maps.live.holders import Holders, Pairs, holders_of
from indexes.maps.live.skyline_changes import CircleUpdater, Effect, SkylineUpdater, Update
from indexes.maps.live.skyline_reach import SkylineReach
from indexes.maps.live.step import ALL, KeptLive, StepRoom, step
from indexes.maps.live.top_changes import BROKEN, KEPT, OTHER, SAME, SHRUNK, ChangeColumns, TopBatchUpdater, ZoneColumns
from indexes.maps.live.top_reach import TopReach
from indexes.maps.object_index import PlaceIndex
from indexes.maps.searches import AnswerZone, Query, Searches, TopQuery
from indexes.maps.zones.circle import CircleZone
from indexes.maps.zones.skyline import Zone
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

    def make(self, index: PlaceIndex) -> None:
        """Change the objects of an index. Raises as `PlaceIndex.put`; nothing has changed then."""
        there = self.there
        if there.all():
            index.put(self.slots, self.points, self.statics, created=self.created)
            return
        index.put(self.slots[there], self.points[there], self.statics[there], created=self.created[there])
        index.delete(self.slots[~there])


_NOBODY = np.empty(0, np.int64), np.empty(0, np.int64)
"""No pairs of changes and queries."""


class ZoneChange(NamedTuple):
    """A query that holds another zone after a batch, and whether it was searched for again."""

    query: int
    searched: bool
    held: HeldAnswers

    @property
    def zone(self) -> AnswerZone:
        """The zone that it holds now."""
        return self.held[self.query]


class BatchResult(NamedTuple):
    """The queries that hold another zone after a batch, in order, and how many were examined."""

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
        self._queries: dict[int, Query] = {}
        self.held = HeldAnswers(self._queries, index)
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
        self._at: dict[int, Point] = {}
        self._score: dict[int, int] = {}
        self._searches, self._shared = (Searches(index.d, self.bounds, metric) for _ in range(2))
        self._skyline_updater, self._circle_updater = SkylineUpdater(index.d), CircleUpdater()
        self._top_batch = TopBatchUpdater(index.d)
        self._pairs = Pairs.of(PAIRS)
        self._room = StepRoom.of(0, index.d)
        self._keeper = Keeper(KeptLive)

    @property
    def index(self) -> PlaceIndex:
        """What is searched."""
        return self.held.index

    @index.setter
    def index(self, index: PlaceIndex) -> None:
        self.held.index = index
        self._keeper.clear()

    @property
    def holders(self) -> Holders:
        """Which queries hold an object."""
        return self.held.holders

    def __len__(self) -> int:
        return len(self._queries)

    def __contains__(self, query: int) -> bool:
        return query in self._queries

    def __getitem__(self, query: int) -> AnswerZone:
        """The answer of a query with its zone."""
        self.hold([query])
        return self.held[query]

    def hold(self, queries: Iterable[int]) -> None:
        """Search for the answers of queries whose search was postponed."""
        if self.held.postponed:
            self._search([q for q in dict.fromkeys(queries) if q in self.held.postponed])

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
            self._at[row] = _pair(point)
            if isinstance(query, TopQuery):
                self._score[row] = self.tops.scores.take(query.scoring)
        self._search(list(dict.fromkeys(rows)))

    def drop(self, query: int) -> None:
        """Delete a query. O(its candidates, or members)."""
        definition = self._queries.pop(query)
        del self._at[query]
        self.held.drop(query)
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
        self.hold([query])
        self._at[query] = at = _pair(point)
        if self.held.holds(query, at):
            return True
        self._search([query])
        return False

    def apply(self, changes: Changes, follows: Callable[[int], bool] | None = None) -> BatchResult:
        """Change the objects of the index and update the queries. `follows` says of which queries the zone is searched
        for again at once where it is broken; None for all. That of the others is postponed.

        O(log q + t) a change for t touched of q queries, and a search for each whose zone is broken. O(q d log q) when
        an object is better than any before, or a delta has grown: too seldom to count in the long run.

        Raises:
            ValueError: see `PlaceIndex.put`; nothing has changed.
        """
        changes.make(self.index)
        points, statics = changes.points + 0.0, changes.statics + 0.0
        self.tops.allow(statics[changes.there])
        changes = changes._replace(points=points, statics=statics)
        return self._update(changes, self._touched(changes), follows)

    def change(
        self,
        slots: Ints32,
        signs: Floats,
        points: Floats,
        statics: Floats,
        follows: Callable[[int], bool] | None = None,
    ) -> tuple[Ints32, BatchResult]:
        """Change objects that are there, as `PlaceIndex.change`, and update the queries, as `apply`. Returns as well
        the slots of those that have changed."""
        if len(self._room.changed) < len(slots):
            self._room = StepRoom.of(2 * len(slots), self.index.d)
        self.held.index.reserve_changes(len(slots))
        self._reserve_pairs()
        count, pairs, found = step(self._kept(), slots, signs, points, statics)
        which = self._room.changed[:count]
        some = slots if count == len(slots) else slots[which]
        if found == ALL and not pairs:
            return some, BatchResult([], 0)
        there, created = np.ones(count, bool), self.index.view.created[some]
        changes = Changes(some.astype(np.int64), there, points[which], statics[which], created)
        if found == ALL:
            change, query = self._pairs
            touched = _in_order([query[:pairs] * count + change[:pairs]], count)
        else:
            self.tops.allow(changes.statics)
            touched = self._touched(changes)
        return some, self._update(changes, touched, follows)

    def _kept(self) -> KeptLive:
        """The current arguments of `step`."""
        tops, skylines, held = self.tops, self.skylines, self.held
        return self._keeper.kept(
            (
                self.metric, held.index.view, held.holders.cells, self._pairs,
                tops.index.view, tops.bounds, tops.scores.arrays, tops.lower, tops.upper, tops.stack,
                skylines.index.view, skylines.members, skylines.stack, self._room,
            )
        )  # fmt: skip

    def _update(self, changes: Changes, pairs: tuple[Ints, Ints], follows: Callable[[int], bool] | None) -> BatchResult:
        """Update the queries that these changes of the index may touch, in pairs as of `_touched`."""
        change, query = pairs
        if not len(query):
            return BatchResult([], 0)
        begins = np.flatnonzero(np.diff(query, prepend=-1))
        each = np.split(change, begins[1:]) if len(begins) else []
        touched = dict(zip(query[begins].tolist(), each, strict=True))
        effects = self._update_tops(touched, changes)
        for q, which in touched.items():
            if q in self.held.skylines:
                before = self.held.skylines[q]
                zone = self._updated(q, changes, which.tolist())
                if zone is None:
                    effects.broken.add(q)
                elif zone is not before:
                    self.held.skylines[q] = zone
                    effects.changed.add(q)
                    effects.entered.add(q)
        self._enter(sorted(effects.entered - effects.broken))
        broken = sorted(effects.broken)
        self._postpone([] if follows is None else [q for q in broken if not follows(q)])
        self._search([q for q in broken if q not in self.held.postponed])
        changed = (effects.changed | effects.broken) - self.held.postponed
        return BatchResult(
            [ZoneChange(q, q in effects.broken, self.held) for q in touched if q in changed], len(touched)
        )

    def _postpone(self, queries: list[int]) -> None:
        """Hold no answers of queries until somebody wants them."""
        if not queries:
            return
        self.held.postpone(queries)
        tops = [q for q in queries if q in self._score]
        self.tops.rest(np.array(tops, np.int64))
        for q in queries:
            if q not in self._score:
                self.skylines.remove(q)

    def _reserve_pairs(self) -> None:
        queries = len(self._queries)
        if len(self._pairs.change) < queries + PAIRS:
            self._pairs = Pairs.of(3 * queries // 2 + PAIRS)

    def _touched(self, changes: Changes) -> tuple[Ints, Ints]:
        """The pairs of changes and the queries that each may touch, in order of query, then change."""
        found = []
        wide = len(changes.slots)
        here = np.flatnonzero(changes.there)
        places, values = np.ascontiguousarray(changes.points[here]), np.ascontiguousarray(changes.statics[here])
        slots = np.ascontiguousarray(changes.slots, np.int64)
        self._reserve_pairs()
        change, query = self._pairs
        at = 0
        while at < len(slots):
            at, n = holders_of(self.holders.cells, slots, at, self._pairs)
            if n:
                found.append(query[:n] * wide + change[:n])
        for index in (self.tops, self.skylines):
            at = 0
            while len(index) and at < len(here):
                at, n = index.touched(places, values, at, self._pairs)
                if n:
                    found.append(query[:n] * wide + here[change[:n]])
        return _in_order(found, wide) if found else _NOBODY

    def _update_tops(self, touched: dict[int, Ints], changes: Changes) -> _Effects:
        """Apply changes to the top-k queries among those that they touch, in rounds: one change to each of many at
        once."""
        found = _Effects(set(), set(), set())
        queries = [q for q in touched if q in self._score and q not in self.held.postponed]
        if queries:
            # What is read of a member is what it is now, so a zone with one that has changed is left out.
            numbers = np.array(queries)
            candidates = self.held.candidates(numbers)
            members = candidates.firsts(self.held.tops.members[numbers])
            broken = np.repeat(numbers, run_lengths(candidates.ends))[members]
            found.broken.update(broken[np.isin(candidates.slots[members], changes.slots)].tolist())
        turn = 0
        queries = [q for q in queries if q not in found.broken]
        while queries:
            which = np.array([touched[q][turn] for q in queries])
            turn += 1
            slots = changes.slots[which].astype(np.int64)
            created = self.index.view.created[slots]
            one_each = ChangeColumns(
                slots, changes.there[which], changes.points[which], changes.statics[which], created
            )
            numbers = np.array(queries)
            zones = self._zone_columns(queries, numbers)
            after = self._top_batch.update(zones, one_each, self.tops.scores.arrays)
            found.broken.update(numbers[after.effect == BROKEN].tolist())
            found.changed.update(numbers[(after.effect != KEPT) & (after.effect != BROKEN)].tolist())
            other = (after.effect == OTHER) | (after.effect == SHRUNK)
            found.entered.update(numbers[other].tolist())
            self.held.renew(numbers[after.effect == SAME])
            self.held.shrink(numbers[other], after.radius[other])
            self.holders.hold(numbers[other], *after.candidates(zones.ends, other))
            queries = [q for q in queries if q not in found.broken and turn < len(touched[q])]
        return found

    def _zone_columns(self, queries: list[int], numbers: Ints) -> ZoneColumns:
        """The zones of top-k queries by column."""
        tops, candidates = self.held.tops, self.held.candidates(numbers)
        asked = cast("list[TopQuery]", [self._queries[q] for q in queries])
        members = tops.members[numbers].astype(np.int64)
        slots = candidates.slots[candidates.firsts(members)]
        points, statics = self.index.rows(slots)
        return ZoneColumns(
            score=np.array([self._score[q] for q in queries]),
            place=tops.place[numbers],
            at=np.array([self._at[q] for q in queries]),
            k=np.array([query.k for query in asked]),
            m=np.array([query.m for query in asked]),
            members=members,
            radius=tops.radius[numbers],
            ends=candidates.ends,
            slots=candidates.slots,
            places=points,
            statics=statics,
            created=self.index.view.created[slots],
        )

    def _updated(self, query: int, changes: Changes, which: list[int]) -> Zone | CircleZone | None:
        """The zone of a skyline after some of the changes; None: it is broken."""
        zone: Zone | CircleZone = self.held.skylines[query]
        for i in which:
            slot, (x, y) = int(changes.slots[i]), changes.points[i].tolist()
            updater: Any = self._circle_updater if isinstance(zone, CircleZone) else self._skyline_updater
            there = changes.there[i]
            update: Update = updater.put(zone, slot, x, y, changes.statics[i]) if there else updater.delete(zone, slot)
            if update.effect is Effect.BROKEN:
                return None
            zone = update.zone
        at = self._at[query]
        return zone if (float(zone.place[0]), float(zone.place[1])) == at or zone.holds(*at) else None

    def _search(self, queries: list[int]) -> None:
        """Search for the answers of queries where their clients are: half of many in a second thread."""
        if not queries:
            return
        half = len(queries) // 2 if len(queries) >= SHARED else len(queries)
        ours, theirs = queries[:half], queries[half:]
        background = BackgroundTask(partial(self._found, theirs, self._shared)) if theirs else None
        found = self._found(ours, self._searches)
        if background is not None:
            while not background.done(PATIENCE):
                pass
            found.update(background.result)
        self.held.keep(found)
        tops: list[tuple[int, TopZone]] = []
        for q in queries:
            zone = found[q]
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
        """Index zones that a batch has changed by what they reach."""
        for q in queries:
            if q in self.held.skylines:
                self.skylines.put(q, self.held.skylines[q])
        tops = [q for q in queries if q in self._score]
        if tops:
            numbers = np.array(tops)
            columns, candidates = self.held.tops, self.held.candidates(numbers)
            wanted = np.array([cast("TopQuery", self._queries[q]).k for q in tops])
            counts = np.where(columns.members[numbers] == wanted, wanted, 0)
            points, statics = self.index.rows(candidates.slots[candidates.firsts(counts)])
            far, places = np.empty(len(points)), columns.place[numbers]
            which = np.repeat(np.arange(len(tops)), counts)
            measure_distances(self.metric, places, which, np.ascontiguousarray(points.T), far)
            scores = np.array([self._score[q] for q in tops])
            self.tops.put(numbers, places, scores, columns.radius[numbers], np.cumsum(counts), far, statics)


class _Effects(NamedTuple):
    """What a batch does to queries: whose zones are broken; who has another answer or zone otherwise; and who holds
    other objects or reaches less far."""

    broken: set[int]
    changed: set[int]
    entered: set[int]


def _in_order(found: list[Ints], wide: int) -> tuple[Ints, Ints]:
    """Pairs of one of `wide` changes and a query, as query * wide + change, each once and in order."""
    pairs = np.unique(np.concatenate(found))
    return pairs % wide, pairs // wide


def _pair(point: Point) -> Point:
    """A place in Python's own floats; the same object where it is that."""
    if type(point) is tuple and type(point[0]) is type(point[1]) is float:
        return point
    return float(point[0]), float(point[1])
