"""Maintenance of a matcher: copying its state, and putting a freshly packed table and indexes in place."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.core import maintenance
from indexes.core.arrays import Floats, Ints32
from indexes.core.captured_ids import CapturedIds
from indexes.matchers.config import MatcherConfig
from indexes.matchers.matcher import Matcher
from indexes.matchers.store import MatcherStore

FOLD = 1_000
"""Changed rows that are folded in at once: some milliseconds."""


class Origin(NamedTuple):
    """The rows of a copied table: those of its subscriptions, ascending, and how many had been given out."""

    rows: Ints32
    high: int

    def renumbered(self, rows: Ints32) -> Ints32:
        """The numbers of rows, of the copy or later ones, where its subscriptions are numbered from 0 without gaps.
        Order, and so age, is kept."""
        since = len(self.rows) + rows - self.high
        return np.where(rows < self.high, np.searchsorted(self.rows, rows), since).astype(np.int32)


class Captured(NamedTuple):
    """A matcher as copied from memory at `seq`: the table, and ids as the engine holds them, with rows of that table.
    With indexes, `matcher` is a copy without ids, for verification."""

    config: MatcherConfig
    seq: int
    rec: Floats
    origin: Origin
    ids: CapturedIds
    ttl: dict[str, float]
    matcher: Matcher | None


class CapturePlan(maintenance.CapturePlan[MatcherStore, Captured]):
    """Copies the state of a matcher."""

    @property
    def seconds(self) -> float:
        return (5e-10 + 1e-9 * self._with_indexes) * self.engine.matcher.nbytes + 5e-8 * len(self.engine.matcher)

    def begin_journal(self) -> None:
        self.engine.matcher.begin_journal()

    def read(self) -> Captured:
        engine, matcher = self.engine, self.engine.matcher
        return Captured(
            config=engine.config,
            seq=engine.seq,
            rec=matcher.table(),
            origin=Origin(matcher.rows(), matcher.high),
            ids=CapturedIds.of(matcher.names.ids),
            ttl=engine.ttl.copy(),
            matcher=matcher.frozen() if self._with_indexes else None,
        )


class FoldPlan(maintenance.FoldPlan[MatcherStore]):
    """Brings a matcher that was made of a capture up to date, and puts it in place. O(FOLD log^2 n)."""

    def __init__(self, engine: MatcherStore, fresh: Matcher, origin: Origin) -> None:
        super().__init__(engine)
        self._fresh = fresh
        self._origin = origin

    def _fold(self, budget: float) -> None:
        matcher = self.engine.matcher
        rows = matcher.take_journal(FOLD)
        if rows is None:
            self.abandoned = True
            return
        catch_up(self._fresh, matcher, self._origin, rows)
        self.swapped = matcher.journal_is_empty

    def _swap(self) -> None:
        self.engine.matcher = self._fresh


def catch_up(fresh: Matcher, matcher: Matcher, origin: Origin, rows: Ints32) -> None:
    """Bring these rows of a copy up to date with the original. Rows added since must come in their order."""
    to = origin.renumbered(rows)
    had, has = fresh.has(to), matcher.has(rows)
    fresh.withdraw(to[had])
    fresh.put(to[has], matcher.columns(rows[has]))
    for row in to[had & ~has].tolist():
        fresh.names.delete(fresh.names.name(row), row)
    came = had < has
    for row, number in zip(rows[came].tolist(), to[came].tolist(), strict=True):
        fresh.names.note_one(matcher.names.name(row), number)
