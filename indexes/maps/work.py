"""What a search for a skyline and its zone works in: one set of arrays, used again by the next.

Distances are from the place, and coordinates relative to it. Entries are what queues hold: the number of a node, or
-1 - i for object i (see `places.View`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes import aligned
from indexes.lanes import LANES

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

QUEUE, SKYLINE, VERTICES = 4096, 256, 64
"""Room at first: for entries, members of the skyline, vertices of a polygon. A search that runs out of it is begun anew
with four times as much."""

SEEDS, SEEDING = 16, 8
"""Objects that are taken to dominate much before a search goes by distance, and nodes that are opened for them."""

MOST_VERTICES = 1 << 16
"""Room for vertices and cutters beyond which a zone counts as empty."""

BOX, CHORD = -1, -2
"""Labels of edges of a zone that no two objects made: a side of the box, and one within a cutter. The others are the
slot of the nearer object, shifted by `PAIR` bits, and that of the farther one."""

PAIR = 32

N_QUEUE, N_WAITING, N_SKYLINE, N_BEST, N_ZONE, N_CUTTERS, N_CUT, FULL = 0, 1, 2, 3, 4, 5, 6, 7
N_ASIDE = 11
"""Places in `size`: how much is in use of each; FULL is what had no room, see `grown`."""

NODES, EXAMINED, DEFERRED = 8, 9, 10
"""Further ones, counts of work: nodes opened, objects tried as cutters, entries that were put off."""

NOTHING, NO_ENTRIES, NO_SKYLINE, NO_VERTICES = 0, 1, 2, 3
"""Values of FULL."""


OF_NODES, OF_OBJECTS, OF_DELTA, OF_BLOCKS = 0, 1, 2, 3
"""Whose columns the lanes are that were put off: nodes or objects of the base, objects or blocks of the delta. Lanes of
one block from i on are put off as one number: i, shifted by `KIND` bits, this, shifted by LANES, and their mask."""

KIND = LANES + 2

RADIUS, SQUARED_RADIUS, AT_FIRST, LEAST = 0, 1, 2, 3
"""Places in `reach`: the distance to the farthest vertex of the zone's polygon, and its square, both rounded up; what
that distance was at first; and how long an edge has to be to count."""


class Work(NamedTuple):
    """The arrays; attribute j of member i is statics[j * x.size + i]."""

    key: Float64  # a heap: by entry
    entry: Int64
    waiting: Int64  # what was put off: see OF_NODES
    member: Int64  # the skyline found so far, by slot
    x: Float64
    y: Float64
    place_x: Float64  # as the object has it, not relative
    place_y: Float64
    far: Float64  # squared distance
    distance: Float64
    statics: Float64
    limit: Float64  # by member, once all are found: as `beyond`
    weight: Float64  # (d + 1,) what static values and distances count in a score
    best: Float64  # objects that dominate most: d rows of static values; see `two_phase`
    best_far: Float64  # their squared distances
    best_distance: Float64
    score: Float64  # their scores, of seeds
    above: Float64  # by best: the least squared distance that is above its own
    beyond: Float64  # by best: squared distance from which on what it is no worse than cannot reach the zone
    zone_x: Float64  # a convex polygon that the zone is in
    zone_y: Float64
    zone_label: Int64  # of an edge: see BOX
    part_x: Float64  # scratch: the polygon that is cut
    part_y: Float64
    part_label: Int64  # of an edge: a member, or BOX
    side: Float64
    spare_x: Float64
    spare_y: Float64
    spare_label: Int64
    cut_x: Float64  # the cutters' vertices, one after the other
    cut_y: Float64
    cut_label: Int64  # as part_label
    cut_end: Int64  # by cutter: behind its last vertex
    cut_owner: Int64  # by cutter: the slot of the object whose it is
    corner: Float64  # (d,) the static values of what was taken from the queue
    lane: Float64  # (LANES,) squared distances of a block
    reach: Float64  # see RADIUS
    size: Int64


def empty_work(d: int, entries: int = QUEUE, members: int = SKYLINE, vertices: int = VERTICES) -> Work:
    """Room for so many entries in each queue, members of the skyline, and vertices; the cutters have eight times as
    many vertices."""
    padded = -(-(members + LANES) // LANES) * LANES
    columns = aligned.full((12 + 2 * d, padded), np.inf)
    polygon = np.empty((7, vertices))
    cuts = 8 * vertices
    return Work(
        key=aligned.empty(entries),
        entry=np.empty(entries, np.int64),
        waiting=np.empty(entries, np.int64),
        member=np.empty(padded, np.int64),
        x=columns[0],
        y=columns[1],
        place_x=columns[8],
        place_y=columns[9],
        far=columns[2],
        distance=columns[3],
        statics=columns[12 : 12 + d].reshape(-1),
        weight=np.empty(d + 1),
        best=columns[12 + d :].reshape(-1),
        best_far=columns[4],
        best_distance=columns[5],
        limit=columns[11],
        score=columns[10],
        above=columns[6],
        beyond=columns[7],
        zone_x=polygon[0],
        zone_y=polygon[1],
        zone_label=np.empty(vertices, np.int64),
        part_x=polygon[2],
        part_y=polygon[3],
        part_label=np.empty(vertices, np.int64),
        side=polygon[4],
        spare_x=polygon[5],
        spare_y=polygon[6],
        spare_label=np.empty(vertices, np.int64),
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


def grown(w: Work) -> Work:
    """Empty arrays with more room for what there was too little of."""
    full = int(w.size[FULL])
    room = [len(w.entry), len(w.member) - LANES, len(w.zone_x)]
    room[0 if full == NO_ENTRIES else 1 if full == NO_SKYLINE else 2] *= 4
    return empty_work(len(w.corner), *room)
