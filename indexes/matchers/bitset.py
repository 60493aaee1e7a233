"""A set of small integers as a tree of 64-bit words: insert, delete, next, previous and least in O(log_64 n).

Layout: level 0 has a bit for each number, a bit of level i + 1 says that the word of level i below it is not 0. All
levels lie in one array, `at[i]` is where level i begins and `at[-1]` how many levels there are. The members of a
sorted set of end points are kept so (paper, 3.2.2), and it is a priority queue of whole numbers, too (Algorithm 1).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from indexes.jit import inline_kernel, kernel
from indexes.lanes import high_bit
from indexes.matchers.masks import first_lane, lane, lanes_behind

LEVELS = 8


@kernel
def empty_set(n):  # type: ignore[no-untyped-def]
    """A set for numbers below n, and where its levels begin."""
    at = np.zeros(LEVELS, np.int64)
    levels = 0
    total = 0
    words = n
    while levels == 0 or words > 1:
        words = (words + 63) >> 6
        at[levels] = total
        total += words
        levels += 1
    at[LEVELS - 1] = levels
    return np.zeros(total, np.int64), at


@inline_kernel
def insert(words, at, i):  # type: ignore[no-untyped-def]
    level = 0
    new = True
    while new and level < at[LEVELS - 1]:
        w = at[level] + (i >> 6)
        new = words[w] == 0
        words[w] |= lane(i & 63)
        i >>= 6
        level += 1


@inline_kernel
def delete(words, at, i):  # type: ignore[no-untyped-def]
    level = 0
    last = True
    while last and level < at[LEVELS - 1]:
        w = at[level] + (i >> 6)
        words[w] &= ~lane(i & 63)
        last = words[w] == 0
        i >>= 6
        level += 1


@inline_kernel
def following(words, at, i, n):  # type: ignore[no-untyped-def]
    """The least member from i on, or -1; n is what the set was made for."""
    level = 0
    levels = at[LEVELS - 1]
    size = n
    found = -1
    while level < levels and found < 0 and i < size:
        word = words[at[level] + (i >> 6)] & lanes_behind(i & 63)
        if word != 0:
            found = ((i >> 6) << 6) + first_lane(word)
        else:
            i = (i >> 6) + 1
            size = (size + 63) >> 6
            level += 1
    if found >= 0:
        while level > 0:
            level -= 1
            found = (found << 6) + first_lane(words[at[level] + found])
    return found


@inline_kernel
def preceding(words, at, i):  # type: ignore[no-untyped-def]
    """The greatest member up to i, or -1."""
    level = 0
    levels = at[LEVELS - 1]
    found = -1
    while level < levels and found < 0 and i >= 0:
        word = words[at[level] + (i >> 6)] & (lane(i & 63) | ~lanes_behind(i & 63))
        if word != 0:
            found = ((i >> 6) << 6) + top_bit(word)
        else:
            i = (i >> 6) - 1
            level += 1
    if found >= 0:
        while level > 0:
            level -= 1
            found = (found << 6) + top_bit(words[at[level] + found])
    return found


@inline_kernel
def top_bit(word):  # type: ignore[no-untyped-def]
    return 63 if word < 0 else high_bit(word)


def check(words: npt.NDArray[np.int64], at: npt.NDArray[np.int64], members: set[int]) -> None:
    """Raise AssertionError unless the set holds exactly these, at every level."""
    wanted: Any = members
    for level in range(int(at[LEVELS - 1])):
        end = int(at[level + 1]) if level + 1 < int(at[LEVELS - 1]) else len(words)
        mine = words[int(at[level]) : end]
        held = {(w << 6) + b for w in range(len(mine)) for b in range(64) if int(mine[w]) >> b & 1}
        assert held == wanted, (level, held, wanted)
        wanted = {i >> 6 for i in wanted}
