"""Rows of one writer's log, taken by another writer: the same state, the same rows, the same responses."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from app.errors import LogUnavailable, NotReady
from app.resources.base import ResourceTypes
from app.resources.boards import BoardType
from app.runtime.metrics import Metrics
from app.storage.log import Log
from app.storage.rows import UNDONE, CopiedRow
from app.write_path.catalog import Catalog
from app.write_path.committing import BULK
from app.write_path.following import Diverged, Following
from app.write_path.idempotency import Answers, Replay, Ticket, hash_request
from app.write_path.recovery import rebuilt
from app.write_path.replay import undoing
from app.write_path.writer import Skeleton, Writer
from indexes.boards.commands import UPSERT, DeleteSubscriptions, Events
from tests.recovery.commands import CONFIG, many, upsert


class NoSnapshots:
    """Snapshots of which there are none."""

    def newest(self, since: int, until: int, only: str | None = None) -> None:
        return None


class End:
    """One of two writers. `follow` makes it one that takes rows."""

    def __init__(self, path: Path) -> None:
        path.mkdir()
        self.log = Log.open(f"sqlite:///{path / 'log.db'}")
        self.types = ResourceTypes(BoardType())
        self.catalog, self.answers = Catalog(self.types), Answers()
        self.writer = Writer(self.log, self.catalog, self.answers, Metrics())
        self.writer.recover()

    def follow(self) -> Following:
        def rebuild(resource: str) -> Any:
            return rebuilt(NoSnapshots(), self.types, self.log, resource)  # type: ignore[arg-type]

        self.writer.closed, self.writer.applier.copies = "it follows", True
        following = Following(self.writer, self.catalog, self.log, self.answers, rebuild)
        following.begin()
        self.writer.applier.on_failed = following.note_failed
        return following

    async def close(self) -> None:
        await self.writer.close()
        self.log.close()

    def board(self, name: str = "boards/b") -> Any:
        engine = self.catalog.engine(name)
        assert engine is not None
        engine.check()
        return engine.seq, engine.config, engine.objects(None, 10**6), engine.subscriptions(None, 10**6)

    def rows(self, after: int = 0) -> list[CopiedRow]:
        return list(self.log.copies(after, self.log.last_lsn))


def both(path: Path, story: Callable[[End, End, Following], Awaitable[None]]) -> None:
    async def whole() -> None:
        leader, replica = End(path / "leader"), End(path / "replica")
        following = replica.follow()
        await story(leader, replica, following)
        await following.settle()
        await replica.close()
        await leader.close()

    asyncio.run(whole())


def answers_after(end: End, lsn: int) -> Sequence[Any]:
    return end.log.answers_between(lsn, end.log.last_lsn)


def skeleton(job: Any) -> Skeleton:
    return Skeleton(200, {"seq": job.last_seq, "tile_count": None}, open=True)


@pytest.mark.parametrize("seed", range(4))
def test_rows_in_any_batches_give_the_same_state_rows_and_responses(tmp_path: Path, seed: int) -> None:
    async def story(leader: End, replica: End, following: Following) -> None:
        draw = Random(seed)
        await leader.writer.put("boards/b", CONFIG)
        for i in range(60):
            ticket = leader.answers.claim("me", f"k{i}", hash_request("POST", str(i), "", b""))
            assert isinstance(ticket, Ticket)
            command: Any = upsert((f"o{draw.randrange(20)}", float(draw.randrange(20)), float(draw.randrange(20))))
            if draw.random() < 0.3:
                command = many(5, 3 * i)
            job = await leader.writer.submit("boards/b", command, ticket=ticket, skeleton=skeleton)
            ticket.complete(200, skeleton(job).answer | job.response_fields())
            if draw.random() < 0.3:
                after = following.taken
                await following.take(leader.rows(after), answers_after(leader, after))
        after = following.taken
        await following.take(leader.rows(after), answers_after(leader, after))
        await following.settle()
        assert following.applied == leader.log.last_lsn
        assert replica.board() == leader.board()
        assert replica.rows() == leader.rows(), "checksums too"
        assert replica.log.check().faults == []
        await replica.writer.committer.complete_answers()
        for i in range(60):
            kept, there = (
                replica.log.answer("me", f"k{i}"),
                replica.answers.claim("me", f"k{i}", hash_request("POST", str(i), "", b"")),
            )
            assert kept is not None and kept.complete and isinstance(there, Replay)
            here = leader.answers.claim("me", f"k{i}", hash_request("POST", str(i), "", b""))
            assert isinstance(here, Replay) and here == there

    both(tmp_path, story)


def test_an_answer_that_comes_again_before_it_is_committed_is_kept_once(tmp_path: Path) -> None:
    async def story(leader: End, replica: End, following: Following) -> None:
        await leader.writer.put("boards/b", CONFIG)
        ticket = leader.answers.claim("me", "k", hash_request("POST", "", "", b""))
        assert isinstance(ticket, Ticket)
        job = await leader.writer.submit("boards/b", upsert(("o", 1.0, 1.0)), ticket=ticket, skeleton=skeleton)
        ticket.complete(200, skeleton(job).answer | job.response_fields())
        await leader.writer.committer.complete_answers()
        await following.take(leader.rows(), answers_after(leader, 0))
        # As from a leader that is asked again from the last row on.
        await following.take([], answers_after(leader, leader.log.last_lsn))
        await following.settle()
        kept = replica.log.answer("me", "k")
        assert kept is not None and kept == leader.log.answer("me", "k")

    both(tmp_path, story)


def test_a_long_command_arrives_in_pieces_and_a_follower_may_begin_again_between_them(tmp_path: Path) -> None:
    async def story(leader: End, replica: End, following: Following) -> None:
        await leader.writer.put("boards/b", CONFIG)
        n = 6 * BULK
        rng = np.random.default_rng(1)
        x, y = rng.integers(0, 99, n).astype(float), rng.integers(0, 99, n).astype(float)
        command = Events(np.full(n, UPSERT, np.uint8), [f"o{i}" for i in range(n)], x, y)
        await leader.writer.submit("boards/b", command)
        rows = leader.rows()
        assert len(rows) == 4
        await following.take(rows[:3], [])
        await following.settle()
        assert replica.log.last_lsn == following.applied == 1, "not the half of a command"
        assert following.begin() == 1
        await following.take(rows[1:], [])
        await following.settle()
        assert replica.board() == leader.board()

    both(tmp_path, story)


def test_a_row_that_does_not_follow_or_does_not_apply_changes_nothing(tmp_path: Path) -> None:
    async def story(leader: End, replica: End, following: Following) -> None:
        await leader.writer.put("boards/b", CONFIG)
        await leader.writer.submit("boards/b", upsert(("o1", 1.0, 1.0)))
        first, second = leader.rows()
        await following.take([first], [])
        await following.settle()
        before = replica.board()
        changed = second._replace(row=second.row._replace(created_at=1.0))
        await following.take([changed], [])
        await following.settle()
        with pytest.raises(LogUnavailable, match="does not follow"):
            await following.take([], [])
        following.begin()
        assert replica.board() == before and replica.log.last_lsn == 1
        further = second._replace(row=second.row._replace(first_seq=7, last_seq=7))
        with pytest.raises(Diverged, match="ends at seq 7"):
            await following.take([further], [])
        following.begin()
        await following.take([second], [])
        await following.settle()
        assert replica.board() == leader.board()

    both(tmp_path, story)


def test_rows_that_the_leader_undoes_are_undone_with_their_responses(tmp_path: Path) -> None:
    async def story(leader: End, replica: End, following: Following) -> None:
        await leader.writer.put("boards/b", CONFIG)
        await leader.writer.submit("boards/b", upsert(("o1", 1.0, 1.0)))
        kept = leader.board()
        ticket = leader.answers.claim("me", "k", b"hash")
        assert isinstance(ticket, Ticket)
        job = await leader.writer.submit("boards/b", upsert(("o2", 2.0, 2.0)), ticket=ticket, skeleton=skeleton)
        await following.take(leader.rows(), answers_after(leader, 0))
        await following.settle()
        assert replica.log.answer("me", "k") is not None
        leader.log.append([undoing("boards/b", 3, job.last_seq)])
        await following.take(leader.rows(3), [])
        await following.settle()
        assert replica.rows()[-1].row.command == UNDONE
        assert replica.board()[2:] == kept[2:] and replica.board()[0] == job.last_seq
        assert replica.log.answer("me", "k") is None
        assert isinstance(replica.answers.claim("me", "k", b"hash"), Ticket)

    both(tmp_path, story)


def test_a_resource_that_fails_at_a_replica_waits_for_what_the_leader_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(leader: End, replica: End, following: Following) -> None:
        await leader.writer.put("boards/b", CONFIG)
        await leader.writer.submit("boards/b", upsert(("o1", 1.0, 1.0)))
        await following.take(leader.rows(), [])
        await following.settle()
        job = await leader.writer.submit("boards/b", upsert(("o2", 2.0, 2.0)))
        queue = replica.writer._queue("boards/b")

        def fail(*_: Any) -> None:
            raise ValueError("an engine that fails")

        monkeypatch.setattr(replica.writer.applier, "_publish", fail)
        await following.take(leader.rows(2), [])
        await following.settle()
        monkeypatch.undo()
        assert queue.failed and list(following.failed) == ["boards/b"] and following.overdue() is None
        await leader.writer.submit("boards/b", upsert(("o3", 3.0, 3.0)))
        await following.take(leader.rows(3), [])
        leader.log.append([undoing("boards/b", 3, job.last_seq + 1)])
        await following.take(leader.rows(4), [])
        await following.settle()
        assert not queue.failed and not following.failed
        assert replica.rows() == leader.rows()
        assert [one.id for one in replica.board()[2]] == ["o1"]

    both(tmp_path, story)


def test_a_replica_takes_no_command_of_a_client(tmp_path: Path) -> None:
    async def story(leader: End, replica: End, following: Following) -> None:
        await leader.writer.put("boards/b", CONFIG)
        await following.take(leader.rows(), [])
        await following.settle()
        with pytest.raises(NotReady, match="it follows"):
            await replica.writer.submit("boards/b", DeleteSubscriptions(["s"]))
        cut = await replica.writer.consistent_cut()
        assert cut.lsn == leader.log.last_lsn

    both(tmp_path, story)


def test_a_write_that_too_few_replicas_have_is_in_the_log_and_its_retry_waits(tmp_path: Path) -> None:
    from app.errors import NotReplicated

    async def story(leader: End, replica: End, following: Following) -> None:
        have = False

        async def synced(lsn: int) -> bool:
            return have

        leader.writer.committer.synced = synced
        ticket = leader.answers.claim("me", "k", b"hash")
        assert isinstance(ticket, Ticket)
        with pytest.raises(NotReplicated):
            await leader.writer.put("boards/b", CONFIG, ticket, lambda job: Skeleton(201, {"seq": job.last_seq}))
        ticket.abandon()
        assert leader.catalog.names() == ["boards/b"] and leader.log.last_lsn == 1
        again = leader.answers.claim("me", "k", b"hash")
        assert isinstance(again, Replay) and again.answer["seq"] == 0, "it is done once"
        have = True
        await leader.writer.submit("boards/b", upsert(("o1", 1.0, 1.0)))

    both(tmp_path, story)
