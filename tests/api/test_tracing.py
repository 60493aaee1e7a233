"""Traces: the spans of a write and their parents, what is passed on, and nothing at all while it is off."""

from __future__ import annotations

import asyncio
import gzip
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import httpx
import pytest
import structlog
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased
from opentelemetry.trace import StatusCode

from app.errors import LogUnavailable
from app.links.peer import Peers
from app.main import create_app
from app.runtime import logs, tracing
from app.settings import Settings
from tests.support.app_client import AppClient
from tests.support.patience import wait_until
from tests.support.service_fixtures import Start
from tests.support.traces import install

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
MARKET = "/v1/relays/market"
PARENT = "00f067aa0ba902b7"
CONFIG = {"range_attributes": ["x"], "rank": {"attribute": "y", "order": "desc"}, "ks": [5]}
EVENTS = {"events": [{"op": "upsert", "id": "a", "values": {"x": 1, "y": 2}}]}
HOST = {"Host": "127.0.0.1"}


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    return install(monkeypatch)


def _by_name(memory: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    found = memory.get_finished_spans()
    assert len({span.name for span in found}) == len(found), [span.name for span in found]
    return {span.name: span for span in found}


def _parent(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id


def _id(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.span_id


def _inside(inner: ReadableSpan, outer: ReadableSpan) -> bool:
    assert inner.start_time and outer.start_time and inner.end_time and outer.end_time
    return outer.start_time <= inner.start_time and inner.end_time <= outer.end_time


def test_a_write_gives_the_spans_of_its_way_below_the_callers(client: AppClient, spans: InMemorySpanExporter) -> None:
    client.put("/v1/boards/b", json=CONFIG).raise_for_status()
    client.put("/v1/boards/b/subscriptions/mine", json={"k": 5}).raise_for_status()
    with client.websocket_connect("/v1/stream", headers=HOST) as socket:
        socket.send_json({"op": "subscribe", "resource": "boards/b", "id": "mine"})
        assert socket.receive_json()["event"] == "snapshot"
        spans.clear()
        headers = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
        client.post("/v1/boards/b/events", json=EVENTS, headers=headers).raise_for_status()
        change = socket.receive_json()
    found = _by_name(spans)
    request = found.pop("POST /v1/boards/{board}/events")
    assert found.keys() == {"group", "commit", "execution", "delivery"}
    assert all(f"{span.context.trace_id:032x}" == TRACE for span in (request, *found.values()) if span.context)
    assert f"{_parent(request):016x}" == PARENT
    above = {"group": request, "commit": found["group"], "execution": request, "delivery": found["execution"]}
    for name, parent in above.items():
        assert _parent(found[name]) == _id(parent), name
        assert _inside(found[name], parent), name
    assert request.attributes is not None and found["delivery"].attributes is not None
    assert request.attributes["http.response.status_code"] == 200
    assert found["delivery"].attributes == {"rankcast.resource": "boards/b", "rankcast.cursor": change["cursor"]}


def test_a_request_over_a_socket_has_the_same_spans(client: AppClient, spans: InMemorySpanExporter) -> None:
    client.put("/v1/boards/b", json=CONFIG).raise_for_status()
    spans.clear()
    with client.websocket_connect("/v1/stream", headers=HOST) as socket:
        request = {"op": "request", "ref": 1, "method": "POST", "path": "/v1/boards/b/events", "body": EVENTS}
        socket.send_json({**request, "headers": {"traceparent": f"00-{TRACE}-{PARENT}-01"}})
        assert socket.receive_json()["status"] == 200
    found = _by_name(spans)
    outer = found["POST /v1/boards/{board}/events"]
    assert f"{_parent(outer):016x}" == PARENT
    assert found.keys() == {"POST /v1/boards/{board}/events", "group", "commit", "execution"}
    assert _parent(found["group"]) == _parent(found["execution"]) == _id(outer)


def test_each_write_of_a_group_has_its_own_spans(start: Start, spans: InMemorySpanExporter) -> None:
    service = start()
    service.client.put("/v1/boards/b", json=CONFIG).raise_for_status()
    spans.clear()

    async def together() -> None:
        transport = httpx.ASGITransport(service.client.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as http:
            answers = await asyncio.gather(*(http.post("/v1/boards/b/events", json=EVENTS) for _ in range(5)))
        assert {answer.status_code for answer in answers} == {200}

    service.call(together)
    ids = {span.context.trace_id for span in spans.get_finished_spans() if span.context}
    assert len(ids) == 5
    for id in ids:
        mine = [span.name for span in spans.get_finished_spans() if span.context and span.context.trace_id == id]
        assert sorted(mine) == ["POST /v1/boards/{board}/events", "commit", "execution", "group"]


def test_a_write_that_is_not_logged_ends_its_spans_with_an_error(start: Start, spans: InMemorySpanExporter) -> None:
    service = start()
    service.client.put("/v1/boards/b", json=CONFIG).raise_for_status()
    spans.clear()

    def refuse(*given: object) -> int:
        raise LogUnavailable("no disk")

    service.service.stores.log.append = refuse  # type: ignore[method-assign,assignment]
    assert service.client.post("/v1/boards/b/events", json=EVENTS).status_code == 503
    found = _by_name(spans)
    assert found["group"].status.status_code == StatusCode.ERROR and "execution" not in found
    assert found["POST /v1/boards/{board}/events"].status.status_code == StatusCode.ERROR


def test_what_is_not_sampled_leaves_no_span_and_a_caller_decides(
    client: AppClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = install(monkeypatch, ParentBased(ALWAYS_OFF))
    client.put("/v1/boards/b", json=CONFIG).raise_for_status()
    assert not memory.get_finished_spans()
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
    client.post("/v1/boards/b/events", json=EVENTS, headers=headers).raise_for_status()
    assert len(memory.get_finished_spans()) == 4


def test_a_neighbour_gets_the_trace_of_what_is_forwarded(
    start: Start, tmp_path: Path, spans: InMemorySpanExporter
) -> None:
    near, far = start(data=tmp_path / "near", service="near"), start(data=tmp_path / "far", service="far")
    parents: list[str | None] = []

    async def reply(request: httpx.Request) -> httpx.Response:
        there = {"near.example": near, "far.example": far}[request.url.host]
        headers = {name: request.headers[name] for name in ("content-type", "traceparent") if name in request.headers}
        parents.append(headers.get("traceparent"))
        answer = await asyncio.to_thread(there.client.post, request.url.path, content=request.content, headers=headers)
        return httpx.Response(answer.status_code, content=answer.content)

    for one, other, called in ((near, "far", "near"), (far, "near", "far")):
        one.service.links.peers = Peers(httpx.MockTransport(reply))
        link = {"url": f"http://{other}.example", "relay": "market", "link": called}
        one.client.put(MARKET, json={"attributes": ["x"], "links": {other: link}}).raise_for_status()
    far.client.put(f"{MARKET}/subscriptions/all", json={}).raise_for_status()

    def settled() -> bool:
        shown = near.client.get(MARKET).json()
        return bool(shown["subscriptions"] == 1 and shown["links"]["far"]["state"] == "up")

    wait_until(settled)
    headers = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
    body = {"notifications": [{"values": {"x": 1}}]}
    route = "POST /v1/relays/{relay}/links/{link}/messages"

    def ours() -> list[ReadableSpan]:
        return [s for s in spans.get_finished_spans() if s.context and f"{s.context.trace_id:032x}" == TRACE]

    def forwarded() -> bool:
        # One that is sent together with an earlier command's messages is in the trace of that.
        near.client.post(f"{MARKET}/notifications", json=body, headers=headers).raise_for_status()
        return any(span.name == route for span in ours())

    wait_until(forwarded, pause=0.05)
    there = next(span for span in ours() if span.name == route)
    wait_until(lambda: any(_id(span) == _parent(there) for span in ours()))
    link_span = next(span for span in ours() if _id(span) == _parent(there))
    assert link_span.name == "link" and f"00-{TRACE}-{_id(link_span):016x}-01" in parents
    cause = next(span for span in ours() if _id(span) == _parent(link_span))
    assert cause.name == "execution"
    received = next(span for span in ours() if span.name == "group" and _parent(span) == _id(there))
    assert received.attributes == {"rankcast.resource": "relays/market"}


OFF = """
import asyncio, sys
from app.main import create_app
from app.settings import Settings
from app.runtime import tracing
app = create_app(Settings(data=sys.argv[1]))
async def run():
    async with app.router.lifespan_context(app):
        pass
asyncio.run(run())
assert tracing.tracer is None
ours = ("opentelemetry.sdk", "opentelemetry.exporter", "app.runtime.telemetry")
print(*[name for name in sys.modules if name.startswith(ours)])
"""


@pytest.mark.parametrize("disabled", [{}, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x", "OTEL_SDK_DISABLED": "true"}])
def test_nothing_of_the_sdk_is_imported_while_it_is_off(tmp_path: Path, disabled: dict[str, str]) -> None:
    others = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    environ = {**others, **disabled, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-c", OFF, str(tmp_path / "data")]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == ""


class Collector(BaseHTTPRequestHandler):
    """Takes what is sent by OTLP."""

    got: ClassVar[dict[str, list[bytes]]] = {}

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers["content-length"]))
        body = gzip.decompress(raw) if self.headers.get("content-encoding") == "gzip" else raw
        self.got.setdefault(self.path, []).append(body)
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *given: object) -> None:
        """Print nothing."""


def test_traces_metrics_and_logs_reach_a_collector(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Collector.got.clear()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
    app = create_app(Settings(data=tmp_path / "data"))
    logs.configure(Settings(log_level="info"))
    try:
        with AppClient(app, "http://127.0.0.1") as client:
            client.put("/v1/boards/b", json=CONFIG).raise_for_status()
    finally:
        structlog.reset_defaults()
        server.shutdown()
        server.server_close()
    assert tracing.tracer is None and logs.exported is None
    assert Collector.got.keys() == {"/v1/traces", "/v1/metrics", "/v1/logs"}
    traces = ExportTraceServiceRequest.FromString(b"".join(Collector.got["/v1/traces"]))
    named = {x.key: x.value.string_value for x in traces.resource_spans[0].resource.attributes}
    assert named["service.name"] == "shop"
    assert {"PUT /v1/boards/{board}", "commit"} <= {
        span.name for one in traces.resource_spans for scope in one.scope_spans for span in scope.spans
    }
    sent = ExportMetricsServiceRequest.FromString(b"".join(Collector.got["/v1/metrics"]))
    metrics = {m.name: m for one in sent.resource_metrics for scope in one.scope_metrics for m in scope.metrics}
    (commits,) = metrics["rankcast_commit_seconds"].histogram.data_points
    assert commits.count == sum(commits.bucket_counts) >= 1
    assert len(commits.bucket_counts) == len(commits.explicit_bounds) + 1
    assert any(point.as_double >= 1 for point in metrics["rankcast_requests"].sum.data_points)
    lines = ExportLogsServiceRequest.FromString(b"".join(Collector.got["/v1/logs"]))
    records = [r for one in lines.resource_logs for scope in one.scope_logs for r in scope.log_records]
    assert "ready" in {record.body.string_value for record in records}
