"""Ranked matching by brute force: the definition, in plain Python, to be read as the specification.

A subscription is a list of intervals by dimension, each (lo, hi) or None where it has none, and its scores. An event
has for each dimension a number, a range (lo, hi) or None where it lacks it. Subscriptions are numbered in order of
creation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

Interval = tuple[float, float] | None
Value = float | tuple[float, float] | None


def meets(interval: tuple[float, float], value: Value) -> bool:
    """Closed intervals: a number lies in one, a range has a point in common, what is lacking needs it unbounded."""
    lo, hi = interval
    if value is None:
        return lo == -inf and hi == inf
    first, last = value if isinstance(value, tuple) else (value, value)
    return lo <= last and first <= hi


def matches_exactly(intervals: Sequence[Interval], event: Sequence[Value]) -> bool:
    """Every interval is met; one left out is unbounded."""
    return all(meets(interval or (-inf, inf), value) for interval, value in zip(intervals, event, strict=True))


def matched(intervals: Sequence[Interval], event: Sequence[Value]) -> list[int]:
    """The dimensions that match in relaxed mode; one left out takes no part."""
    pairs = enumerate(zip(intervals, event, strict=True))
    return [j for j, (interval, value) in pairs if interval is not None and meets(interval, value)]


def combined(weights: Iterable[float], combine: str) -> float:
    """The weights of the dimensions that match, combined from left to right."""
    found = list(weights)
    total = found[0]
    for weight in found[1:]:
        total = total + weight if combine == "sum" else total * weight if combine == "product" else max(total, weight)
    return total


def best(scores: dict[int, float], k: int) -> list[tuple[int, float]]:
    """The k best: score descending, of equal scores the older subscription first."""
    return sorted(scores.items(), key=lambda item: (-item[1], item[0]))[:k]


def exact_top(
    subscriptions: dict[int, tuple[Sequence[Interval], float]], event: Sequence[Value], k: int
) -> list[tuple[int, float]]:
    """The winners of an event in exact mode, with their scores."""
    return best({n: score for n, (box, score) in subscriptions.items() if matches_exactly(box, event)}, k)


def relaxed_top(
    subscriptions: dict[int, tuple[Sequence[Interval], Sequence[float]]], event: Sequence[Value], k: int, combine: str
) -> list[tuple[int, float]]:
    """The winners of an event in relaxed mode, with their totals."""
    totals = {}
    for n, (box, weights) in subscriptions.items():
        dimensions = matched(box, event)
        if dimensions:
            totals[n] = combined((weights[j] for j in dimensions), combine)
    return best(totals, k)


def top_stabbed(intervals: dict[int, tuple[float, float, float]], q: Value, k: int) -> list[int]:
    """The k best-scored of intervals (lo, hi, score) that an event meets."""
    return [n for n, _ in best({n: s for n, (lo, hi, s) in intervals.items() if meets((lo, hi), q)}, k)]
