"""Matchers on a real Spark.

Rebuilt with the bytes of the service's own and taken up while it serves; and a history of events, matched as the
service matches it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from indexes.core.ids import pack
from indexes.matchers.commands import AddSubscriptions, DeleteSubscriptions, Match, SetSubscription
from indexes.matchers.config import MatcherConfig, Subscriptions
from indexes.matchers.engine import MatcherEngine
from indexes.matchers.state import MatcherState
from spark_jobs.history.events import read_events
from tests.spark.boards import LSN, contents
from tests.spark.histories import history, wanted
from tests.spark.matchers import NAMES, make, snapshot
from tests.spark.runtime import need_java
from tests.support.running import Running
from tests.support.service_fixtures import Start, _kernels_when_needed, make_client, start

__all__ = ["_kernels_when_needed", "make_client", "start"]

N, K = 3_000, 5
ADS = MatcherConfig(NAMES, "exact")
JOBS = MatcherConfig(NAMES, "relaxed", "product", "ir")


class World:
    """A service with two matchers, and what is true of them."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self.truth = {"ads": self._make("ads", ADS), "jobs": self._make("jobs", JOBS)}

    def _make(self, name: str, config: MatcherConfig) -> MatcherState:
        """Make a matcher of which a tenth is deleted again, and one subscription changed."""
        made = make(8, N, config)
        ids = [f"s{i}" for i in range(N)]
        self.write("put", name, config)
        self.write("submit", name, AddSubscriptions(pa.array(ids), made.subscriptions))
        self.write("submit", name, DeleteSubscriptions(ids[3::10]))
        kept = np.flatnonzero(np.arange(N) % 10 != 3)
        known = made.subscriptions.take(kept)
        other = Subscriptions(*(column[5:6] for column in known))
        self.write("submit", name, SetSubscription(ids[kept[2]], other.rows[0]))
        for column, row in zip(known, other, strict=True):
            column[2] = row[0]
        packed = pack(pa.array([ids[row] for row in kept]), np.arange(len(kept), dtype=np.int32))
        return MatcherState(config, 0, packed, known, np.full(len(kept), np.nan))

    def write(self, how: str, name: str, what: Any) -> Any:
        """Write through the service's writer."""

        async def run() -> Any:
            return await getattr(self.running.service.matchers, how)(name, what)

        return self.running.call(run)

    def engine(self, name: str) -> MatcherEngine:
        found = self.running.service.matchers.get(name)
        assert found is not None
        return found

    def answers(self, name: str, table: pa.Table) -> list[list[dict[str, Any]]]:
        """What the service answers to the events of a table."""
        events = read_events("", table, self.engine(name).config.dimensions, 0)

        async def ask() -> Any:
            return await self.running.service.matchers.ask(name, lambda engine: engine.ask(Match(events, K)))

        return [result.fields(False)["winners"] for result in self.running.call(ask).results]


def match_history(*options: object) -> tuple[int, list[dict[str, Any]], str]:
    """The exit code of the command, the lines on stdout, and what it logged."""
    command = [sys.executable, "-m", "spark_jobs.history.match", "--master", "local[2]", *map(str, options)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr[-4000:]


def test_matchers_on_spark_are_those_of_the_service(start: Start, tmp_path: Path) -> None:
    need_java()
    running = start(spark_master="local[2]")
    world = World(running)
    data, table, size = tmp_path / "data", history(9, 400, NAMES), len(world.truth["ads"].ttl)
    expected = {name: wanted(state, table, K) for name, state in world.truth.items()}
    lsn = running.done("snapshots")["lsn"]

    # The service's own bytes are those of Spark, which it takes up.
    assert running.done("rebuilds", engine="local")["rows"] == 2 * size
    image = data / "images" / str(lsn) / "matchers" / "ads"
    own = contents(image)
    assert own.keys() == {"blocks.arrow", "runs.arrow", "sample.arrow", "manifest.json"}
    before = world.engine("ads").matcher
    detail = running.done("rebuilds", engine="spark", resources=["matchers/ads"])
    assert (detail["engine"], detail["rows"]) == ("spark", size)
    assert contents(image) == own
    assert [path.name for path in sorted(image.parent.iterdir())] == ["ads", "jobs"]
    assert world.engine("ads").matcher is not before
    assert running.service.snapshots.packed(lsn, "matchers/ads") is not None
    for name in world.truth:
        world.engine(name).check()
        assert world.answers(name, table) == expected[name]

    # A history has the same winners, and what changes later is not in it.
    world.write("submit", "jobs", DeleteSubscriptions([f"s{i}" for i in range(0, N, 2)]))
    assert world.answers("jobs", table) != expected["jobs"]
    pq.write_table(table, tmp_path / "visits.parquet", row_group_size=150)
    out = tmp_path / "out" / "visits"
    options = "--storage", data, "--lsn", lsn, "--resource", "matchers/jobs", "--k", K
    code, lines, said = match_history(*options, "--events", tmp_path / "visits.parquet", "--output", out)
    assert code == 0, (lines[-1:], said)
    *steps, last = lines
    assert [line["progress"] for line in steps] == sorted(line["progress"] for line in steps)
    assert "matching the events" in {line["step"] for line in steps}
    parts = [f"part-0000{i}.parquet" for i in range(3)]
    assert sorted(path.name for path in out.iterdir()) == ["_SUCCESS", *parts]
    found = pq.read_table(out)
    assert found.drop(["winners"]).equals(table)
    assert found["winners"].to_pylist() == expected["jobs"]
    count = sum(map(len, expected["jobs"]))
    assert json.loads((out / "_SUCCESS").read_text()) == {
        "resource": "matchers/jobs", "lsn": lsn, "events": 400, "winners": count, "k": K, "seq": last["seq"],
    }  # fmt: skip
    assert (last["events"], last["winners"]) == (400, count)


def test_an_event_that_cannot_be_is_told_by_file_and_column(tmp_path: Path) -> None:
    need_java()
    snapshot(tmp_path, {"ads": make(3, 20, MatcherConfig(("age",), "exact"))})
    pq.write_table(pa.table({"age": [1.0, 2.0, float("nan")]}), tmp_path / "visits.parquet", row_group_size=2)
    options = "--storage", tmp_path, "--lsn", LSN, "--resource", "matchers/ads", "--temp", tmp_path
    code, lines, _ = match_history(*options, "--events", tmp_path / "visits.parquet", "--output", tmp_path / "out")
    assert code == 1
    assert lines[-1] == {"error": f"{tmp_path}/visits.parquet: age of event 2 is nan and must be finite"}
    assert list((tmp_path / "out").iterdir()) == []
