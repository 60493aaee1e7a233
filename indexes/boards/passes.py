"""What both painters share: the buffers of a kernel pass, the loop that runs passes within a budget, and live lists."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from indexes.boards.kernels.changes import Changes
from indexes.boards.kernels.step import DONE, FULL_TILES
from indexes.boards.kernels.tiles import Tiles
from indexes.boards.live_lists import LiveLists
from indexes.boards.regions import Region
from indexes.core.arrays import Ints, Rows

COLUMNS = tuple(name for name in Tiles._fields if name != "n")

FIRST_GUESS = 20e-6
"""Estimate of the seconds that an event takes, before the first one is measured."""


SPIKE = 4.0
"""How many times as long as usual an event takes that says nothing about the next one, if it comes alone."""


HEAVIEST = 64
"""Events as which a pass counts at most."""


class PassRunner(ABC):
    """Runs kernels over changes. `tiles` are those of the last run, and tile t is of change `event[t]`;
    `seconds_per_event` is an estimate from the latest events.

    Few events near the top of a board take a hundred times as long as most. `usual_seconds` is the estimate without
    such ones, as long as they do not come one after the other: whether a few events are done at once should not hang on
    what came before them."""

    objects: Any
    live: LiveLists[Any]
    tiles: Tiles
    event: Rows
    seconds_per_event = FIRST_GUESS
    usual_seconds = FIRST_GUESS
    _spiked = False
    _lately = FIRST_GUESS, 1.0
    """Seconds and events of the latest passes, the later the more."""

    def reserve(self, inserts: int, rows: int) -> None:
        """Make room for that many new objects, and for rows below `rows`."""
        self.objects.reserve(inserts, rows)

    def run(self, changes: Changes, lo: int, hi: int, budget: float, keep: bool) -> tuple[int, int]:
        """Paint and apply changes from `lo` for about `budget` seconds, at most to `hi`.

        Returns the next change and the number of tiles. With `keep` these are in `tiles`. There must be room for
        the insertions (`reserve`).
        """
        self.clear()
        return self._run(changes, lo, hi, budget, keep or self.live.tile_readers > 0, self.live.count > 0)

    def _run(self, changes: Changes, lo: int, hi: int, budget: float, keep: bool, to_live: bool) -> tuple[int, int]:
        progress = np.array([lo, 0, hi], np.int64)
        before, began = lo, time.perf_counter()
        started = began
        while True:
            stop = hi
            if hi > before + 1:
                stop = min(hi, before + max(1, int((budget - (began - started)) / self.seconds_per_event)))
            why = self._pass(changes, progress, stop, keep, to_live)
            done, now = int(progress[0]), time.perf_counter()
            if why == DONE:
                if done > before:
                    self._learn(now - began, done - before)
                if done == hi or now - started >= budget:
                    return done, int(progress[1])
            elif why == FULL_TILES:
                self.grow_tiles()
            else:
                self.live.grow_buffers()
            before, began = done, time.perf_counter()

    def _learn(self, spent: float, events: int) -> None:
        """A pass of so many events took so long. One of a single event takes several times as long as one of many does
        for each, and counts as one for `usual_seconds`."""
        each, weight, most = spent / events, min(events, HEAVIEST), SPIKE * self.usual_seconds
        self.seconds_per_event += 0.2 * (each - self.seconds_per_event)
        counted = each if self._spiked else min(each, most)
        lately, of = self._lately
        self._lately = 0.8 * lately + counted * weight, 0.8 * of + weight
        self.usual_seconds = self._lately[0] / self._lately[1]
        self._spiked = each > most

    def listen(self, region: Region, k: int, rows: Rows, offset: int) -> int:
        """Keep a list up to date that begins as `rows`, with notifications behind `offset`; returns its live slot."""
        return self.live.add(self._class(k, region), k, self._sides(region), rows, offset)

    def listen_to(
        self, live: int, before: tuple[Region, int], after: tuple[Region, int], rows: Rows, offset: int
    ) -> None:
        """Give a live list another region, length or offset."""
        (was, k_before), (region, k) = before, after
        classes = self._class(k_before, was), self._class(k, region)
        self.live.move(live, *classes, k, self._sides(region), rows, offset)

    def forget(self, live: int, region: Region, k: int) -> None:
        """Stop keeping a live list."""
        self.live.remove(self._class(k, region), live)

    @abstractmethod
    def _class(self, k: int, region: Region) -> int:
        """The class of subscriptions to the best k of such a region."""

    @abstractmethod
    def _sides(self, region: Region) -> tuple[ArrayLike, ...]:
        """A region as the subscription index takes it."""

    @abstractmethod
    def _pass(self, changes: Changes, progress: Ints, stop: int, keep: bool, to_live: bool) -> int:
        """Call the kernel: from change progress[0] to `stop`, with deliveries to live lists if `to_live`. Progress is
        that of a `Share` (`indexes.boards.kernels.step`)."""

    def check(self) -> None:
        """Raise AssertionError if an invariant of the objects is broken; O(n log n)."""
        self.objects.check()

    def kept_events(self) -> Rows:
        """The change of each of the kept tiles; valid until the next run."""
        return self.event[: int(self.tiles.n[0])]

    def clear(self) -> None:
        """Empty the buffers of tiles and records."""
        self.tiles.n[0] = 0
        self.live.arrays.records.n[0] = 0
        self.live.arrays.tile_records.n[0] = 0

    def grow_tiles(self) -> None:
        """Double the buffer of tiles, with its content."""
        old = self.tiles
        n = int(old.n[0])
        self.tiles = self._make_tiles(2 * len(old.row))
        for name in COLUMNS:
            getattr(self.tiles, name)[:n] = getattr(old, name)[:n]
        self.tiles.n[0] = n
        event = np.zeros(len(self.tiles.row), np.int32)
        event[:n] = self.event[:n]
        self.event = event

    @abstractmethod
    def _make_tiles(self, size: int) -> Tiles:
        """An empty buffer of tiles."""
