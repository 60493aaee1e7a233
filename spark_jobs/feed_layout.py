"""What the tasks of `spark_jobs.feeds` do: one cuts the places of subscriptions into cells, the others count in how
many posts each word is, each those of some posts."""

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
from spark_jobs.parts import Batches, Packed, write_parts

PER_TASK = 250_000
"""Posts whose words a task counts, about."""


def parts_of(about: dict[str, Any]) -> int:
    """Tasks for a feed that the manifest says `about`."""
    return 1 + max(1, -(-int(about["posts"]) // PER_TASK))


def lay_out(
    batches: Batches, system: fs.FileSystem, snapshot: str, name: str, about: dict[str, Any], pieces: str
) -> Batches:
    """Lay out the parts whose numbers come in: of part 0 the cells, of the others the words of posts, each so many
    behind the one before."""
    folder = Folder(system, snapshot)

    def laid_out(number: int) -> PackedFeed:
        if number == 0:
            return pack_cells(cells_of(read_subscriptions(folder, name, about)))
        posts = read_posts(folder, name, about)
        keywords = posts.keywords.take(list(range(number - 1, len(posts), parts_of(about) - 1)))
        owner = np.repeat(np.arange(len(keywords)), np.diff(keywords.end, prepend=0))
        rows = pa.table({"word": keywords.word, "owner": pa.array(owner)})
        once = rows.group_by(["word", "owner"]).aggregate([])
        return pack_statistics(_summed(once["word"], np.ones(len(once), np.int64)))

    yield from write_parts(batches, Folder(system, pieces), laid_out)


def joined(parts: Sequence[Packed]) -> PackedFeed:
    """The image of all parts."""
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
