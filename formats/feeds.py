"""A feed on disk: its part of a snapshot, three Parquet files; its image is parts (`formats.parts`).

A snapshot holds what the feed is (`FeedState`): the posts of the window in order of their numbers, the words that idf
is made of, and subscriptions in order of id; `docs/operations.md` names the columns. Lists are not there: they follow
from these, scores too.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from formats.columns import joined, read_table, strings, write_table
from formats.commands import one_array
from formats.feed_fields import WEIGHTS, WORDS, config_fields, config_of, keyword_columns, keywords_of
from formats.folder import Damaged, Draft, Folder
from indexes.core.ids import Packed
from indexes.feeds.config import Subscriptions
from indexes.feeds.state import FeedState, Idf, WindowPosts

RESOURCE = "feeds/"

POSTS = pa.schema(
    [
        pa.field("number", pa.int64(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("at", pa.int64(), nullable=False),
        pa.field("id", pa.string(), nullable=False),
        pa.field("words", WORDS, nullable=False),
        pa.field("weights", WEIGHTS),
        pa.field("x", pa.float64(), nullable=False),
        pa.field("y", pa.float64(), nullable=False),
        pa.field("payload", pa.binary()),
    ]
)
"""Posts of the window: `number` counts all posts of the feed from 0, `at` is when it came, in milliseconds, `words` are
the keywords as they were given, casefolded, and `weights` theirs, null for keywords without; `payload` is JSON."""

EPOCH = pa.schema([pa.field("word", pa.string(), nullable=False), pa.field("df", pa.int32(), nullable=False)])
"""The number of posts with each word when the epoch began, in order of the words."""

SUBSCRIPTIONS = pa.schema(
    [
        pa.field("id", pa.large_string(), nullable=False),
        pa.field("words", WORDS, nullable=False),
        pa.field("weights", WEIGHTS),
        pa.field("x", pa.float64(), nullable=False),
        pa.field("y", pa.float64(), nullable=False),
        pa.field("k", pa.int64(), nullable=False),
        pa.field("alpha", pa.float64(), nullable=False),
        pa.field("ttl", pa.float64()),
        pa.field("theta", pa.float64()),
    ]
)
"""Subscriptions: `words` and `weights` as of posts, `ttl` in seconds. `theta` is a score that k posts of the window
reach, or 0; null in older snapshots."""

SINCE: dict[str, Any] = {"theta": None}
"""Columns of subscriptions that older snapshots lack."""


def write_state(draft: Draft, name: str, state: FeedState) -> dict[str, Any]:
    """Write a feed's part of a snapshot; returns its entry in the manifest."""
    p, s = state.posts, state.subscriptions
    posts = [p.number, p.seq, p.at, p.ids, *keyword_columns(p.keywords).values(), *p.points.T, p.payload]
    write_table(draft, posts_at(name), POSTS, posts)
    write_table(draft, epoch_at(name), EPOCH, [state.idf.word, state.idf.df])
    ttl = pa.array(state.ttl, pa.float64(), mask=np.isnan(state.ttl))
    subscriptions = [
        strings(state.ids),
        *keyword_columns(s.keywords).values(),
        *s.points.T,
        s.k,
        s.alpha,
        ttl,
        state.theta,
    ]
    write_table(draft, subscriptions_at(name), SUBSCRIPTIONS, subscriptions)
    return {
        "seq": state.seq,
        "config": config_fields(state.config),
        "now": state.now,
        "first": state.first,
        "next": state.next,
        "posts": len(p),
        "subscriptions": len(s),
        "epoch": {
            "posts": state.idf.posts,
            "words": len(state.idf.df),
            "last": state.idf.last,
            "last_at": state.idf.last_at,
            "expired": state.idf.expired,
        },
    }


def read_state(folder: Folder, name: str, about: dict[str, Any]) -> FeedState:
    """Read a feed's part of a snapshot; `about` is its entry in the manifest. Raises `Damaged`."""
    epoch, table = about["epoch"], read_table(folder, epoch_at(name), EPOCH)
    _counted(folder, epoch_at(name), table, epoch["words"])
    idf = Idf(
        epoch["posts"], one_array(table["word"]), table["df"].to_numpy(), epoch["last"], epoch["last_at"],
        epoch["expired"],
    )  # fmt: skip
    posts = read_posts(folder, name, about)
    found = read_table(folder, subscriptions_at(name), SUBSCRIPTIONS, SINCE)
    _counted(folder, subscriptions_at(name), found, about["subscriptions"])
    return FeedState(
        config_of(about["config"]),
        about["seq"],
        about["now"],
        about["first"],
        about["next"],
        posts,
        idf,
        Packed(*joined(found["id"]), np.arange(len(found), dtype=np.int32)),
        _subscriptions(folder, name, found),
        found["ttl"].to_numpy(),
        found["theta"].to_numpy(),
    )


def read_posts(folder: Folder, name: str, about: dict[str, Any]) -> WindowPosts:
    """The posts of a snapshot, in order of their numbers. Raises `Damaged`."""
    place = posts_at(name)
    table = read_table(folder, place, POSTS)
    _counted(folder, place, table, about["posts"])
    number = table["number"].to_numpy()
    in_order = bool((np.diff(number) > 0).all())
    if len(number) and not (in_order and about["first"] <= number[0] and number[-1] < about["next"]):
        raise Damaged(f"{folder}/{place} holds other posts than its manifest says")
    try:
        keywords = keywords_of(table)
    except ValueError as error:
        raise Damaged(f"{folder}/{place} cannot be read: {error}") from error
    return WindowPosts(
        number,
        table["seq"].to_numpy(),
        table["at"].to_numpy(),
        one_array(table["id"]),
        keywords,
        np.column_stack([table["x"].to_numpy(), table["y"].to_numpy()]),
        one_array(table["payload"]),
    )


def read_subscriptions(folder: Folder, name: str, about: dict[str, Any]) -> Subscriptions:
    """The subscriptions of a snapshot, in order of id. Raises `Damaged`."""
    table = read_table(folder, subscriptions_at(name), SUBSCRIPTIONS, SINCE)
    _counted(folder, subscriptions_at(name), table, about["subscriptions"])
    return _subscriptions(folder, name, table)


def posts_at(name: str) -> str:
    """The path in a snapshot of the posts of a feed."""
    return f"{RESOURCE}{name}/posts.parquet"


def epoch_at(name: str) -> str:
    """The path in a snapshot of the words of a feed's epoch."""
    return f"{RESOURCE}{name}/epoch.parquet"


def subscriptions_at(name: str) -> str:
    """The path in a snapshot of the subscriptions of a feed."""
    return f"{RESOURCE}{name}/subscriptions.parquet"


def _subscriptions(folder: Folder, name: str, table: pa.Table) -> Subscriptions:
    points = np.column_stack([table["x"].to_numpy(), table["y"].to_numpy()])
    try:
        return Subscriptions(keywords_of(table), points, table["k"].to_numpy(), table["alpha"].to_numpy())
    except ValueError as error:
        raise Damaged(f"{folder}/{subscriptions_at(name)} cannot be read: {error}") from error


def _counted(folder: Folder, place: str, table: pa.Table, rows: int) -> None:
    if len(table) != rows:
        raise Damaged(f"{folder}/{place} holds other numbers of rows than its manifest says")
