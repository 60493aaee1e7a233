"""Proves on real input that every list is exact: plays days while subscribers listen, and compares with brute force.

There are subscribers of four kinds: changes over server-sent events, changes over a WebSocket, and tiles over either,
which are made into lists by the subscriber's half of the paper's protocol. Their ranges are drawn from the flights'
own distances, so that ends and objects coincide; some are unbounded, some empty, some a single point. Every day some
of them change their range, some lose their connection and resume it, and flights that have not landed for a while go.
"""

from __future__ import annotations

import asyncio
import bisect
import random
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from app.demo.flights import Arrivals
from app.demo.player import KS, events
from app.demo.process import Failed
from rankcast_client import AsyncBoard, AsyncRankcast, Entry, Event, Want, Watch, delete
from rankcast_client.models import Form, Pair
from rankcast_client.ws import Socket

KINDS: tuple[tuple[str, Form], ...] = (("sse", "changes"), ("ws", "changes"), ("sse", "tiles"), ("ws", "tiles"))
EACH = 40
SOCKETS = 4
BATCH = 50
MOVED = 2
DROPPED = 3
FORGOTTEN_DAYS = 10
PATIENCE_SECONDS = 30.0


class Different(Exception):
    """A list differs from brute force; the message shows both."""


class Truth:
    """The board by brute force: a dict of objects, and a sort for every question."""

    def __init__(self) -> None:
        self.objects: dict[str, Entry] = {}
        self._created = 0

    def apply(self, event: Event) -> None:
        """One upsert or deletion."""
        id = event["id"]
        if event["op"] == "delete":
            del self.objects[id]
            return
        held = self.objects.get(id)
        if held is None:
            created, self._created = self._created, self._created + 1
        else:
            created = held.created
        self.objects[id] = Entry(id, event["values"], created, event["payload"])

    def best(self, range: Pair, k: int) -> tuple[Entry, ...]:
        """The true list: the latest first, at equal delays the flight that was created first."""
        low, high = range
        inside = [
            entry
            for entry in self.objects.values()
            if (low is None or low <= entry.values["distance"]) and (high is None or entry.values["distance"] <= high)
        ]
        return tuple(sorted(inside, key=lambda entry: (-entry.values["delay"], entry.created))[:k])


@dataclass
class Reader:
    """A subscriber: its question, and how its list can be had and its connection lost."""

    id: str
    kind: str
    form: Form
    range: Pair
    k: int
    watch: Watch | None = None
    socket: Socket | None = None
    task: asyncio.Task[None] | None = field(default=None, repr=False)

    def list(self) -> tuple[Entry, ...]:
        """What it believes."""
        if self.watch is not None:
            return self.watch.list
        assert self.socket is not None
        return self.socket.list("delays", self.id)

    def describe(self) -> str:
        low, high = ("" if end is None else f"{end:g}" for end in self.range)
        return f"{self.id} ({self.form} over {self.kind}, {low}:{high}, the best {self.k})"


@dataclass(frozen=True)
class Outcome:
    """What was compared."""

    days: int
    arrivals: int
    lists: int
    seconds: float


async def verify(
    client: AsyncRankcast, board: AsyncBoard, arrivals: Arrivals, days: int, say: Callable[[str], None]
) -> Outcome:
    """Play so many days as fast as the service takes them. Raises Different, with the first difference."""
    started = time.monotonic()
    chance = random.Random(2013)
    truth = Truth()
    distances = sorted(set(arrivals.distance.tolist()))
    readers = [
        Reader(f"{kind}-{form}-{n}", kind, form, a_range(chance, distances), KS[n % len(KS)])
        for kind, form in KINDS
        for n in range(EACH)
    ]
    wants: list[Want] = [{"id": one.id, "range": {"distance": one.range}, "k": one.k} for one in readers]
    await board.register_many(wants, lists=False)
    landed: dict[str, int] = {}
    played = compared = 0
    async with AsyncExitStack() as stack:
        tasks = await _listen(stack, client, board, readers)
        for day, part in list(arrivals.days())[:days]:
            forgotten = [id for id, last in landed.items() if last < day - FORGOTTEN_DAYS]
            for id in forgotten:
                del landed[id]
            todo = [delete(id) for id in forgotten] + events(arrivals, part.start, part.stop)
            landed.update(dict.fromkeys(arrivals.id[part].to_pylist(), day))
            for start in range(0, len(todo), BATCH):
                batch = todo[start : start + BATCH]
                if start // BATCH == 1:
                    await _move(board, chance, readers, distances)
                    await _drop(tasks, chance, readers)
                await board.publish_many(batch, messages="none")
                for event in batch:
                    truth.apply(event)
            played += part.stop - part.start
            compared += await _compare(board, truth, readers, day, tasks)
            say(f"day {day + 1:3}: {part.stop - part.start:,} arrivals, {compared:,} lists compared so far, all equal")
    return Outcome(min(days, day + 1), played, compared, time.monotonic() - started)


def a_range(chance: random.Random, distances: list[float]) -> Pair:
    """A range whose ends are distances that are flown, or next to one; unbounded, a point or empty now and then."""
    low, high = sorted(chance.sample(distances, 2))
    match chance.randrange(10):
        case 0:
            return None, high
        case 1:
            return low, None
        case 2:
            return None, None
        case 3:
            return low, low
        case 4:
            at = bisect.bisect_right(distances, low)
            return low + 0.25, (distances[at] if at < len(distances) else low + 1) - 0.25
        case 5:
            return low + 0.5, high
    return low, high


async def _listen(
    stack: AsyncExitStack, client: AsyncRankcast, board: AsyncBoard, readers: list[Reader]
) -> set[asyncio.Task[None]]:
    """Open all streams, and return the tasks that read them."""
    tasks: set[asyncio.Task[None]] = set()

    async def end() -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    sockets = [await stack.enter_async_context(client.socket()) for _ in range(SOCKETS)]
    stack.push_async_callback(end)
    for number, reader in enumerate(readers):
        if reader.kind == "sse":
            reader.watch = board.watch(reader.id, form=reader.form)
            reader.task = asyncio.create_task(_read(reader.watch))
            tasks.add(reader.task)
        else:
            reader.socket = sockets[number % SOCKETS]
            await reader.socket.subscribe(board.name, reader.id, form=reader.form)
    tasks |= {asyncio.create_task(_read(socket)) for socket in sockets}
    return tasks


async def _read(stream: Any) -> None:
    async for _ in stream:
        pass


async def _move(board: AsyncBoard, chance: random.Random, readers: list[Reader], distances: list[float]) -> None:
    """Some of each kind change their question while they listen."""
    for kind, form in KINDS:
        some = [reader for reader in readers if (reader.kind, reader.form) == (kind, form)]
        for reader in chance.sample(some, MOVED):
            reader.range = a_range(chance, distances)
            reader.k = chance.choice(KS)
            await board.patch_subscription(reader.id, {"distance": reader.range}, k=reader.k)


async def _drop(tasks: set[asyncio.Task[None]], chance: random.Random, readers: list[Reader]) -> None:
    """Some lose their connection, and come back for what they missed."""
    for reader in chance.sample([reader for reader in readers if reader.watch is not None], DROPPED):
        assert reader.task is not None
        tasks.discard(reader.task)
        reader.task.cancel()
        await asyncio.gather(reader.task, return_exceptions=True)
        reader.task = asyncio.create_task(_read(reader.watch))
        tasks.add(reader.task)


async def _compare(
    board: AsyncBoard, truth: Truth, readers: list[Reader], day: int, tasks: set[asyncio.Task[None]]
) -> int:
    """Compare each reader's list, and the service's own answer, with the truth. Return how many that were.

    A stream says nothing of a list that did not change, so a list that is not right yet is waited for.
    """
    until = time.monotonic() + PATIENCE_SECONDS
    for reader in readers:
        right = truth.best(reader.range, reader.k)
        asked = await board.subscription(reader.id)
        if asked.list != right:
            raise _different("the service's answer for", reader, day, right, asked.list or ())
        while reader.list() != right:
            for task in tasks:
                if task.done():
                    why = task.exception() or "its subscription is gone"
                    raise Failed(f"a stream ended on day {day + 1}: {why}")
            if time.monotonic() > until:
                raise _different("the list of", reader, day, right, reader.list())
            await asyncio.sleep(0.01)
    return 2 * len(readers)


def _different(whose: str, reader: Reader, day: int, right: tuple[Entry, ...], found: tuple[Entry, ...]) -> Different:
    lines = [f"at the end of day {day + 1}, {whose} {reader.describe()} is wrong."]
    for rank in range(max(len(right), len(found))):
        expected = right[rank] if rank < len(right) else None
        actual = found[rank] if rank < len(found) else None
        if expected != actual:
            lines.append(f"  rank {rank + 1}: brute force has {_short(expected)}, it has {_short(actual)}")
    return Different("\n".join(lines))


def _short(entry: Entry | None) -> str:
    return "nothing" if entry is None else f"{entry.id} {dict(entry.values)} created {entry.created} {entry.payload}"
