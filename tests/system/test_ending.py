"""A service that is told to stop while a long write is on its way."""

import asyncio
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from rankcast_client import AsyncRankcast, Rankcast, Retry, upsert
from tests.support.live import LiveService, serve_command
from tests.support.patience import PATIENCE, wait_until
from tests.support.ports import free_port
from tests.system.faults import QUIET, Points
from tests.system.http.talk import Talk

EXECUTE = "indexes.boards.plans.events:EventsPlan.execute"
BOARD = {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [2]}
COUNT = 5_000
PATIENT = Retry(attempts=10_000, first=0.05, most=0.5)


def publish(url: str, blocking: bool) -> Any:
    """What a client gets in the end for one write of many events."""
    events = [upsert(f"e{i}", {"x": i, "y": i}) for i in range(COUNT)]
    if blocking:
        with Rankcast(url, retry=PATIENT, timeout=PATIENCE) as client:
            return client.board("b").publish_many(events, messages="count")

    async def go() -> Any:
        async with AsyncRankcast(url, retry=PATIENT, timeout=PATIENCE) as client:
            return await client.board("b").publish_many(events, messages="count")

    return asyncio.run(go())


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., LiveService]]:
    """Starts services on one port, one after the other: `start(data, port, points)`."""
    with ExitStack() as stack:

        def started(data: Path, port: int, points: Points) -> LiveService:
            log = tmp_path / f"log{len(list(tmp_path.glob('log*')))}"
            command = serve_command("--data", data, *QUIET, "--shutdown-seconds", "3", port=port)
            with log.open("wb") as output:
                process = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, **points.env})
            stack.callback(process.wait)
            stack.callback(process.kill)
            service = LiveService(process, f"http://127.0.0.1:{port}", data, log)
            service.wait_until_ready()
            return service

        yield started


@pytest.mark.parametrize("blocking", [False, True])
def test_a_long_write_is_answered_503_and_applied_once_by_the_retry(
    start: Callable[..., LiveService], tmp_path: Path, blocking: bool
) -> None:
    """The write is durable and does not get on: the process ends all the same, without waiting for its thread."""
    points, port = Points(tmp_path), free_port()
    service = start(tmp_path / "data", port, points)
    url = service.url
    talk = Talk(url)
    talk.good("PUT", "/v1/boards/b", BOARD)
    points.wait(EXECUTE)
    outcomes: list[Any] = []
    client = threading.Thread(target=lambda: outcomes.append(publish(url, blocking)))
    client.start()
    points.reached()
    plain: list[httpx.Response] = []
    body = {"events": [{"op": "upsert", "id": "z", "values": {"x": -1, "y": 1}}]}
    other = threading.Thread(target=lambda: plain.append(talk.ask("POST", "/v1/boards/b/events", body)))
    other.start()
    wait_until(lambda: "rankcast_requests_open 3" in httpx.get(f"{url}/metrics").text)
    # The thread of the write is held up for as long as the order stands; the limit is far below that.
    assert service.stop(signal.SIGTERM, PATIENCE / 3) == 0
    other.join(PATIENCE)
    (refused,) = plain
    assert (refused.status_code, refused.json()["type"]) == (503, "/problems/not-ready")
    assert int(refused.headers["retry-after"]) >= 1
    assert "Traceback" not in service.log.read_text()
    points.clear()
    start(service.data, port, points)
    client.join(PATIENCE)
    (outcome,) = outcomes
    assert (outcome.applied, outcome.replayed, outcome.seq) == (COUNT, True, COUNT)
    shown = talk.good("GET", "/v1/boards/b")
    assert (shown["seq"], shown["objects"]) == (COUNT + 1, COUNT + 1)
