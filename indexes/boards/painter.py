"""The kernel side of a board: its indexes and buffers, touched by one thread at a time."""

from __future__ import annotations

import time
from typing import Literal

import numpy as np
import numpy.typing as npt

from indexes.boards.beside import make_scratch
from indexes.boards.changes import Changes
from indexes.boards.commands import BoardConfig
from indexes.boards.kd_tree import KdTreeIndex
from indexes.boards.live import LiveLists
from indexes.boards.net import Room
from indexes.boards.objects import MAX, ObjectIndex
from indexes.boards.paint import Work, make_work
from indexes.boards.range_tree import RangeTreeIndex
from indexes.boards.regions import Region, Regions
from indexes.boards.sketch import level_of
from indexes.boards.stairs import make_moments
from indexes.boards.step import DONE, FULL_TILES, Painted, advance, run, run_heard
from indexes.boards.subscriptions import SubscriptionIndex
from indexes.boards.tiles import Tiles, make_tiles

COLUMNS = tuple(name for name in Tiles._fields if name != "n")

INDEXES: dict[Literal["range-tree", "kd-tree"], type[ObjectIndex]] = {
    "range-tree": RangeTreeIndex,
    "kd-tree": KdTreeIndex,
}
"""The object indexes that a board may choose from."""

FIRST_GUESS = 20e-6
"""Seconds an event is taken to cost before the first one was measured."""


def new_object_index(kind: Literal["range-tree", "kd-tree"]) -> ObjectIndex:
    """An empty object index of the board's kind."""
    return INDEXES[kind]()


def _ends(region: Region) -> tuple[float, float]:
    l, r = region.sides
    return max(l, -MAX), min(r, MAX)


class Painter:
    """Owns the object index that painting reads, the subscription index, the live lists and the buffers."""

    def __init__(self, config: BoardConfig) -> None:
        self.objects = new_object_index(config.index)
        self.subscriptions = SubscriptionIndex(config.ks)
        self.live = LiveLists(config.ks)
        self.dense = config.algorithm == "dense"
        self.runs = config.runs
        self.ks = np.array(config.ks, np.int64)
        self.tiles = make_tiles(4096)
        self.event = np.zeros(4096, np.int32)
        self.room = Room()
        self._make_room(config)
        self.seconds_per_event = FIRST_GUESS

    def class_of(self, k: int) -> int:
        """The class of a list length on offer."""
        return int(np.flatnonzero(self.ks == k)[0])

    def configure(self, config: BoardConfig) -> None:
        """Paint as this says from now on. A class whose k is gone is kept, empty and unpainted, with k = 0."""
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
        self.work: Work = make_work(kmax, level=level_of(config.sketch))
        self.moments, self.scratch = make_moments(kmax), make_scratch(kmax)

    def insert(self, k: int, sids: npt.NDArray[np.int32], regions: Regions) -> None:
        """Add subscriptions of one list length."""
        self.subscriptions.insert_many(self.class_of(k), sids, regions.l, regions.r)

    def delete(self, k: int, sids: npt.NDArray[np.int32], regions: Regions) -> None:
        """Take out subscriptions of one list length; `regions` are theirs."""
        self.subscriptions.delete_many(self.class_of(k), sids)

    def listen(self, region: Region, k: int, rows: npt.NDArray[np.int32], offset: int) -> int:
        """Keep a list that begins with `rows` from now on, and tell it behind `offset`; returns its live slot."""
        return self.live.add(self.class_of(k), k, *_ends(region), rows, offset)

    def listen_to(
        self,
        live: int,
        before: tuple[Region, int],
        after: tuple[Region, int],
        rows: npt.NDArray[np.int32],
        offset: int,
    ) -> None:
        """Carry a live list over to another region, length or offset."""
        region, k = after
        self.live.move(live, self.class_of(before[1]), self.class_of(k), k, *_ends(region), rows, offset)

    def forget(self, live: int, region: Region, k: int) -> None:
        """Keep a list no longer."""
        self.live.remove(self.class_of(k), live)

    def run(self, changes: Changes, lo: int, hi: int, budget: float, keep: bool) -> tuple[int, int]:
        """Paint and apply changes from `lo` for about `budget` seconds, at most to `hi`.

        Returns the next change and the number of tiles made. With `keep` they stand in `self.tiles`, the change of
        tile t in `self.event[t]`.
        """
        keep = keep or self.live.tile_readers > 0
        self.clear()
        progress = np.array([lo, 0], np.int64)
        started = time.perf_counter()
        while True:
            left = budget - (time.perf_counter() - started)
            stop = min(hi, int(progress[0]) + max(1, int(left / self.seconds_per_event)))
            before = int(progress[0])
            began = time.perf_counter()
            why = self._pass(changes, progress, stop, keep)
            done = int(progress[0])
            if why == DONE:
                spent = time.perf_counter() - began
                if done > before:
                    self.seconds_per_event += 0.2 * (spent / (done - before) - self.seconds_per_event)
                if done == hi or time.perf_counter() - started >= budget:
                    return done, int(progress[1])
            elif why == FULL_TILES:
                self.grow_tiles()
            else:
                self.live.grow_buffers()

    def _pass(self, changes: Changes, progress: npt.NDArray[np.int64], stop: int, keep: bool) -> int:
        state = (self.objects.arrays, self.subscriptions.arrays, self.ks, self.dense, self.runs, self.work, self.tiles)
        painted = Painted(self.event, progress)
        if self.live.count == 0:
            return int(run(*state, painted, changes, stop, keep))
        return int(run_heard(*state, self.live.arrays, self.live.index.arrays, painted, changes, stop, keep))

    def say_event(self, e: int) -> None:
        """All tiles and records in the buffers belong to change e."""
        live = self.live.arrays
        self.event[: int(self.tiles.n[0])] = e
        live.records.event[: int(live.records.n[0])] = e
        live.tile_records.event[: int(live.tile_records.n[0])] = e

    def kept_events(self) -> npt.NDArray[np.int32]:
        """The change that each of the kept tiles of the last run belongs to; valid until the next run."""
        return self.event[: int(self.tiles.n[0])]

    def advance(self, changes: Changes, lo: int, hi: int) -> None:
        """Apply changes without painting (replay)."""
        advance(self.objects.arrays, changes, lo, hi)

    def clear(self) -> None:
        """Empty the buffers of tiles and records."""
        self.tiles.n[0] = 0
        self.live.arrays.records.n[0] = 0
        self.live.arrays.tile_records.n[0] = 0

    def grow_tiles(self) -> None:
        """Double the buffer of tiles, keeping what is in it."""
        old = self.tiles
        n = int(old.n[0])
        self.tiles = make_tiles(2 * len(old.row))
        for name in COLUMNS:
            getattr(self.tiles, name)[:n] = getattr(old, name)[:n]
        self.tiles.n[0] = n
        event = np.zeros(len(self.tiles.row), np.int32)
        event[:n] = self.event[:n]
        self.event = event
