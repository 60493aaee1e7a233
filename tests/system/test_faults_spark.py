"""Spark under a service that dies, and Spark that dies under a service: no image counts that is not whole."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.oracles.service import Json
from tests.spark.runtime import need_java
from tests.support.live import LiveService, StartService
from tests.support.patience import PATIENCE, wait_until
from tests.system.faults import QUIET, begin, done, ended, failed, kept, said
from tests.system.http.talk import Talk
from tests.system.load import Load

SPARK = "org.apache.spark.deploy"
"""In the command of the Java that Spark runs in. Others are only asked for their version."""

LOCAL = ("--spark-master", "local[2]")
BOARD = "boards/load"


@pytest.fixture(scope="module", autouse=True)
def _java() -> None:
    need_java()


class World:
    """A service with a board, and what must be there."""

    def __init__(self, start_service: StartService) -> None:
        self._start = start_service
        self.service = start_service(None, *QUIET, *LOCAL)
        self.load = Load(self.service.url, ["single", "batch", "subscriptions"])
        self.load.start()
        self.talk = Talk(self.service.url)

    def write_some(self) -> None:
        """Let the log grow, so that a job has a row of its own; nobody writes any more when it returns."""
        before = self.load.answered
        self.load.gate.set()
        wait_until(lambda: self.load.answered >= before + 10)
        self.load.hold()

    def job(self, kind: str) -> str:
        """Begin a job on Spark; returns its id once Java runs."""
        id = begin(self.talk, kind, engine="spark")
        wait_until(lambda: any(SPARK in command for command in processes(self.service).values()))
        return id

    def again(self) -> None:
        """Start the service again, and compare everything with the brute-force oracle."""
        self.talk.close()
        self.service = self._start(self.service.data, *QUIET, *LOCAL, until="module")
        self.load.url = self.service.url
        self.talk = Talk(self.service.url)
        self.check()

    def check(self) -> None:
        self.load.check(self.talk, [self.load.read(self.talk)])
        assert done(self.talk, "verify")["differences"] == []

    def end(self) -> None:
        self.load.stop()
        self.check()
        self.talk.close()
        assert self.service.stop() == 0


@pytest.fixture(scope="module")
def world(start_service: StartService) -> Iterator[World]:
    world = World(start_service)
    yield world
    world.end()


def processes(service: LiveService) -> dict[int, str]:
    """The processes of the sessions that jobs of a service began, by number, with their commands."""
    sessions: set[str] = set()
    found: dict[int, tuple[str, str]] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            state, _, _, session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if state != "Z":
            found[int(folder.name)] = (command, session)
            if "-m spark_jobs." in command and str(service.data) in command:
                sessions.add(session)
    return {pid: command for pid, (command, session) in found.items() if session in sessions}


def running(pids: dict[int, str]) -> list[int]:
    """Those that still run."""
    return [pid for pid in pids if (status := state_of(pid)) is not None and status != "Z"]


def state_of(pid: int) -> str | None:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None


def at_work(world: World) -> bool:
    """Whether Spark writes pieces of an image."""
    try:
        return any((world.service.data / "images").glob("*/*/*~pieces-*"))
    except FileNotFoundError:  # a folder went meanwhile
        return False


def begin_and_reach(world: World, kind: str, moment: Callable[[World], bool]) -> list[int]:
    """Begin a job on Spark and return at a moment of it, with the images that there were before.

    On a slow machine that may go by unseen, and then again.
    """
    for _ in range(5):
        images = kept(world.service.data, "images")
        job = world.job(kind)
        reached = False

        def reached_or_over(job: str = job) -> bool:
            nonlocal reached
            reached = moment(world)
            return reached or world.talk.good("GET", f"/v1/admin/jobs/{job}")["ended"] is not None

        wait_until(reached_or_over)
        if reached:
            return images
        world.write_some()
    raise AssertionError("the moment is never seen")


@pytest.mark.parametrize(
    ("kind", "moment"), [("verify", lambda world: True), ("rebuilds", at_work)], ids=["audit", "rebuild"]
)
def test_spark_ends_with_a_service_that_is_killed(world: World, kind: str, moment: Callable[[World], bool]) -> None:
    """What it has left does not count, and the same job at the same row succeeds after the restart."""
    for _ in range(2):
        done(world.talk, "snapshots")
        world.write_some()
    images = begin_and_reach(world, kind, moment)
    left = processes(world.service)
    assert len(left) >= 2
    world.service.stop(signal.SIGKILL)
    assert kept(world.service.data, "images") == images
    world.again()
    detail = done(world.talk, kind, engine="spark")
    if kind == "verify":
        assert detail["compared"] == len(world.load.model.questions) and detail["differences"] == []
    else:
        assert detail["engine"] == "spark" and len(kept(world.service.data, "images")) > len(images)
        assert len(said(world.service, "indexes swapped")) == 1
    assert len(kept(world.service.data)) == 2
    wait_until(lambda: not running(left))
    world.check()


def is_driver(pid: int, command: str) -> bool:
    """Whether it is the job's own process: the leader of its session."""
    return os.getsid(pid) == pid


def is_java(pid: int, command: str) -> bool:
    """Whether it is Spark's."""
    return SPARK in command


def kill_one(service: LiveService, which: Callable[[int, str], bool]) -> None:
    """Kill such a process. Some live for a moment only, as those that begin Java."""

    def killed() -> bool:
        for pid, command in processes(service).items():
            with suppress(ProcessLookupError):
                if which(pid, command):
                    os.kill(pid, signal.SIGKILL)
                    return True
        return False

    wait_until(killed)


@pytest.mark.parametrize(
    ("which", "told"), [(is_driver, "was killed by signal 9"), (is_java, "Spark")], ids=["driver", "java"]
)
def test_a_job_that_is_killed_from_outside_has_failed(
    world: World, which: Callable[[int, str], bool], told: str
) -> None:
    """The indexes in use stay, and the service goes on."""
    world.write_some()
    images = kept(world.service.data, "images")
    swapped = len(said(world.service, "indexes swapped"))
    job = world.job("rebuilds")
    left = processes(world.service)
    world.load.gate.set()
    kill_one(world.service, which)
    found: Json = ended(world.talk, job)
    assert found["state"] == "failed" and told in found["detail"]["error"], found
    assert "\n" not in found["detail"]["error"]
    wait_until(lambda: not running(left))
    assert set(kept(world.service.data, "images")) <= set(images), "an image that is not whole counts"
    assert len(said(world.service, "indexes swapped")) == swapped
    world.load.hold()
    world.check()


def test_spark_ends_with_a_service_that_is_told_to_stop(world: World) -> None:
    world.write_some()
    world.job("verify")
    left = processes(world.service)
    world.service.process.terminate()
    assert world.service.process.wait(PATIENCE) == 0
    wait_until(lambda: not running(left))
    (*_, told) = said(world.service, "job failed")
    assert "the service ended" in told["error"]
    world.again()


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--spark-master", "nonsense"), "nonsense"),
        (("--spark-options", "spark.driver.memory=banana"), "Spark"),
        (("--java-home", "/nowhere"), "/nowhere"),
        (("--spark-python", "/nowhere/python"), "cannot be started"),
    ],
    ids=["master", "option", "java", "python"],
)
def test_spark_that_cannot_begin_is_a_failed_job(
    start_service: StartService, world: World, options: tuple[str, ...], told: str
) -> None:
    service = start_service(None, *QUIET, *LOCAL, "--keep-snapshots", "1", *options)
    talk = Talk(service.url)
    config: dict[str, Any] = world.load.model.shown_config()
    talk.good("PUT", "/v1/boards/load", config)
    first = done(talk, "snapshots")["lsn"]
    talk.good("PUT", "/v1/boards/load/subscriptions/s", {"k": 5})
    assert told in failed(talk, "rebuilds", engine="spark")
    assert kept(service.data) == [first + 1], "snapshots of jobs that failed pile up"
    assert not said(service, "indexes swapped") and kept(service.data, "images") == []
    talk.good("PUT", "/v1/boards/load/objects/o", {"values": {"distance": 1, "delay": 1}})
    assert talk.good("GET", "/v1/boards/load/subscriptions/s")["list"][0]["id"] == "o"
    assert done(talk, "rebuilds")["engine"] == "local"
    talk.close()
    assert service.stop() == 0


@pytest.mark.parametrize(
    ("kind", "moment"), [("verify", lambda world: True), ("rebuilds", at_work)], ids=["audit", "rebuild"]
)
def test_a_job_on_spark_that_is_cancelled_leaves_nothing(
    world: World, kind: str, moment: Callable[[World], bool]
) -> None:
    """Its processes end, nothing of it stays in the storage, and the next one succeeds."""
    world.write_some()
    images = begin_and_reach(world, kind, moment)
    left = processes(world.service)
    assert len(left) >= 2
    (job,) = [job for job in world.talk.good("GET", "/v1/admin/jobs?limit=1000")["items"] if job["ended"] is None]
    assert world.talk.good("DELETE", f"/v1/admin/jobs/{job['job']}")["detail"] == {"step": "cancelling"}
    found: Json = ended(world.talk, job["job"])
    assert (found["state"], found["detail"]) == ("cancelled", {"error": "the job was cancelled"})
    assert not running(left), "the job has ended before its processes"
    assert kept(world.service.data, "images") == images
    assert not list((world.service.data / "images").glob("*/*/*~pieces-*"))
    assert not (world.service.data / "audits").exists() or kind == "rebuilds" or not kept(world.service.data, "audits")
    assert done(world.talk, kind, engine="spark")
    world.check()
