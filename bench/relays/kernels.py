"""Speed on one core: commands under every index, against the prototype's, and notifications against a scan by numpy."""

from __future__ import annotations

import time
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from bench import prototypes
from bench.race import Contender, race
from bench.relays.speed import KD, KD_ITS, KD_ROOTS, KD_ROOTS_ITS, SCAN, SCAN_ITS, Z_ITS, P, Speed, Times, Z
from bench.relays.workload import MOST, as_table, columns_of, holding, make_boxes
from bench.report import Report, middle, ratio
from indexes.relays.kernels.slabs import SlabIndex


class Size(NamedTuple):
    """How much is run: commands, the paper's dimensions, boxes and notifications, and rounds of each."""

    commands: int = 100_000
    dimensions: tuple[int, ...] = (6, 8, 10, 12, 14, 16)
    boxes: int = 1_000_000
    attributes: tuple[int, ...] = (2, 4, 8)
    notifications: int = 50
    rounds: int = 3
    scans: int = 1


SLABS, NUMPY = "slabs", "numpy scan"


class Notified(NamedTuple):
    """Microseconds a notification in each round, by way; boxes that one meets; seconds to lay out, and bytes."""

    micros: dict[str, list[float]]
    met: float
    built: float
    nbytes: int


QUICK = Size(5_000, (6, 16), 20_000, (4,), 10, 2, 1)


class Bench:
    """The speed tables, written to a report."""

    def __init__(self, report: Report, size: Size, speed: Speed) -> None:
        self._report = report
        self._size = size
        self._speed = speed

    def show(self) -> None:
        size = self._size
        self._report.heading("Commands", 3)
        self._report.text(
            f"{size.commands:,} commands, of which {P:.0%} unsubscribe, under G_1; seconds of thread time, the median "
            f"of {size.rounds} rounds in alternation (the scans: {size.scans}), and the least and greatest. Roots: the "
            "index holds only what nothing is known to cover, as a relay's does."
        )
        prototypes.say_missing(self._report, self._speed.theirs, prototypes.RELAYS)
        raced = {dimensions: self._speed.race(size.commands, dimensions) for dimensions in size.dimensions}
        rows = [(str(dimensions), *(middle(mine, 3) for mine in times.values())) for dimensions, times in raced.items()]
        self._report.table(("dimensions", *raced[size.dimensions[0]]), rows)
        for dimensions, times in raced.items():
            self._judge(dimensions, times)
        self._report.heading("Notifications", 3)
        for attributes in size.attributes:
            self._notify(attributes)

    def _judge(self, dimensions: int, times: Times) -> None:
        seconds = {name: median(mine) for name, mine in times.items()}
        if dimensions == 16:
            for wanted, baselines, factor in (
                ("the scan (the paper: 10)", (SCAN, SCAN_ITS), 40),
                ("the Z-order index (the paper: 2)", (Z, Z_ITS), 4),
            ):
                best = min(seconds[name] for name in baselines if name in seconds)
                faster = best / seconds[KD]
                self._report.verdict(
                    f"at 16 dimensions the k-d tree at least {factor} times as fast as {wanted}, ours or the "
                    "prototype's, whichever is faster",
                    f"{ratio(faster)} times",
                    faster >= factor,
                )
        if KD_ITS in seconds:
            theirs = min(seconds[KD_ITS], seconds[KD_ROOTS_ITS])
            self._report.verdict(
                f"at {dimensions} dimensions the relay's k-d tree at least as fast as the prototype's",
                f"{ratio(theirs / seconds[KD_ROOTS])} times",
                seconds[KD_ROOTS] <= theirs,
            )

    def _notify(self, attributes: int) -> None:
        """Which boxes hold a point: the slabs, and numpy over columns, one condition after the other."""
        size = self._size
        self._report.progress(f"notifications, {attributes} attributes")
        found = notified(attributes, size)
        self._report.text(
            f"{size.boxes:,} boxes in {attributes} attributes, {found.met:,.0f} of them met on average; laid out in "
            f"{found.built / size.boxes * 1e6:.2f} us and {found.nbytes / size.boxes:.0f} bytes each."
        )
        self._report.table(("way", "us/notification"), [(name, middle(mine, 0)) for name, mine in found.micros.items()])
        times = median(found.micros[NUMPY]) / median(found.micros[SLABS])
        if attributes == 4:
            self._report.verdict(
                "a notification among boxes of 4 attributes at least 20 times as fast as a scan by numpy",
                f"{ratio(times)} times",
                times >= 20,
            )


def notified(attributes: int, size: Size) -> Notified:
    """Race the slabs with numpy over columns, whose answers are compared first."""
    lo, hi = make_boxes(size.boxes, attributes)
    points = as_table(lo, hi)
    SlabIndex(attributes).load(points, np.arange(1, dtype=np.int32))  # what is compiled by now is not timed
    index = SlabIndex(attributes)
    began = time.thread_time()
    index.load(points, np.arange(size.boxes, dtype=np.int32))
    built = time.thread_time() - began
    values = np.random.default_rng(1).uniform(0, MOST, (size.notifications, attributes))
    columns = columns_of(lo, hi)

    def slabs() -> list[Any]:
        slots, upto = index.containing(points, values)
        return np.split(slots, upto[:-1])

    def scan() -> list[Any]:
        return [holding(columns, point, point) for point in values]

    found = slabs()
    assert all(np.array_equal(np.sort(a), b) for a, b in zip(found, scan(), strict=True))
    contenders = [Contender(name, run, len(values)) for name, run in ((SLABS, slabs), (NUMPY, scan))]
    micros = {one.name: mine for one, mine in zip(contenders, race(contenders, size.rounds), strict=True)}
    return Notified(micros, float(np.mean([len(one) for one in found])), built, index.nbytes)
