"""Posts that a kernel cuts out of the JSON of requests: what is not surely valid is left to the validators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from pydantic_core import SchemaValidator

from app.api.ids import named_all
from app.streaming.bursts import Burst
from app.streaming.requests import FEWEST
from app.write_path.ticks import now
from indexes.feeds.commands import Post
from indexes.feeds.config import SPACE, Keywords, Spaced
from indexes.feeds.kernels.cut_posts import COUNT, IDS, LISTED, NAMES, TABLES, WORDS, CutPosts, cut_posts, room
from indexes.feeds.kernels.record import HEAD, HEAD_OF, WEIGHTS, Cutter
from indexes.feeds.kernels.window import WORDS_OF_ONE

_ENDS = [np.array([count]) for count in range(WORDS_OF_ONE + 1)]
"""Where the words of one post end, by how many there are."""


def posts_of_burst(burst: Burst) -> Post | None:
    """The posts of as many requests, from the first one on, as surely say nothing wrong; None where they are few.
    O(bytes)."""
    out = room(int(burst.spans[-1] - burst.spans[0]), len(burst.refs))
    count = cut_posts(burst.text, burst.spans, NAMES, TABLES, out)
    return _posts_of(out, count) if count >= FEWEST else None


def _posts_of(out: CutPosts, count: int) -> Post | None:
    """So many posts that were cut; None where one of them may be wrong after all."""
    size = out.size.tolist()
    texts = out.words[: size[WORDS]].tobytes().decode()
    if texts.casefold() != texts:
        return None
    # The window keeps the weights: what they were cut into has room for many more.
    words, weights = Spaced(texts, size[COUNT]), out.weights[: size[COUNT]].view(np.float64).copy()
    keywords = Keywords(out.word_end[:count], words, weights, sound=True, unweighted=size[LISTED])
    ids: list[str | None] = list(out.ids[: size[IDS]].tobytes().decode().split(SPACE)[:-1])
    if "" in ids:
        ids = [id or None for id in ids]
    points = out.places[: 2 * count].view(np.float64).reshape(count, 2)
    return Post(named_all(ids, "p"), keywords, points, now(), skip=True, apart=True)


def record_of(cutter: Cutter, body: bytes | bytearray) -> bytearray | None:
    """The record of the one post of a body; None where the body may have another one, or may be wrong. O(bytes)."""
    record = cutter.record(body)
    if record is None or body.isascii():
        return record
    words, _, _, text, _ = HEAD_OF.unpack_from(record)
    at = 8 * (WEIGHTS + words)
    try:
        texts = record[at : at + text].decode()
    except UnicodeDecodeError:
        return None
    return record if texts.casefold() == texts else None


def post_of_record(record: bytearray) -> Post:
    """The post of a record. O(words)."""
    words, unweighted, ordered, text, id = HEAD_OF.unpack_from(record)
    at = 8 * (WEIGHTS + words)
    end = at + text
    texts = record[at : end - 1].decode().split(SPACE)
    weights = np.ndarray((words,), np.float64, record, 8 * WEIGHTS)
    keywords = Keywords(_ENDS[words], texts, weights, True, unweighted, record if ordered else None)
    ids = [record[end:].decode()] if id else named_all([None], "p")
    return Post(ids, keywords, np.ndarray((1, 2), np.float64, record), now(), skip=True, apart=True)


def posts_of_records(records: Sequence[bytearray]) -> Post:
    """The posts of records. O(bytes)."""
    ids: list[str | None] = []
    counts, weights, texts, points, unweighted = [], [], [], [], 0
    for record in records:
        words, listed, _, text, id = HEAD_OF.unpack_from(record)
        at = 8 * (WEIGHTS + words)
        end = at + text
        counts.append(words)
        unweighted += listed
        points.append(record[: 8 * HEAD])
        weights.append(record[8 * WEIGHTS : at])
        texts.append(record[at:end])
        ids.append(record[end:].decode() if id else None)
    weight, point = (np.frombuffer(bytearray().join(pieces), np.float64) for pieces in (weights, points))
    spaced = Spaced(bytearray().join(texts).decode(), len(weight))
    keywords = Keywords(np.cumsum(counts), spaced, weight, sound=True, unweighted=unweighted)
    return Post(named_all(ids, "p"), keywords, point.reshape(-1, 2), now(), skip=True, apart=True)


class CuttingValidator:
    """Checks bodies of posts as `usual` does, except that the one post of most bodies becomes a record."""

    def __init__(self, cutter: Cutter, usual: SchemaValidator) -> None:
        self._cutter = cutter
        self.validate_python = usual.validate_python
        self._validate_json = usual.validate_json

    def validate_json(self, data: bytes | bytearray) -> Any:
        """The value of JSON text. Raises ValidationError."""
        record = record_of(self._cutter, data)
        return self._validate_json(data) if record is None else {"posts": [record]}
