"""The image of a feed, as parts (`indexes.core.packing`): word frequencies and the quadtree of the subscriptions.

They determine the layout of the subscription index. Its lists are in order of thetas, which change with every post, so
they are built when the image is loaded, in a few microseconds for each subscription.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.core.arrays import Bytes, Ints32
from indexes.core.packing import PackedPart, packed, unpacked
from indexes.feeds.kernels.cells import Cells

STATISTICS, CELLS = "statistics", "cells"

PackedFeed = dict[str, PackedPart]


class Statistics(NamedTuple):
    """Words, ascending, and how many posts of a window contain each of them."""

    words: list[str]
    df: Ints32


class Layout(NamedTuple):
    """The layout of the subscription index of a feed."""

    statistics: Statistics
    cells: Cells


class _Columns(NamedTuple):
    text: Bytes
    end: NDArray[np.int64]
    df: Ints32


def pack_statistics(statistics: Statistics) -> PackedFeed:
    """Statistics by name: the words in UTF-8, one after the other."""
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
    """The inverse of `pack_layout`. Raises KeyError, TypeError or ValueError for an invalid image."""
    return Layout(unpack_statistics(image), unpacked(Cells, image[CELLS]))


def unpack_statistics(image: PackedFeed) -> Statistics:
    """The inverse of `pack_statistics`. Raises KeyError, TypeError or ValueError for an invalid image."""
    columns: Any = unpacked(_Columns, image[STATISTICS])
    text = columns.text.tobytes()
    bounds = [0, *columns.end.tolist()]
    words = [text[begin:end].decode() for begin, end in pairwise(bounds)]
    return Statistics(words, columns.df)
