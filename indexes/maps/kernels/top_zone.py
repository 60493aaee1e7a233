"""The m-relaxed safe zone of a top-k: [Moving queries] Algorithms 3 and 6.

T is the k best, C(o:p) the preferred circle of a member o against another object p (`circles.py`, `rectangles.py`),
C(p) the least of these, and Z the m-th smallest C(p): within Z of q the k best are among T and the m - 1 objects whose
circles are smaller. Objects are taken in order of score, then age, so the result depends on the objects alone, not on
how they are stored.

Three things make it cheap. The search of the k + m best is the plain one, and opens only nodes that Algorithm 3 must
open, since the m owners of circles score no better. After that an object or node is examined only if it may come below
MScore within Z. And members are compared in descending order of score, where for a weighted sum the lead of a member
tells when no further one can have a smaller circle; bounds by tangents avoid most of the other computations.

Finally a zone is shrunk by `KEPT`, for what was left out at its border. Infinite: everywhere.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.compiled.simd import LANES, lanes_from, lanes_upto, low_bit
from indexes.core.arrays import Floats, Ints
from indexes.maps.kernels.circles import KEPT, Pair, bends_less, ratio_circle, sum_circle
from indexes.maps.kernels.floats import EPSILON, float_inlined, float_internal, float_kernel
from indexes.maps.kernels.heaps import Ages, arrange_objects, bring_first, drop_first, drop_object, push
from indexes.maps.kernels.metrics import EUCLIDEAN, FARTHEST, GREAT_CIRCLE, MANHATTAN, distance, maxdist
from indexes.maps.kernels.object_index import View
from indexes.maps.kernels.rectangles import Boxes, PlacedObject, crude_circle, preferred_circle
from indexes.maps.kernels.scores import (
    DISTANCE,
    EXPRESSION,
    PRODUCT,
    SUM,
    SURE,
    WASPAS,
    Scoring,
    bound_node,
    least_and_most,
    score_of,
    static_parts,
)
from indexes.maps.kernels.top_k import bound_children, is_leaf, place_of, score_leaf, search, slot_of
from indexes.maps.kernels.top_scratch import CIRCLES, FOUND, HELD, Heap, Members, Runs, TopScratch

FAR = 4.0
"""The largest radius where the form is not closed, as a multiple of the distances of both objects."""

TAME = 1e100
"""Radii are computed for distances and scores of at most this size, and of at least its inverse or 0: the squares of
others, and what they are compared with, may not be numbers. With others an answer holds at its place only."""

MOST_STEPS = 150_000_000
"""Steps of programs, or attributes of scores, over all comparisons of two objects for one zone: about a second."""

FARTHER = 4.0
"""By how much farther scores are queued the next time, where those before were not enough."""

LOOSE = 16
"""Objects to take from an unordered queue before it is made a heap."""


@float_inlined
def describe(view: View, scoring: Scoring, qx: float, qy: float, i: int, members: Members, t: int) -> None:
    """Write what circles need of object i to place t of the members."""
    x, y = place_of(view, i)
    members.x[t], members.y[t] = x - qx, y - qy
    members.far[t] = distance(scoring.metric, qx, qy, x, y)
    n = view.base.slot.size
    if i < n:
        members.total[t], members.product[t] = static_parts(scoring, view.base.statics, view.base.x.size, i)
    else:
        members.total[t], members.product[t] = static_parts(scoring, view.delta.statics, view.delta.x.size, i - n)
    stride = members.x.size
    for j in range(members.statics.size // stride):
        if i < n:
            members.statics[j * stride + t] = view.base.statics[j * view.base.x.size + i]
        else:
            members.statics[j * stride + t] = view.delta.statics[j * view.delta.x.size + i - n]


@float_internal
def same_statics(members: Members, o: int, p: int) -> bool:
    """Whether two members have the same static values."""
    stride = members.x.size
    same = True
    for j in range(members.statics.size // stride):
        same = same and members.statics[j * stride + o] == members.statics[j * stride + p]
    return same


@float_internal
def is_tame(x: float) -> bool:
    """Whether a radius can be computed from a distance or a score of x."""
    size = abs(x)
    return size == 0.0 or (size > 1.0 / TAME and size < TAME)


@float_internal
def no_worse_here(scoring: Scoring, members: Members, o: int, p: int) -> bool:
    """Whether o, which is at the same place as p, scores no worse than p at every distance."""
    if scoring.kind == EXPRESSION:
        better = same_statics(members, o, p)
    elif scoring.kind == DISTANCE:
        better = members.total[o] >= members.total[p]
    else:
        better = members.total[o] <= members.total[p] and (
            scoring.kind != WASPAS or members.product[o] <= members.product[p]
        )
    return better


@float_internal
def ratio_of(scoring: Scoring, members: Members, o: int, p: int) -> float:
    """The kappa of a weighted product or distance: x prefers o where d(x, o) <= kappa d(x, p). It is lowered by the
    possible rounding error. Infinite: everywhere."""
    a, b = members.total[o], members.total[p]
    if scoring.kind == PRODUCT:
        if a == 0.0:
            kappa = np.inf
        elif b == 0.0:
            kappa = 0.0
        else:
            # Below some weight the error is all there is, and the power, infinite.
            sure = 1.0 - 16.0 * EPSILON - (32.0 * EPSILON) / scoring.wd
            kappa = (b / a) ** (1.0 / scoring.wd) * sure if sure > 0.0 else 0.0
    elif b <= 0.0:
        kappa = np.inf
    else:
        kappa = a / b * (1.0 - 16.0 * EPSILON) if a > 0.0 else 0.0
    return kappa


@float_inlined
def placed(members: Members, qx: float, qy: float, t: int) -> PlacedObject:
    """Member t as circles without a closed form take it."""
    return PlacedObject(
        members.x[t] + qx,
        members.y[t] + qy,
        members.far[t],
        members.total[t],
        members.product[t],
        members.statics,
        members.x.size,
        t,
    )


@float_internal
def are_tame(far: Floats, scores: Floats, n: int) -> bool:
    """Whether radii can be computed with n members of these distances and scores."""
    tame = True
    for t in range(n):
        tame = tame and is_tame(far[t]) and is_tame(scores[t])
    return tame


@float_internal
def pair_circle(
    scoring: Scoring, qx: float, qy: float, scratch: TopScratch, o: int, p: int, score_p: float, cap: float
) -> float:
    """Up to `cap`, the radius within which member o scores no worse than p, which scores no better at q."""
    kind, metric, members = scoring.kind, scoring.metric, scratch.members
    exact = metric == EUCLIDEAN or (kind == SUM and metric == MANHATTAN)
    bound = 1.001 * FARTHEST if metric == GREAT_CIRCLE else FAR * (members.far[o] + members.far[p])
    bound = min(cap, bound)
    pair = Pair(members.x[o], members.y[o], members.far[o], members.x[p], members.y[p], members.far[p])
    if scoring.wd == 0.0:
        r = cap
    elif pair.ox == pair.px and pair.oy == pair.py and no_worse_here(scoring, members, o, p):
        r = cap
    elif score_p == np.inf and (kind == EXPRESSION or (kind == DISTANCE and members.total[p] <= 0.0)):
        r = cap  # without a score anywhere
    elif not (is_tame(score_p) and is_tame(members.far[p]) and is_tame(members.far[o])):
        r = 0.0
    elif kind == SUM:
        unit = scoring.scale / scoring.wd
        noise = 4.0 * EPSILON * (abs(scratch.best_score[o]) + abs(score_p)) * unit
        c = (members.total[p] - members.total[o]) * unit
        if metric == EUCLIDEAN and bends_less(pair, c, noise, cap):
            r = cap
        else:
            r = sum_circle(metric, pair, c, noise, cap)
    elif kind == PRODUCT or kind == DISTANCE:
        kappa = ratio_of(scoring, members, o, p)
        r = cap if kappa == np.inf else ratio_circle(metric, pair, kappa, cap)
    elif same_statics(members, o, p):
        r = ratio_circle(metric, pair, 1.0, cap)
    else:
        r = crude_circle(scoring, placed(members, qx, qy, o), placed(members, qx, qy, p), bound, scratch.boxes)
    if r > 0.0 and r < bound and (kind > DISTANCE or not exact):
        o_placed, p_placed = placed(members, qx, qy, o), placed(members, qx, qy, p)
        r = preferred_circle(scoring, qx, qy, o_placed, p_placed, r, bound, scratch.boxes)
    return r


@float_internal
def sum_circles(members: Members, scores: Floats, k: int, unit: float, score: float, cap: float) -> float:
    """As `irrelevant_circle`, for a weighted sum in the plane. `unit` is the distance worth a score of 1."""
    C = cap
    x, y, far, total = members.x, members.y, members.far, members.total
    px, py, dp, lead_p = x[k], y[k], far[k], total[k]
    t = k - 1
    going = True
    while going:
        noise = 4.0 * EPSILON * (abs(scores[t]) + abs(score)) * unit
        # Leads grow as members' scores fall.
        if 0.5 * ((score - scores[t]) * unit * (1.0 - 1e-9) - 4.0 * noise) >= C:
            going = False
        else:
            pair, c = Pair(x[t], y[t], far[t], px, py, dp), (lead_p - total[t]) * unit
            same = pair.ox == px and pair.oy == py and c >= 0.0
            if not same and not bends_less(pair, c, noise, C):
                C = sum_circle(EUCLIDEAN, pair, c, noise, C)
            t -= 1
            going = t >= 0 and C > 0.0
    return C


@float_internal
def is_spent(scoring: Scoring, boxes: Boxes) -> bool:
    """Whether as much was computed for one zone as may be: then it holds at its place only."""
    return boxes.compared[0] * max(scoring.program.step.size, scoring.column.size + 1) > MOST_STEPS


@float_internal
def pair_circles(
    scoring: Scoring, qx: float, qy: float, scratch: TopScratch, k: int, score: float, cap: float
) -> float:
    """As `irrelevant_circle`, pair by pair, for any score."""
    C = cap
    t = k - 1
    while t >= 0 and C > 0.0:
        C = pair_circle(scoring, qx, qy, scratch, t, k, score, C)
        t -= 1
    if is_spent(scoring, scratch.boxes):
        C = 0.0
    return C


@float_inlined
def irrelevant_circle(
    scoring: Scoring, qx: float, qy: float, scratch: TopScratch, k: int, score: float, cap: float
) -> float:
    """Algorithm 6: up to `cap`, the radius within which every member scores no worse than the object after them, whose
    score is given."""
    scratch.counted[CIRCLES] += 1
    tame = is_tame(score) and is_tame(scratch.members.far[k])
    if scoring.kind == SUM and scoring.metric == EUCLIDEAN and scoring.wd > 0.0 and tame:
        C = sum_circles(scratch.members, scratch.best_score, k, scoring.scale / scoring.wd, score, cap)
    else:
        C = pair_circles(scoring, qx, qy, scratch, k, score, cap)
    return C


@float_internal
def keep_circle(scratch: TopScratch, m: int, held: int, C: float, i: int) -> int:
    """Insert a circle into the m smallest, of which there are `held`, after equal ones; returns how many there are."""
    j = held
    if held == m:
        j = m - 1
    else:
        held += 1
    while j > 0 and scratch.circle[j - 1] > C:
        scratch.circle[j] = scratch.circle[j - 1]
        scratch.owner[j] = scratch.owner[j - 1]
        j -= 1
    scratch.circle[j] = C
    scratch.owner[j] = i
    return held


@float_internal
def most_score(scoring: Scoring, members: Members, k: int, Z: float) -> float:
    """MScore: an upper bound of the score of any member anywhere within Z."""
    within = Z if scoring.wd > 0.0 else 0.0
    worst = -np.inf
    for t in range(k):
        _, most = least_and_most(
            scoring,
            members.far[t],
            members.far[t] + within,
            members.total[t],
            members.product[t],
            members.statics,
            members.x.size,
            t,
        )
        worst = max(worst, most)
    return worst + 8.0 * EPSILON * abs(worst)


@float_internal
def highest_score(scoring: Scoring, MS: float, Z: float) -> float:
    """The highest score of an object that comes below MScore somewhere within Z; infinite where scores alone do not
    tell."""
    upper = np.inf
    if scoring.kind == SUM and scoring.wd > 0.0:
        upper = MS + scoring.wd * (Z / scoring.scale) * (1.0 + 1e-12)
    elif scoring.kind == DISTANCE and scoring.shift > 0.0:
        # No value is outside its range, so S is at least the shift.
        upper = MS + Z / scoring.scale / scoring.shift * (1.0 + 1e-9)
    return upper


@float_inlined
def comes_below(view: View, scoring: Scoring, qx: float, qy: float, i: int, score: float, MS: float, Z: float) -> bool:
    """Whether object i, whose score is given, may come below MScore somewhere within Z."""
    x, y = place_of(view, i)
    far = distance(scoring.metric, qx, qy, x, y)
    rest = max(0.0, min(far, SURE) - Z) if scoring.wd > 0.0 else far
    kind = scoring.kind
    shrinks = kind == DISTANCE or (kind == PRODUCT and scoring.wd <= 1.0)
    if shrinks and far > 0.0 and score * (rest / far) * KEPT >= MS:
        below = False
    else:
        n = view.base.slot.size
        if i < n:
            total, product = static_parts(scoring, view.base.statics, view.base.x.size, i)
            least, _ = least_and_most(scoring, rest, rest, total, product, view.base.statics, view.base.x.size, i)
        else:
            total, product = static_parts(scoring, view.delta.statics, view.delta.x.size, i - n)
            least, _ = least_and_most(scoring, rest, rest, total, product, view.delta.statics, view.delta.x.size, i - n)
        below = least < MS
    return below


@float_internal
def collect(runs: Runs, run: int, end: int, least: float, upper: float, known: Ints, objects: Heap, n: int) -> int:
    """Append the scores from `least` to `upper` of runs from `run` up to `end`, and their objects, to n others, without
    the `known` best; returns how many there are then."""
    scores, key, entry = runs.score, objects.key, objects.entry
    while run < end:
        at, upto, first = runs.at[run], runs.at[run + 1], runs.first[run]
        for block in range(at, upto, LANES):
            mask = lanes_upto(scores, block, upper) & lanes_from(scores, block, least)
            while mask != 0:
                t = block + low_bit(mask)
                mask &= mask - 1
                score, i = scores[t], first + t - at
                fresh = True
                if score == least:
                    for j in range(known.size):
                        fresh = fresh and known[j] != i
                key[n] = score
                entry[n] = i
                n += fresh
        run += 1
    return n


@float_internal
def filter_below(
    view: View, scoring: Scoring, qx: float, qy: float, objects: Heap, n: int, end: int, MS: float, Z: float
) -> int:
    """Keep those of the entries from n up to `end` that may come below MScore within Z; returns the new end."""
    # Nine arguments: what a score is of and the bound that it is held against stay scalars, as in `comes_below`.
    key, entry = objects.key, objects.entry
    for t in range(n, end):
        if comes_below(view, scoring, qx, qy, entry[t], key[t], MS, Z):
            key[n], entry[n] = key[t], entry[t]
            n += 1
    return n


@float_inlined
def queue_runs(
    view: View,
    scoring: Scoring,
    qx: float,
    qy: float,
    scratch: TopScratch,
    n: int,
    loose: bool,
    run: int,
    end: int,
    least: float,
    known: int,
    most: float,
    MS: float,
    Z: float,
) -> int:
    """Queue objects of runs from `run` up to `end` with scores from `least` up to `most`, except the `known` best, that
    may come below MScore within Z; returns the length of the queue. A `loose` queue is in no order, but its first is in
    front.
    """
    # More than eight arguments, all scalars but three: what is searched, which runs, and the bounds.
    upper = min(most, highest_score(scoring, MS, Z))
    objects = scratch.objects
    upto = collect(scratch.runs, run, end, least, upper, scratch.best[:known], objects, n)
    if scoring.kind != SUM and np.inf > MS:
        upto = filter_below(view, scoring, qx, qy, objects, n, upto, MS, Z)
    ages = Ages(view.base.slot, view.delta.slot, view.created)
    if loose:
        upto = bring_first(ages, objects.key, objects.entry, upto, upper)
    else:
        arrange_objects(ages, objects.key, objects.entry, n, upto)
    return upto


@float_inlined
def least_within(view: View, scoring: Scoring, qx: float, qy: float, node: int, Z: float) -> float:
    """A lower bound of the scores of all objects below a node anywhere within Z."""
    nodes = view.first.size
    if node < nodes:
        least = bound_node(scoring, qx, qy, view.nodes, node, Z)
    else:
        least = bound_node(scoring, qx, qy, view.blocks, node - nodes, Z)
    return least


@float_internal
def led_everywhere(view: View, scoring: Scoring, qx: float, qy: float, node: int, scratch: TopScratch, k: int) -> bool:
    """Whether by a weighted sum every member leads all objects below a node by more than their distance is worth."""
    nodes = view.first.size
    unit = scoring.scale / scoring.wd
    led = True
    if node < nodes:
        x0, y0, x1, y1 = view.nodes.x0[node], view.nodes.y0[node], view.nodes.x1[node], view.nodes.y1[node]
        total, _ = static_parts(scoring, view.nodes.lower, view.nodes.x0.size, node)
    else:
        b = node - nodes
        x0, y0, x1, y1 = view.blocks.x0[b], view.blocks.y0[b], view.blocks.x1[b], view.blocks.y1[b]
        total, _ = static_parts(scoring, view.blocks.lower, view.blocks.x0.size, b)
    for t in range(k):
        if led:
            far = maxdist(scoring.metric, scratch.members.x[t] + qx, scratch.members.y[t] + qy, x0, y0, x1, y1)
            led = (total - scratch.members.total[t]) * unit >= far * (1.0 + 1e-9)
    return led


@float_internal
def zone(
    view: View, scoring: Scoring, qx: float, qy: float, k: int, m: int, ordered: bool, scratch: TopScratch
) -> float:
    """Algorithm 3. The list of the best has T first, and `owner` has the objects of the HELD smallest circles. Returns
    the radius, infinite where it is everywhere."""
    scratch.boxes.compared[0] = 0
    runs, waiting, late = search(view, scoring, qx, qy, k + m, scratch)
    found = scratch.counted[FOUND]
    n_t = min(k, found)
    for t in range(n_t):
        describe(view, scoring, qx, qy, scratch.best[t], scratch.members, t)
    limit = np.inf
    if ordered:
        for t in range(n_t - 1):
            limit = pair_circle(scoring, qx, qy, scratch, t, t + 1, scratch.best_score[t + 1], limit)
    held = 0
    Z = limit if ordered and n_t > 1 else np.inf
    # What has no score has none anywhere, and so have all behind it.
    settled = n_t == k and scratch.best_score[k - 1] == np.inf and scoring.kind == EXPRESSION
    if scoring.wd > 0.0 and not settled and not are_tame(scratch.members.far, scratch.best_score, n_t):
        limit = 0.0
        Z = min(Z, limit) if ordered and n_t > 1 else Z
    for j in range(n_t, found):
        C = limit
        if not settled:
            describe(view, scoring, qx, qy, scratch.best[j], scratch.members, k)
            C = irrelevant_circle(scoring, qx, qy, scratch, k, scratch.best_score[j], limit)
            if is_spent(scoring, scratch.boxes):
                limit = Z = C = 0.0
        held = keep_circle(scratch, m, held, C, scratch.best[j])
    if held == m and not settled:
        Z = min(limit, scratch.circle[m - 1])
        MS = most_score(scoring, scratch.members, k, Z)
        least = scratch.best_score[found - 1]
        loose, taken = True, 0
        ages = Ages(view.base.slot, view.delta.slot, view.created)
        # Nearly all may come below MScore until the first of them have made the zone smaller: so by a weighted sum they
        # are queued up to some score, and on from there when those are done with.
        step = least - scratch.best_score[k - 1]
        most = least + step if scoring.kind == SUM and step > 0.0 else np.inf
        n = queue_runs(view, scoring, qx, qy, scratch, 0, loose, 0, runs, least, found, most, MS, Z)
        for j in range(late):
            if scratch.late_key[j] <= highest_score(scoring, MS, Z):
                push(scratch.key, scratch.node, waiting, scratch.late_key[j], scratch.late_node[j])
                waiting += 1
        going = Z > 0.0
        while going:
            if n == 0 and most < highest_score(scoring, MS, Z) and (waiting == 0 or most < scratch.key[0]):
                above = np.nextafter(most, np.inf)
                step *= FARTHER
                most = most + step if highest_score(scoring, MS, Z) < np.inf else np.inf
                n = queue_runs(view, scoring, qx, qy, scratch, n, loose, 0, runs, above, 0, most, MS, Z)
            elif waiting > 0 and (n == 0 or scratch.key[0] <= scratch.objects.key[0]):
                e, going = scratch.node[0], scratch.key[0] <= highest_score(scoring, MS, Z)
                drop_first(scratch.key, scratch.node, waiting)
                waiting -= 1
                needed = going and least_within(view, scoring, qx, qy, e, Z) < MS
                if needed and np.inf == Z and scoring.kind == SUM and scoring.wd > 0.0:
                    needed = not led_everywhere(view, scoring, qx, qy, e, scratch, k)
                if needed and is_leaf(view, e):
                    score_leaf(view, scoring, qx, qy, e, scratch, runs)
                    n = queue_runs(view, scoring, qx, qy, scratch, n, loose, runs, runs + 1, -np.inf, 0, most, MS, Z)
                    runs += 1
                elif needed:
                    first, end = bound_children(view, scoring, qx, qy, e, scratch)
                    for c in range(first, end):
                        if scratch.bound[c - first] <= highest_score(scoring, MS, Z):
                            push(scratch.key, scratch.node, waiting, scratch.bound[c - first], c)
                            waiting += 1
            elif n > 0:
                score, i = scratch.objects.key[0], scratch.objects.entry[0]
                if loose:
                    n -= 1
                    scratch.objects.key[0], scratch.objects.entry[0] = scratch.objects.key[n], scratch.objects.entry[n]
                else:
                    drop_object(ages, scratch.objects.key, scratch.objects.entry, n)
                    n -= 1
                going = score <= highest_score(scoring, MS, Z)
                if going and comes_below(view, scoring, qx, qy, i, score, MS, Z):
                    describe(view, scoring, qx, qy, i, scratch.members, k)
                    C = irrelevant_circle(scoring, qx, qy, scratch, k, score, Z)
                    if C < Z:
                        held = keep_circle(scratch, m, held, C, i)
                        Z = 0.0 if is_spent(scoring, scratch.boxes) else scratch.circle[m - 1]
                        MS = most_score(scoring, scratch.members, k, Z)
                        going = Z > 0.0
                taken += 1
                if loose and taken < LOOSE:
                    n = bring_first(ages, scratch.objects.key, scratch.objects.entry, n, highest_score(scoring, MS, Z))
                elif loose:
                    loose = False
                    arrange_objects(ages, scratch.objects.key, scratch.objects.entry, 0, n)
            else:
                going = False
    scratch.counted[HELD] = held
    return np.inf if Z >= FARTHEST and scoring.metric == GREAT_CIRCLE else Z * KEPT


class RankedMembers(NamedTuple):
    """The members of a top-k in order of score."""

    places: Floats  # (k, 2)
    statics: Floats  # (k, d)
    scores: Floats


class OtherObject(NamedTuple):
    """An object that is not a member."""

    x: float
    y: float
    statics: Floats  # (d,)


@float_kernel
def circle_against(
    scoring: Scoring, qx: float, qy: float, members: RankedMembers, other: OtherObject, cap: float, scratch: TopScratch
) -> tuple[float, float]:
    """The score of another object at (qx, qy), and its irrelevant circle up to `cap`: the radius within which every
    member scores no worse."""
    described = scratch.members
    scratch.boxes.compared[0] = 0
    k, stride = members.scores.size, described.x.size
    for t in range(k + 1):
        x, y = (members.places[t, 0], members.places[t, 1]) if t < k else (other.x, other.y)
        described.x[t], described.y[t] = x - qx, y - qy
        described.far[t] = distance(scoring.metric, qx, qy, x, y)
        for j in range(other.statics.size):
            described.statics[j * stride + t] = members.statics[t, j] if t < k else other.statics[j]
        described.total[t], described.product[t] = static_parts(scoring, described.statics, stride, t)
        if t < k:
            scratch.best_score[t] = members.scores[t]
    score = score_of(scoring, described.far[k], described.total[k], described.product[k], described.statics, stride, k)
    if scoring.wd > 0.0 and cap > 0.0 and not are_tame(described.far, scratch.best_score, k):
        cap = 0.0
    return score, irrelevant_circle(scoring, qx, qy, scratch, k, score, cap)


class TopZones(NamedTuple):
    """The zones at q points, by row: the slots of the k best and of the further candidates, their scores (infinite
    where there is none) and distances."""

    slots: Ints  # (q, k + m - 1)
    scores: Floats  # (q, k + m - 1)
    far: Floats  # (q, k + m - 1)
    members: Ints  # (q,) how many of the k there are
    number: Ints  # (q,) how many candidates there are in all
    radius: Floats  # (q,)


@float_kernel
def zones(
    view: View, scoring: Scoring, points: Floats, k: int, m: int, ordered: bool, scratch: TopScratch, out: TopZones
) -> None:
    """Write the k best at each of the points (q, 2), and their zones."""
    for q in range(len(points)):
        qx, qy = points[q, 0], points[q, 1]
        out.radius[q] = zone(view, scoring, qx, qy, k, m, ordered, scratch)
        found = scratch.counted[FOUND]
        out.members[q] = min(k, found)
        out.number[q] = min(found, k + m - 1)
        for i in range(out.number[q]):
            t = scratch.best[i] if i < k else scratch.owner[i - k]
            x, y = place_of(view, t)
            out.slots[q, i] = slot_of(view, t)
            out.far[q, i] = distance(scoring.metric, qx, qy, x, y)
            out.scores[q, i] = scratch.best_score[i]
            if i >= k:
                describe(view, scoring, qx, qy, t, scratch.members, k)
                out.scores[q, i] = score_of(
                    scoring,
                    scratch.members.far[k],
                    scratch.members.total[k],
                    scratch.members.product[k],
                    scratch.members.statics,
                    scratch.members.x.size,
                    k,
                )
