"""Searches among objects: the best ones of a region, how many rank before a given one, and those near a place."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from indexes.boards.space.points import ALL, BOUND, DEPTH, NODE, STEP, VALUE, block_at, first_lanes, next_block
from indexes.boards.space.shapes import BOX, DISC, MAX, SIMPLEX, holds
from indexes.boards.space.work import BINS, NEAR
from indexes.lanes import LANES, bit_count, lanes_from, lanes_upto, low_bit
from indexes.lean import inner_kernel, lean_kernel, pasted_kernel

INF = np.inf
TINY = 1e-300
LAST = np.int64(np.iinfo(np.int64).max)


@pasted_kernel
def worse(y, c, T, Tc):  # type: ignore[no-untyped-def]
    """Does (y, c) rank behind (T, Tc)?"""
    return y > T or (y == T and c > Tc)


@pasted_kernel
def bounding_box(shape, d, v, p, step, box):  # type: ignore[no-untyped-def]
    """Write a box (l_1, r_1, ...) that holds every point which the region does."""
    if shape == BOX:
        for j in range(2 * d):
            box[j] = v[p + j * step]
    elif shape == DISC and v[p + 2 * step] < 1e150:
        # Squares are rounded, and those of small numbers vanish: the circle is a little wider than its radius.
        radius = v[p + 2 * step] * (1.0 + 1e-12) + 1e-150
        for j in range(2):
            box[2 * j], box[2 * j + 1] = v[p + j * step] - radius, v[p + j * step] + radius
    elif shape == SIMPLEX:
        for j in range(2):
            a, b, c = v[p + j * step], v[p + (2 + j) * step], v[p + (4 + j) * step]
            box[2 * j], box[2 * j + 1] = min(a, b, c), max(a, b, c)
    else:
        for j in range(2):
            box[2 * j], box[2 * j + 1] = -MAX, MAX


@pasted_kernel
def _nodes_in(t, at, d, box, T):  # type: ignore[no-untyped-def]
    """The mask of the 16 nodes at `at` that reach into the box and hold an object with y <= T."""
    mask = lanes_upto(t.lo, at + d * LANES, T)
    for j in range(d):
        mask &= lanes_upto(t.lo, at + j * LANES, box[2 * j + 1])
        mask &= lanes_from(t.hi, at + j * LANES, box[2 * j])
    return mask


@pasted_kernel
def _objects_in(t, at, d, box, T):  # type: ignore[no-untyped-def]
    """The mask of the 16 objects at `at` that lie in the box and have y <= T."""
    mask = lanes_upto(t.v, at + d * LANES, T)
    for j in range(d):
        mask &= lanes_upto(t.v, at + j * LANES, box[2 * j + 1])
        mask &= lanes_from(t.v, at + j * LANES, box[2 * j])
    return mask


@pasted_kernel
def count_before(o, shape, v, p, step, T, Tc, enough, box):  # type: ignore[no-untyped-def]
    """How many objects of a region rank before (T, Tc), T finite; stops at `enough`. `box` is scratch."""
    t, d = o.tree, o.x.shape[1]
    bounding_box(shape, d, v, p, step, box)
    depth, bound, value = t.head[0, DEPTH], t.head[0, BOUND], t.head[0, VALUE]
    leaves = 1 << depth
    total = 0
    block, lanes = 0, first_lanes(depth)
    while block >= 0 and total < enough:
        mask = _nodes_in(t, bound + block * (d + 1), d, box, T) & lanes
        down = 0
        while mask and not down and total < enough:
            node = block + low_bit(mask)
            mask &= mask - 1
            if node < leaves:
                down = node
            else:
                start = (node - leaves) << STEP
                found = _objects_in(t, value + start * (d + 1), d, box, T)
                found &= (1 << t.cnt[t.head[0, NODE] + node]) - 1
                while found:
                    slot = t.id[start + low_bit(found)]
                    found &= found - 1
                    if o.y[slot] < T or o.c[slot] < Tc:
                        total += shape == BOX or holds(shape, d, v, p, step, o.x, slot)
        block, lanes = next_block(block, down, depth)
    return total


@lean_kernel
def best_of(
    o: Any, shape: int, params: NDArray[np.float64], k: int, out: NDArray[np.int32], box: NDArray[np.float64]
) -> int:
    """Write the slots of the k best objects of a region to `out`, best first; returns how many. `box` is scratch.

    O(n^(1 - 1 / d) + k) where objects are spread evenly.
    """
    return best(o, shape, params, 0, 1, MAX, np.int64(0), np.int64(-1), k, out, box)


@lean_kernel
def count_of(o: Any, shape: int, params: NDArray[np.float64], box: NDArray[np.float64]) -> int:
    """How many objects of finite y a region holds. `box` is scratch.

    O(n^(1 - 1 / d) + answer) where objects are spread evenly.
    """
    return count_before(o, shape, params, 0, 1, MAX, LAST, o.y.size + 1, box)


@pasted_kernel
def best(o, shape, v, p, step, T, Tc, skip, k, out, box):  # type: ignore[no-untyped-def]
    """Write the slots of the k best objects of a region that rank before (T, Tc) to `out`, best first, but never slot
    `skip`; returns how many. T is finite. `box` is scratch."""
    t, d = o.tree, o.x.shape[1]
    bounding_box(shape, d, v, p, step, box)
    depth, bound, value = t.head[0, DEPTH], t.head[0, BOUND], t.head[0, VALUE]
    leaves = 1 << depth
    n = 0
    block, lanes = 0, first_lanes(depth)
    while block >= 0:
        mask = _nodes_in(t, bound + block * (d + 1), d, box, T) & lanes
        down = 0
        while mask and not down:
            node = block + low_bit(mask)
            mask &= mask - 1
            if t.lo[bound + block_at(node, d + 1) + d * LANES] > T:
                down = 0
            elif node < leaves:
                down = node
            else:
                start = (node - leaves) << STEP
                found = _objects_in(t, value + start * (d + 1), d, box, T)
                found &= (1 << t.cnt[t.head[0, NODE] + node]) - 1
                while found:
                    slot = t.id[start + low_bit(found)]
                    found &= found - 1
                    y, c = o.y[slot], o.c[slot]
                    if slot != skip and worse(T, Tc, y, c) and (shape == BOX or holds(shape, d, v, p, step, o.x, slot)):
                        j = n - (n == k)
                        while j > 0 and worse(o.y[out[j - 1]], o.c[out[j - 1]], y, c):
                            out[j] = out[j - 1]
                            j -= 1
                        out[j] = slot
                        n = min(n + 1, k)
                        if n == k:
                            T, Tc = o.y[out[k - 1]], o.c[out[k - 1]]
        block, lanes = next_block(block, down, depth)
    return n


@pasted_kernel
def _gather(o, box, S, Sc, T, Tc, out):  # type: ignore[no-untyped-def]
    """Write the slots of the objects in a box that rank behind (S, Sc) and before (T, Tc) to `out`; returns how many,
    more than its size when there is no room."""
    t, d = o.tree, o.x.shape[1]
    depth, bound, value = t.head[0, DEPTH], t.head[0, BOUND], t.head[0, VALUE]
    leaves = 1 << depth
    n = 0
    block, lanes = 0, first_lanes(depth)
    while block >= 0 and n <= out.size:
        at = bound + block * (d + 1)
        mask = _nodes_in(t, at, d, box, T) & lanes_from(t.hi, at + d * LANES, S) & lanes
        down = 0
        while mask and not down and n <= out.size:
            node = block + low_bit(mask)
            mask &= mask - 1
            if node < leaves:
                down = node
            else:
                start = (node - leaves) << STEP
                found = _objects_in(t, value + start * (d + 1), d, box, T)
                found &= (1 << t.cnt[t.head[0, NODE] + node]) - 1
                while found:
                    slot = t.id[start + low_bit(found)]
                    found &= found - 1
                    y, c = o.y[slot], o.c[slot]
                    if worse(T, Tc, y, c) and worse(y, c, S, Sc):
                        if n < out.size:
                            out[n] = slot
                        n += 1
        block, lanes = next_block(block, down, depth)
    return n


@inner_kernel
def look_around(o, x, s, S, Sc, T, Tc, want, near, box):  # type: ignore[no-untyped-def]
    """Gather in `near.spare` at least `want` objects around x[s] that rank behind (S, Sc) and before (T, Tc), or all
    of them. O(want).

    They are those in a box around x[s], whose width is found by trial; it is left in `box` and `near.box`.
    """
    d = o.x.shape[1]
    t = o.tree
    root = t.head[0, BOUND] + block_at(1, d + 1)
    reach = near.reach[0]
    n = -1
    tries = 0
    while tries < 40:
        whole = True
        for j in range(d):
            wide = reach * (t.frame[0, j, 1] - t.frame[0, j, 0])
            box[2 * j], box[2 * j + 1] = x[s, j] - wide, x[s, j] + wide
            west, east = box[2 * j] <= t.lo[root + j * LANES], t.hi[root + j * LANES] <= box[2 * j + 1]
            near.box[2 * j], near.box[2 * j + 1] = -INF if west else box[2 * j], INF if east else box[2 * j + 1]
            whole &= west & east
        n = _gather(o, box, S, Sc, T, Tc, near.spare)
        tries += 1
        if n > near.spare.size:
            reach *= 0.35 ** (1.0 / d)
        elif n < want and not whole:
            reach *= min((2.0 * want / (n + 0.5)) ** (1.0 / d), 4.0)
        else:
            tries = 41
    near.size[NEAR] = n if tries == 41 else 0
    # A box that held few or many is a bad first guess for the next object.
    near.reach[0] = min(reach * (1.5 * want / (n + 0.5 * want)) ** (1.0 / d), 2.0)
    if tries == 40:
        for j in range(d):
            near.box[2 * j], near.box[2 * j + 1] = INF, -INF


@inner_kernel
def nearest_first(o, x, s, near, box):  # type: ignore[no-untyped-def]
    """Put what was gathered from the box in order of nearness, ring by ring. O(n).

    Nearness is the largest of the differences to x[s], each as a share of the box.
    """
    d, n = o.x.shape[1], near.size[NEAR]
    for b in range(BINS + 1):
        near.bin[b] = 0
    for i in range(n):
        far = 0.0
        for j in range(d):
            # The box has no width where x[s] is too large for it.
            far = max(far, abs(o.x[near.spare[i], j] - x[s, j]) / max(box[2 * j + 1] - x[s, j], TINY))
        share = BINS * far
        for _ in range(1, d):
            share *= far
        b = int(min(share, BINS - 1.0))
        near.part[i] = b
        near.bin[b + 1] += 1
    for b in range(BINS):
        near.bin[b + 1] += near.bin[b]
    for i in range(n):
        _set_near(o, near, near.bin[near.part[i]], near.spare[i])
        near.bin[near.part[i]] += 1


@inner_kernel
def best_first(o, near):  # type: ignore[no-untyped-def]
    """Put what was gathered in order of rank (Shell's method)."""
    n = near.size[NEAR]
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for r in range(gap, n):
            slot = near.spare[r]
            y, c = o.y[slot], o.c[slot]
            to = r
            while to >= gap and worse(o.y[near.spare[to - gap]], o.c[near.spare[to - gap]], y, c):
                near.spare[to] = near.spare[to - gap]
                to -= gap
            near.spare[to] = slot
        gap //= 3
    for i in range(n):
        _set_near(o, near, i, near.spare[i])


@pasted_kernel
def _set_near(o, near, i, slot):  # type: ignore[no-untyped-def]
    d = o.x.shape[1]
    at = block_at(i, d)
    near.slot[i] = slot
    for j in range(d):
        near.v[at + j * LANES] = o.x[slot, j]


@pasted_kernel
def covers(near, d, box):  # type: ignore[no-untyped-def]
    """Is there no object in the box but in `near.box`?"""
    inside = True
    for j in range(d):
        inside &= (near.box[2 * j] <= box[2 * j]) & (box[2 * j + 1] <= near.box[2 * j + 1])
    return inside


@pasted_kernel
def _near_in(near, i, d, box):  # type: ignore[no-untyped-def]
    """The mask of the 16 near objects from the i-th on that lie in a box."""
    mask = ALL >> max(i + LANES - near.size[NEAR], 0)
    for j in range(d):
        at = i * d + j * LANES
        mask &= lanes_upto(near.v, at, box[2 * j + 1]) & lanes_from(near.v, at, box[2 * j])
    return mask


@pasted_kernel
def near_in_box(near, most, d, box, enough):  # type: ignore[no-untyped-def]
    """How many of the first `most` near objects, or a few more, lie in a box; stops at `enough`, after a block of
    them."""
    n = min(most, near.size[NEAR])
    total = 0
    i = 0
    while i < n and total < enough:
        total += bit_count(_near_in(near, i, d, box))
        i += LANES
    return total


@pasted_kernel
def near_in_region(o, near, shape, v, p, step, box, enough):  # type: ignore[no-untyped-def]
    """How many of the near objects a region with this bounding box holds, at most `enough`; and the slot of the last
    one counted, -1 where there is none."""
    d, n = o.x.shape[1], near.size[NEAR]
    total, last = 0, -1
    i = 0
    while i < n and total < enough:
        mask = _near_in(near, i, d, box)
        while mask and total < enough:
            slot = near.slot[i + low_bit(mask)]
            mask &= mask - 1
            if shape == BOX or holds(shape, d, v, p, step, o.x, slot):
                total += 1
                last = slot
        i += LANES
    return total, last
