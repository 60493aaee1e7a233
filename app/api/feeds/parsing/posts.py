"""Posts of a feed out of bodies: JSON lists, NDJSON and Arrow become the same columns."""

from __future__ import annotations

from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from app.api.arrow import check_columns, ids_of, nulls, points_of, strings
from app.api.bodies import BodyFormat
from app.api.bulk import Columns, Elements, Place, Read
from app.api.element_errors import ElementError, ElementErrors
from app.api.feeds.models import MOST_TEXT, FeedValidators
from app.api.feeds.parsing.cut import post_of_record, posts_of_burst, posts_of_records
from app.api.feeds.parsing.keywords import Words, plain_keywords
from app.api.ids import named_all
from app.api.models import OnErrorQuery
from app.api.payloads import Payloads
from app.streaming.bursts import Burst
from app.write_path.ticks import now
from indexes.feeds.commands import Post
from indexes.feeds.config import FeedConfig, Keywords

Float64 = npt.NDArray[np.float64]

_NOWHERE = [np.nan, np.nan]
_PLACE = Place("posts")


class PostReader:
    """Reads the posts of a feed with this configuration; payloads of at most `max_payload` bytes."""

    def __init__(self, config: FeedConfig, validators: FeedValidators, max_payload: int) -> None:
        self.validators = validators
        self._stop_words = None if config.stop_words is None else frozenset(config.stop_words)
        self._max_payload = max_payload

    def read(self, kind: BodyFormat, raw: bytes | bytearray, query: OnErrorQuery) -> Read[Post]:
        """The posts of a body; `query` its other fields. Raises the problems 400, 413 and 422."""
        columns = _Columns()
        words = Words(self._stop_words, columns.errors, needed=False)
        place, _, skip = Elements(
            "posts",
            self.validators.posts,
            self.validators.post,
            columns.errors,
            partial(self._add_items, columns, words),
            lambda schema: check_columns(schema, ("x", "y"), ("id", "text", "keywords", "weights", "payload")),
            partial(self._add_batch, columns, words),
        ).take(kind, raw, query)
        command, indexes = columns.command(skip)
        return Read(command, skip, place, indexes, columns.errors)

    def read_items(self, items: list[Any]) -> Read[Post]:
        """The posts of bodies that are validated already, one of each, and those that were `cut`; those that are wrong
        are skipped. A post that was cut alone is a record."""
        plain: Post | None
        if len(items) == 1:
            (item,) = items
            kind = type(item)
            plain = post_of_record(item) if kind is bytearray else item if kind is Post else _plain_posts(items)
        else:
            plain = self._all_plain(items)
        if plain is not None:
            return Read(plain, True, _PLACE, None, ElementErrors())
        columns = _Columns()
        words = Words(self._stop_words, columns.errors, needed=False)
        for kind, some in groupby(items, type):
            if kind is Post:
                for post in some:
                    columns.add(list(post.ids), post.keywords, post.points)
            elif kind is bytearray:
                post = posts_of_records(list(some))
                columns.add(list(post.ids), post.keywords, post.points)
            else:
                self._add_items(columns, words, list(some))
        command, indexes = columns.command(True)
        command.apart = True
        return Read(command, True, _PLACE, indexes, columns.errors)

    @staticmethod
    def _all_plain(items: list[Any]) -> Post | None:
        """The posts of items that are all records, or all of them plain; otherwise None."""
        kinds = set(map(type, items))
        if kinds == {bytearray}:
            return posts_of_records(items)
        return _plain_posts(items) if kinds == {dict} else None

    def cut(self, burst: Burst) -> Post | None:
        """The posts of as many requests, from the first one on, as surely say nothing wrong; None where they are few.
        O(bytes)."""
        return posts_of_burst(burst)

    def _add_items(self, columns: _Columns, words: Words, items: list[Any]) -> None:
        """Append validated elements; None is one that is known to be invalid."""
        start = columns.count
        keywords = words.read(start, items)
        payloads = Payloads(self._max_payload, columns.errors)
        ids: list[str | None] = []
        points: list[list[float]] = []
        for at, item in enumerate(items, start):
            if item is None:
                ids.append(None)
                points.append(_NOWHERE)
            else:
                ids.append(item.get("id"))
                points.append(item["location"])
                if item.get("payload") is not None:
                    columns.keep(at, payloads.text(at, item["payload"]))
        columns.add(ids, keywords, np.array(points, np.float64).reshape(len(items), 2))

    def _add_batch(self, columns: _Columns, words: Words, batch: pa.RecordBatch) -> None:
        start, wrong = columns.count, columns.errors
        ids = ids_of(batch, start, wrong)
        points = points_of(batch, start, wrong)
        keywords = words.batch(start, batch, texts_of(batch, start, wrong))
        payload = strings(batch, "payload")
        if payload is not None:
            for at, text in Payloads(self._max_payload, wrong).column(payload, start, ~nulls(payload)).items():
                columns.keep(at, text)
        columns.add(ids.to_pylist(), keywords, points)


class _Columns(Columns):
    """Columns under construction, a part for each chunk of the body."""

    def __init__(self) -> None:
        super().__init__()
        self.payload: dict[int, bytes] = {}
        self._names: list[str | None] = []
        self._keywords: list[Keywords] = []
        self._points: list[Float64] = []

    def add(self, ids: list[str | None], keywords: Keywords, points: Float64) -> None:
        self.count += len(ids)
        self._names += ids
        self._keywords.append(keywords)
        self._points.append(points)

    def keep(self, at: int, payload: bytes | None) -> None:
        if payload is not None:
            self.payload[at] = payload

    def command(self, skip: bool) -> tuple[Post, list[int] | None]:
        """The command without the elements that have errors, and the places of the others if there were such."""
        at = now()
        if not self.count:
            return Post([], Keywords.of([]), np.empty((0, 2)), at, skip=skip), None
        points = self._points[0] if len(self._points) == 1 else np.concatenate(self._points)
        ids, keywords = named_all(self._names, "p"), Keywords.joined(self._keywords)
        return self.kept(Post(ids, keywords, points, at, self.payload, skip))


def _plain_posts(items: list[Any]) -> Post | None:
    """The posts of validated elements without payloads and with sound keywords, in which nothing else can be wrong;
    otherwise None."""
    if any("payload" in item for item in items):
        return None
    keywords = plain_keywords(items)
    if keywords is None or not keywords.sound:
        return None
    ids, points = [item.get("id") for item in items], np.array([item["location"] for item in items], np.float64)
    return Post(named_all(ids, "p"), keywords, points, now(), skip=True, apart=True)


def texts_of(batch: pa.RecordBatch, start: int, wrong: ElementErrors) -> pa.StringArray | None:
    """The texts of an Arrow batch, if it has such; one that is too long is noted."""
    texts = strings(batch, "text")
    if texts is not None:
        long = pc.greater(pc.utf8_length(texts), MOST_TEXT).fill_null(False)
        at = np.flatnonzero(np.asarray(long)).tolist()
        wrong += [ElementError(start + i, "text", f"must be at most {MOST_TEXT} characters") for i in at]
        texts = pc.if_else(long, "", texts) if at else texts
    return texts
