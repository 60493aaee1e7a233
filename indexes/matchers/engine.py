"""The engine of a matcher: deterministic commands in, exact winners out. See `indexes.core.subscription_engine`.

The state is in `store.py`; around one `Matcher`, which holds the subscriptions and their indexes, it has the seq,
lifetimes and pending state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from indexes.core.arrays import INF, Floats
from indexes.core.commands import Fault, Refused, missing
from indexes.core.names import Names
from indexes.core.pending_subscriptions import Steps, Undo
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
from indexes.matchers.config import Row, Subscriptions, faults_of, is_sound, table_of
from indexes.matchers.forms import REVERSED, form_of, merged
from indexes.matchers.kernels.table import are_valid
from indexes.matchers.matcher import Matcher, Places
from indexes.matchers.plans.maintenance import CapturePlan, FoldPlan, Origin
from indexes.matchers.plans.match import MatchPlan
from indexes.matchers.plans.subscriptions import AddPlan, DeletePlan, SetPlan
from indexes.matchers.results import Result, SubscriptionSet, SubscriptionView
from indexes.matchers.store import MatcherPlan, MatcherStore

_NONE: list[Fault] = []


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
        latest, places = self._latest_rows([change.id for change in changes])
        found: list[SubscriptionSet | None] = []
        keys: list[str] = []
        rows: list[Row] = []
        ttls: dict[int, float] = {}
        faults: list[Fault] = []
        for at, change in enumerate(changes):
            key, bad = change.id, _NONE
            before = latest.get(key)
            if isinstance(change, SetSubscription):
                row, ttl = change.row, change.ttl or None
            elif before is None:
                bad = [missing(self.noun, key)]
            else:
                row, bad = merged(self.config, before[0], change)
                ttl = before[1] if change.ttl is None else change.ttl or None
            if one_by_one and not bad:
                wrong = faults_of(self.config, table_of(self.config, [row]))
                bad = [Fault(field, reason) for _, field, reason in wrong]
            if bad:
                if not skip:
                    raise Refused(bad)
                faults += [replace(fault, index=at) for fault in bad]
                found.append(None)
                continue
            if before is None or before[0] != row or before[1] != ttl:
                if ttl is not None:
                    ttls[len(keys)] = ttl
                keys.append(key)
                rows.append(row)
                latest[key] = row, ttl
            found.append(SubscriptionSet(key, row, ttl, self.next_seq + len(keys) - 1, before is None))
        table = table_of(self.config, rows)
        surely_sound = not rows or one_by_one or (len(rows) == 1 and is_sound(self.config, rows[0]))
        if not surely_sound and faults_of(self.config, table):
            return self._accept_changes(changes, skip, one_by_one=True)
        command = SetSubscriptions(keys, Subscriptions.of_table(self.config, table), ttls)
        undo: Undo[SubscriptionState] = []
        self.pending.put_each(self._owner, keys, command, undo)
        plan = SetPlan(self, command, self._owner, undo, places, found)
        plan.faults = faults
        return plan

    def _latest_rows(self, keys: list[str]) -> tuple[dict[str, tuple[Row, float | None]], Places]:
        """Those of these subscriptions that there will be when everything accepted has been applied, with their time
        limits; and where the table has those that are there."""
        found = dict[str, tuple[Row, float | None]]()
        settled = keys
        if self.pending:
            settled = []
            for key in keys:
                pending = self.pending.get(key)
                if pending is None:
                    settled.append(key)
                elif pending.state is not None:
                    found[key] = pending.state.subscription.rows[0], pending.state.ttl
        places, limits = self.matcher.places(settled), self.ttl
        for key, record in zip(places.row, self.matcher.records(list(places.row.values())), strict=True):
            found[key] = record, limits.get(key)
        return found, places

    def _column_faults(self, command: AddSubscriptions) -> list[Fault]:
        """The faults of new subscriptions."""
        return [Fault(field, reason, index=i) for i, field, reason in command.subscriptions.faults(self.config)]

    def _refuse_events(self, command: Match) -> None:
        faults = list[Fault]()
        if not are_valid(command.events):
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
        rows = self.matcher.records([row for _, row in found])
        return [self._view(key, row) for (key, _), row in zip(found, rows, strict=True)]

    def _view(self, key: str, row: Row) -> SubscriptionView:
        return SubscriptionView(key, form_of(self.config, row), self.ttl.get(key))

    def check(self) -> None:
        """Raise AssertionError unless all parts agree (with nothing pending). O(d n log n)."""
        self.check_ids()
        self.matcher.check()
