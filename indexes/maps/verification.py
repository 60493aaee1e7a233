"""Comparison of a map with scans: the answers of all standing queries, and of the index at sampled places."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from indexes.core.arrays import Floats, Ints
from indexes.core.verification import Checked, Difference
from indexes.maps.config import Point
from indexes.maps.kernels.metrics import EUCLIDEAN, METRICS
from indexes.maps.kernels.object_index import ObjectColumns
from indexes.maps.kernels.scores import Scoring, score_objects
from indexes.maps.object_index import PlaceIndex
from indexes.maps.plans.maintenance import Captured
from indexes.maps.scoring import scoring
from indexes.maps.searches import AnswerZone, Searches, TopQuery
from indexes.maps.zones.top import TopSearch, TopZone, own_scoring

SAMPLE = 64
"""Objects at whose places the nearest ones are compared."""

K = 20

CLOSE = 1e-9
"""Scores that differ by less than this, relatively, count as equal: within a zone either may come first."""

PIECE = 16
"""Answers between two reports."""


class Table:
    """All objects of a map by column."""

    def __init__(self, captured: Captured) -> None:
        self.captured = captured
        x, y = (np.ascontiguousarray(column) for column in captured.points.T)
        self.statics = np.ascontiguousarray(captured.statics.T)
        self.columns = ObjectColumns(x, y, self.statics.reshape(-1), captured.slots)
        self.metric = METRICS[captured.config.metric]
        self._nearness = scoring("weighted_sum", [], {"distance": 1.0}, captured.config.metric)

    def scores(self, s: Scoring, at: Point) -> Floats:
        """The score of every object at a place. O(d n)."""
        out = np.empty(len(self.columns.x))
        score_objects(own_scoring(s), *at, self.columns, 0, len(out), out, 0)
        return out

    def best(self, s: Scoring, at: Point, k: int) -> tuple[Ints, Floats]:
        """The slots of the k best at a place, and their scores. O(d n)."""
        scores = self.scores(s, at)
        near = np.arange(len(scores))
        if len(scores) > k:
            near = np.flatnonzero(scores <= np.partition(scores, k - 1)[k - 1])
        order = near[np.lexsort((self.captured.created[near], scores[near]))[:k]]
        return self.captured.slots[order].astype(np.int64), scores[order]

    def nearest(self, at: Point, k: int) -> Ints:
        """The slots of the k nearest to a place. O(n)."""
        return self.best(self._nearness, at, k)[0]

    def skyline(self, at: Point) -> Ints:
        """The slots of the skyline at a place, ascending. O(d n) for each member."""
        if self.metric == EUCLIDEAN:
            dx, dy = self.columns.x - at[0], self.columns.y - at[1]
            with np.errstate(over="ignore"):
                far = dx * dx + dy * dy
        else:
            far = self.scores(self._nearness, at)
        rows = np.vstack([far, self.statics])
        # Whoever dominates another comes before it.
        left = np.lexsort(rows[::-1])
        found = []
        while len(left):
            first, rest = left[0], left[1:]
            found.append(first)
            worse = (rows[:, rest] >= rows[:, first, None]).all(axis=0) & (rows[:, rest] > rows[:, first, None]).any(0)
            left = rest[~worse]
        return np.sort(self.captured.slots[np.array(found, np.int64)].astype(np.int64))

    def called(self, slots: Ints) -> list[str]:
        """The ids of slots. O(n)."""
        return self.captured.ids.called(slots)


def verify(captured: Captured) -> Iterator[Checked]:
    """Compare the index with itself and with the ids, the answers of standing queries at their own places and where
    their clients are, and the objects nearest to sampled places. O(d n) an answer, for a skyline times its members."""
    assert captured.places is not None and captured.held is not None, "the indexes were not copied"
    table = Table(captured)
    rows = list(captured.held)
    answer = partial(
        _answer, captured, Searches(table.statics.shape[0], captured.config.bounds, captured.config.metric)
    )
    places = captured.points[
        np.linspace(0, len(table.columns.x) - 1, min(len(table.columns.x), SAMPLE)).astype(np.int64)
    ]
    of = len(rows) + len(places)
    wrong = captured.ids.compare(captured.slots) + _broken(captured.places)
    yield Checked(0, of, len(wrong), wrong)
    names = captured.query_ids.by_row(np.array(rows, np.int64))
    for start in range(0, len(rows), PIECE):
        some = rows[start : start + PIECE]
        wrong = [d for row in some for d in _compare(table, names.get(row, str(row)), answer(row), captured.at[row])]
        yield Checked(len(some), of, len(wrong), wrong)
    search = TopSearch(captured.places)
    nearness = scoring("weighted_sum", [], {"distance": 1.0}, captured.config.metric)
    for start in range(0, len(places), PIECE):
        part = places[start : start + PIECE]
        wrong = []
        for x, y in part.tolist():
            wanted, found = table.nearest((x, y), K), search.top([(x, y)], K, nearness)
            given = found.slots[0, : int(found.number[0])]
            if not np.array_equal(wanted, given):
                wrong.append(Difference("nearest", f"[{x!r}, {y!r}]", table.called(wanted), table.called(given)))
        yield Checked(len(part), of, len(wrong), wrong)


def _answer(captured: Captured, searches: Searches, row: int) -> AnswerZone:
    """The answer of a query: the one that is held, or where there is none what a search finds."""
    assert captured.places is not None and captured.held is not None, "the indexes were not copied"
    if row not in captured.held.postponed:
        return captured.held[row]
    asked = captured.held.asked(row)
    if isinstance(asked, TopQuery):
        asked = replace(asked, scoring=own_scoring(asked.scoring))
    return searches.zones(captured.places, asked, [captured.at[row]])[0]


def _compare(table: Table, key: str, held: AnswerZone, at: Point) -> list[Difference]:
    """Compare the answer of a query at its own place, and where its client is."""
    if isinstance(held, TopZone):
        wanted, scores = table.best(held.scoring, held.place, held.k)
        given = held.slots[: held.members]
        if not (np.array_equal(wanted, given) and np.array_equal(scores, held.scores[: held.members])):
            return [Difference("query", key, table.called(wanted), table.called(given))]
        wanted, scores = table.best(held.scoring, at, held.k)
        order, found = replace(held, scoring=own_scoring(held.scoring)).ranked(*at)
        if len(scores) == len(found) and np.isclose(scores, found, CLOSE, CLOSE).all():
            return []
        return [Difference("query", key, table.called(wanted), table.called(held.slots[order]))]
    wanted, given = table.skyline(at), np.sort(held.skyline.astype(np.int64))
    if np.array_equal(wanted, given):
        return []
    return [Difference("query", key, table.called(wanted), table.called(given))]


def _broken(index: PlaceIndex) -> list[Difference]:
    try:
        index.check()
    except AssertionError as error:
        return [Difference("index", "", "one that agrees with itself", str(error) or "one that does not")]
    return []
