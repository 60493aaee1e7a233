"""Disks that go away under a running service, a damaged database after a kill, and a start on a full disk."""

from __future__ import annotations

import os
import shutil
import signal
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.support.live import RANKCAST, LiveService, StartService
from tests.support.patience import PATIENCE, wait_until
from tests.support.ports import free_port
from tests.system.disks import disk, fill
from tests.system.faults import QUIET, done, failed, kept, refused_start, said
from tests.system.http.talk import Talk, problem
from tests.system.load import Load

__all__ = ["disk"]


class Mount:
    """A folder that is seen at `place` while it is mounted there."""

    def __init__(self, folder: Path) -> None:
        self.store, self.place = folder / "store", folder / "place"
        self.store.mkdir()
        self.place.mkdir()
        self.mount()

    def mount(self) -> None:
        subprocess.run(["mount", "--bind", self.store, self.place], check=True, capture_output=True)

    def take_away(self) -> None:
        """As a network filesystem goes: files that are open stay open, and the path leads to an empty folder."""
        subprocess.run(["umount", "--lazy", self.place], check=True, capture_output=True)


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Mount]:
    try:
        made = Mount(tmp_path)
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        if os.environ.get("CI") == "true" and os.geteuid() == 0:
            pytest.fail(f"nothing can be mounted: {error}")
        pytest.skip(f"nothing can be mounted: {error}")
    yield made
    subprocess.run(["umount", "--lazy", made.place], check=False, capture_output=True)


def write_some(load: Load, count: int = 30) -> None:
    before = load.answered
    load.gate.set()
    wait_until(lambda: load.answered >= before + count)
    load.hold()


def test_a_storage_mount_that_goes_away_loses_nothing(start_service: StartService, mount: Mount) -> None:
    """Snapshots fail while it is gone, and the log keeps what only the snapshots on it made up for."""
    service = start_service(None, *QUIET, "--storage", str(mount.place))
    load = Load(service.url, ["single", "batch", "subscriptions"])
    load.start()
    talk = Talk(service.url)
    for _ in range(3):
        write_some(load)
        done(talk, "snapshots")
    mount.take_away()
    for _ in range(3):
        write_some(load)
        told = failed(talk, "snapshots")
        assert told.startswith("the snapshot cannot be written") and f"{mount.place} lacks its file STORAGE" in told
    assert list(mount.place.iterdir()) == [], "the tree was made again below the mount"
    service.stop(signal.SIGKILL)
    told = refused_start(service.data, *QUIET, "--storage", str(mount.place))
    assert f"{mount.place} lacks its file STORAGE" in told
    mount.mount()
    talk.close()
    service = start_service(service.data, *QUIET, "--storage", str(mount.place))
    load.url = service.url
    talk = Talk(service.url)
    load.check(talk, [load.read(talk)])
    write_some(load)
    done(talk, "snapshots")
    load.stop()
    assert done(talk, "verify")["differences"] == []
    talk.close()
    assert service.stop() == 0


def test_a_data_mount_that_goes_away_stops_writes_until_it_is_back(start_service: StartService, mount: Mount) -> None:
    service = start_service(mount.place / "data", *QUIET)
    load = Load(service.url, ["single", "batch", "subscriptions"])
    load.start()
    talk = Talk(service.url)
    for _ in range(2):
        write_some(load)
        done(talk, "snapshots")
    mount.take_away()
    wait_until(lambda: talk.ask("GET", "/readyz").status_code == 503)
    state = load.read(talk)
    found = problem(talk.ask("PUT", f"{load.path}/objects/x", {"values": {"distance": 1, "delay": 5}}), 503)
    assert found["type"] == "/problems/log-unavailable"
    failed(talk, "snapshots")
    assert load.read(talk) == state, "reads go on"
    assert list(mount.place.iterdir()) == [], "the tree was made again below the mount"
    mount.mount()
    wait_until(lambda: talk.ask("GET", "/readyz").status_code == 200)
    write_some(load)
    load.check(talk, [state, load.read(talk)])
    done(talk, "snapshots")
    load.stop()
    load.check(talk, [load.read(talk)])
    service.stop(signal.SIGKILL)
    talk.close()
    service = start_service(service.data, *QUIET)
    talk = Talk(service.url)
    load.compare(*load.read(talk))
    assert done(talk, "verify")["differences"] == []
    talk.close()
    assert service.stop() == 0


# --- the database after a kill ----------------------------------------------------------------------------------------


def commits_of(wal: bytes) -> list[int]:
    """Where the frames of SQLite's write-ahead log begin that end a commit."""
    size = struct.unpack(">I", wal[8:12])[0] + 24
    return [at for at in range(32, len(wal) - size + 1, size) if struct.unpack(">I", wal[at + 4 : at + 8])[0]]


def test_a_damaged_write_ahead_log_does_not_lose_answered_writes_without_a_word(start_service: StartService) -> None:
    """The start is refused and changes nothing; it is accepted by naming the row, or the file is put back whole."""
    service = start_service(None, *QUIET)
    load = Load(service.url, ["single"])
    load.start()
    write_some(load, 20)
    load.stop()
    talk = Talk(service.url)
    load.check(talk, [load.read(talk)])
    talk.close()
    service.stop(signal.SIGKILL)
    wal = service.data / "rankcast.db-wal"
    whole = wal.read_bytes()
    at = commits_of(whole)[-9] + 50
    damaged = whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]
    wal.write_bytes(damaged)
    told = refused_start(service.data, *QUIET)
    assert "missing, which had been written and answered" in told and "--accept-log-end" in told
    assert wal.read_bytes() == damaged
    last = told.partition("--accept-log-end ")[2].partition(".")[0]
    shutil.copytree(service.data, service.data.with_name("copy"))
    accepted = start_service(service.data.with_name("copy"), *QUIET, "--accept-log-end", last)
    assert len(said(accepted, "the end of the log is accepted")) == 1
    assert accepted.stop() == 0
    wal.write_bytes(whole)
    again = start_service(service.data, *QUIET)
    talk = Talk(again.url)
    load.compare(*load.read(talk))
    talk.close()
    assert again.stop() == 0


# --- a full disk ------------------------------------------------------------------------------------------------------


def begun(service: LiveService, data: Path, folder: Path) -> LiveService:
    """The service again, that need not be ready; returns once it answers from its resources."""
    port, log = free_port(), folder / "again.log"
    with log.open("wb") as output:
        command = [RANKCAST, "serve", "--port", str(port), "--data", str(data), *map(str, QUIET)]
        process = subprocess.Popen(command, stdout=output, stderr=output)
    found = LiveService(process, f"http://127.0.0.1:{port}", data, log)

    def answers() -> bool:
        assert process.poll() is None, log.read_text()[-3000:]
        try:
            return httpx.get(f"{found.url}/v1/boards", timeout=PATIENCE).status_code == 200
        except httpx.TransportError:
            return False

    wait_until(answers, 2 * PATIENCE)
    return found


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL], ids=["stopped", "killed"])
def test_a_start_on_a_full_disk_reads_and_writes_once_there_is_room(
    start_service: StartService, disk: Path, tmp_path: Path, how: signal.Signals
) -> None:
    service = start_service(disk / "data", *QUIET)
    load = Load(service.url, ["single", "batch", "subscriptions"])
    load.start()
    talk = Talk(service.url)
    write_some(load)
    done(talk, "snapshots")
    write_some(load)
    load.stop()
    load.check(talk, [load.read(talk)])
    service.stop(how)
    talk.close()
    filler = fill(disk, 0)
    for _ in range(2):
        again = begun(service, disk / "data", tmp_path)
        try:
            talk = Talk(again.url)
            load.compare(*load.read(talk))
            ready = talk.ask("GET", "/readyz")
            assert ready.status_code == 503 and "is full" in ready.json()["detail"], ready.text
            found = problem(talk.ask("PUT", f"{load.path}/objects/x", {"values": {"distance": 1, "delay": 5}}), 503)
            assert found["type"] == "/problems/log-unavailable"
            load.compare(*load.read(talk))
        finally:
            talk.close()
            again.stop(signal.SIGKILL)
    again = begun(service, disk / "data", tmp_path)
    talk = Talk(again.url)
    filler.unlink()
    wait_until(lambda: talk.ask("GET", "/readyz").status_code == 200)
    talk.good("PUT", f"{load.path}/objects/x", {"values": {"distance": 1, "delay": 5}})
    assert not load.model.event({"op": "upsert", "id": "x", "values": {"distance": 1, "delay": 5}})
    load.compare(*load.read(talk))
    assert done(talk, "verify")["differences"] == []
    assert kept(disk / "data")
    talk.close()
    assert again.stop() == 0
