"""The engine of a relay: deterministic commands in, forwarding decisions and deliveries out. See
`indexes.core.subscription_engine`.

The state is in `store.py`; around one `Relay`, which holds the subscriptions and their relations, it has the seq,
lifetimes, the queues of links (`outbox.py`), the progress of neighbours (`inbox.py`), and pending state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indexes.core.arrays import Floats
from indexes.core.commands import Fault, Refused
from indexes.core.names import Names
from indexes.core.pending import STRIDE
from indexes.core.pending_subscriptions import GONE, PendingSubscription, Steps, Undo, run_steps
from indexes.core.plan import SamePlan
from indexes.core.subscription_engine import SubscriptionEngine
from indexes.relays import outbox
from indexes.relays.commands import (
    Acked,
    AddSubscriptions,
    ChangeLinks,
    ChangeSubscription,
    Command,
    DeleteSubscriptions,
    EditSubscriptions,
    Notify,
    Receive,
    Rederive,
    Restart,
    SetSubscription,
    SubscriptionState,
)
from indexes.relays.config import REVERSED, TRAVELLED, UPSTREAM, Message, RelayConfig, shown
from indexes.relays.inbox import Inbox, message_faults
from indexes.relays.kernels.forward import SUBSCRIBE, any_ends
from indexes.relays.kernels.points import are_sides, as_boxes
from indexes.relays.plans.links import AckedPlan, LinksPlan, ReceivePlan, RederivePlan, RestartPlan
from indexes.relays.plans.maintenance import CapturePlan, FoldPlan
from indexes.relays.plans.subscriptions import AddPlan, BatchPlan, DeletePlan, NotifyPlan, SetPlan, state_of
from indexes.relays.relay import Relay, wrong_sides
from indexes.relays.results import LinkView, SubscriptionView
from indexes.relays.store import PendingLinks, RelayPlan, RelayStore

MOST_DRAWN = 2_000
"""Subscriptions of a relay whose graph has all edges, of which there may be as many as pairs."""

FEW = 64
"""Ids that are looked at one by one: a call of Arrow's takes as long as some fifty of them."""


class RelayEngine(RelayStore, SubscriptionEngine[SubscriptionState]):
    """Accepts commands and answers reads; see `RelayStore` for what it holds."""

    @property
    def subscription_count(self) -> int:
        return len(self.relay)

    @property
    def _names(self) -> Names:
        return self.relay.names

    @property
    def latest_config(self) -> RelayConfig:
        """The configuration as it will be when everything accepted has been applied."""
        return self.ahead.config

    # Commands.

    def prepare(self, command: Command, keep: int = 0) -> Any:
        # As by `prepare_steps`, without the steps: this is what most commands are.
        if isinstance(command, EditSubscriptions) and self.config.graph == "G":
            self._owner += 1
            return self._begin_all(command) if self._all_begin(command) else run_steps(self._accept_mixed(command))
        return super().prepare(command, keep)

    def prepare_steps(self, command: Command, keep: int = 0) -> Steps[RelayPlan]:
        self._owner += 1
        self._refuse_crowd(command)
        match command:
            case AddSubscriptions():
                return (yield from self._accept_add(command, lambda: self._column_faults(command), AddPlan))
            case EditSubscriptions():
                return (yield from self._accept_batch(command))
            case SetSubscription():
                return self._accept_set(command, self.latest(command.id))
            case ChangeSubscription():
                return self._accept_change(command)
            case DeleteSubscriptions():
                return (yield from self._accept_delete(command, DeletePlan))
            case Notify():
                return self._accept_notify(command)
            case ChangeLinks():
                return self._accept_links(command)
            case Receive():
                return (yield from self._accept_messages(command))
            case Acked():
                return self._accept_ack(command)
            case Restart():
                return self._accept_restart(command)
            case Rederive():
                return RederivePlan(self, command)

    def capture(self, journal: bool = False, indexes: bool = False) -> CapturePlan:
        """A plan that copies the state, with `indexes` the indexes too; with `journal` the relay records from then on
        what changes."""
        return CapturePlan(self, journal, indexes)

    def fold(self, fresh: Relay) -> FoldPlan:
        """A plan that brings a relay made of a capture up to date with the changes recorded since."""
        return FoldPlan(self, fresh)

    def latest(self, key: str) -> SubscriptionState | None:
        """As `SubscriptionEngine.latest`, of a client's subscription."""
        if key.startswith(TRAVELLED):
            return None
        owner, pending = self.pending.owned(key)
        state = pending.state if pending is not None else self.settled(key)
        if state is not None and any(o > owner and state.link in links for o, links in self._removals):
            return None
        return state

    def _refuse_crowd(self, command: Command) -> None:
        """Refuse more subscriptions than graphs with all edges, which are for comparison, can hold."""
        if self.config.graph == "G":
            return
        match command:
            case AddSubscriptions():
                more = len(command)
            case EditSubscriptions():
                more = int(np.count_nonzero(command.op == SUBSCRIBE))
            case SetSubscription():
                more = 1
            case Receive():
                more = sum(message.op == "subscribe" for message in command.messages)
            case _:
                more = 0
        if more and self.subscription_count + len(self.pending) + more > MOST_DRAWN:
            reason = f"{self.config.graph} is for comparisons: such a relay holds at most {MOST_DRAWN:,} subscriptions"
            raise Refused([Fault("graph.kind", reason)])

    def _accept_batch(self, command: EditSubscriptions) -> Steps[RelayPlan]:
        if self._all_begin(command):
            return self._begin_all(command)
        return (yield from self._accept_mixed(command))

    def _begin_all(self, command: EditSubscriptions) -> BatchPlan:
        """The plan of new subscriptions, which are valid."""
        undo: Undo[SubscriptionState] = []
        self.pending.put_each(self._owner, command.ids, command, undo)
        return BatchPlan(self, command, len(command.ids), self._owner, undo, all_begin=True)

    def _all_begin(self, command: EditSubscriptions) -> bool:
        """Whether every element is a valid new subscription with an id of its own, checked by column. If not,
        `_accept_mixed` looks at each."""
        ids, link = command.ids, command.link
        if not ids or any_ends(command.op) or not are_sides(command.lo, command.hi):
            return False
        if link is not None and not {None, *self.ahead.config.links}.issuperset(link):
            return False
        return self.are_new(ids)

    def are_new(self, ids: Sequence[str]) -> bool:
        """Whether a client may make subscriptions with these ids, at least one, when everything accepted has been
        applied; False also where a look at each would be needed to tell. O(n log m)."""
        # Ids that begin with TRAVELLED sort behind all ids of clients.
        if self._removals or max(ids) >= TRAVELLED:
            return False
        return len(set(ids)) == len(ids) and not self.pending.touches(ids) and not self._names.any_of(ids)

    def _accept_mixed(self, command: EditSubscriptions) -> Steps[RelayPlan]:
        new_ones = command.op == SUBSCRIBE
        wrong: dict[int | None, list[Fault]] = {}
        for fault in self._new_faults(command, np.flatnonzero(new_ones).tolist()):
            wrong.setdefault(fault.index, []).append(fault)
        faults: list[Fault] = []
        now: dict[str, tuple[bool, int]] = {}
        for i, (new, key) in enumerate(zip(new_ones.tolist(), command.ids, strict=True)):
            there = now[key][0] if key in now else self.will_exist(key)
            bad = wrong.get(i, [])
            if new and there:
                bad = [*bad, Fault("id", f"{key!r} is taken", "taken", i)]
            elif not new and not there:
                bad = [Fault("id", f"there is no subscription {key!r}", "unknown", i)]
            if not bad:
                now[key] = (new, i)
            faults += bad
            if i % STRIDE == STRIDE - 1:
                yield None
        if faults and not command.skip:
            raise Refused(sorted(faults, key=lambda fault: (fault.kind == "taken", fault.index)))
        undo: Undo[SubscriptionState] = []
        for key, (begins, i) in now.items():
            pending = PendingSubscription[SubscriptionState]((command, i), None) if begins else GONE
            self.pending.put(self._owner, key, pending, undo)
        positions = None
        if faults:
            bad_ones = {fault.index for fault in faults}
            positions = [i for i in range(len(command)) if i not in bad_ones]
            command = command.take(positions)
        plan = BatchPlan(self, command, len(command), self._owner, undo)
        plan.faults, plan.positions = faults, positions
        return plan

    def _accept_set(self, command: SetSubscription, before: SubscriptionState | None) -> RelayPlan:
        faults = [
            Fault(f"box.{self.config.attributes[j]}", REVERSED)
            for j in np.flatnonzero(wrong_sides(command.lo, command.hi)).tolist()
        ]
        if command.link is not None and command.link not in self.ahead.config.links:
            faults.append(Fault("link", f"there is no link {command.link!r}", "unknown"))
        if command.id.startswith(TRAVELLED):
            faults.append(Fault("id", f"cannot begin with {TRAVELLED!r}"))
        if faults:
            raise Refused(faults)
        whole = replace(command, ttl=command.ttl or None)
        after = state_of(whole)
        if before is not None and before.same_box(after) and before.ttl == after.ttl:
            plan: RelayPlan = SamePlan(self, whole)
            return plan
        return SetPlan(self, whole, self._owner, self._will_be(command.id, after), before)

    def _accept_change(self, command: ChangeSubscription) -> RelayPlan:
        before = self._must_exist(command.id)
        lo, hi = (ends[0] for ends in as_boxes(before.point[None]))
        place = {name: j for j, name in enumerate(self.config.attributes)}
        faults = [Fault(f"box.{name}", "there is no such attribute") for name in command.box if name not in place]
        if faults:
            raise Refused(faults)
        for name, ends in command.box.items():
            lo[place[name]], hi[place[name]] = (-np.inf, np.inf) if ends is None else ends
        ttl = before.ttl if command.ttl is None else command.ttl
        return self._accept_set(SetSubscription(command.id, lo, hi, before.link, ttl), before)

    def will_exist(self, key: str) -> bool:
        if self._removals or key.startswith(TRAVELLED):
            return self.latest(key) is not None
        return super().will_exist(key)

    def _column_faults(self, command: AddSubscriptions) -> list[Fault]:
        """The faults of new subscriptions, in order."""
        links: list[tuple[int, str]] = []
        if command.link is not None:
            known = pa.array([None, *self.ahead.config.links], pa.string())
            strange = pc.invert(pc.is_in(command.link, known)).to_numpy(zero_copy_only=False)
            links = [(i, command.link[i].as_py()) for i in np.flatnonzero(strange).tolist()]
        return self._faults(command.lo, command.hi, links, _travelled(command.ids))

    def _new_faults(self, command: EditSubscriptions, places: list[int]) -> list[Fault]:
        """The faults of the new subscriptions at these places of a command, in order."""
        known, ids, link = {None, *self.ahead.config.links}, command.ids, command.link or ()
        links = [(at, link[i]) for at, i in enumerate(places) if link and link[i] not in known]
        travelled = [at for at, i in enumerate(places) if ids[i].startswith(TRAVELLED)]
        faults = self._faults(command.lo[places], command.hi[places], links, travelled)
        return [replace(fault, index=places[fault.index or 0]) for fault in faults]

    def _faults(
        self, lo: Floats, hi: Floats, links: Sequence[tuple[int, str | None]], travelled: Sequence[int]
    ) -> list[Fault]:
        """Faults in order of their places: of sides, of the unknown `links`, and of the reserved ids at `travelled`."""
        names, wrong = self.config.attributes, list[list[int]]()
        if not are_sides(lo, hi):
            wrong = np.argwhere(wrong_sides(lo, hi)).tolist()
        faults = [Fault(f"box.{names[j]}", REVERSED, index=i) for i, j in wrong]
        faults += [Fault("link", f"there is no link {link!r}", "unknown", i) for i, link in links]
        faults += [Fault("id", f"cannot begin with {TRAVELLED!r}", index=i) for i in travelled]
        return sorted(faults, key=lambda fault: fault.index or 0)

    def _accept_notify(self, command: Notify) -> RelayPlan:
        names = self.config.attributes
        faults: list[Fault] = []
        finite = np.isfinite(command.values)
        if np.count_nonzero(finite) < finite.size:
            wrong = np.argwhere(~finite).tolist()
            faults += [Fault(f"values.{names[j]}", "must be finite", index=i) for i, j in wrong]
        for i, link in sorted(command.links.items()) if command.links else ():
            if link not in self.ahead.config.links:
                faults.append(Fault("from", f"there is no link {link!r}", "unknown", i))
        if faults:
            raise Refused(faults)
        if self.outboxes:
            size = sum(map(len, command.payload.values()))
            full = [name for name in self.outboxes if self._is_full(name, len(command), size)]
            if full:
                why = "its queue is full, and nobody empties it"
                raise Refused([Fault(f"links.{name}", why, "full") for name in full])
        return NotifyPlan(self, command)

    def _is_full(self, link: str, notifications: int, size: int) -> bool:
        """Whether a queue could not hold so many more notifications, if all of them went there."""
        n, waiting = self._waiting
        return self.outboxes[link].full(n + notifications, waiting + size)

    def _accept_links(self, command: ChangeLinks) -> RelayPlan:
        before = self.ahead
        faults = []
        links = dict(before.config.links)
        for name, link in command.links.items():
            if name == UPSTREAM:
                faults.append(Fault("links", "a link has a name"))
            elif link is not None:
                links[name] = link
            elif links.pop(name, None) is None:
                faults.append(Fault(f"links.{name}", f"there is no link {name!r}", "unknown"))
        if faults:
            raise Refused(faults)
        if links == before.config.links:
            same: RelayPlan = SamePlan(self, command)
            return same
        config = replace(before.config, links=links)
        plan = LinksPlan(self, command, config, self._owner, before)
        removed = before.config.links.keys() - links.keys()
        if removed:
            self._removals = [*self._removals, (self._owner, frozenset(removed))]
        self.ahead = PendingLinks(
            config,
            {name: before.inboxes.get(name, Inbox()) for name in links},
            {name: before.epochs.get(name) for name in links},
        )
        return plan

    def _accept_messages(self, command: Receive) -> Steps[RelayPlan]:
        """Nothing changes before it returns."""
        link, before, large = command.link, self.ahead, len(command) > command.at_once
        self._refuse_unknown(link)
        inbox, epoch = before.inboxes[link], before.epochs.get(link)
        if not command.logged:
            check = partial(message_faults, command.epoch, command.messages, inbox, len(self.config.attributes))
            faults = (yield check) if large else check()
            if faults:
                raise Refused(faults)
        n, waiting = self._waiting
        others = [box for name, box in self.outboxes.items() if name != link]
        room = outbox.FULL - n - max((box.notifications for box in others), default=0)
        size = sum(len(message.payload or b"") for message in command.messages)
        if any(box.full(0, waiting + size) for box in others):
            room = 0
        admit = partial(inbox.admit, command.epoch, command.messages, room)
        messages, had, after = (yield admit) if large else admit()
        taken = Receive(link, command.epoch, messages)
        if messages:
            plan = ReceivePlan(self, taken, had, after, epoch, before)
            self.ahead = before._replace(inboxes={**before.inboxes, link: after})
            return plan
        plan = ReceivePlan(self, taken, had, inbox, epoch, before)
        plan.next = inbox.expects(command.epoch)
        return plan

    def _accept_ack(self, command: Acked) -> RelayPlan:
        link, before = command.link, self.ahead
        self._refuse_unknown(link)
        if command.epoch != before.epochs.get(link):
            same: RelayPlan = SamePlan(self, command)
            return same
        return AckedPlan(self, command)

    def _accept_restart(self, command: Restart) -> RelayPlan:
        link, before = command.link, self.ahead
        self._refuse_unknown(link)
        if not command.epoch or command.epoch == before.epochs.get(link):
            raise Refused([Fault("epoch", "an epoch is new each time")])
        plan = RestartPlan(self, command, before)
        self.ahead = before._replace(epochs={**before.epochs, link: command.epoch})
        return plan

    def _refuse_unknown(self, link: str) -> None:
        if link not in self.ahead.config.links:
            raise Refused([Fault("link", f"there is no link {link!r}", "missing")])

    # Reads, between two slices.

    def subscription(self, key: str) -> SubscriptionView | None:
        """The subscription of an id: that of a client, else one that came over a link; None where there is neither."""
        for found in (key, TRAVELLED + key):
            state = self.settled(found)
            if state is not None:
                return self._view(found, state)
        return None

    def subscriptions(self, after: str | None, limit: int) -> list[SubscriptionView]:
        """Up to `limit` subscriptions in order of key, behind the key `after`: those of clients, then those that
        travelled here, each in order of id."""
        found = []
        for key, _ in islice(self.relay.names.after(after), limit):
            state = self.settled(key)
            assert state is not None, "a name without a subscription"
            found.append(self._view(key, state))
        return found

    def _view(self, key: str, state: SubscriptionState) -> SubscriptionView:
        lo, hi = (ends[0].tolist() for ends in as_boxes(state.point[None]))
        sides = zip(self.config.attributes, lo, hi, strict=True)
        box = {name: (a, b) for name, a, b in sides if a > -np.inf or b < np.inf}
        return SubscriptionView(key, shown(key), box, state.link, state.ttl)

    def links(self) -> list[LinkView]:
        """The links and the state of their queues, by name. O(1) each."""
        views = []
        for name in sorted(self.config.links):
            box, inbox = self.outboxes[name], self.inboxes[name]
            forwarded, n = self.relay.forwarded_count(name)
            views.append(
                LinkView(
                    name=name,
                    link=self.config.links[name],
                    epoch=box.epoch,
                    stale=box.stale,
                    queue=len(box),
                    first=box.first,
                    next=box.next,
                    peer_epoch=inbox.epoch,
                    expected=inbox.next,
                    resyncing=inbox.left,
                    forwarded=forwarded,
                    covering_ratio=1 - forwarded / n if n else 0.0,
                )
            )
        return views

    def messages(self, link: str, first: int, limit: int) -> list[Message]:
        """Up to `limit` messages that wait for a link, from a number on; none where the queue is stale. Raises
        KeyError."""
        return self.outboxes[link].messages(first, limit)

    def check(self) -> None:
        """Raise AssertionError unless all parts agree (with nothing pending). O(n^2)."""
        self.check_ids()
        assert not self._removals and self._waiting == (0, 0), "there is pending state"
        self.relay.check()
        assert set(self.outboxes) == set(self.inboxes) == set(self.config.links) == set(self.relay.links)
        before = self.ahead
        self.reset_pending_links()
        assert before == self.ahead, "the pending state of links is not the applied one"
        for name, box in self.outboxes.items():
            box.check()
            assert self.inboxes[name].left or not self.relay.doubtful_keys(name), (
                "doubtful subscriptions without a reset"
            )


def _travelled(ids: pa.StringArray) -> list[int]:
    """The places of ids that came over a link."""
    if len(ids) <= FEW:
        return [i for i, key in enumerate(ids.to_pylist()) if key.startswith(TRAVELLED)]
    found: list[int] = pc.indices_nonzero(pc.starts_with(ids, TRAVELLED)).to_pylist()
    return found
