"""The top k of many ranges at once, for the audit: plain numpy that shares no code with the service.

Objects are numbered by rank, best first. A range [l, r] holds those at positions a..b-1 in order of x, found by two
binary searches. Narrow ranges fetch the ranks of all that they hold and keep the k smallest. Wide ones walk the objects
in rank order, in blocks, and keep the first k that lie at a position from a to b - 1; a range that has its k drops out.
Ranges are processed by ascending width, so that those of a batch need about as much work.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_CELLS = 1 << 19
"""Comparisons made at once; a few MB, to stay in the processor's cache."""


class Ranked(NamedTuple):
    """The objects of a board, at 20 bytes each."""

    x: NDArray[np.float64]
    """Ascending."""
    rank: NDArray[np.int32]
    """The rank of the object at each position in order of x."""
    position: NDArray[np.uint32]
    """The position in order of x of the object of each rank."""
    row: NDArray[np.int32]
    """The row in the snapshot of the object of each rank."""


class Lists(NamedTuple):
    """Lists of any lengths, one after the other."""

    length: NDArray[np.int64]
    values: NDArray[np.int32]


def rank(
    x: NDArray[np.float64], y: NDArray[np.float64], created: NDArray[np.int64], row: NDArray[np.int32], descending: bool
) -> Ranked:
    """Objects by column, in any order. The better y first (the larger, if `descending`), then the older."""
    best_first = np.lexsort((created, -y if descending else y))
    by_x = np.argsort(x[best_first], kind="stable")
    position = np.empty(len(x), np.uint32)
    position[by_x] = np.arange(len(x), dtype=np.uint32)
    return Ranked(x[best_first][by_x], by_x.astype(np.int32), position, row[best_first].astype(np.int32))


def top(objects: Ranked, l: NDArray[np.float64], r: NDArray[np.float64], k: NDArray[np.int32]) -> Lists:
    """The ranks of the best k objects with l <= x <= r, ascending, for each range; fewer where there are fewer."""
    a = np.searchsorted(objects.x, l, "left")
    width = np.maximum(np.searchsorted(objects.x, r, "right") - a, 0)
    length = np.minimum(width, k)
    first = np.cumsum(length) - length
    values = np.empty(int(length.sum()), np.int32)
    for most in np.unique(k).tolist():
        mine = np.flatnonzero((k == most) & (length > 0))
        mine = mine[np.argsort(width[mine], kind="stable")]
        done = 0
        while done < len(mine):
            size = _together(width[mine[done:]], most, len(objects.x))
            some = mine[done : done + size]
            longest = int(length[some].max())
            search = _fetch if _narrow(int(width[some[-1]]), most, len(objects.x)) else _walk
            found = search(objects, a[some].astype(np.uint32), width[some].astype(np.uint32), longest)
            there = np.arange(longest) < length[some, None]
            values[(first[some, None] + np.arange(longest))[there]] = found[there]
            done += size
    return Lists(length, values)


def differing(expected: Lists, found: Lists) -> NDArray[np.bool_]:
    """Which lists differ, in length or in any value."""
    differ: NDArray[np.bool_] = expected.length != found.length
    left = np.repeat(~differ, expected.length)
    right = np.repeat(~differ, found.length)
    owner = np.repeat(np.arange(len(differ)), np.where(differ, 0, expected.length))
    differ[owner[expected.values[left] != found.values[right]]] = True
    return differ


def _narrow(width: int, k: int, n: int) -> bool:
    """Whether fetching all is less work than walking: `width` against about k n / width."""
    return width * width <= 2 * k * n


def _together(width: NDArray[Any], k: int, n: int) -> int:
    """How many of the ranges with these ascending widths to handle at once: similar ones, and not too many."""
    least = int(width[0])
    narrow = _narrow(least, k, n)
    each = max(k, 2 * least if narrow else _block(least, k, n))
    size = max(1, _CELLS // each)
    similar = int(np.searchsorted(width[:size], 2 * least, "right"))
    if narrow:  # all of them, or the work is misjudged
        similar = min(similar, max(1, int(np.searchsorted(width[:size] ** 2, 2 * k * n, "right"))))
    return similar


def _block(width: int, k: int, n: int) -> int:
    """How many ranks hold k of a range of that width, with some to spare."""
    return min(n, max(32, 3 * k * n // (2 * width)))


def _fetch(objects: Ranked, a: NDArray[np.uint32], width: NDArray[np.uint32], k: int) -> NDArray[np.int32]:
    """Lists of k, filled up with ranks beyond the last, by sorting the ranks of all that is in range."""
    n = len(objects.rank)
    step = np.arange(int(width.max()), dtype=np.uint32)
    ranks = objects.rank[np.minimum(a[:, None] + step, n - 1)]
    ranks[step >= width[:, None]] = n
    if k < ranks.shape[1]:
        ranks = np.partition(ranks, k - 1, axis=1)[:, :k]
    return np.sort(ranks, axis=1)


def _walk(objects: Ranked, a: NDArray[np.uint32], width: NDArray[np.uint32], k: int) -> NDArray[np.int32]:
    """Lists of k, filled up with ranks beyond the last, by walking the objects from the best on."""
    n = len(objects.rank)
    lists = np.full((len(a), k), n, np.int32)
    open_, have = np.arange(len(a)), np.zeros(len(a), np.int64)
    start, block = 0, _block(int(width.min()), k, n)
    while start < n and len(open_):
        positions = objects.position[start : start + block]
        hits = np.flatnonzero((positions - a[open_, None]) < width[open_, None])  # wraps around below a
        who, which = np.divmod(hits, len(positions))
        count = np.bincount(who, minlength=len(open_))
        slot = have[who] + np.arange(len(hits)) - (np.cumsum(count) - count)[who]
        kept = slot < k
        lists[open_[who[kept]], slot[kept]] = start + which[kept]
        have += count
        open_, have = open_[have < k], have[have < k]
        start += len(positions)
        block = max(block, min(n, _CELLS // max(len(open_), 1)))
    return lists
