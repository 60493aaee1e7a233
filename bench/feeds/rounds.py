"""Feeds of a world, and what posts cost them by one index or another."""

from __future__ import annotations

import time
from typing import NamedTuple

from bench.feeds.workload import Float64, World
from indexes.feeds.buffers import EVALUATED
from indexes.feeds.feed import FeedConfig, FeedIndex
from indexes.feeds.methods import Method
from indexes.feeds.window import NEXT
from indexes.feeds.words import Documents
from indexes.feeds.work import HITS, SCORED, VISITED


class Round(NamedTuple):
    """Microseconds a post: to find, and in all; and evaluations, postings read, scores, and hits a post."""

    find: float
    whole: float
    evaluated: float
    visited: float
    scored: float
    hits: float


def feed_of(world: World, window: int, buffer: str = "cost", method: str = "ordered") -> FeedIndex:
    """A feed whose window is full and that nobody is subscribed to; numbers of words are those of the world."""
    feed = FeedIndex(FeedConfig((0, 0, 1, 1), window, tfidf=False, buffer=buffer, method=method))
    feed.documents([{f"{word:09}": 1.0 for word in range(world.vocabulary)}])
    feed.post(world.posts.part(0, window), world.places[:window])
    return feed


def find_by(feed: FeedIndex, method: Method) -> None:
    """Lay the subscriptions of a feed out in another index, and find by it from now on."""
    feed.method = method
    for _ in feed.lay_out_steps():
        pass


def measure(feed: FeedIndex, posts: Documents, places: Float64) -> Round:
    """Let posts come, and find whom the newest of the window may matter to once more; by thread time."""
    n, window = len(posts), feed.config.posts or 0
    feed.work.counted[:] = 0
    evaluated = int(feed._found.size[EVALUATED])
    begin = time.thread_time()
    feed.post(posts, places)
    whole = (time.thread_time() - begin) / n * 1e6
    counted = feed.work.counted / n
    evaluated = int(feed._found.size[EVALUATED]) - evaluated
    some, end = min(n, window), int(feed.window.size[NEXT])
    begin = time.thread_time()
    feed.method.find(feed.window, feed.table.arrays, feed.work, end - some, end, feed.diagonal)
    find = (time.thread_time() - begin) / some * 1e6
    return Round(find, whole, evaluated / n, *(float(counted[i]) for i in (VISITED, SCORED, HITS)))
