"""Which subscriptions a tile reaches: an R-tree over the points (l, r) of those that are followed in a zone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic

from app.gateway.lists import INF, P, Point, Tile

FAR = 1e301
"""In place of infinity, which the R-tree has not."""

FEW = 8
"""Subscriptions up to which each is looked at."""


class Readers(Generic[P]):
    """Subscriptions by their points. Those with another k than a tile are in a tree of their own."""

    def __init__(self) -> None:
        self._numbers: dict[P, int] = {}
        self._by_k: dict[int, tuple[Any, dict[int, P]]] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._numbers)

    def __iter__(self) -> Iterator[P]:
        return iter(list(self._numbers))

    def __contains__(self, one: object) -> bool:
        return one in self._numbers

    def add(self, one: P) -> None:
        """Add a subscription that is not there. O(log n)."""
        from rtree import index

        if one.k not in self._by_k:
            self._by_k[one.k] = index.Index(), {}
        tree, members = self._by_k[one.k]
        self._next += 1
        self._numbers[one] = self._next
        members[self._next] = one
        tree.insert(self._next, _box(one))

    def remove(self, one: P) -> None:
        """Remove a subscription, as it was when it was added. O(log n)."""
        number = self._numbers.pop(one)
        tree, members = self._by_k[one.k]
        tree.delete(number, _box(one))
        del members[number]
        if not members:
            del self._by_k[one.k]

    def reached(self, tile: Tile) -> Iterator[P]:
        """The subscriptions that a tile reaches. O(log n) and O(1) for each."""
        found = self._by_k.get(tile.k)
        if found is None:
            return iter(())
        tree, members = found
        if len(members) <= FEW:
            near = iter(members.values())
        else:
            west, east = max(-FAR, tile.l_outer), max(-FAR, tile.l_inner)
            south, north = min(FAR, tile.r_inner), min(FAR, tile.r_outer)
            near = (members[number] for number in tree.intersection((west, south, east, north)))
        return tile.reached(near)


def _box(one: Point) -> tuple[float, float, float, float]:
    l = -FAR if one.l == -INF else one.l
    r = FAR if one.r == INF else one.r
    return l, r, l, r
