"""The messages of one board's zones: what was committed becomes one message for each seq and zone, in order.

Slices wait as they come from the engine; they become messages when NATS is there, and leave when it has taken them.
Each message names the seq of the one before it in its zone, so that a reader notices when one is missing.
"""

from __future__ import annotations

import json
import math
import time
from collections import deque
from collections.abc import Mapping
from itertools import groupby
from typing import NamedTuple

from app.rendering.boards import BoardJson
from app.runtime.broker import subject_of
from app.zones.table import ZoneTable
from indexes.boards.results import Painted, Slice, SubscriptionEdit
from indexes.boards.zones import Cut

ROW, EDIT = 320, 120
"""About how many bytes of memory a tile and a changed subscription take while they wait."""

RATE_SECONDS = 60.0
"""Over how long the rate of a zone's messages is taken."""

MOST_IDS = 4_000
"""Changed subscriptions in one message."""


class Message:
    """A message to a zone of one version; `taken` once NATS has it."""

    __slots__ = ("payload", "seq", "subject", "taken", "version", "zone")

    def __init__(self, subject: str, version: int, zone: int, seq: int, payload: bytes) -> None:
        self.subject = subject
        self.version = version
        self.zone = zone
        self.seq = seq
        self.payload = payload
        self.taken = False


class _Ended(NamedTuple):
    """The board was deleted at a seq."""

    last_seq: int


class _Recut(NamedTuple):
    """The board has other zones from a seq on, None for none; with `lost` some messages before are missing."""

    last_seq: int
    cut: Cut | None
    lost: bool


class Chain:
    """The zones of one board as they are published.

    `position` is the seq up to which NATS has everything, `taken` the last seq then of each zone of `taken_version`.
    """

    def __init__(
        self,
        epoch: str,
        name: str,
        cut: Cut,
        write: BoardJson,
        position: int,
        taken: Mapping[int, int] | None = None,
    ) -> None:
        self.name = name
        self.cut: Cut | None = cut
        self.position = position
        self.taken = dict(taken or {})
        self.taken_version = cut.version
        self.ready: deque[Message] = deque()
        """Messages that are not sent on this connection."""
        self.lost = False
        self.known = False
        """Whether it was asked what NATS has of these zones already."""
        self.ended = False
        self.nbytes = 0
        self._epoch = epoch
        self._write = write
        self._last = dict(self.taken)
        self._reached = position
        self._waiting: deque[tuple[int, Slice | _Ended | _Recut]] = deque()
        self._outgoing: deque[Message] = deque()
        self._there: dict[int, int] = {}
        self._rates: dict[int, tuple[float, float]] = {}
        self._table: ZoneTable | None = None

    @property
    def idle(self) -> bool:
        """Whether NATS has all that was committed."""
        return not self._waiting and not self._outgoing and not self.lost

    @property
    def empty(self) -> bool:
        """Whether there are no slices that are no messages yet."""
        return not self._waiting

    @property
    def waiting(self) -> bool:
        """Whether slices can become messages."""
        return bool(self._waiting) and self.known

    def zone_of(self, l: float, r: float) -> int | None:
        """The zone of a subscription; None where there are none."""
        table = self._tables()
        return None if table is None else table.zone_of(l, r)

    def rate(self, zone: int) -> float:
        """The messages of a zone a second, of late."""
        rate, at = self._rates.get(zone, (0.0, 0.0))
        return rate * math.exp((at - time.monotonic()) / RATE_SECONDS) if rate else 0.0

    # --- what is committed ------------------------------------------------------------------------------------------

    def add(self, part: Slice, cut: Cut | None, most: int) -> None:
        """Keep what a slice changed until it is published; past `most` bytes all of it is dropped, and `lost`."""
        if part.recut:
            lost, self.lost = self.lost, False
            self._keep(_Recut(part.last_seq, cut, lost), EDIT)
        if (part.painted or part.edits) and not self.lost:
            rows = sum(len(one.rows.event) + len(one.rows.payload) for one in part.painted)
            texts = sum(len(text) for one in part.painted for text in one.rows.payload if text is not None)
            self._keep(part._replace(changes=[], tiles=[]), ROW * rows // 2 + texts + EDIT * len(part.edits))
        if self.nbytes > most:
            self.lose()

    def end(self, seq: int) -> None:
        """The board was deleted."""
        self.ended = True
        self._keep(_Ended(seq), EDIT)

    def lose(self) -> None:
        """Drop what waits: NATS lacks it for good."""
        self.lost = True
        for queue in (self._waiting, self._outgoing, self.ready):
            queue.clear()
        self.nbytes = 0

    def _keep(self, part: Slice | _Ended | _Recut, size: int) -> None:
        self._waiting.append((size, part))
        self.nbytes += size

    # --- messages ---------------------------------------------------------------------------------------------------

    def subjects(self) -> list[str]:
        """The subjects of the present zones, and of what waits for older ones."""
        cut = self.cut
        present = [] if cut is None else [self._subject(cut, zone) for zone in range(len(cut.zones))]
        return list(dict.fromkeys([*present, *(message.subject for message in self._outgoing)]))

    def learn(self, there: Mapping[str, int]) -> None:
        """Take over the last seq that NATS has of each subject: what it has leaves the queue."""
        self.known = True
        for message in self._outgoing:
            message.taken = message.taken or message.seq <= there.get(message.subject, -1)
        self.ready = deque(message for message in self._outgoing if not message.taken)
        cut = self.cut
        self._there = {}
        for zone in range(0 if cut is None else len(cut.zones)):
            assert cut is not None
            seq = there.get(self._subject(cut, zone))
            if seq is not None:
                self._there[zone] = seq
                self._last[zone] = max(self._last.get(zone, -1), seq)
        self.settle()

    def settle(self) -> None:
        """Let messages go that were taken."""
        outgoing = self._outgoing
        while outgoing and outgoing[0].taken:
            message = outgoing.popleft()
            self.nbytes -= len(message.payload)
            # Others of this seq may wait still.
            self.position = max(self.position, message.seq - 1)
            self._take(message.version, message.zone, message.seq)
        if not outgoing and not self.lost:
            self.position = max(self.position, self._reached)
            if self.cut is not None and self.taken_version != self.cut.version:
                self.taken_version, self.taken = self.cut.version, {}

    def _take(self, version: int, zone: int, seq: int) -> None:
        if version != self.taken_version:
            self.taken_version, self.taken = version, {}
        self.taken[zone] = seq

    def make(self, largest: int, until: float) -> None:
        """Make messages of what waits, until the time is up; one of more than `largest` bytes is a reset instead."""
        while self.waiting and time.perf_counter() < until:
            size, part = self._waiting.popleft()
            self.nbytes -= size
            first = self._reached
            if isinstance(part, _Recut):
                self._move(part)
            elif isinstance(part, _Ended):
                self._say_all(part.last_seq, '"gone":true')
            else:
                for painted in part.painted:
                    self._paint(painted, first, largest)
                if part.edits:
                    self._edit(part.edits, first)
            self._reached = max(self._reached, part.last_seq)
        self.settle()

    def _paint(self, painted: Painted, first: int, largest: int) -> None:
        table = self._tables()
        if table is None:
            return
        rows, write = painted.rows, self._write
        views, events = list(rows.views()), rows.event.tolist()
        texts: list[str] = [""] * len(views)
        pairs = ((painted.first_seq + events[row], zone, row) for row, zone in table.touched(rows.numbers[:, :4]))
        for seq, group in groupby(sorted(pairs), lambda pair: pair[0]):
            if seq <= first:
                continue
            for zone, mine in groupby(group, lambda pair: pair[1]):
                if seq <= self._there.get(zone, -1):
                    continue
                tiles = []
                for _, _, row in mine:
                    texts[row] = texts[row] or write.tile(views[row][1])
                    tiles.append(texts[row])
                body = f'"tiles":[{",".join(tiles)}]'
                if len(body) > largest:
                    body = '"tiles":[],"reset":true'
                self._say(zone, seq, body)

    def _edit(self, edits: tuple[SubscriptionEdit, ...], first: int) -> None:
        """Name the subscriptions that were changed or deleted in the zones where they were and where they are."""
        table = self._tables()
        if table is None:
            return
        by_zone: dict[int, dict[str, dict[str, int]]] = {}
        for edit in edits:
            if edit.seq <= first:
                continue
            there = {table.zone_of(*edit.before)} | ({table.zone_of(*edit.after)} if edit.after is not None else set())
            for zone in there:
                named = by_zone.setdefault(zone, {"changed": {}, "gone": {}})
                named["gone" if edit.after is None else "changed"][edit.id] = edit.seq
                if len(named["gone"]) >= MOST_IDS:
                    self._name(zone, by_zone.pop(zone))
        for zone, named in by_zone.items():
            self._name(zone, named)

    def _name(self, zone: int, named: dict[str, dict[str, int]]) -> None:
        seq = max(seq for ids in named.values() for seq in ids.values())
        if seq > self._there.get(zone, -1):
            said = {what: ids for what, ids in named.items() if ids}
            self._say(zone, seq, f'"tiles":[],{json.dumps(said, separators=(",", ":"))[1:-1]}')

    def _move(self, part: _Recut) -> None:
        """End the zones so far with the version that follows."""
        before, self.cut = self.cut, part.cut
        if part.last_seq > self._reached or part.lost:
            version = "null" if part.cut is None else str(part.cut.version)
            body = f'"moved":{version}' + (',"reset":true' if part.lost else "")
            self._say_all(part.last_seq, body, before)
        self._last, self._there, self._table, self._rates = {}, {}, None, {}
        self.known = False

    def _say_all(self, seq: int, body: str, cut: Cut | None = None) -> None:
        cut = cut or self.cut
        for zone in range(0 if cut is None else len(cut.zones)):
            if seq > self._there.get(zone, -1):
                self._say(zone, seq, f'"tiles":[],{body}', cut)

    def _say(self, zone: int, seq: int, body: str, cut: Cut | None = None) -> None:
        cut = cut or self.cut
        assert cut is not None
        prev = self._last.get(zone, cut.seq)
        message = Message(
            self._subject(cut, zone), cut.version, zone, seq, f'{{"seq":{seq},"prev":{prev},{body}}}'.encode()
        )
        self._outgoing.append(message)
        self.ready.append(message)
        self.nbytes += len(message.payload)
        self._last[zone] = seq
        rate, at = self._rates.get(zone, (0.0, 0.0))
        now = time.monotonic()
        self._rates[zone] = rate * math.exp((at - now) / RATE_SECONDS) + 1 / RATE_SECONDS, now

    def _subject(self, cut: Cut, zone: int) -> str:
        return subject_of(self._epoch, self.name, cut.version, zone)

    def _tables(self) -> ZoneTable | None:
        if self._table is None and self.cut is not None:
            self._table = ZoneTable(self.cut)
        return self._table
