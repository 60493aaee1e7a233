"""[Moving queries] Figures 13 to 19: moving top-k. Costs are for each second of a drive, as there."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import pairwise
from statistics import median
from typing import NamedTuple

import numpy as np

from bench.compare import INF, Claim, Curve, Panel, claims, curves
from bench.maps.places import Land
from bench.maps.ways import asked_by, changes_of, follow, opened_by, rows_for, searching, stays, zoning
from bench.maps.workload import WIDTH, World
from bench.paper import Figure
from bench.race import Contender, race
from bench.report import Report, ratio
from indexes.core.arrays import Floats
from indexes.maps.attributes import Attribute
from indexes.maps.kernels.scores import Scoring
from indexes.maps.kernels.top_scratch import scratch_for
from indexes.maps.object_index import PlaceIndex
from indexes.maps.scoring import scoring

N, D, K, SPEED = 100_000, 2, 10, 80.0
"""The fixed values while another parameter varies."""

SUPREME, NAIVE = "supreme", "naive"

SCORES = {13: "weighted_sum", 14: "weighted_product", 15: "weighted_distance"}

CHEAP = "a search of the k best takes so little here that the circles are most of what a zone costs"


class Size(NamedTuple):
    """Drives, of products and weighted distances fewer, and their seconds; searches that are timed, rounds, zones that
    clients are followed in, and what varies; m = 0 is k."""

    cars: int = 40
    few: int = 8
    seconds: int = 3_600
    searches: int = 400
    rounds: int = 3
    stays: int = 100
    ns: tuple[int, ...] = (50_000, 75_000, 100_000, 125_000, 144_563)
    ds: tuple[int, ...] = (1, 2, 3, 4)
    ks: tuple[int, ...] = (1, 5, 10, 15, 20)
    ms: tuple[int, ...] = (1, 2, 5, 0)
    speeds: tuple[float, ...] = (40.0, 60.0, 80.0, 100.0, 120.0)
    weights: tuple[float, ...] = (0.1, 0.3, 0.5, 0.7, 0.9)


class Way(NamedTuple):
    """One way to follow the drives: searches in all, nodes and microseconds of each; the mean radius in metres and what
    a client takes a second, in microseconds, where that was asked."""

    searches: int
    nodes: float
    micros: float
    metres: float
    client: float


class Drives(NamedTuple):
    """All ways to follow the same drives."""

    steps: int
    ways: dict[str, Way]

    def nodes(self, name: str) -> float:
        """Nodes a second."""
        return self.ways[name].nodes * self.ways[name].searches / self.steps

    def micros(self, name: str) -> float:
        """Microseconds a second."""
        return self.ways[name].micros * self.ways[name].searches / self.steps


class Tops:
    """Shows the figures; what several share is measured once."""

    def __init__(self, report: Report, size: Size, land: Callable[[], Land]) -> None:
        self._report = report
        self._size = size
        self._land = land
        self._drives = cache(self._drive)
        self.figures: dict[int, tuple[str, Figure]] = {
            13: ("Figure 13: weighted sums by k and m", partial(self._by_k, 13)),
            14: ("Figure 14: weighted products by k and m", partial(self._by_k, 14)),
            15: ("Figure 15: weighted distances by k and m", partial(self._by_k, 15)),
            16: ("Figure 16: top-k by the number of objects", self._figure_16),
            17: ("Figure 17: top-k by the number of values", self._figure_17),
            18: ("Figure 18: top-k by speed", self._figure_18),
            19: ("Figure 19: top-k by the weight of distance", self._figure_19),
        }

    @property
    def _n(self) -> int:
        return N if N in self._size.ns else self._size.ns[-1]

    @property
    def _k(self) -> int:
        return K if K in self._size.ks else self._size.ks[-1]

    def show_setting(self) -> None:
        """Say what is common to all of them."""
        size = self._size
        self._report.text(
            f"Figures 13 to 19: {size.cars} cars for {size.seconds:,} s, {size.few} in Figures 14, 15; where nothing "
            f"else is said {self._n:,} objects with {D} uniform values ([Moving queries] has house prices), a weighted "
            "sum of equal weights, distances in widths of the "
            f"square, k = {self._k}, {SPEED:.0f} km/h. Supreme knows for "
            "nothing when the k best change, as a set, and searches for them then; naive does every second. Costs are "
            f"averages for a second of a drive, of {size.searches:,} searches of each way, the median of {size.rounds} "
            "rounds in alternation. A client looks whether it is in the zone and ranks all candidates, by the order of "
            "scores; supreme's ranks k. The circles are our closed forms; [Moving queries] trims rectangles."
        )

    def _drive(
        self, n: int, d: int, kind: str, weight: float, k: int, ms: tuple[int, ...], speed: float, clients: bool
    ) -> Drives:
        size = self._size
        self._report.progress(f"top-k: {kind}, {n:,} objects, {d} values, k = {k}, {speed:.0f} km/h, weight {weight:g}")
        s = _scoring(kind, d, weight)
        cars = size.cars if kind == SCORES[13] else size.few
        world = self._land().world(n, d, "uniform", cars, size.seconds, speed)
        index = PlaceIndex.build(world.points, world.statics)
        rng = np.random.default_rng(0)

        def some(places: Floats) -> Floats:
            return np.ascontiguousarray(places[rng.permutation(len(places))[: size.searches]])

        every = world.walks.reshape(-1, 2)
        asked = {NAIVE: every, SUPREME: changes_of(world, index, s, k)}
        asked |= {_name(m): asked_by(world, index, s, k, m or k) for m in ms}
        contenders, nodes, metres, client = [], {}, {}, {}
        for name, places in asked.items():
            there = some(places)
            m = 1 if name in (NAIVE, SUPREME) else next(m or k for m in ms if _name(m) == name)
            room, rows = scratch_for(index.view, k, m), rows_for(len(there), k + m - 1)
            plain = name in (NAIVE, SUPREME)
            run = searching(index, s, there, k, room, rows) if plain else zoning(index, s, there, k, m, room, rows)
            nodes[name] = opened_by(room, run, len(there))
            contenders.append(Contender(name, run, len(there)))
            metres[name] = 0.0 if plain else float(np.minimum(rows.radius, 10.0).mean()) * WIDTH
            client[name] = _client(world, index, s, k, m, k if plain else k + m - 1, size.stays) if clients else 0.0
        times = race(contenders, size.rounds)
        return Drives(
            len(every),
            {
                name: Way(len(asked[name]), nodes[name], median(mine), metres[name], client[name])
                for name, mine in zip(asked, times, strict=True)
            },
        )

    def _usual(self, k: int = 0, kind: str = SCORES[13]) -> Drives:
        """The drives of Figures 13 to 15."""
        return self._drives(self._n, D, kind, 0.0, k or self._k, self._size.ms, SPEED, True)

    def _panels(
        self, figure: int, axis: str, xs: Sequence[float], found: Sequence[Drives], names: Sequence[str]
    ) -> list[Panel]:
        return [
            Panel(figure, part, f"{what} for a second of a drive", axis, what,
                  tuple(Curve(name, xs, [cost(one, name) for one in found]) for name in names), logs="y")
            for part, what, cost in (("a", "nodes", Drives.nodes), ("b", "microseconds", Drives.micros))
        ]  # fmt: skip

    def _by_k(self, figure: int) -> list[Panel]:
        kind, ks = SCORES[figure], self._size.ks
        ms = [_name(m) for m in self._size.ms]
        found = [self._usual(k, kind) for k in ks]
        panels = self._panels(figure, "k", ks, found, (SUPREME, *ms))
        panels += [
            Panel(figure, "c", "the mean radius of the zone", "k", "metres",
                  tuple(Curve(name, ks, [one.ways[name].metres for one in found]) for name in ms), logs="y"),
            Panel(figure, "d", "the client's time for a second of a drive", "k", "microseconds",
                  tuple(Curve(name, ks, [one.ways[name].client for one in found]) for name in (SUPREME, *ms))),
        ]  # fmt: skip
        for panel in panels:
            curves(self._report, panel)
        usual, largest = found[ks.index(self._k)], found[-1]
        rows = [
            Claim(f"{what} of the server falls with m, k = {self._k}: the least factor from one m to the next", 1, INF,
                  min(cost(usual, a) / cost(usual, b) for a, b in pairwise(ms)))
            for what, cost in (("the number of nodes", Drives.nodes), ("the time", Drives.micros))
        ]  # fmt: skip
        rows += [
            Claim(f"the radius grows with m, k = {self._k}: the least factor", 1, INF,
                  min(usual.ways[b].metres / usual.ways[a].metres for a, b in pairwise(ms))),
            Claim("the radius of m = 5 falls as k grows: at the least k, times that at the greatest", 1, INF,
                  found[0].ways[ms[-2]].metres / largest.ways[ms[-2]].metres),
            *(
                Claim(f"nodes of {name} are fewer than supreme's, k = {ks[-1]}: times", -INF, 1,
                      largest.nodes(name) / largest.nodes(SUPREME), "the zone of the best set, not of one member, ends "
                      "supreme's")
                for name in ms[-2:]
            ),
            Claim(f"the client's time grows with k, {ms[-1]}: the greatest k, times the least", 1, INF,
                  largest.ways[ms[-1]].client / found[0].ways[ms[-1]].client),
            Claim(f"naive is several orders of magnitude dearer than {ms[-1]}: times", 1_000, INF,
                  usual.micros(NAIVE) / usual.micros(ms[-1]),
                  f"a search takes {usual.micros(NAIVE):.0f} microseconds here, so that there is less to save"),
        ]  # fmt: skip
        if figure == 13:
            rows.append(
                Claim(f"the radius of {ms[-1]} is over ten times the skyline's 1 to 2 km, metres",
                      10_000, INF, usual.ways[ms[-1]].metres)
            )  # fmt: skip
            self._judge(usual, ms)
        claims(self._report, rows)
        return panels

    def _judge(self, usual: Drives, ms: Sequence[str]) -> None:
        for name, allowed in ((ms[-1], 2.0), (ms[0], 25.0)):
            over = usual.micros(name) / usual.micros(SUPREME)
            self._report.verdict(
                f"among {self._n:,} places a weighted sum's zones of {name} at most {allowed:g} times supreme",
                f"{ratio(over)} times",
                over <= allowed,
            )

    def _swept(self, figure: int, axis: str, xs: Sequence[float], found: Sequence[Drives]) -> list[Panel]:
        """Figures 16 to 19: supreme, m = 5 and m = k."""
        names = (SUPREME, *(_name(m) for m in self._size.ms[-2:]))
        panels = self._panels(figure, axis, xs, found, names)
        for panel in panels:
            curves(self._report, panel)
        ends = [
            Claim(f"{what} of {name} increases: the last, times the first", 1, INF, cost(found[-1], name) /
                  cost(found[0], name))
            for what, cost in (("the number of nodes", Drives.nodes), ("the time", Drives.micros))
            for name in names
        ]  # fmt: skip
        fewer = [
            Claim(f"nodes of {name} are fewer than supreme's: at most, times", -INF, 1,
                  max(one.nodes(name) / one.nodes(SUPREME) for one in found), "the set of the k best seldom changes")
            for name in names[1:]
        ]  # fmt: skip
        over = [
            Claim(f"the time of {name} is around 1.3 times supreme's: on average, times", 1.0, 1.5,
                  float(np.mean([one.micros(name) / one.micros(SUPREME) for one in found])), CHEAP)
            for name in names[1:]
        ] + [
            Claim(f"the time of {name} is less than 2 microseconds: at most", -INF, 2.0,
                  max(one.micros(name) for one in found))
            for name in names[1:]
        ]  # fmt: skip
        claims(self._report, [*ends, *fewer, *(over if figure == 16 else [])])
        return panels

    def _figure_16(self) -> list[Panel]:
        ns = self._size.ns
        return self._swept(16, "objects", ns, [self._sweep(n=n) for n in ns])

    def _figure_17(self) -> list[Panel]:
        ds = self._size.ds
        return self._swept(17, "values", ds, [self._sweep(d=d) for d in ds])

    def _figure_18(self) -> list[Panel]:
        speeds = self._size.speeds
        return self._swept(18, "km/h", speeds, [self._sweep(speed=speed) for speed in speeds])

    def _figure_19(self) -> list[Panel]:
        weights = self._size.weights
        return self._swept(19, "weight of distance", weights, [self._sweep(weight=weight) for weight in weights])

    def _sweep(self, n: int = 0, d: int = D, weight: float = 0.0, speed: float = SPEED) -> Drives:
        return self._drives(n or self._n, d, SCORES[13], weight, self._k, self._size.ms[-2:], speed, False)


def _name(m: int) -> str:
    return f"m = {m or 'k'}"


def _scoring(kind: str, d: int, weight: float) -> Scoring:
    """A score of equal weights, or with this weight of distance and the rest in equal parts."""
    names = [f"v{j}" for j in range(d)]
    attributes = [Attribute(name, False, (0.0, 1.0)) for name in names]
    if kind == "weighted_distance":
        return scoring(kind, attributes, dict.fromkeys(names, 1 / d))
    weight = weight or 1 / (d + 1)
    return scoring(kind, attributes, dict.fromkeys(names, (1 - weight) / d) | {"distance": weight})


def _client(world: World, index: PlaceIndex, s: Scoring, k: int, m: int, candidates: int, most: int) -> float:
    """Microseconds a step that a client takes."""
    found = stays(world, index, s, k, m, most)
    runs = [follow(stay, k, candidates, np.empty(k, np.int64)) for stay in found]
    steps = sum(run() for run in runs)
    began = time.thread_time()
    for run in runs:
        run()
    return (time.thread_time() - began) * 1e6 / steps
