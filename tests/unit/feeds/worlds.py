"""Small feeds beside the oracle: ties, equal posts, rare and common words, places outside the bounds."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np

from bench.baselines.compared_feeds import COMPARED
from indexes.core.steps import run_all
from indexes.feeds.config import FeedConfig, Keywords, Point, Shown
from indexes.feeds.feed import FeedIndex
from indexes.feeds.kernels.record import Cutter
from indexes.feeds.kernels.subscriptions import ENTRY, POSTS, ROW, THETA
from indexes.feeds.kernels.window import NEXT
from indexes.feeds.publishing import Posted
from indexes.feeds.report import ChangedLists, Report
from indexes.feeds.subscription_index import OrderedIndex, SubscriptionIndex
from tests.oracles.feeds import Ask, FeedOracle

BOUNDS = (0.0, 0.0, 4.0, 3.0)
COMMON = [f"w{i}" for i in range(12)]
RARE = [f"rare{i}" if i % 2 else f"seldom-said-in-any-post-{i}" for i in range(200)]

INDEXES: dict[str, Callable[[], SubscriptionIndex]] = {"ordered": OrderedIndex, **COMPARED}


cutter = cache(Cutter)


def post_alone(feed: FeedIndex, keywords: Shown, place: Point, now: int = 0) -> Posted:
    """Post as the plan of a post that comes alone does."""
    report, said = Report(), Keywords.of([keywords])
    if int(feed.window.size[NEXT]) % 2 and said.in_order():
        # It came as a request that was cut, as some do.
        body = {"posts": [{"location": place, "keywords": keywords}]}
        said.record = cutter().record(json.dumps(body).encode())
    reached = feed.post_keywords(said, np.array([place]), now, report)
    if feed.due:
        run_all(feed.epoch_steps(reached, report))
    return Posted(int(feed.window.size[NEXT]) - 1, reached, report.end())


class World:
    """A feed and its oracle, to which the same happens; after every step all lists are compared, bit for bit."""

    def __init__(
        self,
        seed: int,
        config: FeedConfig,
        alphas: tuple[float, ...] = (0.0, 0.3, 0.5, 1.0, -1.0),
        index: SubscriptionIndex | None = None,
    ) -> None:
        self.rng = np.random.default_rng(seed)
        self.feed = FeedIndex(config, index)
        self.oracle = FeedOracle(config.bounds, config.posts, config.span, config.tfidf)
        self.alphas = alphas
        self.now = 0
        self.before: dict[int, list[tuple[int, float]]] = {}

    def bag(self, most: int) -> dict[str, float]:
        n = int(self.rng.integers(1, most + 1))
        words = set(self.rng.choice(COMMON, min(n, 12), replace=False, p=np.arange(12, 0, -1) / 78).tolist())
        if self.rng.random() < 0.2:
            words.add(str(self.rng.choice(RARE)))
        return {word: float(self.rng.choice([1.0, 1.0, 2.0, 0.3])) for word in sorted(words)}

    def place(self) -> tuple[float, float]:
        if self.rng.random() < 0.5:
            x, y = self.rng.integers(-1, 6, 2).astype(float).tolist()
        else:
            x, y = self.rng.uniform(-1, 5, 2).tolist()
        return x, y

    def ask(self) -> Ask:
        alpha = float(self.rng.choice(self.alphas))
        k = int(self.rng.choice([1, 2, 3, 5, 40]))
        return Ask(self.bag(4), self.place(), k, alpha if alpha >= 0 else float(self.rng.random()))

    def subscribe(self, n: int) -> None:
        asks = [self.ask() for _ in range(n)]
        slots = self.feed.subscribe(*self.given(asks))
        assert not set(slots.tolist()) & set(self.oracle.asks)
        self.oracle.asks.update(zip(slots.tolist(), asks, strict=True))
        for slot in slots.tolist():
            self.feed.follow(slot, bool(self.rng.random() < 0.5))
        self.compare()

    def change(self) -> None:
        slots = self.some(3)
        asks = [self.ask() for _ in slots]
        self.feed.change(np.array(slots), *self.given(asks))
        self.oracle.asks.update(zip(slots, asks, strict=True))
        self.compare()

    def remove(self) -> None:
        slots = self.some(3)
        self.feed.remove(np.array(slots, np.int64))
        for slot in slots:
            del self.oracle.asks[slot]
        self.compare()

    def post(self, n: int = 1) -> None:
        """Some posts, of which some are like one before."""
        bags, places = [], []
        for _ in range(n):
            if self.oracle.window and self.rng.random() < 0.3:
                like = self.oracle.window[int(self.rng.integers(len(self.oracle.window)))]
                bags.append(like.bag)
                places.append(like.place)
            else:
                bags.append(self.bag(7))
                places.append(self.place())
        if n == 1:
            shown = list(bags[0]) if set(bags[0].values()) == {1.0} else bags[0]
            posted = post_alone(self.feed, shown, places[0], self.now)
        else:
            posted = self.feed.post(self.feed.documents(bags), np.array(places), self.now)
        lists = [self.before]
        for i, (bag, place) in enumerate(zip(bags, places, strict=True)):
            assert posted.reached[i] == self.oracle.post(bag, place, self.now)
            lists.append({slot: self.oracle.list(slot) for slot in self.oracle.asks})
        self.check_changed(posted.changed, lists)
        self.compare()

    def tick(self, now: int) -> None:
        self.now = now
        changed = self.feed.expire(now)
        self.oracle.tick(now)
        self.check_changed(changed, [self.before, {slot: self.oracle.list(slot) for slot in self.oracle.asks}])
        self.compare()

    def withdraw(self) -> None:
        if self.oracle.window:
            numbers = [post.number for post in self.oracle.window]
            gone = self.rng.choice(numbers, min(len(numbers), int(self.rng.integers(1, 3))), replace=False).tolist()
            changed = self.feed.withdraw(gone)
            self.oracle.window = [post for post in self.oracle.window if post.number not in gone]
            self.check_changed(changed, [self.before, {slot: self.oracle.list(slot) for slot in self.oracle.asks}])
            self.compare()

    def some(self, most: int) -> list[int]:
        slots = sorted(self.oracle.asks)
        n = min(len(slots), int(self.rng.integers(0, most + 1)))
        return self.rng.choice(slots, n, replace=False).tolist() if n else []

    def given(self, asks: list[Ask]) -> Any:
        bags = self.feed.documents([ask.bag for ask in asks])
        places = np.array([ask.place for ask in asks]).reshape(-1, 2)
        return bags, places, np.array([ask.k for ask in asks], int), np.array([ask.alpha for ask in asks], float)

    def check_changed(self, changed: ChangedLists, lists: list[dict[int, list[tuple[int, float]]]]) -> None:
        """Just the followed lists that changed are reported, with their entries after the step."""
        followed = self.feed.table.arrays.followed
        wanted = [
            (i, slot)
            for i, (before, after) in enumerate(pairwise(lists))
            for slot in sorted(after)
            if followed[slot] and after[slot] != before[slot]
        ]
        assert list(zip(changed.step.tolist(), changed.slot.tolist(), strict=True)) == wanted
        begin = 0
        for i, (step, slot) in enumerate(wanted):
            end = int(changed.end[i])
            rows = list(zip(changed.post[begin:end].tolist(), changed.score[begin:end].tolist(), strict=True))
            assert rows == lists[step + 1][slot]
            begin = end

    def compare(self) -> None:
        """All lists are the oracle's, and the feed is as it has to be."""
        assert len(self.feed) == len(self.oracle.asks)
        self.before = {slot: self.oracle.list(slot) for slot in self.oracle.asks}
        for slot, wanted in self.before.items():
            posts, scores = self.feed.list(slot)
            assert list(zip(posts.tolist(), scores.tolist(), strict=True)) == wanted, slot
        self.feed.check()

    def compare_buffers(self) -> None:
        """Theorem 6.1: a buffer is the k-skyband of what is above its bound, and has k entries or all there are."""
        s, dominance = self.feed.table.arrays, self.feed.config.buffer != "kmax"
        for slot, ask in self.oracle.asks.items():
            begin = int(s.note[slot * ROW + ENTRY])
            run = slice(begin, begin + int(s.held[slot]))
            found = list(zip(s.score[run].tolist(), (s.tag[run] // POSTS).tolist(), strict=True))
            theta = float(s.row[slot * ROW + THETA])
            above = [one for one in self.oracle.eligible(slot) if one[0] >= theta]
            newer = {one: sum(o[1] > one[1] and o[0] >= one[0] for o in above) for one in above}
            band = [one for one in above if not dominance or newer[one] < ask.k]
            sure = [one for one in band if one[0] > theta]
            # Of posts that score theta the older ones may be below the bound.
            assert found[: len(sure)] == sure and found == band[: len(found)]
            assert len(found) >= ask.k or s.complete[slot]
            if s.complete[slot] and theta == 0.0:
                assert found == band
            if dominance:
                assert (s.tag[run] % POSTS).tolist() == [newer[one] for one in found]
