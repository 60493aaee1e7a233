"""A connector and a service as processes, killed while messages are carried, and what must be there afterwards."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any

import httpx

from tests.support.live import RANKCAST, LiveService, StartService
from tests.support.patience import PATIENCE, wait_until
from tests.system.connectors.feeds import Feed, Record
from tests.system.connectors.model import BOARD, Model, messages
from tests.system.faults import Points

PATH = "/v1/boards/b"
PORTION = 1_200
KILLS = 5
BETWEEN = 1
"""The kill that falls between a commit and what follows it. The others fall anywhere."""

KILLED = "both", "connector", "service", "connector"
"""What is killed, one after the other."""

TAKEN = "had been taken already"


class Running:
    """`rankcast connect` or `publish` as a process."""

    def __init__(self, folder: Path, *command: str, env: Mapping[str, str] | None = None) -> None:
        self._errors = folder / f"{command[0]}.err"
        self._out = folder / f"{command[0]}.out"
        with self._errors.open("ab") as errors, self._out.open("wb") as out:
            self.process = subprocess.Popen(
                [RANKCAST, *command], stdout=out, stderr=errors, env={**os.environ, **(env or {})}
            )

    @property
    def said(self) -> str:
        """What it and those before it said."""
        return self._errors.read_text()

    def alive(self) -> bool:
        """Whether it runs; fails where it ended by itself."""
        assert self.process.poll() is None, self.said[-4000:]
        return True

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> dict[str, int]:
        """End it as an operator does; what it counted."""
        self.alive()
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> dict[str, int]:
        """What it counted, when it has ended with success."""
        assert self.process.wait(PATIENCE) == 0, self.said[-4000:]
        counts: dict[str, int] = json.loads(self._out.read_text().splitlines()[-1])
        return counts


StartConnector = Callable[..., Running]


def seq_of(service: LiveService) -> int:
    """The seq of the board."""
    seq: int = httpx.get(service.url + PATH, timeout=PATIENCE).json()["seq"]
    return seq


def objects_of(service: LiveService) -> list[dict[str, Any]]:
    """All objects of the board, in order of id."""
    items: list[dict[str, Any]] = httpx.get(f"{service.url}{PATH}/objects?limit=1000", timeout=PATIENCE).json()["items"]
    return items


class Carrying:
    """A board, and a connector that carries a feed into it."""

    def __init__(
        self, start_service: StartService, start_connector: StartConnector, folder: Path, feed: Feed, *options: str
    ) -> None:
        self.feed, self._start_service, self._start_connector = feed, start_service, start_connector
        self.points = Points(folder, (feed.done,))
        self.service = start_service()
        self._port = int(self.service.url.rpartition(":")[2])
        assert httpx.put(self.service.url + PATH, json=BOARD).status_code == 201
        self.options = ("--to", "boards/b", "--url", self.service.url, *options)
        self.connector = self.run()
        # What nobody has asked for yet may not be kept.
        wait_until(lambda: self.connector.alive() and "reading" in self.connector.said)

    def run(self, *more: str) -> Running:
        """Start a connector."""
        return self._start_connector("connect", self.feed.source, *self.options, *more, env=self.points.env)

    def kill(self, what: str) -> None:
        """Kill one or both, and start them again."""
        if what != "service":
            self.connector.kill()
        if what != "connector":
            self.service.stop(signal.SIGKILL)
            self.service = self._start_service(self.service.data, port=self._port)
        if what != "service":
            self.connector = self.run()

    def die_between(self) -> None:
        """Let the connector die between the commit of a batch and its acknowledgement, and start it again."""
        before = self.connector.said.count(TAKEN)
        self.points.die(self.feed.done)
        self.connector.process.wait(PATIENCE)
        self.points.clear()
        self.connector = self.run()
        wait_until(lambda: self.connector.alive() and self.connector.said.count(TAKEN) > before)

    def reaches(self, until: int) -> None:
        """Wait until the board is there."""
        wait_until(
            lambda: self.connector.alive() and seq_of(self.service) >= until, why=lambda: self.connector.said[-4000:]
        )


Carry = Callable[..., Carrying]


def killed(
    carrying: Carrying, make: Callable[[Random], Iterable[bytes]], draw: Random, exact: bool = True, kills: int = KILLS
) -> list[bytes]:
    """Publish and kill, until all that was published has been carried; what was published.

    With `exact`, a request that had been taken is sent again once at the least.
    """
    sent: list[bytes] = []
    for number in range(kills):
        before = seq_of(carrying.service)
        portion = list(make(draw))
        sent += portion
        carrying.feed.publish(portion)
        if exact and number == BETWEEN:
            carrying.die_between()
            continue
        carrying.reaches(before + draw.randrange(50, 300))
        time.sleep(draw.random() * 0.05)
        carrying.kill(KILLED[number % len(KILLED)])
    return sent


def portion(draw: Random) -> list[bytes]:
    """Some messages."""
    return messages(draw, PORTION)


def modelled(sent: Iterable[bytes]) -> Model:
    """What a board must hold after these messages."""
    model = Model()
    for message in sent:
        model.take(message)
    return model


def plain(record: Record) -> str:
    """What was refused, as text."""
    return json.dumps(record["event"], sort_keys=True) if "event" in record else record["data"]


def refused(model: Model) -> list[str]:
    """The same of what the model refused."""
    found = []
    for text, index in model.refused:
        value = None if index is None else json.loads(text)
        event = value[index] if isinstance(value, list) and index is not None else value
        found.append(text if index is None else json.dumps(event, sort_keys=True))
    return sorted(found)
