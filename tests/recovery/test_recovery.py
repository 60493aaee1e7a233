"""Whatever happened before a crash, the service comes back as the whole log says.

From snapshots, images and the rest of the log, with the same answers to the same requests.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from app.errors import LogUnavailable
from app.write_path.idempotency import Replay, StillRunning, Ticket
from app.write_path.jobs import JobFailed
from app.write_path.writer import ConsistentCut, Failed, Skeleton
from indexes.boards import regions
from indexes.boards.commands import AddSubscriptions, Command, Configure, DeleteSubscriptions, SetSubscription
from indexes.boards.config import BoardConfig
from indexes.boards.state import state_of
from indexes.core.commands import Refused
from tests.recovery.commands import CONFIG, many, upsert
from tests.recovery.life import Life, Twin
from tests.recovery.machine import HASH, Machine, quiet
from tests.support.patience import PATIENCE
from tests.unit.boards.helpers import captured, edits, events, ids, pairs, same_columns

DAMAGE = b"PAR1"
KEYS = [f"key{n}" for n in range(6)]

windows = st.sampled_from([(1, 0), (2, 0), (5, 0), (1, 1), (2, 3)])
bulks = st.lists(st.tuples(ids, pairs, windows), min_size=1, max_size=9).map(
    lambda rows: AddSubscriptions(
        pa.array([key for key, *_ in rows]),
        regions.ranges(*zip(*(lr for _, lr, _ in rows), strict=True)),
        np.array([k for *_, (k, _) in rows], np.int32),
        {0: 30.0},
        skip=True,
        offset=np.array([offset for *_, (_, offset) in rows], np.int32),
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
    st.sampled_from(["boards/a", "boards/b"]),
    st.one_of(events, events, edits, bulks, configures, configs, st.none()),
    st.sampled_from([None, None, *KEYS]),
)


class Recovery(Machine):
    """Commands, snapshots, rebuilds, failures of the log and crashes in any order.

    Limits are so low that long commands are cut, packed and logged in parts, and that folds are cut.
    """

    LIMITS: ClassVar = {
        "app.write_path.committing.BULK": 4,
        "app.write_path.applying.SLICE": 1e-9,
        "formats.commands.PART": 3,
        "indexes.boards.subscriptions.BULK": 4,
        "indexes.core.pending_subscriptions.STRIDE": 16,
        "indexes.boards.plans.maintenance.FOLD": 2,
        "indexes.core.ids.MERGE_AT": 3,
    }
    KEYS: ClassVar = KEYS

    def __init__(self) -> None:
        super().__init__()
        self.twin = Twin()
        self.life = Life(self.path, self.twin, self.kept)
        assert self.life.start() == 0

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
        self.die(batch, turns, in_thread, in_slices)
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
            board, twin = catalog.engine(name), self.twin.boards[name]
            assert board is not None and catalog.latest(name) is board
            board.check()
            same_columns(state_of(captured(board)), state_of(captured(twin)))
            assert board.next_seq == twin.next_seq
            for sub in board.subscriptions(None, 10**6):
                asked = sub.region, sub.k, sub.offset
                assert board.top(*asked) == twin.top(*asked)
        for name, seq in self.twin.gone.items():
            assert catalog.entries[name].next_first_seq == seq

    async def write(self, one: Write) -> None:
        writer = self.life.writer

        def skeleton(job: Any) -> Skeleton:
            return Skeleton(200, {"seq": job.last_seq, "tile_count": getattr(job, "tile_count", 0)})

        async def ask(ticket: Ticket | None) -> Any:
            if one.what is None:
                return await writer.drop(one.name, ticket, skeleton)
            if isinstance(one.what, BoardConfig):
                return await writer.put(one.name, one.what, ticket, skeleton)
            return await writer.submit(one.name, one.what, ticket=ticket, skeleton=skeleton)

        await self.once(one.key, skeleton, ask)


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
    monkeypatch.setattr("app.write_path.committing.SLOW_COMMIT", -1.0)


def is_as_the_log_says(still: ConsistentCut, life: Life) -> None:
    """Whether a copy is what the rows of the log up to its own make."""
    twin = Twin()
    twin.rows = life.rows[: still.lsn]
    twin.follow()
    assert still.captured.keys() == twin.boards.keys()
    assert still.gone == twin.gone
    for name, found in still.captured.items():
        same_columns(state_of(found), state_of(captured(twin.boards[name])))


def test_a_copy_has_what_was_accepted_before_it_and_nothing_else(life: Life) -> None:
    async def story() -> None:
        writer = life.writer
        begun = [
            writer.put("boards/a", CONFIG),
            writer.put("boards/b", CONFIG),
            writer.submit("boards/a", upsert(("p", 1.0, 2.0), ("q", 1.0, 3.0))),
            writer.submit("boards/a", SetSubscription("s", regions.between(0.0, 2.0), 2)),
            writer.drop("boards/b"),
            writer.consistent_cut(),
            writer.submit("boards/a", DeleteSubscriptions(["s"])),
            writer.submit("boards/a", upsert(("r", 1.0, 2.0))),
            writer.put("boards/b", CONFIG),
            writer.consistent_cut(),
        ]
        results = await asyncio.gather(*begun)
        first, second = results[5], results[-1]
        assert (first.lsn, first.captured["boards/a"].seq, first.gone) == (5, 3, {"boards/b": 2})
        assert (second.lsn, second.captured["boards/a"].seq, second.gone) == (8, 5, {})
        for still in (first, second):
            is_as_the_log_says(still, life)

    life.run(story())


def test_a_copy_waits_for_what_is_still_being_applied(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.write_path.applying.SLICE", 1e-9)
    monkeypatch.setattr("app.write_path.applying.INLINE", -1.0)

    async def story() -> None:
        writer = life.writer
        await writer.put("boards/a", CONFIG)
        board = writer.catalog.engine("boards/a")
        assert board is not None
        long = asyncio.ensure_future(writer.submit("boards/a", many(50)))
        while board.seq == 0:
            await asyncio.sleep(0)
        assert board.seq < 50
        still = asyncio.ensure_future(writer.consistent_cut())
        after = asyncio.ensure_future(writer.submit("boards/a", many(50, 50)))
        assert (await still).captured["boards/a"].seq == 50
        await asyncio.gather(long, after)
        assert board.seq == 100
        is_as_the_log_says(still.result(), life)

    life.run(story())


@pytest.mark.parametrize("boards", [["boards/a"], ["boards/a", "boards/b"]])
def test_a_copy_waits_for_long_checks(life: Life, boards: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.write_path.committing.BULK", 4)
    monkeypatch.setattr("indexes.boards.objects.STRIDE", 2)

    async def story() -> None:
        writer = life.writer
        for name in ("boards/a", "boards/b"):
            await writer.put(name, CONFIG)
        long = [asyncio.ensure_future(writer.submit(name, many(9))) for name in boards]
        while not all(writer._queue(name).checking for name in boards):
            await asyncio.sleep(0)
        still = asyncio.ensure_future(writer.consistent_cut())
        await asyncio.sleep(0)
        short = [
            asyncio.ensure_future(writer.submit(name, upsert(("late", 0.0, 0.0)))) for name in ("boards/a", "boards/b")
        ]
        first, *others = [(await still).captured[name].seq for name in boards]
        # While the copy waited for the first, what came late had its turn at the other.
        assert first == 9 and all(seq in (9, 10) for seq in others)
        await asyncio.gather(*long, *short)
        is_as_the_log_says(still.result(), life)
        assert not any(queue.accepting.locked() for queue in writer._queues.values())

    life.run(story())


def test_a_copy_is_made_after_a_long_check_that_refuses(life: Life, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.write_path.committing.BULK", 4)
    monkeypatch.setattr("indexes.boards.objects.STRIDE", 2)

    async def story() -> None:
        writer = life.writer
        await writer.put("boards/a", CONFIG)
        wrong = many(9)
        wrong.op[8] = 2
        long = asyncio.ensure_future(writer.submit("boards/a", wrong))
        while not writer._queue("boards/a").checking:
            await asyncio.sleep(0)
        still = await writer.consistent_cut()
        with pytest.raises(Refused):
            await long
        assert still.captured["boards/a"].seq == 0
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
        assert go.wait(PATIENCE)
        return append(*given)

    async def story() -> None:
        writer = life.writer
        await writer.put("boards/a", CONFIG)
        await writer.submit("boards/a", upsert(("p", 1.0, 1.0)))
        before = await writer.consistent_cut(journal=["boards/a"])
        board = writer.catalog.engine("boards/a")
        assert board is not None
        monkeypatch.setattr(life.stores.log, "append", gated)
        first = asyncio.ensure_future(writer.submit("boards/a", upsert(("q", 2.0, 2.0))))
        await asyncio.to_thread(reached.wait, PATIENCE)
        second = asyncio.ensure_future(writer.submit("boards/a", DeleteSubscriptions(["p"])))
        still = asyncio.ensure_future(writer.consistent_cut())
        third = asyncio.ensure_future(writer.submit("boards/a", upsert(("r", 2.0, 2.0))))
        await asyncio.sleep(0)
        assert not still.done()
        life.broken = fails
        go.set()
        results = await asyncio.gather(first, second, still, third, return_exceptions=True)
        life.broken = False
        if fails:
            assert [type(result) for result in results] == [LogUnavailable] * 4
            assert writer.queued == 0
            now = await writer.consistent_cut()
            assert now.lsn == before.lsn == 2
            same_columns(state_of(now.captured["boards/a"]), state_of(before.captured["boards/a"]))
            assert board.next_seq == 2
        else:
            assert results[2].captured["boards/a"].seq == 2
            is_as_the_log_says(results[2], life)
        plan = await writer.submit("boards/a", upsert(("z", 2.0, 2.0)))
        assert plan.last_seq == (2 if fails else 4)
        is_as_the_log_says(await writer.consistent_cut(), life)

    life.run(story())


def test_an_answer_is_whole_before_a_snapshot_makes_up_for_its_row(tmp_path: Path) -> None:
    """What only applying tells cannot be worked out again from there on; killed before anybody was answered."""
    kept: dict[str, int] = {}
    life = Life(tmp_path, Twin(), kept, keep_snapshots=1)
    life.start()

    async def story() -> int:
        writer = life.writer
        await writer.put("boards/a", BoardConfig(("x",), "y", ks=(1, 2), algorithm="dense"))
        ticket = life.answers.claim("", "key", HASH)
        assert isinstance(ticket, Ticket)
        submitted = writer.submit(
            "boards/a",
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
        for name in ("boards/a", "boards/b"):
            await writer.put(name, CONFIG)
        board = writer.catalog.engine("boards/a")
        assert board is not None
        monkeypatch.setattr(board.painter, "run", None)
        together = await asyncio.gather(
            writer.submit("boards/a", upsert(("p", 1.0, 1.0))), writer.consistent_cut(), return_exceptions=True
        )
        assert [type(result) for result in together] == [Failed, Failed]
        cut = await writer.consistent_cut()
        assert cut.failed == ["boards/a"] and list(cut.captured) == ["boards/b"]
        assert writer.queued == 0
        await writer.submit("boards/b", upsert(("p", 1.0, 1.0)))

    life.run(story())


def test_what_a_failed_board_refused_is_not_there_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    twin = Twin()
    life = Life(tmp_path, twin, {})
    life.start()

    async def story() -> None:
        await life.writer.put("boards/a", CONFIG)
        await life.maintenance.snapshot(quiet)
        board = life.writer.catalog.engine("boards/a")
        assert board is not None
        monkeypatch.setattr(board.painter, "run", None)
        with pytest.raises(Failed):
            await life.writer.submit("boards/a", upsert(("p", 1.0, 1.0)))
        assert (await life.maintenance.snapshot(quiet))["failed"] == ["boards/a"]
        assert life.snapshots.behind(3) == {"boards/a": 1}

    life.run(story())
    life.crash()
    life = Life(tmp_path, twin, {})
    assert life.start() == 3
    board = life.catalog.engine("boards/a")
    assert board is not None and board.objects(None, 9) == []
    assert board.seq == 1, "the refused command has kept its seq"
    life.crash()


def test_a_log_that_no_good_snapshot_makes_up_for_is_refused(tmp_path: Path) -> None:
    life = Life(tmp_path, Twin(), {}, keep_snapshots=1)
    life.start()

    async def story() -> None:
        await life.writer.put("boards/a", CONFIG)
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
        await life.writer.put("boards/a", CONFIG)
        still = await life.writer.consistent_cut()
        await life.writer.submit("boards/a", upsert(("p", 1.0, 1.0)))
        wrong = state_of(still.captured["boards/a"])._replace(seq=7)
        life.snapshots.write(1, [("boards/a", wrong)], {}, [], iter(()))

    life.run(story())
    life.crash()
    life = Life(tmp_path, Twin(), {})
    with pytest.raises(
        LogUnavailable, match=r"row 2 of the log, .* of boards/a, does not apply: it ends at seq 1, but replay is at 8"
    ):
        life.start()
    life.crash()
