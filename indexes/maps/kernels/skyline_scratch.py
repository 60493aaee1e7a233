"""The arrays in which a skyline and its zone are searched for, reused from search to search.

Distances are from the place of the search, and coordinates relative to it. Entries are what queues hold: the number of
a node, or -1 - i for object i (see `object_index.View`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.compiled.simd import LANES
from indexes.core import aligned
from indexes.core.arrays import Floats, Ints
from indexes.maps.kernels.polygon import Polygon, Spare

QUEUE, SKYLINE, VERTICES = 4096, 256, 64
"""Initial room: for entries, members of the skyline, vertices of a polygon. A search that runs out of room is
repeated with four times as much."""

SEEDS, SEEDING = 16, 8
"""Objects kept as seeds before a search goes by distance, and nodes opened to find them."""

KILLERS = 4
"""Members that all deferred lanes are compared with, before each lane that is left finds its own."""

MOST_VERTICES = 1 << 16
"""Room for vertices and cutters beyond which a zone counts as empty."""

BOX, CHORD = -1, -2
"""Labels of edges of a zone that no two objects made: a side of the box, and one within a cutter. The others are the
slot of the nearer object, shifted by `PAIR` bits, and that of the farther one."""

PAIR = 32

N_QUEUE, N_DEFERRED, N_SKYLINE, N_BEST, N_ZONE, N_CUTTERS, N_CUT, FULL = 0, 1, 2, 3, 4, 5, 6, 7
N_ASIDE, N_KILLERS = 11, 12
"""Places in `size`: how much of each is in use; FULL says what ran out of room, see `grown`."""

NODES, EXAMINED, DEFERRED = 8, 9, 10
"""Further places, counts of work: nodes opened, objects tried as cutters, deferred entries."""

NOTHING, NO_ENTRIES, NO_SKYLINE, NO_VERTICES = 0, 1, 2, 3
"""Values of FULL."""


OF_NODES, OF_OBJECTS, OF_DELTA, OF_BLOCKS = 0, 1, 2, 3
"""Whose columns deferred lanes belong to: nodes or objects of the base, objects or blocks of the delta. The lanes of
one block from i on are deferred as one number: i, shifted by `KIND` bits, this, shifted by LANES, and their mask."""

KIND = LANES + 2

RADIUS, SQUARED_RADIUS, AT_FIRST, LEAST = 0, 1, 2, 3
"""Places in `reach`: the distance to the farthest vertex of the zone's polygon, and its square, both rounded up;
that distance at the start; and the length from which on an edge counts."""


class SkylineScratch(NamedTuple):
    """The arrays; attribute j of member i is statics[j * x.size + i]."""

    key: Floats  # a heap: by entry
    entry: Ints
    deferred: Ints  # what was put off: see OF_NODES
    member: Ints  # the skyline found so far, by slot
    x: Floats
    y: Floats
    place_x: Floats  # as the object has it, not relative
    place_y: Floats
    far: Floats  # squared distance
    distance: Floats
    statics: Floats
    limit: Floats  # by member, once all are found: as `beyond`
    killer: Ints  # (KILLERS,) members that put deferred lanes out of reach, the last ones found
    weight: Floats  # (d + 1,) what static values and distances count in a score
    best: Floats  # objects that dominate most: d rows of static values; see `two_phase`
    best_far: Floats  # their squared distances
    best_distance: Floats
    score: Floats  # their scores, of seeds
    above: Floats  # by best: the least squared distance that is above its own
    beyond: Floats  # by best: squared distance from which on what it is no worse than cannot reach the zone
    zone: Polygon  # convex, and the zone is in it; for its labels see BOX
    part: Polygon  # the polygon that is cut; an edge's label is a member, or BOX
    spare: Spare
    cut_x: Floats  # the cutters' vertices, one after the other
    cut_y: Floats
    cut_label: Ints  # as part_label
    cut_end: Ints  # by cutter: behind its last vertex
    cut_owner: Ints  # by cutter: the slot of the object whose it is
    corner: Floats  # (d,) the static values of what was taken from the queue
    lane: Floats  # (LANES,) squared distances of a block
    reach: Floats  # see RADIUS
    size: Ints


def empty_scratch(d: int, entries: int = QUEUE, members: int = SKYLINE, vertices: int = VERTICES) -> SkylineScratch:
    """Room for this many entries in each queue, members of the skyline, and vertices; cutters have eight times as
    many vertices."""
    padded = -(-(members + LANES) // LANES) * LANES
    columns = aligned.full((12 + 2 * d, padded), np.inf)
    polygon = np.empty((7, vertices))
    cuts = 8 * vertices
    return SkylineScratch(
        key=aligned.empty(entries),
        entry=np.empty(entries, np.int64),
        deferred=np.empty(entries, np.int64),
        member=np.empty(padded, np.int64),
        x=columns[0],
        y=columns[1],
        place_x=columns[8],
        place_y=columns[9],
        far=columns[2],
        distance=columns[3],
        statics=columns[12 : 12 + d].reshape(-1),
        killer=np.empty(KILLERS, np.int64),
        weight=np.empty(d + 1),
        best=columns[12 + d :].reshape(-1),
        best_far=columns[4],
        best_distance=columns[5],
        limit=columns[11],
        score=columns[10],
        above=columns[6],
        beyond=columns[7],
        zone=Polygon(polygon[0], polygon[1], np.empty(vertices, np.int64)),
        part=Polygon(polygon[2], polygon[3], np.empty(vertices, np.int64)),
        spare=Spare(polygon[5], polygon[6], np.empty(vertices, np.int64), polygon[4]),
        cut_x=np.empty(cuts),
        cut_y=np.empty(cuts),
        cut_label=np.empty(cuts, np.int64),
        cut_end=np.empty(cuts, np.int64),
        cut_owner=np.empty(cuts, np.int64),
        corner=np.empty(d),
        lane=aligned.empty(LANES),
        reach=np.zeros(4),
        size=np.zeros(16, np.int64),
    )


def grown(scratch: SkylineScratch) -> SkylineScratch:
    """Empty arrays with more room for what ran out."""
    full = int(scratch.size[FULL])
    room = [len(scratch.entry), len(scratch.member) - LANES, len(scratch.zone.x)]
    room[0 if full == NO_ENTRIES else 1 if full == NO_SKYLINE else 2] *= 4
    return empty_scratch(len(scratch.corner), *room)
