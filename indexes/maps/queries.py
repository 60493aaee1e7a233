"""The standing queries of a map: their ids, questions and answers, and where their clients are.

Answers follow from the objects. So while the log is replayed none is held (`live` is None), and all are searched for
when that is done, which may give other zones than before, and correct ones. For the same reason the answer of a query
that nobody follows may be searched for only when somebody wants it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np

from indexes.core.names import Names
from indexes.core.pending import RowPool
from indexes.maps.config import MapConfig, Point, Question
from indexes.maps.live.queries import LiveQueries
from indexes.maps.object_index import PlaceIndex
from indexes.maps.questions import ScoringCache
from indexes.maps.searches import AnswerZone
from indexes.maps.zones.top import TopZone

AT_ONCE = 256
"""Queries that are searched for at a time."""


class Queries:
    """All standing queries of a map, by row."""

    def __init__(self, config: MapConfig, index: PlaceIndex) -> None:
        """None yet, over the objects of an index."""
        self._config = config
        self.scorings = ScoringCache(config)
        self.names = Names()
        self.question: dict[int, Question] = {}
        self.at: dict[int, Point] = {}
        self.pool = RowPool()
        self.live: LiveQueries | None = self.empty_live(index)

    def __len__(self) -> int:
        return len(self.names)

    def empty_live(self, index: PlaceIndex) -> LiveQueries:
        """Live queries over an index, none of them inserted yet."""
        bounds = np.array(self._config.bounds)
        return LiveQueries(index, self._config.attributes, bounds, self._config.metric)

    def live_over(self, index: PlaceIndex) -> LiveQueries:
        """All of them as live queries over an index. A search each."""
        live = self.empty_live(index)
        rows = list(self.question)
        for i in range(0, len(rows), AT_ONCE):
            self.enter(live, rows[i : i + AT_ONCE])
        return live

    def enter(self, live: LiveQueries, rows: Sequence[int]) -> None:
        """Insert some of them into live queries."""
        live.put(rows, [self.scorings.query_of(self.question[row]) for row in rows], [self.at[row] for row in rows])

    def zone(self, row: int, index: PlaceIndex) -> AnswerZone:
        """The answer of a query with its zone; searched for where none is held."""
        if self.live is not None:
            return self.live[row]
        alone = self.empty_live(index)
        self.enter(alone, [row])
        return alone[row]

    def after(self, key: str | None, limit: int) -> list[tuple[str, int]]:
        """Up to `limit` ids with their rows, behind `key`."""
        return list(islice(self.names.after(key), limit))

    def forget(self, key: str, row: int) -> None:
        """Remove a query that is no longer live."""
        self.names.delete(key, row)
        del self.question[row], self.at[row]
        self.pool.give([row])

    def check(self) -> None:
        """Raise AssertionError unless all parts agree."""
        self.names.ids.check()
        rows = {row for _, row in self.names.after(None)}
        assert rows == set(self.question) == set(self.at), "a query in part"
        free = self.pool.free()
        assert not set(free) & rows and self.pool.high == len(free) + len(rows), "rows are lost"
        if self.live is not None:
            live = self.live
            assert len(live) == len(rows) and all(row in live for row in rows), "other queries are live"
            for row in rows - live.held.postponed:
                zone, at = live[row], self.at[row]
                place = float(zone.place[0]), float(zone.place[1])
                inside = zone.inside(*at) if isinstance(zone, TopZone) else zone.holds(*at)
                assert place == at or inside, "a client is outside its zone"
            live.holders.check()
