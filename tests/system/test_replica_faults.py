"""A leader and a synchronous replica under writers and readers, while nodes are killed and stopped and links cut.

What must hold: each answered write is there once, at both nodes, and a service of its own that gets the same requests
in the order of their seqs shows the same; a reader who goes from node to node with its cursor has the right list.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from tests.support.live import StartService
from tests.support.patience import PATIENCE, wait_until
from tests.system.group import Group, Proxy
from tests.system.kill_mixed import BOARD, compare
from tests.system.killing import Write
from tests.system.test_replicas import make_all, show_the_same, wait_for_writes, writing

FAULTS = ("kill leader", "stop leader", "kill replica", "stop replica", "cut")
ROUNDS = int(os.environ.get("RANKCAST_ROUNDS", "100"))
"""Faults of the soak."""


class Wanderer(threading.Thread):
    """Keeps the list of one subscription by its stream, and goes on at the next node when the stream ends."""

    def __init__(self, group: Group, first: int) -> None:
        super().__init__(daemon=True)
        self.list: list[str] = []
        self.seq = -1
        self.resets = self.connections = 0
        self.failure: BaseException | None = None
        self.done = False
        self._group, self._node = group, first
        self._cursor: str | None = None

    def run(self) -> None:
        try:
            while not self.done:
                with suppress(httpx.HTTPError):
                    self._follow()
                self._node = 1 - self._node
                time.sleep(0.05)
        except BaseException as error:
            self.failure = error
            raise

    def _follow(self) -> None:
        url = f"{self._group.url(self._node)}{BOARD}/subscriptions/watched/stream"
        headers = {} if self._cursor is None else {"Last-Event-ID": self._cursor}
        with httpx.stream("GET", url, headers=headers, timeout=httpx.Timeout(5, read=3)) as answer:
            if answer.status_code != 200:
                return
            self.connections += 1
            event = ""
            for line in answer.iter_lines():
                if self.done:
                    return
                name, _, value = line.partition(": ")
                if name == "id":
                    self._cursor = value
                elif name == "event":
                    event = value
                elif name == "data":
                    self._take(event, json.loads(value))

    def _take(self, event: str, data: Any) -> None:
        if event in ("snapshot", "reset"):
            self.resets += 1
            self.list = [entry["id"] for entry in data["list"]]
        else:
            assert event == "change" and data["seq"] > self.seq, (event, data["seq"], self.seq)
            changes = {one["id"]: one for one in data["changes"]}
            self.list = [id for id in self.list if id not in changes]
            for one in sorted(
                (one for one in changes.values() if one["new_rank"] is not None), key=lambda one: one["new_rank"]
            ):
                self.list.insert(one["new_rank"] - 1, one["id"])
        self.seq = data["seq"]


def under_faults(start_service: StartService, folder: Path, faults: list[str]) -> str:
    """Let these faults happen one after the other, and check what is left; returns what there was."""
    options = ("--sync-replicas", "1", "--sync-seconds", "1", "--heartbeat-seconds", "1")
    group = Group(start_service, folder, 2, *options)
    proxies = [Proxy(port) for port in group.ports]
    group.reached_by = [proxy.url for proxy in proxies]
    group.lead()
    group.follow(1)
    make_all(group.url(0))
    watched = {"range": {"x": [10, 70]}, "k": 10}
    extra = [Write("watched", "PUT", f"{BOARD}/subscriptions/watched", watched)]
    settle(extra, group.url(0))
    leader, wanderers = 0, [Wanderer(group, 0), Wanderer(group, 1)]
    for wanderer in wanderers:
        wanderer.start()
    with writing(group.url(0), group.url(1)) as writers:
        for fault in faults:
            replica = 1 - leader
            wait_for_writes(writers, 30)
            match fault:
                case "kill leader":
                    group.kill(leader)
                    answer = group.promote(replica)
                    assert answer.status_code == 200, answer.text
                    group.follow(leader)
                    leader = replica
                case "stop leader":
                    group.nodes[leader].process.send_signal(signal.SIGSTOP)
                    answer = group.promote(replica, force=True)
                    group.nodes[leader].process.send_signal(signal.SIGCONT)
                    assert answer.status_code == 200, answer.text
                    group.wait_for(leader, role="replica", ready=True)
                    leader = replica
                case "kill replica":
                    group.kill(replica)
                    group.follow(replica)
                case "stop replica":
                    group.nodes[replica].process.send_signal(signal.SIGSTOP)
                    extra += refused(group.url(leader), fault)
                    group.nodes[replica].process.send_signal(signal.SIGCONT)
                case "cut":
                    for proxy in proxies:
                        proxy.cut()
                    extra += refused(group.url(leader), fault)
                    for proxy in proxies:
                        proxy.mend()
        wait_for_writes(writers, 30)
    group.wait_for(1 - leader, role="replica", ready=True)
    found = show_the_same(group, 0, 1)
    right = [entry["id"] for entry in found[f"{BOARD}/subscriptions/watched"]["list"]]
    for wanderer in wanderers:
        wait_until(lambda one=wanderer: one.failure or one.list == right, why=lambda one=wanderer: (one.list, right))  # type: ignore[misc]
        wanderer.done = True
        assert wanderer.failure is None
    for proxy in proxies:
        proxy.close()
    settle(extra, group.url(leader))
    writes = [*extra, *(write for writer in writers for write in writer.writes)]
    term = group.about(leader)["term"]
    compare(start_service, group.nodes[leader], writes)
    connections, resets = sum(one.connections for one in wanderers), sum(one.resets for one in wanderers)
    doubtful = sum(write.in_doubt for write in writes)
    return f"{len(writes)} writes, {doubtful} in doubt; {connections} streams, {resets} resets; term {term}"


def settle(writes: list[Write], url: str) -> None:
    """Send writes until each is answered."""
    with httpx.Client(base_url=url, timeout=PATIENCE) as http:
        for write in writes:
            while write.answer is None:
                write.send(http)


def refused(url: str, fault: str) -> list[Write]:
    """Write until the leader answers 503, as no replica confirms it; the last of these writes has no answer."""
    writes: list[Write] = []
    with httpx.Client(base_url=url, timeout=PATIENCE) as http:
        while not writes or writes[-1].answer is not None:
            key = f"{fault.replace(' ', '-')}-{time.monotonic_ns()}"
            writes.append(Write(key, "PUT", f"{BOARD}/objects/probe", {"values": {"x": 99, "y": len(writes)}}))
            writes[-1].send(http)
    return writes


@pytest.mark.timeout(900)
def test_five_faults_lose_nothing_and_double_nothing(start_service: StartService, tmp_path: Path) -> None:
    faults = list(FAULTS)
    Random(7).shuffle(faults)
    print(under_faults(start_service, tmp_path, faults))


@pytest.mark.soak
def test_many_faults_lose_nothing_and_double_nothing(start_service: StartService, tmp_path: Path) -> None:
    seed = time.time_ns()
    print(f"seed {seed}")
    print(under_faults(start_service, tmp_path, Random(seed).choices(FAULTS, k=ROUNDS)))
