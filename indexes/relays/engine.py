"""The engine of a relay behind the writer: deterministic commands in, forwarding decisions and deliveries out.

    plan = engine.prepare(command)     checked against the state that it will meet; nothing has changed yet
    plan.paint(0.005)                  kernel work, in any one thread
    plan.settle()                      visible now, at engine.seq

`apply` does all of it at once. Over one `Relay`, which holds the subscriptions and their relations, it keeps the seq,
lifetimes, the queues of links (`outbox.py`), how far neighbours are (`inbox.py`), and what is promised but not done.
The same commands in the same order give the same answers; no clock or random source is read, save to cut work.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from indexes.commands import Fault, Refused
from indexes.overlay import STRIDE
from indexes.plan import SamePlan, applied
from indexes.promised import GONE, Promised, Promises, Steps, Undo, accept_delete, accept_many, run_steps
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
    Standing,
)
from indexes.relays.delivered import Met, listeners
from indexes.relays.forward import SUBSCRIBE
from indexes.relays.inbox import Inbox, message_faults
from indexes.relays.link_plans import AckedPlan, LinksPlan, ReceivePlan, RederivePlan, RestartPlan
from indexes.relays.model import (
    REVERSED,
    TRAVELLED,
    UPSTREAM,
    Delivery,
    LinkView,
    Message,
    Notified,
    RelayConfig,
    Slice,
    SubscriptionView,
    shown,
)
from indexes.relays.outbox import Chunk, Outbox
from indexes.relays.plans import AddPlan, Ahead, BatchPlan, DeletePlan, NotifyPlan, Plan, SetPlan, standing_of
from indexes.relays.points import as_boxes
from indexes.relays.relay import Outgoing, Relay, wrong_sides
from indexes.relays.upkeep import CapturePlan, FoldPlan

Float64 = npt.NDArray[np.float64]

BULK = 4_096
"""From this many on, new subscriptions are checked by their sorted ids, off the loop."""

MOST_DRAWN = 2_000
"""Subscriptions of a relay whose graph has all edges, of which there may be as many as pairs."""


class RelayEngine:
    """Subscriptions that are boxes, links to neighbours, and notifications.

    `first_seq` is the seq of the relay's own creation. `watched` are the ids of live subscriptions, `ttl` the time
    limits of those that have one. `ahead` is what stands of links once everything accepted has been applied.
    """

    def __init__(self, config: RelayConfig, first_seq: int = 0, relay: Relay | None = None) -> None:
        self.config = config
        self.seq = first_seq
        self.next_seq = first_seq + 1
        self.relay = relay if relay is not None else Relay(config, config.links)
        self.ttl: dict[str, float] = {}
        self.watched: set[str] = set()
        self.pending: Promises[Standing] = Promises()
        self.outboxes = {name: Outbox(2 * len(config.attributes)) for name in config.links}
        self.inboxes = {name: Inbox() for name in config.links}
        self.ahead = Ahead(config, {}, {})
        self.look_ahead()
        self.seconds_per_notification = 2e-5
        self._veils: list[tuple[int, frozenset[str]]] = []
        self._waiting = (0, 0)
        self._owner = 0

    @property
    def subscription_count(self) -> int:
        return len(self.relay)

    @property
    def latest_config(self) -> RelayConfig:
        """The configuration as it will be when everything accepted has been applied."""
        return self.ahead.config

    def look_ahead(self) -> None:
        """Nothing is accepted but what has been applied."""
        epochs = {name: box.epoch for name, box in self.outboxes.items()}
        self.ahead = Ahead(self.config, self.inboxes.copy(), epochs)

    # Commands.

    def prepare(self, command: Command, keep: int = 0) -> Plan:
        """Check a command and reserve its seqs. All that it comes to is kept, whatever `keep` says.

        Raises:
            Refused: it does not apply; nothing has changed.
        """
        return run_steps(self.prepare_steps(command, keep))

    def prepare_steps(self, command: Command, keep: int = 0) -> Steps[Plan]:
        """As `prepare`, cut into pieces: yields None where others may go first, or a function to run in any thread.

        No other command of this relay may be prepared in between.
        """
        self._owner += 1
        self._refuse_crowd(command)
        match command:
            case AddSubscriptions():
                return (yield from self._accept_many(command))
            case EditSubscriptions():
                return (yield from self._accept_batch(command))
            case SetSubscription():
                return self._accept_set(command, self.latest(command.id))
            case ChangeSubscription():
                return self._accept_change(command)
            case DeleteSubscriptions():
                return (yield from self._accept_delete(command))
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
        """A plan that copies the state, with a copy of the indexes if asked for; `journal` begins to note what
        changes."""
        return CapturePlan(self, journal, indexes)

    def fold(self, fresh: Relay) -> FoldPlan:
        """A plan that brings a relay made of what was captured up to date with the changes noted since."""
        return FoldPlan(self, fresh)

    def keep(self) -> Plan:
        """A plan that changes nothing: the answer to a PUT of the configuration that stands."""
        return SamePlan(self)

    def latest(self, key: str) -> Standing | None:
        """A client's subscription as it will be when everything accepted has been applied."""
        if key.startswith(TRAVELLED):
            return None
        owner, promised = self.pending.owned(key)
        standing = promised.stands if promised is not None else self.settled(key)
        if standing is not None and any(o > owner and standing.link in links for o, links in self._veils):
            return None
        return standing

    def settled(self, key: str) -> Standing | None:
        """A subscription as it stands, by its key."""
        if self.relay.names.find(key) < 0:
            return None
        return Standing(self.relay.point(key), self.relay.link(key), self.ttl.get(key))

    def unveil(self, owner: int) -> None:
        """Subscriptions of links that this command takes out are gone, or stay after all."""
        self._veils = [veil for veil in self._veils if veil[0] != owner]

    def expect(self, notifications: int, size: int) -> None:
        """So many more notifications, with payloads of so many bytes, are on their way into queues."""
        self._waiting = self._waiting[0] + notifications, self._waiting[1] + size

    def _refuse_crowd(self, command: Command) -> None:
        """Graphs with all edges, which are there to be compared, have no room for many."""
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

    def _accept_many(self, command: AddSubscriptions) -> Steps[Plan]:
        """Nothing changes before it returns."""

        def check() -> list[Fault]:
            return self._column_faults(command, np.arange(len(command)))

        accepted = yield from accept_many(
            command, check, lambda: self.relay.names, self.pending, self._will_stand, BULK
        )
        undo: Undo[Standing] = []
        self.pending.put_all(self._owner, accepted.command, accepted.packed, undo)
        plan = AddPlan(self, accepted.command, self._owner, undo)
        plan.faults, plan.positions = accepted.faults, accepted.positions
        return plan

    def _accept_batch(self, command: EditSubscriptions) -> Steps[Plan]:
        begins = command.op == SUBSCRIBE
        wrong: dict[int | None, list[Fault]] = {}
        for fault in self._column_faults(command, np.flatnonzero(begins)):
            wrong.setdefault(fault.index, []).append(fault)
        faults: list[Fault] = []
        now: dict[str, tuple[bool, int]] = {}
        for i, (new, key) in enumerate(zip(begins.tolist(), command.ids.to_pylist(), strict=True)):
            stands = now[key][0] if key in now else self._will_stand(key)
            bad = wrong.get(i, [])
            if new and stands:
                bad = [*bad, Fault("id", f"{key!r} is taken", "taken", i)]
            elif not new and not stands:
                bad = [Fault("id", f"there is no subscription {key!r}", "unknown", i)]
            if not bad:
                now[key] = (new, i)
            faults += bad
            if i % STRIDE == STRIDE - 1:
                yield None
        if faults and not command.skip:
            raise Refused(sorted(faults, key=lambda fault: (fault.kind == "taken", fault.index)))
        undo: Undo[Standing] = []
        for key, (stands, i) in now.items():
            promised = Promised[Standing]((command, i), None) if stands else GONE
            self.pending.put(self._owner, key, promised, undo)
        positions = None
        if faults:
            bad_ones = {fault.index for fault in faults}
            positions = [i for i in range(len(command)) if i not in bad_ones]
            command = command.take(positions)
        plan = BatchPlan(self, command, self._owner, undo)
        plan.faults, plan.positions = faults, positions
        return plan

    def _accept_set(self, command: SetSubscription, before: Standing | None) -> Plan:
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
        after = standing_of(whole)
        if before is not None and before.same_box(after) and before.ttl == after.ttl:
            plan: Plan = SamePlan(self, whole)
            return plan
        undo: Undo[Standing] = []
        self.pending.put(self._owner, command.id, Promised(None, after), undo)
        return SetPlan(self, whole, self._owner, undo, before)

    def _accept_change(self, command: ChangeSubscription) -> Plan:
        before = self.latest(command.id)
        if before is None:
            raise Refused([_missing(command.id)])
        lo, hi = (ends[0] for ends in as_boxes(before.point[None]))
        place = {name: j for j, name in enumerate(self.config.attributes)}
        faults = [Fault(f"box.{name}", "there is no such attribute") for name in command.box if name not in place]
        if faults:
            raise Refused(faults)
        for name, ends in command.box.items():
            lo[place[name]], hi[place[name]] = (-np.inf, np.inf) if ends is None else ends
        ttl = before.ttl if command.ttl is None else command.ttl
        return self._accept_set(SetSubscription(command.id, lo, hi, before.link, ttl), before)

    def _accept_delete(self, command: DeleteSubscriptions) -> Steps[Plan]:
        found, undo = yield from accept_delete(self._owner, command, self.pending, self._will_stand, _missing)
        return DeletePlan(self, DeleteSubscriptions(found), self._owner, undo)

    def _will_stand(self, key: str) -> bool:
        if self._veils or key.startswith(TRAVELLED):
            return self.latest(key) is not None
        promised = self.pending.get(key)
        return self.relay.names.find(key) >= 0 if promised is None else promised != GONE

    def _column_faults(
        self, command: AddSubscriptions | EditSubscriptions, places: npt.NDArray[np.intp]
    ) -> list[Fault]:
        """What of some new subscriptions cannot be, in order."""
        names = self.config.attributes
        wrong = np.argwhere(wrong_sides(command.lo[places], command.hi[places]))
        faults = [Fault(f"box.{names[j]}", REVERSED, index=int(places[i])) for i, j in wrong.tolist()]
        if command.link is not None:
            known = pa.array([None, *self.ahead.config.links], pa.string())
            strange = pc.invert(pc.is_in(command.link.take(pa.array(places)), known)).to_numpy(zero_copy_only=False)
            for i in places[strange].tolist():
                faults.append(Fault("link", f"there is no link {command.link[i].as_py()!r}", "unknown", i))
        hidden = pc.starts_with(command.ids.take(pa.array(places)), TRAVELLED).to_numpy(zero_copy_only=False)
        faults += [Fault("id", f"cannot begin with {TRAVELLED!r}", index=i) for i in places[hidden].tolist()]
        return sorted(faults, key=lambda fault: fault.index or 0)

    def _accept_notify(self, command: Notify) -> Plan:
        names = self.config.attributes
        wrong = np.argwhere(~np.isfinite(command.values)).tolist()
        faults = [Fault(f"values.{names[j]}", "must be finite", index=i) for i, j in wrong]
        faults += [
            Fault("from", f"there is no link {link!r}", "unknown", i)
            for i, link in sorted(command.links.items())
            if link not in self.ahead.config.links
        ]
        if faults:
            raise Refused(faults)
        size = sum(map(len, command.payload.values()))
        full = [name for name in self.outboxes if self._is_full(name, len(command), size)]
        if full:
            raise Refused([Fault(f"links.{name}", "its queue is full, and nobody empties it", "full") for name in full])
        return NotifyPlan(self, command)

    def _is_full(self, link: str, notifications: int, size: int) -> bool:
        """Whether a queue could not take so many more notifications, if all of them went there."""
        n, waiting = self._waiting
        return self.outboxes[link].full(n + notifications, waiting + size)

    def _accept_links(self, command: ChangeLinks) -> Plan:
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
            same: Plan = SamePlan(self, command)
            return same
        config = replace(before.config, links=links)
        plan = LinksPlan(self, command, config, self._owner, before)
        removed = before.config.links.keys() - links.keys()
        if removed:
            self._veils = [*self._veils, (self._owner, frozenset(removed))]
        self.ahead = Ahead(
            config,
            {name: before.inboxes.get(name, Inbox()) for name in links},
            {name: before.epochs.get(name) for name in links},
        )
        return plan

    def _accept_messages(self, command: Receive) -> Steps[Plan]:
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

    def _accept_ack(self, command: Acked) -> Plan:
        link, before = command.link, self.ahead
        self._refuse_unknown(link)
        if command.epoch != before.epochs.get(link):
            same: Plan = SamePlan(self, command)
            return same
        return AckedPlan(self, command)

    def _accept_restart(self, command: Restart) -> Plan:
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

    def apply(self, command: Command) -> tuple[Any, list[Slice]]:
        """Prepare, paint and settle a command; returns its plan and what live subscriptions must hear of."""
        return applied(self.prepare(command))

    # What plans do.

    def tell(self, link: str, outgoing: Outgoing | Chunk) -> None:
        """Queue for a link what is to be forwarded over it."""
        self.outboxes[link].tell(outgoing)

    def bound_queues(self) -> None:
        """After a command: drop from queues what is not worth keeping. Within one it would depend on how it is cut."""
        for name, box in self.outboxes.items():
            box.bound(self.relay.forwarded_count(name)[0])

    def met(self, values: Float64, origin: Sequence[str | None], links_alone: bool = False) -> Met:
        """Who gets notifications, by column. What one takes is learned from it."""
        began = time.perf_counter()
        found = self.relay.met(values, origin, links_alone)
        if len(values) and not links_alone:
            spent = (time.perf_counter() - began) / len(values)
            self.seconds_per_notification += 0.2 * (spent - self.seconds_per_notification)
        return found

    def listeners(self, met: Met) -> dict[int, list[str]]:
        """The live subscriptions that hear of each of some notifications, by its place. Between two slices and while
        one is painted."""
        return listeners(self.relay.names, list(self.watched), met)

    def deliveries(self, values: Float64, origin: Sequence[str | None], links_alone: bool) -> list[Delivery]:
        """Who is told of notifications: links and, unless these are wanted `alone`, live subscriptions."""
        if links_alone and not self.outboxes:
            return [Delivery([], [])] * len(values)
        met = self.met(values, origin, links_alone or not self.watched)
        heard = self.listeners(met)
        return [Delivery(heard.get(e, []), list(links)) for e, links in enumerate(met.links)]

    def deliver(self, seq: int, values: tuple[float, ...], payload: bytes | None, delivery: Delivery) -> list[Notified]:
        """Queue a notification for links; returns what live subscriptions hear."""
        for name in delivery.links:
            self.outboxes[name].notify(values, payload)
        named = dict(zip(self.config.attributes, values, strict=True))
        if not self.watched:
            return []
        return [Notified(seq, key, named, payload) for key in delivery.subscriptions if key in self.watched]

    def left(self, link: str) -> int:
        """How many messages are left of what follows a reset."""
        return self.inboxes[link].left

    def resync(self, link: str, left: int) -> None:
        """So many are."""
        self.inboxes[link] = self.inboxes[link]._replace(left=left)

    # Reads, between two slices.

    def subscription(self, key: str) -> SubscriptionView | None:
        """The subscription of an id: a client's, else one that travelled here; None where there is neither."""
        for found in (key, TRAVELLED + key):
            standing = self.settled(found)
            if standing is not None:
                return self._view(found, standing)
        return None

    def subscriptions(self, after: str | None, limit: int) -> list[SubscriptionView]:
        """Up to `limit` subscriptions in order of key, behind the key `after`: those of clients, then those that
        travelled here, each in order of id."""
        found = []
        for key, _ in islice(self.relay.names.after(after), limit):
            standing = self.settled(key)
            assert standing is not None, "a name without a subscription"
            found.append(self._view(key, standing))
        return found

    def _view(self, key: str, standing: Standing) -> SubscriptionView:
        lo, hi = (ends[0].tolist() for ends in as_boxes(standing.point[None]))
        sides = zip(self.config.attributes, lo, hi, strict=True)
        box = {name: (a, b) for name, a, b in sides if a > -np.inf or b < np.inf}
        return SubscriptionView(key, shown(key), box, standing.link, standing.ttl)

    def links(self) -> list[LinkView]:
        """The links as they stand, by name. O(1) each."""
        views = []
        for name in sorted(self.config.links):
            box, inbox = self.outboxes[name], self.inboxes[name]
            told, n = self.relay.forwarded_count(name)
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
                    forwarded=told,
                    covering_ratio=1 - told / n if n else 0.0,
                )
            )
        return views

    def messages(self, link: str, first: int, limit: int) -> list[Message]:
        """Up to `limit` messages that wait for a link, from a number on; none where the queue is stale. Raises
        KeyError."""
        return self.outboxes[link].messages(first, limit)

    def watch(self, key: str) -> None:
        """Tell what a client's subscription hears from now on, until it is deleted or watched no longer. Raises
        KeyError."""
        if self.relay.names.find(key) < 0:
            raise KeyError(key)
        self.watched.add(key)

    def unwatch(self, key: str) -> None:
        """Tell no more of a subscription."""
        self.watched.discard(key)

    def check(self) -> None:
        """Raise AssertionError unless all parts agree (with nothing pending). O(n^2)."""
        assert not self.pending and not self._veils and self._waiting == (0, 0), "something is promised still"
        self.relay.check()
        assert all(self.relay.names.find(key) >= 0 for key in (*self.ttl, *self.watched)), "a lifetime of nobody"
        assert set(self.outboxes) == set(self.inboxes) == set(self.config.links) == set(self.relay.links)
        before = self.ahead
        self.look_ahead()
        assert before == self.ahead, "what is ahead is not what stands"
        for name, box in self.outboxes.items():
            box.check()
            assert self.inboxes[name].left or not self.relay.doubted(name), "doubts that nobody settles"


def _missing(key: str) -> Fault:
    return Fault("id", f"there is no subscription {key!r}", "missing")
