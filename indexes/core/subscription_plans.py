"""Plans of the commands on subscriptions that matchers, relays, maps and feeds have: to add, set and delete them.

What they do alike with lifetimes and live subscriptions is here; each resource changes its own tables and indexes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol, TypeVar

import pyarrow as pa

from indexes.core.edit_plan import Edited, EditPlan
from indexes.core.ids import Packed
from indexes.core.pending_subscriptions import Undo


class Subscribed(Edited, Protocol):
    """An engine, as far as these plans are concerned; see `subscription_engine.SubscriptionStore`."""

    ttl: dict[str, float]

    def limit(self, key: str, ttl: float | None, /) -> None: ...
    def forget(self, key: str, /) -> bool: ...


class Added(Protocol):
    """A command that adds subscriptions. `ttl` maps an index to seconds."""

    @property
    def ids(self) -> pa.StringArray: ...
    @property
    def ttl(self) -> Mapping[int, float]: ...
    def __len__(self) -> int: ...


class WasSet(Protocol):
    """A command that sets one subscription. `ttl` in seconds, None for no time limit."""

    @property
    def id(self) -> str: ...
    @property
    def ttl(self) -> float | None: ...


class Deleted(Protocol):
    """A command that deletes subscriptions."""

    @property
    def ids(self) -> list[str]: ...
    def __len__(self) -> int: ...


E = TypeVar("E", bound=Subscribed)


class AddPlan(EditPlan[E]):
    """New subscriptions. `packed` are their sorted ids, where these are known."""

    command: Added
    packed: Packed | None = None

    def __init__(self, engine: E, command: Added, owner: int, undo: Undo[Any]) -> None:
        super().__init__(engine, command, len(command), owner, undo)

    def lifetimes(self) -> Iterator[tuple[str, float | None]]:
        return ((self.command.ids[i].as_py(), seconds) for i, seconds in self.command.ttl.items())

    def _keys(self, lo: int, hi: int) -> list[str]:
        """The ids of elements `lo` to `hi` - 1."""
        keys: list[str] = self.command.ids.slice(lo, hi - lo).to_pylist()
        return keys

    def _set_limits(self, lo: int, hi: int) -> None:
        """Set the time limits of elements `lo` to `hi` - 1."""
        ttl = self.command.ttl
        for i in range(lo, hi) if ttl else ():
            if i in ttl:
                self.engine.ttl[self.command.ids[i].as_py()] = ttl[i]


class SetPlan(EditPlan[E]):
    """One subscription added or replaced. `made`: it is new."""

    command: WasSet

    def __init__(self, engine: E, command: WasSet, owner: int, undo: Undo[Any], made: bool) -> None:
        super().__init__(engine, command, 1, owner, undo)
        self.made = made

    def lifetimes(self) -> Iterator[tuple[str, float | None]]:
        yield self.command.id, self.command.ttl

    def _set_limit(self) -> None:
        self.engine.limit(self.command.id, self.command.ttl)


class DeletePlan(EditPlan[E]):
    """Deleted subscriptions."""

    command: Deleted

    def __init__(self, engine: E, command: Deleted, owner: int, undo: Undo[Any]) -> None:
        super().__init__(engine, command, len(command), owner, undo)

    def lifetimes(self) -> Iterator[tuple[str, float | None]]:
        return ((key, None) for key in self.command.ids)

    def _forget(self, lo: int, hi: int) -> list[tuple[int, str]]:
        """Forget what is known of elements `lo` to `hi` - 1; returns the live ones with their seqs."""
        keys = enumerate(self.command.ids[lo:hi], self.first_seq + lo)
        return [(seq, key) for seq, key in keys if self.engine.forget(key)]
