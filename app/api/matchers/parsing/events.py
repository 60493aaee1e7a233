"""Events of a match out of bodies: JSON lists, NDJSON and Arrow become the same columns.

Values are checked by column. Only where something of a column is no plain number is it looked at cell by cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from app.api.arrow import check_columns, floats, given_but_bad, nulls, strings
from app.api.bodies import BodyFormat
from app.api.bulk import Elements, Read
from app.api.element_errors import ElementError, ElementErrors
from app.api.matchers.models import K, MatcherValidators, MatchQuery
from app.api.payloads import Payloads
from app.api.values import LARGEST, number_reason
from indexes.core.arrays import INF
from indexes.matchers.commands import Match
from indexes.matchers.config import MatcherConfig
from indexes.matchers.forms import REVERSED
from indexes.matchers.kernels.table import MAX

Float64 = npt.NDArray[np.float64]

_NUMBERS = frozenset({float, int})
_CELLS = frozenset({float, int, type(None)})
_BAD: dict[str, Any] = {"values": {}}
_ENDS = "must be a number or a list of two"


@dataclass(slots=True)
class ReadMatch(Read[Match]):
    """Events out of a body, and whether the streams of the winners receive them."""

    notify: bool


class EventReader:
    """Reads the events of a matcher with this configuration; `max_k` is the largest k, and a payload has at most
    `max_payload` bytes."""

    def __init__(self, config: MatcherConfig, validators: MatcherValidators, max_k: int, max_payload: int) -> None:
        self._names = config.dimensions
        self._validators = validators
        self._k = min(K, max_k)
        self._max_payload = max_payload

    def read(self, kind: BodyFormat, raw: bytes | bytearray, query: MatchQuery) -> ReadMatch:
        """The events of a body; `query` its other fields. Raises the problems 400, 413 and 422."""
        columns = _Columns()
        place, rest, skip = Elements(
            "events",
            self._validators.match,
            self._validators.event,
            columns.errors,
            partial(self._add_items, columns),
            self._check_columns,
            partial(self._add_batch, columns),
        ).take(kind, raw, query)
        k, explain, notify = query.k or self._k, query.explain, query.notify
        if kind is BodyFormat.JSON:
            k, explain, notify = rest.get("k", self._k), rest.get("explain", False), rest.get("notify", False)
        events, payload, indexes = columns.kept(2 * len(self._names))
        return ReadMatch(Match(events, k, explain, payload), skip, place, indexes, columns.errors, notify)

    def _check_columns(self, schema: pa.Schema) -> None:
        ends = (f"{name}_{end}" for name in self._names for end in ("min", "max"))
        check_columns(schema, (), (*self._names, *ends, "payload"))

    def _add_items(self, columns: _Columns, items: list[Any]) -> None:
        """Append validated elements; None is one that is known to be invalid."""
        start, wrong = columns.count, columns.errors
        if wrong:
            items = [_BAD if item is None else item for item in items]
        events = np.empty((len(items), 2 * len(self._names)))
        values: list[dict[str, Any]] = [item["values"] for item in items]
        for j, name in enumerate(self._names):
            events[:, 2 * j], events[:, 2 * j + 1] = _column([given.get(name) for given in values], name, start, wrong)
        payloads = Payloads(self._max_payload, wrong)
        columns.keep_payloads(
            {
                index: payloads.text(index, item["payload"])
                for index, item in enumerate(items, start)
                if item.get("payload") is not None
            }
        )
        columns.add(events)

    def _add_batch(self, columns: _Columns, batch: pa.RecordBatch) -> None:
        """Append rows. A dimension is a column of its name, or the ends of a range; a dimension may be called as
        another's end, and then the column is the dimension's."""
        start, wrong, n = columns.count, columns.errors, len(batch)
        events = np.empty((n, 2 * len(self._names)))
        for j, name in enumerate(self._names):
            exact = floats(batch, name)
            a, b = np.full(n, INF), np.full(n, -INF)
            if exact is not None:
                wrong += given_but_bad(batch, name, exact, start, f"values.{name}")
                there = ~np.isnan(exact)
                a[there] = b[there] = exact[there]
            ends = [self._end(batch, name, end, start, wrong) for end in ("min", "max")]
            if any(end is not None for end in ends):
                lo, hi = (np.full(n, np.nan) if end is None else end for end in ends)
                there = ~(np.isnan(lo) & np.isnan(hi))
                if exact is not None:
                    both = np.flatnonzero(there & ~np.isnan(exact)).tolist()
                    wrong += [ElementError(start + i, f"values.{name}", "is a number and a range") for i in both]
                a[there], b[there] = np.where(np.isnan(lo), -MAX, lo)[there], np.where(np.isnan(hi), MAX, hi)[there]
                reversed_ = np.flatnonzero(there & (a > b)).tolist()
                wrong += [ElementError(start + i, f"values.{name}", REVERSED) for i in reversed_]
            events[:, 2 * j], events[:, 2 * j + 1] = a, b
        texts = strings(batch, "payload")
        if texts is not None:
            columns.keep_payloads(Payloads(self._max_payload, wrong).column(texts, start, ~nulls(texts)))
        columns.add(events)

    def _end(self, batch: pa.RecordBatch, name: str, end: str, start: int, wrong: ElementErrors) -> Float64 | None:
        column = f"{name}_{end}"
        values = None if column in self._names else floats(batch, column)
        if values is not None:
            place = 0 if end == "min" else 1
            wrong += given_but_bad(batch, column, values, start, f"values.{name}[{place}]")
        return values


class _Columns:
    """Columns under construction, a part for each chunk of the body."""

    def __init__(self) -> None:
        self.count = 0
        self.payload: dict[int, bytes] = {}
        self.errors = ElementErrors()
        self._events: list[Float64] = []

    def add(self, events: Float64) -> None:
        self.count += len(events)
        self._events.append(events)

    def keep_payloads(self, texts: dict[int, bytes | None]) -> None:
        self.payload |= {index: text for index, text in texts.items() if text is not None}

    def kept(self, width: int) -> tuple[Float64, dict[int, bytes], list[int] | None]:
        """The events and payloads without those that have errors, and the places of the others if there were such."""
        events = np.concatenate(self._events) if self._events else np.empty((0, width))
        if not self.errors:
            return events, self.payload, None
        keep = self.errors.valid(self.count)
        payload = {at: self.payload[i] for at, i in enumerate(keep) if i in self.payload}
        return events[keep], payload, keep


def _column(cells: Sequence[Any], name: str, start: int, wrong: ElementErrors) -> tuple[Any, Any]:
    """The values of a dimension as two columns of ends, and what is wrong with which."""
    kinds = set(map(type, cells))
    if kinds <= _CELLS:
        try:
            values = np.array(cells, np.float64)
        except OverflowError:
            return _cell_by_cell(cells, name, start, wrong)
        lacking = np.isnan(values) if not kinds <= _NUMBERS else None
        if lacking is None:
            if bool(np.all(np.abs(values) <= LARGEST)):
                return values, values
        elif bool(np.all((np.abs(values) <= LARGEST) | lacking)):
            return np.where(lacking, INF, values), np.where(lacking, -INF, values)
    return _cell_by_cell(cells, name, start, wrong)


def _cell_by_cell(cells: Sequence[Any], name: str, start: int, wrong: ElementErrors) -> tuple[Any, Any]:
    a, b = np.full(len(cells), INF), np.full(len(cells), -INF)
    field = f"values.{name}"
    for i, cell in enumerate(cells):
        if cell is None:
            continue
        if not isinstance(cell, list):
            reason = _why_not(cell, _ENDS)
            if reason is None:
                a[i] = b[i] = cell
            else:
                wrong.append(ElementError(start + i, field, reason))
        elif len(cell) != 2:
            wrong.append(ElementError(start + i, field, _ENDS))
        else:
            reasons = [None if end is None else _why_not(end, "must be a number") for end in cell]
            for place, reason in enumerate(reasons):
                if reason is not None:
                    wrong.append(ElementError(start + i, f"{field}[{place}]", reason))
            if reasons == [None, None]:
                a[i], b[i] = -MAX if cell[0] is None else cell[0], MAX if cell[1] is None else cell[1]
                if a[i] > b[i]:
                    wrong.append(ElementError(start + i, field, REVERSED))
    return a, b


def _why_not(value: Any, otherwise: str) -> str | None:
    """Why a value of JSON is no number that requests may carry."""
    if type(value) not in _NUMBERS:
        return otherwise
    if -LARGEST <= value <= LARGEST:
        return None
    return number_reason(value) if isinstance(value, float) else f"must be at most {LARGEST:g} in size"
