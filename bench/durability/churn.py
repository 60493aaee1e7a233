"""A subscription index that changes in place, compared with one laid out afresh from the same subscriptions."""

from __future__ import annotations

import time
from statistics import median
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from bench.boards.workload import World, make_ranges, make_world
from bench.report import Report, ratio
from indexes.boards.commands import AddSubscriptions, DeleteSubscriptions, Events
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.boards.packing import ends, pack_forest, to_forest
from indexes.boards.regions import ranges
from indexes.boards.subscription_index import SubscriptionIndex

K = 10


class Size(NamedTuple):
    """How much is run; `events` a round."""

    n: int = 10_000
    m: int = 2_000_000
    events: int = 20_000
    rounds: int = 5
    shares: tuple[float, ...] = (0.1, 0.5, 1.0, 2.0)


QUICK = Size(m=100_000, events=2_000, rounds=2, shares=(0.5,))


def show(report: Report, size: Size) -> None:
    """Change shares of the subscriptions in place, and compare painting over the two indexes in rounds."""
    report.heading("Changes in place")
    report.text(
        f"n = {size.n:,}, m = {size.m:,}, k = {K}, Paint-Sparse, one core. Of the subscriptions a share is deleted and "
        f"as many others made, in steps of a tenth; then the same {size.events:,} events are painted over the index as "
        f"it is and over a fresh layout of the same subscriptions, in {size.rounds} alternating rounds (medians)."
    )
    world = make_world(size.n, size.events * size.rounds)
    board = BoardEngine(BoardConfig(("x",), "y", ks=(K,)))
    l, r = make_ranges(size.m)
    board.apply(
        AddSubscriptions(pa.array([f"s{i}" for i in range(size.m)]), ranges(l, r), np.full(size.m, K, np.int32))
    )
    names = [f"o{i}" for i in range(size.n)]
    board.apply(Events(np.zeros(size.n, np.uint8), names, world.x, world.y))
    rows = []
    made = size.m
    rng = np.random.default_rng(5)
    worst = 1.0
    for share in size.shares:
        while made < size.m + share * size.m:
            made = _change(board, rng, made, size.m // 10, size.m)
        mine, fresh = _compare(board, world, size)
        worst = max(worst, mine / fresh)
        rows.append((f"{share:.0%}", f"{mine * 1e6:.2f}", f"{fresh * 1e6:.2f}", ratio(mine / fresh)))
    report.table(("changed", "in place, us/event", "laid out afresh, us/event", "ratio"), rows)
    report.verdict(
        "an index that changed in place at most 1.15 times the time of a fresh one", ratio(worst), worst <= 1.15
    )


def _change(board: BoardEngine, rng: np.random.Generator, made: int, step: int, m: int) -> int:
    """Delete the oldest `step` subscriptions of the last m made, and make as many new ones; returns the number made."""
    board.apply(DeleteSubscriptions([f"s{i}" for i in range(made - m, made - m + step)]))
    both = np.sort(rng.random((step, 2)), 1)
    fresh = pa.array([f"s{i}" for i in range(made, made + step)])
    board.apply(AddSubscriptions(fresh, ranges(*both.T), np.full(step, K, np.int32)))
    return made + step


def _compare(board: BoardEngine, world: World, size: Size) -> tuple[float, float]:
    """Seconds an event over the index as it is, and over a fresh one."""
    painter, subscribers = board.painter, board.subscribers
    sids = np.flatnonzero(subscribers.k).astype(np.int32)
    k = subscribers.k[sids].astype(np.int32)
    packed = pack_forest((K,), k, sids, ends(subscribers.regions.l[sids]), ends(subscribers.regions.r[sids]))
    fresh = SubscriptionIndex()
    fresh.adopt(packed.ks, to_forest(packed, subscribers.high))
    indexes = painter.subscriptions, fresh
    seconds: tuple[list[float], list[float]] = ([], [])
    names = [f"o{i}" for i in range(size.n)]
    for turn in range(size.rounds):
        some = world.events[turn * size.events : (turn + 1) * size.events]
        ids = [names[i] for i in (some[:, 0] * size.n).astype(int)]
        events = Events(np.zeros(len(ids), np.uint8), ids, np.full(len(ids), np.nan), some[:, 1].copy())
        for which in (0, 1) if turn % 2 else (1, 0):
            painter.subscriptions = indexes[which]
            plan = board.prepare(events)
            began = time.perf_counter()
            while not plan.done:
                plan.execute(10.0)
                seconds[which].append((time.perf_counter() - began) / len(ids))
                plan.publish()
    painter.subscriptions = indexes[0]
    return median(seconds[0]), median(seconds[1])
