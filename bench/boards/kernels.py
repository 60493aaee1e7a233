"""The kernels on one core, beside the prototype's: same objects, subscriptions and events, in alternating rounds.

Times are those of the thread, so that other work on the machine counts as little as it can. Each round starts from the
first state of the world and takes the same events.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from bench.boards import prototype
from bench.boards.prototype import Prototype
from bench.boards.unicast import make_told, unicast_events
from bench.boards.workload import (
    COIN,
    World,
    make_world,
    object_index,
    paint_events,
    scratch,
    subscription_index,
)
from bench.report import Report, count, ratio, spread

K = 10

DENSE, SPARSE = "Paint-Dense", "Paint-Sparse"

AT_LEAST = 200.0
"""So many times the events of exact Unicast are wanted of Paint-Sparse at n = 10,000."""


class Size(NamedTuple):
    """How much is run. Events of one round: for Paint-Dense, Paint-Sparse and Unicast."""

    n: tuple[int, ...] = (10_000, 1_000_000)
    m: int = 2_000_000
    dense: int = 200_000
    sparse: int = 50_000
    unicast: int = 5_000
    rounds: int = 5


QUICK = Size(dense=50_000, sparse=10_000, unicast=500, rounds=3)

Run = Callable[[Any, Any], int]


class Contender(NamedTuple):
    """One implementation: `start()` makes its first state, `run(state, events)` answers how many messages it made."""

    name: str
    start: Callable[[], Any]
    run: Run


class Timed(NamedTuple):
    """Microseconds an event of each round, and messages an event."""

    micros: list[float]
    messages: float

    @property
    def middle(self) -> float:
        return median(self.micros)


def race(contenders: Sequence[Contender], events: Any, rounds: int) -> list[Timed]:
    """Run all contenders one after the other, that many times; compiling is not counted."""
    micros: list[list[float]] = [[] for _ in contenders]
    made = [0] * len(contenders)
    for one in contenders:
        one.run(one.start(), events[:3])
    for _ in range(rounds):
        for i, one in enumerate(contenders):
            state = one.start()
            began = time.thread_time()
            made[i] = one.run(state, events)
            micros[i].append((time.thread_time() - began) / len(events) * 1e6)
    return [Timed(m, total / len(events)) for m, total in zip(micros, made, strict=True)]


class Bench:
    """The races of one world after another, written to a report."""

    def __init__(self, report: Report, size: Size, folder: Path | None) -> None:
        self._report = report
        self._size = size
        self._theirs = prototype.load(folder)

    def show(self) -> None:
        """Run everything."""
        report, size = self._report, self._size
        report.text(
            f"One thread, k = {K}, m = {size.m:,} uniform subscriptions; events by a fair coin, {size.dense:,} a round "
            f"for {DENSE} and {size.sparse:,} for {SPARSE}, {size.rounds} rounds in alternation, microseconds of "
            "thread time an event: the median, and the least and greatest."
        )
        if self._theirs is None:
            report.text(
                "The prototype is not there (its folder is named by `--prototype` or `RANKCAST_PROTOTYPE`), so ours "
                "alone is measured."
            )
        forest = subscription_index(size.m)
        kd = self._theirs.ranges(size.m) if self._theirs else None
        for n in size.n:
            world = make_world(n, max(size.dense, size.sparse, size.unicast))
            report.heading(f"n = {n:,}", 3)
            self._race(world, n, forest, kd)
            if n == size.n[0]:
                self._unicast(world, n, forest, kd)

    def _race(self, world: World, n: int, forest: Any, kd: Any) -> None:
        size = self._size
        rows = []
        judged = []
        for name, events in ((DENSE, size.dense), (SPARSE, size.sparse)):
            contenders = [self._ours(world, forest, name == DENSE)]
            if self._theirs is not None:
                contenders += self._rivals(self._theirs, world, kd, name == DENSE)
            timed = race(contenders, world.events[:events], size.rounds)
            ours = timed[0]
            for contender, one in zip(contenders, timed, strict=True):
                faster = [b / a for a, b in zip(ours.micros, one.micros, strict=True)]
                rows.append(
                    (
                        contender.name,
                        f"{one.middle:.2f} {spread(one.micros, lambda v: f'{v:.2f}')}",
                        f"{1e6 / one.middle:,.0f}",
                        f"{one.messages:.2f}",
                        "" if one is ours else ratio(median(faster)),
                        "" if one is ours else " ".join(ratio(value) for value in faster),
                    )
                )
            if len(timed) > 1:
                rival = min(timed[1:], key=lambda one: one.middle)
                judged.append((name, ours, rival))
        self._report.table(
            ("kernel", "us/event", "events/s", "tiles/event", "ours is faster by", "in each round"),
            rows,
            text=("in each round",),
        )
        for name, ours, rival in judged:
            factor = median(b / a for a, b in zip(ours.micros, rival.micros, strict=True))
            self._report.verdict(
                f"{name} at n = {n:,} at least as fast as the prototype's fastest",
                f"{ours.middle:.2f} us against {rival.middle:.2f} us an event, {ratio(factor)} times as fast",
                factor >= 1.0,
            )

    def _unicast(self, world: World, n: int, forest: Any, kd: Any) -> None:
        size = self._size
        events = world.events[: size.unicast]
        work, _ = scratch(K)
        told = make_told(size.m)

        def run(walk: bool) -> Run:
            return lambda o, e: int(unicast_events(o, forest, K, work, e, n, COIN, walk, told)[0])

        walked = Contender("Unicast, exact, by a walk from the object", lambda: object_index(world), run(True))
        contenders = [Contender("Unicast, exact, by `min_y`", lambda: object_index(world), run(False)), walked]
        theirs = self._theirs
        if theirs is not None:
            buffers = (np.empty(size.m), np.empty(size.m), np.empty(size.m, np.int32), np.empty(size.m, np.int64))
            contenders.append(
                Contender(
                    "prototype, Unicast, exact",
                    lambda: theirs.objects(world, K),
                    lambda state, e: theirs.unicast(state, kd, world, e, COIN, K, buffers),
                )
            )
        timed = race(contenders, events, 1)
        sparse = race([self._ours(world, forest, False)], events, size.rounds)[0]
        rows = []
        for contender, one in zip(contenders, timed, strict=True):
            rate, factor = f"{1e6 / one.middle:,.0f}", ratio(one.middle / sparse.middle)
            rows.append(
                (contender.name, f"{one.middle:,.0f}", rate, count(one.messages), f"{sparse.middle:.2f}", factor)
            )
        head = ("baseline", "us/event", "events/s", "messages/event", f"{SPARSE} on these events, us", "is faster by")
        self._report.table(head, rows)
        by_calls = min(one.middle for contender, one in zip(contenders, timed, strict=True) if contender is not walked)
        self._report.verdict(
            f"{SPARSE} at n = {n:,} at least {AT_LEAST:.0f} times as fast as exact Unicast",
            f"{ratio(by_calls / sparse.middle)} times the fastest that calls `min_y` for each subscription, as the "
            f"paper's does; {ratio(timed[1].middle / sparse.middle)} times ours, which walks from the object instead",
            by_calls / sparse.middle >= AT_LEAST,
        )

    def _ours(self, world: World, forest: Any, dense: bool) -> Contender:
        ks = np.array([K])
        work, tiles = scratch(K)
        n = len(world.x)
        return Contender(
            DENSE if dense else SPARSE,
            lambda: object_index(world),
            lambda o, events: int(paint_events(o, forest, ks, dense, work, tiles, events, n, COIN)),
        )

    def _rivals(self, theirs: Prototype, world: World, kd: Any, dense: bool) -> list[Contender]:
        def start() -> Any:
            return theirs.objects(world, K)

        if dense:
            return [
                Contender("prototype, outward walk", start, lambda s, e: theirs.paint_dense(s, world, e, COIN, K)),
            ]
        return [
            Contender("prototype, snaps", start, lambda s, e: theirs.paint_sparse(s, kd, world, e, COIN, K)),
            Contender("prototype, hybrid", start, lambda s, e: theirs.paint_hybrid(s, kd, world, e, COIN, K)),
        ]
