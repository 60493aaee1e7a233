"""A shard that is frozen and thawed."""

from __future__ import annotations

import numpy as np

from indexes.feeds.config import FeedConfig
from indexes.feeds.shards.frozen import freeze, thaw
from indexes.feeds.shards.shard import FeedShard
from indexes.feeds.words import Documents


def test_it_has_room_for_the_greatest_buffer_of_its_subscriptions() -> None:
    shard = FeedShard(FeedConfig((0.0, 0.0, 1.0, 1.0), posts=300, tfidf=False))
    shard.numbers.count = 1
    n = 5
    documents = Documents(np.arange(1, n + 1), np.zeros(n, np.int32), np.ones(n))
    shard.subscribe(documents, np.full((n, 2), 0.5), np.full(n, 100), np.full(n, 0.5))
    thawed = thaw(freeze(shard))
    assert (thawed._most_k, thawed._most_entries) == (shard._most_k, shard._most_entries)
    assert thawed._most_entries >= 200
    thawed.check()
