"""What the tasks of `spark_jobs.feeds` do: count in how many posts each word is, each task those of some posts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import fs

from formats.feeds import read_posts
from formats.folder import Folder
from indexes.feeds.packing import PackedFeed, Statistics, pack_statistics, unpack_statistics
from spark_jobs.parts import Batches, Packed, write_parts

PER_TASK = 250_000
"""Posts whose words a task counts, about."""


def parts_of(about: dict[str, Any]) -> int:
    """Tasks for a feed that the manifest says `about`."""
    return max(1, -(-int(about["posts"]) // PER_TASK))


def count_words(
    batches: Batches, system: fs.FileSystem, snapshot: str, name: str, about: dict[str, Any], pieces: str
) -> Batches:
    """Count the words of the parts whose numbers come in: posts with that number, and every so many behind."""

    def counted(number: int) -> PackedFeed:
        posts = read_posts(Folder(system, snapshot), name, about)
        keywords = posts.keywords.take(list(range(number, len(posts), parts_of(about))))
        owner = np.repeat(np.arange(len(keywords)), np.diff(keywords.end, prepend=0))
        rows = pa.table({"word": keywords.word, "owner": pa.array(owner)})
        once = rows.group_by(["word", "owner"]).aggregate([])
        return pack_statistics(_summed(once["word"], np.ones(len(once), np.int64)))

    yield from write_parts(batches, Folder(system, pieces), counted)


def joined(parts: Sequence[Packed]) -> PackedFeed:
    """The image of all parts."""
    some = [unpack_statistics(dict(part)) for part in parts]
    words = pa.array([word for one in some for word in one.words], pa.string())
    return pack_statistics(_summed(words, np.concatenate([np.empty(0, np.int64), *(one.df for one in some)])))


def _summed(words: Any, df: np.ndarray[Any, Any]) -> Statistics:
    """The sums by word, in order of the words."""
    rows = pa.table({"word": words, "df": pa.array(df.astype(np.int64))})
    summed = rows.group_by("word").aggregate([("df", "sum")]).sort_by("word")
    return Statistics(summed["word"].to_pylist(), summed["df_sum"].to_numpy().astype(np.int32))
