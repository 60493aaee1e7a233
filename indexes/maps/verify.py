"""A map against scans: what every standing query holds, and what the index answers at sampled places, beside the same
found by looking at all objects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from indexes.checked import Checked, Difference, compare_ids
from indexes.maps.live import Held
from indexes.maps.metrics import EUCLIDEAN, METRICS
from indexes.maps.model import Point
from indexes.maps.places import PlaceIndex
from indexes.maps.scores import Scoring, score_objects, scoring
from indexes.maps.top import TopSearch, TopZone
from indexes.maps.upkeep import Captured

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

SAMPLE = 64
"""Places of objects at which the nearest are asked for."""

K = 20

CLOSE = 1e-9
"""What scores may differ by, in their size, that are equal but for rounding: within a zone either may come first."""

PIECE = 16
"""Answers between two reports."""


class Table:
    """All objects of a map by column."""

    def __init__(self, captured: Captured) -> None:
        self.captured = captured
        self.x, self.y = (np.ascontiguousarray(column) for column in captured.points.T)
        self.statics = np.ascontiguousarray(captured.statics.T)
        self.metric = METRICS[captured.config.metric]
        self._apart = scoring("weighted_sum", [], {"distance": 1.0}, captured.config.metric)

    def scores(self, s: Scoring, at: Point) -> Float64:
        """The score of every object at a place. O(d n)."""
        out = np.empty(len(self.x))
        score_objects(_own(s), *at, self.x, self.y, self.statics.reshape(-1), 0, len(out), out, 0)
        return out

    def best(self, s: Scoring, at: Point, k: int) -> tuple[Int64, Float64]:
        """The slots of the k best at a place, and their scores. O(d n)."""
        scores = self.scores(s, at)
        near = np.arange(len(scores))
        if len(scores) > k:
            near = np.flatnonzero(scores <= np.partition(scores, k - 1)[k - 1])
        order = near[np.lexsort((self.captured.created[near], scores[near]))[:k]]
        return self.captured.slots[order].astype(np.int64), scores[order]

    def nearest(self, at: Point, k: int) -> Int64:
        """The slots of the k nearest to a place. O(n)."""
        return self.best(self._apart, at, k)[0]

    def skyline(self, at: Point) -> Int64:
        """The slots of what nothing dominates at a place, ascending. O(d n) for each that is found."""
        if self.metric == EUCLIDEAN:
            dx, dy = self.x - at[0], self.y - at[1]
            far = dx * dx + dy * dy
        else:
            far = self.scores(self._apart, at)
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

    def called(self, slots: Int64) -> list[str]:
        """Ids, for a reader. O(n)."""
        name = {slot: key for key, slot in self.captured.recent.items()}
        base = self.captured.ids
        for i in np.flatnonzero(np.isin(base.row, slots)).tolist():
            name[int(base.row[i])] = base.text[base.offset[i] : base.offset[i + 1]].tobytes().decode()
        return [name.get(slot, str(slot)) for slot in slots.tolist()]


def verify(captured: Captured) -> Iterator[Checked]:
    """Compare the index with itself and with the ids, what standing queries hold, where their clients are, and the
    objects nearest to sampled places. O(d n) an answer, for a skyline that times its members."""
    assert captured.places is not None and captured.held is not None, "the indexes were not copied"
    table = Table(captured)
    rows = list(captured.held)
    places = captured.points[np.linspace(0, len(table.x) - 1, min(len(table.x), SAMPLE)).astype(np.int64)]
    of = len(rows) + len(places)
    wrong = compare_ids(captured.ids, captured.recent, captured.slots) + _broken(captured.places)
    yield Checked(0, of, len(wrong), wrong)
    names = _query_names(captured)
    for start in range(0, len(rows), PIECE):
        some = rows[start : start + PIECE]
        wrong = [
            d for row in some for d in _compare(table, names.get(row, str(row)), captured.held[row], captured.at[row])
        ]
        yield Checked(len(some), of, len(wrong), wrong)
    search = TopSearch(captured.places)
    apart = scoring("weighted_sum", [], {"distance": 1.0}, captured.config.metric)
    for start in range(0, len(places), PIECE):
        part = places[start : start + PIECE]
        wrong = []
        for x, y in part.tolist():
            wanted, (found, *_, number) = table.nearest((x, y), K), search.top([(x, y)], K, apart)
            given = found[0, : int(number[0])]
            if not np.array_equal(wanted, given):
                wrong.append(Difference("nearest", f"[{x!r}, {y!r}]", table.called(wanted), table.called(given)))
        yield Checked(len(part), of, len(wrong), wrong)


def _compare(table: Table, key: str, held: Held, at: Point) -> list[Difference]:
    """What a query holds: at its own place, and where its client is."""
    if isinstance(held, TopZone):
        wanted, scores = table.best(held.scoring, held.place, held.k)
        given = held.slots[: held.members]
        if not (np.array_equal(wanted, given) and np.array_equal(scores, held.scores[: held.members])):
            return [Difference("query", key, table.called(wanted), table.called(given))]
        wanted, scores = table.best(held.scoring, at, held.k)
        order, found = replace(held, scoring=_own(held.scoring)).ranked(*at)
        if len(scores) == len(found) and np.isclose(scores, found, CLOSE, CLOSE).all():
            return []
        return [Difference("query", key, table.called(wanted), table.called(held.slots[order]))]
    wanted, given = table.skyline(at), np.sort(held.skyline.astype(np.int64))
    if np.array_equal(wanted, given):
        return []
    return [Difference("query", key, table.called(wanted), table.called(given))]


def _own(s: Scoring) -> Scoring:
    """A score for this thread: an expression is worked out in memory that comes with it."""
    return s._replace(stack=s.stack.copy())


def _broken(index: PlaceIndex) -> list[Difference]:
    try:
        index.check()
    except AssertionError as error:
        return [Difference("index", "", "one that agrees with itself", str(error) or "one that does not")]
    return []


def _query_names(captured: Captured) -> dict[int, str]:
    base = captured.query_ids
    names = {row: key for key, row in captured.query_recent.items()}
    for i in np.flatnonzero(base.row >= 0).tolist():
        names[int(base.row[i])] = base.text[base.offset[i] : base.offset[i + 1]].tobytes().decode()
    return names
