"""The subscriptions of a board by id: the applied ones by column, and what accepted commands will make of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from indexes.boards.columns import GrowingColumns
from indexes.boards.commands import AddSubscriptions, DeleteSubscriptions, SetSubscription, SubscriptionState
from indexes.boards.filters import RANGES_ONLY, SAME_CODE, CodeChanges, FilterIndex
from indexes.boards.regions import Regions, everywhere, merged
from indexes.boards.results import SubscriptionView
from indexes.core.arrays import Counts, Floats, Rows
from indexes.core.commands import Fault, Refused, missing
from indexes.core.front_coding import CodedIdMap
from indexes.core.ids import BULK, Packed
from indexes.core.pending import RowPool
from indexes.core.pending_subscriptions import (
    GONE,
    PendingSubscription,
    PendingSubscriptions,
    Steps,
    Undo,
    accept_delete,
    accept_many,
)


@dataclass(slots=True)
class Reservation:
    """What an accepted command keeps until it is applied or rolled back: its pending state, how much more often each
    list length is in use, and the codes of filters that come into use and go out of it."""

    owner: int
    undo: Undo[SubscriptionState] = field(default_factory=list)
    uses: Counter[int] = field(default_factory=Counter)
    codes: CodeChanges = field(default_factory=CodeChanges)


class AcceptedAddition(NamedTuple):
    """An addition that applies. `command` is as the log keeps it; `coded` has its regions as kernels see them, with the
    filters. `packed` are the sorted ids of a large one. See `pending_subscriptions.Accepted`."""

    command: AddSubscriptions
    coded: AddSubscriptions
    packed: Packed | None
    faults: list[Fault]
    positions: list[int] | None
    reservation: Reservation


class Subscribers:
    """Subscriptions of a board, by id.

    Columns by row (sid): `regions` (as kernels see them, with filters), `k` and `offset`. `k` is the class that a
    subscription is painted with, which is the depth of its list (0: no such subscription); it shows the ranks from
    offset + 1 on; offsets are written only where they are not 0, since pages never written to take no memory. They are
    other arrays once the columns have grown, or `k` was too narrow (`indexes.boards.columns`). `uses` counts the
    accepted subscriptions of each class.
    """

    def __init__(self, filters: FilterIndex) -> None:
        self._filters = filters
        self.ids = CodedIdMap()
        self._columns = GrowingColumns(filters.dimensions)
        self.ttl: dict[int, float] = {}
        self.uses: Counter[int] = Counter()
        self.touched: list[Rows] | None = None
        """Rows that changed since a capture with a journal, else None."""
        self.pool = RowPool()
        self.pending: PendingSubscriptions[SubscriptionState] = PendingSubscriptions()

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def regions(self) -> Regions:
        return self._columns.now.regions

    @property
    def k(self) -> Counts:
        return self._columns.now.k

    @property
    def offset(self) -> Rows:
        return self._columns.now.offset

    def lifetimes(self) -> Iterator[tuple[str, float]]:
        """The subscriptions with a time limit, each with its seconds. O(m) where there are any."""
        for key, sid in self.ids.after(None) if self.ttl else ():
            if sid in self.ttl:
                yield key, self.ttl[sid]

    @property
    def high(self) -> int:
        """The number of rows ever handed out."""
        return self.pool.high

    def load(
        self, ids: Packed, regions: Regions, k: Rows, ttl: Floats, offset: Rows, high: int, free: list[int]
    ) -> None:
        """Take over all subscriptions of a board that has none; columns in the order of `ids`, NaN for no `ttl`."""
        self.ids.swap(self.ids.base_of(ids))
        self.pool.restore(high, free)
        self._columns.reserve(high)
        self._columns.fit(int(k.max(initial=0)))
        self.regions.place(ids.row, regions)
        self.k[ids.row] = k
        if offset.any():
            self.offset[ids.row] = offset
        limited = np.flatnonzero(~np.isnan(ttl))
        self.ttl = dict(zip(ids.row[limited].tolist(), ttl[limited].tolist(), strict=True))
        self.uses = _counted(k)

    def get(self, key: str) -> SubscriptionView | None:
        """An applied subscription, or None."""
        sid = self.ids.find(key)
        return None if sid < 0 else self.view(key, sid)

    def view(self, key: str, sid: int) -> SubscriptionView:
        """The applied subscription of a row, whose id is `key`."""
        state = self.state_of(sid)
        region, where = self._filters.apart(state.region)
        return SubscriptionView(key, region, state.k - state.offset, state.ttl, state.offset, where)

    def state_of(self, sid: int) -> SubscriptionState:
        """The state of the applied subscription of a row."""
        return SubscriptionState(self.regions.at(sid), int(self.k[sid]), self.ttl.get(sid), int(self.offset[sid]))

    # Checks, against applied and pending state

    def latest(self, key: str) -> SubscriptionState | None:
        """The state of a subscription once all accepted commands are applied, None for none."""
        pending = self.pending.get(key)
        if pending is not None:
            return pending.state
        sid = self.ids.find(key)
        return None if sid < 0 else self.state_of(sid)

    def _will_exist(self, key: str) -> bool:
        pending = self.pending.get(key)
        return pending is not GONE if pending is not None else self.ids.find(key) >= 0

    def accept_set(
        self, owner: int, command: SetSubscription, ks: tuple[int, ...]
    ) -> tuple[SetSubscription, SubscriptionState | None, SubscriptionState, Reservation]:
        """Check one subscription, on a board that offers the list lengths `ks`. Returns the command with nothing left
        out, the states before and after it, and what it reserves: nothing where they are equal.

        Raises:
            Refused: it does not apply; nothing has changed.
        """
        reservation = Reservation(owner)
        before = self.latest(command.id)
        if before is None and command.must_exist:
            raise Refused([missing("subscription", command.id)])
        whole = self._filled(command, before)
        if whole.k is None:
            raise Refused([Fault("k", "a new subscription needs k")])
        assert whole.region is not None and whole.offset is not None and whole.where is not None
        depth = whole.offset + whole.k
        faults = []
        if depth not in ks:
            name = "offset" if whole.offset and command.offset is not None else "k"
            faults.append(Fault(name, _not_offered(ks, depth, whole.offset)))
        if whole.region.fault is not None:
            faults.append(Fault(*whole.region.fault))
        texts: dict[float, str] = {}
        try:
            region = self._filters.region(whole.region, whole.where, texts)
        except LookupError as error:
            faults.append(Fault(f"where.{error}", SAME_CODE))
        if self._filters.fields and whole.region.shape != "box":
            faults.append(Fault(whole.region.shape, RANGES_ONLY))
        if faults:
            raise Refused(faults)
        after = SubscriptionState(region, depth, whole.ttl or None, whole.offset)
        if before == after:
            return whole, before, after, reservation
        if before is not None:
            reservation.uses[before.k] -= 1
            reservation.codes.lost.update(self._filters.codes(before.region))
        reservation.uses[depth] += 1
        reservation.codes.gained.update(self._filters.codes(region))
        self.pending.put(owner, command.id, PendingSubscription(None, after), reservation.undo)
        self._reserve(reservation, texts)
        return whole, before, after, reservation

    def _filled(self, command: SetSubscription, before: SubscriptionState | None) -> SetSubscription:
        """The command with what it leaves out taken from the state before it. Raises Refused where that has another
        shape."""
        old = before or SubscriptionState(everywhere(self.regions.d), 0, None)
        old_region, old_where = self._filters.apart(old.region)
        try:
            region = old_region if command.region is None else merged(command.region, old_region)
        except ValueError as error:
            assert command.region is not None
            raise Refused([Fault(command.region.shape, str(error))]) from None
        return SetSubscription(
            command.id,
            region,
            (old.k - old.offset or None) if command.k is None else command.k,
            (old.ttl or 0.0) if command.ttl is None else command.ttl,
            offset=old.offset if command.offset is None else command.offset,
            where=old_where if command.where is None else command.where,
        )

    def accept_delete(self, owner: int, command: DeleteSubscriptions) -> Steps[tuple[DeleteSubscriptions, Reservation]]:
        """Check deletions, in pieces; ids that do not exist are skipped.

        Raises:
            Refused: an id does not exist, and all must.
        """
        reservation = Reservation(owner)

        def exists(key: str) -> bool:
            state = self.latest(key)
            if state is None:
                return False
            reservation.uses[state.k] -= 1
            reservation.codes.lost.update(self._filters.codes(state.region))
            return True

        absent = partial(missing, "subscription")
        found, reservation.undo = yield from accept_delete(owner, command, self.pending, exists, absent)
        self._reserve(reservation, {})
        return DeleteSubscriptions(found), reservation

    def accept_many(self, owner: int, command: AddSubscriptions, ks: tuple[int, ...]) -> Steps[AcceptedAddition]:
        """Check new subscriptions, in pieces, on a board that offers the list lengths `ks`. Nothing changes before it
        returns.

        Raises:
            Refused: an id is taken or occurs twice, a length is not offered, or a region is none, and the command does
                not skip.
        """
        regions, texts = command.regions, dict[float, str]()

        def check() -> list[Fault]:
            nonlocal regions, texts
            faults = _bad_rows(command, ks)
            if self._filters.fields:
                regions, texts, wrong = self._filters.regions(command.regions, command.where)
                faults += wrong
            return faults

        accepted = yield from accept_many(command, check, lambda: self.ids, self.pending, self._will_exist, BULK)
        coded = whole = accepted.command
        if self._filters.fields:
            if accepted.positions is not None:
                regions = regions.take(np.array(accepted.positions, np.int64))
            coded = replace(whole, regions=regions, where=())
        reservation = Reservation(owner, uses=_counted(whole.depth))
        self.pending.put_all(owner, coded, accepted.packed, reservation.undo)
        if self._filters.fields:
            reservation.codes.gained = self._filters.counted(regions)
        self._reserve(reservation, texts)
        return AcceptedAddition(whole, coded, accepted.packed, accepted.faults, accepted.positions, reservation)

    def _reserve(self, reservation: Reservation, texts: dict[float, str]) -> None:
        for k, n in reservation.uses.items():
            self.uses[k] += n
        self._filters.hold(reservation.codes.gained, texts)

    def settle(self, reservation: Reservation) -> None:
        """A command has been applied. Its pending state is settled by its plan."""
        self._filters.release(reservation.codes.lost)

    def roll_back(self, reservation: Reservation) -> None:
        """The newest command could not be logged. Its pending state is rolled back by its plan."""
        for k, n in reservation.uses.items():
            self.uses[k] -= n
        self._filters.release(reservation.codes.gained)

    # Changes of the applied state

    def prepare(self, sids: Rows, added: AddSubscriptions) -> None:
        """Write what nobody reads of new subscriptions before they are visible, most of it into memory that nobody has
        touched. In any thread, while nothing changes. O(m)."""
        self._columns.reserve(self.pool.high)
        self.regions.place(sids, added.regions)
        self._columns.fit(int(added.depth.max(initial=0)))
        self.k[sids] = 0
        if added.offset is not None and added.offset.any():
            self.offset[sids] = added.offset

    def add(self, sids: Rows, added: AddSubscriptions, packed: bool) -> None:
        """Make new subscriptions visible in these rows, for which they were prepared. The ids of `packed` ones are in
        the map already. O(m)."""
        self._begin_change(sids)
        self.k[sids] = added.depth
        for i, seconds in added.ttl.items():
            self.ttl[int(sids[i])] = seconds
        if not packed:
            for key, sid in zip(added.ids.to_pylist(), sids.tolist(), strict=True):
                self.ids.insert(key, sid)
        self._columns.follow(sids, self.pool.high)

    def put(self, sid: int, state: SubscriptionState) -> None:
        """Make a state visible in a row. O(1)."""
        sids = np.array([sid], np.int32)
        self._begin_change(sids)
        self.regions.put(sid, state.region)
        self._columns.fit(state.k)
        self.k[sid] = state.k
        if self.offset[sid] != state.offset:
            self.offset[sid] = state.offset
        if state.ttl is None:
            self.ttl.pop(sid, None)
        else:
            self.ttl[sid] = state.ttl
        self._columns.follow(sids, self.pool.high)

    def delete(self, keys: list[str], sids: Rows) -> None:
        """Delete subscriptions, and hand back their rows. O(m), and a search for ids of the base."""
        self._begin_change(sids)
        self.k[sids] = 0
        if np.count_nonzero(self.offset[sids]):
            self.offset[sids] = 0
        for key, sid in zip(keys, sids.tolist(), strict=True):
            self.ids.delete(key)
            self.ttl.pop(sid, None)
        self.pool.give(sids.tolist())
        self._columns.follow(sids, self.pool.high)

    def _begin_change(self, sids: Rows) -> None:
        """Note rows that are about to change, and extend the columns to all rows."""
        self._columns.reserve(self.pool.high)
        if self.touched is not None:
            self.touched.append(sids)

    def check(self) -> None:
        """Raise AssertionError unless ids, columns and counts agree (with nothing pending)."""
        self.ids.check()
        sids = [sid for _, sid in self.ids.after(None)]
        assert len(set(sids)) == len(sids) == len(self.ids), "a row is used twice"
        assert all(self.k[sid] > self.offset[sid] >= 0 for sid in sids), "a subscription without k"
        free = np.setdiff1d(np.arange(len(self.k)), sids)
        assert not self.k[free].any() and not self.offset[free].any(), "an unused row is not empty"
        assert Counter(self.k[sids].tolist()) == +self.uses, "uses of k are counted wrongly"


def _counted(k: Rows) -> Counter[int]:
    values, counts = np.unique(k, return_counts=True)
    return Counter(dict(zip(values.tolist(), counts.tolist(), strict=True)))


def _not_offered(ks: tuple[int, ...], depth: int, offset: int) -> str:
    offered = f"this board offers k = {', '.join(map(str, ks))}"
    return f"offset + k is {depth}, and {offered}" if offset else offered


def _bad_rows(command: AddSubscriptions, ks: tuple[int, ...]) -> list[Fault]:
    depth, faults = command.depth, []
    for i in np.flatnonzero(~np.isin(depth, ks)).tolist():
        offset = 0 if command.offset is None else int(command.offset[i])
        faults.append(Fault("offset" if offset else "k", _not_offered(ks, int(depth[i]), offset), "invalid", i))
    return faults + [Fault(name, reason, "invalid", i) for i, name, reason in command.regions.faults()]
