"""The kernels on one core, and the prototype's: same objects, subscriptions and events, in alternating rounds.

Times are those of the thread, so that other work on the machine counts as little as it can. Each round starts from the
first state of the world and takes the same events.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from bench import prototypes
from bench.baselines.unicast import make_recipients, unicast_events
from bench.boards import prototype
from bench.boards.prototype import Prototype
from bench.boards.workload import COIN, World, make_world, object_index, paint_events, scratch, subscription_index
from bench.race import Contender, raced
from bench.report import Report, count, middle, ratio
from indexes.boards.kernels.scratch import PaintContext
from indexes.core.arrays import Floats

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
        prototypes.say_missing(report, self._theirs, prototypes.BOARDS)
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
            some = world.events[:events]
            contenders = [ours(world, forest, name == DENSE, some)]
            if self._theirs is not None:
                contenders += rivals(self._theirs, world, kd, name == DENSE, some)
            timed = raced(contenders, size.rounds)
            mine = timed[0]
            for contender, one in zip(contenders, timed, strict=True):
                faster = [b / a for a, b in zip(mine.micros, one.micros, strict=True)]
                rows.append(
                    (
                        contender.name,
                        middle(one.micros, 2),
                        f"{1e6 / one.middle:,.0f}",
                        f"{one.made / events:.2f}",
                        "" if one is mine else ratio(median(faster)),
                        "" if one is mine else " ".join(ratio(value) for value in faster),
                    )
                )
            if len(timed) > 1:
                rival = min(timed[1:], key=lambda one: one.middle)
                judged.append((name, mine, rival))
        self._report.table(
            ("kernel", "us/event", "events/s", "tiles/event", "ours is faster by", "in each round"),
            rows,
            text=("in each round",),
        )
        for name, mine, rival in judged:
            factor = median(b / a for a, b in zip(mine.micros, rival.micros, strict=True))
            self._report.verdict(
                f"{name} at n = {n:,} at least as fast as the prototype's fastest",
                f"{mine.middle:.2f} us against {rival.middle:.2f} us an event, {ratio(factor)} times as fast",
                factor >= 1.0,
            )

    def _unicast(self, world: World, n: int, forest: Any, kd: Any) -> None:
        size = self._size
        events = world.events[: size.unicast]
        walked = unicast(world, forest, events, True)
        contenders = [unicast(world, forest, events, False), walked]
        theirs = self._theirs
        if theirs is not None:
            buffers = (np.empty(size.m), np.empty(size.m), np.empty(size.m, np.int32), np.empty(size.m, np.int64))
            contenders.append(
                Contender(
                    "prototype, Unicast, exact",
                    lambda state: theirs.unicast(state, kd, world, events, COIN, K, buffers),
                    len(events),
                    start=lambda: theirs.objects(world, K),
                )
            )
        timed = raced(contenders, 1)
        sparse = raced([ours(world, forest, False, events)], size.rounds)[0]
        rows = []
        for contender, one in zip(contenders, timed, strict=True):
            rate, factor = f"{1e6 / one.middle:,.0f}", ratio(one.middle / sparse.middle)
            rows.append(
                (
                    contender.name,
                    f"{one.middle:,.0f}",
                    rate,
                    count(one.made / len(events)),
                    f"{sparse.middle:.2f}",
                    factor,
                )
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


def ours(world: World, forest: Any, dense: bool, events: Floats) -> Contender:
    """Paint-Dense or Paint-Sparse, which makes the tiles of these events from the world's first state."""
    context, n = PaintContext(forest, np.array([K]), dense, 0, *scratch(K)), len(world.x)
    return Contender(
        DENSE if dense else SPARSE,
        lambda objects: int(paint_events(objects, context, events, n, COIN)),
        len(events),
        start=lambda: object_index(world),
    )


def unicast(world: World, forest: Any, events: Floats, walk: bool) -> Contender:
    """Exact Unicast, which names every recipient: by a walk from the object, or by `min_y` for each subscription."""
    work, _ = scratch(K)
    recipients, n = make_recipients(len(forest.pos)), len(world.x)

    def run(objects: Any) -> int:
        return int(unicast_events(objects, forest, K, work, events, n, COIN, walk, recipients)[0])

    name = "Unicast, exact, by a walk from the object" if walk else "Unicast, exact, by `min_y`"
    return Contender(name, run, len(events), start=lambda: object_index(world))


def rivals(theirs: Prototype, world: World, kd: Any, dense: bool, events: Floats) -> list[Contender]:
    """The prototype's ways to the same tiles; `kd` is its subscription index."""

    def start() -> Any:
        return theirs.objects(world, K)

    if dense:
        ways = {"outward walk": lambda s: theirs.paint_dense(s, world, events, COIN, K)}
    else:
        ways = {
            "snaps": lambda s: theirs.paint_sparse(s, kd, world, events, COIN, K),
            "hybrid": lambda s: theirs.paint_hybrid(s, kd, world, events, COIN, K),
        }
    return [Contender(f"prototype, {name}", run, len(events), start=start) for name, run in ways.items()]
