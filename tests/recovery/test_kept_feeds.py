"""Whatever happened before a crash, feeds come back as the whole log says.

From snapshots and the rest of the log, with the same lists, scores too, and the same answers to the same requests.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from app.resources.feeds import FeedType
from app.write_path.jobs import JobFailed
from app.write_path.writer import Skeleton
from formats.feed_commands import decode
from indexes.core.commands import Fault
from indexes.feeds.commands import (
    AddSubscriptions,
    ChangeSubscription,
    DeleteSubscriptions,
    Post,
    SetSubscription,
    Tick,
    Withdraw,
)
from indexes.feeds.config import FeedConfig, Keywords, Query, Subscriptions
from indexes.feeds.engine import FeedEngine
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
)
from tests.recovery.machine import quiet

COUNTED = FeedConfig((0.0, 0.0, 4.0, 4.0), posts=12)
SPANNED = FeedConfig((0.0, 0.0, 4.0, 4.0), span=5, buffer="kscore")


class House(HouseOf[FeedEngine, FeedConfig]):
    """A process over a data directory with boards and feeds."""

    KIND = FeedType


def posting(rows: list[tuple[str, Any, tuple[float, float]]], at: int = 1, skip: bool = True) -> Post:
    ids, keywords = [row[0] for row in rows], Keywords.of([row[1] for row in rows])
    return Post(ids, keywords, np.array([row[2] for row in rows], float).reshape(-1, 2), at, {0: b'{"a":1}'}, skip)


def adding(rows: list[tuple[str, Query]], skip: bool = True) -> AddSubscriptions:
    some = Subscriptions.of([one for _, one in rows])
    return AddSubscriptions(pa.array([key for key, _ in rows]), some, {0: 30.0}, skip)


words = st.lists(st.sampled_from("abcdef"), min_size=1, max_size=4)
shown = st.one_of(words, st.dictionaries(st.sampled_from("abcdef"), st.sampled_from([0.5, 2.0]), min_size=1))
grid = st.integers(0, 4).map(float)
spots = st.tuples(grid, grid)
ids = st.sampled_from([f"p{n}" for n in range(20)])
keys = st.sampled_from([f"s{n}" for n in range(5)])


def setting(key: str, one: Query, ttl: float | None) -> SetSubscription:
    keywords, location, k, alpha = one
    return SetSubscription(key, keywords, location, k, alpha, ttl)


asked = st.builds(Query, shown, spots, st.sampled_from([1, 3]), st.sampled_from([0.0, 0.5, 1.0]))
posts = st.builds(posting, st.lists(st.tuples(ids, shown, spots), min_size=1, max_size=12), st.integers(1, 12))
commands = st.one_of(
    posts,
    posts,
    st.builds(Tick, st.integers(1, 20)),
    st.builds(Withdraw, st.lists(ids, max_size=3)),
    st.builds(adding, st.lists(st.tuples(keys, asked), min_size=1, max_size=5)),
    st.builds(setting, keys, asked, st.sampled_from([None, 9.0])),
    st.builds(ChangeSubscription, keys, k=st.sampled_from([2, 4]), ttl=st.sampled_from([None, 4.0])),
    st.builds(DeleteSubscriptions, st.lists(keys, max_size=3)),
)


class Carried(KeptMachine):
    """Commands, jobs, failures of the log and crashes in any order, with limits so low that all is cut."""

    LIMITS: ClassVar = {
        **LOW,
        "indexes.core.subscription_engine.BULK": 3,
        "indexes.feeds.store.FORGET_FROM": 2,
        "indexes.feeds.plans.subscriptions.EditPlan.at_once": 2,
        "indexes.feeds.plans.subscriptions.MANY": 4,
        "indexes.feeds.publishing.PIECE": 2,
        "indexes.feeds.lists.EVALUATED": 1,
        "indexes.feeds.plans.posts.PIECE": 2,
        "indexes.feeds.base.MANY": 3,
        "indexes.feeds.base.DIVIDED": 5,
        "indexes.feeds.posts.PIECE": 3,
        "indexes.feeds.state.AT_ONCE": 2,
    }
    HOUSE = House
    CONFIG = FeedConfig
    BATCH: ClassVar = batches(commands, COUNTED, SPANNED)
    FIRST = COUNTED

    def begin(self) -> Truth[FeedEngine]:
        return Truth(FeedEngine, decode)

    @staticmethod
    def answer(job: Any) -> Skeleton:
        """An answer with what applying tells of posts."""
        return Skeleton(200, {"seq": job.last_seq, "results": job.response_fields().get("results")})

    def agree(self, engine: FeedEngine, truth: FeedEngine) -> None:
        engine.check()
        same_place(engine, truth)
        assert_same(engine, truth)


def assert_same(engine: FeedEngine, truth: FeedEngine) -> None:
    """The same posts and subscriptions, with the same lists, bit for bit."""
    assert (engine.ttl, engine.now, engine.oldest) == (truth.ttl, truth.now, truth.oldest)
    assert engine.posts(None, 10**4) == truth.posts(None, 10**4)
    views = engine.subscriptions(None, 10**4)
    assert views == truth.subscriptions(None, 10**4)
    for view in views:
        assert engine.list_of(view.id) == truth.list_of(view.id)


Carried.TestCase.settings = settings(max_examples=12, stateful_step_count=10, deadline=None)
TestCarried = Carried.TestCase

make = starter(House)


def many(n: int, start: int = 0) -> Post:
    rng = np.random.default_rng(start)
    return posting(
        [(f"p{i}", rng.choice([*"abcdef"], 3).tolist(), tuple(rng.random(2))) for i in range(start, start + n)]
    )


def asking(n: int) -> AddSubscriptions:
    rng = np.random.default_rng(n)
    return adding([(f"s{i}", Query(["abcdef"[i % 6]], tuple(rng.random(2)), 3, 0.5)) for i in range(n)])


def test_what_a_feed_counts_and_tells_has_its_name(make: Callable[..., House]) -> None:
    life = make()
    heard = heard_by(life, lambda engine, part: (engine.seq, part.changes, part.gone))

    async def story() -> list[Any]:
        await life.resources.put("city", COUNTED)
        await life.resources.submit("city", SetSubscription("s0", ["a"], (1.0, 1.0), 2, 0.5, 2.0))
        life.engine("city").watch("s0")
        job = await life.resources.submit("city", posting([("p0", ["a"], (1.0, 2.0)), ("p1", ["b"], (1.0, 2.0))]))
        await life.resources.drop("city")
        return job.response_fields()["results"]

    assert life.run(story()) == [{"id": "p0", "reached": 1}, {"id": "p1", "reached": 0}]
    assert heard[0] == ("city", [("s0", 2.0)]) and heard[-1] == ("city", 4)
    changes = [change for _, seq, part, _ in heard[1:-1] for change in part]
    assert [(change.seq, change.id, change.changes[0].id) for change in changes] == [(2, "s0", "p0")]
    text = life.metrics.render().decode()
    assert 'rankcast_changes_total{command="Post",resource="feeds/city"} 2.0' in text
    assert [row.command for row in life.rows] == ["create", "set", "post", "drop"]


def test_ticks_that_change_nothing_are_not_logged(make: Callable[..., House]) -> None:
    life = make()

    async def story() -> list[int]:
        await life.resources.put("city", SPANNED)
        await life.resources.submit("city", posting([("p0", ["a"], (1.0, 2.0))], 10))
        return [(await life.resources.submit("city", Tick(at))).count for at in (12, 14, 15, 16)]

    assert life.run(story()) == [0, 0, 1, 0]
    assert [row.command for row in life.rows] == ["create", "post", "tick"]


def test_another_configuration_is_refused(make: Callable[..., House]) -> None:
    faults = refuse_another(make(), COUNTED, FeedConfig(COUNTED.bounds, posts=13))
    assert faults == [Fault("window", "the feed stands with 12", "different")]


@pytest.mark.parametrize("image", ["whole", "of another version", "none"])
def test_a_rebuilt_feed_comes_back(make: Callable[..., House], image: str, monkeypatch: pytest.MonkeyPatch) -> None:
    life = make()

    async def story() -> dict[str, Any]:
        await life.resources.put("city", COUNTED)
        await life.resources.submit("city", asking(30))
        await life.resources.submit("city", many(100))
        detail = await life.maintenance.rebuild(quiet, None, "local")
        assert life.engine("city").index.churn == 0.0
        await life.resources.submit("city", many(30, 300))
        return detail

    assert life.run(story())["rows"] == 12 + 30
    before = life.engine("city")
    spoil(life, image, monkeypatch)
    life = make()
    life.engine("city").check()
    assert_same(life.engine("city"), before)


def test_a_rebuild_goes_on_beside_posts(make: Callable[..., House]) -> None:
    life = make()

    async def begin() -> None:
        await life.resources.put("a", COUNTED)
        await life.resources.submit("a", asking(60))

    assert rebuild_beside(life, begin, lambda round: [many(3, 3 * round)])["rows"] >= 60
    life.engine("a").check()
    assert_same(life.engine("a"), Truth.of(life, FeedEngine, decode))


def test_verifying_finds_what_is_wrong(make: Callable[..., House]) -> None:
    life = make()

    async def story() -> list[dict[str, Any]]:
        await life.resources.put("city", COUNTED)
        await life.resources.submit("city", asking(30))
        await life.resources.submit("city", many(100))
        detail = await life.maintenance.verify(quiet, None, "local")
        assert detail["compared"] == 30 and not detail["differences"]
        s = life.engine("city").index.table.arrays
        assert len(life.engine("city").list_of("s7")) == 3
        s.held[life.engine("city").names.find("s7")] = 2
        with pytest.raises(JobFailed) as failed:
            await life.maintenance.verify(quiet, None, "spark")
        found: list[dict[str, Any]] = failed.value.detail["differences"]
        return found

    wrong = life.run(story())
    assert [(one["kind"], one["id"], one["resource"]) for one in wrong] == [("list", "s7", "feeds/city")]
