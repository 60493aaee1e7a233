"""Tasks of `spark_jobs.rebuild.feeds`: one cuts the places of subscriptions into cells, each of the others counts the
words of some posts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import fs

from formats.feeds import read_posts, read_subscriptions
from formats.folder import Folder
from indexes.feeds.packing import CELLS, PackedFeed, Statistics, pack_cells, pack_statistics, unpack_statistics
from indexes.feeds.state import cells_of
from spark_jobs.common.parts import Batches, Packed, write_parts

PER_TASK = 250_000
"""Posts whose words a task counts, approximately."""


def parts_of(about: dict[str, Any]) -> int:
    """The number of tasks for a feed; `about` is its entry in the manifest."""
    return 1 + max(1, -(-int(about["posts"]) // PER_TASK))


def pack(
    batches: Batches, system: fs.FileSystem, snapshot: str, name: str, about: dict[str, Any], pieces: str
) -> Batches:
    """Write the parts with the numbers in `batches`: part 0 has the cells, each of the others the words of every n-th
    post."""
    folder = Folder(system, snapshot)

    def packed(number: int) -> PackedFeed:
        if number == 0:
            return pack_cells(cells_of(read_subscriptions(folder, name, about)))
        posts = read_posts(folder, name, about)
        keywords = posts.keywords.take(list(range(number - 1, len(posts), parts_of(about) - 1)))
        owner = np.repeat(np.arange(len(keywords)), np.diff(keywords.end, prepend=0))
        rows = pa.table({"word": keywords.column(), "owner": pa.array(owner)})
        once = rows.group_by(["word", "owner"]).aggregate([])
        return pack_statistics(_summed(once["word"], np.ones(len(once), np.int64)))

    yield from write_parts(batches, Folder(system, pieces), packed)


def join(parts: Sequence[Packed]) -> PackedFeed:
    """Join all parts to an image."""
    cells, *counted = parts
    some = [unpack_statistics(dict(part)) for part in counted]
    words = pa.array([word for one in some for word in one.words], pa.string())
    df = np.concatenate([np.empty(0, np.int64), *(one.df for one in some)])
    return {**pack_statistics(_summed(words, df)), CELLS: cells[CELLS]}


def _summed(words: Any, df: np.ndarray[Any, Any]) -> Statistics:
    """The sums by word, in order of the words."""
    rows = pa.table({"word": words, "df": pa.array(df.astype(np.int64))})
    summed = rows.group_by("word").aggregate([("df", "sum")]).sort_by("word")
    return Statistics(summed["word"].to_pylist(), summed["df_sum"].to_numpy().astype(np.int32))
