"""Figures of one checkout for the summary, in a process of its own: ``python -P figures.py`` with it on the path.

It reads the name of a table and its sizes as a line of JSON, prints the names of the figures, and then, for each name
on its input, the figure of one round: microseconds an item, or what its function says. Everything that it imports is
the checkout's, whose names may be earlier ones.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from itertools import count
from typing import Any

import numpy as np

K = 20
"""Of matchers, as in the paper."""

Case = Callable[[], float]
"""Runs one round; returns the figure."""


def timed(run: Callable[[], Any], items: int) -> Case:
    """Microseconds of thread time an item, of a run that is compiled here."""
    run()

    def once() -> float:
        began = time.thread_time()
        run()
        return (time.thread_time() - began) / items * 1e6

    return once


def intervals(n: int, points: int, changed: int, compiling: int) -> dict[str, Case]:
    """The best of a point, and changes of scores, other ones each round."""
    kernels = import_module("bench.matchers.kernels")
    rescored_class = vars(kernels).get("Rescored") or vars(kernels)["_Rescored"]
    small = rescored_class(kernels.make_world(compiling, 1, points=10), None)
    small.change(np.arange(compiling, dtype=np.int32), np.ones(compiling))
    rescored = rescored_class(kernels.make_world(n, 1, points=points), None)
    (mine,) = rescored.contenders()
    rng = np.random.default_rng(1)
    order, factor = rng.permutation(n).astype(np.int32), rng.uniform(0.5, 2.0, n)
    begins = count(0, changed)

    def change() -> float:
        begin = next(begins)
        spent, _nobody = rescored.change(order[begin : begin + changed], factor)
        return float(spent / changed * 1e6)

    return {"top": timed(mine.run, points), "changes": change}


def relaxed(n: int, few: int, dimensions: list[int]) -> dict[str, Case]:
    """A relaxed match, by dimensions."""
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
        found[str(d)] = timed(partial(matcher.match, events, K), few)
    return found


def covering(commands: int, dimensions: int, share: float) -> dict[str, Case]:
    """A command under G_1, with all points in the index or with roots alone."""
    speed, workload = import_module("bench.relays.speed"), import_module("bench.relays.workload")
    speed.apply(speed.KdIndex, workload.make_commands(200, dimensions // 2, share), roots=True)
    asked = workload.make_commands(commands, dimensions // 2, share)

    def case(roots: bool) -> Case:
        return lambda: float(speed.apply(speed.KdIndex, asked, roots=roots)[0] / commands * 1e6)

    return {"all": case(False), "roots": case(True)}


def notifications(boxes: int, notifications: int, attributes: int) -> dict[str, Case]:
    """The boxes that hold a point."""
    kernels, workload = import_module("bench.relays.kernels"), import_module("bench.relays.workload")
    lo, hi = workload.make_boxes(boxes, attributes)
    points, index = workload.as_table(lo, hi), kernels.SlabIndex(attributes)
    index.load(points, np.arange(boxes, dtype=np.int32))
    values = np.random.default_rng(1).uniform(0, workload.MOST, (notifications, attributes))
    return {"notification": timed(lambda: index.containing(points, values), notifications)}


def epochs(subscriptions: int, window: int, vocabulary: int, k: int = 10) -> dict[str, Case]:
    """Seconds of the post at whose end an epoch begins, by the wall; each round fills a feed."""
    _an_epoch(min(subscriptions, 300), min(window, 300), min(vocabulary, 1_000), k)
    return {"seconds": lambda: _an_epoch(subscriptions, window, vocabulary, k)}


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
    before = feed.before_epoch(0)
    began = time.perf_counter()
    feed.post(world.posts.part(last, last + 1), world.places[last : last + 1])
    seconds = time.perf_counter() - began
    assert feed.before_epoch(0) > before, "the post ended no epoch"
    return seconds


def large_feeds(large: int, window: int, posts: int, vocabulary: int, rounds: int) -> dict[str, Case]:
    """A post to a feed of many subscriptions, of the second of two runs of posts a round."""
    trends = import_module("bench.feeds.trends")
    make = vars(trends).get("feed_without_index") or vars(trends)["_feed"]
    measured = vars(trends).get("measured") or vars(trends)["_measured"]
    size = trends.Size(rounds=1, posts=posts, vocabulary=vocabulary)
    world, feed = make(trends.BASE._replace(subscriptions=large, window=window), size, 2 * rounds)
    begins = count(window, 2 * posts)
    return {"post": lambda: float(measured(feed, world, trends.OrderedIndex(), next(begins), size).whole)}


TABLES: dict[str, Callable[..., dict[str, Case]]] = {
    "intervals": intervals,
    "relaxed": relaxed,
    "covering": covering,
    "notifications": notifications,
    "epochs": epochs,
    "large-feeds": large_feeds,
}


def main() -> None:
    job = json.loads(sys.stdin.readline())
    cases = TABLES[job["table"]](**job["size"])
    print(json.dumps(list(cases)), flush=True)
    for line in sys.stdin:
        print(json.dumps(cases[line.strip()]()), flush=True)


if __name__ == "__main__":
    main()
