"""The audit on a real Spark, as the service starts it: a process that reads and writes below a storage root."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from math import inf
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.spark.runtime import need_java
from tests.spark.snapshots import World
from tests.support.patience import PATIENCE, wait_until

COMPARING = "comparing the lists"


@pytest.fixture(autouse=True)
def _java() -> None:
    need_java()


@pytest.fixture
def temp(tmp_path: Path) -> Path:
    """The system's temporary folder for the job."""
    folder = tmp_path / "temp folder"
    folder.mkdir()
    return folder


@pytest.fixture
def storage(tmp_path: Path) -> Path:
    """A storage root whose name could be taken for a pattern."""
    return tmp_path / "data [1] {a} 50%20*"


def make(order: str) -> World:
    """300 objects with shared x and y, 4,000 subscriptions of mixed k; sids are not in order of id."""
    rng = random.Random(11)
    objects = [
        {
            "row": 2 * i + 1, "id": f"o:{i}", "x": float(rng.randrange(60)), "y": float(rng.randrange(40)),
            "created": 1000 - 3 * i, "payload": None,
        }
        for i in range(300)
    ]  # fmt: skip
    sids = rng.sample(range(9000), 4000)
    subscriptions = []
    for i, sid in enumerate(sids):
        l, r = sorted(rng.choices([-inf, inf, *map(float, range(-2, 63))], k=2))
        if l != inf and r != -inf:
            subscriptions.append({"sid": sid, "id": f"s{i:05}", "l": l, "r": r, "k": rng.choice([1, 10, 400])})
    return World(order, objects, subscriptions)


class Run:
    """The job's process. `lines` are those read from its stdout so far."""

    def __init__(self, storage: Path | str, temp: Path, *options: str, resource: str = "boards/a:b") -> None:
        self.log = (temp.parent / "log").open("a+b")
        environ = {**os.environ, "TMPDIR": str(temp), "PYTHONDONTWRITEBYTECODE": ""}
        self.lines: list[dict[str, Any]] = []
        self.process = subprocess.Popen(
            [
                sys.executable, "-m", "spark_jobs.audit.boards", "--storage", str(storage), "--lsn", "12",
                "--resource", resource, "--master", "local[2]", *options,
            ],
            stdout=subprocess.PIPE, stderr=self.log, text=True, cwd=temp, env=environ,
        )  # fmt: skip

    def read(self) -> Iterator[dict[str, Any]]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.append(json.loads(line))
            yield self.lines[-1]

    def until(self, step: str) -> None:
        """Read until the job is at a step."""
        for line in self.read():
            if line.get("step") == step:
                return
        pytest.fail(f"it ended before {step}: {self.lines}\n{self.said()}")

    def end(self) -> tuple[int, dict[str, Any]]:
        """The exit code and the last line."""
        for _ in self.read():
            pass
        return self.process.wait(PATIENCE), self.lines[-1]

    def said(self) -> str:
        self.log.seek(0)
        return self.log.read().decode(errors="replace")[-4000:]

    def jvm(self) -> list[int]:
        """The process that it started for Spark, from its launch on."""
        command = ["pgrep", "-f", "-P", str(self.process.pid), "pyspark-shell"]
        found = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
        return [int(pid) for pid in found.stdout.split()]


def held_at_the_comparison(storage: Path, temp: Path, result: Path, *options: str) -> Run:
    """A job that was stopped while it compares. On a slow machine it may be over before, and then it is run again."""
    for _ in range(5):
        run = Run(storage, temp, *options)
        run.until(COMPARING)
        run.process.send_signal(signal.SIGSTOP)
        jvm = run.jvm()
        if jvm and not (result / "differences.parquet").exists():
            return run
        run.process.kill()
        run.process.wait()
        if jvm:
            wait_until_gone(jvm)
        (result / "differences.parquet").unlink(missing_ok=True)
    pytest.fail("it was always over before it could be stopped")


def wait_until_gone(pids: list[int], seconds: float = PATIENCE) -> None:
    """Returns once none of them runs; one that nobody has waited for does not run either."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        shown = subprocess.run(
            ["ps", "-o", "stat=", "-p", ",".join(map(str, pids))], stdout=subprocess.PIPE, text=True, check=False
        )
        if all(state.startswith("Z") for state in shown.stdout.split()):
            return
        time.sleep(0.1)
    pytest.fail(f"still running: {pids}")


def test_a_killed_audit_leaves_nothing_that_counts_and_is_run_again(storage: Path, temp: Path) -> None:
    world = make("desc")
    result = world.write(storage, "a:b")
    killed = held_at_the_comparison(storage, temp, result)
    jvm = killed.jvm()
    killed.process.kill()
    killed.process.wait()
    assert not (result / "differences.parquet").exists()
    wait_until_gone(jvm)

    # What an audit at another moment would have left.
    (result / "differences.draft-0").mkdir()
    (result / "differences.draft-0" / "part-0.parquet").write_bytes(b"half")
    (result / "differences.parquet.partial").write_bytes(b"half")

    again = Run(storage, temp)
    code, last = again.end()
    assert (code, last["compared"], last["difference_count"], last["differences"]) == (
        0, len(world.subscriptions), 0, [],
    ), again.said()  # fmt: skip
    fractions = [line["progress"] for line in again.lines[:-1]]
    assert fractions == sorted(fractions) and {line["step"] for line in again.lines[:-1]} >= {COMPARING}
    assert sorted(path.name for path in result.iterdir()) == ["differences.parquet", "lists.parquet"]
    assert pq.read_table(result / "differences.parquet").num_rows == 0
    left = sorted(path.name for path in temp.iterdir() if not path.name.startswith("hsperfdata"))
    assert left == [], left


@pytest.mark.parametrize("master", ["local[2]", "local-cluster[1,2,1024]"])
def test_planted_differences_are_all_found(master: str, storage: Path, temp: Path) -> None:
    """Also on a cluster, whose workers get the code from the driver."""
    world = make("asc")
    lists = world.lists()
    long = [one for one in lists if len(one["rows"]) >= 3]
    planted: dict[int, tuple[str, list[int]]] = {}
    for one in long[:50]:
        one["rows"] = [one["rows"][1], one["rows"][0], *one["rows"][2:]]
        planted[one["sid"]] = ("order", one["rows"])
    for one in long[50:110]:
        one["rows"] = one["rows"][:-1]
        planted[one["sid"]] = ("members", one["rows"])
    gone = long[110]["sid"]
    lists = [one for one in lists if one["sid"] != gone]
    planted[gone] = ("missing", [])
    lists += [{"sid": 9500, "rows": [1, 3]}, long[111]]
    planted[9500] = ("extra", [1, 3])
    planted[long[111]["sid"]] = ("extra", long[111]["rows"])
    result = world.write(storage, "a:b", lists)

    run = Run(f"file://{storage.parent}/data%20%5B1%5D%20%7Ba%7D%2050%2520*", temp, "--master", master)
    code, last = run.end()
    assert code == 2, (last, run.said())
    assert (last["compared"], last["difference_count"]) == (len(world.subscriptions), len(planted))
    found = pq.read_table(result / "differences.parquet").to_pylist()
    assert {one["sid"]: (one["problem"], one["found"]) for one in found} == {
        sid: (kind, world.ids(rows)) for sid, (kind, rows) in planted.items()
    }
    by_sid = {one["sid"]: one for one in world.subscriptions}
    for one in found:
        asked = by_sid.get(one["sid"])
        assert one["id"] == (asked and asked["id"])
        assert one["expected"] == (world.ids(world.best(asked)) if asked and one["problem"] != "extra" else [])
    assert last["differences"] == sorted(found, key=lambda one: one["sid"])[:100]

    # On a cluster what ran is the unpacked copy, and only there is one.
    shipped = list(temp.glob("rankcast-code-*/rankcast_*/spark_jobs/audit/__pycache__/board_tasks.*.pyc"))
    assert len(shipped) == (master != "local[2]")


def test_sigterm_ends_the_jvm_too_which_was_as_nice_as_asked(storage: Path, temp: Path) -> None:
    result = make("asc").write(storage, "a:b")
    run = held_at_the_comparison(storage, temp, result, "--nice", "19")
    jvm = run.jvm()
    assert [os.getpriority(os.PRIO_PROCESS, pid) for pid in jvm] == [19]
    run.process.send_signal(signal.SIGTERM)
    run.process.send_signal(signal.SIGCONT)
    code, last = run.end()
    assert code == 128 + signal.SIGTERM and "compared" not in last, run.said()
    wait_until_gone(jvm)
    assert not (result / "differences.parquet").exists()
    assert not list(temp.glob("rankcast-*"))


def test_sigterm_while_the_jvm_starts_leaves_none(storage: Path, temp: Path) -> None:
    """The moment at which the JVM is there, but has not told its driver so yet."""
    make("asc").write(storage, "a:b")
    run = Run(storage, temp)
    run.until("starting Spark")
    wait_until(run.jvm, pause=0.01)
    jvm = run.jvm()
    run.process.send_signal(signal.SIGTERM)
    code, _ = run.end()
    assert code == 128 + signal.SIGTERM, run.said()
    wait_until_gone(jvm)
    assert not list(temp.glob("rankcast-*"))


def test_a_jvm_that_is_killed_is_told(storage: Path, temp: Path) -> None:
    """As by a system that is out of memory."""
    result = make("asc").write(storage, "a:b")
    run = held_at_the_comparison(storage, temp, result)
    for pid in run.jvm():
        os.kill(pid, signal.SIGKILL)
    run.process.send_signal(signal.SIGCONT)
    code, last = run.end()
    assert (code, last) == (1, {"error": "Spark failed: its Java was killed by signal 9"}), run.said()
    assert not (result / "differences.parquet").exists()
    assert not list(temp.glob("rankcast-*"))


def test_a_flipped_byte_is_told_before_spark_starts(storage: Path, temp: Path) -> None:
    result = make("asc").write(storage, "a:b")
    path = result / "lists.parquet"
    text = bytearray(path.read_bytes())
    text[len(text) // 2] ^= 4
    path.write_bytes(text)
    code, last = Run(storage, temp).end()
    assert code == 1
    assert last["error"].endswith("audits/12/boards/a:b/lists.parquet is damaged: its SHA-256 differs")


def test_spark_that_does_not_start_is_told_in_a_sentence(storage: Path, temp: Path) -> None:
    make("asc").write(storage, "a:b")
    code, last = Run(storage, temp, "--driver-memory", "1x").end()
    assert code == 1 and "Spark did not start" in last["error"]
    assert not list(temp.glob("rankcast-*"))
