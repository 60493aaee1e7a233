"""Subscriptions of a board out of bodies: JSON lists, NDJSON and Arrow become the same columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from app.api.arrow import add_ttl, check_columns, ids_of, integers
from app.api.boards.models import BoardValidators
from app.api.boards.parsing.filters import FilterReader
from app.api.boards.parsing.regions import region_reader
from app.api.bodies import BodyFormat
from app.api.bulk import Columns, Elements, Read
from app.api.element_errors import ElementError, ElementErrors
from app.api.models import ListsQuery
from app.api.problems import invalid
from indexes.boards.commands import AddSubscriptions, SetSubscription
from indexes.boards.regions import Regions, joined

_BAD: dict[str, Any] = {"k": 1}


@dataclass(slots=True)
class ReadSubscriptions(Read[AddSubscriptions]):
    """Subscriptions out of a body, and whether the response has their lists."""

    lists: bool | None


class SubscriptionReader:
    """Reads the subscriptions of a board with these range attributes and indexed fields; `max_k` is the largest k."""

    def __init__(
        self, attributes: tuple[str, ...], validators: BoardValidators, max_k: int, indexed: tuple[str, ...] = ()
    ) -> None:
        self._filters = FilterReader(indexed)
        self._regions = region_reader(attributes)
        self._d = len(attributes)
        self._validators = validators
        self._max_k = max_k

    def read(self, kind: BodyFormat, raw: bytes | bytearray, query: ListsQuery) -> ReadSubscriptions:
        """The subscriptions of a body; `query` its other fields. Raises the problems 400, 413 and 422."""
        columns = _Columns()
        place, rest, skip = Elements(
            "subscriptions",
            self._validators.subscriptions,
            self._validators.subscription,
            columns.errors,
            partial(self._add_items, columns),
            self._check_columns,
            partial(self._add_batch, columns),
        ).take(kind, raw, query)
        lists = rest.get("lists") if kind is BodyFormat.JSON else query.lists
        command, indexes = columns.command(skip, self._d)
        return ReadSubscriptions(command, skip, place, indexes, columns.errors, lists)

    def whole(self, id: str, body: dict[str, Any]) -> SetSubscription:
        """The subscription of a PUT. Raises the problem 422."""
        if body.get("id", id) != id:
            raise invalid("id", f"is {id!r} in the path")
        region, where = self._regions.whole(body), self._filters.one(body.get("where", {}))
        rest = body["k"], body.get("ttl") or 0.0
        return SetSubscription(id, region, *rest, offset=body.get("offset", 0), where=where)

    def part(self, id: str, body: dict[str, Any]) -> SetSubscription:
        """The change of a PATCH. Raises the problem 422."""
        ttl = (body["ttl"] or 0.0) if "ttl" in body else None
        region = self._regions.part(body)
        where = self._filters.one(body["where"]) if "where" in body else None
        return SetSubscription(id, region, body.get("k"), ttl, must_exist=True, offset=body.get("offset"), where=where)

    def _check_columns(self, schema: pa.Schema) -> None:
        check_columns(schema, ("k",), ("id", *self._regions.columns, *self._filters.columns, "offset", "ttl"))

    def _add_items(self, columns: _Columns, items: list[Any]) -> None:
        """Append validated elements; None is one that is known to be invalid."""
        start = columns.count
        if columns.errors:
            items = [_BAD if item is None else item for item in items]
        regions = self._regions.add(items, start, columns.errors)
        where = self._filters.add(items, start, columns.errors)
        ids: list[str | None] = []
        ks: list[int] = []
        offsets: list[int] = []
        for index, item in enumerate(items, start):
            ids.append(item.get("id"))
            ks.append(item["k"])
            offsets.append(item.get("offset", 0))
            if item.get("ttl") is not None:
                columns.ttl[index] = item["ttl"]
        columns.add(pa.array(ids, pa.string()), regions, np.array(ks, np.int32), np.array(offsets, np.int32), where)

    def _add_batch(self, columns: _Columns, batch: pa.RecordBatch) -> None:
        start, wrong = columns.count, columns.errors
        ids = ids_of(batch, start, wrong)
        regions = self._regions.add_batch(batch, start, wrong)
        where = self._filters.add_batch(batch, start, wrong)
        columns.add(ids, regions, self._ks(batch, start, wrong), self._offsets(batch, start, wrong), where)
        add_ttl(batch, start, wrong, columns.ttl)

    def _ks(self, batch: pa.RecordBatch, start: int, wrong: ElementErrors) -> npt.NDArray[np.int32]:
        column = integers(batch, "k")
        assert column is not None, "the columns were checked"
        k, missing = column
        wrong += [ElementError(start + i, "k", "is required") for i in np.flatnonzero(missing).tolist()]
        outside = ((k < 1) | (k > self._max_k)) & ~missing
        reason = f"must be 1 to {self._max_k}"
        wrong += [ElementError(start + i, "k", reason) for i in np.flatnonzero(outside).tolist()]
        return np.clip(k, 1, self._max_k).astype(np.int32)

    def _offsets(self, batch: pa.RecordBatch, start: int, wrong: ElementErrors) -> npt.NDArray[np.int32]:
        column = integers(batch, "offset")
        if column is None:
            return np.zeros(len(batch), np.int32)
        offset, _ = column
        outside = np.flatnonzero((offset < 0) | (offset > self._max_k))
        wrong += [ElementError(start + i, "offset", f"must be 0 to {self._max_k}") for i in outside.tolist()]
        return np.clip(offset, 0, self._max_k).astype(np.int32)


class _Columns(Columns):
    """Columns under construction, a part for each chunk of the body."""

    def __init__(self) -> None:
        super().__init__()
        self._regions: list[Regions] = []
        self._k: list[npt.NDArray[np.int32]] = []
        self._offset: list[npt.NDArray[np.int32]] = []
        self._where: list[tuple[pa.StringArray, ...]] = []

    def add(
        self,
        ids: pa.Array,
        regions: Regions,
        k: npt.NDArray[np.int32],
        offset: npt.NDArray[np.int32],
        where: tuple[pa.StringArray, ...],
    ) -> None:
        self.add_ids(ids)
        self._regions.append(regions)
        self._k.append(k)
        self._offset.append(offset)
        self._where.append(where)

    def command(self, skip: bool, d: int) -> tuple[AddSubscriptions, list[int] | None]:
        """The command without the elements that have errors, and the places of the others if there were such."""
        if not self.count:
            return AddSubscriptions(pa.array([], pa.string()), Regions.empty(d), np.empty(0, np.int32), skip=skip), None
        ids, regions, k, whole = (
            self.ids(),
            joined(self._regions),
            np.concatenate(self._k),
            np.concatenate(self._offset),
        )
        offset = whole if whole.any() else None
        where = tuple(pa.concat_arrays(column) for column in zip(*self._where, strict=True))
        if all(column.null_count == len(column) for column in where):
            where = ()
        if not self.errors:
            return AddSubscriptions(ids, regions, k, self.ttl, skip, offset, where), None
        keep = self.errors.valid(self.count)
        ttl = {at: self.ttl[i] for at, i in enumerate(keep) if i in self.ttl}
        at = np.array(keep, np.int64)
        kept = None if offset is None else offset[at]
        wanted = tuple(column.take(pa.array(at)) for column in where)
        return AddSubscriptions(ids.take(pa.array(at)), regions.take(at), k[at], ttl, skip, kept, wanted), keep
