"""[Moving queries] Figures 7 to 12: moving skylines. Costs are for each second of a drive, as there."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cache
from itertools import pairwise
from statistics import median
from typing import NamedTuple

import numpy as np

from bench.baselines.skyline import cells, unpruned_pass
from bench.compare import INF, Claim, Curve, Panel, Value, claims, curves, values
from bench.maps.places import Land
from bench.maps.workload import WIDTH, World, make_world
from bench.paper import Figure
from bench.race import Contender, race
from bench.report import Report, ratio
from indexes.maps.kernels.two_phase import two_phase
from indexes.maps.object_index import PlaceIndex
from indexes.maps.zones.geojson import component
from indexes.maps.zones.skyline import SkylineSearch

BOUNDS = np.array([0.0, 0.0, 1.0, 1.0])

N, D, KIND, SPEED = 100_000, 2, "uniform", 80.0
"""The fixed values while another parameter varies."""

SUPREME, OURS = "supreme", "ours"

MACHINE = "another machine, and searches by columns"


class Size(NamedTuple):
    """Drives and their seconds, zones after which no further car is followed, zones that are timed and rounds, and what
    varies."""

    cars: int = 100
    seconds: int = 300
    most: int = 2_500
    zones: int = 200
    rounds: int = 5
    ns: tuple[int, ...] = (50_000, 75_000, 100_000, 125_000, 144_563)
    ds: tuple[int, ...] = (1, 2, 3, 4)
    kinds: tuple[str, ...] = ("correlated", "uniform", "normal", "anti-correlated")
    speeds: tuple[float, ...] = (40.0, 60.0, 80.0, 100.0, 120.0)
    unpruned: int = 3
    basic: int = 2_000


class Drives(NamedTuple):
    """What the drives through one world come to: zones asked for in all seconds, metres and edges a zone; nodes and
    microseconds of each search of supreme's, and of ours."""

    zones: int
    steps: int
    metres: float
    edges: Sequence[int]
    nodes: dict[str, float]
    micros: dict[str, float]
    asked: np.ndarray

    def a_second(self, cost: float) -> float:
        return cost * self.zones / self.steps


class Skylines:
    """Shows the figures; what several share is measured once."""

    def __init__(self, report: Report, size: Size, land: Callable[[], Land]) -> None:
        self._report = report
        self._size = size
        self._land = land
        self._drives = cache(self._drive)
        self.figures: dict[int, tuple[str, Figure]] = {
            7: ("Figure 7: skylines by the number of objects", self._figure_7),
            8: ("Figure 8: skylines by the number of values", self._figure_8),
            9: ("Figure 9: skylines by the distribution of values", self._figure_9),
            10: ("Figure 10: skylines by speed", self._figure_10),
            11: ("Figure 11: what a skyline's zone is worth", self._figure_11),
            12: ("Figure 12: what the optimisations are worth", self._figure_12),
        }

    def show_setting(self) -> None:
        """Say what is common to all of them."""
        self._report.text(
            f"Figures 7 to 12: {self._size.cars} cars for {self._size.seconds} s, fewer where those ask for "
            f"{self._size.most:,} zones; where nothing else is said "
            f"{self._n:,} objects with {D} uniform values, {SPEED:.0f} km/h. Supreme searches for the skyline (BBS) "
            "wherever the largest zone ends, which is ours, and knows the zone for nothing. Costs are averages for a "
            f"second of a drive: what a search at {self._size.zones} of the places costs, the median of "
            f"{self._size.rounds} rounds in alternation, times how many there are."
        )

    @property
    def _n(self) -> int:
        return N if N in self._size.ns else self._size.ns[-1]

    def _drive(self, n: int, d: int, kind: str, speed: float) -> Drives:
        size = self._size
        self._report.progress(f"skylines: {n:,} objects, {d} values, {kind}, {speed:.0f} km/h")
        return self._follow(self._land().world(n, d, kind, size.cars, size.seconds, speed))

    def _evenly(self) -> Drives:
        """The usual drive, were objects and ways spread evenly."""
        size = self._size
        return self._follow(make_world(self._n, D, False, KIND, size.cars, size.seconds, SPEED))

    def _follow(self, world: World) -> Drives:
        size, d = self._size, world.statics.shape[1]
        index, searcher = PlaceIndex.build(world.points, world.statics), SkylineSearch(d)
        asked, edges, cars = walk(world, index, searcher, size.most)
        some = asked[np.random.default_rng(0).permutation(len(asked))[: size.zones]].tolist()

        def run(zoned: bool) -> Callable[[], list[int]]:
            return lambda: [_nodes(searcher, index, x, y, zoned) for x, y in some]

        ways = {SUPREME: run(False), OURS: run(True)}
        nodes = {name: float(np.mean(way())) for name, way in ways.items()}
        times = race([Contender(name, way, len(some)) for name, way in ways.items()], size.rounds)
        metres = float(np.hypot(*np.diff(world.walks[:cars], axis=1).T).sum()) * WIDTH
        return Drives(
            len(asked),
            world.walks[:cars, :, 0].size,
            metres / len(asked),
            edges,
            nodes,
            {name: median(mine) for name, mine in zip(ways, times, strict=True)},
            asked,
        )

    def _by(self, figure: int, axis: str, xs: Sequence[float], found: Sequence[Drives], names: str = "") -> list[Panel]:
        """The two panels that most figures have, and their numbers."""
        panels = [
            Panel(
                figure,
                part,
                f"{what} for a second of a drive{names}",
                axis,
                what,
                tuple(
                    Curve(name, xs, [one.a_second(getattr(one, cost)[name]) for one in found])
                    for name in (SUPREME, OURS)
                ),
            )
            for part, what, cost in (("a", "nodes", "nodes"), ("b", "microseconds", "micros"))
        ]
        for panel in panels:
            curves(self._report, panel)
        return panels

    def _figure_7(self) -> list[Panel]:
        ns = self._size.ns
        found = [self._drives(n, D, KIND, SPEED) for n in ns]
        panels = self._by(7, "objects", ns, found)
        usual = self._drives(self._n, D, KIND, SPEED)
        cpu, nodes = _over_supreme(usual)
        self._report.verdict(
            f"among {self._n:,} places a skyline's zone at most 2.0 times supreme in time and 1.05 times in nodes",
            f"{ratio(cpu)} and {nodes:.3f} times",
            cpu <= 2.0 and nodes <= 1.05,
        )
        naive = usual.micros[SUPREME] / usual.a_second(usual.micros[OURS])
        claims(
            self._report,
            [
                Claim("our nodes are more than supreme's: the least factor", 1, INF,
                      min(_over_supreme(one)[1] for one in found)),
                Claim('"a few milliseconds per timestamp on average", in microseconds', 1_000, 10_000,
                      usual.a_second(usual.micros[OURS]), MACHINE),
                Claim("BBS every second is almost three orders of magnitude dearer than ours: times", 500, 1_000, naive,
                      f"a zone lasts {usual.steps / usual.zones:.0f} s, and no zone is cheaper than its BBS, so there "
                      "is no more to gain: the three orders can only be those of the basic algorithm, see Figure 12"),
            ],
        )  # fmt: skip
        return panels

    def _figure_8(self) -> list[Panel]:
        ds = self._size.ds
        found = [self._drives(self._n, d, KIND, SPEED) for d in ds]
        panels = self._by(8, "values", ds, found)
        claims(self._report, [*_rising("values", found), _near_supreme(found)])
        return panels

    def _figure_9(self) -> list[Panel]:
        kinds = self._size.kinds
        found = [self._drives(self._n, D, kind, SPEED) for kind in kinds]
        names = ", ".join(f"{i}: {kind}" for i, kind in enumerate(kinds))
        panels = self._by(9, "distribution", range(len(kinds)), found, f" ({names})")
        cost = {kind: one.a_second(one.micros[OURS]) for kind, one in zip(kinds, found, strict=True)}
        best, worst = kinds[0], kinds[-1]
        claims(
            self._report,
            [
                Claim(f"{best} values are the cheapest: the next cheapest, times them", 1, INF,
                      min(cost[kind] for kind in kinds[1:]) / cost[best]),
                Claim(f"{worst} values are the dearest: they, times the next dearest", 1, INF,
                      cost[worst] / max(cost[kind] for kind in kinds[:-1])),
                _near_supreme(found),
            ],
        )  # fmt: skip
        return panels

    def _figure_10(self) -> list[Panel]:
        speeds = self._size.speeds
        found = [self._drives(self._n, D, KIND, speed) for speed in speeds]
        panels = self._by(10, "km/h", speeds, found)
        claims(self._report, [*_rising("speed", found), _near_supreme(found)])
        return panels

    def _figure_11(self) -> list[Panel]:
        ns = self._size.ns
        found = [self._drives(n, D, KIND, SPEED) for n in ns]
        panels = [
            Panel(11, "a", "how far one drives before the zone ends", "objects", "metres",
                  (Curve(OURS, ns, [one.metres for one in found]),)),
            Panel(11, "b", "the polygon's edges", "objects", "edges",
                  (Curve("on average", ns, [float(np.mean(one.edges)) for one in found]),
                   Curve("at most", ns, [float(max(one.edges)) for one in found]))),
        ]  # fmt: skip
        for panel in panels:
            curves(self._report, panel)
        evenly = self._evenly()
        edges = np.concatenate([one.edges for one in found])
        shape = f"the longest of {len(edges):,} zones; of objects spread evenly {max(evenly.edges)}"
        values(
            self._report,
            ("zones",),
            [
                Value(("edges on average",), 5.0, float(edges.mean())),
                Value(("edges at most",), 14.0, float(edges.max()), open=shape),
            ],
        )
        spread = "other places, and denser where cars begin: see the objects that are spread evenly"
        claims(
            self._report,
            [
                Claim("metres before the zone ends, fewest objects", 1_300, 1_900, found[0].metres, spread),
                Claim("metres before the zone ends, most objects", 1_300, 1_900, found[-1].metres, spread),
                Claim(f"the same among {self._n:,} objects that are spread evenly over the square", 1_300, 1_900,
                      evenly.metres),
                Claim("it falls with the number of objects: fewest, times most", 1, INF,
                      found[0].metres / found[-1].metres),
            ],
        )  # fmt: skip
        return panels

    def _figure_12(self) -> list[Panel]:
        size, ns = self._size, self._size.ns
        names = (OURS, "No-Pruning", "No-Pseudo", "Basic")
        nodes: dict[str, list[float]] = {name: [] for name in names}
        micros: dict[str, list[float]] = {name: [] for name in names}
        world = self._land().world(size.basic, D)
        basic = _timed(lambda: cells(world.points, world.statics, np.arange(size.basic), 0.5, 0.5))
        for n in ns:
            one = self._drives(n, D, KIND, SPEED)
            self._report.progress(f"without optimisations: {n:,} objects")
            world = self._land().world(n, D)
            index, searcher = PlaceIndex.build(world.points, world.statics), SkylineSearch(D)
            here = one.asked[:: max(1, len(one.asked) // size.unpruned)][: size.unpruned]
            cost = [_without(world, index, searcher, x, y) for x, y in here.tolist()]
            for name, opened, took in (
                (OURS, one.nodes[OURS], one.micros[OURS]),
                ("No-Pruning", *np.mean([pair[0] for pair in cost], axis=0)),
                ("No-Pseudo", *np.mean([pair[1] for pair in cost], axis=0)),
                ("Basic", 0.0, basic * (n / size.basic) ** 2),
            ):
                nodes[name].append(one.a_second(float(opened)))
                micros[name].append(one.a_second(float(took)))
        self._report.text(
            f"No-Pruning and No-Pseudo are asked for {size.unpruned} zones. No-Pseudo counts for each object that it "
            "considers the nodes that may hold one that affects it, and considers the members and what our search "
            f"tries as cutters. Basic (Algorithm 1) is timed for {size.basic:,} objects and extrapolated by the "
            "square; it needs no tree."
        )
        panels = [
            Panel(12, part, f"{what} for a second of a drive", "objects", what,
                  tuple(Curve(name, ns, cost[name]) for name in names if any(cost[name])), logs="y")
            for part, what, cost in (("a", "nodes", nodes), ("b", "microseconds", micros))
        ]  # fmt: skip
        for panel in panels:
            curves(self._report, panel)
        unpruned = [a / b for a, b in zip(nodes["No-Pruning"], nodes[OURS], strict=True)]
        claims(
            self._report,
            [
                Claim("No-Pruning opens 20 to 30 times our nodes: the least", 20, 30, min(unpruned), PRUNES),
                Claim("No-Pruning opens 20 to 30 times our nodes: the most", 20, 30, max(unpruned), PRUNES),
                Claim("No-Pseudo opens more than No-Pruning: times", 1, INF,
                      nodes["No-Pseudo"][-1] / nodes["No-Pruning"][-1],
                      "nodes that may hold what affects an object are counted; how [Moving queries] does is open"),
                Claim("Basic is several orders of magnitude dearer than ours: times", 1_000, INF,
                      micros["Basic"][-1] / micros[OURS][-1]),
            ],
        )  # fmt: skip
        return panels


PRUNES = "without pruning every node is opened; how many there are goes with how full they are, of which it is silent"


def walk(world: World, index: PlaceIndex, searcher: SkylineSearch, most: int) -> tuple[np.ndarray, list[int], int]:
    """Where zones are asked for, the edges of the piece of each that holds the place, and how many cars were followed
    until there were at least `most` zones."""
    asked: list[tuple[float, float]] = []
    edges: list[int] = []
    cars = 0
    while cars < len(world.walks) and len(asked) < most:
        zone = None
        for x, y in world.walks[cars].tolist():
            if zone is None or not zone.holds(x, y):
                zone = searcher.zone(index, x, y, BOUNDS)
                asked.append((x, y))
                edges.append(sum(len(ring) - 1 for ring in component(zone) or ()))
        cars += 1
    return np.array(asked), edges, cars


def _nodes(searcher: SkylineSearch, index: PlaceIndex, x: float, y: float, zoned: bool) -> int:
    searcher.search(two_phase, index, x, y, BOUNDS, zoned)
    return searcher.cost.nodes


def _without(
    world: World, index: PlaceIndex, searcher: SkylineSearch, x: float, y: float
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Nodes and microseconds of No-Pruning, and of No-Pseudo, at a place."""
    members = searcher.zone(index, x, y, BOUNDS).skyline
    tried = searcher.cost.examined
    took = _timed(lambda: searcher.search(unpruned_pass, index, x, y, BOUNDS, True))
    unpruned = float(searcher.cost.nodes), took
    lower = index.view.nodes.lower.reshape(index.d, -1)[:, : len(index.view.first)]
    affect = [(lower <= world.statics[o][:, None]).all(axis=0).sum() for o in members]
    share = 1.0 + tried / len(members)
    took = _timed(lambda: cells(world.points, world.statics, members, x, y))
    return unpruned, (float(np.sum(affect)) * share, took * share)


def _timed(run: Callable[[], object]) -> float:
    """Microseconds of a run, after one that is not counted."""
    run()
    began = time.thread_time()
    run()
    return (time.thread_time() - began) * 1e6


def _over_supreme(one: Drives) -> tuple[float, float]:
    return one.micros[OURS] / one.micros[SUPREME], one.nodes[OURS] / one.nodes[SUPREME]


def _near_supreme(found: Sequence[Drives]) -> Claim:
    return Claim(
        'time is "reasonably close" to supreme\'s (taken as at most twice): the greatest factor',
        1,
        2,
        max(_over_supreme(one)[0] for one in found),
    )


def _rising(axis: str, found: Sequence[Drives]) -> list[Claim]:
    """Costs increase along an axis."""
    rows = []
    for what, cost in (("the number of nodes", "nodes"), ("the time", "micros")):
        for whose in (SUPREME, OURS):
            each = [one.a_second(getattr(one, cost)[whose]) for one in found]
            text = f"{what} of {whose} increases with {axis}: the least factor from one to the next"
            rows.append(Claim(text, 1, INF, min(b / a for a, b in pairwise(each))))
    return rows
