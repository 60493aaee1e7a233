"""The processes that a benchmark starts: the service, the apps it is held against, the load generator."""

from __future__ import annotations

import ctypes
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HOST = "127.0.0.1"
START_SECONDS = 600.0
STOP_SECONDS = 60.0
TAIL_LINES = 12


class Failed(Exception):
    """A process of the benchmark did not do what it should; the message says which and how."""


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


class Server:
    """A running HTTP server in a process of its own."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process = process
        self.port = port
        self.log = log

    @property
    def pid(self) -> int:
        return self.process.pid

    def resident(self) -> int:
        """Resident bytes."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise Failed("the server has no resident memory")

    def ask(
        self, method: str, path: str, body: bytes | None = None, kind: str = "application/json", seconds: float = 300.0
    ) -> Any:
        """One request; the JSON of its answer. Raises `Failed` for a refusal."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=seconds)
        try:
            connection.request(method, path, body, {"content-type": kind} if body is not None else {})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        if answer.status >= 300:
            raise Failed(f"{method} {path} is answered {answer.status}: {text[:500].decode(errors='replace')}")
        return json.loads(text)

    def send(self, path: str, body: bytes, kind: str, seconds: float = 300.0) -> tuple[float, float, int]:
        """POST a large body and throw a large answer away: seconds to its first byte and to its last, and its length.

        Raises `Failed` for a refusal.
        """
        head = f"POST {path} HTTP/1.1\r\nhost: {HOST}\r\nconnection: close\r\n"
        with socket.create_connection((HOST, self.port), seconds) as connection:
            began = time.perf_counter()
            connection.sendall(f"{head}content-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n".encode())
            connection.sendall(body)
            answer = connection.recv(1 << 16)
            first = time.perf_counter() - began
            total, piece = len(answer), bytearray(1 << 20)
            while (size := connection.recv_into(piece)) > 0:
                total += size
        if not answer.startswith(b"HTTP/1.1 2"):
            raise Failed(f"POST {path} is answered {answer[:500].decode(errors='replace')}")
        return first, time.perf_counter() - began, total

    def wait(self) -> None:
        """Returns once /readyz answers 200. Raises `Failed` when the process ends or takes too long."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            try:
                self.ask("GET", "/readyz", seconds=2.0)
                return
            except (OSError, http.client.HTTPException, Failed):
                time.sleep(0.05)
        raise Failed(f"the server is not ready (exit {self.process.poll()}):\n{self.tail()}")

    def tail(self) -> str:
        """The last lines that it wrote."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-TAIL_LINES:])


@contextmanager
def serving(folder: Path, name: str, command: list[str], log_format: str = "console") -> Iterator[Server]:
    """A server on a free port, ready; `command` is what the interpreter is given, and takes ``--port``."""
    port = free_port()
    log = folder / f"{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, *command, "--port", str(port)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, "RANKCAST_LOG_FORMAT": log_format},
        )
    server = Server(process, port, log)
    try:
        server.wait()
        yield server
        if process.poll() is not None:
            raise Failed(f"{name} ended by itself with status {process.returncode}:\n{server.tail()}")
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def end_with_parent() -> None:
    """Have the system end this process when the one that started it is killed (Linux)."""
    if sys.platform == "linux":
        set_death_signal = 1
        ctypes.CDLL(None).prctl(set_death_signal, signal.SIGTERM)


@contextmanager
def service(folder: Path, *options: str) -> Iterator[Server]:
    """`rankcast serve` on a data directory of its own below `folder`, with its durable log; it logs JSON."""
    start = "from bench.process import end_with_parent; end_with_parent(); from app.__main__ import main; main()"
    command = ["-c", start, "serve", "--host", HOST, "--data", str(folder / "data"), *options]
    with serving(folder, "service", command, "json") as server:
        yield server


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used so far, of all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run_job(module: str, job: dict[str, Any], seconds: float = 1800.0) -> Any:
    """Run ``python -m module`` with a job as JSON on its input; the JSON that it prints. Raises `Failed`."""
    done = subprocess.run(
        [sys.executable, "-m", module],
        input=json.dumps(job).encode(),
        capture_output=True,
        timeout=seconds,
        check=False,
    )
    if done.returncode:
        raise Failed(f"{module} failed:\n{done.stderr.decode(errors='replace')[-4000:]}")
    return json.loads(done.stdout)
