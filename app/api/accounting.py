"""What is noted of every request, however it came: its id, its trace, the metrics, a line of the access log."""

from __future__ import annotations

import itertools
import re
import secrets
from time import perf_counter

from starlette.types import Scope

from app.runtime import logs, tracing
from app.runtime.metrics import Metrics
from app.settings import Settings

ALWAYS_SERVED = frozenset({"/healthz", "/readyz", "/metrics"})

SAMPLING = "rankcast.sampling"
"""Where the scope of a request has what the sampler has said of it, if that was asked already."""

REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
_UNMATCHED = "unmatched"


class Accounting:
    """Notes requests. `begin` and `end` are called once for each."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self.log = logs.get("requests")
        self._metrics = metrics
        self._start = secrets.token_hex(4)
        self._numbers = itertools.count(1)
        self._log_from = {"all": 0, "errors": 500, "off": 1000}[settings.access_log]

    def new_id(self) -> bytes:
        """An id for a request that came without one."""
        return f"{self._start}-{next(self._numbers)}".encode()

    def begin(self, scope: Scope) -> tracing.RequestTrace | None:
        """A request has come; its trace in the current task, where it is traced."""
        self._metrics.requests_open.value += 1
        if tracing.tracer is None:
            return None
        return tracing.tracer.request(scope["method"], scope["headers"], scope.get(SAMPLING))

    def end(
        self, scope: Scope, status: int, started: float, seconds: float | None, trace: tracing.RequestTrace | None
    ) -> None:
        """It was answered; the first byte of the answer came after so many seconds."""
        self._metrics.requests_open.value -= 1
        route = template(scope)
        self._metrics.observe(scope["method"], route, status, seconds)
        if status >= self._log_from and (status != 503 or scope["path"] not in ALWAYS_SERVED):
            self.log.info(
                "request",
                request_id=scope["request_id"],
                method=scope["method"],
                path=scope["path"],
                status=status,
                ms=round((perf_counter() - started) * 1e3, 3),
                key=scope.get("key_id", ""),
            )
        if trace is not None:
            trace.end(route, status)


def template(scope: Scope) -> str:
    """The path of the route that was taken, with the names of its parameters."""
    route = scope.get("route")
    if route is not None:
        found: str = route.path
        return found
    matched_whole = "endpoint" in scope and not scope.get("path_params")
    return scope["path"] if matched_whole else _UNMATCHED
