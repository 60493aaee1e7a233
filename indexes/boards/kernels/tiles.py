"""Tiles: rectangles of subscription space, each with the object and the values that its subscribers need ([Range top-k]
II-A).

    Tile(l_outer, l_inner, r_inner, r_outer, object) reaches (l, r)  iff  l_outer < l <= l_inner, r_inner <= r < r_outer

Outer sides are open, inner sides closed. An infinite outer side includes unbounded subscriptions, a finite one never.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.compiled.floats import above, below
from indexes.compiled.jit import inlined, internal
from indexes.core.arrays import Bytes, Floats, Ints, Ints32, uint64


class Tiles(NamedTuple):
    """A buffer of tiles by column, each with room for the capacity.

    Row t of `side` is (l_outer, l_inner, r_inner, r_outer); `row`, `x`, `y` and `c` are the object's row, values and
    `created`; `cls` is the class whose subscribers the tile is for; `own` is 1 where the object itself was changed and
    0 where it became exposed; `n[0]` is the number in use. `y` is the object's new value; with `gone` set it is the
    last one it had.
    """

    side: Floats
    row: Ints32
    x: Floats
    y: Floats
    gone: Bytes
    own: Bytes
    c: Ints
    cls: Ints32
    n: Ints


def make_tiles(capacity: int, sides: int = 4, place: tuple[int, ...] = ()) -> Tiles:
    """An empty buffer for that many tiles; `place` is the shape of one object's x."""
    return Tiles(
        side=np.zeros((capacity, sides)),
        row=np.empty(capacity, np.int32),
        x=np.empty((capacity, *place)),
        y=np.empty(capacity),
        gone=np.empty(capacity, np.uint8),
        own=np.empty(capacity, np.uint8),
        c=np.empty(capacity, np.int64),
        cls=np.empty(capacity, np.int32),
        n=np.zeros(1, np.int64),
    )


# Nine arguments: the columns of a tile.
@inlined
def sign(tiles: Tiles, start: int, k_class: int, row: int, x: float, y: float, gone: bool, c: int, own: bool) -> None:
    """Write the object and the class on the tiles from `start` to the last."""
    for t in range(start, tiles.n[0]):
        at = uint64(t)
        tiles.row[at], tiles.x[at], tiles.y[at], tiles.gone[at], tiles.c[at], tiles.cls[at] = (
            row,
            x,
            y,
            gone,
            c,
            k_class,
        )
        tiles.own[at] = own


@internal
def put_box(west: float, east: float, south: float, north: float, tiles: Tiles) -> bool:
    """Append the closed box [west, east] x [south, north] as a tile, its outer sides opened by one float step; an empty
    box appends nothing. False when `tiles` is full."""
    t = tiles.n[0]
    ok = t < len(tiles.row)
    if west <= east and ok:
        tiles.side[t, 0] = below(west)
        tiles.side[t, 1] = east
        tiles.side[t, 2] = south
        tiles.side[t, 3] = above(north)
        tiles.n[0] = t + 1
    return ok or west > east
