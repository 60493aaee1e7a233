"""The engine of a map: deterministic commands in, exact answers and safe zones out. See
`indexes.core.subscription_engine`.

After a restart the zones of standing queries may be others, which are correct as well, since they are searched for
again.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from indexes.core.commands import Fault, Refused
from indexes.core.names import Names
from indexes.core.pending import STRIDE
from indexes.core.pending_subscriptions import PendingSubscription, Steps, Undo, run_steps
from indexes.core.plan import SamePlan
from indexes.core.subscription_engine import SubscriptionEngine
from indexes.maps.acceptance import Limits, accept_put, known_slots, limits_of, merged, question_faults
from indexes.maps.commands import (
    AddQueries,
    ChangeQuery,
    Command,
    DeleteObjects,
    DeleteQueries,
    MoveQueries,
    PutObjects,
    SetQuery,
)
from indexes.maps.config import QueryState, Question, Skyline
from indexes.maps.object_index import PlaceIndex
from indexes.maps.pending_objects import Undo as Present
from indexes.maps.plans.maintenance import CapturePlan, FoldPlan
from indexes.maps.plans.objects import ChangePlan, DeleteObjectsPlan, PutPlan
from indexes.maps.plans.queries import AddPlan, DeletePlan, MovePlan, SetPlan
from indexes.maps.plans.questions import QuestionPlan
from indexes.maps.questions import faults_of
from indexes.maps.store import MapPlan, MapStore, points_of


class MapEngine(MapStore, SubscriptionEngine[QueryState]):
    """A map with its commands; see `MapStore`."""

    noun = "query"

    @cached_property
    def _limits(self) -> Limits:
        return limits_of(self.config)

    @property
    def _names(self) -> Names:
        return self.standing.names

    # Commands

    def prepare(self, command: Command, keep: int = 0) -> Any:
        # As by `prepare_steps`, without the steps: this is what most commands are.
        if isinstance(command, PutObjects):
            self._owner += 1
            return self._change_known(command) or run_steps(self._accept_unknown(command))
        return super().prepare(command, keep)

    def prepare_steps(self, command: Command, keep: int = 0) -> Steps[MapPlan]:
        self._owner += 1
        match command:
            case PutObjects():
                return (yield from self._accept_put(command))
            case DeleteObjects():
                return (yield from self._accept_delete_objects(command))
            case AddQueries():
                return (yield from self._accept_add(command, lambda: self._query_faults(command), AddPlan))
            case SetQuery():
                return self._accept_set(command, self.latest(command.id))
            case ChangeQuery():
                return self._accept_change(command)
            case MoveQueries():
                return (yield from self._accept_moves(command))
            case DeleteQueries():
                return (yield from self._accept_delete(command, DeletePlan))

    def capture(self, journal: bool = False, indexes: bool = False) -> CapturePlan:
        """A plan that copies the state, with `indexes` also the index and the answers of standing queries; `journal`
        begins to record which objects change."""
        return CapturePlan(self, journal, indexes)

    def fold(self, fresh: PlaceIndex) -> FoldPlan:
        """A plan that brings an index packed from a capture up to date with the changes recorded since."""
        return FoldPlan(self, fresh)

    def watch(self, key: str) -> None:
        super().watch(key)
        self.hold([key])

    def settled(self, key: str) -> QueryState | None:
        row = self.standing.names.find(key)
        if row < 0:
            return None
        return QueryState(self.standing.question[row], self.standing.at[row], self.ttl.get(key))

    def _accept_put(self, command: PutObjects) -> Steps[MapPlan]:
        return self._change_known(command) or (yield from self._accept_unknown(command))

    def _change_known(self, command: PutObjects) -> ChangePlan | None:
        """The plan of a command that only changes numbers of a few existing objects; None for any other one."""
        slots = known_slots(self._limits, command, self.pending_objects, self.table.names)
        return None if slots is None else ChangePlan(self, command, self._owner, slots)

    def _accept_unknown(self, command: PutObjects) -> Steps[MapPlan]:
        if isinstance(command.ids, list):
            command = replace(command, ids=command.array)
        accepted = yield from accept_put(self.config, command, self.pending_objects, self.table.names)
        undo: Present = []
        if accepted.packed is not None:
            self.pending_objects.put_many(self._owner, accepted.packed)
        else:
            for key in dict.fromkeys(accepted.command.keys):
                self.pending_objects.put(self._owner, key, True, undo)
        plan = PutPlan(self, accepted.command, self._owner, undo, accepted.makers)
        plan.faults, plan.positions = accepted.faults, accepted.positions
        return plan

    def _accept_delete_objects(self, command: DeleteObjects) -> Steps[MapPlan]:
        undo: Present = []
        found = []
        try:
            for i, key in enumerate(dict.fromkeys(command.ids)):
                there = self.pending_objects.get(key)
                if there is None:
                    there = self.table.names.find(key) >= 0
                if there:
                    found.append(key)
                    self.pending_objects.put(self._owner, key, False, undo)
                elif command.must_exist:
                    raise Refused([Fault("id", f"there is no object {key!r}", "missing")])
                # To find an id of the sorted base takes some microseconds.
                if i % (STRIDE // 8) == STRIDE // 8 - 1:
                    yield None
        except (GeneratorExit, Refused):
            self.pending_objects.roll_back(self._owner, undo)
            raise
        return DeleteObjectsPlan(self, DeleteObjects(found), self._owner, undo)

    def _accept_set(self, command: SetQuery, before: QueryState | None) -> MapPlan:
        faults = question_faults(self.config, command.question, command.location)
        if faults:
            raise Refused(faults)
        x, y = command.location
        after = QueryState(command.question, (x + 0.0, y + 0.0), command.ttl or None)
        whole = SetQuery(command.id, *after)
        if before == after:
            return SamePlan(self, whole)
        undo = self._will_be(command.id, after)
        same = before is not None and before.question == after.question
        return SetPlan(self, whole, self._owner, undo, made=before is None, same=same)

    def _accept_change(self, command: ChangeQuery) -> MapPlan:
        before = self._must_exist(command.id)
        after, faults = merged(before, command)
        if faults:
            raise Refused(faults)
        if command.location is not None and after.question == before.question and after.ttl == before.ttl:
            moves = MoveQueries([command.id], np.array([command.location], np.float64))
            return run_steps(self._accept_moves(moves))
        return self._accept_set(SetQuery(command.id, *after), before)

    def _accept_moves(self, command: MoveQueries) -> Steps[MapPlan]:
        undo: Undo[QueryState] = []
        faults: list[Fault] = []
        keep = []
        long = False
        try:
            for i, (key, (x, y)) in enumerate(zip(command.ids, command.locations.tolist(), strict=True)):
                wrong = question_faults(self.config, None, (x, y))
                before = self.latest(key)
                if before is None:
                    faults.append(Fault("id", f"there is no query {key!r}", "unknown", i))
                elif wrong:
                    faults += [Fault(fault.field, fault.reason, index=i) for fault in wrong]
                else:
                    keep.append(i)
                    long |= isinstance(before.question, Skyline)
                    after = QueryState(before.question, (x + 0.0, y + 0.0), before.ttl)
                    self.pending.put(self._owner, key, PendingSubscription(None, after), undo)
                if i % (STRIDE // 8) == STRIDE // 8 - 1:
                    yield None
            if faults and not command.skip:
                raise Refused(sorted(faults, key=lambda fault: fault.kind == "unknown"))
        except (GeneratorExit, Refused):
            self.pending.roll_back(self._owner, undo)
            raise
        some = MoveQueries([command.ids[i] for i in keep], command.locations[keep] + 0.0)
        plan = MovePlan(self, some, self._owner, undo, long)
        plan.faults, plan.positions = faults, keep if faults else None
        return plan

    def _query_faults(self, command: AddQueries) -> list[Fault]:
        """The faults of new queries."""
        wrong = {question: faults_of(self.config, question) for question in dict.fromkeys(command.questions)}
        found = [
            Fault(field, reason, index=i)
            for i, question in enumerate(command.questions)
            for field, reason in wrong[question]
        ]
        for i, (x, y) in enumerate(command.locations.tolist()):
            found += [Fault(f.field, f.reason, index=i) for f in question_faults(self.config, None, (x, y))]
        return found

    def ask(self, question: Question, locations: ArrayLike) -> QuestionPlan:
        """A plan that answers a question at each of some places (n, 2), in its turn; it is not logged.

        Raises:
            Refused: the question or a place is invalid.
        """
        places = points_of(locations)
        faults = question_faults(self.config, question, None)
        for i, at in enumerate(places):
            faults += [Fault(f.field, f.reason, index=i) for f in question_faults(self.config, None, at)]
        if faults:
            raise Refused(faults)
        return QuestionPlan(self, question, places)

    def check(self) -> None:
        self.check_ids()
        super().check()
