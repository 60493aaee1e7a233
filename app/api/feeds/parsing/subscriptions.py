"""Subscriptions of a feed out of bodies: JSON lists, NDJSON and Arrow become the same columns."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from app.api.arrow import add_ttl, check_columns, floats, given_but_bad, ids_of, integers, points_of
from app.api.bodies import BodyFormat
from app.api.bulk import Columns, Elements, Read
from app.api.element_errors import ElementError, ElementErrors
from app.api.feeds.models import ALPHA, FeedValidators, K
from app.api.feeds.parsing.keywords import Words
from app.api.feeds.parsing.posts import texts_of
from app.api.models import ListsQuery
from app.api.problems import many
from app.errors import FieldError
from indexes.feeds.commands import AddSubscriptions, ChangeSubscription, SetSubscription
from indexes.feeds.config import FeedConfig, Keywords, Point, Shown, Subscriptions
from indexes.feeds.theta import MOST_K

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

_BAD: dict[str, Any] = {"location": [np.nan, np.nan]}


@dataclass(slots=True)
class ReadSubscriptions(Read[AddSubscriptions]):
    """Subscriptions out of a body, and whether the response has their lists."""

    lists: bool | None


class SubscriptionReader:
    """Reads the subscriptions of a feed with this configuration, which want at most `max_k` posts each."""

    def __init__(self, config: FeedConfig, validators: FeedValidators, max_k: int) -> None:
        self._config = config
        self._validators = validators
        self._most = min(max_k, MOST_K)
        self._k = min(K, self._most)

    def read(self, kind: BodyFormat, raw: bytes | bytearray, query: ListsQuery) -> ReadSubscriptions:
        """The subscriptions of a body; `query` its other fields. Raises the problems 400, 413 and 422."""
        columns = _Columns()
        words = Words(self._config.stop_words, columns.errors, needed=True)
        known = ("id", "text", "keywords", "weights", "k", "alpha", "ttl")
        place, rest, skip = Elements(
            "subscriptions",
            self._validators.subscriptions,
            self._validators.subscription,
            columns.errors,
            partial(self._add_items, columns, words),
            lambda schema: check_columns(schema, ("x", "y"), known),
            partial(self._add_batch, columns, words),
        ).take(kind, raw, query)
        lists = rest.get("lists") if kind is BodyFormat.JSON else query.lists
        command, indexes = columns.command(skip)
        return ReadSubscriptions(command, skip, place, indexes, columns.errors, lists)

    def whole(self, id: str, body: dict[str, Any]) -> SetSubscription:
        """The subscription of a PUT. Raises the problem 422."""
        errors = ElementErrors()
        if body.get("id") not in (None, id):
            errors.append(ElementError(0, "id", f"is {id!r} in the path"))
        shown = self._words(body, errors)
        _refuse(errors)
        k, alpha = body.get("k", self._k), body.get("alpha", ALPHA) + 0.0
        return SetSubscription(id, shown, _point(body["location"]), k, alpha, body.get("ttl"))

    def part(self, id: str, body: dict[str, Any]) -> ChangeSubscription:
        """The change of a PATCH. Raises the problem 422."""
        errors = ElementErrors()
        shown = self._words(body, errors) if "keywords" in body or "text" in body else None
        _refuse(errors)
        location = _point(body["location"]) if "location" in body else None
        alpha = body["alpha"] + 0.0 if "alpha" in body else None
        ttl = (body["ttl"] or 0.0) if "ttl" in body else None
        return ChangeSubscription(id, shown, location, body.get("k"), alpha, ttl)

    def _words(self, body: dict[str, Any], errors: ElementErrors) -> Shown:
        (shown,) = Words(self._config.stop_words, errors, needed=True).read(0, [body]).shown()
        return shown

    def _add_items(self, columns: _Columns, words: Words, items: list[Any]) -> None:
        """Append validated elements; None is one that is known to be invalid."""
        start = columns.count
        keywords = words.read(start, items)
        if columns.errors:
            items = [_BAD if item is None else item for item in items]
        columns.note_ttl(items)
        columns.add(
            pa.array([item.get("id") for item in items], pa.string()),
            keywords,
            np.array([item["location"] for item in items], np.float64).reshape(-1, 2),
            np.array([item.get("k", self._k) for item in items], np.int64),
            np.array([item.get("alpha", ALPHA) for item in items], np.float64),
        )

    def _add_batch(self, columns: _Columns, words: Words, batch: pa.RecordBatch) -> None:
        start, n, wrong = columns.count, len(batch), columns.errors
        ids = ids_of(batch, start, wrong)
        points = points_of(batch, start, wrong)
        keywords = words.batch(start, batch, texts_of(batch, start, wrong))
        k, alpha = np.full(n, self._k, np.int64), np.full(n, ALPHA)
        lengths = integers(batch, "k")
        if lengths is not None:
            given = ~lengths[1]
            k[given] = lengths[0][given]
            for below, reason in ((k < 1, "must be at least 1"), (k > self._most, f"must be at most {self._most}")):
                wrong += [ElementError(start + i, "k", reason) for i in np.flatnonzero(below).tolist()]
        shares = floats(batch, "alpha")
        if shares is not None:
            wrong += given_but_bad(batch, "alpha", shares, start, "alpha")
            for i in np.flatnonzero((shares < 0) | (shares > 1)).tolist():
                wrong.append(ElementError(start + i, "alpha", f"must be at {'least 0' if shares[i] < 0 else 'most 1'}"))
            alpha = np.where(np.isnan(shares), alpha, shares)
        add_ttl(batch, start, wrong, columns.ttl)
        columns.add(ids, keywords, points, k, alpha)


class _Columns(Columns):
    """Columns under construction, a part for each chunk of the body."""

    def __init__(self) -> None:
        super().__init__()
        self._keywords: list[Keywords] = []
        self._points: list[Float64] = []
        self._k: list[Int64] = []
        self._alpha: list[Float64] = []

    def add(self, ids: pa.Array, keywords: Keywords, points: Float64, k: Int64, alpha: Float64) -> None:
        self.add_ids(ids)
        self._keywords.append(keywords)
        # Adding 0 turns -0 into 0.
        self._points.append(points + 0.0)
        self._k.append(k)
        self._alpha.append(alpha + 0.0)

    def command(self, skip: bool) -> tuple[AddSubscriptions, list[int] | None]:
        """The command without the elements that have errors, and the places of the others if there were such."""
        if not self.count:
            return AddSubscriptions(pa.array([], pa.string()), Subscriptions.of([]), skip=skip), None
        some = Subscriptions(
            Keywords.joined(self._keywords),
            np.concatenate(self._points),
            np.concatenate(self._k),
            np.concatenate(self._alpha),
        )
        return self.kept(AddSubscriptions(self.ids(), some, self.ttl, skip))


def _point(pair: list[float]) -> Point:
    """A location of a body; -0 is 0."""
    return pair[0] + 0.0, pair[1] + 0.0


def _refuse(errors: ElementErrors) -> None:
    if errors:
        raise many([FieldError(error.field, error.reason) for error in errors])
