"""A painter that paints many changes together with others, each in a thread of its own.

Painting a change reads the objects as they are before it, so each painter has an index of the objects that it applies
every change to, and paints a part of them: the next few that no other has taken (`kernels.step.PART`), so that all are
done at the same time, however fast each of them is. The subscriptions are only read while changes are painted, and are
shared. Which tiles there are does not depend on who paints a change. Kept tiles are put in order of the changes.

Live lists go from change to change in order. While there are any, tiles are kept, and delivered when all are there,
with an index of the objects that is late: it has the changes before the one whose tiles are delivered.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

import numpy as np

from indexes.boards.config import BoardConfig
from indexes.boards.kernels.changes import Changes
from indexes.boards.kernels.object_index import ObjectIndex
from indexes.boards.kernels.step import FULL_LIVE, Share, advance, deliver_kept
from indexes.boards.painter import NONE_LEFT, Painter
from indexes.boards.passes import COLUMNS
from indexes.boards.subscription_index import SubscriptionIndex
from indexes.core import helper_threads
from indexes.core.arrays import Floats, Ints
from indexes.core.helper_threads import HelperThread

WORTH = 0.001
"""Seconds of work for one painter from which on it asks others, who take a tenth of that to begin and end."""

COPY = 2e-6
"""Seconds of work for each object that one painter does alone before there are copies, which take a twentieth."""

IDLE, CALL = 2.0, 100
"""Changes for each object that copies follow without being painted from: then they have cost as much as new ones would.
A call of the kernel takes as long as so many changes."""

PAYS, AGAIN = 0.9, 64
"""Others are asked while changes take at most that share of the time that they take alone: not so where other programs
have the processors. Every so many slices the other way is tried, to see what it takes now."""

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
        self._late: ObjectIndex | None = None
        self._missed = 0.0
        self._followed = 0
        self._slices = 0

    def configure(self, config: BoardConfig) -> None:
        super().configure(config)
        self._config = config
        self.forget_copies()

    def replace(self, subscriptions: SubscriptionIndex, objects: ObjectIndex) -> None:
        super().replace(subscriptions, objects)
        for fellow in self._fellows:
            fellow.replace(subscriptions, fellow.objects)

    def reserve(self, inserts: int, rows: int) -> None:
        super().reserve(inserts, rows)
        if self._copied:
            for copy in self._copies():
                copy.reserve(inserts, rows)

    def advance(self, changes: Changes, lo: int, hi: int) -> None:
        super().advance(changes, lo, hi)
        if self._copied:
            self._follow(changes, lo, hi)

    def forget_copies(self) -> None:
        self._fellows.clear()
        self._late = None
        self._followed = 0

    @property
    def _copied(self) -> bool:
        """Whether there are copies of the objects, which a board of single events has none of."""
        return bool(self._fellows) or self._late is not None

    def _copies(self) -> list[ObjectIndex]:
        return [fellow.objects for fellow in self._fellows] + ([self._late] if self._late is not None else [])

    def check(self) -> None:
        """As of one painter, and all copies hold the same objects."""
        super().check()
        held = _by_row(self.objects)
        for copy in self._copies():
            copy.check()
            assert np.array_equal(_by_row(copy), held), "a copy of the objects differs from the painting index"

    def run(self, changes: Changes, lo: int, hi: int, budget: float, keep: bool) -> tuple[int, int]:
        helpers = helper_threads.threads()
        work = (hi - lo) * self.seconds_per_event
        large = bool(helpers) and work >= WORTH
        if large and self._pays() and self._assembled(len(helpers)):
            return self.run_together(helpers, changes, lo, hi, budget, keep)
        began = time.perf_counter()
        done, made = super().run(changes, lo, hi, budget, keep)
        if large and not self._fellows:
            self._missed += time.perf_counter() - began
        if self._copied:
            self._follow(changes, lo, done)
        return done, made

    def _assembled(self, count: int) -> bool:
        """Whether there are fellows. They are made once work that they could have shared took so long that copying is
        little beside it."""
        if len(self._fellows) != count:
            if self._missed < count * COPY * len(self.objects):
                return False
            self.assemble(count)
        return True

    def assemble(self, count: int) -> None:
        """Make so many fellows, each with a copy of the objects. O(n) each."""
        self._missed = 0.0
        self._fellows = [self._fellow() for _ in range(count)]

    def _pays(self) -> bool:
        """Whether painting together was faster than alone of late; now and then the opposite."""
        self._slices += 1
        faster = self.seconds_together <= PAYS * self.seconds_per_event
        return faster == (self._slices % AGAIN != 0)

    def _fellow(self) -> Painter:
        """Another painter of this board."""
        fellow = Painter(self._config)
        fellow.objects = self.objects.frozen()
        return fellow

    def _follow(self, changes: Changes, lo: int, hi: int) -> None:
        """Apply to the copies what one painter did alone, or give them up."""
        if self._fellows:
            self._followed += CALL + hi - lo
            if self._followed > IDLE * len(self.objects):
                self.forget_copies()
        for copy in self._copies():
            advance(copy.arrays, changes, lo, hi)

    def run_together(
        self, helpers: Sequence[HelperThread], changes: Changes, lo: int, hi: int, budget: float, keep: bool
    ) -> tuple[int, int]:
        """As `run`, with the fellows that there are, each in a thread of its own."""
        started = time.perf_counter()
        self._begin()
        done, made, left = lo, 0, budget
        keep = keep or self._late is not None
        while done == lo or (done < hi and left > WORTH):
            # What one painter took of late is the better estimate where events become costly all at once.
            most = max(1, int(left / max(self.seconds_together, self.seconds_per_event / (1 + len(self._fellows)))))
            stop = hi if hi - done < ROUNDING * most else done + most
            done, some = self._pass_together(helpers, changes, done, stop, keep, started + budget)
            made, left = made + some, budget - (time.perf_counter() - started)
        self._gather(keep)
        if self._late is not None:
            self._deliver(self._late, changes, lo, done)
        self.seconds_together += 0.2 * ((time.perf_counter() - started) / (done - lo) - self.seconds_together)
        return done, made

    def _begin(self) -> None:
        """Empty the buffers, and see to the late index."""
        for painter in (self, *self._fellows):
            painter.clear()
        if self.live.count == 0:
            self._late = None
        elif self._late is None:
            self._late = self.objects.frozen()
        if self.seconds_together == 0.0:
            self.seconds_together = self.seconds_per_event / (1 + len(self._fellows))
        self._followed = 0

    # Seven arguments: who paints, and what, how far, how and until when.
    def _pass_together(
        self, helpers: Sequence[HelperThread], changes: Changes, lo: int, stop: int, keep: bool, until: float
    ) -> tuple[int, int]:
        """Paint the changes from `lo` on, below `stop` and, where buffers get full, until some time; returns the next
        change and the number of tiles. A helper that is at work for another board is not waited for."""
        self.untaken = np.array([lo])
        at_work, painters = list[HelperThread](), [self, *self._fellows]
        shares = [_share(lo) for _ in painters]
        for fellow, share, helper in zip(self._fellows, shares[1:], helpers, strict=True):
            fellow.subscriptions, fellow.ks, fellow.untaken = self.subscriptions, self.ks, self.untaken
            if helper.begin(partial(fellow.paint_share, changes, share, stop, keep, until)):
                at_work.append(helper)
        try:
            self.paint_share(changes, shares[0], stop, keep, until)
        finally:
            # Should one fail, the others take no more.
            self.untaken[0] = NONE_LEFT
            failures = [helper.end() for helper in at_work]
        for failure in failures:
            if failure is not None:
                raise failure
        reached = max(int(share[2]) for share in shares)
        for painter, share in zip(painters, shares, strict=True):
            if share[0] < reached:
                advance(painter.objects.arrays, changes, int(share[0]), reached)
        return reached, sum(int(share[1]) for share in shares)

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

    def _deliver(self, late: ObjectIndex, changes: Changes, lo: int, hi: int) -> None:
        """Apply the tiles that were gathered to the live lists."""
        share = Share(self.event, np.array([lo, 0], np.int64), self.untaken)
        why = FULL_LIVE
        while why == FULL_LIVE:
            listeners = self.live.index.arrays
            why = deliver_kept(late.arrays, self.context(self.runs), self.live.arrays, listeners, share, changes, hi)
            if why == FULL_LIVE:
                self.live.grow_buffers()

    def _append(self, fellow: Painter) -> None:
        n, more = int(self.tiles.n[0]), int(fellow.tiles.n[0])
        while n + more > len(self.event):
            self.grow_tiles()
        for name in COLUMNS:
            getattr(self.tiles, name)[n : n + more] = getattr(fellow.tiles, name)[:more]
        self.event[n : n + more] = fellow.event[:more]
        self.tiles.n[0] = n + more


def _by_row(objects: ObjectIndex) -> Floats:
    """What an index holds: a row of numbers for each object."""
    x, y, created, row = objects.contents()
    return np.column_stack([row, x, y, created])[np.argsort(row)]


def _share(lo: int) -> Ints:
    """The progress of a painter that has taken nothing yet."""
    return np.array([lo, 0, lo], np.int64)
