"""What queues hold: entries, the number of a node, or -1 - i for object i; and a heap of them.

Where keys are equal the order of entries is fixed by the objects, never by where they are stored: a search that runs
over a base finds the same, in the same order, as one over another base and a delta.
"""

from __future__ import annotations

from indexes.lean import inner_kernel, pasted_kernel
from indexes.maps.rtree import squared_mindist

BY_DISTANCE, BY_SCORE, BY_ENTRY = 0, 1, 2
"""What decides where keys are equal. In the first two, for squared distances and for sums of static values, a dominator
is never behind what it dominates: design 1.4, and for distances nodes, then objects in lexicographic order of their
static values. In the third, where any order will do, their numbers."""


@inner_kernel
def static_of(v, e, j):  # type: ignore[no-untyped-def]
    """Static value j of an entry, of a node the best below it."""
    if e >= 0:
        nodes = v.first.size
        if e < nodes:
            value = v.lower[j * v.x0.size + e]
        else:
            value = v.block_lower[j * v.block_x0.size + e - nodes]
    else:
        i, n = -1 - e, v.slot.size
        if i < n:
            value = v.statics[j * v.x.size + i]
        else:
            value = v.delta_statics[j * v.delta_x.size + i - n]
    return value


@inner_kernel
def place_of(v, e):  # type: ignore[no-untyped-def]
    """Where an object is."""
    i, n = -1 - e, v.slot.size
    if i < n:
        x, y = v.x[i], v.y[i]
    else:
        x, y = v.delta_x[i - n], v.delta_y[i - n]
    return x, y


@inner_kernel
def rectangle_of(v, e):  # type: ignore[no-untyped-def]
    """The rectangle of a node."""
    nodes = v.first.size
    if e < nodes:
        x0, y0, x1, y1 = v.x0[e], v.y0[e], v.x1[e], v.y1[e]
    else:
        b = e - nodes
        x0, y0, x1, y1 = v.block_x0[b], v.block_y0[b], v.block_x1[b], v.block_y1[b]
    return x0, y0, x1, y1


@inner_kernel
def slot_of(v, e):  # type: ignore[no-untyped-def]
    """The slot of an object."""
    i, n = -1 - e, v.slot.size
    return v.slot[i] if i < n else v.delta_slot[i - n]


@inner_kernel
def far_of(v, e, x, y):  # type: ignore[no-untyped-def]
    """The squared distance of an entry, of a node that of the nearest point of its rectangle."""
    if e >= 0:
        x0, y0, x1, y1 = rectangle_of(v, e)
        far = squared_mindist(x, y, x0, y0, x1, y1)
    else:
        ox, oy = place_of(v, e)
        dx, dy = ox - x, oy - y
        far = dx * dx + dy * dy
    return far


@inner_kernel
def precedes(v, order, a, b, x, y):  # type: ignore[no-untyped-def]
    """Whether entry a is before entry b, whose key is equal."""
    decided, before = False, False
    if order == BY_DISTANCE and (a >= 0) != (b >= 0):
        decided, before = True, a >= 0
    if order == BY_SCORE or (order == BY_DISTANCE and a < 0):
        j, d = 0, v.statics.size // v.x.size
        while not decided and j < d:
            p, q = static_of(v, a, j), static_of(v, b, j)
            if p != q:
                decided, before = True, p < q
            j += 1
    if order == BY_SCORE and not decided:
        p, q = far_of(v, a, x, y), far_of(v, b, x, y)
        if p != q:
            decided, before = True, p < q
        elif (a >= 0) != (b >= 0):
            decided, before = True, a >= 0
    if not decided:
        if order != BY_ENTRY and a < 0 and b < 0:
            before = slot_of(v, a) < slot_of(v, b)
        else:
            before = a > b
    return before


@pasted_kernel
def push(v, key, entry, n, k, e, order, x, y):  # type: ignore[no-untyped-def]
    """Put entry e under key k into a heap of n, for which there is room."""
    i = n
    up = i > 0
    while up:
        above = (i - 1) >> 1
        if k < key[above] or (k == key[above] and precedes(v, order, e, entry[above], x, y)):
            key[i] = key[above]
            entry[i] = entry[above]
            i = above
            up = i > 0
        else:
            up = False
    key[i] = k
    entry[i] = e


@pasted_kernel
def drop_first(v, key, entry, n, order, x, y):  # type: ignore[no-untyped-def]
    """Take the first entry out of a heap of n > 0."""
    last = n - 1
    k, e = key[last], entry[last]
    i = 0
    down = True
    while down:
        c = 2 * i + 1
        down = False
        if c < last:
            if c + 1 < last and (
                key[c + 1] < key[c] or (key[c + 1] == key[c] and precedes(v, order, entry[c + 1], entry[c], x, y))
            ):
                c += 1
            if key[c] < k or (key[c] == k and precedes(v, order, entry[c], e, x, y)):
                key[i] = key[c]
                entry[i] = entry[c]
                i = c
                down = True
    key[i] = k
    entry[i] = e
