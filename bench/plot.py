"""Figures as SVG: our curves as lines, what the paper's text states of its own as open diamonds.

The same numbers make the same file, byte for byte: no date, ids from a fixed salt, text as text. Colours go by
approach, line styles by what else distinguishes curves of an approach, in the order of the legend. They are safe for
colour-blind readers (the palette of Okabe and Ito). Needs the extra `plot`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.compare import Curve, Panel

WIDTH, HEIGHT = 6.4, 4.0
"""Inches of a panel."""

COLOURS = {
    "Unicast": "#000000",
    "Paint-Dense": "#0072B2",
    "Paint-Sparse": "#D55E00",
    "Paint-Dense(1)": "#56B4E9",
    "Paint-Sparse(1)": "#E69F00",
    "CN-Relax": "#009E73",
}
OTHERS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
STYLES = ("-", "--", ":", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (1, 3)), (0, (8, 2)))
TICKS = 8
"""So few values of x are all labelled."""

MARKERS = ("o", "s", "^", "v", "x", "+", ".")


SETTINGS: Any = {
    "svg.hashsalt": "rankcast",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#dddddd",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "lines.markersize": 4,
}
"""Ids from a fixed salt, text as text."""


class PlotMissing(RuntimeError):
    """Matplotlib is not installed."""


def draw(panels: Sequence[Panel], folder: Path) -> list[Path]:
    """Write each panel to `folder`, named by its figure; returns the files.

    Raises PlotMissing without the extra `plot`.
    """
    try:
        import matplotlib as mpl
        from matplotlib.backends.backend_svg import FigureCanvasSVG
        from matplotlib.figure import Figure
    except ImportError:
        raise PlotMissing("drawing needs matplotlib, the extra `plot`: pip install -e '.[plot]'") from None

    folder.mkdir(parents=True, exist_ok=True)
    files = []
    with mpl.rc_context(SETTINGS):
        for panel in panels:
            figure = Figure(figsize=(WIDTH, HEIGHT), layout="constrained")
            FigureCanvasSVG(figure)
            _fill(figure.subplots(), panel)
            files.append(folder / f"{file_name(panel)}.svg")
            figure.savefig(files[-1], format="svg", metadata={"Date": None, "Creator": None})
    return files


def file_name(panel: Panel) -> str:
    """The stem of a panel's file.

    >>> file_name(Panel(11, "a", "", "", "", ()))
    'figure-11a'
    """
    return f"figure-{panel.figure:02d}{panel.part}"


def short(x: float) -> str:
    """A number as a tick.

    >>> short(200_000), short(5_000_000), short(20), short(0.125)
    ('200k', '5M', '20', '0.125')
    """
    for size, letter in ((1_000_000, "M"), (1_000, "k")):
        if x >= size:
            return f"{x / size:g}{letter}"
    return f"{x:g}"


def _fill(axes: Any, panel: Panel) -> None:
    looks = _looks(panel.curves)
    for curve in panel.curves:
        axes.plot(curve.x, curve.y, label=curve.name, **looks[curve.name])
    for i, mark in enumerate(panel.marks):
        axes.plot(
            [mark.x], [mark.y], linestyle="none", marker="D", markersize=8, markerfacecolor="none",
            markeredgecolor=looks[mark.curve]["color"], markeredgewidth=1.3,
            label="the paper's text" if i == 0 else None, zorder=5,
        )  # fmt: skip
    if "x" in panel.logs:
        axes.set_xscale("log")
    xs = sorted({x for curve in panel.curves for x in curve.x})
    if len(xs) <= TICKS:
        axes.set_xticks(xs, [short(x) for x in xs])
        axes.set_xticks([], minor=True)
    if "y" in panel.logs:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.set_xlabel(panel.x)
    axes.set_ylabel(panel.y)
    axes.set_title(f"Figure {panel.name}: {panel.title}", loc="left", fontsize=10)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), fontsize=8)


def _looks(curves: Sequence[Curve]) -> dict[str, dict[str, Any]]:
    """Colour, line style and marker of each curve: by its approach and its place among those of the same approach."""
    approaches = list(dict.fromkeys(curve.name.split(",")[0] for curve in curves))
    seen = dict.fromkeys(approaches, 0)
    several = any(approach in COLOURS for approach in approaches)
    looks: dict[str, dict[str, Any]] = {}
    for curve in curves:
        approach = curve.name.split(",")[0]
        place = seen[approach]
        seen[approach] += 1
        at = approaches.index(approach)
        looks[curve.name] = {
            "color": COLOURS.get(approach) if several and approach in COLOURS else OTHERS[at % len(OTHERS)],
            "linestyle": STYLES[place % len(STYLES)],
            "marker": MARKERS[place % len(MARKERS)],
        }
    return looks
