"""Moving skylines: the cost of their zones and of plain searches, ours and those of a prototype, in alternation.

"Supreme" knows for nothing when the skyline changes, and searches for it (BBS) then; it is the least that any zone can
cost. It is ours or the prototype's, whichever is faster. Zones are asked for at the same places.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from bench import prototypes
from bench.baselines.single_pass import single_pass
from bench.baselines.skyline import cells, unpruned_pass
from bench.maps.workload import World, make_world
from bench.race import Contender, race
from bench.report import Report, count, middle, ratio
from indexes.maps.kernels.two_phase import two_phase
from indexes.maps.object_index import PlaceIndex
from indexes.maps.zones.geojson import component
from indexes.maps.zones.skyline import SkylineSearch

BOUNDS = np.array([0.0, 0.0, 1.0, 1.0])

SUPREME, CPU, NODE = "BBS (supreme)", 2.0, 1.05
"""What is allowed over supreme: time, and nodes."""


class Load(NamedTuple):
    """One world: attributes, whether its places are clustered, and the kind of its values."""

    d: int
    clustered: bool
    kind: str = "uniform"

    def __str__(self) -> str:
        return f"{'clustered' if self.clustered else 'uniform'}, d = {self.d}, {self.kind} values"


class Size(NamedTuple):
    """Objects, walks and their seconds, zones that are raced, rounds of each race, and worlds."""

    n: int = 100_000
    queries: int = 100
    seconds: int = 300
    zones: int = 300
    rounds: int = 7
    loads: tuple[Load, ...] = (
        Load(2, True),
        Load(2, False),
        Load(1, True),
        Load(3, True),
        Load(2, True, "correlated"),
        Load(2, True, "anti-correlated"),
    )
    basic: tuple[int, ...] = (1_000, 2_000, 4_000)


QUICK = Size(5_000, 5, 60, 30, 2, (Load(2, True), Load(2, False)), (200, 400))


class Walked(NamedTuple):
    """Walks with zones: where they were asked for, the steps within them, and by how much it was more often than the
    skyline changed."""

    asked: np.ndarray  # (zones, 2)
    steps: int
    changes: int
    members: float
    edges: list[int]
    cutters: float
    empty: int


class Zoned(NamedTuple):
    """All zones of the walks, as a multiple of the time of supreme; and microseconds of each way."""

    cost: float
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
            f"{size.n:,} objects; {size.queries} walks of {size.seconds} s at 80 km/h through a square of 5,000 km; "
            "one thread, microseconds of thread time a zone, the median of "
            f"{size.rounds} rounds in alternation over {size.zones} of the places where the walks ask for zones, and "
            "the least and greatest."
        )
        prototypes.say_missing(self._report, self._theirs, prototypes.MAPS)
        for load in size.loads:
            self.measure(load)
        self._basic()

    def measure(self, load: Load) -> Zoned:
        """Race all ways in one world, and judge."""
        size = self._size
        self._report.heading(str(load), 3)
        self._report.progress("walks")
        world = make_world(size.n, load.d, load.clustered, load.kind, size.queries, size.seconds)
        index, searcher = PlaceIndex.build(world.points, world.statics), SkylineSearch(load.d)
        walked = _walk(world, index, searcher)
        zones = len(walked.asked)
        self._report.text(
            f"{walked.members:.0f} members; {zones:,} zones, one for {walked.steps / zones:.1f} s or "
            f"{walked.steps / zones * 80 / 3.6:,.0f} m; the skyline changed {walked.changes:,} times; "
            f"{np.mean(walked.edges):.2f} edges (at most {max(walked.edges)}), {walked.cutters:.2f} cutters, "
            f"{walked.empty} zones without area."
        )
        rng = np.random.default_rng(0)
        asked = walked.asked[rng.permutation(zones)[: size.zones]]
        contenders, nodes = self._contenders(world, index, searcher, asked)
        self._report.progress("races")
        times = race(contenders, size.rounds)
        micros = {one.name: median(mine) for one, mine in zip(contenders, times, strict=True)}
        supreme = min(micros[name] for name in (SUPREME, f"{SUPREME}, prototype's") if name in micros)
        fewest = min(nodes[name] for name in (SUPREME, f"{SUPREME}, prototype's") if name in nodes)
        rows = [
            (
                one.name,
                middle(mine),
                ratio(median(mine) / supreme),
                count(nodes[one.name]),
                ratio(nodes[one.name] / fewest),
                f"{median(mine) * zones / walked.steps:.2f}",
            )
            for one, mine in zip(contenders, times, strict=True)
        ]
        self._report.table(("way", "us/zone", "x supreme", "nodes/zone", "x supreme's", "us/s of walk"), rows)
        asks_more = zones / walked.changes if walked.changes else 1.0
        cost, opened = micros[TWO] / supreme * asks_more, nodes[TWO] / fewest * asks_more
        self._report.verdict(
            f"{load}: a zone at most {CPU} times supreme in time and {NODE} times in nodes",
            f"{ratio(cost)} and {opened:.3f} times",
            cost <= CPU and opened <= NODE,
        )
        if self._theirs is not None:
            theirs = micros[f"{TWO}, prototype's"]
            self._report.verdict(
                f"{load}: at least as fast as the prototype's two phases",
                f"{ratio(theirs / micros[TWO])} times as fast",
                micros[TWO] <= theirs,
            )
        return Zoned(cost, micros)

    def _contenders(
        self, world: World, index: PlaceIndex, searcher: SkylineSearch, asked: np.ndarray
    ) -> tuple[list[Contender], dict[str, float]]:
        nodes: dict[str, float] = {}
        contenders = []

        def add(name: str, run: Callable[[float, float], Any], cost: Callable[[], int], few: int = 1) -> None:
            places = asked[::few].tolist()
            nodes[name] = float(np.mean([(run(x, y), cost())[1] for x, y in places]))
            contenders.append(Contender(name, lambda: [run(x, y) for x, y in places], len(places)))

        for name, search, zoned, few in (
            (SUPREME, two_phase, False, 1),
            (TWO, two_phase, True, 1),
            ("one pass", single_pass, True, 5),
            ("one pass, unpruned", unpruned_pass, True, 100),
        ):
            add(name, _searching(searcher, index, search, zoned), lambda: searcher.cost.nodes, few)
        add("two phases, as an object", lambda x, y: searcher.zone(index, x, y, BOUNDS), lambda: searcher.cost.nodes)
        add(
            "two phases, as GeoJSON",
            lambda x, y: component(searcher.zone(index, x, y, BOUNDS)),
            lambda: searcher.cost.nodes,
        )
        if self._theirs is not None:
            d = world.statics.shape[1]
            tree = self._theirs.rtree.build(world.points, world.statics, 4096 // (16 * (2 + d) + 8))
            its = self._theirs.skyline.Skyline(tree)
            opened = [0]

            def bbs(x: float, y: float) -> None:
                opened[0] = its.bbs((x, y))[1]

            def zone(x: float, y: float, method: str = "2ph") -> None:
                its.zone((x, y), method)
                opened[0] = its.stats[0]

            add(f"{SUPREME}, prototype's", bbs, lambda: opened[0])
            add(f"{TWO}, prototype's", zone, lambda: opened[0])
            add("one pass, prototype's", lambda x, y: zone(x, y, "paper"), lambda: opened[0], 5)
            for x, y in asked[:20].tolist():
                its.zone((x, y))
                assert its.result() == set(searcher.skyline(index, x, y).tolist())
        return contenders, nodes

    def _basic(self) -> None:
        """Algorithm 1, and No-Pseudo: impact regions against all objects."""
        self._report.heading("Without pseudo-impact regions", 3)
        rows = []
        for n in self._size.basic:
            world = make_world(n, 2, False, "uniform", 1, 1)
            cells(world.points, world.statics, np.arange(1), 0.5, 0.5)
            began = time.thread_time()
            cells(world.points, world.statics, np.arange(n), 0.5, 0.5)
            rows.append((f"{n:,}", f"{time.thread_time() - began:.3f}"))
        self._report.table(("objects", "seconds a zone, basic algorithm"), rows)
        n, largest = self._size.n, self._size.basic[-1]
        world = make_world(n, 2, False, "uniform", 1, 1)
        index, searcher = PlaceIndex.build(world.points, world.statics), SkylineSearch(2)
        members = searcher.skyline(index, 0.5, 0.5)
        began = time.thread_time()
        cells(world.points, world.statics, members, 0.5, 0.5)
        took = time.thread_time() - began
        self._report.text(
            f"Quadratic, that is {float(rows[-1][1]) * (n / largest) ** 2:,.0f} s a zone at {n:,} objects. No-Pseudo "
            f"works out the regions of what the pruning leaves alone, each against all objects: {took * 1e3:,.1f} ms "
            f"for the {len(members)} members of a skyline there."
        )


TWO = "two phases"


def _searching(
    searcher: SkylineSearch, index: PlaceIndex, search: Callable[..., Any], zoned: bool
) -> Callable[..., Any]:
    return lambda x, y: searcher.search(search, index, x, y, BOUNDS, zoned)


def _walk(world: World, index: PlaceIndex, searcher: SkylineSearch) -> Walked:
    """Ask for a zone at the start of each walk, and wherever it leaves one; count how often the skyline changed."""
    asked, edges = [], []
    members = cutters = empty = changes = 0
    for walk in world.walks.tolist():
        zone, before = None, None
        for x, y in walk:
            if zone is None or not zone.holds(x, y):
                zone = searcher.zone(index, x, y, BOUNDS)
                asked.append((x, y))
                members += len(zone.skyline)
                cutters += len(zone.cut_end)
                empty += zone.empty
                edges.append(len(zone.x) + len(zone.cut_x))
            now = np.sort(searcher.skyline(index, x, y)).tobytes()
            changes += now != before
            before = now
    n = len(asked)
    return Walked(np.array(asked), world.walks[..., 0].size, changes, members / n, edges, cutters / n, empty)
