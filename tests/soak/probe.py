"""Latencies as one client sees them: a write, the list that it changes, and the change on a stream."""

from __future__ import annotations

import threading
import time

import httpx

from tests.system.http.following import SseFollower
from tests.system.http.talk import Talk

BOARD = "/v1/boards/probe"
LIMIT = 10.0


class Probe(threading.Thread):
    """Writes an object some times a second, reads a list and waits for the change; milliseconds of each.

    What is measured while a fault goes on is not counted.
    """

    def __init__(self, url: str, pause: float = 0.25) -> None:
        super().__init__(daemon=True)
        self.done = False
        self.fault = threading.Event()
        self.write: list[float] = []
        self.read: list[float] = []
        self.delivery: list[float] = []
        self._url, self._pause = url, pause
        talk = Talk(url)
        rank = {"attribute": "y", "order": "desc"}
        talk.ask("PUT", BOARD, {"range_attributes": ["x"], "rank": rank, "ks": [1]})
        talk.ask("PUT", f"{BOARD}/subscriptions/all", {"k": 1})
        talk.close()

    def take(self) -> tuple[list[float], list[float], list[float]]:
        """What was measured since the last call."""
        found = self.write, self.read, self.delivery
        self.write, self.read, self.delivery = [], [], []
        return found

    def run(self) -> None:
        n, reader = time.time_ns() // 1_000_000, None
        with httpx.Client(base_url=self._url, timeout=LIMIT) as http:
            while not self.done:
                time.sleep(self._pause)
                n += 1
                try:
                    if reader is None or reader.ended is not None:
                        reader = SseFollower(self._url, f"{BOARD}/subscriptions/all/stream")
                        reader.first()
                    disturbed = self.fault.is_set()
                    began = time.perf_counter()
                    answer = http.put(f"{BOARD}/objects/o", json={"values": {"x": 0, "y": n}})
                    written = time.perf_counter()
                    if answer.status_code not in (200, 201):
                        continue
                    seq = answer.json()["seq"]
                    http.get(f"{BOARD}/subscriptions/all").raise_for_status()
                    read = time.perf_counter()
                    reader.wait(lambda reader=reader, seq=seq: reader.said and reader.said[-1].seq >= seq, LIMIT)
                    came = time.perf_counter()
                    del reader.said[:-1], reader.beats[:]
                except (httpx.HTTPError, AssertionError, OSError):
                    reader = None
                    continue
                if not (disturbed or self.fault.is_set()):
                    self.write.append((written - began) * 1e3)
                    self.read.append((read - written) * 1e3)
                    self.delivery.append((came - began) * 1e3)
