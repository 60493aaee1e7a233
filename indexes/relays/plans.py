"""Accepted commands of a relay on their way: see `indexes.plan`.

What changes subscriptions is done in steps (`relay.Steps`), some at a time. Whatever a slice decides for a link is put
into that link's queue when it is settled, so that a queue is exact at every seq, too. What concerns links themselves is
in `link_plans.py`.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from indexes.beside import Beside
from indexes.names import Merged, Names
from indexes.plan import LONG
from indexes.plan import Plan as AnyPlan
from indexes.promised import Undo
from indexes.relays.commands import (
    AddSubscriptions,
    DeleteSubscriptions,
    EditSubscriptions,
    Notify,
    SetSubscription,
    Standing,
)
from indexes.relays.delivered import FEW, NONE, Deliveries, Gathered
from indexes.relays.forward import SUBSCRIBE, UNSUBSCRIBE
from indexes.relays.inbox import Inbox
from indexes.relays.model import (
    UPSTREAM,
    Delivery,
    Notified,
    RelayConfig,
    Slice,
    Subscribed,
    Unsubscribed,
    shown,
)
from indexes.relays.outbox import Chunk, said
from indexes.relays.points import as_points
from indexes.relays.relay import Outgoing, Ran, Steps

if TYPE_CHECKING:
    from indexes.relays.engine import RelayEngine

Float64 = npt.NDArray[np.float64]

PIECE = 1_000
"""Notifications that are matched in one step at most: what they meet is in memory at once."""

MOST_MET = 1 << 23
"""Subscriptions that the notifications of one step may meet, unless it has but one."""

MOST_NAMED = 1 << 25
"""Subscriptions that an answer names: some hundred megabytes."""

MOST_KEPT = 50_000
"""The same of an answer that is kept under an Idempotency-Key, its links, and the notifications that it is about: some
megabytes in the log."""

SECONDS_A_STEP = 2e-5
"""What a step costs for each neighbour, painted and settled."""

Plan: TypeAlias = AnyPlan["RelayEngine"]
Answer: TypeAlias = Subscribed | Unsubscribed


class Ahead(NamedTuple):
    """What stands of links once everything accepted has been applied: the configuration, how far neighbours are,
    and our epochs."""

    config: RelayConfig
    inboxes: dict[str, Inbox]
    epochs: dict[str, str | None]


class ChangePlan(AnyPlan["RelayEngine"]):
    """What changes subscriptions in steps. `before` is what stood ahead of it."""

    def __init__(self, engine: RelayEngine, command: Any, count: int, before: Ahead | None = None) -> None:
        super().__init__(engine, command, count)
        self._before = engine.ahead if before is None else before
        self._rans: list[Ran] = []
        self._outgoing: list[tuple[str, Outgoing | Chunk]] = []
        self._names: Names | None = None
        self._gone: list[int] = []
        self._merged: Merged | None = None
        self._beside: Beside[Merged] | None = None
        self.done = count == 0

    @property
    def _seconds_a_step(self) -> float:
        return SECONDS_A_STEP * max(1, len(self.engine.relay.neighbours))

    def _has_room(self, budget: float) -> bool:
        """Whether the names have. If not, they are merged beside, and waited for so long."""
        names = self.engine.relay.names
        if self._beside is None:
            if not names.crowded or self._merged is not None:
                return True
            self._beside = Beside(names.merged)
        if not self._beside.done(budget):
            return False
        self._merged, self._beside = self._beside.found, None
        return True

    def _run(self, steps: Steps) -> Ran:
        """Run steps."""
        relay = self.engine.relay
        ran = relay.run(steps)
        if self._rans:
            # What has begun since the last slice is not known by its id yet.
            ran = ran._replace(named=self._rans[-1].named | ran.named)
        self._rans.append(ran)
        self._gone += ran.gone
        self._outgoing += [(name, said(relay.outgoing(ran, name))) for name in ran.told if name != UPSTREAM]
        return ran

    def _rename(self) -> None:
        """Much was run: make the ids anew here, in the thread of the kernels, rather than one by one when it is shown,
        and let go of what was only for that."""
        self._names = self.engine.relay.names_after(self._rans)
        self._rans = []

    def _show(self) -> None:
        """Make visible what was run."""
        relay = self.engine.relay
        if self._names is not None:
            relay.names, self._names, self._merged = self._names, None, None
        else:
            if self._merged is not None:
                relay.names.swap(self._merged)
                self._merged = None
            for ran in self._rans:
                relay.commit(ran)
        for name, outgoing in self._outgoing:
            self.engine.tell(name, outgoing)
        self._rans, self._outgoing = [], []

    def _forget(self, seq: int, keys: list[str], gone: list[tuple[int, str]]) -> None:
        """Subscriptions have ended for good; those that are live are added to `gone`."""
        for key in keys:
            self.engine.ttl.pop(key, None)
            if key in self.engine.watched:
                self.engine.watched.discard(key)
                gone.append((seq, shown(key)))

    def _told(self, told: list[Notified], gone: list[tuple[int, str]]) -> Slice | None:
        return Slice(self.engine.seq, told, gone) if (told or gone) and not self.silent else None

    def cancel(self) -> None:
        self.engine.ahead = self._before
        super().cancel()


class EditPlan(ChangePlan):
    """Subscriptions that clients make and end, some at a time: each element takes a seq. `results` say what each came
    to."""

    def __init__(self, engine: RelayEngine, command: Any, count: int, owner: int, undo: Undo[Standing]) -> None:
        super().__init__(engine, command, count)
        self._owner = owner
        self._undo = undo
        self._painted = 0
        self._settled = 0
        self.results: list[Answer] = []

    @abstractmethod
    def lifetimes(self) -> Iterator[tuple[str, float | None]]:
        """Ids with the seconds that they may stay unused from now on, None for ever or gone. New ones without a limit
        are left out."""

    @abstractmethod
    def _steps(self, lo: int, hi: int) -> Steps:
        """The steps of elements."""

    @abstractmethod
    def _note(self, lo: int, hi: int, gone: list[tuple[int, str]]) -> None:
        """Elements are done: note lifetimes, and what has gone."""

    def told(self) -> dict[str, Any]:
        return {"results": [{"id": answer.id, **answer.fields()} for answer in self.results]}

    @property
    def work(self) -> float:
        waits = self._beside is not None or (self.engine.relay.names.crowded and self._merged is None)
        return LONG if waits else self._seconds_a_step * (self.count - self._painted)

    def paint(self, budget: float) -> None:
        if not self._has_room(budget) or self._painted == self.count:
            return
        lo = self._painted
        hi = min(self.count, lo + max(1, int(budget / self._seconds_a_step)))
        ran = self._run(self._steps(lo, hi))
        self.results += [] if self.silent else self.engine.relay.answers(ran)
        self._painted = hi

    def settle(self) -> Slice | None:
        lo, hi = self._settled, self._painted
        if lo == hi:
            return None
        self._show()
        gone: list[tuple[int, str]] = []
        self._note(lo, hi, gone)
        self._settled = hi
        self.engine.seq = self.first_seq + hi - 1
        if hi == self.count:
            self.done = True
            self.engine.relay.release(self._gone)
            self.engine.bound_queues()
            self.engine.pending.settle(self._owner, self._undo)
        return self._told([], gone)

    def cancel(self) -> None:
        self.engine.pending.take_back(self._owner, self._undo)
        super().cancel()


class AddPlan(EditPlan):
    """New subscriptions."""

    command: AddSubscriptions

    def __init__(self, engine: RelayEngine, command: AddSubscriptions, owner: int, undo: Undo[Standing]) -> None:
        super().__init__(engine, command, len(command), owner, undo)
        self._limited = sorted(command.ttl)

    def lifetimes(self) -> Iterator[tuple[str, float | None]]:
        return ((self.command.ids[i].as_py(), seconds) for i, seconds in self.command.ttl.items())

    def _steps(self, lo: int, hi: int) -> Steps:
        return _of_columns(self.command, np.full(hi - lo, SUBSCRIBE, np.uint8), lo, hi)

    def _note(self, lo: int, hi: int, gone: list[tuple[int, str]]) -> None:
        for i in self._limited[bisect_left(self._limited, lo) : bisect_left(self._limited, hi)]:
            self.engine.ttl[self.command.ids[i].as_py()] = self.command.ttl[i]


class BatchPlan(EditPlan):
    """Subscriptions that begin and end in order."""

    command: EditSubscriptions

    def __init__(self, engine: RelayEngine, command: EditSubscriptions, owner: int, undo: Undo[Standing]) -> None:
        super().__init__(engine, command, len(command), owner, undo)

    def told(self) -> dict[str, Any]:
        rows = enumerate(self.results, self.first_seq)
        return {"results": [{"id": answer.id, "seq": seq, **answer.fields()} for seq, answer in rows]}

    def lifetimes(self) -> Iterator[tuple[str, float | None]]:
        command = self.command
        last = {key: i for i, key in enumerate(command.ids.to_pylist())}
        return ((key, command.ttl.get(i) if command.op[i] == SUBSCRIBE else None) for key, i in last.items())

    def _steps(self, lo: int, hi: int) -> Steps:
        return _of_columns(self.command, self.command.op[lo:hi], lo, hi)

    def _note(self, lo: int, hi: int, gone: list[tuple[int, str]]) -> None:
        keys = self.command.ids.slice(lo, hi - lo).to_pylist()
        for i, (op, key) in enumerate(zip(self.command.op[lo:hi].tolist(), keys, strict=True), lo):
            if op == UNSUBSCRIBE:
                self._forget(self.first_seq + i, [key], gone)
            elif i in self.command.ttl:
                self.engine.ttl[key] = self.command.ttl[i]


class SetPlan(EditPlan):
    """One subscription made, or ended and begun anew, or only given another time limit. `ended` and `begun` say what
    that came to."""

    command: SetSubscription

    def __init__(
        self, engine: RelayEngine, command: SetSubscription, owner: int, undo: Undo[Standing], before: Standing | None
    ) -> None:
        super().__init__(engine, command, 1, owner, undo)
        self.made = before is None
        self._moves = before is None or not before.same_box(standing_of(command))

    @property
    def ended(self) -> Unsubscribed | None:
        """What the end of the old one came to."""
        first = self.results[0] if self.results else None
        return first if isinstance(first, Unsubscribed) else None

    @property
    def begun(self) -> Subscribed | None:
        """What the new one came to."""
        last = self.results[-1] if self.results else None
        return last if isinstance(last, Subscribed) else None

    def told(self) -> dict[str, Any]:
        return {name: value for answer in self.results for name, value in answer.fields().items()}

    def lifetimes(self) -> Iterator[tuple[str, float | None]]:
        yield self.command.id, self.command.ttl

    def _steps(self, lo: int, hi: int) -> Steps:
        command = self.command
        if not self._moves:
            return Steps.ends([], 2 * len(command.lo))
        return replaced(command.id, standing_of(command).point, command.link, new=self.made)

    def _note(self, lo: int, hi: int, gone: list[tuple[int, str]]) -> None:
        if self.command.ttl is None:
            self.engine.ttl.pop(self.command.id, None)
        else:
            self.engine.ttl[self.command.id] = self.command.ttl


class DeletePlan(EditPlan):
    """Subscriptions ended."""

    command: DeleteSubscriptions

    def __init__(self, engine: RelayEngine, command: DeleteSubscriptions, owner: int, undo: Undo[Standing]) -> None:
        super().__init__(engine, command, len(command), owner, undo)

    def lifetimes(self) -> Iterator[tuple[str, float | None]]:
        return ((key, None) for key in self.command.ids)

    def _steps(self, lo: int, hi: int) -> Steps:
        return Steps.ends(self.command.ids[lo:hi], 2 * len(self.engine.config.attributes))

    def _note(self, lo: int, hi: int, gone: list[tuple[int, str]]) -> None:
        for i in range(lo, hi):
            self._forget(self.first_seq + i, [self.command.ids[i]], gone)


class NotifyPlan(AnyPlan["RelayEngine"]):
    """Notifications, some at a time; `found` is who gets them, once it is done. What they meet gets its ids at the end,
    before anything else has its turn."""

    command: Notify

    def __init__(self, engine: RelayEngine, command: Notify) -> None:
        super().__init__(engine, command, len(command))
        self.found = NONE
        self._bytes = sum(map(len, command.payload.values()))
        engine.expect(self.count, self._bytes)
        self._painted = 0
        self._settled = 0
        self._links: list[tuple[str, ...]] = []
        self._heard: dict[int, list[str]] = {}
        self._gathered: Gathered | None = Gathered(MOST_NAMED)
        self._beside: Beside[Deliveries] | None = None
        self._kept: list[dict[str, Any]] = []
        self.done = len(command) == 0

    @property
    def results(self) -> list[Delivery]:
        """Who gets each notification."""
        return list(self.found.results())

    @property
    def work(self) -> float:
        if self._painted == self.count:
            return LONG
        return (self.count - self._painted) * self.engine.seconds_per_notification

    def told(self) -> dict[str, Any]:
        """As it is kept for a retry: the first `MOST_KEPT` subscriptions are named, and as many links."""
        if len(self._kept) < len(self.found):
            self._kept = [delivery.fields() for delivery in self.found.first(MOST_KEPT).results()]
        return {"results": self._kept}

    def paint(self, budget: float) -> None:
        lo, engine = self._painted, self.engine
        if lo == self.count:
            self._name(budget)
            return
        most = min(PIECE, int(budget / engine.seconds_per_notification), MOST_MET // max(1, len(engine.relay)))
        self._painted = hi = min(self.count, lo + max(1, most))
        values, origin = self.command.values[lo:hi], [self.command.links.get(i) for i in range(lo, hi)]
        if self.silent:
            self._links = [tuple(delivery.links) for delivery in engine.deliveries(values, origin, links_alone=True)]
            return
        met = engine.met(values, origin)
        self._links, self._heard = met.links, engine.listeners(met)
        assert self._gathered is not None, "the ids are found at the end"
        self._gathered.add(met)
        if hi == self.count and self._gathered.size <= FEW:
            self._name(budget)

    def _name(self, budget: float) -> None:
        """Find the ids of all that was met, beside where that takes long; wait so long for them."""
        gathered, names = self._gathered, self.engine.relay.names
        if gathered is None:
            return
        if gathered.size > FEW:
            self._beside = self._beside or Beside(lambda: gathered.named(names))
            if not self._beside.done(budget):
                return
        self.found = gathered.named(names) if self._beside is None else self._beside.found
        self._gathered = self._beside = None

    def settle(self) -> Slice | None:
        lo, hi = self._settled, self._painted
        told: list[Notified] = []
        for i, links in enumerate(self._links, lo):
            heard = self._heard.get(i - lo, [])
            if links or heard:
                values, payload = tuple(self.command.values[i].tolist()), self.command.payload.get(i)
                told += self.engine.deliver(self.first_seq + i, values, payload, Delivery(heard, list(links)))
        self._links, self._heard = [], {}
        if hi > lo:
            self._settled = hi
            self.engine.seq = self.first_seq + hi - 1
        if hi == self.count and (self.silent or self._gathered is None) and not self.done:
            self.done = True
            self.engine.expect(-self.count, -self._bytes)
        return Slice(self.engine.seq, told, []) if told and not self.silent else None

    def cancel(self) -> None:
        self.engine.expect(-self.count, -self._bytes)
        super().cancel()


def standing_of(command: SetSubscription) -> Standing:
    """What stands once it is set."""
    return Standing(as_points(command.lo[None], command.hi[None])[0], command.link, command.ttl)


def _of_columns(command: AddSubscriptions | EditSubscriptions, op: npt.NDArray[np.uint8], lo: int, hi: int) -> Steps:
    links = None if command.link is None else command.link.slice(lo, hi - lo).to_pylist()
    keys = command.ids.slice(lo, hi - lo).to_pylist()
    return Steps(op, keys, as_points(command.lo[lo:hi], command.hi[lo:hi]), links)


def replaced(key: str, point: Float64, link: str | None, new: bool) -> Steps:
    """A subscription that begins, or ends and begins anew."""
    op, paired = ([SUBSCRIBE], [False]) if new else ([UNSUBSCRIBE, SUBSCRIBE], [True, False])
    n = len(op)
    return Steps(np.array(op, np.uint8), [key] * n, np.tile(point, (n, 1)), [link] * n, np.array(paired))
