"""The objects of a map: their ids, places and values, payloads, and the slots in which all of these are.

Places and values are in the index only, in slots that are recycled; values inside are smaller where better. `created`
numbers objects in order of creation. Reads take place between two slices.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count, islice, repeat
from typing import NamedTuple, cast

import numpy as np
import pyarrow as pa

from indexes.core.arrays import Bools, Floats, Ints, Ints32
from indexes.core.names import Names
from indexes.core.pending import RowPool
from indexes.maps.config import MapConfig
from indexes.maps.kernels.object_index import ABSENT
from indexes.maps.live.queries import Changes
from indexes.maps.object_index import PlaceIndex
from indexes.maps.pending_objects import distinct_ids, find_many
from indexes.maps.results import ObjectView, Rows, ShownObject

FEW = 24
"""Up to this many ids are looked up one by one, which is faster than Arrow for few."""

KEPT = 1 << 15
"""Objects of answers that are kept in memory for the next answers, of all maps together: some 750 bytes each with their
text."""

_kept: dict[int, ShownObject] = {}
"""These objects, the latest last. The key of one is its slot and, above `SLOT_BITS`, a number of its map."""

_maps = count()

SLOT_BITS = 32


class Put(NamedTuple):
    """Objects to insert or change, each once, with their state afterwards."""

    keys: pa.StringArray
    slots: Ints32
    fresh: Bools  # there was none of this id
    points: Floats
    statics: Floats
    created: Ints
    same: Bools  # nothing has changed
    inverse: Ints  # by element of the command: which of these

    def changes(self, touched: Bools) -> Changes:
        """The changes of those that differ from before, or are `touched`."""
        some = np.flatnonzero(~self.same | touched)
        there = np.ones(len(some), bool)
        slots = self.slots[some].astype(np.int64)
        return Changes(slots, there, self.points[some], self.statics[some], self.created[some])


class Objects:
    """All objects of a map. `changed` is the journal: the slots that have changed since it was begun; None without
    one."""

    def __init__(self, config: MapConfig, index: PlaceIndex | None = None, next_created: int = 0) -> None:
        """Over the objects of an index, whose ids are to be loaded into `names`."""
        self.signs = np.array([-1.0 if attribute.high else 1.0 for attribute in config.attributes])
        d = len(config.attributes)
        self.index = index if index is not None else PlaceIndex.build(np.empty((0, 2)), np.empty((0, d)))
        self.names = Names()
        self.payloads: dict[int, bytes] = {}
        self._first_key = next(_maps) << SLOT_BITS
        self.next_created = next_created
        self.pool = RowPool()
        self.changed: set[int] | None = None

    def __len__(self) -> int:
        return len(self.names)

    def look(self, keys: pa.StringArray, points: Floats, values: Floats) -> Put:
        """The result of these elements, in order: NaN leaves a value as it is. Slots are taken for new objects;
        nothing else changes. O(n log m), or O(n + m) for many."""
        distinct, inverse = distinct_ids(keys)
        slots = find_many(self.names, distinct)
        fresh = slots < 0
        born = int(fresh.sum())
        if born:
            slots[fresh] = self.pool.take_many(born)
        before = np.full((len(slots), 2 + len(self.signs)), np.nan)
        known = np.flatnonzero(~fresh)
        if len(known):
            there, statics = self.index.rows(slots[known])
            before[known] = np.column_stack([there, statics])
        given = np.concatenate([points, values * self.signs], axis=1) + 0.0
        if inverse is None:
            inverse = np.arange(len(keys))
            after = np.where(np.isnan(given), before, given)
        else:
            after = before.copy()
            for j in range(after.shape[1]):
                # Of several elements of an id the last one with a value counts.
                some = np.flatnonzero(~np.isnan(given[:, j]))
                after[inverse[some], j] = given[some, j]
        created = np.zeros(len(slots), np.int64)
        created[fresh] = self.next_created + np.arange(born)
        created[known] = self.index.view.created[slots[known]]
        same = (after == before).all(axis=1)
        return Put(distinct, slots, fresh, after[:, :2].copy(), after[:, 2:].copy(), created, same, inverse)

    def note(self, slots: Sequence[int] | Ints32 | Ints) -> None:
        """Note that these slots, or their payloads, change: in the journal, and in what is kept for answers."""
        if self.changed is None and not _kept:
            return
        some = np.asarray(slots).tolist()
        if self.changed is not None:
            self.changed.update(some)
        for slot in some if _kept else ():
            self._let_go(slot)

    def _let_go(self, slot: int) -> None:
        """Make the object of a slot again for the next answer."""
        _kept.pop(self._first_key + slot, None)

    def note_all(self) -> None:
        """Note that there are other objects now."""
        # What is kept of those before is not found again, and makes room in time.
        self._first_key = next(_maps) << SLOT_BITS

    def packed(self, put: Put) -> PlaceIndex:
        """An index of all objects with these put, all in its base. O(d n log n), reads only."""
        view, stay = self.index.view, self.index.slots()
        stay = stay[~np.isin(stay, put.slots[~put.fresh])]
        points, statics = self.index.rows(stay)
        return PlaceIndex.build(
            np.concatenate([points, put.points]),
            np.concatenate([statics, put.statics]),
            np.concatenate([stay, put.slots]),
            np.concatenate([view.created[stay], put.created]),
        )

    def show(self, put: Put, named: bool) -> None:
        """Make new objects visible; with `named` their ids are merged already."""
        fresh = np.flatnonzero(put.fresh)
        self.next_created += len(fresh)
        if len(fresh) and not named:
            self.names.note(put.keys.take(pa.array(fresh)), put.slots[fresh])

    def set_payload(self, slot: int, payload: bytes | None) -> None:
        self._let_go(slot)
        if payload is None:
            self.payloads.pop(slot, None)
        else:
            self.payloads[slot] = payload

    def forget(self, key: str, slot: int) -> None:
        """Remove an object that was deleted from the index."""
        self._let_go(slot)
        self.names.delete(key, slot)
        self.payloads.pop(slot, None)
        self.pool.give([slot])

    def get(self, key: str) -> ObjectView | None:
        """The object of an id, or None."""
        slot = self.names.find(key)
        return None if slot < 0 else self.views([(key, slot)])[0]

    def after(self, key: str | None, limit: int) -> list[ObjectView]:
        """Up to `limit` objects in order of id, behind `key`."""
        return self.views(list(islice(self.names.after(key), limit)))

    def views(self, found: list[tuple[str, int]]) -> list[ObjectView]:
        """Objects by their ids and slots."""
        slots = np.array([slot for _, slot in found], np.int64)
        return self.views_of([key for key, _ in found], slots, *self.index.rows(slots))

    def views_of(self, keys: list[str], slots: Ints | Ints32, points: Floats, statics: Floats) -> list[ObjectView]:
        """Objects by their ids and slots, with what the index has in these."""
        if len(keys) == 1:
            # Calls of numpy for one object take several times as long as it, the more so where all has left the caches.
            (slot,), ((x, y),), (row,) = slots.tolist(), points.tolist(), statics.tolist()
            values = [value * sign + 0.0 for value, sign in zip(row, self.signs.tolist(), strict=True)]
            age = int(self.index.view.created[slot])
            return [ObjectView(keys[0], (x, y), values, age, self.payloads.get(slot))]
        created, payload = self.index.view.created[slots].tolist(), self.payloads.get
        rows = zip(keys, slots.tolist(), points.tolist(), self.shown(statics).tolist(), created, strict=True)
        return [ObjectView(key, (x, y), values, age, payload(slot)) for key, slot, (x, y), values, age in rows]

    def shown(self, statics: Floats) -> Floats:
        """Static values (n, d) with the user's sign."""
        return statics * self.signs + 0.0

    def rows(self, slots: Ints, distance: Floats) -> Rows:
        """Objects as answers show them. Most are in many answers: one that has not changed is not made again."""
        keys = (slots.astype(np.int64) + self._first_key).tolist()
        found = list(map(_kept.get, keys))
        if not all(found):
            missing = list(dict.fromkeys([key for key, one in zip(keys, found, strict=True) if one is None]))
            made = dict(zip(missing, self._shown_objects(np.array(missing) - self._first_key), strict=True))
            found = [made[key] if one is None else one for key, one in zip(keys, found, strict=True)]
            _keep(made)
        return Rows(cast("list[ShownObject]", found), distance.tolist())

    def _shown_objects(self, slots: Ints) -> Iterable[ShownObject]:
        """The objects of slots, each once."""
        numbers = slots.tolist()
        few = len(numbers) <= FEW
        names = list(map(self.names.name, numbers)) if few else self.names.many(slots.astype(np.int32)).to_pylist()
        points, statics = self.index.rows(slots)
        payloads = map(self.payloads.get, numbers) if self.payloads else repeat(None)
        created = self.index.view.created[slots].tolist()
        return map(ShownObject, names, points.tolist(), self.shown(statics).tolist(), created, payloads)

    def check(self) -> None:
        """Raise AssertionError unless all parts agree. O(d n log n)."""
        self.index.check()
        self.names.ids.check()
        slots = np.sort(np.array([slot for _, slot in self.names.after(None)], np.int64))
        assert np.array_equal(slots, self.index.slots()), "an id without an object, or the other way round"
        assert set(self.payloads) <= set(slots.tolist()), "a payload of nobody"
        free = self.pool.free()
        assert not set(free) & set(slots.tolist()) and self.pool.high == len(free) + len(slots), "slots are lost"
        created = self.index.view.created[slots]
        assert len(np.unique(created)) == len(created), "two objects of one age"
        assert not len(created) or 0 <= created.min() <= created.max() < self.next_created, "ages run ahead"
        assert (self.index.view.at[free_below(free, len(self.index.view.at))] == ABSENT).all()


def _keep(made: dict[int, ShownObject]) -> None:
    """Keep objects for the next answers, in place of the oldest where there are too many. In any thread."""
    if len(_kept) + len(made) > KEPT:
        for key in list(islice(_kept, KEPT // 2)):
            _kept.pop(key, None)
    if len(_kept) + len(made) <= KEPT:
        _kept.update(made)


def free_below(free: list[int], high: int) -> list[int]:
    """The free slots that an index has room for."""
    return [slot for slot in free if slot < high]
