"""Feeds in a Spark session of their own."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from indexes.feeds.commands import AddSubscriptions, Post
from indexes.feeds.config import FeedConfig, Keywords, Subscriptions, bag_of_shown
from indexes.feeds.engine import FeedEngine
from indexes.feeds.state import FeedState, state_of
from spark_jobs.feeds.front import Posts


class Alone:
    """A feed of the service's own engine, whose posts have words of few."""

    def __init__(self, config: FeedConfig, subscriptions: int = 60) -> None:
        self.rng = np.random.default_rng(5)
        self.engine = FeedEngine(config)
        self.came = self.now = 0
        keywords, points = self.keywords(subscriptions, 3), self.rng.random((subscriptions, 2)) * [4, 3]
        k, alpha = self.rng.integers(1, 6, subscriptions), self.rng.choice([0.0, 0.4, 1.0], subscriptions)
        self.ids = [f"s{i}" for i in range(subscriptions)]
        self.engine.apply(AddSubscriptions(pa.array(self.ids), Subscriptions(keywords, points, k, alpha)))

    def keywords(self, n: int, most: int) -> Keywords:
        return Keywords.of(
            [[f"w{i}" for i in self.rng.zipf(1.5, int(self.rng.integers(1, most + 1))).clip(1, 40)] for _ in range(n)]
        )

    def post(self, n: int) -> Posts:
        """Posts come; as operations of Spark's."""
        keywords, points = self.keywords(n, 6), self.rng.random((n, 2)) * [4, 3]
        ids = [f"p{self.came + i}" for i in range(n)]
        self.came += n
        self.now += 1
        self.engine.apply(Post(ids, keywords, points, self.now))
        times = np.full(n, self.now, np.int64)
        return Posts(ids, [bag_of_shown(one) for one in keywords.shown()], points, times)

    def state(self) -> FeedState:
        plan = self.engine.capture()
        while not plan.done:
            plan.execute(1.0)
            plan.publish()
        assert plan.captured is not None
        return state_of(plan.captured)

    def lists(self) -> dict[str, tuple[list[str], list[float]]]:
        found = {}
        for id in self.ids:
            entries = self.engine.list_of(id)
            found[id] = ([one.post.id for one in entries], [one.score for one in entries])
        return found
