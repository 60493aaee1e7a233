"""A board with several range attributes by brute force: regions, lists by sorting, subscribers on tiles alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

INF = float("inf")
Place = tuple[float, ...]


@dataclass(frozen=True)
class Where:
    """A region: its shape and its sides, as the service orders them."""

    shape: str
    sides: tuple[float, ...]

    def holds(self, x: Place) -> bool:
        """Whether a place is inside or on the border."""
        s = self.sides
        if self.shape == "box":
            return all(s[2 * i] <= at <= s[2 * i + 1] for i, at in enumerate(x))
        if self.shape == "disc":
            return (x[0] - s[0]) * (x[0] - s[0]) + (x[1] - s[1]) * (x[1] - s[1]) <= s[2] * s[2]
        if self.shape == "half_plane":
            return s[0] * x[0] + s[1] * x[1] <= s[2]
        corners = [(s[0], s[1]), (s[2], s[3]), (s[4], s[5])]
        turns = []
        for (ax, ay), (bx, by) in zip(corners, corners[1:] + corners[:1], strict=True):
            turns.append((bx - ax) * (x[1] - ay) - (by - ay) * (x[0] - ax))
        within = all(min(c[i] for c in corners) <= x[i] <= max(c[i] for c in corners) for i in (0, 1))
        return within and not (any(turn < 0 for turn in turns) and any(turn > 0 for turn in turns))


@dataclass
class Thing:
    """An object."""

    id: str
    x: Place
    y: float
    created: int
    payload: bytes | None = None


@dataclass
class Ask:
    """A subscription to the ranks offset + 1 to offset + k."""

    where: Where
    k: int
    offset: int = 0

    @property
    def depth(self) -> int:
        return self.k + self.offset


class World:
    """What is true. `order` is "asc" or "desc"; equal ranks go to the older object."""

    def __init__(self, order: str) -> None:
        self.sign = -1 if order == "desc" else 1
        self.things: dict[str, Thing] = {}
        self.asks: dict[str, Ask] = {}
        self.created = 0

    def key(self, thing: Thing) -> tuple[float, int]:
        return (self.sign * thing.y, thing.created)

    def top(self, where: Where, k: int) -> list[Thing]:
        return sorted((thing for thing in self.things.values() if where.holds(thing.x)), key=self.key)[:k]

    def list_of(self, key: str) -> list[Thing]:
        return self.top(self.asks[key].where, self.asks[key].depth)[self.asks[key].offset :]

    def upsert(self, key: str, x: tuple[float | None, ...], y: float | None) -> None:
        """Make an object or merge values into it."""
        thing = self.things.get(key)
        if thing is None:
            assert None not in x and y is not None
            self.things[key] = Thing(key, x, y, self.created)  # type: ignore[arg-type]
            self.created += 1
        else:
            thing.x = tuple(old if new is None else new for old, new in zip(thing.x, x, strict=True))
            thing.y = thing.y if y is None else y

    def deep(self, key: str) -> list[Thing]:
        """All that a subscriber on tiles keeps, the ranks that it passes over too."""
        return [replace(thing) for thing in self.top(self.asks[key].where, self.asks[key].depth)]

    def shown(self, key: str) -> list[tuple[Any, ...]]:
        return [(t.id, t.x, t.y, t.created, t.payload) for t in self.list_of(key)]


def reaches(tile: Any, ask: Ask) -> bool:
    """The wire's rule. A box: outer sides open, inner closed, an infinite outer side takes in all on that side."""
    if (tile.k, tile.shape) != (ask.depth, ask.where.shape):
        return False
    if tile.shape != "box":
        pairs = zip(tile.sides[::2], tile.sides[1::2], ask.where.sides, strict=True)
        return all(low <= side <= high for low, high, side in pairs)
    for i in range(len(ask.where.sides) // 2):
        l, r = ask.where.sides[2 * i : 2 * i + 2]
        l_outer, l_inner, r_inner, r_outer = tile.sides[4 * i : 4 * i + 4]
        west = l_outer is None or (l != -INF and l_outer < l)
        east = r_outer is None or (r != INF and r < r_outer)
        inner = (l == -INF if l_inner is None else l <= l_inner) and (r == INF if r_inner is None else r >= r_inner)
        if not (west and east and inner):
            return False
    return True


class TileSubscriber:
    """The subscriber's half of the protocol (paper, II-A): it sees tiles and nothing else."""

    def __init__(self, world: World, ask: Ask) -> None:
        self.world = world
        self.ask = replace(ask)
        self.list = [replace(thing) for thing in world.top(ask.where, ask.depth)]

    def apply(self, tile: Any) -> None:
        seen = tile.object
        self.list = [thing for thing in self.list if thing.id != seen.id]
        if not tile.gone:
            self.list.append(Thing(seen.id, seen.x, seen.y, seen.created, seen.payload))
            self.list.sort(key=self.world.key)
            self.list = self.list[: self.ask.depth]

    def shown(self) -> list[tuple[Any, ...]]:
        return [(t.id, t.x, t.y, t.created, t.payload) for t in self.list[self.ask.offset :]]
