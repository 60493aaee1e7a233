"""Resident bytes of a subscription with its id, of one resource in a fresh process: ``python -m bench.summary.memory``.

The engine of the resource, as the service has it, takes all subscriptions by one command. Counted is what the process
has resident in the end more than before, when all that was only needed on the way has been given back. What is compiled
or loaded once is there before: the same was done with some subscriptions to another engine.
"""

from __future__ import annotations

import ctypes
import gc
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.boards.workload import make_ranges
from bench.feeds.workload import make_world as make_feed_world
from bench.maps.workload import make_world as make_map_world
from bench.matchers.workload import make_world as make_matcher_world
from bench.process import Failed, run_job
from bench.relays.workload import make_boxes
from indexes.boards.commands import AddSubscriptions as ToBoard
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.boards.regions import ranges
from indexes.feeds.commands import AddSubscriptions as ToFeed
from indexes.feeds.commands import Post
from indexes.feeds.config import FeedConfig, Keywords
from indexes.feeds.config import Subscriptions as FeedSubscriptions
from indexes.feeds.engine import FeedEngine
from indexes.feeds.words import Documents
from indexes.maps.attributes import Attribute
from indexes.maps.commands import AddQueries, PutObjects
from indexes.maps.config import MapConfig, Score, Top
from indexes.maps.engine import MapEngine
from indexes.matchers.commands import AddSubscriptions as ToMatcher
from indexes.matchers.config import MatcherConfig, Subscriptions
from indexes.matchers.engine import MatcherEngine
from indexes.relays.commands import AddSubscriptions as ToRelay
from indexes.relays.config import RelayConfig
from indexes.relays.engine import RelayEngine

K = 10
OBJECTS, POSTS, VOCABULARY = 10_000, 20_000, 50_000
"""Of the map and of the feed."""

WARMING = 5_000
"""Subscriptions of the engine that is there first."""

MODULE = "bench.summary.memory"


class Measured(NamedTuple):
    """Bytes a subscription, and how many of these are the text of its id."""

    bytes: float
    text: float


class Engine(Protocol):
    """What all engines do."""

    def apply(self, command: Any, /) -> Any: ...


class Prepared(NamedTuple):
    """An engine without subscriptions, and what makes the command that adds them."""

    engine: Engine
    command: Callable[[], Any]


def measure(resource: str, m: int) -> Measured:
    """The bytes in a fresh process. Raises Failed when that fails."""
    return Measured(*run_job(MODULE, {"resource": resource, "m": m}))


def ids_of(m: int) -> pa.StringArray:
    """`s0`, `s1`, ... without a Python object for each."""
    return pc.binary_join_element_wise("s", pa.array(np.arange(m)).cast(pa.string()), "")


def _board(m: int) -> Prepared:
    l, r = make_ranges(m)
    return Prepared(
        BoardEngine(BoardConfig(("x",), "y", ks=(K,))),
        lambda: ToBoard(ids_of(m), ranges(l.copy(), r.copy()), np.full(m, K, np.int32)),
    )


def _matcher(m: int) -> Prepared:
    world = make_matcher_world(m, points=1)
    return Prepared(
        MatcherEngine(MatcherConfig(("x",), "exact")),
        lambda: ToMatcher(ids_of(m), Subscriptions(world.lo.copy(), world.hi.copy(), world.weight.copy())),
    )


def _relay(m: int) -> Prepared:
    lo, hi = make_boxes(m, 2)
    return Prepared(RelayEngine(RelayConfig(("x", "y"))), lambda: ToRelay(ids_of(m), lo.copy(), hi.copy()))


def _map(m: int) -> Prepared:
    world = make_map_world(OBJECTS, 2, True, "uniform", m, 1)
    attributes = tuple(Attribute(name, False, (0.0, 1.0)) for name in ("a", "b"))
    engine = MapEngine(MapConfig(attributes, (0.0, 0.0, 1.0, 1.0)))
    engine.apply(PutObjects(ids_of(OBJECTS), world.points, world.statics))
    top = Top(K, Score("weighted_sum", (("a", 0.3), ("b", 0.3), ("distance", 0.4))), K)
    places = np.ascontiguousarray(world.walks[:, 0])
    return Prepared(engine, lambda: AddQueries(ids_of(m), [top] * m, places.copy()))


def _feed(m: int) -> Prepared:
    posts = min(POSTS, m)
    world = make_feed_world(m, posts, VOCABULARY)
    words = pc.binary_join_element_wise("w", pa.array(np.arange(VOCABULARY)).cast(pa.string()), "")

    def keywords(documents: Documents) -> Keywords:
        return Keywords(documents.end.astype(np.int64), words.take(pa.array(documents.word)), documents.weight.copy())

    engine = FeedEngine(FeedConfig((0.0, 0.0, 1.0, 1.0), posts, tfidf=False))
    engine.apply(Post(ids_of(posts).to_pylist(), keywords(world.posts), world.places))
    return Prepared(
        engine,
        lambda: ToFeed(
            ids_of(m),
            FeedSubscriptions(
                keywords(world.subscriptions), world.homes.copy(), np.full(m, K, np.int64), world.alpha.copy()
            ),
        ),
    )


MADE: dict[str, Callable[[int], Prepared]] = {
    "boards": _board,
    "matchers": _matcher,
    "relays": _relay,
    "maps": _map,
    "feeds": _feed,
}
"""How an engine of each resource is made, and the command for so many subscriptions."""


def resident() -> int:
    """Resident bytes of this process, once it has given back what it can."""
    gc.collect()
    pa.default_memory_pool().release_unused()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise Failed("this process has no resident memory")


def measured_here(resource: str, m: int) -> Measured:
    """The bytes of so many subscriptions in this process, in which other memory should not change."""
    warm = MADE[resource](min(m, WARMING))
    warm.engine.apply(warm.command())
    prepared = MADE[resource](m)
    before = resident()
    prepared.engine.apply(prepared.command())
    after = resident()
    return Measured((after - before) / m, len("s") + float(np.char.str_len(np.arange(0, m, 97).astype(str)).mean()))


def main() -> None:
    job = json.load(sys.stdin)
    json.dump(measured_here(job["resource"], job["m"]), sys.stdout)


if __name__ == "__main__":
    main()
