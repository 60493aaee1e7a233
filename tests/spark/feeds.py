"""A feed's partitions in one process, beside the brute-force feed.

What is sent goes through bytes, as it does on Spark, and partitions are put away and taken up again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from indexes.feeds.config import FeedConfig
from spark_jobs.feeds.front import Front, Operation, Posts, Row, Subscribe, Tick, Unsubscribe, Withdraw
from spark_jobs.feeds.pack import Pack, pack, unpack
from spark_jobs.feeds.partitions import Matcher, Owner
from tests.oracles.feeds import Ask, FeedOracle

COMMON = [f"w{i}" for i in range(12)]
RARE = [f"rare{i}" for i in range(60)]


def carried(what: Pack) -> Pack:
    """As it comes out at the other end."""
    return unpack(memoryview(bytearray(pack(*what))))


class Local:
    """All partitions of a feed, here."""

    def __init__(self, config: FeedConfig, mechanism: str, partitions: int, split: bool = True) -> None:
        self.front = Front(config, mechanism, partitions, split)
        self.owners = [Owner.empty(config, self.front.router.apart) for _ in range(partitions)]
        self.matchers = [Matcher() for _ in range(partitions)]

    def batch(self, operations: Sequence[Operation], renew: bool = False) -> list[Row]:
        """A batch; `renew` puts everything away before and takes it up again."""
        if renew:
            self.front = Front.thaw(carried(self.front.freeze()))
            self.owners = [Owner.thaw(carried(owner.freeze())) for owner in self.owners]
            self.matchers = [Matcher.thaw(carried(matcher.freeze())) for matcher in self.matchers]
        rows: list[Row] = []
        front = self.front
        for round_ in front.rounds(operations):
            hits: list[list[Pack]] = [[] for _ in self.owners]
            for p, message in enumerate(round_.matchers):
                packs, load = self.matchers[p].match(carried(message), front.config.diagonal, front.partitions)
                front.matched(p, load, sum(len(one.arrays["post"]) for one in packs))
                for to, one in enumerate(packs):
                    hits[to].append(carried(one))
            sent = [carried(one) for one in round_.owners]
            told = [owner.take(sent[p], p, hits[p]) for p, owner in enumerate(self.owners)]
            rows += front.done([carried(one) for one in told])
        return rows


class World:
    """Batches of everything that can happen to a feed, and the brute-force feed to which the same happens.

    With `alphas` the world is one in which routers can hold much back: subscriptions want one or two posts and weigh
    nearness so much, places are spread evenly, and a document's words weigh very different amounts.
    """

    def __init__(self, seed: int, config: FeedConfig, alphas: tuple[float, ...] = ()) -> None:
        self.alphas = alphas
        self.rng = np.random.default_rng(seed)
        self.config = config
        self.oracle = FeedOracle(config.bounds, config.posts, config.span, config.tfidf)
        self.ids: list[str] = []
        self.now = 0
        self._slots: dict[str, int] = {}
        self._made = 0

    def bag(self, most: int) -> dict[str, float]:
        n = int(self.rng.integers(1, most + 1))
        words = set(self.rng.choice(COMMON, min(n, 12), replace=False, p=np.arange(12, 0, -1) / 78).tolist())
        if self.rng.random() < 0.3:
            words.add(str(self.rng.choice(RARE)))
        weights = [1.0, 0.2, 0.04] if self.alphas else [1.0, 1.0, 2.0, 0.3]
        return {word: float(self.rng.choice(weights)) for word in sorted(words)}

    def places(self, n: int) -> np.ndarray:
        if self.alphas:
            return self.rng.random((n, 2)) * [4.0, 3.0]
        exact = self.rng.random((n, 1)) < 0.5
        return np.where(exact, self.rng.integers(-1, 6, (n, 2)), self.rng.uniform(-1, 5, (n, 2))).astype(float)

    def posts(self, n: int) -> Posts:
        first = self.oracle.came
        bags, places = [self.bag(6) for _ in range(n)], self.places(n)
        if self.config.span is not None:
            self.now += int(self.rng.integers(0, 4))
        ids = [f"p{first + i}" for i in range(n)]
        asks, self.oracle.asks = self.oracle.asks, {}  # how many lists a post reaches is not asked
        for bag, (x, y) in zip(bags, places.tolist(), strict=True):
            self.oracle.post(bag, (x, y), self.now)
        self.oracle.asks = asks
        self.ids += ids
        return Posts(ids, bags, places, np.full(n, self.now, np.int64))

    def tick(self) -> Tick:
        self.now += int(self.rng.integers(1, 6))
        self.oracle.tick(self.now)
        return Tick(self.now)

    def withdraw(self) -> Withdraw:
        there = [post.number for post in self.oracle.window]
        gone = self.rng.choice(there, min(len(there), 2), replace=False).tolist() if there else []
        self.oracle.window = [post for post in self.oracle.window if post.number not in gone]
        return Withdraw([self.ids[number] for number in gone] + ["unknown"])

    def subscribe(self, n: int, again: bool = False) -> Subscribe:
        asks, ids = [], []
        known = self.rng.permutation(sorted(self._slots)).tolist() if again else []
        for x, y in self.places(n).tolist():
            alpha = float(self.rng.choice(self.alphas or [0.0, 0.3, 0.5, 1.0, self.rng.random()]))
            k = int(self.rng.choice([1, 2] if self.alphas else [1, 2, 3, 10]))
            asks.append(Ask(self.bag(4), (x, y), k, alpha))
            ids.append(known.pop() if known else f"s{self._made}")
            self._made += 1
            self._slots[ids[-1]] = self._slots.get(ids[-1], self._made)
            self.oracle.asks[self._slots[ids[-1]]] = asks[-1]
        points = np.array([ask.place for ask in asks]).reshape(-1, 2)
        ks, alphas = np.array([ask.k for ask in asks], np.int64), np.array([ask.alpha for ask in asks])
        return Subscribe(ids, [ask.bag for ask in asks], points, ks, alphas)

    def unsubscribe(self) -> Unsubscribe:
        gone = self.rng.permutation(sorted(self._slots))[:2].tolist()
        for id in gone:
            del self.oracle.asks[self._slots.pop(id)]
        return Unsubscribe([*gone, "unknown"])

    def batch(self) -> list[Operation]:
        """Some operations, mostly posts."""
        operations: list[Operation] = []
        for _ in range(int(self.rng.integers(1, 5))):
            kind = self.rng.random()
            if kind < 0.6:
                operations.append(self.posts(int(self.rng.integers(1, 40))))
            elif kind < 0.7 and self.config.span is not None:
                operations.append(self.tick())
            elif kind < 0.78:
                operations.append(self.withdraw())
            elif kind < 0.86:
                operations.append(self.unsubscribe())
            else:
                operations.append(self.subscribe(int(self.rng.integers(1, 8)), self.rng.random() < 0.5))
        return operations

    def lists(self) -> dict[str, tuple[list[str], list[float]]]:
        """All lists that there are, by brute force."""
        found = {}
        for id, slot in self._slots.items():
            rows = self.oracle.list(slot)
            found[id] = ([self.ids[number] for number, _ in rows], [score for _, score in rows])
        return found
