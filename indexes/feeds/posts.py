"""The posts of the window as responses have them, by number and by id.

The newest are in a list; older ones in pieces of columns, which are never changed, and dropped when the window has
passed them. The map of ids holds the lower bits of a post's number.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from indexes.core.arrays import Floats, Ints
from indexes.core.ids import IdMap
from indexes.feeds.config import Keywords
from indexes.feeds.results import PostView

PIECE = 1_024
"""Posts of a piece."""

LOWER = (1 << 31) - 1
"""A mask of the lower bits; windows have fewer posts."""


class Piece(NamedTuple):
    """Posts by column, with numbers from `first` on, including those withdrawn since."""

    first: int
    seq: Ints
    at: Ints
    ids: pa.StringArray
    keywords: Keywords
    points: Floats
    payload: pa.BinaryArray

    def view(self, number: int) -> PostView:
        """The view of a post. O(its words)."""
        i = number - self.first
        (shown,) = self.keywords.part(i, i + 1).shown()
        x, y = self.points[i].tolist()
        seq, at = int(self.seq[i]), int(self.at[i])
        return PostView(number, seq, self.ids[i].as_py(), shown, (x, y), at, self.payload[i].as_py())


def piece_of(views: list[PostView]) -> Piece:
    """Posts with consecutive numbers, by column. O(words)."""
    return Piece(
        views[0].number if views else 0,
        np.array([view.seq for view in views], np.int64),
        np.array([view.at for view in views], np.int64),
        pa.array([view.id for view in views], pa.string()),
        Keywords.of([view.keywords for view in views]),
        np.array([view.location for view in views], np.float64).reshape(-1, 2),
        pa.array([view.payload for view in views], pa.binary()),
    )


class Posts:
    """Posts with numbers `first` to `next` - 1, except those that are `gone`: withdrawn."""

    def __init__(self) -> None:
        self.first = 0
        self.next = 0
        self.gone: set[int] = set()
        self.ids = IdMap()
        self._pieces: list[Piece] = []
        self._firsts: list[int] = []
        self._newest: list[PostView] = []

    def __len__(self) -> int:
        return self.next - self.first - len(self.gone)

    def find(self, key: str) -> int:
        """The number of the post with an id, or -1."""
        row = self.ids.find(key)
        return -1 if row < 0 else self.first + ((row - self.first) & LOWER)

    def view(self, number: int) -> PostView:
        """The view of a post that is there, or was until after the last `trim`. The newest have one view each."""
        before = self.next - len(self._newest)
        if number >= before:
            return self._newest[number - before]
        return self._pieces[bisect_right(self._firsts, number) - 1].view(number)

    def at(self, number: int) -> int:
        """The time of a post. O(log n)."""
        before = self.next - len(self._newest)
        if number >= before:
            return self._newest[number - before].at
        piece = self._pieces[bisect_right(self._firsts, number) - 1]
        return int(piece.at[number - piece.first])

    @property
    def oldest_at(self) -> int | None:
        """The time of the oldest post, or None. O(withdrawn posts before it)."""
        number = self.first
        while number < self.next and number in self.gone:
            number += 1
        return self.at(number) if number < self.next else None

    def after(self, key: str | None, limit: int) -> list[PostView]:
        """Up to `limit` posts in order of id, after `key`."""
        return [self.view(self.first + ((row - self.first) & LOWER)) for _, row in islice(self.ids.after(key), limit)]

    def append(self, view: PostView) -> None:
        """Append the next post, whose id is free."""
        self.ids.insert(view.id, view.number & LOWER)
        self._newest.append(view)
        self.next += 1

    def withdraw(self, number: int) -> None:
        """Withdraw a post."""
        self.ids.delete(self.view(number).id)
        self.gone.add(number)

    def expire(self, first: int) -> None:
        """Expire the posts before this one; their views remain until `trim`."""
        number, end = self.first, min(first, self.next)
        while number < end:
            if number in self.gone:
                # It may lie in no piece.
                self.gone.discard(number)
                number += 1
                continue
            keys = self._ids(number, end)
            for at, key in enumerate(keys, number):
                if at in self.gone:
                    self.gone.discard(at)
                else:
                    self.ids.delete(key)
            number += len(keys)
        self.first = max(self.first, first)

    def _ids(self, number: int, end: int) -> list[str]:
        """The ids of this post and of those after it in its piece, before `end`."""
        before = self.next - len(self._newest)
        if number >= before:
            return [view.id for view in self._newest[number - before : end - before]]
        piece = self._pieces[bisect_right(self._firsts, number) - 1]
        found: list[str] = piece.ids.slice(number - piece.first, end - number).to_pylist()
        return found

    def trim(self) -> None:
        """Drop pieces that have expired, and move older posts of the list to a piece."""
        while len(self._newest) >= 2 * PIECE:
            piece = piece_of(self._newest[:PIECE])
            del self._newest[:PIECE]
            self._pieces.append(piece)
            self._firsts.append(piece.first)
        passed = bisect_right(self._firsts, self.first) - 1
        if passed > 0:
            del self._pieces[:passed], self._firsts[:passed]
        if self._pieces and self.next - len(self._newest) <= self.first:
            self._pieces.clear()
            self._firsts.clear()
        if not self._pieces:
            del self._newest[: max(0, self.first - self.next + len(self._newest))]

    def pieces(self) -> list[Piece]:
        """All posts in columns, and perhaps some that have expired. O(PIECE)."""
        return [*self._pieces, *([piece_of(self._newest)] if self._newest else [])]

    def load(self, first: int, after: int, pieces: Iterator[Piece]) -> None:
        """Restore posts, where there are none: pieces of posts with consecutive numbers, in order; numbers between them
        are `gone`. O(n)."""
        self.first = self.next = first
        for piece in pieces:
            self.gone.update(range(self.next, piece.first))
            for i, key in enumerate(piece.ids.to_pylist(), piece.first):
                self.ids.insert(key, i & LOWER)
            self._pieces.append(piece)
            self._firsts.append(piece.first)
            self.next = piece.first + len(piece.seq)
        self.gone.update(range(self.next, after))
        if self.next < after:
            # Numbers continue after the last piece.
            self._pieces.append(_nothing(self.next, after))
            self._firsts.append(self.next)
            self.next = after
        if self.ids.crowded:
            self.ids.swap(self.ids.merged())

    def check(self) -> None:
        """Raise AssertionError unless all parts agree."""
        self.ids.check()
        assert len(self.ids) == len(self), "an id of nothing, or a post without one"
        assert all(self.first <= number < self.next for number in self.gone), "a withdrawn post has expired"
        for number in range(self.first, self.next):
            if number not in self.gone:
                view = self.view(number)
                assert view.number == number and self.find(view.id) == number, "a post under another number"


def _nothing(first: int, end: int) -> Piece:
    n = end - first
    none = np.zeros(n, np.int64)
    keywords = Keywords(none, pa.array([], pa.string()), np.empty(0))
    return Piece(first, none, none, pa.array([""] * n), keywords, np.zeros((n, 2)), pa.nulls(n, pa.binary()))
