"""A resource whose engine fails is undone and rebuilt at once: what it refused is not there, then or later, and nobody
else notices.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.errors import LogUnavailable
from app.storage.restore import RestoreFailed, restore
from app.write_path import repair as module
from tests.support.patience import PATIENCE
from tests.support.running import Running, upsert
from tests.support.service_fixtures import Start

MAP = {"attributes": {"price": "low"}, "bounds": [0, 0, 9, 9], "metric": "euclidean"}
NEAREST = {"kind": "top", "location": [0, 0], "k": 1, "score": {"kind": "weighted_sum", "weights": {"distance": 1}}}


def wait(met: Callable[[], Any]) -> Any:
    """What a condition gives once it is met."""
    end = time.monotonic() + PATIENCE
    while not (found := met()):
        assert time.monotonic() < end
        time.sleep(0.005)
    return found


def thing(x: float) -> dict[str, Any]:
    return {"location": [x, 0], "values": {"price": 1}}


@pytest.fixture
def running(start: Start) -> Running:
    """A service with a map of one object and one standing query, and a board."""
    found = start()
    assert found.client.put("/v1/maps/m", json=MAP).status_code == 201
    assert found.client.put("/v1/maps/m/objects/o", json=thing(2)).status_code == 201
    assert found.client.put("/v1/maps/m/queries/q", json=NEAREST).status_code == 201
    found.make("b")
    return found


def fail(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the map fail on the next object."""

    def failing(*given: Any) -> Any:
        raise IndexError("index 9 is out of bounds")

    map_engine = running.service.maps.get("m")
    assert map_engine is not None
    monkeypatch.setattr(map_engine, "change_objects", failing)


def rebuilt(running: Running) -> None:
    wait(lambda: not running.service.writer.failed())


def lost(resource: str) -> Any:
    """A rebuild that fails."""
    raise LogUnavailable("the log cannot be read")


@pytest.mark.parametrize("snapshot", [False, True])
def test_a_map_that_failed_is_rebuilt_at_once_without_what_it_refused(
    running: Running, start: Start, monkeypatch: pytest.MonkeyPatch, snapshot: bool
) -> None:
    if snapshot:
        running.done("snapshots")
    assert running.client.put("/v1/maps/m/objects/p", json=thing(3)).status_code == 201
    before = running.client.get("/v1/maps/m").json()
    fail(running, monkeypatch)
    headers = {"Idempotency-Key": "k"}
    answer = running.client.put("/v1/maps/m/objects/near", json=thing(1), headers=headers)
    assert (answer.status_code, "nothing was changed" in answer.text) == (503, True)
    assert answer.headers["retry-after"]
    rebuilt(running)
    told = running.client.get("/metrics").text
    assert 'rankcast_resource_failures_total{resource="maps/m"} 1.0' in told and "rankcast_failed_resources 0.0" in told
    after = running.client.get("/v1/maps/m").json()
    assert (after["seq"], after["objects"], after["queries"]) == (before["seq"] + 1, 2, 1)
    assert running.client.get("/v1/maps/m/objects/near").status_code == 404
    assert [one["id"] for one in running.client.get("/v1/maps/m/queries/q").json()["list"]] == ["o"]
    assert running.done("verify")["difference_count"] == 0
    again = running.client.put("/v1/maps/m/objects/near", json=thing(1), headers=headers)
    assert again.status_code == 201 and "replayed" not in again.json()
    assert again.json()["seq"] == after["seq"] + 1
    assert [one["id"] for one in running.client.get("/v1/maps/m/queries/q").json()["list"]] == ["near"]
    running.move("b", 3)
    running.board("b").check()


def test_what_was_refused_is_not_applied_by_a_later_start(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = start(data=tmp_path / "one")
    assert first.client.put("/v1/maps/m", json=MAP).status_code == 201
    monkeypatch.setattr(first.service.writer.repair, "rebuild", lost)
    fail(first, monkeypatch)
    key = {"Idempotency-Key": "k"}
    assert first.client.put("/v1/maps/m/objects/o", json=thing(1), headers=key).status_code == 503
    first.client.__exit__(None, None, None)
    second = start(data=tmp_path / "one")
    assert second.client.get("/v1/maps/m").json()["objects"] == 0
    answer = second.client.put("/v1/maps/m/objects/o", json=thing(1), headers=key)
    assert answer.status_code == 201 and answer.json()["seq"] == 2 and "replayed" not in answer.json()


def test_a_map_that_cannot_be_rebuilt_is_named_refuses_and_can_be_deleted(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running.service.writer.repair, "rebuild", lost)
    monkeypatch.setattr(module, "REBUILD_AGAIN", 0.05)
    fail(running, monkeypatch)
    assert running.client.put("/v1/maps/m/objects/p", json=thing(1)).status_code == 503
    health = running.client.get("/readyz")
    assert health.status_code == 200 and health.json()["failed"] == ["maps/m"]
    assert "rankcast_failed_resources 1.0" in running.client.get("/metrics").text
    refusals = [
        running.client.get("/v1/maps/m/objects/o"),
        running.client.post("/v1/maps/m/top", json={k: v for k, v in NEAREST.items() if k != "kind"}),
        running.client.put("/v1/maps/m/objects/p", json=thing(1)),
    ]
    for answer in refusals:
        assert answer.status_code == 503 and answer.headers["retry-after"]
    running.move("b", 3)
    seq = running.client.delete("/v1/maps/m").json()["seq"]
    assert running.client.get("/readyz").json()["failed"] == []
    assert running.client.get("/v1/maps/m").status_code == 404
    made = running.client.put("/v1/maps/m", json=MAP)
    assert made.status_code == 201 and made.json()["seq"] == seq + 1 and made.json()["objects"] == 0
    running.done("snapshots")


def test_a_map_that_failed_and_was_deleted_stays_so(start: Start, tmp_path: Path, monkeypatch: Any) -> None:
    first = start(data=tmp_path / "one")
    assert first.client.put("/v1/maps/m", json=MAP).status_code == 201
    assert first.client.put("/v1/maps/m/objects/o", json=thing(1)).status_code == 201
    monkeypatch.setattr(first.service.writer.repair, "rebuild", lost)
    fail(first, monkeypatch)
    assert first.client.put("/v1/maps/m/objects/p", json=thing(1)).status_code == 503
    seq = first.client.delete("/v1/maps/m").json()["seq"]
    first.client.__exit__(None, None, None)
    second = start(data=tmp_path / "one")
    assert second.client.get("/v1/maps/m").status_code == 404
    assert second.client.put("/v1/maps/m", json=MAP).json()["seq"] == seq + 1


def test_commands_behind_the_one_that_failed_are_undone_with_it(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running.board("b").painter, "run", None)
    answer = running.client.post("/v1/boards/b/events", json={"events": [upsert("new", 1, 1)]})
    assert answer.status_code == 503
    rebuilt(running)
    running.move("b", 3)
    board = running.board("b")
    board.check()
    assert not [one for one in board.objects(None, 10**6) if one.id == "new"]
    running.done("snapshots")


def others(running: Running) -> list[Any]:
    """The board as clients see it."""
    return [running.client.get(f"/v1/boards/b{part}").json() for part in ("", "/objects", "/subscriptions")]


@pytest.mark.parametrize("before", [0, 1, 3])
def test_snapshots_go_on_without_what_cannot_be_rebuilt_and_a_start_brings_it_back(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int
) -> None:
    first = start(data=tmp_path / "one", keep_snapshots=2)
    assert first.client.put("/v1/maps/m", json=MAP).status_code == 201
    first.make("b")
    whole = []
    for _ in range(before):
        first.move("b", 1)
        whole.append(first.done("snapshots")["lsn"])
    base = whole[-1] if whole else 0
    assert first.client.put("/v1/maps/m/objects/o", json=thing(2)).status_code == 201
    monkeypatch.setattr(first.service.writer.repair, "rebuild", lost)
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    monkeypatch.setattr(module, "REBUILD_AGAIN", 0.05)
    fail(first, monkeypatch)
    assert first.client.put("/v1/maps/m/objects/p", json=thing(1)).status_code == 503
    for n in range(4):
        first.move("b", n + 1)
        detail = first.done("snapshots")
        assert detail["failed"] == ["maps/m"]
        assert first.service.snapshots.behind(detail["lsn"]) == {"maps/m": base}
    assert first.client.get("/readyz").json()["failed"] == ["maps/m"]
    assert "rankcast_failed_resources 1.0" in first.client.get("/metrics").text
    # Two whole ones are kept with the log from there on, and two that lack the map.
    assert len(first.lsns) == 2 + len(whole[-2:]) and first.lsns[2:] == whole[:-3:-1]
    assert first.service.writer.pruned_through == (whole[-2] if before == 3 else 0)
    first.move("b", 9)
    shown = others(first)
    first.client.__exit__(None, None, None)
    second = start(data=tmp_path / "one", keep_snapshots=2)
    assert others(second) == shown
    found = second.client.get("/v1/maps/m").json()
    assert (found["objects"], found["seq"]) == (1, 2)
    assert second.done("verify")["difference_count"] == 0
    assert second.client.put("/v1/maps/m/objects/p", json=thing(1)).json()["seq"] == 3
    for n in range(2):
        assert second.client.put(f"/v1/maps/m/objects/o{n}", json=thing(n)).status_code == 201
        detail = second.done("snapshots")
        assert "failed" not in detail and second.service.snapshots.behind(detail["lsn"]) == {}
    found = second.service.writer.pruned_through
    assert found == min(second.lsns) > base and len(second.lsns) == 2


def test_a_snapshot_that_lacks_what_is_rebuilt_meanwhile_is_written_again(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    rebuild = running.service.writer.repair.rebuild
    monkeypatch.setattr(running.service.writer.repair, "rebuild", lost)
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    monkeypatch.setattr(module, "REBUILD_AGAIN", 0.05)
    fail(running, monkeypatch)
    assert running.client.put("/v1/maps/m/objects/p", json=thing(1)).status_code == 503
    detail = running.done("snapshots")
    monkeypatch.setattr(running.service.writer.repair, "rebuild", rebuild)
    rebuilt(running)
    again = running.done("snapshots")
    assert again["lsn"] == detail["lsn"] and "failed" not in again
    assert running.service.snapshots.behind(again["lsn"]) == {}
    assert running.service.snapshots.read(again["lsn"]).states.keys() == {"boards/b", "maps/m"}


def test_a_snapshot_that_lacks_a_resource_is_not_restored(
    running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running.service.writer.repair, "rebuild", lost)
    monkeypatch.setattr(module, "PATIENCE", 0.0)
    whole = running.done("snapshots")["lsn"]
    fail(running, monkeypatch)
    assert running.client.put("/v1/maps/m/objects/p", json=thing(1)).status_code == 503
    lsn = running.done("snapshots")["lsn"]
    with pytest.raises(RestoreFailed, match=rf"lacks resources that had failed: maps/m \(see .* row {whole}\)"):
        restore(str(running.service.snapshots.folder(lsn).path), tmp_path / "restored")
    assert not (tmp_path / "restored").exists()
