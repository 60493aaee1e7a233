"""How much of the window a buffer keeps: the threshold theta, chosen by rank when a subscription is evaluated.

A buffer has the posts that score theta or more. The lower theta, the more posts enter the buffer, and the longer it
takes until expiry leaves fewer than k, and the subscription is evaluated again. If posts are exchangeable, and the
window is large compared to the rank, both rates only depend on k and the rank r of theta: posts are a Poisson process
whose heights are expected ranks. The cheapest r then depends on k and on the cost of an evaluation over that of an
entry. `bench/feeds/ranks.py` simulates the process; `CHEAPEST` is its output, smoothed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.core.arrays import Ints, Ints32

BUFFERS = ("cost", "kscore", "fixed", "kmax")
"""The k-skyband above the cheapest rank, above the k-th score, or above the score of rank 2 k; and the 2 k best posts
regardless of dominance (Yi et al.)."""

MOST_K = 4_095

KS = (1, 2, 3, 5, 10, 20, 50, 100)
RATIOS = (3, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000)

CHEAPEST = (
    (1, 2, 4, 6, 7, 8, 10, 11, 11, 12),
    (3, 4, 5, 7, 9, 11, 13, 14, 16, 17),
    (4, 5, 7, 9, 11, 13, 15, 16, 17, 20),
    (6, 7, 9, 12, 14, 17, 19, 22, 23, 26),
    (11, 12, 14, 17, 20, 23, 27, 30, 31, 33),
    (21, 23, 25, 31, 33, 38, 42, 44, 47, 51),
    (52, 54, 57, 62, 67, 76, 83, 86, 89, 92),
    (103, 106, 108, 117, 122, 130, 138, 145, 152, 156),
)
"""By k, then by the cost of an evaluation over that of entering a post, up to its expiry: the rank of least cost."""

ENTRY, EVALUATION, POSTING = 0.65, 12.0, 0.036
"""Costs of an entry, an evaluation, and each posting that it reads, in microseconds. Only ratios matter."""

BUCKETS = 24
"""Columns of a row of ranks: by the binary logarithm of the postings that an evaluation read."""

LINE = 8
"""Entries of a line of memory."""

LEAST_ROOM = 16
"""Entries of the least buffer."""

KEPT = 1.9
"""Entries that a full buffer keeps, over k."""


class Limits(NamedTuple):
    """What kernels know of buffers: by kind (one for each k in use) and bucket the rank, and by kind the rest."""

    rank: Ints32  # BUCKETS to a row
    room: Ints32  # entries that a buffer has room for
    kept: Ints32  # entries that a full one keeps
    dominated: Ints32  # posts that must dominate a post that is dropped; 0: dominance is ignored


class Buffering:
    """One of `BUFFERS`, for all k."""

    def __init__(self, buffer: str) -> None:
        """Raises ValueError for an unknown buffer."""
        if buffer not in BUFFERS:
            raise ValueError(f"no buffer is called {buffer!r}")
        self.buffer = buffer
        none = np.empty(0, np.int32)
        self.limits = Limits(none, none, none, none)
        self._kind: dict[int, int] = {}

    def room(self, k: Ints) -> Ints:
        """Entries of a buffer for this k: whole lines of memory."""
        return np.maximum(LEAST_ROOM, (2 * k + 4 + LINE - 1) // LINE * LINE)

    def kinds(self, k: Ints) -> Ints:
        """The kind of each k. O(n), and O(BUCKETS) for each new k."""
        different, at = np.unique(k, return_inverse=True)
        for one in different.tolist():
            if one not in self._kind:
                self._kind[one] = len(self._kind)
                self.limits = self._with(self.limits, one)
        return np.array([self._kind[one] for one in different.tolist()], np.int64)[at]

    def _with(self, limits: Limits, k: int) -> Limits:
        room = 2 * k if self.buffer == "kmax" else int(self.room(np.array([k]))[0])
        ranks = [min(room, self._rank(k, bucket)) for bucket in range(BUCKETS)]
        skyband = self.buffer != "kmax"
        kept = min(room - 1, int(np.ceil(KEPT * k)) + 1) if skyband else room - 1
        more = (ranks, [room], [kept], [k if skyband else 0])
        return Limits(*(np.append(a, np.array(b, np.int32)) for a, b in zip(limits, more, strict=True)))

    def _rank(self, k: int, bucket: int) -> int:
        if self.buffer == "kscore":
            return k
        if self.buffer != "cost":
            return 2 * k
        return cheapest_rank(k, (EVALUATION + POSTING * 1.4 * 2**bucket) / ENTRY)


def cheapest_rank(k: int, ratio: float) -> int:
    """The rank of least cost, if an evaluation costs `ratio` times as much as an entry: interpolated in `CHEAPEST` by
    logarithms.

    >>> cheapest_rank(10, 100), cheapest_rank(10, 1e9), cheapest_rank(7, 100) <= 20
    (20, 33, True)
    """
    beyond = np.array(CHEAPEST) - np.array(KS)[:, None]
    at_ratio = [float(np.interp(np.log(ratio), np.log(RATIOS), row)) for row in beyond]
    scale = np.sqrt(k / KS[-1]) if k > KS[-1] else 1.0
    return k + round(float(np.interp(np.log(k), np.log(KS), at_ratio)) * float(scale))
