"""Feeds by brute force, in plain Python: the definition, to be read as the specification.

Everything is worked out from all posts of the window whenever a list is asked for.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Post:
    number: int
    bag: dict[str, float]
    place: tuple[float, float]
    time: int


@dataclass
class Ask:
    bag: dict[str, float]
    place: tuple[float, float]
    k: int
    alpha: float


@dataclass
class FeedOracle:
    """A feed with a window of `posts` posts or of `span` time."""

    bounds: tuple[float, float, float, float]
    posts: int | None = None
    span: int | None = None
    tfidf: bool = True
    asks: dict[Any, Ask] = field(default_factory=dict)
    window: list[Post] = field(default_factory=list)
    came: int = 0
    idf: dict[str, float] | None = None
    """Of the words that the epoch knows; None before the first."""
    unknown: float = 1.0
    last: int = 0
    last_at: int | None = None
    expired: bool = False

    def post(self, bag: dict[str, float], place: tuple[float, float], now: int = 0) -> int:
        """Returns how many lists the post is in right after it."""
        number = self.came
        self.window.append(Post(number, bag, place, now))
        self.came += 1
        if self.posts is not None:
            self.window = [post for post in self.window if post.number > number - self.posts]
            doubled = 2 * self.last if self.last else 64
            due = doubled if self.last < doubled <= self.posts else self.last + self.posts
            if self.came == due:
                self.begin_epoch(now)
        elif not self.expired:
            if self.came == (2 * self.last if self.last else 64):
                self.begin_epoch(now)
        else:
            self.begin_late_epoch(now)
        return sum(any(n == number for n, _ in self.list(slot)) for slot in self.asks)

    def tick(self, now: int) -> None:
        before = len(self.window)
        self.window = [post for post in self.window if self.span is None or post.time > now - self.span]
        self.expired = self.expired or len(self.window) < before
        if self.expired:
            self.begin_late_epoch(now)

    def begin_late_epoch(self, now: int) -> None:
        if self.last_at is None or (self.span is not None and now - self.last_at >= self.span):
            self.begin_epoch(now)

    def begin_epoch(self, now: int) -> None:
        self.last, self.last_at = self.came, now
        words = {word for post in self.window for word in post.bag}
        df = {word: sum(word in post.bag for post in self.window) for word in words}
        n = max(1, len(self.window))
        self.idf = {word: math.log(1 + n / count) for word, count in df.items()}
        self.unknown = math.log(1 + n)

    def weights(self, bag: dict[str, float]) -> dict[str, float]:
        """Of unit length."""
        most = max(bag.values())
        values = {}
        for word in sorted(bag):
            idf = self.idf.get(word, self.unknown) if self.tfidf and self.idf is not None else 1.0
            values[word] = max(bag[word] / most, 1e-150) * idf
        length = math.sqrt(sum(value * value for value in values.values()))
        return {word: value / length for word, value in values.items()}

    def eligible(self, slot: Any) -> list[tuple[float, int]]:
        """Scores and numbers of all posts that share a word, best first."""
        ask = self.asks[slot]
        mine, found = self.weights(ask.bag), []
        x0, y0, x1, y1 = self.bounds
        for post in self.window:
            if ask.bag.keys() & post.bag.keys():
                theirs, text = self.weights(post.bag), 0.0
                for word in sorted(mine):
                    text += mine[word] * theirs.get(word, 0.0)
                dx, dy = ask.place[0] - post.place[0], ask.place[1] - post.place[1]
                near = max(0.0, 1.0 - math.sqrt(dx * dx + dy * dy) / math.hypot(x1 - x0, y1 - y0))
                found.append((ask.alpha * near + (1.0 - ask.alpha) * text, post.number))
        return sorted(found, key=lambda one: (-one[0], -one[1]))

    def list(self, slot: Any) -> list[tuple[int, float]]:
        """The k best posts and their scores."""
        return [(number, score) for score, number in self.eligible(slot)[: self.asks[slot].k]]
