"""Figures of an earlier commit beside ours, in the same run: what a machine makes slow is slow in both.

A target in microseconds or in requests a second was set on some machine, on which the commit before took what
`Target.before` says. On another machine the same target is to be as many times as fast as that commit is there.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

from bench.commits import figures
from bench.process import Checkout, Failed
from bench.report import ratio
from bench.summary.rows import micros

VARIABLE = "RANKCAST_BEFORE"
"""Names the folder of the checkout."""

LANDED = "13da8ca"
"""The commit on which the targets were set."""

SECONDS = 900.0
ERROR_CHARACTERS = 2_000


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

    def judge(self, ours: float, before: float | None) -> tuple[bool, str]:
        """Whether a figure of ours meets the target, by itself or beside that of the commit before, and by how much.

        >>> Target(1.5, 3.0, "1.5 s").judge(2.0, 5.0)
        (True, '2.50 times')
        >>> Target(5_000, 1_500, "5,000/s", rate=True).judge(4_000, 2_000)
        (False, '2.00 times')
        >>> Target(5_000, 1_500, "5,000/s", rate=True).judge(5_000, None)
        (True, '')
        """
        met = ours >= self.wanted if self.rate else ours <= self.wanted
        if before is None:
            return met, ""
        times = ours / before if self.rate else before / ours
        return met or times >= self.factor, f"{ratio(times)} times"


def figures_of(folder: Path | None, table: str, **size: Any) -> dict[str, float]:
    """The figures of a table by the checkout in a folder; none without a folder. Raises Failed."""
    if folder is None:
        return {}
    if not (folder / "bench").is_dir():
        raise Failed(f"{table} of the commit before: there is no checkout in {folder}")
    checkout = Checkout.at(folder)
    done = subprocess.run(
        [checkout.python, "-P", figures.__file__],
        cwd=folder,
        env=checkout.environment(),
        input=json.dumps({"table": table, "size": size}),
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    if done.returncode:
        raise Failed(f"{table} of the commit before failed: {done.stderr[-ERROR_CHARACTERS:]}")
    found: dict[str, float] = json.loads(done.stdout)
    return found


def shown_before(ours: float, before: float | None) -> str:
    """The microseconds of the commit before, beside ours.

    >>> shown_before(2.0, 5.0), shown_before(2.0, None)
    ('5.0 us (2.50 times ours)', '')
    """
    return "" if before is None else f"{micros(before)} ({ratio(before / ours)} times ours)"
