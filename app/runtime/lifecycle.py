"""The state of the service: starting, ready, ending; and the order and the deadline of its end."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from app.runtime import logs
from app.runtime.kernels import Kernels

AT_THE_END = 0.25
"""The share of the shutdown timeout that is kept for closing, after requests and streams."""

log = logs.get("service")


class Lifecycle:
    """The lifecycle of one service.

    `ready`: requests are served. `refused` returns why writes are not, None if they are. `stopping` are called once,
    before the server waits for open connections. `failed` is called, with `error` set, if the service cannot start or
    go on although it listens. `owns_process`: the process may be ended with the service. `follows`: it starts as a
    replica, unless it finds that it is the leader.
    """

    def __init__(self, follows: bool = False) -> None:
        self.ready = False
        self.owns_process = False
        self.ending = False
        self.restarts = False
        """Whether `restart` is called once this service has ended."""
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
        """This node's role, term and log position, for other nodes and clients; the epoch is "" until it is known."""
        self.unready: Callable[[], str | None] = lambda: None
        """Why a load balancer must not use this node, as for a replica with too much lag; None if it may."""
        self.takes_small_writes: Callable[[], bool] = lambda: True
        self.stopping: list[Callable[[], None]] = []
        self.draining: Callable[[], Awaitable[None]] | None = None
        self._until: float | None = None

    def fail(self, error: Exception) -> None:
        """End because of an error that the service cannot recover from."""
        log.critical("the service cannot go on", error=str(error))
        self.error = error
        self.stop()
        self.failed()

    def end_to_restart(self, why: str) -> None:
        """End, and replace the process by a new one, as for another role."""
        log.warning("the service restarts", why=why)
        self.restarts = True
        self.stop()
        self.failed()

    def end_within(self, seconds: float) -> None:
        """Set the deadline of the end; calls after the first do nothing. A process that the service owns exits at the
        deadline in any case: what was answered is durable, and is replayed at the next start.
        """
        if self._until is not None:
            return
        self._until = time.monotonic() + seconds
        if self.owns_process:
            timer = threading.Timer(seconds, self._end_now)
            timer.daemon = True
            timer.start()

    def left(self, otherwise: float) -> float:
        """Seconds until the deadline; `otherwise` if there is none."""
        return otherwise if self._until is None else max(0.0, self._until - time.monotonic())

    async def drain(self) -> None:
        """Wait until streams have sent their last messages, before the server closes connections."""
        if self.draining is not None:
            await self.draining()

    def stop(self) -> None:
        """Serve no more requests, and end what would not end by itself."""
        self.ready = False
        self.ending = True
        hooks, self.stopping = self.stopping, []
        for hook in hooks:
            hook()

    def _end_now(self) -> None:
        """Exit without waiting for threads, which cannot be interrupted."""
        log.warning("ended without waiting for what still runs: it is durable, or was not answered")
        if self.restarts:
            self.restart()
        os._exit(0 if self.error is None else 1)
