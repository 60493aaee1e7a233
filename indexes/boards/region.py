"""The influence region of an object and how it shrinks: Algorithms 4 and 5 of the paper, and the walk that drives them.

The lists. `west[1..a]` are the x of the nearest objects better than the object at hand (x_i, y_i) met going west,
nearest first, `east[1..b]` those going east; both have at most k entries, start with x_i itself and go on with
infinities. The object is in the top-k of (l, r) exactly on the strips z = 1..k

    west[z] < l <= west[z-1],     x_i <= r < east[k-z+1]

because such a range holds z - 1 better objects of the west and at most k - z of the east. When another object h takes a
place in a list, what the object loses is what h gains; the strips are the same, cut at x_h. Ties in x only make strips
empty, whichever side an object at x_i is counted on.

Source: Yu, Agarwal and Yang, "Processing and notifying range top-k subscriptions", II-B and III-A.
"""

from __future__ import annotations

import numpy as np

from indexes.boards.objects import MAX, first_east, first_west, next_east, next_west
from indexes.boards.work import HITS, Work
from indexes.jit import inline_kernel
from indexes.lean import inner_kernel, pasted_kernel

INF = np.inf


@pasted_kernel
def nearest(o, s, y, k, w):  # type: ignore[no-untyped-def]
    """Fill `all_west` and `all_east` with the nearest k objects better than (y, created) on either side of slot `s`.

    Returns their numbers (a, b). O(k log n).
    """
    c = o.c[s]
    w.all_west[:] = -INF
    w.all_east[:] = INF
    w.all_west[0] = w.all_east[0] = o.x[s]
    a = first_west(o, s, y, c, k, w.spare)
    for z in range(a):
        w.all_west[z + 1] = o.x[w.spare[z]]
    b = first_east(o, s, y, c, k, w.spare)
    for z in range(b):
        w.all_east[z + 1] = o.x[w.spare[z]]
    return a, b


@pasted_kernel
def take_prefix(w: Work, k: int) -> None:
    """Start a class: its lists are the first k of the lists of the largest class."""
    for z in range(k + 1):
        w.west[z] = w.all_west[z]
        w.east[z] = w.all_east[z]


@inline_kernel
def run_of(z: int, k: int, runs: int) -> int:
    """The run that strip z of 1..k belongs to, of so many balanced ones; 0 runs: each strip is one by itself (IV-B)."""
    return (z - 1) * runs // k if runs > 0 else z


@pasted_kernel
def region_strips(w: Work, k: int, a: int, b: int, runs: int) -> int:
    """Algorithm 4: write the strips of the influence region to `strip`, west to east; returns their number.

    Neighbours with the same r_outer are one, which happens where the east runs out of objects or has ties in x. With
    `runs` > 0 each run of strips is the box around it, so that there are at most that many (IV-B).
    """
    x = w.west[0]
    n = 0
    last = -1
    for z in range(min(a + 1, k), 0, -1):
        r_outer = w.east[k - z + 1]
        if w.west[z] < w.west[z - 1] and x < r_outer:
            run = run_of(z, k, runs)
            if n > 0 and (w.strip[n - 1, 3] == r_outer or run == last):
                w.strip[n - 1, 1], w.strip[n - 1, 3] = w.west[z - 1], r_outer
            else:
                w.strip[n, 0], w.strip[n, 1], w.strip[n, 2], w.strip[n, 3] = w.west[z], w.west[z - 1], x, r_outer
                n += 1
                last = run
    return n


@inner_kernel
def gain_strips(w: Work, k: int, a: int, b: int, xh: float, runs: int) -> int:
    """Algorithm 5: write the strips that an object at `xh` gains by entering a list to `strip`, west to east.

    They are where (l, r) holds both objects and exactly k - 1 of the lists; with `runs` > 0 the boxes around that many
    runs of them (IV-B). Returns their number.
    """
    l_most, r_least = min(xh, w.west[0]), max(xh, w.west[0])
    n = 0
    last = -1
    for z in range(min(a + 1, k), max(k - b, 1) - 1, -1):
        l_outer, l_inner = w.west[z], min(w.west[z - 1], l_most)
        r_inner, r_outer = max(w.east[k - z], r_least), w.east[k - z + 1]
        if l_outer < l_inner and r_inner < r_outer:
            run = run_of(z, k, runs)
            if n > 0 and run == last:
                w.strip[n - 1, 1], w.strip[n - 1, 3] = l_inner, r_outer
            else:
                w.strip[n, 0], w.strip[n, 1], w.strip[n, 2], w.strip[n, 3] = l_outer, l_inner, r_inner, r_outer
                n += 1
                last = run
    return n


@inline_kernel
def enter_west(w: Work, k: int, a: int, xh: float) -> int:
    """Put `xh` in its place in the west list and drop the k+1-st; returns the new length."""
    a = min(a + 1, k)
    z = a
    while w.west[z - 1] < xh:
        w.west[z] = w.west[z - 1]
        z -= 1
    w.west[z] = xh
    return a


@inline_kernel
def enter_east(w: Work, k: int, b: int, xh: float) -> int:
    """Put `xh` in its place in the east list and drop the k+1-st; returns the new length."""
    b = min(b + 1, k)
    z = b
    while w.east[z - 1] > xh:
        w.east[z] = w.east[z - 1]
        z -= 1
    w.east[z] = xh
    return b


# The sweep. Objects become exposed when y_i worsens exactly where fewer than k nearer objects of their own side are
# better than they are, so they are met walking outward with the k-th best y so far as threshold; no `min_y` call is
# left.


@inner_kernel
def exposed(o, s, k, y, c, y_end, l_end, r_end, w):  # type: ignore[no-untyped-def]
    """Find the objects that become exposed as slot `s` worsens from just past (y, c) to `y_end`, within [l_end, r_end].

    Writes them to `hit` in (y, created) order, each as 2 * slot + (1 if east of s). Returns (how many, whether these
    are all); if not, go on after the last. O(log n) for each object met.
    """
    T, Tc = min(y_end, MAX), o.c[s]
    n = np.int64(0)
    complete = True
    for east in range(2):
        j = s
        better = 0
        seen = 0
        U, Uc = T, Tc
        while j >= 0:
            j = next_east(o, j, U, Uc) if east else next_west(o, j, U, Uc)
            if j >= 0 and (o.x[j] > r_end if east else o.x[j] < l_end):
                j = -1
            if j >= 0:
                yj, cj = o.y[j], o.c[j]
                if yj < y or (yj == y and cj <= c):
                    better += 1
                else:
                    if n == HITS:
                        _sort(o, w, n)
                        n = np.int64(HITS // 2)
                        last = w.hit[n - 1] >> 1
                        T, Tc = o.y[last], o.c[last] + 1
                        complete = False
                    w.hit[n] = 2 * j + east
                    n += yj < T or (yj == T and cj < Tc)
                seen = _keep_best(w, seen, k, yj, cj)
                U, Uc = T, Tc
                if seen == k and (w.best_y[k - 1] < T or (w.best_y[k - 1] == T and w.best_c[k - 1] < Tc)):
                    U, Uc = w.best_y[k - 1], w.best_c[k - 1]
                if better == k:
                    j = -1
    _sort(o, w, n)
    return n, complete


@inline_kernel
def _keep_best(w: Work, n: int, k: int, y: float, c: int) -> int:
    """Keep the k least (y, c) seen, in order."""
    z = min(n, k - 1)
    while z > 0 and (w.best_y[z - 1] > y or (w.best_y[z - 1] == y and w.best_c[z - 1] > c)):
        w.best_y[z], w.best_c[z] = w.best_y[z - 1], w.best_c[z - 1]
        z -= 1
    w.best_y[z], w.best_c[z] = y, c
    return min(n + 1, k)


@inner_kernel
def _sort(o, w, n):  # type: ignore[no-untyped-def]
    """Order hits by (y, created): runs by insertion, then merges."""
    run = 16
    for start in range(0, n, run):
        for i in range(start + 1, min(start + run, n)):
            hit = w.hit[i]
            y, c = o.y[hit >> 1], o.c[hit >> 1]
            j = i - 1
            while j >= start and _after(o, w.hit[j] >> 1, y, c):
                w.hit[j + 1] = w.hit[j]
                j -= 1
            w.hit[j + 1] = hit
    while run < n:
        for start in range(0, n, 2 * run):
            middle, end = min(start + run, n), min(start + 2 * run, n)
            i, j = start, middle
            for t in range(start, end):
                if i < middle and (j == end or _after(o, w.hit[j] >> 1, o.y[w.hit[i] >> 1], o.c[w.hit[i] >> 1])):
                    w.spare[t] = w.hit[i]
                    i += 1
                else:
                    w.spare[t] = w.hit[j]
                    j += 1
        for t in range(n):
            w.hit[t] = w.spare[t]
        run *= 2


@inline_kernel
def _after(o, s, y, c):  # type: ignore[no-untyped-def]
    return o.y[s] > y or (o.y[s] == y and o.c[s] > c)
