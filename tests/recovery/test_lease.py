"""The lease of a log that nodes share: who may append to it, whatever the order in which two nodes try."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy.exc import OperationalError

from app.errors import LogUnavailable
from app.storage.directory import DataDirectory
from app.storage.lease import TERM, LeaseHeld, confirmed_in
from app.storage.log import Log
from app.storage.rows import NOTE, LogEntry
from app.storage.shared_log import Marks, Notifications, OtherHistory, SharedLog, Sharing, lease_of
from tests.support.databases import FreshDatabase, fresh
from tests.support.patience import PATIENCE, wait_until

LONG = 3600.0
"""Seconds of a lease that does not expire by itself during a test."""


@pytest.fixture
def database(tmp_path: Path) -> Iterator[FreshDatabase]:
    with fresh("postgresql", tmp_path) as made:
        yield made


class Node:
    """A node as a process that is started again when it has lost the log. Its data directory is `folder`."""

    def __init__(self, database: FreshDatabase, folder: Path, name: str, leads: bool, seconds: float = LONG) -> None:
        self.name = name
        self.directory = DataDirectory.open(folder)
        self._database = database
        self._seconds = seconds
        self.log = self._open(leads)

    def _open(self, leads: bool) -> SharedLog:
        sharing = Sharing(self.name, 0, self._seconds, leads)
        return SharedLog.share(self._database.url, self.directory, sharing)

    def again(self, leads: bool = False) -> None:
        """End and start again."""
        self.log.close()
        self.log = self._open(leads)

    def catch_up(self, end: int) -> None:
        self.log.append(list(self.log.copies(self.log.last_lsn, end)))

    def take(self, force: bool) -> int:
        """Take the lease, and what is there; return the term."""
        self.catch_up(self.log.take(0, force))
        self.log.lead()
        assert self.log.lease.term is not None
        return self.log.lease.term

    def write(self) -> None:
        self.log.append([LogEntry(f"boards/{self.name}", self.log.lease.term or 0, 0, "events", b"x")])

    def close(self) -> None:
        self.log.close()
        self.directory.close()


@contextmanager
def nodes(database: FreshDatabase, folder: Path, seconds: float = LONG) -> Iterator[dict[str, Node]]:
    """Two nodes of one history; `a` leads."""
    shutil.rmtree(folder, ignore_errors=True)
    first = Node(database, folder / "a", "a", True, seconds)
    (folder / "b").mkdir(mode=0o700)
    for file in ("EPOCH", "FORMAT"):
        shutil.copy(folder / "a" / file, folder / "b" / file)
    second = Node(database, folder / "b", "b", False, seconds)
    try:
        yield {"a": first, "b": second}
    finally:
        first.close()
        second.close()


def expire(database: FreshDatabase) -> None:
    """Let the lease have expired by the server's clock."""
    database.run("update lease set expires = clock_timestamp() - interval '1 second'")


def rows(database: FreshDatabase) -> list[tuple[str, int]]:
    """Who wrote each row, and in which term it was to be."""
    return [
        (str(row[0]).removeprefix("boards/"), int(row[1]))
        for row in database.rows("select resource, first_seq from log where command <> 'note' order by lsn")
    ]


STEPS = st.lists(
    st.tuples(st.sampled_from(["take", "force", "write", "write", "expire", "cut", "again"]), st.sampled_from("ab")),
    min_size=4,
    max_size=14,
)


@given(steps=STEPS)
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
def test_one_term_at_most_can_append(database: FreshDatabase, tmp_path: Path, steps: list[tuple[str, str]]) -> None:
    """The model knows who took the lease last; nobody else writes, and terms never go back."""
    database.run("drop table if exists lease", "drop table if exists log", "drop table if exists meta")
    with nodes(database, tmp_path / "nodes") as both:
        holder, free = "a", False
        expected: list[tuple[str, int]] = []
        for step, name in steps:
            one = both[name]
            if step == "expire":
                expire(database)
                free = True
            elif step == "cut":
                database.run("select pg_terminate_backend(pid) from pg_locks where objid = 'meta'::regclass::oid")
            elif step == "again" and (name != holder or one.log.ownership.lost):
                one.again()
            elif step in ("take", "force") and not one.log.leads:
                may = free or step == "force" or name == holder
                try:
                    term = one.take(step == "force")
                except LeaseHeld:
                    assert not may
                else:
                    assert may and all(term > earlier for _, earlier in expected)
                    holder, free = name, False
            elif step == "write" and one.log.leads:
                try:
                    one.write()
                except LogUnavailable:
                    assert name != holder, "the holder could not write"
                    assert one.log.ownership.lost
                    one.again()
                else:
                    assert name == holder, "another node than the holder has written"
                    expected.append((name, one.log.lease.term or 0))
        assert rows(database) == expected
        terms = [term for _, term in expected]
        assert terms == sorted(terms)
        assert len({(name, term) for name, term in expected}) == len(set(terms)), "a term of two nodes"


def test_a_leader_that_stops_in_the_middle_of_a_transaction_writes_nothing(
    database: FreshDatabase, tmp_path: Path
) -> None:
    """Its rows are at the server and not committed, and the row of the lease is locked, when another node takes it."""
    with nodes(database, tmp_path / "nodes") as both:
        first, second = both["a"].log, both["b"]
        both["a"].write()
        inside, taken = threading.Event(), threading.Event()
        outcome: list[Any] = []

        def stopped(cursor: Any) -> None:
            cursor.execute("insert into log values (2, 'boards/a', 0, 0, 'events', '', 0, null)")
            # The answer is asked for, so that the server has carried out all before it.
            cursor.execute("select 1")
            cursor.fetchone()
            inside.set()
            assert taken.wait(PATIENCE)

        def write() -> None:
            try:
                outcome.append(first._session.transact(stopped))
            except LogUnavailable as error:
                outcome.append(error)

        thread = threading.Thread(target=write)
        thread.start()
        assert inside.wait(PATIENCE)
        with pytest.raises(LeaseHeld):
            second.take(force=False)
        expire(database)
        assert second.take(force=False) == 1
        second.write()
        taken.set()
        thread.join(PATIENCE)
        assert isinstance(outcome[0], LogUnavailable)
        with pytest.raises(LogUnavailable, match="another"):
            both["a"].write()
        assert first.ownership.lost
        assert rows(database) == [("a", 0), ("b", 1)]


def test_a_transaction_holds_the_term_and_fails_without_it(database: FreshDatabase, tmp_path: Path) -> None:
    """Whatever becomes of sessions: the row of the lease alone decides."""
    with nodes(database, tmp_path / "nodes") as both:
        first = both["a"].log

        def inside(cursor: Any) -> None:
            cursor.execute("select 1")
            cursor.fetchone()
            database.run("set lock_timeout = '5s'", "update lease set renewed = clock_timestamp()")
            with pytest.raises(OperationalError, match="lock timeout"):
                database.run("set lock_timeout = '100ms'", "update lease set term = term + 1")

        first._session.transact(inside)
        both["a"].write()
        database.run("update lease set term = term + 1")
        with pytest.raises(LogUnavailable, match="another node has taken the lease of term 0"):
            both["a"].write()
        assert first.ownership.lost and rows(database) == [("a", 0)]


def test_a_lease_is_kept_expires_without_its_keeper_and_is_given_back(database: FreshDatabase, tmp_path: Path) -> None:
    with nodes(database, tmp_path / "nodes", seconds=1.0) as both:
        first, second = both["a"].log, both["b"].log
        found = lease_of(database.url)
        assert found is not None and (found.term, found.node, found.confirmed) == (0, "a", 0) and not found.free
        both["a"].write()
        # Only a keeper that goes on brings this about.
        wait_until(lambda: (second.look().lease or found).confirmed == 1)
        assert not (second.look().lease or found).free
        first.keeper.stop(release=False)
        wait_until(lambda: (second.look().lease or found).free)
        both["b"].take(force=False)
        both["b"].write()
        both["b"].again()
        given = lease_of(database.url)
        assert given is not None and (given.token, given.term, given.node) == ("", 1, "b") and given.free


def test_a_reader_takes_what_is_confirmed_and_writes_nothing(database: FreshDatabase, tmp_path: Path) -> None:
    with nodes(database, tmp_path / "nodes") as both:
        first, second = both["a"], both["b"]
        notifications = Notifications(second.log.database)
        assert notifications.wait(0.0) is None
        first.write()
        wait_until(lambda: notifications.wait(0.1) == (0, 1))
        second.catch_up(1)
        assert (second.log.last_lsn, second.log.last_checksum) == (1, first.log.last_checksum)
        for refused in (
            lambda: second.log.append([LogEntry("boards/b", 0, 0, NOTE, b"")]),
            lambda: second.log.ownership.remember("storage", "{}"),
        ):
            with pytest.raises(LogUnavailable):
                refused()
        assert not second.log.prune(1) and not second.log.forget_answers(1e12)
        second.log.mend()
        assert len(rows(database)) == 1
        notifications.close()


def test_a_node_that_has_more_than_the_database_does_not_take_the_lease(
    database: FreshDatabase, tmp_path: Path
) -> None:
    with nodes(database, tmp_path / "nodes") as both:
        both["a"].write()
        both["a"].write()
        both["b"].catch_up(2)
        database.run("delete from log where lsn = 2")
        expire(database)
        with pytest.raises(OtherHistory, match="has lost rows: it ends at 1, and 2 was there"):
            both["b"].take(force=False)
        with pytest.raises(LogUnavailable, match="has lost rows"):
            both["b"].log.check_lease(both["b"].log.look())
        with pytest.raises(OtherHistory, match="the log ends at row 1"):
            both["b"].again()


def test_a_service_that_has_the_log_for_itself_ends_the_lease(database: FreshDatabase, tmp_path: Path) -> None:
    with nodes(database, tmp_path / "nodes") as both:
        both["a"].log.note(TERM)
        both["a"].log.close()
        alone = Log.open(database.url)
        assert lease_of(database.url) is None
        alone.close()
        both["a"].again(leads=True)
        both["a"].write()


def test_marks_are_the_nodes_own(tmp_path: Path) -> None:
    marks = Marks(tmp_path)
    assert marks.recall("storage") is None
    marks.remember("storage", "{}")
    marks.remember("more", "x")
    assert (Marks(tmp_path).recall("storage"), Marks(tmp_path).recall("more")) == ("{}", "x")
    (tmp_path / "MARKS").write_text("[")
    with pytest.raises(LogUnavailable, match="MARKS"):
        marks.recall("storage")


@pytest.mark.parametrize("payload", ["", "1", "a b", "1 -2", "1 2 3", "١ 2", f"1 {'9' * 50}"])
def test_what_is_no_confirmation_is_passed_over(payload: str) -> None:
    assert confirmed_in(payload) is None
