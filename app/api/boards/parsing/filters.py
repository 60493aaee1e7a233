"""Filters of subscriptions out of bodies: what their payload must have in a board's indexed fields."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic_core import from_json

from app.api.arrow import nulls, strings
from app.api.element_errors import ElementError, ElementErrors
from app.api.problems import many
from app.errors import FieldError
from indexes.boards.commands import Filter
from indexes.boards.filters import text_of

LONGEST = 1024
"""Characters of a value that is filtered for, as JSON."""

_ONE_VALUE = "must be a string, a number, a boolean or null"
_NOT_FINITE = "must be a number in the range of float64"
_TOO_LONG = f"must be at most {LONGEST} characters as JSON"


class FilterReader:
    """Reads the filters of subscriptions of a board with these indexed fields."""

    def __init__(self, indexed: tuple[str, ...]) -> None:
        self._indexed = indexed
        self.columns = [f"where.{name}" for name in indexed]
        """The columns of Arrow batches, and the parameters of queries."""

    def one(self, said: Mapping[str, Any]) -> Filter:
        """The filter that a body says. Raises the problem 422."""
        errors: list[FieldError] = []
        where = self._filter(said, errors)
        if errors:
            raise many(errors)
        return where

    def asked(self, given: Mapping[str, str], errors: list[FieldError]) -> Filter:
        """The filter in the parameters of a query: JSON, or a string without quotes."""
        named = zip(self._indexed, self.columns, strict=True)
        return self._filter({name: _bare(given[column]) for name, column in named if column in given}, errors)

    def add(self, items: Sequence[dict[str, Any]], start: int, errors: ElementErrors) -> tuple[pa.StringArray, ...]:
        """The filters of validated elements, the first of which is number `start` of the body."""
        wanted: list[list[str | None]] = [[None] * len(items) for _ in self._indexed]
        for i, item in enumerate(items if self._indexed else ()):
            if item.get("where"):
                wrong: list[FieldError] = []
                for column, text in zip(wanted, self._filter(item["where"], wrong), strict=True):
                    column[i] = text
                errors += [ElementError(start + i, *error) for error in wrong]
        return tuple(pa.array(column, pa.string()) for column in wanted)

    def add_batch(self, batch: pa.RecordBatch, start: int, errors: ElementErrors) -> tuple[pa.StringArray, ...]:
        """The filters of an Arrow batch, values as JSON text, whose first row is number `start` of the body."""
        return tuple(self._column(batch, name, start, errors) for name in self.columns)

    def _column(self, batch: pa.RecordBatch, name: str, start: int, errors: ElementErrors) -> pa.StringArray:
        column = strings(batch, name)
        if column is None:
            return pa.nulls(len(batch), pa.string())
        given = column.dictionary_encode()
        texts, wrong = [], dict[int, str]()
        for at, text in enumerate(given.dictionary.to_pylist()):
            try:
                texts.append(_text(from_json(text, allow_inf_nan=False)))
            except _Bad as error:
                texts.append("null")
                wrong[at] = str(error)
            except ValueError as error:
                texts.append("null")
                wrong[at] = f"is not JSON: {error}"
        if wrong:
            rows = np.flatnonzero(~nulls(column)).tolist()
            at_row = dict(zip(rows, given.indices.drop_null().to_pylist(), strict=True))
            errors += [ElementError(start + i, name, wrong[at]) for i, at in at_row.items() if at in wrong]
        return pa.array(texts, pa.string()).take(given.indices)

    def _filter(self, said: Mapping[str, Any], errors: list[FieldError]) -> Filter:
        wanted: list[str | None] = [None] * len(self._indexed)
        for at, name in enumerate(self._indexed):
            if name in said:
                try:
                    wanted[at] = _text(said[name])
                except _Bad as error:
                    errors.append(FieldError(f"where.{name}", str(error)))
        return tuple(wanted) if said else ()


class _Bad(Exception):
    """Why a value cannot be filtered for."""


def _text(value: Any) -> str:
    if isinstance(value, (list, dict)):
        raise _Bad(_ONE_VALUE)
    if isinstance(value, float) and not math.isfinite(value):
        raise _Bad(_NOT_FINITE)
    text = text_of(value)
    if len(text) > LONGEST:
        raise _Bad(_TOO_LONG)
    return text


def _bare(text: str) -> Any:
    """What a parameter means: the value of a JSON text, or else the text.

    >>> _bare("IAH"), _bare('"7"'), _bare("7"), _bare("null")
    ('IAH', '7', 7, None)
    """
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        return text
