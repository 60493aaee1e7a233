"""Objects of a board in a dictionary: position order, rank order and every query by sorting or scanning."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Callable
from typing import Any, NamedTuple

INF = float("inf")


class Thing(NamedTuple):
    """An object; present unless y is infinite."""

    x: float
    y: float
    created: int

    @property
    def position(self) -> tuple[float, int]:
        return (self.x, self.created)

    @property
    def rank(self) -> tuple[float, int]:
        return (self.y, self.created)


class Objects:
    """Things by row. Queries answer with rows."""

    def __init__(self) -> None:
        self.things: dict[int, Thing] = {}

    def _rows(self, keep: Callable[..., Any], key: Callable[..., Any] = lambda thing: thing.rank) -> list[int]:
        rows = [row for row, thing in self.things.items() if thing.y < INF and keep(thing)]
        return sorted(rows, key=lambda row: key(self.things[row]))

    def west(self, row: int, limit: tuple[float, int]) -> list[int]:
        """Everything before a row in position order that ranks before `limit`, nearest first."""
        me = self.things[row].position
        return self._rows(lambda t: t.position < me and t.rank < limit, lambda t: t.position)[::-1]

    def east(self, row: int, limit: tuple[float, int]) -> list[int]:
        """Everything after a row in position order that ranks before `limit`, nearest first."""
        me = self.things[row].position
        return self._rows(lambda t: t.position > me and t.rank < limit, lambda t: t.position)

    def top(self, lo: float, hi: float, k: int) -> list[int]:
        return self._rows(lambda t: lo <= t.x <= hi)[:k]

    def count(self, lo: float, hi: float) -> int:
        return len(self._rows(lambda t: lo <= t.x <= hi))

    def min_y(self, lo: float, hi: float, bound: tuple[float, int]) -> int | None:
        rows = self._rows(lambda t: lo <= t.x <= hi and t.rank > bound)
        return rows[0] if rows else None

    def sweep(self, row: int, y_new: float, k: int) -> list[int]:
        """What `row` would fall behind at y_new, unless k nearer objects of the same side rank before it."""
        me = self.things[row]
        found = []
        for side in (self.west(row, (INF, 0)), self.east(row, (INF, 0))):
            nearer: list[tuple[float, int]] = []
            for other in side:
                rank = self.things[other].rank
                if me.rank < rank < (y_new, me.created) and bisect_left(nearer, rank) < k:
                    found.append(other)
                insort(nearer, rank)
        return sorted(found, key=lambda other: self.things[other].rank)

    def exposed(self, row: int, y_new: float, k: int) -> list[int]:
        """What enters some list of k as `row` worsens to y_new, found by asking every range that matters."""
        old, gained = self.things[row], set()
        xs = sorted({thing.x for thing in self.things.values()})
        ranges = [(l, r) for l in xs for r in xs if l <= old.x <= r]
        before = [set(self.top(l, r, k)) for l, r in ranges]
        self.things[row] = old._replace(y=y_new)
        for (l, r), had in zip(ranges, before, strict=True):
            gained |= set(self.top(l, r, k)) - had
        self.things[row] = old
        return sorted(gained, key=lambda other: self.things[other].rank)
