"""Figures of an earlier commit beside ours, in rounds that alternate: what a machine makes slow is slow in both.

A target in microseconds or in requests a second was set on some machine, on which the commit before took what
`Target.before` says. On another machine the same target is to be as many times as fast as that commit is there.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from bench.commits import figures
from bench.process import OURS, Checkout, Failed, Worker
from bench.report import ratio
from bench.summary.rows import micros

VARIABLE = "RANKCAST_BEFORE"
"""Names the folder of the checkout."""

ROUNDS = 3


class Beside(NamedTuple):
    """What the commit before takes, the median of the rounds, and as how many times as fast ours was in each."""

    before: float
    times: float

    def micros(self) -> str:
        """As the page has it, of microseconds.

        >>> Beside(5.0, 2.5).micros()
        '5.0 us (ours 2.50 times as fast)'
        """
        return self._shown(micros(self.before))

    def seconds(self) -> str:
        """The same of seconds."""
        return self._shown(f"{self.before:.2f} s")

    def rate(self, unit: str = "/s") -> str:
        """The same of seconds an item.

        >>> Beside(0.001, 2.0).rate(" posts/s")
        '1,000 posts/s (ours 2.00 times as fast)'
        """
        return self._shown(f"{1 / self.before:,.0f}{unit}")

    def _shown(self, before: str) -> str:
        return f"{before} (ours {ratio(self.times)} times as fast)"


class Target(NamedTuple):
    """A figure that is wanted, that of the commit before on the same machine, and its unit; `rate`: more is better."""

    wanted: float
    before: float
    shown: str
    rate: bool = False

    @property
    def factor(self) -> float:
        """So many times as fast as the commit before."""
        return self.wanted / self.before if self.rate else self.before / self.wanted

    def said(self) -> str:
        """As the page has it.

        >>> Target(1.5, 3.0, "1.5 s").said()
        '1.5 s, or 2.00 times the commit before'
        """
        return f"{self.shown}, or {ratio(self.factor)} times the commit before"

    def met(self, ours: float, beside: Beside | None) -> bool:
        """Whether a figure of ours meets the target, by itself or beside the commit before.

        >>> Target(1.5, 3.0, "1.5 s").met(2.0, Beside(5.0, 2.5))
        True
        >>> Target(5_000, 1_500, "5,000/s", rate=True).met(4_000, Beside(1 / 2_000, 2.0))
        False
        """
        met = ours >= self.wanted if self.rate else ours <= self.wanted
        return met or (beside is not None and beside.times >= self.factor)


def alternated(theirs: Callable[[], float], ours: Callable[[], float], rounds: int = ROUNDS) -> Beside:
    """Measure what takes some time by both, in turns."""
    found: list[tuple[float, float]] = []
    for number in range(rounds):
        if number % 2:
            mine = ours()
            found.append((theirs(), mine))
        else:
            found.append((theirs(), ours()))
    return Beside(median(before for before, _ in found), median(before / mine for before, mine in found))


def beside(folder: Path | None, table: str, rounds: int = ROUNDS, /, **size: Any) -> dict[str, Beside]:
    """The figures of a table by the checkout in a folder and by this one; none without a folder. Raises Failed."""
    if folder is None:
        return {}
    if not (folder / "bench").is_dir():
        raise Failed(f"{table} of the commit before: there is no checkout in {folder}")
    workers: list[Worker] = []
    try:
        for checkout in (Checkout.at(folder), OURS):
            command = [checkout.python, "-P", figures.__file__]
            workers.append(Worker(command, checkout.environment(), checkout.root))
        names = [worker.ask(json.dumps({"table": table, "size": size})) for worker in workers]
        theirs, ours = workers
        return {
            name: alternated(lambda n=name: theirs.ask(n), lambda n=name: ours.ask(n), rounds)  # type: ignore[misc]
            for name in names[0]
        }
    finally:
        for worker in workers:
            worker.end()
