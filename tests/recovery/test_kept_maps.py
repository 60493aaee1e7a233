"""Whatever happened before a crash, maps come back as the whole log says.

From snapshots, images and the rest of the log, with the same answers to the same requests.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from app.resources.maps import MapType
from app.write_path.jobs import JobFailed
from app.write_path.writer import Skeleton
from formats.map_commands import decode
from indexes.core.commands import Fault
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
from indexes.maps.config import MapConfig, Score, Skyline, Top
from indexes.maps.engine import MapEngine
from indexes.maps.verification import verify
from tests.recovery.kept import (
    LOW,
    HouseOf,
    KeptMachine,
    Truth,
    batches,
    heard_by,
    rebuild_beside,
    refuse_another,
    same_place,
    spoil,
    starter,
    verified_by_the_service,
)
from tests.recovery.machine import quiet
from tests.support.values import present

ATTRIBUTES = (Attribute("price"), Attribute("rating", True, (0.0, 5.0)))
PLANE = MapConfig(ATTRIBUTES, (0.0, 0.0, 4.0, 4.0))
BLOCKS = MapConfig(ATTRIBUTES, (0.0, 0.0, 4.0, 4.0), "manhattan")
NEAR = Score("weighted_sum", (("distance", 1.0),))
BALANCED = Score("weighted_sum", (("price", 0.5), ("rating", 1.0), ("distance", 1.0)))


class House(HouseOf[MapEngine, MapConfig]):
    """A process over a data directory with boards and maps."""

    KIND = MapType


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
questions: st.SearchStrategy[Top | Skyline] = st.sampled_from([Skyline(), Top(2, NEAR), Top(3, BALANCED, 2, True)])
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


class Carried(KeptMachine):
    """Commands, jobs, failures of the log and crashes in any order, with limits so low that all is cut."""

    LIMITS: ClassVar = {
        **LOW,
        "indexes.maps.plans.objects.ObjectPlan.at_once": 2,
        "indexes.maps.plans.objects.PACKED_FROM": 6,
        "indexes.maps.plans.objects.FEW": 1,
        "indexes.maps.plans.objects.FOLD_FROM": 4,
        "indexes.maps.pending_objects.BULK": 5,
        "indexes.maps.acceptance.BULK": 5,
        "indexes.core.subscription_engine.BULK": 3,
        "indexes.maps.plans.queries.QueryPlan.at_once": 2,
        "indexes.maps.plans.maintenance.FOLD": 2,
        "indexes.maps.verification.SAMPLE": 4,
    }
    HOUSE = House
    CONFIG = MapConfig
    BATCH: ClassVar = batches(commands, PLANE, BLOCKS)
    FIRST = PLANE
    PART = "objects.arrow"

    def begin(self) -> Truth[MapEngine]:
        return Truth(MapEngine, decode)

    @staticmethod
    def answer(job: Any) -> Skeleton:
        """An answer with what applying tells of a single object."""
        told = job.response_fields()
        answer = {"seq": job.last_seq, "created": told.get("created"), "values": told.get("values")}
        return Skeleton(200, answer, open=True)

    def agree(self, engine: MapEngine, truth: MapEngine) -> None:
        engine.check()
        assert engine.standing.live is not None, "queries are held once all is in"
        same_place(engine, truth)
        assert engine.table.next_created == truth.table.next_created
        assert_same(engine, truth)


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

make = starter(House)


def many(n: int, start: int = 0) -> PutObjects:
    rng = np.random.default_rng(start)
    keys = [f"o{i}" for i in range(start, start + n)]
    return PutObjects(pa.array(keys), rng.random((n, 2)) * 4, rng.random((n, 2)) * 5, {0: b"1"})


def asking(n: int) -> AddQueries:
    some: list[Top | Skyline] = [Skyline(), Top(3, BALANCED, 2), Top(2, NEAR)]
    rng = np.random.default_rng(n)
    return AddQueries(pa.array([f"q{i}" for i in range(n)]), [some[i % 3] for i in range(n)], rng.random((n, 2)) * 4)


def test_what_a_map_counts_and_tells_has_its_name(make: Callable[..., House]) -> None:
    life = make()
    heard = heard_by(life, lambda engine, part: (engine.seq, part.results))

    async def story() -> None:
        await life.resources.put("food", PLANE)
        await life.resources.submit("food", SetQuery("q0", Top(2, NEAR), (1.0, 1.0), 2.0))
        life.engine("food").watch("q0")
        await life.resources.submit("food", put([("o0", (1.0, 2.0), (3.0, 4.0))]))
        await life.resources.submit("food", MoveQueries(["q0"], np.array([[1.0, 1.0]])))
        asked = await life.resources.ask("food", lambda engine: engine.ask(Skyline(), [(0.0, 0.0)]))
        assert (asked.count, asked.last_seq, asked.answers[0].rows.ids) == (0, 3, ["o0"])
        await life.resources.drop("food")

    life.run(story())
    assert heard == [("food", [("q0", 2.0)]), ("food", 2, [(2, "q0")]), ("food", 4)]
    text = life.metrics.render().decode()
    assert 'rankcast_changes_total{command="PutObjects",resource="maps/food"} 1.0' in text
    assert [row.command for row in life.rows] == ["create", "set-query", "put", "move", "drop"]


def test_another_configuration_is_refused(make: Callable[..., House]) -> None:
    faults = refuse_another(make(), PLANE, BLOCKS)
    assert faults == [Fault("metric", "the map stands with 'euclidean'", "different")]


@pytest.mark.parametrize("image", ["whole", "damaged", "of another version", "none"])
def test_a_rebuilt_map_comes_back(make: Callable[..., House], image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    life = make()

    async def story() -> dict[str, Any]:
        await life.resources.put("food", PLANE)
        await life.resources.submit("food", many(300))
        await life.resources.submit("food", asking(6))
        await life.resources.submit("food", DeleteObjects([f"o{n}" for n in range(0, 300, 2)]))
        detail = await life.maintenance.rebuild(quiet, None, "local")
        await life.resources.submit("food", many(30, 300))
        return detail

    assert life.run(story())["rows"] == 150
    assert len(life.engine("food").table.index.tree.slot) == 150, "what went is in the base no more"
    before = life.engine("food")
    spoil(life, image, monkeypatch, "objects.arrow")
    life = make()
    life.engine("food").check()
    assert_same(life.engine("food"), before)


def test_a_rebuild_goes_on_beside_changes(make: Callable[..., House], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexes.maps.plans.maintenance.FOLD", 3)
    life = make()

    async def begin() -> None:
        await life.resources.put("a", PLANE)
        await life.resources.submit("a", many(300))
        await life.resources.submit("a", asking(6))

    def changes(round: int) -> list[Any]:
        n = 300 + 2 * round
        edited = put([(f"o{n - 200}", (1.0, 1.0), (0.5, math.nan))])
        return [many(2, n), DeleteObjects([f"o{n}", f"o{n - 300}"]), edited]

    assert rebuild_beside(life, begin, changes)["rows"] >= 300
    life.engine("a").check()
    assert len(life.engine("a").table.index.tree.slot) >= 300, "what was packed is in use"
    assert_same(life.engine("a"), Truth.of(life, MapEngine, decode))


def test_nothing_is_searched_for_while_a_log_is_replayed(make: Callable[..., House]) -> None:
    life = make()

    async def story() -> None:
        await life.resources.put("food", PLANE)
        await life.resources.submit("food", asking(6))
        await life.resources.submit("food", many(30))
        await life.resources.submit("food", MoveQueries(["q1"], np.array([[3.0, 3.0]])))

    life.run(story())
    truth = life.engine("food")
    searches = []
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("indexes.maps.queries.Queries.enter", lambda *args: searches.append(args))
        patched.setattr("app.resources.maps.MapType.ready", lambda self, engine: False)
        life = make()
    assert not searches and life.engine("food").standing.live is None
    assert life.engine("food").wake()
    assert_same(life.engine("food"), truth)


def test_spark_leaves_verifying_maps_to_the_service(make: Callable[..., House]) -> None:
    assert verified_by_the_service(make(), PLANE, many(30)) == 30


def test_verifying_finds_what_is_wrong(make: Callable[..., House]) -> None:
    life = make()

    async def story() -> list[dict[str, Any]]:
        await life.resources.put("food", PLANE)
        await life.resources.submit("food", many(300))
        await life.resources.submit("food", asking(3))
        detail = await life.maintenance.verify(quiet, None, "local")
        assert detail["compared"] == 67 and not detail["differences"]
        engine = life.engine("food")
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
    capture.execute(10.0)
    capture.publish()
    index = capture.captured.places
    index.view.nodes.x0[:] += 3.0
    kinds = {difference.kind for checked in verify(present(capture.captured)) for difference in checked.differences}
    assert kinds == {"index", "nearest"}
