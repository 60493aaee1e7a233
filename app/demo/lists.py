"""The lists that the demo shows, received from the service as any reader receives them: over one WebSocket."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from app.demo.player import BOARD, band_id
from app.demo.tally import Count
from rankcast_client import AsyncRankcast, Change, Entry, Gone, ProblemError, Reset, Snapshot, Unreachable
from rankcast_client.ws import Message, Refused

SHOWN_K = 5
BANDS: tuple[tuple[int | None, int | None], ...] = (
    (500, 1_000),
    (None, 500),
    (1_000, 1_500),
    (1_500, 2_000),
    (2_000, None),
    (None, None),
)
"""The bands of distance whose lists are shown; a small screen shows the first of them."""

FRESH_SECONDS = 0.75
RETRY_SECONDS = 1.0
NOT_FOUND = 404

State = Literal["waiting", "live", "deleted", "ended"]


@dataclass
class Band:
    """One band of distance: its subscription, its list as received, and when each entry came or got new values."""

    low: int | None
    high: int | None
    state: State = "waiting"
    entries: tuple[Entry, ...] = ()
    since: dict[str, float] = field(default_factory=dict, repr=False)

    @property
    def id(self) -> str:
        """The id of its subscription."""
        return band_id(self.low, self.high, SHOWN_K)

    @property
    def title(self) -> str:
        """The band in words.

        >>> [Band(500, 1000).title, Band(None, 500).title, Band(2000, None).title, Band(None, None).title]
        ['500 to 1,000 miles', 'up to 500 miles', '2,000 miles and more', 'any distance']
        """
        match self.low, self.high:
            case None, None:
                return "any distance"
            case None, high:
                return f"up to {high:,} miles"
            case low, None:
                return f"{low:,} miles and more"
        return f"{self.low:,} to {self.high:,} miles"


class Lists:
    """The lists of the shown bands, kept by the changes that the service sends.

    `changes` counts the changes received. `first_seen` is called once, with the time of `clock` at which the first list
    with an entry in it came.
    """

    def __init__(
        self,
        changes: Count,
        first_seen: Callable[[float], None],
        bands: Sequence[tuple[int | None, int | None]] = BANDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.bands = [Band(low, high) for low, high in bands]
        self._of = {band.id: band for band in self.bands}
        self._changes = changes
        self._first_seen: Callable[[float], None] | None = first_seen
        self._clock = clock

    async def follow(self, client: AsyncRankcast) -> str:
        """Receive until the service refuses to send; return why.

        A lost connection is made again and each list continues where it was.
        """
        try:
            while True:
                try:
                    await self._receive(client)
                except Unreachable:
                    await asyncio.sleep(RETRY_SECONDS)
        except ProblemError as problem:
            return str(problem)
        finally:
            for band in self.bands:
                if band.state != "deleted":
                    band.state = "ended"

    async def _receive(self, client: AsyncRankcast) -> None:
        async with client.socket() as socket:
            for band in self.bands:
                if band.state != "deleted":
                    await socket.subscribe(BOARD, band.id)
            async for message in socket:
                self.take(message)

    def take(self, message: Message) -> None:
        """Apply one message of the socket."""
        band = self._of[message.id]
        event = message.event
        now = self._clock()
        if isinstance(event, Gone) or (isinstance(event, Refused) and event.problem.status == NOT_FOUND):
            band.state, band.entries = "deleted", ()
            return
        if isinstance(event, Refused):
            band.state = "ended"
            return
        if isinstance(event, Change):
            self._changes.add(1)
            band.since.update((change.id, now) for change in event.changes)
        elif not isinstance(event, Snapshot | Reset):
            return
        band.state, band.entries = "live", message.list
        here = {entry.id for entry in message.list}
        band.since = {id: since for id, since in band.since.items() if id in here}
        if self._first_seen is not None and band.entries:
            self._first_seen(now)
            self._first_seen = None

    def fresh(self, band: Band) -> frozenset[str]:
        """The entries of the band that came or got new values within the last FRESH_SECONDS."""
        now = self._clock()
        return frozenset(id for id, since in band.since.items() if now - since < FRESH_SECONDS)
