"""Requests and responses of maps as typed values. Numbers stay as JSON gave them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

from rankcast_client.errors import FieldError, outcome
from rankcast_client.models import Ready
from rankcast_client.zones import AnyZone, Bounds, Circle, Location, Metric

Better: TypeAlias = Literal["low", "high"]


@dataclass(frozen=True, slots=True)
class MapAttribute:
    """An attribute: which end is better, and between which values those of objects lie, or None."""

    order: Better = "low"
    range: tuple[float, float] | None = None

    @classmethod
    def from_json(cls, data: Any) -> MapAttribute:
        if isinstance(data, str):
            return cls("high" if data == "high" else "low")
        given = data.get("range")
        return cls(data["order"], None if given is None else (given[0], given[1]))

    @property
    def wire(self) -> Any:
        """The JSON of a request."""
        return self.order if self.range is None else {"order": self.order, "range": list(self.range)}


@dataclass(frozen=True, slots=True)
class MapInfo:
    """A map's configuration, `attributes` in the order in which scores run over them, and how much is in it."""

    name: str
    attributes: Mapping[str, MapAttribute]
    bounds: Bounds
    metric: Metric = "euclidean"
    objects: int = 0
    queries: int = 0
    seq: int | None = None

    @classmethod
    def from_json(cls, name: str, data: Mapping[str, Any]) -> MapInfo:
        x0, y0, x1, y1 = data["bounds"]
        return cls(
            data.get("name", name),
            {name: MapAttribute.from_json(one) for name, one in data["attributes"].items()},
            (x0, y0, x1, y1),
            data.get("metric", "euclidean"),
            data.get("objects", 0),
            data.get("queries", 0),
            data.get("seq"),
        )


# Objects


class NewPlace(TypedDict):
    """One object that comes or changes; of one that is there, what is left out stays."""

    id: str
    location: NotRequired[Location]
    values: NotRequired[Mapping[str, float]]
    payload: NotRequired[Any]


@dataclass(frozen=True, slots=True)
class Place:
    """An object of a map: alone, or in an answer, where it has its distance from there and, in a top-k, its score (None
    where it has none)."""

    id: str
    location: Location
    values: Mapping[str, float]
    created: int
    payload: Any = None
    distance: float | None = None
    score: float | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Place:
        x, y = data["location"]
        rest = data.get("payload"), data.get("distance"), data.get("score")
        return cls(data["id"], (x, y), data["values"], data.get("created", -1), *rest)


@dataclass(frozen=True, slots=True)
class Put:
    """What a write of objects did. `seq` is that of the last change, `applied` how many there were; `errors` are the
    elements skipped with `on_error="skip"`, the first 1,000 of `error_count`."""

    seq: int
    applied: int
    errors: tuple[FieldError, ...] = ()
    replayed: bool = False
    error_count: int = 0

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Put:
        return cls(data["seq"], data.get("applied", 1), FieldError.all_in(data), *outcome(data))


# Questions

ScoreKind: TypeAlias = Literal["weighted_sum", "weighted_product", "weighted_distance", "waspas", "expression"]

Score = TypedDict(
    "Score",
    {
        "kind": ScoreKind,
        "weights": NotRequired[Mapping[str, float]],
        "scale": NotRequired[float],
        "shift": NotRequired[float],
        "lambda": NotRequired[float],
        "expression": NotRequired[str],
    },
)
"""A score, of which the smallest is the best: `weights` by attribute and `distance`, or for the kind "expression" the
`expression`."""


@dataclass(frozen=True, slots=True)
class Top:
    """A question: the k best by a score. With m - 1 more candidates its zone is wider; `ordered`: the order of the k
    holds in the zone too."""

    k: int
    score: Score
    m: int = 1
    ordered: bool = False

    @property
    def wire(self) -> dict[str, Any]:
        """The JSON of a request, without defaults."""
        body: dict[str, Any] = {"k": self.k, "score": self.score}
        return body | ({"m": self.m} if self.m != 1 else {}) | ({"ordered": True} if self.ordered else {})


@dataclass(frozen=True, slots=True)
class Skyline:
    """A question: all objects that no other one dominates by distance and attributes."""

    @property
    def wire(self) -> dict[str, Any]:
        """The JSON of a request."""
        return {}


Question: TypeAlias = Top | Skyline


def kind_of(question: Question) -> Literal["top", "skyline"]:
    """What the wire calls a question."""
    return "top" if isinstance(question, Top) else "skyline"


# Answers


@dataclass(frozen=True, slots=True)
class TopAnswer:
    """The k best at `location`, in order, when the map was at `seq`. Strictly inside the `zone` the k best of the
    `candidates` are a right answer, up to equal scores."""

    seq: int
    location: Location
    list: tuple[Place, ...]
    candidates: tuple[Place, ...]
    zone: Circle

    @property
    def objects(self) -> tuple[Place, ...]:
        """The objects of the answer."""
        return self.list


@dataclass(frozen=True, slots=True)
class SkylineAnswer:
    """What nothing dominates at `location`, nearest first, when the map was at `seq`. Strictly inside the `zone` it is
    the same; a zone of None is this place only."""

    seq: int
    location: Location
    skyline: tuple[Place, ...]
    zone: AnyZone

    @property
    def objects(self) -> tuple[Place, ...]:
        """The objects of the answer."""
        return self.skyline


MapAnswer: TypeAlias = TopAnswer | SkylineAnswer


def answer_of(data: Mapping[str, Any], location: Location, seq: int) -> MapAnswer | None:
    """The answer in JSON; None where there is none, as when it was not asked for or is replayed."""
    if "candidates" in data:
        circle = _circle(data["zone"])
        return TopAnswer(seq, location, _places(data["list"]), _places(data["candidates"]), circle)
    if "skyline" in data:
        return SkylineAnswer(seq, location, _places(data["skyline"]), _zone(data["zone"]))
    return None


def _places(data: Any) -> tuple[Place, ...]:
    return tuple(map(Place.from_json, data))


def _circle(data: Mapping[str, Any]) -> Circle:
    x, y = data["center"]
    return Circle((x, y), data["radius"])


def _zone(data: Mapping[str, Any] | None) -> AnyZone:
    return _circle(data) if data is not None and "center" in data else data


def top_answer(data: Mapping[str, Any], location: Location, seq: int) -> TopAnswer:
    """The answer to a `Top`."""
    found = answer_of(data, location, seq)
    assert isinstance(found, TopAnswer), "a top-k is answered with one"
    return found


def skyline_answer(data: Mapping[str, Any], location: Location, seq: int) -> SkylineAnswer:
    """The answer to a `Skyline`."""
    found = answer_of(data, location, seq)
    assert isinstance(found, SkylineAnswer), "a skyline is answered with one"
    return found


# Standing queries


class NewQuery(TypedDict):
    """One standing query to make. A missing id is generated."""

    question: Question
    location: Location
    id: NotRequired[str]
    ttl: NotRequired[float]


@dataclass(frozen=True, slots=True)
class Query:
    """A standing query, and where its client is; `answer` is its answer there at `seq`, if asked for."""

    id: str
    question: Question
    location: Location
    ttl: float | None = None
    seq: int | None = None
    answer: MapAnswer | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any], seq: int = -1) -> Query:
        x, y = data["location"]
        seq = data.get("seq", seq)
        question: Question = Skyline()
        if data["kind"] == "top":
            question = Top(data["k"], data["score"], data.get("m", 1), data.get("ordered", False))
        answer = answer_of(data, (x, y), seq)
        return cls(data["id"], question, (x, y), data.get("ttl"), seq if seq >= 0 else None, answer)


@dataclass(frozen=True, slots=True)
class Queries:
    """What became of new standing queries: those that were made, in the order asked for; `errors` are those passed over
    with `on_error="skip"`, the first 1,000 of `error_count`."""

    seq: int
    queries: tuple[Query, ...]
    errors: tuple[FieldError, ...] = ()
    replayed: bool = False
    error_count: int = 0

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Queries:
        made = tuple(Query.from_json(one, data["seq"]) for one in data.get("queries") or ())
        return cls(data["seq"], made, FieldError.all_in(data), *outcome(data))


@dataclass(frozen=True, slots=True)
class Moved:
    """Whether the client of a standing query was within the zone that the service holds; else `answer` is the new one,
    None in a replayed answer, which has none."""

    id: str
    seq: int
    inside: bool
    answer: MapAnswer | None = None


@dataclass(frozen=True, slots=True)
class Moves:
    """What became of moves, in order; `errors` are those skipped with `on_error="skip"`, the first 1,000 of
    `error_count`."""

    seq: int
    results: tuple[Moved, ...]
    errors: tuple[FieldError, ...] = ()
    replayed: bool = False
    error_count: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """A standing query has this answer from `seq` on, at the last location of its client."""

    seq: int
    answer: MapAnswer


ResultEvent: TypeAlias = Result | Ready


@dataclass
class ResultFollower:
    """The answer of a standing query; a `rankcast_client.followers.Follower`. `resets` counts the answers that replaced
    the one before whatever its seq."""

    ready: bool = False
    options: dict[str, Any] = field(default_factory=lambda: {"ready": True})
    current: bool = False
    cursor: str | None = None
    begun: bool = False
    resets: int = 0
    answer: MapAnswer | None = None

    def take(self, event: str, data: Mapping[str, Any]) -> ResultEvent | None:
        """Apply one message. None for an unknown one, and for a `Ready` that was not requested."""
        if event == "ready" and self.begun:
            self.current = True
            return Ready(data["seq"]) if self.ready else None
        if event not in ("snapshot", "result", "reset"):
            return None
        x, y = data["location"]
        found = answer_of(data, (x, y), data["seq"])
        if found is None:
            return None
        self.begun = True
        if event == "reset":
            self.resets += 1
            self.answer = found
        elif self.answer is None or found.seq >= self.answer.seq:
            self.answer = found
        return Result(found.seq, found)
