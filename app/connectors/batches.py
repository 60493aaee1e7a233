"""What waits to be sent, and how it is cut into requests. No I/O."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from app.connectors.mapping.reading import Read
from app.connectors.messages import Span


@dataclass(frozen=True, slots=True)
class Limits:
    """The most of one request, in events and bytes, and how many requests wait before the source is read no further."""

    events: int = 1_000
    bytes: int = 8 << 20
    ahead: int = 4


@dataclass(frozen=True, slots=True)
class Batch:
    """The messages of one request, in order. One that is `again` may have been sent before."""

    span: Span
    reads: Sequence[Read]
    again: bool = False

    @property
    def events(self) -> list[str]:
        """The events of all messages, as JSON."""
        return [event for read in self.reads for event in read.events]

    def halves(self) -> tuple[Batch, Batch]:
        """Two batches in place of one that was refused whole."""
        middle = len(self.reads) // 2
        return _batch(self.span, self.reads[:middle]), _batch(self.span, self.reads[middle:])


def _batch(span: Span, reads: Sequence[Read]) -> Batch:
    return Batch(Span(span.lane, reads[0].message.position, reads[-1].message.position, span.term), reads)


@dataclass(slots=True)
class _Lane:
    """What waits of one lane: first what may have been sent before, as one request, then messages."""

    again: Batch | None
    reads: deque[Read]
    term: int


def cut(reads: Iterable[Read], limits: Limits) -> int:
    """How many of these messages, from the first, make up one request: one at the least."""
    count = events = size = 0
    for read in reads:
        events += max(1, len(read.events))
        size += read.size
        if count and (events > limits.events or size > limits.bytes):
            break
        count += 1
    return count


class Waiting:
    """Messages between a source and the service: bounded, in order within each lane, the lanes in turn."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.messages = 0
        self._bytes = 0
        self._lanes: dict[str, _Lane] = {}
        self._drops: Counter[str] = Counter()
        self._changed = asyncio.Event()
        self._ended = False

    @property
    def full(self) -> bool:
        """Whether the source is to be read no further for now."""
        ahead = self.limits.ahead
        return self.messages >= ahead * self.limits.events or self._bytes >= ahead * self.limits.bytes

    def put(self, lane: str, reads: Sequence[Read], span: Span | None = None, term: int = 0) -> None:
        """Add messages of a lane. With a `span` they go out as that request, before what else waits of the lane."""
        found = self._lanes.setdefault(lane, _Lane(None, deque(), term))
        found.term = term
        if span is not None:
            found.again = Batch(span, tuple(reads), again=True)
        else:
            found.reads.extend(reads)
        self._count(reads, 1)

    def take(self) -> Batch | None:
        """The next request; None where nothing waits."""
        for lane, found in list(self._lanes.items()):
            # What is taken from goes behind the others.
            del self._lanes[lane]
            if found.again is not None:
                batch, found.again = found.again, None
            elif found.reads:
                count = cut(found.reads, self.limits)
                reads = [found.reads.popleft() for _ in range(count)]
                batch = _batch(Span(lane, "", "", found.term), reads)
            else:
                continue
            self._lanes[lane] = found
            self._count(batch.reads, -1)
            return batch
        return None

    def drop(self, lanes: Iterable[str]) -> None:
        """Forget what waits of these lanes, which others read from now on."""
        for lane in lanes:
            self._drops[lane] += 1
            found = self._lanes.pop(lane, None)
            if found is not None:
                self._count((*(found.again.reads if found.again else ()), *found.reads), -1)

    def drops(self, lane: str) -> int:
        """How often a lane was dropped: messages that were read before must not be put after."""
        return self._drops[lane]

    def end(self) -> None:
        """Nothing more will be put."""
        self._ended = True
        self._changed.set()

    async def room(self) -> None:
        """Wait until the source may be read further."""
        while self.full:
            self._changed.clear()
            await self._changed.wait()

    async def next(self) -> Batch | None:
        """The next request, when there is one; None at the end."""
        while True:
            batch = self.take()
            if batch is not None or self._ended:
                return batch
            self._changed.clear()
            await self._changed.wait()

    def _count(self, reads: Iterable[Read], sign: int) -> None:
        for read in reads:
            self.messages += sign
            self._bytes += sign * read.size
        self._changed.set()
