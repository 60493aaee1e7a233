"""Live subscriptions of a feed: what was told of their lists, and how each list differs from that."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from indexes.feeds.feed import FeedIndex, Told
from indexes.feeds.posts import Posts
from indexes.feeds.views import Change, Entry, ListChange, PostView


class Known(NamedTuple):
    """The list of a live subscription as its readers know it: by number of a post its rank, score and id."""

    id: str
    ranks: dict[int, tuple[int, float, str]]


class Views:
    """Posts as they are shown, each made once. For one slice."""

    def __init__(self, posts: Posts) -> None:
        self._posts = posts
        self._made: dict[int, PostView] = {}

    def entries(self, numbers: Iterable[int], scores: Iterable[float]) -> list[Entry]:
        """A list of posts with their scores, as it is shown."""
        return [Entry(self.view(number), score) for number, score in zip(numbers, scores, strict=True)]

    def view(self, number: int) -> PostView:
        """A post."""
        view = self._made.get(number)
        if view is None:
            view = self._made[number] = self._posts.view(number)
        return view


class Live:
    """The live subscriptions, by slot. A list that is begun while a step is under way is as after it: nothing of that
    step is told of it."""

    def __init__(self, index: FeedIndex, posts: Posts) -> None:
        self._index = index
        self._posts = posts
        self.known: dict[int, Known] = {}
        self._begun: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self.known)

    def begin(self, slot: int, key: str) -> None:
        """A subscription is live from now on."""
        self._index.follow(slot)
        numbers, scores = self._index.list(slot)
        self.known[slot] = Known(key, _ranks(Views(self._posts).entries(numbers.tolist(), scores.tolist())))
        self._begun.add(slot)

    def end(self, slot: int) -> None:
        """It is live no longer."""
        if self.known.pop(slot, None) is not None:
            self._index.follow(slot, False)

    def gone(self, slot: int) -> str | None:
        """A subscription has gone, and its slot with it: its id, if it was live."""
        known = self.known.pop(slot, None)
        return None if known is None else known.id

    def step(self) -> None:
        """A step begins."""
        self._begun.clear()

    def hear(self, told: Told, first_seq: int, views: Views) -> list[ListChange]:
        """What readers hear of a step: its first post, or all of it, has the seq `first_seq`."""
        heard, begin = [], 0
        for at, slot, end in zip(told.step.tolist(), told.slot.tolist(), told.end.tolist(), strict=True):
            if slot in self.known and slot not in self._begun:
                rows = zip(told.post[begin:end].tolist(), told.score[begin:end].tolist(), strict=True)
                heard += self._change(slot, first_seq + at, rows, views)
            begin = end
        return heard

    def look(self, slot: int, seq: int, views: Views) -> list[ListChange]:
        """What readers of a subscription that has just been changed hear."""
        if slot not in self.known:
            return []
        numbers, scores = self._index.list(slot)
        return self._change(slot, seq, zip(numbers.tolist(), scores.tolist(), strict=True), views)

    def _change(self, slot: int, seq: int, rows: Iterable[tuple[int, float]], views: Views) -> list[ListChange]:
        """A list has these posts and scores now. Only posts that are told are looked up."""
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
