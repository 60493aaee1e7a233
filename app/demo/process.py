"""The service in a process of its own, for the demo: started, waited for, stopped."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from app.runtime.listening import CannotListen, PortTaken, listen
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
    """The demo cannot continue; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class Readiness:
    """What a service says of itself.

    Whether its boards can be used, the share of all its kernels that are compiled and of those that boards wait for,
    None where it does not say, and the kernel that was compiled last.
    """

    ready: bool
    warm: float | None = None
    boards: float | None = None
    compiling: str | None = None

    @classmethod
    def of(cls, status: int, body: Any) -> Readiness:
        """Read an answer of ``/readyz``, also a refusal, with or without the share."""
        known = body if isinstance(body, dict) else {}
        resources = known.get("resources")
        boards = _share(resources.get("boards")) if isinstance(resources, dict) else None
        ready = boards == 1.0 if boards is not None else status == 200 and known.get("ready") is not False
        compiling = known.get("compiling")
        return cls(ready, _share(known.get("warm")), boards, compiling if isinstance(compiling, str) else None)


def _share(value: Any) -> float | None:
    """A number from 0 to 1; None for anything else."""
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1 else None


async def readiness(client: AsyncRankcast) -> Readiness:
    """Ask a service once; do not raise where there is none."""
    try:
        answer = await client.http.get("/readyz", timeout=5.0)
    except httpx.TransportError:
        return Readiness(False)
    try:
        body = answer.json()
    except ValueError:
        body = None
    return Readiness.of(answer.status_code, body)


def check_port(port: int) -> None:
    """Raises Failed when the service could not listen on the port."""
    try:
        sockets = listen(HOST, port)
    except PortTaken as taken:
        free = f"--port {taken.free}"
        other = "" if taken.free is None else f' Another port: make run ARGS="{free}", or rankcast demo {free}'
        raise Failed(f"{taken}. Is a service or another demo running?{other}") from None
    except CannotListen as refusal:
        raise Failed(str(refusal)) from None
    for one in sockets:
        one.close()


Waiting = Callable[[Readiness], None]
"""Called repeatedly while a service starts, with its readiness."""


class Service:
    """A running service. `log` is the file that it writes to."""

    def __init__(self, process: Process, port: int, log: Path) -> None:
        self.url = f"http://{HOST}:{port}"
        self.process = process
        self.log = log

    async def ended(self) -> None:
        """Return never; raise Failed when the service ends by itself."""
        status = await self.process.wait()
        raise Failed(f"the service ended with status {status}:\n{self._tail()}")

    async def ready(self, waiting: Waiting = lambda now: None) -> None:
        """Return once it can be used. Raises Failed if that takes too long."""
        async with AsyncRankcast(self.url) as client:
            with suppress(TimeoutError):
                async with asyncio.timeout(START_SECONDS):
                    while not (now := await readiness(client)).ready:
                        waiting(now)
                        await asyncio.sleep(0.05)
                    return
        raise Failed(f"the service was not ready within {START_SECONDS:.0f} s:\n{self._tail()}")

    def _tail(self) -> str:
        lines = self.log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
        return "\n".join(f"  {line}" for line in lines) or f"  {self.log} is empty"


@asynccontextmanager
async def running(port: int, data: Path, waiting: Waiting = lambda now: None) -> AsyncIterator[Service]:
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
            env={**os.environ, "RANKCAST_LOG_FORMAT": "console", "RANKCAST_WARM_FIRST": "boards"},
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
    """Cancel the body when the service ends, with a message."""
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
