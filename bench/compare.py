"""Our values and the paper's: rows "paper | ours | ratio | why it differs", and the curves that make figures.

A value further from the paper's than `NEAR` is explained by a cause that was tried: each try is run, in order, until
one accounts for the difference. What none accounts for is said to be open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from bench.report import Report, count, ratio, spread

NEAR = 0.10
"""A value further from the paper's than this is explained."""

INF = np.inf

Try = Callable[[float], str | None]
"""Given the paper's value, a cause in words if it accounts for the difference; None if it does not."""


class Value(NamedTuple):
    """One number: its row, what the paper has, what we have, and what to try if they differ."""

    labels: tuple[str, ...]
    paper: float
    ours: float
    tries: Sequence[Try] = ()
    open: str = "open"


class Claim(NamedTuple):
    """What the paper says of a figure in words, as a number between `low` and `high`."""

    text: str
    low: float
    high: float
    ours: float
    why: str = ""
    """Said of a value that is off: a cause that was tried."""


class Curve(NamedTuple):
    """One line of a panel."""

    name: str
    x: Sequence[float]
    y: Sequence[float]


class Mark(NamedTuple):
    """A point of the paper's own figure that its text states."""

    curve: str
    x: float
    y: float


class Panel(NamedTuple):
    """One plot of a figure. Axes are linear unless said; `logs` is any of "x", "y", "xy"."""

    figure: int
    part: str
    title: str
    x: str
    y: str
    curves: tuple[Curve, ...]
    marks: tuple[Mark, ...] = ()
    logs: str = ""

    @property
    def name(self) -> str:
        return f"{self.figure}{f'({self.part})' if self.part else ''}"


def differs(paper: float, ours: float) -> bool:
    """Is this to be explained?

    >>> differs(100.0, 109.0), differs(100.0, 89.0), differs(0.0, 0.0), differs(0.0, 0.1)
    (False, True, False, True)
    """
    return abs(ours - paper) > NEAR * abs(paper)


def why(value: Value) -> str:
    """The first cause that accounts for the difference, nothing where there is none to explain."""
    if not differs(value.paper, value.ours):
        return ""
    for tried in value.tries:
        cause = tried(value.paper)
        if cause is not None:
            return cause
    return value.open


def share(ours: float, paper: float) -> str:
    """Ours as a ratio of the paper's; of nothing, whether ours is nothing too."""
    if paper == 0:
        return "1.00" if ours == 0 else ">"
    return ratio(ours / paper)


def values(report: Report, labels: Sequence[str], rows: Iterable[Value]) -> None:
    """Add the rows to the report."""
    report.table(
        (*labels, "paper", "ours", "ratio", "why it differs"),
        ((*row.labels, count(row.paper), count(row.ours), share(row.ours, row.paper), why(row)) for row in list(rows)),
        text=(*labels, "why it differs"),
    )


def claims(report: Report, rows: Iterable[Claim]) -> None:
    """Add what the paper says in words; the ratio is to the nearer end of what it says, 1 within."""
    report.table(
        ("the paper says", "paper", "ours", "ratio", "why it differs"),
        (
            (row.text, _bounds(row), count(row.ours), share(row.ours, _nearest(row)), _claim_why(row))
            for row in list(rows)
        ),
        text=("why it differs",),
    )


def _nearest(row: Claim) -> float:
    return min(max(row.ours, row.low), row.high)


def _bounds(row: Claim) -> str:
    if row.low == row.high:
        return count(row.low)
    if row.high == INF:
        return f"at least {count(row.low)}"
    if row.low == -INF:
        return f"at most {count(row.high)}"
    return f"{count(row.low)}-{count(row.high)}"


def _claim_why(row: Claim) -> str:
    return (row.why or "open") if differs(_nearest(row), row.ours) else ""


def curves(report: Report, panel: Panel) -> None:
    """Add every point of a panel: a row for each x, a column for each curve."""
    xs = sorted({x for curve in panel.curves for x in curve.x})
    points = [dict(zip(curve.x, curve.y, strict=True)) for curve in panel.curves]
    report.text(f"Figure {panel.name}: {panel.title}, {panel.y} by {panel.x}.")
    report.table(
        (panel.x, *(curve.name for curve in panel.curves)),
        ((label(x), *(count(found[x]) if x in found else "" for found in points)) for x in xs),
    )


def label(x: float) -> str:
    """A value of an axis.

    >>> label(2_000_000), label(0.125)
    ('2,000,000', '0.125')
    """
    return f"{x:,.0f}" if float(x).is_integer() else f"{x:g}"


def of_seeds(found: Callable[[], Sequence[float]], text: str = "the random numbers") -> Try:
    """A try: the random numbers, if values by several seeds lie on both sides of the paper's or one is near it."""

    def tried(paper: float) -> str | None:
        values = found()
        near = any(not differs(paper, value) for value in values)
        if min(values) <= paper <= max(values) or near:
            mean = count(float(np.mean(values)))
            return f"{text}: {len(values)} seeds give {spread(values)}, on average {mean}"
        return None

    return tried


def of_reading(found: Callable[[], float], text: str) -> Try:
    """A try: another reading of the paper, if it comes near; `text` says which, with its value for `{}`."""

    def tried(paper: float) -> str | None:
        value = found()
        return None if differs(paper, value) else text.format(count(value))

    return tried
