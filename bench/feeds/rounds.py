"""Feeds of a world, and the cost of posts by index."""

from __future__ import annotations

import time
from typing import NamedTuple

from app.runtime.priority import processors
from bench.feeds.workload import World
from indexes.core import helper_threads
from indexes.core.arrays import Floats
from indexes.feeds.config import FeedConfig
from indexes.feeds.feed import FeedIndex
from indexes.feeds.kernels.buffers import EVALUATED
from indexes.feeds.kernels.scratch import HITS, SCORED, VISITED
from indexes.feeds.kernels.window import NEXT
from indexes.feeds.subscription_index import SubscriptionIndex
from indexes.feeds.words import Documents


class Round(NamedTuple):
    """Per post: microseconds to find its recipients, and in all; evaluations, postings read, scores, and hits."""

    find: float
    whole: float
    evaluated: float
    visited: float
    scored: float
    hits: float


def use_two_threads() -> None:
    """Let large batches be served in two threads where there are as many processors, as in the service."""
    helper_threads.provide(min(2, processors()) - 1)


def feed_of(world: World, window: int, buffer: str = "cost", index: SubscriptionIndex | None = None) -> FeedIndex:
    """A feed with a full window and no subscriptions; the numbers of its words are those of the world."""
    use_two_threads()
    feed = FeedIndex(FeedConfig((0, 0, 1, 1), window, tfidf=False, buffer=buffer), index)
    feed.documents([{f"{word:09}": 1.0 for word in range(world.vocabulary)}])
    feed.post(world.posts.part(0, window), world.places[:window])
    return feed


def find_by(feed: FeedIndex, index: SubscriptionIndex) -> None:
    """Replace the index of a feed's subscriptions."""
    feed.subscription_index = index
    for _ in feed.lay_out_steps():
        pass


def measure(feed: FeedIndex, posts: Documents, places: Floats) -> Round:
    """Publish posts, and find the recipients of the newest of the window once more; by the time of the thread that
    takes longer, where there are two."""
    n, window = len(posts), feed.config.posts or 0
    before, evaluations = feed.counted, feed.evaluated
    begin = time.thread_time() + feed.waited
    feed.post(posts, places)
    whole = (time.thread_time() + feed.waited - begin) / n * 1e6
    counted, evaluated = (feed.counted - before) / n, int((feed.evaluated - evaluations)[EVALUATED])
    some, end = min(n, window), int(feed.window.size[NEXT])
    begin = time.thread_time() + feed.waited
    feed.find(end - some, end)
    find = (time.thread_time() + feed.waited - begin) / some * 1e6
    return Round(find, whole, evaluated / n, *(float(counted[i]) for i in (VISITED, SCORED, HITS)))
