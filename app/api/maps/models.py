"""Requests and responses of maps: models that describe them, and validators of a map's own attributes."""

from collections.abc import Callable
from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_core import PydanticCustomError, SchemaValidator
from pydantic_core import core_schema as cs

from app.api.models import (
    NUMBER,
    BulkBody,
    BulkResponse,
    Enforced,
    GivenValues,
    Ignored,
    LeftOut,
    ListsBody,
    ObjectCount,
    ObjectId,
    Page,
    Replayed,
    ResourceName,
    ResponseModel,
    Seconds,
    SeqNumber,
    SeqPage,
    SeqResponse,
    ShownSeconds,
    ShownValues,
    by_name,
    listed,
    whole,
)
from app.api.values import LARGEST, Attribute, Name, Number, Strict
from indexes.maps.config import MapConfig
from indexes.maps.scoring import LAMBDA, SHIFT

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

    order: Annotated[Order, Field(description="Which end is better.")]
    range: Annotated[Pair | None, Field(description="`[least, largest]` value that objects can have.")] = None


def _spelled_out(given: Any) -> Any:
    return {"order": given} if isinstance(given, str) else given


AttributeBody = Annotated[
    RangedAttribute,
    BeforeValidator(_spelled_out, json_schema_input_type=Order | RangedAttribute),
]


class MapBody(Strict):
    """A map's configuration. It cannot be changed."""

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


class MapSummary(ResponseModel):
    """A map as a page lists it."""

    name: ResourceName
    attributes: Annotated[dict[str, Order | dict[str, Any]], Field(description="By name: which end is better.")]
    bounds: Annotated[list[float], Field(description="`[x0, y0, x1, y1]`.")]
    metric: Annotated[
        Literal["euclidean", "manhattan", "great-circle"], Field(description="How distances are measured.")
    ]
    objects: ObjectCount
    queries: Annotated[int, Field(description="How many standing queries there are.")]


class Map(MapSummary):
    """A map, how much is in it, and its `seq`."""

    seq: SeqNumber


class MapPage(Page):
    """A page of maps."""

    items: Annotated[list[MapSummary], Field(description="The page, in order of name.")]


# --- objects ----------------------------------------------------------------------------------------------------------


class MapObjectFields(Strict):
    """An object to create or change. A new one needs its location and all values; of one that exists, what is absent
    stays."""

    location: Annotated[Location | LeftOut, Field(description="Not null.")] = None
    values: GivenValues
    payload: Annotated[Any, Field(description="Any JSON; null takes it away.")] = None


class NewMapObject(MapObjectFields):
    """An object to create or change."""

    id: Annotated[Name, Field(description="Id of the object.")]


class MapObjectsBody(BulkBody):
    """Objects to create or change, in order."""

    objects: Annotated[list[NewMapObject], Field(description="The objects, in order.")]


class MapObjectBody(MapObjectFields):
    """An object to create or change."""

    id: Annotated[Name | LeftOut, Field(description="Id of the object, as in the path. Not null.")] = None
    seq: Ignored = None
    created: Ignored = None


class MapObjectPatch(MapObjectFields):
    """Changes of an object."""


class MapObject(ResponseModel):
    """An object. `created` counts the insertions into its map."""

    id: ObjectId
    location: Annotated[list[float], Field(description="`[x, y]`.")]
    values: ShownValues
    created: Annotated[int, Field(description="Number of its insertion.")]
    payload: Annotated[Any, Field(description="The payload of the object.")] = None


class MapObjectResponse(MapObject):
    """An object, at the map's `seq`."""

    seq: SeqNumber
    replayed: Replayed = False


class MapObjectPage(SeqPage):
    """A page of objects."""

    items: Annotated[list[MapObject], Field(description="The page, in order of id.")]


class MapObjectsResponse(BulkResponse):
    """How many objects were created or changed."""

    applied: Annotated[int, Field(description="How many objects were inserted or updated.")]


# --- questions --------------------------------------------------------------------------------------------------------


class ScoreBody(Strict):
    """A score; the smallest is the best. `weights` are by attribute, and `distance`; at least one is above 0."""

    kind: Annotated[ScoreKind, Field(description="The family of the score.")]
    weights: Annotated[
        dict[Attribute, Weight] | LeftOut, Field(description="Of all kinds but `expression`, and needed there.")
    ] = None
    scale: Annotated[
        float, Field(strict=True, allow_inf_nan=False, gt=0, le=LARGEST, description="What distances are divided by.")
    ] = 1.0
    shift: Annotated[
        float,
        Field(
            strict=True,
            allow_inf_nan=False,
            ge=0,
            le=LARGEST,
            description=f"Of weighted_product, weighted_distance and waspas; {SHIFT} by default.",
        ),
    ] = SHIFT
    blend: Annotated[
        float,
        Field(
            alias="lambda", strict=True, allow_inf_nan=False, ge=0, le=1, description=f"Of waspas; {LAMBDA} by default."
        ),
    ] = LAMBDA
    expression: Annotated[
        str | LeftOut, Field(description="Of `expression`: numbers, names, + - * / **, min, max, sqrt, log, exp.")
    ] = None


class TopFields(Strict):
    """The `k` best by a score. With `m` above 1 there are m - 1 more candidates, and the zone is wider: within it the k
    best of all candidates are right. `ordered`: their order holds in the zone too."""

    k: Annotated[Count, Field(description="How many objects.")]
    m: Annotated[Count, Field(description="How many candidates per place of the list.")] = 1
    ordered: Annotated[bool, Field(description="Whether the zone also keeps the order.")] = False
    score: Annotated[ScoreBody, Field(description="How objects are scored.")]


class MapTopBody(TopFields):
    """A top-k at one location, or at several."""

    location: Annotated[Location | LeftOut, Field(description="This, or `locations`.")] = None
    locations: Annotated[list[Location] | LeftOut, Field(description="In place of `location`.")] = None


class SkylineBody(Strict):
    """A skyline at one location, or at several."""

    location: Annotated[Location | LeftOut, Field(description="This, or `locations`.")] = None
    locations: Annotated[list[Location] | LeftOut, Field(description="In place of `location`.")] = None


class MapEntry(MapObject):
    """An object of a result, and its distance from the location."""

    distance: Annotated[float | None, Field(description="Distance to the query location; null where it is not known.")]


class Candidate(MapEntry):
    """An object of a top-k, with its score, null where it has none."""

    score: Annotated[float | None, Field(description="Its score; null where it has none.")]


class RankedCandidate(Candidate):
    """A candidate that is among the k best."""

    rank: Annotated[int, Field(description="Its place, from 1.")]


RankedList = list[RankedCandidate]
CandidateList = list[Candidate]
EntryList = list[MapEntry]


class Circle(ResponseModel):
    """Where a result holds: strictly within `radius` of `center`. Null: everywhere; 0: at this location only."""

    center: Annotated[Numbers, Field(description="`[x, y]`.")]
    radius: Annotated[float | None, Field(description="In the unit of the metric; null: everywhere.")]


class MapTopResult(ResponseModel):
    """A top-k, with all candidates in order, and where the k best of these are right."""

    list: Annotated[RankedList, Field(description="The k best, best first.")]
    candidates: Annotated[CandidateList, Field(description="All candidates, best first.")]
    zone: Annotated[Circle, Field(description="The safe zone: where the result stays the same.")]


class SkylineResult(ResponseModel):
    """A skyline, nearest first, and where it holds: a GeoJSON geometry, a circle with metrics other than euclidean, or
    null for this place only."""

    skyline: Annotated[EntryList, Field(description="The objects that nothing dominates, nearest first.")]
    zone: Annotated[dict[str, Any] | None, Field(description="The safe zone: where the result stays the same.")]


TopResults = list[MapTopResult]
SkylineResults = list[SkylineResult]


class MapTopResponse(ResponseModel):
    """A top-k at a location; with `locations` the `results` of all, in order."""

    seq: SeqNumber
    list: Annotated[RankedList | None, Field(description="The k best, best first.")] = None
    candidates: Annotated[CandidateList | None, Field(description="All candidates, best first.")] = None
    zone: Annotated[Circle | None, Field(description="The safe zone: where the result stays the same.")] = None
    results: Annotated[TopResults | None, Field(description="One result for each of `locations`.")] = None


class SkylineResponse(ResponseModel):
    """A skyline at a location; with `locations` the `results` of all, in order."""

    seq: SeqNumber
    skyline: Annotated[EntryList | None, Field(description="The objects that nothing dominates, nearest first.")] = None
    zone: Annotated[dict[str, Any] | None, Field(description="The safe zone: where the result stays the same.")] = None
    results: Annotated[SkylineResults | None, Field(description="One result for each of `locations`.")] = None


# --- standing queries -------------------------------------------------------------------------------------------------


class StandingQueryFields(Strict):
    """A standing query: a skyline, or a top-k with the fields of one."""

    kind: Annotated[Literal["top", "skyline"], Field(description="A top-k or a skyline.")]
    location: Location
    k: Annotated[Count | LeftOut, Field(description="Of `top`, and needed there.")] = None
    m: Annotated[Count | LeftOut, Field(description="Of `top`; 1 by default.")] = None
    ordered: Annotated[bool | LeftOut, Field(description="Of `top`; false by default.")] = None
    score: Annotated[ScoreBody | LeftOut, Field(description="Of `top`, and needed there.")] = None
    ttl: Seconds = None


class NewStandingQuery(StandingQueryFields):
    """A standing query to create. An absent id is generated."""

    id: Annotated[Name | None, Field(description="Id of the query; absent: generated.")] = None


class StandingQueriesBody(ListsBody):
    """Standing queries to create."""

    queries: Annotated[list[NewStandingQuery], Field(description="The standing queries.")]


class StandingQueryBody(StandingQueryFields):
    """A standing query as it is to be."""

    id: Annotated[Name | None, Field(description="Id of the query, as in the path.")] = None
    seq: Ignored = None
    inside: Ignored = None
    list: Ignored = None
    candidates: Ignored = None
    skyline: Ignored = None
    zone: Ignored = None


class StandingQueryPatch(Strict):
    """Changes of a standing query; what is absent stays. A location alone is a move, whose response inside the zone is
    `inside` alone. A `ttl` of null removes the time limit."""

    location: Annotated[Location | LeftOut, Field(description="Not null.")] = None
    k: Annotated[Count | LeftOut, Field(description="Not null.")] = None
    m: Annotated[Count | LeftOut, Field(description="Not null.")] = None
    ordered: Annotated[bool | LeftOut, Field(description="Not null.")] = None
    score: Annotated[ScoreBody | LeftOut, Field(description="Not null.")] = None
    ttl: Seconds = None


class StandingQuery(ResponseModel):
    """A standing query, with its result if the request wanted it: `list`, `candidates` and `zone`, or `skyline` and
    `zone`."""

    id: Annotated[str, Field(description="Id of the query.")]
    kind: Annotated[Literal["top", "skyline"], Field(description="A top-k or a skyline.")]
    location: Annotated[Numbers, Field(description="`[x, y]` of its client.")]
    k: Annotated[int | None, Field(description="Of `top`: how many objects.")] = None
    m: Annotated[int | None, Field(description="Of `top`: how many candidates per place.")] = None
    ordered: Annotated[bool | None, Field(description="Of `top`: whether the zone keeps the order.")] = None
    score: Annotated[dict[str, Any] | None, Field(description="Of `top`: the score.")] = None
    ttl: ShownSeconds = None
    list: Annotated[RankedList | None, Field(description="The k best, best first.")] = None
    candidates: Annotated[CandidateList | None, Field(description="All candidates, best first.")] = None
    skyline: Annotated[EntryList | None, Field(description="The objects that nothing dominates, nearest first.")] = None
    zone: Annotated[dict[str, Any] | None, Field(description="The safe zone: where the result stays the same.")] = None


class StandingQueryResponse(StandingQuery):
    """A standing query, at the map's `seq`."""

    seq: SeqNumber
    replayed: Replayed = False


class StandingQueriesResponse(BulkResponse):
    """The new standing queries, in the order of the request; with `on_error=skip` each with its `index`."""

    queries: Annotated[list[StandingQuery] | None, Field(description="The new queries.")] = None


class StandingQueryPage(SeqPage):
    """A page of standing queries, without results."""

    items: Annotated[list[StandingQuery], Field(description="The page, in order of id.")]


class StandingQueryPatchResponse(SeqResponse):
    """Whether a client is still in the zone that it had, else its new result; the whole query where more than the
    location was changed."""

    inside: Annotated[bool | None, Field(description="Whether the new location lies in the previous zone.")] = None


class Move(Strict):
    """The new location of the client of a standing query."""

    id: Annotated[Name, Field(description="Id of the standing query.")]
    location: Location


class MovesBody(BulkBody):
    """Moves of clients, in order."""

    moves: Annotated[list[Move], Field(description="Moves, in order.")]


class MoveResult(ResponseModel):
    """Whether a client is still in the zone that it had; else its new result."""

    id: Annotated[str, Field(description="Id of the standing query.")]
    inside: Annotated[bool, Field(description="Whether the new location lies in the previous zone.")]


class MovesResponse(BulkResponse):
    """The moves in order; with `on_error=skip` each with its `index`."""

    results: Annotated[list[MoveResult], Field(description="One for each move.")]


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


@lru_cache(maxsize=256)
def validators(config: MapConfig, most: int, max_k: int) -> MapValidators:
    """The validators of a map; `most` elements in a list. Which fields go with which kind of score or query is left to
    `QuestionReader`."""
    special = {
        "location": LOCATION,
        "locations": listed(LOCATION, most),
        "values": by_name(config.names, NUMBER),
        "weights": by_name((*config.names, "distance"), _WEIGHT),
        "k": whole(max_k),
        "m": whole(max_k),
    }
    of = Enforced(most, special).validator
    return MapValidators(
        objects=of(MapObjectsBody),
        object=of(NewMapObject),
        put_object=of(MapObjectBody),
        patch_object=of(MapObjectPatch),
        top=of(MapTopBody),
        skyline=of(SkylineBody),
        queries=of(StandingQueriesBody),
        query=of(NewStandingQuery),
        put_query=of(StandingQueryBody),
        patch_query=of(StandingQueryPatch),
        moves=of(MovesBody),
        move=of(Move),
    )
