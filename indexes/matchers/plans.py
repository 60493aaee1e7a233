"""Accepted commands of a matcher on their way: see `indexes.plan`. An index that has to be laid out anew is built
beside, in a thread of its own, while slices without work let reads go in between.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from indexes.beside import Beside
from indexes.ids import Packed, pack
from indexes.matchers.commands import (
    AddSubscriptions,
    Command,
    DeleteSubscriptions,
    Match,
    SetSubscription,
)
from indexes.matchers.forms import values_of
from indexes.matchers.matcher import LaidOut
from indexes.matchers.model import Value
from indexes.matchers.pending import Standing
from indexes.matchers.steps import Step
from indexes.matchers.views import Result, Slice, Win, Winners
from indexes.names import Merged
from indexes.plan import LONG
from indexes.plan import Plan as AnyPlan
from indexes.promised import Undo

if TYPE_CHECKING:
    from indexes.matchers.engine import MatcherEngine

Int32 = npt.NDArray[np.int32]
Plan: TypeAlias = AnyPlan["MatcherEngine"]

SECONDS_A_CHANGE = 1e-5
"""What changing, adding or deleting one of many subscriptions costs, painted and settled."""

AT_A_TIME = 512
"""Changes for which the indexes are to have room without a long step: as many as a slice has."""

WINNERS = 1 << 15
"""Winners that there may be in a slice."""

NOBODY = np.empty(0, np.int32)


class Room(NamedTuple):
    """Indexes and names with room for changes, None where there was room, and steps that make more of it."""

    laid_out: LaidOut | None
    merged: Merged | None
    steps: list[Step]


class EditPlan(AnyPlan["MatcherEngine"]):
    """Subscriptions made, changed or deleted."""

    def __init__(self, engine: MatcherEngine, command: Command, count: int, owner: int, undo: Undo[Standing]) -> None:
        super().__init__(engine, command, count)
        self._owner = owner
        self._undo = undo
        self._merged: Merged | None = None
        self._beside: Beside[Room] | None = None
        self._steps: list[Step] = []
        self.done = count == 0

    @abstractmethod
    def lifetimes(self) -> Iterator[tuple[str, float | None]]:
        """Ids with the seconds that they may stay unused from now on, None for ever or gone. New ones without a limit
        are left out."""

    @property
    def work(self) -> float:
        waits = self._beside is not None or self._steps or self._lacks_room
        return LONG if waits else SECONDS_A_CHANGE * self._left

    @property
    @abstractmethod
    def _left(self) -> int:
        """Changes that are not painted yet."""

    @property
    def _lacks_room(self) -> bool:
        """Whether the table, the indexes or the names cannot take what is left as they are."""
        matcher, left = self.engine.matcher, self._left
        return matcher.crowded(left) or self._names_are_crowded or matcher.tight(min(left, AT_A_TIME))

    @property
    def _names_are_crowded(self) -> bool:
        return self._merged is None and self.engine.matcher.names.crowded

    def _make_room(self) -> Room:
        """Lay out or merge what has no room, in any thread while nothing changes."""
        matcher, left = self.engine.matcher, self._left
        laid_out = matcher.lay_out() if matcher.crowded(left) else None
        steps = matcher.relieved(min(left, AT_A_TIME)) if laid_out is None else []
        return Room(laid_out, matcher.names.merged() if self._names_are_crowded else None, steps)

    def _has_room(self, budget: float) -> bool:
        """Whether painting can begin or go on. If not, it is seen to, beside, and waited for so long; what is then
        ready is put in place step by step."""
        if self._steps:
            self.engine.matcher.take(self._steps.pop())
            return False
        if self._beside is None:
            if not self._lacks_room:
                return True
            self._beside = Beside(self._make_room)
        if not self._beside.done(budget):
            return False
        laid_out, merged, self._steps = self._beside.found
        self._merged, self._beside = merged or self._merged, None
        if laid_out is not None:
            self._take_up(laid_out)
        return not self._steps

    def _take_up(self, laid_out: LaidOut) -> None:
        self.engine.matcher.take_up(laid_out)

    def _swap_names(self) -> None:
        if self._merged is not None:
            self.engine.matcher.names.swap(self._merged)
            self._merged = None

    def _finish(self) -> None:
        self.done = True
        self.engine.pending.settle(self._owner, self._undo)

    def cancel(self) -> None:
        self.engine.pending.take_back(self._owner, self._undo)
        super().cancel()


class AddPlan(EditPlan):
    """New subscriptions: some at a time, or, when they are more than the indexes take, all at once over indexes that
    are laid out anew. `packed` are their sorted ids, where these are known."""

    command: AddSubscriptions

    def __init__(
        self, engine: MatcherEngine, command: AddSubscriptions, owner: int, undo: Undo[Standing], packed: Packed | None
    ) -> None:
        super().__init__(engine, command, len(command), owner, undo)
        self._packed = packed
        self._limited = sorted(command.ttl)
        self._rows = NOBODY
        self._painted = 0
        self._settled = 0

    def lifetimes(self) -> Iterator[tuple[str, float | None]]:
        return ((self.command.ids[i].as_py(), seconds) for i, seconds in self.command.ttl.items())

    @property
    def _left(self) -> int:
        return self.count - self._painted

    def _make_room(self) -> Room:
        matcher, command = self.engine.matcher, self.command
        if not matcher.crowded(self._left):
            return super()._make_room()
        laid_out = matcher.lay_out(command.subscriptions)
        packed = self._packed or pack(command.ids, np.arange(self.count, dtype=np.int32))
        return Room(laid_out, matcher.names.merged(packed._replace(row=laid_out.rows[packed.row])), [])

    def _take_up(self, laid_out: LaidOut) -> None:
        super()._take_up(laid_out)
        self._painted = self.count

    def paint(self, budget: float) -> None:
        if not self._has_room(budget):
            return
        end = min(self.count, self._painted + max(1, int(budget / SECONDS_A_CHANGE)))
        self._rows = self.engine.matcher.hold(self.command.subscriptions.take(slice(self._painted, end)))
        self._painted = end

    def settle(self) -> Slice | None:
        engine, command = self.engine, self.command
        lo, hi = self._settled, self._painted
        if hi == lo:
            return None
        self._swap_names()
        # Those that were laid out with all others are in the merged names.
        first = hi - len(self._rows)
        engine.matcher.names.note(command.ids.slice(first, hi - first), self._rows)
        for i in self._limited[bisect_left(self._limited, lo) : bisect_left(self._limited, hi)]:
            engine.ttl[command.ids[i].as_py()] = command.ttl[i]
        self._settled = hi
        engine.seq = self.first_seq + hi - 1
        if hi == self.count:
            self._finish()
        return None


class SetPlan(EditPlan):
    """One subscription made or changed."""

    command: SetSubscription

    def __init__(
        self, engine: MatcherEngine, command: SetSubscription, owner: int, undo: Undo[Standing], made: bool
    ) -> None:
        super().__init__(engine, command, 1, owner, undo)
        self.made = made
        self._rows = NOBODY

    def lifetimes(self) -> Iterator[tuple[str, float | None]]:
        yield self.command.id, self.command.ttl

    @property
    def _left(self) -> int:
        return 1

    def paint(self, budget: float) -> None:
        if not self._has_room(budget):
            return
        matcher = self.engine.matcher
        if self.made:
            self._rows = matcher.hold(self.command.subscription)
        else:
            self._rows = np.array([matcher.names.find(self.command.id)], np.int32)
            matcher.rewrite(self._rows, self.command.subscription)

    def settle(self) -> Slice | None:
        if not len(self._rows):
            return None
        engine, command = self.engine, self.command
        self._swap_names()
        if self.made:
            engine.matcher.names.note_one(command.id, int(self._rows[0]))
        if command.ttl is None:
            engine.ttl.pop(command.id, None)
        else:
            engine.ttl[command.id] = command.ttl
        engine.seq = self.last_seq
        self._finish()
        return None


class DeletePlan(EditPlan):
    """Subscriptions deleted, some at a time."""

    command: DeleteSubscriptions

    def __init__(self, engine: MatcherEngine, command: DeleteSubscriptions, owner: int, undo: Undo[Standing]) -> None:
        super().__init__(engine, command, len(command), owner, undo)
        self._rows = NOBODY
        self._painted = 0
        self._settled = 0

    def lifetimes(self) -> Iterator[tuple[str, float | None]]:
        return ((key, None) for key in self.command.ids)

    @property
    def _left(self) -> int:
        return self.count - self._painted

    @property
    def _lacks_room(self) -> bool:
        return False

    def paint(self, budget: float) -> None:
        matcher = self.engine.matcher
        end = min(self.count, self._painted + max(1, int(budget / SECONDS_A_CHANGE)))
        keys = self.command.ids[self._painted : end]
        self._rows = np.fromiter(map(matcher.names.find, keys), np.int32, len(keys))
        matcher.withdraw(self._rows)
        self._painted = end

    def settle(self) -> Slice | None:
        engine, lo, hi = self.engine, self._settled, self._painted
        gone = []
        for i, row in enumerate(self._rows.tolist(), lo):
            key = self.command.ids[i]
            engine.matcher.names.delete(key, row)
            engine.ttl.pop(key, None)
            if key in engine.watched:
                engine.watched.discard(key)
                gone.append((self.first_seq + i, key))
        self._settled = hi
        engine.seq = self.first_seq + hi - 1
        if hi == self.count:
            self._finish()
        return Slice(engine.seq, [], gone) if gone and not self.silent else None


class MatchPlan(AnyPlan["MatcherEngine"]):
    """Events matched against what stands in their turn; `found` are their winners, in pieces. With `notify` each takes
    a seq and its winners are told; without it nothing is logged, and nobody hears of it."""

    command: Match

    def __init__(self, engine: MatcherEngine, command: Match, notify: bool) -> None:
        super().__init__(engine, command, len(command) if notify else 0)
        self.found: list[Winners] = []
        self._notify = notify
        self._painted = 0
        self._settled = 0
        self.done = len(command) == 0

    @property
    def results(self) -> list[Result]:
        """The winners, event by event."""
        return [result for part in self.found for result in part.results()]

    @property
    def work(self) -> float:
        if self.silent:
            return 0.0
        return (len(self.command) - self._painted) * self.engine.seconds_per_event(self.command.explain)

    def told(self) -> dict[str, Any]:
        return {"results": [result.fields(self.command.explain) for result in self.results]}

    def paint(self, budget: float) -> None:
        engine, command, lo = self.engine, self.command, self._painted
        if self.silent:
            self._painted = len(command)
            return
        most = min(int(budget / engine.seconds_per_event(command.explain)), WINNERS // command.k)
        self._painted = hi = min(len(command), lo + max(1, most))
        self.found.append(engine.winners(command.events[lo:hi], command.k, command.explain))

    def settle(self) -> Slice | None:
        lo, hi = self._settled, self._painted
        self._settled = hi
        self.done = hi == len(self.command)
        if not self._notify:
            return None
        self.engine.seq = self.first_seq + hi - 1
        if self.silent or not self.engine.watched or hi == lo:
            return None
        wins = list(self._wins(self.found[-1], lo))
        return Slice(self.engine.seq, wins, []) if wins else None

    def _wins(self, found: Winners, first: int) -> Iterator[Win]:
        """What live subscriptions hear of a piece of the events, which begins with event `first`."""
        command, ends = self.command, np.cumsum(found.sizes)
        watched, ids = self.engine.watched, found.ids.to_pylist()
        values: dict[str, Value] = {}
        before = -1
        for place in [at for at, key in enumerate(ids) if key in watched]:
            t = int(np.searchsorted(ends, place, "right"))
            if t != before:
                values, before = values_of(self.engine.config, command.events[first + t]), t
            rank = place - int(ends[t] - found.sizes[t]) + 1
            payload = command.payload.get(first + t)
            score = float(found.scores[place])
            yield Win(self.first_seq + first + t, ids[place], values, payload, rank, score)
