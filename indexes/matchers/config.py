"""The configuration of a matcher, and subscriptions as columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from indexes.core.arrays import INF, Floats
from indexes.matchers.kernels.combine import NUMBERS, highest
from indexes.matchers.kernels.table import MAX, are_sound, record

Kind = Literal["auto", "sopt-r", "ir", "segment", "interval", "scored-r"]
Value = float | tuple[float, float] | None

SMALL = 1e300
"""A weight that may be added a thousand times."""

Row: TypeAlias = list[float]
"""One subscription: the lower and the upper end of each dimension, then the scores; see `kernels.table`."""


@dataclass(frozen=True, slots=True)
class MatcherConfig:
    """A matcher: named numeric dimensions, how scores are made, and the index to use.

    `combine` says how the weights of the dimensions that match make a score, in relaxed mode.
    """

    dimensions: tuple[str, ...]
    mode: Literal["exact", "relaxed"]
    combine: Literal["sum", "max", "product"] = "sum"
    index: Kind = "auto"

    @property
    def relaxed(self) -> bool:
        return self.mode == "relaxed"

    @property
    def scores(self) -> int:
        """Scores of a subscription: a weight for each dimension, or one score."""
        return len(self.dimensions) if self.relaxed else 1


class Subscriptions(NamedTuple):
    """Subscriptions as columns: ends of shape (n, d) and scores of shape (n, d) (relaxed: weights) or (n, 1).

    Exact: an interval that is left out is [-inf, inf]. Relaxed: a dimension that takes no part is [inf, -inf] with
    weight 0.
    """

    lo: Floats
    hi: Floats
    scores: Floats

    def take(self, rows: npt.NDArray[np.integer] | list[int] | slice) -> Subscriptions:
        """Those at these places."""
        return Subscriptions(self.lo[rows], self.hi[rows], self.scores[rows])

    @property
    def rows(self) -> list[Row]:
        """All of them, one by one."""
        found: list[Row] = record(*self).tolist()
        return found

    @staticmethod
    def of_rows(config: MatcherConfig, rows: Sequence[Row]) -> Subscriptions:
        """The inverse of `rows`."""
        return Subscriptions.of_table(config, table_of(config, rows))

    @staticmethod
    def of_table(config: MatcherConfig, table: Floats) -> Subscriptions:
        """The same over the rows of a table."""
        ends = 2 * len(config.dimensions)
        return Subscriptions(table[:, 0:ends:2], table[:, 1:ends:2], table[:, ends:])

    def faults(self, config: MatcherConfig) -> list[tuple[int, str, str]]:
        """What is invalid, as (row, field, reason), in order."""
        found: list[tuple[int, str, str]] = []
        for j, name in enumerate(config.dimensions):
            lo, hi = self.lo[:, j], self.hi[:, j]
            absent = (lo == INF) & (hi == -INF) & config.relaxed
            wrong = ~absent & (~(lo <= hi) | (lo == INF) | (hi == -INF))
            found += [(int(i), f"intervals.{name}", "lo must be at most hi") for i in np.flatnonzero(wrong)]
            if config.relaxed:
                weight = self.scores[:, j]
                bad = ~((weight >= 0) & np.isfinite(weight)) | (absent & (weight != 0))
                found += [
                    (int(i), f"weights.{name}", "a weight is finite, at least 0, and belongs to an interval")
                    for i in np.flatnonzero(bad)
                ]
        if not config.relaxed:
            found += [(int(i), "score", "must be finite") for i in np.flatnonzero(~np.isfinite(self.scores[:, 0]))]
        elif not found:
            with np.errstate(over="ignore"):
                total = highest(self.scores, NUMBERS[config.combine])
            found += [(int(i), "weights", "their total is not finite") for i in np.flatnonzero(~np.isfinite(total))]
        return sorted(found)


def table_of(config: MatcherConfig, rows: Sequence[Row]) -> Floats:
    """Rows as a table."""
    return np.array(rows, np.float64) if rows else np.empty((0, 2 * len(config.dimensions) + config.scores))


def faults_of(config: MatcherConfig, table: Floats) -> list[tuple[int, str, str]]:
    """`Subscriptions.faults` of a table. Mostly there are none, which is seen at once."""
    least, most = _surely_sound(config)
    if are_sound(table, len(config.dimensions), least, most):
        return []
    return Subscriptions.of_table(config, table).faults(config)


def is_sound(config: MatcherConfig, row: Row) -> bool:
    """Whether a row surely is a subscription, as `are_sound` of its table: without a kernel, whose call for one row
    takes longer."""
    ends, (least, most) = 2 * len(config.dimensions), _surely_sound(config)
    sound = True
    for lo, hi in zip(row[0:ends:2], row[1:ends:2], strict=True):
        sound = sound and lo <= hi and lo < INF and hi > -INF
    for score in row[ends:]:
        sound = sound and least <= score <= most
    return sound


def _surely_sound(config: MatcherConfig) -> tuple[float, float]:
    """Scores in this range are sound."""
    # Sums and maxima of so many weights are finite, and so are products of weights up to 1.
    return (0.0, 1.0 if config.combine == "product" else SMALL) if config.relaxed else (-MAX, MAX)
