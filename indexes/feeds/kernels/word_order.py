"""The order of words that lie in one text, a space behind each."""

from __future__ import annotations

from indexes.compiled.jit import inlined, short_kernel
from indexes.core.arrays import Bytes, Ints, int64, uint64
from indexes.core.cutting import SPACE


@short_kernel
def in_order(texts: Bytes, end: Ints) -> bool:
    """Whether the words of each document are in order of their bytes, none of them twice. Those of document i, of UTF-8
    a space behind each, end at word `end[i]`. O(bytes)."""
    before, at = int64(0), int64(0)
    word, document, good = int64(0), 0, True
    while good and document < len(end):
        first, upto = word, end[uint64(document)]
        while good and word < upto:
            if word > first:
                good = is_less(texts, before, at)
            before = at
            at = next_word(texts, at)
            word += 1
        document += 1
    return good


@inlined
def is_less(texts: Bytes, a: int, b: int) -> bool:
    """Whether the word that begins at `a` sorts before that at `b`."""
    while texts[uint64(a)] == texts[uint64(b)] and texts[uint64(a)] != SPACE:
        a += 1
        b += 1
    ends_first, ends_last = texts[uint64(a)] == SPACE, texts[uint64(b)] == SPACE
    return not ends_last and (ends_first or texts[uint64(a)] < texts[uint64(b)])


@inlined
def differ(texts: Bytes, a: int, b: int) -> bool:
    """Whether the words that begin at these places are two."""
    while texts[uint64(a)] == texts[uint64(b)] and texts[uint64(a)] != SPACE:
        a += 1
        b += 1
    return texts[uint64(a)] != texts[uint64(b)]


@inlined
def next_word(texts: Bytes, at: int) -> int:
    """Where the next word begins."""
    while texts[uint64(at)] != SPACE:
        at += 1
    return at + 1
