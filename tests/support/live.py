"""Services in processes of their own, started as a user does it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.support.forks import Forked
from tests.support.patience import PATIENCE
from tests.support.ports import free_port
from tests.support.processes import Processes, Scope

RANKCAST = str(Path(sys.executable).with_name("rankcast"))
"""The command, as it is installed."""


def serve_command(*options: str | Path, port: int | None = None) -> list[str]:
    """The command line of a service on this port of the loopback address, or on a free one."""
    port = free_port() if port is None else port
    return [RANKCAST, "serve", "--host", "127.0.0.1", "--port", str(port), *map(str, options)]


@dataclass
class LiveService:
    """`rankcast serve`. Its output goes to `log`."""

    process: subprocess.Popen[bytes] | Forked
    url: str
    data: Path
    log: Path

    def wait_until_ready(self, seconds: float = 2 * PATIENCE) -> None:
        """Returns once /readyz answers 200; fails with the service's own output when it ends or takes too long."""
        end = time.monotonic() + seconds
        # One client for all looks: to make one takes more of the processor than a start can spare.
        with httpx.Client(base_url=self.url, timeout=10.0) as http:
            while time.monotonic() < end and self.process.poll() is None:
                with suppress(httpx.TransportError):
                    if http.get("/readyz").status_code == 200:
                        return
                time.sleep(0.05)
        pytest.fail(f"the service is not ready (exit {self.process.poll()}):\n{self.log.read_text()[-4000:]}")

    def stop(self, how: signal.Signals = signal.SIGTERM, seconds: float = PATIENCE) -> int:
        """Sends a signal and returns the exit status; a service that stays is killed, which fails the test."""
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            pytest.fail(f"the service ignored {how.name}:\n{self.log.read_text()[-4000:]}")


StartService = Callable[..., LiveService]


@pytest.fixture(scope="session")
def start_service(tmp_path_factory: pytest.TempPathFactory, processes: Processes) -> StartService:
    """Starts services: `start_service(data=None, *options, env={...}, port=None, as_user=False, until="test")`.

    They are forked off a process that has loaded all there is to load; one that comes back has another hash seed than
    the one before it. With a Python path of its own, and where a test asks for it, a service is started as a user does.
    It ends with the test, or the module whose fixture starts it; with `until`, not before the module or session does.
    """

    def start(
        data: Path | None = None,
        *options: str,
        env: dict[str, str] | None = None,
        port: int | None = None,
        as_user: bool = False,
        until: Scope = "test",
    ) -> LiveService:
        folder = tmp_path_factory.mktemp("service")
        port, log, env = port or free_port(), folder / "log", env or {}
        data = data or folder / "data"
        command = serve_command("--data", data, *options, port=port)
        process: subprocess.Popen[bytes] | Forked
        if as_user or "PYTHONPATH" in env:
            with log.open("wb") as output:
                process = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, **env})
        else:
            process = Forked(command[1:], {**os.environ, **env}, log)
        processes.append(process, until)
        service = LiveService(process, f"http://127.0.0.1:{port}", data, log)
        service.wait_until_ready()
        return service

    return start
