"""The m-relaxed safe zone of a top-k: Algorithms 3 and 6 of the paper.

T is the k best, C(o:p) the preferred circle of a member o against another object p (`circles.py`, `rectangles.py`),
C(p) the least of these, and Z the m-th smallest C(p): within Z of q the k best are among T and the m - 1 objects whose
circles are smaller. Objects are taken in order of score, then age, so what comes out depends on the objects alone, not
on how they are stored.

Three things make it cheap. The search of the k + m best is the plain one, and visits only nodes that Algorithm 3 must
visit, for the m owners can be no better. From then on what is looked at, among the scores that are there as among
nodes that wait, has to come below MScore within Z. And members are asked in descending order of score, where for a
weighted sum the lead of a member tells at once when no further one can have a smaller circle; bounds by tangents spare
most of the rest.

A zone is shrunk by `KEPT` at last, for what was left out at its border. Infinite: everywhere.
"""

from __future__ import annotations

import numpy as np

from indexes.lanes import LANES, lanes_from, lanes_upto, low_bit
from indexes.maps.circles import KEPT, bends_less, ratio_circle, sum_circle
from indexes.maps.floats import EPSILON, float_kernel, float_part, float_pasted
from indexes.maps.heaps import Ages, arrange_objects, bring_first, drop_first, drop_object, push
from indexes.maps.metrics import EUCLIDEAN, FARTHEST, GREAT_CIRCLE, MANHATTAN, distance, maxdist
from indexes.maps.rectangles import crude_circle, preferred_circle
from indexes.maps.scores import (
    DISTANCE,
    EXPRESSION,
    PRODUCT,
    SUM,
    WASPAS,
    bound_node,
    least_and_most,
    score_of,
    static_parts,
)
from indexes.maps.top_k import bound_children, is_leaf, place_of, score_leaf, search, slot_of
from indexes.maps.top_room import CIRCLES, FOUND, HELD

FAR = 4.0
"""How many times as far as both objects a circle may reach at most, where its form is not closed."""

LOOSE = 16
"""Objects that are taken from the queue before it is worth its while to arrange it."""


@float_part
def describe(v, s, qx, qy, i, w, t):  # type: ignore[no-untyped-def]
    """Write what circles need to know of object i to place t of the members."""
    x, y = place_of(v, i)
    w.x[t], w.y[t] = x - qx, y - qy
    w.far[t] = distance(s.metric, qx, qy, x, y)
    n = v.slot.size
    if i < n:
        w.total[t], w.product[t] = static_parts(s, v.statics, v.x.size, i)
    else:
        w.total[t], w.product[t] = static_parts(s, v.delta_statics, v.delta_x.size, i - n)
    stride = w.x.size
    for j in range(w.statics.size // stride):
        if i < n:
            w.statics[j * stride + t] = v.statics[j * v.x.size + i]
        else:
            w.statics[j * stride + t] = v.delta_statics[j * v.delta_x.size + i - n]


@float_part
def same_statics(w, o, p):  # type: ignore[no-untyped-def]
    """Whether two members have the same static values."""
    stride = w.x.size
    same = True
    for j in range(w.statics.size // stride):
        same = same and w.statics[j * stride + o] == w.statics[j * stride + p]
    return same


@float_part
def no_worse_here(s, w, o, p):  # type: ignore[no-untyped-def]
    """Whether o, which is at the same place as p, scores no worse than p at every distance."""
    if s.kind == EXPRESSION:
        better = same_statics(w, o, p)
    elif s.kind == DISTANCE:
        better = w.total[o] >= w.total[p]
    else:
        better = w.total[o] <= w.total[p] and (s.kind != WASPAS or w.product[o] <= w.product[p])
    return better


@float_part
def ratio_of(s, w, o, p):  # type: ignore[no-untyped-def]
    """The kappa of a weighted product or distance: x prefers o where d(x, o) <= kappa d(x, p). It is lowered by what
    rounding may come to. Infinite: everywhere."""
    a, b = w.total[o], w.total[p]
    if s.kind == PRODUCT:
        if a == 0.0:
            kappa = np.inf
        elif b == 0.0:
            kappa = 0.0
        else:
            kappa = (b / a) ** (1.0 / s.wd) * max(0.0, 1.0 - 16.0 * EPSILON - (32.0 * EPSILON) / s.wd)
    elif b <= 0.0:
        kappa = np.inf
    else:
        kappa = a / b * (1.0 - 16.0 * EPSILON) if a > 0.0 else 0.0
    return kappa


@float_part
def pair_circle(s, qx, qy, w, o, p, score_o, score_p, cap):  # type: ignore[no-untyped-def]
    """Up to `cap`, how far one may go while member o scores no worse than p, which scores no better here."""
    kind, metric = s.kind, s.metric
    exact = metric == EUCLIDEAN or (kind == SUM and metric == MANHATTAN)
    bound = 1.001 * FARTHEST if metric == GREAT_CIRCLE else FAR * (w.far[o] + w.far[p])
    bound = min(cap, bound)
    ox, oy, do, px, py, dp = w.x[o], w.y[o], w.far[o], w.x[p], w.y[p], w.far[p]
    if s.wd == 0.0:
        r = cap
    elif ox == px and oy == py and no_worse_here(s, w, o, p):
        r = cap
    elif score_p == np.inf:
        # Without a score anywhere, or (from coordinates that are too large) unknown.
        r = cap if kind == EXPRESSION or kind == DISTANCE else 0.0
    elif kind == SUM:
        unit = s.scale / s.wd
        noise = 4.0 * EPSILON * (abs(score_o) + abs(score_p)) * unit
        c = (w.total[p] - w.total[o]) * unit
        if metric == EUCLIDEAN and bends_less(ox, oy, do, px, py, dp, c, noise, cap):
            r = cap
        else:
            r = sum_circle(metric, ox, oy, do, px, py, dp, c, noise, cap)
    elif kind == PRODUCT or kind == DISTANCE:
        kappa = ratio_of(s, w, o, p)
        r = cap if kappa == np.inf else ratio_circle(metric, ox, oy, do, px, py, dp, kappa, cap)
    elif same_statics(w, o, p):
        r = ratio_circle(metric, ox, oy, do, px, py, dp, 1.0, cap)
    else:
        stride = w.x.size
        t0, q0, t1, q1 = w.total[o], w.product[o], w.total[p], w.product[p]
        r = crude_circle(s, t0, q0, o, do, t1, q1, p, dp, w.statics, stride, bound)
    if r > 0.0 and r < bound and (kind > DISTANCE or not exact):
        stride = w.x.size
        t0, q0, t1, q1 = w.total[o], w.product[o], w.total[p], w.product[p]
        gx, gy, hx, hy = ox + qx, oy + qy, px + qx, py + qy
        r = preferred_circle(s, qx, qy, gx, gy, t0, q0, o, hx, hy, t1, q1, p, w.statics, stride, r, bound, w.boxes)
    return r


@float_part
def sum_circles(x, y, far, total, scores, k, unit, score, cap):  # type: ignore[no-untyped-def]
    """As `irrelevant_circle`, for a weighted sum in the plane. `unit` is the distance that a score of 1 is worth."""
    C = cap
    px, py, dp, lead_p = x[k], y[k], far[k], total[k]
    t = k - 1
    going = True
    while going:
        noise = 4.0 * EPSILON * (abs(scores[t]) + abs(score)) * unit
        # Leads grow as members' scores fall.
        if 0.5 * ((score - scores[t]) * unit * (1.0 - 1e-9) - 4.0 * noise) >= C:
            going = False
        else:
            ox, oy, do, c = x[t], y[t], far[t], (lead_p - total[t]) * unit
            same = ox == px and oy == py and c >= 0.0
            if not same and not bends_less(ox, oy, do, px, py, dp, c, noise, C):
                C = sum_circle(EUCLIDEAN, ox, oy, do, px, py, dp, c, noise, C)
            t -= 1
            going = t >= 0 and C > 0.0
    return C


@float_part
def irrelevant_circle(s, qx, qy, w, k, score, cap):  # type: ignore[no-untyped-def]
    """Algorithm 6: up to `cap`, how far one may go while every member scores no worse than the object behind them,
    whose score is given."""
    C = cap
    w.counted[CIRCLES] += 1
    if s.kind == SUM and s.metric == EUCLIDEAN and s.wd > 0.0 and score < np.inf:
        C = sum_circles(w.x, w.y, w.far, w.total, w.best_score, k, s.scale / s.wd, score, cap)
    else:
        t = k - 1
        while t >= 0 and C > 0.0:
            C = pair_circle(s, qx, qy, w, t, k, w.best_score[t], score, C)
            t -= 1
    return C


@float_part
def keep_circle(w, m, held, C, i):  # type: ignore[no-untyped-def]
    """Put a circle among the m smallest, of which there are `held`, behind those that are equal."""
    j = held
    if held == m:
        j = m - 1
    else:
        held += 1
    while j > 0 and w.circle[j - 1] > C:
        w.circle[j] = w.circle[j - 1]
        w.owner[j] = w.owner[j - 1]
        j -= 1
    w.circle[j] = C
    w.owner[j] = i
    return held


@float_part
def most_score(s, w, k, Z):  # type: ignore[no-untyped-def]
    """MScore: at least the score of any member anywhere within Z."""
    within = Z if s.wd > 0.0 else 0.0
    worst = -np.inf
    for t in range(k):
        _, most = least_and_most(s, w.far[t], w.far[t] + within, w.total[t], w.product[t], w.statics, w.x.size, t)
        worst = max(worst, most)
    return worst + 8.0 * EPSILON * abs(worst)


@float_part
def highest(s, MS, Z):  # type: ignore[no-untyped-def]
    """The score that an object has at most which comes below MScore somewhere within Z; infinite where scores alone
    cannot tell it."""
    upper = np.inf
    if s.kind == SUM and s.wd > 0.0:
        upper = MS + s.wd * (Z / s.scale) * (1.0 + 1e-12)
    elif s.kind == DISTANCE and s.shift > 0.0:
        # No value is outside its range, so S is at least the shift.
        upper = MS + Z / s.scale / s.shift * (1.0 + 1e-9)
    return upper


@float_pasted
def comes_below(v, s, qx, qy, i, score, MS, Z):  # type: ignore[no-untyped-def]
    """Whether object i, whose score is given, may come below MScore somewhere within Z."""
    x, y = place_of(v, i)
    far = distance(s.metric, qx, qy, x, y)
    rest = max(0.0, far - (Z if s.wd > 0.0 else 0.0))
    kind = s.kind
    shrinks = kind == DISTANCE or (kind == PRODUCT and s.wd <= 1.0)
    if shrinks and far > 0.0 and score * (rest / far) * KEPT >= MS:
        below = False
    else:
        n = v.slot.size
        if i < n:
            total, product = static_parts(s, v.statics, v.x.size, i)
            least, _ = least_and_most(s, rest, rest, total, product, v.statics, v.x.size, i)
        else:
            total, product = static_parts(s, v.delta_statics, v.delta_x.size, i - n)
            least, _ = least_and_most(s, rest, rest, total, product, v.delta_statics, v.delta_x.size, i - n)
        below = least < MS
    return below


@float_part
def gather(scores, run_at, run_first, run, end, least, upper, best, known, key, entry, n):  # type: ignore[no-untyped-def]
    """Write the scores from `least` to `upper` that runs from `run` up to `end` have, and whose they are, behind n
    others, without the `known` best; returns how many there are then."""
    while run < end:
        at, upto, first = run_at[run], run_at[run + 1], run_first[run]
        for block in range(at, upto, LANES):
            mask = lanes_upto(scores, block, upper) & lanes_from(scores, block, least)
            while mask != 0:
                t = block + low_bit(mask)
                mask &= mask - 1
                score, i = scores[t], first + t - at
                fresh = True
                if score == least:
                    for j in range(known):
                        fresh = fresh and best[j] != i
                key[n] = score
                entry[n] = i
                n += fresh
        run += 1
    return n


@float_part
def only_below(v, s, qx, qy, key, entry, n, end, MS, Z):  # type: ignore[no-untyped-def]
    """Keep of the entries from n up to `end` those that may come below MScore within Z; returns where they end."""
    for t in range(n, end):
        if comes_below(v, s, qx, qy, entry[t], key[t], MS, Z):
            key[n], entry[n] = key[t], entry[t]
            n += 1
    return n


@float_pasted
def wait_for_runs(v, s, qx, qy, w, n, loose, run, end, least, known, MS, Z):  # type: ignore[no-untyped-def]
    """Queue what runs from `run` up to `end` have with scores from `least` on, except the `known` best, that may come
    below MScore within Z; returns how many wait. A `loose` queue has no order but that the first is in front."""
    upper = highest(s, MS, Z)
    key, entry = w.next_key, w.next_object
    upto = gather(w.score, w.run_at, w.run_first, run, end, least, upper, w.best, known, key, entry, n)
    if s.kind != SUM and np.inf > MS:
        upto = only_below(v, s, qx, qy, key, entry, n, upto, MS, Z)
    ages = Ages(v.slot, v.delta_slot, v.created)
    if loose:
        upto = bring_first(ages, key, entry, upto, upper)
    else:
        arrange_objects(ages, key, entry, n, upto)
    return upto


@float_part
def least_within(v, s, qx, qy, e, Z):  # type: ignore[no-untyped-def]
    """What no object below node e scores less than, anywhere within Z."""
    nodes = v.first.size
    if e < nodes:
        least = bound_node(s, qx, qy, v.x0, v.y0, v.x1, v.y1, v.lower, v.upper, e, Z)
    else:
        bx, by, b = v.block_x0, v.block_y0, e - nodes
        least = bound_node(s, qx, qy, bx, by, v.block_x1, v.block_y1, v.block_lower, v.block_upper, b, Z)
    return least


@float_part
def led_everywhere(v, s, qx, qy, e, w, k):  # type: ignore[no-untyped-def]
    """Whether by a weighted sum all members lead all objects of node e by more than their distance is worth."""
    nodes = v.first.size
    unit = s.scale / s.wd
    led = True
    if e < nodes:
        x0, y0, x1, y1 = v.x0[e], v.y0[e], v.x1[e], v.y1[e]
        total, _ = static_parts(s, v.lower, v.x0.size, e)
    else:
        b = e - nodes
        x0, y0, x1, y1 = v.block_x0[b], v.block_y0[b], v.block_x1[b], v.block_y1[b]
        total, _ = static_parts(s, v.block_lower, v.block_x0.size, b)
    for t in range(k):
        if led:
            far = maxdist(s.metric, w.x[t] + qx, w.y[t] + qy, x0, y0, x1, y1)
            led = (total - w.total[t]) * unit >= far * (1.0 + 1e-9)
    return led


@float_part
def zone(v, s, qx, qy, k, m, ordered, w):  # type: ignore[no-untyped-def]
    """Algorithm 3. The list of the best has T first, and `owner` the objects of the HELD smallest circles. Returns the
    radius, infinite where it is everywhere."""
    runs, waiting, late = search(v, s, qx, qy, k + m, w)
    found = w.counted[FOUND]
    n_t = min(k, found)
    for t in range(n_t):
        describe(v, s, qx, qy, w.best[t], w, t)
    limit = np.inf
    if ordered:
        for t in range(n_t - 1):
            limit = pair_circle(s, qx, qy, w, t, t + 1, w.best_score[t], w.best_score[t + 1], limit)
    held = 0
    Z = limit if ordered and n_t > 1 else np.inf
    # What has no score has none anywhere, and so have all behind it.
    settled = n_t == k and w.best_score[k - 1] == np.inf and (s.kind == EXPRESSION or s.kind == DISTANCE)
    for j in range(n_t, found):
        C = limit
        if not settled:
            describe(v, s, qx, qy, w.best[j], w, k)
            C = irrelevant_circle(s, qx, qy, w, k, w.best_score[j], limit)
        held = keep_circle(w, m, held, C, w.best[j])
    if held == m and not settled:
        Z = w.circle[m - 1]
        MS = most_score(s, w, k, Z)
        least = w.best_score[found - 1]
        loose, taken = True, 0
        ages = Ages(v.slot, v.delta_slot, v.created)
        n = wait_for_runs(v, s, qx, qy, w, 0, loose, 0, runs, least, found, MS, Z)
        for j in range(late):
            if w.late_key[j] <= highest(s, MS, Z):
                push(w.key, w.node, waiting, w.late_key[j], w.late_node[j])
                waiting += 1
        going = Z > 0.0
        while going:
            if waiting > 0 and (n == 0 or w.key[0] <= w.next_key[0]):
                e, going = w.node[0], w.key[0] <= highest(s, MS, Z)
                drop_first(w.key, w.node, waiting)
                waiting -= 1
                needed = going and least_within(v, s, qx, qy, e, Z) < MS
                if needed and np.inf == Z and s.kind == SUM and s.wd > 0.0:
                    needed = not led_everywhere(v, s, qx, qy, e, w, k)
                if needed and is_leaf(v, e):
                    score_leaf(v, s, qx, qy, e, w, runs)
                    n = wait_for_runs(v, s, qx, qy, w, n, loose, runs, runs + 1, -np.inf, 0, MS, Z)
                    runs += 1
                elif needed:
                    first, end = bound_children(v, s, qx, qy, e, w)
                    for c in range(first, end):
                        if w.bound[c - first] <= highest(s, MS, Z):
                            push(w.key, w.node, waiting, w.bound[c - first], c)
                            waiting += 1
            elif n > 0:
                score, i = w.next_key[0], w.next_object[0]
                if loose:
                    n -= 1
                    w.next_key[0], w.next_object[0] = w.next_key[n], w.next_object[n]
                else:
                    drop_object(ages, w.next_key, w.next_object, n)
                    n -= 1
                going = score <= highest(s, MS, Z)
                if going and comes_below(v, s, qx, qy, i, score, MS, Z):
                    describe(v, s, qx, qy, i, w, k)
                    C = irrelevant_circle(s, qx, qy, w, k, score, Z)
                    if C < Z:
                        held = keep_circle(w, m, held, C, i)
                        Z = w.circle[m - 1]
                        MS = most_score(s, w, k, Z)
                        going = Z > 0.0
                taken += 1
                if loose and taken < LOOSE:
                    n = bring_first(ages, w.next_key, w.next_object, n, highest(s, MS, Z))
                elif loose:
                    loose = False
                    arrange_objects(ages, w.next_key, w.next_object, 0, n)
            else:
                going = False
    w.counted[HELD] = held
    return np.inf if Z >= FARTHEST and s.metric == GREAT_CIRCLE else Z * KEPT


@float_kernel
def circle_beside(s, qx, qy, k, places, statics, scores, px, py, values, cap, w):  # type: ignore[no-untyped-def]
    """Up to `cap`, how far from (qx, qy) one may go while k members, in order of score, score no worse than an object
    at (px, py): their places (k, 2), static values (k, d) and scores. Returns the object's score, and the circle."""
    stride = w.x.size
    for t in range(k + 1):
        x, y = (places[t, 0], places[t, 1]) if t < k else (px, py)
        w.x[t], w.y[t] = x - qx, y - qy
        w.far[t] = distance(s.metric, qx, qy, x, y)
        for j in range(values.size):
            w.statics[j * stride + t] = statics[t, j] if t < k else values[j]
        w.total[t], w.product[t] = static_parts(s, w.statics, stride, t)
        if t < k:
            w.best_score[t] = scores[t]
    score = score_of(s, w.far[k], w.total[k], w.product[k], w.statics, stride, k)
    return score, irrelevant_circle(s, qx, qy, w, k, score, cap)


@float_kernel
def zones(v, s, points, k, m, ordered, w, slots, scores, far, members, number, radius):  # type: ignore[no-untyped-def]
    """For each of the points (q, 2), as rows of (q, k + m - 1): the slots of the k best and of the further candidates,
    their scores (infinite where there is none) and distances; how many members and candidates there are; and the
    zone's radius."""
    for q in range(len(points)):
        qx, qy = points[q, 0], points[q, 1]
        radius[q] = zone(v, s, qx, qy, k, m, ordered, w)
        found = w.counted[FOUND]
        members[q] = min(k, found)
        number[q] = min(found, k + m - 1)
        for i in range(number[q]):
            t = w.best[i] if i < k else w.owner[i - k]
            x, y = place_of(v, t)
            slots[q, i] = slot_of(v, t)
            far[q, i] = distance(s.metric, qx, qy, x, y)
            scores[q, i] = w.best_score[i]
            if i >= k:
                describe(v, s, qx, qy, t, w, k)
                scores[q, i] = score_of(s, w.far[k], w.total[k], w.product[k], w.statics, w.x.size, k)
