"""A feed's part of a snapshot and its image, there and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from formats import feeds, parts
from formats.columns import write_table
from formats.folder import Damaged, Draft, Folder
from indexes.feeds.commands import AddSubscriptions, DeleteSubscriptions, Post, SetSubscription, Tick, Withdraw
from indexes.feeds.config import FeedConfig, Keywords, Query, Shown, Subscriptions
from indexes.feeds.engine import FeedEngine
from indexes.feeds.kernels.buffers import EVALUATED
from indexes.feeds.kernels.cells import build_cells
from indexes.feeds.packing import Layout, Statistics, pack_layout, unpack_layout
from indexes.feeds.state import FeedState, engine_of, layout_of, state_of, statistics_of
from tests.support.values import same_columns

CONFIGS = [
    FeedConfig((0.0, 0.0, 1.0, 1.0), posts=50),
    FeedConfig((0.0, 0.0, 1.0, 2.5), posts=1_000, buffer="kmax", stop_words=("x",)),
    FeedConfig((0.0, 0.0, 1.0, 1.0), span=40),
    FeedConfig((0.0, 0.0, 1.0, 1.0), span=40, tfidf=False),
]


def shown(rng: np.random.Generator) -> Shown:
    words = rng.choice([*"abcdefghij", "ß", "𝄞"], int(rng.integers(1, 5))).tolist()
    return {word: float(rng.random() + 0.1) for word in words} if rng.random() < 0.4 else words


def engine(config: FeedConfig, n: int = 150) -> FeedEngine:
    """A feed with some history: epochs, posts withdrawn and expired, subscriptions changed and deleted."""
    rng = np.random.default_rng(4)
    made = FeedEngine(config, 3)
    asks = [Query(shown(rng), (rng.random(), rng.random()), int(rng.integers(1, 6)), rng.random()) for _ in range(40)]
    if not n:
        return made
    ids = pa.array([f"s{i}" for i in rng.permutation(40)])
    made.apply(AddSubscriptions(ids, Subscriptions.of(asks), {2: 5.0}))
    for i in range(0, n, 5):
        post(made, rng, i, i // 3)
    made.apply(DeleteSubscriptions([f"s{i}" for i in range(5, 40, 7)]))
    made.apply(SetSubscription("s3", {"b": 2.0, "a": 1.0}, (0.5, 0.5), 3, 0.25, 7.0))
    made.apply(Withdraw([f"p{i}" for i in (n - 3, n - 20, n - 30)]))
    made.apply(Tick(n // 3 + 5))
    return made


def post(made: FeedEngine, rng: np.random.Generator, i: int, at: int) -> None:
    keywords = Keywords.of([shown(rng) for _ in range(5)])
    payload = {1: b'{"a":1}'} if i % 3 else {}
    made.apply(Post([f"p{i + j}" for j in range(5)], keywords, rng.random((5, 2)), at, payload))


def state(made: FeedEngine) -> FeedState:
    plan = made.capture()
    while not plan.done:
        plan.execute(10.0)
        plan.publish()
    assert plan.captured is not None
    return state_of(plan.captured)


def written(folder: Folder, one: FeedState) -> dict[str, Any]:
    with folder.draft() as draft:
        about = feeds.write_state(draft, "city", one)
        draft.publish({"about": about})
    told: dict[str, Any] = folder.manifest()["about"]
    return told


def same(a: FeedEngine, b: FeedEngine) -> None:
    a.check()
    b.check()
    assert (a.config, a.seq, a.now, a.ttl, a.oldest) == (b.config, b.seq, b.now, b.ttl, b.oldest)
    assert a.posts(None, 10**6) == b.posts(None, 10**6)
    assert a.subscriptions(None, 10**6) == b.subscriptions(None, 10**6)
    for view in a.subscriptions(None, 10**6):
        assert a.list_of(view.id) == b.list_of(view.id)


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_a_feed_that_was_stopped_goes_on_as_one_that_was_not(config: FeedConfig, tmp_path: Path) -> None:
    made = engine(config)
    folder = Folder.at(tmp_path / "a")
    about = written(folder, state(made))
    assert about["posts"] == made.post_count > 0 and about["subscriptions"] == made.subscription_count > 0
    again = engine_of(feeds.read_state(folder, "city", about))
    same(made, again)
    assert any(made.list_of(view.id) for view in made.subscriptions(None, 100))
    for i in range(150, 300, 5):
        for one in (made, again):
            one.apply(Tick(i // 3 + 10))
            post(one, np.random.default_rng(i), i, i // 3)
        same(made, again)


def test_parts_of_a_snapshot_can_be_read_alone(tmp_path: Path) -> None:
    one = state(engine(CONFIGS[0]))
    folder = Folder.at(tmp_path / "a")
    about = written(folder, one)
    posts = feeds.read_posts(folder, "city", about)
    assert posts.ids.to_pylist() == one.posts.ids.to_pylist() and posts.keywords.shown() == one.posts.keywords.shown()
    some = feeds.read_subscriptions(folder, "city", about)
    assert some.keywords.shown() == one.subscriptions.keywords.shown()
    assert np.array_equal(some.points, one.subscriptions.points)


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_an_empty_feed_comes_back(config: FeedConfig, tmp_path: Path) -> None:
    made = engine(config, 0)
    folder = Folder.at(tmp_path / "a")
    again = engine_of(feeds.read_state(folder, "city", written(folder, state(made))))
    same(made, again)
    assert statistics_of(state(again)).words == []
    post(again, np.random.default_rng(1), 0, 0)
    assert again.post_count == (5 if config.posts != 1 else 1)


def test_an_image_says_how_rare_words_are_and_where_subscriptions(tmp_path: Path) -> None:
    made = engine(CONFIGS[0])
    counted, cells = layout_of(state(made))
    others = build_cells(np.random.default_rng(1).random((100, 2)), 8)[0]
    for statistics, tree in ((counted, cells), (Statistics([], np.empty(0, np.int32)), others)):
        image = Folder.at(tmp_path / str(len(statistics.words)))
        parts.write_image(image, "feeds/city", 5, pack_layout(Layout(statistics, tree)))
        packed = parts.read_image(image)
        assert packed is not None
        found = unpack_layout(packed)
        assert found.statistics.words == statistics.words
        assert found.statistics.df.tolist() == statistics.df.tolist()
        assert same_columns(found.cells, tree)
        assert made.index.churn == 0.0 or statistics is counted
        fold = made.fold(found)
        while not fold.done:
            fold.execute(1.0)
            fold.publish()
        made.check()
        folded: Any = made.index.subscription_index
        assert folded.cells.child.tolist() == tree.child.tolist()
    words = dict(zip(counted.words, counted.df.tolist(), strict=True))
    posts = made.posts(None, 10**6)
    assert words == {word: sum(word in post.keywords for post in posts) for word in words} and "ß" in words


@pytest.mark.parametrize("counted", ["posts", "subscriptions"])
def test_a_snapshot_with_other_rows_is_damaged(counted: str, tmp_path: Path) -> None:
    about = written(Folder.at(tmp_path / "a"), state(engine(CONFIGS[1])))
    with pytest.raises(Damaged, match=rf"{counted}\.parquet holds other"):
        feeds.read_state(Folder.at(tmp_path / "a"), "city", {**about, counted: 4})


def test_posts_that_are_not_in_the_window_are_told(tmp_path: Path) -> None:
    about = written(Folder.at(tmp_path / "a"), state(engine(CONFIGS[0])))
    with pytest.raises(Damaged, match="other posts"):
        feeds.read_state(Folder.at(tmp_path / "a"), "city", {**about, "first": about["first"] + 1})


@pytest.mark.parametrize("place", [feeds.posts_at("city"), feeds.subscriptions_at("city")])
def test_weights_that_are_not_one_for_each_word_are_told(place: str, tmp_path: Path) -> None:
    about = written(Folder.at(tmp_path / "a"), state(engine(CONFIGS[0])))
    table = pq.read_table(tmp_path / "a" / place)
    at = table.column_names.index("weights")
    wrong = pa.array([[1.0] * 9] * len(table), pa.large_list(pa.float64()))
    pq.write_table(table.set_column(at, table.schema.field(at), wrong), tmp_path / "a" / place)
    with pytest.raises(Damaged, match="other numbers of weights"):
        feeds.read_state(Folder.at(tmp_path / "a"), "city", about)


@pytest.mark.parametrize("config", CONFIGS, ids=str)
def test_a_start_evaluates_nobody(config: FeedConfig, tmp_path: Path) -> None:
    made = engine(config)
    folder = Folder.at(tmp_path / "a")
    one = feeds.read_state(folder, "city", written(folder, state(made)))
    again = engine_of(one)
    assert again.index.evaluation.size[EVALUATED] == 0
    assert np.array_equal(state(again).theta, one.theta)


@pytest.mark.parametrize("theta", [np.nan, -1.0, 0.0, 0.3, 0.9, 1e9])
def test_a_start_is_right_whatever_is_said_of_theta(theta: float) -> None:
    made = engine(CONFIGS[0])
    one = state(made)
    some = np.random.default_rng(1).random(len(one.theta)) < 0.7
    again = engine_of(one._replace(theta=np.where(some, theta, one.theta)))
    same(made, again)
    for i in range(150, 250, 5):
        for feed in (made, again):
            post(feed, np.random.default_rng(i), i, i // 3)
        same(made, again)


def test_snapshots_without_theta_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = engine(CONFIGS[0])
    older = feeds.SUBSCRIPTIONS.remove(feeds.SUBSCRIPTIONS.get_field_index("theta"))

    def write(draft: Draft, name: str, schema: pa.Schema, columns: list[Any]) -> None:
        whole = schema is not feeds.SUBSCRIPTIONS
        write_table(draft, name, schema if whole else older, columns if whole else columns[:-1])

    monkeypatch.setattr(feeds, "write_table", write)
    folder = Folder.at(tmp_path / "a")
    one = feeds.read_state(folder, "city", written(folder, state(made)))
    assert np.isnan(one.theta).all() and len(one.theta)
    same(made, engine_of(one))


@pytest.mark.parametrize("config", [CONFIGS[0], CONFIGS[2]], ids=str)
def test_posts_withdrawn_before_a_stop_expire_after_it(config: FeedConfig) -> None:
    """Their numbers are in no piece of the posts any more."""
    made = FeedEngine(config, 3)
    for i in range(0, 40, 5):
        post(made, np.random.default_rng(i), i, 1)
    made.apply(Withdraw([f"p{i}" for i in (0, 1, 7, 8, 20)]))
    again = engine_of(state(made))
    for one in (made, again):
        one.apply(Tick(20))
        for i in range(40, 90, 5):
            post(one, np.random.default_rng(i), i, 50)
        one.apply(Tick(60))
    same(made, again)
