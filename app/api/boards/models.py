"""Requests and responses of boards: models that describe them, and validators of a board's own attributes.

Elements are validated straight from JSON text by validators that know the board's attributes by name: several times
faster than a model for each element.
"""

from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from pydantic import Field
from pydantic_core import SchemaValidator
from pydantic_core import core_schema as cs

from app.api.models import (
    ANY,
    ENDS,
    NUMBER,
    BulkBody,
    BulkResponse,
    Enforced,
    GivenValues,
    Ignored,
    LeftOut,
    ListsBody,
    NewSubscriptionId,
    ObjectCount,
    ObjectId,
    OnErrorQuery,
    Page,
    Payload,
    Range,
    ResourceName,
    ResponseModel,
    Seconds,
    SeqNumber,
    SeqPage,
    ShownSeconds,
    ShownValues,
    SubscriptionCount,
    SubscriptionId,
    by_name,
    whole,
)
from app.api.pages import Query
from app.api.values import Attribute, Name, Number, Strict
from indexes.boards.zones import MOST_ZONES

Ends: TypeAlias = Annotated[list[float | None], Field(min_length=2, max_length=2)]
RESERVED = frozenset({"op", "id", "k", "payload", "created"})

Ks: TypeAlias = Annotated[
    list[Annotated[int, Field(ge=1)]],
    Field(min_length=1, max_length=1000, description="The list lengths that subscriptions can have."),
]
Algorithm = Annotated[
    Literal["sparse", "dense"],
    Field(description="How changes become tiles: for the present subscriptions, or for all that could be."),
]
Epsilon = Annotated[
    float | None,
    Field(strict=True, gt=0, le=1, description="Null: exact. 1/j: at most j tiles for each object."),
]
Sketch = Annotated[
    int | None,
    Field(
        ge=1,
        le=65_536,
        description="Rectangles that approximate the subscriptions; null: the subscriptions themselves.",
    ),
]
Zones = Annotated[
    int | None,
    Field(
        ge=1,
        le=MOST_ZONES,
        description="How many zones its tiles are published in on NATS, with one range attribute; null: none.",
    ),
]
Mode = Annotated[
    Literal["each", "batch"], Field(description="`each`: one change after the other; `batch`: all as one change.")
]
Messages = Annotated[
    Literal["full", "count", "none"], Field(description="Whether the response has the tiles, their count, or neither.")
]
Offset = Annotated[int, Field(ge=0, description="How many ranks at the head of the list are skipped.")]


class Rank(Strict):
    """By what objects are ranked; `asc`: the smallest value first."""

    attribute: Annotated[Attribute, Field(description="The attribute by which objects are ranked.")]
    order: Annotated[
        Literal["asc", "desc"], Field(description="`asc`: the smallest value ranks first; `desc`: the largest.")
    ] = "asc"


class BoardBody(Strict):
    """A board's configuration."""

    range_attributes: Annotated[
        list[Attribute],
        Field(min_length=1, max_length=1000, description="The attributes whose ranges subscriptions select."),
    ]
    rank: Annotated[Rank, Field(description="How objects are ranked.")]
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
        Field(description="The index of objects. With several range attributes or indexed fields it is `kd-tree`."),
    ] = "range-tree"
    zones: Zones = None
    name: Ignored = None
    seq: Ignored = None
    objects: Ignored = None
    subscriptions: Ignored = None


class BoardPatch(Strict):
    """Changes of a board's configuration."""

    ks: Annotated[Ks | None, Field(description="The new list lengths; those in use must stay.")] = None
    algorithm: Annotated[Algorithm | None, Field(description="The algorithm; absent: the present one.")] = None
    epsilon: Epsilon = None
    sketch: Sketch = None
    zones: Zones = None


class BoardSummary(ResponseModel):
    """A board as a page lists it."""

    name: ResourceName
    range_attributes: Annotated[list[str], Field(description="The attributes whose ranges subscriptions select.")]
    rank: Annotated[Rank, Field(description="How objects are ranked.")]
    ks: Annotated[list[int], Field(description="The list lengths that subscriptions can have.")]
    algorithm: Algorithm
    epsilon: Annotated[float | None, Field(description="Approximation of tiles, 1/j; null: exact.")]
    sketch: Annotated[int | None, Field(description="Rectangles that approximate the subscriptions; null: none.")]
    indexed: Annotated[list[str], Field(description="Payload members by which subscriptions may filter.")]
    index: Annotated[str, Field(description="How objects are kept.")]
    zones: Annotated[int | None, Field(description="Zones that its tiles are published in; null: none.")]
    objects: ObjectCount
    subscriptions: SubscriptionCount


class Board(BoardSummary):
    """A board, its sizes and its `seq`."""

    seq: SeqNumber


class BoardZone(ResponseModel):
    """One zone of a board: l and r of its subscriptions, from the lower end on and below the upper one."""

    id: Annotated[int, Field(description="The last part of its subject.")]
    l: Annotated[Ends, Field(description="The lower ends of its subscriptions; null: unbounded.")]
    r: Annotated[Ends, Field(description="The upper ends of its subscriptions; null: unbounded.")]
    subscriptions: SubscriptionCount
    rate: Annotated[float, Field(description="Messages a second, of late.")]


class BoardZones(ResponseModel):
    """The zones of a board, at its `seq`."""

    seq: SeqNumber
    version: Annotated[int, Field(description="The version of the zones, as in their subjects.")]
    base: Annotated[int, Field(description="The seq of the cut.")]
    subject: Annotated[str, Field(description="The subject of a zone but for its id.")]
    published: Annotated[int | None, Field(description="The seq up to which NATS has everything; null without NATS.")]
    zones: Annotated[list[BoardZone], Field(description="The zones, which cover the plane and do not overlap.")]


class BoardPage(Page):
    """A page of boards."""

    items: Annotated[list[BoardSummary], Field(description="The page, in order of name.")]


class BoardEvent(Strict):
    """A change of one object. `upsert` makes it (then with all values) or merges into it; `delete` has only its id."""

    op: Annotated[
        Literal["upsert", "update", "delete"],
        Field(description="`upsert` inserts or merges, `update` changes an existing object, `delete` deletes it."),
    ]
    id: Annotated[Name, Field(description="Id of the object.")]
    values: GivenValues
    payload: Payload = None


class BoardEventsBody(BulkBody):
    """Changes of objects, in order."""

    events: Annotated[list[BoardEvent], Field(description="Changes, in order.")]
    mode: Mode = "each"
    messages: Messages = "full"


class BoardEventsQuery(OnErrorQuery):
    """Query parameters for NDJSON and Arrow bodies."""

    mode: Mode = "each"
    messages: Messages = "full"


class MessagesQuery(Query):
    """Query parameters of a change of one object."""

    messages: Messages = "full"


class BoardObjectBody(Strict):
    """Values and payload of an object; a payload of null removes it."""

    values: GivenValues
    payload: Payload = None
    id: Annotated[Name | LeftOut, Field(description="Id of the object, as in the path.")] = None
    seq: Ignored = None
    created: Ignored = None


class BoardObjectPatch(Strict):
    """Changed values and payload; a payload of null removes it."""

    values: GivenValues
    payload: Payload = None


class BoardObject(ResponseModel):
    """An object as a list shows it."""

    id: ObjectId
    values: ShownValues
    created: Annotated[int, Field(description="Number of its insertion, which breaks ties: the smaller ranks first.")]
    payload: Payload = None


class TileObject(BoardObject):
    """The object that a tile is about. A gone one has its old values."""

    gone: Annotated[bool, Field(description="Whether the object leaves the lists of the recipients.")]


class FilterReach(ResponseModel):
    """The recipients of a tile by their filter on an indexed field."""

    any: Annotated[bool, Field(description="Whether the tile reaches subscriptions that do not filter by this field.")]
    values: Annotated[list[Any], Field(description="Values whose subscriptions the tile reaches.")]


class SidesOfTile(ResponseModel):
    """Reaches (l, r) iff l_outer < l <= l_inner and r_inner <= r < r_outer; null is unbounded.

    With several range attributes `box` has these four sides for each, and reaches subscriptions with ranges; tiles for
    subscriptions of other shapes have the field of that shape, with a least and a largest value for each number. With
    indexed fields `where` has the recipients by filter: those that do not filter by the field if `any`, and those that
    filter for one of `values`.
    """

    l_outer: Annotated[float | None, Field(description="Lower ends of ranges lie above this. Null: unbounded.")] = None
    l_inner: Annotated[
        float | None, Field(description="Lower ends of ranges lie at or below this. Null: unbounded.")
    ] = None
    r_inner: Annotated[
        float | None, Field(description="Upper ends of ranges lie at or above this. Null: unbounded.")
    ] = None
    r_outer: Annotated[float | None, Field(description="Upper ends of ranges lie below this. Null: unbounded.")] = None
    box: Annotated[
        dict[str, list[float | None]] | None, Field(description="`[l_outer, l_inner, r_inner, r_outer]` by attribute.")
    ] = None
    disc: Annotated[dict[str, Any] | None, Field(description="Least and largest value of each number of a disc.")] = (
        None
    )
    half_plane: Annotated[
        dict[str, Any] | None, Field(description="Least and largest value of each number of a half-plane.")
    ] = None
    simplex: Annotated[
        dict[str, Any] | None, Field(description="Least and largest value of each number of a simplex.")
    ] = None
    where: Annotated[dict[str, FilterReach] | None, Field(description="Recipients by indexed field.")] = None


class Tile(SidesOfTile):
    """An object and its recipients: the subscriptions with this k that the sides reach."""

    event: Annotated[int | None, Field(description="Index of the event in the body; null in `batch` mode.")]
    k: Annotated[int, Field(description="The list length of the recipients.")]
    object: Annotated[TileObject, Field(description="The object that recipients need.")]


class BoardEventsResponse(BulkResponse):
    """What the events changed."""

    applied: Annotated[int, Field(description="How many events were applied.")]
    tile_count: Annotated[int | None, Field(description="How many tiles there are.")] = None
    tiles: Annotated[list[Tile] | None, Field(description="The tiles, in order.")] = None
    truncated: Annotated[bool, Field(description="Whether tiles were left out; the count is whole.")] = False


class ExplainBody(Strict):
    """An event to explain, with the `algorithm` and `epsilon` of the board unless given."""

    event: Annotated[BoardEvent, Field(description="The event.")]
    algorithm: Annotated[Algorithm | None, Field(description="The algorithm; absent: the present one.")] = None
    epsilon: Epsilon = None


class OwnTile(SidesOfTile):
    """A tile about the object itself, as in the response to `events`."""

    k: Annotated[int, Field(description="The list length of the recipients.")]
    object: Annotated[TileObject, Field(description="The object that recipients need.")]


class ExposedObject(ResponseModel):
    """An object that enters lists because the event's object was demoted."""

    object: Annotated[BoardObject, Field(description="The object.")]
    tiles: Annotated[list[SidesOfTile], Field(description="Where it enters lists.")]
    reached: Annotated[int, Field(description="Subscriptions on its tiles.")]


class PaintCalls(ResponseModel):
    """Searches of the indexes for one k, counted as in [Range top-k]."""

    first_k: Annotated[int, Field(description="Times that the k nearest better objects on both sides were fetched.")]
    min_y: Annotated[int, Field(description="Searches for the next exposed object.")]
    snaps: Annotated[int, Field(description="Strips of the dense tiling: with `sparse`, each is shrunk to its own.")]
    merges: Annotated[int, Field(description="Boxes searched to join two tiles.")]
    refreshes: Annotated[int, Field(description="Searches for the ends of the subscriptions still concerned.")]


class TreePaintCalls(ResponseModel):
    """The same with several range attributes or indexed fields."""

    fetches: Annotated[int, Field(description="Times that the objects near the changed one were fetched.")]
    nodes: Annotated[int, Field(description="Nodes of the tree of subscriptions looked at.")]
    counts: Annotated[int, Field(description="Subscriptions whose better objects were counted in the tree of objects.")]
    searches: Annotated[int, Field(description="Subscriptions whose next object was searched for there.")]
    checks: Annotated[int, Field(description="Boxes searched for other subscriptions before they became one tile.")]


class ExplainedClass(ResponseModel):
    """What the event does to the subscriptions of one k, and with several range attributes of one shape."""

    k: Annotated[int, Field(description="The list length.")]
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
    tile_count: Annotated[int, Field(description="How many tiles there are.")]
    reached: Annotated[int, Field(description="Subscriptions on the tiles, each counted once.")]
    calls: Annotated[
        PaintCalls | TreePaintCalls, Field(description="Searches of the indexes, counted as in [Range top-k].")
    ]


class Nearest(ResponseModel):
    """The x of the nearest objects that rank before this one, nearest first: what bounds its region."""

    west: Annotated[list[float], Field(description="To the left, nearest first.")]
    east: Annotated[list[float], Field(description="To the right, nearest first.")]


class NearestBeforeAfter(ResponseModel):
    """Up to the largest k of the board; for a smaller k its first k count. Null with several range attributes or
    indexed fields."""

    before: Annotated[Nearest | None, Field(description="Before the event.")]
    after: Annotated[Nearest | None, Field(description="After the event.")]


class EventExplanation(ResponseModel):
    """What an event would do, were it the next one."""

    seq: Annotated[int, Field(description="The board's present seq.")]
    kind: Annotated[
        Literal["better", "worse", "insertion", "deletion", "move", "payload", "nothing"],
        Field(description="What the event is to the ranking."),
    ]
    before: Annotated[BoardObject | None, Field(description="The object as it is; null before an insertion.")]
    after: Annotated[BoardObject | None, Field(description="The object as it would be; null after a deletion.")]
    near: Annotated[NearestBeforeAfter, Field(description="The objects that bound its influence region.")]
    classes: Annotated[
        list[ExplainedClass],
        Field(description="One for each of the board's ks, and for other shapes where someone has them."),
    ]
    tile_count: Annotated[int, Field(description="How many tiles there are.")]
    affected: Annotated[int, Field(description="Subscriptions whose lists change.")]
    truncated: Annotated[bool, Field(description="Not all tiles are shown; the counts are whole.")] = False


class SubscriptionExplanation(ResponseModel):
    """What a subscription costs."""

    seq: SeqNumber
    id: SubscriptionId
    k: Annotated[int, Field(description="The list length.")]
    offset: Annotated[int, Field(description="Left out where it is 0.")] = 0
    objects_in_range: Annotated[int, Field(description="Objects in its region.")]
    list_length: Annotated[int, Field(description="Objects in its list.")]
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


class BoardObjectResponse(BoardObject):
    """An object and the board's `seq`."""

    seq: SeqNumber


class BoardObjectPage(SeqPage):
    """A page of objects."""

    items: Annotated[list[BoardObject], Field(description="The page, in order of id.")]


class RankedObject(BoardObject):
    """An object at its place in a list."""

    rank: Annotated[int, Field(description="Its place, from 1.")]


RankedList: TypeAlias = list[RankedObject]


class BoardTopResponse(ResponseModel):
    """A list, best first."""

    seq: SeqNumber
    list: Annotated[RankedList, Field(description="The list, best first.")]


class BoardTopQuery(Query):
    """Which objects, and how many. With several range attributes the ends are `l.<attribute>`, `r.<attribute>`.

    `where.<field>` is what an indexed field must be: JSON, or a string without quotes.
    """

    l: Annotated[float | None, Field(description="Least value of the range attribute.")] = None
    r: Annotated[float | None, Field(description="Largest value of the range attribute.")] = None
    k: Annotated[int | None, Field(ge=1, description="How many; the largest of `ks` if left out.")] = None
    offset: Annotated[int, Field(ge=0, description="How many ranks to skip.")] = 0


Point: TypeAlias = Annotated[list[Number], Field(min_length=2, max_length=2)]


class Disc(Strict):
    """At most `radius` away from `center`, the border included."""

    center: Annotated[Point, Field(description="`[x, y]`, in the order of the range attributes.")]
    radius: Annotated[Number, Field(ge=0, description="Euclidean distance.")]


class HalfPlane(Strict):
    """`a . x <= b`; not both of `a` are 0."""

    a: Annotated[Point, Field(description="The normal vector `[a1, a2]`.")]
    b: Annotated[Number, Field(description="The bound.")]


class Simplex(Strict):
    """The closed triangle of three points, which may lie on a line."""

    points: Annotated[list[Point], Field(min_length=3, max_length=3, description="The three corners.")]


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

    range: Annotated[
        dict[Attribute, Range],
        Field(default_factory=dict, description="`[low, high]` by range attribute; null or absent: unbounded."),
    ]
    disc: Annotated[Disc | LeftOut, Field(description=_PLANE)] = None
    half_plane: Annotated[HalfPlane | LeftOut, Field(description=_PLANE)] = None
    simplex: Annotated[Simplex | LeftOut, Field(description=_PLANE)] = None


class NewBoardSubscription(Region):
    """A subscription to the ranks offset + 1 to offset + k; offset + k must be one of the board's `ks`.

    An absent id is generated; an end of null, or an absent attribute, is unbounded.
    """

    id: NewSubscriptionId = None
    where: Where
    k: Annotated[int, Field(ge=1, description="How many ranks the list has.")]
    offset: Offset = 0
    ttl: Seconds = None


class BoardSubscriptionsBody(ListsBody):
    """Subscriptions to create."""

    subscriptions: Annotated[list[NewBoardSubscription], Field(description="The subscriptions.")]


class BoardSubscriptionBody(Region):
    """A subscription as it is to be."""

    where: Where
    k: Annotated[int, Field(ge=1, description="How many ranks the list has.")]
    offset: Offset = 0
    ttl: Seconds = None
    id: Annotated[Name | LeftOut, Field(description="Id of the subscription, as in the path.")] = None
    seq: Ignored = None
    list: Ignored = None


class DiscPatch(Strict):
    """Changes of a disc."""

    center: Annotated[Point | LeftOut, Field(description="`[x, y]`.")] = None
    radius: Annotated[Annotated[Number, Field(ge=0)] | LeftOut, Field(description="Euclidean distance.")] = None


class HalfPlanePatch(Strict):
    """Changes of a half-plane."""

    a: Annotated[Point | LeftOut, Field(description="The normal vector.")] = None
    b: Annotated[Number | LeftOut, Field(description="The bound.")] = None


class BoardSubscriptionPatch(Strict):
    """Changes of a subscription; a `ttl` of null removes the time limit.

    Of a region of the same kind what is left out stays. One of another kind is given whole; then a range is unbounded
    in the attributes that it leaves out. A filter is given whole; `{}` takes it away.
    """

    range: Annotated[
        dict[Attribute, Range], Field(default_factory=dict, description="Changed ends, by range attribute.")
    ]
    disc: Annotated[DiscPatch | LeftOut, Field(description="Changed members of the disc.")] = None
    half_plane: Annotated[HalfPlanePatch | LeftOut, Field(description="Changed members of the half-plane.")] = None
    simplex: Annotated[Simplex | LeftOut, Field(description="The new simplex.")] = None
    where: Annotated[dict[Attribute, Wanted] | LeftOut, Field(description="The new filter.")] = None
    k: Annotated[Annotated[int, Field(ge=1)] | LeftOut, Field(description="The new list length.")] = None
    offset: Annotated[Annotated[int, Field(ge=0)] | LeftOut, Field(description="The new offset.")] = None
    ttl: Seconds = None


class BoardSubscription(ResponseModel):
    """A subscription, with the one field that says its region. An `offset` of 0 and an empty `where` are left out."""

    id: SubscriptionId
    range: Annotated[
        dict[str, Range] | None, Field(description="`[low, high]` by range attribute; null: unbounded.")
    ] = None
    disc: Annotated[Disc | None, Field(description="The region, if it is a disc.")] = None
    half_plane: Annotated[HalfPlane | None, Field(description="The region, if it is a half-plane.")] = None
    simplex: Annotated[Simplex | None, Field(description="The region, if it is a simplex.")] = None
    where: Where
    k: Annotated[int, Field(description="How many ranks the list has.")]
    offset: Annotated[int, Field(description="How many ranks are skipped.")] = 0
    ttl: ShownSeconds = None
    list: Annotated[RankedList | None, Field(description="The list, best first.")] = None


class BoardSubscriptionResponse(BoardSubscription):
    """A subscription with its list, at the board's `seq`."""

    seq: SeqNumber


class StartCaller(ResponseModel):
    """Who may follow the stream."""

    id: Annotated[str, Field(description="Its id; empty where no key is asked for.")]
    expires: Annotated[float | None, Field(description="When its time is over, in seconds since 1970.")]


class StartZone(ResponseModel):
    """The zone of a subscription, where its tiles are published."""

    version: Annotated[int, Field(description="The version of the zones.")]
    zone: Annotated[int, Field(description="The zone.")]
    base: Annotated[int, Field(description="The seq of the cut, before the zone's first message.")]
    published: Annotated[int, Field(description="The seq up to which NATS has everything of the board.")]
    last: Annotated[int, Field(description="The seq of the zone's last message by then.")]


class BoardStreamStart(ResponseModel):
    """What a stream of a subscription begins with, and where it goes on."""

    seq: SeqNumber
    epoch: Annotated[str, Field(description="The history that cursors are of.")]
    id: SubscriptionId
    l: Annotated[float | None, Field(description="The lower end of its range; null: unbounded.")]
    r: Annotated[float | None, Field(description="The upper end of its range; null: unbounded.")]
    k: Annotated[int, Field(description="The k of the tiles that reach it: its offset and its own k.")]
    offset: Offset
    ttl: ShownSeconds = None
    range_attribute: Annotated[str, Field(description="The board's range attribute.")]
    rank: Annotated[Rank, Field(description="How objects are ranked.")]
    caller: Annotated[StartCaller, Field(description="Who asked.")]
    zone: Annotated[StartZone | None, Field(description="Its zone; null: its tiles are not published.")]
    list: Annotated[RankedList, Field(description="The list from the first rank on, best first.")]


class BoardSubscriptionsResponse(BulkResponse):
    """The new subscriptions, in the order of the request; with `on_error=skip` each with its `index`."""

    subscriptions: Annotated[list[BoardSubscription] | None, Field(description="The new subscriptions.")] = None


class BoardSubscriptionPage(SeqPage):
    """A page of subscriptions."""

    items: Annotated[list[BoardSubscription], Field(description="The page, in order of id.")]


# --- validators that know a board's attributes ---------------------------------------------------------------------


class BoardValidators(NamedTuple):
    """Validators for the bodies of boards with these attributes, whose lists have at most `most` elements."""

    most: int
    events: SchemaValidator
    event: SchemaValidator
    one_event: SchemaValidator
    put_object: SchemaValidator
    patch_object: SchemaValidator
    subscriptions: SchemaValidator
    subscription: SchemaValidator
    put_subscription: SchemaValidator
    patch_subscription: SchemaValidator


@lru_cache(maxsize=256)
def validators(
    range_attributes: tuple[str, ...], rank_attribute: str, most: int, max_k: int, indexed: tuple[str, ...] = ()
) -> BoardValidators:
    """The validators of a board; `most` elements in a list."""
    special: dict[str, cs.CoreSchema | None] = {
        "values": by_name((*range_attributes, rank_attribute), NUMBER),
        "range": by_name(range_attributes, ENDS),
        "where": by_name(indexed, ANY) if indexed else None,
        "k": whole(max_k),
        "offset": cs.int_schema(strict=True, ge=0, le=max_k),
        # Which there are depends on k, as `bad_epsilon` says.
        "epsilon": cs.nullable_schema(cs.float_schema(strict=True, allow_inf_nan=False)),
    }
    if len(range_attributes) != 2:
        special |= dict.fromkeys(("disc", "half_plane", "simplex"))
    of = Enforced(most, special).validator
    return BoardValidators(
        most=most,
        events=of(BoardEventsBody),
        event=of(BoardEvent),
        one_event=of(ExplainBody),
        put_object=of(BoardObjectBody),
        patch_object=of(BoardObjectPatch),
        subscriptions=of(BoardSubscriptionsBody),
        subscription=of(NewBoardSubscription),
        put_subscription=of(BoardSubscriptionBody),
        patch_subscription=of(BoardSubscriptionPatch),
    )
