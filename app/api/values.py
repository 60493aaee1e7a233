"""Numbers, names and payloads of requests: their types and checks."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic_core import to_json

from app.api.problems import ATTRIBUTE_PATTERN, NAME_PATTERN
from app.errors import FieldError

LARGEST = 1e300
MOST_NESTED = 128
"""Levels to which a payload may be nested. The JSON parser takes 200 in a whole body, so that every accepted payload
fits into any body."""

NAME_LENGTH = 128
NAME_REASON = "must be 1 to 128 of A-Z a-z 0-9 . _ : - and not be . or .."

Number = Annotated[float, Field(strict=True, allow_inf_nan=False, ge=-LARGEST, le=LARGEST)]
"""A finite float64 of at most `LARGEST` in size; true and "1" are not numbers."""

Name = Annotated[str, StringConstraints(strict=True, min_length=1, max_length=NAME_LENGTH, pattern=NAME_PATTERN)]
"""A name or id."""

Attribute = Annotated[str, StringConstraints(strict=True, pattern=ATTRIBUTE_PATTERN)]
"""The name of an attribute."""

NUMBER_TEXT = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
"""A number in a query, written as JSON writes it."""

_NAME = r"^[A-Za-z0-9._:-]{1,128}$"


class Strict(BaseModel):
    """A body: unknown fields are refused and nothing is converted."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


def payload_text(value: Any, limit: int) -> bytes | None:
    """A payload as compact JSON text, None for null.

    Raises ValueError with the reason when it is longer than `limit` bytes, nested deeper than `MOST_NESTED`, or holds a
    number that is not finite.
    """
    if value is None:
        return None
    text = to_json(value, inf_nan_mode="constants")
    if len(text) > limit:
        raise ValueError(f"must be at most {limit} bytes of compact JSON, not {len(text)}")
    if text.count(b"[") + text.count(b"{") > MOST_NESTED and _too_deep(value):
        raise ValueError(f"must be nested at most {MOST_NESTED} levels deep")
    if (b"Infinity" in text or b"NaN" in text) and not _finite(value):
        raise ValueError("must not hold a number beyond the range of float64")
    return text


def _too_deep(value: Any) -> bool:
    """Whether a value of JSON is nested deeper than `MOST_NESTED`."""
    level, depth = [value] if isinstance(value, dict | list) else [], 0
    while level and depth <= MOST_NESTED:
        within = (one.values() if isinstance(one, dict) else one for one in level)
        level = [inner for values in within for inner in values if isinstance(inner, dict | list)]
        depth += 1
    return depth > MOST_NESTED


def _finite(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, dict):
        return all(map(_finite, value.values()))
    return not isinstance(value, list) or all(map(_finite, value))


_IS_NAME = re.compile(NAME_PATTERN.replace("$", r"\Z"))


def is_name(text: str) -> bool:
    """Whether a string can be a name or id."""
    if len(text) > NAME_LENGTH:
        return False
    # Most are letters and digits alone.
    return (text.isascii() and text.isalnum()) or _IS_NAME.match(text) is not None


def bad_attributes(field: str, names: Sequence[str], reserved: Collection[str] = ()) -> list[FieldError]:
    """What is wrong with the attributes that a configuration lists in this field: none is reserved or repeated."""
    errors = []
    for at, name in enumerate(names):
        if name in reserved:
            errors.append(FieldError(f"{field}[{at}]", f"must not be {name!r}"))
        elif name in names[:at]:
            errors.append(FieldError(f"{field}[{at}]", "is listed twice"))
    return errors


def bad_names(names: pa.StringArray) -> npt.NDArray[np.int64]:
    """The indexes of the strings that are no names; nulls are left to the caller."""
    dots = pc.is_in(names, value_set=pa.array([".", ".."]))
    good = pc.and_(pc.match_substring_regex(names, _NAME), pc.invert(dots))
    return np.flatnonzero(~np.asarray(good.fill_null(True)))


def number_reason(value: float) -> str:
    """Why a value is no number that requests may carry."""
    return f"must be at most {LARGEST:g} in size" if math.isfinite(value) else "must be finite"
