"""Scores of a top-k: the score of an object at a distance, and lower bounds of the scores of all objects of a node.

With D = distance / scale and x_i the static values (smaller is better), sums and products running over the attributes
in order, then distance; with v_i = (value - lo) / (hi - lo) of the attribute's range, or 1 less that where high is
better:

    weighted sum        A + w D                     A = sum w_i x_i
    weighted product    P D^w                       P = product (v_i + c)^(w_i)
    weighted distance   D / S                       S = c + sum w_i (1 - v_i)
    waspas              l (A + w D) + (1 - l) P D^w A = sum w_i v_i, and P as above
    expression          a program (`programs.py`)

Terms of A, factors of P and P itself are clamped to finite numbers, so that no sum of them is undefined.

So the static values of an object are reduced to two numbers, `static_parts`. k nearest neighbours are a weighted sum
with a weight of distance alone. A score is never NaN: an object without one, also where S is 0, has an infinite score
and ranks last.

Bounds hold for computed scores. Sums, differences, products, quotients and roots are rounded monotonically, so bounds
computed by the same steps from better values hold as they are; powers almost are, and their results are lowered by
`BELOW`.

Source: [Moving queries] 4.1, equations (1) to (3); Definition 11 for the bounds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.core.arrays import Floats, Ints
from indexes.maps.kernels.floats import float_inlined, float_inlined_kernel, float_internal, float_kernel
from indexes.maps.kernels.metrics import EUCLIDEAN, GREAT_CIRCLE, distance, maxdist, mindist
from indexes.maps.kernels.object_index import NodeColumns, ObjectColumns
from indexes.maps.kernels.programs import Program, clamped, run, run_over

SUM, PRODUCT, DISTANCE, WASPAS, EXPRESSION = range(5)

LIGHT, SMALL_FACTOR = 1e6, 1e15
"""Up to this weight, and up to this factor, no sum and no product over all attributes of numbers of at most 1e300 in
size can overflow; so only terms and factors beyond are clamped."""

SURE = 1e154
"""What is farther than a number can tell is at least so far away, and also after a short way towards it."""

BELOW = 1.0 - 1e-13
"""By more than this factor the computed powers of a score and of its bound cannot differ."""


class Scoring(NamedTuple):
    """A score over the metric of a map."""

    kind: int
    metric: int
    scale: float
    wd: float  # the weight of distance; of weighted distance and of expressions: 0 where distance changes nothing
    shift: float
    blend: float  # lambda
    column: Ints  # which static values have a weight, in order
    weight: Floats
    low: Floats  # the least value of each of those, how wide its range is, and 1, or -1 where high is better
    width: Floats
    sign: Floats
    program: Program  # of an expression; else empty


@float_inlined_kernel
def static_parts(scoring: Scoring, statics: Floats, stride: int, i: int) -> tuple[float, float]:
    """The static parts of the score of object i; static value j is statics[j * stride + i]. O(attributes)."""
    total, product = 0.0, 1.0
    kind = scoring.kind
    if kind == SUM:
        for t in range(scoring.column.size):
            total += clamped(scoring.weight[t] * statics[scoring.column[t] * stride + i])
        total = clamped(total)
    elif kind != EXPRESSION:
        for t in range(scoring.column.size):
            value = statics[scoring.column[t] * stride + i] * scoring.sign[t]
            v = (value - scoring.low[t]) / scoring.width[t]
            if scoring.sign[t] < 0.0:
                v = 1.0 - v
            if kind == DISTANCE:
                total += scoring.weight[t] * (1.0 - v)
            else:
                total += scoring.weight[t] * v
                product = clamped(product * clamped((v + scoring.shift) ** scoring.weight[t]))
        if kind == DISTANCE:
            total = scoring.shift + total
        elif kind == PRODUCT:
            total = product
    return total, product


@float_inlined_kernel
def score_of(scoring: Scoring, far: float, total: float, product: float, statics: Floats, stride: int, i: int) -> float:
    """The score at a distance; only expressions read `statics`."""
    kind = scoring.kind
    D = far / scoring.scale
    if kind == SUM:
        score = total + scoring.wd * D if scoring.wd > 0.0 else total
    elif kind == PRODUCT:
        score = total * D**scoring.wd if scoring.wd > 0.0 and total > 0.0 else total
    elif kind == DISTANCE:
        score = D / total if total > 0.0 else np.inf
    elif kind == WASPAS:
        plain = total + scoring.wd * D if scoring.wd > 0.0 else total
        times = product * D**scoring.wd if scoring.wd > 0.0 and product > 0.0 else product
        if scoring.blend == 1.0:
            score = plain
        elif scoring.blend == 0.0:
            score = times
        else:
            score = scoring.blend * plain + (1.0 - scoring.blend) * times
    else:
        score = run(scoring.program, D, statics, stride, i)
    return score if score == score else np.inf


@float_inlined
def least_score(
    scoring: Scoring, near: float, far: float, total: float, product: float, nodes: NodeColumns, node: int
) -> float:
    """A lower bound of the scores of all objects below a node at distances from `near` to `far`; `total` and `product`
    are the static parts of its best values."""
    if scoring.kind == EXPRESSION:
        least, _ = run_over(
            scoring.program, near / scoring.scale, far / scoring.scale, nodes.lower, nodes.upper, nodes.x0.size, node
        )
    else:
        least = score_of(scoring, near, total, product, nodes.lower, nodes.x0.size, node)
        if scoring.kind != SUM and scoring.kind != DISTANCE:
            least *= BELOW
    return least


@float_kernel
def least_and_most(
    scoring: Scoring, near: float, far: float, total: float, product: float, statics: Floats, stride: int, i: int
) -> tuple[float, float]:
    """Bounds of the scores of object i at distances from `near` to `far`."""
    if scoring.kind == EXPRESSION:
        # It was shown not to fall, so the ends of a range of distances are enough, each by itself.
        D = near / scoring.scale
        least, most = run_over(scoring.program, D, D, statics, statics, stride, i)
        if far != near:
            D = far / scoring.scale
            _, most = run_over(scoring.program, D, D, statics, statics, stride, i)
    else:
        least = score_of(scoring, near, total, product, statics, stride, i)
        most = score_of(scoring, far, total, product, statics, stride, i)
        if scoring.kind != SUM and scoring.kind != DISTANCE:
            least, most = least * BELOW, most / BELOW
    return least, most


@float_internal
def write_totals(scoring: Scoring, statics: Floats, stride: int, first: int, n: int, out: Floats, at: int) -> None:
    """Write the totals of `static_parts` of n objects from `first` on to out[at:], column by column, for sums, products
    and weighted distances. O(attributes) each."""
    kind, unit = scoring.kind, 1.0 if scoring.kind == PRODUCT else 0.0
    heavy = False
    for t in range(at, at + n):
        out[t] = unit
    for c in range(scoring.column.size):
        base, w = scoring.column[c] * stride + first, scoring.weight[c]
        low, width, shift = scoring.low[c], scoring.width[c], scoring.shift
        if kind == SUM and w <= LIGHT:
            for t in range(n):
                out[at + t] += w * statics[base + t]
        elif kind == SUM:
            heavy = True
            for t in range(n):
                out[at + t] += clamped(w * statics[base + t])
        elif kind == PRODUCT and (heavy or (1.0 + shift) ** w > SMALL_FACTOR):
            heavy = True
            for t in range(n):
                v = (statics[base + t] - low) / width
                if scoring.sign[c] < 0.0:
                    v = 1.0 - (-statics[base + t] - low) / width
                out[at + t] = clamped(out[at + t] * clamped((v + shift) ** w))
        elif kind == PRODUCT:
            for t in range(n):
                v = (statics[base + t] - low) / width
                if scoring.sign[c] < 0.0:
                    v = 1.0 - (-statics[base + t] - low) / width
                out[at + t] *= (v + shift) ** w
        elif scoring.sign[c] < 0.0:
            for t in range(n):
                out[at + t] += w * (1.0 - (1.0 - (-statics[base + t] - low) / width))
        else:
            for t in range(n):
                out[at + t] += w * (1.0 - (statics[base + t] - low) / width)
    if kind == DISTANCE:
        for t in range(at, at + n):
            out[t] = scoring.shift + out[t]
    elif heavy:
        for t in range(at, at + n):
            out[t] = clamped(out[t])


@float_internal
def add_distance(scoring: Scoring, dx: float, dy: float, total: float) -> float:
    """As `score_of` in the plane, for sums, products and weighted distances."""
    D = (np.sqrt(dx * dx + dy * dy) if scoring.metric == EUCLIDEAN else abs(dx) + abs(dy)) / scoring.scale
    if scoring.kind == SUM:
        score = total + scoring.wd * D
    elif scoring.kind == PRODUCT:
        score = total * D**scoring.wd if total > 0.0 else total
    else:
        score = D / total if total > 0.0 else np.inf
    return score


@float_kernel
def score_objects(
    scoring: Scoring, qx: float, qy: float, objects: ObjectColumns, first: int, end: int, out: Floats, at: int
) -> None:
    """Write the scores of objects [first : end] at (qx, qy) to out[at:]. O(attributes) each."""
    x, y, statics = objects.x, objects.y, objects.statics
    n, stride = end - first, x.size
    kind, metric, wd, scale = scoring.kind, scoring.metric, scoring.wd, scoring.scale
    if kind <= DISTANCE and metric != GREAT_CIRCLE:
        write_totals(scoring, statics, stride, first, n, out, at)
        if wd > 0.0 and kind == SUM and metric == EUCLIDEAN and scale == 1.0:
            for t in range(n):
                dx, dy = x[first + t] - qx, y[first + t] - qy
                out[at + t] += wd * np.sqrt(dx * dx + dy * dy)
        elif wd > 0.0 and kind == DISTANCE and metric == EUCLIDEAN:
            for t in range(n):
                dx, dy = x[first + t] - qx, y[first + t] - qy
                total, D = out[at + t], np.sqrt(dx * dx + dy * dy) / scale
                out[at + t] = D / total if total > 0.0 else np.inf
        elif wd > 0.0:
            for t in range(n):
                out[at + t] = add_distance(scoring, x[first + t] - qx, y[first + t] - qy, out[at + t])
    else:
        for i in range(first, end):
            total, product = static_parts(scoring, statics, stride, i)
            far = distance(metric, qx, qy, x[i], y[i])
            out[at + i - first] = score_of(scoring, far, total, product, statics, stride, i)


@float_internal
def bound_nodes(scoring: Scoring, qx: float, qy: float, nodes: NodeColumns, first: int, end: int, out: Floats) -> None:
    """Write lower bounds of the scores at (qx, qy) of objects below nodes [first : end]. O(attributes) each."""
    x0, y0, x1, y1, lower = nodes.x0, nodes.y0, nodes.x1, nodes.y1, nodes.lower
    n, stride = end - first, x0.size
    kind = scoring.kind
    if kind <= DISTANCE and scoring.metric != GREAT_CIRCLE:
        write_totals(scoring, lower, stride, first, n, out, 0)
        below, wd, scale = BELOW if kind == PRODUCT else 1.0, scoring.wd, scoring.scale
        if wd > 0.0 and kind == SUM and scoring.metric == EUCLIDEAN:
            for t in range(n):
                i = first + t
                dx, dy = max(x0[i] - qx, 0.0, qx - x1[i]), max(y0[i] - qy, 0.0, qy - y1[i])
                out[t] += wd * (np.sqrt(dx * dx + dy * dy) / scale)
        elif wd > 0.0:
            for t in range(n):
                i = first + t
                dx, dy = max(x0[i] - qx, 0.0, qx - x1[i]), max(y0[i] - qy, 0.0, qy - y1[i])
                out[t] = add_distance(scoring, dx, dy, out[t]) * below
        elif kind == PRODUCT:
            for t in range(n):
                out[t] *= below
    else:
        for i in range(first, end):
            out[i - first] = bound_node(scoring, qx, qy, nodes, i, 0.0)


@float_inlined
def bound_node(scoring: Scoring, qx: float, qy: float, nodes: NodeColumns, node: int, within: float) -> float:
    """A lower bound of the scores of all objects below a node anywhere within a distance of (qx, qy). O(attributes)."""
    near = mindist(scoring.metric, qx, qy, nodes.x0[node], nodes.y0[node], nodes.x1[node], nodes.y1[node])
    far = near
    if scoring.kind == EXPRESSION:
        far = maxdist(scoring.metric, qx, qy, nodes.x0[node], nodes.y0[node], nodes.x1[node], nodes.y1[node]) + within
    total, product = static_parts(scoring, nodes.lower, nodes.x0.size, node)
    if within > 0.0:
        near = max(0.0, min(near, SURE) - within)
    return least_score(scoring, near, far, total, product, nodes, node)
