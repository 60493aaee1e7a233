"""A tiny board whose lists are sorted again after every change, and connections that write down what they are sent."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from app.runtime.metrics import Metrics
from app.streaming.boards import BoardSource
from app.streaming.buffer import Bundle, Message
from app.streaming.connection import Connection, Reader
from app.streaming.hub import Hub
from indexes.boards.changed_lists import ChangedLists, Records
from indexes.boards.config import BoardConfig
from indexes.boards.results import ListChange, ListEntry, LiveTiles, ObjectView, Slice, TileView
from tests.support.values import scalar

T = TypeVar("T")
List = list[ObjectView]


@dataclass
class Limits:
    max_streams: int = 1000
    stream_queue: int = 256
    stream_bytes: int = 1 << 20
    resume_seconds: float = 60.0
    resume_changes: int = 256
    heartbeat_seconds: float = 15.0


@dataclass
class Question:
    """`k` is how deep the list reaches; the first `offset` of it are not shown."""

    l: float
    r: float
    k: int
    offset: int = 0


class World:
    """One board with brute-force lists.

    `history[id][seq]` is what a subscription shows right after that seq, and `whole[id][seq]` the list from its first
    rank on.
    """

    def __init__(self, name: str = "delays", config: BoardConfig | None = None) -> None:
        self.name = name
        self.config = config or BoardConfig(("distance",), "delay")
        self.seq = 0
        self.objects: dict[str, ObjectView] = {}
        self.questions: dict[str, Question] = {}
        self.history: dict[str, dict[int, List]] = defaultdict(dict)
        self.whole: dict[str, dict[int, List]] = defaultdict(dict)
        self.live: dict[int, str] = {}
        self.tiled: set[int] = set()
        self.watched = 0
        self._created = 0
        self.by_column = False
        """Whether changes are handed over by column where they can be."""
        self._changes: list[ListChange] = []
        self._part = Slice(0, [], [], [], [])

    @property
    def resource(self) -> str:
        return f"boards/{self.name}"

    # --- what the hub asks of a board -------------------------------------------------------------------------------

    def watch(self, id: str) -> int:
        if id not in self.questions:
            raise KeyError(id)
        assert id not in self.live.values(), "watched twice"
        self.watched += 1
        slot = min(set(range(len(self.live) + 1)) - set(self.live))
        self.live[slot] = id
        return slot

    def unwatch(self, live: int) -> None:
        del self.live[live]
        self.tiled.discard(live)

    def list_of(self, live: int, offset: int = 0) -> List:
        return self.ranking(self.live[live])[offset:]

    def offset_of(self, live: int) -> int:
        return self.questions[self.live[live]].offset

    def want_tiles(self, live: int, on: bool) -> None:
        assert live in self.live
        (self.tiled.add if on else self.tiled.discard)(live)

    # --- what happens on the board ----------------------------------------------------------------------------------

    def list(self, id: str) -> List:
        """What a subscription shows."""
        return self.ranking(id)[self.questions[id].offset :]

    def ranking(self, id: str) -> List:
        """The list of a subscription from its first rank on."""
        question = self.questions[id]
        inside = [item for item in self.objects.values() if question.l <= scalar(item.x) <= question.r]
        return sorted(inside, key=lambda item: (item.y, item.created))[: question.k]

    def subscribe(
        self, id: str, l: float = float("-inf"), r: float = float("inf"), k: int = 3, offset: int = 0
    ) -> None:
        self.seq += 1
        self.questions[id] = Question(l, r, k, offset)
        self._remember()

    def put(self, id: str, x: float, y: float, payload: bytes | None = None) -> None:
        """Insert an object or change it; a change of x keeps its number."""
        old = self.objects.get(id)
        if old is None:
            self._created += 1
        self._change(id, ObjectView(id, x, y, old.created if old else self._created - 1, payload))

    def delete(self, id: str) -> None:
        self._change(id, None)

    def move(self, id: str, l: float, r: float, k: int, offset: int = 0) -> None:
        """Change a subscription's question."""
        self.seq += 1
        before, was = self.list(id), self.questions[id].offset
        self.questions[id] = Question(l, r, k, offset)
        for slot in [slot for slot, found in self.live.items() if found == id]:
            self._changes.append(ListChange(self.seq, slot, net(before, self.list(id), was, offset)))
            self._part.moved.append((self.seq, slot))
            if offset != was:
                self._part = self._part._replace(shifted=(*self._part.shifted, slot))
        self._remember()

    def unsubscribe(self, id: str) -> None:
        self.seq += 1
        del self.questions[id]
        for slot in [slot for slot, found in self.live.items() if found == id]:
            self._part.gone.append((self.seq, slot))
            self.unwatch(slot)
        self._remember()

    def take_slice(self) -> Slice:
        """What live subscriptions must hear of since the last slice."""
        part, self._part = self._part, Slice(0, [], [], [], [])
        changes, self._changes = self._changes, []
        return part._replace(last_seq=self.seq, changes=by_column(changes) if self.by_column else changes)

    def _change(self, id: str, new: ObjectView | None) -> None:
        self.seq += 1
        before = {slot: self.ranking(id) for slot, id in self.live.items()}
        old = self.objects.pop(id, None)
        if new is not None:
            self.objects[id] = new
        shared: dict[tuple[ListEntry, ...], tuple[ListEntry, ...]] = {}
        for slot in self.live:
            after, offset = self.list_of(slot), self.offset_of(slot)
            entries = net(before[slot][offset:], after[offset:], offset, offset)
            if entries:
                self._changes.append(ListChange(self.seq, slot, shared.setdefault(entries, entries)))
            if slot in self.tiled and net(before[slot], after):
                found = tuple(tiles(before[slot], after, id, old, new, self.questions[self.live[slot]].k))
                self._part.tiles.append(LiveTiles(self.seq, slot, found))
        self._remember()

    def _remember(self) -> None:
        for id in self.questions:
            self.history[id][self.seq] = self.list(id)
            self.whole[id][self.seq] = self.ranking(id)


def by_column(changes: Sequence[ListChange]) -> Sequence[ListChange]:
    """The same changes by column, or as they are where a payload changes with them, or one has no entries, as where a
    subscription was moved and its list is the same: slices by column have none.
    """
    entries = [entry for one in changes for entry in one.entries]
    views = [(entry.object or entry.old, entry.old or entry.object) for entry in entries]
    if not changes or not all(one.entries for one in changes):
        return changes
    if any(now is None or old is None or now.payload != old.payload for now, old in views):
        return changes
    made = [(now, old) for now, old in views if now is not None and old is not None]
    whose = [one for one in changes for _ in one.entries]
    payloads = [now.payload for now, _ in made]
    records = Records(
        np.array([one.seq for one in whose], np.int64),
        np.array([one.live for one in whose], np.int32),
        [entry.id for entry in entries],
        np.array([entry.old_rank or 0 for entry in entries], np.int32),
        np.array([entry.new_rank or 0 for entry in entries], np.int32),
        np.array([now.created for now, _ in made], np.int64),
        payloads if any(payloads) else None,
        *(np.array(column, float) for column in zip(*((n.x, n.y, o.x, o.y) for n, o in made), strict=True)),
    )
    found = ChangedLists(records, np.cumsum([len(one.entries) for one in changes]), False)
    assert list(found) == list(changes)
    return found


def net(before: List, after: List, was: int = 0, now: int = 0) -> tuple[ListEntry, ...]:
    """What takes one list to the other: who entered, left or got new values.

    Ranks begin after the offsets `was` and `now`.
    """
    old = {item.id: (rank, item) for rank, item in enumerate(before, was + 1)}
    new = {item.id: (rank, item) for rank, item in enumerate(after, now + 1)}
    entries = [ListEntry(id, rank, None, None, item) for id, (rank, item) in old.items() if id not in new]
    for id, (rank, item) in new.items():
        if id not in old:
            entries.append(ListEntry(id, None, rank, item, None))
        elif old[id][1] != item:
            entries.append(ListEntry(id, old[id][0], rank, item, old[id][1]))
    return tuple(entries)


def tiles(
    before: List, after: List, id: str, old: ObjectView | None, new: ObjectView | None, k: int
) -> Iterable[TileView]:
    """Tiles that carry a list over when the object `id` changed. Their sides do not matter here."""

    def tile(item: ObjectView, gone: bool) -> TileView:
        return TileView(k, None, scalar(item.x), scalar(item.x), None, item, gone)

    held = {item.id for item in before}
    listed = {item.id for item in after}
    if id in held and (new is None or id not in listed):
        assert old is not None
        yield tile(new or old, True)
    elif id in listed:
        assert new is not None
        yield tile(new, False)
    for item in after:
        if item.id not in held and item.id != id:
            yield tile(item, False)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Service:
    """A hub over some worlds, with a writer that only knows `between`."""

    epoch = "e1"

    def __init__(self, *worlds: World, limits: Limits | None = None) -> None:
        self.worlds = {world.name: world for world in worlds or (World(),)}
        self.limits = limits or Limits()
        self.clock = Clock()
        self.metrics = Metrics()
        self.hold = asyncio.Event()
        self.hold.set()
        self.tasks: list[asyncio.Task[Any]] = []
        self.bundles = False
        """Whether connections take bundles."""
        self.hub = Hub(self.epoch, self.limits, [BoardSource(self.worlds.get, self.between)], self.metrics, self.clock)

    @property
    def world(self) -> World:
        return next(iter(self.worlds.values()))

    async def between(self, name: str, fn: Callable[[], T]) -> T:
        """Wait while a slice is being painted, which is while `hold` is clear; then `fn` runs, awaited or not."""
        if self.hold.is_set():
            return fn()

        async def run() -> T:
            await self.hold.wait()
            return fn()

        task = asyncio.create_task(run())
        self.tasks.append(task)
        return await asyncio.shield(task)

    def deliver(self, *actions: Callable[[], None], world: World | None = None) -> None:
        """Carry out what happens on a board and deliver it as one slice."""
        world = world or self.world
        for action in actions:
            action()
        self.hub.deliver(world.resource, world.take_slice())

    def connect(self) -> Tap:
        """A connection without a stream."""
        tap = (BundlingTap if self.bundles else Tap)(self.hub, self.limits.stream_queue)
        self.hub.connections.add(tap)
        tap.start()
        return tap

    async def tap(
        self,
        id: str,
        form: Any = "changes",
        after: str | None = None,
        board: str | None = None,
        ready: bool = False,
        squash: float | None = None,
    ) -> Tap:
        """A connection with one stream."""
        tap = self.connect()
        try:
            await tap.follow(board or self.world.name, id, form, after, ready=ready, squash=squash)
        except BaseException:
            await tap.lose()
            raise
        return tap


class Tap(Connection):
    """A connection in memory. It takes nothing while it is stalled; `got` is what it was sent, as objects."""

    hub: Hub
    transport = "sse"
    resources = "boards"
    piece = 1
    """Bytes of messages that are taken at a time."""

    def __init__(self, hub: Hub, limit: int) -> None:
        super().__init__(hub, limit)
        self.begun_at = -1
        self.got: list[dict[str, Any]] = []
        self.ended: int | None = None
        self.open: list[Reader] = []
        self.opened = 0
        self.flowing = asyncio.Event()
        self.flowing.set()
        self._gone = asyncio.Event()
        self.work: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.work = asyncio.create_task(self.run())

    async def follow(
        self,
        board: str,
        id: str,
        form: Any = "changes",
        after: str | None = None,
        replaces: Reader | None = None,
        ready: bool = False,
        squash: float | None = None,
    ) -> Reader:
        """Open a stream here; its messages carry the id, and as `stream` the number of streams opened before."""
        reader = Reader(self, f'{{"id":"{id}","stream":{self.opened},'.encode(), ready, squash)
        self.opened += 1
        await self.hub.open_stream(reader, f"{self.resources}/{board}", id, form, after, replaces)
        if replaces is not None:
            self.open.remove(replaces)
        if reader.channel is not None:
            self.open.append(reader)
        return reader

    def unfollow(self, reader: Reader) -> None:
        self.open.remove(reader)
        self.hub.close_stream(reader)

    async def lose(self) -> None:
        """The peer goes away."""
        self._gone.set()
        self.flowing.set()
        assert self.work is not None
        await self.work

    @property
    def events(self) -> list[tuple[str, int]]:
        """What came: (event, seq)."""
        return [(message["event"], message["seq"]) for message in self.got]

    def readers(self) -> Iterable[Reader]:
        return self.open

    async def listen(self) -> None:
        await self._gone.wait()

    async def send_queue(self) -> None:
        while some := self.take_some(self.piece):
            for entry in some:
                for reader, item in apart(entry):
                    await self._send(json.loads(reader.prefix + item.rest))

    async def send_heartbeat(self) -> None:
        for cursor in self.hub.cursors(self.open).values():
            await self._send({"event": "heartbeat", "seq": int(cursor.split(":")[1]), "cursor": cursor})

    async def send_end(self, code: int) -> None:
        self.ended = code

    def on_finish(self, reader: Reader) -> None:
        if reader in self.open:
            self.open.remove(reader)

    async def _send(self, message: dict[str, Any]) -> None:
        await self.flowing.wait()
        if not self._gone.is_set():
            self.got.append(message)


class BundlingTap(Tap):
    """One that takes bundles, and two or three messages at a time."""

    bundles = True
    piece = 400


def apart(entry: tuple[Reader, Message]) -> Iterable[tuple[Reader, Message]]:
    """The messages of an entry of a queue."""
    _, item = entry
    return item.messages() if isinstance(item, Bundle) else (entry,)


async def quiet(turns: int = 8) -> None:
    """Let the loop do what is ready."""
    for _ in range(turns):
        await asyncio.sleep(0)


# --- a subscriber's half ----------------------------------------------------------------------------------------------


def shown(items: List) -> list[dict[str, Any]]:
    """A list as it is on the wire, without ranks."""
    return [
        {
            "id": item.id,
            "values": {"distance": item.x, "delay": item.y},
            "created": item.created,
            **({} if item.payload is None else {"payload": json.loads(item.payload)}),
        }
        for item in items
    ]


def apply(
    held: list[dict[str, Any]], message: dict[str, Any], k: int, offset: int = 0, old: bool = False
) -> list[dict[str, Any]]:
    """The list after a message, by the rules for subscribers; entries are as in `shown`.

    The `offset` is that of the last list that came whole; with `old` a change has to say old values, and else must not.
    """
    match message["event"]:
        case "snapshot" | "reset":
            first = message.get("offset", 0) + 1
            assert [entry["rank"] for entry in message["list"]] == list(range(first, first + len(message["list"])))
            return [_bare(entry) for entry in message["list"]]
        case "change":
            listed = {entry["id"] for entry in message["changes"]}
            before = {entry["id"]: (rank, entry["values"]) for rank, entry in enumerate(held, offset + 1)}
            for entry in message["changes"]:
                rank, values = before.get(entry["id"], (None, None))
                assert entry["old_rank"] == rank
                assert entry.get("old_values") == (values if old else None)
            held = [entry for entry in held if entry["id"] not in listed]
            placed = [entry for entry in message["changes"] if entry["new_rank"] is not None]
            for entry in sorted(placed, key=lambda entry: entry["new_rank"]):
                assert 0 < entry["new_rank"] - offset <= len(held) + 1
                held.insert(entry["new_rank"] - offset - 1, _bare(entry))
            return held
        case "tiles":
            for tile in message["tiles"]:
                item = dict(tile["object"])
                held = [entry for entry in held if entry["id"] != item["id"]]
                if not item.pop("gone"):
                    held = sorted([*held, item], key=lambda entry: (entry["values"]["delay"], entry["created"]))[:k]
            return held
    return held


def _bare(entry: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key not in ("rank", "old_rank", "new_rank", "old_values")}
