"""What accepted commands will do to subscriptions, before they have done it.

Only values by id are kept: rows are handed out when a command is applied, so that neither one that is taken back nor a
table that is laid out anew meanwhile has to know of those under way. Large additions are checked by their sorted ids,
off the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Generic, NamedTuple, Protocol, Self, TypeVar

import numpy as np
import pyarrow as pa

from indexes.commands import Fault, Refused
from indexes.ids import Packed, common, find_packed, first_repeat, pack
from indexes.names import Names
from indexes.overlay import STRIDE, Overlay

S = TypeVar("S")
T = TypeVar("T")
S_co = TypeVar("S_co", covariant=True)
Steps = Generator[Callable[[], Any] | None, Any, T]


class Addition(Protocol[S_co]):
    """A command that adds subscriptions, as `matchers.commands.AddSubscriptions` does."""

    ids: pa.StringArray
    skip: bool

    def __len__(self) -> int: ...
    def take(self, rows: list[int], /) -> Self: ...
    def standing(self, i: int, /) -> S_co:
        """What the one at this place will be."""


C = TypeVar("C", bound=Addition[Any])


class Promised(NamedTuple, Generic[S]):
    """What stands once a command has been applied: the subscription at a place of an addition, one that was set, or
    (both None) none."""

    added: tuple[Addition[S], int] | None
    standing: S | None

    @property
    def stands(self) -> S | None:
        if self.added is None:
            return self.standing
        command, i = self.added
        return command.standing(i)


GONE: Promised[Any] = Promised(None, None)

Undo = list[tuple[str, tuple[int, Promised[S]] | None]]


class Promises(Generic[S]):
    """The overlay. Bulk additions stand in it as their sorted ids, all others by id."""

    def __init__(self) -> None:
        self._by_id: Overlay[Promised[S]] = Overlay()
        self._bulk: list[tuple[int, Packed, Addition[S]]] = []

    def get(self, key: str) -> Promised[S] | None:
        """What accepted commands make of an id; None where they leave it alone."""
        return self.owned(key)[1]

    def owned(self, key: str) -> tuple[int, Promised[S] | None]:
        """As `get`, with the number of the command that makes it so, -1 where none does."""
        entry = self._by_id.entries.get(key)
        owner = entry[0] if entry is not None else -1
        for bulk_owner, packed, command in reversed(self._bulk):
            if bulk_owner > owner:
                i = find_packed(packed, key)
                if i >= 0:
                    return bulk_owner, Promised((command, i), None)
        return entry if entry is not None else (-1, None)

    def put(self, owner: int, key: str, promised: Promised[S], undo: Undo[S]) -> None:
        """The command `owner` will make this of an id; `undo` notes what stood there."""
        self._by_id.put(owner, key, promised, undo)

    def put_bulk(self, owner: int, packed: Packed, command: Addition[S]) -> None:
        """The command `owner` will add these ids, whose rows are places in the command."""
        self._bulk.append((owner, packed, command))

    def put_all(self, owner: int, command: Addition[S], packed: Packed | None, undo: Undo[S]) -> None:
        """The command `owner` will add its ids; `packed` are they sorted, where that is known."""
        if packed is not None:
            self.put_bulk(owner, packed, command)
            return
        for i, key in enumerate(command.ids.to_pylist()):
            self.put(owner, key, Promised((command, i), None), undo)

    def clashes(self, packed: Packed) -> bool:
        """Whether any of these ids stands here, be it as one that goes."""
        if any(common(packed, other) for _, other, _ in self._bulk):
            return True
        return any(find_packed(packed, key) >= 0 for key in self._by_id.entries)

    def settle(self, owner: int, undo: Undo[S]) -> None:
        """The command `owner` has been applied."""
        self._by_id.settle(owner, undo)
        self._forget_bulk(owner)

    def take_back(self, owner: int, undo: Undo[S]) -> None:
        """The newest command is taken back."""
        self._by_id.take_back(undo)
        self._forget_bulk(owner)

    def _forget_bulk(self, owner: int) -> None:
        if self._bulk:
            self._bulk = [entry for entry in self._bulk if entry[0] != owner]

    def __bool__(self) -> bool:
        return bool(self._by_id) or bool(self._bulk)

    def __len__(self) -> int:
        """How many ids stand in it, some perhaps twice."""
        return len(self._by_id.entries) + sum(len(command) for _, _, command in self._bulk)


class Accepted(NamedTuple, Generic[C]):
    """An addition that applies: without the elements that were skipped, which are the `faults`. `positions` are the
    original places of the others where some were, `packed` the sorted ids where there are many."""

    command: C
    faults: list[Fault]
    positions: list[int] | None
    packed: Packed | None


def accept_many(
    command: C,
    check: Callable[[], list[Fault]],
    names: Callable[[], Names],
    promises: Promises[Any],
    will_stand: Callable[[str], bool],
    bulk: int,
) -> Steps[Accepted[C]]:
    """Which elements of an addition apply, cut into pieces as `Engine.prepare_steps` is: what `check` finds of each
    alone, and ids that are taken, now or by then. From `bulk` ids on, sorted ones are compared. Nothing changes,
    but `names` may be others after a piece: a resource that was laid out anew has its own.

    Raises:
        Refused: some do not apply, and none are to be skipped.
    """
    large = len(command) > bulk
    faults = list((yield check) if large else check())
    packed: Packed | None = None
    clash = True
    if large:
        packed = yield partial(_packed, command)
        clash = (yield partial(first_repeat, packed)) is not None
        settled = None
        while not clash and settled is not names().ids.base:
            settled = names().ids.base
            clash = bool((yield partial(common, settled, packed)))
        clash = clash or promises.clashes(packed) or names().recent_among(packed)
    if clash:
        # What is passed over because of another fault takes no id.
        wrong = {fault.index for fault in faults} if command.skip else set()
        faults += yield from _taken(command.ids, wrong, will_stand)
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
    """A command that deletes subscriptions, and passes unknown ids over unless they must exist."""

    ids: list[str]
    must_exist: bool


def accept_delete(
    owner: int,
    command: Deletion,
    promises: Promises[Any],
    will_stand: Callable[[str], bool],
    missing: Callable[[str], Fault],
) -> Steps[tuple[list[str], Undo[Any]]]:
    """The ids of a deletion that will stand when the command `owner` has its turn, each once, which are promised to be
    gone; cut into pieces as `Engine.prepare_steps` is.

    Raises:
        Refused: one that must exist does not; nothing is promised.
    """
    undo: Undo[Any] = []
    found = []
    try:
        for i, key in enumerate(dict.fromkeys(command.ids)):
            if will_stand(key):
                found.append(key)
                promises.put(owner, key, GONE, undo)
            elif command.must_exist:
                raise Refused([missing(key)])
            # An id of the sorted base takes some microseconds to find.
            if i % (STRIDE // 8) == STRIDE // 8 - 1:
                yield None
    except (GeneratorExit, Refused):
        promises.take_back(owner, undo)
        raise
    return found, undo


def _packed(command: Addition[Any]) -> Packed:
    return pack(command.ids, np.arange(len(command), dtype=np.int32))


def _taken(ids: pa.StringArray, passed_over: set[int | None], will_stand: Callable[[str], bool]) -> Steps[list[Fault]]:
    """Which ids of a command are taken, by what stands or by another of them that is not passed over. Asked for one by
    one, only where there is reason to."""
    faults = []
    seen: set[str] = set()
    for i, key in enumerate(ids.to_pylist()):
        if key in seen:
            faults.append(Fault("id", f"{key!r} stands twice in this request", "taken", i))
        elif will_stand(key):
            faults.append(Fault("id", f"{key!r} is taken", "taken", i))
        if i not in passed_over:
            seen.add(key)
        if i % STRIDE == STRIDE - 1:
            yield None
    return faults


def run_steps(steps: Steps[T]) -> T:
    """What checks cut into pieces come to, all at once."""
    sent: Any = None
    while True:
        try:
            work = steps.send(sent)
        except StopIteration as stop:
            value: T = stop.value
            return value
        sent = work() if work is not None else None
