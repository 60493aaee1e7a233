"""From a source to the service: reads ahead, sends one request after the other, and acknowledges what is answered."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from app.connectors.batches import Batch, Limits, Waiting
from app.connectors.counters import Counters
from app.connectors.dead_letters import MOST_BYTES, DeadFile
from app.connectors.destinations import Destination, relative
from app.connectors.errors import ConnectorError, TakenBefore, Unreadable
from app.connectors.mapping.reading import Read, Reader
from app.connectors.messages import DeadLetter, Reason
from app.connectors.running import ending, retry
from app.connectors.service import Service
from app.connectors.sources.base import Source

GRACE = 10.0
"""Seconds that the request under way has to be answered when the connector is to end."""

READ = 1_000
"""Messages that are asked for at a time, at the most."""

DEAD_BYTES = 900_000
"""Bytes of a dead letter at a broker: the least that brokers take by default is a megabyte."""

_LISTED = 1_000
"""Errors that the service lists."""


@dataclass
class Connector:
    """What `rankcast connect` runs. `say` is called with what an operator should read."""

    source: Source
    shown: str
    name: str
    service: Service
    destination: Destination
    reader: Reader
    limits: Limits
    counters: Counters
    say: Callable[[str], None]
    dead: DeadFile | None = None
    once: bool = False

    async def run(self, stop: asyncio.Event) -> None:
        """Carry events until the end is asked for, or with `once` until nothing waits. Raises ConnectorError."""
        await retry(partial(self._attempt, stop), stop, self.shown, self.counters, self.say)

    async def _attempt(self, stop: asyncio.Event) -> None:
        try:
            await self.source.open()
            self.say(f"reading {self.shown}")
            await self._carry(stop)
        finally:
            await self.source.close()

    async def _carry(self, stop: asyncio.Event) -> None:
        waiting = Waiting(self.limits)
        self.source.drop = waiting.drop
        stopped = asyncio.create_task(stop.wait())
        reading = asyncio.create_task(self._read(waiting))
        sending = asyncio.create_task(self._send_all(waiting, stop))
        async with ending(sending, reading, stopped):
            await asyncio.wait({stopped, reading, sending}, return_when=asyncio.FIRST_COMPLETED)
            if reading.done() and not sending.done():
                waiting.end()
                if reading.exception() is None:
                    # Nothing waits at the source: what was read still goes out.
                    await asyncio.wait({stopped, sending}, return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                waiting.end()
                await asyncio.wait({sending}, timeout=GRACE)

    async def _read(self, waiting: Waiting) -> None:
        """Read ahead, as far as there is room."""
        while True:
            await waiting.room()
            chunk = await self.source.read(min(READ, self.limits.events))
            if chunk is None:
                if self.once:
                    return
                continue
            lane, messages, span = chunk
            drops, reads = waiting.drops(lane), []
            for number, message in enumerate(messages):
                reads.append(self.reader.read(message))
                if number % 100 == 99:
                    # Large messages take their time; answers are read meanwhile.
                    await asyncio.sleep(0)
            if waiting.drops(lane) != drops:
                continue
            waiting.put(lane, reads, span, messages[0].term if messages else (span.term if span else 0))
            self.counters.waiting.set(waiting.messages)

    async def _send_all(self, waiting: Waiting, stop: asyncio.Event) -> None:
        while (batch := await waiting.next()) is not None:
            await self._send(batch, waiting)
            self.counters.waiting.set(waiting.messages)
            if stop.is_set():
                return

    async def _send(self, batch: Batch, waiting: Waiting) -> None:
        if not batch.again and not await self.source.begin(batch.span):
            return
        letters = [letter for read in batch.reads for letter in read.refused]
        try:
            answer = await self._post(batch)
        except Unreadable as why:
            if len(batch.reads) > 1:
                for half in batch.halves():
                    await self._send(half, waiting)
                return
            answer = {}
            letters += [
                read.letter(number, (Reason("", str(why)),))
                for read in batch.reads
                for number in range(len(read.events))
            ]
        else:
            letters += refused(batch.reads, answer)
        await self._finish(batch, letters, answer, waiting.messages > 0)

    async def _post(self, batch: Batch) -> Mapping[str, Any]:
        events = batch.events
        if not events:
            return {}
        key = self._key(batch) if self.source.exact else None
        body = self.destination.body(events)
        began = time.perf_counter()
        try:
            answer = await self.service.post(self.destination.path, body, key)
        except TakenBefore:
            # Its messages were read by another mapping then, or some of them are gone now.
            answer = {"replayed": True, "applied": 0}
        self.counters.seconds.observe(time.perf_counter() - began)
        self.counters.add("events", len(events))
        self.counters.add("applied", self.destination.applied(answer, len(events)))
        if answer.get("replayed"):
            self.counters.add("replayed")
            self.say(f"{self.shown}: {batch.span.first} to {batch.span.last} had been taken already")
        return answer

    def _key(self, batch: Batch) -> str:
        """The same for the same messages, whichever process sends them; no other request has it."""
        span = batch.span
        parts = (self.source.identity, self.name, str(self.destination), span.lane, span.first, span.last)
        digest = hashlib.sha256("\n".join(parts).encode()).hexdigest()
        return f"connect-{digest}"

    async def _finish(self, batch: Batch, letters: Sequence[DeadLetter], answer: Mapping[str, Any], more: bool) -> None:
        records = [letter.record(self.shown, DEAD_BYTES if self.dead is None else MOST_BYTES) for letter in letters]
        if self.dead is not None and records:
            await asyncio.to_thread(self.dead.append, records)
            records = []
        messages = [read.message for read in batch.reads]
        if await self.source.done(batch.span, messages, records, more):
            self.counters.add("messages", len(messages))
            self.counters.add("refused", sum(letter.certain for letter in letters))
            self.counters.add("batches")


def refused(reads: Sequence[Read], answer: Mapping[str, Any]) -> list[DeadLetter]:
    """The dead letters of what an answer says was skipped."""
    errors = answer.get("errors") or ()
    if not errors:
        return []
    places = [(read, number) for read in reads for number in range(len(read.events))]
    reasons: defaultdict[int, list[Reason]] = defaultdict(list)
    for error in errors:
        index = error["index"]
        if not 0 <= index < len(places):
            raise ConnectorError(f"the service answers about event {index} of {len(places)}")
        reasons[index].append(Reason(relative(str(error["field"])), str(error["reason"])))
    letters = [places[index][0].letter(places[index][1], tuple(found)) for index, found in sorted(reasons.items())]
    if int(answer.get("error_count", 0)) > len(errors):
        letters += _beyond(places[max(reasons) + 1 :], max(reasons) + 1, answer)
    return letters


def _beyond(rest: Sequence[tuple[Read, int]], first: int, answer: Mapping[str, Any]) -> list[DeadLetter]:
    """Dead letters of events past the last error that the service lists: known where results name what was applied."""
    why = (Reason("", f"one of many that were refused: the service lists the first {_LISTED} errors"),)
    results = answer.get("results")
    if results is None:
        return [read.letter(number, why, certain=False) for read, number in rest]
    applied = {result["index"] for result in results}
    return [read.letter(number, why) for i, (read, number) in enumerate(rest, first) if i not in applied]
