"""Speed by index and buffer: of finding the recipients of posts, and of a whole feed, with its evaluations.

Rounds alternate, over the same posts, except for the prototype, whose own code generates posts by the same law.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from bench import prototypes
from bench.baselines.compared_feeds import BRUTE, CIQ, GROUPS, INVERTED, ComparedIndex
from bench.feeds.rounds import Round, feed_of, measure
from bench.feeds.workload import World, make_world
from bench.report import Report, count
from indexes.feeds.subscription_index import OrderedIndex, SubscriptionIndex
from indexes.feeds.theta import BUFFERS

OURS, THEIRS = "threshold-ordered, leaf 2000", "the prototype's"
GROUPED, WHOLE = "groups, leaf 8000", "a scan"


class Size(NamedTuple):
    """Subscriptions, posts of the window, of a round, rounds, posts of a scan's round, k."""

    subscriptions: int = 100_000
    window: int = 20_000
    posts: int = 2_000
    rounds: int = 5
    scanned: int = 50
    k: int = 10
    vocabulary: int = 50_000


QUICK = Size(2_000, 500, 100, 2, 20, 5, 2_000)

RANKS = np.array([14, 14, 14, 14, 14, 14, 14, 15, 17, 17, 19, 19, 23, 23, 26, 29, 31, 31])
"""The ranks of the prototype, by its cost model."""


class Bench:
    """The races, written to a report."""

    def __init__(self, report: Report, size: Size, folder: Path | None = None) -> None:
        self._report = report
        self._size = size
        self.theirs = prototypes.load_feeds(folder)

    def show(self) -> None:
        """Run everything."""
        size = self._size
        self._report.text(
            f"{size.subscriptions:,} subscriptions of 1 to 5 words, posts of 5 to 15, {size.vocabulary:,} words by "
            f"Zipf's law, a window of {size.window:,} posts, k = {size.k}, alpha uniform, clustered places; "
            "microseconds of thread time a post, of two threads where posts are served in two (threshold-ordered "
            f"postings) that of the longer; the median of {size.rounds} rounds in alternation. The "
            "prototype's posts are its own, by the same law."
        )
        prototypes.say_missing(self._report, self.theirs, prototypes.FEEDS)
        world = make_world(size.subscriptions, size.window + (size.rounds + 1) * size.posts, size.vocabulary)
        self._report.heading("By index", 3)
        rounds = self.race(
            {
                WHOLE: lambda: self.ours(world, ComparedIndex(BRUTE), size.scanned),
                "an inverted file": lambda: self.ours(world, ComparedIndex(INVERTED)),
                "CIQ": lambda: self.ours(world, ComparedIndex(CIQ)),
                GROUPED: lambda: self.ours(world, ComparedIndex(GROUPS, capacity=8_000)),
                "groups, leaf 1000": lambda: self.ours(world, ComparedIndex(GROUPS)),
                "groups, single postings only": lambda: self.ours(world, ComparedIndex(GROUPS, ("single",))),
                OURS: lambda: self.ours(world, OrderedIndex()),
                **({THEIRS: self.prototype} if self.theirs else {}),
            }
        )
        self._judge(rounds)
        self._report.heading("By buffer", 3)
        self.race({buffer: partial(self.ours, world, OrderedIndex(), buffer=buffer) for buffer in BUFFERS})

    def race(self, ways: dict[str, Callable[[], Iterator[Round]]]) -> dict[str, Round]:
        """Run rounds of all in alternation; the first of each is not counted."""
        running = {}
        for name, begin in ways.items():
            self._report.progress(name)
            running[name] = begin()
            next(running[name])
        rounds: dict[str, list[Round]] = {name: [] for name in ways}
        for _ in range(self._size.rounds):
            for name, going in running.items():
                rounds[name].append(next(going))
        found = {name: Round(*(median(column) for column in zip(*some, strict=True))) for name, some in rounds.items()}
        head = (
            "way",
            "us to find",
            "posts/s",
            "us in all",
            "posts/s in all",
            "evaluated",
            "postings",
            "scores",
            "hits",
        )
        self._report.table(
            head,
            [
                (
                    name,
                    f"{one.find:.1f}",
                    f"{1e6 / one.find:,.0f}",
                    f"{one.whole:.1f}",
                    f"{1e6 / one.whole:,.0f}",
                    f"{one.evaluated:.3f}",
                    *(count(value) for value in one[3:]),
                )
                for name, one in found.items()
            ],
        )
        return found

    def ours(self, world: World, index: SubscriptionIndex, posts: int = 0, buffer: str = "cost") -> Iterator[Round]:
        """Rounds of so many posts to a feed with this index, one after the other."""
        size = self._size
        posts = posts or size.posts
        feed = feed_of(world, size.window, buffer, index)
        n = size.subscriptions
        feed.subscribe(world.subscriptions, world.homes, np.full(n, size.k), world.alpha)
        at = size.window
        while True:
            yield measure(feed, world.posts.part(at, at + posts), world.places[at : at + posts])
            at += posts

    def prototype(self) -> Iterator[Round]:
        """Rounds of posts of the prototype's own. It has to be there."""
        assert self.theirs is not None
        size, (skype, skype2) = self._size, self.theirs
        make, posts = skype.gen(
            size.subscriptions, size.window + (size.rounds + 1) * size.posts, size.vocabulary, seed=1
        )  # fmt: skip
        index = skype2.Skype(make(size.k), posts, size.vocabulary, size.window)
        index.warm(size.window - 1, size.k, RANKS, 1)
        index.index(3, [2000])
        while True:
            index.run(size.posts)
            times, counted = index.tim / size.posts / 1e3, index.cnt / size.posts
            yield Round(times[0], times.sum(), counted[7], counted[2], counted[3], counted[4])

    def _judge(self, rounds: dict[str, Round]) -> None:
        ours = rounds[OURS]
        groups = min(rounds[name].find for name in (GROUPED, "groups, leaf 1000"))
        self._report.verdict(
            "at least 2.5 times as fast as groups in dissemination",
            f"{groups / ours.find:.2f} times",
            groups >= 2.5 * ours.find,
        )
        scan = rounds[WHOLE].whole / ours.whole
        self._report.verdict("at least 10 times a scan in all", f"{scan:.1f} times", scan >= 10)
        if THEIRS in rounds:
            theirs = rounds[THEIRS]
            for what, a, b in (("dissemination", theirs.find, ours.find), ("the whole", theirs.whole, ours.whole)):
                self._report.verdict(
                    f"{what} at least as fast as the prototype's", f"{a / b:.2f} times as fast", a >= b
                )
