"""The load generator of the stream benchmark, a process of its own: ``python -m bench.boards.listen``.

It holds live subscriptions, some as server-sent events on a connection each, some on WebSockets, and sends the events
that change each list once a second, in small requests spread evenly. List i is about object i alone, whose y is the
number of the second, so that a change tells which request it comes from. What arrives is kept with its time and
read when it is over: each list is replayed change by change from its first snapshot, and compared with what the service
answers in the end.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from app.server.limits import raise_file_limit
from bench.closed_loop import generate
from bench.exchange import Clock, Closed, Paced, milliseconds, request
from bench.process import Failed
from bench.wire import Capture, SocketCapture, SseCapture, open_capture, socket_opening, sse_opening

OPEN_AT_ONCE = 100
OPEN_SECONDS = 120.0
LAST_SECONDS = 20.0
CONNECTIONS = 8
"""Connections for the events, and for the lists at the end."""

Message = tuple[float, dict[str, Any]]


class Listener:
    """One run. The job says how many lists, how they are read, for how long, and how many events a request has. The
    events of a request are about lists one after another, or, where they are `spread`, about one of each socket in
    turn.
    """

    def __init__(self, job: dict[str, Any]) -> None:
        self._job = job
        self._port: int = job["port"]
        self._read: int = job["sse"] + job["sockets"] * job["follow"]
        self._lists: int = self._read + job["unread"]
        self._groups: int = self._lists // job["batch"]
        self._path = f"/v1/boards/{job['board']}"
        self._sse: list[SseCapture] = []
        self._ws: list[SocketCapture] = []
        self._arrived = 0
        self.errors: list[str] = []

    async def run(self) -> dict[str, Any]:
        """Open everything, send the events, wait for what they cause, and check it."""
        began = time.perf_counter()
        await self._open()
        opened = time.perf_counter() - began
        requests = self._requests()
        clock = Clock(self._job["pid"])
        already, before = self._arrived, sum(capture.nbytes for capture in self._captures())
        due, answered = await self._send(requests)
        elapsed = time.perf_counter() - due[0]
        await self._arrive(already + self._read * self._job["seconds"], LAST_SECONDS)
        spent = clock.read()
        nbytes = sum(capture.nbytes for capture in self._captures()) - before
        self.errors += [f"a stream ended with status {one.status}" for one in self._captures() if one.lost]
        latencies = self._check(due, await self._final_lists())
        for capture in self._captures():
            capture.transport.abort()
        return {
            "opened": opened,
            "elapsed": elapsed,
            "requests": len(requests),
            "changes": {name: len(values) for name, values in latencies.items()},
            "ms": {name: milliseconds(values) for name, values in latencies.items()},
            "answer_ms": milliseconds(answered),
            "nbytes": nbytes,
            "pause_ms": self._pause(due) * 1e3,
            "errors": len(self.errors),
            "first_errors": self.errors[:5],
            **spent,
        }

    def _pause(self, due: list[float]) -> float:
        """The longest time in which nothing came, from the first request to the last."""
        times = {at for capture in self._captures() for at, _ in capture.pieces if due[0] <= at <= due[-1]}
        return max((later - at for at, later in pairwise(sorted(times))), default=0.0)

    def _captures(self) -> Iterator[Capture]:
        yield from self._sse
        yield from self._ws

    def _count(self, messages: int) -> None:
        self._arrived += messages

    async def _arrive(self, messages: int, seconds: float) -> bool:
        """Wait until so many messages have come altogether."""
        end = time.perf_counter() + seconds
        while self._arrived < messages and time.perf_counter() < end:
            await asyncio.sleep(0.01)
        return self._arrived >= messages

    async def _open(self) -> None:
        """Open all streams, a few at a time, and wait for their snapshots."""
        sse, follow = self._job["sse"], self._job["follow"]
        for start in range(0, sse, OPEN_AT_ONCE):
            some = range(start, min(start + OPEN_AT_ONCE, sse))
            self._sse += await asyncio.gather(*[self._open_sse(i) for i in some])
            await self._snapshots(some.stop)
        for start in range(sse, self._read, follow):
            some = range(start, start + follow)
            socket = await open_capture(self._port, lambda: SocketCapture(socket_opening("/v1/stream"), self._count))
            self._ws.append(socket)
            while not socket.status and not socket.lost:
                await asyncio.sleep(0.001)
            for i in some:
                operation = {"op": "subscribe", "resource": f"boards/{self._job['board']}", "id": f"l{i}"}
                socket.say(json.dumps(operation).encode())
            await self._snapshots(some.stop)

    async def _open_sse(self, i: int) -> Any:
        opening = sse_opening(f"{self._path}/subscriptions/l{i}/stream")
        return await open_capture(self._port, lambda: SseCapture(opening, self._count))

    async def _snapshots(self, count: int) -> None:
        if not await self._arrive(count, OPEN_SECONDS):
            raise Failed(f"{count} streams were opened, {self._arrived} snapshots came")

    def _place(self, i: int) -> int:
        """The place of a list among those that are changed in a second."""
        if not self._job["spread"]:
            return i
        follow = self._job["follow"]
        return i % follow * (self._lists // follow) + i // follow

    def _requests(self) -> list[bytes]:
        """The events of every second, object after object."""
        batch, order = self._job["batch"], sorted(range(self._lists), key=self._place)
        made = []
        for second in range(1, self._job["seconds"] + 1):
            for first in range(0, self._groups * batch, batch):
                events = ",".join(
                    [f'{{"op":"update","id":"o{i}","values":{{"y":{second}}}}}' for i in order[first : first + batch]]
                )
                body = f'{{"messages":"none","events":[{events}]}}'
                made.append(request("POST", f"{self._path}/events", body.encode()))
        return made

    async def _send(self, requests: list[bytes]) -> tuple[list[float], list[float]]:
        """Send each request when it is due; when each was due, and the seconds to each answer."""
        paced = Paced()
        await paced.open(self._port, CONNECTIONS)
        start = time.perf_counter() + 0.5
        due = [start + n / self._groups for n in range(len(requests))]
        for at, payload in zip(due, requests, strict=True):
            await paced.send(at, payload)
        if missing := await paced.finish(LAST_SECONDS):
            self.errors.append(f"{missing} requests were not answered")
        for answer in paced.answers:
            if answer.status != 200:
                body = answer.body[:200].decode(errors="replace")
                self.errors.append(f"events were answered {answer.status}: {body}")
        return due, [answer.seconds for answer in paced.answers]

    async def _final_lists(self) -> dict[str, dict[str, Any]]:
        """What the service answers for each subscription now."""
        loop = Closed((request("GET", f"{self._path}/subscriptions/l{i}") for i in range(self._read)), keep=True)
        await loop.run(self._port, CONNECTIONS)
        return {answer["id"]: answer for answer in map(json.loads, loop.answers)}

    def _check(self, due: list[float], final: dict[str, dict[str, Any]]) -> dict[str, list[float]]:
        """Replay every list; returns the seconds from an event's due time to each change it caused, by transport."""
        received: dict[str, dict[str, list[Message]]] = {"SSE": {}, "WebSocket": {}}
        for i, capture in enumerate(self._sse):
            received["SSE"][f"l{i}"] = [
                (at, {"event": event, **json.loads(data)}) for at, event, data, _ in capture.messages() if event
            ]
        for socket in self._ws:
            if socket.closed:
                self.errors.append(f"a socket was closed with {socket.closed}")
            for at, text in socket.pieces:
                message = json.loads(text)
                if "id" in message:
                    received["WebSocket"].setdefault(message["id"], []).append((at, message))
        arrived = set(received["SSE"]) | set(received["WebSocket"])
        self.errors += [f"{name}: nothing came" for name in sorted(set(final) - arrived)[:5]]
        return {
            transport: [
                wait for name, messages in lists.items() for wait in self._replay(name, messages, due, final[name])
            ]
            for transport, lists in received.items()
        }

    def _replay(self, name: str, messages: list[Message], due: list[float], final: dict[str, Any]) -> list[float]:
        """Apply one list's messages in order and hold every one against what it must be."""
        group = self._place(int(name[1:])) // self._job["batch"]
        waits: list[float] = []
        entries: list[Any] = []
        seq = -1
        for n, (at, message) in enumerate(messages):
            if (message["event"] == "snapshot") != (n == 0) or (n and message["event"] != "change"):
                self.errors.append(f"{name}: message {n} is a {message['event']}")
                return waits
            if message["seq"] <= seq:
                self.errors.append(f"{name}: seq {message['seq']} after {seq}")
            seq = message["seq"]
            if n == 0:
                entries = [(one["id"], one["values"]) for one in message["list"]]
                continue
            changes = message["changes"]
            gone = {change["id"] for change in changes}
            old = [id for id, _ in entries]
            for change in changes:
                was = old.index(change["id"]) + 1 if change["id"] in old else None
                if change["old_rank"] != was:
                    self.errors.append(f"{name}: old_rank {change['old_rank']} of {change['id']} is {was}")
            entries = [entry for entry in entries if entry[0] not in gone]
            for change in sorted((c for c in changes if c["new_rank"] is not None), key=lambda c: c["new_rank"]):
                entries.insert(change["new_rank"] - 1, (change["id"], change["values"]))
            second = entries[0][1]["y"] if entries else 0
            if second != n:
                self.errors.append(f"{name}: change {n} carries second {second}")
                return waits
            waits.append(at - due[(second - 1) * self._groups + group])
        if len(messages) != self._job["seconds"] + 1:
            self.errors.append(f"{name}: {len(messages) - 1} changes of {self._job['seconds']}")
        if [(one["id"], one["values"]) for one in final["list"]] != entries:
            self.errors.append(f"{name}: the list is {final['list']}, its changes lead to {entries}")
        return waits


async def run(job: dict[str, Any]) -> dict[str, Any]:
    """Do the job, with as many connections as it takes."""
    raise_file_limit()
    return await Listener(job).run()


if __name__ == "__main__":
    generate(run)
