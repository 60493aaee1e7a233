"""Work on a whole matcher between its commands: copying its state, and putting a table and indexes that were laid out
anew in place.

Both are plans, so that they have their turn in the matcher's queue: what was accepted before them has been applied,
what comes after has not, and reads go on meanwhile. Neither changes any answer, and neither is logged.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from indexes.beside import Beside
from indexes.ids import Packed
from indexes.matchers.matcher import Matcher
from indexes.matchers.model import MatcherConfig
from indexes.matchers.views import Slice
from indexes.plan import Plan

if TYPE_CHECKING:
    from indexes.matchers.engine import MatcherEngine

Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]

FOLD = 1_000
"""Changed rows that are folded in at once: some milliseconds."""


class Origin(NamedTuple):
    """Which rows a copied table had: those of its subscriptions, ascending, and how many had been handed out."""

    rows: Int32
    high: int

    def renumbered(self, rows: Int32) -> Int32:
        """What rows that stood in the copy, or came after it, are called where its subscriptions are numbered from 0
        without gaps. Order is kept, and so is age."""
        since = len(self.rows) + rows - self.high
        return np.where(rows < self.high, np.searchsorted(self.rows, rows), since).astype(np.int32)


class Captured(NamedTuple):
    """A matcher as it lay in memory at `seq`: the table, and ids as the engine holds them, with rows of that table.
    `matcher` is a copy of it without ids, to ask, where indexes were asked for."""

    config: MatcherConfig
    seq: int
    rec: Float64
    origin: Origin
    ids: Packed
    recent: dict[str, int]
    ttl: dict[str, float]
    matcher: Matcher | None


class CapturePlan(Plan["MatcherEngine"]):
    """Copies the state of a matcher: some nanoseconds for each byte of it, beside reads where that takes long. With
    `journal` the matcher notes from then on which rows change, for a `FoldPlan`."""

    def __init__(self, engine: MatcherEngine, journal: bool = False, indexes: bool = False) -> None:
        super().__init__(engine, None, 0)
        self._with_journal = journal
        self._with_indexes = indexes
        self._beside: Beside[Captured] | None = None
        self.captured: Captured | None = None

    @property
    def work(self) -> float:
        return (5e-10 + 1e-9 * self._with_indexes) * self.engine.matcher.nbytes + 5e-8 * len(self.engine.matcher)

    def paint(self, budget: float) -> None:
        if self.work < budget:
            self.captured = self._copy()
        else:
            # No change of this matcher has its turn before this is done.
            self._beside = self._beside or Beside(self._copy)
            if not self._beside.done(budget):
                return
            self.captured = self._beside.found
        if self._with_journal:
            self.engine.matcher.begin_journal()

    def _copy(self) -> Captured:
        engine, matcher = self.engine, self.engine.matcher
        ids = matcher.names.ids
        return Captured(
            config=engine.config,
            seq=engine.seq,
            rec=matcher.table(),
            origin=Origin(matcher.rows(), matcher.high),
            ids=ids.base._replace(row=ids.base.row.copy()),
            recent=ids.recent.copy(),
            ttl=engine.ttl.copy(),
            matcher=matcher.frozen() if self._with_indexes else None,
        )

    def settle(self) -> Slice | None:
        self.done = self.captured is not None
        return None


class FoldPlan(Plan["MatcherEngine"]):
    """Brings a matcher made of what was captured up to date with what changed since, and puts it in place once nothing
    is left (`swapped`). Otherwise another plan goes on. It is `abandoned` where nobody noted what changes: everything
    was laid out anew meanwhile. `seconds` is what painting took.

    O(FOLD log^2 n).
    """

    def __init__(self, engine: MatcherEngine, fresh: Matcher, origin: Origin) -> None:
        super().__init__(engine, None, 0)
        self.swapped = False
        self.abandoned = False
        self.seconds = 0.0
        self._fresh = fresh
        self._origin = origin

    @property
    def work(self) -> float:
        return 1.0

    def paint(self, budget: float) -> None:
        began = time.perf_counter()
        matcher = self.engine.matcher
        rows = matcher.take_journal(FOLD)
        if rows is None:
            self.abandoned = True
            return
        catch_up(self._fresh, matcher, self._origin, rows)
        self.swapped = matcher.journal_is_empty
        self.seconds = time.perf_counter() - began

    def settle(self) -> Slice | None:
        if self.swapped:
            self.engine.matcher = self._fresh
        self.done = True
        return None


def catch_up(fresh: Matcher, matcher: Matcher, origin: Origin, rows: Int32) -> None:
    """Make a copy hold of these rows what stands in the original. Rows that came since have to come in their order."""
    to = origin.renumbered(rows)
    had, has = fresh.has(to), matcher.has(rows)
    fresh.withdraw(to[had])
    fresh.put(to[has], matcher.columns(rows[has]))
    for row in to[had & ~has].tolist():
        fresh.names.delete(fresh.names.name(row), row)
    came = had < has
    for row, number in zip(rows[came].tolist(), to[came].tolist(), strict=True):
        fresh.names.note_one(matcher.names.name(row), number)
