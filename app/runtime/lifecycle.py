"""Whether the service serves requests, and what happens when it ends."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from app.runtime import logs
from app.runtime.kernels import Kernels

AT_THE_END = 0.25
"""The share of the time to end in that is left for closing, when requests have had theirs."""

log = logs.get("service")


class Lifecycle:
    """Whether requests are served, and why no writes are (`refused`), where that is so.

    `stopping` is called once, before open connections are waited for; `failed` when the service that listens already
    could not be started, or cannot go on, which `error` says. `owns_process`: the process has nothing else to do.
    `follows`: it is to be a replica, unless it finds out that it leads.
    """

    def __init__(self, follows: bool = False) -> None:
        self.ready = False
        self.owns_process = False
        self.ending = False
        self.again = False
        """Whether the process is to restart once this service has ended."""
        self.restart: Callable[[], None] = lambda: None
        """Replaces the process by a new one."""
        self.kernels: Kernels | None = None
        self.error: BaseException | None = None
        self.failed: Callable[[], None] = lambda: None
        self.refused: Callable[[], str | None] = lambda: None
        self.failing: Callable[[], list[str]] = list
        """The resources that are being rebuilt."""
        unknown = {"lsn": 0, "durable": 0, "lag": {"rows": 0, "seconds": 0.0}, "term": 0, "epoch": "", "node": ""}
        self.about_node: Callable[[], dict[str, Any]] = lambda: {
            "role": "replica" if follows else "leader",
            **unknown,
        }
        """What is said of this node among its replicas; before it is known, with no epoch."""
        self.unready: Callable[[], str | None] = lambda: None
        """Why this node is not to be used, as a replica that is far behind; None where it is."""
        self.takes_small_writes: Callable[[], bool] = lambda: True
        self.stopping: list[Callable[[], None]] = []
        self.draining: Callable[[], Awaitable[None]] | None = None
        self._until: float | None = None

    def fail(self, error: Exception) -> None:
        """End, because the service cannot go on."""
        log.critical("the service cannot go on", error=str(error))
        self.error = error
        self.stop()
        self.failed()

    def start_anew(self, why: str) -> None:
        """End, and restart the process in another role."""
        log.warning("the service restarts", why=why)
        self.again = True
        self.stop()
        self.failed()

    def end_within(self, seconds: float) -> None:
        """End within so many seconds, which count from the first call. A process that has nothing else to do ends then
        in any case: what is durable is there at the next start, and nothing else was answered.
        """
        if self._until is not None:
            return
        self._until = time.monotonic() + seconds
        if self.owns_process:
            timer = threading.Timer(seconds, self._end_now)
            timer.daemon = True
            timer.start()

    def left(self, otherwise: float) -> float:
        """Seconds that are left to end in; `otherwise` where there is no limit."""
        return otherwise if self._until is None else max(0.0, self._until - time.monotonic())

    async def drain(self) -> None:
        """Wait until the streams have ended, so that the server does not cut them."""
        if self.draining is not None:
            await self.draining()

    def stop(self) -> None:
        """Serve nothing more and end what would not end by itself."""
        self.ready = False
        self.ending = True
        hooks, self.stopping = self.stopping, []
        for hook in hooks:
            hook()

    def _end_now(self) -> None:
        """Leave without waiting for threads, which cannot be interrupted."""
        log.warning("ended without waiting for what still runs: it is durable, or was not answered")
        if self.again:
            self.restart()
        os._exit(0 if self.error is None else 1)
