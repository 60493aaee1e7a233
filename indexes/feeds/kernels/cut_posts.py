"""Posts are cut out of the JSON of requests: what they say becomes columns without a Python object for any of it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.compiled.decimals import POWERS
from indexes.compiled.jit import inlined, internal, kernel
from indexes.compiled.text import EIGHT, Pieces, pieces_of, put
from indexes.core.arrays import Bools, Bytes, Ints, UInt64s, int64, uint64
from indexes.core.cutting import (
    IN_ID,
    LONGEST_ID,
    LONGEST_NUMBER,
    POINT,
    SPACE,
    float_at,
    id_end,
    same,
)
from indexes.feeds.config import MOST_LETTERS, MOST_WORDS
from indexes.feeds.kernels.word_order import differ, is_less, next_word

NAMES = pieces_of(['"posts"', '"id"', '"location"', '"keywords"'])
"""The names of what a request says, and of what is said of a post."""

POSTS, ID, LOCATION, KEYWORDS = range(4)

IN_WORD = np.zeros(256, np.bool_)
"""The bytes of a word that is surely casefolded where it is ASCII. None of them is a space or escaped."""
IN_WORD[SPACE + 1 :] = True
IN_WORD[list(b'"\\ABCDEFGHIJKLMNOPQRSTUVWXYZ')] = False

TAB, RETURN, QUOTE, COMMA, COLON = 9, 13, 34, 44, 58
OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT = 91, 93, 123, 125

MOST_COMPARED = 32
"""Words out of order of which each is compared with all before it."""

NAN = uint64(0x7FF8000000000000)
"""The bits of NaN."""


class Tables(NamedTuple):
    """The bytes that ids and words may have, by byte, and the powers that numbers are read by."""

    in_id: Bools
    in_word: Bools
    powers: UInt64s


TABLES = Tables(IN_ID, IN_WORD, POWERS)


class CutPosts(NamedTuple):
    """What posts say. Ids and words have a SPACE behind each; an id that a post leaves out is empty. Places, two
    numbers for each post, and the weights of words are bits of floats; a word of a list has the weight NaN."""

    ids: Bytes
    words: Bytes
    word_end: Ints  # by post
    places: UInt64s
    weights: UInt64s
    size: Ints  # used bytes of ids and of words, words, and those of lists


IDS, WORDS, COUNT, LISTED = range(4)
"""The entries of `CutPosts.size`."""


def room(size: int, posts: int) -> CutPosts:
    """Room for what is cut out of requests with so many bytes, and for EIGHT bytes behind ids and words."""
    texts = np.empty((2, size + posts + EIGHT), np.uint8)
    places, weights = np.empty(2 * posts, np.uint64), np.empty(size // 2 + 2, np.uint64)
    return CutPosts(texts[0], texts[1], np.empty(posts, np.int64), places, weights, np.zeros(4, np.int64))


@kernel
def cut_posts(text: Bytes, spans: Ints, names: Pieces, tables: Tables, out: CutPosts) -> int:
    """Cut posts out of the bodies that begin and end at these places, two by two: each is an object with a list `posts`
    that has one element, with a `location`, `keywords` and perhaps an `id`, in any order.

    Returns how many were cut before one that is not surely such a body, or in which something may be wrong: escaped or
    large letters, a word with a space in it, none, very many or repeated words. A character of JSON is behind each
    body, and at least EIGHT bytes behind the last. O(bytes), and O(MOST_COMPARED) a word where they are not in order.
    """
    n, good, size = 0, True, out.size
    while good and n < len(out.word_end):
        ids, words, count, listed = size[IDS], size[WORDS], size[COUNT], size[LISTED]
        begin, end = spans[uint64(2 * n)], spans[uint64(2 * n + 1)]
        at = _past(text, begin, OPEN_OBJECT)
        at = _named(text, at, names, POSTS)
        at = _past(text, at, OPEN_LIST)
        at = _post(text, at, n, names, tables, out)
        at = _past(text, at, CLOSE_LIST)
        at = _past(text, at, CLOSE_OBJECT)
        good = at == end
        n += good
    if not good:
        size[IDS], size[WORDS], size[COUNT], size[LISTED] = ids, words, count, listed
    return n


@inlined
def _space_end(text: Bytes, at: int) -> int:
    """Where space ends, of which compact JSON has none; a newline is behind a request, not in it."""
    while text[uint64(at)] == SPACE or text[uint64(at)] == TAB or text[uint64(at)] == RETURN:
        at += 1
    return at


@inlined
def _past(text: Bytes, at: int, character: int) -> int:
    """The place behind a character, and space; below 0 where another one is here, or `at` is."""
    if at < 0 or text[uint64(at)] != character:
        return int64(-1)
    return _space_end(text, at + 1)


@inlined
def _named(text: Bytes, at: int, names: Pieces, name: int) -> int:
    """The place of the value behind a name; below 0 where there is another one."""
    piece = names.begin[name]
    length = names.begin[name + 1] - piece
    if at < 0 or not same(text, at, names.text, piece, length):
        return int64(-1)
    return _past(text, _space_end(text, at + length), COLON)


@inlined
def _post(text: Bytes, at: int, n: int, names: Pieces, tables: Tables, out: CutPosts) -> int:
    """Cut a post; returns the place behind it, below 0 where something may be wrong."""
    at = _past(text, at, OPEN_OBJECT)
    has_id = has_place = has_words = False
    more = at >= 0
    while more:
        # The first letter tells names apart.
        letter = text[uint64(at + 1)]
        if letter == names.text[names.begin[ID] + 1] and not has_id:
            has_id = True
            at = _id(text, _named(text, at, names, ID), tables.in_id, out)
        elif letter == names.text[names.begin[LOCATION] + 1] and not has_place:
            has_place = True
            at = _place(text, _named(text, at, names, LOCATION), n, tables.powers, out)
        elif letter == names.text[names.begin[KEYWORDS] + 1] and not has_words:
            has_words = True
            at = _keywords(text, _named(text, at, names, KEYWORDS), n, tables, out)
        else:
            at = int64(-1)
        more = at >= 0 and text[uint64(at)] == COMMA
        if more:
            at = _space_end(text, at + 1)
    if not has_id:
        out.ids[uint64(out.size[IDS])] = SPACE
        out.size[IDS] += 1
    return _past(text, at, CLOSE_OBJECT) if has_place and has_words else int64(-1)


@inlined
def _id(text: Bytes, at: int, in_id: Bools, out: CutPosts) -> int:
    """Cut an id."""
    if at < 0 or text[uint64(at)] != QUOTE:
        return int64(-1)
    first = at + 1
    at = id_end(text, first, in_id)
    if not 0 < at - first <= LONGEST_ID or text[uint64(first)] == POINT or text[uint64(at)] != QUOTE:
        return int64(-1)
    size = put(out.ids, out.size[IDS], text, first, at - first)
    out.ids[uint64(size)] = SPACE
    out.size[IDS] = size + 1
    return _space_end(text, at + 1)


@inlined
def _place(text: Bytes, at: int, n: int, powers: UInt64s, out: CutPosts) -> int:
    """Cut two numbers."""
    at = _past(text, at, OPEN_LIST)
    for i in range(2):
        if at >= 0:
            at, bits = _number(text, at, powers)
            out.places[uint64(2 * n + i)] = bits
            at = _past(text, at, CLOSE_LIST if i else COMMA)
    return at


@inlined
def _keywords(text: Bytes, at: int, n: int, tables: Tables, out: CutPosts) -> int:
    """Cut words, with weights or without."""
    listed = at >= 0 and text[uint64(at)] == OPEN_LIST
    at = _past(text, at, OPEN_LIST if listed else OPEN_OBJECT)
    count, size = out.size[COUNT], out.size[WORDS]
    first, first_word, before = count, size, size
    ordered = True
    more = at >= 0
    while more:
        begin = size
        end = at + 1
        while tables.in_word[uint64(text[uint64(end)])]:
            end += 1
        if text[uint64(at)] != QUOTE or text[uint64(end)] != QUOTE or not 0 < end - at - 1 <= MOST_LETTERS:
            return int64(-1)
        size = put(out.words, size, text, at + 1, end - at - 1)
        out.words[uint64(size)] = SPACE
        size += 1
        if count > first:
            ordered = ordered and is_less(out.words, before, begin)
        before = begin
        at = _space_end(text, end + 1)
        bits = NAN
        if not listed:
            at, bits = _number(text, _past(text, at, COLON), tables.powers)
            if at < 0 or int64(bits) <= 0:
                return int64(-1)
        out.weights[uint64(count)] = bits
        count += 1
        more = text[uint64(at)] == COMMA
        if more:
            at = _space_end(text, at + 1)
    if count - first > MOST_WORDS or not (listed or ordered or _are_different(out.words, first_word, size)):
        return int64(-1)
    out.size[COUNT], out.size[WORDS] = count, size
    out.size[LISTED] += listed * (count - first)
    out.word_end[uint64(n)] = count
    return _past(text, at, CLOSE_LIST if listed else CLOSE_OBJECT)


@inlined
def _are_different(texts: Bytes, begin: int, end: int) -> bool:
    """Whether no word is there twice; false where there are more than MOST_COMPARED. A SPACE is behind each."""
    at, count, good = begin, 0, True
    while good and at < end:
        other = begin
        while good and other < at:
            good = differ(texts, other, at)
            other = next_word(texts, other)
        at = next_word(texts, at)
        count += 1
        good = good and count <= MOST_COMPARED
    return good


@internal
def _number(text: Bytes, at: int, powers: UInt64s) -> tuple[int, int]:
    """The place behind a number and the bits of it; below 0 where there is none, or one that is large, very small or
    has many digits, or `at` is."""
    if at < 0:
        return int64(-1), uint64(0)
    end, bits, is_read = float_at(text, at, powers)
    if not (is_read and 0 < end - at <= LONGEST_NUMBER):
        return int64(-1), uint64(0)
    return _space_end(text, end), bits
