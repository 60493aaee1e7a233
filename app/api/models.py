"""What the bodies and answers of all resources have in common, and how their models are enforced.

The models describe bodies in the OpenAPI document, and the validators of bodies are made from them: with a resource's
attributes by name, and into dicts, several times faster than into a model for each element.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import cache, lru_cache
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import CoreConfig, SchemaValidator
from pydantic_core import core_schema as cs

from app.api.pages import Query
from app.api.values import LARGEST, Attribute, Name, Number, Strict

Ignored = Annotated[Any, Field(description="Ignored, so that a response of GET can be sent back.")]
OnError = Annotated[
    Literal["refuse", "skip"],
    Field(description="`refuse`: one invalid element refuses the request; `skip`: the valid ones are applied."),
]
SeqNumber = Annotated[int, Field(description="Sequence number of the resource after the last change included.")]
Replayed = Annotated[bool, Field(description="Whether this repeats the first response under the Idempotency-Key.")]
NextCursor = Annotated[str | None, Field(description="The `cursor` of the next page; null on the last one.")]
Range = Annotated[list[Number | None], Field(min_length=2, max_length=2)]

ResourceName = Annotated[str, Field(description="Name, as in the path.")]
ObjectCount = Annotated[int, Field(description="How many objects there are.")]
SubscriptionCount = Annotated[int, Field(description="How many subscriptions there are.")]
ObjectId = Annotated[str, Field(description="Id of the object.")]
SubscriptionId = Annotated[str, Field(description="Id of the subscription.")]
NewSubscriptionId = Annotated[Name | None, Field(description="Id of the subscription; absent: generated.")]
PathSubscriptionId = Annotated[Name | None, Field(description="Id of the subscription, as in the path.")]
DeletedCount = Annotated[int, Field(description="How many of the ids existed and were deleted.")]
GivenValues = Annotated[dict[Attribute, Number], Field(default_factory=dict, description="Values by attribute.")]
ShownValues = Annotated[dict[str, float], Field(description="Values by attribute.")]
Intervals = Annotated[dict[str, Range], Field(description="`[low, high]` by attribute; null: unbounded.")]
Payload = Annotated[Any, Field(description="Any JSON value that travels with the object; null: none.")]
Lists = Annotated[
    bool | None,
    Field(description="Whether the response has the lists, or results; absent: where at most 1,000 are created."),
]

LeftOut = SkipJsonSchema[None]
"""The type of a field that may be absent but not null."""

Seconds = Annotated[
    float | None,
    Field(
        strict=True,
        gt=0,
        le=LARGEST,
        allow_inf_nan=False,
        description="Seconds without a stream or request after which it is deleted; null or absent: kept.",
    ),
]
"""A time to live, as it is given."""

ShownSeconds = Annotated[
    float | None, Field(description="Seconds without a stream or request after which it is deleted; absent: kept.")
]
"""The same in a response."""


class NoQuery(Query):
    """No query parameters."""


class OnErrorQuery(Query):
    """Query parameters for NDJSON and Arrow bodies."""

    on_error: OnError = "refuse"


class ListsQuery(OnErrorQuery):
    """Query parameters for NDJSON and Arrow bodies."""

    lists: Lists = None


class BulkBody(Strict):
    """A body with many elements."""

    on_error: OnError = "refuse"


class ListsBody(BulkBody):
    """A body with many elements whose lists the response may have."""

    lists: Lists = None


class ResponseModel(BaseModel):
    """Base of the models that describe responses."""

    model_config = ConfigDict(extra="allow", defer_build=True)


class SkippedElement(ResponseModel):
    """An element that was skipped, and why."""

    index: Annotated[int, Field(description="Index of the element in the body, from 0.")]
    field: Annotated[str, Field(description="Path of the field, as in `events[3].values.delay`.")]
    reason: Annotated[str, Field(description="Why the element was skipped.")]


SkippedElements = Annotated[
    list[SkippedElement] | None,
    Field(description="With `on_error=skip`: what is wrong with the elements skipped, the first 1,000 errors."),
]


class IdsBody(Strict):
    """Ids to delete; unknown ones are ignored."""

    ids: Annotated[list[Name], Field(description="Ids to delete.")]


class Page(ResponseModel):
    """A page of a list."""

    next: NextCursor


class SeqPage(Page):
    """A page of a list of one resource."""

    seq: SeqNumber


class SeqResponse(ResponseModel):
    """Response to a change."""

    seq: SeqNumber
    replayed: Replayed = False


class DeletedResponse(SeqResponse):
    """Response to the deletion of several elements."""

    deleted: DeletedCount


class BulkResponse(SeqResponse):
    """Response to a request with many elements."""

    errors: SkippedElements = None
    error_count: Annotated[
        int | None, Field(description="With `on_error=skip`: how many errors there are, also those beyond `errors`.")
    ] = None


# --- the same models, enforced ---------------------------------------------------------------------------------------

_CONFIG = CoreConfig(strict=True)
ANY = cs.any_schema()
NUMBER = cs.float_schema(strict=True, allow_inf_nan=False, ge=-LARGEST, le=LARGEST)
ENDS = cs.list_schema(cs.nullable_schema(NUMBER), min_length=2, max_length=2, strict=True)


def fields(required: Mapping[str, cs.CoreSchema], optional: Mapping[str, cs.CoreSchema]) -> cs.CoreSchema:
    """An object with these fields and no others."""
    found = {name: cs.typed_dict_field(schema) for name, schema in required.items()}
    found |= {name: cs.typed_dict_field(schema, required=False) for name, schema in optional.items()}
    return cs.typed_dict_schema(found, extra_behavior="forbid", strict=True)


def by_name(names: Iterable[str], schema: cs.CoreSchema) -> cs.CoreSchema:
    """An object that may have a value of each of these names."""
    return fields({}, dict.fromkeys(names, schema))


def whole(most: int) -> cs.CoreSchema:
    """An integer from 1 to `most`."""
    return cs.int_schema(strict=True, ge=1, le=most)


def listed(element: cs.CoreSchema, most: int) -> cs.CoreSchema:
    """A list of at most so many."""
    return cs.list_schema(element, max_length=most, strict=True)


def made(schema: cs.CoreSchema) -> SchemaValidator:
    """The validator of a schema; it converts nothing. Of a body's strings only keys are looked up among those that it
    has had before: ids hardly ever occur twice."""
    return SchemaValidator(schema, CoreConfig(strict=True, cache_strings="keys"))


class Enforced:
    """Makes validators of models for one resource. A valid object is a dict with the fields that were given.

    A field is what its annotation says, unless `special` has its name: the schema of what depends on the resource's
    attributes or on the settings, None where this resource has no such field. Fields of `required` must be given,
    whatever the model says. A list of models has at most `most` elements.
    """

    def __init__(
        self, most: int, special: Mapping[str, cs.CoreSchema | None], required: Collection[str] = frozenset()
    ) -> None:
        self._most = most
        self._special = special
        self._required = required

    def validator(self, model: type[BaseModel]) -> SchemaValidator:
        """The validator of bodies that are such an object."""
        return made(self.schema(model))

    def schema(self, model: type[BaseModel]) -> cs.CoreSchema:
        """The schema of such an object."""
        found = {}
        for name, field in model.model_fields.items():
            schema = self._special[name] if name in self._special else self._field(model, name)
            if schema is not None:
                required = field.is_required() or name in self._required
                found[field.alias or name] = cs.typed_dict_field(schema, required=required)
        return cs.typed_dict_schema(found, extra_behavior="forbid", strict=True, config=_CONFIG)

    def _field(self, model: type[BaseModel], name: str) -> cs.CoreSchema:
        kind = model.model_fields[name].annotation
        kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
        for one in kinds:
            if get_origin(one) is list and _is_model(get_args(one)[0]):
                return listed(self.schema(get_args(one)[0]), self._most)
            if _is_model(one):
                schema = self.schema(one)
                return cs.nullable_schema(schema) if NoneType in kinds else schema
        return _plain(model, name)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


@cache
def _plain(model: type[BaseModel], name: str) -> cs.CoreSchema:
    """The schema of a field without models in it; what may be left out but not null is not null."""
    field = model.model_fields[name]
    kind: Any = field.annotation
    if LeftOut in get_args(kind):
        kind = Union[tuple(one for one in get_args(kind) if one != LeftOut)]  # noqa: UP007
    return TypeAdapter(Annotated[(kind, *field.metadata)] if field.metadata else kind).core_schema


@lru_cache(maxsize=8)
def ids_validator(most: int) -> SchemaValidator:
    """The validator of a list of at most `most` ids."""
    return Enforced(most, {"ids": listed(TypeAdapter(Name).core_schema, most)}).validator(IdsBody)
