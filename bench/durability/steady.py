"""A steady load: requests leave by the clock, whether or not the ones before are answered."""

from __future__ import annotations

import json
import time

import numpy as np

from bench.exchange import Answer, Paced, request
from bench.process import Failed

REQUESTS = 100
"""Requests a second."""

CONNECTIONS = 16
LAST_SECONDS = 120.0


class Steady:
    """Events to a board's objects ``o0``, ``o1``, ..., so many a second, and now and then a changed subscription."""

    def __init__(self, port: int, board: str, objects: int, subscriptions: int, events: int) -> None:
        self._load = Paced()
        self._port = port
        self._path = f"/v1/boards/{board}"
        self._objects, self._subscriptions = objects, subscriptions
        self._batch = max(1, events // REQUESTS)
        self._rng = np.random.default_rng(3)
        self._stopping = False

    async def run(self) -> None:
        """Send until `stop`, then wait for what is on its way. Raises `Failed` when a connection is lost."""
        await self._load.open(self._port, CONNECTIONS)
        began, sent = time.perf_counter(), 0
        while not self._stopping:
            await self._load.send(began + sent / REQUESTS, self._change(sent))
            sent += 1
        if missing := await self._load.finish(LAST_SECONDS):
            raise Failed(f"{missing} requests were not answered in {LAST_SECONDS:.0f} s")

    def stop(self) -> None:
        """Send nothing more."""
        self._stopping = True

    @property
    def answers(self) -> list[Answer]:
        return self._load.answers

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
