"""Nodes that share a log on PostgreSQL: one leads by a lease, and another takes over by itself."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.live import StartService
from tests.support.patience import wait_until
from tests.system.group import Group
from tests.system.http.talk import Talk
from tests.system.kill_mixed import compare
from tests.system.postgres import PostgresServer, own_postgres
from tests.system.test_replicas import make_all, show_the_same, wait_for_writes, writing


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with own_postgres() as made:
        yield made


def leader_of(group: Group, *nodes: int) -> int:
    """Wait until one of these nodes leads, and return it."""
    found: list[int] = []

    def leads() -> bool:
        found[:] = [node for node in nodes if group.about(node).get("role") == "leader"]
        return len(found) == 1 and group.about(found[0]).get("ready") is True

    wait_until(leads, 120, 0.05, lambda: [(group.about(node), group.log(node)[-4000:]) for node in nodes])
    return found[0]


@pytest.mark.timeout(600)
def test_a_replica_leads_by_itself_when_the_leader_is_killed(
    start_service: StartService, server: PostgresServer, tmp_path: Path
) -> None:
    url = server.new_database()
    group = Group(start_service, tmp_path, 2, "--database", url, "--failover-seconds", "3")
    group.lead()
    make_all(group.url(0))
    group.follow(1)
    with writing(group.url(0), group.url(1)) as writers:
        wait_for_writes(writers, 60)
        group.kill(0)
        assert leader_of(group, 1) == 1
        for writer in writers:
            writer.url = group.url(1)
        wait_for_writes(writers, 60)
        group.follow(0)
        for writer in writers[::2]:
            writer.url = group.url(0)
        wait_for_writes(writers, 60)
    show_the_same(group, 0, 1)
    compare(start_service, group.nodes[1], [write for writer in writers for write in writer.writes])
