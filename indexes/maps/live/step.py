"""A few objects of a map are changed, and the queries found that they may touch, in one call of a kernel.

Each of the indexes involved has some thirty arrays, which take longer to unpack than one object takes to change, so
they are kept (`indexes.compiled.kept`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from indexes.compiled.jit import inlined
from indexes.compiled.kept import Words, declare, unpacked
from indexes.core.arrays import Floats, Ints, Ints32, int64
from indexes.maps.kernels.floats import float_kernel
from indexes.maps.kernels.object_index import DELTA, TOMBSTONES, View, change_objects, empty_view
from indexes.maps.kernels.score_table import ScoreTable
from indexes.maps.live.holders import Holders, Pairs, holders_of
from indexes.maps.live.skyline_reach import Members, skylines_touched
from indexes.maps.live.top_reach import Bounds, Touching, tops_touched

ALL, SOME = 1, 0
"""Whether all pairs were found."""


class KeptLive(NamedTuple):
    """What `step` works with, as kernels keep it: the metric, objects, holders and room for pairs; the index of top-k
    queries with bounds, scores, the least and greatest static values, and a stack; that of skylines with members and a
    stack."""

    words: Words


class StepRoom(NamedTuple):
    """Room for the objects that a step has changed: their places among those given, slots, places and static values,
    concatenated."""

    changed: Ints
    slots: Ints
    points: Floats
    statics: Floats

    @classmethod
    def of(cls, objects: int, d: int) -> StepRoom:
        """Room for so many objects with d static values."""
        return cls(
            np.empty(objects, np.int64), np.empty(objects, np.int64), np.empty((objects, 2)), np.empty(objects * d)
        )


def _example() -> tuple[Any, ...]:
    view, floats, ints = empty_view(), np.zeros(0), np.zeros(0, np.int64)
    members, bounds = Members(floats, floats, ints, ints, floats, floats), Bounds(floats, floats, floats, floats, ints)
    tops = view, bounds, ScoreTable().arrays, floats, floats, ints
    return 0, view, Holders().cells, Pairs(ints, ints), *tops, view, members, ints, StepRoom.of(1, 1)


declare(KeptLive, _example)


@float_kernel
def step(kept: Any, slots: Ints32, signs: Floats, points: Floats, statics: Floats) -> tuple[int, int, int]:
    """Change objects as `change_objects`, and find the pairs of a change and a query that it may touch. Returns how
    many objects have changed, how many pairs there are, and whether these are ALL: not so where a static value is
    beyond those that were allowed for, or there was no room."""
    metric, view, cells, pairs, tops, bounds, table, lower, upper, top_stack, skylines, members, stack, room = unpacked(
        kept
    )
    n = change_objects(view, slots, signs, points, statics, room.changed)
    d = statics.shape[1]
    complete = True
    for i in range(n):
        r = room.changed[i]
        room.slots[i] = slots[r]
        room.points[i, 0], room.points[i, 1] = points[r, 0], points[r, 1]
        for j in range(d):
            room.statics[i * d + j] = statics[r, j]
            complete = complete and lower[j] <= statics[r, j] <= upper[j]
    found = int64(0)
    if complete and n > 0:
        at, found = holders_of(cells, room.slots[:n], 0, pairs)
        complete = at == n
        objects = Touching(room.points[:n], room.statics[: n * d])
        if complete and _count(tops) > 0:
            left = Pairs(pairs.change[found:], pairs.query[found:])
            at, more = tops_touched(tops, bounds, table, metric, objects, 0, top_stack, left)
            found += more
            complete = at == n
        if complete and _count(skylines) > 0:
            left = Pairs(pairs.change[found:], pairs.query[found:])
            at, more = skylines_touched(metric, skylines, members, objects.points, objects.statics, 0, stack, left)
            found += more
            complete = at == n
    return n, found, ALL if complete else SOME


@inlined
def _count(view: View) -> int:
    """How many objects an index has."""
    return view.base.slot.size - view.size[TOMBSTONES] + view.size[DELTA]
