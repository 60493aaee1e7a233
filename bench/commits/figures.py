"""Figures of one checkout for the summary, in a process of its own: ``python -P figures.py`` with it on the path.

It reads the name of a table and its sizes as JSON, and prints the figures of the table by name. Everything that it
imports is the checkout's, whose names may be earlier ones.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from statistics import median
from typing import Any

import numpy as np

K = 20
"""Of matchers, as in the paper."""

MOST_ROUNDS = 3


def thread_seconds(run: Callable[[], Any], rounds: int) -> float:
    """The median of so many rounds of a run, after one that compiles."""
    run()
    found = []
    for _ in range(min(rounds, MOST_ROUNDS)):
        began = time.thread_time()
        run()
        found.append(time.thread_time() - began)
    return median(found)


def intervals(n: int, points: int, rounds: int, changed: int, compiling: int, **_: Any) -> dict[str, float]:
    """Microseconds of the best of a point, and changes of scores a second."""
    kernels = import_module("bench.matchers.kernels")
    rescored_class = vars(kernels).get("Rescored") or vars(kernels)["_Rescored"]
    small = rescored_class(kernels.make_world(compiling, 1, points=10), None)
    small.change(np.arange(compiling, dtype=np.int32), np.ones(compiling))
    rescored = rescored_class(kernels.make_world(n, 1, points=points), None)
    (mine,) = rescored.contenders()
    static = thread_seconds(mine.run, rounds) / points * 1e6
    rng = np.random.default_rng(1)
    rows = rng.permutation(n).astype(np.int32)[:changed]
    spent, _nobody = rescored.change(rows, rng.uniform(0.5, 2.0, n))
    return {"top": static, "changes": len(rows) / spent}


def relaxed(n: int, few: int, rounds: int, dimensions: list[int], **_: Any) -> dict[str, float]:
    """Microseconds of a relaxed match, by dimensions."""
    kernels = import_module("bench.matchers.kernels")
    import pyarrow as pa

    found = {}
    for d in dimensions:
        world = kernels.make_world(n, d, points=few)
        matcher = kernels.Matcher(kernels.MatcherConfig(tuple(f"d{j}" for j in range(d)), "relaxed", "sum", "auto"))
        subscriptions = kernels.Subscriptions(world.lo, world.hi, world.weight)
        if hasattr(matcher, "hold"):
            matcher.hold(subscriptions, afresh=True)
        else:
            matcher.insert(pa.array(np.arange(n).astype(str)), subscriptions)
        events = np.repeat(world.points, 2, axis=1)
        found[str(d)] = thread_seconds(partial(matcher.match, events, K), rounds) / few * 1e6
    return found


def covering(commands: int, rounds: int, dimensions: int, share: float, **_: Any) -> dict[str, float]:
    """Microseconds of a command under G_1, with all points in the index or with roots alone, whichever is faster."""
    speed, workload = import_module("bench.relays.speed"), import_module("bench.relays.workload")
    speed.apply(speed.KdIndex, workload.make_commands(200, dimensions // 2, share), roots=True)
    asked = workload.make_commands(commands, dimensions // 2, share)
    seconds = [
        median(speed.apply(speed.KdIndex, asked, roots=roots)[0] for _ in range(min(rounds, MOST_ROUNDS)))
        for roots in (False, True)
    ]
    return {"command": min(seconds) / commands * 1e6}


def notifications(boxes: int, notifications: int, rounds: int, attributes: int, **_: Any) -> dict[str, float]:
    """Microseconds to find the boxes that hold a point."""
    kernels, workload = import_module("bench.relays.kernels"), import_module("bench.relays.workload")
    lo, hi = workload.make_boxes(boxes, attributes)
    points, index = workload.as_table(lo, hi), kernels.SlabIndex(attributes)
    index.load(points, np.arange(boxes, dtype=np.int32))
    values = np.random.default_rng(1).uniform(0, workload.MOST, (notifications, attributes))
    seconds = thread_seconds(lambda: index.containing(points, values), rounds)
    return {"notification": seconds / notifications * 1e6}


def epochs(subscriptions: int, window: int, vocabulary: int, k: int = 10, **_: Any) -> dict[str, float]:
    """Seconds of the post at whose end an epoch begins, by the wall."""
    _an_epoch(min(subscriptions, 300), min(window, 300), min(vocabulary, 1_000), k)
    return {"seconds": _an_epoch(subscriptions, window, vocabulary, k)}


def _an_epoch(n: int, window: int, vocabulary: int, k: int) -> float:
    rounds, workload = import_module("bench.feeds.rounds"), import_module("bench.feeds.workload")
    if hasattr(rounds, "use_two_threads"):
        rounds.use_two_threads()
    world = workload.make_world(n, 2 * window + 1, vocabulary)
    feed = rounds.FeedIndex(rounds.FeedConfig((0, 0, 1, 1), window))
    feed.documents([{f"{word:09}": 1.0 for word in range(vocabulary)}])
    feed.post(world.posts.part(0, window), world.places[:window])
    feed.subscribe(world.subscriptions, world.homes, np.full(n, k), world.alpha)
    last = window + feed.before_epoch(0) - 1
    if last > window:
        feed.post(world.posts.part(window, last), world.places[window:last])
    began = time.perf_counter()
    feed.post(world.posts.part(last, last + 1), world.places[last : last + 1])
    return time.perf_counter() - began


def large_feeds(large: int, window: int, posts: int, vocabulary: int, **_: Any) -> dict[str, float]:
    """Posts a second to a feed of many subscriptions, one round."""
    trends = import_module("bench.feeds.trends")
    make = vars(trends).get("feed_without_index") or vars(trends)["_feed"]
    measured = vars(trends).get("measured") or vars(trends)["_measured"]
    setting = trends.BASE._replace(subscriptions=large, window=window)
    size = trends.Size(rounds=1, posts=posts, vocabulary=vocabulary)
    world, feed = make(setting, size, 2)
    return {"posts": 1e6 / measured(feed, world, trends.OrderedIndex(), window, size).whole}


TABLES: dict[str, Callable[..., dict[str, float]]] = {
    "intervals": intervals,
    "relaxed": relaxed,
    "covering": covering,
    "notifications": notifications,
    "epochs": epochs,
    "large-feeds": large_feeds,
}


def main() -> None:
    job = json.load(sys.stdin)
    json.dump(TABLES[job["table"]](**job["size"]), sys.stdout)


if __name__ == "__main__":
    main()
