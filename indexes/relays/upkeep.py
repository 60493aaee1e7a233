"""Work on a whole relay between its commands: copying its state, and putting indexes that were laid out anew in place.

Both are plans, so that they have their turn in the relay's queue: what was accepted before them has been applied, what
comes after has not, and reads go on meanwhile. Neither changes any decision, and neither is logged.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from indexes.plan import AsidePlan, Plan
from indexes.relays.inbox import Inbox
from indexes.relays.model import RelayConfig
from indexes.relays.outbox import OutboxState
from indexes.relays.relay import Copied, Relay

if TYPE_CHECKING:
    from indexes.relays.engine import RelayEngine

FOLD = 1_000
"""Steps that are folded in at once: some milliseconds."""


class Captured(NamedTuple):
    """A relay as it lay in memory at `seq`. `relay` is a copy without ids, to ask, where indexes were asked for."""

    config: RelayConfig
    seq: int
    copied: Copied
    ttl: dict[str, float]
    outboxes: dict[str, OutboxState]
    inboxes: dict[str, Inbox]
    relay: Relay | None


class CapturePlan(AsidePlan["RelayEngine", Captured]):
    """Copies the state of a relay. With `journal` the relay notes from then on what changes, for a `FoldPlan`."""

    def __init__(self, engine: RelayEngine, journal: bool = False, indexes: bool = False) -> None:
        super().__init__(engine, None, 0)
        self._with_journal = journal
        self._with_indexes = indexes
        self.captured: Captured | None = None

    @property
    def seconds(self) -> float:
        engine = self.engine
        queued = sum(map(len, engine.outboxes.values()))
        return (5e-10 + 1e-9 * self._with_indexes) * engine.relay.nbytes + 5e-8 * len(engine.relay) + 1e-7 * queued

    def look(self) -> Captured:
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

    def take(self, found: Captured) -> None:
        self.captured = found
        if self._with_journal:
            self.engine.relay.begin_journal()

    def show(self) -> None:
        """Nothing has changed."""


class FoldPlan(Plan["RelayEngine"]):
    """Brings a relay made of what was captured up to date with what changed since, and puts it in place once nothing is
    left (`swapped`). Otherwise another plan goes on. It is `abandoned` where nobody noted what changes, or there was
    too much. `seconds` is what painting took."""

    def __init__(self, engine: RelayEngine, fresh: Relay) -> None:
        super().__init__(engine, None, 0)
        self.swapped = False
        self.abandoned = False
        self.seconds = 0.0
        self._fresh = fresh

    @property
    def work(self) -> float:
        return 1.0

    def paint(self, budget: float) -> None:
        began = time.perf_counter()
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
        self.seconds = time.perf_counter() - began

    def settle(self) -> None:
        if self.swapped:
            self.engine.relay = self._fresh
        self.done = True
