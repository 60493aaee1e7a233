"""The commands of jobs against a service whose work is a stand-in's, and restoring with a stand-in."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
import structlog
import uvicorn
from typer.testing import CliRunner, Result

from app.cli.main import cli
from app.main import create_app
from app.server.serving import Server
from app.service import Service
from app.settings import Settings
from rankcast_client import Rankcast, Retry
from tests.support.fake_maintenance import LIMIT, FakeMaintenance, different
from tests.support.patience import wait_until
from tests.support.ports import free_port

BOARD = {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [1]}


class Live:
    """A service in a thread of this process."""

    def __init__(self, data: Path) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        config = uvicorn.Config(
            create_app(Settings(data=data)), port=int(self.url.rpartition(":")[2]), log_config=None, access_log=False
        )
        self._server = Server(config)
        self._thread = threading.Thread(target=self._server.run)
        self._thread.start()
        began = time.monotonic()
        while not self._server.started:
            assert time.monotonic() - began < LIMIT and self._thread.is_alive()
            time.sleep(0.005)
        assert httpx.put(f"{self.url}/v1/boards/b", json=BOARD, timeout=LIMIT).status_code == 201

    def run(self, *arguments: str) -> Result:
        return run(*arguments, "--url", self.url)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(LIMIT)
        assert not self._thread.is_alive()


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), env={"COLUMNS": "250", "TERM": "dumb"})


@pytest.fixture(autouse=True)
def _nothing_logged() -> Iterator[None]:
    """What the service logs would be taken for what a command says."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()


@pytest.fixture
def live(work: FakeMaintenance, tmp_path: Path) -> Iterator[Live]:
    live = Live(tmp_path / "data")
    yield live
    live.stop()


def test_a_snapshot_is_followed_and_what_came_of_it_is_printed(live: Live, work: FakeMaintenance) -> None:
    work.steps = [(0.5, "writing objects")]
    done = live.run("snapshot")
    assert done.exit_code == 0, done.output
    assert done.stdout == "lsn: 7\nbytes: 2500000\nseconds: 0.5\n"
    assert done.stderr.splitlines()[-1] == "100% snapshot j1: succeeded"


def test_it_is_said_that_a_job_waits_for_kernels(
    work: FakeMaintenance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = threading.Event()

    async def wait(service: Service) -> None:
        while not said.is_set():
            await asyncio.sleep(0.01)

    def share(service: Service) -> float:
        threading.Timer(1.0, said.set).start()
        return 0.25

    monkeypatch.setattr(Service, "_wait_for_job_kernels", wait)
    monkeypatch.setattr(Service, "_job_kernels_share", share)
    live = Live(tmp_path / "data")
    try:
        done = live.run("snapshot")
    finally:
        live.stop()
    assert done.exit_code == 0, done.output
    assert " 25% waiting for kernels: snapshot j1" in done.stderr.splitlines()


def test_a_terminal_shows_a_bar(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    done = live.run("snapshot")
    assert done.exit_code == 0, done.output
    assert "snapshot j1: succeeded" in done.stderr
    assert "100%" in done.stderr
    assert "\u2501" in done.stderr
    assert done.stdout.startswith("lsn: 7\n")


@pytest.mark.parametrize(
    ("arguments", "call", "last"),
    [
        (["rebuild"], ("rebuild", None, "local"), "seconds: 1.5"),
        (["rebuild", "boards/b", "--engine", "spark"], ("rebuild", ["boards/b"], "spark"), "seconds: 1.5"),
        (["verify", "boards/b"], ("verify", ["boards/b"], "local"), "compared: 12"),
        (["verify", "--engine", "spark"], ("verify", None, "spark"), "compared: 12"),
    ],
)
def test_what_is_asked_for_is_done(
    live: Live, work: FakeMaintenance, arguments: list[str], call: tuple[Any, ...], last: str
) -> None:
    done = live.run(*arguments)
    assert done.exit_code == 0, done.output
    assert work.calls == [call]
    assert done.stdout.splitlines()[-1] == last


def anew(*unsubscribe: str, count: int = 0) -> dict[str, Any]:
    count = count or len(unsubscribe)
    return {"subscribe": [], "subscribe_count": 0, "unsubscribe": list(unsubscribe), "unsubscribe_count": count}


def test_a_rebuild_says_what_relays_forward_no_more(live: Live, work: FakeMaintenance) -> None:
    work.more = {
        "rederived": {
            "relays/edge": {"seq": 9, **anew("s1", "s2")},
            "relays/hub": {
                "seq": 8,
                "links": {"north": anew(*(f"s{n}" for n in range(20)), count=2000), "west": anew()},
            },
        }
    }
    facts = [
        "relays/edge: unsubscribe 2: s1 s2",
        "relays/hub over north: unsubscribe 2,000: s0 s1 s2 s3 s4 s5 s6 s7 s8 s9 and 1,990 more",
        "relays/hub over west: forwards what it did",
    ]
    done = live.run("rebuild")
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[-3:] == facts
    assert live.run("jobs").stdout.endswith("\t" + " ".join(["engine: local rows: 3 seconds: 1.5", *facts]) + "\n")


def test_a_job_that_fails_ends_with_1_and_the_first_differences(live: Live, work: FakeMaintenance) -> None:
    work.fails = different(14)
    done = live.run("verify")
    assert (done.exit_code, done.stdout) == (1, "")
    said = done.stderr.splitlines()
    assert said[-1] == "rankcast: the verify j1 failed: 14 lists differ"
    assert [line for line in said if line.startswith("  {")] == [
        f'  {{"resource":"boards/b","subscription":"s{n}","expected":[{n}],"found":[]}}' for n in range(10)
    ]
    assert "  and 4 more" in said
    assert "compared: 50" in said


def test_without_waiting_the_id_is_printed_and_jobs_lists_it(live: Live, work: FakeMaintenance) -> None:
    work.go.clear()
    work.steps = [(0.25, "laying out boards/b")]
    done = live.run("rebuild", "--no-wait")
    assert (done.exit_code, done.stdout) == (0, "j1\n")
    assert work.begun.acquire(timeout=LIMIT)
    wait_until(lambda: "25%" in live.run("jobs").stdout)
    fields = live.run("jobs").stdout.rstrip("\n").split("\t")
    assert fields[:4] == ["j1", "rebuild", "running", "25%"]
    assert fields[5:] == ["-", "step: laying out boards/b"]
    work.fails = different(2)
    work.go.set()
    wait_until(lambda: "failed" in live.run("jobs").stdout)
    assert "error: 2 lists differ compared: 50" in live.run("jobs").stdout


def test_a_refusal_is_told(live: Live, work: FakeMaintenance) -> None:
    done = live.run("rebuild", "boards/nobody")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "there is no 'boards/nobody'" in done.stderr
    assert work.calls == []
    assert live.run("rebuild", "--engine", "hadoop").exit_code == 2


def test_a_service_that_ends_meanwhile_is_told(
    work: FakeMaintenance, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rankcast_client._sync._base.Retry", lambda: Retry(attempts=3, first=0.01, most=0.02))
    work.go.clear()
    live = Live(tmp_path / "data")

    def end() -> None:
        with Rankcast(live.url) as client:
            wait_until(
                lambda: "sse" in client.http.get("/metrics").text.partition('rankcast_streams{transport="sse"} 1')[1]
            )
        live.stop()

    thread = threading.Thread(target=end)
    thread.start()
    done = live.run("snapshot")
    thread.join(LIMIT)
    assert done.exit_code == 1
    assert "rankcast: the service ended while the job j1 ran" in done.stderr


def test_following_may_be_given_up(live: Live, work: FakeMaintenance, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(self: object, id: str) -> Iterator[Any]:
        raise KeyboardInterrupt

    monkeypatch.setattr("rankcast_client.Jobs.follow", interrupted)
    done = live.run("snapshot")
    assert done.exit_code == 1
    assert "the job j1 goes on; rankcast jobs shows it" in done.stderr


def test_ctrl_c_cancels_if_it_is_to(live: Live, work: FakeMaintenance, monkeypatch: pytest.MonkeyPatch) -> None:
    work.go.clear()

    def interrupted(self: object, id: str) -> Iterator[Any]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("rankcast_client.Jobs.follow", interrupted)
        done = live.run("snapshot")
        assert "rankcast jobs cancel j1 ends it" in done.stderr
        assert live.run("jobs", "cancel", "j1").exit_code == 0
        done = live.run("verify", "--cancel-on-interrupt")
        assert (done.exit_code, done.stdout) == (1, "")
        assert "the job j2 is cancelled" in done.stderr
    wait_until(lambda: [line.split("\t")[2] for line in live.run("jobs").stdout.splitlines()] == ["cancelled"] * 2)


def test_a_command_says_that_its_job_was_cancelled(live: Live, work: FakeMaintenance) -> None:
    work.go.clear()

    def cancel() -> None:
        assert work.begun.acquire(timeout=LIMIT)
        httpx.delete(f"{live.url}/v1/admin/jobs/j1", timeout=LIMIT)

    thread = threading.Thread(target=cancel)
    thread.start()
    done = live.run("rebuild")
    thread.join(LIMIT)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "rankcast: the rebuild j1 was cancelled" in done.stderr


def test_a_job_that_is_not_known_cannot_be_cancelled(live: Live) -> None:
    done = live.run("jobs", "cancel", "j7")
    assert done.exit_code == 1 and "there is no job 'j7'" in done.stderr


# restore


class RestoreFailed(Exception):
    """As the real one."""


@pytest.fixture
def restored(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What stands in for the module that restores: `calls`, and what it raises."""

    def restore(
        snapshot: str,
        data: Path,
        database: str | None,
        progress: Callable[[float, str], None],
        storage: str | None,
    ) -> dict[str, Any]:
        fake.calls.append((snapshot, data, database, storage))
        progress(0.0, "reading the manifest")
        progress(0.5, "writing the log")
        progress(0.55, "writing the log")
        if fake.fails is not None:
            raise fake.fails
        return {"lsn": 120, "boards": 2}

    fake = SimpleNamespace(RestoreFailed=RestoreFailed, restore=restore, calls=[], fails=None)
    monkeypatch.setitem(sys.modules, "app.storage.restore", fake)
    return fake


def test_a_snapshot_is_restored(restored: SimpleNamespace, tmp_path: Path) -> None:
    done = run("restore", "snapshots/120", "--data", str(tmp_path / "new"), "--database", "sqlite:///x.db")
    assert done.exit_code == 0, done.output
    assert restored.calls == [("snapshots/120", tmp_path / "new", "sqlite:///x.db", None)]
    assert done.stdout == "lsn: 120\nboards: 2\n"
    said = done.stderr.splitlines()
    assert said[:2] == ["  0% reading the manifest", " 50% writing the log"]
    assert said[2].startswith("restored; serve it with: rankcast serve --data ")


def test_a_snapshot_that_cannot_be_restored_is_told(restored: SimpleNamespace, tmp_path: Path) -> None:
    restored.fails = RestoreFailed("snapshots/120 is damaged: keys.parquet has other bytes")
    done = run("restore", "snapshots/120", "--data", str(tmp_path / "new"))
    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.splitlines()[-1] == "rankcast: snapshots/120 is damaged: keys.parquet has other bytes"


def test_where_to_restore_must_be_said(restored: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RANKCAST_DATA", raising=False)
    assert run("restore", "snapshots/120").exit_code == 2
    assert restored.calls == []
