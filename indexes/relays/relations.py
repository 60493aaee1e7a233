"""Relation graphs with all that they need: which subscriptions are known to cover which, and so what to forward.

`Known` is G_k, by kernels; `alternatives/graphs.py` has G* and the poset. What is forwarded is the same under all of
them ([Covering] III-B).

A subscription is forwarded when nothing covers it, and stays forwarded when a younger one comes that does: only one
that is not forwarded is ever promoted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from indexes.compiled.kept import Keeper, Words, declare
from indexes.core.arrays import Bools, Bytes, Ints, Ints32, run_lengths
from indexes.relays.alternatives.linear import LinearIndex
from indexes.relays.alternatives.z_order import ZIndex
from indexes.relays.kernels import graph as edges
from indexes.relays.kernels.by_age import sort_by_age
from indexes.relays.kernels.covering_index import CoverIndex
from indexes.relays.kernels.forward import SUBSCRIBE, Forwarding, Outcome, Worked, any_ends, example, run
from indexes.relays.kernels.kd_tree import KdIndex
from indexes.relays.kernels.points import NO_SLOTS, Points


class WithKd(NamedTuple):
    """What `forward.run` works on where the index is a k-d tree, as kernels keep it."""

    words: Words


class WithZOrder(NamedTuple):
    """The same with a Z-order index."""

    words: Words


class WithRows(NamedTuple):
    """The same with a scan."""

    words: Words


KINDS: dict[type[CoverIndex], type[Any]] = {KdIndex: WithKd, ZIndex: WithZOrder, LinearIndex: WithRows}
"""How the parts that `forward.run` works on are kept, by the index."""


class Decisions(NamedTuple):
    """The outcome of commands, in their order; slots are in order of age.

    `forward`: whether the command itself is to be forwarded. The coverers of the subscription of command i (none if it
    unsubscribes) end at ``coverers[coverers_upto[i]]``, the subscriptions that it promotes at
    ``promoted[promoted_upto[i]]``.
    """

    forward: Bools
    coverers: Ints32
    coverers_upto: Ints
    promoted: Ints32
    promoted_upto: Ints

    def covered_by(self, i: int) -> Ints32:
        """The coverers of command i."""
        return self.coverers[self.coverers_upto[i - 1] if i else 0 : self.coverers_upto[i]]

    def promoted_by(self, i: int) -> Ints32:
        """What command i promotes."""
        return self.promoted[self.promoted_upto[i - 1] if i else 0 : self.promoted_upto[i]]

    @property
    def named(self) -> tuple[Ints32, Ints]:
        """The coverers of each command that subscribes and what each other one promotes, command by command, and where
        those of each end."""
        covered, promoted = self.coverers_upto, self.promoted_upto
        if not len(self.promoted):
            return self.coverers, covered
        if not len(self.coverers):
            return self.promoted, promoted
        by = [np.repeat(np.arange(len(upto)), run_lengths(upto)) for upto in (covered, promoted)]
        order = np.argsort(np.concatenate(by), kind="stable")
        return np.concatenate([self.coverers, self.promoted])[order], covered + promoted


class Relations(ABC):
    """The subscriptions that concern one neighbour. Slots are those of a table that the caller keeps, and the slots of
    commands must be in the table."""

    def __init__(self, index: CoverIndex) -> None:
        self.index = index
        self.forwarded: Bools = np.zeros(0, np.bool_)
        self._there = 0
        self._unforwarded = 0
        self.seen = np.zeros((2, 3), np.int64)
        """Nodes, comparisons and searches so far, by subscribing and by unsubscribing."""

    def __len__(self) -> int:
        """How many subscriptions there are."""
        return self._there

    @property
    def forwarded_count(self) -> int:
        """How many of them have been forwarded. O(1)."""
        return self._there - self._unforwarded

    def apply(self, points: Points, op: Bytes, slots: Ints32) -> Decisions:
        """Carry out commands in order: to subscribe a slot that is not there, or to unsubscribe one that is. A slot is
        subscribed at most once in a call."""
        self.reach(len(points.age))
        return self._apply(points, op, slots)

    def reach(self, room: int) -> None:
        """Make room in `forwarded` for so many slots."""
        more = room - len(self.forwarded)
        if more > 0:
            self.forwarded = np.concatenate([self.forwarded, np.zeros(more, np.bool_)])

    def lay_out(self, points: Points) -> None:
        """Lay out the index as tightly as it can be. O(n log n)."""
        slots = self.index.slots()
        self.index = type(self.index)(points.exact.shape[1])
        self.index.load(points, np.sort(slots))

    def mark_forwarded(self, slots: Ints32) -> None:
        """Mark present subscriptions as forwarded, whatever covers them."""
        self._unforwarded -= int((~self.forwarded[slots]).sum())
        self.forwarded[slots] = True

    @abstractmethod
    def _apply(self, points: Points, op: Bytes, slots: Ints32) -> Decisions:
        """As `apply`, with room in `forwarded`."""

    @abstractmethod
    def coverers(self, slot: int) -> list[int]:
        """The slots with an edge to this one, in no order."""

    def check(self, points: Points, slots: Ints32) -> None:
        """Raise AssertionError unless these are the subscriptions, counted rightly, and every edge right; O(n^2)."""
        self.index.check(points)
        assert len(self) == len(slots)
        assert self.forwarded_count == int(self.forwarded[slots].sum())


class Known(Relations):
    """G_k. With `roots` (k = 1 only) the index holds only subscriptions without an edge into them."""

    def __init__(self, index: CoverIndex, k: int = 1, roots: bool | None = None) -> None:
        if k < 1:
            raise ValueError("k must be at least 1")
        super().__init__(index)
        self.k = k
        self.roots = k == 1 if roots is None else roots
        if self.roots and k > 1:
            raise ValueError("roots alone cannot tell k > 1 coverers")
        self.graph = edges.empty_graph(0, k)
        self._orphans = self._promoted = np.empty(0, np.int32)
        self._keeper: Keeper[Any] = Keeper(KINDS[type(index)])

    def _apply(self, points: Points, op: Bytes, slots: Ints32) -> Decisions:
        n, k, room = len(op), self.k, len(points.age)
        added = n - int(np.count_nonzero(op)) if any_ends(op) else n
        # With roots alone in the index, all others may become roots.
        self.index.reserve(added + self._there - len(self.index), room)
        self._there += 2 * added - n
        self.graph = edges.grown(self.graph, room, k)
        if len(self._orphans) < room:
            self._orphans = np.empty(len(self.graph.head), np.int32)
        if len(self._promoted) < self._unforwarded + added:
            self._promoted = np.empty(2 * (self._unforwarded + added), np.int32)
        outcome = Outcome(
            np.empty(n, np.bool_), np.empty(n * k, np.int32), np.empty(n, np.int64), np.empty(n, np.int64)
        )
        forward, coverers, covered, upto = outcome
        used = run(self._kept(points), op, slots, outcome)
        kept_back = forward.tobytes().count(0)
        of_new = kept_back if added == n else int(np.count_nonzero((op == SUBSCRIBE) & ~forward))
        self._unforwarded += 2 * of_new - kept_back - used
        chosen = coverers[: covered[-1]] if n else coverers
        if k > 1:
            sort_by_age(chosen, covered, points.age)
        raised = self._promoted[:used].copy() if used else NO_SLOTS
        if used > 1:
            sort_by_age(raised, upto, points.age)
        return Decisions(forward, chosen, covered, raised, upto)

    def lay_out(self, points: Points) -> None:
        super().lay_out(points)
        # The former index would stay in memory with the kept arguments.
        self._keeper.clear()

    def _kept(self, points: Points) -> Any:
        """The current parts, as `run` takes them."""
        index, seen, k, roots = self.index.arrays, self.seen, self.k, self.roots
        parts = index, points, self.graph, self.forwarded, self._orphans, self._promoted, seen, k, roots

        def whole() -> Worked:
            return index, points, Forwarding(*parts[2:])

        return self._keeper.kept(parts, whole)

    def take_up(self, graph: edges.Graph, slots: Ints32) -> None:
        """Continue with a graph of these subscriptions, whose index is in place: those without an edge into them have
        been forwarded."""
        self.graph = graph
        self.reach(len(graph.head))
        self.forwarded[slots] = graph.degree[slots] == 0
        self._there = len(slots)
        self._unforwarded = int((~self.forwarded[slots]).sum())

    def coverers(self, slot: int) -> list[int]:
        base = slot * self.k
        return self.graph.parent[base : base + self.graph.degree[slot]].tolist()

    def check(self, points: Points, slots: Ints32) -> None:
        super().check(points, slots)
        g = self.graph
        held = [s for s in slots.tolist() if not self.roots or g.degree[s] == 0]
        assert sorted(self.index.slots().tolist()) == sorted(held)
        out: dict[int, set[int]] = {s: set() for s in slots.tolist()}
        for s in slots.tolist():
            mine, all_of_them = self.coverers(s), set(coverers_among(points, slots, s).tolist())
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


def coverers_among(points: Points, among: Ints32, slot: int) -> Ints32:
    """Which of some slots cover a slot, by the definition. O(d n)."""
    exact, age = points.exact, points.age
    contains = (exact[among] >= exact[slot]).all(axis=1)
    older = (exact[among] != exact[slot]).any(axis=1) | (age[among] < age[slot])
    return among[contains & older]


def _example(index: type[CoverIndex]) -> Worked:
    return example(index(2).arrays)


for _index, _kind in KINDS.items():
    declare(_kind, partial(_example, _index))
