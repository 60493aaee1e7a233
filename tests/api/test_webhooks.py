"""Webhooks: what a request may say, who may, where they may lead, and what receivers get."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import jwt
import pytest

from tests.support.patience import wait_until
from tests.support.receiver import Receiver, applied, receiving
from tests.support.running import Running
from tests.support.service_fixtures import Start

BOARD = {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [3]}
NETWORKS = ("127.0.0.0/8",)
HOOK = "/v1/webhooks/ops"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses are short, and in tests that kill nothing positions are stored often."""
    monkeypatch.setattr("app.webhooks.sender.FIRST_PAUSE", 0.02)
    monkeypatch.setattr("app.webhooks.webhooks.STORE_EVERY", 0.02)


def board(service: Running, *ids: str, name: str = "b") -> None:
    assert service.client.put(f"/v1/boards/{name}", json=BOARD).status_code == 201
    for id in ids:
        assert service.client.put(f"/v1/boards/{name}/subscriptions/{id}", json={"k": 3}).status_code == 201


def put(service: Running, url: str, *ids: str, batch: int = 1, resource: str = "boards/b") -> Any:
    body = {"url": url, "resource": resource, "ids": list(ids), "batch": batch}
    answer = service.client.put(HOOK, json=body)
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


def move(service: Running, id: str, y: float, name: str = "b") -> int:
    values = {"values": {"x": 1, "y": y}}
    found: int = service.client.put(f"/v1/boards/{name}/objects/{id}", json=values).json()["seq"]
    return found


def shown(service: Running, name: str = "ops") -> Any:
    return service.client.get(f"/v1/webhooks/{name}").json()


def test_a_receiver_gets_what_a_socket_gets_signed(start: Start, receiver: Receiver) -> None:
    service = start(webhook_networks=NETWORKS)
    board(service, "mine")
    secret = put(service, receiver.url, "mine")["secret"]
    receiver.wait(lambda: receiver.taken)
    with service.client.websocket_connect("/v1/stream") as socket:
        socket.send_json({"op": "subscribe", "resource": "boards/b", "id": "mine"})
        said = [socket.receive_json()]
        for n in range(5):
            move(service, f"o{n}", 10 - n)
            said.append(socket.receive_json())
    receiver.wait(lambda: len(receiver.taken) == 6)
    assert receiver.taken == said
    key = base64.b64decode(secret.removeprefix("whsec_"))
    for one in receiver.arrived:
        signed = f"{one.id}.{one.headers['webhook-timestamp']}.".encode() + one.body
        made = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        assert one.headers["webhook-signature"] == f"v1,{made}"
        assert abs(int(one.headers["webhook-timestamp"]) - time.time()) < 300
    assert len({one.id for one in receiver.arrived}) == 6
    wait_until(lambda: shown(service)["delivered"] == 6)
    found = shown(service)
    assert (found["state"], found["failures"], found["last_status"], found["waiting"]) == ("active", 0, 204, 0)
    assert "secret" not in found


def test_what_is_refused_is_repeated_under_its_id_in_order(start: Start, receiver: Receiver) -> None:
    service = start(webhook_networks=NETWORKS)
    board(service, "mine", "yours")
    receiver.decide = lambda number, event: (500, 0, 302, 204)[number % 4]
    put(service, receiver.url, "mine", "yours")
    seqs = [move(service, "o", float(n)) for n in range(4)]
    receiver.wait(lambda: len(receiver.taken) >= 2 + 2 * len(seqs))
    for id in ("mine", "yours"):
        cursors = [int(event["cursor"].split(":")[1]) for event in receiver.of(id)]
        assert cursors == sorted(set(cursors))
        listed = service.client.get(f"/v1/boards/b/subscriptions/{id}").json()["list"]
        assert applied(receiver.of(id)) == [{k: v for k, v in one.items() if k != "rank"} for one in listed]
    for taken in [one for one in receiver.arrived if one.status == 204]:
        tries = [one for one in receiver.arrived if one.id == taken.id]
        assert [one.status for one in tries] == [500, 0, 302, 204]
        assert {one.body for one in tries} == {taken.body}


def test_a_batch_is_a_list(start: Start, receiver: Receiver) -> None:
    service = start(webhook_networks=NETWORKS)
    board(service, "mine")
    receiver.decide = lambda number, event: 204 if number else -1
    put(service, receiver.url, "mine", batch=3)
    receiver.wait(lambda: receiver.begun)
    for n in range(7):
        move(service, f"o{n}", 10 - n)
    receiver.release.set()
    receiver.wait(lambda: len(receiver.taken) == 8)
    bodies = [json.loads(one.body) for one in receiver.arrived if one.status == 204]
    assert [len(body) for body in bodies] == [1, 3, 3, 1]
    assert [event["seq"] for event in receiver.taken] == sorted(event["seq"] for event in receiver.taken)


def test_a_deleted_subscription_gets_its_gone_and_leaves(start: Start, receiver: Receiver) -> None:
    service = start(webhook_networks=NETWORKS)
    board(service, "mine", "yours")
    put(service, receiver.url, "mine", "yours")
    receiver.wait(lambda: len(receiver.taken) == 2)
    seq = service.client.delete("/v1/boards/b/subscriptions/mine").json()["seq"]
    wait_until(lambda: shown(service)["ids"] == ["yours"])
    assert [(event["event"], event["seq"]) for event in receiver.of("mine")][1:] == [("gone", seq)]
    service.client.delete("/v1/boards/b")
    wait_until(lambda: shown(service)["ids"] == [])
    assert receiver.of("yours")[-1]["event"] == "gone"


def test_gone_for_good_disables_and_enable_starts_again(start: Start, receiver: Receiver) -> None:
    service = start(webhook_networks=NETWORKS)
    board(service, "mine")
    put(service, receiver.url, "mine")
    receiver.wait(lambda: receiver.taken)
    receiver.decide = lambda number, event: 410
    move(service, "o", 1)
    wait_until(lambda: shown(service)["state"] == "disabled")
    assert (shown(service)["last_status"], shown(service)["last_error"]) == (410, "answered 410")
    before = receiver.begun
    move(service, "o", 2)
    receiver.decide = lambda number, event: 204
    tested = service.client.post(f"{HOOK}/test").json()
    assert tested == {"taken": True, "status": 204, "error": None}
    assert receiver.begun == before + 1 and receiver.taken[-1] == {"event": "test", "webhook": "ops"}
    answer = service.client.post(f"{HOOK}/enable")
    assert answer.status_code == 200 and answer.json()["state"] == "active"
    receiver.wait(lambda: receiver.of("mine")[-1]["event"] == "reset")
    assert [entry["values"]["y"] for entry in receiver.of("mine")[-1]["list"]] == [2]


def test_three_days_of_failures_disable(start: Start, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.webhooks.sender.DISABLE_AFTER", 0.05)
    service = start(webhook_networks=NETWORKS)
    board(service, "mine")
    receiver.decide = lambda number, event: 503
    put(service, receiver.url, "mine")
    wait_until(lambda: shown(service)["state"] == "disabled")
    assert shown(service)["failures"] >= 2


def test_too_much_that_waits_is_one_reset(start: Start, receiver: Receiver) -> None:
    service = start(webhook_networks=NETWORKS, webhook_queue=4)
    board(service, "mine")
    receiver.decide = lambda number, event: -1 if number == 0 else 204
    put(service, receiver.url, "mine")
    receiver.wait(lambda: receiver.begun)
    for n in range(20):
        move(service, "o", float(n))
    assert shown(service)["waiting"] <= 5
    receiver.release.set()
    receiver.wait(lambda: receiver.of("mine") and receiver.of("mine")[-1]["event"] == "reset")
    events = receiver.of("mine")
    assert [event["event"] for event in events] == ["snapshot", "reset"], "what waited is void"
    assert applied(events) == [{"id": "o", "values": {"x": 1, "y": 19}, "created": 0}]
    move(service, "o", 30.0)
    receiver.wait(lambda: receiver.of("mine")[-1]["event"] == "change")


def test_a_receiver_that_hangs_holds_up_no_write(start: Start, receiver: Receiver) -> None:
    """Writes and reads are answered, and another webhook is served, while its request is under way."""
    service = start(webhook_networks=NETWORKS)
    board(service, "mine")
    receiver.decide = lambda number, event: -1
    put(service, receiver.url, "mine")
    receiver.wait(lambda: receiver.begun == 1)
    with receiving() as other:
        body = {"url": other.url, "resource": "boards/b", "ids": ["mine"]}
        assert service.client.put("/v1/webhooks/other", json=body).status_code == 201
        for n in range(50):
            move(service, "o", float(n))
        other.wait(lambda: len(other.taken) == 51)
    assert receiver.begun == 1 and not receiver.arrived, "the first request is still under way"
    assert service.client.get("/readyz").status_code == 200


BAD_URLS = [
    "http://example.org/in",
    "ftp://example.org/in",
    "https://user:secret@example.org/in",
    "https://",
    "not a url",
    "https://example.org/in#part",
    "https://example.org:70000/in",
    "https://" + "a" * 2000 + ".example.org",
    "https://127.0.0.1/in",
    "https://localhost/in",
    "https://10.0.0.1/in",
    "https://169.254.169.254/latest/meta-data",
    "https://[::1]/in",
    "https://[::ffff:127.0.0.1]/in",
    "https://[::ffff:a9fe:a9fe]/in",
    "https://[64:ff9b::7f00:1]/in",
    "https://2130706433/in",
    "https://0x7f000001/in",
    "https://0177.0.0.1/in",
    "https://127.1/in",
    "https://0/in",
    "https://no-such-host.invalid/in",
]


@pytest.mark.parametrize("url", BAD_URLS)
def test_these_urls_are_refused(start: Start, url: str) -> None:
    service = start()
    board(service, "mine")
    answer = service.client.put(HOOK, json={"url": url, "resource": "boards/b", "ids": ["mine"]})
    assert answer.status_code == 422, answer.text
    assert [error["field"] for error in answer.json()["errors"]] == ["url"]
    assert service.client.get(HOOK).status_code == 404


def test_http_to_this_machine_is_refused_with_the_setting_that_allows_it(start: Start) -> None:
    service = start()
    board(service, "mine")
    answer = service.client.put(HOOK, json={"url": "http://127.0.0.1:9/in", "resource": "boards/b", "ids": ["mine"]})
    assert "RANKCAST_WEBHOOK_NETWORKS" in answer.json()["errors"][0]["reason"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"ids": []}, "ids"),
        ({"ids": ["mine", "none"]}, "ids[1]"),
        ({"ids": ["mine", "mine"]}, "ids[0]"),
        ({"ids": ["m" * 200]}, "ids[0]"),
        ({"resource": "boards/none"}, "resource"),
        ({"resource": "boards"}, "resource"),
        ({"resource": "tables/b"}, "resource"),
        ({"batch": 0}, "batch"),
        ({"batch": 1001}, "batch"),
        ({"batch": "1"}, "batch"),
        ({"retries": 3}, "retries"),
        ({"url": None}, "url"),
    ],
)
def test_what_is_invalid_is_named(start: Start, change: dict[str, Any], field: str) -> None:
    service = start(webhook_networks=NETWORKS)
    board(service, "mine")
    body = {"url": "http://127.0.0.1:9/in", "resource": "boards/b", "ids": ["mine"], **change}
    answer = service.client.put(HOOK, json=body)
    assert answer.status_code == 422, answer.text
    assert field in [error["field"] for error in answer.json()["errors"]], answer.text


def test_a_list_of_more_than_a_thousand_ids_is_too_large(start: Start) -> None:
    service = start(webhook_networks=NETWORKS)
    board(service, "mine")
    body = {"url": "http://127.0.0.1:9/in", "resource": "boards/b", "ids": [f"s{n}" for n in range(1001)]}
    assert service.client.put(HOOK, json=body).status_code == 413


def test_put_again_changes_and_takes_back_what_get_shows(start: Start, receiver: Receiver) -> None:
    service = start(webhook_networks=NETWORKS)
    board(service, "mine", "yours")
    board(service, "mine", name="c")
    first = put(service, receiver.url, "mine")
    receiver.wait(lambda: receiver.taken)
    again = service.client.put(HOOK, json=shown(service))
    assert again.status_code == 200 and "secret" not in again.json()
    with receiving() as other:
        changed = put(service, other.url, "yours")
        assert changed["ids"] == ["yours"] and changed["created"] == first["created"]
        other.wait(lambda: other.taken)
        move(service, "o", 1)
        other.wait(lambda: len(other.of("yours")) == 2)
        assert not other.of("mine")
    refused = service.client.put(HOOK, json={"url": receiver.url, "resource": "boards/c", "ids": ["mine"]})
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/different")


def test_a_retry_has_the_first_answer_without_the_secret(start: Start, receiver: Receiver) -> None:
    service = start(webhook_networks=NETWORKS)
    board(service, "mine")
    body, key = {"url": receiver.url, "resource": "boards/b", "ids": ["mine"]}, {"Idempotency-Key": "k1"}
    first = service.client.put(HOOK, json=body, headers=key).json()
    again = service.client.put(HOOK, json=body, headers=key)
    assert again.status_code == 201 and again.json()["replayed"]
    assert {**again.json(), "secret": first["secret"]} == {**first, "replayed": True}
    gone = service.client.delete(HOOK, headers={"Idempotency-Key": "k2"}).json()
    assert gone == {"name": "ops"}
    assert service.client.delete(HOOK, headers={"Idempotency-Key": "k2"}).json()["replayed"]
    assert service.client.delete(HOOK).status_code == 404


def test_there_are_at_most_so_many(start: Start, receiver: Receiver) -> None:
    service = start(webhook_networks=NETWORKS, max_webhooks=2)
    board(service, "mine")
    body = {"url": receiver.url, "resource": "boards/b", "ids": ["mine"]}
    made = [service.client.put(f"/v1/webhooks/w{n}", json=body).status_code for n in range(3)]
    assert made == [201, 201, 429]
    listed = service.client.get("/v1/webhooks?limit=1").json()
    assert [one["name"] for one in listed["items"]] == ["w0"]
    rest = service.client.get("/v1/webhooks", params={"cursor": listed["next"]}).json()
    assert [one["name"] for one in rest["items"]] == ["w1"] and rest["next"] is None
    assert "secret" not in json.dumps(listed)


def test_the_rights(start: Start, receiver: Receiver) -> None:
    service = start(webhook_networks=NETWORKS)
    board(service, "mine")
    board(service, "mine", name="c")
    keys: dict[str, str] = {}
    for scope in ("admin", "boards/b:write", "boards/b:subscribe", "boards/b:publish", "boards/c:write"):
        headers = {"Authorization": f"Bearer {keys['admin']}"} if keys else {}
        made = service.client.post("/v1/admin/keys", json={"name": "n", "scopes": [scope]}, headers=headers)
        keys[scope] = made.json()["key"]

    def ask(scope: str, method: str, path: str = HOOK, **body: Any) -> int:
        headers = {"Authorization": f"Bearer {keys[scope]}"}
        found = service.client.request(method, path, json=body or None, headers=headers)
        if path == "/v1/webhooks":
            assert found.status_code == 200
            return len(found.json()["items"])
        return found.status_code

    body: dict[str, Any] = {"url": receiver.url, "resource": "boards/b", "ids": ["mine"]}
    for scope in ("boards/b:subscribe", "boards/b:publish", "boards/c:write"):
        assert ask(scope, "PUT", **body) == 403
    assert ask("boards/b:write", "PUT", **body) == 201
    for scope, status in (
        ("boards/c:write", 403),
        ("boards/b:subscribe", 403),
        ("boards/b:write", 200),
        ("admin", 200),
    ):
        assert ask(scope, "GET") == status
        assert ask(scope, "POST", f"{HOOK}/test") == status
        assert ask(scope, "POST", f"{HOOK}/enable") == status
        assert ask(scope, "GET", "/v1/webhooks") == (status == 200)
        assert ask(scope, "PUT", **body) == status
    assert ask("boards/c:write", "PUT", **{**body, "resource": "boards/c"}) == 403
    assert ask("boards/b:subscribe", "DELETE") == 403
    assert ask("boards/b:write", "DELETE") == 200
    assert service.client.get(HOOK).status_code == 401


def test_ids_outside_the_prefix_of_a_token(start: Start, receiver: Receiver) -> None:
    signs = "0123456789abcdef0123456789abcdef"
    service = start(webhook_networks=NETWORKS, jwt_secret=signs)

    def bearer(**claims: Any) -> dict[str, str]:
        token = jwt.encode({"exp": time.time() + 600, **claims}, signs, algorithm="HS256")
        return {"Authorization": f"Bearer {token}"}

    writer = bearer(scope="boards:write")
    mine = bearer(scope="boards:write", prefix="u1.")
    service.client.put("/v1/boards/b", json=BOARD, headers=writer)
    for id in ("u1.a", "u2.a"):
        service.client.put(f"/v1/boards/b/subscriptions/{id}", json={"k": 3}, headers=writer)
    body = {"url": receiver.url, "resource": "boards/b", "ids": ["u1.a"]}
    other = {**body, "ids": ["u1.a", "u2.a"]}
    assert service.client.put(HOOK, json=other, headers=mine).status_code == 403
    assert service.client.put(HOOK, json=body, headers=mine).status_code == 201
    assert service.client.put("/v1/webhooks/theirs", json=other, headers=writer).status_code == 201
    for method, path in (("GET", ""), ("PUT", ""), ("DELETE", ""), ("POST", "/test"), ("POST", "/enable")):
        sent = body if method == "PUT" else None
        answer = service.client.request(method, f"/v1/webhooks/theirs{path}", headers=mine, json=sent)
        assert answer.status_code == 403, (method, path)
    assert [one["name"] for one in service.client.get("/v1/webhooks", headers=mine).json()["items"]] == ["ops"]
    assert service.client.delete(HOOK, headers=mine).status_code == 200


def test_an_address_that_changes_after_the_put_is_refused_at_the_connection(
    start: Start, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name leads to the allowed network at first, and then to the metadata service."""
    service = start(webhook_networks=(f"127.0.0.1:{receiver.port}",))
    board(service, "mine")
    addresses = ["127.0.0.1"]
    resolve = socket.getaddrinfo

    def getaddrinfo(host: Any, port: Any, *rest: Any, **more: Any) -> Any:
        if host in ("hooks.example", b"hooks.example"):
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (addresses[0], port))]
        return resolve(host, port, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    put(service, f"http://hooks.example:{receiver.port}/in", "mine")
    receiver.wait(lambda: receiver.taken)
    assert receiver.arrived[0].headers["host"] == f"hooks.example:{receiver.port}"
    addresses[0] = "169.254.169.254"
    move(service, "o", 1)
    wait_until(lambda: shown(service)["state"] == "failing")
    assert "not public" in shown(service)["last_error"]
    # A public address is no way round: by http only the allowed networks are reached.
    addresses[0] = "8.8.8.8"
    failures = shown(service)["failures"]
    wait_until(lambda: shown(service)["failures"] > failures + 1)
    assert "not public" in shown(service)["last_error"]
    addresses[0] = "127.0.0.1"
    receiver.wait(lambda: len(receiver.taken) == 2)


def test_a_redirect_leads_nowhere(start: Start, receiver: Receiver) -> None:
    service = start(webhook_networks=NETWORKS)
    board(service, "mine")
    receiver.decide = lambda number, event: 307
    put(service, receiver.url, "mine")
    wait_until(lambda: shown(service)["failures"] >= 2)
    assert shown(service)["last_error"] == "answered 307"
    assert len({one.id for one in receiver.arrived}) == 1


def test_no_answer_in_time_is_a_failure(start: Start, receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.webhooks.receivers.SECONDS", 0.2)
    service = start(webhook_networks=NETWORKS)
    board(service, "mine")
    receiver.decide = lambda number, event: -1 if number < 2 else 204
    put(service, receiver.url, "mine")
    wait_until(lambda: shown(service)["failures"])
    assert shown(service)["last_error"] == "no answer within 0.2 s" or receiver.taken
    receiver.wait(lambda: receiver.taken)
    assert [event["event"] for event in receiver.taken] == ["snapshot"]


def test_secrets_are_sealed_and_in_no_log(
    start: Start, receiver: Receiver, tmp_path: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    service = start(webhook_networks=NETWORKS, seal_key="of 32 random bytes, as a text", access_log="all")
    board(service, "mine")
    secret = put(service, receiver.url, "mine")["secret"]
    receiver.wait(lambda: receiver.taken)
    service.done("snapshots")
    files = [path for path in (tmp_path / "data").rglob("*") if path.is_file()]
    assert any(path.name == "webhooks.parquet" for path in files)
    assert not any(secret.encode() in path.read_bytes() for path in files)
    said = capfd.readouterr()
    assert secret not in said.out + said.err
    assert secret not in service.client.get("/metrics").text


def test_metrics(start: Start, receiver: Receiver) -> None:
    service = start(webhook_networks=NETWORKS)
    board(service, "mine")
    receiver.decide = lambda number, event: 500 if number == 0 else 204
    put(service, receiver.url, "mine")
    wait_until(lambda: shown(service)["delivered"] == 1)
    text = service.client.get("/metrics").text
    for line in (
        'rankcast_webhook_requests_total{result="failed"} 1.0',
        'rankcast_webhook_requests_total{result="taken"} 1.0',
        "rankcast_webhook_events_total 1.0",
        "rankcast_webhook_seconds_count 2.0",
        'rankcast_webhook_waiting{webhook="ops"} 0.0',
        'rankcast_webhook_failing{webhook="ops"} 0.0',
        'rankcast_webhook_disabled{webhook="ops"} 0.0',
    ):
        assert line in text.splitlines()
