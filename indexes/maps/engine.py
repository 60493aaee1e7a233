"""The engine of a map behind the writer: deterministic commands in, exact answers and safe zones out.

    plan = engine.prepare(command)     checked against the state that it will meet; nothing has changed yet
    plan.paint(0.005)                  kernel work, in any one thread
    plan.settle()                      visible now, at engine.seq

`apply` does all of it at once. Over the objects of a map and its standing queries it keeps the seq, lifetimes, and what
is promised but not done. What it answers is read between two slices. The same commands in the same order give the same
objects, queries and answers; zones are right ones, but those of a standing query that was searched for again, as after
a restart, may be others. No clock or random source is read, save to cut work into slices.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from indexes.commands import Fault, Refused
from indexes.cost import Cost
from indexes.maps.accept import accept_put, question_faults
from indexes.maps.ask_plans import AskPlan
from indexes.maps.asks import faults_of
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
from indexes.maps.live import Changes, Held
from indexes.maps.merged import merged
from indexes.maps.model import MapConfig, Point, Question, Skyline, Standing
from indexes.maps.objects import Objects
from indexes.maps.places import PlaceIndex
from indexes.maps.plans import DeleteObjectsPlan, Plan, PutPlan
from indexes.maps.presence import Presence
from indexes.maps.presence import Undo as Present
from indexes.maps.queries import Queries
from indexes.maps.query_plans import AddPlan, DeletePlan, MovePlan, SetPlan
from indexes.maps.searches import Searches
from indexes.maps.shown import answers_of
from indexes.maps.upkeep import CapturePlan, FoldPlan
from indexes.maps.views import Answer, ObjectView, QueryView, Slice
from indexes.overlay import STRIDE
from indexes.plan import SamePlan, applied
from indexes.promised import GONE, Promised, Promises, Steps, Undo, accept_delete, accept_many, run_steps

BULK = 4_096
"""From this many on, new queries are checked by their sorted ids, off the loop."""


class MapEngine:
    """Objects with places and attributes, and standing queries among them.

    `first_seq` is the seq of the map's own creation. `watched` are the ids of live queries, `ttl` the time limits of
    those that have one.
    """

    def __init__(self, config: MapConfig, first_seq: int = 0, objects: Objects | None = None) -> None:
        self.config = config
        self.seq = first_seq
        self.next_seq = first_seq + 1
        self.table = objects if objects is not None else Objects(config)
        self.standing = Queries(config, self.table.index)
        self.ttl: dict[str, float] = {}
        self.watched: set[str] = set()
        self.presence = Presence()
        self.pending: Promises[Standing] = Promises()
        self.change_cost, self.move_cost, self.drop_cost = Cost(1e-5), Cost(5e-5), Cost(2e-5)
        self._query_cost = {False: Cost(2e-4), True: Cost(5e-6)}
        self._ask_cost: dict[object, Cost] = {}
        self._searches = Searches(config)
        self._questions: dict[Question, Question] = {}
        self._owner = 0

    @property
    def object_count(self) -> int:
        return len(self.table)

    @property
    def query_count(self) -> int:
        return len(self.standing)

    # Commands.

    def prepare(self, command: Command, keep: int = 0) -> Plan:
        """Check a command and reserve its seqs.

        Raises:
            Refused: it does not apply; nothing has changed.
        """
        return run_steps(self.prepare_steps(command, keep))

    def prepare_steps(self, command: Command, keep: int = 0) -> Steps[Plan]:
        """As `prepare`, cut into pieces: yields None where others may go first, or a function to run in any thread.

        No other command of this map may be prepared in between.
        """
        self._owner += 1
        match command:
            case PutObjects():
                return (yield from self._accept_put(command))
            case DeleteObjects():
                return (yield from self._accept_delete_objects(command))
            case AddQueries():
                return (yield from self._accept_many(command))
            case SetQuery():
                return self._accept_set(command, self.latest(command.id))
            case ChangeQuery():
                return self._accept_change(command)
            case MoveQueries():
                return (yield from self._accept_moves(command))
            case DeleteQueries():
                return (yield from self._accept_delete(command))

    def apply(self, command: Command) -> tuple[Plan, list[Slice]]:
        """Prepare, paint and settle a command; returns its plan and what live queries must hear of."""
        return applied(self.prepare(command))

    def capture(self, journal: bool = False, indexes: bool = False) -> CapturePlan:
        """A plan that copies the state, with a copy of the index and of what queries hold if asked for; `journal`
        begins to note which objects change."""
        return CapturePlan(self, journal, indexes)

    def fold(self, fresh: PlaceIndex) -> FoldPlan:
        """A plan that brings an index packed of what was captured up to date with the changes noted since."""
        return FoldPlan(self, fresh)

    def keep(self) -> Plan:
        """A plan that changes nothing: the answer to a PUT of the configuration that stands."""
        return SamePlan(self)

    def latest(self, key: str) -> Standing | None:
        """A standing query as it will be when everything accepted has been applied."""
        promised = self.pending.get(key)
        return promised.stands if promised is not None else self._settled(key)

    def _settled(self, key: str) -> Standing | None:
        row = self.standing.names.find(key)
        if row < 0:
            return None
        return Standing(self.standing.question[row], self.standing.at[row], self.ttl.get(key))

    def _accept_put(self, command: PutObjects) -> Steps[Plan]:
        accepted = yield from accept_put(self.config, command, self.presence, self.table.names)
        undo: Present = []
        if accepted.packed is not None:
            self.presence.put_many(self._owner, accepted.packed)
        else:
            for key in dict.fromkeys(accepted.command.ids.to_pylist()):
                self.presence.put(self._owner, key, True, undo)
        plan = PutPlan(self, accepted.command, self._owner, undo, accepted.created)
        plan.faults, plan.positions = accepted.faults, accepted.positions
        return plan

    def _accept_delete_objects(self, command: DeleteObjects) -> Steps[Plan]:
        undo: Present = []
        found = []
        try:
            for i, key in enumerate(dict.fromkeys(command.ids)):
                there = self.presence.get(key)
                if there is None:
                    there = self.table.names.find(key) >= 0
                if there:
                    found.append(key)
                    self.presence.put(self._owner, key, False, undo)
                elif command.must_exist:
                    raise Refused([Fault("id", f"there is no object {key!r}", "missing")])
                # An id of the sorted base takes some microseconds to find.
                if i % (STRIDE // 8) == STRIDE // 8 - 1:
                    yield None
        except (GeneratorExit, Refused):
            self.presence.take_back(self._owner, undo)
            raise
        return DeleteObjectsPlan(self, DeleteObjects(found), self._owner, undo)

    def _accept_set(self, command: SetQuery, before: Standing | None) -> Plan:
        faults = question_faults(self.config, command.question, command.location)
        if faults:
            raise Refused(faults)
        x, y = command.location
        after = Standing(command.question, (x + 0.0, y + 0.0), command.ttl or None)
        whole = SetQuery(command.id, *after)
        if before == after:
            return SamePlan(self, whole)
        undo: Undo[Standing] = []
        self.pending.put(self._owner, command.id, Promised(None, after), undo)
        same = before is not None and before.question == after.question
        return SetPlan(self, whole, self._owner, undo, made=before is None, same=same)

    def _accept_change(self, command: ChangeQuery) -> Plan:
        before = self.latest(command.id)
        if before is None:
            raise Refused([_missing(command.id)])
        after, faults = merged(before, command)
        if faults:
            raise Refused(faults)
        if command.location is not None and after.question == before.question and after.ttl == before.ttl:
            moves = MoveQueries([command.id], np.array([command.location], np.float64))
            return run_steps(self._accept_moves(moves))
        return self._accept_set(SetQuery(command.id, *after), before)

    def _accept_moves(self, command: MoveQueries) -> Steps[Plan]:
        undo: Undo[Standing] = []
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
                    after = before._replace(location=(x + 0.0, y + 0.0))
                    self.pending.put(self._owner, key, Promised(None, after), undo)
                if i % (STRIDE // 8) == STRIDE // 8 - 1:
                    yield None
            if faults and not command.skip:
                raise Refused(sorted(faults, key=lambda fault: fault.kind == "unknown"))
        except (GeneratorExit, Refused):
            self.pending.take_back(self._owner, undo)
            raise
        some = MoveQueries([command.ids[i] for i in keep], command.locations[keep] + 0.0)
        plan = MovePlan(self, some, self._owner, undo, long)
        plan.faults, plan.positions = faults, keep if faults else None
        return plan

    def _accept_delete(self, command: DeleteQueries) -> Steps[Plan]:
        found, undo = yield from accept_delete(self._owner, command, self.pending, self._will_stand, _missing)
        return DeletePlan(self, DeleteQueries(found), self._owner, undo)

    def _will_stand(self, key: str) -> bool:
        promised = self.pending.get(key)
        return promised is not GONE if promised is not None else self.standing.names.find(key) >= 0

    def _accept_many(self, command: AddQueries) -> Steps[Plan]:
        """Nothing changes before it returns."""

        def check() -> list[Fault]:
            wrong = {question: faults_of(self.config, question) for question in dict.fromkeys(command.questions)}
            found = [
                Fault(field, reason, index=i)
                for i, question in enumerate(command.questions)
                for field, reason in wrong[question]
            ]
            for i, (x, y) in enumerate(command.locations.tolist()):
                found += [Fault(f.field, f.reason, index=i) for f in question_faults(self.config, None, (x, y))]
            return found

        accepted = yield from accept_many(
            command, check, lambda: self.standing.names, self.pending, self._will_stand, BULK
        )
        undo: Undo[Standing] = []
        self.pending.put_all(self._owner, accepted.command, accepted.packed, undo)
        plan = AddPlan(self, accepted.command, self._owner, undo)
        plan.faults, plan.positions = accepted.faults, accepted.positions
        return plan

    # What plans do.

    def change(self, changes: Changes) -> list[int]:
        """Change objects, and see to the standing queries; returns the rows of those that hold something else."""
        self.table.note(changes.slots)
        live, index, there = self.standing.live, self.table.index, changes.there
        if live is not None:
            return [told.query for told in live.apply(changes).told] if len(there) else []
        index.put(changes.slots[there], changes.points[there], changes.statics[there], created=changes.created[there])
        index.delete(changes.slots[~there])
        return []

    def take_index(self, index: PlaceIndex) -> None:
        """Another index of the same objects takes the place of the one in use; no other is to be caught up."""
        self.table.index, self.table.changed = index, None
        if self.standing.live is not None:
            self.standing.live.index = index

    def take_other(self, index: PlaceIndex) -> list[int]:
        """An index of other objects takes the place of the one in use: all queries are searched for again. Returns
        their rows."""
        self.table.index, self.table.changed = index, None
        if self.standing.live is None:
            return []
        self.standing.live = self.standing.all_over(index)
        return list(self.standing.question)

    def move(self, row: int, at: Point, silent: bool) -> Answer | None:
        """The client of a query is at a place: what it is answered where that is outside the zone it holds."""
        queries = self.standing
        question, live = queries.question[row], queries.live
        if live is None:
            if silent:
                queries.at[row] = at
                return None
            alone = queries.over(self.table.index)
            queries.enter(alone, [row])
            queries.at[row] = at
            live = alone
        else:
            queries.at[row] = at
        if live.move(row, at):
            return None
        return self.shown(question, [live[row]], [at])[0]

    def fall_asleep(self) -> None:
        """Hold nothing for standing queries: the log is replayed. `wake` ends it."""
        self.standing.live = None

    def wake(self) -> bool:
        """Search for what all standing queries hold, if nothing is held: the log has been replayed. Whether there were
        any."""
        if self.standing.live is not None:
            return False
        self.standing.live = self.standing.all_over(self.table.index)
        return len(self.standing) > 0

    def query_cost(self, silent: bool) -> Cost:
        """What a new query takes."""
        return self._query_cost[silent]

    def interned(self, question: Question) -> Question:
        """The same question as others ask it, once in memory."""
        if len(self._questions) > 2 * len(self.standing) + BULK:
            self._questions.clear()
        return self._questions.setdefault(question, question)

    def heard(self, rows: list[tuple[int, int]]) -> Slice | None:
        """What live queries among these (seq, row) hear."""
        if not self.watched or not rows:
            return None
        name = self.standing.names.name
        latest = {key: seq for seq, key in ((seq, name(row)) for seq, row in rows) if key in self.watched}
        return Slice(self.seq, [(seq, key) for key, seq in latest.items()], []) if latest else None

    # Reads, between two slices.

    def ask(self, question: Question, locations: ArrayLike) -> AskPlan:
        """A plan that answers a question in its turn at each of some places (n, 2), and is not logged. Raises
        Refused."""
        places = _points(locations)
        faults = question_faults(self.config, question, None)
        for i, at in enumerate(places):
            faults += [Fault(f.field, f.reason, index=i) for f in question_faults(self.config, None, at)]
        if faults:
            raise Refused(faults)
        return AskPlan(self, question, places)

    def answer(self, question: Question, locations: ArrayLike) -> list[Answer]:
        """The answers to a question that nothing is wrong with. It is not cut: for many places there is `ask`."""
        places = _points(locations)
        return self.shown(question, self.search(question, places), places)

    def search(self, question: Question, locations: list[Point], searches: Searches | None = None) -> list[Held]:
        """What a question comes to at places. In another thread it takes `searches` of its own, while nothing
        changes."""
        # Of this thread alone: beside others it waits for them, which would make it seem long, and long ones go beside.
        began = time.thread_time()
        searches = searches if searches is not None else self._searches
        found = searches.held(self.table.index, self.standing.asks.of(question), locations)
        if locations:
            self._cost_of(question).learn(time.thread_time() - began, len(locations))
        return found

    def shown(self, question: Question, held: Sequence[Held], places: Sequence[Point]) -> list[Answer]:
        """What is held for a question, at places in the zones."""
        return answers_of(self.table, question, held, places, self.config.metric)

    def seconds(self, question: Question) -> float:
        """What an answer at one place takes, as the latest ones have shown."""
        return self._cost_of(question).seconds

    def _cost_of(self, question: Question) -> Cost:
        kind = question.score.kind if not isinstance(question, Skyline) else None
        return self._ask_cost.setdefault(kind, Cost(2e-4))

    def object(self, key: str) -> ObjectView | None:
        """The object of an id, or None."""
        return self.table.get(key)

    def objects(self, after: str | None, limit: int) -> list[ObjectView]:
        """Up to `limit` objects in order of id, behind `after`."""
        return self.table.after(after, limit)

    def query(self, key: str, answer: bool = False) -> QueryView | None:
        """The standing query of an id, or None; with its answer where its client is, if that is asked for."""
        row = self.standing.names.find(key)
        if row < 0:
            return None
        view = self._view(key, row)
        if not answer:
            return view
        held = self.standing.held(row, self.table.index)
        return view._replace(answer=self.shown(view.question, [held], [view.location])[0])

    def queries(self, after: str | None, limit: int) -> list[QueryView]:
        """Up to `limit` standing queries in order of id, behind `after`, without answers."""
        return [self._view(key, row) for key, row in self.standing.after(after, limit)]

    def _view(self, key: str, row: int) -> QueryView:
        return QueryView(key, self.standing.question[row], self.standing.at[row], self.ttl.get(key), None)

    def watch(self, key: str) -> None:
        """Tell what a query holds from now on, until it is deleted or watched no longer. Raises KeyError."""
        if self.standing.names.find(key) < 0:
            raise KeyError(key)
        self.watched.add(key)

    def unwatch(self, key: str) -> None:
        """Tell no more of a query."""
        self.watched.discard(key)

    def check(self) -> None:
        """Raise AssertionError unless all parts agree (with nothing pending). O(d n log n)."""
        assert not self.pending and not self.presence, "something is promised still"
        self.table.check()
        self.standing.check()
        assert self.standing.live is None or self.standing.live.index is self.table.index, "another index is searched"
        names = self.standing.names
        assert all(names.find(key) >= 0 for key in (*self.ttl, *self.watched)), "a lifetime of nobody"


def _points(locations: ArrayLike) -> list[Point]:
    return [(x, y) for x, y in (np.asarray(locations, np.float64).reshape(-1, 2) + 0.0).tolist()]


def _missing(key: str) -> Fault:
    return Fault("id", f"there is no query {key!r}", "missing")
