"""What must be refused is refused: the right status, a problem that names the field, and nothing changed."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from random import Random
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from tests.support.live import StartService
from tests.support.patience import PATIENCE
from tests.system.http.talk import ARROW, NDJSON, Json, Talk, arrow, event_table, fresh, ndjson, problem

CONFIG: Json = {"range_attributes": ["distance"], "rank": {"attribute": "delay", "order": "desc"}, "ks": [2, 5]}
GOOD: Json = {"op": "upsert", "id": "fine", "values": {"distance": 1, "delay": 1}}
MOST_ELEMENTS, MAX_BODY, MAX_BULK = 500, 65_536, 262_144


@pytest.fixture(scope="module")
def narrow(start_service: StartService) -> Iterator[Talk]:
    """A service with low limits."""
    env = {
        "RANKCAST_MAX_BODY": str(MAX_BODY),
        "RANKCAST_MAX_BULK": str(MAX_BULK),
        "RANKCAST_MAX_ELEMENTS": str(MOST_ELEMENTS),
    }
    talk = Talk(start_service(env=env).url)
    yield talk
    talk.close()


class Standing:
    """A board with something on it, that nothing here may change."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.name = fresh("bad")
        self.path = f"/v1/boards/{self.name}"
        talk.good("PUT", self.path, CONFIG)
        events = [{"op": "upsert", "id": f"o{n}", "values": {"distance": n, "delay": n % 3}} for n in range(6)]
        events[2]["payload"] = {"note": 1}
        talk.good("POST", f"{self.path}/events", {"events": events})
        subscriptions = [{"id": "s0", "range": {"distance": [1, 4]}, "k": 2}, {"id": "s1", "k": 5, "ttl": 9000}]
        talk.good("POST", f"{self.path}/subscriptions", {"subscriptions": subscriptions})
        self.state = talk.state(self.name)
        self.boards = talk.pages("/v1/boards", 1000)

    def unchanged(self) -> None:
        before, self.state = self.state, self.talk.state(self.name)
        assert self.state == before
        assert self.talk.pages("/v1/boards", 1000) == self.boards

    def refuse(self, status: int, method: str, path: str, body: Any = None, *fields: str, **more: Any) -> Json:
        """The request is refused so, and nothing has changed."""
        found = problem(self.talk.ask(method, self.path + path, body, **more), status, *fields)
        self.unchanged()
        return found

    def refuse_text(self, status: int, method: str, path: str, body: str, *fields: str, **more: Any) -> Json:
        return self.refuse(status, method, path, body.encode(), *fields, **more)


@pytest.fixture(scope="module")
def standing(narrow: Talk) -> Standing:
    return Standing(narrow)


# --- values -----------------------------------------------------------------------------------------------------------

WRONG_NUMBERS = ["true", "false", '"5"', '""', "[1]", "{}", "1e301", "-1e301", "1e999", "-1e999"]
NOT_JSON_NUMBERS = ["NaN", "Infinity", "-Infinity", "nan", "+1", "01", "1.", ".5", "0x1", "1_000", "1;5"]


@pytest.mark.parametrize("text", WRONG_NUMBERS)
def test_wrong_numbers_are_refused_everywhere(standing: Standing, text: str) -> None:
    for name in ("distance", "delay"):
        other = "delay" if name == "distance" else "distance"
        values = f'{{"{name}": {text}, "{other}": 1}}'
        event = f'{{"op": "upsert", "id": "new", "values": {values}}}'
        standing.refuse_text(422, "POST", "/events", f'{{"events": [{event}]}}', f"events[0].values.{name}")
        standing.refuse_text(
            422, "POST", "/events", event, f"events[0].values.{name}", headers={"Content-Type": NDJSON}
        )
        standing.refuse_text(422, "PUT", "/objects/o1", f'{{"values": {values}}}', f"values.{name}")
        standing.refuse_text(422, "PATCH", "/objects/o1", f'{{"values": {values}}}', f"values.{name}")
    for at, pair in enumerate((f"[{text}, 5]", f"[0, {text}]")):
        body = f'{{"range": {{"distance": {pair}}}, "k": 2}}'
        many = f'{{"subscriptions": [{body}]}}'
        standing.refuse_text(422, "POST", "/subscriptions", many, f"subscriptions[0].range.distance[{at}]")
        standing.refuse_text(422, "PUT", "/subscriptions/s9", body, f"range.distance[{at}]")
        standing.refuse_text(422, "PATCH", "/subscriptions/s0", body, f"range.distance[{at}]")


@pytest.mark.parametrize("text", NOT_JSON_NUMBERS)
def test_what_is_no_json_number_is_no_json(standing: Standing, text: str) -> None:
    event = f'{{"op": "upsert", "id": "new", "values": {{"distance": 1, "delay": {text}}}}}'
    standing.refuse_text(400, "POST", "/events", f'{{"events": [{event}]}}')
    standing.refuse_text(400, "POST", "/events", event, headers={"Content-Type": NDJSON})
    standing.refuse_text(400, "PUT", "/subscriptions/s9", f'{{"range": {{"distance": [{text}, 1]}}, "k": 2}}')
    standing.refuse_text(400, "PATCH", "/objects/o1", f'{{"payload": {{"a": [{text}]}}}}')


def test_null_is_no_value(standing: Standing) -> None:
    event = {"op": "update", "id": "o1", "values": {"delay": None}}
    standing.refuse(422, "POST", "/events", {"events": [event]}, "events[0].values.delay")


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        ({"op": "upsert", "id": "new", "values": {"distance": 1}}, ["events[0].values.delay"]),
        ({"op": "upsert", "id": "new", "values": {}}, ["events[0].values.distance", "events[0].values.delay"]),
        ({"op": "update", "id": "nobody", "values": {"delay": 1}}, ["events[0].id"]),
        ({"op": "delete", "id": "nobody"}, ["events[0].id"]),
        ({"op": "upsert", "id": "new", "values": {"distance": 1, "delay": 1, "speed": 1}}, ["events[0].values.speed"]),
        ({"op": "upsert", "id": "new", "values": {"distance": 1, "delay": 1}, "more": 1}, ["events[0].more"]),
        ({"op": "upsert", "values": {"distance": 1, "delay": 1}}, ["events[0].id"]),
        ({"id": "new", "values": {"distance": 1, "delay": 1}}, ["events[0].op"]),
        ({"op": "insert", "id": "new", "values": {"distance": 1, "delay": 1}}, ["events[0].op"]),
        ({"op": 1, "id": "new", "values": {"distance": 1, "delay": 1}}, ["events[0].op"]),
        ({"op": "upsert", "id": 1, "values": {"distance": 1, "delay": 1}}, ["events[0].id"]),
        ({"op": "upsert", "id": None, "values": {"distance": 1, "delay": 1}}, ["events[0].id"]),
        ({"op": "upsert", "id": "", "values": {"distance": 1, "delay": 1}}, ["events[0].id"]),
        ({"op": "upsert", "id": ".", "values": {"distance": 1, "delay": 1}}, ["events[0].id"]),
        ({"op": "upsert", "id": "..", "values": {"distance": 1, "delay": 1}}, ["events[0].id"]),
        ({"op": "upsert", "id": "a b", "values": {"distance": 1, "delay": 1}}, ["events[0].id"]),
        ({"op": "upsert", "id": "a/b", "values": {"distance": 1, "delay": 1}}, ["events[0].id"]),
        ({"op": "upsert", "id": "ä", "values": {"distance": 1, "delay": 1}}, ["events[0].id"]),
        ({"op": "upsert", "id": "a\n", "values": {"distance": 1, "delay": 1}}, ["events[0].id"]),
        ({"op": "upsert", "id": "a\x00", "values": {"distance": 1, "delay": 1}}, ["events[0].id"]),
        ({"op": "upsert", "id": "a" * 129, "values": {"distance": 1, "delay": 1}}, ["events[0].id"]),
        ({"op": "upsert", "id": "new", "values": [1, 2]}, ["events[0].values"]),
        ({"op": "upsert", "id": "new", "values": "1"}, ["events[0].values"]),
        ({"op": "upsert", "id": "new"}, None),
        ({"op": "delete", "id": "o1", "values": {"delay": 1}}, None),
        (
            {"op": "upsert", "id": "new", "values": {"distance": 1, "delay": 1}, "payload": "x" * 4095},
            ["events[0].payload"],
        ),
        ({"op": "update", "id": "o1", "payload": {"x" * 5000: 1}}, ["events[0].payload"]),
        ([], ["events[0]"]),
        ("upsert", ["events[0]"]),
        (None, ["events[0]"]),
        (7, ["events[0]"]),
    ],
)
def test_bad_events_name_the_field(standing: Standing, event: Any, fields: list[str] | None) -> None:
    headers = {"Content-Type": NDJSON}
    if fields is None:
        found = standing.refuse(422, "POST", "/events", {"events": [event]})
        assert all(error["field"].startswith("events[0]") for error in found["errors"]) and found["errors"]
        return
    standing.refuse(422, "POST", "/events", {"events": [event]}, *fields)
    standing.refuse(422, "POST", "/events", ndjson([event]), *fields, headers=headers)
    later = [field.replace("[0]", "[2]") for field in fields]
    standing.refuse(422, "POST", "/events", {"events": [GOOD, GOOD, event]}, *later)
    standing.refuse(422, "POST", "/events", ndjson([GOOD, GOOD, event]), *later, headers=headers)


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["events"]),
        ({"events": {}}, ["events"]),
        ({"events": None}, ["events"]),
        ({"events": [], "mode": "all"}, ["mode"]),
        ({"events": [], "messages": "some"}, ["messages"]),
        ({"events": [], "messages": True}, ["messages"]),
        ({"events": [], "on_error": "ignore"}, ["on_error"]),
        ({"events": [], "speed": 1}, ["speed"]),
        ({"events": [], "Events": []}, ["Events"]),
        ([], None),
        ("events", None),
        (None, None),
    ],
)
def test_bad_requests_for_events(standing: Standing, body: Any, fields: list[str] | None) -> None:
    raw = json.dumps(body).encode()
    standing.refuse(422, "POST", "/events", raw, *(fields or []))


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({"k": 3}, ["k"]),
        ({"k": 0}, ["k"]),
        ({"k": -2}, ["k"]),
        ({"k": 2.5}, ["k"]),
        ({"k": "2"}, ["k"]),
        ({"k": True}, ["k"]),
        ({"k": None}, ["k"]),
        ({"k": 2**70}, ["k"]),
        ({"k": [2]}, ["k"]),
        ({"range": {"distance": [0, 1]}}, ["k"]),
        ({"k": 2, "range": {"distance": [5, 4]}}, "range"),
        ({"k": 2, "range": {"distance": [1e300, -1e300]}}, "range"),
        ({"k": 2, "range": {"distance": [1]}}, "range"),
        ({"k": 2, "range": {"distance": [1, 2, 3]}}, "range"),
        ({"k": 2, "range": {"distance": []}}, "range"),
        ({"k": 2, "range": {"distance": 5}}, "range"),
        ({"k": 2, "range": {"distance": "1:2"}}, "range"),
        ({"k": 2, "range": {"distance": {"min": 1}}}, "range"),
        ({"k": 2, "range": {"delay": [1, 2]}}, ["range.delay"]),
        ({"k": 2, "range": {"speed": [1, 2]}}, ["range.speed"]),
        ({"k": 2, "range": [1, 2]}, ["range"]),
        ({"k": 2, "range": "all"}, ["range"]),
        ({"k": 2, "rang": {}}, ["rang"]),
        ({"k": 2, "ttl": 0}, ["ttl"]),
        ({"k": 2, "ttl": -1}, ["ttl"]),
        ({"k": 2, "ttl": "1"}, ["ttl"]),
        ({"k": 2, "ttl": True}, ["ttl"]),
    ],
)
def test_bad_subscriptions_name_the_field(standing: Standing, body: Json, fields: list[str] | str) -> None:
    def named(found: Json, prefix: str) -> None:
        errors = [error["field"] for error in found["errors"]]
        if isinstance(fields, str):
            assert errors and all(error.startswith(prefix + fields) for error in errors), found
        else:
            assert sorted(errors) == sorted(prefix + field for field in fields), found

    good = {"id": "s9", "k": 2}
    element = {"id": "s8", **body}
    named(standing.refuse(422, "POST", "/subscriptions", {"subscriptions": [element]}), "subscriptions[0].")
    named(standing.refuse(422, "POST", "/subscriptions", {"subscriptions": [good, element]}), "subscriptions[1].")
    headers = {"Content-Type": NDJSON}
    named(standing.refuse(422, "POST", "/subscriptions", ndjson([good, element]), headers=headers), "subscriptions[1].")
    named(standing.refuse(422, "PUT", "/subscriptions/s8", body), "")
    if fields != ["k"] or "k" in body:
        named(standing.refuse(422, "PUT", "/subscriptions/s0", body), "")
        if body.get("ttl") != 0:
            named(standing.refuse(422, "PATCH", "/subscriptions/s0", body), "")


def test_ids_that_are_taken(standing: Standing) -> None:
    taken, new = {"id": "s0", "k": 2}, {"id": "s9", "k": 2}
    path = "/subscriptions"
    standing.refuse(409, "POST", path, {"subscriptions": [new, taken]}, "subscriptions[1].id")
    standing.refuse(409, "POST", path, {"subscriptions": [new, new]}, "subscriptions[1].id")
    standing.refuse(409, "POST", path, ndjson([new, taken]), "subscriptions[1].id", headers={"Content-Type": NDJSON})
    found = standing.refuse(422, "POST", path, {"subscriptions": [taken, {**new, "k": 3}]})
    assert "subscriptions[1].k" in [error["field"] for error in found["errors"]]


def test_unknown_ids_in_the_path(standing: Standing) -> None:
    standing.refuse(404, "GET", "/objects/nobody")
    standing.refuse(404, "PATCH", "/objects/nobody", {"values": {"delay": 1}})
    standing.refuse(404, "DELETE", "/objects/nobody")
    standing.refuse(404, "GET", "/subscriptions/nobody")
    standing.refuse(404, "PATCH", "/subscriptions/nobody", {"k": 2})
    standing.refuse(404, "DELETE", "/subscriptions/nobody")
    standing.refuse(404, "GET", "/subscriptions/nobody/stream")
    elsewhere = f"../{fresh('none')}"
    body: Any
    for method, path, body in [
        ("GET", "", None),
        ("PATCH", "", {"ks": [1]}),
        ("DELETE", "", None),
        ("GET", "/top", None),
        ("GET", "/objects", None),
        ("GET", "/subscriptions", None),
        ("POST", "/events", {"events": [GOOD]}),
        ("POST", "/events", {"events": []}),
        ("POST", "/subscriptions", {"subscriptions": [{"k": 2}]}),
        ("POST", "/subscriptions/delete", {"ids": []}),
        ("PUT", "/objects/o1", {"values": {"distance": 1, "delay": 1}}),
        ("PUT", "/subscriptions/s0", {"k": 2}),
        ("GET", "/subscriptions/s0/stream", None),
    ]:
        problem(standing.talk.ask(method, f"/v1/boards/{elsewhere[3:]}{path}", body), 404)
    standing.unchanged()


@pytest.mark.parametrize("name", ["a b", "a%2Fb", "%2e", "%2e%2e", "ä", "a%00", "a" * 129, "a%0A", "$", "a,b"])
def test_names_out_of_pattern(standing: Standing, name: str) -> None:
    for method, path, body in [
        ("PUT", f"/v1/boards/{name}", CONFIG),
        ("PUT", f"{standing.path}/objects/{name}", {"values": {"distance": 1, "delay": 1}}),
        ("PUT", f"{standing.path}/subscriptions/{name}", {"k": 2}),
    ]:
        answer = raw_request(standing.talk.url, method, path.replace(" ", "%20"), body)
        assert answer in (400, 404, 405, 422), (method, path, answer)
    standing.unchanged()


def raw_request(url: str, method: str, path: str, body: Json) -> int:
    """The status of a request whose path goes out as it stands."""
    host, port = urlsplit(url).netloc.split(":")
    content = json.dumps(body).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\nConnection: close\r\n"
    with socket.create_connection((host, int(port)), timeout=PATIENCE) as connection:
        connection.sendall(head.encode() + f"Content-Length: {len(content)}\r\n\r\n".encode() + content)
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
    return int(answer.split(b" ", 2)[1])


# --- boards -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        ({"range_attributes": []}, "range_attributes"),
        ({"range_attributes": None}, "range_attributes"),
        ({"range_attributes": "x"}, "range_attributes"),
        ({"range_attributes": ["x", "x"]}, "range_attributes"),
        ({"range_attributes": ["1x"]}, "range_attributes"),
        ({"range_attributes": ["a-b"]}, "range_attributes"),
        ({"range_attributes": ["a" * 65]}, "range_attributes"),
        ({"range_attributes": ["id"]}, "range_attributes"),
        ({"range_attributes": ["op"]}, "range_attributes"),
        ({"range_attributes": ["k"]}, "range_attributes"),
        ({"range_attributes": ["payload"]}, "range_attributes"),
        ({"range_attributes": ["created"]}, "range_attributes"),
        ({"range_attributes": ["distance"], "rank": {"attribute": "distance"}}, ""),
        ({"rank": {"attribute": "distance"}, "range_attributes": ["x"], "ks": None}, "ks"),
        ({"rank": {}}, "rank.attribute"),
        ({"rank": {"attribute": "ä"}}, "rank.attribute"),
        ({"rank": {"attribute": "id"}}, "rank.attribute"),
        ({"rank": {"attribute": "y", "order": "up"}}, "rank.order"),
        ({"rank": {"attribute": "y", "more": 1}}, "rank.more"),
        ({"rank": "y"}, "rank"),
        ({"ks": []}, "ks"),
        ({"ks": [0]}, "ks"),
        ({"ks": [-1]}, "ks"),
        ({"ks": [1001]}, "ks"),
        ({"ks": [1.5]}, "ks"),
        ({"ks": [True]}, "ks"),
        ({"ks": ["1"]}, "ks"),
        ({"ks": [3, 3]}, "ks"),
        ({"ks": list(range(1, 18))}, "ks"),
        ({"ks": 5}, "ks"),
        ({"algorithm": "fast"}, "algorithm"),
        ({"algorithm": None}, "algorithm"),
        ({"epsilon": 0.3}, "epsilon"),
        ({"epsilon": -1}, "epsilon"),
        ({"epsilon": "1"}, "epsilon"),
        ({"colour": 1}, "colour"),
    ],
)
def test_bad_boards(standing: Standing, change: Json, fields: str) -> None:
    body = {**CONFIG, **change}
    path = f"/v1/boards/{fresh('bad')}"
    if change.get("ks") == [3, 3]:
        assert standing.talk.ask("PUT", path, body).status_code in (201, 422)
        standing.talk.ask("DELETE", path)
        return
    found = problem(standing.talk.ask("PUT", path, body), 422)
    assert found["errors"] and all(error["field"].startswith(fields) for error in found["errors"]), found
    problem(standing.talk.ask("GET", path), 404)
    if set(change) <= {"ks", "algorithm", "epsilon", "colour"}:
        found = standing.refuse(422, "PATCH", "", change)
        assert all(error["field"].startswith(fields) for error in found["errors"]), found
    standing.unchanged()


def test_a_board_is_fixed_but_for_what_patch_may_change(standing: Standing) -> None:
    standing.refuse(409, "PUT", "", {**CONFIG, "rank": {"attribute": "delay", "order": "asc"}})
    standing.refuse(409, "PUT", "", {**CONFIG, "rank": {"attribute": "speed", "order": "desc"}})
    standing.refuse(409, "PUT", "", {**CONFIG, "range_attributes": ["speed"]})
    standing.refuse(422, "PATCH", "", {"range_attributes": ["distance"]}, "range_attributes")
    standing.refuse(422, "PATCH", "", {"rank": {"attribute": "delay"}}, "rank")


# --- queries ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "params", "field"),
    [
        ("/top", {"k": 0}, "k"),
        ("/top", {"k": 1001}, "k"),
        ("/top", {"k": "x"}, "k"),
        ("/top", {"k": "1.5"}, "k"),
        ("/top", {"k": ""}, "k"),
        ("/top", {"l": "NaN"}, "l"),
        ("/top", {"l": "inf"}, "l"),
        ("/top", {"r": "-Infinity"}, "r"),
        ("/top", {"r": "1e301"}, "r"),
        ("/top", {"l": "1e999"}, "l"),
        ("/top", {"l": "abc"}, "l"),
        ("/top", {"l": "true"}, "l"),
        ("/top", {"l": "5", "r": "4"}, ""),
        ("/top", {"x": "1"}, "x"),
        ("/objects", {"limit": 0}, "limit"),
        ("/objects", {"limit": 1001}, "limit"),
        ("/objects", {"limit": "many"}, "limit"),
        ("/objects", {"limit": "1_0"}, "limit"),
        ("/objects", {"limit": " 5"}, "limit"),
        ("/subscriptions/none/stream", {"squash": "1_0"}, "squash"),
        ("/subscriptions/none/stream", {"squash": " 1"}, "squash"),
        ("/subscriptions/none/stream", {"squash": "inf"}, "squash"),
        ("/objects", {"cursor": "?"}, "cursor"),
        ("/objects", {"cursor": ""}, "cursor"),
        ("/objects", {"cursor": "A" * 4000}, "cursor"),
        ("/subscriptions", {"limit": -1}, "limit"),
        ("/subscriptions", {"cursor": "ÄÖ"}, "cursor"),
        ("/subscriptions", {"page": 2}, "page"),
    ],
)
def test_bad_queries(standing: Standing, path: str, params: Json, field: str) -> None:
    found = standing.refuse(422, "GET", path, params=params)
    assert found["errors"] and all(error["field"].startswith(field) for error in found["errors"]), found


def test_bad_parameters_of_bulk(standing: Standing) -> None:
    for params in ({"messages": "some"}, {"mode": "x"}, {"on_error": "y"}, {"more": "1"}):
        body, headers = ndjson([GOOD]), {"Content-Type": NDJSON}
        standing.refuse(422, "POST", "/events", body, *params, headers=headers, params=params)
        body, headers = arrow(event_table([GOOD], ["distance", "delay"])), {"Content-Type": ARROW}
        standing.refuse(422, "POST", "/events", body, *params, headers=headers, params=params)
    standing.refuse(422, "POST", "/events", {"events": [GOOD]}, params={"more": "1"})


# --- bodies -----------------------------------------------------------------------------------------------------------

MALFORMED = [
    b"",
    b" ",
    b"{",
    b'{"events": [',
    b'{"events": []} x',
    b'{"events": [],}',
    b"{'events': []}",
    b'{"events": [] "mode": "each"}',
    b"\xff\xfe",
    b'{"events": [{"op": "delete", "id": "\xff"}]}',
    b"\xef\xbb\xbf\xef",
    b'{"events": ["\x01"]}',
    b'{"events": [{"op": "upsert", "id": "a", "values": {"distance": --1}}]}',
    b"events=1",
    b"[" * 20_000,
]


@pytest.mark.parametrize("raw", MALFORMED, ids=lambda raw: repr(raw[:24]))
def test_malformed_json(standing: Standing, raw: bytes) -> None:
    for method, path in [
        ("POST", "/events"),
        ("POST", "/subscriptions"),
        ("POST", "/subscriptions/delete"),
        ("PUT", "/objects/o1"),
        ("PATCH", "/objects/o1"),
        ("PUT", "/subscriptions/s0"),
        ("PATCH", "/subscriptions/s0"),
        ("PUT", ""),
        ("PATCH", ""),
    ]:
        problem(standing.talk.ask(method, standing.path + path, raw), 400)
    standing.unchanged()


@pytest.mark.parametrize("skip", [False, True])
@pytest.mark.parametrize("line", [b"{", b"x", b'{"op": "delete", "id": "o1"} {}', b"\xff", b"[" * 20_000, b"NaN"])
def test_a_line_that_is_not_json_refuses_all(standing: Standing, line: bytes, skip: bool) -> None:
    params = {"on_error": "skip"} if skip else {}
    good = json.dumps({"op": "delete", "id": "o1"}).encode()
    for raw in (line, good + b"\n" + line, line + b"\n" + good):
        standing.refuse(400, "POST", "/events", raw, headers={"Content-Type": NDJSON}, params=params)
        good_one = json.dumps({"id": "s9", "k": 2}).encode()
        raw = raw.replace(good, good_one)
        standing.refuse(400, "POST", "/subscriptions", raw, headers={"Content-Type": NDJSON}, params=params)


def test_nesting_bombs(standing: Standing) -> None:
    deep = "[" * 15_000 + "]" * 15_000
    nested = '{"a":' * 5_000 + "1" + "}" * 5_000
    for bomb in (deep, nested):
        answer = standing.talk.ask("POST", f"{standing.path}/events", f'{{"events": {bomb}}}'.encode())
        assert answer.status_code in (400, 422)
        event = f'{{"op": "update", "id": "o1", "payload": {bomb}}}'
        answer = standing.talk.ask("POST", f"{standing.path}/events", f'{{"events": [{event}]}}'.encode())
        assert answer.status_code in (400, 413, 422)
        answer = standing.talk.ask("POST", f"{standing.path}/events", event.encode(), headers={"Content-Type": NDJSON})
        assert answer.status_code in (400, 413, 422)
        answer = standing.talk.ask("PUT", f"{standing.path}/objects/o1", f'{{"payload": {bomb}}}'.encode())
        assert answer.status_code in (400, 413, 422)
    standing.unchanged()


def test_a_payload_nested_as_deep_as_its_size_allows_is_kept_or_refused(standing: Standing) -> None:
    name = fresh("deep")
    standing.talk.good("PUT", f"/v1/boards/{name}", CONFIG)
    for depth in (100, 150, 190, 250, 500, 1000, 2000):
        payload = "[" * depth + "]" * depth
        body = f'{{"values": {{"distance": 1, "delay": 1}}, "payload": {payload}}}'.encode()
        answer = standing.talk.ask("PUT", f"/v1/boards/{name}/objects/o", body)
        assert answer.status_code in (200, 201, 400, 422)
        if answer.status_code < 300:
            raw = standing.talk.http.get(f"/v1/boards/{name}/objects/o").text
            assert payload in raw.replace(" ", "")
    standing.talk.good("DELETE", f"/v1/boards/{name}")


def test_malformed_arrow(standing: Standing) -> None:
    good = arrow(event_table([GOOD, GOOD], ["distance", "delay"]), 1)
    headers = {"Content-Type": ARROW}
    file = pa.BufferOutputStream()
    with pa.ipc.new_file(file, event_table([GOOD], ["distance", "delay"]).schema) as writer:
        writer.write_table(event_table([GOOD], ["distance", "delay"]))
    broken = [
        b"",
        b"ARROW1",
        b"\xff" * 100,
        good[:40],
        good[: len(good) // 2],
        bytes(file.getvalue()),
        b'{"events": []}',
    ]
    for raw in broken:
        standing.refuse(400, "POST", "/events", raw, headers=headers)
        standing.refuse(400, "POST", "/subscriptions", raw, headers=headers)


@pytest.mark.parametrize("seed", range(3))
def test_damaged_arrow_is_refused_or_wholly_read(standing: Standing, seed: int) -> None:
    """Flipped bytes anywhere in a stream: never a 5xx, and nothing of it when it is refused."""
    import random

    draw = random.Random(seed)
    name = fresh("damaged")
    path = f"/v1/boards/{name}"
    standing.talk.good("PUT", path, CONFIG)
    events = [{"op": "upsert", "id": f"o{n}", "values": {"distance": n, "delay": 1}, "payload": n} for n in range(9)]
    good = arrow(event_table(events, ["distance", "delay"]), 4)
    before = standing.talk.state(name)
    for _ in range(60):
        raw = bytearray(good)
        for _ in range(draw.choice([1, 1, 2, 8])):
            raw[draw.randrange(len(raw))] = draw.randrange(256)
        answer = standing.talk.ask("POST", f"{path}/events", bytes(raw), headers={"Content-Type": ARROW})
        if answer.status_code < 300:
            assert answer.json()["seq"] == before["board"]["seq"] + answer.json()["applied"]
            before = standing.talk.state(name)
        else:
            assert answer.status_code in (400, 413, 422), answer.text
            assert standing.talk.state(name) == before
    standing.talk.good("DELETE", path)


def table(**columns: Any) -> pa.Table:
    base: dict[str, Any] = {
        "op": pa.array(["upsert", "upsert"]),
        "id": pa.array(["n0", "n1"]),
        "distance": pa.array([1.0, 2.0]),
        "delay": pa.array([1.0, 2.0]),
    }
    base.update(columns)
    return pa.table({name: column for name, column in base.items() if column is not None})


@pytest.mark.parametrize(
    ("columns", "fields"),
    [
        ({"id": None}, ["id"]),
        ({"op": None}, ["op"]),
        ({"delay": None}, ["events[0].values.delay", "events[1].values.delay"]),
        ({"speed": pa.array([1.0, 2.0])}, ["speed"]),
        ({"op": pa.array(["upsert", "insert"])}, ["events[1].op"]),
        ({"op": pa.array(["upsert", None])}, ["events[1].op"]),
        ({"op": pa.array([1, 2])}, ["op"]),
        ({"id": pa.array(["n0", None])}, ["events[1].id"]),
        ({"id": pa.array(["n0", "a b"])}, ["events[1].id"]),
        ({"id": pa.array(["n0", ".."])}, ["events[1].id"]),
        ({"id": pa.array(["n0", "a\n"])}, ["events[1].id"]),
        ({"id": pa.array([1, 2])}, ["id"]),
        ({"distance": pa.array([1.0, float("nan")])}, ["events[1].values.distance"]),
        ({"distance": pa.array([1.0, float("inf")])}, ["events[1].values.distance"]),
        ({"distance": pa.array([-1e301, 2.0])}, ["events[0].values.distance"]),
        ({"distance": pa.array([1.0, None])}, ["events[1].values.distance"]),
        ({"distance": pa.array(["1", "2"])}, ["distance"]),
        ({"distance": pa.array([True, False])}, ["distance"]),
        ({"distance": pa.array([[1.0], [2.0]])}, ["distance"]),
        ({"op": pa.array(["upsert", "update"])}, ["events[1].id"]),
        ({"op": pa.array(["delete", "upsert"])}, None),
        ({"payload": pa.array(["{}", "{"])}, ["events[1].payload"]),
        ({"payload": pa.array(["{}", "NaN"])}, ["events[1].payload"]),
        ({"payload": pa.array(["{}", '"' + "x" * 5000 + '"'])}, ["events[1].payload"]),
        ({"payload": pa.array([1, 2])}, ["payload"]),
    ],
)
def test_bad_arrow_events(standing: Standing, columns: Json, fields: list[str] | None) -> None:
    found = standing.refuse(
        422, "POST", "/events", arrow(table(**columns)), *(fields or []), headers={"Content-Type": ARROW}
    )
    assert found["errors"]


def test_a_column_twice(standing: Standing) -> None:
    twice = pa.Table.from_arrays(
        [pa.array(["upsert"]), pa.array(["n"]), pa.array([1.0]), pa.array([1.0]), pa.array([2.0])],
        names=["op", "id", "distance", "delay", "delay"],
    )
    standing.refuse(422, "POST", "/events", arrow(twice), headers={"Content-Type": ARROW})


@pytest.mark.parametrize(
    ("columns", "fields"),
    [
        ({"k": [2, 3]}, ["subscriptions[1].k"]),
        ({"k": [2, None]}, ["subscriptions[1].k"]),
        ({"k": ["2", "5"]}, ["k"]),
        ({"k": None}, ["k"]),
        ({"id": ["n0", "a b"]}, ["subscriptions[1].id"]),
        ({"distance_min": [0.0, float("nan")]}, ["subscriptions[1].range.distance[0]"]),
        ({"distance_max": [float("inf"), 9.0]}, ["subscriptions[0].range.distance[1]"]),
        ({"distance_max": [1e301, 9.0]}, ["subscriptions[0].range.distance[1]"]),
        ({"distance_min": ["a", "b"]}, ["distance_min"]),
        ({"speed_min": [0.0, 0.0]}, ["speed_min"]),
        ({"distance_min": [9.0, 9.5]}, None),
    ],
)
def test_bad_arrow_subscriptions(standing: Standing, columns: Json, fields: list[str] | None) -> None:
    base = {"id": ["n0", "n1"], "k": [2, 5], "distance_min": [0.0, 1.0], "distance_max": [5.0, 9.0], **columns}
    body = arrow(pa.table({name: pa.array(column) for name, column in base.items() if column is not None}))
    found = standing.refuse(422, "POST", "/subscriptions", body, *(fields or []), headers={"Content-Type": ARROW})
    if fields is None:
        assert {error["field"].split(".range")[0] for error in found["errors"]} == {
            "subscriptions[0]",
            "subscriptions[1]",
        }


def test_arrow_ids_that_are_taken(standing: Standing) -> None:
    headers = {"Content-Type": ARROW}
    for ids, field in ((["s9", "s0"], 1), (["s9", "s9"], 1)):
        body = arrow(pa.table({"id": ids, "k": [2, 2], "distance_min": [0.0, 0.0], "distance_max": [1.0, 1.0]}))
        standing.refuse(409, "POST", "/subscriptions", body, f"subscriptions[{field}].id", headers=headers)


def test_content_types(standing: Standing) -> None:
    raw = json.dumps({"events": [GOOD]}).encode()
    for content_type in (
        "text/plain",
        "application/xml",
        "application/x-www-form-urlencoded",
        "multipart/form-data",
        "",
    ):
        standing.refuse(415, "POST", "/events", raw, headers={"Content-Type": content_type})
    for content_type in (NDJSON, ARROW, "text/plain"):
        standing.refuse(415, "PUT", "/objects/o1", raw, headers={"Content-Type": content_type})
        standing.refuse(415, "PATCH", "", raw, headers={"Content-Type": content_type})


# --- limits -----------------------------------------------------------------------------------------------------------


def test_bodies_over_the_limit(standing: Standing) -> None:
    large = json.dumps({"events": [GOOD], "mode": "each" + " " * MAX_BODY}).encode()
    standing.refuse(413, "POST", "/events", large)
    standing.refuse(413, "POST", "/events", iter_of(large))
    line = json.dumps(GOOD).encode() + b"\n"
    bulk = line * (MAX_BULK // len(line) + 1)
    standing.refuse(413, "POST", "/events", bulk, headers={"Content-Type": NDJSON})
    standing.refuse(413, "POST", "/events", b"\xff" * (MAX_BULK + 1), headers={"Content-Type": ARROW})
    standing.refuse(413, "PUT", "/objects/o1", b" " * (MAX_BODY + 1))


def test_a_chunked_body_over_the_limit(standing: Standing) -> None:
    def chunks() -> Iterator[bytes]:
        yield b'{"events": ['
        for _ in range(MAX_BODY // 1000 + 2):
            yield b" " * 1000
        yield b"]}"

    url = f"{standing.path}/events"
    answer = standing.talk.http.post(url, content=chunks(), headers={"Content-Type": "application/json"})
    problem(answer, 413)
    standing.unchanged()


def iter_of(raw: bytes) -> bytes:
    """The same bytes with white space around, which counts too."""
    return b"  " + raw


def test_too_many_elements_in_a_json_list(standing: Standing) -> None:
    many = [{"op": "delete", "id": "o1"}] * (MOST_ELEMENTS + 1)
    standing.refuse(413, "POST", "/events", {"events": many}, "events")
    crowd = [{"k": 2}] * (MOST_ELEMENTS + 1)
    standing.refuse(413, "POST", "/subscriptions", {"subscriptions": crowd}, "subscriptions")
    standing.refuse(413, "POST", "/subscriptions/delete", {"ids": ["s0"] * (MOST_ELEMENTS + 1)}, "ids")


def test_the_limit_of_elements_is_for_json_lists(narrow: Talk) -> None:
    path = f"/v1/boards/{fresh('many')}"
    narrow.good("PUT", path, CONFIG)
    events = [{"op": "upsert", "id": f"o{n}", "values": {"distance": 1, "delay": 1}} for n in range(MOST_ELEMENTS * 2)]
    told = narrow.good("POST", f"{path}/events", ndjson(events), headers={"Content-Type": NDJSON})
    assert told["applied"] == MOST_ELEMENTS * 2
    told = narrow.good("POST", f"{path}/events", {"events": events[:MOST_ELEMENTS]})
    assert told["applied"] == MOST_ELEMENTS
    narrow.good("DELETE", path)


@pytest.mark.parametrize("at", [0, 500, 999])
@pytest.mark.parametrize("kind", ["json", "ndjson", "arrow"])
def test_a_thousand_events_with_one_bad(talk: Talk, kind: str, at: int) -> None:
    standing = Standing(talk)
    events: list[Json] = [
        {"op": "upsert", "id": f"o{n % 40}", "values": {"distance": n, "delay": n % 7}} for n in range(1000)
    ]
    events[at] = {"op": "delete", "id": "nobody"}
    bodies = {
        "json": (json.dumps({"events": events}).encode(), "application/json"),
        "ndjson": (ndjson(events), NDJSON),
        "arrow": (arrow(event_table(events, ["distance", "delay"]), 300), ARROW),
    }
    body, content_type = bodies[kind]
    standing.refuse(422, "POST", "/events", body, f"events[{at}].id", headers={"Content-Type": content_type})
    told = talk.good(
        "POST",
        f"{standing.path}/events",
        body if kind != "json" else {"events": events, "on_error": "skip"},
        headers={"Content-Type": content_type},
        params={} if kind == "json" else {"on_error": "skip"},
    )
    assert told["applied"] == 999 and [error["field"] for error in told["errors"]] == [f"events[{at}].id"]
    talk.good("DELETE", standing.path)


def test_all_errors_are_listed_up_to_a_hundred(standing: Standing) -> None:
    events = [{"op": "upsert", "id": f"n{n}", "values": {"distance": "x", "delay": True}} for n in range(70)]
    found = standing.refuse(422, "POST", "/events", {"events": events})
    assert len(found["errors"]) == 100
    fields = {error["field"] for error in found["errors"]}
    assert fields <= {f"events[{n}].values.{name}" for n in range(70) for name in ("distance", "delay")}
    found = standing.refuse(422, "POST", "/events", {"events": events[:3]})
    assert len(found["errors"]) == 6


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({}, ["ids"]),
        ({"ids": "s0"}, ["ids"]),
        ({"ids": [1]}, ["ids[0]"]),
        ({"ids": ["s0", None]}, ["ids[1]"]),
        ({"ids": ["s0"], "more": 1}, ["more"]),
    ],
)
def test_bad_deletions(standing: Standing, body: Json, fields: list[str]) -> None:
    standing.refuse(422, "POST", "/subscriptions/delete", body, *fields)


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        ({"values": {"speed": 1}}, ["values.speed"]),
        ({"values": {"delay": "1"}}, ["values.delay"]),
        ({"value": {"delay": 1}}, ["value"]),
        ({"values": None}, ["values"]),
        ({"payload": "x" * 4095}, ["payload"]),
    ],
)
def test_bad_changes_of_an_object(standing: Standing, body: Json, fields: list[str]) -> None:
    standing.refuse(422, "PATCH", "/objects/o1", body, *fields)
    standing.refuse(422, "PUT", "/objects/o1", body, *fields)


# --- feeds ------------------------------------------------------------------------------------------------------------


def test_feeds_keep_to_the_limits(narrow: Talk) -> None:
    path = f"/v1/feeds/{fresh('feed')}"
    narrow.good("PUT", path, {"window": 10, "bounds": [0, 0, 1, 1]})
    good: Json = {"keywords": ["a"], "location": [1, 1]}
    for name in ("posts", "subscriptions"):
        where = f"{path}/{name}"
        problem(narrow.ask("POST", where, {name: [good] * (MOST_ELEMENTS + 1)}), 413, name)
        wide = {"keywords": ["a" * 100] * 1000, "location": [1, 1]}
        problem(narrow.ask("POST", where, {name: [wide]}), 413)
        problem(narrow.ask("POST", where, b"\xff" * (MAX_BULK + 1), headers={"Content-Type": ARROW}), 413)
        for raw, kind in ((b'{"keywords":["a"]', NDJSON), (b"{} {}", NDJSON), (b"\xff", NDJSON), (b"x" * 100, ARROW)):
            problem(narrow.ask("POST", where, raw, headers={"Content-Type": kind}), 400)
        for kind in ("text/plain", ""):
            problem(narrow.ask("POST", where, b"{}", headers={"Content-Type": kind}), 415)
        errors = narrow.ask("POST", where, ndjson([{**good, "location": [1]}] * 150), headers={"Content-Type": NDJSON})
        assert len(errors.json()["errors"]) == 100
    problem(narrow.ask("POST", f"{path}/subscriptions/delete", {"ids": ["s"] * (MOST_ELEMENTS + 1)}), 413, "ids")
    assert narrow.good("GET", path)["seq"] == 0
    told = narrow.good("POST", f"{path}/posts", ndjson([good] * MOST_ELEMENTS * 2), headers={"Content-Type": NDJSON})
    assert (told["seq"], len(told["results"])) == (MOST_ELEMENTS * 2, MOST_ELEMENTS * 2)
    narrow.good("DELETE", path)


@pytest.mark.parametrize("seed", range(2))
def test_damaged_arrow_for_feeds_is_refused_or_wholly_read(narrow: Talk, seed: int) -> None:
    path, draw = f"/v1/feeds/{fresh('feed')}", Random(seed)
    narrow.good("PUT", path, {"window": 1000, "bounds": [0, 0, 1, 1]})
    words = pa.array([["a", "b"], ["c"], []] * 10, pa.list_(pa.string()))
    weights = pa.array([[1.0, 2.0], [0.5], None] * 10, pa.list_(pa.float64()))
    table = pa.table({"x": [0.5] * 30, "y": [0.5] * 30, "keywords": words, "weights": weights})
    whole = arrow(table)
    for _ in range(60):
        raw = bytearray(whole)
        for _ in range(draw.randrange(1, 4)):
            raw[draw.randrange(len(raw))] = draw.randrange(256)
        before = narrow.good("GET", path)["seq"]
        answer = narrow.ask("POST", f"{path}/posts", bytes(raw), headers={"Content-Type": ARROW})
        assert answer.status_code in (201, 400, 413, 422), answer.text
        came = len(answer.json()["results"]) if answer.status_code == 201 else 0
        assert narrow.good("GET", path)["seq"] == before + came
    narrow.good("DELETE", path)
