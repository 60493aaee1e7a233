"""Draws what an event does to the plane of all ranges, as in Figures 3, 7 and 10 of [Range top-k]. Needs matplotlib.

A point of the plane is a range: l to the right, r upward. Bands beyond the frame's first and last number stand for ends
that are unbounded. The same explanation gives the same file, byte for byte.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import matplotlib
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle
from matplotlib.ticker import MaxNLocator

from app.cli.drawing.staircase import Box, boxes_of, levels, outline

if TYPE_CHECKING:
    from rankcast_client import BoardInfo, Effect, Entry, Explanation

INF = math.inf

INK, FAINT, PAPER = "#22272e", "#9aa3ad", "#ffffff"
OWN, AFTER = "#e3e7ec", "#c0222f"
EXPOSED = (
    "#56b4e9", "#e69f00", "#009e73", "#cc79a7", "#f0e442", "#d55e00",
    "#8da0cb", "#a6d854", "#b3a07f", "#66c2a5",
)  # fmt: skip
HATCHES = ("", "////", "....", "xxxx")
FIRST, LAST = (0.031, 0.251, 0.506), (0.87, 0.92, 0.97)

MOST_NAMED = 14
"""Exposed objects that the legend names."""

BAND = 0.08
"""Width of the band for unbounded ends, as a part of the frame."""


class Panel(NamedTuple):
    """One tiling, and how it is painted."""

    painting: str
    effect: Effect


class Picture(NamedTuple):
    """What is drawn: the explanation of an event, the class in question, its tilings, and subscriptions as (l, r)."""

    info: BoardInfo
    said: Explanation
    effect: Effect
    panels: Sequence[Panel]
    points: Sequence[tuple[float, float]]


class Axis:
    """One axis: numbers from `low` to `high`, and a band past one end where anything there is unbounded."""

    def __init__(self, numbers: Iterable[float], unbounded: float) -> None:
        found = list(numbers)
        finite = sorted({value for value in found if math.isfinite(value)}) or [0.0]
        span = finite[-1] - finite[0] or max(1.0, abs(finite[0]) / 2)
        self.low, self.high = finite[0] - 0.09 * span, finite[-1] + 0.09 * span
        self.unbounded = unbounded if unbounded in found else None
        band = BAND * (self.high - self.low)
        self.first = self.low - band if self.unbounded == -INF else self.low
        self.last = self.high + band if self.unbounded == INF else self.high

    def at(self, value: float) -> float:
        """Where a subscription's end is drawn."""
        if value == -INF:
            return (self.first + self.low) / 2
        return (self.high + self.last) / 2 if value == INF else value

    def edge(self, value: float, outer: bool) -> float:
        """Where a side of a box is drawn: an infinite outer side takes the band in, an inner one ends it."""
        if value == -INF:
            return self.first if outer else self.low
        if value == INF:
            return self.last if outer else self.high
        return min(max(value, self.first), self.last)

    def ticks(self) -> tuple[list[float], list[str]]:
        """Round numbers, and a sign for what is unbounded."""
        room = 0.03 * (self.high - self.low)
        found = MaxNLocator(5).tick_values(self.low, self.high)
        places = [float(at) for at in found if self.low + room <= at <= self.high - room]
        texts = [f"{at:g}".replace("-", "\N{MINUS SIGN}") for at in places]
        if self.unbounded is not None:
            sign = "\N{MINUS SIGN}" if self.unbounded < 0 else "+"
            places, texts = [*places, self.at(self.unbounded)], [*texts, f"{sign}\N{INFINITY}"]
        return places, texts


def draw(picture: Picture, output: Path) -> None:
    """Write the picture to a file, in the format that its suffix names."""
    write(lambda: figure(picture), output)


def write(make: Callable[[], Figure], output: Path) -> None:
    """Write what is drawn to a file, in the format that its suffix names: the same bytes for the same picture."""
    suffix = output.suffix.lower().removeprefix(".")
    metadata: dict[str, dict[str, str | None]] = {
        "svg": {"Date": None, "Creator": "rankcast"},
        "png": {"Software": "rankcast"},
        "pdf": {"CreationDate": None, "Creator": "rankcast", "Producer": "rankcast"},
    }
    style: dict[Any, Any] = {
        "svg.hashsalt": "rankcast",
        "font.family": "DejaVu Sans",
        "font.size": 9,
        "axes.edgecolor": FAINT,
        "axes.linewidth": 0.8,
        "hatch.linewidth": 0.6,
    }
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **style, "backend": "agg"}):
        make().savefig(output, format=suffix, dpi=160, metadata=metadata[suffix])


def figure(picture: Picture) -> Figure:
    """The picture: the region by ranks, then a panel for each tiling."""
    count = 1 + len(picture.panels)
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12)
    found = Figure(figsize=(5.1 * count, 5.9), layout=layout, facecolor=PAPER)
    found.suptitle(title(picture), x=0.012, ha="left", fontsize=14, fontweight="bold", color=INK)
    frames: Any = found.subplots(1, count, squeeze=False)[0]
    l_axis, r_axis = _axes(picture)
    for frame in frames:
        _prepare(frame, l_axis, r_axis, picture.info.range_attributes[0])
    _draw_region(frames[0], picture, l_axis, r_axis)
    colours = _colours(picture)
    for frame, panel in zip(frames[1:], picture.panels, strict=True):
        _draw_tiling(frame, picture, panel, l_axis, r_axis, colours)
    handles = list(_legend(picture, colours))
    found.legend(
        handles=handles,
        loc="outside lower left",
        ncols=math.ceil(len(handles) / math.ceil(len(handles) / (2.5 * count))),
        frameon=False,
        fontsize=8.5,
        labelcolor=INK,
        handlelength=1.6,
        columnspacing=1.6,
    )
    return found


def title(picture: Picture) -> str:
    """The event in words."""
    said, info = picture.said, picture.info
    entry = said.after or said.before
    assert entry is not None, "an explanation has an object"
    names = (*info.range_attributes, info.rank)
    if said.before is None or said.after is None:
        values = ", ".join(f"{name} {entry.values[name]:g}" for name in names)
        how = f"{'comes' if said.before is None else 'goes'}: {values}"
    else:
        old, new = said.before.values, said.after.values
        how = ", ".join(f"{name} {old[name]:g} → {new[name]:g}" for name in names if old[name] != new[name])
        how = how or f"{info.rank} {new[info.rank]:g}"
    return f"{info.name}   {entry.id}   {how}"


def _axes(picture: Picture) -> tuple[Axis, Axis]:
    """Axes that show all regions and tiles; subscriptions elsewhere stay outside."""
    boxes = [
        *boxes_of(picture.effect.before),
        *boxes_of(picture.effect.after),
        *(box for panel in picture.panels for _, box in _tiles(panel.effect)),
    ]
    xs = [
        entry.values[picture.info.range_attributes[0]] for entry in (picture.said.before, picture.said.after) if entry
    ]
    l = [*xs, *(side for box in boxes for side in (box.l_outer, box.l_inner))]
    r = [*xs, *(side for box in boxes for side in (box.r_inner, box.r_outer))]
    for low, high in picture.points:
        l.append(low if low == -INF else xs[0])
        r.append(high if high == INF else xs[0])
    return Axis(l, -INF), Axis(r, INF)


def _tiles(effect: Effect) -> Iterator[tuple[Entry, Box]]:
    """The tiles of a class with their objects: its own, then those of exposed ones."""
    for tile in effect.tiles:
        yield tile.object, boxes_of([tile.area])[0]
    for one in effect.exposed:
        for box in boxes_of(one.tiles):
            yield one.object, box


def _prepare(frame: Any, l: Axis, r: Axis, attribute: str) -> None:
    frame.set_xlim(l.first, l.last)
    frame.set_ylim(r.first, r.last)
    for axis, side in ((l, "x"), (r, "y")):
        places, texts = axis.ticks()
        getattr(frame, f"set_{side}ticks")(places, texts)
    frame.tick_params(colors=INK, length=3, width=0.7, labelsize=8.5)
    frame.set_xlabel(f"l, the lower end of {attribute}", color=INK)
    frame.set_ylabel(f"r, the upper end of {attribute}", color=INK)
    frame.spines[["top", "right"]].set_visible(False)
    if l.unbounded is not None:
        frame.axvline(l.low, color=FAINT, linewidth=0.7, linestyle=(0, (1, 2)), zorder=0.5)
    if r.unbounded is not None:
        frame.axhline(r.high, color=FAINT, linewidth=0.7, linestyle=(0, (1, 2)), zorder=0.5)
    low, high = max(l.low, r.low), min(l.high, r.high)
    if low < high:
        frame.plot([low, high], [low, high], color=FAINT, linewidth=0.8, zorder=0.5)


def _draw_region(frame: Any, picture: Picture, l: Axis, r: Axis) -> None:
    """Where the object is among the k best before the event (of a new one: after it), by its rank there."""
    said, k = picture.said, picture.effect.k
    entry, near = (said.before, said.near_before) if said.before else (said.after, said.near_after)
    assert entry is not None and near is not None, "an object has what is near it"
    x = entry.values[picture.info.range_attributes[0]]
    when = "before" if said.before else "after"
    _head(frame, f"Ranges that have it among the {k} best {when}", "by its rank there")
    for box, level in levels(x, near, k):
        part = 0.0 if k == 1 else (level - 1) / (k - 1)
        colour = tuple(a + (b - a) * part**0.7 for a, b in zip(FIRST, LAST, strict=True))
        patch = _rectangle(box, l, r, facecolor=colour, edgecolor=PAPER, linewidth=0.7, zorder=1)
        frame.add_patch(patch)
        wide = patch.get_width() / (l.last - l.first) * 320
        tall = patch.get_height() / (r.last - r.first) * 300
        if wide > 6 + 5 * len(str(level)) and tall > 11:
            centre = patch.get_x() + patch.get_width() / 2, patch.get_y() + patch.get_height() / 2
            ink = PAPER if part**0.7 < 0.55 else INK
            size = min(10.0, 0.62 * tall, 0.9 * wide)
            frame.text(
                *centre, str(level), ha="center", va="center", fontsize=size, color=ink, zorder=2.5, clip_on=True
            )
    _stairs(frame, picture, l, r)
    _scatter(frame, picture, l, r)


def _draw_tiling(
    frame: Any, picture: Picture, panel: Panel, l: Axis, r: Axis, colours: dict[str, tuple[str, str]]
) -> None:
    """Tiles, a fill for each object."""
    effect = panel.effect
    tiles, subscriptions = _many(effect.tile_count, "tile"), _many(effect.reached, "subscription")
    names = ("min_y", "snaps", "merges", "refreshes") if panel.painting.startswith("sparse") else ("min_y",)
    calls = ", ".join(f"{name} {effect.calls[name]}" for name in names)
    _head(frame, f"{tiles} to {subscriptions}", f"{panel.painting}, k = {effect.k}; calls: {calls}")
    own = {entry.id for entry in (picture.said.before, picture.said.after) if entry}
    for entry, box in _tiles(panel.effect):
        mine = entry.id in own
        fill, hatch = (OWN, "") if mine else colours[entry.id]
        shown = _seen(box, l, r) if panel.painting.startswith("sparse") else box
        style = {"facecolor": fill, "edgecolor": INK, "linewidth": 0.9, "hatch": hatch, "zorder": 1 if mine else 2}
        frame.add_patch(_rectangle(shown, l, r, **style))
    _stairs(frame, picture, l, r)
    _scatter(frame, picture, l, r, face="none")


def _many(count: int, name: str) -> str:
    return f"{count:,} {name if count == 1 else name + 's'}"


def _seen(box: Box, l: Axis, r: Axis) -> Box:
    """A box so large that it is seen: one around a single subscription has no size."""
    least_l, least_r = 0.016 * (l.last - l.first), 0.016 * (r.last - r.first)
    if box.l_inner - box.l_outer < least_l:
        box = box._replace(l_outer=box.l_inner - least_l / 2, l_inner=box.l_inner + least_l / 2)
    if box.r_outer - box.r_inner < least_r:
        box = box._replace(r_inner=box.r_inner - least_r / 2, r_outer=box.r_inner + least_r / 2)
    return box


def _rectangle(box: Box, l: Axis, r: Axis, **style: Any) -> Rectangle:
    west, east = l.edge(box.l_outer, True), l.edge(box.l_inner, False)
    south, north = r.edge(box.r_inner, False), r.edge(box.r_outer, True)
    return Rectangle((west, south), east - west, north - south, **style)


def _stairs(frame: Any, picture: Picture, l: Axis, r: Axis) -> None:
    """The outlines of the region before and after."""
    effect = picture.effect
    for sides, style in (
        (effect.before, {"color": INK, "linewidth": 1.3}),
        (effect.after, {"color": AFTER, "linewidth": 2.0, "linestyle": (0, (4, 1.6))}),
    ):
        corners = outline(boxes_of(sides))
        if corners:
            across = [l.edge(corner[0], True) for corner in corners]
            up = [r.edge(corner[1], True) for corner in corners]
            frame.plot([*across, across[0]], [*up, up[0]], zorder=3, solid_joinstyle="miter", **style)
    for entry, colour in ((picture.said.before, INK), (picture.said.after, AFTER)):
        if entry is not None:
            x = entry.values[picture.info.range_attributes[0]]
            frame.plot([x], [x], marker="D", markersize=5, color=colour, zorder=5, clip_on=False)


def _scatter(frame: Any, picture: Picture, l: Axis, r: Axis, face: str = PAPER) -> None:
    """Subscriptions: circles where their lists change, dots elsewhere."""
    regions = [*boxes_of(picture.effect.before), *boxes_of(picture.effect.after)]
    inside: list[tuple[float, float]] = []
    outside: list[tuple[float, float]] = []
    for low, high in picture.points:
        at = l.at(low), r.at(high)
        if l.first <= at[0] <= l.last and r.first <= at[1] <= r.last:
            (inside if any(box.holds(low, high) for box in regions) else outside).append(at)
    if outside:
        frame.scatter(*zip(*outside, strict=True), s=3, color=FAINT, linewidths=0, zorder=0.8)
    if inside:
        frame.scatter(*zip(*inside, strict=True), s=9, facecolors=face, edgecolors=INK, linewidths=0.7, zorder=4)


def _head(frame: Any, text: str, more: str) -> None:
    frame.set_title(text, loc="left", fontsize=10.5, fontweight="bold", color=INK, pad=20)
    frame.annotate(
        more, (0, 1), (0, 7), xycoords="axes fraction", textcoords="offset points", fontsize=8.5, color="#5b6570"
    )


def _colours(picture: Picture) -> dict[str, tuple[str, str]]:
    """A fill for each exposed object, the same in all panels."""
    ids = dict.fromkeys(one.object.id for panel in picture.panels for one in panel.effect.exposed)
    return {id: (EXPOSED[at % len(EXPOSED)], HATCHES[at // len(EXPOSED) % len(HATCHES)]) for at, id in enumerate(ids)}


def _legend(picture: Picture, colours: dict[str, tuple[str, str]]) -> Iterator[Any]:
    said, rank = picture.said, picture.info.rank
    entry = said.after or said.before
    assert entry is not None, "an explanation has an object"
    yield Patch(facecolor=OWN, edgecolor=INK, label=f"{entry.id} itself")
    if picture.effect.before:
        yield Line2D([], [], color=INK, linewidth=1.3, label="its region before")
    if picture.effect.after:
        yield Line2D([], [], color=AFTER, linewidth=2.0, linestyle=(0, (4, 1.6)), label="its region after")
    if picture.points:
        circle: dict[str, Any] = {
            "marker": "o",
            "markersize": 4,
            "linestyle": "",
            "markerfacecolor": PAPER,
            "markeredgecolor": INK,
        }
        yield Line2D([], [], label="subscriptions whose lists change", **circle)
        dot: dict[str, Any] = {"marker": "o", "markersize": 2.4, "linestyle": "", "color": FAINT}
        yield Line2D([], [], label="other subscriptions", **dot)
    values = {one.object.id: one.object for panel in picture.panels for one in panel.effect.exposed}
    for id in list(colours)[:MOST_NAMED]:
        fill, hatch = colours[id]
        yield Patch(facecolor=fill, edgecolor=INK, hatch=hatch, label=f"{id}, {rank} {values[id].values[rank]:g}")
    if len(colours) > MOST_NAMED:
        yield Line2D([], [], linestyle="", label=f"and {len(colours) - MOST_NAMED} more")
