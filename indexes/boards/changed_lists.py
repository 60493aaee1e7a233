"""Changes of live lists by column, as kernels leave them: who writes them as text needs no object for each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple, TypeVar, overload

import numpy as np

from indexes.boards.results import ListChange, ListEntry, ObjectView
from indexes.core.arrays import Floats, Ints, Rows

Numbers = TypeVar("Numbers", Ints, Rows)

_made = tuple.__new__
"""Makes a named tuple from its fields in half the time."""


class Records(NamedTuple):
    """One object in one list for each row: the seq, the slot of the live list, the object's id, its ranks before and
    after, where 0 is outside the list, its creation number and its payload, and its place and rank value after and
    before, with the user's sign. `payload` is None where no object has one.
    """

    seq: Ints
    live: Rows
    id: list[str]
    old_rank: Rows
    new_rank: Rows
    created: Ints
    payload: list[bytes | None] | None
    x: Floats
    y: Floats
    old_x: Floats
    old_y: Floats


class ChangedLists(Sequence[ListChange]):
    """Changes of live lists in order of seq, of objects with one range attribute.

    `ends` has for each change the record behind its last one; it is None where every change has one record. `distinct`
    says that no two changes have the same seq.
    """

    def __init__(self, records: Records, ends: Ints | None, distinct: bool) -> None:
        self.records = records
        self.ends = ends
        self.distinct = distinct
        self._made: list[ListChange] | None = None

    def __len__(self) -> int:
        return len(self.records.seq if self.ends is None else self.ends)

    def __iter__(self) -> Iterator[ListChange]:
        return iter(self._all())

    @overload
    def __getitem__(self, at: int) -> ListChange: ...
    @overload
    def __getitem__(self, at: slice) -> list[ListChange]: ...
    def __getitem__(self, at: int | slice) -> ListChange | list[ListChange]:
        return self._all()[at]

    def slots(self) -> list[int]:
        """The slot of the live list of each change."""
        found: list[int] = self.slot_column().tolist()
        return found

    def slot_column(self) -> Rows:
        """As `slots`, as an array."""
        return self._of_first(self.records.live)

    def seqs(self) -> list[int]:
        """The seq of each change."""
        found: list[int] = self._of_first(self.records.seq).tolist()
        return found

    def _of_first(self, column: Numbers) -> Numbers:
        """What the first record of each change has."""
        return column if self.ends is None else column[np.append(0, self.ends[:-1])]

    def reordered(self, order: Ints) -> ChangedLists:
        """These changes in another order."""
        places, ends = order, None
        if self.ends is not None:
            counts = np.diff(self.ends, prepend=0)[order]
            ends = np.cumsum(counts)
            places = np.arange(ends[-1]) + np.repeat(self.ends[order] - ends, counts)
        at: list[int] = places.tolist()
        columns: list[Any] = [
            column[places] if isinstance(column, np.ndarray) else column and list(map(column.__getitem__, at))
            for column in self.records
        ]
        moved = Records(*columns)
        return ChangedLists(moved, ends, self.distinct)

    def _all(self) -> list[ListChange]:
        """The changes one by one; made once. Equal changes of a seq share their entries."""
        if self._made is None:
            entries = self._entries()
            ends = range(1, len(entries) + 1) if self.ends is None else self.ends.tolist()
            shared: dict[tuple[int, tuple[ListEntry, ...]], tuple[ListEntry, ...]] = {}
            self._made = []
            for seq, live, (begin, end) in zip(self.seqs(), self.slots(), pairwise(chain((0,), ends)), strict=True):
                key = seq, tuple(entries[begin:end])
                self._made.append(_made(ListChange, (seq, live, shared.setdefault(key, key[1]))))
        return self._made

    def _entries(self) -> list[ListEntry]:
        """Every record as an entry."""
        records = self.records
        payloads = records.payload or [None] * len(records.id)
        whole = (column.tolist() for column in (records.old_rank, records.new_rank, records.created))
        numbers = (column.tolist() for column in (records.x, records.y, records.old_x, records.old_y))
        found = []
        for id, old_rank, new_rank, created, payload, x, y, old_x, old_y in zip(
            records.id, *whole, payloads, *numbers, strict=True
        ):
            now = _made(ObjectView, (id, x, y, created, payload)) if new_rank else None
            old = _made(ObjectView, (id, old_x, old_y, created, payload)) if old_rank else None
            found.append(_made(ListEntry, (id, old_rank or None, new_rank or None, now, old)))
        return found


class JoinedChanges(Sequence[ListChange]):
    """The changes of several commands, one after another."""

    def __init__(self, parts: Sequence[Sequence[ListChange]]) -> None:
        self.parts = parts

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def __iter__(self) -> Iterator[ListChange]:
        return chain.from_iterable(self.parts)

    @overload
    def __getitem__(self, at: int) -> ListChange: ...
    @overload
    def __getitem__(self, at: slice) -> list[ListChange]: ...
    def __getitem__(self, at: int | slice) -> ListChange | list[ListChange]:
        return list(self)[at]


def joined(parts: Sequence[Sequence[ListChange]]) -> Sequence[ListChange]:
    """The changes of several commands, one after another."""
    return parts[0] if len(parts) == 1 else JoinedChanges(parts)


def parts_of(changes: Sequence[ListChange]) -> Sequence[Sequence[ListChange]]:
    """The parts of which changes were joined, in order."""
    return changes.parts if isinstance(changes, JoinedChanges) else (changes,)


def in_order(seq: Rows, live: Rows, old_rank: Rows, new_rank: Rows) -> tuple[Ints | None, Ints | None, bool]:
    """How records, which are in order of seq, become changes: their order, or None where that is as it is; the `ends`;
    and whether changes are `distinct`.

    Entries of a change are in order of their new rank, those that left first, in order of their old one.
    """
    if len(seq) < 2 or bool((seq[1:] > seq[:-1]).all()):
        return None, None, True
    order = np.lexsort((old_rank, new_rank, live, seq))
    seq, live = seq[order], live[order]
    another = (seq[1:] != seq[:-1]) | (live[1:] != live[:-1])
    firsts = np.flatnonzero(another) + 1
    distinct = len(firsts) == int((seq[1:] != seq[:-1]).sum())
    ends = None if len(firsts) == len(seq) - 1 else np.append(firsts, len(seq))
    return order, ends, distinct
