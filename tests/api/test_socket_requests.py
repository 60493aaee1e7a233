"""Requests over the WebSocket: they are those over HTTP, in order, bounded, and with the rights of the socket."""

from __future__ import annotations

import gc
from typing import Any

import msgpack
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.websockets import WebSocketDisconnect

from app.api import context
from app.api.problems import Problem
from app.write_path import committing
from tests.support.app_client import AppClient
from tests.support.asker import BOARD, HOST, socket_of
from tests.support.patience import wait_until
from tests.support.running import Running, upsert
from tests.support.service_fixtures import MakeClient, Start


def test_a_request_is_answered_as_over_http(client: AppClient) -> None:
    with socket_of(client) as asker:
        status, made = asker.ask("PUT", "/v1/boards/b", BOARD)
        assert status == 201
        assert made == {**client.get("/v1/boards/b").json(), "seq": 0}
        events = {"messages": "count", "events": [upsert("a", 1, 2), upsert("b", 2, 1)]}
        assert asker.good("POST", "/v1/boards/b/events", events) == {"seq": 2, "applied": 2, "tile_count": 0}
        for path in (
            "/v1/boards",
            "/%76%31/boards/%62",
            "/v1/boards/b/objects?limit=1",
            "/v1/boards/b/objects/a",
            "/v1/boards/b/top?k=2",
        ):
            assert asker.good("GET", path) == client.get(path).json()
        for method, path, body in (
            ("GET", "/v1/boards/none", None),
            ("GET", "/v1/boards/b/objects/none", None),
            ("POST", "/v1/boards/b/events", {"events": [{"op": "upsert", "id": "a", "values": {"z": 1}}]}),
            ("POST", "/v1/boards/b/events", {"events": [], "more": 1}),
            ("POST", "/v1/boards", {}),
            ("PUT", "/v1/boards/b", {**BOARD, "range_attributes": ["z"]}),
            ("GET", "/v1/boards/b?x=1", None),
            ("GET", "/v1/nothing", None),
            ("GET", "/v1/boards/a%2Fb", None),
        ):
            answer = client.request(method, path, json=body)
            status, problem = asker.ask(method, path, body)
            assert status == answer.status_code and problem["type"] == answer.json()["type"], path
            assert problem["errors"] == answer.json()["errors"], path
        assert client.get("/v1/boards/b").json()["seq"] == 2


@pytest.mark.parametrize("ref", [0, -7, 2**60, 1.5, "", "a-1", "\u00e9\n"])
def test_a_ref_is_any_number_or_string(client: AppClient, ref: Any) -> None:
    with socket_of(client) as asker:
        frame = {"op": "request", "ref": ref, "method": "GET", "path": "/v1/boards"}
        asker.socket.send_json(frame)
        assert asker.socket.receive_json() == {
            "event": "response",
            "ref": ref,
            "status": 200,
            "body": {"items": [], "next": None},
        }
        asker.socket.send_bytes(msgpack.packb(frame))
        answer = msgpack.unpackb(asker.socket.receive_bytes())
        assert answer == {"event": "response", "ref": ref, "status": 200, "body": {"items": [], "next": None}}


def test_what_is_no_request_gets_an_error(client: AppClient) -> None:
    whole = {"op": "request", "ref": 7, "method": "GET", "path": "/v1/boards"}
    with socket_of(client) as asker:
        for changed, fields in (
            ({"ref": None}, ["ref"]),
            ({"ref": True}, ["ref"]),
            ({"ref": [1]}, ["ref"]),
            ({"method": 1}, ["method"]),
            ({"path": None, "method": None}, ["method", "path"]),
            ({"headers": []}, ["headers"]),
            ({"headers": {"a": 1}}, ["headers"]),
            ({"bodies": 1}, ["bodies"]),
        ):
            asker.socket.send_json({**whole, **changed})
            refused = asker.socket.receive_json()
            assert refused["event"] == "error" and refused["op"] == "request", changed
            assert [error["field"] for error in refused["problem"]["errors"]] == fields
            assert ("ref" in refused) == ("ref" not in changed)
        for field in ("ref", "method", "path"):
            asker.socket.send_json({name: value for name, value in whole.items() if name != field})
            assert asker.socket.receive_json()["problem"]["errors"] == [{"field": field, "reason": "is required"}]
        asker.socket._portal.call(
            asker.socket._incoming.put, {"type": "websocket.receive", "text": '{"op":"request","ref":NaN}'}
        )
        assert asker.socket.receive_json()["problem"]["status"] == 400


def test_what_a_socket_does_not_take(client: AppClient) -> None:
    client.put("/v1/boards/b", json=BOARD)
    client.put("/v1/boards/b/subscriptions/s", json={"k": 3})
    line = [upsert("a", 1, 1)]
    with socket_of(client) as asker:
        for status, field, method, path, body, headers in (
            (422, "path", "GET", "/v1/boards/b/subscriptions/s/stream", None, {}),
            (422, "path", "GET", "/v1/admin/jobs/j1/stream", None, {}),
            (422, "headers.Authorization", "GET", "/v1/boards", None, {"Authorization": "Bearer x"}),
            (422, "headers.AUTHORIZATION", "GET", "/v1/boards", None, {"AUTHORIZATION": ""}),
            (422, "headers.X-A", "GET", "/v1/boards", None, {"X-A": "a\nb"}),
            (415, None, "POST", "/v1/boards/b/events", line, {"Content-Type": "application/x-ndjson"}),
            (415, None, "POST", "/v1/boards/b/events", "x", {"content-type": "application/vnd.apache.arrow.stream"}),
            (415, None, "POST", "/v1/boards/b/events", {"events": line}, {"content-type": "text/plain"}),
            (415, None, "POST", "/v1/relays/r/commands", line, {}),
            (404, None, "GET", "/healthz", None, {}),
            (404, None, "GET", "/metrics", None, {}),
            (404, None, "GET", "/", None, {}),
            (400, None, "GET", "v1/boards", None, {}),
            (400, None, "GET", "/v1/boards#x", None, {}),
            (400, None, "GET", "/v1/bo ards", None, {}),
            (400, None, "GET", "/v1/boards/" + "b" * 70_000, None, {}),
            (405, None, "BREW", "/v1/boards", None, {}),
        ):
            frame = {**asker.frame(method, path, body), "headers": headers}
            asker.socket.send_json(frame)
            answer = asker.socket.receive_json()
            assert answer["status"] == answer["body"]["status"] == status, (path, headers, answer)
            if field is not None:
                assert [error["field"] for error in answer["body"]["errors"]] == [field]
    assert client.get("/v1/boards/b").json()["seq"] == 1


def test_a_key_of_http_is_another_requests(client: AppClient) -> None:
    client.put("/v1/boards/b", json=BOARD)
    path, body = "/v1/boards/b/events?messages=none", {"events": [upsert("a", 1, 1)]}
    over_http = client.post(path, json=body, headers={"Idempotency-Key": "one"})
    assert over_http.status_code == 200
    with socket_of(client) as asker:
        status, problem = asker.ask("POST", path, body, Idempotency_Key="one")
        assert (status, problem["type"]) == (422, "/problems/key-reused")
        first = asker.good("POST", path, body, Idempotency_Key="two")
        again = asker.good("POST", path, body, idempotency_key="two")
        assert again == {**first, "replayed": True}
        frame = asker.frame("POST", path, body, Idempotency_Key="two")
        asker.socket.send_bytes(msgpack.packb(frame))
        assert msgpack.unpackb(asker.socket.receive_bytes())["body"] == again
    refused = client.post(path, json=body, headers={"Idempotency-Key": "two"})
    assert refused.json()["type"] == "/problems/key-reused"
    assert client.get("/v1/boards/b").json()["seq"] == 2


def test_query_fields_may_stand_beside_a_body(client: AppClient) -> None:
    client.put("/v1/boards/b", json=BOARD)
    good, bad = upsert("a", 1, 1), {"op": "upsert", "id": "b", "values": {"x": "?"}}
    with socket_of(client) as asker:

        def over_http(path: str, body: Any) -> tuple[int, Any]:
            answer = client.post(path, json=body)
            return answer.status_code, answer.json()

        for ask in (over_http, lambda path, body: asker.ask("POST", path, body)):
            path = "/v1/boards/b/events"
            assert ask(f"{path}?messages=none&on_error=skip", {"events": [good, bad]})[1]["error_count"] == 1
            status, same = ask(f"{path}?messages=none", {"messages": "none", "events": [good]})
            assert status == 200 and same.keys() == {"seq", "applied"}
            status, refused = ask(f"{path}?messages=none&mode=batch", {"mode": "each", "events": [good]})
            assert status == 422 and [error["field"] for error in refused["errors"]] == ["mode"]
            status, refused = ask(f"{path}?on_error=skip", {"on_error": "refuse", "events": [bad]})
            assert status == 422
            status, made = ask("/v1/boards/b/subscriptions?lists=false", {"subscriptions": [{"k": 3}]})
            assert status == 201 and "list" not in made["subscriptions"][0]
            assert ask(f"{path}?nothing=1", {"events": []})[0] == 422


def test_message_pack_is_answered_in_kind(client: AppClient) -> None:
    client.put("/v1/boards/b", json=BOARD)
    client.put("/v1/boards/b/subscriptions/s", json={"k": 3})
    big = 10**30
    with socket_of(client) as asker:
        asker.socket.send_bytes(msgpack.packb({"op": "subscribe", "resource": "boards/b", "id": "s"}))
        begin = msgpack.unpackb(asker.socket.receive_bytes())
        assert (begin["event"], begin["list"]) == ("snapshot", [])
        client.put("/v1/boards/b/objects/a", json={"values": {"x": 1, "y": 0.5}, "payload": {"n": big}})
        change = msgpack.unpackb(asker.socket.receive_bytes())
        assert change["changes"][0]["values"] == {"x": 1, "y": 0.5}
        assert change["changes"][0]["payload"] == {"n": float(big)}, "MessagePack has no room for it"
        asker.socket.send_json({"op": "ping"})
        assert asker.socket.receive_json() == {"event": "pong"}
        asker.socket.send_json({"op": "subscribe", "resource": "boards/b", "id": "s"})
        assert asker.socket.receive_json()["event"] == "snapshot", "the second one replaces the first, and is text"
        asker.socket.send_bytes(msgpack.packb({"op": "unsubscribe", "resource": "boards/b", "id": "s"}))
        assert msgpack.unpackb(asker.socket.receive_bytes())["event"] == "unsubscribed"


def _nested(levels: int, size: int) -> bytes:
    return b"".join(b"\xdd" + size.to_bytes(4, "big") for _ in range(levels)) + bytes(size)


HOSTILE = [
    b"\xc1",
    b"\x80\x80",
    b"\x92\x01",
    b"",
    msgpack.packb({"op": "ping", "x": msgpack.ExtType(5, b"x")}),
    msgpack.packb({"op": "ping", "x": msgpack.Timestamp(1)}),
    msgpack.packb({"op": "subscribe", "resource": "boards/b", "id": "s", "squash": float("nan")}),
    msgpack.packb({"op": "ping", b"x": 1}),
    msgpack.packb({1: 2}),
    b"\x81\xa2op\xa4\xff\xff\xff\xff",
    b"\xdd\xff\xff\xff\xff",
    b"\xdf\xff\xff\xff\xff",
    b"\xdb\xff\xff\xff\xff",
    b"\x91" * 600 + b"\x01",
    b"\x91" * 3_000,
    _nested(200, 5_000),
    b"\xc6" + (1 << 13).to_bytes(4, "big") + bytes(1 << 13),
    b"\x82\xa2op\xa7request\xa4body" + _nested(60, 100_000),
]


@pytest.mark.parametrize("frame", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_frames_are_refused(client: AppClient, frame: bytes) -> None:
    with socket_of(client) as asker:
        asker.socket.send_bytes(frame)
        refused = msgpack.unpackb(asker.socket.receive_bytes())
        assert refused["event"] == "error" and refused["problem"]["status"] in (400, 422)
        asker.socket.send_json({"op": "ping"})
        assert asker.socket.receive_json() == {"event": "pong"}


@pytest.mark.parametrize(
    "body",
    [
        {"events": [upsert("a", float("nan"), 1)]},
        {"events": [upsert("a", float("inf"), 1)]},
        {"events": b"x"},
        {"events": [{"op": "upsert", "id": "a", "values": {b"x": 1}}]},
    ],
)
def test_a_packed_body_is_a_value_of_json(client: AppClient, body: Any) -> None:
    client.put("/v1/boards/b", json=BOARD)
    with socket_of(client) as asker:
        asker.socket.send_bytes(msgpack.packb(asker.frame("POST", "/v1/boards/b/events", body)))
        answer = msgpack.unpackb(asker.socket.receive_bytes())
        assert answer.get("status", answer.get("problem", {}).get("status")) == 400
    assert client.get("/v1/boards/b").json()["seq"] == 0


def test_a_ticket_answers_streams_alone(client: AppClient) -> None:
    client.put("/v1/boards/b", json=BOARD)
    client.put("/v1/boards/b/subscriptions/s", json={"k": 3})
    ticket = client.post("/v1/tickets", json={"resource": "boards/b"}).json()["ticket"]
    with socket_of(client, f"/v1/stream?ticket={ticket}") as asker:
        asker.socket.send_json(asker.frame("GET", "/v1/boards/b"))
        refused = asker.socket.receive_json()
        assert (refused["event"], refused["ref"], refused["problem"]["status"]) == ("error", 0, 403)
        asker.socket.send_json(asker.frame("PUT", "/v1/boards/c", {**BOARD, "ks": list(range(1, 2_000))}))
        assert asker.socket.receive_json()["problem"]["status"] == 413
        asker.socket.send_json({"op": "subscribe", "resource": "boards/b", "id": "s"})
        assert asker.socket.receive_json()["event"] == "snapshot"
    assert client.get("/v1/boards").json()["items"][0]["name"] == "b"


def test_a_request_has_the_rights_of_its_socket(client: AppClient) -> None:
    admin = client.post("/v1/admin/keys", json={"name": "n", "scopes": ["admin"]}).json()["key"]
    with socket_of(client) as asker:
        status, problem = asker.ask("GET", "/v1/boards")
        assert (status, problem["type"]) == (401, "/problems/unauthorized")
        asker.socket.send_json({"op": "auth", "key": admin})
        assert asker.socket.receive_json() == {"event": "authenticated"}
        asker.good("PUT", "/v1/boards/b", BOARD)
        one = asker.good("POST", "/v1/admin/keys", {"name": "n", "scopes": ["boards/b:publish"]})
        with socket_of(client, key=one["key"]) as mine:
            mine.good("PUT", "/v1/boards/b/objects/a?messages=none", {"values": {"x": 1, "y": 1}})
            for method, path in (("DELETE", "/v1/boards/b"), ("GET", "/v1/boards/b"), ("GET", "/v1/admin/keys")):
                assert mine.ask(method, path)[0] == 403, path
            asker.good("DELETE", f"/v1/admin/keys/{one['id']}")
            with pytest.raises(WebSocketDisconnect) as closed:
                mine.ask("PUT", "/v1/boards/b/objects/b", {"values": {"x": 1, "y": 1}})
            assert closed.value.code == 1008
        assert asker.good("GET", "/v1/boards/b")["objects"] == 1


def test_a_refused_request_is_not_kept(client: AppClient) -> None:
    """Nor is its body, which is in the traceback of the refusal: it would wait for garbage to be collected."""

    def refusals() -> int:
        return sum(isinstance(one, Problem) for one in gc.get_objects())

    with socket_of(client) as asker:
        assert asker.ask("PUT", "/v1/boards/b", {"ks": "x" * 100_000})[0] == 422
        gc.collect()
        before = refusals()
        gc.disable()
        try:
            for _ in range(3):
                assert asker.ask("PUT", "/v1/boards/b", {"ks": "x" * 100_000})[0] == 422
            wait_until(lambda: refusals() == before)
        finally:
            gc.enable()


@pytest.mark.parametrize("before", ["Bearer \t", "Bearer \x1f", "Basic ", "Bearer", ""])
def test_a_handshake_names_its_key_as_requests_do(client: AppClient, before: str) -> None:
    admin = client.post("/v1/admin/keys", json={"name": "n", "scopes": ["admin"]}).json()["key"]
    headers = {**HOST, "Authorization": before + admin}
    assert client.get("/v1/boards", headers=headers).status_code == 401
    with pytest.raises(WebSocketDisconnect), client.websocket_connect("/v1/stream", headers=headers):
        pass


def test_the_first_key_is_answered_before_the_door_closes(client: AppClient) -> None:
    with socket_of(client) as asker:
        made = asker.good("POST", "/v1/admin/keys", {"name": "n", "scopes": ["admin"]})
        with pytest.raises(WebSocketDisconnect):
            asker.socket.receive_json()
    with socket_of(client, key=made["key"]) as asker:
        assert asker.good("GET", "/v1/admin/keys")["items"][0]["id"] == made["id"]


def test_at_most_so_many_requests_wait(start: Start) -> None:
    running: Running = start()
    client, accepting = running.client, running.service.writer._queue("boards/b").accepting
    client.put("/v1/boards/b", json=BOARD)
    with socket_of(client) as asker:
        running.call(accepting.acquire)
        frames = [asker.frame("PUT", f"/v1/boards/b/objects/o{i}", {"values": {"x": i, "y": 0}}) for i in range(260)]
        asker.socket.send_all(frames)
        refused = [asker.socket.receive_json() for _ in range(4)]
        assert {answer["ref"] for answer in refused} == {256, 257, 258, 259}
        assert {answer["status"] for answer in refused} == {429}
        assert refused[0]["headers"] == {"Retry-After": "5"}

        async def release() -> None:
            accepting.release()

        running.call(release)
        answers = [asker.socket.receive_json() for _ in range(256)]
        assert {answer["ref"]: answer["body"]["seq"] for answer in answers} == {ref: ref + 1 for ref in range(256)}
    client.put("/v1/boards/c", json=BOARD)


def test_reads_do_not_wait_for_writes_before_them(start: Start) -> None:
    running: Running = start()
    client, accepting = running.client, running.service.writer._queue("boards/b").accepting
    for name in ("b", "c"):
        client.put(f"/v1/boards/{name}", json=BOARD)
    with socket_of(client) as asker:
        running.call(accepting.acquire)
        asker.socket.send_all(
            [
                asker.frame("PUT", "/v1/boards/b/objects/o", {"values": {"x": 1, "y": 0}}),
                asker.frame("GET", "/v1/boards/b"),
                asker.frame("PUT", "/v1/boards/c/objects/o", {"values": {"x": 1, "y": 0}}),
            ]
        )
        assert [asker.socket.receive_json()["ref"] for _ in range(2)] == [1, 2]

        async def release() -> None:
            accepting.release()

        running.call(release)
        assert asker.socket.receive_json()["ref"] == 0


def test_who_does_not_read_is_not_read(start: Start) -> None:
    running: Running = start()
    client = running.client
    client.put("/v1/boards/b", json=BOARD)
    payload = "x" * 4_000
    many = [{**upsert(f"o{i:04}", i, 0), "payload": payload} for i in range(1_000)]
    client.post("/v1/boards/b/events?messages=none", json={"events": many})
    with socket_of(client) as asker:
        asker.socket.send_all([asker.frame("GET", "/v1/boards/b/objects?limit=1000") for _ in range(100)])
        for ref in range(100):
            answer = asker.socket.receive_json()
            assert (answer["ref"], len(answer["body"]["items"])) == (ref, 1_000)


def test_a_long_answer_is_bounded(make_client: MakeClient) -> None:
    client = make_client(max_answer=2 << 20)
    client.put("/v1/boards/b", json=BOARD)
    wanted = [{"id": f"s{i:05}", "k": 3} for i in range(40_000)]
    with socket_of(client) as asker:
        status, body = asker.ask("POST", "/v1/boards/b/subscriptions?lists=true", {"subscriptions": wanted})
        assert (status, body) == (201, {"seq": 40_000, "truncated": True})
        assert asker.good("GET", "/v1/boards/b")["subscriptions"] == 40_000
    client.put("/v1/boards/c", json=BOARD)
    with socket_of(client) as asker:
        frame = asker.frame("POST", "/v1/boards/c/subscriptions?lists=true", {"subscriptions": wanted[:20_000]})
        asker.socket.send_bytes(msgpack.packb(frame))
        answer = msgpack.unpackb(asker.socket.receive_bytes())
        assert answer["status"] == 201 and len(answer["body"]["subscriptions"]) == 20_000


def test_requests_are_counted_as_those_over_http(start: Start) -> None:
    running: Running = start()
    client = running.client
    client.put("/v1/boards/b", json=BOARD)
    with socket_of(client) as asker:
        asker.good("PUT", "/v1/boards/b/objects/o", {"values": {"x": 1, "y": 0}})
        asker.ask("GET", "/v1/boards/none")
    text = client.get("/metrics").text
    assert 'rankcast_requests_total{method="PUT",route="/v1/boards/{board}/objects/{id}",status="201"} 1.0' in text
    assert 'rankcast_requests_total{method="GET",route="/v1/boards/{board}",status="404"} 1.0' in text
    wait_until(lambda: "rankcast_requests_open 1.0" in client.get("/metrics").text)


Write = tuple[str, str, list[tuple[int, int]]]
"""A write to a board: how it is sent, and the objects with their new y."""

objects = st.tuples(st.integers(0, 7), st.integers(0, 99))
writes = st.lists(
    st.tuples(
        st.sampled_from(["b", "c"]),
        st.sampled_from(["one", "delete", "few", "many", "bulk", "bad"]),
        st.lists(objects, min_size=1, max_size=4),
    ),
    min_size=1,
    max_size=60,
)


def test_writes_to_a_resource_are_applied_in_the_order_in_which_they_came(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Small bodies are read on the loop, larger ones in threads, and commands of many elements checked in pieces."""
    monkeypatch.setattr(context, "INLINE", 400)
    monkeypatch.setattr(committing, "BULK", 30)
    running: Running = start()
    client = running.client
    numbers = iter(range(1 << 30))

    @settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(plan=writes, times=st.integers(1, 5))
    def check(plan: list[Write], times: int) -> None:
        names = {board: f"{board}{next(numbers)}" for board in ("b", "c")}
        truth: dict[str, dict[str, float]] = {"b": {}, "c": {}}
        seqs = {"b": 0, "c": 0}
        with socket_of(client) as asker:
            for name in names.values():
                asker.good("PUT", f"/v1/boards/{name}", BOARD)
            frames: list[dict[str, Any]] = []
            expected: dict[int, int | None] = {}
            for board, how, changes in plan * times:
                path, held = f"/v1/boards/{names[board]}", truth[board]
                i, y = changes[0]
                if how == "one":
                    frame = asker.frame("PUT", f"{path}/objects/o{i}?messages=none", {"values": {"x": i, "y": y}})
                    held[f"o{i}"] = y
                    seqs[board] += 1
                elif how == "delete":
                    frame = asker.frame("DELETE", f"{path}/objects/o{i}?messages=none")
                    if held.pop(f"o{i}", None) is None:
                        expected[frame["ref"]] = None
                        frames.append(frame)
                        continue
                    seqs[board] += 1
                elif how == "bad":
                    frame = asker.frame("POST", f"{path}/events", {"events": [{"op": "upsert", "id": f"o{i}"}, {}]})
                    expected[frame["ref"]] = None
                    frames.append(frame)
                    continue
                else:
                    some = changes * {"few": 1, "many": 8, "bulk": 40}[how]
                    events = [upsert(f"o{i}", i, y) for i, y in some]
                    frame = asker.frame("POST", f"{path}/events", {"messages": "none", "events": events})
                    held.update({f"o{i}": y for i, y in some})
                    seqs[board] += len(some)
                expected[frame["ref"]] = seqs[board]
                frames.append(frame)
            answers = asker.all(frames)
            for ref, seq in expected.items():
                status, body = answers[ref]
                assert (status < 300) == (seq is not None), body
                assert seq is None or body["seq"] == seq
            for board, name in names.items():
                page = asker.good("GET", f"/v1/boards/{name}/objects?limit=1000")
                assert page["seq"] == seqs[board]
                assert {item["id"]: item["values"]["y"] for item in page["items"]} == truth[board]
                asker.good("DELETE", f"/v1/boards/{name}")

    check()
