"""Traces of a service in the test's process, kept in memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import pytest
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan, Tracer, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult
from opentelemetry.trace import SpanKind, get_current_span

from app.runtime import tracing
from app.runtime.telemetry import SpanTracer


def sdk_tracer(sampler: Sampler | None = None) -> tuple[Tracer, InMemorySpanExporter]:
    """A tracer of the SDK, and where its spans are once they have ended."""
    memory = InMemorySpanExporter()
    provider = TracerProvider(sampler=sampler)
    provider.add_span_processor(SimpleSpanProcessor(memory))
    tracer = provider.get_tracer("test")
    assert isinstance(tracer, Tracer)
    return tracer, memory


def install(monkeypatch: pytest.MonkeyPatch, sampler: Sampler | None = None) -> InMemorySpanExporter:
    """Trace all services of this process until the end of the test; where their spans are."""
    tracer, memory = sdk_tracer(sampler)
    monkeypatch.setattr(tracing, "tracer", SpanTracer(tracer))
    return memory


def by_trace(memory: InMemorySpanExporter) -> dict[int, list[ReadableSpan]]:
    """The spans that have ended, by the ids of their traces."""
    found = defaultdict(list)
    for span in memory.get_finished_spans():
        assert span.context is not None
        found[span.context.trace_id].append(span)
    return found


class Alternating(Sampler):
    """Says yes to every third request, whatever its trace: two questions about one request get two answers.

    `asked` are the ids of the traces that it was asked about and what it said. What is below a request follows that.
    """

    def __init__(self) -> None:
        self.asked: list[tuple[int, bool]] = []

    def should_sample(
        self, parent_context: Context | None, trace_id: int, name: str, kind: SpanKind | None = None, *given: object
    ) -> SamplingResult:
        if kind is SpanKind.SERVER:
            yes = len(self.asked) % 3 == 1
            self.asked.append((trace_id, yes))
        else:
            yes = get_current_span(parent_context).get_span_context().trace_flags.sampled
        return SamplingResult(Decision.RECORD_AND_SAMPLE if yes else Decision.DROP)

    def get_description(self) -> str:
        return "Alternating"

    @property
    def wanted(self) -> Sequence[int]:
        """The ids of the traces that there are to be."""
        return sorted(id for id, yes in self.asked if yes)
