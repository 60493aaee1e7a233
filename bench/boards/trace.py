"""Tables V and VI and Figure 17: a trace in place of the paper's.

The paper took 2,031 stocks from Yahoo! Finance: a constant recommendation as x, price over earnings as y, 60 prices of
each. That trace is not public. Ours are the flights of the demo: the 2,031 most flown of them (a number and a route),
the distance as x, which is constant too, and as y the mean delay of the arrivals so far, which like a price changes a
little with each event. It begins with the mean of the first ten. 400,000 subscriptions want the k most punctual in a
range of distances.

What differs is tried with the same flights whose equal distances are spread apart, for the paper takes all x as
distinct; with a trace made up as the paper describes its own: 2,031 objects, distinct x, and y that change by 1% or so;
and with that trace under ranges that begin and end at tenths, as recommendations do. Where one comes near the paper's
value, or the paper's lies among them, the difference is the data's.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from app.demo.flights import Arrivals, load_arrivals
from bench.boards.plays import (
    SPARSE,
    SPARSE_1,
    Approach,
    Played,
    Relaxed,
    Sequence,
    Unicasts,
    cn_relax,
    fresh,
    play,
    unicasts,
)
from bench.boards.stage import KS, Memory
from bench.boards.workload import indexed
from bench.compare import Claim, Curve, Panel, Try, Value, claims, curves, differs, values, why
from bench.network.routing import Network, make_network, zones_of
from bench.report import Report, count
from indexes.boards.kernels.forest import Forest

Floats = NDArray[np.float64]

OBJECTS = 2_031
EVENTS = 2_031 * 60
FIRST = 10
"""Arrivals of a flight that its first mean is of."""

TABLE_V = {
    "Paint-Sparse(1)": dict(zip(KS, (0, 0.19, 0.25, 0.35, 0.39, 0.38), strict=True)),
    "CN-Relax": dict(zip(KS, (706.51, 361.22, 147.13, 72.67, 48.38, 36.11), strict=True)),
}
TABLE_VI = {
    1: (0.5, 1, 176.01),
    2: (0.5, 2, 409.44),
    5: (0.51, 5.05, 1050.48),
    10: (0.54, 10.35, 2278.27),
    15: (0.57, 16.02, 3510.16),
    20: (0.61, 22.18, 4614.24),
}
"""By k: `min_y` and snaps of Paint-Sparse, `min_y` of Unicast."""

LEAD = 2.0
"""Orders of magnitude by which Paint-Sparse and Paint-Sparse(1) are below Unicast in the network."""

STEP = 0.01
"""Standard deviation of a step of the made-up trace, as a share of y."""


class Size(NamedTuple):
    """How much is run."""

    objects: int = OBJECTS
    events: int = EVENTS
    m: int = 400_000
    ks: tuple[int, ...] = KS
    nodes: int = 20_000
    brokers: int = 1_000


QUICK = Size(events=5_000, ks=(1, 5, 20), nodes=2_000, brokers=100)


class Trace(NamedTuple):
    """Objects in order of x with their first y, and what happens to them."""

    x: Floats
    y: Floats
    events: Sequence


def flights(arrivals: Arrivals, objects: int, events: int) -> Trace:
    """The most flown flights, each arrival from the eleventh on an event that moves the mean of its delays."""
    key = pc.binary_join_element_wise(arrivals.id, arrivals.origin, arrivals.dest, "-").dictionary_encode()
    flight = key.indices.to_numpy()
    flown = np.bincount(flight)
    chosen = np.argsort(-flown, kind="stable")[:objects]
    chosen = chosen[flown[chosen] > FIRST]
    distance = np.empty(len(flown))
    distance[flight] = arrivals.distance
    chosen = chosen[np.argsort(distance[chosen], kind="stable")]
    row = np.full(len(flown), -1, np.int32)
    row[chosen] = np.arange(len(chosen))

    landed = np.flatnonzero(row[flight] >= 0)
    rows, delay = row[flight[landed]], arrivals.delay[landed]
    by_row = np.argsort(rows, kind="stable")
    starts = np.searchsorted(rows[by_row], np.arange(len(chosen)))
    sums = np.cumsum(delay[by_row])
    before = np.concatenate([[0.0], sums])[starts][rows[by_row]]
    number = np.arange(len(rows)) - starts[rows[by_row]] + 1
    mean, nth = np.empty(len(rows)), np.empty(len(rows), np.int64)
    mean[by_row], nth[by_row] = (sums - before) / number, number
    first = nth == FIRST
    y = np.empty(len(chosen))
    y[rows[first]] = mean[first]
    later = np.flatnonzero(nth > FIRST)[:events]
    return Trace(distance[chosen], y, Sequence(rows[later], mean[later]))


def walks(objects: int, events: int, seed: int = 1) -> Trace:
    """Distinct x in [1, 5] and a price over earnings each (log-normal around 20, half of them within 12 to 33), whose
    steps multiply it by about 1 +- `STEP`."""
    rng = np.random.default_rng(seed)
    x, y = np.sort(rng.uniform(1, 5, objects)), 20 * np.exp(0.75 * rng.standard_normal(objects))
    row = rng.integers(objects, size=events).astype(np.int32)
    steps = np.exp(STEP * rng.standard_normal(events))
    out, now = np.empty(events), y.copy()
    for e, (i, step) in enumerate(zip(row.tolist(), steps.tolist(), strict=True)):
        now[i] *= step
        out[e] = now[i]
    return Trace(x, y, Sequence(row, out))


def apart(trace: Trace) -> Trace:
    """The same trace with equal x spread over half the way to the next."""
    x, first, among = np.unique(trace.x, return_index=True, return_counts=True)
    gap = np.append(np.diff(x), 1.0)
    group = np.repeat(np.arange(len(x)), among)
    place = (np.arange(len(trace.x)) - first[group]) / among[group]
    return Trace(trace.x + place * gap[group] / 2, trace.y, trace.events)


class Replay(Memory):
    """A trace under uniform subscriptions, each approach and k played once. `decimals` rounds the ends of ranges."""

    def __init__(self, trace: Trace, size: Size, decimals: int | None = None) -> None:
        super().__init__()
        self.trace = trace
        self._size = size
        low, high = float(trace.x[0]), float(trace.x[-1])
        ends = np.sort(np.random.default_rng(7).uniform(low, high, (size.m, 2)), 1)
        if decimals is not None:
            ends = np.round(ends, decimals)
        # The ends (l, r) of the subscriptions.
        self.ends = ends[:, 0].copy(), ends[:, 1].copy()
        self._forest: Forest = indexed(*self.ends)
        self._net: Network = make_network(size.nodes, size.brokers, 1, low, high)

    def played(self, one: Approach, k: int) -> Played:
        """Sent over the network, with its recipients."""
        return self._once(("played", one, k), lambda: self._play(one, k, self._net, True, False))

    def searched(self, k: int) -> Played:
        """The calls of Paint-Sparse, and what Unicast looks at."""
        return self._once(("searched", k), lambda: self._play(SPARSE, k, None, False, True))

    def calls(self, k: int, call: str) -> float:
        """A column of `searched`."""
        return float(getattr(self.searched(k), call))

    def unicasts(self, k: int) -> Unicasts:
        """Unicast over the network."""
        gateway = np.empty(self._size.m, np.int32)
        zones_of(self._net.zones, *self.ends, gateway)
        trace = self.trace
        start = fresh(trace.x, trace.y)
        return self._once(("unicasts", k), lambda: unicasts(start, self._forest, gateway, trace.events, k, self._net))

    def relaxed(self) -> Relaxed:
        """CN-Relax."""
        trace = self.trace
        return self._once(("relaxed",), lambda: cn_relax(trace.x[trace.events.row], self._forest, self._net, 1))

    def redundancy(self, name: str, k: int) -> float:
        """Of Paint-Sparse(1) or CN-Relax: messages about the updated object over those of an exact approach, less 1."""
        exact = self.played(SPARSE, k).affected
        received = self.relaxed().received if name == "CN-Relax" else self.played(SPARSE_1, k).affected
        return received / exact - 1

    def lead(self, approach: Approach, k: int, column: str) -> float:
        """Orders of magnitude by which an approach is below Unicast in the overlay or the IP network."""
        return math.log10(getattr(self.unicasts(k), column) / getattr(self.played(approach, k), column))

    def _play(self, one: Approach, k: int, net: Network | None, hearing: bool, searching: bool) -> Played:
        trace = self.trace
        return play(fresh(trace.x, trace.y), self._forest, trace.events, one, k, net, hearing, searching)


class Yahoo:
    """Tables V and VI and Figure 17, by the flights."""

    def __init__(self, report: Report, size: Size) -> None:
        self._report = report
        self._size = size
        self._kept: dict[str, Replay] = {}

    def introduce(self) -> None:
        """Say what is played."""
        size, events = self._size, len(self._ours().trace.events.row)
        self._report.text(
            "The paper's trace of stocks (Yahoo! Finance) is not public. In its place: the flights of the demo, x the "
            f"distance, y the mean delay so far of each of the {size.objects:,} most flown, {events:,} arrivals, "
            f"{size.m:,} uniform subscriptions. The paper takes all x as distinct, but there are "
            f"{len(np.unique(self._ours().trace.x))} distances. A value that differs is tried with the flights "
            f"spread apart, with a made-up trace of {size.objects:,} distinct x whose y change by {STEP:.0%} or so, as "
            "the paper describes its own, and with that trace under ranges that begin and end at tenths."
        )

    def table_5(self) -> None:
        """Redundancy."""
        rows = []
        for name, known in TABLE_V.items():
            for k in self._size.ks:
                of = partial(Replay.redundancy, name=name, k=k)
                rows.append(Value((name, str(k)), known[k], of(self._ours()), self._tries(of)))
        values(self._report, ("approach", "k"), rows)

    def table_6(self) -> None:
        """Calls."""
        rows = []
        for k in self._size.ks:
            calls = (("min_y", "`min_y`"), ("snaps", "snaps"), ("square", "`min_y`, Unicast"))
            for (call, name), paper in zip(calls, TABLE_VI[k], strict=True):
                of = partial(Replay.calls, k=k, call=call)
                rows.append(Value((str(k), name), paper, of(self._ours()), self._tries(of)))
        values(self._report, ("k", "calls"), rows)

    def figure_17(self) -> list[Panel]:
        """Traffic in the network by k."""
        ks, one = self._size.ks, self._ours()
        straight = {k: one.unicasts(k) for k in ks}
        panels = []
        for part, column in (("a", "overlay"), ("b", "ip")):
            lines = [Curve("Unicast", ks, [getattr(straight[k], column) for k in ks])]
            for approach in (SPARSE, SPARSE_1):
                lines.append(Curve(approach.name, ks, [getattr(one.played(approach, k), column) for k in ks]))
            lines.append(Curve("CN-Relax", ks, [getattr(one.relaxed(), column)] * len(ks)))
            title = f"{'overlay' if part == 'a' else 'IP'} traffic, flights"
            panels.append(Panel(17, part, title, "k", "bytes an event", tuple(lines), logs="y"))
        rows = []
        for panel in panels:
            curves(self._report, panel)
            column = "overlay" if panel.part == "a" else "ip"

            for approach in (SPARSE, SPARSE_1):
                lead = partial(Replay.lead, approach=approach, k=ks[-1], column=column)
                text = f"({panel.part}) {approach.name} below Unicast at k = {ks[-1]}: orders of magnitude"
                rows.append(Claim(text, LEAD, LEAD, lead(one), self._claim(LEAD, lead)))
        claims(self._report, rows)
        return panels

    def _tries(self, of: Callable[[Replay], float]) -> tuple[Try, ...]:
        """The other traces, in turn."""

        def tried(paper: float) -> str | None:
            found = []
            for replay, text in (
                (self._spread, "the flights' equal distances: spread apart they give {}"),
                (self._made_up, "the trace: the made-up one gives {}"),
                (self._tenths, "the trace and the ranges: the made-up one under ranges of tenths gives {}"),
            ):
                found.append(of(replay()))
                if not differs(paper, found[-1]):
                    return text.format(count(found[-1]))
            others = ", ".join(count(value) for value in found)
            if min(found) <= paper <= max(found):
                return f"the trace: the others give {others}"
            return f"open: the flights spread apart, the made-up trace, and under ranges of tenths give {others}"

        return (tried,)

    def _claim(self, paper: float, of: Callable[[Replay], float]) -> str:
        return why(Value((), paper, of(self._ours()), self._tries(of)))

    def _ours(self) -> Replay:
        return self._replay("flights", lambda: flights(load_arrivals(), self._size.objects, self._size.events))

    def _spread(self) -> Replay:
        return self._replay("apart", lambda: apart(self._ours().trace))

    def _made_up(self) -> Replay:
        return self._replay("made up", lambda: walks(self._size.objects, self._size.events))

    def _tenths(self) -> Replay:
        return self._replay("tenths", lambda: self._made_up().trace, 1)

    def _replay(self, name: str, trace: Callable[[], Trace], decimals: int | None = None) -> Replay:
        if name not in self._kept:
            self._kept[name] = Replay(trace(), self._size, decimals)
        return self._kept[name]
