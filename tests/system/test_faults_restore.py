"""Restoring a snapshot: cut off anywhere it can be done again, and what comes of it is a history of its own."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.databases import KINDS as DATABASES
from tests.support.databases import fresh
from tests.support.live import RANKCAST, StartService
from tests.support.patience import PATIENCE, wait_until
from tests.system.faults import QUIET, Points, done, kept, refused_start
from tests.system.http.following import SseFollower
from tests.system.http.talk import Talk, problem
from tests.system.load import Load, Writer

MOMENTS = [
    ("formats.folder:Draft._sync", "before", 3),
    ("app.storage.keys:KeyStore.add_many", "after", 1),
    ("app.storage.log:Log.add_answers", "after", 1),
    ("app.storage.log:Log.start_at", "after", 1),
    ("app.storage.restore:_fill", "after", 1),
]


class Source:
    """A stopped service with a snapshot that has everything, and what it knew."""

    def __init__(self, start_service: StartService) -> None:
        service = start_service(None, *QUIET)
        self.load = Load(service.url, ["single", "batch", "ndjson", "subscriptions"])
        self.load.start()
        wait_until(lambda: self.load.answered >= 150)
        self.load.stop()
        talk = Talk(service.url)
        talk.good("PUT", "/v1/boards/gone", self.load.model.shown_config())
        self.gone = talk.good("DELETE", "/v1/boards/gone")["seq"]
        follower = SseFollower(service.url, f"{self.load.path}/subscriptions/s0/stream")
        follower.first()
        self.position = follower.position
        follower.leave()
        self.key = talk.good("POST", "/v1/admin/keys", {"name": "ops", "scopes": ["admin"]})["key"]
        talk.close()
        talk = Talk(service.url, self.key)
        self.mine = Writer(self.load, 9, "batch")
        for n in range(30):
            self.mine.writes.append(self.mine._next(n))
            assert self.mine.writes[-1].send(talk.http) == 200
        self.load.writers.append(self.mine)
        self.load.check(talk, [self.load.read(talk)])
        done(talk, "rebuilds")
        self.lsn = kept(service.data)[-1]
        self.epoch = (service.data / "EPOCH").read_text().strip()
        self.snapshot = service.data / "snapshots" / str(self.lsn)
        talk.close()
        assert service.stop() == 0


@pytest.fixture(scope="module")
def source(start_service: StartService) -> Source:
    return Source(start_service)


@pytest.fixture(params=DATABASES)
def options(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[str]]:
    """SQLite with everything in the data directory, or PostgreSQL and a storage beside it."""
    if request.param == "sqlite":
        yield []
        return
    with fresh(request.param, tmp_path) as made:
        yield ["--database", made.url, "--storage", str(tmp_path / "st [o]re %20")]


def restore(
    snapshot: Path, data: Path, *options: str, points: Points | None = None
) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **(points.env if points else {})}
    command: list[str | Path] = [RANKCAST, "restore", snapshot, "--data", data, *options]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment)


def test_a_restore_that_is_killed_is_done_again(
    start_service: StartService, source: Source, options: list[str], tmp_path: Path
) -> None:
    """The snapshot of a service on SQLite, into either database."""
    points = Points(tmp_path)
    data = tmp_path / "restored"
    storage = Path(options[-1]) if options else data
    for point, when, number in MOMENTS if options else MOMENTS[2:3]:
        points.die(point, when, number)
        cut = restore(source.snapshot, data, *options, points=points)
        assert cut.returncode == -signal.SIGKILL, (point, cut.stderr)
    assert "is not whole: a restore was cut off" in refused_start(data, *options)
    points.clear()
    whole = restore(source.snapshot, data, *options)
    assert whole.returncode == 0, whole.stderr
    assert kept(storage) == [source.lsn] and not (data / "RESTORING").exists()
    epoch = (data / "EPOCH").read_text().strip()
    assert f"epoch: {epoch}" in whole.stdout and epoch != source.epoch
    again = restore(source.snapshot, data, *options)
    assert again.returncode == 1 and "is not empty" in again.stderr

    service = start_service(data, *QUIET, *options)
    problem(Talk(service.url).ask("GET", "/v1/boards"), 401)
    talk = Talk(service.url, source.key)
    assert [key["name"] for key in talk.pages("/v1/admin/keys", 100)] == ["ops"]
    source.load.compare(*source.load.read(talk))
    assert done(talk, "verify")["differences"] == []
    for write in source.mine.writes:
        first = write.answer
        assert write.send(talk.http) == 200 and write.answer is not None and first is not None
        assert write.answer == {**first, "replayed": True}
    follower = SseFollower(service.url, f"{source.load.path}/subscriptions/s0/stream", source.position, source.key)
    assert follower.first().event == "reset"
    assert follower.said[0].position is not None and follower.said[0].position.startswith(epoch)
    follower.leave()
    assert talk.good("PUT", "/v1/boards/gone", source.load.model.shown_config())["seq"] == source.gone + 1
    new = done(talk, "snapshots")["lsn"]
    assert new == source.lsn + 1 and kept(storage) == [source.lsn, new]
    talk.close()
    service.stop(signal.SIGKILL)
    service = start_service(data, *QUIET, *options)
    talk = Talk(service.url, source.key)
    source.load.compare(*source.load.read(talk))
    talk.close()
    assert service.stop() == 0
