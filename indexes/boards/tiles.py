"""Tiles: rectangles of subscription space that say who must hear of an object, and with which values (paper, II-A).

    Tile(l_outer, l_inner, r_inner, r_outer, object)      reaches (l, r)  iff  l_outer < l <= l_inner, r_inner <= r <
    r_outer

Outer sides are open, inner sides closed. An infinite outer side takes in unbounded subscriptions, a finite one never.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.jit import inline_kernel
from indexes.lean import inner_kernel, pasted_kernel

INF = np.inf


class Tiles(NamedTuple):
    """A buffer of tiles. Row t of `side` is (l_outer, l_inner, r_inner, r_outer); `row`, `x`, `y` and `c` are the
    object's stable row, its values and its `created`, `cls` the class whose subscribers the tile is for, `own` is 1
    where the object itself was changed and 0 where it became exposed, `n[0]` the number in use.

    `y` is the object's new value; with `gone` set it is the last one it had.
    """

    side: NDArray[np.float64]
    row: NDArray[np.int32]
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    gone: NDArray[np.uint8]
    own: NDArray[np.uint8]
    c: NDArray[np.int64]
    cls: NDArray[np.int32]
    n: NDArray[np.int64]


def make_tiles(capacity: int) -> Tiles:
    """An empty buffer for that many tiles."""
    return Tiles(
        np.empty((capacity, 4)),
        np.empty(capacity, np.int32),
        np.empty(capacity),
        np.empty(capacity),
        np.empty(capacity, np.uint8),
        np.empty(capacity, np.uint8),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.int32),
        np.zeros(1, np.int64),
    )


@pasted_kernel
def sign(tiles: Tiles, start: int, q: int, row: int, x: float, y: float, gone: bool, c: int, own: bool) -> None:
    """Write the object and the class on the tiles from `start` to the last."""
    for t in range(start, tiles.n[0]):
        tiles.row[t], tiles.x[t], tiles.y[t], tiles.gone[t], tiles.c[t], tiles.cls[t] = row, x, y, gone, c, q
        tiles.own[t] = own


@inline_kernel
def below(v):  # type: ignore[no-untyped-def]
    return np.nextafter(v, -INF)


@inline_kernel
def above(v):  # type: ignore[no-untyped-def]
    return np.nextafter(v, INF)


@inner_kernel
def put_box(west, east, south, north, tiles):  # type: ignore[no-untyped-def]
    """Append the closed box as a tile, its outer sides opened by the least step; nothing for an empty box."""
    t = tiles.n[0]
    ok = t < len(tiles.row)
    if west <= east and ok:
        tiles.side[t, 0] = below(west)
        tiles.side[t, 1] = east
        tiles.side[t, 2] = south
        tiles.side[t, 3] = above(north)
        tiles.n[0] = t + 1
    return ok or west > east
