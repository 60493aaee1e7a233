"""A tree of services for tests: each relay speaks to its neighbours through gates that can be shut."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.live import LiveService, serve_command
from tests.support.ports import free_port
from tests.system.http.following import SocketStream, WsFollower
from tests.system.http.talk import NDJSON, Json, Talk, ndjson, strict

RELAY = "/v1/relays/market"


class Gate:
    """Forwards connections to a port, which may change, while it is open; shut, it breaks those that there are."""

    def __init__(self) -> None:
        self.target = 0
        self._open = True
        self._ends: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def shut(self) -> None:
        with self._lock:
            self._open = False
            ends, self._ends = self._ends, set()
        for end in ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def open(self) -> None:
        with self._lock:
            self._open = True

    def close(self) -> None:
        self.shut()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self.target), 5)
            except OSError:
                near.close()
                continue
            with self._lock:
                if not self._open:
                    near.close()
                    far.close()
                    continue
                self._ends |= {near, far}
            for one, other in ((near, far), (far, near)):
                threading.Thread(target=self._pump, args=(one, other), daemon=True).start()

    def _pump(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(1 << 16):
                other.sendall(data)
        with self._lock:
            self._ends -= {one, other}
        for end in (one, other):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


class Node:
    """One service with one relay, and the streams of some of its subscriptions.

    `heard` has, by subscription, what came of notifications, by the number in their payload.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.data, self.log = folder / name, folder / f"{name}.log"
        self.gates: dict[str, Gate] = {}
        self.heard: dict[str, list[int]] = {}
        self._streams: dict[str, SocketStream] = {}
        self._taken: dict[str, int] = {}
        self._socket: WsFollower | None = None
        self.service: LiveService
        self.talk: Talk

    def start(self) -> None:
        """Begin to start; `wait` until it is ready."""
        port = free_port()
        command = serve_command("--data", self.data, "--service", self.name, port=port)
        with self.log.open("ab") as output:
            environment = {**os.environ, "RANKCAST_HEARTBEAT_SECONDS": "1"}
            process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
        self.service = LiveService(process, f"http://127.0.0.1:{port}", self.data, self.log)
        for gate in self.gates.values():
            gate.target = port

    def wait(self) -> None:
        self.service.wait_until_ready(180)
        self.talk = Talk(self.service.url)

    def kill(self) -> None:
        """Kill it in whatever it does, and forget its streams."""
        self.service.stop(signal.SIGKILL)
        self.talk.close()
        self.gather()
        if self._socket is not None:
            self._socket.leave()
            self._socket = None
        self._streams = {}

    def stop(self) -> None:
        if self._socket is not None:
            self._socket.leave()
        if self.service.process.poll() is None:
            self.service.process.kill()
            self.service.process.wait()
        for gate in self.gates.values():
            gate.close()

    def link(self, other: Node) -> Any:
        """Tell it of a neighbour, which is reached through the gate that the neighbour keeps for it."""
        gate = other.gates[self.name]
        where = {"url": f"http://127.0.0.1:{gate.port}", "relay": "market", "link": self.name}
        return self.talk.ask("PATCH", RELAY, {"links": {other.name: where}})

    def commands(self, lines: list[Json]) -> list[Json]:
        """Carry out commands, all of them."""
        answer = self.talk.ask("POST", f"{RELAY}/commands", ndjson(lines), headers={"Content-Type": NDJSON})
        found: list[Json] = [strict(line) for line in answer.content.splitlines()]
        assert answer.status_code == 200 and len(found) == len(lines), answer.text[-500:]
        return found

    def notify(self, events: Iterable[Json]) -> Json:
        return self.talk.good("POST", f"{RELAY}/notifications", {"notifications": list(events)})

    def shown(self) -> Json:
        return self.talk.good("GET", RELAY)

    def known(self) -> list[Json]:
        """All subscriptions here, those that came over links among them."""
        return self.talk.pages(f"{RELAY}/subscriptions", 1000)

    def follow(self, ids: Iterable[str]) -> None:
        """Hear what these are told from now on."""
        if self._socket is None:
            self._socket = WsFollower(self.service.url)
        begun = []
        for id in ids:
            self.heard.setdefault(id, [])
            self._streams[id], self._taken[id] = self._socket.follow("relays/market", id), 0
            begun.append(self._streams[id])
        for stream in begun:
            assert stream.first().event == "ready"

    def leave(self, id: str) -> None:
        """It is going to end: what it was told is no longer asked for."""
        self.gather()
        self._streams.pop(id, None)
        self.heard.pop(id, None)

    def gather(self) -> None:
        """Take up what was said since."""
        for id, stream in self._streams.items():
            said = stream.said[self._taken[id] :]
            self._taken[id] += len(said)
            assert all(one.event != "reset" for one in said), "a stream that was open missed something"
            self.heard[id] += [one.data["payload"] for one in said if one.event == "notification"]


def settled(nodes: Iterable[Node]) -> bool:
    """Whether all links are up, and have told all."""
    links = [link for node in nodes for link in node.shown()["links"].values()]
    return all(link["state"] == "up" and link["queue"] == 0 for link in links)


def outermost(boxes: Iterable[tuple[float, ...]]) -> set[tuple[float, ...]]:
    """The boxes that no other contains, of (lo, hi) for each attribute in turn."""
    rows = np.array(sorted(set(boxes)), np.float64).reshape(-1, 4)
    signs = np.array([-1, 1] * (rows.shape[1] // 2))
    points = rows * signs
    order = np.argsort(-points.sum(axis=1), kind="stable")
    kept = np.empty((0, rows.shape[1]))
    for point in points[order]:
        # A box that contains another has a larger sum, so that it comes first.
        if not (kept >= point).all(axis=1).any():
            kept = np.vstack([kept, point])
    return {tuple(row) for row in (kept * signs).tolist()}
