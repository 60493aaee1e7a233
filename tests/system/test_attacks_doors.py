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
from tests.system.http.talk import Talk, problem

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


@pytest.fixture(scope="module")
def shared(start_service: StartService) -> LiveService:
    """A service without keys."""
    return start_service()
