"""The positions of a sorted access: one in each of the sorted lists that an event meets in a dimension, of which the
best comes next."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.compiled.jit import expanded
from indexes.core.arrays import Floats, Ints

MOST_POSITIONS = 128
"""Lists that a point may meet in one dimension: a path of a tree over 2^32 nodes, and some runs."""

LIST_POSITION, RUN_POSITION, TAIL_POSITION = range(3)


class Positions(NamedTuple):
    """Those of dimension j begin at j * MOST_POSITIONS; there are `used[j]`.

    `at` is the place, `score` and `row` are the key of what is there, by which the best is chosen. `kind` says in what
    it is a place, `aux` what else has to be known: of a list, the ends to compare; of a run, its number. In segment
    trees `aux` says where a list ends, and `row` is a key of its own. `left`, of a run, is the mask of what is met
    behind the place in its block.
    """

    kind: Ints
    at: Ints
    aux: Ints
    score: Floats
    row: Ints
    left: Ints
    used: Ints


def new_positions(d: int) -> Positions:
    n = d * MOST_POSITIONS
    kind, at, aux, row, left = (np.zeros(n, np.int64) for _ in range(5))
    return Positions(kind, at, aux, np.zeros(n), row, left, np.zeros(d, np.int64))


@expanded
def put_position(positions: Positions, here: int, kind: int, at: int, aux: int, score: float, row: int) -> None:
    (
        positions.kind[here],
        positions.at[here],
        positions.aux[here],
        positions.score[here],
        positions.row[here],
        positions.left[here],
    ) = kind, at, aux, score, row, 0


@expanded
def best_position(positions: Positions, begin: int, end: int) -> int:
    """The position with the best key. Linear: there are about a dozen, and a heap would take longer."""
    best = begin
    for here in range(begin + 1, end):
        if positions.score[here] > positions.score[best] or (
            positions.score[here] == positions.score[best] and positions.row[here] < positions.row[best]
        ):
            best = here
    return best


@expanded
def drop_position(positions: Positions, dimension: int, here: int) -> None:
    """Drop a position of a dimension: the last one takes its place."""
    positions.used[dimension] -= 1
    last = dimension * MOST_POSITIONS + positions.used[dimension]
    put_position(
        positions,
        here,
        positions.kind[last],
        positions.at[last],
        positions.aux[last],
        positions.score[last],
        positions.row[last],
    )
    positions.left[here] = positions.left[last]
