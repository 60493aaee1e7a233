"""The state of a map, with its reads and what plans do to it: the engine adds the commands.

What is read here is read between two slices.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from indexes.core.arrays import Floats, Ints32
from indexes.core.cost import Cost
from indexes.core.plan import Plan
from indexes.core.subscription_engine import SubscriptionStore
from indexes.maps.answers import answers_of
from indexes.maps.config import MapConfig, Point, QueryState, Question
from indexes.maps.live.queries import Changes
from indexes.maps.object_index import PlaceIndex
from indexes.maps.objects import Objects
from indexes.maps.pending_objects import PendingObjects
from indexes.maps.queries import Queries
from indexes.maps.questions import cost_class, estimate_untimed, first_estimate
from indexes.maps.results import Answer, ObjectView, QueryView, Slice
from indexes.maps.searches import Found, Searches

SPARE_QUESTIONS = 4_096
"""Questions that are kept in memory beyond those of standing queries."""


PASS = 0.0003
"""Seconds that a pass of changes may take besides the changes."""

LONG_SEARCH = 0.001
"""Seconds from which on a search for a standing query is not left to an estimate that is learnt afterwards."""


class MapStore(SubscriptionStore[QueryState]):
    """Objects with places and attributes, and standing queries among them."""

    def __init__(self, config: MapConfig, first_seq: int = 0, objects: Objects | None = None) -> None:
        super().__init__(first_seq)
        self.config = config
        self.table = objects if objects is not None else Objects(config)
        self.standing = Queries(config, self.table.index)
        self.pending_objects = PendingObjects()
        self.change_cost, self.move_cost, self.drop_cost = Cost(1e-5, apart=PASS), Cost(5e-5), Cost(2e-5)
        self._query_cost = {False: Cost(2e-4), True: Cost(5e-6)}
        self._answer_cost: dict[object, Cost] = {}
        self._searches = self._new_searches()
        self._questions: dict[Question, Question] = {}

    @property
    def object_count(self) -> int:
        return len(self.table)

    @property
    def query_count(self) -> int:
        return len(self.standing)

    # What plans do

    def change_objects(self, changes: Changes) -> list[int]:
        """Change objects, and update the standing queries; returns the rows of those whose answer or zone changed.
        What nobody follows is searched for again only when somebody wants it."""
        self.table.note(changes.slots)
        live = self.standing.live
        if live is not None:
            return [one.query for one in live.apply(changes, self._is_followed).changed] if len(changes.slots) else []
        changes.make(self.table.index)
        return []

    def set_objects(self, slots: Ints32, points: Floats, values: Floats) -> tuple[list[int], Floats, Floats]:
        """As `change_objects`, for objects that are there, each once: NaN leaves a number as it is. Returns as well
        what the index has of all of them afterwards."""
        table, live = self.table, self.standing.live
        # Copies, in the order that kernels take.
        points, statics = points.copy(), values.copy()
        if live is None:
            table.note(slots[table.index.change(slots, table.signs, points, statics)])
            return [], points, statics
        some, result = live.change(slots, table.signs, points, statics, self._is_followed)
        table.note(some)
        return [one.query for one in result.changed], points, statics

    def _is_followed(self, row: int) -> bool:
        return bool(self.watched) and self.standing.names.name(row) in self.watched

    def hold(self, keys: Iterable[str]) -> None:
        """Search for the answers of standing queries whose search was postponed."""
        live = self.standing.live
        if live is not None and live.held.postponed:
            live.hold(map(self.standing.names.find, keys))

    def take_index(self, index: PlaceIndex) -> None:
        """Replace the index by one of the same objects, and end the journal of changes."""
        self.table.index, self.table.changed = index, None
        if self.standing.live is not None:
            self.standing.live.index = index

    def replace_objects(self, index: PlaceIndex) -> list[int]:
        """Replace the index by one of other objects, and search for all queries again; returns their rows."""
        self.table.index, self.table.changed = index, None
        self.table.note_all()
        if self.standing.live is None:
            return []
        self.standing.live = self.standing.live_over(index)
        return list(self.standing.question)

    def move(self, row: int, at: Point, silent: bool) -> Answer | None:
        """Move the client of a query; returns its new answer where it has left its zone, else None."""
        queries = self.standing
        question, live = queries.question[row], queries.live
        if live is None and not silent:
            live = queries.empty_live(self.table.index)
            queries.enter(live, [row])
        queries.at[row] = at
        if live is None or live.move(row, at):
            return None
        return self.answers_from(question, [live[row]], [at])[0]

    def suspend(self) -> None:
        """Hold no answers of standing queries while the log is replayed. `wake` ends it."""
        self.standing.live = None

    def wake(self) -> bool:
        """Search for all standing queries if they are suspended; whether there were any."""
        if self.standing.live is not None:
            return False
        self.standing.live = self.standing.live_over(self.table.index)
        return len(self.standing) > 0

    def query_cost(self, silent: bool) -> Cost:
        """What a new standing query costs."""
        return self._query_cost[silent]

    def expect(self, questions: Iterable[Question]) -> None:
        """Let the estimates begin high enough for standing queries that take long to search for."""
        seconds = max((first_estimate(question, self.object_count) for question in questions), default=0.0)
        if seconds > LONG_SEARCH:
            for cost in (self._query_cost[False], self.move_cost, self.change_cost):
                if seconds > cost.seconds:
                    cost.learn(seconds, 1)

    def interned(self, question: Question) -> Question:
        """An equal question that is in memory already, or this one."""
        if len(self._questions) > 2 * len(self.standing) + SPARE_QUESTIONS:
            self._questions.clear()
        return self._questions.setdefault(question, question)

    def notifications(self, rows: list[tuple[int, int]]) -> Slice | None:
        """The notifications of the live queries among these (seq, row); None for none."""
        if not self.watched or not rows:
            return None
        name = self.standing.names.name
        latest = {key: seq for seq, key in ((seq, name(row)) for seq, row in rows) if key in self.watched}
        return Slice(self.seq, [(seq, key) for key, seq in latest.items()], []) if latest else None

    # Reads

    def answer(self, question: Question, locations: ArrayLike) -> list[Answer]:
        """The answers to a valid question at places (n, 2), all at once; for many places there is `MapEngine.ask`."""
        places = points_of(locations)
        return self.answers_from(question, self.search(question, places), places)

    @cached_property
    def background_searches(self) -> Searches:
        """Searches for the background task of a plan: plans of an engine run one after another."""
        return self._new_searches()

    def _new_searches(self) -> Searches:
        """Searches of this map for one more thread."""
        return Searches(len(self.config.attributes), self.config.bounds, self.config.metric)

    def search(self, question: Question, locations: list[Point], searches: Searches | None = None) -> Found:
        """The answers to a question at places, with their zones. In a background thread it takes `searches` of its own,
        while nothing changes."""
        # The time of this thread: waiting for others would make a search seem long, and long ones leave the loop.
        began = time.thread_time()
        searches = searches if searches is not None else self._searches
        found = searches.answers(self.table.index, self.standing.scorings.query_of(question), locations)
        if locations:
            self._cost_of(question).learn(time.thread_time() - began, len(locations))
        return found

    def answers_from(self, question: Question, found: Found, places: Sequence[Point]) -> list[Answer]:
        """The answers to a question at places, each within one of the zones that were found."""
        return answers_of(self.table, question, found, places, self.config.metric)

    def seconds(self, question: Question) -> float:
        """Estimate of the seconds that an answer at one place takes."""
        return self._cost_of(question).seconds

    def _cost_of(self, question: Question) -> Cost:
        """The learnt cost of questions like this one, which begins with an estimate that is too high."""
        kind = cost_class(question)
        known = self._answer_cost.get(kind)
        if known is None:
            known = self._answer_cost[kind] = Cost(estimate_untimed(question, self.object_count))
        return known

    def object(self, key: str) -> ObjectView | None:
        """The object of an id, or None."""
        return self.table.get(key)

    def objects(self, after: str | None, limit: int) -> list[ObjectView]:
        """Up to `limit` objects in order of id, behind `after`."""
        return self.table.after(after, limit)

    def query(self, key: str, answer: bool = False) -> QueryView | None:
        """The standing query of an id, or None; with `answer` its answer where its client is."""
        row = self.standing.names.find(key)
        if row < 0:
            return None
        view = self._view(key, row)
        if not answer:
            return view
        zone = self.standing.zone(row, self.table.index)
        return view._replace(answer=self.answers_from(view.question, [zone], [view.location])[0])

    def queries(self, after: str | None, limit: int) -> list[QueryView]:
        """Up to `limit` standing queries in order of id, behind `after`, without answers."""
        return [self._view(key, row) for key, row in self.standing.after(after, limit)]

    def _view(self, key: str, row: int) -> QueryView:
        return QueryView(key, self.standing.question[row], self.standing.at[row], self.ttl.get(key), None)

    def check(self) -> None:
        """Raise AssertionError unless all parts agree (with nothing pending). O(d n log n)."""
        assert not self.pending_objects, "something is pending"
        self.table.check()
        self.standing.check()
        assert self.standing.live is None or self.standing.live.index is self.table.index, (
            "the live queries search another index"
        )


MapPlan: TypeAlias = Plan[MapStore]


def points_of(locations: ArrayLike) -> list[Point]:
    """Places (n, 2) as pairs, without signs of zero."""
    return [(x, y) for x, y in (np.asarray(locations, np.float64).reshape(-1, 2) + 0.0).tolist()]
