"""Relation graphs with all that they need: which subscriptions are known to cover which, and so what to forward.

`Known` is G_k, by kernels. `Everything` (G*) has an edge for every pair, `Poset` those of them that no path replaces;
both are kept for the comparison, in plain sets: a change costs as many steps as it touches edges. What is forwarded is
the same under all of them.

A subscription is forwarded when nothing covers it, and stays so when a younger one comes that does: only one that is
not forwarded is ever promoted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.relays import graph as edges
from indexes.relays.forward import SUBSCRIBE, run
from indexes.relays.points import Int32, Points
from indexes.relays.search import QUERIES, CoverIndex

Bool = NDArray[np.bool_]
Int64 = NDArray[np.int64]


class Decisions(NamedTuple):
    """What commands come to, in their order; slots come in order of age.

    `forward` says whether the command itself is to be forwarded. What covers the subscription of command i (none if it
    unsubscribes) ends at ``coverers[coverers_upto[i]]``, what is promoted by it at ``promoted[promoted_upto[i]]``.
    """

    forward: Bool
    coverers: Int32
    coverers_upto: Int64
    promoted: Int32
    promoted_upto: Int64

    def covered_by(self, i: int) -> Int32:
        """The coverers of command i."""
        return self.coverers[self.coverers_upto[i - 1] if i else 0 : self.coverers_upto[i]]

    def promoted_by(self, i: int) -> Int32:
        """What command i promotes."""
        return self.promoted[self.promoted_upto[i - 1] if i else 0 : self.promoted_upto[i]]


class Relations(ABC):
    """The subscriptions that one neighbour may have to hear of. Slots are those of a table that the caller keeps, and
    what a command names must be in the table."""

    def __init__(self, index: CoverIndex) -> None:
        self.index = index
        self.forwarded: Bool = np.zeros(0, np.bool_)
        self._there = 0
        self._unforwarded = 0
        self.seen = np.zeros((2, 3), np.int64)
        """Nodes, comparisons and searches so far, by subscribing and by unsubscribing."""

    def __len__(self) -> int:
        """How many subscriptions there are."""
        return self._there

    @property
    def forwarded_count(self) -> int:
        """How many of them have been forwarded. O(1): it is counted as they come and go."""
        return self._there - self._unforwarded

    def apply(self, points: Points, op: NDArray[np.uint8], slots: Int32) -> Decisions:
        """Carry out commands in order: to subscribe a slot that is not there, or to unsubscribe one that is. A slot is
        subscribed at most once in a call."""
        self.reach(len(points.age))
        return self._apply(points, op, slots)

    def reach(self, room: int) -> None:
        """Have a flag for so many slots."""
        more = room - len(self.forwarded)
        if more > 0:
            self.forwarded = np.concatenate([self.forwarded, np.zeros(more, np.bool_)])

    def lay_out(self, points: Points) -> None:
        """Lay out the index as tightly as it can be. O(n log n)."""
        slots = self.index.slots()
        self.index = type(self.index)(points.exact.shape[1])
        self.index.load(points, np.sort(slots))

    def tell(self, slots: Int32) -> None:
        """These subscriptions, which are there, have been forwarded, whatever covers them."""
        self._unforwarded -= int((~self.forwarded[slots]).sum())
        self.forwarded[slots] = True

    @abstractmethod
    def _apply(self, points: Points, op: NDArray[np.uint8], slots: Int32) -> Decisions:
        """As `apply`, with room in `forwarded`."""

    @abstractmethod
    def coverers(self, slot: int) -> list[int]:
        """The slots with an edge to this one, in no order."""

    def check(self, points: Points, slots: Int32) -> None:
        """Raise AssertionError unless these are the subscriptions, counted rightly, and every edge right; O(n^2)."""
        self.index.check(points)
        assert len(self) == len(slots)
        assert self.forwarded_count == int(self.forwarded[slots].sum())


class Known(Relations):
    """G_k. With `roots` (k = 1 only) the index holds nothing but what has no edge into it."""

    def __init__(self, index: CoverIndex, k: int = 1, roots: bool | None = None) -> None:
        if k < 1:
            raise ValueError("k must be at least 1")
        super().__init__(index)
        self.k = k
        self.roots = k == 1 if roots is None else roots
        if self.roots and k > 1:
            raise ValueError("roots alone cannot tell k > 1 coverers")
        self.graph = edges.empty_graph(0, k)
        self._orphans = np.empty(0, np.int32)

    def _apply(self, points: Points, op: NDArray[np.uint8], slots: Int32) -> Decisions:
        n, k, room = len(op), self.k, len(points.age)
        added = int((op == SUBSCRIBE).sum())
        # With roots alone in the index, all others may become roots.
        self.index.reserve(added + self._there - len(self.index), room)
        self._there += 2 * added - n
        self.graph = edges.grown(self.graph, room, k)
        if len(self._orphans) < room:
            self._orphans = np.empty(len(self.graph.head), np.int32)
        forward, found = np.empty(n, np.bool_), np.empty(n, np.int64)
        coverers, upto = np.empty(n * k, np.int32), np.empty(n, np.int64)
        promoted = np.empty(self._unforwarded + added, np.int32)
        used = run(
            self.index.arrays,
            points,
            self.graph,
            self.forwarded,
            k,
            self.roots,
            op,
            slots,
            forward,
            coverers,
            found,
            promoted,
            upto,
            self._orphans,
            self.seen,
        )
        subscribed = op == SUBSCRIBE
        self._unforwarded += int((subscribed & ~forward).sum()) - int((~subscribed & ~forward).sum()) - used
        kept = np.arange(k) < found[:, None]
        of = np.repeat(np.arange(n), found)
        chosen = coverers.reshape(n, k)[kept]
        chosen = chosen[np.lexsort((points.age[chosen], of))]
        raised = promoted[:used]
        by = np.repeat(np.arange(n), np.diff(upto, prepend=0))
        raised = raised[np.lexsort((points.age[raised], by))]
        return Decisions(forward, chosen, np.cumsum(found), raised, upto)

    def take_up(self, graph: edges.Graph, slots: Int32) -> None:
        """Go on with a graph of these subscriptions, whose index is there: those without an edge into them have been
        forwarded."""
        self.graph = graph
        self.reach(len(graph.head))
        self.forwarded[slots] = graph.degree[slots] == 0
        self._there = len(slots)
        self._unforwarded = int((~self.forwarded[slots]).sum())

    def coverers(self, slot: int) -> list[int]:
        base = slot * self.k
        return self.graph.parent[base : base + self.graph.degree[slot]].tolist()

    def check(self, points: Points, slots: Int32) -> None:
        super().check(points, slots)
        g = self.graph
        held = [s for s in slots.tolist() if not self.roots or g.degree[s] == 0]
        assert sorted(self.index.slots().tolist()) == sorted(held)
        out: dict[int, set[int]] = {s: set() for s in slots.tolist()}
        for s in slots.tolist():
            mine, all_of_them = self.coverers(s), set(_coverers(points, slots, s))
            assert len(set(mine)) == len(mine) <= self.k and set(mine) <= all_of_them, (s, mine, all_of_them)
            assert bool(mine) or self.forwarded[s], s
            for i, parent in enumerate(mine):
                out[parent].add(s * self.k + i)
        for s, wanted in out.items():
            e, before = int(g.head[s]), -1
            listed = []
            while e >= 0:
                assert g.before[e] == before
                listed.append(e)
                e, before = int(g.after[e]), e
            assert len(listed) == len(wanted) and set(listed) == wanted, (s, listed, wanted)


class _Drawn(Relations):
    """What G* and the poset share: edges as sets, both ways."""

    def __init__(self, index: CoverIndex) -> None:
        super().__init__(index)
        self._above: dict[int, set[int]] = {}
        self._below: dict[int, set[int]] = {}

    def _apply(self, points: Points, op: NDArray[np.uint8], slots: Int32) -> Decisions:
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
        self._joined(points, above, below)
        return [x for x in below if not self._above[x]]

    @abstractmethod
    def _wanted(self, above: set[int], below: set[int]) -> tuple[set[int], set[int]]:
        """Of all that cover a new subscription and all that it covers, those that get an edge."""

    @abstractmethod
    def _joined(self, points: Points, above: set[int], below: set[int]) -> None:
        """Draw the edges that stand for paths through a subscription that has gone."""

    def coverers(self, slot: int) -> list[int]:
        return list(self._above[slot])

    def check(self, points: Points, slots: Int32) -> None:
        super().check(points, slots)
        assert sorted(self._above) == sorted(self._below) == sorted(slots.tolist())
        everything = {s: set(_coverers(points, slots, s)) for s in slots.tolist()}
        for s, above in self._above.items():
            assert above == self._direct(everything, s), (s, above)
            assert above or self.forwarded[s], s
            assert all(s in self._below[x] for x in above)
        assert sum(map(len, self._above.values())) == sum(map(len, self._below.values()))

    @abstractmethod
    def _direct(self, everything: dict[int, set[int]], s: int) -> set[int]:
        """What should have an edge to s, given all that cover each."""


class Everything(_Drawn):
    """G*: an edge for every pair."""

    def _wanted(self, above: set[int], below: set[int]) -> tuple[set[int], set[int]]:
        return above, below

    def _joined(self, points: Points, above: set[int], below: set[int]) -> None:
        pass

    def _direct(self, everything: dict[int, set[int]], s: int) -> set[int]:
        return everything[s]


class Poset(_Drawn):
    """The strict poset: G* without the edges that a longer path replaces."""

    def _wanted(self, above: set[int], below: set[int]) -> tuple[set[int], set[int]]:
        nearest = {x for x in above if not self._below[x] & above}
        farthest = {x for x in below if not self._above[x] & below}
        for x in nearest:
            for y in self._below[x] & farthest:
                self._above[y].discard(x)
            self._below[x] -= farthest
        return nearest, farthest

    def _joined(self, points: Points, above: set[int], below: set[int]) -> None:
        for x in above:
            for y in below:
                between = np.fromiter(self._below[x], np.int32, len(self._below[x]))
                if not len(_coverers(points, between, y)):
                    self._below[x].add(y)
                    self._above[y].add(x)

    def _direct(self, everything: dict[int, set[int]], s: int) -> set[int]:
        above = everything[s]
        return {x for x in above if not any(x in everything[y] for y in above)}


def _coverers(points: Points, among: Int32, t: int) -> list[int]:
    """Which of some slots cover t. O(n)."""
    exact, age = points.exact, points.age
    contains = (exact[among] >= exact[t]).all(axis=1)
    older = (exact[among] != exact[t]).any(axis=1) | (age[among] < age[t])
    return among[contains & older].tolist()


def _covered(points: Points, among: Int32, s: int) -> list[int]:
    """Which of some slots s covers. O(n)."""
    exact, age = points.exact, points.age
    within = (exact[among] <= exact[s]).all(axis=1)
    younger = (exact[among] != exact[s]).any(axis=1) | (age[among] > age[s])
    return among[within & younger].tolist()


def _by_age(points: Points, slots: Iterable[int]) -> list[int]:
    return sorted(slots, key=lambda s: int(points.age[s]))
