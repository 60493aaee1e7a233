"""Traces of what happens to a request: request, group, commit, execution, delivery.

Tracing is off unless the environment names a collector (`app.runtime.exporting`): `tracer` is None then, call sites
look at that one attribute and no more, and nothing of OpenTelemetry's SDK is imported. What a tracer does is in
`app.runtime.telemetry`.

    request                      from the first byte of a request to the last one of its answer
      group                      a command waits until it is durable
        commit                   the transaction that wrote it, with all of its group
      execution                  the engine applies it, in one slice or several
        delivery                 the messages of a slice are queued for readers
        link                     a request to a neighbour about it
        webhook                  a request to the receiver of a webhook
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

ENDPOINTS = tuple(f"OTEL_EXPORTER_OTLP_{signal}ENDPOINT" for signal in ("", "TRACES_", "METRICS_", "LOGS_"))
"""The variables of which one turns telemetry on."""


class Sampling:
    """What the sampler says of a request, asked once and before there is a span."""

    __slots__ = ()


UNSAMPLED = Sampling()
"""The request has no spans."""


class RequestTrace(Protocol):
    """The span of a request, current in the task that began it."""

    def end(self, route: str, status: int) -> None: ...


class Traced(Protocol):
    """A request of a group: the sampler's decision, and its span once that has begun."""

    sampling: Sampling | None
    trace: RequestTrace | None


class CommandTrace(Protocol):
    """The spans of one command, below those of its requests. Times are those of `time.perf_counter`."""

    def committed(self, began: float, commands: int) -> None:
        """It is durable since now; the transaction began then, and wrote so many commands."""

    def failed(self, why: str) -> None:
        """It was not written, or not applied."""

    def executing(self) -> None:
        """It is being applied from now on. Idempotent."""

    def executed(self, seq: int) -> None:
        """It is applied, up to a seq of its resource."""


class Tracer(Protocol):
    """Makes spans. `applied` are the commands whose changes are being published, which happens on the loop alone."""

    applied: Sequence[CommandTrace]

    def sample(self, method: str, headers: Iterable[tuple[bytes, bytes]]) -> Sampling:
        """Ask the sampler about a request, in the trace of its `traceparent` or one whose id is chosen now."""

    def request(
        self, method: str, headers: Iterable[tuple[bytes, bytes]], sampling: Sampling | None = None
    ) -> RequestTrace | None:
        """Begin the span of a request, as `sampling` says, or `sample` where that was not asked; None without one."""

    def begin_group(self, requests: Sequence[Traced]) -> None:
        """Begin the spans of a group's sampled requests, and make them those of the current task, in place of any that
        it inherited.
        """

    def command(self, resource: str) -> CommandTrace | None:
        """The spans of a command of the current requests; None where those have none."""

    def delivery(self, resource: str, cursor: str) -> AbstractContextManager[None]:
        """The delivery of a slice of the commands in `applied`; readers have it at this cursor."""

    def cause(self, causes: list[Any]) -> None:
        """Note the commands in `applied` as reasons for a later request to a neighbour or a receiver."""

    def link(self, relay: str, link: str, causes: list[Any]) -> AbstractContextManager[None]:
        """A request to a neighbour, in the trace of the first cause."""

    def webhook(self, resource: str, webhook: str, causes: list[Any]) -> AbstractContextManager[None]:
        """A request to the receiver of a webhook, in the trace of the first cause."""

    def inject(self, headers: MutableMapping[str, str]) -> None:
        """Add the `traceparent` of the current span."""


class Telemetry(Protocol):
    """What was begun, until the service ends."""

    async def end(self) -> None:
        """Send what is left and stop."""


tracer: Tracer | None = None


def wanted(environ: Mapping[str, str] = os.environ) -> bool:
    """Whether the environment names a collector, and does not turn the SDK off."""
    return environ.get("OTEL_SDK_DISABLED", "").lower() != "true" and any(environ.get(name) for name in ENDPOINTS)
