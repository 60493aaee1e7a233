"""A leader and a synchronous replica under writers and readers, with one fault after the other."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.storage.role import give_up
from tests.support.live import StartService
from tests.system.disks import fill
from tests.system.replica_checker import ROUNDS, OwnLogs, seed, two_nodes
from tests.system.replicas import make_all

SYNCHRONOUS = ("--sync-replicas", "1", "--sync-seconds", "1")


FAULTS = (
    "kill replica",
    "full replica",
    "clock of leader",
    "full leader",
    "cut",
    "kill leader",
    "clock of replica",
    "stop replica",
    "stop leader",
)
"""Those of the short test; the soak has more."""


def under_faults(start_service: StartService, folder: Path, seed: int, rounds: int = 0) -> str:
    """Let so many faults happen, or those of the short test; returns what there was."""
    with two_nodes(start_service, folder, *SYNCHRONOUS) as (group, clocks):
        checker = OwnLogs(group, seed)
        checker.clocks = clocks
        group.reached_by = [proxy.url for proxy in checker.proxies]
        group.lead()
        group.follow(1)
        found = checker.run(start_service, checker.drawn(rounds) if rounds else FAULTS)
        checker.close()
        return found


@pytest.mark.timeout(900)
def test_each_fault_loses_nothing_and_doubles_nothing(start_service: StartService, tmp_path: Path) -> None:
    print(under_faults(start_service, tmp_path, 7))


@pytest.mark.timeout(300)
def test_a_replica_that_takes_a_new_snapshot_waits_for_room_on_its_disk(
    start_service: StartService, tmp_path: Path
) -> None:
    """As one does that restarts since it cannot go on from what it has."""
    with two_nodes(start_service, tmp_path) as (group, _):
        group.lead()
        make_all(group.url(0))
        group.follow(1)
        last = group.in_step(0, 1)
        group.kill(1)
        give_up(group.data(1), "a test")
        filler = fill(group.disk(1), 0)
        with group.starting(1, lambda log: "waiting for room on the disk" in log):
            filler.unlink()
            group.wait_for(1, ready=True, role="replica", lsn=last)


@pytest.mark.soak
def test_many_faults_lose_nothing_and_double_nothing(start_service: StartService, tmp_path: Path) -> None:
    print(under_faults(start_service, tmp_path, seed(), ROUNDS))
