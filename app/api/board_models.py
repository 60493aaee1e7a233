"""What the boards' routes take and answer: models that describe it, and validators of a board's own attributes.

Elements are validated straight from JSON text by validators that know the board's attributes by name: several times
faster than a model for each element.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from pydantic import Field
from pydantic_core import SchemaValidator
from pydantic_core import core_schema as cs

from app.api.models import (
    ANY,
    ENDS,
    NAME,
    NUMBER,
    ON_ERROR,
    SECONDS,
    Answer,
    ElementProblem,
    Ignored,
    OnError,
    Range,
    Seconds,
    fields,
    listed,
    made,
)
from app.api.paging import Query
from app.api.values import LARGEST, Attribute, Name, Number, Strict

RESERVED = frozenset({"op", "id", "k", "payload", "created"})

Ks: TypeAlias = Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1, max_length=1000)]
Algorithm = Literal["sparse", "dense"]
Epsilon = Annotated[
    float | None,
    Field(strict=True, gt=0, le=1, description="Null: exact. 1/j: at most j tiles an object, see the guide to boards."),
]
Sketch = Annotated[
    int | None,
    Field(ge=1, le=65_536, description="Rectangles by which the painter knows the subscriptions; null: by themselves."),
]
Mode = Literal["each", "batch"]
Messages = Literal["full", "count", "none"]
Offset = Annotated[int, Field(ge=0, description="How many ranks at the head of the list are passed over.")]


class Rank(Strict):
    """By what objects are ranked; `asc`: the smallest value first."""

    attribute: Attribute
    order: Literal["asc", "desc"] = "asc"


class BoardBody(Strict):
    """A board's configuration."""

    range_attributes: Annotated[list[Attribute], Field(min_length=1, max_length=1000)]
    rank: Rank
    ks: Ks
    algorithm: Algorithm = "sparse"
    epsilon: Epsilon = None
    sketch: Sketch = None
    indexed: Annotated[
        list[Attribute],
        Field(default_factory=list, description="Top-level members of payloads, by which subscriptions may filter."),
    ]
    index: Annotated[
        Literal["range-tree", "kd-tree"],
        Field(
            description="How objects are kept. With several range attributes or indexed fields always, and unless "
            "said, `kd-tree`."
        ),
    ] = "range-tree"
    name: Ignored = None
    seq: Ignored = None
    objects: Ignored = None
    subscriptions: Ignored = None


class BoardPatch(Strict):
    """What may change in a board's configuration."""

    ks: Ks | None = None
    algorithm: Algorithm | None = None
    epsilon: Epsilon = None
    sketch: Sketch = None


class Board(Answer):
    """A board, its sizes and its `seq`."""

    seq: int
    name: str
    range_attributes: list[str]
    rank: Rank
    ks: list[int]
    algorithm: Algorithm
    epsilon: float | None
    sketch: int | None
    indexed: list[str]
    index: str
    objects: int
    subscriptions: int


class Boards(Answer):
    """A page of boards, without `seq`."""

    items: list[dict[str, Any]]
    next: str | None


class Event(Strict):
    """A change of one object. `upsert` makes it (then with all values) or merges into it; `delete` has only its id."""

    op: Literal["upsert", "update", "delete"]
    id: Name
    values: dict[Attribute, Number] = Field(default_factory=dict)
    payload: Any = None


class EventsBody(Strict):
    """Changes of objects, in order."""

    events: list[Event]
    mode: Mode = "each"
    messages: Messages = "full"
    on_error: OnError = "refuse"


class EventsQuery(Query):
    """What goes with NDJSON and Arrow bodies."""

    mode: Mode = "each"
    messages: Messages = "full"
    on_error: OnError = "refuse"


class MessagesQuery(Query):
    """How much is said of the tiles."""

    messages: Messages = "full"


class ObjectBody(Strict):
    """Values and payload of an object; a payload of null takes it away."""

    values: dict[Attribute, Number] = Field(default_factory=dict)
    payload: Any = None
    id: Annotated[Name | None, Field(description="That of the path.")] = None
    seq: Ignored = None
    created: Ignored = None


class ObjectPatch(Strict):
    """Values and payload that change; a payload of null takes it away."""

    values: dict[Attribute, Number] = Field(default_factory=dict)
    payload: Any = None


class Object(Answer):
    """An object as a list shows it."""

    id: str
    values: dict[str, float]
    created: int
    payload: Any = None


class TileObject(Object):
    """The object that a tile is about. A gone one has its old values."""

    gone: bool


class Reached(Answer):
    """Whom a tile reaches by what they want in an indexed field."""

    any: bool
    values: list[Any]


class SidesOfTile(Answer):
    """Reaches (l, r) iff l_outer < l <= l_inner and r_inner <= r < r_outer; null is unbounded.

    With several range attributes `box` has these four sides for each, and reaches subscriptions with ranges; tiles for
    subscriptions of other shapes have the field of that shape, with a least and a largest value for each number. With
    indexed fields `where` says for each whom it reaches: those that filter nothing there if `any`, and those that want
    one of `values`.
    """

    l_outer: float | None = None
    l_inner: float | None = None
    r_inner: float | None = None
    r_outer: float | None = None
    box: dict[str, list[float | None]] | None = None
    disc: dict[str, Any] | None = None
    half_plane: dict[str, Any] | None = None
    simplex: dict[str, Any] | None = None
    where: dict[str, Reached] | None = None


class Tile(SidesOfTile):
    """An object, and who must hear of it: the subscriptions with this k that its sides reach."""

    event: int | None
    k: int
    object: TileObject


class Applied(Answer):
    """What the events did."""

    seq: int
    applied: int
    tile_count: int | None = None
    tiles: list[Tile] | None = None
    truncated: bool = False
    errors: list[ElementProblem] | None = None
    replayed: bool = False


class EventBody(Strict):
    """An event that is not to happen; `algorithm` and `epsilon` as if the board had these, its own if left out."""

    event: Event
    algorithm: Algorithm | None = None
    epsilon: Epsilon = None


class OwnTile(SidesOfTile):
    """A tile that tells of the object itself, as `events` answers it."""

    k: int
    object: TileObject


class ExposedObject(Answer):
    """An object that comes into lists because the event's makes room."""

    object: Object
    tiles: list[SidesOfTile]
    reached: Annotated[int, Field(description="Subscriptions on its tiles.")]


class Calls(Answer):
    """What painting a class asks of the indexes, counted as in the paper."""

    first_k: Annotated[int, Field(description="Times that the k nearest better objects on both sides were fetched.")]
    min_y: Annotated[int, Field(description="Searches for the next exposed object.")]
    snaps: Annotated[int, Field(description="Strips of the dense tiling: with `sparse`, each is shrunk to its own.")]
    merges: Annotated[int, Field(description="Boxes searched to join two tiles.")]
    refreshes: Annotated[int, Field(description="Searches for the ends of the subscriptions still concerned.")]


class SpaceCalls(Answer):
    """What painting a class asks of the indexes with several range attributes or indexed fields."""

    fetches: Annotated[int, Field(description="Times that the objects near the changed one were fetched.")]
    nodes: Annotated[int, Field(description="Nodes of the tree of subscriptions looked at.")]
    counts: Annotated[int, Field(description="Subscriptions whose better objects were counted in the tree of objects.")]
    searches: Annotated[int, Field(description="Subscriptions whose next object was searched for there.")]
    checks: Annotated[int, Field(description="Boxes searched for other subscriptions before they became one tile.")]


class Effect(Answer):
    """What the event does to the subscriptions of one k, and with several range attributes of one shape."""

    k: int
    shape: Annotated[
        Literal["box", "disc", "half_plane", "simplex"] | None, Field(description="With several range attributes only.")
    ] = None
    before: Annotated[
        list[SidesOfTile],
        Field(
            description="Where the object is among the k best before the event. With several range attributes or "
            "indexed fields: the subscriptions whose lists have it, each in one of the boxes, which hold no other."
        ),
    ]
    after: Annotated[list[SidesOfTile], Field(description="Where it is after the event.")]
    tiles: Annotated[list[OwnTile], Field(description="Its own tiles; of a move first those `gone`.")]
    exposed: Annotated[list[ExposedObject], Field(description="Best first.")]
    tile_count: int
    reached: Annotated[int, Field(description="Subscriptions on the tiles, each counted once.")]
    calls: Calls | SpaceCalls


class Nearest(Answer):
    """The x of the nearest objects that rank before this one, nearest first: what bounds its region."""

    west: list[float]
    east: list[float]


class NearestThen(Answer):
    """Up to the largest k of the board; for a smaller k its first k count. Null with several range attributes or
    indexed fields."""

    before: Nearest | None
    after: Nearest | None


class Explained(Answer):
    """What an event would do, were it the next one."""

    seq: Annotated[int, Field(description="The board's present seq.")]
    kind: Literal["better", "worse", "insertion", "deletion", "move", "payload", "nothing"]
    before: Annotated[Object | None, Field(description="The object as it is; null before an insertion.")]
    after: Annotated[Object | None, Field(description="The object as it would be; null after a deletion.")]
    near: NearestThen
    classes: Annotated[
        list[Effect], Field(description="One for each of the board's ks, and for other shapes where someone has them.")
    ]
    tile_count: int
    affected: Annotated[int, Field(description="Subscriptions whose lists change.")]
    truncated: Annotated[bool, Field(description="Not all tiles are shown; the counts are whole.")] = False


class ExplainedSubscription(Answer):
    """What a subscription costs."""

    seq: int
    id: str
    k: int
    offset: Annotated[int, Field(description="Left out where it is 0.")] = 0
    objects_in_range: int
    list_length: int
    kth: Annotated[
        float | None, Field(description="The rank value of the last of a full list, which a newcomer has to beat.")
    ]
    share: Annotated[
        float,
        Field(
            ge=0,
            le=1,
            description="The part of events that change its list, when each gives a random object a new place in rank.",
        ),
    ]
    live: Annotated[bool, Field(description="Whether its list is kept: a stream is open, or was a short while ago.")]
    streams: Annotated[int, Field(description="Streams that are open.")]
    kept: Annotated[int, Field(description="Messages kept for a reader who comes back.")]
    changes: Annotated[int, Field(description="Messages since it became live, once for each form that is followed.")]
    bytes: Annotated[int, Field(description="Memory that it takes, an estimate.")]


class ObjectAnswer(Object):
    """An object and the board's `seq`."""

    seq: int


class Objects(Answer):
    """A page of objects."""

    seq: int
    items: list[Object]
    next: str | None


class Ranked(Object):
    """An object at its place in a list."""

    rank: int


RankedList: TypeAlias = list[Ranked]


class Top(Answer):
    """A list, best first."""

    seq: int
    list: RankedList


class TopQuery(Query):
    """Which objects, and how many. With several range attributes the ends are `l.<attribute>`, `r.<attribute>`.

    `where.<field>` is what an indexed field must be: JSON, or a string without quotes.
    """

    l: Annotated[float | None, Field(description="Least value of the range attribute.")] = None
    r: Annotated[float | None, Field(description="Largest value of the range attribute.")] = None
    k: Annotated[int | None, Field(ge=1, description="How many; the largest of `ks` if left out.")] = None
    offset: Annotated[int, Field(ge=0, description="How many ranks to pass over before the first.")] = 0


Point: TypeAlias = Annotated[list[Number], Field(min_length=2, max_length=2)]


class Disc(Strict):
    """At most `radius` away from `center`, the border included."""

    center: Point
    radius: Annotated[Number, Field(ge=0)]


class HalfPlane(Strict):
    """`a . x <= b`; not both of `a` are 0."""

    a: Point
    b: Number


class Simplex(Strict):
    """The closed triangle of three points, which may lie on a line."""

    points: Annotated[list[Point], Field(min_length=3, max_length=3)]


_PLANE = "On boards with two range attributes, in place of `range`."


Wanted: TypeAlias = str | float | bool | None
Where = Annotated[
    dict[Attribute, Wanted],
    Field(
        default_factory=dict,
        description="What the payload must have in these indexed fields; others may have anything.",
    ),
]


class Region(Strict):
    """A region: at most one of these fields; none is everywhere."""

    range: dict[Attribute, Range] = Field(default_factory=dict)
    disc: Annotated[Disc | None, Field(description=_PLANE)] = None
    half_plane: Annotated[HalfPlane | None, Field(description=_PLANE)] = None
    simplex: Annotated[Simplex | None, Field(description=_PLANE)] = None


class NewSubscription(Region):
    """A subscription to the ranks offset + 1 to offset + k; offset + k must be one of the board's `ks`.

    An id left out is made up; an end of null, or an attribute left out, is unbounded.
    """

    id: Name | None = None
    where: Where
    k: Annotated[int, Field(ge=1)]
    offset: Offset = 0
    ttl: Seconds = None


class SubscriptionsBody(Strict):
    """Subscriptions to be made. `lists` asks for their lists: true for up to 1,000 unless said."""

    subscriptions: list[NewSubscription]
    lists: bool | None = None
    on_error: OnError = "refuse"


class SubscriptionsQuery(Query):
    """What goes with NDJSON and Arrow bodies."""

    lists: bool | None = None
    on_error: OnError = "refuse"


class SubscriptionBody(Region):
    """What a subscription is from now on."""

    where: Where
    k: Annotated[int, Field(ge=1)]
    offset: Offset = 0
    ttl: Seconds = None
    id: Annotated[Name | None, Field(description="That of the path.")] = None
    seq: Ignored = None
    list: Ignored = None


class DiscPatch(Strict):
    """What changes in a disc."""

    center: Point | None = None
    radius: Annotated[float | None, Field(strict=True, ge=0, le=LARGEST)] = None


class HalfPlanePatch(Strict):
    """What changes in a half-plane."""

    a: Point | None = None
    b: Number | None = None


class SubscriptionPatch(Strict):
    """What changes in a subscription; a `ttl` of null takes the time limit away.

    Of a region of the same kind what is left out stays. One of another kind is given whole; then a range is unbounded
    in the attributes that it leaves out. A filter is given whole; `{}` takes it away.
    """

    range: dict[Attribute, Range] = Field(default_factory=dict)
    disc: DiscPatch | None = None
    half_plane: HalfPlanePatch | None = None
    simplex: Simplex | None = None
    where: dict[Attribute, Wanted] | None = None
    k: Annotated[int | None, Field(ge=1)] = None
    offset: Annotated[int | None, Field(ge=0)] = None
    ttl: Seconds = None


class Subscription(Answer):
    """A subscription, with the one field that says its region. An `offset` of 0 and an empty `where` are left out."""

    id: str
    range: dict[str, Range] | None = None
    disc: Disc | None = None
    half_plane: HalfPlane | None = None
    simplex: Simplex | None = None
    where: Where
    k: int
    offset: int = 0
    ttl: float | None = None
    list: RankedList | None = None


class SubscriptionAnswer(Subscription):
    """A subscription with its list, at the board's `seq`."""

    seq: int


class SubscriptionsAnswer(Answer):
    """The subscriptions that were made, in the order of the request; with `on_error=skip` each with its `index`."""

    seq: int
    subscriptions: list[Subscription] | None = None
    errors: list[ElementProblem] | None = None
    replayed: bool = False


class Subscriptions(Answer):
    """A page of subscriptions."""

    seq: int
    items: list[Subscription]
    next: str | None


# --- validators that know a board's attributes ---------------------------------------------------------------------


class BoardValidators(NamedTuple):
    """Validators for the bodies of boards with these attributes."""

    events: SchemaValidator
    event: SchemaValidator
    one_event: SchemaValidator
    put_object: SchemaValidator
    patch_object: SchemaValidator
    subscriptions: SchemaValidator
    subscription: SchemaValidator
    put_subscription: SchemaValidator
    patch_subscription: SchemaValidator


_ALGORITHM = cs.nullable_schema(cs.literal_schema(["sparse", "dense"]))
_EPSILON = cs.nullable_schema(cs.float_schema(strict=True, allow_inf_nan=False))


@lru_cache(maxsize=256)
def validators(
    range_attributes: tuple[str, ...], rank_attribute: str, most: int, max_k: int, indexed: tuple[str, ...] = ()
) -> BoardValidators:
    """The validators of a board; `most` elements in a list."""
    d = len(range_attributes)
    values = fields({}, dict.fromkeys((*range_attributes, rank_attribute), NUMBER))
    ranges = fields({}, dict.fromkeys(range_attributes, ENDS))
    k = cs.int_schema(strict=True, ge=1, le=max_k)
    offset = cs.int_schema(strict=True, ge=0, le=max_k)
    object_fields = {"values": values, "payload": ANY}
    optional = {"range": ranges, "offset": offset, "ttl": cs.nullable_schema(SECONDS)}
    if indexed:
        optional["where"] = fields({}, dict.fromkeys(indexed, ANY))
    shaped, changed = ({**optional, **(_shapes(whole) if d == 2 else {})} for whole in (True, False))
    event = fields({"op": cs.literal_schema(["upsert", "update", "delete"]), "id": NAME}, object_fields)
    subscription = fields({"k": k}, {"id": cs.nullable_schema(NAME), **shaped})
    options = {"mode": cs.literal_schema(["each", "batch"]), "messages": cs.literal_schema(["full", "count", "none"])}
    lists = {"lists": cs.nullable_schema(cs.bool_schema(strict=True))}
    return BoardValidators(
        events=made(fields({"events": listed(event, most)}, {**options, "on_error": ON_ERROR})),
        event=made(event),
        one_event=made(fields({"event": event}, {"algorithm": _ALGORITHM, "epsilon": _EPSILON})),
        put_object=made(fields({}, {**object_fields, "seq": ANY, "id": NAME, "created": ANY})),
        patch_object=made(fields({}, object_fields)),
        subscriptions=made(fields({"subscriptions": listed(subscription, most)}, {**lists, "on_error": ON_ERROR})),
        subscription=made(subscription),
        put_subscription=made(fields({"k": k}, {"id": NAME, **shaped, "seq": ANY, "list": ANY})),
        patch_subscription=made(fields({}, {"k": k, **changed})),
    )


def _shapes(whole: bool) -> dict[str, cs.CoreSchema]:
    """The fields of the regions that are no ranges; those of a change may lack parts."""
    point = cs.list_schema(NUMBER, min_length=2, max_length=2, strict=True)
    radius = cs.float_schema(strict=True, allow_inf_nan=False, ge=0, le=LARGEST)
    disc: dict[str, cs.CoreSchema] = {"center": point, "radius": radius}
    half_plane: dict[str, cs.CoreSchema] = {"a": point, "b": NUMBER}
    points = cs.list_schema(point, min_length=3, max_length=3, strict=True)
    return {
        "disc": fields(disc, {}) if whole else fields({}, disc),
        "half_plane": fields(half_plane, {}) if whole else fields({}, half_plane),
        "simplex": fields({"points": points}, {}),
    }
