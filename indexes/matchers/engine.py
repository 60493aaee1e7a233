"""The engine of a matcher behind the writer: deterministic commands in, exact winners out.

    plan = engine.prepare(command)     checked against the state that it will meet; nothing has changed yet
    plan.paint(0.005)                  kernel work, in any one thread
    plan.settle()                      visible now, at engine.seq

`apply` does all of it at once. Over one `Matcher`, which holds the subscriptions and their indexes, it keeps the seq,
lifetimes, and what is promised but not done. What it answers is read between two slices. The same commands in the same
order give the same answers; no clock or random source is read, save to cut work into slices.
"""

from __future__ import annotations

import time
from itertools import islice

import numpy as np
import numpy.typing as npt

from indexes.commands import Fault, Refused
from indexes.matchers.commands import (
    AddSubscriptions,
    ChangeSubscription,
    Command,
    DeleteSubscriptions,
    Match,
    SetSubscription,
)
from indexes.matchers.forms import REVERSED, form_of, merged
from indexes.matchers.matcher import Matcher
from indexes.matchers.model import MatcherConfig, Subscriptions
from indexes.matchers.pending import Standing
from indexes.matchers.plans import AddPlan, DeletePlan, MatchPlan, Plan, SetPlan
from indexes.matchers.table import INF
from indexes.matchers.upkeep import CapturePlan, FoldPlan, Origin
from indexes.matchers.views import Matched, Result, Slice, SubscriptionView, Winners
from indexes.plan import SamePlan, applied
from indexes.promised import GONE, Promised, Promises, Steps, Undo, accept_delete, accept_many, run_steps

Float64 = npt.NDArray[np.float64]

BULK = 4_096
"""From this many on, new subscriptions are checked by their sorted ids, off the loop."""


class MatcherEngine:
    """A set of subscriptions that are boxes with scores, and events that are matched against them.

    `first_seq` is the seq of the matcher's own creation. `watched` are the ids of live subscriptions, `ttl` the time
    limits of those that have one.
    """

    def __init__(self, config: MatcherConfig, first_seq: int = 0, matcher: Matcher | None = None) -> None:
        self.config = config
        self.seq = first_seq
        self.next_seq = first_seq + 1
        self.matcher = matcher if matcher is not None else Matcher(config)
        self.ttl: dict[str, float] = {}
        self.watched: set[str] = set()
        self.pending: Promises[Standing] = Promises()
        self._seconds = {False: 2e-5, True: 2e-4}
        self._owner = 0

    @property
    def subscription_count(self) -> int:
        return len(self.matcher)

    # Commands.

    def prepare(self, command: Command, keep: int = 0) -> Plan:
        """Check a command and reserve its seqs. All winners of a `Match` are kept, whatever `keep` says.

        Raises:
            Refused: it does not apply; nothing has changed.
        """
        return run_steps(self.prepare_steps(command, keep))

    def prepare_steps(self, command: Command, keep: int = 0) -> Steps[Plan]:
        """As `prepare`, cut into pieces: yields None where others may go first, or a function to run in any thread.

        No other command of this matcher may be prepared in between.
        """
        self._owner += 1
        match command:
            case AddSubscriptions():
                return (yield from self._accept_many(command))
            case SetSubscription():
                return self._accept_set(command, self.latest(command.id))
            case ChangeSubscription():
                return self._accept_change(command)
            case DeleteSubscriptions():
                return (yield from self._accept_delete(command))
            case Match():
                self._refuse_events(command)
                return MatchPlan(self, command, notify=True)

    def ask(self, command: Match) -> MatchPlan:
        """A plan that matches events in its turn, is not logged and tells nobody. Raises Refused."""
        self._refuse_events(command)
        return MatchPlan(self, command, notify=False)

    def capture(self, journal: bool = False, indexes: bool = False) -> CapturePlan:
        """A plan that copies the state, with a copy of the indexes if asked for; `journal` begins to note which
        subscriptions change."""
        return CapturePlan(self, journal, indexes)

    def fold(self, fresh: Matcher, origin: Origin) -> FoldPlan:
        """A plan that brings a matcher made of what was captured up to date with the changes noted since."""
        return FoldPlan(self, fresh, origin)

    def keep(self) -> Plan:
        """A plan that changes nothing: the answer to a PUT of the configuration that stands."""
        return SamePlan(self)

    def latest(self, key: str) -> Standing | None:
        """A subscription as it will be when everything accepted has been applied."""
        promised = self.pending.get(key)
        return promised.stands if promised is not None else self._settled(key)

    def _settled(self, key: str) -> Standing | None:
        row = self.matcher.names.find(key)
        if row < 0:
            return None
        return Standing(self.matcher.columns(np.array([row], np.int32)), self.ttl.get(key))

    def _accept_set(self, command: SetSubscription, before: Standing | None) -> Plan:
        self._refuse(command.subscription.faults(self.config))
        after = Standing(command.subscription, command.ttl or None)
        whole = SetSubscription(command.id, *after)
        if before is not None and before.same(after):
            return SamePlan(self, whole)
        undo: Undo[Standing] = []
        self.pending.put(self._owner, command.id, Promised(None, after), undo)
        return SetPlan(self, whole, self._owner, undo, made=before is None)

    def _accept_change(self, command: ChangeSubscription) -> Plan:
        before = self.latest(command.id)
        if before is None:
            raise Refused([_missing(command.id)])
        after, faults = merged(self.config, before.subscription, command)
        if faults:
            raise Refused(faults)
        ttl = before.ttl if command.ttl is None else command.ttl
        return self._accept_set(SetSubscription(command.id, after, ttl), before)

    def _accept_delete(self, command: DeleteSubscriptions) -> Steps[Plan]:
        found, undo = yield from accept_delete(self._owner, command, self.pending, self._will_stand, _missing)
        return DeletePlan(self, DeleteSubscriptions(found), self._owner, undo)

    def _will_stand(self, key: str) -> bool:
        promised = self.pending.get(key)
        return promised is not GONE if promised is not None else self.matcher.names.find(key) >= 0

    def _accept_many(self, command: AddSubscriptions) -> Steps[Plan]:
        """Nothing changes before it returns."""

        def check() -> list[Fault]:
            return [Fault(field, reason, index=i) for i, field, reason in command.subscriptions.faults(self.config)]

        accepted = yield from accept_many(
            command, check, lambda: self.matcher.names, self.pending, self._will_stand, BULK
        )
        undo: Undo[Standing] = []
        self.pending.put_all(self._owner, accepted.command, accepted.packed, undo)
        plan = AddPlan(self, accepted.command, self._owner, undo, accepted.packed)
        plan.faults, plan.positions = accepted.faults, accepted.positions
        return plan

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

    def apply(self, command: Command) -> tuple[Plan, list[Slice]]:
        """Prepare, paint and settle a command; returns its plan and what live subscriptions must hear of."""
        return applied(self.prepare(command))

    # Reads, between two slices.

    def match(self, events: Float64, k: int = 20, explain: bool = False) -> list[Result]:
        """The `k` best subscriptions for each event, at `seq`. It is not cut: for many events there is `ask`."""
        return list(self.winners(events, k, explain).results())

    def winners(self, events: Float64, k: int = 20, explain: bool = False) -> Winners:
        """As `match`, by column: several times faster. What an event takes is learned from it."""
        matcher, began = self.matcher, time.perf_counter()
        found = matcher.match(events, k)
        there = np.arange(found.rows.shape[1]) < found.found[:, None]
        rows, scores = found.rows[there], found.scores[there]
        matched = None
        if explain:
            matched = Matched(self.config.dimensions, *matcher.matched(rows, np.repeat(events, found.found, axis=0)))
        won = Winners(found.found.copy(), matcher.names.many(rows), scores, found.looked_at.copy(), matched)
        if len(events):
            spent = (time.perf_counter() - began) / len(events)
            self._seconds[explain] += 0.2 * (spent - self._seconds[explain])
        return won

    def seconds_per_event(self, explain: bool = False) -> float:
        """What an event takes, as the latest ones have shown."""
        return self._seconds[explain]

    def subscription(self, key: str) -> SubscriptionView | None:
        """The subscription of an id, or None."""
        standing = self._settled(key)
        return None if standing is None else self._view(key, standing.subscription, 0)

    def subscriptions(self, after: str | None, limit: int) -> list[SubscriptionView]:
        """Up to `limit` subscriptions in order of id, behind `after`."""
        found = list(islice(self.matcher.names.after(after), limit))
        columns = self.matcher.columns(np.array([row for _, row in found], np.int32))
        return [self._view(key, columns, i) for i, (key, _) in enumerate(found)]

    def _view(self, key: str, columns: Subscriptions, i: int) -> SubscriptionView:
        return SubscriptionView(key, form_of(self.config, columns, i), self.ttl.get(key))

    def watch(self, key: str) -> None:
        """Tell what a subscription wins from now on, until it is deleted or watched no longer. Raises KeyError."""
        if self.matcher.names.find(key) < 0:
            raise KeyError(key)
        self.watched.add(key)

    def unwatch(self, key: str) -> None:
        """Tell no more of a subscription."""
        self.watched.discard(key)

    def check(self) -> None:
        """Raise AssertionError unless all parts agree (with nothing pending). O(d n log n)."""
        assert not self.pending, "something is promised still"
        self.matcher.check()
        assert all(self.matcher.names.find(key) >= 0 for key in (*self.ttl, *self.watched)), "a lifetime of nobody"


def _missing(key: str) -> Fault:
    return Fault("id", f"there is no subscription {key!r}", "missing")
