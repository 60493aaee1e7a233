"""Relation graphs that a relay can be configured with in place of G_k: G*, with an edge for every pair, and the poset,
without the edges that a longer path replaces ([Covering] III-B).

Both are kept for comparison, in plain sets: a change costs as many steps as it touches edges.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable

import numpy as np

from indexes.core.arrays import Bytes, Ints32
from indexes.relays.kernels.covering_index import QUERIES, CoverIndex
from indexes.relays.kernels.forward import SUBSCRIBE
from indexes.relays.kernels.points import Points
from indexes.relays.relations import Decisions, Relations, coverers_among


class _EdgeSets(Relations):
    """Edges as sets, in both directions."""

    def __init__(self, index: CoverIndex) -> None:
        super().__init__(index)
        self._above: dict[int, set[int]] = {}
        self._below: dict[int, set[int]] = {}

    def _apply(self, points: Points, op: Bytes, slots: Ints32) -> Decisions:
        forward: list[bool] = []
        coverers: list[int] = []
        promoted: list[int] = []
        upto: list[tuple[int, int]] = []
        for o, s in zip(op.tolist(), slots.tolist(), strict=True):
            if o == SUBSCRIBE:
                above = self._subscribe(points, s)
                self.forwarded[s] = not above
                self._there += 1
                self._unforwarded += bool(above)
                coverers += _by_age(points, above)
            else:
                orphans = self._unsubscribe(points, s)
                raised = [t for t in orphans if not self.forwarded[t]]
                self.forwarded[raised] = True
                self._there -= 1
                self._unforwarded -= len(raised) + (not self.forwarded[s])
                promoted += _by_age(points, raised)
            forward.append(bool(self.forwarded[s]))
            upto.append((len(coverers), len(promoted)))
        ends = np.array(upto, np.int64).reshape(-1, 2)
        return Decisions(
            np.array(forward, np.bool_),
            np.array(coverers, np.int32),
            ends[:, 0],
            np.array(promoted, np.int32),
            ends[:, 1],
        )

    def _subscribe(self, points: Points, s: int) -> set[int]:
        """Add s with its edges; returns what has an edge to it."""
        above = set(self.index.cover(points, s, len(self.index)).tolist())
        self.seen[0, QUERIES] += 1
        below = set(_covered(points, np.fromiter(self._above, np.int32, len(self._above)), s))
        self.index.insert(points, np.array([s], np.int32))
        above, below = self._wanted(above, below)
        self._above[s], self._below[s] = above, below
        for x in above:
            self._below[x].add(s)
        for x in below:
            self._above[x].add(s)
        return above

    def _unsubscribe(self, points: Points, s: int) -> Iterable[int]:
        """Take out s with its edges; returns what is left without an edge to it."""
        self.index.delete(points, np.array([s], np.int32))
        above, below = self._above.pop(s), self._below.pop(s)
        for x in above:
            self._below[x].discard(s)
        for x in below:
            self._above[x].discard(s)
        self._bridge(points, above, below)
        return [x for x in below if not self._above[x]]

    @abstractmethod
    def _wanted(self, above: set[int], below: set[int]) -> tuple[set[int], set[int]]:
        """Of all that cover a new subscription and all that it covers, those that get an edge."""

    @abstractmethod
    def _bridge(self, points: Points, above: set[int], below: set[int]) -> None:
        """Add the edges that replace paths through a subscription that has ended."""

    def coverers(self, slot: int) -> list[int]:
        return list(self._above[slot])

    def check(self, points: Points, slots: Ints32) -> None:
        super().check(points, slots)
        assert sorted(self._above) == sorted(self._below) == sorted(slots.tolist())
        everything = {s: set(coverers_among(points, slots, s).tolist()) for s in slots.tolist()}
        for s, above in self._above.items():
            assert above == self._direct(everything, s), (s, above)
            assert above or self.forwarded[s], s
            assert all(s in self._below[x] for x in above)
        assert sum(map(len, self._above.values())) == sum(map(len, self._below.values()))

    @abstractmethod
    def _direct(self, everything: dict[int, set[int]], s: int) -> set[int]:
        """What should have an edge to s, given all that cover each."""


class CompleteGraph(_EdgeSets):
    """G*: an edge for every pair."""

    def _wanted(self, above: set[int], below: set[int]) -> tuple[set[int], set[int]]:
        return above, below

    def _bridge(self, points: Points, above: set[int], below: set[int]) -> None:
        pass

    def _direct(self, everything: dict[int, set[int]], s: int) -> set[int]:
        return everything[s]


class Poset(_EdgeSets):
    """The strict poset: G* without the edges that a longer path replaces."""

    def _wanted(self, above: set[int], below: set[int]) -> tuple[set[int], set[int]]:
        nearest = {x for x in above if not self._below[x] & above}
        farthest = {x for x in below if not self._above[x] & below}
        for x in nearest:
            for y in self._below[x] & farthest:
                self._above[y].discard(x)
            self._below[x] -= farthest
        return nearest, farthest

    def _bridge(self, points: Points, above: set[int], below: set[int]) -> None:
        for x in above:
            for y in below:
                between = np.fromiter(self._below[x], np.int32, len(self._below[x]))
                if not len(coverers_among(points, between, y)):
                    self._below[x].add(y)
                    self._above[y].add(x)

    def _direct(self, everything: dict[int, set[int]], s: int) -> set[int]:
        above = everything[s]
        return {x for x in above if not any(x in everything[y] for y in above)}


def _covered(points: Points, among: Ints32, s: int) -> list[int]:
    """Which of some slots s covers. O(n)."""
    exact, age = points.exact, points.age
    within = (exact[among] <= exact[s]).all(axis=1)
    younger = (exact[among] != exact[s]).any(axis=1) | (age[among] > age[s])
    return among[within & younger].tolist()


def _by_age(points: Points, slots: Iterable[int]) -> list[int]:
    return sorted(slots, key=lambda s: int(points.age[s]))
