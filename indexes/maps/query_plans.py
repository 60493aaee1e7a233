"""Accepted changes of standing queries on their way: see `indexes.plan`. Each that asks something new is a search, and
so is a client that leaves its zone."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from indexes.beside import Beside
from indexes.cost import Cost
from indexes.maps.commands import AddQueries, DeleteQueries, MoveQueries, SetQuery
from indexes.maps.model import Skyline, Standing
from indexes.maps.shown import zone_fields
from indexes.maps.views import Moved, Slice
from indexes.names import Merged
from indexes.plan import LONG
from indexes.plan import Plan as AnyPlan
from indexes.promised import Undo

if TYPE_CHECKING:
    from indexes.maps.engine import MapEngine

AT_ONCE = 512
"""Queries in one chunk, at most."""

SKYLINE = 0.002
"""Seconds that a search for a skyline is said to take at least: more than is done on the loop, since nobody knows."""


class QueryPlan(AnyPlan["MapEngine"]):
    """Standing queries that are made, changed, moved or deleted."""

    def __init__(self, engine: MapEngine, command: Any, count: int, owner: int, undo: Undo[Standing]) -> None:
        super().__init__(engine, command, count)
        self._owner = owner
        self._undo = undo
        self._merging: Beside[Merged] | None = None
        self._merged: Merged | None = None
        self._painted = 0
        self._settled = 0
        self.done = count == 0

    @property
    def _left(self) -> int:
        return self.count - self._painted

    @property
    @abstractmethod
    def _cost(self) -> Cost:
        """What one of them takes."""

    @property
    def _searches_long(self) -> bool:
        """Whether a skyline may have to be searched for."""
        return False

    @property
    def work(self) -> float:
        if self._merging is not None or self._names_are_crowded:
            return LONG
        return self._cost.seconds * self._left + SKYLINE * (self._searches_long and not self.silent)

    @property
    def _names_are_crowded(self) -> bool:
        return self._merged is None and self.engine.standing.names.crowded

    def _has_room(self, budget: float) -> bool:
        if self._merging is None:
            if not self._names_are_crowded:
                return True
            self._merging = Beside(self.engine.standing.names.merged)
        if not self._merging.done(budget):
            return False
        self._merged, self._merging = self._merging.found, None
        return True

    def paint(self, budget: float) -> None:
        if not self._has_room(budget) or not self._left:
            return
        if self.silent:
            self.engine.fall_asleep()
        end = min(self.count, self._painted + min(AT_ONCE, self._cost.fit(budget)))
        began = time.perf_counter()
        self._change(self._painted, end)
        self._cost.learn(time.perf_counter() - began, end - self._painted)
        self._painted = end

    @abstractmethod
    def _change(self, lo: int, hi: int) -> None:
        """Do these."""

    def settle(self) -> Slice | None:
        engine, lo, hi = self.engine, self._settled, self._painted
        if lo == hi:
            return None
        if self._merged is not None:
            engine.standing.names.swap(self._merged)
            self._merged = None
        engine.seq = self.first_seq + hi - 1
        heard = self._show(lo, hi)
        self._settled = hi
        if hi == self.count:
            self.done = True
            engine.pending.settle(self._owner, self._undo)
        return None if self.silent else heard

    @abstractmethod
    def _show(self, lo: int, hi: int) -> Slice | None:
        """Let what was painted of these be found; returns what live queries hear."""

    def cancel(self) -> None:
        self.engine.pending.take_back(self._owner, self._undo)
        super().cancel()


class EditPlan(QueryPlan):
    """Standing queries that are made, changed or deleted."""

    @abstractmethod
    def lifetimes(self) -> Iterator[tuple[str, float | None]]:
        """Ids with the seconds that they may stay unused from now on, None for ever or gone. New ones without a limit
        are left out."""


class AddPlan(EditPlan):
    """New standing queries."""

    command: AddQueries

    def __init__(self, engine: MapEngine, command: AddQueries, owner: int, undo: Undo[Standing]) -> None:
        super().__init__(engine, command, len(command), owner, undo)
        self._rows: list[int] = []
        self._long = any(isinstance(question, Skyline) for question in command.questions)

    def lifetimes(self) -> Iterator[tuple[str, float | None]]:
        return ((self.command.ids[i].as_py(), seconds) for i, seconds in self.command.ttl.items())

    @property
    def _cost(self) -> Cost:
        return self.engine.query_cost(self.silent)

    @property
    def _searches_long(self) -> bool:
        return self._long

    def _change(self, lo: int, hi: int) -> None:
        command, queries = self.command, self.engine.standing
        self._rows = queries.pool.take_many(hi - lo)
        for row, question, (x, y) in zip(
            self._rows, command.questions[lo:hi], command.locations[lo:hi].tolist(), strict=True
        ):
            queries.question[row], queries.at[row] = self.engine.interned(question), (x, y)
        if queries.live is not None:
            queries.enter(queries.live, self._rows)

    def _show(self, lo: int, hi: int) -> Slice | None:
        engine, command = self.engine, self.command
        for i, (key, row) in enumerate(zip(command.ids.slice(lo, hi - lo).to_pylist(), self._rows, strict=True), lo):
            engine.standing.names.note_one(key, row)
            if i in command.ttl:
                engine.ttl[key] = command.ttl[i]
        return None


class SetPlan(EditPlan):
    """One standing query made or changed. `made`: it is new. `inside`: it was there and asks the same, and its client
    is within the zone that it held."""

    command: SetQuery

    def __init__(
        self, engine: MapEngine, command: SetQuery, owner: int, undo: Undo[Standing], made: bool, same: bool
    ) -> None:
        super().__init__(engine, command, 1, owner, undo)
        self.made = made
        self.inside = False
        self._same = same
        self._row = -1

    def lifetimes(self) -> Iterator[tuple[str, float | None]]:
        yield self.command.id, self.command.ttl

    @property
    def _cost(self) -> Cost:
        return self.engine.query_cost(self.silent)

    @property
    def _searches_long(self) -> bool:
        return isinstance(self.command.question, Skyline)

    def _change(self, lo: int, hi: int) -> None:
        command, engine = self.command, self.engine
        queries = engine.standing
        self._row = queries.pool.take() if self.made else queries.names.find(command.id)
        if self._same:
            self.inside = engine.move(self._row, command.location, self.silent) is None
            return
        question = engine.interned(command.question)
        queries.question[self._row], queries.at[self._row] = question, command.location
        if queries.live is not None:
            queries.enter(queries.live, [self._row])

    def _show(self, lo: int, hi: int) -> Slice | None:
        engine, command = self.engine, self.command
        if self.made:
            engine.standing.names.note_one(command.id, self._row)
        if command.ttl is None:
            engine.ttl.pop(command.id, None)
        else:
            engine.ttl[command.id] = command.ttl
        return engine.heard([(self.first_seq, self._row)])

    def told(self) -> dict[str, Any]:
        """The zone that it holds, and whether its client stayed within the one it had."""
        view = self.engine.query(self.command.id, answer=True)
        zone = None if view is None or view.answer is None else zone_fields(view.answer)
        return {"inside": self.inside, "zone": zone}


class MovePlan(QueryPlan):
    """Clients that are at other places: `moved`, in the order of the command."""

    command: MoveQueries

    def __init__(self, engine: MapEngine, command: MoveQueries, owner: int, undo: Undo[Standing], long: bool) -> None:
        super().__init__(engine, command, len(command), owner, undo)
        self.moved: list[Moved] = []
        self._long = long
        self._left_zone: list[tuple[int, int]] = []

    @property
    def _cost(self) -> Cost:
        return self.engine.move_cost

    @property
    def _searches_long(self) -> bool:
        return self._long

    def _change(self, lo: int, hi: int) -> None:
        engine, command = self.engine, self.command
        queries = engine.standing
        self._left_zone = []
        for i, (x, y) in enumerate(command.locations[lo:hi].tolist(), lo):
            key = command.ids[i]
            row = queries.names.find(key)
            answer = engine.move(row, (x, y), self.silent)
            if answer is not None:
                self._left_zone.append((self.first_seq + i, row))
            if not self.silent:
                self.moved.append(Moved(key, answer is None, answer))

    def _show(self, lo: int, hi: int) -> Slice | None:
        return self.engine.heard(self._left_zone)

    def told(self) -> dict[str, Any]:
        """Who is inside, and of the first the zone that it has got."""
        results = [{"id": one.id, "inside": one.inside} for one in self.moved]
        first = self.moved[0].answer if self.moved else None
        zone = None if first is None else zone_fields(first)
        return {"inside": bool(results and results[0]["inside"]), "zone": zone, "results": results}


class DeletePlan(EditPlan):
    """Standing queries deleted."""

    command: DeleteQueries

    def __init__(self, engine: MapEngine, command: DeleteQueries, owner: int, undo: Undo[Standing]) -> None:
        super().__init__(engine, command, len(command), owner, undo)
        self._rows: list[int] = []

    def lifetimes(self) -> Iterator[tuple[str, float | None]]:
        return ((key, None) for key in self.command.ids)

    @property
    def _cost(self) -> Cost:
        return self.engine.drop_cost

    def _change(self, lo: int, hi: int) -> None:
        queries = self.engine.standing
        self._rows = [queries.names.find(key) for key in self.command.ids[lo:hi]]
        if queries.live is not None:
            for row in self._rows:
                queries.live.drop(row)

    def _show(self, lo: int, hi: int) -> Slice | None:
        engine = self.engine
        gone = []
        for i, row in enumerate(self._rows, lo):
            key = self.command.ids[i]
            engine.standing.forget(key, row)
            engine.ttl.pop(key, None)
            if key in engine.watched:
                engine.watched.discard(key)
                gone.append((self.first_seq + i, key))
        return Slice(engine.seq, [], gone) if gone else None
