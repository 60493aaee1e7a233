"""The writer: what is answered is in the log, what is refused changed nothing, and reads see settled states only."""

from __future__ import annotations

import asyncio
import math
import re
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from app.errors import LogUnavailable
from app.resources.base import ResourceTypes
from app.resources.boards import BoardType
from app.runtime.metrics import COUNTED_TOGETHER, Metrics
from app.storage.log import Log
from app.storage.rows import LogEntry
from app.write_path import applying
from app.write_path.applying import Applier
from app.write_path.catalog import Catalog
from app.write_path.committing import BULK
from app.write_path.idempotency import Answers, Replay, Ticket
from app.write_path.kernel_threads import COUNT
from app.write_path.writer import Busy, Skeleton, Submission, Unwritable, Writer
from indexes.boards.commands import UPDATE, AddSubscriptions, Configure, DeleteSubscriptions, Events, SetSubscription
from indexes.boards.config import BoardConfig
from indexes.boards.regions import between, everywhere, ranges
from indexes.core.commands import Refused
from tests.recovery.commands import CONFIG, many, upsert
from tests.recovery.writers import make, run


def state(writer: Writer) -> Any:
    out = {}
    for name in writer.catalog.names():
        board = writer.catalog.engine(name)
        assert board is not None
        board.check()
        out[name] = (board.seq, board.config, board.objects(None, 10**6), board.subscriptions(None, 10**6))
    return out


@pytest.mark.parametrize(
    ("resource", "name", "payload", "seqs", "reason"),
    [
        ("boards/a", "no-such-command", b"", (1, 1), "no-such-command"),
        ("boards/a", None, b"\xc1", (1, 1), ""),
        ("boards/gone", None, None, (1, 1), "there is no board"),
        ("boards/a", None, None, (7, 7), "it ends at seq 7, but replay is at 1"),
    ],
)
def test_a_row_that_does_not_apply_is_named_with_its_resource_and_what_to_do(
    tmp_path: Path, resource: str, name: str | None, payload: bytes | None, seqs: tuple[int, int], reason: str
) -> None:
    written: list[str] = []

    async def first(writer: Writer) -> None:
        await writer.put("boards/a", CONFIG)
        kind, _ = writer.catalog.resource_types.split("boards/a")
        (part,) = kind.encode(upsert(("p", 1.0, 2.0)), 1)
        entry = LogEntry(resource, *seqs, name or part.name, part.payload if payload is None else payload)
        writer._log.append([entry], [], [], 1.0)
        written.append(entry.command)

    run(tmp_path, first)
    writer = make(tmp_path)
    with pytest.raises(LogUnavailable) as refused:
        writer.recover()
    said = str(refused.value)
    assert said.startswith(f"row 2 of the log, a {written[0]!r} of {resource}, does not apply: ")
    assert reason in said
    heading = re.search(r"see '(.+)' in docs/operations.md", said)
    assert heading is not None
    page = Path(__file__).resolve().parents[2] / "docs" / "operations.md"
    assert f"\n### {heading[1]}\n" in page.read_text(encoding="utf-8")
    writer._log.close()


def test_what_was_answered_is_there_after_a_restart(tmp_path: Path) -> None:
    seen: list[Any] = []

    async def first(writer: Writer) -> None:
        await writer.put("boards/a", CONFIG)
        await writer.put("boards/b", CONFIG)
        await writer.submit("boards/a", upsert(("p", 1.0, 2.0), ("q", 2.0, 1.0)))
        await writer.submit("boards/a", SetSubscription("s", between(0.0, None), 2))
        await writer.submit("boards/b", Configure((2, 3), "dense"))
        n = BULK + 5
        ids = pa.array([f"s{i}" for i in range(n)])
        await writer.submit("boards/b", AddSubscriptions(ids, ranges(np.zeros(n), np.ones(n)), np.full(n, 3, np.int32)))
        await writer.submit("boards/b", many(BULK + 5))
        await writer.drop("boards/a")
        plan = await writer.put("boards/a", CONFIG)
        assert plan.last_seq == 5
        await writer.submit("boards/a", upsert(("p", 1.0, 2.0)))
        seen.append(state(writer))

    async def again(writer: Writer) -> None:
        assert state(writer) == seen[0]

    run(tmp_path, first)
    run(tmp_path, again)


def test_commands_that_come_together_are_one_commit(tmp_path: Path) -> None:
    async def story(writer: Writer) -> None:
        await writer.put("boards/a", CONFIG)
        sizes: list[int] = []
        commit = writer.committer._commit
        writer.committer._commit = lambda group: (sizes.append(len(group)), commit(group))[1]  # type: ignore[func-returns-value,method-assign]
        plans = await asyncio.gather(*(writer.submit("boards/a", upsert((f"o{i}", 1.0, float(i)))) for i in range(20)))
        assert sizes == [20]
        assert [plan.last_seq for plan in plans] == list(range(1, 21))

    run(tmp_path, story)


def test_a_check_meets_what_was_accepted_before_it(tmp_path: Path) -> None:
    async def story(writer: Writer) -> None:
        results = await asyncio.gather(
            writer.put("boards/a", CONFIG),
            writer.submit("boards/a", upsert(("p", 1.0, 1.0))),
            writer.submit("boards/a", upsert(("p", 2.0, 2.0), op=UPDATE)),
            writer.submit("boards/a", SetSubscription("s", None, 2)),
            writer.submit("boards/a", SetSubscription("s", between(1.0, None), must_exist=True)),
            writer.submit("boards/a", DeleteSubscriptions(["s"], must_exist=True)),
            writer.submit("boards/a", DeleteSubscriptions(["s"], must_exist=True)),
            writer.drop("boards/a"),
            writer.submit("boards/a", upsert(("p", 1.0, 1.0))),
            return_exceptions=True,
        )
        refused = [i for i, result in enumerate(results) if isinstance(result, Refused)]
        assert refused == [6, 8]
        assert writer.catalog.names() == []

    run(tmp_path, story)


def test_a_log_that_cannot_be_written_changes_nothing(tmp_path: Path) -> None:
    async def story(writer: Writer) -> None:
        await writer.put("boards/a", CONFIG)
        await writer.submit("boards/a", upsert(("p", 1.0, 1.0)))
        await writer.submit("boards/a", SetSubscription("s", None, 2))
        before = state(writer)
        log: Any = writer._log
        log.broken = True
        results = await asyncio.gather(
            writer.submit("boards/a", upsert(("p", 3.0, 3.0), ("r", 1.0, 1.0))),
            writer.submit("boards/a", many(BULK + 1)),
            writer.submit("boards/a", DeleteSubscriptions(["s"])),
            writer.submit("boards/a", Configure((2, 9))),
            writer.put("boards/b", CONFIG),
            writer.drop("boards/a"),
            return_exceptions=True,
        )
        assert [type(result) for result in results] == [LogUnavailable] * 6
        assert state(writer) == before
        log.broken = False
        plan = await writer.submit("boards/a", upsert(("p", 4.0, 4.0), op=UPDATE))
        assert plan.last_seq == before["boards/a"][0] + 1
        assert (await writer.submit("boards/a", upsert(("r", 1.0, 1.0)))).created == {0: 1}

    run(tmp_path, story)
    run(tmp_path, lambda writer: _same_objects(writer, ["p", "r"]))


async def _same_objects(writer: Writer, ids: Sequence[str]) -> None:
    board = writer.catalog.engine("boards/a")
    assert board is not None
    assert [view.id for view in board.objects(None, 9)] == list(ids)


class Wordless(BoardType):
    """Boards of which commands with the object `bad` cannot be encoded."""

    @staticmethod
    def encode(command: Any, count: int) -> Any:
        yield from BoardType.encode(command, count)
        if isinstance(command, Events) and "bad" in command.ids:
            raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")


def wordless(path: Path) -> Writer:
    return Writer(Log.open(f"sqlite:///{path / 'log.db'}"), Catalog(ResourceTypes(Wordless())), Answers(), Metrics())


def with_bad(events: Events) -> Events:
    events.ids = [*list(events.ids)[:-1], "bad"]
    return events


@pytest.mark.parametrize("long", [False, True])
def test_a_command_that_cannot_be_encoded_fails_alone(
    tmp_path: Path, long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What comes beside it and behind it goes on, and meets nothing that it would have done."""
    monkeypatch.setattr("app.write_path.committing.BULK", 9)
    bad = with_bad(many(10, 100)) if long else upsert(("p", 9.0, 9.0), ("bad", 1.0, 1.0))
    key = bad.ids[0]

    async def story() -> None:
        writer = wordless(tmp_path)
        writer.recover()
        await asyncio.gather(writer.put("boards/a", CONFIG), writer.put("boards/b", CONFIG))
        groups: list[int] = []
        commit = writer.committer._commit
        writer.committer._commit = lambda group: (groups.append(len(group)), commit(group))[1]  # type: ignore[func-returns-value,method-assign]
        results = await asyncio.gather(
            writer.submit("boards/a", upsert(("o", 1.0, 1.0))),
            writer.submit("boards/a", bad),
            writer.submit("boards/a", upsert((key, 2.0, 2.0), op=UPDATE)),
            writer.submit("boards/a", upsert(("q", 3.0, 3.0))),
            writer.submit("boards/b", upsert(("r", 4.0, 4.0))),
            return_exceptions=True,
        )
        kinds = [type(result) if isinstance(result, Exception) else result.last_seq for result in results]
        assert kinds == [1, Unwritable, Refused, 2, 1]
        assert long or groups == [3]
        assert writer.queued == 0
        board = writer.catalog.engine("boards/a")
        assert board is not None
        board.check()
        assert [view.id for view in board.objects(None, 10**6)] == ["o", "q"]
        await writer.close()
        writer._log.close()

    asyncio.run(story())
    run(tmp_path, lambda writer: _same_objects(writer, ["o", "q"]))


def test_an_answer_that_cannot_be_encoded_fails_alone(tmp_path: Path) -> None:
    async def story(writer: Writer) -> None:
        await writer.put("boards/a", CONFIG)
        ticket, other = (writer.answers.claim("", key, b"h") for key in "ab")
        assert isinstance(ticket, Ticket) and isinstance(other, Ticket)
        results = await asyncio.gather(
            writer.submit("boards/a", upsert(("o", 1.0, 1.0))),
            writer.submit(
                "boards/a", upsert(("p", 1.0, 1.0)), ticket=ticket, skeleton=lambda plan: Skeleton(200, {"x": b""})
            ),
            writer.submit("boards/a", upsert(("p", 1.0, 1.0)), ticket=other, skeleton=_seldom),
            writer.submit("boards/a", upsert(("q", 1.0, 1.0))),
            return_exceptions=True,
        )
        kinds = [type(result) if isinstance(result, Exception) else result.last_seq for result in results]
        assert kinds == [1, Unwritable, KeyError, 2]
        await _same_objects(writer, ["o", "q"])

    run(tmp_path, story)
    run(tmp_path, lambda writer: _same_objects(writer, ["o", "q"]))


def _seldom(plan: Any) -> Skeleton:
    raise KeyError("seldom")


@pytest.mark.parametrize("cut", ["the log is away", "the client has gone"])
def test_a_long_command_is_taken_back_while_it_is_encoded(
    tmp_path: Path, cut: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.write_path.committing.BULK", 9)

    async def story(writer: Writer) -> None:
        await writer.put("boards/a", CONFIG)
        before = state(writer)
        kind, _ = writer.catalog.resource_types.split("boards/a")
        begun, go = threading.Event(), threading.Event()
        encode = kind.encode

        def slowly(command: Any, count: int) -> Any:
            begun.set()
            assert go.wait(30)
            yield from encode(command, count)

        kind.encode = slowly  # type: ignore[method-assign]
        long = asyncio.ensure_future(writer.submit("boards/a", many(10)))
        while not begun.is_set():
            await asyncio.sleep(0)
        if cut == "the client has gone":
            long.cancel()
        else:
            log: Any = writer._log
            log.broken = True
            with pytest.raises(LogUnavailable):
                await writer.note("something")
            log.broken = False
        go.set()
        result = (await asyncio.gather(long, return_exceptions=True))[0]
        assert isinstance(result, asyncio.CancelledError if cut == "the client has gone" else LogUnavailable)
        kind.encode = encode  # type: ignore[method-assign]
        assert state(writer) == before
        assert (await writer.submit("boards/a", upsert(("o0", 1.0, 1.0)))).last_seq == 1

    run(tmp_path, story)
    run(tmp_path, lambda writer: _same_objects(writer, ["o0"]))


def test_long_work_lets_reads_and_other_boards_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # However fast the machine is, the work takes many slices.
    monkeypatch.setattr("app.write_path.applying.SLICE", 0.0005)

    async def story(writer: Writer) -> None:
        await writer.put("boards/a", CONFIG)
        await writer.put("boards/b", CONFIG)
        long = asyncio.ensure_future(writer.submit("boards/a", many(150_000)))
        board = writer.catalog.engine("boards/a")
        assert board is not None
        seqs, others = set(), 0
        while not long.done():
            seqs.add(board.seq)
            seq = await writer.between("boards/a", lambda: board.seq)
            assert len(board.top(everywhere(1), 1000)) == min(seq, 1000)
            await writer.submit("boards/b", upsert((f"o{others}", 1.0, 1.0)))
            others += 1
        plan = await long
        assert plan.last_seq == 150_000 == board.seq
        assert len(seqs) > 5
        assert others > 5

    run(tmp_path, story)


def test_a_full_queue_is_said(tmp_path: Path) -> None:
    async def story(writer: Writer) -> None:
        await writer.put("boards/a", CONFIG)
        results = await asyncio.gather(
            *(writer.submit("boards/a", upsert((f"o{i}", 1.0, 1.0))) for i in range(8)), return_exceptions=True
        )
        assert sum(isinstance(result, Busy) for result in results) == 3

    run(tmp_path, story, max_queue=5)


def test_a_retry_gets_the_first_answer_also_after_a_crash(tmp_path: Path) -> None:
    def skeleton(plan: Any) -> Skeleton:
        return Skeleton(200, {"seq": plan.last_seq, "tile_count": None})

    async def first(writer: Writer) -> None:
        await writer.put("boards/a", CONFIG)
        await writer.submit("boards/a", SetSubscription("s", None, 2))
        for key in ("whole", "crashed"):
            ticket = writer.answers.claim("", key, b"h")
            assert isinstance(ticket, Ticket)
            plan = await writer.submit("boards/a", upsert((key, 1.0, 1.0)), ticket=ticket, skeleton=skeleton)
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
            await writer.submit("boards/none", DeleteSubscriptions(["a"], must_exist=True))
        assert not writer._queues

    run(tmp_path, story)


def test_a_long_command_does_not_keep_the_service_from_ending(tmp_path: Path) -> None:
    """It is in the log, so the next start applies it."""
    many = 15_000
    objects = [(f"o{n}", float(n % 97), float(n % 89)) for n in range(many)]

    async def cut(writer: Writer) -> None:
        await writer.put("boards/b", CONFIG)
        waiting = asyncio.create_task(writer.submit("boards/b", upsert(*objects)))
        while not any(queue.running for queue in writer._queues.values()):
            await asyncio.sleep(0)
        await writer.close(0.0)
        assert not waiting.done()
        waiting.cancel()

    async def again(writer: Writer) -> None:
        board = writer.catalog.engine("boards/b")
        assert board is not None
        assert (board.seq, board.object_count) == (many, many)

    run(tmp_path, cut)
    run(tmp_path, again)


def test_what_was_read_for_a_board_that_is_made_anew_before_its_turn_is_refused(tmp_path: Path) -> None:
    """It waits behind a long command, the deletion and the making: it would mean something else to the new board."""

    async def story(writer: Writer) -> None:
        await writer.put("boards/b", CONFIG)
        board = writer.catalog.latest("boards/b")
        event = upsert(("a", 1.0, 2.0))
        long = asyncio.create_task(writer.submit("boards/b", many(BULK + 1)))
        while not writer._queue("boards/b").accepting.locked():
            await asyncio.sleep(0)
        waiting = [
            asyncio.create_task(one)
            for one in (
                writer.drop("boards/b"),
                writer.put("boards/b", BoardConfig(("z",), "y", ks=(2,))),
                writer.submit("boards/b", event, reader=board),
                writer.submit("boards/b", many(BULK + 1), reader=board),
                writer.ask("boards/b", lambda board: board.explain(event), board),
            )
        ]
        await asyncio.gather(long, *waiting[:2])
        for late in await asyncio.gather(*waiting[2:], return_exceptions=True):
            assert isinstance(late, Refused) and [fault.kind for fault in late.faults] == ["different"]
        anew = writer.catalog.engine("boards/b")
        assert anew is not None and anew is not board and anew.object_count == 0
        await writer.submit("boards/b", event, reader=anew)
        assert anew.object_count == 1

    run(tmp_path, story)


@pytest.fixture
def commits_on_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short commits are made on the loop, however slow the disk is at the moment."""
    monkeypatch.setattr("app.write_path.committing.SLOW_COMMIT", math.inf)


@pytest.mark.usefixtures("commits_on_loop")
def test_a_commit_waits_in_the_thread_while_that_is_busy(tmp_path: Path) -> None:
    """On the loop it would wait for the database's lock, and all reads with it."""

    async def story(writer: Writer) -> None:
        await writer.put("boards/a", CONFIG)
        threads: list[int] = []
        append = writer._log.append

        def noting(*args: Any, **more: Any) -> int:
            threads.append(threading.get_ident())
            return append(*args, **more)

        writer._log.append = noting  # type: ignore[method-assign]
        await writer.submit("boards/a", upsert(("p", 1.0, 2.0)))
        assert threads == [threading.get_ident()], "a short commit is made on the loop"
        go, began = threading.Event(), threading.Event()

        def hold() -> None:
            began.set()
            go.wait(60)

        pruning = asyncio.create_task(writer.committer._thread.run(hold))
        await asyncio.to_thread(began.wait, 60)
        write = asyncio.create_task(writer.submit("boards/a", upsert(("q", 1.0, 2.0))))
        for _ in range(50):
            await asyncio.sleep(0)
        assert not write.done() and len(threads) == 1, "the loop goes on, and the write waits"
        go.set()
        await write
        await pruning
        assert len(threads) == 2 and threads[1] != threading.get_ident()
        await writer.submit("boards/a", upsert(("r", 1.0, 2.0)))
        assert threads[2] == threading.get_ident()

    run(tmp_path, story)


def test_what_follows_a_command_is_done_although_nobody_waits_for_it(tmp_path: Path) -> None:
    async def story(writer: Writer) -> None:
        await writer.put("boards/b", CONFIG)
        done = list[int]()

        def then(plan: Any) -> None:
            done.append(plan.last_seq)

        waiting = [
            asyncio.create_task(writer.submit("boards/b", upsert(("a", 1.0, 2.0)), then=then)),
            asyncio.create_task(
                writer.submit_each("boards/b", [Submission(upsert((id, 1.0, 2.0)), then=then) for id in "bc"])
            ),
        ]
        await asyncio.sleep(0)
        for task in waiting:
            task.cancel()
        assert await asyncio.gather(*waiting, return_exceptions=True)
        await writer.submit("boards/b", upsert(("d", 1.0, 2.0)))
        assert done == [1, 2, 3]

    run(tmp_path, story)


@pytest.mark.usefixtures("commits_on_loop")
def test_what_is_gathered_is_one_commit_when_it_is_said(tmp_path: Path) -> None:
    async def story(writer: Writer) -> None:
        for name in "ab":
            await writer.put(f"boards/{name}", CONFIG)
        before = writer.last_lsn
        # What was accepted before goes with it.
        waiting = [asyncio.create_task(writer.submit("boards/a", upsert(("o", 1.0, 2.0))))]
        await asyncio.sleep(0)
        writer.committer.gather()
        waiting.append(asyncio.create_task(writer.submit("boards/b", upsert(("o", 1.0, 2.0)))))
        await asyncio.sleep(0)
        writer.committer.log_gathered()
        assert writer.last_lsn == before + 2
        writer.committer.log_gathered()
        assert len(await asyncio.gather(*waiting)) == 2
        writer.committer.gather()
        waiting = [asyncio.create_task(writer.submit(f"boards/{name}", upsert(("p", 1.0, 2.0)))) for name in "abba"]
        for _ in range(9):
            await asyncio.sleep(0)
        assert writer.last_lsn == before + 2
        writer.committer.log_gathered()
        assert writer.last_lsn == before + 6
        assert len(await asyncio.gather(*waiting)) == 4
        # Without it, at the end of the turn.
        await writer.submit("boards/a", upsert(("q", 1.0, 2.0)))

    run(tmp_path, story)


def test_a_group_with_more_behind_it_does_not_wait_for_kernel_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is executed in one that is free, and on the event loop while all are busy."""
    monkeypatch.setattr(applying, "OVERLAPPED", -1.0)
    monkeypatch.setattr(applying, "INLINE", 60.0)
    used = list[str]()
    slices = Applier._apply_in_slices

    async def in_slices(self: Applier, queue: Any, runner: Any) -> None:
        used.append("thread")
        await slices(self, queue, runner)

    monkeypatch.setattr(Applier, "_apply_in_slices", in_slices)

    async def write(writer: Writer) -> None:
        writer.committer.gather()
        writer.committer.expect_more()
        asked = asyncio.create_task(writer.submit("boards/a", upsert(("o", 1.0, 1.0))))
        await asyncio.sleep(0)
        writer.committer.log_gathered()
        await asyncio.wait_for(asked, 60)

    async def story(writer: Writer) -> None:
        await writer.put("boards/a", CONFIG)
        released, loop = threading.Event(), asyncio.get_running_loop()
        await write(writer)
        assert used == ["thread"]
        busy = [loop.run_in_executor(writer.applier.kernels, released.wait) for _ in range(COUNT)]
        await write(writer)
        assert used == ["thread"]
        released.set()
        await asyncio.gather(*busy)
        await write(writer)
        assert used == ["thread"] * 2

    run(tmp_path, story)


def test_commands_are_counted_once_lone_ones_some_together_and_all_before_metrics_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(writer: Writer) -> None:
        committer = writer.committer

        def counted() -> tuple[int, int, int]:
            """Commits, commands that were applied, and single changes."""
            text = committer._metrics.render().decode()
            found = {name: int(float(value)) for name, value in re.findall(r"^rankcast_(\S+) (\S+)$", text, re.M)}
            changes = [value for name, value in found.items() if name.startswith("changes_total")]
            return found["commit_seconds_count"], found["delivery_seconds_count"], sum(changes)

        async def gathered(*ids: str) -> None:
            committer.gather()
            waiting = asyncio.create_task(writer.submit("boards/a", upsert(*[(id, 1.0, 2.0) for id in ids])))
            await asyncio.sleep(0)
            committer.log_gathered()
            assert (await waiting).done
            committer.count_some()

        await writer.put("boards/a", CONFIG)
        await writer.submit("boards/a", upsert(("o", 1.0, 2.0)))
        assert counted() == counted() == (2, 2, 2)
        for lone in range(1, COUNTED_TOGETHER):
            await gathered("o")
            assert len(committer._uncounted) == lone
        await gathered("o")
        assert not committer._uncounted
        await gathered("o")
        await gathered("o", "p")
        assert not committer._uncounted
        await gathered("o")
        done = 2 + COUNTED_TOGETHER + 3
        assert counted() == counted() == (done, done, done + 1)
        # In the threads of commits and of long work.
        monkeypatch.setattr("app.write_path.committing.SLOW_COMMIT", -1.0)
        monkeypatch.setattr("app.write_path.applying.INLINE", -1.0)
        await writer.submit("boards/a", upsert(("o", 2.0, 2.0)))
        assert counted() == (done + 1, done + 1, done + 2)

    run(tmp_path, story)


def test_reading_metrics_of_a_writer_that_has_ended_begins_no_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(writer: Writer) -> None:
        await writer.put("boards/a", CONFIG)
        writer.committer.gather()
        waiting = asyncio.create_task(writer.submit("boards/a", upsert(("o", 1.0, 2.0))))
        await asyncio.sleep(0)
        writer.committer.log_gathered()
        assert (await waiting).done
        await writer.close()
        monkeypatch.setattr("app.write_path.commit_thread.CHECKPOINT", 0)
        assert b"rankcast_commit_seconds_count 2.0" in writer.committer._metrics.render()
        assert not writer.applier.tasks

    run(tmp_path, story)


def test_work_in_the_commit_thread_ends_although_nobody_waits_for_it(tmp_path: Path) -> None:
    async def story(writer: Writer) -> None:
        go = threading.Event()
        task = asyncio.create_task(writer.committer._thread.run(go.wait, 60))
        await asyncio.sleep(0)
        assert writer.committer._thread.busy
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        assert writer.committer._thread.busy
        go.set()
        await writer.committer._thread.run(lambda: None)
        assert not writer.committer._thread.busy

    run(tmp_path, story)


def test_the_write_ahead_log_is_moved_in_between_commits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.write_path.commit_thread.CHECKPOINT", 50_000)

    async def story(writer: Writer) -> None:
        threads: list[int] = []
        checkpoint = writer._log.checkpoint

        def noting() -> None:
            threads.append(threading.get_ident())
            checkpoint()

        writer._log.checkpoint = noting  # type: ignore[method-assign]
        await writer.put("boards/a", CONFIG)
        for n in range(200):
            await writer.submit("boards/a", upsert((f"o{n}", 1.0, 2.0)))
            while writer.committer._thread._checkpointing:
                await asyncio.sleep(0.001)
        assert threading.get_ident() not in threads
        assert len(threads) >= 2 * 20, "twice each time: beside commits, and without any"
        assert (tmp_path / "log.db-wal").stat().st_size < 4 * 50_000
        assert writer._log.last_lsn == 201

    run(tmp_path, story)


def test_a_checkpoint_that_fails_harms_no_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.write_path.commit_thread.CHECKPOINT", 0)
    failed = []

    def fail() -> None:
        failed.append(True)
        raise LogUnavailable("the disk is full")

    async def story(writer: Writer) -> None:
        writer._log.checkpoint = fail  # type: ignore[method-assign]
        for n in range(6):
            before = len(failed)
            await (writer.submit("boards/a", upsert((f"o{n}", 1.0, 2.0))) if n else writer.put("boards/a", CONFIG))
            assert not writer.committer._thread.due, "another checkpoint would be made beside this one"
            while writer.committer._thread._checkpointing:
                await asyncio.sleep(0.001)
            assert len(failed) > before and writer._log.last_lsn == n + 1

    run(tmp_path, story)
