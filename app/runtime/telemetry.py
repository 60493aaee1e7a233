"""OpenTelemetry: traces, metrics and logs by OTLP over HTTP. Imported only where the environment asks for it.

The SDK's own variables configure it: OTEL_EXPORTER_OTLP_* where to and how, OTEL_TRACES_SAMPLER which requests,
OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES as whom, OTEL_{TRACES,METRICS,LOGS}_EXPORTER=none what not.

Spans, records and metrics name routes, resources and seqs. They have no keys, no paths with ids, no payloads.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar, Token
from functools import partial
from itertools import chain, islice
from random import getrandbits
from typing import Any

from opentelemetry import trace
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.context import Context, create_key
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import export as otlp
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Tracer, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    Decision,
    ParentBased,
    ParentBasedTraceIdRatio,
    Sampler,
    SamplingResult,
    TraceIdRatioBased,
)
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from app.runtime import logs, tracing
from app.runtime.metrics import Metrics
from app.version import version

MOST_CAUSES = 16
"""Commands that one request to a neighbour names."""

_HALF = 64
"""Bits of half the id of a trace; samplers look at the low half."""

_NO_CONTEXT = Context()
_SAID = create_key("rankcast-said")
"""Where a context has what the sampler said of the span that begins in it."""

_TRACE_HEADERS = frozenset({b"traceparent", b"tracestate"})
_PROPAGATOR = TraceContextTextMapPropagator()
_SCOPE = "rankcast"

_current: ContextVar[Sequence[Span]] = ContextVar("rankcast_spans", default=())
"""The spans of the requests, or of the request to a neighbour, that this task works for."""

log = logs.get("telemetry")


def _running() -> Span | None:
    """The current span, the first of several. A task that outlives the request in which it was started has none."""
    return next((span for span in _current.get() if span.is_recording()), None)


def _about(method: str) -> dict[str, str]:
    """What is known of a request before it has a route."""
    return {"http.request.method": method}


def _context_of(headers: Iterable[tuple[bytes, bytes]]) -> Context:
    """The caller's span, if the headers name one."""
    found = {name.decode(): value.decode("latin-1") for name, value in headers if name in _TRACE_HEADERS}
    return _PROPAGATOR.extract(found, Context())


def _nanoseconds(at: float) -> int:
    """A moment of `time.perf_counter` in nanoseconds since 1970."""
    return time.time_ns() - int((time.perf_counter() - at) * 1e9)


class RequestSpan:
    """See `app.runtime.tracing.RequestTrace`."""

    def __init__(self, span: Span, method: str) -> None:
        self.span = span
        self._method = method
        self._token: Token[Sequence[Span]] | None = None

    def attach(self) -> None:
        """Let the current task work for the request alone, until the end of its span."""
        self._token = _current.set((self.span,))

    def end(self, route: str, status: int) -> None:
        """End the span, whose name is the method and the route."""
        if self._token is not None:
            with suppress(ValueError):  # a generator was closed in another context than it began in
                _current.reset(self._token)
        self.span.update_name(f"{self._method} {route}")
        self.span.set_attributes({"http.route": route, "http.response.status_code": status})
        if status >= 500 or status == 0:
            self.span.set_status(Status(StatusCode.ERROR))
        self.span.end()


class SpansBelow:
    """The spans of a command below those of one request. The span `group` begins with it."""

    __slots__ = ("_execution", "_group", "_request", "_resource", "_tracer")

    def __init__(self, tracer: trace.Tracer, request: Span, resource: str) -> None:
        self._tracer = tracer
        self._request = trace.set_span_in_context(request, Context())
        self._resource = resource
        self._execution: Span | None = None
        self._group = tracer.start_span("group", self._request, attributes={"rankcast.resource": resource})

    def committed(self, began: float, commands: int) -> None:
        """End the span `group`, with the commit in it."""
        inside = trace.set_span_in_context(self._group, Context())
        commit = self._tracer.start_span(
            "commit", inside, start_time=_nanoseconds(began), attributes={"rankcast.commands": commands}
        )
        commit.end()
        self._group.end()

    def failed(self, why: str) -> None:
        """End whatever has begun."""
        for span in (self._group, self._execution):
            if span is not None and span.is_recording():
                span.set_status(Status(StatusCode.ERROR, why))
                span.end()

    def executing(self) -> None:
        """Begin the span `execution`."""
        if self._group.is_recording():  # what changes nothing is in no transaction
            self._group.end()
        if self._execution is None:
            about = {"rankcast.resource": self._resource}
            self._execution = self._tracer.start_span("execution", self._request, attributes=about)

    def executed(self, seq: int) -> None:
        """End the span `execution`."""
        if self._execution is not None:
            self._execution.set_attribute("rankcast.seq", seq)
            self._execution.end()

    @property
    def context(self) -> Context:
        """The context of what publishing causes."""
        return self._request if self._execution is None else trace.set_span_in_context(self._execution, Context())


class CommandSpans:
    """See `app.runtime.tracing.CommandTrace`. The spans of each request that the command carries out."""

    __slots__ = ("_all",)

    def __init__(self, tracer: trace.Tracer, requests: Iterable[Span], resource: str) -> None:
        self._all = [SpansBelow(tracer, request, resource) for request in requests]

    def committed(self, began: float, commands: int) -> None:
        for one in self._all:
            one.committed(began, commands)

    def failed(self, why: str) -> None:
        for one in self._all:
            one.failed(why)

    def executing(self) -> None:
        for one in self._all:
            one.executing()

    def executed(self, seq: int) -> None:
        for one in self._all:
            one.executed(seq)

    @property
    def contexts(self) -> Iterator[Context]:
        """The contexts of what publishing causes."""
        return (one.context for one in self._all)


class ChosenIds(RandomIdGenerator):
    """Ids of traces of which one may be chosen beforehand. Traces begin on the event loop alone."""

    chosen: int | None = None

    def generate_trace_id(self) -> int:
        """The chosen one, once, else any."""
        id, self.chosen = self.chosen, None
        return super().generate_trace_id() if id is None else id


def bound_of(sampler: Sampler) -> int:
    """From which low half of its id on a trace that begins here is not sampled, for the samplers of the SDK.

    >>> from opentelemetry.sdk.trace.sampling import DEFAULT_OFF, DEFAULT_ON
    >>> bound_of(DEFAULT_OFF), bound_of(ParentBasedTraceIdRatio(0.25)) == 1 << 62, bound_of(DEFAULT_ON) == 1 << 64
    (0, True, True)
    """
    if type(sampler) in (ParentBased, ParentBasedTraceIdRatio):
        sampler = getattr(sampler, "_root", sampler)
    if type(sampler) is TraceIdRatioBased:
        return sampler.bound
    return 0 if sampler is ALWAYS_OFF else 1 << _HALF


class AskedOnce(Sampler):
    """A sampler that is not asked again about a span whose context has what it said."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler

    def should_sample(self, parent_context: Context | None, *given: Any, **named: Any) -> SamplingResult:
        """What was said, else what the sampler says."""
        said = None if parent_context is None else parent_context.get(_SAID)
        if isinstance(said, SamplingResult):
            return said
        return self._sampler.should_sample(parent_context, *given, **named)

    def get_description(self) -> str:
        """That of the sampler."""
        return self._sampler.get_description()


class Sampled(tracing.Sampling):
    """A request that has a span. `outer` is the context of that, `id` the id of its trace unless a caller chose it.
    `begun` is the span once there is one.
    """

    __slots__ = ("_since", "begun", "id", "method", "outer")

    def __init__(self, method: str, outer: Context, id: int | None) -> None:
        self.method, self.outer, self.id = method, outer, id
        self._since = time.time_ns()
        self.begun: RequestSpan | None = None

    def begin(self, tracer: Tracer, ids: ChosenIds) -> RequestSpan:
        """The request's span, which begins once and when the sampler was asked."""
        if self.begun is None:
            ids.chosen = self.id
            about, since = _about(self.method), self._since
            span = tracer.start_span(self.method, self.outer, SpanKind.SERVER, about, start_time=since)
            self.begun = RequestSpan(span, self.method)
        return self.begun


class SpanTracer:
    """See `app.runtime.tracing.Tracer`. `bits` gives so many random bits, for ids."""

    def __init__(self, tracer: Tracer, bits: Callable[[int], int] = getrandbits) -> None:
        self._bits = bits
        self.applied: Sequence[Any] = ()
        self._tracer = tracer
        self._ids = tracer.id_generator = ChosenIds()
        self._sampler = tracer.sampler
        self._bound = bound_of(self._sampler)
        tracer.sampler = AskedOnce(self._sampler)

    def sample(self, method: str, headers: Iterable[tuple[bytes, bytes]]) -> tracing.Sampling:
        """`UNSAMPLED`, or a `Sampled` for `request`. The sampler is asked where a caller may decide, and where it may
        say yes: to be told no by it costs several times as much as to look at the id.
        """
        for name, _ in headers:
            if name in _TRACE_HEADERS:
                return self._ask(method, _context_of(headers))
        low = self._bits(_HALF)
        return tracing.UNSAMPLED if low >= self._bound else self._ask(method, _NO_CONTEXT, low)

    def _ask(self, method: str, outer: Context, low: int | None = None) -> tracing.Sampling:
        """What the SDK's sampler says. Ids of a caller's trace are taken as they are."""
        caller, id = trace.get_current_span(outer).get_span_context(), None
        if not caller.is_valid:
            low = self._bits(_HALF) if low is None else low
            id = self._bits(_HALF) << _HALF | low or 1
        said = self._sampler.should_sample(outer, id or caller.trace_id, method, SpanKind.SERVER, _about(method))
        if said.decision is Decision.DROP:
            return tracing.UNSAMPLED
        return Sampled(method, Context({**outer, _SAID: said}), id)

    def request(
        self, method: str, headers: Iterable[tuple[bytes, bytes]], sampling: tracing.Sampling | None = None
    ) -> RequestSpan | None:
        """A server's span, of the trace that the sampler was asked about."""
        if sampling is None:
            sampling = self.sample(method, headers)
        if isinstance(sampling, Sampled):
            span = sampling.begin(self._tracer, self._ids)
            span.attach()
            return span
        self._detach()
        return None

    def begin_group(self, requests: Sequence[tracing.Traced]) -> None:
        """The spans of servers, all of them those of the current task."""
        spans = []
        for request in requests:
            if isinstance(request.sampling, Sampled):
                request.trace = begun = request.sampling.begin(self._tracer, self._ids)
                spans.append(begun.span)
        if spans:
            _current.set(spans)
        else:
            self._detach()

    def _detach(self) -> None:
        """Leave the current task without spans, in place of any that it inherited."""
        if _current.get():
            _current.set(())

    def command(self, resource: str) -> CommandSpans | None:
        """The spans of a command."""
        requests = [span for span in _current.get() if span.is_recording()]
        return CommandSpans(self._tracer, requests, resource) if requests else None

    def delivery(self, resource: str, cursor: str) -> AbstractContextManager[None]:
        """A span in each command's `execution`."""
        return self._delivery(resource, cursor) if self.applied else nullcontext()

    @contextmanager
    def _delivery(self, resource: str, cursor: str) -> Iterator[None]:
        about = {"rankcast.resource": resource, "rankcast.cursor": cursor}
        causes = self._causes()
        spans = [self._tracer.start_span("delivery", one, attributes=about) for one in causes]
        try:
            yield
        finally:
            for span in spans:
                span.end()

    def cause(self, causes: list[Any]) -> None:
        """Keep the contexts of the commands, as long as there are few."""
        causes.extend(islice(self._causes(), MOST_CAUSES - len(causes)))

    def _causes(self) -> Iterator[Context]:
        return chain.from_iterable(command.contexts for command in self.applied)

    def link(self, relay: str, link: str, causes: list[Any]) -> AbstractContextManager[None]:
        return self._caused("link", {"rankcast.resource": f"relays/{relay}", "rankcast.link": link}, causes)

    def webhook(self, resource: str, webhook: str, causes: list[Any]) -> AbstractContextManager[None]:
        return self._caused("webhook", {"rankcast.resource": resource, "rankcast.webhook": webhook}, causes)

    @contextmanager
    def _caused(self, name: str, about: dict[str, str], causes: list[Any]) -> Iterator[None]:
        """A client's span in the trace of the first cause, with links to the others; none without a cause."""
        if not causes:
            yield
            return
        links = [Link(trace.get_current_span(other).get_span_context()) for other in causes[1:]]
        span = self._tracer.start_span(name, causes[0], SpanKind.CLIENT, attributes=about, links=links)
        token = _current.set((span,))
        try:
            yield
        except Exception as error:
            span.set_status(Status(StatusCode.ERROR, type(error).__name__))
            raise
        finally:
            _current.reset(token)
            span.end()

    def inject(self, headers: MutableMapping[str, str]) -> None:
        """Add `traceparent`, and `tracestate` where there is one."""
        span = _running()
        if span is not None:
            _PROPAGATOR.inject(headers, trace.set_span_in_context(span, Context()))


class Exports:
    """Sends traces, metrics and logs until `end`. Made on the event loop."""

    def __init__(self, metrics: Metrics) -> None:
        named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": "rankcast"}
        resource = Resource.create({"service.version": version(), **named})
        self._traces = self._logs = self._metrics = None
        if _sent("TRACES"):
            self._traces = TracerProvider(resource=resource)
            self._traces.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
            tracer = self._traces.get_tracer(_SCOPE, version())
            if isinstance(tracer, Tracer):  # the SDK's, unless it is disabled
                tracing.tracer = SpanTracer(tracer)
        if _sent("LOGS"):
            self._logs = LoggerProvider(resource=resource)
            self._logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
            logs.exported = partial(_emit, self._logs.get_logger(_SCOPE, version()))
        if _sent("METRICS"):
            self._metrics = asyncio.create_task(_send_metrics(metrics, resource))

    async def end(self) -> None:
        """Send what is left and stop."""
        tracing.tracer, logs.exported = None, None
        if self._metrics is not None:
            self._metrics.cancel()
            await asyncio.gather(self._metrics, return_exceptions=True)
        for provider in (self._traces, self._logs):
            if provider is not None:
                await asyncio.to_thread(provider.shutdown)


def _sent(signal: str) -> bool:
    """Whether a signal has a collector."""
    endpoints = (os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"), os.environ.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT"))
    return any(endpoints) and os.environ.get(f"OTEL_{signal}_EXPORTER", "otlp") != "none"


# --- logs -------------------------------------------------------------------------------------------------------------

_SEVERITIES = {
    "debug": SeverityNumber.DEBUG,
    "info": SeverityNumber.INFO,
    "warning": SeverityNumber.WARN,
    "error": SeverityNumber.ERROR,
    "critical": SeverityNumber.FATAL,
}


def _emit(logger: Any, event: Mapping[str, Any]) -> None:
    """Send one line of the log: its event as the body, the rest as attributes, in the trace of its request."""
    level = str(event.get("level", "info"))
    rest = {name: value for name, value in event.items() if name not in ("event", "level", "timestamp", "exc_info")}
    plain = {name: value if isinstance(value, (str, bool, int, float)) else str(value) for name, value in rest.items()}
    span = _running()
    logger.emit(
        LogRecord(
            timestamp=time.time_ns(),
            context=None if span is None else trace.set_span_in_context(span, Context()),
            severity_text=level,
            severity_number=_SEVERITIES.get(level, SeverityNumber.INFO),
            body=str(event.get("event", "")),
            attributes=plain,
        )
    )


# --- metrics ----------------------------------------------------------------------------------------------------------


async def _send_metrics(metrics: Metrics, resource: Resource) -> None:
    """Send what `/metrics` shows, under the same names, every OTEL_METRIC_EXPORT_INTERVAL milliseconds."""
    exporter, began = OTLPMetricExporter(), time.time_ns()
    pause = float(os.environ.get("OTEL_METRIC_EXPORT_INTERVAL") or 60_000) / 1000
    ending = False
    while not ending:
        try:
            await asyncio.sleep(pause)
        except asyncio.CancelledError:
            ending = True
        # Read on the loop, where its parts are changed, and sent in a thread.
        data = metrics_data(metrics.registry, resource, began)
        try:
            await asyncio.to_thread(exporter.export, data)
        except Exception as error:
            log.warning("metrics were not sent", error=str(error))
    exporter.shutdown()


def metrics_data(registry: CollectorRegistry, resource: Resource, began: int) -> otlp.MetricsData:
    """All metrics of a registry as OpenTelemetry has them; `began` is when counting did, in nanoseconds."""
    now = time.time_ns()
    found = [metric for family in registry.collect() for metric in _converted(family, began, now)]
    scope = otlp.ScopeMetrics(InstrumentationScope(_SCOPE, version()), found, "")
    return otlp.MetricsData([otlp.ResourceMetrics(resource, [scope], "")])


def _converted(family: Metric, began: int, now: int) -> Iterator[otlp.Metric]:
    data: Any
    if family.type == "histogram":
        points: Any = list(_histogram_points(family, began, now))
        data = otlp.Histogram(points, otlp.AggregationTemporality.CUMULATIVE)
    elif family.type == "counter":
        points = _number_points(family, began, now, family.name + "_total")
        data = otlp.Sum(points, otlp.AggregationTemporality.CUMULATIVE, is_monotonic=True)
    else:
        points = _number_points(family, began, now, family.name)
        data = otlp.Gauge(points)
    if points:
        yield otlp.Metric(family.name, family.documentation, family.unit, data)


def _number_points(family: Metric, began: int, now: int, name: str) -> list[otlp.NumberDataPoint]:
    return [
        otlp.NumberDataPoint(dict(sample.labels), began, now, sample.value)
        for sample in family.samples
        if sample.name == name
    ]


def _histogram_points(family: Metric, began: int, now: int) -> Iterable[otlp.HistogramDataPoint]:
    """Prometheus counts up to each bound, OpenTelemetry between bounds."""
    counts: dict[tuple[tuple[str, str], ...], list[tuple[float, float]]] = {}
    sums: dict[tuple[tuple[str, str], ...], float] = {}
    for sample in family.samples:
        labels = tuple(sorted((name, value) for name, value in sample.labels.items() if name != "le"))
        if sample.name.endswith("_bucket"):
            counts.setdefault(labels, []).append((float(sample.labels["le"]), sample.value))
        elif sample.name.endswith("_sum"):
            sums[labels] = sample.value
    for labels, below in counts.items():
        below.sort()
        between = [int(value - before) for (_, value), (_, before) in zip(below, [(0.0, 0.0), *below], strict=False)]
        bounds = [bound for bound, _ in below[:-1]]
        total = int(below[-1][1])
        # There is no least and no largest value to be had from Prometheus' counts.
        yield otlp.HistogramDataPoint(
            dict(labels), began, now, total, sums.get(labels, 0.0), between, bounds, bounds[0], bounds[-1]
        )
