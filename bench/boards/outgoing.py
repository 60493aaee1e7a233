"""Figures 11 to 13: what leaves the server, in bytes an event, and the calls that it costs."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise

from bench.boards.chance import by_chance
from bench.boards.plays import DENSE, DENSE_1, MESSAGE, SPARSE, SPARSE_1, UNICAST, Approach, Played, approach
from bench.boards.stage import Stage
from bench.boards.tables import TABLE_III
from bench.boards.workload import COIN
from bench.compare import INF, Claim, Curve, Mark, Panel, Value, claims, curves, of_reading, values
from bench.report import Report

RUNS = (8, 4, 2, 1)
"""1 / epsilon, as in Table II."""

FIRST_K = 2
"""Calls of `first_k` an event, of every painting algorithm (Table III)."""

M, K = 5_000_000, 20
"""Where the text states what Figures 11 and 13 show."""

UNICAST_MEAN, DENSE_MEAN = 316_158, 3_501
UNICAST_MOST, SPARSE_MOST = 39_998_000, 31_752

NEAR_K = 15
"""The text gives the most of Paint-Sparse for k = 20; the next k that it measured is tried too."""

FEWER = 5
"""The most of one event grows with the events: it is tried with so many times fewer."""


class Outgoing:
    """Figures 11, 12 and 13."""

    def __init__(self, report: Report, stage: Stage) -> None:
        self._report = report
        self._stage = stage
        self._size = stage.size

    def figure_11(self) -> list[Panel]:
        """The average an event by m, for each k; epsilon in (c)."""
        ks, ms = self._size.ks, self._size.ms
        found: dict[str, list[Curve]] = {"Unicast": []}
        for one in (DENSE, SPARSE, SPARSE_1):
            found[one.name] = []
        # All lists of one m before the next: the index of its subscriptions is large.
        made = {m: {k: self._means(k, m) for k in ks} for m in ms}
        for i, name in enumerate(found):
            found[name] = [Curve(f"{name}, k = {k}", ms, [made[m][k][i] for m in ms]) for k in ks]

        known = self._stated(Mark(f"Unicast, k = {K}", M, UNICAST_MEAN), Mark(f"{DENSE.name}, k = {K}", M, DENSE_MEAN))
        shown = (
            ("a", "Unicast and Paint-Dense", ("Unicast", DENSE.name), known, "xy"),
            ("b", "Paint-Dense and Paint-Sparse", (DENSE.name, SPARSE.name), known[1:], "x"),
            ("c", "Paint-Sparse and its approximation", (SPARSE.name, SPARSE_1.name), (), "x"),
        )
        panels = []
        for part, title, names, marks, logs in shown:
            lines = tuple(line for name in names for line in found[name])
            panels.append(Panel(11, part, title, "m", "bytes an event", lines, marks, logs))
        self._report.text(
            f"A message of the network is {MESSAGE} bytes, a unicast {UNICAST}: with these the bytes that the text "
            "states are the messages of Tables I and III."
        )
        for panel in panels:
            curves(self._report, panel)
        if known:
            values(
                self._report,
                ("approach", "m", "k"),
                [
                    self._value(("Unicast", f"{M:,}", str(K)), UNICAST_MEAN, lambda *at: self._unicast(K, M, *at)),
                    self._value((DENSE.name, f"{M:,}", str(K)), DENSE_MEAN, lambda *at: self._bytes(DENSE, K, M, *at)),
                ],
            )
        least, most, k = min(ms), max(ms), max(ks)
        few, many = (self._bytes(SPARSE, k, m) / self._bytes(DENSE, k, m) for m in (least, most))
        grows = math.log(self._unicast(k, most) / self._unicast(k, least)) / math.log(most / least)
        rest = self._bytes(SPARSE_1, k, most) / self._bytes(SPARSE, k, most)
        claims(
            self._report,
            [
                Claim(f"Unicast grows with m (k = {k}): exponent of m", 1, 1, grows),
                Claim(f"Paint-Sparse of Paint-Dense, m = {most:,}, k = {k}: less", -INF, 1, many),
                Claim(f"the same at m = {least:,}, of that at m = {most:,}: less", -INF, 1, few / many),
                Claim(f"Paint-Sparse(1) of Paint-Sparse, m = {most:,}, k = {k}: less", -INF, 1, rest),
            ],
        )
        return panels

    def figure_12(self) -> list[Panel]:
        """The average an event by k and by epsilon, at the default m."""
        ks, m = self._size.ks, self._size.m
        shown = (DENSE, SPARSE, DENSE_1, SPARSE_1)
        lines = [Curve("Unicast", ks, [self._unicast(k, m) for k in ks])]
        lines += [Curve(one.name, ks, [self._bytes(one, k, m) for k in ks]) for one in shown]
        by_k = Panel(12, "a", f"outgoing traffic, m = {m:,}", "k", "bytes an event", tuple(lines), logs="y")

        epsilons = (0.0, *(1 / runs for runs in RUNS))
        by_epsilon = []
        for dense in (True, False):
            for k in ks[-3:]:
                made = [self._bytes(approach(dense, runs), k, m) for runs in (0, *RUNS)]
                by_epsilon.append(Curve(f"{approach(dense).name}, k = {k}", epsilons, made))
        by_e = Panel(12, "b", f"outgoing traffic, m = {m:,}", "epsilon", "bytes an event", tuple(by_epsilon))

        curves(self._report, by_k)
        curves(self._report, by_e)
        k = max(ks)

        def orders(one: Approach, at: int = k) -> float:
            return math.log10(self._unicast(at, m) / self._bytes(one, at, m))

        at_least = ", ".join(f"{one.name} {orders(one, min(ks)):.1f}" for one in shown)
        self._report.text(
            f"Orders of magnitude below Unicast are those at k = {k}; at k = {min(ks)} they are: {at_least}."
        )
        rows = [Claim(f"{DENSE.name}: orders of magnitude below Unicast", 1.5, 1.5, orders(DENSE))]
        for one in (SPARSE, DENSE_1, SPARSE_1):
            rows.append(Claim(f"{one.name}: orders of magnitude below Unicast", 2, 2.5, orders(one)))
        rises = max(b / a for line in by_epsilon for a, b in pairwise(line.y))
        rows.append(Claim("a step up in epsilon multiplies the traffic by: never more", -INF, 1, rises))
        claims(self._report, rows)
        return [by_k, by_e]

    def figure_13(self) -> list[Panel]:
        """The most of one event by k, and the average number of calls."""
        panels = [self._most(), self._calls()]
        for panel in panels:
            curves(self._report, panel)
        rows = []
        if panels[0].marks:
            fewer = self._size.events // FEWER
            reading = of_reading(
                lambda: self._most_bytes(SPARSE, K, M, first=fewer), f"in the first {fewer:,} events it is {{}}"
            )
            rows.append(self._value(("(a) Unicast", str(K)), UNICAST_MOST, lambda *at: self._most_unicast(K, M, *at)))
            sparse = self._value(
                ("(a) Paint-Sparse", str(K)), SPARSE_MOST, lambda *at: self._most_bytes(SPARSE, K, M, *at)
            )
            other = of_reading(
                lambda: self._most_bytes(SPARSE, NEAR_K, M), f"perhaps of another k: at k = {NEAR_K} it is {{}}"
            )
            rows.append(sparse._replace(tries=(reading, other, *sparse.tries)))
        for mark in panels[1].marks:
            of = self._unicast_calls if mark.curve == "Unicast" else self._sparse_calls
            k = int(mark.x)
            rows.append(self._value((f"(b) {mark.curve}, calls", str(k)), mark.y, lambda *at, of=of, k=k: of(k, *at)))
        values(self._report, ("", "k"), rows)
        least, most, k = min(self._size.ms), max(self._size.ms), max(self._size.ks)
        alike = [self._most_unicast(k, most) for k in self._size.ks]
        grows = self._most_unicast(k, most) / self._most_unicast(k, least) / (most / least)
        claims(
            self._report,
            [
                Claim(f"the most of Unicast is proportional to m: from m = {least:,} to {most:,}", 1, 1, grows),
                Claim(
                    "the most of Unicast is the same for all k: greatest over least", 1, 1, max(alike) / min(alike),
                    f"too few events: {self._size.events:,} need not make the object in the middle the best of all",
                ),
            ],
        )  # fmt: skip
        return panels

    def _most(self) -> Panel:
        ks, m, most = self._size.ks, self._size.m, max(self._size.ms)
        ms = sorted({m, most})
        lines = [Curve(f"Unicast, m = {m:,}", ks, [self._most_unicast(k, m) for k in ks]) for m in ms]
        for one, at in ((DENSE, [most]), (SPARSE, ms), (DENSE_1, [most]), (SPARSE_1, [most])):
            for m in at:
                name = one.name if one.dense else f"{one.name}, m = {m:,}"
                lines.append(Curve(name, ks, [self._most_bytes(one, k, m) for k in ks]))
        marks = self._stated(
            Mark(f"Unicast, m = {M:,}", K, UNICAST_MOST), Mark(f"{SPARSE.name}, m = {M:,}", K, SPARSE_MOST)
        )
        return Panel(13, "a", "the most of one event", "k", "bytes", tuple(lines), marks, "y")

    def _calls(self) -> Panel:
        ks = self._size.ks
        marks = []
        for k in ks:
            _, min_y, snaps, unicast = TABLE_III[k]
            marks += [Mark("Unicast", k, unicast), Mark(SPARSE.name, k, FIRST_K + min_y + snaps)]
        lines = (
            Curve("Unicast", ks, [self._unicast_calls(k) for k in ks]),
            Curve(SPARSE.name, ks, [self._sparse_calls(k) for k in ks]),
        )
        title = f"calls, m = {self._size.m:,}; the paper's are those of Table III"
        return Panel(13, "b", title, "k", "calls an event", lines, tuple(marks), "y")

    def _stated(self, *marks: Mark) -> tuple[Mark, ...]:
        """The marks, where what they are of is measured."""
        return marks if M in self._size.ms and K in self._size.ks else ()

    def _value(self, labels: tuple[str, ...], paper: float, of: Callable[..., float]) -> Value:
        return Value(labels, paper, of(1, COIN), by_chance(of, self._size.seeds))

    def _means(self, k: int, m: int) -> tuple[float, ...]:
        return (self._unicast(k, m), *(self._bytes(one, k, m) for one in (DENSE, SPARSE, SPARSE_1)))

    def _unicast(self, k: int, m: int, seed: int = 1, model: int = COIN) -> float:
        return UNICAST * self._played(SPARSE, k, m, seed, model).affected

    def _bytes(self, one: Approach, k: int, m: int, seed: int = 1, model: int = COIN) -> float:
        return MESSAGE * self._played(one, k, m, seed, model).messages

    def _most_unicast(self, k: int, m: int, seed: int = 1, model: int = COIN) -> float:
        return UNICAST * self._played(SPARSE, k, m, seed, model).most_affected

    def _most_bytes(
        self, one: Approach, k: int, m: int, seed: int = 1, model: int = COIN, first: int | None = None
    ) -> float:
        return MESSAGE * self._played(one, k, m, seed, model, first).most_messages

    def _played(self, one: Approach, k: int, m: int, seed: int, model: int, first: int | None = None) -> Played:
        return self._stage.played(one, k, m, seed, model, first=first)

    def _unicast_calls(self, k: int, seed: int = 1, model: int = COIN) -> float:
        return self._stage.searched(k, seed, model).square

    def _sparse_calls(self, k: int, seed: int = 1, model: int = COIN) -> float:
        found = self._stage.searched(k, seed, model)
        return FIRST_K + found.min_y + found.snaps
