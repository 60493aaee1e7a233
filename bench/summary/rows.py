"""Rows of the summary: what was wanted, what is measured, what it is compared with, and what limits it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bench.report import ratio

NO_PROTOTYPE = "not there"


class Row(NamedTuple):
    """One line of the page. `met` is None where nothing was judged; `paper`, `prototype`, `before` (the commit before)
    and `peer` say what each takes on the same input, or what it says."""

    name: str
    size: str
    wanted: str
    ours: str
    met: bool | None = None
    paper: str = ""
    prototype: str = ""
    peer: str = ""
    limit: str = ""
    before: str = ""

    def plain(self) -> list[str | bool | None]:
        """As JSON has it: a comparison of numbers of numpy is none of Python's."""
        return [None if value is None else value if isinstance(value, str) else bool(value) for value in self]

    def cells(self) -> tuple[str, ...]:
        """As the table shows it."""
        verdict = "" if self.met is None else "met" if self.met else "**missed**"
        return (*self[:4], verdict, self.paper, self.prototype, self.before, self.peer, self.limit)


HEAD = (
    "row", "size", "wanted", "measured", "", "the paper's", "the prototype's", "the commit before", "others",
    "limited by",
)  # fmt: skip


def micros(value: float) -> str:
    """Microseconds with as many digits as they are worth.

    >>> micros(0.2194), micros(12.34), micros(1532.1)
    ('0.219 us', '12.3 us', '1,532 us')
    """
    return f"{value:.3f} us" if value < 1 else f"{value:.1f} us" if value < 1_000 else f"{value:,.0f} us"


def against(ours: float, times: Mapping[str, float], unit: str = "") -> str:
    """What others take, and how many times our time that is.

    >>> against(2.0, {"snaps": 5.0, "hybrid": 4.0})
    'hybrid 4.0 us (2.00 times ours), snaps 5.0 us (2.50 times ours)'
    >>> against(1.0, {})
    ''
    """
    shown = sorted(times.items(), key=lambda item: item[1])
    return ", ".join(
        f"{name} {micros(value)}{unit} ({ratio(value / ours)} times ours)".strip() for name, value in shown
    )


def times_faster(
    name: str,
    size: str,
    wanted: float,
    ours: float,
    theirs: Mapping[str, float],
    *,
    paper: str = "",
    peer: str = "",
    limit: str = "",
    also: str = "",
) -> Row:
    """A row that wants so many times the speed of the prototype, by the fastest of its ways. Without it nothing is
    judged. Times are microseconds an item; `also` is shown behind ours."""
    said = f"{wanted:g} times the prototype"
    if not theirs:
        return Row(name, size, said, micros(ours) + also, None, paper, NO_PROTOTYPE, peer, limit)
    factor = min(theirs.values()) / ours
    shown = f"{ratio(factor)} times, {micros(ours)}{also}"
    return Row(name, size, said, shown, factor >= wanted, paper, against(ours, theirs), peer, limit)
