"""Maintenance of a relay: copying its state, and putting freshly packed indexes in place."""

from __future__ import annotations

from typing import NamedTuple

from indexes.core import maintenance
from indexes.relays.config import RelayConfig
from indexes.relays.inbox import Inbox
from indexes.relays.outbox import OutboxState
from indexes.relays.relay import Copied, Relay
from indexes.relays.store import RelayStore

FOLD = 1_000
"""Steps that are folded in at once: some milliseconds."""


class Captured(NamedTuple):
    """A relay as copied from memory at `seq`. With indexes, `relay` is a copy without ids, for verification."""

    config: RelayConfig
    seq: int
    copied: Copied
    ttl: dict[str, float]
    outboxes: dict[str, OutboxState]
    inboxes: dict[str, Inbox]
    relay: Relay | None


class CapturePlan(maintenance.CapturePlan[RelayStore, Captured]):
    """Copies the state of a relay."""

    @property
    def seconds(self) -> float:
        engine = self.engine
        queued = sum(map(len, engine.outboxes.values()))
        return (5e-10 + 1e-9 * self._with_indexes) * engine.relay.nbytes + 5e-8 * len(engine.relay) + 1e-7 * queued

    def read(self) -> Captured:
        engine = self.engine
        return Captured(
            config=engine.config,
            seq=engine.seq,
            copied=engine.relay.copied(),
            ttl=engine.ttl.copy(),
            outboxes={name: box.state() for name, box in engine.outboxes.items()},
            inboxes=engine.inboxes.copy(),
            relay=engine.relay.frozen() if self._with_indexes else None,
        )

    def begin_journal(self) -> None:
        self.engine.relay.begin_journal()


class FoldPlan(maintenance.FoldPlan[RelayStore]):
    """Brings a relay that was made of a capture up to date, and puts it in place. It is `abandoned` also where too much
    has changed."""

    def __init__(self, engine: RelayStore, fresh: Relay) -> None:
        super().__init__(engine)
        self._fresh = fresh

    def _fold(self, budget: float) -> None:
        journal = self.engine.relay.journal
        if journal is None:
            self.abandoned = True
            return
        done = 0
        while journal and done < FOLD:
            change, of, size = journal.popleft()
            self._fresh.replay(change, of)
            done += size
        names = self._fresh.names
        if names.crowded:
            names.swap(names.merged())
        self.swapped = not journal

    def _swap(self) -> None:
        self.engine.relay = self._fresh
