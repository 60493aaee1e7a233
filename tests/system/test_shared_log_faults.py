"""Two nodes that share a log on PostgreSQL under writers and readers, with one fault after the other.

Nobody is promoted by hand. Faults of the server and of the ways to it are among those of the nodes.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.support.databases import Proxy
from tests.support.live import StartService
from tests.support.patience import PATIENCE, wait_until
from tests.system.disks import fill
from tests.system.group import Group
from tests.system.postgres import PostgresServer, own_postgres
from tests.system.replica_checker import BETWEEN, ROUNDS, Checker, seed, two_nodes
from tests.system.replicas import leader_of, wait_for_writes

FAILOVER = ("--failover-seconds", "5")

FAULTS = ("postgres hangs", "clock of leader", "full leader", "cut", "way of leader")
"""Those of the short test; the soak has more, and `test_shared_log` kills and stops leaders and restarts the server."""

WAITS = "waiting for room on the disk"
"""What a node logs that cannot start before its disk has room."""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with own_postgres() as made:
        yield made


class SharedLog(Checker):
    """Nodes share a log; `ways` are the nodes' ways to the server. On a busy machine the leader may change at any
    time, so no fault depends on who leads.
    """

    def __init__(self, group: Group, seed: int, server: PostgresServer, ways: list[Proxy]) -> None:
        super().__init__(group, seed)
        self.server = server
        self.ways = ways
        self.faults |= {
            "postgres restarts": self.restart_postgres,
            "postgres hangs": self.freeze_postgres,
            "way of leader": lambda: self.silence_way(self.leader),
            "way of replica": lambda: self.silence_way(self.replica),
        }

    def find_leader(self) -> None:
        self.leader = leader_of(self.group, 0, 1)

    def kill_leader(self) -> None:
        self.group.kill(self.leader)
        leader_of(self.group, self.replica)
        self.group.follow(self.leader)

    def restart_leader(self) -> None:
        self.group.kill(self.leader)
        self.group.follow(self.leader)

    def stop_leader(self) -> None:
        process = self.group.nodes[self.leader].process
        process.send_signal(signal.SIGSTOP)
        leader_of(self.group, self.replica)
        process.send_signal(signal.SIGCONT)
        self.group.wait_for(self.leader, ready=True)

    def apart(self, fault: str) -> None:
        """Writes at the leader go on."""
        wait_for_writes(self.writers, BETWEEN // 2)

    def full(self, node: int) -> None:
        """A snapshot does not fit, and nothing else needs the disk; a node that restarts waits for room."""
        waited = self.group.log(node).count(WAITS)
        filler = fill(self.group.disk(node), 0)
        wait_until(lambda: self._snapshot_fails(node) or self.group.log(node).count(WAITS) > waited, pause=0.1)
        wait_for_writes(self.writers, BETWEEN // 2)
        filler.unlink()

    def _snapshot_fails(self, node: int) -> bool:
        """Whether a snapshot at a full node has failed; false where the node restarts meanwhile."""
        with httpx.Client(base_url=self.group.url(node), timeout=PATIENCE) as http, suppress(httpx.TransportError):
            begun = http.post("/v1/admin/snapshots", json={})
            while begun.status_code == 202:
                job = http.get(f"/v1/admin/jobs/{begun.json()['job']}")
                if job.status_code != 200:
                    break
                state, detail = job.json()["state"], job.json()["detail"]
                assert state != "succeeded", detail
                if state == "failed":
                    told = detail["error"].lower()
                    assert "full" in told or "no space left" in told, told
                    return True
                time.sleep(0.02)
        return False

    def restart_postgres(self) -> None:
        """The server crashes, is away until a write is refused for it, and comes back."""
        self.server.stop("immediate")
        try:
            self.refused("restart")
        finally:
            self.server.start()

    def freeze_postgres(self) -> None:
        """The server hangs until the lease has run out."""
        self.server.freeze()
        try:
            self.refused("freeze")
        finally:
            self.server.thaw()

    def silence_way(self, node: int) -> None:
        """A node does not hear the server; if it leads, another one leads soon."""
        self.ways[node].silence()
        leader_of(self.group, 1 - node)
        self.ways[node].speak()
        self.group.wait_for(node, ready=True)


def under_faults(start_service: StartService, folder: Path, server: PostgresServer, seed: int, rounds: int = 0) -> str:
    """Let so many faults happen, or those of the short test; returns what there was."""
    url = server.new_database()
    with two_nodes(start_service, folder, *FAILOVER) as (group, clocks):
        ways = [Proxy("127.0.0.1", server.port) for _ in clocks]
        checker = SharedLog(group, seed, server, ways)
        checker.clocks = clocks
        group.reached_by = [proxy.url for proxy in checker.proxies]
        for node, way in enumerate(ways):
            group.own[node] = ("--database", url.replace(f":{server.port}/", f":{way.port}/"))
        group.lead()
        group.follow(1)
        found = checker.run(start_service, checker.drawn(rounds) if rounds else FAULTS)
        for way in ways:
            way.close()
        checker.close()
        return found


@pytest.mark.timeout(900)
def test_each_fault_loses_nothing_and_doubles_nothing(
    start_service: StartService, server: PostgresServer, tmp_path: Path
) -> None:
    print(under_faults(start_service, tmp_path, server, 3))


@pytest.mark.soak
def test_many_faults_lose_nothing_and_double_nothing(
    start_service: StartService, server: PostgresServer, tmp_path: Path
) -> None:
    print(under_faults(start_service, tmp_path, server, seed(), ROUNDS))
