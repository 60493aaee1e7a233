"""The subscriptions of a board as the outside knows them: ids, ranges, list lengths, settled and pending."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indexes.boards.commands import SetSubscription, Subscribe, Unsubscribe
from indexes.boards.filters import RANGES_ONLY, SAME_CODE, FilterIndex, Held
from indexes.boards.regions import Region, Regions, everywhere, merged
from indexes.boards.views import SubscriptionView
from indexes.commands import Fault, Refused
from indexes.ids import IdMap, Packed, common, find_packed, first_repeat, pack
from indexes.overlay import STRIDE, Overlay, RowPool

BULK = 4_096
"""From this many on, new subscriptions go into the packed id base and not into the dict."""

Int32 = npt.NDArray[np.int32]
Float64 = npt.NDArray[np.float64]
Steps = Generator[Callable[[], Any] | None, Any, Any]


class Standing(NamedTuple):
    """One subscription: its row (sid), or -1 when it is gone. It wants the ranks offset + 1 to k, k being its class.
    The region is as kernels see it, with the filter."""

    sid: int
    region: Region
    k: int
    ttl: float | None
    offset: int = 0


NOBODY = Standing(-1, everywhere(1), 0, None)


@dataclass(slots=True)
class Change:
    """What one accepted command does to subscriptions: `before` and `after` by id (None: not there)."""

    owner: int
    id: str
    before: Standing | None
    after: Standing | None


@dataclass(slots=True)
class Edit:
    """An accepted command on subscriptions, with what it takes to settle it or to take it back."""

    owner: int
    changes: list[Change] = field(default_factory=list)
    packed: Packed | None = None
    fresh: Subscribe | None = None
    sids: Int32 = field(default_factory=lambda: np.empty(0, np.int32))
    high_before: int = 0
    taken: list[int] = field(default_factory=list)
    given: list[int] = field(default_factory=list)
    uses: Counter[int] = field(default_factory=Counter)
    undo: list[tuple[str, tuple[int, Standing] | None]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    positions: list[int] | None = None
    held: Held = field(default_factory=Held)

    def lifetimes(self) -> Iterator[tuple[str, float | None]]:
        """Ids with the seconds that they may stay unused from now on, None for ever or gone. New ones without a limit
        may be left out."""
        if self.fresh is not None:
            for i, seconds in self.fresh.ttl.items():
                yield self.fresh.ids[i].as_py(), seconds
        for change in self.changes:
            yield change.id, None if change.after is None else change.after.ttl


class Subscribers:
    """Subscriptions of a board, by id.

    Columns by sid: `regions` (as kernels see them, with filters), `k` and `offset`. `k` is the class that a
    subscription is painted with, which is how deep its list reaches (0: no such subscription); it shows the ranks from
    offset + 1 on.
    """

    def __init__(self, filters: FilterIndex) -> None:
        self._filters = filters
        self.ids = IdMap()
        self.regions = Regions.empty(filters.dimensions)
        self.k: Int32 = np.empty(0, np.int32)
        self.offset: Int32 = np.empty(0, np.int32)
        self.ttl: dict[int, float] = {}
        self.uses: Counter[int] = Counter()
        self.touched: list[Int32] | None = None
        """Sids that changed since a capture that asked for them, else None."""
        self._pool = RowPool()
        self._pending: Overlay[Standing] = Overlay()
        self._pending_bulk: list[tuple[int, Packed, Subscribe, Int32]] = []

    def __len__(self) -> int:
        return len(self.ids)

    def lifetimes(self) -> Iterator[tuple[str, float]]:
        """The subscriptions with a time limit, each with its seconds. O(m) where there are any."""
        for key, sid in self.ids.after(None) if self.ttl else ():
            if sid in self.ttl:
                yield key, self.ttl[sid]

    @property
    def high(self) -> int:
        """Sids ever handed out."""
        return self._pool.high

    def reserved(self) -> tuple[int, list[int]]:
        """The sids handed out to accepted commands, and a copy of those free to be handed out again."""
        return self._pool.high, self._pool.free()

    def load(
        self, ids: Packed, regions: Regions, k: Int32, ttl: Float64, offset: Int32, high: int, free: list[int]
    ) -> None:
        """Take over all subscriptions of a board that has none; columns in the order of `ids`, NaN for no `ttl`."""
        self.ids.swap(ids)
        self._pool.restore(high, free)
        self._grow(high)
        self.regions.place(ids.row, regions)
        self.k[ids.row], self.offset[ids.row] = k, offset
        limited = np.flatnonzero(~np.isnan(ttl))
        self.ttl = dict(zip(ids.row[limited].tolist(), ttl[limited].tolist(), strict=True))
        values, counts = np.unique(k, return_counts=True)
        self.uses = Counter(dict(zip(values.tolist(), counts.tolist(), strict=True)))

    def get(self, key: str) -> SubscriptionView | None:
        """A settled subscription."""
        sid = self.ids.find(key)
        return None if sid < 0 else self.view(key, sid)

    def view(self, key: str, sid: int) -> SubscriptionView:
        _, whole, k, ttl, offset = self.standing(sid)
        region, where = self._filters.apart(whole)
        return SubscriptionView(key, region, k - offset, ttl, offset, where)

    def standing(self, sid: int) -> Standing:
        """The settled subscription of a row."""
        return Standing(sid, self.regions.at(sid), int(self.k[sid]), self.ttl.get(sid), int(self.offset[sid]))

    def latest(self, key: str) -> Standing | None:
        """A subscription as it will be when everything accepted has been applied."""
        entry = self._pending.entries.get(key)
        owner = entry[0] if entry is not None else -1
        for bulk_owner, packed, command, sids in reversed(self._pending_bulk):
            if bulk_owner > owner:
                row = find_packed(packed, key)
                if row >= 0:
                    i = int(np.flatnonzero(sids == row)[0])
                    return _standing(command, i, row)
        if entry is not None:
            return None if entry[1].sid < 0 else entry[1]
        sid = self.ids.find(key)
        return None if sid < 0 else self.standing(sid)

    def accept_set(self, owner: int, command: SetSubscription, ks: tuple[int, ...]) -> tuple[Edit, SetSubscription]:
        """Check one subscription; the command that comes back carries its data whole. An empty edit changes nothing."""
        edit = Edit(owner, high_before=self._pool.high)
        before = self.latest(command.id)
        if before is None and command.must_exist:
            raise Refused([Fault("id", f"there is no subscription {command.id!r}", "missing")])
        whole = self._filled(command, before)
        if whole.k is None:
            raise Refused([Fault("k", "a new subscription needs k")])
        assert whole.region is not None and whole.offset is not None and whole.where is not None
        depth = whole.offset + whole.k
        faults = []
        if depth not in ks:
            field = "offset" if whole.offset and command.offset is not None else "k"
            faults.append(Fault(field, _not_offered(ks, depth, whole.offset)))
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
        ttl = whole.ttl or None
        if before is not None and before == Standing(before.sid, region, depth, ttl, whole.offset):
            return edit, whole
        if before is None:
            sid = self._pool.take()
            edit.taken = [sid]
        else:
            sid = before.sid
            edit.uses[before.k] -= 1
            edit.held.lost.update(self._filters.codes(before.region))
        after = Standing(sid, region, depth, ttl, whole.offset)
        edit.uses[depth] += 1
        edit.held.gained.update(self._filters.codes(region))
        self._filters.hold(edit.held.gained, texts)
        edit.changes.append(Change(owner, command.id, before, after))
        self._pending.put(owner, command.id, after, edit.undo)
        self._use(edit.uses, 1)
        return edit, whole

    def _filled(self, command: SetSubscription, before: Standing | None) -> SetSubscription:
        """The command with what it leaves out taken from what stands. Raises Refused where that is another shape."""
        old = before or Standing(-1, everywhere(self.regions.d), 0, None)
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

    def accept_delete(self, owner: int, command: Unsubscribe) -> Generator[None, None, tuple[Edit, Unsubscribe]]:
        """Check deletions; ids that are not there are passed over, or refused with `must_exist`. A generator that
        yields now and then."""
        edit = Edit(owner, high_before=self._pool.high)
        try:
            for i, key in enumerate(dict.fromkeys(command.ids)):
                before = self.latest(key)
                if before is not None:
                    edit.changes.append(Change(owner, key, before, None))
                    edit.uses[before.k] -= 1
                    edit.given.append(before.sid)
                    edit.held.lost.update(self._filters.codes(before.region))
                    self._pending.put(owner, key, NOBODY, edit.undo)
                elif command.must_exist:
                    raise Refused([Fault("id", f"there is no subscription {key!r}", "missing")])
                # An id of the sorted base takes some microseconds to find.
                if i % (STRIDE // 8) == STRIDE // 8 - 1:
                    yield
        except (GeneratorExit, Refused):
            self._pending.take_back(edit.undo)
            raise
        self._pool.give(edit.given)
        self._use(edit.uses, 1)
        return edit, Unsubscribe([change.id for change in edit.changes])

    def accept_many(self, owner: int, command: Subscribe, ks: tuple[int, ...]) -> Steps:
        """Check new subscriptions. A generator: it yields functions to be run in any thread and is sent their results.

        Nothing changes before it returns.

        Raises Refused when an id is taken (also twice in the command) or a k is not offered, unless the command skips.
        """
        faults = _bad_rows(command, ks)
        fresh, texts = command, dict[float, str]()
        if self._filters.fields:
            work = partial(self._filters.regions, command.regions, command.where)
            regions, texts, wrong = (yield work) if len(command) > BULK else work()
            fresh = replace(command, regions=regions, where=())
            faults += wrong
        packed = None
        if len(command) > BULK:
            packed = yield partial(pack, command.ids, np.arange(len(command), dtype=np.int32))
            clash = yield partial(_repeats, packed)
            settled = None
            while not clash and settled is not self.ids.base:
                settled = self.ids.base
                clash = yield partial(common, settled, packed)
            clash = clash or self._clashes(packed)
        else:
            clash = True
        if clash:
            faults += self._taken(command)
        if faults and not command.skip:
            raise Refused(sorted(faults, key=lambda fault: (fault.kind == "taken", fault.index)))
        positions = None
        if faults:
            bad = {fault.index for fault in faults}
            positions = [i for i in range(len(command)) if i not in bad]
            command, fresh = _pick(command, positions), _pick(fresh, positions)
            packed = pack(command.ids, np.arange(len(command), dtype=np.int32)) if len(command) > BULK else None
        edit = self._accepted(owner, fresh, packed, faults, positions)
        if self._filters.fields:
            edit.held.gained = self._filters.counted(fresh.regions)
            self._filters.hold(edit.held.gained, texts)
        return edit, command

    def _accepted(
        self, owner: int, command: Subscribe, packed: Packed | None, faults: list[Fault], positions: list[int] | None
    ) -> Edit:
        edit = Edit(owner, high_before=self._pool.high, faults=faults, positions=positions)
        edit.taken = self._pool.take_many(len(command))
        edit.sids = np.array(edit.taken, np.int32)
        edit.fresh = command
        counts = np.unique(command.depth, return_counts=True)
        edit.uses = Counter(dict(zip(counts[0].tolist(), counts[1].tolist(), strict=True)))
        if packed is not None:
            edit.packed = packed._replace(row=edit.sids[packed.row])
            self._pending_bulk.append((owner, edit.packed, command, edit.sids))
        else:
            for i, key in enumerate(command.ids.to_pylist()):
                self._pending.put(owner, key, _standing(command, i, edit.taken[i]), edit.undo)
        self._use(edit.uses, 1)
        return edit

    def _clashes(self, packed: Packed) -> bool:
        """Whether ids of a bulk command stand in the dicts or in another bulk command under way."""
        if any(common(packed, other) for _, other, _, _ in self._pending_bulk):
            return True
        names = (*self.ids.recent, *self._pending.entries)
        return any(find_packed(packed, key) >= 0 for key in names)

    def _taken(self, command: Subscribe) -> list[Fault]:
        faults = []
        seen: set[str] = set()
        for i, key in enumerate(command.ids.to_pylist()):
            if key in seen:
                faults.append(Fault("id", f"{key!r} stands twice in this request", "taken", i))
            elif self.latest(key) is not None:
                faults.append(Fault("id", f"{key!r} is taken", "taken", i))
            seen.add(key)
        return faults

    def _use(self, uses: Counter[int], sign: int) -> None:
        for k, n in uses.items():
            self.uses[k] += sign * n

    def take_back(self, edit: Edit) -> None:
        """Undo the newest accepted edit: it could not be logged."""
        self._pending.take_back(edit.undo)
        self._pending_bulk = [entry for entry in self._pending_bulk if entry[0] != edit.owner]
        self._pool.take_back(edit.high_before, edit.taken, edit.given)
        self._use(edit.uses, -1)
        self._filters.let_go(edit.held.gained)

    def settle(self, edit: Edit, base: Packed | None, lo: int, hi: int) -> None:
        """Make an edit visible, its changes from `lo` to `hi`. `base` is the new id base where a bulk edit made one
        (`IdMap.merged`)."""
        if self._pool.high > len(self.k):
            self._grow(max(1024, self._pool.high, len(self.k) * 5 // 4))
        if self.touched is not None:
            self._note(edit, lo, hi)
        if edit.fresh is not None:
            self._settle_fresh(edit, edit.fresh, base)
        for change in edit.changes[lo:hi]:
            if change.after is None:
                assert change.before is not None
                self.ids.delete(change.id)
                self.k[change.before.sid] = self.offset[change.before.sid] = 0
                self.ttl.pop(change.before.sid, None)
            else:
                if change.before is None:
                    self.ids.insert(change.id, change.after.sid)
                self._write(change.after)
        if hi == len(edit.changes):
            self._pending.settle(edit.owner, edit.undo)
            self._filters.let_go(edit.held.lost)

    def _settle_fresh(self, edit: Edit, fresh: Subscribe, base: Packed | None) -> None:
        self.regions.place(edit.sids, fresh.regions)
        self.k[edit.sids] = fresh.depth
        if fresh.offset is not None:
            self.offset[edit.sids] = fresh.offset
        for i, seconds in fresh.ttl.items():
            self.ttl[edit.taken[i]] = seconds
        if base is not None:
            self.ids.swap(base)
        if edit.packed is not None:
            self._pending_bulk = [entry for entry in self._pending_bulk if entry[0] != edit.owner]
        else:
            for key, sid in zip(fresh.ids.to_pylist(), edit.taken, strict=True):
                self.ids.insert(key, sid)

    def _write(self, standing: Standing) -> None:
        sid = standing.sid
        self.regions.put(sid, standing.region)
        self.k[sid], self.offset[sid] = standing.k, standing.offset
        if standing.ttl is None:
            self.ttl.pop(sid, None)
        else:
            self.ttl[sid] = standing.ttl

    def _note(self, edit: Edit, lo: int, hi: int) -> None:
        assert self.touched is not None
        named = [sid for change in edit.changes[lo:hi] for sid in {_sid(change.before), _sid(change.after)} - {-1}]
        self.touched += [edit.sids, np.array(named, np.int32)]

    def _grow(self, size: int) -> None:
        self.regions = self.regions.grown(size)
        self.k, self.offset = (np.append(a, np.zeros(size - len(a), np.int32)) for a in (self.k, self.offset))

    def check(self) -> None:
        """Raise AssertionError unless ids, columns and counts agree (with nothing pending)."""
        self.ids.check()
        sids = [sid for _, sid in self.ids.after(None)]
        assert len(set(sids)) == len(sids) == len(self.ids), "a sid is used twice"
        assert all(self.k[sid] > self.offset[sid] >= 0 for sid in sids), "a subscription without k"
        free = np.setdiff1d(np.arange(len(self.k)), sids)
        assert not self.k[free].any() and not self.offset[free].any(), "a row that nobody has is not empty"
        assert Counter(self.k[sids].tolist()) == +self.uses, "uses of k are counted wrongly"


def _repeats(packed: Packed) -> bool:
    return first_repeat(packed) is not None


def _sid(standing: Standing | None) -> int:
    return -1 if standing is None else standing.sid


def _standing(command: Subscribe, i: int, sid: int) -> Standing:
    offset = 0 if command.offset is None else int(command.offset[i])
    return Standing(sid, command.regions.at(i), offset + int(command.k[i]), command.ttl.get(i), offset)


def _not_offered(ks: tuple[int, ...], depth: int, offset: int) -> str:
    offered = f"this board offers k = {', '.join(map(str, ks))}"
    return f"offset + k is {depth}, and {offered}" if offset else offered


def _bad_rows(command: Subscribe, ks: tuple[int, ...]) -> list[Fault]:
    depth, faults = command.depth, []
    for i in np.flatnonzero(~np.isin(depth, ks)).tolist():
        offset = 0 if command.offset is None else int(command.offset[i])
        faults.append(Fault("offset" if offset else "k", _not_offered(ks, int(depth[i]), offset), "invalid", i))
    return faults + [Fault(name, reason, "invalid", i) for i, name, reason in command.regions.faults()]


def _pick(command: Subscribe, keep: list[int]) -> Subscribe:
    where = {old: new for new, old in enumerate(keep)}
    ttl = {where[i]: seconds for i, seconds in command.ttl.items() if i in where}
    return Subscribe(
        command.ids.take(pa.array(keep, pa.int64())),
        command.regions.take(np.array(keep, np.int64)),
        command.k[keep],
        ttl,
        command.skip,
        None if command.offset is None else command.offset[keep],
        tuple(column.take(pa.array(keep, pa.int64())) for column in command.where),
    )
