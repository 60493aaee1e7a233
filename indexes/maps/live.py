"""Standing queries of one map, whose answers and zones stay right while objects come, change and go.

After a batch of changes only the queries are looked at that it may touch: those that hold a changed object, as a member
or a candidate (`holders.py`), and those that it may come to matter to (`top_reach.py`, `sky_reach.py`). What a change
does to such a zone is decided by the rules for one zone (`top_changes.TopKeeper` and `changes.Keeper`, and for many
top-k at once `top_batch.py`): nothing, another zone with the same answer, or a new search over the map. Any other zone
stays as it is, and right.

So a held answer is always one that a search might give now, at the place where it was asked for; strictly within its
zone it is right as well; and the place where the client is said to be is in the zone, or is that place.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from indexes.beside import Beside
from indexes.maps import top_batch
from indexes.maps.attributes import Attribute
from indexes.maps.changes import CircleKeeper, Effect, Keeper
from indexes.maps.holders import Holders, holders_of
from indexes.maps.metrics import EUCLIDEAN, METRICS
from indexes.maps.places import PlaceIndex
from indexes.maps.scores import Scoring
from indexes.maps.sky_circle import CircleSearcher, CircleZone
from indexes.maps.sky_reach import SkyReach
from indexes.maps.top import TopSearch, TopZone
from indexes.maps.top_batch import OneEach, TopBatch
from indexes.maps.top_changes import TopEffect, TopKeeper
from indexes.maps.top_reach import TopReach
from indexes.maps.zones import Searcher, Zone

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

Point = tuple[float, float]

PIECE = 64
"""Queries that are seen to at once."""

SHARED = 128
"""Queries from which on two threads search for them: fewer are found before the other has begun."""

PATIENCE = 60.0
"""Seconds between two looks whether the other thread still searches."""

PAIRS = 1024
"""Room for touched queries beside one for each."""


@dataclass(frozen=True, slots=True)
class TopAsk:
    """A top-k that stands."""

    k: int
    m: int
    scoring: Scoring
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class SkylineAsk:
    """A skyline that stands."""


Ask = TopAsk | SkylineAsk

Held = TopZone | Zone | CircleZone
"""What a query holds: a top-k, or a skyline, whose zone is a circle off Euclid."""


class Changes(NamedTuple):
    """A batch: what is in each of these slots now, each slot once."""

    slots: Int64  # (n,)
    there: NDArray[np.bool_]  # (n,) False: the object has gone, and what is said of it counts for nothing
    points: Float64  # (n, 2)
    statics: Float64  # (n, d) smaller being better
    created: Int64  # (n,)


class Told(NamedTuple):
    """A query that a batch touched: what it holds now, and whether that was searched for anew."""

    query: int
    zone: Held
    anew: bool


class Settled(NamedTuple):
    """What a batch came to: the queries with another zone, in order, and how many were looked at."""

    told: list[Told]
    touched: int


class Searches:
    """What one thread at a time searches with."""

    def __init__(self, d: int, metric: str) -> None:
        self.polygons, self.circles = Searcher(d), CircleSearcher(d, metric)
        self._tops: TopSearch | None = None

    def tops_in(self, index: PlaceIndex) -> TopSearch:
        """What searches for top-k in an index, which is mostly the last one."""
        if self._tops is None or self._tops.index is not index:
            self._tops = TopSearch(index)
        return self._tops


class LiveQueries:
    """The standing queries of one map, by number; from one thread at a time. It shares searches for many with another.

    `index` is what is searched; one with the same objects may take its place at any time, as after a fold.
    """

    def __init__(
        self, index: PlaceIndex, attributes: Sequence[Attribute], bounds: Float64, metric: str = "euclidean"
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
        self.skies = SkyReach(index.d, self.metric)
        self.holders = Holders()
        self._asks: dict[int, Ask] = {}
        self._zones: dict[int, Held] = {}
        self._at: dict[int, Point] = {}
        self._score: dict[int, int] = {}
        self._here, self._beside = Searches(index.d, metric), Searches(index.d, metric)
        self._keeper, self._circle_keeper = Keeper(index.d), CircleKeeper()
        self._top_keepers: dict[int, TopKeeper] = {}
        self._top_batch = TopBatch(index.d)
        self._pairs = np.empty((2, PAIRS), np.int64)

    def __len__(self) -> int:
        return len(self._asks)

    def __contains__(self, query: int) -> bool:
        return query in self._asks

    def __getitem__(self, query: int) -> Held:
        """What a query holds."""
        return self._zones[query]

    def put(self, queries: Sequence[int], asks: Sequence[Ask], points: Sequence[Point]) -> None:
        """Queries come, or take the place of those of their numbers, at these places. A search each.

        Raises:
            ValueError: a place is not finite, k or m is below 1, or a score is by another metric than the map's;
                nothing has changed.
        """
        for ask in asks:
            if isinstance(ask, TopAsk) and (ask.k < 1 or ask.m < 1 or ask.scoring.metric != self.metric):
                raise ValueError(f"k {ask.k} or m {ask.m} is below 1, or the metric is another")
        if not np.isfinite(np.array(points, np.float64)).all():
            raise ValueError("a place is not finite")
        for query in queries:
            if query in self._asks:
                self.drop(query)
        for query, ask, point in zip(queries, asks, points, strict=True):
            self._asks[query] = ask
            self._at[query] = float(point[0]), float(point[1])
            if isinstance(ask, TopAsk):
                self._score[query] = self.tops.scores.take(ask.scoring)
        self._renew(list(dict.fromkeys(queries)))

    def drop(self, query: int) -> None:
        """A query goes. O(its candidates, or members)."""
        ask = self._asks.pop(query)
        del self._at[query], self._zones[query]
        self.holders.release(np.array([query]))
        if isinstance(ask, TopAsk):
            self.tops.remove(np.array([query]))
            self.tops.scores.let_go(self._score.pop(query))
        else:
            self.skies.remove(query)

    def move(self, query: int, point: Point) -> bool:
        """The client of a query is at a place: whether that is in its zone; else it holds another from now on.

        Raises:
            ValueError: the place is not finite; nothing has changed.
        """
        if not np.isfinite(point).all():
            raise ValueError("a place is not finite")
        self._at[query] = at = float(point[0]), float(point[1])
        if self._holds(self._zones[query], at):
            return True
        self._renew([query])
        return False

    def apply(self, changes: Changes) -> Settled:
        """Change the objects of the index, and see to the queries: those that hold another zone now.

        O(log q + t) a change for t touched of q queries, and a search for each that is evaluated anew. O(q d log q)
        when an object is better than any was known to be, or a delta is worn: too seldom to count in the long run.

        Raises:
            ValueError: see `PlaceIndex.put`; nothing has changed.
        """
        there = changes.there
        self.index.put(
            changes.slots[there], changes.points[there], changes.statics[there], created=changes.created[there]
        )
        self.index.delete(changes.slots[~there])
        return self.settle(changes)

    def settle(self, changes: Changes) -> Settled:
        """As `apply`, where the index has been changed already."""
        steps = self.settle_steps(changes)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                settled: Settled = end.value
                return settled

    def settle_steps(self, changes: Changes) -> Generator[None, None, Settled]:
        """As `settle`, in pieces of some milliseconds: an object may be in the answers of thousands of queries. Until
        the last piece no object or query may change, and what queries hold may be old or new."""
        points, statics = changes.points + 0.0, changes.statics + 0.0
        self.tops.allow(statics[changes.there])
        change, query = self._touched(changes, points, statics)
        told: list[Told] = []
        anew: list[int] = []
        entering: list[int] = []
        begins = np.flatnonzero(np.diff(query, prepend=-1))
        ends = np.append(begins[1:], len(query)) if len(begins) else begins
        together = ends - begins == 1
        together[together] = [isinstance(self._zones[q], TopZone) for q in query[begins[together]].tolist()]
        once = begins[together]
        for i in range(0, len(once), PIECE):
            some = once[i : i + PIECE]
            queries = query[some].tolist()
            effects, zones = self._keep_tops(queries, changes, points, statics, change[some])
            for q, effect, top in zip(queries, effects, zones, strict=True):
                if effect == top_batch.BROKEN:
                    anew.append(q)
                elif effect != top_batch.KEPT:
                    self._zones[q] = top
                    told.append(Told(q, top, False))
                    # What it reaches follows from its members, and whom it holds is the same too.
                    if effect != top_batch.SAME:
                        entering.append(q)
            yield
        others = np.flatnonzero(~together)
        for i, (begin, end) in enumerate(zip(begins[others].tolist(), ends[others].tolist(), strict=True), 1):
            q = int(query[begin])
            zone = self._after(q, changes, points, statics, change[begin:end].tolist())
            if zone is None:
                anew.append(q)
            elif zone is not self._zones[q]:
                self._zones[q] = zone
                told.append(Told(q, zone, False))
                entering.append(q)
            if i % PIECE == 0:
                yield
        for i in range(0, len(entering), PIECE):
            self._enter(entering[i : i + PIECE])
            yield
        for i in range(0, len(anew), 2 * SHARED):
            self._renew(anew[i : i + 2 * SHARED])
            yield
        told += [Told(q, self._zones[q], True) for q in anew]
        return Settled(sorted(told, key=lambda one: one.query), len(begins))

    def _touched(self, changes: Changes, points: Float64, statics: Float64) -> tuple[Int64, Int64]:
        """The pairs of changes and the queries that each may touch, in order of query, then change."""
        found = [np.empty(0, np.int64)]
        wide = len(changes.slots)
        here = np.flatnonzero(changes.there)
        places, values = np.ascontiguousarray(points[here]), np.ascontiguousarray(statics[here])
        slots = np.ascontiguousarray(changes.slots, np.int64)
        if self._pairs.shape[1] < len(self) + PAIRS:
            self._pairs = np.empty((2, 3 * len(self) // 2 + PAIRS), np.int64)
        change, query = self._pairs
        at = 0
        while at < len(slots):
            at, n = holders_of(self.holders.cells, slots, at, change, query, 0)
            found.append(query[:n] * wide + change[:n])
        for index in (self.tops, self.skies):
            at = 0
            while len(index) and at < len(here):
                at, n = index.touched(places, values, at, change, query, 0)
                found.append(query[:n] * wide + here[change[:n]])
        pairs = np.unique(np.concatenate(found))
        return pairs % max(1, wide), pairs // max(1, wide)

    def _keep_tops(
        self, queries: list[int], changes: Changes, points: Float64, statics: Float64, which: Int64
    ) -> tuple[list[int], list[TopZone]]:
        """What one of the changes each is to top-k queries, and what these hold after it."""
        zones = [self._zones[q] for q in queries]
        one_each = OneEach(
            changes.slots[which].astype(np.int64),
            changes.there[which],
            points[which],
            statics[which],
            self.index.view.created[changes.slots[which]],
        )
        scores = np.array([self._score[q] for q in queries])
        ats = np.array([self._at[q] for q in queries])
        return self._top_batch.keep(cast("list[TopZone]", zones), one_each, self.tops.scores.arrays, scores, ats)

    def _after(self, query: int, changes: Changes, points: Float64, statics: Float64, which: list[int]) -> Held | None:
        """What a query holds after some of the changes; None: it has to be searched for anew."""
        zone = self._zones[query]
        at = self._at[query]
        for i in which:
            slot, there = int(changes.slots[i]), bool(changes.there[i])
            place = float(points[i, 0]), float(points[i, 1])
            if isinstance(zone, TopZone):
                keeper, created = self._top_keeper(zone.members), int(self.index.view.created[slot])
                values = statics[i]
                top = keeper.put(zone, slot, *place, values, created, at) if there else keeper.delete(zone, slot)
                broken, zone = top.effect is TopEffect.BROKEN, top.zone
            elif isinstance(zone, CircleZone):
                beside = self._circle_keeper
                sky = beside.put(zone, slot, *place, statics[i]) if there else beside.delete(zone, slot)
                broken, zone = sky.effect is Effect.BROKEN, sky.zone
            else:
                sky = self._keeper.put(zone, slot, *place, statics[i]) if there else self._keeper.delete(zone, slot)
                broken, zone = sky.effect is Effect.BROKEN, sky.zone
            if broken:
                return None
        return zone if self._holds(zone, at) else None

    def _holds(self, zone: Held, at: Point) -> bool:
        """Whether a zone is right at a place: its own, or one strictly within."""
        if (float(zone.place[0]), float(zone.place[1])) == at:
            return True
        return zone.inside(*at) if isinstance(zone, TopZone) else zone.holds(*at)

    def _renew(self, queries: list[int]) -> None:
        """Search for the answers of queries anew, where their clients are: half of many in a thread beside."""
        half = len(queries) // 2 if len(queries) >= SHARED else len(queries)
        ours, theirs = queries[:half], queries[half:]
        beside = Beside(partial(self._found, theirs, self._beside)) if theirs else None
        self._zones.update(self._found(ours, self._here))
        if beside is not None:
            while not beside.done(PATIENCE):
                pass
            self._zones.update(beside.found)
        self._enter(queries)

    def _found(self, queries: list[int], searches: Searches) -> dict[int, Held]:
        """What queries come to where their clients are. Reads only."""
        found: dict[int, Held] = {}
        alike: dict[tuple[int, int, int, bool], list[int]] = {}
        for q in queries:
            ask = self._asks[q]
            if isinstance(ask, TopAsk):
                alike.setdefault((self._score[q], ask.k, ask.m, ask.ordered), []).append(q)
            elif self.metric == EUCLIDEAN:
                found[q] = searches.polygons.zone(self.index, *self._at[q], self.bounds)
            else:
                found[q] = searches.circles.zone(self.index, *self._at[q])
        if alike:
            tops = searches.tops_in(self.index)
            for (score, k, m, ordered), some in alike.items():
                zones = tops.zones([self._at[q] for q in some], k, m, self.tops.scores[score], ordered)
                found.update(zip(some, zones, strict=True))
        return found

    def _enter(self, queries: list[int]) -> None:
        """Note what zones of queries reach, and whom they hold."""
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
                self.skies.put(q, zone)
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

    def _top_keeper(self, k: int) -> TopKeeper:
        """One for each number of members: it has room for that many."""
        if k not in self._top_keepers:
            self._top_keepers[k] = TopKeeper(self.index.d)
        return self._top_keepers[k]
