"""Keys and scopes over HTTP: the open service, the door that closes, and who may do what behind it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from tests.support.live import RANKCAST, LiveService, StartService
from tests.support.patience import PATIENCE
from tests.support.ports import free_port
from tests.system.http.following import SseFollower, WsFollower
from tests.system.http.talk import Json, Talk, fresh, problem

CONFIG: Json = {"range_attributes": ["distance"], "rank": {"attribute": "delay", "order": "desc"}, "ks": [2]}
KEYS = "/v1/admin/keys"
HTTP = httpx.Client(timeout=PATIENCE, limits=httpx.Limits(max_keepalive_connections=0))
"""Each request on a connection of its own."""


def rankcast(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [RANKCAST, *arguments], capture_output=True, text=True, timeout=PATIENCE, env=os.environ, check=False
    )


class Locked:
    """A service with keys. `talks` has one for each scope, and "admin"."""

    def __init__(self, service: LiveService, admin: str) -> None:
        self.service = service
        self.keys = {"admin": admin}
        self.ids: dict[str, str] = {}
        self.talks = {
            "admin": Talk(service.url, admin),
            "nobody": Talk(service.url),
            "wrong": Talk(service.url, "rk_x"),
        }
        for scope in ("boards:read", "boards:publish", "boards:write", "maps:read"):
            made = self.make(scope)
            self.keys[scope] = made["key"]
            self.talks[scope] = Talk(service.url, made["key"])

    def make(self, *scopes: str) -> Json:
        return self.talks["admin"].good("POST", KEYS, {"name": fresh("key"), "scopes": list(scopes)})


@pytest.fixture(scope="module")
def locked(start_service: StartService, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Locked]:
    data = tmp_path_factory.mktemp("locked") / "data"
    made = rankcast("keys", "create", "--name", "first", "--scope", "admin", "--data", str(data))
    assert made.returncode == 0, made.stderr
    locked = Locked(start_service(data), made.stdout.strip())
    path = "/v1/boards/board"
    locked.talks["admin"].good("PUT", path, CONFIG)
    locked.talks["admin"].good("PUT", f"{path}/objects/a", {"values": {"distance": 1, "delay": 1}})
    locked.talks["admin"].good("PUT", f"{path}/subscriptions/mine", {"k": 2})
    yield locked
    for talk in locked.talks.values():
        talk.close()


# --- the open service -------------------------------------------------------------------------------------------------


def loopback_hosts(port: int) -> list[str]:
    return [f"127.0.0.1:{port}", f"localhost:{port}", "localhost", "127.8.9.1", f"[::1]:{port}", "LOCALHOST"]


def test_an_open_service_answers_loopback_hosts_only(shared: LiveService) -> None:
    port = int(shared.url.rpartition(":")[2])
    for host in loopback_hosts(port):
        assert HTTP.get(f"{shared.url}/v1/boards", headers={"Host": host}).status_code == 200, host
    foreign = ["example.org", f"example.org:{port}", "127.0.0.1.example.org", "localhost.example.org", "10.0.0.1"]
    foreign += ["0.0.0.0", "[2001:db8::1]:80", "127.0.0.1@example.org", "", "rankcast"]
    for host in foreign:
        answer = HTTP.get(f"{shared.url}/v1/boards", headers={"Host": host})
        problem(answer, 403)
        write = HTTP.put(f"{shared.url}/v1/boards/evil", json=CONFIG, headers={"Host": host})
        problem(write, 403)
    assert HTTP.get(f"{shared.url}/v1/boards/evil").status_code == 404


def test_an_open_service_answers_no_foreign_page(shared: LiveService) -> None:
    own = shared.url
    assert HTTP.get(f"{shared.url}/v1/boards", headers={"Origin": own}).status_code == 200
    for origin in ("http://example.org", "https://example.org", "null", "file://", own.replace("127", "128")):
        problem(HTTP.get(f"{shared.url}/v1/boards", headers={"Origin": origin}), 403)
        answer = HTTP.post(f"{shared.url}{KEYS}", json={"name": "x", "scopes": ["admin"]}, headers={"Origin": origin})
        problem(answer, 403)
        with pytest.raises(InvalidStatus) as refused:
            connect(
                own.replace("http", "ws") + "/v1/stream", additional_headers={"Origin": origin}, open_timeout=PATIENCE
            )
        assert refused.value.response.status_code == 403
    other_port = f"http://127.0.0.1:{free_port()}"
    problem(HTTP.get(f"{shared.url}/v1/boards", headers={"Origin": other_port}), 403)
    with pytest.raises(InvalidStatus):
        connect(
            own.replace("http", "ws") + "/v1/stream", additional_headers={"Host": "example.org"}, open_timeout=PATIENCE
        )
    assert HTTP.get(f"{shared.url}/v1/boards").status_code == 200, "the door is still open"


def test_the_first_key_closes_the_door(start_service: StartService) -> None:
    service = start_service()
    talk = Talk(service.url)
    talk.good("PUT", "/v1/boards/b", CONFIG)
    talk.good("PUT", "/v1/boards/b/subscriptions/mine", {"k": 2})
    reader = SseFollower(service.url, "/v1/boards/b/subscriptions/mine/stream")
    socket = WsFollower(service.url)
    socket.subscribe("b", "mine").first()
    reader.first()
    problem(talk.ask("POST", KEYS, {"name": "x", "scopes": ["boards:read"]}), 422, "scopes")
    talk.good("GET", "/v1/boards")
    made = talk.good("POST", KEYS, {"name": "x", "scopes": ["admin"]})
    assert made["id"] and made["key"]
    for path in ("/v1/boards", "/v1/boards/b", KEYS, "/v1/nothing"):
        assert talk.ask("GET", path).status_code in ((401, 404) if path == "/v1/nothing" else (401,))
    problem(talk.ask("POST", KEYS, {"name": "y", "scopes": ["admin"]}), 401)
    problem(talk.ask("PUT", "/v1/boards/c", CONFIG), 401)
    assert reader.wait_end() == "clean", "who came in through the open door must leave"
    socket.wait_end()
    admin = Talk(service.url, made["key"])
    assert admin.good("GET", "/v1/boards/b")["seq"] == 1
    headers = {"Host": "example.org", "Origin": "http://example.org"}
    assert admin.ask("GET", "/v1/boards", headers=headers).status_code == 200
    data = service.data
    assert service.stop() == 0
    again = start_service(data)
    problem(Talk(again.url).ask("GET", "/v1/boards"), 401)
    assert Talk(again.url, made["key"]).good("GET", "/v1/boards/b")["seq"] == 1
    assert again.stop() == 0


# --- the command ------------------------------------------------------------------------------------------------------


def test_keys_are_made_on_the_data_directory(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    refused = rankcast("keys", "create", "--name", "n", "--scope", "boards:read", "--data", data)
    assert refused.returncode != 0 and refused.stdout == "" and "admin" in refused.stderr
    made = rankcast("keys", "create", "--name", "n", "--scope", "admin", "--scope", "boards:read", "--data", data)
    assert made.returncode == 0 and len(made.stdout.split()) == 1 and made.stdout.endswith("\n")
    assert "Traceback" not in refused.stderr + made.stderr


def test_keys_are_made_on_a_running_service(locked: Locked) -> None:
    made = rankcast(
        "keys",
        "create",
        "--name",
        "n",
        "--scope",
        "boards:read",
        "--url",
        locked.service.url,
        "--key",
        locked.keys["admin"],
    )
    assert made.returncode == 0, made.stderr
    assert Talk(locked.service.url, made.stdout.strip()).good("GET", "/v1/boards/board")["seq"] >= 2
    in_use = rankcast("keys", "create", "--name", "n", "--scope", "admin", "--data", str(locked.service.data))
    assert in_use.returncode != 0 and "in use" in in_use.stderr and "Traceback" not in in_use.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_without_keys_other_hosts_are_refused_at_start(tmp_path: Path, host: str) -> None:
    done = rankcast("serve", "--host", host, "--port", str(free_port()), "--data", str(tmp_path / "data"))
    assert done.returncode != 0
    assert host in done.stderr and "key" in done.stderr and "Traceback" not in done.stderr


def test_with_a_key_other_hosts_are_served(start_service: StartService, tmp_path: Path) -> None:
    data = tmp_path / "data"
    made = rankcast("keys", "create", "--name", "n", "--scope", "admin", "--data", str(data))
    service = start_service(data, "--host", "0.0.0.0")
    answer = HTTP.get(f"{service.url}/v1/boards", headers={"Authorization": f"Bearer {made.stdout.strip()}"})
    assert answer.status_code == 200
    assert HTTP.get(f"{service.url}/v1/boards").status_code == 401
    assert service.stop() == 0


# --- behind the door --------------------------------------------------------------------------------------------------

READS: list[tuple[str, str, Any]] = [
    ("GET", "/v1/boards", None),
    ("GET", "/v1/boards/board", None),
    ("GET", "/v1/boards/board/objects", None),
    ("GET", "/v1/boards/board/objects/a", None),
    ("GET", "/v1/boards/board/top", None),
    ("GET", "/v1/boards/board/subscriptions", None),
    ("GET", "/v1/boards/board/subscriptions/mine", None),
]
WRITES: list[tuple[str, str, Any]] = [
    ("PUT", "/v1/boards/other", CONFIG),
    ("PATCH", "/v1/boards/other", {"ks": [2, 3]}),
    ("POST", "/v1/boards/other/events", {"events": []}),
    ("PUT", "/v1/boards/other/objects/a", {"values": {"distance": 1, "delay": 1}}),
    ("PATCH", "/v1/boards/other/objects/a", {"values": {"delay": 2}}),
    ("DELETE", "/v1/boards/other/objects/a", None),
    ("POST", "/v1/boards/other/subscriptions", {"subscriptions": [{"id": "s", "k": 2}]}),
    ("PUT", "/v1/boards/other/subscriptions/t", {"k": 2}),
    ("PATCH", "/v1/boards/other/subscriptions/t", {"k": 3}),
    ("DELETE", "/v1/boards/other/subscriptions/t", None),
    ("POST", "/v1/boards/other/subscriptions/delete", {"ids": ["s"]}),
    ("DELETE", "/v1/boards/other", None),
]
ADMINS: list[tuple[str, str, Any]] = [
    ("GET", KEYS, None),
    ("POST", KEYS, {"name": "n", "scopes": ["boards:read"]}),
    ("DELETE", f"{KEYS}/none", None),
]


def test_every_request_needs_its_scope(locked: Locked) -> None:
    allowed = {"boards:read": READS, "boards:write": [*READS, *WRITES], "maps:read": []}
    for method, path, body in [*READS, *WRITES, *ADMINS]:
        for name in ("nobody", "wrong"):
            answer = locked.talks[name].ask(method, path, body)
            problem(answer, 401)
            assert answer.headers["www-authenticate"].lower().startswith("bearer")
        for scope, calls in allowed.items():
            if (method, path, body) not in calls:
                problem(locked.talks[scope].ask(method, path, body), 403)
    for method, path, body in READS:
        assert locked.talks["boards:read"].ask(method, path, body).status_code == 200
    for method, path, body in WRITES:
        assert locked.talks["boards:write"].ask(method, path, body).status_code in (200, 201), (method, path)
    for method, path, body in [*READS, *WRITES]:
        assert locked.talks["admin"].ask(method, path, body).status_code in (200, 201), (method, path)


def test_a_refusal_does_not_say_what_there_is(locked: Locked) -> None:
    for path in ("/v1/boards/none", "/v1/boards/board/objects/none", "/v1/boards/board/subscriptions/none"):
        problem(locked.talks["nobody"].ask("GET", path), 401)
        problem(locked.talks["maps:read"].ask("GET", path), 403)
    problem(locked.talks["nobody"].ask("POST", "/v1/boards/board/events", b"{"), 401)
    problem(locked.talks["boards:read"].ask("POST", "/v1/boards/board/events", b"{"), 403)


def test_health_needs_no_key(locked: Locked) -> None:
    for path in ("/healthz", "/readyz"):
        assert locked.talks["nobody"].ask("GET", path).status_code == 200
    problem(locked.talks["nobody"].ask("GET", "/metrics"), 401)
    assert locked.talks["maps:read"].ask("GET", "/metrics").status_code == 200


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", "Basic {key}", "{key}", "Bearer {key}x", "Bearer x{key}"])
def test_other_credentials_are_none(locked: Locked, header: str) -> None:
    text = header.replace("{key}", locked.keys["admin"])
    answer = HTTP.get(f"{locked.service.url}/v1/boards", headers={"Authorization": text.strip() or "x"})
    problem(answer, 401)


def test_the_scheme_is_not_case_sensitive(locked: Locked) -> None:
    headers = {"Authorization": f"bearer {locked.keys['admin']}"}
    assert HTTP.get(f"{locked.service.url}/v1/boards", headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"scopes": ["admin"]}, "name"),
        ({"name": "n"}, "scopes"),
        ({"name": "", "scopes": ["admin"]}, "name"),
        ({"name": 1, "scopes": ["admin"]}, "name"),
        ({"name": "n", "scopes": []}, "scopes"),
        ({"name": "n", "scopes": "admin"}, "scopes"),
        ({"name": "n", "scopes": ["root"]}, "scopes[0]"),
        ({"name": "n", "scopes": ["admin", "boards"]}, "scopes[1]"),
        ({"name": "n", "scopes": ["admin"], "more": 1}, "more"),
    ],
)
def test_bad_keys_name_the_field(locked: Locked, body: Json, field: str) -> None:
    before = locked.talks["admin"].pages(KEYS, 1000)
    problem(locked.talks["admin"].ask("POST", KEYS, body), 422, field)
    assert locked.talks["admin"].pages(KEYS, 1000) == before


def test_a_key_is_shown_once(locked: Locked) -> None:
    admin = locked.talks["admin"]
    body = {"name": "once", "scopes": ["boards:read"]}
    headers = {"Idempotency-Key": fresh("once")}
    made = admin.good("POST", KEYS, body, headers=headers)
    again = admin.good("POST", KEYS, body, headers=headers)
    assert again["replayed"] is True and again["id"] == made["id"] and not again.get("key")
    problem(admin.ask("POST", KEYS, {**body, "name": "twice"}, headers=headers), 422)
    shown = [key for key in admin.pages(KEYS, 3) if key["id"] == made["id"]]
    assert len(shown) == 1 and shown[0]["name"] == "once" and shown[0]["scopes"] == ["boards:read"]
    listed = admin.ask("GET", KEYS, params={"limit": 1000}).text
    assert made["key"] not in listed and locked.keys["admin"] not in listed
    for file in locked.service.data.rglob("*"):
        if file.is_file():
            assert made["key"].encode() not in file.read_bytes(), file
    assert made["key"] not in locked.service.log.read_text()


def test_the_last_admin_stays(locked: Locked) -> None:
    admin = locked.talks["admin"]
    mine = next(key["id"] for key in admin.pages(KEYS, 1000) if key["name"] == "first")
    admins = [key["id"] for key in admin.pages(KEYS, 1000) if "admin" in key["scopes"] and key["id"] != mine]
    for key in admins:
        admin.good("DELETE", f"{KEYS}/{key}")
    problem(admin.ask("DELETE", f"{KEYS}/{mine}"), 409)
    second = locked.make("admin")
    admin.good("DELETE", f"{KEYS}/{second['id']}")
    problem(admin.ask("DELETE", f"{KEYS}/{second['id']}"), 404)
    problem(Talk(locked.service.url, second["key"]).ask("GET", "/v1/boards"), 401)
    problem(admin.ask("DELETE", f"{KEYS}/{mine}"), 409)
    admin.good("GET", "/v1/boards")


def test_one_callers_idempotency_keys_are_not_anothers(locked: Locked) -> None:
    headers = {"Idempotency-Key": fresh("mine")}
    body = {"events": [{"op": "update", "id": "a", "values": {"delay": 5}}]}
    one = locked.talks["boards:write"].good("POST", "/v1/boards/board/events", body, headers=headers)
    two = locked.talks["admin"].good("POST", "/v1/boards/board/events", body, headers=headers)
    assert two["seq"] == one["seq"] + 1 and not two.get("replayed")


# --- streams ----------------------------------------------------------------------------------------------------------


def test_streams_need_the_scope(locked: Locked) -> None:
    url, stream = locked.service.url, "/v1/boards/board/subscriptions/mine/stream"
    assert SseFollower(url, stream).status == 401
    assert SseFollower(url, stream, key="rk_x").status == 401
    assert SseFollower(url, stream, key=locked.keys["boards:publish"]).status == 403
    reader = SseFollower(url, stream, key=locked.keys["boards:read"])
    assert reader.first().event == "snapshot"
    reader.leave()
    socket = WsFollower(url, locked.keys["boards:read"])
    assert socket.subscribe("board", "mine").first().event == "snapshot"
    socket.leave()
    with pytest.raises(InvalidStatus) as refused:
        WsFollower(url, "rk_x")
    assert refused.value.response.status_code == 401
    writer = WsFollower(url, locked.keys["boards:publish"])
    writer.subscribe("board", "mine")
    assert writer.answer("error")["problem"]["status"] == 403
    writer.leave()


def test_a_socket_may_say_its_key_first(locked: Locked) -> None:
    socket = WsFollower(locked.service.url)
    socket.subscribe("board", "mine")
    assert socket.answer("error")["problem"]["status"] == 401
    socket.send(op="auth", key="rk_x")
    assert socket.answer("error", 2)["problem"]["status"] == 401
    socket.send(op="auth", key=locked.keys["boards:publish"])
    assert socket.answer("authenticated") == {"event": "authenticated"}
    socket.subscribe("board", "mine")
    assert socket.answer("error", 3)["problem"]["status"] == 403
    socket.send(op="auth", key=locked.keys["boards:read"])
    socket.answer("authenticated", 2)
    assert socket.subscribe("board", "mine").first().event == "snapshot"
    socket.leave()


def test_deleting_a_key_ends_its_streams_and_no_others(locked: Locked) -> None:
    url, stream = locked.service.url, "/v1/boards/board/subscriptions/mine/stream"
    made = locked.make("boards:read")
    mine = SseFollower(url, stream, key=made["key"])
    header = WsFollower(url, made["key"])
    said = WsFollower(url)
    said.send(op="auth", key=made["key"])
    said.answer("authenticated")
    other = SseFollower(url, stream, key=locked.keys["boards:read"])
    other_socket = WsFollower(url, locked.keys["boards:read"])
    followers = [header.subscribe("board", "mine"), said.subscribe("board", "mine")]
    others = [other, other_socket.subscribe("board", "mine")]
    for one in [mine, *followers, *others]:
        one.first()
    locked.talks["admin"].good("DELETE", f"{KEYS}/{made['id']}")
    assert mine.wait_end() == "clean"
    for socket in (header, said):
        socket.wait_end()
    assert SseFollower(url, stream, key=made["key"]).status == 401
    seq = locked.talks["boards:write"].good("PATCH", "/v1/boards/board/objects/a", {"values": {"delay": 1000}})["seq"]
    for one in others:
        one.wait(lambda one=one: one.said[-1].seq == seq)
    for one in (other, other_socket):
        one.leave()
