"""Tiles of several dimensions: boxes of the parameter space of one class.

A tile of boxes has four sides for each range attribute, l_outer, l_inner, r_inner, r_outer, and reaches a subscription
iff l_outer < l <= l_inner and r_inner <= r < r_outer in each, as with one attribute. A tile of another shape has a
closed lower and upper value for each parameter: lo_1, hi_1, lo_2, ...
"""

from __future__ import annotations

from indexes.boards.kernels.tiles import Tiles, make_tiles
from indexes.boards.space.kernels.shapes import BOX, offered, width
from indexes.compiled.floats import above, below
from indexes.compiled.jit import internal, kernel
from indexes.core.arrays import Floats


def sides(shape: str, d: int) -> int:
    """The number of sides of a tile of a shape."""
    return 2 * width(shape, d)


def make_space_tiles(d: int, capacity: int) -> Tiles:
    """An empty buffer for that many tiles over d attributes.

    As `indexes.boards.kernels.tiles.Tiles`, but `x` is (capacity, d), and row t of `side` begins with the sides
    of its shape.
    """
    return make_tiles(capacity, max(sides(shape, d) for shape in offered(d)), (d,))


@kernel
def closed_box(shape: int, d: int, side: Floats, tile: int, low: Floats, high: Floats) -> None:
    """Write the parameters that a tile reaches as the closed box low..high."""
    if shape == BOX:
        for j in range(d):
            low[2 * j], high[2 * j] = above(side[tile, 4 * j]), side[tile, 4 * j + 1]
            low[2 * j + 1], high[2 * j + 1] = side[tile, 4 * j + 2], below(side[tile, 4 * j + 3])
    else:
        for j in range(6 if shape > 2 else 3):
            low[j], high[j] = side[tile, 2 * j], side[tile, 2 * j + 1]


@internal
def write_sides(shape: int, d: int, low: Floats, high: Floats, at: int, side: Floats, tile: int) -> None:
    """Write the sides of a tile for the closed box low[at:]..high[at:], its outer sides opened by one float step."""
    if shape == BOX:
        for j in range(d):
            l, r = at + 2 * j, at + 2 * j + 1
            side[tile, 4 * j], side[tile, 4 * j + 1] = below(low[l]), high[l]
            side[tile, 4 * j + 2], side[tile, 4 * j + 3] = low[r], above(high[r])
    else:
        for j in range(6 if shape > 2 else 3):
            side[tile, 2 * j], side[tile, 2 * j + 1] = low[at + j], high[at + j]
