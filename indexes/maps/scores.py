"""Scores of a top-k: what an object comes to at a distance, and what it comes to at least for all objects of a node.

With D = distance / scale and x_i the static values (smaller is better), sums and products running over the attributes
in order, then distance; with v_i = (value - lo) / (hi - lo) of the attribute's range, or 1 less that where high is
better:

    weighted sum        A + w D                     A = sum w_i x_i
    weighted product    P D^w                       P = product (v_i + c)^(w_i)
    weighted distance   D / S                       S = c + sum w_i (1 - v_i)
    waspas              l (A + w D) + (1 - l) P D^w A = sum w_i v_i, and P as above
    expression          a program (`programs.py`)

So all that is static comes to two numbers an object, `static_parts`. k nearest neighbours are a weighted sum with a
weight of distance alone. A score is never NaN: what has none, also where S is 0, is infinite, and ranks last.

Bounds hold for computed scores. Sums, differences, products, quotients and roots are rounded monotonically, so bounds
made by the same steps from better values hold as they are; powers almost are, and what comes of them is lowered by
`BELOW`.

Source: the paper's 4.1, equations (1) to (3); Definition 11 for the bounds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.maps.attributes import Attribute
from indexes.maps.expression import compiled
from indexes.maps.floats import float_kernel
from indexes.maps.metrics import EUCLIDEAN, GREAT_CIRCLE, METRICS, distance, maxdist, mindist
from indexes.maps.programs import program, run, run_over

SUM, PRODUCT, DISTANCE, WASPAS, EXPRESSION = range(5)

KINDS = {"weighted_sum": SUM, "weighted_product": PRODUCT, "weighted_distance": DISTANCE, "waspas": WASPAS}

SHIFT = 0.01
LAMBDA = 0.5

BELOW = 1.0 - 1e-13
"""Less than the powers of a score, and of a bound of it, can differ by."""

Float64 = NDArray[np.float64]


class Scoring(NamedTuple):
    """A score over the metric of a map."""

    kind: int
    metric: int
    scale: float
    wd: float  # the weight of distance; of weighted distance and of expressions: 0 where distance changes nothing
    shift: float
    blend: float  # lambda
    column: NDArray[np.int64]  # which static values have a weight, in order
    weight: Float64
    low: Float64  # the least value of each of those, how wide its range is, and 1, or -1 where high is better
    width: Float64
    sign: Float64
    step: NDArray[np.int64]  # the program of an expression
    operand: Float64
    stack: Float64


def scoring(
    kind: str,
    attributes: Sequence[Attribute],
    weights: Mapping[str, float],
    metric: str = "euclidean",
    scale: float = 1.0,
    shift: float = SHIFT,
    blend: float = LAMBDA,
) -> Scoring:
    """A score of one of the `KINDS` with these weights by attribute, and by `distance`; those left out are 0.

    Raises:
        ValueError: the kind or the metric is unknown; a weight is of nothing there is, negative or not finite; none is
            above 0; scale is not above 0, shift negative or blend outside [0, 1]; a weighted distance has a weight of
            distance; an attribute with a weight has no range, or an empty one, where one is needed.
    """
    if kind not in KINDS or metric not in METRICS:
        raise ValueError(f"score {kind!r} by metric {metric!r} is unknown")
    unknown = set(weights) - {attribute.name for attribute in attributes} - {"distance"}
    if unknown:
        raise ValueError(f"a weight of {min(unknown)!r}, which is no attribute")
    for name, weight in weights.items():
        if not 0.0 <= weight < np.inf:
            raise ValueError(f"a weight of {name!r} of {weight}")
    if not any(weights.values()):
        raise ValueError("no weight is above 0")
    if not (0.0 < scale < np.inf and 0.0 <= shift < np.inf and 0.0 <= blend <= 1.0):
        raise ValueError(f"scale {scale}, shift {shift} or lambda {blend} is out of bounds")
    wd = float(weights.get("distance", 0.0))
    if kind == "weighted_distance":
        if wd:
            raise ValueError("a weighted distance has no weight of distance")
        wd = 1.0
    chosen = [j for j, attribute in enumerate(attributes) if weights.get(attribute.name, 0.0) > 0.0]
    ranges = np.zeros((len(chosen), 2))
    for i, j in enumerate(chosen):
        given = attributes[j].range
        if kind != "weighted_sum":
            if given is None or not given[0] < given[1]:
                raise ValueError(f"{attributes[j].name!r} has no range")
            ranges[i] = given
    return Scoring(
        KINDS[kind],
        METRICS[metric],
        float(scale),
        wd,
        float(shift),
        float(blend),
        np.array(chosen, np.int64),
        np.array([weights[attributes[j].name] for j in chosen], np.float64),
        ranges[:, 0].copy(),
        ranges[:, 1] - ranges[:, 0],
        np.array([-1.0 if attributes[j].high else 1.0 for j in chosen]),
        *program([]),
    )


def expression_scoring(
    text: str, attributes: Sequence[Attribute], metric: str = "euclidean", scale: float = 1.0
) -> Scoring:
    """A score that an expression says.

    Raises:
        BadExpression: see `expression.compiled`.
        ValueError: the metric is unknown, or scale is not above 0.
    """
    if metric not in METRICS or not 0.0 < scale < np.inf:
        raise ValueError(f"metric {metric!r} is unknown, or scale {scale} is out of bounds")
    known = compiled(text, attributes)
    none = np.empty(0)
    return Scoring(
        EXPRESSION,
        METRICS[metric],
        float(scale),
        0.0 if known.constant else 1.0,
        SHIFT,
        LAMBDA,
        np.empty(0, np.int64),
        none,
        none,
        none,
        none,
        *known.program,
    )


@float_kernel
def static_parts(s, statics, stride, i):  # type: ignore[no-untyped-def]
    """What the static values of object i come to; value j is statics[j * stride + i]. O(attributes)."""
    total, product = 0.0, 1.0
    kind = s.kind
    if kind == SUM:
        for t in range(s.column.size):
            total += s.weight[t] * statics[s.column[t] * stride + i]
    elif kind != EXPRESSION:
        for t in range(s.column.size):
            value = statics[s.column[t] * stride + i] * s.sign[t]
            v = (value - s.low[t]) / s.width[t]
            if s.sign[t] < 0.0:
                v = 1.0 - v
            if kind == DISTANCE:
                total += s.weight[t] * (1.0 - v)
            else:
                total += s.weight[t] * v
                product *= (v + s.shift) ** s.weight[t]
        if kind == DISTANCE:
            total = s.shift + total
        elif kind == PRODUCT:
            total = product
    return total, product


@float_kernel
def score_of(s, far, total, product, statics, stride, i):  # type: ignore[no-untyped-def]
    """The score at a distance; only expressions look at `statics`."""
    kind = s.kind
    D = far / s.scale
    if kind == SUM:
        score = total + s.wd * D if s.wd > 0.0 else total
    elif kind == PRODUCT:
        score = total * D**s.wd if s.wd > 0.0 and total > 0.0 else total
    elif kind == DISTANCE:
        score = D / total if total > 0.0 else np.inf
    elif kind == WASPAS:
        plain = total + s.wd * D if s.wd > 0.0 else total
        times = product * D**s.wd if s.wd > 0.0 and product > 0.0 else product
        if s.blend == 1.0:
            score = plain
        elif s.blend == 0.0:
            score = times
        else:
            score = s.blend * plain + (1.0 - s.blend) * times
    else:
        score = run(s.step, s.operand, s.stack, D, statics, stride, i)
    return score if score == score else np.inf


@float_kernel
def least_score(s, near, far, total, product, lower, upper, stride, e):  # type: ignore[no-untyped-def]
    """At most the score of any object of node e, whose best static values come to `total` and `product`, at distances
    from `near` to `far`."""
    if s.kind == EXPRESSION:
        least, _ = run_over(s.step, s.operand, s.stack, near / s.scale, far / s.scale, lower, upper, stride, e)
    else:
        least = score_of(s, near, total, product, lower, stride, e)
        if s.kind != SUM and s.kind != DISTANCE:
            least *= BELOW
    return least


@float_kernel
def least_and_most(s, near, far, total, product, statics, stride, i):  # type: ignore[no-untyped-def]
    """Bounds of the scores of object i at distances from `near` to `far`."""
    if s.kind == EXPRESSION:
        # It was shown not to fall, so the ends of a range of distances are enough, each by itself.
        D = near / s.scale
        least, _ = run_over(s.step, s.operand, s.stack, D, D, statics, statics, stride, i)
        D = far / s.scale
        _, most = run_over(s.step, s.operand, s.stack, D, D, statics, statics, stride, i)
    else:
        least = score_of(s, near, total, product, statics, stride, i)
        most = score_of(s, far, total, product, statics, stride, i)
        if s.kind != SUM and s.kind != DISTANCE:
            least, most = least * BELOW, most / BELOW
    return least, most


@float_kernel
def write_totals(s, statics, stride, first, n, out, at):  # type: ignore[no-untyped-def]
    """Write the totals of `static_parts` of n objects from the first on to out[at:], column by column, for sums,
    products and weighted distances. O(attributes) each."""
    kind, unit = s.kind, 1.0 if s.kind == PRODUCT else 0.0
    for t in range(at, at + n):
        out[t] = unit
    for c in range(s.column.size):
        base, w = s.column[c] * stride + first, s.weight[c]
        low, width, shift = s.low[c], s.width[c], s.shift
        if kind == SUM:
            for t in range(n):
                out[at + t] += w * statics[base + t]
        elif kind == PRODUCT:
            for t in range(n):
                v = (statics[base + t] - low) / width
                if s.sign[c] < 0.0:
                    v = 1.0 - (-statics[base + t] - low) / width
                out[at + t] *= (v + shift) ** w
        elif s.sign[c] < 0.0:
            for t in range(n):
                out[at + t] += w * (1.0 - (1.0 - (-statics[base + t] - low) / width))
        else:
            for t in range(n):
                out[at + t] += w * (1.0 - (statics[base + t] - low) / width)
    if kind == DISTANCE:
        for t in range(at, at + n):
            out[t] = s.shift + out[t]


@float_kernel
def add_distance(s, dx, dy, total):  # type: ignore[no-untyped-def]
    """As `score_of` in the plane, for sums, products and weighted distances."""
    D = (np.sqrt(dx * dx + dy * dy) if s.metric == EUCLIDEAN else abs(dx) + abs(dy)) / s.scale
    if s.kind == SUM:
        score = total + s.wd * D
    elif s.kind == PRODUCT:
        score = total * D**s.wd if total > 0.0 else total
    else:
        score = D / total if total > 0.0 else np.inf
    return score


@float_kernel
def score_objects(s, qx, qy, x, y, statics, first, end, out, at):  # type: ignore[no-untyped-def]
    """Write the scores of objects [first : end] at (qx, qy) to out[at:]. O(attributes) each."""
    n, stride = end - first, x.size
    kind, metric, wd, scale = s.kind, s.metric, s.wd, s.scale
    if kind <= DISTANCE and metric != GREAT_CIRCLE:
        write_totals(s, statics, stride, first, n, out, at)
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
                out[at + t] = add_distance(s, x[first + t] - qx, y[first + t] - qy, out[at + t])
    else:
        for i in range(first, end):
            total, product = static_parts(s, statics, stride, i)
            far = distance(metric, qx, qy, x[i], y[i])
            out[at + i - first] = score_of(s, far, total, product, statics, stride, i)


@float_kernel
def bound_nodes(s, qx, qy, x0, y0, x1, y1, lower, upper, first, end, out):  # type: ignore[no-untyped-def]
    """Write to `out` what the scores of all objects in nodes [first : end] are at least, at (qx, qy). O(attributes)
    each."""
    n, stride = end - first, x0.size
    kind = s.kind
    if kind <= DISTANCE and s.metric != GREAT_CIRCLE:
        write_totals(s, lower, stride, first, n, out, 0)
        below, wd, scale = BELOW if kind == PRODUCT else 1.0, s.wd, s.scale
        if wd > 0.0 and kind == SUM and s.metric == EUCLIDEAN:
            for t in range(n):
                i = first + t
                dx, dy = max(x0[i] - qx, 0.0, qx - x1[i]), max(y0[i] - qy, 0.0, qy - y1[i])
                out[t] += wd * (np.sqrt(dx * dx + dy * dy) / scale)
        elif wd > 0.0:
            for t in range(n):
                i = first + t
                dx, dy = max(x0[i] - qx, 0.0, qx - x1[i]), max(y0[i] - qy, 0.0, qy - y1[i])
                out[t] = add_distance(s, dx, dy, out[t]) * below
        elif kind == PRODUCT:
            for t in range(n):
                out[t] *= below
    else:
        for i in range(first, end):
            out[i - first] = bound_node(s, qx, qy, x0, y0, x1, y1, lower, upper, i, 0.0)


@float_kernel
def bound_node(s, qx, qy, x0, y0, x1, y1, lower, upper, e, within):  # type: ignore[no-untyped-def]
    """At most the score of any object in node e at any place within a distance of (qx, qy). O(attributes)."""
    near = mindist(s.metric, qx, qy, x0[e], y0[e], x1[e], y1[e])
    far = near
    if s.kind == EXPRESSION:
        far = maxdist(s.metric, qx, qy, x0[e], y0[e], x1[e], y1[e]) + within
    total, product = static_parts(s, lower, x0.size, e)
    return least_score(s, max(0.0, near - within), far, total, product, lower, upper, x0.size, e)
