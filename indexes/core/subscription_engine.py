"""The base of the engines of matchers, relays, maps and feeds: preparing commands, and accepting changes of
subscriptions.

    plan = engine.prepare(command)      check the command against the state that it will meet; nothing changes yet
    plan.execute(0.005)                 compute for about 5 ms, in any one thread
    plan.publish()                      make the result visible, at engine.seq

`apply` does all of it at once. The same commands in the same order give the same responses; no clock or random source
is read, except to cut work into slices. Reads take place between two slices.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from indexes.core.commands import Fault, Refused, missing
from indexes.core.elements import Deletion
from indexes.core.names import Names
from indexes.core.pending_subscriptions import (
    GONE,
    Addition,
    PendingSubscription,
    PendingSubscriptions,
    Steps,
    Undo,
    accept_delete,
    accept_many,
    run_steps,
)
from indexes.core.plan import Plan, SamePlan, applied
from indexes.core.subscription_plans import AddPlan

BULK = 4_096
"""From this many on, new subscriptions are checked by their sorted ids, off the event loop."""

A = TypeVar("A", bound=AddPlan[Any])
P = TypeVar("P", bound=Plan[Any])
S = TypeVar("S")


class SubscriptionStore(Generic[S]):
    """The seqs of an engine, and what it knows of its subscriptions by id.

    `first_seq` is the seq of the resource's own creation. `watched` are the ids of live subscriptions, `ttl` the time
    limits, in seconds, of those that have one.
    """

    def __init__(self, first_seq: int) -> None:
        self.seq = first_seq
        self.next_seq = first_seq + 1
        self.ttl: dict[str, float] = {}
        self.watched: set[str] = set()
        self.pending: PendingSubscriptions[S] = PendingSubscriptions()
        self._owner = 0

    def limit(self, key: str, ttl: float | None) -> None:
        """Set the time limit of a subscription, None for none."""
        if ttl is None:
            self.ttl.pop(key, None)
        else:
            self.ttl[key] = ttl

    def forget(self, key: str) -> bool:
        """Drop the time limit of an ended subscription, and make it no longer live; returns whether it was."""
        self.ttl.pop(key, None)
        was_live = key in self.watched
        self.watched.discard(key)
        return was_live


class SubscriptionEngine(SubscriptionStore[S], ABC):
    """An engine that prepares commands, and accepts those about subscriptions."""

    noun: ClassVar[str] = "subscription"

    @property
    @abstractmethod
    def _names(self) -> Names:
        """The ids of the subscriptions."""

    @abstractmethod
    def settled(self, key: str) -> S | None:
        """The applied state of a subscription, None where there is none."""

    @abstractmethod
    def prepare_steps(self, command: Any, keep: int = 0) -> Steps[Any]:
        """As `prepare`, cut into pieces: yields None where others may go first, or a function to run in any thread.

        No other command of this resource may be prepared in between.
        """

    def prepare(self, command: Any, keep: int = 0) -> Any:
        """A plan for a command, with its seqs reserved. All of its outcome is kept, whatever `keep` says.

        Raises:
            Refused: it does not apply; nothing has changed.
        """
        return run_steps(self.prepare_steps(command, keep))

    def apply(self, command: Any) -> tuple[Any, list[Any]]:
        """Prepare, execute and publish a command; returns its plan and the notifications of live subscriptions."""
        return applied(self.prepare(command))

    def keep(self) -> Plan[Any]:
        """A plan that changes nothing: for a PUT of the present configuration."""
        return SamePlan(self)

    def latest(self, key: str) -> S | None:
        """A subscription as it will be when everything accepted has been applied, None where there will be none."""
        pending = self.pending.get(key)
        return pending.state if pending is not None else self.settled(key)

    def will_exist(self, key: str) -> bool:
        """Whether there will be such a subscription when everything accepted has been applied."""
        pending = self.pending.get(key)
        return pending is not GONE if pending is not None else self._names.find(key) >= 0

    def watch(self, key: str) -> None:
        """Make a subscription live, until it is deleted or `unwatch`. Raises KeyError."""
        if self._names.find(key) < 0:
            raise KeyError(key)
        self.watched.add(key)

    def unwatch(self, key: str) -> None:
        """Make a subscription no longer live."""
        self.watched.discard(key)

    def check_ids(self) -> None:
        """Raise AssertionError if anything is pending, or known of a subscription that there is not."""
        assert not self.pending, "there is pending state"
        ids = (*self.ttl, *self.watched)
        assert all(self._names.find(key) >= 0 for key in ids), f"a lifetime without a {self.noun}"

    def _must_exist(self, key: str) -> S:
        """The latest state of a subscription. Raises Refused."""
        state = self.latest(key)
        if state is None:
            raise Refused([missing(self.noun, key)])
        return state

    def _will_be(self, key: str, state: S) -> Undo[S]:
        """Make a subscription's state pending, as set by the command that is being accepted."""
        undo: Undo[S] = []
        self.pending.put(self._owner, key, PendingSubscription(None, state), undo)
        return undo

    def _accept_add(
        self, command: Addition[S], check: Callable[[], list[Fault]], plan: Callable[[Any, Any, int, Undo[S]], A]
    ) -> Steps[A]:
        """Accept new subscriptions without the faults that `check` finds in each. Nothing changes before it returns."""
        accepted = yield from accept_many(command, check, lambda: self._names.ids, self.pending, self.will_exist, BULK)
        undo: Undo[S] = []
        self.pending.put_all(self._owner, accepted.command, accepted.packed, undo)
        made = plan(self, accepted.command, self._owner, undo)
        made.faults, made.positions, made.packed = accepted.faults, accepted.positions, accepted.packed
        return made

    def _accept_delete(self, command: Deletion, plan: Callable[[Any, Any, int, Undo[S]], P]) -> Steps[P]:
        absent = partial(missing, self.noun)
        found, undo = yield from accept_delete(self._owner, command, self.pending, self.will_exist, absent)
        return plan(self, type(command)(found), self._owner, undo)
