"""Plans that add and end subscriptions of a relay, and that deliver notifications; see `indexes.core.plan`.

Subscriptions change in steps (`relay.Steps`), some at a time. What a slice decides for a link is put into the queue of
that link when the slice is published, so that queues are exact at every seq. Plans about links themselves are in
`links.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, ClassVar

import numpy as np

from indexes.core import edit_plan, subscription_plans
from indexes.core.arrays import Floats
from indexes.core.background import BackgroundTask
from indexes.core.cost import Cost
from indexes.core.names import Names
from indexes.core.pending_subscriptions import Undo
from indexes.core.plan import LONG, Plan
from indexes.relays.commands import (
    AddSubscriptions,
    DeleteSubscriptions,
    EditSubscriptions,
    Notify,
    SetSubscription,
    SubscriptionState,
)
from indexes.relays.config import UPSTREAM, shown
from indexes.relays.kernels.forward import SUBSCRIBE, UNSUBSCRIBE, any_ends
from indexes.relays.kernels.points import as_points
from indexes.relays.outbox import Chunk, as_messages
from indexes.relays.outcomes import Outcomes
from indexes.relays.recipients import FEW, NONE, CollectedRecipients, Deliveries
from indexes.relays.relay import ExecutedSteps, Outgoing, Steps
from indexes.relays.results import Delivery, Notified, Slice, Subscribed, Unsubscribed
from indexes.relays.store import RelayStore

PIECE = 1_000
"""Notifications that are matched in one step, at most: all that they meet is in memory at once."""

MOST_MET = 1 << 23
"""Subscriptions that the notifications of one step meet, at most, unless it has but one."""

MOST_NAMED = 1 << 25
"""Subscriptions that a response names, at most: some hundred megabytes."""

MOST_KEPT = 50_000
"""The same of a response that is kept under an Idempotency-Key, and links, and notifications: some megabytes in the
log."""

SECONDS_A_STEP = 2e-5
"""Estimate of the seconds of a step for each neighbour, executed and published."""

SECONDS_AN_EDIT = 7e-6
"""The same of edits in order. Most of them begin a subscription, so that a group of single requests is soon done."""


class Changes:
    """Steps that a plan has executed and not made visible yet, with the messages for links."""

    def __init__(self, engine: RelayStore) -> None:
        self._engine = engine
        self._executed: list[ExecutedSteps] = []
        self._outgoing: list[tuple[str, Outgoing | Chunk]] = []
        self._renamed: Names | None = None
        self._ended: list[int] = []

    def run(self, steps: Steps) -> ExecutedSteps:
        """Execute steps, and make the messages for links."""
        relay = self._engine.relay
        executed = relay.run(steps)
        if self._executed:
            # Subscriptions that began since the last slice are not committed yet.
            executed = executed._replace(named=self._executed[-1].named | executed.named)
        self._executed.append(executed)
        self._ended += executed.gone
        self._outgoing += [
            (name, as_messages(relay.outgoing(executed, name))) for name in executed.decisions if name != UPSTREAM
        ]
        return executed

    def rename(self) -> None:
        """Make the ids as they will be, in the thread of the kernels, where there are too many steps to commit one by
        one; the steps are dropped."""
        self._renamed = self._engine.relay.names_after(self._executed)
        self._executed = []

    def show(self) -> None:
        """Make the executed steps visible."""
        relay = self._engine.relay
        if self._renamed is not None:
            relay.names, self._renamed = self._renamed, None
        for executed in self._executed:
            relay.commit(executed)
        for name, outgoing in self._outgoing:
            self._engine.queue(name, outgoing)
        self._executed, self._outgoing = [], []

    def end(self) -> None:
        """All of a command is visible: free the slots of what has ended, and bound the queues."""
        if self._ended:
            self._engine.relay.release(self._ended)
        self._engine.bound_queues()


class ChangePlan(edit_plan.SlicedPlan[RelayStore]):
    """Changes subscriptions in steps, some at a time."""

    at_once: ClassVar[int] = 1 << 30
    seconds_a_step: ClassVar[float] = SECONDS_A_STEP

    def __init__(self, engine: RelayStore, *rest: Any, **named: Any) -> None:
        super().__init__(engine, *rest, **named)
        self._changes = Changes(engine)
        self._fixed = _fixed(self.seconds_a_step * max(1, len(engine.relay.neighbours)))

    @property
    def _cost(self) -> Cost:
        return self._fixed

    @property
    def _ids(self) -> Names:
        return self.engine.relay.names


class EditPlan(ChangePlan, edit_plan.EditPlan[RelayStore]):
    """Subscriptions that clients add and end: each element takes a seq. `results` are their outcomes."""

    def __init__(self, engine: RelayStore, *rest: Any, **named: Any) -> None:
        super().__init__(engine, *rest, **named)
        self.results = Outcomes()

    @abstractmethod
    def _steps(self, lo: int, hi: int) -> Steps:
        """The steps of elements `lo` to `hi` - 1."""

    @abstractmethod
    def _note(self, lo: int, hi: int) -> list[tuple[int, str]]:
        """Set the lifetimes of elements that are done; returns live subscriptions that ended, with their seqs."""

    def response_fields(self) -> dict[str, Any]:
        return {"results": [{"id": answer.id, **answer.fields()} for answer in self.results]}

    def _change(self, lo: int, hi: int) -> None:
        executed = self._changes.run(self._steps(lo, hi))
        if not self.silent:
            self.results.append(self.engine.relay.answers(executed))

    def _show(self, lo: int, hi: int) -> Slice | None:
        self._changes.show()
        gone = self._note(lo, hi)
        return Slice(self.engine.seq, [], [(seq, shown(key)) for seq, key in gone]) if gone else None

    def _finish(self) -> None:
        self._changes.end()
        super()._finish()


class AddPlan(EditPlan, subscription_plans.AddPlan[RelayStore]):
    """New subscriptions."""

    command: AddSubscriptions

    def _steps(self, lo: int, hi: int) -> Steps:
        command, op = self.command, np.full(hi - lo, SUBSCRIBE, np.uint8)
        links = None if command.link is None else command.link.slice(lo, hi - lo).to_pylist()
        return Steps(op, self._keys(lo, hi), as_points(command.lo[lo:hi], command.hi[lo:hi]), links, all_begin=True)

    def _note(self, lo: int, hi: int) -> list[tuple[int, str]]:
        self._set_limits(lo, hi)
        return []


class BatchPlan(EditPlan):
    """Subscriptions that begin and end in order."""

    command: EditSubscriptions
    seconds_a_step: ClassVar[float] = SECONDS_AN_EDIT

    def __init__(
        self, engine: RelayStore, command: EditSubscriptions, *rest: Any, all_begin: bool | None = None
    ) -> None:
        super().__init__(engine, command, *rest)
        self._all_begin = not any_ends(command.op) if all_begin is None else all_begin

    def response_fields(self) -> dict[str, Any]:
        rows = enumerate(self.results, self.first_seq)
        return {"results": [{"id": answer.id, "seq": seq, **answer.fields()} for seq, answer in rows]}

    def fields_of(self, answer: Mapping[str, Any]) -> dict[str, Any]:
        if "id" in answer:
            # About the beginning of one subscription: it shows the subscription, and has no list of results.
            return self.results[int(answer["seq"]) - self.first_seq].fields()
        return self.results_of(answer)

    def lifetimes(self) -> Iterator[tuple[str, float | None]]:
        command = self.command
        if self._all_begin:
            return iter([(command.ids[i], seconds) for i, seconds in command.ttl.items()] if command.ttl else ())
        last = {key: i for i, key in enumerate(command.ids)}
        return ((key, command.ttl.get(i) if command.op[i] == SUBSCRIBE else None) for key, i in last.items())

    def _steps(self, lo: int, hi: int) -> Steps:
        command = self.command
        if lo == 0 and hi == self.count:
            points = as_points(command.lo, command.hi)
            return Steps(command.op, command.ids, points, command.link, all_begin=self._all_begin)
        op, points = command.op[lo:hi], as_points(command.lo[lo:hi], command.hi[lo:hi])
        links = None if command.link is None else command.link[lo:hi]
        return Steps(op, command.ids[lo:hi], points, links, all_begin=not any_ends(op))

    def _note(self, lo: int, hi: int) -> list[tuple[int, str]]:
        command, gone = self.command, list[tuple[int, str]]()
        if self._all_begin and not command.ttl:
            return gone
        for i, (op, key) in enumerate(zip(command.op[lo:hi].tolist(), command.ids[lo:hi], strict=True), lo):
            if op == UNSUBSCRIBE:
                gone += [(self.first_seq + i, key)] if self.engine.forget(key) else []
            elif i in command.ttl:
                self.engine.ttl[key] = command.ttl[i]
        return gone


class SetPlan(EditPlan, subscription_plans.SetPlan[RelayStore]):
    """One subscription made, or ended and begun again, or only given another time limit; `ended` and `begun` are the
    outcomes."""

    command: SetSubscription

    def __init__(
        self,
        engine: RelayStore,
        command: SetSubscription,
        owner: int,
        undo: Undo[SubscriptionState],
        before: SubscriptionState | None,
    ) -> None:
        super().__init__(engine, command, owner, undo, made=before is None)
        self._moves = before is None or not before.same_box(state_of(command))

    @property
    def ended(self) -> Unsubscribed | None:
        """The outcome of the end of the old subscription."""
        first = self.results[0] if self.results else None
        return first if isinstance(first, Unsubscribed) else None

    @property
    def begun(self) -> Subscribed | None:
        """The outcome of the new subscription."""
        last = self.results[-1] if self.results else None
        return last if isinstance(last, Subscribed) else None

    def response_fields(self) -> dict[str, Any]:
        return {name: value for answer in self.results for name, value in answer.fields().items()}

    def _steps(self, lo: int, hi: int) -> Steps:
        command = self.command
        if not self._moves:
            return Steps.ends([], 2 * len(command.lo))
        return replaced(command.id, state_of(command).point, command.link, new=self.made)

    def _note(self, lo: int, hi: int) -> list[tuple[int, str]]:
        self._set_limit()
        return []


class DeletePlan(EditPlan, subscription_plans.DeletePlan[RelayStore]):
    """Subscriptions ended."""

    command: DeleteSubscriptions

    def _steps(self, lo: int, hi: int) -> Steps:
        return Steps.ends(self.command.ids[lo:hi], 2 * len(self.engine.config.attributes))

    def _note(self, lo: int, hi: int) -> list[tuple[int, str]]:
        return self._forget(lo, hi)


class NotifyPlan(Plan[RelayStore]):
    """Notifications, some at a time; `found` has their recipients when it is done. The ids of recipients are found at
    the end, before the next plan."""

    command: Notify

    def __init__(self, engine: RelayStore, command: Notify) -> None:
        super().__init__(engine, command, len(command))
        self.found = NONE
        self._bytes = sum(map(len, command.payload.values()))
        engine.expect(self.count, self._bytes)
        self._executed = 0
        self._published = 0
        self._links: list[tuple[str, ...]] = []
        self._live: dict[int, list[str]] = {}
        self._collected: CollectedRecipients | None = CollectedRecipients(MOST_NAMED * command.requests)
        self._task: BackgroundTask[Deliveries] | None = None
        self._kept: list[dict[str, Any]] = []
        self.done = len(command) == 0

    @property
    def results(self) -> list[Delivery]:
        """The recipients of each notification."""
        return list(self.found.results())

    @property
    def work(self) -> float:
        if self._executed == self.count:
            return LONG
        return (self.count - self._executed) * self.engine.seconds_per_notification

    def response_fields(self) -> dict[str, Any]:
        """As it is kept for a retry: with the first `MOST_KEPT` subscriptions, and as many links."""
        if len(self._kept) < len(self.found):
            self._kept = [delivery.fields() for delivery in self.found.first(MOST_KEPT).results()]
        return {"results": self._kept}

    def execute(self, budget: float) -> None:
        lo, engine = self._executed, self.engine
        if lo == self.count:
            self._name(budget)
            return
        most = min(PIECE, int(budget / engine.seconds_per_notification), MOST_MET // max(1, len(engine.relay)))
        self._executed = hi = min(self.count, lo + max(1, most))
        values, links = self.command.values[lo:hi], self.command.links
        origin = [links.get(i) for i in range(lo, hi)] if links else None
        if self.silent:
            self._links = [tuple(delivery.links) for delivery in engine.deliveries(values, origin, links_alone=True)]
            return
        met = engine.met(values, origin)
        self._links, self._live = met.links, engine.live_recipients(met)
        assert self._collected is not None, "the ids are found at the end"
        self._collected.add(met)
        if hi == self.count and self._collected.size <= FEW:
            self._name(budget)

    def _name(self, budget: float) -> None:
        """Find the ids of all recipients, in the background where that takes long, waiting for at most `budget`
        seconds."""
        collected, names = self._collected, self.engine.relay.names
        if collected is None:
            return
        if collected.size > FEW:
            self._task = self._task or BackgroundTask(lambda: collected.named(names))
            if not self._task.done(budget):
                return
        self.found = collected.named(names) if self._task is None else self._task.result
        self._collected = self._task = None

    def publish(self) -> Slice | None:
        lo, hi = self._published, self._executed
        notified: list[Notified] = []
        for i, links in enumerate(self._links, lo) if self._live or any(self._links) else ():
            live = self._live.get(i - lo, [])
            if links or live:
                values, payload = tuple(self.command.values[i].tolist()), self.command.payload.get(i)
                notified += self.engine.deliver(self.first_seq + i, values, payload, Delivery(live, list(links)))
        self._links, self._live = [], {}
        if hi > lo:
            self._published = hi
            self.engine.seq = self.first_seq + hi - 1
        if hi == self.count and (self.silent or self._collected is None) and not self.done:
            self.done = True
            self.engine.expect(-self.count, -self._bytes)
        return Slice(self.engine.seq, notified, []) if notified and not self.silent else None

    def cancel(self) -> None:
        self.engine.expect(-self.count, -self._bytes)
        super().cancel()


@cache
def _fixed(seconds: float) -> Cost:
    return Cost(seconds, fixed=True)


def state_of(command: SetSubscription) -> SubscriptionState:
    """The state of a subscription once it is set."""
    return SubscriptionState(as_points(command.lo[None], command.hi[None])[0], command.link, command.ttl)


def replaced(key: str, point: Floats, link: str | None, new: bool) -> Steps:
    """The steps of a subscription that begins, or ends and begins again."""
    op, paired = ([SUBSCRIBE], [False]) if new else ([UNSUBSCRIBE, SUBSCRIBE], [True, False])
    n = len(op)
    return Steps(np.array(op, np.uint8), [key] * n, np.tile(point, (n, 1)), [link] * n, np.array(paired), new)
