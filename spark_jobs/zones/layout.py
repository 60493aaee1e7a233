"""How the plane of subscriptions is dealt out to partitions: the area of each part, and the zones that it publishes to.

Parts are those of the service's own cut ([Range top-k] III-A). Paint-Dense needs no subscriptions, so that a part that
has those of one zone paints its tiles as the service does, whatever is in other zones. The rectangles of Paint-Sparse
are drawn around all subscriptions: one part with all of them paints them as the service does (`plane`), or each zone
paints by its own (`zone`), with other rectangles that reach the same subscriptions.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from indexes.boards.config import BoardConfig
from indexes.boards.zones import EVERYWHERE, Zone

Paint = Literal["auto", "zone", "plane"]


class PartPlan(NamedTuple):
    """A part: where its subscriptions lie, and the zones that it publishes to, each with its number."""

    area: Zone
    zones: tuple[tuple[int, Zone], ...]


class Layout(NamedTuple):
    """All parts under one version of the cut; 0 for a board without zones, of which nothing is published."""

    version: int
    parts: tuple[PartPlan, ...]


def layout_of(config: BoardConfig, paint: Paint) -> Layout:
    """The parts of a board. `auto` is a part for each zone under Paint-Dense, and one part under Paint-Sparse."""
    cut = config.cut
    if cut is None:
        return Layout(0, (PartPlan(EVERYWHERE, ()),))
    zones = tuple(enumerate(cut.zones))
    if paint == "plane" or (paint == "auto" and config.algorithm == "sparse"):
        return Layout(cut.version, (PartPlan(EVERYWHERE, zones),))
    return Layout(cut.version, tuple(PartPlan(zone, ((i, zone),)) for i, zone in zones))


def overlap(a: Zone, b: Zone) -> bool:
    """Whether two areas, of one cut or of two, have a point in common."""
    return all(
        lo < other_hi or other_hi == EVERYWHERE.l_hi
        for lo, other_hi in ((a.l_lo, b.l_hi), (b.l_lo, a.l_hi), (a.r_lo, b.r_hi), (b.r_lo, a.r_hi))
    )
