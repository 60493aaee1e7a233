"""The posts of the window, by number and by word.

Posts are numbered in order of arrival from 0; a post lies in place `number & (room - 1)` of columns whose length is a
power of two, and so do the terms (word and weight) of all posts, one post's behind the other's. By word there is a
chain of chunks from old to new with the posts that have it: that is what a subscription is evaluated from. A chunk is
free again once its newest post has left.

A post that is withdrawn keeps its number; in the chunks its weights are below 0 from then on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes import aligned
from indexes.feeds.weights import weigh
from indexes.feeds.words import Documents
from indexes.lean import inner_kernel, lean_kernel

Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

NONE = -1

CHUNK = 16
"""Posts of a chunk."""

FIRST, NEXT, TERM_FIRST, TERM_NEXT, FREE_CHUNK, FREE_CHUNKS, THERE = range(7)
"""Places in `Window.size`: the oldest post of the window, the number of the next, the same of terms; the first free
chunk and how many there are; and how many posts of the window are not withdrawn."""


class Window(NamedTuple):
    """The arrays."""

    x: Float64  # by place, as the next five
    y: Float64
    time: Int64
    term: Int64  # the number of its first term
    terms: Int32
    gone: NDArray[np.uint8]  # withdrawn
    word: Int32  # by term
    raw: Float64  # its weight as given
    weight: Float64  # and of unit length
    idf: Float64  # by word, as the next three
    df: Int32
    oldest: Int32  # chunks
    newest: Int32
    after: Int32  # by chunk: the next one of its word, or of the free ones
    used: Int32
    chunk_post: Int64  # by chunk, then place in it
    chunk_weight: Float64
    size: Int64


def empty_window() -> Window:
    """A window without posts and words."""
    i32, i64, f64 = np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0)
    v = Window(
        f64, f64, i64, i64, i32, i32.astype(np.uint8), i32, f64, f64, f64, i32, i32, i32, i32, i32, i64, f64, i64
    )
    return v._replace(size=np.array([0, 0, 0, 0, NONE, 0, 0]))


def with_room(v: Window, posts: int, terms: int, words: int, unknown: float) -> Window:
    """With room for so many more posts and terms, and words below `words`, to which idf is `unknown` where they are
    new. O(1) amortized."""
    size = v.size
    if size[NEXT] - size[FIRST] + posts > len(v.x):
        room, old = _power(int(size[NEXT] - size[FIRST]) + posts), np.arange(size[FIRST], size[NEXT])
        v = v._replace(
            **{name: _moved(getattr(v, name), room, old) for name in ("x", "y", "time", "term", "terms", "gone")}
        )
    if size[TERM_NEXT] - size[TERM_FIRST] + terms > len(v.word):
        room, old = (
            _power(int(size[TERM_NEXT] - size[TERM_FIRST]) + terms),
            np.arange(size[TERM_FIRST], size[TERM_NEXT]),
        )
        v = v._replace(**{name: _moved(getattr(v, name), room, old) for name in ("word", "raw", "weight")})
    if words > len(v.df):
        room = max(words, 2 * len(v.df), 64)
        v = v._replace(
            idf=_longer(v.idf, room, unknown),
            df=_longer(v.df, room, 0),
            oldest=_longer(v.oldest, room, NONE),
            newest=_longer(v.newest, room, NONE),
        )
    if size[FREE_CHUNKS] < terms:
        had = len(v.after)
        room = max(had + terms, 3 * had // 2)
        after = _longer(v.after, room, NONE)
        after[had:-1] = np.arange(had + 1, room)
        after[-1] = size[FREE_CHUNK]
        size[FREE_CHUNK] = had
        size[FREE_CHUNKS] += room - had
        v = v._replace(
            after=after,
            used=_longer(v.used, room, 0),
            chunk_post=_longer(v.chunk_post, room * CHUNK, 0),
            chunk_weight=_longer(v.chunk_weight, room * CHUNK, 0.0),
        )
    return v


def posts_of(v: Window) -> Int64:
    """The numbers of the posts in the window, without those withdrawn. O(window)."""
    numbers = np.arange(v.size[FIRST], v.size[NEXT])
    return numbers[v.gone[numbers & (len(v.x) - 1)] == 0] if len(numbers) else numbers


def document_of(v: Window, number: int) -> Documents:
    """What a post of the window was posted with. O(its words)."""
    at = number & (len(v.x) - 1)
    terms = np.arange(v.term[at], v.term[at] + v.terms[at]) & (len(v.word) - 1)
    return Documents(np.array([len(terms)]), v.word[terms], v.raw[terms])


def _power(n: int) -> int:
    return max(64, 1 << (n - 1).bit_length())


def _moved(column: NDArray, room: int, old: Int64) -> NDArray:
    longer = aligned.zeros(room, column.dtype)
    if len(old):
        longer[old & (room - 1)] = column[old & (len(column) - 1)]
    return longer


def _longer(column: NDArray, room: int, filler: float) -> NDArray:
    longer = aligned.empty(room, column.dtype)
    longer[: len(column)] = column
    longer[len(column) :] = filler
    return longer


@inner_kernel
def enter(v, x, y, time, word, weight, begin, end):  # type: ignore[no-untyped-def]
    """A post comes, with the terms from `begin` to `end` of these columns. O(its words)."""
    number, mask, at = v.size[NEXT], v.word.size - 1, v.size[TERM_NEXT]
    place = number & (v.x.size - 1)
    v.x[place], v.y[place], v.time[place] = x, y, time
    v.term[place], v.terms[place], v.gone[place] = at, end - begin, 0
    for i in range(begin, end):
        here = (at + i - begin) & mask
        v.word[here], v.raw[here] = word[i], weight[i]
        v.df[word[i]] += 1
    v.size[NEXT], v.size[TERM_NEXT] = number + 1, at + end - begin
    v.size[THERE] += 1
    enter_terms(v, number)


@lean_kernel
def enter_all(v, batch, gone):  # type: ignore[no-untyped-def]
    """The posts of a batch come, those that are `gone` as withdrawn ones; these have no words. O(words)."""
    begin = 0
    for i in range(batch.end.size):
        number, end = v.size[NEXT], batch.end[i]
        enter(v, batch.x[i], batch.y[i], batch.time[i], batch.word, batch.weight, begin, end)
        begin = end
        if gone[i]:
            v.gone[number & (v.x.size - 1)] = 1
            v.size[THERE] -= 1


@inner_kernel
def enter_terms(v, number):  # type: ignore[no-untyped-def]
    """Give the words of a post their unit weights, and them a place in the chunks."""
    place, mask = number & (v.x.size - 1), v.word.size - 1
    begin = v.term[place]
    end = begin + v.terms[place]
    weigh(v.word, v.raw, v.idf, begin, end, mask, v.weight, 0, 1)
    for i in range(begin, end):
        w = v.word[i & mask]
        chunk = np.int64(v.newest[w])
        if chunk == NONE or v.used[chunk] == CHUNK:
            fresh = v.size[FREE_CHUNK]
            v.size[FREE_CHUNK] = v.after[fresh]
            v.size[FREE_CHUNKS] -= 1
            v.after[fresh], v.used[fresh] = NONE, 0
            if chunk == NONE:
                v.oldest[w] = fresh
            else:
                v.after[chunk] = fresh
            v.newest[w] = fresh
            chunk = fresh
        at = chunk * CHUNK + v.used[chunk]
        v.chunk_post[at], v.chunk_weight[at] = number, v.weight[i & mask]
        v.used[chunk] += 1


@inner_kernel
def leave(v):  # type: ignore[no-untyped-def]
    """The oldest post goes. O(its words)."""
    number, mask = v.size[FIRST], v.word.size - 1
    place = number & (v.x.size - 1)
    begin = v.term[place]
    end = begin + v.terms[place]
    for i in range(begin, end):
        w = v.word[i & mask]
        chunk = np.int64(v.oldest[w])
        if v.chunk_post[chunk * CHUNK + v.used[chunk] - 1] <= number:
            v.oldest[w] = v.after[chunk]
            if v.oldest[w] == NONE:
                v.newest[w] = NONE
            v.after[chunk] = v.size[FREE_CHUNK]
            v.size[FREE_CHUNK] = chunk
            v.size[FREE_CHUNKS] += 1
        if v.gone[place] == 0:
            v.df[w] -= 1
    v.size[FIRST], v.size[TERM_FIRST] = number + 1, end
    v.size[THERE] -= 1 - v.gone[place]


@inner_kernel
def strike(v, number):  # type: ignore[no-untyped-def]
    """A post of the window is withdrawn. O(posts with its words)."""
    place, mask = number & (v.x.size - 1), v.word.size - 1
    begin = v.term[place]
    for i in range(begin, begin + v.terms[place]):
        w = v.word[i & mask]
        chunk = np.int64(v.oldest[w])
        while v.chunk_post[chunk * CHUNK + v.used[chunk] - 1] < number:
            chunk = np.int64(v.after[chunk])
        for at in range(chunk * CHUNK, chunk * CHUNK + v.used[chunk]):
            if v.chunk_post[at] == number:
                v.chunk_weight[at] = -1.0
        v.df[w] -= 1
    v.gone[place] = 1
    v.size[THERE] -= 1


@lean_kernel
def weigh_anew(v):  # type: ignore[no-untyped-def]
    """Another idf counts: all posts get other weights, and the chunks are made anew. O(terms + words + chunks)."""
    v.oldest[:] = NONE
    v.newest[:] = NONE
    chunks = v.after.size
    for chunk in range(chunks):
        v.after[chunk] = chunk + 1
        v.used[chunk] = 0
    if chunks:
        v.after[chunks - 1] = NONE
    v.size[FREE_CHUNK] = 0 if chunks else NONE
    v.size[FREE_CHUNKS] = chunks
    for number in range(v.size[FIRST], v.size[NEXT]):
        enter_terms(v, number)
        place, mask = number & (v.x.size - 1), v.word.size - 1
        if v.gone[place]:
            for i in range(v.term[place], v.term[place] + v.terms[place]):
                newest = np.int64(v.newest[v.word[i & mask]])
                v.chunk_weight[newest * CHUNK + v.used[newest] - 1] = -1.0
