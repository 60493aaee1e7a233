"""What comes before anybody is asked: the head of a request, and the trailers of its body."""

from __future__ import annotations

import json
import re
import socket

import pytest

from tests.support.live import LiveService
from tests.support.patience import PATIENCE
from tests.system.http.talk import NDJSON, Talk, fresh, problem

HOST = b"Host: 127.0.0.1\r\n"
BODY = b"POST /v1/boards/none/events HTTP/1.1\r\n" + HOST + b"Content-Type: application/json\r\n"
CHUNKED = BODY + b"Transfer-Encoding: chunked\r\n\r\n"


def send(service: LiveService, data: bytes, pieces: int = 1) -> bytes:
    """What the service answers to bytes, which come in so many pieces, until it closes the connection."""
    size = -(-len(data) // pieces)
    return exchange(service, [data[at : at + size] for at in range(0, len(data), size)])


def exchange(service: LiveService, pieces: list[bytes], in_turn: bool = False) -> bytes:
    """What the service answers to pieces until it closes the connection. `in_turn`: each piece but the first is sent
    when something has been answered to the one before.
    """
    with socket.create_connection(("127.0.0.1", int(service.url.rsplit(":", 1)[1])), timeout=PATIENCE) as connection:
        answer = b""
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for piece in pieces:
                connection.sendall(piece)
                if in_turn:
                    answer += connection.recv(65_536)
            while more := connection.recv(65_536):
                answer += more
        except ConnectionError:
            pass
        return answer


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"a" * 2_000_000,
        b"GET /healthz HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 2_000_000,
        b"GET /healthz HTTP/1.1\r\n" + HOST + b"a: b\r\n" * 400_000,
        CHUNKED + b"0\r\n" + b"a: b\r\n" * 400_000,
        CHUNKED + b"1;" + b"a" * 2_000_000,
    ],
)
def test_heads_and_trailers_have_an_end(shared: LiveService, talk: Talk, head: bytes) -> None:
    # The answer may be lost when the connection is reset, since more was sent than is read.
    assert send(shared, head)[:12] in (b"", b"HTTP/1.1 400", b"HTTP/1.1 404")
    assert talk.ask("GET", "/healthz").status_code == 200


def test_long_bodies_and_long_targets_are_served(talk: Talk) -> None:
    body = json.dumps({"events": []}).encode() + b" " * 1_000_000
    problem(talk.ask("POST", "/v1/boards/none/events", body), 404)
    problem(talk.ask("GET", "/v1/boards/" + "a" * 30_000), 404)
    problem(talk.ask("POST", "/v1/boards/none/events", b"\n" * 1_000_000, headers={"Content-Type": NDJSON}), 404)


def test_thousands_of_values_and_of_ks(talk: Talk) -> None:
    """None of these may keep the service from others: each took seconds when all errors were listed."""
    board = f"/v1/boards/{fresh()}"
    config = {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [1]}
    problem(talk.ask("PUT", board, {**config, "ks": [1] * 1_000}), 422, "ks")
    problem(talk.ask("PUT", board, {**config, "ks": [1] * 100_000}), 413, "ks")
    problem(talk.ask("PUT", board, {**config, "range_attributes": [0] * 100_000}), 413, "range_attributes")
    talk.good("PUT", board, config)
    problem(talk.ask("POST", f"{board}/subscriptions/delete", {"ids": [0] * 200_000}), 413, "ids")
    values = {"values": {str(n): 0 for n in range(310_000)}}
    problem(talk.ask("PUT", f"{board}/objects/o", values), 422)
    lines = {"Content-Type": NDJSON}
    found = problem(talk.ask("POST", f"{board}/events", b"0\n" * 500_000, headers=lines), 422)
    assert len(found["errors"]) == 100
    problem(talk.ask("POST", f"{board}/subscriptions", b"0\n" * 500_000, headers=lines), 422)
    problem(talk.ask("POST", f"{board}/events", b" " * 500_000 + b"{" + b" " * 600_000, headers=lines), 413)


def test_long_lists_come_in_pieces(talk: Talk) -> None:
    board = f"/v1/boards/{fresh()}"
    talk.good("PUT", board, {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [100]})
    events = [{"op": "upsert", "id": f"o{n}", "values": {"x": n, "y": n}, "payload": "p" * 1_000} for n in range(100)]
    talk.good("POST", f"{board}/events", {"events": events, "messages": "none"})
    for count in (0, 1, 40):
        asked = [{"id": f"s{count}-{n}", "k": 100} for n in range(count)]
        found = talk.good("POST", f"{board}/subscriptions", {"subscriptions": asked})
        assert [one["id"] for one in found["subscriptions"]] == [one["id"] for one in asked]
        assert all(
            [entry["id"] for entry in one["list"]] == [f"o{n}" for n in range(100)] for one in found["subscriptions"]
        )


@pytest.mark.parametrize("coding", [b"gzip, chunked", b"chunked, chunked", b"gzip", b"identity, chunked"])
def test_only_chunks_are_a_transfer_coding(shared: LiveService, coding: bytes) -> None:
    answer = send(shared, BODY + b"Transfer-Encoding: " + coding + b"\r\n\r\n2\r\n{}\r\n0\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ") and b"/problems/malformed" in answer


def test_two_codings_in_two_headers_are_refused(shared: LiveService) -> None:
    codings = b"Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert send(shared, BODY + codings + b"2\r\n{}\r\n0\r\n\r\n").startswith(b"HTTP/1.1 400 ")


@pytest.mark.parametrize(
    "repeated",
    [
        b"Idempotency-Key: a\r\nIdempotency-Key: b\r\n",
        b"Content-Type: application/json\r\n",
        b"Authorization: Bearer a\r\nAuthorization: Bearer a\r\n",
    ],
)
@pytest.mark.parametrize("more", [b"", b"Cache-Control: no-cache\r\n"], ids=["short", "usual"])
def test_repeated_headers_are_refused_on_every_way(
    shared: LiveService, talk: Talk, repeated: bytes, more: bytes
) -> None:
    board = f"/v1/boards/{fresh()}"
    talk.good("PUT", board, {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [1]})
    body = b'{"values":{"x":1,"y":2}}'
    head = f"PUT {board}/objects/o HTTP/1.1\r\nContent-Length: {len(body)}\r\n".encode() + HOST
    request = head + b"Content-Type: application/json\r\n" + more
    answer = send(shared, request + repeated + b"\r\n" + body + b"GET / HTTP/1.1\r\nConnection: close\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ") and b"/problems/malformed" in answer
    problem(talk.ask("GET", f"{board}/objects/o"), 404)
    good = send(shared, request + b"Connection: close\r\n\r\n" + body)
    assert good.startswith((b"HTTP/1.1 201 ", b"HTTP/1.1 200 "))


@pytest.mark.parametrize("more", [b"", b"Cache-Control: no-cache\r\n"], ids=["short", "usual"])
def test_spaces_behind_a_value_are_no_part_of_it(shared: LiveService, talk: Talk, more: bytes) -> None:
    board = f"/v1/boards/{fresh()}"
    talk.good("PUT", board, {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [1]})
    body = b'{"values":{"x":1,"y":2}}'

    def put(behind: bytes) -> bytes:
        key = b"Idempotency-Key: " + board.encode()
        values = b"Host: 127.0.0.1", b"Content-Type: application/json", b"Content-Length: 24", key
        lines = b"".join(value + behind + b"\r\n" for value in values)
        return f"PUT {board}/objects/o HTTP/1.1\r\n".encode() + more + lines + b"\r\n" + body

    last = b"GET /healthz HTTP/1.1\r\nConnection: close \r\n" + HOST + b"\r\n"
    answers = exchange(shared, [put(b" \t "), put(b""), last], in_turn=True)
    assert re.findall(rb"HTTP/1\.1 (\d+) ", answers) == [b"201", b"201", b"200"], answers
    assert answers.count(b'"replayed":true') == 1
    assert talk.good("GET", board)["seq"] == 1


def test_a_trailer_is_no_header(shared: LiveService, talk: Talk) -> None:
    board = f"/v1/boards/{fresh()}"
    talk.good("PUT", board, {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [1]})
    head = f"PUT {board}/objects/o HTTP/1.1\r\n".encode() + HOST + b"Transfer-Encoding: chunked\r\n"
    body = b'18\r\n{"values":{"x":1,"y":2}}\r\n0\r\n'
    typed = b"Content-Type: application/json\r\n"
    trailers = typed + b"Host: evil.example\r\nIdempotency-Key: " + board.encode() + b"\r\nExpect: 100-continue\r\n"
    good = head + typed + b"\r\n" + body + trailers + b"\r\n"
    untyped = head + b"Connection: close\r\n\r\n" + body + trailers + b"\r\n"
    answers = exchange(shared, [good, good, untyped], in_turn=True)
    assert re.findall(rb"HTTP/1\.1 (\d+) ", answers) == [b"201", b"200", b"415"], answers
    assert talk.good("GET", board)["seq"] == 2


@pytest.mark.parametrize(("version", "interim"), [(b"1.1", 1), (b"1.0", 0)])
def test_only_who_knows_interim_answers_gets_one(shared: LiveService, version: bytes, interim: int) -> None:
    head = BODY.replace(b"1.1", version) + b"Content-Length: 2\r\nConnection: close\r\nExpect: 100-continue \r\n\r\n"
    answers = send(shared, head + b"{}")
    assert re.findall(rb"HTTP/1\.1 (\d+) ", answers) == [b"100"] * interim + [b"404"], answers


@pytest.mark.parametrize(
    "asked",
    [
        b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n",
        b"Upgrade: h2c\r\nConnection: Upgrade\r\nConnection: keep-alive\r\n",
        b"Upgrade: websocket, h2c\r\nConnection: upgrade\r\n",
        b"Upgrade: websocket\r\nUpgrade: TLS/1.2\r\nConnection: upgrade\r\n",
    ],
)
@pytest.mark.parametrize("pieces", [1, 2, 10_000])
def test_requests_that_ask_for_another_protocol_are_carried_out(
    shared: LiveService, talk: Talk, asked: bytes, pieces: int
) -> None:
    """Java's client does by the first one on a connection, and so does `curl --http2`."""
    board = f"/v1/boards/{fresh()}"
    talk.good("PUT", board, {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [1]})
    events = [{"op": "upsert", "id": "o", "values": {"x": 1, "y": 2}}]
    body = json.dumps({"events": events, "messages": "none"}).encode()
    # As long as its body is not read as one, it is a request.
    wrong = f"DELETE {board} HTTP/1.1\r\n".encode() + HOST + b"\r\n"
    head = f"POST {board}/events HTTP/1.1\r\nContent-Type: application/json\r\n".encode() + HOST
    requests = [head + asked + b"Content-Length: %d\r\n\r\n" % len(text) + text for text in (body, body, wrong)]
    chunks = b"Transfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (len(body), body)
    requests.append(head + asked.replace(b"Connection: ", b"Connection: close, ") + chunks)
    answers = send(shared, b"".join(requests), pieces)
    statuses = re.findall(rb"HTTP/1\.1 (\d+) ", answers)
    assert statuses == [b"200", b"200", b"400", b"200"] and b"/problems/malformed" in answers
    assert talk.good("GET", f"{board}/objects/o")["seq"] == 3


@pytest.mark.parametrize("target", [b"/v1/boards", b"/", b"*", b"127.0.0.1:80", b"http://127.0.0.1/v1/boards"])
@pytest.mark.parametrize(
    "headers", [b"", b"Upgrade: h2c\r\nConnection: upgrade\r\n", b"Upgrade: websocket\r\nConnection: upgrade\r\n"]
)
@pytest.mark.parametrize("body", [b"Content-Length: %d\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n%x\r\n", b"\r\n"])
def test_connect_ends_the_connection(
    shared: LiveService, talk: Talk, target: bytes, headers: bytes, body: bytes
) -> None:
    """Whatever comes behind it is no request."""
    board = f"/v1/boards/{fresh()}"
    talk.good("PUT", board, {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [1]})
    behind = f"DELETE {board} HTTP/1.1\r\n".encode() + HOST + b"\r\n"
    head = b"CONNECT " + target + b" HTTP/1.1\r\n" + HOST + headers + (body % len(behind) if b"%" in body else body)
    for pieces in ([head + behind], [head, behind]):
        answer = exchange(shared, pieces, in_turn=True)
        assert re.findall(rb"HTTP/1\.1 (\d+) ", answer) == [b"405"], answer
        assert b"\r\nallow:" in answer and b"/problems/method-not-allowed" in answer
        talk.good("GET", board)
    # Behind a request that is under way it may stay unanswered, but ends the connection.
    answer = exchange(shared, [f"GET {board} HTTP/1.1\r\n".encode() + HOST + b"\r\n" + head, behind], in_turn=True)
    assert re.findall(rb"HTTP/1\.1 (\d+) ", answer) in ([b"200"], [b"200", b"405"]), answer
    talk.good("GET", board)


def test_before_http_1_1_no_other_protocol_is_asked_for(shared: LiveService) -> None:
    asked = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    asked += b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    assert send(shared, b"GET /v1/stream HTTP/1.0\r\n" + HOST + asked).startswith(b"HTTP/1.1 426 ")
    assert send(shared, b"GET /healthz HTTP/1.0\r\n" + HOST + asked).startswith(b"HTTP/1.1 200 ")


def test_before_http_1_1_there_are_no_chunks(shared: LiveService, talk: Talk) -> None:
    board = f"/v1/boards/{fresh()}"
    talk.good("PUT", board, {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [100]})
    events = [{"op": "upsert", "id": f"o{n}", "values": {"x": n, "y": n}, "payload": "p" * 1_000} for n in range(100)]
    talk.good("POST", f"{board}/events", {"events": events, "messages": "none"})

    def head(method: str, path: str, version: str = "1.0") -> bytes:
        return f"{method} {path} HTTP/{version}\r\n".encode() + HOST + b"Connection: close\r\n"

    asked = json.dumps({"subscriptions": [{"id": f"s{n}", "k": 100} for n in range(40)]}).encode()
    typed = b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(asked)
    begin, _, body = send(shared, head("POST", f"{board}/subscriptions") + typed + asked).partition(b"\r\n\r\n")
    assert begin.startswith(b"HTTP/1.1 201 ") and b"transfer-encoding" not in begin
    lists = [one["list"] for one in json.loads(body)["subscriptions"]]
    assert [[entry["id"] for entry in one] for one in lists] == [[f"o{n}" for n in range(100)]] * 40
    with socket.create_connection(("127.0.0.1", int(shared.url.rsplit(":", 1)[1])), timeout=PATIENCE) as connection:
        connection.sendall(head("GET", f"{board}/subscriptions/s0/stream") + b"\r\n")
        stream = connection.makefile("rb")
        while stream.readline() != b"\r\n":
            pass
        talk.good("DELETE", board)
        blocks = [block.split(b"\n") for block in stream.read().split(b"\n\n")[:-1]]
    assert [block[1] for block in blocks] == [b"event: snapshot", b"event: gone"]
    assert send(shared, head("HEAD", "/healthz", "1.0") + b"\r\n").endswith(b"\r\n\r\n")


@pytest.mark.parametrize("count", [1, 2, 5])
def test_a_bad_body_behind_good_requests_is_answered_last(shared: LiveService, count: int) -> None:
    good = b"GET /v1/boards HTTP/1.1\r\n" + HOST + b"\r\n"
    bad = CHUNKED + b"2\r\n{}\r\nno chunk\r\n"
    answer = send(shared, good * count + bad + good)
    assert re.findall(rb"HTTP/1\.1 (\d+) ", answer) == [b"200"] * count + [b"400"], answer
    assert answer.endswith(b"}\n") and b"/problems/malformed" in answer


def test_a_request_that_is_answered_early_has_one_answer(shared: LiveService) -> None:
    """A second one would be taken for that of the next request."""
    answer = exchange(
        shared,
        [b"POST /v1/nothing HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n", b"no\r\n"],
        in_turn=True,
    )
    assert re.findall(rb"HTTP/1\.1 (\d+) ", answer) == [b"404"], answer
    # What comes behind its body is read again.
    wrong = b"get / HTTP/1.1\r\n\r\n"
    answer = exchange(
        shared, [b"POST /v1/nothing HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\n\r\n", b"{}" + wrong], in_turn=True
    )
    assert re.findall(rb"HTTP/1\.1 (\d+) ", answer) == [b"404", b"400"], answer
