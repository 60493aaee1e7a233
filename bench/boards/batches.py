"""Figure 16: a sequence of events as one batch, and how the paper's own steps for it fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bench.boards.batch_speed import changes
from bench.boards.batch_steps import count_faults
from bench.boards.plays import SPARSE, Sequence, play
from bench.boards.stage import Stage
from bench.compare import INF, Claim, Curve, Panel, claims, curves
from bench.report import Report
from indexes.boards.batch import Batch
from indexes.boards.config import BoardConfig
from indexes.boards.kernels.forest import Forest, count
from indexes.boards.kernels.range_tree import RangeTree
from indexes.boards.kernels.scratch import MIN_Y
from indexes.boards.kernels.tiles import Tiles
from indexes.boards.painter import Painter
from indexes.compiled.jit import kernel

WORLDS, QUICK_WORLDS = 10_000, 500
"""Small batches on which the paper's steps are played."""


class Cost(NamedTuple):
    """Of a whole batch: messages, what subscriptions receive of them, calls of `min_y`."""

    messages: float
    received: float
    min_y: float


def coalesced(events: Sequence) -> Sequence:
    """The last event of every object, in their order."""
    _, from_the_end = np.unique(events.row[::-1], return_index=True)
    last = np.sort(len(events.row) - 1 - from_the_end)
    return Sequence(events.row[last], events.y[last])


def paint_together(objects: RangeTree, forest: Forest, events: Sequence, k: int) -> Cost:
    """Paint-Batch on all events as one batch. `objects` is moved on."""
    painter = Painter(BoardConfig(("x",), "y", "asc", (k,), "sparse"))
    painter.objects.arrays = objects
    painter.subscriptions.arrays = forest
    batch = Batch(painter, changes(events.row, events.y), 0, len(objects.pos), [])
    while not batch.done:
        batch.paint(1.0, True)
    return Cost(float(batch.made), float(count_recipients(forest, painter.tiles)), float(painter.work.stats[MIN_Y]))


@kernel
def count_recipients(forest: Forest, tiles: Tiles) -> int:
    """How many subscriptions the tiles reach, each tile on its own."""
    reached = 0
    for t in range(tiles.n[0]):
        reached += count(forest, 0, tiles.side[t, 0], tiles.side[t, 1], tiles.side[t, 2], tiles.side[t, 3])
    return reached


class Batches:
    """Figure 16."""

    def __init__(self, report: Report, stage: Stage, worlds: int = WORLDS) -> None:
        self._report = report
        self._stage = stage
        self._worlds = worlds

    def figure_16(self) -> list[Panel]:
        """Messages, messages received and calls over the whole sequence, by k."""
        stage = self._stage
        ks, events = stage.size.ks, stage.events(1)
        ways: dict[str, Callable[[int], Cost]] = {
            "Online": lambda k: self._each(events, k),
            "Coalesce": lambda k: self._each(coalesced(events), k),
            "Paint-Batch": lambda k: paint_together(stage.objects(1), stage.forest(stage.size.m, 1), events, k),
        }
        found = {name: [way(k) for k in ks] for name, way in ways.items()}
        self._report.text(
            f"One batch of {len(events.row):,} events, {len(coalesced(events).row):,} when those of an object are one, "
            f"m = {stage.size.m:,}; all by Paint-Sparse."
        )
        panels = []
        for part, column, title in (
            ("a", "messages", "messages"),
            ("b", "received", "messages received by subscriptions"),
            ("c", "min_y", "min_y calls"),
        ):
            lines = tuple(Curve(name, ks, [getattr(cost, column) for cost in costs]) for name, costs in found.items())
            panels.append(Panel(16, part, f"{title} of one batch", "k", title, lines, logs="y"))
            curves(self._report, panels[-1])
        claims(self._report, self._said(panels))
        self._steps()
        return panels

    def _said(self, panels: list[Panel]) -> list[Claim]:
        events = self._stage.events(1)
        few = f"the batch is short: {len(events.row) / len(coalesced(events).row):.1f} events an object"
        rows = []
        for panel in panels:
            online, coalesce, batch = (np.array(line.y) for line in panel.curves)
            for text, share in (
                ("Paint-Batch of Coalesce", batch / coalesce),
                ("Coalesce of Online", coalesce / online),
                ("saved by the order, of what coalescing saves", (coalesce - batch) / (online - coalesce)),
            ):
                rows.append(Claim(f"({panel.part}) {text}: less, for all k", -INF, 1, float(share.max()), few))
        return rows

    def _each(self, events: Sequence, k: int) -> Cost:
        stage = self._stage
        forest = stage.forest(stage.size.m, 1)
        found = play(stage.objects(1), forest, events, SPARSE, k, hearing=True)
        n = len(events.row)
        return Cost(n * found.messages, n * (found.affected + found.exposed), n * found.min_y)

    def _steps(self) -> None:
        faults = count_faults(self._worlds)
        self._report.text(
            "The four steps as the paper prints them, on random batches of a few objects, k = 1 to 3, against brute "
            "force; too many is more than the rule of `Paint-Batch` here sends, which was right on all of them."
        )
        self._report.table(
            ("the paper's steps", "", "wrong in the end", "too many messages", "wrong by the rule"),
            [
                ("batches", f"{faults.worlds:,}", f"{faults.wrong_worlds:,}", f"{faults.wasteful_worlds:,}", ""),
                (
                    "lists",
                    f"{faults.lists:,}",
                    f"{faults.wrong:,}",
                    f"{faults.wasteful:,}",
                    f"{faults.wrong_by_rule:,}",
                ),
            ],
        )
