"""The state of a feed, by column: the content of a snapshot, from which the feed is restored.

Lists are not part of it: they and their scores follow from the window, the epoch and the subscriptions. Entries of
buffers beyond the lists may differ after a restart.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from indexes.core.arrays import Floats, Ints, Ints32, run_lengths, run_places
from indexes.core.captured_ids import lifetimes_by_id, lifetimes_of
from indexes.core.ids import Packed
from indexes.feeds.config import FeedConfig, Keywords, Subscriptions
from indexes.feeds.engine import FeedEngine
from indexes.feeds.epochs import Epoch
from indexes.feeds.feed import Remembered
from indexes.feeds.kernels.cells import Cells, build_cells
from indexes.feeds.kernels.subscriptions import ALPHA, ROW, THETA, X, Y, terms_of
from indexes.feeds.packing import Layout, Statistics
from indexes.feeds.plans.maintenance import Captured, Queries
from indexes.feeds.posts import Piece
from indexes.feeds.subscription_index import CAPACITY

AT_ONCE = 4_096
"""Subscriptions, or posts, that are restored at once."""


class WindowPosts(NamedTuple):
    """Posts of a window by column, in order of their numbers."""

    number: Ints
    seq: Ints
    at: Ints
    ids: pa.StringArray
    keywords: Keywords
    points: Floats
    payload: pa.BinaryArray

    def __len__(self) -> int:
        return len(self.number)


class Idf(NamedTuple):
    """What idf is computed from: as `epochs.Epoch`, with the words in order in place of their numbers."""

    posts: int
    word: pa.StringArray
    df: Ints32
    last: int
    last_at: int | None
    expired: bool


class FeedState(NamedTuple):
    """A feed at `seq`. The window holds the posts with numbers `first` to `next` - 1 that are among `posts`; `now` is
    the time of the last post or tick. Subscriptions are in order of their ids, whose rows count from 0; `ttl` is in
    seconds, NaN for none. `theta` is a score that k posts of the window reach, or 0, or NaN if none is known; it
    speeds up the restoration of lists, and does not change them."""

    config: FeedConfig
    seq: int
    now: int
    first: int
    next: int
    posts: WindowPosts
    idf: Idf
    ids: Packed
    subscriptions: Subscriptions
    ttl: Floats
    theta: Floats


def state_of(captured: Captured) -> FeedState:
    """The state of a captured feed, in any thread. O(n log n)."""
    c = captured
    ids = c.ids.merged()
    slots = ids.row.astype(np.int64)
    ids = ids._replace(row=np.arange(len(slots), dtype=np.int32))
    posts = _posts_of(c)
    theta, some = c.queries.row.reshape(-1, ROW)[slots, THETA], queries_of(c.queries, slots)
    return FeedState(
        c.config, c.seq, c.now, c.first, c.next, posts, _idf_of(c), ids, some, lifetimes_of(ids, c.ttl), theta
    )


def queries_of(queries: Queries, slots: Ints) -> Subscriptions:
    """The queries of the subscriptions in these slots. O(keywords log keywords)."""
    row = queries.row.reshape(-1, ROW)[slots]
    begin, length = queries.begin[slots], queries.length[slots].astype(np.int64)
    end = np.cumsum(length)
    word = queries.word[run_places(begin, length)]
    weight = np.full(len(word), np.nan)
    some = np.flatnonzero(queries.weighted[slots])
    if len(some):
        at, words = terms_of(row[some])
        owner = np.repeat(some, words)
        known = owner << 32 | queries.term[2 * at].astype(np.int64)
        order = np.argsort(known)
        mine = np.flatnonzero(np.repeat(queries.weighted[slots] != 0, length))
        wanted = np.repeat(np.arange(len(slots)), length)[mine] << 32 | word[mine]
        weight[mine] = queries.raw[2 * at][order[np.searchsorted(known[order], wanted)]]
    texts = pa.array(queries.words, pa.string()).take(pa.array(word))
    return Subscriptions(Keywords(end, texts, weight), row[:, [X, Y]], queries.k[slots].astype(np.int64), row[:, ALPHA])


def _posts_of(c: Captured) -> WindowPosts:
    """The posts of the window, in one piece."""
    pieces = [piece for piece in c.pieces if piece.first + len(piece.seq) > c.first]
    none = np.empty(0, np.int64)
    number = np.concatenate([none, *(piece.first + np.arange(len(piece.seq)) for piece in pieces)])
    there = number >= c.first
    there &= ~np.isin(number, np.array(sorted(c.gone), np.int64))
    rows = np.flatnonzero(there)
    joined = [pa.concat_arrays([pa.array([], pa.string()), *(piece.keywords.column() for piece in pieces)])]
    length = np.concatenate([none, *(run_lengths(piece.keywords.end) for piece in pieces)])
    weight = np.concatenate([np.empty(0), *(piece.keywords.weight for piece in pieces)])
    keywords = Keywords(np.cumsum(length), joined[0], weight).take(rows.tolist())
    at = pa.array(rows)
    return WindowPosts(
        number[rows],
        np.concatenate([none, *(piece.seq for piece in pieces)])[rows],
        np.concatenate([none, *(piece.at for piece in pieces)])[rows],
        pa.concat_arrays([pa.array([], pa.string()), *(piece.ids for piece in pieces)]).take(at),
        keywords,
        np.concatenate([np.empty((0, 2)), *(piece.points for piece in pieces)])[rows],
        pa.concat_arrays([pa.array([], pa.binary()), *(piece.payload for piece in pieces)]).take(at),
    )


def _idf_of(c: Captured) -> Idf:
    known = np.flatnonzero(c.epoch.df)
    word = pa.array(c.queries.words, pa.string()).take(pa.array(known))
    order = pc.sort_indices(word)
    df = c.epoch.df[known][order.to_numpy()]
    return Idf(c.epoch.posts, word.take(order), df, c.epoch.last, c.epoch.last_at, c.epoch.expired)


def engine_of(state: FeedState) -> FeedEngine:
    """An engine in this state: posts are restored in the window, and buffers are refilled. O(n log n + terms), and the
    cost of publishing the posts of the window."""
    engine = FeedEngine(state.config, state.seq)
    index, posts = engine.index, state.posts
    words = state.idf.word.to_pylist()
    index.documents([dict.fromkeys(words, 1.0)])
    df = np.zeros(len(index.words), np.int32)
    df[index.words.numbers(words)] = state.idf.df
    epoch = Epoch(state.idf.posts, df, state.idf.last, state.idf.last_at, state.idf.expired)
    documents = index.documents_of(posts.keywords)
    index.load(
        Remembered(state.first, state.next, posts.number, posts.points, posts.at), documents, epoch, state.now
    )  # fmt: skip
    engine.posts_kept.load(state.first, state.next, iter(_pieces(posts)))
    engine.take_up(state.now)
    some = state.subscriptions
    slots = [engine.put(some.part(first, min(len(some), first + AT_ONCE))) for first in range(0, len(some), AT_ONCE)]
    of = np.concatenate([np.empty(0, np.int64), *slots])
    index.fill(of, state.theta)
    engine.names.load(state.ids._replace(row=of.astype(np.int32)[state.ids.row]))
    engine.ttl = lifetimes_by_id(state.ids, state.ttl)
    return engine


def layout_of(state: FeedState) -> Layout:
    """The layout of a new subscription index. O(n depth + words log words)."""
    return Layout(statistics_of(state), cells_of(state.subscriptions))


def cells_of(subscriptions: Subscriptions) -> Cells:
    """The quadtree of subscriptions. O(n depth)."""
    return build_cells(subscriptions.points, CAPACITY)[0]


def statistics_of(state: FeedState) -> Statistics:
    """How many posts of the window contain each word. O(words log words)."""
    keywords = state.posts.keywords
    owner = np.repeat(np.arange(len(keywords)), run_lengths(keywords.end))
    once = pa.table({"word": keywords.column(), "owner": owner}).group_by(["word", "owner"]).aggregate([])
    counted = once.group_by("word").aggregate([("owner", "count")]).sort_by("word")
    return Statistics(counted["word"].to_pylist(), counted["owner_count"].to_numpy().astype(np.int32))


def _pieces(posts: WindowPosts) -> list[Piece]:
    """Posts in pieces with consecutive numbers, of no more than `AT_ONCE`."""
    n = len(posts)
    cuts = np.flatnonzero(np.diff(posts.number) != 1) + 1
    bounds = sorted({0, n, *cuts.tolist(), *range(0, n, AT_ONCE)})
    return [
        Piece(
            int(posts.number[lo]),
            posts.seq[lo:hi],
            posts.at[lo:hi],
            posts.ids.slice(lo, hi - lo),
            posts.keywords.part(lo, hi),
            posts.points[lo:hi],
            posts.payload.slice(lo, hi - lo),
        )
        for lo, hi in pairwise(bounds)
    ]
