"""Zones in a group of nodes while NATS is away and leaders are lost.

Lists are those of a model of the board, at the nodes and at readers of gateways; what is published has no hole.
"""

from __future__ import annotations

import signal
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from tests.oracles.service import BoardModel, Question
from tests.support.gateways import Nats, StartGateway, StartNats
from tests.support.live import StartService
from tests.support.patience import PATIENCE
from tests.system.group import Group
from tests.system.http.talk import Json
from tests.system.replica_checker import ROUNDS, seed
from tests.system.zones import BEATS, Load, Reader, act, all_published, assert_no_errors, by_epoch, check_chains, right

FAULTS = ("nats", "nats, leader killed", "nats, leader stopped", "nats, replica killed", "leader killed")


class Modelled(Load):
    """A load with a model of the board, which knows what has been answered."""

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(url, seed)
        self.model = BoardModel("distance", "delay", "desc", [2, 5])

    def at(self, url: str) -> None:
        """Go on at another node."""
        self.url = url
        self.http = httpx.Client(base_url=url, timeout=PATIENCE)

    def send(self, method: str, path: str, body: Any = None) -> Json:
        found = super().send(method, path, body)
        if path.endswith("/events"):
            assert not self.model.events(body["events"]).refused
        elif method == "POST" and path.endswith("/subscriptions"):
            for one in body["subscriptions"]:
                self._ask(one["id"], one)
        elif method == "PUT" and "/subscriptions/" in path:
            self._ask(path.rpartition("/")[2], body)
        return found

    def _ask(self, id: str, one: Json) -> None:
        low, high = one["range"]["distance"]
        self.model.set_question(id, Question(low, high, one["k"]))

    def check(self) -> None:
        """Every list is the model's."""
        for id in self.model.questions:
            _, found = self.list_of(id)
            wanted = self.model.list_of(id)
            assert [(one["id"], one["values"]) for one in found] == [(one["id"], one["values"]) for one in wanted], id


def under_faults(
    start_service: StartService,
    start_gateway: StartGateway,
    nats: Nats,
    folder: Path,
    seed: int,
    faults: list[str],
) -> str:
    """Let these faults happen one after the other under a load and readers, and check each; returns what there was."""
    options = ("--nats", nats.url, "--heartbeat-seconds", "1", "--sync-replicas", "1", "--snapshot-rows", "200")
    group = Group(start_service, folder, 2, *options)
    group.lead()
    group.follow(1)
    leader = 0
    gateways = [start_gateway(group.url(node), nats.url, env=BEATS) for node in (0, 1)]
    load = Modelled(group.url(leader), seed)
    load.begin(16)
    readers = [
        Reader(load, [gateways[n % 2].url], f"s{n}", form, transport, n)
        for n, (form, transport) in enumerate(
            (form, transport) for form in ("changes", "tiles") for transport in ("sse", "ws") for _ in range(2)
        )
    ]
    right(readers)
    for number, fault in enumerate(faults):
        print(f"{number + 1}: {fault}", flush=True)
        act(load, readers, 6)
        if fault.startswith("nats"):
            nats.kill()
            act(load, readers, 6)
        process = group.nodes[leader].process
        if fault.endswith("leader killed"):
            group.kill(leader)
            assert group.promote(1 - leader).status_code == 200
            group.follow(leader)
            leader = 1 - leader
        elif fault.endswith("leader stopped"):
            process.send_signal(signal.SIGSTOP)
            assert group.promote(1 - leader, force=True).status_code == 200
            process.send_signal(signal.SIGCONT)
            group.wait_for(leader, role="replica", ready=True)
            leader = 1 - leader
        elif fault.endswith("replica killed"):
            group.kill(1 - leader)
            group.follow(1 - leader)
        load.at(group.url(leader))
        act(load, readers, 6)
        if fault.startswith("nats"):
            nats.start()
        act(load, readers, 6)
        all_published(load)
        load.check()
        right(readers)
    for reader in readers:
        reader.leave()
    found = by_epoch(nats)
    assert all(check_chains(messages) for messages in found.values())
    assert_no_errors(gateways)
    kinds = [kind for reader in readers for kind in reader.kinds]
    return f"{len(faults)} faults, {load.sent} requests, {sum(map(len, found.values()))} messages, {len(kinds)} events"


@pytest.fixture
def nats(start_nats: StartNats) -> Nats:
    return start_nats()


@pytest.mark.timeout(900)
def test_lists_are_exact_when_nats_is_away_while_the_leader_changes(
    start_service: StartService, start_gateway: StartGateway, nats: Nats, tmp_path: Path
) -> None:
    print(under_faults(start_service, start_gateway, nats, tmp_path, 3, ["nats, leader killed"]))


@pytest.mark.soak
def test_lists_are_exact_after_many_faults(
    start_service: StartService, start_gateway: StartGateway, nats: Nats, tmp_path: Path
) -> None:
    drawn = seed()
    faults = Random(drawn).choices(FAULTS, k=ROUNDS)
    print(under_faults(start_service, start_gateway, nats, tmp_path, drawn, faults))
