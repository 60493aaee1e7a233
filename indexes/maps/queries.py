"""The standing queries of a map: their ids, questions, and where their clients are; and what they hold.

What they hold follows from the objects. So while a log is replayed nothing is held (`live` is None): all of it is
searched for at once when that is done, which may give other zones than before, and right ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import numpy as np

from indexes.maps.asks import Asks
from indexes.maps.live import Held, LiveQueries
from indexes.maps.model import MapConfig, Point, Question
from indexes.maps.places import PlaceIndex
from indexes.maps.top import TopZone
from indexes.names import Names
from indexes.overlay import RowPool

AT_ONCE = 256
"""Queries that are searched for between two looks at the clock."""


class Queries:
    """All standing queries of a map, by row."""

    def __init__(self, config: MapConfig, index: PlaceIndex) -> None:
        """None yet, over the objects of an index."""
        self._config = config
        self.asks = Asks(config)
        self.names = Names()
        self.question: dict[int, Question] = {}
        self.at: dict[int, Point] = {}
        self.pool = RowPool()
        self.live: LiveQueries | None = self.over(index)

    def __len__(self) -> int:
        return len(self.names)

    def over(self, index: PlaceIndex) -> LiveQueries:
        """None of them, over an index."""
        bounds = np.array(self._config.bounds)
        return LiveQueries(index, self._config.attributes, bounds, self._config.metric)

    def all_over(self, index: PlaceIndex) -> LiveQueries:
        """All of them over an index: a search each."""
        live = self.over(index)
        rows = list(self.question)
        for i in range(0, len(rows), AT_ONCE):
            self.enter(live, rows[i : i + AT_ONCE])
        return live

    def enter(self, live: LiveQueries, rows: Sequence[int]) -> None:
        """Search for what some of them hold."""
        live.put(rows, [self.asks.of(self.question[row]) for row in rows], [self.at[row] for row in rows])

    def held(self, row: int, index: PlaceIndex) -> Held:
        """What a query holds, or would where nothing is held."""
        if self.live is not None:
            return self.live[row]
        alone = self.over(index)
        self.enter(alone, [row])
        return alone[row]

    def after(self, key: str | None, limit: int) -> list[tuple[str, int]]:
        """Up to `limit` ids with their rows, behind `key`."""
        return list(islice(self.names.after(key), limit))

    def forget(self, key: str, row: int) -> None:
        """A query that holds nothing any more."""
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
            assert len(live) == len(rows) and all(row in live for row in rows), "what is held is of others"
            for row in rows:
                zone, at = live[row], self.at[row]
                place = float(zone.place[0]), float(zone.place[1])
                inside = zone.inside(*at) if isinstance(zone, TopZone) else zone.holds(*at)
                assert place == at or inside, "a client is outside its zone"
            live.holders.check()
