"""Clients of a leader and a replica: the leader is killed, the replica promoted, and readers and writers go on."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path

import pytest

from tests.support.live import StartService
from tests.support.node import node
from tests.support.patience import PATIENCE, wait_until
from tests.system.failover import EVENTS, latest, read_and_write
from tests.system.group import Group

SCRIPT = Path(__file__).resolve().parent / "js" / "failover.mjs"

pytestmark = pytest.mark.slow


def group_of_two(start_service: StartService, folder: Path) -> Group:
    group = Group(start_service, folder, 2, "--sync-replicas", "1")
    group.lead()
    group.follow(1)
    return group


def change_leader(group: Group) -> None:
    """Kill the leader, promote the replica, and start the old leader, which follows."""
    group.kill(0)
    answer = group.promote(1)
    assert answer.status_code == 200, answer.text
    group.follow(0)


@pytest.mark.timeout(600)
def test_a_python_reader_and_writer_go_on_at_the_promoted_replica(start_service: StartService, tmp_path: Path) -> None:
    asyncio.run(read_and_write(group_of_two(start_service, tmp_path), change_leader))


@pytest.mark.timeout(600)
def test_a_javascript_reader_and_writer_go_on_at_the_promoted_replica(
    start_service: StartService, tmp_path: Path
) -> None:
    group = group_of_two(start_service, tmp_path)
    output = tmp_path / "output"
    command = [node(), str(SCRIPT), group.urls, str(EVENTS)]
    with output.open("w") as out, subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT) as running:
        try:
            wait_until(lambda: "half" in output.read_text() or running.poll() is not None)
            change_leader(group)
            assert running.wait(PATIENCE) == 0, output.read_text()
        finally:
            running.kill()
    said = json.loads(output.read_text().splitlines()[-1])
    assert said["answered"] == EVENTS
    assert said["objects"] == 30
    assert [y for _, _, y in json.loads(said["asked"])] == sorted(latest().values(), reverse=True)[:5]
    assert said["lists"] == [said["asked"]] * 4
    assert all(said["reconnects"]), said
