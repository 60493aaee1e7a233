"""Searches among objects: the best of a region, how many rank before a given one, and those near a place."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.boards.kernels.forest import STEP
from indexes.boards.space.kernels.arrays import SpaceArrays
from indexes.boards.space.kernels.points import BOUND, DEPTH, NODE, VALUE, block_at, first_lanes, next_block
from indexes.boards.space.kernels.scratch import BINS, NEAR, Near
from indexes.boards.space.kernels.shapes import BOX, DISC, MAX, SIMPLEX, holds
from indexes.compiled.jit import expanded, inlined, internal, kernel
from indexes.compiled.simd import ALL, LANES, bit_count, lanes_from, lanes_upto, low_bit
from indexes.core.arrays import INF, Floats, Ints32, int64

TINY = 1e-300
LAST = int64(np.iinfo(np.int64).max)


class RegionAt(NamedTuple):
    """A region by its shape, its place in `SHAPES`, and its parameters params[at], params[at + step], ..."""

    shape: int
    params: Floats
    at: int
    step: int


class Ranks(NamedTuple):
    """The ranks behind (y_floor, c_floor) and before (y_limit, c_limit); y_limit is finite."""

    y_floor: float
    c_floor: int
    y_limit: float
    c_limit: int


@inlined
def worse(y: float, c: int, y_limit: float, c_limit: int) -> bool:
    """Whether (y, c) ranks behind (y_limit, c_limit)."""
    return y > y_limit or (y == y_limit and c > c_limit)


@inlined
def bounding_box(region: RegionAt, d: int, box: Floats) -> None:
    """Write a box (l_1, r_1, ...) that contains the region to `box`."""
    shape, params, at, step = region
    if shape == BOX:
        for j in range(2 * d):
            box[j] = params[at + j * step]
    elif shape == DISC and params[at + 2 * step] < 1e150:
        # Squares are rounded, and those of small numbers are 0: the disc is a little wider than its radius.
        radius = params[at + 2 * step] * (1.0 + 1e-12) + 1e-150
        for j in range(2):
            box[2 * j], box[2 * j + 1] = params[at + j * step] - radius, params[at + j * step] + radius
    elif shape == SIMPLEX:
        for j in range(2):
            a, b, c = params[at + j * step], params[at + (2 + j) * step], params[at + (4 + j) * step]
            box[2 * j], box[2 * j + 1] = min(a, b, c), max(a, b, c)
    else:
        for j in range(2):
            box[2 * j], box[2 * j + 1] = -MAX, MAX


@inlined
def _near_box(lo: Floats, hi: Floats, at: int, d: int, box: Floats, y_limit: float) -> int:
    """The mask of the 16 nodes from `at` that meet the box and hold an object with y <= y_limit, by their bounds `lo`
    and `hi`. Objects are their own bounds."""
    mask = lanes_upto(lo, at + d * LANES, y_limit)
    for j in range(d):
        mask &= lanes_upto(lo, at + j * LANES, box[2 * j + 1])
        mask &= lanes_from(hi, at + j * LANES, box[2 * j])
    return mask


@expanded
def _is_in(region: RegionAt, d: int, x: Floats, slot: int) -> bool:
    """Whether a region holds an object that lies in its bounding box."""
    return region.shape == BOX or holds(region.shape, d, region.params, region.at, region.step, x, slot)


@inlined
def count_before(objects: SpaceArrays, region: RegionAt, y_limit: float, c_limit: int, enough: int, box: Floats) -> int:
    """How many objects of a region rank before (y_limit, c_limit), y_limit finite; stops at `enough`. `box` is scratch.

    O(n^(1 - 1 / d) + answer) where objects are spread evenly.
    """
    tree, d = objects.tree, objects.x.shape[1]
    bounding_box(region, d, box)
    depth, bound, value = tree.head[0, DEPTH], tree.head[0, BOUND], tree.head[0, VALUE]
    leaves = 1 << depth
    total = 0
    block, lanes = 0, first_lanes(depth)
    while block >= 0 and total < enough:
        mask = _near_box(tree.lo, tree.hi, bound + block * (d + 1), d, box, y_limit) & lanes
        down = 0
        while mask and not down and total < enough:
            node = block + low_bit(mask)
            mask &= mask - 1
            if node < leaves:
                down = node
            else:
                start = (node - leaves) << STEP
                found = _near_box(tree.v, tree.v, value + start * (d + 1), d, box, y_limit)
                found &= (1 << tree.cnt[tree.head[0, NODE] + node]) - 1
                while found:
                    slot = tree.id[start + low_bit(found)]
                    found &= found - 1
                    if objects.y[slot] < y_limit or objects.c[slot] < c_limit:
                        total += _is_in(region, d, objects.x, slot)
        block, lanes = next_block(block, down, depth)
    return total


@kernel
def best_of(objects: SpaceArrays, shape: int, params: Floats, k: int, out: Ints32, box: Floats) -> int:
    """Write the slots of the k best objects of a region to `out`, best first; returns how many. `box` is scratch.

    O(n^(1 - 1 / d) + k) where objects are spread evenly.
    """
    return best(objects, RegionAt(int64(shape), params, int64(0), int64(1)), MAX, int64(0), int64(-1), k, out, box)


@kernel
def count_of(objects: SpaceArrays, shape: int, params: Floats, box: Floats) -> int:
    """How many objects of finite y a region holds. `box` is scratch.

    O(n^(1 - 1 / d) + answer) where objects are spread evenly.
    """
    region = RegionAt(int64(shape), params, int64(0), int64(1))
    return count_before(objects, region, MAX, LAST, objects.y.size + 1, box)


@inlined
def best(
    objects: SpaceArrays, region: RegionAt, y_limit: float, c_limit: int, skip: int, k: int, out: Ints32, box: Floats
) -> int:
    """Write the slots of the k best objects of a region that rank before (y_limit, c_limit) to `out`, best first,
    without slot `skip`; returns how many. y_limit is finite. `box` is scratch.

    O(n^(1 - 1 / d) + k) where objects are spread evenly.
    """
    tree, d = objects.tree, objects.x.shape[1]
    bounding_box(region, d, box)
    depth, bound, value = tree.head[0, DEPTH], tree.head[0, BOUND], tree.head[0, VALUE]
    leaves = 1 << depth
    n = 0
    block, lanes = 0, first_lanes(depth)
    while block >= 0:
        mask = _near_box(tree.lo, tree.hi, bound + block * (d + 1), d, box, y_limit) & lanes
        down = 0
        while mask and not down:
            node = block + low_bit(mask)
            mask &= mask - 1
            if tree.lo[bound + block_at(node, d + 1) + d * LANES] > y_limit:
                down = 0
            elif node < leaves:
                down = node
            else:
                start = (node - leaves) << STEP
                found = _near_box(tree.v, tree.v, value + start * (d + 1), d, box, y_limit)
                found &= (1 << tree.cnt[tree.head[0, NODE] + node]) - 1
                while found:
                    slot = tree.id[start + low_bit(found)]
                    found &= found - 1
                    y, c = objects.y[slot], objects.c[slot]
                    found_better = slot != skip and worse(y_limit, c_limit, y, c)
                    if found_better and _is_in(region, d, objects.x, slot):
                        j = n - (n == k)
                        while j > 0 and worse(objects.y[out[j - 1]], objects.c[out[j - 1]], y, c):
                            out[j] = out[j - 1]
                            j -= 1
                        out[j] = slot
                        n = min(n + 1, k)
                        if n == k:
                            y_limit, c_limit = objects.y[out[k - 1]], objects.c[out[k - 1]]
        block, lanes = next_block(block, down, depth)
    return n


@inlined
def _collect(objects: SpaceArrays, box: Floats, ranks: Ranks, out: Ints32) -> int:
    """Write the slots of the objects in a box with such ranks to `out`; returns how many, more than its size if it is
    too small."""
    y_floor, c_floor, y_limit, c_limit = ranks
    tree, d = objects.tree, objects.x.shape[1]
    depth, bound, value = tree.head[0, DEPTH], tree.head[0, BOUND], tree.head[0, VALUE]
    leaves = 1 << depth
    n = 0
    block, lanes = 0, first_lanes(depth)
    while block >= 0 and n <= out.size:
        at = bound + block * (d + 1)
        mask = _near_box(tree.lo, tree.hi, at, d, box, y_limit) & lanes_from(tree.hi, at + d * LANES, y_floor) & lanes
        down = 0
        while mask and not down and n <= out.size:
            node = block + low_bit(mask)
            mask &= mask - 1
            if node < leaves:
                down = node
            else:
                start = (node - leaves) << STEP
                found = _near_box(tree.v, tree.v, value + start * (d + 1), d, box, y_limit)
                found &= (1 << tree.cnt[tree.head[0, NODE] + node]) - 1
                while found:
                    slot = tree.id[start + low_bit(found)]
                    found &= found - 1
                    y, c = objects.y[slot], objects.c[slot]
                    if worse(y_limit, c_limit, y, c) and worse(y, c, y_floor, c_floor):
                        if n < out.size:
                            out[n] = slot
                        n += 1
        block, lanes = next_block(block, down, depth)
    return n


@internal
def look_around(objects: SpaceArrays, x: Floats, point: int, ranks: Ranks, want: int, near: Near, box: Floats) -> None:
    """Collect in `near.spare` at least `want` objects around x[point] with such ranks, or all of them. O(want).

    They are those in a box around x[point], whose width is found by trial; it is left in `box` and `near.box`.
    """
    d = objects.x.shape[1]
    tree = objects.tree
    root = tree.head[0, BOUND] + block_at(1, d + 1)
    reach = near.reach[0]
    n = -1
    tries = 0
    while tries < 40:
        whole = True
        for j in range(d):
            wide = reach * (tree.frame[0, j, 1] - tree.frame[0, j, 0])
            box[2 * j], box[2 * j + 1] = x[point, j] - wide, x[point, j] + wide
            west, east = box[2 * j] <= tree.lo[root + j * LANES], tree.hi[root + j * LANES] <= box[2 * j + 1]
            near.box[2 * j], near.box[2 * j + 1] = -INF if west else box[2 * j], INF if east else box[2 * j + 1]
            whole &= west & east
        n = _collect(objects, box, ranks, near.spare)
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


@internal
def nearest_first(objects: SpaceArrays, x: Floats, point: int, near: Near, box: Floats) -> None:
    """Order the objects in `near.spare` by nearness, ring by ring. O(n).

    Nearness is the largest of the differences to x[point], each relative to the box.
    """
    d, n = objects.x.shape[1], near.size[NEAR]
    for b in range(BINS + 1):
        near.bin[b] = 0
    for i in range(n):
        far = 0.0
        for j in range(d):
            # The box has no width where x[point] is too large for it.
            far = max(far, abs(objects.x[near.spare[i], j] - x[point, j]) / max(box[2 * j + 1] - x[point, j], TINY))
        share = BINS * far
        for _ in range(1, d):
            share *= far
        b = int(min(share, BINS - 1.0))
        near.part[i] = b
        near.bin[b + 1] += 1
    for b in range(BINS):
        near.bin[b + 1] += near.bin[b]
    for i in range(n):
        _set_near(objects, near, near.bin[near.part[i]], near.spare[i])
        near.bin[near.part[i]] += 1


@internal
def best_first(objects: SpaceArrays, near: Near) -> None:
    """Order the objects in `near.spare` by rank (Shell's method)."""
    n = near.size[NEAR]
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for r in range(gap, n):
            slot = near.spare[r]
            y, c = objects.y[slot], objects.c[slot]
            to = r
            while to >= gap and worse(objects.y[near.spare[to - gap]], objects.c[near.spare[to - gap]], y, c):
                near.spare[to] = near.spare[to - gap]
                to -= gap
            near.spare[to] = slot
        gap //= 3
    for i in range(n):
        _set_near(objects, near, i, near.spare[i])


@inlined
def _set_near(objects: SpaceArrays, near: Near, i: int, slot: int) -> None:
    """Write the object in `slot` as near object i."""
    d = objects.x.shape[1]
    at = block_at(i, d)
    near.slot[i] = slot
    for j in range(d):
        near.v[at + j * LANES] = objects.x[slot, j]


@inlined
def covers(near: Near, d: int, box: Floats) -> bool:
    """Whether `near.box` contains all objects of the box."""
    inside = True
    for j in range(d):
        inside &= (near.box[2 * j] <= box[2 * j]) & (box[2 * j + 1] <= near.box[2 * j + 1])
    return inside


@inlined
def _near_in(near: Near, first: int, d: int, box: Floats) -> int:
    """The mask of the 16 near objects from `first` on that lie in a box."""
    mask = ALL >> max(first + LANES - near.size[NEAR], 0)
    for j in range(d):
        at = first * d + j * LANES
        mask &= lanes_upto(near.v, at, box[2 * j + 1]) & lanes_from(near.v, at, box[2 * j])
    return mask


@inlined
def near_in_box(near: Near, most: int, d: int, box: Floats, enough: int) -> int:
    """How many of the first `most` near objects, or a few more, lie in a box; stops at `enough`, after a block."""
    n = min(most, near.size[NEAR])
    total = 0
    i = 0
    while i < n and total < enough:
        total += bit_count(_near_in(near, i, d, box))
        i += LANES
    return total


@inlined
def near_in_region(objects: SpaceArrays, near: Near, region: RegionAt, box: Floats, enough: int) -> tuple[int, int]:
    """How many of the near objects a region with this bounding box holds, at most `enough`; and the slot of the last
    one counted, -1 if there is none."""
    d, n = objects.x.shape[1], near.size[NEAR]
    total, last = 0, -1
    i = 0
    while i < n and total < enough:
        mask = _near_in(near, i, d, box)
        while mask and total < enough:
            slot = near.slot[i + low_bit(mask)]
            mask &= mask - 1
            if _is_in(region, d, objects.x, slot):
                total += 1
                last = slot
        i += LANES
    return total, last
