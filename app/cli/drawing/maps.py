"""Draws an answer of a map: its location, its objects, and the zone in which it is valid. Needs matplotlib."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import PathPatch
from matplotlib.path import Path as Outline

from app.cli.drawing.boards import AFTER, FAINT, INK, PAPER, write
from app.cli.drawing.geojson import zone_geometry

if TYPE_CHECKING:
    from rankcast_client import MapAnswer, MapInfo, Place

ZONE = "#cfe3f5"
EDGE = "#1f6fb2"

MOST_NAMED = 60
"""Objects of an answer that are named."""


def draw_answer(
    info: MapInfo, answer: MapAnswer, others: Sequence[Place], title: str, about: str, output: Path
) -> None:
    """Write the picture to a file, in the format that its suffix names."""
    write(lambda: figure(info, answer, others, title, about), output)


def figure(info: MapInfo, answer: MapAnswer, others: Sequence[Place], title: str, about: str) -> Figure:
    """The picture: it shows the zone and the objects of the answer, and others as far as they lie there."""
    layout = ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12)
    found = Figure(figsize=(7.0, 7.0), layout=layout, facecolor=PAPER)
    found.suptitle(title, x=0.02, ha="left", fontsize=14, fontweight="bold", color=INK)
    frame: Any = found.subplots()
    frame.set_title(f"holds {about}", loc="left", fontsize=10, color=INK)
    polygons = zone_polygons(info, answer)
    if polygons:
        frame.add_patch(
            PathPatch(outline(polygons), facecolor=ZONE, edgecolor=EDGE, linewidth=1.4, zorder=1, gid="zone")
        )
    names = {one.id for one in answer.objects}
    rest = [one for one in getattr(answer, "candidates", ()) if one.id not in names]
    shown = names | {one.id for one in rest}
    dots = [one.location for one in others if one.id not in shown]
    _scatter(frame, dots, s=5, color=FAINT, linewidths=0, zorder=2)
    _scatter(frame, [one.location for one in rest], s=28, facecolors=PAPER, edgecolors=INK, linewidths=0.9, zorder=3)
    _scatter(frame, [one.location for one in answer.objects], s=30, color=INK, linewidths=0, zorder=4)
    for rank, one in enumerate(answer.objects[:MOST_NAMED], 1):
        frame.annotate(
            f"{rank} {one.id}", one.location, (4, 4), textcoords="offset points", fontsize=8, color=INK, zorder=5
        )
    frame.plot(*([end] for end in answer.location), marker="X", markersize=9, color=AFTER, zorder=6)
    _fit(frame, info, answer, polygons)
    return found


Polygons = Sequence[Sequence[Sequence[Sequence[float]]]]


def zone_polygons(info: MapInfo, answer: MapAnswer) -> Polygons:
    """The rings of each polygon of a zone; none where it has no area or no end."""
    geometry = zone_geometry(info, answer)
    if geometry is None:
        return []
    found: Polygons = geometry["coordinates"]
    return [found] if geometry["type"] == "Polygon" else found  # type: ignore[list-item]


def outline(polygons: Polygons) -> Outline:
    """One path of all rings; holes wind the other way, so that they stay empty."""
    corners: list[Sequence[float]] = []
    codes: list[Any] = []
    for rings in polygons:
        for at, ring in enumerate(rings):
            corners += ring if (_area(ring) > 0) == (at == 0) else ring[::-1]
            codes += [Outline.MOVETO, *[Outline.LINETO] * (len(ring) - 2), Outline.CLOSEPOLY]
    return Outline(corners, codes)


def _area(ring: Sequence[Sequence[float]]) -> float:
    return sum(a[0] * b[1] - a[1] * b[0] for a, b in pairwise(ring))


def _scatter(frame: Any, places: Sequence[Sequence[float]], **style: Any) -> None:
    if places:
        frame.scatter(*zip(*places, strict=True), **style)


def _fit(frame: Any, info: MapInfo, answer: MapAnswer, polygons: Polygons) -> None:
    """What is seen: the zone, the place and the answer, with some room."""
    places = [answer.location, *(one.location for one in answer.objects)]
    places += [(corner[0], corner[1]) for rings in polygons for corner in rings[0]]
    for axis, ends in (("x", [place[0] for place in places]), ("y", [place[1] for place in places])):
        low, high = min(ends), max(ends)
        widest = high - low if info.metric == "great-circle" else _widest(places)
        room = 0.54 * widest or 1.0
        getattr(frame, f"set_{axis}lim")((low + high) / 2 - room, (low + high) / 2 + room)
    frame.set_box_aspect(1)
    frame.tick_params(colors=INK, length=3, width=0.7, labelsize=8.5)
    frame.spines[["top", "right"]].set_visible(False)


def _widest(places: Sequence[Sequence[float]]) -> float:
    """Along x or y: in the plane both have one scale."""
    return float(max(max(ends) - min(ends) for ends in zip(*places, strict=True)))
