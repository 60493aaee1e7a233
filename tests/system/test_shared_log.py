"""Nodes that share a log on PostgreSQL: one leads by a lease, and another takes over by itself."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.databases import Proxy
from tests.support.live import StartService, serve_command
from tests.support.patience import PATIENCE, wait_until
from tests.system.failover import read_and_write
from tests.system.faults import done
from tests.system.group import Group
from tests.system.group import Proxy as GroupProxy
from tests.system.http.talk import Talk
from tests.system.kill_boards import CONFIG
from tests.system.kill_mixed import compare
from tests.system.postgres import PostgresServer, own_postgres
from tests.system.replicas import leader_of, make_all, show_the_same, wait_for_writes, writing

QUICK = ("--failover-seconds", "3")
"""A leader that is lost is replaced soon; on a busy machine also one that is there, so nothing depends on who leads."""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with own_postgres() as made:
        yield made


@pytest.fixture
def url(server: PostgresServer) -> str:
    """An empty database."""
    return server.new_database()


@pytest.mark.timeout(600)
def test_a_replica_leads_by_itself_when_the_leader_is_killed(
    start_service: StartService, url: str, tmp_path: Path
) -> None:
    """No write is lost or doubled: what was answered is what a fresh service makes of the same requests."""
    group = Group(start_service, tmp_path, 2, "--database", url, *QUICK)
    group.lead()
    make_all(group.url(0))
    group.follow(1)
    with writing(group.url(0), group.url(1)) as writers:
        wait_for_writes(writers, 40)
        group.kill(0)
        assert leader_of(group, 1) == 1
        for writer in writers:
            writer.url = group.url(1)
        wait_for_writes(writers, 40)
        group.follow(0)
        for writer in writers[::2]:
            writer.url = group.url(0)
        wait_for_writes(writers, 40)
    show_the_same(group, 0, 1)
    compare(start_service, group.nodes[leader_of(group, 0, 1)], [one for writer in writers for one in writer.writes])


@pytest.mark.timeout(600)
def test_readers_and_writers_go_on_at_the_node_that_leads_by_itself(
    start_service: StartService, url: str, tmp_path: Path
) -> None:
    """Streams of four kinds show in the end what is asked for, at whichever node."""

    def change(group: Group) -> None:
        group.kill(0)
        assert leader_of(group, 1) == 1
        group.follow(0)

    group = Group(start_service, tmp_path, 2, "--database", url, *QUICK)
    group.lead()
    group.follow(1)
    asyncio.run(read_and_write(group, change))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("node", [0, 1], ids=["leader", "replica"])
def test_a_node_that_cannot_reach_the_server_when_it_restarts_waits_for_it(
    start_service: StartService, server: PostgresServer, url: str, tmp_path: Path, node: int
) -> None:
    """As one does that lost its lease since the server was away. At its first start a node ends with the reason."""
    way = GroupProxy(server.port)
    by_way = ("--database", url.replace(f":{server.port}/", f":{way.port}/"))
    group = Group(start_service, tmp_path, 2, *QUICK)
    group.own[node] = by_way
    group.own[1 - node] = ("--database", url)
    group.lead()
    group.follow(1)
    group.in_step(0, 1)
    group.kill(node)
    way.cut()
    with group.starting(node, lambda log: log.count("waiting for the database") >= 2):
        way.mend()
        group.wait_for(node, ready=True)
    way.cut()
    fresh = serve_command("--data", tmp_path / "fresh", *by_way, *QUICK, "--peers", group.urls)
    refused = subprocess.run(fresh, check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert refused.returncode != 0 and "the database" in refused.stderr
    way.close()


@pytest.mark.timeout(600)
def test_a_leader_that_is_stopped_in_the_middle_of_a_commit_answers_nothing_and_steps_down(
    start_service: StartService, server: PostgresServer, url: str, tmp_path: Path
) -> None:
    """Its rows are at the server, and not committed, when another node takes the lease."""
    proxy = Proxy("127.0.0.1", server.port)
    group = Group(start_service, tmp_path, 2, *QUICK)
    leader = group.lead(0, "--database", url.replace(f":{server.port}/", f":{proxy.port}/"))
    talk = Talk(leader.url)
    talk.good("PUT", "/v1/boards/b", CONFIG)
    group.follow(1, "--database", url)
    group.in_step(0, 1)
    stopped = threading.Event()

    def stop() -> None:
        leader.process.send_signal(signal.SIGSTOP)
        stopped.set()

    answers: list[httpx.Response] = []

    def write() -> None:
        try:
            headers = {"Idempotency-Key": "one"}
            path = f"{leader.url}/v1/boards/b/subscriptions/s"
            answers.append(httpx.put(path, json={"k": 2}, headers=headers, timeout=PATIENCE))
        except httpx.TransportError:
            pass

    proxy.hold_at(b"COMMIT", stop)
    writer = threading.Thread(target=write)
    writer.start()
    assert stopped.wait(PATIENCE)
    assert leader_of(group, 1) == 1
    other = Talk(group.url(1))
    assert other.good("PUT", "/v1/boards/b/subscriptions/t", {"k": 2})["seq"] == 1
    leader.process.send_signal(signal.SIGCONT)
    proxy.let_go()
    writer.join(PATIENCE)
    assert not writer.is_alive()
    assert all(answer.status_code == 503 for answer in answers), answers
    group.wait_for(0, role="replica", ready=True)
    assert "stepping down" in group.log(0)
    again = other.good("PUT", "/v1/boards/b/subscriptions/s", {"k": 2}, headers={"Idempotency-Key": "one"})
    assert again["seq"] == 2 and "replayed" not in again
    group.in_step(0, 1)
    assert Talk(group.url(0)).state("b") == other.state("b")
    proxy.close()


@pytest.mark.timeout(600)
def test_everything_goes_on_when_postgres_restarts_and_when_nodes_are_promoted_or_end(
    start_service: StartService, server: PostgresServer, url: str, tmp_path: Path
) -> None:
    group = Group(start_service, tmp_path, 2, "--database", url, "--failover-seconds", "60")
    group.lead()
    make_all(group.url(0))
    done(Talk(group.url(0)), "snapshots")
    group.follow(1)
    with writing(group.url(0), group.url(1)) as writers:
        for writer in writers[5:]:
            writer.done = True
        wait_for_writes(writers, 30)
        server.stop("immediate")
        server.start()
        wait_for_writes(writers, 30)
        assert group.about(0)["term"] == 0, "the leader is the same"
        answer = group.promote(1)
        assert answer.status_code == 200, answer.text
        assert (answer.json()["role"], answer.json()["term"]) == ("leader", 1)
        group.wait_for(0, role="replica", ready=True, term=1)
        wait_for_writes(writers, 30)
        # A leader that ends gives the lease back: nobody waits until it expires.
        assert group.nodes[1].stop() == 0
        assert leader_of(group, 0) == 0
        assert group.about(0)["term"] == 2
        group.follow(1)
        wait_for_writes(writers, 30)
    last, leader = group.in_step(0, 1), Talk(group.url(0))

    def known() -> list[tuple[bool, int]]:
        found = leader.good("GET", "/v1/admin/replicas")
        return [(one["connected"], one["durable"]) for one in found["items"]]

    # A replica that has a row says so a moment later.
    wait_until(lambda: known() == [(True, last)], why=known)
    show_the_same(group, 0, 1)
    compare(start_service, group.nodes[0], [one for writer in writers for one in writer.writes])


@pytest.mark.timeout(600)
@pytest.mark.parametrize("nodes", [pytest.param(1, marks=pytest.mark.soak), 2])
def test_nothing_is_lost_when_a_synchronous_standby_of_the_server_takes_over(
    start_service: StartService, tmp_path: Path, nodes: int
) -> None:
    """Of a service alone, and of a group with one log: they have both servers in their URL, and are not restarted."""
    with own_postgres() as server, server.standby() as standby:
        name = server.new_database().rpartition("/")[2]
        servers = f"127.0.0.1:{server.port},127.0.0.1:{standby.port}"
        url = f"postgresql://test@{servers}/{name}?target_session_attrs=read-write"
        group = Group(start_service, tmp_path, nodes, "--database", url, "--failover-seconds", "60")
        if nodes == 1:
            group.nodes[0] = start_service(group.data(0), "--database", url, port=group.ports[0])
        else:
            group.lead()
            group.follow(1)
        make_all(group.url(0))
        with writing(*(group.url(node) for node in range(nodes))) as writers:
            wait_for_writes(writers, 40)
            server.stop("immediate")
            standby.promote()
            wait_for_writes(writers, 40)
        if nodes == 2:
            show_the_same(group, 0, 1)
        compare(start_service, group.nodes[0], [one for writer in writers for one in writer.writes])


def test_synchronous_replicas_of_a_shared_log_are_refused(url: str, tmp_path: Path) -> None:
    options = ("--database", url, "--peers", "http://127.0.0.1:1", "--sync-replicas", "1")
    command = serve_command("--data", tmp_path / "data", *options)
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ended.returncode == 1 and "synchronous_commit" in ended.stderr
