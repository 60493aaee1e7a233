"""Small writes that are carried out together are answered as each would be for itself, whatever stands beside them."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any, NamedTuple

import pytest

from tests.oracles.service import BoardModel, covers, plain
from tests.support.live import LiveService, StartService
from tests.support.patience import PATIENCE, wait_until
from tests.system.disks import starve
from tests.system.http.talk import Json, Talk, fresh, problem
from tests.system.http.wire import Got, Wire

CONFIG: Json = {"range_attributes": ["x"], "rank": {"attribute": "y", "order": "desc"}, "ks": [1, 5]}


def write(board: str, id: str, body: Any, method: str = "PUT", query: str = "", **headers: str) -> bytes:
    """A small write as bytes; a `POST` is that of one event, and a `DELETE` has no body."""
    path, body = asked(method, id, body)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    content, lines = b"", {"Host": "127.0.0.1", **given}
    if method != "DELETE":
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        lines = {"Content-Type": "application/json", "Content-Length": str(len(content)), **lines}
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"{method} {board}{path}{query} HTTP/1.1\r\n{head}\r\n".encode() + content


def asked(method: str, id: str, body: Any) -> tuple[str, Any]:
    """The path behind the board, and the body, of a write to an object."""
    if method == "POST":
        return "/events", {"events": [{"op": "upsert", **body, "id": id}]}
    return f"/objects/{id}", body


@pytest.fixture
def board(talk: Talk) -> str:
    """A board with subscriptions."""
    path = f"/v1/boards/{fresh()}"
    talk.good("PUT", path, CONFIG)
    asked = [{"id": f"s{n}", "range": {"x": [n, n + 9]}, "k": [1, 5][n % 2]} for n in range(0, 40, 3)]
    talk.good("POST", f"{path}/subscriptions", {"subscriptions": asked})
    return path


@pytest.fixture
def wires(shared: LiveService) -> Iterator[list[Wire]]:
    found = [Wire(shared) for _ in range(12)]
    yield found
    for wire in found:
        wire.close()


class Sent(NamedTuple):
    """A request of the random run, and its answer."""

    id: str
    body: Json
    method: str
    query: str
    got: Got


def draw_write(draw: Random) -> tuple[str, Json, str, str]:
    """A write of an object of a few, one in five of which is refused for itself."""
    id = f"o{draw.randrange(12)}"
    body: Json = {"values": {"x": draw.randrange(40), "y": draw.randrange(10)}}
    method = draw.choice(["PUT", "PUT", "PUT", "PATCH", "POST", "POST", "DELETE"])
    kind = draw.random()
    if method == "DELETE":
        body = {}
    elif kind < 0.05:
        body = {"values": {"x": "wide"}}
    elif kind < 0.1:
        id = f"unknown{draw.randrange(5)}"
        method = "PATCH"
    elif kind < 0.15:
        body["id"] = "another"
        method = "PUT"
    elif kind < 0.2:
        id = f"half{draw.randrange(9)}"
        body = {"values": {"y": 1}}
    elif kind < 0.4:
        body["payload"] = draw.choice([None, {"n": draw.randrange(9)}, "text"])
    elif kind < 0.5:
        del body["values"]["x"]
    return id, body, method, draw.choice(["", "?messages=full", "?messages=count", "?messages=none"])


def run(wires: list[Wire], board: str, draw: Random, rounds: int) -> list[Sent]:
    """Send writes on all connections at once, some of them pipelined, and read all answers, round by round."""
    sent: list[Sent] = []
    for _ in range(rounds):
        asked = [[draw_write(draw) for _ in range(draw.choice([1, 1, 1, 3]))] for _ in wires]
        for wire, some in zip(wires, asked, strict=True):
            wire.send(b"".join(write(board, id, body, method, query) for id, body, method, query in some))
        for wire, some in zip(wires, asked, strict=True):
            sent += [Sent(*one, wire.receive()) for one in some]
    return sent


def test_random_writes_are_what_they_are_one_by_one(talk: Talk, board: str, wires: list[Wire]) -> None:
    """In the order of their seqs the writes give the same statuses and tiles on another board, each for itself."""
    draw = Random(3)
    before = talk.good("GET", board)["seq"]
    sent = run(wires, board, draw, 25)
    good = sorted((one for one in sent if one.got.status in (200, 201)), key=lambda one: one.got.body["seq"])
    assert [one.got.body["seq"] for one in good] == list(range(before + 1, before + 1 + len(good)))
    assert sum(one.got.together for one in good) > len(good) // 2
    model, other = BoardModel("x", "y", "desc", [1, 5]), f"/v1/boards/{fresh()}"
    talk.good("PUT", other, CONFIG)
    shown = talk.pages(f"{board}/subscriptions", 1000)
    talk.good("POST", f"{other}/subscriptions", {"subscriptions": shown})
    for id, body, method, query, got in good:
        op = "delete" if method == "DELETE" else "upsert"
        assert not model.event({"op": op, "id": id, **body}), (method, id, body)
        path, asking = asked(method, id, body)
        answer = talk.ask(method, f"{other}{path}{query}", asking or None, headers={"Idempotency-Key": fresh("k")})
        assert answer.status_code == got.status and answer.json() == got.body, (id, body, method, query)
        assert "replayed" not in got.body and ("tiles" in got.body) == (query in ("", "?messages=full"))
    objects = {item["id"]: plain(item) for item in talk.pages(f"{board}/objects", 1000)}
    assert objects.keys() == model.objects.keys()
    assert all(covers(objects[id], thing.shown()) for id, thing in model.objects.items())
    for one in sent:
        if one.got.status not in (200, 201):
            assert one.got.status in (404, 422) and one.got.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    ("content", "headers", "together"),
    [
        (b"", {}, True),
        (b"", {"Content_Length": "0", "Content_Type": "application/json"}, True),
        (b"{}", {"Content_Length": "2"}, False),
        (b"", {"Content_Type": "text/plain"}, False),
    ],
)
def test_an_object_is_deleted_without_a_body(
    talk: Talk, board: str, wires: list[Wire], content: bytes, headers: dict[str, str], together: bool
) -> None:
    wires[0].send(write(board, "o", {"values": {"x": 1, "y": 2}}))
    made, key = wires[0].receive().body["seq"], fresh("key")
    for again in (False, True):
        asking = write(board, "o", None, "DELETE", "?messages=none", **headers, Idempotency_Key=key)
        wires[0].send(asking + content)
        got = wires[0].receive()
        replayed = {"replayed": True} if again else {}
        assert (got.status, got.body, got.together) == (200, {"seq": made + 1, "applied": 1, **replayed}, together)
    wires[0].send(write(board, "o", None, "DELETE"))
    assert wires[0].receive().status == 404
    problem(talk.ask("GET", f"{board}/objects/o"), 404)
    assert talk.good("GET", board)["seq"] == made + 1


def test_what_does_not_apply_is_refused_beside_what_does(board: str, wires: list[Wire]) -> None:
    bodies = [{"values": {"x": n, "y": n}} for n in range(len(wires))]
    for n, wire in enumerate(wires):
        wire.send(write(board, f"o{n}", bodies[n], "PATCH" if n % 3 == 1 else "PUT"))
    answers = [wire.receive() for wire in wires]
    assert [one.status for one in answers] == [404 if n % 3 == 1 else 201 for n in range(len(wires))]
    assert sorted(one.body["seq"] for one in answers if one.status == 201)[-1] - 8 + 1 == min(
        one.body["seq"] for one in answers if one.status == 201
    )
    assert answers[1].body["type"] == "/problems/not-found"


def test_retries_get_the_first_answer_and_change_nothing(talk: Talk, board: str, wires: list[Wire]) -> None:
    draw = Random(5)
    values = [{"values": {"x": draw.randrange(40), "y": draw.randrange(10)}} for _ in wires]
    queries = [draw.choice(["", "?messages=count", "?messages=none"]) for _ in wires]
    asked = [
        write(board, f"o{n}", values[n], query=queries[n], Idempotency_Key=fresh("key")) for n in range(len(wires))
    ]

    def all_at_once() -> list[Got]:
        for wire, data in zip(wires, asked, strict=True):
            wire.send(data)
        return [wire.receive() for wire in wires]

    first = all_at_once()
    assert {got.status for got in first} == {201} and sum(got.together for got in first) > 6
    state = talk.good("GET", board)
    for again, got in zip(all_at_once(), first, strict=True):
        kept = {name: value for name, value in got.body.items() if name not in ("tiles", "truncated")}
        assert (again.status, again.body) == (201, {**kept, "replayed": True})
    assert talk.good("GET", board) == state
    for n, wire in enumerate(wires):
        wire.send(write(board, f"another{n % 3}", values[n % 3], Idempotency_Key=f"same-{n % 3}-{board[-5:]}"))
    found = [wire.receive() for wire in wires]
    assert sum(got.status == 201 and "replayed" not in got.body for got in found) == 3
    assert all(got.status in (201, 409) for got in found)
    assert talk.good("GET", board)["seq"] == state["seq"] + 3


@pytest.mark.parametrize(
    "headers",
    [
        {"Connection": "close"},
        {"Content_Type": "application/json; charset=utf-8"},
        {"X_Request_Id": "mine"},
        {"Accept": "application/json", "User_Agent": "t"},
    ],
)
def test_headers_choose_the_way_and_not_the_answer(
    talk: Talk, board: str, wires: list[Wire], headers: dict[str, str]
) -> None:
    wires[0].send(write(board, "o", {"values": {"x": 1, "y": 2}}, **headers))
    got = wires[0].receive()
    assert got.status == 201 and got.body["applied"] == 1 and got.together == ("Accept" in headers)
    assert talk.good("GET", f"{board}/objects/o")["values"] == {"x": 1, "y": 2}
    if "Connection" in headers:
        assert wires[0].ended()


@pytest.mark.parametrize("key", ["", "ä", "a" * 256])
def test_a_key_that_is_no_key_is_refused(talk: Talk, board: str, wires: list[Wire], key: str) -> None:
    wires[0].send(write(board, "o", {"values": {"x": 1, "y": 2}}, Idempotency_Key=key))
    assert wires[0].receive().status == 422
    problem(talk.ask("GET", f"{board}/objects/o"), 404)


@pytest.mark.parametrize("target", ["a#b", "a#b?messages=none", "a?messages=none#b"])
def test_a_fragment_is_left_out_as_on_every_other_way(talk: Talk, board: str, wires: list[Wire], target: str) -> None:
    """No URL that a client asks for has one; what stands before it is asked for."""
    for headers in ({}, {"X_Request_Id": "mine"}):
        wires[0].send(write(board, target, {"values": {"x": 1, "y": 2}}, **headers))
        got = wires[0].receive()
        assert (got.status, got.together) == (200 if headers else 201, False)
    assert [item["id"] for item in talk.pages(f"{board}/objects", 1000)] == ["a"]


def test_answers_come_in_the_order_of_the_requests_of_a_connection(board: str, wires: list[Wire], talk: Talk) -> None:
    wire, body = wires[0], {"values": {"x": 1, "y": 2}}
    read = f"GET {board} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
    wire.send(write(board, "a", body) + read + write(board, "b", body) + write(board, "b", b"{") + read)
    first, between, second, bad, last = (wire.receive() for _ in range(5))
    assert (first.status, second.status, bad.status) == (201, 201, 400)
    assert first.body["seq"] <= between.body["seq"] < second.body["seq"] == last.body["seq"]
    wire.send(write(board, "c", body)[:-5])
    wires[1].send(write(board, "d", body))
    assert wires[1].receive().status == 201, "a body that is late holds up nobody"
    wire.send(write(board, "c", body)[-5:])
    assert wire.receive().status == 201
    wire.send(write(board, "e", body) + b"rubbish\r\n\r\n")
    assert wire.receive().status == 201 and wire.ended(), "what is behind it is no request"


def test_a_client_that_leaves_after_its_request_harms_nobody(
    talk: Talk, board: str, shared: LiveService, wires: list[Wire]
) -> None:
    for n in range(20):
        leaving = Wire(shared)
        leaving.send(write(board, f"left{n}", {"values": {"x": n, "y": n}}))
        leaving.close()
        wires[0].send(write(board, "stays", {"values": {"x": n, "y": n}}))
        assert wires[0].receive().status == (200 if n else 201)
    wait_until(lambda: len(talk.pages(f"{board}/objects", 1000)) == 21)


def test_keys_hosts_and_rights_are_as_on_every_other_way(start_service: StartService) -> None:
    service = start_service()
    wire, body, board = Wire(service), {"values": {"x": 1, "y": 2}}, "/v1/boards/b"
    talk = Talk(service.url)
    talk.good("PUT", board, CONFIG)
    wire.send(write(board, "o", body, Host="evil.example"))
    assert wire.receive().body["type"] == "/problems/foreign-host"
    wire.send(write(board, "o", body, Origin="http://evil.example"))
    assert wire.receive().body["type"] == "/problems/foreign-origin"
    admin = talk.good("POST", "/v1/admin/keys", {"name": "a", "scopes": ["admin"]})["key"]
    talk = Talk(service.url, admin)
    made = [
        talk.good("POST", "/v1/admin/keys", {"name": scope, "scopes": [scope]})
        for scope in ("boards/b:publish", "boards/c:publish", "boards:read")
    ]
    mine, other, reader = (one["key"] for one in made)
    for key, status in ((mine, 201), (other, 403), (reader, 403), ("wrong", 401), (admin, 200), (mine, 200)):
        wire.send(write(board, "o", body, Authorization=f"Bearer {key}"))
        got = wire.receive()
        assert got.status == status and got.together == (status < 400), (key, got)
    wire.send(write(board, "o", body))
    assert wire.receive().status == 401
    # The head comes while the key is there, the body when it is not.
    late = write(board, "late", body, Authorization=f"Bearer {mine}")
    wire.send(late[:-1])
    talk.good("DELETE", f"/v1/admin/keys/{made[0]['id']}")
    wire.send(late[-1:])
    assert wire.receive().status == 401
    problem(talk.ask("GET", f"{board}/objects/late"), 404)
    wire.close()
    assert service.stop() == 0


def test_a_log_that_fails_refuses_the_whole_group_and_changes_nothing(start_service: StartService) -> None:
    service = start_service()
    talk, board = Talk(service.url), "/v1/boards/b"
    talk.good("PUT", board, CONFIG)
    wires = [Wire(service) for _ in range(8)]
    bodies = [write(board, f"o{n}", {"values": {"x": n, "y": n}}) for n in range(8)]

    def all_at_once() -> list[Got]:
        for wire, body in zip(wires, bodies, strict=True):
            wire.send(body)
        return [wire.receive() for wire in wires]

    starve(service.process.pid, True)
    for got in all_at_once():
        assert (got.status, got.body["type"]) == (503, "/problems/log-unavailable") and "retry-after" in got.headers
    assert talk.good("GET", board)["seq"] == 0
    starve(service.process.pid, False)
    wait_until(lambda: talk.ask("PUT", f"{board}/objects/first", {"values": {"x": 1, "y": 1}}).status_code == 201)
    assert [got.status for got in all_at_once()] == [201] * 8
    assert talk.good("GET", board)["seq"] == 9
    assert service.stop() == 0


class Hammer(threading.Thread):
    """Writes one object again and again until the connection breaks; every second one does so under keys.

    `sent` is the last request, `value` what it gives the object, `answer` the last answer, maybe of the one before it.
    """

    def __init__(self, service: LiveService, board: str, life: int, number: int) -> None:
        super().__init__(daemon=True)
        self.id, self.value, self.answered, self.sent = f"o{number}", 0, 0, b""
        self.keyed = bool(number % 2)
        self.answer: Json = {}
        self._wire, self._board, self._life = Wire(service), board, life

    def run(self) -> None:
        with suppress(OSError, AssertionError):
            while True:
                self.value += 1
                headers = {"Idempotency_Key": f"{self._life}-{self.id}-{self.value}"} if self.keyed else {}
                values = {"x": int(self.id[1:]), "y": self.value}
                self.sent = write(self._board, self.id, {"values": values}, query="?messages=count", **headers)
                self._wire.send(self.sent)
                got = self._wire.receive()
                assert got.status in (200, 201) and got.together, got
                self.answer, self.answered = got.body, self.value


def test_what_was_answered_survives_a_kill(start_service: StartService) -> None:
    """Of each object the last value that was answered is there, or the one behind it; what has a key is there once."""
    service = start_service()
    board = "/v1/boards/b"
    Talk(service.url).good("PUT", board, CONFIG)
    asked = [{"id": f"s{n}", "range": {"x": [n, n + 3]}, "k": 1} for n in range(8)]
    Talk(service.url).good("POST", f"{board}/subscriptions", {"subscriptions": asked})
    for life in range(3):
        hammers = [Hammer(service, board, life, number) for number in range(8)]
        for one in hammers:
            one.start()
        wait_until(lambda hammers=hammers: all(one.answered >= 40 for one in hammers))
        service.stop(signal.SIGKILL)
        for one in hammers:
            one.join(PATIENCE)
        service = start_service(service.data)
        talk, wire = Talk(service.url), Wire(service)
        seq = talk.good("GET", board)["seq"]
        for one in hammers:
            there = talk.good("GET", f"{board}/objects/{one.id}")["values"]["y"]
            assert one.answered <= there <= one.value, (one.id, one.answered, there)
            if not one.keyed:
                continue
            wire.send(one.sent)
            again = wire.receive().body
            if there == one.value:
                assert again["replayed"] and again["seq"] <= seq
                # Replay completes what only applying gives. The answer to the write before says nothing of this one:
                # whom it reaches depends on how far the others were.
                assert isinstance(again["tile_count"], int)
                if one.answered == one.value:
                    assert again["tile_count"] == one.answer["tile_count"], (again, one.answer)
            else:
                seq += 1
                assert again["seq"] == seq and "replayed" not in again
        assert talk.good("GET", board)["seq"] == seq
        talk.close()
    assert service.stop() == 0


def test_the_end_of_the_service_answers_what_it_took(start_service: StartService) -> None:
    service = start_service()
    board = "/v1/boards/b"
    Talk(service.url).good("PUT", board, CONFIG)
    answered: list[int] = []
    failed: list[str] = []

    def hammer(number: int) -> None:
        wire, value = Wire(service), 0
        try:
            while True:
                value += 1
                wire.send(write(board, f"o{number}", {"values": {"x": number, "y": value}}))
                answered.append(wire.receive().status)
        except (OSError, AssertionError) as error:
            failed.append(repr(error))

    threads = [threading.Thread(target=hammer, args=(n,), daemon=True) for n in range(8)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(answered) > 200)
    assert service.stop() == 0
    for thread in threads:
        thread.join(PATIENCE)
    assert set(answered) <= {200, 201, 503}
    # Between two requests a connection may end without a word.
    assert all("b''" in one or "Reset" in one or "Broken" in one for one in failed), failed
    service = start_service(service.data)
    assert Talk(service.url).good("GET", board)["seq"] >= sum(status < 300 for status in answered)
    assert service.stop() == 0
