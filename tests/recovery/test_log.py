import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa

from app.errors import LogUnavailable
from app.storage import log as log_module
from app.storage import postgres as postgres_module
from app.storage.directory import DataDirectory
from app.storage.keys import KeyRow, KeyStore
from app.storage.log import FORGET, Log
from app.storage.rows import CompletedAnswer, LogEntry, StoredAnswer
from tests.support.databases import FreshDatabase, Proxy, fresh
from tests.support.patience import wait_until


def entry(n: int, payload: bytes = b"x") -> LogEntry:
    return LogEntry("boards/delays", n, n, "events", payload)


def answer(key: str, created_at: float = 100.0, text: bytes = b"{}", lsn: int = 1) -> StoredAnswer:
    return StoredAnswer("", key, b"hash", lsn, 200, text, False, created_at)


def stored(database: FreshDatabase) -> list[int]:
    """The numbers of the rows that are there, whatever the log says."""
    return [lsn for (lsn,) in database.rows("select lsn from log order by lsn")]


@pytest.fixture
def log(database: FreshDatabase) -> Iterator[Log]:
    opened = Log.open(database.url)
    yield opened
    opened.close()


@pytest.fixture
def homes(tmp_path: Path) -> Iterator[tuple[DataDirectory, DataDirectory]]:
    """Two data directories."""
    one, two = DataDirectory.open(tmp_path / "one"), DataDirectory.open(tmp_path / "two")
    yield one, two
    one.close()
    two.close()


@pytest.fixture
def proxy(postgres: FreshDatabase) -> Iterator[Proxy]:
    """A way to the database `postgres` that can fall silent."""
    url = sa.make_url(postgres.url)
    made = Proxy(url.host or "127.0.0.1", url.port or 5432)
    yield made
    made.close()


class Hurry:
    """Lets a log give a server up soon; only for one that is silent, since one that is slow may seem so."""

    def __init__(self) -> None:
        self._patch = pytest.MonkeyPatch()

    def begin(self) -> None:
        self._patch.setattr(postgres_module, "SILENCE", 0.5)
        self._patch.setitem(postgres_module.DEFAULTS, "connect_timeout", 2)

    def end(self) -> None:
        self._patch.undo()


@pytest.fixture
def hurry() -> Iterator[Hurry]:
    made = Hurry()
    yield made
    made.end()


def test_rows_come_back_in_order_with_their_numbers(log: Log) -> None:
    assert log.append([entry(0), entry(1)], now=5.0) == 2
    assert log.append([entry(2, b"\0\xff")]) == 3
    rows = list(log.replay())
    assert [row.lsn for row in rows] == [1, 2, 3]
    assert rows[0] == (1, "boards/delays", 0, 0, "events", b"x", 5.0)
    assert rows[2].payload == b"\0\xff"
    assert [row.lsn for row in log.replay(after_lsn=2)] == [3]


def test_numbers_go_on_after_reopening(log: Log, database: FreshDatabase) -> None:
    log.append([entry(0)])
    log.close()
    again = Log.open(database.url)
    assert again.last_lsn == 1
    assert again.append([entry(1)]) == 2
    again.close()


def test_a_commit_is_durable(log: Log, database: FreshDatabase) -> None:
    with log.engine.connect() as connection:
        if database.kind == "sqlite":
            assert connection.exec_driver_sql("pragma journal_mode").scalar() == "wal"
            assert connection.exec_driver_sql("pragma synchronous").scalar() == 2
        else:
            assert connection.exec_driver_sql("show synchronous_commit").scalar() != "off"


def test_a_server_that_would_lose_commits_is_told_not_to(postgres: FreshDatabase) -> None:
    url = postgres.url + "%20-csynchronous_commit%3Doff"
    assert FreshDatabase(url).rows("show synchronous_commit") == [("off",)]
    log = Log.open(url)
    with log.engine.connect() as connection:
        assert connection.exec_driver_sql("show synchronous_commit").scalar() == "on"
    log.close()


def test_answers_are_kept_completed_and_forgotten(log: Log) -> None:
    log.append([entry(0)], [answer("a"), answer("b", 200.0)])
    log.append([], [], [CompletedAnswer("", "a", b'{"seq":1}')])
    log.complete_answers([CompletedAnswer("", "b", b'{"seq":2}')])
    kept = log.answers(0, 100_000)
    assert [(row.key, row.answer, row.complete) for row in kept] == [
        ("a", b'{"seq":1}', True),
        ("b", b'{"seq":2}', True),
    ]
    assert log.forget_answers(150.0) == 1
    assert [row.key for row in log.answers(0, 100_000)] == ["b"]


def test_only_the_latest_answers_are_read_and_those_that_lack_something(log: Log) -> None:
    log.append([entry(0)], [answer(f"{n}", float(n // 3))._replace(complete=n % 10 > 0) for n in range(100)])
    found = log.answers(10.0, 20)
    assert [row.created_at for row in found] == sorted(row.created_at for row in found)
    assert len({row.key for row in found}) == len(found)
    lacking = {f"{n}" for n in range(30, 100, 10)}
    assert {row.key for row in found if not row.complete} == lacking
    assert {row.key for row in found} - lacking <= {f"{n}" for n in range(78, 100)}
    assert len([row for row in found if int(row.key) >= 78]) >= 20
    one = log.answer("", "31")
    assert one is not None
    assert (one.key, one.created_at) == ("31", 10.0)
    assert log.answer("", "none") is None


def test_answers_are_forgotten_a_part_at_a_time(log: Log) -> None:
    log.append([], [answer(f"{n}", float(n // 7)) for n in range(2 * FORGET)])
    first = log.forget_answers(250.0)
    assert FORGET <= first < FORGET + 7
    assert first + log.forget_answers(250.0) == 250 * 7
    assert log.forget_answers(250.0) == 0
    assert len(log.answers(0, 100_000)) == 2 * FORGET - 250 * 7


def test_a_newer_answer_replaces_the_one_under_its_key(log: Log) -> None:
    log.append([], [answer("a", 1.0)])
    log.append([], [answer("a", 2.0)])
    assert [row.created_at for row in log.answers(0, 100_000)] == [2.0]
    log.append([], [answer("a", 3.0), answer("a", 4.0)])
    assert [row.created_at for row in log.answers(0, 100_000)] == [4.0]


def test_a_failed_append_leaves_nothing_and_the_next_goes_through(log: Log, database: FreshDatabase) -> None:
    log.append([entry(0)])
    database.break_writes()
    with pytest.raises(LogUnavailable, match="disk full"):
        log.append([entry(1), entry(2)], [answer("a")])
    assert log.last_lsn == 1
    assert log.answers(0, 100_000) == []
    database.mend_writes()
    assert log.append([entry(1)]) == 2
    assert [row.first_seq for row in log.replay()] == [0, 1]


def leave_a_commit_in_doubt(log: Log, database: FreshDatabase) -> None:
    """Row 1 is written, row 2 was refused and is there all the same."""
    log.append([entry(0)])
    database.break_writes()
    with pytest.raises(LogUnavailable):
        log.append([entry(1)])
    database.mend_writes()
    database.run("insert into log select 2, resource, 1, 1, command, payload, 1.0, null from log")


def test_a_commit_that_went_through_unnoticed_is_taken_back(log: Log, database: FreshDatabase) -> None:
    leave_a_commit_in_doubt(log, database)
    log.append([entry(1, b"second try")])
    assert [row.payload for row in log.replay()] == [b"x", b"second try"]


def test_what_is_in_doubt_is_not_replayed(log: Log, database: FreshDatabase) -> None:
    leave_a_commit_in_doubt(log, database)
    assert [row.lsn for row in log.replay()] == [1]


def test_a_commit_in_doubt_is_taken_back_without_another_write(log: Log, database: FreshDatabase) -> None:
    leave_a_commit_in_doubt(log, database)
    assert log.in_doubt
    log.mend()
    assert not log.in_doubt
    assert stored(database) == [1]


def test_an_answer_in_doubt_is_not_given(log: Log, database: FreshDatabase) -> None:
    """The request is carried out again, since its rows are deleted before anything else is written."""
    leave_a_commit_in_doubt(log, database)
    left = answer("b")._replace(lsn=2)
    database.run(
        "insert into idempotency (scope, key, request_hash, lsn, status, answer, complete, created_at) select "
        f"'{left.scope}', '{left.key}', payload, 2, 200, payload, true, 1.0 from log where lsn = 1"
    )
    assert log.answer(left.scope, left.key) is None
    log.append([entry(1)], [left])
    assert log.answer(left.scope, left.key) == left


def test_closing_takes_back_what_is_in_doubt(log: Log, database: FreshDatabase) -> None:
    leave_a_commit_in_doubt(log, database)
    log.close()
    assert stored(database) == [1]


def test_a_large_transaction_goes_through(log: Log) -> None:
    block = bytes(1_000_000)
    assert log.append([entry(n, block) for n in range(8)]) == 8
    assert sum(len(row.payload) for row in log.replay()) == 8_000_000


URLS = [
    ("nonsense", "must be like|cannot be read"),
    ("postgresql://x:port/y", "must be like|cannot be read"),
    ("sqlite:////nowhere/at/all/x.db", "cannot be opened: unable to open"),
    ("sqlite://", "not durable"),
    ("sqlite:///:memory:", "not durable"),
    ("sqlite:///file:x?uri=true&mode=memory", "not durable"),
    ("oracle+nothing://x", "only sqlite:// and postgresql://"),
    ("postgres://x/y", "only sqlite:// and postgresql://"),
    ("postgresql+psycopg2://x/y", "only sqlite:// and postgresql://"),
    ("postgresql://nobody:secret@127.0.0.1:1/none", "127.0.0.1:1/none cannot be opened"),
]


@pytest.mark.parametrize(("url", "told"), URLS)
def test_an_unusable_database_is_refused(url: str, told: str) -> None:
    with pytest.raises(LogUnavailable, match=told) as refusal:
        Log.open(url)
    assert "secret" not in str(refusal.value)


def test_a_missing_driver_is_named_with_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "app.storage.postgres")
    monkeypatch.delattr("app.storage.postgres")
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(LogUnavailable, match="extra `postgres`"):
        Log.open("postgresql://127.0.0.1/none")


def test_a_plain_url_takes_the_driver_that_there_is(postgres: FreshDatabase) -> None:
    log = Log.open(postgres.url.replace("postgresql+psycopg://", "postgresql://"))
    assert log.append([entry(0)]) == 1
    assert "psycopg" not in log.database.name and "options" not in log.database.name
    log.close()


# --- one service a database ------------------------------------------------------------------------------------------


def test_a_second_service_is_refused(log: Log, database: FreshDatabase) -> None:
    with pytest.raises(LogUnavailable, match="in use by another service"):
        Log.open(database.url, patience=0.1)
    assert log.append([entry(0)]) == 1, "the refused one has done no harm"
    log.close()
    Log.open(database.url, patience=0.1).close()


def test_two_schemas_are_two_databases(postgres: FreshDatabase, tmp_path: Path) -> None:
    with fresh("postgresql", tmp_path) as other:
        one, two = Log.open(postgres.url, patience=0.1), Log.open(other.url, patience=0.1)
        one.append([entry(0)])
        assert two.last_lsn == 0
        one.close()
        two.close()


def test_a_database_belongs_to_the_data_directory_that_used_it_first(
    database: FreshDatabase, homes: tuple[DataDirectory, DataDirectory]
) -> None:
    one, two = homes
    Log.open(database.url).close()
    Log.open(database.url, one).close()
    assert database.meta()["epoch"] == one.epoch
    with pytest.raises(LogUnavailable, match="belongs to another data directory") as refusal:
        Log.open(database.url, two)
    assert one.epoch in str(refusal.value) and two.epoch in str(refusal.value) and str(two.path) in str(refusal.value)
    owner = database.meta()["owner"]
    Log.open(database.url, one).close()
    assert database.meta()["owner"] != owner


def test_a_refused_service_leaves_no_mark(database: FreshDatabase, homes: tuple[DataDirectory, DataDirectory]) -> None:
    Log.open(database.url, homes[0]).close()
    before = database.meta()
    with pytest.raises(LogUnavailable):
        Log.open(database.url, homes[1])
    assert database.meta() == before


def test_a_database_from_before_there_was_meta_opens(
    log: Log, database: FreshDatabase, homes: tuple[DataDirectory, DataDirectory]
) -> None:
    log.append([entry(0), entry(1)])
    log.close()
    database.run("drop table meta")
    again = Log.open(database.url, homes[0])
    assert (again.last_lsn, again.pruned_through) == (2, 0)
    assert [row.lsn for row in again.replay()] == [1, 2]
    again.close()
    assert database.meta()["epoch"] == homes[0].epoch


def test_tables_of_a_newer_service_are_refused(log: Log, database: FreshDatabase) -> None:
    log.close()
    database.run("update meta set value = '3' where key = 'format'")
    with pytest.raises(LogUnavailable, match="has format '3'; this service reads 1 to 2"):
        Log.open(database.url)


def test_a_service_that_was_replaced_writes_and_deletes_nothing_more(log: Log, database: FreshDatabase) -> None:
    leave_a_commit_in_doubt(log, database)
    database.take_over()
    keys = KeyStore(log.ownership)
    for _ in range(2):
        for write in (
            lambda: log.append([entry(1)]),
            lambda: log.complete_answers([CompletedAnswer("", "a", b"")]),
            lambda: log.prune(1),
            lambda: log.add_answers([answer("a")]),
            lambda: keys.delete("k1"),
            log.mend,
        ):
            with pytest.raises(LogUnavailable, match=r"another service has taken the database .* over"):
                write()
    log.close()
    assert stored(database) == [1, 2], "row 2 may be the other service's"


def test_every_kind_of_change_notices_that_another_service_was_there(database: FreshDatabase) -> None:
    key = KeyRow("k1", "one", ("admin",), b"1" * 32, 1.0)
    for change in (
        lambda log: log.prune(1),
        lambda log: log.forget_answers(150.0),
        lambda log: KeyStore(log.ownership).add(key),
        lambda log: KeyStore(log.ownership).add_many([key]),
        lambda log: KeyStore(log.ownership).delete("k0"),
    ):
        log = Log.open(database.url)
        log.append([entry(log.last_lsn)], [answer("a")])
        before = stored(database)
        database.take_over()
        with pytest.raises(LogUnavailable, match="taken"):
            change(log)
        assert stored(database) == before
        assert len(log.answers(0, 10)) == 1
        assert KeyStore(log.ownership).all() == []
        with pytest.raises(LogUnavailable, match="taken"):
            log.append([entry(1)])
        log.close()


def test_a_database_that_lost_what_was_written_is_written_no_more(log: Log, database: FreshDatabase) -> None:
    leave_a_commit_in_doubt(log, database)
    database.run("delete from log")
    for _ in range(2):
        with pytest.raises(LogUnavailable, match="has lost rows: it ends at 0, and 1 was written"):
            log.append([entry(1)])
    assert stored(database) == []


# --- pruning and restoring ------------------------------------------------------------------------------------------


def test_pruned_rows_are_gone_and_numbers_go_on(log: Log, database: FreshDatabase) -> None:
    log.append([entry(n) for n in range(10)])
    assert not log.prune(4)
    assert (log.pruned_through, log.last_lsn) == (4, 10)
    assert stored(database) == [5, 6, 7, 8, 9, 10]
    assert [row.lsn for row in log.replay(after_lsn=4)] == [5, 6, 7, 8, 9, 10]
    with pytest.raises(LogUnavailable, match="rows 3 to 4 of the log are needed, and have been deleted"):
        list(log.replay(after_lsn=2))
    assert not log.prune(3), "what is pruned already is not pruned again"
    assert log.pruned_through == 4


def test_a_log_that_was_pruned_to_its_end_goes_on_after_it(log: Log, database: FreshDatabase) -> None:
    log.append([entry(n) for n in range(3)])
    assert not log.prune(1_000_000)
    log.close()
    again = Log.open(database.url)
    assert (again.pruned_through, again.last_lsn) == (3, 3)
    assert list(again.replay(after_lsn=3)) == []
    with pytest.raises(LogUnavailable, match="needed"):
        list(again.replay())
    assert again.append([entry(3)]) == 4
    assert [row.lsn for row in again.replay(after_lsn=3)] == [4]
    again.close()


def test_pruning_is_cut_by_rows_and_by_bytes(
    log: Log, database: FreshDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "PIECE_ROWS", 7)
    monkeypatch.setattr(log_module, "PRUNED", 100)
    log.append([entry(n) for n in range(20)])
    log.append([entry(20 + n, bytes(60)) for n in range(4)])
    log.append([entry(24, bytes(1000)), entry(25)])
    left = []
    while log.prune(26):
        left.append(log.pruned_through)
        assert stored(database)[0] == log.pruned_through + 1
        assert database.meta()["pruned_through"] == str(log.pruned_through)
        log.append([entry(26)])
    assert left == [7, 14, 21, 22, 23, 24, 25]
    assert log.pruned_through == 26


def test_a_checkpoint_lets_the_write_ahead_log_begin_anew(log: Log, database: FreshDatabase) -> None:
    if log.database.remote:
        log.append([entry(0)])
        log.checkpoint()
        assert log.write_ahead == 0
        return
    file = Path(f"{log.database.engine.url.database}-wal")
    sizes = []
    for n in range(6):
        log.append([entry(n, bytes(100_000))])
        assert log.write_ahead > 100_000
        log.checkpoint()
        assert log.write_ahead == 0
        sizes.append(file.stat().st_size)
    assert sizes[-1] < 2 * 100_000 + 100_000, sizes
    assert [row.payload for row in log.replay()] == [bytes(100_000)] * 6


def test_rows_are_written_while_another_reads_and_a_checkpoint_is_made(log: Log) -> None:
    log.append([entry(n, bytes(5_000)) for n in range(20)])
    rows = log.replay()
    first = next(rows)
    log.checkpoint()
    log.append([entry(20)])
    log.checkpoint()
    assert [first.lsn, *(row.lsn for row in rows)] == list(range(1, 21))
    assert [row.lsn for row in log.replay(20)] == [21]


def test_pruning_fails_whole(log: Log, database: FreshDatabase) -> None:
    log.append([entry(n) for n in range(3)])
    database.run("alter table meta rename to elsewhere")
    with pytest.raises(LogUnavailable, match="cannot be pruned"):
        log.prune(2)
    database.run("alter table elsewhere rename to meta")
    assert stored(database) == [1, 2, 3]
    assert log.pruned_through == 0
    assert [row.lsn for row in log.replay()] == [1, 2, 3]
    assert not log.prune(2)
    assert stored(database) == [3]


@pytest.mark.parametrize(
    ("gone", "told"),
    [
        ("lsn = 1", "after row 0 comes row 2"),
        ("lsn = 3", "after row 2 comes row 4"),
        ("lsn between 4 and 5", "after row 3 comes row 6"),
        ("lsn >= 6", "rows 6 to 7 are missing"),
        ("lsn > 0", "rows 1 to 7 are missing"),
    ],
)
def test_missing_rows_are_noticed(
    log: Log, database: FreshDatabase, gone: str, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "PIECE_ROWS", 2)
    log.append([entry(n) for n in range(7)])
    database.run(f"delete from log where {gone}")
    with pytest.raises(LogUnavailable, match=f"damaged: {told}"):
        list(log.replay())


def test_a_log_that_ends_too_early_is_noticed(log: Log) -> None:
    log.append([entry(0)])
    with pytest.raises(LogUnavailable, match="ends at row 1, although row 2 has been written"):
        list(log.replay(after_lsn=2))


def test_rows_are_read_in_pieces(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "PIECE_ROWS", 3)
    monkeypatch.setattr(log_module, "PIECE", 5)
    log.append([entry(n, bytes(n % 7)) for n in range(50)])
    assert [(row.lsn, row.payload) for row in log.replay(10)] == [(n + 1, bytes(n % 7)) for n in range(10, 50)]


def test_rows_written_after_the_replay_began_are_left_to_the_next(log: Log) -> None:
    log.append([entry(0), entry(1)])
    rows = log.replay()
    assert next(rows).lsn == 1
    log.append([entry(2)])
    assert [row.lsn for row in rows] == [2]


def test_an_empty_log_starts_after_a_row_that_is_elsewhere(
    database: FreshDatabase, homes: tuple[DataDirectory, DataDirectory]
) -> None:
    log = Log.open(database.url, homes[0])
    log.start_at(41, homes[1].epoch)
    assert (log.pruned_through, log.last_lsn) == (41, 41)
    assert log.append([entry(0)]) == 42
    log.close()
    with pytest.raises(LogUnavailable, match="another data directory"):
        Log.open(database.url, homes[0])
    again = Log.open(database.url, homes[1])
    assert (again.pruned_through, again.last_lsn) == (41, 42)
    with pytest.raises(LogUnavailable, match="not empty"):
        again.start_at(50, homes[1].epoch)
    again.close()


def test_answers_can_be_taken_out_and_put_in_elsewhere(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_module, "PIECE_ROWS", 7)
    kept = [answer(f"{n}", float(n % 10), b"{}" * n, n // 2) for n in range(100)]
    log.append([entry(n) for n in range(50)], kept)
    found = list(log.all_answers(30))
    assert found == sorted((one for one in kept if one.lsn <= 30), key=lambda one: (one.created_at, one.scope, one.key))
    other = Log.open(f"sqlite:///{tmp_path / 'other.db'}")
    for _ in range(2):
        other.add_answers(iter(found))
        assert list(other.all_answers(30)) == found
    other.close()


# --- a server that goes and comes ------------------------------------------------------------------------------------


def test_a_lost_session_is_replaced_without_a_refusal(postgres: FreshDatabase) -> None:
    log = Log.open(postgres.url)
    log.append([entry(0)])
    postgres.end_session()
    assert log.append([entry(1)], [answer("a")]) == 2
    assert [row.lsn for row in log.replay()] == [1, 2]
    with pytest.raises(LogUnavailable, match="in use by another service"):
        Log.open(postgres.url, patience=0.1)
    log.close()


def test_an_error_does_not_let_the_lock_go(postgres: FreshDatabase) -> None:
    log = Log.open(postgres.url)
    held = postgres.holders()
    leave_a_commit_in_doubt(log, postgres)
    assert postgres.holders() == held and len(held) == 1
    log.append([entry(1)])
    assert postgres.holders() == held
    log.close()


def test_a_service_that_came_in_between_keeps_the_first_one_out(
    postgres: FreshDatabase, proxy: Proxy, hurry: Hurry
) -> None:
    first = Log.open(postgres.through(proxy.port))
    first.append([entry(0)])
    proxy.silence()
    hurry.begin()
    with pytest.raises(LogUnavailable):
        first.append([entry(1)])
    hurry.end()
    second = Log.open(postgres.url)
    second.append([entry(n) for n in range(second.last_lsn, 4)])
    proxy.speak()
    for _ in range(2):
        with pytest.raises(LogUnavailable, match="another service has taken"):
            first.append([entry(1)])
    second.close()
    with pytest.raises(LogUnavailable, match="another service has taken"):
        first.append([entry(1)])
    first.close()
    assert stored(postgres) == [1, 2, 3, 4]


def test_a_server_that_falls_silent_is_unavailable_and_leaves_nothing_behind(
    postgres: FreshDatabase, proxy: Proxy, hurry: Hurry
) -> None:
    """The commit arrives, its answer does not: what was refused is not there once the server speaks again."""
    log = Log.open(postgres.through(proxy.port))
    log.append([entry(0)])
    proxy.silence_at(b"COMMIT\0", hurry.begin)
    with pytest.raises(LogUnavailable):
        log.append([entry(1, b"refused")], [answer("a", lsn=2)])
    with pytest.raises(LogUnavailable):
        list(log.replay())
    with pytest.raises(LogUnavailable):
        log.prune(1)
    wait_until(lambda: stored(postgres) == [1, 2])  # the commit in doubt went through
    assert log.last_lsn == 1
    hurry.end()
    proxy.speak()
    assert log.append([entry(1, b"written")]) == 2
    assert [row.payload for row in log.replay()] == [b"x", b"written"]
    assert log.answers(0, 10) == []
    log.close()


def test_a_session_that_the_server_has_not_missed_yet_does_not_keep_its_service_out(
    postgres: FreshDatabase, proxy: Proxy
) -> None:
    log = Log.open(postgres.through(proxy.port))
    log.append([entry(0)])
    held = postgres.holders()
    proxy.lose_clients()
    assert postgres.holders() == held
    assert log.append([entry(1)]) == 2
    assert len(postgres.holders()) == 1 and postgres.holders() != held
    log.close()


def test_a_stopped_server_is_unavailable_and_the_next_write_after_it_goes_through(
    postgres: FreshDatabase, proxy: Proxy
) -> None:
    log = Log.open(postgres.through(proxy.port))
    port = proxy.port
    log.append([entry(0)])
    proxy.close()
    for _ in range(3):
        with pytest.raises(LogUnavailable):
            log.append([entry(1)])
    url = sa.make_url(postgres.url)
    again = Proxy(url.host or "127.0.0.1", url.port or 5432, port)
    assert log.append([entry(1)]) == 2
    log.close()
    again.close()


def test_two_threads_may_write_at_a_time(log: Log) -> None:
    rounds = 300
    log.append([], [answer(str(n)) for n in range(rounds)])

    def complete() -> None:
        for n in range(rounds):
            log.complete_answers([CompletedAnswer("", str(n), b"whole")])

    other = threading.Thread(target=complete)
    other.start()
    for n in range(rounds):
        log.append([entry(n)])
    other.join()
    assert [row.lsn for row in log.replay()] == list(range(1, rounds + 1))
    assert {one.answer for one in log.all_answers(rounds)} == {b"whole"}


def test_a_note_takes_a_row(log: Log) -> None:
    log.append([entry(0)])
    log.note("keys")
    assert [(row.lsn, row.resource, row.command) for row in log.replay(1)] == [(2, "keys", "note")]
