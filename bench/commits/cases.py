"""Kernels of one checkout, in a process of its own: ``python cases.py boards maps`` with the checkout on its path.

It prints the names of its cases, and then, for each name on its input, the microseconds of thread time an item of one
round. Everything that it imports is the checkout's, whose benchmarks know its own names; a case that a checkout cannot
set up is not among those that it prints.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

Case = Callable[[], float]
"""Runs one round; returns microseconds of thread time an item."""

N, M, EVENTS, K = 10_000, 200_000, 10_000, 10


def module(name: str) -> Any:
    """A module of the checkout, with the names that it imports."""
    return import_module(name)


def timed(run: Callable[[], Any], items: int) -> Case:
    """A case whose rounds all do the same."""

    def once() -> float:
        began = time.thread_time()
        run()
        return (time.thread_time() - began) / items * 1e6

    return once


def boards() -> dict[str, Case]:
    """Paint-Sparse, Paint-Dense and Paint-Batch, each round from the first state."""
    speed, workload = module("bench.boards.batch_speed"), module("bench.boards.workload")
    forest, world = workload.subscription_index(M), workload.make_world(N, EVENTS)
    events = speed.changes_of(world)

    def case(dense: bool, paint: Callable[[Any, Any], int]) -> Case:
        painter = speed.new_painter(forest, dense)

        def once() -> float:
            state = speed.start(painter, world)
            return timed(lambda: paint(state, events), EVENTS)()

        return once

    return {
        "boards: Paint-Sparse, an event": case(False, speed.one_by_one),
        "boards: Paint-Dense, an event": case(True, speed.one_by_one),
        "boards: Paint-Batch, an event": case(False, speed.together),
    }


def matchers() -> dict[str, Case]:
    """Exact matching in one and in three dimensions, and relaxed matching."""
    kernels = module("bench.matchers.kernels")
    import pyarrow as pa

    found = {}
    for d, mode, n in ((1, "exact", 200_000), (3, "exact", 100_000), (2, "relaxed", 50_000)):
        world = kernels.make_world(n, d, points=20_000)
        score = world.weight if mode == "relaxed" else world.weight.sum(axis=1)[:, None]
        matcher = kernels.Matcher(kernels.MatcherConfig(tuple(f"d{j}" for j in range(d)), mode, "sum", "auto"))
        subscriptions = kernels.Subscriptions(world.lo, world.hi, score)
        if hasattr(matcher, "hold"):
            matcher.hold(subscriptions, afresh=True)
        else:  # an earlier checkout
            matcher.insert(pa.array(np.arange(n).astype(str)), subscriptions)
        events = np.repeat(world.points, 2, axis=1)[: 20_000 if d == 1 else 2_000]
        found[f"matchers: {mode}, d = {d}, an event"] = timed(partial(matcher.match, events, K), len(events))
    return found


def relays() -> dict[str, Case]:
    """Commands under G_1, and notifications."""
    kernels, speed, workload = (module(f"bench.relays.{name}") for name in ("kernels", "speed", "workload"))
    commands, n = workload.make_commands(5_000, 4, 0.15), 50_000
    lo, hi = workload.make_boxes(n, 4)
    points, slabs = workload.as_table(lo, hi), kernels.SlabIndex(4)
    slabs.load(points, np.arange(n, dtype=np.int32))
    values = np.random.default_rng(1).uniform(0, workload.MOST, (2_000, 4))
    return {
        "relays: a command": lambda: float(speed.apply(speed.KdIndex, commands, roots=True)[0] / 5_000 * 1e6),
        "relays: a notification": timed(lambda: slabs.containing(points, values), len(values)),
    }


def maps() -> dict[str, Case]:
    """Zones of skylines and of top-k."""
    skyline, top = vars(module("bench.maps.skyline")), module("bench.maps.top")
    world = top.make_world(50_000, 2, True, "uniform", 400, 1)
    index, there = top.PlaceIndex.build(world.points, world.statics), world.walks[:, 0].copy()
    searcher = (skyline.get("SkylineSearch") or skyline["Searcher"])(2)
    score, search = top.scoring("weighted_sum", top.ATTRIBUTES, top.EVEN), top.TopSearch(index)
    places = there[:100].tolist()
    return {
        "maps: a skyline's zone": timed(
            lambda: [searcher.zone(index, x, y, skyline["BOUNDS"]) for x, y in places], len(places)
        ),
        "maps: a zone of top-k": timed(lambda: search.zones(there, K, K, score), len(there)),
    }


def feeds() -> dict[str, Case]:
    """Posts to a full window, each once."""
    rounds, workload = module("bench.feeds.rounds"), module("bench.feeds.workload")
    n, window, posts = 50_000, 10_000, 300
    world = workload.make_world(n, window + 60 * posts, 20_000)
    feed = rounds.feed_of(world, window)
    feed.subscribe(world.subscriptions, world.homes, np.full(n, K), world.alpha)
    starts = iter(range(window, len(world.places), posts))

    def once() -> float:
        at = next(starts)
        some, places = world.posts.part(at, at + posts), world.places[at : at + posts]
        return timed(lambda: feed.post(some, places), posts)()

    return {"feeds: a post": once}


def main() -> None:
    cases: dict[str, Case] = {}
    for make in (boards, matchers, relays, maps, feeds):
        if make.__name__ not in sys.argv[1:]:
            continue
        try:
            found = make()
            for case in found.values():
                case()  # compiles
            cases |= found
        except (ImportError, AttributeError, KeyError, TypeError) as error:
            print(f"{make.__name__}: {error!r}", file=sys.stderr)
    print(json.dumps(list(cases)), flush=True)
    for line in sys.stdin:
        print(json.dumps(cases[line.strip()]()), flush=True)


if __name__ == "__main__":
    main()
