"""Accepted commands about links on their way: messages that came, links that change, queues that are acknowledged or
begin anew. See `plans.py`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from indexes.names import Names
from indexes.plan import LONG, AsidePlan
from indexes.plan import Plan as AnyPlan
from indexes.relays.commands import Acked, ChangeLinks, Receive, Rederive, Restart, Standing
from indexes.relays.forward import SUBSCRIBE, UNSUBSCRIBE
from indexes.relays.inbox import Inbox
from indexes.relays.model import (
    TRAVELLED,
    UPSTREAM,
    Anew,
    Changed,
    Delivery,
    Message,
    Notified,
    RelayConfig,
    Slice,
    shown,
    shown_column,
)
from indexes.relays.outbox import Chunk, Outbox, said
from indexes.relays.plans import SECONDS_A_STEP, Ahead, ChangePlan, replaced
from indexes.relays.points import as_points
from indexes.relays.relations import Relations
from indexes.relays.relay import Outgoing, Ran, Relay, Steps

if TYPE_CHECKING:
    from indexes.relays.engine import RelayEngine

Float64 = npt.NDArray[np.float64]

SECONDS_TO_LAY_OUT = 5e-6
"""What laying out the relations of a neighbour costs for each subscription."""

FEW = 250
"""Subscriptions that end at once where they lie, and by their ids one by one."""

SECONDS_TO_SAY = 1e-6
"""What saying a subscription again costs."""


class ReceivePlan(ChangePlan):
    """Messages that came over a link, applied in order: subscriptions some at a time, then notifications, and so on.
    `had` says which notifications were had before. `epoch` is ours, `next` the number that is expected next."""

    command: Receive

    def __init__(
        self, engine: RelayEngine, command: Receive, had: list[bool], inbox: Inbox, epoch: str | None, before: Ahead
    ) -> None:
        super().__init__(engine, command, len(command), before)
        self.epoch = epoch
        self.next = inbox.next
        self._had = had
        self._inbox = inbox
        self._painted = 0
        self._settled = 0
        self._told_now: list[tuple[int, Delivery]] = []
        self._swept: list[str] = []
        self._done_with: list[str] = []
        self._weight = weight(command.messages)
        engine.expect(*self._weight)

    def told(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "next": self.next}

    @property
    def work(self) -> float:
        waits = self._beside is not None or (self.engine.relay.names.crowded and self._merged is None)
        return LONG if waits else self._seconds_a_step * (self.count - self._painted)

    def paint(self, budget: float) -> None:
        if not self._has_room(budget) or self._painted == self.count:
            return
        begin, messages = self._painted, self.command.messages
        end = min(self.count, begin + max(1, int(budget / self._seconds_a_step)))
        op = messages[begin].op
        if op == "reset":
            self._painted = begin + 1
            self.engine.relay.doubt(self.command.link, TRAVELLED)
            self._follow(messages[begin].follow)
            return
        same = ("notify",) if op == "notify" else ("subscribe", "unsubscribe")
        upto = begin
        while upto < end and messages[upto].op in same:
            upto += 1
        # What was not said again after a reset goes with the last message that follows it.
        left = self.engine.left(self.command.link)
        upto = min(upto, begin + left) if left else upto
        self._painted = upto
        if op == "notify":
            self._match(begin, upto)
        else:
            self._change(begin, upto)
        if left:
            self._follow(left - (upto - begin))

    def _follow(self, left: int) -> None:
        """So many messages are left of what follows a reset."""
        relay, link = self.engine.relay, self.command.link
        self.engine.resync(link, left)
        swept = relay.doubted(link) if not left else []
        if swept:
            self._swept = [key for key in swept if key in self.engine.ttl or key in self.engine.watched]
            self._run(Steps.ends(swept, 2 * len(self.engine.config.attributes)))
            if len(swept) > FEW:
                self._rename()

    def _match(self, begin: int, upto: int) -> None:
        new = [i for i in range(begin, upto) if not self._had[i]]
        if new:
            values = np.array([self.command.messages[i].values for i in new], np.float64)
            found = self.engine.deliveries(values, [self.command.link] * len(new), self.silent)
            self._told_now = list(zip(new, found, strict=True))

    def _change(self, begin: int, upto: int) -> None:
        """Subscriptions that begin and end. One that stands already as it is said is confirmed."""
        relay, link = self.engine.relay, self.command.link
        now: dict[str, Standing | None] = {}
        steps: list[Steps] = []
        confirmed: list[str] = []
        for message in self.command.messages[begin:upto]:
            key = TRAVELLED + message.id
            before = now[key] if key in now else self.engine.settled(key)
            if message.op == "subscribe":
                after = Standing(_point(message), link, None)
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
            self._run(_joined(steps))
        self._done_with = [key for key, standing in now.items() if standing is None]

    def settle(self) -> Slice | None:
        engine, lo, hi = self.engine, self._settled, self._painted
        if lo == hi:
            return None
        self._show()
        told: list[Notified] = []
        for i, delivery in self._told_now:
            message = self.command.messages[i]
            told += engine.deliver(self.first_seq + i, message.values, message.payload, delivery)
        gone: list[tuple[int, str]] = []
        self._forget(self.first_seq + hi - 1, self._done_with + self._swept, gone)
        self._told_now, self._swept, self._done_with = [], [], []
        self._settled = hi
        engine.seq = self.first_seq + hi - 1
        if hi == self.count:
            self.done = True
            engine.inboxes[self.command.link] = self._inbox
            engine.relay.release(self._gone)
            engine.bound_queues()
            engine.expect(-self._weight[0], -self._weight[1])
        else:
            # Between two slices, what is known of the neighbour is as exact as all else.
            last = self.command.messages[hi - 1].n
            before = engine.inboxes[self.command.link]
            engine.inboxes[self.command.link] = before._replace(epoch=self.command.epoch, next=last + 1)
        return self._told(told, gone)

    def cancel(self) -> None:
        self.engine.expect(-self._weight[0], -self._weight[1])
        super().cancel()


class Relinked(NamedTuple):
    """What links that change come to, before it is seen: what came over those that go has ended (`ran`), with these
    slots, neighbours have to hear of it, and `names` are left; None where so few go that it is done by id."""

    ran: Ran
    slots: list[int]
    outgoing: list[tuple[str, Outgoing | Chunk]]
    names: Names | None


class Prepared(NamedTuple):
    """The relations of neighbours that begin. Where much goes, it has gone in a copy of the relay `aside`, with what
    that came to."""

    begun: dict[str, Relations]
    aside: Relay | None = None
    relinked: Relinked | None = None


class LinksPlan(AsidePlan["RelayEngine", Prepared]):
    """Links added, changed and taken out, the latter with what came over them: all of that goes in the same moment."""

    command: ChangeLinks

    def __init__(
        self, engine: RelayEngine, command: ChangeLinks, config: RelayConfig, veil: int, before: Ahead
    ) -> None:
        super().__init__(engine, command, 1)
        self._config = config
        self._before = before
        self._veil = veil
        now = before.config.links
        self._removed = [name for name, link in command.links.items() if link is None]
        self._added = [name for name, link in command.links.items() if link is not None and name not in now]
        self._relinked: Relinked | None = None
        self._limited: list[str] = []
        self._live: list[str] = []

    def lifetimes(self) -> Iterator[tuple[str, float | None]]:
        """The ids of what has gone that had a time limit, each with None: see `EditPlan.lifetimes`."""
        return ((key, None) for key in self._limited)

    @property
    def seconds(self) -> float:
        lays_out = len(self._added) + bool(self._removed)
        return (SECONDS_TO_LAY_OUT * lays_out + SECONDS_A_STEP * bool(self._removed)) * len(self.engine.relay)

    def look(self) -> Prepared:
        relay = self.engine.relay
        begun = relay.begin(self._removed, self._added)
        if relay.came_over(self._removed) <= FEW:
            return Prepared(begun)
        aside = relay.aside()
        return Prepared(begun, aside, self._relink(aside, begun))

    def take(self, found: Prepared) -> None:
        relay = self.engine.relay
        if found.aside is not None:
            relay.take_over(found.aside, self._removed, self._added)
            self._relinked = found.relinked
        elif self._removed or self._added:
            self._relinked = self._relink(relay, found.begun)
        if self._relinked is not None:
            keys = self._relinked.ran.steps.keys
            self._limited = [key for key in keys if key in self.engine.ttl]
            self._live = [key for key in keys if key in self.engine.watched]
            if self._relinked.names is not None:
                # Many are let go here, in the thread of the kernels, rather than when they are done with.
                keys.clear()

    def _relink(self, relay: Relay, begun: dict[str, Relations]) -> Relinked:
        ran = relay.change_links(self._removed, self._added, begun)
        outgoing = [(name, said(relay.outgoing(ran, name))) for name in ran.told if name != UPSTREAM]
        names = relay.names_after([ran]) if len(ran.slots) > FEW else None
        return Relinked(ran, ran.gone, outgoing, names)

    def show(self) -> Slice | None:
        engine, gone = self.engine, []
        if self._relinked is not None:
            found, self._relinked = self._relinked, None
            if found.names is not None:
                engine.relay.names = found.names
            else:
                engine.relay.commit(found.ran)
            engine.relay.release(found.slots)
            for key in self._limited:
                del engine.ttl[key]
            gone = [(self.last_seq, shown(key)) for key in self._live if key in engine.watched]
            engine.watched.difference_update(self._live)
            for name in self._removed:
                del engine.outboxes[name], engine.inboxes[name]
            for name, outgoing in found.outgoing:
                engine.tell(name, outgoing)
        for name in self._added:
            engine.outboxes[name], engine.inboxes[name] = Outbox(2 * len(self._config.attributes)), Inbox()
        before = engine.config.links
        for name, link in self.command.links.items():
            if link is not None and name in before and not link.same_peer(before[name]):
                engine.outboxes[name].spoil()
        engine.bound_queues()
        engine.config = self._config
        engine.unveil(self._veil)
        return Slice(engine.seq, [], gone) if gone and not self.silent else None

    def cancel(self) -> None:
        self.engine.ahead = self._before
        self.engine.unveil(self._veil)
        super().cancel()


class AckedPlan(AnyPlan["RelayEngine"]):
    """A neighbour has what it was sent."""

    command: Acked

    def __init__(self, engine: RelayEngine, command: Acked) -> None:
        super().__init__(engine, command, 1)

    def paint(self, budget: float) -> None:
        """There is nothing to paint."""

    def settle(self) -> None:
        if not self.done:
            box = self.engine.outboxes[self.command.link]
            if box.epoch == self.command.epoch and not box.stale:
                box.acknowledge(self.command.next)
            self.engine.seq = self.last_seq
            self.done = True


class RestartPlan(AsidePlan["RelayEngine", Outbox]):
    """A queue begins a new epoch."""

    command: Restart

    def __init__(self, engine: RelayEngine, command: Restart, before: Ahead) -> None:
        super().__init__(engine, command, 1)
        self._before = before
        self._found: Outbox | None = None

    @property
    def seconds(self) -> float:
        return SECONDS_TO_SAY * (len(self.engine.relay) + len(self.engine.outboxes[self.command.link]))

    def look(self) -> Outbox:
        link = self.command.link
        return self.engine.outboxes[link].begun(self.command.epoch, *self.engine.relay.forwards(link))

    def take(self, found: Outbox) -> None:
        self._found = found

    def show(self) -> None:
        assert self._found is not None, "it is shown once"
        self.engine.outboxes[self.command.link], self._found = self._found, None

    def cancel(self) -> None:
        self.engine.ahead = self._before
        super().cancel()


class RederivePlan(AsidePlan["RelayEngine", dict[str, Relations]]):
    """The least that covers everything, found anew for every neighbour. `changed` says what each has to be told, unless
    nobody asks."""

    command: Rederive

    def __init__(self, engine: RelayEngine, command: Rederive) -> None:
        super().__init__(engine, command, 1)
        self.changed: dict[str, Changed] = {}
        self._outgoing: list[tuple[str, Outgoing]] = []

    @property
    def anew(self) -> dict[str, Anew]:
        """As `changed`, with a string for each id."""
        return {name: Anew(new.to_pylist(), old.to_pylist()) for name, (new, old) in self.changed.items()}

    def told(self) -> dict[str, Any]:
        told = {name: anew._asdict() for name, anew in self.anew.items()}
        return told.get(UPSTREAM, {"links": told})

    @property
    def seconds(self) -> float:
        return SECONDS_TO_LAY_OUT * len(self.engine.relay) * len(self.engine.relay.neighbours)

    def look(self) -> dict[str, Relations]:
        return {name: self.engine.relay.derived(name) for name in self.engine.relay.neighbours}

    def take(self, found: dict[str, Relations]) -> None:
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
                self.changed[name] = Changed(ids[:n], ids[n:])

    def show(self) -> None:
        for name, outgoing in self._outgoing:
            self.engine.tell(name, outgoing)
        self.engine.bound_queues()


def weight(messages: Sequence[Message]) -> tuple[int, int]:
    """How many notifications there are in messages, and how many bytes of payload."""
    payloads = [len(message.payload or b"") for message in messages if message.op == "notify"]
    return len(payloads), sum(payloads)


def _joined(steps: list[Steps]) -> Steps:
    """Steps one behind the other."""
    return Steps(
        np.concatenate([part.op for part in steps]),
        [key for part in steps for key in part.keys],
        np.concatenate([part.points for part in steps]),
        [link for part in steps for link in part.links or [None] * len(part.op)],
        np.concatenate(
            [part.paired if part.paired is not None else np.zeros(len(part.op), np.bool_) for part in steps]
        ),
    )


def _point(message: Message) -> Float64:
    ends = np.array(message.box, np.float64)
    point: Float64 = as_points(ends[None, :, 0], ends[None, :, 1])[0]
    return point
