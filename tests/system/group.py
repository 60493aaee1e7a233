"""Groups of nodes for tests: their ports are known before they start, so that each can name the others."""

from __future__ import annotations

import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from tests.support.live import LiveService, StartService, serve_command
from tests.support.patience import PATIENCE, wait_until
from tests.support.ports import free_port

WHOLE = 20
"""Pieces of a connection that pass whole while a proxy halves."""

QUICK = ("--max-lag", "10", "--shutdown-seconds", "3")


class Group:
    """Some nodes of one history, each on a port of its own."""

    def __init__(self, start: StartService, folder: Path, nodes: int, *options: str) -> None:
        self._start = start
        self._folder = folder
        self._options = (*QUICK, *options)
        self.ports = [free_port() for _ in range(nodes)]
        self.reached_by: list[str] | None = None
        """The URLs by which nodes reach each other, where these are others than those of clients."""
        self.env: dict[int, dict[str, str]] = {}
        """The environment of a node, where it has one of its own."""
        self.own: dict[int, tuple[str, ...]] = {}
        """The options of a node beside those of all."""
        self.nodes: dict[int, LiveService] = {}

    def url(self, node: int) -> str:
        """The URL of a node."""
        return f"http://127.0.0.1:{self.ports[node]}"

    @property
    def urls(self) -> str:
        """The URLs of all nodes."""
        return ",".join(self.reached_by or map(self.url, range(len(self.ports))))

    def data(self, node: int) -> Path:
        """The data directory of a node."""
        return self.disk(node) / "data"

    def disk(self, node: int) -> Path:
        """The folder of a node, where a disk of its own may be mounted."""
        return self._folder / f"node{node}"

    def lead(self, node: int = 0, *options: str) -> LiveService:
        """Start a node that leads unless another one does."""
        return self._begin(node, "--peers", self.urls, *options)

    def follow(self, node: int, *options: str, by: str | None = None) -> LiveService:
        """Start a node that follows unless it leads."""
        return self._begin(node, "--follow", by or self.urls, *options)

    def _begin(self, node: int, *options: str) -> LiveService:
        service = self._start(
            self.data(node),
            *self._options,
            *self.own.get(node, ()),
            *options,
            env=self.env.get(node),
            port=self.ports[node],
        )
        self.nodes[node] = service
        return service

    @contextmanager
    def starting(self, node: int, until: Callable[[str], bool]) -> Iterator[None]:
        """Start a node that cannot become ready yet, whose output becomes so; at the end it is killed."""
        options = (*self._options, *self.own.get(node, ()), "--peers", self.urls)
        command = serve_command("--data", self.data(node), *options, port=self.ports[node])
        log = self._folder / f"starting{node}"
        with log.open("w") as out, subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT) as process:
            try:
                wait_until(lambda: process.poll() is not None or until(log.read_text()), PATIENCE, why=log.read_text)
                assert process.poll() is None, log.read_text()
                assert self.about(node).get("ready") is not True
                yield
            finally:
                process.kill()

    def kill(self, node: int) -> None:
        """Kill a node."""
        self.nodes[node].stop(signal.SIGKILL)

    def about(self, node: int) -> dict[str, Any]:
        """What a node says at /readyz; nothing where it does not answer."""
        with suppress(httpx.TransportError):
            found: dict[str, Any] = httpx.get(f"{self.url(node)}/readyz", timeout=10).json()
            return found
        return {}

    def promote(self, node: int, force: bool = False) -> httpx.Response:
        """Promote a node."""
        return httpx.post(f"{self.url(node)}/v1/admin/promote", json={"force": force}, timeout=60)

    def wait_for(self, node: int, **expected: Any) -> dict[str, Any]:
        """Wait until a node says so at /readyz."""
        found: dict[str, Any] = {}

        def says() -> bool:
            found.clear()
            found.update(self.about(node))
            return all(found.get(name) == value for name, value in expected.items())

        wait_until(says, PATIENCE, 0.05, lambda: (found, self.log(node)[-4000:]))
        return found

    def in_step(self, *nodes: int) -> int:
        """Wait until nodes show the same row, which is returned."""
        wait_until(lambda: len({self.about(node).get("lsn") for node in nodes}) == 1, PATIENCE, 0.02)
        return int(self.about(nodes[0])["lsn"])

    def log(self, node: int) -> str:
        """What a node has logged."""
        return self.nodes[node].log.read_text() if node in self.nodes else ""


class Proxy:
    """A TCP proxy to a port. `cut_after` bytes from there it cuts the connection, once; `cut` cuts all there are and
    lets none begin, `silence` lets them be and nothing pass, both until `mend`. Each piece of at most 16 KiB waits for
    `delay` seconds. While it `halves`, every connection passes some pieces and half of another, and is cut.
    """

    def __init__(self, port: int) -> None:
        self.port = free_port()
        self.passed = 0
        self.cut_after: int | None = None
        self.cuts = 0
        self.delay = 0.0
        self.halves = False
        self._passes = threading.Event()
        self._passes.set()
        self._target = port
        self._down = False
        self._open: set[socket.socket] = set()
        self._listener = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def url(self) -> str:
        """The URL of the proxy."""
        return f"http://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Let nothing pass."""
        self._down = True
        for one in list(self._open):
            _close(one)

    def silence(self) -> None:
        """Let nothing pass, unnoticed."""
        self._passes.clear()

    def mend(self) -> None:
        """Let everything pass again."""
        self._down = False
        self._passes.set()

    def close(self) -> None:
        """Listen no more."""
        self.cut()
        self._passes.set()
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                if self._down:
                    near.close()
                    continue
                try:
                    far = socket.create_connection(("127.0.0.1", self._target))
                except OSError:
                    near.close()
                    continue
                self._open |= {near, far}
                threading.Thread(target=self._pump, args=(near, far, False), daemon=True).start()
                threading.Thread(target=self._pump, args=(far, near, True), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket, counts: bool) -> None:
        with suppress(OSError):
            left = WHOLE
            while piece := source.recv(1 << 14):
                time.sleep(self.delay)
                self._passes.wait()
                if self.halves:
                    left -= 1
                    if not left:
                        self.cuts += 1
                        sink.sendall(piece[: len(piece) // 2])
                        break
                if counts:
                    self.passed += len(piece)
                    if self.cut_after is not None and self.passed > self.cut_after:
                        self.cut_after = None
                        self.cuts += 1
                        break
                sink.sendall(piece)
        for one in (source, sink):
            _close(one)
            self._open.discard(one)


def _close(one: socket.socket) -> None:
    with suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)
    one.close()
