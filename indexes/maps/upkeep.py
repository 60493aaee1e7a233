"""Work on a whole map between its commands: copying its state, and putting an index that was packed beside in place.

Both are plans, so that they have their turn in the map's queue: what was accepted before them has been applied, what
comes after has not, and reads go on meanwhile. Neither changes any answer, and neither is logged.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from indexes.beside import Beside
from indexes.ids import Packed
from indexes.maps.live import Held
from indexes.maps.model import MapConfig, Point, Question
from indexes.maps.places import PlaceIndex
from indexes.maps.views import Slice
from indexes.plan import Plan

if TYPE_CHECKING:
    from indexes.maps.engine import MapEngine

Float64 = npt.NDArray[np.float64]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]

FOLD = 1_000
"""Changed objects that are folded in at once: some milliseconds."""


class Captured(NamedTuple):
    """A map as it lay in memory at `seq`: objects by column, in order of `slots`, with ids as the engine holds them.

    `places`, a copy of the index, and `held`, by row of the queries, are there where indexes were asked for.
    """

    config: MapConfig
    seq: int
    next_created: int
    slots: Int32
    points: Float64
    statics: Float64
    created: Int64
    ids: Packed
    recent: dict[str, int]
    payloads: dict[int, bytes]
    query_ids: Packed
    query_recent: dict[str, int]
    questions: dict[int, Question]
    at: dict[int, Point]
    ttl: dict[str, float]
    places: PlaceIndex | None
    held: dict[int, Held] | None


class CapturePlan(Plan["MapEngine"]):
    """Copies the state of a map: some nanoseconds for each byte of it, beside reads where that takes long. With
    `journal` the map notes from then on which objects change, for a `FoldPlan`."""

    def __init__(self, engine: MapEngine, journal: bool = False, indexes: bool = False) -> None:
        super().__init__(engine, None, 0)
        self._with_journal = journal
        self._with_indexes = indexes
        self._beside: Beside[Captured] | None = None
        self.captured: Captured | None = None

    @property
    def work(self) -> float:
        return 1e-7 * (1 + self._with_indexes) * (self.engine.object_count + 2 * self.engine.query_count)

    def paint(self, budget: float) -> None:
        if self.work < budget:
            self.captured = self._copy()
        else:
            # No change of this map has its turn before this is done.
            self._beside = self._beside or Beside(self._copy)
            if not self._beside.done(budget):
                return
            self.captured = self._beside.found
        if self._with_journal:
            self.engine.table.changed = set()

    def _copy(self) -> Captured:
        engine, table, standing = self.engine, self.engine.table, self.engine.standing
        slots = table.index.slots()
        points, statics = table.index.rows(slots)
        ids, queries = table.names.ids, standing.names.ids
        held = None
        if self._with_indexes:
            live = standing.live or standing.all_over(table.index)
            held = {row: live[row] for row in standing.question}
        return Captured(
            config=engine.config,
            seq=engine.seq,
            next_created=table.next_created,
            slots=slots,
            points=points,
            statics=statics,
            created=table.index.view.created[slots],
            ids=ids.base._replace(row=ids.base.row.copy()),
            recent=ids.recent.copy(),
            payloads=table.payloads.copy(),
            query_ids=queries.base._replace(row=queries.base.row.copy()),
            query_recent=queries.recent.copy(),
            questions=standing.question.copy(),
            at=standing.at.copy(),
            ttl=engine.ttl.copy(),
            places=table.index.copy() if self._with_indexes else None,
            held=held,
        )

    def settle(self) -> Slice | None:
        self.done = self.captured is not None
        return None


class FoldPlan(Plan["MapEngine"]):
    """Brings an index packed of what was captured up to date with what changed since, and puts it in place once nothing
    is left (`swapped`). Otherwise another plan goes on. It is `abandoned` where nobody noted what changes. `seconds` is
    what painting took.

    O(FOLD d log n).
    """

    def __init__(self, engine: MapEngine, fresh: PlaceIndex) -> None:
        super().__init__(engine, None, 0)
        self.swapped = False
        self.abandoned = False
        self.seconds = 0.0
        self._fresh = fresh

    @property
    def work(self) -> float:
        return 1.0

    def paint(self, budget: float) -> None:
        began = time.perf_counter()
        table = self.engine.table
        if table.changed is None:
            self.abandoned = True
            return
        slots = np.array([table.changed.pop() for _ in range(min(FOLD, len(table.changed)))], np.int32)
        catch_up(self._fresh, table.index, slots)
        self.swapped = not table.changed
        self.seconds = time.perf_counter() - began

    def settle(self) -> Slice | None:
        if self.swapped:
            self.engine.take_index(self._fresh)
            self.engine.table.changed = None
        self.done = True
        return None


def catch_up(fresh: PlaceIndex, index: PlaceIndex, slots: Int32) -> None:
    """Make an index hold in these slots what stands in another."""
    there = np.array([slot in index for slot in slots.tolist()], bool)
    # A slot may have been given to another object, which is of another age.
    fresh.delete(slots)
    some = slots[there]
    if len(some):
        fresh.put(some, *index.rows(some), created=index.view.created[some])
