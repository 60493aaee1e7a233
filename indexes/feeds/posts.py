"""The posts of the window as responses have them, by number and by id.

They are kept in columns, which are never changed: the newest posts as a `Newest` for each step, older ones in pieces
that the columns of many steps are joined to. Columns are dropped once all of their posts have expired. The map of ids
holds the lower bits of a post's number.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from indexes.core.arrays import Floats, Ints
from indexes.core.ids import IdMap
from indexes.feeds.config import Keywords
from indexes.feeds.results import PostView

PIECE = 1_024
"""Posts of a piece, at least, that newest ones are joined to."""

RECENT = 1 << 14
"""Ids that stay in a dictionary, at least: each is looked for when its post comes and again when it expires."""

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


class Newest(NamedTuple):
    """Posts of one step: numbers from `first` and seqs from `seq` on, all at the time `at`. `payload` is by place."""

    first: int
    seq: int
    at: int
    ids: list[str]
    keywords: Keywords
    points: Floats
    payload: Mapping[int, bytes]

    def unlisted(self) -> Newest:
        """The same with keywords that are `Keywords.unlisted`, which take less memory. O(1)."""
        keywords = self.keywords.unlisted()
        return self if keywords is self.keywords else self._replace(keywords=keywords)

    def view(self, number: int) -> PostView:
        """The view of a post. O(its words)."""
        i = number - self.first
        (shown,) = self.keywords.part(i, i + 1).shown()
        x, y = self.points[i].tolist()
        return PostView(number, self.seq + i, self.ids[i], shown, (x, y), self.at, self.payload.get(i))

    def part(self, lo: int, hi: int) -> Newest:
        """The posts at places `lo` to `hi` - 1."""
        if not lo and hi == len(self.ids):
            return self
        payload = {i - lo: text for i, text in self.payload.items() if lo <= i < hi} if self.payload else self.payload
        keywords, points = self.keywords.part(lo, hi), self.points[lo:hi]
        return Newest(self.first + lo, self.seq + lo, self.at, self.ids[lo:hi], keywords, points, payload)

    def parts(self, most: int) -> list[Newest]:
        """Parts of at most so many posts, in order."""
        n = len(self.ids)
        return [self] if n <= most else [self.part(lo, min(n, lo + most)) for lo in range(0, n, most)]


def joined(steps: Sequence[Newest]) -> Piece:
    """The posts of steps that follow each other, at least one. O(words)."""
    sizes = [len(step.ids) for step in steps]
    numbers = np.arange(steps[0].first, steps[0].first + sum(sizes))
    payload: list[bytes | None] = [None] * sum(sizes)
    if any(step.payload for step in steps):
        payload = [step.payload.get(i) for step in steps for i in range(len(step.ids))]
    return Piece(
        steps[0].first,
        numbers + np.repeat(np.array([step.seq - step.first for step in steps], np.int64), sizes),
        np.repeat(np.array([step.at for step in steps], np.int64), sizes),
        pa.array([id for step in steps for id in step.ids], pa.string()),
        Keywords.joined([step.keywords for step in steps]).in_column(),
        np.concatenate([step.points for step in steps]),
        pa.array(payload, pa.binary()),
    )


class Posts:
    """Posts with numbers `first` to `next` - 1, except those that are `gone`: withdrawn."""

    def __init__(self) -> None:
        self.first = 0
        self.next = 0
        self.gone: set[int] = set()
        self.ids = IdMap(RECENT)
        self._pieces: list[Piece] = []
        self._firsts: list[int] = []
        self._newest: list[Newest] = []
        self._newest_firsts: list[int] = []
        self._expiring: tuple[int, list[str]] | None = None
        """The number of a post that has expired or expires next, and the ids from its own on: see `_ids`."""

    def __len__(self) -> int:
        return self.next - self.first - len(self.gone)

    def find(self, key: str) -> int:
        """The number of the post with an id, or -1."""
        row = self.ids.find(key)
        return -1 if row < 0 else self.first + ((row - self.first) & LOWER)

    def have_none(self, keys: Sequence[str]) -> bool:
        """Whether no post has one of these ids. O(log n) each."""
        return not keys or not self.ids.any_of(keys)

    def view(self, number: int) -> PostView:
        """The view of a post that is there, or was until after the last `trim`. O(log n + its words)."""
        return self._part(number).view(number)

    def at(self, number: int) -> int:
        """The time of a post. O(log n)."""
        part = self._part(number)
        return part.at if isinstance(part, Newest) else int(part.at[number - part.first])

    def _part(self, number: int) -> Newest | Piece:
        """The columns that a post is in."""
        if self._newest and number >= self._newest_firsts[0]:
            return self._newest[bisect_right(self._newest_firsts, number) - 1]
        return self._pieces[bisect_right(self._firsts, number) - 1]

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

    def append(self, step: Newest) -> None:
        """Append the next posts, whose ids are free."""
        end = self.next + len(step.ids)
        self.ids.insert_all(step.ids, _rows(self.next, end))
        self.next = end
        self._newest.append(step)
        self._newest_firsts.append(step.first)

    def withdraw(self, number: int) -> None:
        """Withdraw a post."""
        self.ids.delete(self.view(number).id)
        self.gone.add(number)

    def expire(self, first: int) -> None:
        """Expire the posts before this one; their views remain until `trim`."""
        number, end = self.first, min(first, self.next)
        if end == number + 1 and not self.gone:
            # As posts that come one by one expire.
            self.ids.delete(self._ids(number, end)[0])
            self.first = first
            return
        while number < end:
            if number in self.gone:
                # It may lie in no piece.
                self.gone.discard(number)
                number += 1
                continue
            keys = self._ids(number, end)
            upto = number + len(keys)
            if self.gone:
                keys = [key for at, key in enumerate(keys, number) if at not in self.gone]
                self.gone.difference_update(range(number, upto))
            self.ids.delete_all(keys)
            number = upto
        self.first = max(self.first, first)

    def _ids(self, number: int, end: int) -> list[str]:
        """The ids of this post and of some that follow, before `end`."""
        if self._expiring is None or not 0 <= number - self._expiring[0] < len(self._expiring[1]):
            # Posts that came one by one expire one by one: more ids than asked for are taken, and kept for next time.
            part = self._part(number)
            some = part.ids[number - part.first :][: max(PIECE, end - number)]
            self._expiring = number, some if isinstance(some, list) else some.to_pylist()
        first, ids = self._expiring
        return ids[number - first : end - first]

    def trim(self) -> None:
        """Drop what has expired, and join older ones of the newest posts to a piece."""
        newest, firsts = self._newest, self._newest_firsts
        while newest and self.next - firsts[0] >= 2 * PIECE:
            count = bisect_left(firsts, firsts[0] + PIECE)
            piece = joined(newest[:count])
            del newest[:count], firsts[:count]
            self._pieces.append(piece)
            self._firsts.append(piece.first)
        begin = firsts[0] if newest else self.next
        passed = bisect_right(self._firsts, self.first) - 1
        if passed > 0:
            del self._pieces[:passed], self._firsts[:passed]
        if self._pieces and begin <= self.first:
            self._pieces.clear()
            self._firsts.clear()
        if not self._pieces:
            count = bisect_right(firsts, self.first) - (self.first < self.next)
            if count > 0:
                del newest[:count], firsts[:count]

    def pieces(self) -> list[Piece]:
        """All posts in columns, and perhaps some that have expired. O(PIECE)."""
        return [*self._pieces, *([joined(self._newest)] if self._newest else [])]

    def load(self, first: int, after: int, pieces: Iterator[Piece]) -> None:
        """Restore posts, where there are none: pieces of posts with consecutive numbers, in order; numbers between them
        are `gone`. O(n)."""
        self.first = self.next = first
        for piece in pieces:
            self.gone.update(range(self.next, piece.first))
            self.ids.insert_all(piece.ids.to_pylist(), _rows(piece.first, piece.first + len(piece.seq)))
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


def _rows(first: int, end: int) -> Sequence[int]:
    """What the map of ids holds of posts with these numbers."""
    low, high = first & LOWER, end & LOWER
    return range(low, high) if low <= high else [number & LOWER for number in range(first, end)]


def _nothing(first: int, end: int) -> Piece:
    n = end - first
    none = np.zeros(n, np.int64)
    keywords = Keywords(none, pa.array([], pa.string()), np.empty(0))
    return Piece(first, none, none, pa.array([""] * n), keywords, np.zeros((n, 2)), pa.nulls(n, pa.binary()))
