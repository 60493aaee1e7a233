"""What accepted commands will do, before they have done it.

A command is checked in queue order against the settled state plus this overlay, then logged, then applied. When it has
been applied its entries go away; when it could not be logged they are taken back, newest command first.
"""

from __future__ import annotations

from typing import Generic, TypeVar

V = TypeVar("V")

STRIDE = 4_096
"""Events checked between two points at which a long check may be interrupted."""


class Overlay(Generic[V]):
    """Pending values by id, each owned by the last command that set it. Owners are numbered as they are accepted, and
    settle in that order."""

    def __init__(self) -> None:
        self.entries: dict[str, tuple[int, V]] = {}
        self._settled = 0

    def __bool__(self) -> bool:
        return bool(self.entries)

    def get(self, key: str) -> V | None:
        entry = self.entries.get(key)
        return entry[1] if entry is not None else None

    def put(self, owner: int, key: str, value: V, undo: list[tuple[str, tuple[int, V] | None]]) -> None:
        """Set a pending value, noting in `undo` what stood there."""
        undo.append((key, self.entries.get(key)))
        self.entries[key] = (owner, value)

    def settle(self, owner: int, undo: list[tuple[str, tuple[int, V] | None]]) -> None:
        """The command `owner` has been applied: drop what is still its own."""
        self._settled = owner
        entries = self.entries
        for key, _ in undo:
            entry = entries.get(key)
            if entry is not None and entry[0] == owner:
                del entries[key]

    def take_back(self, undo: list[tuple[str, tuple[int, V] | None]]) -> None:
        """The command was refused after all: put back what stood before it, unless that has been applied since."""
        for key, before in reversed(undo):
            if before is None or before[0] <= self._settled:
                self.entries.pop(key, None)
            else:
                self.entries[key] = before


class RowPool:
    """Row numbers, handed out in an order that depends on the commands alone.

    Rows that a command frees can be taken by later commands only, so that within one command a row names one thing.
    """

    def __init__(self) -> None:
        self.high = 0
        self._free: list[int] = []

    def free(self) -> list[int]:
        """A copy of the rows that can be taken again, the next one last."""
        return self._free.copy()

    def restore(self, high: int, free: list[int]) -> None:
        """Go on from there."""
        self.high = high
        self._free = free

    def take(self) -> int:
        if self._free:
            return self._free.pop()
        self.high += 1
        return self.high - 1

    def take_many(self, n: int) -> list[int]:
        reused = self._free[max(0, len(self._free) - n) :][::-1]
        del self._free[len(self._free) - len(reused) :]
        fresh = n - len(reused)
        self.high += fresh
        return reused + list(range(self.high - fresh, self.high))

    def give(self, rows: list[int]) -> None:
        self._free.extend(rows)

    def take_back(self, high_before: int, taken: list[int], given: list[int]) -> None:
        """Undo the newest command's `take`s (in their order) and `give`."""
        if given:
            del self._free[len(self._free) - len(given) :]
        self._free.extend(row for row in reversed(taken) if row < high_before)
        self.high = high_before
