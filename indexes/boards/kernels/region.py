"""The influence region of an object and how it shrinks: Algorithms 4 and 5 of [Range top-k], and the walk that drives
them.

The lists. `west[1..a]` are the x of the nearest objects better than the object at hand (x_i, y_i) to the west, nearest
first, `east[1..b]` those to the east; both have at most k entries, start with x_i itself and are padded with
infinities. The object is in the top-k of (l, r) exactly on the strips z = 1..k

    west[z] < l <= west[z-1],     x_i <= r < east[k-z+1]

because such a range holds z - 1 better objects of the west and at most k - z of the east. When another object h enters
a list, what the object loses is what h gains; the strips are the same, cut at x_h. Ties in x only make strips empty,
whichever side an object at x_i is counted on.

Source: [Range top-k] II-B and III-A.
"""

from __future__ import annotations

from indexes.boards.kernels.object_index import MAX, ObjectArrays, first_east, first_west, next_east, next_west
from indexes.boards.kernels.scratch import HITS, Scratch
from indexes.compiled.jit import expanded, inlined, internal
from indexes.compiled.simd import LANES, bit_count, lanes_from, lanes_upto, low_bit
from indexes.core.arrays import INF, Floats, int64, uint64

ONE = uint64(1)
"""Indexes that are known not to be negative are unsigned in the loops of a change: numba counts others from the end."""


@inlined
def nearest(objects: ObjectArrays, slot: int, y: float, k: int, scratch: Scratch) -> tuple[int, int]:
    """Fill `all_west` and `all_east` with the nearest k objects better than (y, created) on either side of a slot.

    Returns their numbers (a, b). O(k log n).
    """
    c = objects.c[slot]
    scratch.all_west[:] = -INF
    scratch.all_east[:] = INF
    scratch.all_west[0] = scratch.all_east[0] = objects.x[slot]
    a = first_west(objects, slot, y, c, k, scratch.spare)
    for z in range(a):
        scratch.all_west[z + 1] = objects.x[scratch.spare[z]]
    b = first_east(objects, slot, y, c, k, scratch.spare)
    for z in range(b):
        scratch.all_east[z + 1] = objects.x[scratch.spare[z]]
    return a, b


@inlined
def take_prefix(scratch: Scratch, k: int) -> None:
    """Start a class: its lists are the first k entries of the lists of the largest class."""
    for z in range(k + 1):
        scratch.west[z] = scratch.all_west[z]
        scratch.east[z] = scratch.all_east[z]


@expanded
def run_of(z: int, k: int, runs: int) -> int:
    """The run that strip z of 1..k belongs to, of so many balanced ones; with 0 runs each strip is its own ([Range
    top-k] IV-B)."""
    return (z - 1) * runs // k if runs > 0 else z


@inlined
def region_strips(scratch: Scratch, k: int, a: int, b: int, runs: int) -> int:
    """Write the strips of the influence region to `strip`, west to east (Algorithm 4); returns their number. O(k).

    Neighbours with the same r_outer are merged, which happens where the east runs out of objects or has ties in x. With
    `runs` > 0 each run of strips becomes the box around it, so that there are at most that many ([Range top-k] IV-B).
    """
    x = scratch.west[0]
    n = 0
    last = -1
    for z in range(min(a + 1, k), 0, -1):
        r_outer = scratch.east[k - z + 1]
        if scratch.west[z] < scratch.west[z - 1] and x < r_outer:
            run = run_of(z, k, runs)
            if n > 0 and (scratch.strip[n - 1, 3] == r_outer or run == last):
                scratch.strip[n - 1, 1], scratch.strip[n - 1, 3] = scratch.west[z - 1], r_outer
            else:
                scratch.strip[n, 0], scratch.strip[n, 1] = scratch.west[z], scratch.west[z - 1]
                scratch.strip[n, 2], scratch.strip[n, 3] = x, r_outer
                n += 1
                last = run
    return n


@internal
def gain_strips(scratch: Scratch, k: int, a: int, b: int, x_h: float, runs: int) -> int:
    """Write the strips that an object at `x_h` gains by entering a list to `strip`, west to east (Algorithm 5); returns
    their number. O(k).

    They are where (l, r) holds both objects and exactly k - 1 of the lists; with `runs` > 0 the boxes around that many
    runs of them ([Range top-k] IV-B).
    """
    l_most, r_least = min(x_h, scratch.west[0]), max(x_h, scratch.west[0])
    n = 0
    last = -1
    for z in range(min(a + 1, k), max(k - b, 1) - 1, -1):
        i, j = uint64(z), uint64(k - z)
        l_outer, l_inner = scratch.west[i], min(scratch.west[i - ONE], l_most)
        r_inner, r_outer = max(scratch.east[j], r_least), scratch.east[j + ONE]
        if l_outer < l_inner and r_inner < r_outer:
            run = run_of(z, k, runs)
            if n > 0 and run == last:
                scratch.strip[n - 1, 1], scratch.strip[n - 1, 3] = l_inner, r_outer
            else:
                at = uint64(n)
                scratch.strip[at, 0], scratch.strip[at, 1] = l_outer, l_inner
                scratch.strip[at, 2], scratch.strip[at, 3] = r_inner, r_outer
                n += 1
                last = run
    return n


@expanded
def enter(side: Floats, k: int, n: int, x_h: float, east: bool) -> int:
    """Insert `x_h` in the west or the east list, of length n, and drop the entry k + 1; returns the new length."""
    n = min(n + 1, k)
    z = uint64(n)
    while side[z - ONE] > x_h if east else side[z - ONE] < x_h:
        side[z] = side[z - ONE]
        z -= ONE
    side[z] = x_h
    return n


# The sweep. An object becomes exposed by a demotion exactly if fewer than k nearer objects of its own side are better,
# so exposed objects are found by walking outward with the k-th best y so far as threshold, without calls of `min_y`.


# Nine arguments: a demotion from one rank to another, within a range.
@internal
def exposed(
    objects: ObjectArrays,
    slot: int,
    k: int,
    y: float,
    c: int,
    y_end: float,
    l_end: float,
    r_end: float,
    scratch: Scratch,
) -> tuple[int, bool]:
    """Find the objects that become exposed as a slot is demoted from just past (y, c) to `y_end`, within [l_end,
    r_end].

    Writes them to `hit` in (y, created) order, each as 2 * slot + (1 if east of the demoted one). Returns (how many,
    whether these are all); if not, continue after the last. O(log n) for each object met.
    """
    y_limit, c_limit = min(y_end, MAX), objects.c[slot]
    n = int64(0)
    complete = True
    for east in range(2):
        j = slot
        better = 0
        seen = 0
        y_bound, c_bound = y_limit, c_limit
        while j >= 0:
            j = next_east(objects, j, y_bound, c_bound) if east else next_west(objects, j, y_bound, c_bound)
            if j >= 0 and (objects.x[uint64(j)] > r_end if east else objects.x[uint64(j)] < l_end):
                j = -1
            if j >= 0:
                yj, cj = objects.y[uint64(j)], objects.c[uint64(j)]
                if yj < y or (yj == y and cj <= c):
                    better += 1
                else:
                    if n == HITS:
                        _sort(objects, scratch, n)
                        n = int64(HITS // 2)
                        last = scratch.hit[n - 1] >> 1
                        y_limit, c_limit = objects.y[last], objects.c[last] + 1
                        complete = False
                    scratch.hit[uint64(n)] = 2 * j + east
                    n += yj < y_limit or (yj == y_limit and cj < c_limit)
                seen = _keep_best(scratch, seen, k, yj, cj)
                y_bound, c_bound = y_limit, c_limit
                if seen == k:
                    y_k, c_k = scratch.best_y[k - 1], scratch.best_c[k - 1]
                    if y_k < y_limit or (y_k == y_limit and c_k < c_limit):
                        y_bound, c_bound = y_k, c_k
                if better == k:
                    j = -1
    _sort(objects, scratch, n)
    return n, complete


@expanded
def _keep_best(scratch: Scratch, n: int, k: int, y: float, c: int) -> int:
    """Insert (y, c) among the k least seen, in order; returns how many there are."""
    z = uint64(min(n, k - 1))
    while z > 0 and (scratch.best_y[z - ONE] > y or (scratch.best_y[z - ONE] == y and scratch.best_c[z - ONE] > c)):
        scratch.best_y[z], scratch.best_c[z] = scratch.best_y[z - ONE], scratch.best_c[z - ONE]
        z -= ONE
    scratch.best_y[z], scratch.best_c[z] = y, c
    return min(n + 1, k)


@internal
def _sort(objects: ObjectArrays, scratch: Scratch, n: int) -> None:
    """Order the n hits by (y, created): by counting in runs of 16, then by merges. O(n log n)."""
    run = LANES
    for start in range(0, n, run):
        size = min(run, n - start)
        for i in range(run):
            scratch.key[uint64(i)] = objects.y[uint64(scratch.hit[uint64(start + i)] >> 1)] if i < size else INF
        for i in range(size):
            y, hit = scratch.key[uint64(i)], scratch.hit[uint64(start + i)]
            upto = lanes_upto(scratch.key, 0, y)
            # Of those with the same y some rank behind it, by their number. One object may be hit twice.
            equal = (upto & lanes_from(scratch.key, 0, y)) ^ (1 << i)
            place = bit_count(upto) - 1
            c = objects.c[uint64(hit >> 1)]
            while equal:
                j = low_bit(equal)
                other = objects.c[uint64(scratch.hit[uint64(start + j)] >> 1)]
                place -= other > c or (other == c and j > i)
                equal &= equal - 1
            scratch.spare[uint64(place)] = hit
        for i in range(size):
            scratch.hit[uint64(start + i)] = scratch.spare[uint64(i)]
    while run < n:
        for start in range(0, n, 2 * run):
            middle, end = min(start + run, n), min(start + 2 * run, n)
            i, j = start, middle
            for t in range(start, end):
                first = i < middle
                if first and j < end:
                    slot = scratch.hit[i] >> 1
                    first = _after(objects, scratch.hit[j] >> 1, objects.y[slot], objects.c[slot])
                if first:
                    scratch.spare[t] = scratch.hit[i]
                    i += 1
                else:
                    scratch.spare[t] = scratch.hit[j]
                    j += 1
        for t in range(n):
            scratch.hit[t] = scratch.spare[t]
        run *= 2


@expanded
def _after(objects: ObjectArrays, slot: int, y: float, c: int) -> bool:
    """Whether a slot ranks behind (y, c)."""
    at = uint64(slot)
    return objects.y[at] > y or (objects.y[at] == y and objects.c[at] > c)
