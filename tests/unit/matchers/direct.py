"""A matcher without an engine: subscriptions and events by id and by name, checked and applied at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from indexes.core.arrays import Floats, Ints32
from indexes.core.commands import Fault
from indexes.matchers.commands import ChangeSubscription
from indexes.matchers.config import MatcherConfig, Subscriptions, Value
from indexes.matchers.forms import REVERSED, UNKNOWN, merged
from indexes.matchers.kernels.table import MAX, MISSING
from indexes.matchers.matcher import Matcher


def events_of(config: MatcherConfig, values: Sequence[Mapping[str, Value]]) -> tuple[Floats, list[Fault]]:
    """Events by name as the columns that matching takes, shape (n, 2d), a pair a, b for each dimension; and their
    faults. None is a dimension that the event lacks, as is one left out.
    """
    events = np.tile(np.array(MISSING), (len(values), len(config.dimensions)))
    place = {name: j for j, name in enumerate(config.dimensions)}
    faults = []
    for t, event in enumerate(values):
        for name, value in event.items():
            j = place.get(name)
            if j is None:
                faults.append(Fault(f"values.{name}", UNKNOWN, index=t))
            elif value is not None:
                a, b = value if isinstance(value, tuple) else (value, value)
                if not a <= b:
                    faults.append(Fault(f"values.{name}", REVERSED, index=t))
                events[t, 2 * j], events[t, 2 * j + 1] = max(a, -MAX), min(b, MAX)
    return events, faults


class DirectMatcher(Matcher):
    """Subscriptions, and the events that are matched against them."""

    def insert(self, ids: pa.StringArray, subscriptions: Subscriptions) -> Ints32:
        """Add subscriptions; returns their rows. In bulk (an eighth of what is present, or more) the indexes are
        rebuilt, O(n log n); else O(log^2 n) each.

        Raises ValueError, with nothing changed, for an id that is taken or what `Subscriptions.faults` finds.
        """
        taken = self.names.taken(ids)
        if taken:
            raise ValueError(f"id: {taken[0]!r} is taken")
        _refuse(subscriptions.faults(self.config))
        rows = self.hold(subscriptions, 8 * len(ids) > self.high)
        self.names.insert(ids, rows)
        return rows

    def delete(self, ids: Sequence[str]) -> Ints32:
        """Delete subscriptions; returns the rows that they had. Raises KeyError for one that is not present, with
        nothing changed.
        """
        rows = self._find(ids)
        self.withdraw(rows)
        for key, row in zip(ids, rows.tolist(), strict=True):
            self.names.delete(key, row)
        return rows

    def change(self, ids: Sequence[str], subscriptions: Subscriptions) -> Ints32:
        """Replace subscriptions; they keep their age. Raises KeyError and ValueError as above."""
        rows = self._find(ids)
        _refuse(subscriptions.faults(self.config))
        self.rewrite(rows, subscriptions)
        return rows

    def patch(
        self,
        key: str,
        intervals: Mapping[str, tuple[float, float] | None] | None = None,
        weights: Mapping[str, float] | None = None,
        score: float | None = None,
    ) -> None:
        """Change the given parts of a subscription: an interval of None is left out from now on, its weight with it.

        Raises KeyError for an id that is not present, ValueError for an unknown dimension, a weight or a score where
        there can be none, and what `Subscriptions.faults` finds.
        """
        change = ChangeSubscription(key, intervals or {}, weights or {}, score)
        patched, faults = merged(self.config, self.subscription(key).rows[0], change)
        _refuse([(0, fault.field, fault.reason) for fault in faults])
        self.change([key], Subscriptions.of_rows(self.config, [patched]))

    def subscription(self, key: str) -> Subscriptions:
        """One subscription, as columns of one row. Raises KeyError."""
        return self.columns(self._find([key]))

    def _find(self, ids: Sequence[str]) -> Ints32:
        rows = np.fromiter((self.names.find(key) for key in ids), np.int32, len(ids))
        for at in np.flatnonzero(rows < 0).tolist():
            raise KeyError(ids[at])
        if len(np.unique(rows)) < len(rows):
            raise ValueError("an id is named twice")
        return rows

    def events(self, values: Sequence[Mapping[str, Value]]) -> Floats:
        """Events by name as the columns that `match` takes, shape (n, 2d): a pair a, b for each dimension.

        Raises ValueError for an unknown dimension, a NaN, or a range the wrong way round.
        """
        events, faults = events_of(self.config, values)
        _refuse([(fault.index or 0, fault.field, fault.reason) for fault in faults], "event")
        return events


def _refuse(faults: list[tuple[int, str, str]], what: str = "subscription") -> None:
    if faults:
        row, field, reason = faults[0]
        raise ValueError(f"{field}: {reason} ({what} {row})")
