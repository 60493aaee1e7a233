"""A set of small integers as a tree of 64-bit words: insert, delete, next, previous and least in O(log_64 n).

Layout: level 0 has a bit for each number, a bit of level i + 1 says that the word of level i below it is not 0. All
levels lie in one array, `at[i]` is where level i begins and `at[-1]` how many levels there are. It holds the members of
a sorted set of end points ([Ranked matching] 3.2.2), and is the priority queue of Algorithm 1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from indexes.compiled.jit import allocating_kernel, expanded
from indexes.compiled.masks import first_lane, lane, lanes_behind
from indexes.compiled.simd import high_bit
from indexes.core.arrays import Ints

LEVELS = 8


@allocating_kernel
def empty_set(size: int) -> tuple[Ints, Ints]:
    """A set for numbers below n, and where its levels begin."""
    at = np.zeros(LEVELS, np.int64)
    levels = 0
    total = 0
    words = size
    while levels == 0 or words > 1:
        words = (words + 63) >> 6
        at[levels] = total
        total += words
        levels += 1
    at[LEVELS - 1] = levels
    return np.zeros(total, np.int64), at


@expanded
def insert(words: Ints, at: Ints, number: int) -> None:
    level = 0
    new = True
    while new and level < at[LEVELS - 1]:
        w = at[level] + (number >> 6)
        new = words[w] == 0
        words[w] |= lane(number & 63)
        number >>= 6
        level += 1


@expanded
def delete(words: Ints, at: Ints, number: int) -> None:
    level = 0
    last = True
    while last and level < at[LEVELS - 1]:
        w = at[level] + (number >> 6)
        words[w] &= ~lane(number & 63)
        last = words[w] == 0
        number >>= 6
        level += 1


@expanded
def following(words: Ints, at: Ints, number: int, size: int) -> int:
    """The least member from i on, or -1; n is what the set was made for."""
    level = 0
    levels = at[LEVELS - 1]
    limit = size
    found = -1
    while level < levels and found < 0 and number < limit:
        word = words[at[level] + (number >> 6)] & lanes_behind(number & 63)
        if word != 0:
            found = ((number >> 6) << 6) + first_lane(word)
        else:
            number = (number >> 6) + 1
            limit = (limit + 63) >> 6
            level += 1
    if found >= 0:
        while level > 0:
            level -= 1
            found = (found << 6) + first_lane(words[at[level] + found])
    return found


@expanded
def preceding(words: Ints, at: Ints, number: int) -> int:
    """The greatest member up to i, or -1."""
    level = 0
    levels = at[LEVELS - 1]
    found = -1
    while level < levels and found < 0 and number >= 0:
        word = words[at[level] + (number >> 6)] & (lane(number & 63) | ~lanes_behind(number & 63))
        if word != 0:
            found = ((number >> 6) << 6) + top_bit(word)
        else:
            number = (number >> 6) - 1
            level += 1
    if found >= 0:
        while level > 0:
            level -= 1
            found = (found << 6) + top_bit(words[at[level] + found])
    return found


@expanded
def top_bit(word: int) -> int:
    return 63 if word < 0 else high_bit(word)


def check(words: Ints, at: Ints, members: set[int]) -> None:
    """Raise AssertionError unless the set holds exactly these, at every level."""
    wanted: Any = members
    for level in range(int(at[LEVELS - 1])):
        end = int(at[level + 1]) if level + 1 < int(at[LEVELS - 1]) else len(words)
        mine = words[int(at[level]) : end]
        held = {(w << 6) + b for w in range(len(mine)) for b in range(64) if int(mine[w]) >> b & 1}
        assert held == wanted, (level, held, wanted)
        wanted = {i >> 6 for i in wanted}
