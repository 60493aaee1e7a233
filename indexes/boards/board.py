"""The engine of a board: deterministic commands in, exact lists and tiles out.

    plan = board.prepare(command)      checked against the state that it will meet; nothing has changed yet
    plan.paint(0.005)                  kernel work, in any one thread
    plan.settle()                      visible now, at board.seq

`apply` does all of it at once. The same commands in the same order give the same state; no clock or random source is
read.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from indexes.boards.catalogue import Catalogue
from indexes.boards.commands import (
    BoardConfig,
    Command,
    Configure,
    Events,
    Filter,
    SetSubscription,
    Subscribe,
    Unsubscribe,
)
from indexes.boards.costs import SubscriptionCost, cost_of
from indexes.boards.explain import ExplainPlan, LineExplainPlan
from indexes.boards.filters import FilterIndex
from indexes.boards.parts import new_painter
from indexes.boards.plans import (
    BatchPlan,
    ConfigurePlan,
    EditPlan,
    EventsPlan,
    Plan,
    SpaceBatchPlan,
    net_entries,
)
from indexes.boards.regions import Region
from indexes.boards.space.explain import SpaceExplainPlan
from indexes.boards.subscribers import Standing, Subscribers
from indexes.boards.subscriptions import SubscriptionIndex
from indexes.boards.upkeep import CapturePlan, FoldPlan
from indexes.boards.views import ListEntry, ObjectView, Slice, SubscriptionView, place_of
from indexes.commands import Fault, Refused
from indexes.plan import applied

NEARLY_FULL = 0.97
"""Share of its room past which a class is laid out in larger arrays before it must be, in the middle of a write."""

Steps = Generator[Callable[[], Any] | None, Any, Plan]


class Board:
    """A ranked set of objects with range attributes, and the subscriptions to its best k.

    `first_seq` is the seq of the board's own creation. Reads answer for the settled `seq`.
    """

    def __init__(self, config: BoardConfig, first_seq: int = 0) -> None:
        self.config = config
        self.latest_config = config
        self.seq = first_seq
        self.next_seq = first_seq + 1
        self.filters = FilterIndex(config.indexed, len(config.range_attributes))
        self.catalogue = Catalogue(config, self.filters)
        self.subscribers = Subscribers(self.filters)
        self.painter = new_painter(config)
        self.live_of: dict[int, int] = {}
        self._watched: dict[int, Standing] = {}
        self._owner = 0

    @property
    def object_count(self) -> int:
        return len(self.catalogue.rows)

    @property
    def subscription_count(self) -> int:
        return len(self.subscribers)

    def prepare(self, command: Command, keep_tiles: int = 0) -> Plan:
        """Check a command and reserve its seqs. Keeps the first `keep_tiles` tiles of events.

        Raises:
            Refused: it does not apply; nothing has changed.
        """
        steps = self.prepare_steps(command, keep_tiles)
        sent: Any = None
        while True:
            try:
                work = steps.send(sent)
            except StopIteration as stop:
                plan: Plan = stop.value
                return plan
            sent = work() if work is not None else None

    def prepare_steps(self, command: Command, keep_tiles: int = 0) -> Steps:
        """As `prepare`, cut into pieces: yields None where others may go first, or a function to run in any thread.

        No other command of this board may be prepared in between.
        """
        self._owner += 1
        owner = self._owner
        if isinstance(command, Events):
            accepted = yield from self.catalogue.accept(owner, command)
            if not command.batch:
                return EventsPlan(self, accepted, keep_tiles)
            kind = BatchPlan if self.config.dimensions == 1 else SpaceBatchPlan
            return kind(self, accepted, keep_tiles)
        if isinstance(command, Subscribe):
            edit, whole = yield from self.subscribers.accept_many(owner, command, self.latest_config.ks)
            return EditPlan(self, whole, edit)
        if isinstance(command, SetSubscription):
            edit, filled = self.subscribers.accept_set(owner, command, self.latest_config.ks)
            return EditPlan(self, filled, edit)
        if isinstance(command, Unsubscribe):
            edit, found = yield from self.subscribers.accept_delete(owner, command)
            return EditPlan(self, found, edit)
        return ConfigurePlan(self, command, self._configured(command))

    def capture(self, journal: bool = False, indexes: bool = False) -> CapturePlan:
        """A plan that copies the board's state, with copies of its `indexes` if asked for; `journal` begins to note
        which subscriptions change. It has to be made when everything accepted so far is on its way before it."""
        return CapturePlan(self, journal, indexes)

    def fold(self, fresh: SubscriptionIndex) -> FoldPlan:
        """A plan that brings a newly packed index up to date with the changes noted since the capture."""
        return FoldPlan(self, fresh)

    def explain(
        self, command: Events, keep_tiles: int = 0, *, dense: bool | None = None, runs: int | None = None
    ) -> ExplainPlan:
        """A plan that says what one event would do, in its turn, and does not do it. Keeps `keep_tiles` tiles.

        `dense` and `runs` say how it would be painted; None is as the board paints. With several range attributes or
        indexed fields there is one way only, and they are passed over.

        Raises:
            Refused: it would not apply.
        """
        accepted = self.catalogue.foresee(self._owner, command)
        if self.config.dimensions > 1:
            return SpaceExplainPlan(self, accepted, keep_tiles)
        return LineExplainPlan(self, accepted, keep_tiles, dense, runs)

    @property
    def worn(self) -> float:
        """How much there is to gain by laying out the subscriptions anew: changes in place for each subscription, or 1
        when a class is about to outgrow its arrays. 0 with several range attributes, where nothing is packed."""
        if self.config.dimensions > 1:
            return 0.0
        index = self.painter.subscriptions
        return max(index.edits / max(1, len(index)), float(index.fullest > NEARLY_FULL))

    def _configured(self, command: Configure) -> BoardConfig:
        config = self.latest_config
        if command.ks is not None:
            uses = self.subscribers.uses
            held = [k for k in config.ks if k not in command.ks and uses[k] > 0]
            if held:
                raise Refused([Fault("ks", f"k = {held[0]} is in use by {uses[held[0]]} subscriptions", "in_use")])
            config = replace(config, ks=tuple(sorted(command.ks)))
        if command.algorithm is not None:
            config = replace(config, algorithm=command.algorithm)
        if command.runs is not None:
            config = replace(config, runs=command.runs)
        if command.sketch is not None:
            config = replace(config, sketch=command.sketch or None)
        return config

    def apply(self, command: Command, keep_tiles: int = 0) -> tuple[Plan, list[Slice]]:
        """Prepare, paint and settle a command; returns its plan and what live subscriptions must hear of."""
        return applied(self.prepare(command, keep_tiles))

    def replay(self, command: Command) -> Plan:
        """Apply a command from the log: nothing is painted and no one is told."""
        plan = self.prepare(command)
        plan.silent = True
        while not plan.done:
            plan.paint(1.0)
            plan.settle()
        return plan

    def object(self, key: str) -> ObjectView | None:
        """The object of an id, or None."""
        return self.catalogue.get(key)

    def objects(self, after: str | None, limit: int) -> list[ObjectView]:
        """Up to `limit` objects in order of id, behind `after`. O(n)."""
        return self.catalogue.after(after, limit)

    def top(self, region: Region, k: int, offset: int = 0, where: Filter = ()) -> list[ObjectView]:
        """The k best objects of a region, of those that pass a filter, behind the first `offset`, best first.

        O((offset + k) log n) on a board with one range attribute.
        """
        try:
            return self._top(self.filters.region(region, where), k, offset)
        except LookupError:
            # Another value in use has the code, so that none has this one.
            return []

    def _top(self, region: Region, k: int, offset: int) -> list[ObjectView]:
        rows = self.catalogue.top_rows(region, offset + k)
        return [self.catalogue.object_at(row) for row in rows[offset:].tolist()]

    def subscription(self, key: str) -> SubscriptionView | None:
        """The subscription of an id, or None."""
        return self.subscribers.get(key)

    def explain_subscription(self, key: str) -> SubscriptionCost | None:
        """What the subscription of an id costs, or None. O(k log n)."""
        return cost_of(self, key)

    def subscriptions(self, after: str | None, limit: int) -> list[SubscriptionView]:
        """Up to `limit` subscriptions in order of id, behind `after`."""
        found = islice(self.subscribers.ids.after(after), limit)
        return [self.subscribers.view(key, sid) for key, sid in found]

    def watch(self, key: str) -> int:
        """Keep the list of a subscription from now on; returns its live slot.

        Raises:
            KeyError: there is no such subscription.
        """
        sid = self.subscribers.ids.find(key)
        if sid < 0:
            raise KeyError(key)
        standing = self.subscribers.standing(sid)
        rows = self.catalogue.top_rows(standing.region, standing.k)
        live = self.painter.listen(standing.region, standing.k, rows, standing.offset)
        self.live_of[sid] = live
        self._watched[live] = standing
        return live

    def unwatch(self, live: int) -> None:
        """Keep a live list no longer."""
        standing = self._watched.pop(live)
        del self.live_of[standing.sid]
        self.painter.forget(live, standing.region, standing.k)

    def want_tiles(self, live: int, on: bool) -> None:
        """Whether a live subscription hears of its tiles too."""
        self.painter.live.want_tiles(live, on)

    def list_of(self, live: int, offset: int = 0) -> list[ObjectView]:
        """A live list as it stands, best first, behind the first `offset`."""
        return [self.catalogue.object_at(row) for row in self.painter.live.rows(live)[offset:].tolist()]

    def offset_of(self, live: int) -> int:
        """How many ranks at the head of a live list its subscription does not want."""
        return self._watched[live].offset

    def renew(self, lives: list[int]) -> None:
        """Make live lists anew from the objects that painting reads, when nothing of the board is half painted."""
        painter = self.painter
        for live in lives:
            standing = self._watched[live]
            slots = painter.objects.best(standing.region, standing.k)
            painter.live.set_rows(live, painter.objects.arrays.row[slots].astype(np.int32))

    def watched_list(self, live: int) -> list[ObjectView]:
        """A live list as reads see it, which may be behind the lists themselves while a batch is painted."""
        standing = self._watched[live]
        return self._top(standing.region, standing.k - standing.offset, standing.offset)

    def move_live(self, live: int, after: Standing) -> tuple[ListEntry, ...]:
        """Carry a live list over to another range, k or offset; returns the net change of what is shown of it."""
        was = self._watched[live]
        before = self.list_of(live, was.offset)
        rows = self.catalogue.top_rows(after.region, after.k)
        self.painter.listen_to(live, (was.region, was.k), (after.region, after.k), rows, after.offset)
        self._watched[live] = after
        return net_entries(before, self.list_of(live, after.offset), was.offset, after.offset)

    def check(self) -> None:
        """Raise AssertionError unless all parts agree (with nothing pending). O(n log n + m)."""
        self.painter.objects.check()
        self.catalogue.view.check()
        self.painter.subscriptions.check()
        self.subscribers.check()
        sids = np.flatnonzero(self.subscribers.k)
        self.filters.check(self.catalogue.view.contents()[0], self.subscribers.regions.take(sids))
        assert len(self.catalogue.rows) == len(self.catalogue.view) == len(self.painter.objects), "object counts differ"
        for key, row in self.catalogue.rows.items():
            mine, theirs = self.painter.objects.arrays, self.catalogue.view.arrays
            a, b = mine.pos[row], theirs.pos[row]
            same = (place_of(mine.x, a), mine.y[a], mine.c[a]) == (place_of(theirs.x, b), theirs.y[b], theirs.c[b])
            assert same and self.catalogue.ids[row] == key, f"{key} differs between the painting and the reading side"
        for live, standing in self._watched.items():
            rows = self.catalogue.top_rows(standing.region, standing.k)
            assert np.array_equal(self.painter.live.rows(live), rows), f"live list {live} differs from a scan"
