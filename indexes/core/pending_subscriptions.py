"""Pending state of subscriptions: what accepted commands will do to them.

Values are kept by id, not by row: rows are handed out when a command is applied, so that neither a command that is
rolled back nor a table that is rebuilt in the meantime has to know of them. Large additions are kept, and checked
for ids that are taken, by their sorted ids; this takes place off the event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa

from indexes.core.commands import Fault, Refused
from indexes.core.ids import AnyIdMap, Packed, common, find_packed, first_repeat, pack
from indexes.core.pending import STRIDE, PendingValues, UndoValues

S = TypeVar("S")
T = TypeVar("T")
S_co = TypeVar("S_co", covariant=True)

Steps = Generator[Callable[[], Any] | None, Any, T]
"""A check in pieces: it yields None where other commands may go first, or a function to be called in any thread, and is
sent its result."""


class Many(Protocol[S_co]):
    """A command that adds or sets many subscriptions."""

    def state_at(self, i: int, /) -> S_co:
        """The state of the i-th subscription once it is added or set."""


class Addition(Many[S_co], Protocol[S_co]):
    """A command that adds subscriptions."""

    ids: pa.StringArray
    skip: bool

    def __len__(self) -> int: ...
    def take(self, rows: list[int], /) -> Self: ...


C = TypeVar("C", bound=Addition[Any])


class PendingSubscription(NamedTuple, Generic[S]):
    """The outcome of a command for one id: an element of one of many, the state that was set, or (both None) none."""

    added: tuple[Many[S], int] | None
    set_to: S | None

    @property
    def state(self) -> S | None:
        """The state once the command is applied, None for none."""
        if self.added is None:
            return self.set_to
        command, i = self.added
        return command.state_at(i)


GONE: PendingSubscription[Any] = PendingSubscription(None, None)
"""The outcome of a deletion."""

Undo: TypeAlias = UndoValues[PendingSubscription[S]]


class PendingSubscriptions(Generic[S]):
    """Pending subscriptions: large additions by their sorted ids, all others by id."""

    def __init__(self) -> None:
        self._by_id: PendingValues[PendingSubscription[S]] = PendingValues()
        self._bulk: list[tuple[int, Packed, Addition[S]]] = []

    def get(self, key: str) -> PendingSubscription[S] | None:
        """The outcome for an id of the accepted commands, None where they do not touch it."""
        if self._bulk:
            return self.owned(key)[1]
        return self._by_id.get(key)

    def owned(self, key: str) -> tuple[int, PendingSubscription[S] | None]:
        """As `get`, with the number of the command that it is the outcome of, -1 for none."""
        entry = self._by_id.entries.get(key)
        owner = entry[0] if entry is not None else -1
        for bulk_owner, packed, command in reversed(self._bulk):
            if bulk_owner > owner:
                i = find_packed(packed, key)
                if i >= 0:
                    return bulk_owner, PendingSubscription((command, i), None)
        return entry if entry is not None else (-1, None)

    def put(self, owner: int, key: str, pending: PendingSubscription[S], undo: Undo[S]) -> None:
        """Set the outcome of the command `owner` for an id, and append the entry that it replaces to `undo`."""
        self._by_id.put(owner, key, pending, undo)

    def put_bulk(self, owner: int, packed: Packed, command: Addition[S]) -> None:
        """The command `owner` will add these ids, whose rows are places in the command."""
        self._bulk.append((owner, packed, command))

    def put_all(self, owner: int, command: Addition[S], packed: Packed | None, undo: Undo[S]) -> None:
        """The command `owner` will add its ids; `packed` are they sorted, where that is known."""
        if packed is not None:
            self.put_bulk(owner, packed, command)
            return
        self.put_each(owner, command.ids.to_pylist(), command, undo)

    def put_each(self, owner: int, keys: Sequence[str], command: Many[S], undo: Undo[S]) -> None:
        """The command `owner` will add or set these ids, its own, one after the other."""
        put = self._by_id.put
        for i, key in enumerate(keys):
            put(owner, key, PendingSubscription((command, i), None), undo)

    def clashes(self, packed: Packed) -> bool:
        """Whether any of these ids is pending, be it to be deleted."""
        if any(common(packed, other) for _, other, _ in self._bulk):
            return True
        return any(find_packed(packed, key) >= 0 for key in self._by_id.entries)

    def touches(self, keys: Sequence[str]) -> bool:
        """Whether any of these ids may be pending, as all may while a large addition is."""
        return bool(self._bulk) or not self._by_id.entries.keys().isdisjoint(keys)

    def settle(self, owner: int, undo: Undo[S]) -> None:
        """The command `owner` has been applied: drop the entries that it still owns."""
        self._by_id.settle(owner, undo)
        self._drop_bulk(owner)

    def roll_back(self, owner: int, undo: Undo[S]) -> None:
        """The newest command, `owner`, could not be logged: restore the entries before it."""
        self._by_id.roll_back(undo)
        self._drop_bulk(owner)

    def _drop_bulk(self, owner: int) -> None:
        if self._bulk:
            self._bulk = [entry for entry in self._bulk if entry[0] != owner]

    def __bool__(self) -> bool:
        return bool(self._by_id) or bool(self._bulk)

    def __len__(self) -> int:
        """The number of pending ids; an id of two commands may count twice."""
        return len(self._by_id.entries) + sum(len(command) for _, _, command in self._bulk)


class Accepted(NamedTuple, Generic[C]):
    """An addition that applies, without the elements that were skipped. These are the `faults`; `positions` are the
    original places of the others where there are any. `packed` are the sorted ids of a large addition."""

    command: C
    faults: list[Fault]
    positions: list[int] | None
    packed: Packed | None


def accept_many(
    command: C,
    check: Callable[[], list[Fault]],
    ids: Callable[[], AnyIdMap[Any]],
    pending: PendingSubscriptions[Any],
    will_exist: Callable[[str], bool],
    bulk: int,
) -> Steps[Accepted[C]]:
    """Which elements of an addition apply, in pieces: without the faults that `check` finds in each by itself, and
    those whose id is taken, or will be when it is the command's turn. Above `bulk` ids sorted ids are compared.

    Changes nothing. `ids` is called again in each piece, since an engine that is rebuilt has another map.

    Raises:
        Refused: some elements do not apply, and the command does not skip them.
    """
    large = len(command) > bulk
    faults = list((yield check) if large else check())
    packed: Packed | None = None
    clash = True
    if large:
        packed = yield partial(_packed, command)
        clash = (yield partial(first_repeat, packed)) is not None
        compared = None
        while not clash and compared is not ids().base:
            compared = ids().base
            clash = bool((yield partial(compared.common, packed)))
        clash = clash or pending.clashes(packed) or ids().recent_among(packed)
    if clash:
        # An element that is skipped because of another fault takes no id.
        skipped = {fault.index for fault in faults} if command.skip else set()
        faults += yield from _taken(command.ids, skipped, will_exist)
    if faults and not command.skip:
        raise Refused(sorted(faults, key=lambda fault: (fault.kind == "taken", fault.index)))
    positions = None
    if faults:
        bad = {fault.index for fault in faults}
        positions = [i for i in range(len(command)) if i not in bad]
        command, packed = command.take(positions), None
        if len(command) > bulk:
            packed = yield partial(_packed, command)
    return Accepted(command, faults, positions, packed)


class Deletion(Protocol):
    """A command that deletes subscriptions. Unknown ids are skipped unless `must_exist`."""

    ids: list[str]
    must_exist: bool


def accept_delete(
    owner: int,
    command: Deletion,
    pending: PendingSubscriptions[Any],
    will_exist: Callable[[str], bool],
    missing: Callable[[str], Fault],
) -> Steps[tuple[list[str], Undo[Any]]]:
    """The ids of a deletion that will exist when it is its turn, each once, in pieces. They are pending as `GONE`.

    Raises:
        Refused: an id that must exist does not; nothing is pending.
    """
    undo: Undo[Any] = []
    found = []
    try:
        for i, key in enumerate(dict.fromkeys(command.ids)):
            if will_exist(key):
                found.append(key)
                pending.put(owner, key, GONE, undo)
            elif command.must_exist:
                raise Refused([missing(key)])
            # An id of the sorted base takes some microseconds to find.
            if i % (STRIDE // 8) == STRIDE // 8 - 1:
                yield None
    except (GeneratorExit, Refused):
        pending.roll_back(owner, undo)
        raise
    return found, undo


def _packed(command: Addition[Any]) -> Packed:
    return pack(command.ids, np.arange(len(command), dtype=np.int32))


def _taken(ids: pa.StringArray, skipped: set[int | None], will_exist: Callable[[str], bool]) -> Steps[list[Fault]]:
    """The elements whose ids are taken, by a subscription or by another element that is not skipped."""
    faults = []
    seen: set[str] = set()
    for i, key in enumerate(ids.to_pylist()):
        if key in seen:
            faults.append(Fault("id", f"{key!r} stands twice in this request", "taken", i))
        elif will_exist(key):
            faults.append(Fault("id", f"{key!r} is taken", "taken", i))
        if i not in skipped:
            seen.add(key)
        if i % STRIDE == STRIDE - 1:
            yield None
    return faults


def run_steps(steps: Steps[T]) -> T:
    """The result of a check in pieces, all at once."""
    sent: Any = None
    while True:
        try:
            work = steps.send(sent)
        except StopIteration as stop:
            value: T = stop.value
            return value
        sent = work() if work is not None else None
