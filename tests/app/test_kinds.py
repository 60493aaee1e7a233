"""Kinds of resource side by side: the house carries a second one end to end, and neither notices the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from app.idempotency import Replay, StillRunning, Ticket
from app.jobs import JobFailed
from app.kinds import Kinds, UnknownKind
from app.kinds.boards import BoardKind
from app.resources import Resources
from app.storage.log import LogEntry, LogUnavailable
from app.writer import Failed, Skeleton
from formats.commands import MORE
from indexes.commands import Create, Drop, Fault, Refused
from tests.app.counters import Add, Config, Counter, CounterKind, State, Told
from tests.app.machine import HASH, Machine, quiet
from tests.app.test_recovery import Life, Twin
from tests.app.test_writer import CONFIG, upsert

THINGS = Config("things")
KEYS = ["key0", "key1", "key2"]


class House(Life):
    """A process over a data directory whose kinds are boards and counters."""

    def __init__(self, path: Path, twin: Twin | None = None, kept: dict[str, int] | None = None, **more: Any) -> None:
        self.counter_kind = CounterKind()
        super().__init__(
            path, twin or Twin(), {} if kept is None else kept, Kinds(BoardKind(), self.counter_kind), **more
        )
        self.counters: Resources[Counter, Config] = Resources(self.counter_kind, self.catalog, self.writer)

    def counter(self, name: str) -> Counter:
        found = self.counters.get(name)
        assert found is not None
        return found


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., House]]:
    """`make()` starts a process over the directory; the one before has crashed."""
    lives: list[House] = []

    def begin(**more: Any) -> House:
        if lives:
            lives.pop().crash()
        lives.append(House(tmp_path / "data", **more))
        lives[-1].start()
        return lives[-1]

    yield begin
    for life in lives:
        life.crash()


def counted(job: Any) -> Skeleton:
    """An answer that says what a counter came to."""
    return Skeleton(200, {"seq": job.last_seq, "total": job.told().get("total", 0)})


def gather(*begun: Awaitable[Any]) -> Awaitable[list[Any]]:
    return asyncio.gather(*begun, return_exceptions=True)


def test_resources_of_one_name_and_two_kinds_stand_side_by_side(make: Callable[..., House]) -> None:
    async def story(life: House) -> None:
        await life.counters.put("a", THINGS)
        await life.writer.put("boards/a", CONFIG)
        sizes: list[int] = []
        commit = life.writer._commit
        life.writer._commit = lambda group: (sizes.append(len(group)), commit(group))[1]  # type: ignore[func-returns-value,method-assign]
        await asyncio.gather(
            life.counters.submit("a", Add([3, 4])),
            life.writer.submit("boards/a", upsert(("p", 1.0, 2.0))),
            life.counters.submit("a", Add([-5])),
        )
        assert sizes == [3], "they are one commit"

    def is_right(life: House) -> None:
        assert (life.counter("a").seq, life.counter("a").total) == (3, 2)
        assert life.catalog.engine("boards/a").object_count == 1
        assert life.catalog.names() == ["boards/a", "counters/a"]
        assert life.counters.names() == ["a"]

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
        counters = life.counters
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
    assert (life.counter("a").seq, life.counter("a").total) == (6, 0)


def test_a_log_that_cannot_be_written_changes_nothing(make: Callable[..., House]) -> None:
    async def story() -> None:
        counters = life.counters
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
        counter = life.counter("a")
        assert (counter.total, counter.latest, counter.next_seq) == (5, 5, 2)
        assert counter.latest_config == THINGS and life.catalog.names() == ["counters/a"]
        job = await counters.submit("a", Add([2]))
        assert (job.last_seq, counter.total) == (2, 7)

    life = make()
    life.run(story())
    assert make().counter("a").total == 7


def test_a_kind_hears_of_its_own_by_their_names(make: Callable[..., House]) -> None:
    life, told = make(), []
    life.counter_kind.on_slice = lambda name, engine, part: told.append((name, engine.total, part))
    life.counter_kind.on_done = lambda name, job: told.append((name, type(job).__name__))
    life.counter_kind.on_drop = lambda name, seq: told.append((name, seq))

    async def story() -> None:
        await life.counters.put("a", THINGS)
        await life.writer.put("boards/a", CONFIG)
        await life.counters.submit("a", Add([3, 4]))
        await life.writer.stand_still()
        await life.writer.note("keys")
        await life.counters.drop("a")

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
        await life.counters.put("a", THINGS)
        begun = [life.counters.submit("a", Add([n]), keep=1) for n in range(1, 11)]
        jobs = await asyncio.gather(*begun)
        assert [job.kept for job in jobs] == [[n * (n + 1) // 2] for n in range(1, 11)]

    life = make()
    life.run(story())
    assert life.counter_kind.groups == 1 and life.counter("a").total == 55


def test_a_long_command_is_checked_logged_and_applied_in_pieces(
    make: Callable[..., House], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.writer.BULK", 4)
    monkeypatch.setattr("app.writer.INLINE", -1.0)
    monkeypatch.setattr("formats.commands.PART", 3)

    async def story() -> None:
        await life.counters.put("a", THINGS)
        seen = set()
        long = asyncio.ensure_future(life.counters.submit("a", Add([1] * 10)))
        while not (life.writer._lane("counters/a").checking or long.done()):
            await asyncio.sleep(0)
        short = asyncio.ensure_future(life.counters.submit("a", Add([100])))
        while not long.done():
            seen.add(await life.counters.between("a", lambda: life.counter("a").total))
            await asyncio.sleep(0)
        await short
        assert len(seen) > 3 and life.counter("a").total == 110
        wrong = await gather(life.counters.submit("a", Add([1, 1, 1, 1, -200])))
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
    assert make().counter("a").total == 110


def test_a_copy_has_what_was_accepted_before_it_and_nothing_else(make: Callable[..., House]) -> None:
    async def story() -> None:
        counters = life.counters
        results = await gather(
            counters.put("a", THINGS),
            counters.put("gone", THINGS),
            life.writer.put("boards/a", CONFIG),
            counters.drop("gone"),
            counters.submit("a", Add([1, 2])),
            life.writer.stand_still(journal=["counters/a"]),
            counters.submit("a", Add([4])),
        )
        still = results[5]
        assert (still.lsn, still.gone) == (5, {"counters/gone": 2})
        assert still.captured["counters/a"] == State(THINGS, 2, 3)
        assert still.captured["boards/a"].seq == 0
        assert life.counter("a").notes == []

    life = make()
    life.run(story())


def test_a_retry_gets_the_first_answer_also_after_a_crash(make: Callable[..., House]) -> None:
    """What only applying tells, the total, is worked out again from the log."""

    async def story() -> None:
        await life.counters.put("a", THINGS)
        for key, amount in (("whole", 3), ("crashed", 4)):
            ticket = life.answers.claim("", key, HASH)
            assert isinstance(ticket, Ticket)
            job = await life.counters.submit("a", Add([amount, 1]), ticket=ticket, skeleton=counted)
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
            await life.counters.put(name, THINGS)
        await life.writer.put("boards/a", CONFIG)
        monkeypatch.setattr(life.counter("a"), "total", None)
        for _ in range(2):
            failed, *others = await gather(
                life.counters.submit("a", Add([1])),
                life.counters.submit("b", Add([1])),
                life.writer.submit("boards/a", upsert(("p", 1.0, 1.0))),
            )
            assert isinstance(failed, Failed) and str(failed).startswith("counter 'a' failed")
            assert not any(isinstance(other, Exception) for other in others)
        with pytest.raises(JobFailed, match="counter 'a' failed"):
            await life.maintenance.snapshot(quiet)

    life = make()
    life.run(story())
    life = make()
    assert (life.counter("a").total, life.counter("b").total) == (1, 2)


def test_maintenance_passes_over_what_needs_none(make: Callable[..., House]) -> None:
    async def story() -> None:
        await life.counters.put("a", THINGS)
        await life.writer.put("boards/a", CONFIG)
        await life.writer.submit("boards/a", upsert(("p", 1.0, 1.0)))
        assert life.maintenance.worn(0.5, 0) == []
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
        await life.counters.put("a", THINGS)
        if gone:
            await life.counters.drop("a")
        if snapshot:
            await life.maintenance.snapshot(quiet)

    life = make(keep_snapshots=1)
    life.run(story())
    path = Path(life.stores.directory.path)
    life.crash()
    older = Life(path, Twin(), {})
    where = rf"the snapshot {path}/snapshots/\d" if snapshot else "row 2 of the log"
    with pytest.raises(UnknownKind, match=rf"{where}: 'counters/a' is of a kind that this version does not know"):
        older.start()
    assert older.snapshots.lsns() == life.snapshots.lsns()
    older.crash()
    life.__init__(path)  # type: ignore[misc]
    life.start()
    assert life.catalog.names() == (["boards/a"] if gone else ["boards/a", "counters/a"])


def test_a_name_without_a_kind_is_no_resource() -> None:
    kinds = Kinds(BoardKind(), CounterKind())
    assert kinds.split("counters/a:b") == (list(kinds)[1], "a:b")
    for name in ("a", "counters", "counters/", "maps/a", "/a", ""):
        with pytest.raises(UnknownKind):
            kinds.split(name)


class Sum:
    """What the rows of the log come to, without an engine."""

    def __init__(self) -> None:
        self.counters: dict[str, tuple[int, int]] = {}
        self.gone: dict[str, int] = {}
        self.totals: dict[int, int] = {}
        """By row, what its command made of its counter."""
        self._kind = CounterKind()
        self._read = 0

    def follow(self, rows: list[LogEntry]) -> None:
        """Take in what has come."""
        parts: list[tuple[str, bytes]] = []
        for lsn, row in enumerate(rows[self._read :], self._read + 1):
            parts.append((row.command, row.payload))
            if row.command.endswith(MORE):
                continue
            command = self._kind.decode(parts)
            parts.clear()
            seq, total = self.counters.pop(row.resource, (-1, 0))
            if isinstance(command, Create):
                assert row.first_seq == self.gone.pop(row.resource, 0)
            elif isinstance(command, Drop):
                assert row.first_seq == seq + 1
                self.gone[row.resource] = row.last_seq + 1
                continue
            elif isinstance(command, Add):
                total += sum(command.amounts)
                assert total >= 0 and row.last_seq == seq + len(command)
            self.counters[row.resource] = row.last_seq, total
            self.totals[lsn] = total
        assert not parts, "the log ends in the middle of a command"
        self._read = len(rows)


amounts = st.lists(st.integers(-5, 9), min_size=0, max_size=7).map(Add)
configs = st.builds(Config, st.sampled_from(["things", "things", "sheep"]), st.sampled_from([20, 10**9]))
writes = st.tuples(
    st.sampled_from(["a", "b"]),
    st.one_of(amounts, amounts, amounts, configs, st.none()),
    st.sampled_from([None, None, *KEYS]),
)


class Carried(Machine):
    """Commands, snapshots, failures of the log and crashes in any order, with limits so low that all is cut."""

    LIMITS: ClassVar = {"app.writer.BULK": 3, "app.writer.SLICE": 1e-9, "formats.commands.PART": 2}
    KEYS: ClassVar = KEYS
    life: House

    def __init__(self) -> None:
        super().__init__()
        self.log = Twin()
        self.truth = Sum()
        self.life = House(self.path, self.log, self.kept)
        self.life.start()

    @rule(
        batch=st.lists(st.one_of(writes, writes, st.just("snapshot")), max_size=8),
        in_thread=st.booleans(),
        in_slices=st.booleans(),
        broken=st.sampled_from([False, False, True]),
    )
    def many_at_once(self, batch: list[Any], in_thread: bool, in_slices: bool, broken: bool) -> None:
        rows, self.life.broken = len(self.log.rows), broken
        with self.timing(in_thread, in_slices):
            results = self.life.run(self.play(batch))
        self.life.broken = False
        good = (Refused, StillRunning, LogUnavailable, JobFailed) if broken else (Refused, StillRunning)
        for result in results:
            if result is not None and not isinstance(result, good):
                raise result
        assert not broken or len(self.log.rows) == rows

    @rule(
        batch=st.lists(st.one_of(writes, writes, st.just("snapshot")), max_size=8),
        turns=st.integers(0, 40),
        in_thread=st.booleans(),
        in_slices=st.booleans(),
    )
    def crash(self, batch: list[Any], turns: int, in_thread: bool, in_slices: bool) -> None:
        self.die(batch, turns, in_thread, in_slices)
        self.life = House(self.path, self.log, self.kept)
        assert self.life.start() == max(self.life.snapshots.lsns(), default=0)

    @invariant()
    def all_is_as_the_log_says(self) -> None:
        self.truth.follow(self.log.rows)
        catalog = self.life.catalog
        assert catalog.names() == sorted(self.truth.counters)
        for name, (seq, total) in self.truth.counters.items():
            counter = catalog.engine(name)
            assert counter is catalog.latest(name)
            assert (counter.seq, counter.total, counter.latest, counter.next_seq) == (seq, total, total, seq + 1)
            assert counter.config == counter.latest_config
        for name, seq in self.truth.gone.items():
            assert catalog.entries[name].next_first_seq == seq

    async def write(self, one: tuple[str, Add | Config | None, str | None]) -> None:
        name, what, key = one
        counters = self.life.counters

        async def ask(ticket: Ticket | None) -> Any:
            if what is None:
                return await counters.drop(name, ticket, counted)
            if isinstance(what, Config):
                return await counters.put(name, what, ticket, counted)
            return await counters.submit(name, what, ticket=ticket, skeleton=counted)

        await self.once(key, counted, ask)


Carried.TestCase.settings = settings(max_examples=20, stateful_step_count=10, deadline=None)
TestCarried = Carried.TestCase
