"""Maintenance of a board: copying its state, and putting freshly packed indexes in place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from indexes.boards.config import BoardConfig
from indexes.boards.kernels.forest import Forest
from indexes.boards.packing import ends
from indexes.boards.painter import Painter
from indexes.boards.parts import AnyObjects
from indexes.boards.regions import Regions
from indexes.boards.space.subscription_index import SpaceSubscriptions
from indexes.boards.store import BoardStore
from indexes.boards.subscription_index import SubscriptionIndex
from indexes.boards.subscriptions import Subscribers
from indexes.core import maintenance
from indexes.core.arrays import Counts, Floats, Ints, Rows
from indexes.core.front_coding import Coded
from indexes.core.room import Room

FOLD = 4_000
"""Changed subscriptions that are folded in at once: some milliseconds."""


class CapturedIndexes(NamedTuple):
    """Copies of the indexes. `live` are the live lists: row of the subscription and rows of its objects, best first."""

    painting: AnyObjects
    reading: AnyObjects
    forest: Forest | SpaceSubscriptions
    classes: Ints
    live: list[tuple[int, Rows]]


@dataclass(slots=True)
class Captured:
    """The state of a board at `seq`, as it lies in memory: columns of subscriptions by row (sid), objects in the order
    of their index, ids as the engine holds them, free rows in their order. `texts` has those of all codes in use."""

    config: BoardConfig
    sign: float
    seq: int
    next_created: int
    object_rows: int
    subscription_rows: int
    free_objects: list[int]
    free_subscriptions: list[int]
    x: Floats
    y: Floats
    c: Ints
    row: Rows
    object_ids: list[str]
    payloads: dict[int, bytes]
    regions: Regions
    k: Counts
    offset: Rows
    ttl: dict[int, float]
    texts: dict[float, str]
    ids: Coded
    recent: dict[str, int]
    indexes: CapturedIndexes | None

    def depths(self, sids: Rows) -> Rows:
        """The k of these rows."""
        return self.k[sids].astype(np.int32)


class CapturePlan(maintenance.CapturePlan[BoardStore, Captured]):
    """Copies the state of a board.

    Rows and creation numbers of objects are handed out when commands are accepted, ahead of their turn. So these
    counters are copied when the plan is made, which has to be in the order of acceptance.
    """

    # Between slices a stream may begin or end, which changes the live lists.
    in_background = False

    def __init__(self, engine: BoardStore, journal: bool = False, indexes: bool = False) -> None:
        super().__init__(engine, journal, indexes)
        self._reserved = engine.catalogue.reserved()
        self._room, engine.room = engine.room, Room()

    @property
    def seconds(self) -> float:
        return 1e-7 * self.engine.object_count + 2e-8 * self.engine.subscription_count

    def read(self) -> Captured:
        board, catalogue, subscribers = self.engine, self.engine.catalogue, self.engine.subscribers
        next_created, object_rows, free_objects = self._reserved
        x, y, c, row = catalogue.view.contents()
        ids, high, room = subscribers.ids, subscribers.high, self._room
        return Captured(
            config=board.config,
            sign=catalogue.sign,
            seq=board.seq,
            next_created=next_created,
            object_rows=object_rows,
            subscription_rows=high,
            free_objects=free_objects,
            free_subscriptions=subscribers.pool.free(),
            x=x,
            y=y,
            c=c,
            row=row,
            object_ids=catalogue.ids.copy(),
            payloads=catalogue.payloads.copy(),
            regions=subscribers.regions.first(high, room),
            k=room.copy(subscribers.k[:high]),
            offset=room.copy(subscribers.offset[:high]),
            ttl=subscribers.ttl.copy(),
            texts=board.filters.texts.copy(),
            ids=ids.base._replace(row=room.copy(ids.base.row)),
            recent=ids.recent.copy(),
            indexes=self._copy_indexes() if self._with_indexes else None,
        )

    def _copy_indexes(self) -> CapturedIndexes:
        board, painter = self.engine, self.engine.painter
        return CapturedIndexes(
            painter.objects.frozen(),
            board.catalogue.view.frozen(),
            painter.subscriptions.frozen() if isinstance(painter, Painter) else painter.subscriptions.copy(),
            painter.ks.copy(),
            [(sid, painter.live.rows(live)) for sid, live in board.live_of.items()],
        )

    def begin_journal(self) -> None:
        self.engine.subscribers.touched = []


class FoldPlan(maintenance.FoldPlan[BoardStore]):
    """Brings a freshly packed subscription index up to date, and puts it in place together with newly built object
    indexes.

    O(FOLD log m) for a plan that does not swap, and O(n log n) more for the one that does.
    """

    def __init__(self, engine: BoardStore, fresh: SubscriptionIndex) -> None:
        super().__init__(engine)
        self._fresh = fresh
        self._view: AnyObjects | None = None

    def _fold(self, budget: float) -> None:
        subscribers, painter = self.engine.subscribers, self.engine.painter
        # The rebuild may give up meanwhile, in another thread, or the board was made again, maybe of another kind.
        touched = subscribers.touched
        if touched is None or not isinstance(painter, Painter):
            self.abandoned = True
            return
        some, left = [np.empty(0, np.int32)], FOLD
        while touched and left:
            some.append(touched[-1][:left])
            touched[-1] = touched[-1][left:]
            left -= len(some[-1])
            if not len(touched[-1]):
                touched.pop()
        _update(self._fresh, subscribers, np.unique(np.concatenate(some)))
        if not touched:
            self._fresh.arrange(painter.ks)
            self.replaced = painter.subscriptions, painter.objects, self.engine.catalogue.view
            # Between two plans both hold the same objects.
            view = painter.objects.laid_out()
            painter.replace(self._fresh, view.frozen())
            self._view = view
            subscribers.touched = None
            self.swapped = True

    def _swap(self) -> None:
        if self._view is not None:
            self.engine.catalogue.view = self._view


def rehearse(board: BoardStore, fresh: SubscriptionIndex) -> None:
    """Fold what has changed so far into a freshly packed index, in any thread, while the board goes on.

    Nothing counts that it reads meanwhile: a fold compares all of it again. But the memory that changes, which is that
    of a mapped file, is the process's own afterwards, and commands of the board need not wait for that.
    """
    subscribers = board.subscribers
    touched = subscribers.touched
    if touched is None:
        return
    rows = np.unique(np.concatenate([np.empty(0, np.int32), *touched]))
    for first in range(0, len(rows), FOLD):
        _update(fresh, subscribers, rows[first : first + FOLD])


def _update(fresh: SubscriptionIndex, subscribers: Subscribers, sids: Rows) -> None:
    """Make the fresh index hold the present state of these subscriptions. Its classes are put in the order of the
    painter at the end: until then one whose k is no longer on offer may hold some."""
    k, regions = subscribers.k[sids], subscribers.regions.take(sids)
    l, r = ends(regions.l), ends(regions.r)
    differ = np.ones(len(sids), np.bool_)
    for q, one in enumerate(fresh.ks.tolist()):
        mine = np.flatnonzero((k == one) & (k > 0))
        differ[mine] = ~fresh.holds(q, sids[mine], l[mine], r[mine])
    fresh.discard(sids[differ])
    for one in np.unique(k[differ & (k > 0)]).tolist():
        mine = np.flatnonzero(differ & (k == one))
        known = np.flatnonzero(fresh.ks == one)
        q = int(known[0]) if len(known) else fresh.add_class(one)
        fresh.insert_many(q, sids[mine], l[mine], r[mine])
