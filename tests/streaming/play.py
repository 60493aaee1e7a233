"""A script of changes, connections and streams, whose readers must hold the true list at every position."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from app.streaming.connection import Reader
from tests.streaming.world import Limits, Service, Tap, apply, quiet, shown

IDS = ("a", "b")
LIMITS = Limits(stream_queue=3, resume_changes=4, resume_seconds=10.0, heartbeat_seconds=5.0)


class Client:
    """A subscriber: it applies every message and checks the list that comes of it."""

    def __init__(self, play: Play, id: str, form: str, ready: bool, squash: float | None) -> None:
        self.play = play
        self.squash = None if form == "tiles" else squash
        self.id = id
        self.form = form
        self.ready = ready
        self.due = False
        self.held: list[dict[str, Any]] = []
        self.cursor: str | None = None
        self.seq = -1
        self.offset = 0
        self.tap: Tap | None = None
        self.reader: Reader | None = None
        self.stream = -1
        self.read = 0
        self.first = ""
        self.gone = False

    async def follow(self, tap: Tap, after: str | None, replaces: Reader | None = None) -> None:
        self.tap, self.stream, self.first = tap, tap.opened, ""
        self.read = len(tap.got)
        self.due = self.ready
        self.reader = await tap.follow("delays", self.id, self.form, after, replaces, self.ready, self.squash)

    def look(self) -> None:
        """Apply what came. A heartbeat or a reset may repeat a position, nothing else may."""
        assert self.tap is not None
        world = self.play.world
        history = (world.whole if self.form == "tiles" else world.history)[self.id]
        got, self.read = self.tap.got[self.read :], len(self.tap.got)
        for message in got:
            event, seq = message["event"], message["seq"]
            if event == "heartbeat" and not self.first:
                continue
            if event != "heartbeat" and message["stream"] != self.stream:
                continue
            self.first = self.first or event
            assert seq > self.seq or (event in ("heartbeat", "reset", "snapshot", "ready") and seq >= self.seq)
            assert event != "heartbeat" or not self.due, "a heartbeat before a stream has caught up"
            self.seq, self.cursor = seq, message["cursor"]
            if event == "gone":
                self.gone = True
                return
            if event == "change":
                assert self.held != shown(history[seq]), "a change that changes nothing"
            if event in ("snapshot", "reset"):
                self.offset = message.get("offset", 0)
            if event == "ready":
                assert self.due, "ready, and nobody asked or it was said before"
                self.due = False
            self.held = apply(self.held, message, self.play.ks[self.id][seq], self.offset, self.form == "old")
            assert self.held == shown(history[seq]), f"{event} at {seq}"


class Play:
    """Carries a script out and keeps the books that tell what a reader who comes back is due."""

    def __init__(self) -> None:
        self.service = Service(limits=LIMITS)
        self.world = self.service.world
        self.taps: list[Tap] = []
        self.clients: list[Client] = []
        self.lost: list[Client] = []
        self.left: dict[tuple[str, str], float] = {}
        self.ks: dict[str, dict[int, int]] = {id: {} for id in IDS}
        self.shifts: dict[str, list[int]] = {id: [] for id in IDS}

    def note(self) -> None:
        for id, question in self.world.questions.items():
            self.ks[id][self.world.seq] = question.k

    def mutate(self, action: tuple[Any, ...]) -> None:
        world = self.world
        match action:
            case "put", id, x, y, payload:
                world.put(id, float(x), float(y), payload)
            case "delete", id if id in world.objects:
                world.delete(id)
            case "move", id, (l, r), (k, offset) if id in world.questions:
                was = world.questions[id].offset
                world.move(id, float(l), float(r), k, offset)
                if offset != was:
                    self.shifts[id].append(world.seq)
            case "unsubscribe", id if id in world.questions:
                world.unsubscribe(id)
                self.left = {key: at for key, at in self.left.items() if key[0] != id}
        self.note()

    def look(self) -> None:
        for client in self.clients:
            client.look()
        self.clients = [client for client in self.clients if not client.gone]

    def went(self, client: Client) -> None:
        """A client's stream closed; it may come back."""
        client.look()
        self.clients.remove(client)
        if not client.gone:
            self.lost.append(client)
            if not any((other.id, other.form) == (client.id, client.form) for other in self.attached()):
                self.left[client.id, client.form] = self.service.clock.now

    def attached(self) -> list[Client]:
        return [client for client in self.clients if client.reader is not None and client.reader.channel is not None]

    async def step(self, step: tuple[Any, ...]) -> None:
        service, world = self.service, self.world
        match step:
            case "slice", actions:
                for action in actions:
                    self.mutate(action)
                service.hub.deliver(world.resource, world.take_slice())
            case "subscribe", id, (l, r), (k, offset) if id not in world.questions:
                world.subscribe(id, float(l), float(r), k, offset)
                self.note()
            case ("connect",):
                self.taps.append(service.connect())
            case "open", i, id, form, ready, squash if self.taps and id in world.questions:
                client = Client(self, id, form, ready, squash)
                await client.follow(self.taps[i % len(self.taps)], None)
                self.clients.append(client)
            case "close", i if attached := self.attached():
                client = attached[i % len(attached)]
                assert client.tap is not None
                assert client.reader is not None
                client.tap.unfollow(client.reader)
                self.went(client)
            case "replace", i, resumes if attached := self.attached():
                client = attached[i % len(attached)]
                client.look()
                assert client.tap is not None
                await client.follow(client.tap, client.cursor if resumes else None, client.reader)
            case "lose", i if self.taps:
                tap = self.taps.pop(i % len(self.taps))
                await tap.lose()
                for client in [client for client in self.clients if client.tap is tap]:
                    self.went(client)
            case "resume", i, j if self.lost and self.taps:
                client = self.lost.pop(i % len(self.lost))
                if client.id in world.questions:
                    await self.resume(client, self.taps[j % len(self.taps)])
            case "stall", i if self.taps:
                self.taps[i % len(self.taps)].flowing.clear()
            case "flow", i if self.taps:
                self.taps[i % len(self.taps)].flowing.set()
            case "wait", seconds:
                service.clock.now += seconds
                await service.hub.conflator.send_due()
                await service.hub.send_heartbeats()
                await service.hub.drop_lapsed()
            case "turns", turns:
                await quiet(turns)

    async def resume(self, client: Client, tap: Tap) -> None:
        """Come back with the last position; what follows is the rest where the rules say so, and a reset elsewhere."""
        key = (client.id, client.form)
        there = any((other.id, other.form) == key for other in self.attached())
        recent = there or self.service.clock.now - self.left.get(key, -1e9) < LIMITS.resume_seconds
        before, cursor = client.seq, client.cursor
        await client.follow(tap, cursor)
        self.clients.append(client)
        if tap.flowing.is_set():
            await quiet(20)
            client.look()
            history = self.world.history[client.id]
            seqs = sorted(seq for seq in history if seq >= before)
            changed = [b for a, b in pairwise(seqs) if history[a] != history[b]]
            if cursor is None:
                assert client.first == "snapshot"
            elif not recent:
                assert client.first == "reset"
            elif client.form != "tiles":
                net = history[seqs[-1]] != history[before]
                lost = len(changed) > LIMITS.resume_changes or any(seq > before for seq in self.shifts[client.id])
                due = "reset" if lost else "change" if changed else "ready" if client.ready else ""
                assert client.first == due or (client.squash and not lost and not net and client.first != "reset")

    async def end(self) -> None:
        for tap in self.taps:
            tap.flowing.set()
        for _ in range(3):
            await quiet(60)
            self.service.clock.now += 7.0
            await self.service.hub.conflator.send_due()
        await quiet(60)
        self.look()
        for client in self.clients:
            truth = self.world.ranking if client.form == "tiles" else self.world.list
            assert client.held == shown(truth(client.id))
            assert not client.due, "never told that it had caught up"
        await self.service.hub.close_all(0.1)
        self.service.clock.now += 100
        await self.service.hub.drop_lapsed()
        assert self.service.hub.counts() == (0, 0, 0)
        assert not self.world.live
        assert not self.world.tiled
