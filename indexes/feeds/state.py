"""A feed at rest, by column: what a snapshot holds, and all that a feed is made of again.

Lists are not part of it: they follow from the window, the epoch and the subscriptions, scores too. What buffers hold
beyond the lists may be other than before.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from indexes.feeds.cells import Cells, build_cells
from indexes.feeds.engine import FeedEngine
from indexes.feeds.feed import Epoch, Remembered
from indexes.feeds.model import FeedConfig, Keywords, Subscriptions, bag_of_shown
from indexes.feeds.ordered import CAPACITY
from indexes.feeds.packing import Layout, Statistics
from indexes.feeds.posts import Piece
from indexes.feeds.subscribers import ALPHA, ROW, THETA, X, Y, terms_at
from indexes.feeds.upkeep import Asks, Captured
from indexes.ids import Packed, merge_packed, pack

Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

AT_ONCE = 4_096
"""Subscriptions, or posts, that are taken up at once."""


class WindowPosts(NamedTuple):
    """Posts of a window by column, in order of their numbers."""

    number: Int64
    seq: Int64
    at: Int64
    ids: pa.StringArray
    keywords: Keywords
    points: Float64
    payload: pa.BinaryArray

    def __len__(self) -> int:
        return len(self.number)


class Idf(NamedTuple):
    """What idf is made of: `posts` in the window when the epoch began, 0 where none has, and in how many of them each
    of these words was, in order of the words. `last` is how many posts had come by then since ever, `last_at` the time;
    `expired` says whether a window of time has lost a post."""

    posts: int
    word: pa.StringArray
    df: Int32
    last: int
    last_at: int | None
    expired: bool


class FeedState(NamedTuple):
    """A feed at `seq`. The window holds the posts with numbers from `first` to `next` - 1 that are among `posts`; `now`
    is the time of the last post or tick. Subscriptions are in order of their ids, whose rows count from 0; `ttl` is in
    seconds, NaN for none. `theta` is a score that k posts of the window reach, or 0, NaN where none is known: lists are
    worked out sooner with it, and are the same without."""

    config: FeedConfig
    seq: int
    now: int
    first: int
    next: int
    posts: WindowPosts
    idf: Idf
    ids: Packed
    subscriptions: Subscriptions
    ttl: Float64
    theta: Float64


def state_of(captured: Captured) -> FeedState:
    """Put what was captured in order, in any thread. O(n log n)."""
    c = captured
    recent = pack(pa.array(list(c.recent), pa.string()), np.fromiter(c.recent.values(), np.int32, len(c.recent)))
    ids = merge_packed(c.ids, recent)
    slots = ids.row.astype(np.int64)
    ids = ids._replace(row=np.arange(len(slots), dtype=np.int32))
    ttl = np.full(len(slots), np.nan)
    if c.ttl:
        for i, key in enumerate(texts_of(ids).to_pylist()):
            ttl[i] = c.ttl.get(key, np.nan)
    posts = _posts_of(c)
    theta = c.asks.row.reshape(-1, ROW)[slots, THETA]
    return FeedState(c.config, c.seq, c.now, c.first, c.next, posts, _idf_of(c), ids, asked(c.asks, slots), ttl, theta)


def texts_of(ids: Packed) -> pa.LargeStringArray:
    """Packed ids as an Arrow array over their bytes."""
    offset, text = np.ascontiguousarray(ids.offset), np.ascontiguousarray(ids.text)
    return pa.LargeStringArray.from_buffers(len(ids.row), pa.py_buffer(offset), pa.py_buffer(text))


def asked(asks: Asks, slots: Int64) -> Subscriptions:
    """What the subscriptions in these slots ask for. O(keywords log keywords)."""
    row = asks.row.reshape(-1, ROW)[slots]
    begin, length = asks.begin[slots], asks.length[slots].astype(np.int64)
    end = np.cumsum(length)
    word = asks.word[np.repeat(begin - end + length, length) + np.arange(int(length.sum()))]
    weight = np.full(len(word), np.nan)
    some = np.flatnonzero(asks.weighted[slots])
    if len(some):
        note = row.view(np.int64)[some]
        at = terms_at(note)
        owner = np.repeat(some, note[:, 5])
        known = owner << 32 | asks.term[2 * at].astype(np.int64)
        order = np.argsort(known)
        mine = np.flatnonzero(np.repeat(asks.weighted[slots] != 0, length))
        wanted = np.repeat(np.arange(len(slots)), length)[mine] << 32 | word[mine]
        weight[mine] = asks.raw[2 * at][order[np.searchsorted(known[order], wanted)]]
    texts = pa.array(asks.words, pa.string()).take(pa.array(word))
    return Subscriptions(Keywords(end, texts, weight), row[:, [X, Y]], asks.k[slots].astype(np.int64), row[:, ALPHA])


def _posts_of(c: Captured) -> WindowPosts:
    """The posts that are there, in one piece."""
    pieces = [piece for piece in c.pieces if piece.first + len(piece.seq) > c.first]
    none = np.empty(0, np.int64)
    number = np.concatenate([none, *(piece.first + np.arange(len(piece.seq)) for piece in pieces)])
    there = number >= c.first
    there &= ~np.isin(number, np.array(sorted(c.gone), np.int64))
    rows = np.flatnonzero(there)
    joined = [pa.concat_arrays([pa.array([], pa.string()), *(piece.keywords.word for piece in pieces)])]
    length = np.concatenate([none, *(np.diff(piece.keywords.end, prepend=0) for piece in pieces)])
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
    word = pa.array(c.asks.words, pa.string()).take(pa.array(known))
    order = pc.sort_indices(word)
    df = c.epoch.df[known][order.to_numpy()]
    return Idf(c.epoch.posts, word.take(order), df, c.epoch.last, c.epoch.last_at, c.epoch.expired)


def engine_of(state: FeedState) -> FeedEngine:
    """The engine in that state: posts are put into the window, and come into buffers once more. O(n log n + terms), and
    what the posts of the window would cost that were posted again."""
    engine = FeedEngine(state.config, state.seq)
    index, posts = engine.index, state.posts
    words = state.idf.word.to_pylist()
    index.documents([dict.fromkeys(words, 1.0)])
    df = np.zeros(len(index.words), np.int32)
    df[index.words.numbers(words)] = state.idf.df
    epoch = Epoch(state.idf.posts, df, state.idf.last, state.idf.last_at, state.idf.expired)
    documents = index.documents([bag_of_shown(one) for one in posts.keywords.shown()])
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
    keys = texts_of(state.ids)
    engine.ttl = {keys[i].as_py(): float(state.ttl[i]) for i in np.flatnonzero(~np.isnan(state.ttl)).tolist()}
    return engine


def layout_of(state: FeedState) -> Layout:
    """By what the subscriptions of a feed are laid out anew. O(n depth + words log words)."""
    return Layout(statistics_of(state), cells_of(state.subscriptions))


def cells_of(subscriptions: Subscriptions) -> Cells:
    """The quadtree of subscriptions. O(n depth)."""
    return build_cells(subscriptions.points, CAPACITY)[0]


def statistics_of(state: FeedState) -> Statistics:
    """In how many posts of the window each word is. O(words log words)."""
    keywords = state.posts.keywords
    owner = np.repeat(np.arange(len(keywords)), np.diff(keywords.end, prepend=0))
    once = pa.table({"word": keywords.word, "owner": owner}).group_by(["word", "owner"]).aggregate([])
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
