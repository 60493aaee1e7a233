"""A row of one dimension replaced by one call: its runs, its cells and the table, as kernels keep them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from indexes.compiled.jit import kernel
from indexes.compiled.kept import Words, declare, unpacked
from indexes.matchers.kernels.cells import SCORED, CellIndex, put_into_cells, take_out_of_cells
from indexes.matchers.kernels.run_index import RunIndex
from indexes.matchers.kernels.runs import add_to_tail, remove_from_runs

LET_GO, SHORT, FULL, DONE, LET_GO_AFTER = 0, 1, 2, 3, 4
"""How far a row was replaced. LET_GO, SHORT: it was taken out of the indexes, and what remains is to drop the cells, or
to refill their short lists, and to write and add the row. FULL: it is written, but to be added, as the tail of the runs
is full. DONE: nothing remains. LET_GO_AFTER: it is written and added, and the cells are to be dropped."""


class KeptLine(NamedTuple):
    """The runs and the cells of one dimension, the table, its marks of what has changed, and room for a row's number,
    as kernels keep them."""

    words: Words


@kernel
def rewrite_row(kept: Any, row: int, lo: float, hi: float, score: float, most: int) -> int:
    """Replace a row, as far as that can be done here; returns how far. More lists than `most` are too many to be
    changed. O(64 log n + lists)."""
    runs, cells, table, stale, rows = unpacked(kept)
    rows[0] = row
    some = cells.used.size > 0
    remove_from_runs(runs, table, 0, SCORED, rows)
    state = FULL
    if some and take_out_of_cells(cells, table, SCORED, rows, most) > most:
        state = LET_GO
    elif some and cells.lows[0] > 0:
        state = SHORT
    if state == FULL:
        table[row, 0] = lo
        table[row, 1] = hi
        table[row, SCORED] = score
        if lo > hi or add_to_tail(runs, table, 0, SCORED, rows, 0) == 1:
            state = DONE
            if some and put_into_cells(cells, table, SCORED, rows, most) > most:
                state = LET_GO_AFTER
            stale[row] = 1
    return state


def _example() -> tuple[Any, ...]:
    """Parts of the types that are kept, without calling a kernel for them."""
    return RunIndex(1, False).arrays, CellIndex().arrays, np.zeros((1, 3)), np.zeros(1, np.uint8), np.zeros(1, np.int32)


declare(KeptLine, _example)
