"""Operations of a feed, from commands of the service's log and from tables of posts and subscriptions.

Tables have the columns that the service takes (`id, x, y`, and `text`, or `keywords` with `weights` where they have
any); of posts also `t`, in milliseconds, which never decreases, and of subscriptions `k` and `alpha`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from formats.commands import MORE, joined
from indexes.core.captured_ids import texts
from indexes.feeds.config import (
    MOST_LETTERS,
    MOST_WEIGHT,
    MOST_WORDS,
    FeedConfig,
    Shown,
    bag_of_shown,
    listed,
    weighted,
)
from indexes.feeds.epochs import Epoch
from indexes.feeds.feed import Remembered
from indexes.feeds.state import FeedState
from indexes.feeds.tokens import STOP_WORDS, tokens
from spark_jobs.feeds.commands import operations
from spark_jobs.feeds.front import Load, Operation, Posts, Subscribe, Tick
from spark_jobs.feeds.source import POSTS


class Unfit(ValueError):
    """An invalid table; the message is one sentence."""


def operations_of(rows: Iterable[tuple[int, str, bytes]], config: FeedConfig, now: int) -> tuple[list[Operation], int]:
    """The operations of rows in order of lsn, and the time after them; `now`: before. Raises `Unfit` and `Damaged`."""
    found: list[Operation] = []
    parts: list[tuple[str, bytes]] = []
    for lsn, command, payload in rows:
        if command == POSTS:
            posts = posts_of(joined([payload]), config, now, f"{lsn}.{len(found)}")
            found.append(posts)
            now = int(posts.times[-1]) if len(posts.times) else now
            if config.span is not None:
                found.append(Tick(now))
        else:
            parts.append((command, payload))
            if not command.endswith(MORE):
                some, now = operations(parts, now)
                found += some
                parts = []
    return found, now


def of_state(state: FeedState) -> list[Operation]:
    """Operations that bring an empty feed to this state."""
    p, s, idf = state.posts, state.subscriptions, state.idf
    remembered = Remembered(state.first, state.next, p.number, p.points, p.at)
    epoch = Epoch(idf.posts, np.array(idf.df, np.int32), idf.last, idf.last_at, idf.expired)
    bags = [bag_of_shown(shown) for shown in p.keywords.shown()]
    load = Load(remembered, p.ids.to_pylist(), bags, epoch, idf.word.to_pylist(), state.now)
    asked = [bag_of_shown(shown) for shown in s.keywords.shown()]
    return [load, Subscribe(texts(state.ids).to_pylist(), asked, s.points, s.k, s.alpha)]


def posts_of(table: pa.Table, config: FeedConfig, now: int, made: str) -> Posts:
    """Posts of a table; missing ids are generated from `made`. Raises `Unfit`."""
    n = len(table)
    bags = [bag_of_shown(shown) for shown in _keywords(table, config, empty=True)]
    times = np.maximum.accumulate(np.maximum(_column(table, "t", np.int64, now), now))
    return Posts(_ids(table, made, n), bags, _points(table), times)


def subscriptions_of(table: pa.Table, config: FeedConfig) -> Subscribe:
    """Subscriptions of a table. Raises `Unfit`."""
    bags = [bag_of_shown(shown) for shown in _keywords(table, config, empty=False)]
    ids = _ids(table, "subscription", len(table))
    if len(set(ids)) < len(ids):
        raise Unfit("a subscription's id is there twice")
    k, alpha = _column(table, "k", np.int64, 10), _column(table, "alpha", np.float64, 0.5)
    if len(table) and not (k.min() >= 1 and alpha.min() >= 0 and alpha.max() <= 1):
        raise Unfit("k is at least 1, and alpha from 0 to 1")
    return Subscribe(ids, bags, _points(table), k, alpha)


def _ids(table: pa.Table, made: str, n: int) -> Sequence[str]:
    if "id" not in table.column_names:
        return [f"{made}.{i}" for i in range(n)]
    ids: list[str] = table["id"].cast(pa.string()).to_pylist()
    if None in ids:
        raise Unfit("an id is missing")
    return ids


def _column(table: pa.Table, name: str, dtype: Any, filler: float) -> np.ndarray[Any, Any]:
    if name not in table.column_names:
        return np.full(len(table), filler, dtype)
    column = table[name]
    if column.null_count:
        raise Unfit(f"a {name} is missing")
    return np.array(column.to_numpy(), dtype)


def _points(table: pa.Table) -> np.ndarray[Any, Any]:
    for name in ("x", "y"):
        if name not in table.column_names:
            raise Unfit(f"there is no column {name}")
    points = np.column_stack([_column(table, name, np.float64, 0.0) for name in ("x", "y")])
    if not np.isfinite(points).all():
        raise Unfit("x and y are numbers")
    return points


def _keywords(table: pa.Table, config: FeedConfig, empty: bool) -> Iterable[Shown]:
    stop = STOP_WORDS if config.stop_words is None else frozenset(config.stop_words)
    if "keywords" in table.column_names:
        words = table["keywords"].to_pylist()
        weights = table["weights"].to_pylist() if "weights" in table.column_names else [None] * len(words)
        shown = [
            listed(some or []) if own is None else weighted(dict(zip(some, own, strict=True)))
            for some, own in zip(words, weights, strict=True)
        ]
    elif "text" in table.column_names:
        shown = [listed(tokens(text or "", stop)) for text in table["text"].to_pylist()]
    else:
        raise Unfit("there is no column keywords, and none called text")
    for one in shown:
        if not one and not empty:
            raise Unfit("a subscription has no keywords")
        if len(one) > MOST_WORDS or not all(0 < len(word) <= MOST_LETTERS for word in one):
            raise Unfit(f"there are at most {MOST_WORDS} keywords, of 1 to {MOST_LETTERS} characters")
        if isinstance(one, dict) and not all(0 < weight <= MOST_WEIGHT for weight in one.values()):
            raise Unfit("a weight is a number above 0")
    return shown
