"""Pending state: what accepted commands will do, before they have done it.

A command is checked in the order of the queue against the applied state together with the pending state, then logged,
then applied. When it has been applied, its entries are dropped (`settle`); when it could not be logged, they are rolled
back, newest command first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, TypeAlias, TypeVar

import numpy as np

from indexes.core.arrays import Rows

V = TypeVar("V")

UndoValues: TypeAlias = list[tuple[str, tuple[int, V] | None]]
"""The entries that a command replaced, by id, in order."""

STRIDE = 4_096
"""Elements that are checked between two points at which a long check may be interrupted."""


class PendingValues(Generic[V]):
    """Pending values by id, each owned by the last command that set it. Owners are numbered in the order in which they
    are accepted, and settle in that order."""

    def __init__(self) -> None:
        self.entries: dict[str, tuple[int, V]] = {}
        self._settled = 0

    def __bool__(self) -> bool:
        return bool(self.entries)

    def get(self, key: str) -> V | None:
        """The pending value of an id, or None."""
        entry = self.entries.get(key)
        return entry[1] if entry is not None else None

    def put(self, owner: int, key: str, value: V, undo: UndoValues[V]) -> None:
        """Set a pending value, and append the entry that it replaces to `undo`."""
        undo.append((key, self.entries.get(key)))
        self.entries[key] = (owner, value)

    def put_new(self, owner: int, keys: Sequence[str], values: Iterable[V], undo: UndoValues[V]) -> None:
        """As `put` for ids that have no pending value, and occur once."""
        undo += [(key, None) for key in keys]
        self.entries.update({key: (owner, value) for key, value in zip(keys, values, strict=True)})

    def settle(self, owner: int, undo: UndoValues[V]) -> None:
        """The command `owner` has been applied: drop the entries that it still owns."""
        self._settled = owner
        entries = self.entries
        for key, _ in undo:
            entry = entries.get(key)
            if entry is not None and entry[0] == owner:
                del entries[key]

    def roll_back(self, undo: UndoValues[V]) -> None:
        """The newest command could not be logged: restore the entries before it, but for those applied since."""
        for key, before in reversed(undo):
            if before is None or before[0] <= self._settled:
                self.entries.pop(key, None)
            else:
                self.entries[key] = before


class RowPool:
    """Row numbers, handed out in an order that depends on the commands alone.

    Rows that a command frees are handed out to later commands only, so that within one command a row means one thing.
    """

    def __init__(self) -> None:
        self.high = 0
        self._free: list[int] = []

    def free(self) -> list[int]:
        """A copy of the rows to be handed out again, the next one last."""
        return self._free.copy()

    def restore(self, high: int, free: list[int]) -> None:
        """Continue from a state: `high` rows were ever handed out, of which `free` were returned."""
        self.high = high
        self._free = free

    def take(self) -> int:
        """Hand out a row."""
        if self._free:
            return self._free.pop()
        self.high += 1
        return self.high - 1

    def take_many(self, n: int) -> Rows:
        """Hand out `n` rows, as `take` would one by one, without a Python object for each that is new."""
        if n == 1:
            return np.array([self.take()], np.int32)
        if not self._free:
            self.high += n
            return np.arange(self.high - n, self.high, dtype=np.int32)
        reused = self._free[max(0, len(self._free) - n) :][::-1]
        del self._free[len(self._free) - len(reused) :]
        fresh = n - len(reused)
        rows = np.array(reused, np.int32)
        if not fresh:
            return rows
        self.high += fresh
        return np.append(rows, np.arange(self.high - fresh, self.high, dtype=np.int32))

    def give(self, rows: list[int]) -> None:
        """Return rows."""
        self._free.extend(rows)

    def roll_back(self, high_before: int, taken: list[int], given: list[int]) -> None:
        """Undo what the newest command took (in that order) and gave."""
        if given:
            del self._free[len(self._free) - len(given) :]
        self._free.extend(row for row in reversed(taken) if row < high_before)
        self.high = high_before
