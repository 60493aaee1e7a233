"""The posts of the window, by number and by word.

Posts are numbered in order of arrival from 0. A post lies in place `number & (room - 1)` of columns whose length is a
power of two; so do the terms (word and weight) of all posts, post by post. Each word has a chain of chunks, from old to
new, with the posts that contain it: evaluations read these. A chunk is free again once its newest post has left.

A withdrawn post keeps its number; its weights in the chunks become negative.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.compiled.jit import internal, kernel
from indexes.compiled.kept import Words, declare, unpacked
from indexes.core import aligned
from indexes.core.arrays import Bytes, Floats, Ints, Ints32, int64
from indexes.feeds.kernels.arena import grown
from indexes.feeds.kernels.weights import weigh

NONE = -1

CHUNK = 16
"""Posts of a chunk."""

WORDS_OF_ONE = 64
"""The most words of a `OnePost`."""

FIRST, NEXT, TERM_FIRST, TERM_NEXT, FREE_CHUNK, FREE_CHUNKS, THERE = range(7)
"""Places in `Window.size`: the numbers of the oldest post and of the next one, the same of terms; the first free chunk
and the number of free chunks; and the number of posts of the window that are not withdrawn."""


class Batch(NamedTuple):
    """Posts in order, and the number of lists that hold each of them right after it."""

    points: Floats  # (n, 2)
    time: Ints
    end: Ints  # of its terms
    word: Ints32
    weight: Floats
    reached: Ints32


class OnePost:
    """A batch of one post in memory that stays where it is: its arrays are made once, for one post after the other.

    Between two commits all that a post touches has left the caches, and the six arrays of a batch, with what numba asks
    of each, take as long as the post itself.
    """

    def __init__(self) -> None:
        heads, words = 4 * 8, WORDS_OF_ONE
        self._memory = np.zeros(heads + 12 * words + 4, np.uint8)
        head, weight, word, reached = np.split(self._memory, [heads, heads + 8 * words, heads + 12 * words])
        place, time, end = head.view(np.float64), head[16:24].view(np.int64), head[24:32].view(np.int64)
        self.batch = Batch(
            place[:2].reshape(1, 2), time, end, word.view(np.int32), weight.view(np.float64), reached.view(np.int32)
        )
        self._formats = [Struct(f"=2d2q{n}d{8 * (words - n)}x{n}i") for n in range(words + 1)]

    def fill(self, x: float, y: float, time: int, word: Sequence[int], weight: Sequence[float]) -> Batch:
        """The batch of this post, valid until the next one: its words by number, and their weights."""
        n = len(word)
        self._formats[n].pack_into(self._memory.data, 0, x, y, time, n, *weight, *word)
        return self.batch


class Window(NamedTuple):
    """The arrays."""

    x: Floats  # by place, as the next five
    y: Floats
    time: Ints
    term: Ints  # the number of its first term
    terms: Ints32
    gone: Bytes  # withdrawn
    word: Ints32  # by term
    raw: Floats  # its weight as given
    weight: Floats  # scaled to unit length
    idf: Floats  # by word, as the next three
    df: Ints32
    oldest: Ints32  # chunks
    newest: Ints32
    after: Ints32  # by chunk: the next one of its word, or of the free ones
    used: Ints32
    chunk_post: Ints  # by chunk, then place in it
    chunk_weight: Floats
    size: Ints


def empty_window() -> Window:
    """A window without posts and words."""
    i32, i64, f64 = np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0)
    window = Window(
        f64, f64, i64, i64, i32, i32.astype(np.uint8), i32, f64, f64, f64, i32, i32, i32, i32, i32, i64, f64, i64
    )
    return window._replace(size=np.array([0, 0, 0, 0, NONE, 0, 0]))


class KeptWindow(NamedTuple):
    """A window, as kernels keep it."""

    words: Words


declare(KeptWindow, lambda: (empty_window(),))


def with_room(window: Window, posts: int, terms: int, words: int, unknown: float) -> Window:
    """A window with room for so many more posts and terms, and for words below `words`; the idf of new ones is
    `unknown`. O(1) amortized."""
    size = window.size
    first, end, first_term, end_term, _, chunks, _ = size.tolist()
    if end - first + posts > len(window.x):
        room, old = _power(end - first + posts), np.arange(first, end)
        window = window._replace(
            **{name: _moved(getattr(window, name), room, old) for name in ("x", "y", "time", "term", "terms", "gone")}
        )
    if end_term - first_term + terms > len(window.word):
        room, old = _power(end_term - first_term + terms), np.arange(first_term, end_term)
        terms_ = ("word", "raw", "weight")
        window = window._replace(**{name: _moved(getattr(window, name), room, old) for name in terms_})
    if words > len(window.df):
        room = max(words, 2 * len(window.df), 64)
        window = window._replace(
            idf=grown(window.idf, room, unknown),
            df=grown(window.df, room, 0),
            oldest=grown(window.oldest, room, NONE),
            newest=grown(window.newest, room, NONE),
        )
    if chunks < terms:
        had = len(window.after)
        room = max(had + terms, 3 * had // 2)
        after = grown(window.after, room, NONE)
        after[had:-1] = np.arange(had + 1, room)
        after[-1] = size[FREE_CHUNK]
        size[FREE_CHUNK] = had
        size[FREE_CHUNKS] += room - had
        window = window._replace(
            after=after,
            used=grown(window.used, room, 0),
            chunk_post=grown(window.chunk_post, room * CHUNK, 0),
            chunk_weight=grown(window.chunk_weight, room * CHUNK, 0.0),
        )
    return window


def _power(n: int) -> int:
    return max(64, 1 << (n - 1).bit_length())


def _moved(column: NDArray, room: int, old: Ints) -> NDArray:
    longer = aligned.zeros(room, column.dtype)
    if len(old):
        longer[old & (room - 1)] = column[old & (len(column) - 1)]
    return longer


@internal
def has_room(window: Window, batch: Batch) -> bool:
    """Whether there is room for a post of a batch that has no other one. O(its words)."""
    posts, used = window.size[NEXT] - window.size[FIRST], window.size[TERM_NEXT] - window.size[TERM_FIRST]
    terms, most = batch.end[0], int64(0)
    for i in range(terms):
        most = max(most, int64(batch.word[i]))
    free = window.size[FREE_CHUNKS] >= terms and posts < window.x.size
    return free and used + terms <= window.word.size and most < window.df.size


@internal
def enter(window: Window, batch: Batch, i: int) -> None:
    """Append post i of a batch. O(its words)."""
    begin, end = batch.end[i - 1] if i else 0, batch.end[i]
    number, mask, at = window.size[NEXT], window.word.size - 1, window.size[TERM_NEXT]
    place = number & (window.x.size - 1)
    window.x[place], window.y[place], window.time[place] = batch.points[i, 0], batch.points[i, 1], batch.time[i]
    window.term[place], window.terms[place], window.gone[place] = at, end - begin, 0
    for t in range(begin, end):
        here = (at + t - begin) & mask
        window.word[here], window.raw[here] = batch.word[t], batch.weight[t]
        window.df[batch.word[t]] += 1
    window.size[NEXT], window.size[TERM_NEXT] = number + 1, at + end - begin
    window.size[THERE] += 1
    enter_terms(window, number)


@internal
def enter_all(window: Window, batch: Batch, gone: Bytes) -> None:
    """Append the posts of a batch; those that are `gone` are withdrawn, and have no words. O(words)."""
    for i in range(batch.end.size):
        number = window.size[NEXT]
        enter(window, batch, i)
        if gone[i]:
            window.gone[number & (window.x.size - 1)] = 1
            window.size[THERE] -= 1


@kernel
def enter_kept(kept: Any, batch: Batch, gone: Bytes) -> None:
    """As `enter_all`, with a window that is kept."""
    (window,) = unpacked(kept)
    enter_all(window, batch, gone)


@internal
def enter_terms(window: Window, number: int) -> None:
    """Compute the unit weights of a post's words, and append them to the chunks."""
    place, mask = number & (window.x.size - 1), window.word.size - 1
    begin = window.term[place]
    end = begin + window.terms[place]
    weigh(window.word, window.raw, window.idf, begin, end, mask, window.weight, 1)
    for i in range(begin, end):
        w = window.word[i & mask]
        chunk = int64(window.newest[w])
        if chunk == NONE or window.used[chunk] == CHUNK:
            fresh = window.size[FREE_CHUNK]
            window.size[FREE_CHUNK] = window.after[fresh]
            window.size[FREE_CHUNKS] -= 1
            window.after[fresh], window.used[fresh] = NONE, 0
            if chunk == NONE:
                window.oldest[w] = fresh
            else:
                window.after[chunk] = fresh
            window.newest[w] = fresh
            chunk = fresh
        at = chunk * CHUNK + window.used[chunk]
        window.chunk_post[at], window.chunk_weight[at] = number, window.weight[i & mask]
        window.used[chunk] += 1


@internal
def leave(window: Window) -> None:
    """Remove the oldest post. O(its words)."""
    number, mask = window.size[FIRST], window.word.size - 1
    place = number & (window.x.size - 1)
    begin = window.term[place]
    end = begin + window.terms[place]
    for i in range(begin, end):
        w = window.word[i & mask]
        chunk = int64(window.oldest[w])
        if window.chunk_post[chunk * CHUNK + window.used[chunk] - 1] <= number:
            window.oldest[w] = window.after[chunk]
            if window.oldest[w] == NONE:
                window.newest[w] = NONE
            window.after[chunk] = window.size[FREE_CHUNK]
            window.size[FREE_CHUNK] = chunk
            window.size[FREE_CHUNKS] += 1
        if window.gone[place] == 0:
            window.df[w] -= 1
    window.size[FIRST], window.size[TERM_FIRST] = number + 1, end
    window.size[THERE] -= 1 - window.gone[place]


@internal
def strike(window: Window, number: int) -> None:
    """Withdraw a post of the window. O(posts with its words)."""
    place, mask = number & (window.x.size - 1), window.word.size - 1
    begin = window.term[place]
    for i in range(begin, begin + window.terms[place]):
        w = window.word[i & mask]
        chunk = int64(window.oldest[w])
        while window.chunk_post[chunk * CHUNK + window.used[chunk] - 1] < number:
            chunk = int64(window.after[chunk])
        for at in range(chunk * CHUNK, chunk * CHUNK + window.used[chunk]):
            if window.chunk_post[at] == number:
                window.chunk_weight[at] = -1.0
        window.df[w] -= 1
    window.gone[place] = 1
    window.size[THERE] -= 1


@internal
def leave_until(window: Window, first: int) -> None:
    """Remove the posts before this one. O(their words)."""
    while window.size[FIRST] < first:
        leave(window)


@kernel
def leave_kept(kept: Any, first: int) -> None:
    """As `leave_until`, with a window that is kept."""
    (window,) = unpacked(kept)
    leave_until(window, first)


@kernel
def strike_all(window: Window, posts: Ints) -> None:
    """Withdraw these posts of the window. O(posts with their words)."""
    for i in range(posts.size):
        strike(window, posts[i])


@kernel
def reweigh(window: Window) -> None:
    """Compute the weights of all posts again, after a change of idf, and rebuild the chunks.
    O(terms + words + chunks)."""
    window.oldest[:] = NONE
    window.newest[:] = NONE
    chunks = window.after.size
    for chunk in range(chunks):
        window.after[chunk] = chunk + 1
        window.used[chunk] = 0
    if chunks:
        window.after[chunks - 1] = NONE
    window.size[FREE_CHUNK] = 0 if chunks else NONE
    window.size[FREE_CHUNKS] = chunks
    for number in range(window.size[FIRST], window.size[NEXT]):
        enter_terms(window, number)
        place, mask = number & (window.x.size - 1), window.word.size - 1
        if window.gone[place]:
            for i in range(window.term[place], window.term[place] + window.terms[place]):
                newest = int64(window.newest[window.word[i & mask]])
                window.chunk_weight[newest * CHUNK + window.used[newest] - 1] = -1.0
