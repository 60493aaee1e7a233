"""A snapshot that is read before recovery asks for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.settings import Settings
from app.write_path.read_ahead import ReadAhead
from app.write_path.recovery import recover
from tests.recovery.commands import CONFIG, upsert
from tests.recovery.life import Life, Twin
from tests.recovery.machine import quiet


def snapshots_of(path: Path, count: int) -> list[int]:
    """A directory with so many snapshots of a board; the rows of the log at which they are, newest first."""
    life = Life(path, Twin(), {}, keep_snapshots=count + 1)
    life.start()

    async def story() -> None:
        await life.writer.put("boards/a", CONFIG)
        for n in range(count):
            await life.writer.submit("boards/a", upsert((f"o{n}", float(n), 1.0)))
            await life.maintenance.snapshot(quiet)

    life.run(story())
    found = life.snapshots.lsns()
    life.crash()
    return found


def test_what_was_read_ahead_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    newest = snapshots_of(tmp_path, 2)[0]
    life = Life(tmp_path, Twin(), {})
    ahead = ReadAhead(Settings(data=tmp_path), life.stores)
    monkeypatch.setattr(life.snapshots, "read", None)
    monkeypatch.setattr(life.snapshots, "packed", None)
    assert recover(life.snapshots, life.catalog, life.writer, ahead=ahead) == newest
    assert life.catalog.engine("boards/a").seq == 2
    assert ahead.take(life.writer.pruned_through, life.writer.last_lsn) is None
    life.crash()


def test_a_snapshot_that_is_damaged_is_left_to_recovery(tmp_path: Path) -> None:
    newest, older = snapshots_of(tmp_path, 2)
    next((tmp_path / "snapshots" / str(newest)).rglob("objects.parquet")).write_bytes(b"PAR1")
    life = Life(tmp_path, Twin(), {})
    ahead = ReadAhead(Settings(data=tmp_path), life.stores)
    assert recover(life.snapshots, life.catalog, life.writer, ahead=ahead) == older
    assert life.catalog.engine("boards/a").seq == 2
    life.crash()


def test_of_another_span_of_the_log_nothing_is_taken(tmp_path: Path) -> None:
    newest = snapshots_of(tmp_path, 1)[0]
    life = Life(tmp_path, Twin(), {})
    assert ReadAhead(Settings(data=tmp_path), life.stores).take(0, newest + 1) is None
    life.crash()
