"""What the maps' routes take and answer: models that describe it, and validators of a map's own attributes."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError, SchemaValidator
from pydantic_core import core_schema as cs

from app.api.models import (
    ANY,
    NAME,
    NUMBER,
    ON_ERROR,
    SECONDS,
    Answer,
    ElementProblem,
    Ignored,
    LeftOut,
    OnError,
    OnErrorQuery,
    Seconds,
    fields,
    listed,
    made,
)
from app.api.values import LARGEST, Attribute, Name, Number, Strict
from indexes.maps.model import MapConfig
from indexes.maps.scores import LAMBDA, SHIFT

RESERVED = frozenset({"op", "id", "k", "payload", "created", "distance"})

MOST_ATTRIBUTES = 16

KINDS = ("weighted_sum", "weighted_product", "weighted_distance", "waspas", "expression")

Pair = Annotated[list[Number], Field(min_length=2, max_length=2)]
Location = Annotated[
    list[Number], Field(min_length=2, max_length=2, description="`[x, y]`; with great-circle distances `[lon, lat]`.")
]
Numbers = list[float]
Order = Literal["low", "high"]
Weight = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=0, le=LARGEST)]
Count = Annotated[int, Field(strict=True, ge=1)]
ScoreKind = Literal["weighted_sum", "weighted_product", "weighted_distance", "waspas", "expression"]


def _of(length: int) -> Callable[[Numbers], Numbers]:
    """A list that is longer than `length` is wrong, and not too large as a list without a fixed length would be."""

    def check(given: Numbers) -> Numbers:
        if len(given) != length:
            raise PydanticCustomError("length", f"must be a list of {length} numbers")
        return given

    return check


class RangedAttribute(Strict):
    """An attribute: which end is better, and between which values those of objects lie. Some scores need that."""

    order: Order
    range: Pair | None = None


def _spelled_out(given: Any) -> Any:
    return {"order": given} if isinstance(given, str) else given


AttributeBody = Annotated[
    RangedAttribute,
    BeforeValidator(_spelled_out, json_schema_input_type=Order | RangedAttribute),
]


class MapBody(Strict):
    """A map's configuration, which stays as it is made."""

    attributes: Annotated[
        dict[Attribute, AttributeBody],
        Field(description="By name, in the order in which scores run over them; at most 16, or none."),
    ]
    bounds: Annotated[
        list[Number],
        AfterValidator(_of(4)),
        Field(
            description="`[x0, y0, x1, y1]`: the zone of a skyline never reaches past them.",
            json_schema_extra={"minItems": 4, "maxItems": 4},
        ),
    ]
    metric: Annotated[
        Literal["euclidean", "manhattan", "great-circle"],
        Field(description="How far places are apart. `great-circle`: metres between places in degrees."),
    ] = "euclidean"
    name: Ignored = None
    seq: Ignored = None
    objects: Ignored = None
    queries: Ignored = None


class Map(Answer):
    """A map, how much is in it, and its `seq`."""

    seq: int
    name: str
    attributes: dict[str, Order | dict[str, Any]]
    bounds: list[float]
    metric: Literal["euclidean", "manhattan", "great-circle"]
    objects: int
    queries: int


class Maps(Answer):
    """A page of maps, without `seq`."""

    items: list[dict[str, Any]]
    next: str | None


# --- objects ----------------------------------------------------------------------------------------------------------


class PlaceFields(Strict):
    """What is said of an object. A new one needs its location and all values; of one that is there, what is left out
    stays."""

    location: Annotated[Location | LeftOut, Field(description="Not null.")] = None
    values: dict[Attribute, Number] = Field(default_factory=dict)
    payload: Annotated[Any, Field(description="Any JSON; null takes it away.")] = None


class NewPlace(PlaceFields):
    """An object that comes, or changes."""

    id: Name


class PlacesBody(Strict):
    """Objects that come or change, in order."""

    objects: list[NewPlace]
    on_error: OnError = "refuse"


class PlaceBody(PlaceFields):
    """What an object is to be."""

    id: Annotated[Name | LeftOut, Field(description="That of the path. Not null.")] = None
    seq: Ignored = None
    created: Ignored = None


class PlacePatch(PlaceFields):
    """What changes in an object."""


class Place(Answer):
    """An object. `created` counts the insertions into its map."""

    id: str
    location: list[float]
    values: dict[str, float]
    created: int
    payload: Any = None


class PlaceAnswer(Place):
    """An object, at the map's `seq`."""

    seq: int
    replayed: bool = False


class Places(Answer):
    """A page of objects."""

    seq: int
    items: list[Place]
    next: str | None


class PlacesAnswer(Answer):
    """How many objects were put."""

    seq: int
    applied: int
    errors: list[ElementProblem] | None = None
    replayed: bool = False


# --- questions --------------------------------------------------------------------------------------------------------


class ScoreBody(Strict):
    """A score; the smallest is the best. `weights` are by attribute, and `distance`; at least one is above 0."""

    kind: ScoreKind
    weights: Annotated[
        dict[Attribute, Weight] | LeftOut, Field(description="Of all kinds but `expression`, and needed there.")
    ] = None
    scale: Annotated[float, Field(strict=True, gt=0, le=LARGEST, description="What distances are divided by.")] = 1.0
    shift: Annotated[
        float,
        Field(
            strict=True,
            ge=0,
            le=LARGEST,
            description=f"Of weighted_product, weighted_distance and waspas; {SHIFT} unless said.",
        ),
    ] = SHIFT
    blend: Annotated[
        float, Field(alias="lambda", strict=True, ge=0, le=1, description=f"Of waspas; {LAMBDA} unless said.")
    ] = LAMBDA
    expression: Annotated[
        str | LeftOut, Field(description="Of `expression`: numbers, names, + - * / **, min, max, sqrt, log, exp.")
    ] = None


class TopFields(Strict):
    """The `k` best by a score. With `m` above 1 there are m - 1 more candidates, and the zone is wider: within it the k
    best of all candidates are right. `ordered`: their order holds in the zone too."""

    k: Count
    m: Count = 1
    ordered: bool = False
    score: ScoreBody


class TopBody(TopFields):
    """The k best at a place, or at many."""

    location: Annotated[Location | LeftOut, Field(description="This, or `locations`.")] = None
    locations: Annotated[list[Location] | LeftOut, Field(description="In place of `location`.")] = None


class SkylineBody(Strict):
    """What nothing dominates at a place, or at many."""

    location: Annotated[Location | LeftOut, Field(description="This, or `locations`.")] = None
    locations: Annotated[list[Location] | LeftOut, Field(description="In place of `location`.")] = None


class Entry(Place):
    """An object of an answer, and how far it is from its place."""

    distance: float | None


class Candidate(Entry):
    """An object of a top-k, with its score, null where it has none."""

    score: float | None


class RankedPlace(Candidate):
    """A candidate that is among the k best."""

    rank: int


RankedList = list[RankedPlace]
CandidateList = list[Candidate]
EntryList = list[Entry]


class Circle(Answer):
    """Where an answer holds: strictly within `radius` of `center`. Null: everywhere; 0: at this place only."""

    center: Numbers
    radius: float | None


class TopResult(Answer):
    """A top-k, with all candidates in order, and where the k best of these are right."""

    list: RankedList
    candidates: CandidateList
    zone: Circle


class SkylineResult(Answer):
    """A skyline, nearest first, and where it holds: a GeoJSON geometry, a circle with metrics other than euclidean, or
    null for this place only."""

    skyline: EntryList
    zone: dict[str, Any] | None


TopResults = list[TopResult]
SkylineResults = list[SkylineResult]


class TopAnswer(Answer):
    """A top-k at a place; with `locations` the `results` of all, in order."""

    seq: int
    list: RankedList | None = None
    candidates: CandidateList | None = None
    zone: Circle | None = None
    results: TopResults | None = None


class SkylineAnswer(Answer):
    """A skyline at a place; with `locations` the `results` of all, in order."""

    seq: int
    skyline: EntryList | None = None
    zone: dict[str, Any] | None = None
    results: SkylineResults | None = None


# --- standing queries -------------------------------------------------------------------------------------------------


class StandingFields(Strict):
    """A standing query: a skyline, or a top-k with the fields of one."""

    kind: Literal["top", "skyline"]
    location: Location
    k: Annotated[Count | LeftOut, Field(description="Of `top`, and needed there.")] = None
    m: Annotated[Count | LeftOut, Field(description="Of `top`; 1 unless said.")] = None
    ordered: Annotated[bool | LeftOut, Field(description="Of `top`; false unless said.")] = None
    score: Annotated[ScoreBody | LeftOut, Field(description="Of `top`, and needed there.")] = None
    ttl: Seconds = None


class NewStanding(StandingFields):
    """A standing query to be made. An id left out is made up."""

    id: Name | None = None


class StandingsBody(Strict):
    """Standing queries to be made. `lists` asks for their answers; true for up to 1,000 unless said."""

    queries: list[NewStanding]
    lists: bool | None = None
    on_error: OnError = "refuse"


class StandingsQuery(OnErrorQuery):
    """What goes with NDJSON bodies."""

    lists: Annotated[
        bool | None, Field(description="Whether their answers are wanted; for up to 1,000 unless said.")
    ] = None


class StandingBody(StandingFields):
    """What a standing query is from now on."""

    id: Annotated[Name | None, Field(description="That of the path.")] = None
    seq: Ignored = None
    inside: Ignored = None
    list: Ignored = None
    candidates: Ignored = None
    skyline: Ignored = None
    zone: Ignored = None


class StandingPatch(Strict):
    """What changes in a standing query; what is left out stays. A new location alone is a move: within the zone
    nothing else is answered. A `ttl` of null takes the time limit away."""

    location: Annotated[Location | LeftOut, Field(description="Not null.")] = None
    k: Annotated[Count | LeftOut, Field(description="Not null.")] = None
    m: Annotated[Count | LeftOut, Field(description="Not null.")] = None
    ordered: Annotated[bool | LeftOut, Field(description="Not null.")] = None
    score: Annotated[ScoreBody | LeftOut, Field(description="Not null.")] = None
    ttl: Seconds = None


class Standing(Answer):
    """A standing query, and its answer where that is asked for: `list`, `candidates` and `zone`, or `skyline` and
    `zone`."""

    id: str
    kind: Literal["top", "skyline"]
    location: Numbers
    k: int | None = None
    m: int | None = None
    ordered: bool | None = None
    score: dict[str, Any] | None = None
    ttl: float | None = None
    list: RankedList | None = None
    candidates: CandidateList | None = None
    skyline: EntryList | None = None
    zone: dict[str, Any] | None = None


class StandingAnswer(Standing):
    """A standing query, at the map's `seq`."""

    seq: int
    replayed: bool = False


class StandingsAnswer(Answer):
    """The standing queries that were made, in the order of the request; with `on_error=skip` each with its `index`."""

    seq: int
    queries: list[Standing] | None = None
    errors: list[ElementProblem] | None = None
    replayed: bool = False


class Standings(Answer):
    """A page of standing queries, without answers."""

    seq: int
    items: list[Standing]
    next: str | None


class MovedAnswer(Answer):
    """Whether a client is still within the zone it had; else its new answer. Where more than the location was changed,
    the whole query."""

    seq: int
    inside: bool | None = None
    replayed: bool = False


class Move(Strict):
    """Where the client of a standing query is."""

    id: Name
    location: Location


class MovesBody(Strict):
    """Where clients are, in order."""

    moves: list[Move]
    on_error: OnError = "refuse"


class MovedClient(Answer):
    """Whether a client is still within the zone it had; else its new answer."""

    id: str
    inside: bool


class MovesAnswer(Answer):
    """The moves in order; with `on_error=skip` each with its `index`."""

    seq: int
    results: list[MovedClient]
    errors: list[ElementProblem] | None = None
    replayed: bool = False


# --- validators that know a map's attributes --------------------------------------------------------------------------


class MapValidators(NamedTuple):
    """Validators for the bodies of maps with these attributes."""

    objects: SchemaValidator
    object: SchemaValidator
    put_object: SchemaValidator
    patch_object: SchemaValidator
    top: SchemaValidator
    skyline: SchemaValidator
    queries: SchemaValidator
    query: SchemaValidator
    put_query: SchemaValidator
    patch_query: SchemaValidator
    moves: SchemaValidator
    move: SchemaValidator


LOCATION = cs.no_info_after_validator_function(_of(2), cs.list_schema(NUMBER, strict=True))
_WEIGHT = cs.float_schema(strict=True, allow_inf_nan=False, ge=0, le=LARGEST)
_SWITCH = cs.bool_schema(strict=True)


@lru_cache(maxsize=256)
def validators(config: MapConfig, most: int, max_k: int) -> MapValidators:
    """The validators of a map; `most` elements in a list. Which fields go with which kind of score or query is left to
    `QuestionReader`."""
    said = {"location": LOCATION, "values": fields({}, dict.fromkeys(config.names, NUMBER)), "payload": ANY}
    object_ = fields({"id": NAME}, said)
    shown = dict.fromkeys(("seq", "created"), ANY)
    asked = {"k": _whole(max_k), "score": _score(config)}
    more = {"m": _whole(max_k), "ordered": _SWITCH}
    places = {"location": LOCATION, "locations": listed(LOCATION, most)}
    query_needs = {"kind": cs.literal_schema(["top", "skyline"]), "location": LOCATION}
    query_may = {"id": cs.nullable_schema(NAME), **asked, **more, "ttl": cs.nullable_schema(SECONDS)}
    query = fields(query_needs, query_may)
    answered = dict.fromkeys(("seq", "inside", "list", "candidates", "skyline", "zone"), ANY)
    patched = {"location": LOCATION, **asked, **more, "ttl": cs.nullable_schema(SECONDS)}
    move = fields({"id": NAME, "location": LOCATION}, {})
    return MapValidators(
        objects=made(fields({"objects": listed(object_, most)}, {"on_error": ON_ERROR})),
        object=made(object_),
        put_object=made(fields({}, {"id": NAME, **said, **shown})),
        patch_object=made(fields({}, said)),
        top=made(fields(asked, {**more, **places})),
        skyline=made(fields({}, places)),
        queries=made(
            fields({"queries": listed(query, most)}, {"lists": cs.nullable_schema(_SWITCH), "on_error": ON_ERROR})
        ),
        query=made(query),
        put_query=made(fields(query_needs, {**query_may, **answered})),
        patch_query=made(fields({}, patched)),
        moves=made(fields({"moves": listed(move, most)}, {"on_error": ON_ERROR})),
        move=made(move),
    )


def _whole(most: int) -> cs.CoreSchema:
    return cs.int_schema(strict=True, ge=1, le=most)


def _score(config: MapConfig) -> cs.CoreSchema:
    numbers = {
        "scale": cs.float_schema(strict=True, allow_inf_nan=False, gt=0, le=LARGEST),
        "shift": _WEIGHT,
        "lambda": cs.float_schema(strict=True, allow_inf_nan=False, ge=0, le=1),
    }
    weights = fields({}, dict.fromkeys((*config.names, "distance"), _WEIGHT))
    return fields(
        {"kind": cs.literal_schema(list(KINDS))},
        {"weights": weights, "expression": cs.str_schema(strict=True), **numbers},
    )
