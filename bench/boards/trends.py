"""Figure 15: other workloads, and how volatile the objects are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bench.boards.distributions import clustered_objects, clustered_ranges, correlated_ranges, gaussian_steps
from bench.boards.plays import DENSE, MESSAGE, SPARSE, Approach, Played, fresh, play, sequence
from bench.boards.stage import Stage
from bench.boards.workload import COIN, World, indexed, make_world
from bench.compare import INF, Claim, Curve, Panel, claims, curves
from bench.report import Report, count
from indexes.boards.kernels.forest import Forest

SPREADS = (0.1, 0.25, 0.5, 1.0)
"""Lambda of clustered subscriptions; the paper's own values stood in its figure."""

STEPS = (0.01, 0.1, 1.0)
"""c of Gaussian steps; the paper shows two, which stood in its figure."""

DENSE_M = 10_000_000
"""So many uniform subscriptions are "basically dense"."""

K = 10
SEED = 7

Ranges = Callable[[], tuple[NDArray[np.float64], NDArray[np.float64]]]


class Trends:
    """Figure 15."""

    def __init__(self, report: Report, stage: Stage) -> None:
        self._report = report
        self._stage = stage
        self._size = stage.size

    def figure_15(self) -> list[Panel]:
        """Messages of Paint-Sparse over those of Paint-Dense by k; bytes an event by k for Gaussian steps."""
        ks, size = self._size.ks, self._size
        ratios: dict[str, list[float]] = {}
        for name, world, forest in self._workloads():
            ratios[name] = [self._ratio(world, forest, k) for k in ks]
        shares = Panel(
            15, "a", f"messages of Paint-Sparse, Paint-Dense = 1, m = {size.m:,}", "k", "ratio",
            tuple(Curve(name, ks, found) for name, found in ratios.items()),
        )  # fmt: skip
        curves(self._report, shares)

        world = make_world(size.n, size.events, 1)
        forest = self._stage.forest(size.m, 1)
        lines = []
        for one in (DENSE, SPARSE):
            lines.append(
                Curve(f"{one.name}, uniform y", ks, [MESSAGE * self._stage.played(one, k).messages for k in ks])
            )
            for c in STEPS:
                events = gaussian_steps(world, c, 1)
                made = [play(fresh(world.x, world.y), forest, events, one, k).messages for k in ks]
                lines.append(Curve(f"{one.name}, c = {c:g}", ks, [MESSAGE * value for value in made]))
        by_step = Panel(15, "b", f"Gaussian steps, m = {size.m:,}", "k", "bytes an event", tuple(lines), logs="y")
        curves(self._report, by_step)

        k = max(k for k in ks if k <= K)
        at = ks.index(k)
        many, rectangles = self._dense_ratio(k)
        clustered = [ratios[f"clustered subscriptions, lambda = {spread:g}"][at] for spread in SPREADS]
        dense = [line.y for line in lines[1 : 1 + len(STEPS)]]
        claims(
            self._report,
            [
                Claim(
                    f"the ratio with {self._dense_m():,} uniform subscriptions, k = {k}", 1, 1, many,
                    f"empty strips are left out and others joined; of strips looked at, not of messages sent, it is "
                    f"{count(rectangles)}",
                ),
                Claim(
                    f"more clustered, fewer messages, k = {k}: greatest step down in lambda", -INF, 1,
                    max(a / b for a, b in pairwise(clustered)),
                ),
                Claim(
                    f"anti-correlated over correlated, k = {k}: less", -INF, 1,
                    ratios["anti-correlated"][at] / ratios["correlated"][at],
                ),
                Claim(
                    "Paint-Dense with less volatile objects: less, for all k: greatest step down in c", -INF, 1,
                    max(a / b for low, high in pairwise(dense) for a, b in zip(low, high, strict=True)),
                ),
            ],
        )  # fmt: skip
        return [shares, by_step]

    def _workloads(self) -> Iterator[tuple[str, World, Forest]]:
        size = self._size
        uniform = make_world(size.n, size.events, 1)
        yield "uniform", uniform, self._stage.forest(size.m, 1)
        for spread in SPREADS:
            ends = clustered_ranges(size.m, SEED, spread)
            yield f"clustered subscriptions, lambda = {spread:g}", uniform, indexed(*ends)
        clustered = World(*clustered_objects(size.n, 1), uniform.events)
        yield "correlated", clustered, indexed(*correlated_ranges(size.m, SEED))
        yield "anti-correlated", clustered, indexed(*correlated_ranges(size.m, SEED, 0.5))

    def _ratio(self, world: World, forest: Forest, k: int) -> float:
        dense, sparse = (self._play(world, forest, one, k).messages for one in (DENSE, SPARSE))
        return sparse / dense

    def _play(self, world: World, forest: Forest, one: Approach, k: int, searching: bool = False) -> Played:
        return play(fresh(world.x, world.y), forest, sequence(world, COIN), one, k, searching=searching)

    def _dense_m(self) -> int:
        return DENSE_M * self._size.m // 2_000_000

    def _dense_ratio(self, k: int) -> tuple[float, float]:
        """With as many subscriptions as are basically dense: messages, and strips looked at, over Paint-Dense's."""
        world = make_world(self._size.n, self._size.events, 1)
        forest = self._stage.forest(self._dense_m(), 1)
        dense = self._play(world, forest, DENSE, k)
        return (
            self._ratio(world, forest, k),
            self._play(world, forest, SPARSE, k, searching=True).snaps / dense.messages,
        )
