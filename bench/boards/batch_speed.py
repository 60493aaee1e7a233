"""Paint-Batch compared with the same events painted one by one: the time of a whole batch, by its size.

Both take the board's own way through `Painter`, from the first state of the world, and leave both object indexes after
the batch: the one that painting reads and the one that serves reads. Nobody listens: by
Paint-Sparse the tiles of events one by one are then only counted, where a batch makes its own.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from typing import NamedTuple

import numpy as np

from bench.boards.workload import World, make_world, subscription_index
from bench.race import Contender, Raced, raced
from bench.report import Report, count, middle, ratio
from indexes.boards.batch import Batch
from indexes.boards.config import BoardConfig
from indexes.boards.kernels.changes import SET, Changes
from indexes.boards.kernels.forest import Forest
from indexes.boards.kernels.object_index import ObjectIndex
from indexes.boards.kernels.range_tree import RangeTreeIndex
from indexes.boards.kernels.step import advance
from indexes.boards.painter import Painter
from indexes.core.arrays import Floats, Ints32

K = 10


class Size(NamedTuple):
    """How much is run: objects, subscriptions, events in a batch, and rounds."""

    n: tuple[int, ...] = (10_000, 1_000_000)
    m: int = 2_000_000
    events: tuple[int, ...] = (1_000, 10_000, 50_000)
    rounds: int = 5

    def rounds_of(self, events: int) -> int:
        """More of a short batch, which the machine disturbs more."""
        return max(self.rounds, min(20 * self.rounds, 100_000 // events))


QUICK = Size(n=(10_000,), events=(1_000, 10_000), rounds=3)


class State(NamedTuple):
    """A board's painter, and the index that serves its reads."""

    painter: Painter
    view: ObjectIndex


def changes_of(world: World) -> Changes:
    """The world's events: a random object goes up or down by a fair coin, then uniformly on that side."""
    n = len(world.x)
    row = (world.events[:, 0] * n).astype(np.int32)
    now, y = world.y.copy(), np.empty(len(row))
    for e, (_, u, side) in enumerate(world.events):
        old = now[row[e]]
        y[e] = now[row[e]] = old * u if side < 0.5 else old + (1.0 - old) * u
    return changes(row, y)


def changes(row: Ints32, y: Floats) -> Changes:
    """Changes of y, as the painter takes them."""
    n = len(row)
    return Changes(np.full(n, SET, np.uint8), row, np.full(n, np.nan), y, np.zeros(n, np.int64), np.zeros(n, np.uint8))


def config_of(dense: bool) -> BoardConfig:
    """A board of lists of K, painted by Paint-Dense or Paint-Sparse."""
    return BoardConfig(("x",), "y", "asc", (K,), "dense" if dense else "sparse")


def new_painter(forest: Forest, dense: bool) -> Painter:
    """A board's painter, with its subscriptions and without objects."""
    painter = Painter(config_of(dense))
    painter.subscriptions.arrays = forest
    return painter


def start(painter: Painter, world: World) -> State:
    """The first state of a world. The painter keeps its buffers, as that of a board does from batch to batch."""
    n = np.arange(len(world.x))
    painter.objects = RangeTreeIndex.build(world.x, world.y, n, n)
    return State(painter, painter.objects.frozen())


def one_by_one(state: State, events: Changes) -> int:
    """Paint the events as so many changes; returns how many tiles that were."""
    made = state.painter.run(events, 0, len(events.row), 1e9, False)[1]
    advance(state.view.arrays, events, 0, len(events.row))
    return made


def together(state: State, events: Changes) -> int:
    """Paint the events as one batch; returns how many tiles that were."""
    batch = Batch(state.painter, events, 0, len(state.painter.objects), [])
    while not batch.done:
        batch.paint(1e9, False)
    if batch.view is None:
        batch.advance(state.view)
    return batch.made


def race(world: World, forest: Forest, dense: bool, events: Changes, rounds: int) -> list[Raced]:
    """One by one and together, in alternating rounds, with their tiles."""

    def contender(way: Callable[[State, Changes], int]) -> Contender:
        painter = new_painter(forest, dense)
        return Contender("", lambda state: way(state, events), len(events.row), start=lambda: start(painter, world))

    return raced([contender(way) for way in (one_by_one, together)], rounds)


def show(report: Report, size: Size) -> None:
    """Race both ways for each algorithm, world and size of batch, and judge."""
    report.text(
        f"One thread, k = {K}, m = {size.m:,} uniform subscriptions; events by a fair coin; {size.rounds} rounds in "
        f"alternation, of short batches up to {20 * size.rounds}; milliseconds of thread time for all events: the "
        "median, and the least and greatest. The index that serves reads is moved on in both. Nobody gets the tiles: "
        "by Paint-Sparse those of events one by one are only counted."
    )
    forest = subscription_index(size.m)
    rows, judged = [], []
    for dense in (False, True):
        for n in size.n:
            world = make_world(n, max(size.events))
            every = changes_of(world)
            for events in size.events:
                some = changes(every.row[:events], every.y[:events])
                name = f"{'dense' if dense else 'sparse'}, n = {n:,}, {events:,} events"
                singly, batch = race(world, forest, dense, some, size.rounds_of(events))
                factors = [a / b for a, b in zip(singly.micros, batch.micros, strict=True)]
                each = " ".join(ratio(value) for value in factors[: size.rounds])
                factor = median(factors)
                times = [middle([value * events / 1e3 for value in one.micros]) for one in (singly, batch)]
                rows.append((name, *times, count(singly.made), count(batch.made), ratio(factor), each))
                judged.append((name, factor))
    head = ("batch", "one by one, ms", "as a batch, ms", "tiles", "of the batch", "faster by", "in the first rounds")
    report.table(head, rows, text=("in the first rounds",))
    for name, factor in judged:
        report.verdict(
            f"A batch no slower than its events one by one: {name}", f"{ratio(factor)} times as fast", factor >= 1.0
        )
