"""Storage that is not where it was, or has no room: nothing is pruned or written elsewhere, and all is said."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from app.errors import LogUnavailable
from app.storage import gate as gate_module
from app.storage import open_stores
from app.storage.directory import DataDirectory, DirectoryUnusable
from app.storage.root import FILE, StorageAway, StorageRoot
from formats.folder import MANIFEST, Folder
from tests.support.databases import FreshDatabase
from tests.support.patience import wait_until
from tests.support.running import CONFIG, Running, upsert
from tests.support.service_fixtures import Start
from tests.unit.formats.boards import elsewhere


def refused(running: Running) -> dict[str, Any]:
    """What a write is answered that is refused for now."""
    answer = running.client.post("/v1/boards/a/events", json={"events": [upsert("new", 1.0, 1.0)]})
    assert answer.status_code == 503 and "Retry-After" in answer.headers, answer.text
    found: dict[str, Any] = answer.json()
    assert found["type"] == "/problems/log-unavailable"
    return found


def ready(running: Running) -> bool:
    return bool(running.client.get("/readyz").status_code == 200)


def not_ready(running: Running, why: str) -> bool:
    answer = running.client.get("/readyz")
    return answer.status_code == 503 and why in answer.json()["detail"]


def reads(running: Running) -> None:
    """Every list is what a scan says."""
    for key in running.worlds["a"].asks:
        answer = running.client.get(f"/v1/boards/a/subscriptions/{key}")
        assert [entry["id"] for entry in answer.json()["list"]] == [
            thing.id for thing in running.worlds["a"].list_of(key)
        ]


# --- the storage root -------------------------------------------------------------------------------------------------


def test_a_storage_root_that_is_gone_fails_jobs_and_keeps_the_log(start: Start, tmp_path: Path) -> None:
    """As where its mount went: the folder of that name is empty, or there is none. Then it comes back."""
    root, away = tmp_path / "storage", tmp_path / "away"
    running = start(keep_snapshots=1, storage=str(root))
    running.make("a")
    first = running.done("snapshots")["lsn"]
    log = running.service.stores.log
    assert log.pruned_through == first
    root.rename(away)
    for again in ("gone", "empty"):
        running.move("a", 5)
        for what in ("snapshots", "rebuilds"):
            error = running.failed(what)["error"]
            assert error.startswith("the snapshot cannot be written") and f"{root} lacks its file {FILE}" in error
        assert log.pruned_through == first, "rows are gone that only the other storage makes up for"
        assert not root.exists() or list(root.iterdir()) == [], "the tree was made again"
        if again == "gone":
            root.mkdir()
    root.rmdir()
    away.rename(root)
    running.move("a", 5)
    assert running.done("snapshots")["lsn"] == log.pruned_through
    running.is_right()
    running.client.__exit__(None, None, None)
    back = start(keep_snapshots=1, storage=str(root))
    back.worlds = running.worlds
    back.is_right()


def test_another_storage_in_its_place_is_refused(start: Start, tmp_path: Path) -> None:
    root = tmp_path / "storage"
    running = start(storage=str(root))
    running.make("a")
    running.done("snapshots")
    running.move("a", 1)
    (root / FILE).write_text("another\n")
    assert "is another one than before" in running.failed("snapshots")["error"]


def test_a_start_without_its_storage_says_so(start: Start, tmp_path: Path) -> None:
    root, away = tmp_path / "storage", tmp_path / "away"
    running = start(keep_snapshots=1, storage=str(root))
    running.make("a")
    running.done("snapshots")
    running.client.__exit__(None, None, None)
    root.rename(away)
    with pytest.raises(LogUnavailable, match=f"have been deleted from it.*{root} lacks its file {FILE}"):
        start(keep_snapshots=1, storage=str(root))
    assert not root.exists()
    away.rename(root)
    back = start(keep_snapshots=1, storage=str(root))
    back.worlds = running.worlds
    back.is_right()


def test_a_storage_that_was_moved_with_its_marker_is_taken_up(start: Start, tmp_path: Path) -> None:
    running = start(keep_snapshots=1, storage=str(tmp_path / "one"))
    running.make("a")
    running.done("snapshots")
    running.client.__exit__(None, None, None)
    (tmp_path / "one").rename(tmp_path / "two")
    back = start(keep_snapshots=1, storage=str(tmp_path / "two"))
    back.worlds = running.worlds
    back.move("a", 2)
    back.done("snapshots")
    back.is_right()


@pytest.mark.parametrize("make", [Folder.at, elsewhere], ids=["local", "elsewhere"])
def test_a_root_is_marked_once_and_known_by_its_marker(
    make: Callable[[Path], Folder], tmp_path: Path, database: FreshDatabase
) -> None:
    stores = open_stores(tmp_path / "data", database.url)
    root = StorageRoot(make(tmp_path / "root"), "root", stores.log.ownership)
    assert root.fault() is None
    root.claim()
    (marker,) = tmp_path.rglob(f"root/{FILE}")
    written = marker.read_text()
    root.expect([9, 3])
    root.claim()
    assert (marker.read_text(), root.expected()) == (written, [3, 9])
    marker.unlink()
    with pytest.raises(StorageAway, match=written.strip()):
        root.claim()
    assert not marker.exists()
    # Under another name it is another root, which is marked; the first one stays known.
    other = StorageRoot(make(tmp_path / "other"), "other", stores.log.ownership)
    other.claim()
    with pytest.raises(StorageAway):
        root.claim()
    marker.write_text(written)
    root.claim()
    assert root.expected() == [3, 9] and other.expected() == []
    stores.close()


@pytest.mark.parametrize("what", [MANIFEST, "all of it"])
def test_a_snapshot_that_was_deleted_is_reported(start: Start, tmp_path: Path, what: str) -> None:
    running = start()
    running.make("a")
    lsns = []
    for _ in range(2):
        running.move("a", 1)
        lsns.append(running.done("snapshots")["lsn"])
    running.client.__exit__(None, None, None)
    folder = tmp_path / "data" / "snapshots" / str(lsns[1])
    if what == MANIFEST:
        (folder / MANIFEST).unlink()
    else:
        shutil.rmtree(folder)
    with capture_logs() as logs:
        back = start()
    (line,) = [line for line in logs if line["event"] == "snapshot damaged"]
    assert line["lsn"] == lsns[1] and "is missing" in line["error"] and str(folder) in line["error"]
    back.worlds = running.worlds
    back.is_right()
    back.move("a", 1)
    back.done("snapshots")
    back.client.__exit__(None, None, None)
    with capture_logs() as logs:
        start()
    assert not [line for line in logs if line["event"] == "snapshot damaged"], "it is reported for ever"


# --- the data directory -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("replaced", [False, True])
def test_a_data_directory_that_is_moved_stops_writes_until_it_is_back(
    start: Start, tmp_path: Path, replaced: bool
) -> None:
    data, away = tmp_path / "data", tmp_path / "away"
    running = start(keep_snapshots=1)
    running.make("a")
    running.done("snapshots")
    pruned = running.service.stores.log.pruned_through
    assert ready(running)
    data.rename(away)
    if replaced:
        DataDirectory.open(data).close()
    wait_until(lambda: not_ready(running, "is another one" if replaced else "is gone"))
    refused(running)
    assert running.client.put("/v1/boards/b", json=CONFIG).status_code == 503
    assert running.client.post("/v1/admin/keys", json={"name": "n", "scopes": ["admin"]}).status_code == 503
    reads(running)
    assert "lacks its file" in running.failed("rebuilds")["error"] or replaced
    assert running.service.stores.log.pruned_through == pruned
    assert replaced or not data.exists(), "the tree was made again"
    if replaced:
        shutil.rmtree(data)
    away.rename(data)
    wait_until(lambda: ready(running))
    running.move("a", 3)
    running.is_right()
    running.client.__exit__(None, None, None)
    back = start(keep_snapshots=1)
    back.worlds = running.worlds
    back.is_right()


def test_an_epoch_that_was_deleted_is_asked_for_and_not_made_anew(tmp_path: Path) -> None:
    stores = open_stores(tmp_path / "data")
    epoch = stores.directory.epoch
    stores.close()
    (tmp_path / "data" / "EPOCH").unlink()
    before = {path.name: path.read_bytes() for path in (tmp_path / "data").iterdir() if path.name != "lock"}
    for _ in range(2):
        with pytest.raises(DirectoryUnusable, match=f"lacks its file EPOCH.* it was {epoch}"):
            open_stores(tmp_path / "data")
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "data").iterdir() if path.name != "lock"}
    (tmp_path / "data" / "EPOCH").write_text(f"{epoch}\n")
    open_stores(tmp_path / "data").close()


@pytest.mark.parametrize("left", ["snapshots", "LOG_END", "JOBS"])
def test_it_is_asked_for_also_where_the_database_is_elsewhere(tmp_path: Path, left: str) -> None:
    DataDirectory.open(tmp_path / "data").close()
    (tmp_path / "data" / "EPOCH").unlink()
    (tmp_path / "data" / left).touch()
    with pytest.raises(DirectoryUnusable, match="table meta"):
        DataDirectory.open(tmp_path / "data")


def test_the_folders_of_a_new_directory_are_durable_before_it_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[str] = set()
    fsync = os.fsync

    def seen(handle: int) -> None:
        synced.add(os.readlink(f"/proc/self/fd/{handle}"))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", seen)
    open_stores(tmp_path / "a" / "b" / "c").close()
    assert {str(tmp_path), str(tmp_path / "a"), str(tmp_path / "a" / "b"), str(tmp_path / "a" / "b" / "c")} <= synced


def modes(data: Path) -> dict[str, int]:
    return {
        path.name: path.stat().st_mode & 0o777 for path in (data, *data.iterdir()) if path.is_file() or path == data
    }


@pytest.mark.parametrize("umask", [0o000, 0o022])
def test_nobody_else_may_read_the_data(start: Start, tmp_path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        running = start()
        running.make("a", 2, 2)
        found = modes(tmp_path / "data")
        assert found["data"] == 0o700
        for name in ("rankcast.db", "rankcast.db-wal", "rankcast.db-shm", "rankcast.db.lock", "LOG_END", "lock"):
            assert found[name] == 0o600, name
        running.client.__exit__(None, None, None)
        # As an earlier version made it.
        (tmp_path / "data").chmod(0o755)
        (tmp_path / "data" / "rankcast.db").chmod(0o644)
        start()
        assert (modes(tmp_path / "data")["data"], modes(tmp_path / "data")["rankcast.db"]) == (0o700, 0o600)
    finally:
        os.umask(before)


def test_a_directory_of_others_is_reported_and_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_stores(tmp_path / "data").close()
    (tmp_path / "data").chmod(0o755)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with capture_logs() as logs:
        open_stores(tmp_path / "data").close()
    assert ("others may read it", str(tmp_path / "data")) in [(line["event"], line.get("path")) for line in logs]
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o755


def test_a_folder_with_other_things_in_it_is_not_narrowed(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir(mode=0o755)
    (tmp_path / "home").chmod(0o755)
    (tmp_path / "home" / "notes").touch()
    DataDirectory.open(tmp_path / "home").close()
    assert (tmp_path / "home").stat().st_mode & 0o777 == 0o755


# --- room on the disk -------------------------------------------------------------------------------------------------


def test_a_full_disk_is_not_ready_and_takes_writes_again_by_itself(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = start()
    running.make("a")
    database = FreshDatabase(f"sqlite:///{tmp_path / 'data' / 'rankcast.db'}")
    database.break_writes()
    refused(running)
    assert ready(running), "there is room: the next write may fit"
    monkeypatch.setattr(gate_module, "free", lambda folder: 0)
    refused(running)
    assert not_ready(running, "writes are refused, reads go on: the disk of")
    database.mend_writes()
    refused(running)
    reads(running)
    monkeypatch.undo()
    wait_until(lambda: ready(running))
    running.move("a", 3)
    running.is_right()


def test_a_failed_write_elsewhere_says_nothing_of_this_disk(
    postgres: FreshDatabase, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = start(database=postgres.url)
    running.make("a", 2, 2)
    monkeypatch.setattr(gate_module, "free", lambda folder: 0)
    postgres.break_writes()
    refused(running)
    assert ready(running)
    postgres.mend_writes()
    running.move("a", 2)


# --- snapshots by rows ------------------------------------------------------------------------------------------------


def test_a_snapshot_is_taken_once_the_log_has_grown_by_so_many_rows(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.write_path.schedule.Schedule.by_rows.__defaults__", (0.01,))
    running = start(snapshot_rows=10, snapshot_every_minutes=0)
    running.make("a")
    log = running.service.stores.log
    while log.last_lsn < 9:
        running.move("a", 1)
    assert running.lsns == []
    running.move("a", 1)
    wait_until(lambda: running.lsns == [10])
    for _ in range(10):
        running.move("a", 1)
    wait_until(lambda: running.lsns == [20, 10])
    running.is_right()
