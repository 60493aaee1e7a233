"""The log on PostgreSQL: the server crashes, freezes and comes back under load, and so does the service."""

from __future__ import annotations

import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from random import Random

import httpx
import pytest

from tests.oracles.service import covers
from tests.support.live import LiveService, StartService, serve_command
from tests.support.patience import PATIENCE, wait_until
from tests.system.http.talk import Json, Talk, problem
from tests.system.kill_boards import CONFIG, KINDS, kill_under_load, replay_everything
from tests.system.load import Load
from tests.system.postgres import PostgresServer, own_postgres

ROUNDS = 6


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with own_postgres() as made:
        yield made


@pytest.fixture
def url(server: PostgresServer) -> str:
    """An empty database."""
    return server.new_database()


def refused_start(data: Path, url: str) -> str:
    """What a service says that does not start."""
    command = serve_command("--data", data, "--database", url)
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode != 0 and "Traceback" not in done.stderr
    return done.stderr


def rows(server: PostgresServer, url: str) -> list[tuple[object, ...]]:
    return server.ask("select lsn, first_seq, last_seq from log order by lsn", url)


def test_a_server_that_crashes_under_load_loses_and_doubles_nothing(
    start_service: StartService, server: PostgresServer, url: str
) -> None:
    """Reads go on without it, writes are refused whole, and the service goes on by itself once it is back."""
    draw = Random(3)
    service = start_service(None, "--database", url)
    load = Load(service.url, [*KINDS, "bulk"])
    talk = Talk(service.url)
    load.start()
    for number in range(ROUNDS):
        before = load.answered
        wait_until(lambda before=before: load.answered >= before + draw.randrange(20, 100))
        server.stop("immediate" if number % 3 < 2 else "fast")
        refused = talk.ask("PUT", f"{load.path}/objects/refused", {"values": {"distance": 1, "delay": 1}})
        assert problem(refused, 503)["type"] == "/problems/log-unavailable"
        # What was logged before may still be applied, so the state need not stand still.
        talk.pages(f"{load.path}/objects", 1000)
        talk.pages(f"{load.path}/subscriptions", 1000)
        server.start()
        load.hold()
        state = load.read(talk)
        assert not any(one["id"] == "refused" for one in state[1][1])
        load.check(talk, [state])
        load.gate.set()
    load.stop()
    writes = load.check(talk, [load.read(talk)])
    refusals = sum(write.tried > 1 for writer in load.writers for write in writer.writes)
    assert refusals > 0, "nothing was ever refused"
    print(f"{writes} writes, {refusals} of them tried more than once")
    replay_everything(load, talk)
    numbers = [lsn for lsn, _, _ in rows(server, url)]
    assert numbers == list(range(1, len(numbers) + 1))
    service.stop(signal.SIGKILL)
    service = start_service(service.data, "--database", url)
    load.compare(*load.read(Talk(service.url)))
    assert service.stop() == 0


def test_killed_in_a_row_on_postgres(start_service: StartService, url: str) -> None:
    kill_under_load(start_service, Random(21), "--database", url)


def test_service_and_server_crash_together(start_service: StartService, server: PostgresServer, url: str) -> None:
    service = start_service(None, "--database", url)
    load = Load(service.url, KINDS)
    load.start()
    wait_until(lambda: load.answered > 100)
    load.pause()
    server.stop("immediate")
    service.stop(signal.SIGKILL)
    load.wait_held()
    assert "cannot be opened" in refused_start(service.data, url)
    server.start()
    service = start_service(service.data, "--database", url)
    load.url = service.url
    talk = Talk(service.url)
    seen = load.read(talk)
    load.stop()
    load.check(talk, [seen, load.read(talk)])
    replay_everything(load, talk)
    assert service.stop() == 0


def test_a_write_after_a_quiet_restart_of_the_server_is_not_refused(
    start_service: StartService, server: PostgresServer, url: str
) -> None:
    service = start_service(None, "--database", url)
    talk = Talk(service.url)
    talk.good("PUT", "/v1/boards/b", CONFIG)
    server.stop()
    server.start()
    assert talk.good("PUT", "/v1/boards/b/subscriptions/s", {"k": 2})["seq"] == 1
    key = talk.good("POST", "/v1/admin/keys", {"name": "n", "scopes": ["admin"]})["key"]
    assert service.stop() == 0
    service = start_service(service.data, "--database", url)
    assert Talk(service.url, key).good("GET", "/v1/boards/b")["seq"] == 1
    assert service.stop() == 0


def test_two_services_do_not_share_a_database(start_service: StartService, url: str, tmp_path: Path) -> None:
    service = start_service(None, "--database", url)
    talk = Talk(service.url)
    talk.good("PUT", "/v1/boards/b", CONFIG)
    told = refused_start(tmp_path / "other", url)
    assert "is in use by another service" in told and url in told
    assert talk.good("PUT", "/v1/boards/b/subscriptions/s", {"k": 2})["seq"] == 1
    assert service.stop() == 0
    told = refused_start(tmp_path / "other", url)
    assert "belongs to another data directory" in told and url in told and str(tmp_path / "other") in told
    service = start_service(service.data, "--database", url)
    assert Talk(service.url).good("GET", "/v1/boards/b")["seq"] == 1
    assert service.stop() == 0


def test_a_service_that_was_replaced_writes_nothing_and_ends(
    start_service: StartService, server: PostgresServer, url: str, tmp_path: Path
) -> None:
    """The first one is cut off from the database, and a second one with a copy of its data directory takes over."""
    first = start_service(None, "--database", url)
    talk = Talk(first.url)
    talk.good("PUT", "/v1/boards/b", CONFIG)
    talk.good("PUT", "/v1/boards/c", CONFIG)
    talk.good("PUT", "/v1/boards/c/subscriptions/s", {"k": 2})
    stream, ended = follow_to_the_end(first, "/v1/boards/c/subscriptions/s/stream")
    first.process.send_signal(signal.SIGSTOP)
    server.ask(f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{url.rpartition('/')[2]}'")
    (tmp_path / "copy").mkdir()
    for name in ("FORMAT", "EPOCH"):
        shutil.copy(first.data / name, tmp_path / "copy" / name)
    second = start_service(tmp_path / "copy", "--database", url)
    other = Talk(second.url)
    for n in range(5):
        other.good("PUT", f"/v1/boards/b/subscriptions/s{n}", {"k": 2})
    before = rows(server, url)
    first.process.send_signal(signal.SIGCONT)
    for n in range(3):
        try:
            problem(talk.ask("PUT", f"/v1/boards/b/subscriptions/t{n}", {"k": 2}), 503)
            problem(talk.ask("POST", "/v1/admin/keys", {"name": "n", "scopes": ["admin"]}), 503)
        except httpx.TransportError:
            assert ending(first)
    assert first.process.wait(PATIENCE) == 1
    stream.join(PATIENCE)
    assert ended == ["at its end"]
    told = first.log.read_text()
    assert "the service has ended: another service has taken the database" in told and "Traceback" not in told
    assert rows(server, url) == before
    assert other.good("PUT", "/v1/boards/b/subscriptions/s9", {"k": 2})["seq"] == 6
    assert second.stop() == 0


def test_a_replaced_service_without_writes_ends(start_service: StartService, server: PostgresServer, url: str) -> None:
    """It is ready until another has the database, and then not for long."""
    service = start_service(None, "--database", url)
    talk = Talk(service.url)
    talk.good("PUT", "/v1/boards/b", CONFIG)
    talk.good("PUT", "/v1/boards/b/subscriptions/s", {"k": 2})
    stream, ended = follow_to_the_end(service, "/v1/boards/b/subscriptions/s/stream")
    server.ask("update meta set value = 'another' where key = 'owner' returning 1", url)
    assert service.process.wait(PATIENCE) == 1
    stream.join(PATIENCE)
    assert ended == ["at its end"]
    assert "the service has ended: another service has taken the database" in service.log.read_text()


def ending(service: LiveService) -> bool:
    """Whether a service that takes no connections is about to end, or has ended."""
    return "the service cannot go on" in service.log.read_text()


def follow_to_the_end(service: LiveService, path: str) -> tuple[threading.Thread, list[str]]:
    """Read a stream in the background; the list gets a word on how it ended. Returns when it is open."""
    ended: list[str] = []
    opened = threading.Event()

    def read() -> None:
        with httpx.stream("GET", service.url + path, timeout=PATIENCE) as answer:
            assert answer.status_code == 200, answer.read()
            opened.set()
            for _ in answer.iter_bytes():
                pass
        ended.append("at its end")

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    assert opened.wait(PATIENCE)
    return thread, ended


def write_in_the_background(
    service: LiveService, path: str, body: Json
) -> tuple[threading.Thread, list[httpx.Response]]:
    answers: list[httpx.Response] = []

    def write() -> None:
        talk = Talk(service.url)
        answers.append(talk.ask("PUT", path, body))
        talk.close()

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    return thread, answers


def test_a_frozen_server_is_unavailable_until_it_thaws(
    start_service: StartService, server: PostgresServer, url: str
) -> None:
    service = start_service(None, "--database", url)
    talk = Talk(service.url)
    talk.good("PUT", "/v1/boards/b", CONFIG)
    state = talk.state("b")
    server.freeze()
    try:
        problem(talk.ask("PUT", "/v1/boards/b/subscriptions/s", {"k": 2}), 503)
        assert covers(talk.state("b"), state)
    finally:
        server.thaw()
    assert talk.good("PUT", "/v1/boards/b/subscriptions/s", {"k": 5})["seq"] == 1
    assert service.stop() == 0
    assert [seq for _, seq, _ in rows(server, url)] == [0, 1]


def test_reads_go_on_while_a_frozen_server_is_waited_for(
    start_service: StartService, server: PostgresServer, url: str
) -> None:
    service = start_service(None, "--database", url)
    talk = Talk(service.url)
    talk.good("PUT", "/v1/boards/b", CONFIG)
    server.freeze()
    try:
        beside = 0
        for _ in range(5):
            # A machine may be so slow that the service gives the server up before all reads are made: then once more.
            thread, answers = write_in_the_background(service, "/v1/boards/b/subscriptions/s", {"k": 2})
            for _ in range(200):
                assert talk.good("GET", "/v1/boards/b")["seq"] == 0
                beside += not answers
            thread.join(PATIENCE)
            problem(answers[0], 503)
            if beside >= 200:
                break
        assert beside >= 200, "the reads came after the write and not beside it"
    finally:
        server.thaw()
    assert service.stop() == 0
