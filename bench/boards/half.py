"""Tables VII and VIII and Figure 26: 1.5-dimensional subscriptions, ours and the paper's (Appendix D)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from bench.baselines.one_and_half import ALWAYS, LATE, LATER
from bench.boards.tables_one_and_half import KS, TABLE_VII, TABLE_VIII, Counts, Size, measure, subscriptions
from bench.compare import INF, Claim, Curve, Panel, Try, Value, claims, curves, of_reading, of_seeds, values
from bench.report import Report, count
from indexes.boards.space.subscription_index import SpaceSubscriptions

MESSAGE = 36
"""Bytes of a message: six ends and an object's two places and y, four each, as in the 24 of one attribute."""

SEEDS = (2, 3)

READINGS = {
    LATE: "were the first search of a slab as in Paint-Dense: {}",
    LATER: "were the first search of a slab as in Paint-Dense, also below a cut: {}",
}
"""Other readings of Appendix D, in the order in which they are tried."""


class Half:
    """Each data set, k and way is measured once."""

    def __init__(self, report: Report, size: Size) -> None:
        self._report = report
        self._size = size
        self._kept: dict[tuple[int | None, int, int, int], Counts] = {}
        self._index: tuple[int | None, SpaceSubscriptions] | None = None

    def table_7(self) -> None:
        """Searches for the next object."""
        self._introduce()
        self._table(TABLE_VII, lambda found: found.searches)

    def table_8(self) -> None:
        """Snaps."""
        self._table(TABLE_VIII, lambda found: found.snaps)

    def figure_26(self) -> list[Panel]:
        """Bytes from the server by k: the average an event, and the most of one."""
        ks = self._size.ks
        panels = []
        for part, title, column in (("a", "average outgoing traffic", "tiles"), ("b", "the most of one event", "most")):
            lines = tuple(
                Curve(_name(one), ks, [MESSAGE * getattr(self._counts(one, k), column) for k in ks])
                for one in TABLE_VII
            )
            panels.append(Panel(26, part, title, "k", "bytes", lines, logs="y"))
            curves(self._report, panels[-1])
        dense, *sparse = panels[0].curves
        worst = max(a / b for line in sparse for a, b in zip(line.y, dense.y, strict=True))
        claims(self._report, [Claim("(a) Paint-Sparse of Paint-Dense: less, for all k and data sets", -INF, 1, worst)])
        return panels

    def _introduce(self) -> None:
        size = self._size
        self._report.text(
            f"n = {size.n:,} uniform objects, m = {size.m:,} subscriptions, {size.events:,} events from uniform y by a "
            "fair coin; averages over all events. Paint-Sparse looks for exposed objects between the ends of the "
            "subscriptions that are still inside a slab."
        )

    def _table(self, known: Mapping[Any, tuple[float, ...]], of: Callable[[Counts], float]) -> None:
        rows = []
        for one, by_k in known.items():
            for k in self._size.ks:

                def found(late: int, seed: int, one: int | None = one, k: int = k) -> float:
                    return of(self._counts(one, k, late, seed))

                rows.append(self._value((_name(one), str(k)), by_k[KS.index(k)], found, one is not None))
        values(self._report, ("approach", "k"), rows)

    def _value(self, labels: tuple[str, ...], paper: float, found: Callable[[int, int], float], sparse: bool) -> Value:
        """A row. The paper does not say from which search of a slab on its subscriptions are known."""
        ours = found(ALWAYS, 1)
        tries: list[Try] = [of_seeds(lambda: [found(ALWAYS, seed) for seed in (1, *SEEDS)])]
        if sparse:
            tries = [of_reading(partial(found, late, 1), words) for late, words in READINGS.items()] + tries

        def left(paper: float) -> str:
            late = count(found(LATE, 1)) if sparse else "the same"
            between = sparse and min(ours, found(LATE, 1)) <= paper <= max(ours, found(LATE, 1))
            word = "the first search of a slab, done half as in Paint-Dense" if between else "open"
            return f"{word}: with that search all as in Paint-Dense {late}"

        return Value(labels, paper, ours, (*tries, left))

    def _counts(self, one: int | None, k: int, late: int = ALWAYS, seed: int = 1) -> Counts:
        key = one, k, late, seed
        if key not in self._kept:
            if self._index is None or self._index[0] != one:
                self._index = one, subscriptions(one, self._size)
            self._kept[key] = measure(self._size, k, one, self._index[1], late, seed)
        return self._kept[key]


def _name(data_set: int | None) -> str:
    return "Paint-Dense" if data_set is None else f"Paint-Sparse, data set #{data_set}"
