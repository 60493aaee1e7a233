"""Which requests are traced: as the sampler says when it is asked once. All go as if none were."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from opentelemetry.context import Context
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_OFF,
    ALWAYS_ON,
    DEFAULT_OFF,
    DEFAULT_ON,
    ParentBased,
    ParentBasedTraceIdRatio,
    Sampler,
    TraceIdRatioBased,
)
from opentelemetry.trace import SpanKind, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from uvicorn.server import ServerState

from app.errors import LogUnavailable
from app.runtime import tracing
from app.runtime.telemetry import SpanTracer
from app.server.fast_path import ServiceProtocol
from app.server.limits import Limits, ServerConfig
from tests.support.asker import BOARD, Asker, socket_of
from tests.support.patience import PATIENCE, wait_until
from tests.support.running import Running
from tests.support.service_fixtures import Start
from tests.support.traces import Alternating, by_trace, install, sdk_tracer

TRACE = "4bf92f3577b34da6a3ce929d0e0e{:04x}"
PARENT = "00f067aa0ba902b7"
OBJECT = "PUT /v1/boards/{board}/objects/{id}"
CHAIN = [OBJECT, "commit", "execution", "group"]
LOW = 1 << 64


def traceparent(trace: int, sampled: bool) -> str:
    return f"00-{TRACE.format(trace)}-{PARENT}-{sampled:02x}"


def ours(memory: InMemorySpanExporter) -> dict[int, list[str]]:
    """The names of spans, by the numbers of the callers' traces in which they are."""
    first = int(TRACE.format(0), 16)
    return {id - first: sorted(span.name for span in spans) for id, spans in by_trace(memory).items()}


# --- the decision -----------------------------------------------------------------------------------------------------


class Fixed(RandomIdGenerator):
    """Has one id for all traces."""

    def __init__(self, id: int) -> None:
        self.id = id

    def generate_trace_id(self) -> int:
        return self.id


def sdks_own(sampler: Sampler, id: int, headers: dict[str, str]) -> ReadableSpan | None:
    """The span that the SDK makes of a request by itself."""
    tracer, memory = sdk_tracer(sampler)
    tracer.id_generator = Fixed(id)
    outer = TraceContextTextMapPropagator().extract(headers, Context())
    tracer.start_span("GET", outer, SpanKind.SERVER, attributes={"http.request.method": "GET"}).end()
    return next(iter(memory.get_finished_spans()), None)


RATES = st.one_of(st.sampled_from([0.0, 0.01, 0.5, 1.0]), st.floats(0, 1))
SAMPLERS = st.one_of(
    RATES.map(TraceIdRatioBased),
    RATES.map(ParentBasedTraceIdRatio),
    RATES.map(lambda rate: ParentBased(TraceIdRatioBased(rate), remote_parent_sampled=ALWAYS_OFF)),
    RATES.map(lambda rate: ParentBased(ALWAYS_ON, remote_parent_not_sampled=TraceIdRatioBased(rate))),
    st.sampled_from([ALWAYS_ON, ALWAYS_OFF, DEFAULT_ON, DEFAULT_OFF]),
)
IDS = st.one_of(
    st.integers(1, LOW * LOW - 1),
    # About where the decision turns.
    st.tuples(RATES, st.integers(-1, 1), st.integers(1, LOW - 1)).map(
        lambda drawn: (drawn[2] * LOW) + min(max(TraceIdRatioBased.get_bound_for_rate(drawn[0]) + drawn[1], 0), LOW - 1)
    ),
)
HEADERS: st.SearchStrategy[dict[str, str]] = st.one_of(
    st.just({}),
    st.builds(
        lambda id, flags: {"traceparent": f"00-{id:032x}-{PARENT}-{flags:02x}", "tracestate": "a=b"},
        IDS,
        st.integers(0, 255),
    ),
    st.sampled_from(["", "00", "ff-" + TRACE.format(1), f"00-{'0' * 32}-{PARENT}-01"]).map(
        lambda value: {"traceparent": value}
    ),
)


@given(SAMPLERS, IDS, HEADERS)
@example(ParentBasedTraceIdRatio(0.01), TraceIdRatioBased.get_bound_for_rate(0.01) + LOW, {})
@example(ParentBasedTraceIdRatio(0.01), TraceIdRatioBased.get_bound_for_rate(0.01) + LOW - 1, {})
def test_a_request_has_the_span_that_the_sdk_makes_of_it(sampler: Sampler, id: int, headers: dict[str, str]) -> None:
    wanted = sdks_own(sampler, id, headers)
    sdk, memory = sdk_tracer(sampler)
    halves: list[int] = []
    tracer = SpanTracer(sdk, lambda bits: halves.pop(0))
    raw = [(b"host", b"localhost"), *((name.encode(), value.encode()) for name, value in headers.items())]
    for asked_before in (False, True):
        memory.clear()
        halves[:] = id % LOW, id // LOW
        sampling = tracer.sample("GET", raw) if asked_before else None
        if sampling is not None:
            # Others may be asked about in between.
            assert (sampling is tracing.UNSAMPLED) == (wanted is None)
            assert tracer.request("GET", raw, tracing.UNSAMPLED) is None
        span = tracer.request("GET", raw, sampling)
        assert (span is None) == (wanted is None)
        if span is None or wanted is None:
            continue
        span.end("/", 200)
        (found,) = memory.get_finished_spans()
        assert found.context is not None and wanted.context is not None
        assert found.context.trace_id == wanted.context.trace_id
        assert found.context.trace_flags == wanted.context.trace_flags
        assert found.context.trace_state == wanted.context.trace_state
        assert found.parent == wanted.parent and found.kind == wanted.kind


# --- over HTTP --------------------------------------------------------------------------------------------------------


class Got(NamedTuple):
    status: int
    body: Any
    together: bool


class Http:
    """The service's own server in front of a running application; `protocols` are its connections."""

    def __init__(self, running: Running, port: int, protocols: list[ServiceProtocol]) -> None:
        self.running, self.protocols = running, protocols
        self._http = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> Got:
        typed = {} if body is None else {"Content-Type": "application/json"}
        self._http.request(method, path, None if body is None else json.dumps(body), {**typed, **headers})
        answer = self._http.getresponse()
        text = answer.read()
        return Got(answer.status, json.loads(text), "-s" in (answer.headers["x-request-id"] or ""))

    def put(self, id: str, n: int, **headers: str) -> Got:
        """A small write."""
        return self.ask("PUT", f"/v1/boards/b/objects/{id}", {"values": {"x": n, "y": -n}}, **headers)

    def close(self) -> None:
        self._http.close()


@contextmanager
def served(running: Running) -> Iterator[Http]:
    """Requests over connections to an application that this process runs."""
    config = ServerConfig(
        running.client.app,
        Limits(60, 60, 1, 60),
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        ws="none",
    )
    config.load()
    state, protocols = ServerState(), list[ServiceProtocol]()

    def protocol() -> ServiceProtocol:
        protocols.append(ServiceProtocol(config, state, {}))
        return protocols[-1]

    async def start() -> asyncio.Server:
        return await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0)

    async def stop() -> None:
        server.close()
        for one in state.connections.copy():
            one.shutdown()
        await server.wait_closed()

    server = running.call(start)
    http = Http(running, server.sockets[0].getsockname()[1], protocols)
    try:
        yield http
    finally:
        http.close()
        running.call(stop)


@pytest.fixture
def http(start: Start) -> Iterator[Http]:
    """The server in front of a board."""
    running: Running = start()
    running.client.put("/v1/boards/b", json=BOARD).raise_for_status()
    with served(running) as found:
        yield found


def test_small_writes_that_are_not_sampled_have_no_spans(http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = install(monkeypatch, DEFAULT_OFF)
    for n, value in enumerate((None, traceparent(1, False), "x")):
        got = http.put(f"o{n}", n) if value is None else http.put(f"o{n}", n, traceparent=value)
        assert got.status == 201 and got.together, value
    assert not memory.get_finished_spans()


def test_small_writes_that_are_sampled_have_all_their_spans(http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = install(monkeypatch, DEFAULT_OFF)
    for n in range(6):
        got = http.put("a", n, traceparent=traceparent(n, n % 2 == 1), tracestate="a=b")
        assert got.status in (200, 201) and got.together
    wait_until(lambda: len(memory.get_finished_spans()) >= 3 * len(CHAIN))
    assert ours(memory) == dict.fromkeys((1, 3, 5), CHAIN)
    requests = [span for span in memory.get_finished_spans() if span.name == OBJECT]
    assert {f"{span.parent.span_id:016x}" for span in requests if span.parent} == {PARENT}


def test_all_writes_have_traces_where_all_are_sampled(http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    memory = install(monkeypatch, ALWAYS_ON)
    for n in range(5):
        assert http.put("a", n).together
    wait_until(lambda: len(memory.get_finished_spans()) >= 5 * len(CHAIN))
    assert [sorted(span.name for span in spans) for spans in by_trace(memory).values()] == [CHAIN] * 5


def test_the_sampler_is_asked_once_about_each_request(http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also about those that leave the lane again, because they are read or applied there in vain."""
    sampler = Alternating()
    memory = install(monkeypatch, sampler)
    asked = 0
    for n in range(6):
        for method, path, body, status in (
            ("PUT", "objects/a", {"values": {"x": n, "y": n}}, (200, 201)),
            ("GET", "objects/a", None, (200,)),
            ("PATCH", "objects/none", {"values": {"x": n}}, (404,)),
            ("PUT", "objects/a", {"values": {"x": "wide"}}, (422,)),
            ("POST", "events", {"events": []}, (200,)),
            ("POST", "events", {"events": [{"op": "upsert", "id": "a", "values": {"x": n, "y": 1}}]}, (200,)),
            ("GET", "objects", None, (200,)),
        ):
            got = http.ask(method, f"/v1/boards/b/{path}", body)
            asked += 1
            assert got.status in status, got
    assert len(sampler.asked) == asked
    wait_until(lambda: len(requests_of(memory)) >= len(sampler.wanted))
    assert requests_of(memory) == sampler.wanted
    said = [span.attributes or {} for span in memory.get_finished_spans() if " " in span.name]
    assert {about["http.response.status_code"] for about in said} == {200, 404, 422}


def requests_of(memory: InMemorySpanExporter) -> list[int]:
    """The traces of the spans of requests, which have the method in their names."""
    return sorted(id for id, spans in by_trace(memory).items() for span in spans if " " in span.name)


def test_a_group_is_in_no_trace_whoever_had_it_read(http: Http, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection reads what waits for it when the request before is answered, in the task of that."""
    memory = install(monkeypatch, DEFAULT_OFF)
    assert http.put("a", 1).together
    (protocol,) = http.protocols
    body = b'{"values":{"x":2,"y":2}}'
    head = (
        b"PUT /v1/boards/b/objects/b HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n"
    )

    async def write() -> Any:
        assert tracing.tracer is not None
        span = tracing.tracer.request("GET", [(b"traceparent", traceparent(1, True).encode())])
        assert span is not None
        before = http.running.service.writer.last_lsn
        protocol.data_received(head % len(body) + body)
        async with asyncio.timeout(PATIENCE):
            while http.running.service.writer.last_lsn == before:
                await asyncio.sleep(0.001)
        return span

    span = http.running.call(write)
    wait_until(lambda: http.running.client.get("/v1/boards/b").json()["seq"] == 2)
    assert not memory.get_finished_spans()
    span.end("/", 200)
    assert ours(memory) == {1: ["GET /"]}


# --- over a socket ----------------------------------------------------------------------------------------------------


def put(asker: Asker, id: str, n: int, **headers: str) -> dict[str, Any]:
    return asker.frame("PUT", f"/v1/boards/b/objects/{id}", {"values": {"x": n, "y": -n}}, **headers)


def exchange(asker: Asker, frames: list[dict[str, Any]]) -> dict[int, int]:
    """Send frames in one turn of the loop; the statuses of the answers by their refs."""
    asker.socket.send_all(frames)
    return {answer["ref"]: answer["status"] for answer in (asker.socket.receive_json() for _ in frames)}


def test_a_window_that_is_not_sampled_is_one_row_of_the_log(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    running: Running = start()
    running.client.put("/v1/boards/b", json=BOARD)
    memory = install(monkeypatch, DEFAULT_OFF)
    headers: list[dict[str, str]] = [
        {},
        {"traceparent": traceparent(1, False)},
        {"traceparent": "00", "tracestate": "a=b", "Idempotency-Key": "once"},
    ]
    before = running.service.writer.last_lsn
    with socket_of(running.client) as asker:
        frames = [put(asker, f"o{n % 7}", n, **headers[2 if n == 50 else n % 2]) for n in range(100)]
        assert set(exchange(asker, frames).values()) == {200, 201}
    assert running.service.writer.last_lsn == before + 1
    assert not memory.get_finished_spans()


def test_those_of_a_window_that_are_sampled_have_their_spans(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each its own, of the one command that all of them are, down to what its readers get."""
    running: Running = start()
    running.client.put("/v1/boards/b", json=BOARD)
    running.client.put("/v1/boards/b/subscriptions/mine", json={"k": 3}).raise_for_status()
    memory = install(monkeypatch, DEFAULT_OFF)
    with socket_of(running.client) as asker, socket_of(running.client) as reader:
        reader.socket.send_json({"op": "subscribe", "resource": "boards/b", "id": "mine"})
        assert reader.socket.receive_json()["event"] == "snapshot"
        before = running.service.writer.last_lsn
        frames = [put(asker, f"o{n}", n, traceparent=traceparent(n, n in (4, 9))) for n in range(20)]
        assert set(exchange(asker, frames).values()) == {201}
        assert running.service.writer.last_lsn == before + 1
        epoch = reader.socket.receive_json()["cursor"].partition(":")[0]
    cursor = f"{epoch}:{running.client.get('/v1/boards/b').json()['seq']}"
    spans = {(trace_of(span), span.name): span for span in memory.get_finished_spans() if trace_of(span) < 20}
    assert ours(memory) == dict.fromkeys((4, 9), sorted([*CHAIN, "delivery"]))
    for n in (4, 9):
        assert f"{above(spans[n, OBJECT]):016x}" == PARENT
        for name, parent in (("group", OBJECT), ("commit", "group"), ("execution", OBJECT), ("delivery", "execution")):
            found, outer = spans[n, name], spans[n, parent]
            assert outer.context is not None and above(found) == outer.context.span_id, name
            assert inside(found, outer), name
        assert spans[n, "delivery"].attributes == {"rankcast.resource": "boards/b", "rankcast.cursor": cursor}


def trace_of(span: ReadableSpan) -> int:
    assert span.context is not None
    return span.context.trace_id - int(TRACE.format(0), 16)


def above(span: ReadableSpan) -> int:
    assert span.parent is not None
    return span.parent.span_id


def inside(inner: ReadableSpan, outer: ReadableSpan) -> bool:
    assert inner.start_time and outer.start_time and inner.end_time and outer.end_time
    return outer.start_time <= inner.start_time and inner.end_time <= outer.end_time


def test_a_window_that_cannot_be_logged_ends_the_spans_of_its_group_with_errors(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its requests are refused: tried again they would come behind what was sent later."""
    running: Running = start()
    running.client.put("/v1/boards/b", json=BOARD)
    memory = install(monkeypatch, DEFAULT_OFF)

    def refuse(*given: object) -> int:
        raise LogUnavailable("no disk")

    running.service.stores.log.append = refuse  # type: ignore[method-assign,assignment]
    with socket_of(running.client) as asker:
        frames = [put(asker, f"o{n}", n, traceparent=traceparent(n, n == 1)) for n in range(3)]
        assert set(exchange(asker, frames).values()) == {503}
    assert ours(memory) == {1: [OBJECT, "group"]}
    assert {span.status.status_code for span in memory.get_finished_spans()} == {StatusCode.ERROR}


def test_the_sampler_is_asked_once_about_each_request_of_a_socket(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    running: Running = start()
    running.client.put("/v1/boards/b", json=BOARD)
    sampler = Alternating()
    memory = install(monkeypatch, sampler)
    with socket_of(running.client) as asker:
        frames: list[dict[str, Any]] = []
        for n in range(10):
            frames += [
                put(asker, "a", n),
                put(asker, "a", n, traceparent="00"),
                asker.frame("PATCH", "/v1/boards/b/objects/none", {"values": {"x": n}}),
                asker.frame("PUT", "/v1/boards/b/objects/a", {"values": {"x": "wide"}}),
                asker.frame("GET", "/v1/boards/b/objects/a"),
            ]
        statuses = exchange(asker, frames)
    assert [statuses[frame["ref"]] for frame in frames[2::5] + frames[3::5]] == [404] * 10 + [422] * 10
    assert len(sampler.asked) == len(frames) and len(sampler.wanted) > 10
    assert requests_of(memory) == sampler.wanted


@pytest.mark.parametrize("value", ["\x7f", "a\nb", "é"])
def test_a_traceparent_that_no_header_can_have_is_refused(
    start: Start, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    running: Running = start()
    running.client.put("/v1/boards/b", json=BOARD)
    install(monkeypatch)
    with socket_of(running.client) as asker:
        status, problem = asker.ask("PUT", "/v1/boards/b/objects/a", {"values": {"x": 1, "y": 1}}, traceparent=value)
    assert status == 422 and problem["errors"][0]["field"] == "headers.traceparent"
