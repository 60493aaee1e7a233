"""A steady load: requests leave by the clock, whether or not the ones before are answered."""

from __future__ import annotations

import asyncio
import json
import time
from collections import deque
from typing import NamedTuple

import numpy as np

from bench.exchange import Exchange, connect, request
from bench.process import Failed

REQUESTS = 100
"""Requests a second."""

CONNECTIONS = 16


class Answer(NamedTuple):
    """When a request was due and how long after that it was answered, in seconds."""

    due: float
    seconds: float
    status: int


class Steady:
    """Events to a board's objects ``o0``, ``o1``, ..., so many a second, and now and then a changed subscription.

    The time of an answer counts from when its request was due, so that one that has to wait for another is not seen as
    fast.
    """

    def __init__(self, port: int, board: str, objects: int, subscriptions: int, events: int) -> None:
        self.answers: list[Answer] = []
        self._port = port
        self._path = f"/v1/boards/{board}"
        self._objects, self._subscriptions = objects, subscriptions
        self._batch = max(1, events // REQUESTS)
        self._rng = np.random.default_rng(3)
        self._waiting: deque[tuple[float, bytes]] = deque()
        self._free: deque[Exchange] = deque()
        self._due: dict[Exchange, float] = {}
        self._stopping = False

    async def run(self) -> None:
        """Send until `stop`, then wait for what is on its way. Raises `Failed` when a connection is lost."""
        exchanges = [await connect(self._port, self._on_answer) for _ in range(CONNECTIONS)]
        self._free = deque(exchanges)
        began, sent = time.perf_counter(), 0
        while not self._stopping or self._due or self._waiting:
            while not self._stopping and began + sent / REQUESTS <= time.perf_counter():
                self._waiting.append((began + sent / REQUESTS, self._change(sent)))
                sent += 1
            self._send()
            if any(exchange.lost for exchange in exchanges):
                raise Failed("the service closed a connection of the load")
            await asyncio.sleep(0.001)
        for exchange in exchanges:
            exchange.transport.close()

    def stop(self) -> None:
        """Send nothing more."""
        self._stopping = True

    def between(self, begin: float, end: float) -> list[float]:
        """The seconds of the requests that were due then."""
        return [answer.seconds for answer in self.answers if begin <= answer.due < end]

    def _change(self, number: int) -> bytes:
        rng = self._rng
        if number % 20 == 19:
            l, r = np.sort(rng.random(2)).tolist()
            path = f"{self._path}/subscriptions/s{rng.integers(self._subscriptions)}"
            return request("PATCH", path, json.dumps({"range": {"x": [l, r]}}).encode())
        names, values = rng.integers(self._objects, size=self._batch).tolist(), rng.random(self._batch).tolist()
        events = [{"op": "update", "id": f"o{i}", "values": {"y": y}} for i, y in zip(names, values, strict=True)]
        return request("POST", f"{self._path}/events", json.dumps({"messages": "count", "events": events}).encode())

    def _send(self) -> None:
        while self._waiting and self._free:
            due, payload = self._waiting.popleft()
            exchange = self._free.popleft()
            self._due[exchange] = due
            exchange.ask(payload)

    def _on_answer(self, exchange: Exchange, status: int, body: bytes) -> None:
        due = self._due.pop(exchange)
        self.answers.append(Answer(due, time.perf_counter() - due, status))
        self._free.append(exchange)
        self._send()
