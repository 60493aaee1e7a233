"""The painter of a board with several range attributes, used by one thread at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import ArrayLike

from indexes.boards.config import BoardConfig
from indexes.boards.kernels.changes import Changes
from indexes.boards.kernels.tiles import Tiles
from indexes.boards.live_lists import LiveLists
from indexes.boards.passes import PassRunner
from indexes.boards.regions import Region, Regions
from indexes.boards.space.kernels.arrays import SpaceContext
from indexes.boards.space.kernels.objects import SpaceObjects
from indexes.boards.space.kernels.scratch import SpaceScratch, make_space_scratch
from indexes.boards.space.kernels.shapes import SHAPES, offered, width
from indexes.boards.space.kernels.step import Painted, advance, receivers, run
from indexes.boards.space.kernels.tiles import make_space_tiles
from indexes.boards.space.subscription_index import SpaceSubscriptions
from indexes.core.arrays import Ints, Rows


class SpacePainter(PassRunner):
    """As `indexes.boards.painter.Painter`, with a class for each list length and each shape: class q has ks[q] and
    subscriptions.shapes[q]. Columns `x` of changes, tiles and records are (n, d).
    """

    live: LiveLists[SpaceSubscriptions]

    def __init__(self, config: BoardConfig) -> None:
        d = config.dimensions
        self.d = d
        self.objects = SpaceObjects(d)
        self.subscriptions = SpaceSubscriptions(d)
        self.live = LiveLists(SpaceSubscriptions(d), (d,))
        self.dense = False
        self.ks = np.empty(0, np.int64)
        self.tiles = make_space_tiles(d, 4096)
        self.event = np.zeros(4096, np.int32)
        self.work: SpaceScratch = make_space_scratch(d, max(config.ks), len(self.event))
        self.configure(config)

    def class_of(self, k: int, shape: str = "box") -> int:
        """The class of a list length on offer and a shape. KeyError if there is none."""
        return self.subscriptions.class_of(k, shape)

    def configure(self, config: BoardConfig) -> None:
        """Paint with this configuration from now on. A class whose k is no longer on offer stays, empty, with k = 0."""
        if config.algorithm == "dense" or config.runs:
            raise ValueError("Paint-Dense and epsilon are for one range attribute")
        ks = config.ks
        known = self.subscriptions.ks.tolist()
        for k in ks:
            if k not in known:
                for shape in offered(self.d):
                    self.subscriptions.add_class(k, shape)
                    self.live.index.add_class(k, shape)
        self.ks = np.array([k if k in ks else 0 for k in self.subscriptions.ks.tolist()], np.int64)
        self.work = make_space_scratch(self.d, max(ks), len(self.event))

    def insert(self, k: int, sids: Rows, regions: Regions) -> None:
        """Add subscriptions of one list length."""
        for shape, mine in _by_shape(regions):
            params = regions.sides[: width(shape, self.d), mine].T
            self.subscriptions.insert_many(self.class_of(k, shape), sids[mine], params)

    def delete(self, k: int, sids: Rows, regions: Regions) -> None:
        """Delete subscriptions of one list length, which have these regions."""
        for shape, mine in _by_shape(regions):
            self.subscriptions.delete_many(self.class_of(k, shape), sids[mine])

    def _class(self, k: int, region: Region) -> int:
        return self.class_of(k, region.shape)

    def _sides(self, region: Region) -> tuple[ArrayLike, ...]:
        return (region.sides,)

    def paint_more(self, changes: Changes, lo: int, hi: int, budget: float, keep: bool) -> tuple[int, int]:
        """As `run`, but live lists stay as they are, and with `keep` the tiles of the last run, too."""
        return self._run(changes, lo, hi, budget, keep, False)

    def deliver_all(self, e: int) -> list[int]:
        """The live slots that the tiles in the buffer reach. Records the tiles of those that want tiles, as if all were
        of change e; lists stay as they are."""
        self.event[: int(self.tiles.n[0])] = e
        live = self.live
        if live.count == 0:
            return []
        while not receivers(live.index.arrays, live.arrays, self.tiles, self.work):
            live.grow_buffers()
        found, tile_records = live.arrays.deliveries, live.arrays.tile_records
        n = int(found.n[0])
        wanted = np.flatnonzero(live.arrays.wants[found.live[:n]])
        for column, values in ((tile_records.live, found.live), (tile_records.tile, found.tile)):
            column[: len(wanted)] = values[wanted]
        tile_records.event[: len(wanted)] = e
        tile_records.n[0] = len(wanted)
        slots = np.unique(found.live[:n])
        records = live.arrays.records
        records.event[: len(slots)], records.live[: len(slots)] = e, slots
        records.n[0] = len(slots)
        return slots.tolist()

    def _pass(self, changes: Changes, progress: Ints, stop: int, keep: bool, to_live: bool) -> int:
        return int(
            run(
                self.objects.arrays, self.context(), self.live.arrays, self.live.index.arrays,
                Painted(self.event, progress), changes, stop, to_live, keep,
            )
        )  # fmt: skip

    def context(self) -> SpaceContext:
        """What painting reads and writes apart from the objects."""
        return SpaceContext(self.subscriptions.arrays, self.ks, self.work, self.tiles)

    def advance(self, changes: Changes, lo: int, hi: int) -> None:
        """Apply changes without painting (replay)."""
        advance(self.objects.arrays, changes, lo, hi)

    def grow_tiles(self) -> None:
        super().grow_tiles()
        self.work = make_space_scratch(self.d, max(self.ks.tolist()), len(self.event))

    def _make_tiles(self, size: int) -> Tiles:
        return make_space_tiles(self.d, size)


def _by_shape(regions: Regions) -> Iterator[tuple[str, Ints]]:
    """The shapes that occur, each with its places."""
    for code in np.unique(regions.shape).tolist():
        yield SHAPES[code], np.flatnonzero(regions.shape == code)
