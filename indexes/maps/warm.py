"""Compile every kernel of the maps, or load it from the disk, before the first user asks."""

from __future__ import annotations

import numpy as np

from indexes.maps import top_warm
from indexes.maps.changes import Keeper
from indexes.maps.places import PlaceIndex
from indexes.maps.shapes import component
from indexes.maps.zones import Searcher


def warm() -> None:
    """Make every kernel ready. Well below a second from the cache; cold, about half a minute."""
    exercise(2)


def exercise(d: int) -> None:
    """Run every path once, with so many attributes; which arrays kernels are given does not depend on it."""
    rng = np.random.default_rng(0)
    points, statics = rng.random((300, 2)), rng.random((300, d))
    index = PlaceIndex.build(points, statics)
    index.put(np.arange(290, 310), rng.random((20, 2)), rng.random((20, d)))
    index.delete([5, 295])
    searcher, keeper = Searcher(d), Keeper(d)
    searcher.skyline(index, 0.5, 0.5)
    zone = searcher.zone(index, 0.5, 0.5, np.array([0.0, 0.0, 1.0, 1.0]))
    zone.holds(0.5, 0.5)
    component(zone._replace(cut_end=zone.cut_end[:0]))
    for slot in range(400, 420):
        x, y = rng.random(2).tolist()
        keeper.put(zone, slot, x, y, rng.random(d))
    keeper.delete(zone, 400)
    top_warm.exercise(index)
    index.folded().put([1], rng.random((1, 2)), rng.random((1, d)))


if __name__ == "__main__":
    warm()
