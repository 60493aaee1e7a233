"""The state of a relay's engine, as its plans work on it."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from indexes.core.arrays import Floats
from indexes.core.plan import Plan
from indexes.core.subscription_engine import SubscriptionStore
from indexes.relays.commands import SubscriptionState
from indexes.relays.config import RelayConfig
from indexes.relays.inbox import Inbox
from indexes.relays.outbox import Chunk, Outbox
from indexes.relays.recipients import Recipients, live_recipients
from indexes.relays.relay import Outgoing, Relay
from indexes.relays.results import Delivery, Notified


class PendingLinks(NamedTuple):
    """The links as they will be when everything accepted has been applied: the configuration, the inboxes, and our
    epochs."""

    config: RelayConfig
    inboxes: dict[str, Inbox]
    epochs: dict[str, str | None]


class RelayStore(SubscriptionStore[SubscriptionState]):
    """A relay with its seqs, lifetimes, live subscriptions, the queues of its links, and pending state. `ahead` is the
    pending state of links."""

    def __init__(self, config: RelayConfig, first_seq: int = 0, relay: Relay | None = None) -> None:
        super().__init__(first_seq)
        self.config = config
        self.relay = relay if relay is not None else Relay(config, config.links)
        self.outboxes = {name: Outbox(2 * len(config.attributes)) for name in config.links}
        self.inboxes = {name: Inbox() for name in config.links}
        self.ahead = PendingLinks(config, {}, {})
        self.reset_pending_links()
        self.seconds_per_notification = 2e-5
        self.recipients_per_notification = math.inf
        """On average, of late; infinite until there was a notification."""
        self._removals: list[tuple[int, frozenset[str]]] = []
        self._waiting = (0, 0)

    def reset_pending_links(self) -> None:
        """Make the pending state of links the applied one."""
        epochs = {name: box.epoch for name, box in self.outboxes.items()}
        self.ahead = PendingLinks(self.config, self.inboxes.copy(), epochs)

    def settled(self, key: str) -> SubscriptionState | None:
        """The applied state of a subscription, by its key."""
        if self.relay.names.find(key) < 0:
            return None
        return SubscriptionState(self.relay.point(key), self.relay.link(key), self.ttl.get(key))

    def end_removal(self, owner: int) -> None:
        """A command that removes links is done or cancelled: its pending removals no longer count."""
        self._removals = [removal for removal in self._removals if removal[0] != owner]

    def expect(self, notifications: int, size: int) -> None:
        """Count notifications, with the bytes of their payloads, that accepted plans will queue for links."""
        self._waiting = self._waiting[0] + notifications, self._waiting[1] + size

    def queue(self, link: str, outgoing: Outgoing | Chunk) -> None:
        """Queue messages about subscriptions for a link."""
        self.outboxes[link].queue(outgoing)

    def bound_queues(self) -> None:
        """After each command: drop subscriptions from queues that hold too many. Within a command the outcome would
        depend on its slices."""
        for name, box in self.outboxes.items():
            box.bound(self.relay.forwarded_count(name)[0])

    def met(self, values: Floats, origin: Sequence[str | None] | None, links_alone: bool = False) -> Recipients:
        """The recipients of notifications, by column. Updates the estimates of notifications."""
        began = time.perf_counter()
        found = self.relay.met(values, origin, links_alone)
        if len(values) and not links_alone:
            spent = (time.perf_counter() - began) / len(values)
            self.seconds_per_notification += 0.2 * (spent - self.seconds_per_notification)
            each, before = len(found.slots) / len(values), self.recipients_per_notification
            self.recipients_per_notification = each if before == math.inf else before + 0.2 * (each - before)
        return found

    def live_recipients(self, met: Recipients) -> dict[int, list[str]]:
        """The live subscriptions among the recipients of each notification, by its place. Between two slices or during
        one."""
        return live_recipients(self.relay.names, list(self.watched), met) if self.watched else {}

    def deliveries(self, values: Floats, origin: Sequence[str | None] | None, links_alone: bool) -> list[Delivery]:
        """The recipients of notifications that matter to streams and links: links and, unless `links_alone`, live
        subscriptions."""
        if links_alone and not self.outboxes:
            return [Delivery([], [])] * len(values)
        met = self.met(values, origin, links_alone or not self.watched)
        live = self.live_recipients(met)
        return [Delivery(live.get(e, []), list(links)) for e, links in enumerate(met.links)]

    def deliver(self, seq: int, values: tuple[float, ...], payload: bytes | None, delivery: Delivery) -> list[Notified]:
        """Queue a notification for links; returns the notifications of live subscriptions."""
        for name in delivery.links:
            self.outboxes[name].notify(values, payload)
        named = dict(zip(self.config.attributes, values, strict=True))
        if not self.watched:
            return []
        return [Notified(seq, key, named, payload) for key in delivery.subscriptions if key in self.watched]

    def left(self, link: str) -> int:
        """How many of the messages that follow a reset are still to come from a neighbour."""
        return self.inboxes[link].left

    def resync(self, link: str, left: int) -> None:
        """Set how many of the messages that follow a reset are still to come."""
        self.inboxes[link] = self.inboxes[link]._replace(left=left)


RelayPlan: TypeAlias = Plan[RelayStore]
