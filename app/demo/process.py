"""The service in a process of its own, for the demo: started, waited for, stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from app.listening import CannotListen, PortTaken, listen
from rankcast_client import AsyncRankcast

HOST = "127.0.0.1"
START_SECONDS = 900.0
STOP_SECONDS = 20.0
TAIL_LINES = 8

SERVE = """
import os, signal, threading
def end_with_the_demo():
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=end_with_the_demo, daemon=True).start()
from app.__main__ import main
main()
"""
"""What the child runs. Its input ends when the demo does, however that may be: it is not left behind."""


class Failed(Exception):
    """The demo cannot go on; the message says why."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """What a service says of itself: whether it can be used, and the share of its kernels that are compiled, None where
    it does not say."""

    ready: bool
    warm: float | None = None

    @classmethod
    def of(cls, status: int, body: Any) -> Readiness:
        """Reads an answer of ``/readyz``, also a refusal, with or without the share."""
        known = body if isinstance(body, dict) else {}
        warm = known.get("warm")
        share = float(warm) if isinstance(warm, int | float) and not isinstance(warm, bool) and 0 <= warm <= 1 else None
        return cls(status == 200 and known.get("ready") is not False, share)


async def readiness(client: AsyncRankcast) -> Readiness:
    """Asks a service once; does not raise where there is none."""
    try:
        answer = await client.http.get("/readyz", timeout=5.0)
    except httpx.TransportError:
        return Readiness(False)
    try:
        body = answer.json()
    except ValueError:
        body = None
    return Readiness.of(answer.status_code, body)


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def check_port(port: int) -> None:
    """Raises Failed when the service could not listen on the port."""
    try:
        sockets = listen(HOST, port)
    except PortTaken as taken:
        other = "" if taken.free is None else f" Another port: rankcast demo --port {taken.free}"
        raise Failed(f"{taken}. Is a service or another demo running?{other}") from None
    except CannotListen as refusal:
        raise Failed(str(refusal)) from None
    for one in sockets:
        one.close()


Waiting = Callable[[float | None], None]
"""Called again and again while a service starts, with the share of kernels that are compiled, None where unknown."""


class Service:
    """A running service. `log` is the file that it writes to."""

    def __init__(self, process: Process, port: int, log: Path) -> None:
        self.url = f"http://{HOST}:{port}"
        self.process = process
        self.log = log

    async def ended(self) -> None:
        """Returns never; raises Failed when the service ends by itself."""
        status = await self.process.wait()
        raise Failed(f"the service ended with status {status}:\n{self._tail()}")

    async def ready(self, waiting: Waiting = lambda warm: None) -> None:
        """Returns once it can be used. Raises Failed if that takes too long."""
        async with AsyncRankcast(self.url) as client:
            with suppress(TimeoutError):
                async with asyncio.timeout(START_SECONDS):
                    while not (now := await readiness(client)).ready:
                        waiting(now.warm)
                        await asyncio.sleep(0.05)
                    return
        raise Failed(f"the service was not ready within {START_SECONDS:.0f} s:\n{self._tail()}")

    def _tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
        return "\n".join(f"  {line}" for line in lines) or f"  {self.log} is empty"


@asynccontextmanager
async def running(port: int, data: Path, waiting: Waiting = lambda warm: None) -> AsyncIterator[Service]:
    """The service on this port and data directory, ready; stopped at the end. `waiting` is called while it starts.

    Raises Failed, from wherever the body waits, as soon as the service ends by itself.
    """
    log = data / "demo.log"
    try:
        data.mkdir(parents=True, exist_ok=True)
        output = log.open("wb")
    except OSError as error:
        raise Failed(f"{data} cannot be used: {error.strerror}") from None
    options = ["--host", HOST, "--port", str(port), "--data", str(data)]
    with output:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-c",
            SERVE,
            "serve",
            *options,
            stdin=asyncio.subprocess.PIPE,
            stdout=output,
            stderr=output,
            env={**os.environ, "RANKCAST_LOG_FORMAT": "console"},
            start_new_session=True,
        )
    service = Service(process, port, log)
    try:
        async with _as_long_as(service):
            await service.ready(waiting)
            yield service
    finally:
        await _stop(process)


@asynccontextmanager
async def _as_long_as(service: Service) -> AsyncIterator[None]:
    """Cancels the body when the service ends, and says so."""
    body = asyncio.current_task()
    assert body is not None
    watcher = asyncio.create_task(service.ended())
    watcher.add_done_callback(lambda ended: None if ended.cancelled() else body.cancel())
    try:
        yield
    except asyncio.CancelledError:
        if not watcher.done():
            raise
        body.uncancel()
        await watcher
    finally:
        watcher.cancel()


async def _stop(process: Process) -> None:
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()
