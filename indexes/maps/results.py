"""What the engine of a map returns: objects, answers with their zones, standing queries, and notifications."""

from __future__ import annotations

from typing import Any, NamedTuple

from indexes.maps.config import Point, Question, Skyline, Top


class ObjectView(NamedTuple):
    """An object as the user wrote it: `values` in the order of the map's attributes, `payload` compact JSON text."""

    id: str
    location: Point
    values: list[float]
    created: int
    payload: bytes | None


class ShownObject:
    """An object in answers: the fields of its view, `place` and `values` as lists. A map keeps it as long as the object
    does not change, for the next answers with this object; `text` is the writer's, who writes an object once. Equal by
    what is shown."""

    __slots__ = ("created", "id", "payload", "place", "text", "values")

    def __init__(self, id: str, place: list[float], values: list[float], created: int, payload: bytes | None) -> None:
        self.id = id
        self.place = place
        self.values = values
        self.created = created
        self.payload = payload
        self.text: str | None = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ShownObject) and self.fields == other.fields

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ShownObject{self.fields}"

    @property
    def fields(self) -> tuple[str, list[float], list[float], int, bytes | None]:
        """All but the text."""
        return self.id, self.place, self.values, self.created, self.payload


class Rows(NamedTuple):
    """The objects of an answer, and their distances from its place."""

    objects: list[ShownObject]
    distance: list[float]

    @property
    def ids(self) -> list[str]:
        return [one.id for one in self.objects]

    @property
    def x(self) -> list[float]:
        return [one.place[0] for one in self.objects]

    @property
    def y(self) -> list[float]:
        return [one.place[1] for one in self.objects]

    @property
    def values(self) -> list[list[float]]:
        """A list for each attribute."""
        return list(map(list, zip(*[one.values for one in self.objects], strict=True)))

    @property
    def created(self) -> list[int]:
        return [one.created for one in self.objects]

    @property
    def payload(self) -> list[bytes | None]:
        return [one.payload for one in self.objects]

    def part(self, begin: int, end: int) -> Rows:
        """The rows from `begin` to before `end`."""
        return Rows(self.objects[begin:end], self.distance[begin:end])


class TopAnswer(NamedTuple):
    """The k best at `place`: the first `members` of the `rows`, in order; then the other candidates, as they rank
    there.

    `score` is None where there is none. The candidates suffice strictly within `radius` of `center`; None: everywhere,
    0: at this place only.
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
    """The skyline at `place`, nearest first, and where it stays the same: GeoJSON, a circle by other metrics than
    the Euclidean, or None for this place only."""

    question: Skyline
    place: Point
    rows: Rows
    zone: dict[str, Any] | CircleOf | None


Answer = TopAnswer | SkylineAnswer


class QueryView(NamedTuple):
    """A standing query as the user wrote it, the place of its client, and its `answer` there if requested."""

    id: str
    question: Question
    location: Point
    ttl: float | None
    answer: Answer | None


class Moved(NamedTuple):
    """The result of moving a client: whether it is within its previous zone; if not, the new answer."""

    id: str
    inside: bool
    answer: Answer | None


class Slice(NamedTuple):
    """The notifications of a slice, up to `last_seq`: (seq, id) of live queries with another answer or zone, each
    once, and of those that were deleted."""

    last_seq: int
    results: list[tuple[int, str]]
    gone: list[tuple[int, str]]
