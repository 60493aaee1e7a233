"""Tables I, III and IV of the paper: what we count, and what it printed.

Definitions that reproduce them: averages run over all events, raises and lowerings; Table I counts affected
subscriptions; a lowering costs one `min_y` more than it exposes; one snap for each rectangle of the updated and the
exposed objects, whatever the searches before a merge and for l* and r* cost; Unicast calls `min_y` once for each
subscription in the square of the larger region.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from bench.baselines.unicast import count_wrong, make_recipients
from bench.boards.chance import by_chance
from bench.boards.plays import DENSE, SPARSE, play, sequence
from bench.boards.workload import COIN, World, make_world, object_index, scratch, subscription_index
from bench.compare import Value, values
from bench.report import Report
from indexes.boards.kernels.forest import Forest

KS = (1, 2, 5, 10, 15, 20)
K = 10
M = 2_000_000

MORE_SEEDS = (2, 3, 4, 5)

TABLE_I = dict(zip(KS, (444.141, 939.76, 2211.14, 4190.21, 6082.94, 7904.26), strict=True))

TABLE_III = {
    1: (1.12, 0.72744, 1.2284, 444.141),
    2: (1.73, 1.08988, 2.95254, 1086.44),
    5: (3.57, 2.59596, 12.06538, 2846.1),
    10: (6.60, 5.5568, 40.69192, 5453.64),
    15: (9.63, 8.57692, 84.65234, 8032.39),
    20: (12.63, 11.58048, 143.20416, 10587.4),
}
"""By k: `min_y` of Paint-Dense and of Paint-Sparse, snaps, `min_y` of Unicast."""

TABLE_IV: dict[int | None, tuple[float | None, float, float | None]] = {
    200_000: (3.52, 29.87, 545.23),
    800_000: (4.784, 37.34, 2181.49),
    4_000_000: (5.94188, 42.0509, 10906.4),
    10_000_000: (6.26988, 42.86982, 27267.5),
    None: (6.60, 43.36, None),
}
"""By m, at k = 10: `min_y` and snaps of Paint-Sparse, `min_y` of Unicast. None: as if every range had a subscriber."""


ONCE_M, ONCE = 200_000, 2_000
"""Subscriptions and events of a look at what Unicast as printed gets wrong."""


class Size(NamedTuple):
    """How much is run."""

    n: int = 10_000
    m: int = M
    events: int = 50_000
    ks: tuple[int, ...] = KS
    ms: tuple[int | None, ...] = tuple(TABLE_IV)
    seeds: tuple[int, ...] = MORE_SEEDS


QUICK = Size(events=10_000, ks=(1, 5, 10), ms=(200_000, 800_000, None), seeds=MORE_SEEDS[:2])


class Counts(NamedTuple):
    """Averages an event."""

    min_y_dense: float
    min_y_sparse: float
    snaps: float
    affected: float
    unicast: float
    tiles_dense: float
    snaps_dense: float
    tiles_sparse: float


class Row(NamedTuple):
    """One value: its row, what the paper has, and how to read it from `Counts`."""

    labels: tuple[str, ...]
    paper: float
    k: int
    m: int
    name: str


class Tables:
    """Measures, and remembers what it measured: the tables share most of it."""

    def __init__(self, report: Report, size: Size) -> None:
        self._report = report
        self._size = size
        self._forest: tuple[tuple[int, int], Forest] | None = None
        self._counts: dict[tuple[int, int, int, int], Counts] = {}

    def show(self, numbers: Sequence[int]) -> None:
        """Add the tables with these numbers (1, 3, 4) to the report."""
        self.introduce()
        for number in numbers:
            self.table(number)

    def introduce(self) -> None:
        """Say what is played."""
        size = self._size
        self._report.text(
            f"n = {size.n:,} objects, uniform subscriptions (m = {size.m:,} unless said), {size.events:,} events from "
            "uniform y, seed 1: a random object goes up or down by a fair coin, then uniformly on that side. Averages "
            "over all events, raises and lowerings."
        )

    def table(self, number: int) -> None:
        """Add the table with this number."""
        tables: dict[int, tuple[str, Callable[[], Iterator[Row]], tuple[str, ...]]] = {
            1: ("Table I: affected subscriptions an event", self._table_1, ("k",)),
            3: ("Table III: calls an event, by k", self._table_3, ("k", "calls")),
            4: ("Table IV: calls an event, by m (k = 10)", self._table_4, ("m", "calls")),
        }
        title, rows, labels = tables[number]
        self._report.heading(title, 3)
        if number == 4:
            self._report.text(
                "The row m = 2,000,000 is k = 10 of Table III. The scan of the paper shows three values of "
                "Paint-Sparse's `min_y` as 352, 784 and 594188: they are read as 3.52, 4.784 (3.784 is as legible) "
                "and 5.94188."
            )
        values(self._report, labels, [self._compared(row) for row in rows()])
        if number == 3:
            self._unicast_as_printed()

    def _unicast_as_printed(self) -> None:
        size = self._size
        m, events = min(size.m, ONCE_M), min(size.events, ONCE)
        world, k = make_world(size.n, events, 1), K if K in size.ks else max(size.ks)
        work, _ = scratch(k)
        affected_by = make_recipients(m)
        affected, wrong = count_wrong(
            object_index(world), subscription_index(m), k, work, world.events, size.n, COIN, affected_by
        )
        self._report.text(
            f"Unicast as printed asks one `min_y` for each subscription. For {wrong:,} of {affected:,} that are "
            f"affected when an object gets worse ({events:,} events, m = {m:,}, k = {k}) this names another object "
            "than the one that enters the list: it is right where the object was k-th. Its calls are counted as "
            "printed; its messages in Figures 11 to 14 are the right ones, one for each affected subscription."
        )

    def _table_1(self) -> Iterator[Row]:
        for k in self._size.ks:
            yield Row((str(k),), TABLE_I[k], k, self._size.m, "affected")

    def _table_3(self) -> Iterator[Row]:
        names = {
            "min_y_dense": "`min_y`, Paint-Dense",
            "min_y_sparse": "`min_y`, Paint-Sparse",
            "snaps": "snaps",
            "unicast": "`min_y`, Unicast",
        }
        for k in self._size.ks:
            for (name, label), paper in zip(names.items(), TABLE_III[k], strict=True):
                yield Row((str(k), label), paper, k, self._size.m, name)

    def _table_4(self) -> Iterator[Row]:
        for m in self._size.ms:
            sparse, snaps, unicast = TABLE_IV[m]
            if m is None:
                yield Row(("dense", "`min_y`, Paint-Dense"), 6.60, K, 0, "min_y_dense")
                yield Row(("dense", "rectangles, Paint-Dense"), snaps, K, 0, "snaps_dense")
                continue
            values = (
                ("min_y_sparse", "`min_y`", sparse),
                ("snaps", "snaps", snaps),
                ("unicast", "`min_y`, Unicast", unicast),
            )
            for name, label, paper in values:
                if paper is not None:
                    yield Row((f"{m:,}", label), paper, K, m, name)

    def _compared(self, row: Row) -> Value:
        def of(seed: int, model: int) -> float:
            return self._value(row, model, seed)

        return Value(row.labels, row.paper, of(1, COIN), by_chance(of, self._size.seeds))

    def _value(self, row: Row, model: int, seed: int) -> float:
        return float(getattr(self._measure(row.k, row.m, model, seed), row.name))

    def _measure(self, k: int, m: int, model: int, seed: int) -> Counts:
        key = (k, m, model, seed)
        if key not in self._counts:
            size = self._size
            world = make_world(size.n, size.events, seed)
            self._counts[key] = measure(world, self._subscriptions(m, seed), k, model)
        return self._counts[key]

    def _subscriptions(self, m: int, seed: int) -> Forest:
        if self._forest is None or self._forest[0] != (m, seed):
            self._forest = None
            self._forest = ((m, seed), subscription_index(m, seed + 6))
        return self._forest[1]


def measure(world: World, forest: Forest, k: int, model: int = COIN) -> Counts:
    """Run a world's events through Paint-Dense, then Paint-Sparse, with every search made, as the paper counts."""
    events = sequence(world, model)
    dense = play(object_index(world), forest, events, DENSE, k, searching=True)
    sparse = play(object_index(world), forest, events, SPARSE, k, hearing=True, searching=True)
    return Counts(
        dense.min_y, sparse.min_y, sparse.snaps, sparse.affected, sparse.square, dense.messages, dense.snaps,
        sparse.messages,
    )  # fmt: skip
