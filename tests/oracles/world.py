"""A board by brute force: objects and subscriptions in dicts, lists by sorting, subscribers on tiles alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class Thing:
    id: str
    x: float
    y: float
    created: int
    payload: bytes | None = None


@dataclass
class Ask:
    """The ranks offset + 1 to offset + k of a range."""

    l: float
    r: float
    k: int
    offset: int = 0

    @property
    def depth(self) -> int:
        return self.offset + self.k


class World:
    """What is true. `order` is "asc" or "desc"; equal ranks go to the older object."""

    def __init__(self, order: str) -> None:
        self.sign = -1 if order == "desc" else 1
        self.things: dict[str, Thing] = {}
        self.asks: dict[str, Ask] = {}
        self.created = 0

    def key(self, thing: Any) -> tuple[float, int]:
        return (self.sign * thing.y, thing.created)

    def top(self, l: float, r: float, k: int) -> list[Thing]:
        inside = [thing for thing in self.things.values() if l <= thing.x <= r]
        return sorted(inside, key=self.key)[:k]

    def list_of(self, ask_id: str) -> list[Thing]:
        ask = self.asks[ask_id]
        return self.top(ask.l, ask.r, ask.depth)[ask.offset :]

    def whole(self, ask_id: str) -> list[Thing]:
        """The list from its first rank on."""
        ask = self.asks[ask_id]
        return [Thing(t.id, t.x, t.y, t.created, t.payload) for t in self.top(ask.l, ask.r, ask.depth)]

    def upsert(self, key: str, x: float | None, y: float | None) -> None:
        thing = self.things.get(key)
        if thing is None:
            assert x is not None and y is not None
            self.things[key] = Thing(key, x, y, self.created)
            self.created += 1
        else:
            thing.x = thing.x if x is None else x
            thing.y = thing.y if y is None else y

    def shown(self, ask_id: str) -> list[tuple[str, float, float, int, bytes | None]]:
        return [(t.id, t.x, t.y, t.created, t.payload) for t in self.list_of(ask_id)]


def reaches(tile: Any, ask: Ask) -> bool:
    """The wire's rule: outer sides open, inner closed, an infinite outer side takes in everything on that side."""
    infinity = float("inf")
    if tile.k != ask.depth:
        return False
    west = tile.l_outer is None or (ask.l != -infinity and tile.l_outer < ask.l)
    east = tile.r_outer is None or (ask.r != infinity and ask.r < tile.r_outer)
    inner_l = ask.l == -infinity if tile.l_inner is None else ask.l <= tile.l_inner
    inner_r = ask.r == infinity if tile.r_inner is None else ask.r >= tile.r_inner
    return west and east and inner_l and inner_r


class TileSubscriber:
    """The subscriber's half of the protocol (paper, II-A): it sees tiles and nothing else."""

    def __init__(self, world: World, ask: Ask) -> None:
        self.world = world
        self.ask = Ask(ask.l, ask.r, ask.k, ask.offset)
        self.list = world.top(ask.l, ask.r, ask.depth)
        self.list = [Thing(t.id, t.x, t.y, t.created, t.payload) for t in self.list]

    def apply(self, tile: Any) -> None:
        seen = tile.object
        self.list = [thing for thing in self.list if thing.id != seen.id]
        if not tile.gone:
            self.list.append(Thing(seen.id, seen.x, seen.y, seen.created, seen.payload))
            self.list.sort(key=self.world.key)
            self.list = self.list[: self.ask.depth]

    def shown(self) -> list[tuple[str, float, float, int, bytes | None]]:
        return [(t.id, t.x, t.y, t.created, t.payload) for t in self.list[self.ask.offset :]]
