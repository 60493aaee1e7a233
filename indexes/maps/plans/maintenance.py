"""Maintenance of a map: copying its state, and putting a freshly packed index in place."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.core import maintenance
from indexes.core.arrays import Floats, Ints, Ints32
from indexes.core.captured_ids import CapturedIds
from indexes.maps.config import MapConfig, Point, Question
from indexes.maps.live.held_answers import HeldAnswers
from indexes.maps.object_index import PlaceIndex
from indexes.maps.store import MapStore

FOLD = 1_000
"""Changed objects that are folded in at once: some milliseconds."""


class Captured(NamedTuple):
    """The state of a map at `seq`: objects by column, in order of `slots`, with ids as the engine has them.

    `places`, a copy of the index, and `held`, the answers of standing queries by row, with `indexes` only.
    """

    config: MapConfig
    seq: int
    next_created: int
    slots: Ints32
    points: Floats
    statics: Floats
    created: Ints
    ids: CapturedIds
    payloads: dict[int, bytes]
    query_ids: CapturedIds
    questions: dict[int, Question]
    at: dict[int, Point]
    ttl: dict[str, float]
    places: PlaceIndex | None
    held: HeldAnswers | None


class CapturePlan(maintenance.CapturePlan[MapStore, Captured]):
    """Copies the state of a map."""

    @property
    def seconds(self) -> float:
        return 1e-7 * (1 + self._with_indexes) * (self.engine.object_count + 2 * self.engine.query_count)

    def begin_journal(self) -> None:
        self.engine.table.changed = set()

    def read(self) -> Captured:
        engine, table, standing = self.engine, self.engine.table, self.engine.standing
        slots = table.index.slots()
        points, statics = table.index.rows(slots)
        held, places = None, None
        if self._with_indexes:
            live = standing.live or standing.live_over(table.index)
            places = table.index.copy()
            held = live.held.copy(places)
        return Captured(
            config=engine.config,
            seq=engine.seq,
            next_created=table.next_created,
            slots=slots,
            points=points,
            statics=statics,
            created=table.index.view.created[slots],
            ids=CapturedIds.of(table.names.ids),
            payloads=table.payloads.copy(),
            query_ids=CapturedIds.of(standing.names.ids),
            questions=standing.question.copy(),
            at=standing.at.copy(),
            ttl=engine.ttl.copy(),
            places=places,
            held=held,
        )


class FoldPlan(maintenance.FoldPlan[MapStore]):
    """Brings an index that was packed from a capture up to date, and puts it in place. O(FOLD d log n)."""

    def __init__(self, engine: MapStore, fresh: PlaceIndex) -> None:
        super().__init__(engine)
        self._fresh = fresh

    def _fold(self, budget: float) -> None:
        table = self.engine.table
        if table.changed is None:
            self.abandoned = True
            return
        slots = np.array([table.changed.pop() for _ in range(min(FOLD, len(table.changed)))], np.int32)
        catch_up(self._fresh, table.index, slots)
        self.swapped = not table.changed

    def _swap(self) -> None:
        self.engine.take_index(self._fresh)
        self.engine.table.changed = None


def catch_up(fresh: PlaceIndex, index: PlaceIndex, slots: Ints32) -> None:
    """Copy the objects of these slots from one index to another."""
    there = np.array([slot in index for slot in slots.tolist()], bool)
    # A slot may have been given to another object, with another creation number.
    fresh.delete(slots)
    some = slots[there]
    if len(some):
        fresh.put(some, *index.rows(some), created=index.view.created[some])
