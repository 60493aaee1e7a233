"""Feeds on Spark begin where a snapshot is, and count its words as the service does."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from formats.feeds import read_state, write_state
from formats.folder import Folder
from indexes.feeds.commands import Tick, Withdraw
from indexes.feeds.config import FeedConfig
from indexes.feeds.packing import pack_layout
from indexes.feeds.state import layout_of
from spark_jobs.common.parts import read_part
from spark_jobs.feeds.operations import of_state
from spark_jobs.feeds.routers import MECHANISMS
from spark_jobs.rebuild import feed_tasks
from spark_jobs.rebuild.feed_costs import costs_of
from tests.spark.feed_sessions import Alone
from tests.spark.feeds import Local

BOUNDS = (0.0, 0.0, 4.0, 3.0)


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


def test_words_counted_by_parts_are_those_of_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone = Alone(FeedConfig(BOUNDS, posts=100))
    alone.post(130)
    folder, pieces = Folder.at(tmp_path / "snapshot"), Folder.at(tmp_path / "pieces")
    draft = folder.draft()
    about = write_state(draft, "city", alone.state())
    draft.publish({"kind": "snapshot", "lsn": 1, "resources": {"feeds/city": about}})
    monkeypatch.setattr(feed_tasks, "PER_TASK", 30)
    parts = feed_tasks.parts_of(about)
    assert parts == 5
    numbers = iter([pa.record_batch({"id": pa.array(range(parts))})])
    told = list(feed_tasks.pack(numbers, folder.system, folder.path, "city", about, pieces.path))
    found = feed_tasks.join([read_part(pieces / batch["name"][0].as_py()) for batch in told])
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
