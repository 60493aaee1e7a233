"""Speed on one core: commands under every index, beside the prototype's, and notifications beside a scan by numpy.

Times are those of the thread, so that other work on the machine counts as little as it can. Contenders take turns, and
what they decide is compared.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from bench.relays import prototype
from bench.relays.workload import MOST, Commands, make_boxes, make_commands
from bench.report import Report, ratio, spread
from indexes.relays.kd_tree import KdIndex
from indexes.relays.linear import LinearIndex
from indexes.relays.relations import Known
from indexes.relays.search import CoverIndex
from indexes.relays.slabs import SlabIndex
from indexes.relays.z_order import ZIndex

P = 0.15
"""The share of commands that unsubscribe."""


class Size(NamedTuple):
    """How much is run: commands, the paper's dimensions, boxes and notifications, and rounds of each."""

    commands: int = 100_000
    dimensions: tuple[int, ...] = (6, 8, 10, 12, 14, 16)
    boxes: int = 1_000_000
    attributes: tuple[int, ...] = (2, 4, 8)
    notifications: int = 50
    rounds: int = 3
    scans: int = 1


QUICK = Size(5_000, (6, 16), 20_000, (4,), 10, 2, 1)


class Contender(NamedTuple):
    """One way to carry out all commands: its run returns the seconds and how many subscriptions were forwarded."""

    name: str
    run: Callable[[], tuple[float, int]]
    rounds: int


class Bench:
    """The speed tables, written to a report."""

    def __init__(self, report: Report, size: Size, folder: Path | None = None) -> None:
        self._report = report
        self._size = size
        self._theirs = prototype.load(folder)

    def show(self) -> None:
        size = self._size
        self._report.heading("Commands", 3)
        self._report.text(
            f"{size.commands:,} commands, of which {P:.0%} unsubscribe, under G_1; seconds of thread time, the median "
            f"of {size.rounds} rounds in alternation (the scans: {size.scans}), and the least and greatest. Roots: the "
            "index holds only what nothing is known to cover, as a relay's does."
        )
        if self._theirs is None:
            self._report.text("The prototype is not there.")
        self._race(min(size.dimensions), make_commands(200, min(size.dimensions) // 2, P))
        rows = []
        for dimensions in size.dimensions:
            seconds = self._race(dimensions, make_commands(size.commands, dimensions // 2, P))
            rows.append((str(dimensions), *(_shown(mine) for mine in seconds.values())))
            self._judge(dimensions, {name: median(mine) for name, mine in seconds.items()})
        self._report.table(("dimensions", *seconds), rows)
        self._report.heading("Notifications", 3)
        for attributes in size.attributes:
            self._notify(attributes)

    def _race(self, dimensions: int, commands: Commands) -> dict[str, list[float]]:
        """Seconds of each contender in each round."""
        size = self._size
        contenders = [
            Contender("k-d", lambda: _ours(KdIndex, commands, False), size.rounds),
            Contender("k-d, roots", lambda: _ours(KdIndex, commands, True), size.rounds),
            Contender("Z-order", lambda: _ours(ZIndex, commands, False), size.rounds),
            Contender("Z-order, roots", lambda: _ours(ZIndex, commands, True), size.rounds),
            Contender("scan", lambda: _ours(LinearIndex, commands, False), size.scans),
        ]
        theirs = self._theirs
        if theirs is not None:
            for name, engine, options, rounds in (
                ("prototype: k-d", "kd", {}, size.rounds),
                ("k-d, roots (its)", "kd", {"roots": True}, size.rounds),
                ("Z-order (its)", "z", {"leaf": 64, "bufcap": 256}, size.rounds),
                ("scan (its)", "naive", {}, size.scans),
            ):
                contenders.append(
                    Contender(name, lambda e=engine, o=options: _prototype(theirs, e, commands, o), rounds)
                )
        seconds: dict[str, list[float]] = {one.name: [] for one in contenders}
        for i in range(max(size.rounds, size.scans)):
            told = set()
            for one in contenders:
                if i < one.rounds:
                    took, forwarded = one.run()
                    seconds[one.name].append(took)
                    told.add(forwarded)
            assert len(told) == 1, (dimensions, told)
        return seconds

    def _judge(self, dimensions: int, seconds: dict[str, float]) -> None:
        if dimensions == 16:
            for wanted, baselines, factor in (
                ("the scan", ("scan", "scan (its)"), 40),
                ("the Z-order index", ("Z-order", "Z-order (its)"), 4),
            ):
                best = min(seconds[name] for name in baselines if name in seconds)
                times = best / seconds["k-d"]
                self._report.verdict(
                    f"at 16 dimensions the k-d tree at least {factor} times as fast as {wanted}, ours or the "
                    "prototype's, whichever is faster",
                    f"{ratio(times)} times",
                    times >= factor,
                )
        if "prototype: k-d" in seconds:
            theirs = min(seconds["prototype: k-d"], seconds["k-d, roots (its)"])
            self._report.verdict(
                f"at {dimensions} dimensions the relay's k-d tree at least as fast as the prototype's",
                f"{ratio(theirs / seconds['k-d, roots'])} times",
                seconds["k-d, roots"] <= theirs,
            )

    def _notify(self, attributes: int) -> None:
        """Which boxes hold a point: the slabs, and numpy over columns, one condition after the other."""
        size = self._size
        lo, hi = make_boxes(size.boxes, attributes)
        commands = Commands(np.empty(0, np.uint8), np.empty(0, np.int32), lo, hi)
        points = commands.table()
        index = SlabIndex(attributes)
        began = time.thread_time()
        index.insert(points, np.arange(size.boxes, dtype=np.int32))
        built = time.thread_time() - began
        values = np.random.default_rng(1).uniform(0, MOST, (size.notifications, attributes))
        columns = [(np.ascontiguousarray(lo[:, j]), np.ascontiguousarray(hi[:, j])) for j in range(attributes)]

        def slabs() -> list[Any]:
            slots, upto = index.containing(points, values)
            return np.split(slots, upto[:-1])

        def scan() -> list[Any]:
            return [_holding(columns, point) for point in values]

        assert all(np.array_equal(np.sort(a), b) for a, b in zip(slabs(), scan(), strict=True))
        micros: dict[str, list[float]] = {"slabs": [], "numpy scan": []}
        for _ in range(size.rounds):
            for name, run in zip(micros, (slabs, scan), strict=True):
                began = time.thread_time()
                run()
                micros[name].append((time.thread_time() - began) / len(values) * 1e6)
        met = np.mean([len(found) for found in slabs()])
        self._report.text(
            f"{size.boxes:,} boxes in {attributes} attributes, {met:,.0f} of them met on average; inserted one by one "
            f"in {built / size.boxes * 1e6:.2f} us each."
        )
        self._report.table(
            ("way", "us/notification"),
            [(name, f"{median(mine):,.0f} {spread(mine, lambda v: f'{v:,.0f}')}") for name, mine in micros.items()],
        )
        times = median(micros["numpy scan"]) / median(micros["slabs"])
        if attributes == 4:
            self._report.verdict(
                "a notification among boxes of 4 attributes at least 20 times as fast as a scan by numpy",
                f"{ratio(times)} times",
                times >= 20,
            )


def _holding(columns: list[tuple[Any, Any]], point: Any) -> Any:
    """The boxes that hold a point, by whole columns."""
    met = np.ones(len(columns[0][0]), np.bool_)
    for (lo, hi), x in zip(columns, point, strict=True):
        met &= lo <= x
        met &= hi >= x
    return np.flatnonzero(met)


def _shown(seconds: list[float]) -> str:
    return f"{median(seconds):.3f} {spread(seconds, lambda v: f'{v:.3f}')}"


def _ours(kind: type[CoverIndex], commands: Commands, roots: bool) -> tuple[float, int]:
    points = commands.table()
    relations = Known(kind(points.exact.shape[1]), 1, roots)
    began = time.thread_time()
    told = relations.apply(points, commands.op, commands.slot)
    return time.thread_time() - began, int(told.forward[commands.op == 0].sum()) + len(told.promoted)


def _prototype(theirs: ModuleType, engine: str, commands: Commands, options: dict[str, Any]) -> tuple[float, int]:
    n, d = commands.lo.shape
    rows = np.empty((n, 2 * d), np.int32)
    rows[:, 0::2] = MOST - commands.lo
    rows[:, 1::2] = commands.hi
    began = time.thread_time()
    stats, _ = theirs.run(engine, rows, commands.op.astype(np.int8), commands.slot, **options)
    return time.thread_time() - began, int(stats["forwarded"])
