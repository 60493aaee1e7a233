"""Work on a whole board between its commands: copying its state, and putting newly packed indexes in place.

Both are plans, so that they have their turn in the board's queue: what was accepted before them has been applied, what
comes after has not, and reads go on meanwhile. Neither changes any answer, and neither is logged.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from indexes.boards.commands import BoardConfig, Configure
from indexes.boards.forest import Forest
from indexes.boards.packing import ends
from indexes.boards.painter import Painter
from indexes.boards.parts import AnyObjects
from indexes.boards.plans import Plan
from indexes.boards.regions import Regions
from indexes.boards.space.subscriptions import SpaceSubscriptions
from indexes.boards.subscriptions import SubscriptionIndex
from indexes.boards.views import Slice
from indexes.ids import Packed

if TYPE_CHECKING:
    from indexes.boards.board import Board

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]

FOLD = 4_000
"""Changed subscriptions that are folded in at once: some milliseconds."""


class CapturedIndexes(NamedTuple):
    """Copies of what answers come from. `live` are the lists being kept: sid and rows of objects, best first."""

    painting: AnyObjects
    reading: AnyObjects
    forest: Forest | SpaceSubscriptions
    classes: Int64
    live: list[tuple[int, Int32]]


@dataclass(slots=True)
class Captured:
    """A board's state as it lay in memory at `seq`: columns by sid, objects in the index's order, ids as the engine
    holds them, rows given back in their order. `texts` are those of the codes in use, and maybe others."""

    config: BoardConfig
    sign: float
    seq: int
    next_created: int
    object_rows: int
    subscription_rows: int
    free_objects: list[int]
    free_subscriptions: list[int]
    x: Float64
    y: Float64
    c: Int64
    row: Int32
    object_ids: list[str]
    payloads: dict[int, bytes]
    regions: Regions
    k: Int32
    offset: Int32
    ttl: dict[int, float]
    texts: dict[float, str]
    ids: Packed
    recent: dict[str, int]
    indexes: CapturedIndexes | None


class Upkeep(Plan):
    """A plan that takes no seq and is not logged."""

    def __init__(self, board: Board) -> None:
        super().__init__(board, Configure(), 0, [])

    def cancel(self) -> None:
        """It has changed nothing yet."""


class CapturePlan(Upkeep):
    """Copies the state of a board: some nanoseconds for each byte of it.

    Rows are handed out when commands are accepted, ahead of their turn; so what counts them is copied when this plan is
    made, which has to be in the order of acceptance too. With `journal` the board notes from then on which
    subscriptions change, for a `FoldPlan`.
    """

    def __init__(self, board: Board, journal: bool = False, indexes: bool = False) -> None:
        super().__init__(board)
        self._journal = journal
        self._indexes = indexes
        self._rows = (*board.catalogue.reserved(), *board.subscribers.reserved())
        self.captured: Captured | None = None

    @property
    def work(self) -> float:
        return 1e-7 * self.board.object_count + 2e-8 * self.board.subscription_count

    def paint(self, budget: float) -> None:
        board, catalogue, subscribers = self.board, self.board.catalogue, self.board.subscribers
        next_created, object_rows, free_objects, subscription_rows, free_subscriptions = self._rows
        x, y, c, row = catalogue.view.contents()
        ids = subscribers.ids
        self.captured = Captured(
            config=board.config,
            sign=catalogue.sign,
            seq=board.seq,
            next_created=next_created,
            object_rows=object_rows,
            subscription_rows=subscription_rows,
            free_objects=free_objects,
            free_subscriptions=free_subscriptions,
            x=x,
            y=y,
            c=c,
            row=row,
            object_ids=catalogue.ids.copy(),
            payloads=catalogue.payloads.copy(),
            regions=subscribers.regions.take(slice(subscription_rows)),
            k=subscribers.k[:subscription_rows].copy(),
            offset=subscribers.offset[:subscription_rows].copy(),
            ttl=subscribers.ttl.copy(),
            texts=board.filters.texts.copy(),
            ids=ids.base._replace(row=ids.base.row.copy()),
            recent=ids.recent.copy(),
            indexes=self._copy_indexes() if self._indexes else None,
        )
        if self._journal:
            subscribers.touched = []

    def _copy_indexes(self) -> CapturedIndexes:
        board, painter = self.board, self.board.painter
        return CapturedIndexes(
            painter.objects.frozen(),
            board.catalogue.view.frozen(),
            painter.subscriptions.frozen() if isinstance(painter, Painter) else painter.subscriptions.copy(),
            painter.ks.copy(),
            [(sid, painter.live.rows(live)) for sid, live in board.live_of.items()],
        )

    def settle(self) -> Slice | None:
        self.done = True
        return None


class FoldPlan(Upkeep):
    """Brings a packed subscription index up to date with what changed since its board was captured, and puts it in
    place once little is left (`swapped`); the objects are laid out anew in that moment. Otherwise another plan goes on.
    It is `abandoned` where nobody noted what changes. `seconds` is what painting took.

    O(FOLD log m) for a plan that does not swap, and O(n log n) more for the one that does.
    """

    def __init__(self, board: Board, fresh: SubscriptionIndex) -> None:
        super().__init__(board)
        self.swapped = False
        self.abandoned = False
        self.seconds = 0.0
        self._fresh = fresh
        self._view: AnyObjects | None = None

    @property
    def work(self) -> float:
        return 1.0

    def paint(self, budget: float) -> None:
        began = time.perf_counter()
        subscribers, painter = self.board.subscribers, self.board.painter
        assert isinstance(painter, Painter), "boards with several range attributes have no packed indexes"
        # The rebuild may give up meanwhile, in another thread.
        touched = subscribers.touched
        if touched is None:
            self.abandoned = True
            return
        some, left = [np.empty(0, np.int32)], FOLD
        while touched and left:
            some.append(touched[-1][:left])
            touched[-1] = touched[-1][left:]
            left -= len(some[-1])
            if not len(touched[-1]):
                touched.pop()
        self._fold(np.unique(np.concatenate(some)))
        if not touched:
            self._fresh.arrange(painter.ks)
            painter.subscriptions = self._fresh
            painter.objects = type(painter.objects).build(*painter.objects.contents())
            self._view = type(painter.objects).build(*self.board.catalogue.view.contents())
            subscribers.touched = None
            self.swapped = True
        self.seconds = time.perf_counter() - began

    def _fold(self, sids: Int32) -> None:
        """Make the new index hold of these subscriptions what stands now. Its classes are put in the painter's order at
        the end: one whose k is no longer on offer is not empty before."""
        fresh, subscribers = self._fresh, self.board.subscribers
        fresh.discard(sids)
        k = subscribers.k[sids]
        for one in np.unique(k[k > 0]).tolist():
            mine = sids[k == one]
            known = np.flatnonzero(fresh.ks == one)
            q = int(known[0]) if len(known) else fresh.add_class(one)
            regions = subscribers.regions.take(mine)
            fresh.insert_many(q, mine, ends(regions.l), ends(regions.r))

    def settle(self) -> Slice | None:
        if self._view is not None:
            self.board.catalogue.view = self._view
        self.done = True
        return None
