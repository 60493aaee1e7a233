"""Snapshots, images and the log when the service dies, files are damaged, or it is told to stop: nothing is lost."""

from __future__ import annotations

import json
import shutil
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.oracles.service import Question, covers, net_changes, plain
from tests.support.live import LiveService, StartService
from tests.support.patience import PATIENCE, wait_until
from tests.system.faults import QUIET, Points, Scene, begin, done, kept, refused_start, said
from tests.system.http.following import Checked, SseFollower
from tests.system.http.talk import ARROW, Talk, arrow, subscription_table
from tests.system.load import Load, Write, Writer, X

KINDS = ["single", "single", "batch", "ndjson", "subscriptions"]
SYNC = "formats.folder:Draft._sync"
FILES = 5
"""Files of a snapshot with one board, beside its manifest."""


def snapshot(talk: Talk) -> None:
    begin(talk, "snapshots")


def rebuild(talk: Talk) -> None:
    begin(talk, "rebuilds")


def test_killed_while_a_snapshot_is_written_and_old_ones_go(start_service: StartService, tmp_path: Path) -> None:
    """At each step: what is half there never counts, and the next snapshot of that very row is written whole."""
    scene = Scene(start_service, tmp_path, KINDS)
    scene.load.start()
    for _ in range(2):
        scene.write_some()
        done(scene.talk, "snapshots")
    moments = [
        (SYNC, "before", 3, False),
        (SYNC, "before", FILES + 1, False),
        (SYNC, "before", FILES + 2, True),
        ("formats.folder:Folder.delete", "after", 2, True),
        ("app.storage.ownership:Ownership._check", "before", 1, True),
    ]
    for point, when, number, counts in moments:
        scene.write_some()
        before = kept(scene.data)
        scene.die(snapshot, point, when, number)
        after = kept(scene.data)
        new = [lsn for lsn in after if lsn not in before]
        assert len(new) == counts, (point, when, before, after)

        def at_that_row(talk: Talk, before: list[int] = before, new: list[int] = new, point: str = point) -> None:
            (read,) = said(scene.service, "snapshot read")
            assert read["lsn"] == max(before + new), (point, read)
            lsn = done(talk, "snapshots")["lsn"]
            assert done(talk, "snapshots")["lsn"] == lsn == max(kept(scene.data)) and len(kept(scene.data)) == 2

        scene.again(at_that_row)
    scene.end()


def test_killed_at_any_moment_of_snapshots_in_a_row(start_service: StartService, tmp_path: Path) -> None:
    """From outside, at growing delays after a snapshot was asked for."""
    scene = Scene(start_service, tmp_path, [*KINDS, "bulk"])
    scene.load.start()
    for number in range(3):
        scene.write_some(30)
        for _ in range(3):
            snapshot(scene.talk)
        scene.write_some(1 + 4 * number)
        scene.kill()
        scene.again()
    scene.end()


def test_killed_while_an_image_is_written_and_swapped_in(start_service: StartService, tmp_path: Path) -> None:
    """Under changes of subscriptions. An image counts once it is whole, and the next rebuild of that row succeeds."""
    scene = Scene(start_service, tmp_path, ["single", "batch", "subscriptions", "subscriptions"])
    scene.load.start()
    scene.write_some()
    moments = [
        (SYNC, "before", FILES + 2 + 2, False),
        ("formats.folder:Draft.publish", "before", 2, False),
        ("formats.folder:Draft.publish", "after", 2, True),
        ("indexes.boards.plans.maintenance:FoldPlan._fold", "after", 1, True),
    ]
    for point, when, number, counts in moments:
        scene.write_some(20)
        before = kept(scene.data, "images")
        scene.die(rebuild, point, when, number)
        assert len(set(kept(scene.data, "images")) - set(before)) == counts, (point, when)

        def at_that_row(talk: Talk, counts: bool = counts, point: str = point) -> None:
            (taken,) = said(scene.service, "board taken up")
            assert taken["indexes"] == ("mapped" if counts else "laid out again"), point
            done(talk, "rebuilds")
            done(talk, "rebuilds")
            assert done(talk, "verify")["differences"] == []

        scene.again(at_that_row)
    scene.end()


# --- damage -----------------------------------------------------------------------------------------------------------


@dataclass
class Kept:
    """What a service has left that was stopped: two snapshots with an image each, and the log from the older one on."""

    data: Path
    load: Load
    older: int
    newer: int

    def copy(self, folder: Path) -> Path:
        """The data directory, to be damaged."""
        shutil.copytree(self.data, folder / "data")
        return folder / "data"

    def check(self, service: LiveService) -> None:
        """Everything is as the brute-force oracle has it."""
        talk = Talk(service.url)
        self.load.compare(*self.load.read(talk))
        assert done(talk, "verify")["differences"] == []
        talk.close()


@pytest.fixture(scope="module")
def left(start_service: StartService) -> Kept:
    service = start_service(None, *QUIET, "--keep-snapshots", "2")
    talk = Talk(service.url)
    load = Load(service.url, KINDS)
    load.start()
    lsns = []
    for _ in range(3):
        before = load.answered
        wait_until(lambda before=before: load.answered >= before + 60)
        done(talk, "rebuilds")
        lsns.append(kept(service.data)[-1])
    before = load.answered
    wait_until(lambda: load.answered >= before + 60)
    load.stop()
    load.check(talk, [load.read(talk)])
    talk.close()
    assert service.stop() == 0
    assert kept(service.data) == kept(service.data, "images") == lsns[1:]
    return Kept(service.data, load, *lsns[1:])


def flip(file: Path) -> None:
    """Change one bit in the middle of a file."""
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 4
    file.write_bytes(content)


def first_row(data: Path) -> int:
    """The first row of the log."""
    connection = sqlite3.connect(data / "rankcast.db")
    (found,) = connection.execute("select min(lsn) from log").fetchone()
    connection.close()
    return int(found)


def contents(root: Path) -> dict[str, int]:
    """The files of snapshots and images, and their sizes."""
    files = [path for kind in ("snapshots", "images") for path in (root / kind).rglob("*") if path.is_file()]
    return {str(path.relative_to(root)): path.stat().st_size for path in files}


def test_two_snapshots_are_kept_and_the_log_after_the_older_one(
    start_service: StartService, left: Kept, tmp_path: Path
) -> None:
    """With the newest one taken away by hand, it starts from the other."""
    assert first_row(left.data) == left.older + 1
    data = left.copy(tmp_path)
    shutil.rmtree(data / "snapshots" / str(left.newer))
    service = start_service(data, *QUIET, "--keep-snapshots", "2")
    assert [line["lsn"] for line in said(service, "snapshot read")] == [left.older]
    left.check(service)
    assert service.stop() == 0


@pytest.mark.parametrize("name", ["boards/load/objects.parquet", "keys.parquet", "manifest.json"])
def test_a_damaged_snapshot_is_reported_and_the_one_before_is_used(
    start_service: StartService, left: Kept, tmp_path: Path, name: str
) -> None:
    """It is not counted among those that are kept: the next snapshot lets the good one before it stay."""
    data = left.copy(tmp_path)
    file = data / "snapshots" / str(left.newer) / name
    if name == "manifest.json":
        file.write_bytes(file.read_bytes()[:-200])
    else:
        flip(file)
    service = start_service(data, *QUIET, "--keep-snapshots", "2")
    (told,) = said(service, "snapshot damaged")
    assert told["lsn"] == left.newer and str(file) in told["error"] and told["level"] == "error"
    assert [line["lsn"] for line in said(service, "snapshot read")] == [left.older]
    assert [line["indexes"] for line in said(service, "board taken up")] == ["mapped"]
    left.check(service)
    talk = Talk(service.url)
    new = done(talk, "snapshots")["lsn"]
    talk.close()
    assert service.stop() == 0
    assert left.older in kept(data) and first_row(data) == left.older + 1
    shutil.rmtree(data / "snapshots" / str(new))
    if name == "keys.parquet":
        service = start_service(data, *QUIET)
        assert [line["lsn"] for line in said(service, "snapshot read")] == [left.older]
        left.check(service)
        assert service.stop() == 0


def test_a_damaged_image_is_reported_and_laid_out_anew(start_service: StartService, left: Kept, tmp_path: Path) -> None:
    data = left.copy(tmp_path)
    file = data / "images" / str(left.newer) / "boards" / "load" / "slots.arrow"
    flip(file)
    service = start_service(data, *QUIET)
    (told,) = said(service, "image damaged")
    assert told["lsn"] == left.newer and str(file) in told["error"] and told["level"] == "error"
    assert [line["indexes"] for line in said(service, "board taken up")] == ["laid out again"]
    left.check(service)
    talk = Talk(service.url)
    done(talk, "rebuilds")
    talk.close()
    left.check(service)
    assert service.stop() == 0


def test_without_any_good_snapshot_it_refuses_to_start_and_deletes_nothing(
    start_service: StartService, left: Kept, tmp_path: Path
) -> None:
    data = left.copy(tmp_path)
    damaged = [data / "snapshots" / str(lsn) / "boards/load/subscriptions.parquet" for lsn in (left.older, left.newer)]
    for file in damaged:
        flip(file)
    before = contents(data)
    told = refused_start(data, *QUIET)
    assert f"rows 1 to {left.older} of the log are needed" in told.splitlines()[-1]
    assert all(str(file) in told for file in damaged)
    assert contents(data) == before and first_row(data) == left.older + 1
    for file in damaged:
        flip(file)
    service = start_service(data, *QUIET)
    left.check(service)
    assert service.stop() == 0


# --- a rebuild at full speed ------------------------------------------------------------------------------------------

MANY = 100_000
FOLLOWED = ["s1", "s4", "b7"]


class Churner(Writer):
    """Changes one subscription after the other among many."""

    def _next(self, n: int) -> Write:
        name = f"b{self.random.randrange(1000, MANY)}"
        l = self.random.randrange(40)
        question = Question(float(l), l + self.random.randrange(9) + n / 1e6, self.random.choice([1, 5]))
        body = {"range": {X: [question.l, question.r]}, "k": question.k}
        write = self._json(f"c{self.number}-{n}", f"{self.load.path}/subscriptions/{name}", [])
        write.method, write.content, write.subscription = "PUT", json.dumps(body).encode(), (name, question)
        return write


class BigLoad(Load):
    """A load on a board with many subscriptions, of which a sample is compared."""

    def __init__(self, url: str, kinds: list[str]) -> None:
        super().__init__(url, [])
        draw = Random(5)
        asked = []
        for n in range(MANY):
            l = draw.randrange(40)
            asked.append((f"b{n}", Question(float(l), l + draw.random() * 8, draw.choice([1, 5]))))
        shown = [{"id": key, "range": {X: [q.l, q.r]}, "k": q.k} for key, q in asked]
        talk = Talk(url)
        table = arrow(subscription_table(shown, X), 50_000)
        talk.good("POST", f"{self.path}/subscriptions?lists=false", table, headers={"Content-Type": ARROW})
        talk.close()
        self.model.subscribe(asked)
        self.writers = [(Churner if kind == "churn" else Writer)(self, n, kind) for n, kind in enumerate(kinds)]
        self.sample = [f"s{n}" for n in range(16)] + [f"b{draw.randrange(MANY)}" for _ in range(200)]

    def read(self, talk: Talk) -> tuple[int, Any]:
        shown = talk.good("GET", self.path)
        objects = talk.pages(f"{self.path}/objects", 1000)
        lists = {key: talk.good("GET", f"{self.path}/subscriptions/{key}") for key in self.sample}
        return shown["seq"], (shown, objects, lists)

    def compare(self, seq: int, state: Any) -> None:
        shown, objects, lists = state
        assert seq == self.model.seq
        assert (shown["objects"], shown["subscriptions"]) == (len(self.model.objects), len(self.model.questions))
        found = {item["id"]: plain(item) for item in objects}
        assert covers(found, {key: thing.shown() for key, thing in self.model.objects.items()})
        for key, one in lists.items():
            assert covers(one, self.model.shown_question(key)), one
            assert covers(list(map(plain, one["list"])), self.model.list_of(key)), (key, one)


def test_a_rebuild_at_full_speed_is_seen_by_nobody(start_service: StartService) -> None:
    """Of a board with many subscriptions: no request is refused, streams say every change once, lists stay exact."""
    service = start_service(None, *QUIET, env={"RANKCAST_STREAM_QUEUE": "100000"})
    load = BigLoad(service.url, ["single", "batch", "churn", "churn", "churn"])
    for key in FOLLOWED:
        load.model.track(key)
    followers = {key: SseFollower(service.url, f"{load.path}/subscriptions/{key}/stream") for key in FOLLOWED}
    for follower in followers.values():
        follower.first()
    load.start()
    talk = Talk(service.url)
    wait_until(lambda: load.answered > 100)
    rebuilds = beside = 0
    while beside < 2:
        before = load.answered
        rebuilt = done(talk, "rebuilds", resources=["boards/load"])
        assert rebuilt["engine"] == "local" and rebuilt["rows"] > MANY
        rebuilds += 1
        beside += load.answered > before
        assert beside > rebuilds - 6, "nothing was written while it was rebuilt"
    assert len(said(service, "indexes swapped")) == rebuilds
    wait_until(lambda: load.answered > before + 100)
    wait_until(lambda: all(len(follower.said) > 10 for follower in followers.values()))
    load.stop()
    load.check(talk, [load.read(talk)])
    assert all(write.tried == 1 for writer in load.writers for write in writer.writes), "a request was refused"
    assert done(talk, "verify")["compared"] >= MANY
    for key, follower in followers.items():
        lists = load.model.history[key]
        last = max(seq for seq in lists if seq - 1 in lists and net_changes(lists[seq - 1], lists[seq]))
        follower.wait(lambda follower=follower, last=last: follower.said[-1].seq >= last)
        follower.leave()
        checked = Checked(load.model, key)
        checked.take(follower.said)
        assert checked.settled() and checked.merged == checked.resets == 0
    talk.close()
    assert service.stop() == 0


# --- SIGTERM ----------------------------------------------------------------------------------------------------------


def test_a_stop_while_a_job_runs_ends_the_service_properly(start_service: StartService, tmp_path: Path) -> None:
    points = Points(tmp_path)
    service = start_service(None, *QUIET, env=points.env)
    load = Load(service.url, [])
    talk = Talk(service.url)
    events = [{"op": "upsert", "id": f"o{n}", "values": {"distance": n % 40, "delay": n}} for n in range(500)]
    talk.good("POST", f"{load.path}/events", {"events": events})
    assert not any(load.model.event(event) for event in events)
    moments = [
        ("snapshots", SYNC, 3),
        ("rebuilds", "formats.boards:write_image", 1),
        ("verify", "indexes.boards.verification:verify", 1),
    ]
    for kind, point, number in moments:
        points.wait(point, "before", number)
        job = begin(talk, kind)
        waiting = begin(talk, "snapshots")
        points.reached()
        assert talk.good("GET", f"/v1/admin/jobs/{job}")["state"] == "running"
        assert talk.good("GET", f"/v1/admin/jobs/{waiting}")["state"] == "queued"
        service.process.terminate()
        wait_until(lambda service=service: len(said(service, "job failed")) == 2)
        points.clear()
        assert service.process.wait(PATIENCE) == 0
        assert "Traceback" not in service.log.read_text()
        talk.close()
        service = start_service(service.data, *QUIET, env=points.env)
        talk = Talk(service.url)
        load.compare(*load.read(talk))
    done(talk, "rebuilds")
    assert done(talk, "verify")["differences"] == []
    talk.close()
    assert service.stop() == 0
