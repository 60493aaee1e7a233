"""Verifying finds what is wrong with lists, buffers, weights and ids, and nothing where all is right."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from indexes.feeds.commands import AddSubscriptions, Post, Withdraw
from indexes.feeds.config import FeedConfig, Keywords, Query, Subscriptions
from indexes.feeds.engine import FeedEngine
from indexes.feeds.kernels.subscriptions import ENTRY, POSTS, ROW, THETA
from indexes.feeds.verification import verify


def engine(posts: int = 80) -> FeedEngine:
    rng = np.random.default_rng(2)

    def words() -> list[str]:
        return rng.choice([*"abcdefghij"], int(rng.integers(1, 4))).tolist()

    made = FeedEngine(FeedConfig((0.0, 0.0, 1.0, 1.0), posts=60))
    asks = [Query(words(), (rng.random(), rng.random()), 3, rng.random()) for _ in range(30)]
    made.apply(AddSubscriptions(pa.array([f"s{i}" for i in range(30)]), Subscriptions.of(asks)))
    for i in range(0, posts, 10):
        ids, keywords = [f"p{i + j}" for j in range(10)], Keywords.of([words() for _ in range(10)])
        made.apply(Post(ids, keywords, rng.random((10, 2))))
    made.apply(Withdraw(["p70", "p77"]))
    return made


def found(made: FeedEngine) -> list[tuple[str, str]]:
    plan = made.capture(indexes=True)
    while not plan.done:
        plan.execute(1.0)
        plan.publish()
    assert plan.captured is not None
    checked = list(verify(plan.captured))
    assert sum(one.compared for one in checked) == checked[0].of == len(plan.captured.queries.slots)
    assert sum(one.wrong for one in checked) == sum(len(one.differences) for one in checked)
    return [(difference.kind, difference.id) for one in checked for difference in one.differences]


def slot(made: FeedEngine, key: str = "s4") -> int:
    assert len(made.list_of(key)) == 3
    return made.names.find(key)


def other_score(made: FeedEngine) -> None:
    s, at = made.index.table.arrays, slot(made)
    s.score[int(s.note[at * ROW + ENTRY])] += 1e-15


def other_post(made: FeedEngine) -> None:
    s, at = made.index.table.arrays, slot(made)
    base = int(s.note[at * ROW + ENTRY])
    s.tag[base] = (s.tag[base] // POSTS + 1) * POSTS


def one_too_few(made: FeedEngine) -> None:
    s, at = made.index.table.arrays, slot(made)
    s.held[at] = 2


def theta(made: FeedEngine) -> None:
    s, at = made.index.table.arrays, slot(made)
    s.row[at * ROW + THETA] = 2.0


def weight(made: FeedEngine) -> None:
    v = made.index.window
    at = (int(v.term[made.index.first & (len(v.x) - 1)])) & (len(v.word) - 1)
    v.weight[at] *= 1.001


def id_twice(made: FeedEngine) -> None:
    made.names.ids.recent["another"] = slot(made)


def epoch(made: FeedEngine) -> None:
    made.index.epoch.df[made.index.words.number("a")] += 1


@pytest.mark.parametrize(
    ("spoil", "kinds"),
    [
        (other_score, {"list", "buffer"}),
        (other_post, {"list", "buffer"}),
        (one_too_few, {"list"}),
        (theta, {"buffer"}),
        (weight, {"weights"}),
        (id_twice, {"ids"}),
        (epoch, {"weights"}),
    ],
    ids=lambda one: getattr(one, "__name__", ""),
)
def test_what_is_wrong_is_found(spoil: Callable[[FeedEngine], None], kinds: set[str]) -> None:
    made = engine()
    assert not found(made)
    spoil(made)
    wrong = found(made)
    assert kinds <= {kind for kind, _ in wrong}
    assert {key for kind, key in wrong if kind in {"list", "buffer"}} <= (
        {"s4"} if "weights" not in kinds else {""} | {f"s{i}" for i in range(30)}
    )


def test_nothing_is_wrong_with_an_empty_feed() -> None:
    made = FeedEngine(FeedConfig((0.0, 0.0, 1.0, 1.0), span=5))
    assert not found(made)
