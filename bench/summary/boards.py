"""Boards in the summary: painting, and batches."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median
from typing import NamedTuple

from app.runtime.priority import processors
from bench.boards import batch_speed, kernels, prototype
from bench.boards.workload import World, make_world, subscription_index
from bench.race import Contender, Raced, raced
from bench.report import count, ratio
from bench.summary.rows import Row, against, micros, times_faster
from indexes.boards.kernels.forest import Forest
from indexes.boards.team import PainterTeam
from indexes.core import helper_threads

BIG = 1_000_000

PAINTERS = min(2, processors())
"""Threads that paint together, as in the service."""


class Size(NamedTuple):
    """Subscriptions; objects of the small and the large board; events of a round by Paint-Sparse, Paint-Dense and
    Unicast; sizes of batches; rounds."""

    m: int = 2_000_000
    small: int = 10_000
    large: int = BIG
    sparse: int = 50_000
    dense: int = 200_000
    unicast: int = 500
    batches: tuple[int, ...] = (1_000, 10_000, 50_000)
    rounds: int = 5


QUICK = Size(sparse=20_000, dense=50_000, unicast=100, rounds=3)

DENSE_LIMIT = "{} tiles an event that must exist, a third of the time; as much is the walk from the object outwards"
SPARSE_LIMIT = (
    "{} tiles an event that must exist, and the subscriptions near it, fetched once: the few events near thousands "
    "of them take half the time"
)
BATCH_LIMIT = (
    "{} of the tiles are left and must exist; what they save pays for the difference that a batch makes (0.09 us an "
    "event, and 0.05 ms), a pass that applies promotions (0.02 to 0.05 us an event), and the objects that others had "
    "before, where many changes meet"
)


def painting(size: Size) -> Iterator[Row]:
    """Paint-Sparse at the small n, Paint-Dense at both, beside the prototype; and exact Unicast."""
    theirs = prototype.load(None)
    forest = subscription_index(size.m)
    kd = theirs.ranges(size.m) if theirs else None
    for name, n, events, wanted in (
        (kernels.SPARSE, size.small, size.sparse, 3.0),
        (kernels.DENSE, size.small, size.dense, 2.2),
        (kernels.DENSE, size.large, size.dense, 1.8),
    ):
        world, dense = make_world(n, events), name == kernels.DENSE
        contenders = [kernels.ours(world, forest, dense, world.events), by_two(world, forest, dense)]
        if theirs is not None:
            contenders += kernels.rivals(theirs, world, kd, dense, world.events)
        timed = raced(contenders, size.rounds)
        ours = timed[0].middle
        rivals = {
            one.name.partition(", ")[2]: _relative(timed[0], found) * ours
            for one, found in zip(contenders[2:], timed[2:], strict=True)
        }
        alone = f"; in one {micros(ours)}" + (f", {ratio(min(rivals.values()) / ours)} times" if rivals else "")
        paper, tiles = "", count(timed[0].made / events)
        if not dense:
            some = world.events[: size.unicast]
            ways = [kernels.unicast(world, forest, some, walk) for walk in (False, True)]
            by_calls, by_walk = (one.middle for one in raced(ways, 1))
            paper = "Unicast, " + against(ours, {"a call a subscription": by_calls, "by a walk": by_walk})
        shown = f"n = {n:,}, m = {size.m:,}, {events:,} events, in {PAINTERS} threads by the clock"
        if not dense:
            shown += ", our tiles counted and not made"
        limit = (DENSE_LIMIT if dense else SPARSE_LIMIT).format(tiles)
        yield times_faster(name, shown, wanted, timed[1].middle, rivals, paper=paper, limit=limit, also=alone)


def by_two(world: World, forest: Forest, dense: bool) -> Contender:
    """All events of the world as one large batch, by painters together, as the service paints it; by the clock."""
    changes = batch_speed.changes_of(world)
    helper_threads.provide(PAINTERS - 1)
    helpers = helper_threads.threads()

    def start() -> PainterTeam:
        painter = PainterTeam(batch_speed.config_of(dense))
        painter.subscriptions.arrays = forest
        batch_speed.start(painter, world)
        painter.assemble(len(helpers))
        return painter

    def run(painter: PainterTeam) -> int:
        return painter.run_together(helpers, changes, 0, len(changes.row), 1e9, False)[1]

    return Contender("", run, len(changes.row), by_the_wall=True, start=start)


def batches(size: Size) -> Iterator[Row]:
    """A batch beside the same events one by one, in a large board."""
    forest = subscription_index(size.m)
    world = make_world(size.large, max(size.batches))
    every = batch_speed.changes_of(world)
    for dense in (False, True):
        for events in size.batches:
            some = batch_speed.changes(every.row[:events], every.y[:events])
            singly, batch = batch_speed.race(
                world, forest, dense, some, 3 * size.rounds if events < 5_000 else size.rounds
            )
            factor = _relative(batch, singly)
            yield Row(
                f"a batch beside its events one by one, {'dense' if dense else 'sparse'}",
                f"n = {size.large:,}, m = {size.m:,}, {events:,} events",
                "at least 1.0 times",
                f"{ratio(factor)} times, {batch.middle:.2f} us an event, one by one {singly.middle:.2f} us",
                factor >= 1.0,
                limit=BATCH_LIMIT.format(f"{batch.made / max(1, singly.made):.0%}"),
            )


def _relative(ours: Raced, other: Raced) -> float:
    """How many times our time the other takes: the median of the rounds."""
    return median(b / a for a, b in zip(ours.micros, other.micros, strict=True))
