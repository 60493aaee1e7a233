"""Entries of queues (the number of a node, or -1 - i for object i), and a heap of them.

Entries with equal keys are ordered by properties of the objects, never by where they are stored: a search over a base
finds the same, in the same order, as one over another base and a delta.
"""

from __future__ import annotations

from indexes.compiled.jit import inlined, internal
from indexes.maps.kernels.object_index import View
from indexes.maps.kernels.rtree import squared_mindist
from indexes.maps.kernels.skyline_scratch import SkylineScratch

BY_DISTANCE, BY_SCORE, BY_ENTRY = 0, 1, 2
"""The order of entries with equal keys. With the first two, for squared distances and for sums of static values, a
dominator never comes after what it dominates; for distances nodes come first, then objects in lexicographic order of
their static values. The third, by number, is for keys where any order will do."""


@internal
def static_of(view: View, entry: int, j: int) -> float:
    """Static value j of an entry; of a node the best of any object below it."""
    if entry >= 0:
        nodes = view.first.size
        if entry < nodes:
            value = view.nodes.lower[j * view.nodes.x0.size + entry]
        else:
            value = view.blocks.lower[j * view.blocks.x0.size + entry - nodes]
    else:
        i, n = -1 - entry, view.base.slot.size
        if i < n:
            value = view.base.statics[j * view.base.x.size + i]
        else:
            value = view.delta.statics[j * view.delta.x.size + i - n]
    return value


@internal
def place_of(view: View, entry: int) -> tuple[float, float]:
    """The place of an object."""
    i, n = -1 - entry, view.base.slot.size
    if i < n:
        x, y = view.base.x[i], view.base.y[i]
    else:
        x, y = view.delta.x[i - n], view.delta.y[i - n]
    return x, y


@internal
def rectangle_of(view: View, entry: int) -> tuple[float, float, float, float]:
    """The rectangle of a node."""
    nodes = view.first.size
    if entry < nodes:
        x0, y0, x1, y1 = view.nodes.x0[entry], view.nodes.y0[entry], view.nodes.x1[entry], view.nodes.y1[entry]
    else:
        b = entry - nodes
        x0, y0, x1, y1 = view.blocks.x0[b], view.blocks.y0[b], view.blocks.x1[b], view.blocks.y1[b]
    return x0, y0, x1, y1


@internal
def slot_of(view: View, entry: int) -> int:
    """The slot of an object."""
    i, n = -1 - entry, view.base.slot.size
    return view.base.slot[i] if i < n else view.delta.slot[i - n]


@internal
def far_of(view: View, entry: int, x: float, y: float) -> float:
    """The squared distance of an entry; of a node that of the nearest point of its rectangle."""
    if entry >= 0:
        x0, y0, x1, y1 = rectangle_of(view, entry)
        far = squared_mindist(x, y, x0, y0, x1, y1)
    else:
        ox, oy = place_of(view, entry)
        dx, dy = ox - x, oy - y
        far = dx * dx + dy * dy
    return far


@internal
def precedes(view: View, order: int, a: int, b: int, x: float, y: float) -> bool:
    """Whether entry a comes before entry b, which has the same key."""
    decided, before = False, False
    if order == BY_DISTANCE and (a >= 0) != (b >= 0):
        decided, before = True, a >= 0
    if order == BY_SCORE or (order == BY_DISTANCE and a < 0):
        j, d = 0, view.base.statics.size // view.base.x.size
        while not decided and j < d:
            p, q = static_of(view, a, j), static_of(view, b, j)
            if p != q:
                decided, before = True, p < q
            j += 1
    if order == BY_SCORE and not decided:
        p, q = far_of(view, a, x, y), far_of(view, b, x, y)
        if p != q:
            decided, before = True, p < q
        elif (a >= 0) != (b >= 0):
            decided, before = True, a >= 0
    if not decided:
        if order != BY_ENTRY and a < 0 and b < 0:
            before = slot_of(view, a) < slot_of(view, b)
        else:
            before = a > b
    return before


@inlined
def push(view: View, scratch: SkylineScratch, n: int, k: float, e: int, order: int, x: float, y: float) -> None:
    """Insert entry e with key k into the scratch's heap of n entries, which has room. O(log n)."""
    key, entry = scratch.key, scratch.entry
    i = n
    up = i > 0
    while up:
        above = (i - 1) >> 1
        if k < key[above] or (k == key[above] and precedes(view, order, e, entry[above], x, y)):
            key[i] = key[above]
            entry[i] = entry[above]
            i = above
            up = i > 0
        else:
            up = False
    key[i] = k
    entry[i] = e


@inlined
def drop_first(view: View, scratch: SkylineScratch, n: int, order: int, x: float, y: float) -> None:
    """Remove the first entry from the scratch's heap of n > 0 entries. O(log n)."""
    key, entry = scratch.key, scratch.entry
    last = n - 1
    k, e = key[last], entry[last]
    i = 0
    down = True
    while down:
        c = 2 * i + 1
        down = False
        if c < last:
            if c + 1 < last:
                # Which child comes first is anyone's guess, so it is not branched on.
                right = key[c + 1] < key[c]
                if key[c + 1] == key[c]:
                    right = precedes(view, order, entry[c + 1], entry[c], x, y)
                c += int(right)
            if key[c] < k or (key[c] == k and precedes(view, order, entry[c], e, x, y)):
                key[i] = key[c]
                entry[i] = entry[c]
                i = c
                down = True
    key[i] = k
    entry[i] = e
