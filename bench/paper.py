"""A paper's tables and figures by number: each shown under its title, figures drawn next to the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from bench import plot
from bench.compare import Panel
from bench.report import Report

Table = Callable[[], None]
"""Adds a table to the report."""

Figure = Callable[[], list[Panel]]
"""Adds the numbers of a figure to the report; returns what is drawn of it."""


class Experiments:
    """Shows any of them. `folder` is where figures are drawn next to `page`; without a page none is."""

    tables: dict[int, tuple[str, Table]]
    figures: dict[int, tuple[str, Figure]]

    def __init__(self, report: Report, page: Path | None, folder: str) -> None:
        self.report = report
        self._page = page
        self._folder = folder

    def show(self, tables: Sequence[int], figures: Sequence[int]) -> None:
        """Add these tables and figures, tables first."""
        for number, (title, table) in self.tables.items():
            if number in tables:
                self.begin(f"table {number}", title)
                table()
        for number, (title, figure) in self.figures.items():
            if number in figures:
                self.begin(f"figure {number}", title)
                self.draw(figure())

    def begin(self, what: str, title: str) -> None:
        """Say what comes, and add its heading."""
        self.report.progress(what)
        self.report.heading(title, 3)

    def draw(self, panels: Sequence[Panel]) -> None:
        """Draw panels and show them on the page; without matplotlib say so, once."""
        if self._page is None:
            return
        try:
            files = plot.draw(panels, self._page.parent / self._folder)
        except plot.PlotMissing as missing:
            self._page = None
            self.report.progress(f"no figures: {missing}")
            return
        self.report.text(
            *(
                f"![Figure {panel.name}: {panel.title}]({self._folder}/{file.name})"
                for panel, file in zip(panels, files, strict=True)
            )
        )
