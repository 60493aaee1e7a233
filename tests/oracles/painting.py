"""Who must hear of what after a change on a board, and with how few tiles, by exhaustion.

Objects are (id, x, y, created); ranges are (l, r), closed, with infinities for unbounded ends.
"""

from __future__ import annotations

import itertools
from functools import cache
from typing import NamedTuple

INF = float("inf")


class Object(NamedTuple):
    id: int
    x: float
    y: float
    created: int


class Tile(NamedTuple):
    l_outer: float
    l_inner: float
    r_inner: float
    r_outer: float
    object: Object
    gone: bool


def top(objects, l, r, k):
    """The k best objects with l <= x <= r by (y, created), best first."""
    inside = [one for one in objects if l <= one.x <= r]
    return sorted(inside, key=lambda one: (one.y, one.created))[:k]


def reaches(tile, l, r):
    """The definition of a tile. Inner sides at +-MAX stand for unbounded ends."""
    west = tile.l_outer == -INF or l > tile.l_outer
    east = tile.r_outer == INF or r < tile.r_outer
    big = 1.7e308
    return west and max(l, -big) <= max(tile.l_inner, -big) and min(r, big) >= min(tile.r_inner, big) and east


def must_hear(before, after, changed, l, r, k, touched=False):
    """The ids an exact algorithm tells the range (l, r) when object `changed` turns `before` into `after`."""
    old, new = top(before, l, r, k), top(after, l, r, k)
    need = {one.id for one in new} - {one.id for one in old}
    if changed in {one.id for one in (*old, *new)}:
        values = [next((one.y for one in world if one.id == changed), None) for world in (before, after)]
        if values[0] != values[1] or touched:
            need.add(changed)
    return need


def hear(mine, tiles, l, r, k):
    """The subscriber protocol of II-A: the list after the tiles that reach it, and the ids heard."""
    mine = {one.id: one for one in mine}
    heard = []
    for tile in tiles:
        if reaches(tile, l, r):
            heard.append(tile.object.id)
            if tile.gone:
                mine.pop(tile.object.id, None)
            else:
                mine[tile.object.id] = tile.object
            mine = {one.id: one for one in sorted(mine.values(), key=lambda one: (one.y, one.created))[:k]}
    return list(mine.values()), heard


def every_range(objects):
    """One range for each cell and line of subscription space that the objects' x can tell apart."""
    xs = sorted({one.x for one in objects})
    steps = [-INF]
    for a, b in itertools.pairwise([xs[0] - 2, *xs, xs[-1] + 2] if xs else [0.0, 1.0]):
        steps += [a, (a + b) / 2] if a in xs else [(a + b) / 2]
    return list(itertools.product(steps, [*steps[1:], INF]))


def fewest_tiles(told, all_ranges):
    """The least number of rectangles that reach each range of `told` once and no other of `all_ranges`; exponential."""
    told = sorted(set(told))
    others = set(all_ranges) - set(told)
    if not told:
        return 0
    lefts, rights = sorted({l for l, _ in told}), sorted({r for _, r in told})
    boxes = set()
    for a, b in itertools.combinations_with_replacement(lefts, 2):
        for c, d in itertools.combinations_with_replacement(rights, 2):
            if not any(a <= l <= b and c <= r <= d for l, r in others):
                inside = frozenset(i for i, (l, r) in enumerate(told) if a <= l <= b and c <= r <= d)
                if inside:
                    boxes.add(inside)
    by_member = {i: sorted((box for box in boxes if i in box), key=len, reverse=True) for i in range(len(told))}

    @cache
    def least(left):
        if not left:
            return 0
        return 1 + min(least(left - box) for box in by_member[min(left)] if box <= left)

    return least(frozenset(range(len(told))))
