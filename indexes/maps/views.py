"""What the engine of a map shows: objects, answers with their zones, standing queries, and what live ones hear."""

from __future__ import annotations

from typing import Any, NamedTuple

from indexes.maps.model import Point, Question, Skyline, Top


class ObjectView(NamedTuple):
    """An object as the user wrote it: `values` in the order of the map's attributes, `payload` compact JSON text."""

    id: str
    location: Point
    values: list[float]
    created: int
    payload: bytes | None


class Rows(NamedTuple):
    """Objects of an answer by column, with their distances from its place; `values` has a list for each attribute."""

    ids: list[str]
    x: list[float]
    y: list[float]
    values: list[list[float]]
    created: list[int]
    payload: list[bytes | None]
    distance: list[float]

    def part(self, begin: int, end: int) -> Rows:
        """Those from one place to before another."""
        at = slice(begin, end)
        ids, x, y, values, created, payload, distance = self
        columns = [column[at] for column in values]
        return Rows(ids[at], x[at], y[at], columns, created[at], payload[at], distance[at])


class TopAnswer(NamedTuple):
    """The k best at `place`: the first `members` of the `rows`, in order; then the other candidates, as they rank
    there.

    `score` is None where there is none. The candidates are enough strictly within `radius` of `center`; None:
    everywhere, 0: at this place only.
    """

    question: Top
    place: Point
    rows: Rows
    score: list[float | None]
    members: int
    center: Point
    radius: float | None


class CircleOf(NamedTuple):
    """A zone that is a circle; a radius of None is everywhere."""

    center: Point
    radius: float | None


class SkylineAnswer(NamedTuple):
    """What nothing dominates at `place`, nearest first, and where that stays so: GeoJSON, a circle where distances are
    not Euclidean, or None for this place only."""

    question: Skyline
    place: Point
    rows: Rows
    zone: dict[str, Any] | CircleOf | None


Answer = TopAnswer | SkylineAnswer


class QueryView(NamedTuple):
    """A standing query as the user wrote it, where its client is, and its `answer` there where that was asked for."""

    id: str
    question: Question
    location: Point
    ttl: float | None
    answer: Answer | None


class Moved(NamedTuple):
    """Where a client went: whether that was within the zone it had; else its new answer."""

    id: str
    inside: bool
    answer: Answer | None


class Slice(NamedTuple):
    """What live standing queries must hear of, up to `last_seq`: (seq, id) of those with another answer or zone, the
    same one not twice, and of those that were deleted."""

    last_seq: int
    results: list[tuple[int, str]]
    gone: list[tuple[int, str]]
