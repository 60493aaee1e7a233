"""Whatever happened before a crash, the service comes back as the whole log says: from snapshots, images and the rest
of the log, with the same answers to the same requests."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Awaitable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from app.idempotency import Answers, KeyReused, Replay, StillRunning, Ticket
from app.jobs import JobFailed
from app.maintenance import Maintenance
from app.metrics import Metrics
from app.recovery import recover
from app.settings import Settings
from app.storage import open_stores
from app.storage.catalog import Catalog
from app.storage.log import LogEntry, LogUnavailable
from app.storage.snapshots import Snapshots
from app.writer import Failed, Skeleton, Standstill, Writer
from formats.commands import MORE, decode
from formats.folder import Folder
from indexes.boards.board import Board
from indexes.boards.commands import (
    BoardConfig,
    Command,
    Configure,
    Create,
    Drop,
    Refused,
    SetSubscription,
    Subscribe,
    Unsubscribe,
)
from indexes.boards.state import state_of
from tests.app.test_writer import CONFIG, many, upsert
from tests.boards.test_upkeep import captured, edits, events, ids, ranges, same_columns

HASH = b"hash"
DAMAGE = b"PAR1"
KEYS = [f"key{n}" for n in range(6)]

bulks = st.lists(st.tuples(ids, ranges, st.sampled_from([1, 2, 5])), min_size=1, max_size=9).map(
    lambda rows: Subscribe(
        pa.array([key for key, *_ in rows]),
        np.array([lr[0] for _, lr, _ in rows]),
        np.array([lr[1] for _, lr, _ in rows]),
        np.array([k for *_, k in rows], np.int32),
        {0: 30.0},
        skip=True,
    )
)
configures = st.builds(
    Configure, st.sampled_from([None, (1, 2, 5), (1, 2), (1, 2, 5, 7)]), st.sampled_from([None, "sparse", "dense"])
)
configs = st.sampled_from(
    [
        BoardConfig(("x",), "y", "asc", (1, 2, 5), "dense", "range-tree"),
        BoardConfig(("x",), "y", "desc", (1, 2, 5), "dense", "kd-tree"),
        BoardConfig(("x",), "y", "desc", (1, 2, 5, 9), "sparse", "range-tree"),
    ]
)


@dataclass
class Write:
    """A request of a client: a command of a board, its making (a configuration) or its deletion (None)."""

    name: str
    what: Command | BoardConfig | None
    key: str | None


writes = st.builds(
    Write,
    st.sampled_from(["a", "b"]),
    st.one_of(events, events, edits, bulks, configures, configs, st.none()),
    st.sampled_from([None, None, *KEYS]),
)


class Twin:
    """What the log says, applied from its first row on by an engine alone."""

    def __init__(self) -> None:
        self.rows: list[LogEntry] = []
        self.boards: dict[str, Board] = {}
        self.gone: dict[str, int] = {}
        self._read = 0

    def follow(self) -> None:
        """Apply what has come."""
        parts: list[tuple[str, bytes]] = []
        for row in self.rows[self._read :]:
            parts.append((row.command, row.payload))
            if not row.command.endswith(MORE):
                self._apply(row.resource.removeprefix("boards/"), decode(parts), row.last_seq)
                parts.clear()
        assert not parts, "the log ends in the middle of a command"
        self._read = len(self.rows)

    def _apply(self, name: str, command: Command | Create | Drop, last_seq: int) -> None:
        if isinstance(command, Create):
            self.boards[name] = Board(command.config, self.gone.pop(name, 0))
            assert self.boards[name].seq == last_seq
        elif isinstance(command, Drop):
            assert self.boards[name].next_seq == last_seq
            self.gone[name] = last_seq + 1
            del self.boards[name]
        else:
            plan, _ = self.boards[name].apply(command)
            assert plan.last_seq == last_seq


class Life:
    """One process over a data directory, from its start to a crash."""

    def __init__(self, path: Path, twin: Twin, kept: dict[str, int], keep_snapshots: int = 2) -> None:
        self.stores = open_stores(path)
        self.catalog = Catalog()
        self.answers = Answers(find=self.stores.log.answer)
        self.writer = Writer(self.stores.log, self.catalog, self.answers, Metrics())
        self.snapshots = Snapshots(Folder.at(path), self.stores.directory.epoch)
        settings = Settings(data=path, keep_snapshots=keep_snapshots)
        self.maintenance = Maintenance(settings, self.stores, self.catalog, self.writer, self.snapshots, Metrics())
        self.broken = False
        self.runner = asyncio.Runner()
        self._append = self.stores.log.append
        self._twin = twin
        self._kept = kept
        self.stores.log.append = self._recorded  # type: ignore[method-assign]

    @property
    def rows(self) -> list[LogEntry]:
        """What was logged, from the first row on."""
        return self._twin.rows

    def _recorded(self, entries: Any, answers: Any = (), *more: Any) -> int:
        """Append to the log, and tell the twin once that is done."""
        if self.broken:
            raise LogUnavailable("the disk is full")
        lsn = self._append(entries, answers, *more)
        self._twin.rows += entries
        self._kept |= {answer.key: answer.lsn for answer in answers}
        return lsn

    def start(self) -> int:
        """Recover; returns the row that it began from."""
        return recover(self.snapshots, self.catalog, self.writer)

    def run(self, story: Awaitable[Any]) -> Any:
        async def whole() -> Any:
            return await story

        return self.runner.run(whole())

    def crash(self) -> None:
        """End without a word: nothing that has not been written is."""
        self.runner.close()
        for pool in (self.writer._committer, self.writer._kernels):
            pool.shutdown()
        self.stores.close()


def quiet(fraction: float, step: str, /) -> None:
    """Nobody follows the job."""


class Recovery(RuleBasedStateMachine):
    """Commands, snapshots, rebuilds, failures of the log and crashes in any order. Limits are so low that long commands
    are cut, packed and logged in parts, and that folds are cut."""

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp())
        self.patches = ExitStack()
        for name, value in {
            "app.writer.BULK": 4,
            "app.writer.SLICE": 1e-9,
            "formats.commands.PART": 3,
            "indexes.boards.subscribers.BULK": 4,
            "indexes.boards.subscribers.STRIDE": 16,
            "indexes.boards.upkeep.FOLD": 2,
            "indexes.ids.MERGE_AT": 3,
        }.items():
            self.patches.enter_context(patch(name, value))
        self.twin = Twin()
        self.kept: dict[str, int] = {}
        self.told: dict[str, dict[str, Any]] = {}
        self.life = Life(self.path, self.twin, self.kept)
        assert self.life.start() == 0

    def teardown(self) -> None:
        self.life.crash()
        self.patches.close()
        shutil.rmtree(self.path)

    @rule(
        batch=st.lists(
            st.one_of(writes, writes, writes, st.sampled_from(["snapshot", "rebuild", "verify"])), max_size=8
        ),
        in_thread=st.booleans(),
        in_slices=st.booleans(),
    )
    def many_at_once(self, batch: list[Any], in_thread: bool, in_slices: bool) -> None:
        """Requests that come together, and jobs between them."""
        with self.timing(in_thread, in_slices):
            results = self.life.run(self.play(batch))
        for result in results:
            if not isinstance(result, Refused | StillRunning | None):
                raise result

    @rule(batch=st.lists(st.one_of(writes, st.just("snapshot")), min_size=1, max_size=6), in_thread=st.booleans())
    def with_a_broken_log(self, batch: list[Any], in_thread: bool) -> None:
        """Requests while the log cannot be written: nothing changes."""
        rows = len(self.twin.rows)
        self.life.broken = True
        with self.timing(in_thread, False):
            results = self.life.run(self.play(batch))
        self.life.broken = False
        for result in results:
            if not isinstance(result, Refused | StillRunning | LogUnavailable | JobFailed | None):
                raise result
        assert len(self.twin.rows) == rows

    @rule(
        batch=st.lists(st.one_of(writes, writes, st.sampled_from(["snapshot", "rebuild"])), max_size=8),
        turns=st.integers(0, 60),
        in_thread=st.booleans(),
        in_slices=st.booleans(),
    )
    def crash(self, batch: list[Any], turns: int, in_thread: bool, in_slices: bool) -> None:
        """Crash some turns of the loop after these requests, and start again."""

        async def cut() -> None:
            playing = asyncio.ensure_future(self.play(batch))
            for _ in range(turns):
                await asyncio.sleep(0)
            playing.cancel()

        with self.timing(in_thread, in_slices):
            self.life.run(cut())
            self.life.crash()
        self.life = Life(self.path, self.twin, self.kept)
        log = self.life.stores.log
        usable = [lsn for lsn in self.good() if log.pruned_through <= lsn <= log.last_lsn]
        assert self.life.start() == max(usable, default=0)

    @rule()
    def damage_the_newest_snapshot(self) -> None:
        """One that is not needed. What is there depends on threads, so that this is no precondition."""
        if self.spare():
            next(self.tables(max(self.good()))).write_bytes(DAMAGE)

    @rule()
    def damage_the_newest_image(self) -> None:
        for path in sorted((self.path / "images").glob("*/*/*/slots.arrow"))[-1:]:
            # Written to in place it would change under the board that stands on it.
            path.unlink()
            path.write_bytes(DAMAGE)

    def good(self) -> list[int]:
        """The snapshots that nobody has damaged, newest first."""
        lsns = self.life.snapshots.lsns()
        return [lsn for lsn in lsns if all(path.read_bytes() != DAMAGE for path in self.tables(lsn))]

    def tables(self, lsn: int) -> Iterator[Path]:
        return (self.path / "snapshots" / str(lsn)).rglob("*.parquet")

    def spare(self) -> bool:
        """Whether the log reaches back to another start than the newest snapshot."""
        good, pruned = self.good(), self.life.stores.log.pruned_through
        return bool(good) and (pruned == 0 or (len(good) > 1 and good[1] >= pruned))

    @invariant()
    def all_is_as_the_log_says(self) -> None:
        self.twin.follow()
        catalog = self.life.catalog
        assert catalog.names() == sorted(self.twin.boards)
        for name in catalog.names():
            board, twin = catalog.board(name), self.twin.boards[name]
            assert board is not None and catalog.latest(name) is board
            board.check()
            same_columns(state_of(captured(board)), state_of(captured(twin)))
            assert board.next_seq == twin.next_seq
            for sub in board.subscriptions(None, 10**6):
                assert board.top(sub.l, sub.r, sub.k) == twin.top(sub.l, sub.r, sub.k)
        for name, seq in self.twin.gone.items():
            assert catalog.entries[name].next_first_seq == seq

    @invariant()
    def requests_are_answered_as_the_first_time(self) -> None:
        for key in KEYS:
            claimed = self.life.answers.claim("", key, HASH)
            if key not in self.kept:
                assert isinstance(claimed, Ticket)
                claimed.abandon()
                continue
            assert isinstance(claimed, Replay) and claimed.status == 200
            assert self.told.setdefault(key, claimed.answer) == claimed.answer
            with pytest.raises(KeyReused):
                self.life.answers.claim("", key, b"another")

    def timing(self, in_thread: bool, in_slices: bool) -> ExitStack:
        """Commit in the commit thread, apply in the kernel thread."""
        stack = ExitStack()
        stack.enter_context(patch("app.writer.SLOW_COMMIT", -1.0 if in_thread else 1e9))
        stack.enter_context(patch("app.writer.INLINE", -1.0 if in_slices else 1e9))
        return stack

    async def play(self, batch: list[Any]) -> list[Any]:
        """Begin all of it in this order; returns what was raised, None for what was done."""
        jobs = {
            "snapshot": lambda: self.life.maintenance.snapshot(quiet),
            "rebuild": lambda: self.life.maintenance.rebuild(quiet, None, "local"),
            "verify": lambda: self.life.maintenance.verify(quiet, None, "local"),
        }
        one_job = asyncio.Lock()

        async def job(kind: str) -> None:
            async with one_job:
                await jobs[kind]()

        begun = [asyncio.ensure_future(self.write(one) if isinstance(one, Write) else job(one)) for one in batch]
        return await asyncio.gather(*begun, return_exceptions=True)

    async def write(self, one: Write) -> None:
        writer, ticket = self.life.writer, None
        if one.key is not None:
            claimed = self.life.answers.claim("", one.key, HASH)
            if isinstance(claimed, Replay):
                return
            ticket = claimed

        def skeleton(job: Any) -> Skeleton:
            return Skeleton(200, {"seq": job.last_seq, "tile_count": job.tile_count})

        try:
            if one.what is None:
                job = await writer.drop(one.name, ticket, skeleton)
            elif isinstance(one.what, BoardConfig):
                job = await writer.put(one.name, one.what, ticket, skeleton)
            else:
                job = await writer.submit(one.name, one.what, ticket=ticket, skeleton=skeleton)
        except Exception:
            if ticket is not None:
                ticket.abandon()
            raise
        if ticket is not None:
            assert one.key is not None
            self.told[one.key] = {**skeleton(job).answer, "replayed": True}
            ticket.complete(200, skeleton(job).answer)


Recovery.TestCase.settings = settings(max_examples=40, stateful_step_count=12, deadline=None)
TestRecovery = Recovery.TestCase


@pytest.fixture
def life(tmp_path: Path) -> Iterator[Life]:
    """A process over an empty directory; `rows` is its log."""
    started = Life(tmp_path / "data", Twin(), {})
    started.start()
    yield started
    started.crash()


def in_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit in the commit thread."""
    monkeypatch.setattr("app.writer.SLOW_COMMIT", -1.0)


def is_as_the_log_says(still: Standstill, life: Life) -> None:
    """Whether a copy is what the rows of the log up to its own make."""
    twin = Twin()
    twin.rows = life.rows[: still.lsn]
    twin.follow()
    assert still.boards.keys() == twin.boards.keys()
    assert still.gone == twin.gone
    for name, found in still.boards.items():
        same_columns(state_of(found), state_of(captured(twin.boards[name])))


def test_a_copy_has_what_was_accepted_before_it_and_nothing_else(life: Life) -> None:
    async def story() -> None:
        writer = life.writer
        begun = [
            writer.put("a", CONFIG),
            writer.put("b", CONFIG),
            writer.submit("a", upsert(("p", 1.0, 2.0), ("q", 1.0, 3.0))),
            writer.submit("a", SetSubscription("s", 0.0, 2.0, 2)),
            writer.drop("b"),
            writer.stand_still(),
            writer.submit("a", Unsubscribe(["s"])),
            writer.submit("a", upsert(("r", 1.0, 2.0))),
            writer.put("b", CONFIG),
            writer.stand_still(),
        ]
        results = await asyncio.gather(*begun)
        first, second = results[5], results[-1]
        assert (first.lsn, first.boards["a"].seq, first.gone) == (5, 3, {"b": 2})
        assert (second.lsn, second.boards["a"].seq, second.gone) == (8, 5, {})
        for still in (first, second):
            is_as_the_log_says(still, life)

    life.run(story())


def test_a_copy_waits_for_what_is_still_being_applied(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.writer.SLICE", 1e-9)
    monkeypatch.setattr("app.writer.INLINE", -1.0)

    async def story() -> None:
        writer = life.writer
        await writer.put("a", CONFIG)
        board = writer.catalog.board("a")
        assert board is not None
        long = asyncio.ensure_future(writer.submit("a", many(50)))
        while board.seq == 0:
            await asyncio.sleep(0)
        assert board.seq < 50
        still = asyncio.ensure_future(writer.stand_still())
        after = asyncio.ensure_future(writer.submit("a", many(50, 50)))
        assert (await still).boards["a"].seq == 50
        await asyncio.gather(long, after)
        assert board.seq == 100
        is_as_the_log_says(still.result(), life)

    life.run(story())


@pytest.mark.parametrize("boards", [["a"], ["a", "b"]])
def test_a_copy_waits_for_long_checks(life: Life, boards: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.writer.BULK", 4)
    monkeypatch.setattr("indexes.boards.catalogue.STRIDE", 2)

    async def story() -> None:
        writer = life.writer
        for name in ("a", "b"):
            await writer.put(name, CONFIG)
        long = [asyncio.ensure_future(writer.submit(name, many(9))) for name in boards]
        while not all(writer._lane(name).checking for name in boards):
            await asyncio.sleep(0)
        still = asyncio.ensure_future(writer.stand_still())
        await asyncio.sleep(0)
        short = [asyncio.ensure_future(writer.submit(name, upsert(("late", 0.0, 0.0)))) for name in ("a", "b")]
        for name in boards:
            assert (await still).boards[name].seq == 9
        await asyncio.gather(*long, *short)
        is_as_the_log_says(still.result(), life)
        assert not any(lane.accepting.locked() for lane in writer._lanes.values())

    life.run(story())


def test_a_copy_is_made_after_a_long_check_that_refuses(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.writer.BULK", 4)
    monkeypatch.setattr("indexes.boards.catalogue.STRIDE", 2)

    async def story() -> None:
        writer = life.writer
        await writer.put("a", CONFIG)
        wrong = many(9)
        wrong.op[8] = 2
        long = asyncio.ensure_future(writer.submit("a", wrong))
        while not writer._lane("a").checking:
            await asyncio.sleep(0)
        still = await writer.stand_still()
        with pytest.raises(Refused):
            await long
        assert still.boards["a"].seq == 0
        is_as_the_log_says(still, life)

    life.run(story())


@pytest.mark.parametrize("fails", [False, True])
def test_a_copy_comes_after_a_commit_in_flight(life: Life, fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """When that commit fails, what was accepted after it is taken back, and so is the copy."""
    in_thread(monkeypatch)
    reached, go = threading.Event(), threading.Event()
    append = life.stores.log.append

    def gated(*given: Any) -> int:
        reached.set()
        assert go.wait(20.0)
        return append(*given)

    async def story() -> None:
        writer = life.writer
        await writer.put("a", CONFIG)
        await writer.submit("a", upsert(("p", 1.0, 1.0)))
        before = await writer.stand_still(journal=["a"])
        board = writer.catalog.board("a")
        assert board is not None
        monkeypatch.setattr(life.stores.log, "append", gated)
        first = asyncio.ensure_future(writer.submit("a", upsert(("q", 2.0, 2.0))))
        await asyncio.to_thread(reached.wait, 20.0)
        second = asyncio.ensure_future(writer.submit("a", Unsubscribe(["p"])))
        still = asyncio.ensure_future(writer.stand_still())
        third = asyncio.ensure_future(writer.submit("a", upsert(("r", 2.0, 2.0))))
        await asyncio.sleep(0)
        assert not still.done()
        life.broken = fails
        go.set()
        results = await asyncio.gather(first, second, still, third, return_exceptions=True)
        life.broken = False
        if fails:
            assert [type(result) for result in results] == [LogUnavailable] * 4
            assert writer.queued == 0
            now = await writer.stand_still()
            assert now.lsn == before.lsn == 2
            same_columns(state_of(now.boards["a"]), state_of(before.boards["a"]))
            assert board.next_seq == 2
        else:
            assert results[2].boards["a"].seq == 2
            is_as_the_log_says(results[2], life)
        plan = await writer.submit("a", upsert(("z", 2.0, 2.0)))
        assert plan.last_seq == (2 if fails else 4)
        is_as_the_log_says(await writer.stand_still(), life)

    life.run(story())


def test_an_answer_is_whole_before_a_snapshot_makes_up_for_its_row(tmp_path: Path) -> None:
    """What only applying tells cannot be worked out again from there on; killed before anybody was answered."""
    kept: dict[str, int] = {}
    life = Life(tmp_path, Twin(), kept, keep_snapshots=1)
    life.start()

    async def story() -> int:
        writer = life.writer
        await writer.put("a", BoardConfig(("x",), "y", ks=(1, 2), algorithm="dense"))
        ticket = life.answers.claim("", "key", HASH)
        assert isinstance(ticket, Ticket)
        submitted = writer.submit(
            "a",
            upsert(("p", 1.0, 1.0), ("q", 2.0, 2.0)),
            ticket=ticket,
            skeleton=lambda plan: Skeleton(200, {"seq": plan.last_seq, "tile_count": plan.tile_count}),
        )
        # In one commit with it, so that no later one can have told.
        plan, _ = await asyncio.gather(submitted, life.maintenance.snapshot(quiet))
        tiles: int = plan.tile_count
        return tiles

    tiles = life.run(story())
    life.crash()
    life = Life(tmp_path, Twin(), kept)
    assert tiles > 0 and life.start() == 2 == life.stores.log.pruned_through
    replay = life.answers.claim("", "key", HASH)
    assert isinstance(replay, Replay) and replay.answer == {"seq": 2, "tile_count": tiles, "replayed": True}
    life.crash()


def test_nothing_is_copied_of_a_board_that_failed(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        writer = life.writer
        for name in ("a", "b"):
            await writer.put(name, CONFIG)
        board = writer.catalog.board("a")
        assert board is not None
        monkeypatch.setattr(board.painter, "run", None)
        together = await asyncio.gather(
            writer.submit("a", upsert(("p", 1.0, 1.0))), writer.stand_still(), return_exceptions=True
        )
        assert [type(result) for result in together] == [Failed, Failed]
        with pytest.raises(Failed, match="'a'"):
            await writer.stand_still()
        assert writer.queued == 0
        await writer.submit("b", upsert(("p", 1.0, 1.0)))

    life.run(story())


def test_a_failed_board_is_whole_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    twin = Twin()
    life = Life(tmp_path, twin, {})
    life.start()

    async def story() -> None:
        await life.writer.put("a", CONFIG)
        await life.maintenance.snapshot(quiet)
        board = life.writer.catalog.board("a")
        assert board is not None
        monkeypatch.setattr(board.painter, "run", None)
        with pytest.raises(Failed):
            await life.writer.submit("a", upsert(("p", 1.0, 1.0)))
        with pytest.raises(JobFailed, match="the state cannot be copied: board 'a' failed"):
            await life.maintenance.snapshot(quiet)

    life.run(story())
    life.crash()
    life = Life(tmp_path, twin, {})
    assert life.start() == 1
    board = life.catalog.board("a")
    assert board is not None and [thing.id for thing in board.objects(None, 9)] == ["p"]
    life.crash()


def test_a_log_that_no_good_snapshot_makes_up_for_is_refused(tmp_path: Path) -> None:
    life = Life(tmp_path, Twin(), {}, keep_snapshots=1)
    life.start()

    async def story() -> None:
        await life.writer.put("a", CONFIG)
        await life.maintenance.snapshot(quiet)

    life.run(story())
    assert life.stores.log.pruned_through == 1
    life.crash()
    next((tmp_path / "snapshots").rglob("objects.parquet")).unlink()
    life = Life(tmp_path, Twin(), {})
    with pytest.raises(LogUnavailable, match="rows 1 to 1 of the log are needed"):
        life.start()
    life.crash()


def test_a_snapshot_that_the_log_contradicts_is_noticed(tmp_path: Path) -> None:
    """As when the snapshot is of a board that stood elsewhere: the rows after it do not fit."""
    life = Life(tmp_path, Twin(), {})
    life.start()

    async def story() -> None:
        await life.writer.put("a", CONFIG)
        still = await life.writer.stand_still()
        await life.writer.submit("a", upsert(("p", 1.0, 1.0)))
        wrong = state_of(still.boards["a"])._replace(seq=7)
        life.snapshots.write(1, [("a", wrong)], {}, [], iter(()))

    life.run(story())
    life.crash()
    life = Life(tmp_path, Twin(), {})
    with pytest.raises(LogUnavailable, match="row 2 of the log ends at seq 1 of a, but replay is at 8"):
        life.start()
    life.crash()
