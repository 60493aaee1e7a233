"""Plans about links: received messages, changes of links, acknowledgements, restarts and rederivation. See
`indexes.core.plan`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from indexes.core.arrays import Floats
from indexes.core.names import Names
from indexes.core.plan import BackgroundPlan, Plan
from indexes.relays.commands import Acked, ChangeLinks, Receive, Rederive, Restart, SubscriptionState
from indexes.relays.config import TRAVELLED, UPSTREAM, Message, RelayConfig, shown, shown_column
from indexes.relays.inbox import Inbox
from indexes.relays.kernels.forward import SUBSCRIBE, UNSUBSCRIBE
from indexes.relays.kernels.points import as_points
from indexes.relays.outbox import Chunk, Outbox, as_messages
from indexes.relays.plans.subscriptions import SECONDS_A_STEP, ChangePlan, replaced
from indexes.relays.relations import Relations
from indexes.relays.relay import ExecutedSteps, Outgoing, Relay, Steps
from indexes.relays.results import Delivery, Notified, Rederived, RederivedColumns, Slice
from indexes.relays.store import PendingLinks, RelayStore

SECONDS_TO_LAY_OUT = 5e-6
"""Estimate of the seconds that laying out the relations of a neighbour takes for each subscription."""

FEW = 250
"""Up to so many subscriptions of removed links end in place, and by their ids one by one."""

SECONDS_TO_SAY = 1e-6
"""Estimate of the seconds that queueing a subscription again takes."""


class ReceivePlan(ChangePlan):
    """Messages that came over a link, applied in order: some subscriptions, then notifications, and so on. `had` tells
    which notifications were received before. `epoch` is ours, `next` the number expected next. `before` is the pending
    state of links before it."""

    command: Receive

    def __init__(
        self,
        engine: RelayStore,
        command: Receive,
        had: list[bool],
        inbox: Inbox,
        epoch: str | None,
        before: PendingLinks,
    ) -> None:
        super().__init__(engine, command, len(command), -1, [])
        self.epoch = epoch
        self.next = inbox.next
        self._had = had
        self._inbox = inbox
        self._before = before
        self._delivered: list[tuple[int, Delivery]] = []
        self._gone: list[str] = []
        self._weight = weight(command.messages)
        engine.expect(*self._weight)

    def response_fields(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "next": self.next}

    def execute(self, budget: float) -> None:
        if not self._left or not self._has_room(budget):
            return
        begin, messages = self._executed, self.command.messages
        end = begin + self._cost.fit(budget, self._left)
        op = messages[begin].op
        if op == "reset":
            self._executed = begin + 1
            self.engine.relay.mark_doubtful(self.command.link, TRAVELLED)
            self._follow(messages[begin].follow)
            return
        same = ("notify",) if op == "notify" else ("subscribe", "unsubscribe")
        upto = begin
        while upto < end and messages[upto].op in same:
            upto += 1
        # Subscriptions that were not repeated after a reset end with the last message that follows it.
        left = self.engine.left(self.command.link)
        upto = min(upto, begin + left) if left else upto
        self._executed = upto
        if op == "notify":
            self._match(begin, upto)
        else:
            self._change(begin, upto)
        if left:
            self._follow(left - (upto - begin))

    def _follow(self, left: int) -> None:
        """Set how many messages after a reset are still to come; with the last, end the subscriptions that were not
        repeated."""
        relay, link = self.engine.relay, self.command.link
        self.engine.resync(link, left)
        swept = relay.doubtful_keys(link) if not left else []
        if swept:
            self._gone += [key for key in swept if key in self.engine.ttl or key in self.engine.watched]
            self._changes.run(Steps.ends(swept, 2 * len(self.engine.config.attributes)))
            if len(swept) > FEW:
                self._changes.rename()

    def _match(self, lo: int, hi: int) -> None:
        new = [i for i in range(lo, hi) if not self._had[i]]
        if new:
            values = np.array([self.command.messages[i].values for i in new], np.float64)
            found = self.engine.deliveries(values, [self.command.link] * len(new), self.silent)
            self._delivered = list(zip(new, found, strict=True))

    def _change(self, lo: int, hi: int) -> None:
        """Apply subscriptions that begin and end. One that is present with the same box is confirmed."""
        relay, link = self.engine.relay, self.command.link
        now: dict[str, SubscriptionState | None] = {}
        steps: list[Steps] = []
        confirmed: list[str] = []
        for message in self.command.messages[lo:hi]:
            key = TRAVELLED + message.id
            before = now[key] if key in now else self.engine.settled(key)
            if message.op == "subscribe":
                after = SubscriptionState(_point(message), link, None)
                if before is None or not before.same_box(after):
                    steps.append(replaced(key, after.point, link, new=before is None))
                    now[key] = after
                elif key not in now:
                    confirmed.append(key)
            elif before is not None and before.link == link:
                steps.append(Steps.ends([key], 2 * len(self.engine.config.attributes)))
                now[key] = None
        relay.confirm(confirmed)
        if steps:
            self._changes.run(_joined(steps))
        self._gone += [key for key, state in now.items() if state is None]

    def _show(self, lo: int, hi: int) -> Slice | None:
        engine, link = self.engine, self.command.link
        self._changes.show()
        notified: list[Notified] = []
        for i, delivery in self._delivered:
            message = self.command.messages[i]
            notified += engine.deliver(self.first_seq + i, message.values, message.payload, delivery)
        gone = [(engine.seq, shown(key)) for key in self._gone if engine.forget(key)]
        self._delivered, self._gone = [], []
        # Between two slices the progress of the neighbour is exact, too.
        last = self.command.messages[hi - 1].n
        engine.inboxes[link] = engine.inboxes[link]._replace(epoch=self.command.epoch, next=last + 1)
        return Slice(engine.seq, notified, gone) if notified or gone else None

    def _finish(self) -> None:
        self.done = True
        self.engine.inboxes[self.command.link] = self._inbox
        self._changes.end()
        self.engine.expect(-self._weight[0], -self._weight[1])

    def cancel(self) -> None:
        self.engine.expect(-self._weight[0], -self._weight[1])
        self.engine.ahead = self._before
        Plan.cancel(self)


class Relinked(NamedTuple):
    """The outcome of a change of links, before it is published: the steps that ended subscriptions of removed links,
    their slots, the messages to the remaining neighbours, and the ids that are left; None where so few end that the ids
    are changed one by one."""

    executed: ExecutedSteps
    slots: list[int]
    outgoing: list[tuple[str, Outgoing | Chunk]]
    names: Names | None


class Prepared(NamedTuple):
    """The relations of neighbours that begin. Where many subscriptions end, they end in a copy of the relay, `aside`,
    with the outcome `relinked`."""

    begun: dict[str, Relations]
    aside: Relay | None = None
    relinked: Relinked | None = None


class LinksPlan(BackgroundPlan[RelayStore, Prepared]):
    """Links added, changed and removed, the latter with the subscriptions that came over them, all in one moment."""

    command: ChangeLinks

    def __init__(
        self, engine: RelayStore, command: ChangeLinks, config: RelayConfig, owner: int, before: PendingLinks
    ) -> None:
        super().__init__(engine, command, 1)
        self._config = config
        self._before = before
        self._owner = owner
        now = before.config.links
        self._removed = [name for name, link in command.links.items() if link is None]
        self._added = [name for name, link in command.links.items() if link is not None and name not in now]
        self._relinked: Relinked | None = None
        self._limited: list[str] = []
        self._live: list[str] = []

    def lifetimes(self) -> Iterator[tuple[str, float | None]]:
        """The ids of ended subscriptions that had a time limit, each with None: see `EditPlan.lifetimes`."""
        return ((key, None) for key in self._limited)

    @property
    def seconds(self) -> float:
        lays_out = len(self._added) + bool(self._removed)
        return (SECONDS_TO_LAY_OUT * lays_out + SECONDS_A_STEP * bool(self._removed)) * len(self.engine.relay)

    def read(self) -> Prepared:
        relay = self.engine.relay
        begun = relay.begin(self._removed, self._added)
        if relay.came_over(self._removed) <= FEW:
            return Prepared(begun)
        aside = relay.aside()
        return Prepared(begun, aside, self._relink(aside, begun))

    def apply(self, found: Prepared) -> None:
        relay = self.engine.relay
        if found.aside is not None:
            relay.take_over(found.aside, self._removed, self._added)
            self._relinked = found.relinked
        elif self._removed or self._added:
            self._relinked = self._relink(relay, found.begun)
        if self._relinked is not None:
            keys = self._relinked.executed.steps.keys
            self._limited = [key for key in keys if key in self.engine.ttl]
            self._live = [key for key in keys if key in self.engine.watched]
            if self._relinked.names is not None:
                # Freed here, in the thread of the kernels: there are many.
                keys.clear()

    def _relink(self, relay: Relay, begun: dict[str, Relations]) -> Relinked:
        executed = relay.change_links(self._removed, self._added, begun)
        outgoing = [
            (name, as_messages(relay.outgoing(executed, name))) for name in executed.decisions if name != UPSTREAM
        ]
        names = relay.names_after([executed]) if len(executed.slots) > FEW else None
        return Relinked(executed, executed.gone, outgoing, names)

    def show(self) -> Slice | None:
        engine, gone = self.engine, []
        if self._relinked is not None:
            found, self._relinked = self._relinked, None
            if found.names is not None:
                engine.relay.names = found.names
            else:
                engine.relay.commit(found.executed)
            engine.relay.release(found.slots)
            for key in self._limited:
                del engine.ttl[key]
            gone = [(self.last_seq, shown(key)) for key in self._live if key in engine.watched]
            engine.watched.difference_update(self._live)
            for name in self._removed:
                del engine.outboxes[name], engine.inboxes[name]
            for name, outgoing in found.outgoing:
                engine.queue(name, outgoing)
        for name in self._added:
            engine.outboxes[name], engine.inboxes[name] = Outbox(2 * len(self._config.attributes)), Inbox()
        before = engine.config.links
        for name, link in self.command.links.items():
            if link is not None and name in before and not link.same_peer(before[name]):
                engine.outboxes[name].mark_stale()
        engine.bound_queues()
        engine.config = self._config
        engine.end_removal(self._owner)
        return Slice(engine.seq, [], gone) if gone and not self.silent else None

    def cancel(self) -> None:
        self.engine.ahead = self._before
        self.engine.end_removal(self._owner)
        super().cancel()


class AckedPlan(Plan[RelayStore]):
    """An acknowledgement by a neighbour."""

    command: Acked

    def __init__(self, engine: RelayStore, command: Acked) -> None:
        super().__init__(engine, command, 1)

    def execute(self, budget: float) -> None:
        """There is nothing to compute."""

    def publish(self) -> None:
        if not self.done:
            box = self.engine.outboxes[self.command.link]
            if box.epoch == self.command.epoch and not box.stale:
                box.acknowledge(self.command.next)
            self.engine.seq = self.last_seq
            self.done = True


class RestartPlan(BackgroundPlan[RelayStore, Outbox]):
    """A queue begins a new epoch."""

    command: Restart

    def __init__(self, engine: RelayStore, command: Restart, before: PendingLinks) -> None:
        super().__init__(engine, command, 1)
        self._before = before
        self._found: Outbox | None = None

    @property
    def seconds(self) -> float:
        return SECONDS_TO_SAY * (len(self.engine.relay) + len(self.engine.outboxes[self.command.link]))

    def read(self) -> Outbox:
        link = self.command.link
        return self.engine.outboxes[link].restarted(self.command.epoch, *self.engine.relay.forwards(link))

    def apply(self, found: Outbox) -> None:
        self._found = found

    def show(self) -> None:
        assert self._found is not None, "it is shown once"
        self.engine.outboxes[self.command.link], self._found = self._found, None

    def cancel(self) -> None:
        self.engine.ahead = self._before
        super().cancel()


class RederivePlan(BackgroundPlan[RelayStore, dict[str, Relations]]):
    """The least set that covers all, recomputed for every neighbour. `changed` is the difference to what had been
    forwarded, unless `silent`."""

    command: Rederive

    def __init__(self, engine: RelayStore, command: Rederive) -> None:
        super().__init__(engine, command, 1)
        self.changed: dict[str, RederivedColumns] = {}
        self._outgoing: list[tuple[str, Outgoing]] = []

    @property
    def rederived(self) -> dict[str, Rederived]:
        """As `changed`, with a string for each id."""
        return {name: Rederived(new.to_pylist(), old.to_pylist()) for name, (new, old) in self.changed.items()}

    def response_fields(self) -> dict[str, Any]:
        fields = {name: found._asdict() for name, found in self.rederived.items()}
        return fields.get(UPSTREAM, {"links": fields})

    @property
    def seconds(self) -> float:
        return SECONDS_TO_LAY_OUT * len(self.engine.relay) * len(self.engine.relay.neighbours)

    def read(self) -> dict[str, Relations]:
        return {name: self.engine.relay.derived(name) for name in self.engine.relay.neighbours}

    def apply(self, found: dict[str, Relations]) -> None:
        relay = self.engine.relay
        for name, relations in found.items():
            subscribe, unsubscribe = relay.adopt(name, relations)
            n, slots = len(subscribe), np.concatenate([subscribe, unsubscribe])
            if name == UPSTREAM and self.silent:
                continue
            keys = relay.names.many(slots)
            if name != UPSTREAM:
                op = np.repeat(np.array([SUBSCRIBE, UNSUBSCRIBE], np.uint8), [n, len(slots) - n])
                # What ends has no box, whose zeros are never touched.
                points = np.zeros((len(slots), relay.table.exact.shape[1]))
                points[:n] = relay.table.exact[subscribe]
                self._outgoing.append((name, Outgoing(op, keys, points)))
            if not self.silent:
                ids = shown_column(keys)
                self.changed[name] = RederivedColumns(ids[:n], ids[n:])

    def show(self) -> None:
        for name, outgoing in self._outgoing:
            self.engine.queue(name, outgoing)
        self.engine.bound_queues()


def weight(messages: Sequence[Message]) -> tuple[int, int]:
    """How many notifications there are in messages, and how many bytes of payload."""
    payloads = [len(message.payload or b"") for message in messages if message.op == "notify"]
    return len(payloads), sum(payloads)


def _joined(steps: list[Steps]) -> Steps:
    """Steps concatenated."""
    return Steps(
        np.concatenate([part.op for part in steps]),
        [key for part in steps for key in part.keys],
        np.concatenate([part.points for part in steps]),
        [link for part in steps for link in part.links or [None] * len(part.op)],
        np.concatenate(
            [part.paired if part.paired is not None else np.zeros(len(part.op), np.bool_) for part in steps]
        ),
        all(part.all_begin for part in steps),
    )


def _point(message: Message) -> Floats:
    ends = np.array(message.box, np.float64)
    point: Floats = as_points(ends[None, :, 0], ends[None, :, 1])[0]
    return point
