"""A painter that paints many changes together with others, each in a thread of its own.

Painting a change reads the objects as they are before it, so each painter has an index of the objects that it applies
every change to, and paints a part of them: the next few that no other has taken (`kernels.step.PART`), so that all are
done at the same time, however fast each of them is. The subscriptions are only read while changes are painted, and are
shared. Which tiles there are does not depend on who paints a change. Kept tiles are put in order of the changes.

Live lists are brought from change to change in order, so while there are any, one painter paints alone.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import numpy as np

from indexes.boards.config import BoardConfig
from indexes.boards.kernels.changes import Changes
from indexes.boards.painter import Painter
from indexes.boards.passes import COLUMNS
from indexes.core import helper_threads
from indexes.core.arrays import Ints
from indexes.core.helper_threads import HelperThread

WORTH = 0.001
"""Seconds of work for one painter from which on it asks others, who take a tenth of that to begin and end."""

COPY = 1e-6
"""Seconds of work for each object that one painter does alone before there are copies, which take a tenth of that."""

IDLE = 0.1
"""Changes for each object that copies follow without being painted from. From then on they cost more than new ones."""

PAYS, AGAIN = 0.9, 64
"""Others are asked while changes take at most that share of the time that they take alone. Where other programs have
the processors they take longer, and it is tried again every so many slices."""

ROUNDING = 1.25
"""By how much a slice may exceed its budget so that no small rest is left."""


class PainterTeam(Painter):
    """The painter of a board, with a fellow for each of the process's helper threads once there is work for them.

    `seconds_together` is an estimate, from the latest, of the seconds that a change takes them all together; 0 before
    the first.
    """

    def __init__(self, config: BoardConfig) -> None:
        super().__init__(config)
        self.seconds_together = 0.0
        self._config = config
        self._fellows: list[Painter] = []
        self._missed = 0.0
        self._followed = 0
        self._declined = 0

    def configure(self, config: BoardConfig) -> None:
        super().configure(config)
        self._config = config
        self.forget_copies()

    def reserve(self, inserts: int, rows: int) -> None:
        super().reserve(inserts, rows)
        for fellow in self._fellows:
            fellow.reserve(inserts, rows)

    def advance(self, changes: Changes, lo: int, hi: int) -> None:
        super().advance(changes, lo, hi)
        self._follow(changes, lo, hi)

    def forget_copies(self) -> None:
        self._fellows.clear()
        self._followed = 0

    def check(self) -> None:
        """As of one painter, and all copies hold the same objects."""
        super().check()
        columns = self.objects.in_order()
        held = np.flatnonzero(columns[3] >= 0)
        for fellow in self._fellows:
            fellow.objects.check()
            others = fellow.objects.in_order()
            theirs = np.flatnonzero(others[3] >= 0)
            same = [np.array_equal(mine[held], other[theirs]) for mine, other in zip(columns, others, strict=True)]
            assert all(same), "a copy of the objects differs from the painting index"

    def run(self, changes: Changes, lo: int, hi: int, budget: float, keep: bool) -> tuple[int, int]:
        helpers = helper_threads.threads()
        work = (hi - lo) * self.seconds_per_event
        large = helpers and work >= WORTH and self.live.count == 0
        if large and self._pays() and self._assembled(len(helpers), work):
            for painter in (self, *self._fellows):
                painter.clear()
            return self._run_together(helpers, changes, lo, hi, budget, keep)
        done, made = super().run(changes, lo, hi, budget, keep)
        self._follow(changes, lo, done)
        return done, made

    def _assembled(self, count: int, work: float) -> bool:
        """Whether there are fellows. They are made once work that they could have shared took so long that copying is
        little beside it."""
        if len(self._fellows) != count:
            self._missed += work
            if self._missed < count * COPY * len(self.objects):
                return False
            self._missed = 0.0
            if self.seconds_together == 0.0:
                self.seconds_together = self.seconds_per_event / (count + 1)
            self._fellows = [self._fellow() for _ in range(count)]
        self._followed = 0
        return True

    def _pays(self) -> bool:
        """Whether painting together was faster than alone of late, or it is time to try."""
        if self.seconds_together > PAYS * self.seconds_per_event:
            self._declined += 1
            return self._declined % AGAIN == 0
        return True

    def _fellow(self) -> Painter:
        """Another painter of this board."""
        fellow = Painter(self._config)
        fellow.objects = self.objects.frozen()
        return fellow

    def _follow(self, changes: Changes, lo: int, hi: int) -> None:
        """Apply to the copies what one painter did alone, or give them up."""
        if self._fellows:
            self._followed += hi - lo
            if self._followed > IDLE * len(self.objects):
                self.forget_copies()
        for fellow in self._fellows:
            fellow.advance(changes, lo, hi)

    def _run_together(
        self, helpers: Sequence[HelperThread], changes: Changes, lo: int, hi: int, budget: float, keep: bool
    ) -> tuple[int, int]:
        started = time.perf_counter()
        done, made, left = lo, 0, budget
        while done == lo or (done < hi and left > WORTH):
            most = max(1, int(left / self.seconds_together))
            stop = hi if hi - done < ROUNDING * most else done + most
            began = time.perf_counter()
            made += self._pass_together(helpers, changes, done, stop, keep)
            now = time.perf_counter()
            self.seconds_together += 0.2 * ((now - began) / (stop - done) - self.seconds_together)
            done, left = stop, budget - (now - started)
        self._gather(keep)
        return done, made

    def _pass_together(self, helpers: Sequence[HelperThread], changes: Changes, lo: int, stop: int, keep: bool) -> int:
        """Paint the changes from `lo` to `stop`; returns the number of tiles. A helper that is at work for another
        board is not waited for."""
        self.untaken = np.array([lo])
        mine, shares, at_work = _share(lo), list[Ints](), list[HelperThread]()
        for fellow, helper in zip(self._fellows, helpers, strict=True):
            fellow.subscriptions, fellow.ks, fellow.untaken = self.subscriptions, self.ks, self.untaken
            share = _share(lo)
            if helper.begin(partial(fellow.paint_share, changes, share, stop, keep)):
                at_work.append(helper)
                shares.append(share)
            else:
                fellow.advance(changes, lo, stop)
        began = time.perf_counter()
        try:
            self.paint_share(changes, mine, stop, keep)
            self._timed(time.perf_counter() - began, int(mine[3]))
        finally:
            # Should one fail, the others take no more.
            self.untaken[0] = stop
            failures = [helper.end() for helper in at_work]
        for failure in failures:
            if failure is not None:
                raise failure
        return int(mine[1]) + sum(int(share[1]) for share in shares)

    def _timed(self, spent: float, painted: int) -> None:
        if painted:
            self.seconds_per_event += 0.2 * (spent / painted - self.seconds_per_event)

    def _gather(self, keep: bool) -> None:
        """Take over what the others have counted and, with `keep`, their tiles, in order of the changes."""
        for fellow in self._fellows:
            self.work.stats[:] += fellow.work.stats
            fellow.work.stats[:] = 0
        if keep:
            first = int(self.tiles.n[0])
            for fellow in self._fellows:
                self._append(fellow)
            end = int(self.tiles.n[0])
            if end > first:
                order = np.argsort(self.event[:end], kind="stable")
                for column in (self.event, *(getattr(self.tiles, name) for name in COLUMNS)):
                    column[:end] = column[order]

    def _append(self, fellow: Painter) -> None:
        n, more = int(self.tiles.n[0]), int(fellow.tiles.n[0])
        while n + more > len(self.event):
            self.grow_tiles()
        for name in COLUMNS:
            getattr(self.tiles, name)[n : n + more] = getattr(fellow.tiles, name)[:more]
        self.event[n : n + more] = fellow.event[:more]
        self.tiles.n[0] = n + more


def _share(lo: int) -> Ints:
    """The progress of a painter that has taken nothing yet."""
    return np.array([lo, 0, lo, 0], np.int64)
