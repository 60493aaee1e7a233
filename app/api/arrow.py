"""Columns out of Arrow batches, checked value by value."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from app.api.element_errors import ElementError, ElementErrors
from app.api.problems import many
from app.api.values import LARGEST, NAME_REASON, bad_names, number_reason
from app.errors import FieldError

Float64 = npt.NDArray[np.float64]


def check_columns(schema: pa.Schema, needed: Iterable[str], known: Iterable[str]) -> None:
    """Refuse, with the problem 422, a table that lacks a column, has one twice, or has one that is not known."""
    allowed = set(known) | set(needed)
    times = Counter(schema.names)
    errors = [FieldError(name, "is a column that is needed") for name in needed if name not in times]
    for name in times:
        if name not in allowed:
            errors.append(FieldError(name[:80], "is not a known column"))
        elif times[name] > 1:
            errors.append(FieldError(name, "is there more than once"))
    if errors:
        raise many(errors)


def strings(batch: pa.RecordBatch, name: str) -> pa.StringArray | None:
    """A column of text; None when it is not there. Raises the problem 422 for another type."""
    column = _column(batch, name)
    if column is None:
        return None
    given = column.type
    if pt.is_dictionary(given):
        column = _converted(name, "text", given, column.dictionary_decode)
    if pt.is_null(column.type) or pt.is_large_string(column.type) or pt.is_string_view(column.type):
        column = _converted(name, "text", given, partial(column.cast, pa.string()))
    if not pt.is_string(column.type):
        raise many([FieldError(name, f"must be a column of text, not {column.type}")])
    return column


def floats(batch: pa.RecordBatch, name: str) -> Float64 | None:
    """A column of numbers, NaN where it is null; None when it is not there. Raises the problem 422 for another type."""
    column = _column(batch, name)
    if column is None:
        return None
    kind = column.type
    if not (pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind) or pt.is_null(kind)):
        raise many([FieldError(name, f"must be a column of numbers, not {kind}")])
    numbers = _converted(name, "numbers", kind, partial(column.cast, pa.float64(), safe=False))
    out: Float64 = numbers.to_numpy(zero_copy_only=False)
    if column.null_count:
        out = np.where(nulls(column), np.nan, out)
    return out


def integers(batch: pa.RecordBatch, name: str) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]] | None:
    """A column of whole numbers, and where it is null; None when it is not there. Raises 422 for another type."""
    column = _column(batch, name)
    if column is None:
        return None
    if not (pt.is_integer(column.type) or pt.is_null(column.type)) or column.type == pa.uint64():
        raise many([FieldError(name, f"must be a column of integers, not {column.type}")])
    filled = column.cast(pa.int64()).fill_null(0)
    return filled.to_numpy(zero_copy_only=False), nulls(column)


def _converted(name: str, what: str, given: pa.DataType, convert: Callable[[], pa.Array]) -> pa.Array:
    """The result of `convert`. Raises the problem 422 where pyarrow cannot convert."""
    try:
        return convert()
    except pa.ArrowException:
        raise many([FieldError(name, f"must be a column of {what}, not {given}")]) from None


def nulls(column: pa.Array) -> npt.NDArray[np.bool_]:
    """Where a column is null."""
    return np.asarray(pc.is_null(column))


def given_but_bad(batch: pa.RecordBatch, name: str, values: Float64, start: int, field: str) -> list[ElementError]:
    """The errors of a column's numbers: NaN, infinite or too large where they are not null."""
    if np.all(np.abs(values) <= LARGEST):
        return []
    bad = np.flatnonzero(~(np.abs(values) <= LARGEST) & ~nulls(_column(batch, name)))
    return [ElementError(start + i, field, number_reason(values[i])) for i in bad.tolist()]


def ends(batch: pa.RecordBatch, name: str, start: int, field: str, wrong: ElementErrors) -> tuple[Float64, Float64]:
    """Both ends of an interval, the columns ``<name>_min`` and ``<name>_max``: infinite where they are null or not
    there. What is wrong with a batch whose first row has the index `start` is noted for `field`."""
    found = []
    for place, (end, unbounded) in enumerate((("min", -np.inf), ("max", np.inf))):
        values = floats(batch, f"{name}_{end}")
        if values is None:
            values = np.full(len(batch), np.nan)
        else:
            wrong += given_but_bad(batch, f"{name}_{end}", values, start, f"{field}[{place}]")
        found.append(np.where(np.isnan(values), unbounded, values))
    return found[0], found[1]


def add_ttl(batch: pa.RecordBatch, start: int, wrong: ElementErrors, ttl: dict[int, float]) -> None:
    """Note the times to live of a batch whose first row has the index `start`, and what is wrong with them."""
    seconds = floats(batch, "ttl")
    if seconds is not None:
        wrong += given_but_bad(batch, "ttl", seconds, start, "ttl")
        for i in np.flatnonzero(~np.isnan(seconds)).tolist():
            if seconds[i] <= 0:
                wrong.append(ElementError(start + i, "ttl", "must be greater than 0"))
            ttl[start + i] = float(seconds[i])


def ids_of(
    batch: pa.RecordBatch, start: int, wrong: ElementErrors, name: str = "id", needed: bool = False
) -> pa.StringArray:
    """The column of ids or names of a batch, null where they are left out. What is wrong is noted."""
    ids = strings(batch, name)
    if ids is None:
        return pa.nulls(len(batch), pa.string())
    if needed:
        wrong += [ElementError(start + i, name, "is required") for i in np.flatnonzero(nulls(ids)).tolist()]
    wrong += [ElementError(start + i, name, NAME_REASON) for i in bad_names(ids).tolist()]
    return ids


def points_of(batch: pa.RecordBatch, start: int, wrong: ElementErrors) -> Float64:
    """The places of a batch, the columns ``x`` and ``y`` as (n, 2). What is wrong is noted."""
    found = []
    for j, name in enumerate(("x", "y")):
        values = floats(batch, name)
        assert values is not None, "the columns were checked"
        field = f"location[{j}]"
        wrong += given_but_bad(batch, name, values, start, field)
        missing = np.flatnonzero(nulls(_column(batch, name))).tolist()
        wrong += [ElementError(start + i, field, "is required") for i in missing]
        found.append(values)
    return np.column_stack(found) + 0.0


def _column(batch: pa.RecordBatch, name: str) -> pa.Array | None:
    index = batch.schema.get_field_index(name)
    return None if index < 0 else batch.column(index)
