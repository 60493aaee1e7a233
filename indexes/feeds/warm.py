"""Compile or load every kernel of feeds, by calling each once on a tiny feed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from indexes.compiled.text import EIGHT, pieces_of
from indexes.core.cutting import cut_requests
from indexes.core.plan import applied
from indexes.core.steps import run_all
from indexes.feeds.commands import AddSubscriptions, DeleteSubscriptions, Post
from indexes.feeds.config import FeedConfig, Keywords, Spaced, Subscriptions
from indexes.feeds.engine import FeedEngine
from indexes.feeds.feed import FeedIndex, Remembered
from indexes.feeds.kernels.cells import build_cells
from indexes.feeds.kernels.cut_posts import NAMES, TABLES, cut_posts, room
from indexes.feeds.kernels.record import Cutter
from indexes.feeds.packing import pack_layout, unpack_layout
from indexes.feeds.report import Report
from indexes.feeds.state import engine_of, layout_of, state_of
from indexes.feeds.tokens import bag_of
from indexes.feeds.verification import verify


def warm() -> None:
    """Run every path of a feed, with either kind of window."""
    for config in (FeedConfig((0.0, 0.0, 1.0, 1.0), posts=64), FeedConfig((0.0, 0.0, 1.0, 1.0), span=1)):
        exercise(FeedIndex(config))
        exercise_maintenance(FeedEngine(config))


def exercise(feed: FeedIndex) -> None:
    """Run every path of a feed once; the types of kernel arguments do not depend on its configuration."""
    rng = np.random.default_rng(0)
    bags = [bag_of(rng.choice(list("abcdefgh"), 3).tolist()) for _ in range(80)]
    points = rng.random((80, 2))
    feed.post(feed.documents(bags[:10]), points[:10])
    feed.documents_of(Keywords(np.array([1, 2]), Spaced("a b ", 2), np.ones(2)))
    slots = feed.subscribe(feed.documents(bags[:20]), points[:20], np.full(20, 2), np.full(20, 0.5))
    feed.follow(int(slots[0]))
    for first in range(0, 80, 40):
        feed.post(feed.documents(bags[first : first + 40]), points[first : first + 40], first + 1)
    record = Cutter().record(b'{"posts":[{"location":[0.5,0.5],"keywords":["a","b"]}]}')
    words = Keywords(np.array([2]), ["a", "b"], np.ones(2), record=record)
    for keywords in (Keywords.of(bags[:1]), words):
        report = Report()
        reached = feed.post_keywords(keywords, points[:1], 1, report)
        if feed.due:
            run_all(feed.epoch_steps(reached, report))
    feed.subscribe(feed.documents(bags[:1]), points[:1], np.array([1]), np.array([0.0]))
    feed.change(slots[:1], feed.documents(bags[1:2]), points[1:2], np.array([1]), np.array([1.0]))
    feed.remove(slots[1:2])
    feed.withdraw([int(feed.window.size[1]) - 1])
    feed.expire(1)
    feed.list(int(slots[0]))
    for _ in feed.lay_out_steps(feed.epoch.df.astype(np.int64), build_cells(points, 8)[0]):
        pass
    _cut()
    again, number = FeedIndex(feed.config), np.arange(feed.first, int(feed.window.size[1]) - 1)
    kept = Remembered(feed.first, int(feed.window.size[1]), number, points[number % 80], np.zeros(len(number), int))
    again.load(kept, again.documents([bags[i % 80] for i in number.tolist()]), feed.epoch, 1)


def exercise_maintenance(engine: FeedEngine) -> None:
    """Run once what snapshots, rebuilds, verification and a start do with an engine, which is empty."""
    points, keywords = np.random.default_rng(0).random((3, 2)), Keywords.of([["a"], ["b"], ["c"]])
    some = Subscriptions(keywords, points, np.full(3, 2), np.full(3, 0.5))
    engine.apply(AddSubscriptions(pa.array(["s2", "s1", "s0"]), some))
    engine.apply(Post(["p0", "p1", "p2"], keywords, points))
    captured = applied(engine.capture(indexes=True))[0].captured
    assert captured is not None
    for checked in verify(captured):
        assert not checked.differences, checked.differences
    state = state_of(captured)
    applied(engine.fold(unpack_layout(pack_layout(layout_of(state)))))
    engine_of(state).apply(DeleteSubscriptions(["s1"]))


def _cut() -> None:
    """Cut a request, and a post out of it."""
    request = b'1,{"posts":[{"location":[1,2],"keywords":["a"]}]}}\n'
    text, spans = np.frombuffer(request + bytes(EIGHT), np.uint8), np.empty(2, np.int64)
    cut_requests(text, pieces_of(["", ","]), np.empty(1, np.int64), spans)
    cut_posts(text, spans, NAMES, TABLES, room(len(request), 1))


GROUPS: dict[str, Callable[[], None]] = {"main": warm}
"""Groups of kernels that become ready together, by name, and what compiles or loads them."""
