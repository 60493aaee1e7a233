"""Whatever happened before a crash, matchers come back as the whole log says.

From snapshots, images and the rest of the log, with the same answers to the same requests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from app.resources.matchers import MatcherType
from app.write_path.jobs import JobFailed
from app.write_path.writer import Skeleton
from formats.matcher_commands import decode
from indexes.core.commands import Fault
from indexes.matchers.commands import (
    AddSubscriptions,
    ChangeSubscription,
    ChangeSubscriptions,
    DeleteSubscriptions,
    Match,
    SetSubscription,
)
from indexes.matchers.config import MatcherConfig, Subscriptions
from indexes.matchers.engine import MatcherEngine
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

RELAXED = MatcherConfig(("age", "credit"), "relaxed")
EXACT = MatcherConfig(("age", "credit"), "exact")
EVENTS = np.repeat(np.array([[1.0, 1.0], [2.5, 4.0], [0.0, 3.0]]), 2, axis=1)


class House(HouseOf[MatcherEngine, MatcherConfig]):
    """A process over a data directory with boards and matchers."""

    KIND = MatcherType


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
setting = st.builds(SetSubscription, ids, numbers.map(lambda one: some([one]).rows[0]), st.sampled_from([None, 9.0]))
changing = st.builds(ChangeSubscription, ids, st.just({"age": (0.0, 3.0)}), st.just({"age": 0.5}))
commands = st.one_of(
    adding,
    adding,
    setting,
    changing,
    st.builds(ChangeSubscriptions, st.lists(st.one_of(setting, setting, changing), max_size=8)),
    st.builds(DeleteSubscriptions, st.lists(ids, max_size=5)),
    st.builds(Match, st.just(EVENTS), st.integers(1, 4), st.just(False), st.just({0: b"{}"})),
)


class Carried(KeptMachine):
    """Commands, jobs, failures of the log and crashes in any order, with limits so low that all is cut."""

    LIMITS: ClassVar = {
        **LOW,
        "indexes.matchers.kernels.run_index.TAIL": 2,
        "indexes.matchers.kernels.run_index.GROWTH": 2,
        "indexes.matchers.kernels.run_index.AT_ONCE": 4,
        "indexes.matchers.kernels.run_index.RANKED_AT_ONCE": 4,
        "indexes.matchers.kernels.cells.FEWEST": 1,
        "indexes.matchers.kernels.cells.SPREAD": 2,
        "indexes.matchers.kernels.blocks.TAIL": 2,
        "indexes.matchers.kernels.blocks.GROWTH": 2,
        "indexes.matchers.kernels.blocks.AT_ONCE": 4,
        "indexes.core.subscription_engine.BULK": 3,
        "indexes.matchers.plans.maintenance.FOLD": 2,
        "indexes.matchers.verification.EVENTS": 8,
    }
    HOUSE = House
    CONFIG = MatcherConfig
    BATCH: ClassVar = batches(commands, RELAXED, EXACT)
    FIRST = RELAXED
    PART = "sample.arrow"

    def begin(self) -> Truth[MatcherEngine]:
        return Truth(MatcherEngine, decode)

    @staticmethod
    def answer(job: Any) -> Skeleton:
        """An answer with the winners, where there are any."""
        return Skeleton(200, {"seq": job.last_seq, "results": job.response_fields().get("results", [])})

    def agree(self, engine: MatcherEngine, truth: MatcherEngine) -> None:
        engine.check()
        same_place(engine, truth)
        assert engine.ttl == truth.ttl
        assert engine.subscriptions(None, 100) == truth.subscriptions(None, 100)
        pairs = zip(engine.match(EVENTS, 4), truth.match(EVENTS, 4), strict=True)
        assert all(one.winners == other.winners for one, other in pairs)

    def fitted(self, name: str, command: Any) -> Any:
        return command if self.life.resources.latest(name).config.relaxed else _exact(command)


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
            return SetSubscription(command.id, fit(Subscriptions.of_rows(RELAXED, [command.row])).rows[0], command.ttl)
        case ChangeSubscription():
            return ChangeSubscription(command.id, command.intervals, score=2.0)
        case ChangeSubscriptions():
            return ChangeSubscriptions([_exact(change) for change in command.changes])
    return command


Carried.TestCase.settings = settings(max_examples=25, stateful_step_count=10, deadline=None)
TestCarried = Carried.TestCase

make = starter(House)


def many(n: int, start: int = 0) -> AddSubscriptions:
    rng = np.random.default_rng(start)
    lo = rng.random((n, 2)) * 4
    keys = [f"s{i}" for i in range(start, start + n)]
    return AddSubscriptions(pa.array(keys), Subscriptions(lo, lo + rng.random((n, 2)), rng.random((n, 2))))


def test_what_a_matcher_counts_and_tells_has_its_name(make: Callable[..., House]) -> None:
    life = make()
    heard = heard_by(life, lambda engine, part: (engine.seq, part.last_seq))

    async def story() -> None:
        await life.resources.put("ads", RELAXED)
        await life.resources.submit("ads", AddSubscriptions(pa.array(["s0"]), some([(0, 3, 1)]), {0: 2.0}))
        life.engine("ads").watch("s0")
        await life.resources.submit("ads", Match(EVENTS))
        asked = await life.resources.ask("ads", lambda engine: engine.ask(Match(EVENTS, 1)))
        assert (asked.count, asked.last_seq, len(asked.results)) == (0, 4, 3)
        await life.resources.drop("ads")

    life.run(story())
    assert heard == [("ads", [("s0", 2.0)]), ("ads", 4, 4), ("ads", 5)]
    text = life.metrics.render().decode()
    assert 'rankcast_changes_total{command="Match",resource="matchers/ads"} 3.0' in text
    assert [row.command for row in life.rows] == ["create", "add", "match", "drop"]


def test_another_configuration_is_refused(make: Callable[..., House]) -> None:
    faults = refuse_another(make(), RELAXED, EXACT)
    assert faults == [Fault("mode", "the matcher stands with 'relaxed'", "different")]


@pytest.mark.parametrize("image", ["whole", "damaged", "of another version", "none"])
def test_a_rebuilt_matcher_comes_back(make: Callable[..., House], image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    life = make()

    async def story() -> dict[str, Any]:
        await life.resources.put("ads", RELAXED)
        await life.resources.submit("ads", many(900))
        await life.resources.submit("ads", DeleteSubscriptions([f"s{n}" for n in range(0, 900, 2)]))
        detail = await life.maintenance.rebuild(quiet, None, "local")
        await life.resources.submit("ads", many(30, 900))
        return detail

    assert life.run(story())["rows"] == 450
    assert life.engine("ads").matcher.high == 480, "rows of the gone are free"
    before = life.engine("ads").match(EVENTS)
    spoil(life, image, monkeypatch, "blocks.arrow")
    life = make()
    life.engine("ads").check()
    assert [one.winners for one in life.engine("ads").match(EVENTS)] == [one.winners for one in before]


def test_single_changes_go_on_over_a_mapped_image(make: Callable[..., House], monkeypatch: pytest.MonkeyPatch) -> None:
    """In one dimension a kernel changes the arrays that were mapped."""
    monkeypatch.setattr("indexes.matchers.kernels.cells.FEWEST", 1)
    monkeypatch.setattr("indexes.matchers.kernels.cells.SPREAD", 16)
    line, rng, life = MatcherConfig(("age",), "exact"), np.random.default_rng(4), make()
    rows = [[lo, lo + 0.2, score] for lo, score in rng.random((900, 2)).tolist()]
    ids = pa.array([f"s{n}" for n in range(len(rows))])

    async def story() -> None:
        await life.resources.put("ads", line)
        await life.resources.submit("ads", AddSubscriptions(ids, Subscriptions.of_rows(line, rows), {}, False))
        await life.maintenance.rebuild(quiet, None, "local")

    life.run(story())
    assert list((life.stores.directory.path / "images").glob("*/*/*"))
    life = make()
    assert life.engine("ads").matcher.indexes.cells

    async def change() -> None:
        for n in range(40):
            changed = SetSubscription(f"s{n}", [n / 40, n / 40 + 0.1, 1.0 - n / 100], None)
            await life.resources.submit("ads", ChangeSubscriptions([changed]))

    life.run(change())
    life.engine("ads").check()
    point = np.array([[0.05, 0.05]])
    before = life.engine("ads").match(point)
    life = make()
    life.engine("ads").check()
    assert [one.winners for one in life.engine("ads").match(point)] == [one.winners for one in before]


def test_a_rebuild_goes_on_beside_changes(make: Callable[..., House], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexes.matchers.plans.maintenance.FOLD", 3)
    life = make()

    async def begin() -> None:
        await life.resources.put("a", RELAXED)
        await life.resources.submit("a", many(300))

    def changes(round: int) -> list[Any]:
        n = 300 + 2 * round
        # Those with odd numbers stay, however many rounds there are.
        edited = ChangeSubscription(f"s{n - 199}", {"age": (0.0, 9.0)})
        again = SetSubscription(f"s{n - 199}", many(1, n).subscriptions.rows[0], 5.0)
        grouped = ChangeSubscriptions([again, edited, SetSubscription(f"t{n}", many(1).subscriptions.rows[0])])
        return [many(2, n), DeleteSubscriptions([f"s{n}", f"s{n - 300}"]), edited, grouped]

    rebuild_beside(life, begin, changes)
    engine, other = life.engine("a"), Truth.of(life, MatcherEngine, decode)
    engine.check()
    assert engine.subscriptions(None, 10**4) == other.subscriptions(None, 10**4)
    assert [o.winners for o in engine.match(EVENTS, 50)] == [o.winners for o in other.match(EVENTS, 50)]


def test_spark_leaves_verifying_matchers_to_the_service(make: Callable[..., House]) -> None:
    assert verified_by_the_service(make(), RELAXED, many(30)) == 30


def test_verifying_finds_what_is_wrong(make: Callable[..., House]) -> None:
    life = make()

    async def story() -> None:
        await life.resources.put("ads", RELAXED)
        await life.resources.submit("ads", many(300))
        detail = await life.maintenance.verify(quiet, None, "local")
        assert detail["compared"] == 256 and not detail["differences"]
        life.engine("ads").matcher._rec[7, 4:] = 50.0
        with pytest.raises(JobFailed) as failed:
            await life.maintenance.verify(quiet, None, "local")
        first = failed.value.detail["differences"][0]
        assert (first["resource"], first["kind"]) == ("matchers/ads", "event")
        assert first["expected"][0].startswith("s7 "), first

    life.run(story())
