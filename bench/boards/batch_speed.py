"""Paint-Batch beside the same events painted one by one: the time of a whole batch, by its size.

Both take the board's own way through `Painter`, from the first state of the world, and leave both object indexes after
the batch: the one that painting reads and the one that serves reads. Nobody listens.
"""

from __future__ import annotations

import time
from statistics import median
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.boards.workload import World, make_world, subscription_index
from bench.report import Report, count, ratio, spread
from indexes.boards.batch import Batch
from indexes.boards.changes import SET, Changes
from indexes.boards.commands import BoardConfig
from indexes.boards.forest import Forest
from indexes.boards.objects import ObjectIndex
from indexes.boards.painter import Painter
from indexes.boards.range_tree import RangeTreeIndex
from indexes.boards.step import advance

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


def changes(row: NDArray[np.int32], y: NDArray[np.float64]) -> Changes:
    """Changes of y, as the painter takes them."""
    n = len(row)
    return Changes(np.full(n, SET, np.uint8), row, np.full(n, np.nan), y, np.zeros(n, np.int64), np.zeros(n, np.uint8))


def new_painter(forest: Forest, dense: bool) -> Painter:
    """A board's painter, with its subscriptions and without objects."""
    painter = Painter(BoardConfig(("x",), "y", "asc", (K,), "dense" if dense else "sparse"))
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


class Timed(NamedTuple):
    """Milliseconds of the whole batch in each round, and its tiles."""

    millis: list[float]
    tiles: int

    def __str__(self) -> str:
        return f"{median(self.millis):,.1f} {spread(self.millis)}"


def race(world: World, forest: Forest, dense: bool, events: Changes, rounds: int) -> tuple[Timed, Timed]:
    """One by one and together, in alternating rounds; compiling and the first growth of buffers are not counted."""
    ways = one_by_one, together
    painters = [new_painter(forest, dense) for _ in ways]
    for painter, way in zip(painters, ways, strict=True):
        way(start(painter, world), events)
    millis: tuple[list[float], list[float]] = [], []
    tiles = [0, 0]
    for _ in range(rounds):
        for i, way in enumerate(ways):
            state = start(painters[i], world)
            began = time.thread_time()
            tiles[i] = way(state, events)
            millis[i].append((time.thread_time() - began) * 1e3)
    return Timed(millis[0], tiles[0]), Timed(millis[1], tiles[1])


def show(report: Report, size: Size) -> None:
    """Race both ways for each algorithm, world and size of batch, and judge."""
    report.text(
        f"One thread, k = {K}, m = {size.m:,} uniform subscriptions; events by a fair coin; {size.rounds} rounds in "
        f"alternation, of short batches up to {20 * size.rounds}; milliseconds of thread time for all events: the "
        "median, and the least and greatest. The index that serves reads is moved on in both."
    )
    forest = subscription_index(size.m)
    rows, judged = [], []
    for dense in (False, True):
        for n in size.n:
            world = make_world(n, max(size.events))
            every = changes_of(world)
            for events in size.events:
                some = Changes(*(column[:events] for column in every))
                name = f"{'dense' if dense else 'sparse'}, n = {n:,}, {events:,} events"
                apart, batch = race(world, forest, dense, some, size.rounds_of(events))
                factors = [a / b for a, b in zip(apart.millis, batch.millis, strict=True)]
                each = " ".join(ratio(value) for value in factors[: size.rounds])
                factor = median(factors)
                rows.append((name, str(apart), str(batch), count(apart.tiles), count(batch.tiles), ratio(factor), each))
                judged.append((name, factor))
    head = ("batch", "one by one, ms", "as a batch, ms", "tiles", "of the batch", "faster by", "in the first rounds")
    report.table(head, rows, text=("in the first rounds",))
    for name, factor in judged:
        report.verdict(
            f"A batch no slower than its events one by one: {name}", f"{ratio(factor)} times as fast", factor >= 1.0
        )
