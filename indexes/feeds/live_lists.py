"""Live subscriptions of a feed: their lists as last published, and the changes since."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from indexes.feeds.feed import FeedIndex
from indexes.feeds.posts import Posts
from indexes.feeds.report import ChangedLists
from indexes.feeds.results import Change, Entry, ListChange, PostView


class Known(NamedTuple):
    """The list of a live subscription as last published: by number of a post its rank, score and id."""

    id: str
    ranks: dict[int, tuple[int, float, str]]


class Views:
    """Views of posts, each made once. For one slice."""

    def __init__(self, posts: Posts) -> None:
        self._posts = posts
        self._made: dict[int, PostView] = {}

    def entries(self, numbers: Iterable[int], scores: Iterable[float]) -> list[Entry]:
        """The entries of a list of posts with these scores."""
        return [Entry(self.view(number), score) for number, score in zip(numbers, scores, strict=True)]

    def view(self, number: int) -> PostView:
        """The view of a post."""
        view = self._made.get(number)
        if view is None:
            view = self._made[number] = self._posts.view(number)
        return view


class Live:
    """The live subscriptions, by slot. A subscription that becomes live during a step begins with the list after it, so
    the changes of that step are not published for it."""

    def __init__(self, index: FeedIndex, posts: Posts) -> None:
        self._index = index
        self._posts = posts
        self.known: dict[int, Known] = {}
        self._begun: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self.known)

    def begin(self, slot: int, key: str) -> None:
        """Make a subscription live."""
        self._index.follow(slot)
        numbers, scores = self._index.list(slot)
        self.known[slot] = Known(key, _ranks(Views(self._posts).entries(numbers.tolist(), scores.tolist())))
        self._begun.add(slot)

    def end(self, slot: int) -> None:
        """Make a subscription no longer live."""
        if self.known.pop(slot, None) is not None:
            self._index.follow(slot, False)

    def drop(self, slot: int) -> None:
        """Forget a subscription that was removed."""
        self.known.pop(slot, None)

    def step(self) -> None:
        """Begin a step."""
        self._begun.clear()

    def changes(self, changed: ChangedLists, first_seq: int, views: Views) -> list[ListChange]:
        """The changes of lists by a step, whose first post, or all of which, has the seq `first_seq`."""
        found, begin = [], 0
        for at, slot, end in zip(changed.step.tolist(), changed.slot.tolist(), changed.end.tolist(), strict=True):
            if slot in self.known and slot not in self._begun:
                rows = zip(changed.post[begin:end].tolist(), changed.score[begin:end].tolist(), strict=True)
                found += self._change(slot, first_seq + at, rows, views)
            begin = end
        return found

    def change(self, slot: int, seq: int, views: Views) -> list[ListChange]:
        """The change of the list of a subscription that has just been replaced."""
        if slot not in self.known:
            return []
        numbers, scores = self._index.list(slot)
        return self._change(slot, seq, zip(numbers.tolist(), scores.tolist(), strict=True), views)

    def _change(self, slot: int, seq: int, rows: Iterable[tuple[int, float]], views: Views) -> list[ListChange]:
        """The change of a list that has these posts and scores now. Only entries that are new are looked up."""
        id, old = self.known[slot]
        new: dict[int, tuple[int, float, str]] = {}
        entered = []
        for rank, (number, score) in enumerate(rows, 1):
            before = old.get(number)
            if before is not None and before[1] == score:
                new[number] = (rank, score, before[2])
            else:
                post = views.view(number)
                new[number] = (rank, score, post.id)
                entered.append(Change(post.id, None if before is None else before[0], rank, Entry(post, score)))
        self.known[slot] = Known(id, new)
        left = [Change(key, rank, None, None) for number, (rank, _, key) in old.items() if number not in new]
        return [ListChange(seq, id, left + entered)] if left or entered else []


def _ranks(entries: list[Entry]) -> dict[int, tuple[int, float, str]]:
    return {entry.post.number: (rank, entry.score, entry.post.id) for rank, entry in enumerate(entries, 1)}
