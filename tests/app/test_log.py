import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.storage.log import FORGET, CompletedAnswer, Log, LogEntry, LogUnavailable, StoredAnswer


def entry(n: int, payload: bytes = b"x") -> LogEntry:
    return LogEntry("boards/delays", n, n, "events", payload)


def answer(key: str, created_at: float = 100.0, text: bytes = b"{}") -> StoredAnswer:
    return StoredAnswer("", key, b"hash", 1, 200, text, False, created_at)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    opened = Log.open(f"sqlite:///{tmp_path / 'log.db'}")
    yield opened
    opened.close()


def break_writes(path: Path) -> None:
    with sqlite3.connect(path / "log.db") as db:
        db.execute("create trigger broken before insert on log begin select raise(abort, 'disk full'); end")


def mend_writes(path: Path) -> None:
    with sqlite3.connect(path / "log.db") as db:
        db.execute("drop trigger broken")


def test_rows_come_back_in_order_with_their_numbers(log: Log) -> None:
    assert log.append([entry(0), entry(1)], now=5.0) == 2
    assert log.append([entry(2, b"\0\xff")]) == 3
    rows = list(log.replay())
    assert [row.lsn for row in rows] == [1, 2, 3]
    assert rows[0] == (1, "boards/delays", 0, 0, "events", b"x", 5.0)
    assert rows[2].payload == b"\0\xff"
    assert [row.lsn for row in log.replay(after_lsn=2)] == [3]


def test_numbers_go_on_after_reopening(log: Log, tmp_path: Path) -> None:
    log.append([entry(0)])
    log.close()
    again = Log.open(f"sqlite:///{tmp_path / 'log.db'}")
    assert again.last_lsn == 1
    assert again.append([entry(1)]) == 2
    again.close()


def test_a_commit_is_durable(log: Log) -> None:
    with log.engine.connect() as connection:
        assert connection.exec_driver_sql("pragma journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("pragma synchronous").scalar() == 2


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
    log.append([], [answer(f"{n}", float(n // 3))._replace(complete=n % 10 > 0) for n in range(100)])
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


def test_a_failed_append_leaves_nothing_and_the_next_goes_through(log: Log, tmp_path: Path) -> None:
    log.append([entry(0)])
    break_writes(tmp_path)
    with pytest.raises(LogUnavailable, match="disk full"):
        log.append([entry(1), entry(2)], [answer("a")])
    assert log.last_lsn == 1
    assert log.answers(0, 100_000) == []
    mend_writes(tmp_path)
    assert log.append([entry(1)]) == 2
    assert [row.first_seq for row in log.replay()] == [0, 1]


def test_a_commit_that_went_through_unnoticed_is_taken_back(log: Log, tmp_path: Path) -> None:
    log.append([entry(0)])
    break_writes(tmp_path)
    with pytest.raises(LogUnavailable):
        log.append([entry(1)])
    mend_writes(tmp_path)
    with sqlite3.connect(tmp_path / "log.db") as db:
        db.execute("insert into log values (2, 'boards/delays', 1, 1, 'events', x'00', 1.0)")
    log.append([entry(1, b"second try")])
    assert [row.payload for row in log.replay()] == [b"x", b"second try"]


def test_a_large_transaction_goes_through(log: Log) -> None:
    block = bytes(1_000_000)
    assert log.append([entry(n, block) for n in range(8)]) == 8
    assert sum(len(row.payload) for row in log.replay()) == 8_000_000


@pytest.mark.parametrize("url", ["nonsense", "sqlite:////nowhere/at/all/x.db", "oracle+nothing://x"])
def test_an_unusable_database_is_refused(url: str) -> None:
    with pytest.raises(LogUnavailable):
        Log.open(url)
