"""The state of a board, with its reads: what plans change and what the engine is made of."""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

import numpy as np

from indexes.boards.commands import Filter, SubscriptionState
from indexes.boards.config import BoardConfig
from indexes.boards.filters import FilterIndex
from indexes.boards.objects import Catalogue
from indexes.boards.parts import new_painter
from indexes.boards.regions import Region
from indexes.boards.results import ListEntry, ObjectView, SubscriptionView, net_entries, place_of
from indexes.boards.subscriptions import Subscribers
from indexes.core.aligned import LINE_BYTES
from indexes.core.pending_subscriptions import PendingSubscriptions
from indexes.core.room import Room

NEARLY_FULL = 0.97
"""Share of the room of a class from which on it should be laid out in larger arrays, before a write has to do it."""


class LiveSubscription(NamedTuple):
    """A live subscription: its row, and its state when its list was last computed."""

    sid: int
    state: SubscriptionState


class BoardStore:
    """A ranked set of objects with range attributes, and the subscriptions to its best k.

    `first_seq` is the seq of the board's own creation. Reads are exact at `seq`. `config` is the applied configuration,
    `latest_config` that of the last accepted command. `live_of` has the live slot of each live subscription by row.
    """

    def __init__(self, config: BoardConfig, first_seq: int = 0) -> None:
        self.config = config
        self.latest_config = config
        self.seq = first_seq
        self.next_seq = first_seq + 1
        self.filters = FilterIndex(config.indexed, len(config.range_attributes))
        self.catalogue = Catalogue(config, self.filters)
        self.subscribers = Subscribers(self.filters)
        self.painter = new_painter(config)
        self.live_of: dict[int, int] = {}
        self._live: dict[int, LiveSubscription] = {}
        self.room = Room()

    def make_room(self) -> None:
        """Get the memory that the next capture copies subscriptions into, so that it does not take long in its turn. In
        any thread."""
        of, high = self.subscribers, self.subscribers.high
        columns = (of.regions.shape[:high], of.regions.sides[:, :high], of.k[:high], of.offset[:high], of.ids.base.row)
        self.room = Room(sum(column.nbytes + LINE_BYTES for column in columns))

    @property
    def object_count(self) -> int:
        return len(self.catalogue.rows)

    @property
    def subscription_count(self) -> int:
        return len(self.subscribers)

    @property
    def pending(self) -> PendingSubscriptions[SubscriptionState]:
        """What accepted commands will make of subscriptions."""
        return self.subscribers.pending

    @property
    def churn(self) -> float:
        """What there is to gain by packing the subscriptions again: changes for each subscription, or 1 when a class is
        about to outgrow its arrays. 0 with several range attributes, where nothing is packed."""
        if self.config.dimensions > 1:
            return 0.0
        index = self.painter.subscriptions
        return max(index.edits / max(1, len(index)), float(index.fullest > NEARLY_FULL))

    # Reads

    def object(self, key: str) -> ObjectView | None:
        """The object of an id, or None."""
        return self.catalogue.get(key)

    def objects(self, after: str | None, limit: int) -> list[ObjectView]:
        """Up to `limit` objects in order of id, behind `after`. O(n)."""
        return self.catalogue.after(after, limit)

    def top(self, region: Region, k: int, offset: int = 0, where: Filter = ()) -> list[ObjectView]:
        """The ranks offset + 1 to offset + k among the objects of a region that pass a filter.

        O((offset + k) log n) on a board with one range attribute.
        """
        try:
            return self._top(self.filters.region(region, where), k, offset)
        except LookupError:
            # Another value in use has the code, so that no object has this one.
            return []

    def _top(self, region: Region, k: int, offset: int) -> list[ObjectView]:
        rows = self.catalogue.top_rows(region, offset + k)
        return [self.catalogue.object_at(row) for row in rows[offset:].tolist()]

    def subscription(self, key: str) -> SubscriptionView | None:
        """The subscription of an id, or None."""
        return self.subscribers.get(key)

    def subscriptions(self, after: str | None, limit: int) -> list[SubscriptionView]:
        """Up to `limit` subscriptions in order of id, behind `after`."""
        found = islice(self.subscribers.ids.after(after), limit)
        return [self.subscribers.view(key, sid) for key, sid in found]

    # Live subscriptions

    def watch(self, key: str) -> int:
        """Keep the list of a subscription up to date from now on; returns its live slot.

        Raises:
            KeyError: there is no such subscription.
        """
        sid = self.subscribers.ids.find(key)
        if sid < 0:
            raise KeyError(key)
        state = self.subscribers.state_of(sid)
        rows = self.catalogue.top_rows(state.region, state.k)
        live = self.painter.listen(state.region, state.k, rows, state.offset)
        self.live_of[sid] = live
        self._live[live] = LiveSubscription(sid, state)
        return live

    def unwatch(self, live: int) -> None:
        """Stop keeping a live list."""
        sid, state = self._live.pop(live)
        del self.live_of[sid]
        self.painter.forget(live, state.region, state.k)

    def want_tiles(self, live: int, on: bool) -> None:
        """Whether the notifications of a live subscription include its tiles."""
        self.painter.live.want_tiles(live, on)

    def list_of(self, live: int, offset: int = 0) -> list[ObjectView]:
        """A live list, best first, behind the first `offset` ranks."""
        return [self.catalogue.object_at(row) for row in self.painter.live.rows(live)[offset:].tolist()]

    def offset_of(self, live: int) -> int:
        """How many ranks at the head of a live list its subscription skips."""
        return self._live[live].state.offset

    def recompute(self, lives: list[int]) -> None:
        """Compute live lists from the objects that painting reads, when nothing of the board is half painted."""
        painter = self.painter
        for live in lives:
            state = self._live[live].state
            slots = painter.objects.best(state.region, state.k)
            painter.live.set_rows(live, painter.objects.arrays.row[slots].astype(np.int32))

    def visible_list(self, live: int) -> list[ObjectView]:
        """A live list as reads see it. While a batch is painted, the live list itself may be ahead of that."""
        state = self._live[live].state
        return self._top(state.region, state.k - state.offset, state.offset)

    def move_live(self, live: int, after: SubscriptionState) -> tuple[ListEntry, ...]:
        """Change the region, k or offset of a live subscription; returns the net change of the ranks it shows."""
        sid, state = self._live[live]
        before = self.list_of(live, state.offset)
        rows = self.catalogue.top_rows(after.region, after.k)
        self.painter.listen_to(live, (state.region, state.k), (after.region, after.k), rows, after.offset)
        self._live[live] = LiveSubscription(sid, after)
        return net_entries(before, self.list_of(live, after.offset), state.offset, after.offset)

    def check(self) -> None:
        """Raise AssertionError unless all parts agree (with nothing pending). O(n log n + m)."""
        self.painter.check()
        self.catalogue.view.check()
        self.painter.subscriptions.check()
        self.subscribers.check()
        sids = np.flatnonzero(self.subscribers.k)
        self.filters.check(self.catalogue.view.contents()[0], self.subscribers.regions.take(sids))
        assert len(self.catalogue.rows) == len(self.catalogue.view) == len(self.painter.objects), "object counts differ"
        for key, row in self.catalogue.rows.items():
            painted, read = self.painter.objects.arrays, self.catalogue.view.arrays
            a, b = painted.pos[row], read.pos[row]
            same = (place_of(painted.x, a), painted.y[a], painted.c[a]) == (place_of(read.x, b), read.y[b], read.c[b])
            assert same and self.catalogue.ids[row] == key, f"{key} differs between the painting and the reading index"
        for live, (_, state) in self._live.items():
            rows = self.catalogue.top_rows(state.region, state.k)
            assert np.array_equal(self.painter.live.rows(live), rows), f"live list {live} differs from a scan"
