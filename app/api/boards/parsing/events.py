"""Events of a board out of bodies: JSON lists, NDJSON and Arrow become the same columns."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import ValidationError

from app.api import uniform
from app.api.arrow import check_columns, floats, given_but_bad, ids_of, nulls, strings
from app.api.boards.models import BoardEventsQuery, BoardValidators
from app.api.bodies import BodyFormat, validated
from app.api.bulk import Elements, Read, Validator
from app.api.element_errors import ElementError, ElementErrors
from app.api.payloads import Payloads
from app.api.problems import invalid, many
from app.api.values import payload_text
from app.errors import FieldError
from indexes.boards.commands import DELETE, UPDATE, UPSERT, Events
from indexes.core.spaced_ids import SpacedIds

_OPS = {"upsert": UPSERT, "update": UPDATE, "delete": DELETE}
_OP_REASON = "must be 'upsert', 'update' or 'delete'"
_NOTHING: dict[str, float] = {}
_BAD = {"op": "upsert", "id": ""}
_PLAIN = {"op", "id", "values"}
"""The fields of an event that only gives values."""


@dataclass(slots=True)
class ReadEvents(Read[Events]):
    """Events out of a body, and what the response has of their tiles."""

    messages: str


class EventReader:
    """Reads the events of a board with these attributes; payloads of at most `max_payload` bytes."""

    def __init__(self, x_names: tuple[str, ...], y_name: str, validators: BoardValidators, max_payload: int) -> None:
        self._x_names = x_names
        self._y_name = y_name
        self._validators = validators
        self._max_payload = max_payload

    def read(self, kind: BodyFormat, raw: bytes | bytearray, query: BoardEventsQuery) -> ReadEvents:
        """The events of a body; `query` its other fields. Raises the problems 400, 413 and 422."""
        columns = _Columns()
        place, rest, skip = Elements(
            "events",
            self._validators.events,
            self._validators.event,
            columns.errors,
            partial(self._add_items, columns),
            self._check_columns,
            partial(self._add_batch, columns),
            partial(self._add_alike, columns),
        ).take(kind, raw, query)
        messages, together = str(query.messages), query.mode == "batch"
        if kind is BodyFormat.JSON:
            messages, together = rest.get("messages", "full"), rest.get("mode") == "batch"
        command, indexes = columns.command(skip, len(self._x_names))
        command.batch = together
        return ReadEvents(command, skip, place, indexes, columns.errors, messages)

    def single(self, raw: bytes | bytearray) -> tuple[Events, dict[str, Any]]:
        """The event of a body that has one under ``event``, and its other fields. Raises the problems 400 and 422."""
        columns = _Columns()
        body: dict[str, Any] = validated(raw, self._validators.one_event)
        self._add_items(columns, [body.pop("event")])
        if columns.errors:
            raise many([FieldError(f"event.{error.field}", error.reason) for error in columns.errors])
        return columns.command(False, len(self._x_names))[0], body

    def one(self, op: int, id: str, body: dict[str, Any]) -> Events:
        """The event that a request about one object is. Raises the problem 422."""
        if body.get("id", id) != id:
            raise invalid("id", f"is {id!r} in the path")
        values = body.get("values", _NOTHING)
        payload: dict[int, bytes | None] = {}
        if "payload" in body:
            try:
                payload[0] = payload_text(body["payload"], self._max_payload)
            except ValueError as error:
                raise invalid("payload", str(error)) from None
        x = _joined_places([np.array([values.get(name, math.nan)]) for name in self._x_names])
        return Events(np.array([op], np.uint8), [id], x, np.array([values.get(self._y_name, math.nan)]), payload)

    def _check_columns(self, schema: pa.Schema) -> None:
        check_columns(schema, ("op", "id"), (*self._x_names, self._y_name, "payload"))

    def _add_items(self, columns: _Columns, items: list[Any]) -> None:
        """Append validated elements; None is one that is known to be invalid."""
        if columns.errors:
            items = [_BAD if item is None else item for item in items]
        start, y_name, nan = len(columns.ids), self._y_name, math.nan
        ops = bytes([_OPS[item["op"]] for item in items])
        values = [item.get("values", _NOTHING) for item in items]
        columns.ids += [item["id"] for item in items]
        columns.op.append(np.frombuffer(ops, np.uint8))
        x = [np.array([given.get(name, nan) for given in values], np.float64) for name in self._x_names]
        columns.x.append(_joined_places(x))
        columns.y.append(np.array([given.get(y_name, nan) for given in values], np.float64))
        payloads = Payloads(self._max_payload, columns.errors)
        for i in [i for i, item in enumerate(items) if "payload" in item]:
            if ops[i] != DELETE:
                columns.payload[start + i] = payloads.text(start + i, items[i]["payload"])
        if DELETE in ops:
            for i, item in enumerate(items):
                if ops[i] == DELETE and len(item) > 2:
                    for field in sorted(item.keys() & {"values", "payload"}):
                        columns.errors.append(ElementError(start + i, field, "is not taken by a delete"))

    def _add_alike(self, columns: _Columns, raw: bytes | bytearray) -> dict[str, Any] | None:
        """Append the events of a body in which they have one shape, and return its other fields; None, and nothing is
        appended, where they may not have one."""
        found = uniform.cut(raw, "events")
        if found is None or len(found.ids) > self._validators.most:
            return None
        body = _alike(self._validators.events, found.first)
        if body is None:
            return None
        body = body.copy()
        (event,) = body.pop("events")
        op, n = _OPS[event["op"]], len(found.ids)
        if op == DELETE or event.keys() != _PLAIN or event["values"].keys() != found.numbers.keys():
            return None
        nothing = np.full(n, np.nan)
        columns.cut = found.ids
        columns.op.append(np.full(n, op, np.uint8))
        columns.x.append(_joined_places([found.numbers.get(name, nothing) for name in self._x_names]))
        columns.y.append(found.numbers.get(self._y_name, nothing))
        return body

    def _add_batch(self, columns: _Columns, batch: pa.RecordBatch) -> None:
        start, n = len(columns.ids), len(batch)
        op = strings(batch, "op")
        assert op is not None, "the columns were checked"
        ops = np.asarray(pc.index_in(op, value_set=pa.array(list(_OPS))).fill_null(len(_OPS)))
        wrong = columns.errors
        wrong += [ElementError(start + i, "op", _OP_REASON) for i in np.flatnonzero(ops == len(_OPS)).tolist()]
        ids = ids_of(batch, start, wrong, needed=True)
        x: list[npt.NDArray[np.float64]] = []
        for name, into in (*((name, x) for name in self._x_names), (self._y_name, columns.y)):
            values = floats(batch, name)
            if values is None:
                values = np.full(n, np.nan)
            else:
                wrong += given_but_bad(batch, name, values, start, f"values.{name}")
                wrong += _not_taken(start, (ops == DELETE) & ~np.isnan(values), "values")
            into.append(values)
        columns.x.append(_joined_places(x))
        columns.op.append(ops.astype(np.uint8))
        columns.ids += ids.fill_null("").to_pylist()
        payload = strings(batch, "payload")
        if payload is not None:
            given = ~nulls(payload)
            wrong += _not_taken(start, (ops == DELETE) & given, "payload")
            columns.payload |= Payloads(self._max_payload, wrong).column(payload, start, (ops != DELETE) & given)


class _Columns:
    """Columns under construction, a part for each chunk of the body."""

    def __init__(self) -> None:
        self.op: list[npt.NDArray[np.uint8]] = []
        self.ids: list[str] = []
        self.cut: SpacedIds | None = None
        self.x: list[npt.NDArray[np.float64]] = []
        self.y: list[npt.NDArray[np.float64]] = []
        self.payload: dict[int, bytes | None] = {}
        self.errors = ElementErrors()

    def command(self, skip: bool, d: int) -> tuple[Events, list[int] | None]:
        """The command without the elements that have errors, and the places of the others if there were such."""
        op, y = _joined(self.op, np.uint8), _joined(self.y, np.float64)
        x = _joined(self.x, np.float64) if self.x else np.empty(0 if d == 1 else (0, d))
        if not self.errors:
            return Events(op, self.ids if self.cut is None else self.cut, x, y, self.payload, skip), None
        keep = self.errors.valid(len(self.ids))
        payload = {at: self.payload[i] for at, i in enumerate(keep) if i in self.payload}
        return Events(op[keep], [self.ids[i] for i in keep], x[keep], y[keep], payload, skip), keep


@lru_cache(maxsize=64)
def _alike(validator: Validator, first: bytes) -> dict[str, Any] | None:
    """A body of one event, None for a wrong one. Bodies of one form have the same."""
    try:
        body: dict[str, Any] = validator.validate_json(first)
    except ValidationError:
        return None
    return body


def _joined(pieces: list[Any], kind: type[Any]) -> Any:
    if len(pieces) == 1:
        return pieces[0]
    return np.concatenate(pieces) if pieces else np.empty(0, kind)


def _joined_places(columns: list[npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
    return columns[0] if len(columns) == 1 else np.column_stack(columns)


def _not_taken(start: int, where: npt.NDArray[np.bool_], field: str) -> list[ElementError]:
    return [ElementError(start + i, field, "is not taken by a delete") for i in np.flatnonzero(where).tolist()]
