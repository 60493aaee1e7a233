"""What the bodies and answers of all resources have in common, and what validators of them are made of.

Elements are validated straight from JSON text by validators that know a resource's attributes by name: several times
faster than a model for each element.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.json_schema import SkipJsonSchema
from pydantic_core import CoreConfig, SchemaValidator
from pydantic_core import core_schema as cs

from app.api.paging import Query
from app.api.values import LARGEST, NAME_LENGTH, Name, Number, Strict
from app.problems import NAME_PATTERN

Ignored = Annotated[Any, Field(description="Ignored: what GET adds may be sent back.")]
OnError = Literal["refuse", "skip"]
Range = Annotated[list[Number | None], Field(min_length=2, max_length=2)]

LeftOut = SkipJsonSchema[None]
"""What stands for a field that may be left out and may not be null."""

Seconds = Annotated[float | None, Field(strict=True, gt=0, allow_inf_nan=False)]
"""A time to live."""


class NoQuery(Query):
    """Where no parameter is taken."""


class OnErrorQuery(Query):
    """What goes with NDJSON and Arrow bodies."""

    on_error: OnError = "refuse"


class Answer(BaseModel):
    """An answer."""

    model_config = ConfigDict(extra="allow", defer_build=True)


class ElementProblem(Answer):
    """Why an element was skipped."""

    index: int
    field: str
    reason: str


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


# --- what validators are made of -------------------------------------------------------------------------------------

_CONFIG = CoreConfig(strict=True)
ANY = cs.any_schema()
NAME = cs.str_schema(min_length=1, max_length=NAME_LENGTH, pattern=NAME_PATTERN, strict=True)
NUMBER = cs.float_schema(strict=True, allow_inf_nan=False, ge=-LARGEST, le=LARGEST)
ENDS = cs.list_schema(cs.nullable_schema(NUMBER), min_length=2, max_length=2, strict=True)
SECONDS = cs.float_schema(strict=True, allow_inf_nan=False, gt=0, le=LARGEST)
ON_ERROR = cs.literal_schema(["refuse", "skip"])


def fields(required: Mapping[str, cs.CoreSchema], optional: Mapping[str, cs.CoreSchema]) -> cs.CoreSchema:
    """An object with these fields and no others."""
    found = {name: cs.typed_dict_field(schema) for name, schema in required.items()}
    found |= {name: cs.typed_dict_field(schema, required=False) for name, schema in optional.items()}
    return cs.typed_dict_schema(found, extra_behavior="forbid", strict=True)


def listed(element: cs.CoreSchema, most: int) -> cs.CoreSchema:
    """A list of at most so many."""
    return cs.list_schema(element, max_length=most, strict=True)


def made(schema: cs.CoreSchema) -> SchemaValidator:
    """The validator of a schema; it converts nothing."""
    return SchemaValidator(schema, _CONFIG)


@lru_cache(maxsize=8)
def ids_validator(most: int) -> SchemaValidator:
    """The validator of a list of at most `most` ids."""
    return made(fields({"ids": listed(NAME, most)}, {}))
