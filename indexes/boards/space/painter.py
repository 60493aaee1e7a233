"""The kernel side of a board with several range attributes, touched by one thread at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from indexes.boards.changes import Changes
from indexes.boards.commands import BoardConfig
from indexes.boards.painter import COLUMNS, FIRST_GUESS
from indexes.boards.regions import Region, Regions
from indexes.boards.space.live import SpaceLiveLists
from indexes.boards.space.objects import SpaceObjects
from indexes.boards.space.shapes import SHAPES, offered, width
from indexes.boards.space.step import advance, receivers, run
from indexes.boards.space.subscriptions import SpaceSubscriptions
from indexes.boards.space.tiles import make_space_tiles
from indexes.boards.space.work import SpaceWork, make_space_work
from indexes.boards.step import DONE, FULL_TILES


class SpacePainter:
    """Owns the objects that painting reads, the subscriptions, the live lists and the buffers.

    As `indexes.boards.painter.Painter`, with a class for each list length and each shape: class q has ks[q] and
    subscriptions.shapes[q]. Columns `x` of changes, tiles and records are (n, d).
    """

    def __init__(self, config: BoardConfig) -> None:
        d = config.dimensions
        self.d = d
        self.objects = SpaceObjects(d)
        self.subscriptions = SpaceSubscriptions(d)
        self.live = SpaceLiveLists(d)
        self.dense = False
        self.ks = np.empty(0, np.int64)
        self.tiles = make_space_tiles(d, 4096)
        self.event = np.zeros(4096, np.int32)
        self.work: SpaceWork = make_space_work(d, max(config.ks), len(self.event))
        self.seconds_per_event = FIRST_GUESS
        self._old = np.empty((1, d))
        self.configure(config)

    def class_of(self, k: int, shape: str = "box") -> int:
        """The class of a list length on offer and a shape. KeyError if there is none."""
        return self.subscriptions.class_of(k, shape)

    def configure(self, config: BoardConfig) -> None:
        """Paint as this says from now on. A class whose k is gone is kept, empty and unpainted, with k = 0."""
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
        self.work = make_space_work(self.d, max(ks), len(self.event))

    def insert(self, k: int, sids: NDArray[np.int32], regions: Regions) -> None:
        """Add subscriptions of one list length."""
        for shape, mine in _by_shape(regions):
            params = regions.sides[: width(shape, self.d), mine].T
            self.subscriptions.insert_many(self.class_of(k, shape), sids[mine], params)

    def delete(self, k: int, sids: NDArray[np.int32], regions: Regions) -> None:
        """Take out subscriptions of one list length; `regions` are theirs."""
        for shape, mine in _by_shape(regions):
            self.subscriptions.delete_many(self.class_of(k, shape), sids[mine])

    def listen(self, region: Region, k: int, rows: NDArray[np.int32], offset: int) -> int:
        """Keep a list that begins with `rows` from now on, and tell it behind `offset`; returns its live slot."""
        return self.live.add(self.class_of(k, region.shape), k, region.sides, rows, offset)

    def listen_to(
        self,
        live: int,
        before: tuple[Region, int],
        after: tuple[Region, int],
        rows: NDArray[np.int32],
        offset: int,
    ) -> None:
        """Carry a live list over to another region, length or offset."""
        (was, k_before), (region, k) = before, after
        classes = self.class_of(k_before, was.shape), self.class_of(k, region.shape)
        self.live.move(live, *classes, k, region.sides, rows, offset)

    def forget(self, live: int, region: Region, k: int) -> None:
        """Keep a list no longer."""
        self.live.remove(self.class_of(k, region.shape), live)

    def run(self, changes: Changes, lo: int, hi: int, budget: float, keep: bool) -> tuple[int, int]:
        """Paint and apply changes from `lo` for about `budget` seconds, at most to `hi`.

        Returns the next change and the number of tiles made. With `keep` they stand in `self.tiles`, the change of
        tile t in `self.event[t]`. `self.objects` has room for the insertions (`reserve`).
        """
        self.clear()
        return self._run(changes, lo, hi, budget, keep or self.live.tile_readers > 0, self.live.count > 0)

    def paint_more(self, changes: Changes, lo: int, hi: int, budget: float, keep: bool) -> tuple[int, int]:
        """As `run`, but live lists stay as they are, and with `keep` the tiles of the last run, too; see `tell`."""
        return self._run(changes, lo, hi, budget, keep, False)

    def tell(self, e: int) -> list[int]:
        """Find out whom the tiles in the buffer reach, as if all were of change e: the live slots. What those get that
        listen to tiles is recorded; their lists are not touched."""
        self.event[: int(self.tiles.n[0])] = e
        live = self.live
        if live.count == 0:
            return []
        while not receivers(live.index.arrays, live.arrays, self.tiles, self.work):
            live.grow_buffers()
        found, told = live.arrays.deliveries, live.arrays.tile_records
        n = int(found.n[0])
        wanted = np.flatnonzero(live.arrays.wants[found.live[:n]])
        for column, values in ((told.live, found.live), (told.tile, found.tile)):
            column[: len(wanted)] = values[wanted]
        told.event[: len(wanted)] = e
        told.n[0] = len(wanted)
        slots = np.unique(found.live[:n])
        records = live.arrays.records
        records.event[: len(slots)], records.live[: len(slots)] = e, slots
        records.n[0] = len(slots)
        return slots.tolist()

    def clear(self) -> None:
        """Empty the buffers of tiles and records."""
        self.tiles.n[0] = 0
        self.live.arrays.records.n[0] = 0
        self.live.arrays.tile_records.n[0] = 0

    def _run(self, changes: Changes, lo: int, hi: int, budget: float, keep: bool, heard: bool) -> tuple[int, int]:
        progress = np.array([lo, 0], np.int64)
        started = time.perf_counter()
        while True:
            left = budget - (time.perf_counter() - started)
            stop = min(hi, int(progress[0]) + max(1, int(left / self.seconds_per_event)))
            before = int(progress[0])
            began = time.perf_counter()
            why = self._pass(changes, progress, stop, keep, heard)
            done = int(progress[0])
            if why == DONE:
                spent = time.perf_counter() - began
                if done > before:
                    self.seconds_per_event += 0.2 * (spent / (done - before) - self.seconds_per_event)
                if done == hi or time.perf_counter() - started >= budget:
                    return done, int(progress[1])
            elif why == FULL_TILES:
                self._grow_tiles()
            else:
                self.live.grow_buffers()

    def _pass(self, changes: Changes, progress: NDArray[np.int64], stop: int, keep: bool, heard: bool) -> int:
        return int(
            run(
                self.objects.arrays, self.subscriptions.arrays, self.ks, self.work, self.tiles, self.event, progress,
                self.live.arrays, self.live.index.arrays, self._old, heard, changes, stop, keep,
            )
        )  # fmt: skip

    def kept_events(self) -> NDArray[np.int32]:
        """The change that each of the kept tiles of the last run belongs to; valid until the next run."""
        return self.event[: int(self.tiles.n[0])]

    def advance(self, changes: Changes, lo: int, hi: int) -> None:
        """Apply changes without painting (replay)."""
        advance(self.objects.arrays, changes, lo, hi)

    def _grow_tiles(self) -> None:
        old = self.tiles
        n = int(old.n[0])
        self.tiles = make_space_tiles(self.d, 2 * len(old.row))
        for name in COLUMNS:
            getattr(self.tiles, name)[:n] = getattr(old, name)[:n]
        self.tiles.n[0] = n
        event = np.zeros(len(self.tiles.row), np.int32)
        event[:n] = self.event[:n]
        self.event = event
        self.work = make_space_work(self.d, max(self.ks.tolist()), len(event))


def _by_shape(regions: Regions) -> Iterator[tuple[str, NDArray[np.int64]]]:
    """The shapes that are there, and where."""
    for code in np.unique(regions.shape).tolist():
        yield SHAPES[code], np.flatnonzero(regions.shape == code)
