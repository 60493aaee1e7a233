"""Cells hold whoever is put into them, wherever that is."""

from __future__ import annotations

import hypothesis.strategies as st
import numpy as np
from hypothesis import given

from indexes.feeds.kernels.cells import Cells, build_cells, put_into
from tests.support.values import same_columns

coordinates = st.sampled_from([0.0, 0.5, 1.0, 1.5, 2.0]) | st.floats(-3.0, 3.0)
places = st.lists(st.tuples(coordinates, coordinates), max_size=40)


def _put(cells: Cells, points: np.ndarray) -> tuple[Cells, np.ndarray]:
    copy, cell = Cells._make(column.copy() for column in cells), np.full(len(points), -1)
    put_into(copy, points, cell)
    return copy, cell


@given(places, places, st.integers(1, 5))
def test_places_are_put_where_they_were_and_others_into_boxes_that_hold_them(
    first: list[tuple[float, float]], then: list[tuple[float, float]], capacity: int
) -> None:
    points, others = (np.array(some, np.float64).reshape(-1, 2) for some in (first, then))
    cells, cell = build_cells(points, capacity)
    again, same = _put(cells, points)
    assert same.tolist() == cell.tolist() and same_columns(again, cells)
    grown, put = _put(cells, others)
    assert same_columns(grown[:3], cells[:3])
    for at in range(len(cells.box) // 4):
        x0, y0, x1, y1 = grown.box[4 * at : 4 * at + 4]
        inside = np.concatenate([points[cell == at], others[put == at]])
        if len(inside):
            assert np.array_equal([x0, y0, x1, y1], [*inside.min(axis=0), *inside.max(axis=0)])
        else:
            assert x0 > x1 and y0 > y1
    assert set(put.tolist()) <= set(range(len(cells.box) // 4))
