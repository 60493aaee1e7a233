"""NATS with JetStream and gateways in processes of their own, which tests may kill and start again."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.live import RANKCAST, LiveService, StartService
from tests.support.patience import wait_until
from tests.support.ports import free_port
from tests.support.processes import Processes

NATS_SERVER = shutil.which("nats-server") or "/usr/sbin/nats-server"


@dataclass
class Nats:
    """`nats-server` with JetStream in a folder; what it stored is there again after any end."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes]
    processes: Processes

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def start(self) -> None:
        """Start it again, and return once it listens."""
        self.process = _started(self.folder, self.port)
        self.processes.append(self.process)


def _started(folder: Path, port: int) -> subprocess.Popen[bytes]:
    command = [NATS_SERVER, "-js", "-sd", str(folder), "-a", "127.0.0.1", "-p", str(port)]
    with (folder / "log").open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output)

    def listens() -> bool:
        with socket.socket() as probe:
            return process.poll() is not None or probe.connect_ex(("127.0.0.1", port)) == 0

    wait_until(listens)
    assert process.poll() is None, (folder / "log").read_text()
    return process


StartNats = Callable[[], Nats]
StartGateway = Callable[..., LiveService]


@pytest.fixture(scope="session")
def start_nats(tmp_path_factory: pytest.TempPathFactory, processes: Processes) -> StartNats:
    """Starts NATS; skipped where there is none."""
    if not os.access(NATS_SERVER, os.X_OK):
        pytest.skip("nats-server is not installed")

    def start() -> Nats:
        folder, port = tmp_path_factory.mktemp("nats"), free_port()
        nats = Nats(folder, port, _started(folder, port), processes)
        processes.append(nats.process)
        return nats

    return start


@pytest.fixture(scope="session")
def start_gateway(tmp_path_factory: pytest.TempPathFactory, processes: Processes) -> StartGateway:
    """Starts gateways: `start_gateway(service_url, nats_url, port=None, env={...})`."""

    def start(
        upstream: str, nats: str, port: int | None = None, env: dict[str, str] | None = None, key: str | None = None
    ) -> LiveService:
        folder = tmp_path_factory.mktemp("gateway")
        port, log = port or free_port(), folder / "log"
        command = [RANKCAST, "gateway", "--upstream", upstream, "--nats", nats, "--port", str(port)]
        command += [] if key is None else ["--key", key]
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, **(env or {})})
        gateway = LiveService(process, f"http://127.0.0.1:{port}", folder, log)
        processes.append(process)
        wait_until(lambda: process.poll() is not None or "listening" in log.read_text())
        assert process.poll() is None, log.read_text()
        return gateway

    return start


def zoned_pair(
    start_service: StartService, start_nats: StartNats, start_gateway: StartGateway, env: dict[str, str]
) -> LiveService:
    """A gateway before a service with NATS; both have these settings."""
    nats = start_nats()
    service = start_service(env={**env, "RANKCAST_NATS": nats.url})
    gateway = start_gateway(service.url, nats.url, env=env)
    gateway.wait_until_ready()
    return gateway
