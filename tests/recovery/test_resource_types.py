"""Kinds of resource side by side: the house carries a second one end to end, and neither notices the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st

from app.errors import LogUnavailable
from app.resources.base import ResourceTypes, UnknownResourceType
from app.resources.boards import BoardType
from app.storage.rows import LogEntry
from app.write_path.idempotency import Replay, Ticket
from app.write_path.writer import Failed, Skeleton
from indexes.core.commands import Create, Drop, Fault, Refused
from tests.recovery.commands import CONFIG, upsert
from tests.recovery.counters import Add, Config, Counter, CounterType, State, Told
from tests.recovery.kept import HouseOf, KeptMachine, Truth, lives, names, request_keys
from tests.recovery.life import Life, Twin
from tests.recovery.machine import HASH, quiet

THINGS = Config("things")


class House(HouseOf[Counter, Config]):
    """A process over a data directory whose kinds are boards and counters."""

    KIND = CounterType


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., House]]:
    """`make()` starts a process over the directory; the one before has crashed."""
    yield from lives(House, tmp_path / "data")


def counted(job: Any) -> Skeleton:
    """An answer that says what a counter came to."""
    return Skeleton(200, {"seq": job.last_seq, "total": job.response_fields().get("total", 0)})


def gather(*begun: Awaitable[Any]) -> Awaitable[list[Any]]:
    return asyncio.gather(*begun, return_exceptions=True)


def test_resources_of_one_name_and_two_kinds_stand_side_by_side(make: Callable[..., House]) -> None:
    async def story(life: House) -> None:
        await life.resources.put("a", THINGS)
        await life.writer.put("boards/a", CONFIG)
        sizes: list[int] = []
        commit = life.writer.committer._commit
        life.writer.committer._commit = lambda group: (sizes.append(len(group)), commit(group))[1]  # type: ignore[func-returns-value,method-assign]
        await asyncio.gather(
            life.resources.submit("a", Add([3, 4])),
            life.writer.submit("boards/a", upsert(("p", 1.0, 2.0))),
            life.resources.submit("a", Add([-5])),
        )
        assert sizes == [3], "they are one commit"

    def is_right(life: House) -> None:
        assert (life.engine("a").seq, life.engine("a").total) == (3, 2)
        assert life.catalog.engine("boards/a").object_count == 1
        assert life.catalog.names() == ["boards/a", "counters/a"]
        assert life.resources.names() == ["a"]

    life = make()
    life.run(story(life))
    assert [(row.resource, row.first_seq, row.last_seq, row.command) for row in life.rows] == [
        ("counters/a", 0, 0, "create"),
        ("boards/a", 0, 0, "create"),
        ("counters/a", 1, 2, "add"),
        ("boards/a", 1, 1, "events"),
        ("counters/a", 3, 3, "add"),
    ]
    is_right(life)
    life = make()
    is_right(life)
    life.run(life.maintenance.snapshot(quiet))
    life = make()
    is_right(life)


def test_a_check_meets_what_was_accepted_before_it(make: Callable[..., House]) -> None:
    async def story() -> None:
        counters = life.resources
        results = await gather(
            counters.submit("a", Add([1])),
            counters.put("a", THINGS),
            counters.submit("a", Add([1, -2])),
            counters.submit("a", Add([5, 1])),
            counters.submit("a", Add([-6])),
            counters.put("a", Config("sheep")),
            counters.put("a", Config("things", 7)),
            counters.submit("a", Add([8])),
            counters.drop("a"),
            counters.drop("a"),
            counters.put("a", THINGS),
        )
        refused = {i: result.faults[0] for i, result in enumerate(results) if isinstance(result, Refused)}
        missing = Fault("counter", "there is no counter 'a'", "missing")
        assert refused == {
            0: missing,
            2: Fault("amount", "would make it -1", "invalid", 1),
            5: Fault("what", "the counter stands with 'things'", "different"),
            7: Fault("amount", "would make it 8", "invalid", 0),
            9: missing,
        }
        assert results[-1].last_seq == 6, "it goes on where the deleted one ended"

    life = make()
    life.run(story())
    assert (life.engine("a").seq, life.engine("a").total) == (6, 0)


def test_a_log_that_cannot_be_written_changes_nothing(make: Callable[..., House]) -> None:
    async def story() -> None:
        counters = life.resources
        await counters.put("a", THINGS)
        await counters.submit("a", Add([5]))
        life.broken = True
        results = await gather(
            counters.submit("a", Add([1, 1])),
            counters.put("a", Config("things", 9)),
            counters.submit("a", Add([2])),
            life.writer.put("boards/a", CONFIG),
            counters.put("b", THINGS),
            counters.drop("a"),
            counters.put("a", THINGS),
        )
        assert [type(result) for result in results] == [LogUnavailable] * 7
        life.broken = False
        counter = life.engine("a")
        assert (counter.total, counter.latest, counter.next_seq) == (5, 5, 2)
        assert counter.latest_config == THINGS and life.catalog.names() == ["counters/a"]
        job = await counters.submit("a", Add([2]))
        assert (job.last_seq, counter.total) == (2, 7)

    life = make()
    life.run(story())
    assert make().engine("a").total == 7


def test_a_kind_hears_of_its_own_by_their_names(make: Callable[..., House]) -> None:
    life = make()
    told: list[Any] = []
    life.kind.on_slice = lambda name, engine, part: told.append((name, engine.total, part))
    life.kind.on_done = lambda name, job: told.append((name, type(job).__name__))
    life.kind.on_drop = lambda name, seq: told.append((name, seq))

    async def story() -> None:
        await life.resources.put("a", THINGS)
        await life.writer.put("boards/a", CONFIG)
        await life.resources.submit("a", Add([3, 4]))
        await life.writer.consistent_cut()
        await life.writer.note("keys")
        await life.resources.drop("a")

    life.run(story())
    assert told == [
        ("a", "CreateJob"),
        ("a", 3, Told(1, 3)),
        ("a", 7, Told(2, 7)),
        ("a", "AddPlan"),
        ("a", "CapturePlan"),
        ("a", 3),
    ]
    text = life.metrics.render().decode()
    assert 'rankcast_changes_total{command="Add",resource="counters/a"} 2.0' in text
    assert 'rankcast_tiles_total{resource="counters/a"} 0.0' in text


def test_short_jobs_are_one_pass_where_the_kind_can(make: Callable[..., House]) -> None:
    async def story() -> None:
        await life.resources.put("a", THINGS)
        begun = [life.resources.submit("a", Add([n]), keep=1) for n in range(1, 11)]
        jobs = await asyncio.gather(*begun)
        assert [job.kept for job in jobs] == [[n * (n + 1) // 2] for n in range(1, 11)]

    life = make()
    life.run(story())
    assert life.kind.groups == 1 and life.engine("a").total == 55


def test_a_long_command_is_checked_logged_and_applied_in_pieces(
    make: Callable[..., House], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.write_path.committing.BULK", 4)
    monkeypatch.setattr("app.write_path.applying.INLINE", -1.0)
    monkeypatch.setattr("formats.commands.PART", 3)

    async def story() -> None:
        await life.resources.put("a", THINGS)
        seen = set()
        long = asyncio.ensure_future(life.resources.submit("a", Add([1] * 10)))
        while not (life.writer._queue("counters/a").checking or long.done()):
            await asyncio.sleep(0)
        short = asyncio.ensure_future(life.resources.submit("a", Add([100])))
        while not long.done():
            seen.add(await life.resources.between("a", lambda: life.engine("a").total))
            await asyncio.sleep(0)
        await short
        assert len(seen) > 3 and life.engine("a").total == 110
        wrong = await gather(life.resources.submit("a", Add([1, 1, 1, 1, -200])))
        assert isinstance(wrong[0], Refused)

    life = make()
    life.run(story())
    assert [(row.command, row.last_seq) for row in life.rows[1:]] == [
        ("add.arrow+", 3),
        ("add.arrow+", 6),
        ("add.arrow+", 9),
        ("add.arrow", 10),
        ("add", 11),
    ]
    assert make().engine("a").total == 110


def test_a_copy_has_what_was_accepted_before_it_and_nothing_else(make: Callable[..., House]) -> None:
    async def story() -> None:
        counters = life.resources
        results = await gather(
            counters.put("a", THINGS),
            counters.put("gone", THINGS),
            life.writer.put("boards/a", CONFIG),
            counters.drop("gone"),
            counters.submit("a", Add([1, 2])),
            life.writer.consistent_cut(journal=["counters/a"]),
            counters.submit("a", Add([4])),
        )
        still = results[5]
        assert (still.lsn, still.gone) == (5, {"counters/gone": 2})
        assert still.captured["counters/a"] == State(THINGS, 2, 3)
        assert still.captured["boards/a"].seq == 0
        assert life.engine("a").notes == []

    life = make()
    life.run(story())


def test_a_retry_gets_the_first_answer_also_after_a_crash(make: Callable[..., House]) -> None:
    """What only applying tells, the total, is worked out again from the log."""

    async def story() -> None:
        await life.resources.put("a", THINGS)
        for key, amount in (("whole", 3), ("crashed", 4)):
            ticket = life.answers.claim("", key, HASH)
            assert isinstance(ticket, Ticket)
            job = await life.resources.submit("a", Add([amount, 1]), ticket=ticket, skeleton=counted)
            if key == "whole":
                ticket.complete(200, counted(job).answer)

    life = make()
    life.run(story())
    for _ in range(2):
        life = make()
        for key, answer in (("whole", {"seq": 2, "total": 4}), ("crashed", {"seq": 4, "total": 9})):
            replay = life.answers.claim("", key, HASH)
            assert isinstance(replay, Replay) and replay.answer == {**answer, "replayed": True}


def test_a_counter_that_fails_leaves_all_others_alone(
    make: Callable[..., House], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        for name in ("a", "b"):
            await life.resources.put(name, THINGS)
        await life.writer.put("boards/a", CONFIG)
        monkeypatch.setattr(life.engine("a"), "total", None)
        for _ in range(2):
            failed, *others = await gather(
                life.resources.submit("a", Add([1])),
                life.resources.submit("b", Add([1])),
                life.writer.submit("boards/a", upsert(("p", 1.0, 1.0))),
            )
            assert isinstance(failed, Failed) and str(failed).startswith("counter 'a' failed")
            assert not any(isinstance(other, Exception) for other in others)
        detail = await life.maintenance.snapshot(quiet)
        assert detail["failed"] == ["counters/a"]

    life = make()
    life.run(story())
    about = life.snapshots.folder(life.snapshots.lsns()[-1]).manifest()
    assert about["resources"].keys() == {"boards/a", "counters/b"} and about["behind"].keys() == {"counters/a"}
    life = make()
    # What was answered as failed is never applied.
    assert (life.engine("a").total, life.engine("b").total) == (0, 2)


def test_maintenance_passes_over_what_needs_none(make: Callable[..., House]) -> None:
    async def story() -> None:
        await life.resources.put("a", THINGS)
        await life.writer.put("boards/a", CONFIG)
        await life.writer.submit("boards/a", upsert(("p", 1.0, 1.0)))
        assert life.maintenance.churned(0.5, 0) == []
        detail = await life.maintenance.rebuild(quiet, None, "local")
        assert (detail["rows"], detail["passed_over"]) == (1, ["counters/a"])
        detail = await life.maintenance.verify(quiet, None, "local")
        assert detail["differences"] == []

    life = make()
    life.run(story())
    about = life.snapshots.folder(life.snapshots.lsns()[0]).manifest()
    assert about["resources"]["counters/a"] == {"seq": 0, "config": THINGS._asdict()}
    assert "counters/a/total.json" in about["files"]


@pytest.mark.parametrize("snapshot", [False, True])
@pytest.mark.parametrize("gone", [False, True])
def test_a_version_that_knows_fewer_kinds_says_so(make: Callable[..., House], snapshot: bool, gone: bool) -> None:
    """It neither starts without them nor takes anything for damaged."""

    async def story() -> None:
        await life.writer.put("boards/a", CONFIG)
        await life.resources.put("a", THINGS)
        if gone:
            await life.resources.drop("a")
        if snapshot:
            await life.maintenance.snapshot(quiet)

    life = make(keep_snapshots=1)
    life.run(story())
    path = Path(life.stores.directory.path)
    life.crash()
    older = Life(path, Twin(), {})
    where = rf"the snapshot {path}/snapshots/\d" if snapshot else "row 2 of the log"
    with pytest.raises(
        UnknownResourceType, match=rf"{where}: 'counters/a' is of a kind that this version does not know"
    ):
        older.start()
    assert older.snapshots.lsns() == life.snapshots.lsns()
    older.crash()
    life.__init__(path)  # type: ignore[misc]
    life.start()
    assert life.catalog.names() == (["boards/a"] if gone else ["boards/a", "counters/a"])


def test_a_name_without_a_kind_is_no_resource() -> None:
    kinds = ResourceTypes(BoardType(), CounterType())
    assert kinds.split("counters/a:b") == (list(kinds)[1], "a:b")
    for name in ("a", "counters", "counters/", "maps/a", "/a", ""):
        with pytest.raises(UnknownResourceType):
            kinds.split(name)


class Sum(Truth[Any]):
    """What the rows of the log come to, without an engine: the seq and the total of each counter."""

    def __init__(self) -> None:
        super().__init__(Counter, CounterType().decode)

    def apply(self, row: LogEntry, command: Any) -> None:
        seq, total = self.there.pop(row.resource, (-1, 0))
        if isinstance(command, Create):
            assert row.first_seq == self.gone.pop(row.resource, 0)
        elif isinstance(command, Drop):
            assert row.first_seq == seq + 1
            self.gone[row.resource] = row.last_seq + 1
            return
        elif isinstance(command, Add):
            total += sum(command.amounts)
            assert total >= 0 and row.last_seq == seq + len(command)
        self.there[row.resource] = row.last_seq, total


amounts = st.lists(st.integers(-5, 9), min_size=0, max_size=7).map(Add)
configs = st.builds(Config, st.sampled_from(["things", "things", "sheep"]), st.sampled_from([20, 10**9]))
writes = st.tuples(names, st.one_of(amounts, amounts, amounts, configs, st.none()), request_keys)


class Carried(KeptMachine):
    """Commands, snapshots, failures of the log and crashes in any order, with limits so low that all is cut."""

    LIMITS: ClassVar = {
        "app.write_path.committing.BULK": 3,
        "app.write_path.applying.SLICE": 1e-9,
        "formats.commands.PART": 2,
    }
    HOUSE = House
    CONFIG = Config
    BATCH: ClassVar = st.lists(st.one_of(writes, st.just("snapshot")), max_size=8)

    def begin(self) -> Truth[Any]:
        return Sum()

    @staticmethod
    def answer(job: Any) -> Skeleton:
        return counted(job)

    def agree(self, engine: Counter, truth: tuple[int, int]) -> None:
        seq, total = truth
        assert (engine.seq, engine.total, engine.latest, engine.next_seq) == (seq, total, total, seq + 1)
        assert engine.config == engine.latest_config


Carried.TestCase.settings = settings(max_examples=20, stateful_step_count=10, deadline=None)
TestCarried = Carried.TestCase
