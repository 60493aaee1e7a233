"""Plans that change standing queries (see `indexes.core.plan`). Each new question takes a search, and so does each
client that leaves its zone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from indexes.core import edit_plan, subscription_plans
from indexes.core.cost import Cost
from indexes.core.names import Names
from indexes.core.pending_subscriptions import Undo
from indexes.maps.answers import zone_fields
from indexes.maps.commands import AddQueries, DeleteQueries, MoveQueries, SetQuery
from indexes.maps.config import QueryState, Skyline
from indexes.maps.results import Moved, Slice
from indexes.maps.store import MapStore

SKYLINE = 0.002
"""Least estimate of the seconds of a skyline search, which is hard to predict: more than the event loop does."""


class QueryPlan(edit_plan.SlicedPlan[MapStore]):
    """Creates, changes, moves or deletes standing queries."""

    @property
    def _ids(self) -> Names:
        return self.engine.standing.names

    @property
    def _searches_long(self) -> bool:
        """Whether a skyline may have to be searched for."""
        return False

    @property
    def work(self) -> float:
        return super().work + SKYLINE * (self._searches_long and not self.silent)

    def execute(self, budget: float) -> None:
        if self.silent and self._left:
            self.engine.suspend()
        super().execute(budget)


class AddPlan(QueryPlan, subscription_plans.AddPlan[MapStore]):
    """Creates standing queries."""

    command: AddQueries

    def __init__(self, engine: MapStore, command: AddQueries, owner: int, undo: Undo[QueryState]) -> None:
        super().__init__(engine, command, owner, undo)
        self._rows: list[int] = []
        self._long = any(isinstance(question, Skyline) for question in command.questions)
        engine.expect(set(command.questions))

    @property
    def _cost(self) -> Cost:
        return self.engine.query_cost(self.silent)

    @property
    def _searches_long(self) -> bool:
        return self._long

    def _change(self, lo: int, hi: int) -> None:
        command, queries = self.command, self.engine.standing
        self._rows = queries.pool.take_many(hi - lo).tolist()
        for row, question, (x, y) in zip(
            self._rows, command.questions[lo:hi], command.locations[lo:hi].tolist(), strict=True
        ):
            queries.question[row], queries.at[row] = self.engine.interned(question), (x, y)
        if queries.live is not None:
            queries.enter(queries.live, self._rows)

    def _show(self, lo: int, hi: int) -> None:
        for key, row in zip(self._keys(lo, hi), self._rows, strict=True):
            self.engine.standing.names.note_one(key, row)
        self._set_limits(lo, hi)


class SetPlan(QueryPlan, subscription_plans.SetPlan[MapStore]):
    """Creates or changes a standing query. `made`: it is new. `inside`: its question is the same as before, and its
    client is within the zone it had."""

    command: SetQuery

    def __init__(
        self, engine: MapStore, command: SetQuery, owner: int, undo: Undo[QueryState], made: bool, same: bool
    ) -> None:
        super().__init__(engine, command, owner, undo, made)
        self.inside = False
        engine.expect([command.question])
        self._same = same
        self._row = -1

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
        engine = self.engine
        if self.made:
            engine.standing.names.note_one(self.command.id, self._row)
        self._set_limit()
        return engine.notifications([(self.first_seq, self._row)])

    def response_fields(self) -> dict[str, Any]:
        """The zone, and whether the client stayed within the previous one."""
        view = self.engine.query(self.command.id, answer=True)
        zone = None if view is None or view.answer is None else zone_fields(view.answer)
        return {"inside": self.inside, "zone": zone}


class MovePlan(QueryPlan):
    """Moves clients: `moved`, in the order of the command."""

    command: MoveQueries

    def __init__(self, engine: MapStore, command: MoveQueries, owner: int, undo: Undo[QueryState], long: bool) -> None:
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
        engine.hold(command.ids[lo:hi])
        for i, (x, y) in enumerate(command.locations[lo:hi].tolist(), lo):
            key = command.ids[i]
            row = queries.names.find(key)
            answer = engine.move(row, (x, y), self.silent)
            if answer is not None:
                self._left_zone.append((self.first_seq + i, row))
            if not self.silent:
                self.moved.append(Moved(key, answer is None, answer))

    def _show(self, lo: int, hi: int) -> Slice | None:
        return self.engine.notifications(self._left_zone)

    def response_fields(self) -> dict[str, Any]:
        """Which clients are inside, and the new zone of the first."""
        results = [{"id": one.id, "inside": one.inside} for one in self.moved]
        return {**self._fields_at(0), "results": results}

    def fields_of(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        # An answer about one move says whether it is inside, one about all has results.
        return self._fields_at(int(answer["seq"]) - self.first_seq) if "inside" in answer else self.response_fields()

    def _fields_at(self, i: int) -> dict[str, Any]:
        """Whether a client is inside, and its new zone."""
        moved = self.moved[i] if i < len(self.moved) else None
        zone = None if moved is None or moved.answer is None else zone_fields(moved.answer)
        return {"inside": moved is not None and moved.inside, "zone": zone}


class DeletePlan(QueryPlan, subscription_plans.DeletePlan[MapStore]):
    """Deletes standing queries."""

    command: DeleteQueries

    _rows: tuple[int, ...] = ()

    @property
    def _cost(self) -> Cost:
        return self.engine.drop_cost

    def _change(self, lo: int, hi: int) -> None:
        queries = self.engine.standing
        self._rows = tuple(queries.names.find(key) for key in self.command.ids[lo:hi])
        if queries.live is not None:
            for row in self._rows:
                queries.live.drop(row)

    def _show(self, lo: int, hi: int) -> Slice | None:
        engine = self.engine
        for key, row in zip(self.command.ids[lo:hi], self._rows, strict=True):
            engine.standing.forget(key, row)
        gone = self._forget(lo, hi)
        return Slice(engine.seq, [], gone) if gone else None
