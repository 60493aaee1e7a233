"""Blocks of lanes of places and values: compiled as defined."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from indexes.compiled.jit import kernel
from indexes.compiled.simd import LANES
from indexes.core.arrays import Floats, Ints
from indexes.maps.kernels.lanes import block_distances, lanes_cutting, lanes_dominated, lanes_dominating

few = st.sampled_from([0.0, -0.0, 0.5, 1.0, 2.0, np.inf, np.nan])


@kernel
def run_all(columns: Floats, far: Floats, d: int, i: int, b: int, bound: float, place: Floats, masks: Ints) -> None:
    stride = columns.size // (d + 4)
    x0, y0, x1, y1 = (
        columns[:stride],
        columns[stride : 2 * stride],
        columns[2 * stride : 3 * stride],
        columns[3 * stride :],
    )
    values = columns[4 * stride :]
    masks[0] = lanes_dominated(far, bound, values, stride, i, values, stride, b, d)
    masks[1] = lanes_dominating(values, bound, values, stride, i, values, stride, b, d) if d > 0 else 0
    masks[2] = lanes_cutting(x0, y0, x1, b, place[0], place[1], bound, place[2], place[3])
    block_distances(far, x0, y0, x1, y1, i, place[0], place[1])


@given(st.data(), st.integers(0, 5))
def test_masks_and_distances_are_as_defined(data: Any, d: int) -> None:
    stride = 3 * LANES
    drawn = data.draw(st.lists(few, min_size=(d + 4) * stride, max_size=(d + 4) * stride))
    columns, values = np.array(drawn), np.array(drawn[4 * stride :])
    columns[: 4 * stride] = np.nan_to_num(columns[: 4 * stride], nan=3.0, posinf=4.0)
    far, place = (
        np.array(data.draw(st.lists(few, min_size=LANES, max_size=LANES))),
        np.array([0.25, 1.5, data.draw(few), data.draw(few)]),
    )
    i, b = data.draw(st.integers(0, 2 * LANES)), data.draw(st.integers(0, 2 * LANES))
    bound = data.draw(few)
    wanted = [lanes_dominated(far, bound, values, stride, i, values, stride, b, d), 0, 0]
    if d:
        wanted[1] = lanes_dominating(values, bound, values, stride, i, values, stride, b, d)
    x0, y0, x1, y1 = columns[: 4 * stride].reshape(4, stride)
    with np.errstate(all="ignore"):
        wanted[2] = lanes_cutting(x0, y0, x1, b, 0.25, 1.5, bound, float(place[2]), float(place[3]))
    masks = np.zeros(3, np.int64)
    run_all(columns, far, d, i, b, bound, place, masks)
    assert masks.tolist() == wanted
    again = np.empty(LANES)
    block_distances(again, x0, y0, x1, y1, i, 0.25, 1.5)
    assert far.tolist() == again.tolist()
