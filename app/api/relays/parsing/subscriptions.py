"""Subscriptions and commands of a relay out of bodies: JSON lists, NDJSON and Arrow become the same columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from app.api.arrow import add_ttl, check_columns, ends, ids_of
from app.api.bodies import BodyFormat
from app.api.bulk import Columns, Elements, Read
from app.api.element_errors import ElementError
from app.api.models import OnErrorQuery
from app.api.problems import invalid, many
from app.api.relays.models import RelayValidators
from app.errors import FieldError
from app.rendering.relays import Row
from indexes.relays.commands import AddSubscriptions, ChangeSubscription, EditSubscriptions, SetSubscription
from indexes.relays.config import REVERSED, RelayConfig
from indexes.relays.kernels.forward import SUBSCRIBE, UNSUBSCRIBE

Float64 = npt.NDArray[np.float64]
Ends = tuple[float, float]

INF = np.inf
_ANYWHERE = (None, None)
_BAD: dict[str, Any] = {"op": "unsubscribe", "id": "-"}
_OPS = {"subscribe": SUBSCRIBE, "unsubscribe": UNSUBSCRIBE}
_OF_NEW_ONES = ("box", "link", "ttl")


class SubscriptionReader:
    """Reads the subscriptions of a relay with this configuration."""

    def __init__(self, config: RelayConfig, validators: RelayValidators) -> None:
        self._names = config.attributes
        self._validators = validators

    def read(self, kind: BodyFormat, raw: bytes | bytearray, query: OnErrorQuery) -> Read[AddSubscriptions]:
        """The subscriptions of a body; `query` its other fields. Raises the problems 400, 413 and 422."""
        columns = RelayColumns(self._names)
        place, _, skip = Elements(
            "subscriptions",
            self._validators.subscriptions,
            self._validators.subscription,
            columns.errors,
            columns.add_items,
            self._check_columns,
            partial(self._add_batch, columns),
        ).take(kind, raw, query)
        command, indexes = columns.subscriptions(skip)
        return Read(command, skip, place, indexes, columns.errors)

    def whole(self, id: str, body: dict[str, Any]) -> SetSubscription:
        """The subscription of a PUT. Raises the problem 422."""
        _, ends, link, ttl = self.row(id, body)
        return SetSubscription(id, np.array(ends[0::2]), np.array(ends[1::2]), link, ttl)

    def row(self, id: str, body: dict[str, Any]) -> Row:
        """The same as a row of its ends, from which a command of many is made. Raises the problem 422."""
        if body.get("id") not in (None, id):
            raise invalid("id", f"is {id!r} in the path")
        box: Mapping[str, Any] = body.get("box", {})
        ends: list[float] = []
        for name in self._names:
            lo, hi = interval(box.get(name) or _ANYWHERE)
            if lo > hi:
                self._box(body)
            ends += lo, hi
        return Row(id, ends, body.get("link"), body.get("ttl"))

    def part(self, id: str, body: dict[str, Any]) -> ChangeSubscription:
        """The change of a PATCH. Raises the problem 422."""
        box: Mapping[str, Ends | None] = self._box(body)
        return ChangeSubscription(id, box, (body["ttl"] or 0.0) if "ttl" in body else None)

    @staticmethod
    def _box(body: dict[str, Any]) -> dict[str, Ends]:
        box = {name: (-INF, INF) if pair is None else interval(pair) for name, pair in body.get("box", {}).items()}
        wrong = [FieldError(f"box.{name}", REVERSED) for name, (lo, hi) in box.items() if lo > hi]
        if wrong:
            raise many(wrong)
        return box

    def _check_columns(self, schema: pa.Schema) -> None:
        known = (f"{name}_{end}" for name in self._names for end in ("min", "max"))
        check_columns(schema, (), ("id", "link", "ttl", *known))

    def _add_batch(self, columns: RelayColumns, batch: pa.RecordBatch) -> None:
        start, n, wrong = columns.count, len(batch), columns.errors
        ids, links = ids_of(batch, start, wrong), ids_of(batch, start, wrong, "link")
        lo, hi = np.empty((n, len(self._names))), np.empty((n, len(self._names)))
        for j, name in enumerate(self._names):
            lo[:, j], hi[:, j] = ends(batch, name, start, f"box.{name}", wrong)
        add_ttl(batch, start, wrong, columns.ttl)
        columns.add(ids, links, lo, hi, np.full(n, SUBSCRIBE, np.uint8))


class RelayColumns(Columns):
    """Subscriptions and commands under construction, a part for each chunk of the body."""

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__()
        self._names = names
        self._links: list[pa.Array] = []
        self._ends: list[tuple[Float64, Float64]] = []
        self._ops: list[npt.NDArray[np.uint8]] = []

    def add_items(self, items: list[Any]) -> None:
        """Append validated elements; None is one that is known to be invalid. Those without an `op` subscribe."""
        start, n = self.count, len(items)
        if self.errors:
            items = [_BAD if item is None else item for item in items]
        lo, hi = np.full((n, len(self._names)), -INF), np.full((n, len(self._names)), INF)
        for i, item in enumerate(items):
            if item.get("op") == "unsubscribe":
                self._check_end(start + i, item)
                continue
            box = item.get("box")
            if box:
                for j, name in enumerate(self._names):
                    pair = box.get(name)
                    if pair is not None:
                        lo[i, j], hi[i, j] = interval(pair)
            if item.get("ttl") is not None:
                self.ttl[start + i] = item["ttl"]
        ids = pa.array([item.get("id") for item in items], pa.string())
        links = pa.array([item.get("link") for item in items], pa.string())
        ops = np.array([_OPS[item.get("op", "subscribe")] for item in items], np.uint8)
        self.add(ids, links, lo, hi, ops)

    def _check_end(self, index: int, item: dict[str, Any]) -> None:
        """Note what the end of a subscription lacks, or has too much."""
        if item.get("id") is None:
            self.errors.append(ElementError(index, "id", "is required"))
        for field in _OF_NEW_ONES:
            if field in item:
                self.errors.append(ElementError(index, field, "is not taken by an unsubscribe"))

    def add(self, ids: pa.Array, links: pa.Array, lo: Float64, hi: Float64, ops: npt.NDArray[np.uint8]) -> None:
        """Append columns, and note which boxes are reversed."""
        for i, j in np.argwhere(~(lo <= hi)).tolist():
            self.errors.append(ElementError(self.count + i, f"box.{self._names[j]}", REVERSED))
        self.add_ids(ids)
        self._links.append(links)
        self._ends.append((lo, hi))
        self._ops.append(ops)

    def subscriptions(self, skip: bool) -> tuple[AddSubscriptions, list[int] | None]:
        """The command without the elements that have errors, and the places of the others if there were such."""
        ids, links, lo, hi, _ = self._whole()
        return self.kept(AddSubscriptions(ids, lo, hi, links, self.ttl, skip))

    def commands(self, skip: bool) -> tuple[EditSubscriptions, list[int] | None]:
        """As `subscriptions`, for commands of both sorts."""
        ids, links, lo, hi, ops = self._whole()
        listed = None if links is None else links.to_pylist()
        return self.kept(EditSubscriptions(ops, ids.to_pylist(), lo, hi, listed, self.ttl, skip))

    def _whole(self) -> tuple[pa.Array, pa.Array | None, Float64, Float64, npt.NDArray[np.uint8]]:
        if not self.count:
            nothing = np.empty((0, len(self._names)))
            return pa.array([], pa.string()), None, nothing, nothing, np.empty(0, np.uint8)
        links = pa.concat_arrays(self._links)
        lo, hi = (np.concatenate(parts) for parts in zip(*self._ends, strict=True))
        return self.ids(), None if links.null_count == len(links) else links, lo, hi, np.concatenate(self._ops)


def interval(pair: Sequence[float | None]) -> Ends:
    """An interval of JSON, infinite where it is unbounded."""
    return -INF if pair[0] is None else pair[0], INF if pair[1] is None else pair[1]
