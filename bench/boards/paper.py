"""The paper's tables and figures by number: which there are, who measures them, and their place on the page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from bench.boards import batches, owners, stage, tables, tables_one_and_half, trace
from bench.boards.batches import Batches
from bench.boards.half import Half
from bench.boards.outgoing import Outgoing
from bench.boards.owners import Spread
from bench.boards.tables import Tables
from bench.boards.trace import Yahoo
from bench.boards.traffic import Traffic
from bench.boards.trends import Trends
from bench.paper import Experiments
from bench.report import Report

TABLES = (1, 2, 3, 4, 5, 6, 7, 8)
FIGURES = (11, 12, 13, 14, 15, 16, 17, 20, 26)

FOLDER = "figures"
"""Next to the page, where its figures are drawn."""


class Paper(Experiments):
    """Shows any of them; what several share is measured once."""

    def __init__(self, report: Report, quick: bool, page: Path | None) -> None:
        super().__init__(report, page, FOLDER)
        self._quick = quick
        stages = stage.Stage(stage.QUICK if quick else stage.Size())
        self._counts = Tables(report, tables.QUICK if quick else tables.Size())
        self._trace = Yahoo(report, trace.QUICK if quick else trace.Size())
        traffic, outgoing = Traffic(report, stages), Outgoing(report, stages)
        batch = Batches(report, stages, batches.QUICK_WORLDS if quick else batches.WORLDS)
        spread = Spread(report, owners.QUICK if quick else owners.Size())
        half = Half(report, tables_one_and_half.QUICK if quick else tables_one_and_half.Size())
        self.tables = {
            2: ("Table II: redundancy in messages received", traffic.table_2),
            5: ("Table V: redundancy in messages received, a trace", self._trace.table_5),
            6: ("Table VI: calls an event, a trace", self._trace.table_6),
            7: ("Table VII: searches for the next object, 1.5 dimensions", half.table_7),
            8: ("Table VIII: snaps, 1.5 dimensions", half.table_8),
        }
        self.figures = {
            11: ("Figure 11: outgoing traffic by m", outgoing.figure_11),
            12: ("Figure 12: outgoing traffic by k and by epsilon", outgoing.figure_12),
            13: ("Figure 13: the most of one event, and calls", outgoing.figure_13),
            14: ("Figure 14: traffic in the broker network", traffic.figure_14),
            15: ("Figure 15: other workloads", Trends(report, stages).figure_15),
            16: ("Figure 16: batches", batch.figure_16),
            17: ("Figure 17: traffic in the broker network, a trace", self._trace.figure_17),
            20: ("Figure 20: objects spread over owners of zones", spread.figure_20),
            26: ("Figure 26: outgoing traffic, 1.5 dimensions", half.figure_26),
        }

    def show(self, numbers: Sequence[int], figures: Sequence[int]) -> None:
        """Add these tables and figures, tables first."""
        if self._quick:
            self.report.text(
                "Quick sizes: few events, so that values scatter and few causes are tried. Only the full run is meant "
                "to be compared."
            )
        if numbers:
            self._counts.introduce()
        if {5, 6} & set(numbers) or 17 in figures:
            self.report.progress("reading the flights")
            self._trace.introduce()
        for number in numbers:
            if number in self.tables:
                super().show([number], [])
            else:
                self.report.progress(f"table {number}")
                self._counts.table(number)
        for number in figures:
            super().show([], [number])
