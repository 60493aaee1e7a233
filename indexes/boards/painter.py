"""The painter of a board with one range attribute: its indexes and buffers, used by one thread at a time."""

from __future__ import annotations

import time
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from indexes.boards.alternatives.kd_tree import KdTreeIndex
from indexes.boards.config import BoardConfig
from indexes.boards.kernels.batch_diff import DiffBuffers
from indexes.boards.kernels.changes import Changes
from indexes.boards.kernels.object_index import ObjectIndex
from indexes.boards.kernels.range_tree import RangeTreeIndex
from indexes.boards.kernels.scratch import PaintContext, Scratch, make_scratch
from indexes.boards.kernels.sketch import level_of
from indexes.boards.kernels.staircase import make_moments
from indexes.boards.kernels.step import DONE, advance, read_back, run_kept
from indexes.boards.kernels.tiles import Tiles, make_tiles
from indexes.boards.live_lists import LiveLists
from indexes.boards.passes import PassRunner
from indexes.boards.regions import Region, Regions
from indexes.boards.subscription_index import SubscriptionIndex
from indexes.compiled.kept import Keeper, Words, declare
from indexes.core.arrays import Bools, Floats, Ints, Rows

INDEXES: dict[Literal["range-tree", "kd-tree"], type[ObjectIndex]] = {
    "range-tree": RangeTreeIndex,
    "kd-tree": KdTreeIndex,
}
"""The object indexes that a board can be configured with."""


class KeptTree(NamedTuple):
    """The parts of a painter whose objects are in a range tree, as kernels keep them: the objects, the context of
    painting, the live lists, their forest, and the changes of kept tiles."""

    words: Words


class KeptKdTree(NamedTuple):
    """The same with a k-d tree."""

    words: Words


KINDS: dict[type[ObjectIndex], type[KeptTree] | type[KeptKdTree]] = {
    RangeTreeIndex: KeptTree,
    KdTreeIndex: KeptKdTree,
}
"""How the parts of a painter with such an index are kept."""

NONE_LEFT = 1 << 60
"""More than the number of any change: nobody takes another one."""

TILES = 4096
"""Tiles that there is room for at first."""


class Painter(PassRunner):
    """The object index that painting reads and changes, the subscription index, the live lists and the buffers.

    `ks` are the list lengths of the classes, 0 for one that is no longer on offer.
    """

    live: LiveLists[SubscriptionIndex]

    def __init__(self, config: BoardConfig) -> None:
        self.objects = INDEXES[config.index]()
        self.subscriptions = SubscriptionIndex(config.ks)
        self.live = LiveLists(SubscriptionIndex(config.ks))
        self.dense = config.algorithm == "dense"
        self.runs = config.runs
        self.ks = np.array(config.ks, np.int64)
        self.tiles = make_tiles(TILES)
        self.event = np.zeros(TILES, np.int32)
        self.untaken = np.zeros(1, np.int64)
        self.room = DiffBuffers()
        kind: type[KeptTree | KeptKdTree] = KINDS[type(self.objects)]
        self._keeper = Keeper(kind)
        self._make_room(config)

    def class_of(self, k: int) -> int:
        """The class of a list length on offer."""
        return int(np.flatnonzero(self.ks == k)[0])

    def configure(self, config: BoardConfig) -> None:
        """Paint with this configuration from now on. A class whose k is no longer on offer stays, empty, with k = 0."""
        ks = config.ks
        classes = self.ks.tolist()
        for k in ks:
            if k not in classes:
                self.subscriptions.add_class(k)
                self.live.index.add_class(k)
                classes.append(k)
        self.ks = np.array([k if k in ks else 0 for k in classes], np.int64)
        self.dense = config.algorithm == "dense"
        self.runs = config.runs
        self._make_room(config)

    def _make_room(self, config: BoardConfig) -> None:
        kmax = max(config.ks)
        self.work: Scratch = make_scratch(kmax, level=level_of(config.sketch))
        self.moments = make_moments(kmax)

    def insert(self, k: int, sids: Rows, regions: Regions) -> None:
        """Add subscriptions of one list length."""
        self.subscriptions.insert_many(self.class_of(k), sids, regions.l, regions.r)

    def delete(self, k: int, sids: Rows, regions: Regions) -> None:
        """Delete subscriptions of one list length, which have these regions."""
        self.subscriptions.delete_many(self.class_of(k), sids)

    def _class(self, k: int, region: Region) -> int:
        return self.class_of(k)

    def _sides(self, region: Region) -> tuple[ArrayLike, ...]:
        l, r = region.sides
        return [l], [r]

    def _pass(self, changes: Changes, progress: Ints, stop: int, keep: bool, to_live: bool) -> int:
        return int(run_kept(self._kept(), progress, self.untaken, changes, stop, to_live, keep))

    def replace(self, subscriptions: SubscriptionIndex, objects: ObjectIndex) -> None:
        """Use other indexes that hold the same. The former ones are let go of by whoever has them, not here."""
        self.subscriptions, self.objects = subscriptions, objects
        self._keeper.clear()

    def _kept(self) -> KeptTree | KeptKdTree:
        """What `run_kept` and `read_back` take, with the parts of this painter as they are now."""
        live = self.live
        parts = (
            self.objects.arrays, self.subscriptions.arrays, self.ks, self.dense, self.runs, self.work, self.tiles,
            live.arrays, live.index.arrays, self.event,
        )  # fmt: skip
        return self._keeper.kept(
            parts,
            lambda: (self.objects.arrays, self.context(self.runs), live.arrays, live.index.arrays, self.event),
        )

    def read_back(self, first: int, sign: float, numbers: Floats, columns: Ints, gone: Bools) -> None:
        """As the kernel of that name, for the tiles in the buffer."""
        read_back(self._kept(), first, sign, numbers, columns, gone)

    def paint_share(self, changes: Changes, progress: Ints, stop: int, keep: bool, until: float) -> None:
        """Paint the changes below `stop` that no other painter of `untaken` has taken, and apply those before the last
        of them. When buffers are full after the time `until`, by `time.perf_counter`, nobody takes any more."""
        while self._pass(changes, progress, stop, keep, to_live=False) != DONE:
            self.grow_tiles()
            if time.perf_counter() > until:
                self.untaken[0] = NONE_LEFT

    def context(self, runs: int) -> PaintContext:
        """What painting reads and writes apart from the objects, for strips in so many runs, 0 for exact ones."""
        return PaintContext(self.subscriptions.arrays, self.ks, self.dense, runs, self.work, self.tiles)

    def assign_event(self, e: int) -> None:
        """Assign all tiles and records in the buffers to change e."""
        live = self.live.arrays
        self.event[: int(self.tiles.n[0])] = e
        live.records.event[: int(live.records.n[0])] = e
        live.tile_records.event[: int(live.tile_records.n[0])] = e

    def forget_copies(self) -> None:
        """The objects are about to be changed otherwise than by `run` and `advance`."""

    def advance(self, changes: Changes, lo: int, hi: int) -> None:
        """Apply changes without painting (replay)."""
        advance(self.objects.arrays, changes, lo, hi)

    def _make_tiles(self, size: int) -> Tiles:
        return make_tiles(size)


def _example(index: Literal["range-tree", "kd-tree"]) -> tuple[Any, ...]:
    """Parts of the types that a painter keeps, without calling a kernel for them."""
    forest, live, scratch = SubscriptionIndex().arrays, LiveLists(SubscriptionIndex()), make_scratch(1)
    context = PaintContext(forest, np.zeros(0, np.int64), False, 0, scratch, make_tiles(1))
    return INDEXES[index]().arrays, context, live.arrays, live.index.arrays, np.zeros(1, np.int32)


for _name, _index in INDEXES.items():
    declare(KINDS[_index], partial(_example, _name))
