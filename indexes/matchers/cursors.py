"""Several places at once, one in each of the sorted lists that an event meets: what a getnext() keeps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from indexes.jit import inline_kernel

Float64 = npt.NDArray[np.float64]
Int64 = npt.NDArray[np.int64]

CURSORS = 128
"""Lists that a point may meet in one dimension: a path of a tree over 2^32 nodes, and some runs."""

LIST_CURSOR, RUN_CURSOR, TAIL_CURSOR = range(3)


class Cursors(NamedTuple):
    """Those of dimension j begin at j * CURSORS; there are `used[j]`.

    `at` is the place, `score` and `row` are the key of what is there, by which the best is chosen. `kind` says in what
    it is a place, `aux` what else has to be known: of a list, the ends to compare; of a run, its number. In segment
    trees `aux` says where a list ends, and `row` is a key of its own. `left`, of a run, is the mask of what is met
    behind the place in its block.
    """

    kind: Int64
    at: Int64
    aux: Int64
    score: Float64
    row: Int64
    left: Int64
    used: Int64


def new_cursors(d: int) -> Cursors:
    n = d * CURSORS
    kind, at, aux, row, left = (np.zeros(n, np.int64) for _ in range(5))
    return Cursors(kind, at, aux, np.zeros(n), row, left, np.zeros(d, np.int64))


@inline_kernel
def put_cursor(cu, z, kind, at, aux, score, row):  # type: ignore[no-untyped-def]
    cu.kind[z], cu.at[z], cu.aux[z], cu.score[z], cu.row[z], cu.left[z] = kind, at, aux, score, row, 0


@inline_kernel
def best_cursor(cu, begin, end):  # type: ignore[no-untyped-def]
    """The cursor with the best key. Linear: there are about a dozen, and a heap would take longer."""
    best = begin
    for z in range(begin + 1, end):
        if cu.score[z] > cu.score[best] or (cu.score[z] == cu.score[best] and cu.row[z] < cu.row[best]):
            best = z
    return best


@inline_kernel
def drop_cursor(cu, j, z):  # type: ignore[no-untyped-def]
    """Close a cursor of dimension j: the last one takes its place."""
    cu.used[j] -= 1
    last = j * CURSORS + cu.used[j]
    put_cursor(cu, z, cu.kind[last], cu.at[last], cu.aux[last], cu.score[last], cu.row[last])
    cu.left[z] = cu.left[last]
