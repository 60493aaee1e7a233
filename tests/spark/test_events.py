"""Which columns are events, and what is said of those that are not."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from indexes.matchers.config import MatcherConfig
from spark_jobs.history.events import EventError, columns_of, read_events
from tests.spark.histories import history, values
from tests.unit.matchers.direct import events_of

DIMENSIONS = ("age", "credit", "zip")


def read(table: pa.Table, *dimensions: str, first: int = 0) -> np.ndarray[Any, Any]:
    return read_events("visits.parquet", table, dimensions or DIMENSIONS, first)


def test_events_in_columns_are_those_by_name() -> None:
    table = history(1, 300, DIMENSIONS)
    named = [dict(zip(DIMENSIONS, event, strict=True)) for event in values(table, DIMENSIONS)]
    expected, faults = events_of(MatcherConfig(DIMENSIONS, "exact"), named)
    assert not faults
    np.testing.assert_array_equal(read(table), expected)


@pytest.mark.parametrize("kind", [pa.int8(), pa.uint64(), pa.float32(), pa.float16(), pa.decimal128(9, 3)], ids=str)
def test_all_numbers_are_taken(kind: pa.DataType) -> None:
    given: list[Any] = [None if n is None else Decimal(n) if pa.types.is_decimal(kind) else n for n in (7, None, 3)]
    if kind == pa.float16():
        given = [None if n is None else np.float16(n) for n in given]
    found = read(pa.table({"age": pa.array(given, kind)}), "age")
    np.testing.assert_array_equal(found, [[7, 7], [np.inf, -np.inf], [3, 3]])


def test_a_column_of_nulls_is_a_dimension_that_no_event_has() -> None:
    found = read(pa.table({"age": pa.nulls(2)}), "age")
    np.testing.assert_array_equal(found, [[np.inf, -np.inf]] * 2)


def test_a_dimension_may_be_called_as_another_s_end() -> None:
    table = pa.table({"age": [1.0], "age_min": [2.0]})
    np.testing.assert_array_equal(read(table, "age", "age_min"), [[1, 1, 2, 2]])
    with pytest.raises(EventError, match=r"^visits.parquet: age of event 0 is a number and a range$"):
        read(table, "age")


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"agee": [1.0]}, "visits.parquet has no column age, nor age_min and age_max"),
        ({"age": ["1"]}, "visits.parquet: the column age must be of numbers, not string"),
        ({"age_max": [True]}, "visits.parquet: the column age_max must be of numbers, not bool"),
    ],
)
def test_columns_that_cannot_be_are_named(columns: dict[str, list[Any]], told: str) -> None:
    with pytest.raises(EventError) as error:
        columns_of("visits.parquet", pa.table(columns).schema, ("age",))
    assert str(error.value) == told


def test_a_column_that_is_there_twice_is_refused() -> None:
    with pytest.raises(EventError, match="several columns age"):
        columns_of("visits.parquet", pa.schema([("age", pa.int8()), ("age", pa.int8())]), ("age",))


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"age": [1.0, float("nan")]}, "age of event 11 is nan and must be finite"),
        ({"age": [1.0, float("-inf")]}, "age of event 11 is -inf and must be finite"),
        ({"age_min": [1.0, 2e300]}, "age_min of event 11 is 2e+300 and must be at most 1e+300 in size"),
        ({"age_min": [1.0, 4.0], "age_max": [1.0, 3.0]}, "age_min of event 11 is 4.0, more than age_max, which is 3.0"),
        ({"age": [None, 1], "age_max": [1.0, 3.0]}, "age of event 11 is a number and a range"),
    ],
)
def test_an_event_that_cannot_be_is_named(columns: dict[str, list[Any]], told: str) -> None:
    with pytest.raises(EventError) as error:
        read(pa.table(columns), "age", first=10)
    assert str(error.value) == f"visits.parquet: {told}"
