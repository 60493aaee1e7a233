"""The forwarding decisions of a relay under G_k ([Covering] III-C): subscribe and unsubscribe against a covering index
and a relation graph.

A new subscription is forwarded exactly when nothing covers it. When a subscription ends, each that it alone was known
to cover is searched for again; one that is now uncovered, and has not been forwarded yet, is promoted.

With k = 1 only roots, which have no edge into them, need to be in the index: covering is transitive, and only roots are
ever found as coverers. Orphans must then be searched for in an order in which those that cover others come first
(`coverers_first`), so that they are back in the index by then.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from indexes.compiled.jit import internal, kernel
from indexes.compiled.kept import unpacked
from indexes.core.arrays import Bools, Bytes, Ints, Ints32
from indexes.relays.kernels.covering_index import CoverArrays, cover, delete, insert
from indexes.relays.kernels.graph import Graph, empty_graph, link, remove
from indexes.relays.kernels.points import Points, empty_points, goes_before

SUBSCRIBE, UNSUBSCRIBE = 0, 1
"""What a command does, in `op` columns."""


def any_ends(op: Bytes) -> bool:
    """Whether any of some commands unsubscribes; by their bytes, since most often there are few."""
    return UNSUBSCRIBE in op.tobytes()


class Forwarding(NamedTuple):
    """What is known of the subscriptions of one neighbour: G_k, and which of them have been `forwarded`, by slot. With
    `roots` the index holds roots alone. `orphans` is scratch with room for every slot. `promoted` is where commands put
    what they promote, with room for all subscriptions, present and new. Row 0 of `seen` counts for subscribing, row 1
    for unsubscribing."""

    graph: Graph
    forwarded: Bools
    orphans: Ints32
    promoted: Ints32
    seen: Ints
    k: int
    roots: bool


Worked = tuple[CoverArrays, Points, Forwarding]
"""What `run` works on: an index, the table of its points, and what is known of the subscriptions."""


def example(index: CoverArrays) -> Worked:
    """Empty parts of the types that `run` works on, with this index."""
    none, seen = np.empty(0, np.int32), np.zeros((2, 3), np.int64)
    known = Forwarding(empty_graph(0, 1), np.zeros(0, np.bool_), none, none, seen, 1, True)
    return index, empty_points(0, 2), known


class Outcome(NamedTuple):
    """The outcome of commands. ``forward[i]``: whether command i itself is forwarded. ``coverers[: covered[i]]``: what
    covers the subscriptions that commands 0 to i begin, with room for k of each command; ``promoted[: upto[i]]`` of
    `Forwarding`: what these commands promote."""

    forward: Bools
    coverers: Ints32
    covered: Ints
    upto: Ints


@internal
def _sift(points: Points, heap: Ints32, place: int, size: int) -> None:
    """Sift heap[place] down in a heap of `size` whose top is the last in the order."""
    x = heap[place]
    child = 2 * place + 1
    while child < size:
        if child + 1 < size and goes_before(points, heap[child], heap[child + 1]):
            child += 1
        if goes_before(points, x, heap[child]):
            heap[place] = heap[child]
            place = child
            child = 2 * place + 1
        else:
            child = size
    heap[place] = x


@internal
def _sort(points: Points, slots: Ints32, size: int) -> None:
    """Arrange slots[:size] in the order of `coverers_first`. O(n log n) comparisons."""
    for place in range(size // 2 - 1, -1, -1):
        _sift(points, slots, place, size)
    for m in range(size - 1, 0, -1):
        slots[0], slots[m] = slots[m], slots[0]
        _sift(points, slots, 0, m)


@kernel
def run(kept: Any, op: Bytes, slots: Ints32, outcome: Outcome) -> int:
    """Carry out commands ``op[i]`` on ``slots[i]`` one after the other, on a `Worked` that is kept; returns how many
    subscriptions are promoted."""
    index, points, known = unpacked(kept)
    graph, forwarded, orphans, k, roots = known.graph, known.forwarded, known.orphans, known.k, known.roots
    coverers, promoted, seen = outcome.coverers, known.promoted, known.seen
    n = 0
    m = 0
    for i in range(op.size):
        s = slots[i]
        if op[i] == SUBSCRIBE:
            c = cover(index, points, s, k, coverers, m, seen, 0)
            for z in range(m, m + c):
                link(graph, k, s, coverers[z])
            m += c
            forwarded[s] = c == 0
            if c == 0 or not roots:
                insert(index, points, s)
        else:
            if graph.degree[s] == 0 or not roots:
                delete(index, points, s)
            orphaned = remove(graph, k, s, orphans)
            if roots:
                _sort(points, orphans, orphaned)
            for z in range(orphaned):
                t = orphans[z]
                # The graph has the coverers of orphans; the next search writes over them here.
                c = cover(index, points, t, k, coverers, m, seen, 1)
                for y in range(m, m + c):
                    link(graph, k, t, coverers[y])
                if c == 0:
                    if roots:
                        insert(index, points, t)
                    if not forwarded[t]:
                        forwarded[t] = True
                        promoted[n] = t
                        n += 1
        outcome.forward[i] = forwarded[s]
        outcome.covered[i] = m
        outcome.upto[i] = n
    return n
