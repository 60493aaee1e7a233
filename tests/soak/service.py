"""The service of a soak: one port for all its lives, and the faults that it meets."""

from __future__ import annotations

import os
import resource
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

import httpx

from tests.support.live import serve_command
from tests.support.ports import free_port
from tests.system.disks import starve
from tests.system.faults import begin
from tests.system.http.talk import Talk

OPTIONS = ("--snapshot-every-minutes", "10", "--keep-snapshots", "2")
START_SECONDS = 300.0


class SoakService:
    """`rankcast serve` on a data directory, started again after each death on the same port."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.log = folder / "service.log"
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self.starts = 0
        self._begin()

    def _begin(self) -> None:
        with self.log.open("ab") as output:
            command = serve_command("--data", self.data, *OPTIONS, port=self._port)
            self.process = subprocess.Popen(command, stdout=output, stderr=output)
        end = time.monotonic() + START_SECONDS
        with httpx.Client(base_url=self.url, timeout=10.0) as http:
            while time.monotonic() < end:
                if self.process.poll() is not None:
                    raise RuntimeError(f"the service ended with status {self.process.returncode}: see {self.log}")
                try:
                    if http.get("/readyz").status_code == 200:
                        self.starts += 1
                        return
                except httpx.TransportError:
                    pass
                time.sleep(0.1)
        raise RuntimeError(f"the service is not ready: see {self.log}")

    def again(self, how: signal.Signals) -> float:
        """End it by a signal and start it; seconds until it is ready."""
        began = time.monotonic()
        self.process.send_signal(how)
        status = self.process.wait(60.0)
        if how == signal.SIGTERM and status != 0:
            raise RuntimeError(f"the service ended with status {status}: see {self.log}")
        self._begin()
        return time.monotonic() - began

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60.0)

    # What a minute may bring.

    def kill(self) -> None:
        """`kill -9`, and a start."""
        self.again(signal.SIGKILL)

    def restart(self) -> None:
        """SIGTERM, and a start."""
        self.again(signal.SIGTERM)

    def pause(self) -> None:
        """Stopped for three seconds, as by a machine that swaps."""
        self.process.send_signal(signal.SIGSTOP)
        time.sleep(3.0)
        self.process.send_signal(signal.SIGCONT)

    def full_disk(self) -> None:
        """No file grows for two seconds."""
        starve(self.process.pid, True)
        time.sleep(2.0)
        starve(self.process.pid, False)

    def rubbish(self) -> None:
        """Bytes that are no request, requests that never end, and connections that go away."""
        draw = Random(time.time_ns())
        for n in range(40):
            with socket.create_connection(("127.0.0.1", self._port), 10.0) as connection:
                if n % 2:
                    connection.sendall(draw.randbytes(200))
                else:
                    head = (
                        "POST /v1/boards/crowd-board/events HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 100000\r\n"
                    )
                    connection.sendall(f"{head}content-type: application/json\r\n\r\n".encode() + b'{"events": [')

    def slow_readers(self) -> None:
        """Streams whose readers take nothing for some seconds."""
        path = "/v1/boards/crowd-board/subscriptions/s{}/stream"
        opened = []
        for n in range(20):
            connection = socket.create_connection(("127.0.0.1", self._port), 10.0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.sendall(f"GET {path.format(n)} HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n".encode())
            opened.append(connection)
        time.sleep(5.0)
        for connection in opened:
            connection.close()

    def _job(self, kind: str, *resources: str) -> None:
        with httpx.Client(base_url=self.url, timeout=30.0) as http:
            begin(Talk(self.url, http=http), kind, **({"resources": list(resources)} if resources else {}))

    def snapshot(self) -> None:
        """A snapshot, under load."""
        self._job("snapshots")

    def rebuild(self) -> None:
        """A rebuild of the crowd's resources, under load."""
        self._job("rebuilds", *(f"{kind}s/crowd-{kind}" for kind in ("board", "matcher", "relay", "map", "feed")))

    def verify(self) -> None:
        """A comparison of everything with a scan, under load."""
        self._job("verify")

    @property
    def faults(self) -> list[Callable[[], None]]:
        """What the minutes bring, in turns, but for ends and rebuilds."""
        return [self.pause, self.rubbish, self.snapshot, self.full_disk, self.slow_readers]

    # What is seen from outside.

    def resident(self) -> int:
        """Bytes of its memory."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * resource.getpagesize()

    def handles(self) -> int:
        """Its open file handles."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    def disk(self) -> int:
        """Bytes of its data directory."""
        total = 0
        for folder, _, names in os.walk(self.data):
            for name in names:
                try:
                    total += os.stat(os.path.join(folder, name)).st_size
                except FileNotFoundError:
                    continue
        return total
