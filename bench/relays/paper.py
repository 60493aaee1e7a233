"""Tables I and II and Figures 8 to 12 of [Covering]: rows "paper | ours | ratio", and figures drawn next to the page.

The scan that we have shows the numbers of the tables; of the figures it has what the text says, in words. Times are of
another machine, so ratios are what is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from bench.baselines import printed_kd_tree
from bench.baselines.printed_kd_tree import BUCKETS, COMPARED, FULL, SEARCHES, WAY
from bench.compare import INF, Claim, Curve, Panel, Try, Value, claims, curves, of_seeds, values
from bench.paper import Experiments
from bench.relays.speed import KD, SCAN, P, Speed, Z, apply
from bench.relays.workload import Boxes, make_boxes, make_commands, make_placed_boxes
from bench.report import Report, count, ratio, spread
from indexes.relays.alternatives.z_order import ZIndex
from indexes.relays.kernels.covering_index import COMPARISONS, NODES, QUERIES, CoverIndex
from indexes.relays.kernels.forward import UNSUBSCRIBE
from indexes.relays.kernels.kd_tree import KdIndex
from indexes.relays.relations import Known

TABLES, FIGURES = (1, 2), (8, 9, 10, 11, 12)

FOLDER = "figures/relays"
"""Next to the page, where its figures are drawn."""

COLUMNS = ("nv", "nvs", "nvu", "pc", "pcs", "pcu")

TABLE_I = {
    1: (813, 782, 31, 6147, 5993, 154),
    2: (983, 974, 9, 9967, 9852, 115),
    3: (1140, 1131, 9, 13111, 12973, 138),
    4: (1275, 1266, 9, 15816, 15663, 153),
    5: (1400, 1390, 10, 18274, 18111, 163),
    6: (1508, 1498, 10, 20407, 20237, 170),
}
"""Thousands, by k, at p = 5%: nodes visited in all, by subscribing and by unsubscribing; point comparisons likewise."""

TABLE_II = {
    1: (556, 415, 141, 6192, 4684, 1508),
    2: (634, 529, 105, 8952, 7376, 1576),
    3: (714, 615, 99, 11026, 9365, 1661),
    4: (780, 683, 97, 12661, 10936, 1725),
    5: (839, 740, 99, 14050, 12260, 1790),
    6: (889, 789, 100, 15233, 13389, 1844),
}
"""The same at p = 40%."""

HEAVY, LIGHT = 0.05, 0.4
"""The shares of commands that unsubscribe."""

KINDS: dict[str, type[CoverIndex]] = {KD: KdIndex, Z: ZIndex}

NAMES = {SCAN: "naive", Z: "Z-order", KD: "k-d tree"}
"""What figures call those that race."""


class Size(NamedTuple):
    """How much is run: commands on points of so many dimensions, values of k, sequences that counts are averaged over,
    other sizes of buckets, rounds that are timed; commands and dimensions along the axes of Figures 10 to 12."""

    commands: int = 60_000
    dimensions: int = 10
    ks: tuple[int, ...] = tuple(TABLE_I)
    seeds: tuple[int, ...] = (1, 2, 3, 4, 5)
    fulls: tuple[int, ...] = (32, 40, 48)
    rounds: int = 3
    line: tuple[int, ...] = (10_000, 20_000, 40_000, 60_000, 80_000, 100_000)
    axis: tuple[int, ...] = (6, 8, 10, 12, 14, 16)


QUICK = Size(3_000, 10, (1, 2, 6), (1, 2), (48,), 1, (1_000, 5_000), (6, 16))


class Paper(Experiments):
    """Shows any of them; what several share is measured once."""

    def __init__(self, report: Report, size: Size, speed: Speed, page: Path | None) -> None:
        super().__init__(report, page, FOLDER)
        self._size = size
        self._speed = speed
        self.tables = {
            1: ("Table I: nodes visited and point comparisons, p = 5%", partial(self._table, HEAVY, TABLE_I)),
            2: ("Table II: nodes visited and point comparisons, p = 40%", partial(self._table, LIGHT, TABLE_II)),
        }
        self.figures = {
            8: ("Figure 8: run time by k", self._figure_8),
            9: ("Figure 9: searches by unsubscribing, by k", self._figure_9),
            10: ("Figure 10: run time by the number of commands", self._figure_10),
            11: ("Figure 11: run time by the dimension", self._figure_11),
            12: ("Figure 12: the gain by the dimension", self._figure_12),
        }
        self._counts = cache(self._count)
        self._times = cache(self._time)

    def show(self, tables: Sequence[int], figures: Sequence[int]) -> None:
        size = self._size
        if size != Size():
            self.report.text("Sizes are not the paper's: only the full run is meant to be compared.")
        if tables or {8, 9} & set(figures):
            self.report.text(
                f"Tables I and II, Figures 8 and 9: {size.commands:,} commands on points of {size.dimensions} "
                f"dimensions ({size.dimensions // 2} attributes), everything in the index. Counts are averages of "
                f"{len(size.seeds)} random sequences, of the k-d tree as the paper prints it: buckets of at most "
                f"{FULL} points, compared one after the other until k are found. A node visited is a bucket that is "
                "looked at, or one on the way down to the rightmost bucket, with which every search begins. That, and "
                "the size of buckets, the paper does not say: they are what comes nearest to its numbers. "
                'Nor does it say what "a randomly chosen segment" is. Ours has two random ends; one of a random length '
                "at a random place, where it fits, covers another more often, and is tried where ours differs."
            )
        super().show(tables, figures)

    def _table(self, p: float, paper: Mapping[int, tuple[int, ...]]) -> None:
        rows = []
        for k in self._size.ks:
            self.report.progress(f"k = {k}")
            for i, name in enumerate(COLUMNS):
                found = partial(self._values, p, k, i)
                ours = float(np.mean(found(make_boxes, FULL)))
                rows.append(Value((str(k), name), paper[k][i], ours, self._tries(found)))
        values(self.report, ("k", "thousands"), rows)
        means = {(row.labels[0], row.labels[1]): row.ours for row in rows}
        steps = [(str(a), str(b)) for a, b in pairwise(self._size.ks)]
        claims(
            self.report,
            [
                *(
                    Claim(f"{name} increases with k: the least factor from one to the next", 1, INF,
                          min(_of(means[b, name], means[a, name]) for a, b in steps))
                    for name in ("nv", "pc")
                ),
                Claim("nvu decreases from k = 1 to k = 2", -INF, 1, _of(means["2", "nvu"], means["1", "nvu"])),
            ],
        )  # fmt: skip
        self._own(p, paper)

    def _tries(self, found: Callable[[Boxes, int], list[float]]) -> tuple[Try, ...]:
        """What is tried of a count, given its values by how boxes are made and how large buckets are."""
        placed = "boxes of a random length"
        sizes = self._size.fulls

        def left(_: float) -> str:
            others = ", ".join(f"of {full} {spread(found(make_placed_boxes, full))}" for full in sizes)
            return (
                f"open: not the random numbers {spread(found(make_boxes, FULL))}, not boxes of a random length "
                f"{spread(found(make_placed_boxes, FULL))}, not these in buckets {others}"
            )

        return (
            of_seeds(lambda: found(make_boxes, FULL)),
            of_seeds(lambda: found(make_placed_boxes, FULL), placed),
            *(
                of_seeds(partial(found, make_placed_boxes, full), f"{placed} in buckets of at most {full}")
                for full in sizes
            ),
            left,
        )

    def _values(self, p: float, k: int, column: int, boxes: Boxes, full: int) -> list[float]:
        """A column of the table, by seed."""
        return [self._columns(p, k, seed, boxes, full)[column] for seed in self._size.seeds]

    def _columns(self, p: float, k: int, seed: int, boxes: Boxes, full: int) -> list[float]:
        seen = self._counts(p, k, seed, boxes, full).seen / 1000
        nodes, compared = seen[:, BUCKETS] + seen[:, WAY], seen[:, COMPARED]
        return [float(x) for one in (nodes, compared) for x in (one.sum(), *one)]

    def _count(self, p: float, k: int, seed: int, boxes: Boxes, full: int) -> printed_kd_tree.Counts:
        size = self._size
        return printed_kd_tree.count(make_commands(size.commands, size.dimensions // 2, p, seed, boxes), k, full)

    def _own(self, p: float, paper: Mapping[int, tuple[int, ...]]) -> None:
        """The same of the k-d tree that a relay has."""
        size = self._size
        rows = []
        for k, roots in ((1, True), *((k, False) for k in size.ks)):
            seen = np.zeros((2, 3))
            for seed in size.seeds:
                commands = make_commands(size.commands, size.dimensions // 2, p, seed)
                relations = Known(KdIndex(size.dimensions), k, roots)
                relations.apply(commands.table(), commands.op, commands.slot)
                seen += relations.seen / len(size.seeds)
            nodes, compared = seen[:, NODES].sum() / 1000, seen[:, COMPARISONS].sum() / 1000
            rows.append(
                (
                    f"{k}{', roots alone' if roots else ''}", count(nodes), ratio(nodes / paper[k][0]),
                    count(compared), ratio(compared / paper[k][3]), count(seen[1, QUERIES]),
                )
            )  # fmt: skip
        self.report.text(
            "A relay's own k-d tree counts every node that it looks at, and a bucket of up to 64 points as a whole, "
            "since it compares them at once:"
        )
        self.report.table(
            ("k", "thousand nodes", "of the paper's", "thousand points", "of the paper's", "searches by unsubscribing"),
            rows,
        )

    def _figure_8(self) -> list[Panel]:
        size = self._size
        lines, rows = [], []
        for p in (HEAVY, LIGHT):
            for kind in KINDS:
                name = f"{NAMES[kind]}, p = {p:.0%}"
                seconds = [self._times(p, kind, k) for k in size.ks]
                lines.append(Curve(name, size.ks, seconds))
                rows.append(
                    Claim(f"{name}: time increases with k, the least factor from one to the next", 1, INF,
                          min(b / a for a, b in pairwise(seconds)))
                )  # fmt: skip
                rows.append(
                    Claim(f"{name}: k = 1 is the fastest, the next best of it", 1, INF, min(seconds[1:]) / seconds[0])
                )
        panel = Panel(8, "", f"{size.commands:,} commands, {size.dimensions} dimensions", "k", "seconds", tuple(lines))
        curves(self.report, panel)
        claims(self.report, rows)
        return [panel]

    def _time(self, p: float, kind: str, k: int) -> float:
        size = self._size
        self.report.progress(f"p = {p:.0%}, {NAMES[kind]}, k = {k}")
        commands = make_commands(size.commands, size.dimensions // 2, p)
        return median(apply(KINDS[kind], commands, k)[0] for _ in range(size.rounds))

    def _figure_9(self) -> list[Panel]:
        size = self._size
        panels, rows = [], []
        for part, p in (("a", HEAVY), ("b", LIGHT)):
            each = np.array(
                [[self._counts(p, k, seed, make_boxes, FULL).seen[:, SEARCHES] for seed in size.seeds] for k in size.ks]
            )
            found = each[:, :, 1].mean(axis=1)
            ends = np.mean([self._ends(p, seed) for seed in size.seeds])
            panel = Panel(9, part, f"p = {p:.0%}", "k", "searches", (Curve("k-d tree", size.ks, found.tolist()),))
            curves(self.report, panel)
            panels.append(panel)
            rows += [
                Claim(f"p = {p:.0%}: fewer at k = 2, of those at k = 1", -INF, 1, _of(found[1], found[0])),
                Claim(f"p = {p:.0%}: from there on slightly fewer, the greatest factor from one to the next", -INF, 1,
                      max(_of(b, a) for a, b in pairwise(found[1:]))),
                Claim(f"p = {p:.0%}: Lemma 1, searches an unsubscription at k = 1", -INF, 1, found[0] / ends),
                Claim(f"p = {p:.0%}: searches by subscribing, the most of any k of the least", 1, 1,
                      each[:, :, 0].sum(axis=1).max() / each[:, :, 0].sum(axis=1).min()),
            ]  # fmt: skip
        claims(self.report, rows)
        return panels

    def _ends(self, p: float, seed: int) -> int:
        """How many commands of a sequence unsubscribe."""
        size = self._size
        return int((make_commands(size.commands, size.dimensions // 2, p, seed).op == UNSUBSCRIBE).sum())

    def _figure_10(self) -> list[Panel]:
        size = self._size
        self.report.text(
            f"Figures 10 to 12 have p = {P:.0%}, 10,000 to 100,000 commands and 6 to 16 dimensions. The scan has lost "
            "what each of them shows: here the first has commands along its axis, the second the dimension, and the "
            "third the gain over the naive algorithm."
        )
        found = {n: self._speeds(n, size.dimensions) for n in size.line}
        panel = self._panel(10, f"{size.dimensions} dimensions", "commands", found)
        claims(self.report, _order(found))
        return [panel]

    def _figure_11(self) -> list[Panel]:
        found = self._by_dimension()
        panel = self._panel(11, f"{self._size.line[-1]:,} commands", "dimensions", found)
        few, many = self._size.axis[0], self._size.axis[-1]
        text = f"the naive algorithm is better at lower dimensions: its time at {few}, of that at {many}"
        claims(self.report, [*_order(found), Claim(text, -INF, 1, found[few][SCAN] / found[many][SCAN])])
        return [panel]

    def _figure_12(self) -> list[Panel]:
        found = self._by_dimension()
        gains = {d: {name: seconds[SCAN] / seconds[name] for name in (Z, KD)} for d, seconds in found.items()}
        panel = self._panel(12, f"{self._size.line[-1]:,} commands", "dimensions", gains, "times the naive speed")
        few, many = self._size.axis[0], self._size.axis[-1]
        at = found[many]
        commands = make_commands(self._size.line[-1], many // 2, P)
        printed_kd_tree.count(make_commands(200, many // 2, P), 1)  # what is compiled by now is not timed
        bare, cornered = (printed_kd_tree.count(commands, 1, corners=corners).seconds for corners in (False, True))
        plain = (
            "our buckets are compared at once, a coordinate of 64 points after the other: the tree as printed, point "
            "after point, is {} times as fast (leaving out nodes by their largest corner as well, {} times)"
        )
        rows = [
            Claim(f"{many} dimensions: the k-d tree, times the naive algorithm", 10, 10, gains[many][KD],
                  plain.format(ratio(at[SCAN] / bare), ratio(at[SCAN] / cornered))),
            Claim(f"{many} dimensions: the k-d tree, times the space-filling curve", 2, 2, at[Z] / at[KD],
                  plain.format(ratio(at[Z] / bare), ratio(at[Z] / cornered))),
        ]  # fmt: skip
        text = f"the gain increases with the dimension: at {many}, of that at {few}"
        rows += [Claim(f"{NAMES[name]}: {text}", 1, INF, gains[many][name] / gains[few][name]) for name in (KD, Z)]
        claims(self.report, rows)
        return [panel]

    def _by_dimension(self) -> dict[int, dict[str, float]]:
        return {d: self._speeds(self._size.line[-1], d) for d in self._size.axis}

    def _speeds(self, n: int, dimensions: int) -> dict[str, float]:
        """Seconds of those that Figures 10 to 12 have; where the kernels are raced as well, all are raced at once."""
        if n == self._size.line[-1] and dimensions in self._size.axis:
            self._speed.race(n, dimensions)
        return {name: median(mine) for name, mine in self._speed.three(n, dimensions).items()}

    def _panel(self, figure: int, title: str, x: str, found: dict[int, dict[str, float]], y: str = "seconds") -> Panel:
        """A figure with a curve for each that raced; its numbers are added to the report."""
        kinds = next(iter(found.values()))
        lines = [Curve(NAMES[kind], tuple(found), [times[kind] for times in found.values()]) for kind in kinds]
        panel = Panel(figure, "", title, x, y, tuple(lines), logs="y")
        curves(self.report, panel)
        return panel


def _of(a: float, b: float) -> float:
    """A ratio; of nothing and nothing, 1."""
    return a / b if b else 1.0 if a == b else INF


def _order(found: dict[int, dict[str, float]]) -> list[Claim]:
    """What the text says of every point of Figures 10 and 11."""
    return [
        Claim("both indexes are faster than the naive algorithm: its time, of the slower one's, at the least", 1, INF,
              min(times[SCAN] / max(times[Z], times[KD]) for times in found.values())),
        Claim("the k-d tree is faster than the space-filling curve: its time, of the tree's, at the least", 1, INF,
              min(times[Z] / times[KD] for times in found.values())),
    ]  # fmt: skip
