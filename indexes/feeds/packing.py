"""What a rebuild of a feed brings, as parts (`indexes.parts`): how rare words are, and the quadtree of subscriptions.

By these subscriptions are laid out. The lists themselves are in order of thetas, which change with every post: they
follow when the layout is put in place, which takes a few microseconds for each subscription.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.feeds.cells import Cells
from indexes.parts import PackedPart, packed, unpacked

STATISTICS, CELLS = "statistics", "cells"

PackedFeed = dict[str, PackedPart]


class Statistics(NamedTuple):
    """Words, ascending, and in how many posts of a window each of them is."""

    words: list[str]
    df: NDArray[np.int32]


class Layout(NamedTuple):
    """By what the subscriptions of a feed are laid out."""

    statistics: Statistics
    cells: Cells


class _Columns(NamedTuple):
    text: NDArray[np.uint8]
    end: NDArray[np.int64]
    df: NDArray[np.int32]


def pack_statistics(statistics: Statistics) -> PackedFeed:
    """Statistics by name: the words in UTF-8, one behind the other."""
    texts = [word.encode() for word in statistics.words]
    end = np.cumsum([len(text) for text in texts], dtype=np.int64)
    columns = _Columns(np.frombuffer(b"".join(texts), np.uint8), end, statistics.df.astype(np.int32))
    return {STATISTICS: packed(columns, {})}


def pack_cells(cells: Cells) -> PackedFeed:
    """A quadtree by name, over the same memory."""
    return {CELLS: packed(cells, {})}


def pack_layout(layout: Layout) -> PackedFeed:
    """The image of a feed."""
    return {**pack_statistics(layout.statistics), **pack_cells(layout.cells)}


def unpack_layout(image: PackedFeed) -> Layout:
    """What `pack_layout` was given. Raises KeyError, TypeError or ValueError where that is not what it made."""
    return Layout(unpack_statistics(image), unpacked(Cells, image[CELLS]))


def unpack_statistics(image: PackedFeed) -> Statistics:
    """What `pack_statistics` was given. Raises KeyError, TypeError or ValueError where that is not what it made."""
    columns: Any = unpacked(_Columns, image[STATISTICS])
    text = columns.text.tobytes()
    bounds = [0, *columns.end.tolist()]
    words = [text[begin:end].decode() for begin, end in pairwise(bounds)]
    return Statistics(words, columns.df)
