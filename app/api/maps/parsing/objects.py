"""Objects of a map out of bodies: JSON lists, NDJSON and Arrow become the same columns."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from app.api.arrow import check_columns, floats, given_but_bad, ids_of, nulls, strings
from app.api.bodies import BodyFormat
from app.api.bulk import Elements, Place, Read
from app.api.element_errors import ElementError, ElementErrors
from app.api.maps.models import MapValidators
from app.api.models import OnErrorQuery
from app.api.payloads import Payloads
from app.api.problems import invalid, many
from app.errors import FieldError
from indexes.maps.commands import PutObjects
from indexes.maps.config import MapConfig

Float64 = npt.NDArray[np.float64]

_BAD: dict[str, Any] = {"id": ""}
_NOWHERE = [np.nan, np.nan]
_NOTHING: dict[str, float] = {}


class ObjectReader:
    """Reads the objects of a map with this configuration; payloads of at most `max_payload` bytes."""

    def __init__(self, config: MapConfig, validators: MapValidators, max_payload: int) -> None:
        self._names = config.names
        self._validators = validators
        self._max_payload = max_payload

    def read(self, kind: BodyFormat, raw: bytes | bytearray, query: OnErrorQuery) -> Read[PutObjects]:
        """The objects of a body; `query` its other fields. Raises the problems 400, 413 and 422."""
        columns = _Columns()
        place, _, skip = Elements(
            "objects",
            self._validators.objects,
            self._validators.object,
            columns.errors,
            partial(self._add_items, columns),
            self._check_columns,
            partial(self._add_batch, columns),
        ).take(kind, raw, query)
        command, indexes = columns.command(skip, len(self._names))
        return Read(command, skip, place, indexes, columns.errors)

    def read_items(self, items: list[Any]) -> Read[PutObjects]:
        """The objects of bodies that are validated already, one of each; those that are wrong are skipped."""
        if not any("payload" in item for item in items):
            command = PutObjects([item["id"] for item in items], *self._numbers_of(items), skip=True)
            return Read(command, True, Place("objects"), None, ElementErrors())
        columns = _Columns()
        self._add_items(columns, items)
        command, indexes = columns.command(True, len(self._names))
        return Read(command, True, Place("objects"), indexes, columns.errors)

    def one(self, id: str, body: dict[str, Any], must_exist: bool) -> PutObjects:
        """The object that a PUT or a PATCH says. Raises the problem 422."""
        if body.get("id", id) != id:
            raise invalid("id", f"is {id!r} in the path")
        columns = _Columns()
        self._add_items(columns, [{**body, "id": id}])
        if columns.errors:
            raise many([FieldError(error.field, error.reason) for error in columns.errors])
        command, _ = columns.command(False, len(self._names))
        command.must_exist = must_exist
        return command

    def _add_items(self, columns: _Columns, items: list[Any]) -> None:
        """Append validated elements; None is one that is known to be invalid."""
        start, wrong = columns.count, columns.errors
        if wrong:
            items = [_BAD if item is None else item for item in items]
        points, values = self._numbers_of(items)
        payloads = Payloads(self._max_payload, wrong)
        columns.payload |= {
            index: payloads.text(index, item["payload"]) for index, item in enumerate(items, start) if "payload" in item
        }
        columns.add(pa.array([item["id"] for item in items], pa.string()), points, values)

    def _numbers_of(self, items: list[Any]) -> tuple[Float64, Float64]:
        """The places and values of validated elements, NaN where they have none; 0 has no sign."""
        n, names, nan = len(items), self._names, np.nan
        numbers: list[float] = []
        for item in items:
            numbers += item.get("location", _NOWHERE)
        for item in items:
            given = item.get("values", _NOTHING)
            numbers += [given.get(name, nan) for name in names]
        # One array for both: most often there is one element, of which each call for an array takes longer than it.
        both = np.array(numbers, np.float64)
        both += 0.0
        return both[: 2 * n].reshape(n, 2), both[2 * n :].reshape(n, len(names))

    def _check_columns(self, schema: pa.Schema) -> None:
        check_columns(schema, ("id",), ("x", "y", *self._names, "payload"))
        doubtful = [name for name in ("x", "y") if name in self._names and name in schema.names]
        if doubtful:
            reason = "is a coordinate and an attribute of this map: send JSON or NDJSON"
            raise many([FieldError(name, reason) for name in doubtful])

    def _add_batch(self, columns: _Columns, batch: pa.RecordBatch) -> None:
        start, n, wrong = columns.count, len(batch), columns.errors
        ids = ids_of(batch, start, wrong, needed=True)
        points = np.column_stack(
            [self._numbers(batch, name, start, f"location[{j}]", wrong) for j, name in enumerate(("x", "y"))]
        )
        half = np.isnan(points)
        for j in (0, 1):
            lacking = np.flatnonzero(half[:, j] & ~half[:, 1 - j]).tolist()
            wrong += [ElementError(start + i, f"location[{j}]", "is required") for i in lacking]
        values = np.empty((n, len(self._names)))
        for j, name in enumerate(self._names):
            values[:, j] = self._numbers(batch, name, start, f"values.{name}", wrong)
        texts = strings(batch, "payload")
        if texts is not None:
            columns.payload |= Payloads(self._max_payload, wrong).column(texts, start, ~nulls(texts))
        columns.add(ids, points, values)

    @staticmethod
    def _numbers(batch: pa.RecordBatch, name: str, start: int, field: str, wrong: ElementErrors) -> Float64:
        """A column of numbers, NaN where it is null or not there."""
        found = floats(batch, name)
        if found is None:
            return np.full(len(batch), np.nan)
        wrong += given_but_bad(batch, name, found, start, field)
        return found


class _Columns:
    """Columns under construction, a part for each chunk of the body."""

    def __init__(self) -> None:
        self.count = 0
        self.payload: dict[int, bytes | None] = {}
        self.errors = ElementErrors()
        self._ids: list[pa.Array] = []
        self._points: list[Float64] = []
        self._values: list[Float64] = []

    def add(self, ids: pa.Array, points: Float64, values: Float64) -> None:
        self.count += len(ids)
        self._ids.append(ids)
        # Adding 0 turns -0 into 0.
        self._points.append(points + 0.0)
        self._values.append(values + 0.0)

    def command(self, skip: bool, d: int) -> tuple[PutObjects, list[int] | None]:
        """The command without the elements that have errors, and the places of the others if there were such."""
        if not self.count:
            return PutObjects(pa.array([], pa.string()), np.empty((0, 2)), np.empty((0, d)), skip=skip), None
        ids = self._ids[0] if len(self._ids) == 1 else pa.concat_arrays(self._ids)
        points, values = np.concatenate(self._points), np.concatenate(self._values)
        if not self.errors:
            return PutObjects(ids, points, values, self.payload, skip), None
        keep = self.errors.valid(self.count)
        payload = {at: self.payload[i] for at, i in enumerate(keep) if i in self.payload}
        return PutObjects(ids.take(pa.array(keep, pa.int64())), points[keep], values[keep], payload, skip), keep
