"""Seconds of thread time that commands take under each index, ours and the prototype's; what they decide is compared.

Contenders take turns, and thread time is counted, so that other work on the machine counts as little as it can.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from bench import prototypes
from bench.relays.workload import MOST, Commands, make_commands
from bench.report import Report
from indexes.relays.alternatives.linear import LinearIndex
from indexes.relays.alternatives.z_order import ZIndex
from indexes.relays.kernels.covering_index import CoverIndex
from indexes.relays.kernels.kd_tree import KdIndex
from indexes.relays.relations import Known

P = 0.15
"""The share of commands that unsubscribe."""

KD, Z, SCAN = "k-d", "Z-order", "scan"
KD_ROOTS, Z_ROOTS = "k-d, roots", "Z-order, roots"
KD_ITS, KD_ROOTS_ITS, Z_ITS, SCAN_ITS = "prototype: k-d", "k-d, roots (its)", "Z-order (its)", "scan (its)"

Times = dict[str, list[float]]
"""Seconds in each round, by contender."""


class Contender(NamedTuple):
    """One way to carry out all commands: its run returns the seconds and how many subscriptions were forwarded."""

    name: str
    run: Callable[[], tuple[float, int]]
    rounds: int


class Speed:
    """Runs races under G_1, and remembers them. The scans run in `scans` of the `rounds` only."""

    def __init__(self, report: Report, rounds: int, scans: int, folder: Path | None = None) -> None:
        self._report = report
        self.rounds = rounds
        self.scans = scans
        self.theirs = prototypes.load_relays(folder)
        self._raced: dict[tuple[int, int], Times] = {}

    def race(self, n: int, dimensions: int) -> Times:
        """What n commands on points of so many dimensions take: each index with all in it, and with roots alone; and
        the prototype's, if it is there."""
        if (n, dimensions) not in self._raced:
            if not self._raced:
                self._run(self._all(make_commands(200, dimensions // 2, P)))
            self._report.progress(f"{n:,} commands, {dimensions} dimensions")
            self._raced[n, dimensions] = self._run(self._all(make_commands(n, dimensions // 2, P)))
        return self._raced[n, dimensions]

    def three(self, n: int, dimensions: int) -> Times:
        """The same of our k-d tree, Z-order index and scan, with all in them."""
        times = self._raced.get((n, dimensions))
        if times is None:
            self._report.progress(f"{n:,} commands, {dimensions} dimensions")
            times = self._run(self._ours(make_commands(n, dimensions // 2, P)))
        return {name: times[name] for name in (SCAN, Z, KD)}

    def _ours(self, commands: Commands) -> list[Contender]:
        return [
            Contender(KD, lambda: apply(KdIndex, commands), self.rounds),
            Contender(Z, lambda: apply(ZIndex, commands), self.rounds),
            Contender(SCAN, lambda: apply(LinearIndex, commands), self.scans),
        ]

    def _all(self, commands: Commands) -> list[Contender]:
        contenders = [
            *self._ours(commands),
            Contender(KD_ROOTS, lambda: apply(KdIndex, commands, roots=True), self.rounds),
            Contender(Z_ROOTS, lambda: apply(ZIndex, commands, roots=True), self.rounds),
        ]
        theirs = self.theirs
        if theirs is not None:
            its: tuple[tuple[str, str, dict[str, Any], int], ...] = (
                (KD_ITS, "kd", {}, self.rounds),
                (KD_ROOTS_ITS, "kd", {"roots": True}, self.rounds),
                (Z_ITS, "z", {"leaf": 64, "bufcap": 256}, self.rounds),
                (SCAN_ITS, "naive", {}, self.scans),
            )
            for name, engine, options, rounds in its:
                contenders.append(Contender(name, partial(_prototype, theirs, engine, commands, options), rounds))
        return contenders

    def _run(self, contenders: list[Contender]) -> Times:
        seconds: Times = {one.name: [] for one in contenders}
        forwarded_by_all = set()
        for i in range(max(self.rounds, self.scans)):
            for one in contenders:
                if i < one.rounds:
                    took, forwarded = one.run()
                    seconds[one.name].append(took)
                    forwarded_by_all.add(forwarded)
        assert len(forwarded_by_all) == 1, forwarded_by_all
        return seconds


def apply(kind: type[CoverIndex], commands: Commands, k: int = 1, roots: bool = False) -> tuple[float, int]:
    """Carry out commands under G_k: seconds, and how many subscriptions were forwarded."""
    points = commands.table()
    relations = Known(kind(points.exact.shape[1]), k, roots)
    began = time.thread_time()
    decisions = relations.apply(points, commands.op, commands.slot)
    return time.thread_time() - began, int(decisions.forward[commands.op == 0].sum()) + len(decisions.promoted)


def _prototype(theirs: ModuleType, engine: str, commands: Commands, options: dict[str, Any]) -> tuple[float, int]:
    n, d = commands.lo.shape
    rows = np.empty((n, 2 * d), np.int32)
    rows[:, 0::2] = MOST - commands.lo
    rows[:, 1::2] = commands.hi
    began = time.thread_time()
    stats, _ = theirs.run(engine, rows, commands.op.astype(np.int8), commands.slot, **options)
    return time.thread_time() - began, int(stats["forwarded"])
