"""The writer: what is answered is in the log, what is refused changed nothing, and reads see settled states only."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from app.idempotency import Answers, Replay, Ticket
from app.metrics import Metrics
from app.storage.catalog import Catalog
from app.storage.log import Log, LogUnavailable
from app.writer import BULK, Busy, Skeleton, Writer
from indexes.boards.commands import (
    UPDATE,
    UPSERT,
    BoardConfig,
    Configure,
    Events,
    Refused,
    SetSubscription,
    Subscribe,
    Unsubscribe,
)

CONFIG = BoardConfig(("x",), "y", ks=(2,))


class BrokenLog(Log):
    """A log that cannot be written while `broken`."""

    broken = False

    def append(self, *args: Any, **more: Any) -> int:
        if self.broken:
            raise LogUnavailable("the disk is full")
        return super().append(*args, **more)


def make(path: Path, max_queue: int = 10_000) -> Writer:
    return Writer(BrokenLog.open(f"sqlite:///{path / 'log.db'}"), Catalog(), Answers(), Metrics(), max_queue)


def run(path: Path, story: Callable[[Writer], Awaitable[None]], **more: Any) -> None:
    async def whole() -> None:
        writer = make(path, **more)
        writer.recover()
        await story(writer)
        await writer.close()
        writer._log.close()

    asyncio.run(whole())


def upsert(*objects: tuple[str, float, float], op: int = UPSERT) -> Events:
    ids, x, y = zip(*objects, strict=True)
    return Events(np.full(len(ids), op, np.uint8), list(ids), np.array(x), np.array(y))


def many(n: int, start: int = 0) -> Events:
    rng = np.random.default_rng(start)
    ids = [f"o{i}" for i in range(start, start + n)]
    return Events(np.zeros(n, np.uint8), ids, rng.random(n), rng.random(n))


def state(writer: Writer) -> Any:
    out = {}
    for name in writer.catalog.names():
        board = writer.catalog.board(name)
        assert board is not None
        board.check()
        out[name] = (board.seq, board.config, board.objects(None, 10**6), board.subscriptions(None, 10**6))
    return out


def test_what_was_answered_is_there_after_a_restart(tmp_path: Path) -> None:
    seen: list[Any] = []

    async def first(writer: Writer) -> None:
        await writer.put("a", CONFIG)
        await writer.put("b", CONFIG)
        await writer.submit("a", upsert(("p", 1.0, 2.0), ("q", 2.0, 1.0)))
        await writer.submit("a", SetSubscription("s", 0.0, None, 2))
        await writer.submit("b", Configure((2, 3), "dense"))
        n = BULK + 5
        ids = pa.array([f"s{i}" for i in range(n)])
        await writer.submit("b", Subscribe(ids, np.zeros(n), np.ones(n), np.full(n, 3, np.int32)))
        await writer.submit("b", many(BULK + 5))
        await writer.drop("a")
        plan = await writer.put("a", CONFIG)
        assert plan.last_seq == 5
        await writer.submit("a", upsert(("p", 1.0, 2.0)))
        seen.append(state(writer))

    async def again(writer: Writer) -> None:
        assert state(writer) == seen[0]

    run(tmp_path, first)
    run(tmp_path, again)


def test_commands_that_come_together_are_one_commit(tmp_path: Path) -> None:
    async def story(writer: Writer) -> None:
        await writer.put("a", CONFIG)
        sizes: list[int] = []
        commit = writer._commit
        writer._commit = lambda group: (sizes.append(len(group)), commit(group))[1]  # type: ignore[func-returns-value,method-assign]
        plans = await asyncio.gather(*(writer.submit("a", upsert((f"o{i}", 1.0, float(i)))) for i in range(20)))
        assert sizes == [20]
        assert [plan.last_seq for plan in plans] == list(range(1, 21))

    run(tmp_path, story)


def test_a_check_meets_what_was_accepted_before_it(tmp_path: Path) -> None:
    async def story(writer: Writer) -> None:
        results = await asyncio.gather(
            writer.put("a", CONFIG),
            writer.submit("a", upsert(("p", 1.0, 1.0))),
            writer.submit("a", upsert(("p", 2.0, 2.0), op=UPDATE)),
            writer.submit("a", SetSubscription("s", None, None, 2)),
            writer.submit("a", SetSubscription("s", 1.0, None, None, must_exist=True)),
            writer.submit("a", Unsubscribe(["s"], must_exist=True)),
            writer.submit("a", Unsubscribe(["s"], must_exist=True)),
            writer.drop("a"),
            writer.submit("a", upsert(("p", 1.0, 1.0))),
            return_exceptions=True,
        )
        refused = [i for i, result in enumerate(results) if isinstance(result, Refused)]
        assert refused == [6, 8]
        assert writer.catalog.names() == []

    run(tmp_path, story)


def test_a_log_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    async def story(writer: Writer) -> None:
        await writer.put("a", CONFIG)
        await writer.submit("a", upsert(("p", 1.0, 1.0)))
        await writer.submit("a", SetSubscription("s", None, None, 2))
        before = state(writer)
        log: Any = writer._log
        log.broken = True
        results = await asyncio.gather(
            writer.submit("a", upsert(("p", 3.0, 3.0), ("r", 1.0, 1.0))),
            writer.submit("a", many(BULK + 1)),
            writer.submit("a", Unsubscribe(["s"])),
            writer.submit("a", Configure((2, 9))),
            writer.put("b", CONFIG),
            writer.drop("a"),
            return_exceptions=True,
        )
        assert [type(result) for result in results] == [LogUnavailable] * 6
        assert state(writer) == before
        log.broken = False
        plan = await writer.submit("a", upsert(("p", 4.0, 4.0), op=UPDATE))
        assert plan.last_seq == before["a"][0] + 1
        assert (await writer.submit("a", upsert(("r", 1.0, 1.0)))).created == {0: 1}

    run(tmp_path, story)
    run(tmp_path, lambda writer: _same_objects(writer, ["p", "r"]))


async def _same_objects(writer: Writer, ids: Sequence[str]) -> None:
    board = writer.catalog.board("a")
    assert board is not None
    assert [view.id for view in board.objects(None, 9)] == list(ids)


def test_long_work_lets_reads_and_other_boards_go_on(tmp_path: Path) -> None:
    async def story(writer: Writer) -> None:
        await writer.put("a", CONFIG)
        await writer.put("b", CONFIG)
        long = asyncio.ensure_future(writer.submit("a", many(60_000)))
        board = writer.catalog.board("a")
        assert board is not None
        seqs, others = set(), 0
        while not long.done():
            seqs.add(board.seq)
            seq = await writer.between("a", lambda: board.seq)
            assert len(board.top(-np.inf, np.inf, 1000)) == min(seq, 1000)
            await writer.submit("b", upsert((f"o{others}", 1.0, 1.0)))
            others += 1
        plan = await long
        assert plan.last_seq == 60_000 == board.seq
        assert len(seqs) > 5
        assert others > 5

    run(tmp_path, story)


def test_a_full_queue_is_said(tmp_path: Path) -> None:
    async def story(writer: Writer) -> None:
        await writer.put("a", CONFIG)
        results = await asyncio.gather(
            *(writer.submit("a", upsert((f"o{i}", 1.0, 1.0))) for i in range(8)), return_exceptions=True
        )
        assert sum(isinstance(result, Busy) for result in results) == 3

    run(tmp_path, story, max_queue=5)


def test_a_retry_gets_the_first_answer_also_after_a_crash(tmp_path: Path) -> None:
    def skeleton(plan: Any) -> Skeleton:
        return Skeleton(200, {"seq": plan.last_seq, "tile_count": None})

    async def first(writer: Writer) -> None:
        await writer.put("a", CONFIG)
        await writer.submit("a", SetSubscription("s", None, None, 2))
        for key in ("whole", "crashed"):
            ticket = writer.answers.claim("", key, b"h")
            assert isinstance(ticket, Ticket)
            plan = await writer.submit("a", upsert((key, 1.0, 1.0)), ticket=ticket, skeleton=skeleton)
            if key == "whole":
                ticket.complete(200, {"seq": plan.last_seq, "tile_count": plan.tile_count, "tiles": []})
        assert plan.tile_count == 1

    async def again(writer: Writer) -> None:
        for key, seq in (("whole", 2), ("crashed", 3)):
            replay = writer.answers.claim("", key, b"h")
            assert isinstance(replay, Replay)
            assert replay.answer == {"seq": seq, "tile_count": 1, "replayed": True}

    run(tmp_path, first)
    run(tmp_path, again)
    run(tmp_path, again)


def test_a_board_that_is_not_there_leaves_nothing_behind(tmp_path: Path) -> None:
    async def story(writer: Writer) -> None:
        with suppress(Refused):
            await writer.submit("none", Unsubscribe(["a"], must_exist=True))
        assert not writer._lanes

    run(tmp_path, story)


def test_a_long_command_does_not_keep_the_service_from_ending(tmp_path: Path) -> None:
    """It is in the log, so the next start applies it."""
    many = 15_000
    objects = [(f"o{n}", float(n % 97), float(n % 89)) for n in range(many)]

    async def cut(writer: Writer) -> None:
        await writer.put("b", CONFIG)
        waiting = asyncio.create_task(writer.submit("b", upsert(*objects)))
        while not any(lane.running for lane in writer._lanes.values()):
            await asyncio.sleep(0)
        await writer.close(0.0)
        assert not waiting.done()
        waiting.cancel()

    async def again(writer: Writer) -> None:
        board = writer.catalog.board("b")
        assert board is not None
        assert (board.seq, board.object_count) == (many, many)

    run(tmp_path, cut)
    run(tmp_path, again)
