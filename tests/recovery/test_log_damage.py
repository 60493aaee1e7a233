"""Damage in the log: a changed, exchanged or missing row is found by its checksum, and a lost end by what was answered
before; nothing is taken for whole that is not, and nothing is changed by finding out.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from app.cli.checkup.stored import _checked
from app.errors import LogUnavailable
from app.storage import Stores, open_stores
from app.storage.chain import START, checksum
from app.storage.database import Database
from app.storage.log import Log
from app.storage.log_end import FILE, LogEnd
from app.storage.ownership import Ownership
from app.storage.rows import LogEntry, LogRow
from tests.support.databases import FreshDatabase
from tests.support.service_fixtures import Start


def entry(n: int, payload: bytes = b"payload") -> LogEntry:
    return LogEntry("boards/delays", n, n, "events", payload)


def add(log: Log, *numbers: int) -> None:
    """Each in a commit of its own."""
    for n in numbers:
        log.append([entry(n, b"payload of row %d" % n)], now=float(n))


def flip(database: FreshDatabase, lsn: int, column: str = "payload") -> None:
    """Flip a bit of a row's payload or checksum, past the service."""
    ((value,),) = database.rows(f"select {column} from log where lsn = {lsn}")
    changed = bytes(value)
    changed = changed[:3] + bytes([changed[3] ^ 1]) + changed[4:]
    literal = f"x'{changed.hex()}'" if database.kind == "sqlite" else f"'\\x{changed.hex()}'::bytea"
    database.run(f"update log set {column} = {literal} where lsn = {lsn}")


@pytest.fixture
def stores(database: FreshDatabase, tmp_path: Path) -> Stores:
    """A data directory with a log of nine rows, closed."""
    opened = open_stores(tmp_path / "data", database.url)
    add(opened.log, *range(1, 10))
    opened.close()
    return opened


DAMAGE: dict[str, tuple[Callable[[FreshDatabase], None], int]] = {
    "a bit of a payload": (lambda database: flip(database, 5), 5),
    "a bit of a checksum": (lambda database: flip(database, 5, "checksum"), 5),
    "a sequence number": (lambda database: database.run("update log set last_seq = 6 where lsn = 5"), 5),
    "a time": (lambda database: database.run("update log set created_at = 5.5 where lsn = 5"), 5),
    "a resource": (lambda database: database.run("update log set resource = 'boards/x' where lsn = 5"), 5),
    "a missing checksum": (lambda database: database.run("update log set checksum = null where lsn = 5"), 5),
    "an exchange": (
        lambda database: database.run(
            "update log set lsn = -5 where lsn = 5", "update log set lsn = 5 where lsn = 6",
            "update log set lsn = 6 where lsn = -5",
        ),
        5,
    ),
}  # fmt: skip


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_row_is_named_and_not_replayed(
    stores: Stores, database: FreshDatabase, tmp_path: Path, how: str
) -> None:
    harm, lsn = DAMAGE[how]
    harm(database)
    again = open_stores(tmp_path / "data", database.url)
    rows = again.log.replay()
    assert [next(rows).lsn for _ in range(1, lsn)] == list(range(1, lsn))
    with pytest.raises(LogUnavailable, match=rf"row {lsn} of the log, a 'events' of .*, is damaged: .*checksum"):
        next(rows)
    assert again.log.check().faults[0][0] == lsn
    again.close()


def test_each_damaged_row_is_found_by_a_check_and_no_other(
    stores: Stores, database: FreshDatabase, tmp_path: Path
) -> None:
    flip(database, 2)
    flip(database, 8)
    again = open_stores(tmp_path / "data", database.url)
    found = again.log.check()
    assert (found.rows, found.unchecked) == (9, 0)
    assert found.faults == [(2, "its checksum differs"), (8, "its checksum differs")]
    again.close()


def test_a_row_that_is_missing_is_found_by_a_check(stores: Stores, database: FreshDatabase, tmp_path: Path) -> None:
    database.run("delete from log where lsn = 4")
    again = open_stores(tmp_path / "data", database.url)
    assert [lsn for lsn, _ in again.log.check().faults] == [4, 5]
    again.close()


def test_a_check_takes_no_row_for_missing_that_another_service_has_pruned(
    stores: Stores, database: FreshDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At a replica of a shared log its leader prunes: before the check, and while it goes on."""
    again = open_stores(tmp_path / "data", database.url)
    pruned = iter([3, 5])

    def prune_elsewhere() -> None:
        known = again.log.pruned_through
        again.log.prune(next(pruned, 0))
        again.log.pruned_through = known

    rows = Log._rows

    def read(log: Log, after: int, last: int) -> Iterator[tuple[LogRow, bytes | None]]:
        prune_elsewhere()
        return rows(log, after, last)

    monkeypatch.setattr(Log, "_rows", read)
    prune_elsewhere()
    assert again.log.check() == (4, 0, [])
    again.close()
    flip(database, 7)
    again = open_stores(tmp_path / "data", database.url)
    assert again.log.check() == (4, 0, [(7, "its checksum differs")])
    again.close()


def test_a_log_that_is_pruned_whole_while_it_is_checked_ends_where_it_ended(
    stores: Stores, database: FreshDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = open_stores(tmp_path / "data", database.url)
    found = Database.named(database.url)
    asked: list[bool] = []
    recall, reading = Ownership.recall, Database.reading

    def prune() -> None:
        if not asked:
            asked.append(True)
            again.log.prune(again.log.last_lsn)

    def recalled(ownership: Ownership, key: str) -> str | None:
        was = recall(ownership, key)
        if ownership.database is found:
            prune()
        return was

    @contextmanager
    def read(one: Database, failed: str) -> Iterator[Any]:
        with reading(one, failed) as connection:
            yield connection
        if one is found:
            prune()

    # By a service, right behind what the check reads first.
    monkeypatch.setattr(Ownership, "recall", recalled)
    monkeypatch.setattr(Database, "reading", read)
    assert _checked(found) == ((0, 0, []), again.log.last_lsn)
    again.close()


def test_the_chain_goes_on_over_restarts_prunes_and_failures(database: FreshDatabase, tmp_path: Path) -> None:
    for first in (1, 4, 7):
        stores = open_stores(tmp_path / "data", database.url)
        add(stores.log, first, first + 1)
        database.break_writes()
        with pytest.raises(LogUnavailable):
            add(stores.log, 100)
        database.mend_writes()
        add(stores.log, first + 2)
        if first > 1:
            stores.log.prune(first - 2)
        assert stores.log.check().faults == []
        stores.close()
    stores = open_stores(tmp_path / "data", database.url)
    assert [row.lsn for row in stores.log.replay(5)] == [6, 7, 8, 9]
    assert [row.lsn for row in stores.log.replay(7)] == [8, 9]
    stores.close()
    # The first row that is left is chained to the last that was pruned.
    flip(database, 6)
    stores = open_stores(tmp_path / "data", database.url)
    with pytest.raises(LogUnavailable, match="row 6 of the log"):
        list(stores.log.replay(5))
    assert [row.lsn for row in stores.log.replay(7)] == [8, 9]
    stores.close()


def test_the_checksum_is_that_of_the_row_and_of_all_before(database: FreshDatabase) -> None:
    log = Log.open(database.url)
    add(log, 1, 2)
    log.close()
    before = START
    for (*fields, stored), n in zip(database.rows("select * from log order by lsn"), (1, 2), strict=True):
        row = (n, "boards/delays", n, n, "events", b"payload of row %d" % n, float(n))
        assert (*fields[:5], bytes(fields[5]), fields[6]) == row
        before = checksum(before, row)
        assert bytes(stored) == before


# --- the log of an older version --------------------------------------------------------------------------------------


def make_old(database: FreshDatabase, tmp_path: Path) -> None:
    """Turn a closed log into one of the version before checksums."""
    database.run(
        "alter table log drop column checksum",
        "update meta set value = '1' where key = 'format'",
        "delete from meta where key = 'pruned_checksum'",
    )
    (tmp_path / "data" / FILE).unlink()


def test_a_log_without_checksums_opens_and_gets_them_from_then_on(
    stores: Stores, database: FreshDatabase, tmp_path: Path
) -> None:
    make_old(database, tmp_path)
    again = open_stores(tmp_path / "data", database.url)
    assert [row.lsn for row in again.log.replay()] == list(range(1, 10))
    add(again.log, 10, 11)
    again.close()
    assert database.meta()["format"] == "2"
    again = open_stores(tmp_path / "data", database.url)
    assert [row.lsn for row in again.log.replay()] == list(range(1, 12))
    assert again.log.check() == (11, 9, [])
    again.log.prune(5)
    assert again.log.check() == (6, 4, [])
    again.close()
    flip(database, 10)
    again = open_stores(tmp_path / "data", database.url)
    with pytest.raises(LogUnavailable, match="row 10 of the log"):
        list(again.log.replay(5))
    again.close()


# --- the end ----------------------------------------------------------------------------------------------------------


def test_a_log_that_ends_before_what_was_answered_is_refused(
    stores: Stores, database: FreshDatabase, tmp_path: Path
) -> None:
    database.run("delete from log where lsn > 6")
    owner = database.meta()["owner"]
    for accepted in (None, 5, 7, 9):
        with pytest.raises(LogUnavailable, match="ends at row 6, and rows 7 to 9 are missing") as refused:
            open_stores(tmp_path / "data", database.url, accept_log_end=accepted)
        assert "--accept-log-end 6" in str(refused.value)
    assert database.meta()["owner"] == owner, "it was changed"


def test_an_end_that_is_accepted_is_the_end(stores: Stores, database: FreshDatabase, tmp_path: Path) -> None:
    history = open_stores(tmp_path / "data", database.url)
    before = history.history()
    history.close()
    assert before == history.directory.epoch
    database.run("delete from log where lsn > 6")
    again = open_stores(tmp_path / "data", database.url, accept_log_end=6)
    assert again.history() != before, "streams would go on in a history that is not theirs"
    add(again.log, 7)
    again.close()
    # Said once: it is not accepted again, and the other history stays.
    third = open_stores(tmp_path / "data", database.url, accept_log_end=6)
    assert third.history() == again.history()
    assert [row.lsn for row in third.log.replay()] == list(range(1, 8))
    third.close()


def test_an_empty_database_in_place_of_the_log_is_refused(tmp_path: Path) -> None:
    stores = open_stores(tmp_path / "data")
    add(stores.log, 1, 2)
    stores.close()
    for file in (tmp_path / "data").glob("rankcast.db*"):
        file.unlink()
    with pytest.raises(LogUnavailable, match="ends at row 0, and rows 1 to 2 are missing"):
        open_stores(tmp_path / "data")


def test_another_copy_of_the_database_is_recognised(stores: Stores, database: FreshDatabase, tmp_path: Path) -> None:
    """As long as it, but with other rows at its end: a backup that another service has written to meanwhile."""
    database.run("delete from log where lsn > 6")
    log = Log.open(database.url)
    add(log, *range(70, 74))
    log.close()
    with pytest.raises(LogUnavailable, match="row 9 of the log is not the one that was written"):
        open_stores(tmp_path / "data", database.url)


def test_a_log_end_that_is_gone_or_damaged_is_written_again(
    stores: Stores, database: FreshDatabase, tmp_path: Path
) -> None:
    file = tmp_path / "data" / FILE
    whole = file.read_bytes()
    for raw in (None, b"", whole[:-1], bytes([whole[9] ^ 1]) + whole[1:], whole[:20] + b"\xff" + whole[21:]):
        file.unlink() if raw is None else file.write_bytes(raw)
        open_stores(tmp_path / "data", database.url).close()
        assert file.read_bytes() == whole


def test_where_the_log_ends_is_known_the_moment_that_a_commit_is_answered(tmp_path: Path) -> None:
    """Also to one who reads the file while the process still runs, or is killed."""
    stores = open_stores(tmp_path / "data")
    for n in (1, 2, 3):
        add(stores.log, n)
        known = LogEnd(tmp_path / "data").known
        assert known is not None and known.lsn == n == stores.log.last_lsn
    stores.close()


# --- SQLite's write-ahead log -----------------------------------------------------------------------------------------


def frames(wal: bytes) -> list[tuple[int, int]]:
    """The frames of a write-ahead log: where each begins, and the pages of the database after it if it commits."""
    size = struct.unpack(">I", wal[8:12])[0] + 24
    return [(at, struct.unpack(">I", wal[at + 4 : at + 8])[0]) for at in range(32, len(wal) - size + 1, size)]


def test_a_flipped_bit_in_the_write_ahead_log_loses_no_row_without_a_word(tmp_path: Path) -> None:
    """SQLite reads up to the frame and takes the rest for never written: answered rows are gone."""
    stores = open_stores(tmp_path / "data")
    add(stores.log, *range(1, 10))
    # What is on disk when the process is killed now.
    shutil.copytree(tmp_path / "data", tmp_path / "killed")
    stores.close()
    wal = tmp_path / "killed" / "rankcast.db-wal"
    raw = bytearray(wal.read_bytes())
    commits = [at for at, size in frames(bytes(raw)) if size]
    raw[commits[-4] + 100] ^= 1
    wal.write_bytes(raw)
    with pytest.raises(LogUnavailable, match="ends at row 5, and rows 6 to 9 are missing"):
        open_stores(tmp_path / "killed")
    assert wal.read_bytes() == bytes(raw), "what could still be saved was overwritten"
    raw[commits[-4] + 100] ^= 1
    wal.write_bytes(raw)
    whole = open_stores(tmp_path / "killed")
    assert [row.lsn for row in whole.log.replay()] == list(range(1, 10))
    whole.close()


# --- the service ------------------------------------------------------------------------------------------------------


def test_a_verification_checks_the_whole_log(start: Start, tmp_path: Path) -> None:
    """Also the rows that no start would read, since a newer snapshot is there."""
    running = start()
    running.make("a")
    running.done("snapshots")
    running.move("a", 3)
    assert "log" not in running.done("verify")
    database = sa.create_engine(f"sqlite:///{tmp_path / 'data' / 'rankcast.db'}")
    with database.begin() as connection:
        connection.execute(sa.text("update log set payload = cast(payload || x'20' as blob) where lsn = 1"))
    database.dispose()
    detail = running.failed("verify")
    assert detail["differences"] == [{"resource": "log", "kind": "row", "lsn": 1, "reason": "its checksum differs"}]
    assert detail["log"] == {"rows": running.service.stores.log.last_lsn, "unchecked": 0}
    assert running.done("verify", resources=["boards/a"])["differences"] == []
