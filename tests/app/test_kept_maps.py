"""Whatever happened before a crash, maps come back as the whole log says: from snapshots, images and the rest of the
log, with the same answers to the same requests."""

from __future__ import annotations

import asyncio
import math
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
from app.kinds.maps import MapKind
from app.resources import Resources
from app.storage.log import LogEntry, LogUnavailable
from app.writer import Skeleton
from formats.commands import MORE
from formats.map_commands import decode
from indexes.commands import Create, Drop, Fault, Refused
from indexes.maps.attributes import Attribute
from indexes.maps.commands import (
    AddQueries,
    ChangeQuery,
    DeleteObjects,
    DeleteQueries,
    MoveQueries,
    PutObjects,
    SetQuery,
)
from indexes.maps.engine import MapEngine
from indexes.maps.model import MapConfig, Score, Skyline, Top
from indexes.maps.verify import verify
from tests.app.machine import Machine, quiet
from tests.app.test_recovery import Life, Twin

ATTRIBUTES = (Attribute("price"), Attribute("rating", True, (0.0, 5.0)))
PLANE = MapConfig(ATTRIBUTES, (0.0, 0.0, 4.0, 4.0))
BLOCKS = MapConfig(ATTRIBUTES, (0.0, 0.0, 4.0, 4.0), "manhattan")
KEYS = ["key0", "key1", "key2"]
NEAR = Score("weighted_sum", (("distance", 1.0),))
BALANCED = Score("weighted_sum", (("price", 0.5), ("rating", 1.0), ("distance", 1.0)))


class House(Life):
    """A process over a data directory with boards and maps."""

    def __init__(self, path: Path, twin: Twin | None = None, kept: dict[str, int] | None = None, **more: Any) -> None:
        self.kind = MapKind()
        kinds = Kinds(BoardKind(), self.kind)
        super().__init__(path, twin or Twin(), {} if kept is None else kept, kinds, **more)
        self.maps: Resources[MapEngine, MapConfig] = Resources(self.kind, self.catalog, self.writer)

    def map(self, name: str) -> MapEngine:
        found = self.maps.get(name)
        assert found is not None
        return found


class Truth:
    """What the rows of the log come to, applied from the first one on by engines alone."""

    def __init__(self) -> None:
        self.maps: dict[str, MapEngine] = {}
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
                self.maps[name] = MapEngine(command.config, self.gone.pop(name, 0))
            elif isinstance(command, Drop):
                self.gone[name] = row.last_seq + 1
                del self.maps[name]
            else:
                assert self.maps[name].apply(command)[0].last_seq == row.last_seq
        assert not parts, "the log ends in the middle of a command"
        self._read = len(rows)


def answered(job: Any) -> Skeleton:
    """An answer with what applying tells of a single object."""
    told = job.told()
    return Skeleton(200, {"seq": job.last_seq, "created": told.get("created"), "values": told.get("values")})


def put(rows: list[tuple[str, tuple[float, float], tuple[float, float]]], skip: bool = True) -> PutObjects:
    ids = pa.array([key for key, *_ in rows], pa.string())
    points, values = (np.array([row[j] for row in rows], float).reshape(-1, 2) for j in (1, 2))
    return PutObjects(ids, points, values, {0: b'{"a":1}'}, skip)


grid = st.integers(0, 4).map(float)
spots = st.tuples(grid, grid)
ids = st.sampled_from([f"o{n}" for n in range(9)])
keys = st.sampled_from([f"q{n}" for n in range(4)])
loose = st.one_of(spots, spots, st.just((math.nan, math.nan)))
putting = st.lists(st.tuples(ids, loose, st.tuples(grid, st.one_of(grid, st.just(math.nan)))), min_size=1, max_size=8)
questions = st.sampled_from([Skyline(), Top(2, NEAR), Top(3, BALANCED, 2, True)])
adding = st.lists(st.tuples(keys, questions, spots), min_size=1, max_size=5).map(
    lambda rows: AddQueries(
        pa.array([row[0] for row in rows]),
        [row[1] for row in rows],
        np.array([row[2] for row in rows]),
        {0: 30.0},
        True,
    )
)
moving = st.lists(st.tuples(keys, spots), min_size=1, max_size=5).map(
    lambda rows: MoveQueries([row[0] for row in rows], np.array([row[1] for row in rows]), True)
)
commands = st.one_of(
    putting.map(put),
    putting.map(put),
    st.builds(DeleteObjects, st.lists(ids, max_size=5)),
    adding,
    st.builds(SetQuery, keys, questions, spots, st.sampled_from([None, 9.0])),
    st.builds(ChangeQuery, keys, spots, ttl=st.sampled_from([None, 4.0])),
    moving,
    st.builds(DeleteQueries, st.lists(keys, max_size=3)),
)
writes = st.tuples(
    st.sampled_from(["a", "b"]),
    st.one_of(commands, commands, commands, commands, st.just(PLANE), st.just(BLOCKS), st.none()),
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
        "indexes.maps.plans.AT_ONCE": 2,
        "indexes.maps.plans.PACKED_FROM": 6,
        "indexes.maps.plans.FEW": 1,
        "indexes.maps.plans.FOLD_FROM": 4,
        "indexes.maps.presence.BULK": 5,
        "indexes.maps.accept.BULK": 5,
        "indexes.maps.engine.BULK": 3,
        "indexes.maps.query_plans.AT_ONCE": 2,
        "indexes.maps.upkeep.FOLD": 2,
        "indexes.maps.verify.SAMPLE": 4,
    }
    KEYS: ClassVar = KEYS
    life: House

    def __init__(self) -> None:
        super().__init__()
        self.log = Twin()
        self.truth = Truth()
        self.life = House(self.path, self.log, self.kept)
        self.life.start()
        self.life.run(self.life.maps.put("a", PLANE))

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
            for image in sorted((self.path / "images").glob("*/*/*/objects.arrow"))[-1:]:
                image.unlink()
                image.write_bytes(b"ARROW1")
        self.life = House(self.path, self.log, self.kept)
        assert self.life.start() == max(self.life.snapshots.lsns(), default=0)

    @invariant()
    def all_is_as_the_log_says(self) -> None:
        self.truth.follow(self.log.rows)
        catalog = self.life.catalog
        assert catalog.names() == sorted(self.truth.maps)
        for name, truth in self.truth.maps.items():
            engine = catalog.engine(name)
            assert engine is catalog.latest(name)
            engine.check()
            assert engine.standing.live is not None, "queries are held once all is in"
            assert (engine.config, engine.seq, engine.next_seq) == (truth.config, truth.seq, truth.next_seq)
            assert engine.table.next_created == truth.table.next_created
            assert_same(engine, truth)
        for name, seq in self.truth.gone.items():
            assert catalog.entries[name].next_first_seq == seq

    async def write(self, one: tuple[str, Any, str | None]) -> None:
        name, what, key = one
        maps = self.life.maps

        async def ask(ticket: Ticket | None) -> Any:
            if what is None:
                return await maps.drop(name, ticket, answered)
            if isinstance(what, MapConfig):
                return await maps.put(name, what, ticket, answered)
            return await maps.submit(name, what, ticket=ticket, skeleton=answered)

        await self.once(key, answered, ask)


def assert_same(engine: MapEngine, truth: MapEngine) -> None:
    """The same objects and queries, with the same answers; zones may be others, and both are right."""
    assert engine.ttl == truth.ttl
    assert engine.objects(None, 10**4) == truth.objects(None, 10**4)
    views = engine.queries(None, 10**4)
    assert views == truth.queries(None, 10**4)
    for view in views:
        mine, theirs = (each.query(view.id, True).answer for each in (engine, truth))
        n = getattr(mine, "members", None)
        assert n == getattr(theirs, "members", None)
        if n is None:
            assert set(mine.rows.ids) == set(theirs.rows.ids)
        else:
            assert mine.score[:n] == pytest.approx(theirs.score[:n], rel=1e-9)


Carried.TestCase.settings = settings(max_examples=12, stateful_step_count=10, deadline=None)
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


def many(n: int, start: int = 0) -> PutObjects:
    rng = np.random.default_rng(start)
    keys = [f"o{i}" for i in range(start, start + n)]
    return PutObjects(pa.array(keys), rng.random((n, 2)) * 4, rng.random((n, 2)) * 5, {0: b"1"})


def asking(n: int) -> AddQueries:
    some = [Skyline(), Top(3, BALANCED, 2), Top(2, NEAR)]
    rng = np.random.default_rng(n)
    return AddQueries(pa.array([f"q{i}" for i in range(n)]), [some[i % 3] for i in range(n)], rng.random((n, 2)) * 4)


def test_what_a_map_counts_and_tells_has_its_name(make: Callable[..., House]) -> None:
    life = make()
    heard: list[Any] = []
    life.kind.on_slice = lambda name, engine, part: heard.append((name, engine.seq, part.results))
    life.kind.on_edit = lambda name, plan: heard.append((name, list(plan.lifetimes())))
    life.kind.on_drop = lambda name, seq: heard.append((name, seq))

    async def story() -> None:
        await life.maps.put("food", PLANE)
        await life.maps.submit("food", SetQuery("q0", Top(2, NEAR), (1.0, 1.0), 2.0))
        life.map("food").watch("q0")
        await life.maps.submit("food", put([("o0", (1.0, 2.0), (3.0, 4.0))]))
        await life.maps.submit("food", MoveQueries(["q0"], np.array([[1.0, 1.0]])))
        asked = await life.maps.ask("food", lambda engine: engine.ask(Skyline(), [(0.0, 0.0)]))
        assert (asked.count, asked.last_seq, asked.answers[0].rows.ids) == (0, 3, ["o0"])
        await life.maps.drop("food")

    life.run(story())
    assert heard == [("food", [("q0", 2.0)]), ("food", 2, [(2, "q0")]), ("food", 4)]
    text = life.metrics.render().decode()
    assert 'rankcast_changes_total{command="PutObjects",resource="maps/food"} 1.0' in text
    assert [row.command for row in life.rows] == ["create", "set-query", "put", "move", "drop"]


def test_another_configuration_is_refused(make: Callable[..., House]) -> None:
    life = make()

    async def story() -> None:
        await life.maps.put("food", PLANE)
        assert (await life.maps.put("food", PLANE)).count == 0
        with pytest.raises(Refused) as refused:
            await life.maps.put("food", BLOCKS)
        assert refused.value.faults == [Fault("metric", "the map stands with 'euclidean'", "different")]

    life.run(story())


@pytest.mark.parametrize("image", ["whole", "damaged", "of another version", "none"])
def test_a_rebuilt_map_comes_back(make: Callable[..., House], image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    life = make()

    async def story() -> dict[str, Any]:
        await life.maps.put("food", PLANE)
        await life.maps.submit("food", many(300))
        await life.maps.submit("food", asking(6))
        await life.maps.submit("food", DeleteObjects([f"o{n}" for n in range(0, 300, 2)]))
        detail = await life.maintenance.rebuild(quiet, None, "local")
        await life.maps.submit("food", many(30, 300))
        return detail

    assert life.run(story())["rows"] == 150
    assert len(life.map("food").table.index.tree.slot) == 150, "what went is in the base no more"
    before = life.map("food")
    (folder,) = (life.stores.directory.path / "images").glob("*/*/*")
    if image == "damaged":
        (folder / "objects.arrow").unlink()
    elif image == "of another version":
        monkeypatch.setattr("formats.parts.LAYOUT", "another")
    elif image == "none":
        (folder / "manifest.json").unlink()
    life = make()
    life.map("food").check()
    assert_same(life.map("food"), before)


def test_a_rebuild_goes_on_beside_changes(make: Callable[..., House], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexes.maps.upkeep.FOLD", 3)
    life = make()

    async def story() -> None:
        await life.maps.put("food", PLANE)
        await life.maps.submit("food", many(300))
        await life.maps.submit("food", asking(6))
        rebuild = asyncio.ensure_future(life.maintenance.rebuild(quiet, None, "local"))
        n = 300
        while not rebuild.done():
            await life.maps.submit("food", many(2, n))
            await life.maps.submit("food", DeleteObjects([f"o{n}", f"o{n - 300}"]))
            await life.maps.submit("food", put([(f"o{n - 200}", (1.0, 1.0), (0.5, math.nan))]))
            n += 2
            await asyncio.sleep(0.001)
        assert (await rebuild)["swap_seconds"] > 0.0

    life.run(story())
    life.map("food").check()
    assert len(life.map("food").table.index.tree.slot) >= 300, "what was packed is in use"
    truth = Truth()
    truth.follow(life.rows)
    assert_same(life.map("food"), truth.maps["maps/food"])


def test_nothing_is_searched_for_while_a_log_is_replayed(make: Callable[..., House]) -> None:
    life = make()

    async def story() -> None:
        await life.maps.put("food", PLANE)
        await life.maps.submit("food", asking(6))
        await life.maps.submit("food", many(30))
        await life.maps.submit("food", MoveQueries(["q1"], np.array([[3.0, 3.0]])))

    life.run(story())
    truth = life.map("food")
    searches = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("indexes.maps.queries.Queries.enter", lambda *args: searches.append(args))
        patched.setattr("app.kinds.maps.MapKind.ready", lambda kind, engine: False)
        life = make()
    assert not searches and life.map("food").standing.live is None
    assert life.map("food").wake()
    assert_same(life.map("food"), truth)


def test_spark_leaves_verifying_maps_to_the_service(make: Callable[..., House]) -> None:
    life = make()

    async def story() -> None:
        await life.maps.put("food", PLANE)
        await life.maps.submit("food", many(30))
        assert (await life.maintenance.verify(quiet, None, "spark"))["compared"] == 30

    life.run(story())


def test_verifying_finds_what_is_wrong(make: Callable[..., House]) -> None:
    life = make()

    async def story() -> list[dict[str, Any]]:
        await life.maps.put("food", PLANE)
        await life.maps.submit("food", many(300))
        await life.maps.submit("food", asking(3))
        detail = await life.maintenance.verify(quiet, None, "local")
        assert detail["compared"] == 67 and not detail["differences"]
        engine = life.map("food")
        # An object comes nearest to all, and nobody is told.
        engine.table.index.put([7], [[2.0, 2.0]], [[-1.0, -5.0]])
        with pytest.raises(JobFailed) as failed:
            await life.maintenance.verify(quiet, None, "local")
        found: list[dict[str, Any]] = failed.value.detail["differences"]
        return found

    wrong = life.run(story())
    assert {one["kind"] for one in wrong} == {"query"} and {one["resource"] for one in wrong} == {"maps/food"}
    assert any("o7" in one["expected"] and "o7" not in one["found"] for one in wrong)


def test_verifying_finds_what_the_index_hides() -> None:
    engine = MapEngine(PLANE)
    engine.apply(many(300))
    engine.take_index(engine.table.index.folded())
    capture = engine.capture(indexes=True)
    capture.paint(10.0)
    capture.settle()
    index = capture.captured.places
    index.view.x0[:] += 3.0
    kinds = {difference.kind for checked in verify(capture.captured) for difference in checked.differences}
    assert kinds == {"index", "nearest"}
