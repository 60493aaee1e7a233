"""Replicas: what they show, how they join, and what becomes of a group whose leader is lost."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.sync.client import ClientConnection, connect

from tests.support.live import StartService, serve_command
from tests.support.patience import PATIENCE, wait_until
from tests.system.faults import done
from tests.system.group import Group, Proxy
from tests.system.http.talk import Talk
from tests.system.kill_mixed import BOARD, CONFIGS, compare
from tests.system.replicas import make_all, show_the_same, start_alone, wait_for_writes, writing

CONFIG = CONFIGS[BOARD]


@pytest.mark.timeout(900)
def test_a_replica_shows_what_its_leader_shows_whoever_is_asked_to_write(
    start_service: StartService, tmp_path: Path
) -> None:
    group = Group(start_service, tmp_path, 2)
    group.lead()
    make_all(group.url(0))
    group.follow(1)
    with writing(group.url(0), group.url(1)) as writers:
        wait_for_writes(writers, 60)
        for writer in writers[1::2]:
            writer.go.clear()
        group.kill(1)
        wait_for_writes(writers[::2], 30)
        group.follow(1)
        for writer in writers[1::2]:
            writer.go.set()
        wait_for_writes(writers, 60)
    show_the_same(group, 0, 1)
    compare(start_service, group.nodes[0], [write for writer in writers for write in writer.writes])


@pytest.mark.timeout(900)
def test_a_late_joiner_takes_the_snapshot_over_a_link_that_breaks_and_is_killed_meanwhile(
    start_service: StartService, tmp_path: Path
) -> None:
    group = Group(start_service, tmp_path, 2, "--keep-snapshots", "1")
    group.lead()
    make_all(group.url(0))
    with writing(group.url(0)) as writers:
        wait_for_writes(writers, 50)
    talk = Talk(group.url(0))
    events = [{"op": "upsert", "id": f"x{i}", "values": {"x": i % 997, "y": i % 89}} for i in range(50_000)]
    talk.good("POST", f"{BOARD}/events?messages=count", {"events": events})
    done(talk, "rebuilds")
    assert httpx.get(f"{group.url(0)}/v1/admin/log/1").status_code == 404, "the first row is pruned"
    proxy = Proxy(group.ports[0])
    proxy.cut_after = 200_000
    starting = threading.Thread(target=lambda: group.follow(1, by=proxy.url))
    starting.start()
    wait_until(lambda: proxy.cuts == 1)
    starting.join(PATIENCE)
    assert "the snapshot is not here yet" in group.log(1)
    fetched = [json.loads(line) for line in group.log(1).splitlines() if "the snapshot is here" in line]
    total = [json.loads(line)["bytes"] for line in group.log(1).splitlines() if "a snapshot is taken" in line]
    assert 0 < fetched[0]["fetched"] < total[0], "it went on where it was cut off"
    show_the_same(group, 0, 1)
    proxy.close()


@pytest.mark.timeout(900)
def test_a_replica_killed_while_it_joins_begins_where_it_was(start_service: StartService, tmp_path: Path) -> None:
    group = Group(start_service, tmp_path, 2, "--keep-snapshots", "1")
    group.lead()
    talk = Talk(group.url(0))
    talk.good("PUT", BOARD, CONFIG)
    events = [{"op": "upsert", "id": f"x{i}", "values": {"x": i % 997, "y": i % 89}} for i in range(50_000)]
    talk.good("POST", f"{BOARD}/events?messages=count", {"events": events})
    done(talk, "snapshots")
    proxy = Proxy(group.ports[0])
    proxy.cut_after = 150_000
    command = serve_command("--data", group.data(1), "--follow", proxy.url, port=group.ports[1])
    with (tmp_path / "log").open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as joining:
        wait_until(lambda: proxy.cuts == 1)
        proxy.cut()
        wait_until(lambda: (group.data(1) / "JOINING").exists())
        joining.kill()
    assert not (group.data(1) / "EPOCH").exists()
    proxy.mend()
    group.follow(1, by=proxy.url)
    assert state_of_board(group, 0) == state_of_board(group, 1)
    proxy.close()


def state_of_board(group: Group, node: int) -> Any:
    talk = Talk(group.url(node))
    return talk.good("GET", BOARD), talk.good("GET", f"{BOARD}/objects?limit=1000")


@pytest.mark.timeout(900)
def test_a_replica_that_was_away_too_long_takes_a_new_snapshot_by_itself(
    start_service: StartService, tmp_path: Path
) -> None:
    group = Group(start_service, tmp_path, 2, "--keep-snapshots", "1")
    group.lead()
    make_all(group.url(0))
    group.follow(1)
    group.kill(1)
    with writing(group.url(0)) as writers:
        wait_for_writes(writers, 40)
    done(Talk(group.url(0)), "snapshots")
    assert httpx.get(f"{group.url(0)}/v1/admin/log/1").status_code == 404, "the first row is pruned"
    group.follow(1)
    show_the_same(group, 0, 1)
    assert (group.data(1) / "EPOCH").read_text() == (group.data(0) / "EPOCH").read_text()


@pytest.mark.timeout(900)
def test_no_answered_write_is_lost_when_a_leader_with_a_synchronous_replica_is_killed(
    start_service: StartService, tmp_path: Path
) -> None:
    group = Group(start_service, tmp_path, 2, "--sync-replicas", "1")
    group.lead()
    group.follow(1)
    make_all(group.url(0))
    leader = 0
    with writing(group.url(0)) as writers:
        for _ in range(3):
            other = 1 - leader
            wait_for_writes(writers, 40)
            group.kill(leader)
            answer = group.promote(other)
            assert answer.status_code == 200, answer.text
            for writer in writers:
                writer.url = group.url(other)
            group.follow(leader)
            leader = other
        wait_for_writes(writers, 40)
    assert group.about(leader)["term"] == 3
    show_the_same(group, 0, 1)
    compare(start_service, group.nodes[leader], [write for writer in writers for write in writer.writes])


@pytest.mark.timeout(900)
def test_a_leader_that_was_stopped_in_the_middle_of_a_commit_answers_no_write_when_it_wakes(
    start_service: StartService, tmp_path: Path
) -> None:
    group = Group(start_service, tmp_path, 2, "--sync-replicas", "1", "--sync-seconds", "3")
    group.lead()
    group.follow(1)
    make_all(group.url(0))
    answers: list[tuple[str, int, Any]] = []
    going = threading.Event()

    def write(number: int) -> None:
        with httpx.Client(base_url=group.url(0), timeout=PATIENCE) as http:
            for i in range(10_000):
                key = f"{number}-{i}"
                body = {"values": {"x": number, "y": i}}
                try:
                    answer = http.put(f"{BOARD}/objects/{number}", json=body, headers={"Idempotency-Key": key})
                except httpx.TransportError:
                    return
                answers.append((key, answer.status_code, answer.json()))
                if going.is_set() or answer.status_code == 503:
                    return

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    wait_until(lambda: len(answers) > 100)
    group.nodes[0].process.send_signal(signal.SIGSTOP)
    before = len(answers)
    assert group.promote(1, force=True).status_code == 200
    term = group.about(1)["term"]
    held = Talk(group.url(1)).good("GET", BOARD)["seq"]
    going.set()
    group.nodes[0].process.send_signal(signal.SIGCONT)
    for thread in threads:
        thread.join(PATIENCE)
    late = answers[before:]
    # What was on its way to a client when it was stopped is at the replica, and has one of its seqs.
    assert all(status == 503 or body["seq"] <= held for _, status, body in late), late
    assert any(status == 503 for _, status, _ in late) or len(late) < 8
    group.wait_for(0, role="replica", term=term, ready=True)
    group.in_step(0, 1)
    assert state_of_board(group, 0) == state_of_board(group, 1)
    last = {key.partition("-")[0]: body["seq"] for key, status, body in answers if status < 300}
    assert last, "there were writes"
    # A retry under its key finds out, at whichever node.
    for key, status, body in [*answers[:3], *late]:
        number, _, i = key.partition("-")
        again = httpx.put(
            f"{group.url(0)}{BOARD}/objects/{number}",
            json={"values": {"x": int(number), "y": int(i)}},
            headers={"Idempotency-Key": key},
            timeout=PATIENCE,
        )
        assert again.status_code in (200, 201), again.text
        assert status == 503 or again.json()["seq"] == body["seq"]


@pytest.mark.timeout(900)
def test_a_leader_that_comes_back_keeps_what_was_never_replicated_aside(
    start_service: StartService, tmp_path: Path
) -> None:
    group = Group(start_service, tmp_path, 2)
    group.lead()
    make_all(group.url(0))
    group.follow(1)
    group.in_step(0, 1)
    group.kill(1)
    talk = Talk(group.url(0))
    lost = talk.good("PUT", f"{BOARD}/objects/lost", {"values": {"x": 1, "y": 1}})
    group.kill(0)
    start_alone(group, 1)
    assert group.promote(1).status_code == 200
    kept = Talk(group.url(1)).good("PUT", f"{BOARD}/objects/kept", {"values": {"x": 2, "y": 2}})
    assert kept["seq"] == lost["seq"], "the history goes another way"
    group.lead(0)
    about = group.wait_for(0, role="replica", ready=True)
    assert about["term"] == 1
    group.in_step(0, 1)
    assert state_of_board(group, 0) == state_of_board(group, 1)
    (aside,) = (group.data(0) / "aside").iterdir()
    rows = [json.loads(line) for line in aside.read_text().splitlines()]
    assert [row["resource"] for row in rows] == ["boards/b"]
    assert aside.stat().st_mode & 0o077 == 0


class Reader(threading.Thread):
    """Follows a subscription of the board by server-sent events, from a cursor on."""

    def __init__(self, url: str, after: str | None = None) -> None:
        super().__init__(daemon=True)
        self.events: list[tuple[str, str, Any]] = []
        self._url = f"{url}{BOARD}/subscriptions/mine/stream"
        self._after = after
        self.start()

    def run(self) -> None:
        headers = {} if self._after is None else {"Last-Event-ID": self._after}
        try:
            with httpx.stream("GET", self._url, headers=headers, timeout=PATIENCE) as answer:
                id = event = ""
                for line in answer.iter_lines():
                    name, _, value = line.partition(": ")
                    if name == "id":
                        id = value
                    elif name == "event":
                        event = value
                    elif name == "data":
                        self.events.append((id, event, json.loads(value)))
        except httpx.HTTPError:
            pass


def test_a_cursor_of_one_node_is_good_at_another_before_and_after_a_promotion(
    start_service: StartService, tmp_path: Path
) -> None:
    group = Group(start_service, tmp_path, 2)
    group.lead()
    talk = Talk(group.url(0))
    talk.good("PUT", BOARD, CONFIG)
    talk.good("PUT", f"{BOARD}/subscriptions/mine", {"range": {"x": [0, 100]}, "k": 3})
    group.follow(1)
    here, there = Reader(group.url(0)), Reader(group.url(1))
    wait_until(lambda: here.events and there.events)

    def put(node: int, y: int) -> int:
        answer = Talk(group.url(node)).good("PUT", f"{BOARD}/objects/o{y}", {"values": {"x": 5, "y": y}})
        return int(answer["seq"])

    seqs = [put(y % 2, y) for y in range(1, 5)]
    wait_until(lambda: len(here.events) == len(there.events) == 1 + len(seqs))
    assert here.events == there.events, "the same epoch, seqs and changes"
    cursor = here.events[2][0]
    moved = Reader(group.url(1), cursor)
    wait_until(lambda: len(moved.events) == 2)
    assert moved.events == here.events[3:], "what was missed, and no reset"
    assert group.promote(1).status_code == 200
    seqs.append(put(1, 9))
    wait_until(lambda: there.events[-1][2]["seq"] == seqs[-1])
    before, after = Reader(group.url(1), cursor), Reader(group.url(1), there.events[-2][0])
    wait_until(lambda: len(before.events) == 3 and len(after.events) == 1)
    assert [one[2]["seq"] for one in before.events] == seqs[2:]
    assert after.events == there.events[-1:]
    assert all(event == "change" for _, event, _ in before.events)
    beyond = Reader(group.url(1), f"{cursor.partition(':')[0]}:{seqs[-1]}")
    wait_until(lambda: beyond.events)
    assert beyond.events[0][1] == "reset", "the first leader never had this seq"


def test_a_planned_change_of_leader_loses_nothing_and_takes_a_moment(
    start_service: StartService, tmp_path: Path
) -> None:
    group = Group(start_service, tmp_path, 2)
    group.lead()
    make_all(group.url(0))
    group.follow(1)
    with writing(group.url(0), group.url(1)) as writers:
        wait_for_writes(writers, 40)
        answer = group.promote(1)
        assert answer.status_code == 200 and answer.json()["term"] == 1, answer.text
        group.wait_for(0, role="replica", ready=True)
        wait_for_writes(writers, 40)
    show_the_same(group, 0, 1)
    compare(start_service, group.nodes[1], [write for writer in writers for write in writer.writes])


def test_a_write_is_answered_503_without_its_replica_and_a_retry_finds_out(
    start_service: StartService, tmp_path: Path
) -> None:
    group = Group(start_service, tmp_path, 2, "--sync-replicas", "1", "--sync-seconds", "1")
    group.lead()
    config = {"range_attributes": ["x"], "rank": {"attribute": "y", "order": "desc"}, "ks": [3]}

    def make() -> httpx.Response:
        headers = {"Idempotency-Key": "make"}
        return httpx.put(f"{group.url(0)}/v1/boards/c", json=config, headers=headers, timeout=60)

    first = make()
    assert first.status_code == 503 and first.json()["type"] == "/problems/not-replicated", first.text
    assert make().status_code == 503, "it is still at no replica"
    group.follow(1)
    again = make()
    assert again.status_code == 201 and again.json()["replayed"], again.text
    assert httpx.get(f"{group.url(1)}/v1/boards/c").json()["seq"] == again.json()["seq"]


def test_keys_hold_at_all_nodes_and_webhooks_are_the_leaders(start_service: StartService, tmp_path: Path) -> None:
    group = Group(start_service, tmp_path, 2)
    group.lead()
    made = httpx.post(f"{group.url(0)}/v1/admin/keys", json={"name": "ops", "scopes": ["admin"]})
    key = made.json()["key"]
    group.follow(1, "--key", key)
    assert httpx.get(f"{group.url(1)}/v1/boards").status_code == 401
    ours = {"Authorization": f"Bearer {key}"}
    scopes = {"name": "reader", "scopes": ["boards:read"]}
    reader = httpx.post(f"{group.url(1)}/v1/admin/keys", json=scopes, headers=ours).json()
    theirs = {"Authorization": f"Bearer {reader['key']}"}
    for node in (0, 1):
        assert httpx.get(f"{group.url(node)}/v1/boards", headers=theirs).status_code == 200
        refused = httpx.put(f"{group.url(node)}/v1/boards/b", json=CONFIG, headers=theirs)
        assert refused.status_code == 403
    assert httpx.put(f"{group.url(1)}/v1/boards/b", json=CONFIG, headers=ours).status_code == 201
    gone = httpx.delete(f"{group.url(1)}/v1/admin/keys/{reader['id']}", headers=ours)
    assert gone.status_code == 200
    for node in (0, 1):
        assert httpx.get(f"{group.url(node)}/v1/boards", headers=theirs).status_code == 401
    assert httpx.get(f"{group.url(1)}/v1/webhooks", headers=ours).json() == {"items": [], "next": None}


def test_a_lifetime_is_the_leaders_and_is_prolonged_by_a_stream_at_a_replica(
    start_service: StartService, tmp_path: Path
) -> None:
    group = Group(start_service, tmp_path, 2)
    group.lead()
    talk = Talk(group.url(0))
    talk.good("PUT", BOARD, CONFIG)
    group.follow(1)
    ttl = {"range": {"x": [0, 100]}, "k": 3, "ttl": 4}
    for id in ("mine", "other"):
        talk.good("PUT", f"{BOARD}/subscriptions/{id}", ttl)
    reader = Reader(group.url(1))
    wait_until(lambda: reader.events)

    def there(node: int) -> list[str]:
        return [one["id"] for one in Talk(group.url(node)).good("GET", f"{BOARD}/subscriptions")["items"]]

    began = time.monotonic()
    wait_until(lambda: there(0) == ["mine"], pause=0.1)
    wait_until(lambda: there(1) == ["mine"])
    wait_until(lambda: time.monotonic() > began + 10, pause=0.2)
    assert there(0) == there(1) == ["mine"]


def test_a_data_directory_with_a_history_of_its_own_does_not_follow(
    start_service: StartService, tmp_path: Path
) -> None:
    group = Group(start_service, tmp_path, 2)
    group.lead()
    own = start_service(group.data(1))
    assert own.stop() == 0
    with pytest.raises(pytest.fail.Exception, match="has a history of its own"):
        group.follow(1)


def test_requests_on_a_socket_of_a_replica_are_carried_out_by_the_leader(
    start_service: StartService, tmp_path: Path
) -> None:
    group = Group(start_service, tmp_path, 2)
    group.lead()
    key = httpx.post(f"{group.url(0)}/v1/admin/keys", json={"name": "ops", "scopes": ["admin"]}).json()["key"]
    group.follow(1, "--key", key)

    def put(socket: ClientConnection, y: int, idempotency_key: str) -> Any:
        request = {
            "op": "request",
            "ref": y,
            "method": "PUT",
            "path": f"{BOARD}/objects/o{y}",
            "headers": {"Idempotency-Key": idempotency_key},
            "body": {"values": {"x": 1, "y": y}},
        }
        socket.send(json.dumps(request))
        return json.loads(socket.recv())

    def read(socket: ClientConnection, path: str) -> Any:
        socket.send(json.dumps({"op": "request", "ref": 0, "method": "GET", "path": path}))
        return json.loads(socket.recv())["body"]

    ours = {"Authorization": f"Bearer {key}"}
    httpx.put(f"{group.url(1)}{BOARD}", json=CONFIG, headers=ours).raise_for_status()
    address = f"{group.url(1).replace('http', 'ws', 1)}/v1/stream"
    with connect(address, additional_headers=ours) as socket:
        first = put(socket, 1, "a")
        assert first["status"] == 201 and first["body"]["seq"] == 1
        assert read(socket, f"{BOARD}/objects/o1")["values"] == {"x": 1, "y": 1}, "it reads its own write"
    with connect(address) as socket:
        socket.send(json.dumps({"op": "auth", "key": key}))
        assert json.loads(socket.recv())["event"] == "authenticated"
        assert put(socket, 2, "b")["body"]["seq"] == 2
    there = f"{group.url(0).replace('http', 'ws', 1)}/v1/stream"
    with connect(there, additional_headers=ours) as socket:
        again = put(socket, 1, "a")
        assert again["status"] == 201 and again["body"]["replayed"], "the same request, at another node"


def test_webhooks_go_on_with_reset_at_the_node_that_was_promoted(start_service: StartService, tmp_path: Path) -> None:
    group = Group(start_service, tmp_path, 2)
    options = ("--webhook-networks", "127.0.0.1/32")
    group.lead(0, *options)
    talk = Talk(group.url(0))
    talk.good("PUT", BOARD, CONFIG)
    talk.good("PUT", f"{BOARD}/subscriptions/mine", {"range": {"x": [0, 100]}, "k": 3})
    group.follow(1, *options)
    came: list[Any] = []

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            came.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        hook = {"url": f"http://127.0.0.1:{server.server_port}/in", "resource": BOARD[4:], "ids": ["mine"]}
        made = Talk(group.url(1)).good("PUT", "/v1/webhooks/ops", hook)
        assert made["secret"]
        wait_until(lambda: [one["event"] for one in came] == ["snapshot"], why=lambda: came)
        assert group.promote(1).status_code == 200
        seq = Talk(group.url(1)).good("PUT", f"{BOARD}/objects/o1", {"values": {"x": 1, "y": 1}})["seq"]
        wait_until(lambda: came[-1]["seq"] == seq or came[-1].get("cursor", "").endswith(f":{seq}"), why=lambda: came)
        assert came[1]["event"] == "reset"
        server.shutdown()
