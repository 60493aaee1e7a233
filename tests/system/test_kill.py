"""The service is killed, starved and shut out of its log: what it answered is there exactly once, and no more."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from random import Random

import pytest

from tests.oracles.service import covers
from tests.support.live import StartService, serve_command
from tests.support.patience import PATIENCE, wait_until
from tests.system.disks import starve
from tests.system.http.following import SseFollower
from tests.system.http.talk import Json, Talk, problem
from tests.system.kill_boards import CONFIG, KINDS, kill_under_load, replay_everything
from tests.system.load import Load


def test_killed_ten_times_in_a_row(start_service: StartService) -> None:
    kill_under_load(start_service, Random(20))


@pytest.mark.soak
@pytest.mark.parametrize("number", range(20))
def test_killed_at_other_moments_each_time(start_service: StartService, number: int) -> None:
    seed = time.time_ns()
    print(f"seed {seed}")
    kill_under_load(start_service, Random(seed))


def test_what_is_not_a_board_survives_a_kill_too(start_service: StartService) -> None:
    service = start_service(as_user=True)
    talk = Talk(service.url)
    talk.good("PUT", "/v1/boards/gone", CONFIG)
    talk.good("PUT", "/v1/boards/again", CONFIG)
    talk.good("PUT", "/v1/boards/again/objects/a", {"values": {"distance": 1, "delay": 1}})
    talk.good("DELETE", "/v1/boards/again")
    talk.good("PUT", "/v1/boards/again", {**CONFIG, "ks": [7]})
    talk.good("PATCH", "/v1/boards/again", {"ks": [7, 9], "algorithm": "dense"})
    talk.good("PUT", "/v1/boards/again/subscriptions/mine", {"k": 9, "ttl": 10_000, "range": {"distance": [None, 5]}})
    talk.good("PUT", "/v1/boards/again/objects/b", {"values": {"distance": 1, "delay": 2}, "payload": {"x": [1, None]}})
    seq = talk.good("DELETE", "/v1/boards/gone")["seq"]
    state = talk.state("again")
    key = talk.good("POST", "/v1/admin/keys", {"name": "n", "scopes": ["admin"]})["key"]
    service.stop(signal.SIGKILL)
    service = start_service(service.data)
    problem(Talk(service.url).ask("GET", "/v1/boards"), 401)
    after = Talk(service.url, key)
    assert after.state("again") == state
    assert after.good("GET", "/v1/boards/again/objects/b")["created"] == 0
    assert after.good("PUT", "/v1/boards/gone", CONFIG)["seq"] == seq + 1
    assert service.stop() == 0


def test_a_second_process_is_refused(start_service: StartService) -> None:
    service = start_service()
    talk = Talk(service.url)
    talk.good("PUT", "/v1/boards/b", CONFIG)
    command = serve_command("--data", service.data)
    second = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert second.returncode != 0
    assert str(service.data) in second.stderr and "in use" in second.stderr and "Traceback" not in second.stderr
    assert talk.good("PUT", "/v1/boards/b/subscriptions/s", {"k": 2})["seq"] == 1
    service.stop(signal.SIGKILL)
    third = start_service(service.data)
    assert Talk(third.url).good("GET", "/v1/boards/b")["seq"] == 1, "a dead process holds no lock"
    assert third.stop() == 0


def test_without_a_log_nothing_changes_and_reads_go_on(start_service: StartService) -> None:
    service = start_service(None, env={"RANKCAST_HEARTBEAT_SECONDS": "0.2"})
    talk = Talk(service.url)
    talk.good("PUT", "/v1/boards/b", CONFIG)
    talk.good("PUT", "/v1/boards/b/subscriptions/mine", {"k": 2})
    events = [{"op": "upsert", "id": f"o{n}", "values": {"distance": n, "delay": n}} for n in range(200)]
    talk.good("POST", "/v1/boards/b/events", {"events": events})
    state = talk.state("b")
    reader = SseFollower(service.url, "/v1/boards/b/subscriptions/mine/stream")
    reader.first()
    starve(service.process.pid, True)
    new = {"values": {"distance": 1, "delay": 1}}
    writes: list[tuple[str, str, Json | None]] = [
        ("PUT", "/v1/boards/b/objects/new", new),
        ("PATCH", "/v1/boards/b/objects/o1", {"values": {"delay": 5000}}),
        ("DELETE", "/v1/boards/b/objects/o1", None),
        ("POST", "/v1/boards/b/events", {"events": events}),
        ("POST", "/v1/boards/b/subscriptions", {"subscriptions": [{"id": "other", "k": 2}]}),
        ("PUT", "/v1/boards/b/subscriptions/mine", {"k": 5}),
        ("PATCH", "/v1/boards/b/subscriptions/mine", {"range": {"distance": [1, 2]}}),
        ("DELETE", "/v1/boards/b/subscriptions/mine", None),
        ("POST", "/v1/boards/b/subscriptions/delete", {"ids": ["mine"]}),
        ("PATCH", "/v1/boards/b", {"ks": [2, 5, 7]}),
        ("PUT", "/v1/boards/c", CONFIG),
        ("DELETE", "/v1/boards/b", None),
        ("POST", "/v1/admin/keys", {"name": "n", "scopes": ["admin"]}),
    ]
    for number, (method, path, body) in enumerate(writes):
        headers = {"Idempotency-Key": f"starved-{number}"}
        found = problem(talk.ask(method, path, body, headers=headers), 503)
        assert found["type"] == "/problems/log-unavailable", (method, path, found)
        assert talk.state("b") == state, (method, path)
    problem(talk.ask("GET", "/v1/boards/c"), 404)
    assert talk.ask("GET", "/readyz").status_code in (200, 503)
    assert [said.event for said in reader.said] == ["snapshot"] and reader.ended is None
    starve(service.process.pid, False)
    seq = state["board"]["seq"]
    headers = {"Idempotency-Key": "starved-1"}
    told = talk.good("PATCH", "/v1/boards/b/objects/o1", {"values": {"delay": 5000}}, headers=headers)
    assert told["seq"] == seq + 1 and not told.get("replayed"), "refusals are not kept"
    reader.wait(lambda: reader.said[-1].seq == seq + 1)
    assert talk.good("PUT", "/v1/boards/b/objects/new", new)["seq"] == seq + 2
    assert talk.good("GET", "/v1/boards/b/objects/new")["created"] == 200
    assert talk.good("PUT", "/v1/boards/c", CONFIG)["seq"] == 0
    after = talk.state("b")
    service.stop(signal.SIGKILL)
    service = start_service(service.data)
    assert covers(Talk(service.url).state("b"), after)
    assert service.stop() == 0


def test_a_log_that_comes_and_goes_under_load(start_service: StartService) -> None:
    """Groups of writes are refused whole while others are accepted: nothing is lost, doubled or half there."""
    draw = Random(7)
    service = start_service()
    load = Load(service.url, [*KINDS, "bulk"])
    load.start()
    for number in range(12):
        before = load.answered
        wait_until(lambda before=before: load.answered >= before + draw.randrange(5, 60))
        starve(service.process.pid, True)
        if number % 4 == 3:
            wait_until(lambda: any(writer.writes[-1].tried > 1 for writer in load.writers))
        else:
            time.sleep(draw.random() * 0.2)
        starve(service.process.pid, False)
    load.hold()
    pending = [writer.writes[-1] for writer in load.writers if writer.writes[-1].answer is None]
    load.gate.set()
    wait_until(lambda: all(write.answer is not None for write in pending))
    load.stop()
    talk = Talk(service.url)
    load.check(talk, [load.read(talk)])
    assert any(write.tried > 1 for writer in load.writers for write in writer.writes), "nothing was ever refused"
    replay_everything(load, talk)
    service.stop(signal.SIGKILL)
    service = start_service(service.data)
    talk = Talk(service.url)
    load.compare(*load.read(talk))
    replay_everything(load, talk)
    assert service.stop() == 0


def test_a_damaged_tail_of_the_log_is_said_and_not_served(start_service: StartService) -> None:
    """A database that is no database: the service does not start, and says why without a traceback."""
    service = start_service()
    Talk(service.url).good("PUT", "/v1/boards/b", CONFIG)
    assert service.stop() == 0
    database = next(path for path in service.data.iterdir() if path.suffix == ".db")
    good = database.read_bytes()
    database.write_bytes(b"not a database at all" * 400)
    command = serve_command("--data", service.data)
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode != 0 and done.stderr.strip() and "Traceback" not in done.stderr
    database.write_bytes(good)
    again = start_service(service.data)
    assert json.loads(Talk(again.url).ask("GET", "/v1/boards/b").text)["seq"] == 0
    assert again.stop() == 0
