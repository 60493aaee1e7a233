"""A full disk: what does not fit fails and takes up no space, and the service goes on, with a restart never needed."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.support.live import StartService
from tests.support.patience import wait_until
from tests.system.disks import MIB, disk, fill, used
from tests.system.faults import QUIET, done, failed, kept
from tests.system.http.talk import Json, Talk, problem
from tests.system.load import Load

__all__ = ["disk"]


def add_payloads(load: Load, talk: Talk, count: int) -> None:
    """Objects that do not get smaller by compressing them."""
    for first in range(0, count, 100):
        events: list[Json] = [
            {
                "op": "upsert",
                "id": f"p{n}",
                "values": {"distance": n % 40, "delay": n},
                "payload": os.urandom(1500).hex(),
            }
            for n in range(first, min(first + 100, count))
        ]
        talk.good("POST", f"{load.path}/events", {"events": events, "messages": "none"})
        assert not any(load.model.event(event) for event in events)


def test_a_snapshot_or_image_that_does_not_fit_fails_alone(start_service: StartService, disk: Path) -> None:
    """The storage is full, the log is elsewhere: writes go on, and nothing half-written stays."""
    service = start_service(None, *QUIET, "--storage", str(disk), "--keep-snapshots", "1")
    load = Load(service.url, [])
    talk = Talk(service.url)
    done(talk, "rebuilds")
    first = kept(disk)
    add_payloads(load, talk, 1000)
    filler = fill(disk, MIB)
    before = used(disk)
    for kind in ("snapshots", "rebuilds"):
        told = failed(talk, kind)
        assert told.startswith("the snapshot cannot be written") and "No space left on device" in told
        assert used(disk) == before and kept(disk) == first == kept(disk, "images")
        talk.good("PUT", f"{load.path}/objects/{kind}", {"values": {"distance": 1, "delay": 5000}})
        assert not load.model.event({"op": "upsert", "id": kind, "values": {"distance": 1, "delay": 5000}})
    load.compare(*load.read(talk))
    filler.unlink()
    done(talk, "snapshots")
    filler = fill(disk, 0)
    before = used(disk)
    told = failed(talk, "rebuilds")
    assert told.startswith("the image of boards/load cannot be written") and "No space left on device" in told
    assert used(disk) == before and kept(disk, "images") == []
    filler.unlink()
    done(talk, "rebuilds")
    assert kept(disk) == kept(disk, "images") != first and len(kept(disk)) == 1
    load.compare(*load.read(talk))
    talk.close()
    assert service.stop() == 0
    service = start_service(service.data, *QUIET, "--storage", str(disk))
    talk = Talk(service.url)
    load.compare(*load.read(talk))
    talk.close()
    assert service.stop() == 0


def test_a_disk_that_is_full_of_all_refuses_writes_until_there_is_room(start_service: StartService, disk: Path) -> None:
    """The data directory is on it: refused writes change nothing, reads go on, and then everything works again."""
    service = start_service(disk / "data", *QUIET)
    load = Load(service.url, ["single", "batch", "subscriptions"])
    load.start()
    talk = Talk(service.url)
    wait_until(lambda: load.answered > 50)
    first = done(talk, "snapshots")["lsn"]
    filler = fill(disk, 0)
    # A log has some room in the pages that it has taken already.
    wait_until(lambda: any(writer.writes[-1].tried > 5 for writer in load.writers))
    load.hold()
    state = load.read(talk)
    refused = [{"op": "upsert", "id": f"r{n}", "values": {"distance": n % 40, "delay": n}} for n in range(5000)]
    for _ in range(3):
        found = problem(talk.ask("POST", f"{load.path}/events", {"events": refused}), 503)
        assert found["type"] == "/problems/log-unavailable"
    told = failed(talk, "snapshots")
    assert told.startswith(("the snapshot cannot be written", "the state cannot be copied")), told
    # In the words of the database, or of the system where a file was written first.
    assert "full" in told.lower() or "no space left" in told.lower(), told
    assert load.read(talk) == state and kept(disk / "data") == [first]
    filler.unlink()
    load.gate.set()
    before = load.answered
    wait_until(lambda: load.answered > before + 100)
    load.stop()
    load.check(talk, [state, load.read(talk)])
    assert any(write.tried > 1 for writer in load.writers for write in writer.writes), "nothing was refused"
    assert done(talk, "snapshots")["lsn"] > first
    assert done(talk, "verify")["differences"] == []
    service.stop(signal.SIGKILL)
    talk.close()
    service = start_service(service.data, *QUIET)
    talk = Talk(service.url)
    load.compare(*load.read(talk))
    talk.close()
    assert service.stop() == 0
