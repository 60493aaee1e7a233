"""Boards with several range attributes by exhaustion: who is in which list, who must hear of what, whom a tile reaches.

Objects are (id, x, y, created) with x a tuple; a subscription is (shape, params, k), ends of boxes infinite where
unbounded. The arithmetic of `holds` is the definition of the shapes, operation by operation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

INF = float("inf")


class Object(NamedTuple):
    id: int
    x: tuple[float, ...]
    y: float
    created: int


class Subscription(NamedTuple):
    shape: str
    params: tuple[float, ...]
    k: int


class Tile(NamedTuple):
    shape: str
    k: int
    side: tuple[float, ...]
    object: Object
    gone: bool


def holds(shape: str, params: tuple[float, ...], x: tuple[float, ...]) -> bool:
    """Is the point in the closed region?"""
    if shape == "box":
        return all(l <= v <= r for l, v, r in zip(params[::2], x, params[1::2], strict=True))
    if shape == "disc":
        dx, dy = x[0] - params[0], x[1] - params[1]
        return dx * dx + dy * dy <= params[2] * params[2]
    if shape == "half_plane":
        return params[0] * x[0] + params[1] * x[1] <= params[2]
    corners = [params[0:2], params[2:4], params[4:6]]
    turns = []
    for (ax, ay), (bx, by) in zip(corners, [*corners[1:], corners[0]], strict=True):
        turns.append((bx - ax) * (x[1] - ay) - (by - ay) * (x[0] - ax))
    around = all(min(side) <= v <= max(side) for side, v in zip(zip(*corners, strict=True), x, strict=True))
    return around and not (any(turn < 0 for turn in turns) and any(turn > 0 for turn in turns))


def top(objects: Any, one: Subscription) -> list[Object]:
    """The list of a subscription, best first."""
    inside = [o for o in objects if holds(one.shape, one.params, o.x)]
    return sorted(inside, key=lambda o: (o.y, o.created))[: one.k]


def must_hear(
    before: list[Object], after: list[Object], changed: int, one: Subscription, touched: bool = False
) -> set[int]:
    """The ids an exact algorithm tells a subscription when object `changed` turns `before` into `after`."""
    old, new = top(before, one), top(after, one)
    need = {o.id for o in new} - {o.id for o in old}
    if changed in {o.id for o in (*old, *new)}:
        values = [next((o.y for o in world if o.id == changed), None) for world in (before, after)]
        if values[0] != values[1] or touched:
            need.add(changed)
    return need


def reaches(tile: Tile, one: Subscription) -> bool:
    """The definition of a tile: class, and all sides. A finite outer side takes in no unbounded end."""
    if (tile.shape, tile.k) != (one.shape, one.k):
        return False
    side, params = tile.side, one.params
    if tile.shape != "box":
        return all(side[2 * j] <= v <= side[2 * j + 1] for j, v in enumerate(params))
    inside = True
    for j in range(len(params) // 2):
        l_outer, l_inner, r_inner, r_outer = (_outside(v) for v in side[4 * j : 4 * j + 4])
        l, r = params[2 * j : 2 * j + 2]
        inside &= (l_outer == -INF or l > l_outer) and l <= l_inner and r >= r_inner and (r_outer == INF or r < r_outer)
    return inside


def _outside(v: float) -> float:
    return v if abs(v) < 1.7e308 else INF if v > 0 else -INF


def hear(mine: list[Object], tiles: list[Tile], one: Subscription) -> tuple[list[Object], list[int]]:
    """The subscriber protocol: the list after the tiles that reach it, and the ids heard."""
    held = {o.id: o for o in mine}
    heard = []
    for tile in tiles:
        if reaches(tile, one):
            heard.append(tile.object.id)
            held.pop(tile.object.id, None)
            if not tile.gone:
                held[tile.object.id] = tile.object
            held = {o.id: o for o in sorted(held.values(), key=lambda o: (o.y, o.created))[: one.k]}
    return list(held.values()), heard
