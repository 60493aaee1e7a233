"""The processes that a benchmark starts: the service, the apps it is compared with, the load generator."""

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
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from prometheus_client.parser import text_string_to_metric_families

from app.runtime.listening import free_port

CHECKOUT = Path(__file__).resolve().parent.parent
HOST = "127.0.0.1"
ARROW = "application/vnd.apache.arrow.stream"
NDJSON = "application/x-ndjson"
START_SECONDS = 600.0

OTHER_SETTLE_SECONDS = 5.0
"""How long the service of another commit is waited for that does not say when its kernels are loaded."""

STOP_SECONDS = 60.0
TAIL_LINES = 12


class Failed(Exception):
    """A process of the benchmark did not do what it should; the message says which and how."""


class Server:
    """A running HTTP server in a process of its own."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
        self.process = process
        self.port = port
        self.log = log
        self.ready_seconds = 0.0
        """From its start to the first 200 of /readyz."""

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
        return json.loads(self._text(method, path, body, kind, seconds))

    def longest(self, histogram: str) -> float:
        """What no value of a histogram among the service's metrics exceeds: the bound of its last bucket with any."""
        at_most = {
            float(sample.labels["le"]): sample.value
            for family in text_string_to_metric_families(self._text("GET", "/metrics").decode())
            for sample in family.samples
            if sample.name == f"{histogram}_bucket"
        }
        count = max(at_most.values(), default=0.0)
        return min((bound for bound, below in at_most.items() if below == count), default=0.0)

    def _text(
        self, method: str, path: str, body: bytes | None = None, kind: str = "application/json", seconds: float = 300.0
    ) -> bytes:
        connection = http.client.HTTPConnection(HOST, self.port, timeout=seconds)
        try:
            connection.request(method, path, body, {"content-type": kind} if body is not None else {})
            answer = connection.getresponse()
            text: bytes = answer.read()
        finally:
            connection.close()
        if answer.status >= 300:
            raise Failed(f"{method} {path} is answered {answer.status}: {text[:500].decode(errors='replace')}")
        return text

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

    def send_table(self, path: str, table: pa.Table) -> float:
        """POST a table as an Arrow stream; seconds to the last byte of the answer. Raises `Failed` for a refusal."""
        return self.send(path, to_stream(table), ARROW)[1]

    def expect(self, path: str, field: str, wanted: int) -> None:
        """Raise `Failed` unless a field of a resource is this number: what was sent has arrived."""
        found = self.ask("GET", path)[field]
        if found != wanted:
            raise Failed(f"{path} has {found} {field}, not {wanted}")

    def wait(self) -> None:
        """Returns once /readyz answers 200. Raises `Failed` when the process ends or takes too long."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self.process.poll() is None:
            try:
                self.ask("GET", "/readyz", seconds=2.0)
                return
            except (OSError, http.client.HTTPException, Failed):
                time.sleep(0.01)
        raise Failed(f"the server is not ready (exit {self.process.poll()}):\n{self.tail()}")

    def settle(self, seconds: float = START_SECONDS) -> None:
        """Return once the service has loaded its kernels, which it goes on with after it is ready."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self.process.poll() is None:
            if '"event": "kernels loaded"' in self.log.read_text(errors="replace"):
                return
            time.sleep(0.05)
        raise Failed(f"the service does not load its kernels (exit {self.process.poll()}):\n{self.tail()}")

    def tail(self) -> str:
        """The last lines that it wrote."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-TAIL_LINES:])


def to_stream(table: pa.Table) -> bytes:
    """A table as an Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=50_000)
    found: bytes = sink.getvalue().to_pybytes()
    return found


class Checkout(NamedTuple):
    """A checkout of the repository, the interpreter that its processes run with, and variables of their own."""

    root: Path = CHECKOUT
    python: str = sys.executable
    variables: Mapping[str, str] = {}

    @classmethod
    def at(cls, root: Path) -> Checkout:
        """The checkout in a folder, with the interpreter of its own environment if it has one."""
        own = root / ".venv" / "bin" / "python"
        return cls(root, str(own) if own.is_file() else sys.executable)

    def environment(self, **more: str) -> dict[str, str]:
        """That of a process which imports what the checkout has, and keeps compiled modules as one installed does."""
        kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        return {**kept, "PYTHONPATH": str(self.root), **self.variables, **more}


OURS = Checkout()


class Worker:
    """A process that answers each line of its input by a line of JSON; the first line comes when it is ready."""

    def __init__(self, command: list[str], environment: dict[str, str], folder: Path = CHECKOUT) -> None:
        self._name = " ".join(command)
        self._process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def read(self) -> Any:
        """The next answer. Raises `Failed` when the process has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise Failed(f"{self._name} ended with status {self._process.wait()}")
        return json.loads(line)

    def ask(self, line: str) -> Any:
        """The answer to a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self.read()

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def serving(
    folder: Path, name: str, command: list[str], log_format: str = "console", checkout: Checkout = OURS
) -> Iterator[Server]:
    """A server on a free port, ready; `command` is what the interpreter is given, and takes ``--port``."""
    port = free_port()
    log = folder / f"{name}.log"
    began = time.perf_counter()
    with log.open("wb") as output:
        process = subprocess.Popen(
            [checkout.python, *command, "--port", str(port)],
            cwd=checkout.root,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=checkout.environment(RANKCAST_LOG_FORMAT=log_format),
        )
    server = Server(process, port, log)
    try:
        server.wait()
        server.ready_seconds = time.perf_counter() - began
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


def floor(folder: Path, kind: str) -> AbstractContextManager[Server]:
    """An app of `bench.boards.floor`, with a log of its own below `folder`."""
    return serving(folder, kind, ["-m", "bench.boards.floor", kind, "--data", str(folder / kind)])


@contextmanager
def service(
    folder: Path, *options: str, checkout: Checkout = OURS, settle_seconds: float | None = None
) -> Iterator[Server]:
    """`rankcast serve` on a data directory of its own below `folder`, with its durable log; it logs JSON.

    A service of another commit may not say when its kernels are loaded: it is waited for no longer than it may take.
    """
    start = (
        "from bench.process import end_with_parent; end_with_parent(); from importlib.metadata import entry_points; "
        "(main,) = entry_points(group='console_scripts', name='rankcast'); main.load()()"
    )
    command = ["-c", start, "serve", "--host", HOST, "--data", str(folder / "data"), *options]
    with serving(folder, "service", command, "json", checkout) as server:
        try:
            server.settle(settle_seconds or (START_SECONDS if checkout == OURS else OTHER_SETTLE_SECONDS))
        except Failed:
            if checkout == OURS:
                raise
        yield server


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used so far, of all its threads (Linux)."""
    whole_process = 2
    return time.clock_gettime((~pid << 3) | whole_process)


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
