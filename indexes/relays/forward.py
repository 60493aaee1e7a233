"""What to forward, under G_k: subscribe and unsubscribe commands against an index and a graph (the paper, III-C).

A new subscription is forwarded exactly when nothing covers it. When one goes, each that it alone was known to cover is
asked again; what is now uncovered, and has not been forwarded yet, is promoted.

With k = 1 only roots, which have no edge into them, need to be in the index: covering is transitive, and the roots are
all that anything has been found to be covered by. Then orphans must be asked in an order in which those that cover
others come first (`coverers_first`), so that they are back in the index by then.
"""

from __future__ import annotations

from indexes.lean import inner_kernel, lean_kernel
from indexes.relays.graph import link, remove
from indexes.relays.points import goes_before
from indexes.relays.search import cover, delete, insert

SUBSCRIBE, UNSUBSCRIBE = 0, 1
"""What a command does, in `op` columns."""


@inner_kernel
def _sift(points, a, i, n):  # type: ignore[no-untyped-def]
    """Let a[i] sink in a heap of n whose top is the last in the order."""
    x = a[i]
    child = 2 * i + 1
    while child < n:
        if child + 1 < n and goes_before(points, a[child], a[child + 1]):
            child += 1
        if goes_before(points, x, a[child]):
            a[i] = a[child]
            i = child
            child = 2 * i + 1
        else:
            child = n
    a[i] = x


@inner_kernel
def _sort(points, a, n):  # type: ignore[no-untyped-def]
    """Arrange a[:n] in the order of `coverers_first`. O(n log n) comparisons."""
    for i in range(n // 2 - 1, -1, -1):
        _sift(points, a, i, n)
    for m in range(n - 1, 0, -1):
        a[0], a[m] = a[m], a[0]
        _sift(points, a, 0, m)


@lean_kernel
def run(o, points, graph, forwarded, k, roots, op, slot, forward, coverers, found, promoted, upto, orphans, seen):  # type: ignore[no-untyped-def]
    """Carry out commands ``op[i]`` on ``slot[i]`` one after the other.

    ``forward[i]`` says whether the command itself is forwarded. ``coverers[i * k :]``, ``found[i]`` of them, are what
    covers a new subscription. What command i promotes ends at ``promoted[upto[i]]``; there is room for all that are
    there and new. ``orphans`` has room for every slot. Row 0 of ``seen`` counts for subscribing, row 1 for
    unsubscribing.
    """
    n = 0
    for i in range(op.size):
        s = slot[i]
        found[i] = 0
        if op[i] == SUBSCRIBE:
            c = cover(o, points, s, k, coverers, i * k, seen, 0)
            for z in range(c):
                link(graph, k, s, coverers[i * k + z])
            found[i] = c
            forwarded[s] = c == 0
            if c == 0 or not roots:
                insert(o, points, s)
        else:
            if graph.degree[s] == 0 or not roots:
                delete(o, points, s)
            orphaned = remove(graph, k, s, orphans)
            if roots:
                _sort(points, orphans, orphaned)
            for z in range(orphaned):
                t = orphans[z]
                c = cover(o, points, t, k, coverers, i * k, seen, 1)
                for y in range(c):
                    link(graph, k, t, coverers[i * k + y])
                if c == 0:
                    if roots:
                        insert(o, points, t)
                    if not forwarded[t]:
                        forwarded[t] = True
                        promoted[n] = t
                        n += 1
        forward[i] = forwarded[s]
        upto[i] = n
    return n
