"""The pending state of posts: those of the window once all accepted commands have been applied.

Posts get their numbers when they are accepted. Which of them will have expired follows from the numbers in a window of
posts, and from the time of the last accepted tick in a window of time.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from indexes.core.pending import PendingValues
from indexes.feeds.posts import Posts

Undo = list[tuple[str, tuple[int, int] | None]]

GONE = -1
EVER = -(1 << 62)


class Before(NamedTuple):
    """The state before a command was accepted, to which `roll_back` returns."""

    next: int
    now: int
    cut: int


class Batch(NamedTuple):
    """Posts of an accepted command: numbers `first` to `end` - 1, at one time."""

    first: int
    end: int
    at: int


class PendingPosts:
    """The pending state of posts. `next` is the number of the next post to be accepted, `now` the latest time; posts as
    old as `cut` will have expired. `window` is the number of posts of the window, None for a window of time."""

    def __init__(self, window: int | None, posts: Posts, now: int) -> None:
        self._window = window
        self._posts = posts
        self.next = posts.next
        self.now = now
        self.cut = EVER
        self._by_id: PendingValues[int] = PendingValues()
        self._batches: deque[Batch] = deque()
        self._struck: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._by_id) or bool(self._batches) or bool(self._struck)

    @property
    def before(self) -> Before:
        """The present state, to take the next command back."""
        return Before(self.next, self.now, self.cut)

    def find(self, key: str) -> int:
        """The number of the pending post with an id, or -1. O(log n)."""
        entry = self._by_id.get(key)
        number = entry if entry is not None else self._posts.find(key)
        return number if number >= 0 and self._stays(number) else GONE

    def _stays(self, number: int) -> bool:
        if self._window is not None:
            return number >= self.next - self._window
        # The posts of the command that is being accepted are of the present time.
        accepted = self._batches[-1].end if self._batches else self._posts.next
        return number >= accepted or self._at(number) > self.cut

    def _at(self, number: int) -> int:
        if number < self._posts.next:
            return self._posts.at(number)
        return self._batches[bisect_right(self._batches, number, key=lambda batch: batch.first) - 1].at

    def expires(self, cut: int) -> bool:
        """Whether a pending post is as old as this. O(posts that are)."""
        posts, struck = self._posts, self._struck
        for number in range(posts.first, posts.next):
            if number in posts.gone:
                # Its time may be lost.
                continue
            at = posts.at(number)
            if at > cut:
                return False
            if at > self.cut and number not in struck:
                return True
        for batch in self._batches:
            if batch.at > cut:
                return False
            numbers = range(max(batch.first, posts.next), batch.end)
            if batch.at > self.cut and any(number not in struck for number in numbers):
                return True
        return False

    def post(self, owner: int, key: str, undo: Undo) -> None:
        """The command `owner` will publish a post with this id next."""
        self._by_id.put(owner, key, self.next, undo)
        self.next += 1

    def are_new(self, keys: Sequence[str]) -> bool:
        """Whether no post has one of these ids, pending, applied or expired by pending ones, and none is there twice:
        all of them can be posted then. O(n log n)."""
        waiting = self._by_id.entries
        return (
            len(set(keys)) == len(keys)
            and (not waiting or waiting.keys().isdisjoint(keys))
            and self._posts.have_none(keys)
        )

    def post_new(self, owner: int, keys: Sequence[str], undo: Undo) -> None:
        """The command `owner` will publish posts with these ids, which are new, next."""
        if len(keys) == 1:
            self.post(owner, keys[0], undo)
            return
        first, self.next = self.next, self.next + len(keys)
        self._by_id.put_new(owner, keys, range(first, self.next), undo)

    def posted(self, first: int, at: int) -> None:
        """All posts of a command, from this number on, have been accepted, at this time."""
        self._batches.append(Batch(first, self.next, at))
        self.now = at

    def withdraw(self, owner: int, key: str, number: int, undo: Undo) -> None:
        """The command `owner` will withdraw a pending post."""
        self._by_id.put(owner, key, GONE, undo)
        self._struck.add(number)

    def tick(self, now: int, cut: int) -> None:
        """A command will expire posts as old as `cut`."""
        self.now, self.cut = now, cut

    def settle(self, owner: int, undo: Undo) -> None:
        """The command `owner` has been applied."""
        self._by_id.settle(owner, undo)
        while self._batches and self._batches[0].end <= self._posts.next:
            self._batches.popleft()
        if self._struck:
            self._struck = {n for n in self._struck if n >= self._posts.first and n not in self._posts.gone}

    def roll_back(self, owner: int, undo: Undo, struck: list[int], before: Before) -> None:
        """Take the newest command back."""
        self._by_id.roll_back(undo)
        self._struck.difference_update(struck)
        self.next, self.now, self.cut = before
        while self._batches and self._batches[-1].end > self.next:
            self._batches.pop()
