"""Attacks on connections, without a key, in a bounded form: memory, waiting, and frames that cost much."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress

import pytest

from tests.support.live import LiveService, StartService
from tests.support.patience import PATIENCE, wait_until
from tests.support.process import MB, handles, resident
from tests.system.http.talk import Talk, fresh

HOST = b"Host: 127.0.0.1\r\n"
GET = b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n"
TEXT, PING, PONG, CLOSE = 1, 9, 10, 8


@pytest.fixture(scope="module")
def service(start_service: StartService) -> LiveService:
    """A service whose patience is short."""
    env = {"RANKCAST_HEAD_SECONDS": "2", "RANKCAST_BODY_SECONDS": "2", "RANKCAST_UNREAD_SECONDS": "3"}
    return start_service(env=env)


@pytest.fixture
def talk(service: LiveService) -> Iterator[Talk]:
    talk = Talk(service.url)
    yield talk
    assert talk.ask("GET", "/healthz").status_code == 200
    talk.close()
    assert service.process.poll() is None, f"the service died:\n{service.log.read_text()[-4000:]}"


def connect(service: LiveService, room: int | None = None) -> socket.socket:
    """A connection; `room` is how much its system takes before anything is read."""
    connection = socket.socket()
    if room is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
    connection.settimeout(PATIENCE)
    connection.connect(("127.0.0.1", int(service.url.rsplit(":", 1)[1])))
    return connection


def until_closed(connection: socket.socket) -> bytes:
    """What is received until the service closes the connection."""
    found = b""
    with suppress(ConnectionError):
        while more := connection.recv(1 << 16):
            found += more
    return found


def refused(answer: bytes, status: int) -> None:
    """It is one response, with a problem of this status."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), answer[:500]
    assert b"content-type: application/problem+json" in head.lower()
    assert json.loads(body)["status"] == status


# --- pipelining -------------------------------------------------------------------------------------------------------


def test_pipelined_requests_are_not_read_ahead(service: LiveService, talk: Talk) -> None:
    count, answered, before = 200_000, 0, resident(service)
    connection = connect(service)

    def send() -> None:
        with suppress(OSError):
            connection.sendall(GET * count)

    sender = threading.Thread(target=send)
    sender.start()
    most = before
    with closing(connection):
        # What is answered makes room for more to be read.
        while answered < 20_000:
            answered += connection.recv(1 << 16).count(b"HTTP/1.1 200")
            most = max(most, resident(service))
    sender.join()
    assert most - before < 80 * MB


def test_pipelined_requests_are_answered_in_order(talk: Talk, service: LiveService) -> None:
    board = f"/v1/boards/{fresh()}"
    talk.good("PUT", board, {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [1]})
    body = b'{"values": {"x": 1, "y": 1}, "payload": "%s"}' % (b"p" * 3_000)
    lines = [b"Content-Length: %d" % len(body), b"Content-Type: application/json", b"", body]
    count = 300
    requests = b"".join(
        b"PUT %s/objects/o%d HTTP/1.1\r\n%s%s" % (board.encode(), n, HOST, b"\r\n".join(lines)) for n in range(count)
    )
    chunked = b"POST %s/events HTTP/1.1\r\n%sContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    events = b'{"events": [], "messages": "none"}'
    requests += chunked % (board.encode(), HOST)
    requests += b"".join(b"1\r\n%c\r\n" % letter for letter in events) + b"0\r\n\r\n"
    requests += b"GET /healthz HTTP/1.1\r\nConnection: close\r\n" + HOST + b"\r\n"
    with closing(connect(service)) as connection:
        sender = threading.Thread(target=connection.sendall, args=(requests,))
        sender.start()
        answer = until_closed(connection)
        sender.join()
    assert answer.count(b"HTTP/1.1 201") == count and answer.count(b"HTTP/1.1 200") == 2
    seqs = [int(part.split(b",")[0]) for part in answer.split(b'{"seq":')[1:]]
    assert seqs == [*range(1, count + 1), count]


def test_a_stream_ends_with_its_connection_whatever_came_behind_it(service: LiveService, talk: Talk) -> None:
    board = f"/v1/boards/{fresh()}"
    talk.good("PUT", board, {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [1]})
    talk.good("PUT", f"{board}/subscriptions/s", {"k": 1})
    stream = f"GET {board}/subscriptions/s/stream HTTP/1.1\r\n".encode() + HOST + b"\r\n"
    for behind in (GET, GET * 3, stream):
        with closing(connect(service)) as connection:
            connection.sendall(stream + behind)
            assert connection.recv(1 << 16).startswith(b"HTTP/1.1 200 ")
            # With a reset the service learns of it, although it reads nothing.
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wait_until(lambda: 'rankcast_streams{transport="sse"} 0.0' in talk.ask("GET", "/metrics").text)
    assert "Traceback" not in service.log.read_text()


def test_answers_that_nobody_reads_hold_up_what_comes_behind(service: LiveService, talk: Talk) -> None:
    board = f"/v1/boards/{fresh()}"
    talk.good("PUT", board, {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [1]})
    events = [{"op": "upsert", "id": f"o{n}", "values": {"x": n, "y": n}} for n in range(1_000)]
    talk.good("POST", f"{board}/events", {"events": events, "messages": "none"})
    asked = b"GET %s/top?k=1000 HTTP/1.1\r\n%s\r\n" % (board.encode(), HOST)
    before = resident(service)
    most = before
    with ExitStack() as stack:
        for _ in range(30):
            connection = stack.enter_context(closing(connect(service, 4096)))
            connection.setblocking(False)
            left = asked * 2_000
            with suppress(BlockingIOError):
                while left:
                    left = left[connection.send(left) :]
        for _ in range(200):
            talk.good("GET", f"{board}/top", params={"k": 1000})
            most = max(most, resident(service))
    assert most - before < 100 * MB


def test_a_client_that_takes_no_answer_is_cut_off(service: LiveService, talk: Talk) -> None:
    before = handles(service)
    with ExitStack() as stack:
        for _ in range(5):
            connection = stack.enter_context(closing(connect(service, 4096)))
            connection.setblocking(False)
            left = GET * 100_000
            with suppress(BlockingIOError):
                while left:
                    left = left[connection.send(left) :]
        wait_until(lambda: handles(service) <= before)


# --- heads, bodies and handshakes -------------------------------------------------------------------------------------


KEY = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
UPGRADE = HOST + b"Connection: Upgrade\r\nUpgrade: websocket\r\n" + KEY
START = b"GET /v1/stream HTTP/1.1\r\n" + UPGRADE
HANDSHAKES = {
    "body": START + b"Content-Length: 5\r\n\r\nhello",
    "body that never comes": START + b"Content-Length: 5\r\n\r\n",
    "chunked": START + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "chunks that never come": START + b"Transfer-Encoding: chunked\r\n\r\n",
    "long header": START + b"X: " + b"a" * 9_000 + b"\r\n\r\n",
    "many headers": START + b"".join(b"X-%d: a\r\n" % n for n in range(200)) + b"\r\n",
    "long query": b"GET /v1/stream?q=" + b"a" * 20_000 + b" HTTP/1.1\r\n" + UPGRADE + b"\r\n",
    "no key": START.replace(b"Sec-WebSocket-Key", b"X") + b"\r\n",
    "short key": START.replace(b"dGhlIHNhbXBsZSBub25jZQ==", b"dGhl") + b"\r\n",
    "two keys": START + b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
    "no version": START.replace(b"Sec-WebSocket-Version", b"X") + b"\r\n",
    "another version": START.replace(b"13", b"12") + b"\r\n",
    "two protocols": START + b"Upgrade: websocket\r\n\r\n",
    "bytes that are no text": START + b"Sec-WebSocket-Protocol: \xff\r\n\r\n",
    "POST": b"POST /v1/stream HTTP/1.1\r\n" + UPGRADE + b"\r\n",
    "POST with a body": b"POST /v1/stream HTTP/1.1\r\n" + UPGRADE + b"Content-Length: 2\r\n\r\n{}",
}


@pytest.mark.parametrize("kind", HANDSHAKES)
def test_a_handshake_that_cannot_be_is_answered(service: LiveService, talk: Talk, kind: str) -> None:
    with closing(connect(service)) as connection:
        connection.settimeout(30)
        connection.sendall(HANDSHAKES[kind])
        answer = until_closed(connection)
        refused(answer, 400)
        assert kind != "another version" or b"\r\nsec-websocket-version: 13\r\n" in answer


@pytest.mark.parametrize("path", [b"/nothing", b"/v1/boards", b"/v1/stream/", b"/v1/%ff"])
def test_a_handshake_at_another_path_is_answered(service: LiveService, talk: Talk, path: bytes) -> None:
    with closing(connect(service)) as connection:
        connection.settimeout(30)
        connection.sendall(START.replace(b"/v1/stream", path) + b"\r\n")
        refused(until_closed(connection), 404)


def test_the_service_ends_properly_whatever_handshakes_came(start_service: StartService) -> None:
    service = start_service()
    with ExitStack() as stack:
        for handshake in HANDSHAKES.values():
            stack.enter_context(closing(connect(service))).sendall(handshake)
        half = stack.enter_context(closing(connect(service)))
        half.sendall(START)
        talk = stack.enter_context(closing(Talk(service.url)))
        talk.good("GET", "/readyz")
        assert service.stop() == 0, service.log.read_text()[-4000:]
    assert "Traceback" not in service.log.read_text()


POST = b"POST /v1/boards/none/events HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"


@pytest.mark.parametrize(
    ("start", "drop"),
    [
        (GET[:-2], b""),
        (GET[:-2] + b"X: ", b"x"),
        (POST + b"Content-Length: 100000\r\n\r\n{", b""),
        (POST + b"Content-Length: 100000\r\n\r\n{", b" "),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n", b""),
        (POST + b"Transfer-Encoding: chunked\r\n\r\n", b"1\r\n \r\n"),
    ],
    ids=["head", "drop by drop", "body", "body drop by drop", "chunked", "chunk by chunk"],
)
def test_what_comes_too_slowly_is_refused(service: LiveService, talk: Talk, start: bytes, drop: bytes) -> None:
    with closing(connect(service)) as connection:
        connection.sendall(start)
        refused(_dripped(connection, drop), 408)


def test_a_body_that_nobody_waits_for_has_an_end(service: LiveService, talk: Talk) -> None:
    with closing(connect(service)) as connection:
        connection.sendall(b"POST /v1/nothing HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n")
        assert _dripped(connection, b"1\r\n \r\n").startswith(b"HTTP/1.1 404")


def _dripped(connection: socket.socket, drop: bytes) -> bytes:
    """What is answered to bytes that come one by one, until the connection is closed."""
    found = b""
    connection.settimeout(0.2)
    for _ in range(round(30 / 0.2)):
        try:
            more = connection.recv(1 << 16)
        except TimeoutError:
            with suppress(ConnectionError):
                connection.sendall(drop)
            continue
        except ConnectionError:
            return found
        if not more:
            return found
        found += more
    raise AssertionError(f"the connection stays open: {found[:200]!r}")


def test_a_conversation_may_pause(service: LiveService, talk: Talk) -> None:
    """Commands of relays are answered while the body still comes; who talks with whom there has all the time."""
    relay = fresh("r")
    talk.good("PUT", f"/v1/relays/{relay}", {"attributes": ["x"]})
    path = f"POST /v1/relays/{relay}/commands HTTP/1.1\r\n".encode()
    head = path + HOST + b"Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"

    def chunk(id: str) -> bytes:
        line = json.dumps({"op": "subscribe", "id": id, "box": {"x": [0, 1]}}).encode() + b"\n"
        return b"%x\r\n%s\r\n" % (len(line), line)

    with closing(connect(service)) as connection:
        connection.sendall(head + chunk("a"))
        answer = b""
        while b'"a"' not in answer:
            answer += connection.recv(1 << 16)
        for _ in range(2):
            # Another body that pauses as long is refused in the meantime.
            test_what_comes_too_slowly_is_refused(service, talk, POST + b"Content-Length: 9\r\n\r\n", b"")
        connection.sendall(chunk("b") + b"0\r\n\r\n")
        while not answer.endswith(b"0\r\n\r\n"):
            more = connection.recv(1 << 16)
            assert more, answer
            answer += more
    assert b'"b"' in answer


# --- sockets ----------------------------------------------------------------------------------------------------------


def opened(service: LiveService, room: int | None = None) -> socket.socket:
    """A WebSocket whose handshake is done."""
    connection = connect(service, room)
    connection.sendall(START + b"\r\n")
    answer = b""
    while not answer.endswith(b"\r\n\r\n"):
        answer += connection.recv(1)
    assert answer.startswith(b"HTTP/1.1 101"), answer
    return connection


def frame(opcode: int, data: bytes = b"", fin: bool = True) -> bytes:
    """A frame of a client."""
    size = bytes([0x80 | len(data)]) if len(data) < 126 else b"\xfe" + struct.pack("!H", len(data))
    return bytes([fin << 7 | opcode]) + size + bytes(4) + data


def send_all(connection: socket.socket, data: bytes) -> threading.Thread:
    """Send in a thread, until the other side closes."""

    def send() -> None:
        with suppress(OSError):
            connection.sendall(data)

    sender = threading.Thread(target=send)
    sender.start()
    return sender


def closed_with(answer: bytes) -> int:
    """The code of the close frame at the end."""
    at = answer.rindex(b"\x88")
    return int.from_bytes(answer[at + 2 : at + 4])


def test_pings_whose_pongs_nobody_reads_end_the_socket(service: LiveService, talk: Talk) -> None:
    before = resident(service)
    with closing(opened(service, 4096)) as connection:
        sender = send_all(connection, frame(PING, b"p" * 125) * 300_000)
        sender.join()
        assert resident(service) - before < 20 * MB
        assert len(until_closed(connection)) < 2 * MB


@pytest.mark.parametrize(
    "frames",
    [
        frame(TEXT, b"{", fin=False) + frame(0, b"", fin=False) * 100_000,
        frame(TEXT, b"{", fin=False) + frame(0, b" ", fin=False) * 100_000,
        frame(PING) * 100_000,
        frame(PONG) * 100_000,
    ],
    ids=["empty fragments", "fragments", "pings", "pongs"],
)
def test_frames_without_an_operation_end_the_socket(service: LiveService, talk: Talk, frames: bytes) -> None:
    with closing(opened(service)) as connection:
        connection.settimeout(60)
        sender = send_all(connection, frames)
        answer = until_closed(connection)
        sender.join()
        # The close frame may be lost when the connection is reset, since more was sent than is read.
        assert not answer or b"\x88" not in answer or closed_with(answer) == 1008


def test_operations_in_fragments_and_pings_are_answered(service: LiveService) -> None:
    text = b'{"op": "ping"}'
    with closing(opened(service)) as connection:
        parts = b"".join(frame(0, bytes([letter]), fin=False) for letter in b" " * 500 + text[1:])
        connection.sendall(frame(TEXT, text[:1], fin=False) + parts + frame(0) + frame(PING, b"here") * 50)
        answer = b""
        while answer.count(b"\x8a\x04here") < 50 or b'{"event":"pong"}' not in answer:
            answer += connection.recv(1 << 16)


def test_thousands_of_operations_in_one_piece_are_answered_in_order(service: LiveService) -> None:
    count = 5_000
    with closing(opened(service)) as connection:
        operations = (json.dumps({"op": "unsubscribe", "resource": "boards/b", "id": f"i{n}"}) for n in range(count))
        sender = send_all(connection, b"".join(frame(TEXT, text.encode()) for text in operations))
        answer = b""
        while answer.count(b'"event":"error"') < count:
            answer += connection.recv(1 << 16)
        sender.join()
    ids = [int(part.partition(b'"')[0]) for part in answer.split(b'"id":"i')[1:]]
    assert ids == list(range(count))


# --- readers ----------------------------------------------------------------------------------------------------------


def much_followed(talk: Talk) -> str:
    """A subscription whose list has ten objects of 4 kB each; returns the path of its board."""
    board = f"/v1/boards/{fresh()}"
    talk.good("PUT", board, {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [10]})
    talk.good("PUT", f"{board}/subscriptions/s", {"range": {"x": [0, 100]}, "k": 10})
    return board


def change(talk: Talk, board: str, times: int) -> None:
    """Change the whole list so many times."""
    for _ in range(times):
        events = [
            {"op": "upsert", "id": f"o{n}", "values": {"x": n, "y": n}, "payload": fresh("p" * 3_990)}
            for n in range(10)
        ]
        talk.good("POST", f"{board}/events", {"mode": "batch", "messages": "none", "events": events})


def streams_of(talk: Talk, board: str) -> int:
    found: int = talk.good("GET", f"{board}/subscriptions/s/explain")["streams"]
    return found


def test_streams_that_nobody_reads_hold_little_and_end(start_service: StartService) -> None:
    readers, service = 20, start_service(env={"RANKCAST_UNREAD_SECONDS": "15"})
    talk = Talk(service.url)
    board = much_followed(talk)
    # What is kept for readers who come back is there once.
    with closing(connect(service, 4096)) as one, ExitStack() as stack:
        one.sendall(f"GET {board}/subscriptions/s/stream HTTP/1.1\r\n".encode() + HOST + b"\r\n")
        wait_until(lambda: streams_of(talk, board) == 1)
        change(talk, board, 300)
        before = resident(service)
        for _ in range(readers):
            connection = stack.enter_context(closing(connect(service, 4096)))
            connection.sendall(f"GET {board}/subscriptions/s/stream HTTP/1.1\r\n".encode() + HOST + b"\r\n")
        wait_until(lambda: streams_of(talk, board) > readers // 2)
        change(talk, board, 400)
        assert resident(service) - before < readers * 2 * MB
        wait_until(lambda: streams_of(talk, board) == 0)
    talk.close()
