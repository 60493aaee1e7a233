"""Events in columns: the columns of dimensions, and their values for matching.

They are those of the Arrow bodies of a match. A dimension is a column of its name, or the ends of a range in NAME_min
and NAME_max, or all three, of which each event uses the value or the range. Null means that the event lacks the
dimension; an end of a range that is null is unbounded. A dimension named like the end of another has its own column.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from pyarrow import types

from indexes.core.arrays import INF, Floats
from indexes.matchers.kernels.table import MAX

LARGEST = 1e300
"""The greatest absolute value in requests."""


class EventError(ValueError):
    """Events that cannot be matched; the message names the file and the column."""


class Columns(NamedTuple):
    """The columns of a dimension; None if a column is missing."""

    number: str | None
    lo: str | None
    hi: str | None


def columns_of(file: str, schema: pa.Schema, dimensions: Sequence[str]) -> list[Columns]:
    """The columns of each dimension in a file. Raises EventError if there are none, or they are not numeric."""
    found = []
    for name in dimensions:
        ends = (f"{name}_{end}" for end in ("min", "max"))
        own = [name, *(None if end in dimensions else end for end in ends)]
        columns = Columns(*(column if column in schema.names else None for column in own))
        if columns == Columns(None, None, None):
            raise EventError(f"{file} has no column {name}, nor {name}_min and {name}_max")
        for column in filter(None, columns):
            _check_type(file, schema, column)
        found.append(columns)
    return found


def _check_type(file: str, schema: pa.Schema, column: str) -> None:
    if len(schema.get_all_field_indices(column)) > 1:
        raise EventError(f"{file} has several columns {column}")
    kind = schema.field(column).type
    if not (types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind) or types.is_null(kind)):
        raise EventError(f"{file}: the column {column} must be of numbers, not {kind}")


def read_events(file: str, table: pa.Table, dimensions: Sequence[str], first: int) -> Floats:
    """The events of some rows of a file, whose numbers begin with `first`: shape (n, 2d), a pair a, b for each
    dimension. Raises EventError for an invalid event."""
    columns = columns_of(file, table.schema, dimensions)
    events = np.empty((len(table), 2 * len(columns)))
    for j, of in enumerate(columns):
        a, b = events[:, 2 * j], events[:, 2 * j + 1]
        number, lo, hi = (_numbers(file, table, column, first) for column in of)
        ranged = ~(np.isnan(lo) & np.isnan(hi))
        for i in np.flatnonzero(ranged & ~np.isnan(number))[:1].tolist():
            raise EventError(f"{file}: {of.number} of event {first + i} is a number and a range")
        lacks = np.isnan(number) & ~ranged
        a[:] = np.where(ranged, np.where(np.isnan(lo), -MAX, lo), np.where(lacks, INF, number))
        b[:] = np.where(ranged, np.where(np.isnan(hi), MAX, hi), np.where(lacks, -INF, number))
        for i in np.flatnonzero(ranged & (a > b))[:1].tolist():
            raise EventError(f"{file}: {of.lo} of event {first + i} is {lo[i]}, more than {of.hi}, which is {hi[i]}")
    return events


def _numbers(file: str, table: pa.Table, column: str | None, first: int) -> Floats:
    """A numeric column, NaN for null or a missing column."""
    if column is None:
        return np.full(len(table), np.nan)
    numbers: Floats = table[column].cast(pa.float64(), safe=False).to_numpy()
    if not (np.abs(numbers) <= LARGEST).all():
        given = table[column].is_valid().to_numpy()
        for i in np.flatnonzero(given & ~(np.abs(numbers) <= LARGEST))[:1].tolist():
            reason = f"must be at most {LARGEST:g} in size" if np.isfinite(numbers[i]) else "must be finite"
            raise EventError(f"{file}: {column} of event {first + i} is {numbers[i]} and {reason}")
    return numbers
