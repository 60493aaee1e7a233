"""Who must hear of what after a change on a board, and with how few tiles, by exhaustion.

Objects are (id, x, y, created); ranges are (l, r), closed, with infinities for unbounded ends.
"""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

INF = float("inf")


class Object(NamedTuple):
    id: Any
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


def top(objects: list[Object], l: float, r: float, k: int) -> list[Object]:
    """The k best objects with l <= x <= r by (y, created), best first."""
    inside = [one for one in objects if l <= one.x <= r]
    return sorted(inside, key=lambda one: (one.y, one.created))[:k]


def reaches(tile: Tile, l: float, r: float) -> bool:
    """The definition of a tile. Inner sides at +-MAX stand for unbounded ends."""
    west = tile.l_outer == -INF or l > tile.l_outer
    east = tile.r_outer == INF or r < tile.r_outer
    big = 1.7e308
    return west and max(l, -big) <= max(tile.l_inner, -big) and min(r, big) >= min(tile.r_inner, big) and east


def must_hear(
    before: list[Object], after: list[Object], changed: int, l: float, r: float, k: int, touched: bool = False
) -> set[int]:
    """The ids an exact algorithm tells the range (l, r) when object `changed` turns `before` into `after`."""
    old, new = top(before, l, r, k), top(after, l, r, k)
    need = {one.id for one in new} - {one.id for one in old}
    if changed in {one.id for one in (*old, *new)}:
        values = [next((one.y for one in world if one.id == changed), None) for world in (before, after)]
        if values[0] != values[1] or touched:
            need.add(changed)
    return need


def hear(mine: list[Object], tiles: list[Tile], l: float, r: float, k: int) -> tuple[list[Object], list[Any]]:
    """The subscriber protocol of II-A: the list after the tiles that reach it, and the ids heard."""
    held = {one.id: one for one in mine}
    heard = []
    for tile in tiles:
        if reaches(tile, l, r):
            heard.append(tile.object.id)
            if tile.gone:
                held.pop(tile.object.id, None)
            else:
                held[tile.object.id] = tile.object
            held = {one.id: one for one in sorted(held.values(), key=lambda one: (one.y, one.created))[:k]}
    return list(held.values()), heard


def every_range(objects: list[Object]) -> list[tuple[float, float]]:
    """One range for each cell and line of subscription space that the objects' x can tell apart."""
    xs = sorted({one.x for one in objects})
    steps = [-INF]
    for a, b in itertools.pairwise([xs[0] - 2, *xs, xs[-1] + 2] if xs else [0.0, 1.0]):
        steps += [a, (a + b) / 2] if a in xs else [(a + b) / 2]
    return list(itertools.product(steps, [*steps[1:], INF]))


def fewest_tiles(told: set[tuple[float, float]], all_ranges: list[tuple[float, float]]) -> int:
    """The least number of rectangles that reach each range of `told` once and no other of `all_ranges`; exponential."""
    others = set(all_ranges) - told
    if not told:
        return 0
    lefts, rights = sorted({l for l, _ in told}), sorted({r for _, r in told})
    members = list(told)
    boxes = set()
    for a, b in itertools.combinations_with_replacement(lefts, 2):
        for c, d in itertools.combinations_with_replacement(rights, 2):
            if not any(a <= l <= b and c <= r <= d for l, r in others):
                boxes.add(sum(1 << i for i, (l, r) in enumerate(members) if a <= l <= b and c <= r <= d))
    largest_first = sorted(boxes, key=int.bit_count, reverse=True)
    with_member = [[box for box in largest_first if box >> i & 1] for i in range(len(members))]

    def covers(left: int, n: int) -> bool:
        """Whether n rectangles or fewer, none of which meets another, cover these members: bits of a number."""
        if not left:
            return True
        if n * largest_first[0].bit_count() < left.bit_count():
            return False
        choices = with_member[(left & -left).bit_length() - 1]
        return any(covers(left ^ box, n - 1) for box in choices if box & left == box)

    # By depth first, with more and more rectangles: little memory, whatever the world.
    return next(n for n in itertools.count(1) if covers((1 << len(members)) - 1, n))
