import asyncio
from typing import Any

import pytest
import structlog
from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.responses import JSONResponse
from starlette.routing import WebSocketRoute
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from app.api.guard import Guard
from app.api.problems import install
from app.runtime.metrics import Metrics
from app.security.keyring import Keyring, new_key
from app.settings import Settings
from tests.support.app_client import AppClient

HOST = {"host": "127.0.0.1:8000"}


class World:
    """A tiny application behind a guard."""

    def __init__(self, keyring: Keyring | None = None, ready: bool = True, **settings: Any) -> None:
        self.metrics = Metrics()
        self.ready = ready
        parts: dict[str, Any] = {
            "settings": Settings(**settings),
            "keyring": keyring or Keyring(),
            "metrics": self.metrics,
        }
        self.app = app = FastAPI(middleware=[Middleware(Guard, ready=lambda: self.ready, **parts)])
        install(app, {})

        async def thing(name: str) -> str:
            return name

        async def read(scope: Scope, receive: Receive, send: Send) -> None:
            total, more = 0, True
            while more:
                message = await receive()
                total += len(message.get("body", b""))
                more = message.get("more_body", False)
            await JSONResponse({"size": total})(scope, receive, send)

        async def fail(scope: Scope, receive: Receive, send: Send) -> None:
            raise RuntimeError("the secret is 42")

        async def socket(websocket: WebSocket) -> None:
            await websocket.accept()
            await websocket.send_text("hello")
            await websocket.close()

        app.router.routes.clear()
        app.add_api_route("/things/{name}", thing, methods=["GET"])
        app.add_api_route("/things/{name}", thing, methods=["DELETE"])
        app.mount("/size", read)
        app.mount("/fail", fail)
        app.router.routes.append(WebSocketRoute("/socket", socket))
        self.client = AppClient(self.app, base_url="http://127.0.0.1:8000")


def test_every_answer_has_a_request_id() -> None:
    client = World().client
    first, second = client.get("/things/a"), client.get("/nothing")
    assert first.headers["x-request-id"] != second.headers["x-request-id"]
    assert client.get("/things/a", headers={"x-request-id": "mine-1"}).headers["x-request-id"] == "mine-1"
    assert client.get("/things/a", headers={"x-request-id": "bad id"}).headers["x-request-id"] != "bad id"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8000", "localhost:1", "[::1]:8000", "LOCALHOST"])
def test_loopback_hosts_are_served(host: str) -> None:
    assert World().client.get("/things/a", headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8000",
        "127.0.0.1.evil.example",
        "10.0.0.1",
        "",
        "[::1].evil.example",
        "[::1]evil.example:8000",
        "[::1]:8000.evil.example",
        "localhost:8000:evil.example",
        "localhost:evil.example",
        "[[::1]]",
        "127.0.0.1\xa0",
        "\x85localhost",
    ],
)
def test_other_hosts_are_refused_while_there_are_no_keys(host: str) -> None:
    answer = World().client.get("/things/a", headers=[(b"host", host.encode("latin-1"))])
    assert answer.status_code == 403
    assert answer.json()["type"] == "/problems/foreign-host"


def test_a_request_with_two_hosts_is_refused() -> None:
    for client in (World().client, World(Keyring([new_key("a", ["admin"])[1]])).client):
        for hosts in (("127.0.0.1:8000", "evil.example"), ("127.0.0.1:8000", "127.0.0.1:8000")):
            answer = client.get("/things/a", headers=[("host", host) for host in hosts])
            assert answer.status_code == 400
            assert answer.json()["type"] == "/problems/malformed"


def test_a_request_without_a_host_is_refused() -> None:
    async def ask(world: World, version: str) -> int:
        status = 0

        async def send(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        scope: Scope = {"type": "http", "http_version": version, "method": "GET", "headers": [], "scheme": "http"}
        scope.update(path="/things/a", raw_path=b"/things/a", query_string=b"", root_path="")
        await world.app(scope, receive, send)
        return status

    for world, old in ((World(), 403), (World(Keyring([new_key("a", ["admin"])[1]])), 200)):
        assert asyncio.run(ask(world, "1.1")) == 400
        assert asyncio.run(ask(world, "1.0")) == old


@pytest.mark.parametrize("path", ["/things%2Fa", "/things%2fa", "/%2Fthings/a", "/things/a%2F..%2Fb", "/size%2F"])
def test_an_encoded_slash_separates_nothing(path: str) -> None:
    answer = World().client.get(path)
    assert answer.status_code == 404
    assert answer.json()["type"] == "/problems/not-found"


def test_a_trusted_host_is_served() -> None:
    client = World(trusted_hosts="box.example").client
    assert client.get("/things/a", headers={"host": "box.example:8000"}).status_code == 200
    assert client.get("/things/a", headers={"host": "other.example:8000"}).status_code == 403


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1:9999", "file://", "http://127.0.0.1"]
)
def test_a_foreign_origin_is_refused(origin: str) -> None:
    answer = World().client.get("/things/a", headers={"origin": origin})
    assert answer.status_code == 403
    assert answer.json()["type"] == "/problems/foreign-origin"


def test_the_services_own_pages_may_ask() -> None:
    assert World().client.get("/things/a", headers={"origin": "http://127.0.0.1:8000"}).status_code == 200


@pytest.mark.parametrize(
    "name", ["Authorization", "Content-Type", "Content-Encoding", "Host", "Idempotency-Key", "Origin"]
)
@pytest.mark.parametrize("second", ["a", "b"])
def test_headers_that_are_single_are_refused_when_repeated(name: str, second: str) -> None:
    headers = [(name, "a"), ("accept", "a"), (name.lower(), second), ("accept", "b")]
    for world in (World(), World(Keyring([new_key("a", ["admin"])[1]]))):
        answer = world.client.get("/things/a", headers=headers)
        assert answer.status_code == 400
        assert answer.json()["type"] == "/problems/malformed"
        assert answer.json()["detail"] == f"a request has one {name}"


def test_with_keys_host_and_origin_do_not_matter() -> None:
    client = World(Keyring([new_key("a", ["admin"])[1]])).client
    headers = {"host": "rankcast.example", "origin": "https://app.example"}
    assert client.get("/things/a", headers=headers).status_code == 200


def test_a_socket_of_a_foreign_page_is_refused() -> None:
    client = World().client
    with client.websocket_connect("/socket", headers=HOST) as socket:
        assert socket.receive_text() == "hello"
    for headers in ({**HOST, "origin": "http://evil.example"}, {"host": "evil.example"}):
        with pytest.raises(WebSocketDisconnect), client.websocket_connect("/socket", headers=headers):
            pass


def test_a_body_beyond_the_limit_is_refused() -> None:
    client = World(max_body=1024, max_bulk=2048).client
    json, lines = {"content-type": "application/json"}, {"content-type": "application/x-ndjson; charset=utf-8"}
    assert client.post("/size/", content=b"x" * 1024, headers=json).json() == {"size": 1024}
    assert client.post("/size/", content=b"x" * 1025, headers=json).status_code == 413
    assert client.post("/size/", content=b"x" * 2048, headers=lines).json() == {"size": 2048}
    assert client.post("/size/", content=b"x" * 2049, headers=lines).status_code == 413


def test_a_body_of_unknown_length_is_counted() -> None:
    world = World(max_body=1024)

    async def post(chunks: int) -> int:
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/size/",
            "query_string": b"",
            "headers": [(b"host", b"127.0.0.1"), (b"transfer-encoding", b"chunked")],
        }
        sent: list[Message] = []
        bodies = [{"type": "http.request", "body": b"x" * 512, "more_body": n + 1 < chunks} for n in range(chunks)]

        async def receive() -> Message:
            return bodies.pop(0)

        async def send(message: Message) -> None:
            sent.append(message)

        await world.app(scope, receive, send)
        status: int = sent[0]["status"]
        return status

    assert asyncio.run(post(2)) == 200
    assert asyncio.run(post(3)) == 413


def test_an_unexpected_error_shows_nothing_and_is_logged() -> None:
    client = World().client
    with structlog.testing.capture_logs() as logged:
        answer = client.get("/fail/", headers={"x-request-id": "r1"})
    assert answer.status_code == 500
    assert answer.json()["type"] == "/problems/internal"
    assert "secret" not in answer.text
    assert any(line.get("request_id") == "r1" and "exc_info" in line for line in logged)


def test_nothing_but_health_is_served_before_the_service_is_ready() -> None:
    client = World(ready=False).client
    answer = client.get("/things/a")
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    assert client.get("/healthz").status_code == 404


def test_unknown_paths_and_methods_are_problems() -> None:
    client = World().client
    assert client.get("/nothing").json()["type"] == "/problems/not-found"
    answer = client.put("/things/a")
    assert answer.status_code == 405
    assert answer.headers["allow"] == "DELETE, GET"
    assert answer.json()["type"] == "/problems/method-not-allowed"


def test_requests_are_counted_by_route() -> None:
    world = World()
    for name in "abc":
        world.client.get(f"/things/{name}")
    world.client.get("/nothing")
    text = world.metrics.render().decode()
    assert 'rankcast_requests_total{method="GET",route="/things/{name}",status="200"} 3.0' in text
    assert 'route="unmatched",status="404"} 1.0' in text


def test_the_access_log_holds_no_secret() -> None:
    client = World(access_log="all").client
    with structlog.testing.capture_logs() as logged:
        client.get("/things/a?token=hush", headers={"authorization": "Bearer rk_hush"})
    assert logged[-1]["path"] == "/things/a"
    assert logged[-1]["status"] == 200
    assert "hush" not in repr(logged)


def test_two_content_types_do_not_choose_the_limit() -> None:
    client = World(max_body=1024, max_bulk=4096).client
    types = [("content-type", "application/json"), ("content-type", "application/x-ndjson")]
    for headers in (types, types[::-1]):
        assert client.post("/size", content=b"a" * 2000, headers=headers).status_code == 400
