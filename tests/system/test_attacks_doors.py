"""Attacks at the door: sockets without a key, wrong keys, two hosts, and slashes that are none."""

from __future__ import annotations

import json
import socket
from contextlib import AbstractContextManager, ExitStack, suppress

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.support.live import LiveService, StartService
from tests.support.patience import PATIENCE
from tests.system.http.talk import Talk, fresh, problem

MOST = 3


@pytest.fixture(scope="module")
def locked(start_service: StartService) -> tuple[LiveService, str]:
    """A service with keys that allows few streams, and a key."""
    service = start_service(env={"RANKCAST_MAX_STREAMS": str(MOST)})
    talk = Talk(service.url)
    key: str = talk.good("POST", "/v1/admin/keys", {"name": "first", "scopes": ["admin"]})["key"]
    talk.close()
    return service, key


def opened(service: LiveService, key: str | None = None) -> AbstractContextManager[ClientConnection]:
    headers = None if key is None else {"Authorization": f"Bearer {key}"}
    return connect(service.url.replace("http", "ws", 1) + "/v1/stream", additional_headers=headers)


def told(connection: ClientConnection, **operation: str) -> dict[str, object]:
    """The answer to an operation."""
    connection.send(json.dumps(operation))
    answer: dict[str, object] = json.loads(connection.recv(PATIENCE))
    return answer


def closed(connection: ClientConnection) -> int | None:
    """The code with which the service closes the socket."""
    with pytest.raises(ConnectionClosed) as end:
        connection.recv(PATIENCE)
    return None if end.value.rcvd is None else end.value.rcvd.code


def test_sockets_without_a_key_keep_nobody_from_streams(locked: tuple[LiveService, str]) -> None:
    service, key = locked
    with ExitStack() as stack:
        strangers = [stack.enter_context(opened(service)) for _ in range(3 * MOST)]
        known = [stack.enter_context(opened(service, key)) for _ in range(MOST - 1)]
        for one in known:
            assert told(one, op="ping")["event"] == "pong"
        assert told(strangers[0], op="auth", key=key)["event"] == "authenticated"
        # Now there are as many as may be.
        refused = told(strangers[1], op="auth", key=key)
        assert refused["event"] == "error" and refused["problem"]["status"] == 429  # type: ignore[index]
        assert closed(strangers[1]) == 1008
        assert told(strangers[0], op="auth", key=key)["event"] == "authenticated"
        for stranger in strangers[2:]:
            assert closed(stranger) == 1008
        assert told(strangers[0], op="ping")["event"] == "pong"


def test_a_socket_may_send_few_wrong_keys(locked: tuple[LiveService, str]) -> None:
    service, key = locked
    for mine in (None, key):
        with opened(service, mine) as connection:
            with suppress(ConnectionClosed):
                for n in range(100):
                    connection.send(json.dumps({"op": "auth", "key": f"wrong{n}"}))
            for _ in range(3):
                answer = json.loads(connection.recv(PATIENCE))
                assert answer["problem"]["status"] == 401
            assert closed(connection) == 1008
    with opened(service) as connection:
        for n in range(2):
            assert told(connection, op="auth", key=f"wrong{n}")["event"] == "error"
        assert told(connection, op="auth", key=key)["event"] == "authenticated"


def raw(service: LiveService, head: str) -> bytes:
    """The answer to a head as it is written."""
    with socket.create_connection(("127.0.0.1", int(service.url.rsplit(":", 1)[1])), timeout=PATIENCE) as connection:
        connection.sendall(head.encode() + b"Connection: close\r\n\r\n")
        answer = b""
        while more := connection.recv(1 << 16):
            answer += more
        return answer


@pytest.mark.parametrize("path", ["/v1/boards/b%2Fobjects", "/v1/boards%2Fb", "/v1%2fboards", "/v1/boards/b%2F"])
def test_an_encoded_slash_reaches_no_other_resource(shared: LiveService, path: str) -> None:
    talk = Talk(shared.url)
    talk.good("PUT", "/v1/boards/b", {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [1]})
    for method in ("GET", "PUT", "DELETE"):
        problem(talk.ask(method, path), 404)
    talk.good("GET", "/v1/boards/b")
    talk.close()


def test_a_request_has_one_host(shared: LiveService) -> None:
    host = "Host: 127.0.0.1\r\n"
    assert raw(shared, f"GET /healthz HTTP/1.1\r\n{host}").startswith(b"HTTP/1.1 200")
    assert raw(shared, f"GET /healthz HTTP/1.1\r\n{host}{host}").startswith(b"HTTP/1.1 400")
    assert raw(shared, "GET /healthz HTTP/1.1\r\nHost: [::1].evil.example\r\n").startswith(b"HTTP/1.1 403")


@pytest.mark.parametrize(
    ("target", "status"),
    [
        ("http://127.0.0.1{}", 200),
        ("HTTPS://[::1]:8000{}", 200),
        ("http://localhost:1{}?limit=1", 200),
        ("http://evil.example{}", 403),
        ("HTTP://evil.example:80{}", 403),
        ("https://127.0.0.1.evil.example{}", 403),
        ("http://[::1].evil.example{}", 403),
        ("http://evil.example?@127.0.0.1{}", 403),
        ("http://127.0.0.1@evil.example{}", 400),
        ("http://evil.example@127.0.0.1{}", 400),
        ("http://evil.example:a@127.0.0.1{}", 400),
        ("http://@127.0.0.1{}", 400),
        ("http://evil.example#@127.0.0.1{}", 400),
        ("ftp://127.0.0.1{}", 400),
        ("//127.0.0.1{}", 404),
        ("//evil.example{}", 404),
        ("///{}", 404),
        ("http://127.0.0.1/{}", 404),
    ],
)
@pytest.mark.parametrize("more", ["", "Upgrade: h2c\r\nConnection: upgrade, close\r\n"], ids=["plain", "upgrade"])
def test_the_host_in_a_target_is_the_one_that_counts(shared: LiveService, target: str, status: int, more: str) -> None:
    path = target.format("/v1/boards")
    for host in ("127.0.0.1", "evil.example"):
        if status != 404 or host == "127.0.0.1":
            answer = raw(shared, f"GET {path} HTTP/1.1\r\nHost: {host}\r\n{more}")
            assert answer.startswith(b"HTTP/1.1 %d " % status), answer
    twice = raw(shared, f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: 127.0.0.1\r\n{more}")
    assert twice.startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize("more", ["", "Cache-Control: no-cache\r\n"], ids=["short", "usual"])
def test_a_small_write_to_a_foreign_target_is_refused(shared: LiveService, more: str) -> None:
    talk = Talk(shared.url)
    board = f"/v1/boards/{fresh()}"
    talk.good("PUT", board, {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [1]})
    body = json.dumps({"values": {"x": 1, "y": 2}})
    rest = f"Host: 127.0.0.1\r\nContent-Type: application/json\r\n{more}Content-Length: {len(body)}\r\n\r\n{body}"
    path = f"{board}/objects/o"
    with socket.create_connection(("127.0.0.1", int(shared.url.rsplit(":", 1)[1])), timeout=PATIENCE) as connection:
        for target, status in ((f"http://evil.example{path}", 403), (f"//evil.example{path}", 404), (path, 201)) * 2:
            connection.sendall(f"PUT {target} HTTP/1.1\r\n{rest}".encode())
            answer = connection.recv(1 << 16)
            expected = (b"HTTP/1.1 200 ", b"HTTP/1.1 201 ") if status == 201 else b"HTTP/1.1 %d " % status
            assert answer.startswith(expected), answer
    assert talk.good("GET", path)["seq"] == 2
    talk.close()


@pytest.mark.parametrize(
    ("target", "status"),
    [("http://127.0.0.1/v1/stream", 101), ("http://evil.example/v1/stream", 403), ("//evil.example/v1/stream", 404)],
)
def test_a_socket_to_a_foreign_target_is_refused(shared: LiveService, target: str, status: int) -> None:
    head = f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nConnection: Upgrade\r\n\r\n"
    with socket.create_connection(("127.0.0.1", int(shared.url.rsplit(":", 1)[1])), timeout=PATIENCE) as connection:
        connection.sendall((head + key).encode())
        assert connection.recv(1 << 16).startswith(b"HTTP/1.1 %d " % status)
    assert "without completing" not in shared.log.read_text()


@pytest.fixture(scope="module")
def shared(start_service: StartService) -> LiveService:
    """A service without keys."""
    return start_service()
