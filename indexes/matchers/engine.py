"""The engine of a matcher: deterministic commands in, exact winners out. See `indexes.core.subscription_engine`.

The state is in `store.py`; around one `Matcher`, which holds the subscriptions and their indexes, it has the seq,
lifetimes and pending state.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np
import pyarrow as pa

from indexes.core.arrays import INF, Floats
from indexes.core.commands import Fault, Refused, missing
from indexes.core.names import Names
from indexes.core.pending_subscriptions import PendingSubscription, Steps, Undo
from indexes.core.subscription_engine import SubscriptionEngine
from indexes.matchers.commands import (
    AddSubscriptions,
    Change,
    ChangeSubscription,
    ChangeSubscriptions,
    Command,
    DeleteSubscriptions,
    Match,
    SetSubscription,
    SetSubscriptions,
    SubscriptionState,
)
from indexes.matchers.config import Row, Subscriptions
from indexes.matchers.forms import REVERSED, form_of, merged
from indexes.matchers.matcher import Matcher
from indexes.matchers.plans.maintenance import CapturePlan, FoldPlan, Origin
from indexes.matchers.plans.match import MatchPlan
from indexes.matchers.plans.subscriptions import AddPlan, DeletePlan, SetPlan
from indexes.matchers.results import Result, SubscriptionSet, SubscriptionView
from indexes.matchers.store import MatcherPlan, MatcherStore


class MatcherEngine(MatcherStore, SubscriptionEngine[SubscriptionState]):
    """Accepts commands and answers reads; see `MatcherStore` for what it holds."""

    @property
    def subscription_count(self) -> int:
        return len(self.matcher)

    @property
    def _names(self) -> Names:
        return self.matcher.names

    # Commands.

    def prepare_steps(self, command: Command, keep: int = 0) -> Steps[MatcherPlan]:
        self._owner += 1
        match command:
            case AddSubscriptions():
                return (yield from self._accept_add(command, lambda: self._column_faults(command), AddPlan))
            case SetSubscription() | ChangeSubscription():
                return self._accept_changes([command], skip=False)
            case SetSubscriptions():
                return self._accept_changes(command.changes, skip=False)
            case ChangeSubscriptions():
                return self._accept_changes(command.changes, skip=True)
            case DeleteSubscriptions():
                return (yield from self._accept_delete(command, DeletePlan))
            case Match():
                self._refuse_events(command)
                return MatchPlan(self, command, notify=True)

    def ask(self, command: Match) -> MatchPlan:
        """A plan that matches events in its turn, is not logged and makes no notifications. Raises Refused."""
        self._refuse_events(command)
        return MatchPlan(self, command, notify=False)

    def capture(self, journal: bool = False, indexes: bool = False) -> CapturePlan:
        """A plan that copies the state, with `indexes` the indexes too; with `journal` the matcher records from then on
        which subscriptions change."""
        return CapturePlan(self, journal, indexes)

    def fold(self, fresh: Matcher, origin: Origin) -> FoldPlan:
        """A plan that brings a matcher made of a capture up to date with the changes recorded since."""
        return FoldPlan(self, fresh, origin)

    def settled(self, key: str) -> SubscriptionState | None:
        row = self.matcher.names.find(key)
        if row < 0:
            return None
        return SubscriptionState(self.matcher.columns(np.array([row], np.int32)), self.ttl.get(key))

    def _accept_changes(self, changes: Sequence[Change], skip: bool, one_by_one: bool = False) -> SetPlan:
        """Accept changes in order, each of which meets the outcome of those before it. With `skip` those that do not
        apply are left out, without it the first of them is refused. What they make is checked at once or, where
        something is wrong with it, `one_by_one`."""
        latest = self._latest_rows({change.id for change in changes})
        found: list[SubscriptionSet | None] = []
        logged: list[SubscriptionSet] = []
        faults: list[Fault] = []
        for at, change in enumerate(changes):
            before, bad = latest.get(change.id), list[Fault]()
            if isinstance(change, SetSubscription):
                row, ttl = change.row, change.ttl or None
            elif before is None:
                bad = [missing(self.noun, change.id)]
            else:
                row, bad = merged(self.config, before[0], change)
                ttl = before[1] if change.ttl is None else change.ttl or None
            if one_by_one and not bad:
                wrong = Subscriptions.of_rows(self.config, [row]).faults(self.config)
                bad = [Fault(field, reason) for _, field, reason in wrong]
            if bad and not skip:
                raise Refused(bad)
            if bad:
                faults += [replace(fault, index=at) for fault in bad]
                found.append(None)
                continue
            differs = before is None or before != (row, ttl)
            seq = self.next_seq + len(logged) - (not differs)
            outcome = SubscriptionSet(change.id, row, ttl, seq, before is None)
            found.append(outcome)
            if differs:
                logged.append(outcome)
                latest[change.id] = row, ttl
        columns = Subscriptions.of_rows(self.config, [one.row for one in logged])
        if logged and not one_by_one and columns.faults(self.config):
            return self._accept_changes(changes, skip, one_by_one=True)
        keys = [one.id for one in logged]
        ttls = {i: one.ttl for i, one in enumerate(logged) if one.ttl is not None}
        command = SetSubscriptions(pa.array(keys, pa.string()), columns, ttls)
        undo: Undo[SubscriptionState] = []
        for i, key in enumerate(keys):
            self.pending.put(self._owner, key, PendingSubscription((command, i), None), undo)
        plan = SetPlan(self, command, self._owner, undo, keys, found)
        plan.faults = faults
        return plan

    def _latest_rows(self, keys: Collection[str]) -> dict[str, tuple[Row, float | None]]:
        """Those of these subscriptions that there will be when everything accepted has been applied, with their time
        limits."""
        found, settled = dict[str, tuple[Row, float | None]](), dict[str, int]()
        for key in keys:
            pending = self.pending.get(key)
            if pending is not None:
                state = pending.state
                if state is not None:
                    found[key] = state.subscription.rows[0], state.ttl
            elif (row := self.matcher.names.find(key)) >= 0:
                settled[key] = row
        records = self.matcher.records(np.array(list(settled.values()), np.int32))
        for key, record in zip(settled, records, strict=True):
            found[key] = record, self.ttl.get(key)
        return found

    def _column_faults(self, command: AddSubscriptions) -> list[Fault]:
        """The faults of new subscriptions."""
        return [Fault(field, reason, index=i) for i, field, reason in command.subscriptions.faults(self.config)]

    def _refuse_events(self, command: Match) -> None:
        a, b = command.events[:, 0::2], command.events[:, 1::2]
        wrong = ~((a <= b) & np.isfinite(a) & np.isfinite(b)) & ~((a == INF) & (b == -INF))
        names = self.config.dimensions
        faults = [Fault(f"values.{names[j]}", REVERSED, index=int(t)) for t, j in np.argwhere(wrong)]
        if command.k < 1:
            faults.append(Fault("k", "must be at least 1"))
        if faults:
            raise Refused(faults)

    # Reads, between two slices.

    def match(self, events: Floats, k: int = 20, explain: bool = False) -> list[Result]:
        """The `k` best subscriptions for each event, at `seq`. It is not cut into slices: for many events there is
        `ask`."""
        return list(self.winners(events, k, explain).results())

    def subscription(self, key: str) -> SubscriptionView | None:
        """The subscription of an id, or None."""
        state = self.settled(key)
        return None if state is None else self._view(key, state.subscription.rows[0])

    def subscriptions(self, after: str | None, limit: int) -> list[SubscriptionView]:
        """Up to `limit` subscriptions in order of id, behind `after`."""
        found = list(islice(self.matcher.names.after(after), limit))
        rows = self.matcher.records(np.array([row for _, row in found], np.int32))
        return [self._view(key, row) for (key, _), row in zip(found, rows, strict=True)]

    def _view(self, key: str, row: Row) -> SubscriptionView:
        return SubscriptionView(key, form_of(self.config, row), self.ttl.get(key))

    def check(self) -> None:
        """Raise AssertionError unless all parts agree (with nothing pending). O(d n log n)."""
        self.check_ids()
        self.matcher.check()
