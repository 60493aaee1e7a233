"""One zone at a gateway: its messages in order, the last of them kept, and the subscriptions that they reach."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any, NamedTuple, Protocol

from pydantic_core import from_json

from app.gateway.broker import Broker, Consumer
from app.gateway.lists import Ranking, Tile
from app.gateway.live import LiveZoned
from app.gateway.readers import Readers
from app.runtime import logs
from app.runtime.broker import subject_of

KEPT, KEPT_BYTES = 4_096, 8 << 20
"""Messages of a zone, and their bytes, that are kept for those who come back."""

BEHIND_SECONDS = 10.0
"""How long a zone may lack a message that NATS has, with none coming, before its readers begin again."""

log = logs.get("gateway")


class Said(NamedTuple):
    """One message of a zone, which NATS got at a `time` in seconds since 1970. Subscriptions that were changed or are
    gone have their seq.
    """

    seq: int
    time: float
    tiles: list[Tile]
    changed: dict[str, int]
    gone: dict[str, int]
    reset: bool

    def reached(self, live: LiveZoned) -> list[Tile]:
        """The tiles that reach a subscription, in order."""
        return [tile for tile in self.tiles if tile.reaches(live.l, live.r, live.k)]

    def breaks(self, live: LiveZoned) -> bool:
        """Whether it says of a subscription what its tiles do not."""
        return self.reset or live.id in self.changed or live.id in self.gone


class Owner(Protocol):
    """What a zone tells its board."""

    epoch: str
    name: str
    ranking: Ranking

    def said(self, zone: Zone, said: Said) -> None: ...
    def missed(self, zone: Zone, through: int) -> None: ...
    def moved(self, zone: Zone, seq: int, version: int | None, reset: bool) -> None: ...
    def board_gone(self, seq: int) -> None: ...


class Zone:
    """A zone under a version. It has all messages up to the seq `at`; those after the seq `floor` are kept."""

    def __init__(self, owner: Owner, broker: Broker, version: int, number: int, base: int) -> None:
        self.version = version
        self.number = number
        self.readers: Readers[LiveZoned] = Readers()
        self.at = self.floor = base
        self.ready = asyncio.Event()
        self.over = False
        self.kept: deque[tuple[int, Said]] = deque()
        self._owner = owner
        self._broker = broker
        self._nbytes = 0
        self._behind: tuple[int, float] | None = None
        """The seq at which it lacked messages that NATS has, and since when."""
        subject = subject_of(owner.epoch, owner.name, version, number)
        self._consumer = Consumer(subject, self._take, self._begun)
        broker.add(self._consumer)

    def close(self) -> None:
        """Follow it no longer."""
        self.over = True
        self._broker.remove(self._consumer)

    def settle(self, published: int, last: int) -> None:
        """NATS has everything up to a seq, and the zone's last message by then had the seq `last`."""
        if not self.ready.is_set() or not self._broker.connected:
            self._behind = None
        elif self.at >= last:
            self.at = max(self.at, published)
            self._behind = None
        elif self._behind is None or self._behind[0] != self.at:
            self._behind = self.at, time.monotonic()
        elif time.monotonic() - self._behind[1] > BEHIND_SECONDS:
            self._behind = None
            log.warning("messages of a zone do not come", subject=self._consumer.subject, at=self.at, last=last)
            self._skip(last)
            self._broker.renew(self._consumer)

    def since(self, seq: int) -> list[Said] | None:
        """The messages after a seq; None where they are not all kept."""
        if seq < self.floor:
            return None
        return [said for _, said in self.kept if said.seq > seq]

    def _begun(self, there: bool) -> None:
        self.ready.set()

    def _skip(self, through: int) -> None:
        """Go on after a seq although messages up to there are not known; who needs them gets a list."""
        self.kept.clear()
        self._nbytes = 0
        self.at = self.floor = through
        self._owner.missed(self, through)

    def left_at(self, seq: int) -> float | None:
        """When, at the earliest, a reader that has everything up to a seq has left; None where that is not known."""
        at = None
        for _, said in self.kept:
            if said.seq > seq:
                return said.time if at is None else at
            at = said.time
        return at

    def _take(self, data: bytes, published_at: float) -> None:
        found: dict[str, Any] = from_json(data, cache_strings="keys")
        seq, prev = int(found["seq"]), int(found["prev"])
        if seq <= self.at:
            return
        owner = self._owner
        if prev > self.at:
            self._skip(prev)
        ranking = owner.ranking
        gone = found.get("gone")
        said = Said(
            seq,
            published_at,
            [ranking.tile(number, tile) for number, tile in enumerate(found["tiles"])],
            found.get("changed") or {},
            gone if isinstance(gone, dict) else {},
            bool(found.get("reset")),
        )
        self.kept.append((len(data), said))
        self._nbytes += len(data)
        while len(self.kept) > KEPT or self._nbytes > KEPT_BYTES:
            size, oldest = self.kept.popleft()
            self._nbytes -= size
            self.floor = oldest.seq
        if gone is True:
            self.at = seq
            owner.board_gone(seq)
        elif "moved" in found:
            self.at = seq
            self.over = True
            owner.moved(self, seq, found["moved"], said.reset)
        else:
            owner.said(self, said)
            self.at = seq
