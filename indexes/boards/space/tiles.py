"""Tiles of several dimensions: boxes of the parameter space of one class.

A tile of boxes has four sides for each range attribute, l_outer, l_inner, r_inner, r_outer, and reaches a subscription
iff l_outer < l <= l_inner and r_inner <= r < r_outer in each, as with one attribute. A tile of another shape has a
closed lower and upper value for each parameter: lo_1, hi_1, lo_2, ...
"""

from __future__ import annotations

import numpy as np

from indexes.boards.space.shapes import BOX, offered, width
from indexes.boards.tiles import Tiles, above, below
from indexes.lean import inner_kernel, lean_kernel


def sides(shape: str, d: int) -> int:
    """The number of sides of a tile of a shape."""
    return 2 * width(shape, d)


def make_space_tiles(d: int, capacity: int) -> Tiles:
    """An empty buffer for that many tiles over d attributes.

    As `indexes.boards.tiles.Tiles`, but `x` is (capacity, d), and row t of `side` begins with the sides of its shape.
    """
    return Tiles(
        np.zeros((capacity, max(sides(shape, d) for shape in offered(d)))),
        np.empty(capacity, np.int32),
        np.empty((capacity, d)),
        np.empty(capacity),
        np.empty(capacity, np.uint8),
        np.empty(capacity, np.uint8),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.int32),
        np.zeros(1, np.int64),
    )


@lean_kernel
def closed_box(shape, d, side, t, low, high, b):  # type: ignore[no-untyped-def]
    """Write the parameters that tile t reaches to the closed box low[b:]..high[b:]."""
    if shape == BOX:
        for j in range(d):
            low[b + 2 * j], high[b + 2 * j] = above(side[t, 4 * j]), side[t, 4 * j + 1]
            low[b + 2 * j + 1], high[b + 2 * j + 1] = side[t, 4 * j + 2], below(side[t, 4 * j + 3])
    else:
        for j in range(6 if shape > 2 else 3):
            low[b + j], high[b + j] = side[t, 2 * j], side[t, 2 * j + 1]


@inner_kernel
def write_sides(shape, d, low, high, p, step, side, t):  # type: ignore[no-untyped-def]
    """The sides of tile t for the closed box low[p], low[p + step], ...: outer sides opened by the least step."""
    if shape == BOX:
        for j in range(d):
            l, r = p + 2 * j * step, p + (2 * j + 1) * step
            side[t, 4 * j], side[t, 4 * j + 1] = below(low[l]), high[l]
            side[t, 4 * j + 2], side[t, 4 * j + 3] = low[r], above(high[r])
    else:
        for j in range(6 if shape > 2 else 3):
            side[t, 2 * j], side[t, 2 * j + 1] = low[p + j * step], high[p + j * step]
