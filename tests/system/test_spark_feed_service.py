"""Spark beside a service that has feeds.

Laid out for it while it serves, and its log followed to the lists that it has itself, which are handed back to it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow.parquet as pq
import pytest

from indexes.feeds.engine import FeedEngine
from tests.spark.boards import contents
from tests.spark.runtime import need_java
from tests.support.live import StartService
from tests.support.service_fixtures import Start, _kernels_when_needed, make_client, start
from tests.system.postgres import own_postgres

__all__ = ["_kernels_when_needed", "make_client", "start"]

PATIENCE = 240.0
WINDOW = 150

Lists = dict[str, list[tuple[str, float]]]


class Traffic:
    """What happens to a feed of a service."""

    def __init__(self, client: httpx.Client) -> None:
        self._client = client
        self._rng = np.random.default_rng(6)
        self.posts = self.subscriptions = 0
        self._send("PUT", "", {"window": WINDOW, "bounds": [0, 0, 4, 3]})

    def post(self, n: int) -> None:
        posts = [{"id": f"p{self.posts + i}", **self._words(7)} for i in range(n)]
        self.posts += n
        self._send("POST", "/posts", {"posts": posts})

    def subscribe(self, n: int) -> None:
        asked = [
            {
                "id": f"s{self.subscriptions + i}",
                "k": int(self._rng.integers(1, 6)),
                "alpha": float(self._rng.choice([0.0, 0.3, 1.0])),
                **self._words(4),
            }
            for i in range(n)
        ]
        self.subscriptions += n
        self._send("POST", "/subscriptions", {"subscriptions": asked})

    def change(self) -> None:
        """The first two subscriptions: one is of fewer posts, the other is another one of the same id."""
        self._send("PATCH", "/subscriptions/s0", {"k": 1})
        self._send("DELETE", "/subscriptions/s1")
        self._send("PUT", "/subscriptions/s1", {"k": 5, "alpha": 0.5, **self._words(4)})

    def withdraw(self) -> None:
        """The newest post."""
        self._send("DELETE", f"/posts/p{self.posts - 1}")

    def lists(self) -> Lists:
        found = {}
        for i in range(self.subscriptions):
            shown = self._send("GET", f"/subscriptions/s{i}")["list"]
            found[f"s{i}"] = [(one["id"], one["score"]) for one in shown]
        return found

    def _words(self, most: int) -> dict[str, Any]:
        count = int(self._rng.integers(1, most + 1))
        words = [f"w{i}" for i in self._rng.zipf(1.4, count).clip(1, 80)]
        return {"keywords": words, "location": (self._rng.random(2) * [4, 3]).tolist()}

    def _send(self, how: str, what: str, body: Any = None) -> Any:
        answer = self._client.request(how, f"/v1/feeds/city{what}", json=body)
        assert answer.status_code in (200, 201), answer.text
        return answer.json()


def test_a_feed_is_laid_out_on_spark_while_it_serves(start: Start, tmp_path: Path) -> None:
    need_java()
    running = start(spark_master="local[2]")
    traffic = Traffic(running.client)

    def engine() -> FeedEngine:
        found = running.service.feeds.get("city")
        assert found is not None
        return found

    traffic.subscribe(80)
    for n in (90, 60):
        traffic.post(n)
    # The words have been weighed by now, so that what comes is not laid out with the others.
    traffic.subscribe(5)
    assert engine().index.churn > 0.0
    expected = traffic.lists()

    rows = WINDOW + traffic.subscriptions
    assert running.done("rebuilds", engine="local")["rows"] == rows
    image = tmp_path / "data" / "images" / str(running.lsns[0]) / "feeds" / "city"
    own = contents(image)
    detail = running.done("rebuilds", engine="spark", resources=["feeds/city"])
    assert (detail["engine"], detail["rows"]) == ("spark", rows)
    assert contents(image) == own
    assert [path.name for path in image.parent.iterdir()] == ["city"]
    assert engine().index.churn == 0.0
    assert traffic.lists() == expected

    traffic.withdraw()
    traffic.subscribe(30)
    expected = traffic.lists()
    assert running.done("rebuilds", engine="spark")["rows"] == WINDOW - 1 + traffic.subscriptions
    engine().check()
    assert traffic.lists() == expected
    assert running.done("verify")["compared"] == traffic.subscriptions


class Follower:
    """The job that follows a log, as a process of its own, and what it has said."""

    def __init__(self, work: Path, *where: str) -> None:
        work.mkdir(exist_ok=True)
        self._lists, self._errors = work / "lists", (work / "errors").open("a+")
        command = [sys.executable, "-m", "spark_jobs.feeds.stream", "--resource", "feeds/city", "--follow", *where]
        command += ["--checkpoint", str(work / "checkpoint"), "--output", str(self._lists), "--rows", "10"]
        self._process = subprocess.Popen(
            [*command, "--mechanism", "keyword", "--partitions", "2", "--master", "local[2]"],
            stdout=subprocess.PIPE, stderr=self._errors, text=True, start_new_session=True,
        )  # fmt: skip

    def lists(self) -> Lists:
        """Those of the batches that are there; of those that are just coming, perhaps none."""
        found: Lists = {}
        for path in sorted(self._lists.glob("batch-*.parquet")):
            for row in pq.read_table(path).to_pylist():
                found[row["subscription"]] = [(one["id"], one["score"]) for one in row["list"]]
        return found

    def wait_for(self, expected: Lists, client: httpx.Client) -> None:
        """Returns once all lists are these, in the files and on the board."""
        give_up = time.monotonic() + PATIENCE
        while self.lists() != expected or on_board(client) != expected:
            assert self._process.poll() is None, self._said()
            assert time.monotonic() < give_up, self._said()
            time.sleep(0.1)

    def stop(self) -> list[dict[str, Any]]:
        """Tell it to end, as a scheduler does; its lines."""
        self._process.terminate()
        out, _ = self._process.communicate(timeout=PATIENCE)
        assert self._process.returncode == 128 + signal.SIGTERM, (out, self._said())
        return [json.loads(line) for line in out.splitlines()]

    def wait_until_gone(self) -> None:
        """Returns once nothing is left of what it started."""
        give_up = time.monotonic() + PATIENCE
        while self._is_there():
            assert time.monotonic() < give_up
            time.sleep(0.1)

    def kill(self) -> None:
        """It and Spark's Java, however far they are."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._errors.close()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def _is_there(self) -> bool:
        try:
            os.killpg(self._process.pid, 0)
        except ProcessLookupError:
            return False
        return True

    def _said(self) -> str:
        self._errors.seek(0)
        return self._errors.read()[-4000:]


@contextmanager
def database(kind: str) -> Iterator[list[str]]:
    """The options that name an empty log: none for the one in the data directory."""
    if kind == "sqlite":
        yield []
    else:
        with own_postgres() as server:
            yield ["--database", server.new_database()]


def on_board(client: httpx.Client) -> Lists:
    """The lists that were handed back; of those that are just coming, perhaps none."""
    found: Lists = {}
    for one in client.get("/v1/boards/lists/subscriptions", params={"limit": 1000}).json().get("items", []):
        shown = client.get(f"/v1/boards/lists/subscriptions/{one['id']}").json().get("list", [])
        found[one["id"]] = [(entry["payload"]["id"], entry["payload"]["score"]) for entry in shown]
    return found


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_the_log_of_a_service_is_followed_to_its_lists(start_service: StartService, tmp_path: Path, kind: str) -> None:
    need_java()
    with database(kind) as options:
        service = start_service(None, *options)
        with httpx.Client(base_url=service.url, timeout=PATIENCE) as client:
            traffic = Traffic(client)
            traffic.subscribe(40)
            traffic.post(100)
            where = ["--storage", str(service.data), "--board", f"{service.url}/v1/boards/lists"]
            where += ["--log", options[1]] if options else []
            follower = Follower(tmp_path / "work", *where)
            try:
                follower.wait_for(traffic.lists(), client)
                for n in (60, 30):
                    traffic.post(n)
                    traffic.subscribe(10)
                follower.kill()
                traffic.change()
                traffic.withdraw()
                follower = Follower(tmp_path / "work", *where)
                follower.wait_for(traffic.lists(), client)
                steps = follower.stop()
                follower.wait_until_gone()
            finally:
                follower.kill()
            assert steps[-1]["step"].endswith(f": {traffic.posts} posts")
        service.stop()
