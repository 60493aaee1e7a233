"""Feeds on Spark begin where a snapshot is, and count its words as the service does."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from formats.feeds import read_state, write_state
from formats.folder import Folder
from indexes.feeds.commands import AddSubscriptions, Post, Tick, Withdraw
from indexes.feeds.engine import FeedEngine
from indexes.feeds.model import FeedConfig, Keywords, Subscriptions, bag_of_shown
from indexes.feeds.packing import pack_layout
from indexes.feeds.state import FeedState, layout_of, state_of
from spark_jobs import feed_layout
from spark_jobs.feed_costs import costs_of
from spark_jobs.feed_front import Posts
from spark_jobs.feed_operations import of_state
from spark_jobs.feed_routers import MECHANISMS
from spark_jobs.parts import read_part
from tests.spark_jobs.feeds import Local

BOUNDS = (0.0, 0.0, 4.0, 3.0)


class Alone:
    """A feed of the service's own engine, whose posts have words of few."""

    def __init__(self, config: FeedConfig, subscriptions: int = 60) -> None:
        self.rng = np.random.default_rng(5)
        self.engine = FeedEngine(config)
        self.came = self.now = 0
        keywords, points = self.keywords(subscriptions, 3), self.rng.random((subscriptions, 2)) * [4, 3]
        k, alpha = self.rng.integers(1, 6, subscriptions), self.rng.choice([0.0, 0.4, 1.0], subscriptions)
        self.ids = [f"s{i}" for i in range(subscriptions)]
        self.engine.apply(AddSubscriptions(pa.array(self.ids), Subscriptions(keywords, points, k, alpha)))

    def keywords(self, n: int, most: int) -> Keywords:
        return Keywords.of(
            [[f"w{i}" for i in self.rng.zipf(1.5, int(self.rng.integers(1, most + 1))).clip(1, 40)] for _ in range(n)]
        )

    def post(self, n: int) -> Posts:
        """Posts come; as operations of Spark's."""
        keywords, points = self.keywords(n, 6), self.rng.random((n, 2)) * [4, 3]
        ids = [f"p{self.came + i}" for i in range(n)]
        self.came += n
        self.now += 1
        self.engine.apply(Post(pa.array(ids), keywords, points, self.now))
        times = np.full(n, self.now, np.int64)
        return Posts(ids, [bag_of_shown(one) for one in keywords.shown()], points, times)

    def state(self) -> FeedState:
        plan = self.engine.capture()
        while not plan.done:
            plan.paint(1.0)
            plan.settle()
        assert plan.captured is not None
        return state_of(plan.captured)

    def lists(self) -> dict[str, tuple[list[str], list[float]]]:
        found = {}
        for id in self.ids:
            entries = self.engine.list_of(id)
            found[id] = ([one.post.id for one in entries], [one.score for one in entries])
        return found


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("config", [FeedConfig(BOUNDS, posts=100), FeedConfig(BOUNDS, span=6)], ids=["posts", "span"])
def test_a_stream_goes_on_from_a_snapshot(config: FeedConfig, mechanism: str) -> None:
    alone = Alone(config)
    for _ in range(5):
        alone.post(45)
        alone.engine.apply(Tick(alone.now))
    alone.engine.apply(Withdraw([f"p{alone.came - 3}"]))
    local = Local(config, mechanism, 3)
    known: dict[str, tuple[list[str], list[float]]] = {}
    operations = of_state(alone.state())
    for number in range(5):
        told = local.batch(operations, renew=number == 2)
        known.update({row.subscription: (row.posts, row.scores) for row in told})
        assert known == alone.lists(), number
        operations = [alone.post(30)]
    assert local.front.shard.epochs > 0


def test_words_counted_by_parts_are_those_of_the_service(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    alone = Alone(FeedConfig(BOUNDS, posts=100))
    alone.post(130)
    folder, pieces = Folder.at(tmp_path / "snapshot"), Folder.at(tmp_path / "pieces")
    draft = folder.draft()
    about = write_state(draft, "city", alone.state())
    draft.publish({"kind": "snapshot", "lsn": 1, "resources": {"feeds/city": about}})
    monkeypatch.setattr(feed_layout, "PER_TASK", 30)
    parts = feed_layout.parts_of(about)
    assert parts == 5
    numbers = iter([pa.record_batch({"id": pa.array(range(parts))})])
    told = list(feed_layout.lay_out(numbers, folder.system, folder.path, "city", about, pieces.path))
    found = feed_layout.joined([read_part(pieces / batch["name"][0].as_py()) for batch in told])
    expected = pack_layout(layout_of(read_state(folder, "city", about)))
    assert found.keys() == expected.keys()
    for name, part in expected.items():
        assert found[name].numbers == part.numbers and found[name].shapes == part.shapes
        assert found[name].arrays.keys() == part.arrays.keys()
        assert all(np.array_equal(found[name].arrays[key], part.arrays[key]) for key in part.arrays)


def test_costs_are_measured_where_there_is_enough() -> None:
    alone = Alone(FeedConfig(BOUNDS, posts=400), 200)
    assert costs_of(alone.state(), 200) == {"evaluation": None, "posting": None, "entry": None}
    for _ in range(4):
        alone.post(100)
    costs = costs_of(alone.state(), 200)
    assert all(value is not None for value in costs.values()) and costs["evaluation"] is not None
