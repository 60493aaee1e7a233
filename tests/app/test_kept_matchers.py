"""Whatever happened before a crash, matchers come back as the whole log says: from snapshots, images and the rest of
the log, with the same answers to the same requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from app.idempotency import StillRunning, Ticket
from app.jobs import JobFailed
from app.kinds import Kinds
from app.kinds.boards import BoardKind
from app.kinds.matchers import MatcherKind
from app.resources import Resources
from app.storage.log import LogEntry, LogUnavailable
from app.writer import Skeleton
from formats.commands import MORE
from formats.matcher_commands import decode
from indexes.commands import Create, Drop, Fault, Refused
from indexes.matchers.commands import (
    AddSubscriptions,
    ChangeSubscription,
    DeleteSubscriptions,
    Match,
    SetSubscription,
)
from indexes.matchers.engine import MatcherEngine
from indexes.matchers.model import MatcherConfig, Subscriptions
from tests.app.machine import Machine, quiet
from tests.app.test_recovery import Life, Twin

RELAXED = MatcherConfig(("age", "credit"), "relaxed")
EXACT = MatcherConfig(("age", "credit"), "exact")
KEYS = ["key0", "key1", "key2"]
EVENTS = np.repeat(np.array([[1.0, 1.0], [2.5, 4.0], [0.0, 3.0]]), 2, axis=1)


class House(Life):
    """A process over a data directory with boards and matchers."""

    def __init__(self, path: Path, twin: Twin | None = None, kept: dict[str, int] | None = None, **more: Any) -> None:
        self.kind = MatcherKind()
        kinds = Kinds(BoardKind(), self.kind)
        super().__init__(path, twin or Twin(), {} if kept is None else kept, kinds, **more)
        self.matchers: Resources[MatcherEngine, MatcherConfig] = Resources(self.kind, self.catalog, self.writer)

    def matcher(self, name: str) -> MatcherEngine:
        found = self.matchers.get(name)
        assert found is not None
        return found


class Truth:
    """What the rows of the log come to, applied from the first one on by engines alone."""

    def __init__(self) -> None:
        self.matchers: dict[str, MatcherEngine] = {}
        self.gone: dict[str, int] = {}
        self._read = 0

    def follow(self, rows: list[LogEntry]) -> None:
        """Apply what has come."""
        parts: list[tuple[str, bytes]] = []
        for row in rows[self._read :]:
            parts.append((row.command, row.payload))
            if row.command.endswith(MORE):
                continue
            command, name = decode(parts), row.resource
            parts.clear()
            if isinstance(command, Create):
                self.matchers[name] = MatcherEngine(command.config, self.gone.pop(name, 0))
            elif isinstance(command, Drop):
                self.gone[name] = row.last_seq + 1
                del self.matchers[name]
            else:
                assert self.matchers[name].apply(command)[0].last_seq == row.last_seq
        assert not parts, "the log ends in the middle of a command"
        self._read = len(rows)


def answered(job: Any) -> Skeleton:
    """An answer with the winners, where there are any."""
    return Skeleton(200, {"seq": job.last_seq, "results": job.told().get("results", [])})


def some(values: list[tuple[int, int, int]]) -> Subscriptions:
    """Subscriptions of a relaxed matcher to be from these (left end, right end, weight) in both dimensions."""
    lo, length, weight = np.array(values, float).T
    return Subscriptions(
        np.column_stack([lo, np.where(weight > 3, np.inf, lo)]),
        np.column_stack([lo + length, np.where(weight > 3, -np.inf, lo + 2)]),
        np.column_stack([weight, np.where(weight > 3, 0.0, 1.0)]),
    )


numbers = st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 5))
ids = st.sampled_from([f"s{n}" for n in range(9)])
adding = st.lists(st.tuples(ids, numbers), min_size=1, max_size=8).map(
    lambda rows: AddSubscriptions(pa.array([key for key, _ in rows]), some([n for _, n in rows]), {0: 30.0}, True)
)
commands = st.one_of(
    adding,
    adding,
    st.builds(SetSubscription, ids, numbers.map(lambda one: some([one])), st.sampled_from([None, 9.0])),
    st.builds(ChangeSubscription, ids, st.just({"age": (0.0, 3.0)}), st.just({"age": 0.5})),
    st.builds(DeleteSubscriptions, st.lists(ids, max_size=5)),
    st.builds(Match, st.just(EVENTS), st.integers(1, 4), st.just(False), st.just({0: b"{}"})),
)
writes = st.tuples(
    st.sampled_from(["a", "b"]),
    st.one_of(commands, commands, commands, st.just(RELAXED), st.just(EXACT), st.none()),
    st.sampled_from([None, None, *KEYS]),
)
jobs = st.sampled_from(["snapshot", "rebuild", "verify"])


class Carried(Machine):
    """Commands, jobs, failures of the log and crashes in any order, with limits so low that all is cut."""

    LIMITS: ClassVar = {
        "app.writer.BULK": 3,
        "app.writer.SLICE": 1e-9,
        "formats.commands.PART": 2,
        "indexes.ids.MERGE_AT": 2,
        "indexes.matchers.dynamic.TAIL": 2,
        "indexes.matchers.dynamic.GROWTH": 2,
        "indexes.matchers.dynamic.AT_ONCE": 4,
        "indexes.matchers.blocks.TAIL": 2,
        "indexes.matchers.blocks.GROWTH": 2,
        "indexes.matchers.blocks.AT_ONCE": 4,
        "indexes.matchers.engine.BULK": 3,
        "indexes.matchers.upkeep.FOLD": 2,
        "indexes.matchers.verify.EVENTS": 8,
    }
    KEYS: ClassVar = KEYS
    life: House

    def __init__(self) -> None:
        super().__init__()
        self.log = Twin()
        self.truth = Truth()
        self.life = House(self.path, self.log, self.kept)
        self.life.start()
        self.life.run(self.life.matchers.put("a", RELAXED))

    @rule(
        batch=st.lists(st.one_of(writes, writes, writes, jobs), max_size=8),
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
        batch=st.lists(st.one_of(writes, writes, jobs), max_size=8),
        turns=st.integers(0, 60),
        in_thread=st.booleans(),
        in_slices=st.booleans(),
        damaged=st.booleans(),
    )
    def crash(self, batch: list[Any], turns: int, in_thread: bool, in_slices: bool, damaged: bool) -> None:
        self.die(batch, turns, in_thread, in_slices)
        if damaged:
            for image in sorted((self.path / "images").glob("*/*/*/sample.arrow"))[-1:]:
                image.unlink()
                image.write_bytes(b"ARROW1")
        self.life = House(self.path, self.log, self.kept)
        assert self.life.start() == max(self.life.snapshots.lsns(), default=0)

    @invariant()
    def all_is_as_the_log_says(self) -> None:
        self.truth.follow(self.log.rows)
        catalog = self.life.catalog
        assert catalog.names() == sorted(self.truth.matchers)
        for name, truth in self.truth.matchers.items():
            matcher = catalog.engine(name)
            assert matcher is catalog.latest(name)
            matcher.check()
            assert (matcher.config, matcher.seq, matcher.next_seq) == (truth.config, truth.seq, truth.next_seq)
            assert matcher.ttl == truth.ttl
            assert matcher.subscriptions(None, 100) == truth.subscriptions(None, 100)
            pairs = zip(matcher.match(EVENTS, 4), truth.match(EVENTS, 4), strict=True)
            assert all(one.winners == other.winners for one, other in pairs)
        for name, seq in self.truth.gone.items():
            assert catalog.entries[name].next_first_seq == seq

    async def write(self, one: tuple[str, Any, str | None]) -> None:
        name, what, key = one
        matchers = self.life.matchers

        async def ask(ticket: Ticket | None) -> Any:
            if what is None:
                return await matchers.drop(name, ticket, answered)
            if isinstance(what, MatcherConfig):
                return await matchers.put(name, what, ticket, answered)
            command = what if matchers.latest(name).config.relaxed else _exact(what)
            return await matchers.submit(name, command, ticket=ticket, skeleton=answered)

        await self.once(key, answered, ask)


def _exact(command: Any) -> Any:
    """A command for relaxed mode as matchers in exact mode take it."""

    def fit(subscriptions: Subscriptions) -> Subscriptions:
        lo, hi, scores = subscriptions
        absent = lo > hi
        return Subscriptions(np.where(absent, -np.inf, lo), np.where(absent, np.inf, hi), scores[:, :1])

    match command:
        case AddSubscriptions():
            return AddSubscriptions(command.ids, fit(command.subscriptions), command.ttl, command.skip)
        case SetSubscription():
            return SetSubscription(command.id, fit(command.subscription), command.ttl)
        case ChangeSubscription():
            return ChangeSubscription(command.id, command.intervals, score=2.0)
    return command


Carried.TestCase.settings = settings(max_examples=25, stateful_step_count=10, deadline=None)
TestCarried = Carried.TestCase


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


def many(n: int, start: int = 0) -> AddSubscriptions:
    rng = np.random.default_rng(start)
    lo = rng.random((n, 2)) * 4
    keys = [f"s{i}" for i in range(start, start + n)]
    return AddSubscriptions(pa.array(keys), Subscriptions(lo, lo + rng.random((n, 2)), rng.random((n, 2))))


def test_what_a_matcher_counts_and_tells_has_its_name(make: Callable[..., House]) -> None:
    life = make()
    heard: list[Any] = []
    life.kind.on_slice = lambda name, engine, part: heard.append((name, engine.seq, part.last_seq))
    life.kind.on_edit = lambda name, plan: heard.append((name, list(plan.lifetimes())))
    life.kind.on_drop = lambda name, seq: heard.append((name, seq))

    async def story() -> None:
        await life.matchers.put("ads", RELAXED)
        await life.matchers.submit("ads", AddSubscriptions(pa.array(["s0"]), some([(0, 3, 1)]), {0: 2.0}))
        life.matcher("ads").watch("s0")
        await life.matchers.submit("ads", Match(EVENTS))
        asked = await life.matchers.ask("ads", lambda engine: engine.ask(Match(EVENTS, 1)))
        assert (asked.count, asked.last_seq, len(asked.results)) == (0, 4, 3)
        await life.matchers.drop("ads")

    life.run(story())
    assert heard == [("ads", [("s0", 2.0)]), ("ads", 4, 4), ("ads", 5)]
    text = life.metrics.render().decode()
    assert 'rankcast_changes_total{command="Match",resource="matchers/ads"} 3.0' in text
    assert [row.command for row in life.rows] == ["create", "add", "match", "drop"]


def test_another_configuration_is_refused(make: Callable[..., House]) -> None:
    life = make()

    async def story() -> None:
        await life.matchers.put("ads", RELAXED)
        assert (await life.matchers.put("ads", RELAXED)).count == 0
        with pytest.raises(Refused) as refused:
            await life.matchers.put("ads", EXACT)
        assert refused.value.faults == [Fault("mode", "the matcher stands with 'relaxed'", "different")]

    life.run(story())


@pytest.mark.parametrize("image", ["whole", "damaged", "of another version", "none"])
def test_a_rebuilt_matcher_comes_back(make: Callable[..., House], image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    life = make()

    async def story() -> dict[str, Any]:
        await life.matchers.put("ads", RELAXED)
        await life.matchers.submit("ads", many(900))
        await life.matchers.submit("ads", DeleteSubscriptions([f"s{n}" for n in range(0, 900, 2)]))
        detail = await life.maintenance.rebuild(quiet, None, "local")
        await life.matchers.submit("ads", many(30, 900))
        return detail

    assert life.run(story())["rows"] == 450
    assert life.matcher("ads").matcher.high == 480, "rows of the gone are free"
    before = life.matcher("ads").match(EVENTS)
    (folder,) = (life.stores.directory.path / "images").glob("*/*/*")
    if image == "damaged":
        (folder / "blocks.arrow").unlink()
    elif image == "of another version":
        monkeypatch.setattr("formats.parts.LAYOUT", "another")
    elif image == "none":
        (folder / "manifest.json").unlink()
    life = make()
    life.matcher("ads").check()
    assert [one.winners for one in life.matcher("ads").match(EVENTS)] == [one.winners for one in before]


def test_a_rebuild_goes_on_beside_changes(make: Callable[..., House], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexes.matchers.upkeep.FOLD", 3)
    life = make()

    async def story() -> None:
        await life.matchers.put("ads", RELAXED)
        await life.matchers.submit("ads", many(300))
        rebuild = asyncio.ensure_future(life.maintenance.rebuild(quiet, None, "local"))
        n = 300
        while not rebuild.done():
            await life.matchers.submit("ads", many(2, n))
            await life.matchers.submit("ads", DeleteSubscriptions([f"s{n}", f"s{n - 300}"]))
            await life.matchers.submit("ads", ChangeSubscription(f"s{n - 200}", {"age": (0.0, 9.0)}))
            n += 2
            await asyncio.sleep(0.001)
        await rebuild

    life.run(story())
    life.matcher("ads").check()
    truth = Truth()
    truth.follow(life.rows)
    other = truth.matchers["matchers/ads"]
    assert life.matcher("ads").subscriptions(None, 10**4) == other.subscriptions(None, 10**4)
    assert [o.winners for o in life.matcher("ads").match(EVENTS, 50)] == [o.winners for o in other.match(EVENTS, 50)]


def test_spark_leaves_verifying_matchers_to_the_service(make: Callable[..., House]) -> None:
    life = make()

    async def story() -> None:
        await life.matchers.put("ads", RELAXED)
        await life.matchers.submit("ads", many(30))
        assert (await life.maintenance.verify(quiet, None, "spark"))["compared"] == 30

    life.run(story())


def test_verifying_finds_what_is_wrong(make: Callable[..., House]) -> None:
    life = make()

    async def story() -> None:
        await life.matchers.put("ads", RELAXED)
        await life.matchers.submit("ads", many(300))
        detail = await life.maintenance.verify(quiet, None, "local")
        assert detail["compared"] == 256 and not detail["differences"]
        life.matcher("ads").matcher._rec[7, 4:] = 50.0
        with pytest.raises(JobFailed) as failed:
            await life.maintenance.verify(quiet, None, "local")
        first = failed.value.detail["differences"][0]
        assert (first["resource"], first["kind"]) == ("matchers/ads", "event")
        assert first["expected"][0].startswith("s7 "), first

    life.run(story())
