"""What the boards' routes take and answer: models that describe it, and validators of a board's own attributes.

Elements are validated straight from JSON text by validators that know the board's attributes by name: several times
faster than a model for each element.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import CoreConfig, SchemaValidator
from pydantic_core import core_schema as cs

from app.api.paging import Query
from app.api.values import LARGEST, NAME_LENGTH, Attribute, Name, Number, Strict
from app.problems import NAME_PATTERN

RESERVED = frozenset({"op", "id", "k", "payload", "created"})

Ignored = Annotated[Any, Field(description="Ignored: what GET adds may be sent back.")]
Ks: TypeAlias = Annotated[list[Annotated[int, Field(ge=1)]], Field(min_length=1, max_length=1000)]
Algorithm = Literal["sparse", "dense"]
Epsilon = Annotated[float | None, Field(strict=True, description="Approximation; boards are exact: null.")]
Messages = Literal["full", "count", "none"]
OnError = Literal["refuse", "skip"]
Range = Annotated[list[Number | None], Field(min_length=2, max_length=2)]


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
    index: Literal["range-tree", "kd-tree"] = "range-tree"
    name: Ignored = None
    seq: Ignored = None
    objects: Ignored = None
    subscriptions: Ignored = None


class BoardPatch(Strict):
    """What may change in a board's configuration."""

    ks: Ks | None = None
    algorithm: Algorithm | None = None
    epsilon: Epsilon = None


class Answer(BaseModel):
    """An answer."""

    model_config = ConfigDict(extra="allow")


class Board(Answer):
    """A board, its sizes and its `seq`."""

    seq: int
    name: str
    range_attributes: list[str]
    rank: Rank
    ks: list[int]
    algorithm: Algorithm
    epsilon: float | None
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
    mode: Literal["each"] = "each"
    messages: Messages = "full"
    on_error: OnError = "refuse"


class EventsQuery(Query):
    """What goes with NDJSON and Arrow bodies."""

    mode: Literal["each"] = "each"
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


class Tile(Answer):
    """Reaches (l, r) iff l_outer < l <= l_inner and r_inner <= r < r_outer, and k is the subscription's."""

    event: int | None
    k: int
    l_outer: float | None
    l_inner: float | None
    r_inner: float | None
    r_outer: float | None
    object: TileObject


class ElementProblem(Answer):
    """Why an element was skipped."""

    index: int
    field: str
    reason: str


class Applied(Answer):
    """What the events did."""

    seq: int
    applied: int
    tile_count: int | None = None
    tiles: list[Tile] | None = None
    truncated: bool = False
    errors: list[ElementProblem] | None = None
    replayed: bool = False


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
    """Which objects, and how many; with a board's attribute named: `l.<attribute>`, `r.<attribute>`."""

    l: Annotated[float | None, Field(description="Least value of the range attribute.")] = None
    r: Annotated[float | None, Field(description="Largest value of the range attribute.")] = None
    k: Annotated[int | None, Field(ge=1, description="How many; the largest of `ks` if left out.")] = None


class NewSubscription(Strict):
    """A subscription. An id left out is made up; an end of null, or an attribute left out, is unbounded."""

    id: Name | None = None
    range: dict[Attribute, Range] = Field(default_factory=dict)
    k: Annotated[int, Field(ge=1)]
    ttl: Annotated[float | None, Field(strict=True, gt=0, allow_inf_nan=False)] = None


class SubscriptionsBody(Strict):
    """Subscriptions to be made. `lists` asks for their lists: true for up to 1,000 unless said."""

    subscriptions: list[NewSubscription]
    lists: bool | None = None
    on_error: OnError = "refuse"


class SubscriptionsQuery(Query):
    """What goes with NDJSON and Arrow bodies."""

    lists: bool | None = None
    on_error: OnError = "refuse"


class SubscriptionBody(Strict):
    """What a subscription is from now on."""

    range: dict[Attribute, Range] = Field(default_factory=dict)
    k: Annotated[int, Field(ge=1)]
    ttl: Annotated[float | None, Field(strict=True, gt=0, allow_inf_nan=False)] = None
    id: Annotated[Name | None, Field(description="That of the path.")] = None
    seq: Ignored = None
    list: Ignored = None


class SubscriptionPatch(Strict):
    """What changes in a subscription; a `ttl` of null takes the time limit away."""

    range: dict[Attribute, Range] = Field(default_factory=dict)
    k: Annotated[int | None, Field(ge=1)] = None
    ttl: Annotated[float | None, Field(strict=True, gt=0, allow_inf_nan=False)] = None


class Subscription(Answer):
    """A subscription."""

    id: str
    range: dict[str, Range]
    k: int
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


class IdsBody(Strict):
    """Ids; those that are not there are passed over."""

    ids: list[Name]


class Deleted(Answer):
    """How many were deleted."""

    seq: int
    deleted: int
    replayed: bool = False


class Seq(Answer):
    """The seq of the change."""

    seq: int
    replayed: bool = False


# --- validators that know a board's attributes ---------------------------------------------------------------------


class BoardValidators(NamedTuple):
    """Validators for the bodies of boards with these attributes."""

    events: SchemaValidator
    event: SchemaValidator
    put_object: SchemaValidator
    patch_object: SchemaValidator
    subscriptions: SchemaValidator
    subscription: SchemaValidator
    put_subscription: SchemaValidator
    patch_subscription: SchemaValidator


_CONFIG = CoreConfig(strict=True)
_ANY = cs.any_schema()
_NAME = cs.str_schema(min_length=1, max_length=NAME_LENGTH, pattern=NAME_PATTERN, strict=True)
_NUMBER = cs.float_schema(strict=True, allow_inf_nan=False, ge=-LARGEST, le=LARGEST)
_SECONDS = cs.float_schema(strict=True, allow_inf_nan=False, gt=0, le=LARGEST)
_ON_ERROR = cs.literal_schema(["refuse", "skip"])


@lru_cache(maxsize=256)
def validators(range_attributes: tuple[str, ...], rank_attribute: str, most: int, max_k: int) -> BoardValidators:
    """The validators of a board; `most` elements in a list."""
    values = _fields({}, dict.fromkeys((*range_attributes, rank_attribute), _NUMBER))
    ends = cs.list_schema(cs.nullable_schema(_NUMBER), min_length=2, max_length=2, strict=True)
    ranges = _fields({}, dict.fromkeys(range_attributes, ends))
    k = cs.int_schema(strict=True, ge=1, le=max_k)
    object_fields = {"values": values, "payload": _ANY}
    optional = {"range": ranges, "ttl": cs.nullable_schema(_SECONDS)}
    event = _fields({"op": cs.literal_schema(["upsert", "update", "delete"]), "id": _NAME}, object_fields)
    subscription = _fields({"k": k}, {"id": cs.nullable_schema(_NAME), **optional})
    options = {"mode": cs.literal_schema(["each"]), "messages": cs.literal_schema(["full", "count", "none"])}
    lists = {"lists": cs.nullable_schema(cs.bool_schema(strict=True))}
    return BoardValidators(
        events=_made(_fields({"events": _list(event, most)}, {**options, "on_error": _ON_ERROR})),
        event=_made(event),
        put_object=_made(_fields({}, {**object_fields, "seq": _ANY, "id": _NAME, "created": _ANY})),
        patch_object=_made(_fields({}, object_fields)),
        subscriptions=_made(_fields({"subscriptions": _list(subscription, most)}, {**lists, "on_error": _ON_ERROR})),
        subscription=_made(subscription),
        put_subscription=_made(_fields({"k": k}, {"id": _NAME, **optional, "seq": _ANY, "list": _ANY})),
        patch_subscription=_made(_fields({}, {"k": k, **optional})),
    )


@lru_cache(maxsize=8)
def ids_validator(most: int) -> SchemaValidator:
    """The validator of a list of at most `most` ids."""
    return _made(_fields({"ids": _list(_NAME, most)}, {}))


def _fields(required: dict[str, cs.CoreSchema], optional: dict[str, cs.CoreSchema]) -> cs.CoreSchema:
    fields = {name: cs.typed_dict_field(schema) for name, schema in required.items()}
    fields |= {name: cs.typed_dict_field(schema, required=False) for name, schema in optional.items()}
    return cs.typed_dict_schema(fields, extra_behavior="forbid", strict=True)


def _list(element: cs.CoreSchema, most: int) -> cs.CoreSchema:
    return cs.list_schema(element, max_length=most, strict=True)


def _made(schema: cs.CoreSchema) -> SchemaValidator:
    return SchemaValidator(schema, _CONFIG)
