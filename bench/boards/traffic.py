"""Figure 14 and Table II: what crosses the broker network, and what subscriptions receive in vain."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from bench.boards.chance import by_chance
from bench.boards.plays import DENSE, MESSAGE, SPARSE, SPARSE_1, Approach, approach, ways
from bench.boards.stage import Stage
from bench.boards.workload import COIN
from bench.compare import INF, Claim, Curve, Panel, Value, claims, curves, of_seeds, values
from bench.report import Report, count

TABLE_II: dict[int | None, dict[int, float]] = {
    8: {1: 0, 2: 0, 5: 0, 10: 0.015, 15: 0.0234, 20: 0.034},
    4: {1: 0, 2: 0, 5: 0.027, 10: 0.061, 15: 0.070, 20: 0.080},
    2: {1: 0, 2: 0, 5: 0.11, 10: 0.14, 15: 0.16, 20: 0.17},
    1: {1: 0, 2: 0.16, 5: 0.29, 10: 0.30, 15: 0.32, 20: 0.34},
    None: {1: 1440.2, 2: 680.14, 5: 288.49, 10: 151.76, 15: 104.23, 20: 79.98},
}
"""By 1 / epsilon and k; None is CN-Relax."""

FEWER = 5
"""A redundancy is also tried on so many times fewer events."""

LEAD = 1.0
"""Orders of magnitude by which Paint-Sparse leads Unicast in the network, as the text says."""


class Traffic:
    """Figure 14 and Table II."""

    def __init__(self, report: Report, stage: Stage) -> None:
        self._report = report
        self._stage = stage
        self._size = stage.size

    def figure_14(self) -> list[Panel]:
        """Bytes over links of the overlay and of the IP network, by k."""
        stage, ks = self._stage, self._size.ks
        net, size = stage.network(), self._size
        relaxed = stage.relaxed()
        straight = {k: stage.unicasts(k) for k in ks}
        shown = (DENSE, SPARSE, SPARSE_1)
        sent = {one: [stage.played(one, k, sending=True) for k in ks] for one in shown}
        self._report.text(
            f"{size.nodes:,} nodes linked by the recipe of Inet-3.0, {size.brokers:,} brokers at random ones, each the "
            f"owner of a zone of S; shortest paths between brokers have {net.ip[net.ip > 0].mean():.2f} links on "
            f"average. Unicast goes straight from the server to the gateway: one link of the overlay. The way of an "
            "event to the server is left out, the same for all that have one."
        )
        panels = []
        for part, title in (("a", "overlay"), ("b", "ip")):
            lines = [Curve("Unicast", ks, [getattr(straight[k], title) for k in ks])]
            lines += [Curve(one.name, ks, [getattr(found, title) for found in sent[one]]) for one in shown]
            lines.append(Curve("CN-Relax", ks, [getattr(relaxed, title)] * len(ks)))
            name = "overlay" if title == "overlay" else "IP"
            panels.append(Panel(14, part, f"{name} traffic", "k", "bytes an event", tuple(lines), logs="y"))
        for panel in panels:
            curves(self._report, panel)
        rows = []
        for panel in panels:
            unicast, _, sparse, sparse_1, relax = (line.y for line in panel.curves)
            others = [max(line.y[i] for line in panel.curves[2:]) for i in range(len(ks))]
            ahead = [math.log10(u / s) for u, s in zip(unicast, sparse, strict=True)]
            rows += [
                Claim(
                    f"({panel.part}) Unicast over the worst of the others but Paint-Dense: more, for all k",
                    1, INF, min(u / o for u, o in zip(unicast, others, strict=True)),
                ),
                Claim(
                    f"({panel.part}) Paint-Sparse ahead of Unicast at k = {max(ks)}: orders of magnitude", LEAD, LEAD,
                    ahead[-1],
                    f"were unicasts handed from zone to zone: {count(self._by_zones(panel.part, sparse[-1]))}",
                ),
                Claim(
                    f"({panel.part}) Paint-Sparse(1) of Paint-Sparse: less, for k > 1", -INF, 1,
                    max(b / a for k, a, b in zip(ks, sparse, sparse_1, strict=True) if k > 1),
                ),
                Claim(
                    f"({panel.part}) CN-Relax becomes cheaper than Paint-Sparse at k", 10, 15,
                    crossing(ks, sparse, relax[0]),
                ),
            ]  # fmt: skip
        claims(self._report, rows)
        by_k = ", ".join(
            f"k = {k}: {math.log10(u / s):.1f}"
            for k, u, s in zip(ks, panels[0].curves[0].y, panels[0].curves[2].y, strict=True)
        )
        far = straight[max(ks)]
        self._report.text(
            f"Paint-Sparse leads Unicast on the overlay by these orders of magnitude: {by_k}. Were unicasts handed "
            f"from zone to zone as other messages are, they would cost {count(far.overlay_by_zones)} bytes on the "
            f"overlay and {count(far.ip_by_zones)} on the IP network at k = {max(ks)}: "
            f"{self._by_zones('a', panels[0].curves[2].y[-1]):.1f} orders of magnitude above Paint-Sparse, where the "
            "paper has one. An event's own way to a server would add "
            f"{count(self._way())} bytes on the overlay."
        )
        return panels

    def _by_zones(self, part: str, sparse: float) -> float:
        far = self._stage.unicasts(max(self._size.ks))
        return math.log10((far.overlay_by_zones if part == "a" else far.ip_by_zones) / sparse)

    def _way(self) -> float:
        """Bytes on the overlay of a message between the server and another broker, on average."""
        return float(MESSAGE * ways(self._stage.network())[0].mean())

    def table_2(self) -> None:
        """Redundancy: what is received over what an exact approach would have sent, less 1."""
        self._report.text(
            "As in Table I, messages about the updated object are counted, not those about exposed objects. The second "
            "table counts both."
        )
        rows = []
        more = []
        for runs, known in TABLE_II.items():
            for k in self._size.ks:
                if runs is None:
                    rows.append(self._row("CN-Relax", k, known[k], self._of_relax))
                else:
                    one = approach(False, runs)

                    def of(k: int, seed: int, model: int, first: int | None, one: Approach = one) -> float:
                        return self._of_own(one, k, seed, model, first)

                    rows.append(self._row(one.name, k, known[k], of))
                    more.append((one.name, str(k), count(self._of_all(one, k))))
        values(self._report, ("approach", "k"), rows)
        self._report.table(("approach", "k", "redundancy, exposed objects too"), more, text=("k",))

    def _row(self, name: str, k: int, paper: float, of: Callable[[int, int, int, int | None], float]) -> Value:
        seeds, fewer = self._size.seeds, self._size.events // FEWER
        chance = by_chance(lambda seed, model: of(k, seed, model, None), seeds)
        shorter = of_seeds(
            lambda: [of(k, seed, COIN, fewer) for seed in (1, *seeds)],
            f"the random numbers of a shorter run, {fewer:,} events",
        )
        return Value((name, str(k)), paper, of(k, 1, COIN, None), (*chance[:2], shorter, chance[2]))

    def _of_relax(self, k: int, seed: int, model: int, first: int | None) -> float:
        exact = self._stage.played(SPARSE, k, seed=seed, model=model, first=first)
        return self._stage.relaxed(seed).received / exact.affected - 1

    def _of_own(self, one: Approach, k: int, seed: int, model: int, first: int | None) -> float:
        exact, found = (
            self._stage.played(each, k, seed=seed, model=model, first=first).affected for each in (SPARSE, one)
        )
        return found / exact - 1

    def _of_all(self, one: Approach, k: int) -> float:
        exact, found = (self._stage.played(each, k) for each in (SPARSE, one))
        return (found.affected + found.exposed) / (exact.affected + exact.exposed) - 1


def crossing(ks: Sequence[int], ys: Sequence[float], level: float) -> float:
    """Where a rising line through the points passes `level`; the first k if it begins above, inf if it never does.

    >>> crossing((1, 5, 10), (0.0, 10.0, 20.0), 15.0)
    7.5
    """
    if ys[0] >= level:
        return float(ks[0])
    for i in range(1, len(ks)):
        if ys[i] >= level:
            return ks[i - 1] + (ks[i] - ks[i - 1]) * (level - ys[i - 1]) / (ys[i] - ys[i - 1])
    return INF
