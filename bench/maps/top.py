"""Moving top-k: the cost of m-relaxed zones and of plain searches, ours and those of a prototype, in alternation.

"Supreme" knows for nothing when the k best change, as a set, and searches for them then. It is ours or the prototype's,
whichever is faster. What zones cost depends on how often they are asked for as on what one takes, so both go into the
ratio: all zones of the walks to all searches of supreme.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from bench import prototypes
from bench.maps.ways import asked_by, changes_of, opened_by, rows_for, searching, zoning
from bench.maps.workload import WIDTH, World, make_world
from bench.race import Contender, race
from bench.report import Report, count, middle, ratio
from indexes.core.arrays import Floats
from indexes.maps.attributes import Attribute
from indexes.maps.kernels.scores import Scoring
from indexes.maps.kernels.top_scratch import scratch_for
from indexes.maps.object_index import PlaceIndex
from indexes.maps.scoring import expression_scoring, scoring
from indexes.maps.zones.top import TopSearch

ATTRIBUTES = (Attribute("a", False, (0.0, 1.0)), Attribute("b", False, (0.0, 1.0)))
EVEN = {"a": 1 / 3, "b": 1 / 3, "distance": 1 / 3}

SUPREME, RELAXED, UNRELAXED = "top-k (supreme)", 2.0, 25.0
"""What is allowed over supreme for m = k and for m = 1."""

CLOSED, ALGORITHM_5 = 2, 0
"""The prototype's names of methods."""


class Kind(NamedTuple):
    """A score: how it is called, and by which mode of the prototype, if it has the same."""

    name: str
    make: Callable[[], Scoring]
    mode: int | None


KINDS = (
    Kind("weighted sum", lambda: scoring("weighted_sum", ATTRIBUTES, EVEN), 0),
    Kind("weighted product", lambda: scoring("weighted_product", ATTRIBUTES, EVEN, shift=0.0), 1),
    Kind("weighted distance", lambda: scoring("weighted_distance", ATTRIBUTES, {"a": 0.5, "b": 0.5}), None),
    Kind("waspas", lambda: scoring("waspas", ATTRIBUTES, EVEN), None),
    Kind("distance * 2 + a ** 0.5 + b", lambda: expression_scoring("distance * 2 + a ** 0.5 + b", ATTRIBUTES), None),
)


class Size(NamedTuple):
    """Objects, walks and their seconds, k and the m's, rounds of each race, and scores."""

    n: int = 100_000
    queries: int = 40
    seconds: int = 3_600
    k: int = 10
    ms: tuple[int, ...] = (1, 2, 5, 10)
    rounds: int = 7
    kinds: tuple[Kind, ...] = KINDS


QUICK = Size(5_000, 4, 600, 5, (1, 5), 2, KINDS[:2])


class Costs(NamedTuple):
    """All searches of each way along the walks, as a multiple of the time of supreme; and microseconds of one."""

    of_supreme: dict[str, float]
    micros: dict[str, float]


class Bench:
    """The races, written to a report."""

    def __init__(self, report: Report, size: Size, folder: Path | None = None) -> None:
        self._report = report
        self._size = size
        self._theirs = prototypes.load_maps(folder)

    def show(self) -> None:
        """Run everything."""
        size = self._size
        self._report.text(
            f"{size.n:,} objects with 2 values, clustered, k = {size.k}; {size.queries} walks of {size.seconds:,} s at "
            "80 km/h through a square of 5,000 km; one thread, microseconds of thread time a zone, the median of "
            f"{size.rounds} rounds in alternation over the places where the walks ask, and the least and greatest. "
            "Ours are asked in one call, as a batch is; the prototype, which has none, one by one."
        )
        prototypes.say_missing(self._report, self._theirs, prototypes.MAPS)
        world = make_world(size.n, 2, True, "uniform", size.queries, size.seconds)
        index = PlaceIndex.build(world.points, world.statics)
        for kind in size.kinds:
            self.measure(world, index, kind)

    def measure(self, world: World, index: PlaceIndex, kind: Kind) -> Costs:
        """Race all ways by one score, and judge a weighted sum."""
        size, s = self._size, kind.make()
        self._report.heading(kind.name, 3)
        self._report.progress("walks")
        changes = changes_of(world, index, s, size.k)
        asked = {m: asked_by(world, index, s, size.k, m) for m in size.ms}
        steps = world.walks[..., 0].size
        contenders, places, nodes, radius = self._contenders(world, index, kind, s, changes, asked)
        self._report.text(f"The k best change {len(changes):,} times in {steps:,} s.")
        self._report.progress("races")
        times = race(contenders, size.rounds)
        micros = {one.name: median(mine) for one, mine in zip(contenders, times, strict=True)}
        searches = [name for name in (SUPREME, f"{SUPREME}, prototype's") if name in micros]
        supreme = min(micros[name] for name in searches) * len(changes)
        fewest = min(nodes[name] for name in searches) * len(changes)
        rows = [
            (
                one.name,
                middle(mine),
                f"{places[one.name]:,}",
                f"{micros[one.name] * places[one.name] / steps:.3f}",
                ratio(micros[one.name] * places[one.name] / supreme),
                count(nodes[one.name]),
                ratio(nodes[one.name] * places[one.name] / fewest),
                f"{radius[one.name] * WIDTH / 1000:.2f}" if one.name in radius else "",
            )
            for one, mine in zip(contenders, times, strict=True)
        ]
        head = ("way", "us each", "asked", "us/s of walk", "x supreme", "nodes each", "x its nodes", "mean radius, km")
        self._report.table(head, rows)
        if kind.mode == 0:
            self._judge(micros, places, supreme)
        return Costs({name: micros[name] * places[name] / supreme for name in micros}, micros)

    def _judge(self, micros: Mapping[str, float], places: Mapping[str, int], supreme: float) -> None:
        for m, allowed in ((self._size.k, RELAXED), (1, UNRELAXED)):
            if f"zone, m = {m}" not in micros:
                continue
            cost = micros[f"zone, m = {m}"] * places[f"zone, m = {m}"]
            self._report.verdict(
                f"a weighted sum's zones of m = {m} at most {allowed:g} times supreme",
                f"{ratio(cost / supreme)} times",
                cost <= allowed * supreme,
            )
        for m in self._size.ms:
            theirs = f"zone, m = {m}, prototype's closed form"
            if theirs in micros:
                mine = micros[f"zone, m = {m}"]
                self._report.verdict(
                    f"zones of m = {m} at least as fast as the prototype's",
                    f"{ratio(micros[theirs] / mine)} times as fast",
                    mine <= micros[theirs],
                )

    def _contenders(
        self, world: World, index: PlaceIndex, kind: Kind, s: Scoring, changes: Floats, asked: Mapping[int, Floats]
    ) -> tuple[list[Contender], dict[str, int], dict[str, float], dict[str, float]]:
        size = self._size
        contenders: list[Contender] = []
        places: dict[str, int] = {}
        nodes: dict[str, float] = {}
        radius: dict[str, float] = {}

        def add(name: str, run: Callable[[], Any], number: int, opened: float) -> None:
            contenders.append(Contender(name, run, number))
            places[name], nodes[name] = number, opened

        room = scratch_for(index.view, size.k, 1)
        found = rows_for(len(changes), size.k)
        search = searching(index, s, changes, size.k, room, found)
        add(SUPREME, search, len(changes), opened_by(room, search, len(changes)))
        for m, there in asked.items():
            room, rows = scratch_for(index.view, size.k, m), rows_for(len(there), size.k + m - 1)
            run = zoning(index, s, there, size.k, m, room, rows)
            add(f"zone, m = {m}", run, len(there), opened_by(room, run, len(there)))
            radius[f"zone, m = {m}"] = float(np.minimum(rows.radius, 10.0).mean())
        if self._theirs is not None and kind.mode is not None:
            tree = self._theirs.rtree.build(world.points, world.statics, 4096 // (16 * 4 + 8))
            its = self._theirs.topk.TopK(tree, kind.mode, [1 / 3, 1 / 3, 1 / 3])
            opened = [its.topk((x, y), size.k)[2] for x, y in changes.tolist()]
            points = changes.tolist()
            add(
                f"{SUPREME}, prototype's",
                lambda: [its.topk(q, size.k) for q in points],
                len(points),
                float(np.mean(opened)),
            )
            for m, there in asked.items():
                for method, called in ((CLOSED, "closed form"), (ALGORITHM_5, "Algorithm 5")):
                    name = f"zone, m = {m}, prototype's {called}"
                    run, opened_each, radius[name] = self._theirs_zones(its, there, m, method)
                    add(name, run, len(there), opened_each)
                _agree(index, s, its, there[:50], size.k, m)
        return contenders, places, nodes, radius

    def _theirs_zones(self, its: Any, there: Floats, m: int, method: int) -> tuple[Callable[[], Any], float, float]:
        """The prototype's zones at places: a run of all, nodes each, and the mean radius."""
        points, k = there.tolist(), self._size.k
        seen = [(its.zone(q, k, m, 1e-4, 100, method), int(its.cnts[3])) for q in points]
        radius = float(np.mean([min(r, 10.0) for r, _ in seen]))
        return lambda: [its.zone(q, k, m, 1e-4, 100, method) for q in points], float(np.mean(seen, axis=0)[1]), radius


def _agree(index: PlaceIndex, s: Scoring, its: Any, there: Floats, k: int, m: int) -> None:
    """Both give the same circles."""
    for zone in TopSearch(index).zones(there, k, m, s):
        theirs = its.zone(zone.place, k, m, 1e-4, 100, CLOSED)
        assert abs(zone.radius - theirs) <= 1e-6 * theirs + 1e-9, (zone.place, zone.radius, theirs)
