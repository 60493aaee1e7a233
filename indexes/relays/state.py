"""The state of a relay by column: what a snapshot holds, and what a relay is restored from."""

from __future__ import annotations

from typing import NamedTuple

from indexes.relays.config import RelayConfig
from indexes.relays.engine import RelayEngine
from indexes.relays.inbox import Inbox
from indexes.relays.layout import lay_out
from indexes.relays.outbox import Outbox, OutboxState
from indexes.relays.packing import PackedRelay
from indexes.relays.plans.maintenance import Captured
from indexes.relays.relay import Indexes, Relay, RelayState, in_order


class State(NamedTuple):
    """A relay at `seq`: its subscriptions in order of creation, lifetimes in seconds by id, and both ends of links."""

    config: RelayConfig
    seq: int
    relay: RelayState
    ttl: dict[str, float]
    outboxes: dict[str, OutboxState]
    inboxes: dict[str, Inbox]


def state_of(captured: Captured) -> State:
    """Order a capture by creation, in any thread. O(n log n)."""
    c = captured
    return State(c.config, c.seq, in_order(c.copied), c.ttl, c.outboxes, c.inboxes)


def relay_of(state: State, indexes: Indexes | None = None) -> Relay:
    """The subscriptions of a state, over these indexes, which become part of it. See `Relay.from_state`."""
    return Relay.from_state(state.config, state.relay, indexes)


def packed_of(state: State) -> PackedRelay:
    """The indexes of a state, laid out and packed. O(n log^2 n)."""
    return lay_out(state.config, state.relay.points, state.relay.link)


def engine_of(state: State, indexes: Indexes | None = None) -> RelayEngine:
    """The engine in that state; see `relay_of`."""
    engine = RelayEngine(state.config, state.seq, relay_of(state, indexes))
    engine.ttl = state.ttl.copy()
    engine.outboxes = {name: Outbox.of(box) for name, box in state.outboxes.items()}
    engine.inboxes = state.inboxes.copy()
    engine.reset_pending_links()
    return engine
