"""Pending state of objects: which will exist once all accepted commands have been applied."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from indexes.core.arrays import Ints, Ints32
from indexes.core.captured_ids import texts
from indexes.core.ids import Packed, find_packed, pack
from indexes.core.names import Names
from indexes.core.pending import PendingValues

Int8 = npt.NDArray[np.int8]

BULK = 4_096
"""From so many ids on they are looked up all at once, and kept as sorted ids."""

UNKNOWN = -1

Undo = list[tuple[str, tuple[int, bool] | None]]


class Put(NamedTuple):
    """Sorted ids of objects that the command `owner` puts; their rows have no meaning."""

    owner: int
    ids: Packed


class PendingObjects:
    """By id, whether the object will exist; objects that are put in bulk are kept as their sorted ids."""

    def __init__(self) -> None:
        self._by_id: PendingValues[bool] = PendingValues()
        self._puts: list[Put] = []

    def __bool__(self) -> bool:
        return bool(self._by_id) or bool(self._puts)

    def get(self, key: str) -> bool | None:
        """Whether the object of an id will exist; None where no accepted command concerns it."""
        entry = self._by_id.entries.get(key)
        owner = entry[0] if entry is not None else -1
        for put in reversed(self._puts):
            if put.owner > owner and find_packed(put.ids, key) >= 0:
                return True
        return entry[1] if entry is not None else None

    def many(self, keys: pa.StringArray) -> Int8:
        """As `get`: 1, 0, or `UNKNOWN` for None."""
        found = np.full(len(keys), UNKNOWN, np.int8)
        if not self:
            return found
        if len(keys) < BULK:
            for i, key in enumerate(keys.to_pylist()):
                there = self.get(key)
                if there is not None:
                    found[i] = there
            return found
        owners = np.full(len(keys), -1, np.int64)
        entries = dict(self._by_id.entries)
        if entries:
            at = _places(keys, pa.array(list(entries), pa.large_string()))
            known = np.array([(owner, there) for owner, there in entries.values()], np.int64)
            owners[at >= 0], found[at >= 0] = known[at[at >= 0]].T
        for put in list(self._puts):
            mine = (_places(keys, texts(put.ids)) >= 0) & (owners < put.owner)
            owners[mine], found[mine] = put.owner, 1
        return found

    def put(self, owner: int, key: str, there: bool, undo: Undo) -> None:
        """Note that the command `owner` creates an object, or deletes it."""
        self._by_id.put(owner, key, there, undo)

    def put_many(self, owner: int, ids: Packed) -> None:
        """Note that the command `owner` puts these objects."""
        self._puts.append(Put(owner, ids))

    def settle(self, owner: int, undo: Undo) -> None:
        """Forget the command `owner`, which has been applied."""
        self._by_id.settle(owner, undo)
        self._forget(owner)

    def roll_back(self, owner: int, undo: Undo) -> None:
        """Forget the command `owner`, the newest: it could not be logged."""
        self._by_id.roll_back(undo)
        self._forget(owner)

    def _forget(self, owner: int) -> None:
        self._puts = [put for put in self._puts if put.owner != owner]


def find_many(names: Names, keys: pa.StringArray) -> Ints32:
    """The rows of ids, -1 for none. In any thread, while ids of other names come and go. O(n log m), from `BULK` ids on
    O(n + m)."""
    if len(keys) < BULK:
        return np.fromiter(map(names.find, keys.to_pylist()), np.int32, len(keys))
    # In this order: what is merged meanwhile is in the base.
    recent = names.ids.recent.copy()
    base = names.ids.base
    rows = np.full(len(keys), -1, np.int32)
    for known, row in (
        (texts(base), base.row),
        (pa.array(list(recent), pa.large_string()), np.fromiter(recent.values(), np.int32, len(recent))),
    ):
        at = _places(keys, known)
        found = at >= 0
        found[found] = row[at[found]] >= 0
        rows[found] = row[at[found]]
    return rows


def distinct_ids(keys: pa.StringArray) -> tuple[pa.StringArray, Ints | None]:
    """The ids of some elements, each once in order of first use, and which of these each element has; None where all
    are different. O(n)."""
    if len(keys) < BULK and len(set(keys.to_pylist())) == len(keys):
        return keys, None
    coded = keys.dictionary_encode()
    return coded.dictionary, coded.indices.to_numpy().astype(np.int64)


def packed_ids(keys: pa.StringArray) -> Packed:
    """Ids, sorted. O(n log n)."""
    return pack(keys, np.arange(len(keys), dtype=np.int32))


def _places(keys: pa.StringArray, among: pa.LargeStringArray) -> Ints:
    """Where ids stand among others, -1 for nowhere."""
    found = pc.index_in(keys.cast(pa.large_string()), among)
    places: Ints = pc.fill_null(found, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return places
