"""A service that finds no compiled kernels serves what it has compiled, and leaves nothing behind when it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.live import serve_command
from tests.support.patience import PATIENCE, wait_until
from tests.support.ports import free_port

BOARD = {"range_attributes": ["distance"], "rank": {"attribute": "delay", "order": "desc"}, "ks": [2]}
EVENTS = [{"op": "upsert", "id": f"f{i}", "values": {"distance": i, "delay": 10 * i}} for i in range(5)]


class Cold:
    """`rankcast serve` on a cache of its own."""

    def __init__(self, folder: Path, number: int) -> None:
        self.cache = folder / "cache"
        self.log = folder / f"log{number}"
        self.url = f"http://127.0.0.1:{(port := free_port())}"
        command = serve_command("--data", folder / "data", port=port)
        env = {**os.environ, "RANKCAST_CACHE": str(self.cache), "RANKCAST_WARM_FIRST": "boards"}
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(command, env=env, stdout=output, stderr=output)
        self.http = httpx.Client(base_url=self.url, timeout=60.0)

    def answers(self, path: str = "/healthz") -> bool:
        assert self.process.poll() is None, self.log.read_text()
        with suppress(httpx.TransportError):
            return self.http.get(path).status_code == 200
        return False

    def compilers(self) -> list[int]:
        """The processes that compile for it."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                mine = f"RANKCAST_CACHE={self.cache}".encode() in (folder / "environ").read_bytes().split(b"\0")
                if mine and b"indexes.compiled.warming" in (folder / "cmdline").read_bytes():
                    found.append(int(folder.name))
        return found

    def end(self, how: signal.Signals) -> int:
        self.process.send_signal(how)
        return self.process.wait(PATIENCE)


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], Cold]]:
    started: list[Cold] = []

    def begin() -> Cold:
        started.append(Cold(tmp_path, len(started)))
        return started[-1]

    yield begin
    for each in started:
        each.http.close()
        if each.process.poll() is None:
            each.process.kill()
            each.process.wait()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="processes are looked up in /proc")
def test_a_service_without_compiled_kernels(start: Callable[[], Cold]) -> None:
    service = start()
    wait_until(service.answers)
    seen: list[dict[str, Any]] = []

    def look() -> dict[str, Any]:
        answer = service.http.get("/readyz")
        seen.append({"status": answer.status_code, **answer.json()})
        return seen[-1]

    wait_until(lambda: look().get("resources"))
    assert seen[-1]["status"] == 503 and seen[-1]["resources"]["boards"] < 1
    wait_until(lambda: look()["warm"] > 0)

    # A request waits for its kernels, for a while; what it needs is compiled long before the rest.
    refusals = []
    while (made := service.http.put("/v1/boards/flights", json=BOARD)).status_code == 503:
        refusals.append(made)
    assert made.status_code == 201, made.text
    assert all(refused.headers["retry-after"] for refused in refusals)
    assert service.http.post("/v1/boards/flights/events", json={"events": EVENTS}).json()["applied"] == len(EVENTS)
    top = service.http.get("/v1/boards/flights/top", params={"l": 1, "r": 3, "k": 2}).json()
    assert [entry["id"] for entry in top["list"]] == ["f3", "f2"]
    now = look()
    assert (now["status"], now["ready"]) == (503, False)
    assert now["resources"]["boards"] == 1.0 and min(now["resources"].values()) < 1.0
    shares = [each["warm"] for each in seen if "warm" in each]
    assert shares == sorted(shares) and 0 < shares[-1] < 1

    # SIGTERM ends it and those that compile, whatever it is doing.
    wait_until(service.compilers)
    assert service.end(signal.SIGTERM) == 0
    wait_until(lambda: not service.compilers())
    for moment in (lambda one: True, Cold.answers, Cold.compilers):
        again = start()
        wait_until(lambda moment=moment, again=again: moment(again))
        # Until the server sees to signals, they end it at once.
        assert again.end(signal.SIGTERM) in (0, 128 + signal.SIGTERM, -signal.SIGTERM), again.log.read_text()
        wait_until(lambda again=again: not again.compilers())

    # So do those that compile when the service is killed, when they see it.
    killed = start()
    wait_until(lambda: killed.answers() and killed.compilers())
    killed.end(signal.SIGKILL)
    wait_until(lambda: not killed.compilers())
