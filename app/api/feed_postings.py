"""Posts of a feed out of bodies: JSON lists, NDJSON and Arrow become the same columns."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from app.api.arrow import check_columns, floats, given_but_bad, nulls, strings
from app.api.bodies import Kind
from app.api.elements import ElementError, Elements, Read
from app.api.feed_models import MOST_TEXT, FeedValidators
from app.api.feed_words import Words
from app.api.ids import named
from app.api.models import OnErrorQuery
from app.api.payloads import Payloads
from app.api.values import NAME_REASON, bad_names
from app.ticks import now
from indexes.feeds.commands import Post
from indexes.feeds.model import FeedConfig, Keywords

Float64 = npt.NDArray[np.float64]

_NOWHERE = [np.nan, np.nan]


class PostReader:
    """Reads the posts of a feed with this configuration; payloads of at most `max_payload` bytes."""

    def __init__(self, config: FeedConfig, validators: FeedValidators, max_payload: int) -> None:
        self._config = config
        self._validators = validators
        self._max_payload = max_payload

    def read(self, kind: Kind, raw: bytes | bytearray, asked: OnErrorQuery) -> Read[Post]:
        """The posts of a body; `asked` counts for NDJSON and Arrow. Raises the problems 400, 413 and 422."""
        columns = _Columns()
        words = Words(self._config.stop_words, columns.errors, needed=False)
        place, _, skip = Elements(
            "posts",
            self._validators.posts,
            self._validators.post,
            columns.errors,
            partial(self._add_items, columns, words),
            lambda schema: check_columns(schema, ("x", "y"), ("id", "text", "keywords", "weights", "payload")),
            partial(self._add_batch, columns, words),
        ).take(kind, raw, asked.on_error)
        command, indexes = columns.command(skip)
        return Read(command, skip, place, indexes, columns.errors)

    def _add_items(self, columns: _Columns, words: Words, items: list[Any]) -> None:
        """Append validated elements; None stands for one that is known to be bad."""
        start, wrong = columns.count, columns.errors
        keywords = words.read(start, items)
        points = np.array([_NOWHERE if item is None else item["location"] for item in items], np.float64)
        payloads = Payloads(self._max_payload, wrong)
        columns.keep(
            {
                at: payloads.text(at, item["payload"])
                for at, item in enumerate(items, start)
                if item is not None and item.get("payload") is not None
            }
        )
        ids = pa.array([None if item is None else item.get("id") for item in items], pa.string())
        columns.add(ids, keywords, points.reshape(-1, 2))

    def _add_batch(self, columns: _Columns, words: Words, batch: pa.RecordBatch) -> None:
        start, wrong = columns.count, columns.errors
        ids = ids_of(batch, start, wrong)
        points = points_of(batch, start, wrong)
        keywords = words.batch(start, batch, texts_of(batch, start, wrong))
        payload = strings(batch, "payload")
        if payload is not None:
            columns.keep(Payloads(self._max_payload, wrong).column(payload, start, ~nulls(payload)))
        columns.add(ids, keywords, points)


class _Columns:
    """Columns in the making, a piece for each chunk of the body."""

    def __init__(self) -> None:
        self.count = 0
        self.payload: dict[int, bytes] = {}
        self.errors: list[ElementError] = []
        self._ids: list[pa.Array] = []
        self._keywords: list[Keywords] = []
        self._points: list[Float64] = []

    def add(self, ids: pa.Array, keywords: Keywords, points: Float64) -> None:
        self.count += len(ids)
        self._ids.append(ids)
        self._keywords.append(keywords)
        # Adding 0 turns -0 into 0.
        self._points.append(points + 0.0)

    def keep(self, texts: dict[int, bytes | None]) -> None:
        self.payload |= {at: text for at, text in texts.items() if text is not None}

    def command(self, skip: bool) -> tuple[Post, list[int] | None]:
        """The command without the elements that have errors, and the places of the others if there were such."""
        at = now()
        if not self.count:
            return Post(pa.array([], pa.string()), Keywords.of([]), np.empty((0, 2)), at, skip=skip), None
        ids = named(self._ids[0] if len(self._ids) == 1 else pa.concat_arrays(self._ids), "p")
        command = Post(ids, Keywords.joined(self._keywords), np.concatenate(self._points), at, self.payload, skip)
        if not self.errors:
            return command, None
        bad = {error.index for error in self.errors}
        keep = [i for i in range(self.count) if i not in bad]
        return command.take(keep), keep


def ids_of(batch: pa.RecordBatch, start: int, wrong: list[ElementError]) -> pa.StringArray:
    """The ids of an Arrow batch, null where they are left out."""
    ids = strings(batch, "id")
    if ids is None:
        return pa.nulls(len(batch), pa.string())
    wrong += [ElementError(start + i, "id", NAME_REASON) for i in bad_names(ids).tolist()]
    return ids


def points_of(batch: pa.RecordBatch, start: int, wrong: list[ElementError]) -> Float64:
    """The places of an Arrow batch, (n, 2)."""
    found = []
    for j, name in enumerate(("x", "y")):
        values = floats(batch, name)
        assert values is not None, "the columns were checked"
        field = f"location[{j}]"
        wrong += given_but_bad(batch, name, values, start, field)
        missing = np.flatnonzero(nulls(batch.column(batch.schema.get_field_index(name)))).tolist()
        wrong += [ElementError(start + i, field, "is required") for i in missing]
        found.append(values)
    return np.column_stack(found) + 0.0


def texts_of(batch: pa.RecordBatch, start: int, wrong: list[ElementError]) -> pa.StringArray | None:
    """The texts of an Arrow batch, if it has such; one that is too long is noted."""
    texts = strings(batch, "text")
    if texts is not None:
        long = pc.greater(pc.utf8_length(texts), MOST_TEXT).fill_null(False)
        at = np.flatnonzero(np.asarray(long)).tolist()
        wrong += [ElementError(start + i, "text", f"must be at most {MOST_TEXT} characters") for i in at]
        texts = pc.if_else(long, "", texts) if at else texts
    return texts
