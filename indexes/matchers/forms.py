"""Subscriptions and events by the names of their dimensions, as in requests and responses, to columns and back.

Unbounded ends are infinities here. What is invalid is reported as `Fault`s with the field and, of several, the index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from indexes.core.arrays import INF, Floats
from indexes.core.commands import Fault
from indexes.matchers.commands import ChangeSubscription, Interval
from indexes.matchers.config import MatcherConfig, Row, Subscriptions, Value
from indexes.matchers.kernels.table import MAX

UNKNOWN = "there is no such dimension"
LONELY = "there is no interval that it belongs to"
LACKING = "a new interval needs a weight"
NO_SCORE = "a subscription in relaxed mode has weights"
NO_WEIGHTS = "a subscription in exact mode has a score"
REVERSED = "lo must be at most hi"


class Form(NamedTuple):
    """A subscription by name: `weights` in relaxed mode, `score` in exact mode.

    A dimension without an interval takes no part in relaxed mode, and matches everything in exact mode.
    """

    intervals: Mapping[str, Interval]
    weights: Mapping[str, float] | None = None
    score: float | None = None


def columns_of(config: MatcherConfig, forms: Sequence[Form]) -> tuple[Subscriptions, list[Fault]]:
    """Subscriptions as columns, and their faults. A row with a fault is of no use."""
    maker = RowMaker(config)
    found = [maker.row_of(*form) for form in forms]
    faults = [replace(fault, index=i) for i, (_, those) in enumerate(found) for fault in those]
    return Subscriptions.of_rows(config, [row for row, _ in found]), faults


def row_of(config: MatcherConfig, form: Form) -> tuple[Row, list[Fault]]:
    """A subscription as a row, and its faults, with which it is of no use."""
    return RowMaker(config).row_of(*form)


class RowMaker:
    """Makes rows by one configuration."""

    def __init__(self, config: MatcherConfig) -> None:
        self._relaxed = config.relaxed
        self._ends = 2 * len(config.dimensions)
        self._place = {name: j for j, name in enumerate(config.dimensions)}
        self._blank = [*absent(config)] * len(config.dimensions) + [0.0] * config.scores

    def row_of(
        self,
        intervals: Mapping[str, Sequence[float | None]],
        weights: Mapping[str, float] | None,
        score: float | None,
    ) -> tuple[Row, list[Fault]]:
        """The row of a `Form` with these fields, and its faults. An end may be None where it is unbounded."""
        place, ends, faults = self._place, self._ends, list[Fault]()
        row = self._blank.copy()
        for name, (lo, hi) in intervals.items():
            j = place.get(name)
            if j is None:
                faults.append(Fault(f"intervals.{name}", UNKNOWN))
            else:
                row[2 * j] = -INF if lo is None else lo
                row[2 * j + 1] = INF if hi is None else hi
        if self._relaxed:
            weights = weights or {}
            for name in intervals:
                if name in place and name not in weights:
                    faults.append(Fault(f"weights.{name}", LACKING))
            for name, weight in weights.items():
                if name not in place:
                    faults.append(Fault(f"weights.{name}", UNKNOWN))
                elif name not in intervals:
                    faults.append(Fault(f"weights.{name}", LONELY))
                else:
                    row[ends + place[name]] = weight
            if score is not None:
                faults.append(Fault("score", NO_SCORE))
        else:
            if score is None:
                faults.append(Fault("score", "is missing"))
            else:
                row[ends] = score
            if weights:
                faults.append(Fault("weights", NO_WEIGHTS))
        return row, faults


def absent(config: MatcherConfig) -> Interval:
    """The ends of a dimension that is left out."""
    return (INF, -INF) if config.relaxed else (-INF, INF)


def nothing(config: MatcherConfig, n: int) -> Subscriptions:
    """Subscriptions that leave out every dimension."""
    shape, (lo, hi) = (n, len(config.dimensions)), absent(config)
    return Subscriptions(np.full(shape, lo), np.full(shape, hi), np.zeros((n, config.scores)))


def form_of(config: MatcherConfig, row: Row) -> Form:
    """A subscription by name. In exact mode an interval without ends is left out, which is the same."""
    names = config.dimensions
    lo, hi, scores = _parts(config, row)
    if config.relaxed:
        held = [j for j in range(len(names)) if lo[j] <= hi[j]]
        return Form({names[j]: (lo[j], hi[j]) for j in held}, {names[j]: scores[j] for j in held})
    held = [j for j in range(len(names)) if lo[j] > -INF or hi[j] < INF]
    return Form({names[j]: (lo[j], hi[j]) for j in held}, None, scores[0])


def merged(config: MatcherConfig, row: Row, change: ChangeSubscription) -> tuple[Row, list[Fault]]:
    """A subscription with a change applied, and the faults of that."""
    lo, hi, scores = _parts(config, row)
    place = {name: j for j, name in enumerate(config.dimensions)}
    faults = []
    for name, interval in change.intervals.items():
        j = place.get(name)
        if j is None:
            faults.append(Fault(f"intervals.{name}", UNKNOWN))
            continue
        if interval is None and config.relaxed:
            scores[j] = 0.0
        if interval is not None and config.relaxed and lo[j] > hi[j] and name not in change.weights:
            faults.append(Fault(f"weights.{name}", LACKING))
        if interval is not None and not interval[0] <= interval[1]:
            faults.append(Fault(f"intervals.{name}", REVERSED))
        lo[j], hi[j] = absent(config) if interval is None else interval
    if change.weights and not config.relaxed:
        faults.append(Fault("weights", NO_WEIGHTS))
    for name, weight in change.weights.items() if config.relaxed else ():
        j = place.get(name)
        if j is None:
            faults.append(Fault(f"weights.{name}", UNKNOWN))
        elif weight is None and change.intervals.get(name) is None:
            lo[j], hi[j], scores[j] = *absent(config), 0.0
        elif weight is None or (lo[j] > hi[j] and change.intervals.get(name) is None):
            faults.append(Fault(f"weights.{name}", LACKING if weight is None else LONELY))
        else:
            scores[j] = weight
    if change.score is not None and config.relaxed:
        faults.append(Fault("score", NO_SCORE))
    elif change.score is not None:
        scores[0] = change.score
    ends = [end for ends in zip(lo, hi, strict=True) for end in ends]
    return ends + scores, faults


def _parts(config: MatcherConfig, row: Row) -> tuple[list[float], list[float], list[float]]:
    """The lower ends, the upper ends and the scores."""
    ends = 2 * len(config.dimensions)
    return row[0:ends:2], row[1:ends:2], row[ends:]


def values_of(config: MatcherConfig, event: Floats) -> dict[str, Value]:
    """One event by name; what it lacks is left out."""
    found: dict[str, Value] = {}
    for j, name in enumerate(config.dimensions):
        a, b = event[2 * j : 2 * j + 2].tolist()
        if a == b:
            found[name] = a
        elif a < b:
            found[name] = (-INF if a == -MAX else a, INF if b == MAX else b)
    return found
