"""The engine of a matcher: deterministic commands in, exact winners out. See `indexes.core.subscription_engine`.

The state is in `store.py`; around one `Matcher`, which holds the subscriptions and their indexes, it has the seq,
lifetimes and pending state.
"""

from __future__ import annotations

from itertools import islice

import numpy as np

from indexes.core.arrays import INF, Floats
from indexes.core.commands import Fault, Refused
from indexes.core.names import Names
from indexes.core.pending_subscriptions import Steps
from indexes.core.plan import SamePlan
from indexes.core.subscription_engine import SubscriptionEngine
from indexes.matchers.commands import (
    AddSubscriptions,
    ChangeSubscription,
    Command,
    DeleteSubscriptions,
    Match,
    SetSubscription,
    SubscriptionState,
)
from indexes.matchers.config import Subscriptions
from indexes.matchers.forms import REVERSED, form_of, merged
from indexes.matchers.matcher import Matcher
from indexes.matchers.plans.maintenance import CapturePlan, FoldPlan, Origin
from indexes.matchers.plans.match import MatchPlan
from indexes.matchers.plans.subscriptions import AddPlan, DeletePlan, SetPlan
from indexes.matchers.results import Result, SubscriptionView
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
            case SetSubscription():
                return self._accept_set(command, self.latest(command.id))
            case ChangeSubscription():
                return self._accept_change(command)
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

    def _accept_set(self, command: SetSubscription, before: SubscriptionState | None) -> MatcherPlan:
        self._refuse(command.subscription.faults(self.config))
        after = SubscriptionState(command.subscription, command.ttl or None)
        whole = SetSubscription(command.id, *after)
        if before is not None and before.same(after):
            return SamePlan(self, whole)
        return SetPlan(self, whole, self._owner, self._will_be(command.id, after), made=before is None)

    def _accept_change(self, command: ChangeSubscription) -> MatcherPlan:
        before = self._must_exist(command.id)
        after, faults = merged(self.config, before.subscription, command)
        if faults:
            raise Refused(faults)
        ttl = before.ttl if command.ttl is None else command.ttl
        return self._accept_set(SetSubscription(command.id, after, ttl), before)

    def _column_faults(self, command: AddSubscriptions) -> list[Fault]:
        """The faults of new subscriptions."""
        return [Fault(field, reason, index=i) for i, field, reason in command.subscriptions.faults(self.config)]

    def _refuse(self, faults: list[tuple[int, str, str]]) -> None:
        if faults:
            raise Refused([Fault(field, reason) for _, field, reason in faults])

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
        return None if state is None else self._view(key, state.subscription, 0)

    def subscriptions(self, after: str | None, limit: int) -> list[SubscriptionView]:
        """Up to `limit` subscriptions in order of id, behind `after`."""
        found = list(islice(self.matcher.names.after(after), limit))
        columns = self.matcher.columns(np.array([row for _, row in found], np.int32))
        return [self._view(key, columns, i) for i, (key, _) in enumerate(found)]

    def _view(self, key: str, columns: Subscriptions, i: int) -> SubscriptionView:
        return SubscriptionView(key, form_of(self.config, columns, i), self.ttl.get(key))

    def check(self) -> None:
        """Raise AssertionError unless all parts agree (with nothing pending). O(d n log n)."""
        self.check_ids()
        self.matcher.check()
