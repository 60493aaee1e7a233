"""Subscriptions of a board out of bodies: JSON lists, NDJSON and Arrow become the same columns."""

from __future__ import annotations

import secrets
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from app.api.arrow import check_columns, floats, given_but_bad, integers, strings
from app.api.board_models import BoardValidators, SubscriptionsQuery
from app.api.bodies import Kind, arrow_table
from app.api.elements import ElementError, Lines, Place, read_list
from app.api.values import NAME_REASON, bad_names
from app.problems import MOST_ERRORS, invalid
from indexes.boards.commands import SetSubscription, Subscribe

_REVERSED = "the lower end lies above the upper end"
_SECONDS = "must be greater than 0"
_EVERYWHERE: tuple[None, None] = (None, None)


class ReadSubscriptions(NamedTuple):
    """Subscriptions out of a body. `indexes` are their places in it where some were skipped, `errors` say why."""

    command: Subscribe
    lists: bool | None
    place: Place
    indexes: list[int] | None
    errors: list[ElementError]

    def place_of(self, position: int) -> int:
        """The place in the body of the subscription at a position of the command."""
        return position if self.indexes is None else self.indexes[position]


class SubscriptionReader:
    """Reads the subscriptions of a board with this range attribute; `max_k` is the largest k."""

    def __init__(self, attribute: str, validators: BoardValidators, max_k: int) -> None:
        self._attribute = attribute
        self._validators = validators
        self._max_k = max_k

    def read(self, kind: Kind, raw: bytes | bytearray, asked: SubscriptionsQuery) -> ReadSubscriptions:
        """The subscriptions of a body; `asked` counts for NDJSON and Arrow. Raises the problems 400, 413 and 422."""
        place = Place("subscriptions")
        columns = _Columns()
        skip, lists = asked.on_error == "skip", asked.lists
        if kind is Kind.JSON:
            whole, element = self._validators.subscriptions, self._validators.subscription
            rest, items, columns.errors = read_list(raw, whole, element, "subscriptions")
            skip, lists = rest.get("on_error") == "skip", rest.get("lists")
            self._add_items(columns, items)
        elif kind is Kind.NDJSON:
            source = Lines(raw, self._validators.subscription)
            place.numbered = source.numbered
            for items, errors in source:
                columns.errors += errors
                self._add_items(columns, items)
                if not skip and len(columns.errors) > MOST_ERRORS:
                    break
        else:
            table = arrow_table(raw)
            ends = f"{self._attribute}_min", f"{self._attribute}_max"
            check_columns(table.schema, ("k",), ("id", *ends, "ttl"))
            for batch in table.to_batches():
                self._add_batch(columns, batch, *ends)
                if not skip and len(columns.errors) > MOST_ERRORS:
                    break
        if columns.errors and not skip:
            raise place.refusal(columns.errors)
        command, indexes = columns.command(skip)
        return ReadSubscriptions(command, lists, place, indexes, columns.errors)

    def whole(self, id: str, body: dict[str, Any]) -> SetSubscription:
        """The subscription that a PUT says. Raises the problem 422."""
        if body.get("id", id) != id:
            raise invalid("id", f"is {id!r} in the path")
        l, r = self._ends(body) or (-np.inf, np.inf)
        return SetSubscription(id, l, r, body["k"], body.get("ttl") or 0.0)

    def part(self, id: str, body: dict[str, Any]) -> SetSubscription:
        """The change that a PATCH says. Raises the problem 422."""
        l, r = self._ends(body) or (None, None)
        ttl = (body["ttl"] or 0.0) if "ttl" in body else None
        return SetSubscription(id, l, r, body.get("k"), ttl, must_exist=True)

    def _ends(self, body: dict[str, Any]) -> tuple[float, float] | None:
        ends = body.get("range", {}).get(self._attribute)
        if ends is None:
            return None
        l, r = _unbounded(*ends)
        if l > r:
            raise invalid(f"range.{self._attribute}", _REVERSED)
        return l, r

    def _add_items(self, columns: _Columns, items: list[Any]) -> None:
        """Append validated elements; None stands for one that is known to be bad."""
        start = columns.count
        ids: list[str | None] = []
        ls: list[float] = []
        rs: list[float] = []
        ks: list[int] = []
        for index, item in enumerate(items, start):
            if item is None:
                item = {"k": 1}
            l, r = _unbounded(*item.get("range", {}).get(self._attribute, _EVERYWHERE))
            if l > r:
                columns.errors.append(ElementError(index, f"range.{self._attribute}", _REVERSED))
            ids.append(item.get("id"))
            ls.append(l)
            rs.append(r)
            ks.append(item["k"])
            if item.get("ttl") is not None:
                columns.ttl[index] = item["ttl"]
        columns.add(pa.array(ids, pa.string()), np.array(ls), np.array(rs), np.array(ks, np.int32))

    def _add_batch(self, columns: _Columns, batch: pa.RecordBatch, low: str, high: str) -> None:
        start, n, wrong = columns.count, len(batch), columns.errors
        ids = strings(batch, "id")
        if ids is None:
            ids = pa.nulls(n, pa.string())
        wrong += [ElementError(start + i, "id", NAME_REASON) for i in bad_names(ids).tolist()]
        ends = []
        for at, (name, open_end) in enumerate(((low, -np.inf), (high, np.inf))):
            values = floats(batch, name)
            if values is None:
                ends.append(np.full(n, open_end))
            else:
                wrong += given_but_bad(batch, name, values, start, f"range.{self._attribute}[{at}]")
                ends.append(np.where(np.isnan(values), open_end, values))
        l, r = ends
        for i in np.flatnonzero(l > r).tolist():
            wrong.append(ElementError(start + i, f"range.{self._attribute}", _REVERSED))
        columns.add(ids, l, r, self._ks(batch, start, wrong))
        self._add_ttl(columns, batch, start)

    def _ks(self, batch: pa.RecordBatch, start: int, wrong: list[ElementError]) -> npt.NDArray[np.int32]:
        column = integers(batch, "k")
        assert column is not None, "the columns were checked"
        k, missing = column
        wrong += [ElementError(start + i, "k", "is required") for i in np.flatnonzero(missing).tolist()]
        outside = ((k < 1) | (k > self._max_k)) & ~missing
        reason = f"must be 1 to {self._max_k}"
        wrong += [ElementError(start + i, "k", reason) for i in np.flatnonzero(outside).tolist()]
        return np.clip(k, 1, self._max_k).astype(np.int32)

    def _add_ttl(self, columns: _Columns, batch: pa.RecordBatch, start: int) -> None:
        seconds = floats(batch, "ttl")
        if seconds is not None:
            columns.errors += given_but_bad(batch, "ttl", seconds, start, "ttl")
            for i in np.flatnonzero(~np.isnan(seconds)).tolist():
                if seconds[i] <= 0:
                    columns.errors.append(ElementError(start + i, "ttl", _SECONDS))
                columns.ttl[start + i] = float(seconds[i])


class _Columns:
    """Columns in the making, a piece for each chunk of the body."""

    def __init__(self) -> None:
        self.count = 0
        self.ttl: dict[int, float] = {}
        self.errors: list[ElementError] = []
        self._ids: list[pa.Array] = []
        self._l: list[npt.NDArray[np.float64]] = []
        self._r: list[npt.NDArray[np.float64]] = []
        self._k: list[npt.NDArray[np.int32]] = []

    def add(
        self, ids: pa.Array, l: npt.NDArray[np.float64], r: npt.NDArray[np.float64], k: npt.NDArray[np.int32]
    ) -> None:
        self.count += len(ids)
        self._ids.append(ids)
        self._l.append(l)
        self._r.append(r)
        self._k.append(k)

    def command(self, skip: bool) -> tuple[Subscribe, list[int] | None]:
        """The command without the elements that have errors, and the places of the others if there were such."""
        if not self.count:
            none = np.empty(0)
            return Subscribe(pa.array([], pa.string()), none, none, np.empty(0, np.int32), skip=skip), None
        ids = _named(pa.concat_arrays(self._ids) if len(self._ids) > 1 else self._ids[0])
        l, r, k = np.concatenate(self._l), np.concatenate(self._r), np.concatenate(self._k)
        if not self.errors:
            return Subscribe(ids, l, r, k, self.ttl, skip), None
        bad = {error.index for error in self.errors}
        keep = [i for i in range(self.count) if i not in bad]
        ttl = {at: self.ttl[i] for at, i in enumerate(keep) if i in self.ttl}
        return Subscribe(ids.take(pa.array(keep, pa.int64())), l[keep], r[keep], k[keep], ttl, skip), keep


def _named(ids: pa.StringArray) -> pa.StringArray:
    """Ids with made-up ones, random and numbered, in place of nulls."""
    if ids.null_count == 0:
        return ids
    prefix = secrets.token_hex(8)
    names = pa.array([f"s-{prefix}-{n}" for n in range(ids.null_count)], pa.string())
    return pc.replace_with_mask(ids, ids.is_null(), names)


def _unbounded(l: float | None, r: float | None) -> tuple[float, float]:
    return -np.inf if l is None else l, np.inf if r is None else r
