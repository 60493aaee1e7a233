"""A feed as the service has it, by brute force, in plain Python.

Ids, keywords as they are shown, what is refused, and what stands at each seq. Scores, idf and epochs are those of
`tests.oracles.feeds`.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any

from tests.oracles.feeds import Ask, FeedOracle

Shown = list[str] | dict[str, float]


@dataclass(frozen=True)
class Posted:
    """A post: `number` counts all of the feed."""

    number: int
    seq: int
    id: str
    keywords: Any
    place: tuple[float, float]
    at: int
    payload: bytes | None


@dataclass(frozen=True)
class Subscribed:
    keywords: Any
    place: tuple[float, float]
    k: int
    alpha: float
    ttl: float | None


@dataclass
class FeedService:
    """What stands at `seq`."""

    oracle: FeedOracle
    seq: int = 0
    now: int = 0
    posts: dict[str, Posted] = field(default_factory=dict)
    subscriptions: dict[str, Subscribed] = field(default_factory=dict)

    def copy(self) -> FeedService:
        """The same, to go on from in another way."""
        oracle = copy(self.oracle)
        oracle.window, oracle.asks = list(oracle.window), dict(oracle.asks)
        return replace(self, oracle=oracle, posts=dict(self.posts), subscriptions=dict(self.subscriptions))

    def post(self, id: str, keywords: Shown, place: tuple[float, float], at: int, payload: bytes | None) -> int:
        """A post whose id is free comes; in how many lists it is right after that."""
        assert id not in self.posts
        self.seq, self.now = self.seq + 1, max(self.now, at)
        number = self.oracle.came
        reached = self.oracle.post(bag(keywords), place, self.now)
        self.posts[id] = Posted(number, self.seq, id, keywords, place, self.now, payload)
        self._drop()
        return reached

    def would_expire(self, at: int) -> bool:
        """Whether a tick at this time takes a post out of the window."""
        span = self.oracle.span
        return span is not None and any(post.time <= max(self.now, at) - span for post in self.oracle.window)

    def tick(self, at: int) -> None:
        self.seq, self.now = self.seq + 1, max(self.now, at)
        self.oracle.tick(self.now)
        self._drop()

    def withdraw(self, id: str) -> None:
        self.seq += 1
        gone = self.posts.pop(id)
        self.oracle.window = [post for post in self.oracle.window if post.number != gone.number]

    def set(self, id: str, one: Subscribed) -> None:
        self.seq += 1
        self.subscriptions[id] = one
        self.oracle.asks[id] = Ask(bag(one.keywords), one.place, one.k, one.alpha)

    def unsubscribe(self, id: str) -> None:
        self.seq += 1
        del self.subscriptions[id], self.oracle.asks[id]

    def lists(self) -> dict[str, list[tuple[Posted, float]]]:
        """Every list, best first, with scores."""
        by_number = {post.number: post for post in self.posts.values()}
        return {id: [(by_number[number], score) for number, score in self.oracle.list(id)] for id in self.subscriptions}

    def _drop(self) -> None:
        there = {post.number for post in self.oracle.window}
        self.posts = {id: post for id, post in self.posts.items() if post.number in there}


def bag(shown: Shown) -> dict[str, float]:
    """The weights of words, in code-point order: in a list a word weighs as often as it is there."""
    words = shown if isinstance(shown, list) else list(shown)
    return {word: float(words.count(word)) if isinstance(shown, list) else shown[word] for word in sorted(set(words))}
