"""Brokers for tests: those that run on this machine, and processes of a test's own that it may kill.

``RANKCAST_TEST_NATS``, ``_REDIS``, ``_RABBITMQ`` and ``_MQTT`` are URLs of servers. Where one is missing its tests
are skipped, and with ``CI=true`` fail. Kafka is the mock cluster of librdkafka, in a process of its own: no broker of
Kafka comes as a package, and this one speaks the protocol over TCP.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

import pytest

from tests.support.patience import PATIENCE
from tests.support.ports import free_port

SERVERS = {
    "nats": ("RANKCAST_TEST_NATS", "nats://127.0.0.1:4222"),
    "redis": ("RANKCAST_TEST_REDIS", "redis://127.0.0.1:6379"),
    "amqp": ("RANKCAST_TEST_RABBITMQ", "amqp://guest:guest@127.0.0.1:5672"),
    "mqtt": ("RANKCAST_TEST_MQTT", "mqtt://127.0.0.1:1883"),
}
PROGRAMS = {"nats": "nats-server", "redis": "redis-server", "mqtt": "mosquitto"}

_KAFKA = """
import sys, time
from confluent_kafka import Producer
producer = Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock"})
producer.list_topics(sys.argv[1], timeout=30)
broker = next(iter(producer.list_topics(timeout=30).brokers.values()))
print(f"{broker.host}:{broker.port}", flush=True)
sys.stdin.read()
"""


def missing(why: str) -> NoReturn:
    """Skip the test, or with ``CI=true`` fail it."""
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)


def server(broker: str) -> str:
    """The URL of a running server, without a slash at its end."""
    variable, default = SERVERS[broker]
    url = os.environ.get(variable, default).rstrip("/")
    parts = urlsplit(url)
    assert parts.hostname is not None and parts.port is not None, f"{variable} names no host and port"
    try:
        socket.create_connection((parts.hostname, parts.port), 10).close()
    except OSError as error:
        missing(f"no server at {variable}: {error}")
    return url


class Broker:
    """A broker in a process of its own, on a port that it keeps. What it was given is in `folder`."""

    def __init__(self, broker: str, folder: Path) -> None:
        self.broker = broker
        program = shutil.which(PROGRAMS[broker]) or shutil.which(PROGRAMS[broker], path="/usr/sbin:/usr/local/sbin")
        if program is None:
            missing(f"no {PROGRAMS[broker]}")
        self._folder = folder
        self._port = free_port()
        self._command = [program, *self._options()]
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"{self.broker}://127.0.0.1:{self._port}"

    def _options(self) -> list[str]:
        port, folder = str(self._port), str(self._folder)
        if self.broker == "nats":
            return ["-a", "127.0.0.1", "-p", port, "-js", "-sd", folder]
        if self.broker == "redis":
            return ["--port", port, "--dir", folder, "--appendonly", "yes", "--appendfsync", "always", "--save", ""]
        config = self._folder / "mosquitto.conf"
        config.write_text(
            f"listener {port} 127.0.0.1\nallow_anonymous true\npersistence true\npersistence_location {folder}/\n"
            "max_queued_messages 0\nuser root\n"
        )
        return ["-c", str(config)]

    def start(self) -> None:
        """Start it, on what was there before, and return when it answers."""
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", self._port), 1).close()
                return
            time.sleep(0.02)
        raise AssertionError((self._folder / "log").read_text())

    def stop(self, how: signal.Signals = signal.SIGKILL) -> None:
        """End it by a signal."""
        assert self._process is not None
        self._process.send_signal(how)
        self._process.wait(PATIENCE)


class MockKafka:
    """librdkafka's mock cluster with one topic of four partitions."""

    def __init__(self, topic: str) -> None:
        pytest.importorskip("confluent_kafka")
        self._process = subprocess.Popen(
            [sys.executable, "-c", _KAFKA, topic], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            stderr=subprocess.DEVNULL,
        )  # fmt: skip
        assert self._process.stdout is not None
        self.hosts = self._process.stdout.readline().strip()
        assert self.hosts, "the mock cluster ended"

    @property
    def url(self) -> str:
        return f"kafka://{self.hosts}"

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


def counted(output: str) -> dict[str, int]:
    """What a connector says at its end."""
    found: dict[str, int] = json.loads(output.splitlines()[-1])
    return found
