"""Subscriptions of a matcher out of bodies: JSON lists, NDJSON and Arrow become the same columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from app.api.arrow import add_ttl, check_columns, ends, floats, given_but_bad, ids_of
from app.api.bodies import BodyFormat
from app.api.bulk import Columns, Elements, Read
from app.api.element_errors import ElementError, ElementErrors
from app.api.matchers.models import MatcherValidators
from app.api.models import OnErrorQuery
from app.api.problems import from_refused, invalid
from app.errors import FieldError
from indexes.core.commands import Refused
from indexes.matchers.commands import AddSubscriptions, ChangeSubscription, Interval, SetSubscription
from indexes.matchers.config import MatcherConfig, Subscriptions
from indexes.matchers.forms import LACKING, LONELY, REVERSED, RowMaker, nothing

Float64 = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

INF = np.inf
_BAD: dict[str, Any] = {"score": 0.0}


class SubscriptionReader:
    """Reads the subscriptions of a matcher with this configuration."""

    def __init__(self, config: MatcherConfig, validators: MatcherValidators) -> None:
        self._config = config
        self._validators = validators
        self._maker = RowMaker(config)

    def read(self, kind: BodyFormat, raw: bytes | bytearray, query: OnErrorQuery) -> Read[AddSubscriptions]:
        """The subscriptions of a body; `query` its other fields. Raises the problems 400, 413 and 422."""
        columns = _Columns()
        place, _, skip = Elements(
            "subscriptions",
            self._validators.subscriptions,
            self._validators.subscription,
            columns.errors,
            partial(self._add_items, columns),
            self._check_columns,
            partial(self._add_batch, columns),
        ).take(kind, raw, query)
        command, indexes = columns.command(skip, self._config)
        return Read(command, skip, place, indexes, columns.errors)

    def whole(self, id: str, body: dict[str, Any]) -> SetSubscription:
        """The subscription of a PUT. Raises the problem 422."""
        if body.get("id") not in (None, id):
            raise invalid("id", f"is {id!r} in the path")
        row, faults = self._maker.row_of(body.get("intervals", {}), body.get("weights"), body.get("score"))
        if faults:
            raise from_refused(Refused(faults), lambda fault: FieldError(fault.field, fault.reason))
        return SetSubscription(id, row, body.get("ttl"))

    def part(self, id: str, body: dict[str, Any]) -> ChangeSubscription:
        """The change of a PATCH."""
        pairs = body.get("intervals", {}).items()
        intervals = {name: None if pair is None else _interval(pair) for name, pair in pairs}
        ttl = (body["ttl"] or 0.0) if "ttl" in body else None
        return ChangeSubscription(id, intervals, body.get("weights", {}), body.get("score"), ttl)

    def _add_items(self, columns: _Columns, items: list[Any]) -> None:
        """Append validated elements; None is one that is known to be invalid."""
        start, config, n = columns.count, self._config, len(items)
        if columns.errors:
            items = [_BAD if item is None else item for item in items]
        made = nothing(config, n)
        intervals, weights = [item.get("intervals", {}) for item in items], [item.get("weights", {}) for item in items]
        for j, name in enumerate(config.dimensions):
            pairs = [given.get(name) for given in intervals]
            held = np.array([pair is not None for pair in pairs], np.bool_)
            made.lo[held, j] = [-INF if pair[0] is None else pair[0] for pair in pairs if pair is not None]
            made.hi[held, j] = [INF if pair[1] is None else pair[1] for pair in pairs if pair is not None]
            weight = None
            if config.relaxed:
                weight = np.array([given.get(name, np.nan) for given in weights], np.float64)
            self._check(columns.errors, start, j, made, held, weight)
        if not config.relaxed:
            made.scores[:, 0] = [item["score"] for item in items]
        columns.note_ttl(items)
        columns.add(pa.array([item.get("id") for item in items], pa.string()), made)

    def _check_columns(self, schema: pa.Schema) -> None:
        names = self._config.dimensions
        needed = [] if self._config.relaxed else ["score"]
        known = ["id", "ttl", *(f"{name}_{end}" for name in names for end in ("min", "max"))]
        if self._config.relaxed:
            given = {name for name in names if {f"{name}_min", f"{name}_max"} & set(schema.names)}
            needed = [f"{name}_weight" for name in names if name in given]
            known += [f"{name}_weight" for name in names]
        check_columns(schema, needed, known)

    def _add_batch(self, columns: _Columns, batch: pa.RecordBatch) -> None:
        start, n, wrong, config = columns.count, len(batch), columns.errors, self._config
        ids = ids_of(batch, start, wrong)
        made = nothing(config, n)
        for j, name in enumerate(config.dimensions):
            lo, hi = ends(batch, name, start, f"intervals.{name}", wrong)
            weight = None
            held = np.ones(n, np.bool_)
            if config.relaxed:
                weight = floats(batch, f"{name}_weight")
                if weight is None:
                    continue
                wrong += given_but_bad(batch, f"{name}_weight", weight, start, f"weights.{name}")
                below = np.flatnonzero(weight < 0)
                wrong += [ElementError(start + i, f"weights.{name}", "must be at least 0") for i in below.tolist()]
                held = ~np.isnan(weight)
            made.lo[held, j], made.hi[held, j] = lo[held], hi[held]
            self._check(wrong, start, j, made, held, weight)
        if not config.relaxed:
            score = floats(batch, "score")
            assert score is not None, "the columns were checked"
            wrong += given_but_bad(batch, "score", score, start, "score")
            missing = np.flatnonzero(np.asarray(batch.column("score").is_null()))
            wrong += [ElementError(start + i, "score", "is required") for i in missing.tolist()]
            made.scores[:, 0] = score
        add_ttl(batch, start, wrong, columns.ttl)
        columns.add(ids, made)

    def _check(
        self, wrong: ElementErrors, start: int, j: int, made: Subscriptions, held: Mask, weight: Float64 | None
    ) -> None:
        """Take the weights of a dimension, NaN where there is none, and note what cannot be."""
        name = self._config.dimensions[j]
        reversed_ = np.flatnonzero(held & ~(made.lo[:, j] <= made.hi[:, j]))
        wrong += [ElementError(start + i, f"intervals.{name}", REVERSED) for i in reversed_.tolist()]
        if weight is not None:
            given = ~np.isnan(weight)
            made.scores[held & given, j] = weight[held & given]
            for mask, reason in ((held & ~given, LACKING), (given & ~held, LONELY)):
                wrong += [ElementError(start + i, f"weights.{name}", reason) for i in np.flatnonzero(mask).tolist()]


class _Columns(Columns):
    """Columns under construction, a part for each chunk of the body."""

    def __init__(self) -> None:
        super().__init__()
        self._made: list[Subscriptions] = []

    def add(self, ids: pa.Array, made: Subscriptions) -> None:
        self.add_ids(ids)
        self._made.append(made)

    def command(self, skip: bool, config: MatcherConfig) -> tuple[AddSubscriptions, list[int] | None]:
        """The command without the elements that have errors, and the places of the others if there were such."""
        if not self.count:
            return AddSubscriptions(pa.array([], pa.string()), nothing(config, 0), skip=skip), None
        made = self._made[0] if len(self._made) == 1 else _concatenated(self._made)
        return self.kept(AddSubscriptions(self.ids(), made, self.ttl, skip))


def _concatenated(parts: Sequence[Subscriptions]) -> Subscriptions:
    return Subscriptions(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def _interval(pair: list[float | None]) -> Interval:
    return -INF if pair[0] is None else pair[0], INF if pair[1] is None else pair[1]
