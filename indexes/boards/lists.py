"""Lists of a board's subscriptions in the user's terms: objects, and what changes in a list.

Kept apart from the engine, so that who only keeps lists, as a gateway does, needs no kernels.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

Place: TypeAlias = float | tuple[float, ...]
"""The range attributes of an object: a number if there is one, else a number for each, in their order."""


class ObjectView(NamedTuple):
    """An object as the user wrote it. `payload` is compact JSON text."""

    id: str
    x: Place
    y: float
    created: int
    payload: bytes | None


class ListEntry(NamedTuple):
    """One object that entered, left or got new values in one list.

    Ranks count from 1 over the whole ranking; None is outside the list. `object` is given with a new rank, and `old`,
    the object as it was, with an old one.
    """

    id: str
    old_rank: int | None
    new_rank: int | None
    object: ObjectView | None
    old: ObjectView | None = None


def net_entries(
    before: list[ObjectView], after: list[ObjectView], old_offset: int = 0, new_offset: int = 0
) -> tuple[ListEntry, ...]:
    """The net change between two lists, which begin after so many ranks: the objects that left, then those that entered
    or have other values. Objects that only change their rank are left out. O(k)."""
    was = {entry.id: (rank, entry) for rank, entry in enumerate(before, old_offset + 1)}
    now = {entry.id for entry in after}
    found = [ListEntry(id, rank, None, None, old) for id, (rank, old) in was.items() if id not in now]
    for rank, entry in enumerate(after, new_offset + 1):
        old_rank, old = was.get(entry.id, (None, None))
        if old != entry:
            found.append(ListEntry(entry.id, old_rank, rank, entry, old))
    return tuple(found)
